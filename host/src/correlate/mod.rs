//! Correlation: `V[c][b(i,j)] = sum_t x_i[c][t] * conj(x_j[c][t])` for `0 <= j <= i < N`.
//!
//! [`Correlator`] is the plan: it checks shapes and samples, counts those that are there, and hands them to
//! a backend, which delays and gates them, multiplies and sums.
//!
//! Source: Klages et al., "GPU Kernels for High-Speed 4-Bit Astrophysical Data Processing", eq. 1;
//! Romein, "The Tensor-Core Correlator", section 2.

mod bits;
mod cpu;
mod delay;
mod gpu;
mod kernel;
mod on_device;
mod plan;
mod shape;
mod split;
mod time_blocks;
mod valid;
mod visibilities;

pub use kernel::Kernel;
pub use plan::{Builder, Correlator, DROP};
pub use shape::{Shape, baseline, baselines, useful_operations};
pub use visibilities::{Dump, ValidCounts, Visibilities, VisibilitiesMut};

use std::{ops::Range, sync::Arc};

use crate::{
    Error, Result,
    device::{Gpu, Tuning},
    samples::Samples,
};

/// What a backend is made for.
pub(crate) struct Setup<'a> {
    shape: &'a Shape,
    kernel: Kernel,
    /// What GPUs go by, instead of what [`Tuning::of`] says.
    tuning: Option<&'a Tuning>,
    gates: usize,
    /// One per input, or none at all.
    shifts: &'a [usize],
}

/// A place that correlates: the CPU, a GPU, or the simulator. It holds the sums of all gates.
pub(crate) trait Backend: Send {
    /// Adds the products of samples, at least one time of them, of the plan's encoding, channels and
    /// inputs, to the gate that has each time's number, or all to gate 0.
    fn accumulate(&mut self, samples: &Samples<'_>, gates: Option<&[u8]>) -> Result<()>;

    /// [`accumulate`](Self::accumulate) of the [`shares`](Self::shares) of several GPUs.
    fn accumulate_shares(&mut self, shares: &[Samples<'_>]) -> Result<()> {
        shares.iter().try_for_each(|all| self.accumulate(all, None))
    }

    /// The channels that each of several GPUs correlates; none where all are in one place.
    fn shares(&self) -> Vec<Range<usize>> {
        Vec::new()
    }

    /// Brings a gate's sums since its last dump to `visibilities`, which has room for them; the gate
    /// starts again from zero.
    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities) -> Result<()>;

    /// Brings all gates' sums to the memory of one of the plan's GPUs.
    fn dump_device(&mut self, _room: &VisibilitiesMut<'_>) -> Result<()> {
        Err(Error::invalid(format!(
            "{}: leaves visibilities in host memory, not in a GPU's",
            self.device_name()
        )))
    }

    /// Forgets the sums since the last dump.
    fn reset(&mut self);

    /// Waits until everything accumulated is summed.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    /// The device, as a person would name it.
    fn device_name(&self) -> &str;

    /// The kernel, never [`Kernel::Auto`].
    fn kernel(&self) -> Kernel;
}

/// The backend on some GPUs, or on the CPU where there is none.
fn backend(gpus: Vec<Arc<dyn Gpu>>, setup: &Setup<'_>) -> Result<Box<dyn Backend>> {
    match setup.shape.encoding.is_bits() {
        true => Ok(Box::new(bits::Bits::new(gpus, setup)?)),
        false => plain(gpus, setup),
    }
}

/// The backend of samples all of which it multiplies alike.
fn plain(gpus: Vec<Arc<dyn Gpu>>, setup: &Setup<'_>) -> Result<Box<dyn Backend>> {
    match &gpus[..] {
        [] => cpu::backend(setup),
        [gpu] => Ok(Box::new(gpu::GpuBackend::new(gpu.clone(), setup)?)),
        _ => Ok(Box::new(split::Split::new(gpus, setup)?)),
    }
}
