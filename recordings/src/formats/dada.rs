//! DADA, the format of PSRDADA's files and of what its programs pass on.
//!
//! A header of `HDR_SIZE` bytes (4096 by default) holds lines `NAME value # comment`, padded with zeros; then
//! samples follow to the end of the file or stream, `[time][channel][polarisation][dimension]` ("TFP"):
//!
//! - `NBIT` 8 and 16 are signed integers, 32 floats, little-endian; `NDIM` 2 means complex samples.
//! - The index of an input is `channel * NPOL + polarisation` in a recording of raw voltages. Complex
//!   samples of 8 bits are read as channelised voltages, too: `NCHAN` channels of `NPOL` inputs.
//! - `FREQ` and `BW` are the centre and the width in megahertz of all channels, the width negative where they
//!   descend.
//! - `TSAMP` is the time from one sample to the next in microseconds.
//! - `UTC_START` is the start to a second, `PICOSECONDS` what is above that.
//! - Files of one recording say by `OBS_OFFSET`, in bytes since `UTC_START`, where they begin: what no file
//!   holds is missing. What `FILE_SIZE` says is what was asked for, not what there is.
//!
//! Source: PSRDADA Distributed Data Acquisition, W. van Straten and others; the headers of its programs.

use std::ops::Range;

use corrust_host::{
    Encoding, Error, Layout, Result,
    samples::{Missing, RawEncoding, RawLayout, RawShape, Shape},
};

use super::{
    input::Input,
    options::{Options, Pace, named_facts},
    recording::{Block, Recording, read_past},
};
use crate::array::{
    file::Channels,
    time::{self, Timestamp},
};

/// Bytes of a header that does not say.
const HEADER: u64 = 4096;

/// Longest header that is read.
const HEADER_LIMIT: u64 = 1 << 20;

/// Whether a file's first bytes are a header's.
pub(super) fn is_header(start: &[u8]) -> bool {
    let text = start.split(|&byte| byte == 0).next().unwrap_or_default();
    let plain = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let names: Vec<&[u8]> = text
        .split(|&byte| byte == b'\n')
        .filter_map(|line| line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty()))
        .collect();
    let has = |name: &[u8]| names.contains(&name);
    text.iter().take(80).all(plain)
        && (has(b"HDR_SIZE") || has(b"HDR_VERSION") || has(b"NDIM") && has(b"NBIT"))
}

/// Facts in a header.
#[derive(Clone, Debug, PartialEq)]
struct Header {
    /// Bytes of the header.
    bytes: u64,
    bits: usize,
    complex: bool,
    polarisations: usize,
    channels: usize,
    /// Seconds from one sample to the next.
    interval: Option<f64>,
    start: Option<Timestamp>,
    /// Bytes from the start of the observation.
    offset: u64,
    frequencies: Option<Channels>,
    telescope: Option<String>,
    source: Option<String>,
}

