//! Error bars: how much curves differ from one part of the stream to the next.

use ndarray::Array2;

use crate::{
    autocorrelate::curve::Sums,
    error::{Error, Result},
};

/// Standard errors of `g` from blocks of a stream, equally long.
///
/// The sums at the end of each block are fed in. Leaving out one block after the other gives as many curves
/// (the jackknife): with `g_b` the whole stream's `g` without block `b` of `B`, the squared error is `(B - 1) / B`
/// times the sum of `(g_b - mean)^2`. So it is the error of the very curve that is drawn, whose means are those
/// of the whole stream; and bins whose delayed bin lies in the block before are there. Blocks are to be longer
/// than what is correlated, and not much shorter than the lag.
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
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// Sums at the end of each block.
    ends: Vec<Sums>,
}

/// Standard errors of curves.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors {
    /// Of [`Sums::g`], `[row][point]`; NaN where fewer than two blocks have the lag.
    pub rows: Array2<f64>,
    /// Of [`Sums::mean_g`], of each point.
    pub mean: Vec<f64>,
}

impl Blocks {
    /// Takes in the sums at the end of a block, which goes on where the one before ended.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they are of another shape, or not after those before.
    pub fn add(&mut self, sums: &Sums) -> Result<()> {
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
        self.ends.push(Sums { products: Array2::zeros(sums.products.raw_dim()), ..sums.clone() });
        Ok(())
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

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The standard errors of the curves of the last sums.
    pub fn errors(&self) -> Errors {
        let Some(all) = self.ends.last() else {
            return Errors { rows: Array2::zeros((0, 0)), mean: Vec::new() };
        };
        let (rows, points) = all.curve_products.dim();
        let mut errors = Errors {
            rows: Array2::from_elem((rows, points), f64::NAN),
            mean: vec![f64::NAN; points],
        };
        let starts = std::iter::once(None).chain(self.ends.iter().map(Some));
        let blocks: Vec<_> = starts.zip(&self.ends).collect();
        let mut curves = vec![Vec::with_capacity(blocks.len()); rows];
        for point in 0..points {
            let mut means = Vec::with_capacity(blocks.len());
            curves.iter_mut().for_each(Vec::clear);
            for &(start, end) in &blocks {
                let own = end.bins[point] - start.map_or(0, |start| start.bins[point]);
                if own == 0 {
                    continue;
                }
                let bins = (all.bins[point] - own) as f64;
                let (mut sum, mut count) = (0.0, 0.0);
                for (row, curve) in curves.iter_mut().enumerate() {
                    let at = [row, point];
                    let rest = |sums: fn(&Sums) -> &Array2<u64>| {
                        let before = start.map_or(0, |start| sums(start)[at]);
                        (sums(all)[at] - (sums(end)[at] - before)) as f64
                    };
                    let (z, y) = (rest(|sums| &sums.direct), rest(|sums| &sums.delayed));
                    if z > 0.0 && y > 0.0 {
                        let g = rest(|sums| &sums.curve_products) * bins / z / y;
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
}

/// The standard error of what has these values when one block after the other is left out.
fn jackknife(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return f64::NAN;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    ((count - 1.0) / count * squares).sqrt()
}
