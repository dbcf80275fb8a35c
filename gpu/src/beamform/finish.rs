//! From the sums of a lane to stored samples: passes, bias, shift, clamp, store (sections 5 and 6 of
//! the note).
//!
//! [`quantise`] and [`store`] make `ci4` samples of int32 sums at once, [`finish_times`] samples of any encoding of
//! sums of int32 or f32.

use crate::{
    abi::{
        beamform::{Beamform, EXCESS, pass},
        channelise::output,
    },
    isa::common::{
        add_f32, add_global_64, floor, from_i32, halves, lane, mul_f32, pack_u4, read_global_4,
        shfl_xor, store_global, store_global_2, store_global_4, store_global_8, store_global_16,
        sub_f32,
    },
    reorder::transpose,
};

/// A type of sums, which travel as 32-bit words.
pub trait Sum {
    /// `a + b`.
    fn add(a: i32, b: i32) -> i32;

    /// `sum`, with `bias` if it is an integer, shifted down by `shift`: to the nearest, halves upwards, or
    /// down. Beyond 1000 any number beyond 1000.
    fn shifted(sum: i32, bias: i32, shift: u32, nearest: bool) -> i32;

    /// `sum`, with `bias` if it is an integer, as f32.
    fn number(sum: i32, bias: i32) -> f32;

    /// An integer `sum` with `bias`, shifted down by `shift` to 16 bits and saturated there.
    fn part(sum: i32, bias: i32, shift: u32) -> i32;
}

/// int32; the bias holds the rounding.
pub struct Int32;

impl Sum for Int32 {
    #[inline(always)]
    fn add(a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }

    #[inline(always)]
    fn shifted(sum: i32, bias: i32, shift: u32, _: bool) -> i32 {
        sum.wrapping_add(bias) >> (shift & 31)
    }

    #[inline(always)]
    fn number(sum: i32, bias: i32) -> f32 {
        from_i32(sum.wrapping_add(bias))
    }

    #[inline(always)]
    fn part(sum: i32, bias: i32, shift: u32) -> i32 {
        (sum.wrapping_add(bias) >> (shift & 31)).clamp(-0x8000, 0x7fff)
    }
}

/// f32; NaN becomes integer 0.
pub struct Float32;

impl Sum for Float32 {
    #[inline(always)]
    fn add(a: i32, b: i32) -> i32 {
        add_f32(f32::from_bits(a as u32), f32::from_bits(b as u32)).to_bits() as i32
    }

    #[inline(always)]
    fn shifted(sum: i32, _: i32, shift: u32, nearest: bool) -> i32 {
        let value = mul_f32(f32::from_bits(sum as u32), power_of_two(shift));
        let below = floor(value).clamp(-2000, 2000);
        below + (nearest && sub_f32(value, from_i32(below)) >= 0.5) as i32
    }

    #[inline(always)]
    fn number(sum: i32, _: i32) -> f32 {
        f32::from_bits(sum as u32)
    }

    /// No launch of halves asks for it.
    #[inline(always)]
    fn part(sum: i32, _: i32, _: u32) -> i32 {
        sum
    }
}

/// `2^-shift`.
#[inline(always)]
fn power_of_two(shift: u32) -> f32 {
    f32::from_bits((127 - shift) << 23)
}

/// Four samples in the making: sums over all dishes of four consecutive times of one beam,
/// `[time][part]`.
pub type Quad = [[i32; 2]; 4];

/// Shifts a launch's own sums to 16 bits (eq. 19). They come and go `1 << scale` times as large; `beam` is a
/// [`Beam::of_parts`](crate::abi::beamform::Beam::of_parts).
#[inline(always)]
pub fn shift_parts<S: Sum>(quad: &mut Quad, scale: u32, beam: [u32; 4], first_shift: u32) {
    let [real_bias, imaginary_bias, ..] = beam;
    for time in 0..4 {
        let [real, imaginary] = quad[time];
        quad[time] = [
            S::part(real, real_bias as i32, first_shift) << scale,
            S::part(imaginary, imaginary_bias as i32, first_shift) << scale,
        ];
    }
}

