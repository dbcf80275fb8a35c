//! `mma.sync` on fragments in registers.
//!
//! A warp multiplies every one of its row fragments by every one of its column fragments, over and
//! over, into sums of their own: as in a correlator whose panels never change.
//!
//! Bound by the tensor cores.

use super::store;
use crate::{
    abi::limits::{Repeat, STEPS, WARP_FRAGMENTS},
    isa::{
        common::{load_global_4, opaque, thread, threads},
        sm_80::{mma_m16n8k16_f16, mma_m16n8k32_s8, mma_m16n8k64_s4, mma_m16n8k256_b1},
    },
};

const ROWS: usize = WARP_FRAGMENTS.0 as usize;
const COLUMNS: usize = WARP_FRAGMENTS.1 as usize;

/// Repeats the products of all fragments.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Repeat`]: memory for
///   operands and results.
#[inline(always)]
unsafe fn repeat(p: &Repeat, mma: impl Fn(&mut [u32; 4], [u32; 4], [u32; 2])) {
    // SAFETY: operands of this thread, 16-byte aligned.
    let quad = |index: usize| unsafe {
        load_global_4(p.operands + 16 * (index as u32 * threads() + thread()) as u64)
    };
    let mut rows = [[0; 4]; ROWS];
    for row in 0..ROWS {
        rows[row] = quad(row);
    }
    let mut columns = [[0; 2]; COLUMNS];
    for pair in 0..COLUMNS / 2 {
        let [a, b, c, d] = quad(ROWS + pair);
        columns[2 * pair] = [a, b];
        columns[2 * pair + 1] = [c, d];
    }
    let mut sums = [[0; 4]; ROWS * COLUMNS];
    let mut left = p.rounds;
    while left > 0 {
        for _ in 0..STEPS {
            for row in 0..ROWS {
                for column in 0..COLUMNS {
                    mma(&mut sums[row * COLUMNS + column], rows[row], columns[column]);
                }
            }
        }
        left = opaque(left - 1);
    }
    let mut words = [0; 4 * ROWS * COLUMNS];
    for word in 0..words.len() {
        words[word] = sums[word / 4][word % 4];
    }
    // SAFETY: there is room for the results of every thread.
    unsafe { store(p.results, &words) };
}

kernel! {
    /// int8.
    fn limits_mma_s8(p: Repeat) {
        repeat(&p, mma_m16n8k32_s8)
    }
}

kernel! {
    /// int4: native before Hopper, emulated there.
    fn limits_mma_s4(p: Repeat) {
        repeat(&p, mma_m16n8k64_s4)
    }
}

kernel! {
    /// Half precision.
    fn limits_mma_f16(p: Repeat) {
        repeat(&p, mma_m16n8k16_f16)
    }
}

kernel! {
    /// Single bits.
    fn limits_mma_b1(p: Repeat) {
        repeat(&p, mma_m16n8k256_b1)
    }
}
