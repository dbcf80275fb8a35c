//! A recording of raw voltages, piece by piece.

use std::sync::Arc;

use corrust_host::{
    Result, channelise,
    correlate::baselines,
    device::Gpu,
    samples::{RawSamples, RawShape},
};

use crate::{formats::Recording, run::pieces::Pieces};

/// Bytes of raw samples that are read at a time, and the most of sums that a block is to be worth.
const BLOCK_BYTES: usize = 1 << 26;
const MOST_BYTES: usize = 1 << 28;

/// Hands out a recording of raw voltages from its first sample to its last, missing ones included. It reads
/// ahead, in a thread of its own, from the first piece on: at most three blocks are in memory.
///
/// ```
/// use corrust_host::{Channeliser, Result};
/// use corrust_recordings::{
///     formats::{RawShape, Recording},
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
pub struct Voltages(Pieces<'static, RawShape>);

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
        let mut pieces = Pieces::over(recording, times.next_multiple_of(64));
        // Spectra of missing samples are missing, not left out.
        pieces.set_delay(u64::MAX);
        Self(pieces)
    }

    /// Reads blocks of `times` times, at least 1.
    #[must_use]
    pub fn blocks(mut self, times: usize) -> Self {
        self.0.set_block_times(times);
        self
    }

    /// Reads into memory that a GPU has locked, if there is one, before anything is read.
    #[must_use]
    pub fn locked_for(self, gpu: Option<&Arc<dyn Gpu>>) -> Self {
        Self(self.0.locked_for(gpu))
    }

    /// Shape of the recording's samples.
    pub fn shape(&self) -> &RawShape {
        self.0.shape()
    }

    /// Times of the recording; `u64::MAX` for a stream that shows only at its end how long it is.
    pub fn recorded(&self) -> u64 {
        self.0.recorded()
    }

    /// The first block, which is not handed out by this: levels are measured of it. Empty where the
    /// recording is.
    ///
    /// # Errors
    /// As for [`Recording::read_block`].
    ///
    /// # Panics
    /// When a piece was handed out.
    pub fn first(&mut self) -> Result<RawSamples<'_>> {
        assert_eq!(self.0.done(), 0, "the first block has been handed out");
        self.0.ahead()
    }

    /// The next samples; [`None`] when there are no more.
    ///
    /// # Errors
    /// As for [`Pieces::next_piece`].
    pub fn next_piece(&mut self) -> Result<Option<RawSamples<'_>>> {
        Ok(self.0.next_piece(u64::MAX)?.and_then(|piece| piece.samples))
    }
}
