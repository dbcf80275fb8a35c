//! Device code of corrust: every kernel, and the PTX they compile to.
//!
//! Built for `nvptx64-nvidia-cuda` this crate is the kernels. Built for the host it is
//! [`abi`] (entry names, tiles, parameter structs), [`ptx`] (what the device build gave) and the
//! same kernel sources type-checked but never run, so that an editor understands them and the lane
//! maps can be proved on the CPU.
//!
//! | word | room |
//! |---|---|
//! | instructions (the only `asm!`) | [`isa`] |
//! | fragments, swizzles, staging | [`tile`] |
//! | kernels | [`autocorrelate`], [`beamform`], [`channelise`], [`correlate`], [`kurtosis`], [`reorder`] |
//! | kernels that measure a GPU | [`limits`] |

#![no_std]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_ptx, asm_experimental_arch, stdarch_nvptx),
    allow(internal_features)
)]
#![cfg_attr(all(target_arch = "nvptx64", feature = "rust-cuda"), feature(link_llvm_intrinsics))]
#![cfg_attr(
    not(target_arch = "nvptx64"),
    allow(unreachable_code, unused_macros, unused_variables, unused_mut, unused_unsafe)
)]
// cuda_std's kernel attribute names an architecture that Rust no longer has.
#![cfg_attr(feature = "rust-cuda", allow(unexpected_cfgs))]
// Fragments are indexed by the numbers of rows and columns that the formulas name.
#![allow(clippy::needless_range_loop)]

pub mod abi;
#[macro_use]
pub mod isa;
#[macro_use]
pub mod tile;
// A device build of some kernels names the folders that they need.
#[cfg(any(not(corrust_some), corrust_word = "autocorrelate"))]
pub mod autocorrelate;
#[cfg(any(not(corrust_some), corrust_word = "beamform"))]
pub mod beamform;
#[cfg(any(not(corrust_some), corrust_word = "channelise"))]
pub mod channelise;
#[cfg(any(not(corrust_some), corrust_word = "correlate"))]
pub mod correlate;
#[cfg(any(not(corrust_some), corrust_word = "kurtosis"))]
pub mod kurtosis;
#[cfg(any(not(corrust_some), corrust_word = "limits"))]
pub mod limits;
#[cfg(any(not(corrust_some), corrust_word = "reorder"))]
pub mod reorder;

#[cfg(not(target_arch = "nvptx64"))]
pub mod ptx;

// Rust-CUDA's panic handler is `cuda_std`'s.
#[cfg(all(target_arch = "nvptx64", not(feature = "rust-cuda")))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    isa::common::trap()
}
