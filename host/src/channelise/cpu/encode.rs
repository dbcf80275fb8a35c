//! Numbers from and to bytes.

use corrust_gpu::abi::channelise::LEVELS_2;
use half::f16;

use crate::{channelise::shape::SpectrumEncoding, sample::Encoding, samples::raw::RawEncoding};

/// Components from number `first` on of an input's row of `bytes`; infinities and NaN become zero. The real
/// component precedes the imaginary one, whatever the bytes' order.
pub(crate) fn decode(bytes: &[u8], encoding: RawEncoding, first: usize, to: &mut [f32]) {
    let bits = encoding.component_bits();
    match encoding {
        RawEncoding::I8 | RawEncoding::Complex(Encoding::Ci8) => {
            for (to, &byte) in to.iter_mut().zip(&bytes[first..]) {
                *to = f32::from(byte as i8);
            }
        }
        RawEncoding::I16 | RawEncoding::Ci16 => {
            for (to, bytes) in to.iter_mut().zip(bytes[2 * first..].as_chunks().0) {
                *to = f32::from(i16::from_le_bytes(*bytes));
            }
        }
        RawEncoding::F32 | RawEncoding::Cf32 => {
            for (to, bytes) in to.iter_mut().zip(bytes[4 * first..].as_chunks().0) {
                *to = finite(f32::from_le_bytes(*bytes));
            }
        }
        RawEncoding::Complex(Encoding::B1 | Encoding::B2) => unreachable!("checked"),
        RawEncoding::Complex(Encoding::Cf16) => {
            for (to, bytes) in to.iter_mut().zip(bytes[2 * first..].as_chunks().0) {
                *to = finite(f16::from_le_bytes(*bytes).to_f32());
            }
        }
        RawEncoding::Complex(Encoding::Ci4 | Encoding::Ci4Offset) => {
            let flip = if encoding == Encoding::Ci4.into() { 0x88 } else { 0 };
            debug_assert!(first.is_multiple_of(2));
            for (to, &byte) in to.as_chunks_mut::<2>().0.iter_mut().zip(&bytes[first / 2..]) {
                let byte = byte ^ flip;
                *to = [f32::from(byte >> 4) - 8.0, f32::from(byte & 15) - 8.0];
            }
        }
        RawEncoding::Vdif { bits: 8, .. } => {
            for (to, &byte) in to.iter_mut().zip(&bytes[first..]) {
                *to = f32::from(byte) - 127.5;
            }
        }
        RawEncoding::Vdif { bits: 16, .. } => {
            for (to, bytes) in to.iter_mut().zip(bytes[2 * first..].as_chunks().0) {
                *to = f32::from(u16::from_le_bytes(*bytes)) - 32767.5;
            }
        }
        RawEncoding::Vdif { .. } => {
            let level = |code: u32| match bits {
                1 => [-1.0, 1.0][code as usize & 1],
                2 => LEVELS_2[code as usize & 3],
                _ => (code & 15) as f32 - 8.0,
            };
            for (index, to) in to.iter_mut().enumerate() {
                let bit = (first + index) * bits;
                *to = level(u32::from(bytes[bit / 8]) >> (bit % 8));
            }
        }
    }
}

fn finite(value: f32) -> f32 {
    if value.is_finite() { value } else { 0.0 }
}

/// Encodes pairs of components, and returns of how many one was clamped.
#[inline(always)]
pub(crate) fn encode(numbers: &[f32], encoding: SpectrumEncoding, to: &mut [u8]) -> u64 {
    let pairs = numbers.as_chunks::<2>().0;
    match encoding {
        SpectrumEncoding::Voltage(Encoding::Ci8) => {
            for (to, number) in to.iter_mut().zip(numbers) {
                *to = number.round_ties_even().clamp(-127.0, 127.0) as i8 as u8;
            }
            clipped(pairs, 127.0)
        }
        SpectrumEncoding::Voltage(Encoding::Ci4) => {
            for (to, &pair) in to.iter_mut().zip(pairs) {
                let [re, im] = pair.map(|x| x.round_ties_even().clamp(-7.0, 7.0) as i8 as u8 & 15);
                *to = re << 4 | im;
            }
            clipped(pairs, 7.0)
        }
        SpectrumEncoding::Voltage(Encoding::Ci4Offset) => {
            for (to, &pair) in to.iter_mut().zip(pairs) {
                let [re, im] = pair.map(|x| (x.round_ties_even().clamp(-7.0, 7.0) as i8 + 8) as u8);
                *to = re << 4 | im;
            }
            clipped(pairs, 7.0)
        }
        SpectrumEncoding::Voltage(Encoding::B1 | Encoding::B2) => unreachable!("checked"),
        SpectrumEncoding::Voltage(Encoding::Cf16) => {
            for (to, &number) in to.as_chunks_mut::<2>().0.iter_mut().zip(numbers) {
                *to = f16::from_f32(number).to_le_bytes();
            }
            0
        }
        SpectrumEncoding::Cf32 => {
            for (to, number) in to.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
                *to = number.to_le_bytes();
            }
            0
        }
    }
}

/// Pairs of which a component is beyond `limit` when rounded.
#[inline(always)]
fn clipped(pairs: &[[f32; 2]], limit: f32) -> u64 {
    let beyond = |number: f32| number.round_ties_even().abs() > limit;
    let count: u32 = pairs.iter().map(|&[re, im]| u32::from(beyond(re) | beyond(im))).sum();
    count.into()
}
