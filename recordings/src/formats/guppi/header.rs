//! Cards, and the headers that they make.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
};

use corrust_host::{Encoding, Result};

use crate::array::{
    file::{Channels, PhaseCenter},
    time::{self, Timestamp},
};
use crate::formats::number::{direction, real, sexagesimal, whole};

/// Bytes of a header card.
pub(in crate::formats) const CARD: usize = 80;

/// Most cards of one header; instruments write about a hundred.
pub(super) const CARD_LIMIT: usize = 1 << 14;

/// Direct I/O reads and writes multiples of this many bytes.
pub(super) const SECTOR: u64 = 512;

/// Whether `bytes` start with a card, its name in the first 8 bytes.
pub(in crate::formats) fn is_card(bytes: &[u8]) -> bool {
    bytes.len() == CARD
        && bytes[8] == b'='
        && bytes[0].is_ascii_alphanumeric()
        && bytes[..8].iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}

/// Facts in the cards of one block.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    /// Bits of a component.
    pub(super) bits: u64,
    pub(super) antennas: usize,
    /// Channels of one antenna.
    pub(super) channels: usize,
    pub(super) polarisations: usize,
    /// Whether time is the slowest axis of the data.
    pub(super) time_major: bool,
    /// Bytes of data.
    pub(super) bytes: u64,
    /// Times in the data.
    pub(super) times: u64,
    /// Times that the next block repeats.
    pub(super) overlap: u64,
    pub(super) direct_io: bool,
    pub(super) packet: Option<u64>,
    pub(super) packets_per_block: Option<u64>,
    pub(super) interval: Option<f64>,
    /// The start of the observation, where packets are counted from.
    pub(super) start: Option<Timestamp>,
    /// Centre and width of an antenna's band, hertz.
    pub(super) band: Option<[f64; 2]>,
    pub(super) telescope: Option<String>,
    pub(super) source: Option<String>,
    /// Right ascension and declination of the source, degrees.
    pub(super) direction: Option<[f64; 2]>,
}

/// Levels of codes of 2 bits, as near to 3.3358750 : 1 as whole numbers of 8 bits are that others take them for
/// (blimpy's, too).
const LEVELS: [i8; 4] = [40, 12, -12, -40];

/// Samples of 8 bits of each byte of two complex samples of 2 bits, the first one in the upper half, the real part before the
/// imaginary one.
pub(super) static OF_TWO_BITS: [[u8; 4]; 256] = {
    let mut table = [[0; 4]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut part = 0;
        while part < 4 {
            table[byte][part] = LEVELS[byte >> (6 - 2 * part) & 3] as u8;
            part += 1;
        }
        byte += 1;
    }
    table
};

impl Header {
    /// Understands the cards of a block; the error is the reason alone.
    pub(super) fn parse(cards: &Cards) -> Result<Self, String> {
        let bits = cards.required("NBITS")?;
        if !matches!(bits, 2 | 4 | 8 | 16) {
            return Err(format!("NBITS = {bits}: expected 2, 4, 8 or 16"));
        }
        if cards.text("PKTFMT") == Some("VDIF") {
            return Err("PKTFMT = VDIF, real samples: expected complex ones".to_owned());
        }
        let antennas = cards.integer("NANTS")?.unwrap_or(1);
        let all_channels = cards.required("OBSNCHAN")?;
        if antennas == 0 || all_channels == 0 || all_channels % antennas != 0 {
            return Err(format!(
                "OBSNCHAN = {all_channels} with NANTS = {antennas}: expected a positive multiple of a \
                 positive number"
            ));
        }
        let polarisations = match cards.required("NPOL")? {
            1 => 1,
            2 | 4 => 2,
            other => return Err(format!("NPOL = {other}: expected 1, 2 or 4")),
        };
        let bytes = cards.required("BLOCSIZE")?;
        let step_bits = all_channels
            .checked_mul(polarisations * 2 * bits)
            .ok_or_else(|| format!("OBSNCHAN = {all_channels} cannot be addressed"))?;
        // Samples of 2 bits of one polarisation: a byte has two times of a channel.
        let at_once = if bits == 2 && polarisations == 1 { 2 } else { 1 };
        let unit = step_bits / (8 / at_once);
        if bytes == 0 || bytes % unit != 0 {
            return Err(format!(
                "BLOCSIZE = {bytes}: expected a positive multiple of {unit}, the bytes of {}",
                if at_once == 1 { "one time" } else { "two times" }
            ));
        }
        let times = bytes / unit * at_once;
        let overlap = cards.integer("OVERLAP")?.unwrap_or(0);
        if overlap >= times {
            return Err(format!(
                "OVERLAP = {overlap}: expected less than the block's {times} times"
            ));
        }
        let fresh = (times - overlap) * unit / at_once;
        let channels = all_channels / antennas;
        let (interval, band) = cards.interval_and_band(channels)?;
        let size = |value: u64| usize::try_from(value).map_err(|_| format!("{value} is too large"));
        Ok(Self {
            bits,
            start: cards.start(),
            band,
            telescope: cards.text("TELESCOP").map(str::to_owned),
            source: cards.text("SRC_NAME").map(str::to_owned),
            direction: cards.direction(),
            antennas: size(antennas)?,
            channels: size(channels)?,
            polarisations: size(polarisations)?,
            time_major: cards.text("PKTFMT") == Some("SIMPLE"),
            bytes,
            times,
            overlap,
            direct_io: cards.integer("DIRECTIO")?.unwrap_or(0) != 0,
            packet: cards.integer("PKTIDX")?,
            packets_per_block: cards.packets(fresh)?,
            interval,
        })
    }

