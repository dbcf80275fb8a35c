//! Scalar instructions: each is the formula of one lane, written next to its name.

use half::{bf16, f16};

use super::words::Words;
use super::{Lower, Lowered};
use crate::lanes::{AluFn, Class, Lane, Mask, Reg, Registers, Slots, alu};
use crate::program::{Constant, LOCAL_WINDOW, Op, PARAM_WINDOW, SHARED_WINDOW, WINDOW};
use crate::report;
use crate::syntax::ast::{Operand, Space, Type};

/// Integers as PTX sees them. Shift counts past the width give zero or the sign.
trait Int: Lane + Ord {
    const BITS: u32;
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn mul_hi(self, b: Self) -> Self;
    fn div(self, b: Self) -> Self;
    fn rem(self, b: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn abs_diff(self, b: Self) -> Self;
    fn and(self, b: Self) -> Self;
    fn or(self, b: Self) -> Self;
    fn xor(self, b: Self) -> Self;
    fn not(self) -> Self;
    fn shl(self, n: u32) -> Self;
    fn shr(self, n: u32) -> Self;
    fn popc(self) -> u32;
    fn clz(self) -> u32;
    fn reverse(self) -> Self;
    fn add_sat(self, b: Self) -> Self;
    fn sub_sat(self, b: Self) -> Self;
    fn add_carries(self, b: Self, carry: bool) -> bool;
    fn sub_borrows(self, b: Self, borrow: bool) -> bool;
    fn to_i128(self) -> i128;
    fn wrap(v: i128) -> Self;
    fn saturate(v: i128) -> Self;
    fn to_f64(self) -> f64;
    fn to_f32(self) -> f32;
    /// Truncates, saturates; NaN gives zero.
    fn from_f64(v: f64) -> Self;
}

macro_rules! int {
    ($($t:ty, $unsigned:ty, $double:ty;)*) => {$(
        impl Int for $t {
            const BITS: u32 = <$t>::BITS;
            #[inline(always)] fn add(self, b: Self) -> Self { self.wrapping_add(b) }
            #[inline(always)] fn sub(self, b: Self) -> Self { self.wrapping_sub(b) }
            #[inline(always)] fn mul(self, b: Self) -> Self { self.wrapping_mul(b) }
            #[inline(always)] fn mul_hi(self, b: Self) -> Self {
                ((self as $double).wrapping_mul(b as $double) >> <$t>::BITS) as $t
            }
            // Division by zero has no specified result: all ones, as on hardware.
            #[inline(always)] fn div(self, b: Self) -> Self {
                if b == 0 { !0 } else { self.wrapping_div(b) }
            }
            #[inline(always)] fn rem(self, b: Self) -> Self {
                if b == 0 { self } else { self.wrapping_rem(b) }
            }
            #[inline(always)] fn neg(self) -> Self { self.wrapping_neg() }
            #[allow(unused_comparisons)]
            #[inline(always)] fn abs(self) -> Self {
                if self < 0 { self.wrapping_neg() } else { self }
            }
            #[inline(always)] fn abs_diff(self, b: Self) -> Self {
                if self > b { self.wrapping_sub(b) } else { b.wrapping_sub(self) }
            }
            #[inline(always)] fn and(self, b: Self) -> Self { self & b }
            #[inline(always)] fn or(self, b: Self) -> Self { self | b }
            #[inline(always)] fn xor(self, b: Self) -> Self { self ^ b }
            #[inline(always)] fn not(self) -> Self { !self }
            #[inline(always)] fn shl(self, n: u32) -> Self {
                if n < <$t>::BITS { self.wrapping_shl(n) } else { 0 }
            }
            #[inline(always)] fn shr(self, n: u32) -> Self {
                let fill = self.wrapping_shr(<$t>::BITS - 1).wrapping_shr(1);
                let sign = if <$t>::MIN == 0 { fill & 0 } else { self.wrapping_shr(<$t>::BITS - 1) };
                if n < <$t>::BITS { self.wrapping_shr(n) } else { sign }
            }
            #[inline(always)] fn popc(self) -> u32 { self.count_ones() }
            #[inline(always)] fn clz(self) -> u32 { self.leading_zeros() }
            #[inline(always)] fn reverse(self) -> Self { self.reverse_bits() }
            #[inline(always)] fn add_sat(self, b: Self) -> Self { self.saturating_add(b) }
            #[inline(always)] fn sub_sat(self, b: Self) -> Self { self.saturating_sub(b) }
            #[inline(always)] fn add_carries(self, b: Self, carry: bool) -> bool {
                (self as $unsigned as u128) + (b as $unsigned as u128) + carry as u128
                    > <$unsigned>::MAX as u128
            }
            #[inline(always)] fn sub_borrows(self, b: Self, borrow: bool) -> bool {
                (self as $unsigned as u128) < (b as $unsigned as u128) + borrow as u128
            }
            #[inline(always)] fn to_i128(self) -> i128 { self as i128 }
            #[inline(always)] fn wrap(v: i128) -> Self { v as $t }
            #[inline(always)] fn saturate(v: i128) -> Self {
                v.clamp(<$t>::MIN as i128, <$t>::MAX as i128) as $t
            }
            #[inline(always)] fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)] fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)] fn from_f64(v: f64) -> Self { v as $t }
        }
    )*};
}

int! {
    u8, u8, u16;
    i8, u8, i16;
    u16, u16, u32;
    i16, u16, i32;
    u32, u32, u64;
    i32, u32, i64;
    u64, u64, u128;
    i64, u64, i128;
}

/// Runs `$body` with `$t` standing for the integer type that `$ty` names.
macro_rules! with_int {
    ($ty:expr, $t:ident => $body:expr) => {
        match $ty {
            Type::U8 | Type::B8 => {
                type $t = u8;
                $body
            }
            Type::S8 => {
                type $t = i8;
                $body
            }
            Type::U16 | Type::B16 => {
                type $t = u16;
                $body
            }
            Type::S16 => {
                type $t = i16;
                $body
            }
            Type::U32 | Type::B32 => {
                type $t = u32;
                $body
            }
            Type::S32 => {
                type $t = i32;
                $body
            }
            Type::U64 | Type::B64 => {
                type $t = u64;
                $body
            }
            Type::S64 => {
                type $t = i64;
                $body
            }
            other => Err(format!("{other:?} is not an integer type")),
        }
    };
}

fn is_float(ty: Type) -> bool {
    matches!(ty, Type::F32 | Type::F64 | Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2)
}

fn unknown<T>(what: &str, ty: Type) -> Lowered<T> {
    Err(format!("`{what}` of type {ty:?} is not modelled"))
}

/// Instructions whose operands all have the instruction's integer type.
fn integer<T: Int>(op: &str) -> Option<(AluFn, usize)> {
    Some(match op {
        "add" => (alu!(|a: T, b: T| -> T { a.add(b) }), 2),
        "sub" => (alu!(|a: T, b: T| -> T { a.sub(b) }), 2),
        "add.sat" => (alu!(|a: T, b: T| -> T { a.add_sat(b) }), 2),
        "sub.sat" => (alu!(|a: T, b: T| -> T { a.sub_sat(b) }), 2),
        "mul.lo" => (alu!(|a: T, b: T| -> T { a.mul(b) }), 2),
        "mul.hi" => (alu!(|a: T, b: T| -> T { a.mul_hi(b) }), 2),
        "mad.lo" => (alu!(|a: T, b: T, c: T| -> T { a.mul(b).add(c) }), 3),
        "mad.hi" => (alu!(|a: T, b: T, c: T| -> T { a.mul_hi(b).add(c) }), 3),
        "mad.hi.sat" => (alu!(|a: T, b: T, c: T| -> T { a.mul_hi(b).add_sat(c) }), 3),
        "sad" => (alu!(|a: T, b: T, c: T| -> T { c.add(a.abs_diff(b)) }), 3),
        "div" => (alu!(|a: T, b: T| -> T { a.div(b) }), 2),
        "rem" => (alu!(|a: T, b: T| -> T { a.rem(b) }), 2),
        "abs" => (alu!(|a: T| -> T { a.abs() }), 1),
        "neg" => (alu!(|a: T| -> T { a.neg() }), 1),
        "min" => (alu!(|a: T, b: T| -> T { a.min(b) }), 2),
        "max" => (alu!(|a: T, b: T| -> T { a.max(b) }), 2),
        "and" => (alu!(|a: T, b: T| -> T { a.and(b) }), 2),
        "or" => (alu!(|a: T, b: T| -> T { a.or(b) }), 2),
        "xor" => (alu!(|a: T, b: T| -> T { a.xor(b) }), 2),
        "not" => (alu!(|a: T| -> T { a.not() }), 1),
        "cnot" => (alu!(|a: T| -> T { T::wrap(i128::from(a == T::default())) }), 1),
        "brev" => (alu!(|a: T| -> T { a.reverse() }), 1),
        "mov" => (alu!(|a: T| -> T { a }), 1),
        "mul24.lo" => (alu!(|a: T, b: T| -> T { T::wrap(low24(a).wrapping_mul(low24(b))) }), 2),
        "mad24.lo" => {
            (alu!(|a: T, b: T, c: T| -> T { T::wrap(low24(a).wrapping_mul(low24(b))).add(c) }), 3)
        }
        "mul24.hi" => {
            (alu!(|a: T, b: T| -> T { T::wrap(low24(a).wrapping_mul(low24(b)) >> 16) }), 2)
        }
        _ => return None,
    })
}

