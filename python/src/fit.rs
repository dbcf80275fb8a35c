//! `corrust.fit`.

use std::collections::HashMap;

use corrust::{
    autocorrelate::Curve,
    fit::{Fit, Model, State},
};
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
/// model : {"3d", "2d"}
///     Diffusion in space or in a plane.
/// components : {1, 2}
///     Diffusing components.
/// triplet, offset : bool
///     Whether a triplet state, and the value at long lags, are fitted.
/// fix, start : dict, optional
///     Values at which parameters are held, or begin: ``n``; ``tau``, or ``tau1``, ``tau2`` and ``fraction``; ``kappa``,
///     fixed at 5; ``triplet``, ``triplet_time``; ``offset``, fixed at 1.
/// bounds : dict, optional
///     Least and largest value of parameters.
/// range : (float, float), optional
///     Lags that are fitted.
///
/// Returns
/// -------
/// dict
///     ``values`` and ``uncertainties`` by name (NaN: fixed, or stopped by a bound); ``states``: free, fixed or
///     at bound; ``names``, the order of ``covariance``; ``tau``, ``residuals`` (divided by ``sigma``), ``model`` (the
///     fitted values there); ``chi2``, ``degrees``, ``reduced_chi2``.
#[pyfunction]
#[pyo3(signature = (tau, g, sigma=None, *, model="3d", components=1, triplet=false, offset=false, fix=None, start=None, bounds=None, range=None))]
#[expect(clippy::too_many_arguments, reason = "arguments by name")]
pub fn fit<'py>(
    py: Python<'py>,
    tau: &Bound<'py, PyAny>,
    g: &Bound<'py, PyAny>,
    sigma: Option<&Bound<'py, PyAny>>,
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
    let asked = || {
        let mut fit = Fit::new(Model { plane, components, triplet, offset })?;
        for (name, value) in fix.unwrap_or_default() {
            fit = fit.fix(&name, value)?;
        }
        for (name, value) in start.unwrap_or_default() {
            fit = fit.start(&name, value)?;
        }
        for (name, (low, high)) in bounds.unwrap_or_default() {
            fit = fit.bound(&name, low..=high)?;
        }
        Ok(range.map_or(fit.clone(), |(low, high)| fit.range(low..=high)))
    };
    let fit = asked().map_err(|error: corrust::Error| Fault::from(error))?;
    let fitted = py.detach(|| fit.run(&[curve])).map_err(Fault::from)?;
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
    found.set_item("tau", fitted.lags[0].clone().into_pyarray(py))?;
    found.set_item("residuals", fitted.residuals[0].clone().into_pyarray(py))?;
    found.set_item("model", there.into_pyarray(py))?;
    found.set_item("covariance", fitted.covariance.into_pyarray(py))?;
    Ok(found)
}
