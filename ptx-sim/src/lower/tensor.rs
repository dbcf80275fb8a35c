//! Matrix instructions: `mma.sync`, `wgmma`, `ldmatrix`, `stmatrix`.

use super::builder::{Lower, Lowered, count, mismatch};
use super::words::Words;
use crate::program::{BitOp, Class, Element, Matrix, Mma, MmaKind, Op, Wgmma, WgmmaA};
use crate::syntax::ast::{Operand, Space, Type};
use crate::tensor::fragment;

/// `m16n8k32` and its like.
fn shape(word: &str) -> Option<(u32, u32, u32)> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}

/// Element and accumulator types, told apart by [`Element`].
enum OperandType {
    Element(Element),
    Accumulator(Type),
}

fn operand_type(word: &str) -> Option<OperandType> {
    use OperandType::{Accumulator, Element as E};
    Some(match word {
        "s8" => E(Element::S8),
        "u8" => E(Element::U8),
        "s4" => E(Element::S4),
        "u4" => E(Element::U4),
        "b1" => E(Element::B1),
        "f16" => E(Element::F16),
        "bf16" => E(Element::Bf16),
        "tf32" => E(Element::Tf32),
        "s32" => Accumulator(Type::S32),
        "f32" => Accumulator(Type::F32),
        _ => return None,
    })
}

fn accumulator(word: &str) -> Option<Type> {
    match operand_type(word)? {
        OperandType::Accumulator(ty) => Some(ty),
        OperandType::Element(Element::F16) => Some(Type::F16),
        OperandType::Element(_) => None,
    }
}

fn element(word: &str) -> Option<Element> {
    match operand_type(word)? {
        OperandType::Element(e) => Some(e),
        OperandType::Accumulator(_) => None,
    }
}

