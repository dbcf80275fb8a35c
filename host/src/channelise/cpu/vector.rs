//! f32 numbers of several lanes that one instruction takes.

use corrust_gpu::abi::channelise::Real;

/// Lanes of f32, one spectrum of an input each.
pub(crate) trait Vector: Real {
    /// Number of them.
    const LANES: usize;

    /// The first numbers of `from`.
    ///
    /// # Safety
    /// There are as many as lanes, and the CPU has the instructions.
    unsafe fn load(from: &[f32]) -> Self;

    /// Stores all lanes.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    unsafe fn store(self, to: &mut [f32]);

    /// Rows of as many numbers as lanes, of which lane `l` of `to[i]` is number `i` of row `l`: row `l` begins
    /// `l * pitch` from the start of `from`.
    ///
    /// # Safety
    /// There are as many rows and `to` as lanes, and the CPU has the instructions.
    #[inline(always)]
    unsafe fn columns(from: &[f32], pitch: usize, to: &mut [Self]) {
        for (index, to) in to.iter_mut().take(Self::LANES).enumerate() {
            let mut column = [0.0; 16];
            for (lane, number) in column.iter_mut().take(Self::LANES).enumerate() {
                *number = from[lane * pitch + index];
            }
            // SAFETY: the caller's promise; there are 16.
            *to = unsafe { Self::load(&column) };
        }
    }

    /// The reverse of [`columns`](Self::columns).
    ///
    /// # Safety
    /// As for [`columns`](Self::columns).
    #[inline(always)]
    unsafe fn rows(from: &[Self], to: &mut [f32], pitch: usize) {
        for (index, from) in from.iter().take(Self::LANES).enumerate() {
            let mut column = [0.0; 16];
            // SAFETY: the caller's promise; there are 16.
            unsafe { from.store(&mut column) };
            for (lane, number) in column.iter().take(Self::LANES).enumerate() {
                to[lane * pitch + index] = *number;
            }
        }
    }
}

/// Eight lanes of any CPU.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Portable([f32; 8]);

/// Lane by lane.
macro_rules! lanes {
    (|$lane:ident| $value:expr) => {{
        let mut lanes = [0.0; 8];
        for $lane in 0..8 {
            lanes[$lane] = $value;
        }
        Portable(lanes)
    }};
}

impl Real for Portable {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self([value; 8])
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        lanes!(|lane| self.0[lane] + other.0[lane])
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        lanes!(|lane| self.0[lane] - other.0[lane])
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        lanes!(|lane| self.0[lane] * other.0[lane])
    }

    #[inline(always)]
    fn fma(self, factor: Self, term: Self) -> Self {
        lanes!(|lane| self.0[lane].mul_add(factor.0[lane], term.0[lane]))
    }

    #[inline(always)]
    fn neg(self) -> Self {
        lanes!(|lane| -self.0[lane])
    }
}

impl Vector for Portable {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn load(from: &[f32]) -> Self {
        lanes!(|lane| from[lane])
    }

