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
//! Bound by memory: each sample read once and written once. Time-contiguous rows move by whole words
//! of two aligned ones. Of samples with the inputs next to each other, a block takes strips of 32 bytes,
//! [`STRIP_ROWS`] times of them, through shared memory, as a sector of 32 bytes holds inputs that go to
//! different times; it reads the times of the largest shift once more. [`reorder_shift_elements`]
//! reads a sector for each sample instead, and knows no largest shift.

use core::num::NonZeroU64;

use crate::{
    abi::reorder::{SHIFT_ROWS, STRIP_PITCH, STRIP_ROWS, Shift},
    isa::common::{
        barrier, block, blocks, dynamic_shared, load_global, load_global_8, load_shared,
        store_global, store_global_8, store_shared, thread, threads,
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

/// Four bytes at any address, from the aligned words that hold them.
///
/// # Safety
/// Both words are readable.
#[inline(always)]
unsafe fn unaligned(address: u64) -> u32 {
    let (base, bits) = (address & !3, 8 * (address as u32 & 3));
    // SAFETY: the caller's promise.
    let (low, high) = unsafe { (load_global(base), load_global(base + 4)) };
    ((low as u64 | (high as u64) << 32) >> bits) as u32
}

kernel! {
    /// Delays of time-contiguous rows, four words a thread of 4096 bytes a block.
    fn reorder_shift_rows(p: Shift) {
        const WORDS: u32 = 4;
        const THREADS: u32 = SHIFT_ROWS.entry.threads;
        let out_bytes = p.out_times * p.element;
        let history_bytes = (p.history_times * p.element) as u64;
        let block_bytes = (p.times * p.element) as u64;
        let rows = p.channels as u64 * p.inputs as u64;
        let end = p.block + rows * block_bytes;
        let inputs = NonZeroU64::from(divisor(p.inputs));
        let pieces = NonZeroU64::from(divisor(out_bytes.div_ceil(4 * WORDS * THREADS)));
        let mut index = block() as u64;
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
            // Words of the output are aligned from here on; the row has one to three bytes before.
            let lead = 3 & out.wrapping_neg() as u32;
            for k in 0..WORDS {
                let word = (WORDS * piece + k) * threads() + thread();
                let at = lead + 4 * word;
                let source = row.block + from + at as u64 - history_bytes;
                if from + at as u64 >= history_bytes
                    && at + 4 <= out_bytes
                    && source & !3 >= p.block
                    && (source & !3) + 8 <= end
                {
                    store_global(out + at as u64, unaligned(source));
                } else {
                    for byte in 0..4 {
                        if at + byte < out_bytes {
                            let value = row.byte(from + (at + byte) as u64);
                            store_global_8(out + (at + byte) as u64, value);
                        }
                    }
                }
                if word == 0 {
                    for byte in 0..3 {
                        if byte < lead && byte < out_bytes {
                            store_global_8(out + byte as u64, row.byte(from + byte as u64));
                        }
                    }
                }
            }
            index += blocks() as u64;
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
unsafe fn strip<const PARTS: usize>(p: &Shift) {
    const LOADS: u32 = 8;
    let row_words = p.channels * p.inputs / PARTS as u32;
    let row_bytes = 4 * row_words as u64;
    let strips = divisor(row_words.div_ceil(8));
    let tile = STRIP_ROWS - p.largest;
    let first = block() / strips * tile;
    let left = p.out_times - first;
    let times = if left < tile { left } else { tile };
    let (word, mut row) = (thread() % 8, thread() / 8);
    let column = block() % strips * 8 + word;
    let place = dynamic_shared() + 4 * word;
    let rows = times + p.largest;
    let window = p.first + first - p.largest;
    let inside = column < row_words;

    while row < rows {
        let mut words = [0; LOADS as usize];
        for k in 0..LOADS {
            let time = row + k * (threads() / 8);
            if inside && time < rows {
                let address = time_row(p, window + time, row_bytes) + 4 * column as u64;
                // SAFETY: a word of a time of the window.
                words[k as usize] = unsafe { load_global(address) };
            }
        }
        for k in 0..LOADS {
            let time = row + k * (threads() / 8);
            if time < rows {
                // SAFETY: within the strip.
                unsafe { store_shared(place + STRIP_PITCH * time, words[k as usize]) };
            }
        }
        row += LOADS * (threads() / 8);
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
            offsets[part] = place + STRIP_PITCH * (p.largest - shift);
        }
        let bits = 32 / PARTS as u32;
        let mask = u32::MAX >> (32 - bits);
        let mut time = thread() / 8;
        while time < times {
            let mut value = 0;
            for part in 0..PARTS {
                // SAFETY: within the strip, stored before the barrier.
                let word = unsafe { load_shared(offsets[part] + STRIP_PITCH * time) };
                value |= word & mask << (bits * part as u32);
            }
            let address = p.delayed + (first + time) as u64 * row_bytes + 4 * column as u64;
            // SAFETY: a word of an output time, this thread's alone.
            unsafe { store_global(address, value) };
            time += threads() / 8;
        }
    }
}

kernel! {
    /// Delays of samples with the inputs next to each other, whose times are whole words.
    fn reorder_shift_strips(p: Shift) {
        match p.element {
            1 => strip::<4>(&p),
            2 => strip::<2>(&p),
            _ => strip::<1>(&p),
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
