//! Start values, found from a curve itself.

use super::{conditions::Fit, solve::Point};

/// Times of the grid, at most.
const TIMES: usize = 14;

/// Values of the model's parameters, in its order, of the least sum of squares on a grid of its times and shares;
/// `1/n` and the offset, which the model is linear in, are solved for. Nothing where no place of the grid has a
/// positive `n`.
pub(super) fn start(fit: &Fit, points: &[Point]) -> Option<Vec<f64>> {
    let names = fit.model.names();
    let (first, last) = (points.first()?.lag, points.last()?.lag);
    let time = |k: usize| first * (last / first).powf(k as f64 / (TIMES - 1) as f64);
    let times: Vec<f64> = (0..TIMES).map(time).collect();
    let given = |name| fit.fixed.get(name).or(fit.starts.get(name)).copied();
    let candidates: Vec<Vec<f64>> = names
        .iter()
        .map(|&name| {
            let grid = match name {
                "tau" | "tau1" | "tau2" | "triplet_time" => times.clone(),
                "fraction" => vec![0.25, 0.5, 0.75],
                "triplet" => vec![0.15, 0.4],
                // Solved for.
                _ => vec![1.0],
            };
            let (low, high) = fit.bounds[name];
            given(name)
                .map_or(grid, |value| vec![value])
                .into_iter()
                .map(|value| value.clamp(low, high))
                .collect()
        })
        .collect();
    let index = |name| names.iter().position(|known| *known == name);
    let ascending = |values: &[f64]| {
        let pair = |a, b| match (index(a), index(b)) {
            (Some(a), Some(b)) if candidates[a].len() * candidates[b].len() > 1 => {
                values[a] < values[b]
            }
            _ => true,
        };
        pair("tau1", "tau2") && pair("triplet_time", "tau") && pair("triplet_time", "tau1")
    };
    let offset = index("offset")?;
    let [known_n, known_offset] = ["n", "offset"].map(given);
    let mut best: Option<(f64, Vec<f64>)> = None;
    let mut digits = vec![0; names.len()];
    loop {
        let mut values: Vec<f64> =
            digits.iter().zip(&candidates).map(|(&digit, of)| of[digit]).collect();
        if ascending(&values) {
            (values[0], values[offset]) = (1.0, 0.0);
            // Weighted sums of the normal equations of g = offset + a s.
            let mut sums = [0.0; 5];
            let shape: Vec<f64> =
                points.iter().map(|point| fit.model.g(point.lag, &values)).collect();
            for (point, s) in points.iter().zip(&shape) {
                let w = point.error.powi(-2);
                let terms = [1.0, *s, s * s, point.g, s * point.g];
                sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += w * term);
            }
            let [w, s, ss, g, sg] = sums;
            let level = |a: f64| (g - a * s) / w;
            let (a, o) = match (known_n, known_offset) {
                (Some(n), Some(o)) => (1.0 / n, o),
                (Some(n), None) => (1.0 / n, level(1.0 / n)),
                (None, Some(o)) => ((sg - o * s) / ss, o),
                (None, None) => {
                    let a = (w * sg - s * g) / (w * ss - s * s);
                    (a, level(a))
                }
            };
            let squares = points.iter().zip(&shape);
            let squares: f64 = squares.map(|(p, s)| ((p.g - o - a * s) / p.error).powi(2)).sum();
            let ([low, high], [least, most]) = (
                [fit.bounds["n"].0, fit.bounds["n"].1],
                [fit.bounds["offset"].0, fit.bounds["offset"].1],
            );
            if a > 0.0 && best.as_ref().is_none_or(|best| squares < best.0) {
                (values[0], values[offset]) = ((1.0 / a).clamp(low, high), o.clamp(least, most));
                best = Some((squares, values));
            }
        }
        // The next place of the grid.
        let mut place = 0;
        while place < digits.len() && digits[place] + 1 == candidates[place].len() {
            digits[place] = 0;
            place += 1;
        }
        match digits.get_mut(place) {
            None => return best.map(|best| best.1),
            Some(digit) => *digit += 1,
        }
    }
}
