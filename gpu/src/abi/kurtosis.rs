//! Spectral kurtosis: sums of powers and of their squares.

use super::entry::{Entry, Kernel, kernels, parameters};

/// Most time samples of a block: their sum of `|x|^2` fits 32 bits.
pub const MOST_TIMES: u32 = 1 << 16;

parameters! {
    /// Parameters of [`MOMENTS`] and [`MOMENTS_ALONG_TIME`]. Grid: any; the threads, or the warps, share the results.
    pub struct Moments {
        /// `ci8`, `ci4` or `ci4-offset` samples; missing ones have the value zero.
        pub samples: u64,
        /// Pairs of u64, sum of `|x|^2` and sum of `|x|^4`, `[block][channel][input]`, 8-byte aligned.
        pub sums: u64,
        /// Bytes from one channel to the next.
        pub channel_stride: u64,
        /// Bytes from one input to the next.
        pub input_stride: u64,
        /// Bytes from one time to the next.
        pub time_stride: u64,
        /// `C`.
        pub channels: u32,
        /// `N`.
        pub inputs: u32,
        /// `T`, at least 1.
        pub times: u32,
        /// Times of a block, 1 to [`MOST_TIMES`]; the last block has those that are left.
        pub block_times: u32,
        /// Bytes of a sample: 2 of int8 parts, 1 of nibbles.
        pub sample_bytes: u32,
        /// Xored to each byte before nibbles are read as two's complement: 0x88 of excess-8 nibbles, else 0.
        pub flip: u32,
    }
}

kernels! { MOMENTS_OF_BLOCKS:
    /// Sums of blocks of samples whose inputs are next to each other: a thread a result.
    MOMENTS: Kernel<Moments> = Kernel::new("kurtosis_moments", 256).min_blocks(4).sectors(8);
    /// Sums of blocks of samples whose times are next to each other: a warp a result.
    MOMENTS_ALONG_TIME: Kernel<Moments> = Kernel::new("kurtosis_moments_along_time", 256).min_blocks(6).sectors(8);
}

/// Entries of all.
pub(super) const ENTRIES: &[&[Entry]] = &[MOMENTS_OF_BLOCKS];
