//! Planes of bits on a GPU.

use corrust_gpu::abi::reorder::{
    PLANE_ROWS, PLANE_TIMES, PLANE_WORDS, PLANES_1, PLANES_2, PLANES_WORDS_1, PLANES_WORDS_2,
    Planes,
};

use super::prepared::Prepared;
use crate::{
    layout::Layout,
    sample::Encoding,
    samples::{extents::Extents, view::Samples},
};

/// Samples in device memory, and the planes of bits that they become.
#[derive(Clone, Copy, Debug)]
pub struct ToPlanes<'a> {
    /// `ci4` or `ci4-offset` samples of `bits`-bit values in a GPU's memory, at least one time sample: `tcn` without
    /// gaps, or rows at equal distances with contiguous time samples.
    pub samples: Samples<'a>,
    /// 1 or 2. Values of more bits keep their sign and, for 2 bits, their lowest bit.
    pub bits: u32,
    /// Device address of the words, `[channel][input][plane][word]`, 16-byte aligned.
    pub words: u64,
}

impl ToPlanes<'_> {
    /// Kernels that take the samples, the quickest first; at least one.
    ///
    /// # Panics
    /// When the samples are in host memory.
    pub fn kernels(&self) -> Vec<Prepared<Planes>> {
        let (Extents { channels, inputs, times }, strides) =
            (self.samples.extents(), self.samples.strides());
        let rows = channels * inputs;
        let source = self.samples.on_device().0;
        let offset = self.samples.element() == Encoding::Ci4Offset.into();
        let parameters = Planes {
            source,
            words: self.words,
            row_stride: self.samples.row_stride() as u64,
            time_stride: if times == 1 { 1 } else { strides.time as u64 },
            rows: rows as u32,
            times: times as u32,
            flip: if offset { 0 } else { 0x88 },
            reserved: 0,
        };
        let words = parameters.times.div_ceil(PLANE_TIMES);
        let two = self.bits == 2;
        // A thread reads words of four inputs.
        let of_words = Prepared {
            kernel: if two { PLANES_WORDS_2 } else { PLANES_WORDS_1 },
            blocks: parameters.rows.div_ceil(PLANE_ROWS) * words.div_ceil(PLANE_WORDS),
            parameters,
            strip: None,
        };
        let kernel = if two { PLANES_2 } else { PLANES_1 };
        let pieces = rows as u64 * u64::from(words) * u64::from(PLANE_TIMES / 16);
        let blocks = pieces.div_ceil(kernel.entry.threads.into()).min(1 << 16) as u32;
        let any = Prepared { kernel, blocks, ..of_words };
        let whole = self.samples.is_dense(Layout::Tcn)
            && times > 1
            && rows.is_multiple_of(4)
            && source.is_multiple_of(4);
        if whole { vec![of_words, any] } else { vec![any] }
    }
}
