//! GUPPI RAW, the voltage format of Green Bank, Arecibo, Breakthrough Listen and their kin.
//!
//! A file is a sequence of blocks. A block is a header of 80-byte cards `NAME    = value`, the last
//! one `END`, and `BLOCSIZE` bytes of data, `[OBSNCHAN][time][polarisation][2]`:
//!
//! - `NBITS` is 8 or 16, int8 or little-endian int16, or 4, a byte a sample, its real part in the high
//!   nibble. Samples of 16 bits are read as raw voltages only ([`Guppi::raw`]): every channel of an input
//!   is an input then, with index `channel * inputs + input`.
//! - `NPOL` counts polarisations, except that 4 means two polarisations: the original instruments
//!   counted their four real products.
//! - `NANTS` antennas stand behind each other, each with `OBSNCHAN / NANTS` channels. The index of
//!   an input is `antenna * polarisations + polarisation`.
//! - `PKTFMT` `SIMPLE` means `[time][OBSNCHAN][polarisation][2]` instead.
//! - `DIRECTIO` other than 0 pads header and data with zeros to multiples of 512 bytes.
//! - The last `OVERLAP` times of a block are repeated at the start of the next one. Each time is
//!   taken once, from the first block that has it, as baseband does.
//! - `OBSFREQ` and `OBSBW` are the centre and the width in megahertz of all of an antenna's channels, the
//!   width negative where they descend.
//! - `PKTIDX` counts packets since the start of the observation and tells where blocks are missing.
//!   A block advances it by `PIPERBLK`, or else by as many packets of `PKTSIZE` bytes as fill
//!   `BLOCSIZE` without the overlap, or else by what the second block shows. More missing times in a row
//!   than there are in all the data are an error, unless they are [allowed](Options::long_gaps): one
//!   wrong number could ask for years of nothing.
//!
//! Source: P. Demorest, "GUPPI raw data format"; the cards as written by GUPPI, PUPPI and hpguppi.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    ops::Range,
    path::PathBuf,
};

use corrust_host::{
    Encoding, Error, Layout, Result,
    samples::{Missing, RawEncoding, RawLayout, RawShape, Shape},
};
use rayon::prelude::*;

use super::{
    input::read_rows,
    options::{Options, Pace, named_facts},
    recording::{Block, Recording},
};
use crate::array::{
    file::Channels,
    time::{self, Timestamp},
};

/// Bytes of a header card.
pub(super) const CARD: usize = 80;

/// Most cards of one header; instruments write about a hundred.
const CARD_LIMIT: usize = 1 << 14;

/// Direct I/O reads and writes multiples of this many bytes.
const SECTOR: u64 = 512;

/// Whether `bytes` start with a card, its name in the first 8 bytes.
pub(super) fn is_card(bytes: &[u8]) -> bool {
    bytes.len() == CARD
        && bytes[8] == b'='
        && bytes[0].is_ascii_alphanumeric()
        && bytes[..8].iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}

/// A recording kept in GUPPI RAW files that follow each other in time, read as channels in the layout
/// `cnt`, or as raw voltages in `nt`.
#[derive(Debug)]
pub struct Guppi<S = Shape> {
    shape: S,
    header: Header,
    times: u64,
    blocks: Blocks,
    /// The block being read, and the one after it, which tells whether times are missing between.
    current: Option<DataBlock>,
    next: Option<DataBlock>,
    /// Times read so far.
    position: u64,
    gaps: Vec<Range<u64>>,
    /// The fault of a last block that is left out.
    left_out: Option<String>,
    pace: Pace,
    scratch: Vec<u8>,
}

impl Guppi {
    /// Opens `paths` as one recording of channels and checks the headers of all its blocks.
    ///
    /// # Errors
    /// As for [`open`](super::open).
    pub fn open(paths: &[PathBuf], options: Options) -> Result<Self> {
        Self::of(paths, options, |header| {
            let encoding = header.encoding().ok_or(
                "NBITS = 16: expected 4 or 8 for channels as they are; corrust channelise makes finer ones",
            )?;
            if let Some(asked) = options.encoding.filter(|&asked| asked != encoding) {
                return Err(format!(
                    "GUPPI RAW of {} bits holds {encoding} samples, not {asked}",
                    header.bits
                ));
            }
            if let Some(layout) = options.layout.filter(|&layout| layout != Layout::Cnt) {
                return Err(format!("GUPPI RAW is read as cnt, not {layout}"));
            }
            let (inputs, channels) = (header.antennas * header.polarisations, header.channels);
            Ok(Shape { inputs, channels, encoding, layout: Layout::Cnt })
        })
    }
}

