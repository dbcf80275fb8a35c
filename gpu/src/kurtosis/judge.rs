//! Judgement of blocks by their sums: with `S0` valid samples, mean power `p = S1 / S0`, and noise of that power with the mean
//! squared power `g(p)`, a block is flagged unless
//!
//! ```text
//! least <= (S2 / S0 - g(p)) / p^2 <= most
//! ```
//!
//! Limits and `g` come from tables by the power, limits also by the number of samples; both are interpolated. The host
//! does the same operations on f64 in the same order (`abi::kurtosis`), and flags the same blocks.
//!
//! The samples of a flagged cell become zero at once, in the order of the stream: work behind this launch finds them so, without
//! a list of them. Sums stay as they were, so that cells may be judged again.
//!
//! The host makes limits as they are needed. A thread that needs one which is not there marks it, and flags nothing; the host makes
//! it, and has all judged again.
//!
//! Bound by latency: a search in eight steps, then seven loads, most of them in caches, and four divisions. Of a flagged cell, a
//! word a step, which neighbours in `tcn` order store next to each other.

use core::{mem::offset_of, num::NonZeroU64};

use crate::{
    abi::kurtosis::{
        FEWEST_SAMPLES, JudgeCells, LEVELS, Level, LimitRows, Limits, UNKNOWN, between, statistic,
    },
    isa::common::{
        block, blocks, opaque, read_global, read_global_64, store_global, store_global_4,
        store_global_8, store_global_16, thread, threads,
    },
    kurtosis::moments::split,
    tile::divisor,
};

kernel! {
    /// Judges every cell, and clears flagged ones.
    fn kurtosis_judge(p: JudgeCells) {
        let inputs = NonZeroU64::from(divisor(p.inputs));
        let channels = NonZeroU64::from(divisor(p.channels));
        let last = p.cells - channels.get() * inputs.get();
        let mut cell = block() as u64 * threads() as u64 + thread() as u64;
        while cell < p.cells {
            let (row, input) = split(cell, inputs, p.cells);
            let (of_times, channel) = split(row, channels, p.cells);
            let class = match p.classes {
                0 => (cell >= last) as u32,
                classes => read_global(classes + 4 * cell),
            };
            let kind = read_global(p.kinds + 4 * channel);
            let rows = limit_rows(p.rows, kind * p.of_kind + class);
            let [sum, squares] = [0, 8].map(|of| read_global_64(p.sums + 16 * cell + of));
            let levels = place::<Level>(p.levels, kind * LEVELS);
            let flag = rows.samples >= FEWEST_SAMPLES as f64
                && sum > 0
                && is_flagged(&p, &rows, levels, sum as f64, squares as f64);
            store_global_8(p.flags + cell, flag as u32);
            if flag {
                let first = p.samples
                    + of_times * p.block_stride
                    + channel * p.channel_stride
                    + input * p.input_stride;
                clear(&p, first, if cell >= last { p.last_words } else { p.block_words });
            }
            cell += blocks() as u64 * threads() as u64;
        }
    }
}

/// Gives the words of a cell, from its first on, the value zero.
///
/// # Safety
/// - The cell is one of the launch, and no other thread uses its samples.
#[inline(always)]
unsafe fn clear(p: &JudgeCells, first: u64, words: u32) {
    let zeros = p.zero * 0x0101_0101;
    // SAFETY: words of the cell, at multiples of their size.
    unsafe {
        match p.word {
            16 => each(p, first, words, |to| store_global_4(to, [zeros; 4])),
            4 => each(p, first, words, |to| store_global(to, zeros)),
            2 => each(p, first, words, |to| store_global_16(to, zeros as u16)),
            _ => each(p, first, words, |to| store_global_8(to, p.zero)),
        }
    }
}

/// Calls `store` with the address of each word of a cell.
#[inline(always)]
fn each(p: &JudgeCells, first: u64, words: u32, store: impl Fn(u64)) {
    let (mut address, mut left) = (first, words);
    while left > 0 {
        store(address);
        address += p.word_stride;
        // A count that the compiler does not know: it repeats no body, for which registers would not do.
        left = opaque(left) - 1;
    }
}

