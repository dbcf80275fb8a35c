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

use core::ops::{
    ControlFlow::{self, Break, Continue},
    Range,
};

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

    /// Tile `index`.
    fn tile(&self, index: u32) -> Self::Tile;
    /// Bytes of the rows that are multiplied for a tile, at least 1, from a multiple of [`Self::STEP_BYTES`] on: a step
    /// for each `STEP_BYTES`, rounded up. The tile is announced in the stage of the first.
    fn bytes(&self, tile: &Self::Tile) -> Range<u32>;

    /// Multiplies the steps of tile `index`, from the ring's stage on, and stores the sums: as warpgroup `group` of
    /// those that multiply.
    ///
    /// # Safety
    /// - All 128 threads of warpgroup `group` call it together, with the same arguments, after [`Pipeline::init`] and
    ///   the block's barrier.
    /// - `index` is the tile that the ring's stage was announced with ([`Pipeline::announce`]).
    /// - The implementation waits for each stage before it reads it, and each thread arrives at `empty` once a step:
    ///   it leaves the ring as many steps further as the tile has.
    unsafe fn multiply(&self, group: u32, index: u32, ring: &mut Ring);
}

/// The way of tiles to a kernel whose loading and transforming are roles of their own.
pub trait Stage: Work {
    /// The block's next tile. One thread.
    ///
    /// # Safety
    /// - One thread of the block calls it.
    /// - What hands tiles out (a counter of tickets) is used by this launch alone.
    unsafe fn next_tile(&self) -> Option<u32>;

    /// Starts the copy of the step that begins at `byte` to `stage`, and announces its bytes to the barrier `full`,
    /// whose phase ends when they have arrived. One thread.
    ///
    /// # Safety
    /// - One thread calls it, which has waited for `stage` to be empty ([`Pipeline::wait_empty`]).
    /// - `stage` is the address of a stage of the ring, and `full` that of its initialised barrier, which lacks this
    ///   arrival.
    /// - `byte` is a multiple of [`Work::STEP_BYTES`] in [`Work::bytes`].
    unsafe fn load(&self, tile: &Self::Tile, byte: u32, stage: u32, full: u32);

