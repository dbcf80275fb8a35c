//! Dumps at multiples of the integration since the sync time.

use super::chunks::{Chunk, Geometry, Passed};
use crate::{Correlator, Error, Result, correlate::Dump};

/// Correlates chunks as they come.
pub struct Integrator {
    correlator: Correlator,
    geometry: Geometry,
    integration: u64,
    /// The dump that is being summed, and whether samples of it came.
    current: Option<u64>,
    dump: LiveDump,
    empty: u64,
}

/// A dump of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveDump {
    /// Its first time, counted from timestamp 0: a multiple of `times`.
    pub start: u64,
    /// Its times, whether samples of them came or not.
    pub times: u64,
    /// Visibilities, and how many samples are behind them. Its own times leave out those of which nothing
    /// came.
    pub dump: Dump,
}

impl Integrator {
    /// Dumps of `integration` times.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the correlator's shape is not that of the chunks, or the integration has no
    /// times.
    pub fn new(correlator: Correlator, geometry: Geometry, integration: u64) -> Result<Self> {
        if *correlator.shape() != geometry.shape() {
            return Err(Error::invalid(format!(
                "a correlator of {:?}: expected one of {:?}",
                correlator.shape(),
                geometry.shape()
            )));
        }
        if integration == 0 {
            return Err(Error::invalid("an integration of 0 times: expected at least 1"));
        }
        Ok(Self {
            correlator,
            geometry,
            integration,
            current: None,
            dump: LiveDump::default(),
            empty: 0,
        })
    }

    /// The plan.
    pub fn correlator(&self) -> &Correlator {
        &self.correlator
    }

    /// Dumps of which nothing came, between others: they are not handed out.
    pub fn empty(&self) -> u64 {
        self.empty
    }

    /// Correlates a chunk, whose memory is returned; `done` gets every dump that is over.
    ///
    /// # Errors
    /// The device's own, and what `done` returns.
    pub fn take(
        &mut self,
        passed: Passed,
        mut done: impl FnMut(&LiveDump) -> Result<()>,
    ) -> Result<Option<Chunk>> {
        let Passed { start, end, chunk, jumped } = passed;
        if let Some(chunk) = &chunk {
            let missing = chunk.missing(&self.geometry);
            let samples = chunk.view(&self.geometry, &missing);
            let mut from = start;
            while from < end {
                let number = from / self.integration;
                if self.current.is_some_and(|current| current != number) {
                    self.finish(&mut done)?;
                }
                self.current = Some(number);
                let to = end.min((number + 1).saturating_mul(self.integration));
                let piece = samples.times((from - start) as usize..(to - start) as usize);
                self.correlator.accumulate(piece)?;
                from = to;
                self.finish_before(to, &mut done)?;
            }
        }
        self.finish_before(end, &mut done)?;
        if jumped {
            self.finish(&mut done)?;
        }
        Ok(chunk)
    }

    /// The stream has ended before time `end`: the last dump is handed out if it is complete, else forgotten.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    pub fn end(&mut self, end: u64, mut done: impl FnMut(&LiveDump) -> Result<()>) -> Result<()> {
        self.finish_before(end, &mut done)?;
        self.correlator.reset();
        self.current = None;
        Ok(())
    }

    /// Hands out the dump that is being summed if it is over at time `now`.
    fn finish_before(
        &mut self,
        now: u64,
        done: &mut impl FnMut(&LiveDump) -> Result<()>,
    ) -> Result<()> {
        match self.current {
            Some(current) if (current + 1).saturating_mul(self.integration) <= now => {
                self.finish(done)
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self, done: &mut impl FnMut(&LiveDump) -> Result<()>) -> Result<()> {
        let Some(number) = self.current.take() else { return Ok(()) };
        let (start, times) = (number.saturating_mul(self.integration), self.integration);
        // Those between this and the last one had no heap.
        let skipped = start.saturating_sub(self.dump.start + times) / times;
        if self.dump.times > 0 {
            self.empty += skipped;
        }
        self.correlator.dump_into(&mut self.dump.dump)?;
        (self.dump.start, self.dump.times) = (start, times);
        done(&self.dump)
    }
}
