//! A recording in which samples that are no noise are missing.

use corrust_host::{
    Error, Result,
    kurtosis::{Judge, Kurtosis, Sums},
    samples::{Missing, Shape},
};

use ndarray::Array4;

use crate::{
    array::{file::Channels, time::Timestamp},
    formats::{Block, Recording},
};

/// Fewest bytes that are read and judged at a time.
const BLOCK_BYTES: usize = 1 << 26;

/// Callback for the sums and flagged samples of a stretch of times.
pub(super) type Tell = Box<dyn FnMut(&Sums, &[Missing]) -> Result<()> + Send>;

/// A recording whose blocks of times are judged by their spectral kurtosis as they are read: flagged blocks are missing,
/// whatever the plan that takes it. Blocks are counted from the recording's first time; gaps are read, not passed over.
pub struct Flagged {
    recording: Box<dyn Recording>,
    kurtosis: Kurtosis,
    judge: Judge,
    position: u64,
    end: u64,
    tell: Option<Tell>,
}

impl Flagged {
    /// Judges the samples of `recording`.
    pub fn over(recording: Box<dyn Recording>, kurtosis: Kurtosis, judge: Judge) -> Self {
        let end = recording.times();
        Self { recording, kurtosis, judge, position: 0, end, tell: None }
    }

    /// Calls `tell` with the sums and flagged samples of each stretch of times, counted from its first time, before
    /// the samples are handed on.
    #[must_use]
    pub fn tell(
        mut self,
        tell: impl FnMut(&Sums, &[Missing]) -> Result<()> + Send + 'static,
    ) -> Self {
        self.tell = Some(Box::new(tell));
        self
    }

    /// Number of times to read at once: whole blocks.
    pub fn block_times(&self) -> usize {
        let times = self.kurtosis.block_times();
        (BLOCK_BYTES / self.recording.shape().bytes_per_time()).max(1).next_multiple_of(times)
    }

    /// Passes over a gap, whose blocks have zero sums.
    fn pass(&mut self, gap: u64, shape: &Shape) -> Result<()> {
        let (end, block_times) = (self.position + gap, self.kurtosis.block_times());
        while self.position < end {
            let times = (end - self.position).min(block_times as u64) as usize;
            let values = Array4::zeros((1, shape.channels, shape.inputs, 3));
            self.position += times as u64;
            if let Some(tell) = &mut self.tell {
                tell(&Sums { values, block_times, times }, &[])?;
            }
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

impl Recording for Flagged {
    fn shape(&self) -> Shape {
        self.recording.shape()
    }

    fn times(&self) -> u64 {
        self.end
    }

    fn interval(&self) -> Option<f64> {
        self.recording.interval()
    }

    fn start(&self) -> Option<Timestamp> {
        self.recording.start()
    }

    fn frequencies(&self) -> Option<Channels> {
        self.recording.frequencies()
    }

    fn circularity(&self) -> Vec<f64> {
        self.recording.circularity()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        self.recording.facts()
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let read = self.recording.read_block(times.min(left), block)?;
        if read == 0 {
            return Ok(0);
        }
        let shape = self.recording.shape();
        self.pass(block.gap, &shape)?;
        self.aligned()?;
        self.position += read as u64;
        let sums = self.kurtosis.sums(block.view(&shape))?;
        let flagged = self.judge.flagged(&sums);
        if let Some(tell) = &mut self.tell {
            tell(&sums, &flagged)?;
        }
        for missing in &flagged {
            block.clear(&shape, missing);
        }
        block.missing.extend(flagged);
        Ok(read)
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        self.position = self.position.saturating_add(times).min(self.end);
        self.recording.skip(times)
    }

    fn left_out(&self) -> Option<&str> {
        self.recording.left_out()
    }

    fn contradiction(&self) -> Option<&str> {
        self.recording.contradiction()
    }
}
