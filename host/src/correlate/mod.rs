//! Correlation: `V[c][b(i,j)] = sum_t x_i[c][t] * conj(x_j[c][t])` for `0 <= j <= i < N`.
//!
//! [`Correlator`] is the plan: it checks shapes and blocks, replaces missing samples, delays and
//! gates them, and hands plain blocks to a backend, which multiplies and sums.
//!
//! Source: Klages et al., "GPU Kernels for High-Speed 4-Bit Astrophysical Data Processing", eq. 1;
//! Romein, "The Tensor-Core Correlator", section 2.

mod cpu;
mod delay;
mod gpu;
mod kernel;
mod on_device;
mod plan;
mod selection;
mod shape;
mod visibilities;

pub use kernel::Kernel;
pub use plan::{Builder, Correlator, DROP};
pub use selection::Selection;
pub use shape::{Shape, Strides, baseline, baselines, useful_operations};
pub use visibilities::{Dump, ValidCounts, Visibilities};

use std::sync::Arc;

use crate::{
    Error, Result,
    device::{Gpu, Stream},
};

/// A place that correlates: the CPU, a GPU, or the simulator.
///
/// Samples are raw bytes of the plan's encoding and layout; `times` of them for every channel and
/// input, already checked by the plan to fill `samples` exactly.
pub(crate) trait Backend: Send {
    /// Adds the products of `times` samples, at least one, to the visibilities held by the backend.
    fn accumulate(&mut self, samples: &[u8], times: usize) -> Result<()>;

    /// [`Self::accumulate`] of samples in device memory at `address`, enqueued on the caller's
    /// stream.
    ///
    /// # Safety
    /// `address` holds the samples and stays readable until the stream has come so far.
    unsafe fn accumulate_device(
        &mut self,
        _address: u64,
        _times: usize,
        _stream: Stream,
    ) -> Result<()> {
        Err(Error::invalid(format!(
            "{}: correlates samples in host memory, not in a GPU's",
            self.device_name()
        )))
    }

    /// Returns the sums since the last dump and starts again from zero.
    fn dump(&mut self) -> Result<Visibilities>;

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

/// The backend on a GPU, or on the CPU where there is none, for a kernel.
fn backend(shape: &Shape, gpu: Option<Arc<dyn Gpu>>, kernel: Kernel) -> Result<Box<dyn Backend>> {
    match gpu {
        Some(gpu) => Ok(Box::new(gpu::GpuBackend::new(gpu, shape, kernel)?)),
        None => cpu::backend(shape, kernel),
    }
}
