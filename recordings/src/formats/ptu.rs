//! PicoQuant's PTU: photons one by one, as time taggers record them.
//!
//! Source: PicoQuant, "Unified TTTR file format": a magic string, tags of 48 bytes with names and values, then
//! records of 32 bits. Times count from the start; what a record's few bits cannot hold is carried by records
//! of overflow. In T2 a record has the time itself; in T3 the number of the laser pulse before it, and the
//! time since that pulse, the *microtime*.
//!
//! | records | photon, high bits first | overflow |
//! |---|---|---|
//! | PicoHarp T2 | channel 4, time 28 | channel 15, low bits 0: 210,698,240 |
//! | PicoHarp T3 | channel 4, microtime 12, pulse 16 | channel 15, microtime 0: 65,536 |
//! | HydraHarp 1 T2 | special 1, channel 6, time 25 | special, channel 63: 33,552,000 |
//! | HydraHarp 1 T3 | special 1, channel 6, microtime 15, pulse 10 | special, channel 63: 1024 |
//! | HydraHarp 2, TimeHarp 260, MultiHarp T2 | special 1, channel 6, time 25 | special, channel 63: 2^25 times the time field, at least once |
//! | the same in T3 | special 1, channel 6, microtime 15, pulse 10 | special, channel 63: 1024 times the pulse field, at least once |
//!
//! Other special records are markers, and in T2 the pulses of the sync input (channel 0).

use std::{fmt, path::Path};

use corrust_host::{Error, Result, partial::PartialFile};
use jiff::{SignedDuration, Timestamp};
use rayon::prelude::*;

use super::input::{Input, begins};

/// First bytes of every file.
pub(super) const MAGIC: &[u8] = b"PQTTTR\0\0";

/// Bytes before the first tag: the magic string and a version.
const START: u64 = 16;

/// Bytes of a tag, without what a long value has behind it.
const TAG: usize = 48;

/// Most tags: a header of an instrument has about two hundred.
const MOST_TAGS: usize = 1 << 16;

/// Bytes of a record.
pub(crate) const RECORD: usize = 4;

/// Bytes of records that a thread takes at once in a survey, and how many such shares are read for each: they stay
/// in the cache.
const SHARE: usize = 1 << 18;
const SHARES: usize = 4;

/// Places of channels: numbers 0 to 63, and [`SYNC`].
pub const CHANNELS: usize = 65;

/// The channel of the sync input's pulses in T2 of all but the PicoHarp.
pub const SYNC: usize = 64;

/// Whether a file begins as PTU does.
///
/// # Errors
/// [`Error::Io`] when it cannot be read.
pub fn is_ptu(path: impl AsRef<Path>) -> Result<bool> {
    begins(path, MAGIC)
}

/// What a record is that is no photon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// So many units have gone by.
    Overflow(u64),
    /// An external signal.
    Marker,
    /// A pulse of the sync input.
    Sync,
}

/// How the 32 bits of a record are divided.
pub(crate) trait Words {
    /// Whether it is no photon.
    fn is_special(word: u32) -> bool;
    /// Channel of a photon.
    fn channel(word: u32) -> usize;
    /// Units since the last overflow: of time in T2, pulses in T3.
    fn time(word: u32) -> u64;
    /// Units since the pulse; 0 in T2.
    fn microtime(word: u32) -> u32;
    /// What a special record is.
    fn event(word: u32) -> Event;
}

/// PicoHarp 300.
pub(crate) struct Pico<const T3: bool>;

impl<const T3: bool> Words for Pico<T3> {
    #[inline(always)]
    fn is_special(word: u32) -> bool {
        word >> 28 == 15
    }

    #[inline(always)]
    fn channel(word: u32) -> usize {
        (word >> 28) as usize
    }

    #[inline(always)]
    fn time(word: u32) -> u64 {
        u64::from(word & if T3 { 0xffff } else { 0x0fff_ffff })
    }

    #[inline(always)]
    fn microtime(word: u32) -> u32 {
        if T3 { word >> 16 & 0xfff } else { 0 }
    }

    #[inline(always)]
    fn event(word: u32) -> Event {
        let (marker, units) =
            if T3 { (Self::microtime(word), 65_536) } else { (word & 15, 210_698_240) };
        if marker == 0 { Event::Overflow(units) } else { Event::Marker }
    }
}

/// HydraHarp and all later ones; `FIRST` is HydraHarp's first format, whose overflows are one each.
pub(crate) struct Hydra<const T3: bool, const FIRST: bool>;

impl<const T3: bool, const FIRST: bool> Words for Hydra<T3, FIRST> {
    #[inline(always)]
    fn is_special(word: u32) -> bool {
        word >> 31 == 1
    }

