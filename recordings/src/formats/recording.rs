//! Recordings, and the blocks in which they are read.

use std::{ops::Range, sync::Arc};

use corrust_host::{
    Layout, Result, Samples,
    device::{Gpu, HostBytes},
    quantise::Quantised,
    samples::{
        CountShape, Extents, Memory, Missing, RawLayout, RawSamples, RawShape, Shape, clear,
        missing_within,
    },
};

use super::bits;
use crate::array::{
    file::{Channels, PhaseCenter},
    time::Timestamp,
};

/// A recording of voltages, read once from its first time to its last: channelised ones (`S` is
/// [`Shape`]), or raw ones ([`RawShape`]), of which a time is a sample of every input.
pub trait Recording<S = Shape>: Send {
    /// Inputs, channels, encoding, and the layout of the blocks.
    fn shape(&self) -> S;

    /// Number of times in the whole recording, missing ones included; `u64::MAX` for a stream that shows
    /// only at its end how long it is.
    fn times(&self) -> u64;

    /// Seconds from one time to the next, where the file says so.
    fn interval(&self) -> Option<f64>;

    /// Start of the first time, where the file says it.
    fn start(&self) -> Option<Timestamp> {
        None
    }

    /// Frequencies of the channels, where the file says so.
    fn frequencies(&self) -> Option<Channels> {
        None
    }

    /// Centre and width of the band of all channels on the sky, hertz, the width negative where frequencies descend, where
    /// the file says so.
    fn band(&self) -> Option<[f64; 2]> {
        None
    }

    /// Name and direction of the source, where the file says so.
    fn source(&self) -> Option<PhaseCenter> {
        None
    }

    /// Circularity of noise in each channel, `|E[x^2]| / E[|x|^2]`, where it is known: 0 for complex noise, 1 for real samples.
    /// Channels beyond the last have complex noise. [`Judge`](corrust_host::kurtosis::Judge) takes it.
    fn circularity(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Whether inputs can be lost separately: samples of channels may be missing of some inputs alone.
    fn loses_by_input(&self) -> bool {
        false
    }

    /// Number of polarisations of an antenna, where the format puts their inputs side by side: input = antenna x polarisations
    /// + polarisation. 1 where it says nothing of antennas.
    fn polarisations(&self) -> usize {
        1
    }

    /// Quantisation by which samples of few bits were made of others, of each file that says it.
    fn quantised(&self) -> &[Quantised] {
        &[]
    }

    /// Other facts in the headers, for people to read: names and values, the format first.
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Reads the next `times` times, fewer at the end of the recording, into `block` and returns
    /// how many; 0 means that the recording has ended. Of `b1` and `b2` `times` is rounded up to whole words, of which
    /// all but the last are filled.
    ///
    /// # Errors
    /// [`Error::Io`](corrust_host::Error::Io) and [`Error::File`](corrust_host::Error::File) when a file cannot be read or has changed since it was
    /// opened; [`Error::OutOfMemory`](corrust_host::Error::OutOfMemory) when a pipe promises more than fits into memory.
    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize>;

    /// The stretches of times of the whole recording that are missing, ascending and apart.
    fn gaps(&self) -> &[Range<u64>] {
        &[]
    }

    /// Passes over the next `times` times (whole words of `b1` and `b2`), or all that are left, without reading them;
    /// pipes are read all the same, and in VDIF and Mark 5B up to 64 MiB before the next time, where its frames may
    /// stand if they are early.
    ///
    /// # Errors
    /// As for [`read_block`](Self::read_block).
    fn skip(&mut self, times: u64) -> Result<()>;

    /// Sentence about data that the recording should have had and is read without.
    fn left_out(&self) -> Option<&str> {
        None
    }

    /// Sentence about contradictions between the caller's [`Options`](super::Options) and the recording's headers: the caller
    /// counts.
    fn contradiction(&self) -> Option<&str> {
        None
    }
}

/// Consecutive times of a recording. Reusing one block for every read avoids reallocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Samples in the recording's encoding and layout; missing ones of channelised voltages have the value
    /// zero.
    pub samples: HostBytes,
    /// Number of times.
    pub times: usize,
    /// Missing samples, counted from the block's start. Ranges of channelised voltages are ascending and disjoint in time,
    /// with all channels and inputs missing, except in VDIF and live streams; raw samples and words of bits are missing input by input, and their bytes
    /// have no meaning.
    pub missing: Vec<Missing>,
    /// Times that are missing before the block's first one and have no samples here: [`BlocksOf`](crate::run::BlocksOf)
    /// passes over gaps that are longer than a block, live streams over gaps of whole blocks.
    pub gap: u64,
}

impl Block {
    /// An empty block.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty block whose samples are to be in memory that a GPU has locked, if there is one.
    pub fn locked_for(gpu: Option<&Arc<dyn Gpu>>) -> Self {
        Self { samples: HostBytes::locked_for(gpu), ..Self::default() }
    }

    /// A block of `times` times that are all missing.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](corrust_host::Error::OutOfMemory).
    pub fn missing(shape: &Shape, times: usize) -> Result<Self> {
        let mut block = Self::new();
        block.reset(shape, times)?;
        if times > 0 {
            block.mark_missing(shape, 0..times);
        }
        Ok(block)
    }

    /// Number of times within `range` that are missing, of an input at least.
    pub fn missing_within(&self, range: &Range<usize>) -> usize {
        missing_within(&self.missing, range)
    }

