//! Arithmetic on integers, extended integers and floating-point numbers.

use half::{bf16, f16};

use super::number::{Float, Int, with_int};
use super::rounding::{self, Round, fused};
use super::{is_float, unknown};
use crate::lanes::{AluFn, Class, alu};
use crate::lower::builder::{Lower, Lowered};
use crate::lower::words::Words;
use crate::program;
use crate::program::Constant;
use crate::syntax::ast::{Operand, Type};

/// Instructions whose operands all have the instruction's integer type.
pub(super) fn integer<T: Int>(op: &str) -> Option<(AluFn, usize)> {
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
pub(super) fn low24<T: Int>(a: T) -> i128 {
    a.shl(T::BITS.saturating_sub(24)).shr(T::BITS.saturating_sub(24)).to_i128()
}

/// f32 arithmetic, round to nearest even.
pub(super) fn single(op: &str) -> Option<(AluFn, usize)> {
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
        _ => return None,
    })
}

/// f64 arithmetic, round to nearest even.
pub(super) fn double(op: &str) -> Option<(AluFn, usize)> {
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
        _ => return None,
    })
}

/// f16 and bf16 arithmetic. Sums and products of two are exact enough in f64 for one rounding.
pub(super) fn small<T: Float>(op: &str) -> Option<(AluFn, usize)> {
    Some(match op {
        "add" => (alu!(|a: T, b: T| -> T { T::from_f64(a.to_f64() + b.to_f64()) }), 2),
        "sub" => (alu!(|a: T, b: T| -> T { T::from_f64(a.to_f64() - b.to_f64()) }), 2),
        "mul" => (alu!(|a: T, b: T| -> T { T::from_f64(a.to_f64() * b.to_f64()) }), 2),
        "fma" => (
            alu!(|a: T, b: T, c: T| -> T {
                T::from_f64(fused(a.to_f64(), b.to_f64(), c.to_f64()))
            }),
            3,
        ),
        "neg" => (alu!(|a: T| -> T { T::from_f64(-a.to_f64()) }), 1),
        "abs" => (alu!(|a: T| -> T { T::from_f64(a.to_f64().abs()) }), 1),
        "min" => (alu!(|a: T, b: T| -> T { T::from_f64(float_min(a.to_f64(), b.to_f64())) }), 2),
        "max" => (alu!(|a: T, b: T| -> T { T::from_f64(float_max(a.to_f64(), b.to_f64())) }), 2),
        _ => return None,
    })
}

/// The same on two halves of a register.
pub(super) fn paired(op: &str) -> Option<(AluFn, usize)> {
    fn each(a: u32, b: u32, c: u32, f: impl Fn(f64, f64, f64) -> f64) -> u32 {
        let part = |v: u32, s: u32| f16::from_bits((v >> s) as u16).to_f64();
        let rounded = |v: f64| u32::from(<f16 as Float>::from_f64(v).to_bits());
        let one = |s| rounded(f(part(a, s), part(b, s), part(c, s))) << s;
        one(0) | one(16)
    }
    Some(match op {
        "add" => (alu!(|a: u32, b: u32| -> u32 { each(a, b, 0, |a, b, _| a + b) }), 2),
        "sub" => (alu!(|a: u32, b: u32| -> u32 { each(a, b, 0, |a, b, _| a - b) }), 2),
        "mul" => (alu!(|a: u32, b: u32| -> u32 { each(a, b, 0, |a, b, _| a * b) }), 2),
        "fma" => (alu!(|a: u32, b: u32, c: u32| -> u32 { each(a, b, c, fused) }), 3),
        "neg" => (alu!(|a: u32| -> u32 { a ^ 0x8000_8000 }), 1),
        "abs" => (alu!(|a: u32| -> u32 { a & 0x7fff_7fff }), 1),
        "min" => (alu!(|a: u32, b: u32| -> u32 { each(a, b, 0, |a, b, _| float_min(a, b)) }), 2),
        "max" => (alu!(|a: u32, b: u32| -> u32 { each(a, b, 0, |a, b, _| float_max(a, b)) }), 2),
        _ => return None,
    })
}

/// The smaller; the number if one is NaN; -0 below +0.
pub(super) fn float_min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b < a || (a == b && b.is_sign_negative()) { b } else { a }
}

