//! PicoQuant's PTU: a header of tags before records of photons ([`tttr`](super::tttr)).
//!
//! Source: PicoQuant, "Unified TTTR file format": a magic string, tags of 48 bytes with names and values, then
//! records of 32 bits.

use std::path::Path;

use corrust_host::{Error, Result, partial::PartialFile};
use jiff::{SignedDuration, Timestamp};

use super::{
    input::Input,
    records::{FORMATS, Found, Kind, SHARE, positive},
};

/// First bytes of every file.
pub(super) const MAGIC: &[u8] = b"PQTTTR\0\0";

/// First bytes of a file of histograms, `.phu`, whose header is alike.
pub(super) const HISTOGRAMS: &[u8] = b"PQHISTO\0";

/// Bytes before the first tag: the magic string and a version.
const START: u64 = 16;

/// Bytes of a tag, without what a long value has behind it.
const TAG: usize = 48;

/// Most tags: a header of an instrument has about two hundred.
const MOST_TAGS: usize = 1 << 16;

/// Tags that are read.
#[derive(Default)]
struct Tags {
    kind: Option<u64>,
    bits: Option<u64>,
    records: Option<u64>,
    sync_rate: Option<u64>,
    unit: Option<f64>,
    microtime: Option<f64>,
    created: Option<f64>,
    /// Milliseconds.
    acquisition: Option<u64>,
}

/// Reads the header.
pub(super) fn header(input: &mut Input, length: u64) -> Result<Found> {
    let path = input.path().to_owned();
    let fault = |reason: String| Error::file(&path, reason);
    let (tags, end) = tags(input, length)?;
    let code = tags.kind.ok_or_else(|| {
        fault("no tag TTResultFormat_TTTRRecType: expected one, the type of records".into())
    })?;
    let kind = Kind::ALL.into_iter().find(|kind| u64::from(kind.code) == code).ok_or_else(|| {
        fault(format!(
            "records of type {code:#010x}: expected T2 or T3 of PicoHarp, HydraHarp, TimeHarp 260 or MultiHarp"
        ))
    })?;
    // 0 of some writers means the same.
    if let Some(bits) = tags.bits.filter(|bits| ![0, 32].contains(bits)) {
        return Err(fault(format!("records of {bits} bits: expected 32")));
    }
    let from_rate = || tags.sync_rate.filter(|_| kind.is_t3()).map(|rate| 1.0 / rate as f64);
    let unit = tags.unit.filter(positive).or_else(from_rate).filter(positive);
    let unit = unit.ok_or_else(|| {
        let what = if kind.is_t3() { "sync period" } else { "unit of time" };
        fault(format!(
            "{} records without a {what}: expected MeasDesc_GlobalResolution above 0, found {}",
            kind.mode(),
            tags.unit.map_or("no such tag".to_owned(), |unit| unit.to_string())
        ))
    })?;
    // Days since the end of 1899, as spreadsheets count them.
    let created = tags.created.and_then(|days| {
        let seconds = (days - 25_569.0) * 86_400.0;
        let since = SignedDuration::try_from_secs_f64(seconds.round()).ok()?;
        Timestamp::UNIX_EPOCH.checked_add(since).ok()
    });
    let (microtime, records) = (tags.microtime, tags.records);
    let acquisition = tags.acquisition.map(|milliseconds| milliseconds as f64 / 1e3);
    Ok(Found { format: "PTU", kind, unit, microtime, records, created, acquisition, end })
}

/// Reads the tags, and returns where they end.
fn tags(input: &mut Input, length: u64) -> Result<(Tags, u64)> {
    let path = input.path().to_owned();
    let fault = |reason: String| Error::file(&path, reason);
    let truncated = || fault(format!("truncated: its header does not end in {length} bytes"));
    let mut magic = [0; MAGIC.len()];
    if length < START {
        return Err(fault(format!(
            "{length} bytes: expected a file of {FORMATS}, at least a header"
        )));
    }
    input.read_at(0, &mut magic)?;
    if magic == *HISTOGRAMS {
        return Err(fault(
            "holds histograms of PicoQuant's (PHU), in which photons have no arrival times: expected a recording of the photons, \
             as PTU"
                .into(),
        ));
    }
    if magic != *MAGIC {
        let start = magic.escape_ascii();
        return Err(fault(format!("starts with \"{start}\": expected a file of {FORMATS}")));
    }
    let (mut found, mut position) = (Tags::default(), START);
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
            b"TTResult_StopAfter" => found.acquisition = Some(number),
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

    /// Pulses of an overflow, and most overflows of one record.
    const OVERFLOW: u64 = 1024;
    const MOST: u64 = 1023;

    /// Starts a file of photons between laser pulses `period` seconds apart, of microtimes in units of `microtime` seconds.
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

    /// Adds a photon of a channel, at a number of pulses and of units of microtime.
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
