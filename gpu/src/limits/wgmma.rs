//! `wgmma` on panels in shared memory: two warpgroups of 64 rows by 256 columns each.
//!
//! While one warpgroup waits for the last of its products, the other multiplies.
//!
//! Bound by the tensor cores, and on a GPU at its power limit by the power.

use super::store;
use crate::{
    abi::limits::{PANEL_ROW_BYTES, PANELS, Repeat},
    isa::{
        common::{barrier, dynamic_shared, load_global_4, opaque, store_shared_4, thread, threads},
        sm_90a::{
            fence_proxy_async, multiply_panels_b1, multiply_panels_f16, multiply_panels_s8, operand,
        },
    },
    tile::panel::{self, CHUNK, CHUNKS},
};

/// Repeats the products of the panels.
///
/// # Safety
/// As the kernels'; `multiply` adds the product of 64 rows and 256 columns.
#[inline(always)]
unsafe fn repeat(p: &Repeat, multiply: impl Fn(&mut [u32; 128], u64, u64)) {
    let (rows, columns) = PANELS;
    let shared = dynamic_shared();
    let mut chunk = thread();
    while chunk < (rows + columns) * CHUNKS {
        // SAFETY: the caller's promise; the panels fill the block's shared memory.
        unsafe {
            let bytes = load_global_4(p.operands + (chunk * CHUNK) as u64);
            store_shared_4(shared + panel::offset(chunk / CHUNKS, chunk % CHUNKS), bytes);
        }
        chunk += threads();
    }
    fence_proxy_async();
    barrier();
    let a = operand(shared + thread() / 128 * 64 * PANEL_ROW_BYTES);
    let b = operand(shared + rows * PANEL_ROW_BYTES);
    let mut sums = [0; 128];
    let mut left = p.rounds;
    while left > 0 {
        multiply(&mut sums, a, b);
        left = opaque(left - 1);
    }
    // SAFETY: the caller's promise.
    unsafe { store(p.results, &sums) };
}

kernel! {
    /// int8.
    fn limits_wgmma_s8(p: Repeat) {
        repeat(&p, |sums, a, b| multiply_panels_s8(sums, a, b))
    }
}

kernel! {
    /// Half precision.
    fn limits_wgmma_f16(p: Repeat) {
        repeat(&p, |sums, a, b| multiply_panels_f16(sums, a, b))
    }
}

kernel! {
    /// Single bits.
    fn limits_wgmma_b1(p: Repeat) {
        repeat(&p, |sums, a, b| multiply_panels_b1(sums, a, b))
    }
}
