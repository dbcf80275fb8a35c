//! The extension module of the Python package `corrust`: plans, recordings and arrays on a GPU.
//!
//! Results, one-call functions and plots are written in Python (`corrust/`). Every call that computes lets other
//! Python threads run meanwhile, and looks for signals between pieces of its work.

mod array;
mod autocorrelate;
mod beamform;
mod channelise;
#[cfg(feature = "cli")]
mod commit;
mod correlate;
mod delays;
mod device;
mod device_array;
mod dlpack;
mod dtype;
mod error;
mod fit;
mod folding;
mod fork;
mod grid;
mod held;
mod images;
mod iterators;
mod kurtosis;
mod numbers;
mod photons;
mod plan;
mod planes;
mod raw;
mod recording;
mod results;
mod selection;
mod steering;
mod stream;
mod to_device;
mod upchannelise;
mod uvh5;
mod views;
mod weighted;

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command ``corrust`` with arguments, the first of which is its name, and returns its exit code.
#[cfg(feature = "cli")]
#[pyfunction]
fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    corrust::bench::built_from(commit::COMMIT, commit::COMPILER);
    py.detach(|| corrust::cli::run(arguments))
}

/// Says that this build has no command.
#[cfg(not(feature = "cli"))]
#[pyfunction]
fn run_command(_arguments: Vec<OsString>) -> PyResult<u8> {
    Err(pyo3::exceptions::PyNotImplementedError::new_err(
        "built without the command: expected feature cli",
    ))
}

/// Makes the products of a plan, TOML, and returns a sentence on each.
#[cfg(feature = "cli")]
#[pyfunction]
fn observe_plan(py: Python<'_>, plan: &str) -> PyResult<Vec<String>> {
    Ok(py.detach(|| corrust::cli::observe(plan)).map_err(error::Fault::from)?)
}

/// Says that this build has no command.
#[cfg(not(feature = "cli"))]
#[pyfunction]
fn observe_plan(_plan: &str) -> PyResult<Vec<String>> {
    Err(pyo3::exceptions::PyNotImplementedError::new_err(
        "built without the command: expected feature cli",
    ))
}

/// The extension module.
#[pymodule]
fn _corrust(module: &Bound<'_, PyModule>) -> PyResult<()> {
    fork::remember();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DROP", corrust::correlate::DROP)?;
    module.add_class::<correlate::Correlator>()?;
    module.add_class::<beamform::Beamformer>()?;
    module.add_class::<grid::GridBeamformer>()?;
    module.add_class::<autocorrelate::Autocorrelator>()?;
    module.add_class::<weighted::WeightedAutocorrelator>()?;
    module.add_class::<channelise::Channeliser>()?;
    module.add_class::<upchannelise::Upchanneliser>()?;
    module.add_class::<kurtosis::Kurtosis>()?;
    module.add_class::<photons::Photons>()?;
    module.add_class::<folding::Folding>()?;
    module.add_class::<recording::Recording>()?;
    module.add_class::<iterators::Blocks>()?;
    module.add_class::<iterators::Dumps>()?;
    module.add_class::<device_array::DeviceArray>()?;
    module.add_function(wrap_pyfunction!(to_device::to_device, module)?)?;
    module.add_function(wrap_pyfunction!(photons::open_photons, module)?)?;
    module.add_function(wrap_pyfunction!(photons::lifetime_weights, module)?)?;
    module.add_function(wrap_pyfunction!(fit::fit, module)?)?;
    module.add_function(wrap_pyfunction!(fit::read_curves, module)?)?;
    module.add_function(wrap_pyfunction!(images::brightness_maps, module)?)?;
    module.add_function(wrap_pyfunction!(images::spatial_correlation, module)?)?;
    module.add_function(wrap_pyfunction!(images::fit_rics, module)?)?;
    module.add_function(wrap_pyfunction!(images::pair_correlation, module)?)?;
    module.add_function(wrap_pyfunction!(images::two_time, module)?)?;
    module.add_function(wrap_pyfunction!(device::devices, module)?)?;
    module.add_function(wrap_pyfunction!(device::reports, module)?)?;
    module.add_function(wrap_pyfunction!(recording::open, module)?)?;
    module.add_function(wrap_pyfunction!(raw::raw_shape, module)?)?;
    module.add_function(wrap_pyfunction!(planes::planes, module)?)?;
    module.add_function(wrap_pyfunction!(kurtosis::kurtosis_flags, module)?)?;
    module.add_function(wrap_pyfunction!(planes::pack, module)?)?;
    module.add_function(wrap_pyfunction!(correlate::seconds_in_rust, module)?)?;
    module.add_function(wrap_pyfunction!(steering::weights, module)?)?;
    module.add_function(wrap_pyfunction!(steering::noise_shift, module)?)?;
    module.add_function(wrap_pyfunction!(uvh5::write_uvh5, module)?)?;
    module.add_function(wrap_pyfunction!(uvh5::read_uvh5, module)?)?;
    module.add_function(wrap_pyfunction!(observe_plan, module)?)?;
    module.add_function(wrap_pyfunction!(run_command, module)?)
}
