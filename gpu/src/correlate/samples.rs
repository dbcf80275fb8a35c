//! Arithmetic of the sample types, four bytes of an operand at a time.
//!
//! A matrix unit multiplies real numbers, so a row of samples is read as `a = (re, im, re, im, ...)`
//! and once more turned by a right angle, which makes the imaginary part (Romein, "The Tensor-Core
//! Correlator", section 2.1). int8 cannot hold the negation of -128: the complement `~x = -x - 1`
//! stands for it, and what that adds is taken out again with the sum of one component of the other
//! operand: exact for every byte.

use crate::isa::common::{dp4a, prmt};

/// One sample type on the matrix units.
pub trait Samples {
    /// Whether turning needs putting right by sums.
    const SUMS: bool;
    /// `(re, im) -> (-im, re)` of a column operand: with the row operand `a`,
    /// `a . turned = imaginary - SUMS * sum re`.
    fn turn_column(b: u32) -> u32;
    /// `(re, im) -> (im, -re)` of a row operand: with the column operand `b`,
    /// `turned . b = imaginary - SUMS * sum im`.
    fn turn_row(a: u32) -> u32;
    /// `sum` plus the real parts in a word.
    fn sum_real(sum: i32, word: u32) -> i32;
    /// `sum` plus the imaginary parts in a word.
    fn sum_imaginary(sum: i32, word: u32) -> i32;
    /// The imaginary part from a product with a turned operand and the sum that it needs.
    fn finish(imaginary: u32, sum: i32) -> u32;
    /// `a + b` of two accumulators.
    fn add(a: u32, b: u32) -> u32;
}

/// `ci8`: pairs of int8, summed in 32 bits.
pub struct Int8;

impl Samples for Int8 {
    const SUMS: bool = true;

    #[inline(always)]
    fn turn_column(b: u32) -> u32 {
        prmt::<0x2301>(b, b) ^ 0x00ff_00ff
    }

    #[inline(always)]
    fn turn_row(a: u32) -> u32 {
        prmt::<0x2301>(a, a) ^ 0xff00_ff00
    }

    #[inline(always)]
    fn sum_real(sum: i32, word: u32) -> i32 {
        dp4a(word, 0x0001_0001, sum)
    }

    #[inline(always)]
    fn sum_imaginary(sum: i32, word: u32) -> i32 {
        dp4a(word, 0x0100_0100, sum)
    }

    #[inline(always)]
    fn finish(imaginary: u32, sum: i32) -> u32 {
        imaginary.wrapping_add(sum as u32)
    }

    #[inline(always)]
    fn add(a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
}

/// `cf16`: pairs of half-precision numbers, summed in single precision.
pub struct Half;

impl Samples for Half {
    const SUMS: bool = false;

    #[inline(always)]
    fn turn_column(b: u32) -> u32 {
        b.rotate_left(16) ^ 0x0000_8000
    }

    #[inline(always)]
    fn turn_row(a: u32) -> u32 {
        a.rotate_left(16) ^ 0x8000_0000
    }

    #[inline(always)]
    fn sum_real(sum: i32, _word: u32) -> i32 {
        sum
    }

    #[inline(always)]
    fn sum_imaginary(sum: i32, _word: u32) -> i32 {
        sum
    }

    #[inline(always)]
    fn finish(imaginary: u32, _sum: i32) -> u32 {
        imaginary
    }

    #[inline(always)]
    fn add(a: u32, b: u32) -> u32 {
        (f32::from_bits(a) + f32::from_bits(b)).to_bits()
    }
}
