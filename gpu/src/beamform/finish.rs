//! From the sums of a lane to stored samples: passes, bias, shift, clamp, store (sections 5 and 6 of
//! the note).

use crate::{
    abi::beamform::{Beamform, EXCESS, pass},
    isa::common::{
        add_global_64, lane, pack_u4, read_global_4, shfl_xor, store_global, store_global_2,
        store_global_4, store_global_8,
    },
};

/// Four samples in the making: sums over all dishes of four consecutive times of one beam,
/// `[time][part]`.
pub type Quad = [[i32; 2]; 4];

/// Brings sums from `1 << scale` times their size to their own, adds what earlier launches summed over
/// other dishes, and leaves the sum for later ones; `address` is that of the lane's four sums.
///
/// # Safety
/// No other thread uses them.
#[inline(always)]
pub unsafe fn add_passes(quad: &mut Quad, scale: u32, address: u64, pass: u32) {
    for half in 0..2 {
        let address = address + 16 * half as u64;
        let mut sums = [
            quad[2 * half][0] >> scale,
            quad[2 * half][1] >> scale,
            quad[2 * half + 1][0] >> scale,
            quad[2 * half + 1][1] >> scale,
        ];
        if pass & pass::ADD != 0 {
            // SAFETY: the caller's promise.
            let before = unsafe { read_global_4(address) };
            for word in 0..4 {
                sums[word] = sums[word].wrapping_add(before[word] as i32);
            }
        }
        if pass & pass::KEEP != 0 {
            // SAFETY: the caller's promise.
            unsafe { store_global_4(address, sums.map(|sum| sum as u32)) };
        }
        quad[2 * half] = [sums[0], sums[1]];
        quad[2 * half + 1] = [sums[2], sums[3]];
    }
}

/// Four `ci4` samples, the first in the lowest byte, and how many of them were clipped (eq. 25);
/// `beam` is a [`Beam`](crate::abi::beamform::Beam), of a launch with passes or without.
#[inline(always)]
pub fn quantise<const PASSES: bool>(quad: &Quad, beam: [u32; 4]) -> (u32, u32) {
    const MOST: i32 = 2 * EXCESS;
    let [real_bias, imaginary_bias, shift, _] = beam.map(|word| word as i32);
    let excess = if PASSES { EXCESS } else { 0 };
    let mut word = 0;
    let mut clipped = 0;
    for time in (0..4).rev() {
        // In excess of 7, where -7 to 7 are 0 to 14. Packing clamps what is below.
        let real = (quad[time][0].wrapping_add(real_bias) >> shift) + excess;
        let imaginary = (quad[time][1].wrapping_add(imaginary_bias) >> shift) + excess;
        clipped += (real as u32 > MOST as u32 || imaginary as u32 > MOST as u32) as u32;
        word = pack_u4(real.min(MOST), imaginary.min(MOST), word);
    }
    // No nibble is 15: one more carries nowhere, and in excess of 8 a nibble is its two's complement
    // with the sign flipped.
    (word.wrapping_add(0x1111_1111) ^ 0x8888_8888, clipped)
}

/// Writes a lane's samples of a unit, `WORDS` words from `time` on, to the row at `row`.
///
/// # Safety
/// The row has `times` bytes, and no other thread writes these.
#[inline(always)]
pub unsafe fn store<const WORDS: usize>(row: u64, time: u32, times: u32, words: &[u32; 4]) {
    let address = row + time as u64;
    let bytes = 4 * WORDS as u32;
    if time + bytes <= times && (address as u32).is_multiple_of(bytes) {
        // SAFETY: the caller's promise.
        unsafe {
            match WORDS {
                4 => store_global_4(address, *words),
                2 => store_global_2(address, [words[2], words[3]]),
                _ => store_global(address, words[3]),
            }
        }
    } else {
        for byte in 0..4 * WORDS {
            if time + (byte as u32) < times {
                let value = words[4 - WORDS + byte / 4] >> (8 * (byte % 4));
                // SAFETY: the caller's promise.
                unsafe { store_global_8(address + byte as u64, value) };
            }
        }
    }
}

/// Adds a lane's clipped samples to those of its beams in `stream`, and starts again from none.
///
/// # Safety
/// All lanes of the warp call it together.
#[inline(always)]
pub unsafe fn add_clipped<const LANE_BEAMS: usize>(
    p: &Beamform,
    stream: u32,
    clipped: &mut [u32; LANE_BEAMS],
    lane_beam: impl Fn(usize) -> u32,
) {
    for index in 0..LANE_BEAMS {
        // Four lanes share a beam.
        let mut count = clipped[index];
        count += shfl_xor::<1>(count);
        count += shfl_xor::<2>(count);
        let beam = lane_beam(index);
        if count > 0 && lane().is_multiple_of(4) && beam < p.beam_count {
            let place = stream as u64 * p.beam_count as u64 + beam as u64;
            // SAFETY: one of the counts.
            unsafe { add_global_64(p.clipped + 8 * place, count as u64) };
        }
        clipped[index] = 0;
    }
}
