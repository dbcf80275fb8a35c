//! VDIF, the VLBI Data Interchange Format.
//!
//! A file is a sequence of frames of one length: a header of 32 bytes (16 in legacy frames) and samples of
//! one thread, `[time][channel]`, complex ones `[real][imaginary]`, in offset binary from the least
//! significant bits on. Words are little-endian.
//!
//! - The index of an input is `thread * channels + channel`, threads in ascending order of their numbers.
//! - A frame's time is the second since a reference epoch (every half year from 2000 on) and its number
//!   within the second. How many frames a second has follows from the rate: the caller's, or the
//!   header (extended data versions 1 and 3), or else the highest number in a second.
//! - The header's bit for invalid data, and the mask of channels of extended data version 4, make samples
//!   missing. Of a frame with that bit only the length is believed: recorders write frames of `0x11223344` under
//!   headers of nothing but the bit and the length where data were lost.
//! - Version 0xab holds frames of Mark 5B, whose codes are brought into VDIF's order.
//!
//! Source: VDIF Specification, release 1.1.1, 2014; the registry of extended data versions of vlbi.org.

use std::{borrow::Cow, path::Path};

use corrust_host::{Error, Result, partial::PartialFile, samples::RawEncoding};
use jiff::{civil, tz::TimeZone};

use super::{
    frames::{Fault, Framing},
    input::Input,
    mark5b,
    placing::{Geometry, Stamp, Validity},
};
use crate::array::time::{self, Timestamp};

/// Bytes of a full header.
#[doc(hidden)]
pub const HEADER: usize = 32;

/// Bytes of a legacy header.
const LEGACY: usize = 16;

/// Word 5 of extended data versions 1, 3 and 4.
const SYNC: u32 = 0xacab_feed;

const SECONDS_PER_DAY: i64 = 86_400;

/// A header's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whether the samples are invalid.
    pub invalid: bool,
    /// Whether the header has 16 bytes.
    pub legacy: bool,
    /// Seconds since the reference epoch.
    pub seconds: u32,
    /// Half years from 2000 to the reference epoch.
    pub epoch: u8,
    /// The frame's number within the second.
    pub number: u32,
    /// Version of the format.
    pub version: u8,
    /// Binary logarithm of the number of channels.
    pub channels_log2: u8,
    /// Bytes of the frame, header included.
    pub bytes: usize,
    /// Whether samples are complex.
    pub complex: bool,
    /// Bits of a component.
    pub bits: u8,
    /// Number of the thread.
    pub thread: u16,
    /// Two letters, or a number.
    pub station: u16,
    /// The extended words, zero in a legacy header.
    pub extended: [u32; 4],
}

