//! `corrust.WeightedAutocorrelator`.

use std::sync::{Mutex, PoisonError};

use corrust::autocorrelate::{Shape, Weighted, WeightedArrivals};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::{
    autocorrelate::python_sums,
    error::{Fault, count, list, optional_list, parse},
};

/// A multi-tau correlation of photons that have weights, in float64 on the CPU.
///
/// Sums are defined as in `Autocorrelator`, with sums of weights in place of counts. With the weights of ``lifetime_weights``,
/// a sensor for each component, they are the correlations of the components (FLCS). Equal calls give equal bits.
///
/// Parameters
/// ----------
/// sensors, groups, lags, scheme, pairs
///     As of `Autocorrelator`.
#[pyclass(frozen, module = "corrust")]
pub struct WeightedAutocorrelator {
    plan: Mutex<Weighted>,
}

#[pymethods]
impl WeightedAutocorrelator {
    #[new]
    #[pyo3(signature = (sensors, groups=10, lags=32, scheme="bin-groups", pairs=None))]
    fn new(
        #[pyo3(from_py_with = count)] sensors: usize,
        #[pyo3(from_py_with = count)] groups: usize,
        #[pyo3(from_py_with = count)] lags: usize,
        scheme: &str,
        #[pyo3(from_py_with = optional_list)] pairs: Option<Vec<(usize, usize)>>,
    ) -> PyResult<Self> {
        let shape = Shape { sensors, groups, lags, scheme: parse(scheme)? };
        let plan = Weighted::new(shape, &pairs.unwrap_or_default()).map_err(Fault::from)?;
        Ok(Self { plan: Mutex::new(plan) })
    }

    /// Adds photons to the stream.
    ///
    /// Parameters
    /// ----------
    /// times : sequence of array of uint32
    ///     For each sensor the instants of its photons since the last call's end, ascending.
    /// weights : sequence of array of float64
    ///     For each sensor the weights of the same photons.
    /// instants : int
    ///     Instants of the stretch, at most 2**31.
    fn accumulate(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = list)] times: Vec<PyReadonlyArray1<'_, u32>>,
        #[pyo3(from_py_with = list)] weights: Vec<PyReadonlyArray1<'_, f64>>,
        instants: u64,
    ) -> PyResult<()> {
        let times: Vec<&[u32]> =
            times.iter().map(|times| times.as_slice()).collect::<Result<_, _>>()?;
        let weights: Vec<&[f64]> =
            weights.iter().map(|weights| weights.as_slice()).collect::<Result<_, _>>()?;
        let arrivals = WeightedArrivals { instants, times: &times, weights: &weights };
        py.detach(|| {
            let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
            plan.accumulate(arrivals)
        })
        .map_err(Fault::from)?;
        Ok(())
    }

    /// Returns all sums of the stream so far, ``Sums`` of float64; the stream goes on.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let sums = self.plan.lock().unwrap_or_else(PoisonError::into_inner).sums();
        python_sums(py, sums)
    }

    /// Instants fed since the stream began.
    #[getter]
    fn instants(&self) -> u64 {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).instants()
    }

    fn __repr__(&self) -> String {
        let Shape { sensors, groups, lags, scheme } =
            *self.plan.lock().unwrap_or_else(PoisonError::into_inner).shape();
        format!(
            "WeightedAutocorrelator(sensors={sensors}, groups={groups}, lags={lags}, scheme=\"{scheme}\")"
        )
    }
}