    #[inline(always)]
    fn channel(word: u32) -> usize {
        (word >> 25 & 63) as usize
    }

    #[inline(always)]
    fn time(word: u32) -> u64 {
        u64::from(word & if T3 { 0x3ff } else { 0x01ff_ffff })
    }

    #[inline(always)]
    fn microtime(word: u32) -> u32 {
        if T3 { word >> 10 & 0x7fff } else { 0 }
    }

    #[inline(always)]
    fn event(word: u32) -> Event {
        match Self::channel(word) {
            63 => Event::Overflow(match (T3, FIRST) {
                (true, true) => 1024,
                (false, true) => 33_552_000,
                (true, false) => 1024 * Self::time(word).max(1),
                (false, false) => (1 << 25) * Self::time(word).max(1),
            }),
            0 if !T3 => Event::Sync,
            _ => Event::Marker,
        }
    }
}

/// Calls a function of the [`Words`] of a kind of records.
macro_rules! of_words {
    ($kind:expr, $words:ident => $does:expr) => {{
        use $crate::formats::ptu::{Division, Hydra, Pico};
        match $kind.division {
            Division::PicoT2 => {
                type $words = Pico<false>;
                $does
            }
            Division::PicoT3 => {
                type $words = Pico<true>;
                $does
            }
            Division::FirstT2 => {
                type $words = Hydra<false, true>;
                $does
            }
            Division::FirstT3 => {
                type $words = Hydra<true, true>;
                $does
            }
            Division::HydraT2 => {
                type $words = Hydra<false, false>;
                $does
            }
            Division::HydraT3 => {
                type $words = Hydra<true, false>;
                $does
            }
        }
    }};
}
pub(crate) use of_words;

/// How the records of a file are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    PicoT2,
    PicoT3,
    FirstT2,
    FirstT3,
    HydraT2,
    HydraT3,
}

/// A kind of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The number in the header, `TTResultFormat_TTTRRecType`.
    pub code: u32,
    /// The instrument.
    pub instrument: &'static str,
    pub(crate) division: Division,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 12] = {
        const fn kind(code: u32, instrument: &'static str, division: Division) -> Kind {
            Kind { code, instrument, division }
        }
        use Division::*;
        [
            kind(0x0001_0203, "PicoHarp 300", PicoT2),
            kind(0x0001_0303, "PicoHarp 300", PicoT3),
            kind(0x0001_0204, "HydraHarp, first format", FirstT2),
            kind(0x0001_0304, "HydraHarp, first format", FirstT3),
            kind(0x0101_0204, "HydraHarp", HydraT2),
            kind(0x0101_0304, "HydraHarp", HydraT3),
            kind(0x0001_0205, "TimeHarp 260 N", HydraT2),
            kind(0x0001_0305, "TimeHarp 260 N", HydraT3),
            kind(0x0001_0206, "TimeHarp 260 P", HydraT2),
            kind(0x0001_0306, "TimeHarp 260 P", HydraT3),
            kind(0x0001_0207, "MultiHarp or PicoHarp 330", HydraT2),
            kind(0x0001_0307, "MultiHarp or PicoHarp 330", HydraT3),
        ]
    };

    /// Whether records have the number of a laser pulse and a microtime.
    pub fn is_t3(self) -> bool {
        matches!(self.division, Division::PicoT3 | Division::FirstT3 | Division::HydraT3)
    }

    /// `T2` or `T3`.
    pub fn mode(self) -> &'static str {
        if self.is_t3() { "T3" } else { "T2" }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.mode(), self.instrument)
    }
}

/// What the tags of a file say.
#[derive(Clone, Debug)]
pub struct Header {
    /// What its records are.
    pub kind: Kind,
    /// Seconds of a unit of time: in T2 the clock's, in T3 the sync period.
    pub unit: f64,
    /// Seconds of a unit of microtimes, in T3 where it says so.
    pub microtime: Option<f64>,
    /// Records that are there.
    pub records: u64,
    /// When it was made, by the instrument's own clock.
    pub created: Option<Timestamp>,
    /// What it should have had and is read without, in words.
    pub left_out: Option<String>,
    /// Byte at which records start.
    pub(crate) start: u64,
}

/// What is known of a file once all its records have been looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Photons of each channel, sync pulses last.
    pub photons: [u64; CHANNELS],
    /// External signals.
    pub markers: u64,
    /// Records of overflow.
    pub overflows: u64,
    /// Units of time that the file spans.
    pub units: u64,
}

