//! Shapes of channelised voltages, of raw voltages, and of counts.

use std::fmt;

use crate::{
    error::{Error, Result},
    layout::Layout,
    sample::Encoding,
    samples::raw::{RawEncoding, RawLayout},
};

/// Shape of channelised voltages: inputs, channels, encoding and order of the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `N`: digitised signal paths (antenna x polarisation).
    pub inputs: usize,
    /// `C`: frequency channels.
    pub channels: usize,
    /// Encoding of a sample.
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

    /// Bytes of one time sample of every channel and input; of `b1` and `b2` of one word of 128.
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

    /// Bytes of `times` time samples.
    pub fn bytes(&self, times: usize) -> usize {
        times.div_ceil(self.encoding.times()).saturating_mul(self.bytes_per_time())
    }

    /// Number of time samples in `bytes` bytes.
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
        Ok(bytes / step * self.encoding.times())
    }
}

/// Shape of raw voltages: inputs, encoding and order of the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawShape {
    /// `N`: digitised signal paths.
    pub inputs: usize,
    /// Encoding of a sample.
    pub encoding: RawEncoding,
    /// Order of the axes of a block.
    pub layout: RawLayout,
}

impl RawShape {
    /// Bytes from one input's samples (`nt`) of a block of `times` times to the next, or from one time's
    /// (`tn`).
    pub const fn pitch(&self, times: usize) -> usize {
        match self.layout {
            RawLayout::Nt => self.encoding.bytes(times),
            RawLayout::Tn => self.encoding.bytes(self.inputs),
        }
    }

    /// Bytes of a block of `times` times.
    pub const fn bytes(&self, times: usize) -> usize {
        let rows = match self.layout {
            RawLayout::Nt => self.inputs,
            RawLayout::Tn => times,
        };
        rows * self.pitch(times)
    }
}

impl fmt::Display for RawShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} inputs of {}", self.inputs, self.encoding)
    }
}

/// Shape of counts of photons, `[instant][sensor]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountShape {
    /// Sensors of an instant.
    pub sensors: usize,
    /// Whether a count has two bytes, the low one first, instead of one.
    pub wide: bool,
}

impl CountShape {
    /// Bytes of the counts of an instant.
    pub const fn bytes(&self) -> usize {
        self.sensors * if self.wide { 2 } else { 1 }
    }
}
