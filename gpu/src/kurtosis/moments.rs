//! Sums of powers and of their squares: `S1 = sum |x|^2`, `S2 = sum |x|^4` over blocks of times of every channel and
//! input.
//!
//! Lanes go along what lies together: inputs, of which each lane takes all times of a block, or times, of which the
//! lanes' sums are added up in the end.
//!
//! Bound by memory: each sample is read once.

use core::num::NonZeroU64;

use crate::{
    abi::kurtosis::Moments,
    isa::common::{
        block, blocks, dp4a, lane, load_global_8, load_global_16, shfl_xor, store_global_64,
        thread, threads,
    },
    tile::divisor,
};

/// `|x|^2` of the sample at `address`.
///
/// # Safety
/// A sample is there.
#[inline(always)]
unsafe fn power(p: &Moments, address: u64) -> u32 {
    // SAFETY: the caller's promise; addresses of int8 pairs are even.
    unsafe {
        if p.sample_bytes == 2 {
            let sample = load_global_16(address);
            return dp4a(sample, sample, 0) as u32;
        }
        let sample = load_global_8(address) ^ p.flip;
        // Nibbles in the upper halves of bytes are int8 sixteen times as large.
        let parts = (sample & 0xf0) | (sample << 12 & 0xf000);
        dp4a(parts, parts, 0) as u32 / 256
    }
}

/// A sum over all lanes.
///
/// Warp-wise: all lanes together.
#[inline(always)]
fn over_lanes(mut sum: u64) -> u64 {
    macro_rules! add {
        ($($mask:literal)*) => {$(
            let low = shfl_xor::<$mask>(sum as u32);
            let high = shfl_xor::<$mask>((sum >> 32) as u32);
            sum += (high as u64) << 32 | low as u64;
        )*};
    }
    add!(16 8 4 2 1);
    sum
}

/// The whole of a worker's work: result after result from `first` on, of which it reads times `skip`, `skip + lanes`
/// and so on.
///
/// # Safety
/// The conditions of the kernels hold.
#[inline(always)]
unsafe fn results<const LANES: u32>(p: &Moments, first: u64, workers: u64) {
    let inputs = NonZeroU64::from(divisor(p.inputs));
    let channels = NonZeroU64::from(divisor(p.channels));
    let all = p.times.div_ceil(divisor(p.block_times).get()) as u64 * channels.get() * inputs.get();
    let skip = if LANES == 1 { 0 } else { lane() };
    let mut result = first;
    while result < all {
        let (rest, input) = (result / inputs, result % inputs);
        let (number, channel) = (rest / channels, rest % channels);
        let from = number as u32 * p.block_times;
        let left = p.times - from;
        let times = if left < p.block_times { left } else { p.block_times };
        let source = p.samples
            + channel * p.channel_stride
            + input * p.input_stride
            + from as u64 * p.time_stride;
        let (mut sum, mut squares) = (0, 0);
        let mut time = skip;
        while time < times {
            // SAFETY: a sample of the block.
            let power = unsafe { power(p, source + time as u64 * p.time_stride) } as u64;
            sum += power;
            squares += power * power;
            time += LANES;
        }
        if LANES > 1 {
            (sum, squares) = (over_lanes(sum), over_lanes(squares));
        }
        if skip == 0 {
            // SAFETY: the result's place.
            unsafe {
                store_global_64(p.sums + 16 * result, sum);
                store_global_64(p.sums + 16 * result + 8, squares);
            }
        }
        result += workers;
    }
}

kernel! {
    /// Sums of samples whose inputs are next to each other.
    fn kurtosis_moments(p: Moments) {
        let first = block() as u64 * threads() as u64 + thread() as u64;
        results::<1>(&p, first, blocks() as u64 * threads() as u64)
    }
}

kernel! {
    /// Sums of samples whose times are next to each other.
    fn kurtosis_moments_along_time(p: Moments) {
        let warps = threads() / 32;
        let first = block() as u64 * warps as u64 + (thread() / 32) as u64;
        results::<32>(&p, first, blocks() as u64 * warps as u64)
    }
}
