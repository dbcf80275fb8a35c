//! Gate numbers, periods, time shifts and channels, as options and the files that they name.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    str::FromStr,
};

use corrust::{
    Error, Result,
    correlate::{DROP, Folding},
    format::{
        self, Timestamp,
        array::{Array, Channels},
        npy::{Dtype, Reader},
        polyco::Polyco,
    },
};

use crate::cli::options::units::Seconds;

/// Gates of time samples, and delays of inputs.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Selection {
    /// NumPy file of gate numbers, one for each time sample: visibilities of each gate are kept apart; live, the numbers
    /// repeat from the sync time on
    ///
    /// Integers [T]: 0 to 254, or 255 to drop a time sample. As many gates are kept as the largest number
    /// asks for, and the output becomes [dump][gate][channel][baseline][2], COUNTS [dump][gate].
    #[arg(long, value_name = "GATES.npy", hide_short_help = true)]
    pub gates: Option<PathBuf>,
    /// Period of a pulsar or of a switched calibrator, as 33.4ms: its --gate-bins parts are gates
    #[arg(
        long,
        value_name = "P",
        requires = "gate_bins",
        conflicts_with = "gates",
        hide_short_help = true
    )]
    pub gate_period: Option<Seconds>,
    /// TEMPO's polyco.dat of a pulsar, in place of a period: --gate-bins parts of its period are gates
    #[arg(long, value_name = "POLYCO.dat", requires = "gate_bins", conflicts_with_all = ["gates", "gate_period"], hide_short_help = true)]
    pub gate_polyco: Option<PathBuf>,
    /// Gates of a period, 1 to 255
    #[arg(long, value_name = "B", hide_short_help = true)]
    pub gate_bins: Option<usize>,
    /// Start of a period in UTC, as 2026-03-01T12:00:00 [default: the first time sample; live, the sync time]
    #[arg(long, value_name = "TIME", value_parser = format::moment, requires = "gate_period", hide_short_help = true)]
    pub gate_epoch: Option<Timestamp>,
    /// Dispersion measure in pc / cm^3, as 56.77: gates of lower channels come later, relative to infinite frequency for
    /// a period, to the file's frequency for a polyco [default: 0; the polyco's]
    ///
    /// Needs the channels' frequencies: the recording's, or those of --array or --sky-frequency. COUNTS get another
    /// axis, [channel].
    #[arg(long, value_name = "DM", requires = "gate_bins", hide_short_help = true)]
    pub dispersion: Option<f64>,
    /// NumPy file of time shifts in samples, one for each input: x_i'[t] = x_i[t - s_i]
    ///
    /// Integers [N]. Negative ones advance an input: all inputs are delayed until the least shift is 0. Samples before
    /// the recording's start are missing, and COUNTS get another axis, [baseline].
    #[arg(long, value_name = "SHIFTS.npy", hide_short_help = true)]
    pub shifts: Option<PathBuf>,
}

/// Times and frequencies of samples that the gates of a period depend on.
#[derive(Clone, Debug, Default)]
pub struct Timing {
    /// Start of time sample 0.
    pub start: Option<Timestamp>,
    /// Seconds from one time to the next.
    pub interval: Option<f64>,
    /// Frequencies of the channels, hertz.
    pub frequencies: Option<Vec<f64>>,
}

