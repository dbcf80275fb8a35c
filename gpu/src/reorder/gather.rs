//! The times of a gate, copied together.
//!
//! Gates may begin later in one channel than in another, as dispersed pulses do: then each channel has a list of its
//! own, and channels with fewer times than others get samples of zero, which add nothing to any product.
//!
//! Bound by memory: each sample of the gate read once and written once; where times are contiguous, in
//! sectors of 32 bytes that hold other gates' samples too.

use core::num::NonZeroU64;

use crate::{
    abi::reorder::{Gather, NO_TIME},
    isa::common::{
        block, blocks, load_global, load_global_8, store_global, store_global_8, thread, threads,
    },
    tile::divisor,
};

kernel! {
    /// Copies runs of `run` bytes: `gathered[row][k][part] = source[row][times[list][k]][part]`, with the list of the
    /// row and part.
    fn reorder_gather(p: Gather) {
        // Words where every run starts on one.
        let word = if (p.run | p.source as u32 | p.gathered as u32).is_multiple_of(4) { 4 } else { 1 };
        let run = NonZeroU64::from(divisor(p.run / word));
        let chosen = NonZeroU64::from(divisor(p.chosen));
        let parts = NonZeroU64::from(divisor(p.parts));
        let rows_of_list = NonZeroU64::from(divisor(p.rows_of_list));
        let pieces = p.rows as u64 * p.chosen as u64 * parts.get() * run.get();
        let mut index = block() as u64 * threads() as u64 + thread() as u64;
        while index < pieces {
            let (place, piece) = (index / run, index % run);
            // Divisions are long: there is one part, or one row.
            let (place, part) = if p.parts == 1 { (place, 0) } else { (place / parts, place % parts) };
            let (row, k) = if p.rows == 1 { (0, place) } else { (place / chosen, place % chosen) };
            let list = if p.rows_of_list == p.rows { part } else { row / rows_of_list };
            let time = load_global(p.numbers + 4 * (list * chosen.get() + k));
            let source = p.source
                + ((row * p.times as u64 + time as u64) * parts.get() + part) * p.run as u64
                + piece * word as u64;
            let target = p.gathered + index * word as u64;
            if word == 4 {
                let value = if time == NO_TIME { p.zero } else { load_global(source) };
                store_global(target, value);
            } else {
                let value = if time == NO_TIME { p.zero } else { load_global_8(source) };
                store_global_8(target, value);
            }
            index += blocks() as u64 * threads() as u64;
        }
    }
}
