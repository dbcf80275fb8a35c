//! The implementations of the autocorrelation on a GPU, by name.

use std::{fmt, str::FromStr};

use crate::{Error, Result};

/// Which implementation of the autocorrelation a plan uses on a GPU. All of them give the same
/// bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// `auto`: `tensor-cores` for long blocks of counts, `bin-groups` for short ones.
    #[default]
    Auto,
    /// `bin-groups`: bin groups in shared memory, an instant at a time. Least latency.
    BinGroups,
    /// `tensor-cores`: short bins on tensor cores, long ones from them, many instants at a time.
    /// Autocorrelations with at most 64 lags a group; the more twos divide the number of lags, the
    /// quicker.
    TensorCores,
}

impl Kernel {
    /// Every kernel.
    pub const ALL: [Self; 3] = [Self::Auto, Self::BinGroups, Self::TensorCores];

    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::BinGroups => "bin-groups",
            Self::TensorCores => "tensor-cores",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kernel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kernel| kernel.name() == text).ok_or_else(|| {
            Error::invalid(format!(
                "unknown kernel {text:?}: expected auto, bin-groups or tensor-cores"
            ))
        })
    }
}
