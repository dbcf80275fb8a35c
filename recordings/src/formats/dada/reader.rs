//! Reading of DADA.

use std::{borrow::Cow, ops::Range};

use corrust_host::{
    Encoding, Error, Layout, Result,
    samples::{Missing, RawEncoding, RawLayout, RawShape, Shape},
};

use crate::array::{
    file::{Channels, PhaseCenter},
    time::{self, Timestamp},
};
use crate::formats::{
    input::Input,
    number::{direction, real, sexagesimal, whole},
    options::{MOST_INPUTS, Options, Pace, cut_short, leave_out, named_facts},
    psrdada::header_size,
    recording::{Block, Recording, read_past},
};

/// Bytes of a header that does not say.
pub(super) const HEADER: u64 = 4096;

/// Most bytes and times of a heap.
const HEAP_LIMIT: u64 = 1 << 30;
const HEAP_TIMES: u64 = 1 << 20;

/// Times of a heap of MeerKAT's beamformer.
const MKBF_TIMES: u64 = 256;

/// Longest header that is read.
const HEADER_LIMIT: u64 = 1 << 20;

/// Whether a file's first bytes are a header's.
pub(in crate::formats) fn is_header(start: &[u8]) -> bool {
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
    /// Whether integers are offset binary.
    offset_binary: bool,
    antennas: usize,
    polarisations: usize,
    channels: usize,
    order: Order,
    /// Seconds from one sample to the next.
    interval: Option<f64>,
    start: Option<Timestamp>,
    /// Bytes from the start of the observation.
    offset: u64,
    /// Bytes that the file shares with its neighbours, each.
    overlap: u64,
    /// Centre and width, hertz.
    band: Option<[f64; 2]>,
    telescope: Option<String>,
    source: Option<String>,
    /// Right ascension and declination of the source, degrees.
    direction: Option<[f64; 2]>,
}

/// Order of samples in a heap.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Order {
    /// Times of a heap.
    times: usize,
    /// Samples from one to the next of times, channels, antennas and polarisations.
    strides: [usize; 4],
}

impl Order {
    /// Parses `order`, axes by their letters, the slowest first. `extents`: channels, antennas and polarisations; the
    /// error is the reason alone.
    fn parse(order: &str, inner: Option<u64>, extents: [usize; 3]) -> Result<Self, String> {
        const LETTERS: [char; 4] = ['T', 'F', 'A', 'P'];
        let [channels, antennas, polarisations] = extents;
        let fault = |expected: &str| Err(format!("ORDER {order:?}: expected {expected}"));
        let place = |letter: char| LETTERS.iter().position(|&known| known == letter);
        let Some(axes) = order.chars().map(place).collect::<Option<Vec<usize>>>() else {
            return fault("the letters T, F, A and P");
        };
        // Axes of length 1 may stand anywhere, or nowhere.
        let long = [true, channels > 1, antennas > 1, polarisations > 1];
        let axes: Vec<usize> = axes.into_iter().filter(|&axis| long[axis]).collect();
        let count = |of: usize| axes.iter().filter(|&&axis| axis == of).count();
        if let Some(axis) = (1..4).find(|&axis| long[axis] && count(axis) != 1) {
            return fault(&format!("{} once, for there is more than one", LETTERS[axis]));
        }
        let times = match (axes.first(), count(0), inner) {
            (Some(0), 1, _) => 1,
            (Some(0), 2, Some(times)) if (1..=HEAP_TIMES).contains(&times) => times as usize,
            (Some(0), 2, Some(times)) => {
                return Err(format!("INNER_T {times}: expected 1 to {HEAP_TIMES}"));
            }
            (Some(0), 2, None) => return fault("INNER_T, the times of a heap, beside it"),
            _ => return fault("TFP or another with time slowest, and T twice at most"),
        };
        let extents = [times, channels, antennas, polarisations];
        let (mut strides, mut stride) = ([0; 4], 1_usize);
        for &axis in axes[1..].iter().rev() {
            strides[axis] = stride;
            stride = stride.saturating_mul(extents[axis]);
        }
        Ok(Self { times, strides })
    }
}

