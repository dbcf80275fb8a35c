//! Gaussian noise in few bits, at a measured power.

use corrust_gpu::abi::kurtosis::{LEVELS, Level};

use crate::quantise::upper_tail;

/// Deviations in a table.
const ENTRIES: usize = LEVELS as usize;

/// Width of a node, in standard deviations of the power, and by the power where that is more.
const NODE: [f64; 2] = [0.03, 0.02];

/// Integers that samples were rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub least: i32,
    pub most: i32,
}

/// Noise of one kind, rounded to integers, by its power.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    range: Range,
    /// Standard deviations of real and imaginary part, by the square root of half the power.
    parts: [f64; 2],
    /// Square root of half the power before rounding, of each entry.
    deviations: Vec<f64>,
    /// Moments of the integers.
    entries: Vec<Level>,
}

/// Place of a power in the table: entries around it, and how far it is from the first to the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct TablePosition {
    pub entry: usize,
    pub part: f64,
}

/// Powers `|x|^2` of samples of noise of one entry, close ones put together.
pub(super) struct Powers {
    pub nodes: Vec<Node>,
    /// Mean of `|x|^2` and of `|x|^4`, and the slope of the latter by the former as the noise's power changes.
    pub mean: f64,
    pub square: f64,
    pub slope: f64,
    /// Least difference of two sums of `|x|^4` of samples that have the same sum of `|x|^2`.
    pub lattice: f64,
}

/// Close powers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Node {
    /// Probability.
    pub weight: f64,
    /// Mean of `|x|^2` and of `|x|^4`.
    pub power: f64,
    pub square: f64,
}

impl Levels {
    /// Noise of which real and imaginary parts have the variances `(1 + circularity) / 2` and `(1 - circularity) / 2` of the
    /// power: 0 of complex noise, 1 of real noise.
    pub(super) fn new(range: Range, circularity: f64) -> Self {
        let parts = [1.0 + circularity, 1.0 - circularity].map(|part| part.max(0.0).sqrt());
        let (least, largest) = (0.1_f64, 2.0 * f64::from(range.most));
        let ratio = (largest / least).powf(1.0 / (ENTRIES - 1) as f64);
        let entry = |&deviation: &f64| {
            let [a, b] = parts.map(|part| ComponentMoments::new(range, deviation * part));
            // Derivatives by the logarithm of the deviation.
            let by_square = a.fourth[1]
                + b.fourth[1]
                + 2.0 * (a.second[1] * b.second[0] + a.second[0] * b.second[1]);
            Level {
                power: a.second[0] + b.second[0],
                square: a.fourth[0] + b.fourth[0] + 2.0 * a.second[0] * b.second[0],
                slope: by_square / (a.second[1] + b.second[1]),
            }
        };
        let deviations = (0..ENTRIES).map(|entry| least * ratio.powi(entry as i32));
        let deviations: Vec<f64> = deviations.collect();
        let entries = deviations.iter().map(entry).collect();
        Self { range, parts, deviations, entries }
    }

    /// Moments of all entries, by ascending power.
    pub(super) fn entries(&self) -> &[Level] {
        &self.entries
    }

    /// Place of a mean power, which may be close to the entry `near`.
    pub(super) fn place(&self, power: f64, near: Option<usize>) -> TablePosition {
        let search = || self.entries.partition_point(|entry| entry.power < power);
        let last = self.entries.len() - 1;
        let mut above = near.map_or_else(search, |near| near + 1).clamp(1, last);
        while above < last && self.entries[above].power < power {
            above += 1;
        }
        while above > 1 && self.entries[above - 1].power >= power {
            above -= 1;
        }
        let (a, b) = (self.entries[above - 1], self.entries[above]);
        TablePosition { entry: above - 1, part: a.part(b, power) }
    }

    /// Mean of `|x|^4` of noise of a place's power.
    pub(super) fn square(&self, TablePosition { entry, part }: TablePosition) -> f64 {
        self.entries[entry].square(self.entries[entry + 1], part)
    }

    /// Powers of samples of an entry's noise.
    pub(super) fn powers(&self, entry: usize) -> Powers {
        let deviation = self.deviations[entry];
        let Level { power: mean, square, slope } = self.entries[entry];
        let [a, b] = self.parts.map(|part| weights(self.range, deviation * part));
        let mut weights = vec![0.0; (a.len() - 1).pow(2) + (b.len() - 1).pow(2) + 1];
        for (i, of_real) in a.iter().enumerate() {
            for (j, of_imaginary) in b.iter().enumerate() {
                weights[i * i + j * j] += of_real * of_imaginary;
            }
        }
        let scatter = (square - mean * mean).max(0.0).sqrt();
        let mut nodes: Vec<Node> = Vec::new();
        let mut end = 0.0;
        for (power, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            let power = power as f64;
            if nodes.is_empty() || power >= end {
                end = power + (NODE[0] * scatter).max(NODE[1] * power);
                nodes.push(Node::default());
            }
            let node = nodes.last_mut().expect("one was put there");
            node.weight += weight;
            node.power += weight * power;
            node.square += weight * power * power;
        }
        for node in &mut nodes {
            node.power /= node.weight;
            node.square /= node.weight;
        }
        // p (p - 1) is even, and a multiple of 12 where p = k^2.
        let lattice = if self.parts[1] == 0.0 { 12.0 } else { 2.0 };
        Powers { nodes, mean, square, slope, lattice }
    }
}

/// Probabilities that the integer of noise of a standard deviation is `k` or `-k`, for `k` from 0 on.
fn weights(range: Range, deviation: f64) -> Vec<f64> {
    let mut tails = vec![1.0];
    tails.extend(tails_of(range, deviation).map(|(sides, z)| sides * upper_tail(z)));
    let next = tails.iter().skip(1).copied().chain([0.0]);
    tails.iter().zip(next).map(|(tail, next)| tail - next).collect()
}

/// Number of sides on which there are integers `k`, and the deviation of the threshold before them by the standard deviation,
/// for `k` from 1 on.
fn tails_of(Range { least, most }: Range, deviation: f64) -> impl Iterator<Item = (f64, f64)> {
    (1..=most.max(-least)).map_while(move |k| {
        let z = (f64::from(k) - 0.5) / deviation;
        (z <= 30.0).then(|| (f64::from(u8::from(k <= most) + u8::from(k <= -least)), z))
    })
}

/// Mean of the second and the fourth power of one part of noise that was rounded, and the derivative of each by the logarithm of
/// the deviation.
struct ComponentMoments {
    second: [f64; 2],
    fourth: [f64; 2],
}

impl ComponentMoments {
    fn new(range: Range, deviation: f64) -> Self {
        let mut part = Self { second: [0.0; 2], fourth: [0.0; 2] };
        for (k, (sides, z)) in (1_i32..).zip(tails_of(range, deviation)) {
            let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
            let rise = |order: i32| f64::from(k).powi(order) - f64::from(k - 1).powi(order);
            for (n, tail) in [upper_tail(z), density * z].into_iter().enumerate() {
                part.second[n] += sides * tail * rise(2);
                part.fourth[n] += sides * tail * rise(4);
            }
        }
        part
    }
}
