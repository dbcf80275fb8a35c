//! Blocks of GUPPI RAW, as they are written.

use std::path::Path;

use corrust_host::{Encoding, Error, Result, partial::PartialFile};

use super::header::CARD;
use crate::array::time::{Timestamp, UNIX_DAY};

/// Most bytes of data of a block; a single time may have more.
const BLOCK_BYTES: usize = 1 << 24;

/// Facts of a recording that its headers tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Name of the telescope.
    pub telescope: Option<String>,
    /// Name of the source.
    pub source: Option<String>,
    /// When the first time begins.
    pub start: Timestamp,
    /// Seconds from one time to the next.
    pub interval: f64,
    /// Hertz of the first channel's centre.
    pub first_channel: f64,
    /// Hertz to the next channel.
    pub channel_width: f64,
    /// Channels.
    pub channels: usize,
    /// Polarisations: 1 or 2.
    pub polarisations: usize,
    /// Encoding of a sample: `ci8` or `ci4`.
    pub encoding: Encoding,
    /// Number of times, `u64::MAX` if unknown: all blocks but the last are equally long.
    pub times: u64,
}

/// Writes a recording of one antenna, or one beam, as times come. The file appears under its final name when it is
/// [finished](Self::finish); dropped before that it leaves nothing.
#[derive(Debug)]
pub struct Writer {
    file: PartialFile,
    /// The cards that all blocks share.
    cards: String,
    polarisations: usize,
    /// Bytes of a sample, and of a time.
    sample: usize,
    step: usize,
    block_times: usize,
    /// Number of the block's first time.
    position: u64,
    /// The block that is begun, `[channel][time][polarisation]`, and its times.
    block: Vec<u8>,
    filled: usize,
    /// Whether any of its times is there.
    there: bool,
}

impl Writer {
    /// Starts a file.
    ///
    /// # Errors
    /// [`Error::Invalid`] of another encoding than `ci8` and `ci4`, other than 1 or 2 polarisations, no channels, or a start
    /// before 1858; [`Error::OutOfMemory`]; [`Error::Io`] when the destination's folder does not exist or cannot be written to.
    pub fn create(path: impl AsRef<Path>, description: &Description) -> Result<Self> {
        let &Description { channels, polarisations, encoding, times, .. } = description;
        let bits = match encoding {
            Encoding::Ci8 => 8,
            Encoding::Ci4 => 4,
            other => {
                return Err(Error::invalid(format!("{other} in GUPPI RAW: expected ci8 or ci4")));
            }
        };
        if !(1..=2).contains(&polarisations) || channels == 0 {
            return Err(Error::invalid(format!(
                "{channels} channels of {polarisations} polarisations in GUPPI RAW: expected at least 1 channel, and 1 or 2 \
                 polarisations"
            )));
        }
        let step = channels.saturating_mul(polarisations).saturating_mul(encoding.bytes());
        let most = (BLOCK_BYTES / step).max(1) as u64;
        // As many times in each as leave the fewest for the last.
        let blocks = if times == u64::MAX { 1 } else { times.div_ceil(most).max(1) };
        let block_times = times.div_ceil(blocks).clamp(1, most) as usize;
        let mut block = Vec::new();
        let bytes = step.saturating_mul(block_times);
        block.try_reserve_exact(bytes).map_err(|_| {
            Error::invalid(format!("blocks of {bytes} bytes in GUPPI RAW: expected fewer channels"))
        })?;
        block.resize(bytes, 0);
        let cards = description.cards(bits, step)?;
        Ok(Self {
            file: PartialFile::create(path)?,
            cards,
            polarisations,
            sample: encoding.bytes(),
            step,
            block_times,
            position: 0,
            block,
            filled: 0,
            there: false,
        })
    }

