//! Steps from samples of channels to their sums, as they come: subchannels, and flags of RFI.

use std::{ops::Range, sync::Arc};

use corrust_host::{
    Correlator, Error, Layout, Result, Samples, Upchanneliser,
    channelise::SpectrumEncoding,
    device::Gpu,
    kurtosis::{FlagCounts, Judge, Stage},
    samples::{Memory, Shape},
};
use corrust_recordings::run;

use super::sums::{Done, Sums};

/// Steps before samples are summed; by default none.
#[derive(Default)]
pub struct Before {
    subchannels: Option<Subchannels>,
    flags: Option<Flags>,
    channels: Option<Range<usize>>,
}

impl Before {
    /// Makes subchannels of channels: a time is a spectrum of them, which begins at a multiple of the plan's factor since
    /// timestamp 0. Spectra that reach over times that never came are missing.
    #[must_use]
    pub fn upchannelised(self, plan: Upchanneliser) -> Self {
        Self { subchannels: Some(Subchannels { plan, next: None, spectrum: 0 }), ..self }
    }

    /// Judges samples of `shape` by their spectral kurtosis, in blocks of `block_times` times that are counted from timestamp
    /// 0: flagged ones are missing. They are judged in the memory of the only GPU, else in host memory, as [`Stage::new`] does.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the device's own.
    pub fn flagged(
        self,
        shape: &Shape,
        judge: Judge,
        block_times: usize,
        gpus: &[Arc<dyn Gpu>],
    ) -> Result<Self> {
        Ok(Self { flags: Some(Flags::new(shape, judge, block_times, gpus)?), ..self })
    }

    /// Sums these channels alone; flags are judged on all.
    #[must_use]
    pub fn of_channels(self, channels: Range<usize>) -> Self {
        Self { channels: Some(channels), ..self }
    }

    /// The steps of samples of a shape, and dumps of `integration` times of what they make.
    pub(super) fn sums(
        self,
        correlator: Correlator,
        shape: Shape,
        integration: u64,
    ) -> Result<Steps> {
        let shape = match &self.subchannels {
            Some(subchannels) => subchannels.of(&shape)?,
            None => shape,
        };
        let channels = self.channels.clone().unwrap_or(0..shape.channels);
        let sums = Sums::new(correlator, &shape, channels, integration)?;
        Ok(Steps { before: self, sums })
    }
}

/// Samples on their way to the sums of dumps.
pub struct Steps {
    before: Before,
    sums: Sums,
}

impl Steps {
    pub(super) fn sums(&self) -> &Sums {
        &self.sums
    }

    pub(super) fn sums_mut(&mut self) -> &mut Sums {
        &mut self.sums
    }

    /// Adds samples of channels from time `start` on; of words of bits both are whole words.
    pub(super) fn add(&mut self, samples: Samples<'_>, start: u64, done: Done<'_>) -> Result<()> {
        let Self { before: Before { subchannels, flags, .. }, sums } = self;
        let mut judged = |samples: Samples<'_>, start: u64| match flags {
            Some(flags) => flags.add(samples, start, sums, done),
            None => sums.add(samples, start, done),
        };
        match subchannels {
            Some(subchannels) => subchannels.add(samples, start, judged),
            None => judged(samples, start),
        }
    }

    /// No samples of channels before time `end` come any more: dumps before it are over.
    pub(super) fn pass(&mut self, end: u64, done: Done<'_>) -> Result<()> {
        let Self { before: Before { subchannels, flags, .. }, sums } = self;
        let end = end / subchannels.as_ref().map_or(1, Subchannels::factor);
        let over = match flags {
            Some(flags) => flags.pass(end, sums, done)?,
            None => end,
        };
        sums.pass(over, done)
    }

    /// The stream has ended before time `end` of channels: dumps before it are over, and a block that it cuts is judged by the
    /// times that it has.
    pub(super) fn end(&mut self, end: u64, done: Done<'_>) -> Result<()> {
        let Self { before: Before { subchannels, flags, .. }, sums } = self;
        let end = end / subchannels.as_ref().map_or(1, Subchannels::factor);
        if let Some(flags) = flags {
            flags.pass(end, sums, done)?;
            flags.judge(sums, done)?;
        }
        sums.pass(end, done)
    }

    /// The time jumps: nothing else of what has begun comes.
    pub(super) fn jump(&mut self, done: Done<'_>) -> Result<()> {
        let Self { before: Before { subchannels, flags, .. }, sums } = self;
        if let Some(subchannels) = subchannels {
            subchannels.next = None;
        }
        if let Some(flags) = flags {
            flags.pass(u64::MAX, sums, done)?;
        }
        sums.jump(done)
    }

    /// Waits until a GPU has read what it was given.
    pub(super) fn wait(&mut self) -> Result<()> {
        self.sums.wait()
    }

    /// Numbers of blocks and samples that were judged; [`None`] where nothing is flagged.
    pub(super) fn judged(&self) -> Option<FlagCounts> {
        self.before.flags.as_ref().map(|flags| flags.judged)
    }
}

