//! Missing samples and gates: which samples count, and where.
//!
//! Both are settled before a backend sees the samples, so that every backend has them: a missing
//! sample is overwritten with zero, the times of a gate are copied together. What remains is to
//! count the samples behind each baseline, `sum_t valid_i[t] and valid_j[t]`: a correlation of
//! single bits.

use std::{borrow::Cow, ops::Range};

use ndarray::Array2;
use rayon::prelude::*;

use super::{DROP, Shape, ValidCounts, baseline, baselines};
use crate::{Encoding, Error, Layout, Result};

/// Which samples of a block count, and where.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// One flag per sample, in the order of the samples (`[time][channel][input]` or
    /// `[channel][input][time]`, as the plan's layout says): a sample whose flag is false is
    /// missing and counts as zero, whatever its bytes. `None`: nothing is missing.
    pub valid: Option<&'a [bool]>,
    /// One gate number per time: the visibilities to which it is added, or [`DROP`] for none.
    /// `None`: everything belongs to gate 0, for plans that have only that.
    pub gates: Option<&'a [u8]>,
}

impl Selection<'_> {
    /// Checks that the selection fits `times` times of a plan with `gates` gates.
    pub(super) fn check(&self, shape: &Shape, times: usize, gates: usize) -> Result<()> {
        if let Some(valid) = self.valid {
            let expected = times * shape.channels * shape.inputs;
            if valid.len() != expected {
                return Err(Error::invalid(format!(
                    "a validity mask of {} flags: expected {expected}, one per sample",
                    valid.len()
                )));
            }
        }
        let Some(numbers) = self.gates else {
            if gates > 1 {
                return Err(Error::invalid(format!(
                    "no gate numbers: expected one per time for a plan of {gates} gates"
                )));
            }
            return Ok(());
        };
        if numbers.len() != times {
            return Err(Error::invalid(format!(
                "{} gate numbers: expected {times}, one per time",
                numbers.len()
            )));
        }
        match numbers.iter().position(|&gate| gate != DROP && usize::from(gate) >= gates) {
            None => Ok(()),
            Some(time) => Err(Error::invalid(format!(
                "gate number {} at time {time}: expected one below {gates}, or {DROP} to drop the \
                 time",
                numbers[time]
            ))),
        }
    }
}

/// A copy of `samples` in which those whose flag is false are zero.
pub(super) fn zero_missing(samples: &[u8], valid: &[bool], encoding: Encoding) -> Vec<u8> {
    let mut zeroed = samples.to_vec();
    zeroed
        .par_chunks_exact_mut(encoding.bytes())
        .with_min_len(1 << 16)
        .zip(valid)
        .filter(|(_, valid)| !**valid)
        .for_each(|(sample, _)| sample.copy_from_slice(encoding.zero()));
    zeroed
}

/// The times of gate `gate`.
pub(super) fn times_of(numbers: &[u8], gate: usize) -> Vec<usize> {
    (0..numbers.len()).filter(|&time| usize::from(numbers[time]) == gate).collect()
}

/// The samples of the times `range` out of a block of `times`, copied where they do not stand together.
pub(super) fn cut<'a>(
    shape: &Shape,
    samples: &'a [u8],
    times: usize,
    range: Range<usize>,
) -> Cow<'a, [u8]> {
    cut_elements(shape, samples, shape.encoding.bytes(), times, range)
}

/// The flags of the times `range` out of a block of `times`.
pub(super) fn cut_mask<'a>(
    shape: &Shape,
    valid: &'a [bool],
    times: usize,
    range: Range<usize>,
) -> Cow<'a, [bool]> {
    cut_elements(shape, valid, 1, times, range)
}

/// The times `range` of a block of `times`, whose samples are `size` elements each.
fn cut_elements<'a, E: Copy>(
    shape: &Shape,
    block: &'a [E],
    size: usize,
    times: usize,
    range: Range<usize>,
) -> Cow<'a, [E]> {
    let step = shape.channels * shape.inputs * size;
    match shape.layout {
        Layout::Tcn => Cow::Borrowed(&block[range.start * step..range.end * step]),
        Layout::Cnt if range == (0..times) => Cow::Borrowed(block),
        Layout::Cnt => {
            let rows = block.chunks_exact(times * size);
            let part = range.start * size..range.end * size;
            Cow::Owned(rows.flat_map(|row| &row[part.clone()]).copied().collect())
        }
    }
}

