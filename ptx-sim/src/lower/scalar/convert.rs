//! Conversions between types.

use half::{bf16, f16};

use super::arithmetic::unit;
use super::number::{Float, Int, with_int};
use super::rounding::{self, Round};
use super::{is_float, unknown};
use crate::lanes::{AluFn, Class, Reg, alu};
use crate::lower::builder::{Lower, Lowered};
use crate::lower::words::Words;
use crate::syntax::ast::{Operand, Type};

/// `cvt` between integer types.
pub(super) fn int_to_int<D: Int, S: Int>(saturate: bool) -> AluFn {
    if saturate {
        alu!(|a: S| -> D { D::saturate(a.to_i128()) })
    } else {
        alu!(|a: S| -> D { D::wrap(a.to_i128()) })
    }
}

/// Rounding to an integral value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Integral {
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

/// Converts to an integer; NaN becomes 0, or the highest bit alone where either side has 64 bits.
fn to_int<D: Int, S: Float>(a: S, round: impl Fn(f64) -> f64) -> D {
    let v = a.to_f64();
    match v.is_nan() && (S::IS_DOUBLE || D::BITS == 64) {
        true => D::wrap(1 << (D::BITS - 1)),
        false => D::from_f64(round(v)),
    }
}

pub(super) fn float_to_int<D: Int, S: Float>(round: Integral) -> AluFn {
    match round {
        Integral::Nearest => alu!(|a: S| -> D { to_int(a, f64::round_ties_even) }),
        Integral::Zero => alu!(|a: S| -> D { to_int(a, f64::trunc) }),
        Integral::Down => alu!(|a: S| -> D { to_int(a, f64::floor) }),
        Integral::Up => alu!(|a: S| -> D { to_int(a, f64::ceil) }),
    }
}

pub(super) fn int_to_float<S: Int>(to: Type, mode: Round) -> Lowered<AluFn> {
    Ok(match to {
        Type::F32 => rounding::from_int::<f32, S>(mode),
        Type::F64 => rounding::from_int::<f64, S>(mode),
        Type::F16 => rounding::from_int::<f16, S>(mode),
        _ => return unknown("cvt", to),
    })
}

pub(super) fn float_to_float<D: Float, S: Float>(
    round: Option<Integral>,
    mode: Round,
    saturate: bool,
) -> AluFn {
    match (round, saturate) {
        (None, false) if mode != Round::Nearest => rounding::convert::<D, S>(mode),
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

/// `cvt.pack.sat`: two values clamped to `BITS` bits, above `keep` shifted up.
pub(super) fn convert_pack(to: &str) -> Option<(AluFn, bool)> {
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

/// Two numbers side by side, where `to` is of two halves.
fn pair_of(to: Type) -> AluFn {
    if to == Type::F16x2 {
        alu!(|a: f32, b: f32| -> u32 {
            u32::from(f16::from_f32(a).to_bits()) << 16 | u32::from(f16::from_f32(b).to_bits())
        })
    } else {
        alu!(|a: f32, b: f32| -> u32 {
            u32::from(bf16::from_f32(a).to_bits()) << 16 | u32::from(bf16::from_f32(b).to_bits())
        })
    }
}

/// Conversions of one number.
fn conversion(
    (to, from): (Type, Type),
    round: Option<Integral>,
    mode: Round,
    saturate: bool,
) -> Lowered<AluFn> {
    Ok(match (is_float(to), is_float(from)) {
        (false, false) => {
            with_int!(to, D => with_int!(from, S => Ok(int_to_int::<D, S>(saturate))))?
        }
        (true, false) => with_int!(from, S => int_to_float::<S>(to, mode))?,
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
            if mode != Round::Nearest && saturate {
                return Err("only .rn is modelled with .sat".into());
            }
            macro_rules! floats {
                ($($d:ident $to:ty, $s:ident $from:ty;)*) => {
                    match (to, from) {
                        $((Type::$d, Type::$s) => float_to_float::<$to, $from>(round, mode, saturate),)*
                        _ => return unknown("cvt", from),
                    }
                };
            }
            floats! {
                F32 f32, F32 f32;
                F64 f64, F64 f64;
                F16 f16, F16 f16;
                F32 f32, F64 f64;
                F64 f64, F32 f32;
                F32 f32, F16 f16;
                F16 f16, F32 f32;
                F64 f64, F16 f16;
                F16 f16, F64 f64;
                F32 f32, Bf16 bf16;
                F64 f64, Bf16 bf16;
                Bf16 bf16, F64 f64;
                Bf16 bf16, F32 f32;
            }
        }
    })
}

impl Lower<'_> {
    pub(super) fn convert(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
        if words.take("pack") {
            return self.convert_packed(words, operands);
        }
        let round = words.pick(Integral::parse);
        let mode = words.pick(Round::parse);
        let flush = words.take("ftz");
        let saturate = words.take("sat");
        if words.take("tf32") {
            return Err("cvt to tf32 is not modelled".into());
        }
        let (to, from) = (words.ty()?, words.ty()?);
        if matches!(to, Type::F16x2 | Type::Bf16x2) && from == Type::F32 {
            if mode != Some(Round::Nearest) {
                return Err("only .rn is modelled for packed halves".into());
            }
            return self.mixed(pair_of(to), &[to, from, from], operands);
        }
        let f = conversion((to, from), round, mode.unwrap_or(Round::Nearest), saturate)?;
        // Operands may be wider than their types: the conversion reads the low part and the result
        // is extended to the register.
        let [d, a] = operands else {
            return Err(format!("expected 2 operands, found {}", operands.len()));
        };
        let source = self.source_reg(a, from)?;
        let destination = self.destination_reg(d, to)?;
        let mut source = self.fit(source, from)?;
        if flush && from == Type::F32 {
            source = self.flush(source);
        }
        if destination.class == Self::class_of(to)? {
            self.alu(f, destination.slot, &[source]);
            if flush && to == Type::F32 {
                self.alu(rounding::flush(), destination.slot, &[destination.slot]);
            }
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

    /// `cvt.pack`
    fn convert_packed(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
        words.take("sat");
        let (f, three) = words.pick(convert_pack).ok_or("no type to pack")?;
        if !words.take("s32") {
            return Err("cvt.pack reads .s32".into());
        }
        let types = [Type::B32, Type::S32, Type::S32, Type::B32];
        if !three || operands.len() != 4 {
            return self.mixed(f, &types, &[operands, &[Operand::Int(0)]].concat());
        }
        if !words.take("b32") {
            return Err("cvt.pack with three sources ends in .b32".into());
        }
        self.mixed(f, &types, operands)
    }

    /// The slot of `reg` as an operand of type `ty`, through a copy of the low half if it is wider.
    pub(super) fn fit(&mut self, reg: Reg, ty: Type) -> Lowered<u32> {
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
}
