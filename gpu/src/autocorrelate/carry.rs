//! Counts and delay lines that the next instants need: the last counts, and the delay lines of the groups
//! whose products tensor cores compute.
//!
//! Bound by memory: the last `halo` instants read and written.

use core::num::NonZeroU64;

use crate::{
    abi::autocorrelate::Carry,
    isa::common::{
        block, blocks, load_global, load_global_8, store_global, store_global_8, thread, threads,
    },
    tile::divisor,
};

/// Address of the counts of all sensors at an instant, counted from the first one.
#[inline(always)]
fn row(p: &Carry, instant: i64) -> u64 {
    if instant < 0 {
        p.tail + (instant + p.halo as i64) as u64 * p.sensors as u64
    } else {
        p.counts + instant as u64 * p.sensors as u64
    }
}

kernel! {
    /// Writes the tail, and the delay lines of `fill` groups: `Y_{k,c}` for the next bin, whose first
    /// sample lies `(S - S / 2^k + c) 2^k` instants before the end.
    fn autocorrelate_carry(p: Carry) {
        let sensors = divisor(p.sensors);
        let end = p.instants as i64;
        let step = blocks() as u64 * threads() as u64;
        let start = block() as u64 * threads() as u64 + thread() as u64;

        let bytes = if p.words != 0 { 4 } else { 1 };
        let pieces = NonZeroU64::from(divisor(p.sensors / bytes));
        let mut place = start;
        while place < p.halo as u64 * pieces.get() {
            let instant = end - p.halo as i64 + (place / pieces) as i64;
            let from = row(&p, instant) + bytes as u64 * (place % pieces);
            let to = p.new_tail + bytes as u64 * place;
            if p.words != 0 {
                store_global(to, load_global(from));
            } else {
                store_global_8(to, load_global_8(from));
            }
            place += step;
        }

        let lags = divisor(p.lags);
        let cells = (p.fill * p.lags) as u64 * p.sensors as u64;
        let mut place = start;
        while place < cells {
            // Fewer than 2^32 cells: the state could not hold more.
            let (cell, sensor) = (place as u32 / sensors, place as u32 % sensors);
            let (group, lag) = (cell / lags, cell % lags);
            let first = end - (((p.lags - (p.lags >> group) + lag) as i64) << group);
            let mut value = 0;
            let mut instant = first;
            // The newest cell of group 0 is the sample to come: it is zero.
            while instant < first + (1 << group) && instant < end {
                value += load_global_8(row(&p, instant) + sensor as u64);
                instant += 1;
            }
            let line = (sensor as u64 * p.groups as u64 + group as u64) * p.lags as u64;
            store_global(p.cells + 4 * (line + lag as u64), value);
            place += step;
        }
    }
}
