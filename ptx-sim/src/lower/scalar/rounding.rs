//! Directed rounding: the nearest number first, then one step where the exact result lies on the other side.
//!
//! Sums and products of single precision are exact in double precision but for a last bit that is kept odd;
//! double precision takes the sign of the error from transformations without error (Knuth 1969; Boldo and
//! Muller, "Exact and Approximated Error of the FMA", 2011).

use super::number::{Float, Int};
use crate::lanes::{AluFn, alu};

/// Toward the nearest number, to even in the middle.
const NEAREST: u8 = 0;
/// Toward zero.
const ZERO: u8 = 1;
/// Toward negative infinity.
const DOWN: u8 = 2;
/// Toward positive infinity.
const UP: u8 = 3;

/// Rounding modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

impl Round {
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "rn" => Self::Nearest,
            "rz" => Self::Zero,
            "rm" => Self::Down,
            "rp" => Self::Up,
            _ => return None,
        })
    }
}

/// Calls a function whose last parameter is a rounding mode.
macro_rules! with_round {
    ($round:expr, $f:ident, [$($t:ty),*], $($x:expr),*) => {
        match $round {
            Round::Nearest => $f::<$($t,)* NEAREST>($($x),*),
            Round::Zero => $f::<$($t,)* ZERO>($($x),*),
            Round::Down => $f::<$($t,)* DOWN>($($x),*),
            Round::Up => $f::<$($t,)* UP>($($x),*),
        }
    };
}

/// The number that a mode takes, from the nearest and the sign of what the exact result has beyond it.
#[inline(always)]
fn settle<T: Float, const R: u8>(near: T, beyond: f64) -> T {
    let value = near.to_f64();
    let down = beyond < 0.0 && (R == DOWN || R == ZERO && value > 0.0);
    let up = beyond > 0.0 && (R == UP || R == ZERO && value < 0.0);
    if down || up { near.neighbour(up) } else { near }
}

/// A number of double precision, its last bit odd where it is not exact, in the precision of `T`.
#[inline(always)]
fn narrow<T: Float, const R: u8>(v: f64) -> T {
    let near = T::from_f64(v);
    settle::<T, R>(near, v - near.to_f64())
}

/// A sum of two that cancel is -0 when rounded down, unless both are +0.
#[inline(always)]
fn zero<const R: u8>(sum: f64, a: f64, b: f64) -> f64 {
    let positive = a == 0.0 && b == 0.0 && a.is_sign_positive() && b.is_sign_positive();
    if R == DOWN && sum == 0.0 && !positive { -0.0 } else { sum }
}

#[inline(always)]
fn fma32<const R: u8>(a: f32, b: f32, c: f32) -> f32 {
    let (a, b, c) = (f64::from(a), f64::from(b), f64::from(c));
    narrow::<f32, R>(zero::<R>(fused(a, b, c), a * b, c))
}

/// A quotient or root with its last bit odd where it is not exact; `rest` has the sign of what is missing.
#[inline(always)]
fn odd(near: f64, rest: f64) -> f64 {
    if rest == 0.0 || !near.is_finite() || rest.is_nan() {
        return near;
    }
    let over = (rest < 0.0) == (near > 0.0);
    f64::from_bits((near.to_bits() - u64::from(over)) | 1)
}

#[inline(always)]
fn divide32<const R: u8>(a: f32, b: f32) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let near = a / b;
    let rest = (-near).mul_add(b, a);
    narrow::<f32, R>(odd(near, if b < 0.0 { -rest } else { rest }))
}

#[inline(always)]
fn root32<const R: u8>(a: f32) -> f32 {
    let a = f64::from(a);
    let near = a.sqrt();
    narrow::<f32, R>(odd(near, (-near).mul_add(near, a)))
}

/// The sum of two numbers, and what it lacks.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

#[inline(always)]
fn fma64<const R: u8>(a: f64, b: f64, c: f64) -> f64 {
    let near = a.mul_add(b, c);
    if near.is_infinite() && a.is_finite() && b.is_finite() && c.is_finite() {
        return settle::<f64, R>(near, -near);
    }
    let product = a * b;
    let low = a.mul_add(b, -product);
    let (u, u_low) = two_sum(c, low);
    let (v, v_low) = two_sum(product, u);
    let beyond = ((v - near) + v_low) + u_low;
    settle::<f64, R>(zero::<R>(near, product, c), beyond)
}

