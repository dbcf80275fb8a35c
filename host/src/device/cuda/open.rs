//! Opens CUDA devices.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use super::{facts::count, gpu::CudaGpu};
use crate::{
    device::{
        gpu::{Gpu, lock},
        ptx::Kernels,
    },
    error::{Error, Result},
};

/// Opens device `ordinal`; further calls give the same one.
///
/// # Errors
/// [`Error::Device`] when it is not there, or older than compute capability 8.0.
pub fn open(ordinal: u32) -> Result<Arc<dyn Gpu>> {
    static OPEN: Mutex<Option<HashMap<u32, Arc<CudaGpu>>>> = Mutex::new(None);
    let count = count()?;
    if ordinal >= count {
        return Err(Error::Device(format!(
            "no device cuda:{ordinal}: there are {count}, from cuda:0 to cuda:{}",
            count - 1
        )));
    }
    let mut open = lock(&OPEN);
    let open = open.get_or_insert_default();
    if let Some(gpu) = open.get(&ordinal) {
        return Ok(gpu.clone());
    }
    let gpu = Arc::new(CudaGpu::new(ordinal, &Kernels::named()?)?);
    open.insert(ordinal, gpu.clone());
    Ok(gpu)
}

/// Opens device `ordinal` once more, with other kernels in place of those of the same name.
///
/// # Errors
/// As [`open`]'s.
pub fn open_with(ordinal: u32, kernels: &Kernels) -> Result<Arc<dyn Gpu>> {
    open(ordinal)?;
    Ok(Arc::new(CudaGpu::new(ordinal, kernels)?))
}
