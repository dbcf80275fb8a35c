//! Groups of long bins, from the bins of group `low`.
//!
//! A block has a sensor and takes its groups in turn. Bins are sums of two bins of the group before;
//! the delay line, the oldest bin first, is the one that the state holds, followed by sums of two
//! delayed bins of the group before. With both in memory, lag `c` is the sum of products of the new
//! bins with the line from place `S - 1 - c` on: warps share the bins, lanes the lags.
//!
//! What the state holds of group `low` itself is not needed: the halo has its last `2 S` bins.
//!
//! Bound by integer operations: a 64-bit multiply-add for `S / 2^low` lags and counts.

use crate::{
    abi::autocorrelate::{HIGH_WARPS, High},
    isa::common::{
        barrier, block, dynamic_shared, lane, load_global_16, load_shared_64, read_global,
        read_global_64, store_global, store_global_64, store_shared_64, thread, threads,
    },
};

/// Bins and delay line of a group: where they lie in memory.
#[derive(Clone, Copy)]
struct Bins {
    /// Address of the first new bin.
    z: u64,
    /// Address of the oldest bin of the delay line.
    d: u64,
    /// Whether they are 16-bit numbers, of group `low`, or 32-bit ones.
    narrow: bool,
    /// New bins.
    count: u32,
}

impl Bins {
    /// # Safety
    /// The bin exists.
    #[inline(always)]
    unsafe fn load(self, address: u64, bin: u32) -> u32 {
        // SAFETY: the caller's promise; group `low` was written by an earlier grid, the others by
        // this block before a barrier.
        unsafe {
            if self.narrow {
                load_global_16(address + 2 * bin as u64)
            } else {
                read_global(address + 4 * bin as u64)
            }
        }
    }
}

/// Bins that a thread makes at a time, so that their loads are under way together.
const TOGETHER: usize = 4;

/// The bin, or the last of `count` where there is none.
#[inline(always)]
fn among(bin: u32, count: u32) -> u32 {
    if bin < count { bin } else { count - 1 }
}

/// The sum over the block of a value of each thread, in thread 0's result.
///
/// # Safety
/// All threads of the block call it.
#[inline(always)]
unsafe fn block_sum(value: u64) -> u64 {
    let shared = dynamic_shared();
    // SAFETY: a place for each thread.
    unsafe {
        barrier();
        store_shared_64(shared + 8 * thread(), value);
        barrier();
        let mut half = threads() / 2;
        while half > 0 {
            if thread() < half {
                let place = shared + 8 * thread();
                store_shared_64(place, load_shared_64(place) + load_shared_64(place + 8 * half));
            }
            barrier();
            half /= 2;
        }
        load_shared_64(shared)
    }
}

/// Adds the products of a group's new bins to its sums.
///
/// # Safety
/// All threads of the block call it; the bins are there.
#[inline(always)]
unsafe fn multiply(p: &High, bins: Bins, products: u64) {
    let warp = thread() / 32;
    let share = bins.count.div_ceil(HIGH_WARPS);
    let first = warp * share;
    let end = if first + share < bins.count { first + share } else { bins.count };
    let shared = dynamic_shared();
    let mut chunk = 0;
    while chunk < p.lags {
        let lag = chunk + lane();
        let mut sum = 0u64;
        if lag < p.lags {
            let partner = bins.d + 4 * (p.lags - 1 - lag) as u64;
            let mut bin = first;
            // SAFETY: the caller's promise.
            unsafe {
                while bin + 4 <= end {
                    for i in 0..4 {
                        let z = read_global(bins.z + 4 * (bin + i) as u64) as u64;
                        sum += z * read_global(partner + 4 * (bin + i) as u64) as u64;
                    }
                    bin += 4;
                }
                while bin < end {
                    let z = read_global(bins.z + 4 * bin as u64) as u64;
                    sum += z * read_global(partner + 4 * bin as u64) as u64;
                    bin += 1;
                }
            }
        }
        // SAFETY: a place for each thread.
        unsafe {
            barrier();
            store_shared_64(shared + 8 * thread(), sum);
            barrier();
            if warp == 0 && lag < p.lags {
                let mut other = 1;
                while other < HIGH_WARPS {
                    sum += load_shared_64(shared + 8 * (32 * other + lane()));
                    other += 1;
                }
                let product = products + 8 * lag as u64;
                store_global_64(product, read_global_64(product) + sum);
            }
        }
        chunk += 32;
    }
}

