//! The Python package `corrust`.
use pyo3::prelude::*;

#[pymodule]
fn _corrust(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
