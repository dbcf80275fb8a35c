//! The tensor-core correlator on `wgmma` by pairs of blocks, which share what they multiply by.
//!
//! The two blocks of a cluster have 256 neighbouring rows. TMA brings the columns that both multiply by once from the L2
//! cache, half of them by each block, and stores them in the shared memory of both (`.multicast::cluster`):
//!
//! ```text
//! left of the diagonal: 256 rows x 192 columns     on the diagonal: 256 inputs, which are rows and columns
//!
//!            columns, shared                        warpgroup     rows       columns
//! block 0   +---------------+                       block 0, 0    192..256   0..192
//!  its rows |  128 x 192    |                       block 0, 1     64..128   0..128
//! block 1   +---------------+                       block 1, 0    128..192   0..192
//!  its rows |  128 x 192    |                       block 1, 1      0..64    0..64, and rows 192..256 by 192..256
//!           +---------------+
//! ```
//!
//! A channel of 256 inputs so comes to a pair once, and each block has half of its products. The sums of a warpgroup are
//! those of [`super::wgmma`], which says how samples are multiplied.
//!
//! The pipeline of stages is each block's own ([`pipeline`]). Beside its barriers, a stage has the barrier `granted`, on
//! which a block waits till the other's stage may be written:
//!
//! ```text
//! thread that loads, block 0                         thread that loads, block 1
//! wait empty; take a tile                            wait empty
//! announce the bytes to `full`                       wait granted; read the tile
//! tile -> block 1; arrive on its granted ----------> announce the bytes to `full`
//!   bring rows                  <------------------- arrive on block 0's granted
//! wait granted                                         bring rows
//! bring the first half of the columns to both        bring the second half to both
//! ```

use core::marker::PhantomData;

use crate::{
    abi::correlate::{CorrelateWarpgroup, STEP_BYTES, TILE_PAIR, WarpgroupShared, WarpgroupTile},
    correlate::{
        feed::Rows,
        samples::{Bits, Int8},
        warpgroup::{TileOrigin, take_tile},
        wgmma::{Multiply, MultiplyTwo, store_sums},
    },
    isa::{
        common::{dynamic_shared, load_shared, opaque, thread},
        sm_90a::{
            cluster_arrive, cluster_rank, cluster_wait, copy_tensor_3d, copy_tensor_3d_multicast,
            descriptor, give_registers, mbarrier_arrive_cluster, mbarrier_arrive_expect,
            mbarrier_init, mbarrier_wait_cluster, of_block, store_cluster, take_registers,
        },
    },
    tile::{
        divisor, panel,
        pipeline::{self, Pipeline, Ring, WARPGROUP, Work},
    },
};

const TILE: WarpgroupTile = TILE_PAIR;

/// Rows of a warpgroup.
const ROWS: u32 = 64;

/// Both blocks of the pair.
const BOTH: u16 = 0b11;

/// Stands in a mailbox in place of a tile: there is none.
const END: u32 = u32::MAX;

/// A tile of a pair of blocks.
struct PairTile {
    channel: u32,
    /// First row of the pair.
    first_row: u32,
    /// First column; that of the square on the diagonal is the first row.
    first_column: u32,
    /// Number of columns.
    columns: u32,
}

impl PairTile {
    fn on_diagonal(&self) -> bool {
        self.first_column == self.first_row
    }

    /// Bytes of a step that arrive in a block's shared memory.
    fn bytes(&self) -> u32 {
        let inputs =
            if self.on_diagonal() { TILE.pair_rows() } else { TILE.rows + TILE.columns };
        inputs * STEP_BYTES
    }
}

/// Part of a tile that a warpgroup multiplies at once: 64 rows by 128 or 192 columns, or one of two by 64.
struct Part {
    origin: TileOrigin,
    columns: u32,
    /// Offset of the panel of its rows in a stage.
    rows_at: u32,
    /// Offset of the panel of its columns in a stage.
    columns_at: u32,
}

/// Samples on `wgmma` in the widths of the parts.
trait Widths: Multiply<Rows, 64> + Multiply<Rows, 96> + MultiplyTwo {}

impl Widths for Int8 {}
impl Widths for Bits {}

