//! Sums of blocks of times.

use std::sync::Arc;

use corrust_host::{
    Result, Samples,
    device::Gpu,
    kurtosis::{Kurtosis, Sums},
};

use super::{
    bring::layout,
    run::Product,
    source::{Head, Piece, Wants},
};

/// Sums of blocks of times: valid samples, `|x|^2`, `|x|^4` of every channel and input.
pub struct BlockSums<Tell> {
    kurtosis: Kurtosis,
    /// GPU of the plan.
    gpu: Option<Arc<dyn Gpu>>,
    /// Times of a block.
    length: u64,
    /// The block that is begun, `[channel][input][3]`, and its times.
    begun: Vec<i64>,
    times: u64,
    tell: Tell,
}

impl<Tell: FnMut(&[i64], u64) -> Result<()>> BlockSums<Tell> {
    /// Sums of blocks of `length` times from the recording's first on, `inputs` x `channels`, by a plan of blocks of
    /// that length, on a GPU if it is on one, where it can have such; `tell` is given each block's, int64 `[channel][input][3]`, and its times, of
    /// which the last may have fewer.
    pub fn new(
        (kurtosis, gpu): (Kurtosis, Option<Arc<dyn Gpu>>),
        length: u64,
        inputs: usize,
        channels: usize,
        tell: Tell,
    ) -> Self {
        Self { kurtosis, gpu, length, begun: vec![0; 3 * channels * inputs], times: 0, tell }
    }

    /// Adds the sums of samples that begin where a block of the plan may.
    fn add(&mut self, sums: &Sums) -> Result<()> {
        let values = sums.values.as_slice().expect("sums lie in standard order");
        for (block, values) in values.chunks_exact(self.begun.len()).enumerate() {
            self.begun.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            self.advance(sums.range(block).len() as u64)?;
        }
        Ok(())
    }

    /// Advances by times that end within the block.
    fn advance(&mut self, times: u64) -> Result<()> {
        self.times += times;
        if self.times == self.length { self.end() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<()> {
        (self.tell)(&self.begun, self.times)?;
        self.begun.fill(0);
        self.times = 0;
        Ok(())
    }
}

impl<Tell: FnMut(&[i64], u64) -> Result<()>> Product for BlockSums<Tell> {
    fn process(&mut self, piece: &Piece<Samples<'_>>) -> Result<()> {
        let Some(near) = piece.samples else {
            let mut left = piece.times;
            while left > 0 {
                let count = left.min(self.length - self.times);
                left -= count;
                self.advance(count)?;
            }
            return Ok(());
        };
        // Samples that are not zero where they are missing are summed on their way from the host.
        let whole_or_zero = near.is_complete() || near.is_zeroed();
        let bytes;
        let gaps: Vec<_>;
        let samples = match (piece.host, &self.gpu) {
            (Some(host), Some(_)) if !whole_or_zero => host,
            (Some(host), None) => host,
            (None, Some(gpu)) if !whole_or_zero => {
                let layout = layout(&near);
                bytes = near.gather_from(gpu, layout)?;
                gaps = near.gaps().collect();
                Samples::dense(bytes[..].into(), near.element(), layout, near.extents())
                    .missing(&gaps)
            }
            _ => near,
        };
        let whole = self.length == self.kurtosis.block_times() as u64;
        let mut first = 0;
        while first < piece.times {
            // What is left of the block that is begun; then all blocks at once, or one after the other.
            let left = piece.times - first;
            let count =
                if whole && self.times == 0 { left } else { left.min(self.length - self.times) };
            let sums =
                self.kurtosis.sums(samples.times(first as usize..(first + count) as usize))?;
            self.add(&sums)?;
            first += count;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if self.times > 0 { self.end() } else { Ok(()) }
    }

    fn begin(&mut self, _: &Head) -> Result<Wants> {
        Ok(Wants { host: self.gpu.is_none(), ..Wants::default() })
    }
}