/// Address of an entry of a table.
#[inline(always)]
fn place<T>(table: u64, entry: u32) -> u64 {
    table + size_of::<T>() as u64 * entry as u64
}

/// An f64 in memory.
///
/// # Safety
/// - As for [`read_global_64`].
#[inline(always)]
unsafe fn read(address: u64) -> f64 {
    // SAFETY: as the caller has it.
    f64::from_bits(unsafe { read_global_64(address) })
}

/// An entry of a table of rows.
///
/// # Safety
/// - `table` is the address of the rows of the launch, and `entry` one of them.
#[inline(always)]
unsafe fn limit_rows(table: u64, entry: u32) -> LimitRows {
    let address = place::<LimitRows>(table, entry);
    // SAFETY: the entry is there.
    unsafe {
        LimitRows {
            samples: read(address + offset_of!(LimitRows, samples) as u64),
            beside: read(address + offset_of!(LimitRows, beside) as u64),
            row: read_global(address + offset_of!(LimitRows, row) as u64),
            next: read_global(address + offset_of!(LimitRows, next) as u64),
        }
    }
}

/// Whether a block with these sums is flagged; of unknown limits it is not.
///
/// # Safety
/// - `levels` is the address of a table of the launch, in whose tables the rows are.
#[inline(always)]
unsafe fn is_flagged(
    p: &JudgeCells,
    rows: &LimitRows,
    levels: u64,
    sum: f64,
    squares: f64,
) -> bool {
    let power = sum / rows.samples;
    // SAFETY: entries of the tables.
    unsafe {
        let entry = entry_below(levels, power);
        let [a, b] = [entry, entry + 1].map(|entry| level(levels, entry));
        let part = a.part(b, power);
        let statistic = statistic(rows.samples, squares, a.square(b, part), power);
        let mut known = true;
        let mut limits = limits_between(p, rows.row, entry, part, &mut known);
        if rows.next != rows.row {
            let more = limits_between(p, rows.next, entry, part, &mut known);
            limits = [0, 1].map(|of| between(limits[of], more[of], rows.beside));
        }
        known && !(limits[0] <= statistic && statistic <= limits[1])
    }
}

/// The entry before the first, but for entry 0, whose power is not below `power`, or before the last.
///
/// # Safety
/// - `levels` is the address of a table of the launch.
#[inline(always)]
unsafe fn entry_below(levels: u64, power: f64) -> u32 {
    let (mut low, mut high) = (1, LEVELS - 1);
    while low < high {
        let middle = (low + high) / 2;
        let of_middle = place::<Level>(levels, middle) + offset_of!(Level, power) as u64;
        // SAFETY: an entry of the table.
        if unsafe { read(of_middle) } < power {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low - 1
}

/// An entry of a table.
///
/// # Safety
/// - `levels` is the address of a table of the launch, and `entry` below [`LEVELS`].
#[inline(always)]
unsafe fn level(levels: u64, entry: u32) -> Level {
    let address = place::<Level>(levels, entry);
    // SAFETY: the entry is there.
    unsafe {
        Level {
            power: read(address + offset_of!(Level, power) as u64),
            square: read(address + offset_of!(Level, square) as u64),
            slope: read(address + offset_of!(Level, slope) as u64),
        }
    }
}

/// Limits between an entry of a row and the next. An unknown one is marked, and `known` becomes false.
///
/// # Safety
/// - `row` is one of the launch, and `entry` below the last of [`LEVELS`].
#[inline(always)]
unsafe fn limits_between(
    p: &JudgeCells,
    row: u32,
    entry: u32,
    part: f64,
    known: &mut bool,
) -> [f64; 2] {
    let first = row * LEVELS + entry;
    let [a, b] = [first, first + 1].map(|entry| {
        let address = place::<Limits>(p.limits, entry);
        // SAFETY: a pair of limits; threads that mark one store the same.
        unsafe {
            let least = read_global_64(address + offset_of!(Limits, least) as u64);
            if least == UNKNOWN {
                store_global_8(p.wanted + entry as u64, 1);
                *known = false;
            }
            [f64::from_bits(least), read(address + offset_of!(Limits, most) as u64)]
        }
    });
    [0, 1].map(|of| between(a[of], b[of], part))
}
