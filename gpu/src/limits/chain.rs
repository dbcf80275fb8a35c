//! Instructions of single threads: chains `x += y a`, `y += x b`.
//!
//! The two words of a chain are factor and sum alternately, so that no product is ever asked for twice:
//! nothing can be computed once and kept. Of shuffles: `x` is what another lane has as `y`, then `y` what
//! another has as `x`.
//!
//! Bound by the instruction's rate.

use super::store;
use crate::{
    abi::limits::{CHAINS, ROTATED_LANES, Repeat, STEPS},
    isa::common::{dp4a, lane, load_global_4, mad, opaque, shfl, thread, threads},
};

/// Repeats the chains of `step(factor, constant, sum)`.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Repeat`]: memory for
///   operands and results.
#[inline(always)]
unsafe fn repeat(p: &Repeat, step: impl Fn(u32, u32, u32) -> u32) {
    const WORDS: usize = 2 * CHAINS as usize;
    // SAFETY: operands of this thread, 16-byte aligned.
    let quad = |index: u32| unsafe {
        load_global_4(p.operands + 16 * (index * threads() + thread()) as u64)
    };
    let [a, b, ..] = quad(0);
    let mut words = [0; WORDS];
    for index in 0..WORDS / 4 {
        let loaded = quad(1 + index as u32);
        for word in 0..4 {
            words[4 * index + word] = loaded[word];
        }
    }
    let mut left = p.rounds;
    while left > 0 {
        for _ in 0..STEPS {
            for chain in 0..WORDS / 2 {
                words[2 * chain] = step(words[2 * chain + 1], a, words[2 * chain]);
            }
            for chain in 0..WORDS / 2 {
                words[2 * chain + 1] = step(words[2 * chain], b, words[2 * chain + 1]);
            }
        }
        left = opaque(left - 1);
    }
    // SAFETY: there is room for the results of every thread.
    unsafe { store(p.results, &words) };
}

kernel! {
    /// `dp4a.s32.s32`.
    fn limits_dp4a(p: Repeat) {
        repeat(&p, |factor, constant, sum| dp4a(factor, constant, sum as i32) as u32)
    }
}

kernel! {
    /// `mad.lo.u32`.
    fn limits_multiply_add(p: Repeat) {
        repeat(&p, mad)
    }
}

kernel! {
    /// `shfl.sync.idx`: a rotation of all lanes but one.
    fn limits_shuffle(p: Repeat) {
        let last = ROTATED_LANES - 1;
        let source = if lane() < last { lane() + 1 } else { 0 };
        let source = if lane() > last { lane() } else { source };
        repeat(&p, |factor, _, _| shfl(factor, source))
    }
}
