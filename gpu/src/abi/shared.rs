//! Plans of a block's shared memory: the offset of each part. The host's launch takes its bytes from them, the
//! kernel its addresses.

/// A plan, as far as it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    bytes: u32,
}

impl Plan {
    /// Nothing yet.
    pub const EMPTY: Self = Self { bytes: 0 };

    /// Bytes planned so far.
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Appends a region of `count` pieces of `bytes` bytes each to the plan.
    pub const fn region(&mut self, count: u32, bytes: u32) -> Region {
        let region = Region { offset: self.bytes, pitch: bytes };
        self.bytes += count * bytes;
        region
    }

    /// Adds the barriers and words that a ring of stages keeps beside its panels. `transforms`: a role works on
    /// stages in place between loading and multiplying; `tiles`: stages say which tile begins there.
    pub const fn ring(
        &mut self,
        data: Region,
        stages: u32,
        transforms: bool,
        tiles: bool,
    ) -> RingPlan {
        RingPlan {
            stages,
            data,
            full: self.region(stages, 8),
            empty: self.region(stages, 8),
            transformed: self.region(if transforms { stages } else { 0 }, 8),
            tile: self.region(if tiles { stages } else { 0 }, 4),
        }
    }
}

/// Pieces of one size, side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    offset: u32,
    pitch: u32,
}

impl Region {
    /// Address of piece `index` in shared memory that begins at `base`.
    #[inline(always)]
    pub const fn at(self, base: u32, index: u32) -> u32 {
        base + self.offset + index * self.pitch
    }
}

/// A ring of stages in shared memory, and the barriers of each: see `tile::pipeline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlan {
    /// Stages.
    pub stages: u32,
    /// The stages' own bytes.
    pub data: Region,
    /// mbarriers of stages that are loaded.
    pub full: Region,
    /// mbarriers of stages that were read by all.
    pub empty: Region,
    /// mbarriers of stages that are transformed.
    pub transformed: Region,
    /// Words that say which tile begins in a stage.
    pub tile: Region,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{
        beamform::WARPGROUP_BEAMFORMERS,
        correlate::{TILE_CI4, WARPGROUP_CORRELATORS},
    };

    #[test]
    fn regions_follow_one_another() {
        let mut plan = Plan::EMPTY;
        let (first, second) = (plan.region(3, 100), plan.region(2, 8));
        assert_eq!([0, 1, 2].map(|index| first.at(1000, index)), [1000, 1100, 1200]);
        assert_eq!([0, 1].map(|index| second.at(1000, index)), [1300, 1308]);
        assert_eq!(plan.bytes(), 316);
    }

    /// What `wgmma` and mbarriers ask of addresses, and a block of its multiprocessor.
    #[track_caller]
    fn check(ring: RingPlan, bytes: u32) {
        for stage in 0..ring.stages {
            assert_eq!(ring.data.at(0, stage) % 1024, 0);
            for barriers in [ring.full, ring.empty, ring.transformed] {
                assert_eq!(barriers.at(0, stage) % 8, 0);
            }
            assert!(ring.data.at(0, stage + 1) <= ring.full.at(0, 0));
            assert!(ring.tile.at(0, stage) <= bytes - 4);
        }
        assert!(bytes <= 227 << 10);
    }

    #[test]
    fn plans_of_rings_are_aligned_and_fit() {
        for declared in WARPGROUP_CORRELATORS.iter().copied().flatten() {
            let shared = declared.tile.shared();
            check(shared.ring, shared.bytes);
        }
        // The columns' panel, the rows', and two planes.
        assert_eq!(
            [0, 1, 2].map(|plane| TILE_CI4.plane(plane)),
            [2, 3, 4].map(|panel| panel << 14)
        );
        for (_, tile) in WARPGROUP_BEAMFORMERS {
            let ring = RingPlan { tile: tile.shared().ring.full, ..tile.shared().ring };
            check(ring, tile.shared().bytes);
        }
    }
}
