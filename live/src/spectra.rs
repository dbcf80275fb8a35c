//! An F-engine for frames as they come.

use std::sync::Arc;

use corrust_host::{
    Channeliser, Error, Result, Samples,
    channelise::{self, Engine},
    device::{self, Gpu},
    samples::{Missing, RawSamples, RawShape, Shape, missing_within},
};

use super::{
    dumps::Channels,
    frames::{Frames, RawChunk},
    steps::Steps,
    sums::Done,
    window::Passed,
};

/// Makes spectra of frames. Spectrum `m` begins at sample `m x hop` after the sync time, whenever the service starts.
pub struct Spectra {
    engine: Engine,
    shape: Shape,
    frames: Frames,
    hop: u64,
    /// Builder of the plan that measures gains from the first samples, if they are to be measured, and the level to reach.
    level: Option<(channelise::Builder, f32)>,
    /// GPU from whose memory spectra are brought to the host, if they are.
    brought_from: Option<Arc<dyn Gpu>>,
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
        let shape = engine.shape()?;
        Ok(Self { engine, shape, frames, hop, level: None, brought_from: None, next: None })
    }

    /// Circularity of the channels' noise, as of [`Channeliser::circularity`].
    pub fn circularity(&mut self) -> Vec<f64> {
        self.engine.plan().circularity()
    }

    /// Measures gains of the first chunk that lacks less than half, so that the real and imaginary parts of each
    /// input and channel have the standard deviation `sigma`: with `builder`, of which the plan was built. What comes
    /// before it is missing.
    #[must_use]
    pub fn level(mut self, builder: channelise::Builder, sigma: f32) -> Self {
        self.level = Some((builder, sigma));
        self
    }

    /// Brings spectra to host memory, from where several GPUs take some channels each.
    #[must_use]
    pub fn in_host(mut self) -> Self {
        self.brought_from = self.engine.plan().gpu().cloned();
        self
    }

    /// Feeds samples of which the first is `start`.
    fn feed(
        &mut self,
        samples: RawSamples<'_>,
        start: u64,
        to: &mut Steps,
        done: Done<'_>,
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
        if made == 0 {
            return Ok(());
        }
        let (spectra, first) = (self.engine.view(), self.engine.first());
        let Some(gpu) = &self.brought_from else { return to.add(spectra, first, done) };
        let layout = self.shape.layout;
        let (bytes, gaps) = (spectra.gather_from(gpu, layout)?, spectra.gaps().collect::<Vec<_>>());
        let (element, extents) = (spectra.element(), spectra.extents());
        let brought = Samples::dense(bytes[..].into(), element, layout, extents);
        to.add(brought.missing_zeroed(&gaps), first, done)
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

    fn shape(&self) -> Shape {
        self.shape
    }

    fn add(&mut self, passed: &Passed<RawChunk>, to: &mut Steps, done: Done<'_>) -> Result<()> {
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
        self.feed(chunk.view(&missing).times(0..times), passed.start, to, done)?;
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