/// The low 24 bits, sign-extended for signed types.
#[inline(always)]
fn low24<T: Int>(a: T) -> i128 {
    a.shl(T::BITS.saturating_sub(24)).shr(T::BITS.saturating_sub(24)).to_i128()
}

/// `cvt` between integer types.
fn int_to_int<D: Int, S: Int>(saturate: bool) -> AluFn {
    if saturate {
        alu!(|a: S| -> D { D::saturate(a.to_i128()) })
    } else {
        alu!(|a: S| -> D { D::wrap(a.to_i128()) })
    }
}

/// Rounding to an integral value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Integral {
    Nearest,
    Zero,
    Down,
    Up,
}

impl Integral {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "rni" => Self::Nearest,
            "rzi" => Self::Zero,
            "rmi" => Self::Down,
            "rpi" => Self::Up,
            _ => return None,
        })
    }
}

/// Floating types as `cvt` sees them; every one fits in f64 exactly.
trait Float: Lane {
    fn to_f64(self) -> f64;
    fn from_f64(v: f64) -> Self;
}

macro_rules! float {
    ($($t:ty: $to:expr, $from:expr;)*) => {$(
        impl Float for $t {
            #[inline(always)] fn to_f64(self) -> f64 { let f: fn($t) -> f64 = $to; f(self) }
            #[inline(always)] fn from_f64(v: f64) -> Self { let f: fn(f64) -> $t = $from; f(v) }
        }
    )*};
}

float! {
    f64: |v| v, |v| v;
    f32: f64::from, |v| v as f32;
    f16: f16::to_f64, f16::from_f64;
    bf16: bf16::to_f64, bf16::from_f64;
}

fn float_to_int<D: Int, S: Float>(round: Integral) -> AluFn {
    match round {
        Integral::Nearest => alu!(|a: S| -> D { D::from_f64(a.to_f64().round_ties_even()) }),
        Integral::Zero => alu!(|a: S| -> D { D::from_f64(a.to_f64()) }),
        Integral::Down => alu!(|a: S| -> D { D::from_f64(a.to_f64().floor()) }),
        Integral::Up => alu!(|a: S| -> D { D::from_f64(a.to_f64().ceil()) }),
    }
}

fn int_to_float<S: Int>(to: Type) -> Lowered<AluFn> {
    Ok(match to {
        Type::F32 => alu!(|a: S| -> f32 { a.to_f32() }),
        Type::F64 => alu!(|a: S| -> f64 { a.to_f64() }),
        Type::F16 => alu!(|a: S| -> f16 { f16::from_f64(a.to_f64()) }),
        _ => return unknown("cvt", to),
    })
}

fn float_to_float<D: Float, S: Float>(round: Option<Integral>, saturate: bool) -> AluFn {
    match (round, saturate) {
        (None, false) => alu!(|a: S| -> D { D::from_f64(a.to_f64()) }),
        (None, true) => alu!(|a: S| -> D { D::from_f64(unit(a.to_f64())) }),
        (Some(Integral::Nearest), _) => {
            alu!(|a: S| -> D { D::from_f64(a.to_f64().round_ties_even()) })
        }
        (Some(Integral::Zero), _) => alu!(|a: S| -> D { D::from_f64(a.to_f64().trunc()) }),
        (Some(Integral::Down), _) => alu!(|a: S| -> D { D::from_f64(a.to_f64().floor()) }),
        (Some(Integral::Up), _) => alu!(|a: S| -> D { D::from_f64(a.to_f64().ceil()) }),
    }
}

/// `.sat`: clamp to 0..1, NaN to 0.
fn unit(v: f64) -> f64 {
    if v > 0.0 { v.min(1.0) } else { 0.0 }
}

/// f32 arithmetic, round to nearest even.
fn single(op: &str) -> Option<(AluFn, usize)> {
    Some(match op {
        "add" => (alu!(|a: f32, b: f32| -> f32 { a + b }), 2),
        "sub" => (alu!(|a: f32, b: f32| -> f32 { a - b }), 2),
        "mul" => (alu!(|a: f32, b: f32| -> f32 { a * b }), 2),
        "fma" | "mad" => (alu!(|a: f32, b: f32, c: f32| -> f32 { a.mul_add(b, c) }), 3),
        "div" => (alu!(|a: f32, b: f32| -> f32 { a / b }), 2),
        "rcp" => (alu!(|a: f32| -> f32 { 1.0 / a }), 1),
        "sqrt" => (alu!(|a: f32| -> f32 { a.sqrt() }), 1),
        "rsqrt" => (alu!(|a: f32| -> f32 { (1.0 / f64::from(a).sqrt()) as f32 }), 1),
        "sin" => (alu!(|a: f32| -> f32 { f64::from(a).sin() as f32 }), 1),
        "cos" => (alu!(|a: f32| -> f32 { f64::from(a).cos() as f32 }), 1),
        "lg2" => (alu!(|a: f32| -> f32 { f64::from(a).log2() as f32 }), 1),
        "ex2" => (alu!(|a: f32| -> f32 { f64::from(a).exp2() as f32 }), 1),
        "tanh" => (alu!(|a: f32| -> f32 { f64::from(a).tanh() as f32 }), 1),
        "abs" => (alu!(|a: f32| -> f32 { f32::from_bits(a.to_bits() & 0x7fff_ffff) }), 1),
        "neg" => (alu!(|a: f32| -> f32 { f32::from_bits(a.to_bits() ^ 1 << 31) }), 1),
        "min" => (alu!(|a: f32, b: f32| -> f32 { float_min(a.into(), b.into()) as f32 }), 2),
        "max" => (alu!(|a: f32, b: f32| -> f32 { float_max(a.into(), b.into()) as f32 }), 2),
        "copysign" => (alu!(|a: u32, b: u32| -> u32 { a & 1 << 31 | b & !(1 << 31) }), 2),
        "mov" => (alu!(|a: u32| -> u32 { a }), 1),
        _ => return None,
    })
}

