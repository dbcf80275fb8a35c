//! Gaussian noise in few bits: where the estimator lies, and how it scatters, at a measured power.
//!
//! Of `M` samples with mean power `a` and mean squared power `b` the statistic is
//!
//! ```text
//! T = (b - g(a)) / a^2
//! ```
//!
//! where `g` is the mean squared power of noise that has the mean power `a` and was rounded and clamped as the samples were:
//! `2 a^2` of complex noise in many bits, `3 a^2` of real noise. There `T` is the estimator but for a factor and a constant.
//!
//! Moments of `T`, by its third-order expansion in `a` and `b` (McCullagh, "Tensor Methods in Statistics", 1987, chapter 3),
//! with `L` its linear part and `f` its derivatives, `c_i = cov(L, i)`:
//!
//! ```text
//! mean      = 1/2 f_ij k_ij / M
//! variance  = k2(L) / M
//! third     = (k3(L) + 3 f_ij c_i c_j) / M^2
//! cumulant4 = (k4(L) + 12 f_ij c_i k(L, L, j) + 12 f_ij c_i k_jk f_kl c_l + 4 f_ijk c_i c_j c_k) / M^3
//! ```
//!
//! Each is taken relative to that of gamma-distributed powers, whose exact moments are known (Nita and Gary, 2010).

use crate::quantise::upper_tail;

/// Deviations in a table.
const ENTRIES: usize = 256;

/// Integers that samples were rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub least: i32,
    pub most: i32,
}

/// Noise of one kind, rounded to integers, by its power.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    entries: Vec<Entry>,
    /// Shape of the gamma distribution whose moments are scaled: 1 of complex noise, 1/2 of real noise.
    pub shape: f64,
}

/// Effect of rounding on noise of one power.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Mean of `|x|^2` of the integers.
    power: f64,
    /// Mean of `|x|^4`, and its slope by the power.
    square: f64,
    slope: f64,
    factors: Factors,
}

/// Moments of the statistic as factors of those of gamma-distributed powers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factors {
    pub mean: f64,
    pub variance: f64,
    pub third: f64,
    pub fourth: f64,
}

/// Place of a power in the table: entries around it, and how far it is from the first to the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub entry: usize,
    pub part: f64,
}