impl Survey {
    /// The channels that have photons, ascending; without the sync input's pulses.
    pub fn channels(&self) -> Vec<usize> {
        (0..SYNC).filter(|&channel| self.photons[channel] > 0).collect()
    }
}

/// The name of a channel.
pub fn channel_name(channel: usize) -> String {
    if channel == SYNC { "sync".to_owned() } else { channel.to_string() }
}

/// A file of photons.
#[derive(Debug)]
pub struct Reader {
    pub(super) input: Input,
    header: Header,
}

/// What is searched for in the tags.
#[derive(Default)]
struct Found {
    kind: Option<u64>,
    bits: Option<u64>,
    records: Option<u64>,
    sync_rate: Option<u64>,
    unit: Option<f64>,
    microtime: Option<f64>,
    created: Option<f64>,
}

impl Reader {
    /// Opens `path`. With `keep_going`, a file that is cut short is read as far as it goes.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is not PTU, is truncated, or whose records are of no [`Kind`] or have
    /// no unit of time; [`Error::Io`] when it cannot be read.
    pub fn open(path: impl AsRef<Path>, keep_going: bool) -> Result<Self> {
        let mut input = Input::open(path)?;
        let path = input.path().to_owned();
        let fault = |reason: String| Error::file(&path, reason);
        let Some(length) = input.length() else {
            return Err(fault("is a pipe: expected a file, for PTU is read twice".into()));
        };
        let (found, start) = tags(&mut input, length)?;
        let code = found.kind.ok_or_else(|| {
            fault("no tag TTResultFormat_TTTRRecType: expected one, the type of records".into())
        })?;
        let kind =
            Kind::ALL.into_iter().find(|kind| u64::from(kind.code) == code).ok_or_else(|| {
                fault(format!(
                    "records of type {code:#010x}: expected T2 or T3 of PicoHarp, HydraHarp, TimeHarp \
                     260 or MultiHarp"
                ))
            })?;
        if let Some(bits) = found.bits.filter(|&bits| bits != 32) {
            return Err(fault(format!("records of {bits} bits: expected 32")));
        }
        let positive = |value: &f64| value.is_finite() && *value > 0.0;
        let from_rate = || found.sync_rate.filter(|_| kind.is_t3()).map(|rate| 1.0 / rate as f64);
        let unit = found.unit.filter(positive).or_else(from_rate).filter(positive);
        let unit = unit.ok_or_else(|| {
            let what = if kind.is_t3() { "sync period" } else { "unit of time" };
            fault(format!(
                "{} records without a {what}: expected MeasDesc_GlobalResolution above 0, found {}",
                kind.mode(),
                found.unit.map_or("no such tag".to_owned(), |unit| unit.to_string())
            ))
        })?;
        let bytes = length - start;
        let there = bytes / RECORD as u64;
        // Of a measurement that was broken off, the header does not say how many there are.
        let said = found.records.filter(|&said| said > 0).unwrap_or(there);
        let whole = said <= there && (bytes.is_multiple_of(RECORD as u64) || said < there);
        let lacks = || {
            format!(
                "truncated: {bytes} bytes of records, expected {} for {said} records",
                said.saturating_mul(4)
            )
        };
        if !whole && !keep_going {
            return Err(fault(lacks()));
        }
        // Days since the end of 1899, as spreadsheets count them.
        let created = found.created.and_then(|days| {
            let seconds = (days - 25_569.0) * 86_400.0;
            let since = SignedDuration::try_from_secs_f64(seconds.round()).ok()?;
            Timestamp::UNIX_EPOCH.checked_add(since).ok()
        });
        let header = Header {
            kind,
            unit,
            microtime: found.microtime.filter(|value| kind.is_t3() && positive(value)),
            records: said.min(there),
            created,
            left_out: (!whole).then(lacks),
            start,
        };
        Ok(Self { input, header })
    }

