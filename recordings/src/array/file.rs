//! The array file: where antennas are, what the inputs, channels and times of a recording are, in JSON.
//!
//! `simulate` writes it beside a recording. All of it is optional until something asks for it.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use corrust_host::{Error, Result, device::room, text::read_text};
use serde::{Deserialize, Serialize};

use super::{
    TOLERANCE,
    pointing::Pointing,
    time::{Timestamp, parse_moment},
};

/// Largest difference of two frequencies that say the same, in widths of a channel: headers round.
pub(crate) const ROUNDED: f64 = 0.01;

/// Description of an array and of a recording made with it.
///
/// ```
/// use corrust_recordings::formats::array::{Array, Polarisation};
///
/// let array = Array::parse(
///     r#"{
///         "telescope": "example",
///         "location": {"latitude": -30.7, "longitude": 21.4, "altitude": 1050},
///         "antennas": [{"name": "m0", "position": [0, 0, 0]}, {"name": "m1", "position": [29, 0, 0]}],
///         "inputs": [[0, "X"], [1, "X"], [0, "Y"], [1, "Y"]],
///         "first_channel": 100e6, "channel_width": 1e5,
///         "start": "2026-03-01T00:00:00Z", "sample_time": 1e-5
///     }"#,
/// )?;
/// assert_eq!(array.frequencies(2)?, [100e6, 100.1e6]);
/// assert_eq!(array.inputs(4)?[2].polarisation, Polarisation::Y);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(into = "Fields")]
pub struct Array {
    /// Name of the telescope.
    pub telescope: Option<String>,
    /// Name of the instrument.
    pub instrument: Option<String>,
    /// Place on the Earth of the origin of the antennas' positions.
    pub location: Option<Location>,
    /// The antennas.
    pub antennas: Option<Vec<Antenna>>,
    /// Antenna and polarisation of each input, in the recording's order; [`Array::inputs`] fills in the default.
    pub inputs: Option<Vec<Input>>,
    /// The channels; [`Array::frequencies`] gives their frequencies.
    pub channels: Option<Channels>,
    /// Start of the recording's first time, UTC.
    pub start: Option<Timestamp>,
    /// Seconds from one time to the next.
    pub sample_time: Option<f64>,
    /// Phase centre of the visibilities.
    pub phase_center: Option<PhaseCenter>,
    /// Name of the recording's source where its direction is not known; no field of the file.
    pub source: Option<String>,
    /// UT1 - UTC in seconds, as the IERS publishes it.
    pub dut1: Option<f64>,
    /// x and y of Earth's pole in arc seconds, as the IERS publishes them.
    pub polar_motion: Option<[f64; 2]>,
    /// Directions of the beams.
    pub pointings: Option<Vec<Pointing>>,
    /// The file that it comes from, which errors name.
    pub path: Option<PathBuf>,
}

/// A place on the Earth, WGS84.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Location {
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
    /// Metres above the ellipsoid.
    pub altitude: f64,
}

/// One antenna.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Antenna {
    /// Its name; its number where the file has none.
    pub name: String,
    /// Its number; where the file has none, its place in the list, from 0.
    pub number: u32,
    /// Metres east, north and up of the array's location.
    pub position: [f64; 3],
}

/// One input: a polarisation of an antenna.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "(usize, Polarisation)", into = "(usize, Polarisation)")]
pub struct Input {
    /// The antenna's place in the list, from 0.
    pub antenna: usize,
    /// Polarisation that its feed receives.
    pub polarisation: Polarisation,
}

/// Polarisation that a feed receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Polarisation {
    /// Linear, the first.
    X,
    /// Linear, the second.
    Y,
    /// Right-hand circular.
    R,
    /// Left-hand circular.
    L,
}

/// Frequencies of channels.
#[derive(Clone, Debug, PartialEq)]
pub enum Channels {
    /// Each one's, hertz.
    Each(Vec<f64>),
    /// The first one's and the step to the next, hertz: of any number of channels.
    Even {
        /// Frequency of the first channel.
        first: f64,
        /// From one channel to the next.
        width: f64,
    },
}