impl Guppi<RawShape> {
    /// Opens `paths` as one recording of raw voltages, every channel an input, and checks the headers of all
    /// its blocks.
    ///
    /// # Errors
    /// As for [`open_raw`](super::open_raw).
    pub fn raw(paths: &[PathBuf], options: Options) -> Result<Self> {
        Self::of(paths, options, |header| {
            let layout = RawLayout::Nt;
            if let Some(asked) = options.raw_layout.filter(|&asked| asked != layout) {
                return Err(format!("GUPPI RAW is read as nt, not {asked}"));
            }
            let encoding = header.encoding().map_or(RawEncoding::Ci16, RawEncoding::from);
            let inputs = header.antennas * header.polarisations * header.channels;
            Ok(RawShape { inputs, encoding, layout })
        })
    }
}

impl<S> Guppi<S> {
    fn of(
        paths: &[PathBuf],
        options: Options,
        shape: impl FnOnce(&Header) -> Result<S, String>,
    ) -> Result<Self> {
        let first = paths.first().ok_or_else(|| Error::invalid("no input file: expected 1"))?;
        let mut scan = Blocks::new(paths, options.keep_going);
        // Times of the recording, and those that blocks hold.
        let (mut times, mut held) = (0, 0);
        let mut gaps: Vec<Range<u64>> = Vec::new();
        // The longest gap, and the block after it.
        let mut longest: Option<(u64, DataBlock)> = None;
        while let Some(block) = scan.next()? {
            if block.start > times {
                gaps.push(times..block.start);
                let gap = block.start - times;
                if longest.as_ref().is_none_or(|(length, _)| gap > *length) {
                    longest = Some((gap, block.clone()));
                }
            }
            let end = block.end(&scan.paths)?;
            held += end - block.start.max(times);
            times = end;
        }
        if let Some((gap, block)) = longest.filter(|(gap, _)| *gap > held && !options.long_gaps) {
            let packet = block.header.packet.unwrap_or_default();
            return Err(Error::file(
                &paths[block.file],
                format!(
                    "PKTIDX = {packet}: {gap} times are missing before it, more than the {held} of all \
                     data; --long-gaps takes them as missing (block at byte {})",
                    block.at
                ),
            ));
        }
        let header = scan
            .first
            .as_ref()
            .map(|first| first.header.clone())
            .ok_or_else(|| Error::file(first, "no block: expected at least 1"))?;
        let shape = shape(&header).map_err(|reason| Error::file(first, reason))?;
        let pace = Pace::new(first, &options, header.interval, "TBIN says");
        let mut blocks = Blocks::new(paths, options.keep_going);
        let (current, next) = (blocks.next()?, blocks.next()?);
        Ok(Self {
            shape,
            header,
            times,
            blocks,
            current,
            next,
            position: 0,
            gaps,
            left_out: scan.left_out,
            pace,
            scratch: Vec::new(),
        })
    }

    /// Copies `count` times from the current block to `block`, where they start at `filled`.
    fn copy(&mut self, block: &mut Block, filled: usize, count: usize) -> Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        let DataBlock { header, data, start, .. } = current;
        let Header { antennas, channels, polarisations, .. } = *header;
        let sample = header.sample() as usize;
        let offset = self.position - start;

        // Read what of the block's [stream][time][polarisation] is wanted, a stream being a channel
        // of an antenna, or of [time][stream][polarisation].
        let streams = antennas * channels;
        let group = polarisations * sample;
        self.scratch.resize(streams * count * group, 0);
        if header.time_major {
            let from = data + offset * (streams * group) as u64;
            self.blocks.read(current, from, 0, [&mut self.scratch[..]])?;
        } else {
            let from = data + offset * group as u64;
            let pitch = header.times * group as u64;
            self.blocks.read(current, from, pitch, self.scratch.chunks_exact_mut(count * group))?;
        }

