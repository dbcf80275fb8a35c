//! Channeliser kernels: raw voltages to spectra. The arithmetic is [`crate::abi::channelise`]'s.
//!
//! | file | kernels | bound by |
//! |---|---|---|
//! | [`keep`] | raw samples that later spectra need | memory |
//! | [`fused`] | several levels a pass, several spectra a block | FP32 instructions, shared memory |
//! | [`two_pass`] | several levels a pass, points kept in global memory once | memory, L2 cache |
//! | [`levels`] | any size that fits shared memory, a level at a time | shared memory |
//! | [`subchannels`] | subchannels of channels | issue |
//!
//! [`filter`], [`pass`] and [`finish`] are the parts that [`fused`] and [`two_pass`] are made of.
//!
//! Transforms are made in place: bin `k` of a column `p` of span `s` lies at `p + at(k) Z / s`
//! ([`bin_at`](crate::abi::channelise::bin_at) is the inverse of `at`), which bit reversal gives.

pub mod filter;
pub mod finish;
pub mod fused;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod keep;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod levels;
pub mod pass;
pub mod sample;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod subchannels;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod two_pass;
pub mod value;

use crate::{
    abi::channelise::{Channelise, Complex, Real, raw},
    isa::common::{add_f32, fma_f32, load_global_2, mul_f32, neg_f32, sub_f32},
};

impl Real for f32 {
    #[inline(always)]
    fn splat(value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn add(self, other: f32) -> f32 {
        add_f32(self, other)
    }

    #[inline(always)]
    fn sub(self, other: f32) -> f32 {
        sub_f32(self, other)
    }

    #[inline(always)]
    fn mul(self, other: f32) -> f32 {
        mul_f32(self, other)
    }

    #[inline(always)]
    fn fma(self, factor: f32, term: f32) -> f32 {
        fma_f32(self, factor, term)
    }

    #[inline(always)]
    fn neg(self) -> f32 {
        neg_f32(self)
    }
}

/// What the compiler knows of a filterbank.
pub trait Filterbank {
    /// Whether it is the [default one](crate::abi::channelise::is_default_pfb).
    const IS_DEFAULT: bool;
    /// Number of residues, or 0 where only the launch knows it.
    const RESIDUES: u32;
}

/// Any filterbank: the launch says all.
pub struct AnyFilterbank;

impl Filterbank for AnyFilterbank {
    const IS_DEFAULT: bool = false;
    const RESIDUES: u32 = 0;
}

/// The [default filterbank](crate::abi::channelise::is_default_pfb) of `RESIDUES` residues, or, if that is 0, of any number.
pub struct DefaultFilterbank<const RESIDUES: u32>;

impl<const RESIDUES: u32> Filterbank for DefaultFilterbank<RESIDUES> {
    const IS_DEFAULT: bool = true;
    const RESIDUES: u32 = RESIDUES;
}

/// The same parameters, of which the compiler knows what [`is_default_pfb`](crate::abi::channelise::is_default_pfb) says.
#[inline(always)]
const fn known(p: Channelise, residues: u32) -> Channelise {
    Channelise {
        residues,
        size: residues / 2,
        tap_count: 8,
        hop: residues,
        turn: 0,
        encoding: raw::I8,
        complex: 0,
        time_stride: 1,
        ..p
    }
}

/// Factor of bin `position` of a column of `span` bins in a merge; for span `Z`, the factor with which real samples
/// are untangled.
///
/// # Safety
/// - `p.table` has the twiddles of `span`, in device memory, written before the launch.
/// - `position` is below `span`.
#[inline(always)]
unsafe fn load_twiddle(p: &Channelise, span: u32, position: u32) -> Complex<f32> {
    // SAFETY: 8 aligned bytes of the table, by the conditions above.
    unsafe { load_global_2(p.table + (8 * (span + position)) as u64).map(f32::from_bits) }
}

#[cfg(test)]
mod tests {
    use crate::abi::channelise::{bin_at, position_of};

    #[test]
    fn positions_are_bins_elsewhere() {
        for span in [1, 2, 3, 4, 6, 8, 12, 24, 32, 4096, 3 << 12] {
            for position in 0..span {
                let bin = bin_at(position, span);
                assert!(bin < span);
                assert_eq!(position_of(bin, span), position, "span {span}");
            }
            // A column has the bins of its two parts, the lower half first.
            for position in 0..span {
                let [low, high] = [2 * position, 2 * position + 1].map(|at| bin_at(at, 2 * span));
                assert_eq!((low, high), (bin_at(position, span), bin_at(position, span) + span));
            }
        }
    }
}