/// A direction that visibilities are phased to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseCenter {
    /// Its name.
    pub name: String,
    /// Right ascension, degrees, ICRS.
    pub ra: f64,
    /// Declination, degrees, ICRS.
    pub dec: f64,
}

/// A field of an array file, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the fields of Array")]
pub enum Field {
    Telescope,
    Instrument,
    Location,
    Antennas,
    Inputs,
    Frequencies,
    Start,
    SampleTime,
    PhaseCenter,
    Pointings,
}

impl Field {
    const fn name(self) -> &'static str {
        match self {
            Self::Telescope => "\"telescope\"",
            Self::Instrument => "\"instrument\"",
            Self::Location => "\"location\"",
            Self::Antennas => "\"antennas\"",
            Self::Inputs => "\"inputs\"",
            Self::Frequencies => "\"frequencies\"",
            Self::Start => "\"start\"",
            Self::SampleTime => "\"sample_time\"",
            Self::PhaseCenter => "\"phase_center\"",
            Self::Pointings => "\"pointings\"",
        }
    }
}

impl Array {
    /// Reads an array file: a JSON object with the fields of this struct; other fields are ignored.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read; [`Error::File`] when it is no such object, or
    /// contradicts itself.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = read_text(path)?;
        let mut array = Self::of_text(&text).map_err(|reason| Error::file(path, reason))?;
        array.path = Some(path.to_owned());
        Ok(array)
    }

    /// The array that `text` describes, as of a file.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is no JSON object of an array, or contradicts itself.
    pub fn parse(text: &str) -> Result<Self> {
        Self::of_text(text).map_err(|reason| Error::invalid(format!("array: {reason}")))
    }

    fn of_text(text: &str) -> Result<Self, String> {
        let fields: Fields = serde_json::from_str(text).map_err(|error| {
            format!(
                "{error}: expected JSON with \"positions\" [[east, north, up], ...] or \"antennas\" \
                 [{{\"name\", \"number\", \"position\"}}, ...], \"inputs\" [[antenna, \"X\"], ...], \
                 \"frequencies\" [hertz, ...], \"pointings\" [[east, north, up] or [azimuth, altitude], \
                 ...] and others, as the book's page on layouts and files says"
            )
        })?;
        fields.check()
    }

    /// An error about the array.
    pub fn error(&self, reason: impl fmt::Display) -> Error {
        match &self.path {
            Some(path) => Error::file(path, reason.to_string()),
            None => Error::invalid(format!("array: {reason}")),
        }
    }

    /// Error that names those of `fields` that are lacking, and the `asker` that needs them.
    pub fn lacks(&self, fields: &[Field], asker: &str) -> Error {
        let lacking: Vec<_> =
            fields.iter().filter(|&&field| !self.has(field)).map(|field| field.name()).collect();
        self.error(format_args!("lacks {}: expected them for {asker}", lacking.join(", ")))
    }

    fn has(&self, field: Field) -> bool {
        match field {
            Field::Telescope => self.telescope.is_some(),
            Field::Instrument => self.instrument.is_some(),
            Field::Location => self.location.is_some(),
            Field::Antennas => self.antennas.is_some(),
            Field::Inputs => self.inputs.is_some(),
            Field::Frequencies => self.channels.is_some(),
            Field::Start => self.start.is_some(),
            Field::SampleTime => self.sample_time.is_some(),
            Field::PhaseCenter => self.phase_center.is_some(),
            Field::Pointings => self.pointings.is_some(),
        }
    }

    /// Antenna and polarisation of each of `inputs` inputs. By default they are the antennas, or the
    /// antennas' polarisations X and Y, the polarisation quickest.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Invalid`] when there are others than the array has.
    pub fn inputs(&self, inputs: usize) -> Result<Vec<Input>> {
        if let Some(listed) = &self.inputs {
            if listed.len() != inputs {
                return Err(self.error(format_args!(
                    "{} \"inputs\": expected {inputs}, as the recording has",
                    listed.len()
                )));
            }
            return Ok(listed.clone());
        }
        let Some(antennas) = &self.antennas else {
            return Err(self.lacks(&[Field::Antennas, Field::Inputs], "what the inputs are"));
        };
        let antennas = antennas.len();
        let polarisations = match inputs {
            _ if inputs == antennas => 1,
            _ if inputs == 2 * antennas => 2,
            _ => {
                return Err(self.error(format_args!(
                    "{antennas} \"antennas\" and no \"inputs\": expected as many antennas as the \
                     recording has inputs, {inputs}, or half as many"
                )));
            }
        };
        let input = |index| Input {
            antenna: index / polarisations,
            polarisation: [Polarisation::X, Polarisation::Y][index % polarisations],
        };
        Ok((0..inputs).map(input).collect())
    }

    /// Names of `inputs` inputs: the antenna's name, or its place where it has none, and the polarisation, as in "m003 X"; the
    /// antenna alone where all inputs have one polarisation.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Invalid`] when there are others than the array has.
    pub fn names(&self, inputs: usize) -> Result<Vec<String>> {
        let inputs = self.inputs(inputs)?;
        let alone = inputs.iter().all(|input| input.polarisation == inputs[0].polarisation);
        let name = |input: &Input| {
            let antenna = self.antennas.as_ref().and_then(|antennas| antennas.get(input.antenna));
            let antenna = antenna.map_or_else(|| input.antenna.to_string(), |it| it.name.clone());
            if alone { antenna } else { format!("{antenna} {:?}", input.polarisation) }
        };
        Ok(inputs.iter().map(name).collect())
    }

    /// The array of `channels` channels of which this one has `factor` subchannels each, that ascend around their middles.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Invalid`] when the array has other channels than `channels` times `factor`.
    ///
    /// ```
    /// use corrust_recordings::formats::array::{Array, Channels};
    ///
    /// let array = Array::parse(r#"{"first_channel": 97.0, "channel_width": 2.0}"#)?;
    /// let coarse = array.coarse(10, 4)?;
    /// assert_eq!(coarse.channels, Some(Channels::Even { first: 100.0, width: 8.0 }));
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    pub fn coarse(&self, channels: usize, factor: usize) -> Result<Self> {
        let channels = match &self.channels {
            None => None,
            Some(Channels::Even { first, width }) => Some(Channels::Even {
                first: first + width * (factor as f64 - 1.0) / 2.0,
                width: width * factor as f64,
            }),
            Some(Channels::Each(_)) => {
                let fine = self.frequencies(channels.saturating_mul(factor))?;
                let middle = |of: &[f64]| of.iter().sum::<f64>() / factor as f64;
                Some(Channels::Each(fine.chunks_exact(factor).map(middle).collect()))
            }
        };
        Ok(Self { channels, ..self.clone() })
    }

    /// Frequencies of `channels` channels, hertz.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Invalid`] when the array has none, or those of another number of channels;
    /// [`Error::OutOfMemory`].
    pub fn frequencies(&self, channels: usize) -> Result<Vec<f64>> {
        match &self.channels {
            None => Err(self.lacks(&[Field::Frequencies], "the channels")),
            Some(Channels::Each(each)) if each.len() != channels => Err(self.error(format_args!(
                "{} \"frequencies\": expected {channels}, as the recording has channels",
                each.len()
            ))),
            Some(Channels::Each(each)) => Ok(each.clone()),
            Some(Channels::Even { first, width }) => {
                let mut all = room(channels)?;
                all.extend((0..channels).map(|channel| first + channel as f64 * width));
                Ok(all)
            }
        }
    }
}

