//! Corner turns and unpacking on a GPU: samples as delivered to native ones, as the correlators read them
//! (`docs/layouts.md`).

use std::sync::Arc;

use corrust_gpu::abi::{
    Kernel,
    reorder::{
        CNT_CF16, CNT_CI4, CNT_CI8, CNT_NIBBLES, PLANE_ROWS, PLANE_TIMES, PLANE_WORDS, PLANES_1,
        PLANES_2, PLANES_WORDS_1, PLANES_WORDS_2, Planes, Reorder, TCN_CI4, TCN_CI8, TCN_NIBBLES,
        TCN_WORDS_CF16, TCN_WORDS_CI4, TCN_WORDS_CI8, TCN_WORDS_NIBBLES, TILE_INPUTS, TILE_TIMES,
        WordTurn,
    },
};

use crate::{
    device::gpu::{Gpu, Stream},
    error::Result,
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

/// A kernel that brings samples to their native layout.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    kernel: &'static Kernel<Reorder>,
    /// Inputs and times of a block of threads; none where they share whole rows.
    tile: Option<(u32, u32)>,
}

impl Variant {
    const fn words(turn: &'static WordTurn) -> Self {
        Self { kernel: &turn.kernel, tile: Some((turn.tile_inputs, turn.tile_times)) }
    }

    const fn samples(kernel: &'static Kernel<Reorder>) -> Self {
        Self { kernel, tile: Some((TILE_INPUTS, TILE_TIMES)) }
    }

    const fn rows(kernel: &'static Kernel<Reorder>) -> Self {
        Self { kernel, tile: None }
    }

    /// Kernels that take the samples, the quickest first; at least one.
    ///
    /// # Panics
    /// When the samples are in host memory, or [bits](Native::Bits).
    pub fn of(way: &ToNative<'_>) -> Vec<Self> {
        // A kernel for inputs that fill whole words, and one for any.
        let unpacked = way.samples.element() != Encoding::Ci8.into();
        let (turn, any) = match (way.layout, way.form) {
            (_, Native::Bits) => panic!("words of bits are native as they are"),
            (Layout::Cnt, Native::Nibbles) => return vec![Self::rows(&CNT_NIBBLES)],
            (Layout::Cnt, Native::Int8) if unpacked => return vec![Self::rows(&CNT_CI4)],
            (Layout::Cnt, Native::Int8) => return vec![Self::rows(&CNT_CI8)],
            (Layout::Cnt, Native::Half) => return vec![Self::rows(&CNT_CF16)],
            (Layout::Tcn, Native::Nibbles) => (&TCN_WORDS_NIBBLES, &TCN_NIBBLES),
            (Layout::Tcn, Native::Int8) if unpacked => (&TCN_WORDS_CI4, &TCN_CI4),
            (Layout::Tcn, Native::Int8) => (&TCN_WORDS_CI8, &TCN_CI8),
            (Layout::Tcn, Native::Half) => return vec![Self::words(&TCN_WORDS_CF16)],
        };
        let words = way.samples.extents().inputs.is_multiple_of(turn.word_inputs as usize)
            && way.samples.on_device().0.is_multiple_of(4);
        let any = Self::samples(any);
        if words { vec![Self::words(turn), any] } else { vec![any] }
    }

    /// Name of the kernel.
    pub fn name(&self) -> &'static str {
        self.kernel.entry.name
    }

    /// Enqueues the kernel.
    ///
    /// # Safety
    /// The native samples have room in device memory, and the samples are still there; the variant is one
    /// [of](Self::of) theirs.
    pub unsafe fn launch(
        &self,
        gpu: &Arc<dyn Gpu>,
        stream: Stream,
        way: &ToNative<'_>,
    ) -> Result<()> {
        let Extents { channels, inputs, times } = way.samples.extents();
        let rows = channels * inputs;
        let parameters = Reorder {
            source: way.samples.on_device().0,
            native: way.native,
            row_stride: way.row_bytes as u64,
            source_stride: way.samples.row_stride() as u64,
            inputs: inputs as u32,
            channels: channels as u32,
            times: times as u32,
            native_times: (way.row_bytes / way.form.bytes()) as u32,
            flip: match way.samples.element() {
                Element::Voltage(Encoding::Ci4Offset) => 0x88,
                Element::Count => 0x80,
                Element::Voltage(_) | Element::Word => 0,
            },
            reserved: 0,
        };
        let blocks = match self.tile {
            Some((inputs, times)) => {
                let tiles = parameters.inputs.div_ceil(inputs) * parameters.channels;
                tiles * parameters.native_times.div_ceil(times)
            }
            None => rows.min(1 << 16) as u32,
        };
        // SAFETY: the caller's promise.
        unsafe { gpu.launch(stream, self.kernel, blocks, &parameters) }
    }
}

