//! F-engine: options of every command that takes raw voltages.

use crate::cli::options::given;
use crate::cli::options::run_files::input;
use crate::cli::options::units::Frequency;
use crate::cli::terminal::numbers::{count, digits};
use crate::cli::terminal::say::warn;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use corrust::{
    Channeliser, Error, Layout, Result,
    channelise::{Builder, Shape, SpectrumEncoding, Window},
    correlate,
    delays::Polynomials,
    format::{
        self, Options, RawShape, Recording, Timestamp,
        array::{Array, Channels},
        npy::{Dtype, Reader},
    },
};
use num_complex::Complex;

/// Part of an input's samples above which clipping is reported.
const MUCH_CLIPPED: f64 = 0.02;

/// The options of an F-engine.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "F-engine")]
pub struct Engine {
    /// Taps of the filter bank; 1 is a plain FFT
    #[arg(long, default_value_t = 8)]
    taps: usize,
    /// Window of the prototype: hann, hamming, rect or kaiser:BETA, as kaiser:8 [default: hann; rect for one tap]
    #[arg(long, conflicts_with = "prototype", hide_short_help = true)]
    window: Option<Window>,
    /// NumPy file of your own prototype: float32 or float64, one number for each sample of the taps
    #[arg(long, value_name = "H.npy", value_parser = input(), hide_short_help = true)]
    prototype: Option<PathBuf>,
    /// Oversampling factor A/B, as 32/27: a spectrum begins B/A of a channel's period after the one before [default: 1]
    #[arg(long, value_name = "A/B", hide_short_help = true)]
    oversample: Option<Oversampling>,
    /// Invert a band that runs downwards: channels are conjugated and written in ascending frequency [default: as the
    /// recording says]
    #[arg(long, hide_short_help = true)]
    inverted: bool,
    /// JSON file of delays of the inputs, in seconds; needs the sample rate, from the recording or --rate
    #[arg(long, value_name = "D.json", value_parser = input())]
    delays: Option<PathBuf>,
    /// Time of the first sample in UTC, as 2026-03-20T14:46:00, for delays that count from a date [default: the
    /// recording's]
    #[arg(long, value_name = "TIME", value_parser = format::moment, hide_short_help = true)]
    start: Option<Timestamp>,
    /// Sky frequency at baseband 0 Hz, as 1.4GHz, for fringe rotation [default: the recording's, or 0]
    #[arg(long, hide_short_help = true)]
    sky_frequency: Option<Frequency>,
    /// NumPy file of gains: complex64 [N][C] [default: 1]
    #[arg(long, value_name = "G.npy", value_parser = input(), conflicts_with = "level", hide_short_help = true)]
    gains: Option<PathBuf>,
    /// Measure gains in the first block that give the real and imaginary parts of each input and channel this standard
    /// deviation; without a number 20 for ci8, 2.8 for 4 bits, 1 for floats
    #[arg(long, value_name = "SIGMA", num_args = 0..=1, hide_short_help = true)]
    level: Option<Option<f32>>,
    /// Encoding of channelised samples: ci8, ci4, ci4-offset, cf16 or cf32
    #[arg(id = "spectrum_encoding", long = "output-encoding", value_name = "OUTPUT_ENCODING")]
    #[arg(default_value = "ci8", hide_short_help = true)]
    output_encoding: SpectrumEncoding,
    /// Order of the axes of spectra: tcn (spectrum, channel, input) or cnt (channel, input, spectrum)
    #[arg(long, default_value_t = Layout::Tcn, hide_short_help = true)]
    output_layout: Layout,
}

/// Facts of the sky that are known before the recording is opened, for options that are not given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Time of the first sample.
    pub start: Option<Timestamp>,
    /// Frequency of the first channel, hertz.
    pub first_channel: Option<f64>,
}

impl Known {
    /// Facts of an array file about `channels` channels.
    pub fn of(array: Option<&Array>, channels: usize) -> Result<Self> {
        let Some(array) = array else { return Ok(Self::default()) };
        let first = array.channels.is_some().then(|| array.frequencies(channels)).transpose()?;
        let first_channel = first.and_then(|frequencies| frequencies.first().copied());
        Ok(Self { start: array.start, first_channel })
    }
}

