//! Tiles: which lane holds what, where a row lies in shared memory, how stages go from role to role.

pub mod fragment;
pub mod panel;
#[cfg(not(corrust_target = "sm_80"))]
pub mod pipeline;

use core::num::NonZeroU32;

/// A divisor: `a / divisor(b)` needs no check, as kernels cannot panic. A zero divides as one.
#[inline(always)]
pub fn divisor(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN)
}
