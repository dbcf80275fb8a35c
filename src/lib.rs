//! corrust: correlators, beamformers and autocorrelators whose GPU kernels are plain Rust.
//!
//! A plan is built once for a shape and a device, then fed blocks of any length:
//!
//! - [`Correlator`]: samples in, visibilities of all pairs of inputs out, an integration at a time.
//! - [`Beamformer`]: voltages and weights in, beams out.
//! - [`Autocorrelator`]: photon counts in, sums of products at lags spread over decades out.
//!
//! Around them:
//!
//! - [`mod@format`] reads recordings and writes arrays as streams.
//! - [`quantise`] makes few-bit samples of voltages; [`reorder`] and [`shift`] bring samples into order
//!   on a GPU.
//! - [`simulate`] makes recordings of point sources with known delays.
//! - [`device`] tells what there is to run on.
//!
//! The command `corrust` does the same from files to files; `corrust help` explains it.

pub use corrust_host::*;

#[cfg(feature = "bench")]
pub mod bench;

/// Keeps the examples of the README and of the book working.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/correlate.md")]
    struct Correlate;
    #[doc = include_str!("../docs/beamform.md")]
    struct Beamform;
    #[doc = include_str!("../docs/autocorrelate.md")]
    struct Autocorrelate;
    #[doc = include_str!("../docs/reorder.md")]
    struct Reorder;
}
