//! Shapes of a correlation and the checks on them.

use crate::{Encoding, Error, Layout, Result};

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

/// What is correlated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `N`: digitised signal paths (antenna x polarisation).
    pub inputs: usize,
    /// `C`: frequency channels.
    pub channels: usize,
    /// How a sample is stored.
    pub encoding: Encoding,
    /// Order of the axes.
    pub layout: Layout,
}

impl Shape {
    /// Checks that the shape can be correlated.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `inputs` or `channels` is zero, the visibilities cannot be addressed, or
    /// bits are to be in another layout than `cnt`.
    pub fn check(&self) -> Result<()> {
        if self.inputs == 0 {
            return Err(Error::invalid("0 inputs: a correlation needs at least 1"));
        }
        if self.channels == 0 {
            return Err(Error::invalid("0 channels: a correlation needs at least 1"));
        }
        if self.encoding.is_bits() && self.layout != Layout::Cnt {
            return Err(Error::invalid(format!(
                "layout {} of {} samples: expected cnt, as their words lie along time",
                self.layout, self.encoding
            )));
        }
        let inputs = self.inputs as u128 * self.encoding.planes() as u128;
        let addressable = (inputs + 1)
            .checked_mul(inputs)
            .and_then(|products| products.checked_mul(self.channels as u128 * 8))
            .is_some_and(|bytes| bytes <= isize::MAX as u128);
        if !addressable {
            return Err(Error::invalid(format!(
                "{} inputs and {} channels: the visibilities cannot be addressed",
                self.inputs, self.channels
            )));
        }
        Ok(())
    }

    /// Bytes of one time step, or word of times: every channel and input.
    pub fn bytes_per_time(&self) -> usize {
        self.rows() * self.channels * self.encoding.bytes()
    }

    /// Rows of samples of a channel: one for each input, or for each of its planes.
    pub fn rows(&self) -> usize {
        self.inputs * self.encoding.planes()
    }

    /// The shape whose samples lie in the same way and have one row for each input: bits, of which a plane is an
    /// input.
    pub(crate) fn of_planes(&self) -> Self {
        match self.encoding {
            Encoding::B2 => Self { inputs: self.rows(), encoding: Encoding::B1, ..*self },
            _ => *self,
        }
    }

    /// Number of time samples, or words of them, in `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `bytes` is not a whole number of time steps.
    pub fn times(&self, bytes: usize) -> Result<usize> {
        let step = self.bytes_per_time();
        if !bytes.is_multiple_of(step) {
            return Err(Error::invalid(format!(
                "{bytes} bytes of samples: expected a multiple of {step} ({} channels x {} inputs x \
                 {} bytes)",
                self.channels,
                self.rows(),
                self.encoding.bytes()
            )));
        }
        Ok(bytes / step)
    }
}