impl Levels {
    /// Noise of which real and imaginary parts have the variances `(1 + circularity) / 2` and `(1 - circularity) / 2` of the
    /// power: 0 of complex noise, 1 of real noise.
    pub(super) fn new(range: Range, circularity: f64) -> Self {
        let shape = 1.0 / (1.0 + circularity * circularity);
        let reference = Leading::of_gamma(shape);
        let (least, largest) = (0.1_f64, 2.0 * f64::from(range.most));
        let ratio = (largest / least).powf(1.0 / (ENTRIES - 1) as f64);
        let deviations = (0..ENTRIES).map(|entry| least * ratio.powi(entry as i32));
        let entries = deviations.map(|deviation| {
            let parts = [1.0 + circularity, 1.0 - circularity];
            Entry::new(range, parts.map(|part| deviation * part.max(0.0).sqrt()), &reference)
        });
        Self { entries: entries.collect(), shape }
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Place of a mean power.
    pub(super) fn place(&self, power: f64) -> Place {
        let above = self.entries.partition_point(|entry| entry.power < power);
        let above = above.clamp(1, self.entries.len() - 1);
        let (a, b) = (self.entries[above - 1], self.entries[above]);
        let part = ((power - a.power) / (b.power - a.power)).clamp(0.0, 1.0);
        Place { entry: above - 1, part }
    }

    /// Mean of `|x|^4` of noise of a place's power, by Hermite's cubic.
    pub(super) fn square(&self, Place { entry, part }: Place) -> f64 {
        let (a, b) = (self.entries[entry], self.entries[entry + 1]);
        let (step, rest) = (b.power - a.power, 1.0 - part);
        let ends = a.square * rest * rest * (1.0 + 2.0 * part)
            + b.square * part * part * (1.0 + 2.0 * rest);
        ends + step * part * rest * (a.slope * rest - b.slope * part)
    }

    /// Ratio of the mean of `|x|^4` to the square of that of `|x|^2`.
    pub(super) fn ratio(&self, place: Place) -> f64 {
        let (a, b) = (self.entries[place.entry].power, self.entries[place.entry + 1].power);
        let power = a + place.part * (b - a);
        self.square(place) / (power * power)
    }

    /// Moments at a place.
    pub(super) fn factors(&self, Place { entry, part }: Place) -> Factors {
        let (a, b) = (self.entries[entry].factors, self.entries[entry + 1].factors);
        let between = |a: f64, b: f64| a + part * (b - a);
        Factors {
            mean: between(a.mean, b.mean),
            variance: between(a.variance, b.variance),
            third: between(a.third, b.third),
            fourth: between(a.fourth, b.fourth),
        }
    }
}

impl Entry {
    /// Noise of which real and imaginary parts have these standard deviations, rounded to integers of a range.
    fn new(range: Range, deviations: [f64; 2], reference: &Leading) -> Self {
        let [a, b] = deviations.map(|deviation| Part::new(range, deviation));
        // Of y = a^2 + b^2, with parts a and b apart from each other.
        let mut moments: [f64; 9] = std::array::from_fn(|n| {
            (0..=n).map(|j| binomial(n, j) * a.moments[j] * b.moments[n - j]).sum()
        });
        // Derivatives of the mean power and of its mean square by the logarithm of the deviation.
        let of_power: [f64; 4] = std::array::from_fn(|n| a.second[n] + b.second[n]);
        let product = |n: usize| -> f64 {
            (0..=n).map(|j| binomial(n, j) * a.second[j] * b.second[n - j]).sum()
        };
        let of_square: [f64; 4] =
            std::array::from_fn(|n| a.fourth[n] + b.fourth[n] + 2.0 * product(n));
        let [power, p1, p2, p3] = of_power;
        let [square, s1, s2, s3] = of_square;
        let slope = s1 / p1;
        let bend = s2 * p1 - s1 * p2;
        let second = bend / p1.powi(3);
        let third = ((s3 * p1 - s1 * p3) * p1 - 3.0 * bend * p2) / p1.powi(5);
        for (n, moment) in moments.iter_mut().enumerate() {
            *moment /= power.powi(n as i32);
        }
        let found = Leading::new(&moments, [slope / power, second, third * power]);
        let factors = Factors {
            mean: found.mean / reference.mean,
            variance: found.variance / reference.variance,
            third: found.third / reference.third,
            fourth: found.fourth / reference.fourth,
        };
        Self { power, square, slope, factors }
    }
}

/// Even moments of one part of noise that was rounded.
struct Part {
    /// Moments of orders 0, 2, 4 to 16.
    moments: [f64; 9],
    /// Moments of orders 2 and 4, and three derivatives of each by the logarithm of the deviation.
    second: [f64; 4],
    fourth: [f64; 4],
}

impl Part {
    fn new(Range { least, most }: Range, deviation: f64) -> Self {
        let mut part = Self { moments: [0.0; 9], second: [0.0; 4], fourth: [0.0; 4] };
        part.moments[0] = 1.0;
        if deviation == 0.0 {
            return part;
        }
        for k in 1..=most.max(-least) {
            // Integers k and more, and -k and less, are as likely.
            let sides = f64::from(u8::from(k <= most) + u8::from(k <= -least));
            let z = (f64::from(k) - 0.5) / deviation;
            if z > 30.0 {
                break;
            }
            let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
            let tail = [
                upper_tail(z),
                density * z,
                density * (z.powi(3) - z),
                density * (z.powi(5) - 4.0 * z.powi(3) + z),
            ];
            let rise =
                |order: i32| sides * (f64::from(k).powi(order) - f64::from(k - 1).powi(order));
            for half in 1..=8 {
                part.moments[half] += tail[0] * rise(2 * half as i32);
            }
            for (n, tail) in tail.iter().enumerate() {
                part.second[n] += tail * rise(2);
                part.fourth[n] += tail * rise(4);
            }
        }
        part
    }
}

/// Leading orders of the moments of the statistic, without their powers of `M`.
struct Leading {
    mean: f64,
    variance: f64,
    third: f64,
    fourth: f64,
}

impl Leading {
    /// Leading orders for gamma-distributed powers: their mean square is a fixed multiple of the square of their mean.
    fn of_gamma(shape: f64) -> Self {
        let mut moments = [1.0; 9];
        for n in 1..9 {
            moments[n] = moments[n - 1] * (shape + (n - 1) as f64) / shape;
        }
        let square = moments[2];
        Self::new(&moments, [2.0 * square, 2.0 * square, 0.0])
    }

