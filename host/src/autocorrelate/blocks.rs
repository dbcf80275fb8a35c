//! Error bars: how much curves differ from one part of the stream to the next.

use ndarray::Array2;

use super::times::Amount;
use crate::{
    autocorrelate::curve::Sums,
    error::{Error, Result},
};

/// Standard errors of `g` from blocks of a stream, equally long.
///
/// The sums at the end of each block are fed in. Leaving out one block after the other gives as many curves
/// (the jackknife): with `g_b` the whole stream's `g` without block `b` of `B`, the squared error is `(B - 1) / B`
/// times the sum of `(g_b - mean)^2`. So it is the error of the very curve that is drawn, whose means are the whole
/// stream's; and bins whose delayed bin lies in the block before count. Blocks should be longer than the correlation
/// time, and not much shorter than the lag.
///
/// ```
/// use corrust_host::{Autocorrelator, Device, autocorrelate::Blocks};
///
/// let mut plan = Autocorrelator::builder(1).groups(2).lags(4).device(Device::Cpu).build()?;
/// let mut blocks = Blocks::default();
/// for block in 0..4_u8 {
///     plan.accumulate(&[block % 2 + 1; 1000])?; // a light that is brighter now and then
///     blocks.add(&plan.snapshot()?)?;
/// }
/// let errors = blocks.errors();
/// assert!(errors.rows[[0, 1]] > 0.03); // g is no better known than that
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Blocks<T = u64> {
    /// Sums at the end of each block.
    ends: Vec<Sums<T>>,
}

/// No block.
impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self { ends: Vec::new() }
    }
}

/// Standard errors of curves.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors {
    /// Standard errors of [`Sums::g`], `[row][point]`; NaN where fewer than two blocks have the lag.
    pub rows: Array2<f64>,
    /// Standard error of each point of [`Sums::mean_g`].
    pub mean: Vec<f64>,
}

impl Errors {
    /// Divides errors of curves by the curve of a mask, sums of one row, by which the curves are divided.
    pub fn divide_by<T: Amount>(&mut self, mask: &Sums<T>) {
        for (point, mean) in self.mean.iter_mut().enumerate() {
            let scale = mask.g(0, point).unwrap_or(f64::NAN);
            *mean /= scale;
            self.rows.column_mut(point).mapv_inplace(|error| error / scale);
        }
    }
}

impl<T: Amount> Blocks<T> {
    /// Takes in the sums at the end of a block, which begins where the one before ended.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they are of another shape, or not after those before.
    pub fn add(&mut self, sums: &Sums<T>) -> Result<()> {
        if let Some(last) = self.ends.last() {
            let shapes = [sums, last].map(|sums| (sums.shape, sums.products.dim()));
            if shapes[0] != shapes[1] || sums.instants <= last.instants {
                return Err(Error::invalid(format!(
                    "a block of {} rows and points that ends at instant {}: expected {:?} after instant {}",
                    format_args!("{:?}", shapes[0].1),
                    sums.instants,
                    shapes[1].1,
                    last.instants
                )));
            }
        }
        // The sums over all complete bins are not needed here.
        self.ends.push(Sums { products: Array2::default(sums.products.raw_dim()), ..sums.clone() });
        Ok(())
    }

