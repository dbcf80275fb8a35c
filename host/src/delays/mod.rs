//! Delays of inputs that change with time.
//!
//! The delay `d_i(t)` of input `i` is what is put in, in seconds: `x_i'(t) = x_i(t - d_i(t))`. An input that
//! hears a source early has a positive delay. Those of a [`Geometric`] model make a source at its phase centre
//! arrive everywhere at once, as at the array's location; where Earth turns, so that delays change, the
//! fringes stop.
//!
//! `t` counts seconds from the recording's start. [`Polynomials`] are what a file holds, and quick to
//! evaluate; a [`Geometric`] model makes [`Polynomials`] of any accuracy.

mod geometric;
mod moment;
mod polynomials;

pub use geometric::{EarthOrientation, Geometric};
pub use polynomials::{Piece, Polynomials};

/// Delays of inputs at any time.
pub trait DelayModel: Send + Sync {
    /// The delay of an input, in seconds, `seconds` after the recording's start; [`None`] where the model
    /// does not reach, or has no such input.
    fn delay(&self, input: usize, seconds: f64) -> Option<f64>;

    /// Seconds that no delay of an input is longer than, either way; infinite where nobody knows.
    fn longest(&self, _input: usize) -> f64 {
        f64::INFINITY
    }
}
