//! Scalar instructions: each is the formula of one lane, written next to its name.

mod arithmetic;
mod compare;
mod convert;
mod logic;
mod movement;
mod number;
mod rounding;

use crate::lanes::{AluFn, Slots};
use crate::lower::builder::{Lower, Lowered};
use crate::lower::words::Words;
use crate::program;
use crate::program::Op;
use crate::syntax::ast::{Operand, Type};

fn is_float(ty: Type) -> bool {
    matches!(ty, Type::F32 | Type::F64 | Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2)
}

fn unknown<T>(what: &str, ty: Type) -> Lowered<T> {
    Err(format!("`{what}` of type {ty:?} is not modelled"))
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

    /// As [`Self::uniform`] for f32, where `.ftz` makes zeros of the subnormal numbers among the sources and of
    /// a subnormal result.
    fn flushed(&mut self, f: (AluFn, usize), operands: &[Operand]) -> Lowered {
        let (f, sources) = f;
        if operands.len() != sources + 1 {
            return Err(format!("expected {} operands, found {}", sources + 1, operands.len()));
        }
        let mut s = Vec::with_capacity(4);
        for operand in &operands[1..] {
            let source = self.source(operand, Type::F32)?;
            s.push(self.flush(source));
        }
        let d = self.destination(&operands[0], Type::F32)?;
        self.alu(f, d, &s);
        self.alu(rounding::flush(), d, &[d]);
        Ok(())
    }

    /// A copy of an f32 register, without subnormal numbers.
    fn flush(&mut self, source: u32) -> u32 {
        let copy = self.allocate(Type::F32, 1).slot;
        self.alu(rounding::flush(), copy, &[source]);
        copy
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
        use program::Class as C;
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
}
