//! Values of few bits in words of 32 bits in a file: what `corrust quantise --pack` writes.

use std::path::Path;

use corrust::{
    Encoding, Result,
    correlate::Shape,
    format::npy::{Description, Dtype, Writer},
    quantise::{pack_rows, samples_per_word},
    run,
    samples::Samples,
};

use crate::cli::commands::channelise::file::RowFile;

/// File of packed words, uint32 `[channel][input][word][2]`.
pub struct PackedFile {
    shape: Shape,
    bits: u32,
    times: u64,
    axes: [usize; 4],
    file: RowFile,
    /// Words as bytes, of memory that is used again.
    bytes: Vec<u8>,
}

impl PackedFile {
    /// Creates the file of words of `times` times of the channels and inputs of `shape`.
    pub fn create(output: &Path, shape: &Shape, times: u64, bits: u32) -> Result<Self> {
        let words = times.div_ceil(samples_per_word(bits)? as u64);
        let words = usize::try_from(words).unwrap_or(usize::MAX);
        let axes = [shape.channels, shape.inputs, words, 2];
        let writer = Writer::with_shape(output, Dtype::Uint32, &axes)?;
        let file = RowFile::new(writer)?;
        Ok(Self { shape: *shape, bits, times, axes, file, bytes: Vec::new() })
    }

    /// Writes `ci4` values of the times from `first` on, with which a word begins, in the order of the shape's layout.
    pub fn write(&mut self, first: u64, values: &[u8]) -> Result<()> {
        let Shape { inputs, channels, layout, .. } = self.shape;
        let values = Samples::new(values, inputs, channels, Encoding::Ci4, layout)?;
        let mut words = pack_rows(&values, self.bits)?;
        words.iter_mut().for_each(|word| *word = word.to_le());
        let row = words.len() / (channels * inputs);
        let first = 2 * (first / samples_per_word(self.bits)? as u64);
        self.bytes.clear();
        self.bytes.extend_from_slice(bytemuck::cast_slice(&words));
        self.file.put((first, 2 * self.axes[2] as u64), 4 * row, &mut self.bytes)
    }

    /// The file, and its description.
    pub fn finish(self) -> (RowFile, Description) {
        (self.file, Description::of_packed(self.bits, &self.axes, self.times))
    }
}

/// Times of blocks that end where words of `bits` bits end.
pub fn block_times(shape: &Shape, bits: u32) -> Result<usize> {
    let word = samples_per_word(bits)?;
    Ok(run::block_times(shape.bytes_per_time()).next_multiple_of(word))
}
