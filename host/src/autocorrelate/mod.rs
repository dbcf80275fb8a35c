//! Multi-tau autocorrelation: photon counts in, sums of products at lags spread over decades out.
//!
//! `A_k[c] = sum_m Z_k[m] * Y_{k,c}[m]`, with bins `Z_k[m] = sum_{q<2^k} x[m 2^k + q]` of group `k`
//! and delayed bins `Y_{k,c}[m] = sum_{q<2^k} x[m 2^k + q - L]`, lag `L = S (2^k - 1) + c 2^k`
//! samples, over all `m` whose bin is complete; `x[n] = 0` for `n < 0`. See [`Scheme`] for the
//! other set of lags, that of hardware correlators.
//!
//! All that ever changes is a [`State`]: instants seen, sums, bins in the making, and per group the
//! delayed bins that the next products need. A backend advances it by a block of counts; whatever
//! the cuts between blocks, the state is the same. Written to a file, it resumes on any device.
//!
//! Curves are normalised symmetrically, `g(tau) = A' M' / (sum' Z * sum' Y)`, over the bins alone whose
//! delayed bin begins at or after the first sample: see [`Sums`].
//!
//! Source: "AutocorrelationCUDA" (bin groups); Schaetzel, "Noise on photon correlation data"
//! (symmetric normalisation).

mod blocks;
mod cpu;
mod curve;
mod gpu;
mod grams;
mod head;
mod kernel;
mod plan;
mod shape;
mod split;
mod state;
mod sums_mut;

pub use blocks::{Blocks, Errors};
pub use curve::{Curve, Sums};
pub use kernel::Kernel;
pub use plan::{Autocorrelator, Builder};
pub use shape::{MAX_GROUPS, Point, Scheme, Shape};
pub use state::State;
pub use sums_mut::SumsMut;

use std::sync::Arc;

use crate::{
    Error, Result,
    device::{Gpu, Tuning},
    samples::Samples,
};

/// A place that autocorrelates: the CPU, a GPU, or the simulator.
pub(crate) trait Backend: Send {
    /// Advances the state by counts, one channel of as many inputs as there are sensors.
    fn accumulate(&mut self, counts: &Samples<'_>) -> Result<()>;

    /// Waits until all sums are up to date.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    /// Brings the state as it is now to `state`, whose memory is used again; the stream goes on.
    fn state_into(&mut self, state: &mut State) -> Result<()>;

    /// Brings the sums as they are now to device memory.
    fn snapshot_device(&mut self, _room: &SumsMut<'_>) -> Result<()> {
        Err(Error::invalid(format!(
            "{}: leaves sums in host memory, not in a GPU's",
            self.device_name()
        )))
    }

    /// The device, as a person would name it.
    fn device_name(&self) -> &str;

    /// The kernel: [`Kernel::Auto`] where it depends on the blocks of counts.
    fn kernel(&self) -> Kernel;
}

/// The backend on some GPUs, or on the CPU where there is none, continuing from `state`.
fn backend(
    state: State,
    gpus: Vec<Arc<dyn Gpu>>,
    kernel: Kernel,
    tuning: Option<&Tuning>,
) -> Result<Box<dyn Backend>> {
    let on = |gpu: Arc<dyn Gpu>, state| -> Result<Box<dyn Backend>> {
        if grams::Grams::takes(&gpu, &state, kernel)? {
            return Ok(Box::new(grams::Grams::new(gpu, state)?));
        }
        let tuned = Tuning::or_of(tuning, gpu.facts())?.autocorrelate;
        Ok(Box::new(gpu::GpuBackend::new(gpu, state, kernel, tuned)?))
    };
    match &gpus[..] {
        [gpu] => on(gpu.clone(), state),
        [_, _, ..] => Ok(Box::new(split::Split::new(gpus, state, on)?)),
        [] if kernel == Kernel::Auto => Ok(Box::new(cpu::Cpu::new(state))),
        [] => Err(Error::invalid(format!(
            "kernel {kernel} does not run on a CPU: expected kernel auto"
        ))),
    }
}
