//! Number and brightness.

use corrust_host::{Error, Result, device};
use ndarray::Array3;

use super::{check, pixels};

/// A detector: a photon gives `gain` counts on average on top of `offset`, with noise of the readout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detector {
    /// Counts of a photon; 1 of a detector that counts photons.
    pub gain: f64,
    /// Counts without light.
    pub offset: f64,
    /// Variance of the counts without light.
    pub variance: f64,
}

/// A detector that counts photons.
impl Default for Detector {
    fn default() -> Self {
        Self { gain: 1.0, offset: 0.0, variance: 0.0 }
    }
}

impl Detector {
    /// Checks that its facts are numbers, the gain positive and the variance not negative.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn check(&self) -> Result<()> {
        let Self { gain, offset, variance } = *self;
        let fits = gain > 0.0 && variance >= 0.0;
        if fits && [gain, offset, variance].iter().all(|fact| fact.is_finite()) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a detector of gain {gain}, offset {offset} and variance {variance}: expected numbers, the gain positive, \
             the variance 0 or more"
        )))
    }
}

/// Sums of every pixel over frames.
#[derive(Clone, Debug)]
pub struct Brightness {
    height: usize,
    width: usize,
    frames: u64,
    sums: Vec<u64>,
    squares: Vec<u64>,
}

impl Brightness {
    /// Starts without frames.
    ///
    /// # Errors
    /// [`Error::Invalid`] for frames without pixels or of more than [`MOST_PIXELS`](super::MOST_PIXELS);
    /// [`Error::OutOfMemory`].
    pub fn new(height: usize, width: usize) -> Result<Self> {
        let pixels = pixels(height, width)?;
        let (sums, squares) = (device::zeros(pixels)?, device::zeros(pixels)?);
        Ok(Self { height, width, frames: 0, sums, squares })
    }

    /// Adds a frame, `[row][column]`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a frame of another size, and beyond 2^32 - 1 frames.
    pub fn add(&mut self, frame: &[u16]) -> Result<()> {
        check(frame, self.sums.len())?;
        if self.frames == u64::from(u32::MAX) {
            return Err(Error::invalid("2^32 frames: expected fewer, whose squares 64 bits hold"));
        }
        self.frames += 1;
        for ((sum, square), &count) in self.sums.iter_mut().zip(&mut self.squares).zip(frame) {
            *sum += u64::from(count);
            *square += u64::from(count) * u64::from(count);
        }
        Ok(())
    }

    /// Number of frames.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Mean and variance (by the number of frames less 1) of a pixel's counts; NaN of too few frames.
    ///
    /// # Panics
    /// When there is no such pixel.
    pub fn moments(&self, row: usize, column: usize) -> [f64; 2] {
        assert!(row < self.height && column < self.width, "a pixel of the frame");
        let place = row * self.width + column;
        let [sum, square, frames] =
            [self.sums[place], self.squares[place], self.frames].map(u128::from);
        let spread = (frames * square - sum * sum) as f64;
        let frames = self.frames as f64;
        let variance = if self.frames < 2 { f64::NAN } else { spread / (frames * (frames - 1.0)) };
        [sum as f64 / frames, variance]
    }

    /// Maps `[row][column][mean, variance, number, brightness]`.
    ///
    /// With the photons `m = (mean - offset) / gain` and the spread of molecules
    /// `s = (variance - detector's variance) / gain^2 - m`, the number of molecules is `m^2 / s` and the brightness, in photons of a
    /// molecule and frame, `s / m`. Pixels that vary no more than light does have a brightness of 0 or below; number and brightness
    /// of pixels without light are NaN or infinite.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a detector whose [`check`](Detector::check) fails.
    pub fn maps(&self, detector: &Detector) -> Result<Array3<f64>> {
        detector.check()?;
        let Detector { gain, offset, variance: dark } = *detector;
        let mut maps = Array3::zeros((self.height, self.width, 4));
        for ((row, column), mut pixel) in
            ndarray::indices((self.height, self.width)).into_iter().zip(maps.rows_mut())
        {
            let [mean, variance] = self.moments(row, column);
            let photons = (mean - offset) / gain;
            let spread = (variance - dark) / (gain * gain) - photons;
            let found = [mean, variance, photons * photons / spread, spread / photons];
            pixel.iter_mut().zip(found).for_each(|(place, value)| *place = value);
        }
        Ok(maps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_that_does_not_vary_has_no_brightness() {
        let mut maps = Brightness::new(1, 1).unwrap();
        for count in [8, 8, 8, 8] {
            maps.add(&[count]).unwrap();
        }
        let found = maps.maps(&Detector::default()).unwrap();
        assert_eq!(found.as_slice().unwrap(), [8.0, 0.0, -8.0, -1.0]);
    }

    #[test]
    fn the_detector_is_taken_out() {
        // Photons 2 and 6 of a detector that makes 10 n + 100 of them.
        let mut maps = Brightness::new(1, 1).unwrap();
        for photons in [2, 6, 2, 6, 2, 6, 2, 6] {
            maps.add(&[10 * photons + 100]).unwrap();
        }
        let detector = Detector { gain: 10.0, offset: 100.0, variance: 0.0 };
        let found = maps.maps(&detector).unwrap();
        let spread = 4.0 * 8.0 / 7.0 - 4.0;
        let expected = [140.0, 400.0 * 8.0 / 7.0, 16.0 / spread, spread / 4.0];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9 * expected, "{found} {expected}");
        }
        assert!(maps.maps(&Detector { gain: 0.0, ..detector }).is_err());
    }

    #[test]
    fn sums_are_exact_at_the_largest_counts() {
        let mut maps = Brightness::new(1, 2).unwrap();
        for _ in 0..1000 {
            maps.add(&[u16::MAX, 1]).unwrap();
        }
        assert_eq!(maps.moments(0, 0), [65535.0, 0.0]);
        assert_eq!(maps.moments(0, 1), [1.0, 0.0]);
        assert!(maps.add(&[1]).is_err());
    }
}
