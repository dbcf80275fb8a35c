//! Samples of beams from sums, on the CPU: the rules that [`super`] states.

use half::f16;

use super::rounding::Rounding;
use crate::{channelise::shape::SpectrumEncoding, sample::Encoding};

/// Bytes of a weight, as backends take it.
pub(super) const fn weight_bytes(voltages: Encoding) -> usize {
    match voltages {
        Encoding::Cf16 => 4,
        _ => 2,
    }
}

/// The numbers of a pair of halves.
pub(super) fn half_pair(bytes: &[u8; 4]) -> [f32; 2] {
    let [a, b, c, d] = *bytes;
    [[a, b], [c, d]].map(|half| f16::from_le_bytes(half).to_f32())
}

/// Writes the sample of an integer sum, and returns whether it was clipped.
pub(super) fn integers(
    sum: [i32; 2],
    shift: u32,
    rounding: Rounding,
    output: SpectrumEncoding,
    to: &mut [u8],
) -> bool {
    if output.limit().is_some() {
        let bias = rounding.bias(shift);
        clamp(sum.map(|part| (part + bias) >> shift), output, to)
    } else {
        store(sum.map(|part| part as f32 * power_of_two(shift)), output, to)
    }
}

/// Writes the sample of an f32 sum, and returns whether it was clipped.
pub(super) fn floats(
    sum: [f32; 2],
    shift: u32,
    rounding: Rounding,
    output: SpectrumEncoding,
    to: &mut [u8],
) -> bool {
    let values = sum.map(|part| part * power_of_two(shift));
    if output.limit().is_none() {
        return store(values, output, to);
    }
    let rounded = values.map(|value| {
        let below = value.floor();
        let up = rounding == Rounding::Nearest && value - below >= 0.5;
        // No number becomes 0; the ends of i32 stay them.
        (below as i32).saturating_add(up.into())
    });
    clamp(rounded, output, to)
}

fn power_of_two(shift: u32) -> f32 {
    f32::from_bits((127 - shift) << 23)
}

/// Writes a sample of integers.
fn clamp(parts: [i32; 2], output: SpectrumEncoding, to: &mut [u8]) -> bool {
    let limit = output.limit().expect("integers");
    let clamped = parts.map(|part| part.clamp(-limit, limit));
    let [re, im] = clamped.map(|part| part as u8);
    if output == Encoding::Ci4.into() {
        to[0] = re << 4 | im & 15;
    } else {
        to.copy_from_slice(&[re, im]);
    }
    clamped != parts
}

/// Writes a sample of floats.
fn store(values: [f32; 2], output: SpectrumEncoding, to: &mut [u8]) -> bool {
    if output == SpectrumEncoding::Cf32 {
        to.copy_from_slice(bytemuck::bytes_of(&values));
        return false;
    }
    let most = f16::MAX.to_f32();
    // The clamp keeps NaN.
    let halves = values.map(|value| f16::from_f32(value.clamp(-most, most)).to_le_bytes());
    to.copy_from_slice(halves.as_flattened());
    values.iter().any(|value| value.abs() > most)
}
