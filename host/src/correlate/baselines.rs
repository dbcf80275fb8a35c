//! Baselines: their numbers, and the operations of their products.

/// Index of the baseline of inputs `j <= i`: `i(i+1)/2 + j`.
pub const fn baseline(i: usize, j: usize) -> usize {
    i * (i + 1) / 2 + j
}

/// Number of baselines of `inputs`, autocorrelations included: `N(N+1)/2`.
pub const fn baselines(inputs: usize) -> usize {
    inputs * (inputs + 1) / 2
}

/// Useful operations of a correlation: `8 * N(N+1)/2 * C * T`. Redundant work, padding and address
/// arithmetic never count.
pub fn useful_operations(inputs: usize, channels: usize, times: u64) -> f64 {
    8.0 * baselines(inputs) as f64 * channels as f64 * times as f64
}