impl Header {
    /// Understands the first 32 bytes of a frame.
    pub fn parse(bytes: &[u8; HEADER]) -> Self {
        let words: [u32; 8] = std::array::from_fn(|word| {
            u32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * word + byte]))
        });
        let field = |word: usize, first: u32, bits: u32| words[word] >> first & ((1 << bits) - 1);
        let legacy = field(0, 30, 1) == 1;
        let [.., a, b, c, d] = words;
        Self {
            invalid: words[0] >> 31 == 1,
            legacy,
            seconds: field(0, 0, 30),
            epoch: field(1, 24, 6) as u8,
            number: field(1, 0, 24),
            version: field(2, 29, 3) as u8,
            channels_log2: field(2, 24, 5) as u8,
            bytes: 8 * field(2, 0, 24) as usize,
            complex: words[3] >> 31 == 1,
            bits: field(3, 26, 5) as u8 + 1,
            thread: field(3, 16, 10) as u16,
            station: field(3, 0, 16) as u16,
            extended: if legacy { [0; 4] } else { [a, b, c, d] },
        }
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        if self.legacy { LEGACY } else { HEADER }
    }

    /// Version of the extended data; [`None`] for a legacy header.
    pub fn extended_version(&self) -> Option<u8> {
        (!self.legacy).then_some((self.extended[0] >> 24) as u8)
    }

    /// Samples a second that the header says, in hertz.
    pub fn rate(&self) -> Option<f64> {
        let says = matches!(self.extended_version(), Some(1 | 3)) && self.extended[1] == SYNC;
        let rate = f64::from(self.extended[0] & 0x7f_ffff);
        let unit = if self.extended[0] >> 23 & 1 == 1 { 1e6 } else { 1e3 };
        // It counts complex samples, of which each is worth two real ones.
        let components = if self.complex { 1.0 } else { 2.0 };
        (says && rate > 0.0).then_some(rate * unit * components)
    }

    /// Which of the channels are valid.
    #[doc(hidden)]
    pub fn validity(&self, channels: usize) -> Validity {
        if self.invalid {
            return Validity::None;
        }
        let length = (self.extended[0] >> 16 & 0xff) as usize;
        let mask = u64::from(self.extended[3]) << 32 | u64::from(self.extended[2]);
        let full = if length < 64 { (1 << length) - 1 } else { u64::MAX };
        let says = self.extended_version() == Some(4)
            && self.extended[1] == SYNC
            && (1..=64).contains(&length)
            && channels.is_multiple_of(length);
        match mask & full {
            _ if !says => Validity::All,
            0 => Validity::None,
            mask if mask == full => Validity::All,
            mask => Validity::Mask { mask, channels: channels / length },
        }
    }

    /// Seconds since the first Modified Julian Day.
    #[doc(hidden)]
    pub fn second(&self) -> i64 {
        time::day(reference(self.epoch)) * SECONDS_PER_DAY + i64::from(self.seconds)
    }

    /// Whether a frame may follow that of `self` in a recording: apart from the station and the meaning of
    /// its samples, which are an error where they differ.
    fn is_like(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.legacy == other.legacy
    }

    /// The station in letters, or as a number.
    fn station(&self) -> String {
        let letters = self.station.to_be_bytes();
        if letters.iter().all(u8::is_ascii_alphanumeric) {
            letters.map(char::from).iter().collect()
        } else {
            format!("{:#06x}", self.station)
        }
    }

    /// In words, what every frame shares.
    fn describe(&self) -> String {
        format!(
            "{} channels of {} {} bits",
            1_u32 << self.channels_log2,
            if self.complex { "complex" } else { "real" },
            self.bits
        )
    }
}

/// The number of a frame's thread; 0 of bytes that end before it.
pub fn thread(frame: &[u8]) -> usize {
    start_of(frame).map_or(0, |start| Header::parse(&start).thread.into())
}

/// Seconds from the first Modified Julian Day to a moment, without the parts of a second.
#[doc(hidden)]
pub fn second_of(moment: Timestamp) -> i64 {
    time::day(moment) * SECONDS_PER_DAY + moment.as_second().rem_euclid(SECONDS_PER_DAY)
}

/// A whole frame, by itself: its header, and its samples in VDIF's order; [`None`] where bytes are none.
#[doc(hidden)]
pub fn frame(bytes: &[u8]) -> Option<(Header, Cow<'_, [u8]>)> {
    let start = start_of(bytes)?;
    let header = Header::parse(&start);
    let payload = bytes.get(header.header_bytes()..)?;
    // Bytes that are no header seldom have zeros in the reserved bits.
    if header.bytes != bytes.len() || payload.is_empty() || start[7] >> 6 != 0 {
        return None;
    }
    if header.extended_version() != Some(mark5b::EXTENDED) {
        return Some((header, payload.into()));
    }
    let mut payload = payload.to_vec();
    mark5b::recode(header.bits, &mut payload);
    Some((header, payload.into()))
}

/// Start of a reference epoch, which counts half years from 2000 on.
fn reference(epoch: u8) -> Timestamp {
    let (years, half) = (i16::from(epoch / 2), (epoch % 2) as i8);
    let epoch = civil::date(2000 + years, 1 + 6 * half, 1);
    epoch.to_zoned(TimeZone::UTC).expect("a year of this century").timestamp()
}

/// The first bytes of a file as a header; zeros stand for what a legacy header lacks.
fn start_of(bytes: &[u8]) -> Option<[u8; HEADER]> {
    let mut start = [0; HEADER];
    let count = bytes.len().min(HEADER);
    start[..count].copy_from_slice(&bytes[..count]);
    (count == HEADER || count >= LEGACY && Header::parse(&start).legacy).then_some(start)
}

/// Bytes of the frame that `start` begins with, if it is marked invalid.
fn invalid(start: &[u8]) -> Option<usize> {
    let header = Header::parse(&start_of(start)?);
    (header.invalid && header.bytes >= LEGACY + 8).then_some(header.bytes)
}

