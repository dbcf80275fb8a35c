//! Instructions that reach other blocks of a cluster.
//!
//! A block sees of another's shared memory what was there when the last barrier of the cluster completed. That a
//! block stores there what others still read is not found; that it ends before they have read is.

use std::sync::Arc;

use super::order::{EVERY, View};
use super::shared::Shared;
use super::state::Flow;
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
        for team in teams {
            for view in &views {
                team.knowledge.take(EVERY, 0, Scope::Cluster, Arc::clone(view));
            }
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