    /// Bytes of a sample as it is read; parts of 2 bits become 8 bits.
    pub(super) fn sample(&self) -> u64 {
        match self.bits {
            2 => 2,
            bits => bits / 4,
        }
    }

    /// Frequencies of an antenna's channels.
    pub(super) fn frequencies(&self) -> Option<Channels> {
        let [centre, width] = self.band?;
        Channels::of_band(centre, width, self.channels as u64)
    }

    /// Name and direction of the source.
    pub(super) fn center(&self) -> Option<PhaseCenter> {
        let [ra, dec] = self.direction?;
        Some(PhaseCenter { name: self.source.clone()?, ra, dec })
    }

    /// Encoding of a sample, where it is one of channels.
    pub(super) fn encoding(&self) -> Option<Encoding> {
        match self.bits {
            4 => Some(Encoding::Ci4),
            2 | 8 => Some(Encoding::Ci8),
            _ => None,
        }
    }

    /// Facts that all blocks of a recording share.
    pub(super) fn shared(&self) -> (u64, usize, usize, usize, bool) {
        (self.bits, self.antennas, self.channels, self.polarisations, self.time_major)
    }

    /// In words, what every block of a recording shares.
    pub(super) fn describe(&self) -> String {
        format!(
            "{} antennas, {} channels, {} polarisations, {} bits",
            self.antennas, self.channels, self.polarisations, self.bits
        )
    }
}

/// Why there is no header, in words.
pub(super) enum Fault {
    /// The file ends within it.
    Truncated(String),
    Other(String),
}

/// Cards by name.
#[derive(Debug, Default)]
pub(super) struct Cards(HashMap<String, String>);

impl Cards {
    /// Reads the cards of one header, `END` included, and returns their bytes; `None` at the end of
    /// the file. The error is the reason alone.
    pub(super) fn read(reader: &mut impl BufRead) -> Result<Option<(Self, u64)>, Fault> {
        let mut cards = Self::default();
        for index in 0..CARD_LIMIT {
            let mut card = Vec::with_capacity(CARD);
            let found = reader
                .take(CARD as u64)
                .read_to_end(&mut card)
                .map_err(|error| Fault::Other(format!("cannot read: {error}")))?;
            if found == 0 && index == 0 {
                return Ok(None);
            }
            if found < CARD {
                let reason = "truncated in a header: expected a card \"END\"";
                return Err(Fault::Truncated(reason.into()));
            }
            if card.starts_with(b"END") && card[3..].iter().all(|&byte| byte == b' ') {
                return Ok(Some((cards, (index as u64 + 1) * CARD as u64)));
            }
            cards.insert(&card).map_err(Fault::Other)?;
        }
        Err(Fault::Other(format!("a header of over {CARD_LIMIT} cards: expected a card \"END\"")))
    }

