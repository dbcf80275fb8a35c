//! The tensor-core correlator on Hopper's warpgroup instructions (`wgmma`, sm_90a).
//!
//! ```text
//! a  = (re, im, ...)    of a row, b = (re', im', ...) of a column
//! a* = (im, -re, ...)   its turn, made in registers from the fragment of a
//! a  . b = sum re re' + im im' = real part
//! a* . b = sum im re' - re im' = imaginary part
//! ```
//!
//! [`Samples`] says how the turn is exact for every byte; it needs the sum of each column's imaginary
//! parts.
//!
//! A block is persistent: it takes tiles of baselines in turn, those of one channel together so that
//! its samples are read from the L2 cache. Its warpgroups have roles:
//!
//! - the first stages: one thread has the copy engine bring panels of rows and columns, 128 bytes of
//!   time a step, several steps ahead; the other three warps sum the columns' imaginary parts;
//! - the others multiply 64 rows each: fragments of `a` by `ldmatrix`, `a*` from them, and both
//!   against the column panel as it lies in shared memory.
//!
//! Bound by the tensor cores: a step of a 64 x 192 part takes 8 `wgmma` of 96 cycles. The sums take
//! 192 of a thread's registers, which is what limits the tile. While one warpgroup prepares its
//! fragments or writes its sums, the other multiplies. Near the diagonal a warpgroup multiplies only
//! as many columns, in whole 64s, as lie on or left of it.
//!
//! Tried and lost: leaving the last multiplications of a step under way over the next step's barrier
//! (1161 against 1157 useful TOPS). Writing visibilities straight from the registers, 16 bytes a lane,
//! took a fifth of the time: sectors were written in parts.

use crate::{
    abi::correlate::{
        CorrelateWarpgroup, PATCH_BYTES, PATCH_COLUMNS, PATCH_PITCH, STEP_BYTES, TILE_128_128,
        TILE_128_192, WarpgroupTile, mode,
    },
    correlate::{
        samples::{Half, Int8, Samples},
        triangle,
    },
    isa::{
        common::{
            barrier, block, blocks, dynamic_shared, lane, load_shared_2, load_shared_4,
            read_global_2, store_global_2, store_shared, store_shared_4, thread, warp_barrier,
        },
        sm_90a::{
            copy_tensor_3d, fence_barrier_init, give_registers, mbarrier_arrive,
            mbarrier_arrive_expect, mbarrier_init, mbarrier_wait, multiply_f16_64,
            multiply_f16_128, multiply_f16_192, multiply_s8_64, multiply_s8_128, multiply_s8_192,
            operand, take_registers,
        },
    },
    tile::{divisor, fragment, panel},
};

/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// Threads that sum columns: the staging warpgroup's warps but the first.
const SUMMERS: u32 = 96;

/// A sample type on `wgmma`, with tiles of `2 * WORDS` columns.
trait Multiply<const WORDS: usize>: Samples {
    /// A step of 64 rows by the columns that `b` describes.
    ///
    /// # Safety
    /// As [`multiply_s8_192`]'s.
    unsafe fn multiply(sums: &mut [u32; WORDS], turned_sums: &mut [u32; WORDS], row: u32, b: u64);
}

macro_rules! multiply {
    ($($samples:ty, $words:literal: $step:ident;)*) => {$(
        impl Multiply<$words> for $samples {
            #[inline(always)]
            unsafe fn multiply(
                sums: &mut [u32; $words],
                turned_sums: &mut [u32; $words],
                row: u32,
                b: u64,
            ) {
                // SAFETY: the caller's promise.
                unsafe { $step(sums, turned_sums, row, b) }
            }
        }
    )*};
}

multiply! {
    Int8, 32: multiply_s8_64;
    Int8, 64: multiply_s8_128;
    Int8, 96: multiply_s8_192;
    Half, 32: multiply_f16_64;
    Half, 64: multiply_f16_128;
    Half, 96: multiply_f16_192;
}

/// A sample type on `wgmma`, with parts of 64, 128 and 192 columns.
trait Parts: Multiply<32> + Multiply<64> + Multiply<96> {}

impl<S: Multiply<32> + Multiply<64> + Multiply<96>> Parts for S {}

/// A tile of one channel.
struct Place {
    channel: u32,
    first_row: u32,
    first_column: u32,
}

/// Tile `index` of all channels'.
#[inline(always)]
fn place(p: &CorrelateWarpgroup, shape: WarpgroupTile, index: u32) -> Place {
    let tiles = divisor(p.tiles);
    let mut column = index % tiles;
    let mut row = 0;
    loop {
        let across = shape.across(row, p.inputs);
        if column < across {
            break;
        }
        column -= across;
        row += 1;
    }
    Place {
        channel: index / tiles,
        first_row: row * shape.rows,
        first_column: column * shape.columns,
    }
}

