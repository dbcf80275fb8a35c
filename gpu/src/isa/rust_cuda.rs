//! Where a thread stands in its grid, and the barrier of its block, by way of `cuda_std`: what
//! Rust-CUDA's compiler takes in place of `thread.rs`.
//!
//! `cuda_std` 0.2.2 has no shuffles: those stay the PTX of [`super::common`].

use cuda_std::thread;

/// Index of the calling thread in its block (`%tid.x`).
#[inline(always)]
pub fn thread() -> u32 {
    thread::thread_idx_x()
}

/// Threads of a block (`%ntid.x`).
#[inline(always)]
pub fn threads() -> u32 {
    thread::block_dim_x()
}

/// Index of the block in its grid (`%ctaid.x`).
#[inline(always)]
pub fn block() -> u32 {
    thread::block_idx_x()
}

/// Blocks of the grid (`%nctaid.x`).
#[inline(always)]
pub fn blocks() -> u32 {
    thread::grid_dim_x()
}

/// `bar.sync 0`: every thread of the block waits here, and sees what the others stored to shared
/// memory before.
#[inline(always)]
pub fn barrier() {
    thread::sync_threads();
}