impl Selection {
    /// The files, which are inputs.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.gates, &self.gate_polyco, &self.shifts].into_iter().flatten()
    }

    /// Whether gates follow a period.
    pub fn folds(&self) -> bool {
        self.gate_period.is_some() || self.gate_polyco.is_some()
    }

    /// The gates of a recording of `times` times.
    pub fn read_gates(&self, times: u64, timing: impl FnOnce() -> Timing) -> Result<Option<Gates>> {
        if let Some(folding) = self.folding(timing)? {
            folding.check(0, if times == u64::MAX { 1 } else { times })?;
            return Ok(Some(Gates::Folding(folding)));
        }
        let Some(path) = &self.gates else { return Ok(None) };
        let numbers = read_numbers(path, Some(times))?;
        let largest = numbers.iter().copied().filter(|&number| number != DROP).max();
        let count = usize::from(largest.ok_or_else(|| {
            Error::file(path, format!("only {DROP}s: expected a time that is not dropped"))
        })?) + 1;
        Ok(Some(Gates::Numbers { numbers, count }))
    }

    /// The gates of a stream: gates of a period, or numbers that repeat.
    pub fn live_gates(&self, timing: impl FnOnce() -> Timing) -> Result<Option<Folding>> {
        if let Some(folding) = self.folding(timing)? {
            return Ok(Some(folding));
        }
        let Some(path) = &self.gates else { return Ok(None) };
        let cycle = Folding::cycle(read_numbers(path, None)?);
        cycle.map(Some).map_err(|error| Error::file(path, error.to_string()))
    }

    /// The gates of a period, if there is one.
    fn folding(&self, timing: impl FnOnce() -> Timing) -> Result<Option<Folding>> {
        let Some(bins) = self.gate_bins else { return Ok(None) };
        if !self.folds() {
            return Err(Error::invalid(format!(
                "--gate-bins {bins}: expected --gate-period or --gate-polyco, whose parts they are"
            )));
        }
        let Timing { start, interval, frequencies } = timing();
        let option = if self.gate_period.is_some() { "--gate-period" } else { "--gate-polyco" };
        let unknown = |what: &str, expected: &str| {
            Error::invalid(format!(
                "{option}: the samples do not say {what}: expected {expected}, or --array ARRAY.json that does"
            ))
        };
        let interval = interval
            .ok_or_else(|| unknown("how far times are apart", "the rate of raw voltages"))?;
        let known_start = || start.ok_or_else(|| unknown("when they begin", "those that do"));
        let (folding, dispersion, reference) = match (&self.gate_polyco, self.gate_period) {
            (Some(path), _) => {
                let polyco = Polyco::read(path)?;
                let (dispersion, reference) = (polyco.dispersion(), polyco.frequency());
                let dispersion = self.dispersion.unwrap_or(dispersion);
                (Folding::polyco(polyco, bins, known_start()?, interval)?, dispersion, reference)
            }
            (None, period) => {
                let period = period.map_or(0.0, |period| period.0);
                let mut folding = Folding::period(period, bins, interval)?;
                if let Some(epoch) = self.gate_epoch {
                    folding = folding.epoch(known_start()?, epoch);
                }
                (folding, self.dispersion.unwrap_or(0.0), f64::INFINITY)
            }
        };
        if dispersion == 0.0 {
            return Ok(Some(folding));
        }
        let frequencies = frequencies.ok_or_else(|| {
            unknown("the channels' frequencies", "--sky-frequency of raw voltages, --dispersion 0")
        })?;
        folding.dispersed(dispersion, &frequencies, reference).map(Some)
    }

    /// Reads the shifts of the inputs of a recording of `times` times: relative to the least, where one is negative.
    pub fn read_shifts(&self, inputs: usize, times: u64) -> Result<Option<Vec<i64>>> {
        let Some(path) = &self.shifts else { return Ok(None) };
        let most = i128::from(times.min(1 << 62)) - 1;
        let shifts = integers(path, ("N", "inputs"), Some(inputs as u64), |input, shift| {
            let found = i64::try_from(shift).ok();
            found.filter(|_| shift.abs() <= most).ok_or_else(|| {
                format!(
                    "shift {shift} of input {input}: expected {} to {most}, as the recording has {times} times",
                    -most
                )
            })
        })?;
        let ends = [shifts.iter().min(), shifts.iter().max()]
            .map(|end| end.map_or(0, |&end| i128::from(end)));
        if ends[1] - ends[0].min(0) > most {
            return Err(Error::file(
                path,
                format!(
                    "shifts from {} to {}: expected them at most {most} apart, as the recording has {times} times",
                    ends[0], ends[1]
                ),
            ));
        }
        Ok(Some(shifts))
    }
}

/// Reads gate numbers: of `expected` times, or of any number of them.
fn read_numbers(path: &Path, expected: Option<u64>) -> Result<Vec<u8>> {
    integers(path, ("T", "times"), expected, |time, number| {
        u8::try_from(number).map_err(|_| {
            format!(
                "gate number {number} at time {time}: expected 0 to {}, or {DROP} to drop the time",
                DROP - 1
            )
        })
    })
}

/// The gates of a recording.
pub enum Gates {
    /// One number per time, and the gates that they name.
    Numbers { numbers: Vec<u8>, count: usize },
    /// Gates of a period.
    Folding(Folding),
}

impl Gates {
    /// Number of gates.
    pub fn count(&self) -> usize {
        match self {
            Self::Numbers { count, .. } => *count,
            Self::Folding(folding) => folding.bins(),
        }
    }

    /// Whether channels have gates of their own.
    pub fn differ_by_channel(&self) -> bool {
        matches!(self, Self::Folding(folding) if folding.channels().is_some())
    }
}

