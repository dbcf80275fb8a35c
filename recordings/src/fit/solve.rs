//! The fit itself.

use corrust_host::{Error, Result, autocorrelate::Curve};
use ndarray::Array2;
use rmpfit::{MPConfig, MPError, MPFitter, MPPar, MPResult, MPSide, MPSuccess};

use super::{
    conditions::Fit,
    model::{Model, scale},
    start::start,
};

/// Elements of a matrix of derivatives, at most.
const MOST: usize = 1 << 24;

/// A point of a curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub lag: f64,
    pub g: f64,
    /// Standard error; 1 where there are no weights.
    pub error: f64,
}

/// Treatment of a parameter in a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Fitted.
    Free,
    /// Held at a value.
    Fixed,
    /// Fitted, and stopped by a bound: it has no uncertainty, and those of others hold with it fixed there.
    AtBound,
}

/// A parameter of a fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Name, as of [`Model::names`].
    pub name: &'static str,
    /// Curve that it belongs to; none where all curves share it.
    pub curve: Option<usize>,
    /// Value; times in seconds.
    pub value: f64,
    /// Standard error; NaN where it was not fitted, or stopped by a bound.
    pub uncertainty: f64,
    /// Treatment.
    pub state: State,
}

/// Result of a fit.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The model.
    pub model: Model,
    /// All parameters: of the first curve in the model's order, then those that further curves do not share.
    pub parameters: Vec<Parameter>,
    /// Covariance of the parameters, in their order; 0 of those without uncertainty.
    pub covariance: Array2<f64>,
    /// Sum of squared residuals.
    pub chi2: f64,
    /// Number of points of all curves.
    pub points: usize,
    /// Number of points less that of free parameters.
    pub degrees: usize,
    /// Whether bars weighted the residuals. Uncertainties are then those of the covariance `(J^T W J)^-1`;
    /// otherwise it was multiplied by the reduced chi2.
    pub weighted: bool,
    /// Number of iterations.
    pub iterations: usize,
    /// Lags that were fitted, of each curve, in seconds.
    pub lags: Vec<Vec<f64>>,
    /// Values less the model's, divided by their standard errors if weighted, of each curve.
    pub residuals: Vec<Vec<f64>>,
}

impl Fitted {
    /// A parameter of a curve, shared or not.
    pub fn get(&self, name: &str, curve: usize) -> Option<&Parameter> {
        let own = |parameter: &&Parameter| parameter.curve.is_none_or(|of| of == curve);
        self.parameters.iter().filter(own).find(|parameter| parameter.name == name)
    }

    /// Values of a curve's parameters, in the order of [`Model::names`].
    pub fn values(&self, curve: usize) -> Vec<f64> {
        let names = self.model.names().into_iter();
        names.filter_map(|name| Some(self.get(name, curve)?.value)).collect()
    }

    /// Sum of squared residuals by degrees of freedom.
    pub fn reduced_chi2(&self) -> f64 {
        self.chi2 / self.degrees as f64
    }
}

/// Points, and where each curve's parameters are among all.
struct Problem<'a> {
    model: Model,
    curves: &'a [Vec<Point>],
    names: Vec<&'static str>,
    /// `[curve][parameter of the model]`.
    places: Vec<Vec<usize>>,
    parameters: Vec<MPPar>,
    config: MPConfig,
}

impl Problem<'_> {
    /// Writes residuals, and gives each one's derivatives by the parameters that it depends on.
    fn residuals(&self, all: &[f64], found: &mut [f64], mut at: impl FnMut(usize, usize, f64)) {
        let mut row = 0;
        let mut derivatives = vec![0.0; self.names.len()];
        for (points, places) in self.curves.iter().zip(&self.places) {
            let values = places.iter().zip(&self.names);
            let values: Vec<f64> =
                values.map(|(&place, name)| scale(name).from(all[place])).collect();
            for point in points {
                let g = self.model.evaluate(point.lag, &values, &mut derivatives);
                found[row] = (point.g - g) / point.error;
                for (&place, derivative) in places.iter().zip(&derivatives) {
                    at(row, place, -derivative / point.error);
                }
                row += 1;
            }
        }
    }
}

