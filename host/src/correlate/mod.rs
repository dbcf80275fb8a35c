//! Correlation: `V[c][b(i,j)] = sum_t x_i[c][t] * conj(x_j[c][t])` for `0 <= j <= i < N`.
//!
//! Source: Klages et al., "GPU Kernels for High-Speed 4-Bit Astrophysical Data Processing", eq. 1;
//! Romein, "The Tensor-Core Correlator", section 2.

mod cpu;
mod plan;

pub use plan::{Shape, Visibilities, baseline, baselines, useful_operations};

/// A place that correlates: the CPU, a GPU, or the simulator.
///
/// Samples are raw bytes of the plan's encoding and layout; `times` of them for every channel and
/// input, already checked by the plan to fill `samples` exactly.
#[expect(dead_code, reason = "its users follow")]
pub(crate) trait Backend: Send {
    /// Adds the products of `times` samples to the visibilities held by the backend.
    fn accumulate(&mut self, samples: &[u8], times: usize) -> crate::Result<()>;

    /// Returns the sums since the last dump and starts again from zero.
    fn dump(&mut self) -> crate::Result<Visibilities>;
}