    /// Transforms the step in `stage`, this warp's share of it.
    ///
    /// # Safety
    /// - All warps of the role call it together, each of them whole, with the same arguments.
    /// - Each thread has waited for `stage` to be full, and none has arrived at `transformed` for it: nobody
    ///   multiplies it yet.
    /// - `tile` and `byte` are those that the stage was loaded with.
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
    /// - One thread of the block calls it, once; no other uses the barriers before a barrier of the block that
    ///   follows.
    /// - `base` is the address of the block's shared memory, which is as large as `plan` and aligned to 1024 bytes.
    /// - `full` and `empty` are at least 1. `transformed` is 0 only if nobody uses these barriers; else `plan` has
    ///   room for them.
    #[inline(always)]
    pub unsafe fn init(self, full: u32, transformed: u32, empty: u32) {
        let mut stage = 0;
        while stage < self.plan.stages {
            // SAFETY: the plan has 8 aligned bytes for each barrier (a test of `abi::shared`), which nobody else uses
            // before the block's barrier.
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
    /// - [`init`](Self::init) was called, and a barrier of the block stands between that and this call.
    /// - `ring` is the caller's place in the ring: it has seen every phase of the lap before end.
    #[inline(always)]
    pub unsafe fn wait_full(self, ring: &Ring) {
        // SAFETY: the barrier is made, and the parity belongs to the present phase or the one before.
        unsafe { mbarrier_wait(self.barrier(self.plan.full, ring), ring.parity) };
    }

    /// Waits till the ring's stage is transformed.
    ///
    /// # Safety
    /// - [`init`](Self::init) was called, and a barrier of the block stands between that and this call. It made
    ///   `transformed`.
    /// - `ring` is the caller's place in the ring: it has seen every phase of the lap before end.
    #[inline(always)]
    pub unsafe fn wait_transformed(self, ring: &Ring) {
        // SAFETY: the barrier is made, and the parity belongs to the present phase or the one before.
        unsafe { mbarrier_wait(self.barrier(self.plan.transformed, ring), ring.parity) };
    }

    /// Waits till the ring's stage was read by all in the lap before.
    ///
    /// # Safety
    /// - [`init`](Self::init) was called, and a barrier of the block stands between that and this call.
    /// - `ring` is the caller's place in the ring: it has seen every phase of the lap before end.
    #[inline(always)]
    pub unsafe fn wait_empty(self, ring: &Ring) {
        // SAFETY: the barrier is made, and the parity belongs to the present phase or the one before.
        unsafe { mbarrier_wait(self.barrier(self.plan.empty, ring), ring.parity ^ 1) };
    }

    /// The thread has loaded its share of the ring's stage.
    ///
    /// # Safety
    /// - [`init`](Self::init) was called, and a barrier of the block stands between that and this call.
    /// - The thread is one of those that `full` counts, and has waited for the stage to be empty: it arrives once a
    ///   lap.
    /// - What it copied or stored is complete and, for `wgmma`, followed by a `fence.proxy.async`.
    #[inline(always)]
    pub unsafe fn arrive_full(self, ring: &Ring) {
        // SAFETY: the barrier is made, and its phase still lacks this thread, which arrives once a lap.
        unsafe { mbarrier_arrive(self.barrier(self.plan.full, ring)) };
    }

    /// The thread has transformed its share of the ring's stage.
    ///
    /// # Safety
    /// - [`init`](Self::init) was called, and a barrier of the block stands between that and this call. It made
    ///   `transformed`.
    /// - The thread is one of those that `transformed` counts, and has waited for the stage to be full: it arrives
    ///   once a lap.
    /// - Its stores to the stage are followed by a `fence.proxy.async`, if `wgmma` reads them.
    #[inline(always)]
    pub unsafe fn arrive_transformed(self, ring: &Ring) {
        // SAFETY: the barrier is made, and its phase still lacks this thread, which arrives once a lap.
        unsafe { mbarrier_arrive(self.barrier(self.plan.transformed, ring)) };
    }

    /// The thread has read the ring's stage.
    ///
    /// # Safety
    /// - [`init`](Self::init) was called, and a barrier of the block stands between that and this call.
    /// - The thread is one of those that `empty` counts, and has waited for the stage to be ready: it arrives once a
    ///   lap.
    /// - It reads the stage no more: its loads have returned, and its `wgmma` were waited for.
    #[inline(always)]
    pub unsafe fn arrive_empty(self, ring: &Ring) {
        // SAFETY: the barrier is made, and its phase still lacks this thread, which arrives once a lap.
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
    /// - [`init`](Self::init) was called, and a barrier of the block stands between that and this call. `plan` has
    ///   words of tiles.
    /// - One thread of the block calls it, after [`wait_empty`](Self::wait_empty) for the stage and before it arrives
    ///   at `full` for it.
    #[inline(always)]
    pub unsafe fn announce(self, ring: &Ring, tile: Option<u32>) {
        let tile = match tile {
            Some(tile) => tile,
            None => END,
        };
        // SAFETY: the word is 4 aligned bytes of the plan; who read it in the lap before has arrived at `empty`, and
        // who reads it next waits for `full`.
        unsafe { store_shared(self.plan.tile.at(self.base, ring.stage), tile) };
    }

    /// Waits for the ring's barrier of `barriers`, and reads which tile begins in its stage.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, with the same arguments.
    /// - [`init`](Self::init) was called, and a barrier of the block stands between that and this call. `barriers`
    ///   are barriers of `plan` that it made: `full` or `transformed`.
    /// - `ring` is the caller's place in the ring, and a tile begins in its stage, or the work ends there.
    #[inline(always)]
    pub unsafe fn wait_for_tile(self, barriers: Region, ring: &Ring) -> ControlFlow<(), u32> {
        // SAFETY: the barrier is made; once its phase has ended the word was announced, and it stays till this thread
        // has arrived at `empty`, or at the barrier on which that depends. The whole warp shuffles.
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
    /// - [`init`](Self::init) was called, and a barrier of the block stands between that and this call. It made
    ///   `transformed`, if `W` transforms.
    /// - `ring` is the caller's place in the ring: it has seen every phase of the lap before end.
    #[inline(always)]
    pub unsafe fn wait_ready<W: Work>(self, ring: &Ring) {
        // SAFETY: the barriers are made, and the parity belongs to the present phase or the one before.
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
    /// - One thread of the block calls it, once, after [`init`](Self::init) with `full = 1` and the block's barrier.
    /// - The block's other roles run beside it: [`transform_tiles`](Self::transform_tiles) if `W` transforms, and
    ///   [`multiply_tiles`](Self::multiply_tiles), by as many threads as `init` was told.
    /// - What hands tiles out is used by this launch alone.
    #[inline(always)]
    pub unsafe fn load_tiles<W: Stage>(self, work: &W) {
        let mut ring = Ring::START;
        // SAFETY: one thread goes round the ring, and waits for a stage to be empty before it announces and loads
        // there. At the end it waits for one more, whose phase of `full` it ends itself, with no bytes.
        unsafe {
            while let Some(index) = work.next_tile() {
                let tile = work.tile(index);
                let Range { start, end } = work.bytes(&tile);
                let mut byte = start;
                while byte < end {
                    let full = self.barrier(self.plan.full, &ring);
                    self.wait_empty(&ring);
                    if byte == start {
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
    /// - Whole warps call it, once, after [`init`](Self::init) and the block's barrier: as many threads as its
    ///   `transformed` says, and these alone.
    /// - One thread of the block calls [`load_tiles`](Self::load_tiles) with the same `work`, and others
    ///   [`multiply_tiles`](Self::multiply_tiles).
    #[inline(always)]
    pub unsafe fn transform_tiles<W: Stage>(self, work: &W) {
        let mut ring = Ring::START;
        // SAFETY: every thread waits for a stage to be full before it transforms, and arrives once, behind a fence;
        // the role's warps see the same tiles, so that all of them call `transform`.
        unsafe {
            while let Continue(index) = self.wait_for_tile(self.plan.full, &ring) {
                let tile = work.tile(index);
                let Range { start: mut byte, end } = work.bytes(&tile);
                while byte < end {
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
    /// - Whole warpgroups call it, once, after [`init`](Self::init) and the block's barrier: those from thread 128
    ///   on, as many threads as its `empty` says, and these alone.
    /// - Other threads of the block load, and transform if `W` does, with the same `work`.
    #[inline(always)]
    pub unsafe fn multiply_tiles<W: Work>(self, work: &W) {
        let mut ring = Ring::START;
        let group = (thread() - WARPGROUP) / WARPGROUP;
        // SAFETY: a whole warpgroup sees the same tiles, each announced in the stage at which it stands; `multiply`
        // leaves the ring where the next begins.
        unsafe {
            while let Continue(index) = self.wait_for_tile(self.ready::<W>(), &ring) {
                work.multiply(group, index, &mut ring);
            }
        }
    }

    /// Lets a tile's steps pass that the warpgroup does not multiply.
    ///
    /// # Safety
    /// - All 128 threads of the warpgroup call it together.
    /// - `ring` is the caller's place in the ring, where `tile` of `work` begins; the caller is one of the threads
    ///   that `empty` counts, and has read nothing of its stages that is still under way.
    /// - [`init`](Self::init) was called, and a barrier of the block stands between that and this call.
    #[inline(always)]
    pub unsafe fn skip<W: Work>(self, work: &W, tile: &W::Tile, ring: &mut Ring) {
        let Range { start: mut byte, end } = work.bytes(tile);
        while byte < end {
            // SAFETY: a phase is waited for before the thread arrives, once a step; nothing of the stage is read.
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
