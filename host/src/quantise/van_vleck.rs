//! Correlation coefficients of voltages from sums of their levels.

use std::f64::consts::{FRAC_PI_2, TAU};

use ndarray::Array2;
use num_complex::Complex;
use rayon::prelude::*;

use super::{Quantised, Quantiser, requantise::most, upper_tail};
use crate::{
    correlate::visibilities::{Dump, Visibilities},
    error::{Error, Result},
};

/// Intervals of the angle at whose ends a mean product is known.
const INTERVALS: usize = 1024;

/// Correction named after Van Vleck ("The Spectrum of Clipped Noise"): the correlation coefficient of samples,
/// from the mean product of the levels of the two noises that they were quantised to, for 1 to 4 bits.
///
/// Noises of coefficient `sin a`, Gaussian and of the standard deviation that the quantiser is for, have
/// transitions `t` and `u`, where their mean levels change by `j_t` and `j_u`, both crossed with the density that
/// Price's theorem integrates:
///
/// ```text
/// E(a) = 1 / 2 pi  sum over t, u  j_t j_u  integral from 0 to a of exp(-(t^2 + u^2 - 2 t u sin a) / (2 cos^2 a)) da
/// ```
///
/// Levels are odd numbers, 2 apart. Of 1 bit, `E = 2 / pi a` and `sin a = sin(pi / 2 E)`.
///
/// Integer samples are noise that was quantised before: their transitions lie between the integers, the coefficient of
/// their voltages is `sin a`, and their own is the same sum over their own transitions, divided by their mean square.
/// The coefficient of the samples themselves, had they been correlated, is returned. It is less than `sin a` by
/// the noise of their rounding, `1 / 12` in power, and by what their encoding clips.
///
/// A visibility of T times has four such mean products, of real and imaginary parts that are circular noise:
/// [`coefficient`](Self::coefficient) of `re V / 2 T` is the real part of the coefficient, that of `im V / 2 T` the
/// imaginary part.
///
/// ```
/// use corrust_host::quantise::Quantiser;
///
/// let one_bit = Quantiser::optimal(1)?.van_vleck();
/// assert!((one_bit.coefficient(1.0 / 3.0) - 0.5).abs() < 1e-12); // sin 30 degrees
/// let two_bits = Quantiser::optimal(2)?.van_vleck();
/// assert!((two_bits.coefficient(two_bits.mean_product(0.2)) - 0.2).abs() < 1e-9);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct VanVleck {
    /// Mean products of levels.
    levels: Curve,
    /// Coefficients of integer samples; of real numbers they are sines.
    samples: Option<Curve>,
}

impl Quantiser {
    /// Correction from correlations of its levels to those of voltages.
    pub fn van_vleck(&self) -> VanVleck {
        let transitions: Vec<_> = self.thresholds().into_iter().map(|t| (t, 2.0)).collect();
        VanVleck { levels: Curve::new(&transitions, INTERVALS, 1.0), samples: None }
    }
}

impl Quantised {
    /// Correction from correlations of the levels to those of the samples that they were made of.
    ///
    /// # Errors
    /// [`Error::Invalid`] as [`check`](Self::check).
    pub fn van_vleck(&self) -> Result<VanVleck> {
        self.check().map_err(Error::invalid)?;
        let rounded = most(self.of).map(|most| Rounded::new(most, self.noise));
        let deviation = rounded.as_ref().map_or(self.noise, |rounded| rounded.deviation);
        let transitions =
            self.transitions.iter().map(|[place, step]| (place / deviation, 2.0 * step));
        let transitions: Vec<_> = transitions.collect();
        let levels = Curve::new(&transitions, INTERVALS, 1.0);
        Ok(VanVleck { levels, samples: rounded.map(|rounded| rounded.coefficients()) })
    }
}

impl VanVleck {
    /// The mean product of levels of samples with a correlation coefficient, -1 to 1.
    pub fn mean_product(&self, coefficient: f64) -> f64 {
        let size = coefficient.abs().min(1.0);
        let angle = self.samples.as_ref().map_or_else(|| size.asin(), |curve| curve.angle(size));
        self.levels.at(angle).copysign(coefficient)
    }

