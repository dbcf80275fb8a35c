//! A recording of raw voltages, piece by piece.

use std::sync::Arc;

use crate::{
    Result, channelise,
    correlate::baselines,
    device::Gpu,
    format::{Block, RawShape, ReadAhead, Recording},
    samples::{Missing, RawSamples},
};

/// Bytes of raw samples that are read at a time, and the most of sums that a block is to be worth.
const BLOCK_BYTES: usize = 1 << 26;
const MOST_BYTES: usize = 1 << 28;

/// Hands out a recording of raw voltages from its first sample to its last, missing ones included. It reads
/// ahead, in a thread of its own, from the first piece on: at most three blocks are in memory.
///
/// ```
/// use corrust_host::{
///     Channeliser, Result,
///     format::{RawShape, Recording},
///     run::Voltages,
/// };
///
/// /// Spectra that a recording gives.
/// fn spectra(recording: Box<dyn Recording<RawShape>>, mut plan: Channeliser) -> Result<u64> {
///     let mut voltages = Voltages::over(recording, plan.shape());
///     while let Some(samples) = voltages.next_piece()? {
///         plan.channelise(samples)?;
///     }
///     plan.finish()?;
///     Ok(plan.spectra())
/// }
/// ```
pub struct Voltages {
    shape: RawShape,
    times: u64,
    block_times: usize,
    /// The recording, until it is read.
    recording: Option<Box<dyn Recording<RawShape>>>,
    blocks: Option<ReadAhead>,
    /// What the blocks' memory is locked for.
    gpu: Option<Arc<dyn Gpu>>,
    /// Times of the gap before the current block that are left, and whether the block is.
    gap: u64,
    block: bool,
    /// Samples of which all are missing.
    nothing: Block,
}

impl Voltages {
    /// A recording for an F-engine of `shape`, in blocks of 64 MiB, or more where its spectra are long.
    pub fn over(recording: Box<dyn Recording<RawShape>>, shape: &channelise::Shape) -> Self {
        let raw = recording.shape();
        let of_bytes = |bytes| bytes * 8 / raw.inputs.saturating_mul(raw.encoding.bits()).max(1);
        // A correlator goes through its sums once per block.
        let sums = (16 * shape.channels).saturating_mul(baselines(shape.inputs)).min(MOST_BYTES);
        let spectra = sums / shape.spectrum_bytes().max(1);
        // Spectra that begin in one block and end in the next cost more than others.
        let window = shape.window().saturating_mul(8).min(of_bytes(MOST_BYTES));
        let times = of_bytes(BLOCK_BYTES).max(window).max(2 * shape.window());
        let times = times.max(spectra.saturating_mul(shape.hop));
        Self {
            shape: raw,
            times: recording.times(),
            block_times: times.next_multiple_of(64),
            recording: Some(recording),
            blocks: None,
            gpu: None,
            gap: 0,
            block: false,
            nothing: Block::new(),
        }
    }

    /// Reads blocks of `times` times, at least 1.
    #[must_use]
    pub fn blocks(mut self, times: usize) -> Self {
        self.block_times = times.max(1);
        self
    }

    /// Reads into memory that a GPU has locked, if there is one, before anything is read.
    #[must_use]
    pub fn locked_for(mut self, gpu: Option<&Arc<dyn Gpu>>) -> Self {
        self.gpu = gpu.cloned();
        self
    }

    /// What the recording's samples are.
    pub fn shape(&self) -> &RawShape {
        &self.shape
    }

    /// Times of the recording; `u64::MAX` for a stream that shows only at its end how long it is.
    pub fn recorded(&self) -> u64 {
        self.times
    }

    /// The first block, which is not handed out by this: what levels can be measured of. Empty where the
    /// recording is.
    ///
    /// # Errors
    /// As for [`Recording::read_block`].
    ///
    /// # Panics
    /// When a piece was handed out.
    pub fn first(&mut self) -> Result<RawSamples<'_>> {
        assert!(self.blocks.is_none() || self.block, "the first block has been handed out");
        if self.blocks.is_none() {
            self.next_block()?;
        }
        Ok(self.current().raw(&self.shape))
    }

    /// The next samples; [`None`] when there are no more.
    ///
    /// # Errors
    /// As for [`Recording::read_block`].
    pub fn next_piece(&mut self) -> Result<Option<RawSamples<'_>>> {
        if self.gap == 0 && !self.block {
            self.next_block()?;
        }
        if self.gap > 0 {
            let times = self.gap.min(self.block_times as u64) as usize;
            self.gap -= times as u64;
            if self.nothing.times != times {
                let missing = vec![Missing::times(0..times)];
                let samples = vec![0; self.shape.bytes(times)].into();
                self.nothing = Block { samples, times, missing, gap: 0 };
            }
            return Ok(Some(self.nothing.raw(&self.shape)));
        }
        Ok(std::mem::take(&mut self.block).then(|| self.current().raw(&self.shape)))
    }

    fn next_block(&mut self) -> Result<()> {
        let blocks = match (&mut self.blocks, self.recording.take()) {
            (Some(blocks), _) => blocks,
            (none, recording) => {
                let recording = recording.expect("a recording begins once");
                none.insert(ReadAhead::locked_for(self.gpu.as_ref(), recording, self.block_times))
            }
        };
        if let Some(block) = blocks.next_block()? {
            (self.gap, self.block) = (block.gap, true);
        }
        Ok(())
    }

    fn current(&self) -> &Block {
        self.blocks.as_ref().expect("a block was read").current()
    }
}