/// The samples of the times `chosen` out of a block of `times`.
pub(super) fn gather(shape: &Shape, samples: &[u8], times: usize, chosen: &[usize]) -> Vec<u8> {
    gather_elements(shape, samples, shape.encoding.bytes(), times, chosen)
}

/// The flags of the times `chosen` out of a block of `times`.
pub(super) fn gather_mask(
    shape: &Shape,
    valid: &[bool],
    times: usize,
    chosen: &[usize],
) -> Vec<bool> {
    gather_elements(shape, valid, 1, times, chosen)
}

/// The times `chosen` of a block of `times`, whose samples are `size` elements each.
fn gather_elements<E: Copy>(
    shape: &Shape,
    block: &[E],
    size: usize,
    times: usize,
    chosen: &[usize],
) -> Vec<E> {
    // Both layouts are rows of times between which only whole runs are copied: one row of long
    // runs (`tcn`), or a row of single samples for each channel and input (`cnt`).
    let run = match shape.layout {
        Layout::Tcn => shape.channels * shape.inputs * size,
        Layout::Cnt => size,
    };
    let mut gathered = Vec::with_capacity(chosen.len() * shape.channels * shape.inputs * size);
    for row in block.chunks_exact(times * run) {
        for &time in chosen {
            gathered.extend_from_slice(&row[time * run..][..run]);
        }
    }
    gathered
}

/// Counts the valid samples behind each baseline of an integration.
#[derive(Default)]
pub(super) struct Counter {
    /// All times of the integration.
    times: u64,
    /// Valid samples of the blocks that came with a mask.
    masked: Option<Array2<u64>>,
    /// Times of the blocks that came without.
    unmasked: u64,
}

impl Counter {
    /// Counts a block of `times` times; without a mask all of it is valid.
    pub(super) fn add(&mut self, shape: &Shape, valid: Option<&[bool]>, times: usize) {
        self.times += times as u64;
        match valid {
            Some(valid) if !valid.iter().all(|&valid| valid) => {
                let counts = self.masked.get_or_insert_with(|| {
                    Array2::zeros((shape.channels, baselines(shape.inputs)))
                });
                counts
                    .as_slice_mut()
                    .expect("counts lie in one piece")
                    .par_chunks_exact_mut(baselines(shape.inputs))
                    .enumerate()
                    .for_each(|(channel, counts)| {
                        count_channel(shape, valid, times, channel, counts);
                    });
            }
            _ => self.unmasked += times as u64,
        }
    }

    /// The times of the integration, and the valid samples among them.
    pub(super) fn finish(self) -> (u64, ValidCounts) {
        let valid = match self.masked {
            None => ValidCounts::Complete(self.unmasked),
            Some(counts) => ValidCounts::Each(counts + self.unmasked),
        };
        (self.times, valid)
    }
}

/// Adds `sum_t valid_i[t] and valid_j[t]` to the count of each baseline of one channel.
fn count_channel(shape: &Shape, valid: &[bool], times: usize, channel: usize, counts: &mut [u64]) {
    let strides = shape.strides(times);
    let inputs: Vec<Bits> = (0..shape.inputs)
        .map(|input| {
            let first = channel * strides.channel + input * strides.input;
            Bits::new(valid[first..].iter().step_by(strides.time).take(times))
        })
        .collect();
    for (i, row) in inputs.iter().enumerate() {
        for (j, column) in inputs[..=i].iter().enumerate() {
            counts[baseline(i, j)] += row.and_count(column, times as u64);
        }
    }
}

/// The flags of one channel and input, a bit per time.
struct Bits {
    words: Vec<u64>,
    ones: u64,
}

impl Bits {
    fn new<'a>(flags: impl ExactSizeIterator<Item = &'a bool>) -> Self {
        let mut words = vec![0; flags.len().div_ceil(64)];
        for (bit, &flag) in flags.enumerate() {
            words[bit / 64] |= u64::from(flag) << (bit % 64);
        }
        let ones = words.iter().map(|word: &u64| u64::from(word.count_ones())).sum();
        Self { words, ones }
    }

    /// The number of bits set in both, out of `bits`. Whole packets go missing, so most pairs have
    /// a member that is all ones or all zeros and need no look at the words.
    fn and_count(&self, other: &Self, bits: u64) -> u64 {
        if self.ones == bits || other.ones == 0 {
            other.ones
        } else if other.ones == bits || self.ones == 0 {
            self.ones
        } else {
            let both = self.words.iter().zip(&other.words).map(|(a, b)| a & b);
            both.map(|word| u64::from(word.count_ones())).sum()
        }
    }
}