/// Samples in device memory, and the planes of bits that they become.
#[derive(Clone, Copy, Debug)]
pub struct ToPlanes<'a> {
    /// `ci4` or `ci4-offset` samples of values of so many bits in a GPU's memory, at least one time: `tcn` without
    /// gaps, or rows that are equally far apart with their times side by side.
    pub samples: Samples<'a>,
    /// 1 or 2. Of values of more bits the sign counts, and of 2 bits the lowest bit.
    pub bits: u32,
    /// Device address of the words, `[channel][input][plane][word]`, 16-byte aligned.
    pub words: u64,
}

/// A kernel that makes planes of bits.
#[derive(Clone, Copy, Debug)]
pub struct PlaneVariant {
    kernel: &'static Kernel<Planes>,
    /// Whether a thread reads words of four inputs.
    of_words: bool,
}

impl PlaneVariant {
    /// Kernels that take the samples, the quickest first; at least one.
    ///
    /// # Panics
    /// When the samples are in host memory.
    pub fn of(way: &ToPlanes<'_>) -> Vec<Self> {
        let two = way.bits == 2;
        let of_words =
            Self { kernel: if two { &PLANES_WORDS_2 } else { &PLANES_WORDS_1 }, of_words: true };
        let any = Self { kernel: if two { &PLANES_2 } else { &PLANES_1 }, of_words: false };
        let Extents { channels, inputs, times } = way.samples.extents();
        let turns = way.samples.is_dense(Layout::Tcn)
            && times > 1
            && (channels * inputs).is_multiple_of(4)
            && way.samples.on_device().0.is_multiple_of(4);
        if turns { vec![of_words, any] } else { vec![any] }
    }

    /// Name of the kernel.
    pub fn name(&self) -> &'static str {
        self.kernel.entry.name
    }

    /// Enqueues the kernel.
    ///
    /// # Safety
    /// The words have room in device memory, and the samples are still there; the variant is one [of](Self::of)
    /// theirs.
    pub unsafe fn launch(
        &self,
        gpu: &Arc<dyn Gpu>,
        stream: Stream,
        way: &ToPlanes<'_>,
    ) -> Result<()> {
        let (Extents { channels, inputs, times }, strides) =
            (way.samples.extents(), way.samples.strides());
        let rows = channels * inputs;
        let offset = way.samples.element() == Encoding::Ci4Offset.into();
        let parameters = Planes {
            source: way.samples.on_device().0,
            words: way.words,
            row_stride: way.samples.row_stride() as u64,
            time_stride: if times == 1 { 1 } else { strides.time as u64 },
            rows: rows as u32,
            times: times as u32,
            flip: if offset { 0 } else { 0x88 },
            reserved: 0,
        };
        let words = parameters.times.div_ceil(PLANE_TIMES);
        let blocks = if self.of_words {
            parameters.rows.div_ceil(PLANE_ROWS) * words.div_ceil(PLANE_WORDS)
        } else {
            let pieces = rows as u64 * u64::from(words) * u64::from(PLANE_TIMES / 16);
            pieces.div_ceil(self.kernel.entry.threads.into()).min(1 << 16) as u32
        };
        // SAFETY: the caller's promise.
        unsafe { gpu.launch(stream, self.kernel, blocks, &parameters) }
    }
}
