//! VDIF's complex samples of 1 or 2 bits as words of bits.
//!
//! VDIF's lowest code stands for the lowest level, so that a code's bits go to the planes as they are, the highest bit
//! first: 1 bit is -1 or 1, 2 bits are -3, -1, 1 or 3. A thread is an input, its channels are the recording's.

use std::{ops::Range, path::PathBuf};

use corrust_host::{
    Encoding, Error, Layout, Result,
    samples::{Missing, RawEncoding, RawShape, Shape},
};

use super::{
    bits,
    frames::Frames,
    options::Options,
    recording::{Block, Recording},
    vdif::Vdif,
};
use crate::array::{file::Channels, time::Timestamp};

/// Maker of words of bits from raw samples, of which each row is a channel of a thread.
pub struct Words {
    raw: RawShape,
    shape: Shape,
    parts: bits::Channels,
}

impl Words {
    /// Words of `encoding` of raw samples, `channels` of each thread; or what is amiss.
    pub fn new(raw: RawShape, channels: usize, encoding: Encoding) -> Result<Self, String> {
        let bits = encoding.planes() as u8;
        if raw.encoding != (RawEncoding::Vdif { bits, complex: true }) {
            return Err(format!(
                "samples of {}: expected vdif-{bits}-complex, to be read as {encoding}",
                raw.encoding
            ));
        }
        let inputs = raw.inputs / channels;
        let shape = Shape { inputs, channels, encoding, layout: Layout::Cnt };
        Ok(Self { raw, shape, parts: bits::Channels::default() })
    }

    /// Shape of the words for a correlator.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Makes a block of the words of `times` raw samples of each row, of which some are missing: all times of a word are
    /// missing of which one is.
    pub fn make(
        &mut self,
        samples: &[u8],
        times: usize,
        gaps: &[Missing],
        block: &mut Block,
    ) -> Result<()> {
        let Shape { inputs, channels, encoding, .. } = self.shape;
        let (word, word_bytes, planes) = (encoding.times(), encoding.bytes(), encoding.planes());
        let words = times.div_ceil(word);
        block.reset(&self.shape, times)?;
        let pitch = self.raw.pitch(times).max(1);
        for (row, samples) in samples.chunks_exact(pitch).enumerate() {
            let (input, channel) = (row / channels, row % channels);
            // Real parts by bits, the lowest first, then imaginary ones.
            let (parted, length) = self.parts.part(samples, 1, 2 * planes);
            for (stream, bits) in parted.chunks_exact(length).enumerate() {
                let (part, plane) = (stream / planes, planes - 1 - stream % planes);
                let first = ((channel * inputs + input) * planes + plane) * words;
                let to = &mut block.samples[first * word_bytes..(first + words) * word_bytes];
                let halves = to.chunks_exact_mut(word_bytes / 2).skip(part).step_by(2);
                for (to, bits) in halves.zip(bits.chunks(word_bytes / 2)) {
                    to[..bits.len()].copy_from_slice(bits);
                    to[bits.len()..].fill(0);
                }
            }
        }
        for gap in gaps {
            let [start, end] = [gap.times.start / word, gap.times.end.div_ceil(word)];
            let times = start * word..times.min(end * word);
            let rows = gap.inputs.start..gap.inputs.end.min(inputs * channels);
            if rows == (0..inputs * channels) {
                block.missing.push(Missing::times(times));
                continue;
            }
            for input in rows.start / channels..rows.end.div_ceil(channels) {
                let first = rows.start.max(input * channels) - input * channels;
                let last = rows.end.min((input + 1) * channels) - input * channels;
                let missing = Missing::times(times.clone()).of_channels(first..last);
                block.missing.push(missing.of_inputs(input..input + 1));
            }
        }
        Ok(())
    }
}

/// A recording of raw voltages, as words of bits.
pub struct Planes {
    raw: Box<dyn Recording<RawShape>>,
    /// Block that was read last.
    block: Block,
    words: Words,
    gaps: Vec<Range<u64>>,
}

impl Planes {
    /// Opens VDIF files as one recording of the bits that `options` say.
    ///
    /// # Errors
    /// As for [`open`](super::open).
    pub(super) fn open(paths: &[PathBuf], options: Options) -> Result<Self> {
        let fault = |reason: String| Error::file(&paths[0], reason);
        let encoding = options.encoding.expect("what is to be read as bits was said to be");
        if let Some(layout) = options.layout.filter(|&layout| layout != Layout::Cnt) {
            return Err(fault(format!(
                "{encoding} in the layout {layout}: expected cnt, as words lie along time"
            )));
        }
        let frames = Frames::open(paths, &options, Vdif::new)?;
        let words = Words::new(frames.shape(), frames.channels(), encoding).map_err(fault)?;
        Ok(Self::over(Box::new(frames), words))
    }

    /// Words of the rows of a recording, of which `words` are made.
    pub fn over(raw: Box<dyn Recording<RawShape>>, words: Words) -> Self {
        // Whole words alone can be passed over.
        let word = words.shape.encoding.times() as u64;
        let whole = |gap: &Range<u64>| gap.start.next_multiple_of(word)..gap.end / word * word;
        let gaps = raw.gaps().iter().map(whole).filter(|gap| gap.start < gap.end).collect();
        Self { raw, block: Block::new(), words, gaps }
    }
}

impl Recording for Planes {
    fn shape(&self) -> Shape {
        self.words.shape
    }

    fn times(&self) -> u64 {
        self.raw.times()
    }

    fn interval(&self) -> Option<f64> {
        self.raw.interval()
    }

    fn start(&self) -> Option<Timestamp> {
        self.raw.start()
    }

    fn frequencies(&self) -> Option<Channels> {
        self.raw.frequencies()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        self.raw.facts()
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let Self { raw, block: found, words, .. } = self;
        let word = words.shape.encoding.times();
        let times = times.checked_next_multiple_of(word).unwrap_or(usize::MAX / word * word);
        let read = raw.read_block(times, found)?;
        words.make(&found.samples, read, &found.missing, block)?;
        block.gap = found.gap;
        Ok(read)
    }

    fn gaps(&self) -> &[Range<u64>] {
        &self.gaps
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        self.raw.skip(times)
    }

    fn left_out(&self) -> Option<&str> {
        self.raw.left_out()
    }

    fn contradiction(&self) -> Option<&str> {
        self.raw.contradiction()
    }
}
