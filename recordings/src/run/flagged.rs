//! Blocks in which samples that are no noise are missing.

use corrust_host::{
    Error, Result,
    kurtosis::{Judge, Kurtosis, Sums, Verdict},
    samples::Shape,
};
use ndarray::Array4;

use super::{blocks::Blocks, source::Head};
use crate::formats::Block;

/// Callback for the verdict on a stretch of times.
pub(super) type Tell = Box<dyn FnMut(&Verdict<'_>) -> Result<()> + Send>;

/// Blocks whose stretches of times are judged by their spectral kurtosis as they are made: flagged ones are missing, whatever
/// the plan that takes them, and zero. Stretches are counted from the stream's first time. [`Flag`](super::Flag) does so on a
/// GPU.
pub struct Flagged {
    blocks: Box<dyn Blocks>,
    kurtosis: Kurtosis,
    judge: Judge,
    /// Sums of the block that was judged last.
    sums: Sums,
    position: u64,
    tell: Tell,
}

impl Flagged {
    /// Judges blocks that [have all their times](super::BlocksOf::whole), whole stretches of the plan's.
    ///
    /// `tell` is given the verdict on each block, with its sums, before the samples are handed on.
    pub fn over(
        blocks: impl Blocks + 'static,
        (kurtosis, judge): (Kurtosis, Judge),
        tell: impl FnMut(&Verdict<'_>) -> Result<()> + Send + 'static,
    ) -> Self {
        let sums = Sums::default();
        Self { blocks: Box::new(blocks), kurtosis, judge, sums, position: 0, tell: Box::new(tell) }
    }

    /// Passes over a gap, whose stretches have zero sums.
    fn pass(&mut self, gap: u64) -> Result<()> {
        let (end, block_times) = (self.position + gap, self.kurtosis.block_times());
        let Shape { channels, inputs, .. } = self.head().shape;
        while self.position < end {
            let times = (end - self.position).min(block_times as u64) as usize;
            let values = Array4::zeros((1, channels, inputs, 3));
            self.position += times as u64;
            let sums = Sums { values, block_times, times };
            (self.tell)(&Verdict::of(&sums, Vec::new()))?;
        }
        Ok(())
    }

    fn aligned(&self) -> Result<()> {
        let times = self.kurtosis.block_times() as u64;
        if self.position.is_multiple_of(times) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "times from {} on: expected a multiple of {times}, where a block of the spectral kurtosis begins",
            self.position
        )))
    }
}

impl Blocks for Flagged {
    fn head(&self) -> &Head {
        self.blocks.head()
    }

    fn block_times(&self) -> usize {
        self.blocks.block_times()
    }

    fn next(&mut self, block: &mut Block) -> Result<bool> {
        if !self.blocks.next(block)? {
            return Ok(false);
        }
        let shape = self.head().shape;
        self.pass(block.gap)?;
        self.aligned()?;
        self.position += block.times as u64;
        self.kurtosis.sums_into(block.view(&shape), &mut self.sums)?;
        let verdict = self.judge.verdict(&self.sums);
        (self.tell)(&verdict)?;
        for missing in &verdict.flagged {
            block.clear(&shape, missing);
        }
        block.missing.extend(verdict.flagged);
        Ok(true)
    }

    fn clipped(&self) -> Result<Vec<u64>> {
        self.blocks.clipped()
    }
}