    #[inline(always)]
    unsafe fn store(self, to: &mut [f32]) {
        to[..8].copy_from_slice(&self.0);
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use std::arch::x86_64::*;

    use super::{Real, Vector};

    /// Eight lanes of AVX2 and FMA.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    pub(crate) struct Avx2(__m256);

    /// Sixteen lanes of AVX-512 F.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    pub(crate) struct Avx512(__m512);

    /// Implements [`Real`] by intrinsics.
    macro_rules! real {
        ($name:ident, $splat:ident, $add:ident, $sub:ident, $mul:ident, $fma:ident) => {
            // SAFETY of all: such numbers are made where the CPU has the instructions.
            impl Real for $name {
                #[inline(always)]
                fn splat(value: f32) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $splat(value) })
                }

                #[inline(always)]
                fn add(self, other: Self) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $add(self.0, other.0) })
                }

                #[inline(always)]
                fn sub(self, other: Self) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $sub(self.0, other.0) })
                }

                #[inline(always)]
                fn mul(self, other: Self) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $mul(self.0, other.0) })
                }

                #[inline(always)]
                fn fma(self, factor: Self, term: Self) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $fma(self.0, factor.0, term.0) })
                }

                #[inline(always)]
                fn neg(self) -> Self {
                    self.flipped()
                }
            }
        };
    }

    real!(Avx2, _mm256_set1_ps, _mm256_add_ps, _mm256_sub_ps, _mm256_mul_ps, _mm256_fmadd_ps);
    real!(Avx512, _mm512_set1_ps, _mm512_add_ps, _mm512_sub_ps, _mm512_mul_ps, _mm512_fmadd_ps);

    impl Avx2 {
        #[inline(always)]
        fn flipped(self) -> Self {
            // SAFETY: such numbers are made where the CPU has the instructions.
            Self(unsafe { _mm256_xor_ps(self.0, _mm256_set1_ps(-0.0)) })
        }

        /// Lane `l` of number `i` becomes lane `i` of number `l`.
        #[inline(always)]
        unsafe fn transposed(rows: [__m256; 8]) -> [__m256; 8] {
            let mut out = rows;
            // SAFETY: the caller's.
            unsafe {
                let mut groups = [[rows[0]; 4]; 2];
                for (group, rows) in groups.iter_mut().zip(rows.as_chunks::<4>().0) {
                    let low = [
                        _mm256_unpacklo_ps(rows[0], rows[1]),
                        _mm256_unpacklo_ps(rows[2], rows[3]),
                    ];
                    let high = [
                        _mm256_unpackhi_ps(rows[0], rows[1]),
                        _mm256_unpackhi_ps(rows[2], rows[3]),
                    ];
                    let pairs = |[a, b]: [__m256; 2]| {
                        let (a, b) = (_mm256_castps_pd(a), _mm256_castps_pd(b));
                        [
                            _mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                            _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)),
                        ]
                    };
                    let ([first, second], [third, fourth]) = (pairs(low), pairs(high));
                    *group = [first, second, third, fourth];
                }
                for column in 0..4 {
                    let [a, b] = [groups[0][column], groups[1][column]];
                    out[column] = _mm256_permute2f128_ps::<0x20>(a, b);
                    out[column + 4] = _mm256_permute2f128_ps::<0x31>(a, b);
                }
            }
            out
        }
    }

    impl Avx512 {
        #[inline(always)]
        fn flipped(self) -> Self {
            // SAFETY: such numbers are made where the CPU has the instructions.
            Self(unsafe {
                let bits = _mm512_castps_si512(self.0);
                _mm512_castsi512_ps(_mm512_xor_si512(bits, _mm512_set1_epi32(i32::MIN)))
            })
        }

        /// Lane `l` of number `i` becomes lane `i` of number `l`.
        #[inline(always)]
        unsafe fn transposed(rows: [__m512; 16]) -> [__m512; 16] {
            let mut out = rows;
            // SAFETY: the caller's.
            unsafe {
                let mut groups = [[rows[0]; 4]; 4];
                for (group, rows) in groups.iter_mut().zip(rows.as_chunks::<4>().0) {
                    let low = [
                        _mm512_unpacklo_ps(rows[0], rows[1]),
                        _mm512_unpacklo_ps(rows[2], rows[3]),
                    ];
                    let high = [
                        _mm512_unpackhi_ps(rows[0], rows[1]),
                        _mm512_unpackhi_ps(rows[2], rows[3]),
                    ];
                    let pairs = |[a, b]: [__m512; 2]| {
                        let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
                        [
                            _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                            _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)),
                        ]
                    };
                    let ([first, second], [third, fourth]) = (pairs(low), pairs(high));
                    *group = [first, second, third, fourth];
                }
                for column in 0..4 {
                    let [a, b, c, d] = groups.map(|group| group[column]);
                    // Quarters 0 and 2, then 1 and 3, of two groups each.
                    let even =
                        [_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0x88>(c, d)];
                    let odd =
                        [_mm512_shuffle_f32x4::<0xdd>(a, b), _mm512_shuffle_f32x4::<0xdd>(c, d)];
                    out[column] = _mm512_shuffle_f32x4::<0x88>(even[0], even[1]);
                    out[column + 4] = _mm512_shuffle_f32x4::<0x88>(odd[0], odd[1]);
                    out[column + 8] = _mm512_shuffle_f32x4::<0xdd>(even[0], even[1]);
                    out[column + 12] = _mm512_shuffle_f32x4::<0xdd>(odd[0], odd[1]);
                }
            }
            out
        }
    }

    /// Implements [`Vector`] by intrinsics.
    macro_rules! vector {
        ($name:ident, $lanes:literal, $load:ident, $store:ident) => {
            impl Vector for $name {
                const LANES: usize = $lanes;

                #[inline(always)]
                unsafe fn load(from: &[f32]) -> Self {
                    debug_assert!(from.len() >= $lanes);
                    // SAFETY: the caller's; unaligned.
                    Self(unsafe { $load(from.as_ptr()) })
                }

                #[inline(always)]
                unsafe fn store(self, to: &mut [f32]) {
                    debug_assert!(to.len() >= $lanes);
                    // SAFETY: the caller's; unaligned.
                    unsafe { $store(to.as_mut_ptr(), self.0) }
                }

                #[inline(always)]
                unsafe fn columns(from: &[f32], pitch: usize, to: &mut [Self]) {
                    let mut rows = [Self::splat(0.0).0; $lanes];
                    // SAFETY: the caller's.
                    unsafe {
                        for (lane, row) in rows.iter_mut().enumerate() {
                            *row = Self::load(&from[lane * pitch..]).0;
                        }
                        for (to, column) in to.iter_mut().zip(Self::transposed(rows)) {
                            *to = Self(column);
                        }
                    }
                }

                #[inline(always)]
                unsafe fn rows(from: &[Self], to: &mut [f32], pitch: usize) {
                    let mut columns = [Self::splat(0.0).0; $lanes];
                    for (column, from) in columns.iter_mut().zip(from) {
                        *column = from.0;
                    }
                    // SAFETY: the caller's.
                    unsafe {
                        for (lane, row) in Self::transposed(columns).into_iter().enumerate() {
                            Self(row).store(&mut to[lane * pitch..]);
                        }
                    }
                }
            }
        };
    }

    vector!(Avx2, 8, _mm256_loadu_ps, _mm256_storeu_ps);
    vector!(Avx512, 16, _mm512_loadu_ps, _mm512_storeu_ps);
}
