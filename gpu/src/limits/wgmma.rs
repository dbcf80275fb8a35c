//! `wgmma` on panels in shared memory: two warpgroups of 64 rows by 256 columns each.
//!
//! While one warpgroup waits for the last of its products, the other multiplies.
//!
//! Bound by the tensor cores, and on a GPU at its power limit by the power.

use super::store;
use crate::{
    abi::limits::{PANEL_ROW_BYTES, PANELS, Repeat, STEPS},
    isa::{
        common::{barrier, dynamic_shared, load_global_4, opaque, store_shared_4, thread, threads},
        sm_90a::{descriptor, descriptor_step, fence_proxy_async},
    },
    tile::panel::{self, CHUNK, CHUNKS},
};

/// Repeats the products of the panels.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Repeat`]: memory for
///   operands and results.
/// - The block's shared memory has the panels' bytes, all of them free.
/// - `multiply` adds the product of 64 rows and 256 columns, by their descriptors, and waits for it.
#[inline(always)]
unsafe fn repeat(p: &Repeat, multiply: impl Fn(&mut [u32; 128], u64, u64)) {
    let (rows, columns) = PANELS;
    let shared = dynamic_shared();
    let mut chunk = thread();
    while chunk < (rows + columns) * CHUNKS {
        // SAFETY: a chunk of the operands, and its place in the panels, this thread's.
        unsafe {
            let bytes = load_global_4(p.operands + (chunk * CHUNK) as u64);
            store_shared_4(shared + panel::offset(chunk / CHUNKS, chunk % CHUNKS), bytes);
        }
        chunk += threads();
    }
    fence_proxy_async();
    barrier();
    let a = descriptor(shared + thread() / 128 * 64 * PANEL_ROW_BYTES);
    let b = descriptor(shared + rows * PANEL_ROW_BYTES);
    let mut sums = [0; 128];
    let mut left = p.rounds;
    while left > 0 {
        multiply(&mut sums, a, b);
        left = opaque(left - 1);
    }
    // SAFETY: there is room for the results of every thread.
    unsafe { store(p.results, &sums) };
}

/// Text of the products over the four 32 bytes of a panel's rows.
macro_rules! multiply_rows {
    ($type:ident) => {
        concat!(
            multiply_rows!(@ $type, units_0), multiply_rows!(@ $type, units_1),
            multiply_rows!(@ $type, units_2), multiply_rows!(@ $type, units_3),
        )
    };
    (@ $type:ident, $units:ident) => {
        concat!(
            instruction!(add_64 "a", {a}, {$units}),
            instruction!(add_64 "b", {b}, {$units}),
            wgmma!($type, (0, 256), panel "a", "b", "accumulate"),
        )
    };
}

/// The kernels: a name, and the type of its operands. A round is [`STEPS`] products.
macro_rules! ceilings {
    ($($(#[$attribute:meta])* $name:ident: $type:ident;)*) => {$(
        kernel! {
            $(#[$attribute])*
            fn $name(p: Repeat) {
                repeat(&p, |sums, a, b| {
                    asm_scope! {
                        inout sums: (0, 256);
                        [
                            registers!(pred accumulate; b64 a b),
                            instruction!(setp_eq "accumulate", 0, 0),
                            wgmma_fence!(),
                            multiply_rows!($type),
                            multiply_rows!($type),
                            multiply_rows!($type),
                            multiply_rows!($type),
                            wgmma_commit!(),
                            wgmma_wait!(0),
                        ]
                        [
                            a = in(reg64) a,
                            b = in(reg64) b,
                        ]
                        [
                            units_0: 0,
                            units_1: descriptor_step(2 * CHUNK),
                            units_2: descriptor_step(4 * CHUNK),
                            units_3: descriptor_step(6 * CHUNK),
                        ]
                    }
                })
            }
        }
    )*};
}

// As many products as `multiply_rows` four times.
const _: () = assert!(STEPS == 16);

ceilings! {
    /// int8.
    limits_wgmma_s8: s8;
    /// Half precision.
    limits_wgmma_f16: f16;
    /// Single bits.
    limits_wgmma_b1: b1;
}
