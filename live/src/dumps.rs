//! Dumps at multiples of the integration since the sync time.

use corrust_host::{Correlator, Result, kurtosis::FlagCounts, samples::Shape};
use corrust_recordings::run::{Folding, Integration};

use super::{
    chunks::{Chunk, Geometry},
    memory::DeviceMemory,
    steps::{Before, Steps},
    sums::Done,
    window::Passed,
};

/// Correlates chunks as they come: of samples of channels ([`Geometry`]), of raw voltages with an F-engine
/// ([`Spectra`](super::Spectra)), or of bits ([`Words`](super::Words)).
pub struct Integrator<C = Geometry> {
    steps: Steps,
    channels: C,
}

/// Maker of samples of channels from chunks.
pub trait Channels {
    /// Chunks that samples are made of.
    type Chunk;

    /// Shape of the samples.
    fn shape(&self) -> Shape;

    /// Adds what a chunk gives; `done` gets every dump that is over.
    ///
    /// # Errors
    /// The device's own, and what `done` returns.
    fn add(
        &mut self,
        passed: &Passed<Self::Chunk>,
        to: &mut Steps,
        done: &mut dyn FnMut(&Integration) -> Result<()>,
    ) -> Result<()>;

    /// The time of samples of channels before which nothing else comes, as nothing comes before time `end` of chunks.
    fn time(&self, end: u64) -> u64;
}

impl Channels for Geometry {
    type Chunk = Chunk;

    fn shape(&self) -> Shape {
        self.shape()
    }

    fn add(&mut self, passed: &Passed, to: &mut Steps, done: Done<'_>) -> Result<()> {
        let Some(chunk) = &passed.chunk else { return Ok(()) };
        let missing = chunk.missing(self);
        let times = (passed.end - passed.start) as usize;
        let device = chunk.device();
        device.map_or(Ok(()), DeviceMemory::check)?;
        to.add(chunk.view(self, &missing).times(0..times), passed.start, done)?;
        // A GPU reads its own memory after the return, and the chunk is used again.
        device.map_or(Ok(()), |_| to.wait())
    }

    fn time(&self, end: u64) -> u64 {
        end
    }
}

impl<C: Channels> Integrator<C> {
    /// Dumps of `integration` times of channels.
    ///
    /// # Errors
    /// [`Error::Invalid`](corrust_host::Error::Invalid) when the correlator's shape is not that of the channels, or the
    /// integration has no times or, of words of bits, is no whole number of words.
    pub fn new(correlator: Correlator, channels: C, integration: u64) -> Result<Self> {
        Self::after(Before::default(), correlator, channels, integration)
    }

    /// Dumps of `integration` times of samples that are made of channels.
    ///
    /// # Errors
    /// As for [`new`](Self::new), of the samples that are made.
    pub fn after(
        before: Before,
        correlator: Correlator,
        channels: C,
        integration: u64,
    ) -> Result<Self> {
        Ok(Self { steps: before.sums(correlator, channels.shape(), integration)?, channels })
    }

    /// Feeds a gated plan: time 0 of the gates is at timestamp 0.
    #[must_use]
    pub fn gated(mut self, gates: Folding) -> Self {
        self.steps.sums_mut().set_gates(gates);
        self
    }

    /// Keeps the last dump where the stream ends within it: its times that never came are missing, as
    /// [`Dump::valid`](corrust_host::correlate::Dump::valid) counts.
    #[must_use]
    pub fn keep_partial(mut self) -> Self {
        self.steps.sums_mut().keep_partial = true;
        self
    }

    /// The plan.
    pub fn correlator(&self) -> &Correlator {
        self.steps.sums().correlator()
    }

    /// Numbers of blocks and samples that were judged; [`None`] where nothing is judged.
    pub fn judged(&self) -> Option<FlagCounts> {
        self.steps.judged()
    }

    /// Number of dumps without any samples, between others: they are not handed out.
    pub fn empty(&self) -> u64 {
        self.steps.sums().empty()
    }

    /// Correlates a chunk, whose memory is returned; `done` gets every dump that is over.
    ///
    /// # Errors
    /// The device's own, and what `done` returns.
    pub fn process(
        &mut self,
        passed: Passed<C::Chunk>,
        mut done: impl FnMut(&Integration) -> Result<()>,
    ) -> Result<Option<C::Chunk>> {
        let Self { steps, channels } = self;
        channels.add(&passed, steps, &mut done)?;
        steps.pass(channels.time(passed.end), &mut done)?;
        if passed.jumped {
            steps.jump(&mut done)?;
        }
        Ok(passed.chunk)
    }

    /// The stream has ended before time `end`: the last dump is handed out if it is complete or partial ones are kept, else
    /// forgotten.
    ///
    /// # Errors
    /// As for [`process`](Self::process).
    pub fn end(
        &mut self,
        end: u64,
        mut done: impl FnMut(&Integration) -> Result<()>,
    ) -> Result<()> {
        self.steps.end(self.channels.time(end), &mut done)?;
        if self.steps.sums().keep_partial {
            self.steps.jump(&mut done)?;
        }
        self.steps.sums_mut().forget();
        Ok(())
    }
}
