//! Recordings of samples of few bits in words of 32 bits, as [`Packed`] describes them.

use corrust_host::{
    Encoding, Error, Layout, Result, device,
    quantise::{Packed, Quantised, samples_per_word},
    samples::Shape,
};

use super::{description::Description, header::Dtype, reader::Reader};
use crate::formats::{
    input::Input,
    options::Options,
    recording::{Block, Recording},
};

/// Arrays uint32 `[channel][input][word][2]` that follow each other in time, read as `ci4` samples in `cnt`.
pub(in crate::formats) struct PackedWords {
    shape: Shape,
    bits: u32,
    /// Files still to be read, in reverse, each with its number of times.
    files: Vec<(Reader, u64)>,
    /// Times of the last of `files` that have been read.
    position: u64,
    times: u64,
    quantised: Vec<Quantised>,
    interval: Option<f64>,
}

impl PackedWords {
    /// Opens arrays as one recording.
    ///
    /// # Errors
    /// As for [`open`](crate::formats::open).
    pub(in crate::formats) fn of(inputs: Vec<Input>, options: Options) -> Result<Self> {
        let (mut files, mut quantised, mut first) = (Vec::new(), Vec::new(), None);
        let mut lacks = false;
        for input in inputs {
            let reader = Reader::of(input)?;
            let path = reader.path().to_owned();
            reader.expect(Dtype::Uint32, &["channel", "input", "word", "real, imaginary"])?;
            let &[channels, inputs, words, 2] = reader.shape() else {
                let found = reader.shape()[3];
                let reason = format!("last axis of length {found}: expected 2, real and imaginary");
                return Err(Error::file(path, reason));
            };
            let description = Description::beside(&reader);
            let packed = description.and_then(|found| Some((found.packed_bits()?, found)));
            let Some((bits, description)) = packed else {
                let reason = "elements of type uint32 are packed words: expected a description beside them, as \
                              corrust quantise --pack writes";
                return Err(Error::file(path, reason));
            };
            let at = |reason: String| Error::file(Description::path(&path), reason);
            let per_word = samples_per_word(bits).map_err(|error| at(error.to_string()))?;
            let times = description.packed_times(words, per_word).map_err(at)?;
            if let Some(asked) = options.encoding.filter(|&asked| asked != Encoding::Ci4) {
                let reason = format!(
                    "encoding {asked} of packed words: expected ci4, as which they are read"
                );
                return Err(Error::setting("encoding", Some(&path), reason));
            }
            if let Some(asked) = options.layout.filter(|&asked| asked != Layout::Cnt) {
                let reason = format!(
                    "packed words in the layout {asked}: expected cnt, as they lie along time"
                );
                return Err(Error::file(path, reason));
            }
            let shape = Shape { inputs, channels, encoding: Encoding::Ci4, layout: Layout::Cnt };
            let (expected, expected_bits) = *first.get_or_insert((shape, bits));
            if (shape, bits) != (expected, expected_bits) {
                let reason = format!(
                    "{channels} channels, {inputs} inputs of {bits} bits: expected {}, {} of {expected_bits} as in the \
                     file before",
                    expected.channels, expected.inputs
                );
                return Err(Error::file(path, reason));
            }
            if lacks {
                let reason = "follows a file whose last words are not full: expected full ones of all but the last";
                return Err(Error::file(path, reason));
            }
            lacks = times < (words * per_word) as u64;
            quantised.extend(description.quantised);
            files.push((reader, times));
        }
        let (shape, bits) =
            first.ok_or_else(|| Error::invalid("no input file: expected at least 1"))?;
        files.reverse();
        let times = files.iter().map(|&(_, times)| times).sum();
        let interval = options.rate.map(f64::recip);
        Ok(Self { shape, bits, files, position: 0, times, quantised, interval })
    }

    /// Advances by `times` times in the file that is being read.
    fn advance(&mut self, times: u64) {
        self.position += times;
        if self.files.last().is_some_and(|&(_, length)| self.position == length) {
            self.files.pop();
            self.position = 0;
        }
    }
}

impl Recording for PackedWords {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn times(&self) -> u64 {
        self.times
    }

    fn interval(&self) -> Option<f64> {
        self.interval
    }

    fn quantised(&self) -> &[Quantised] {
        &self.quantised
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("format", format!("NumPy, packed words of {} bits", self.bits))]
    }

    fn skip(&mut self, mut times: u64) -> Result<()> {
        while times > 0
            && let Some(&(_, length)) = self.files.last()
        {
            let count = (length - self.position).min(times);
            times -= count;
            self.advance(count);
        }
        Ok(())
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let left = self.files.iter().map(|&(_, length)| length).sum::<u64>() - self.position;
        let times = usize::try_from(left).map_or(times, |left| left.min(times));
        let Shape { inputs, channels, .. } = self.shape;
        let per_word = samples_per_word(self.bits)?;
        block.reset(&self.shape, times)?;
        let mut filled = 0;
        while filled < times
            && let Some((reader, length)) = self.files.last_mut()
        {
            let position = self.position as usize;
            let count = (*length as usize - position).min(times - filled);
            let (first, end) = (position / per_word, (position + count).div_ceil(per_word));
            let mut words = device::zeros::<u32>(channels * inputs * 2 * (end - first))?;
            let rows = bytemuck::cast_slice_mut(&mut words).chunks_exact_mut(8 * (end - first));
            let mut rows: Vec<&mut [u8]> = rows.collect();
            let pitch = 2 * (*length as usize).div_ceil(per_word) as u64;
            reader.read_rows(2 * first as u64, pitch, &mut rows)?;
            words.iter_mut().for_each(|word| *word = u32::from_le(*word));
            let held = (end - first) * per_word;
            let samples = Packed::new(&words, inputs, channels, held, self.bits)?.unpack()?;
            let skipped = position - first * per_word;
            let rows = samples.chunks_exact(held).zip(block.samples.chunks_exact_mut(times));
            for (from, to) in rows {
                to[filled..filled + count].copy_from_slice(&from[skipped..skipped + count]);
            }
            filled += count;
            self.advance(count as u64);
        }
        Ok(times)
    }
}
