//! Plain loops that say what the powers of beams of dishes on a grid are: the definition itself in f64.

use std::f64::consts::TAU;

/// Input of the beamformer.
#[derive(Clone, Debug)]
pub struct Case {
    /// `M`.
    pub rows: usize,
    /// `N`.
    pub columns: usize,
    /// Place `[m, n]` of each dish.
    pub places: Vec<[usize; 2]>,
    /// Number of channels.
    pub channels: usize,
    /// Number of polarisations.
    pub polarisations: usize,
    /// Number of times.
    pub times: usize,
    /// Times whose powers are added; the last block may have fewer.
    pub block_times: usize,
    /// Samples, `[time][channel][polarisation][dish]`; missing ones are zero.
    pub samples: Vec<[f64; 2]>,
    /// `[channel][polarisation][dish]`.
    pub weights: Vec<[f64; 2]>,
    /// Factor of all powers.
    pub gain: f64,
}

impl Case {
    /// Powers `[channel][block][q][p]`, those of a shorter last block too.
    pub fn powers(&self) -> Vec<f64> {
        let Self { rows, columns, channels, polarisations, times, block_times, .. } = *self;
        let dishes = self.places.len();
        let mut powers = Vec::new();
        for channel in 0..channels {
            for block in 0..times.div_ceil(block_times) {
                for q in 0..2 * columns {
                    for p in 0..2 * rows {
                        // Whole turns left out, so that the cosine's argument stays small.
                        let phases: Vec<_> = self
                            .places
                            .iter()
                            .map(|[m, n]| {
                                let turns = (m * p % (2 * rows)) as f64 / (2 * rows) as f64
                                    + (n * q % (2 * columns)) as f64 / (2 * columns) as f64;
                                (TAU * turns).sin_cos()
                            })
                            .collect();
                        let mut sum = 0.0;
                        for time in block * block_times..((block + 1) * block_times).min(times) {
                            for polarisation in 0..polarisations {
                                let (mut re, mut im) = (0.0, 0.0);
                                for (dish, (sine, cosine)) in phases.iter().enumerate() {
                                    let stream = channel * polarisations + polarisation;
                                    let w = self.weights[stream * dishes + dish];
                                    let streams = channels * polarisations;
                                    let x = self.samples[(time * streams + stream) * dishes + dish];
                                    let y = [w[0] * x[0] - w[1] * x[1], w[0] * x[1] + w[1] * x[0]];
                                    re += y[0] * cosine - y[1] * sine;
                                    im += y[0] * sine + y[1] * cosine;
                                }
                                sum += re * re + im * im;
                            }
                        }
                        powers.push(self.gain * sum);
                    }
                }
            }
        }
        powers
    }
}
