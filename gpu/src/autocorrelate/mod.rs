//! Multi-tau autocorrelation: `A_k[c] = sum_m Z_k[m] * Y_{k,c}[m]`.
//!
//! | file | kernels | bound by |
//! |---|---|---|
//! | [`bin_groups`] | the bin groups of AutocorrelationCUDA, an instant at a time | latency of shared memory |
//! | [`packets`] | the same, a packet of instants at a time | latency of memory and instructions |
//! | [`counts`] | groups 0 and 1 on tensor cores, many instants at a time, and the bins of group 2 | requests to L2 |
//! | [`counts_boxes`] | the same with TMA, on Hopper | instructions and tensor operations |
//! | [`low`] | short bins on tensor cores | tensor operations |
//! | [`long`] | long bins, from short ones, and their products | integer operations |
//! | [`carry`] | what the next instants need | memory |
//! | [`delays`] | delayed counts, of which the correlator makes Gram matrices: all lags of one group | memory |
//!
//! From [`counts`] to [`carry`] they make one pipeline, in which [`counts`] or [`counts_boxes`] comes first. With `2^low` the
//! largest power of two (at most 32) that divides `S`, the delayed bins of groups up to `low` lie on the
//! grid of the others:
//! `Y_{k,c}[m] = Z_k[m - (S - S/2^k) - c]`, so that they and [`low`] need one delay line a group.
//! The groups above have delayed bins of their own, made from bins of `2^low` counts in [`long`].
//! [`keep`] writes those. [`transposed`] is what the first kernels share, [`gram`] where sums of products become those of lags.

#[cfg(not(corrust_target = "sm_90a"))]
pub mod bin_groups;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod carry;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod counts;
#[cfg(not(corrust_target = "sm_80"))]
pub mod counts_boxes;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod delays;
pub mod gram;
pub mod keep;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod long;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod low;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod packets;
pub mod transposed;
