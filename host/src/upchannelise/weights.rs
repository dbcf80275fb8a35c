//! Weights of the filter bank.

use crate::channelise::prototype::{cosine, sinc};

/// `W[s] = c cos^2(pi v / (M U + 1)) sinc(v / U)`, `v = s - (M U - 1) / 2`, with `sum W = 1`: a tone at a subchannel's
/// centre keeps its amplitude. `sinc(t) = sin(pi t) / (pi t)`. All are made in f64 of additions, multiplications and
/// divisions alone, so that every machine has the same ones.
pub fn weights(factor: usize, taps: usize) -> Vec<f64> {
    let length = factor * taps;
    let at = |s: usize| {
        let v = s as f64 - (length as f64 - 1.0) / 2.0;
        let window = cosine(v / (length as f64 + 1.0));
        window * window * sinc(v / factor as f64)
    };
    let mut weights: Vec<f64> = (0..length).map(at).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights
}
