//! Bits: logic, shifts, fields, permutations, and dot products of bytes.

use super::arithmetic::integer;
use super::number::{Int, with_int};
use super::unknown;
use crate::lanes::{AluFn, alu};
use crate::lower::builder::{Lower, Lowered};
use crate::lower::words::Words;
use crate::syntax::ast::{Operand, Type};

/// Selects and permutes bytes: the generic mode of `prmt`.
#[inline(always)]
pub(super) fn permute(a: u32, b: u32, selector: u32) -> u32 {
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
pub(super) fn permute_mode(mode: &str) -> Option<[u32; 4]> {
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
pub(super) fn lop3(a: u32, b: u32, c: u32, table: u32) -> u32 {
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

/// Position and length of a bit field as hardware takes them: the 32-bit forms read the low 8 bits of
/// each, as the PTX ISA says of all; the 64-bit forms, which ptxas expands into shifts, read all 32 (seen
/// on an H200 with driver 580).
#[inline(always)]
fn field(width: u32, pos: u32, len: u32) -> (u32, u32) {
    if width == 32 { (pos & 0xff, len & 0xff) } else { (pos.min(64), len.min(64)) }
}

/// Bits `len` from position `pos`; the sign fills what lies beyond.
#[inline(always)]
pub(super) fn extract(bits: u64, width: u32, signed: bool, pos: u32, len: u32) -> u64 {
    let (pos, len) = field(width, pos, len);
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
pub(super) fn insert(a: u64, b: u64, width: u32, pos: u32, len: u32) -> u64 {
    let (pos, len) = field(width, pos, len);
    if pos >= width {
        return b;
    }
    let len = len.min(width - pos);
    let mask = if len >= 64 { u64::MAX } else { ((1 << len) - 1) << pos };
    b & !mask | a << pos & mask
}

/// Position of the highest bit that is not a copy of the sign; all ones if there is none.
#[inline(always)]
pub(super) fn find_msb(bits: u64, width: u32, signed: bool, shift_amount: bool) -> u32 {
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
pub(super) fn byte_of(v: u32, i: u32, signed: bool) -> i32 {
    let byte = (v >> (8 * i)) as u8;
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}

#[inline(always)]
pub(super) fn half_of(v: u32, i: u32, signed: bool) -> i32 {
    let half = (v >> (16 * i)) as u16;
    if signed { i32::from(half as i16) } else { i32::from(half) }
}

/// Shifts of two registers, `shf`.
fn funnel_shift(words: &mut Words) -> Lowered<AluFn> {
    let left = words.look_up(&[("l", true), ("r", false)]);
    let wrap = words.look_up(&[("wrap", true), ("clamp", false)]);
    Ok(match (left, wrap) {
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
    })
}

/// Masks of a field, `bmsk`.
fn bit_mask(words: &mut Words) -> Lowered<AluFn> {
    Ok(match words.look_up(&[("wrap", true), ("clamp", false)]) {
        Some(true) => {
            alu!(|a: u32, b: u32| -> u32 { insert(u64::MAX, 0, 32, a & 31, b & 31) as u32 })
        }
        Some(false) => alu!(|a: u32, b: u32| -> u32 {
            if a > 31 { 0 } else { insert(u64::MAX, 0, 32, a, b.min(32)) as u32 }
        }),
        None => return Err("expected .clamp or .wrap".into()),
    })
}

/// Fields that are taken out, `bfe`, or put in, `bfi`.
fn bit_field(opcode: &str, ty: Type) -> Lowered<AluFn> {
    macro_rules! take {
        ($t:ty, $signed:literal) => {
            alu!(|a: $t, p: u32, n: u32| -> $t {
                extract(u64::from(a), <$t>::BITS, $signed, p, n) as $t
            })
        };
    }
    macro_rules! put {
        ($t:ty) => {
            alu!(|a: $t, b: $t, p: u32, n: u32| -> $t {
                insert(u64::from(a), u64::from(b), <$t>::BITS, p, n) as $t
            })
        };
    }
    Ok(match (opcode, ty) {
        ("bfe", Type::U32) => take!(u32, false),
        ("bfe", Type::S32) => take!(u32, true),
        ("bfe", Type::U64) => take!(u64, false),
        ("bfe", Type::S64) => take!(u64, true),
        ("bfi", Type::B32) => put!(u32),
        ("bfi", Type::B64) => put!(u64),
        _ => return unknown(opcode, ty),
    })
}

/// Positions of the highest bit, `bfind`, or of how far it is from the top.
fn find_bit(ty: Type, shift_amount: bool) -> Lowered<AluFn> {
    macro_rules! find {
        ($t:ty, $signed:literal) => {
            if shift_amount {
                alu!(|a: $t| -> u32 { find_msb(a.into(), <$t>::BITS, $signed, true) })
            } else {
                alu!(|a: $t| -> u32 { find_msb(a.into(), <$t>::BITS, $signed, false) })
            }
        };
    }
    Ok(match ty {
        Type::U32 => find!(u32, false),
        Type::S32 => find!(u32, true),
        Type::U64 => find!(u64, false),
        Type::S64 => find!(u64, true),
        _ => return unknown("bfind", ty),
    })
}

/// Logic of predicates.
fn of_predicates(opcode: &str) -> Option<(AluFn, usize)> {
    Some(match opcode {
        "and" => (alu!(|a: bool, b: bool| -> bool { a & b }), 2),
        "or" => (alu!(|a: bool, b: bool| -> bool { a | b }), 2),
        "xor" => (alu!(|a: bool, b: bool| -> bool { a ^ b }), 2),
        "not" => (alu!(|a: bool| -> bool { !a }), 1),
        _ => return None,
    })
}

impl Lower<'_> {
    pub(super) fn logic(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered {
        let u = Type::U32;
        match opcode {
            "lop3" => {
                words.ty()?;
                let f = alu!(|a: u32, b: u32, c: u32, t: u32| -> u32 { lop3(a, b, c, t) });
                self.mixed(f, &[Type::B32; 5], operands)
            }
            "prmt" => self.permutation(words, operands),
            "shf" => {
                let f = funnel_shift(words)?;
                words.ty()?;
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
                self.mixed(f, &[ty, ty, u], operands)
            }
            "bmsk" => {
                let f = bit_mask(words)?;
                words.ty()?;
                self.mixed(f, &[Type::B32; 3], operands)
            }
            "bfind" => {
                let shift_amount = words.take("shiftamt");
                let ty = words.ty()?;
                self.mixed(find_bit(ty, shift_amount)?, &[u, ty], operands)
            }
            "bfe" | "bfi" => {
                let ty = words.ty()?;
                let types = if opcode == "bfe" { &[ty, ty, u, u][..] } else { &[ty, ty, ty, u, u] };
                self.mixed(bit_field(opcode, ty)?, types, operands)
            }
            "popc" | "clz" => {
                let ty = words.ty()?;
                let all = opcode == "popc";
                let f = with_int!(ty, T => Ok(if all {
                    alu!(|a: T| -> u32 { a.popc() })
                } else {
                    alu!(|a: T| -> u32 { a.clz() })
                }))?;
                self.mixed(f, &[u, ty], operands)
            }
            "and" | "or" | "xor" | "not" | "cnot" | "brev" => {
                let ty = words.ty()?;
                let f = match ty {
                    Type::Pred => of_predicates(opcode),
                    _ => with_int!(ty, T => Ok(integer::<T>(opcode)))?,
                };
                f.map_or_else(|| unknown(opcode, ty), |f| self.uniform(f, ty, operands))
            }
            _ => unknown(opcode, words.ty()?),
        }
    }

    /// `prmt`
    fn permutation(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
        words.ty()?;
        let mode = words.pick(permute_mode);
        let f = alu!(|a: u32, b: u32, c: u32| -> u32 { permute(a, b, c) });
        let Some(table) = mode else { return self.mixed(f, &[Type::B32; 4], operands) };
        let [d, a, b, Operand::Int(c)] = operands else {
            return Err("prmt modes need a literal selector here".into());
        };
        let c = Operand::Int(i64::from(table[(c & 3) as usize]));
        self.mixed(f, &[Type::B32; 4], &[d.clone(), a.clone(), b.clone(), c])
    }

    pub(super) fn dot_product(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered {
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
}
