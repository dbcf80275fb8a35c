//! Plain loops that say what subchannels are: the definition itself in f64.

use std::f64::consts::{PI, TAU};

use super::channelise::Raw;

/// Input of the filter bank.
#[derive(Clone, Debug)]
pub struct Case {
    /// Number of inputs.
    pub inputs: usize,
    /// Number of channels.
    pub channels: usize,
    /// Number of times.
    pub times: usize,
    /// Subchannels of a channel.
    pub factor: usize,
    /// Encoding of the samples.
    pub raw: Raw,
    /// Samples, `[time][channel][input]`.
    pub bytes: Vec<u8>,
    /// Weights in the order of time, a multiple of `factor` of them.
    pub weights: Vec<f64>,
    /// `[channel][subchannel]`, complex.
    pub gains: Vec<[f64; 2]>,
    /// `(channel, input, first time, end)` of missing samples.
    pub missing: Vec<(usize, usize, usize, usize)>,
}

/// Weights `cos^2 x sinc` of the document's equation 11, with `sum W = 1`; `sinc(t) = sin(scale t) / (scale t)`.
pub fn weights(factor: usize, taps: usize, scale: f64) -> Vec<f64> {
    let length = (factor * taps) as f64;
    let mut weights = Vec::new();
    for s in 0..factor * taps {
        let v = s as f64 - (length - 1.0) / 2.0;
        let t = scale * v / factor as f64;
        let sinc = if t == 0.0 { 1.0 } else { t.sin() / t };
        weights.push((PI * v / (length + 1.0)).cos().powi(2) * sinc);
    }
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

impl Case {
    /// Spectra of all times.
    pub fn spectra(&self) -> usize {
        self.times / self.factor
    }

    /// A value, or none where it is missing.
    pub fn value(
        &self,
        spectrum: usize,
        channel: usize,
        subchannel: usize,
        input: usize,
    ) -> Option<[f64; 2]> {
        let end = (spectrum + 1) * self.factor;
        let start = end.checked_sub(self.weights.len())?;
        for &(of, at, first, last) in &self.missing {
            if of == channel && at == input && first < end && last > start {
                return None;
            }
        }
        let frequency = subchannel as f64 - (self.factor as f64 - 1.0) / 2.0;
        let (mut re, mut im) = (0.0, 0.0);
        for (s, weight) in self.weights.iter().enumerate() {
            let index = ((start + s) * self.channels + channel) * self.inputs + input;
            let x = [0, 1].map(|part| self.raw.component(&self.bytes, 2 * index + part));
            let turns = (frequency * s as f64 / self.factor as f64).rem_euclid(1.0);
            let (sine, cosine) = (-TAU * turns).sin_cos();
            re += weight * (x[0] * cosine - x[1] * sine);
            im += weight * (x[0] * sine + x[1] * cosine);
        }
        let gain = self.gains[channel * self.factor + subchannel];
        Some([re * gain[0] - im * gain[1], re * gain[1] + im * gain[0]])
    }
}
