//! Results of an autocorrelation: sums, and the curves that experimenters draw from them.

use ndarray::Array2;

use super::{
    head::Head,
    shape::First,
    times::{Amount, Value},
};
use crate::{
    autocorrelate::{
        shape::{Point, Scheme, Shape},
        state::State,
    },
    error::{Error, Result},
};

/// All sums of a stream.
///
/// `products` sums over all complete bins: the output's `A`. The other sums make a curve: they are over the
/// bins whose delayed bin begins at or after the first sample, as counts before it are not known to be
/// zero. They are zero where the stream is shorter than the lag.
///
/// Sums of counts are exact integers; sums of weighted photons ([`Weighted`](super::Weighted)) have `T = f64`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums<T = u64> {
    /// Sensors, groups and lags.
    pub shape: Shape,
    /// Instants seen.
    pub instants: u64,
    /// The points of every curve: groups in order, lags ascending.
    pub points: Vec<Point>,
    /// `A = sum Z Y` over all complete bins: `[row][point]`.
    pub products: Array2<T>,
    /// `M'`, bins of each point's curve.
    pub bins: Vec<u64>,
    /// `A' = sum' Z Y`: `[row][point]`.
    pub curve_products: Array2<T>,
    /// `sum' Z`: `[row][point]`.
    pub direct: Array2<T>,
    /// `sum' Y`: `[row][point]`.
    pub delayed: Array2<T>,
}

impl Sums {
    /// The sums of a stream in the state it is in.
    ///
    /// # Errors
    /// [`Error::Invalid`] when one of counts of two bytes is beyond 64 bits.
    pub fn of(state: &State) -> Result<Self> {
        let mut sums = Self::default();
        sums.set(state)?;
        Ok(sums)
    }

    /// Replaces the sums by those of a state; their memory is used again.
    pub(super) fn set(&mut self, state: &State) -> Result<()> {
        let State { shape, instants, .. } = *state;
        let numbers = Numbers {
            shape,
            instants,
            pairs: &state.pairs,
            products: &state.products,
            totals: &state.totals,
            partial: &state.partial,
            cells: &state.cells,
            head: &state.head,
        };
        self.replace(&numbers);
        if state.wide {
            let points = self.points.len();
            let rows = state.pairs.len() / 4;
            let sums = |array: &Array2<u64>, weights| -> Result<Array2<u64>> {
                let sums = of_digits(array.as_slice().expect("as it was made"), points, weights)?;
                Ok(Array2::from_shape_vec((rows, points), sums).expect("as many sums as points"))
            };
            let products = [65_536, 256, 256, 1];
            self.products = sums(&self.products, products)?;
            self.curve_products = sums(&self.curve_products, products)?;
            // High digits are direct in the first two rows, delayed in the first and the third.
            self.direct = sums(&self.direct, [256, 0, 1, 0])?;
            self.delayed = sums(&self.delayed, [256, 1, 0, 0])?;
        }
        self.shape = state.shape();
        Ok(())
    }
}

/// Numbers that a stream keeps, as of a [`State`].
pub(super) struct Numbers<'a, V: Value> {
    pub shape: Shape,
    pub instants: u64,
    pub pairs: &'a [[u32; 2]],
    pub products: &'a [V::Sum],
    pub totals: &'a [[V::Sum; 2]],
    pub partial: &'a [V],
    pub cells: &'a [V],
    pub head: &'a Head<V>,
}

impl<T: Amount> Sums<T> {
    /// Replaces the sums by those of a stream's numbers; their memory is used again.
    pub(super) fn replace<V: Value<Sum = T>>(&mut self, state: &Numbers<'_, V>) {
        let Numbers { shape, instants, .. } = *state;
        self.points.clear();
        self.points.extend(shape.curve());
        let points = &self.points;
        let size = (state.pairs.len(), points.len());
        let array = |sums| Array2::from_shape_vec(size, sums).expect("as many sums as points");
        let complete = |point: &Point| instants >> point.group;
        let first = |point: &Point| point.first().instant >> point.group;
        self.bins.clear();
        self.bins.extend(points.iter().map(|point| complete(point).saturating_sub(first(point))));
        let [mut all_products, mut curve_products, mut direct, mut delayed] =
            [&mut self.products, &mut self.curve_products, &mut self.direct, &mut self.delayed]
                .map(|array| {
                    let (mut memory, _) = std::mem::take(array).into_raw_vec_and_offset();
                    memory.clear();
                    memory
                });
        all_products.extend_from_slice(state.products);
        for (row, products) in state.products.chunks_exact(points.len()).enumerate() {
            let head = state.pairs[row].map(|sensor| state.head.before(sensor));
            let sums = products.iter().zip(delayed_sums(state, row));
            for (point, (&product, delayed_sum)) in points.iter().zip(sums) {
                let First { instant, straddling, counted } = point.first();
                let [z, y, zy] = if complete(point) < first(point) {
                    [T::default(); 3]
                } else {
                    let partial = state.partial[row * shape.groups + point.group];
                    let all = state.totals[row][0].minus(partial.sum());
                    let z = all.minus(head[0].at(instant));
                    let before = head[1].at(counted);
                    let bin = straddling
                        .map_or(T::default(), |from| head[0].at(instant).minus(head[0].at(from)));
                    [z, delayed_sum.minus(before), product.minus(bin.times(before))]
                };
                direct.push(z);
                delayed.push(y);
                curve_products.push(zy);
            }
        }
        (self.shape, self.instants) = (shape, instants);
        self.products = array(all_products);
        self.curve_products = array(curve_products);
        (self.direct, self.delayed) = (array(direct), array(delayed));
    }

