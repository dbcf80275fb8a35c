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
//! out of two aligned sixteens. Of samples with the inputs next to each other, a block takes strips of
//! some bytes and many times ([`Strip`]) through shared memory, as a sector of 32 bytes holds inputs
//! that go to different times; it reads the times of the largest shift once more: wide strips for small
//! shifts, narrow ones for larger. [`reorder_shift_elements`] reads a sector for each sample instead,
//! and knows no largest shift.

use core::num::NonZeroU64;

use crate::{
    abi::reorder::{STRIP_NARROW, STRIP_WIDE, Shift, Strip},
    isa::common::{
        barrier, block, blocks, dynamic_shared, lane, load_global, load_global_4, load_global_8,
        load_shared, store_global, store_global_4, store_global_8, store_shared, thread, threads,
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

/// One block's strip and times. Words hold `PARTS` samples.
///
/// # Safety
/// As the kernel's.
#[inline(always)]
unsafe fn strip<const PARTS: usize>(p: &Shift, shape: Strip) {
    const LOADS: u32 = 8;
    let row_words = p.channels * p.inputs / PARTS as u32;
    let row_bytes = 4 * row_words as u64;
    let strips = divisor(row_words.div_ceil(shape.words));
    let tile = shape.rows - p.largest;
    let first = block() / strips * tile;
    let left = p.out_times - first;
    let times = if left < tile { left } else { tile };
    let (word, mut row) = (thread() % shape.words, thread() / shape.words);
    // Times that the block's threads take at once.
    let together = threads() / shape.words;
    let column = block() % strips * shape.words + word;
    let place = dynamic_shared() + 4 * word;
    let rows = times + p.largest;
    let window = p.first + first - p.largest;
    let inside = column < row_words;

    while row < rows {
        let mut words = [0; LOADS as usize];
        for k in 0..LOADS {
            let time = row + k * together;
            if inside && time < rows {
                let address = time_row(p, window + time, row_bytes) + 4 * column as u64;
                // SAFETY: a word of a time of the window.
                words[k as usize] = unsafe { load_global(address) };
            }
        }
        for k in 0..LOADS {
            let time = row + k * together;
            if time < rows {
                // SAFETY: within the strip.
                unsafe { store_shared(place + shape.pitch() * time, words[k as usize]) };
            }
        }
        row += LOADS * together;
    }
    barrier();
    if inside {
        let mut offsets = [0; PARTS];
        for part in 0..PARTS {
            let input = (column * PARTS as u32 + part as u32) % divisor(p.inputs);
            let shift = if p.shifts == 0 {
                0
            } else {
                // SAFETY: a shift for each input.
                unsafe { load_global(p.shifts + 4 * input as u64) }
            };
            offsets[part] = place + shape.pitch() * (p.largest - shift);
        }
        let bits = 32 / PARTS as u32;
        let mask = u32::MAX >> (32 - bits);
        let mut time = thread() / shape.words;
        while time < times {
            let mut value = 0;
            for part in 0..PARTS {
                // SAFETY: within the strip, stored before the barrier.
                let word = unsafe { load_shared(offsets[part] + shape.pitch() * time) };
                value |= word & mask << (bits * part as u32);
            }
            let address = p.delayed + (first + time) as u64 * row_bytes + 4 * column as u64;
            // SAFETY: a word of an output time, this thread's alone.
            unsafe { store_global(address, value) };
            time += together;
        }
    }
}

/// One block's strip and times.
///
/// # Safety
/// As the kernels'.
#[inline(always)]
unsafe fn strips(p: &Shift, shape: Strip) {
    // SAFETY: the caller's promise.
    unsafe {
        match p.element {
            1 => strip::<4>(p, shape),
            2 => strip::<2>(p, shape),
            _ => strip::<1>(p, shape),
        }
    }
}

kernel! {
    /// Delays of samples with the inputs next to each other, whose times are whole words: strips of 128
    /// bytes.
    fn reorder_shift_wide_strips(p: Shift) {
        strips(&p, STRIP_WIDE)
    }
}

kernel! {
    /// The same in strips of 32 bytes.
    fn reorder_shift_narrow_strips(p: Shift) {
        strips(&p, STRIP_NARROW)
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
