//! The autocorrelator's section of a table.

use serde::{Deserialize, Serialize};

use super::fault::{Fault, positive};

/// Numbers that the autocorrelator chooses by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Autocorrelate {
    /// Instants of a block from which tensor cores are quicker than bin groups.
    pub tensor_core_instants: usize,
    /// How much longer an instant takes a block of the first kernel, of counts, than those of the second, of
    /// bins, on a multiprocessor: by it segments are cut.
    pub counts_over_bins: f64,
}

impl Autocorrelate {
    /// Finds a value that plans cannot go by.
    pub(super) fn check(&self) -> Result<(), Fault> {
        positive("autocorrelate.counts_over_bins".to_owned(), self.counts_over_bins)
    }
}
