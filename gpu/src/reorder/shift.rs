//! Whole-sample delays: `x_i'[t] = x_i[t - s_i]`, on the bytes as delivered.
//!
//! A window is what a stream's last block left behind, then the block: its history of `history_times`
//! times, then `times` more. Both what comes out and what is left for the next block are times of the
//! window, each input's moved by its shift (for the history, by none):
//!
//! ```text
//! delayed[t]  = window[history_times + t - s_i],   t < times
//! history'[t] = window[times + t],                 t < history_times
//! ```
//!
//! Bound by memory: each sample read once and written once. Time-contiguous rows move by sixteen bytes
//! out of two aligned sixteens. Samples with the inputs next to each other go through shared memory in
//! strips of some bytes and all times, as a sector of 32 bytes holds inputs that go to different times: a
//! ring holds the times of the largest shift, and a few tiles that are on their way. A lane reads its own
//! word's column, of whatever times its samples' shifts say, so that banks never conflict.
//! [`reorder_shift_elements`] reads a sector for each sample instead, and knows no largest shift.

use core::num::NonZeroU64;

use crate::{
    abi::reorder::{STRIP_AHEAD, STRIP_THREADS, STRIP_TILE_BYTES, Shift, Strip},
    isa::{
        common::{
            barrier, block, blocks, dynamic_shared, lane, load_global, load_global_4,
            load_global_8, load_shared, store_global, store_global_4, store_global_8, store_shared,
            thread, threads,
        },
        sm_80::{cp_async_commit, cp_async_wait, cp_async_whole_16},
    },
    tile::divisor,
};

/// Bytes of one row of a window whose rows are time-contiguous: the history's, then the block's.
struct Row {
    history: u64,
    history_bytes: u64,
    block: u64,
}

impl Row {
    /// The byte at `at`.
    ///
    /// # Safety
    /// The row has it.
    #[inline(always)]
    unsafe fn byte(&self, at: u64) -> u32 {
        let address = if at < self.history_bytes {
            self.history + at
        } else {
            self.block + (at - self.history_bytes)
        };
        // SAFETY: the caller's promise.
        unsafe { load_global_8(address) }
    }
}

/// Sixteen bytes at any address, from the two aligned sixteens that hold them.
///
/// # Safety
/// Both are readable.
#[inline(always)]
unsafe fn unaligned(address: u64) -> [u32; 4] {
    let (base, words, bits) = (address & !15, (address as u32 / 4) & 3, 8 * (address as u32 & 3));
    // SAFETY: the caller's promise.
    let (low, high) = unsafe { (load_global_4(base), load_global_4(base + 16)) };
    let [a, b, c, d] = low;
    let [e, f, g, h] = high;
    // Neighbours in a row are as far from alignment: a warp takes one way.
    let five = match words {
        0 => [a, b, c, d, e],
        1 => [b, c, d, e, f],
        2 => [c, d, e, f, g],
        _ => [d, e, f, g, h],
    };
    let mut moved = [0; 4];
    for word in 0..4 {
        moved[word] = ((five[word] as u64 | (five[word + 1] as u64) << 32) >> bits) as u32;
    }
    moved
}

kernel! {
    /// Delays of time-contiguous rows, pieces of 2048 bytes a warp.
    fn reorder_shift_rows(p: Shift) {
        const CHUNKS: u32 = 4;
        let out_bytes = p.out_times * p.element;
        let history_bytes = (p.history_times * p.element) as u64;
        let block_bytes = (p.times * p.element) as u64;
        let rows = p.channels as u64 * p.inputs as u64;
        let end = p.block + rows * block_bytes;
        let inputs = NonZeroU64::from(divisor(p.inputs));
        // One more chunk than its bytes fill, as a row may start anywhere between two.
        let pieces = NonZeroU64::from(divisor((out_bytes / 16 + 1).div_ceil(32 * CHUNKS)));
        let warps = (threads() / 32) as u64;
        let mut index = block() as u64 * warps + (thread() / 32) as u64;
        while index < rows * pieces.get() {
            let (number, piece) = (index / pieces, (index % pieces) as u32);
            let input = (number % inputs) as u32;
            let shift = if p.shifts == 0 { 0 } else { load_global(p.shifts + 4 * input as u64) };
            let row = Row {
                history: p.history + number * history_bytes,
                history_bytes,
                block: p.block + number * block_bytes,
            };
            let out = p.delayed + number * out_bytes as u64;
            let from = (p.first - shift) as u64 * p.element as u64;
            // The output is aligned from here on.
            let lead = 15 & out.wrapping_neg() as u32;
            let first = lead + 16 * (CHUNKS * 32 * piece + lane());
            // Chunks from the first on, each 32 behind the one before.
            let at = |chunk: u32| first + 16 * 32 * chunk;
            let source =
                |at: u32| (row.block + from + at as u64).wrapping_sub(history_bytes);
            // Whether a chunk lies in the block, the sixteens around it too.
            let starts = |at: u32| from + at as u64 >= history_bytes && source(at) & !15 >= p.block;
            let ends = |at: u32| at + 16 <= out_bytes && (source(at) & !15) + 32 <= end;
            if starts(at(0)) && ends(at(CHUNKS - 1)) {
                let mut moved = [[0; 4]; CHUNKS as usize];
                for k in 0..CHUNKS {
                    moved[k as usize] = unaligned(source(at(k)));
                }
                for k in 0..CHUNKS {
                    store_global_4(out + at(k) as u64, moved[k as usize]);
                }
            } else {
                for k in 0..CHUNKS {
                    let at = at(k);
                    if starts(at) && ends(at) {
                        store_global_4(out + at as u64, unaligned(source(at)));
                    } else {
                        let mut byte = at;
                        while byte < out_bytes && byte < at + 16 {
                            store_global_8(out + byte as u64, row.byte(from + byte as u64));
                            byte += 1;
                        }
                    }
                }
            }
            if piece == 0 && lane() < lead && lane() < out_bytes {
                store_global_8(out + lane() as u64, row.byte(from + lane() as u64));
            }
            index += blocks() as u64 * warps;
        }
    }
}