/// Fields of a header by their names.
struct Fields<'a>(Cow<'a, str>);

impl Fields<'_> {
    /// The text of a field.
    fn text(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines().map(|line| line.split('#').next().unwrap_or_default());
        lines.find_map(|line| {
            let (found, value) = line.trim().split_once(char::is_whitespace)?;
            (found == name).then(|| value.trim())
        })
    }

    /// The whole number of a field, if it is there.
    fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let value = |text: &str| {
            whole(text).ok_or_else(|| format!("{name} {text:?}: expected a whole number"))
        };
        self.text(name).map(value).transpose()
    }

    /// The length of an axis, 1 without the field.
    fn length(&self, name: &str) -> Result<usize, String> {
        let value = self.number(name)?.unwrap_or(1);
        usize::try_from(value)
            .ok()
            .filter(|value| (1..=MOST_INPUTS).contains(value))
            .ok_or_else(|| format!("{name} {value}: expected 1 to {MOST_INPUTS}"))
    }

    /// Bits of a component, and whether samples are complex.
    fn sample(&self) -> Result<(usize, bool), String> {
        let bits = match self.number("NBIT")? {
            Some(bits @ (8 | 16 | 32)) => bits as usize,
            Some(bits) => return Err(format!("NBIT {bits}: expected 8, 16 or 32")),
            None => return Err("no NBIT in its DADA header".to_owned()),
        };
        match self.number("NDIM")?.unwrap_or(1) {
            1 => Ok((bits, false)),
            2 => Ok((bits, true)),
            other => Err(format!("NDIM {other}: expected 1 (real) or 2 (complex)")),
        }
    }

    /// Whether integers are offset binary.
    fn offset_binary(&self, bits: usize) -> Result<bool, String> {
        let Some(text) = self.text("ENCODING") else { return Ok(false) };
        let letters = text.chars().filter(char::is_ascii_alphanumeric);
        match &letters.collect::<String>().to_ascii_uppercase()[..] {
            "TWOSCOMPLEMENT" | "SIGNED" => Ok(false),
            "OFFSETBINARY" | "OFFSET" if bits < 32 => Ok(true),
            _ => Err(format!(
                "ENCODING {text}: expected TWOSCOMPLEMENT, or OFFSETBINARY of NBIT 8 and 16"
            )),
        }
    }

    /// Order of the samples of `extents` channels, antennas and polarisations.
    fn order(&self, extents @ [_, antennas, _]: [usize; 3]) -> Result<Order, String> {
        let instrument = self.text("INSTRUMENT").unwrap_or_default();
        let (order, inner) = match self.text("ORDER") {
            Some(order) => (order, self.number("INNER_T")?),
            None if antennas > 1 => {
                return Err(format!("NANT {antennas} without ORDER: expected one, as TAFTP"));
            }
            None if instrument == "MKBF" => ("TPFT", Some(MKBF_TIMES)),
            // Others of MeerKAT have heaps whose order, or whose parts' order, their headers do not say.
            None if instrument.starts_with("MKBF") || instrument == "MeerKAT" => {
                return Err(format!(
                    "INSTRUMENT {instrument} without ORDER: expected one, or INSTRUMENT MKBF"
                ));
            }
            None => ("TFP", None),
        };
        Order::parse(order, inner, extents)
    }

    /// The start of the observation.
    fn start(&self) -> Result<Option<Timestamp>, String> {
        let Some(text) = self.text("UTC_START") else { return Ok(None) };
        let start = match time::parse_moment(text) {
            Ok(start) => start,
            Err(_) if text.chars().all(char::is_alphabetic) => return Ok(None),
            Err(error) => return Err(format!("UTC_START {error}")),
        };
        match self.number("PICOSECONDS")? {
            None | Some(0) => Ok(Some(start)),
            Some(picoseconds) => below_a_second(start, picoseconds).map(Some),
        }
    }

    /// Seconds from one sample to the next.
    fn interval(&self) -> Result<Option<f64>, String> {
        let seconds = |text: &str| {
            real(text)
                .filter(|&micro| micro > 0.0)
                .map(|micro| micro / 1e6)
                .ok_or_else(|| format!("TSAMP {text:?}: expected microseconds"))
        };
        self.text("TSAMP").map(seconds).transpose()
    }
}

