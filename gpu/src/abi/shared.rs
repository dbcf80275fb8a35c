//! Plans of a block's shared memory: what lies where. The host's launch takes its bytes from them, the
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

    /// `count` pieces of `bytes` bytes each behind what is planned.
    pub const fn region(&mut self, count: u32, bytes: u32) -> Region {
        let region = Region { offset: self.bytes, pitch: bytes };
        self.bytes += count * bytes;
        region
    }

    /// What a ring of stages keeps beside these. `transforms`: a role works on stages in place between loading and
    /// multiplying; `tiles`: stages say which tile begins there.
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
    /// Where piece `index` is in shared memory that begins at `base`.
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
