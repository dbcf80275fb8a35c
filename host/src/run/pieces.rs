//! A recording piece by piece.

use std::{
    borrow::Borrow,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    Error, Result,
    correlate::Shape,
    format::{Block, ReadAhead, Recording},
    samples::Samples,
};

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
pub struct Piece<'a> {
    /// The first of them, counted from the recording's first.
    pub start: u64,
    /// How many they are.
    pub times: u64,
    /// Those among them that are missing.
    pub missing: u64,
    /// The samples, with what is missing, in the recording's encoding and layout: without gaps in host
    /// memory, but for a piece of `cnt` samples cut out of a longer block. [`None`] within a gap longer
    /// than a block: all are missing, and nothing is to be computed.
    pub samples: Option<Samples<'a>>,
}

/// Cuts a recording into pieces for a plan. It reads ahead, in a thread of its own, from the first piece
/// on: at most three blocks are in memory.
///
/// ```
/// use corrust_host::{Result, format::Recording, run::Pieces};
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
pub struct Pieces<'a> {
    shape: Shape,
    recorded: u64,
    block_times: usize,
    /// Times to read.
    times: u64,
    done: u64,
    /// Times of a gap that have samples, because delayed ones still come out there.
    delay: u64,
    source: Source,
    /// What has such samples.
    delayed: Block,
    /// What is left of the current gap's times with samples, of those without, and of the block after it.
    left: [u64; 3],
    cancel: Option<Box<dyn Fn() -> bool + Send + 'a>>,
    progress: Option<Box<dyn FnMut(Progress) + Send + 'a>>,
}

/// Where blocks come from.
enum Source {
    /// Nothing has been read.
    Unread(Option<Box<dyn Recording>>),
    Reading(ReadAhead),
}

impl Source {
    /// The blocks of `times` times, which begin to be read now if they have not yet.
    fn blocks(&mut self, times: usize) -> &mut ReadAhead {
        if let Self::Unread(recording) = self {
            let recording = recording.take().expect("a recording begins once");
            *self = Self::Reading(ReadAhead::new(recording, times));
        }
        match self {
            Self::Reading(blocks) => blocks,
            Self::Unread(_) => unreachable!("reading has begun"),
        }
    }
}

impl<'a> Pieces<'a> {
    /// Pieces of a recording, read in blocks of `block_times` times, at least 1.
    pub fn over(recording: Box<dyn Recording>, block_times: usize) -> Self {
        Self {
            shape: recording.shape(),
            recorded: recording.times(),
            block_times: block_times.max(1),
            times: recording.times(),
            done: 0,
            delay: 0,
            source: Source::Unread(Some(recording)),
            delayed: Block::new(),
            left: [0; 3],
            cancel: None,
            progress: None,
        }
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

    /// What the recording's samples are.
    pub fn shape(&self) -> &Shape {
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

    pub(super) fn set_end(&mut self, times: u64) {
        self.times = times.min(self.recorded);
    }

    pub(super) fn set_block_times(&mut self, times: usize) {
        self.block_times = times.max(1);
    }

    /// Hands out samples, all missing, for the first `times` times of every gap, into which a plan delays
    /// samples from before it.
    pub(super) fn set_delay(&mut self, times: u64) {
        self.delay = times;
    }

    /// The next piece, of at most `most` times, at least 1; [`None`] when all times are done. Its end is
    /// also that of a block or of a gap.
    ///
    /// # Errors
    /// [`Error::Cancelled`]; [`Error::Invalid`] when the recording ends before its last time; as for
    /// [`Recording::read_block`].
    pub fn next_piece(&mut self, most: u64) -> Result<Option<Piece<'_>>> {
        let (start, times) = (self.done, self.times);
        if let Some(tell) = &mut self.progress {
            tell(Progress { done: start, times });
        }
        if start == times {
            return Ok(None);
        }
        if self.cancel.as_ref().is_some_and(|is_set| is_set()) {
            return Err(Error::Cancelled { done: start, times });
        }
        while self.left == [0; 3] {
            self.next_block()?;
        }
        let part = self.left.iter().position(|&left| left > 0).expect("something is left");
        let longest = if part == 0 { self.block_times as u64 } else { u64::MAX };
        let count = most.clamp(1, longest).min(self.left[part]).min(times - start);
        let block = self.source.blocks(self.block_times).current();
        let first = block.times - self.left[2] as usize;
        self.left[part] -= count;
        self.done += count;
        let (missing, samples) = match part {
            0 => {
                if self.delayed.times < count as usize {
                    self.delayed = Block::missing(&self.shape, count as usize);
                }
                (count, Some(self.delayed.view(&self.shape).times(0..count as usize)))
            }
            1 => (count, None),
            _ => {
                let range = first..first + count as usize;
                let missing = block.missing_within(&range) as u64;
                (missing, Some(block.view(&self.shape).times(range)))
            }
        };
        Ok(Some(Piece { start, times: count, missing, samples }))
    }

    /// Goes on to the next block and the gap before it.
    fn next_block(&mut self) -> Result<()> {
        match self.source.blocks(self.block_times).next_block()? {
            Some(block) => {
                let delayed = block.gap.min(self.delay);
                self.left = [delayed, block.gap - delayed, block.times as u64];
                Ok(())
            }
            None => Err(Error::invalid(format!(
                "the recording ended at time {} of {}",
                self.done, self.times
            ))),
        }
    }
}