/// f64 arithmetic, round to nearest even.
fn double(op: &str) -> Option<(AluFn, usize)> {
    Some(match op {
        "add" => (alu!(|a: f64, b: f64| -> f64 { a + b }), 2),
        "sub" => (alu!(|a: f64, b: f64| -> f64 { a - b }), 2),
        "mul" => (alu!(|a: f64, b: f64| -> f64 { a * b }), 2),
        "fma" | "mad" => (alu!(|a: f64, b: f64, c: f64| -> f64 { a.mul_add(b, c) }), 3),
        "div" => (alu!(|a: f64, b: f64| -> f64 { a / b }), 2),
        "rcp" => (alu!(|a: f64| -> f64 { 1.0 / a }), 1),
        "sqrt" => (alu!(|a: f64| -> f64 { a.sqrt() }), 1),
        "rsqrt" => (alu!(|a: f64| -> f64 { 1.0 / a.sqrt() }), 1),
        "abs" => (alu!(|a: f64| -> f64 { f64::from_bits(a.to_bits() & (u64::MAX >> 1)) }), 1),
        "neg" => (alu!(|a: f64| -> f64 { f64::from_bits(a.to_bits() ^ 1 << 63) }), 1),
        "min" => (alu!(|a: f64, b: f64| -> f64 { float_min(a, b) }), 2),
        "max" => (alu!(|a: f64, b: f64| -> f64 { float_max(a, b) }), 2),
        "copysign" => (alu!(|a: f64, b: f64| -> f64 { b.copysign(a) }), 2),
        "mov" => (alu!(|a: u64| -> u64 { a }), 1),
        _ => return None,
    })
}

/// f16 and bf16 arithmetic. Sums and products of two are exact enough in f64 for one rounding.
fn small<T: Float>(op: &str) -> Option<(AluFn, usize)> {
    Some(match op {
        "add" => (alu!(|a: T, b: T| -> T { T::from_f64(a.to_f64() + b.to_f64()) }), 2),
        "sub" => (alu!(|a: T, b: T| -> T { T::from_f64(a.to_f64() - b.to_f64()) }), 2),
        "mul" => (alu!(|a: T, b: T| -> T { T::from_f64(a.to_f64() * b.to_f64()) }), 2),
        "fma" => {
            (alu!(|a: T, b: T, c: T| -> T { T::from_f64(a.to_f64() * b.to_f64() + c.to_f64()) }), 3)
        }
        "neg" => (alu!(|a: T| -> T { T::from_f64(-a.to_f64()) }), 1),
        "abs" => (alu!(|a: T| -> T { T::from_f64(a.to_f64().abs()) }), 1),
        "min" => (alu!(|a: T, b: T| -> T { T::from_f64(float_min(a.to_f64(), b.to_f64())) }), 2),
        "max" => (alu!(|a: T, b: T| -> T { T::from_f64(float_max(a.to_f64(), b.to_f64())) }), 2),
        "mov" => (alu!(|a: u16| -> u16 { a }), 1),
        _ => return None,
    })
}

/// The same on two halves of a register.
fn paired(op: &str) -> Option<(AluFn, usize)> {
    fn each(a: u32, b: u32, c: u32, f: impl Fn(f64, f64, f64) -> f64) -> u32 {
        let part = |v: u32, s: u32| f16::from_bits((v >> s) as u16).to_f64();
        let one =
            |s| u32::from(f16::from_f64(f(part(a, s), part(b, s), part(c, s))).to_bits()) << s;
        one(0) | one(16)
    }
    Some(match op {
        "add" => (alu!(|a: u32, b: u32| -> u32 { each(a, b, 0, |a, b, _| a + b) }), 2),
        "sub" => (alu!(|a: u32, b: u32| -> u32 { each(a, b, 0, |a, b, _| a - b) }), 2),
        "mul" => (alu!(|a: u32, b: u32| -> u32 { each(a, b, 0, |a, b, _| a * b) }), 2),
        "fma" => (alu!(|a: u32, b: u32, c: u32| -> u32 { each(a, b, c, |a, b, c| a * b + c) }), 3),
        "neg" => (alu!(|a: u32| -> u32 { a ^ 0x8000_8000 }), 1),
        "abs" => (alu!(|a: u32| -> u32 { a & 0x7fff_7fff }), 1),
        "min" => (alu!(|a: u32, b: u32| -> u32 { each(a, b, 0, |a, b, _| float_min(a, b)) }), 2),
        "max" => (alu!(|a: u32, b: u32| -> u32 { each(a, b, 0, |a, b, _| float_max(a, b)) }), 2),
        _ => return None,
    })
}

/// The smaller; the number if one is NaN; -0 below +0.
fn float_min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b < a || (a == b && b.is_sign_negative()) { b } else { a }
}

fn float_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b > a || (a == b && a.is_sign_negative()) { b } else { a }
}

/// Comparisons that give a predicate.
fn compare_int<T: Int>(op: &str) -> Option<AluFn> {
    Some(match op {
        "eq" => alu!(|a: T, b: T| -> bool { a == b }),
        "ne" => alu!(|a: T, b: T| -> bool { a != b }),
        "lt" | "lo" => alu!(|a: T, b: T| -> bool { a < b }),
        "le" | "ls" => alu!(|a: T, b: T| -> bool { a <= b }),
        "gt" | "hi" => alu!(|a: T, b: T| -> bool { a > b }),
        "ge" | "hs" => alu!(|a: T, b: T| -> bool { a >= b }),
        _ => return None,
    })
}

fn compare_float<T: Float>(op: &str) -> Option<AluFn> {
    macro_rules! ordered {
        ($($name:literal, $or_nan:literal: $f:expr;)*) => {
            match op {
                $(
                    $name => alu!(|a: T, b: T| -> bool {
                        let f: fn(f64, f64) -> bool = $f;
                        let (a, b) = (a.to_f64(), b.to_f64());
                        !a.is_nan() && !b.is_nan() && f(a, b)
                    }),
                    $or_nan => alu!(|a: T, b: T| -> bool {
                        let f: fn(f64, f64) -> bool = $f;
                        let (a, b) = (a.to_f64(), b.to_f64());
                        a.is_nan() || b.is_nan() || f(a, b)
                    }),
                )*
                "num" => alu!(|a: T, b: T| -> bool { !a.to_f64().is_nan() && !b.to_f64().is_nan() }),
                "nan" => alu!(|a: T, b: T| -> bool { a.to_f64().is_nan() || b.to_f64().is_nan() }),
                _ => return None,
            }
        };
    }
    Some(ordered! {
        "eq", "equ": |a, b| a == b;
        "ne", "neu": |a, b| a != b;
        "lt", "ltu": |a, b| a < b;
        "le", "leu": |a, b| a <= b;
        "gt", "gtu": |a, b| a > b;
        "ge", "geu": |a, b| a >= b;
    })
}

/// Selects and permutes bytes: the generic mode of `prmt`.
#[inline(always)]
fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let mut out = 0;
    for i in 0..4 {
        let s = selector >> (4 * i) & 0xf;
        let byte = (bytes >> (8 * (s & 7))) as u8;
        let byte = if s & 8 != 0 { ((byte as i8) >> 7) as u8 } else { byte };
        out |= u32::from(byte) << (8 * i);
    }
    out
}

/// Selector of the special modes of `prmt` for the low two bits of `c`.
fn permute_mode(mode: &str) -> Option<[u32; 4]> {
    Some(match mode {
        "f4e" => [0x3210, 0x4321, 0x5432, 0x6543],
        "b4e" => [0x5670, 0x6701, 0x7012, 0x0123],
        "rc8" => [0x0000, 0x1111, 0x2222, 0x3333],
        "ecl" => [0x3210, 0x3211, 0x3222, 0x3333],
        "ecr" => [0x0000, 0x1110, 0x2210, 0x3210],
        "rc16" => [0x1010, 0x3232, 0x1010, 0x3232],
        _ => return None,
    })
}

#[inline(always)]
fn lop3(a: u32, b: u32, c: u32, table: u32) -> u32 {
    let mut out = 0;
    for minterm in 0..8 {
        let pick = (table >> minterm & 1).wrapping_neg();
        let a = if minterm & 4 != 0 { a } else { !a };
        let b = if minterm & 2 != 0 { b } else { !b };
        let c = if minterm & 1 != 0 { c } else { !c };
        out |= a & b & c & pick;
    }
    out
}

/// Bits `len` from position `pos`; the sign fills what lies beyond.
#[inline(always)]
fn extract(bits: u64, width: u32, signed: bool, pos: u32, len: u32) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    if len == 0 {
        return 0;
    }
    let value = if signed { ((bits << (64 - width)) as i64 >> (64 - width)) as u64 } else { bits };
    let sign_at = (pos + len - 1).min(width - 1);
    let sign = signed && bits >> sign_at & 1 != 0;
    let field = if pos < 64 { value >> pos } else { 0 };
    let have = len.min(width.saturating_sub(pos));
    let mask = if have >= 64 { u64::MAX } else { (1 << have) - 1 };
    if sign { field & mask | !mask } else { field & mask }
}

