//! The F-engine: raw voltages to spectra.
//!
//! `X_i[m][k] = g_i[k] exp(2 pi j phi_i[m][k]) sum over n < K P of h[n] x_i[m D + n - s_i[m]]
//! exp(-2 pi j k (m D + n) / K)`: a polyphase filter bank, with delays of whole samples `s` and turns `phi` for
//! the rest.
//!
//! [`Channeliser`] is the plan: it checks shapes, finds where each spectrum is taken from and which are
//! missing, and hands the samples to a backend. The order of every f32 operation is fixed
//! ([`corrust_gpu::abi::channelise`]), so that all backends give the same bits.

mod cpu;
pub(crate) mod delays;
mod gpu;
mod kernel;
mod places;
mod plan;
mod prototype;
mod response;
mod shape;
mod spectra;

pub use delays::DelayModel;
pub use kernel::Kernel;
pub use places::MAX_DELAY_SAMPLES;
pub use plan::{Builder, Channeliser};
pub use prototype::{Window, prototype};
pub use response::Response;
pub use shape::{MAX_TAPS, RESIDUES, Shape, SpectrumEncoding};
pub use spectra::{Spectra, SpectraMut};

use std::sync::Arc;

use num_complex::Complex;

use self::places::Batch;
use crate::{Error, Result, device::Gpu, samples::RawSamples};

/// What a backend is made for.
struct Setup<'a> {
    shape: &'a Shape,
    kernel: Kernel,
    /// `h`, in the order of time.
    prototype: &'a [f64],
    /// `[input][channel]`.
    gains: &'a [Complex<f32>],
    /// Whether spectra are turned: places say how far.
    turns: bool,
}

/// A place that channelises: the CPU, a GPU, or the simulator. It keeps the samples of earlier blocks that
/// later spectra are made of.
trait Backend: Send {
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

    /// The device, as a person would name it.
    fn device_name(&self) -> &str;

    /// The kernel, never [`Kernel::Auto`].
    fn kernel(&self) -> Kernel;
}

/// The backend on a GPU, or on the CPU where there is none.
fn backend(gpus: Vec<Arc<dyn Gpu>>, setup: &Setup<'_>) -> Result<Box<dyn Backend>> {
    match &gpus[..] {
        [] => cpu::backend(setup),
        [gpu] => Ok(Box::new(gpu::GpuBackend::new(gpu.clone(), setup)?)),
        _ => Err(Error::invalid(format!("{} GPUs for one F-engine: expected one", gpus.len()))),
    }
}
