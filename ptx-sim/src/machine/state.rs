//! State of a block beside its warps and its shared memory: barriers, mbarriers, copies on their way, the cluster.

use std::collections::{BTreeMap, VecDeque};

use super::clocks::Clocks;
use super::shared::Shared;
use super::warp::State;
use crate::error::{FaultKind, Step, Stop};
use crate::lanes::{LANES, Mask, lanes};
use crate::program::BarrierMode;

/// Course of a warp after an instruction.
pub enum Flow {
    Next,
    /// Wait behind the instruction.
    WaitNext(State),
    /// Wait, then run the instruction again.
    WaitHere(State),
    /// Go on behind the instruction after the others had a turn.
    Yield,
}

/// One of the block's barriers.
#[derive(Debug, Default)]
pub struct BarrierState {
    /// Threads arrived.
    pub arrived: u32,
    /// Threads expected; none means every thread that has not exited.
    pub expected: Option<u32>,
    /// Warps that wait, each with the result that it takes from the vote.
    pub waiting: Vec<(usize, BarrierMode)>,
    /// The aligned instruction that the first of them waits at, if it is one.
    pub at: Option<u32>,
    /// View of the warps that have arrived.
    pub view: Vec<u32>,
    pub votes: u32,
    pub threads: u32,
}

/// An mbarrier object.
#[derive(Debug)]
pub struct MbarrierState {
    pub count: u32,
    pub pending: u32,
    pub tx: i64,
    pub phase: u64,
    /// View of the warps that have arrived, and that view when the last phase ended.
    pub view: Vec<u32>,
    pub done: Vec<u32>,
    pub initialised: (usize, u32),
    /// Views of other blocks of the cluster that have arrived, by rank; the same when the last phase ended.
    pub remote: BTreeMap<usize, Vec<u32>>,
    pub remote_done: BTreeMap<usize, Vec<u32>>,
}

impl MbarrierState {
    /// An mbarrier that warp `by` initialised at `clock` for `count` arrivals, where views are of `width` clocks.
    pub fn new(count: u32, (by, clock): (usize, u32), width: usize) -> Self {
        Self {
            count,
            pending: count,
            tx: 0,
            phase: 0,
            view: Vec::new(),
            done: vec![0; width],
            initialised: (by, clock),
            remote: BTreeMap::new(),
            remote_done: BTreeMap::new(),
        }
    }

    /// Adds arrivals, and ends the phase if they were the last.
    pub fn arrive(&mut self, lane: usize, count: u32) -> Step {
        if count == 0 || count > self.pending {
            return Err(Stop::at(
                FaultKind::Invalid,
                lane,
                format!("{count} arrivals at an mbarrier that expects {} more", self.pending),
            ));
        }
        self.pending -= count;
        self.transact(0);
        Ok(())
    }

    /// Expects further bytes, fewer where `bytes` is negative, and ends the phase if nothing is missing.
    pub fn transact(&mut self, bytes: i64) {
        self.tx += bytes;
        if self.pending == 0 && self.tx == 0 {
            self.phase += 1;
            self.pending = self.count;
            self.done.clone_from(&self.view);
            self.remote_done.clone_from(&self.remote);
        }
    }
}

/// The asynchronous engine of a block.
#[derive(Debug, Default)]
pub struct Engine {
    /// mbarriers by their shared addresses.
    pub mbarriers: BTreeMap<u32, MbarrierState>,
    /// Bulk copies that nobody has waited for yet.
    pub transfers: VecDeque<Transfer>,
    /// Bulk groups of each thread that read shared memory.
    pub reads: Vec<BulkReads>,
    /// Changes of mbarriers so far.
    pub events: u64,
}

impl Engine {
    /// Resets the state for a block of `threads` threads.
    pub fn reset(&mut self, threads: usize) {
        self.mbarriers.clear();
        self.transfers.clear();
        self.reads.clear();
        self.reads.resize_with(threads, BulkReads::default);
        self.events = 0;
    }

