//! 32-bit sums added to 64-bit ones, before the former can overflow or are rounded too often.
//!
//! Bound by memory: 20 bytes read and written for each value.

use crate::{
    abi::correlate::{WIDEN_BASELINES, Widen, WidenBits, mode},
    correlate::triangle,
    isa::common::{
        block, load_global, read_global_2, read_global_64, store_global_2, store_global_64, thread,
        threads,
    },
    tile::divisor,
};

/// Calls `work` with the channel, the baseline and its place among all channels', for those of the block's chunk
/// that are the thread's.
#[inline(always)]
fn each_visibility(inputs: u32, mut work: impl FnMut(u64, u32, u64)) {
    let baselines = triangle::baselines(inputs) as u32;
    let chunks = divisor(baselines.div_ceil(WIDEN_BASELINES));
    let channel = (block() / chunks) as u64;
    let first = block() % chunks * WIDEN_BASELINES;
    let mut baseline = first + thread();
    while baseline < baselines && baseline < first + WIDEN_BASELINES {
        work(channel, baseline, channel * baselines as u64 + baseline as u64);
        baseline += threads();
    }
}

/// Adds to the 64-bit sums of a visibility at `total`, or overwrites them in [`mode::STORE`].
///
/// # Safety
/// - `total` is a multiple of 8, and its 16 bytes lie in device memory, written before the launch unless the mode is
///   [`mode::STORE`].
/// - No other thread of the grid uses them.
#[inline(always)]
unsafe fn add_integers(total: u64, way: u32, sums: [i64; 2]) {
    for component in 0..2 {
        let address = total + 8 * component as u64;
        // SAFETY: two aligned sums, this thread's.
        unsafe {
            let before = if way == mode::STORE { 0 } else { read_global_64(address) };
            store_global_64(address, before.wrapping_add(sums[component] as u64));
        }
    }
}

kernel! {
    /// `total += partial`, or `total = partial` in [`mode::STORE`], the imaginary parts put right by the
    /// sum of their column; one visibility a thread and step.
    fn correlate_widen(p: Widen) {
        each_visibility(p.inputs, |channel, baseline, visibility| {
            let mut sums = read_global_2(p.partial + 8 * visibility).map(|sum| sum as i32 as i64);
            if p.row_sums != 0 {
                let column = triangle::tile(baseline).column;
                let sum = p.row_sums + 4 * (channel * p.inputs as u64 + column as u64);
                sums[1] += load_global(sum) as i32 as i64;
            }
            add_integers(p.total + 16 * visibility, p.mode, sums);
        });
    }
}

kernel! {
    /// The same of floating numbers, single precision added to double precision; or these rounded to single precision,
    /// in [`mode::ROUND`].
    fn correlate_widen_f32(p: Widen) {
        each_visibility(p.inputs, |_, _, visibility| {
            let (partial, total) = (p.partial + 8 * visibility, p.total + 16 * visibility);
            let mut before = [0.0; 2];
            if p.mode != mode::STORE {
                before = [total, total + 8].map(|address| f64::from_bits(read_global_64(address)));
            }
            if p.mode == mode::ROUND {
                store_global_2(partial, before.map(|sum| (sum as f32).to_bits()));
            } else {
                let sums = read_global_2(partial).map(|sum| f32::from_bits(sum) as f64);
                store_global_64(total, (before[0] + sums[0]).to_bits());
                store_global_64(total + 8, (before[1] + sums[1]).to_bits());
            }
        });
    }
}

kernel! {
    /// The same of bits: what their sums of ones are as sums of +-1. With `D(p) = S(p, p)` of a plane's own ones, which
    /// its autocorrelation has, and `T` times
    ///
    /// ```text
    /// re V(p, q) = 2 T - 2 re D(p) - 2 re D(q) + 4 re S(p, q)
    /// im V(p, q) = 2 re D(p) - 4 im D(p) - 2 re D(q) + 4 im S(p, q)
    /// ```
    ///
    /// A plane is an input, or two are: `V(i, j) = 4 V(2i, 2j) + 2 V(2i, 2j+1) + 2 V(2i+1, 2j) + V(2i+1, 2j+1)`.
    fn correlate_widen_bits(p: WidenBits) {
        let of_channel = triangle::baselines(p.planes * p.inputs);
        let ones = |channel: u64, row: u32, column: u32| {
            let place = channel * of_channel + triangle::baseline(row, column);
            read_global_2(p.partial + 8 * place).map(|ones| ones as i64)
        };
        let of_planes = |channel: u64, row: u32, column: u32| {
            let (of_row, of_column) = (ones(channel, row, row), ones(channel, column, column));
            let both = ones(channel, row, column);
            [
                2 * (p.times as i64 - of_row[0] - of_column[0]) + 4 * both[0],
                2 * (of_row[0] - of_column[0]) + 4 * (both[1] - of_row[1]),
            ]
        };
        each_visibility(p.inputs, |channel, baseline, visibility| {
            let triangle::TilePlace { row, column } = triangle::tile(baseline);
            let planes = |row, column| of_planes(channel, row, column);
            let mut sums = planes(p.planes * row, p.planes * column);
            if p.planes == 2 {
                let left = planes(2 * row + 1, 2 * column);
                // A visibility right of the diagonal is the conjugate of the one left of it.
                let right = match row == column {
                    true => [left[0], -left[1]],
                    false => planes(2 * row, 2 * column + 1),
                };
                let last = planes(2 * row + 1, 2 * column + 1);
                for component in 0..2 {
                    sums[component] =
                        4 * sums[component] + 2 * (left[component] + right[component]) + last[component];
                }
            }
            add_integers(p.total + 16 * visibility, p.mode, sums);
        });
    }
}