impl Channels {
    /// `channels` channels side by side in a band of a centre and a width, hertz, the width negative where
    /// they descend; [`None`] if they make no band.
    pub(crate) fn of_band(centre: f64, band: f64, channels: u64) -> Option<Self> {
        let width = band / channels as f64;
        let first = centre - (band - width) / 2.0;
        (first.is_finite() && width.is_normal()).then_some(Self::Even { first, width })
    }

    /// Hertz from a channel to the next; of the last one, from the one before. [`None`] of a list of one.
    pub fn width(&self, channel: usize) -> Option<f64> {
        match self {
            Self::Even { width, .. } => Some(*width),
            Self::Each(each) => {
                let first = channel.min(each.len().checked_sub(2)?);
                Some(each[first + 1] - each[first])
            }
        }
    }
}

impl From<(usize, Polarisation)> for Input {
    fn from((antenna, polarisation): (usize, Polarisation)) -> Self {
        Self { antenna, polarisation }
    }
}

impl From<Input> for (usize, Polarisation) {
    fn from(input: Input) -> Self {
        (input.antenna, input.polarisation)
    }
}

/// The fields as they stand in the file.
#[derive(Default, Serialize, Deserialize)]
struct Fields {
    #[serde(skip_serializing_if = "Option::is_none")]
    telescope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instrument: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<Location>,
    #[serde(skip_serializing_if = "Option::is_none")]
    antennas: Option<Vec<AntennaFields>>,
    /// The antennas', where they have nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    positions: Option<Vec<[f64; 3]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inputs: Option<Vec<Input>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequencies: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_channel: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_width: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample_time: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase_center: Option<PhaseCenter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dut1: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    polar_motion: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointings: Option<Vec<Pointing>>,
}

