//! A pipeline of stages of shared memory between the roles of a persistent block.
//!
//! ```text
//!           wait empty          wait full             wait transformed (without transform: full)
//! load  ------------->  transform  ----------->  multiply
//!   ^       arrive full         arrive transformed       |  arrive empty
//!   +----------------------------------------------------+
//! ```
//!
//! Stages form a ring, which each role goes round at its own pace. A barrier's phase ends once in a lap, and the parity
//! of the lap tells one phase from the next: a role that waits for `empty` in the first lap finds the phase before it
//! ended. One thread takes tiles, and writes the number of the tile that begins in a stage beside that stage; a mark in
//! its place ends the work of the roles that read it.
//!
//! A kernel defines its tiles and what the roles do with them ([`Work`], [`Stage`]); the rings, the barriers and the
//! loops over tiles and steps are here. Addresses come from the kernel's plan ([`RingPlan`]).

use core::ops::ControlFlow::{self, Break, Continue};

use crate::{
    abi::shared::{Region, RingPlan},
    isa::{
        common::{load_shared, shfl, store_shared, thread},
        sm_90a::{
            fence_barrier_init, fence_proxy_async, mbarrier_arrive, mbarrier_init, mbarrier_wait,
        },
    },
};

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;

/// Position of a role in the ring of stages.
pub struct Ring {
    /// The stage.
    pub stage: u32,
    /// Parity of the phase that its barriers end in this lap.
    pub parity: u32,
}

impl Ring {
    /// The first stage, in the first lap.
    pub const START: Self = Self { stage: 0, parity: 0 };

    /// Advances to the next of `stages`.
    #[inline(always)]
    pub fn advance(&mut self, stages: u32) {
        self.stage += 1;
        if self.stage == stages {
            self.stage = 0;
            self.parity ^= 1;
        }
    }

    /// Returns the place before this one, in a ring of `stages`.
    #[inline(always)]
    pub fn before(&self, stages: u32) -> Self {
        match self.stage {
            0 => Self { stage: stages - 1, parity: self.parity ^ 1 },
            next => Self { stage: next - 1, parity: self.parity },
        }
    }
}

/// Whether the thread stages: it belongs to the first warpgroup or, if `staging` is two, to the one behind the
/// `multiplying` threads.
#[inline(always)]
pub fn stages(staging: u32, multiplying: u32) -> bool {
    thread() < WARPGROUP || staging == 2 && thread() >= WARPGROUP + multiplying
}

/// Work of a kernel on the tiles of a block.
pub trait Work {
    /// Origin of a tile.
    type Tile;
    /// Bytes of a tile's rows that a step takes.
    const STEP_BYTES: u32;
    /// Whether loaded samples are transformed before they are multiplied.
    const TRANSFORMS: bool;

    /// Bytes of a tile's rows: a tile has `row_bytes / STEP_BYTES` steps, rounded up.
    fn row_bytes(&self) -> u32;
    /// Tile `index`.
    fn tile(&self, index: u32) -> Self::Tile;

    /// Multiplies the steps of tile `index`, from the ring's stage on, and stores the sums: as warpgroup `group` of
    /// those that multiply.
    ///
    /// # Safety
    /// The whole warpgroup calls it, and goes round the ring by the tile's steps.
    unsafe fn multiply(&self, group: u32, index: u32, ring: &mut Ring);
}

/// The way of tiles to a kernel whose loading and transforming are roles of their own.
pub trait Stage: Work {
    /// The block's next tile. One thread.
    ///
    /// # Safety
    /// The conditions of the kernel hold.
    unsafe fn take(&self) -> Option<u32>;

    /// Starts the copy of the step that begins at `byte` to `stage`, and announces its bytes to the barrier `full`,
    /// whose phase ends when they have arrived. One thread.
    ///
    /// # Safety
    /// The stage is empty.
    unsafe fn load(&self, tile: &Self::Tile, byte: u32, stage: u32, full: u32);

    /// Transforms the step in `stage`, this warp's share of it.
    ///
    /// # Safety
    /// The stage is full; all warps of the role call it.
    unsafe fn transform(&self, tile: &Self::Tile, byte: u32, stage: u32);
}

