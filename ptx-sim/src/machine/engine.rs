//! The asynchronous engine: mbarriers, bulk copies and tensor copies.
//!
//! A copy into shared memory takes its bytes from global memory when it is issued. It completes as late
//! as it may: when a warp waits on its mbarrier. Until then its destination may not be touched, so that a
//! missing wait shows in every run and not only in unlucky ones.

use std::ops::Range;

use super::access::modify;
use super::shadow::{COPY, Kind};
use super::shared::Remote;
use super::state::{Flow, MbarrierState, SharedAddress, Transfer, Work, merge};
use super::team::Team;
use super::warp::{State, Warp};
use crate::error::{FaultKind, Step, Stop};
use crate::lanes::{Addresses, LANES, Lane, Mask, lanes};
use crate::memory::Region;
use crate::program::{
    Address, Bulk, CLUSTER_SHIFT, Mbarrier, MbarrierOp, PARAM_WINDOW, SHARED_WINDOW, WINDOW, WaitBy,
};
use crate::syntax::ast::Space;
use crate::tensor::descriptor::swizzle;
use crate::tensor_map::{TENSOR_MAP_BYTES, TensorMap};

/// Times that `test_wait` may fail in a row before the warp sleeps until an mbarrier changes.
const SPINS: u32 = 1024;