#[derive(Serialize, Deserialize)]
struct AntennaFields {
    name: Option<String>,
    number: Option<u32>,
    position: [f64; 3],
}

impl From<Array> for Fields {
    fn from(array: Array) -> Self {
        let fields = |Antenna { name, number, position }| AntennaFields {
            name: Some(name),
            number: Some(number),
            position,
        };
        let (frequencies, first_channel, channel_width) = match array.channels {
            None => (None, None, None),
            Some(Channels::Each(each)) => (Some(each), None, None),
            Some(Channels::Even { first, width }) => (None, Some(first), Some(width)),
        };
        Self {
            telescope: array.telescope,
            instrument: array.instrument,
            location: array.location,
            antennas: array.antennas.map(|all| all.into_iter().map(fields).collect()),
            positions: None,
            inputs: array.inputs,
            frequencies,
            first_channel,
            channel_width,
            start: array.start.map(|start| start.to_string()),
            sample_time: array.sample_time,
            phase_center: array.phase_center,
            dut1: array.dut1,
            polar_motion: array.polar_motion,
            pointings: array.pointings,
        }
    }
}

impl Fields {
    /// The array that they describe, or what is wrong with it.
    fn check(self) -> Result<Array, String> {
        if let Some(Location { latitude, longitude, .. }) = self.location {
            within("\"location\": latitude", latitude, -90.0, 90.0)?;
            within("\"location\": longitude", longitude, -360.0, 360.0)?;
        }
        if let Some(PhaseCenter { ra, dec, .. }) = self.phase_center {
            within("\"phase_center\": ra", ra, -360.0, 360.0)?;
            within("\"phase_center\": dec", dec, -90.0, 90.0)?;
        }
        if let Some(seconds) = self.sample_time
            && seconds <= 0.0
        {
            return Err(format!("\"sample_time\" {seconds}: expected more than 0 seconds"));
        }
        if let Some(dut1) = self.dut1
            && dut1.abs() >= 1.0
        {
            return Err(format!("\"dut1\" {dut1}: expected less than 1 second either way"));
        }
        let antennas = antennas(self.antennas, self.positions)?;
        if let Some(inputs) = &self.inputs {
            check_inputs(inputs, antennas.as_ref().map(Vec::len))?;
        }
        Ok(Array {
            telescope: self.telescope,
            instrument: self.instrument,
            location: self.location,
            antennas,
            inputs: self.inputs,
            channels: channels(self.frequencies, self.first_channel, self.channel_width)?,
            start: self
                .start
                .as_deref()
                .map(|text| parse_moment(text).map_err(|error| format!("\"start\" {error}")))
                .transpose()?,
            sample_time: self.sample_time,
            phase_center: self.phase_center,
            source: None,
            dut1: self.dut1,
            polar_motion: self.polar_motion,
            pointings: self.pointings,
            path: None,
        })
    }
}

