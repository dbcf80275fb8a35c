//! Beamforming: `J[b][f][p][t] = quantise((sum_d A[f][p][b][d] * E[t][f][p][d]) >> s[f][p][b])`.
//!
//! [`Beamformer`] is the plan: it checks shapes, weights, shifts and voltages and hands them to a
//! backend. The product is complex and of `ci4` and `ci8` voltages the sum exact in 32 bits; [`Rounding`] says
//! how it is shifted; real and imaginary part are then clamped, to -7..7 of `ci4`, -127..127 of `ci8`. Beams of
//! floats are `sum * 2^-s`. Sums of `cf16` voltages are f32.
//!
//! Rules of floats, the same on every backend: an integer sum becomes the nearest f32, half to even; the
//! product with `2^-s` is f32; a half is the nearest to that, half to even, and a component beyond 65504 is
//! clamped there and counted. f32 sums of `cf16` differ from the exact ones by at most
//! `(D + 32) 2^-23 sum_d (|A_re E_re| + |A_im E_im|)` (the imaginary part likewise), and are the same in
//! every run; integers are made of them by the same rounding, 0 from NaN.
//!
//! Source: Smith, "CHORD 8-bit baseband beamformer" (2022), eq. 1. The note shifts twice, before and
//! after its reduction over dishes (eqs. 19 and 25), and so loses bits; here the sum is shifted once, or with
//! [`Rounding::Partial`] twice, for the same bits.

pub(crate) mod backend;
pub(crate) mod beams;
pub(crate) mod cpu;
pub(crate) mod encode;
pub(crate) mod gpu;
pub mod grid;
pub(crate) mod plan;
pub(crate) mod rounding;
pub(crate) mod shape;
pub(crate) mod split;
pub(crate) mod weights;

pub use crate::kernels::beamform::Kernel;
pub use beams::{Beams, BeamsMut};
pub use plan::{Beamformer, Builder};
pub use rounding::Rounding;
pub use shape::{MAX_DISHES, MAX_DISHES_CI8, MAX_SHIFT, Shape, useful_operations};
pub use weights::{noise_shift, weights};