    /// What the tags say.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        self.input.path()
    }

    /// Fills `bytes` with whole records from number `record` on.
    pub(crate) fn read_at(&mut self, record: u64, bytes: &mut [u8]) -> Result<()> {
        self.input.read_at(self.header.start + record * RECORD as u64, bytes)
    }

    /// Looks at all records, on all cores.
    ///
    /// # Errors
    /// [`Error::File`] when times need more than 64 bits; [`Error::Io`] when the file cannot be read.
    pub fn survey(&mut self) -> Result<Survey> {
        let Header { kind, records, .. } = self.header;
        of_words!(kind, W => self.survey_of::<W>(records))
    }

    fn survey_of<W: Words>(&mut self, records: u64) -> Result<Survey> {
        let mut counted = Counted::default();
        let most = SHARES * SHARE * rayon::current_num_threads();
        let mut bytes = vec![0; (most as u64).min(records * RECORD as u64) as usize];
        let step = (bytes.len() / RECORD).max(1) as u64;
        for first in (0..records).step_by(step as usize) {
            let bytes = &mut bytes[..(records - first).min(step) as usize * RECORD];
            self.read_at(first, bytes)?;
            let parts = bytes.par_chunks(SHARE).map(Counted::of::<W>);
            counted = counted.and(parts.reduce(Counted::default, Counted::and));
            if let Some(word) = bytes.last_chunk().map(|&word| u32::from_le_bytes(word)) {
                let special = W::is_special(word);
                let overflow = special && matches!(W::event(word), Event::Overflow(_));
                counted.last = if overflow { 0 } else { W::time(word) + 1 };
            }
        }
        let Counted { photons, markers, overflows, units, last } = counted;
        let units = u64::try_from(units + u128::from(last)).ok().filter(|&units| units < 1 << 63);
        let units = units.ok_or_else(|| {
            Error::file(self.path(), "times of more than 63 bits: expected a shorter measurement")
        })?;
        Ok(Survey { photons, markers, overflows, units })
    }
}

/// What some records are.
struct Counted {
    photons: [u64; CHANNELS],
    markers: u64,
    overflows: u64,
    /// Of overflows.
    units: u128,
    last: u64,
}

impl Default for Counted {
    fn default() -> Self {
        Self { photons: [0; CHANNELS], markers: 0, overflows: 0, units: 0, last: 0 }
    }
}

impl Counted {
    fn of<W: Words>(bytes: &[u8]) -> Self {
        let mut counted = Self::default();
        for &word in bytes.as_chunks().0 {
            let word = u32::from_le_bytes(word);
            if !W::is_special(word) {
                counted.photons[W::channel(word)] += 1;
                continue;
            }
            match W::event(word) {
                Event::Overflow(units) => {
                    counted.overflows += 1;
                    counted.units += u128::from(units);
                }
                Event::Marker => counted.markers += 1,
                Event::Sync => counted.photons[SYNC] += 1,
            }
        }
        counted
    }

    fn and(mut self, other: Self) -> Self {
        self.photons.iter_mut().zip(other.photons).for_each(|(sum, count)| *sum += count);
        self.markers += other.markers;
        self.overflows += other.overflows;
        self.units += other.units;
        self
    }
}

/// Reads the tags, and returns where they end.
fn tags(input: &mut Input, length: u64) -> Result<(Found, u64)> {
    let path = input.path().to_owned();
    let fault = |reason: String| Error::file(&path, reason);
    let truncated = || fault(format!("truncated: its header does not end in {length} bytes"));
    let mut magic = [0; MAGIC.len()];
    if length < START {
        return Err(fault(format!("{length} bytes: expected a PTU file, at least a header")));
    }
    input.read_at(0, &mut magic)?;
    if magic != *MAGIC {
        let start = magic.escape_ascii();
        return Err(fault(format!("starts with \"{start}\": expected a PTU file, \"PQTTTR\"")));
    }
    let (mut found, mut position) = (Found::default(), START);
    for _ in 0..MOST_TAGS {
        let mut tag = [0; TAG];
        if position + TAG as u64 > length {
            return Err(truncated());
        }
        input.read_at(position, &mut tag)?;
        position += TAG as u64;
        let (name, rest) = tag.split_at(32);
        let name = &name[..name.iter().position(|&byte| byte == 0).unwrap_or(name.len())];
        let kind = u32::from_le_bytes(rest[4..8].try_into().expect("4 bytes"));
        let value: [u8; 8] = rest[8..].try_into().expect("8 bytes");
        let (number, real) = (u64::from_le_bytes(value), f64::from_le_bytes(value));
        match kind {
            // Text, arrays and blobs: so many bytes follow.
            0x2001_ffff | 0x4001_ffff | 0x4002_ffff | 0xffff_ffff => {
                position = position
                    .checked_add(number)
                    .filter(|&end| end <= length)
                    .ok_or_else(truncated)?;
            }
            // Empty, true or false, whole numbers, sets of bits, colours, reals, moments.
            0xffff_0008 | 0x0000_0008 | 0x1000_0008 | 0x1100_0008 | 0x1200_0008 | 0x2000_0008
            | 0x2100_0008 => {}
            _ => {
                return Err(fault(format!(
                    "tag \"{}\" of type {kind:#010x}: expected one of PTU's",
                    name.escape_ascii()
                )));
            }
        }
        match name {
            b"Header_End" => return Ok((found, position)),
            b"TTResultFormat_TTTRRecType" => found.kind = Some(number),
            b"TTResultFormat_BitsPerRecord" => found.bits = Some(number),
            b"TTResult_NumberOfRecords" => found.records = Some(number),
            b"TTResult_SyncRate" => found.sync_rate = Some(number).filter(|&rate| rate > 0),
            b"MeasDesc_GlobalResolution" => found.unit = Some(real),
            b"MeasDesc_Resolution" => found.microtime = Some(real),
            b"File_CreatingTime" => found.created = Some(real),
            _ => {}
        }
    }
    Err(fault(format!("more than {MOST_TAGS} tags: expected \"Header_End\" among them")))
}

