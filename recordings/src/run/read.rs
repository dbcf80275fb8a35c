//! A recording piece by piece.

use std::sync::Arc;

use corrust_host::{
    Error, Result, channelise,
    correlate::baselines,
    device::Gpu,
    samples::{RawShape, Shape},
};

use super::{
    blocks::{Ahead, Blocks, BlocksOf},
    source::{Head, Piece, Recorded, Silence, Source, Wants},
};
use crate::formats::Recording;

/// Bytes of samples that are read at a time, and the most of sums that a block is to be worth.
const BLOCK_BYTES: usize = 1 << 26;
const MOST_BYTES: usize = 1 << 28;

/// Times, `bytes` bytes each, of blocks of about 64 MiB; at least 1.
pub fn block_times(bytes: usize) -> usize {
    (BLOCK_BYTES / bytes.max(1)).max(1)
}

/// Blocks as a source, such as a recording's. It reads ahead, in a thread of its own, from the first piece on: at most three
/// blocks are in memory. A piece is a block in host memory, or [a part](Wants::soon) of one, or a gap without samples.
///
/// ```
/// use corrust_host::Result;
/// use corrust_recordings::{
///     formats::Recording,
///     run::{Reader, Source},
/// };
///
/// /// Bytes of the samples that a recording holds.
/// fn bytes(recording: Box<dyn Recording>) -> Result<usize> {
///     let mut source = Reader::over(recording, 4096);
///     let mut bytes = 0;
///     while source.advance()? {
///         bytes += source.piece().samples.map_or(0, |samples| samples.bytes());
///     }
///     Ok(bytes)
/// }
/// ```
pub struct Reader<S: Recorded = Shape> {
    head: Head<S>,
    block_times: usize,
    /// Times to read.
    end: u64,
    /// Most times of a piece in host memory.
    soon: u64,
    state: State<S>,
    /// GPU that the blocks' memory is locked for.
    gpu: Option<Arc<dyn Gpu>>,
    /// Samples of gaps, if gaps are to have some.
    silence: Option<Silence<S>>,
    /// The current piece.
    start: u64,
    times: u64,
    in_gap: bool,
    /// Times of the current block and of the gap before it that have not been handed out.
    gap: u64,
    present: u64,
}

enum State<S> {
    /// Nothing has been read.
    Unread(Option<Box<dyn Blocks<S>>>),
    Reading(Ahead),
}

impl<S: Recorded> Reader<S> {
    /// Hands out blocks.
    pub fn of(blocks: impl Blocks<S> + 'static) -> Self {
        Self {
            head: blocks.head().clone(),
            block_times: blocks.block_times(),
            end: u64::MAX,
            soon: u64::MAX,
            state: State::Unread(Some(Box::new(blocks))),
            gpu: None,
            silence: None,
            start: 0,
            times: 0,
            in_gap: false,
            gap: 0,
            present: 0,
        }
    }

    /// Reads a recording in blocks of `block_times` times, at least 1, of bits whole words. Gaps that are longer than a block
    /// are passed over.
    pub fn over(recording: Box<dyn Recording<S>>, block_times: usize) -> Self {
        Self::of(BlocksOf::recording(recording, block_times))
    }

    /// Reads into memory that a GPU has locked, if there is one: a plan on that GPU is fed from it without another copy.
    #[must_use]
    pub fn locked_for(self, gpu: Option<&Arc<dyn Gpu>>) -> Self {
        Self { gpu: gpu.cloned(), ..self }
    }

    /// Hands out long gaps as samples that are all missing, a block at a time.
    #[must_use]
    pub fn filled(self) -> Self {
        Self { silence: Some(Silence::new(self.head.shape)), ..self }
    }

    /// All of the first block, which is not handed out by this: levels are measured of it. [`None`] where the recording has
    /// none.
    ///
    /// # Errors
    /// As for [`Source::advance`].
    ///
    /// # Panics
    /// When a piece was handed out.
    pub fn first(&mut self) -> Result<Option<S::View<'_>>> {
        assert_eq!(self.start + self.times, 0, "the first block has been handed out");
        let end = self.end.min(self.head.times.unwrap_or(u64::MAX));
        if end == 0 || !self.fill()? || self.present == 0 {
            return Ok(None);
        }
        let (shape, times) = (self.head.shape, self.present as usize);
        Ok(Some(shape.view(self.reading().current(), 0..times)))
    }

    fn reading(&mut self) -> &mut Ahead {
        if let State::Unread(blocks) = &mut self.state {
            let blocks = blocks.take().expect("a recording begins once");
            self.state = State::Reading(Ahead::start(self.gpu.as_ref(), blocks));
        }
        match &mut self.state {
            State::Reading(ahead) => ahead,
            State::Unread(_) => unreachable!("reading has begun"),
        }
    }

    /// Advances to the next block, and the gap before it, where nothing is left of the one before; false at the end.
    fn fill(&mut self) -> Result<bool> {
        while self.gap == 0 && self.present == 0 {
            match (self.reading().advance()?, self.head.times) {
                (true, _) => {
                    let block = self.reading().current();
                    (self.gap, self.present) = (block.gap, block.times as u64);
                }
                (false, None) => return Ok(false),
                (false, Some(times)) => {
                    let (at, times) = (self.start, times.min(self.end));
                    return Err(Error::invalid(format!(
                        "the recording ended at time {at} of {times}"
                    )));
                }
            }
        }
        Ok(true)
    }
}