    /// The sums of the sensors, and those of a mask, which is the last row where sums are `masked`.
    ///
    /// # Panics
    /// When sums are masked and there is no row.
    pub fn split_mask(self, masked: bool) -> (Self, Option<Self>) {
        if !masked {
            return (self, None);
        }
        let last = self.products.nrows() - 1;
        let part = |rows: std::ops::Range<usize>| {
            let of = |array: &Array2<T>| array.slice(ndarray::s![rows.clone(), ..]).to_owned();
            Self {
                shape: self.shape,
                instants: self.instants,
                points: self.points.clone(),
                bins: self.bins.clone(),
                products: of(&self.products),
                curve_products: of(&self.curve_products),
                direct: of(&self.direct),
                delayed: of(&self.delayed),
            }
        };
        (part(0..last), Some(part(last..last + 1)))
    }

    /// `g(tau) = A' M' / (sum' Z * sum' Y)` of a row at one point, symmetric normalisation: the products
    /// are divided by the means of the very bins that were multiplied. Nothing where one of the
    /// sensors counted nothing, or the stream is too short for the lag.
    ///
    /// # Panics
    /// When there is no such row or point.
    pub fn g(&self, row: usize, point: usize) -> Option<f64> {
        let at = [row, point];
        let (direct, delayed) = (self.direct[at].value(), self.delayed[at].value());
        (direct > 0.0 && delayed > 0.0)
            .then(|| self.curve_products[at].value() * self.bins[point] as f64 / direct / delayed)
    }

    /// The mean of [`g`](Self::g) over the rows that have one at the point.
    ///
    /// # Panics
    /// When there is no such point.
    pub fn mean_g(&self, point: usize) -> Option<f64> {
        let (sum, rows) = (0..self.products.nrows())
            .filter_map(|row| self.g(row, point))
            .fold((0.0, 0u32), |(sum, rows), g| (sum + g, rows + 1));
        (rows > 0).then(|| sum / f64::from(rows))
    }

    /// The normalised correlation of a row, at the points that have one. `dwell` is the length of an
    /// instant in seconds.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn curve(&self, row: usize, dwell: f64) -> Curve {
        self.curve_of(dwell, |point| self.g(row, point))
    }

    /// The mean over all rows of the normalised correlations.
    pub fn mean_curve(&self, dwell: f64) -> Curve {
        self.curve_of(dwell, |point| self.mean_g(point))
    }

    fn curve_of(&self, dwell: f64, g: impl Fn(usize) -> Option<f64>) -> Curve {
        let mut curve = Curve::default();
        for (index, point) in self.points.iter().enumerate() {
            if let Some(g) = g(index) {
                curve.lags.push(point.lag as f64 * dwell);
                curve.values.push(g);
            }
        }
        curve
    }
}

/// A normalised correlation curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Lags in seconds, ascending.
    pub lags: Vec<f64>,
    /// `g(tau)`: 1 where there is no correlation.
    pub values: Vec<f64>,
    /// Standard errors of the values, where they are known ([`Blocks`](super::Blocks)); NaN of single ones
    /// that are not.
    pub errors: Vec<f64>,
}

/// Rows of sums of counts of two bytes from the four rows of their digits each, times these weights.
fn of_digits(sums: &[u64], points: usize, weights: [u128; 4]) -> Result<Vec<u64>> {
    let rows = sums.chunks_exact(4 * points);
    let row = |rows: &[u64]| {
        let sum = |point: usize| {
            let digits = weights.iter().enumerate();
            digits
                .map(|(row, weight)| weight * u128::from(rows[row * points + point]))
                .sum::<u128>()
        };
        (0..points).map(sum).collect::<Vec<_>>()
    };
    let narrow = |sum: u128| {
        u64::try_from(sum).map_err(|_| {
            Error::invalid(format!(
                "a sum of products of {sum}: expected at most 2^64 - 1, begin a new stream"
            ))
        })
    };
    rows.flat_map(row).map(narrow).collect()
}

/// `sum_m Y` of every point of a row, from the total of the delayed sensor's counts less those that
/// are still in the delay lines.
fn delayed_sums<V: Value>(state: &Numbers<'_, V>, row: usize) -> Vec<V::Sum> {
    let shape = &state.shape;
    let cells = shape.cells();
    let mut sums = Vec::with_capacity(shape.points());
    // Sum of the counts up to the end of the newest bin in the group's delay line.
    let mut newest = state.totals[row][1];
    for group in 0..shape.groups {
        let start = (row * shape.groups + group) * cells;
        let line = &state.cells[start..start + cells];
        // before[c]: sum of the counts before the bin in cell c begins.
        let before: Vec<V::Sum> = line
            .iter()
            .scan(newest, |sum, &cell| {
                *sum = sum.minus(cell.sum());
                Some(*sum)
            })
            .collect();
        let even = (state.instants >> group).is_multiple_of(2);
        match shape.scheme {
            // Cell c is what the next bin is multiplied with: the last one was with the bin before.
            Scheme::BinGroups => {
                sums.extend(shape.steps(group).map(|c| before[c]));
                // The next group's newest bin ends where this group's oldest begins or, when that
                // is its second half, ends.
                let second_half = if even { line[cells - 1] } else { V::default() };
                newest = before[cells - 1].plus(second_half.sum());
            }
            Scheme::Classic => {
                sums.extend(
                    shape.steps(group).map(|n| if n == 0 { newest } else { before[n - 1] }),
                );
                // The next group's newest bin ends where this group's does, or one bin before.
                newest = if even { newest } else { before[0] };
            }
        }
    }
    sums
}