impl Header {
    /// Understands a header's text; the error is the reason alone.
    fn parse(text: &[u8]) -> Result<Self, String> {
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        let fields = Fields(String::from_utf8_lossy(text));
        let (bits, complex) = fields.sample()?;
        let polarisations = fields.length("NPOL")?;
        let (channels, antennas) = (fields.length("NCHAN")?, fields.length("NANT")?);
        let inputs = polarisations.saturating_mul(channels).saturating_mul(antennas);
        if inputs > MOST_INPUTS {
            return Err(format!(
                "NPOL {polarisations}, NCHAN {channels}, NANT {antennas}: expected at most {MOST_INPUTS} inputs"
            ));
        }
        let order = fields.order([channels, antennas, polarisations])?;
        if fields.text("INSTRUMENT") == Some("APSR") && bits == 8 {
            return Err(
                "INSTRUMENT APSR with NBIT 8, whose bytes have their bits in reverse: expected another"
                    .to_owned(),
            );
        }
        let sample = (bits / 8 * (1 + usize::from(complex))) as u64;
        let heap = (order.times as u64).saturating_mul(inputs as u64).saturating_mul(sample);
        if order.times > 1 && heap > HEAP_LIMIT {
            return Err(format!("heaps of {heap} bytes: expected at most {HEAP_LIMIT}"));
        }
        let voltages =
            |state: &&str| ["nyquist", "analytic"].contains(&&state.to_ascii_lowercase()[..]);
        if let Some(state) = fields.text("STATE").filter(|state| !voltages(state)) {
            return Err(format!(
                "STATE {state}: expected Nyquist or Analytic, which are voltages, not powers"
            ));
        }
        // Fields that are not needed here may hold anything.
        let megahertz = |name: &str| Some(1e6 * real(fields.text(name)?)?);
        let band = megahertz("FREQ").zip(megahertz("BW")).map(|(centre, width)| [centre, width]);
        let angle = |name: &str| sexagesimal(fields.text(name)?);
        let owned = |name: &str| fields.text(name).map(str::to_owned);
        Ok(Self {
            offset_binary: fields.offset_binary(bits)?,
            start: fields.start()?,
            bytes: fields.number("HDR_SIZE")?.unwrap_or(HEADER),
            bits,
            complex,
            antennas,
            polarisations,
            channels,
            order,
            interval: fields.interval()?,
            offset: fields.number("OBS_OFFSET")?.unwrap_or(0),
            overlap: fields.number("OBS_OVERLAP")?.unwrap_or(0),
            band: band.filter(|[_, width]| width.is_normal()),
            telescope: owned("TELESCOPE"),
            source: owned("SOURCE"),
            direction: direction(angle("RA").map(|hours| 15.0 * hours), angle("DEC")),
        })
    }

    /// Bytes of a sample.
    fn sample(&self) -> usize {
        self.bits / 8 * (1 + usize::from(self.complex))
    }

    /// Bytes of a time.
    fn step(&self) -> usize {
        self.sample() * self.inputs() * self.channels
    }

    /// Inputs of a channel.
    fn inputs(&self) -> usize {
        self.antennas * self.polarisations
    }

    /// Bytes of what cannot be read in part: a time, or a heap.
    fn heap(&self) -> usize {
        self.step() * self.order.times
    }

    /// Whether samples lie as they are read, `[time][channel][antenna][polarisation]`.
    fn is_plain(&self) -> bool {
        let plain = [self.inputs(), self.polarisations, 1];
        let extents = [self.channels, self.antennas, self.polarisations];
        let axes = self.order.strides[1..].iter().zip(plain).zip(extents);
        self.order.times == 1
            && axes.into_iter().all(|((&stride, plain), extent)| extent == 1 || stride == plain)
    }

