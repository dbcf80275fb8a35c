//! Sums of blocks.

use std::ops::{AddAssign, Range};

use ndarray::Array4;
use rayon::prelude::*;

use crate::{
    sample::Encoding,
    samples::{
        extents::{Extents, Strides},
        missing::{Missing, missing_within},
        view::Samples,
    },
};

/// Samples that sums are made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub encoding: Encoding,
    pub extents: Extents,
    pub strides: Strides,
    pub block_times: usize,
}

impl Block {
    /// Number of sums.
    pub(super) fn results(&self) -> usize {
        let Extents { channels, inputs, times } = self.extents;
        times.div_ceil(self.block_times) * channels * inputs
    }
}

/// `S0`, `S1`, `S2` of every block, channel and input of some samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// `[block][channel][input]` of `S0`, `S1`, `S2`.
    pub values: Array4<i64>,
    /// Times of a block; the last one may have fewer.
    pub block_times: usize,
    /// Times of all blocks.
    pub times: usize,
}

/// Numbers of samples of inputs and channels in judged blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagCounts {
    /// Number of judged blocks, each of one input and channel.
    pub blocks: u64,
    /// Number of flagged blocks.
    pub flagged_blocks: u64,
    /// Number of samples in judged blocks.
    pub samples: u64,
    /// Number of samples that were missing before flagging.
    pub lost: u64,
    /// Number of samples that were valid and are flagged.
    pub flagged: u64,
}

impl AddAssign for FlagCounts {
    fn add_assign(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.flagged_blocks += other.flagged_blocks;
        self.samples += other.samples;
        self.lost += other.lost;
        self.flagged += other.flagged;
    }
}

/// Verdict on a stretch of times.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    /// Sums of its blocks, where they are at hand.
    pub sums: Option<&'a Sums>,
    /// Flagged samples, neighbouring inputs together; times are counted from the first of the stretch.
    pub flagged: Vec<Missing>,
    /// Numbers of its blocks and samples.
    pub numbers: FlagCounts,
    /// Times of a block; the last one may have fewer.
    pub block_times: usize,
    /// Numbers of blocks of times, channels and inputs.
    pub shape: [usize; 3],
}

impl<'a> Verdict<'a> {
    /// The verdict that the samples `flagged` of blocks with these sums are flagged, whole blocks of an input and channel.
    pub fn of(sums: &'a Sums, flagged: Vec<Missing>) -> Self {
        let (division, cells) = (sums.division(), sums.cells());
        let all = |cells: &[[i64; 3]]| cells.iter().map(|sums| sums[0] as u64).sum::<u64>();
        let valid = cells.par_chunks(LEAST_SHARED).map(all).sum();
        let verdict = division.verdict(flagged, valid, |of| all(&cells[of]));
        Self { sums: Some(sums), ..verdict }
    }
}

/// Division of samples into cells of a block of times, a channel and an input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    pub channels: usize,
    pub inputs: usize,
    pub times: usize,
    pub block_times: usize,
}

/// Fewest values that a thread is worth.
const LEAST_SHARED: usize = 1 << 12;

impl Division {
    pub(super) fn new(samples: &Samples<'_>, block_times: usize) -> Self {
        let Extents { channels, inputs, times } = samples.extents();
        Self { channels, inputs, times, block_times }
    }

