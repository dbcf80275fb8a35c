//! Whole-sample delays: `x_i'[t] = x_i[t - s_i]`, on the bytes as delivered.
//!
//! A window is the stream's history of `history_times` time samples, kept from earlier blocks, then the block's `times`.
//! Both the output and the history for the next block are time samples of the window, each input's moved by its shift
//! (for the history, by none):
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
    abi::reorder::{SHIFT_PIECE_BYTES, STRIP_AHEAD, STRIP_THREADS, STRIP_TILE_BYTES, Shift, Strip},
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

/// Bytes that follow each other in memory.
#[derive(Clone, Copy)]
struct Span {
    start: u64,
    end: u64,
}

/// One row of a window whose rows are time-contiguous: the history's bytes, then the block's.
struct Row {
    history: u64,
    history_bytes: u64,
    block: u64,
    /// All rows of the history and of the block.
    histories: Span,
    blocks: Span,
}

impl Row {
    /// Address of the byte at `at`.
    #[inline(always)]
    fn address(&self, at: u64) -> u64 {
        if at < self.history_bytes {
            self.history + at
        } else {
            self.block + (at - self.history_bytes)
        }
    }

    /// Whether sixteen bytes at `at` lie in two aligned sixteens of one memory, and where.
    #[inline(always)]
    fn sixteen(&self, at: u64) -> (bool, u64) {
        let old = at < self.history_bytes;
        let memory = if old { self.histories } else { self.blocks };
        let address = self.address(at);
        let aligned = address & !15;
        let joined = old && at + 16 > self.history_bytes;
        (!joined & (aligned >= memory.start) & (aligned + 32 <= memory.end), address)
    }

    /// Sixteen bytes at `at`, wherever they lie.
    ///
    /// # Safety
    /// - The row has the bytes `at` to `at + 16`, in device memory that no thread of the grid writes.
    #[inline(always)]
    unsafe fn bytes(&self, at: u64) -> [u32; 4] {
        let mut words = [0; 4];
        for byte in 0..16 {
            // SAFETY: a byte that the row has.
            let value = unsafe { load_global_8(self.address(at + byte as u64)) };
            words[byte / 4] |= value << (8 * (byte % 4));
        }
        words
    }
}

/// The two aligned sixteens that hold sixteen bytes at any address.
///
/// # Safety
/// - Both lie in device memory, were written before the launch, and no thread of the grid writes them in it.
#[inline(always)]
unsafe fn aligned(address: u64) -> [[u32; 4]; 2] {
    let base = address & !15;
    // SAFETY: 16 aligned bytes each, which are there.
    unsafe { [load_global_4(base), load_global_4(base + 16)] }
}

/// The sixteen bytes at `address` of those that [`aligned`] gives.
#[inline(always)]
fn cut([[a, b, c, d], [e, f, g, h]]: [[u32; 4]; 2], address: u64) -> [u32; 4] {
    let address = address as u32;
    let [a, b, c, d, e, f] = if address & 8 == 0 { [a, b, c, d, e, f] } else { [c, d, e, f, g, h] };
    let five = if address & 4 == 0 { [a, b, c, d, e] } else { [b, c, d, e, f] };
    let bits = 8 * (address & 3);
    let mut moved = [0; 4];
    for word in 0..4 {
        moved[word] = ((five[word] as u64 | (five[word + 1] as u64) << 32) >> bits) as u32;
    }
    moved
}

