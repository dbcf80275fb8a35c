//! Asynchronous copies and the barriers that complete them.

use super::builder::{Lower, Lowered, count, mismatch};
use super::words::Words;
use crate::lanes::{Reg, Slots, alu};
use crate::program::{Bulk, Class, CpAsync, Mbarrier, MbarrierOp, Op, Rmw, WaitBy};
use crate::syntax::ast::{Operand, Space, Type};

/// Dimensions of a tensor.
const DIMENSIONS: [(&str, usize); 5] = [("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)];

/// Operation and type of `cp.reduce.async.bulk`.
fn reduction(words: &mut Words, tensor: bool, to_shared: bool) -> Lowered<(Rmw, Type)> {
    let op = words.fold();
    if tensor {
        return Err("cp.reduce.async.bulk.tensor is not modelled".into());
    }
    let ty = words.ty()?;
    if to_shared || !matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::F32 | Type::F64) {
        return Err(format!("a reduction of {ty:?} is not modelled"));
    }
    Ok((op.ok_or("no operation")?, ty))
}

impl Lower<'_> {
    pub(super) fn asynchronous(
        &mut self,
        opcode: &str,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered<bool> {
        match opcode {
            "cp" => {
                self.class(Class::AsyncCopy);
                let reduce = words.take("reduce");
                if !words.take("async") {
                    return Err("expected .async".into());
                }
                if words.take("bulk") {
                    self.bulk(reduce, words, operands)?;
                } else {
                    self.cp_async(words, operands)?;
                }
            }
            "mbarrier" => {
                self.class(Class::Barrier);
                self.mbarrier(words, operands)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn cp_async(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
        if words.take("commit_group") {
            self.emit(Op::CpAsyncCommit);
            return Ok(());
        }
        if words.take("wait_all") {
            self.emit(Op::CpAsyncWaitAll);
            return Ok(());
        }
        if words.take("wait_group") {
            self.emit(Op::CpAsyncWait { pending: count(operands)? });
            return Ok(());
        }
        if words.take("mbarrier::arrive") || (words.take("mbarrier") && words.take("arrive")) {
            let noinc = words.take("noinc");
            let space = words.space();
            words.take("b64");
            let [address] = operands else { return Err("expected an address".into()) };
            let address = self.address(address, space)?;
            self.shared_access(Space::Shared, 8);
            self.emit(Op::CpAsyncArrive { address, noinc });
            return Ok(());
        }
        let all_levels = words.take("ca");
        if !all_levels && !words.take("cg") {
            return Err("expected .ca or .cg".into());
        }
        if words.space() != Space::Shared || words.space() != Space::Global {
            return Err("expected .shared.global".into());
        }
        let hint = words.take("L2::cache_hint");
        words.ordering();
        let [destination, source, Operand::Int(bytes), rest @ ..] = operands else {
            return mismatch();
        };
        let bytes = *bytes as u32;
        if !matches!((bytes, all_levels), (4 | 8 | 16, true) | (16, false)) {
            return Err(format!("{bytes} bytes: expected 4, 8 or 16 (.cg: 16)"));
        }
        let rest = if hint { &rest[..rest.len().saturating_sub(1)] } else { rest };
        let destination = self.address(destination, Space::Shared)?;
        let source = self.address(source, Space::Global)?;
        let (source_bytes, ignore) = match rest {
            [] => (None, None),
            [o] => match self.source_reg(o, Type::U32)? {
                reg if reg.class == crate::lanes::Class::Predicate => (None, Some(reg.slot)),
                reg if reg.class == crate::lanes::Class::Narrow => (Some(reg.slot), None),
                _ => return Err("the source size is a 32-bit value".into()),
            },
            _ => return mismatch(),
        };
        self.shared_access(Space::Shared, bytes);
        self.smallest_global = self.smallest_global.min(bytes);
        self.emit(Op::CpAsync(Box::new(CpAsync {
            destination,
            source,
            bytes,
            source_bytes,
            ignore,
        })));
        Ok(())
    }

    fn bulk(&mut self, reduce: bool, words: &mut Words, operands: &[Operand]) -> Lowered {
        if words.take("commit_group") {
            self.emit(Op::BulkCommit);
            return Ok(());
        }
        if words.take("wait_group") {
            words.take("read");
            self.emit(Op::BulkWait { pending: count(operands)? });
            return Ok(());
        }
        if words.take("prefetch") {
            return Err("cp.async.bulk.prefetch is not modelled".into());
        }
        let multicast = words.take("multicast::cluster");
        let tensor = words.take("tensor");
        let dimensions = tensor.then(|| words.look_up(&DIMENSIONS).ok_or("expected .1d to .5d"));
        let dimensions = dimensions.transpose()?;
        words.take("tile");
        let (to, from) = (words.space(), words.space());
        let to_shared = match (to, from) {
            (Space::Shared, Space::Global) => true,
            (Space::Global, Space::Shared) => false,
            _ => return Err("expected .shared.global or .global.shared".into()),
        };
        let hint = words.take("L2::cache_hint");
        let by_mbarrier = words.take("mbarrier::complete_tx::bytes");
        if by_mbarrier == words.take("bulk_group") {
            return Err("expected .mbarrier::complete_tx::bytes or .bulk_group".into());
        }
        if by_mbarrier != to_shared {
            return Err(
                "copies to shared complete through an mbarrier, others through a group".into()
            );
        }
        let reduce = reduce.then(|| reduction(words, tensor, to_shared)).transpose()?;
        let operands = if hint { &operands[..operands.len().saturating_sub(1)] } else { operands };
        let [first, second, rest @ ..] = operands else { return mismatch() };
        let (shared, global) = if to_shared { (first, second) } else { (second, first) };
        let coordinates = match (global, dimensions) {
            (Operand::Tensor { coordinates, .. }, Some(n)) if coordinates.len() == n => coordinates
                .iter()
                .map(|c| self.source(c, Type::S32))
                .collect::<Lowered<Vec<_>>>()?,
            (Operand::Address { .. }, None) => Vec::new(),
            _ => return Err("the coordinates do not fit the dimensions".into()),
        };
        let shared = self.address(shared, Space::Shared)?;
        // Tensor maps may also stand in const or param space: generic addresses.
        let space = if tensor { Space::Generic } else { Space::Global };
        let global = self.address(global, space)?;
        let (bytes, rest) = match (tensor, rest) {
            (true, rest) => (None, rest),
            (false, [bytes, rest @ ..]) => (Some(self.source(bytes, Type::U32)?), rest),
            _ => return Err("the size is missing".into()),
        };
        if multicast && !to_shared {
            return Err("multicast goes to shared memory".into());
        }
        let (mbarrier, multicast) = match (by_mbarrier, rest) {
            (true, [address]) if !multicast => (Some(self.address(address, Space::Shared)?), None),
            (true, [address, mask]) if multicast => {
                let mask = self.source_reg(mask, Type::B16)?;
                (Some(self.address(address, Space::Shared)?), Some(self.fit_narrow(mask)?))
            }
            (false, []) => (None, None),
            _ => return mismatch(),
        };
        self.shared_access(Space::Shared, 16);
        self.emit(Op::Bulk(Box::new(Bulk {
            to_shared,
            shared,
            global,
            bytes,
            coordinates,
            mbarrier,
            multicast,
            reduce,
        })));
        Ok(())
    }

    /// The slot of a register of at most 32 bits.
    fn fit_narrow(&self, reg: Reg) -> Lowered<u32> {
        match reg.class {
            crate::lanes::Class::Narrow => Ok(reg.slot),
            _ => Err("the mask of a multicast has 16 bits".into()),
        }
    }

    fn mbarrier(&mut self, words: &mut Words, operands: &[Operand]) -> Lowered {
        let arrive = words.take("arrive");
        let arrive_drop = words.take("arrive_drop");
        let expect_tx = words.take("expect_tx");
        let complete_tx = words.take("complete_tx");
        let init = words.take("init");
        let inval = words.take("inval");
        let try_wait = words.take("try_wait");
        let test_wait = words.take("test_wait");
        let pending_count = words.take("pending_count");
        let parity = words.take("parity");
        let no_complete = words.take("noComplete");
        let space = words.space();
        words.ordering();
        if !words.take("b64") {
            return Err("expected .b64".into());
        }
        if no_complete {
            return Err("unknown modifier `.noComplete`".into());
        }
        if pending_count {
            let [d, state] = operands else { return mismatch() };
            let state = self.source(state, Type::B64)?;
            let d = self.destination(d, Type::U32)?;
            // The simulator's state token holds the pending count in its low half.
            let f = alu!(|s: u64| -> u32 { s as u32 });
            self.emit(Op::Alu(f, Slots { d, s: [state, 0, 0, 0] }));
            return Ok(());
        }
        self.shared_access(Space::Shared, 8);
        let (address, op) = if init {
            let [address, count] = operands else { return mismatch() };
            (address, MbarrierOp::Init { count: self.source(count, Type::U32)? })
        } else if inval {
            let [address] = operands else { return mismatch() };
            (address, MbarrierOp::Invalidate)
        } else if arrive || arrive_drop {
            self.arrival(operands, expect_tx, arrive_drop)?
        } else if expect_tx || complete_tx {
            let [address, bytes] = operands else { return mismatch() };
            let bytes = self.source(bytes, Type::U32)?;
            let op = if expect_tx {
                MbarrierOp::ExpectTx { bytes }
            } else {
                MbarrierOp::CompleteTx { bytes }
            };
            (address, op)
        } else if try_wait || test_wait {
            // The optional last operand of try_wait is a time limit.
            let (p, address, state) = match operands {
                [p, address, state] => (p, address, state),
                [p, address, state, _limit] if try_wait => (p, address, state),
                _ => return mismatch(),
            };
            let by = if parity {
                WaitBy::Parity(self.source(state, Type::U32)?)
            } else {
                WaitBy::State(self.source(state, Type::B64)?)
            };
            let p = self.destination(p, Type::Pred)?;
            (address, MbarrierOp::Wait { p, by, blocking: try_wait })
        } else {
            return Err("unknown operation on an mbarrier".into());
        };
        let address = self.address(address, space)?;
        self.emit(Op::Mbarrier(Box::new(Mbarrier { address, op })));
        Ok(())
    }

    /// The operation and the address of `mbarrier.arrive` and `mbarrier.arrive_drop`.
    fn arrival<'o>(
        &mut self,
        operands: &'o [Operand],
        expect_tx: bool,
        drop: bool,
    ) -> Lowered<(&'o Operand, MbarrierOp)> {
        let (state, address, rest) = match operands {
            [address @ Operand::Address { .. }, rest @ ..] => (None, address, rest),
            [state, address, rest @ ..] => (Some(state), address, rest),
            _ => return mismatch(),
        };
        let value = match rest {
            [] if expect_tx => return mismatch(),
            [] => None,
            [value] => Some(self.source(value, Type::U32)?),
            _ => return mismatch(),
        };
        let state = match state {
            Some(Operand::Name(name)) if name == "_" => None,
            Some(state) => Some(self.destination(state, Type::B64)?),
            None => None,
        };
        let (count, expect) = if expect_tx { (None, value) } else { (value, None) };
        Ok((address, MbarrierOp::Arrive { state, count, expect, drop }))
    }
}
