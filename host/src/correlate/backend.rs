//! A place that computes: the CPU, a GPU, or several.

use super::{
    gates::Gates,
    visibilities::{Visibilities, VisibilitiesMut},
};
use crate::{
    backend::not_on_device,
    error::Result,
    kernels::correlate::Kernel,
    layout::Layout,
    quantise::Packed,
    sample::Encoding,
    samples::{extents::Extents, shape::Shape, view::Samples},
    tuning::Tuning,
};

/// Setup of a backend.
pub(crate) struct Setup<'a> {
    pub(super) shape: &'a Shape,
    pub(super) kernel: Kernel,
    /// Override of [`Tuning::of`].
    pub(super) tuning: Option<&'a Tuning>,
    pub(super) gates: usize,
    /// One per input, or none at all.
    pub(super) shifts: &'a [usize],
}

/// A place that correlates: the CPU, a GPU, or the simulator. It holds the sums of all gates.
pub(crate) trait Backend: Send {
    /// Adds the products of samples, at least one time of them, of the plan's encoding, channels and
    /// inputs, to the gate that has the number of each time (and channel), or all to gate 0.
    fn accumulate(&mut self, samples: &Samples<'_>, gates: Option<Gates<'_>>) -> Result<()>;

    /// Adds the products of words, at least one time of them, to gate 0.
    fn accumulate_packed(&mut self, packed: &Packed<'_>) -> Result<()> {
        accumulate_unpacked(self, packed)
    }

    /// Brings a gate's sums since its last dump to `visibilities`, which has room for them; the gate
    /// starts again from zero.
    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities) -> Result<()>;

    /// Brings all gates' sums to the memory of one of the plan's GPUs.
    fn dump_device(&mut self, _room: &VisibilitiesMut<'_>) -> Result<()> {
        Err(not_on_device("visibilities"))
    }

    /// Forgets the sums since the last dump.
    fn reset(&mut self);

    /// Waits until everything accumulated is summed.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }
}

/// [`Backend::accumulate_packed`] of a backend that takes no words.
pub(super) fn accumulate_unpacked(
    backend: &mut (impl Backend + ?Sized),
    packed: &Packed<'_>,
) -> Result<()> {
    let Extents { channels, inputs, .. } = packed.extents();
    let samples = packed.unpack()?;
    let samples = Samples::new(&samples[..], inputs, channels, Encoding::Ci4, Layout::Cnt)?;
    backend.accumulate(&samples, None)
}
