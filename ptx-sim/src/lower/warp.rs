//! Instructions of a whole warp or block: exchanges, votes, barriers.

use super::builder::{Lower, Lowered, mismatch};
use super::words::Words;
use crate::program::{
    Barrier, BarrierMode, Class, Match, Op, Redux, Shuffle, ShuffleMode, Vote, VoteMode,
};
use crate::syntax::ast::{Operand, Type};

impl Lower<'_> {
    pub(super) fn warp(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered<bool> {
        let op = match opcode {
            "shfl" => self.shuffle(words, operands)?,
            "vote" => self.vote(words, operands)?,
            "match" => self.match_lanes(words, operands)?,
            "redux" => self.redux(words, operands)?,
            "activemask" => {
                words.ty()?;
                let [d] = operands else { return mismatch() };
                Op::ActiveMask { d: self.destination(d, Type::B32)? }
            }
            "elect" => self.elect(words, operands)?,
            // `bar` is `barrier` that is aligned.
            "bar" | "barrier" => {
                self.barrier(words, operands, opcode == "bar")?;
                return Ok(true);
            }
            "nanosleep" | "griddepcontrol" => {
                self.class(Class::Other);
                words.take("launch_dependents");
                words.take("wait");
                words.take("u32");
                self.emit(Op::Nop);
                return Ok(true);
            }
            "setmaxnreg" => {
                self.class(Class::Other);
                self.set_max_registers(words, operands)?;
                self.emit(Op::SetMaxNReg);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        self.class(Class::Warp);
        self.emit(op);
        Ok(true)
    }

    fn shuffle(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered<Op> {
        self.sync(words)?;
        let mode = words.look_up(&[
            ("up", ShuffleMode::Up),
            ("down", ShuffleMode::Down),
            ("bfly", ShuffleMode::Butterfly),
            ("idx", ShuffleMode::Index),
        ]);
        let mode = mode.ok_or("no mode")?;
        words.ty()?;
        let [d, a, b, c, members] = operands else { return mismatch() };
        let a = self.source(a, Type::B32)?;
        let b = self.source(b, Type::B32)?;
        let c = self.source(c, Type::B32)?;
        let members = self.source(members, Type::B32)?;
        let (d, p) = self.destination_pair(d, Type::B32)?;
        Ok(Op::Shuffle(Box::new(Shuffle { mode, d, p, a, b, c, members })))
    }

    fn vote(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered<Op> {
        self.sync(words)?;
        let mode = words.look_up(&[
            ("all", VoteMode::All),
            ("any", VoteMode::Any),
            ("uni", VoteMode::Uniform),
            ("ballot", VoteMode::Ballot),
        ]);
        let mode = mode.ok_or("no mode")?;
        words.ty()?;
        let [d, a, members] = operands else { return mismatch() };
        let a = self.source(a, Type::Pred)?;
        let members = self.source(members, Type::B32)?;
        let ty = if mode == VoteMode::Ballot { Type::B32 } else { Type::Pred };
        let d = self.destination(d, ty)?;
        Ok(Op::Vote(Box::new(Vote { mode, d, a, members })))
    }

    fn match_lanes(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered<Op> {
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
        Ok(Op::Match(Box::new(Match { all, d, p, a, members })))
    }

    fn redux(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered<Op> {
        self.sync(words)?;
        let op = words.fold().ok_or("no operation")?;
        let ty = words.ty()?;
        let [d, a, members] = operands else { return mismatch() };
        let a = self.source(a, ty)?;
        let members = self.source(members, Type::B32)?;
        let d = self.destination(d, ty)?;
        let signed = ty == Type::S32;
        Ok(Op::Redux(Box::new(Redux { op, signed, d, a, members })))
    }

    fn elect(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered<Op> {
        self.sync(words)?;
        let [Operand::Pair(d, p), members] = operands else { return mismatch() };
        let members = self.source(members, Type::B32)?;
        let d = match &**d {
            Operand::Name(name) if name == "_" => None,
            d => Some(self.destination(d, Type::B32)?),
        };
        let p = self.destination(p, Type::Pred)?;
        Ok(Op::Elect { d, p, members })
    }

    /// Checks `setmaxnreg`, which changes nothing here.
    fn set_max_registers(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
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
        Ok(())
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
                    return mismatch();
                };
                (Some(d), rest, Some(p))
            }
        };
        let (id, threads) = match rest {
            [id] => (id, None),
            [id, threads] => (id, Some(threads)),
            _ => return mismatch(),
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
