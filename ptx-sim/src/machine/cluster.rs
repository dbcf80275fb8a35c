//! Instructions that reach other blocks of a cluster.
//!
//! While a block runs, it holds the shared memory, the mbarriers and the clocks of the others. What it does there is
//! ordered for the other block by barriers of the cluster and by arrivals at the other block's mbarriers, and for itself
//! by what it has seen of that block: at barriers of the cluster, and by waits on its own mbarriers at which the
//! other block has arrived. Third blocks are not held apart.

use std::sync::Arc;

use super::order::{EVERY, View};
use super::shared::{Actor, Remote};
use super::state::{Cluster, Flow, Peer, SharedAddress, merge};
use super::team::Team;
use super::warp::{State, Warp};
use crate::error::{FaultKind, Step, Stop};
use crate::lanes::{Class, LANES, Mask, Reg};
use crate::program::{CLUSTER_SHIFT, Scope};

/// The highest number of a block that addresses have room for.
const MOST_RANK: u32 = (1 << (32 - CLUSTER_SHIFT)) - 2;

impl Team<'_> {
    /// The blocks of a cluster have met at its barrier: each sees what the others did in global memory.
    pub fn meet(teams: &mut [Self]) {
        if teams.len() == 1 {
            return;
        }
        let views: Vec<_> = teams
            .iter()
            .map(|team| Arc::new(View::of_block(team.knowledge.block(), &team.cluster.view)))
            .collect();
        for team in &mut *teams {
            let remote = team.clocks.remote();
            team.cluster.view[remote] = team.clocks.remote_clock(false);
            for view in &views {
                team.knowledge.acquire(EVERY, 0, Scope::Cluster, Arc::clone(view));
            }
        }
        let met: Vec<_> = teams.iter().map(|team| team.cluster.view.clone()).collect();
        for team in teams {
            met.iter().enumerate().for_each(|(rank, view)| team.cluster.see(rank, view));
        }
    }

    /// `barrier.cluster.arrive`.
    pub fn cluster_arrive(&mut self, warp: &mut Warp, mask: Mask) -> Step {
        Self::converged(warp, mask)?;
        if warp.arrivals > self.cluster.phase {
            return Err(Stop::new(
                FaultKind::Divergence,
                "the warp arrives at the barrier of the cluster twice, with no wait between"
                    .to_owned(),
            ));
        }
        warp.arrivals += 1;
        self.clocks.release(warp.index, &mut self.cluster.view);
        Ok(())
    }

    /// `barrier.cluster.wait`.
    pub fn cluster_wait(&mut self, warp: &Warp, mask: Mask) -> Step<Flow> {
        Self::converged(warp, mask)?;
        if warp.arrivals == 0 {
            return Err(Stop::new(
                FaultKind::Divergence,
                "the warp waits at the barrier of the cluster, at which it has not arrived"
                    .to_owned(),
            ));
        }
        Ok(Flow::WaitNext(State::Cluster))
    }

    /// Whether the barrier at which the warp arrived has completed; it then sees what the others had stored.
    pub fn cluster_completed(&mut self, warp: &Warp) -> bool {
        let completed = warp.arrivals <= self.cluster.phase;
        if completed {
            self.clocks.join(warp.index, &self.cluster.view);
        }
        completed
    }

    /// `mapa`.
    pub fn map_to_block(warp: &mut Warp, [d, a, block]: [u32; 3], mask: Mask) {
        let (addresses, blocks) =
            (warp.registers.narrow[a as usize], warp.registers.narrow[block as usize]);
        let mapped: [u64; LANES] = std::array::from_fn(|lane| {
            u64::from(
                addresses[lane].wrapping_add((blocks[lane].min(MOST_RANK) + 1) << CLUSTER_SHIFT),
            )
        });
        warp.registers.set_bits(Reg { class: Class::Narrow, slot: d }, mask, &mapped);
    }

    /// Finds where an address of shared memory lies: in the block itself, or in another of its cluster.
    pub fn place(&self, lane: usize, address: u64) -> Step<SharedAddress> {
        let Some(rank) = ((address >> CLUSTER_SHIFT) as usize).checked_sub(1) else {
            return Ok(SharedAddress::Here(address));
        };
        let within = address & ((1 << CLUSTER_SHIFT) - 1);
        if rank == self.cluster.rank {
            return Ok(SharedAddress::Here(within));
        }
        let refuse = |reason: String| {
            let message =
                format!("shared memory of block {rank} of the cluster is accessed{reason}");
            Err(Stop::at(FaultKind::OutOfBounds, lane, message))
        };
        if rank >= self.cluster.peers.len() {
            return refuse(format!(", which has {} blocks", self.env.cluster_size()));
        }
        if self.cluster.phase == 0 {
            return refuse(" before a barrier of the cluster".to_owned());
        }
        if self.cluster.ended >> rank & 1 == 1 {
            return refuse(", which has ended".to_owned());
        }
        Ok(SharedAddress::There { rank, address: within })
    }

    /// Checks and notes an access to shared memory of another block. Returns where its bytes lie.
    pub fn reach(
        &mut self,
        warp: &Warp,
        lane: usize,
        (rank, address): (usize, u64),
        (bytes, align): (u32, u32),
        access: Remote,
    ) -> Step<u32> {
        let actor = self.actor(warp, lane);
        let Cluster { peers, seen, .. } = &mut self.cluster;
        let peer = &mut peers[rank];
        let at = peer.shared.locate(lane, address, bytes, align)?;
        let clock = peer.clocks.remote_clock(true);
        let noted =
            peer.shared.remote(&peer.clocks, &seen[rank], clock, actor, (at, bytes), access);
        // A warp of the other block is never the actor itself.
        let elsewhere = Actor { warp: usize::MAX, ..actor };
        noted.map_err(|conflict| self.refuse(elsewhere, conflict))?;
        Ok(at)
    }

    /// `mbarrier.arrive` and `mbarrier.expect_tx` at an mbarrier of another block: numbers of arrivals and bytes.
    pub fn remote_arrive(
        &mut self,
        lane: usize,
        (rank, address): (usize, u64),
        (count, bytes): (u32, i64),
        released: &[u32],
    ) -> Step {
        let own = self.cluster.rank;
        let Cluster { peers, seen, .. } = &mut self.cluster;
        let peer = &mut peers[rank];
        let at = peer.shared.locate(lane, address, 8, 8)?;
        let invalid = |reason: &str| {
            let message =
                format!("the mbarrier at 0x{at:x} of block {rank} of the cluster {reason}");
            Err(Stop::at(FaultKind::Invalid, lane, message))
        };
        let Some(state) = peer.engine.mbarriers.get_mut(&at) else {
            return invalid("has not been initialised");
        };
        let (by, clock) = state.initialised;
        if clock > seen[rank][by] {
            return invalid("was initialised with no barrier of the cluster between");
        }
        state.tx += bytes;
        if count > 0 {
            let clock = peer.clocks.remote_clock(true);
            state.view.resize(peer.clocks.width(), 0);
            state.view[peer.clocks.remote()] = clock;
            let view = state.remote.entry(own).or_default();
            merge(view, released);
            state.arrive(lane, count)?;
            peer.engine.events += 1;
        }
        Ok(())
    }

    /// The blocks of a new cluster know nothing of each other's warps.
    pub fn introduce(teams: &mut [Self]) {
        let width = teams[0].clocks.width();
        let (count, engine) = (teams.len(), teams[0].clocks.engine());
        if count == 1 {
            return;
        }
        for team in teams {
            // The engine and third blocks are not held apart.
            let mut unseen = vec![0; width];
            unseen[engine..].fill(u32::MAX - 1);
            team.cluster.seen = vec![unseen; count];
            team.cluster.peers.resize_with(count, Peer::default);
        }
    }

    /// Gives the block `rank` of a cluster what it may reach of the others.
    pub fn lend(teams: &mut [Self], rank: usize) {
        for other in (0..teams.len()).filter(|&other| other != rank) {
            let team = &mut teams[other];
            let peer = Peer {
                shared: std::mem::take(&mut team.shared),
                clocks: std::mem::take(&mut team.clocks),
                engine: std::mem::take(&mut team.engine),
            };
            teams[rank].cluster.peers[other] = peer;
        }
    }

    /// Undoes [`Self::lend`].
    pub fn take_back(teams: &mut [Self], rank: usize) {
        for other in (0..teams.len()).filter(|&other| other != rank) {
            let peer = std::mem::take(&mut teams[rank].cluster.peers[other]);
            let team = &mut teams[other];
            team.shared = peer.shared;
            team.clocks = peer.clocks;
            team.engine = peer.engine;
        }
    }
}
