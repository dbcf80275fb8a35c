//! Devices: the list of them, and opening them by name.

use std::sync::Arc;

use corrust::{
    Correlator, Device, Devices,
    device::{Gpu, cuda},
};
use pyo3::{prelude::*, types::PyDict};

use crate::error::{Fault, parse};

/// Opens the GPUs that a device names: none for the CPU.
pub fn open(py: Python<'_>, device: &str) -> PyResult<Vec<Arc<dyn Gpu>>> {
    let devices: Devices = parse(device)?;
    Ok(py.detach(|| devices.open()).map_err(Fault::from)?)
}

/// Devices to compute on.
///
/// Returns
/// -------
/// list of dict
///     For each device ``"device"``, what plans take, and ``"name"``; for a GPU also ``"memory"`` (bytes),
///     ``"capability"`` and ``"multiprocessors"``.
///
/// Examples
/// --------
/// >>> import corrust
/// >>> [device["device"] for device in corrust.devices()][0]
/// 'cpu'
#[pyfunction]
pub fn devices(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let describe = |device: &str, name: &str| {
        let about = PyDict::new(py);
        about.set_item("device", device)?;
        about.set_item("name", name)?;
        PyResult::Ok(about)
    };
    let cpu = Correlator::builder(1, 1).device(Device::Cpu).build().map_err(Fault::from)?;
    let mut all = vec![describe("cpu", cpu.device_name())?];
    for ordinal in 0..py.detach(cuda::count).unwrap_or(0) {
        let facts = py.detach(|| cuda::facts(ordinal)).map_err(Fault::from)?;
        let about = describe(&format!("cuda:{ordinal}"), &facts.name)?;
        about.set_item("memory", facts.memory)?;
        about.set_item("capability", facts.capability)?;
        about.set_item("multiprocessors", facts.multiprocessors)?;
        all.push(about);
    }
    if cfg!(feature = "sim") {
        all.push(describe("sim", "the GPU kernels on the CPU, for tests")?);
    }
    Ok(all)
}

/// Counts of all launches so far on device ``sim``.
///
/// Returns
/// -------
/// dict of dict
///     For each kernel that ran, by name: ``"launches"``, ``"blocks"``, ``"tensor_operations"``, ``"total"`` and ``"classes"``
///     (instructions of warps and lanes, wavefronts of shared memory and sectors of global memory with the fewest possible,
///     divergent branches) and ``"sites"``, the same for each statement of the PTX.
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> dump = corrust.correlate(numpy.ones((64, 1, 2, 2), numpy.int8), device="sim")
/// >>> all(report["launches"] > 0 for report in corrust.reports().values())
/// True
#[pyfunction]
pub fn reports(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    #[cfg(feature = "sim")]
    for (name, report) in corrust::device::reports() {
        let counts = py.import("json")?.call_method1("loads", (report.to_json(),))?;
        all.set_item(name, counts)?;
    }
    Ok(all)
}
