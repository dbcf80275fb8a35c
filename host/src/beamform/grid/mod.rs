//! Beams of dishes on a regular grid.
//!
//! ```text
//! I[f][t'][q][p] = g sum over t of block t' and pol of |B[q][p]|^2,  p < 2M, q < 2N
//! B[q][p] = sum over m, n of exp(2 pi j (m p / 2M + n q / 2N)) W[f][pol][m][n] x[t][f][pol][m, n]
//! ```
//!
//! [`GridBeamformer`] is the plan. The two transforms, the squares and their sums are one kernel's. Of [two](Kernel) one is
//! exact, in f32 and in a fixed order: its bits are the same on every backend. The other is the tensor cores'. The bits
//! of both are the same however the stream is cut.
//!
//! Source: "CHORD FRB beamformer" (kotekan, `julia/docs`), and its kernel `julia/kernels/frb.jl`.

pub(crate) mod cpu;
mod exact;
pub(crate) mod gpu;
pub(crate) mod kernel;
pub(crate) mod plan;
pub(crate) mod powers;
pub(crate) mod shape;
mod tensor;

pub use kernel::Kernel;
pub use plan::{Builder, GridBeamformer};
pub use powers::{GridBeams, Powers};
pub use shape::{MAX_SIDE, MAX_WEIGHT, Shape};