/// Returns the step from the sum of all parts to samples (eq. 25), from a
/// [`Beam::of_parts`](crate::abi::beamform::Beam::of_parts).
#[inline(always)]
pub fn of_all_parts([_, _, shift, nearest]: [u32; 4]) -> [u32; 4] {
    let half = nearest << (shift & 31) >> 1;
    [half, half, shift, nearest]
}

/// Brings sums from `1 << scale` times their size to their own, adds what earlier launches summed over
/// other dishes, and stores the sums for later ones; `address` points to the lane's four sums.
///
/// # Safety
/// - `address` is a multiple of 16. If `pass` is not 0, 32 bytes of device memory lie there, which no other thread of the
///   launch uses; with [`pass::ADD`] they were written before the launch.
#[inline(always)]
pub unsafe fn add_passes<S: Sum>(quad: &mut Quad, scale: u32, address: u64, pass: u32) {
    for half in 0..2 {
        let address = address + 16 * half as u64;
        let mut sums = [
            quad[2 * half][0] >> scale,
            quad[2 * half][1] >> scale,
            quad[2 * half + 1][0] >> scale,
            quad[2 * half + 1][1] >> scale,
        ];
        if pass & pass::ADD != 0 {
            // SAFETY: 16 aligned bytes that an earlier launch wrote.
            let before = unsafe { read_global_4(address) };
            for word in 0..4 {
                sums[word] = S::add(sums[word], before[word] as i32);
            }
        }
        if pass & pass::KEEP != 0 {
            // SAFETY: 16 aligned bytes, this thread's alone.
            unsafe { store_global_4(address, sums.map(|sum| sum as u32)) };
        }
        quad[2 * half] = [sums[0], sums[1]];
        quad[2 * half + 1] = [sums[2], sums[3]];
    }
}

/// Four `ci4` samples, the first in the lowest byte, and how many of them were clipped (eq. 25);
/// `beam` is a [`Beam`](crate::abi::beamform::Beam) of a launch that is not general.
#[inline(always)]
pub fn quantise(quad: &Quad, beam: [u32; 4]) -> (u32, u32) {
    const MOST: i32 = 2 * EXCESS;
    let [real_bias, imaginary_bias, shift, _] = beam.map(|word| word as i32);
    let mut word = 0;
    let mut clipped = 0;
    for time in (0..4).rev() {
        // In excess of 7, where -7 to 7 are 0 to 14. Packing clamps negative values.
        let real = quad[time][0].wrapping_add(real_bias) >> shift;
        let imaginary = quad[time][1].wrapping_add(imaginary_bias) >> shift;
        clipped += (real as u32 > MOST as u32 || imaginary as u32 > MOST as u32) as u32;
        word = pack_u4(real.min(MOST), imaginary.min(MOST), word);
    }
    // No nibble is 15: one more carries nowhere, and in excess of 8 a nibble is its two's complement
    // with the sign flipped.
    (word.wrapping_add(0x1111_1111) ^ 0x8888_8888, clipped)
}

