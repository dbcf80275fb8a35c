//! Correlator kernels.
//!
//! `V[c][b(i,j)] = sum_t x_i[c][t] * conj(x_j[c][t])`, baseline `b(i,j) = i(i+1)/2 + j`,
//! `0 <= j <= i < N`.
//!
//! | file | kernels | bound by |
//! |---|---|---|
//! | [`mma`] | int8, 4-bit and half-precision samples and bits on `mma.sync` (sm_80 and later) | tensor operations |
//! | [`wgmma`] | int8 and half-precision samples and bits on Hopper's warpgroup instructions (sm_90a) | tensor operations |
//! | [`wgmma_ci4`] | 4-bit samples as three products, on the same instructions | tensor operations |
//! | [`few`] | int8 and 4-bit samples of up to 64 inputs on `mma.sync`, several channels a warp | memory |
//! | [`feed`] | how samples get from device memory to those of [`wgmma`], packets' order included | |
//! | [`packed`] | samples of 1 to 4 bits, several products in one integer multiply-add | integer multiply-adds |
//! | [`offset`] | what the codes of [`packed`] add, undone | memory |
//! | [`widen`] | 32-bit sums added to 64-bit ones | memory |

#[cfg(not(corrust_target = "sm_80"))]
pub mod feed;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod few;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod mma;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod offset;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod packed;
pub mod patch;
pub mod samples;
pub mod triangle;
#[cfg(not(corrust_target = "sm_80"))]
#[macro_use]
pub mod warpgroup;
#[cfg(not(corrust_target = "sm_80"))]
pub mod wgmma;
#[cfg(not(corrust_target = "sm_80"))]
pub mod wgmma_ci4;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod widen;
