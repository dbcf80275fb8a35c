//! Pearson's curve of four moments, and the thresholds that it gives.
//!
//! ```text
//! f'(x) / f(x) = -(x + c1) / (c0 + c1 x + c2 x^2)
//! ```
//!
//! for `x` with mean 0 and variance 1, whatever the type of the curve.
//!
//! Source of the moments: Nita and Gary, MNRAS Letters 406 (2010), L60, for one power of one sample.

/// Points of a curve.
const POINTS: usize = 2048;
/// Most standard deviations from the mean that curves reach.
const REACH: f64 = 1000.0;

/// Moments of `M S2 / S1^2` about its mean for many samples, of `M` gamma-distributed powers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    /// Mean, less that of many samples.
    pub mean: f64,
    pub variance: f64,
    /// Third central moment.
    pub third: f64,
    /// Fourth cumulant.
    pub fourth: f64,
    /// Factor that makes the estimator of it, whose mean is 1.
    pub scale: f64,
}

impl Moments {
    /// Of `m` powers whose distribution has the shape `d`: 1 of complex noise, 1/2 of real noise.
    pub(super) fn of(m: f64, d: f64) -> Self {
        let md = m * d;
        // Products of (M d + 2) to (M d + n), each over M d.
        let through = |n: i32| (2..=n).map(|i| 1.0 + f64::from(i) / md).product::<f64>();
        // Those of the estimator.
        let (before, less) = (d * (d + 1.0), 1.0 - 1.0 / m);
        let second = 2.0 * before / (d * d * m * less * through(3));
        let third = 8.0 * before * ((d + 4.0) * d - (5.0 * d + 2.0) / m)
            / (d.powi(4) * m * m * less.powi(2) * through(5));
        let [d2, d3, d4] = [2, 3, 4].map(|n| d.powi(n));
        let polynomial = d4 + d3 + (3.0 * d4 + 68.0 * d3 + 125.0 * d2) / m
            - (93.0 * d3 + 245.0 * d2 + 32.0 * d) / (m * m)
            + (84.0 * d2 + 48.0 * d + 24.0) / m.powi(3);
        let fourth = 12.0 * before * polynomial / (d.powi(6) * m * m * less.powi(3) * through(7));
        let scale = (md + 1.0) / (m - 1.0);
        Self {
            mean: -(1.0 + 1.0 / d) / (md + 1.0),
            variance: second / (scale * scale),
            third: third / scale.powi(3),
            fourth: (fourth - 3.0 * second * second) / scale.powi(4),
            scale,
        }
    }
}

/// Distribution that thresholds are asked of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub skewness: f64,
    pub excess: f64,
    /// Least value, in standard deviations from the mean.
    pub least: f64,
}

impl Shape {
    /// Of `M S2 / S1^2` of many powers, with these moments, where it is `ratio` on average: it is at least 1.
    pub(super) fn new(moments: &Moments, ratio: f64) -> Self {
        let deviation = moments.variance.sqrt();
        Self {
            skewness: moments.third / (moments.variance * deviation),
            excess: moments.fourth / (moments.variance * moments.variance),
            least: (1.0 - ratio - moments.mean) / deviation,
        }
    }
}

/// Returns the standard deviations from the mean below and above which a variable of this distribution lies with a
/// probability of `false_alarm / 2` each.
///
/// Pearson's curve of the estimator overstates the lower tail: by a factor of 1.3 (256 samples) to 1.7 (64) at three
/// standard deviations. The logarithm of the estimator's height above its least value is close to normal, and its curve has
/// tails within some percent. Its moments follow from the curve of the estimator, corrected by the [known](Logarithm::known)
/// moments of `m` gamma-distributed powers of the shape `d`, weighted by how similar the samples are: the factor `like`.
pub(super) fn limits(shape: Shape, ([m, d], like): ([f64; 2], f64), false_alarm: f64) -> [f64; 2] {
    let mut found = Logarithm::of(shape);
    if like > 0.0 {
        let moments = Moments::of(m, d);
        let modelled = Logarithm::of(Shape::new(&moments, 1.0 + 1.0 / d));
        let known = Logarithm::known(m, d);
        found.mean += like * (known.mean - modelled.mean);
        found.deviation *= 1.0 + like * (known.deviation / modelled.deviation - 1.0);
        found.skewness += like * (known.skewness - modelled.skewness);
        found.excess += like * (known.excess - modelled.excess);
    }
    let Logarithm { mean, deviation, skewness, excess } = found;
    let curve = Curve::new([skewness, excess], -REACH);
    [false_alarm / 2.0, 1.0 - false_alarm / 2.0]
        .map(|share| shape.least * (1.0 - (mean + deviation * curve.place(share)).exp()))
}

/// Moments of the logarithm of what the estimator is above its least value, whose mean counts as 1.
struct Logarithm {
    mean: f64,
    deviation: f64,
    skewness: f64,
    excess: f64,
}

impl Logarithm {
    /// By the curve of the estimator.
    fn of(Shape { skewness, excess, least }: Shape) -> Self {
        let curve = Curve::new([skewness, excess], least);
        let logarithm = |x: f64| (1.0 - x / least).ln();
        let mean = curve.mean(logarithm);
        let central = |power: i32| curve.mean(|x| (logarithm(x) - mean).powi(power));
        let [second, third, fourth] = [2, 3, 4].map(central);
        let deviation = second.sqrt();
        Self {
            mean,
            deviation,
            skewness: third / (second * deviation),
            excess: fourth / (second * second) - 3.0,
        }
    }

