//! Beamformer kernels.
//!
//! `J[b][f][p][t] = quantise((sum_d A[f][p][b][d] * E[t][f][p][d]) >> s[f][p][b])`. A channel and a
//! polarisation make a stream, beamformed by itself: in the kernels `A[beam][dish]`,
//! `E[time][dish]`, `J[beam][time]`.
//!
//! | file | kernels | bound by |
//! |---|---|---|
//! | [`mma`] | beams on `mma.sync` (sm_80 and later) | tensor operations |
//! | [`wgmma`] | beams on Hopper's warpgroup instructions (sm_90a) | tensor operations |
//! | [`incoherent`] | the incoherent beam | memory |
//! | [`grid`] | powers of beams of dishes on a grid, in f32 | latency |
//! | [`grid_mma`] | the same on `mma.sync`, from f16 values | tensor operations, issue |
//!
//! [`map`] says which lane holds what, for the kernels and for the host that prepares weights;
//! [`finish`] makes samples of sums.

pub mod finish;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod grid;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod grid_mma;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod incoherent;
pub mod map;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod mma;
#[cfg(not(corrust_target = "sm_80"))]
pub mod wgmma;
