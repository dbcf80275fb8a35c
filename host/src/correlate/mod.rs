//! Correlation: `V[c][b(i,j)] = sum_t x_i[c][t] * conj(x_j[c][t])` for `0 <= j <= i < N`.
//!
//! [`Correlator`] is the plan: it checks shapes and samples, counts the valid ones, and hands them to
//! a backend, which delays and gates them, multiplies and sums.
//!
//! Source: Klages et al., "GPU Kernels for High-Speed 4-Bit Astrophysical Data Processing", eq. 1;
//! Romein, "The Tensor-Core Correlator", section 2.

pub(crate) mod backend;
pub(crate) mod baseline_counts;
pub(crate) mod baselines;
pub(crate) mod bits;
pub(crate) mod counting;
pub(crate) mod cpu;
pub(crate) mod delay;
pub(crate) mod gates;
pub(crate) mod gpu;
pub(crate) mod on_device;
pub(crate) mod ones;
pub(crate) mod plan;
pub(crate) mod scattered;
pub(crate) mod split;
pub(crate) mod time_blocks;
pub(crate) mod valid;
pub(crate) mod visibilities;

pub use crate::kernels::correlate::Kernel;
pub use crate::samples::Shape;
pub use baseline_counts::BaselineCounts;
pub use baselines::{baseline, baselines, inputs_of, useful_operations};
pub use gates::{DROP, Gates};
pub use plan::{Builder, Correlator};
pub use visibilities::{Dump, ValidCounts, Visibilities, VisibilitiesMut};