    /// Brings the samples of a heap into order.
    fn sort(&self, heap: &[u8], sorted: &mut [u8]) {
        let sample = self.sample();
        let [of_time, of_channel, of_antenna, of_polarisation] = self.order.strides;
        let mut to = sorted.chunks_exact_mut(sample);
        for time in 0..self.order.times {
            for channel in 0..self.channels {
                for antenna in 0..self.antennas {
                    let first = time * of_time + channel * of_channel + antenna * of_antenna;
                    for polarisation in 0..self.polarisations {
                        let from = (first + polarisation * of_polarisation) * sample;
                        let Some(to) = to.next() else { return };
                        to.copy_from_slice(&heap[from..from + sample]);
                    }
                }
            }
        }
    }

    /// Makes integers of offset binary two's complement.
    fn recode(&self, samples: &mut [u8]) {
        if self.offset_binary {
            let part = self.bits / 8;
            samples.iter_mut().skip(part - 1).step_by(part).for_each(|byte| *byte ^= 0x80);
        }
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
        let inputs = self.inputs() * self.channels;
        RawShape { inputs, encoding, layout: RawLayout::Tn }
    }

    /// In words, what every file of a recording shares.
    fn describe(&self) -> String {
        let text = format!(
            "NBIT {}, NDIM {}, NPOL {}, NCHAN {}",
            self.bits,
            1 + usize::from(self.complex),
            self.polarisations,
            self.channels
        );
        match self.antennas {
            1 => text,
            antennas => format!("{text}, NANT {antennas}"),
        }
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

/// A file or stream of a recording.
#[derive(Debug)]
struct DadaFile {
    input: Input,
    /// Byte of its first sample; one within the file where a file before it has the first ones.
    data: u64,
    /// Its times in the recording; a stream's end is not known.
    times: Range<u64>,
}

/// A recording in DADA files, or from a stream, as raw or as channelised voltages.
#[derive(Debug)]
pub(in crate::formats) struct Dada<S> {
    shape: S,
    header: Header,
    /// Ascending in time.
    parts: Vec<DadaFile>,
    gaps: Vec<Range<u64>>,
    times: u64,
    position: u64,
    /// Bytes of a time.
    step: usize,
    /// The heap that was read last, in order, and its first time.
    heap: (Vec<u8>, Option<u64>),
    scratch: Vec<u8>,
    left_out: Option<String>,
    keep_going: bool,
    pace: Pace,
}

impl Dada<RawShape> {
    /// A recording of raw voltages.
    ///
    /// # Errors
    /// As for [`open_raw`](crate::formats::open_raw).
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
    /// As for [`open`](crate::formats::open).
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
            let (inputs, channels) = (header.inputs(), header.channels);
            Ok(Shape { inputs, channels, encoding, layout })
        })
    }
}