impl Header {
    /// Understands a header's text; the error is the reason alone.
    fn parse(text: &[u8]) -> Result<Self, String> {
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        let find = |name: &str| {
            let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
            lines.find_map(|line| {
                let (found, value) = line.trim().split_once(char::is_whitespace)?;
                (found == name).then(|| value.trim().to_owned())
            })
        };
        let whole = |name: &str| {
            let value = |text: String| {
                let number = text.parse::<u64>().ok();
                let number = number.or_else(|| text.strip_suffix(".0")?.parse().ok());
                number.ok_or_else(|| format!("{name} {text:?}: expected a whole number"))
            };
            find(name).map(value).transpose()
        };
        let required =
            |name: &str| whole(name)?.ok_or_else(|| format!("no {name} in its DADA header"));
        let size = |name: &str| {
            let value = whole(name)?.unwrap_or(1);
            usize::try_from(value)
                .ok()
                .filter(|value| (1..=1 << 24).contains(value))
                .ok_or_else(|| format!("{name} {value}: expected 1 to {}", 1 << 24))
        };
        let bits = required("NBIT")?;
        let bits = usize::try_from(bits)
            .ok()
            .filter(|bits| matches!(bits, 8 | 16 | 32))
            .ok_or_else(|| format!("NBIT {bits}: expected 8, 16 or 32"))?;
        let complex = match whole("NDIM")?.unwrap_or(1) {
            1 => false,
            2 => true,
            other => return Err(format!("NDIM {other}: expected 1 (real) or 2 (complex)")),
        };
        let (polarisations, channels) = (size("NPOL")?, size("NCHAN")?);
        let inputs = polarisations.checked_mul(channels).filter(|&inputs| inputs <= 1 << 24);
        if inputs.is_none() {
            return Err(format!(
                "NPOL {polarisations}, NCHAN {channels}: expected at most {} inputs",
                1 << 24
            ));
        }
        // Axes of length 1 may stand anywhere.
        let axes = |order: &str| -> String {
            let long = |axis: &char| match axis {
                'F' => channels > 1,
                'P' => polarisations > 1,
                _ => true,
            };
            order.chars().filter(long).collect()
        };
        if let Some(order) = find("ORDER").filter(|order| axes(order) != axes("TFP")) {
            return Err(format!("ORDER {order:?}: expected TFP, time slowest"));
        }
        let seconds = |text: String| {
            text.parse::<f64>()
                .ok()
                .filter(|&micro| micro > 0.0 && micro.is_finite())
                .map(|micro| micro / 1e6)
                .ok_or_else(|| format!("TSAMP {text:?}: expected microseconds"))
        };
        let start = match find("UTC_START") {
            Some(text) => match time::parse_moment(&text) {
                Ok(start) => Some(start),
                Err(_) if text.chars().all(char::is_alphabetic) => None,
                Err(error) => return Err(format!("UTC_START {error}")),
            },
            None => None,
        };
        let start = match (start, whole("PICOSECONDS")?) {
            (start, None | Some(0)) | (start @ None, _) => start,
            (Some(start), Some(picoseconds)) => Some(below_a_second(start, picoseconds)?),
        };
        // Fields that are not needed here may hold anything.
        let megahertz = |name: &str| find(name)?.parse::<f64>().ok();
        Ok(Self {
            bytes: whole("HDR_SIZE")?.unwrap_or(HEADER),
            bits,
            complex,
            polarisations,
            channels,
            interval: find("TSAMP").map(seconds).transpose()?,
            start,
            offset: whole("OBS_OFFSET")?.unwrap_or(0),
            frequencies: megahertz("FREQ").zip(megahertz("BW")).and_then(|(centre, width)| {
                Channels::of_band(1e6 * centre, 1e6 * width, channels as u64)
            }),
            telescope: find("TELESCOPE"),
            source: find("SOURCE"),
        })
    }

    /// Bytes of a time.
    fn step(&self) -> usize {
        self.bits / 8 * (1 + usize::from(self.complex)) * self.polarisations * self.channels
    }

    fn raw_shape(&self) -> RawShape {
        let encoding = match (self.bits, self.complex) {
            (8, false) => RawEncoding::I8,
            (8, true) => Encoding::Ci8.into(),
            (16, false) => RawEncoding::I16,
            (16, true) => RawEncoding::Ci16,
            (_, false) => RawEncoding::F32,
            (_, true) => RawEncoding::Cf32,
        };
        let inputs = self.polarisations * self.channels;
        RawShape { inputs, encoding, layout: RawLayout::Tn }
    }

    /// In words, what every file of a recording shares.
    fn describe(&self) -> String {
        format!(
            "NBIT {}, NDIM {}, NPOL {}, NCHAN {}",
            self.bits,
            1 + usize::from(self.complex),
            self.polarisations,
            self.channels
        )
    }
}