/// Whether a file begins with a frame, and another one follows it or nothing does.
///
/// # Errors
/// [`Error::Io`](corrust_host::Error::Io).
pub(super) fn is_vdif(input: &mut Input) -> Result<bool> {
    let Some(length) = input.length() else { return Ok(false) };
    let start = input.peek(HEADER)?;
    let Some(start) = start_of(start) else { return Ok(false) };
    let first = Header::parse(&start);
    if matches!(first.extended_version(), Some(1 | 3 | 4)) && first.extended[1] == SYNC {
        return Ok(true);
    }
    let bytes = first.bytes as u64;
    if invalid(&start).is_some() && length >= bytes {
        let mut next = [0; HEADER];
        let rest = (length - bytes).min(HEADER as u64) as usize;
        input.read_at(bytes, &mut next[..rest])?;
        return Ok(rest == 0 || Header::parse(&next).bytes == first.bytes);
    }
    let unassigned = start[7] >> 6;
    if unassigned != 0 || first.bytes < first.header_bytes() + 8 || length < bytes {
        return Ok(false);
    }
    if length < bytes + HEADER as u64 {
        // A file that is cut short is refused when it is read.
        return Ok(length == bytes && first.bits <= 32 && first.version < 2);
    }
    let mut next = [0; HEADER];
    input.read_at(bytes, &mut next)?;
    let next = Header::parse(&next);
    Ok(next.invalid && first.bytes == next.bytes
        || first.is_like(&next) && first.describe() == next.describe())
}

/// Most bytes of samples of a frame that is written: frames go into packets.
const PAYLOAD: usize = 8000;

/// Threads that a header can number.
pub const THREADS: usize = 1 << 10;

/// Times of a frame that [`Framer`] makes, of threads of `channels` channels, a power of two: the most whose frames are a
/// whole number a second, and whole words; [`None`] where there is no such number.
pub fn frame_samples(encoding: RawEncoding, channels: usize, rate: f64) -> Option<usize> {
    let time = encoding.bits() * channels;
    let whole = (1..=PAYLOAD / 8).rev().map(|words| 64 * words).filter(|bits| bits % time == 0);
    whole.map(|bits| bits / time).find(|&samples| (rate / samples as f64).fract() == 0.0)
}

/// First frame of samples that begin at some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstFrame {
    /// When it begins.
    pub start: Timestamp,
    /// Times before it.
    pub before: u64,
    /// Part of a time, at most a half, by which samples are later than headers can say.
    pub beside: f64,
}

impl FirstFrame {
    /// The first frame of `samples` times, `rate` times a second, of samples that begin at `begins`: headers count frames from
    /// whole seconds on.
    ///
    /// ```
    /// use corrust_recordings::{array::time::Timestamp, formats::vdif::FirstFrame};
    ///
    /// let begins: Timestamp = "2026-03-01T00:00:00.00000075Z".parse().unwrap();
    /// let first = FirstFrame::of(begins, 2e6, 500);
    /// assert_eq!(first.start.to_string(), "2026-03-01T00:00:00.00025Z");
    /// assert_eq!((first.before, first.beside), (498, -0.5));
    /// ```
    pub fn of(begins: Timestamp, rate: f64, samples: usize) -> Self {
        let place = f64::from(begins.subsec_nanosecond()) * 1e-9 * rate;
        let (whole, samples) = (place.round() as u64, samples.max(1) as u64);
        let first = whole.next_multiple_of(samples);
        let second = Timestamp::from_second(begins.as_second()).unwrap_or(begins);
        let start = time::later(second, first as f64 / rate).unwrap_or(begins);
        Self { start, before: first - whole, beside: place - whole as f64 }
    }
}

/// Makes frames of samples, for files or packets: threads of one or more channels.
#[derive(Debug)]
pub struct Framer {
    /// The words of the first thread's next header.
    header: [u32; 8],
    frames_per_second: u32,
    /// Bytes of samples of a frame, and times of it.
    payload: usize,
    samples: usize,
    bits: usize,
    /// Bytes of a time of a thread, as they are given.
    time_bytes: usize,
    /// Packed samples of each thread that make no frame yet.
    pending: Vec<Vec<u8>>,
    /// Whether each of their times is there.
    there: Vec<bool>,
}

