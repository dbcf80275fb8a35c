//! The order of samples in memory.

use std::{fmt, str::FromStr};

use crate::error::{Error, Result};

/// Order of the axes of a block of samples, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `tcn`: `[time][channel][input]`, what packets and F-engines deliver.
    Tcn,
    /// `cnt`: `[channel][input][time]`, time-contiguous.
    Cnt,
}

impl Layout {
    /// Every layout.
    pub const ALL: [Self; 2] = [Self::Tcn, Self::Cnt];

    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcn => "tcn",
            Self::Cnt => "cnt",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|layout| layout.name() == text)
            .ok_or_else(|| Error::invalid(format!("unknown layout {text:?}: expected tcn or cnt")))
    }
}
