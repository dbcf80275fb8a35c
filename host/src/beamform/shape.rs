//! Shapes of a beamformer and the checks on them.

use crate::error::{Error, Result};

/// The most dishes whose sums are exact: a component of `A * E` is at most `2 * 128 * 8` in
/// magnitude, and the sum of 2^19 of them and half of 2^31, which rounding adds, would not fit in 32
/// bits.
pub const MAX_DISHES: usize = (1 << 19) - 1;

/// The largest shift.
pub const MAX_SHIFT: u32 = 31;

/// What is beamformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `D`: dishes, 1 to [`MAX_DISHES`].
    pub dishes: usize,
    /// `B`: beams formed of every channel and polarisation.
    pub beams: usize,
    /// `F`: frequency channels.
    pub channels: usize,
    /// `P`: polarisations, each beamformed by itself.
    pub polarisations: usize,
}

impl Shape {
    /// Checks that the shape can be beamformed.
    ///
    /// # Errors
    /// [`Error::Invalid`] when an axis is empty, there are more dishes than 32-bit sums allow, or
    /// the weights cannot be addressed.
    pub fn check(&self) -> Result<()> {
        let Self { dishes, beams, channels, polarisations } = *self;
        for (name, size) in [
            ("dishes", dishes),
            ("beams", beams),
            ("channels", channels),
            ("polarisations", polarisations),
        ] {
            if size == 0 {
                return Err(Error::invalid(format!("0 {name}: a beamformer needs at least 1")));
            }
        }
        if dishes > MAX_DISHES {
            return Err(Error::invalid(format!(
                "{dishes} dishes: expected at most {MAX_DISHES}, beyond which 32-bit sums could \
                 overflow"
            )));
        }
        // Unpacked, a weight takes 8 bytes; padding at most multiplies by 16 * 256.
        let addressable = [dishes, beams, channels, polarisations, 8 * 16 * 256]
            .into_iter()
            .try_fold(1usize, |product, size| product.checked_mul(size))
            .is_some_and(|bytes| bytes <= isize::MAX as usize);
        if !addressable {
            return Err(Error::invalid(format!(
                "{dishes} dishes, {beams} beams, {channels} channels and {polarisations} \
                 polarisations: their weights cannot be addressed"
            )));
        }
        Ok(())
    }

    /// Pairs of a channel and a polarisation: `F * P`.
    pub const fn streams(&self) -> usize {
        self.channels * self.polarisations
    }

    /// Number of weights: `F * P * B * D`.
    pub const fn weights(&self) -> usize {
        self.streams() * self.beams * self.dishes
    }

    /// Number of shifts: `F * P * B`.
    pub const fn shifts(&self) -> usize {
        self.streams() * self.beams
    }

    /// Bytes of voltages of one time: `F * P * D`.
    pub const fn bytes_per_time(&self) -> usize {
        self.streams() * self.dishes
    }

    /// Times in `bytes` bytes of voltages.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they are not a whole number of times.
    pub fn times(&self, bytes: usize) -> Result<usize> {
        let step = self.bytes_per_time();
        if !bytes.is_multiple_of(step) {
            return Err(Error::invalid(format!(
                "{bytes} bytes of voltages: expected a multiple of {step}, which is one time of {} \
                 channels, {} polarisations and {} dishes",
                self.channels, self.polarisations, self.dishes
            )));
        }
        Ok(bytes / step)
    }
}

/// Useful operations of a beamformer: `8 * B * D * P * F * T`. Redundant work, padding and address
/// arithmetic never count.
pub fn useful_operations(shape: &Shape, times: u64) -> f64 {
    8.0 * shape.weights() as f64 * times as f64
}
