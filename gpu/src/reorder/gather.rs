//! The times of a gate, copied together.
//!
//! Bound by memory: each sample of the gate read once and written once; where times are contiguous, in
//! sectors of 32 bytes that hold other gates' samples too.

use core::num::NonZeroU64;

use crate::{
    abi::reorder::Gather,
    isa::common::{
        block, blocks, load_global, load_global_8, store_global, store_global_8, thread, threads,
    },
    tile::divisor,
};

kernel! {
    /// Copies runs of `run` bytes: `gathered[row][k] = source[row][times[k]]`.
    fn reorder_gather(p: Gather) {
        // Words where every run starts on one.
        let word = if (p.run | p.source as u32 | p.gathered as u32).is_multiple_of(4) { 4 } else { 1 };
        let run = NonZeroU64::from(divisor(p.run / word));
        let chosen = NonZeroU64::from(divisor(p.chosen));
        let pieces = p.rows as u64 * p.chosen as u64 * run.get();
        let mut index = block() as u64 * threads() as u64 + thread() as u64;
        while index < pieces {
            let (place, piece) = (index / run, index % run);
            let (row, k) = (place / chosen, place % chosen);
            let time = load_global(p.numbers + 4 * k);
            let source = p.source
                + (row * p.times as u64 + time as u64) * p.run as u64
                + piece * word as u64;
            let target = p.gathered + index * word as u64;
            if word == 4 {
                store_global(target, load_global(source));
            } else {
                store_global_8(target, load_global_8(source));
            }
            index += blocks() as u64 * threads() as u64;
        }
    }
}
