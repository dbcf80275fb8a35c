//! Shapes of a beamformer and the checks on them.

use crate::{
    channelise::shape::SpectrumEncoding,
    error::{Error, Result},
    sample::Encoding,
};

/// The most dishes of any voltages, and those whose sums of `ci4` are exact: a component of `A * E` is at
/// most `2 * 128 * 8` in magnitude, and the sum of 2^19 of them and half of 2^31, which rounding adds, would
/// not fit in 32 bits.
pub const MAX_DISHES: usize = (1 << 19) - 1;

/// The most dishes whose sums of `ci8` are exact: a component of `A * E` is at most `2 * 128 * 128`.
pub const MAX_DISHES_CI8: usize = (1 << 15) - 1;

/// The largest shift.
pub const MAX_SHIFT: u32 = 31;

/// Axes and encodings of a beamformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `D`: dishes, 1 to [`MAX_DISHES`], of `ci8` to [`MAX_DISHES_CI8`].
    pub dishes: usize,
    /// `B`: beams formed of every channel and polarisation.
    pub beams: usize,
    /// `F`: frequency channels.
    pub channels: usize,
    /// `P`: polarisations, each beamformed by itself.
    pub polarisations: usize,
    /// Voltages: `ci4`, `ci8` or `cf16`.
    pub encoding: Encoding,
    /// Samples of beams: any.
    pub output: SpectrumEncoding,
}

impl Shape {
    /// Checks that the shape can be beamformed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for voltages of another encoding, when an axis is empty, there are more dishes than
    /// 32-bit sums allow, or the weights cannot be addressed.
    pub fn check(&self) -> Result<()> {
        let Self { dishes, beams, channels, polarisations, encoding, .. } = *self;
        let most = match encoding {
            Encoding::Ci4 | Encoding::Cf16 => MAX_DISHES,
            Encoding::Ci8 => MAX_DISHES_CI8,
            _ => {
                return Err(Error::invalid(format!(
                    "voltages of {encoding}: expected ci4, ci8 or cf16"
                )));
            }
        };
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
        if dishes > most {
            return Err(Error::invalid(format!(
                "{dishes} dishes: expected at most {most} of {encoding} voltages, beyond which 32-bit \
                 sums could overflow"
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

    /// Bytes of voltages of one time, `F * P * D` of them.
    pub const fn bytes_per_time(&self) -> usize {
        self.streams() * self.row_bytes()
    }

    /// Bytes of the voltages of one time, channel and polarisation.
    pub(super) const fn row_bytes(&self) -> usize {
        self.dishes * self.encoding.bytes()
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
