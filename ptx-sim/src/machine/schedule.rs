//! The scheduler: the warps of a block take turns, each runs until it must wait; so do the blocks of a cluster.

use super::state::{Cluster, Flow};
use super::team::Team;
use super::warp::{State, Warp};
use crate::error::{Error, FaultKind, Step, Stop};
use crate::lanes::{Class, LANES, Mask, Reg};
use crate::program::{BranchIndexed, Inst, NOWHERE, Op};

/// Branches that the warps of a block may take before it counts as stuck.
const BRANCH_LIMIT: u64 = 1 << 30;
/// The same where blocks are a sample, which is to take seconds.
const SAMPLE_LIMIT: u64 = 1 << 22;
/// Branches of a warp before the others of its block have a turn.
const TURN: u32 = 1 << 12;
/// Branches of a turn of a warp that was found spinning.
const SPINNING_TURN: u32 = 8;
/// Branches after a turn in which a warp that spins must come by the same place in the same state.
const LAP: u32 = 64;

/// State of the blocks of a cluster after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterState {
    Ended,
    /// No warp can go on before another block has changed global memory.
    Spinning,
}

/// Looks for a warp that comes by the same place in the same state.
struct Spin {
    /// Branches left in the turn.
    left: u32,
    /// Place, stores of the block, and fingerprint at the end of the turn.
    seen: Option<(u32, u64, u64)>,
}

