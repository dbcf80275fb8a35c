//! Raw samples on the device.

use corrust_gpu::abi::channelise::raw;

use crate::{
    channelise::shape::Shape,
    sample::Encoding,
    samples::raw::{RawEncoding, RawLayout},
};

/// Bytes that rows of samples on the device are aligned to.
pub(super) const ALIGNMENT: usize = 16;

/// Raw samples on the device.
#[derive(Clone, Copy)]
pub(super) struct View {
    /// One of [`raw`].
    pub(super) encoding: u32,
    pub(super) address: u64,
    /// Sample of the stream that lies at `origin`.
    pub(super) start: i64,
    /// Samples from the address to the first.
    pub(super) origin: u64,
    pub(super) input_stride: u64,
    pub(super) time_stride: u64,
}

impl View {
    /// Bits from one sample of an input to the next, and from one input to the next.
    fn strides(shape: &Shape, pitch: usize) -> (u64, u64) {
        let bits = shape.raw.bits();
        match shape.raw_layout {
            RawLayout::Nt => (1, (8 * pitch / bits) as u64),
            RawLayout::Tn => ((8 * pitch / bits) as u64, 1),
        }
    }

    /// A view of samples on the device that lie as those of `block` do.
    pub(super) fn new(shape: &Shape, address: u64, bit: usize, pitch: usize, start: u64) -> Self {
        let (time_stride, input_stride) = Self::strides(shape, pitch);
        let bits = shape.raw.bits();
        Self {
            encoding: encoding(shape.raw),
            address: address + (bit / 8) as u64,
            start: start as i64,
            origin: (bit % 8 / bits) as u64,
            input_stride,
            time_stride,
        }
    }

    /// Samples from the address to the stream's first.
    pub(super) fn offset(&self) -> i64 {
        self.origin as i64 - self.start
    }
}

/// The kernels' number of an encoding.
fn encoding(encoding: RawEncoding) -> u32 {
    match encoding {
        RawEncoding::I8 | RawEncoding::Complex(Encoding::Ci8) => raw::I8,
        RawEncoding::I16 | RawEncoding::Ci16 => raw::I16,
        RawEncoding::F32 | RawEncoding::Cf32 => raw::F32,
        RawEncoding::Complex(Encoding::Cf16) => raw::F16,
        RawEncoding::Complex(Encoding::B1 | Encoding::B2) => unreachable!("checked"),
        RawEncoding::Complex(Encoding::Ci4) => raw::NIBBLES,
        RawEncoding::Complex(Encoding::Ci4Offset) => raw::NIBBLES_OFFSET,
        RawEncoding::Vdif { bits, .. } => raw::CODES + u32::from(bits),
    }
}