    /// The correlation coefficient, -1 to 1, of samples whose levels have a mean product; a product beyond those of all
    /// coefficients gives the nearest one.
    pub fn coefficient(&self, mean_product: f64) -> f64 {
        let angle = self.levels.angle(mean_product.abs());
        let found = self.samples.as_ref().map_or_else(|| angle.sin(), |curve| curve.at(angle));
        found.min(1.0).copysign(mean_product)
    }

    /// The correlation coefficients of the samples whose levels, of [`B1`](crate::Encoding::B1) or
    /// [`B2`](crate::Encoding::B2), gave a dump, `[channel][baseline]`: 1 of an input with itself, and NaN where no
    /// time was valid.
    ///
    /// # Errors
    /// [`Error::Invalid`] for sums that are not integers.
    pub fn coefficients(&self, dump: &Dump) -> Result<Visibilities> {
        let Some(sums) = dump.visibilities.integer() else {
            return Err(Error::invalid(
                "coefficients of float32 sums: expected the integers of b1 or b2 samples",
            ));
        };
        let mut coefficients = Array2::zeros(sums.dim());
        let rows = coefficients.outer_iter_mut().into_par_iter().zip(sums.outer_iter());
        rows.enumerate().for_each(|(channel, (mut to, sums))| {
            let pairs = (0_usize..).flat_map(|i| (0..=i).map(move |j| i == j));
            for (baseline, (to, (sum, own))) in
                to.iter_mut().zip(sums.iter().zip(pairs)).enumerate()
            {
                // Two products of a time.
                let products = 2.0 * dump.valid.get(channel, baseline) as f64;
                let part = |sum: i64| self.coefficient(sum as f64 / products) as f32;
                *to = match (products > 0.0, own) {
                    (false, _) => Complex::new(f32::NAN, f32::NAN),
                    (_, true) => Complex::new(1.0, 0.0),
                    _ => Complex::new(part(sum.re), part(sum.im)),
                };
            }
        });
        Ok(Visibilities::Float(coefficients))
    }
}

/// Gaussian noise that was rounded to integers from `-most - 1` to `most`.
struct Rounded {
    most: i32,
    /// Standard deviation before it was rounded.
    deviation: f64,
}

impl Rounded {
    /// Noise that has a standard deviation of `noise` after it was rounded, or the most that integers can have.
    fn new(most: i32, noise: f64) -> Self {
        let (mut less, mut more) = (1e-2, 1e4 * f64::from(most));
        for _ in 0..100 {
            let deviation = (less * more).sqrt();
            let square = Self { most, deviation }.mean_square();
            *(if square < noise * noise { &mut less } else { &mut more }) = deviation;
        }
        Self { most, deviation: (less * more).sqrt() }
    }

    /// Mean square of the integers.
    fn mean_square(&self) -> f64 {
        // v^2 is the sum of 2k - 1 over k from 1 to v; the last one has no counterpart above zero.
        let beyond =
            |k: i32| f64::from(2 * k - 1) * upper_tail((f64::from(k) - 0.5) / self.deviation);
        2.0 * (1..=self.most).map(beyond).sum::<f64>() + beyond(self.most + 1)
    }

    /// Coefficients of the integers.
    ///
    /// The odd part of the levels alone counts. The rest comes from the most negative integer, which has no positive
    /// counterpart, and adds less than a quarter of its probability to real parts.
    fn coefficients(&self) -> Curve {
        let most = f64::from(self.most);
        let inner = (-self.most..self.most).map(|v| (f64::from(v) + 0.5, 1.0));
        let all = [(-most - 0.5, 0.5)].into_iter().chain(inner).chain([(most + 0.5, 0.5)]);
        let transitions: Vec<_> = all.map(|(t, jump)| (t / self.deviation, jump)).collect();
        // Many transitions make smooth curves: a quarter of the intervals will do.
        Curve::new(&transitions, INTERVALS / 4, self.mean_square())
    }
}

