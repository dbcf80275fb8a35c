//! Correlation coefficients of voltages from sums of their levels.

use ndarray::Array2;
use num_complex::Complex;
use rayon::prelude::*;

use super::Quantiser;
use crate::{
    correlate::visibilities::{Dump, Visibilities},
    error::{Error, Result},
};

/// Intervals of the angle at whose ends the mean product is known.
const INTERVALS: usize = 1024;

/// What the mean product of the levels of two quantised noises says about the correlation coefficient of the
/// noises: the correction named after Van Vleck ("The Spectrum of Clipped Noise"), for 1 to 4 bits.
///
/// Noises of coefficient `rho = sin a`, Gaussian and of the standard deviation that the quantiser is for, have
/// thresholds `t` and `u` both crossed with the density that Price's theorem integrates:
///
/// ```text
/// E(rho) = 2 / pi  sum over t, u  integral from 0 to a of exp(-(t^2 + u^2 - 2 t u sin a) / (2 cos^2 a)) da
/// ```
///
/// Levels are odd numbers, 2 apart. Of 1 bit, `E = 2 / pi asin rho` and `rho = sin(pi / 2 E)`.
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
    thresholds: Vec<f64>,
    /// Mean products at the ends of the intervals of the angle from 0 to a right one.
    products: Vec<f64>,
}

impl Quantiser {
    /// What correlations of its levels say about those of voltages.
    pub fn van_vleck(&self) -> VanVleck {
        let mut known = VanVleck { thresholds: self.thresholds(), products: vec![0.0] };
        for interval in 0..INTERVALS {
            let more = known.integral(angle(interval), angle(interval + 1));
            known.products.push(known.products[interval] + more);
        }
        known
    }
}

impl VanVleck {
    /// The mean product of levels of noises with a correlation coefficient, -1 to 1.
    pub fn mean_product(&self, coefficient: f64) -> f64 {
        let target = coefficient.abs().min(1.0).asin();
        let interval = ((target / angle(1)) as usize).min(INTERVALS - 1);
        let product = self.products[interval] + self.integral(angle(interval), target);
        product.copysign(coefficient)
    }

    /// The correlation coefficient, -1 to 1, of noises whose levels have a mean product; what no coefficient
    /// gives is taken for the nearest that one does.
    pub fn coefficient(&self, mean_product: f64) -> f64 {
        let product = mean_product.abs().min(self.products[INTERVALS]);
        let above = self.products.partition_point(|&known| known <= product);
        let interval = above.saturating_sub(1).min(INTERVALS - 1);
        let (start, end) = (angle(interval), angle(interval + 1));
        // Newton's steps, of which the first leaves little: the density hardly changes over an interval.
        let mut found = start;
        for _ in 0..4 {
            let missing = product - self.products[interval] - self.integral(start, found);
            found = (found + missing / self.density(found)).clamp(start, end);
            if missing.abs() < 1e-15 {
                break;
            }
        }
        found.sin().copysign(mean_product)
    }

    /// The correlation coefficients of the voltages whose levels, of [`B1`](crate::Encoding::B1) or
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

    /// By how much the mean product grows with the angle.
    fn density(&self, angle: f64) -> f64 {
        let (sine, cosine) = angle.sin_cos();
        let term = |t: f64, u: f64| {
            // The exponent of the formula, in terms that stay exact near a right angle.
            (-(t - u).powi(2) / (2.0 * cosine * cosine) - t * u / (1.0 + sine)).exp()
        };
        let all = self.thresholds.iter();
        let terms = all.flat_map(|&t| self.thresholds.iter().map(move |&u| term(t, u)));
        std::f64::consts::FRAC_2_PI * terms.sum::<f64>()
    }

    /// The integral of the density over no more than an interval, by Simpson's rule.
    fn integral(&self, from: f64, to: f64) -> f64 {
        let middle = self.density((from + to) / 2.0);
        (to - from) / 6.0 * (self.density(from) + 4.0 * middle + self.density(to))
    }
}

/// The angle at which an interval begins.
fn angle(interval: usize) -> f64 {
    std::f64::consts::FRAC_PI_2 * interval as f64 / INTERVALS as f64
}
