//! Groups of long bins, from the bins of group `low`.
//!
//! Bins are sums of two bins of the group before; the delay line, the oldest bin first, is the one
//! that the state holds, followed by sums of two delayed bins of the group before.
//! [`autocorrelate_long_bins`] makes both for one group after the other. Then
//! [`autocorrelate_long_products`] multiplies those of all groups: with both in memory, lag `c` is
//! the sum of products of the new bins with the line from place `S - 1 - c` on. A thread takes four
//! lags of four neighbouring bins: 16 products from 12 numbers.
//!
//! What the state holds of group `low` itself is not needed: the halo has its last `2 S` bins.
//!
//! Bound by integer operations: a 64-bit multiply-add for `S / 2^low` lags and counts.

use crate::{
    abi::autocorrelate::{
        LONG_BINS, LONG_BINS_RANGE, LONG_PRODUCTS_RANGE, LONG_WARPS, LongBins, LongProducts,
        long_room,
    },
    isa::common::{
        add_global_64, block, lane, load_global, load_global_4, load_global_16, read_global,
        shfl_xor, store_global, thread,
    },
    tile::divisor,
};

/// Bins that a thread makes, so that their loads are under way together.
const TOGETHER: usize = (LONG_BINS_RANGE / LONG_BINS.entry.threads) as usize;

/// Fours of bins that a thread multiplies at a time.
const FOURS: usize = 4;

/// A bin of the group before.
///
/// # Safety
/// It exists at `address`.
#[inline(always)]
unsafe fn load(p: &LongBins, address: u64, bin: u32) -> u32 {
    // SAFETY: the caller's promise; an earlier grid wrote it.
    unsafe {
        if p.narrow != 0 {
            load_global_16(address + 2 * bin as u64)
        } else {
            load_global(address + 4 * bin as u64)
        }
    }
}

kernel! {
    /// Bins and delay line of one group, of a range of one sensor's bins.
    fn autocorrelate_long_bins(p: LongBins) {
        let blocks = divisor(p.blocks);
        let (sensor, range) = ((block() / blocks) as u64, block() % blocks);
        let line = long_room(p.lags);
        let room = long_room(p.count);
        let before = p.before + sensor * p.before_stride;
        let before_delayed = p.before_delayed + sensor * p.before_delayed_stride;
        let bins = p.bins + 4 * sensor * room as u64;
        let delayed = p.delayed + 4 * sensor * (line + room) as u64;
        let row = sensor * p.groups as u64 + p.group as u64;

        let mut values = [[0; 2]; TOGETHER];
        for i in 0..TOGETHER {
            let bin = range * LONG_BINS_RANGE + i as u32 * LONG_BINS.entry.threads + thread();
            if bin < p.count {
                let second = 2 * bin + 1 - p.begun;
                let first = if second == 0 {
                    // Counted before; shorter bins that are begun wait in the register before.
                    let register = p.partial + 4 * row;
                    load_global(register) - load_global(register - 4)
                } else {
                    load(&p, before, second - 1)
                };
                values[i] = [
                    first + load(&p, before, second),
                    load(&p, before_delayed, second) + load(&p, before_delayed, second + 1),
                ];
            }
        }
        for i in 0..TOGETHER {
            let bin = range * LONG_BINS_RANGE + i as u32 * LONG_BINS.entry.threads + thread();
            if bin < room {
                store_global(bins + 4 * bin as u64, values[i][0]);
                store_global(delayed + 4 * (line + bin) as u64, values[i][1]);
            }
        }
        if range == 0 && thread() < line {
            let cell = thread();
            let mut value = 0;
            if cell < p.lags {
                value = load_global(p.cells + 4 * (row * p.lags as u64 + cell as u64));
            }
            store_global(delayed + 4 * (line - 1 - cell) as u64, value);
        }
    }
}

/// The sum of a value over the lanes whose numbers are the same modulo `period`, a power of two.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
unsafe fn sum_of_lanes(mut value: u64, period: u32) -> u64 {
    macro_rules! exchange {
        ($($mask:literal)*) => {
            $(if period <= $mask {
                let low = shfl_xor::<$mask>(value as u32);
                let high = shfl_xor::<$mask>((value >> 32) as u32);
                value += low as u64 | (high as u64) << 32;
            })*
        };
    }
    exchange!(16 8 4 2 1);
    value
}

