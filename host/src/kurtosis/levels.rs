//! Gaussian noise in few bits: where the estimator lies, and how wide it scatters, at a measured power.

use crate::quantise::upper_tail;

/// Deviations in a table.
const ENTRIES: usize = 256;

/// Mean and width of the estimator for noise rounded to integers of `bits` bits, by the noise's power.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    entries: Vec<Entry>,
}

/// What rounding to integers does to noise of one power.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Mean of `|x|^2` of the integers.
    power: f64,
    /// `E[|x|^4] / E[|x|^2]^2`, 2 of noise that is not rounded.
    ratio: f64,
    /// Part of the ratio by which that of the sums of `M` samples is more on average, times `M`; -1 of noise that is not
    /// rounded.
    bias: f64,
    /// Its standard deviation, 1 of noise that is not rounded.
    width: f64,
}

impl Levels {
    pub(super) fn new(bits: u32) -> Self {
        let most = (1 << (bits - 1)) - 1;
        let (least, largest) = (0.3_f64, 2.0 * f64::from(most));
        let ratio = (largest / least).powf(1.0 / (ENTRIES - 1) as f64);
        let deviations = (0..ENTRIES).map(|entry| least * ratio.powi(entry as i32));
        Self { entries: deviations.map(|deviation| Entry::new(most, deviation)).collect() }
    }

    /// Mean and width of the estimator of so many samples at a mean power of integers.
    pub(super) fn at(&self, power: f64, samples: f64) -> [f64; 2] {
        let above = self.entries.partition_point(|entry| entry.power < power);
        let above = above.clamp(1, self.entries.len() - 1);
        let (a, b) = (self.entries[above - 1], self.entries[above]);
        let part = ((power - a.power) / (b.power - a.power)).clamp(0.0, 1.0);
        let between = |a: f64, b: f64| a + part * (b - a);
        let ratio = between(a.ratio, b.ratio) * (1.0 + between(a.bias, b.bias) / samples);
        let mean = (samples + 1.0) / (samples - 1.0) * (ratio - 1.0);
        [mean, between(a.width, b.width)]
    }
}

impl Entry {
    fn new(most: i32, deviation: f64) -> Self {
        // Integers k and more, and -k and less, are as likely; -most - 1 has no counterpart.
        let beyond = |k: i32| upper_tail((f64::from(k) - 0.5) / deviation);
        let mut moments = [0.0; 4];
        for k in 1..=most + 1 {
            let sides = if k <= most { 2.0 } else { 1.0 };
            for (half, moment) in moments.iter_mut().enumerate() {
                let power = |k: i32| f64::from(k).powi(2 * half as i32 + 2);
                *moment += sides * beyond(k) * (power(k) - power(k - 1));
            }
        }
        // Of |x|^2 = a^2 + b^2, with parts a and b apart from each other.
        let [m2, m4, m6, m8] = moments;
        let u1 = 2.0 * m2;
        let u2 = 2.0 * m4 + 2.0 * m2 * m2;
        let u3 = 2.0 * m6 + 6.0 * m4 * m2;
        let u4 = 2.0 * m8 + 8.0 * m6 * m2 + 6.0 * m4 * m4;
        let variance = (u4 - u2 * u2) / u1.powi(4) + 4.0 * u2 * u2 * (u2 - u1 * u1) / u1.powi(6)
            - 4.0 * u2 * (u3 - u1 * u2) / u1.powi(5);
        // Second order of the ratio of means.
        let bias = 3.0 * (u2 - u1 * u1) / (u1 * u1) - 2.0 * (u3 - u1 * u2) / (u1 * u2);
        Self { power: u1, ratio: u2 / (u1 * u1), bias, width: (variance / 4.0).sqrt() }
    }
}
