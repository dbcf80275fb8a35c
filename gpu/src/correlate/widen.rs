//! 32-bit sums added to 64-bit ones, before the former can overflow.
//!
//! Bound by memory: 20 bytes read and written for each value.

use crate::{
    abi::correlate::{WIDEN_BASELINES, Widen, mode},
    correlate::triangle,
    isa::common::{
        block, load_global, read_global_2, read_global_64, store_global_64, thread, threads,
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