/// A PTU file in the making: T3 of a MultiHarp, which appears under its final name when it is complete.
#[derive(Debug)]
pub struct Writer {
    file: PartialFile,
    period: f64,
    microtime: f64,
    records: u64,
    /// Pulses of all overflows, and of the last photon.
    base: u64,
    last: u64,
    words: Vec<u8>,
}

impl Writer {
    /// The kind of its records.
    const KIND: Kind = Kind::ALL[11];

    /// Pulses of an overflow, and most overflows that one record tells of.
    const OVERFLOW: u64 = 1024;
    const MOST: u64 = 1023;

    /// Starts a file of photons between laser pulses so many seconds apart, of microtimes in units of so many.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written.
    pub fn create(path: impl AsRef<Path>, period: f64, microtime: f64) -> Result<Self> {
        let file = PartialFile::create(path)?;
        let mut writer =
            Self { file, period, microtime, records: 0, base: 0, last: 0, words: Vec::new() };
        let header = writer.header();
        writer.file.append(&header)?;
        Ok(writer)
    }

    /// The header, as long whatever it says.
    fn header(&self) -> Vec<u8> {
        let mut bytes = [MAGIC, b"1.0.00\0\0"].concat();
        let mut tag = |name: &str, kind: u32, value: [u8; 8]| {
            let mut field = [0; TAG];
            field[..name.len()].copy_from_slice(name.as_bytes());
            field[32..36].copy_from_slice(&(-1_i32).to_le_bytes());
            field[36..40].copy_from_slice(&kind.to_le_bytes());
            field[40..].copy_from_slice(&value);
            bytes.extend(field);
        };
        let (whole, real) = (0x1000_0008, 0x2000_0008);
        tag("Measurement_Mode", whole, 3_u64.to_le_bytes());
        tag("TTResultFormat_TTTRRecType", whole, u64::from(Self::KIND.code).to_le_bytes());
        tag("TTResultFormat_BitsPerRecord", whole, 32_u64.to_le_bytes());
        tag("MeasDesc_GlobalResolution", real, self.period.to_le_bytes());
        tag("MeasDesc_Resolution", real, self.microtime.to_le_bytes());
        tag("TTResult_SyncRate", whole, ((1.0 / self.period).round() as u64).to_le_bytes());
        tag("TTResult_NumberOfRecords", whole, self.records.to_le_bytes());
        tag("Header_End", 0xffff_0008, [0; 8]);
        bytes
    }

    /// Adds a photon of a channel, after so many pulses and units of microtime.
    ///
    /// # Errors
    /// [`Error::File`] for a channel above 62, a microtime of more than 15 bits or a pulse before the last
    /// photon's; [`Error::Io`] when it cannot be written.
    pub fn append(&mut self, channel: u8, pulse: u64, microtime: u16) -> Result<()> {
        if channel > 62 || microtime >= 1 << 15 || pulse < self.last {
            return Err(Error::file(
                self.file.path(),
                format!(
                    "a photon of channel {channel}, pulse {pulse} and microtime {microtime}: expected a \
                     channel up to 62, pulses from {} on, microtimes below 32768",
                    self.last
                ),
            ));
        }
        self.last = pulse;
        let mut put = |word: u32| {
            self.words.extend(word.to_le_bytes());
            self.records += 1;
        };
        while pulse - self.base >= Self::OVERFLOW {
            let count = ((pulse - self.base) / Self::OVERFLOW).min(Self::MOST);
            self.base += count * Self::OVERFLOW;
            put(1 << 31 | 63 << 25 | count as u32);
        }
        put(u32::from(channel) << 25 | u32::from(microtime) << 10 | (pulse - self.base) as u32);
        if self.words.len() >= SHARE {
            self.file.append(&self.words)?;
            self.words.clear();
        }
        Ok(())
    }

    /// Completes the file.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be completed; nothing is left of it then.
    pub fn finish(mut self) -> Result<()> {
        self.file.append(&self.words)?;
        let header = self.header();
        self.file.write_at(0, &header)?;
        self.file.finish()
    }
}