    /// Leading orders for powers of mean 1 with these moments; `g1` to `g3` are three derivatives of `g` there.
    fn new(moments: &[f64; 9], [g1, g2, g3]: [f64; 3]) -> Self {
        // Polynomials in the power, lowest order first.
        let mean = |polynomial: &[f64]| -> f64 {
            polynomial.iter().zip(moments).map(|(factor, moment)| factor * moment).sum()
        };
        let power = vec![-1.0, 1.0];
        let square = vec![-moments[2], 0.0, 1.0];
        let linear = vec![g1 - moments[2], -g1, 1.0];
        let twice = times(&linear, &linear);
        let k = |a: &[f64], b: &[f64]| mean(&times(a, b));
        let [aa, ab, bb] = [k(&power, &power), k(&power, &square), k(&square, &square)];
        let [ca, cb] = [k(&linear, &power), k(&linear, &square)];
        let [ta, tb] = [k(&twice, &power), k(&twice, &square)];
        let variance = mean(&twice);
        let (f_aa, f_ab) = (4.0 * g1 - g2, -2.0);
        let (f_aaa, f_aab) = (6.0 * g2 - g3 - 18.0 * g1, 6.0);
        let [va, vb] = [f_aa * ca + f_ab * cb, f_ab * ca];
        Self {
            mean: 0.5 * (f_aa * aa + 2.0 * f_ab * ab),
            variance,
            third: k(&twice, &linear) + 3.0 * (f_aa * ca * ca + 2.0 * f_ab * ca * cb),
            fourth: k(&twice, &twice) - 3.0 * variance * variance
                + 12.0 * (va * ta + vb * tb)
                + 12.0 * (va * va * aa + 2.0 * va * vb * ab + vb * vb * bb)
                + 4.0 * (f_aaa * ca.powi(3) + 3.0 * f_aab * ca * ca * cb),
        }
    }
}

/// Product of polynomials.
fn times(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; a.len() + b.len() - 1];
    for (i, a) in a.iter().enumerate() {
        for (j, b) in b.iter().enumerate() {
            product[i + j] += a * b;
        }
    }
    product
}

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expansion gives what the exact moments tend to: those of Nita and Gary for many samples.
    #[test]
    fn the_expansion_is_that_of_exact_moments() {
        for shape in [1.0, 0.5] {
            let found = Leading::of_gamma(shape);
            let m = 1e9;
            let exact = super::super::pearson::Moments::of(m, shape);
            let close = |ours: f64, theirs: f64| (ours / theirs - 1.0).abs() < 1e-6;
            assert!(close(found.mean / m, exact.mean), "{shape}");
            assert!(close(found.variance / m, exact.variance), "{shape}");
            assert!(close(found.third / m.powi(2), exact.third), "{shape}");
            assert!(
                close(found.fourth / m.powi(3), exact.fourth),
                "{shape}: {} {}",
                found.fourth,
                exact.fourth * m.powi(3)
            );
        }
    }
}
