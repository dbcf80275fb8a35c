//! Sums of powers and of their squares: `S1 = sum |x|^2`, `S2 = sum |x|^4` over blocks of times of every channel and
//! input.
//!
//! Samples that lie together are read several at once: of four inputs, whose sums a lane keeps beside each other, or of sixteen
//! bytes of times, whose lanes' sums are added up in the end. Samples that do not begin at such addresses are read one by one.
//!
//! Two int8 samples of a word need two `dp4a` for their powers, and each a 64-bit multiplication and addition for the square. Nibbles
//! become int8 sixteen times as large in pairs, with sums 2^8 and 2^16 times as large.
//!
//! Bound by memory for int8: each sample is read once. Nibbles need 5 integer instructions a byte.

use core::num::NonZeroU64;

use crate::{
    abi::kurtosis::Moments,
    isa::common::{
        block, blocks, dp4a, lane, load_global, load_global_2, load_global_4, load_global_8,
        load_global_16, prmt, shfl_xor, store_global_64, thread, threads,
    },
    tile::divisor,
};

/// Sum of powers and sum of their squares, in units of 1 and 1, or of 2^-8 and 2^-16.
#[derive(Clone, Copy)]
struct Sums {
    powers: u32,
    squares: u64,
}

impl Sums {
    const NONE: Self = Self { powers: 0, squares: 0 };

    /// With one power more. The sum of 65,536 powers of at most 2^15 fits 32 bits.
    #[inline(always)]
    fn and(self, power: u32) -> Self {
        Self {
            powers: self.powers.wrapping_add(power),
            squares: self.squares + power as u64 * power as u64,
        }
    }

    /// With the powers of two samples of int8 parts, one in either half of a word.
    #[inline(always)]
    fn and_both(self, pair: u32) -> Self {
        let [low, high] = powers(pair);
        self.and(low).and(high)
    }

    /// Stores the sums of a result.
    ///
    /// # Safety
    /// - `address` is the place of a result in `p.sums`, which no other thread stores.
    #[inline(always)]
    unsafe fn store(self, p: &Moments, address: u64) {
        let scale = if p.sample_bytes == 2 { 0 } else { 8 };
        // SAFETY: two aligned sums, this thread's.
        unsafe {
            store_global_64(address, (self.powers >> scale) as u64);
            store_global_64(address + 8, self.squares >> (2 * scale));
        }
    }
}

/// `|x|^2` of the samples of int8 parts in the lower and the upper half of a word.
#[inline(always)]
fn powers(pair: u32) -> [u32; 2] {
    [dp4a(pair, pair & 0xffff, 0) as u32, dp4a(pair, pair & 0xffff_0000, 0) as u32]
}

/// Samples of four bytes of nibbles as int8 parts sixteen times as large: of the lower two bytes, and of the upper two.
#[inline(always)]
fn widen(nibbles: u32) -> [u32; 2] {
    let (real, imaginary) = (nibbles & 0xf0f0_f0f0, nibbles << 4 & 0xf0f0_f0f0);
    [prmt::<0x5140>(real, imaginary), prmt::<0x7362>(real, imaginary)]
}

/// `|x|^2` of the sample at `address`, in the units of [`Sums`].
///
/// # Safety
/// - `address` is the address of a sample of the launch.
#[inline(always)]
unsafe fn power(p: &Moments, address: u64) -> u32 {
    // SAFETY: a sample that is there; addresses of int8 pairs are even.
    unsafe {
        if p.sample_bytes == 2 {
            return powers(load_global_16(address))[0];
        }
        powers(widen(load_global_8(address) ^ p.flip)[0])[0]
    }
}

