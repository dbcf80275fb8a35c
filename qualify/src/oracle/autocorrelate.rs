//! Plain loops that say what the right answer is, straight from the definitions: every bin is a
//! difference of sums of counts up to two samples. They share no code with what they judge.

use corrust_host::autocorrelate::Sums;

/// Counts `[instant][sensor]`.
#[derive(Clone, Debug)]
pub struct Stream<Count = u8> {
    /// Number of sensors.
    pub sensors: usize,
    /// The counts.
    pub counts: Vec<Count>,
}

impl<Count: Copy + Into<u64>> Stream<Count> {
    /// Number of instants.
    pub fn instants(&self) -> usize {
        self.counts.len() / self.sensors
    }

    /// Counts of a sensor before each sample.
    fn sums(&self, sensor: usize) -> Vec<u64> {
        let mut sums = vec![0];
        for n in 0..self.instants() {
            sums.push(sums[n] + self.counts[n * self.sensors + sensor].into());
        }
        sums
    }
}

/// One point: lag in samples, the sum of products of all complete bins; and those of a curve, whose
/// delayed bins begin at or after the first sample: products, direct bins, delayed bins, over how many
/// bins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Lag in samples.
    pub lag: u64,
    /// Sum of products of all complete bins.
    pub products: u64,
    /// Sum of products of the curve.
    pub curve_products: u64,
    /// Sum of the direct bins of the curve.
    pub direct: u64,
    /// Sum of the delayed bins of the curve.
    pub delayed: u64,
    /// Number of bins of the curve.
    pub bins: u64,
}

impl Point {
    /// Sums of a plan.
    pub fn of(sums: &Sums, row: usize, point: usize) -> Self {
        let at = [row, point];
        Self {
            lag: sums.points[point].lag,
            products: sums.products[at],
            curve_products: sums.curve_products[at],
            direct: sums.direct[at],
            delayed: sums.delayed[at],
            bins: sums.bins[point],
        }
    }
}

/// `A = sum_m Z[m] Y[m]` at one lag with bins of `width` samples.
fn point(direct: &[u64], delayed: &[u64], width: i64, lag: i64) -> Point {
    let instants = direct.len() as i64 - 1;
    // Counts in the samples from..from + width; x[n] = 0 for n < 0.
    let bin = |sums: &[u64], from: i64| {
        let before = |n: i64| if n < 0 { 0 } else { sums[n as usize] };
        before(from + width) - before(from)
    };
    let mut point = Point { lag: lag as u64, ..Point::default() };
    let mut m = 0;
    while (m + 1) * width <= instants {
        let (z, y) = (bin(direct, m * width), bin(delayed, m * width - lag));
        point.products += z * y;
        if m * width >= lag {
            point.curve_products += z * y;
            point.direct += z;
            point.delayed += y;
            point.bins += 1;
        }
        m += 1;
    }
    point
}

/// Bin groups: group `k` has bins of `2^k` samples and lags `S (2^k - 1) + c 2^k`, `c = 0..S-1`.
pub fn bin_groups<Count: Copy + Into<u64>>(
    stream: &Stream<Count>,
    (direct, delayed): (usize, usize),
    groups: usize,
    lags: usize,
) -> Vec<Point> {
    let (direct, delayed) = (stream.sums(direct), stream.sums(delayed));
    let mut curve = Vec::new();
    for k in 0..groups {
        for c in 0..lags {
            let lag = lags * ((1 << k) - 1) + c * (1 << k);
            curve.push(point(&direct, &delayed, 1 << k, lag as i64));
        }
    }
    curve
}

/// The classic scheme: lags `0..=m`, then `n 2^k` for `n = m/2 + 1..=m` with bins of `2^k` samples.
pub fn classic<Count: Copy + Into<u64>>(
    stream: &Stream<Count>,
    (direct, delayed): (usize, usize),
    groups: usize,
    m: usize,
) -> Vec<Point> {
    let (direct, delayed) = (stream.sums(direct), stream.sums(delayed));
    let mut curve = Vec::new();
    for k in 0..groups {
        let first = if k == 0 { 0 } else { m / 2 + 1 };
        for n in first..=m {
            curve.push(point(&direct, &delayed, 1 << k, (n * (1 << k)) as i64));
        }
    }
    curve
}