/// Address of a time of the window whose times are rows of `row_bytes` bytes.
#[inline(always)]
fn time_row(p: &Shift, time: u32, row_bytes: u64) -> u64 {
    if time < p.history_times {
        p.history + time as u64 * row_bytes
    } else {
        p.block + (time - p.history_times) as u64 * row_bytes
    }
}

/// A strip of some words of every time, in a ring of tiles in shared memory; a tile is
/// [`STRIP_TILE_BYTES`], its times one after the other.
struct Ring {
    /// Shared memory of the ring, and where it ends.
    start: u32,
    end: u32,
    /// Tiles from one with the times of the largest shift to one with those of no shift.
    lead: u32,
    /// Words of a time.
    words: u32,
    /// Times of a tile.
    times: u32,
    /// First word of the strip.
    column: u32,
    /// Time of the window, modulo 2^32, at the start of the first tile.
    window: u32,
    /// Whether times are whole chunks of 16 bytes.
    chunks: bool,
}

impl Ring {
    /// `address`, at most a ring beyond its end, in the ring.
    #[inline(always)]
    fn wrap(&self, address: u32) -> u32 {
        if address >= self.end { address - (self.end - self.start) } else { address }
    }

    /// Begins to copy tile `tile` to `slot`: each thread its part. What is not of the window stays out.
    ///
    /// # Safety
    /// As the kernel's; nothing reads the slot any more.
    #[inline(always)]
    unsafe fn copy(&self, p: &Shift, tile: u32, slot: u32) {
        let row_words = p.channels * p.inputs * p.element / 4;
        let times = p.history_times + p.times;
        let first = self.window + tile * self.times;
        let step = if self.chunks { 4 } else { 1 };
        let mut word = step * thread();
        while word < STRIP_TILE_BYTES / 4 {
            let (time, column) =
                (first + word / divisor(self.words), self.column + word % divisor(self.words));
            if time < times && column < row_words {
                let source = time_row(p, time, 4 * row_words as u64) + 4 * column as u64;
                let place = slot + 4 * word;
                // SAFETY: words of a time of the window, of the strip's slot.
                unsafe {
                    if self.chunks {
                        cp_async_whole_16(place, source);
                    } else {
                        store_shared(place, load_global(source));
                    }
                }
            }
            word += step * threads();
        }
    }
}