/// The stages of a block, and their barriers.
#[derive(Clone, Copy)]
pub struct Pipeline {
    /// Address of the block's shared memory.
    pub base: u32,
    /// Layout of the shared memory.
    pub plan: RingPlan,
}

impl Pipeline {
    /// Makes the barriers: `full`, `transformed` and `empty` end with so many arrivals; `transformed` is not
    /// there with none. One thread; then the block's barrier.
    ///
    /// Every thread arrives by itself: no slower than a lane for its warp, and what one lane's arrival
    /// says of the others compute-sanitizer does not see.
    ///
    /// # Safety
    /// The shared memory is the block's, and nobody uses the barriers yet.
    #[inline(always)]
    pub unsafe fn init(self, full: u32, transformed: u32, empty: u32) {
        let mut stage = 0;
        while stage < self.plan.stages {
            // SAFETY: the caller's promise.
            unsafe {
                mbarrier_init(self.plan.full.at(self.base, stage), full);
                mbarrier_init(self.plan.empty.at(self.base, stage), empty);
                if transformed > 0 {
                    mbarrier_init(self.plan.transformed.at(self.base, stage), transformed);
                }
            }
            stage += 1;
        }
        fence_barrier_init();
    }

    /// Address of the ring's stage.
    #[inline(always)]
    pub fn stage(self, ring: &Ring) -> u32 {
        self.plan.data.at(self.base, ring.stage)
    }

    /// The ring's barrier of `barriers`.
    #[inline(always)]
    pub fn barrier(self, barriers: Region, ring: &Ring) -> u32 {
        barriers.at(self.base, ring.stage)
    }

