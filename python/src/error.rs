//! The library's errors as Python's, with the same sentences.

use corrust::Error;
use pyo3::{
    exceptions::{
        PyKeyboardInterrupt, PyMemoryError, PyOSError, PyOverflowError, PyRuntimeError,
        PyTypeError, PyValueError,
    },
    prelude::*,
};

/// Why something stopped: the library's reason, or a Python exception.
#[derive(Debug)]
pub enum Fault {
    Library(Error),
    Python(PyErr),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Library(error) => exception(&error),
            Fault::Python(error) => error,
        }
    }
}

/// The exception for an error.
pub fn exception(error: &Error) -> PyErr {
    let sentence = match error {
        Error::Setting { setting, .. } => format!("{error} ({setting}=)"),
        _ => error.to_string(),
    };
    match error {
        Error::Device(_) => PyRuntimeError::new_err(sentence),
        Error::OutOfMemory { .. } => PyMemoryError::new_err(sentence),
        Error::Cancelled { .. } => PyKeyboardInterrupt::new_err(sentence),
        // With the system's number Python finds the right subclass, FileNotFoundError for one.
        Error::Io { source, .. } => match source.raw_os_error() {
            Some(number) => PyOSError::new_err((number, sentence)),
            None => PyOSError::new_err(sentence),
        },
        _ => PyValueError::new_err(sentence),
    }
}

/// A `ValueError`.
pub fn value(sentence: impl Into<String>) -> PyErr {
    PyValueError::new_err(sentence.into())
}

/// A `TypeError`.
pub fn kind(sentence: impl Into<String>) -> PyErr {
    PyTypeError::new_err(sentence.into())
}

/// A `RuntimeError`.
pub fn runtime(sentence: impl Into<String>) -> PyErr {
    PyRuntimeError::new_err(sentence.into())
}

/// Parses a word of the library, such as the name of an encoding.
pub fn parse<T: std::str::FromStr<Err = Error>>(word: &str) -> PyResult<T> {
    word.parse().map_err(|error| exception(&error))
}

/// A number of things that was given as an argument: `ValueError` of one that is negative or too large, which PyO3 by
/// itself makes an `OverflowError`.
pub fn count<T: TryFrom<u64>>(given: &Bound<'_, PyAny>) -> PyResult<T> {
    let wide = match given.extract::<u64>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(given.py()) => None,
        found => Some(found?),
    };
    wide.and_then(|wide| T::try_from(wide).ok()).ok_or_else(|| {
        let bits = 8 * size_of::<T>();
        value(format!(
            "a count of {given}: expected a whole number from 0 on, of at most {bits} bits"
        ))
    })
}

/// The text of a moment in UTC: a str in ISO 8601, or an astropy Time.
pub fn optional_moment(given: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if given.is_none() || given.is_instance_of::<pyo3::types::PyString>() {
        return given.extract();
    }
    given.py().import("corrust._results")?.call_method1("utc", (given,))?.extract()
}

/// Values of a sequence, for as many of which as its length says there is memory.
pub fn list<'py, T: FromPyObjectOwned<'py>>(given: &Bound<'py, PyAny>) -> PyResult<Vec<T>> {
    let length = given.len().unwrap_or(0);
    corrust::device::room::<T>(length).map_err(|error| exception(&error))?;
    given.extract()
}

/// [`list`] of what may be left out.
pub fn optional_list<'py, T: FromPyObjectOwned<'py>>(
    given: &Bound<'py, PyAny>,
) -> PyResult<Option<Vec<T>>> {
    if given.is_none() { Ok(None) } else { list(given).map(Some) }
}

/// [`count`] of what may be left out.
pub fn optional_count<T: TryFrom<u64>>(given: &Bound<'_, PyAny>) -> PyResult<Option<T>> {
    if given.is_none() { Ok(None) } else { count(given).map(Some) }
}