/// Delays `tiles` tiles of one strip from output time `first` on. Words hold `PARTS` samples.
///
/// # Safety
/// As the kernel's; `first` is a multiple of a tile's times.
#[inline(always)]
unsafe fn strip<const PARTS: usize>(p: &Shift, mut ring: Ring, first: u32, tiles: u32) {
    /// Words of a tile for each thread, and bytes from one to the next.
    const OWN: u32 = STRIP_TILE_BYTES / 4 / STRIP_THREADS;
    const NEXT: u32 = 4 * STRIP_THREADS;
    let row_words = p.channels * p.inputs * p.element / 4;
    let row_bytes = 4 * row_words as u64;
    let reach = ring.lead * ring.times;
    ring.window = (p.first + first).wrapping_sub(reach);
    let (row, word) = (thread() / divisor(ring.words), thread() % divisor(ring.words));
    let column = ring.column + word;

    // Where this thread's first sample of each part lies, as long as the output's tile is the first.
    let mut places = [0; PARTS];
    for part in 0..PARTS {
        let input = (column * PARTS as u32 + part as u32) % divisor(p.inputs);
        let shift = if p.shifts == 0 {
            0
        } else {
            // SAFETY: a shift for each input.
            unsafe { load_global(p.shifts + 4 * input as u64) }
        };
        places[part] = ring.start + 4 * ((reach + row - shift) * ring.words + word);
    }
    let mask = u32::MAX >> (32 - 32 / PARTS as u32);
    let together = STRIP_THREADS / divisor(ring.words);
    let mut time = first + row;
    let mut target = p.delayed + time as u64 * row_bytes + 4 * column as u64;
    let next_target = together as u64 * row_bytes;

    // The threads may still read the tiles of another strip.
    barrier();
    let all = tiles + ring.lead;
    let (mut tile, mut slot) = (0, ring.start);
    while tile < ring.lead + STRIP_AHEAD {
        if tile < all {
            // SAFETY: an empty slot.
            unsafe { ring.copy(p, tile, slot) };
        }
        cp_async_commit();
        tile += 1;
        slot = ring.wrap(slot + STRIP_TILE_BYTES);
    }
    let mut done = 0;
    while done < tiles {
        cp_async_wait::<{ STRIP_AHEAD - 1 }>();
        // Everyone's copies are there, and the tile before the output's is free.
        barrier();
        if tile < all {
            // SAFETY: the slot of the tile before.
            unsafe { ring.copy(p, tile, slot) };
        }
        cp_async_commit();
        tile += 1;
        slot = ring.wrap(slot + STRIP_TILE_BYTES);
        for own in 0..OWN {
            if time < p.out_times && column < row_words {
                let mut value = 0;
                for part in 0..PARTS {
                    let place = ring.wrap(places[part] + own * NEXT);
                    // SAFETY: in the ring, copied before the barrier.
                    value |= unsafe { load_shared(place) } & mask << (32 / PARTS * part);
                }
                // SAFETY: a word of an output time, this thread's alone.
                unsafe { store_global(target, value) };
            }
            time += together;
            target += next_target;
        }
        for part in 0..PARTS {
            places[part] = ring.wrap(places[part] + STRIP_TILE_BYTES);
        }
        done += 1;
    }
}

kernel! {
    /// Delays of samples with the inputs next to each other, whose times are whole words. Blocks share
    /// the tiles of all strips, one strip after the other.
    fn reorder_shift_strips(p: Shift) {
        let row_words = p.channels * p.inputs * p.element / 4;
        let shape = Strip { words: p.words, lead: p.lead };
        let tiles = p.out_times.div_ceil(divisor(shape.times()).get());
        let strips = row_words.div_ceil(divisor(p.words).get());
        let share = |block: u32| block as u64 * tiles as u64 * strips as u64 / NonZeroU64::from(divisor(blocks()));
        let (mut from, to) = (share(block()), share(block() + 1));
        let start = dynamic_shared();
        while from < to {
            let tiles = NonZeroU64::from(divisor(tiles));
            let (number, tile) = ((from / tiles) as u32, (from % tiles) as u32);
            let left = tiles.get() as u32 - tile;
            let count = if to - from < left as u64 { (to - from) as u32 } else { left };
            let ring = Ring {
                start,
                end: start + shape.shared_bytes(),
                lead: p.lead,
                words: p.words,
                times: shape.times(),
                column: number * p.words,
                window: 0,
                chunks: (p.history | p.block | 4 * row_words as u64) & 15 == 0,
            };
            let first = tile * shape.times();
            match p.element {
                1 => strip::<4>(&p, ring, first, count),
                2 => strip::<2>(&p, ring, first, count),
                _ => strip::<1>(&p, ring, first, count),
            }
            from += count as u64;
        }
    }
}

kernel! {
    /// Delays of samples with the inputs next to each other, of any number and with any shifts.
    fn reorder_shift_elements(p: Shift) {
        let slots = p.channels * p.inputs;
        let row_bytes = slots as u64 * p.element as u64;
        let samples = p.out_times as u64 * slots as u64;
        let mut index = block() as u64 * threads() as u64 + thread() as u64;
        while index < samples {
            let slots = NonZeroU64::from(divisor(slots));
            let (time, slot) = ((index / slots) as u32, (index % slots) as u32);
            let input = slot % divisor(p.inputs);
            let shift = if p.shifts == 0 { 0 } else { load_global(p.shifts + 4 * input as u64) };
            let source = time_row(&p, p.first + time - shift, row_bytes)
                + slot as u64 * p.element as u64;
            let target = p.delayed + index * p.element as u64;
            let mut byte = 0;
            while byte < p.element {
                store_global_8(target + byte as u64, load_global_8(source + byte as u64));
                byte += 1;
            }
            index += blocks() as u64 * threads() as u64;
        }
    }
}
