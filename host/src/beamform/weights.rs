//! Weights that point beams: from dish positions, directions and frequencies to int8.
//!
//! A plane wave from the direction `n` (a unit vector towards the source) reaches the dish at `r`
//! later than the origin by `tau = -(r . n) / c`, and in a channel at the frequency `nu` turns its
//! voltage by `exp(-2 pi i nu tau)`. The weight that adds the dishes in phase is
//! `A = 127 exp(2 pi i nu tau)`.
//!
//! [`Array`] holds the coordinates.

use std::f64::consts::TAU;

use ndarray::{Array5, ArrayView2, Axis};
use rayon::prelude::*;

use crate::{
    beamform::shape::MAX_SHIFT,
    device::host,
    error::{Error, Result},
};

/// Magnitude of a weight: the largest that int8 holds at every phase.
const MAGNITUDE: f64 = 127.0;

/// The shift at which noise that the dishes do not share has about the same level in the beams as in
/// the voltages: [`weights`] make it `127 sqrt(D)` times as large.
pub fn noise_shift(dishes: usize) -> u32 {
    let bits = (MAGNITUDE * (dishes.max(1) as f64).sqrt()).log2();
    (bits.round() as u32).min(MAX_SHIFT)
}

/// Weights `[F][P][B][D][re, im]` that undo `delays` (`[beam][dish]`, seconds) in channels at
/// `frequencies` (hertz), the same for every polarisation: `127 exp(2 pi i nu tau)`, rounded. Any
/// other unit of time will do if the frequencies are in its inverse.
///
/// # Errors
/// [`Error::Invalid`] when a delay, a frequency or their product is not a finite number;
/// [`Error::OutOfMemory`].
///
/// ```
/// use corrust_host::{Beamformer, Device, beamform::weights};
/// use ndarray::Array2;
///
/// // Four dishes 6 m apart along east; two beams at 600 MHz: the zenith, and 10 degrees east.
/// let east = [0.0, 10f64.to_radians().sin()];
/// let delays =
///     Array2::from_shape_fn((2, 4), |(beam, dish)| -6.0 * dish as f64 * east[beam] / 299_792_458.0);
/// let weights = weights(delays.view(), &[600e6], 1)?;
/// assert_eq!(weights[[0, 0, 0, 3, 0]], 127); // towards the zenith all dishes are in phase
///
/// let mut beamformer = Beamformer::builder(4, 2).device(Device::Cpu).build()?;
/// beamformer.set_weights(weights.as_slice().unwrap())?;
/// # Ok::<(), corrust_host::Error>(())
/// ```
pub fn weights(
    delays: ArrayView2<f64>,
    frequencies: &[f64],
    polarisations: usize,
) -> Result<Array5<i8>> {
    if let Some(delay) = delays.iter().find(|delay| !delay.is_finite()) {
        return Err(Error::invalid(format!("delay {delay}: expected a finite number")));
    }
    if let Some(frequency) = frequencies.iter().find(|frequency| !frequency.is_finite()) {
        return Err(Error::invalid(format!("frequency {frequency}: expected a finite number")));
    }
    let largest =
        |values: &mut dyn Iterator<Item = &f64>| values.copied().map(f64::abs).fold(0.0, f64::max);
    let turns = largest(&mut delays.iter()) * largest(&mut frequencies.iter());
    if !turns.is_finite() {
        return Err(Error::invalid(format!(
            "delays of {turns} turns of phase: expected a finite number"
        )));
    }
    let (beams, dishes) = delays.dim();
    let axes = (frequencies.len(), polarisations, beams, dishes, 2);
    let bytes = [frequencies.len(), polarisations, beams, dishes, 2]
        .into_iter()
        .fold(1, usize::saturating_mul);
    let mut weights =
        Array5::from_shape_vec(axes, host::zeros(bytes)?).expect("as many as the axes say");
    weights.axis_iter_mut(Axis(0)).into_par_iter().zip(frequencies).for_each(
        |(mut weights, frequency)| {
            for ((beam, dish), delay) in delays.indexed_iter() {
                // Whole turns are dropped before they cost precision.
                let (im, re) = (TAU * (frequency * delay).fract()).sin_cos();
                for polarisation in 0..polarisations {
                    for (part, value) in [re, im].into_iter().enumerate() {
                        weights[[polarisation, beam, dish, part]] =
                            (MAGNITUDE * value).round() as i8;
                    }
                }
            }
        },
    );
    Ok(weights)
}