impl Framer {
    /// Frames of `threads` threads of `channels` channels, a power of two, `rate` times a second from `start` on. Headers
    /// are of extended data version 1, which says the rate, where it is a whole number of kilohertz, or of version 0.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another encoding than VDIF's, more than 1024 threads, a number of channels that VDIF cannot
    /// hold, a rate without a whole number of frames a second, or a start outside of 2000 to 2031 or where no frame begins.
    pub fn new(
        threads: usize,
        channels: usize,
        encoding: RawEncoding,
        rate: f64,
        start: Timestamp,
    ) -> Result<Self> {
        let RawEncoding::Vdif { bits, complex } = encoding else {
            return Err(Error::invalid(format!(
                "{encoding} in VDIF: expected one of its own encodings"
            )));
        };
        if !(1..=THREADS).contains(&threads) {
            return Err(Error::invalid(format!(
                "{threads} inputs in VDIF: expected 1 to {THREADS}, a thread each"
            )));
        }
        if !channels.is_power_of_two() {
            return Err(Error::invalid(format!(
                "{channels} channels in VDIF: expected a power of two"
            )));
        }
        let Some(samples) = frame_samples(encoding, channels, rate) else {
            return Err(Error::invalid(format!(
                "rate of {rate} Hz in VDIF, of {channels} channels: expected one of which frames of whole words, at most \
                 {PAYLOAD} bytes, are a whole number a second"
            )));
        };
        let frames_per_second = rate / samples as f64;
        let epochs = (0..64).rev().map(|epoch| (epoch, reference(epoch)));
        let epoch = epochs.into_iter().find(|(_, reference)| *reference <= start);
        let since = f64::from(start.subsec_nanosecond()) * 1e-9;
        let number = (since * frames_per_second).round();
        let begins =
            (number / frames_per_second - since).abs() < 1e-9 && number < frames_per_second;
        let Some((epoch, reference)) = epoch.filter(|_| begins) else {
            return Err(Error::invalid(format!(
                "start {start} in VDIF: expected a whole second from 2000 on, or where one of {frames_per_second} frames a \
                 second begins"
            )));
        };
        let payload = samples * channels * encoding.bits() / 8;
        // A rate of complex samples, of which each is worth two real ones.
        let kilohertz = rate / if complex { 1e3 } else { 2e3 };
        let says = kilohertz.fract() == 0.0 && (1.0..f64::from(1 << 23)).contains(&kilohertz);
        let seconds = start.as_second() - reference.as_second();
        let header = [
            u32::try_from(seconds).map_or(u32::MAX, |seconds| seconds & ((1 << 30) - 1)),
            u32::from(epoch) << 24 | number as u32,
            (1 << 29) | channels.ilog2() << 24 | ((HEADER + payload) as u32 / 8),
            u32::from(complex) << 31
                | u32::from(bits - 1) << 26
                | u32::from(u16::from_be_bytes(*b"co")),
            if says { 1 << 24 | kilohertz as u32 } else { 0 },
            if says { SYNC } else { 0 },
            0,
            0,
        ];
        Ok(Self {
            header,
            frames_per_second: frames_per_second as u32,
            payload,
            samples,
            bits: usize::from(bits),
            time_bytes: channels * (1 + usize::from(complex)) * usize::from(bits).div_ceil(8),
            pending: vec![Vec::new(); threads],
            there: Vec::new(),
        })
    }

    /// Appends values `-2^(bits - 1)..2^(bits - 1)`, whose codes are `2^(bits - 1)` more, as int8 or of 16 bits int16:
    /// `[thread][time][channel]`, real before imaginary parts, and hands each frame that is complete to `each`. But for the
    /// last ones they are to fill whole bytes.
    ///
    /// # Errors
    /// As of `each`.
    ///
    /// # Panics
    /// When they are not as many of each thread.
    pub fn append(
        &mut self,
        values: &[u8],
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let row = values.len() / self.pending.len();
        assert_eq!(row * self.pending.len(), values.len(), "as many of each thread");
        if row == 0 {
            return Ok(());
        }
        let times = self.there.len() + row / self.time_bytes;
        self.there.resize(times, true);
        for (pending, values) in self.pending.iter_mut().zip(values.chunks_exact(row)) {
            pack(self.bits, values, pending);
        }
        self.frames(each)
    }

