//! Pearson's curve of the four first moments of the estimator, and the thresholds that it gives.
//!
//! ```text
//! f'(x) / f(x) = -(x + c1) / (c0 + c1 x + c2 x^2)
//! ```
//!
//! for `x` with mean 0, whatever the type of the curve.
//!
//! Source of the moments: Nita and Gary, MNRAS Letters 406 (2010), L60, for one power of one sample.

/// Points of a curve.
const POINTS: usize = 8192;
/// Most standard deviations from the mean that curves reach.
const REACH: f64 = 1000.0;

/// Standard deviation of the estimator of so many samples of Gaussian noise.
pub(super) fn deviation(samples: f64) -> f64 {
    let m = samples;
    (4.0 * m * m / ((m - 1.0) * (m + 2.0) * (m + 3.0))).sqrt()
}

/// Returns the values of the estimator of `samples` samples of Gaussian noise, at least 16, below and above which it
/// lies with a probability of `false_alarm / 2` each.
pub(super) fn limits(samples: f64, false_alarm: f64) -> [f64; 2] {
    let m = samples;
    let sigma = deviation(m);
    let (second, through_5) = (sigma * sigma, (m + 2.0) * (m + 3.0) * (m + 4.0) * (m + 5.0));
    let third = 16.0 * m.powi(3) * (5.0 * m - 7.0) / ((m - 1.0).powi(2) * through_5);
    let terms = [24.0 + 48.0 + 84.0, -(32.0 + 245.0 + 93.0), 125.0 + 68.0 + 3.0, 1.0 + 1.0];
    let polynomial = terms.iter().rev().fold(0.0, |sum, term| sum * m + term);
    let fourth =
        24.0 * m.powi(4) * polynomial / ((m - 1.0).powi(3) * through_5 * (m + 6.0) * (m + 7.0));
    let (beta1, beta2) = (third * third / second.powi(3), fourth / (second * second));
    let unit = 10.0 * beta2 - 12.0 * beta1 - 18.0;
    let c0 = (4.0 * beta2 - 3.0 * beta1) / unit;
    let c1 = beta1.sqrt() * (beta2 + 3.0) / unit;
    let c2 = (2.0 * beta2 - 3.0 * beta1 - 6.0) / unit;

    // Places are x = sinh(u), close together near the mean; the estimator is never negative.
    let (first, last) = ((-1.0 / sigma).asinh(), REACH.asinh());
    let step = (last - first) / (POINTS - 1) as f64;
    let place = |point: f64| (first + point * step).sinh();
    let slope = |point: f64| {
        let x = place(point);
        let below = c0 + x * (c1 + x * c2);
        let stretch = (first + point * step).cosh() * step;
        // Beyond a pole there is no density.
        if below > 0.0 { -(x + c1) / below * stretch } else { -x.signum() * f64::MAX }
    };
    let mean = (-first / step) as usize;
    let mut logarithms = vec![0.0; POINTS];
    let between = |point: usize| {
        let p = point as f64;
        (slope(p) + 4.0 * slope(p + 0.5) + slope(p + 1.0)) / 6.0
    };
    for point in mean..POINTS - 1 {
        logarithms[point + 1] = logarithms[point] + between(point);
    }
    for point in (0..mean).rev() {
        logarithms[point] = logarithms[point + 1] - between(point);
    }
    let density = |point: usize| {
        let value: f64 = logarithms[point];
        value.exp() * (first + point as f64 * step).cosh()
    };
    let mut sums = vec![0.0; POINTS];
    for point in 1..POINTS {
        sums[point] = sums[point - 1] + (density(point - 1) + density(point)) / 2.0;
    }
    let total = sums[POINTS - 1];
    let at = |probability: f64| {
        let sought = probability * total;
        let above = sums.partition_point(|sum| *sum < sought).clamp(1, POINTS - 1);
        let (a, b) = (sums[above - 1], sums[above]);
        let part = if b > a { (sought - a) / (b - a) } else { 0.0 };
        1.0 + sigma * place((above - 1) as f64 + part)
    };
    [at(false_alarm / 2.0), at(1.0 - false_alarm / 2.0)]
}
