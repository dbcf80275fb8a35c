//! The autocorrelator's section of a table.

use serde::{Deserialize, Serialize};

use super::fault::{Fault, positive};

/// Numbers by which the autocorrelator chooses its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Autocorrelate {
    /// Instants of a block from which tensor cores are quicker than bin groups.
    pub tensor_core_instants: usize,
    /// Time of an instant in a block of the first kernel, of counts, over that in the blocks of the second, of
    /// bins, on a multiprocessor: segments are cut by it.
    pub counts_over_bins: f64,
}

impl Autocorrelate {
    /// Finds a value that plans cannot go by.
    pub(super) fn check(&self) -> Result<(), Fault> {
        positive("autocorrelate.counts_over_bins".to_owned(), self.counts_over_bins)
    }
}
