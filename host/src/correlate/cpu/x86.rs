//! The multiply-adds of x86-64.

use std::{arch::x86_64::*, marker::PhantomData};

use super::{
    dot::{Dot, Work},
    format::{Bytes, Floats, Halves},
};

/// AVX2: sixteen products of `i16`, or eight of f32, per instruction.
pub(super) struct Avx2<F>(PhantomData<F>);

/// AVX-VNNI: thirty-two products of bytes per instruction, in registers of 256 bits.
pub(super) struct AvxVnni;

/// AVX-512: thirty-two products of `i16`, or sixteen of f32, per instruction.
pub(super) struct Avx512<F>(PhantomData<F>);

/// AVX-512 VNNI: sixty-four products of bytes per instruction.
pub(super) struct Avx512Vnni;

/// Implements [`Dot`] for `$name` with 256-bit registers.
macro_rules! dot_256 {
    ($name:ty, $format:ty, $features:literal, |$sums:ident, $rows:ident, $columns:ident| $dot:expr) => {
        impl Dot for $name {
            type Format = $format;
            type Vector = __m256i;
            const LANES: usize = 8;
            // 16 registers: 8 of sums, a column, a row, a product.
            const VECTORS: usize = 1;

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn run<W: Work>(work: W) {
                work.run();
            }

            #[inline(always)]
            unsafe fn splat(word: u32) -> __m256i {
                // SAFETY: the caller's.
                unsafe { _mm256_set1_epi32(word as i32) }
            }

            #[inline(always)]
            unsafe fn load(words: &[u32]) -> __m256i {
                // SAFETY: the caller's; unaligned.
                unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
            }

            #[inline(always)]
            unsafe fn store(vector: __m256i, words: &mut [u32]) {
                // SAFETY: the caller's; unaligned.
                unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) }
            }

            #[inline(always)]
            unsafe fn multiply_add($sums: __m256i, $rows: __m256i, $columns: __m256i) -> __m256i {
                // SAFETY: the caller's.
                unsafe { $dot }
            }
        }
    };
}

dot_256!(Avx2<Halves>, Halves, "avx2,fma", |sums, rows, columns| {
    _mm256_add_epi32(sums, _mm256_madd_epi16(rows, columns))
});

dot_256!(Avx2<Floats>, Floats, "avx2,fma", |sums, rows, columns| {
    _mm256_castps_si256(_mm256_fmadd_ps(
        _mm256_castsi256_ps(rows),
        _mm256_castsi256_ps(columns),
        _mm256_castsi256_ps(sums),
    ))
});

dot_256!(AvxVnni, Bytes, "avx2,avxvnni", |sums, rows, columns| {
    _mm256_dpbusd_avx_epi32(sums, rows, columns)
});

/// Implements [`Dot`] for `$name` with 512-bit registers.
macro_rules! dot_512 {
    ($name:ty, $format:ty, $features:literal, |$sums:ident, $rows:ident, $columns:ident| $dot:expr) => {
        impl Dot for $name {
            type Format = $format;
            type Vector = __m512i;
            const LANES: usize = 16;
            // 32 registers: 24 of sums, 3 of columns, a row.
            const VECTORS: usize = 3;

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn run<W: Work>(work: W) {
                work.run();
            }

            #[inline(always)]
            unsafe fn splat(word: u32) -> __m512i {
                // SAFETY: the caller's.
                unsafe { _mm512_set1_epi32(word as i32) }
            }

            #[inline(always)]
            unsafe fn load(words: &[u32]) -> __m512i {
                // SAFETY: the caller's; unaligned.
                unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
            }

            #[inline(always)]
            unsafe fn store(vector: __m512i, words: &mut [u32]) {
                // SAFETY: the caller's; unaligned.
                unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) }
            }

            #[inline(always)]
            unsafe fn multiply_add($sums: __m512i, $rows: __m512i, $columns: __m512i) -> __m512i {
                // SAFETY: the caller's.
                unsafe { $dot }
            }
        }
    };
}

dot_512!(Avx512Vnni, Bytes, "avx512f,avx512bw,avx512vl,avx512vnni", |sums, rows, columns| {
    _mm512_dpbusd_epi32(sums, rows, columns)
});

dot_512!(Avx512<Halves>, Halves, "avx512f,avx512bw,avx512vl", |sums, rows, columns| {
    _mm512_add_epi32(sums, _mm512_madd_epi16(rows, columns))
});

dot_512!(Avx512<Floats>, Floats, "avx512f,avx512bw,avx512vl", |sums, rows, columns| {
    _mm512_castps_si512(_mm512_fmadd_ps(
        _mm512_castsi512_ps(rows),
        _mm512_castsi512_ps(columns),
        _mm512_castsi512_ps(sums),
    ))
});