        // Pick each row, a channel of an input, out of its stream.
        let inputs = antennas * polarisations;
        let source = &self.scratch[..];
        let rows = block.samples.par_chunks_exact_mut(block.times * sample);
        rows.enumerate().for_each(|(row, samples)| {
            let (channel, input) = (row / inputs, row % inputs);
            let stream = input / polarisations * channels + channel;
            let polarisation = input % polarisations;
            let samples = &mut samples[filled * sample..(filled + count) * sample];
            let (first, stride) = if header.time_major {
                (stream * polarisations + polarisation, streams * polarisations)
            } else {
                (stream * count * polarisations + polarisation, polarisations)
            };
            let source = &source[first * sample..];
            match sample {
                1 => pick::<1>(samples, source, stride),
                2 => pick::<2>(samples, source, stride),
                _ => pick::<4>(samples, source, stride),
            }
        });
        Ok(())
    }

    /// Writes down that `range` of a block is missing, with samples of zero.
    fn mark_missing(&self, block: &mut Block, range: Range<usize>) {
        let sample = self.header.sample() as usize;
        for row in block.samples.chunks_exact_mut(block.times * sample) {
            row[range.start * sample..range.end * sample].fill(0);
        }
        match block.missing.last_mut() {
            Some(last) if last.times.end == range.start => last.times.end = range.end,
            _ => block.missing.push(Missing::times(range)),
        }
    }
}

/// Copies every `stride`th sample of `BYTES` bytes, beginning with the first.
fn pick<const BYTES: usize>(samples: &mut [u8], source: &[u8], stride: usize) {
    let (samples, source) = (samples.as_chunks_mut::<BYTES>().0, source.as_chunks::<BYTES>().0);
    let copy = |samples: &mut [[u8; BYTES]], stride| {
        for (to, from) in samples.iter_mut().zip(source.iter().step_by(stride)) {
            *to = *from;
        }
    };
    match stride {
        1 => samples.copy_from_slice(&source[..samples.len()]),
        // A constant that the compiler vectorises.
        2 => copy(samples, 2),
        _ => copy(samples, stride),
    }
}