#[inline(always)]
fn insert(a: u64, b: u64, width: u32, pos: u32, len: u32) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    if pos >= width {
        return b;
    }
    let len = len.min(width - pos);
    let mask = if len >= 64 { u64::MAX } else { ((1 << len) - 1) << pos };
    b & !mask | a << pos & mask
}

/// Position of the highest bit that is not a copy of the sign; all ones if there is none.
#[inline(always)]
fn find_msb(bits: u64, width: u32, signed: bool, shift_amount: bool) -> u32 {
    let top = 64 - width;
    let value = if signed {
        let v = (bits << top) as i64 >> top;
        (if v < 0 { !v } else { v }) as u64
    } else {
        bits
    };
    match value.checked_ilog2() {
        None => u32::MAX,
        Some(at) if shift_amount => width - 1 - at,
        Some(at) => at,
    }
}

#[inline(always)]
fn byte_of(v: u32, i: u32, signed: bool) -> i32 {
    let byte = (v >> (8 * i)) as u8;
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}

#[inline(always)]
fn half_of(v: u32, i: u32, signed: bool) -> i32 {
    let half = (v >> (16 * i)) as u16;
    if signed { i32::from(half as i16) } else { i32::from(half) }
}

/// `cvt.pack.sat`: two values clamped to `BITS` bits, above `keep` shifted up.
fn convert_pack(to: &str) -> Option<(AluFn, bool)> {
    macro_rules! pack {
        ($low:expr, $high:expr, $bits:expr) => {
            alu!(|a: i32, b: i32, c: u32| -> u32 {
                let mask = (1u32 << $bits) - 1;
                let a = a.clamp($low, $high) as u32 & mask;
                let b = b.clamp($low, $high) as u32 & mask;
                let rest = if $bits == 16 { 0 } else { c << (2 * $bits) };
                rest | a << $bits | b
            })
        };
    }
    Some(match to {
        "s16" => (pack!(-32768, 32767, 16), false),
        "u16" => (pack!(0, 65535, 16), false),
        "s8" => (pack!(-128, 127, 8), true),
        "u8" => (pack!(0, 255, 8), true),
        "s4" => (pack!(-8, 7, 4), true),
        "u4" => (pack!(0, 15, 4), true),
        "s2" => (pack!(-2, 1, 2), true),
        "u2" => (pack!(0, 3, 2), true),
        _ => return None,
    })
}

/// `mov` between a register and its parts.
fn split(registers: &mut Registers, slots: &Slots, mask: Mask) {
    // s[0]: wide source, s[1]: width of a part in bits, s[2]: index of the part; d narrow.
    let (width, shift) = (slots.s[1], slots.s[1] * slots.s[2]);
    let keep = if width == 32 { u32::MAX } else { (1 << width) - 1 };
    let values = registers.wide[slots.s[0] as usize].map(|v| (v >> shift) as u32 & keep);
    u32::write(registers, slots.d, mask, &values);
}

