//! A recording piece by piece.

use std::{
    borrow::Borrow,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{Voltages, spectra::SpectraOf};
use crate::{
    Channeliser, Error, Result,
    correlate::Shape,
    device::Gpu,
    format::{Block, ReadAhead, Recording},
    samples::Samples,
};

/// How far the work on a recording has come; of bits in times, not in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Times that are done, missing ones included.
    pub done: u64,
    /// Times to do.
    pub times: u64,
}

/// Consecutive times of a recording; of bits words.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The first of them, counted from the recording's first.
    pub start: u64,
    /// How many they are.
    pub times: u64,
    /// Those among them that are missing; of spectra and of bits, those of which an input is.
    pub missing: u64,
    /// The samples, with what is missing, in the recording's encoding and layout: without gaps in host
    /// memory, but for a piece of `cnt` samples cut out of a longer block; spectra in the memory of the
    /// F-engine's GPU. [`None`] within a gap longer than a block: all are missing, and nothing is to be
    /// computed.
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
    /// Times that the last word of bits lacks.
    absent: usize,
    block_times: usize,
    /// Times to read.
    times: u64,
    done: u64,
    /// Times of a gap that have samples, because delayed ones still come out there.
    delay: u64,
    source: Source,
    /// What the blocks' memory is locked for.
    gpu: Option<Arc<dyn Gpu>>,
    /// What has such samples.
    delayed: Block,
    /// What is left of the current gap's times with samples, of those without, and of the block after it.
    left: [u64; 3],
    /// Times of that block.
    block: usize,
    cancel: Option<Box<dyn Fn() -> bool + Send + 'a>>,
    progress: Option<Box<dyn FnMut(Progress) + Send + 'a>>,
}

/// Where blocks come from.
enum Source {
    /// Nothing has been read.
    Unread(Option<Box<dyn Recording>>),
    Reading(ReadAhead),
    Channelising(Box<SpectraOf>),
}

impl Source {
    /// Goes on to the next block, and says how long the gap before it is and how many times it has;
    /// [`None`] after the last. What is read is read in blocks of `times` times, which begin now if they have
    /// not yet.
    fn next_block(
        &mut self,
        times: usize,
        gpu: Option<&Arc<dyn Gpu>>,
    ) -> Result<Option<(u64, usize)>> {
        if let Self::Unread(recording) = self {
            let recording = recording.take().expect("a recording begins once");
            *self = Self::Reading(ReadAhead::locked_for(gpu, recording, times));
        }
        match self {
            Self::Reading(blocks) => Ok(blocks.next_block()?.map(|block| (block.gap, block.times))),
            Self::Channelising(spectra) => Ok(spectra.next_block()?.map(|times| (0, times))),
            Self::Unread(_) => unreachable!("reading has begun"),
        }
    }

    /// Times of the current block that are missing, and its samples.
    fn current(&self, shape: &Shape, range: Range<usize>) -> (usize, Samples<'_>) {
        let (missing, view) = match self {
            Self::Reading(blocks) => {
                let block = blocks.current();
                (block.missing_within(&range), block.view(shape))
            }
            Self::Channelising(spectra) => {
                let engine = spectra.engine();
                (engine.missing_within(&range), engine.view())
            }
            Self::Unread(_) => unreachable!("reading has begun"),
        };
        (missing, view.times(range))
    }
}

impl<'a> Pieces<'a> {
    /// Pieces of a recording, read in blocks of `block_times` times, at least 1.
    pub fn over(recording: Box<dyn Recording>, block_times: usize) -> Self {
        let (shape, recorded) = (recording.shape(), recording.times());
        let absent = recording.absent();
        let source = Source::Unread(Some(recording));
        Self { absent, ..Self::of(source, shape, recorded, block_times.max(1)) }
    }

