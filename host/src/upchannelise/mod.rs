//! Subchannels of channels: a filter bank of the samples of each channel and input.
//!
//! ```text
//! Y[t'][f][u][i] = G[f][u] sum over s < M U of W[s] exp(-2 pi j (u - (U - 1) / 2) s / U) x[(t' - M + 1) U + s][f][i]
//! ```
//!
//! [`Upchanneliser`] is the plan. Its arithmetic is [`corrust_gpu::abi::upchannelise`]'s, in f32 and in a fixed order: bits
//! are the same on every backend, and however the stream is cut.
//!
//! Source: "CHORD GPU upchannelization" (kotekan, `julia/docs`), equations 83 to 92.

pub(crate) mod cpu;
pub(crate) mod gpu;
pub(crate) mod history;
pub(crate) mod plan;
pub(crate) mod shape;
pub(crate) mod weights;

pub use crate::kernels::upchannelise::Kernel;
pub use plan::{Builder, Upchanneliser};
pub use shape::{FACTORS, Shape};
pub use weights::weights;
