//! Removal of the offsets that the packed correlators' unsigned codes add to the visibilities.
//!
//! A code is a value plus `o`: excess-8 for four bits. With the running sum `S = sum (re + im)` and
//! difference `D = sum (re - im)` of each input's codes over `T` times, the visibilities of the values
//! equal the visibilities of the codes plus
//!
//! ```text
//! real:      -o (S_i + S_j) + 2 o^2 T
//! imaginary:  o (D_i - D_j)
//! ```
//!
//! (Klages et al., "GPU Kernels for High-Speed 4-Bit Astrophysical Data Processing", eq. 3, where
//! `o = 8`). Packing all of a complex product into one register takes the complement `m - im'` for
//! `-im'`, which adds `m sum im_i` to the real and `-m sum re_i` to the imaginary part.
//!
//! Bound by memory: samples are read once for their sums, visibilities written once.

use crate::{
    abi::correlate::{Offset, RunningSums, mode},
    isa::common::{
        add_global_64, block, blocks, dp4a, lane, load_global_2, load_global_4, read_global_2,
        shfl_xor, store_global_2, thread, threads,
    },
    tile::divisor,
};

/// Sum over the warp.
#[inline(always)]
fn warp_sum(value: i32) -> u32 {
    let mut sum = value as u32;
    sum = sum.wrapping_add(shfl_xor::<16>(sum));
    sum = sum.wrapping_add(shfl_xor::<8>(sum));
    sum = sum.wrapping_add(shfl_xor::<4>(sum));
    sum = sum.wrapping_add(shfl_xor::<2>(sum));
    sum.wrapping_add(shfl_xor::<1>(sum))
}

kernel! {
    /// `S` and `D` of every row of native int8 samples; one warp takes a row. Counts the words that
    /// hold a value of more bits.
    fn correlate_running_sums(p: RunningSums) {
        const ONES: u32 = 0x0101_0101;
        let offset = 1 << (p.bits - 1);
        let (flip, mask) = (offset * ONES, (2 * offset - 1) * ONES);
        // The bits of a byte that are its sign.
        let signs = 0x100 - offset;
        let warps = threads() / 32;
        let mut row = block() * warps + thread() / 32;
        while row < p.rows {
            let samples = p.samples + row as u64 * p.row_stride;
            let (mut sum, mut difference, mut beyond) = (0, 0, 0);
            let mut byte = 16 * lane();
            while byte < p.row_bytes {
                let words = load_global_4(samples + byte as u64);
                for word in 0..4 {
                    let codes = (words[word] ^ flip) & mask;
                    sum = dp4a(codes, ONES, sum);
                    difference = dp4a(codes, 0xff01_ff01, difference);
                    let extended = (words[word] >> 7 & ONES) * signs;
                    beyond += (words[word] & (signs * ONES) != extended) as i32;
                }
                byte += 16 * 32;
            }
            let (sum, difference, beyond) =
                (warp_sum(sum), warp_sum(difference), warp_sum(beyond));
            if lane() == 0 {
                store_global_2(p.sums + 8 * row as u64, [sum, difference]);
                if beyond > 0 {
                    add_global_64(p.beyond, beyond as u64);
                }
            }
            row += blocks() * warps;
        }
    }
}

kernel! {
    /// `S` and `D` of every row of codes in words; one warp takes a row.
    fn correlate_word_sums(p: RunningSums) {
        let bits = divisor(p.bits);
        let mask = (1 << p.bits) - 1;
        let warps = threads() / 32;
        let mut row = block() * warps + thread() / 32;
        while row < p.rows {
            let samples = p.samples + row as u64 * p.row_stride;
            let (mut reals, mut imaginaries) = (0_u32, 0_u32);
            let mut byte = 8 * lane();
            while byte < p.row_bytes {
                let [mut real, mut imaginary] = load_global_2(samples + byte as u64);
                let mut code = 0;
                while code < 32 / bits {
                    reals += real & mask;
                    imaginaries += imaginary & mask;
                    real >>= p.bits;
                    imaginary >>= p.bits;
                    code += 1;
                }
                byte += 8 * 32;
            }
            let (reals, imaginaries) = (warp_sum(reals as i32), warp_sum(imaginaries as i32));
            if lane() == 0 {
                let sums = [reals.wrapping_add(imaginaries), reals.wrapping_sub(imaginaries)];
                store_global_2(p.sums + 8 * row as u64, sums);
            }
            row += blocks() * warps;
        }
    }
}

kernel! {
    /// Seeds the visibilities with the correction, or adds it to them. The blocks share the rows of the
    /// triangles.
    fn correlate_offset(p: Offset) {
        let offset = 1_u32 << (p.bits - 1);
        let complement = if p.complement == 0 { 0 } else { 2 * offset - 1 };
        let constant = (2 * offset * offset).wrapping_mul(p.times);
        let inputs = divisor(p.inputs);
        let mut row = block();
        while row < p.channels * p.inputs {
            let (channel, i) = ((row / inputs) as u64, row % inputs);
            let sums = p.sums + 8 * channel * p.inputs as u64;
            let [sum, difference] = load_global_2(sums + 8 * i as u64);
            // Twice the real and imaginary sums are even numbers.
            let real = sum.wrapping_add(difference) >> 1;
            let imaginary = sum.wrapping_sub(difference) >> 1;
            let real_part = constant
                .wrapping_sub(offset.wrapping_mul(sum))
                .wrapping_add(complement.wrapping_mul(imaginary));
            let imaginary_part = offset
                .wrapping_mul(difference)
                .wrapping_sub(complement.wrapping_mul(real));
            let visibilities = p.visibilities
                + 8 * (channel * super::triangle::baselines(p.inputs)
                    + super::triangle::baseline(i, 0));
            let mut j = thread();
            while j <= i {
                let [sum, difference] = load_global_2(sums + 8 * j as u64);
                let mut seed = [
                    real_part.wrapping_sub(offset.wrapping_mul(sum)),
                    imaginary_part.wrapping_sub(offset.wrapping_mul(difference)),
                ];
                let address = visibilities + 8 * j as u64;
                if p.mode == mode::ADD {
                    let before = read_global_2(address);
                    seed = [before[0].wrapping_add(seed[0]), before[1].wrapping_add(seed[1])];
                }
                store_global_2(address, seed);
                j += threads();
            }
            row += blocks();
        }
    }
}
