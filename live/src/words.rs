//! Frames of few bits whose channels are those to correlate, without an F-engine.

use corrust_host::{Encoding, Error, Result, samples::Shape};
use corrust_recordings::formats::{Block, planes};

use super::{
    dumps::Channels,
    frames::{Frames, RawChunk},
    steps::Steps,
    sums::Done,
    window::Passed,
};

/// Makes words of bits of frames of complex samples of 1 or 2 bits: a thread is an input, and its channels are
/// correlated as they are. Word `w` begins at sample `w x 128` after the sync time.
pub struct Words {
    words: planes::Words,
    /// Samples of a channel in a chunk.
    times: usize,
    block: Block,
}

impl Words {
    /// Words of `encoding`, `b1` or `b2`, of frames.
    ///
    /// # Errors
    /// [`Error::Invalid`] of frames of other samples, or whose chunks are no whole words.
    pub fn new(encoding: Encoding, frames: &Frames) -> Result<Self> {
        let words = planes::Words::new(frames.shape(), frames.channels(), encoding);
        let words = words.map_err(Error::invalid)?;
        let (times, word) = (frames.chunk_times(), encoding.times());
        if !times.is_multiple_of(word) {
            return Err(Error::invalid(format!(
                "chunks of {times} times to be words of {encoding}: expected a multiple of {word}"
            )));
        }
        Ok(Self { words, times, block: Block::new() })
    }
}

impl Channels for Words {
    type Chunk = RawChunk;

    fn shape(&self) -> Shape {
        self.words.shape()
    }

    fn add(&mut self, passed: &Passed<RawChunk>, to: &mut Steps, done: Done<'_>) -> Result<()> {
        let Some(chunk) = &passed.chunk else { return Ok(()) };
        let Self { words, times, block } = self;
        words.make(chunk.samples(), *times, &chunk.missing(), block)?;
        let shape = words.shape();
        // Times of the last word that did not come are missing.
        let came = (passed.end - passed.start).next_multiple_of(shape.encoding.times() as u64);
        to.add(block.view(&shape).times(0..came as usize), passed.start, done)
    }

    fn time(&self, end: u64) -> u64 {
        end
    }
}