/// Part of the samples, from which a result comes: the address of its first, and the number of its times.
///
/// Results are `[block][channel][input]`, or of groups of inputs; `all` of them.
#[inline(always)]
fn part(p: &Moments, result: u64, all: u64, inputs: NonZeroU64, of_group: u64) -> (u64, u32) {
    let channels = NonZeroU64::from(divisor(p.channels));
    let (rest, input) = split(result, inputs, all);
    let (number, channel) = split(rest, channels, all);
    let from = number as u32 * p.block_times;
    let left = p.times - from;
    let times = if left < p.block_times { left } else { p.block_times };
    let address = p.samples
        + channel * p.channel_stride
        + input * of_group * p.input_stride
        + from as u64 * p.time_stride;
    (address, times)
}

/// Quotient and rest, by 32 bits where `all`, which `number` is below, allow it: 64 take several times as long.
#[inline(always)]
pub(super) fn split(number: u64, by: NonZeroU64, all: u64) -> (u64, u64) {
    if all <= u32::MAX as u64 {
        let by = divisor(by.get() as u32);
        return ((number as u32 / by) as u64, (number as u32 % by) as u64);
    }
    (number / by, number % by)
}

/// Number of blocks of times, by channels.
#[inline(always)]
fn blocks_and_channels(p: &Moments) -> u64 {
    p.times.div_ceil(divisor(p.block_times).get()) as u64 * divisor(p.channels).get() as u64
}

/// Two words of int8 parts: four samples at `address`.
///
/// # Safety
/// - `address` is the address of four samples of the launch, side by side, at a multiple of their bytes.
#[inline(always)]
unsafe fn four_samples(p: &Moments, address: u64, flip: u32) -> [u32; 2] {
    // SAFETY: one aligned load of four samples, which are there.
    unsafe {
        if p.sample_bytes == 2 {
            return load_global_2(address);
        }
        widen(load_global(address) ^ flip)
    }
}

/// Adds the powers of four samples, each to its sums.
#[inline(always)]
fn add([a, b, c, d]: [Sums; 4], words: [u32; 2]) -> [Sums; 4] {
    let ([pa, pb], [pc, pd]) = (powers(words[0]), powers(words[1]));
    [a.and(pa), b.and(pb), c.and(pc), d.and(pd)]
}

/// Sums of inputs one by one: a thread a result.
///
/// # Safety
/// - All threads of the grid call it, once, in a launch that keeps the conditions of [`Moments`], each with its own `first`
///   below the same `workers`.
#[inline(always)]
unsafe fn single_inputs(p: &Moments, first: u64, workers: u64) {
    let inputs = NonZeroU64::from(divisor(p.inputs));
    let all = blocks_and_channels(p) * inputs.get();
    let mut result = first;
    while result < all {
        let (address, times) = part(p, result, all, inputs, 1);
        let (mut sums, mut time) = (Sums::NONE, 0);
        while time < times {
            // SAFETY: a sample of the block.
            sums = sums.and(unsafe { power(p, address + time as u64 * p.time_stride) });
            time += 1;
        }
        // SAFETY: the result's place.
        unsafe { sums.store(p, p.sums + 16 * result) };
        result += workers;
    }
}

kernel! {
    /// Sums of samples whose inputs are next to each other.
    fn kurtosis_moments(p: Moments) {
        let first = block() as u64 * threads() as u64 + thread() as u64;
        let workers = blocks() as u64 * threads() as u64;
        let bytes = p.inputs as u64 * p.sample_bytes as u64;
        let of_group = 4 * p.sample_bytes as u64;
        let together = (p.samples | p.channel_stride | p.time_stride | bytes) & (of_group - 1) == 0;
        if !together || p.input_stride != p.sample_bytes as u64 {
            single_inputs(&p, first, workers);
            return;
        }
        let groups = NonZeroU64::from(divisor(p.inputs / 4));
        let all = blocks_and_channels(&p) * groups.get();
        let (flip, step) = (p.flip * 0x0101_0101, p.time_stride);
        let mut result = first;
        while result < all {
            let (mut address, times) = part(&p, result, all, groups, 4);
            let (mut sums, mut time) = ([Sums::NONE; 4], 0);
            // Four loads are under way at once.
            while time + 4 <= times {
                let a = four_samples(&p, address, flip);
                let b = four_samples(&p, address + step, flip);
                let c = four_samples(&p, address + 2 * step, flip);
                let d = four_samples(&p, address + 3 * step, flip);
                sums = add(add(add(add(sums, a), b), c), d);
                address += 4 * step;
                time += 4;
            }
            while time < times {
                sums = add(sums, four_samples(&p, address, flip));
                address += step;
                time += 1;
            }
            let [a, b, c, d] = sums;
            let place = p.sums + 64 * result;
            a.store(&p, place);
            b.store(&p, place + 16);
            c.store(&p, place + 32);
            d.store(&p, place + 48);
            result += workers;
        }
    }
}

