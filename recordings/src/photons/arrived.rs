//! Photons of a stretch of a recording.

use corrust_host::{
    Result,
    autocorrelate::{Arrivals, MOST_INSTANTS},
    samples::CountShape,
};

use crate::formats::recording::Recording;

/// Numbers of channels are below this.
pub const DETECTORS: usize = 1 << 16;

/// Photons of a stretch, about.
const STRETCH: u128 = 1 << 20;

/// A recording of counts, whose photons can be read one by one if it has photons.
pub trait Photons: Recording<CountShape> {
    /// Most photons of each sensor; [`None`] for a recording of counts.
    fn photons(&self) -> Option<Vec<u64>>;

    /// Microtimes of the photons; [`None`] without microtimes, or if their unit is unknown.
    fn microtimes(&self) -> Option<Microtimes>;

    /// Instants of about a million photons.
    fn stretch(&self) -> u64 {
        let photons: u64 = self.photons().map_or(0, |photons| photons.iter().sum());
        let stretch = u128::from(self.times()) * STRETCH / u128::from(photons.max(1));
        (stretch as u64).clamp(1, MOST_INSTANTS)
    }

    /// Replaces the lists of `arrived` by the photons of the next `instants` instants, and returns the number of instants:
    /// fewer at the end of the recording or beyond [`MOST_INSTANTS`], 0 after the end. Reads of counts and of times may
    /// alternate.
    ///
    /// # Errors
    /// As for [`read_block`](Recording::read_block); [`Error::Invalid`](corrust_host::Error::Invalid) for a recording of counts.
    fn read_times(&mut self, instants: u64, arrived: &mut Arrived) -> Result<u64>;
}

/// Units of microtimes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Microtimes {
    /// Seconds of a unit.
    pub unit: f64,
    /// Number of units between two pulses, approximately, or that the instrument resolves.
    pub count: u32,
}

/// Photons of a stretch of a recording.
#[derive(Clone, Debug, Default)]
pub struct Arrived {
    /// Instants of the stretch.
    pub instants: u64,
    /// For each sensor the instants of its photons since the stretch began, ascending.
    pub times: Vec<Vec<u32>>,
    /// Whether their microtimes are to be listed, too; of NumPy files, which have none, they are not.
    pub with_microtimes: bool,
    /// For each sensor the microtimes of the same photons, in the file's units, if they were asked for.
    pub microtimes: Vec<Vec<u32>>,
}

impl Arrived {
    /// The times, to be correlated.
    pub fn arrivals(&self) -> Arrivals<'_> {
        Arrivals { instants: self.instants, times: &self.times }
    }
}
