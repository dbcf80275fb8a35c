//! Delays of a Channeliser: a function, a file, or numbers.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use corrust::{
    delays::{DelayModel, Polynomial, Polynomials},
    format::moment,
};
use pyo3::prelude::*;

use crate::error::{Fault, kind, list, value};

/// Delays that a function of Python's gives.
pub struct Called {
    pub function: Py<PyAny>,
    /// First exception that it raised.
    pub raised: Mutex<Option<PyErr>>,
}

impl Called {
    pub fn raised(&self) -> PyResult<()> {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
        raised.map_or(Ok(()), Err)
    }
}

impl DelayModel for Called {
    fn delay(&self, input: usize, seconds: f64) -> Option<f64> {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        if raised.is_some() {
            return None;
        }
        let call = |py: Python<'_>| self.function.call1(py, (input, seconds))?.extract(py);
        Python::attach(call).unwrap_or_else(|error| {
            *raised = Some(error);
            None
        })
    }
}

/// A number of seconds, or pieces of polynomials: start, end, coefficients.
#[derive(FromPyObject)]
enum Delay {
    Constant(f64),
    Pieces(Vec<(f64, f64, Vec<f64>)>),
}

/// Delays of a list, or of a file.
pub fn polynomials(
    given: &Bound<'_, PyAny>,
    inputs: usize,
    start: Option<&str>,
) -> PyResult<Polynomials> {
    let model = if let Ok(path) = given.extract::<PathBuf>() {
        let start = start.map(moment).transpose().map_err(Fault::from)?;
        given.py().detach(|| Polynomials::read(&path, start)).map_err(Fault::from)?
    } else {
        let delays: Vec<Delay> = list(given).map_err(|_| {
            kind(format!(
                "delays is {}: expected a number or pieces (start, end, coefficients) for each input, a path, or a \
                 function",
                given.get_type()
            ))
        })?;
        let piece = |(start, end, coefficients)| Polynomial { start, end, coefficients };
        let pieces = |delay| match delay {
            Delay::Constant(delay) => vec![Polynomial::constant(delay)],
            Delay::Pieces(pieces) => pieces.into_iter().map(piece).collect(),
        };
        Polynomials::new(delays.into_iter().map(pieces).collect()).map_err(Fault::from)?
    };
    if model.inputs() != inputs {
        return Err(value(format!("delays of {} inputs: expected {inputs}", model.inputs())));
    }
    Ok(model)
}