/// A block of a pair.
struct Pair<'a, S> {
    p: &'a CorrelateWarpgroup,
    shared: WarpgroupShared,
    pipeline: Pipeline,
    samples: PhantomData<S>,
}

/// The whole of a block's work.
///
/// # Safety
/// The conditions of the kernels hold.
#[inline(always)]
unsafe fn correlate<S: Widths>(p: &CorrelateWarpgroup) {
    let shared = TILE.shared();
    let pipeline = Pipeline { base: dynamic_shared(), plan: shared.ring };
    let work = &Pair::<S> { p, shared, pipeline, samples: PhantomData };
    // SAFETY: the plan is that of the block's shared memory, and every role keeps to its barriers.
    unsafe {
        if thread() == 0 {
            let mut stage = 0;
            while stage < TILE.stages {
                mbarrier_init(shared.granted.at(pipeline.base, stage), 1);
                stage += 1;
            }
            pipeline.init(1, 0, TILE.multiplying());
        }
        // The other block's barriers are there, too.
        cluster_arrive();
        cluster_wait();
        if pipeline::stages(TILE.staging, TILE.multiplying()) {
            give_registers::<{ TILE.registers.0 }>();
            if thread() == 0 {
                work.load_tiles();
            }
        } else {
            take_registers::<{ TILE.registers.1 }>();
            pipeline.multiply_tiles(work);
        }
    }
}

impl<S: Widths> Work for Pair<'_, S> {
    type Tile = PairTile;
    const STEP_BYTES: u32 = STEP_BYTES;
    const TRANSFORMS: bool = false;

    #[inline(always)]
    fn row_bytes(&self) -> u32 {
        self.p.row_bytes
    }

    #[inline(always)]
    fn tile(&self, index: u32) -> PairTile {
        let tiles = divisor(self.p.tiles);
        let (mut row, mut column) = (0, index % tiles);
        loop {
            let across = TILE.across(row, self.p.inputs);
            if column < across {
                let first_row = row * TILE.pair_rows();
                // The last of a row is the square.
                let (first_column, columns) = if column + 1 == across {
                    (first_row, TILE.pair_rows())
                } else {
                    TILE.pair_columns(row, column)
                };
                return PairTile { channel: index / tiles, first_row, first_column, columns };
            }
            column -= across;
            row += 1;
        }
    }

    #[inline(always)]
    unsafe fn multiply(&self, group: u32, index: u32, ring: &mut Ring) {
        let tile = self.tile(index);
        let part = self.part(&tile, group);
        // SAFETY: the caller's promise; parts have no baselines in common.
        unsafe {
            if part.origin.first_row >= self.p.inputs {
                self.pipeline.skip(self, ring);
            } else if tile.on_diagonal() && cluster_rank() == 1 && group == 1 {
                self.multiply_two(index, ring);
            } else if part.columns == 128 {
                self.multiply_part::<64>(index, &part, ring);
            } else {
                self.multiply_part::<96>(index, &part, ring);
            }
        }
    }
}

