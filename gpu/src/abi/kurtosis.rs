//! Spectral kurtosis: sums of powers and of their squares, and their judgement.
//!
//! The arithmetic of a judgement stands here: host and kernel do the same operations on f64 in the same order, so that
//! their verdicts are the same.

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

/// Entries of a table of noise by its power.
pub const LEVELS: u32 = 256;

/// Fewest valid samples of a block that is judged at all.
pub const FEWEST_SAMPLES: u32 = 16;

parameters! {
    /// Moments of noise of one power after rounding to integers.
    #[derive(PartialEq)]
    pub struct Level {
        /// Mean of `|x|^2`.
        pub power: f64,
        /// Mean of `|x|^4`.
        pub square: f64,
        /// Slope of the mean of `|x|^4` by the power.
        pub slope: f64,
    }
}

impl Level {
    /// Distance of a power from this level, by the distance of the next level: 0 to 1.
    #[inline(always)]
    #[expect(clippy::manual_clamp, reason = "clamp has a panic, which kernels have none of")]
    pub fn part(self, next: Self, power: f64) -> f64 {
        let part = (power - self.power) / (next.power - self.power);
        if part < 0.0 {
            0.0
        } else if part > 1.0 {
            1.0
        } else {
            part
        }
    }

    /// Mean of `|x|^4` of noise between this level and the next, by Hermite's cubic.
    #[inline(always)]
    pub fn square(self, next: Self, part: f64) -> f64 {
        let (step, rest) = (next.power - self.power, 1.0 - part);
        let ends = self.square * rest * rest * (1.0 + 2.0 * part)
            + next.square * part * part * (1.0 + 2.0 * rest);
        ends + step * part * rest * (self.slope * rest - next.slope * part)
    }
}

/// Linear interpolation from `a` to `b`.
#[inline(always)]
pub fn between(a: f64, b: f64, part: f64) -> f64 {
    a + part * (b - a)
}

/// Excess of a block's mean squared power over that of noise, by the square of its mean power.
#[inline(always)]
pub fn statistic(samples: f64, squares: f64, square: f64, power: f64) -> f64 {
    (squares / samples - square) / (power * power)
}

parameters! {
    /// Rows of limits for blocks of one kind of noise and one number of valid samples.
    pub struct LimitRows {
        /// Valid samples; blocks with less than [`FEWEST_SAMPLES`] are not judged.
        pub samples: f64,
        /// Distance of the number of samples from that of `row`, by the distance of that of `next`: 0 to 1.
        pub beside: f64,
        /// Row of limits.
        pub row: u32,
        /// Row of limits for more samples; `row` where that is exact.
        pub next: u32,
    }
}

parameters! {
    /// Limits of the statistic of noise, as bits of f64, or [`UNKNOWN`].
    pub struct Limits {
        /// The least that is not flagged.
        pub least: u64,
        /// The most.
        pub most: u64,
    }
}

/// Bits of a limit that the host has not made.
pub const UNKNOWN: u64 = u64::MAX;

parameters! {
    /// Parameters of [`JUDGE_CELLS`]. Grid: any; the threads share the cells.
    ///
    /// The samples of a cell are words of 1, 2, 4 or 16 bytes, one sample or several that lie together.
    pub struct JudgeCells {
        /// Sums as of [`Moments::sums`].
        pub sums: u64,
        /// Result, a byte each `[block][channel][input]`: 1 is flagged.
        pub flags: u64,
        /// Class of each cell, which has rows of limits, u32 `[block][channel][input]`; or 0: cells of the last block are of class
        /// 1, all others of class 0.
        pub classes: u64,
        /// [`LimitRows`] `[kind][class]`, 8-byte aligned.
        pub rows: u64,
        /// Kind of noise of each channel, u32.
        pub kinds: u64,
        /// [`Level`] `[kind][`[`LEVELS`]`]`, ascending powers, 8-byte aligned.
        pub levels: u64,
        /// [`Limits`] `[row][`[`LEVELS`]`]`, 8-byte aligned.
        pub limits: u64,
        /// Bytes `[row][`[`LEVELS`]`]` that become 1 where a cell needs an unknown limit; the cell is not flagged then.
        pub wanted: u64,
        /// Samples that were summed: those of flagged cells become zero.
        pub samples: u64,
        /// Bytes from one block of times to the next.
        pub block_stride: u64,
        /// Bytes from one channel to the next.
        pub channel_stride: u64,
        /// Bytes from one input to the next.
        pub input_stride: u64,
        /// Bytes from one word of a cell to the next.
        pub word_stride: u64,
        /// Number of cells: blocks of times by `C` by `N`.
        pub cells: u64,
        /// `C`.
        pub channels: u32,
        /// `N`.
        pub inputs: u32,
        /// Number of classes.
        pub of_kind: u32,
        /// Words of a cell.
        pub block_words: u32,
        /// Words of a cell of the last block.
        pub last_words: u32,
        /// Bytes of a word, of which all addresses of words are multiples.
        pub word: u32,
        /// Byte of a sample that is zero.
        pub zero: u32,
        /// Zero.
        pub reserved: u32,
    }
}

kernels! { JUDGE_ENTRIES:
    /// Judges sums of blocks of samples, and gives flagged samples the value zero: a thread a cell.
    JUDGE_CELLS: Kernel<JudgeCells> = Kernel::new("kurtosis_judge", 256).min_blocks(4).sectors(8);
}

kernels! { MOMENTS_OF_BLOCKS:
    /// Sums of blocks of samples whose inputs are next to each other: a thread a result.
    MOMENTS: Kernel<Moments> = Kernel::new("kurtosis_moments", 256).min_blocks(4).sectors(8);
    /// Sums of blocks of samples whose times are next to each other: a warp a result.
    MOMENTS_ALONG_TIME: Kernel<Moments> = Kernel::new("kurtosis_moments_along_time", 256).min_blocks(6).sectors(8);
}

/// Entries of all.
pub(super) const ENTRIES: &[&[Entry]] = &[MOMENTS_OF_BLOCKS, JUDGE_ENTRIES];