#[inline(always)]
fn divide64<const R: u8>(a: f64, b: f64) -> f64 {
    let near = a / b;
    if near.is_infinite() && a.is_finite() && b != 0.0 {
        return settle::<f64, R>(near, -near);
    }
    let rest = (-near).mul_add(b, a);
    settle::<f64, R>(near, if b < 0.0 { -rest } else { rest })
}

#[inline(always)]
fn root64<const R: u8>(a: f64) -> f64 {
    let near = a.sqrt();
    settle::<f64, R>(near, (-near).mul_add(near, a))
}

fn single_in<const R: u8>(op: &str) -> Option<(AluFn, usize)> {
    Some(match op {
        "add" => (alu!(|a: f32, b: f32| -> f32 { fma32::<R>(a, 1.0, b) }), 2),
        "sub" => (alu!(|a: f32, b: f32| -> f32 { fma32::<R>(a, 1.0, -b) }), 2),
        // An addend of the product's own sign leaves its zeros alone.
        "mul" => {
            (alu!(|a: f32, b: f32| -> f32 { narrow::<f32, R>(f64::from(a) * f64::from(b)) }), 2)
        }
        "fma" | "mad" => (alu!(|a: f32, b: f32, c: f32| -> f32 { fma32::<R>(a, b, c) }), 3),
        "div" => (alu!(|a: f32, b: f32| -> f32 { divide32::<R>(a, b) }), 2),
        "rcp" => (alu!(|a: f32| -> f32 { divide32::<R>(1.0, a) }), 1),
        "sqrt" => (alu!(|a: f32| -> f32 { root32::<R>(a) }), 1),
        _ => return None,
    })
}

fn double_in<const R: u8>(op: &str) -> Option<(AluFn, usize)> {
    Some(match op {
        "add" => (alu!(|a: f64, b: f64| -> f64 { fma64::<R>(a, 1.0, b) }), 2),
        "sub" => (alu!(|a: f64, b: f64| -> f64 { fma64::<R>(a, 1.0, -b) }), 2),
        "mul" => (
            alu!(|a: f64, b: f64| -> f64 {
                let near = a * b;
                let over = near.is_infinite() && a.is_finite() && b.is_finite();
                settle::<f64, R>(near, if over { -near } else { a.mul_add(b, -near) })
            }),
            2,
        ),
        "fma" | "mad" => (alu!(|a: f64, b: f64, c: f64| -> f64 { fma64::<R>(a, b, c) }), 3),
        "div" => (alu!(|a: f64, b: f64| -> f64 { divide64::<R>(a, b) }), 2),
        "rcp" => (alu!(|a: f64| -> f64 { divide64::<R>(1.0, a) }), 1),
        "sqrt" => (alu!(|a: f64| -> f64 { root64::<R>(a) }), 1),
        _ => return None,
    })
}

/// f32 arithmetic in a mode, and the number of its sources.
pub(super) fn single(op: &str, round: Round) -> Option<(AluFn, usize)> {
    with_round!(round, single_in, [], op)
}

/// f64 arithmetic in a mode, and the number of its sources.
pub(super) fn double(op: &str, round: Round) -> Option<(AluFn, usize)> {
    with_round!(round, double_in, [], op)
}

fn convert_in<D: Float, S: Float, const R: u8>() -> AluFn {
    alu!(|a: S| -> D { narrow::<D, R>(a.to_f64()) })
}

/// Conversion between floating types in a mode.
pub(super) fn convert<D: Float, S: Float>(round: Round) -> AluFn {
    with_round!(round, convert_in, [D, S],)
}

fn from_int_in<D: Float, S: Int, const R: u8>() -> AluFn {
    alu!(|a: S| -> D {
        let near = D::from_int(a);
        let value = near.to_f64();
        let beyond = if value.is_infinite() {
            -value
        } else {
            // If an integer is not exact, the number next to it is an integer too.
            (a.to_i128() - value as i128) as f64
        };
        settle::<D, R>(near, beyond)
    })
}

/// Conversion from an integer type in a mode.
pub(super) fn from_int<D: Float, S: Int>(round: Round) -> AluFn {
    with_round!(round, from_int_in, [D, S],)
}

