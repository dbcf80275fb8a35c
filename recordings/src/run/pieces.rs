//! A recording piece by piece.

use std::{
    borrow::Borrow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use corrust_host::{Error, Result, device::Gpu, samples::Shape};

use super::blocks::{Blocks, Recorded};
use crate::formats::{Block, Recording, ahead::ReadAhead};

/// How far the work on a recording has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Times that are done, missing ones included.
    pub done: u64,
    /// Times to do.
    pub times: u64,
}

/// Consecutive times of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Piece<View> {
    /// The first of them, counted from the recording's first.
    pub start: u64,
    /// How many they are.
    pub times: u64,
    /// Number of missing times; of spectra and of bits, of times that some input misses.
    pub missing: u64,
    /// The samples, with what is missing, in the recording's encoding and layout: without gaps in host
    /// memory, but for a piece of `cnt` samples cut out of a longer block; spectra in the memory of the
    /// F-engine's GPU. [`None`] within a gap longer than a block: all are missing, and nothing is to be
    /// computed.
    pub samples: Option<View>,
}

/// Cuts a recording into pieces for a plan. It reads ahead, in a thread of its own, from the first piece
/// on: at most three blocks are in memory.
///
/// ```
/// use corrust_host::Result;
/// use corrust_recordings::{formats::Recording, run::Pieces};
///
/// /// Bytes of the samples that a recording holds.
/// fn bytes(recording: Box<dyn Recording>) -> Result<usize> {
///     let mut pieces = Pieces::over(recording, 4096);
///     let mut bytes = 0;
///     while let Some(piece) = pieces.next_piece(u64::MAX)? {
///         bytes += piece.samples.map_or(0, |samples| samples.bytes());
///     }
///     Ok(bytes)
/// }
/// ```
pub struct Pieces<'a, S: Recorded = Shape> {
    shape: S,
    recorded: u64,
    /// Noise of the channels, as [`Recording::circularity`] has it.
    circularity: Vec<f64>,
    block_times: usize,
    /// Times to read.
    times: u64,
    done: u64,
    /// Times of a gap that have samples, because delayed ones still come out there.
    delay: u64,
    source: Source<S>,
    /// GPU that the blocks' memory is locked for.
    gpu: Option<Arc<dyn Gpu>>,
    /// Block of such samples.
    delayed: Block,
    left: Left,
    /// Times of the current block.
    block: usize,
    cancel: Option<Box<dyn Fn() -> bool + Send + 'a>>,
    progress: Option<Box<dyn FnMut(Progress) + Send + 'a>>,
}

/// Times of the current gap and of the block after it that have not been handed out.
#[derive(Clone, Copy, Default, PartialEq)]
struct Left {
    /// Times of the gap into which samples are delayed.
    delayed: u64,
    /// Times of the gap without samples.
    silent: u64,
    /// Times of the block.
    present: u64,
}

/// Kind of the times that come next.
enum Phase {
    Delayed,
    Silent,
    Present,
}

impl Left {
    /// Takes up to `most` times of what comes next, of which something is left; of delayed ones at most a block.
    fn take(&mut self, most: u64, block: u64) -> (Phase, u64) {
        let (phase, left, most) = match self {
            Self { delayed: 1.., .. } => (Phase::Delayed, &mut self.delayed, most.min(block)),
            Self { silent: 1.., .. } => (Phase::Silent, &mut self.silent, most),
            _ => (Phase::Present, &mut self.present, most),
        };
        let count = most.min(*left);
        *left -= count;
        (phase, count)
    }
}

/// Source of the blocks.
pub(super) enum Source<S> {
    /// Nothing has been read.
    Unread(Option<Box<dyn Recording<S>>>),
    Begun(Box<dyn Blocks<S>>),
}

impl<S: Recorded> Source<S> {
    /// The blocks, of `times` times each, which are read from now on if they have not been.
    fn begin(&mut self, times: usize, gpu: Option<&Arc<dyn Gpu>>) -> &mut dyn Blocks<S> {
        if let Self::Unread(recording) = self {
            let recording = recording.take().expect("a recording begins once");
            *self = Self::Begun(Box::new(ReadAhead::locked_for(gpu, recording, times)));
        }
        match self {
            Self::Begun(blocks) => &mut **blocks,
            Self::Unread(_) => unreachable!("reading has begun"),
        }
    }
}

impl Pieces<'_> {
    /// Samples of each input that the F-engine has clipped so far; none without one.
    ///
    /// # Errors
    /// The device's own.
    pub fn clipped(&self) -> Result<Vec<u64>> {
        match &self.source {
            Source::Begun(blocks) => blocks.clipped(),
            Source::Unread(_) => Ok(Vec::new()),
        }
    }
}

impl<'a, S: Recorded> Pieces<'a, S> {
    /// Pieces of a recording, read in blocks of `block_times` times, at least 1.
    pub fn over(recording: Box<dyn Recording<S>>, block_times: usize) -> Self {
        let (shape, recorded) = (recording.shape(), recording.times());
        let circularity = recording.circularity();
        let source = Source::Unread(Some(recording));
        Self::of(source, shape, recorded, block_times).with_circularity(circularity)
    }

    pub(super) fn of(source: Source<S>, shape: S, recorded: u64, block_times: usize) -> Self {
        let block_times = block_times.max(1).next_multiple_of(shape.word() as usize);
        Self {
            shape,
            recorded,
            circularity: Vec::new(),
            block_times,
            times: recorded,
            done: 0,
            delay: 0,
            source,
            gpu: None,
            delayed: Block::new(),
            left: Left::default(),
            block: 0,
            cancel: None,
            progress: None,
        }
    }

