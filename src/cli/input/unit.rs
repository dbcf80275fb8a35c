//! The unit of time: time samples of channels, or spectra of an F-engine.

use crate::cli::options::engine::spectra;
use crate::cli::terminal::numbers::count;

/// Unit of a correlation's time axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    #[default]
    Time,
    Spectrum,
}

impl Unit {
    pub fn one(self) -> &'static str {
        if self == Self::Time { "time" } else { "spectrum" }
    }

    pub fn several(self) -> &'static str {
        if self == Self::Time { "times" } else { "spectra" }
    }

    pub fn count(self, number: u64) -> String {
        if self == Self::Time { count(number, "time") } else { spectra(number) }
    }
}
