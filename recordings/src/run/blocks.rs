//! Kinds of samples that are read piece by piece, and sources of their blocks.

use std::ops::Range;

use corrust_host::{
    Result, Samples,
    samples::{CountShape, Missing, RawSamples, RawShape, Shape},
};

use crate::formats::{Block, ahead::ReadAhead};

/// Kind of samples that can be read piece by piece: voltages of channels ([`Shape`]), raw ones
/// ([`RawShape`]), counts of photons ([`CountShape`]).
pub trait Recorded: Copy + Send + 'static {
    /// Some times of a block.
    type View<'a>;

    /// Times that are stored together: more than 1 of bits.
    fn word(&self) -> u64 {
        1
    }

    /// The samples in `range` of a block.
    fn view<'a>(&self, block: &'a Block, range: Range<usize>) -> Self::View<'a>;

    /// A block of `times` times, all missing.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](corrust_host::Error::OutOfMemory).
    fn nothing(&self, times: usize) -> Result<Block>;
}

impl Recorded for Shape {
    type View<'a> = Samples<'a>;

    fn word(&self) -> u64 {
        self.encoding.times() as u64
    }

    fn view<'a>(&self, block: &'a Block, range: Range<usize>) -> Samples<'a> {
        block.view(self).times(range)
    }

    fn nothing(&self, times: usize) -> Result<Block> {
        Block::missing(self, times)
    }
}

impl Recorded for RawShape {
    type View<'a> = RawSamples<'a>;

    fn view<'a>(&self, block: &'a Block, range: Range<usize>) -> RawSamples<'a> {
        block.raw(self).times(range)
    }

    fn nothing(&self, times: usize) -> Result<Block> {
        let mut block = Block::new();
        block.reset_bytes(self.bytes(times), times)?;
        block.missing.push(Missing::times(0..times));
        Ok(block)
    }
}

impl Recorded for CountShape {
    /// Counts `[instant][sensor]`; of two bytes the low one comes first.
    type View<'a> = &'a [u8];

    fn view<'a>(&self, block: &'a Block, range: Range<usize>) -> &'a [u8] {
        &block.samples[range.start * self.bytes()..range.end * self.bytes()]
    }

    fn nothing(&self, times: usize) -> Result<Block> {
        let mut block = Block::new();
        block.fill_counts(*self, times, |_| Ok(()))?;
        Ok(block)
    }
}

/// Blocks of a recording, one after the other.
pub(super) trait Blocks<S: Recorded>: Send {
    /// Goes on to the next block, and says how long the gap before it is and how many times it has; [`None`]
    /// after the last.
    fn next_block(&mut self) -> Result<Option<(u64, usize)>>;

    /// Times of the current block within `range` that are missing.
    fn missing_within(&self, range: &Range<usize>) -> usize;

    /// The samples in `range` of the current block.
    fn view(&self, shape: &S, range: Range<usize>) -> S::View<'_>;

    /// Samples of each input that an F-engine has clipped so far; none without one.
    fn clipped(&self) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }
}

impl<S: Recorded> Blocks<S> for ReadAhead {
    fn next_block(&mut self) -> Result<Option<(u64, usize)>> {
        Ok(self.next_block()?.map(|block| (block.gap, block.times)))
    }

    fn missing_within(&self, range: &Range<usize>) -> usize {
        self.current().missing_within(range)
    }

    fn view(&self, shape: &S, range: Range<usize>) -> S::View<'_> {
        shape.view(self.current(), range)
    }
}
