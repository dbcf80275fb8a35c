//! Counts in bytes, fed to a plan.

use super::plan::Autocorrelator;
use crate::{error::Result, samples::shape::CountShape};

impl CountShape {
    /// Feeds counts of this shape to a plan.
    ///
    /// # Errors
    /// As for [`Autocorrelator::accumulate`].
    pub fn feed(&self, plan: &mut Autocorrelator, counts: &[u8]) -> Result<()> {
        if !self.wide {
            return plan.accumulate(counts);
        }
        match bytemuck::try_cast_slice::<u8, u16>(counts) {
            Ok(counts) if cfg!(target_endian = "little") => plan.accumulate(counts),
            // Memory that is not aligned for numbers of 16 bits.
            _ => {
                let words: &[[u8; 2]] = counts.as_chunks().0;
                let counts: Vec<u16> = words.iter().copied().map(u16::from_le_bytes).collect();
                plan.accumulate(&counts)
            }
        }
    }
}
