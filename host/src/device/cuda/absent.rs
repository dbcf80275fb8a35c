//! Stand-in for CUDA in a build without it.

use std::sync::Arc;

use crate::{
    device::{
        gpu::{Facts, Gpu},
        ptx::Kernels,
    },
    error::{Error, Result},
};

fn absent() -> Error {
    Error::Device(
        "no CUDA device: this build of corrust has no CUDA support (feature cuda, which a clone has by itself \
         unless RUSTFLAGS is set; Linux on x86-64 or aarch64)"
            .to_owned(),
    )
}

/// Always an error saying that this build has no CUDA support.
///
/// # Errors
/// [`Error::Device`].
pub fn count() -> Result<u32> {
    Err(absent())
}

/// Always an error saying that this build has no CUDA support.
///
/// # Errors
/// [`Error::Device`].
pub fn open(_ordinal: u32) -> Result<Arc<dyn Gpu>> {
    Err(absent())
}

/// Always an error saying that this build has no CUDA support.
///
/// # Errors
/// [`Error::Device`].
pub fn open_with(_ordinal: u32, _kernels: &Kernels) -> Result<Arc<dyn Gpu>> {
    Err(absent())
}

/// Always an error saying that this build has no CUDA support.
///
/// # Errors
/// [`Error::Device`].
pub fn facts(_ordinal: u32) -> Result<Facts> {
    Err(absent())
}