    /// Appends samples of the next times, `[channel][polarisation][time]`.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be written.
    ///
    /// # Panics
    /// When they are no whole times.
    pub fn append(&mut self, samples: &[u8]) -> Result<()> {
        assert!(samples.len().is_multiple_of(self.step), "whole times");
        let (times, sample) = (samples.len() / self.step, self.sample);
        let mut first = 0;
        while first < times {
            let count = (self.block_times - self.filled).min(times - first);
            for (stream, row) in samples.chunks_exact(times * sample).enumerate() {
                let (channel, polarisation) =
                    (stream / self.polarisations, stream % self.polarisations);
                let time = channel * self.block_times + self.filled;
                let to = (time * self.polarisations + polarisation) * sample;
                let to = self.block[to..].chunks_mut(self.polarisations * sample);
                let from = row[first * sample..(first + count) * sample].chunks_exact(sample);
                to.zip(from).for_each(|(to, from)| to[..sample].copy_from_slice(from));
            }
            self.there = true;
            self.filled += count;
            first += count;
            if self.filled == self.block_times {
                self.end()?;
            }
        }
        Ok(())
    }

    /// Passes over `times` times that are missing: zeros, and blocks of nothing else are left out, of which packet numbers
    /// tell.
    ///
    /// # Errors
    /// [`Error::Io`] when a block cannot be written.
    pub fn append_missing(&mut self, mut times: u64) -> Result<()> {
        while times > 0 {
            let left = self.block_times - self.filled;
            let count = usize::try_from(times).map_or(left, |times| times.min(left));
            self.filled += count;
            times -= count as u64;
            if self.filled == self.block_times {
                self.end()?;
            }
        }
        Ok(())
    }

    /// Writes the block, if any of its times is there, and begins the next.
    fn end(&mut self) -> Result<()> {
        let (filled, row) = (self.filled, self.step / self.channels());
        if self.there {
            let number = |name: &str, number: u64| card(name, &format!("{number:>20}"));
            let cards = [
                &self.cards[..],
                &number("PKTIDX", self.position),
                &number("PIPERBLK", filled as u64),
                &number("BLOCSIZE", (filled * self.step) as u64),
                &format!("{:<CARD$}", "END"),
            ];
            self.file.append(cards.concat().as_bytes())?;
            for channel in self.block.chunks_exact(self.block_times * row) {
                self.file.append(&channel[..filled * row])?;
            }
            self.block.fill(0);
        }
        self.position += filled as u64;
        (self.filled, self.there) = (0, false);
        Ok(())
    }

    fn channels(&self) -> usize {
        self.step / (self.polarisations * self.sample)
    }

    /// Completes the file, whose last block may be shorter, and gives it its final name, replacing a file of that name.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be completed or renamed; nothing is left of it then.
    pub fn finish(mut self) -> Result<()> {
        if self.filled > 0 {
            self.end()?;
        }
        self.file.finish()
    }
}

impl Description {
    /// Cards that all blocks share, for samples of `bits` bits a part and `step` bytes a time.
    fn cards(&self, bits: usize, step: usize) -> Result<String> {
        let since = self.start.as_second() + UNIX_DAY * 86_400;
        let day = u64::try_from(since.div_euclid(86_400)).map_err(|_| {
            Error::invalid(format!("start {} in GUPPI RAW: expected one after 1858", self.start))
        })?;
        let offset = f64::from(self.start.subsec_nanosecond()) * 1e-9;
        let width = self.channel_width / 1e6;
        let centre = self.first_channel / 1e6 + width * (self.channels as f64 - 1.0) / 2.0;
        let text = |name: &str, value: &str| {
            // Quotes end a value, and cards are of printable ASCII.
            let plain = |c: char| if c.is_ascii_graphic() && c != '\'' { c } else { ' ' };
            let value: String = value.chars().map(plain).take(60).collect();
            card(name, &format!("'{value:<8}'"))
        };
        let number = |name: &str, value: f64| card(name, &format!("{value:>20E}"));
        let whole = |name: &str, value: u64| card(name, &format!("{value:>20}"));
        let cards = [
            text("BACKEND", "CORRUST"),
            text("TELESCOP", self.telescope.as_deref().unwrap_or("unknown")),
            text("SRC_NAME", self.source.as_deref().unwrap_or("unknown")),
            text("PKTFMT", "1SFA"),
            whole("OBSNCHAN", self.channels as u64),
            // Two polarisations are told as four products.
            whole("NPOL", if self.polarisations == 2 { 4 } else { 1 }),
            whole("NBITS", bits as u64),
            number("OBSFREQ", centre),
            number("OBSBW", width * self.channels as f64),
            number("CHAN_BW", width),
            number("TBIN", self.interval),
            whole("OVERLAP", 0),
            whole("DIRECTIO", 0),
            whole("STT_IMJD", day),
            whole("STT_SMJD", since.rem_euclid(86_400) as u64),
            number("STT_OFFS", offset),
            whole("PKTSIZE", step as u64),
        ];
        Ok(cards.concat())
    }
}

