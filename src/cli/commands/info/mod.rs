//! `corrust info`.

pub mod made;

use std::{collections::BTreeMap, ops::Range, path::Path};

use corrust::{
    Error, Layout, Result,
    correlate::Shape,
    format::{
        self, AnyRecording, Block, Options, Recording,
        npy::{Dtype, Reader},
        photon_hdf5,
        tttr::{self, CHANNELS, MARKERS, SYNC, channel_name},
    },
    photons,
    run::{Blocks, BlocksOf, Recorded},
    samples::{Missing, RawEncoding, RawShape},
};
use num_complex::Complex;
use serde::Serialize;

use self::made::Made;
use crate::cli::options::files::{Files, RAW_OPTIONS, RawOptions};
use crate::cli::options::given;
use crate::cli::terminal::numbers::{self, count, digits, si};
use crate::cli::terminal::say::{say, warn};

/// Bytes of samples that are read at once.
const BLOCK: usize = 16 << 20;

/// Samples of an input that are shown.
const LEVELS: usize = 8;

/// Gaps and inputs that are shown in plain text.
const LINES: usize = 16;

/// Most gaps that are listed.
const GAPS: usize = 10_000;

/// Describe a file: format, times, rate, inputs, gaps, levels, photons
///
/// A recording of voltages or photons, or an array, recording, table of curves or state that corrust writes. The whole recording is read to find gaps, unless
/// --quick is given.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// Read only the start of the recording, and leave out gaps
    #[arg(long)]
    quick: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    raw: RawOptions,
}

const EXAMPLES: &str = "\
Examples:
  corrust info scan.vdif
  corrust info photons.ptu
  corrust info powers.fil
  corrust info scan.m5b --inputs 8 --near 2014-06-13
  corrust info --json --quick scan_*.dada";

/// Facts of a recording.
#[derive(Debug, Serialize)]
struct Info {
    format: String,
    /// Further facts of its headers.
    headers: Vec<(&'static str, String)>,
    /// "raw" or "channels".
    voltages: &'static str,
    inputs: usize,
    /// Channels; none for raw voltages.
    channels: Option<usize>,
    encoding: String,
    /// Bits of a component of a sample.
    bits: usize,
    complex: bool,
    layout: String,
    /// Time samples of the whole recording; unknown for a stream that was not read.
    times: Option<u64>,
    /// Times a second, in hertz.
    rate: Option<f64>,
    /// Centre of the band on the sky and its width, hertz, the width negative where frequencies descend.
    sky_frequency: Option<f64>,
    bandwidth: Option<f64>,
    start: Option<String>,
    end: Option<String>,
    seconds: Option<f64>,
    /// Missing samples of all inputs, as a part of all; unknown where they were not looked for.
    missing: Option<f64>,
    gaps: Option<Vec<Gap>>,
    /// Number of gaps that are not listed.
    gaps_left_out: u64,
    /// Real and imaginary parts of each input's first samples, of the first channel; none that are missing.
    first_levels: Vec<Vec<Option<[f32; 2]>>>,
    left_out: Option<String>,
    contradiction: Option<String>,
}

/// Times at which some inputs are missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Gap {
    start: u64,
    times: u64,
    first_input: usize,
    inputs: usize,
}

/// Gaps of a recording, and gaps that may continue in the next block.
#[derive(Debug, Default)]
struct Gaps {
    done: Vec<Gap>,
    left_out: u64,
    open: Vec<Gap>,
    /// Samples that are missing.
    samples: u128,
}

impl Gaps {
    /// Adds the gaps between `start` and `end`.
    fn add(&mut self, inputs: usize, Range { start, end }: Range<u64>, missing: &[Missing]) {
        let mut open = Vec::new();
        for gap in missing {
            let range = gap.inputs.start..gap.inputs.end.min(inputs);
            let new = Gap {
                start: start + gap.times.start as u64,
                times: gap.times.len() as u64,
                first_input: range.start,
                inputs: range.len(),
            };
            self.samples += u128::from(new.times) * new.inputs as u128;
            let goes_on = |old: &Gap| {
                (old.start + old.times, old.first_input, old.inputs)
                    == (new.start, new.first_input, new.inputs)
            };
            let new = match self.open.iter().position(goes_on) {
                Some(place) => {
                    let old = self.open.swap_remove(place);
                    Gap { times: old.times + new.times, ..old }
                }
                None => new,
            };
            if new.start + new.times == end { open.push(new) } else { self.close(new) }
        }
        let ended = std::mem::replace(&mut self.open, open);
        ended.into_iter().for_each(|gap| self.close(gap));
    }

