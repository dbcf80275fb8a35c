//! Sums of blocks.

use std::ops::Range;

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
pub struct Judgement {
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

/// Fewest values that a thread is worth.
const LEAST_SHARED: usize = 1 << 12;

impl Sums {
    /// Times of a block, counted from the first of the samples.
    pub fn range(&self, block: usize) -> Range<usize> {
        block_range(block, self.block_times, self.times)
    }

    /// `S0`, `S1`, `S2` of all blocks, channels and inputs.
    pub(super) fn cells(&self) -> &[[i64; 3]] {
        self.values.as_slice().expect("sums lie in standard order").as_chunks().0
    }

    /// Adds the numbers of these blocks and their samples to `judged`, where `flagged` are those that a judge
    /// [flags](super::Judge::flagged).
    pub fn count_into(&self, flagged: &[Missing], judged: &mut Judgement) {
        let &[_, channels, inputs, _] = self.values.shape() else { return };
        let cells = self.cells();
        let valid = |cells: &[[i64; 3]]| cells.iter().map(|sums| sums[0] as u64).sum::<u64>();
        let all = (channels * inputs * self.times) as u64;
        judged.blocks += cells.len() as u64;
        judged.samples += all;
        judged.lost += all - cells.par_chunks(LEAST_SHARED).map(valid).sum::<u64>();
        for missing in flagged {
            let block = missing.times.start / self.block_times;
            for channel in missing.channels.clone() {
                let row = &cells[(block * channels + channel) * inputs..][missing.inputs.clone()];
                judged.flagged_blocks += row.len() as u64;
                judged.flagged += valid(row);
            }
        }
    }

    /// Becomes the sums of as many samples as there are, with the valid ones counted and the others zero.
    pub(super) fn reset(&mut self, samples: &Samples<'_>, block_times: usize) {
        let Extents { channels, inputs, times } = samples.extents();
        let blocks = times.div_ceil(block_times);
        let shape = (blocks, channels, inputs, 3);
        if self.values.dim() != shape {
            self.values = Array4::zeros(shape);
        }
        (self.block_times, self.times) = (block_times, times);
        if self.values.is_empty() {
            return;
        }
        let all: Vec<Missing> = samples.gaps().collect();
        let of_blocks: Vec<Vec<&Missing>> = (0..blocks)
            .map(|block| {
                let range = block_range(block, block_times, times);
                let within =
                    |gap: &&Missing| gap.times.start < range.end && gap.times.end > range.start;
                all.iter().filter(within).collect()
            })
            .collect();
        let values = self.values.as_slice_mut().expect("sums lie in standard order");
        let rows = values.par_chunks_exact_mut(3 * inputs).enumerate();
        rows.with_min_len(LEAST_SHARED.div_ceil(inputs)).for_each(|(row, sums)| {
            let (block, channel) = (row / channels, row % channels);
            let range = block_range(block, block_times, times);
            let gaps = of_blocks[block].iter().filter(|gap| gap.channels.contains(&channel));
            let gaps: Vec<&Missing> = gaps.copied().collect();
            for (input, sums) in sums.as_chunks_mut::<3>().0.iter_mut().enumerate() {
                let own = gaps.iter().filter(|gap| gap.inputs.contains(&input));
                let own: Vec<Missing> = own.map(|&gap| gap.clone()).collect();
                *sums = [(range.len() - missing_within(&own, &range)) as i64, 0, 0];
            }
        });
    }
}

fn block_range(block: usize, block_times: usize, times: usize) -> Range<usize> {
    block * block_times..((block + 1) * block_times).min(times)
}