fn within(what: &str, degrees: f64, least: f64, most: f64) -> Result<(), String> {
    if (least..=most).contains(&degrees) {
        return Ok(());
    }
    Err(format!("{what} {degrees}: expected {least} to {most} degrees"))
}

/// The antennas of a file, of which `positions` is a short form.
fn antennas(
    antennas: Option<Vec<AntennaFields>>,
    positions: Option<Vec<[f64; 3]>>,
) -> Result<Option<Vec<Antenna>>, String> {
    let fields = match (antennas, positions) {
        (None, None) => return Ok(None),
        (Some(antennas), None) => antennas,
        (None, Some(positions)) => {
            let antenna = |position| AntennaFields { name: None, number: None, position };
            positions.into_iter().map(antenna).collect()
        }
        (Some(antennas), Some(positions)) => {
            if !antennas.iter().map(|antenna| antenna.position).eq(positions) {
                return Err(
                    "\"positions\" are not those of the \"antennas\": expected one of both".into(),
                );
            }
            antennas
        }
    };
    let mut all: Vec<Antenna> = Vec::with_capacity(fields.len());
    for (index, AntennaFields { name, number, position }) in fields.into_iter().enumerate() {
        let number = match number {
            Some(number) => number,
            None => u32::try_from(index).map_err(|_| format!("antenna {index}: too many"))?,
        };
        all.push(Antenna { name: name.unwrap_or_else(|| number.to_string()), number, position });
    }
    let mut numbers: Vec<_> = all.iter().map(|antenna| antenna.number).collect();
    numbers.sort_unstable();
    if let Some(pair) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("\"antennas\": two have the number {}, expected one", pair[0]));
    }
    let mut names: Vec<_> = all.iter().map(|antenna| &antenna.name).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("\"antennas\": two have the name {:?}, expected one", pair[0]));
    }
    Ok(Some(all))
}

fn check_inputs(inputs: &[Input], antennas: Option<usize>) -> Result<(), String> {
    let mut first = std::collections::HashMap::new();
    for (index, input) in inputs.iter().enumerate() {
        let Input { antenna, polarisation } = *input;
        if let Some(antennas) = antennas
            && antenna >= antennas
        {
            return Err(format!(
                "\"inputs\": input {index} is of antenna {antenna}, expected one below {antennas}"
            ));
        }
        if let Some(other) = first.insert(*input, index) {
            return Err(format!(
                "\"inputs\": inputs {other} and {index} are both {polarisation:?} of antenna \
                 {antenna}, expected one"
            ));
        }
    }
    Ok(())
}

/// The channels of a file: a list, or the first one and a step; both, where they agree.
fn channels(
    frequencies: Option<Vec<f64>>,
    first: Option<f64>,
    width: Option<f64>,
) -> Result<Option<Channels>, String> {
    match (frequencies, first, width) {
        (None, None, None) => Ok(None),
        (None, Some(first), Some(width)) if width != 0.0 => {
            Ok(Some(Channels::Even { first, width }))
        }
        (None, Some(_), Some(width)) => {
            Err(format!("\"channel_width\" {width}: expected another than 0 hertz"))
        }
        (None, Some(_), None) => {
            Err("\"first_channel\" without \"channel_width\": expected both".into())
        }
        (None, None, Some(_)) => {
            Err("\"channel_width\" without \"first_channel\": expected both".into())
        }
        (Some(each), first, width) => {
            let near = |a: f64, b: f64, scale: f64| (a - b).abs() <= TOLERANCE * scale.abs();
            if let (Some(&found), Some(first)) = (each.first(), first)
                && !near(found, first, found)
            {
                return Err(format!(
                    "\"first_channel\" {first} and first of \"frequencies\" {found}: expected the \
                     same"
                ));
            }
            if let Some(width) = width
                && let Some(pair) =
                    each.windows(2).find(|pair| !near(pair[1] - pair[0], width, pair[1]))
            {
                return Err(format!(
                    "\"channel_width\" {width} and \"frequencies\" {} and {}: expected them to be \
                     so far apart",
                    pair[0], pair[1]
                ));
            }
            Ok(Some(Channels::Each(each)))
        }
    }
}
