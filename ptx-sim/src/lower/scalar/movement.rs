//! Moves, packing and unpacking, and conversions of addresses between windows.

use super::unknown;
use crate::lanes::{AluFn, Class, Lane, Mask, Registers, Slots, alu};
use crate::lower::builder::{Lower, Lowered};
use crate::lower::words::Words;
use crate::program::{LOCAL_WINDOW, Op, PARAM_WINDOW, SHARED_WINDOW, WINDOW};
use crate::syntax::ast::{Operand, Space, Type};

/// `mov` between a register and its parts.
pub(super) fn split(registers: &mut Registers, slots: &Slots, mask: Mask) {
    // s[0]: wide source, s[1]: width of a part in bits, s[2]: index of the part; d narrow.
    let (width, shift) = (slots.s[1], slots.s[1] * slots.s[2]);
    let keep = if width == 32 { u32::MAX } else { (1 << width) - 1 };
    let values = registers.wide[slots.s[0] as usize].map(|v| (v >> shift) as u32 & keep);
    u32::write(registers, slots.d, mask, &values);
}

/// Bits of each of `parts` parts of a register of type `ty`.
pub(super) fn part_width(ty: Type, parts: usize) -> Lowered<u32> {
    let bits = 8 * ty.bytes();
    match (bits, parts) {
        (64, 2 | 4) | (32, 2 | 4) | (16, 2) => Ok(bits / parts as u32),
        _ => Err(format!("{ty:?} does not split into {parts} parts")),
    }
}

impl Lower<'_> {
    pub(super) fn movement(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
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
    pub(super) fn unpack(&mut self, ty: Type, parts: &[Operand], whole: &Operand) -> Lowered {
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
    pub(super) fn pack(&mut self, ty: Type, whole: &Operand, parts: &[Operand]) -> Lowered {
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

    pub(super) fn address_space(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered {
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
