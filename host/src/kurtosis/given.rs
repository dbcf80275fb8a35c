//! Limits of the mean squared power of blocks of noise that have a mean power.
//!
//! Of `M` samples with the powers `p` the sums are `S1 = sum p` and `S2 = sum p^2`. Noise of few bits is not described by its
//! leading moments: of real samples that are clamped now and then a block of 64 has an upper tail far from that of any
//! smooth family of curves. The distribution of `S2`, of blocks with the `S1` that is expected, is therefore computed from the
//! probabilities of the integers themselves. With `r = p^2 - E p^2 - c (p - E p)`, uncorrelated to `p`,
//!
//! ```text
//! phi(u, v) = E exp(i u (p - E p) + i v r)
//! F(v)      = integral phi(u, v)^M du / integral phi(u, 0)^M du
//! ```
//!
//! `F` is the characteristic function of the sum of `r`, which is `S2` but for a constant there, and the inverse Fourier
//! transform gives its distribution.
//!
//! Blocks are judged at their own mean power, of which the noise's power is only known within its scatter. Where samples follow
//! the normal distribution, `S1` is sufficient for the power: `S2` of blocks with the same `S1` has the same distribution
//! whatever the noise's power. Rounded and clamped ones do so nearly. The rest scatters `S2` by `(c - g') (S1 - M E p)`, where `g'`
//! is the slope of `E p^2` by `E p`: a normal variable of this variance is added to the sum of `r`.
//!
//! For tests of hypotheses at a sufficient statistic: Lehmann and Romano, "Testing Statistical Hypotheses", 2005, chapter 4.

use std::{f64::consts::TAU, ops::RangeInclusive};

use num_complex::Complex;

use super::levels::Powers;

/// Distances of points of the distribution of `S1` and of `S2` by their standard deviations, for blocks of [`FINE`] samples and
/// more.
const STEPS: [f64; 2] = [0.2, 0.2];

/// Number of samples below which there are more points.
const FINE: f64 = 64.0;

/// Standard deviations about the mean that are covered at least.
const REACH: f64 = 8.0;

/// Share of the false alarms by which powers may be less likely that the covered range leaves out.
const BEYOND: f64 = 1e-3;

/// A difference small enough for a derivative.
const SMALL: f64 = 1e-4;

/// Limits of `(b - g(a)) / a^2` of blocks with mean power `a` and mean squared power `b`, and its mean: `[least, most, mean]`.
/// Half of `false_alarm` lies on either side.
pub(super) fn limits(powers: &Powers, samples: u32, false_alarm: f64) -> [f64; 3] {
    let sums = Sums::new(powers, samples);
    let (distribution, mean) = sums.distribution(sums.window(false_alarm / f64::from(samples)));
    let [least, most] =
        [0.5 * false_alarm, 1.0 - 0.5 * false_alarm].map(|share| distribution.quantile(share));
    let expected = sums.samples * powers.mean * powers.mean;
    [least, most, mean].map(|y| y * sums.width / expected)
}

/// Sums of samples of noise.
struct Sums<'a> {
    powers: &'a Powers,
    samples: f64,
    /// Values of each node: `p - E p` by the standard deviation of `S1`, and `r` by `width`.
    places: Vec<[f64; 2]>,
    /// Standard deviation of `S1`.
    scale: f64,
    /// Standard deviation of the sum of `r` and of what is added to it.
    width: f64,
    /// Variance of what the noise's power, which is not known, adds.
    unknown: f64,
}

/// Ranges and steps in standard deviations: of `S1` the whole range, of the sum of `r` both ends.
struct Window {
    length: f64,
    ends: [f64; 2],
    steps: [f64; 2],
}

