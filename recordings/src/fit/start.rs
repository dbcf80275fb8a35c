//! Start values, found from a curve itself.

use super::{conditions::Fit, model::diffusion};

/// Times of the grid, at most.
const TIMES: usize = 14;

/// Starts of a fit, at most.
const STARTS: usize = 10;

/// Places of the grid by which a time of two starts differs, at least.
const APART: usize = 2;

/// A point of a curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub lag: f64,
    pub g: f64,
    /// Standard error; 1 where there are no weights.
    pub error: f64,
    /// Place in the curve.
    pub at: usize,
}

/// A place of the grid.
struct GridPoint {
    /// Sum of squared residuals with the best `1/n` and offset.
    squares: f64,
    /// Number of each parameter's candidate.
    digits: Vec<usize>,
    n: f64,
    offset: f64,
}

/// Values of the model's parameters, in its order, from which fits begin: places of a grid of times, shares and `kappa` with
/// the least sums of squares, apart from each other, the best first. `1/n` and the offset, which the model is linear in, are
/// solved for. Nothing where no place of the grid has a positive `n`.
pub(super) fn starts(fit: &Fit, points: &[Point]) -> Vec<Vec<f64>> {
    let names = fit.model.names();
    let candidates = candidates(fit, &names, points);
    let mut places = places(fit, &names, &candidates, points);
    places.sort_by(|a, b| a.squares.total_cmp(&b.squares));
    let apart = |a: &GridPoint, b: &GridPoint| {
        names.iter().zip(a.digits.iter().zip(&b.digits)).any(|(name, (a, b))| {
            a.abs_diff(*b)
                >= if is_time(name) {
                    APART
                } else if *name == "kappa" {
                    1
                } else {
                    usize::MAX
                }
        })
    };
    let mut chosen: Vec<GridPoint> = Vec::new();
    for place in places {
        if chosen.len() == STARTS {
            break;
        }
        if chosen.iter().all(|known| apart(known, &place)) {
            chosen.push(place);
        }
    }
    let values = chosen.iter().map(|place| {
        let values = names.iter().zip(&candidates).zip(&place.digits);
        let values = values.map(|((&name, candidates), &digit)| match name {
            "n" => place.n,
            "offset" => place.offset,
            _ => candidates[digit],
        });
        values.collect()
    });
    values.collect()
}

fn is_time(name: &str) -> bool {
    matches!(name, "tau" | "tau1" | "tau2" | "triplet_time")
}

/// Values of each parameter that are tried.
fn candidates(fit: &Fit, names: &[&'static str], points: &[Point]) -> Vec<Vec<f64>> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return vec![Vec::new(); names.len()];
    };
    let time = |k: usize| first.lag * (last.lag / first.lag).powf(k as f64 / (TIMES - 1) as f64);
    let times: Vec<f64> = (0..TIMES).map(time).collect();
    let of = |&name: &&'static str| {
        if let Some(&fixed) = fit.fixed.get(name) {
            return vec![fixed];
        }
        let mut values = match name {
            name if is_time(name) => times.clone(),
            "kappa" => vec![1.5, 3.0, 6.0, 20.0],
            "fraction" => vec![0.25, 0.5, 0.75],
            "triplet" => vec![0.15, 0.4],
            // Solved for.
            _ => vec![1.0],
        };
        let (low, high) = fit.bounds[name];
        values.extend(fit.starts.get(name).filter(|_| !["n", "offset"].contains(&name)));
        values.iter_mut().for_each(|value| *value = value.clamp(low, high));
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    names.iter().map(of).collect()
}

/// Factors at every point, of two parameters' values.
type Factors = Vec<Vec<Vec<f64>>>;

/// A grid of values of the model's parameters.
struct Grid<'a> {
    candidates: &'a [Vec<f64>],
    /// Parameters of the model by their places, where it has them.
    components: Vec<usize>,
    fraction: Option<usize>,
    kappa: Option<usize>,
    /// Factors of diffusion at every point, `[component][kappa][time]`.
    terms: Vec<Factors>,
    /// Share and time of dark states, and their factors at every point, `[triplet][time]`.
    dark: Option<(usize, usize, Factors)>,
}

