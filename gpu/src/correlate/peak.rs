//! How many multiply-adds the arithmetic units do: the measure that packed kernels are held against.
//!
//! Klages et al., section IV, gives the packed correlator's speed as a ratio to what the same
//! multiply-adds would do with one product each. Each thread has 16 chains whose every step takes
//! the result of the one before, so that none can be left out or moved out of the loop.

use crate::{
    abi::correlate::{PEAK_CHAINS, PEAK_STEPS, Peak},
    isa::common::{block, dp4a, fma, mad, mad_wide, store_global, thread, threads},
};

/// The whole of a thread's work: `step` on every chain, [`PEAK_STEPS`] times a round.
///
/// # Safety
/// As the kernels'.
#[inline(always)]
unsafe fn chains<C: Copy>(
    p: &Peak,
    start: impl Fn(u32) -> C,
    step: impl Fn(C) -> C,
    fold: impl Fn(C) -> u32,
) {
    let place = block() * threads() + thread();
    let mut chain = [start(0); PEAK_CHAINS as usize];
    for number in 0..PEAK_CHAINS as usize {
        chain[number] = start(PEAK_CHAINS * place + number as u32);
    }
    let mut round = 0;
    while round < p.rounds {
        for _ in 0..PEAK_STEPS {
            for number in 0..PEAK_CHAINS as usize {
                chain[number] = step(chain[number]);
            }
        }
        round += 1;
    }
    let mut folded = 0;
    for number in 0..PEAK_CHAINS as usize {
        folded ^= fold(chain[number]);
    }
    // SAFETY: the caller's promise.
    unsafe { store_global(p.result + 4 * place as u64, folded) };
}

kernel! {
    /// 32-bit integer multiply-adds: `a = a * m + c`.
    fn correlate_peak_mad(p: Peak) {
        chains(&p, |number| number, |a| mad(a, p.multiplier, p.addend), |a| a)
    }
}

kernel! {
    /// 32 x 32 + 64-bit integer multiply-adds.
    fn correlate_peak_mad_wide(p: Peak) {
        chains(&p, |number| number as u64, |a| mad_wide(a as u32, p.multiplier, a), |a| {
            a as u32 ^ (a >> 32) as u32
        })
    }
}

kernel! {
    /// Single-precision multiply-adds.
    fn correlate_peak_fma(p: Peak) {
        let multiplier = f32::from_bits(p.multiplier);
        let addend = f32::from_bits(p.addend);
        chains(&p, |number| number as f32, |a| fma(a, multiplier, addend), |a| a.to_bits())
    }
}

kernel! {
    /// Dot products of four bytes: four multiply-adds each.
    fn correlate_peak_dp4a(p: Peak) {
        chains(&p, |number| number, |a| dp4a(a, p.multiplier, a as i32) as u32, |a| a)
    }
}
