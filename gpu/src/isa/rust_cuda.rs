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
///
/// `cuda_std::thread::sync_threads` calls a function that LLVM does not know to be convergent, and may
/// make two of one in the sides of a branch (docs/rust-cuda.md).
#[inline(always)]
pub fn barrier() {
    #[cfg(target_arch = "nvptx64")]
    {
        unsafe extern "C" {
            #[link_name = "llvm.nvvm.barrier0"]
            fn barrier0();
        }
        // SAFETY: the kernels call it where no thread of the block has left.
        unsafe { barrier0() }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    unreachable!("device code runs on a GPU or in a simulator")
}
