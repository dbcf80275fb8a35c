//! Tiles: which lane holds what, where a row lies in shared memory, how panels are staged.

pub mod fragment;
pub mod panel;

use core::num::NonZeroU32;

/// A divisor: `a / divisor(b)` needs no check, as kernels cannot panic. A zero divides as one.
#[inline(always)]
pub fn divisor(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN)
}
