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
//! Source: "AutocorrelationCUDA" (bin groups); Schaetzel, "Noise on photon correlation data"
//! (symmetric normalisation).

mod cpu;
mod curve;
mod plan;
mod shape;
mod state;

pub use curve::{Curve, Sums};
pub use plan::{Autocorrelator, Builder};
pub use shape::{MAX_GROUPS, Point, Scheme, Shape};
pub use state::State;

use crate::{Device, Error, Result};

/// A place that autocorrelates: the CPU, a GPU, or the simulator.
pub(crate) trait Backend: Send {
    /// Advances the state by counts `[instant][sensor]`, a whole number of instants.
    fn accumulate(&mut self, counts: &[u8]) -> Result<()>;

    /// The state as it is now; the stream goes on.
    fn state(&mut self) -> Result<State>;

    /// The device, as a person would name it.
    fn device_name(&self) -> &str;
}

/// The backend for a device, continuing from `state`.
fn backend(state: State, device: Device) -> Result<Box<dyn Backend>> {
    match device {
        Device::Cpu | Device::Auto => Ok(Box::new(cpu::Cpu::new(state))),
        Device::Cuda(_) | Device::Sim => {
            Err(Error::Device(format!("{device}: autocorrelation runs on the CPU, expected cpu")))
        }
    }
}
