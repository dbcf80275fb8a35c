//! Loads, stores, atomics, fences.

use super::builder::{Lower, Lowered, mismatch};
use super::words::Words;
use crate::program::{Atomic, Class, Load, Op, Ordering, Rmw, Scope, Store};
use crate::syntax::ast::{Operand, Space, Type};

impl Lower<'_> {
    pub(super) fn memory(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered<bool> {
        match opcode {
            "ld" | "ldu" => self.load(words, operands)?,
            "st" => self.store(words, operands)?,
            "atom" | "red" => self.atomic(opcode == "red", words, operands)?,
            "mapa" => {
                self.class(Class::Other);
                if !words.take("shared::cluster") || words.ty()?.bytes() != 4 {
                    return Err("expected .shared::cluster.u32".into());
                }
                let [d, a, block] = operands else {
                    return Err(format!("expected 3 operands, found {}", operands.len()));
                };
                let d = self.destination(d, Type::U32)?;
                let a = self.source(a, Type::U32)?;
                let block = self.source(block, Type::U32)?;
                self.emit(Op::MapToBlock { d, a, block });
            }
            "prefetch" | "prefetchu" => {
                self.class(Class::Other);
                words.space();
                words.pick(|w| matches!(w, "L1" | "L2" | "tensormap").then_some(()));
                words.ordering();
                self.emit(Op::Nop);
            }
            "membar" | "fence" => {
                self.class(Class::Barrier);
                if words.take("proxy") {
                    let both = words.take("async") || words.take("async::generic");
                    let shared = words.take("async.shared::cta");
                    if !both && !shared && !words.take("tensormap::generic") && !words.take("alias")
                    {
                        return Err("unknown proxy".into());
                    }
                    words.space();
                    words.ordering();
                    self.emit(Op::ProxyFence);
                } else {
                    words.take("sc");
                    let device = words.take("gl");
                    let mbarrier = words.take("mbarrier_init");
                    let order = words.ordering();
                    let scope = if device { Scope::Gpu } else { order.scope };
                    if mbarrier || scope <= Scope::Cta {
                        self.emit(Op::Nop);
                    } else {
                        self.program.synchronises = true;
                        self.emit(Op::Fence { scope });
                    }
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Notes an access to memory: the smallest of each space are the granules of its checks.
    fn memory_access(&mut self, space: Space, bytes: u32, order: Ordering) {
        self.shared_access(space, bytes);
        if matches!(space, Space::Global | Space::Generic) {
            self.smallest_global = self.smallest_global.min(bytes.max(1));
        }
        self.program.synchronises |= order.acquire || order.release;
    }

    /// Vector width and element type.
    fn shape(&mut self, words: &mut Words) -> Lowered<(usize, Type)> {
        let lanes = words
            .pick(|w| match w {
                "v2" => Some(2),
                "v4" => Some(4),
                "v8" => Some(8),
                _ => None,
            })
            .unwrap_or(1);
        let ty = words.ty()?;
        if ty.bytes() > 8 || ty == Type::Pred {
            return Err(format!("{ty:?} in memory is not modelled"));
        }
        Ok((lanes, ty))
    }

    fn load(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
        let space = words.space();
        let order = words.ordering();
        let (lanes, ty) = self.shape(words)?;
        let [d, address] = operands else {
            return Err(format!("expected 2 operands, found {}", operands.len()));
        };
        let address = self.address(address, space)?;
        self.class(match address.space {
            Space::Shared => Class::SharedLoad,
            Space::Local => Class::Local,
            Space::Param => Class::Parameter,
            _ => Class::GlobalLoad,
        });
        let d = Self::vector(d);
        if d.len() != lanes {
            return Err(format!("expected {lanes} destinations, found {}", d.len()));
        }
        let elements = d
            .iter()
            .map(|d| match d {
                Operand::Name(name) if name == "_" => Ok(None),
                d => self.destination_reg(d, ty).map(Some),
            })
            .collect::<Lowered<Vec<_>>>()?;
        self.memory_access(address.space, ty.bytes() * lanes as u32, order);
        let signed = matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64);
        self.emit(Op::Load(Box::new(Load { address, elements, bytes: ty.bytes(), signed, order })));
        Ok(())
    }

    fn store(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
        if words.take("async") {
            return Err("st.async is not modelled".into());
        }
        let space = words.space();
        let order = words.ordering();
        let (lanes, ty) = self.shape(words)?;
        let [address, values] = operands else {
            return Err(format!("expected 2 operands, found {}", operands.len()));
        };
        let address = self.address(address, space)?;
        self.class(match address.space {
            Space::Shared => Class::SharedStore,
            Space::Local => Class::Local,
            Space::Param => Class::Parameter,
            _ => Class::GlobalStore,
        });
        let values = Self::vector(values);
        if values.len() != lanes {
            return Err(format!("expected {lanes} values, found {}", values.len()));
        }
        let elements =
            values.iter().map(|v| self.source_reg(v, ty)).collect::<Lowered<Vec<_>>>()?;
        self.memory_access(address.space, ty.bytes() * lanes as u32, order);
        self.emit(Op::Store(Box::new(Store { address, elements, bytes: ty.bytes(), order })));
        Ok(())
    }

    fn atomic(&mut self, reduction: bool, words: &mut Words, operands: &[Operand]) -> Lowered {
        self.class(Class::Atomic);
        let space = words.space();
        let mut order = words.ordering();
        // Atomics are relaxed at the scope of the GPU unless they say otherwise.
        if order.scope == Scope::Weak {
            order.scope = Scope::Gpu;
        }
        words.take("noftz");
        let op = words.fold().or_else(|| {
            words.look_up(&[
                ("exch", Rmw::Exchange),
                ("cas", Rmw::CompareSwap),
                ("inc", Rmw::Increment),
                ("dec", Rmw::Decrement),
            ])
        });
        let op = op.ok_or("no operation")?;
        let ty = words.ty()?;
        let known = match ty {
            Type::B32 | Type::B64 | Type::U32 | Type::U64 | Type::S32 | Type::S64 => true,
            Type::F32 | Type::F64 => op == Rmw::Add,
            Type::B16 => op == Rmw::CompareSwap,
            _ => false,
        };
        if !known {
            return Err(format!("{op:?} on {ty:?} is not modelled"));
        }
        let (d, rest) = if reduction {
            (None, operands)
        } else {
            let (d, rest) = operands.split_first().ok_or("no operands")?;
            (Some(d), rest)
        };
        let (address, a, b) = match (rest, op) {
            ([address, a, b], Rmw::CompareSwap) => (address, a, Some(b)),
            ([address, a], op) if op != Rmw::CompareSwap => (address, a, None),
            _ => return mismatch(),
        };
        let address = self.address(address, space)?;
        let a = self.source_reg(a, ty)?;
        let b = b.map(|b| self.source_reg(b, ty)).transpose()?;
        let d = match d {
            Some(Operand::Name(name)) if name == "_" => None,
            Some(d) => Some(self.destination_reg(d, ty)?),
            None => None,
        };
        self.memory_access(address.space, ty.bytes(), order);
        self.emit(Op::Atomic(Box::new(Atomic { address, op, ty, d, a, b, order })));
        Ok(())
    }
}
