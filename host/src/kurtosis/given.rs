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
//! whatever the noise's power. Rounded and clamped ones do so nearly. What is left scatters `S2` by `(c - g') (S1 - M E p)`,
//! where `g'` is the slope of `E p^2` by `E p`.
//!
//! For tests of hypotheses at a sufficient statistic: Lehmann and Romano, "Testing Statistical Hypotheses", 2005, chapter 4.

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
///
/// The sum of `r` lies on a lattice; a uniform variable as wide as its spacing, and the normal one of what is said above, are
/// added to it.
pub(super) fn limits(powers: &Powers, samples: u32, false_alarm: f64) -> [f64; 3] {
    let m = f64::from(samples);
    let Powers { nodes, mean, square, slope, lattice } = powers;
    let over = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        nodes.iter().map(|node| node.weight * of(node.power - mean, node.square - square)).sum()
    };
    let of_power = over(&|p, _| p * p);
    let regression = over(&|p, q| p * q) / of_power;
    let of_rest = over(&|p, q| (q - regression * p).powi(2));
    let unknown = (slope - regression).powi(2) * of_power * m;
    let scale = (of_power * m).sqrt();
    let width = (of_rest * m + unknown + lattice * lattice / 12.0).sqrt();
    // Powers as rare as a false alarm's least share are not left out.
    let mut rarity = 0.0;
    let rare = nodes.iter().rposition(|node| {
        rarity += node.weight;
        rarity >= BEYOND * false_alarm / m
    });
    let place = |node: usize| {
        let [p, q] = [nodes[node].power - mean, nodes[node].square - square];
        [p / scale, (q - regression * p) / width]
    };
    let places: Vec<[f64; 2]> = (0..nodes.len()).map(place).collect();
    let kept = &places[..=rare.unwrap_or_default()];
    let most = |of: usize| kept.iter().map(|place| place[of]).fold(0.0, f64::max);
    let least = kept.iter().map(|place| place[1]).fold(0.0, f64::min);
    // S2 is between S1^2 / M and S1^2.
    let margin = (6.0 * unknown.sqrt() + lattice) / width + 1.0;
    let end = |sum: f64| (sum - m * square) / width;
    let low = (least - REACH).max(end(m * mean * mean) - margin);
    let high = (1.3 * most(1) + REACH).min(end((m * mean).powi(2)) + margin);
    let finer = (m / FINE).sqrt().min(1.0);
    // Integers S1 are no closer than 1.
    let step = (STEPS[0] * finer).max(scale.recip());
    let half = (((2.0 * REACH + most(0)) / step - 1.0) / 2.0).ceil().max(1.0) as i32;
    let turn = |count: i32, of: f64| std::f64::consts::TAU * f64::from(count) / of;
    let along: Vec<f64> = (-half..=half).map(|u| turn(u, f64::from(2 * half + 1) * step)).collect();
    let count = ((high - low) / (STEPS[1] * finer) / 2.0).ceil() as i32;
    let across: Vec<f64> = (1..=count).map(|v| turn(v, high - low)).collect();

    let wave = |frequency: f64, of: usize| -> Vec<Complex<f64>> {
        places.iter().map(|place| Complex::cis(frequency * place[of])).collect()
    };
    let weighted: Vec<Vec<Complex<f64>>> = along
        .iter()
        .map(|&u| wave(u, 0).iter().zip(nodes).map(|(wave, node)| wave * node.weight).collect())
        .collect();
    let transform = |frequency: f64| -> Complex<f64> {
        let waves = wave(frequency, 1);
        let product = |row: &Vec<Complex<f64>>| -> Complex<f64> {
            row.iter().zip(&waves).map(|(a, b)| a * b).sum()
        };
        weighted.iter().map(|row| product(row).powu(samples)).sum()
    };
    let whole = transform(0.0).re;
    let centre = transform(SMALL).im / whole / SMALL;
    let term = |&v: &f64| {
        let cell = 0.5 * v * lattice / width;
        let spread = (-0.5 * v * v * unknown / (width * width)).exp() * cell.sin() / cell;
        let turned = Complex::cis(v * low);
        (v, transform(v) * spread / whole / Complex::new(0.0, -v), turned.conj())
    };
    let terms: Vec<(f64, Complex<f64>, Complex<f64>)> = across.iter().map(term).collect();
    let below = |y: f64| {
        let terms = terms.iter().map(|(v, term, from)| (term * (Complex::cis(-v * y) - from)).re);
        (y - low + 2.0 * terms.sum::<f64>()) / (high - low)
    };
    let quantile = |share: f64| {
        let (mut a, mut b) = (low, high);
        for _ in 0..32 {
            let middle = 0.5 * (a + b);
            if below(middle) < share { a = middle } else { b = middle }
        }
        0.5 * (a + b)
    };
    let found = [quantile(0.5 * false_alarm), quantile(1.0 - 0.5 * false_alarm), centre];
    found.map(|y| y * width / (m * mean * mean))
}