fn card(name: &str, value: &str) -> String {
    format!("{:<CARD$}", format!("{name:<8}= {value}"))
}

#[cfg(test)]
mod tests {
    use corrust_host::samples::Missing;

    use super::*;
    use crate::formats::{Block, Options, open};

    fn description() -> Description {
        Description {
            telescope: None,
            source: None,
            start: "2026-03-01T12:00:00.25Z".parse().unwrap(),
            interval: 1e-3,
            first_channel: 1e9,
            channel_width: 1e6,
            channels: 3,
            polarisations: 2,
            encoding: Encoding::Ci8,
            times: u64::MAX,
        }
    }

    /// Samples `[channel][polarisation][time]` of some times, none of them zero.
    fn samples(times: std::ops::Range<usize>) -> Vec<u8> {
        let rows = (0..6).flat_map(|row| times.clone().map(move |time| (row, time)));
        rows.flat_map(|(row, time)| [(time * 7 + row) % 250 + 1, (time + 31 * row) % 250 + 1])
            .map(|part| part as u8)
            .collect()
    }

    #[test]
    fn blocks_and_gaps_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.raw");
        let mut writer = Writer::create(&path, &description()).unwrap();
        (writer.block_times, writer.block) = (64, vec![0; 64 * 12]);
        for (first, end) in [(0, 1), (1, 100), (400, 457)] {
            if first == 400 {
                writer.append_missing(300).unwrap();
            }
            writer.append(&samples(first..end)).unwrap();
        }
        writer.finish().unwrap();
        let options = Options { long_gaps: true, ..Options::default() };
        let mut found = open(&[path], options).unwrap();
        assert_eq!((found.times(), found.shape().inputs, found.shape().channels), (457, 2, 3));
        assert_eq!(found.start(), Some(description().start));
        let mut block = Block::new();
        assert_eq!(found.read_block(1000, &mut block).unwrap(), 457);
        // Blocks of nothing else are missing; others are filled up with zeros.
        assert_eq!(block.missing, [Missing::times(128..384)]);
        let mut expected = samples(0..457);
        for row in expected.chunks_exact_mut(457 * 2) {
            row[200..800].fill(0);
        }
        assert!(block.samples[..] == expected);
    }

    #[test]
    fn known_lengths_make_blocks_of_about_the_same_length() {
        let folder = tempfile::tempdir().unwrap();
        let times = (BLOCK_BYTES / 12) as u64;
        for (known, expected) in [(1, 1), (times, times), (times + 1, times / 2 + 1), (0, 1)] {
            let description = Description { times: known, ..description() };
            let writer = Writer::create(folder.path().join("x.raw"), &description).unwrap();
            assert_eq!(writer.block_times as u64, expected);
        }
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let path = tempfile::tempdir().unwrap().path().join("x.raw");
        let refused = |change: fn(&mut Description)| {
            let mut description = description();
            change(&mut description);
            Writer::create(&path, &description).unwrap_err().to_string()
        };
        assert!(refused(|of| of.encoding = Encoding::Cf16).contains("expected ci8 or ci4"));
        assert!(refused(|of| of.polarisations = 3).contains("1 or 2 polarisations"));
        assert!(refused(|of| of.channels = 0).contains("at least 1 channel"));
        assert!(refused(|of| of.channels = usize::MAX).contains("expected fewer channels"));
        assert!(refused(|of| of.start = "1800-01-01T00:00:00Z".parse().unwrap()).contains("1858"));
    }
}