/// Raw voltages that are channelised.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub shape: RawShape,
    /// Samples of each input; `u64::MAX` if unknown.
    pub times: u64,
    /// Seconds from one to the next.
    pub interval: Option<f64>,
    /// Time of the first sample.
    pub start: Option<Timestamp>,
    /// Centre and width of their band on the sky, hertz, of inputs of one channel; negative where it runs downwards.
    pub band: Option<[f64; 2]>,
    /// Their file.
    pub path: &'a Path,
}

impl<'a> Raw<'a> {
    /// Voltages of a recording.
    pub fn of(recording: &dyn Recording<RawShape>, path: &'a Path) -> Self {
        Self {
            shape: recording.shape(),
            times: recording.times(),
            interval: recording.interval(),
            start: recording.start(),
            band: recording.band().filter(|[_, width]| {
                let channels = recording.frequencies();
                channels.and_then(|channels| channels.width(0)).is_some_and(|of| of == *width)
            }),
            path,
        }
    }
}

/// Returns the shape of an F-engine's spectra as a correlator's samples.
pub fn correlated(engine: &Shape) -> Result<correlate::Shape> {
    let SpectrumEncoding::Voltage(encoding) = engine.encoding else {
        return Err(Error::invalid(format!(
            "spectra of {}: expected ci8, ci4, ci4-offset or cf16, which are correlated and beamformed",
            engine.encoding
        )));
    };
    let Shape { inputs, channels, layout, .. } = *engine;
    Ok(correlate::Shape { inputs, channels, encoding, layout })
}

/// Times and frequencies of an F-engine's spectra on the sky.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sky {
    /// Seconds from one spectrum to the next.
    pub interval: Option<f64>,
    /// Time of the first sample.
    pub start: Option<Timestamp>,
    /// Seconds from there to the nominal start of the first spectrum, which is as long as the interval and has its
    /// centre at the filter bank's.
    pub offset: f64,
    /// Frequency and width of the first channel, hertz, if the sky frequency at 0 Hz is known.
    pub first_channel: Option<f64>,
    pub channel_width: Option<f64>,
    /// Whether inputs are delayed.
    pub delayed: bool,
}

impl Sky {
    /// The nominal start of the first spectrum, and the frequencies of channels, where they are known.
    pub fn found(&self) -> (Option<Timestamp>, Option<Channels>) {
        let start = self.start.and_then(|start| format::later(start, self.offset));
        let even = self.first_channel.zip(self.channel_width);
        (start, even.map(|(first, width)| Channels::Even { first, width }))
    }
}

/// `A/B`.
#[derive(Clone, Copy, Debug)]
pub struct Oversampling {
    above: usize,
    below: usize,
}

impl Oversampling {
    /// `A/B`, at least 1.
    pub fn ratio(self) -> f64 {
        self.above as f64 / self.below as f64
    }

    /// Samples from one spectrum to the next, of `residues` samples each.
    fn hop(self, residues: usize) -> Result<usize> {
        let Self { above, below } = self;
        let product = residues.saturating_mul(below);
        if !product.is_multiple_of(above) || product == 0 {
            return Err(Error::invalid(format!(
                "--oversample {above}/{below} of {residues} samples a spectrum: expected a whole \
                 number of samples from one to the next"
            )));
        }
        Ok(product / above)
    }
}

impl std::str::FromStr for Oversampling {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('/').unwrap_or((text, "1"));
        let parts = (parts.0.parse::<usize>(), parts.1.parse::<usize>());
        match parts {
            (Ok(above), Ok(below)) if below > 0 && above >= below => Ok(Self { above, below }),
            _ => Err(Error::invalid(format!(
                "oversampling {text:?}: expected A/B with A at least B, as 32/27"
            ))),
        }
    }
}