/// `.ftz`: a subnormal number becomes a zero of its sign.
pub(super) fn flush() -> AluFn {
    alu!(|a: u32| -> u32 { if a & 0x7f80_0000 == 0 { a & 1 << 31 } else { a } })
}

/// A product of halves and a third one, so that it can be rounded once: the last bit is set where bits are lost.
pub(super) fn fused(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    let part = sum - product;
    let lost = (product - (sum - part)) + (c - part);
    if lost == 0.0 || !sum.is_finite() {
        return sum;
    }
    let beyond = (lost < 0.0) == (sum > 0.0);
    f64::from_bits((sum.to_bits() - u64::from(beyond)) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance of results from what arbitrary precision would give, by the definition of the modes: the
    /// nearest of each side.
    #[test]
    fn modes_enclose_the_exact_result() {
        let mut seed = 7_u64;
        let mut next = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            f32::from_bits((seed >> 33) as u32 & 0x87ff_ffff | 0x3c00_0000)
        };
        for _ in 0..20_000 {
            let (a, b, c) = (next(), next(), next());
            let exact = i128_of(a) * i128_of(b) + (i128_of(c) << SCALE);
            let (low, high) = (fma32::<DOWN>(a, b, c), fma32::<UP>(a, b, c));
            let scaled = |v: f32| i128_of(v) << SCALE;
            assert!(scaled(low) <= exact && exact <= scaled(high), "{a} {b} {c}: {low} {high}");
            assert!(high == low || high == low.next_up(), "{a} {b} {c}: {low} {high}");
            let zero = fma32::<ZERO>(a, b, c);
            assert_eq!(zero, if exact < 0 { high } else { low });
            assert_eq!(fma32::<NEAREST>(a, b, c), a.mul_add(b, c));
            let (low, high) = (divide32::<DOWN>(a, b), divide32::<UP>(a, b));
            let sign =
                |v: f32| (f64::from(v) * f64::from(b) - f64::from(a)) * f64::from(b).signum();
            assert!(sign(low) <= 0.0 && sign(high) >= 0.0 && high <= low.next_up());
            let (a, b, c) = (f64::from(a), f64::from(b) * 1e-9 + 1.0, f64::from(c));
            let (low, high) = (fma64::<DOWN>(a, b, c), fma64::<UP>(a, b, c));
            let near = a.mul_add(b, c);
            assert!(low <= near && near <= high && (low == high || high == low.next_up()));
        }
    }

    /// Binary places that [`i128_of`] keeps.
    const SCALE: u32 = 42;

    /// A number between 2^-8 and 2^8 as an integer of units of 2^-SCALE.
    fn i128_of(v: f32) -> i128 {
        (f64::from(v) * 2_f64.powi(SCALE as i32)) as i128
    }

    #[test]
    fn edges() {
        assert_eq!(fma32::<ZERO>(f32::MAX, 2.0, 0.0), f32::MAX);
        assert_eq!(fma32::<DOWN>(f32::MAX, -2.0, 0.0), f32::NEG_INFINITY);
        assert_eq!(fma32::<UP>(f32::INFINITY, 1.0, 1.0), f32::INFINITY);
        assert!(fma32::<DOWN>(1.0, 1.0, -1.0).is_sign_negative());
        assert!(fma32::<UP>(1.0, 1.0, -1.0).is_sign_positive());
        assert!(fma32::<ZERO>(f32::NAN, 1.0, 1.0).is_nan());
        assert_eq!(divide32::<UP>(1.0, 0.0), f32::INFINITY);
        assert_eq!(root32::<DOWN>(2.0).next_up(), root32::<UP>(2.0));
        assert_eq!(root64::<DOWN>(2.0).next_up(), root64::<UP>(2.0));
        assert_eq!(divide64::<DOWN>(1.0, 3.0).next_up(), divide64::<UP>(1.0, 3.0));
        assert_eq!(fma64::<ZERO>(f64::MAX, 2.0, 0.0), f64::MAX);
        assert_eq!(narrow::<half::f16, ZERO>(1e6).to_f64(), 65504.0);
        assert_eq!(narrow::<half::bf16, DOWN>(-1.001).to_f64(), -1.0078125);
    }
}