impl<S: Widths> Pair<'_, S> {
    /// The part of a tile that warpgroup `group` of this block multiplies, its first if it has two.
    #[inline(always)]
    fn part(&self, tile: &PairTile, group: u32) -> Part {
        let rank = cluster_rank();
        let PairTile { channel, first_row, first_column, columns } = *tile;
        if tile.on_diagonal() {
            // 3, 1 and 2, 0: both blocks have as many products.
            let rows = 3 - 2 * group - rank;
            let to_diagonal = ROWS * (rows + 1);
            let columns = if to_diagonal < TILE.columns { to_diagonal } else { TILE.columns };
            self.of_square(tile, rows, 0, columns)
        } else {
            Part {
                origin: TileOrigin {
                    channel,
                    first_row: first_row + TILE.rows * rank + ROWS * group,
                    first_column,
                },
                columns,
                rows_at: (TILE.columns + ROWS * group) * STEP_BYTES,
                columns_at: 0,
            }
        }
    }

    /// Part of a square on the diagonal: rows `rows` of four, and columns from `column` on.
    #[inline(always)]
    fn of_square(&self, tile: &PairTile, rows: u32, column: u32, columns: u32) -> Part {
        Part {
            origin: TileOrigin {
                channel: tile.channel,
                first_row: tile.first_row + ROWS * rows,
                first_column: tile.first_column + column,
            },
            columns,
            rows_at: ROWS * rows * STEP_BYTES,
            columns_at: column * STEP_BYTES,
        }
    }

    /// The second part of the warpgroup that has two: the corner that no part of 192 columns reaches.
    #[inline(always)]
    fn last_corner(&self, tile: &PairTile) -> Part {
        self.of_square(tile, 3, 192, 64)
    }

    /// Multiplies a part of `2 * WORDS` columns, and writes its visibilities.
    ///
    /// # Safety
    /// The whole warpgroup calls it; no other has these baselines.
    #[inline(always)]
    unsafe fn multiply_part<const WORDS: usize>(&self, index: u32, part: &Part, ring: &mut Ring)
    where
        S: Multiply<Rows, WORDS>,
    {
        let warp = thread() / 32 % 4;
        let rows = panel::ldmatrix_address(part.rows_at, 16 * warp, 0);
        let columns_at = part.columns_at;
        let (mut real, mut imaginary, mut row_sums) = ([0; WORDS], [0; WORDS], [0; 2]);
        let mut byte = 0;
        while byte < self.p.row_bytes {
            // SAFETY: the stage holds samples, as its barriers say.
            unsafe {
                self.pipeline.wait_ready::<Self>(ring);
                let stage = self.pipeline.stage(ring);
                <S as Multiply<Rows, WORDS>>::multiply(
                    &mut real,
                    &mut imaginary,
                    &mut row_sums,
                    stage + rows,
                    descriptor(stage + columns_at),
                    0,
                );
                self.pipeline.arrive_empty(ring);
            }
            self.pipeline.advance(ring);
            byte += STEP_BYTES;
        }
        // Recomputed, as registers are scarce above: where the part is, and who this is.
        let group = (opaque(thread()) - WARPGROUP) / WARPGROUP;
        let part = self.part(&self.tile(opaque(index)), group);
        // SAFETY: the caller's promise.
        unsafe { self.store(&part.origin, &real, &imaginary, row_sums) };
    }

    /// Multiplies two parts of 64 columns each, and writes their visibilities.
    ///
    /// # Safety
    /// The conditions of [`Self::multiply_part`] hold.
    #[inline(always)]
    unsafe fn multiply_two(&self, index: u32, ring: &mut Ring) {
        let tile = self.tile(index);
        let parts = [self.of_square(&tile, 0, 0, 64), self.last_corner(&tile)];
        let warp = thread() / 32 % 4;
        let rows = [0, 1].map(|part: usize| panel::ldmatrix_address(parts[part].rows_at, 16 * warp, 0));
        let (mut sums, mut row_sums) = ([[0; 32]; 4], [0; 2]);
        let mut byte = 0;
        while byte < self.p.row_bytes {
            // SAFETY: the stage holds samples, as its barriers say.
            unsafe {
                self.pipeline.wait_ready::<Self>(ring);
                let stage = self.pipeline.stage(ring);
                S::multiply_two(
                    &mut sums,
                    &mut row_sums,
                    rows.map(|rows| stage + rows),
                    [0, 1].map(|part: usize| descriptor(stage + parts[part].columns_at)),
                );
                self.pipeline.arrive_empty(ring);
            }
            self.pipeline.advance(ring);
            byte += STEP_BYTES;
        }
        let [real, imaginary, second_real, second_imaginary] = &sums;
        let tile = self.tile(opaque(index));
        let parts = [self.of_square(&tile, 0, 0, 64), self.last_corner(&tile)];
        // SAFETY: the caller's promise. The second part is not at the left edge.
        unsafe {
            self.store(&parts[0].origin, real, imaginary, row_sums);
            self.store(&parts[1].origin, second_real, second_imaginary, [0; 2]);
        }
    }

    /// Writes the sums of a part.
    ///
    /// # Safety
    /// The whole warpgroup calls it; no other has these baselines.
    #[inline(always)]
    unsafe fn store<const WORDS: usize>(
        &self,
        origin: &TileOrigin,
        real: &[u32; WORDS],
        imaginary: &[u32; WORDS],
        row_sums: [u32; 2],
    ) {
        let warp = (opaque(thread()) - WARPGROUP) / 32;
        let patch = || self.shared.patches.at(self.pipeline.base, warp);
        // SAFETY: the caller's promise; every row has one part at the left edge.
        unsafe {
            store_sums::<S, Rows, WORDS>(self.p, origin, warp % 4, patch, real, imaginary, row_sums);
        }
    }

    /// The role of one thread: has the pair's tiles loaded, step by step, as the head of this file draws it.
    ///
    /// # Safety
    /// One thread of the block calls it.
    #[inline(always)]
    unsafe fn load_tiles(&self) {
        let Pipeline { base, .. } = self.pipeline;
        let rank = cluster_rank();
        let mut ring = Ring::START;
        // SAFETY: a stage is written when both blocks have read it: this one's barrier `empty` and the other's
        // arrival say so.
        unsafe {
            loop {
                let granted = |ring: &Ring| self.shared.granted.at(base, ring.stage);
                let mailbox = self.shared.mailbox.at(base, ring.stage);
                self.pipeline.wait_empty(&ring);
                let index = if rank == 0 {
                    let index = match take_tile(self.p) {
                        Some(tile) => tile,
                        None => END,
                    };
                    store_cluster(of_block(mailbox, 1), index);
                    index
                } else {
                    mbarrier_wait_cluster(granted(&ring), ring.parity);
                    load_shared(mailbox)
                };
                if index == END {
                    if rank == 0 {
                        mbarrier_arrive_cluster(of_block(granted(&ring), 1));
                    }
                    self.pipeline.announce(&ring, None);
                    self.pipeline.arrive_full(&ring);
                    return;
                }
                self.pipeline.announce(&ring, Some(index));
                let tile = self.tile(index);
                let mut byte = 0;
                while byte < self.p.row_bytes {
                    if byte > 0 {
                        self.pipeline.wait_empty(&ring);
                    }
                    let full = self.pipeline.barrier(self.pipeline.plan.full, &ring);
                    mbarrier_arrive_expect(full, tile.bytes());
                    mbarrier_arrive_cluster(of_block(granted(&ring), rank ^ 1));
                    self.load(&tile, rank, byte, &ring, full);
                    self.pipeline.advance(&mut ring);
                    byte += STEP_BYTES;
                }
            }
        }
    }

    /// Has a step brought: the block's rows, and its half of the columns to both blocks.
    ///
    /// # Safety
    /// The stage is empty here; the other block will say on `granted` that it is empty there. One thread.
    #[inline(always)]
    unsafe fn load(&self, tile: &PairTile, rank: u32, byte: u32, ring: &Ring, full: u32) {
        let PairTile { channel, first_row, first_column, .. } = *tile;
        let stage = self.pipeline.stage(ring);
        let granted = self.shared.granted.at(self.pipeline.base, ring.stage);
        // SAFETY: the caller's promise.
        unsafe {
            if tile.on_diagonal() {
                mbarrier_wait_cluster(granted, ring.parity);
                let start = [byte, first_row + TILE.rows * rank, channel];
                let at = stage + TILE.rows * rank * STEP_BYTES;
                copy_tensor_3d_multicast(at, self.p.rows, start, full, BOTH);
            } else {
                let start = [byte, first_row + TILE.rows * rank, channel];
                copy_tensor_3d(stage + TILE.columns_bytes(), self.p.rows, start, full);
                mbarrier_wait_cluster(granted, ring.parity);
                let half = TILE.columns / 2;
                let start = [byte, first_column + half * rank, channel];
                let at = stage + half * rank * STEP_BYTES;
                copy_tensor_3d_multicast(at, self.p.columns, start, full, BOTH);
            }
        }
    }
}

kernel! {
    /// int8 samples.
    fn correlate_wgmma_pair_s8(p: CorrelateWarpgroup) {
        correlate::<Int8>(&p)
    }
}

kernel! {
    /// Bits.
    fn correlate_wgmma_pair_b1(p: CorrelateWarpgroup) {
        correlate::<Bits>(&p)
    }
}