/// The start whose whole seconds are `UTC_START`, and the rest `PICOSECONDS`.
fn below_a_second(start: Timestamp, picoseconds: u64) -> Result<Timestamp, String> {
    let stated = start.subsec_nanosecond();
    let nanoseconds = picoseconds.saturating_add(500) / 1000;
    if picoseconds >= 1_000_000_000_000 {
        return Err(format!("PICOSECONDS {picoseconds}: expected less than those of a second"));
    }
    match stated {
        0 => time::later(start, nanoseconds as f64 / 1e9).ok_or_else(|| {
            format!("PICOSECONDS {picoseconds}: expected a start in the years 1 to 9999")
        }),
        _ if i64::from(stated).abs_diff(nanoseconds as i64) <= 1 => Ok(start),
        _ => Err(format!(
            "PICOSECONDS {picoseconds}, and UTC_START with {stated} ns below a second: expected one of them, or the same"
        )),
    }
}

/// Reads the header of a file or stream.
fn read_header(input: &mut Input) -> Result<Header> {
    let path = input.path().to_owned();
    let fault = |reason: String| Error::file(&path, reason);
    let start = input.peek(HEADER as usize)?.to_vec();
    let header = Header::parse(&start).map_err(fault);
    // Fields that are missing here may stand further on.
    let bytes = match (&header, header_size(&start)) {
        (_, Some(bytes)) => bytes,
        (Ok(header), None) => header.bytes,
        (Err(_), None) => HEADER,
    };
    if !(1..=HEADER_LIMIT).contains(&bytes) {
        return Err(fault(format!("HDR_SIZE {bytes}: expected 1 to {HEADER_LIMIT}")));
    }
    let text = input.peek(bytes as usize)?.to_vec();
    if (text.len() as u64) < bytes {
        let found = text.len();
        return Err(fault(format!("truncated: {found} bytes, expected a DADA header of {bytes}")));
    }
    Header::parse(&text).map_err(fault)
}

/// `HDR_SIZE` of a header that may be longer than what is there.
fn header_size(start: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(start);
    let mut words = text.lines().map(str::split_whitespace);
    words.find_map(|mut words| (words.next()? == "HDR_SIZE").then(|| words.next()?.parse().ok())?)
}

/// A file or stream of a recording.
#[derive(Debug)]
struct Part {
    input: Input,
    /// Byte of its first sample.
    data: u64,
    /// Its times in the recording; a stream's end is not known.
    times: Range<u64>,
}

/// A recording in DADA files, or from a stream, as raw or as channelised voltages.
#[derive(Debug)]
pub(super) struct Dada<S> {
    shape: S,
    header: Header,
    /// Ascending in time.
    parts: Vec<Part>,
    gaps: Vec<Range<u64>>,
    times: u64,
    position: u64,
    /// Bytes of a time.
    step: usize,
    left_out: Option<String>,
    keep_going: bool,
    pace: Pace,
}

impl Dada<RawShape> {
    /// A recording of raw voltages.
    ///
    /// # Errors
    /// As for [`open_raw`](super::open_raw).
    pub fn raw(inputs: Vec<Input>, options: &Options) -> Result<Self> {
        if let Some(layout) = options.raw_layout.filter(|&layout| layout != RawLayout::Tn) {
            let reason = format!("DADA is read as tn, not {layout}");
            return Err(Error::file(inputs[0].path(), reason));
        }
        Self::open(inputs, options, |header| Ok(header.raw_shape()))
    }
}