impl Team<'_> {
    /// Addresses of an operand in shared memory.
    fn shared_addresses(warp: &Warp, address: &Address) -> Addresses {
        let at = Self::addresses(warp, address);
        match address.space {
            Space::Generic => at.map(|a| a.wrapping_sub(SHARED_WINDOW)),
            _ => at,
        }
    }

    fn mbarrier_at(&mut self, warp: &Warp, lane: usize, address: u64) -> Step<&mut MbarrierState> {
        let at = self.shared.locate(lane, address, 8, 8)?;
        let seen = self.clocks.view(warp.index);
        let Some(state) = self.engine.mbarriers.get_mut(&at) else {
            return Err(Stop::at(
                FaultKind::Invalid,
                lane,
                format!("no mbarrier has been initialised at shared address 0x{at:x}"),
            ));
        };
        let (by, clock) = state.initialised;
        if by != warp.index && clock > seen[by] {
            return Err(Stop::at(
                FaultKind::Race,
                lane,
                format!(
                    "race: the mbarrier at 0x{at:x} was initialised by warp {by}, with no barrier between"
                ),
            ));
        }
        Ok(state)
    }

    pub fn mbarrier(&mut self, warp: &mut Warp, op: &Mbarrier, mask: Mask) -> Step<Flow> {
        let mut at = Self::shared_addresses(warp, &op.address);
        let mask = self.arrive_elsewhere(warp, op.op, &mut at, mask)?;
        if mask == 0 {
            return Ok(Flow::Next);
        }
        match op.op {
            MbarrierOp::Init { count } => self.initialise(warp, count, &at, mask)?,
            MbarrierOp::Invalidate => {
                for lane in lanes(mask) {
                    self.mbarrier_at(warp, lane, at[lane])?;
                    self.engine.mbarriers.remove(&(at[lane] as u32));
                }
            }
            MbarrierOp::Arrive { .. } => self.arrive(warp, op.op, &at, mask)?,
            MbarrierOp::ExpectTx { bytes } => self.transact(warp, (bytes, 1), &at, mask)?,
            MbarrierOp::CompleteTx { bytes } => self.transact(warp, (bytes, -1), &at, mask)?,
            MbarrierOp::Wait { .. } => return self.wait(warp, op.op, &at, mask),
        }
        Ok(Flow::Next)
    }

    /// Arrives at mbarriers of other blocks of the cluster. Returns the lanes whose mbarrier is the block's own, with
    /// its address in `at`.
    fn arrive_elsewhere(
        &mut self,
        warp: &Warp,
        op: MbarrierOp,
        at: &mut Addresses,
        mask: Mask,
    ) -> Step<Mask> {
        let narrow = |slot: u32, lane: usize| warp.registers.narrow[slot as usize][lane];
        let mut here = mask;
        let mut released = Vec::new();
        for lane in lanes(mask) {
            let place = match self.place(lane, at[lane])? {
                SharedAddress::Here(address) => {
                    at[lane] = address;
                    continue;
                }
                SharedAddress::There { rank, address } => (rank, address),
            };
            here &= !(1 << lane);
            let does = match op {
                MbarrierOp::Arrive { state: None, count, expect, drop: false } => (
                    count.map_or(1, |c| narrow(c, lane)),
                    expect.map_or(0, |e| i64::from(narrow(e, lane))),
                ),
                MbarrierOp::ExpectTx { bytes } => (0, i64::from(narrow(bytes, lane))),
                _ => {
                    return Err(Stop::at(
                        FaultKind::Invalid,
                        lane,
                        "of an mbarrier of another block only arrivals without a result are allowed",
                    ));
                }
            };
            if released.is_empty() {
                self.clocks.release(warp.index, &mut released);
            }
            self.remote_arrive(lane, place, does, &released)?;
        }
        Ok(here)
    }

    /// `mbarrier.init`
    fn initialise(&mut self, warp: &Warp, count: u32, at: &Addresses, mask: Mask) -> Step {
        for lane in lanes(mask) {
            let address = self.shared.locate(lane, at[lane], 8, 8)?;
            let actor = self.actor(warp, lane);
            self.shared
                .write(&self.clocks, actor, address, &[0; 8])
                .map_err(|c| self.refuse(actor, c))?;
            let count = warp.registers.narrow[count as usize][lane];
            if !(1..1 << 20).contains(&count) {
                return Err(Stop::at(
                    FaultKind::Invalid,
                    lane,
                    format!("an mbarrier for {count} arrivals: expected 1 to 2^20 - 1"),
                ));
            }
            let initialised = (warp.index, self.clocks.view(warp.index)[warp.index]);
            let state = MbarrierState::new(count, initialised, self.clocks.width());
            self.engine.mbarriers.insert(address, state);
        }
        self.engine.events += 1;
        Ok(())
    }

    /// `mbarrier.arrive` in its forms.
    fn arrive(&mut self, warp: &mut Warp, op: MbarrierOp, at: &Addresses, mask: Mask) -> Step {
        let MbarrierOp::Arrive { state: token, count, expect, drop } = op else { return Ok(()) };
        let mut tokens = [0u64; LANES];
        // One release for the lanes that arrive together.
        let mut released = Vec::new();
        self.clocks.release(warp.index, &mut released);
        for lane in lanes(mask) {
            let narrow = |slot: u32| warp.registers.narrow[slot as usize][lane];
            let state = self.mbarrier_at(warp, lane, at[lane])?;
            tokens[lane] = state.phase << 32 | u64::from(state.pending);
            state.tx += expect.map_or(0, |e| i64::from(narrow(e)));
            merge(&mut state.view, &released);
            if drop {
                state.count = state.count.saturating_sub(1);
            }
            state.arrive(lane, count.map_or(1, narrow))?;
            self.engine.events += 1;
        }
        if let Some(d) = token {
            u64::write(&mut warp.registers, d, mask, &tokens);
        }
        Ok(())
    }

    /// `mbarrier.expect_tx` and `mbarrier.complete_tx`: as many bytes as a register says, times `sign`.
    fn transact(
        &mut self,
        warp: &Warp,
        (bytes, sign): (u32, i64),
        at: &Addresses,
        mask: Mask,
    ) -> Step {
        for lane in lanes(mask) {
            let bytes = i64::from(warp.registers.narrow[bytes as usize][lane]);
            self.mbarrier_at(warp, lane, at[lane])?.transact(sign * bytes);
            self.engine.events += 1;
        }
        Ok(())
    }

    /// `mbarrier.test_wait` and `mbarrier.try_wait`
    fn wait(&mut self, warp: &mut Warp, op: MbarrierOp, at: &Addresses, mask: Mask) -> Step<Flow> {
        let MbarrierOp::Wait { p, by, blocking } = op else { return Ok(Flow::Next) };
        let mut done = [false; LANES];
        let mut waiting = None;
        for lane in lanes(mask) {
            let over = |state: &MbarrierState| match by {
                WaitBy::Parity(slot) => {
                    let parity = warp.registers.narrow[slot as usize][lane];
                    state.phase & 1 != u64::from(parity & 1)
                }
                WaitBy::State(slot) => {
                    state.phase != warp.registers.wide[slot as usize][lane] >> 32
                }
            };
            let address = at[lane] as u32;
            if !over(self.mbarrier_at(warp, lane, at[lane])?) {
                self.run_engine(address)?;
            }
            let state = &self.engine.mbarriers[&address];
            done[lane] = over(state);
            if done[lane] {
                self.clocks.join(warp.index, &state.done);
                for (&rank, view) in &state.remote_done {
                    self.cluster.see(rank, view);
                }
            } else {
                waiting = Some(address);
            }
        }
        let waiting = waiting.map(|address| State::Mbarrier { address, seen: self.engine.events });
        if let (Some(state), true) = (waiting, blocking) {
            return Ok(Flow::WaitHere(state));
        }
        bool::write(&mut warp.registers, p, mask, &done);
        warp.spins = if waiting.is_some() { warp.spins + 1 } else { 0 };
        Ok(match waiting {
            None => Flow::Next,
            Some(state) if warp.spins > SPINS => Flow::WaitNext(state),
            Some(_) => Flow::Yield,
        })
    }

    /// Completes what the engine has to do for the mbarrier at `address`.
    fn run_engine(&mut self, address: u32) -> Step {
        while let Some(Transfer { work, source, .. }) = self.engine.next(address) {
            let clock = self.clocks.tick_engine();
            match &work {
                Work::Write { to, data } => {
                    self.shared.end_engine_copy(&self.clocks, clock, source, *to, data);
                }
                Work::Arrive { warp, lane, before } => {
                    self.finish_copies(*warp, *lane, *before, clock);
                }
            }
            let Some(state) = self.engine.mbarriers.get_mut(&address) else { continue };
            state.view.resize(self.clocks.width(), 0);
            state.view[self.clocks.engine()] = clock;
            match work {
                Work::Write { data, .. } => state.transact(-(data.len() as i64)),
                Work::Arrive { lane, .. } => state.arrive(lane, 1)?,
            }
            self.engine.events += 1;
        }
        Ok(())
    }

    pub fn cp_async_arrive(
        &mut self,
        warp: &Warp,
        address: &Address,
        noinc: bool,
        mask: Mask,
    ) -> Step {
        let at = Self::shared_addresses(warp, address);
        // The arrival also publishes what the thread did before.
        let mut released = Vec::new();
        self.clocks.release(warp.index, &mut released);
        for lane in lanes(mask) {
            let state = self.mbarrier_at(warp, lane, at[lane])?;
            merge(&mut state.view, &released);
            if !noinc {
                state.pending += 1;
            }
            let before = self.copies[warp.index].issued();
            let (mbarrier, source) = (at[lane] as u32, self.tally.source);
            let work = Work::Arrive { warp: warp.index, lane, before };
            self.engine.send(Transfer { mbarrier, source, work });
        }
        Ok(())
    }

    pub fn bulk(&mut self, warp: &Warp, op: &Bulk, mask: Mask) -> Step {
        self.stores += 1;
        let shared = Self::addresses(warp, &op.shared);
        let global = Self::addresses(warp, &op.global);
        let mbarrier = op.mbarrier.as_ref().map(|m| Self::addresses(warp, m));
        for lane in lanes(mask) {
            let (to, data) = if op.bytes.is_some() {
                self.bulk_lane(warp, op, lane, shared[lane], global[lane])?
            } else {
                self.tensor_lane(warp, op, lane, shared[lane], global[lane])?
            };
            match &mbarrier {
                Some(at) if op.multicast.is_some() => {
                    self.multicast(warp, op, lane, (to, at[lane] as u32), data)?;
                }
                Some(at) => {
                    self.mbarrier_at(warp, lane, at[lane])?;
                    let (mbarrier, source) = (at[lane] as u32, self.tally.source);
                    let work = Work::Write { to, data };
                    self.engine.send(Transfer { mbarrier, source, work });
                }
                None => {
                    let thread = warp.index * LANES + lane;
                    self.engine.reads[thread].open.push((to, data.len() as u32));
                }
            }
        }
        Ok(())
    }

    /// Sends the bytes of a copy to the same place in the blocks of the cluster that its mask names.
    fn multicast(
        &mut self,
        warp: &Warp,
        op: &Bulk,
        lane: usize,
        (to, mbarrier): (u32, u32),
        data: Vec<u8>,
    ) -> Step {
        let slot = op.multicast.expect("a multicast");
        let mask = warp.registers.narrow[slot as usize][lane] & 0xffff;
        let blocks = self.env.cluster_size();
        if mask == 0 || mask >> blocks != 0 {
            let message = format!("multicast to blocks 0x{mask:x} of a cluster of {blocks}");
            return Err(Stop::at(FaultKind::Invalid, lane, message));
        }
        let source = self.tally.source;
        for rank in lanes(mask) {
            let transfer =
                Transfer { mbarrier, source, work: Work::Write { to, data: data.clone() } };
            if rank == self.cluster.rank {
                self.mbarrier_at(warp, lane, u64::from(mbarrier))?;
                self.engine.send(transfer);
                continue;
            }
            let address = (rank as u64 + 1) << CLUSTER_SHIFT | u64::from(to);
            self.place(lane, address)?;
            let bytes = (data.len() as u32, 16);
            self.reach(warp, lane, (rank, u64::from(to)), bytes, Remote::Copy)?;
            // An arrival without a thread checks that there is an mbarrier.
            self.remote_arrive(lane, (rank, u64::from(mbarrier)), (0, 0), &[])?;
            self.cluster.peers[rank].engine.send(transfer);
        }
        Ok(())
    }

    /// Whether a copy has this block itself among its destinations.
    fn comes_here(&self, warp: &Warp, op: &Bulk, lane: usize) -> bool {
        op.multicast.is_none_or(|slot| {
            warp.registers.narrow[slot as usize][lane] >> self.cluster.rank & 1 != 0
        })
    }

    fn count_bulk(&mut self, bytes: u64) {
        let counts = self.tally.here();
        counts.bytes += bytes;
        counts.sectors += bytes.div_ceil(32);
        counts.ideal_sectors += bytes.div_ceil(32);
    }

    /// One plain bulk copy: the shared address and the bytes.
    fn bulk_lane(
        &mut self,
        warp: &Warp,
        op: &Bulk,
        lane: usize,
        shared: u64,
        global: u64,
    ) -> Step<(u32, Vec<u8>)> {
        let slot = op.bytes.expect("not a tensor copy");
        let bytes = warp.registers.narrow[slot as usize][lane];
        if bytes == 0 || !bytes.is_multiple_of(16) {
            return Err(Stop::at(
                FaultKind::Misaligned,
                lane,
                format!("a bulk copy of {bytes} bytes: expected a multiple of 16"),
            ));
        }
        let at = self.shared.locate(lane, shared, bytes, 16)?;
        self.count_bulk(u64::from(bytes));
        let actor = self.actor(warp, lane);
        if op.to_shared {
            if self.comes_here(warp, op, lane) {
                self.shared
                    .begin_copy(&self.clocks, actor, at, bytes, true)
                    .map_err(|c| self.refuse(actor, c))?;
            }
            let region = self.region(None, lane, global, bytes, 16)?;
            self.global_copy(warp, lane, global, bytes, Kind::Read)?;
            let data = (0..u64::from(bytes) / 8)
                .flat_map(|i| region.load(global + 8 * i, 8).to_le_bytes())
                .collect();
            return Ok((at, data));
        }
        self.shared
            .begin_async_read(&self.clocks, actor, at, bytes)
            .map_err(|c| self.refuse(actor, c))?;
        let data = self.shared.slice(at, bytes).to_vec();
        let region = self.region(None, lane, global, bytes, 16)?;
        let kind = if op.reduce.is_some() { Kind::Atomic } else { COPY };
        self.global_copy(warp, lane, global, bytes, kind)?;
        match op.reduce {
            None => {
                for (i, chunk) in data.chunks_exact(8).enumerate() {
                    let value = u64::from_le_bytes(chunk.try_into().expect("8"));
                    region.store(global + 8 * i as u64, 8, value);
                }
            }
            Some((rmw, ty)) => {
                let width = ty.bytes();
                for (i, chunk) in data.chunks_exact(width as usize).enumerate() {
                    let mut value = [0; 8];
                    value[..width as usize].copy_from_slice(chunk);
                    let value = u64::from_le_bytes(value);
                    region.update(global + i as u64 * u64::from(width), width, |old| {
                        modify(rmw, ty, old, value, 0)
                    });
                }
            }
        }
        Ok((at, data))
    }

    /// The tensor map at a generic address.
    fn tensor_map(&self, lane: usize, address: u64) -> Step<TensorMap> {
        let mut bytes = [0; TENSOR_MAP_BYTES];
        let offset = address.wrapping_sub(PARAM_WINDOW);
        if offset < WINDOW {
            let end = offset as usize + TENSOR_MAP_BYTES;
            let Some(source) = self.env.params.get(offset as usize..end) else {
                return Err(Stop::at(
                    FaultKind::OutOfBounds,
                    lane,
                    "the tensor map reaches past the parameters",
                ));
            };
            bytes.copy_from_slice(source);
        } else {
            let region = self.region(None, lane, address, TENSOR_MAP_BYTES as u32, 64)?;
            for (i, chunk) in bytes.chunks_exact_mut(8).enumerate() {
                chunk.copy_from_slice(&region.load(address + 8 * i as u64, 8).to_le_bytes());
            }
        }
        TensorMap::decode(&bytes).map_err(|e| Stop::at(FaultKind::Invalid, lane, e.to_string()))
    }

    /// One tensor copy: the shared address and the bytes of the box, swizzled.
    fn tensor_lane(
        &mut self,
        warp: &Warp,
        op: &Bulk,
        lane: usize,
        shared: u64,
        map_at: u64,
    ) -> Step<(u32, Vec<u8>)> {
        let map = self.tensor_map(lane, map_at)?;
        let rank = map.shape.len();
        if op.coordinates.len() != rank {
            return Err(Stop::at(
                FaultKind::Invalid,
                lane,
                format!("{} coordinates for a tensor of {rank} dimensions", op.coordinates.len()),
            ));
        }
        let origin: Vec<i64> = op
            .coordinates
            .iter()
            .map(|&slot| i64::from(warp.registers.narrow[slot as usize][lane] as i32))
            .collect();
        let bytes = map.box_bytes() as u32;
        let at = self.shared.locate(lane, shared, bytes, 128)?;
        let actor = self.actor(warp, lane);
        let mut data = vec![0; bytes as usize];
        if op.to_shared {
            if self.comes_here(warp, op, lane) {
                self.shared
                    .begin_copy(&self.clocks, actor, at, bytes, true)
                    .map_err(|c| self.refuse(actor, c))?;
            }
        } else {
            self.shared
                .begin_async_read(&self.clocks, actor, at, bytes)
                .map_err(|c| self.refuse(actor, c))?;
            data.copy_from_slice(self.shared.slice(at, bytes));
        }
        let moved = self.copy_box(warp, &map, &origin, lane, at, op.to_shared, &mut data)?;
        self.count_bulk(moved);
        Ok((at, data))
    }

    /// Copies between a box of a tensor and its bytes in shared memory, swizzled as at address `at`.
    /// Bytes outside of the tensor are left alone. Returns the bytes moved.
    #[allow(clippy::too_many_arguments)]
    fn copy_box(
        &self,
        warp: &Warp,
        map: &TensorMap,
        origin: &[i64],
        lane: usize,
        at: u32,
        to_shared: bool,
        data: &mut [u8],
    ) -> Step<u64> {
        let width = map.element_bytes;
        let row_bytes = map.box_shape[0] * width;
        let mut moved = 0;
        let mut index = vec![0u32; map.shape.len()];
        let mut last: Option<&Region> = None;
        for row in 0..data.len() as u32 / row_bytes {
            // Address of the row in the tensor, if inside.
            let mut address = Some(map.address);
            for d in 1..map.shape.len() {
                let c = origin[d] + i64::from(index[d]) * i64::from(map.element_strides[d]);
                let inside = c >= 0 && (c as u64) < map.shape[d];
                let offset = (c as u64).wrapping_mul(map.strides[d - 1]);
                address = address.filter(|_| inside).map(|a| a.wrapping_add(offset));
            }
            for (i, &extent) in index.iter_mut().zip(&map.box_shape).skip(1) {
                *i += 1;
                if *i < extent {
                    break;
                }
                *i = 0;
            }
            let Some(address) = address else { continue };
            let step = i64::from(map.element_strides[0]);
            let mut done = 0;
            // First byte of those moved side by side, and the one behind them.
            let mut run = 0..0;
            while done < row_bytes {
                let c = origin[0] + i64::from(done / width) * step;
                let from = address.wrapping_add_signed(c * i64::from(width));
                // Eight bytes at a time where they are contiguous, aligned and inside.
                let end = c + i64::from(8 / width);
                let aligned = done.is_multiple_of(8) && from.is_multiple_of(8);
                let whole = step == 1 && aligned && c >= 0 && end as u64 <= map.shape[0];
                let bytes = if whole { 8 } else { width };
                if whole || (c >= 0 && (c as u64) < map.shape[0]) {
                    let linear = at + row * row_bytes + done;
                    let place =
                        if map.swizzle == 0 { linear } else { swizzle(linear, map.swizzle) };
                    let slot = &mut data[(place - at) as usize..][..bytes as usize];
                    let region = self.region(last, lane, from, bytes, bytes)?;
                    if to_shared {
                        let value = region.load(from, bytes).to_le_bytes();
                        slot.copy_from_slice(&value[..bytes as usize]);
                    } else {
                        let mut value = [0; 8];
                        value[..bytes as usize].copy_from_slice(slot);
                        region.store(from, bytes, u64::from_le_bytes(value));
                    }
                    last = Some(region);
                    moved += u64::from(bytes);
                    if run.end != from {
                        self.note_run(warp, lane, &run, to_shared)?;
                        run.start = from;
                    }
                    run.end = from + u64::from(bytes);
                }
                done += bytes;
            }
            self.note_run(warp, lane, &run, to_shared)?;
        }
        Ok(moved)
    }

    /// Notes bytes of global memory that a tensor copy read or wrote.
    fn note_run(&self, warp: &Warp, lane: usize, run: &Range<u64>, to_shared: bool) -> Step {
        if run.is_empty() {
            return Ok(());
        }
        let kind = if to_shared { Kind::Read } else { COPY };
        self.global_copy(warp, lane, run.start, (run.end - run.start) as u32, kind)
    }

    pub fn bulk_commit(&mut self, warp: &Warp, mask: Mask) {
        for lane in lanes(mask) {
            let reads = &mut self.engine.reads[warp.index * LANES + lane];
            let group = std::mem::take(&mut reads.open);
            reads.groups.push_back(group);
        }
    }

    pub fn bulk_wait(&mut self, warp: &Warp, pending: u32, mask: Mask) {
        for lane in lanes(mask) {
            let reads = &mut self.engine.reads[warp.index * LANES + lane];
            while reads.groups.len() > pending as usize {
                for (at, bytes) in reads.groups.pop_front().unwrap_or_default() {
                    self.shared.end_async_read(&self.clocks, warp.index, at, bytes);
                }
            }
        }
    }
}