    fn close(&mut self, gap: Gap) {
        if self.done.len() < GAPS { self.done.push(gap) } else { self.left_out += 1 }
    }

    /// All gaps in order of time, and how many are left out.
    fn finish(mut self) -> (Vec<Gap>, u64) {
        let open = std::mem::take(&mut self.open);
        open.into_iter().for_each(|gap| self.close(gap));
        self.done.sort_by_key(|gap| (gap.start, gap.first_input));
        (self.done, self.left_out)
    }
}

impl Args {
    /// Prints the facts of the recording.
    pub fn run(self) -> Result<()> {
        let options = self.raw.with(self.files.options());
        if let [path] = &self.files.inputs[..]
            && self.print_other(path, &options)?
        {
            return Ok(());
        }
        let info = match format::open_any(&self.files.inputs, options)? {
            AnyRecording::Raw(recording) => self.survey_raw(recording)?,
            AnyRecording::Channels(recording) => self.survey_channels(recording)?,
        };
        if let Some(fault) = &info.left_out {
            warn(format_args!("{fault}; it is left out"));
        }
        info.contradiction.iter().for_each(warn);
        if self.json {
            say(serde_json::to_string_pretty(&info).expect("text and numbers"));
        } else {
            info.print();
        }
        Ok(())
    }

    /// Prints the facts of a file that is no recording of voltages; returns whether it is none.
    fn print_other(&self, path: &Path, options: &Options) -> Result<bool> {
        let warn_unused = |voltages: &[&str], why: &str| {
            given::warn_unused(&[voltages, RAW_OPTIONS].concat(), why);
        };
        let spots = photon_hdf5::spots(path)?;
        if !spots.is_empty() || tttr::is_tttr(path)? {
            let why = "the file holds photons, expected a recording of voltages";
            warn_unused(&["encoding", "layout", "long-gaps"], why);
            let photons = match &spots[..] {
                [] => Photons::of(path, options.keep_going, self.quick)?,
                spots => Photons::of_spots(path, spots, self.quick)?,
            };
            photons.print(self.json)?;
            return Ok(true);
        }
        if options.encoding.is_some() {
            return Ok(false);
        }
        let mut fault = None;
        if photons::is_array(path)? {
            let why = "the file holds counts or arrival times, expected a recording of voltages";
            warn_unused(&["layout", "long-gaps"], why);
            match Counts::of(path, self.quick) {
                Ok(counts) => {
                    counts.print(self.json)?;
                    return Ok(true);
                }
                // Numbers that are no counts may be something else that corrust writes.
                Err(error) => fault = Some(error),
            }
        }
        match (Made::of(path)?, fault) {
            (Some(made), fault) => {
                if fault.is_none() {
                    let why = "the file is no recording, expected one of voltages";
                    warn_unused(&["layout", "long-gaps"], why);
                }
                made.print(self.json);
                Ok(true)
            }
            (None, Some(fault)) => Err(fault),
            (None, None) => Ok(false),
        }
    }

    fn survey_raw(&self, recording: Box<dyn Recording<RawShape>>) -> Result<Info> {
        let shape = recording.shape();
        let info = Info {
            layout: shape.layout.to_string(),
            ..Info::new("raw", shape.inputs, None, shape.encoding, &*recording)
        };
        let step = shape.bytes(8).div_ceil(8);
        info.survey(recording, step, self.quick, |block, input, time| {
            block.raw(&shape).get(input, time)
        })
    }

    fn survey_channels(&self, recording: Box<dyn Recording>) -> Result<Info> {
        let shape = recording.shape();
        let encoding = RawEncoding::from(shape.encoding);
        let (inputs, channels) = (shape.inputs, Some(shape.channels));
        let plain = Info::new("channels", inputs, channels, encoding, &*recording);
        let is_bits = shape.encoding.is_bits();
        let info = Info {
            layout: shape.layout.to_string(),
            bits: if is_bits { shape.encoding.planes() } else { plain.bits },
            ..plain
        };
        info.survey(recording, shape.bytes_per_time(), self.quick, |block, input, time| {
            if is_bits {
                return of_word(block, &shape, input, time);
            }
            let sample = match shape.layout {
                Layout::Tcn => time * shape.channels * inputs + input,
                Layout::Cnt => input * block.times + time,
            };
            encoding.decode(&block.samples, sample)
        })
    }
}

