//! Sums of floating products by the published models of matrix units.
//!
//! The models of the A100 and the H100 take a block of products at a time. Products are exact and not normalised: their
//! exponent is the sum of the exponents of both factors. All addends, the sum so far among them, are aligned to the largest
//! exponent, keep some bits beyond the 23 of a fraction of single precision and lose the rest; they are added exactly; the
//! block's sum is truncated to single precision, or rounded to the nearest number of half precision.
//!
//! | | A100 | H100 |
//! |---|---|---|
//! | products of a block, f16 and bf16 | 8 | 16 |
//! | products of a block, tf32 | 4 | 8 |
//! | bits beyond 23 | 1 | 2 |
//! | least exponent to align to, f32 | -132 | -133 |
//! | least exponent to align to, f16 | -20 | -21 |
//!
//! Sources:
//! - Khattak and Mikaitis, "Accurate models of NVIDIA tensor cores" (arXiv 2512.07004), with the parameters of their models
//!   (github.com/north-numerical-computing/MATLAB-tensor-core, `A100TC.m`, `H100TC.m`): all numbers of the table.
//! - Xie et al., "MMA-Sim" (arXiv 2511.10909; github.com/microsoft/MMA-Sim, `nv_ptx.py`): blocks, bits, factors that are
//!   not normalised, truncation for f32, nearest for f16, the NaN; the same. It has no least exponent, and
//!   aligns a zero as if its exponent were -126.
//! - "Hawkeye" (arXiv 2603.20421; github.com/badasherez/gpu-simulator): groups of 9 and 17 addends, the sum so far
//!   among them, with 24 and 25 bits, for f16 and bf16: the same.

use half::f16;

use crate::program::{Element, MmaKind};
use crate::syntax::ast::Type;

/// Rounding of the sums of floating products in matrix units. Sums of integers and of bits are exact in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tensor {
    /// `mma.sync` much as Ampere sums, `wgmma` as Hopper does: addends are aligned to the largest of their values.
    #[default]
    Instruction,
    /// The exact sum of an instruction, rounded once to the nearest.
    Exact,
    /// An A100's. `wgmma`, which it lacks, sums as on an H100.
    A100,
    /// An H100's.
    H100,
}