impl MPFitter for Problem<'_> {
    fn eval(&mut self, params: &[f64], deviates: &mut [f64]) -> MPResult<()> {
        self.residuals(params, deviates, |_, _, _| {});
        Ok(())
    }

    fn number_of_points(&self) -> usize {
        self.curves.iter().map(Vec::len).sum()
    }

    fn config(&self) -> &MPConfig {
        &self.config
    }

    fn parameters(&self) -> &[MPPar] {
        &self.parameters
    }

    fn jacobian(
        &mut self,
        params: &[f64],
        deviates: &mut [f64],
        derivs: &mut [Option<Vec<f64>>],
    ) -> MPResult<()> {
        derivs.iter_mut().flatten().for_each(|column| column.fill(0.0));
        self.residuals(params, deviates, |row, place, derivative| {
            if let Some(column) = &mut derivs[place] {
                column[row] = derivative;
            }
        });
        Ok(())
    }
}

impl Fit {
    /// Fits all curves at once. Curves that share no parameter are better fitted one by one.
    ///
    /// Points without a value or without a bar (NaN), at lag 0 or out of the range are left out.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no curve, one has too few points, bars that are zero, negative or infinite,
    /// or nothing that decays; when bars are there of some curves alone; when parameters cannot be told apart; when
    /// the fit does not converge.
    pub fn run(&self, curves: &[Curve]) -> Result<Fitted> {
        if curves.is_empty() {
            return Err(Error::invalid("no curve: expected one or more"));
        }
        let with_bars = curves.iter().filter(|curve| !curve.errors.is_empty()).count();
        if self.weighted && with_bars > 0 && with_bars < curves.len() {
            return Err(Error::invalid(format!(
                "{with_bars} of {} curves have error bars: expected all or none",
                curves.len()
            )));
        }
        let weighted = self.weighted && with_bars > 0;
        let points = curves.iter().map(|curve| self.points(curve, weighted));
        let points = points.collect::<Result<Vec<_>>>()?;
        let names = self.model.names();
        let mut parameters: Vec<Parameter> = Vec::new();
        let mut starts: Vec<Vec<f64>> = Vec::new();
        let mut places = Vec::new();
        for (curve, points) in points.iter().enumerate() {
            if points.len() < 2 {
                return Err(Error::invalid(format!(
                    "curve {curve} has {} in the range of lags: expected 2 or more points",
                    points.len()
                )));
            }
            let found = start(self, points).ok_or_else(|| {
                Error::invalid(
                    "g(tau) does not decay: expected a curve above its value at long lags",
                )
            })?;
            let mut own = Vec::new();
            for (&name, value) in names.iter().zip(found) {
                let shared = self.shared.contains(name);
                let known = parameters.iter().position(|known| shared && known.name == name);
                let place = known.unwrap_or(parameters.len());
                if known.is_none() {
                    let state =
                        if self.fixed.contains_key(name) { State::Fixed } else { State::Free };
                    let curve = (!shared).then_some(curve);
                    let uncertainty = f64::NAN;
                    parameters.push(Parameter { name, curve, value, uncertainty, state });
                    starts.push(Vec::new());
                }
                starts[place].push(scale(name).into(value));
                own.push(place);
            }
            places.push(own);
        }
        let mut values: Vec<f64> =
            starts.iter().map(|of| of.iter().sum::<f64>() / of.len() as f64).collect();
        let limits = |parameter: &Parameter| {
            let (low, high) = self.bounds[parameter.name];
            [low, high].map(|limit| scale(parameter.name).into(limit))
        };
        for (value, parameter) in values.iter_mut().zip(&parameters) {
            let [low, high] = limits(parameter);
            *value = value.clamp(low, high);
        }
        let bounded = parameters.iter().map(|parameter| {
            let [limit_low, limit_up] = limits(parameter);
            MPPar {
                fixed: parameter.state == State::Fixed,
                limited_low: true,
                limited_up: true,
                limit_low,
                limit_up,
                side: MPSide::User,
                ..MPPar::new()
            }
        });
        let bounded: Vec<MPPar> = bounded.collect();
        let count: usize = points.iter().map(Vec::len).sum();
        let free = bounded.iter().filter(|parameter| !parameter.fixed).count();
        if count <= free {
            return Err(Error::invalid(format!(
                "{count} points and {free} free parameters: expected more points than that"
            )));
        }
        if count.saturating_mul(free) > MOST {
            return Err(Error::invalid(format!(
                "{count} points and {free} free parameters in one fit: expected a product of at most {MOST}"
            )));
        }
        let mut problem = Problem {
            model: self.model,
            curves: &points,
            names,
            places,
            parameters: bounded,
            config: MPConfig { covtol: 1e-10, ..MPConfig::new() },
        };
        let status = problem.mpfit(&mut values).map_err(|error| {
            Error::invalid(match error {
                MPError::NoFree => "no free parameter: expected one or more that are not fixed",
                MPError::Nan => "the model is not finite on the way: expected other start values",
                _ => "the fit cannot begin: expected start values within their bounds",
            })
        })?;
        if matches!(status.success, MPSuccess::NotDone | MPSuccess::MaxIter) {
            return Err(Error::invalid(format!(
                "the fit has not converged after {} iterations: expected other start values or fewer free \
                 parameters",
                status.n_iter
            )));
        }
        let mut residuals = vec![0.0; count];
        problem.residuals(&values, &mut residuals, |_, _, _| {});
        let chi2: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let degrees = count - free;
        let scaled = if weighted { 1.0 } else { chi2 / degrees as f64 };
        for (place, parameter) in parameters.iter_mut().enumerate() {
            let scale = scale(parameter.name);
            if parameter.state == State::Fixed {
                continue;
            }
            parameter.value = scale.from(values[place]);
            let limits = &problem.parameters[place];
            let error = status.xerror[place];
            if [limits.limit_low, limits.limit_up].contains(&values[place]) {
                parameter.state = State::AtBound;
            } else if error > 0.0 && error.is_finite() {
                let by = if scale.is_logarithm() { parameter.value } else { 1.0 };
                parameter.uncertainty = error * by * scaled.sqrt();
            } else {
                return Err(Error::invalid(format!(
                    "the curve does not tell {} from the other parameters: expected it fixed, or fewer of them",
                    parameter.name
                )));
            }
        }
        let all = parameters.len();
        let by = |place: usize| match parameters[place] {
            Parameter { state: State::Free, name, value, .. } if scale(name).is_logarithm() => {
                value
            }
            Parameter { state: State::Free, .. } => 1.0,
            _ => 0.0,
        };
        let covariance = Array2::from_shape_fn((all, all), |(row, column)| {
            status.covar[row * all + column] * by(row) * by(column) * scaled
        });
        let mut rest = residuals.as_slice();
        let residuals = points.iter().map(|points| {
            let (own, after) = rest.split_at(points.len());
            rest = after;
            own.to_vec()
        });
        Ok(Fitted {
            model: self.model,
            covariance,
            chi2,
            points: count,
            degrees,
            weighted,
            iterations: status.n_iter,
            residuals: residuals.collect(),
            lags: points.iter().map(|of| of.iter().map(|point| point.lag).collect()).collect(),
            parameters,
        })
    }