/// The sample of bits of an input at a time of a block's first channel.
fn of_word(block: &Block, shape: &Shape, input: usize, time: usize) -> Complex<f32> {
    let (word, planes) = (shape.encoding.times(), shape.encoding.planes());
    let words = block.times.div_ceil(word);
    let part = |part: usize| {
        (0..planes).fold(0.0, |level, plane| {
            let row = ((input * planes + plane) * words + time / word) * shape.encoding.bytes();
            let byte = block.samples[row + part * word / 8 + time % word / 8];
            2.0 * level + if byte >> (time % 8) & 1 == 1 { 1.0 } else { -1.0 }
        })
    };
    Complex::new(part(0), part(1))
}

/// Facts of a file of photons.
#[derive(Debug, Serialize)]
struct Photons {
    format: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    instrument: Option<&'static str>,
    /// T2 or T3.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    /// Numbers of the setup, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    setup: BTreeMap<&'static str, u64>,
    records: u64,
    /// Seconds of a unit of time; in T3 of a sync period.
    unit_seconds: f64,
    /// Seconds of a unit of microtimes.
    microtime_seconds: Option<f64>,
    start: Option<String>,
    /// Unknown where they were not read.
    seconds: Option<f64>,
    channels: Option<Vec<Channel>>,
    markers: Option<u64>,
    /// External signals of each number, 1 first.
    #[serde(skip_serializing_if = "Option::is_none")]
    each_marker: Option<[u64; MARKERS]>,
    overflows: Option<u64>,
    left_out: Option<String>,
}

/// Photons of a channel.
#[derive(Debug, Serialize)]
struct Channel {
    /// Number of the spot, where a file has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    spot: Option<usize>,
    channel: String,
    photons: u64,
    /// Photons a second.
    rate: f64,
}

impl Photons {
    /// Reads the header and, unless `quick`, all records.
    fn of(path: &Path, keep_going: bool, quick: bool) -> Result<Self> {
        let mut reader = tttr::Reader::open(path, keep_going)?;
        let survey = (!quick).then(|| reader.survey()).transpose()?;
        let header = reader.header();
        let span = survey.as_ref().map(|survey| header.span(survey));
        let seconds = span.map(|span| (span.end - span.start) as f64 * header.unit);
        let channels = survey.as_ref().zip(seconds).map(|(survey, seconds)| {
            let there = (0..CHANNELS).filter(|&channel| survey.photons[channel] > 0);
            let channel = |channel| {
                let photons = survey.photons[channel];
                let rate = photons as f64 / seconds;
                Channel { spot: None, channel: channel_name(channel), photons, rate }
            };
            there.map(channel).collect()
        });
        Ok(Self {
            format: header.format.to_owned(),
            instrument: Some(header.kind.instrument),
            mode: Some(header.kind.mode()),
            setup: BTreeMap::new(),
            records: header.records,
            unit_seconds: header.unit,
            microtime_seconds: header.microtime,
            start: header.created.map(|created| created.to_string()),
            seconds,
            channels,
            markers: survey.as_ref().map(|survey| survey.markers),
            each_marker: survey.as_ref().map(|survey| survey.each_marker),
            overflows: survey.as_ref().map(|survey| survey.overflows),
            left_out: header.left_out.clone(),
        })
    }

    /// Reads the photons of all spots of a Photon-HDF5 file; if `quick`, none of them.
    fn of_spots(path: &Path, spots: &[usize], quick: bool) -> Result<Self> {
        let mut all: Option<Self> = None;
        for &spot in spots {
            let mut reader = photon_hdf5::Reader::open(path, Some(spot))?;
            let survey = (!quick).then(|| reader.survey()).transpose()?;
            let header = reader.header();
            let span = survey.as_ref().map(|survey| header.span(survey));
            let seconds = span.map(|span| (span.end - span.start) as f64 * header.unit);
            let channels = survey.as_ref().zip(seconds).map(|(survey, seconds)| {
                let there = survey.photons.iter().enumerate().filter(|(_, photons)| **photons > 0);
                let channel = |(channel, &photons): (usize, &u64)| Channel {
                    spot: (spots.len() > 1).then_some(spot),
                    channel: channel.to_string(),
                    photons,
                    rate: photons as f64 / seconds,
                };
                there.map(channel).collect::<Vec<_>>()
            });
            let markers = survey.as_ref().map(|survey| survey.markers);
            let Some(before) = &mut all else {
                all = Some(Self {
                    format: header.format(),
                    instrument: None,
                    mode: None,
                    setup: header.setup.iter().copied().collect(),
                    records: header.records,
                    unit_seconds: header.unit,
                    microtime_seconds: header.microtime,
                    start: None,
                    seconds,
                    channels,
                    markers,
                    each_marker: None,
                    overflows: None,
                    left_out: None,
                });
                continue;
            };
            before.records += header.records;
            before.seconds = before.seconds.zip(seconds).map(|(a, b)| a.max(b));
            before.channels.iter_mut().zip(channels).for_each(|(all, more)| all.extend(more));
            before.markers = before.markers.zip(markers).map(|(a, b)| a + b);
        }
        all.ok_or_else(|| Error::file(path, "no photons: expected some"))
    }

