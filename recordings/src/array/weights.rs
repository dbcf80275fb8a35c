//! Weights that point beams, from the coordinates of an array.

use corrust_host::{Error, Result, beamform::weights};
use ndarray::Array5;

use super::{
    file::{Array, Channels, Field},
    pointing::{Pointing, delays},
};

impl Array {
    /// The [`weights`] `[F][P][B][D][re, im]` that point beams at the array's pointings, and at `more`.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Invalid`] when the array lacks antennas, frequencies or pointings;
    /// [`Error::Invalid`] for 0 polarisations, coordinates that are not finite numbers, or a direction of
    /// length 0; [`Error::OutOfMemory`].
    ///
    /// ```
    /// use corrust_recordings::formats::array::Array;
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