impl Lower<'_> {
    fn alu(&mut self, f: AluFn, d: u32, s: &[u32]) {
        let mut slots = Slots { d, ..Slots::default() };
        slots.s[..s.len()].copy_from_slice(s);
        self.emit(Op::Alu(f, slots));
    }

    /// Destination and sources, all of type `ty`.
    fn uniform(&mut self, f: (AluFn, usize), ty: Type, operands: &[Operand]) -> Lowered {
        let (f, sources) = f;
        if operands.len() != sources + 1 {
            return Err(format!("expected {} operands, found {}", sources + 1, operands.len()));
        }
        let s = operands[1..].iter().map(|o| self.source(o, ty)).collect::<Lowered<Vec<_>>>()?;
        let d = self.destination(&operands[0], ty)?;
        self.alu(f, d, &s);
        Ok(())
    }

    /// Destination and sources with a type each.
    fn mixed(&mut self, f: AluFn, types: &[Type], operands: &[Operand]) -> Lowered {
        if operands.len() != types.len() {
            return Err(format!("expected {} operands, found {}", types.len(), operands.len()));
        }
        let mut s = Vec::with_capacity(4);
        for (operand, &ty) in operands[1..].iter().zip(&types[1..]) {
            s.push(self.source(operand, ty)?);
        }
        let d = self.destination(&operands[0], types[0])?;
        self.alu(f, d, &s);
        Ok(())
    }

    pub(super) fn scalar(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered<bool> {
        use report::Class as C;
        let (class, done) = match opcode {
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rem" | "sad" | "min" | "max"
            | "abs" | "neg" | "mul24" | "mad24" | "copysign" | "rcp" | "sqrt" | "rsqrt" | "sin"
            | "cos" | "lg2" | "ex2" | "tanh" => {
                (C::Integer, self.arithmetic(opcode, words, operands))
            }
            "addc" | "subc" | "madc" => (C::Integer, self.carrying(opcode, words, operands)),
            "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "prmt"
            | "bfe" | "bfi" | "bfind" | "brev" | "clz" | "popc" | "bmsk" => {
                (C::Logic, self.logic(opcode, words, operands))
            }
            "dp4a" | "dp2a" => (C::DotProduct, self.dot_product(opcode, words, operands)),
            "setp" | "set" | "selp" | "slct" | "testp" => {
                (C::Compare, self.compare(opcode, words, operands))
            }
            "cvt" => (C::Convert, self.convert(words, operands)),
            "mov" => (C::Move, self.movement(words, operands)),
            "cvta" | "isspacep" => (C::Move, self.address_space(opcode, words, operands)),
            _ => return Ok(false),
        };
        if self.program.sources[self.source as usize].class == C::Other {
            self.class(class);
        }
        done.map(|()| true)
    }

    fn arithmetic(&mut self, opcode: &str, words: &mut Words, operands: &[Operand]) -> Lowered {
        let part = words.pick(|w| matches!(w, "lo" | "hi" | "wide").then(|| w.to_owned()));
        let carry_out = words.take("cc");
        if carry_out {
            return self.with_carry(opcode, part.as_deref(), false, true, words, operands);
        }
        let saturate = words.take("sat");
        let ty = words.ty()?;
        if is_float(ty) {
            return self.float_arithmetic(opcode, ty, saturate, words, operands);
        }
        let mut name = opcode.to_owned();
        if let Some(part) = &part {
            name = format!("{name}.{part}");
        }
        if saturate {
            name.push_str(".sat");
            if ty != Type::S32 {
                return unknown(&name, ty);
            }
        }
        match (name.as_str(), ty) {
            ("mul.wide", Type::U32) => self.mixed(
                alu!(|a: u32, b: u32| -> u64 { u64::from(a) * u64::from(b) }),
                &[Type::U64, ty, ty],
                operands,
            ),
            ("mul.wide", Type::S32) => self.mixed(
                alu!(|a: i32, b: i32| -> i64 { i64::from(a) * i64::from(b) }),
                &[Type::S64, ty, ty],
                operands,
            ),
            ("mul.wide", Type::U16) => self.mixed(
                alu!(|a: u16, b: u16| -> u32 { u32::from(a) * u32::from(b) }),
                &[Type::U32, ty, ty],
                operands,
            ),
            ("mul.wide", Type::S16) => self.mixed(
                alu!(|a: i16, b: i16| -> i32 { i32::from(a) * i32::from(b) }),
                &[Type::S32, ty, ty],
                operands,
            ),
            ("mad.wide", Type::U32) => self.mixed(
                alu!(|a: u32, b: u32, c: u64| -> u64 {
                    (u64::from(a) * u64::from(b)).wrapping_add(c)
                }),
                &[Type::U64, ty, ty, Type::U64],
                operands,
            ),
            ("mad.wide", Type::S32) => self.mixed(
                alu!(|a: i32, b: i32, c: i64| -> i64 {
                    (i64::from(a) * i64::from(b)).wrapping_add(c)
                }),
                &[Type::S64, ty, ty, Type::S64],
                operands,
            ),
            ("mad.wide", Type::U16) => self.mixed(
                alu!(|a: u16, b: u16, c: u32| -> u32 {
                    (u32::from(a) * u32::from(b)).wrapping_add(c)
                }),
                &[Type::U32, ty, ty, Type::U32],
                operands,
            ),
            ("mad.wide", Type::S16) => self.mixed(
                alu!(|a: i16, b: i16, c: i32| -> i32 {
                    (i32::from(a) * i32::from(b)).wrapping_add(c)
                }),
                &[Type::S32, ty, ty, Type::S32],
                operands,
            ),
            _ => {
                let f = with_int!(ty, T => Ok(integer::<T>(&name)))?;
                match f {
                    Some(f) => self.uniform(f, ty, operands),
                    None => unknown(&name, ty),
                }
            }
        }
    }

    fn float_arithmetic(
        &mut self,
        opcode: &str,
        ty: Type,
        saturate: bool,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered {
        self.class(report::Class::Float);
        // Approximations are computed to full precision: hardware may differ in the last bits.
        let approximate = words.take("approx") || words.take("full");
        if !approximate && !matches!(opcode, "min" | "max" | "abs" | "neg" | "copysign") {
            words.take("rn");
        }
        if approximate {
            words.take("ftz");
        }
        let f = match ty {
            Type::F32 => single(opcode),
            Type::F64 => double(opcode),
            Type::F16 => small::<f16>(opcode),
            Type::Bf16 => small::<bf16>(opcode),
            Type::F16x2 => paired(opcode),
            _ => None,
        };
        let Some(f) = f else { return unknown(opcode, ty) };
        self.uniform(f, ty, operands)?;
        if saturate {
            let clamp = match ty {
                Type::F32 => alu!(|a: f32| -> f32 { unit(f64::from(a)) as f32 }),
                Type::F64 => alu!(|a: f64| -> f64 { unit(a) }),
                _ => return unknown("sat", ty),
            };
            let d = self.destination(&operands[0], ty)?;
            self.alu(clamp, d, &[d]);
        }
        Ok(())
    }

    fn carrying(&mut self, opcode: &str, words: &mut Words, operands: &[Operand]) -> Lowered {
        let part = words.pick(|w| matches!(w, "lo" | "hi").then(|| w.to_owned()));
        let out = words.take("cc");
        let stem = &opcode[..3];
        self.with_carry(stem, part.as_deref(), true, out, words, operands)
    }

    /// Extended-precision integer arithmetic through the carry flag, which is a hidden predicate.
    fn with_carry(
        &mut self,
        stem: &str,
        part: Option<&str>,
        carry_in: bool,
        carry_out: bool,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered {
        let ty = words.ty()?;
        let carry = match self.carry {
            Some(reg) => reg,
            None => {
                let reg = self.allocate(Type::Pred, 1);
                self.carry = Some(reg);
                reg
            }
        };
        let flag =
            if carry_in { carry } else { self.constant(Class::Predicate, Constant::Bits(0)) };
        // mad: the product first, then an addition.
        let (a, b) = match (stem, operands) {
            ("add" | "sub", [_, a, b]) => (self.source(a, ty)?, self.source(b, ty)?),
            ("mad", [_, a, b, c]) => {
                let name = format!("mul.{}", part.unwrap_or("lo"));
                let f = with_int!(ty, T => Ok(integer::<T>(&name)))?;
                let Some((f, _)) = f else { return unknown(&name, ty) };
                let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
                let c = self.source(c, ty)?;
                let product = self.allocate(ty, 1).slot;
                self.alu(f, product, &[a, b]);
                (product, c)
            }
            _ => return Err("operands do not fit".into()),
        };
        let d = self.destination(&operands[0], ty)?;
        let next = self.allocate(Type::Pred, 1);
        let (value, out) = if stem == "sub" {
            with_int!(ty, T => Ok((
                alu!(|a: T, b: T, c: bool| -> T { a.sub(b).sub(T::wrap(i128::from(c))) }),
                alu!(|a: T, b: T, c: bool| -> bool { a.sub_borrows(b, c) }),
            )))?
        } else {
            with_int!(ty, T => Ok((
                alu!(|a: T, b: T, c: bool| -> T { a.add(b).add(T::wrap(i128::from(c))) }),
                alu!(|a: T, b: T, c: bool| -> bool { a.add_carries(b, c) }),
            )))?
        };
        self.alu(out, next.slot, &[a, b, flag.slot]);
        self.alu(value, d, &[a, b, flag.slot]);
        if carry_out {
            self.alu(alu!(|a: bool| -> bool { a }), carry.slot, &[next.slot]);
        }
        Ok(())
    }

    fn logic(&mut self, opcode: &str, words: &mut Words, operands: &[Operand]) -> Lowered {
        match opcode {
            "lop3" => {
                words.ty()?;
                self.mixed(
                    alu!(|a: u32, b: u32, c: u32, t: u32| -> u32 { lop3(a, b, c, t) }),
                    &[Type::B32; 5],
                    operands,
                )
            }
            "prmt" => {
                words.ty()?;
                let mode = words.pick(permute_mode);
                let f = alu!(|a: u32, b: u32, c: u32| -> u32 { permute(a, b, c) });
                match mode {
                    None => self.mixed(f, &[Type::B32; 4], operands),
                    Some(table) => {
                        let [d, a, b, Operand::Int(c)] = operands else {
                            return Err("prmt modes need a literal selector here".into());
                        };
                        let c = Operand::Int(i64::from(table[(c & 3) as usize]));
                        self.mixed(f, &[Type::B32; 4], &[d.clone(), a.clone(), b.clone(), c])
                    }
                }
            }
            "shf" => {
                let left = words.pick(|w| match w {
                    "l" => Some(true),
                    "r" => Some(false),
                    _ => None,
                });
                let wrap = words.pick(|w| match w {
                    "wrap" => Some(true),
                    "clamp" => Some(false),
                    _ => None,
                });
                words.ty()?;
                let f = match (left, wrap) {
                    (Some(true), Some(true)) => alu!(|a: u32, b: u32, c: u32| -> u32 {
                        ((u64::from(b) << 32 | u64::from(a)) << (c & 31) >> 32) as u32
                    }),
                    (Some(true), Some(false)) => alu!(|a: u32, b: u32, c: u32| -> u32 {
                        ((u64::from(b) << 32 | u64::from(a)) << c.min(32) >> 32) as u32
                    }),
                    (Some(false), Some(true)) => alu!(|a: u32, b: u32, c: u32| -> u32 {
                        ((u64::from(b) << 32 | u64::from(a)) >> (c & 31)) as u32
                    }),
                    (Some(false), Some(false)) => alu!(|a: u32, b: u32, c: u32| -> u32 {
                        ((u64::from(b) << 32 | u64::from(a)) >> c.min(32)) as u32
                    }),
                    _ => return Err("expected .l or .r and .wrap or .clamp".into()),
                };
                self.mixed(f, &[Type::B32; 4], operands)
            }
            "shl" | "shr" => {
                let ty = words.ty()?;
                let left = opcode == "shl";
                let f = with_int!(ty, T => Ok(if left {
                    alu!(|a: T, n: u32| -> T { a.shl(n) })
                } else {
                    alu!(|a: T, n: u32| -> T { a.shr(n) })
                }))?;
                self.mixed(f, &[ty, ty, Type::U32], operands)
            }
            "bmsk" => {
                let wrap = words.take("wrap");
                if !wrap && !words.take("clamp") {
                    return Err("expected .clamp or .wrap".into());
                }
                words.ty()?;
                let f = if wrap {
                    alu!(|a: u32, b: u32| -> u32 { insert(u64::MAX, 0, 32, a & 31, b & 31) as u32 })
                } else {
                    alu!(|a: u32, b: u32| -> u32 {
                        if a > 31 { 0 } else { insert(u64::MAX, 0, 32, a, b.min(32)) as u32 }
                    })
                };
                self.mixed(f, &[Type::B32; 3], operands)
            }
            _ => {
                let shift_amount = words.take("shiftamt");
                let ty = words.ty()?;
                if ty == Type::Pred {
                    let f = match opcode {
                        "and" => (alu!(|a: bool, b: bool| -> bool { a & b }) as AluFn, 2),
                        "or" => (alu!(|a: bool, b: bool| -> bool { a | b }) as AluFn, 2),
                        "xor" => (alu!(|a: bool, b: bool| -> bool { a ^ b }) as AluFn, 2),
                        "not" => (alu!(|a: bool| -> bool { !a }) as AluFn, 1),
                        _ => return unknown(opcode, ty),
                    };
                    return self.uniform(f, ty, operands);
                }
                let u = Type::U32;
                match (opcode, ty) {
                    ("popc", _) => {
                        let f = with_int!(ty, T => Ok(alu!(|a: T| -> u32 { a.popc() })))?;
                        self.mixed(f, &[u, ty], operands)
                    }
                    ("clz", _) => {
                        let f = with_int!(ty, T => Ok(alu!(|a: T| -> u32 { a.clz() })))?;
                        self.mixed(f, &[u, ty], operands)
                    }
                    ("bfe", Type::U32) => self.mixed(
                        alu!(|a: u32, p: u32, n: u32| -> u32 {
                            extract(u64::from(a), 32, false, p, n) as u32
                        }),
                        &[ty, ty, u, u],
                        operands,
                    ),
                    ("bfe", Type::S32) => self.mixed(
                        alu!(|a: u32, p: u32, n: u32| -> u32 {
                            extract(u64::from(a), 32, true, p, n) as u32
                        }),
                        &[ty, ty, u, u],
                        operands,
                    ),
                    ("bfe", Type::U64) => self.mixed(
                        alu!(|a: u64, p: u32, n: u32| -> u64 { extract(a, 64, false, p, n) }),
                        &[ty, ty, u, u],
                        operands,
                    ),
                    ("bfe", Type::S64) => self.mixed(
                        alu!(|a: u64, p: u32, n: u32| -> u64 { extract(a, 64, true, p, n) }),
                        &[ty, ty, u, u],
                        operands,
                    ),
                    ("bfi", Type::B32) => self.mixed(
                        alu!(|a: u32, b: u32, p: u32, n: u32| -> u32 {
                            insert(u64::from(a), u64::from(b), 32, p, n) as u32
                        }),
                        &[ty, ty, ty, u, u],
                        operands,
                    ),
                    ("bfi", Type::B64) => self.mixed(
                        alu!(|a: u64, b: u64, p: u32, n: u32| -> u64 { insert(a, b, 64, p, n) }),
                        &[ty, ty, ty, u, u],
                        operands,
                    ),
                    ("bfind", _) => {
                        let f = match (ty, shift_amount) {
                            (Type::U32, false) => {
                                alu!(|a: u32| -> u32 { find_msb(a.into(), 32, false, false) })
                            }
                            (Type::U32, true) => {
                                alu!(|a: u32| -> u32 { find_msb(a.into(), 32, false, true) })
                            }
                            (Type::S32, false) => {
                                alu!(|a: u32| -> u32 { find_msb(a.into(), 32, true, false) })
                            }
                            (Type::S32, true) => {
                                alu!(|a: u32| -> u32 { find_msb(a.into(), 32, true, true) })
                            }
                            (Type::U64, false) => {
                                alu!(|a: u64| -> u32 { find_msb(a, 64, false, false) })
                            }
                            (Type::U64, true) => {
                                alu!(|a: u64| -> u32 { find_msb(a, 64, false, true) })
                            }
                            (Type::S64, false) => {
                                alu!(|a: u64| -> u32 { find_msb(a, 64, true, false) })
                            }
                            (Type::S64, true) => {
                                alu!(|a: u64| -> u32 { find_msb(a, 64, true, true) })
                            }
                            _ => return unknown("bfind", ty),
                        };
                        self.mixed(f, &[u, ty], operands)
                    }
                    ("and" | "or" | "xor" | "not" | "cnot" | "brev", _) => {
                        match with_int!(ty, T => Ok(integer::<T>(opcode)))? {
                            Some(f) => self.uniform(f, ty, operands),
                            None => unknown(opcode, ty),
                        }
                    }
                    _ => unknown(opcode, ty),
                }
            }
        }
    }

    fn dot_product(&mut self, opcode: &str, words: &mut Words, operands: &[Operand]) -> Lowered {
        let part = words.pick(|w| match w {
            "lo" => Some(0),
            "hi" => Some(1),
            _ => None,
        });
        let signed = |words: &mut Words| match words.ty() {
            Ok(Type::U32) => Ok(false),
            Ok(Type::S32) => Ok(true),
            _ => Err("expected .u32 or .s32 twice".to_owned()),
        };
        let (a, b) = (signed(words)?, signed(words)?);
        macro_rules! dp4a {
            ($a:literal, $b:literal) => {
                alu!(|x: u32, y: u32, c: u32| -> u32 {
                    let mut sum = c;
                    for i in 0..4 {
                        sum = sum.wrapping_add((byte_of(x, i, $a) * byte_of(y, i, $b)) as u32);
                    }
                    sum
                })
            };
        }
        macro_rules! dp2a {
            ($a:literal, $b:literal, $part:literal) => {
                alu!(|x: u32, y: u32, c: u32| -> u32 {
                    let mut sum = c;
                    for i in 0..2 {
                        let product = half_of(x, i, $a) * byte_of(y, i + 2 * $part, $b);
                        sum = sum.wrapping_add(product as u32);
                    }
                    sum
                })
            };
        }
        let f = match (opcode, part, a, b) {
            ("dp4a", None, false, false) => dp4a!(false, false),
            ("dp4a", None, false, true) => dp4a!(false, true),
            ("dp4a", None, true, false) => dp4a!(true, false),
            ("dp4a", None, true, true) => dp4a!(true, true),
            ("dp2a", Some(0), false, false) => dp2a!(false, false, 0),
            ("dp2a", Some(0), false, true) => dp2a!(false, true, 0),
            ("dp2a", Some(0), true, false) => dp2a!(true, false, 0),
            ("dp2a", Some(0), true, true) => dp2a!(true, true, 0),
            ("dp2a", Some(1), false, false) => dp2a!(false, false, 1),
            ("dp2a", Some(1), false, true) => dp2a!(false, true, 1),
            ("dp2a", Some(1), true, false) => dp2a!(true, false, 1),
            ("dp2a", Some(1), true, true) => dp2a!(true, true, 1),
            _ => return Err("dp2a needs .lo or .hi, dp4a has neither".into()),
        };
        self.mixed(f, &[Type::B32; 4], operands)
    }

    fn comparison(op: &str, ty: Type) -> Lowered<AluFn> {
        let f = match ty {
            Type::F32 => compare_float::<f32>(op),
            Type::F64 => compare_float::<f64>(op),
            Type::F16 => compare_float::<f16>(op),
            Type::Bf16 => compare_float::<bf16>(op),
            _ => with_int!(ty, T => Ok(compare_int::<T>(op)))?,
        };
        f.ok_or_else(|| format!("unknown comparison `{op}`"))
    }

    fn compare(&mut self, opcode: &str, words: &mut Words, operands: &[Operand]) -> Lowered {
        match opcode {
            "selp" => {
                let ty = words.ty()?;
                let f = match ty.bytes() {
                    8 => alu!(|a: u64, b: u64, p: bool| -> u64 { if p { a } else { b } }),
                    1..=4 => alu!(|a: u32, b: u32, p: bool| -> u32 { if p { a } else { b } }),
                    _ => return unknown("selp", ty),
                };
                self.mixed(f, &[ty, ty, ty, Type::Pred], operands)
            }
            "slct" => {
                let ty = words.ty()?;
                let by = words.ty()?;
                let f = match (ty.bytes(), by) {
                    (4, Type::S32) => {
                        alu!(|a: u32, b: u32, c: i32| -> u32 { if c >= 0 { a } else { b } })
                    }
                    (8, Type::S32) => {
                        alu!(|a: u64, b: u64, c: i32| -> u64 { if c >= 0 { a } else { b } })
                    }
                    _ => return unknown("slct", by),
                };
                self.mixed(f, &[ty, ty, ty, by], operands)
            }
            "testp" => {
                let test = words
                    .pick(|w| {
                        matches!(
                            w,
                            "finite"
                                | "infinite"
                                | "number"
                                | "notanumber"
                                | "normal"
                                | "subnormal"
                        )
                        .then(|| w.to_owned())
                    })
                    .ok_or("no test")?;
                let ty = words.ty()?;
                if ty != Type::F32 {
                    return unknown("testp", ty);
                }
                let f = match test.as_str() {
                    "finite" => alu!(|a: f32| -> bool { a.is_finite() }),
                    "infinite" => alu!(|a: f32| -> bool { a.is_infinite() }),
                    "number" => alu!(|a: f32| -> bool { !a.is_nan() }),
                    "notanumber" => alu!(|a: f32| -> bool { a.is_nan() }),
                    "normal" => alu!(|a: f32| -> bool { a.is_normal() }),
                    _ => alu!(|a: f32| -> bool { a.is_subnormal() }),
                };
                self.mixed(f, &[Type::Pred, ty], operands)
            }
            _ => self.set_predicate(opcode, words, operands),
        }
    }

    /// `setp` and `set`, with an optional combination with a third predicate.
    fn set_predicate(&mut self, opcode: &str, words: &mut Words, operands: &[Operand]) -> Lowered {
        let op = words
            .pick(|w| {
                matches!(
                    w,
                    "eq" | "ne"
                        | "lt"
                        | "le"
                        | "gt"
                        | "ge"
                        | "lo"
                        | "ls"
                        | "hi"
                        | "hs"
                        | "equ"
                        | "neu"
                        | "ltu"
                        | "leu"
                        | "gtu"
                        | "geu"
                        | "num"
                        | "nan"
                )
                .then(|| w.to_owned())
            })
            .ok_or("no comparison")?;
        let combine: Option<AluFn> = words.pick(|w| {
            Some(match w {
                "and" => alu!(|a: bool, b: bool| -> bool { a & b }),
                "or" => alu!(|a: bool, b: bool| -> bool { a | b }),
                "xor" => alu!(|a: bool, b: bool| -> bool { a ^ b }),
                _ => return None,
            })
        });
        let result = if opcode == "set" { Some(words.ty()?) } else { None };
        let ty = words.ty()?;
        let f = Self::comparison(&op, ty)?;
        let (d, a, b, c) = match (operands, combine.is_some()) {
            ([d, a, b], false) => (d, a, b, None),
            ([d, a, b, c], true) => (d, a, b, Some(c)),
            _ => return Err("operands do not fit".into()),
        };
        let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
        let c = c.map(|c| self.source(c, Type::Pred)).transpose()?;
        let (d, complement) = match d {
            Operand::Pair(p, q) => (&**p, Some(&**q)),
            single => (single, None),
        };
        let simple = result.is_none() && complement.is_none() && c.is_none();
        let raw = if simple {
            self.destination(d, Type::Pred)?
        } else {
            self.allocate(Type::Pred, 1).slot
        };
        self.alu(f, raw, &[a, b]);
        if simple {
            return Ok(());
        }
        // q = (!compare) BoolOp c, before p may overwrite c.
        let c = c.map(|c| {
            let copy = self.allocate(Type::Pred, 1).slot;
            self.alu(alu!(|a: bool| -> bool { a }), copy, &[c]);
            copy
        });
        let copy = alu!(|a: bool| -> bool { a });
        let finish = |lower: &mut Self, d: u32, raw: u32| match (combine, c) {
            (Some(f), Some(c)) => lower.alu(f, d, &[raw, c]),
            _ => lower.alu(copy, d, &[raw]),
        };
        match result {
            Some(to) => {
                let p = self.allocate(Type::Pred, 1).slot;
                finish(self, p, raw);
                let f = match to {
                    Type::F32 => alu!(|p: bool| -> f32 { if p { 1.0 } else { 0.0 } }),
                    Type::U32 | Type::S32 => alu!(|p: bool| -> u32 { u32::from(p).wrapping_neg() }),
                    _ => return unknown("set", to),
                };
                let d = self.destination(d, to)?;
                self.alu(f, d, &[p]);
            }
            None => {
                let d = self.destination(d, Type::Pred)?;
                finish(self, d, raw);
                if let Some(q) = complement {
                    let q = self.destination(q, Type::Pred)?;
                    let inverse = self.allocate(Type::Pred, 1).slot;
                    self.alu(alu!(|a: bool| -> bool { !a }), inverse, &[raw]);
                    finish(self, q, inverse);
                }
            }
        }
        Ok(())
    }

    fn convert(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
        if words.take("pack") {
            words.take("sat");
            let (f, three) = words.pick(convert_pack).ok_or("no type to pack")?;
            if !words.take("s32") {
                return Err("cvt.pack reads .s32".into());
            }
            let types: &[Type] = if three && operands.len() == 4 {
                if !words.take("b32") {
                    return Err("cvt.pack with three sources ends in .b32".into());
                }
                &[Type::B32, Type::S32, Type::S32, Type::B32]
            } else {
                &[Type::B32, Type::S32, Type::S32]
            };
            if types.len() == 3 {
                let zero = Operand::Int(0);
                let mut four = operands.to_vec();
                four.push(zero);
                return self.mixed(f, &[Type::B32, Type::S32, Type::S32, Type::B32], &four);
            }
            return self.mixed(f, types, operands);
        }
        let round = words.pick(Integral::parse);
        let nearest = words.take("rn");
        let toward_zero = !nearest && words.take("rz");
        let saturate = words.take("sat");
        let to = if words.take("tf32") { None } else { Some(words.ty()?) };
        let Some(to) = to else {
            return Err("cvt to tf32 is not modelled".into());
        };
        let from = words.ty()?;
        if matches!(to, Type::F16x2 | Type::Bf16x2) && from == Type::F32 {
            let f = if to == Type::F16x2 {
                alu!(|a: f32, b: f32| -> u32 {
                    u32::from(f16::from_f32(a).to_bits()) << 16
                        | u32::from(f16::from_f32(b).to_bits())
                })
            } else {
                alu!(|a: f32, b: f32| -> u32 {
                    u32::from(bf16::from_f32(a).to_bits()) << 16
                        | u32::from(bf16::from_f32(b).to_bits())
                })
            };
            if !nearest {
                return Err("only .rn is modelled for packed halves".into());
            }
            return self.mixed(f, &[to, from, from], operands);
        }
        let f = match (is_float(to), is_float(from)) {
            (false, false) => {
                with_int!(to, D => with_int!(from, S => Ok(int_to_int::<D, S>(saturate))))?
            }
            (true, false) => {
                if toward_zero {
                    return Err("only .rn is modelled from integers".into());
                }
                with_int!(from, S => int_to_float::<S>(to))?
            }
            (false, true) => {
                let round = round.ok_or("an integer rounding (.rzi, .rni, ...) is needed")?;
                match from {
                    Type::F32 => with_int!(to, D => Ok(float_to_int::<D, f32>(round)))?,
                    Type::F64 => with_int!(to, D => Ok(float_to_int::<D, f64>(round)))?,
                    Type::F16 => with_int!(to, D => Ok(float_to_int::<D, f16>(round)))?,
                    Type::Bf16 => with_int!(to, D => Ok(float_to_int::<D, bf16>(round)))?,
                    _ => return unknown("cvt", from),
                }
            }
            (true, true) => {
                if toward_zero {
                    return Err("only .rn is modelled between floating types".into());
                }
                match (to, from) {
                    (Type::F32, Type::F32) => float_to_float::<f32, f32>(round, saturate),
                    (Type::F64, Type::F64) => float_to_float::<f64, f64>(round, saturate),
                    (Type::F16, Type::F16) => float_to_float::<f16, f16>(round, saturate),
                    (Type::F32, Type::F64) => float_to_float::<f32, f64>(round, saturate),
                    (Type::F64, Type::F32) => float_to_float::<f64, f32>(round, saturate),
                    (Type::F32, Type::F16) => float_to_float::<f32, f16>(round, saturate),
                    (Type::F16, Type::F32) => float_to_float::<f16, f32>(round, saturate),
                    (Type::F64, Type::F16) => float_to_float::<f64, f16>(round, saturate),
                    (Type::F16, Type::F64) => float_to_float::<f16, f64>(round, saturate),
                    (Type::F32, Type::Bf16) => float_to_float::<f32, bf16>(round, saturate),
                    (Type::Bf16, Type::F32) => float_to_float::<bf16, f32>(round, saturate),
                    _ => return unknown("cvt", from),
                }
            }
        };
        // Operands may be wider than their types: the conversion reads the low part and the result
        // is extended to the register.
        let [d, a] = operands else {
            return Err(format!("expected 2 operands, found {}", operands.len()));
        };
        let source = self.source_reg(a, from)?;
        let destination = self.destination_reg(d, to)?;
        let source = self.fit(source, from)?;
        if destination.class == Self::class_of(to)? {
            self.alu(f, destination.slot, &[source]);
        } else {
            let part = self.allocate(to, 1).slot;
            self.alu(f, part, &[source]);
            let widen = match to {
                Type::S8 | Type::S16 | Type::S32 => alu!(|a: i32| -> i64 { i64::from(a) }),
                _ => alu!(|a: u32| -> u64 { u64::from(a) }),
            };
            self.alu(widen, destination.slot, &[part]);
        }
        Ok(())
    }

    /// The slot of `reg` as an operand of type `ty`, through a copy of the low half if it is wider.
    fn fit(&mut self, reg: Reg, ty: Type) -> Lowered<u32> {
        match (reg.class, Self::class_of(ty)?) {
            (a, b) if a == b => Ok(reg.slot),
            (Class::Wide, Class::Narrow) => {
                let low = self.allocate(Type::B32, 1).slot;
                self.alu(alu!(|a: u64| -> u32 { a as u32 }), low, &[reg.slot]);
                Ok(low)
            }
            _ => Err(format!("the register is too small for {ty:?}")),
        }
    }

    fn movement(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
        let ty = words.ty()?;
        match operands {
            [Operand::Vector(parts), whole] => self.unpack(ty, parts, whole),
            [whole, Operand::Vector(parts)] => self.pack(ty, whole, parts),
            [d, Operand::Name(name)]
                if matches!(
                    name.as_str(),
                    "%clock" | "%clock_hi" | "%clock64" | "%globaltimer" | "%globaltimer_lo"
                ) =>
            {
                let d = self.destination_reg(d, ty)?;
                self.emit(Op::Clock { d });
                Ok(())
            }
            [_, _] => {
                let f = match ty {
                    Type::Pred => alu!(|a: bool| -> bool { a }),
                    _ if ty.bytes() == 8 => alu!(|a: u64| -> u64 { a }),
                    _ => alu!(|a: u32| -> u32 { a }),
                };
                self.uniform((f, 1), ty, operands)
            }
            _ => Err(format!("expected 2 operands, found {}", operands.len())),
        }
    }

    /// `mov.b64 {a, b}, c`
    fn unpack(&mut self, ty: Type, parts: &[Operand], whole: &Operand) -> Lowered {
        let source = self.source_reg(whole, ty)?;
        let width = part_width(ty, parts.len())?;
        // A copy: the destinations may include the source.
        let wide = self.allocate(Type::B64, 1).slot;
        let copy = match source.class {
            Class::Wide => alu!(|a: u64| -> u64 { a }),
            Class::Narrow => alu!(|a: u32| -> u64 { u64::from(a) }),
            Class::Predicate => return Err("a predicate has no parts".into()),
        };
        self.alu(copy, wide, &[source.slot]);
        for (i, part) in parts.iter().enumerate() {
            if *part == Operand::Name("_".into()) {
                continue;
            }
            let d = self.destination(part, Type::B32)?;
            self.alu(split, d, &[wide, width, i as u32]);
        }
        Ok(())
    }

    /// `mov.b64 c, {a, b}`
    fn pack(&mut self, ty: Type, whole: &Operand, parts: &[Operand]) -> Lowered {
        let width = part_width(ty, parts.len())?;
        let destination = self.destination_reg(whole, ty)?;
        let part_ty = if width == 32 { Type::B32 } else { Type::B16 };
        let s = parts.iter().map(|p| self.source(p, part_ty)).collect::<Lowered<Vec<_>>>()?;
        let (f, to): (AluFn, _) = match (width, s.len()) {
            (32, 2) => {
                (alu!(|a: u32, b: u32| -> u64 { u64::from(b) << 32 | u64::from(a) }), Class::Wide)
            }
            (16, 2) => {
                (alu!(|a: u16, b: u16| -> u32 { u32::from(b) << 16 | u32::from(a) }), Class::Narrow)
            }
            (16, 4) => (
                alu!(|a: u16, b: u16, c: u16, d: u16| -> u64 {
                    u64::from(d) << 48 | u64::from(c) << 32 | u64::from(b) << 16 | u64::from(a)
                }),
                Class::Wide,
            ),
            (8, 4) => (
                alu!(|a: u8, b: u8, c: u8, d: u8| -> u32 { u32::from_le_bytes([a, b, c, d]) }),
                Class::Narrow,
            ),
            (8, 2) => {
                (alu!(|a: u8, b: u8| -> u32 { u32::from(b) << 8 | u32::from(a) }), Class::Narrow)
            }
            _ => return Err("these parts do not make up the register".into()),
        };
        if destination.class != to {
            return Err("the register does not fit its parts".into());
        }
        self.alu(f, destination.slot, &s);
        Ok(())
    }

    fn address_space(&mut self, opcode: &str, words: &mut Words, operands: &[Operand]) -> Lowered {
        let to = words.take("to");
        let space = words.space();
        if opcode == "isspacep" {
            let f = match space {
                Space::Shared => alu!(|a: u64| -> bool { a.wrapping_sub(SHARED_WINDOW) < WINDOW }),
                Space::Local => alu!(|a: u64| -> bool { a.wrapping_sub(LOCAL_WINDOW) < WINDOW }),
                Space::Global | Space::Const => {
                    alu!(|a: u64| -> bool { a.wrapping_sub(SHARED_WINDOW) >= 3 * WINDOW })
                }
                _ => return Err("no space".into()),
            };
            return self.mixed(f, &[Type::Pred, Type::U64], operands);
        }
        let ty = words.ty()?;
        if ty.bytes() != 8 {
            return unknown("cvta", ty);
        }
        let f = match (space, to) {
            (Space::Shared, false) => alu!(|a: u64| -> u64 { a.wrapping_add(SHARED_WINDOW) }),
            (Space::Shared, true) => alu!(|a: u64| -> u64 { a.wrapping_sub(SHARED_WINDOW) }),
            (Space::Local, false) => alu!(|a: u64| -> u64 { a.wrapping_add(LOCAL_WINDOW) }),
            (Space::Local, true) => alu!(|a: u64| -> u64 { a.wrapping_sub(LOCAL_WINDOW) }),
            (Space::Param, false) => alu!(|a: u64| -> u64 { a.wrapping_add(PARAM_WINDOW) }),
            (Space::Param, true) => alu!(|a: u64| -> u64 { a.wrapping_sub(PARAM_WINDOW) }),
            (Space::Global | Space::Const, _) => alu!(|a: u64| -> u64 { a }),
            (Space::Generic, _) => return Err("cvta names no space".into()),
        };
        self.uniform((f, 1), Type::B64, operands)
    }
}

/// Bits of each of `parts` parts of a register of type `ty`.
fn part_width(ty: Type, parts: usize) -> Lowered<u32> {
    let bits = 8 * ty.bytes();
    match (bits, parts) {
        (64, 2 | 4) | (32, 2 | 4) | (16, 2) => Ok(bits / parts as u32),
        _ => Err(format!("{ty:?} does not split into {parts} parts")),
    }
}
