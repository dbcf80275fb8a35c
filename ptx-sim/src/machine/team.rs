//! A block: its warps take turns, each runs until it must wait.

use std::collections::{BTreeMap, VecDeque};

use super::clocks::Clocks;
use super::cluster::Cluster;
use super::collective::BarrierState;
use super::copies::Copies;
use super::engine::{MbarrierState, Transfer};
use super::launch::Env;
use super::shared::{Actor, Conflict, Shared};
use super::warp::{State, Warp};
use crate::Error;
use crate::error::{Fault, FaultKind, Step, Stop, brief};
use crate::lanes::{LANES, Mask, Reg};
use crate::program::{Inst, NOWHERE, Op};
use crate::report::Counts;
use crate::tensor::product::Multiplier;

/// Branches that the warps of a block may take before it counts as stuck.
const BRANCH_LIMIT: u64 = 1 << 30;
/// Barriers of a block.
const BARRIERS: usize = 16;

/// What an instruction means for the warp's course.
pub enum Flow {
    Next,
    /// Wait behind the instruction.
    WaitNext(State),
    /// Wait, then run the instruction again.
    WaitHere(State),
    /// Go on behind the instruction after the others had a turn.
    Yield,
}

/// A block while it runs.
pub struct Team<'a> {
    pub env: &'a Env<'a>,
    pub block: [u32; 3],
    pub shared: Shared,
    pub clocks: Clocks,
    pub barriers: Vec<BarrierState>,
    /// Results of barriers for the warps that wait at them.
    pub released: Vec<Option<u32>>,
    pub mbarriers: BTreeMap<u32, MbarrierState>,
    /// `cp.async` of each warp.
    pub copies: Vec<Copies>,
    /// Bulk copies that nobody has waited for yet.
    pub transfers: VecDeque<Transfer>,
    /// Bulk groups of each thread that read shared memory.
    pub bulk_reads: Vec<super::engine::BulkReads>,
    /// Changes of mbarriers so far.
    pub events: u64,
    pub live_warps: usize,
    pub counts: Vec<Counts>,
    pub multiplier: Multiplier,
    pub source: u32,
    executed: u64,
    pub cluster: Cluster,
    /// The warps of the block; those of the last one give their room to the next.
    pub warps: Vec<Warp>,
}

impl<'a> Team<'a> {
    pub fn new(env: &'a Env<'a>) -> Self {
        Self {
            env,
            block: [0; 3],
            shared: Shared::default(),
            clocks: Clocks::default(),
            barriers: Vec::new(),
            released: Vec::new(),
            mbarriers: BTreeMap::new(),
            copies: Vec::new(),
            transfers: VecDeque::new(),
            bulk_reads: Vec::new(),
            events: 0,
            live_warps: 0,
            counts: vec![Counts::default(); env.program.sources.len()],
            multiplier: Multiplier::default(),
            source: 0,
            executed: 0,
            cluster: Cluster::default(),
            warps: Vec::new(),
        }
    }

    pub fn into_counts(self) -> Vec<Counts> {
        self.counts
    }

    /// Begins a block.
    pub fn start(&mut self, block: [u32; 3]) {
        let env = self.env;
        let threads: u32 = env.block.iter().product();
        let count = (threads as usize).div_ceil(LANES);
        self.block = block;
        self.shared.reset(env.shared_bytes, env.program.granule, count, env.checks);
        self.clocks.reset(count);
        self.barriers.clear();
        self.barriers.resize_with(BARRIERS, BarrierState::default);
        self.released.clear();
        self.released.resize(count, None);
        self.mbarriers.clear();
        self.copies.clear();
        self.copies.resize_with(count, Copies::default);
        self.transfers.clear();
        self.bulk_reads.clear();
        self.bulk_reads.resize_with(count * LANES, Default::default);
        self.events = 0;
        self.live_warps = count;
        self.executed = 0;
        let mut warps = std::mem::take(&mut self.warps);
        warps.extend((warps.len()..count).map(Warp::new));
        warps.iter_mut().for_each(|warp| warp.start(env, block));
        self.warps = warps;
    }

    /// Runs the block until all its warps wait or have ended.
    pub fn go_on(&mut self) -> Result<(), Error> {
        let mut warps = std::mem::take(&mut self.warps);
        loop {
            let mut moved = false;
            for warp in &mut warps {
                if self.ready(warp) {
                    moved = true;
                    self.advance(warp)?;
                }
            }
            if !moved || self.live_warps == 0 {
                self.warps = warps;
                return Ok(());
            }
        }
    }

