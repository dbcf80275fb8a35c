//! The fit itself.

use std::collections::{BTreeMap, BTreeSet};

use corrust_host::{Error, Result, autocorrelate::Curve};
use ndarray::Array2;
use rayon::prelude::*;
use rmpfit::{MPConfig, MPError, MPFitter, MPPar, MPResult, MPSide, MPStatus, MPSuccess};

use super::{
    conditions::Fit,
    model::{Model, scale},
    start::{Point, starts},
};

/// Elements of a matrix of derivatives, at most.
const MOST: usize = 1 << 24;

/// Blocks of a recording, at least, for uncertainties.
pub const LEAST_BLOCKS: usize = 8;

/// Relative difference up to which error bars count as computed from the blocks.
const ALIKE: f64 = 0.1;

/// Distance from a bound, of it or of 1, at which a parameter is held there.
const BESIDE_BOUND: f64 = 1e-3;

/// Rounds of iterations, each as many as MPFIT's limit, after which a fit has not converged.
const ROUNDS: usize = 4;

/// Reduced chi2 that is far from 1: below and above. With bars of 20 blocks it is 0.2 to 1.9 of simulated photons, whose lags
/// are correlated.
const FAR: [f64; 2] = [0.1, 3.0];

/// A measured curve with its values without one block of the recording after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The curve.
    pub curve: Curve,
    /// Its values without each block, `[block][point]`; of no blocks where they are not known.
    pub without: Array2<f64>,
    /// Number of its recording: curves of one recording have the same blocks, curves of different ones independent noise.
    pub recording: usize,
}

/// Origin of a fit's uncertainties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncertainties {
    /// Curvature of chi2, which takes the errors of points as independent of each other. Errors of neighbouring lags of a
    /// measured curve are not: uncertainties are then too small, up to several times.
    Independent,
    /// Scatter of fits without one block after the other (the jackknife); each recording has at least this many blocks.
    Blocks(usize),
    /// None are stated, for the reason that the sentence says.
    Unstated(String),
}

/// Treatment of a parameter in a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Fitted.
    Free,
    /// Held at a value.
    Fixed,
    /// Fitted, and stopped by a bound: it has no uncertainty, and the others' uncertainties hold with it fixed there.
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
    /// Standard error; NaN where it was not fitted, stopped by a bound, or none is stated.
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
    /// Whether bars weighted the residuals.
    pub weighted: bool,
    /// Origin of uncertainties and covariance. Of independent points these are `(J^T W J)^-1` if weighted; otherwise it was
    /// multiplied by the reduced chi2.
    pub uncertainties: Uncertainties,
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

    /// Sentence about a reduced chi2 that is far from 1, and about parameters that ended at a bound, if there are any.
    pub fn doubt(&self) -> Option<String> {
        let [low, high] = FAR;
        let chi2 = self.reduced_chi2();
        let why = match chi2 {
            _ if !self.weighted || (low..=high).contains(&chi2) => None,
            chi2 if chi2 < low => Some("error bars are longer than the scatter of the points"),
            _ => Some("the model does not describe the curve, or error bars are too short"),
        };
        let far = why.map(|why| format!("reduced chi2 of {chi2:.3e}, expected about 1: {why}"));
        let at_bound = self.parameters.iter().filter(|of| of.state == State::AtBound);
        let names: BTreeSet<&str> = at_bound.map(|of| of.name).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let ended = (!names.is_empty()).then(|| {
            format!(
                "{} ended at a bound: the curve does not tell it within its bounds, or the model does not describe the curve",
                names.join(", ")
            )
        });
        let said: Vec<String> = far.into_iter().chain(ended).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

/// Parameters of a fit of some curves, and where each curve's are among all.
struct Layout {
    model: Model,
    names: Vec<&'static str>,
    /// `[curve][parameter of the model]`.
    places: Vec<Vec<usize>>,
    parameters: Vec<MPPar>,
    /// Times of dark states that are no longer than the way through the focus, with the diffusion times of the curves they
    /// belong to. Each is fitted as a share, of 1 at most, of the least of these.
    quick: BTreeMap<usize, BTreeSet<usize>>,
    config: MPConfig,
}

/// [Quick](Layout::quick) dark states, of the parameters' `places`, `[curve][parameter of the model]`.
fn quick(names: &[&str], places: &[Vec<usize>]) -> BTreeMap<usize, BTreeSet<usize>> {
    let mut quick: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for places in places {
        let times = || names.iter().zip(places).filter(|(name, _)| name.starts_with("tau"));
        let darks = names.iter().zip(places).filter(|(name, _)| **name == "triplet_time");
        darks.for_each(|(_, &dark)| {
            quick.entry(dark).or_default().extend(times().map(|(_, &place)| place));
        });
    }
    quick
}

/// A layout and the points of its curves.
struct Problem<'a> {
    layout: &'a Layout,
    curves: &'a [Vec<Point>],
}