    fn print(&self, json: bool) -> Result<()> {
        if let Some(fault) = &self.left_out {
            warn(format_args!("{fault}; it is left out"));
        }
        if json {
            say(serde_json::to_string_pretty(self).expect("text and numbers"));
            return Ok(());
        }
        let line = |name: &str, value: String| say(format_args!("{name:<21}{value}"));
        line("format", self.format.clone());
        let kind = self.mode.zip(self.instrument);
        let kind = kind.map_or(String::new(), |(mode, of)| format!(", {mode} of {of}"));
        line("records", format!("{}{kind}", self.records));
        for (name, value) in &self.setup {
            line(name, value.to_string());
        }
        let unit = if self.mode == Some("T3") { "sync period" } else { "unit of time" };
        line(unit, numbers::seconds(self.unit_seconds));
        if let Some(microtime) = self.microtime_seconds {
            line("unit of microtimes", numbers::seconds(microtime));
        }
        if let Some(start) = &self.start {
            line("start", start.clone());
        }
        if let Some(seconds) = self.seconds {
            line("length", numbers::seconds(seconds));
        }
        for Channel { spot, channel, photons, rate } in self.channels.iter().flatten() {
            let what = if *channel == channel_name(SYNC) { "pulses" } else { "photons" };
            let spot = spot.map_or(String::new(), |spot| format!("spot {spot}, "));
            line(&format!("{spot}channel {channel}"), format!("{photons} {what}, {}Hz", si(*rate)));
        }
        if let Some(markers) = self.markers {
            line("markers", markers.to_string());
        }
        for (bit, markers) in self.each_marker.iter().flatten().enumerate() {
            if *markers > 0 {
                line(&format!("marker {}", bit + 1), markers.to_string());
            }
        }
        Ok(())
    }
}

/// Facts of counts, or of arrival times, in a NumPy file.
#[derive(Debug, Serialize)]
struct Counts {
    format: &'static str,
    sensors: usize,
    /// Instants, or units of time from the first photon to the last.
    instants: u64,
    /// Photons of each sensor; unknown where they were not read.
    photons: Option<Vec<u64>>,
    /// Instants without a count, NaN; unknown where they were not read, and of arrival times.
    missing: Option<u64>,
}

impl Counts {
    /// Opens the file and, unless `quick`, adds up its counts.
    fn of(path: &Path, quick: bool) -> Result<Self> {
        let times = || photons::Options { unit: Some(1.0), dwell: Some(1.0), ..Default::default() };
        let reader = Reader::open(path)?;
        let (dtype, line) = (reader.dtype(), reader.shape().len() == 1);
        if dtype == Some(Dtype::Uint64) && line {
            return Self::read(photons::open(&[path], &times())?, quick);
        }
        let counts = Self::read(photons::open(&[path], &photons::Options::default())?, quick);
        match counts {
            // Numbers that are no counts may be times.
            Err(_) if dtype == Some(Dtype::Int64) && line => {
                Self::read(photons::open(&[path], &times())?, quick)
            }
            // Powers of corrust filterbank lie so, too.
            Ok(counts) if dtype == Some(Dtype::Int64) && !line => {
                Ok(Self { format: "NumPy, counts or powers", ..counts })
            }
            counts => counts,
        }
    }

