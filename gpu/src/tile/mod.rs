//! Tiles: which lane holds what, where a row lies in shared memory, how stages go from role to role.

/// Straight code for `n` below a constant: a loop may stay one, and an index known only at run time would
/// put sums into local memory.
macro_rules! each {
    ($n:ident < $end:expr, $body:block) => {
        each!(@ $n, $end, $body, 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    // At most so many repetitions: the counts of nested loops multiply.
    ($n:ident < $end:expr, of 32 $body:block) => {
        each!(@ $n, $end, $body,
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
    ($n:ident < $end:expr, of 16 $body:block) => {
        each!(@ $n, $end, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($n:ident < $end:expr, of 8 $body:block) => {
        each!(@ $n, $end, $body, 0 1 2 3 4 5 6 7)
    };
    ($n:ident < $end:expr, of 4 $body:block) => {
        each!(@ $n, $end, $body, 0 1 2 3)
    };
    ($n:ident < $end:expr, of 2 $body:block) => {
        each!(@ $n, $end, $body, 0 1)
    };
    (@ $n:ident, $end:expr, $body:block, $($number:literal)*) => {$(
        {
            let $n: usize = $number;
            if $n < $end $body
        }
    )*};
}

/// `array.map(f)` of `length` elements, at most twelve, to elements of the same type or of the type of `zero`. LLVM 7
/// compiles core's `map` to copies through memory, byte by byte: with the feature `rust-cuda` this macro is straight-line
/// code instead.
#[cfg(not(feature = "rust-cuda"))]
macro_rules! map {
    ($array:expr, of $length:tt $(to $zero:expr)?, $f:expr) => {
        $array.map($f)
    };
}
#[cfg(feature = "rust-cuda")]
macro_rules! map {
    ($array:expr, of $length:tt, $f:expr) => {{
        let (mut array, f) = ($array, $f);
        each!(index < $length, {
            array[index] = f(array[index]);
        });
        array
    }};
    ($array:expr, of $length:tt to $zero:expr, $f:expr) => {{
        let (array, f) = ($array, $f);
        let mut mapped = [$zero; $length];
        each!(index < $length, {
            mapped[index] = f(array[index]);
        });
        mapped
    }};
}

/// A loop of `n`, of type `usize` if none is named, below a constant. LLVM 7 leaves it one where its body is long: with
/// the feature `rust-cuda` it is straight code.
#[cfg(not(feature = "rust-cuda"))]
macro_rules! unroll {
    ($n:ident $(as $type:ident)? < $end:expr, of $most:tt $body:block) => {
        for $n in 0..$end $body
    };
}
#[cfg(feature = "rust-cuda")]
macro_rules! unroll {
    ($n:ident $(as $type:ident)? < $end:expr, of $most:tt $body:block) => {
        each!(number < $end as usize, of $most {
            let $n = number $(as $type)?;
            $body
        })
    };
}

pub mod fragment;
pub mod panel;
#[cfg(not(corrust_target = "sm_80"))]
pub mod pipeline;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod ring;

use core::num::NonZeroU32;

/// A divisor: `a / divisor(b)` needs no check, as kernels cannot panic. A zero divides as one.
#[inline(always)]
pub fn divisor(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN)
}