/// Headers of files, which are checked to be of one recording, ascending in time.
fn sorted(inputs: Vec<Input>) -> Result<Vec<(Header, Input)>> {
    let mut files: Vec<(Header, Input)> = Vec::with_capacity(inputs.len());
    for mut input in inputs {
        let header = read_header(&mut input)?;
        if let Some((first, before)) = files.first()
            && (header.describe(), header.interval, header.order, header.offset_binary)
                != (first.describe(), first.interval, first.order, first.offset_binary)
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
    Ok(files)
}

impl<S> Dada<S> {
    fn open(
        inputs: Vec<Input>,
        options: &Options,
        shape: impl Fn(&Header) -> Result<S, String>,
    ) -> Result<Self> {
        let files = sorted(inputs)?;
        let Some((first, path)) = files.first() else {
            return Err(Error::invalid("no input file: a recording needs at least 1"));
        };
        let (first, path) = (first.clone(), path.path().to_owned());
        let shape = shape(&first).map_err(|reason| Error::file(&path, reason))?;
        let pace = Pace::new(&path, options, first.interval, "TSAMP says");
        let step = first.step();
        let mut opened = Self {
            shape,
            header: first,
            parts: Vec::new(),
            gaps: Vec::new(),
            times: 0,
            position: 0,
            step,
            heap: (Vec::new(), None),
            scratch: Vec::new(),
            left_out: None,
            keep_going: options.keep_going,
            pace,
        };
        let count = files.len();
        for (index, (header, input)) in files.into_iter().enumerate() {
            opened.append(&header, input, (index, count), options.long_gaps)?;
        }
        Ok(opened)
    }

    /// Appends the file `index` of `count`, which comes next in time, or after times that are missing.
    fn append(
        &mut self,
        header: &Header,
        input: Input,
        (index, count): (usize, usize),
        long_gaps: bool,
    ) -> Result<()> {
        let first = &self.header;
        let path = input.path().to_owned();
        let fault = |reason: String| Err(Error::file(&path, reason));
        if first.start != header.start {
            return fault("UTC_START: expected that of the recording's first file".into());
        }
        let Some(length) = input.length() else {
            self.parts.push(DadaFile { input, data: header.bytes, times: 0..u64::MAX });
            self.times = u64::MAX;
            return Ok(());
        };
        let (step, heap, of_heap) =
            (self.step as u64, first.heap() as u64, first.order.times as u64);
        let bytes = length.saturating_sub(header.bytes);
        let (mut times, rest) = (bytes / heap * of_heap, bytes % heap);
        let unit = if of_heap > 1 { "heap" } else { "time" };
        if rest > 0 {
            let reason = format!(
                "truncated: {bytes} bytes of samples, expected a multiple of {heap}, the bytes of \
                 one {unit}"
            );
            let last = index + 1 == count;
            self.left_out = Some(leave_out(&path, &reason, unit, (last, self.keep_going))?);
        }
        let offset = header.offset - first.offset;
        if !offset.is_multiple_of(heap) {
            return fault(format!(
                "OBS_OFFSET {}, {offset} bytes after the first file's: expected a multiple of {heap}",
                header.offset
            ));
        }
        if !header.overlap.is_multiple_of(heap) {
            return fault(format!(
                "OBS_OVERLAP {}: expected a multiple of {heap}, the bytes of one {unit}",
                header.overlap
            ));
        }
        // Files that do not say follow each other, but for what they share.
        let silent = count > 1 && header.offset == 0 && first.offset == 0 && index > 0;
        let (end, overlap) = (self.times, header.overlap / step);
        let mut start = if silent { end.saturating_sub(overlap) } else { offset / step };
        let mut data = header.bytes;
        if start < end && end - start <= overlap {
            // The previous file has these times.
            let shared = (end - start).min(times);
            (start, times, data) = (start + shared, times - shared, data + shared * step);
            if times == 0 {
                return Ok(());
            }
        }
        if start < end {
            return fault(format!(
                "OBS_OFFSET {}: expected at least {}, where the file before it ends",
                header.offset,
                first.offset + end * step
            ));
        }
        if start > end {
            let held = self.parts.iter().map(|part| part.times.end - part.times.start);
            let (gap, all) = (start - end, held.sum::<u64>() + times);
            if gap > all && !long_gaps {
                return fault(format!(
                    "OBS_OFFSET {}: {gap} times are missing before it, more than the {all} of all data; \
                     --long-gaps takes them as missing",
                    header.offset
                ));
            }
            self.gaps.push(end..start);
        }
        self.times = start + times;
        self.parts.push(DadaFile { input, data, times: start..self.times });
        Ok(())
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
            let position = self.position;
            let Some(part) = self.parts.iter().position(|part| position < part.times.end) else {
                break;
            };
            let Range { start, end } = self.parts[part].times;
            let rest = &mut bytes[filled * step..times * step];
            let left = (times - filled) as u64;
            let read = if position < start {
                let read = left.min(start - position) as usize;
                rest[..read * step].fill(0);
                missing.push(Missing::times(filled..filled + read));
                read
            } else if self.header.order.times > 1 {
                self.read_heap(part, rest)?
            } else {
                let most = left.min(end - position) as usize;
                self.read_times(part, &mut rest[..most * step])?
            };
            if read == 0 {
                break;
            }
            filled += read;
            self.position += read as u64;
        }
        Ok(filled)
    }

    /// Reads on in a stream, and returns the number of bytes that there are: fewer where it ends.
    fn read_on(&mut self, part: usize, bytes: &mut [u8], unit: &str) -> Result<usize> {
        let DadaFile { input, data, times } = &mut self.parts[part];
        if self.position == 0 {
            // Past the header, which has been looked at.
            input.read_on(&mut vec![0; *data as usize])?;
        }
        let found = input.read_on(bytes)?;
        if found < bytes.len() {
            let of_unit = self.step * self.header.order.times;
            times.end = self.position + (found / of_unit * self.header.order.times) as u64;
            self.times = times.end;
            if found % of_unit > 0 && !self.keep_going {
                let reason = format!("truncated: it ended within a {unit} of {of_unit} bytes");
                return Err(cut_short(input.path(), &reason, unit));
            }
        }
        Ok(found)
    }

    /// Reads the times of the heap at the position, as many as `bytes` have room for; returns how many they are, none where a
    /// stream ends.
    fn read_heap(&mut self, part: usize, bytes: &mut [u8]) -> Result<usize> {
        let (step, of_heap) = (self.step, self.header.order.times);
        let DadaFile { input, data, times } = &mut self.parts[part];
        let within = ((self.position - times.start) % of_heap as u64) as usize;
        let first = self.position - within as u64;
        if self.heap.1 != Some(first) {
            // No heap is held until the whole of the next one was read.
            self.heap.1 = None;
            self.heap.0.resize(of_heap * step, 0);
            let mut heap = std::mem::take(&mut self.scratch);
            heap.resize(of_heap * step, 0);
            if input.length().is_some() {
                input.read_at(*data + (first - times.start) * step as u64, &mut heap)?;
            } else if self.read_on(part, &mut heap, "heap")? < heap.len() {
                return Ok(0);
            }
            self.header.sort(&heap, &mut self.heap.0);
            self.scratch = heap;
            self.heap.1 = Some(first);
        }
        let read = (of_heap - within).min(bytes.len() / step);
        let bytes = &mut bytes[..read * step];
        bytes.copy_from_slice(&self.heap.0[within * step..(within + read) * step]);
        self.header.recode(bytes);
        Ok(read)
    }

    /// Reads times that are in no heaps; returns how many they are, fewer where a stream ends.
    fn read_times(&mut self, part: usize, bytes: &mut [u8]) -> Result<usize> {
        let step = self.step;
        let DadaFile { input, data, times } = &mut self.parts[part];
        let found = if input.length().is_some() {
            let at = *data + (self.position - times.start) * step as u64;
            input.read_at(at, bytes)?;
            bytes.len()
        } else {
            self.read_on(part, bytes, "time")?
        };
        let bytes = &mut bytes[..found / step * step];
        if !self.header.is_plain() {
            self.scratch.resize(step, 0);
            for time in bytes.chunks_exact_mut(step) {
                self.scratch.copy_from_slice(time);
                self.header.sort(&self.scratch, time);
            }
        }
        self.header.recode(bytes);
        Ok(found / step)
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
        let [centre, width] = self.header.band?;
        Channels::of_band(centre, width, self.header.channels as u64)
    }

    fn band(&self) -> Option<[f64; 2]> {
        self.header.band
    }

    fn source(&self) -> Option<PhaseCenter> {
        let [ra, dec] = self.header.direction?;
        Some(PhaseCenter { name: self.header.source.clone()?, ra, dec })
    }

    fn polarisations(&self) -> usize {
        self.header.polarisations
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("format", "DADA".into())];
        facts.extend(named_facts(&self.header.telescope, &self.header.source));
        if self.header.antennas > 1 {
            facts.push(("antennas", self.header.antennas.to_string()));
        }
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
