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

impl Lower<'_> {
    pub(super) fn logic(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered {
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
