//! Results as Python's classes of `corrust._results`.

use corrust::correlate::{Dump, ValidCounts, Visibilities};
use ndarray::Array3;
use num_complex::Complex;
use numpy::IntoPyArray;
use pyo3::{prelude::*, sync::PyOnceLock};

/// A dump in host memory as Python's.
pub fn host_dump<'py>(py: Python<'py>, dump: Dump, inputs: usize) -> PyResult<Bound<'py, PyAny>> {
    fn pairs<'py, T: bytemuck::Pod + numpy::Element>(
        py: Python<'py>,
        sums: ndarray::Array2<Complex<T>>,
    ) -> Bound<'py, PyAny>
    where
        Complex<T>: bytemuck::Pod,
    {
        let (channels, baselines) = sums.dim();
        let values: Vec<T> = bytemuck::cast_vec(sums.into_raw_vec_and_offset().0);
        let sums = Array3::from_shape_vec((channels, baselines, 2), values);
        sums.expect("two numbers a sum").into_pyarray(py).into_any()
    }
    let sums = match dump.visibilities {
        Visibilities::Integer(sums) => pairs(py, sums),
        Visibilities::Float(sums) => pairs(py, sums),
    };
    python_dump(py, sums, &dump.valid, dump.times, inputs)
}

/// `corrust.Dump`.
pub fn python_dump<'py>(
    py: Python<'py>,
    sums: Bound<'py, PyAny>,
    valid: &ValidCounts,
    times: u64,
    inputs: usize,
) -> PyResult<Bound<'py, PyAny>> {
    static DUMP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let valid = match valid {
        ValidCounts::Complete(count) => count.into_pyobject(py)?.into_any(),
        ValidCounts::Each(counts) => counts.to_array().into_pyarray(py).into_any(),
    };
    result(py, &DUMP, "Dump")?.call1((sums, valid, times, inputs))
}

/// A class of results, which stands in Python.
pub fn result<'py>(
    py: Python<'py>,
    class: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let class = class.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("corrust._results")?.getattr(name)?.unbind())
    })?;
    Ok(class.bind(py).clone())
}
