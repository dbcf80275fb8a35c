//! Directions of beams, and the delays of plane waves from there.

use std::str::FromStr;

use corrust_host::{Error, Result};
use ndarray::Array2;
use serde::{Deserialize, Serialize};

/// Metres per second.
pub const SPEED_OF_LIGHT: f64 = 299_792_458.0;

/// Direction of a beam.
///
/// ```
/// use corrust_recordings::array::Pointing;
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

/// Delays `[beam][dish]` in seconds of plane waves from `directions` (unit vectors towards the
/// sources) at dishes at `positions` (metres, same axes), after the origin.
///
/// ```
/// use corrust_recordings::array::{SPEED_OF_LIGHT, delays};
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