    /// Takes in the sums at a later end of the last block, which becomes longer.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn lengthen(&mut self, sums: &Sums<T>) -> Result<()> {
        let last = self.ends.pop();
        self.add(sums).inspect_err(|_| self.ends.extend(last))
    }

    /// Makes one block of each two, from the first on; an odd one at the end is forgotten.
    pub fn halve(&mut self) {
        let mut number = 0;
        self.ends.retain(|_| {
            number += 1;
            number % 2 == 0
        });
    }

    /// Blocks that were fed in.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The standard errors of the curves of the last sums.
    pub fn errors(&self) -> Errors {
        self.errors_over(None)
    }

    /// The standard errors of the last sums' curves divided by the curve of a mask, whose blocks end at the same
    /// instants and have one row.
    ///
    /// # Panics
    /// When the mask has fewer blocks.
    pub fn errors_over(&self, mask: Option<&Self>) -> Errors {
        let Some(all) = self.ends.last() else {
            return Errors { rows: Array2::zeros((0, 0)), mean: Vec::new() };
        };
        let (rows, points) = all.curve_products.dim();
        let mut errors = Errors {
            rows: Array2::from_elem((rows, points), f64::NAN),
            mean: vec![f64::NAN; points],
        };
        let mut curves = vec![Vec::with_capacity(self.ends.len()); rows];
        for point in 0..points {
            let mut means = Vec::with_capacity(self.ends.len());
            curves.iter_mut().for_each(Vec::clear);
            for block in 0..self.ends.len() {
                let Some((bins, scale)) = self.rest(mask, block, point) else { continue };
                let (mut sum, mut count) = (0.0, 0.0);
                for (row, curve) in curves.iter_mut().enumerate() {
                    if let Some(g) = self.g_without(block, [row, point], bins, scale) {
                        curve.push(g);
                        (sum, count) = (sum + g, count + 1.0);
                    }
                }
                if count > 0.0 {
                    means.push(sum / count);
                }
            }
            for (row, curve) in curves.iter().enumerate() {
                errors.rows[[row, point]] = jackknife(curve);
            }
            errors.mean[point] = jackknife(&means);
        }
        errors
    }

    /// Curves of the last sums without one block after the other, `[block][point]`: of a row, or the mean over all rows. NaN
    /// where such a curve has no value.
    ///
    /// A fit of each of them gives the standard errors of the fit's parameters, which the errors of single points do not:
    /// neighbouring points of a curve are correlated.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn curves_without(&self, row: Option<usize>) -> Array2<f64> {
        self.curves_without_over(row, None)
    }

    /// [`curves_without`](Self::curves_without), divided by the curves of a mask, whose blocks end at the same instants and
    /// have one row.
    ///
    /// # Panics
    /// When there is no such row, or the mask has fewer blocks.
    pub fn curves_without_over(&self, row: Option<usize>, mask: Option<&Self>) -> Array2<f64> {
        let (rows, points) = self.ends.last().map_or((0, 0), |all| all.curve_products.dim());
        let rows = row.map_or(0..rows, |row| row..row + 1);
        Array2::from_shape_fn((self.ends.len(), points), |(block, point)| {
            // A block without a bin of this lag takes nothing from the whole curve.
            let (bins, scale) = self.rest(mask, block, point).unwrap_or_else(|| {
                let whole = |ends: &Self| ends.ends.last().expect("as many blocks").g(0, point);
                let all = self.ends.last().expect("one or more");
                (all.bins[point] as f64, mask.map_or(Some(1.0), whole))
            });
            let values =
                rows.clone().filter_map(|row| self.g_without(block, [row, point], bins, scale));
            let (sum, count) = values.fold((0.0, 0.0), |(sum, count), g| (sum + g, count + 1.0));
            sum / count
        })
    }

    /// Bins of a point without a block, and the mask's curve there; none where the block has no bin.
    fn rest(&self, mask: Option<&Self>, block: usize, point: usize) -> Option<(f64, Option<f64>)> {
        let own = |ends: &[Sums<T>]| {
            let before = block.checked_sub(1).map_or(0, |before| ends[before].bins[point]);
            ends[block].bins[point] - before
        };
        let own = own(&self.ends);
        if own == 0 {
            return None;
        }
        let bins = (self.ends.last()?.bins[point] - own) as f64;
        let scale =
            mask.map_or(Some(1.0), |mask| mask.g_without(block, [0, point], bins, Some(1.0)));
        Some((bins, scale))
    }

    /// `g` at a row and point without a block, which leaves `bins` bins, by the mask's `scale`.
    fn g_without(
        &self,
        block: usize,
        at: [usize; 2],
        bins: f64,
        scale: Option<f64>,
    ) -> Option<f64> {
        let start = block.checked_sub(1).map(|before| &self.ends[before]);
        let g = without([self.ends.last()?, &self.ends[block]], start, at, bins);
        Some(g? / scale?)
    }
}

/// `g` at a row and point of a stream without the block between two sums, which leaves `bins` bins.
fn without<T: Amount>(
    [all, end]: [&Sums<T>; 2],
    start: Option<&Sums<T>>,
    at: [usize; 2],
    bins: f64,
) -> Option<f64> {
    let rest = |sums: fn(&Sums<T>) -> &Array2<T>| {
        let before = start.map_or(T::default(), |start| sums(start)[at]);
        sums(all)[at].minus(sums(end)[at].minus(before)).value()
    };
    let (z, y) = (rest(|sums| &sums.direct), rest(|sums| &sums.delayed));
    (z > 0.0 && y > 0.0).then(|| rest(|sums| &sums.curve_products) * bins / z / y)
}

/// The standard error of a quantity that has these values as each block in turn is left out.
fn jackknife(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return f64::NAN;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    ((count - 1.0) / count * squares).sqrt()
}