    fn read(counts: photons::Counts, quick: bool) -> Result<Self> {
        let photons::Counts { mut recording, sensors, photons: are_times, masked, .. } = counts;
        let (shape, instants) = (recording.shape(), recording.times());
        let sensors = sensors.len() - usize::from(masked);
        let format = if are_times { "NumPy, arrival times" } else { "NumPy, counts" };
        // As many as the file has elements.
        if let Some(photons) = recording.photons().filter(|_| are_times) {
            return Ok(Self { format, sensors, instants, photons: Some(photons), missing: None });
        }
        if quick {
            return Ok(Self { format, sensors, instants, photons: None, missing: None });
        }
        let (mut photons, mut there) = (vec![0; sensors], 0);
        let (times, mut block) = ((BLOCK / shape.bytes()).max(1), Block::new());
        let width = if shape.wide { 2 } else { 1 };
        while recording.read_block(times, &mut block)? > 0 {
            for counts in block.samples.chunks_exact(shape.bytes()) {
                let count = |sensor: usize| {
                    let bytes = counts[sensor * width..][..width].iter().rev();
                    bytes.fold(0, |count, &byte| count << 8 | u64::from(byte))
                };
                photons.iter_mut().enumerate().for_each(|(sensor, sum)| *sum += count(sensor));
                there += if masked { count(sensors) } else { 1 };
            }
        }
        let missing = Some(instants - there);
        Ok(Self { format, sensors, instants, photons: Some(photons), missing })
    }

    fn print(&self, json: bool) -> Result<()> {
        if json {
            say(serde_json::to_string_pretty(self).expect("text and numbers"));
            return Ok(());
        }
        let line = |name: &str, value: String| say(format_args!("{name:<21}{value}"));
        line("format", self.format.to_owned());
        line("sensors", self.sensors.to_string());
        let (what, rest) = match self.missing {
            None if self.photons.is_some() => {
                ("units of time", "from the first photon to the last")
            }
            _ => ("instants", "of a length that the file does not say"),
        };
        line(what, format!("{}, {rest}", self.instants));
        for (sensor, photons) in self.photons.iter().flatten().take(LINES).enumerate() {
            let mean = digits(*photons as f64 / self.instants.max(1) as f64);
            line(&format!("sensor {sensor}"), format!("{photons} photons, a mean of {mean}"));
        }
        if self.sensors > LINES {
            line("", format!("and {}", count(self.sensors - LINES, "more sensor")));
        }
        if let Some(missing) = self.missing {
            line("missing", count(missing, "instant"));
        }
        Ok(())
    }
}

impl Info {
    /// Facts that opening a recording tells.
    fn new<S>(
        voltages: &'static str,
        inputs: usize,
        channels: Option<usize>,
        encoding: RawEncoding,
        recording: &dyn Recording<S>,
    ) -> Self {
        let mut headers = recording.facts();
        let format = match headers.first() {
            Some(("format", _)) => headers.remove(0).1,
            _ => String::new(),
        };
        let band = recording.band();
        Self {
            sky_frequency: band.map(|[centre, _]| centre),
            bandwidth: band.map(|[_, width]| width),
            format,
            headers,
            voltages,
            inputs,
            channels,
            encoding: encoding.to_string(),
            bits: encoding.component_bits(),
            complex: encoding.is_complex(),
            layout: String::new(),
            times: (recording.times() < u64::MAX).then_some(recording.times()),
            rate: recording.interval().map(|seconds| 1.0 / seconds),
            start: recording.start().map(|start| start.to_string()),
            end: None,
            seconds: None,
            missing: None,
            gaps: None,
            gaps_left_out: 0,
            first_levels: Vec::new(),
            left_out: recording.left_out().map(str::to_owned),
            contradiction: recording.contradiction().map(str::to_owned),
        }
    }