/// Addresses in shared memory.
#[derive(Clone, Copy)]
struct Shared {
    base: u32,
    shape: WarpgroupTile,
}

impl Shared {
    /// Panel of rows of a stage.
    #[inline(always)]
    fn rows(self, stage: u32) -> u32 {
        self.base + stage * self.shape.stage_bytes()
    }

    /// Panel of columns of a stage.
    #[inline(always)]
    fn columns(self, stage: u32) -> u32 {
        self.rows(stage) + self.shape.rows * STEP_BYTES
    }

    /// Patch of a warp that multiplies.
    #[inline(always)]
    fn patch(self, warp: u32) -> u32 {
        self.rows(self.shape.stages) + warp * PATCH_BYTES
    }

    /// Sum of a column's imaginary parts.
    #[inline(always)]
    fn sum(self, column: u32) -> u32 {
        self.patch(self.shape.rows / 16) + 4 * column
    }

    #[inline(always)]
    fn barriers(self) -> u32 {
        self.sum(self.shape.columns)
    }

    /// Barrier of a stage that holds samples.
    #[inline(always)]
    fn full(self, stage: u32) -> u32 {
        self.barriers() + 8 * stage
    }

    /// Barrier of a stage that may be written.
    #[inline(always)]
    fn empty(self, stage: u32) -> u32 {
        self.full(self.shape.stages + stage)
    }

    /// Barrier of sums that are complete.
    #[inline(always)]
    fn sums_full(self) -> u32 {
        self.full(2 * self.shape.stages)
    }

    /// Barrier of sums that may be written.
    #[inline(always)]
    fn sums_empty(self) -> u32 {
        self.full(2 * self.shape.stages + 1)
    }
}

/// Position in the ring of stages, and the parity of the turn.
struct Ring {
    stage: u32,
    parity: u32,
}

impl Ring {
    const START: Self = Self { stage: 0, parity: 0 };

    #[inline(always)]
    fn advance(&mut self, stages: u32) {
        self.stage += 1;
        if self.stage == stages {
            self.stage = 0;
            self.parity ^= 1;
        }
    }
}

/// A warp has done with what `barrier` guards.
#[inline(always)]
unsafe fn release(barrier: u32) {
    warp_barrier();
    if lane() == 0 {
        // SAFETY: one of the block's barriers.
        unsafe { mbarrier_arrive(barrier) };
    }
}

/// The whole of a block's work.
///
/// # Safety
/// As the kernels'.
#[inline(always)]
unsafe fn correlate<S: Parts, const STAGING_REGISTERS: u32, const MULTIPLYING_REGISTERS: u32>(
    p: &CorrelateWarpgroup,
    shape: WarpgroupTile,
) {
    let shared = Shared { base: dynamic_shared(), shape };
    let multiplying_warps = shape.rows / 16;
    // SAFETY: the addresses lie in the block's shared memory, and every role below keeps to the
    // barriers.
    unsafe {
        if thread() == 0 {
            let summing_warps = if S::SUMS { SUMMERS / 32 } else { 0 };
            let mut stage = 0;
            while stage < shape.stages {
                mbarrier_init(shared.full(stage), 1);
                mbarrier_init(shared.empty(stage), multiplying_warps + summing_warps);
                stage += 1;
            }
            mbarrier_init(shared.sums_full(), SUMMERS);
            mbarrier_init(shared.sums_empty(), multiplying_warps);
            fence_barrier_init();
        }
        barrier();
        if thread() < WARPGROUP {
            give_registers::<STAGING_REGISTERS>();
            if thread() == 0 {
                stage(p, shape, shared);
            } else if S::SUMS && thread() >= 32 {
                sum_columns::<S>(p, shape, shared);
            }
        } else {
            take_registers::<MULTIPLYING_REGISTERS>();
            multiply_tiles::<S>(p, shape, shared);
        }
    }
}

/// One thread: has the copy engine bring the panels of all of the block's tiles.
#[inline(always)]
unsafe fn stage(p: &CorrelateWarpgroup, shape: WarpgroupTile, shared: Shared) {
    let mut ring = Ring::START;
    let mut index = block();
    while index < p.tiles * p.channels {
        let tile = place(p, shape, index);
        let mut byte = 0;
        while byte < p.row_bytes {
            let full = shared.full(ring.stage);
            // SAFETY: the stage was read by all, as its barrier says.
            unsafe {
                mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
                mbarrier_arrive_expect(full, shape.stage_bytes());
                let rows = [byte, tile.first_row, tile.channel];
                copy_tensor_3d(shared.rows(ring.stage), p.rows, rows, full);
                let columns = [byte, tile.first_column, tile.channel];
                copy_tensor_3d(shared.columns(ring.stage), p.columns, columns, full);
            }
            ring.advance(shape.stages);
            byte += STEP_BYTES;
        }
        index += blocks();
    }
}