/// Values of all parameters, as they are fitted, where a fit ended.
struct End {
    values: Vec<f64>,
    status: MPStatus,
}

impl End {
    fn has_converged(&self) -> bool {
        !matches!(self.status.success, MPSuccess::NotDone | MPSuccess::MaxIter)
    }

    /// Whether it is to be preferred to another one.
    fn is_better(&self, than: &Self) -> bool {
        self.status.best_norm < than.status.best_norm * (1.0 - 1e-9)
    }
}

impl Layout {
    /// Fits points from values on, which must be within bounds.
    fn fit(&self, curves: &[Vec<Point>], mut values: Vec<f64>) -> Result<End> {
        let mut iterations = 0;
        for round in 1.. {
            let status = Problem { layout: self, curves }.mpfit(&mut values);
            let mut status = status.map_err(|error| {
                Error::invalid(match error {
                    MPError::NoFree => "no free parameter: expected one or more that are not fixed",
                    MPError::Nan => {
                        "the model is not finite on the way: expected other start values"
                    }
                    _ => "the fit cannot begin: expected start values within their bounds",
                })
            })?;
            iterations += status.n_iter;
            status.n_iter = iterations;
            let end = End { values, status };
            if end.has_converged() || round == ROUNDS {
                return Ok(end);
            }
            values = end.values;
        }
        unreachable!("the last round returns")
    }

    /// Moves parameters that ended a little beside a bound to it, if the curve tells nothing of them there, and fits the
    /// others with these fixed: its slope ends at the bound.
    fn fit_at_bounds(&mut self, curves: &[Vec<Point>], end: End) -> Result<End> {
        let mut values = end.values.clone();
        let covariance = self.covariance(&values, &end.status.covar);
        let mut moved = Vec::new();
        for (place, parameter) in self.parameters.iter().enumerate() {
            let variance = covariance[[place, place]];
            let told = parameter.fixed || variance > 0.0 && variance.is_finite();
            let beside = |bound: f64| {
                let by = (bound - values[place]).abs();
                by > 0.0 && by <= BESIDE_BOUND * bound.abs().max(1.0)
            };
            let bounds = [parameter.limit_low, parameter.limit_up];
            let bound = bounds.into_iter().find(|&bound| !told && beside(bound));
            moved.extend(bound.map(|bound| (place, bound)));
        }
        if moved.is_empty() {
            return Ok(end);
        }
        for &(place, bound) in &moved {
            (values[place], self.parameters[place].fixed) = (bound, true);
        }
        let fitted = self.fit(curves, values);
        for (place, _) in moved {
            self.parameters[place].fixed = false;
        }
        fitted
    }

    /// Each quick dark state's time with the least of the diffusion times it is measured by.
    fn pairs(&self, values: &[f64]) -> impl Iterator<Item = (usize, usize)> {
        let least = |times: &BTreeSet<usize>| {
            times.iter().copied().min_by(|&a, &b| values[a].total_cmp(&values[b]))
        };
        self.quick.iter().filter_map(move |(&dark, times)| Some((dark, least(times)?)))
    }