impl Dada<Shape> {
    /// A recording of channels.
    ///
    /// # Errors
    /// As for [`open`](super::open).
    pub fn channels(inputs: Vec<Input>, options: &Options) -> Result<Self> {
        Self::open(inputs, options, |header| {
            let (encoding, layout) = (Encoding::Ci8, Layout::Tcn);
            if header.raw_shape().encoding != encoding.into() {
                return Err(format!(
                    "{}: expected complex samples of 8 bits, for voltages in channels, or corrust \
                     channelise, for raw ones",
                    header.describe()
                ));
            }
            if let Some(asked) = options.encoding.filter(|&asked| asked != encoding) {
                return Err(format!("DADA with NBIT 8, NDIM 2 holds ci8 samples, not {asked}"));
            }
            if let Some(asked) = options.layout.filter(|&asked| asked != layout) {
                return Err(format!("DADA is read as tcn, not {asked}"));
            }
            let (inputs, channels) = (header.polarisations, header.channels);
            Ok(Shape { inputs, channels, encoding, layout })
        })
    }
}

impl<S> Dada<S> {
    fn open(
        inputs: Vec<Input>,
        options: &Options,
        shape: impl Fn(&Header) -> Result<S, String>,
    ) -> Result<Self> {
        let mut files: Vec<(Header, Input)> = Vec::with_capacity(inputs.len());
        for mut input in inputs {
            let header = read_header(&mut input)?;
            if let Some((first, before)) = files.first()
                && (header.describe(), header.interval) != (first.describe(), first.interval)
            {
                return Err(Error::file(
                    input.path(),
                    format!(
                        "{}, TSAMP {:?} s: expected {}, {:?} s as in {}",
                        header.describe(),
                        header.interval.unwrap_or_default(),
                        first.describe(),
                        first.interval.unwrap_or_default(),
                        before.path().display()
                    ),
                ));
            }
            if input.length().is_none() && !files.is_empty()
                || files.iter().any(|(_, input)| input.length().is_none())
            {
                let reason = "a stream among other files: expected it alone";
                return Err(Error::file(input.path(), reason));
            }
            files.push((header, input));
        }
        files.sort_by_key(|(header, _)| header.offset);
        let (first, path) = match files.first() {
            Some((header, input)) => (header.clone(), input.path().to_owned()),
            None => return Err(Error::invalid("no input file: a recording needs at least 1")),
        };
        let shape = shape(&first).map_err(|reason| Error::file(&path, reason))?;
        let pace = Pace::new(&path, options, first.interval, "TSAMP says");
        let step = first.step();
        let (mut end, mut held) = (0, 0);
        let mut left_out = None;
        let count = files.len();
        let (mut gaps, mut parts): (Vec<Range<u64>>, Vec<Part>) = (Vec::new(), Vec::new());
        for (index, (header, input)) in files.into_iter().enumerate() {
            let path = input.path().to_owned();
            let fault = |reason: String| Error::file(&path, reason);
            if first.start != header.start {
                return Err(fault("UTC_START: expected that of the recording's first file".into()));
            }
            let Some(length) = input.length() else {
                parts.push(Part { input, data: header.bytes, times: 0..u64::MAX });
                end = u64::MAX;
                break;
            };
            let bytes = length.saturating_sub(header.bytes);
            let (mut times, rest) = (bytes / step as u64, bytes % step as u64);
            if rest > 0 {
                let reason = format!(
                    "truncated: {bytes} bytes of samples, expected a multiple of {step}, the bytes of \
                     one time"
                );
                if index + 1 < count {
                    return Err(fault(reason));
                } else if !options.keep_going {
                    return Err(fault(reason + "; --keep-going leaves this last time out"));
                }
                left_out = Some(format!("{}: {reason}", path.display()));
            }
            let offset = header.offset - first.offset;
            if !offset.is_multiple_of(step as u64) {
                return Err(fault(format!(
                    "OBS_OFFSET {}, {offset} bytes after the first file's: expected a multiple of {step}",
                    header.offset
                )));
            }
            // Files that do not say follow each other.
            let silent = count > 1 && header.offset == 0 && first.offset == 0 && index > 0;
            let start = if silent { end } else { offset / step as u64 };
            if start < end {
                return Err(fault(format!(
                    "OBS_OFFSET {}: expected at least {}, where the file before it ends",
                    header.offset,
                    first.offset + end * step as u64
                )));
            }
            if start > end {
                let gap = start - end;
                if gap > held + times && !options.long_gaps {
                    return Err(fault(format!(
                        "OBS_OFFSET {}: {gap} times are missing before it, more than the {} of all data; \
                         --long-gaps takes them as missing",
                        header.offset,
                        held + times
                    )));
                }
                gaps.push(end..start);
            }
            held += times;
            times += start;
            parts.push(Part { input, data: header.bytes, times: start..times });
            end = times;
        }
        Ok(Self {
            shape,
            header: first,
            parts,
            gaps,
            times: end,
            position: 0,
            step,
            left_out,
            keep_going: options.keep_going,
            pace,
        })
    }

