//! Beamforming: `J[b][f][p][t] = quantise((sum_d A[f][p][b][d] * E[t][f][p][d]) >> s[f][p][b])`.
//!
//! [`Beamformer`] is the plan: it checks shapes, weights, shifts and voltages and hands them to a
//! backend. The product is complex and the sum exact in 32 bits; [`Rounding`] says how it is shifted;
//! real and imaginary part are then clamped to -7..7 and packed into nibbles.
//!
//! Source: Smith, "CHORD 8-bit baseband beamformer" (2022), eq. 1. The note shifts twice, before and
//! after its reduction over dishes (eqs. 19 and 25), and so loses bits; here the sum is shifted once.

pub(crate) mod backend;
pub(crate) mod beams;
pub(crate) mod cpu;
pub(crate) mod gpu;
pub(crate) mod plan;
pub(crate) mod rounding;
pub(crate) mod shape;
pub(crate) mod split;
pub(crate) mod weights;

pub use crate::kernels::beamform::Kernel;
pub use beams::{Beams, BeamsMut};
pub use plan::{Beamformer, Builder};
pub use rounding::Rounding;
pub use shape::{MAX_DISHES, MAX_SHIFT, Shape, useful_operations};
pub use weights::{noise_shift, weights};