impl Lower<'_> {
    pub(super) fn tensor(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered<bool> {
        match opcode {
            "ldmatrix" | "stmatrix" => self.matrix(opcode == "stmatrix", words, operands)?,
            "mma" => self.mma(words, operands)?,
            "wgmma" => self.wgmma(words, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn aligned(&mut self, words: &mut Words) -> Lowered {
        self.sync(words)?;
        if words.take("aligned") { Ok(()) } else { Err("expected .aligned".into()) }
    }

    fn matrix(&mut self, store: bool, words: &mut Words, operands: &[Operand]) -> Lowered {
        self.class(if store { Class::SharedStore } else { Class::SharedLoad });
        self.aligned(words)?;
        if !words.take("m8n8") {
            return Err("only the shape m8n8 is modelled".into());
        }
        let count = words
            .pick(|w| match w {
                "x1" => Some(1),
                "x2" => Some(2),
                "x4" => Some(4),
                _ => None,
            })
            .ok_or("expected .x1, .x2 or .x4")?;
        let transpose = words.take("trans");
        let space = match words.space() {
            Space::Shared => Space::Shared,
            Space::Generic => Space::Generic,
            _ => return Err("expected .shared".into()),
        };
        if !words.take("b16") {
            return Err("expected .b16".into());
        }
        let [first, second] = operands else {
            return Err(format!("expected 2 operands, found {}", operands.len()));
        };
        let (address, values) = if store { (first, second) } else { (second, first) };
        let address = self.address(address, space)?;
        let values = Self::vector(values);
        if values.len() != count {
            return Err(format!("expected {count} registers, found {}", values.len()));
        }
        let registers = values
            .iter()
            .map(|v| if store { self.source(v, Type::B32) } else { self.destination(v, Type::B32) })
            .collect::<Lowered<Vec<_>>>()?;
        self.shared_access(space, 16);
        self.emit(Op::Matrix(Box::new(Matrix { store, transpose, address, registers })));
        Ok(())
    }

    /// Sources: each item of a vector, of 32 bits.
    fn fragment(&mut self, operand: &Operand, count: u32, what: &str) -> Lowered<Vec<u32>> {
        let items = Self::vector(operand);
        if items.len() != count as usize {
            return Err(format!("{what} needs {count} registers, found {}", items.len()));
        }
        items.iter().map(|i| self.source(i, Type::B32)).collect()
    }

    fn accumulators(&mut self, operand: &Operand, count: u32) -> Lowered<Vec<u32>> {
        let items = Self::vector(operand);
        if items.len() != count as usize {
            return Err(format!("D needs {count} registers, found {}", items.len()));
        }
        items.iter().map(|i| self.destination(i, Type::B32)).collect()
    }

    fn tensor_class(&mut self, kind: &MmaKind) {
        self.class(Class::Tensor);
        let m = if kind.m == 64 { 16 } else { kind.m };
        self.program.sources[self.source as usize].tensor_operations =
            2 * u64::from(m) * u64::from(kind.n) * u64::from(kind.k);
    }

    fn bit_op(words: &mut Words) -> Lowered<BitOp> {
        let op = if words.take("and") {
            BitOp::And
        } else if words.take("xor") {
            BitOp::Xor
        } else {
            return Err("b1 needs .and.popc or .xor.popc".into());
        };
        if words.take("popc") { Ok(op) } else { Err("expected .popc".into()) }
    }

    fn mma(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
        self.aligned(words)?;
        let (m, n, k) = words.pick(shape).ok_or("no shape")?;
        let mut order = || words.pick(|w| matches!(w, "row" | "col").then(|| w == "row"));
        if [order(), order()] != [Some(true), Some(false)] {
            return Err("only .row.col is modelled".into());
        }
        let saturate = words.take("satfinite");
        let d_type = words.pick(accumulator).ok_or("no accumulator type")?;
        let a = words.pick(element).ok_or("no type of A")?;
        let b = words.pick(element).ok_or("no type of B")?;
        let c_type = words.pick(accumulator).ok_or("no type of C")?;
        let bit_op = if a == Element::B1 { Self::bit_op(words)? } else { BitOp::And };
        let kind = MmaKind { m, n, k, a, b, accumulator: d_type, saturate, bit_op };
        let ok = n == 8
            && match (a, b) {
                (Element::S8 | Element::U8, Element::S8 | Element::U8) => {
                    matches!((m, k), (8, 16) | (16, 16) | (16, 32)) && d_type == Type::S32
                }
                (Element::S4 | Element::U4, Element::S4 | Element::U4) => {
                    matches!((m, k), (8, 32) | (16, 32) | (16, 64)) && d_type == Type::S32
                }
                (Element::B1, Element::B1) => {
                    matches!((m, k), (8, 128) | (16, 128) | (16, 256)) && d_type == Type::S32
                }
                (Element::F16, Element::F16) => {
                    matches!((m, k), (16, 8) | (16, 16)) && matches!(d_type, Type::F32 | Type::F16)
                }
                (Element::Bf16, Element::Bf16) => {
                    matches!((m, k), (16, 8) | (16, 16)) && d_type == Type::F32
                }
                (Element::Tf32, Element::Tf32) => {
                    matches!((m, k), (16, 4) | (16, 8)) && d_type == Type::F32
                }
                _ => false,
            };
        if !ok || c_type != d_type {
            return Err(format!("m{m}n{n}k{k} with {a:?}, {b:?} into {d_type:?} is not modelled"));
        }
        if saturate && !matches!(a, Element::S8 | Element::U8 | Element::S4 | Element::U4) {
            return Err("unknown modifier `.satfinite`".into());
        }
        let [d, fa, fb, fc] = operands else {
            return Err(format!("expected 4 operands, found {}", operands.len()));
        };
        let counts = fragment::registers(&kind);
        let a = self.fragment(fa, counts.a, "A")?;
        let b = self.fragment(fb, counts.b, "B")?;
        let c = self.fragment(fc, counts.c, "C")?;
        let d = self.accumulators(d, counts.c)?;
        self.tensor_class(&kind);
        self.emit(Op::Mma(Box::new(Mma { kind, d, a, b, c })));
        Ok(())
    }

    fn wgmma(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
        self.class(Class::Barrier);
        if words.take("fence") {
            self.aligned(words)?;
            self.emit(Op::WgmmaFence);
            return Ok(());
        }
        if words.take("commit_group") {
            self.aligned(words)?;
            self.emit(Op::WgmmaCommit);
            return Ok(());
        }
        if words.take("wait_group") {
            self.aligned(words)?;
            self.emit(Op::WgmmaWait { pending: count(operands)? });
            return Ok(());
        }
        if !words.take("mma_async") {
            return Err("expected .mma_async, .fence, .commit_group or .wait_group".into());
        }
        self.aligned(words)?;
        let kind = Self::wgmma_kind(words)?;
        let [d, fa, fb, rest @ ..] = operands else {
            return mismatch();
        };
        let [scale_d, rest @ ..] = rest else {
            return Err("scale-d is missing".into());
        };
        let counts = fragment::registers(&kind);
        let from_registers = matches!(fa, Operand::Vector(_));
        let fa = match fa {
            Operand::Vector(_) => WgmmaA::Registers(self.fragment(fa, counts.a, "A")?),
            descriptor => WgmmaA::Descriptor(self.source(descriptor, Type::B64)?),
        };
        let fb = self.source(fb, Type::B64)?;
        let scale_d = self.source(scale_d, Type::Pred)?;
        let (scale_a, scale_b) = scales(&kind, rest, from_registers)?;
        // The accumulators are read and written.
        let items = Self::vector(d);
        for item in items {
            self.source(item, Type::B32)?;
        }
        let d = self.accumulators(d, counts.c)?;
        self.tensor_class(&kind);
        // Descriptors move in steps of 16 bytes.
        self.shared_access(Space::Shared, 16);
        self.emit(Op::Wgmma(Box::new(Wgmma {
            kind,
            d,
            a: fa,
            b: fb,
            scale_d,
            negate_a: scale_a < 0,
            negate_b: scale_b < 0,
        })));
        Ok(())
    }

    /// Kind of the products of `wgmma.mma_async`.
    fn wgmma_kind(words: &mut Words) -> Lowered<MmaKind> {
        let (m, n, k) = words.pick(shape).ok_or("no shape")?;
        let saturate = words.take("satfinite");
        let d_type = words.pick(accumulator).ok_or("no accumulator type")?;
        let a = words.pick(element).ok_or("no type of A")?;
        let b = words.pick(element).ok_or("no type of B")?;
        let bit_op = if a == Element::B1 { Self::bit_op(words)? } else { BitOp::And };
        // Integer and bit shapes exist for n = 8, 16, 24, 32 and multiples of 16 beyond.
        let any_n = (8..=256).contains(&n) && n.is_multiple_of(8);
        let integer_n = any_n && (n <= 32 || n.is_multiple_of(16));
        let ok = m == 64
            && match (a, b) {
                (Element::S8 | Element::U8, Element::S8 | Element::U8) => {
                    k == 32 && integer_n && d_type == Type::S32
                }
                (Element::B1, Element::B1) => {
                    k == 256 && integer_n && d_type == Type::S32 && bit_op == BitOp::And
                }
                (Element::F16, Element::F16) => {
                    k == 16 && any_n && matches!(d_type, Type::F32 | Type::F16)
                }
                (Element::Bf16, Element::Bf16) => k == 16 && any_n && d_type == Type::F32,
                _ => false,
            };
        if !ok {
            return Err(format!("m{m}n{n}k{k} with {a:?}, {b:?} into {d_type:?} is not modelled"));
        }
        Ok(MmaKind { m, n, k, a, b, accumulator: d_type, saturate, bit_op })
    }
}

/// Scales of A and B, 1 or -1, behind which floats have whether they are transposed: A where it is no register, and B.
fn scales(kind: &MmaKind, operands: &[Operand], from_registers: bool) -> Lowered<(i64, i64)> {
    let literal = |o: &Operand| match o {
        Operand::Int(v) => Ok(*v),
        _ => Err(String::from("expected a literal scale")),
    };
    let is_float = matches!(kind.a, Element::F16 | Element::Bf16);
    let (scale_a, scale_b, transposes) = match operands {
        [] if !is_float => (1, 1, &[] as &[Operand]),
        [sa, sb, transposes @ ..] if is_float => (literal(sa)?, literal(sb)?, transposes),
        _ => return mismatch(),
    };
    if is_float && transposes.len() != if from_registers { 1 } else { 2 } {
        return mismatch();
    }
    for transpose in transposes {
        if literal(transpose)? != 0 {
            return Err("transposed (MN-major) operands are not modelled".into());
        }
    }
    if scale_a.abs() != 1 || scale_b.abs() != 1 {
        return Err("scales are 1 or -1".into());
    }
    Ok((scale_a, scale_b))
}
