//! PTX instructions, and the only `asm!` of the crate.
//!
//! Each wrapper is named after its instruction, quotes the PTX, and says the least `sm`, who must
//! take part (thread, warp, warpgroup) and which lane holds which element. Lane maps are `const
//! fn`s in [`crate::tile::fragment`], proved to be bijections by CPU tests.
//!
//! | module | instructions of |
//! |---|---|
//! | [`common`] | every GPU this crate supports |
//! | [`thread`] | thread indices, the barrier and shuffles, of which the feature `rust-cuda` has its own |
//! | [`sm_80`] | Ampere: `mma.sync`, `ldmatrix`, `cp.async` |
//! | [`sm_90a`] | Hopper: `wgmma`, tensor maps, `mbarrier`, `setmaxnreg` |
//! | `scope` | text of instructions, for steps that kernels compose and that must be one `asm!` |

/// `asm!` on the device; unreachable where the crate is only type-checked.
macro_rules! ptx {
    ($($tokens:tt)*) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            core::arch::asm!($($tokens)*)
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            unreachable!("device code runs on a GPU or in a simulator")
        }
    }};
}

/// Declares a kernel: `kernel! { /// docs  fn name(p: Params) { ... } }`.
///
/// A launch of any kernel keeps these conditions, which the kernels' own comments call the conditions of a launch:
///
/// - The GPU, the threads of a block, the bytes of its dynamic shared memory and the blocks of a cluster are as in
///   the kernel's [`Entry`](crate::abi::Entry). Grids and blocks have one dimension.
/// - The grid is as large as the documentation of the kernel or of its parameters says.
/// - An address in the parameters is device memory of the size and alignment that the field's documentation
///   states, and stays allocated till the launch has ended. What the kernel reads was written before. 0 stands for memory
///   only where the field says so.
/// - Memory that the kernel writes overlaps no other memory of the parameters, unless a field says so, and nobody else
///   uses it till the launch has ended: no other launch, no copy. Nobody writes what it reads.
/// - Other fields are in the ranges that their documentation states.
///
/// The body is the whole of a block's work: all threads of the block run it from its beginning, and the block's shared
/// memory is theirs alone. So a body may call what asks for the whole block, warpgroup or warp, as long as no branch
/// parts the threads.
///
/// On the device it becomes an `extern "ptx-kernel"` entry under its own name; with the feature
/// `rust-cuda`, a `cuda_std::kernel`. A device build of some kernels (`--cfg corrust_some`) names these, each by a
/// `--cfg` of its name.
macro_rules! kernel {
    ($(#[$attribute:meta])* fn $name:ident($parameter:ident: $type:ty) $body:block) => {
        $(#[$attribute])*
        ///
        /// # Safety
        /// - Launched with the GPU, threads, shared memory and cluster of its [`Entry`](crate::abi::Entry), in one
        ///   dimension, in as many blocks as its documentation or that of its parameters says.
        /// - Addresses in the parameters are device memory of the sizes and alignments that their fields state; what
        ///   is read was written before.
        /// - Till the launch has ended nobody else writes what it reads, nor uses what it writes; what it writes overlaps
        ///   nothing else of the parameters, unless a field says so.
        /// - Other fields are in the ranges that they state.
        #[cfg(all(
            target_arch = "nvptx64",
            not(feature = "rust-cuda"),
            any(not(corrust_some), $name)
        ))]
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name($parameter: $type) {
            // SAFETY: a whole block runs the body, in a launch that keeps the conditions above.
            unsafe { $body }
        }

        $(#[$attribute])*
        ///
        /// # Safety
        /// - On a CPU it must not be called: it is type-checked only.
        /// - As an entry of Rust-CUDA it is launched as any kernel is: with the GPU, threads, shared memory, cluster
        ///   and blocks of its [`Entry`](crate::abi::Entry) and documentation.
        /// - Addresses in the parameters are device memory of the sizes and alignments that their fields state; what
        ///   is read was written before.
        /// - Till the launch has ended nobody else writes what it reads, nor uses what it writes; what it writes overlaps
        ///   nothing else of the parameters, unless a field says so.
        /// - Other fields are in the ranges that they state.
        #[cfg(any(
            not(target_arch = "nvptx64"),
            all(feature = "rust-cuda", any(not(corrust_some), $name))
        ))]
        #[cfg_attr(feature = "rust-cuda", cuda_std::kernel)]
        pub unsafe fn $name($parameter: $type) {
            // SAFETY: a whole block runs the body, in a launch that keeps the conditions above.
            unsafe { $body }
        }
    };
}

#[cfg(not(corrust_target = "sm_80"))]
#[macro_use]
mod scope;

pub mod common;
pub mod sm_80;
#[cfg(not(corrust_target = "sm_80"))]
pub mod sm_90a;
#[cfg_attr(feature = "rust-cuda", path = "rust_cuda.rs")]
pub mod thread;