    /// Takes in one card. Cards without a value, such as comments, are passed over.
    fn insert(&mut self, card: &[u8]) -> Result<(), String> {
        let name = &card[..8];
        if !name.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
            return Err(format!(
                "a card starts with \"{}\": expected a name of up to 8 characters",
                name.escape_ascii()
            ));
        }
        if card[8] == b'=' {
            let name = String::from_utf8_lossy(name).trim().to_owned();
            let value = String::from_utf8_lossy(&card[9..]);
            let value = match value.trim_start().strip_prefix('\'') {
                Some(quoted) => quoted.split('\'').next().unwrap_or_default(),
                None => value.split('/').next().unwrap_or_default(),
            };
            self.0.insert(name, value.trim().to_owned());
        }
        Ok(())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of a card as a whole number, which some instruments write as `8.0` or `8.0E+00`.
    fn integer(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let fault = || format!("{name} = {text:?}: expected a whole number");
        whole(text).map(Some).ok_or_else(fault)
    }

    fn required(&self, name: &str) -> Result<u64, String> {
        self.integer(name)?.ok_or_else(|| format!("no card {name} in a header"))
    }

    fn number(&self, name: &str) -> Option<f64> {
        real(self.text(name)?)
    }

    /// The start of the observation.
    fn start(&self) -> Option<Timestamp> {
        let day =
            i64::try_from(self.integer("STT_IMJD").ok()??).ok().filter(|&day| day < 1 << 24)?;
        let seconds = self.number("STT_SMJD")? + self.number("STT_OFFS").unwrap_or(0.0);
        let seconds = Some(seconds).filter(|seconds| (0.0..1e6).contains(seconds))?;
        time::later(time::of_day(day, 0, 0)?, seconds)
    }

    /// Right ascension and declination of the source, degrees.
    fn direction(&self) -> Option<[f64; 2]> {
        let angle = |name: &str| self.text(name).map(sexagesimal);
        // RA alone is in degrees.
        let ra = match angle("RA_STR") {
            Some(hours) => hours.map(|hours| 15.0 * hours),
            None => angle("RA")?,
        };
        direction(ra, angle("DEC_STR").or_else(|| angle("DEC"))?)
    }

    /// Seconds from one time to the next, and centre and width of an antenna's band, of `channels` channels.
    fn interval_and_band(&self, channels: u64) -> Result<(Option<f64>, Option<[f64; 2]>), String> {
        let interval = self.number("TBIN").filter(|&seconds| seconds > 0.0);
        let band = self.number("OBSFREQ").zip(self.number("OBSBW"));
        let band = band.map(|(centre, width)| [1e6 * centre, 1e6 * width]);
        let band = band.filter(|[_, width]| width.is_normal());
        // A channel alone may hold real samples, of which there are twice as many as its width has.
        if let (1, Some(interval), Some([_, width])) = (channels, interval, band)
            && (interval * width.abs() - 0.5).abs() < 0.01
        {
            return Err(format!(
                "TBIN = {interval} of one channel of {} Hz, real samples: expected complex ones",
                width.abs()
            ));
        }
        Ok((interval, band))
    }

    /// Packets of a block, of which `fresh` bytes are not those of the block before.
    fn packets(&self, fresh: u64) -> Result<Option<u64>, String> {
        let packets = match self.integer("PIPERBLK")? {
            Some(packets) => Some(packets),
            None => self
                .integer("PKTSIZE")?
                .filter(|&size| size > 0 && fresh.is_multiple_of(size))
                .map(|size| fresh / size),
        };
        Ok(packets.filter(|&packets| packets > 0))
    }
}

/// `bytes` and the padding behind them that direct I/O adds.
pub(super) fn pad(bytes: u64) -> u64 {
    bytes.next_multiple_of(SECTOR)
}

/// Number of bytes from `position` to the next multiple of a sector if they are zeros, as some
/// writers pad data but others do not; a header never starts with a zero.
pub(super) fn zeros_before_sector(
    reader: &mut BufReader<File>,
    position: u64,
    length: u64,
) -> std::io::Result<u64> {
    let mut padding = vec![0; (pad(position).min(length) - position) as usize];
    reader.seek(SeekFrom::Start(position))?;
    reader.read_exact(&mut padding)?;
    Ok(if padding.iter().all(|&byte| byte == 0) { padding.len() as u64 } else { 0 })
}
