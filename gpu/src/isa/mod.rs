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
/// On the device it becomes an `extern "ptx-kernel"` entry under its own name; with the feature
/// `rust-cuda`, a `cuda_std::kernel`. A device build of some kernels (`--cfg corrust_some`) names these, each by a
/// `--cfg` of its name.
macro_rules! kernel {
    ($(#[$attribute:meta])* fn $name:ident($parameter:ident: $type:ty) $body:block) => {
        $(#[$attribute])*
        ///
        /// # Safety
        /// Launched with the geometry of its row in [`crate::abi`]; the addresses in the parameters
        /// are device memory of the sizes that the row states.
        #[cfg(all(
            target_arch = "nvptx64",
            not(feature = "rust-cuda"),
            any(not(corrust_some), $name)
        ))]
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name($parameter: $type) {
            // SAFETY: the caller's promise.
            unsafe { $body }
        }

        $(#[$attribute])*
        ///
        /// # Safety
        /// The conditions of the entry hold; on a CPU it is type-checked only.
        #[cfg(any(not(target_arch = "nvptx64"), feature = "rust-cuda"))]
        #[cfg_attr(feature = "rust-cuda", cuda_std::kernel)]
        pub unsafe fn $name($parameter: $type) {
            // SAFETY: the caller's promise.
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