    /// The samples as a view, with the list of missing ones.
    ///
    /// # Panics
    /// When the block is not of this shape.
    pub fn view(&self, shape: &Shape) -> Samples<'_> {
        assert_eq!(self.samples.len(), shape.bytes(self.times), "another shape");
        let Shape { channels, encoding, layout, .. } = *shape;
        let extents = Extents { channels, inputs: shape.inputs, times: self.times };
        Samples::dense(self.samples[..].into(), encoding.into(), layout, extents)
            .missing(&self.missing)
    }

    /// The raw samples as a view, with the list of missing ones.
    ///
    /// # Panics
    /// When the block is not of this shape.
    pub fn raw(&self, shape: &RawShape) -> RawSamples<'_> {
        assert_eq!(self.samples.len(), shape.bytes(self.times), "another shape");
        let RawShape { inputs, encoding, layout } = *shape;
        let pitch = shape.pitch(self.times);
        RawSamples::strided(&self.samples[..], encoding, layout, [inputs, self.times], pitch)
            .expect("a block holds its samples")
            .missing(&self.missing)
    }

    /// Makes room for `times` times of `shape`, nothing missing; the samples are to be filled in.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](corrust_host::Error::OutOfMemory): through a pipe a header can promise more than there will be.
    pub fn reset(&mut self, shape: &Shape, times: usize) -> Result<()> {
        self.reset_bytes(shape.bytes(times), times)
    }

    /// [`reset`](Self::reset) of `times` times that take `bytes` bytes.
    ///
    /// # Errors
    /// As for [`reset`](Self::reset).
    pub fn reset_bytes(&mut self, bytes: usize, times: usize) -> Result<()> {
        self.samples.resize(bytes)?;
        self.times = times;
        self.missing.clear();
        self.gap = 0;
        Ok(())
    }

    /// Fills times from `first` on with raw samples in host memory; their list of missing ones is ignored.
    ///
    /// # Panics
    /// When the block is not of this shape, or has fewer times.
    pub fn put_raw(&mut self, shape: &RawShape, first: usize, samples: &RawSamples<'_>) {
        let RawShape { inputs, encoding, layout } = *shape;
        let Memory::Host(bytes) = samples.memory() else { panic!("samples in a GPU's memory") };
        let (pitch, count) = (8 * shape.pitch(self.times), samples.len());
        assert!(first + count <= self.times, "{count} times from {first} on");
        let mut copy = |to, from, samples| {
            bits::copy(&mut self.samples, to, bytes, from, samples * encoding.bits());
        };
        match layout {
            RawLayout::Nt => (0..inputs).for_each(|input| {
                let to = input * pitch + first * encoding.bits();
                copy(to, samples.bit(input, 0), count);
            }),
            // Times of both lie one after the other.
            RawLayout::Tn if samples.pitch() == shape.pitch(0) => {
                copy(first * pitch, samples.bit(0, 0), count * inputs);
            }
            RawLayout::Tn => (0..count).for_each(|time| {
                copy((first + time) * pitch, samples.bit(0, time), inputs);
            }),
        }
    }

    /// Makes room for counts of two bytes, all of them 0, and calls `fill` on them.
    pub(crate) fn fill_counts(
        &mut self,
        shape: CountShape,
        times: usize,
        fill: impl FnOnce(&mut [u16]) -> Result<()>,
    ) -> Result<()> {
        self.reset_bytes(times * shape.bytes(), times)?;
        self.samples.fill(0);
        if let Ok(counts) = bytemuck::try_cast_slice_mut(&mut self.samples) {
            fill(counts)?;
            // The low byte comes first, whatever the machine.
            counts.iter_mut().for_each(|count| *count = count.to_le());
            return Ok(());
        }
        // The memory is not where numbers of 16 bits can be.
        let mut counts = vec![0_u16; times * shape.sensors];
        fill(&mut counts)?;
        let bytes = self.samples.as_chunks_mut().0;
        bytes.iter_mut().zip(counts).for_each(|(to, count)| *to = count.to_le_bytes());
        Ok(())
    }

    /// Gives missing samples of integers the value zero.
    pub fn clear(&mut self, shape: &Shape, missing: &[Missing]) {
        clear(&mut self.samples, shape, self.times, missing);
    }

    /// Marks `range` as missing and gives its samples the value zero.
    pub(super) fn mark_missing(&mut self, shape: &Shape, range: Range<usize>) {
        let zero = shape.encoding.zero();
        let fill = |samples: &mut [u8]| {
            samples.chunks_exact_mut(zero.len()).for_each(|sample| sample.copy_from_slice(zero));
        };
        match shape.layout {
            Layout::Tcn => {
                let step = shape.bytes_per_time();
                fill(&mut self.samples[range.start * step..range.end * step]);
            }
            Layout::Cnt => {
                let word = shape.encoding.times();
                let bytes = |times: usize| times.div_ceil(word) * zero.len();
                for row in self.samples.chunks_exact_mut(bytes(self.times)) {
                    fill(&mut row[range.start / word * zero.len()..bytes(range.end)]);
                }
            }
        }
        match self.missing.last_mut() {
            Some(last) if last.times.end == range.start => last.times.end = range.end,
            _ => self.missing.push(Missing::times(range)),
        }
    }
}

/// Bytes that are passed over at once.
const PASSED_BYTES: usize = 1 << 20;

/// Reads and discards the next `times` times, `step` bytes each: of a pipe, or where their end is unknown.
pub(crate) fn read_past<S>(
    recording: &mut impl Recording<S>,
    mut times: u64,
    step: usize,
) -> Result<()> {
    let at_once = (PASSED_BYTES / step.max(1)).max(1);
    let mut block = Block::new();
    while times > 0 {
        let count = usize::try_from(times).map_or(at_once, |times| times.min(at_once));
        let read = recording.read_block(count, &mut block)?;
        if read == 0 {
            break;
        }
        times -= read as u64;
    }
    Ok(())
}