impl<S: Copy + Send> Recording<S> for Guppi<S> {
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
        let (start, packet) = (self.header.start?, self.header.packet.unwrap_or(0));
        if packet == 0 {
            return Some(start);
        }
        let packets = packet as f64 / self.header.packets_per_block? as f64;
        let times = packets * (self.header.times - self.header.overlap) as f64;
        time::later(start, times * self.pace.interval?)
    }

    fn frequencies(&self) -> Option<Channels> {
        self.header.frequencies.clone()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("format", "GUPPI RAW".to_owned())];
        facts.extend(named_facts(&self.header.telescope, &self.header.source));
        facts.push(("antennas", self.header.antennas.to_string()));
        facts.push(("polarisations", self.header.polarisations.to_string()));
        facts
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let left = self.times - self.position;
        let times = usize::try_from(left).map_or(times, |left| times.min(left));
        let Header { antennas, channels, polarisations, .. } = self.header;
        let step = antennas * channels * polarisations * self.header.sample() as usize;
        block.reset_bytes(step * times, times)?;
        let mut filled = 0;
        while filled < times {
            let Some(current) = &self.current else {
                return Err(self.blocks.changed());
            };
            let end = current.start + current.header.times;
            let follows = self.next.as_ref().map_or(end, |next| next.start);
            let wanted = (times - filled) as u64;
            let count;
            if self.position < end {
                count = wanted.min(end - self.position) as usize;
                self.copy(block, filled, count)?;
            } else if self.position < follows {
                count = wanted.min(follows - self.position) as usize;
                self.mark_missing(block, filled..filled + count);
            } else {
                self.current = self.next.take();
                self.next = self.blocks.next()?;
                continue;
            }
            filled += count;
            self.position += count as u64;
        }
        Ok(times)
    }

    fn gaps(&self) -> &[Range<u64>] {
        &self.gaps
    }

    fn skip(&mut self, times: u64) -> Result<()> {
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

/// What the cards of one block say.
#[derive(Clone, Debug, PartialEq)]
struct Header {
    /// Bits of a component.
    bits: u64,
    antennas: usize,
    /// Channels of one antenna.
    channels: usize,
    polarisations: usize,
    /// Whether time is the slowest axis of the data.
    time_major: bool,
    /// Bytes of data.
    bytes: u64,
    /// Times in the data.
    times: u64,
    /// Times that the next block repeats.
    overlap: u64,
    direct_io: bool,
    packet: Option<u64>,
    packets_per_block: Option<u64>,
    interval: Option<f64>,
    /// The start of the observation, where packets are counted from.
    start: Option<Timestamp>,
    frequencies: Option<Channels>,
    telescope: Option<String>,
    source: Option<String>,
}

impl Header {
    /// Understands the cards of a block; the error is the reason alone.
    fn parse(cards: &Cards) -> Result<Self, String> {
        let bits = cards.required("NBITS")?;
        if !matches!(bits, 4 | 8 | 16) {
            return Err(format!("NBITS = {bits}: expected 4, 8 or 16"));
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
        let step = all_channels
            .checked_mul(polarisations * (bits / 4))
            .ok_or_else(|| format!("OBSNCHAN = {all_channels} cannot be addressed"))?;
        if bytes == 0 || bytes % step != 0 {
            return Err(format!(
                "BLOCSIZE = {bytes}: expected a positive multiple of {step}, the bytes of one time"
            ));
        }
        let times = bytes / step;
        let overlap = cards.integer("OVERLAP")?.unwrap_or(0);
        if overlap >= times {
            return Err(format!(
                "OVERLAP = {overlap}: expected less than the block's {times} times"
            ));
        }
        let packets_per_block = match cards.integer("PIPERBLK")? {
            Some(packets) => Some(packets),
            None => cards
                .integer("PKTSIZE")?
                .filter(|&size| size > 0 && ((times - overlap) * step).is_multiple_of(size))
                .map(|size| (times - overlap) * step / size),
        };
        let number = |name: &str| cards.text(name)?.parse::<f64>().ok().filter(|n| n.is_finite());
        let start = cards.integer("STT_IMJD").ok().flatten().zip(number("STT_SMJD"));
        let offset = number("STT_OFFS").unwrap_or(0.0);
        let day = |day: u64| i64::try_from(day).ok().filter(|&day| day < 1 << 24);
        let seconds = |seconds: f64| (0.0..1e6).contains(&seconds).then_some(seconds);
        let size = |value: u64| usize::try_from(value).map_err(|_| format!("{value} is too large"));
        Ok(Self {
            bits,
            start: start.and_then(|(first, second)| {
                time::later(time::of_day(day(first)?, 0, 0)?, seconds(second + offset)?)
            }),
            frequencies: number("OBSFREQ").zip(number("OBSBW")).and_then(|(centre, width)| {
                Channels::of_band(1e6 * centre, 1e6 * width, all_channels / antennas)
            }),
            telescope: cards.text("TELESCOP").map(str::to_owned),
            source: cards.text("SRC_NAME").map(str::to_owned),
            antennas: size(antennas)?,
            channels: size(all_channels / antennas)?,
            polarisations: size(polarisations)?,
            time_major: cards.text("PKTFMT") == Some("SIMPLE"),
            bytes,
            times,
            overlap,
            direct_io: cards.integer("DIRECTIO")?.unwrap_or(0) != 0,
            packet: cards.integer("PKTIDX")?,
            packets_per_block: packets_per_block.filter(|&packets| packets > 0),
            interval: cards
                .text("TBIN")
                .and_then(|text| text.parse().ok())
                .filter(|&seconds: &f64| seconds > 0.0 && seconds.is_finite()),
        })
    }

    /// Bytes of a sample.
    fn sample(&self) -> u64 {
        self.bits / 4
    }

    /// How a sample is stored, if channels are stored so.
    fn encoding(&self) -> Option<Encoding> {
        match self.bits {
            4 => Some(Encoding::Ci4),
            8 => Some(Encoding::Ci8),
            _ => None,
        }
    }

    /// What every block of a recording shares.
    fn shared(&self) -> (u64, usize, usize, usize, bool) {
        (self.bits, self.antennas, self.channels, self.polarisations, self.time_major)
    }

    /// In words, what every block of a recording shares.
    fn describe(&self) -> String {
        format!(
            "{} antennas, {} channels, {} polarisations, {} bits",
            self.antennas, self.channels, self.polarisations, self.bits
        )
    }
}

/// Why there is no header, in words.
enum Fault {
    /// The file ends within it.
    Truncated(String),
    Other(String),
}

/// Cards by name.
#[derive(Debug, Default)]
struct Cards(HashMap<String, String>);

impl Cards {
    /// Reads the cards of one header, `END` included, and returns their bytes; `None` at the end of
    /// the file. The error is the reason alone.
    fn read(reader: &mut impl BufRead) -> Result<Option<(Self, u64)>, Fault> {
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

    /// The value of a card as a whole number, which some instruments write as `8.0`.
    fn integer(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let whole = text.split_once('.').map_or(text, |(whole, fraction)| {
            if fraction.bytes().all(|digit| digit == b'0') { whole } else { text }
        });
        match whole.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(format!("{name} = {text:?}: expected a whole number")),
        }
    }

    fn required(&self, name: &str) -> Result<u64, String> {
        self.integer(name)?.ok_or_else(|| format!("no card {name} in a header"))
    }
}

/// Where the data of one block are, in its file and in time.
#[derive(Clone, Debug)]
struct DataBlock {
    header: Header,
    /// Index of the file.
    file: usize,
    /// Byte at which the header starts.
    at: u64,
    /// Byte at which the data start.
    data: u64,
    /// First time of the block, counted from the start of the recording.
    start: u64,
}

impl DataBlock {
    /// The time after the block's last one.
    fn end(&self, paths: &[PathBuf]) -> Result<u64> {
        self.start.checked_add(self.header.times).ok_or_else(|| {
            Error::file(&paths[self.file], "PKTIDX leads beyond any time that can be counted")
        })
    }
}

/// The blocks of a sequence of files in order, each checked against the first and the one before.
#[derive(Debug)]
struct Blocks {
    paths: Vec<PathBuf>,
    /// The open file, its length, and the byte after the last block.
    file: Option<(BufReader<File>, u64, u64)>,
    /// Index of the file that is open or is to be opened next.
    index: usize,
    first: Option<DataBlock>,
    previous: Option<DataBlock>,
    /// Packets of a block of the first one's size, once known.
    packets_per_block: Option<u64>,
    /// Another handle for data, with the index of its file, so that headers are not read again.
    data: Option<(usize, File)>,
    /// Whether a last block that is cut short is left out.
    keep_going: bool,
    /// Its fault.
    left_out: Option<String>,
}

impl Blocks {
    fn new(paths: &[PathBuf], keep_going: bool) -> Self {
        Self {
            paths: paths.to_vec(),
            keep_going,
            left_out: None,
            file: None,
            index: 0,
            first: None,
            previous: None,
            packets_per_block: None,
            data: None,
        }
    }

    /// Fills rows with the bytes of the file that `block` is in, from byte `from` on and `pitch` bytes apart.
    fn read<'a>(
        &mut self,
        block: &DataBlock,
        from: u64,
        pitch: u64,
        rows: impl IntoIterator<Item = &'a mut [u8]>,
    ) -> Result<()> {
        let path = &self.paths[block.file];
        let file = match &mut self.data {
            Some((index, file)) if *index == block.file => file,
            slot => {
                let file = File::open(path).map_err(Error::io(path, "read"))?;
                &mut slot.insert((block.file, file)).1
            }
        };
        read_rows(file, from, pitch, rows).map_err(Error::io(path, "read"))
    }

    /// The error for a recording that ends earlier than when it was opened.
    fn changed(&self) -> Error {
        let path = self.paths.last().cloned().unwrap_or_default();
        Error::file(path, "has become shorter while it was read")
    }

    /// The next block, or `None` after the last one.
    fn next(&mut self) -> Result<Option<DataBlock>> {
        while self.index < self.paths.len() {
            let path = &self.paths[self.index];
            let (reader, length, position) = match &mut self.file {
                Some(open) => open,
                closed => {
                    let file = File::open(path).map_err(Error::io(path, "read"))?;
                    let length = file.metadata().map_err(Error::io(path, "read"))?.len();
                    closed.insert((BufReader::new(file), length, 0))
                }
            };
            let fault = |reason: String| Error::file(path, reason);
            let at = *position;
            let is_last = self.index + 1 == self.paths.len();
            // A recording that was cut short, by a crash or a full disk, ends with a part of a block.
            let hint = if is_last { "; --keep-going leaves this last block out" } else { "" };
            let cards = reader
                .seek(SeekFrom::Start(at))
                .map_err(|error| Fault::Other(format!("cannot read: {error}")))
                .and_then(|_| Cards::read(reader));
            let (cards, card_bytes) = match cards {
                Ok(Some(cards)) => cards,
                Ok(None) => {
                    self.file = None;
                    self.index += 1;
                    continue;
                }
                Err(Fault::Truncated(reason)) if is_last && self.keep_going => {
                    return Ok(self.leave_out(reason));
                }
                Err(Fault::Truncated(reason)) => return Err(fault(reason + hint)),
                Err(Fault::Other(reason)) => return Err(fault(reason)),
            };
            let header = Header::parse(&cards)
                .map_err(|reason| fault(format!("{reason} (block at byte {at})")))?;
            let padded = |bytes: u64| if header.direct_io { pad(bytes) } else { bytes };
            let data = at + padded(card_bytes);
            let left = length.saturating_sub(data);
            if left < header.bytes {
                let reason = format!(
                    "truncated: {left} bytes of data in the block at byte {at}, expected {}",
                    header.bytes
                );
                if is_last && self.keep_going {
                    return Ok(self.leave_out(reason));
                }
                return Err(fault(reason + hint));
            }
            *position = data + header.bytes;
            if header.direct_io {
                *position += zeros_before_sector(reader, *position, *length)
                    .map_err(Error::io(path, "read"))?;
            }
            let file = self.index;
            let start = self.start(&header, file, at)?;
            let block = DataBlock { header, file, at, data, start };
            self.first.get_or_insert_with(|| block.clone());
            self.previous = Some(block.clone());
            return Ok(Some(block));
        }
        Ok(None)
    }

    /// Ends the recording before a block that is cut short.
    fn leave_out(&mut self, reason: String) -> Option<DataBlock> {
        self.left_out = Some(format!("{}: {reason}", self.paths[self.index].display()));
        self.file = None;
        self.index = self.paths.len();
        None
    }

    /// First time of a block, from its `PKTIDX` if it has one, else from the block before.
    fn start(&mut self, header: &Header, file: usize, at: u64) -> Result<u64> {
        let fault = |reason: String| {
            Error::file(&self.paths[file], format!("{reason} (block at byte {at})"))
        };
        let (Some(first), Some(previous)) = (&self.first, &self.previous) else {
            return Ok(0);
        };
        if header.shared() != first.header.shared() {
            return Err(fault(format!(
                "{}: expected {} as in the first block",
                header.describe(),
                first.header.describe()
            )));
        }
        let follows = previous.end(&self.paths)? - previous.header.overlap;
        let (Some(packet), Some(first_packet)) = (header.packet, first.header.packet) else {
            return Ok(follows);
        };
        let advance =
            packet.checked_sub(first_packet).filter(|&advance| advance > 0).ok_or_else(|| {
                fault(format!(
                    "PKTIDX = {packet}: expected more than the first block's {first_packet}"
                ))
            })?;
        let packets = *self
            .packets_per_block
            .get_or_insert(first.header.packets_per_block.unwrap_or(advance));
        let fresh = first.header.times - first.header.overlap;
        let times = u128::from(advance) * u128::from(fresh);
        let packets = u128::from(packets);
        let start = u64::try_from(times / packets)
            .ok()
            .filter(|start| times % packets == 0 && *start >= follows)
            .ok_or_else(|| {
                let least = (u128::from(follows) * packets).div_ceil(u128::from(fresh));
                fault(format!(
                    "PKTIDX = {packet}, {advance} after the first block's: expected a whole number \
                     of times, at least {least} packets, at {packets} packets for {fresh} times"
                ))
            })?;
        Ok(start)
    }
}

/// `bytes` and the padding behind them that direct I/O adds.
fn pad(bytes: u64) -> u64 {
    bytes.next_multiple_of(SECTOR)
}

/// Number of bytes from `position` to the next multiple of a sector if they are zeros, as some
/// writers pad data but others do not; a header never starts with a zero.
fn zeros_before_sector(
    reader: &mut BufReader<File>,
    position: u64,
    length: u64,
) -> std::io::Result<u64> {
    let mut padding = vec![0; (pad(position).min(length) - position) as usize];
    reader.seek(SeekFrom::Start(position))?;
    reader.read_exact(&mut padding)?;
    Ok(if padding.iter().all(|&byte| byte == 0) { padding.len() as u64 } else { 0 })
}
