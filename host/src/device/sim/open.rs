//! Opens simulators.

use std::sync::{Arc, Mutex};

use super::gpu::SimGpu;
use crate::{
    device::{
        gpu::{Gpu, lock},
        ptx::Kernels,
    },
    error::Result,
};

/// The simulators that [`crate::Device::Sim`] opens, the first alone and the others in a list, with the
/// kernels that `CORRUST_PTX` names.
pub(in crate::device) fn open(index: usize) -> Result<Arc<dyn Gpu>> {
    static SHARED: Mutex<Vec<Arc<SimGpu>>> = Mutex::new(Vec::new());
    let kernels = Kernels::named()?;
    let mut shared = lock(&SHARED);
    while shared.len() <= index {
        let mut gpu = SimGpu::with_kernels(&kernels);
        if !shared.is_empty() {
            gpu.name = format!("sim {}", shared.len() + 1);
        }
        shared.push(Arc::new(gpu));
    }
    Ok(shared[index].clone())
}

/// A simulator of its own, with other kernels in place of those of the same name.
pub(in crate::device) fn open_with(kernels: &Kernels) -> Result<Arc<dyn Gpu>> {
    Ok(Arc::new(SimGpu::with_kernels(kernels)))
}