    /// Fills `bytes` with times from the position on, and returns how many there are: fewer where a stream
    /// ends.
    fn read(
        &mut self,
        times: usize,
        bytes: &mut [u8],
        missing: &mut Vec<Missing>,
    ) -> Result<usize> {
        let step = self.step;
        let mut filled = 0;
        while filled < times {
            let left = (times - filled) as u64;
            let position = self.position;
            let Some(part) = self.parts.iter_mut().find(|part| position < part.times.end) else {
                break;
            };
            let start = filled;
            if position < part.times.start {
                filled += left.min(part.times.start - position) as usize;
                bytes[start * step..filled * step].fill(0);
                missing.push(Missing::times(start..filled));
            } else if part.input.length().is_some() {
                filled += left.min(part.times.end - position) as usize;
                let at = part.data + (position - part.times.start) * step as u64;
                part.input.read_at(at, &mut bytes[start * step..filled * step])?;
            } else {
                if position == 0 {
                    // Past the header, which has been looked at.
                    part.input.read_on(&mut vec![0; part.data as usize])?;
                }
                let found = part.input.read_on(&mut bytes[start * step..times * step])?;
                filled += found / step;
                if found < left as usize * step {
                    part.times.end = position + (filled - start) as u64;
                    self.times = part.times.end;
                    if found % step > 0 && !self.keep_going {
                        let reason = format!(
                            "truncated: it ended within a time of {step} bytes; --keep-going leaves this \
                             last time out"
                        );
                        return Err(Error::file(part.input.path(), reason));
                    }
                }
            }
            self.position += (filled - start) as u64;
        }
        Ok(filled)
    }
}

impl<S: Copy + Send> Recording<S> for Dada<S> {
    fn shape(&self) -> S {
        self.shape
    }

    fn times(&self) -> u64 {
        self.times
    }

    fn interval(&self) -> Option<f64> {
        self.pace.interval
    }

    fn start(&self) -> Option<Timestamp> {
        let seconds = (self.header.offset / self.step as u64) as f64 * self.pace.interval?;
        time::later(self.header.start?, seconds)
    }

    fn frequencies(&self) -> Option<Channels> {
        self.header.frequencies.clone()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("format", "DADA".into())];
        facts.extend(named_facts(&self.header.telescope, &self.header.source));
        facts.push(("polarisations", self.header.polarisations.to_string()));
        facts.push(("channels", self.header.channels.to_string()));
        facts
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let left = self.times - self.position;
        let times = usize::try_from(left).map_or(times, |left| times.min(left));
        block.reset_bytes(times * self.step, times)?;
        let filled = self.read(times, &mut block.samples, &mut block.missing)?;
        block.samples.truncate(filled * self.step);
        block.times = filled;
        Ok(filled)
    }

    fn gaps(&self) -> &[Range<u64>] {
        &self.gaps
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        if self.parts.iter().any(|part| part.input.length().is_none()) {
            return read_past(self, times, self.step);
        }
        self.position = self.position.saturating_add(times).min(self.times);
        Ok(())
    }

    fn left_out(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    fn contradiction(&self) -> Option<&str> {
        self.pace.contradiction.as_deref()
    }
}