    /// Values on their parameters' scales, of values as they are fitted.
    fn scaled(&self, values: &[f64]) -> Vec<f64> {
        let mut scaled = values.to_vec();
        self.pairs(values).for_each(|(dark, time)| scaled[dark] += values[time]);
        scaled
    }

    /// Values as they are fitted from which the fit number `number` begins: the means of what curves suggest for a parameter
    /// that they share. `begins` are values of each curve, the best first.
    fn begin(&self, begins: &[Vec<Vec<f64>>], number: usize) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); self.parameters.len()];
        for (own, places) in begins.iter().zip(&self.places) {
            let own = &own[number.min(own.len() - 1)];
            for ((&place, &name), &value) in places.iter().zip(&self.names).zip(own) {
                sums[place].0 += scale(name).into(value);
                sums[place].1 += 1.0;
            }
        }
        let mut values: Vec<f64> = sums.iter().map(|(sum, count)| sum / count).collect();
        for (&dark, times) in &self.quick {
            let least = times.iter().map(|&time| values[time]).fold(f64::INFINITY, f64::min);
            values[dark] -= least;
        }
        let bounded = values.iter().zip(&self.parameters).map(|(&value, bounded)| {
            if bounded.fixed { value } else { value.clamp(bounded.limit_low, bounded.limit_up) }
        });
        bounded.collect()
    }

    /// Gives parameters the values where a fit ended, and their uncertainties, for squares of residuals of `scaled` on average;
    /// returns their covariance.
    fn conclude(
        &self,
        parameters: &mut [Parameter],
        end: &End,
        scaled: f64,
    ) -> Result<Array2<f64>> {
        let values = self.scaled(&end.values);
        let found = self.covariance(&end.values, &end.status.covar);
        for (place, parameter) in parameters.iter_mut().enumerate() {
            let scale = scale(parameter.name);
            if parameter.state == State::Fixed {
                continue;
            }
            parameter.value = scale.from(values[place]);
            let limits = &self.parameters[place];
            let error = found[[place, place]].sqrt();
            if [limits.limit_low, limits.limit_up].contains(&end.values[place]) {
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
        Ok(Array2::from_shape_fn((all, all), |(row, column)| {
            found[[row, column]] * by(row) * by(column) * scaled
        }))
    }

    /// The covariance on the parameters' scales, of that of values as they are fitted.
    fn covariance(&self, values: &[f64], found: &[f64]) -> Array2<f64> {
        let all = values.len();
        let mut covariance =
            Array2::from_shape_fn((all, all), |(row, column)| found[row * all + column]);
        for (dark, time) in self.pairs(values) {
            let of_time = covariance.row(time).to_owned();
            covariance.row_mut(dark).scaled_add(1.0, &of_time);
            let of_time = covariance.column(time).to_owned();
            covariance.column_mut(dark).scaled_add(1.0, &of_time);
        }
        covariance
    }

    /// Places of every `kappa` that is free; none where nothing else is.
    fn kappas(&self) -> BTreeSet<usize> {
        let Some(at) = self.names.iter().position(|name| *name == "kappa") else {
            return BTreeSet::new();
        };
        let is_free = |place: &usize| !self.parameters[*place].fixed;
        let kappas: BTreeSet<usize> =
            self.places.iter().map(|places| places[at]).filter(is_free).collect();
        let others = (0..self.parameters.len()).filter(|place| !kappas.contains(place));
        if others.filter(is_free).count() > 0 { kappas } else { BTreeSet::new() }
    }

    /// Fits points from each of some places on; the least minimum, of several that are alike the first.
    fn least(&mut self, curves: &[Vec<Point>], starts: &[Vec<f64>]) -> Result<End> {
        let kappas = self.kappas();
        let ends = starts.iter().flat_map(|start| {
            let straight = self.fit(curves, start.clone());
            if kappas.is_empty() {
                return vec![straight];
            }
            // From far away kappa may run into its bound, and stay there: the other parameters come nearer first.
            kappas.iter().for_each(|&kappa| self.parameters[kappa].fixed = true);
            let nearer = self.fit(curves, start.clone());
            kappas.iter().for_each(|&kappa| self.parameters[kappa].fixed = false);
            vec![straight, nearer.and_then(|end| self.fit(curves, end.values))]
        });
        let better = |best: Result<End>, end: Result<End>| match (best, end) {
            (Ok(best), Ok(end)) => Ok(if end.is_better(&best) { end } else { best }),
            (Err(_), Ok(end)) => Ok(end),
            (best, Err(_)) => best,
        };
        let none = || Error::invalid("no place to begin: expected a curve that decays");
        let end = ends.reduce(better).ok_or_else(none)??;
        if end.has_converged() {
            return Ok(end);
        }
        Err(Error::invalid(format!(
            "the fit has not converged after {} iterations: expected other start values or fewer free \
             parameters",
            end.status.n_iter
        )))
    }
}

impl Problem<'_> {
    /// Writes residuals, and gives each one's derivatives by the parameters that it depends on, of one in parts that add up.
    fn residuals(&self, all: &[f64], found: &mut [f64], mut at: impl FnMut(usize, usize, f64)) {
        let Layout { model, names, places, .. } = self.layout;
        let pairs: Vec<(usize, usize)> = self.layout.pairs(all).collect();
        let all = self.layout.scaled(all);
        let mut row = 0;
        let mut derivatives = vec![0.0; names.len()];
        for (points, places) in self.curves.iter().zip(places) {
            let values = places.iter().zip(names);
            let values: Vec<f64> =
                values.map(|(&place, name)| scale(name).from(all[place])).collect();
            for point in points {
                let g = model.evaluate(point.lag, &values, &mut derivatives);
                found[row] = (point.g - g) / point.error;
                for (&place, derivative) in places.iter().zip(&derivatives) {
                    at(row, place, -derivative / point.error);
                    for &(_, time) in pairs.iter().filter(|(dark, _)| *dark == place) {
                        at(row, time, -derivative / point.error);
                    }
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
        &self.layout.config
    }

    fn parameters(&self) -> &[MPPar] {
        &self.layout.parameters
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
                column[row] += derivative;
            }
        });
        Ok(())
    }
}

