//! Sums of products of single bits, from counts of ones.

use num_complex::Complex;
use rayon::prelude::*;

use super::baselines::{baseline, baselines};

/// Visibilities from counts of ones over `times` times, of channels of `rows` rows, `planes` of them an input's:
///
/// ```text
/// re V(p, q) = 2 T - 2 re D(p) - 2 re D(q) + 4 re S(p, q)
/// im V(p, q) = 2 re D(p) - 4 im D(p) - 2 re D(q) + 4 im S(p, q)      D(p) = S(p, p)
/// ```
///
/// and of two planes `V(i, j) = 4 V(2i, 2j) + 2 V(2i, 2j+1) + 2 V(2i+1, 2j) + V(2i+1, 2j+1)`.
pub(super) fn widen_ones<N: Copy + Sync + Into<i64>>(
    ones: &[Complex<N>],
    (rows, planes): (usize, usize),
    times: i64,
    sums: &mut [Complex<i64>],
) {
    let inputs = rows / planes;
    let channels = sums.par_chunks_exact_mut(baselines(inputs));
    channels.zip(ones.par_chunks_exact(baselines(rows))).for_each(|(sums, ones)| {
        let ones = |p: usize, q: usize| {
            let Complex { re, im } = ones[baseline(p, q)];
            Complex::<i64>::new(re.into(), im.into())
        };
        let own: Vec<_> = (0..rows).map(|row| ones(row, row)).collect();
        let visibility = |p: usize, q: usize| {
            let (of_row, of_column, both) = (own[p], own[q], ones(p, q));
            Complex::new(
                2 * (times - of_row.re - of_column.re) + 4 * both.re,
                2 * (of_row.re - of_column.re) + 4 * (both.im - of_row.im),
            )
        };
        let mut sums = sums.iter_mut();
        for i in 0..inputs {
            for (j, sum) in (0..=i).zip(&mut sums) {
                *sum = if planes == 1 {
                    visibility(i, j)
                } else {
                    let (p, q) = (2 * i, 2 * j);
                    // Products right of the diagonal are the conjugates of those left of it.
                    let right =
                        if i == j { visibility(p + 1, q).conj() } else { visibility(p, q + 1) };
                    visibility(p, q) * 4
                        + (right + visibility(p + 1, q)) * 2
                        + visibility(p + 1, q + 1)
                };
            }
        }
    });
}