    pub(super) fn with_circularity(mut self, circularity: Vec<f64>) -> Self {
        self.circularity = circularity;
        self
    }

    /// Noise of the channels, as [`Recording::circularity`] has it.
    pub fn circularity(&self) -> &[f64] {
        &self.circularity
    }

    /// Reads into memory that a GPU has locked, if there is one: a plan on that GPU is fed from it without
    /// another copy.
    #[must_use]
    pub fn locked_for(mut self, gpu: Option<&Arc<dyn Gpu>>) -> Self {
        self.gpu = gpu.cloned();
        self
    }

    /// Reads the first `times` times only, or all where there are fewer.
    #[must_use]
    pub fn until(mut self, times: u64) -> Self {
        self.set_end(times);
        self
    }

    /// Stops with [`Error::Cancelled`] before the next piece once `flag` is true: a reference to it, or an
    /// [`Arc`](std::sync::Arc).
    #[must_use]
    pub fn cancel(mut self, flag: impl Borrow<AtomicBool> + Send + 'a) -> Self {
        self.cancel = Some(Box::new(move || flag.borrow().load(Ordering::Relaxed)));
        self
    }

    /// Calls `tell` before every piece, and once all are done.
    #[must_use]
    pub fn progress(mut self, tell: impl FnMut(Progress) + Send + 'a) -> Self {
        self.progress = Some(Box::new(tell));
        self
    }

    /// Shape of the recording's samples.
    pub fn shape(&self) -> &S {
        &self.shape
    }

    /// Times of the whole recording.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Times that have been handed out.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Times to read.
    pub(super) fn end(&self) -> u64 {
        self.times
    }

    pub(super) fn set_end(&mut self, times: u64) {
        self.times = times.min(self.recorded);
    }

    pub(super) fn set_block_times(&mut self, times: usize) {
        self.block_times = times.max(1).next_multiple_of(self.shape.word() as usize);
    }

    /// Hands out samples, all missing, for the first `times` times of every gap, into which a plan delays
    /// samples from before it.
    pub(super) fn set_delay(&mut self, times: u64) {
        self.delay = times;
    }

    /// All of the block that comes next, which stays to be handed out; nothing where there is none.
    pub(super) fn ahead(&mut self) -> Result<S::View<'_>> {
        if self.done < self.times {
            self.fill()?;
        }
        let block = self.left.present;
        match &self.source {
            Source::Begun(blocks) if block > 0 => {
                let range = self.block - block as usize..self.block;
                Ok(blocks.view(&self.shape, range))
            }
            _ => Ok(self.shape.view(&self.delayed, 0..0)),
        }
    }

    /// The next piece, of at most `most` times, at least 1, of bits rounded up to whole words; [`None`] when all times are done, or a stream of
    /// unknown length has ended. Its end is
    /// also that of a block or of a gap.
    ///
    /// # Errors
    /// [`Error::Cancelled`]; [`Error::Invalid`] when the recording ends before its last time; as for
    /// [`Recording::read_block`].
    pub fn next_piece(&mut self, most: u64) -> Result<Option<Piece<S::View<'_>>>> {
        let (start, times) = (self.done, self.times);
        let progress = Progress { done: start, times };
        if let Some(tell) = &mut self.progress {
            tell(progress);
        }
        if start == times {
            return Ok(None);
        }
        if self.cancel.as_ref().is_some_and(|is_set| is_set()) {
            let Progress { done, times } = progress;
            return Err(Error::Cancelled { done, times });
        }
        if !self.fill()? {
            return Ok(None);
        }
        let most = most.max(1).checked_next_multiple_of(self.shape.word()).unwrap_or(u64::MAX);
        let most = most.min(times - start);
        let first = self.block - self.left.present as usize;
        let (phase, count) = self.left.take(most, self.block_times as u64);
        self.done += count;
        let (missing, samples) = match (phase, &self.source) {
            (Phase::Delayed, _) => {
                let count = count as usize;
                if self.delayed.times < count {
                    self.delayed = self.shape.nothing(count)?;
                }
                (count as u64, Some(self.shape.view(&self.delayed, 0..count)))
            }
            (Phase::Present, Source::Begun(blocks)) => {
                let range = first..first + count as usize;
                let missing = blocks.missing_within(&range);
                (missing as u64, Some(blocks.view(&self.shape, range)))
            }
            _ => (count, None),
        };
        Ok(Some(Piece { start, times: count, missing, samples }))
    }

    /// Goes on to the next block, and the gap before it, where nothing is left of the one before; whether
    /// there is something, of a stream whose length nobody knows.
    fn fill(&mut self) -> Result<bool> {
        while self.left == Left::default() {
            let blocks = self.source.begin(self.block_times, self.gpu.as_ref());
            match blocks.next_block()? {
                Some((gap, times)) => {
                    let delayed = gap.min(self.delay);
                    self.left = Left { delayed, silent: gap - delayed, present: times as u64 };
                    self.block = times;
                }
                None if self.times == u64::MAX => return Ok(false),
                None => {
                    return Err(Error::invalid(format!(
                        "the recording ended at time {} of {}",
                        self.done, self.times
                    )));
                }
            }
        }
        Ok(true)
    }
}
