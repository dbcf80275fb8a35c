//! Arrays of numbers of any type.

use numpy::{PyArrayDescrMethods, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use crate::{
    array::refuse_masked,
    error::{kind, value},
};

/// Numbers of any type of NumPy's, in order; broadcast to a shape if one is given.
pub fn numbers<T: numpy::Element + Copy>(
    name: &str,
    given: &Bound<'_, PyAny>,
    shape: Option<&[usize]>,
) -> PyResult<Vec<T>> {
    refuse_masked(name, given)?;
    let py = given.py();
    let numpy = py.import("numpy")?;
    let mut array = numpy.call_method1("asarray", (given,))?;
    let letter: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let dtype = numpy::dtype::<T>(py);
    if !matches!(&letter[..], "i" | "u" | "f" | "b") && (letter != "c" || dtype.kind() != b'c') {
        return Err(kind(format!(
            "{name} of {}: expected {dtype} or what becomes it",
            array.getattr("dtype")?.str()?
        )));
    }
    if let Some(shape) = shape {
        let found: Vec<usize> = array.getattr("shape")?.extract()?;
        array = numpy.call_method1("broadcast_to", (array, shape)).map_err(|_| {
            value(format!(
                "{name} of shape {found:?}: expected {shape:?}, or what broadcasts to it"
            ))
        })?;
    }
    // Arrays that came in messages may lie anywhere.
    let array = numpy.call_method1("require", (array, dtype, ["C_CONTIGUOUS", "ALIGNED"]))?;
    let array: PyReadonlyArrayDyn<'_, T> = array.extract()?;
    Ok(array.as_slice().map_err(|_| value(format!("{name}: expected numbers")))?.to_vec())
}
