//! Counts from wherever they come, as a recording.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use corrust_host::{Error, Result, autocorrelate::MOST_INSTANTS, samples::CountShape};

use super::arrived::{Arrived, Microtimes, Photons};
use crate::{
    array::time::Timestamp,
    formats::recording::{Block, Recording, read_past},
};

/// Source of the counts of a number of instants.
pub(super) trait CountSource: Send {
    /// Whether instants can be read without those before them.
    const SEEKS: bool;

    /// Shape of the counts of an instant.
    fn shape(&self) -> CountShape;

    /// Instants in all.
    fn instants(&self) -> u64;

    /// Seconds of an instant.
    fn dwell(&self) -> f64;

    /// As of a [`Recording`].
    fn start(&self) -> Option<Timestamp> {
        None
    }

    /// As of a [`Recording`].
    fn facts(&self) -> Vec<(&'static str, String)>;

    /// As of a [`Recording`].
    fn left_out(&self) -> Option<&str> {
        None
    }

    /// Photons that have come late so far, and were put in order.
    fn late(&self) -> u64 {
        0
    }

    /// Photons of each sensor, at most; none where counts are kept.
    fn photons(&self) -> Option<Vec<u64>> {
        None
    }

    /// As of [`Photons`].
    fn microtimes(&self) -> Option<Microtimes> {
        None
    }

    /// Lists the photons of `instants` instants from number `first` on, all of which there are; asked of a source of
    /// photons.
    fn read_times(&mut self, _first: u64, _instants: u64, _arrived: &mut Arrived) -> Result<()> {
        Err(Error::invalid("counts: expected photons one by one"))
    }

    /// Fills a block with the counts of `times` instants from number `first` on, all of which there are.
    fn read(&mut self, first: u64, times: usize, block: &mut Block) -> Result<()>;
}

/// A source that is read from its first instant to its last.
pub(super) struct Reading<S> {
    source: S,
    /// Instants that have been read.
    position: u64,
    late: Arc<AtomicU64>,
}

impl<S: CountSource> Reading<S> {
    pub fn new(source: S) -> Self {
        Self { source, position: 0, late: Arc::default() }
    }

    /// Photons that have come late so far, whoever holds the recording.
    pub fn late(&self) -> Arc<AtomicU64> {
        self.late.clone()
    }

    /// Advances by a number of instants, which have been read.
    fn advance(&mut self, instants: u64) {
        self.position += instants;
        self.late.store(self.source.late(), Ordering::Relaxed);
    }

    /// Instants that are left, of some.
    fn left(&self, instants: u64) -> u64 {
        instants.min(self.source.instants() - self.position)
    }
}

impl<S: CountSource> Photons for Reading<S> {
    fn photons(&self) -> Option<Vec<u64>> {
        self.source.photons()
    }

    fn microtimes(&self) -> Option<Microtimes> {
        self.source.microtimes()
    }

    fn read_times(&mut self, instants: u64, arrived: &mut Arrived) -> Result<u64> {
        let instants = self.left(instants.min(MOST_INSTANTS));
        self.source.read_times(self.position, instants, arrived)?;
        arrived.instants = instants;
        self.advance(instants);
        Ok(instants)
    }
}

impl<S: CountSource> Recording<CountShape> for Reading<S> {
    fn shape(&self) -> CountShape {
        self.source.shape()
    }

    fn times(&self) -> u64 {
        self.source.instants()
    }

    fn interval(&self) -> Option<f64> {
        Some(self.source.dwell())
    }

    fn start(&self) -> Option<Timestamp> {
        self.source.start()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        self.source.facts()
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        if S::SEEKS {
            self.position += self.left(times);
            return Ok(());
        }
        let bytes = self.shape().bytes();
        read_past(self, times, bytes)
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let times = self.left(times as u64) as usize;
        self.source.read(self.position, times, block)?;
        self.advance(times as u64);
        Ok(times)
    }

    fn left_out(&self) -> Option<&str> {
        self.source.left_out()
    }
}