impl Tensor {
    /// Names of the models that can be asked for.
    pub const NAMES: [(&'static str, Self); 3] =
        [("exact", Self::Exact), ("a100", Self::A100), ("h100", Self::H100)];
}

/// Bits of the fraction of single precision.
const FRACTION: i32 = 23;
/// NaN of a matrix unit: MMA-Sim.
const NAN: f32 = f32::from_bits(0x7fff_ffff);

/// Model of a chip for one instruction.
#[derive(Debug, Clone, Copy)]
struct Chip {
    /// Products of a block.
    products: usize,
    /// Bits that aligned addends keep beyond those of single precision.
    bits: i32,
    /// Least exponent to align to.
    least: i32,
}

impl Chip {
    fn of(tensor: Tensor, kind: &MmaKind) -> Self {
        let bytes = (kind.a.bits() / 8) as usize;
        let of_half = kind.accumulator == Type::F16;
        if tensor == Tensor::A100 && kind.m != 64 {
            Self { products: 16 / bytes, bits: 1, least: if of_half { -20 } else { -132 } }
        } else {
            Self { products: 32 / bytes, bits: 2, least: if of_half { -21 } else { -133 } }
        }
    }
}

/// Adds the products of `row` and `column` to a sum of the accumulator's type.
pub(super) fn add(tensor: Tensor, kind: &MmaKind, sum: f32, row: &[f32], column: &[f32]) -> f32 {
    let of_half = kind.accumulator == Type::F16;
    if tensor == Tensor::Exact {
        let sum = exact(sum, row, column);
        return if of_half { half(sum).to_f32() } else { sum as f32 };
    }
    let chip = Chip::of(tensor, kind);
    let least = [least_exponent(kind.a), least_exponent(kind.b)];
    let start = if of_half { -14 } else { -126 };
    let blocks = row.chunks(chip.products).zip(column.chunks(chip.products));
    blocks.fold(sum, |sum, (row, column)| {
        let pairs = row.iter().zip(column);
        let plain: f64 = pairs.clone().map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
        let plain = plain + f64::from(sum);
        if !plain.is_finite() {
            return if plain.is_nan() { NAN } else { plain as f32 };
        }
        let products = pairs.map(|(&a, &b)| {
            let ((a, of_a), (b, of_b)) = (parts(a, least[0]), parts(b, least[1]));
            (a * b, of_a + of_b, 2 * FRACTION)
        });
        let (first, exponent) = parts(sum, start);
        let addends = products.chain([(first, exponent, FRACTION)]);
        let addends = addends.filter(|&(value, ..)| value != 0);
        let largest = addends.clone().map(|(_, exponent, _)| exponent).max();
        let largest = largest.map_or(chip.least, |largest| largest.max(chip.least));
        let kept = FRACTION + chip.bits;
        let total: i64 = addends
            .map(|(value, exponent, fraction)| {
                let shift = fraction - kept + largest - exponent;
                let size = value.unsigned_abs();
                let size = if shift < 0 {
                    size << -shift
                } else {
                    size.checked_shr(shift as u32).unwrap_or(0)
                };
                value.signum() * size as i64
            })
            .sum();
        let total = total as f64 * f64::from(largest - kept).exp2();
        if of_half { half(total).to_f32() } else { truncate(total) }
    })
}

/// Least exponent of the normal numbers of a type.
fn least_exponent(element: Element) -> i32 {
    if element == Element::F16 { -14 } else { -126 }
}

/// Significand, with [`FRACTION`] bits behind the point, and exponent of a number of a type whose normal numbers have
/// exponents from `least` on.
fn parts(value: f32, least: i32) -> (i64, i32) {
    let bits = value.to_bits();
    let (field, fraction) = ((bits >> FRACTION & 0xff) as i32, i64::from(bits & 0x7f_ffff));
    let (size, exponent) =
        if field == 0 { (fraction, -126) } else { (fraction | 1 << FRACTION, field - 127) };
    let below = (least - exponent).clamp(0, 63);
    let size = size >> below;
    (if bits >> 31 == 1 { -size } else { size }, exponent + below)
}

/// The sum of exact products, rounded to odd: a further rounding to fewer bits rounds the exact sum.
fn exact(sum: f32, row: &[f32], column: &[f32]) -> f64 {
    let products = row.iter().zip(column).map(|(&a, &b)| f64::from(a) * f64::from(b));
    let addends = products.chain([f64::from(sum)]);
    let plain: f64 = addends.clone().sum();
    if !plain.is_finite() {
        return plain;
    }
    // Numbers that do not overlap, the largest last: Shewchuk, "Adaptive precision floating-point arithmetic" (1997).
    let mut parts: Vec<f64> = Vec::new();
    for mut addend in addends {
        let mut kept = 0;
        for at in 0..parts.len() {
            let (high, low) = two_sum(addend, parts[at]);
            if low != 0.0 {
                parts[kept] = low;
                kept += 1;
            }
            addend = high;
        }
        parts.truncate(kept);
        parts.push(addend);
    }
    let mut total = 0.0;
    while let Some(part) = parts.pop() {
        let (high, low) = two_sum(total, part);
        total = high;
        if low != 0.0 {
            let odd = total.to_bits() & 1 == 1;
            let away = (low > 0.0) == (total > 0.0);
            let step = if away { 1 } else { u64::MAX };
            return if odd { total } else { f64::from_bits(total.to_bits().wrapping_add(step)) };
        }
    }
    total
}

/// Sum of two numbers and its rounding error: Knuth.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// The number of half precision nearest to `value`; unlike [`f16::from_f64`], rounded once on every machine.
pub(super) fn half(value: f64) -> f16 {
    let toward_zero = truncate(value);
    let odd = toward_zero.is_finite() && f64::from(toward_zero) != value;
    f16::from_f32(f32::from_bits(toward_zero.to_bits() | u32::from(odd)))
}

/// The number of single precision next to `value`, toward zero; infinity stays.
pub(super) fn truncate(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest).abs() > value.abs() && nearest.is_finite() {
        f32::from_bits(nearest.to_bits() - 1)
    } else {
        nearest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::BitOp;

    fn kind(m: u32, accumulator: Type) -> MmaKind {
        let (a, b) = (Element::F16, Element::F16);
        MmaKind { m, n: 8, k: 16, a, b, accumulator, saturate: false, bit_op: BitOp::And }
    }

    /// `wgmma` sums as an H100 does, whatever chip is asked for.
    #[test]
    fn wgmma_is_of_one_chip() {
        let quarter = f32::EPSILON / 4.0;
        let (row, column) = ([1.0; 16], [quarter; 16]);
        for (m, a100) in [(16, 1.0), (64, 1.0 + 4.0 * f32::EPSILON)] {
            let kind = kind(m, Type::F32);
            assert_eq!(add(Tensor::A100, &kind, 1.0, &row, &column), a100);
            assert_eq!(add(Tensor::H100, &kind, 1.0, &row, &column), 1.0 + 4.0 * f32::EPSILON);
        }
    }

    /// Two products of subnormal halves, as an H200 added them (driver 580.159.04, 2026-11-28): their exponents are those of
    /// the halves, so that bits are lost which single precision has.
    #[test]
    fn subnormal_halves_are_not_normalised() {
        let unit = 2.0_f32.powi(-24);
        let (mut row, mut column) = ([0.0; 16], [0.0; 16]);
        (row[0], row[1]) = (-69.0 * unit, 27.0 * unit);
        (column[0], column[1]) = (-2.4609375, 1439.0 * unit);
        let kind = kind(16, Type::F32);
        assert_eq!(add(Tensor::H100, &kind, 0.0, &row, &column), 1.0121283e-5);
        assert_eq!(add(Tensor::Exact, &kind, 0.0, &row, &column), 1.0121286e-5);
        (row[0], row[1]) = (27.0 * unit, 69.0 * unit);
        assert_eq!(add(Tensor::H100, &kind, 0.0, &row, &column), -3.9601e-6);
    }

    #[test]
    fn exact_sums_are_rounded_once() {
        let sum =
            |addends: &[f32]| exact(addends[0], &addends[1..], &vec![1.0; addends.len()]) as f32;
        let (half, tiny) = (f32::EPSILON / 2.0, 2.0_f32.powi(-120));
        assert_eq!(sum(&[1.0, half]), 1.0);
        assert_eq!(sum(&[1.0, half, tiny]), 1.0 + f32::EPSILON);
        assert_eq!(sum(&[1.0, tiny, half]), 1.0 + f32::EPSILON);
        assert_eq!(sum(&[-1.0, -half, -tiny]), -1.0 - f32::EPSILON);
        assert_eq!(sum(&[1.0 + f32::EPSILON, half, -tiny]), 1.0 + f32::EPSILON);
        let large = 2.0_f32.powi(120);
        assert_eq!(sum(&[large, 1.0, -large, tiny]), 1.0);
        assert_eq!(sum(&[large, tiny, -large]), tiny);
    }

    /// A sum just below the middle of two numbers of half precision, which single precision takes for the middle.
    #[test]
    fn halves_are_rounded_once() {
        let (one, half_unit) = (f16::ONE, 2.0_f64.powi(-11));
        assert_eq!(half(1.0 + half_unit), one);
        assert_eq!(half(1.0 + half_unit + 2.0_f64.powi(-40)).to_bits(), one.to_bits() + 1);
        assert_eq!(half(1.0 + 3.0 * half_unit - 2.0_f64.powi(-40)).to_bits(), one.to_bits() + 1);
        assert_eq!(half(-1.0 - half_unit - 2.0_f64.powi(-40)), f16::from_bits(0xbc01));
        assert_eq!(half(1e9), f16::INFINITY);
        assert_eq!(half(2.0_f64.powi(-25) + 2.0_f64.powi(-60)).to_bits(), 1);
    }
}
