//! Stand-in for the simulator in a build without it.

use std::sync::Arc;

use crate::{
    device::{gpu::Gpu, ptx::Kernels},
    error::{Error, Result},
};

fn absent() -> Error {
    Error::Device("no device sim: this build of corrust has no simulator (feature sim)".to_owned())
}

pub(super) fn open(_index: usize) -> Result<Arc<dyn Gpu>> {
    Err(absent())
}

pub(super) fn open_with(_kernels: &Kernels) -> Result<Arc<dyn Gpu>> {
    Err(absent())
}