impl<'a> Grid<'a> {
    fn new(names: &[&'static str], candidates: &'a [Vec<f64>], points: &[Point]) -> Self {
        let index = |name| names.iter().position(|known| *known == name);
        let components: Vec<usize> =
            ["tau", "tau1", "tau2"].into_iter().filter_map(index).collect();
        let [fraction, kappa, triplet, dark] =
            ["fraction", "kappa", "triplet", "triplet_time"].map(index);
        let kappas: Vec<Option<f64>> =
            kappa.map_or(vec![None], |at| candidates[at].iter().copied().map(Some).collect());
        let lags = || points.iter().map(|point| point.lag);
        let of_component = |&at: &usize| {
            let times = |&kappa: &Option<f64>| {
                let term = |&time: &f64| lags().map(|lag| diffusion(lag, time, kappa)).collect();
                candidates[at].iter().map(term).collect()
            };
            kappas.iter().map(times).collect()
        };
        let terms = components.iter().map(of_component).collect();
        let odds = |triplet: f64| triplet / (1.0 - triplet);
        let dark = triplet.zip(dark).map(|(triplet, dark)| {
            let of = |&share: &f64| {
                let factor = |&time: &f64| {
                    lags().map(|lag| 1.0 + odds(share) * (-lag / time).exp()).collect()
                };
                candidates[dark].iter().map(factor).collect()
            };
            (triplet, dark, candidates[triplet].iter().map(of).collect())
        });
        Self { candidates, components, fraction, kappa, terms, dark }
    }

    /// Whether times ascend at a place, so that no curve comes twice; a `quick` dark state begins below the diffusion times, or
    /// at the least that is tried.
    fn ascends(&self, digits: &[usize], quick: bool) -> bool {
        let (candidates, components) = (self.candidates, &self.components);
        let in_order = match components[..] {
            [a, b] if candidates[a].len() > 1 && candidates[b].len() > 1 => {
                candidates[a][digits[a]] < candidates[b][digits[b]]
            }
            _ => true,
        };
        let dark = self.dark.as_ref().map(|(_, dark, _)| *dark);
        let below = |dark: usize| {
            let time = candidates[dark][digits[dark]];
            components.iter().all(|&at| time <= candidates[at][digits[at]])
        };
        in_order && dark.filter(|&at| quick && digits[at] > 0).is_none_or(below)
    }

    /// Writes the curve of a place, without `n` and offset, at every point.
    fn fill(&self, shape: &mut [f64], digits: &[usize]) {
        let kappa = self.kappa.map_or(0, |at| digits[at]);
        let term = |k: usize| &self.terms[k][kappa][digits[self.components[k]]];
        match self.fraction {
            None => shape.copy_from_slice(term(0)),
            Some(at) => {
                let share = self.candidates[at][digits[at]];
                let pairs = shape.iter_mut().zip(term(0).iter().zip(term(1)));
                pairs.for_each(|(s, (a, b))| *s = share * a + (1.0 - share) * b);
            }
        }
        if let Some((triplet, dark, factors)) = &self.dark {
            let factor = &factors[digits[*triplet]][digits[*dark]];
            shape.iter_mut().zip(factor).for_each(|(s, factor)| *s *= factor);
        }
    }

    /// Goes to the next place; false after the last.
    fn advance(&self, digits: &mut [usize]) -> bool {
        for (digit, candidates) in digits.iter_mut().zip(self.candidates) {
            if *digit + 1 < candidates.len() {
                *digit += 1;
                return true;
            }
            *digit = 0;
        }
        false
    }
}

/// Places of the grid that have a positive `n`.
fn places(
    fit: &Fit,
    names: &[&'static str],
    candidates: &[Vec<f64>],
    points: &[Point],
) -> Vec<GridPoint> {
    let grid = Grid::new(names, candidates, points);
    let mut found = Vec::new();
    let mut shape = vec![0.0; points.len()];
    let mut digits = vec![0; names.len()];
    loop {
        if grid.ascends(&digits, fit.is_quick()) {
            grid.fill(&mut shape, &digits);
            if let Some((squares, n, offset)) = amplitude(fit, points, &shape) {
                found.push(GridPoint { squares, digits: digits.clone(), n, offset });
            }
        }
        if !grid.advance(&mut digits) {
            return found;
        }
    }
}

/// Least sum of squares of `g = offset + shape / n`, with its `n` and offset, which are within their bounds.
fn amplitude(fit: &Fit, points: &[Point], shape: &[f64]) -> Option<(f64, f64, f64)> {
    // Weighted sums of the normal equations of g = offset + a s.
    let mut sums = [0.0; 5];
    for (point, s) in points.iter().zip(shape) {
        let w = point.error.powi(-2);
        let terms = [1.0, *s, s * s, point.g, s * point.g];
        sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += w * term);
    }
    let [w, s, ss, g, sg] = sums;
    let level = |a: f64| (g - a * s) / w;
    let [n, offset] = ["n", "offset"].map(|name| fit.fixed.get(name).copied());
    let (a, o) = match (n, offset) {
        (Some(n), Some(o)) => (1.0 / n, o),
        (Some(n), None) => (1.0 / n, level(1.0 / n)),
        (None, Some(o)) => ((sg - o * s) / ss, o),
        (None, None) => {
            let a = (w * sg - s * g) / (w * ss - s * s);
            (a, level(a))
        }
    };
    if !(a > 0.0 && o.is_finite()) {
        return None;
    }
    let clamped = |name, value: f64| match fit.fixed.get(name) {
        Some(_) => value,
        None => value.clamp(fit.bounds[name].0, fit.bounds[name].1),
    };
    let (n, offset) = (clamped("n", 1.0 / a), clamped("offset", o));
    let squares = points.iter().zip(shape);
    let squares: f64 = squares.map(|(p, s)| ((p.g - offset - s / n) / p.error).powi(2)).sum();
    squares.is_finite().then_some((squares, n, offset))
}