pub(super) fn float_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b > a || (a == b && a.is_sign_negative()) { b } else { a }
}

/// `.sat`: clamp to 0..1, NaN to 0.
pub(super) fn unit(v: f64) -> f64 {
    if v > 0.0 { v.min(1.0) } else { 0.0 }
}

/// Products of twice the width, `mul.wide`, or sums with them, and their type.
fn widening(opcode: &str, ty: Type) -> Option<(AluFn, Type)> {
    macro_rules! wide {
        ($t:ty, $wide:ty) => {
            if opcode == "mul" {
                alu!(|a: $t, b: $t| -> $wide { <$wide>::from(a) * <$wide>::from(b) })
            } else {
                alu!(|a: $t, b: $t, c: $wide| -> $wide {
                    (<$wide>::from(a) * <$wide>::from(b)).wrapping_add(c)
                })
            }
        };
    }
    Some(match ty {
        Type::U32 => (wide!(u32, u64), Type::U64),
        Type::S32 => (wide!(i32, i64), Type::S64),
        Type::U16 => (wide!(u16, u32), Type::U32),
        Type::S16 => (wide!(i16, i32), Type::S32),
        _ => return None,
    })
}

impl Lower<'_> {
    pub(super) fn arithmetic(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered {
        let part = words.one_of(&["lo", "hi", "wide"]);
        let carry_out = words.take("cc");
        if carry_out {
            return self.with_carry(opcode, part, false, true, words, operands);
        }
        let saturate = words.take("sat");
        let ty = words.ty()?;
        if is_float(ty) {
            return self.float_arithmetic(opcode, ty, saturate, words, operands);
        }
        let mut name = opcode.to_owned();
        if let Some(part) = part {
            name = format!("{name}.{part}");
        }
        if saturate {
            name.push_str(".sat");
            if ty != Type::S32 {
                return unknown(&name, ty);
            }
        }
        match (name.as_str(), ty) {
            ("mul.wide" | "mad.wide", _) => {
                let Some((f, wide)) = widening(opcode, ty) else { return unknown(&name, ty) };
                let types = [wide, ty, ty, wide];
                self.mixed(f, &types[..if opcode == "mul" { 3 } else { 4 }], operands)
            }
            _ => {
                let f = with_int!(ty, T => Ok(integer::<T>(&name)))?;
                match f {
                    Some(f) => self.uniform(f, ty, operands),
                    None => unknown(&name, ty),
                }
            }
        }
    }

    pub(super) fn float_arithmetic(
        &mut self,
        opcode: &str,
        ty: Type,
        saturate: bool,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered {
        self.class(program::Class::Float);
        // Approximations are computed to full precision: hardware may differ in the last bits.
        let approximate = words.take("approx") || words.take("full");
        let rounds = !approximate && !matches!(opcode, "min" | "max" | "abs" | "neg" | "copysign");
        let round = if rounds { words.pick(Round::parse) } else { None }.unwrap_or(Round::Nearest);
        let flush = ty == Type::F32 && words.take("ftz");
        let f = match ty {
            Type::F32 if round != Round::Nearest => rounding::single(opcode, round),
            Type::F64 if round != Round::Nearest => rounding::double(opcode, round),
            Type::F32 => single(opcode),
            Type::F64 => double(opcode),
            Type::F16 | Type::Bf16 | Type::F16x2 if round != Round::Nearest => None,
            Type::F16 => small::<f16>(opcode),
            Type::Bf16 => small::<bf16>(opcode),
            Type::F16x2 => paired(opcode),
            _ => None,
        };
        let Some(f) = f else { return unknown(opcode, ty) };
        if flush {
            self.flushed(f, operands)?;
        } else {
            self.uniform(f, ty, operands)?;
        }
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

    pub(super) fn carrying(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered {
        let part = words.pick(|w| matches!(w, "lo" | "hi").then(|| w.to_owned()));
        let out = words.take("cc");
        let stem = &opcode[..3];
        self.with_carry(stem, part.as_deref(), true, out, words, operands)
    }

    /// Extended-precision integer arithmetic through the carry flag, which is a hidden predicate.
    pub(super) fn with_carry(
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
}