/// Makes four samples of their sums, writes the first `left` of them to `address`, and returns how many of
/// these were clipped; `beam` is a [`Beam`](crate::abi::beamform::Beam) of a general launch.
///
/// Integers are shifted and clamped. Floats are `sum * 2^-shift`, rounded to f32 when the sum becomes one;
/// of [`output::CF16`] clamped to the largest finite half, and rounded again, to the nearest even.
///
/// # Safety
/// - `address` is a multiple of 4 or of the bytes of a sample, whichever is less.
/// - `left` samples of `output`, at most four, lie there in device memory; no other thread of the launch uses them.
#[inline(always)]
unsafe fn finish<S: Sum>(quad: &Quad, beam: [u32; 4], output: u32, address: u64, left: u32) -> u32 {
    let [real_bias, imaginary_bias, shift, nearest] = beam;
    let bias = [real_bias as i32, imaginary_bias as i32];
    // A sample's words.
    let mut samples = [[0_u32; 2]; 4];
    let mut clipped = 0;
    for time in 0..4 {
        let mut beyond = false;
        if output::is_integer(output) {
            let limit = if output == output::CI8 { 127 } else { 7 };
            let mut parts = [0; 2];
            for part in 0..2 {
                let shifted = S::shifted(quad[time][part], bias[part], shift, nearest != 0);
                parts[part] = shifted.clamp(-limit, limit);
                beyond |= shifted != parts[part];
            }
            let [real, imaginary] = parts.map(|part| part as u32);
            samples[time][0] = match output {
                output::CI8 => real & 0xff | (imaginary & 0xff) << 8,
                _ => (real & 15) << 4 | imaginary & 15,
            };
        } else {
            let mut parts = [0.0; 2];
            for part in 0..2 {
                let value = mul_f32(S::number(quad[time][part], bias[part]), power_of_two(shift));
                parts[part] = value;
                if output == output::CF16 {
                    if value > MOST_HALF {
                        (parts[part], beyond) = (MOST_HALF, true);
                    }
                    if value < -MOST_HALF {
                        (parts[part], beyond) = (-MOST_HALF, true);
                    }
                }
            }
            samples[time] = match output {
                output::CF16 => [halves(parts[1], parts[0]), 0],
                _ => parts.map(f32::to_bits),
            };
        }
        clipped += (beyond && (time as u32) < left) as u32;
    }
    // SAFETY: the conditions are the same.
    unsafe { store_samples(&samples, output, address, left) };
    clipped
}

/// `finish` of the four times of a beam from `time` on, in row `row` of the samples.
///
/// # Safety
/// - `p.samples` is as [`Beamform`] says, and `row` is below its rows: `p.beam_count * p.streams`.
/// - No other thread of the launch writes these times of the row.
#[inline(always)]
pub unsafe fn finish_times<S: Sum>(
    p: &Beamform,
    quad: &Quad,
    beam: [u32; 4],
    row: u64,
    time: u32,
) -> u32 {
    let place = time as u64 * output::bytes(p.output) as u64;
    let address = p.samples + row * p.sample_pitch + place;
    // SAFETY: samples of the row, no more of them than it has from `time` on.
    unsafe { finish::<S>(quad, beam, p.output, address, p.times.saturating_sub(time)) }
}

/// The largest finite half.
const MOST_HALF: f32 = 65504.0;

/// Writes the first `left` of four samples: together where there are four and the address allows it.
///
/// # Safety
/// - `address` is a multiple of 4 or of the bytes of a sample, whichever is less.
/// - `left` samples of `output`, at most four, lie there in device memory; no other thread of the launch uses them.
#[inline(always)]
unsafe fn store_samples(samples: &[[u32; 2]; 4], output: u32, address: u64, left: u32) {
    let [[a, _], [b, _], [c, _], [d, _]] = *samples;
    let bytes = 4 * output::bytes(output);
    let unit = if bytes < 16 { bytes } else { 16 };
    let together = left >= 4 && address & (unit as u64 - 1) == 0;
    // SAFETY: the first `left` samples; all four at once only where they are there, and aligned for it.
    unsafe {
        if !together {
            for time in 0..4 {
                if (time as u32) < left {
                    let address = address + time as u64 * output::bytes(output) as u64;
                    let [low, high] = samples[time];
                    match output {
                        output::CF32 => {
                            store_global(address, low);
                            store_global(address + 4, high);
                        }
                        output::CF16 => store_global(address, low),
                        output::CI8 => store_global_16(address, low as u16),
                        _ => store_global_8(address, low),
                    }
                }
            }
            return;
        }
        match output {
            output::CF32 => {
                for half in 0..2 {
                    let [[a, b], [c, d]] = [samples[2 * half], samples[2 * half + 1]];
                    store_global_4(address + 16 * half as u64, [a, b, c, d]);
                }
            }
            output::CF16 => store_global_4(address, [a, b, c, d]),
            output::CI8 => store_global_2(address, [a | b << 16, c | d << 16]),
            _ => store_global(address, a | b << 8 | c << 16 | d << 24),
        }
    }
}