kernel! {
    /// Delays of time-contiguous rows, a piece a warp.
    fn reorder_shift_rows(p: Shift) {
        /// Chunks of 16 bytes that a lane has under way, and those of its piece.
        const TOGETHER: u32 = 2;
        const PIECE: u32 = SHIFT_PIECE_BYTES / (16 * 32);
        let out_bytes = p.out_times * p.element;
        let history_bytes = (p.history_times * p.element) as u64;
        let block_bytes = (p.times * p.element) as u64;
        let rows = p.channels as u64 * p.inputs as u64;
        let span = |start: u64, row_bytes: u64| Span { start, end: start + rows * row_bytes };
        let inputs = NonZeroU64::from(divisor(p.inputs));
        let pieces = NonZeroU64::from(divisor(out_bytes.div_ceil(SHIFT_PIECE_BYTES)));
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
                histories: span(p.history, history_bytes),
                blocks: span(p.block, block_bytes),
            };
            let out = p.delayed + number * out_bytes as u64;
            let from = (p.first - shift) as u64 * p.element as u64;
            // The output is aligned from `lead` on, up to `tail` in whole chunks.
            let lead = 15 & out.wrapping_neg() as u32;
            let lead = if lead < out_bytes { lead } else { out_bytes };
            let tail = lead + ((out_bytes - lead) & !15);
            let mut at = lead + 16 * (32 * PIECE * piece + lane());
            let mut chunk = 0;
            while chunk < PIECE && at < tail {
                let mut loaded = [[[0; 4]; 2]; TOGETHER as usize];
                for k in 0..TOGETHER {
                    let at = at + 16 * 32 * k;
                    let (whole, address) = row.sixteen(from + at as u64);
                    if whole && at < tail {
                        loaded[k as usize] = aligned(address);
                    }
                }
                for k in 0..TOGETHER {
                    let at = at + 16 * 32 * k;
                    let (whole, address) = row.sixteen(from + at as u64);
                    if at < tail {
                        let bytes = if whole {
                            cut(loaded[k as usize], address)
                        } else {
                            row.bytes(from + at as u64)
                        };
                        store_global_4(out + at as u64, bytes);
                    }
                }
                chunk += TOGETHER;
                at += 16 * 32 * TOGETHER;
            }
            // Half of the lanes take the bytes before the chunks, half the bytes behind.
            let (edge, end) = if lane() < 16 { (lane(), lead) } else { (tail + lane() - 16, out_bytes) };
            if piece == 0 && edge < end {
                store_global_8(out + edge as u64, load_global_8(row.address(from + edge as u64)));
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
    /// Binary logarithms of the words of a time, and of the times of a tile.
    log_words: u32,
    log_times: u32,
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
    /// - All threads of the block call it together, in a launch that keeps the conditions of [`Shift`].
    /// - `slot` is one of the ring's; nobody reads it any more, or before the copies have been waited for.
    #[inline(always)]
    unsafe fn copy(&self, p: &Shift, tile: u32, slot: u32) {
        let row_words = p.channels * p.inputs * p.element / 4;
        let times = p.history_times + p.times;
        let first = self.window + (tile << self.log_times);
        let step = if self.chunks { 4 } else { 1 };
        let mut word = step * thread();
        while word < STRIP_TILE_BYTES / 4 {
            let time = first + (word >> self.log_words);
            let column = self.column + (word & ((1 << self.log_words) - 1));
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
            word += step * STRIP_THREADS;
        }
    }
}

/// One word of samples, each part from a place of its own.
///
/// # Safety
/// - `wrap` leads each place to an aligned word of the ring, which was copied before a barrier, and which nobody writes
///   before the next.
#[inline(always)]
unsafe fn gathered<const PARTS: usize>(places: [u32; PARTS], wrap: impl Fn(u32) -> u32) -> u32 {
    let bits = 32 / PARTS as u32;
    let mask = u32::MAX >> (32 - bits);
    let mut word = 0;
    for part in 0..PARTS {
        // SAFETY: an aligned word of the ring.
        word |= unsafe { load_shared(wrap(places[part])) } & mask << (bits * part as u32);
    }
    word
}

/// Delays `tiles` tiles of one strip from output time `first` on. Words hold `PARTS` samples.
///
/// Long, as reading, shifting and writing of a tile share the addresses of its ring.
///
/// # Safety
/// - All threads of a block of [`STRIP_THREADS`] call it together, with the same arguments, in a launch that keeps the
///   conditions of [`Shift`].
/// - The ring is the block's shared memory; `first` is a multiple of a tile's times, and `tiles` at least 1.
/// - No other block writes these times of the strip.
#[inline(always)]
unsafe fn strip<const PARTS: usize>(p: &Shift, mut ring: Ring, first: u32, tiles: u32) {
    /// Words of a tile for each thread, and bytes from one to the next.
    const OWN: u32 = STRIP_TILE_BYTES / 4 / STRIP_THREADS;
    const NEXT: u32 = 4 * STRIP_THREADS;
    let row_words = p.channels * p.inputs * p.element / 4;
    let row_bytes = 4 * row_words as u64;
    let reach = ring.lead << ring.log_times;
    ring.window = (p.first + first).wrapping_sub(reach);
    let (row, word) = (thread() >> ring.log_words, thread() & ((1 << ring.log_words) - 1));
    let column = ring.column + word;

    // Addresses of this thread's first sample of each part in the first tile of the output.
    let mut places = [0; PARTS];
    for part in 0..PARTS {
        let input = (column * PARTS as u32 + part as u32) % divisor(p.inputs);
        let shift = if p.shifts == 0 {
            0
        } else {
            // SAFETY: a shift for each input.
            unsafe { load_global(p.shifts + 4 * input as u64) }
        };
        places[part] = ring.start + 4 * (((reach + row - shift) << ring.log_words) + word);
    }
    let together = STRIP_THREADS >> ring.log_words;
    let mut time = first + row;
    // No time is one of a column that is not there.
    let end = if column < row_words { p.out_times } else { 0 };
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
        let mut words = [0; OWN as usize];
        let whole =
            places.iter().fold(true, |whole, place| whole & (place + (OWN - 1) * NEXT < ring.end));
        for own in 0..OWN {
            let places = places.map(|place| place + own * NEXT);
            if time + own * together < end {
                // SAFETY: copied before the barrier.
                words[own as usize] = unsafe {
                    if whole {
                        gathered(places, |at| at)
                    } else {
                        gathered(places, |at| ring.wrap(at))
                    }
                };
            }
        }
        for own in 0..OWN {
            if time < end {
                // SAFETY: a word of an output time, this thread's alone.
                unsafe { store_global(target, words[own as usize]) };
            }
            time += together;
            target += next_target;
        }
        places = places.map(|place| ring.wrap(place + STRIP_TILE_BYTES));
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
                log_words: p.words.trailing_zeros(),
                log_times: shape.times().trailing_zeros(),
                column: number * p.words,
                window: 0,
                chunks: (p.history | p.block | (4 * row_words as u64)) & 15 == 0,
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
