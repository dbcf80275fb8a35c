//! `corrust.fit`.

use std::{collections::HashMap, path::PathBuf};

use corrust::{
    autocorrelate::Curve,
    fit::{Fit, Measured, Model, State, Uncertainties},
    format::curves,
};
use ndarray::Array2;
use numpy::IntoPyArray;
use pyo3::{prelude::*, types::PyDict};

use crate::{
    error::{Fault, value},
    numbers::numbers,
};

/// Fits a model of diffusion to a correlation curve.
///
/// ``g(tau) = offset + 1/n (1 + T/(1-T) exp(-tau/tau_T)) sum_k f_k (1 + tau/tau_k)^-1 (1 + tau/(kappa^2 tau_k))^-1/2``
///
/// Parameters
/// ----------
/// tau, g : array of float
///     Lags in seconds, and the values there. Points at lag 0, or that are NaN, are left out.
/// sigma : array of float, optional
///     Standard errors of the values. Without them all points weigh alike, and the reduced chi2 scales the covariance.
/// without : array of float, optional
///     Values without one block of the recording after the other, ``[block, point]``, as of ``curves_without``. Uncertainties are
///     then the scatter of fits to them, of 8 blocks or more. Otherwise they take the errors of points as independent, which
///     those of neighbouring lags of a measured curve are not: they are then too small, up to several times.
/// model : {"3d", "2d"}
///     Diffusion in space or in a plane.
/// components : {1, 2}
///     Diffusing components.
/// triplet, offset : bool
///     Whether a triplet state, and the value at long lags, are fitted.
/// fix, start : dict, optional
///     Values at which parameters are held, or begin, beside those that the curve suggests: ``n``; ``tau``, or ``tau1``, ``tau2`` and ``fraction``; ``kappa``,
///     fixed at 5; ``triplet``, ``triplet_time``; ``offset``, fixed at 1.
/// bounds : dict, optional
///     Least and largest value of parameters. By default ``kappa`` is 1 or more.
/// range : (float, float), optional
///     Lags that are fitted.
///
/// Returns
/// -------
/// dict
///     ``values`` and ``uncertainties`` by name (NaN: fixed, or stopped by a bound); ``states``: free, fixed or
///     at bound; ``names``, the order of ``covariance``; ``tau``, ``residuals`` (divided by ``sigma``), ``model`` (the
///     fitted values there); ``chi2``, ``degrees``, ``reduced_chi2``; ``uncertainties_from``: blocks, independent points, or
///     None where none are stated; ``warning``: text about a reduced chi2 far from 1 or parameters at a bound, or None.
#[pyfunction]
#[pyo3(signature = (tau, g, sigma=None, *, without=None, model="3d", components=1, triplet=false, offset=false, fix=None, start=None, bounds=None, range=None))]
#[expect(clippy::too_many_arguments, reason = "arguments by name")]
pub fn fit<'py>(
    py: Python<'py>,
    tau: &Bound<'py, PyAny>,
    g: &Bound<'py, PyAny>,
    sigma: Option<&Bound<'py, PyAny>>,
    without: Option<&Bound<'py, PyAny>>,
    model: &str,
    components: usize,
    triplet: bool,
    offset: bool,
    fix: Option<HashMap<String, f64>>,
    start: Option<HashMap<String, f64>>,
    bounds: Option<HashMap<String, (f64, f64)>>,
    range: Option<(f64, f64)>,
) -> PyResult<Bound<'py, PyDict>> {
    let plane = match model {
        "3d" => false,
        "2d" => true,
        other => return Err(value(format!("model {other:?}: expected \"3d\" or \"2d\""))),
    };
    let curve = Curve {
        lags: numbers("tau", tau, None)?,
        values: numbers("g", g, None)?,
        errors: sigma.map_or(Ok(Vec::new()), |sigma| numbers("sigma", sigma, None))?,
    };
    let without = match without {
        None => None,
        Some(without) => {
            let values: Vec<f64> = numbers("without", without, None)?;
            let points = curve.values.len();
            let blocks = values.len() / points.max(1);
            let shape: Vec<usize> =
                py.import("numpy")?.call_method1("shape", (without,))?.extract()?;
            if shape != [blocks, points] {
                return Err(value(format!(
                    "without of shape {shape:?}: expected [block, point] of {points} points"
                )));
            }
            Some(
                Array2::from_shape_vec((blocks, points), values).expect("as many as the shape has"),
            )
        }
    };
    let asked = || {
        let mut fit = Fit::new(Model { plane, components, triplet, offset })?;
        for (name, (low, high)) in bounds.unwrap_or_default() {
            fit = fit.bound(&name, low..=high)?;
        }
        for (name, value) in fix.unwrap_or_default() {
            fit = fit.fix(&name, value)?;
        }
        for (name, value) in start.unwrap_or_default() {
            fit = fit.start(&name, value)?;
        }
        Ok(range.map_or(fit.clone(), |(low, high)| fit.range(low..=high)))
    };
    let fit = asked().map_err(|error: corrust::Error| Fault::from(error))?;
    let fitted = py.detach(|| match without {
        Some(without) => fit.run_measured(&[Measured { curve, without, recording: 0 }]),
        None => fit.run(&[curve]),
    });
    let fitted = fitted.map_err(Fault::from)?;
    let [values, uncertainties, states] = [(); 3].map(|()| PyDict::new(py));
    for parameter in &fitted.parameters {
        let state = match parameter.state {
            State::Free => "free",
            State::Fixed => "fixed",
            State::AtBound => "at bound",
        };
        values.set_item(parameter.name, parameter.value)?;
        uncertainties.set_item(parameter.name, parameter.uncertainty)?;
        states.set_item(parameter.name, state)?;
    }
    let all = fitted.values(0);
    let there: Vec<f64> = fitted.lags[0].iter().map(|&lag| fitted.model.g(lag, &all)).collect();
    let found = PyDict::new(py);
    found.set_item("values", values)?;
    found.set_item("uncertainties", uncertainties)?;
    found.set_item("states", states)?;
    found.set_item("names", fitted.model.names())?;
    found.set_item("chi2", fitted.chi2)?;
    found.set_item("degrees", fitted.degrees)?;
    found.set_item("reduced_chi2", fitted.reduced_chi2())?;
    let from = match fitted.uncertainties {
        Uncertainties::Blocks(_) => Some("blocks"),
        Uncertainties::Independent => Some("independent points"),
        Uncertainties::Unstated(_) => None,
    };
    found.set_item("uncertainties_from", from)?;
    found.set_item("warning", fitted.doubt())?;
    found.set_item("tau", fitted.lags[0].clone().into_pyarray(py))?;
    found.set_item("residuals", fitted.residuals[0].clone().into_pyarray(py))?;
    found.set_item("model", there.into_pyarray(py))?;
    found.set_item("covariance", fitted.covariance.into_pyarray(py))?;
    Ok(found)
}

/// Reads correlation curves of other programs, for `fit`.
///
/// Parameters
/// ----------
/// path : path
///     Text of lag in seconds, ``g`` and, if it is known, standard error; or a file of ALV (``.asc``), Zeiss ConfoCor (``.fcs``) or
///     Correlator.com (``.sin``).
///
/// Returns
/// -------
/// dict
///     For each curve's name ``(tau, g, sigma)``, float64 ``[point]``: lags in seconds, ``g``, 1 where there is no correlation, and
///     standard errors, or None.
#[pyfunction]
pub fn read_curves<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
    let curves = py.detach(|| curves::read(&path)).map_err(Fault::from)?;
    let found = PyDict::new(py);
    for (name, Curve { lags, values, errors }) in curves {
        let sigma = (!errors.is_empty()).then(|| errors.into_pyarray(py));
        found.set_item(name, (lags.into_pyarray(py), values.into_pyarray(py), sigma))?;
    }
    Ok(found)
}