    /// Adds facts that reading tells: levels of the first samples, and gaps of all.
    fn survey<S: Recorded>(
        mut self,
        recording: Box<dyn Recording<S>>,
        step: usize,
        quick: bool,
        sample: impl Fn(&Block, usize, usize) -> Complex<f32>,
    ) -> Result<Self> {
        let start = recording.start();
        let interval = recording.interval();
        let times = if quick { LEVELS } else { (BLOCK / step.max(1)).max(LEVELS) };
        let mut blocks = BlocksOf::recording(recording, times);
        let (mut gaps, mut position, mut block) = (Gaps::default(), 0, Block::new());
        while blocks.next(&mut block)? {
            if block.gap > 0 {
                // A gap has no samples, however long it is.
                let gap = Missing::times(0..usize::try_from(block.gap).unwrap_or(usize::MAX));
                let end = position + gap.times.end as u64;
                gaps.add(self.inputs, position..end, &[gap]);
                position = end;
            }
            let missing = &block.missing;
            if self.first_levels.is_empty() {
                let is_missing = |input: usize, time: usize| {
                    let within =
                        |gap: &Missing| gap.inputs.contains(&input) && gap.times.contains(&time);
                    missing.iter().any(within)
                };
                let level = |input, time| {
                    let value = sample(&block, input, time);
                    (!is_missing(input, time)).then_some([value.re, value.im])
                };
                let shown = block.times.min(LEVELS);
                self.first_levels = (0..self.inputs)
                    .map(|input| (0..shown).map(|time| level(input, time)).collect())
                    .collect();
            }
            let end = position + block.times as u64;
            gaps.add(self.inputs, position..end, missing);
            position = end;
            if quick {
                break;
            }
        }
        if !quick {
            self.times = Some(position);
            let all = u128::from(position) * self.inputs as u128;
            self.missing = Some(gaps.samples as f64 / all.max(1) as f64);
            let (listed, left_out) = gaps.finish();
            (self.gaps, self.gaps_left_out) = (Some(listed), left_out);
        }
        self.seconds = self.times.zip(interval).map(|(times, interval)| times as f64 * interval);
        let end =
            start.zip(self.seconds).and_then(|(start, seconds)| format::later(start, seconds));
        self.end = end.map(|end| end.to_string());
        Ok(self)
    }

    fn print(&self) {
        let line = |name: &str, value: String| say(format_args!("{name:<21}{value}"));
        line("format", self.format.clone());
        for (name, value) in &self.headers {
            line(name, value.clone());
        }
        let kind = match self.channels {
            None => "raw voltages".to_owned(),
            Some(channels) => count(channels, "channel"),
        };
        line("voltages", kind);
        line("inputs", self.inputs.to_string());
        let kind_of = if self.complex { "complex" } else { "real" };
        line("encoding", format!("{}: {kind_of}, {}", self.encoding, count(self.bits, "bit")));
        line("layout", self.layout.clone());
        if let Some(times) = self.times {
            let seconds =
                self.seconds.map_or(String::new(), |s| format!(", {}", numbers::seconds(s)));
            line("times", format!("{times}{seconds}"));
        }
        let rate = |rate: f64| format!("{}Hz", si(rate));
        line("rate", self.rate.map_or("not said: --rate says it".to_owned(), rate));
        if let (Some(centre), Some(width)) = (self.sky_frequency, self.bandwidth) {
            line("sky frequency", rate(centre));
            let way = if width < 0.0 { ", descending" } else { "" };
            line("bandwidth", format!("{}{way}", rate(width.abs())));
        }
        if let Some(start) = &self.start {
            line("start", start.clone());
        }
        if let Some(end) = &self.end {
            line("end", end.clone());
        }
        if let (Some(missing), Some(gaps)) = (self.missing, &self.gaps) {
            let all = gaps.len() as u64 + self.gaps_left_out;
            line("missing", format!("{} %, {}", digits(100.0 * missing), count(all, "gap")));
            for gap in gaps.iter().take(LINES) {
                let inputs = match gap.inputs {
                    all if all == self.inputs => "all inputs".to_owned(),
                    1 => format!("input {}", gap.first_input),
                    many => format!("inputs {}-{}", gap.first_input, gap.first_input + many - 1),
                };
                let (first, last) = (gap.start, gap.start + gap.times - 1);
                line("", format!("times {first}-{last}, {inputs}"));
            }
            if all > LINES as u64 {
                line("", format!("and {} more", all - LINES as u64));
            }
        }
        for (input, levels) in self.first_levels.iter().take(LINES).enumerate() {
            let level = |level: &Option<[f32; 2]>| match level {
                None => "-".to_owned(),
                Some([re, _]) if !self.complex => re.to_string(),
                // A NaN has no sign of its own.
                Some([re, im]) if im.is_nan() => format!("{re}+NaNj"),
                Some([re, im]) => format!("{re}{im:+}j"),
            };
            let levels: Vec<String> = levels.iter().map(level).collect();
            line(&format!("levels of input {input}"), levels.join(" "));
        }
        if self.inputs > LINES {
            line("", format!("and {}", count(self.inputs - LINES, "more input")));
        }
    }
}
