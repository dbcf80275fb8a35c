//! Arrays brought to a GPU.

use corrust::device::{Buffer, Stream};
use pyo3::prelude::*;

use crate::{
    array::Array,
    device,
    device_array::{DeviceArray, Memory},
    error::{Fault, value},
    stream::stream,
};

/// Copies an array to a GPU.
///
/// Parameters
/// ----------
/// array : array
///     In host memory, without gaps: NumPy's, or any that speaks DLPack.
/// device : str, default "cuda"
///     ``"cuda"``, ``"cuda:1"`` or ``"sim"``.
///
/// Returns
/// -------
/// DeviceArray
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> corrust.to_device(numpy.zeros(3, numpy.uint8), "sim")
/// DeviceArray(uint8, shape=[3], device="sim")
#[pyfunction]
#[pyo3(signature = (array, device="cuda"))]
pub fn to_device(py: Python<'_>, array: &Bound<'_, PyAny>, device: &str) -> PyResult<DeviceArray> {
    let array = Array::of("array", array, stream(None)?)?;
    if !array.is_dense() {
        return Err(crate::error::kind(
            "array has gaps or another order: expected elements that follow each other, as in \
             numpy.ascontiguousarray(array)",
        ));
    }
    let gpus = device::open(py, device)?;
    let [gpu] = &gpus[..] else {
        return Err(value(format!("device {device:?}: expected one GPU")));
    };
    let bytes = array.bytes()?;
    let upload = || {
        let buffer = Buffer::new(gpu, bytes.len())?;
        if !bytes.is_empty() {
            buffer.upload(Stream::default(), bytes)?;
        }
        Ok::<_, corrust::Error>(buffer)
    };
    let buffer = py.detach(upload).map_err(Fault::from)?;
    Ok(DeviceArray {
        memory: Memory::new(gpu.clone(), buffer, Stream::default()),
        first: 0,
        dtype: array.dtype,
        shape: array.shape.clone(),
    })
}