/// Converts the bytes of an element to its value.
type Decode = fn(&[u8]) -> i128;

/// Checks that the elements are integers of any type, along axes of these names, and returns the type and the
/// conversion of an element to its value.
pub fn expect_integers(reader: &Reader, axes: &[&str]) -> Result<(Dtype, Decode)> {
    macro_rules! decoder {
        ($integer:ty) => {
            |bytes| <$integer>::from_le(bytemuck::pod_read_unaligned(bytes)).into()
        };
    }
    let decode: Decode = match reader.dtype() {
        Some(Dtype::Int8) => decoder!(i8),
        Some(Dtype::Uint8) => decoder!(u8),
        Some(Dtype::Int16) => decoder!(i16),
        Some(Dtype::Uint16) => decoder!(u16),
        Some(Dtype::Int32) => decoder!(i32),
        Some(Dtype::Uint32) => decoder!(u32),
        Some(Dtype::Int64) => decoder!(i64),
        Some(Dtype::Uint64) => decoder!(u64),
        Some(Dtype::Float16 | Dtype::Float32 | Dtype::Float64 | Dtype::Complex64) | None => {
            let found = reader.type_name();
            return Err(Error::file(
                reader.path(),
                format!("elements of type {found}: expected integers [{}]", axes.join("][")),
            ));
        }
    };
    let dtype = reader.dtype().expect("a type of integers");
    reader.expect(dtype, axes)?;
    Ok((dtype, decode))
}

/// The integers of a one-dimensional file, each as `accept(index, integer)` takes it or says why not.
/// There must be `expected` of them along the axis `axis`, as many as the recording has `things`; or any number.
fn integers<T>(
    path: &Path,
    (axis, things): (&str, &str),
    expected: Option<u64>,
    accept: impl Fn(usize, i128) -> std::result::Result<T, String>,
) -> Result<Vec<T>> {
    /// Elements read at a time: gate numbers are as many as times.
    const PIECE: usize = 1 << 20;
    let mut reader = Reader::open(path)?;
    let (dtype, decode) = expect_integers(&reader, &[axis])?;
    let length = reader.shape()[0];
    if let Some(expected) = expected.filter(|&expected| expected != length as u64) {
        return Err(Error::file(
            path,
            format!("{length} numbers: expected {expected}, as many as the recording has {things}"),
        ));
    }
    let mut values = Vec::with_capacity(length);
    let mut bytes = Vec::new();
    for first in (0..length).step_by(PIECE) {
        bytes.resize(PIECE.min(length - first) * dtype.bytes(), 0);
        reader.read_at(first as u64, &mut bytes)?;
        for element in bytes.chunks_exact(dtype.bytes()) {
            let value = accept(values.len(), decode(element));
            values.push(value.map_err(|fault| Error::file(path, fault))?);
        }
    }
    Ok(values)
}

/// Channels `a..b`.
#[derive(Clone, Debug)]
pub struct ChannelRange(Range<usize>);

impl FromStr for ChannelRange {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let ends = text.split_once("..").and_then(|(first, end)| {
            Some(first.trim().parse::<usize>().ok()?..end.trim().parse::<usize>().ok()?)
        });
        ends.filter(|range| !range.is_empty())
            .map(Self)
            .ok_or("expected a range of channels, as 100..228")
    }
}

impl ChannelRange {
    /// The range that an option names, within `all` channels; all of them without one.
    pub fn of(range: Option<&Self>, option: &str, all: usize) -> Result<Range<usize>> {
        let range = range.map_or(0..all, |range| range.0.clone());
        if range.end > all {
            let (first, end) = (range.start, range.end);
            return Err(Error::invalid(format!("{option} {first}..{end}: expected some of {all}")));
        }
        Ok(range)
    }
}

/// The array with some of its channels.
pub fn of_channels(array: &Array, all: usize, range: &Range<usize>) -> Result<Array> {
    let mut array = array.clone();
    if array.channels.is_some() && *range != (0..all) {
        let frequencies = array.frequencies(all)?;
        array.channels = Some(match &array.channels {
            Some(Channels::Even { width, .. }) => {
                Channels::Even { first: frequencies[range.start], width: *width }
            }
            // A list of one says no width.
            Some(listed) if let (1, Some(width)) = (range.len(), listed.width(range.start)) => {
                Channels::Even { first: frequencies[range.start], width }
            }
            _ => Channels::Each(frequencies[range.clone()].to_vec()),
        });
    }
    Ok(array)
}
