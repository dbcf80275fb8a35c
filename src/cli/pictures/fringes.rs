//! Finding point sources and their delays in visibilities.
//!
//! A source of power `p` with delays `tau_i` adds `p exp(-2 pi i (tau_i - tau_j) c / C)` to the
//! visibility of inputs `i` and `j` in channel `c`: a peak in the Fourier transform over channels,
//! the delay spectrum, as in fringe fitting. Sources are found one after the other, the strongest
//! first, each in the residual of those before. For one source, the phases of all baselines of an input
//! are rotated by the delays of their other inputs and added up, so that the source adds in phase and the others
//! do not; the peak of the sum's delay spectrum is the input's delay. Repeating this over inputs and
//! sources until nothing changes gives the least-squares fit.

use std::f64::consts::TAU;

use corrust::correlate::{baseline, baselines};
use ndarray::{Array2, ArrayView2};
use num_complex::Complex;
use rayon::prelude::*;

/// Points of the delay spectrum per wideband sample that are searched for its peak.
const OVERSAMPLING: usize = 4;

/// Rounds over the inputs when a source is found.
const ROUNDS_TO_FIND: usize = 4;

/// Rounds over all sources that remove their remainders from each other's spectra.
const ROUNDS_TO_SEPARATE: usize = 8;

/// A source as the visibilities show it.
#[derive(Clone, Debug)]
pub struct Found {
    /// Power, in units of the visibilities.
    pub power: f64,
    /// Delay of each input, in wideband samples after input 0.
    pub delays: Vec<f64>,
}

impl Found {
    /// Contribution of the source to a visibility at a frequency in cycles per wideband sample.
    pub fn visibility(&self, i: usize, j: usize, frequency: f64) -> Complex<f64> {
        Complex::from_polar(self.power, -TAU * (self.delays[i] - self.delays[j]) * frequency)
    }
}

/// Finds the `sources` strongest sources in the visibilities `[channel][baseline]` of `inputs`
/// inputs, the strongest first.
pub fn find(
    visibilities: ArrayView2<'_, Complex<f64>>,
    inputs: usize,
    sources: usize,
) -> Vec<Found> {
    let mut residual = visibilities.to_owned();
    let mut found = Vec::with_capacity(sources);
    for _ in 0..sources {
        // The spectrum of each baseline with input 0 gives a first guess.
        let delays = (0..inputs)
            .into_par_iter()
            .map(|i| match i {
                0 => 0.0,
                _ => peak(&residual.column(baseline(i, 0)).to_vec()),
            })
            .collect();
        let mut source = Found { power: 0.0, delays };
        for _ in 0..ROUNDS_TO_FIND {
            fit(&residual, &mut source);
        }
        add(&mut residual, &source, -1.0);
        found.push(source);
    }
    for _ in 0..ROUNDS_TO_SEPARATE {
        for source in &mut found {
            add(&mut residual, source, 1.0);
            fit(&residual, source);
            add(&mut residual, source, -1.0);
        }
    }
    found.sort_by(|a, b| b.power.total_cmp(&a.power));
    found
}

/// Improves the delays and the power of one source.
fn fit(visibilities: &Array2<Complex<f64>>, source: &mut Found) {
    let (channels, inputs) = (visibilities.nrows(), source.delays.len());
    let turns =
        |delay: f64, channel: usize| Complex::cis(-TAU * delay * channel as f64 / channels as f64);
    let delays = (0..inputs)
        .into_par_iter()
        .map(|i| {
            if i == 0 {
                return 0.0;
            }
            let aligned: Vec<_> = (0..channels)
                .map(|channel| {
                    let row = visibilities.row(channel);
                    (0..inputs)
                        .filter(|&j| j != i)
                        .map(|j| {
                            let value = if j < i {
                                row[baseline(i, j)]
                            } else {
                                row[baseline(j, i)].conj()
                            };
                            value * turns(source.delays[j], channel)
                        })
                        .sum()
                })
                .collect();
            peak(&aligned)
        })
        .collect();
    source.delays = delays;
    let unit = Found { power: 1.0, delays: source.delays.clone() };
    let total: f64 = (0..channels)
        .into_par_iter()
        .map(|channel| {
            pairs(inputs)
                .map(|(i, j)| {
                    let model = unit.visibility(i, j, channel as f64 / channels as f64);
                    (visibilities[[channel, baseline(i, j)]] * model.conj()).re
                })
                .sum::<f64>()
        })
        .collect::<Vec<_>>()
        .iter()
        .sum();
    source.power = total / (channels * pairs(inputs).count().max(1)) as f64;
}

/// Adds `factor` times the contribution of a source to the visibilities, autocorrelations apart.
fn add(visibilities: &mut Array2<Complex<f64>>, source: &Found, factor: f64) {
    let channels = visibilities.nrows();
    debug_assert_eq!(visibilities.ncols(), baselines(source.delays.len()));
    for (channel, mut row) in visibilities.rows_mut().into_iter().enumerate() {
        for (i, j) in pairs(source.delays.len()) {
            row[baseline(i, j)] +=
                source.visibility(i, j, channel as f64 / channels as f64) * factor;
        }
    }
}

/// Baselines of two different inputs `j < i`.
fn pairs(inputs: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..inputs).flat_map(|i| (0..i).map(move |j| (i, j)))
}

/// The delay, in wideband samples, at which the delay spectrum of a line of channels is highest.
fn peak(line: &[Complex<f64>]) -> f64 {
    let channels = line.len() as f64;
    let height = |delay: f64| -> f64 {
        line.iter()
            .enumerate()
            .map(|(channel, value)| {
                (value * Complex::cis(TAU * delay * channel as f64 / channels)).re
            })
            .sum()
    };
    let points = line.len() * OVERSAMPLING;
    let delay = |point: usize| point as f64 / OVERSAMPLING as f64 - channels / 2.0;
    let highest = (0..points)
        .map(|point| (delay(point), height(delay(point))))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(0.0, |(delay, _)| delay);
    // The main lobe is a wideband sample wide on either side: one peak between the neighbours.
    let step = 1.0 / OVERSAMPLING as f64;
    let (mut low, mut high) = (highest - step, highest + step);
    while high - low > 1e-6 {
        let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if height(left) < height(right) { low = left } else { high = right }
    }
    (low + high) / 2.0
}