impl Team<'_> {
    /// Begins the blocks of a cluster, whose first is `first`.
    pub fn begin(teams: &mut [Self], first: [u32; 3]) {
        for (rank, team) in teams.iter_mut().enumerate() {
            team.cluster = Cluster { rank, ..Cluster::default() };
            team.start(team.env.block_of(first, rank as u32));
        }
        Self::introduce(teams);
    }

    /// Changes that the blocks of a cluster made to memory so far.
    pub fn changes(teams: &[Self]) -> u64 {
        teams.iter().map(|team| team.stores + team.engine.events).sum()
    }

    /// Runs the blocks of a cluster until they have ended, or all spin or wait.
    pub fn turn(teams: &mut [Self]) -> Result<ClusterState, Error> {
        loop {
            let mut ended = 0;
            let before = Self::changes(teams);
            for rank in 0..teams.len() {
                if teams[rank].live_warps > 0 {
                    Self::lend(teams, rank);
                    teams[rank].go_on()?;
                    Self::take_back(teams, rank);
                }
                if teams[rank].live_warps == 0 {
                    ended |= 1 << rank;
                }
                teams.iter_mut().for_each(|team| team.cluster.ended = ended);
            }
            if teams.iter().all(|team| team.live_warps == 0) {
                return Ok(ClusterState::Ended);
            }
            if let Some(stuck) = teams.iter().find(|team| !team.all_arrived()) {
                if Self::changes(teams) != before && teams.len() > 1 {
                    continue;
                }
                if teams.iter().any(Self::spins) {
                    return Ok(ClusterState::Spinning);
                }
                return Err(stuck.deadlock());
            }
            Self::meet(teams);
            for team in &mut *teams {
                team.cluster.phase += 1;
            }
        }
    }

    /// Whether all warps that have not ended are at the barrier of the cluster.
    fn all_arrived(&self) -> bool {
        let mut live = self.warps.iter().filter(|warp| warp.state != State::Done);
        live.all(|warp| warp.arrivals > self.cluster.phase)
    }

    /// Whether a warp of the block spins.
    pub fn spins(&self) -> bool {
        self.warps.iter().any(|warp| warp.state == State::Ready)
    }

    /// Runs the block until all its warps wait, spin or have ended.
    pub fn go_on(&mut self) -> Result<(), Error> {
        let mut warps = std::mem::take(&mut self.warps);
        loop {
            let mut moved = false;
            let before = self.stores;
            for warp in &mut warps {
                if self.ready(warp) {
                    self.advance(warp)?;
                    moved |= !warp.spinning;
                }
            }
            if !moved && self.stores == before || self.live_warps == 0 {
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
                if seen == self.engine.events {
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
                        let state =
                            self.engine.mbarriers.get(&address).map_or(String::new(), |m| {
                                format!(
                                    " (phase {}, {} arrivals and {} bytes missing)",
                                    m.phase, m.pending, m.tx
                                )
                            });
                        format!("for the mbarrier at shared address 0x{address:x}{state}")
                    }
                    State::Cluster => "at the barrier of the cluster".to_owned(),
                    State::Ready => "in a loop".to_owned(),
                    State::Done => return None,
                };
                let inst = &self.env.program.insts[warp.pc.saturating_sub(match warp.state {
                    State::Barrier { .. } | State::Cluster => 1,
                    _ => 0,
                }) as usize];
                let line = self.env.program.sources[inst.source as usize].line;
                Some(format!("warp {} waits {what} on line {line}", warp.index))
            })
            .collect();
        let spinning = warps.iter().find(|w| w.state == State::Ready);
        let waiting = warps.iter().find(|w| w.state != State::Done);
        let stuck = spinning.or(waiting).map_or(0, |w| w.index);
        let mut message = format!("deadlock: {}", waits.join("; "));
        if spinning.is_some() {
            message += ": nothing that is left to run changes the memory on which the loop depends";
        }
        let warp = &warps[stuck];
        let pc = match warp.state {
            State::Barrier { .. } | State::Cluster => warp.pc - 1,
            _ => warp.pc,
        };
        self.fault(warp, pc, &Stop::new(FaultKind::Deadlock, message))
    }

    /// Counts a branch of a warp's turn. Returns whether the turn is over; the warp then knows whether it spins:
    /// came by the same place in the same state, while its block stored nothing.
    fn over(&self, warp: &mut Warp, spin: &mut Spin) -> bool {
        spin.left = spin.left.wrapping_sub(1);
        match spin.seen {
            None if spin.left == 0 => {
                spin.seen = Some((warp.pc, self.stores, warp.fingerprint()));
                spin.left = LAP;
                false
            }
            None => false,
            Some((pc, stores, fingerprint)) => {
                let same =
                    warp.pc == pc && self.stores == stores && warp.fingerprint() == fingerprint;
                warp.spinning = same;
                same || spin.left == 0
            }
        }
    }

    /// Runs a warp until it waits or ends, or has had its turn.
    fn advance(&mut self, warp: &mut Warp) -> Result<(), Error> {
        let program = self.env.program;
        let left = if std::mem::take(&mut warp.spinning) { SPINNING_TURN } else { TURN };
        let mut spin = Spin { left, seen: None };
        loop {
            if warp.at_reconvergence() {
                warp.pop();
                if self.ended(warp) {
                    return Ok(());
                }
                continue;
            }
            let pc = warp.pc;
            let inst = &program.insts[pc as usize];
            let mask = warp.guarded(inst.guard);
            if inst.counted {
                self.tally.count(inst.source, mask);
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
                    let most =
                        if self.tally.tracer.is_some() { SAMPLE_LIMIT } else { BRANCH_LIMIT };
                    if self.executed > most {
                        return Err(self.endless(warp, most));
                    }
                    if warp.branch(&[(*target, mask)], *reconverge) {
                        self.tally.counts[inst.source as usize].divergent += 1;
                    }
                    if self.over(warp, &mut spin) {
                        return Ok(());
                    }
                }
                _ if mask == 0 => warp.pc += 1,
                Op::Exit => {
                    warp.exit(mask);
                    if self.ended(warp) {
                        return Ok(());
                    }
                }
                Op::BranchIndexed(op) => {
                    let parts = Self::targets(warp, op, mask);
                    let parts = parts.map_err(|stop| self.fault(warp, pc, &stop))?;
                    if warp.branch(&parts, op.reconverge) {
                        self.tally.counts[inst.source as usize].divergent += 1;
                    }
                }
                _ => {
                    self.tally.source = inst.source;
                    let flow = self
                        .execute(warp, inst, mask)
                        .map_err(|stop| self.fault(warp, pc, &stop))?;
                    if let Flow::WaitHere(_) = flow {
                        // It will be counted again when it is run again.
                        if inst.counted {
                            self.tally.take_back(inst.source, mask);
                        }
                    } else {
                        warp.pc += 1;
                    }
                    match flow {
                        Flow::Next => {}
                        Flow::Yield => return Ok(()),
                        Flow::WaitNext(state) | Flow::WaitHere(state) => {
                            warp.state = state;
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    /// Whether a warp has ended; the block then has one less.
    fn ended(&mut self, warp: &Warp) -> bool {
        let ended = warp.state == State::Done;
        if ended {
            self.live_warps -= 1;
            self.warp_exited();
        }
        ended
    }

    #[cold]
    fn endless(&self, warp: &Warp, most: u64) -> Error {
        let message = format!("the block does not come to an end: {most} branches taken");
        self.fault(warp, warp.pc, &Stop::new(FaultKind::Trap, message))
    }

    /// Targets of an indexed branch, each with its lanes.
    fn targets(warp: &Warp, op: &BranchIndexed, mask: Mask) -> Step<Vec<(u32, Mask)>> {
        let index = &warp.registers.narrow[op.index as usize];
        let mut parts: Vec<(u32, Mask)> = Vec::new();
        for lane in Warp::lanes(mask) {
            let Some(&target) = op.targets.get(index[lane] as usize) else {
                let message =
                    format!("index {} into {} branch targets", index[lane], op.targets.len());
                return Err(Stop::at(FaultKind::Invalid, lane, message));
            };
            match parts.iter_mut().find(|(t, _)| *t == target) {
                Some((_, mask)) => *mask |= 1 << lane,
                None => parts.push((target, 1 << lane)),
            }
        }
        Ok(parts)
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
                let reg = Reg { class: Class::Narrow, slot: *d };
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
            Op::Fence { scope } => self.knowledge.fence(&self.clocks, warp.index, mask, *scope),
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
}
