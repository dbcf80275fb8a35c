//! Raw samples that later spectra need, in rows of an input each: those of the rows before that are still needed,
//! then new ones.
//!
//! Bound by memory.

use crate::{
    abi::channelise::Keep,
    isa::common::{block, blocks, load_global, load_global_8, store_global, thread, threads},
    tile::divisor,
};

kernel! {
    /// A thread makes a word: of one where it lies in one, else of bytes or of samples smaller than those.
    fn channelise_keep(p: Keep) {
        // Blocks of an input.
        let share = blocks() / divisor(p.inputs);
        let share = if share == 0 { 1 } else { share };
        let shift = p.bits.trailing_zeros();
        let mut input = block() / divisor(share);
        while input < p.inputs {
            let source = InputRow { p: &p, input, shift };
            let row = p.kept + input as u64 * p.kept_pitch;
            let mut word = (block() % divisor(share)) as u64 * threads() as u64 + thread() as u64;
            while word < p.kept_pitch / 4 {
                store_global(row + 4 * word, source.word(32 * word));
                word += share as u64 * threads() as u64;
            }
            input += blocks() / divisor(share);
        }
    }
}

/// Source of a row.
struct InputRow<'a> {
    p: &'a Keep,
    input: u32,
    /// Bits of a sample, as a power of two.
    shift: u32,
}

impl InputRow<'_> {
    /// Place of a bit of the row: address of a byte, and number of a bit in it.
    #[inline(always)]
    fn place(&self, bit: u64) -> (u64, u32) {
        let Self { p, input, shift } = *self;
        let (time, rest) = (bit >> shift, bit & ((1 << shift) - 1));
        let input = input as u64;
        let (from, index) = if time < p.common {
            (p.before + input * p.before_pitch, p.first + time)
        } else {
            let time = p.origin.wrapping_add(time - p.common);
            (p.samples, (input * p.input_stride).wrapping_add(time.wrapping_mul(p.time_stride)))
        };
        let bit = (index << shift) + rest;
        (from + bit / 8, bit as u32 % 8)
    }

    /// The word of the row that begins at a bit; zero past the last sample.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`Keep`], and `input` is below its inputs.
    /// - `begin` is a multiple of 32, and of a bit of the row.
    #[inline(always)]
    unsafe fn word(&self, begin: u64) -> u32 {
        let Self { p, shift, .. } = *self;
        let (first, last) = (begin >> shift, (begin + 31) >> shift);
        let (address, bit) = self.place(begin);
        let old = last < p.common;
        let new = first >= p.common && last < p.times && (p.time_stride == 1 || first == last);
        if (old || new) && bit == 0 && address.is_multiple_of(4) {
            // SAFETY: all its samples are there, one after the other.
            return unsafe { load_global(address) };
        }
        let step = if p.bits < 8 { p.bits } else { 8 };
        let (mut word, mut part) = (0, 0);
        while part < 32 {
            if (begin + part as u64) >> shift < p.times {
                let (address, bit) = self.place(begin + part as u64);
                // SAFETY: a byte of a sample that is there.
                let byte = unsafe { load_global_8(address) };
                word |= (byte >> bit & ((1 << step) - 1)) << part;
            }
            part += step;
        }
        word
    }
}