/// Three warps: sum the imaginary parts of each column, a lane two columns at most.
#[inline(always)]
unsafe fn sum_columns<S: Samples>(p: &CorrelateWarpgroup, shape: WarpgroupTile, shared: Shared) {
    let mut ring = Ring::START;
    let mut parity = 0;
    let first = thread() - (WARPGROUP - SUMMERS);
    let second = first + SUMMERS;
    let mut index = block();
    while index < p.tiles * p.channels {
        let (mut first_sum, mut second_sum) = (0, 0);
        let mut byte = 0;
        while byte < p.row_bytes {
            // SAFETY: the stage holds samples, as its barrier says.
            unsafe {
                mbarrier_wait(shared.full(ring.stage), ring.parity);
                let panel = shared.columns(ring.stage);
                first_sum = sum_row::<S>(first_sum, panel, first);
                if second < shape.columns {
                    second_sum = sum_row::<S>(second_sum, panel, second);
                }
                release(shared.empty(ring.stage));
            }
            ring.advance(shape.stages);
            byte += STEP_BYTES;
        }
        // SAFETY: the sums before were read by all, as their barrier says.
        unsafe {
            mbarrier_wait(shared.sums_empty(), parity ^ 1);
            store_shared(shared.sum(first), first_sum as u32);
            if second < shape.columns {
                store_shared(shared.sum(second), second_sum as u32);
            }
            mbarrier_arrive(shared.sums_full());
        }
        parity ^= 1;
        index += blocks();
    }
}

/// `sum` plus the imaginary parts of a row of a panel.
#[inline(always)]
unsafe fn sum_row<S: Samples>(mut sum: i32, panel: u32, row: u32) -> i32 {
    let mut chunk = 0;
    while chunk < panel::CHUNKS {
        // SAFETY: the row is one of the panel's.
        let words = unsafe { load_shared_4(panel + panel::offset(row, chunk)) };
        for word in words {
            sum = S::sum_imaginary(sum, word);
        }
        chunk += 1;
    }
    sum
}

/// A warpgroup: multiplies its 64 rows of all of the block's tiles.
#[inline(always)]
unsafe fn multiply_tiles<S: Parts>(p: &CorrelateWarpgroup, shape: WarpgroupTile, shared: Shared) {
    let mut ring = Ring::START;
    let mut parity = 0;
    // First row of the warpgroup in the tile.
    let group_row = (thread() - WARPGROUP) / WARPGROUP * 64;
    let mut index = block();
    while index < p.tiles * p.channels {
        let tile = place(p, shape, index);
        let part = Part { p, shape, shared, tile: &tile, parity };
        // Columns of the tile that lie on or left of the diagonal for the last of the rows.
        let first_row = tile.first_row + group_row;
        let columns = (first_row + 64).saturating_sub(tile.first_column);
        // SAFETY: the number of columns is the warpgroup's.
        unsafe {
            if first_row >= p.inputs || columns == 0 {
                part.skip::<S>(&mut ring);
            } else if columns <= 64 {
                part.multiply::<S, 32>(&mut ring);
            } else if columns <= 128 || shape.columns == 128 {
                part.multiply::<S, 64>(&mut ring);
            } else {
                part.multiply::<S, 96>(&mut ring);
            }
            if S::SUMS {
                release(shared.sums_empty());
            }
        }
        parity ^= 1;
        index += blocks();
    }
}

/// A warpgroup's part of a tile.
struct Part<'a> {
    p: &'a CorrelateWarpgroup,
    shape: WarpgroupTile,
    shared: Shared,
    tile: &'a Place,
    /// Parity of the barrier of the column sums.
    parity: u32,
}