kernel! {
    /// Products, delay lines and zero-delay registers of one sensor's groups above `low`.
    fn autocorrelate_high(p: High) {
        let sensor = block() as u64;
        let row = sensor * p.groups as u64;
        let history = 2 * p.lags;
        let bins = p.bins + 2 * sensor * p.bins_stride;
        let room = (p.lags + p.new_bins / 2 + 1) as u64;
        let scratch = p.scratch + 16 * sensor * room;

        // D[j] = Z[j + S / 2^low]; the line begins with D[bins - 2 S + 1].
        let mut last = Bins {
            z: bins + 2 * history as u64,
            d: bins + 2 * (1 + (p.lags >> p.low)) as u64,
            narrow: true,
            count: p.new_bins,
        };
        let mut sum = 0u64;
        let mut bin = thread();
        while bin < p.new_bins {
            for i in 0..TOGETHER {
                let bin = bin + i as u32 * threads();
                let value = last.load(last.z, among(bin, p.new_bins));
                sum += if bin < p.new_bins { value as u64 } else { 0 };
            }
            bin += TOGETHER as u32 * threads();
        }
        let counts = block_sum(sum);
        if thread() == 0 {
            let totals = p.totals + 16 * sensor;
            store_global_64(totals, read_global_64(totals) + counts);
            store_global_64(totals + 8, read_global_64(totals + 8) + counts);
        }

        // What the group before has pending; it is none at the beginning of a bin of group `low`.
        let mut pending = 0;
        let mut group = p.low + 1;
        while group < p.groups {
            let place = scratch + 8 * room * (group % 2) as u64;
            let before = p.begin >> (group - 1);
            let begun = (before % 2) as u32;
            let count = (last.count + begun) / 2;
            let this = Bins { z: place, d: place + 4 * room, narrow: false, count };
            let register = p.partial + 4 * (row + group as u64);
            let partial = read_global(register);
            let half = partial - pending;
            pending = partial;

            // Bins.
            let mut binned = 0u64;
            let mut bin = thread();
            while bin < count {
                let mut values = [0; TOGETHER];
                for i in 0..TOGETHER {
                    let bin = among(bin + i as u32 * threads(), count);
                    let second = 2 * bin + 1 - begun;
                    // The first half of the first bin may have been counted before.
                    let first = last.load(last.z, second.saturating_sub(1));
                    let first = if second == 0 { half } else { first };
                    values[i] = first + last.load(last.z, second);
                }
                for i in 0..TOGETHER {
                    let bin = bin + i as u32 * threads();
                    if bin < count {
                        store_global(this.z + 4 * bin as u64, values[i]);
                        binned += values[i] as u64;
                    }
                }
                bin += TOGETHER as u32 * threads();
            }
            // Delay line.
            let cells = p.cells + 4 * (row + group as u64) * p.lags as u64;
            let mut cell = thread();
            while cell < p.lags {
                let value = read_global(cells + 4 * (p.lags - 1 - cell) as u64);
                store_global(this.d + 4 * cell as u64, value);
                cell += threads();
            }
            let mut bin = thread();
            while bin < count {
                let mut values = [0; TOGETHER];
                for i in 0..TOGETHER {
                    let first = 2 * among(bin + i as u32 * threads(), count) + 1 - begun;
                    values[i] = last.load(last.d, first) + last.load(last.d, first + 1);
                }
                for i in 0..TOGETHER {
                    let bin = bin + i as u32 * threads();
                    if bin < count {
                        store_global(this.d + 4 * (p.lags + bin) as u64, values[i]);
                    }
                }
                bin += TOGETHER as u32 * threads();
            }
            // The barriers of the sum make the bins visible to the block.
            let binned = block_sum(binned);
            if thread() == 0 {
                store_global(register, (partial as u64 + counts - binned) as u32);
            }
            multiply(&p, this, p.products + 8 * (row + group as u64) * p.lags as u64);

            let mut cell = thread();
            while cell < p.lags {
                let value = read_global(this.d + 4 * (count + p.lags - 1 - cell) as u64);
                store_global(cells + 4 * cell as u64, value);
                cell += threads();
            }
            last = this;
            group += 1;
        }
    }
}
