//! A place that computes: the CPU, a GPU, or several.

use super::{state::State, sums_mut::SumsMut, times::Entry};
use crate::{
    backend::not_on_device,
    error::{Error, Result},
    samples::view::Samples,
};

/// A place that autocorrelates: the CPU, a GPU, or the simulator.
pub(crate) trait Backend: Send {
    /// Advances the state by counts, one channel of as many inputs as there are sensors.
    fn accumulate(&mut self, counts: &Samples<'_>) -> Result<()>;

    /// Whether it correlates photons by their times.
    fn takes_times(&self) -> bool {
        false
    }

    /// Advances the state by a number of instants with photons of each sensor; called where it [takes](Self::takes_times)
    /// them.
    fn accumulate_times(&mut self, _instants: u64, _photons: &[Vec<Entry<u32>>]) -> Result<()> {
        Err(Error::invalid("photons by their times on a GPU: expected counts"))
    }

    /// Waits until all sums are up to date.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    /// Copies the current state to `state`, reusing its memory; the stream goes on.
    fn state_into(&mut self, state: &mut State) -> Result<()>;

    /// Copies the current sums to device memory.
    fn snapshot_device(&mut self, _room: &SumsMut<'_>) -> Result<()> {
        Err(not_on_device("sums"))
    }
}
