//! Index of a thread in its grid, the barrier of its block and the shuffles of its warp, as PTX.
//!
//! With the feature `rust-cuda`, `rust_cuda.rs` stands in for this file.

/// Index of the calling thread in its block (`%tid.x`).
#[inline(always)]
pub fn thread() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe { ptx!("mov.u32 {}, %tid.x;", out(reg32) value, options(pure, nomem, nostack)) };
    value
}

/// Threads of a block (`%ntid.x`).
#[inline(always)]
pub fn threads() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe { ptx!("mov.u32 {}, %ntid.x;", out(reg32) value, options(pure, nomem, nostack)) };
    value
}

/// Index of the block in its grid (`%ctaid.x`).
#[inline(always)]
pub fn block() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe { ptx!("mov.u32 {}, %ctaid.x;", out(reg32) value, options(pure, nomem, nostack)) };
    value
}

/// Blocks of the grid (`%nctaid.x`).
#[inline(always)]
pub fn blocks() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe { ptx!("mov.u32 {}, %nctaid.x;", out(reg32) value, options(pure, nomem, nostack)) };
    value
}

/// `bar.sync 0`: every thread of the block waits here, and sees what the others stored to shared
/// memory before.
#[inline(always)]
pub fn barrier() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the kernels call it where no thread of the block has left.
    unsafe {
        core::arch::nvptx::_syncthreads()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    unreachable!("device code runs on a GPU or in a simulator")
}

/// `shfl.sync.bfly.b32` among all 32 lanes: the value of lane `lane ^ MASK`.
#[inline(always)]
pub fn shfl_xor<const MASK: u32>(value: u32) -> u32 {
    let other: u32;
    // SAFETY: the kernels call it with all 32 lanes together.
    unsafe {
        ptx!(
            "shfl.sync.bfly.b32 {}, {}, {}, 31, -1;",
            out(reg32) other, in(reg32) value, const MASK, options(nomem, nostack)
        )
    };
    other
}

/// `shfl.sync.idx.b32` among all 32 lanes: the value of lane `source`.
#[inline(always)]
pub fn shfl(value: u32, source: u32) -> u32 {
    let other: u32;
    // SAFETY: the kernels call it with all 32 lanes together.
    unsafe {
        ptx!(
            "shfl.sync.idx.b32 {}, {}, {}, 31, -1;",
            out(reg32) other, in(reg32) value, in(reg32) source, options(nomem, nostack)
        )
    };
    other
}

/// Keeps the branch that it stands in. Nothing: rustc's own compiler keeps it as it is.
#[inline(always)]
pub fn keep_branch() {}
