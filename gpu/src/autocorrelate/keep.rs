//! Bins of group `low`, which go to memory for the groups of long bins.

use crate::isa::common::{add_global_64, lane, shfl_xor, store_global_4};

/// Bins that a lane writes at a time.
pub const BINS: u32 = 8;

/// One sensor's bins of group `low` in memory.
pub struct Bins {
    /// Address of the first.
    pub bins: u64,
    /// Bins of the halo before those of the first subsegment, of which the last are written.
    pub history: u32,
    /// Bins of a subsegment's halo.
    pub halo: u32,
    /// Bins of a subsegment.
    pub per_subsegment: u32,
}

impl Bins {
    /// Writes bins of a subsegment, the first of which is `bin` from the beginning of the halo on, of
    /// the halo only those of the very first subsegment. Says whether they are behind the halo.
    ///
    /// # Safety
    /// - The bins lie in device memory, [`BINS`] of them at a multiple of 16 bytes.
    /// - No other lane of the grid writes them.
    #[inline(always)]
    pub unsafe fn write(&self, subsegment: u32, bin: u32, bins: [u32; BINS as usize / 2]) -> bool {
        let begin = subsegment * self.per_subsegment + self.history;
        let after = bin as i32 - self.halo as i32;
        if after >= 0 || (subsegment == 0 && after >= -(self.history as i32)) {
            // A launch's bins are counted in 32 bits.
            let to = self.bins + 2 * (begin as i32 + after) as u32 as u64;
            // SAFETY: 16 aligned bytes that this lane alone writes.
            unsafe { store_global_4(to, bins) };
        }
        after >= 0
    }
}

/// Adds the sum of all lanes' sums of bins to a sensor's totals, of direct and of delayed counts.
///
/// # Safety
/// - All 32 lanes of the warp call it together.
/// - `totals` is 8-byte aligned device memory, u64 `[sensor][2]`, and `sensor` is one of its sensors. In this launch it is only
///   added to.
#[inline(always)]
pub unsafe fn add_total(totals: u64, sensor: u32, mut total: u32) {
    total += shfl_xor::<16>(total);
    total += shfl_xor::<8>(total);
    total += shfl_xor::<4>(total);
    total += shfl_xor::<2>(total);
    total += shfl_xor::<1>(total);
    if lane() == 0 && total != 0 {
        let totals = totals + 16 * sensor as u64;
        // SAFETY: the sensor's two sums, by one lane.
        unsafe {
            add_global_64(totals, total as u64);
            add_global_64(totals + 8, total as u64);
        }
    }
}
