//! Frames of few bits whose channels are those to correlate, without an F-engine.

use corrust_host::{Correlator, Encoding, Error, Result, samples::Shape};
use corrust_recordings::formats::{Block, planes};

use super::{
    chunks::Passed,
    dumps::{Channels, Integrator, LiveDump, Sums},
    frames::{Frames, RawChunk},
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

    /// Shape of the words for a correlator.
    pub fn shape(&self) -> Shape {
        self.words.shape()
    }
}

impl Channels for Words {
    type Chunk = RawChunk;

    fn add(
        &mut self,
        passed: &Passed<RawChunk>,
        sums: &mut Sums,
        done: &mut dyn FnMut(&LiveDump) -> Result<()>,
    ) -> Result<()> {
        let Some(chunk) = &passed.chunk else { return Ok(()) };
        let Self { words, times, block } = self;
        words.make(chunk.samples(), *times, &chunk.missing(), block)?;
        let shape = words.shape();
        // Times of the last word that did not come are missing.
        let came = (passed.end - passed.start).next_multiple_of(shape.encoding.times() as u64);
        sums.add(block.view(&shape).times(0..came as usize), passed.start, done)
    }

    fn time(&self, end: u64) -> u64 {
        end
    }
}

impl Integrator<Words> {
    /// Dumps of `integration` samples of each channel.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the correlator's shape is not that of the words, or the integration is no whole number
    /// of words.
    pub fn words(correlator: Correlator, words: Words, integration: u64) -> Result<Self> {
        let sums = Sums::new(correlator, &words.shape(), integration)?;
        Ok(Self::over(sums, words))
    }
}
