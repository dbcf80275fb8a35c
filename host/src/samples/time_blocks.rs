//! Samples whose axis of time is split in two.

use std::ops::Range;

use super::{
    extents::{Element, Extents, Memory, Strides, memory_bytes},
    missing::Missing,
    view::Samples,
};
use crate::{
    error::{Error, Result},
    sample::Encoding,
};

/// Complete samples in blocks of times, `[channel][block][input][time of the block]`, without gaps: the order that
/// the Tensor-Core Correlator takes. A block of an input has 32 bytes: 16 times of `ci8`, 32 of 4-bit samples, 8
/// of `cf16`.
///
/// ```
/// use corrust_host::{Correlator, Device, Encoding, Layout, samples::TimeBlocks};
///
/// // One channel, two blocks, two inputs.
/// let samples = [[[[[1_i8, 0]; 16], [[0, 2]; 16]]; 2]; 1];
/// let blocks = TimeBlocks::new(samples.as_slice(), 2, 1, Encoding::Ci8)?;
/// let plan = Correlator::builder(2, 1).layout(Layout::Cnt).device(Device::Cpu);
/// let mut plan = plan.build()?;
/// plan.accumulate_blocks(&blocks, &[], None)?;
/// let dump = plan.dump()?;
/// assert_eq!(dump.times, 32);
/// assert_eq!(dump.visibilities.integer().unwrap()[[0, 1]].im, 32 * 2);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TimeBlocks<'a> {
    /// Each block of an input as a word.
    words: Samples<'a>,
    encoding: Encoding,
}

/// Bytes of a block of an input.
const WORD: usize = Element::Word.bytes();

impl<'a> TimeBlocks<'a> {
    /// As many blocks as `memory` holds.
    ///
    /// # Errors
    /// [`Error::Invalid`] for encodings of bits, no channels or inputs, or when `memory` does not hold a whole number
    /// of blocks.
    pub fn new(
        memory: impl Into<Memory<'a>>,
        inputs: usize,
        channels: usize,
        encoding: Encoding,
    ) -> Result<Self> {
        let memory = memory.into();
        if encoding.is_bits() {
            return Err(Error::invalid(format!(
                "{encoding} samples in blocks of times: expected ci8, ci4, ci4-offset or cf16"
            )));
        }
        let bytes = memory_bytes(&memory);
        let step = channels.saturating_mul(inputs).saturating_mul(WORD);
        if step == 0 || !bytes.is_multiple_of(step) {
            return Err(Error::invalid(format!(
                "{bytes} bytes of samples in blocks of times: expected a multiple of {step} ({channels} channels \
                 x {inputs} inputs x {WORD} bytes)"
            )));
        }
        let extents = Extents { channels, inputs, times: bytes / step };
        let time = inputs * WORD;
        let strides = Strides { channel: extents.times * time, input: WORD, time };
        Ok(Self { words: Samples::strided(memory, Element::Word, extents, strides)?, encoding })
    }

    /// Times of a block.
    pub const fn block_times(&self) -> usize {
        WORD / self.encoding.bytes()
    }

    /// Times in all.
    pub fn times(&self) -> usize {
        self.words.extents().times * self.block_times()
    }

    /// Encoding of a sample.
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The blocks as words.
    pub(crate) const fn words(&self) -> &Samples<'a> {
        &self.words
    }

    /// Gaps of a range of blocks, counted from its first time sample.
    pub(crate) fn gaps(&self, missing: &[Missing], blocks: &Range<usize>) -> Vec<Missing> {
        let size = self.block_times();
        let Extents { channels, inputs, .. } = self.words.extents();
        let origin = Extents { channels: 0, inputs: 0, times: blocks.start * size };
        let extents = Extents { channels, inputs, times: blocks.len() * size };
        missing.iter().filter_map(|missing| missing.within(&origin, &extents)).collect()
    }

    /// Ranges of blocks of at most `bytes` bytes, but at least one block.
    pub(crate) fn pieces(&self, bytes: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let Extents { channels, inputs, times } = self.words.extents();
        let step = (bytes / (channels * inputs * WORD)).max(1);
        (0..times).step_by(step).map(move |first| first..times.min(first + step))
    }

    /// Checks that encoding, channels and inputs match a plan.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(crate) fn check(&self, inputs: usize, channels: usize, encoding: Encoding) -> Result<()> {
        let Extents { channels: c, inputs: n, .. } = self.words.extents();
        if self.encoding != encoding {
            return Err(Error::invalid(format!(
                "samples of {}: expected {}",
                self.encoding,
                Element::from(encoding)
            )));
        }
        if (c, n) != (channels, inputs) {
            return Err(Error::invalid(format!(
                "samples of {c} channels and {n} inputs: expected {channels} and {inputs}"
            )));
        }
        Ok(())
    }
}
