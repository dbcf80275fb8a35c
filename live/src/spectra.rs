//! An F-engine for frames as they come.

use corrust_host::{
    Channeliser, Correlator, Error, Result,
    channelise::{self, Engine},
    device,
    samples::{Missing, RawSamples, RawShape, missing_within},
};

use super::{
    chunks::Passed,
    dumps::{Channels, Integrator, LiveDump, Sums},
    frames::{Frames, RawChunk},
};

/// Makes spectra of frames. Spectrum `m` begins at sample `m x hop` after the sync time, whenever the service starts.
pub struct Spectra {
    engine: Engine,
    frames: Frames,
    hop: u64,
    /// Builder of the plan that measures gains from the first samples, if they are to be measured, and the level to reach.
    level: Option<(channelise::Builder, f32)>,
    /// The sample that is fed next, within a stretch of chunks without one that lacks all.
    next: Option<u64>,
}

impl Spectra {
    /// The F-engine `plan` for frames.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is one for other samples, or its spectra are not correlated.
    pub fn new(plan: Channeliser, frames: Frames) -> Result<Self> {
        let shape = plan.shape();
        let (found, expected) = (
            RawShape { inputs: shape.inputs, encoding: shape.raw, layout: shape.raw_layout },
            frames.shape(),
        );
        if found != expected {
            return Err(Error::invalid(format!(
                "an F-engine of {found}: expected one of {expected}"
            )));
        }
        let hop = shape.hop as u64;
        let engine = Engine::new(plan)?;
        engine.shape()?;
        Ok(Self { engine, frames, hop, level: None, next: None })
    }

    /// Measures gains of the first chunk that lacks less than half, so that the real and imaginary parts of each
    /// input and channel have the standard deviation `sigma`: with `builder`, of which the plan was built. What comes
    /// before it is missing.
    #[must_use]
    pub fn level(mut self, builder: channelise::Builder, sigma: f32) -> Self {
        self.level = Some((builder, sigma));
        self
    }

    /// Feeds samples of which the first is `start`.
    fn feed(
        &mut self,
        samples: RawSamples<'_>,
        start: u64,
        sums: &mut Sums,
        done: &mut dyn FnMut(&LiveDump) -> Result<()>,
    ) -> Result<()> {
        let next = match self.next {
            Some(next) => next,
            None => {
                let first = self.engine.plan().begin_at(start.div_ceil(self.hop))?;
                // Delays reach back to before it came.
                if first < start {
                    self.feed_nothing((start - first) as usize)?;
                }
                *self.next.insert(first.max(start))
            }
        };
        let end = start + samples.len() as u64;
        if next >= end {
            return Ok(());
        }
        let made = self.engine.feed(samples.times((next - start) as usize..samples.len()))?;
        self.next = Some(end);
        match made {
            0 => Ok(()),
            _ => sums.add(self.engine.view(), self.engine.first(), done),
        }
    }

    /// Feeds samples that are missing, which complete no spectrum.
    fn feed_nothing(&mut self, times: usize) -> Result<()> {
        let shape = self.frames.shape();
        let bytes: Vec<u8> = device::zeros(shape.bytes(times))?;
        let RawShape { inputs, encoding, layout } = shape;
        let missing = [Missing::times(0..times)];
        let extents = [inputs, times];
        let pitch = shape.pitch(times);
        let samples = RawSamples::strided(&bytes[..], encoding, layout, extents, pitch)?;
        self.engine.feed(samples.missing(&missing)).map(drop)
    }
}

impl Channels for Spectra {
    type Chunk = RawChunk;

    fn add(
        &mut self,
        passed: &Passed<RawChunk>,
        sums: &mut Sums,
        done: &mut dyn FnMut(&LiveDump) -> Result<()>,
    ) -> Result<()> {
        // No spectrum reaches over times of which nothing came, or a jump.
        let Some(chunk) = &passed.chunk else {
            self.next = None;
            return Ok(());
        };
        let times = (passed.end - passed.start) as usize;
        let missing = chunk.missing();
        if let Some((builder, sigma)) = &self.level {
            if 2 * missing_within(&missing, &(0..times)) >= times {
                self.next = None;
                return Ok(());
            }
            let leveled = builder.clone().level(*sigma, chunk.view(&missing).times(0..times))?;
            self.engine.plan().set_gains(leveled.gains_set())?;
            self.level = None;
        }
        self.feed(chunk.view(&missing).times(0..times), passed.start, sums, done)?;
        if passed.jumped {
            self.next = None;
        }
        Ok(())
    }

    fn time(&self, end: u64) -> u64 {
        match self.next {
            // Spectra that a later sample completes are still to come.
            Some(_) => 0,
            None => end.div_ceil(self.hop),
        }
    }
}

impl Integrator<Spectra> {
    /// Dumps of `integration` spectra.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the correlator's shape is not that of the spectra, or the integration has none.
    pub fn channelised(correlator: Correlator, spectra: Spectra, integration: u64) -> Result<Self> {
        let sums = Sums::new(correlator, &spectra.engine.shape()?, integration)?;
        Ok(Self::over(sums, spectra))
    }
}
