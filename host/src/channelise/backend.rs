//! A place that computes: the CPU, a GPU, or several.

use std::sync::Arc;

use num_complex::Complex;

use super::{
    places::Batch,
    shape::Shape,
    spectra::{Spectra, SpectraMut},
};
use crate::{
    device::gpu::Gpu,
    error::{Error, Result},
    kernels::channelise::Kernel,
    samples::raw::RawSamples,
};

/// Setup of a backend.
pub(super) struct Setup<'a> {
    pub(super) shape: &'a Shape,
    pub(super) kernel: Kernel,
    /// `h`, in the order of time.
    pub(super) prototype: &'a [f64],
    /// `[input][channel]`.
    pub(super) gains: &'a [Complex<f32>],
    /// Whether spectra are turned: places say how far.
    pub(super) turns: bool,
}

/// A place that channelises: the CPU, a GPU, or the simulator. It keeps the samples of earlier blocks that
/// later spectra are made of.
pub(super) trait Backend: Send {
    /// Makes a batch of spectra, for which there is room, of the samples of a block and those kept, and adds
    /// to the counts of clipped samples; then keeps what the batch says. The block begins at sample `start`
    /// of the stream.
    fn channelise(
        &mut self,
        block: &RawSamples<'_>,
        start: u64,
        batch: &Batch,
        spectra: &mut Spectra,
    ) -> Result<()>;

    /// [`channelise`](Self::channelise) into a GPU's memory.
    fn channelise_device(
        &mut self,
        _block: &RawSamples<'_>,
        _start: u64,
        _batch: &Batch,
        _room: &SpectraMut<'_>,
    ) -> Result<()> {
        Err(Error::invalid(format!(
            "{}: leaves spectra in host memory, not in a GPU's",
            self.device_name()
        )))
    }

    /// Replaces the gains.
    fn set_gains(&mut self, gains: &[Complex<f32>]) -> Result<()>;

    /// Forgets the samples that were kept.
    fn reset(&mut self);

    /// Waits until everything given is done.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    /// The GPU that channelises, if one does.
    fn gpu(&self) -> Option<&Arc<dyn Gpu>> {
        None
    }

    /// Name of the device, for people to read.
    fn device_name(&self) -> &str;

    /// The kernel, never [`Kernel::Auto`].
    fn kernel(&self) -> Kernel;
}