    /// The points of a curve that are fitted.
    fn points(&self, curve: &Curve, weighted: bool) -> Result<Vec<Point>> {
        let lengths = [curve.values.len(), curve.errors.len()];
        if lengths[0] != curve.lags.len() || ![0, lengths[0]].contains(&lengths[1]) {
            return Err(Error::invalid(format!(
                "{} lags, {} values and {} errors: expected as many of each",
                curve.lags.len(),
                lengths[0],
                lengths[1]
            )));
        }
        let mut points = Vec::new();
        for (at, (&lag, &g)) in curve.lags.iter().zip(&curve.values).enumerate() {
            let error = if weighted { curve.errors[at] } else { 1.0 };
            if !(lag > 0.0 && self.range.contains(&lag)) || g.is_nan() || error.is_nan() {
                continue;
            }
            if !(error > 0.0 && error.is_finite()) {
                return Err(Error::invalid(format!(
                    "an error bar of {error} at lag {lag:e} s: expected a positive number, another range of lags \
                     or no weights"
                )));
            }
            if !(g.is_finite() && lag.is_finite()) {
                return Err(Error::invalid(format!("g of {g} at lag {lag:e} s: expected numbers")));
            }
            points.push(Point { lag, g, error });
        }
        points.sort_by(|a, b| a.lag.total_cmp(&b.lag));
        Ok(points)
    }
}