    /// Appends `times` times that are missing: zeros, and frames of nothing else are marked invalid.
    ///
    /// # Errors
    /// As of `each`.
    pub fn append_missing(
        &mut self,
        mut times: u64,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let zeros = vec![0; self.samples * self.time_bytes];
        while times > 0 {
            let count = times.min(self.samples as u64) as usize;
            self.there.resize(self.there.len() + count, false);
            for pending in &mut self.pending {
                pack(self.bits, &zeros[..count * self.time_bytes], pending);
            }
            self.frames(each)?;
            times -= count as u64;
        }
        Ok(())
    }

    /// Hands out the frames that are complete.
    fn frames(&mut self, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut bytes = Vec::with_capacity(HEADER + self.payload);
        let frames = self.there.len() / self.samples;
        for (frame, there) in self.there.chunks_exact(self.samples).enumerate() {
            for (thread, pending) in self.pending.iter().enumerate() {
                let mut header = self.header;
                header[0] |= u32::from(!there.contains(&true)) << 31;
                header[3] |= (thread as u32) << 16;
                bytes.clear();
                bytes.extend(header.into_iter().flat_map(u32::to_le_bytes));
                bytes.extend_from_slice(&pending[frame * self.payload..][..self.payload]);
                each(&bytes)?;
            }
            self.header[1] += 1;
            if self.header[1] & 0xff_ffff == self.frames_per_second {
                self.header[1] &= !0xff_ffff;
                self.header[0] += 1;
            }
        }
        self.there.drain(..frames * self.samples);
        for pending in &mut self.pending {
            pending.drain(..frames * self.payload);
        }
        Ok(())
    }

    /// Number of times that do not fill a frame yet.
    pub fn rest(&self) -> usize {
        self.there.len()
    }
}

/// Packs values as codes of `bits` bits.
fn pack(bits: usize, values: &[u8], packed: &mut Vec<u8>) {
    if bits == 16 {
        let codes = values.as_chunks::<2>().0.iter();
        return packed.extend(codes.flat_map(|&[low, high]| [low, high ^ 0x80]));
    }
    let code = |value: u8| value.wrapping_add(1 << (bits - 1)) & (u8::MAX >> (8 - bits));
    let byte = |values: &[u8]| {
        values
            .iter()
            .rev()
            .fold(0, |byte: u8, &value| byte.checked_shl(bits as u32).unwrap_or(0) | code(value))
    };
    packed.extend(values.chunks(8 / bits).map(byte));
}

/// Writes a recording: a thread for each input, of one or more channels. The file appears when it is
/// [finished](Self::finish).
#[derive(Debug)]
pub struct Writer {
    file: PartialFile,
    framer: Framer,
}

impl Writer {
    /// Starts the recording `path` of frames that `framer` makes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(path: impl AsRef<Path>, framer: Framer) -> Result<Self> {
        Ok(Self { file: PartialFile::create(path)?, framer })
    }

    /// Appends values, as [`Framer::append`] takes them.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Panics
    /// When they are not as many of each input.
    pub fn append(&mut self, values: &[u8]) -> Result<()> {
        self.framer.append(values, &mut |frame| self.file.append(frame))
    }

    /// Appends missing times, as [`Framer::append_missing`] does.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn append_missing(&mut self, times: u64) -> Result<()> {
        self.framer.append_missing(times, &mut |frame| self.file.append(frame))
    }

    /// Completes the file and gives it its final name, replacing a file of that name. Times that make no frame are left
    /// out; returns how many.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(self) -> Result<usize> {
        self.file.finish().map(|()| self.framer.rest())
    }
}

/// The frames of a recording, as its first one says they are.
#[derive(Debug)]
pub(super) struct Vdif {
    first: Header,
    geometry: Geometry,
    mark5b: Option<u8>,
}

