//! Spectral kurtosis: flags of blocks of samples that are no Gaussian noise.
//!
//! Of every input, channel and block of `M` times, with `S0` valid samples, `S1 = sum |x|^2`, `S2 = sum |x|^4`:
//!
//! ```text
//! SK = (S0 + 1) / (S0 - 1) (S0 S2 / S1^2 - 1)
//! ```
//!
//! is 1 on average for Gaussian noise, whatever its power: more for intermittent RFI, less for continuous RFI.
//! [`Kurtosis`] is the plan, which makes the sums on a device; [`Judge`] decides which of them to flag. A
//! [`Stage`] copies samples to a GPU and judges them there.
//!
//! Source: Nita and Gary, "The generalized spectral kurtosis estimator", MNRAS Letters 406 (2010), L60.

pub(crate) mod cpu;
pub(crate) mod given;
pub(crate) mod gpu;
pub(crate) mod judge;
pub(crate) mod judge_gpu;
pub(crate) mod levels;
pub(crate) mod plan;
pub(crate) mod stage;
pub(crate) mod sums;

pub use gpu::sum_on;
pub use judge::{FALSE_ALARM, FEWEST_SAMPLES, Judge};
pub use plan::{Builder, Kurtosis};
pub use stage::Stage;
pub use sums::{FlagCounts, Sums, Verdict};
