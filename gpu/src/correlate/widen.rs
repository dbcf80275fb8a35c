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

kernel! {
    /// `total += partial`, or `total = partial` in [`mode::STORE`], the imaginary parts put right by the
    /// sum of their column; one visibility a thread and step.
    fn correlate_widen(p: Widen) {
        let baselines = triangle::baselines(p.inputs) as u32;
        let chunks = divisor(baselines.div_ceil(WIDEN_BASELINES));
        let channel = (block() / chunks) as u64;
        let first = block() % chunks * WIDEN_BASELINES;
        let mut baseline = first + thread();
        while baseline < baselines && baseline < first + WIDEN_BASELINES {
            let visibility = channel * baselines as u64 + baseline as u64;
            let mut lacking = [0, 0];
            if p.row_sums != 0 {
                let column = triangle::tile(baseline).column;
                let sum = p.row_sums + 4 * (channel * p.inputs as u64 + column as u64);
                lacking[1] = load_global(sum) as i32 as i64;
            }
            let partial = read_global_2(p.partial + 8 * visibility);
            let total = p.total + 16 * visibility;
            for component in 0..2 {
                let address = total + 8 * component as u64;
                let before = if p.mode == mode::STORE { 0 } else { read_global_64(address) };
                let sum = partial[component] as i32 as i64 + lacking[component];
                store_global_64(address, before.wrapping_add(sum as u64));
            }
            baseline += threads();
        }
    }
}

kernel! {
    /// The same of floating numbers, single precision added to double precision; or these rounded to single precision,
    /// in [`mode::ROUND`].
    fn correlate_widen_f32(p: Widen) {
        let baselines = triangle::baselines(p.inputs) as u32;
        let chunks = divisor(baselines.div_ceil(WIDEN_BASELINES));
        let channel = (block() / chunks) as u64;
        let first = block() % chunks * WIDEN_BASELINES;
        let mut baseline = first + thread();
        while baseline < baselines && baseline < first + WIDEN_BASELINES {
            let visibility = channel * baselines as u64 + baseline as u64;
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
            baseline += threads();
        }
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
        let baselines = triangle::baselines(p.inputs) as u32;
        let chunks = divisor(baselines.div_ceil(WIDEN_BASELINES));
        let channel = (block() / chunks) as u64;
        let partial = p.partial + 8 * channel * triangle::baselines(p.planes * p.inputs);
        let first = block() % chunks * WIDEN_BASELINES;
        let ones = |row: u32, column: u32| {
            read_global_2(partial + 8 * triangle::baseline(row, column)).map(|ones| ones as i64)
        };
        let visibility = |row: u32, column: u32| {
            let (of_row, of_column) = (ones(row, row), ones(column, column));
            let both = ones(row, column);
            [
                2 * (p.times as i64 - of_row[0] - of_column[0]) + 4 * both[0],
                2 * (of_row[0] - of_column[0]) + 4 * (both[1] - of_row[1]),
            ]
        };
        let mut baseline = first + thread();
        while baseline < baselines && baseline < first + WIDEN_BASELINES {
            let triangle::TilePlace { row, column } = triangle::tile(baseline);
            let mut sums = visibility(p.planes * row, p.planes * column);
            if p.planes == 2 {
                let left = visibility(2 * row + 1, 2 * column);
                // What lies right of the diagonal is the conjugate of what lies left of it.
                let right = match row == column {
                    true => [left[0], -left[1]],
                    false => visibility(2 * row, 2 * column + 1),
                };
                let last = visibility(2 * row + 1, 2 * column + 1);
                for component in 0..2 {
                    sums[component] =
                        4 * sums[component] + 2 * (left[component] + right[component]) + last[component];
                }
            }
            let total = p.total + 16 * (channel * baselines as u64 + baseline as u64);
            for component in 0..2 {
                let address = total + 8 * component as u64;
                let before = if p.mode == mode::STORE { 0 } else { read_global_64(address) };
                store_global_64(address, before.wrapping_add(sums[component] as u64));
            }
            baseline += threads();
        }
    }
}
