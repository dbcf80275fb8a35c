//! Devices, gates and shifts as callers give them.

use std::sync::Arc;

use corrust::device::Gpu;
use pyo3::prelude::*;

use crate::{array::Array, device, dtype::Dtype, stream::stream, views::whole_numbers};

/// The GPUs for an array: its own where the device is left open.
pub fn place(py: Python<'_>, array: &Array, device: &str) -> PyResult<Vec<Arc<dyn Gpu>>> {
    if device == "auto"
        && let Some(gpus) = array.device()?
    {
        return Ok(gpus);
    }
    device::open(py, device)
}

/// Whole numbers of samples that inputs are delayed by.
pub fn delays(given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<i64>> {
    Ok(given
        .map(|shifts| whole_numbers("shifts", shifts, i64::MIN + 1..=i64::MAX))
        .transpose()?
        .unwrap_or_default()
        .0)
}

/// The gate numbers of times, or of channels and times, and how many there are along each axis.
pub fn gate_numbers(given: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, Vec<usize>)> {
    if let Ok(array) = Array::of("gates", given, stream(None)?)
        && array.is_host()
        && array.dtype == Dtype::UINT8
        && array.is_dense()
    {
        return Ok((array.bytes()?.to_vec(), array.shape.clone()));
    }
    whole_numbers("gates", given, 0..=u8::MAX.into())
}
