//! 32-bit sums added to 64-bit ones, before the former can overflow.
//!
//! Bound by memory: 20 bytes read and written for each value.

use crate::{
    abi::correlate::{Widen, mode},
    isa::common::{block, blocks, read_global_2, read_global_64, store_global_64, thread, threads},
};

kernel! {
    /// `total += partial`, or `total = partial` in [`mode::STORE`]; two values (one visibility) a
    /// step.
    fn correlate_widen(p: Widen) {
        let step = blocks() as u64 * threads() as u64;
        let mut pair = block() as u64 * threads() as u64 + thread() as u64;
        while pair < p.values / 2 {
            let partial = read_global_2(p.partial + 8 * pair);
            let total = p.total + 16 * pair;
            let mut component = 0;
            while component < 2 {
                let address = total + 8 * component as u64;
                let before = if p.mode == mode::STORE { 0 } else { read_global_64(address) };
                store_global_64(
                    address,
                    before.wrapping_add(partial[component] as i32 as i64 as u64),
                );
                component += 1;
            }
            pair += step;
        }
    }
}