    /// Whether a warp can go on; takes it out of a wait that is over.
    fn ready(&mut self, warp: &mut Warp) -> bool {
        match warp.state {
            State::Ready => true,
            State::Done => false,
            State::Barrier { result, .. } => match self.released[warp.index].take() {
                Some(value) => {
                    if let Some(reg) = result {
                        let mask = warp.mask;
                        warp.registers.set_bits(reg, mask, &[u64::from(value); LANES]);
                    }
                    warp.state = State::Ready;
                    true
                }
                None => false,
            },
            State::Mbarrier { seen, .. } => {
                if seen == self.events {
                    return false;
                }
                warp.state = State::Ready;
                true
            }
            State::Cluster => {
                let completed = self.cluster_completed(warp);
                if completed {
                    warp.state = State::Ready;
                }
                completed
            }
        }
    }

    pub fn deadlock(&self) -> Error {
        let warps = &self.warps;
        let waits: Vec<String> = warps
            .iter()
            .filter_map(|warp| {
                let what = match warp.state {
                    State::Barrier { id, .. } => format!("at barrier {id}"),
                    State::Mbarrier { address, .. } => {
                        let state = self.mbarriers.get(&address).map_or(String::new(), |m| {
                            format!(
                                " (phase {}, {} arrivals and {} bytes missing)",
                                m.phase, m.pending, m.tx
                            )
                        });
                        format!("for the mbarrier at shared address 0x{address:x}{state}")
                    }
                    State::Cluster => "at the barrier of the cluster".to_owned(),
                    State::Ready | State::Done => return None,
                };
                let inst = &self.env.program.insts[warp.pc.saturating_sub(match warp.state {
                    State::Barrier { .. } | State::Cluster => 1,
                    _ => 0,
                }) as usize];
                let line = self.env.program.sources[inst.source as usize].line;
                Some(format!("warp {} waits {what} on line {line}", warp.index))
            })
            .collect();
        let stuck = warps.iter().find(|w| w.state != State::Done).map_or(0, |w| w.index);
        let message = format!("deadlock: {}", waits.join("; "));
        let warp = &warps[stuck];
        let pc = match warp.state {
            State::Barrier { .. } | State::Cluster => warp.pc - 1,
            _ => warp.pc,
        };
        self.fault(warp, pc, &Stop::new(FaultKind::Deadlock, message))
    }

    fn fault(&self, warp: &Warp, pc: u32, stop: &Stop) -> Error {
        let program = self.env.program;
        let source = &program.sources[program.insts[pc as usize].source as usize];
        Error::Fault(Box::new(Fault {
            kind: stop.kind,
            kernel: program.name.clone(),
            block: self.block,
            warp: warp.index as u32,
            lane: stop.lane,
            line: source.line,
            instruction: source.text.clone(),
            message: stop.message.clone(),
        }))
    }