impl Part<'_> {
    /// Lets the tile's stages pass.
    #[inline(always)]
    unsafe fn skip<S: Samples>(&self, ring: &mut Ring) {
        let mut byte = 0;
        while byte < self.p.row_bytes {
            // SAFETY: the block's barriers.
            unsafe {
                mbarrier_wait(self.shared.full(ring.stage), ring.parity);
                release(self.shared.empty(ring.stage));
            }
            ring.advance(self.shape.stages);
            byte += STEP_BYTES;
        }
        if S::SUMS {
            // SAFETY: the block's barrier.
            unsafe { mbarrier_wait(self.shared.sums_full(), self.parity) };
        }
    }

    /// Multiplies the warpgroup's rows by the first `2 * WORDS` columns, and writes the visibilities.
    #[inline(always)]
    unsafe fn multiply<S: Multiply<WORDS>, const WORDS: usize>(&self, ring: &mut Ring) {
        let warp = (thread() - WARPGROUP) / 32;
        let (mut sums, mut turned_sums) = ([0; WORDS], [0; WORDS]);
        let mut byte = 0;
        while byte < self.p.row_bytes {
            let (stage, shared) = (ring.stage, self.shared);
            // SAFETY: the stage holds samples, as its barrier says.
            unsafe {
                mbarrier_wait(shared.full(stage), ring.parity);
                let row = panel::ldmatrix_address(shared.rows(stage), 16 * warp, 0);
                S::multiply(&mut sums, &mut turned_sums, row, operand(shared.columns(stage)));
                release(shared.empty(stage));
            }
            ring.advance(self.shape.stages);
            byte += STEP_BYTES;
        }
        // SAFETY: the column sums are complete, as their barrier says; no other warp has these
        // baselines.
        unsafe {
            if S::SUMS {
                mbarrier_wait(self.shared.sums_full(), self.parity);
            }
            self.store::<S, WORDS>(warp, &sums, &turned_sums);
        }
    }

    /// Writes a warp's sums to the visibilities, through its patch of shared memory: lanes that hold
    /// 8 columns of 8 rows come to hold 32 columns of one row, which are neighbours in memory.
    ///
    /// # Safety
    /// The whole warp calls it; the column sums are complete; no other warp writes these baselines.
    #[inline(always)]
    unsafe fn store<S: Samples, const WORDS: usize>(
        &self,
        warp: u32,
        sums: &[u32; WORDS],
        turned_sums: &[u32; WORDS],
    ) {
        let Self { p, shared, tile, .. } = *self;
        let visibilities = p.visibilities + 8 * tile.channel as u64 * triangle::baselines(p.inputs);
        let patch = shared.patch(warp);
        let place = fragment::accumulator(lane(), 0);
        for group in 0..WORDS / 16 {
            let group_column = group as u32 * PATCH_COLUMNS;
            for half in 0..2 {
                for n in 0..4 {
                    let column = 8 * n as u32 + place.column;
                    let word = 16 * group + 4 * n + 2 * half;
                    // SAFETY: within the sums and the patch.
                    unsafe {
                        let column_sums = if S::SUMS {
                            load_shared_2(shared.sum(group_column + column)).map(|sum| sum as i32)
                        } else {
                            [0; 2]
                        };
                        let values = [
                            sums[word],
                            S::finish(turned_sums[word], column_sums[0]),
                            sums[word + 1],
                            S::finish(turned_sums[word + 1], column_sums[1]),
                        ];
                        store_shared_4(patch + place.row * PATCH_PITCH + 8 * column, values);
                    }
                }
                warp_barrier();
                let j = tile.first_column + group_column + lane();
                for row in 0..8 {
                    let i = tile.first_row + 16 * warp + 8 * half as u32 + row;
                    if i < p.inputs && j <= i {
                        let address = visibilities + 8 * triangle::baseline(i, j);
                        // SAFETY: within the patch; (i, j) is a baseline, this warp's alone.
                        unsafe {
                            let mut value = load_shared_2(patch + row * PATCH_PITCH + 8 * lane());
                            if p.mode == mode::ADD {
                                let before = read_global_2(address);
                                value = [S::add(before[0], value[0]), S::add(before[1], value[1])];
                            }
                            store_global_2(address, value);
                        }
                    }
                }
                warp_barrier();
            }
        }
    }
}

/// The kernels: a name, its samples, its tile.
macro_rules! correlators {
    ($($(#[$attribute:meta])* $name:ident: $samples:ty, $tile:ident;)*) => {$(
        kernel! {
            $(#[$attribute])*
            fn $name(p: CorrelateWarpgroup) {
                correlate::<
                    $samples,
                    { $tile.registers.0 },
                    { $tile.registers.1 },
                >(&p, $tile)
            }
        }
    )*};
}

correlators! {
    /// int8, tiles of 128 x 192 baselines.
    correlate_wgmma_s8_192: Int8, TILE_128_192;
    /// int8, tiles of 128 x 128 baselines.
    correlate_wgmma_s8_128: Int8, TILE_128_128;
    /// Half precision, tiles of 128 x 192 baselines.
    correlate_wgmma_f16_192: Half, TILE_128_192;
    /// Half precision, tiles of 128 x 128 baselines.
    correlate_wgmma_f16_128: Half, TILE_128_128;
}