/// Which warps of a block multiply the bins of a group: the first, and how many. Every group has half as
/// many bins as the one before; the last warp has all from the fourth on.
#[inline(always)]
fn warps(group: u32) -> (u32, u32) {
    match group {
        0 => (0, LONG_WARPS / 2),
        1 => (LONG_WARPS / 2, LONG_WARPS / 4),
        2 => (LONG_WARPS * 3 / 4, LONG_WARPS / 8),
        _ => (LONG_WARPS * 7 / 8, LONG_WARPS / 8),
    }
}

kernel! {
    /// Products of a range of one sensor's bins of all groups; of its first range also delay lines
    /// and zero-delay registers of the state.
    fn autocorrelate_long_products(p: LongProducts) {
        let blocks = divisor(p.blocks);
        let (sensor, range) = ((block() / blocks) as u64, block() % blocks);
        let line = long_room(p.lags);
        // Lanes that share four bins have four lags each: a power of two of them.
        let sharers = (line / 4).next_power_of_two();
        let quad = lane() % sharers;
        let has_lags = quad < line / 4;
        let shift = sharers.trailing_zeros();
        let warp = thread() / 32;

        let mut group = p.low + 1;
        let mut count = p.new_bins;
        let mut place = p.bins;
        let mut before = p.low_bins + sensor * p.low_stride;
        let mut old = 0;
        let mut pending = 0;
        while group < p.groups {
            let row = sensor * p.groups as u64 + group as u64;
            let ready = count + (p.begin >> (group - 1)) as u32 % 2;
            let last = count;
            count = ready / 2;
            let room = long_room(count);
            let bins = place + 4 * sensor * room as u64;
            let delayed = place + 4 * (p.sensors as u64 * room as u64 + sensor * (line + room) as u64);
            place += 4 * p.sensors as u64 * (line + 2 * room) as u64;

            if range == 0 && thread() == 0 {
                let register = p.partial + 4 * row;
                let half = read_global(register) - old;
                old += half;
                if ready % 2 == 1 {
                    pending += if last == 0 {
                        half
                    } else if group == p.low + 1 {
                        load_global_16(before + 2 * (last - 1) as u64)
                    } else {
                        load_global(before + 4 * (last - 1) as u64)
                    };
                }
                store_global(register, pending);
            }
            before = bins;

            let (first_warp, warps) = warps(group - p.low - 1);
            if warp < first_warp || warp >= first_warp + warps {
                group += 1;
                continue;
            }
            if range == 0 && warp == first_warp {
                let mut lag = lane();
                while lag < p.lags {
                    let cell = load_global(delayed + 4 * (line - 1 - lag + count) as u64);
                    store_global(p.cells + 4 * (row * p.lags as u64 + lag as u64), cell);
                    lag += 32;
                }
            }

            // Fours of bins: those of the range, and of the last one all that are left.
            let fours = |range: u32| ((range * LONG_PRODUCTS_RANGE) >> (group - p.low - 1)) / 4;
            let end = if range + 1 < p.blocks && fours(range + 1) < room / 4 {
                fours(range + 1)
            } else {
                room / 4
            };
            let stride = (32 * warps) >> shift;
            let mut sums = [0u64; 4];
            let mut four = fours(range) + ((thread() - 32 * first_warp) >> shift);
            if has_lags {
                let partner = delayed + 16 * (line / 4 - 1 - quad) as u64;
                while four < end {
                    // Several fours at a time, so that their loads are under way together.
                    let mut z = [[0; 4]; FOURS];
                    let mut d = [[[0; 4]; 2]; FOURS];
                    for i in 0..FOURS {
                        let four = four + i as u32 * stride;
                        let at = 16 * if four < end { four } else { end - 1 } as u64;
                        z[i] = load_global_4(bins + at);
                        d[i] = [load_global_4(partner + at), load_global_4(partner + at + 16)];
                        if four >= end {
                            z[i] = [0; 4];
                        }
                    }
                    for i in 0..FOURS {
                        let [older, newer] = d[i];
                        let d = [
                            older[0], older[1], older[2], older[3], newer[0], newer[1], newer[2],
                        ];
                        for bin in 0..4 {
                            for lag in 0..4 {
                                sums[lag] += z[i][bin] as u64 * d[3 + bin - lag] as u64;
                            }
                        }
                    }
                    four += FOURS as u32 * stride;
                }
            }
            for i in 0..4 {
                let sum = sum_of_lanes(sums[i], sharers);
                let lag = 4 * lane() + i as u32;
                if lag < p.lags && sum != 0 {
                    add_global_64(p.products + 8 * (row * p.lags as u64 + lag as u64), sum);
                }
            }
            group += 1;
        }
    }
}
