//! The spectra of a recording of raw voltages, block by block.

use std::ops::Range;

use corrust_host::{Channeliser, Error, Result, Samples, channelise::Engine, samples::Shape};

use super::{
    blocks::Blocks,
    pieces::{Pieces, Source},
    voltages::Voltages,
};

/// An F-engine that is fed with a recording.
pub(super) struct SpectraOf {
    voltages: Voltages,
    engine: Engine,
    ended: bool,
}

impl SpectraOf {
    /// Spectra of a stream that begins with the recording.
    pub(super) fn new(voltages: Voltages, plan: Channeliser) -> Result<Self> {
        Ok(Self { voltages, engine: Engine::new(plan)?, ended: false })
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Spectra of the whole recording; `u64::MAX` of a stream whose length nobody knows.
    pub(super) fn recorded(&self) -> u64 {
        match self.voltages.recorded() {
            u64::MAX => u64::MAX,
            times => self.engine.spectra_of(times),
        }
    }
}

impl Pieces<'_> {
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
        Ok(Self::of(Source::Begun(Box::new(spectra)), shape, recorded, 1))
    }
}

impl Blocks<Shape> for SpectraOf {
    fn next_block(&mut self) -> Result<Option<(u64, usize)>> {
        while !self.ended {
            let made = match self.voltages.next_piece()? {
                Some(samples) => self.engine.feed(samples)?,
                None => {
                    self.ended = true;
                    self.engine.finish()?
                }
            };
            if made > 0 {
                return Ok(Some((0, made)));
            }
        }
        Ok(None)
    }

    fn missing_within(&self, range: &Range<usize>) -> usize {
        self.engine.missing_within(range)
    }

    fn view(&self, _: &Shape, range: Range<usize>) -> Samples<'_> {
        self.engine.view().times(range)
    }

    fn clipped(&self) -> Result<Vec<u64>> {
        self.engine.clipped()
    }
}
