//! corrust: correlators, beamformers and autocorrelators whose GPU kernels are plain Rust.
pub use corrust_host::*;
