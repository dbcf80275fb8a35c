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

pub(crate) mod backend;
pub(crate) mod blocks;
pub(crate) mod counts;
pub(crate) mod cpu;
pub(crate) mod curve;
pub(crate) mod gpu;
pub(crate) mod grams;
pub(crate) mod head;
pub(crate) mod plan;
pub(crate) mod shape;
pub(crate) mod split;
pub(crate) mod state;
pub(crate) mod sums_mut;
pub(crate) mod times;
pub(crate) mod weighted;

pub use crate::kernels::autocorrelate::Kernel;
pub use blocks::{Blocks, Errors};
pub use curve::{Curve, Sums};
pub use plan::{Autocorrelator, Builder};
pub use shape::{MAX_GROUPS, Point, Scheme, Shape};
pub use state::State;
pub use sums_mut::SumsMut;
pub use times::{Amount, Arrivals, MOST_INSTANTS};
pub use weighted::{Weighted, WeightedArrivals};
