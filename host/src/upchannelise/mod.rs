//! Subchannels of channels: a filter bank of the samples of each channel and input.
//!
//! ```text
//! Y[t'][f][u][i] = G[f][u] sum over s < M U of W[s] exp(-2 pi j (u - (U - 1) / 2) s / U) x[(t' - M + 1) U + s][f][i]
//! ```
//!
//! [`Upchanneliser`] is the plan. Its arithmetic is the [F-engine](crate::channelise)'s, to which every channel of every
//! input is an input of complex samples.
//!
//! Source: "CHORD GPU upchannelization" (kotekan, `julia/docs`), equations 83 to 92.

pub(crate) mod plan;
pub(crate) mod rows;
pub(crate) mod weights;

pub use plan::{Builder, FACTORS, Shape, Upchanneliser};
pub use weights::weights;
