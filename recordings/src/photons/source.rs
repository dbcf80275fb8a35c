//! Counts from wherever they come, as a recording.

use corrust_host::{Result, samples::CountShape};

use crate::{
    array::time::Timestamp,
    formats::recording::{Block, Recording, read_past},
};

/// What has the counts of so many instants.
pub(super) trait Source: Send {
    /// Whether instants can be read without those before them.
    const SEEKS: bool;

    /// What an instant holds.
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

    /// Fills a block with the counts of `times` instants from number `first` on, all of which there are.
    fn read(&mut self, first: u64, times: usize, block: &mut Block) -> Result<()>;
}

/// A source that is read from its first instant to its last.
pub(super) struct Reading<S> {
    source: S,
    /// Instants that have been read.
    position: u64,
}

impl<S: Source> Reading<S> {
    pub fn new(source: S) -> Self {
        Self { source, position: 0 }
    }

    /// Instants that are left, of some.
    fn left(&self, instants: u64) -> u64 {
        instants.min(self.source.instants() - self.position)
    }
}

impl<S: Source> Recording<CountShape> for Reading<S> {
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
        self.position += times as u64;
        Ok(times)
    }

    fn left_out(&self) -> Option<&str> {
        self.source.left_out()
    }
}
