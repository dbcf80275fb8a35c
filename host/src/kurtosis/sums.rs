//! Sums of blocks.

use std::ops::Range;

use ndarray::{Array4, s};

use crate::samples::{
    extents::Extents,
    missing::{Missing, missing_within},
    view::Samples,
};

/// `S0`, `S1`, `S2` of every block, channel and input of some samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    /// `[block][channel][input]` of `S0`, `S1`, `S2`.
    pub values: Array4<i64>,
    /// Times of a block; the last one may have fewer.
    pub block_times: usize,
    /// Times of all blocks.
    pub times: usize,
}

impl Sums {
    /// Times of a block, counted from the first of the samples.
    pub fn range(&self, block: usize) -> Range<usize> {
        block_range(block, self.block_times, self.times)
    }
}

fn block_range(block: usize, block_times: usize, times: usize) -> Range<usize> {
    block * block_times..((block + 1) * block_times).min(times)
}

/// Sums of as many samples as there are, with the valid ones counted and the others zero.
pub(super) fn counted(samples: &Samples<'_>, block_times: usize) -> Sums {
    let Extents { channels, inputs, times } = samples.extents();
    let blocks = times.div_ceil(block_times);
    let mut values = Array4::zeros((blocks, channels, inputs, 3));
    let gaps: Vec<Missing> = samples.gaps().collect();
    for (block, mut of_block) in values.outer_iter_mut().enumerate() {
        let range = block_range(block, block_times, times);
        let within = |gap: &&Missing| gap.times.start < range.end && gap.times.end > range.start;
        let gaps: Vec<&Missing> = gaps.iter().filter(within).collect();
        if gaps.is_empty() {
            of_block.slice_mut(s![.., .., 0]).fill(range.len() as i64);
            continue;
        }
        for (channel, mut of_channel) in of_block.outer_iter_mut().enumerate() {
            let gaps = gaps.iter().filter(|gap| gap.channels.contains(&channel));
            let gaps: Vec<&Missing> = gaps.copied().collect();
            for (input, mut sums) in of_channel.outer_iter_mut().enumerate() {
                let own = gaps.iter().filter(|gap| gap.inputs.contains(&input));
                let own: Vec<Missing> = own.map(|&gap| gap.clone()).collect();
                sums[0] = (range.len() - missing_within(&own, &range)) as i64;
            }
        }
    }
    Sums { values, block_times, times }
}
