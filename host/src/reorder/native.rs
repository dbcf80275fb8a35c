//! Corner turns and unpacking on a GPU: samples as delivered to native ones, as the correlators read them
//! (`docs/layouts.md`).

use corrust_gpu::abi::{
    Kernel,
    reorder::{
        CNT_CF16, CNT_CI4, CNT_CI8, CNT_NIBBLES, Reorder, TCN_CI4, TCN_CI8, TCN_NIBBLES,
        TCN_WORDS_CF16, TCN_WORDS_CI4, TCN_WORDS_CI8, TCN_WORDS_NIBBLES, TILE_INPUTS, TILE_TIMES,
    },
};

use super::prepared::Prepared;
use crate::{
    layout::Layout,
    sample::Encoding,
    samples::{
        extents::{Element, Extents},
        view::Samples,
    },
};

/// Bytes that native rows are aligned to.
pub const ROW_ALIGNMENT: usize = 16;

/// Form of native samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    /// Pairs of int8: `ci8` as it is, `ci4` and `ci4-offset` unpacked.
    Int8,
    /// Pairs of half-precision numbers: `cf16`.
    Half,
    /// `ci4`, for kernels that unpack it themselves.
    Nibbles,
    /// Words of bits, which are native as they are.
    Bits,
}

impl Native {
    /// Form that most kernels take samples of `encoding` in.
    pub const fn of(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Cf16 => Self::Half,
            Encoding::B1 | Encoding::B2 => Self::Bits,
            _ => Self::Int8,
        }
    }

    /// Bytes of one sample.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Int8 => 2,
            Self::Half => 4,
            Self::Nibbles => 1,
            Self::Bits => Encoding::B1.bytes(),
        }
    }
}

/// Samples in device memory, and the native ones that they become.
#[derive(Clone, Copy, Debug)]
pub struct ToNative<'a> {
    /// Voltages in a GPU's memory: `tcn` without gaps, or `cnt` in rows that are equally far apart.
    pub samples: Samples<'a>,
    /// Which of these.
    pub layout: Layout,
    /// Form to convert to: what [`Native::of`] gives for their encoding, or [`Native::Nibbles`] for 4-bit samples and
    /// for counts, which become int8: 128 less.
    pub form: Native,
    /// Device address of the native samples, `[channel][input][row_bytes]`, 16-byte aligned.
    pub native: u64,
    /// Bytes of a native row, a multiple of [`ROW_ALIGNMENT`]; beyond the times they become zero.
    pub row_bytes: usize,
}

impl ToNative<'_> {
    /// Kernels that take the samples, the quickest first; at least one.
    ///
    /// # Panics
    /// When the samples are in host memory, or [bits](Native::Bits).
    pub fn kernels(&self) -> Vec<Prepared<Reorder>> {
        let unpacked = self.samples.element() != Encoding::Ci8.into();
        // A kernel for inputs that fill whole words, and one for any.
        let (words, any) = match (self.layout, self.form) {
            (_, Native::Bits) => panic!("words of bits are native as they are"),
            (Layout::Cnt, Native::Nibbles) => return vec![self.prepared(CNT_NIBBLES, None)],
            (Layout::Cnt, Native::Int8) if unpacked => return vec![self.prepared(CNT_CI4, None)],
            (Layout::Cnt, Native::Int8) => return vec![self.prepared(CNT_CI8, None)],
            (Layout::Cnt, Native::Half) => return vec![self.prepared(CNT_CF16, None)],
            (Layout::Tcn, Native::Nibbles) => (TCN_WORDS_NIBBLES, Some(TCN_NIBBLES)),
            (Layout::Tcn, Native::Int8) if unpacked => (TCN_WORDS_CI4, Some(TCN_CI4)),
            (Layout::Tcn, Native::Int8) => (TCN_WORDS_CI8, Some(TCN_CI8)),
            (Layout::Tcn, Native::Half) => (TCN_WORDS_CF16, None),
        };
        let whole = self.samples.extents().inputs.is_multiple_of(words.word_inputs as usize)
            && self.samples.on_device().0.is_multiple_of(4);
        let tile = Some((words.tile_inputs, words.tile_times));
        let words = (whole || any.is_none()).then(|| self.prepared(words.kernel, tile));
        let any = any.map(|kernel| self.prepared(kernel, Some((TILE_INPUTS, TILE_TIMES))));
        words.into_iter().chain(any).collect()
    }

    /// A kernel with the inputs and times of a block of threads; none where blocks share whole rows.
    fn prepared(&self, kernel: Kernel<Reorder>, tile: Option<(u32, u32)>) -> Prepared<Reorder> {
        let Extents { channels, inputs, times } = self.samples.extents();
        let parameters = Reorder {
            source: self.samples.on_device().0,
            native: self.native,
            row_stride: self.row_bytes as u64,
            source_stride: self.samples.row_stride() as u64,
            inputs: inputs as u32,
            channels: channels as u32,
            times: times as u32,
            native_times: (self.row_bytes / self.form.bytes()) as u32,
            flip: match self.samples.element() {
                Element::Voltage(Encoding::Ci4Offset) => 0x88,
                Element::Count => 0x80,
                Element::Voltage(_) | Element::Word => 0,
            },
            reserved: 0,
        };
        let blocks = match tile {
            Some((inputs, times)) => {
                let tiles = parameters.inputs.div_ceil(inputs) * parameters.channels;
                tiles * parameters.native_times.div_ceil(times)
            }
            None => (channels * inputs).min(1 << 16) as u32,
        };
        Prepared { kernel, blocks, parameters, strip: None }
    }
}
