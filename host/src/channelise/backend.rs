//! A place that computes: the CPU, a GPU, or several.

use num_complex::Complex;

use super::{
    places::Batch,
    shape::Shape,
    spectra::{Spectra, SpectraMut},
};
use crate::{
    backend::not_on_device, error::Result, kernels::channelise::Kernel, samples::raw::RawSamples,
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
        Err(not_on_device("spectra"))
    }

    /// Replaces the gains.
    fn set_gains(&mut self, gains: &[Complex<f32>]) -> Result<()>;

    /// Forgets the samples that were kept.
    fn reset(&mut self);

    /// Waits until everything given is done.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }
}