/// Lanes that share a result where sixteen bytes are read at once.
const LANES: u32 = 8;

/// Adds up the sums of [`LANES`] lanes.
///
/// Warp-wise: all lanes together.
#[inline(always)]
fn over_lanes(mut sums: Sums) -> Sums {
    macro_rules! add {
        ($($mask:literal)*) => {$(
            sums.powers = sums.powers.wrapping_add(shfl_xor::<$mask>(sums.powers));
            let low = shfl_xor::<$mask>(sums.squares as u32);
            let high = shfl_xor::<$mask>((sums.squares >> 32) as u32);
            sums.squares += (high as u64) << 32 | low as u64;
        )*};
    }
    add!(4 2 1);
    sums
}

kernel! {
    /// Sums of samples whose times are next to each other: eight lanes a result.
    fn kurtosis_moments_along_time(p: Moments) {
        let inputs = NonZeroU64::from(divisor(p.inputs));
        let all = blocks_and_channels(&p) * inputs.get();
        let of_warp = 32 / LANES as u64;
        let workers = blocks() as u64 * (threads() / 32) as u64 * of_warp;
        let own = lane() % LANES;
        let mut first = (block() as u64 * (threads() / 32) as u64 + (thread() / 32) as u64) * of_warp;
        let flip = p.flip * 0x0101_0101;
        let bytes = p.sample_bytes;
        let block = p.block_times as u64 * bytes as u64;
        let strides = p.samples | p.channel_stride | p.input_stride | block;
        let together = strides & 15 == 0 && p.time_stride == bytes as u64;
        // Lanes of a warp stay together: the sums of a result that is not there are not stored.
        while first < all {
            let result = first + (lane() / LANES) as u64;
            let there = result < all;
            let (address, times) = part(&p, if there { result } else { all - 1 }, all, inputs, 1);
            let mut sums = Sums::NONE;
            let mut time = 0;
            if together {
                let of_load = 16 / divisor(bytes).get();
                time = times / divisor(of_load).get() * of_load;
                let mut at = own * of_load;
                while at < time {
                    // SAFETY: sixteen bytes of the row.
                    let [a, b, c, d] = load_global_4(address + at as u64 * bytes as u64);
                    if bytes == 2 {
                        sums = sums.and_both(a).and_both(b).and_both(c).and_both(d);
                    } else {
                        let ([a0, a1], [b0, b1]) = (widen(a ^ flip), widen(b ^ flip));
                        let ([c0, c1], [d0, d1]) = (widen(c ^ flip), widen(d ^ flip));
                        sums = sums.and_both(a0).and_both(a1).and_both(b0).and_both(b1);
                        sums = sums.and_both(c0).and_both(c1).and_both(d0).and_both(d1);
                    }
                    at += LANES * of_load;
                }
            }
            time += own;
            while time < times {
                // SAFETY: a sample of the block.
                sums = sums.and(power(&p, address + time as u64 * p.time_stride));
                time += LANES;
            }
            sums = over_lanes(sums);
            if there && own == 0 {
                // SAFETY: the result's place.
                sums.store(&p, p.sums + 16 * result);
            }
            first += workers;
        }
    }
}
