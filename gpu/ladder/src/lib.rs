//! A correlator in steps, from plain loops to persistent warpgroups: README.md.
//!
//! Every step computes, of each channel, `V[i][j] = sum over t of x_i[t] conj(x_j[t])` for `j <= i`.
//!
//! | | shape | |
//! |---|---|---|
//! | samples | `[channel][input][row_bytes]` | int8 pairs (re, im), one for each time sample; rows are whole 16 bytes, zeros at their end |
//! | visibilities | `[channel][i][j]` | int32 pairs (re, im); those with `j > i` are left alone |
//!
//! Sums are exact while they fit: below 65536 time samples, whatever the samples are.
//!
//! A kernel is `extern "ptx-kernel"`, which CUDA C writes as `extern "C" __global__`. Its body is `unsafe`, since it takes
//! addresses on trust.

#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

/// Facts of a step that a launch needs. The grid is a block for each tile of [`Step::tiles`] and channel.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Name of the kernel.
    pub name: &'static str,
    /// Inputs along a side of a tile.
    pub side: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
}

impl Step {
    /// Tiles of a channel on and below the diagonal.
    pub const fn tiles(&self, inputs: u32) -> u32 {
        let side = inputs.div_ceil(self.side);
        side * (side + 1) / 2
    }
}

/// Bytes of time of an input that a block holds in shared memory at once: 64 time samples.
pub const TIME_BYTES: u32 = 128;

/// The steps for every GPU, in order.
pub const AMPERE: [Step; 6] = [
    Step { name: "plain", side: 16, threads: 256, shared_bytes: 0 },
    Step { name: "tiles", side: 32, threads: 256, shared_bytes: 2 * 32 * TIME_BYTES },
    Step { name: "swizzle", side: 32, threads: 256, shared_bytes: 2 * 32 * TIME_BYTES },
    Step { name: "dp4a_sums", side: 32, threads: 256, shared_bytes: 2 * 32 * TIME_BYTES },
    Step { name: "mma", side: 64, threads: 128, shared_bytes: 2 * 64 * TIME_BYTES },
    Step { name: "pipeline", side: 64, threads: 128, shared_bytes: 3 * 2 * 64 * TIME_BYTES },
];

/// Bytes of a stage of the steps for Hopper: 128 rows and 128 columns.
const WIDE_STAGE: u32 = 2 * 128 * TIME_BYTES;

/// The steps for Hopper, which go on from those for every GPU. The first parameter is the address of a tensor map of the samples
/// in place of theirs: bytes of a row, inputs, channels, in swizzled boxes of 128 bytes by 128 inputs.
pub const HOPPER: [Step; 2] = [
    Step { name: "wgmma", side: 128, threads: 256, shared_bytes: 4 * WIDE_STAGE + 1024 + 64 },
    Step { name: "roles", side: 128, threads: 384, shared_bytes: 4 * WIDE_STAGE + 1024 + 64 },
];

#[cfg(target_arch = "nvptx64")]
mod common;
#[cfg(all(target_arch = "nvptx64", corrust_target = "sm_80"))]
mod step_1_plain;
#[cfg(all(target_arch = "nvptx64", corrust_target = "sm_80"))]
mod step_2_tiles;
#[cfg(all(target_arch = "nvptx64", corrust_target = "sm_80"))]
mod step_3_swizzle;
#[cfg(all(target_arch = "nvptx64", corrust_target = "sm_80"))]
mod step_4_dp4a;
#[cfg(all(target_arch = "nvptx64", corrust_target = "sm_80"))]
mod step_5_mma;
#[cfg(all(target_arch = "nvptx64", corrust_target = "sm_80"))]
mod step_6_pipeline;
#[cfg(all(target_arch = "nvptx64", corrust_target = "sm_90a"))]
mod step_7_wgmma;
#[cfg(all(target_arch = "nvptx64", corrust_target = "sm_90a"))]
mod step_8_roles;
