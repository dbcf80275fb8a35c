//! Instructions of a whole warp or block: exchanges, votes, barriers.

use super::builder::{Lower, Lowered};
use super::words::Words;
use crate::program::{
    Barrier, BarrierMode, Class, Match, Op, Redux, Rmw, Shuffle, ShuffleMode, Vote, VoteMode,
};
use crate::syntax::ast::{Operand, Type};

impl Lower<'_> {
    pub(super) fn warp(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered<bool> {
        let mismatch = || Err(String::from("operands do not fit"));
        match opcode {
            "shfl" => {
                self.class(Class::Warp);
                self.sync(words)?;
                let mode = words
                    .pick(|w| {
                        Some(match w {
                            "up" => ShuffleMode::Up,
                            "down" => ShuffleMode::Down,
                            "bfly" => ShuffleMode::Butterfly,
                            "idx" => ShuffleMode::Index,
                            _ => return None,
                        })
                    })
                    .ok_or("no mode")?;
                words.ty()?;
                let [d, a, b, c, members] = operands else { return mismatch() };
                let a = self.source(a, Type::B32)?;
                let b = self.source(b, Type::B32)?;
                let c = self.source(c, Type::B32)?;
                let members = self.source(members, Type::B32)?;
                let (d, p) = self.destination_pair(d, Type::B32)?;
                self.emit(Op::Shuffle(Box::new(Shuffle { mode, d, p, a, b, c, members })));
            }
            "vote" => {
                self.class(Class::Warp);
                self.sync(words)?;
                let mode = words
                    .pick(|w| {
                        Some(match w {
                            "all" => VoteMode::All,
                            "any" => VoteMode::Any,
                            "uni" => VoteMode::Uniform,
                            "ballot" => VoteMode::Ballot,
                            _ => return None,
                        })
                    })
                    .ok_or("no mode")?;
                words.ty()?;
                let [d, a, members] = operands else { return mismatch() };
                let a = self.source(a, Type::Pred)?;
                let members = self.source(members, Type::B32)?;
                let ty = if mode == VoteMode::Ballot { Type::B32 } else { Type::Pred };
                let d = self.destination(d, ty)?;
                self.emit(Op::Vote(Box::new(Vote { mode, d, a, members })));
            }
            "match" => {
                self.class(Class::Warp);
                let all = words.take("all");
                if !all && !words.take("any") {
                    return Err("expected .any or .all".into());
                }
                self.sync(words)?;
                let ty = words.ty()?;
                let [d, a, members] = operands else { return mismatch() };
                let a = self.source_reg(a, ty)?;
                let members = self.source(members, Type::B32)?;
                let (d, p) = self.destination_pair(d, Type::B32)?;
                self.emit(Op::Match(Box::new(Match { all, d, p, a, members })));
            }
            "redux" => {
                self.class(Class::Warp);
                self.sync(words)?;
                let op = words
                    .pick(|w| {
                        Some(match w {
                            "add" => Rmw::Add,
                            "min" => Rmw::Min,
                            "max" => Rmw::Max,
                            "and" => Rmw::And,
                            "or" => Rmw::Or,
                            "xor" => Rmw::Xor,
                            _ => return None,
                        })
                    })
                    .ok_or("no operation")?;
                let ty = words.ty()?;
                let [d, a, members] = operands else { return mismatch() };
                let a = self.source(a, ty)?;
                let members = self.source(members, Type::B32)?;
                let d = self.destination(d, ty)?;
                let signed = ty == Type::S32;
                self.emit(Op::Redux(Box::new(Redux { op, signed, d, a, members })));
            }
            "activemask" => {
                self.class(Class::Warp);
                words.ty()?;
                let [d] = operands else { return mismatch() };
                let d = self.destination(d, Type::B32)?;
                self.emit(Op::ActiveMask { d });
            }
            "elect" => {
                self.class(Class::Warp);
                self.sync(words)?;
                let [Operand::Pair(d, p), members] = operands else { return mismatch() };
                let members = self.source(members, Type::B32)?;
                let d = match &**d {
                    Operand::Name(name) if name == "_" => None,
                    d => Some(self.destination(d, Type::B32)?),
                };
                let p = self.destination(p, Type::Pred)?;
                self.emit(Op::Elect { d, p, members });
            }
            // `bar` is `barrier` that is aligned.
            "bar" => self.barrier(words, operands, true)?,
            "barrier" => self.barrier(words, operands, false)?,
            "nanosleep" | "griddepcontrol" => {
                self.class(Class::Other);
                words.take("launch_dependents");
                words.take("wait");
                words.take("u32");
                self.emit(Op::Nop);
            }
            "setmaxnreg" => {
                self.class(Class::Other);
                if !words.take("inc") && !words.take("dec") {
                    return Err("expected .inc or .dec".into());
                }
                self.sync(words)?;
                words.take("aligned");
                words.ty()?;
                let [Operand::Int(count)] = operands else { return mismatch() };
                if !(24..=256).contains(count) || count % 8 != 0 {
                    return Err(format!("{count} registers: expected a multiple of 8 in 24..=256"));
                }
                self.emit(Op::SetMaxNReg);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn sync(&mut self, words: &mut Words) -> Lowered {
        if words.take("sync") { Ok(()) } else { Err("expected .sync".into()) }
    }

    /// `d|p` or `d`.
    fn destination_pair(&mut self, operand: &Operand, ty: Type) -> Lowered<(u32, Option<u32>)> {
        match operand {
            Operand::Pair(d, p) => {
                Ok((self.destination(d, ty)?, Some(self.destination(p, Type::Pred)?)))
            }
            d => Ok((self.destination(d, ty)?, None)),
        }
    }

    fn barrier(&mut self, words: &mut Words, operands: &[Operand], aligned: bool) -> Lowered {
        self.class(Class::Barrier);
        if words.take("warp") {
            self.sync(words)?;
            let [members] = operands else { return Err("expected a member mask".into()) };
            let members = self.source(members, Type::B32)?;
            self.emit(Op::WarpSync { members });
            return Ok(());
        }
        if words.take("cluster") {
            words.take("aligned");
            let op = if words.take("arrive") {
                Op::ClusterArrive
            } else if words.take("wait") {
                Op::ClusterWait
            } else {
                return Err("expected .arrive or .wait".into());
            };
            words.ordering();
            self.emit(op);
            return Ok(());
        }
        words.take("cta");
        let aligned = words.take("aligned") || aligned;
        let mode = if words.take("sync") {
            BarrierMode::Sync
        } else if words.take("arrive") {
            BarrierMode::Arrive
        } else if words.take("red") {
            if words.take("popc") {
                BarrierMode::Popc
            } else if words.take("and") {
                BarrierMode::And
            } else if words.take("or") {
                BarrierMode::Or
            } else {
                return Err("expected .popc, .and or .or".into());
            }
        } else {
            return Err("expected .sync, .arrive or .red".into());
        };
        let (d, rest, p) = match mode {
            BarrierMode::Sync | BarrierMode::Arrive => (None, operands, None),
            _ => {
                words.pick(|w| matches!(w, "u32" | "pred").then_some(()));
                let [d, rest @ .., p] = operands else {
                    return Err("operands do not fit".into());
                };
                (Some(d), rest, Some(p))
            }
        };
        let (id, threads) = match rest {
            [id] => (id, None),
            [id, threads] => (id, Some(threads)),
            _ => return Err("operands do not fit".into()),
        };
        if mode == BarrierMode::Arrive && threads.is_none() {
            return Err("an arrive needs a thread count".into());
        }
        let id = self.source(id, Type::U32)?;
        let threads = threads.map(|t| self.source(t, Type::U32)).transpose()?;
        let p = p.map(|p| self.source(p, Type::Pred)).transpose()?;
        let ty = if mode == BarrierMode::Popc { Type::U32 } else { Type::Pred };
        let d = d.map(|d| self.destination_reg(d, ty)).transpose()?;
        self.emit(Op::Barrier(Box::new(Barrier { mode, aligned, id, threads, d, p })));
        Ok(())
    }
}