/// A mean product as a function of the angle, 0 to a right one: between the ends of intervals the polynomial of third
/// degree that has its values and slopes there.
#[derive(Clone, Debug)]
struct Curve {
    /// Values and slopes, of a whole interval, at the ends of intervals.
    ends: Vec<[f64; 2]>,
}

impl Curve {
    /// Series of transitions, in standard deviations, ascending, with the jumps there, divided by `unit`.
    fn new(transitions: &[(f64, f64)], intervals: usize, unit: f64) -> Self {
        let width = FRAC_PI_2 / intervals as f64;
        let density = |half: usize| density(transitions, half as f64 * width / 2.0) * width / unit;
        let densities: Vec<f64> = (0..=2 * intervals).into_par_iter().map(density).collect();
        let mut value = 0.0;
        let mut ends = vec![[value, densities[0]]];
        for three in densities.windows(3).step_by(2) {
            // Simpson's rule.
            value += (three[0] + 4.0 * three[1] + three[2]) / 6.0;
            ends.push([value, three[2]]);
        }
        Self { ends }
    }

    /// Value and slope, of a whole interval, at a part of an interval.
    fn within(&self, interval: usize, part: f64) -> [f64; 2] {
        let ([a, c], [b, d]) = (self.ends[interval], self.ends[interval + 1]);
        // a + c x + q x^2 + r x^3
        let (q, r) = (3.0 * (b - a) - 2.0 * c - d, 2.0 * (a - b) + c + d);
        [a + part * (c + part * (q + part * r)), c + part * (2.0 * q + part * 3.0 * r)]
    }

    /// The value at an angle.
    fn at(&self, angle: f64) -> f64 {
        let intervals = self.ends.len() - 1;
        let place = angle / FRAC_PI_2 * intervals as f64;
        let interval = (place as usize).min(intervals - 1);
        self.within(interval, place - interval as f64)[0]
    }

    /// The angle at which it has a value, or comes nearest to it.
    fn angle(&self, value: f64) -> f64 {
        let intervals = self.ends.len() - 1;
        let above = self.ends.partition_point(|[known, _]| *known <= value);
        let interval = above.saturating_sub(1).min(intervals - 1);
        let (start, end) = (self.ends[interval][0], self.ends[interval + 1][0]);
        let part = (value - start) / (end - start);
        let mut part = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
        // Newton's steps, of which the first leaves little: a curve is nearly straight over an interval.
        for _ in 0..4 {
            let [found, slope] = self.within(interval, part);
            let step = (value - found) / slope;
            if step.is_finite() {
                part = (part + step).clamp(0.0, 1.0);
            }
        }
        (interval as f64 + part) * FRAC_PI_2 / intervals as f64
    }
}

/// By how much the mean product of transitions and jumps grows with the angle.
fn density(transitions: &[(f64, f64)], angle: f64) -> f64 {
    /// Standard deviations beyond which the density counts for nothing: 1e-14.
    const FAR: f64 = 8.0;
    let (sine, cosine) = angle.sin_cos();
    let sum_of = |&(t, jump): &(f64, f64)| {
        // Transitions that are crossed with this one lie around `t sin a`.
        let least = transitions.partition_point(|&(u, _)| u < t * sine - FAR * cosine);
        let near = transitions[least..].iter();
        let near = near.take_while(|&&(u, _)| u <= t * sine + FAR * cosine);
        let term = |&(u, other): &(f64, f64)| {
            // The exponent of the formula, in terms that stay exact near a right angle.
            other * (-(t - u).powi(2) / (2.0 * cosine * cosine) - t * u / (1.0 + sine)).exp()
        };
        jump * near.map(term).sum::<f64>()
    };
    let all = transitions.iter().filter(|(t, _)| t.abs() < FAR);
    all.map(sum_of).sum::<f64>() / TAU
}
