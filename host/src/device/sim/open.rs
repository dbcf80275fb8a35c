//! Opens simulators.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use ptx_sim::Report;

use super::gpu::SimGpu;
use crate::{
    device::{
        gpu::{Gpu, lock},
        ptx::Kernels,
    },
    error::Result,
};

static SHARED: Mutex<Vec<Arc<SimGpu>>> = Mutex::new(Vec::new());

/// Counters of all launches so far on the simulators that plans of device `sim` share, by kernel.
pub fn reports() -> BTreeMap<&'static str, Report> {
    let mut reports = BTreeMap::new();
    lock(&SHARED).iter().for_each(|gpu| gpu.add_reports(&mut reports));
    reports
}

/// The simulators that [`crate::Device::Sim`] opens, the first alone and the others in a list, with the
/// kernels that `CORRUST_PTX` names.
pub(in crate::device) fn open(index: usize) -> Result<Arc<dyn Gpu>> {
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
