//! From bins to values of spectra: gain, rotation, quantisation.

use crate::{
    abi::channelise::{
        Channelise, Complex, MISSING, Real, SpectrumStart, multiply, output, quadrant, rotation,
        turned,
    },
    isa::common::{
        from_i32, halves, load_global_2, round, store_global, store_global_2, store_global_8,
        store_global_16,
    },
};

/// The place of a spectrum of an input.
///
/// # Safety
/// - The launch keeps the conditions of [`Channelise`].
/// - `input` is below `p.inputs` and `spectrum` below `p.count`.
#[inline(always)]
pub unsafe fn place(p: &Channelise, input: u32, spectrum: u32) -> SpectrumStart {
    if p.places == 0 {
        let first = p.origin + spectrum as u64 * p.hop as u64;
        return SpectrumStart { first: first as i64, phase: 0, slope: 0 };
    }
    let address = p.places
        + (input as u64 * p.count as u64 + spectrum as u64) * size_of::<SpectrumStart>() as u64;
    // SAFETY: a place that is there, 8-byte aligned.
    let word = |index: u64| unsafe {
        let [low, high] = load_global_2(address + 8 * index);
        (high as u64) << 32 | low as u64
    };
    SpectrumStart { first: word(0) as i64, phase: word(1), slope: word(2) }
}

/// The channel of bin `k`, and its frequency in channels.
#[inline(always)]
fn channel(p: &Channelise, k: u32) -> (u32, i32) {
    // The frequency of the samples, and of the first channel there.
    let negative = p.complex != 0 && k >= p.size / 2;
    let frequency = if negative { k as i32 - p.size as i32 } else { k as i32 };
    let lowest = if p.complex != 0 { -(p.size as i32 / 2) } else { 0 };
    let channel = (frequency - lowest) as u32;
    if p.inverted != 0 { (p.size - 1 - channel, -frequency) } else { (channel, frequency) }
}

/// The gain of a channel of an input.
///
/// # Safety
/// - The launch keeps the conditions of [`Channelise`].
/// - `input` is below `p.inputs` and `channel` below `p.size`.
#[inline(always)]
pub unsafe fn gain(p: &Channelise, input: u32, channel: u32) -> Complex<f32> {
    let index = input as u64 * p.gain_pitch as u64 + (channel * p.gain_stride) as u64;
    // SAFETY: a gain that is there, 8-byte aligned.
    unsafe { load_global_2(p.gains + 8 * index).map(f32::from_bits) }
}

/// Stores bin `k` of a spectrum, after gain and rotation, and says whether it was clipped.
///
/// # Safety
/// - The launch keeps the conditions of [`Channelise`].
/// - `input` is below `p.inputs`, `spectrum` below `p.count`, `k` below `p.size`.
/// - No other thread of the launch stores this value.
#[inline(always)]
pub unsafe fn store(
    p: &Channelise,
    input: u32,
    spectrum: u32,
    k: u32,
    place: &SpectrumStart,
    bin: Complex<f32>,
) -> bool {
    let (channel, frequency) = channel(p, k);
    let index = spectrum as u64 * p.spectrum_stride
        + channel as u64 * p.channel_stride
        + input as u64 * p.value_stride;
    let bin = if p.inverted != 0 { [bin[0], bin[1].neg()] } else { bin };
    // SAFETY: a gain that is there, and a value of the spectra that this thread alone stores.
    unsafe {
        let mut value = multiply(bin, gain(p, input, channel));
        if p.turned != 0 {
            let turn = place.phase.wrapping_add(place.slope.wrapping_mul(frequency as i64 as u64));
            let (quarters, rest) = quadrant((turn >> 32) as u32);
            value = multiply(value, turned(rotation(from_i32(rest)), quarters));
        }
        if place.first == MISSING {
            value = [0.0; 2];
        }
        let limit = if p.output == output::CI8 { 127 } else { 7 };
        let whole = value.map(round);
        let clamped = whole.map(|part| part.clamp(-limit, limit));
        match p.output {
            output::CI8 => {
                let packed = clamped[0] as u32 & 0xff | (clamped[1] as u32 & 0xff) << 8;
                store_global_16(p.spectra + 2 * index, packed as u16);
            }
            output::CI4 => {
                let packed = (clamped[0] as u32 & 15) << 4 | clamped[1] as u32 & 15;
                store_global_8(p.spectra + index, packed);
            }
            output::CI4_OFFSET => {
                let packed = ((clamped[0] + 8) << 4 | (clamped[1] + 8)) as u32;
                store_global_8(p.spectra + index, packed);
            }
            output::CF16 => {
                store_global(p.spectra + 4 * index, halves(value[1], value[0]));
                return false;
            }
            _ => {
                store_global_2(p.spectra + 8 * index, value.map(f32::to_bits));
                return false;
            }
        }
        clamped[0] != whole[0] || clamped[1] != whole[1]
    }
}