    /// Takes a transfer that its mbarrier is to complete.
    pub fn send(&mut self, transfer: Transfer) {
        self.transfers.push_back(transfer);
        self.events += 1;
    }

    /// Takes out the first transfer of an mbarrier.
    pub fn next(&mut self, mbarrier: u32) -> Option<Transfer> {
        let next = self.transfers.iter().position(|t| t.mbarrier == mbarrier)?;
        self.transfers.remove(next)
    }
}

/// Work of the engine that completes on an mbarrier.
#[derive(Debug)]
pub struct Transfer {
    pub mbarrier: u32,
    pub source: u32,
    pub work: Work,
}

#[derive(Debug)]
pub enum Work {
    /// Bytes for shared memory.
    Write { to: u32, data: Vec<u8> },
    /// `cp.async.mbarrier.arrive`: an arrival once the thread's copies are done.
    Arrive { warp: usize, lane: usize, before: u64 },
}

/// Bulk groups of a thread: ranges of shared memory being read.
#[derive(Debug, Default)]
pub struct BulkReads {
    pub open: Vec<(u32, u32)>,
    pub groups: VecDeque<Vec<(u32, u32)>>,
}

/// Not committed to a group.
pub const OPEN: u32 = u32::MAX;

/// One copy on its way.
#[derive(Debug, Clone, Copy)]
pub struct Copy {
    pub lane: u8,
    pub bytes: u8,
    pub to: u32,
    pub data: [u8; 16],
    /// Number of the group of its thread.
    pub group: u32,
    /// Number of the copy in its warp.
    pub number: u64,
    pub source: u32,
}

/// The copies of one warp.
#[derive(Debug, Default)]
pub struct Copies {
    pub list: Vec<Copy>,
    /// Groups committed by each lane.
    pub committed: [u32; LANES],
    pub issued: u64,
}

impl Copies {
    /// `cp.async.commit_group`
    pub fn commit(&mut self, mask: Mask) {
        for copy in &mut self.list {
            if copy.group == OPEN && mask >> copy.lane & 1 != 0 {
                copy.group = self.committed[copy.lane as usize];
            }
        }
        for lane in lanes(mask) {
            self.committed[lane] += 1;
        }
    }

    /// Copies issued so far.
    pub fn issued(&self) -> u64 {
        self.issued
    }
}

/// State of a cluster, as one of its blocks knows it.
#[derive(Default)]
pub struct Cluster {
    /// Barriers of the cluster that have completed.
    pub phase: u32,
    /// Number of this block in the cluster.
    pub rank: usize,
    /// The other blocks while this one runs, by rank.
    pub peers: Vec<Peer>,
    /// Clocks that this block has seen of the others, by rank.
    pub seen: Vec<Vec<u32>>,
    /// Blocks that have ended, a bit each.
    pub ended: u32,
    /// View of the warps that have arrived.
    pub view: Vec<u32>,
}

impl Cluster {
    /// The block has seen what another had done.
    pub fn see(&mut self, rank: usize, view: &[u32]) {
        if let Some(seen) = self.seen.get_mut(rank) {
            for (mine, &theirs) in seen.iter_mut().zip(view) {
                *mine = (*mine).max(theirs);
            }
        }
    }
}

/// State of a block that others of its cluster reach.
#[derive(Default)]
pub struct Peer {
    pub shared: Shared,
    pub clocks: Clocks,
    pub engine: Engine,
}

/// Place of an address of shared memory.
#[derive(Debug, Clone, Copy)]
pub enum SharedAddress {
    /// In the block itself.
    Here(u64),
    /// In another block of the cluster.
    There { rank: usize, address: u64 },
}

pub fn merge(view: &mut Vec<u32>, other: &[u32]) {
    view.resize(other.len(), 0);
    for (mine, &theirs) in view.iter_mut().zip(other) {
        *mine = (*mine).max(theirs);
    }
}
