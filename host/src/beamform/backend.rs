//! A place that computes: the CPU, a GPU, or several.

use super::beams::{Beams, BeamsMut};
use crate::{backend::not_on_device, error::Result, samples::view::Samples};

/// A place that forms beams: the CPU, a GPU, or the simulator.
pub(crate) trait Backend: Send {
    /// Replaces the weights, `[F][P][B][D]`: pairs of int8, of halves for `cf16` voltages.
    fn set_weights(&mut self, weights: &[u8]) -> Result<()>;

    /// Replaces the shifts, `[F][P][B]`, each at most [`MAX_SHIFT`].
    fn set_shifts(&mut self, shifts: &[u32]) -> Result<()>;

    /// Forms the beams of `beams.times()` times of voltages, a channel for each pair of a channel and
    /// a polarisation: fills the samples, the counts, and the incoherent beam if `beams` has one.
    fn beamform(&mut self, voltages: &Samples<'_>, beams: &mut Beams) -> Result<()>;

    /// Enqueues the beams of voltages, samples `[B][F][P][T]` and added counts `[F][P][B]` to be left in
    /// device memory.
    fn beamform_device(&mut self, _voltages: &Samples<'_>, _room: &BeamsMut<'_>) -> Result<()> {
        Err(not_on_device("beams"))
    }

    /// Waits until everything enqueued is done.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }
}