impl Engine {
    /// The files that are read beside the recording.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.prototype, &self.delays, &self.gains].into_iter().flatten()
    }

    /// Opens a recording of raw voltages.
    pub fn open(paths: &[PathBuf], options: Options) -> Result<Box<dyn Recording<RawShape>>> {
        let recording = format::open_raw(paths, options)?;
        if let Some(fault) = recording.left_out() {
            warn(format_args!("{fault}; it is left out"));
        }
        recording.contradiction().into_iter().for_each(warn);
        Ok(recording)
    }

    /// Returns the plan for `channels` channels of raw voltages, without gains that are to be measured, and the facts
    /// of its spectra. A `rate` replaces that of the voltages.
    pub fn builder(
        &self,
        channels: usize,
        raw: &Raw<'_>,
        rate: Option<f64>,
        known: &Known,
    ) -> Result<(Builder, Sky)> {
        let Raw { shape: RawShape { inputs, encoding, layout }, times, path, .. } = *raw;
        let inverted = self.inverted || raw.band.is_some_and(|[_, width]| width < 0.0);
        let builder = Channeliser::builder(inputs, channels)
            .encoding(encoding)
            .layout(layout)
            .inverted(inverted)
            .output(self.output_encoding)
            .output_layout(self.output_layout);
        let mut builder = self.filtered(builder)?;
        let residues = channels.saturating_mul(if encoding.is_complex() { 1 } else { 2 });
        if let Some(oversampling) = self.oversample {
            builder = builder.hop(oversampling.hop(residues)?);
        }
        if let Some(path) = &self.gains {
            builder = builder.gains(&read_gains(path, inputs, channels)?);
        }
        let shape = builder.shape()?;
        if times < shape.window() as u64 {
            return Err(Error::file(
                path,
                format!(
                    "{times} samples of each input: expected at least the {} of a spectrum",
                    shape.window()
                ),
            ));
        }
        let rate = rate.or(raw.interval.map(|interval| 1.0 / interval));
        let width = rate.map(|rate| rate / residues as f64);
        let of_first = width.map(|width| shape.frequency(0) as f64 * width);
        let by_array = known.first_channel.zip(of_first).map(|(first, of_first)| first - of_first);
        // Real samples have 0 Hz at an edge of the band, complex ones in its middle.
        let by_recording =
            raw.band.map(|[centre, width]| match (encoding.is_complex(), inverted) {
                (true, _) => centre,
                (false, false) => centre - width.abs() / 2.0,
                (false, true) => centre + width.abs() / 2.0,
            });
        let dc = self.sky_frequency.map(|sky| sky.0).or(by_array).or(by_recording);
        let sample = rate.map_or(1e-6, f64::recip);
        let start = start(
            [(self.start, "--start"), (known.start, "array file"), (raw.start, "recording")],
            (sample, path),
        );
        let sky = Sky {
            interval: rate.map(|rate| shape.hop as f64 / rate),
            start,
            offset: rate.map_or(0.0, |rate| (shape.window() - shape.hop) as f64 / 2.0 / rate),
            first_channel: dc.zip(of_first).map(|(dc, of_first)| dc + of_first),
            channel_width: width,
            delayed: self.delays.is_some(),
        };
        if let Some(delays) = &self.delays {
            let rate = rate.ok_or_else(|| {
                Error::file(path, "does not say how many samples a second it has: expected --rate")
            })?;
            let polynomials = Polynomials::read(delays, start)?;
            if polynomials.inputs() != inputs {
                return Err(Error::file(
                    delays,
                    format!(
                        "delays of {}: expected {inputs}, as the recording has",
                        count(polynomials.inputs(), "input")
                    ),
                ));
            }
            builder = builder.delays(Arc::new(polynomials), rate, dc.unwrap_or(0.0));
        }
        Ok((builder, sky))
    }

    /// Warns of options that have no effect on a filter bank alone.
    pub fn warn_of_all_but_the_bank(&self) {
        let rest = [
            "oversample",
            "inverted",
            "delays",
            "start",
            "sky-frequency",
            "gains",
            "level",
            "output-encoding",
            "output-layout",
        ];
        given::warn_unused(&rest, "a filter bank's response does not use it, expected a recording");
    }

    /// Warns of options that only delays, or a file with times and frequencies (`dated`), use; `expected` names their
    /// options.
    pub fn warn_of_sky_but_for(&self, expected: &str, dated: bool) {
        if self.delays.is_none() && !dated {
            let why = format!("nothing uses it here, expected {expected}");
            given::warn_unused(&["start", "sky-frequency"], why);
        }
    }

    /// The filter bank alone, of real samples.
    pub fn bank(&self, channels: usize) -> Result<Builder> {
        self.filtered(Channeliser::builder(1, channels))
    }

    /// Adds taps and their prototype.
    fn filtered(&self, builder: Builder) -> Result<Builder> {
        let mut builder = builder.taps(self.taps);
        if let Some(window) = self.window {
            builder = builder.window(window);
        }
        if let Some(path) = &self.prototype {
            builder = builder.prototype(&numbers(path)?);
        }
        Ok(builder)
    }

    /// The level that is asked for.
    pub fn level(&self) -> Option<f32> {
        let by_default = match self.output_encoding.limit() {
            Some(127) => 20.0,
            Some(_) => 2.8,
            None => 1.0,
        };
        self.level.map(|level| level.unwrap_or(by_default))
    }

    /// Whether channels overlap.
    pub fn is_oversampled(&self) -> bool {
        self.oversample.is_some_and(|by| by.above > by.below)
    }

    /// Encoding of spectra.
    pub fn output_encoding(&self) -> SpectrumEncoding {
        self.output_encoding
    }
}

