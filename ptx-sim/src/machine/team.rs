//! A block while it runs: its warps, its shared memory, its barriers. [`super::schedule`] runs it.

use std::cell::RefCell;

use super::clocks::Clocks;
use super::env::Env;
use super::order::Knowledge;
use super::shared::{Actor, Conflict, Shared};
use super::state::{BarrierState, Cluster, Copies, Engine};
use super::traffic::{Tracer, Traffic};
use super::warp::Warp;
use crate::error::{Error, Fault, FaultKind, Step, Stop};
use crate::lanes::{LANES, Mask};
use crate::report::Counts;
use crate::tensor::product::Multiplier;

/// Barriers of a block.
const BARRIERS: usize = 16;

/// Counts of what a block has run.
pub struct Tally {
    /// Counts of each statement.
    pub counts: Vec<Counts>,
    /// The statement that runs.
    pub source: u32,
    /// Record of global memory, where blocks are a sample.
    pub tracer: Option<RefCell<Tracer>>,
}

impl Tally {
    /// Counts a run of a statement by lanes of a warp.
    #[inline]
    pub fn count(&mut self, source: u32, mask: Mask) {
        let counts = &mut self.counts[source as usize];
        counts.warps += 1;
        counts.lanes += u64::from(mask.count_ones());
    }

    /// Undoes [`Self::count`].
    pub fn take_back(&mut self, source: u32, mask: Mask) {
        let counts = &mut self.counts[source as usize];
        counts.warps -= 1;
        counts.lanes -= u64::from(mask.count_ones());
    }

    /// Counts of the statement that runs.
    #[inline]
    pub fn here(&mut self) -> &mut Counts {
        &mut self.counts[self.source as usize]
    }
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
    /// `cp.async` of each warp.
    pub copies: Vec<Copies>,
    pub engine: Engine,
    pub live_warps: usize,
    pub tally: Tally,
    pub multiplier: Multiplier,
    /// Branches taken so far.
    pub executed: u64,
    /// Stores and atomics that changed memory so far.
    pub stores: u64,
    pub cluster: Cluster,
    /// Order between this block and others.
    pub knowledge: Knowledge,
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
            copies: Vec::new(),
            engine: Engine::default(),
            live_warps: 0,
            tally: Tally {
                counts: vec![Counts::default(); env.program.sources.len()],
                source: 0,
                tracer: env
                    .sample
                    .map(|sample| RefCell::new(Tracer::new(sample.l1_bytes, sample.l2_bytes))),
            },
            multiplier: Multiplier::default(),
            executed: 0,
            stores: 0,
            cluster: Cluster::default(),
            knowledge: Knowledge::default(),
            warps: Vec::new(),
        }
    }

    pub fn into_counts(self) -> (Vec<Counts>, Traffic) {
        let traffic = self.tally.tracer.map(|tracer| tracer.into_inner().into_traffic());
        (self.tally.counts, traffic.unwrap_or_default())
    }

    /// Ends a block.
    pub fn end(&self) {
        if let Some(tracer) = &self.tally.tracer {
            tracer.borrow_mut().end_block(self.env.view);
        }
    }

    /// Begins a block.
    pub fn start(&mut self, block: [u32; 3]) {
        let env = self.env;
        let threads: u32 = env.block.iter().product();
        let count = (threads as usize).div_ceil(LANES);
        self.block = block;
        let clustered = env.cluster_size() > 1;
        self.clocks.reset(count, clustered);
        let readers = if clustered { self.clocks.width() } else { count };
        self.shared.reset(env.shared_bytes, env.program.granule, readers, env.checks);
        self.knowledge.reset(env.number(block).wrapping_add(1), env.cluster_size(), count);
        self.barriers.clear();
        self.barriers.resize_with(BARRIERS, BarrierState::default);
        self.released.clear();
        self.released.resize(count, None);
        self.copies.clear();
        self.copies.resize_with(count, Copies::default);
        self.engine.reset(count * LANES);
        self.live_warps = count;
        self.executed = 0;
        self.stores = 0;
        let mut warps = std::mem::take(&mut self.warps);
        warps.extend((warps.len()..count).map(Warp::new));
        warps.iter_mut().for_each(|warp| warp.start(env, block));
        self.warps = warps;
    }

    pub fn fault(&self, warp: &Warp, pc: u32, stop: &Stop) -> Error {
        let program = self.env.program;
        let source = &program.sources[program.insts[pc as usize].source as usize];
        Error::Fault(Box::new(Fault {
            kind: stop.kind,
            kernel: program.name.clone(),
            block: self.block,
            warp: warp.index as u32,
            lane: stop.lane,
            line: source.line,
            origin: source.origin.clone(),
            instruction: source.text.to_string(),
            message: stop.message.clone(),
        }))
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
        Actor { warp: warp.index, lane, source: self.tally.source }
    }

    /// Puts a refused access into words.
    #[cold]
    pub fn refuse(&self, actor: Actor, conflict: Conflict) -> Box<Stop> {
        let line = |source: u16| self.env.line(source);
        let by = |warp: u8, lane: u8| {
            if usize::from(warp) == self.clocks.engine() {
                " by the asynchronous copy engine".to_owned()
            } else if usize::from(warp) > self.clocks.engine() {
                " by another block of the cluster".to_owned()
            } else {
                format!(" by warp {warp}{}", Shared::lane_name(lane))
            }
        };
        let (kind, message) = match conflict {
            Conflict::Uninitialised { at } => (
                FaultKind::Uninitialised,
                format!(
                    "shared address 0x{at:x} is read, but nothing has written it: a store is missing, or a barrier behind another warp's"
                ),
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
                    } else if usize::from(warp) > self.clocks.engine() {
                        "barrier of the cluster or wait on an mbarrier"
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
                    "shared address 0x{at:x} is still being written by cp.async of warp {warp}, lane {lane}{}: {}",
                    line(source),
                    if usize::from(warp) == actor.warp {
                        "cp.async.wait_group (and a barrier, for other threads) is missing"
                    } else {
                        "cp.async.wait_group and a barrier behind it are missing here, or a barrier before that copy, \
                         which refills what this warp has yet to read"
                    }
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
