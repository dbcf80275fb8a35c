//! Baselines: their numbers, and the operations of their products.

/// Index of the baseline of inputs `j <= i`: `i(i+1)/2 + j`.
pub const fn baseline(i: usize, j: usize) -> usize {
    i * (i + 1) / 2 + j
}

/// Number of baselines of `inputs`, autocorrelations included: `N(N+1)/2`.
pub const fn baselines(inputs: usize) -> usize {
    inputs * (inputs + 1) / 2
}

/// The inputs `j <= i` of a baseline, `(i, j)`.
pub fn inputs_of(number: usize) -> (usize, usize) {
    // The square root is off by its rounding at most, which a step to either side mends.
    let mut i = (((8.0 * number as f64 + 1.0).sqrt() - 1.0) / 2.0) as usize;
    i -= usize::from(baseline(i, 0) > number);
    i += usize::from(baseline(i + 1, 0) <= number);
    (i, number - baseline(i, 0))
}

/// Useful operations of a correlation: `8 * N(N+1)/2 * C * T`. Redundant work, padding and address
/// arithmetic never count.
pub fn useful_operations(inputs: usize, channels: usize, times: u64) -> f64 {
    8.0 * baselines(inputs) as f64 * channels as f64 * times as f64
}

#[cfg(test)]
mod tests {
    use super::{baseline, inputs_of};

    #[test]
    fn baselines_have_their_inputs() {
        let all = (0..200).flat_map(|i| (0..=i).map(move |j| (i, j)));
        for i in [94_906_265, 1 << 26, (1 << 31) - 1] {
            for j in [0, 1, i / 2, i - 1, i] {
                assert_eq!(inputs_of(baseline(i, j)), (i, j));
            }
        }
        for (number, (i, j)) in all.enumerate() {
            assert_eq!((baseline(i, j), inputs_of(number)), (number, (i, j)));
        }
    }
}