    /// Waits till the ring's stage is loaded.
    ///
    /// # Safety
    /// The barriers are there.
    #[inline(always)]
    pub unsafe fn wait_full(self, ring: &Ring) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier_wait(self.barrier(self.plan.full, ring), ring.parity) };
    }

    /// Waits till the ring's stage is transformed.
    ///
    /// # Safety
    /// The barriers are there.
    #[inline(always)]
    pub unsafe fn wait_transformed(self, ring: &Ring) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier_wait(self.barrier(self.plan.transformed, ring), ring.parity) };
    }

    /// Waits till the ring's stage was read by all in the lap before.
    ///
    /// # Safety
    /// The barriers are there.
    #[inline(always)]
    pub unsafe fn wait_empty(self, ring: &Ring) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier_wait(self.barrier(self.plan.empty, ring), ring.parity ^ 1) };
    }

    /// The thread has loaded its share of the ring's stage.
    ///
    /// # Safety
    /// The barriers are there.
    #[inline(always)]
    pub unsafe fn arrive_full(self, ring: &Ring) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier_arrive(self.barrier(self.plan.full, ring)) };
    }

    /// The thread has transformed its share of the ring's stage.
    ///
    /// # Safety
    /// The barriers are there.
    #[inline(always)]
    pub unsafe fn arrive_transformed(self, ring: &Ring) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier_arrive(self.barrier(self.plan.transformed, ring)) };
    }

    /// The thread has read the ring's stage.
    ///
    /// # Safety
    /// The barriers are there.
    #[inline(always)]
    pub unsafe fn arrive_empty(self, ring: &Ring) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier_arrive(self.barrier(self.plan.empty, ring)) };
    }

    /// Advances to the next stage.
    #[inline(always)]
    pub fn advance(self, ring: &mut Ring) {
        ring.advance(self.plan.stages);
    }

    /// Says in the ring's stage which tile begins there; `None` ends the block's work.
    ///
    /// # Safety
    /// All have read the stage's word; its barrier follows.
    #[inline(always)]
    pub unsafe fn announce(self, ring: &Ring, tile: Option<u32>) {
        let tile = match tile {
            Some(tile) => tile,
            None => END,
        };
        // SAFETY: the caller's promise.
        unsafe { store_shared(self.plan.tile.at(self.base, ring.stage), tile) };
    }

    /// Waits for the ring's barrier of `barriers`, and reads which tile begins in its stage.
    ///
    /// # Safety
    /// The whole warp calls it; the barriers are there.
    #[inline(always)]
    pub unsafe fn wait_for_tile(self, barriers: Region, ring: &Ring) -> ControlFlow<(), u32> {
        // SAFETY: the caller's promise.
        let tile = unsafe {
            mbarrier_wait(self.barrier(barriers, ring), ring.parity);
            // From one lane, so that the assembler knows that it is the same in all.
            shfl(load_shared(self.plan.tile.at(self.base, ring.stage)), 0)
        };
        if tile == END { Break(()) } else { Continue(tile) }
    }

    /// The barriers of stages that may be multiplied.
    #[inline(always)]
    fn ready<W: Work>(self) -> Region {
        if W::TRANSFORMS { self.plan.transformed } else { self.plan.full }
    }

    /// Waits till the ring's stage may be multiplied.
    ///
    /// # Safety
    /// The barriers are there.
    #[inline(always)]
    pub unsafe fn wait_ready<W: Work>(self, ring: &Ring) {
        // SAFETY: the caller's promise.
        unsafe {
            if W::TRANSFORMS {
                // TMA's writes are visible only to threads that wait for its barrier.
                self.wait_full(ring);
            }
            mbarrier_wait(self.barrier(self.ready::<W>(), ring), ring.parity);
        }
    }

    /// The role of one thread: starts the loads of the block's tiles, step by step.
    ///
    /// # Safety
    /// One thread of the block calls it.
    #[inline(always)]
    pub unsafe fn load_tiles<W: Stage>(self, work: &W) {
        let mut ring = Ring::START;
        // SAFETY: a stage is loaded when all have read it, as its barrier says.
        unsafe {
            while let Some(index) = work.take() {
                let tile = work.tile(index);
                let mut byte = 0;
                while byte < work.row_bytes() {
                    let full = self.barrier(self.plan.full, &ring);
                    self.wait_empty(&ring);
                    if byte == 0 {
                        self.announce(&ring, Some(index));
                    }
                    work.load(&tile, byte, self.stage(&ring), full);
                    self.advance(&mut ring);
                    byte += W::STEP_BYTES;
                }
            }
            self.wait_empty(&ring);
            self.announce(&ring, None);
            self.arrive_full(&ring);
        }
    }

    /// The role of some warps: transforms the loaded steps of the block's tiles.
    ///
    /// # Safety
    /// As many threads call it as `transformed` takes arrivals, whole warps.
    #[inline(always)]
    pub unsafe fn transform_tiles<W: Stage>(self, work: &W) {
        let mut ring = Ring::START;
        // SAFETY: a stage is transformed when it is full, as its barrier says.
        unsafe {
            while let Continue(index) = self.wait_for_tile(self.plan.full, &ring) {
                let tile = work.tile(index);
                let mut byte = 0;
                while byte < work.row_bytes() {
                    self.wait_full(&ring);
                    work.transform(&tile, byte, self.stage(&ring));
                    fence_proxy_async();
                    self.arrive_transformed(&ring);
                    self.advance(&mut ring);
                    byte += W::STEP_BYTES;
                }
            }
            self.arrive_transformed(&ring);
        }
    }

    /// The role of a warpgroup: multiplies the block's tiles.
    ///
    /// # Safety
    /// As many threads call it as `empty` takes arrivals, whole warpgroups.
    #[inline(always)]
    pub unsafe fn multiply_tiles<W: Work>(self, work: &W) {
        let mut ring = Ring::START;
        let group = (thread() - WARPGROUP) / WARPGROUP;
        // SAFETY: the caller's promise.
        unsafe {
            while let Continue(index) = self.wait_for_tile(self.ready::<W>(), &ring) {
                work.multiply(group, index, &mut ring);
            }
        }
    }

    /// Lets a tile's steps pass that the warpgroup does not multiply.
    ///
    /// # Safety
    /// The whole warpgroup calls it.
    #[inline(always)]
    pub unsafe fn skip<W: Work>(self, work: &W, ring: &mut Ring) {
        let mut byte = 0;
        while byte < work.row_bytes() {
            // SAFETY: the caller's promise.
            unsafe {
                mbarrier_wait(self.barrier(self.ready::<W>(), ring), ring.parity);
                self.arrive_empty(ring);
            }
            self.advance(ring);
            byte += W::STEP_BYTES;
        }
    }
}

/// Marks the end of the work, in place of a tile's number.
const END: u32 = u32::MAX;