/// Section 6 of the note for a unit of 64 times: word `i` of a lane has the times `16 i + 8 (b / 2) + 2 (lane % 4)
/// + b % 2` of a beam in its bytes `b`; it becomes the times `16 (lane % 4) + 4 i + b`. Four shuffles, 16 selections, four
/// `prmt`.
///
/// Warp-wise: all lanes together.
#[inline(always)]
pub fn consecutive([a, b, c, d]: [u32; 4]) -> [u32; 4] {
    // tau5 with lane bit 1, tau4 with lane bit 0: in the registers are tau2 and tau1 then.
    let ([a, c], [b, d]) = (transpose::lanes::<2>([a, c]), transpose::lanes::<2>([b, d]));
    let ([a, b], [c, d]) = (transpose::lanes::<1>([a, b]), transpose::lanes::<1>([c, d]));
    // tau3, in byte bit 1, with tau1.
    let ([a, b], [c, d]) = (transpose::halves([a, b]), transpose::halves([c, d]));
    [a, c, b, d]
}

/// Writes a lane's `ci4` samples of a unit, `WORDS` words from `time` on, to the row at `row`.
///
/// # Safety
/// - `row` is the address of `times` bytes of device memory.
/// - No other thread of the launch writes the bytes from `time` on, `4 WORDS` of them.
/// - `WORDS` is 1, 2 or 4.
#[inline(always)]
pub unsafe fn store<const WORDS: usize>(row: u64, time: u32, times: u32, words: &[u32; 4]) {
    let address = row + time as u64;
    let bytes = 4 * WORDS as u32;
    if time + bytes <= times && (address as u32).is_multiple_of(bytes) {
        // SAFETY: bytes of the row, aligned to their number.
        unsafe {
            match WORDS {
                4 => store_global_4(address, *words),
                2 => store_global_2(address, [words[2], words[3]]),
                _ => store_global(address, words[3]),
            }
        }
    } else {
        for byte in 0..4 * WORDS {
            if time + (byte as u32) < times {
                let value = words[4 - WORDS + byte / 4] >> (8 * (byte % 4));
                // SAFETY: a byte of the row.
                unsafe { store_global_8(address + byte as u64, value) };
            }
        }
    }
}

/// Adds a lane's clipped samples, a number for each of its beams, to those of `stream`, and starts again from none.
///
/// # Safety
/// - All 32 lanes of the warp call it together, with the same `stream` and as many beams; lanes that differ by less than
///   four with the same beams.
/// - `stream` is below `p.streams`. `p.clipped` is 8-byte aligned device memory, a u64 for each stream and beam, to which
///   the launch only adds.
#[inline(always)]
pub unsafe fn add_clipped(
    p: &Beamform,
    stream: u32,
    clipped: &mut [u32],
    lane_beam: impl Fn(usize) -> u32,
) {
    for index in 0..clipped.len() {
        // Four lanes share a beam.
        let mut count = clipped[index];
        count += shfl_xor::<1>(count);
        count += shfl_xor::<2>(count);
        let beam = lane_beam(index);
        if count > 0 && lane().is_multiple_of(4) && beam < p.beam_count {
            let place = stream as u64 * p.beam_count as u64 + beam as u64;
            // SAFETY: the count of a beam of the stream, which is only added to.
            unsafe { add_global_64(p.clipped + 8 * place, count as u64) };
        }
        clipped[index] = 0;
    }
}