    /// Of `m` gamma-distributed powers of the shape `d`, 1/2 to 1.
    fn known(m: f64, d: f64) -> Self {
        // Mean and variance times M, skewness times M^1/2, excess times M, for M = 16, 32, 64 to 1024 and for large M: from
        // 1.5e9 to 2e8 random powers, in blocks of M; for large M from the leading orders.
        const COMPLEX: [[f64; 4]; 8] = [
            [-1.411, 2.785, 0.268, 3.18],
            [-1.598, 3.133, 1.081, 7.83],
            [-1.748, 3.438, 1.852, 17.2],
            [-1.859, 3.664, 2.556, 31.5],
            [-1.937, 3.810, 3.086, 46.5],
            [-1.975, 3.897, 3.400, 58.0],
            [-1.990, 3.950, 3.640, 64.0],
            [-2.000, 4.000, 4.000, 70.0],
        ];
        const REAL: [[f64; 4]; 8] = [
            [-1.592, 3.100, 0.664, 1.87],
            [-1.992, 3.833, 1.753, 9.30],
            [-2.338, 4.509, 2.930, 26.3],
            [-2.597, 5.058, 4.113, 54.4],
            [-2.793, 5.448, 5.208, 91.6],
            [-2.880, 5.688, 5.938, 133.0],
            [-2.950, 5.822, 6.500, 165.0],
            [-3.000, 6.000, 7.348, 220.0],
        ];
        let root =
            |entry: usize| if entry < 7 { 0.25 / 2_f64.powf(entry as f64 / 2.0) } else { 0.0 };
        let x = m.sqrt().recip();
        let entry = (1..7).take_while(|&entry| root(entry) > x).count();
        let part = ((root(entry) - x) / (root(entry) - root(entry + 1))).clamp(0.0, 1.0);
        let real = 1.0 / d - 1.0;
        let at = |moment: usize| {
            let of = |table: &[[f64; 4]; 8]| {
                table[entry][moment] + part * (table[entry + 1][moment] - table[entry][moment])
            };
            of(&COMPLEX) + real * (of(&REAL) - of(&COMPLEX))
        };
        Self {
            mean: at(0) / m,
            deviation: (at(1) / m).sqrt(),
            skewness: at(2) / m.sqrt(),
            excess: at(3) / m,
        }
    }
}

/// A curve, tabulated.
struct Curve {
    /// Places are x = sinh(u), close together near the mean: the first `u`, and the step to the next.
    first: f64,
    step: f64,
    /// Weights of the points.
    densities: Vec<f64>,
}

impl Curve {
    /// Of a variable of this skewness and excess, at least `least`.
    fn new([skewness, excess]: [f64; 2], least: f64) -> Self {
        let beta1 = skewness * skewness;
        // No distribution has less than beta1 + 1.
        let beta2 = 3.0 + excess.max(1.25 * beta1 - 1.0);
        let unit = 10.0 * beta2 - 12.0 * beta1 - 18.0;
        let c0 = (4.0 * beta2 - 3.0 * beta1) / unit;
        let c1 = skewness * (beta2 + 3.0) / unit;
        let c2 = (2.0 * beta2 - 3.0 * beta1 - 6.0) / unit;

        let (first, last) = (least.min(-1.0).asinh(), REACH.asinh());
        let step = (last - first) / (POINTS - 1) as f64;
        let at = |halves: usize| {
            let turn = (first + halves as f64 * step / 2.0).exp();
            [(turn - 1.0 / turn) / 2.0, (turn + 1.0 / turn) / 2.0]
        };
        let slope = |halves: usize| {
            let [x, stretch] = at(halves);
            let below = c0 + x * (c1 + x * c2);
            // Beyond a pole there is no density.
            if below > 0.0 { -(x + c1) / below * stretch * step } else { -x.signum() * f64::MAX }
        };
        let slopes: Vec<f64> = (0..2 * POINTS - 1).map(slope).collect();
        let between = |point: usize| {
            let [a, b, c] = [0, 1, 2].map(|half| slopes[2 * point + half] / 6.0);
            a + 4.0 * b + c
        };
        let mean = ((-first / step) as usize).min(POINTS - 2);
        let mut logarithms = vec![0.0; POINTS];
        for point in mean..POINTS - 1 {
            logarithms[point + 1] = logarithms[point] + between(point);
        }
        for point in (0..mean).rev() {
            logarithms[point] = logarithms[point + 1] - between(point);
        }
        let density = |point: usize| logarithms[point].exp() * at(2 * point)[1];
        Self { first, step, densities: (0..POINTS).map(density).collect() }
    }

    /// Mean of a function of the variable, above its least value.
    fn mean(&self, of: impl Fn(f64) -> f64) -> f64 {
        let (mut sum, mut total) = (0.0, 0.0);
        for (point, density) in self.densities.iter().enumerate().skip(1) {
            if *density > 0.0 {
                sum += density * of((self.first + point as f64 * self.step).sinh());
                total += density;
            }
        }
        sum / total
    }

    /// Value below which the variable lies with a probability.
    fn place(&self, probability: f64) -> f64 {
        let mut sums = vec![0.0; POINTS];
        for point in 1..POINTS {
            let pair = self.densities[point - 1] + self.densities[point];
            sums[point] = sums[point - 1] + pair / 2.0;
        }
        let sought = probability * sums[POINTS - 1];
        let above = sums.partition_point(|sum| *sum < sought).clamp(1, POINTS - 1);
        let (a, b) = (sums[above - 1], sums[above]);
        let part = if b > a { (sought - a) / (b - a) } else { 0.0 };
        (self.first + ((above - 1) as f64 + part) * self.step).sinh()
    }
}