    /// Runs a warp until it waits or ends.
    fn advance(&mut self, warp: &mut Warp) -> Result<(), Error> {
        let program = self.env.program;
        loop {
            if warp.at_reconvergence() {
                warp.pop();
                if warp.state == State::Done {
                    self.live_warps -= 1;
                    self.warp_exited();
                    return Ok(());
                }
                continue;
            }
            let pc = warp.pc;
            let inst = &program.insts[pc as usize];
            let mask = match inst.guard {
                None => warp.mask,
                Some(guard) => {
                    let p = warp.registers.predicates[guard.slot as usize];
                    warp.mask & if guard.negated { !p } else { p }
                }
            };
            if inst.counted {
                let counts = &mut self.counts[inst.source as usize];
                counts.warps += 1;
                counts.lanes += u64::from(mask.count_ones());
            }
            if inst.touches != NOWHERE {
                self.touch(warp, inst, mask).map_err(|stop| self.fault(warp, pc, &stop))?;
            }
            match &inst.op {
                Op::Alu(f, slots) => {
                    f(&mut warp.registers, slots, mask);
                    warp.pc += 1;
                }
                Op::Branch { target, reconverge } => {
                    self.executed += 1;
                    if self.executed > BRANCH_LIMIT {
                        let message =
                            "the block does not come to an end: 2^30 branches taken".to_owned();
                        return Err(self.fault(warp, pc, &Stop::new(FaultKind::Trap, message)));
                    }
                    if warp.branch(&[(*target, mask)], *reconverge) {
                        self.counts[inst.source as usize].divergent += 1;
                    }
                }
                _ if mask == 0 => warp.pc += 1,
                Op::Exit => {
                    warp.exit(mask);
                    if warp.state == State::Done {
                        self.live_warps -= 1;
                        self.warp_exited();
                        return Ok(());
                    }
                }
                Op::BranchIndexed(op) => {
                    let index = warp.registers.narrow[op.index as usize];
                    let mut parts: Vec<(u32, Mask)> = Vec::new();
                    for lane in Warp::lanes(mask) {
                        let Some(&target) = op.targets.get(index[lane] as usize) else {
                            let message = format!(
                                "index {} into {} branch targets",
                                index[lane],
                                op.targets.len()
                            );
                            let stop = Stop::at(FaultKind::Invalid, lane, message);
                            return Err(self.fault(warp, pc, &stop));
                        };
                        match parts.iter_mut().find(|(t, _)| *t == target) {
                            Some((_, mask)) => *mask |= 1 << lane,
                            None => parts.push((target, 1 << lane)),
                        }
                    }
                    if warp.branch(&parts, op.reconverge) {
                        self.counts[inst.source as usize].divergent += 1;
                    }
                }
                _ => {
                    self.source = inst.source;
                    let flow = self
                        .execute(warp, inst, mask)
                        .map_err(|stop| self.fault(warp, pc, &stop))?;
                    match flow {
                        Flow::Next => warp.pc += 1,
                        Flow::Yield => {
                            warp.pc += 1;
                            return Ok(());
                        }
                        Flow::WaitNext(state) => {
                            warp.pc += 1;
                            warp.state = state;
                            return Ok(());
                        }
                        Flow::WaitHere(state) => {
                            warp.state = state;
                            // It will be counted again when it is run again.
                            if inst.counted {
                                let counts = &mut self.counts[inst.source as usize];
                                counts.warps -= 1;
                                counts.lanes -= u64::from(mask.count_ones());
                            }
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    fn execute(&mut self, warp: &mut Warp, inst: &Inst, mask: Mask) -> Step<Flow> {
        match &inst.op {
            Op::Load(op) => self.load(warp, op, mask)?,
            Op::Store(op) => self.store(warp, op, mask)?,
            Op::Atomic(op) => self.atomic(warp, op, mask)?,
            Op::Matrix(op) => self.matrix(warp, op, mask)?,
            Op::Mma(op) => self.mma(warp, op, mask)?,
            Op::Shuffle(op) => self.shuffle(warp, op, mask)?,
            Op::Vote(op) => self.vote(warp, op, mask)?,
            Op::Match(op) => self.match_lanes(warp, op, mask)?,
            Op::Redux(op) => self.redux(warp, op, mask)?,
            Op::Elect { d, p, members } => self.elect(warp, *d, *p, *members, mask)?,
            Op::ActiveMask { d } => {
                let reg = Reg { class: crate::lanes::Class::Narrow, slot: *d };
                warp.registers.set_bits(reg, mask, &[u64::from(mask); LANES]);
            }
            Op::WarpSync { members } => self.warp_sync(warp, *members, mask)?,
            Op::Barrier(op) => return self.barrier(warp, op, mask),
            Op::ClusterArrive => self.cluster_arrive(warp, mask)?,
            Op::ClusterWait => return self.cluster_wait(warp, mask),
            Op::MapToBlock { d, a, block } => Self::map_to_block(warp, [*d, *a, *block], mask),
            Op::CpAsync(op) => self.cp_async(warp, op, mask)?,
            Op::CpAsyncCommit => self.copies[warp.index].commit(mask),
            Op::CpAsyncWait { pending } => self.cp_async_wait(warp, mask, Some(*pending)),
            Op::CpAsyncWaitAll => self.cp_async_wait(warp, mask, None),
            Op::CpAsyncArrive { address, noinc } => {
                self.cp_async_arrive(warp, address, *noinc, mask)?;
            }
            Op::Mbarrier(op) => return self.mbarrier(warp, op, mask),
            Op::ProxyFence => self.clocks.proxy_fence(warp.index),
            Op::Bulk(op) => self.bulk(warp, op, mask)?,
            Op::BulkCommit => self.bulk_commit(warp, mask),
            Op::BulkWait { pending } => self.bulk_wait(warp, *pending, mask),
            Op::WgmmaFence => self.wgmma_fence(warp, mask)?,
            Op::WgmmaCommit => self.wgmma_commit(warp, mask)?,
            Op::WgmmaWait { pending } => self.wgmma_wait(warp, *pending, mask)?,
            Op::Wgmma(op) => self.wgmma(warp, op, mask)?,
            Op::SetMaxNReg => Self::converged(warp, mask)?,
            Op::Clock { d } => {
                let now = [self.executed; LANES];
                warp.registers.set_bits(*d, mask, &now);
                self.executed += 1;
            }
            Op::Trap => {
                let lane = mask.trailing_zeros() as usize;
                return Err(Stop::at(FaultKind::Trap, lane, "the kernel trapped"));
            }
            Op::Nop => {}
            Op::Alu(..) | Op::Branch { .. } | Op::BranchIndexed(_) | Op::Exit => {
                unreachable!("handled by the caller")
            }
        }
        Ok(Flow::Next)
    }

    /// An `.aligned` instruction needs every lane of the warp that has not exited.
    pub fn converged(warp: &Warp, mask: Mask) -> Step {
        if mask == warp.live {
            return Ok(());
        }
        Err(Stop::new(
            FaultKind::Divergence,
            format!(
                "lanes 0x{:08x} are not here together with 0x{mask:08x}, but the instruction needs all of them",
                warp.live & !mask
            ),
        ))
    }

    pub fn actor(&self, warp: &Warp, lane: usize) -> Actor {
        Actor { warp: warp.index, lane, source: self.source }
    }

    /// Puts a refused access into words.
    #[cold]
    pub fn refuse(&self, actor: Actor, conflict: Conflict) -> Box<Stop> {
        let line = |source: u16| {
            self.env
                .program
                .sources
                .get(usize::from(source))
                .map_or(String::new(), |s| format!(" on line {} `{}`", s.line, brief(&s.text)))
        };
        let by = |warp: u8, lane: u8| {
            if usize::from(warp) == self.clocks.engine() {
                " by the asynchronous copy engine".to_owned()
            } else {
                format!(" by warp {warp}{}", Shared::lane_name(lane))
            }
        };
        let (kind, message) = match conflict {
            Conflict::Uninitialised { at } => (
                FaultKind::Uninitialised,
                format!("shared address 0x{at:x} is read, but nothing has written it"),
            ),
            Conflict::Race { at, warp, lane, source, kind } if Shared::by_engine(lane) => (
                FaultKind::MissingWait,
                format!(
                    "shared address 0x{at:x}: {kind}{}{}, but this warp has not waited on the mbarrier that completes the copy (mbarrier.try_wait)",
                    by(warp, lane),
                    line(source)
                ),
            ),
            Conflict::Race { at, warp, lane, source, kind } => (
                FaultKind::Race,
                format!(
                    "race at shared address 0x{at:x}: {kind}{}{} with no {} between",
                    by(warp, lane),
                    line(source),
                    if usize::from(warp) == actor.warp {
                        "bar.warp.sync or barrier"
                    } else {
                        "barrier"
                    }
                ),
            ),
            Conflict::Pending { at, warp, lane, source } if Shared::by_engine(lane) => (
                FaultKind::MissingWait,
                format!(
                    "shared address 0x{at:x} is still being written by the bulk copy of warp {warp}{}: the wait on its mbarrier (mbarrier.try_wait) is missing",
                    line(source)
                ),
            ),
            Conflict::Pending { at, warp, lane, source } => (
                FaultKind::MissingWait,
                format!(
                    "shared address 0x{at:x} is still being written by cp.async of warp {warp}, lane {lane}{}: cp.async.wait_group (and a barrier, for other threads) is missing",
                    line(source)
                ),
            ),
            Conflict::Reading { at, warp } => (
                FaultKind::MissingWait,
                format!(
                    "shared address 0x{at:x} is still being read by wgmma or a bulk copy of warp {warp}: wgmma.wait_group or cp.async.bulk.wait_group is missing"
                ),
            ),
            Conflict::Unfenced { at, warp, source } => (
                FaultKind::MissingWait,
                format!(
                    "shared address 0x{at:x} was written by warp {warp}{}, and fence.proxy.async between that and this asynchronous read is missing",
                    line(source)
                ),
            ),
        };
        Stop::at(kind, actor.lane, message)
    }
}
