//! Blocks of a cluster: each runs until all its warps wait, then the next.
//!
//! A block sees of another's shared memory what was there when the last barrier of the cluster completed. That a
//! block stores there what others still read is not found; that it ends before they have read is.

use std::sync::Arc;

use super::shared::Shared;
use super::team::{Flow, Team};
use super::warp::{State, Warp};
use crate::Error;
use crate::error::{FaultKind, Step, Stop};
use crate::lanes::{Class, LANES, Mask, Reg};
use crate::program::CLUSTER_SHIFT;

/// The highest number of a block that addresses have room for.
const MOST_RANK: u32 = (1 << (32 - CLUSTER_SHIFT)) - 2;

/// What a block knows of its cluster.
#[derive(Default)]
pub struct Cluster {
    /// Barriers of the cluster that have completed.
    phase: u32,
    /// What the blocks had in shared memory then.
    peers: Arc<[Shared]>,
    /// Blocks that have ended, a bit each.
    ended: u32,
    /// What the warps that arrived had seen.
    view: Vec<u32>,
}

impl Team<'_> {
    /// Runs the blocks of a cluster to their end, from `first` on along x.
    pub fn run(teams: &mut [Self], first: [u32; 3]) -> Result<(), Error> {
        for (rank, team) in teams.iter_mut().enumerate() {
            team.cluster = Cluster::default();
            team.start([first[0] + rank as u32, first[1], first[2]]);
        }
        loop {
            let mut ended = 0;
            for rank in 0..teams.len() {
                if teams[rank].live_warps > 0 {
                    teams[rank].go_on()?;
                }
                if teams[rank].live_warps == 0 {
                    ended |= 1 << rank;
                }
                teams.iter_mut().for_each(|team| team.cluster.ended = ended);
            }
            if teams.iter().all(|team| team.live_warps == 0) {
                return Ok(());
            }
            if let Some(stuck) = teams.iter().find(|team| !team.all_arrived()) {
                return Err(stuck.deadlock());
            }
            let peers: Arc<[Shared]> = teams.iter().map(|team| team.shared.published()).collect();
            for team in &mut *teams {
                team.cluster.phase += 1;
                team.cluster.peers = Arc::clone(&peers);
            }
        }
    }

    /// Whether all warps that have not ended are at the barrier of the cluster.
    fn all_arrived(&self) -> bool {
        let mut live = self.warps.iter().filter(|warp| warp.state != State::Done);
        live.all(|warp| warp.arrivals > self.cluster.phase)
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

    /// The block of the cluster whose shared memory has these bytes, and where.
    pub fn peer(&self, lane: usize, address: u64, bytes: u32) -> Step<(&Shared, u32)> {
        let rank = (address >> CLUSTER_SHIFT) as usize - 1;
        let refuse = |what: &str| {
            Err(Stop::at(
                FaultKind::OutOfBounds,
                lane,
                format!("shared memory of block {rank} of the cluster is read{what}"),
            ))
        };
        if rank >= self.env.program.cluster as usize {
            let size = self.env.program.cluster;
            return refuse(&format!(", which has {size} blocks"));
        }
        let Some(peer) = self.cluster.peers.get(rank) else {
            return refuse(" before a barrier of the cluster");
        };
        if self.cluster.ended >> rank & 1 == 1 {
            return refuse(", which has ended");
        }
        let within = address & ((1 << CLUSTER_SHIFT) - 1);
        Ok((peer, peer.locate(lane, within, bytes, bytes)?))
    }
}
