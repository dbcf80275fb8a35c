//! Recordings of GUPPI RAW.

use std::{ops::Range, path::PathBuf};

use corrust_host::{
    Error, Layout, Result,
    samples::{Missing, RawEncoding, RawLayout, RawShape, Shape},
};
use rayon::prelude::*;

use super::{
    blocks::{Blocks, DataBlock},
    header::{Header, OF_TWO_BITS},
};
use crate::array::{
    file::{Channels, PhaseCenter},
    time::{self, Timestamp},
};
use crate::formats::{
    options::{Options, Pace, named_facts},
    recording::{Block, Recording},
};

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
    /// Samples of 2 bits.
    packed: Vec<u8>,
}

impl Guppi {
    /// Opens `paths` as one recording of channels and checks the headers of all its blocks.
    ///
    /// # Errors
    /// As for [`open`](crate::formats::open).
    pub fn open(paths: &[PathBuf], options: Options) -> Result<Self> {
        Self::of(paths, options, |header| {
            let encoding = header.encoding().ok_or(
                "NBITS = 16: expected 2, 4 or 8 for channels as they are; corrust channelise makes finer ones",
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
    /// As for [`open_raw`](crate::formats::open_raw).
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
        // Times of the recording, and times that blocks hold.
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
            packed: Vec::new(),
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
        let wanted = streams * count * group;
        self.scratch.resize(wanted, 0);
        if header.bits == 2 {
            // Bytes of two complex samples each, from a whole one on.
            let bits = polarisations as u64 * 4;
            let (packed, every, rows) = match header.time_major {
                true => (count * streams, 1, streams as u64),
                false => (count, streams, 1),
            };
            let first = offset * bits * rows;
            let skipped = (first % 8 / 4) as usize;
            let bytes = (skipped + packed * polarisations).div_ceil(2);
            self.packed.resize(every * bytes, 0);
            let pitch = (header.times * bits).div_ceil(8);
            let rows = self.packed.chunks_exact_mut(bytes);
            self.blocks.read(current, data + first / 8, pitch, rows)?;
            let rows =
                self.packed.chunks_exact(bytes).zip(self.scratch.chunks_exact_mut(wanted / every));
            for (packed, samples) in rows {
                let pairs = packed.iter().flat_map(|&byte| OF_TWO_BITS[usize::from(byte)]);
                samples.iter_mut().zip(pairs.skip(2 * skipped)).for_each(|(to, from)| *to = from);
            }
        } else if header.time_major {
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
pub(super) fn pick<const BYTES: usize>(samples: &mut [u8], source: &[u8], stride: usize) {
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
        self.header.frequencies()
    }

    fn band(&self) -> Option<[f64; 2]> {
        self.header.band
    }

    fn source(&self) -> Option<PhaseCenter> {
        self.header.center()
    }

    fn polarisations(&self) -> usize {
        self.header.polarisations
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
