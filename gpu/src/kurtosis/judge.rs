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
//! The host makes limits as they are needed. A thread that needs one which is not there marks it; the host makes it, and has all
//! judged again.
//!
//! Bound by latency: a search in eight steps, then seven loads, most of them in caches, and four divisions.

use core::num::NonZeroU64;

use crate::{
    abi::kurtosis::{FEWEST_SAMPLES, Judging, LEVELS, Level, UNKNOWN, between, statistic},
    isa::common::{block, blocks, read_global, read_global_64, store_global_8, thread, threads},
    kurtosis::moments::split,
    tile::divisor,
};

/// Bytes of a `Rule`, of a `Level`, and of a pair of limits.
const RULE: u64 = 24;
const LEVEL: u64 = 24;
const LIMITS: u64 = 16;

kernel! {
    /// Judges every cell.
    fn kurtosis_judge(p: Judging) {
        let inputs = NonZeroU64::from(divisor(p.inputs));
        let channels = NonZeroU64::from(divisor(p.channels));
        let last = p.cells - channels.get() * inputs.get();
        let mut cell = block() as u64 * threads() as u64 + thread() as u64;
        while cell < p.cells {
            let (_, channel) = split(split(cell, inputs, p.cells).0, channels, p.cells);
            let class = match p.classes {
                0 => (cell >= last) as u32,
                classes => read_global(classes + 4 * cell),
            };
            let kind = read_global(p.kinds + 4 * channel);
            let rule = Rule::read(p.rules + RULE * (kind * p.of_kind + class) as u64);
            let levels = p.levels + LEVEL * (kind * LEVELS) as u64;
            let [sum, squares] = [0, 8].map(|of| read_global_64(p.sums + 16 * cell + of));
            let flag = rule.samples >= FEWEST_SAMPLES as f64
                && sum > 0
                && rule.flags(&p, levels, sum as f64, squares as f64);
            store_global_8(p.flags + cell, flag as u32);
            cell += blocks() as u64 * threads() as u64;
        }
    }
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

/// Number of valid samples, and where its limits are.
struct Rule {
    samples: f64,
    beside: f64,
    row: u32,
    next: u32,
}

impl Rule {
    /// # Safety
    /// - `address` is that of a rule of the launch.
    #[inline(always)]
    unsafe fn read(address: u64) -> Self {
        // SAFETY: a rule is there.
        unsafe {
            Self {
                samples: read(address),
                beside: read(address + 8),
                row: read_global(address + 16),
                next: read_global(address + 20),
            }
        }
    }

    /// Whether a block with these sums is flagged.
    ///
    /// # Safety
    /// - `levels` is the address of a table of the launch, in whose tables the rows are.
    #[inline(always)]
    unsafe fn flags(&self, p: &Judging, levels: u64, sum: f64, squares: f64) -> bool {
        let power = sum / self.samples;
        // SAFETY: entries of the tables.
        unsafe {
            let entry = entry_below(levels, power);
            let [a, b] = [entry, entry + 1].map(|entry| level(levels, entry));
            let part = a.part(b, power);
            let statistic = statistic(self.samples, squares, a.square(b, part), power);
            let mut limits = row(p, self.row, entry, part);
            if self.next != self.row {
                let more = row(p, self.next, entry, part);
                limits = [0, 1].map(|of| between(limits[of], more[of], self.beside));
            }
            !(limits[0] <= statistic && statistic <= limits[1])
        }
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
        // SAFETY: an entry of the table; its power is its first field.
        if unsafe { read(levels + LEVEL * middle as u64) } < power {
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
    let address = levels + LEVEL * entry as u64;
    // SAFETY: the entry is there.
    let [power, square, slope] = [0, 8, 16].map(|of| unsafe { read(address + of) });
    Level { power, square, slope }
}

/// Limits between an entry of a row and the next; unknown ones are marked.
///
/// # Safety
/// - `row` is one of the launch, and `entry` below the last of [`LEVELS`].
#[inline(always)]
unsafe fn row(p: &Judging, row: u32, entry: u32, part: f64) -> [f64; 2] {
    let first = row as u64 * LEVELS as u64 + entry as u64;
    let [a, b] = [first, first + 1].map(|place| {
        let limits = p.limits + LIMITS * place;
        // SAFETY: a pair of limits; threads that mark one store the same.
        unsafe {
            let least = read_global_64(limits);
            if least == UNKNOWN {
                store_global_8(p.wanted + place, 1);
            }
            [f64::from_bits(least), read(limits + 8)]
        }
    });
    [0, 1].map(|of| between(a[of], b[of], part))
}