impl Reader {
    /// Reads channels for a correlator, in blocks of [as many times](Self::correlated_times) as suit it.
    pub fn channels(recording: Box<dyn Recording>) -> Self {
        let times = Self::correlated_times(&recording.shape());
        Self::over(recording, times)
    }

    /// Times of blocks for a correlator: 64 MiB, or up to 256 MiB where its sums are as many, since it goes through them once
    /// per block.
    pub fn correlated_times(shape: &Shape) -> usize {
        /// Times that kernels take in together.
        const GRAIN: usize = 256;
        let sums = 16_usize.saturating_mul(baselines(shape.inputs)).saturating_mul(shape.channels);
        let times = (sums.clamp(BLOCK_BYTES, MOST_BYTES) / shape.bytes_per_time()).max(1);
        if times > GRAIN { times / GRAIN * GRAIN } else { times }
    }
}

impl Reader<RawShape> {
    /// Reads raw voltages for an F-engine of `shape`, in blocks of 64 MiB, or more where its spectra are long. Gaps are handed
    /// out as samples: spectra of missing samples are missing, not left out.
    ///
    /// ```
    /// use corrust_host::{Channeliser, Result, samples::RawShape};
    /// use corrust_recordings::{
    ///     formats::Recording,
    ///     run::{Reader, Source},
    /// };
    ///
    /// /// Spectra that a recording gives.
    /// fn spectra(recording: Box<dyn Recording<RawShape>>, mut plan: Channeliser) -> Result<u64> {
    ///     let mut voltages = Reader::voltages(recording, plan.shape());
    ///     while voltages.advance()? {
    ///         if let Some(samples) = voltages.piece().samples {
    ///             plan.channelise(samples)?;
    ///         }
    ///     }
    ///     plan.finish()?;
    ///     Ok(plan.spectra())
    /// }
    /// ```
    pub fn voltages(recording: Box<dyn Recording<RawShape>>, shape: &channelise::Shape) -> Self {
        let raw = recording.shape();
        let of_bytes = |bytes| bytes * 8 / raw.inputs.saturating_mul(raw.encoding.bits()).max(1);
        // A correlator goes through its sums once per block.
        let sums = (16 * shape.channels).saturating_mul(baselines(shape.inputs)).min(MOST_BYTES);
        let spectra = sums / shape.spectrum_bytes().max(1);
        // Spectra that begin in one block and end in the next cost more than others.
        let window = shape.window().saturating_mul(8).min(of_bytes(MOST_BYTES));
        let times = of_bytes(BLOCK_BYTES).max(window).max(2 * shape.window());
        let times = times.max(spectra.saturating_mul(shape.hop));
        Self::over(recording, times.next_multiple_of(64)).filled()
    }
}

impl<S: Recorded> Source<S> for Reader<S> {
    fn head(&self) -> &Head<S> {
        &self.head
    }

    fn begin(&mut self, wants: &Wants) {
        self.end = wants.end;
        self.soon = wants.soon;
    }

    fn advance(&mut self) -> Result<bool> {
        self.start += std::mem::take(&mut self.times);
        let left = self.head.times.unwrap_or(u64::MAX).min(self.end).saturating_sub(self.start);
        if left == 0 || !self.fill()? {
            return Ok(false);
        }
        self.in_gap = self.gap > 0;
        let of = if self.in_gap { &mut self.gap } else { &mut self.present };
        self.times = left.min(*of);
        if !self.in_gap {
            self.times = self.times.min(self.soon);
        }
        if let (true, Some(silence)) = (self.in_gap, &mut self.silence) {
            self.times = self.times.min(self.block_times as u64);
            silence.reserve(self.times as usize)?;
        }
        *of -= self.times;
        Ok(true)
    }

    fn piece(&self) -> Piece<S::View<'_>> {
        let (start, times) = (self.start, self.times);
        let samples = match (&self.state, &self.silence) {
            (_, Some(silence)) if self.in_gap => Some(silence.view(times as usize)),
            (State::Reading(ahead), _) if !self.in_gap && times > 0 => {
                let block = ahead.current();
                let first = block.times - (self.present + times) as usize;
                Some(self.head.shape.view(block, first..first + times as usize))
            }
            _ => None,
        };
        Piece { start, times, samples, host: samples }
    }

    fn clipped(&self) -> Result<Vec<u64>> {
        match &self.state {
            State::Unread(_) => Ok(Vec::new()),
            State::Reading(ahead) => Ok(ahead.clipped().to_vec()),
        }
    }
}