/// Returns the first of several start times of the recording `path`; reports others that differ from it by more than a
/// sample.
fn start(said: [(Option<Timestamp>, &str); 3], (sample, path): (f64, &Path)) -> Option<Timestamp> {
    let mut said = said.into_iter().filter_map(|(start, whose)| Some((start?, whose)));
    let (start, first) = said.next()?;
    for (other, whose) in said {
        if start.duration_since(other).as_secs_f64().abs() > sample {
            warn(format_args!(
                "{}: starts at {start} ({first}), where the {whose} has {other}: the former counts",
                path.display()
            ));
        }
    }
    Some(start)
}

/// Reports the input that is clipped most, if too often, among `spectra` spectra of `channels` channels, and the
/// `options` that prevent it. Returns the percentage of all samples that were clipped.
pub fn warn_of_clipped(clipped: &[u64], channels: usize, spectra: u64, options: &str) -> f64 {
    let of_each = spectra.saturating_mul(channels as u64).max(1) as f64;
    let worst = clipped.iter().enumerate().max_by_key(|(_, count)| **count);
    let (worst, most) = worst.map_or((0, 0.0), |(input, count)| (input, *count as f64 / of_each));
    if most > MUCH_CLIPPED {
        warn(format_args!(
            "{} % of the samples of input {worst} are clipped: {options} keep them",
            digits(100.0 * most)
        ));
    }
    100.0 * clipped.iter().sum::<u64>() as f64 / (of_each * clipped.len().max(1) as f64)
}

/// Options of an F-engine that keep samples from being clipped.
pub const LEVELS: &str = "--level or smaller --gains";

/// Number of spectra, in words.
pub fn spectra(number: u64) -> String {
    if number == 1 { "1 spectrum".to_owned() } else { format!("{number} spectra") }
}

/// The numbers of a file of float32 or float64, flattened.
pub fn numbers(path: &Path) -> Result<Vec<f64>> {
    let mut reader = Reader::open(path)?;
    let bytes = reader.read_all()?;
    match reader.dtype() {
        Some(Dtype::Float32) => {
            Ok(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect())
        }
        Some(Dtype::Float64) => {
            Ok(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect())
        }
        _ => Err(Error::file(
            path,
            format!("numbers of type {}: expected float32 or float64", reader.type_name()),
        )),
    }
}

/// The gains of a file, `rows` by `columns`.
pub fn read_gains(path: &Path, rows: usize, columns: usize) -> Result<Vec<Complex<f32>>> {
    let mut reader = Reader::open(path)?;
    reader.expect(Dtype::Complex64, &["N", "C"])?;
    if reader.shape() != [rows, columns] {
        return Err(Error::file(
            path,
            format!("gains of shape {:?}: expected [{rows}, {columns}]", reader.shape()),
        ));
    }
    let bytes = reader.read_all()?;
    let numbers = bytes.as_chunks::<8>().0.iter().map(|bytes| {
        let part =
            |at: usize| f32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Complex::new(part(0), part(4))
    });
    Ok(numbers.collect())
}