    /// Number of blocks of times.
    pub(super) fn blocks(&self) -> usize {
        self.times.div_ceil(self.block_times.max(1))
    }

    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        self.blocks() * self.channels * self.inputs
    }

    /// Times of a block.
    pub(super) fn range(&self, block: usize) -> Range<usize> {
        block * self.block_times..((block + 1) * self.block_times).min(self.times)
    }

    /// Samples of cells whose flag is 1, others 0, `[block][channel][input]`: neighbouring inputs together.
    pub(super) fn pieces(&self, flags: &[u8]) -> Vec<Missing> {
        // Most flags are 0: sixteen are looked at together.
        let (words, rest) = flags.as_chunks::<16>();
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        let mut pieces: Vec<Missing> = Vec::new();
        let mut next = 0;
        for (number, word) in words.iter().chain([&last]).enumerate() {
            // A byte of ones for each flag.
            let mut left = u128::from_le_bytes(*word) * 255;
            let mut cell = 16 * number;
            while left != 0 {
                let none = left.trailing_zeros();
                let some = (left >> none).trailing_ones();
                left = left.checked_shr(none + some).unwrap_or_default();
                cell += none as usize / 8;
                let end = cell + some as usize / 8;
                while cell < end {
                    let (row, input) = (cell / self.inputs, cell % self.inputs);
                    let count = (end - cell).min(self.inputs - input);
                    match pieces.last_mut() {
                        Some(last) if cell == next && input > 0 => last.inputs.end = input + count,
                        _ => {
                            let (times, channel) =
                                (self.range(row / self.channels), row % self.channels);
                            let piece = Missing::times(times).of_channels(channel..channel + 1);
                            pieces.push(piece.of_inputs(input..input + count));
                        }
                    }
                    cell += count;
                    next = cell;
                }
            }
        }
        pieces
    }

    /// Number of valid samples of each cell of samples that are so divided.
    pub(super) fn valid(&self, samples: &Samples<'_>) -> Vec<u32> {
        let mut valid = vec![0; self.len()];
        if valid.is_empty() {
            return valid;
        }
        let all: Vec<Missing> = samples.gaps().collect();
        let of_blocks: Vec<Vec<&Missing>> = (0..self.blocks())
            .map(|block| {
                let range = self.range(block);
                let within =
                    |gap: &&Missing| gap.times.start < range.end && gap.times.end > range.start;
                all.iter().filter(within).collect()
            })
            .collect();
        let rows = valid.par_chunks_exact_mut(self.inputs).enumerate();
        rows.with_min_len(LEAST_SHARED.div_ceil(self.inputs)).for_each(|(row, valid)| {
            let (block, channel) = (row / self.channels, row % self.channels);
            let range = self.range(block);
            let gaps = of_blocks[block].iter().filter(|gap| gap.channels.contains(&channel));
            let gaps: Vec<&Missing> = gaps.copied().collect();
            for (input, valid) in valid.iter_mut().enumerate() {
                let own = gaps.iter().filter(|gap| gap.inputs.contains(&input));
                let own: Vec<Missing> = own.map(|&gap| gap.clone()).collect();
                *valid = (range.len() - missing_within(&own, &range)) as u32;
            }
        });
        valid
    }

    /// The verdict that the samples `flagged` are flagged, whole cells, where all cells have `valid` valid samples, and
    /// neighbours of a row as many as `of_cells` says.
    pub(super) fn verdict<'a>(
        &self,
        flagged: Vec<Missing>,
        valid: u64,
        of_cells: impl Fn(Range<usize>) -> u64,
    ) -> Verdict<'a> {
        let &Self { channels, inputs, times, block_times } = self;
        let samples = (channels * inputs * times) as u64;
        let mut numbers = FlagCounts {
            blocks: self.len() as u64,
            samples,
            lost: samples.saturating_sub(valid),
            ..FlagCounts::default()
        };
        let start = Extents { channels: 0, inputs: 0, times: 0 };
        let all = Extents { channels, inputs, times };
        for missing in flagged.iter().filter_map(|missing| missing.within(&start, &all)) {
            let block = missing.times.start / block_times.max(1);
            for channel in missing.channels {
                let row = (block * channels + channel) * inputs;
                numbers.flagged_blocks += missing.inputs.len() as u64;
                numbers.flagged += of_cells(row + missing.inputs.start..row + missing.inputs.end);
            }
        }
        let shape = [self.blocks(), channels, inputs];
        Verdict { sums: None, flagged, numbers, block_times, shape }
    }
}

impl Sums {
    /// Times of a block, counted from the first of the samples.
    pub fn range(&self, block: usize) -> Range<usize> {
        self.division().range(block)
    }

    /// `S0`, `S1`, `S2` of all blocks, channels and inputs.
    pub(super) fn cells(&self) -> &[[i64; 3]] {
        self.values.as_slice().expect("sums lie in standard order").as_chunks().0
    }

    pub(super) fn division(&self) -> Division {
        let (_, channels, inputs, _) = self.values.dim();
        Division { channels, inputs, times: self.times, block_times: self.block_times }
    }

    /// Becomes the sums of samples that are so divided, with the `valid` ones of each cell counted and the others zero; none
    /// counted stands for complete samples.
    pub(super) fn reset(&mut self, division: &Division, valid: &[u32]) {
        let Division { channels, inputs, times, block_times } = *division;
        let shape = (division.blocks(), channels, inputs, 3);
        if self.values.dim() != shape {
            self.values = Array4::zeros(shape);
        }
        (self.block_times, self.times) = (block_times, times);
        let values = self.values.as_slice_mut().expect("sums lie in standard order");
        let cells = values.as_chunks_mut::<3>().0.par_iter_mut().enumerate();
        cells.with_min_len(LEAST_SHARED).for_each(|(cell, sums)| {
            let complete = || division.range(cell / (channels * inputs)).len() as u32;
            *sums = [valid.get(cell).copied().unwrap_or_else(complete).into(), 0, 0];
        });
    }
}
