//! An F-engine as a step.

use corrust_host::{
    Channeliser, Error, Result, Samples,
    channelise::Engine,
    samples::{RawShape, Shape},
};

use super::source::{Head, Piece, Source, Wants};

/// Spectra of raw voltages; a spectrum is a time. On a GPU they stay there, for plans on the same one.
pub struct Channelise<'a> {
    source: Box<dyn Source<RawShape> + 'a>,
    engine: Engine,
    head: Head,
    /// The current piece, and times to make.
    start: u64,
    times: u64,
    end: u64,
    ended: bool,
}

impl<'a> Channelise<'a> {
    /// The spectra that a plan makes of `voltages`, of which no gap may be without samples
    /// ([`Reader::voltages`](super::Reader::voltages)); it begins another stream.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the spectra are of `cf32`, which no other plan takes, or the recording is shorter than one;
    /// [`Error::OutOfMemory`].
    pub fn over(voltages: impl Source<RawShape> + 'a, plan: Channeliser) -> Result<Self> {
        let window = plan.shape().window();
        let times = voltages.head().times;
        if let Some(times) = times.filter(|&times| times < window as u64) {
            return Err(Error::invalid(format!(
                "{times} samples of each input: expected at least the {window} of a spectrum"
            )));
        }
        let mut engine = Engine::new(plan)?;
        let head = Head {
            times: times.map(|times| engine.spectra_of(times)),
            circularity: engine.plan().circularity(),
            ..Head::new(engine.shape()?)
        };
        let source = Box::new(voltages);
        Ok(Self { source, engine, head, start: 0, times: 0, end: u64::MAX, ended: false })
    }

    /// The plan.
    pub(super) fn plan(&mut self) -> &Channeliser {
        self.engine.plan()
    }
}

impl Source for Channelise<'_> {
    fn head(&self) -> &Head<Shape> {
        &self.head
    }

    fn begin(&mut self, wants: &Wants) {
        // The spectra that are wanted may be made before the voltages end.
        self.end = wants.end;
        if wants.soon < u64::MAX {
            // Spectra that begin in one part and end in the next cost more than others.
            let shape = self.engine.plan().shape();
            let samples =
                wants.soon.saturating_mul(shape.hop as u64).max(8 * shape.window() as u64);
            let soon = samples.checked_next_multiple_of(64).unwrap_or(u64::MAX);
            self.source.begin(&Wants { soon, ..Wants::default() });
        }
    }

    fn advance(&mut self) -> Result<bool> {
        self.start += std::mem::take(&mut self.times);
        let left = self.end.saturating_sub(self.start);
        while !self.ended && left > 0 {
            let made = if self.source.advance()? {
                let samples = self.source.piece().samples;
                self.engine.feed(samples.expect("gaps have samples"))?
            } else {
                self.ended = true;
                self.engine.finish()?
            };
            if made > 0 {
                self.times = left.min(made as u64);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn piece(&self) -> Piece<Samples<'_>> {
        let (start, times) = (self.start, self.times);
        let samples = (times > 0).then(|| self.engine.view().times(0..times as usize));
        let host = samples
            .filter(|samples| matches!(samples.memory(), corrust_host::samples::Memory::Host(_)));
        Piece { start, times, samples, host }
    }

    fn clipped(&self) -> Result<Vec<u64>> {
        self.engine.clipped()
    }
}