/// Subchannels of channels.
struct Subchannels {
    plan: Upchanneliser,
    /// The time after the last that was fed, and the spectrum that comes next.
    next: Option<u64>,
    spectrum: u64,
}

impl Subchannels {
    fn factor(&self) -> u64 {
        self.plan.shape().factor as u64
    }

    /// Shape of the subchannels of channels.
    fn of(&self, channels: &Shape) -> Result<Shape> {
        let made = *self.plan.shape();
        let (found, expected) = (
            (made.inputs, made.channels, made.encoding),
            (channels.inputs, channels.channels, channels.encoding),
        );
        match made.output {
            SpectrumEncoding::Voltage(encoding) if found == expected => Ok(Shape {
                inputs: made.inputs,
                channels: made.channels * made.factor,
                encoding,
                layout: Layout::Tcn,
            }),
            output => Err(Error::invalid(format!(
                "subchannels of {output} of {found:?}: expected voltages of {expected:?}"
            ))),
        }
    }

    /// Hands `to` the subchannels that samples from time `start` on complete, and their first spectrum.
    fn add(
        &mut self,
        samples: Samples<'_>,
        start: u64,
        mut to: impl FnMut(Samples<'_>, u64) -> Result<()>,
    ) -> Result<()> {
        let (factor, times) = (self.factor(), samples.extents().times);
        let mut from = 0;
        if self.next != Some(start) {
            // As in a recording's gap, samples before are missing.
            self.plan.reset();
            self.spectrum = start.div_ceil(factor);
            from = times.min((self.spectrum * factor - start) as usize);
        }
        self.next = (from < times).then_some(start + times as u64);
        let made = self.plan.upchannelise(samples.times(from..times))?;
        let (SpectrumEncoding::Voltage(encoding), count) = (made.encoding, made.extents.times)
        else {
            return Ok(());
        };
        if count == 0 {
            return Ok(());
        }
        let samples =
            Samples::dense(made.bytes[..].into(), encoding.into(), Layout::Tcn, made.extents);
        let first = self.spectrum;
        self.spectrum += count as u64;
        to(samples.missing(&made.missing), first)
    }
}

/// Flags of samples.
struct Flags {
    room: Stage,
    /// The first time in the room, and how many before the first sample are lost; [`None`] of an empty one.
    held: Option<(u64, usize)>,
    judged: FlagCounts,
}

impl Flags {
    fn new(shape: &Shape, judge: Judge, block_times: usize, gpus: &[Arc<dyn Gpu>]) -> Result<Self> {
        let most = run::block_times(shape.bytes_per_time());
        let room = Stage::new(gpus, *shape, judge, block_times, most)?;
        Ok(Self { room, held: None, judged: FlagCounts::default() })
    }

    /// Judges samples from time `start` on, and adds whole blocks to `sums`.
    fn add(
        &mut self,
        samples: Samples<'_>,
        start: u64,
        sums: &mut Sums,
        done: Done<'_>,
    ) -> Result<()> {
        self.pass(start, sums, done)?;
        let (block, times) = (self.room.block_times(), samples.extents().times);
        let mut from = 0;
        while from < times {
            if self.held.is_none() {
                let now = start + from as u64;
                let lost = (now % block as u64) as usize;
                self.room.begin()?;
                self.room.lose(lost)?;
                self.held = Some((now - lost as u64, lost));
            }
            // Up to the end of the last whole block.
            let (filled, left) = (self.room.times(), (times - from).min(self.room.left()));
            let whole = (filled + left) / block * block;
            let count = if whole > filled { whole - filled } else { left };
            self.room.put(&samples.times(from..from + count))?;
            // The memory is used again.
            if let (Memory::Device(slice), Some(gpu)) = (samples.memory(), self.room.gpu()) {
                gpu.wait(slice.stream())?;
            }
            from += count;
            if self.room.times().is_multiple_of(block) {
                self.judge(sums, done)?;
            }
        }
        Ok(())
    }

    /// No samples before time `end` come any more. Returns the time before which the sums get nothing else.
    fn pass(&mut self, end: u64, sums: &mut Sums, done: Done<'_>) -> Result<u64> {
        let Some((first, _)) = self.held else { return Ok(end) };
        let now = first + self.room.times() as u64;
        if now < end {
            // Of the block that is begun the rest is lost.
            let over = now.next_multiple_of(self.room.block_times() as u64);
            self.room.lose((over.min(end) - now) as usize)?;
            if over <= end {
                self.judge(sums, done)?;
                return Ok(end);
            }
        }
        Ok(first.min(end))
    }

    /// Judges the room's samples, and adds them to the sums.
    fn judge(&mut self, sums: &mut Sums, done: Done<'_>) -> Result<()> {
        let Some((first, lost)) = self.held.take() else { return Ok(()) };
        self.room.close();
        let numbers = self.room.judge()?.numbers;
        self.judged += numbers;
        let samples = self.room.view();
        let times = samples.extents().times;
        sums.add(samples.times(lost..times), first + lost as u64, done)
    }
}