impl Fit {
    /// Fits all curves at once. Curves that share no parameter are better fitted one by one.
    ///
    /// The fit begins from several places, and the least minimum is taken. Points without a value or without a bar (NaN), at
    /// lag 0 or out of the range are left out. Uncertainties are [`Uncertainties::Independent`].
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no curve, one has too few points, bars that are zero, negative or infinite,
    /// or nothing that decays; when bars are there of some curves alone; when parameters cannot be told apart; when
    /// the fit does not converge.
    pub fn run(&self, curves: &[Curve]) -> Result<Fitted> {
        let curves: Vec<&Curve> = curves.iter().collect();
        Ok(self.whole(&curves, |_, _| true)?.fitted)
    }

    /// [`run`](Self::run) with uncertainties from blocks: the scatter of fits without one block of a recording after the other,
    /// which knows that neighbouring lags are correlated. Points that such a curve lacks are left out.
    ///
    /// Nothing is stated ([`Uncertainties::Unstated`]) where a curve has less than [`LEAST_BLOCKS`] blocks.
    ///
    /// # Errors
    /// As for [`run`](Self::run); [`Error::Invalid`] when curves without blocks have other points than the whole one, or curves
    /// of one recording other blocks.
    pub fn run_measured(&self, curves: &[Measured]) -> Result<Fitted> {
        // Blocks of each recording.
        let mut recordings: BTreeMap<usize, usize> = BTreeMap::new();
        for Measured { curve, without, recording } in curves {
            let (blocks, points) = without.dim();
            let known = *recordings.entry(*recording).or_insert(blocks);
            if known != blocks {
                return Err(Error::invalid(format!(
                    "curves of one recording without each of {known} and of {blocks} blocks: expected the same blocks"
                )));
            }
            if blocks > 0 && points != curve.values.len() {
                return Err(Error::invalid(format!(
                    "{points} values without a block beside {} of the whole curve: expected as many",
                    curve.values.len()
                )));
            }
        }
        let least = recordings.values().copied().min().unwrap_or_default();
        let stated = least >= LEAST_BLOCKS;
        let usable = |curve: usize, at: usize| {
            !stated || curves[curve].without.column(at).iter().all(|g| g.is_finite())
        };
        let plain: Vec<&Curve> = curves.iter().map(|measured| &measured.curve).collect();
        let mut whole = self.whole(&plain, usable)?;
        let unstated = match least {
            _ if stated => whole.jackknife(curves, &recordings).err(),
            0 => Some("curves without each block are not there".to_owned()),
            few => Some(format!("{few} blocks are too few, expected {LEAST_BLOCKS} or more")),
        };
        let mut fitted = whole.fitted;
        fitted.uncertainties = match unstated {
            None => Uncertainties::Blocks(least),
            Some(reason) => {
                fitted.parameters.iter_mut().for_each(|of| of.uncertainty = f64::NAN);
                fitted.covariance.fill(0.0);
                Uncertainties::Unstated(reason)
            }
        };
        Ok(fitted)
    }

