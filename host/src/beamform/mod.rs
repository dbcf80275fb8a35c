//! Beamforming: `J[b][f][p][t] = quantise((sum_d A[f][p][b][d] * E[t][f][p][d]) >> s[f][p][b])`.
//!
//! [`Beamformer`] is the plan: it checks shapes, weights, shifts and voltages and hands them to a
//! backend. The product is complex and of `ci4` and `ci8` voltages the sum exact in 32 bits; [`Rounding`] says
//! how it is shifted; real and imaginary part are then clamped, to -7..7 of `ci4`, -127..127 of `ci8`. Beams of
//! floats are `sum * 2^-s`. Sums of `cf16` voltages are f32.
//!
//! Rules of floats, the same on every backend: an integer sum becomes the nearest f32, half to even; the
//! product with `2^-s` is f32; a half is the nearest to that, half to even, and a component beyond 65504 is
//! clamped there and counted. f32 sums of `cf16` differ from the exact ones by at most
//! `(D + 32) 2^-23 sum_d (|A_re E_re| + |A_im E_im|)` (the imaginary part likewise), and are the same in
//! every run; integers are made of them by the same rounding, 0 of what is no number.
//!
//! Source: Smith, "CHORD 8-bit baseband beamformer" (2022), eq. 1. The note shifts twice, before and
//! after its reduction over dishes (eqs. 19 and 25), and so loses bits; here the sum is shifted once.

mod beams;
mod cpu;
mod encode;
mod gpu;
mod kernel;
mod plan;
mod shape;
mod split;
mod weights;

pub use beams::{Beams, BeamsMut};
pub(crate) use gpu::{tiles, tiles_of_every_gpu};
pub use kernel::Kernel;
pub use plan::{Beamformer, Builder, Rounding};
pub use shape::{MAX_DISHES, MAX_DISHES_CI8, MAX_SHIFT, Shape, useful_operations};
pub use weights::{Pointing, SPEED_OF_LIGHT, delays, noise_shift, weights};

use std::sync::Arc;

use crate::{
    Encoding, Error, Result,
    device::{Gpu, Tuning},
    samples::Samples,
};

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
        Err(Error::invalid(format!(
            "{}: leaves beams in host memory, not in a GPU's",
            self.device_name()
        )))
    }

    /// Waits until everything enqueued is done.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    /// The device, as a person would name it.
    fn device_name(&self) -> &str;

    /// The kernel, never [`Kernel::Auto`].
    fn kernel(&self) -> Kernel;
}

/// Bytes of a weight, as backends take it.
const fn weight_bytes(voltages: Encoding) -> usize {
    match voltages {
        Encoding::Cf16 => 4,
        _ => 2,
    }
}

/// The backend on some GPUs, or on the CPU where there is none, for a kernel.
fn backend(
    shape: &Shape,
    weights: Encoding,
    rounding: Rounding,
    gpus: Vec<Arc<dyn Gpu>>,
    kernel: Kernel,
    tuning: Option<&Tuning>,
) -> Result<Box<dyn Backend>> {
    let on = |gpu: Arc<dyn Gpu>, shape: &Shape| {
        let tuning = Tuning::or_of(tuning, gpu.facts())?;
        gpu::GpuBackend::new(gpu, shape, weights, rounding, (kernel, tuning))
    };
    match &gpus[..] {
        [] => cpu::backend(shape, rounding, kernel),
        [gpu] => Ok(Box::new(on(gpu.clone(), shape)?)),
        _ => Ok(Box::new(split::Split::new(gpus, shape, on)?)),
    }
}
