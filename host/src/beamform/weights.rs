//! Weights that point beams: from dish positions, directions and frequencies to int8.
//!
//! A plane wave from the direction `n` (a unit vector towards the source) reaches the dish at `r`
//! later than the origin by `tau = -(r . n) / c`, and in a channel at the frequency `nu` turns its
//! voltage by `exp(-2 pi i nu tau)`. The weight that adds the dishes in phase is
//! `A = 127 exp(2 pi i nu tau)`.
//!
//! [`Array`] holds the coordinates.

use std::{f64::consts::TAU, str::FromStr};

use ndarray::{Array2, Array5, ArrayView2, Axis};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::MAX_SHIFT;
use crate::{
    Error, Result,
    device::host,
    format::array::{Array, Channels, Field},
};

/// Metres per second.
pub const SPEED_OF_LIGHT: f64 = 299_792_458.0;

/// Magnitude of a weight: the largest that int8 holds at every phase.
const MAGNITUDE: f64 = 127.0;

impl Array {
    /// The [`weights`] `[F][P][B][D][re, im]` that point beams at the array's pointings, and at `more`.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Invalid`] when the array lacks antennas, frequencies or pointings;
    /// [`Error::Invalid`] for 0 polarisations, coordinates that are not finite numbers, or a direction of
    /// length 0; [`Error::OutOfMemory`].
    ///
    /// ```
    /// use corrust_host::format::array::Array;
    ///
    /// let array = Array::parse(
    ///     r#"{
    ///         "positions": [[0, 0, 0], [6.3, 0, 0], [0, 8.5, 0]],
    ///         "frequencies": [4.0e8, 6.0e8],
    ///         "pointings": [[0, 0, 1], [180, 45]]
    ///     }"#,
    /// )?;
    /// assert_eq!(array.weights(1, &[])?.dim(), (2, 1, 2, 3, 2));
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    pub fn weights(&self, polarisations: usize, more: &[Pointing]) -> Result<Array5<i8>> {
        const ASKER: &str = "weights";
        let (Some(antennas), Some(Channels::Each(frequencies))) = (&self.antennas, &self.channels)
        else {
            if let (Some(_), Some(Channels::Even { .. })) = (&self.antennas, &self.channels) {
                return Err(self.error(
                    "\"first_channel\" and \"channel_width\": expected \"frequencies\", for weights \
                     have no other number of channels",
                ));
            }
            return Err(self.lacks(&[Field::Antennas, Field::Frequencies], ASKER));
        };
        if self.pointings.is_none() && more.is_empty() {
            return Err(self.lacks(&[Field::Pointings], ASKER));
        }
        let pointings: Vec<_> = self.pointings.iter().flatten().chain(more).collect();
        for (what, found) in [
            ("dishes", antennas.len()),
            ("frequencies", frequencies.len()),
            ("pointings", pointings.len()),
        ] {
            if found == 0 {
                return Err(self.error(format_args!("0 {what}: expected at least 1")));
            }
        }
        if polarisations == 0 {
            return Err(Error::invalid("0 polarisations: expected at least 1"));
        }
        let positions: Vec<_> = antennas.iter().map(|antenna| antenna.position).collect();
        let directions: Result<Vec<_>> = pointings.into_iter().map(Pointing::direction).collect();
        weights(delays(&positions, &directions?).view(), frequencies, polarisations)
    }
}

/// Where a beam points.
///
/// ```
/// use corrust_host::beamform::Pointing;
///
/// // Azimuth and altitude: 90 degrees from north is east.
/// let [east, north, up] = "90,0".parse::<Pointing>()?.direction()?;
/// assert!((east - 1.0).abs() < 1e-12 && north.abs() < 1e-12 && up.abs() < 1e-12);
/// assert_eq!("0,3,4".parse::<Pointing>()?.direction()?, [0.0, 0.6, 0.8]);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Pointing {
    /// Towards east, north and up; of any length but 0.
    Direction([f64; 3]),
    /// Azimuth, from north through east, and altitude, in degrees.
    Horizontal([f64; 2]),
}

impl Pointing {
    /// The unit vector east, north, up.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a coordinate is not a finite number, or the length is 0.
    pub fn direction(&self) -> Result<[f64; 3]> {
        match *self {
            Self::Direction(direction) => {
                let length = direction.iter().map(|part| part * part).sum::<f64>().sqrt();
                if length == 0.0 || !length.is_finite() {
                    return Err(Error::invalid(format!(
                        "pointing {direction:?}: expected numbers east, north and up, not all 0"
                    )));
                }
                Ok(direction.map(|part| part / length))
            }
            Self::Horizontal([azimuth, altitude]) => {
                if !azimuth.is_finite() || !altitude.is_finite() {
                    return Err(Error::invalid(format!(
                        "pointing [{azimuth}, {altitude}]: expected azimuth and altitude in degrees"
                    )));
                }
                let (east, north) = azimuth.to_radians().sin_cos();
                let (up, level) = altitude.to_radians().sin_cos();
                Ok([level * east, level * north, up])
            }
        }
    }
}

impl FromStr for Pointing {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers: Option<Vec<f64>> =
            text.split(',').map(|number| number.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[azimuth, altitude]) => Ok(Self::Horizontal([azimuth, altitude])),
            Some(&[east, north, up]) => Ok(Self::Direction([east, north, up])),
            _ => Err(Error::invalid(format!(
                "pointing {text:?}: expected east,north,up or azimuth,altitude"
            ))),
        }
    }
}

/// The shift at which noise that the dishes do not share has about the same level in the beams as in
/// the voltages: [`weights`] make it `127 sqrt(D)` times as large.
pub fn noise_shift(dishes: usize) -> u32 {
    let bits = (MAGNITUDE * (dishes.max(1) as f64).sqrt()).log2();
    (bits.round() as u32).min(MAX_SHIFT)
}

/// Delays `[beam][dish]` in seconds of plane waves from `directions` (unit vectors towards the
/// sources) at dishes at `positions` (metres, same axes), after the origin.
///
/// ```
/// use corrust_host::beamform::{SPEED_OF_LIGHT, delays};
///
/// // A dish one light-second east of the origin hears the east one second early.
/// let delays = delays(&[[SPEED_OF_LIGHT, 0.0, 0.0]], &[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]);
/// assert_eq!(delays[[0, 0]], -1.0);
/// assert_eq!(delays[[1, 0]], 0.0);
/// ```
pub fn delays(positions: &[[f64; 3]], directions: &[[f64; 3]]) -> Array2<f64> {
    Array2::from_shape_fn((directions.len(), positions.len()), |(beam, dish)| {
        let (r, n) = (positions[dish], directions[beam]);
        -(r[0] * n[0] + r[1] * n[1] + r[2] * n[2]) / SPEED_OF_LIGHT
    })
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
/// use corrust_host::{Beamformer, Device, beamform::{delays, weights}};
///
/// // Four dishes 6 m apart along east; two beams at 600 MHz: the zenith, and 10 degrees east.
/// let dishes: Vec<[f64; 3]> = (0..4).map(|d| [6.0 * f64::from(d), 0.0, 0.0]).collect();
/// let (sin, cos) = 10f64.to_radians().sin_cos();
/// let weights =
///     weights(delays(&dishes, &[[0.0, 0.0, 1.0], [sin, 0.0, cos]]).view(), &[600e6], 1)?;
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
