//! Weights that point beams, from the coordinates of an array.

use corrust_host::{Error, Result, beamform::weights, channelise::DelayModel};
use ndarray::{Array1, Array5, ArrayView1, Axis};

use super::{
    file::{Array, Channels, Field, PhaseCenter},
    geometric::Geometric,
    pointing::{Pointing, delays},
    time::Timestamp,
};

/// Beams that [weights](Array::weights) point, besides those of the array's pointings.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// Directions.
    pub pointings: Vec<Pointing>,
    /// Sources among the stars, after the directions: right ascension and declination in degrees, ICRS.
    pub sources: Vec<[f64; 2]>,
    /// Moment at which sources are pointed at; by default the array's start.
    pub at: Option<Timestamp>,
    /// Whether voltages have been delayed to the array's phase centre: weights point from there, and are all equal towards
    /// it. Without any beam there is one towards it.
    pub delayed: bool,
    /// Number of channels, of an array that has the first channel and their width.
    pub channels: Option<usize>,
}

impl Array {
    /// The [`weights`] `[F][P][B][D][re, im]` that point beams at the array's pointings, and at `targets`.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Invalid`] when the array lacks antennas, frequencies or pointings, or for sources its location
    /// or the moment; [`Error::Invalid`] for 0 polarisations, coordinates that are not finite numbers, a direction of
    /// length 0, or a moment before 1900 or after 2099; [`Error::OutOfMemory`].
    ///
    /// ```
    /// use corrust_recordings::{array::Targets, formats::array::Array};
    ///
    /// let array = Array::parse(
    ///     r#"{
    ///         "location": {"latitude": 19.1, "longitude": 74.05, "altitude": 650},
    ///         "positions": [[0, 0, 0], [6.3, 0, 0], [0, 8.5, 0]],
    ///         "frequencies": [4.0e8, 6.0e8],
    ///         "pointings": [[0, 0, 1], [180, 45]],
    ///         "start": "2026-03-20T14:46:00Z",
    ///         "phase_center": {"name": "3C 196", "ra": 123.4, "dec": 48.2}
    ///     }"#,
    /// )?;
    /// assert_eq!(array.weights(1, &Targets::default())?.dim(), (2, 1, 2, 3, 2));
    /// // Voltages that are delayed to the source are in phase already.
    /// let targets = Targets { sources: vec![[123.4, 48.2]], delayed: true, ..Targets::default() };
    /// assert_eq!(array.weights(1, &targets)?[[1, 0, 2, 2, 0]], 127);
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    pub fn weights(&self, polarisations: usize, targets: &Targets) -> Result<Array5<i8>> {
        let Targets { pointings: more, sources, at, delayed, channels } = targets;
        let (Some(antennas), Some(listed)) = (&self.antennas, &self.channels) else {
            return Err(self.lacks(&[Field::Antennas, Field::Frequencies], "weights"));
        };
        let frequencies = match (listed, channels) {
            (Channels::Each(each), None) => each.clone(),
            (_, Some(channels)) => self.frequencies(*channels)?,
            (Channels::Even { .. }, None) => {
                return Err(Error::setting(
                    "channels",
                    None,
                    "\"first_channel\" and \"channel_width\" are of any number of channels: expected how many",
                ));
            }
        };
        let pointings: Vec<_> = self.pointings.iter().flatten().chain(more).collect();
        let is_central = *delayed && pointings.is_empty() && sources.is_empty();
        if self.pointings.is_none() && more.is_empty() && sources.is_empty() && !delayed {
            return Err(self.lacks(&[Field::Pointings], "weights"));
        }
        for (what, found) in [
            ("dishes", antennas.len()),
            ("frequencies", frequencies.len()),
            ("pointings", pointings.len() + sources.len() + usize::from(is_central)),
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
        let mut delays = delays(&positions, &directions?);
        let mut add = |delays_of: &Array1<f64>| {
            delays.push_row(ArrayView1::from(delays_of)).expect("a delay for each antenna");
        };
        for &[ra, dec] in sources {
            add(&self.lateness(Some(PhaseCenter { name: String::new(), ra, dec }), *at)?);
        }
        if *delayed {
            let center = self.lateness(self.phase_center.clone(), *at)?;
            if is_central {
                add(&center);
            }
            delays -= &center.insert_axis(Axis(0));
        }
        weights(delays.view(), &frequencies, polarisations)
    }

    /// Seconds by which each antenna receives a source later than the array's location, at a moment.
    fn lateness(&self, source: Option<PhaseCenter>, at: Option<Timestamp>) -> Result<Array1<f64>> {
        let antennas = self.antennas.as_ref().map_or(0, Vec::len);
        // An input of each antenna.
        let array = Self { phase_center: source, inputs: None, ..self.clone() };
        let model = Geometric::of(&array, antennas, at)?;
        let of = |antenna| model.delay(antenna, 0.0).map(|delay| -delay);
        let delays: Option<Array1<f64>> = (0..antennas).map(of).collect();
        delays.ok_or_else(|| self.error("the time: expected one of 1900 to 2099"))
    }
}
