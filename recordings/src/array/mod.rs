//! Arrays and the sky: the array file, times, directions, and delays of inputs that change with time.
//!
//! The delay `d_i(t)` of input `i` is inserted, in seconds: `x_i'(t) = x_i(t - d_i(t))`. An input that
//! a wave reaches early has a positive delay. The delays of a [`Geometric`] model make a source at its phase centre
//! arrive everywhere at once, as at the array's location; where Earth turns, so that delays change, the
//! fringes stop.
//!
//! `t` counts seconds from the recording's start. [`Polynomials`] are what a file holds, and quick to
//! evaluate; a [`Geometric`] model makes [`Polynomials`] of any accuracy.

pub mod file;
pub mod geometric;
pub mod pointing;
pub mod polynomials;
#[cfg(feature = "hdf5")]
pub(crate) mod sky;
pub mod stokes;
pub(crate) mod tai;
pub mod time;
pub(crate) mod weights;

pub use geometric::{EarthOrientation, Geometric};
pub use pointing::{Pointing, SPEED_OF_LIGHT, delays};
pub use polynomials::{Polynomial, Polynomials};
pub use weights::Targets;

/// Largest relative difference of two numbers that say the same.
pub(crate) const TOLERANCE: f64 = 1e-9;