impl Vdif {
    /// Understands the first frame's header; the error is the reason alone.
    pub fn new(start: &[u8]) -> Result<Self, String> {
        let start = &start_of(start)
            .ok_or_else(|| format!("{} bytes: expected a VDIF header of {HEADER}", start.len()))?;
        let first = Header::parse(start);
        let header = first.header_bytes();
        if first.bytes < header + 8 {
            return Err(format!(
                "VDIF frames of {} bytes: expected at least {}, a header of {header} and samples",
                first.bytes,
                header + 8
            ));
        }
        if !matches!(first.bits, 1 | 2 | 4 | 8 | 16) {
            return Err(format!("VDIF samples of {} bits: expected 1, 2, 4, 8 or 16", first.bits));
        }
        let encoding = RawEncoding::Vdif { bits: first.bits, complex: first.complex };
        let payload = 8 * (first.bytes - header) as u64;
        let channels = 1_u64 << first.channels_log2;
        let time = channels * encoding.bits() as u64;
        if !payload.is_multiple_of(time) {
            return Err(format!(
                "VDIF frames of {} bytes of samples: expected a multiple of {time} bits, {} channels of \
                 {} bits",
                payload / 8,
                channels,
                encoding.bits()
            ));
        }
        let mark5b = (first.extended_version() == Some(mark5b::EXTENDED)).then_some(first.bits);
        let geometry = Geometry {
            header,
            frame: first.bytes,
            channels: channels as usize,
            encoding,
            samples: payload / time,
        };
        Ok(Self { first, geometry, mark5b })
    }
}

impl Framing for Vdif {
    fn name(&self) -> &'static str {
        "VDIF"
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn invalid(start: &[u8]) -> Option<usize> {
        invalid(start)
    }

    fn stamp(&self, frame: &[u8]) -> Result<Stamp, Fault> {
        let mut start = [0; HEADER];
        let bytes = frame.len().min(self.geometry.header);
        start[..bytes].copy_from_slice(&frame[..bytes]);
        let header = Header::parse(&start);
        if bytes == self.geometry.header && header.invalid && header.bytes == self.first.bytes {
            return Err(Fault::Invalid);
        }
        // Here, too: bytes that are no header seldom have zeros in the reserved bits.
        if bytes < self.geometry.header || !header.is_like(&self.first) || start[7] >> 6 != 0 {
            return Err(Fault::NoHeader);
        }
        let (found, expected) = (header.describe(), self.first.describe());
        if found != expected {
            return Err(Fault::Other(format!("{found}: expected {expected}")));
        }
        if header.station != self.first.station {
            let (found, expected) = (header.station(), self.first.station());
            return Err(Fault::Other(format!(
                "a frame of station {found}: expected {expected}, for a recording is of one station"
            )));
        }
        Ok(Stamp {
            thread: header.thread,
            second: header.second(),
            number: header.number,
            fraction: None,
            validity: header.validity(self.geometry.channels),
        })
    }

    fn recode(&self, payload: &mut [u8]) {
        if let Some(bits) = self.mark5b {
            mark5b::recode(bits, payload);
        }
    }

    fn rate(&self) -> Option<f64> {
        self.first.rate()
    }

    fn first_day(&self) -> Option<i64> {
        Some(0)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let version = match self.first.extended_version() {
            None => "legacy header".to_owned(),
            Some(version) => format!("extended data version {version}"),
        };
        vec![("station", self.first.station()), ("headers", version)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_specification_has_them() {
        // The first frame of a recording of eight threads of real 2-bit samples at 32 MHz.
        let words = [
            14_363_767,
            28 << 24,
            1 << 29 | 629,
            1 << 26 | 1 << 16 | 0xfffc,
            0x0380_0010,
            SYNC,
            0,
            0_u32,
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = Header::parse(bytes.first_chunk().unwrap());
        assert_eq!((header.bytes, header.bits, header.thread), (5032, 2, 1));
        assert_eq!((header.complex, header.legacy, header.invalid), (false, false, false));
        assert_eq!((header.extended_version(), header.rate()), (Some(3), Some(32e6)));
        assert_eq!(header.station(), "0xfffc");
        let start = time::of_day(0, header.second(), 0).unwrap();
        assert_eq!(start.to_string(), "2014-06-16T05:56:07Z");
    }

    #[test]
    fn masks_name_the_channels() {
        let header = |mask: u64, length: u32| {
            let words = [
                0,
                0,
                3 << 24 | 8,
                0,
                4 << 24 | length << 16,
                SYNC,
                mask as u32,
                (mask >> 32) as u32,
            ];
            let bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
            Header::parse(bytes.first_chunk().unwrap()).validity(8)
        };
        assert_eq!(header(0b1111, 4), Validity::All);
        assert_eq!(header(0b1_0000, 4), Validity::None);
        assert_eq!(header(0b0101, 4), Validity::Mask { mask: 0b0101, channels: 2 });
        // A mask that does not fit the channels says nothing.
        assert_eq!(header(0, 3), Validity::All);
    }
}
