//! Files of bit planes, written by `corrust quantise --planes`.

use std::{path::Path, sync::Arc};

use corrust::{
    Encoding, Error, Layout, Result,
    correlate::Shape,
    device::Gpu,
    format::npy::{Description, Dtype, Writer},
    quantise,
    samples::{Memory, Missing, Samples, missing_within},
};

use crate::cli::commands::channelise::file::RowFile;

/// The file that planes go to.
pub struct PlaneFile {
    /// Shape of the words.
    shape: Shape,
    bits: u32,
    /// Times of all, and the words that hold them.
    times: u64,
    words: u64,
    file: RowFile,
    gpu: Option<Arc<dyn Gpu>>,
    /// Number of the word that was written last, and the word of each row, where more of it may come.
    open: Option<(u64, Vec<u8>)>,
    missing: Vec<Missing>,
}

impl PlaneFile {
    /// The file of planes of `times` times of channels and inputs of `of`, made by a GPU where there is one.
    pub fn create(
        output: &Path,
        of: &Shape,
        times: u64,
        bits: u32,
        gpu: Option<Arc<dyn Gpu>>,
    ) -> Result<Self> {
        let encoding = match bits {
            1 => Encoding::B1,
            2 => Encoding::B2,
            _ => {
                return Err(Error::invalid(format!(
                    "--planes of {bits} bits: expected --bits 1 or 2"
                )));
            }
        };
        let shape = Shape { encoding, layout: Layout::Cnt, ..*of };
        let words = times.div_ceil(encoding.times() as u64);
        let axes = usize::try_from(words).unwrap_or(usize::MAX);
        let axes = Description::axes_of_words(&shape, axes);
        let writer = Writer::with_shape(output, Dtype::Uint8, &axes)?;
        let file = RowFile::new(writer)?;
        Ok(Self { shape, bits, times, words, file, gpu, open: None, missing: Vec::new() })
    }

    /// Writes the planes of `count` times from `first` on. `quantise` fills in their values, `ci4` in `layout`,
    /// from some samples on as many as its bytes; those of a row, or all, stand together.
    pub fn write(
        &mut self,
        first: u64,
        count: usize,
        layout: Layout,
        mut quantise: impl FnMut(usize, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let Shape { inputs, channels, encoding, .. } = self.shape;
        // Words begin before the first time: values whose bits are clear.
        let before = (first % encoding.times() as u64) as usize;
        let clear = if self.bits == 1 { 0xff } else { 0xee };
        let rows = channels * inputs;
        let mut values = vec![clear; rows * (before + count)];
        match layout {
            Layout::Tcn => quantise(0, &mut values[rows * before..])?,
            Layout::Cnt => {
                for (row, values) in values.chunks_exact_mut(before + count).enumerate() {
                    quantise(row * count, &mut values[before..])?;
                }
            }
        }
        let values = Samples::new(&values[..], inputs, channels, Encoding::Ci4, layout)?;
        let words = match &self.gpu {
            Some(gpu) => quantise::planes_on(gpu, &values, self.bits)?,
            None => quantise::planes(&values, self.bits)?,
        };
        self.put(first / encoding.times() as u64, words)?;
        if (first + count as u64).is_multiple_of(encoding.times() as u64) {
            self.open = None;
        }
        Ok(())
    }

    /// Writes samples of bits from time `first` on, with which a word begins.
    pub fn copy(&mut self, first: u64, samples: &Samples<'_>) -> Result<()> {
        let Memory::Host(_) = samples.memory() else { unreachable!("blocks are in host memory") };
        self.put(first / self.shape.encoding.times() as u64, samples.gather(Layout::Cnt)?)?;
        for gap in samples.gaps() {
            let times = gap.times.start + first as usize..gap.times.end + first as usize;
            self.missing.push(Missing { times, ..gap });
        }
        Ok(())
    }

    /// Says that samples of the times from `first` on are missing: the words that hold one of them are.
    pub fn miss(&mut self, first: u64, gap: Missing) {
        let Shape { channels, inputs, encoding, .. } = self.shape;
        let word = encoding.times();
        let gap = Missing {
            channels: gap.channels.start..gap.channels.end.min(channels),
            inputs: gap.inputs.start..gap.inputs.end.min(inputs),
            ..gap
        };
        let first = first as usize;
        let start = (first + gap.times.start) / word * word;
        let end = (first + gap.times.end).next_multiple_of(word).min(self.times as usize);
        match self.missing.last_mut() {
            Some(last)
                if (&last.channels, &last.inputs) == (&gap.channels, &gap.inputs)
                    && (last.times.start..=last.times.end).contains(&start) =>
            {
                last.times.end = last.times.end.max(end);
            }
            _ => self.missing.push(Missing { times: start..end, ..gap }),
        }
    }

    /// Writes `[row][word]` from word `first` on, together with what the first of them held before.
    fn put(&mut self, first: u64, mut words: Vec<u8>) -> Result<()> {
        let bytes = self.shape.encoding.bytes();
        let rows = self.shape.channels * self.shape.rows();
        let row = words.len() / rows;
        if row == 0 {
            return Ok(());
        }
        if let Some((_, open)) = self.open.take().filter(|(number, _)| *number == first) {
            for (words, open) in words.chunks_exact_mut(row).zip(open.chunks_exact(bytes)) {
                words.iter_mut().zip(open).for_each(|(byte, open)| *byte |= open);
            }
        }
        let mut last = Vec::with_capacity(rows * bytes);
        words.chunks_exact(row).for_each(|words| last.extend_from_slice(&words[row - bytes..]));
        self.open = Some((first + (row / bytes) as u64 - 1, last));
        let places = [first, self.words].map(|word| word * bytes as u64);
        self.file.put(places.into(), row, &mut words)
    }

    /// The file, what it holds, and the number of words of times that some input misses.
    pub fn finish(self) -> (RowFile, Description, usize) {
        let description = Description::of_words(&self.shape, self.times, &self.missing);
        let word = self.shape.encoding.times();
        let lost = missing_within(&self.missing, &(0..self.times as usize)).div_ceil(word);
        (self.file, description, lost)
    }
}
