//! Comparisons and selections.

use half::{bf16, f16};

use super::number::{Float, Int, with_int};
use super::unknown;
use crate::lanes::{AluFn, alu};
use crate::lower::builder::{Lower, Lowered};
use crate::lower::words::Words;
use crate::syntax::ast::{Operand, Type};

/// Comparisons: of all numbers, of unsigned ones, and of floats that may be NaN.
const COMPARISONS: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
    "geu", "num", "nan",
];

/// Comparisons that give a predicate.
pub(super) fn compare_int<T: Int>(op: &str) -> Option<AluFn> {
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

pub(super) fn compare_float<T: Float>(op: &str) -> Option<AluFn> {
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

impl Lower<'_> {
    pub(super) fn comparison(op: &str, ty: Type) -> Lowered<AluFn> {
        let f = match ty {
            Type::F32 => compare_float::<f32>(op),
            Type::F64 => compare_float::<f64>(op),
            Type::F16 => compare_float::<f16>(op),
            Type::Bf16 => compare_float::<bf16>(op),
            _ => with_int!(ty, T => Ok(compare_int::<T>(op)))?,
        };
        f.ok_or_else(|| format!("unknown comparison `{op}`"))
    }

    pub(super) fn compare(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered {
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
                let test = words.one_of(&[
                    "finite",
                    "infinite",
                    "number",
                    "notanumber",
                    "normal",
                    "subnormal",
                ]);
                let test = test.ok_or("no test")?;
                let ty = words.ty()?;
                if ty != Type::F32 {
                    return unknown("testp", ty);
                }
                let f = match test {
                    "finite" => alu!(|a: f32| -> bool { a.is_finite() }),
                    "infinite" => alu!(|a: f32| -> bool { a.is_infinite() }),
                    "number" => alu!(|a: f32| -> bool { !a.is_nan() }),
                    "notanumber" => alu!(|a: f32| -> bool { a.is_nan() }),
                    // Zeros count as normal.
                    "normal" => alu!(|a: f32| -> bool { a.is_normal() || a == 0.0 }),
                    _ => alu!(|a: f32| -> bool { a.is_subnormal() }),
                };
                self.mixed(f, &[Type::Pred, ty], operands)
            }
            _ => self.set_predicate(opcode, words, operands),
        }
    }

    /// `setp` and `set`, with an optional combination with a third predicate.
    pub(super) fn set_predicate(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered {
        let op = words.one_of(&COMPARISONS).ok_or("no comparison")?;
        let combine: Option<AluFn> = words.look_up(&[
            ("and", alu!(|a: bool, b: bool| -> bool { a & b })),
            ("or", alu!(|a: bool, b: bool| -> bool { a | b })),
            ("xor", alu!(|a: bool, b: bool| -> bool { a ^ b })),
        ]);
        let result = if opcode == "set" { Some(words.ty()?) } else { None };
        let ty = words.ty()?;
        let flush = ty == Type::F32 && words.take("ftz");
        let f = Self::comparison(op, ty)?;
        let (d, a, b, c) = match (operands, combine.is_some()) {
            ([d, a, b], false) => (d, a, b, None),
            ([d, a, b, c], true) => (d, a, b, Some(c)),
            _ => return Err("operands do not fit".into()),
        };
        let (mut a, mut b) = (self.source(a, ty)?, self.source(b, ty)?);
        if flush {
            (a, b) = (self.flush(a), self.flush(b));
        }
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
        self.combined((d, complement), result, combine.zip(c), raw)
    }

    /// Writes a comparison, `raw`, combined with another predicate, to `d`, of type `result` where it is no predicate, and the
    /// opposite comparison so combined to `complement`.
    fn combined(
        &mut self,
        (d, complement): (&Operand, Option<&Operand>),
        result: Option<Type>,
        combine: Option<(AluFn, u32)>,
        raw: u32,
    ) -> Lowered {
        // q = (!compare) BoolOp c, before p may overwrite c.
        let combine = combine.map(|(f, c)| {
            let kept = self.allocate(Type::Pred, 1).slot;
            self.alu(alu!(|a: bool| -> bool { a }), kept, &[c]);
            (f, kept)
        });
        let copy = alu!(|a: bool| -> bool { a });
        let finish = |lower: &mut Self, d: u32, raw: u32| match combine {
            Some((f, c)) => lower.alu(f, d, &[raw, c]),
            None => lower.alu(copy, d, &[raw]),
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
}