    /// Fits those points of curves that are usable.
    fn whole(&self, curves: &[&Curve], usable: impl Fn(usize, usize) -> bool) -> Result<Whole> {
        let weighted = self.takes_errors(curves)?;
        let points = curves.iter().enumerate().map(|(number, curve)| {
            let mut points = self.points(curve, weighted)?;
            points.retain(|point| usable(number, point.at));
            Ok(points)
        });
        let points = points.collect::<Result<Vec<_>>>()?;
        let (mut layout, mut parameters, starts) = self.layout(&points)?;
        let mut end = layout.least(&points, &starts)?;
        if let Some(values) = self.ordered(&layout, &end.values) {
            end = layout.fit(&points, values)?;
        }
        end = layout.fit_at_bounds(&points, end)?;
        let mut residuals = vec![0.0; points.iter().map(Vec::len).sum()];
        Problem { layout: &layout, curves: &points }.residuals(
            &end.values,
            &mut residuals,
            |_, _, _| {},
        );
        let chi2: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let free = layout.parameters.iter().filter(|parameter| !parameter.fixed).count();
        let degrees = residuals.len() - free;
        let scaled = if weighted { 1.0 } else { chi2 / degrees as f64 };
        let covariance = layout.conclude(&mut parameters, &end, scaled)?;
        let mut rest = residuals.as_slice();
        let of_curves = points.iter().map(|points| {
            let (own, after) = rest.split_at(points.len());
            rest = after;
            own.to_vec()
        });
        let fitted = Fitted {
            model: self.model,
            covariance,
            chi2,
            points: points.iter().map(Vec::len).sum(),
            degrees,
            weighted,
            uncertainties: Uncertainties::Independent,
            iterations: end.status.n_iter,
            residuals: of_curves.collect(),
            lags: points.iter().map(|of| of.iter().map(|point| point.lag).collect()).collect(),
            parameters,
        };
        Ok(Whole { fitted, layout, points, values: end.values })
    }

    /// Whether the fit is weighted by the error bars of curves, of which all or none have some.
    fn takes_errors(&self, curves: &[&Curve]) -> Result<bool> {
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
        Ok(self.weighted && with_bars > 0)
    }