    /// Pieces of the spectra that an F-engine makes of raw voltages; a spectrum is a time. The plan begins
    /// another stream. On a GPU spectra stay there, for a plan on the same one.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the spectra are of `cf32`, which no other plan takes, or the recording is
    /// shorter than one; [`Error::OutOfMemory`].
    pub fn channelised(voltages: Voltages, plan: Channeliser) -> Result<Self> {
        let (window, times) = (plan.shape().window(), voltages.recorded());
        if times < window as u64 {
            return Err(Error::invalid(format!(
                "{times} samples of each input: expected at least the {window} of a spectrum"
            )));
        }
        let spectra = SpectraOf::new(voltages, plan)?;
        let (shape, recorded) = (spectra.engine().shape()?, spectra.recorded());
        Ok(Self::of(Source::Channelising(Box::new(spectra)), shape, recorded, 1))
    }

    fn of(source: Source, shape: Shape, recorded: u64, block_times: usize) -> Self {
        Self {
            shape,
            recorded,
            absent: 0,
            block_times,
            times: recorded,
            done: 0,
            delay: 0,
            source,
            gpu: None,
            delayed: Block::new(),
            left: [0; 3],
            block: 0,
            cancel: None,
            progress: None,
        }
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

    /// What the recording's samples are.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Times of the whole recording; of bits words, as wherever samples are counted.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Times that the first `words` words of bits hold; of other samples as many.
    pub fn held(&self, words: u64) -> u64 {
        let absent = if words == self.recorded { self.absent as u64 } else { 0 };
        words.saturating_mul(self.shape.encoding.times() as u64).saturating_sub(absent)
    }

    /// Times that have been handed out.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Samples of each input that the F-engine has clipped so far; none without one.
    ///
    /// # Errors
    /// The device's own.
    pub fn clipped(&self) -> Result<Vec<u64>> {
        match &self.source {
            Source::Channelising(spectra) => spectra.engine().clipped(),
            Source::Unread(_) | Source::Reading(_) => Ok(Vec::new()),
        }
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

    /// The next piece, of at most `most` times, at least 1; [`None`] when all times are done, or a stream of
    /// unknown length has ended. Its end is
    /// also that of a block or of a gap.
    ///
    /// # Errors
    /// [`Error::Cancelled`]; [`Error::Invalid`] when the recording ends before its last time; as for
    /// [`Recording::read_block`].
    pub fn next_piece(&mut self, most: u64) -> Result<Option<Piece<'_>>> {
        let (start, times) = (self.done, self.times);
        let progress = Progress { done: self.held(start), times: self.held(times) };
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
        while self.left == [0; 3] {
            if !self.next_block()? {
                return Ok(None);
            }
        }
        let part = self.left.iter().position(|&left| left > 0).expect("something is left");
        let longest = if part == 0 { self.block_times as u64 } else { u64::MAX };
        let count = most.clamp(1, longest).min(self.left[part]).min(times - start);
        let first = self.block - self.left[2] as usize;
        self.left[part] -= count;
        self.done += count;
        let held = (self.held(self.done) - self.held(start)) as usize;
        let (missing, samples) = match part {
            0 => {
                if self.delayed.times < count as usize {
                    self.delayed = Block::missing(&self.shape, count as usize)?;
                }
                (
                    count,
                    Some(self.delayed.view(&self.shape).times(0..count as usize).holding(held)?),
                )
            }
            1 => (count, None),
            _ => {
                let range = first..first + count as usize;
                let (missing, samples) = self.source.current(&self.shape, range);
                (missing as u64, Some(samples.holding(held)?))
            }
        };
        Ok(Some(Piece { start, times: count, missing, samples }))
    }

    /// Goes on to the next block and the gap before it; whether there is one, of a stream whose length
    /// nobody knows.
    fn next_block(&mut self) -> Result<bool> {
        match self.source.next_block(self.block_times, self.gpu.as_ref())? {
            Some((gap, times)) => {
                let delayed = gap.min(self.delay);
                self.left = [delayed, gap - delayed, times as u64];
                self.block = times;
                Ok(true)
            }
            None if self.times == u64::MAX => Ok(false),
            None => Err(Error::invalid(format!(
                "the recording ended at time {} of {}",
                self.done, self.times
            ))),
        }
    }
}
