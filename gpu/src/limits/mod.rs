//! Kernels that measure what a GPU can do.
//!
//! Each repeats one instruction on operands that it was given, in as many independent chains as keep
//! the pipeline full, and stores what came out: a host that computes the same knows that every
//! operation was done. Operands are random bits, as power, and with it the clock, depend on them.
//!
//! | file | instruction |
//! |---|---|
//! | [`chain`] | `dp4a`, 32-bit integer multiply-add, `shfl.sync` |
//! | [`mma`] | `mma.sync`: int8, int4, half precision, single bits |
//! | [`wgmma`] | `wgmma`: int8, half precision, single bits (sm_90a) |
//! | [`memory`] | device memory copied, shared memory read |

#[cfg(not(corrust_target = "sm_90a"))]
pub mod chain;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod memory;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod mma;
#[cfg(not(corrust_target = "sm_80"))]
pub mod wgmma;

use crate::isa::common::{block, store_global_4, thread, threads};

/// Stores the `WORDS` results of the calling thread.
///
/// # Safety
/// - `results` is device memory of `4 WORDS` bytes for each thread of the grid, at a multiple of 16.
/// - `WORDS` is a multiple of 4.
/// - Nobody else writes the calling thread's results.
#[inline(always)]
unsafe fn store<const WORDS: usize>(results: u64, words: &[u32; WORDS]) {
    let thread = block() as u64 * threads() as u64 + thread() as u64;
    let to = results + thread * (4 * WORDS) as u64;
    for quad in 0..WORDS / 4 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|word| words[4 * quad + word]);
        // SAFETY: 16 aligned bytes of the thread's own results.
        unsafe { store_global_4(to + 16 * quad as u64, [a, b, c, d]) };
    }
}