impl<'a> Sums<'a> {
    fn new(powers: &'a Powers, samples: u32) -> Self {
        let samples = f64::from(samples);
        let Powers { nodes, mean, square, slope, lattice } = powers;
        let over = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            nodes.iter().map(|node| node.weight * of(node.power - mean, node.square - square)).sum()
        };
        let of_power = over(&|p, _| p * p);
        let regression = over(&|p, q| p * q) / of_power;
        let of_rest = over(&|p, q| (q - regression * p).powi(2));
        let unknown = (slope - regression).powi(2) * of_power * samples;
        let scale = (of_power * samples).sqrt();
        // The sum of r lies on a lattice: a uniform variable as wide as its spacing is added.
        let width = (of_rest * samples + unknown + lattice * lattice / 12.0).sqrt();
        let places = nodes.iter().map(|node| {
            let [p, q] = [node.power - mean, node.square - square];
            [p / scale, (q - regression * p) / width]
        });
        Self { powers, samples, places: places.collect(), scale, width, unknown }
    }

    /// A window that all but very rare sums are within, if single samples lie within with all but a share of `rare`.
    fn window(&self, rare: f64) -> Window {
        let mut beyond = 0.0;
        let last = self.powers.nodes.iter().rposition(|node| {
            beyond += node.weight;
            beyond >= BEYOND * rare
        });
        let kept = &self.places[..=last.unwrap_or_default()];
        let most = |of: usize| kept.iter().map(|place| place[of]).fold(0.0, f64::max);
        let least = kept.iter().map(|place| place[1]).fold(0.0, f64::min);
        let Powers { mean, square, lattice, .. } = self.powers;
        // S2 is between S1^2 / M and S1^2.
        let margin = (6.0 * self.unknown.sqrt() + lattice) / self.width + 1.0;
        let end = |sum: f64| (sum - self.samples * square) / self.width;
        let low = end(self.samples * mean * mean) - margin;
        let high = end((self.samples * mean).powi(2)) + margin;
        let finer = (self.samples / FINE).sqrt().min(1.0);
        Window {
            length: 2.0 * REACH + most(0),
            ends: [low.max(least - REACH), high.min(1.3 * most(1) + REACH)],
            // Integers S1 are no closer than 1.
            steps: [(STEPS[0] * finer).max(self.scale.recip()), STEPS[1] * finer],
        }
    }

    /// Distribution of the sum of `r`, and of what is added to it, of blocks with the expected `S1`, and its mean.
    fn distribution(
        &self,
        Window { length, ends: [low, high], steps }: Window,
    ) -> (Distribution, f64) {
        let frequencies = |counts: RangeInclusive<i32>, length: f64| {
            counts.map(move |count| TAU * f64::from(count) / length)
        };
        let wave = |frequency: f64, of: usize| -> Vec<Complex<f64>> {
            self.places.iter().map(|place| Complex::cis(frequency * place[of])).collect()
        };
        let nodes = &self.powers.nodes;
        let half = ((length / steps[0] - 1.0) / 2.0).ceil().max(1.0) as i32;
        let along = frequencies(-half..=half, f64::from(2 * half + 1) * steps[0]);
        let weighted: Vec<Vec<Complex<f64>>> = along
            .map(|u| wave(u, 0).iter().zip(nodes).map(|(wave, node)| wave * node.weight).collect())
            .collect();
        let transform = |v: f64| -> Complex<f64> {
            let waves = wave(v, 1);
            let power = |row: &Vec<Complex<f64>>| {
                let sum: Complex<f64> = row.iter().zip(&waves).map(|(a, b)| a * b).sum();
                sum.powu(self.samples as u32)
            };
            weighted.iter().map(power).sum()
        };
        let whole = transform(0.0).re;
        let mean = transform(SMALL).im / whole / SMALL;
        let count = ((high - low) / steps[1] / 2.0).ceil() as i32;
        let term = |v: f64| {
            let cell = 0.5 * v * self.powers.lattice / self.width;
            let normal = 0.5 * v * v * self.unknown / (self.width * self.width);
            let added = (-normal).exp() * cell.sin() / cell;
            (v, transform(v) * added / whole / Complex::new(0.0, -v))
        };
        let terms = frequencies(1..=count, high - low).map(term).collect();
        (Distribution { low, high, terms }, mean)
    }
}

/// A distribution as a Fourier series.
struct Distribution {
    low: f64,
    high: f64,
    /// Frequencies, and the coefficients of the distribution function's waves.
    terms: Vec<(f64, Complex<f64>)>,
}

impl Distribution {
    /// Probability of a value below `y`.
    fn below(&self, y: f64) -> f64 {
        let term = |(v, term): &(f64, Complex<f64>)| {
            (term * (Complex::cis(-v * y) - Complex::cis(-v * self.low))).re
        };
        let waves: f64 = self.terms.iter().map(term).sum();
        (y - self.low + 2.0 * waves) / (self.high - self.low)
    }

    /// Value with a probability `share` of lower ones.
    fn quantile(&self, share: f64) -> f64 {
        let (mut a, mut b) = (self.low, self.high);
        for _ in 0..32 {
            let middle = 0.5 * (a + b);
            if self.below(middle) < share { a = middle } else { b = middle }
        }
        0.5 * (a + b)
    }
}
