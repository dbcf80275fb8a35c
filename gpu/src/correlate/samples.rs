//! Arithmetic of the sample types, four bytes of an operand at a time.
//!
//! A matrix unit multiplies real numbers, so a row of samples is read as `a = (re, im, re, im, ...)`
//! and once more rotated by -i, which makes the imaginary part (Romein, "The Tensor-Core
//! Correlator", section 2.1). Integers of `n` bits cannot hold the negation of `-2^(n-1)`: the complement
//! `~x = -x - 1` stands for it, and what that adds is taken out again with the sum of one component of
//! the other operand: exact for every sample.

use crate::isa::common::{add_global, add_global_f32, lop3, prmt};

/// One sample type on the matrix units.
pub trait Samples {
    /// Whether rotated rows need a correction by sums.
    const SUMS: bool;
    /// A column operand of ones where samples have their imaginary parts.
    const IMAGINARY: u32;

    /// Whether sums are the same in any order.
    const COMMUTES: bool = true;

    /// Power of two by which samples are too large.
    const SCALE: u32 = 0;

    /// Samples as the matrix unit takes them.
    #[inline(always)]
    fn value(word: u32) -> u32 {
        word
    }

    /// Start of the sums of real parts: the negative of what `bytes` of zero bits after the last time add.
    #[inline(always)]
    fn start(_bytes: u32) -> u32 {
        0
    }

    /// `(re, im) -> (im, -re)` of a row operand: with the column operand `b`,
    /// `rotated . b = imaginary - SUMS * sum im'`.
    fn rotate_row(a: u32) -> u32;
    /// `a + b` of two accumulators.
    fn add(a: u32, b: u32) -> u32;

    /// Adds an accumulator to that in memory, in one piece.
    ///
    /// # Safety
    /// - `address` is a multiple of 4, and its 4 bytes lie in device memory that was written before.
    /// - The grid uses them by this function of one sample type only, until the launch has ended.
    #[inline(always)]
    unsafe fn add_global(address: u64, sum: u32) {
        // SAFETY: an aligned word that is only added to, by the conditions above.
        unsafe { add_global(address, sum) };
    }
}

/// `ci8`: pairs of int8, summed in 32 bits.
pub struct Int8;

impl Int8 {
    /// Selector of the `prmt` that has re and im change places.
    pub const SELECTOR: u32 = 0x2301;
    /// Mask that complements re, now in the place of im.
    pub const FLIP: u32 = 0xff00_ff00;
}

impl Samples for Int8 {
    const SUMS: bool = true;
    const IMAGINARY: u32 = 0x0100_0100;

    #[inline(always)]
    fn rotate_row(a: u32) -> u32 {
        prmt::<{ Self::SELECTOR }>(a, a) ^ Self::FLIP
    }

    #[inline(always)]
    fn add(a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
}

/// `ci4` as int8, 16 times as large: a nibble at the top of a byte needs no extension of its sign.
pub struct TopNibbles;

impl TopNibbles {
    /// Selector of the `prmt` that has re and im change places.
    pub const SELECTOR: u32 = Int8::SELECTOR;
    /// Mask that complements the nibble of re, now in the place of im.
    pub const FLIP: u32 = 0xf000_f000;
}

impl Samples for TopNibbles {
    const SUMS: bool = true;
    const IMAGINARY: u32 = Int8::IMAGINARY;
    const SCALE: u32 = 4;

    #[inline(always)]
    fn rotate_row(a: u32) -> u32 {
        prmt::<{ Self::SELECTOR }>(a, a) ^ Self::FLIP
    }

    #[inline(always)]
    fn add(a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
}

/// `ci4`, and `ci4-offset` if `OFFSET`: pairs of nibbles, the real part in the high one, summed in 32
/// bits.
pub struct Nibbles<const OFFSET: bool>;

impl<const OFFSET: bool> Samples for Nibbles<OFFSET> {
    const SUMS: bool = true;
    const IMAGINARY: u32 = 0x0101_0101;

    #[inline(always)]
    fn value(word: u32) -> u32 {
        if OFFSET { word ^ 0x8888_8888 } else { word }
    }

    #[inline(always)]
    fn start(bytes: u32) -> u32 {
        // -8 - 8i times its conjugate.
        if OFFSET { bytes.wrapping_mul(128).wrapping_neg() } else { 0 }
    }

    #[inline(always)]
    fn rotate_row(a: u32) -> u32 {
        // The complement of the low nibbles of a >> 4, and the high ones of a << 4.
        const TABLE: u32 = !0xf0 & 0xaa | 0xcc & !0xaa & 0xff;
        lop3::<TABLE>(a >> 4, a << 4, 0x0f0f_0f0f)
    }

    #[inline(always)]
    fn add(a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
}

/// `b1`: components +-1 as bits, 128 times of the real parts (16 bytes), then those of the imaginary parts. A
/// product is an AND, and a sum the number of ones; what a pair of sums of +-1 is made of them, `widen` knows.
pub struct Bits;

impl Bits {
    /// Selector of the `prmt` that leaves a word as it is: re and im change places as words.
    pub const SELECTOR: u32 = 0x3210;
    /// Mask that complements re, now in the place of im.
    pub const FLIP: u32 = u32::MAX;
}

impl Samples for Bits {
    const SUMS: bool = false;
    /// Ones of every second half word have no use here: the planes are apart.
    const IMAGINARY: u32 = u32::MAX;

    /// Complements a word of real parts, which takes the place of one of imaginary parts.
    #[inline(always)]
    fn rotate_row(a: u32) -> u32 {
        a ^ Self::FLIP
    }

    #[inline(always)]
    fn add(a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
}

/// `cf16`: pairs of half-precision numbers, summed in single precision.
pub struct Half;

impl Half {
    /// Selector of the `prmt` that has re and im change places.
    pub const SELECTOR: u32 = 0x1032;
    /// Mask that flips the sign of re, now in the place of im.
    pub const FLIP: u32 = 0x8000_0000;
}

impl Samples for Half {
    const SUMS: bool = false;
    const COMMUTES: bool = false;
    const IMAGINARY: u32 = 0x3c00_0000;

    #[inline(always)]
    fn rotate_row(a: u32) -> u32 {
        a.rotate_left(16) ^ Self::FLIP
    }

    #[inline(always)]
    fn add(a: u32, b: u32) -> u32 {
        (f32::from_bits(a) + f32::from_bits(b)).to_bits()
    }

    #[inline(always)]
    unsafe fn add_global(address: u64, sum: u32) {
        // SAFETY: an aligned word that is only added to, as the trait asks of its callers.
        unsafe { add_global_f32(address, f32::from_bits(sum)) };
    }
}
