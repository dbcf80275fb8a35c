//! Index of a thread in its grid, the barrier of its block and the shuffles of its warp, by way of `cuda_std` and of
//! LLVM's intrinsics: what Rust-CUDA's compiler takes in place of `thread.rs`.
//!
//! Its LLVM does not take inline PTX for convergent: a shuffle that stands between two branches on one condition
//! becomes two, in their sides, where other lanes are missing. The intrinsics are convergent. But before LLVM,
//! rustc's own jump threading does the same with calls, which they are; it stops at inline assembly, of which
//! each therefore has an empty one beside it (docs/rust-cuda.md).

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

/// Calls an intrinsic of LLVM that threads wait in, where it stands.
macro_rules! together {
    ($name:literal, ($($parameter:ident: $value:expr),*) $(-> $result:ty)?) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            unsafe extern "C" {
                #[link_name = $name]
                fn intrinsic($($parameter: u32),*) $(-> $result)?;
            }
            // SAFETY: the kernels call it where no thread is missing; the assembly is empty.
            unsafe {
                ptx!("", options(nomem, nostack));
                intrinsic($($value),*)
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            $(let _ = $value;)*
            unreachable!("device code runs on a GPU or in a simulator")
        }
    }};
}

/// `bar.sync 0`: every thread of the block waits here, and sees what the others stored to shared
/// memory before.
#[inline(always)]
pub fn barrier() {
    together!("llvm.nvvm.barrier0", ())
}

/// `shfl.sync.bfly.b32` among all 32 lanes: the value of lane `lane ^ MASK`.
#[inline(always)]
pub fn shfl_xor<const MASK: u32>(value: u32) -> u32 {
    together!(
        "llvm.nvvm.shfl.sync.bfly.i32",
        (members: !0, value: value, mask: MASK, clamp: 31) -> u32
    )
}

/// `shfl.sync.idx.b32` among all 32 lanes: the value of lane `source`.
#[inline(always)]
pub fn shfl(value: u32, source: u32) -> u32 {
    together!(
        "llvm.nvvm.shfl.sync.idx.i32",
        (members: !0, value: value, source: source, clamp: 31) -> u32
    )
}

/// Keeps the branch that it stands in. LLVM 7 would choose between the values of both its sides, register by register
/// and for every thread, where the branch is hardly ever taken.
#[inline(always)]
pub fn keep_branch() {
    // SAFETY: the assembly is empty.
    unsafe { ptx!("", options(nomem, nostack)) }
}