    /// Parameters of a fit of some points, and the places from which it begins.
    fn layout(&self, points: &[Vec<Point>]) -> Result<(Layout, Vec<Parameter>, Vec<Vec<f64>>)> {
        let names = self.model.names();
        let mut parameters: Vec<Parameter> = Vec::new();
        let mut places = Vec::new();
        let mut begins = Vec::new();
        for (curve, points) in points.iter().enumerate() {
            if points.len() < 2 {
                return Err(Error::invalid(format!(
                    "curve {curve} has {} in the range of lags: expected 2 or more points",
                    points.len()
                )));
            }
            let own = starts(self, points);
            let first = own.first().ok_or_else(|| {
                Error::invalid(
                    "g(tau) does not decay: expected a curve above its value at long lags",
                )
            })?;
            let places_of = names.iter().zip(first).map(|(&name, &value)| {
                let shared = self.shared.contains(name);
                let known = parameters.iter().position(|known| shared && known.name == name);
                known.unwrap_or_else(|| {
                    let state =
                        if self.fixed.contains_key(name) { State::Fixed } else { State::Free };
                    let (curve, uncertainty) = ((!shared).then_some(curve), f64::NAN);
                    parameters.push(Parameter { name, curve, value, uncertainty, state });
                    parameters.len() - 1
                })
            });
            places.push(places_of.collect::<Vec<_>>());
            begins.push(own);
        }
        let quick = if self.is_quick() { quick(&names, &places) } else { BTreeMap::new() };
        let bounded = parameters.iter().enumerate().map(|(place, parameter)| {
            let (low, high) = self.bounds[parameter.name];
            let high = if quick.contains_key(&place) { 1.0 } else { high };
            let [limit_low, limit_up] = [low, high].map(|limit| scale(parameter.name).into(limit));
            let fixed = parameter.state == State::Fixed;
            MPPar {
                fixed,
                limited_low: !fixed,
                limited_up: !fixed,
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
        let layout = Layout {
            model: self.model,
            names,
            places,
            parameters: bounded,
            quick,
            config: MPConfig { covtol: 1e-10, ..MPConfig::new() },
        };
        let most = begins.iter().map(Vec::len).max().unwrap_or_default();
        let begins = (0..most).map(|number| layout.begin(&begins, number)).collect();
        Ok((layout, parameters, begins))
    }

    /// Values with the shorter time of two components first, which is the same curve; none where they are so, or where
    /// components have conditions that tell them apart.
    fn ordered(&self, layout: &Layout, values: &[f64]) -> Option<Vec<f64>> {
        let names = ["tau1", "tau2", "fraction"];
        let told = |name: &&str| {
            let bounds = self.bounds[name];
            let own = match *name {
                "fraction" => bounds != (0.0, 1.0),
                _ => bounds != self.bounds["tau1"],
            };
            own || self.fixed.contains_key(name)
                || self.starts.contains_key(name)
                || self.shared.contains(name)
        };
        if self.model.components != 2 || names.iter().any(told) {
            return None;
        }
        let mut ordered = values.to_vec();
        let mut changed = false;
        for places in &layout.places {
            let [first, second, fraction] = names.map(|name| {
                let known = layout.names.iter().position(|known| *known == name);
                places[known.expect("a model of two components")]
            });
            if ordered[first] > ordered[second] {
                ordered.swap(first, second);
                ordered[fraction] = 1.0 - ordered[fraction];
                changed = true;
            }
        }
        changed.then_some(ordered)
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
            points.push(Point { lag, g, error, at });
        }
        points.sort_by(|a, b| a.lag.total_cmp(&b.lag));
        Ok(points)
    }
}

/// A fit of whole curves, from which those without a block begin.
struct Whole {
    fitted: Fitted,
    layout: Layout,
    points: Vec<Vec<Point>>,
    values: Vec<f64>,
}

impl Whole {
    /// Takes covariance and uncertainties from the scatter of fits without one block after the other: of each recording
    /// `(B - 1) / B` times the sum of products of deviations from their mean, and the sum over recordings, whose noise is
    /// independent. `(B - 1) / (B - 3)` more, so that (estimate - truth) / uncertainty has a width of 1 although `B` blocks know
    /// their scatter only so well.
    ///
    /// Error bars computed from the blocks are computed from the other blocks for a fit without one: they are uncertain, too,
    /// and short where the blocks agree by chance.
    ///
    /// # Errors
    /// The reason why none can be stated: a fit without a block did not converge.
    fn jackknife(
        &mut self,
        curves: &[Measured],
        recordings: &BTreeMap<usize, usize>,
    ) -> Result<(), String> {
        let parameters = &mut self.fitted.parameters;
        // A parameter at a bound stays there.
        for (limits, parameter) in self.layout.parameters.iter_mut().zip(&*parameters) {
            limits.fixed |= parameter.state == State::AtBound;
        }
        let all = parameters.len();
        self.fitted.covariance = Array2::zeros((all, all));
        if self.layout.parameters.iter().all(|parameter| parameter.fixed) {
            return Ok(());
        }
        let (layout, points, values) = (&self.layout, &self.points, &self.values);
        let weighted = self.fitted.weighted;
        for (&recording, &blocks) in recordings {
            let count = blocks as f64;
            let without = |block: usize| {
                let curves = points.iter().zip(curves).map(|(points, measured)| {
                    let mut points = points.clone();
                    if measured.recording == recording {
                        for point in &mut points {
                            if weighted {
                                point.error *= error_without(measured, point, block);
                            }
                            point.g = measured.without[[block, point.at]];
                        }
                    }
                    points
                });
                let end = layout.fit(&curves.collect::<Vec<_>>(), values.clone());
                let end = end.ok().filter(End::has_converged);
                let end =
                    end.ok_or_else(|| format!("the fit without block {block} did not converge"))?;
                let found = layout.scaled(&end.values);
                let found = found.iter().zip(&*parameters);
                Ok(found.map(|(value, of)| scale(of.name).from(*value)).collect::<Vec<_>>())
            };
            let found = (0..blocks).into_par_iter().map(without);
            let found: Vec<Vec<f64>> = found.collect::<Result<_, String>>()?;
            // Student's distribution of B - 1 degrees of freedom is wider than the normal one.
            let wider = (count - 1.0) / (count - 3.0);
            let mean = |place: usize| found.iter().map(|values| values[place]).sum::<f64>() / count;
            let means: Vec<f64> = (0..all).map(mean).collect();
            for ((row, column), sum) in self.fitted.covariance.indexed_iter_mut() {
                let product = |values: &Vec<f64>| {
                    (values[row] - means[row]) * (values[column] - means[column])
                };
                *sum += wider * (count - 1.0) / count * found.iter().map(product).sum::<f64>();
            }
        }
        for (place, parameter) in parameters.iter_mut().enumerate() {
            if parameter.state == State::Free {
                parameter.uncertainty = self.fitted.covariance[[place, place]].sqrt();
            }
        }
        Ok(())
    }
}

/// Error bar of a point without a block, by that of all blocks; 1 where the bar is not that of the blocks.
fn error_without(measured: &Measured, point: &Point, block: usize) -> f64 {
    let column = measured.without.column(point.at);
    let count = column.len() as f64;
    // Values of the blocks by themselves, less that of all.
    let own = |without: f64| (count - 1.0) * (point.g - without);
    let sums = |(sum, squares): (f64, f64), value: f64| (sum + value, squares + value * value);
    let (sum, squares) = column.iter().map(|&without| own(without)).fold((0.0, 0.0), sums);
    let error = |sum: f64, squares: f64, count: f64| {
        ((squares - sum * sum / count) / (count * (count - 1.0))).sqrt()
    };
    let all = error(sum, squares, count);
    let left = own(column[block]);
    let rest = error(sum - left, squares - left * left, count - 1.0);
    // A bar that few blocks make may be 0 without one of them.
    let ratio = rest / all;
    let known = (point.error / all - 1.0).abs() < ALIKE && ratio > ALIKE && ratio.is_finite();
    if known { ratio } else { 1.0 }
}
