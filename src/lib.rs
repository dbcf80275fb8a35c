//! corrust: correlators, beamformers and autocorrelators whose GPU kernels are plain Rust.
//!
//! - [`Correlator`] is a plan built once for a shape, an encoding and a device: feed it samples, take
//!   visibilities.
//! - [`mod@format`] reads recordings and writes arrays as streams.
//! - [`quantise`] makes few-bit samples of voltages.
//! - [`simulate`] makes recordings of point sources with known delays.
//! - [`device`] tells what there is to run on.
//!
//! The command `corrust` does the same from files to files; `corrust help` explains it.

pub use corrust_host::*;

#[cfg(feature = "bench")]
pub mod bench;

/// Keeps the example in the README working.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
