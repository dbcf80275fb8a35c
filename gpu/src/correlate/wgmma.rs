//! The tensor-core correlator on Hopper's warpgroup instructions (`wgmma`, sm_90a).
//!
//! ```text
//! a  = (re, im, ...)    of a row, b = (re', im', ...) of a column
//! a* = (im, -re, ...)   its turn, made in registers from the fragment of a
//! a  . b = sum re re' + im im' = real part
//! a* . b = sum im re' - re im' = imaginary part
//! ```
//!
//! [`Samples`] says how the turn is exact for every byte. What it leaves out is the same for a whole
//! column, the sum of its imaginary parts: the tiles at the left edge sum those of their rows, and
//! [`super::widen`] or the host puts the imaginary parts right once.
//!
//! A block is persistent: it takes the next tile of baselines when it has done one, those of one
//! channel together so that its samples are read from the L2 cache. Its warpgroups have roles:
//!
//! - the first stages: one thread has the copy engine bring panels of rows and columns, 128 bytes of
//!   time a step, several steps ahead; its other warps turn samples that come as packets deliver them
//!   ([`super::feed`]);
//! - the others multiply 64 rows each: fragments of `a` by `ldmatrix`, `a*` from them, and both
//!   against the column panel as it lies in shared memory.
//!
//! Bound by the tensor cores: a step of a 64 x 192 part takes 8 `wgmma` of 96 cycles. Beside them
//! shared memory is the busiest: `wgmma` reads columns at half its rate, whatever the tile. The sums
//! take 192 of a thread's registers, which is what limits the tile. While one warpgroup prepares its
//! fragments or writes its sums, the other multiplies. Near the diagonal a warpgroup multiplies only
//! as many columns, in whole 64s, as lie on or left of it, and one panel serves as rows and columns.
//!
//! Tried and lost: leaving the last multiplications of a step under way over the next step's barrier
//! (1161 against 1157 useful TOPS). Writing visibilities straight from the registers, 16 bytes a lane,
//! took a fifth of the time: sectors were written in parts. Summing the columns beside, by the other
//! warps of the staging warpgroup: 2 to 10 % of the time, as shared memory was read once more. Tiles
//! dealt out in turn: blocks on the diagonal ran ahead of the others, out of step in the L2 cache.

use core::ops::ControlFlow::Continue;

use crate::{
    abi::correlate::{
        CorrelateWarpgroup, PATCH_BYTES, STEP_BYTES, TILE_128_128, TILE_128_192, WarpgroupTile,
        mode,
    },
    correlate::{
        feed::{Delivered, Feed, Panels, Rows},
        patch,
        samples::{Half, Int8, Samples},
        warpgroup::{Place, Ring, WARPGROUP, announce, corner, hear, take_tile},
    },
    isa::{
        common::{
            barrier, dynamic_shared, lane, opaque, read_global, shfl_xor, store_global, thread,
        },
        sm_90a::{
            fence_barrier_init, fence_proxy_async, give_registers, mbarrier_arrive,
            mbarrier_arrive_expect, mbarrier_init, mbarrier_wait, multiply_delivered_ci4_64,
            multiply_delivered_ci4_128, multiply_delivered_ci4_192, multiply_delivered_s8_64,
            multiply_delivered_s8_128, multiply_delivered_s8_192, multiply_f16_64,
            multiply_f16_128, multiply_f16_192, multiply_s8_64, multiply_s8_128, multiply_s8_192,
            operand, take_registers,
        },
    },
};

/// A sample type on `wgmma`, with tiles of `2 * WORDS` columns and rows as the feed leaves them.
trait Multiply<F: Feed, const WORDS: usize>: Samples {
    /// A step of 64 rows by the columns that `b` describes.
    ///
    /// # Safety
    /// As [`multiply_s8_192`]'s.
    unsafe fn multiply(
        sums: &mut [u32; WORDS],
        turned_sums: &mut [u32; WORDS],
        row_sums: &mut [u32; 2],
        row: u32,
        b: u64,
        zero: u32,
    );
}

macro_rules! multiply {
    ($($samples:ty, $feed:ty, $words:literal: $step:ident($($zero:ident)?);)*) => {$(
        impl Multiply<$feed, $words> for $samples {
            #[inline(always)]
            unsafe fn multiply(
                sums: &mut [u32; $words],
                turned_sums: &mut [u32; $words],
                row_sums: &mut [u32; 2],
                row: u32,
                b: u64,
                _zero: u32,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    multiply!(@$step $(, $zero)?; sums, turned_sums, row_sums, row, b; _zero)
                }
            }
        }
    )*};
    (@$step:ident; $($argument:expr),*; $_unused:expr) => { $step($($argument),*) };
    (@$step:ident, zero; $($argument:expr),*; $zero:expr) => { $step($($argument),*, $zero) };
}

multiply! {
    Int8, Rows, 32: multiply_s8_64();
    Int8, Rows, 64: multiply_s8_128();
    Int8, Rows, 96: multiply_s8_192();
    Int8, Delivered<2>, 32: multiply_delivered_s8_64();
    Int8, Delivered<2>, 64: multiply_delivered_s8_128();
    Int8, Delivered<2>, 96: multiply_delivered_s8_192();
    Int8, Delivered<1>, 32: multiply_delivered_ci4_64(zero);
    Int8, Delivered<1>, 64: multiply_delivered_ci4_128(zero);
    Int8, Delivered<1>, 96: multiply_delivered_ci4_192(zero);
    Half, Rows, 32: multiply_f16_64();
    Half, Rows, 64: multiply_f16_128();
    Half, Rows, 96: multiply_f16_192();
    Half, Delivered<4>, 32: multiply_f16_64();
    Half, Delivered<4>, 64: multiply_f16_128();
    Half, Delivered<4>, 96: multiply_f16_192();
}

/// A sample type on `wgmma`, with parts of 64, 128 and 192 columns.
trait Parts<F: Feed>: Multiply<F, 32> + Multiply<F, 64> + Multiply<F, 96> {}

impl<F: Feed, S: Multiply<F, 32> + Multiply<F, 64> + Multiply<F, 96>> Parts<F> for S {}

/// Warps that turn delivered samples: those of the staging warpgroup that have nothing else to do.
const TURNING_WARPS: u32 = WARPGROUP / 32 - 1;

/// Addresses in shared memory.
#[derive(Clone, Copy)]
struct Shared {
    base: u32,
    shape: WarpgroupTile,
}

impl Shared {
    /// Panel of columns of a stage.
    #[inline(always)]
    fn columns(self, stage: u32) -> u32 {
        self.base + stage * self.shape.stage_bytes()
    }

    /// Patch of a warp that multiplies.
    #[inline(always)]
    fn patch(self, warp: u32) -> u32 {
        self.columns(self.shape.stages) + warp * PATCH_BYTES
    }

    /// Barrier of a stage that holds samples.
    #[inline(always)]
    fn full(self, stage: u32) -> u32 {
        self.patch(self.shape.rows / 16) + 8 * stage
    }

    /// Barrier of a stage that may be written.
    #[inline(always)]
    fn empty(self, stage: u32) -> u32 {
        self.full(self.shape.stages + stage)
    }

    /// Barrier of a stage whose samples were turned.
    #[inline(always)]
    fn turned(self, stage: u32) -> u32 {
        self.full(2 * self.shape.stages + stage)
    }

    /// Barrier of a stage that may be multiplied.
    #[inline(always)]
    fn ready<F: Feed>(self, stage: u32) -> u32 {
        if F::TURNS { self.turned(stage) } else { self.full(stage) }
    }

    /// Word of a stage that says which tile begins there.
    #[inline(always)]
    fn tile(self, stage: u32) -> u32 {
        self.full(3 * self.shape.stages) + 4 * stage
    }
}

/// The whole of a block's work.
///
/// # Safety
/// As the kernels'.
#[inline(always)]
unsafe fn correlate<
    S: Parts<F>,
    F: Feed,
    const STAGING_REGISTERS: u32,
    const MULTIPLYING_REGISTERS: u32,
>(
    p: &CorrelateWarpgroup,
    shape: WarpgroupTile,
) {
    let shared = Shared { base: dynamic_shared(), shape };
    // SAFETY: the addresses lie in the block's shared memory, and every role below keeps to the
    // barriers.
    unsafe {
        if thread() == 0 {
            // Every thread arrives by itself: no slower than a lane for its warp, and what one lane's arrival
            // says of the others compute-sanitizer does not see.
            let mut stage = 0;
            while stage < shape.stages {
                mbarrier_init(shared.full(stage), 1);
                mbarrier_init(shared.empty(stage), 2 * shape.rows);
                mbarrier_init(shared.turned(stage), 32 * TURNING_WARPS);
                stage += 1;
            }
            fence_barrier_init();
        }
        barrier();
        if thread() < WARPGROUP {
            give_registers::<STAGING_REGISTERS>();
            if thread() == 0 {
                stage_tiles::<F>(p, shape, shared);
            } else if F::TURNS && thread() >= 32 {
                turn_tiles::<F>(p, shape, shared);
            }
        } else {
            take_registers::<MULTIPLYING_REGISTERS>();
            multiply_tiles::<S, F>(p, shape, shared);
        }
    }
}

/// One thread: has the copy engine bring the panels of the block's tiles.
#[inline(always)]
unsafe fn stage_tiles<F: Feed>(p: &CorrelateWarpgroup, shape: WarpgroupTile, shared: Shared) {
    let mut ring = Ring::START;
    // SAFETY: a stage is written when it was read by all, as its barrier says.
    unsafe {
        while let Some(index) = take_tile(p) {
            let tile = Place::of(p, shape, index);
            let mut byte = 0;
            while byte < p.row_bytes {
                let full = shared.full(ring.stage);
                mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
                if byte == 0 {
                    announce(shared.tile(ring.stage), Some(index));
                }
                let panels = Panels { at: shared.columns(ring.stage), shape, tile: &tile };
                mbarrier_arrive_expect(full, panels.inputs() * F::INPUT_BYTES);
                F::bring(p, panels, byte, full);
                ring.advance(shape.stages);
                byte += STEP_BYTES;
            }
        }
        mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
        announce(shared.tile(ring.stage), None);
        mbarrier_arrive(shared.full(ring.stage));
    }
}

/// A warp that turns what the copy engine brought of all of the block's tiles.
#[inline(always)]
unsafe fn turn_tiles<F: Feed>(p: &CorrelateWarpgroup, shape: WarpgroupTile, shared: Shared) {
    let mut ring = Ring::START;
    let warp = thread() / 32 - 1;
    // SAFETY: the barriers are the block's; the warps share the panels.
    unsafe {
        while let Continue(index) =
            hear(shared.full(ring.stage), ring.parity, shared.tile(ring.stage))
        {
            let tile = &Place::of(p, shape, index);
            let mut byte = 0;
            while byte < p.row_bytes {
                mbarrier_wait(shared.full(ring.stage), ring.parity);
                let panels = Panels { at: shared.columns(ring.stage), shape, tile };
                F::turn(p, panels, byte, warp, TURNING_WARPS);
                fence_proxy_async();
                mbarrier_arrive(shared.turned(ring.stage));
                ring.advance(shape.stages);
                byte += STEP_BYTES;
            }
        }
        mbarrier_arrive(shared.turned(ring.stage));
    }
}

/// A warpgroup: multiplies its 64 rows of all of the block's tiles.
#[inline(always)]
unsafe fn multiply_tiles<S: Parts<F>, F: Feed>(
    p: &CorrelateWarpgroup,
    shape: WarpgroupTile,
    shared: Shared,
) {
    let mut ring = Ring::START;
    // First row of the warpgroup in the tile.
    let group_row = (thread() - WARPGROUP) / WARPGROUP * 64;
    // SAFETY: the barriers are the block's; the number of columns is the warpgroup's.
    unsafe {
        while let Continue(index) =
            hear(shared.ready::<F>(ring.stage), ring.parity, shared.tile(ring.stage))
        {
            let tile = Place::of(p, shape, index);
            let part = Part { p, shape, shared, index };
            // Columns of the tile that lie on or left of the diagonal for the last of the rows.
            let first_row = tile.first_row + group_row;
            let columns = (first_row + 64).saturating_sub(tile.first_column);
            if first_row >= p.inputs || columns == 0 {
                part.skip::<F>(&mut ring);
            } else if columns <= 64 {
                part.multiply::<S, F, 32>(&mut ring, &tile);
            } else if columns <= 128 || shape.columns == 128 {
                part.multiply::<S, F, 64>(&mut ring, &tile);
            } else {
                part.multiply::<S, F, 96>(&mut ring, &tile);
            }
        }
    }
}

/// A warpgroup's part of a tile.
struct Part<'a> {
    p: &'a CorrelateWarpgroup,
    shape: WarpgroupTile,
    shared: Shared,
    index: u32,
}

impl Part<'_> {
    /// Lets the tile's stages pass.
    #[inline(always)]
    unsafe fn skip<F: Feed>(&self, ring: &mut Ring) {
        let mut byte = 0;
        while byte < self.p.row_bytes {
            // SAFETY: the block's barriers.
            unsafe {
                mbarrier_wait(self.shared.ready::<F>(ring.stage), ring.parity);
                mbarrier_arrive(self.shared.empty(ring.stage));
            }
            ring.advance(self.shape.stages);
            byte += STEP_BYTES;
        }
    }

    /// Multiplies the warpgroup's rows by the first `2 * WORDS` columns, and writes the visibilities.
    #[inline(always)]
    unsafe fn multiply<S: Multiply<F, WORDS>, F: Feed, const WORDS: usize>(
        &self,
        ring: &mut Ring,
        tile: &Place,
    ) {
        let Self { p, shape, shared, index } = *self;
        let warp = (thread() - WARPGROUP) / 32;
        let rows = F::row_address(Panels { at: 0, shape, tile }, 16 * warp);
        let (mut sums, mut turned_sums, mut row_sums) = ([0; WORDS], [0; WORDS], [0; 2]);
        let mut byte = 0;
        while byte < p.row_bytes {
            let stage = ring.stage;
            // SAFETY: the stage holds samples, as its barrier says.
            unsafe {
                if F::TURNS {
                    // What the copy engine wrote is visible to who waits for its barrier.
                    mbarrier_wait(shared.full(stage), ring.parity);
                }
                mbarrier_wait(shared.ready::<F>(stage), ring.parity);
                let columns = shared.columns(stage);
                let (row, b) = (columns + rows, operand(columns));
                S::multiply(&mut sums, &mut turned_sums, &mut row_sums, row, b, p.zero);
                mbarrier_arrive(shared.empty(stage));
            }
            ring.advance(shape.stages);
            byte += STEP_BYTES;
        }
        // Found again, as registers are scarce above: where the tile is, and who this is.
        let tile = &Place::of(p, shape, opaque(index));
        let warp = (opaque(thread()) - WARPGROUP) / 32;
        // SAFETY: no other warp has these baselines; every row has one tile at the left edge.
        unsafe {
            if S::SUMS && tile.first_column == 0 {
                self.store_row_sums::<F>(tile, warp, row_sums);
            }
            let scaled =
                |sum: u32| if F::SCALE == 0 { sum } else { (sum as i32 >> (2 * F::SCALE)) as u32 };
            let value = |word: usize| [scaled(sums[word]), scaled(turned_sums[word])];
            let (corner, patch) = (&corner(p, tile, warp), shared.patch(warp));
            match WORDS {
                32 => patch::store_rows::<64>(corner, patch, F::row, value, S::add),
                64 => patch::store_rows::<128>(corner, patch, F::row, value, S::add),
                _ => patch::store_rows::<192>(corner, patch, F::row, value, S::add),
            }
        }
    }

    /// Writes the sums of the imaginary parts of a warp's rows, of which four lanes have a share.
    ///
    /// # Safety
    /// The whole warp calls it, and no other warp of the launch for these rows.
    #[inline(always)]
    unsafe fn store_row_sums<F: Feed>(&self, tile: &Place, warp: u32, row_sums: [u32; 2]) {
        let p = self.p;
        for half in 0..2 {
            let mut sum = row_sums[half];
            sum = sum.wrapping_add(shfl_xor::<1>(sum));
            sum = sum.wrapping_add(shfl_xor::<2>(sum));
            if F::SCALE > 0 {
                // Rows hold zero bytes past the last time: samples that are 8 too small, if that is how
                // they are encoded.
                let past = p.row_bytes.wrapping_neg() % STEP_BYTES / 2;
                let lacking = past * (p.zero & 8);
                sum = ((sum as i32 >> F::SCALE) as u32).wrapping_add(lacking);
            }
            let lane = opaque(lane());
            let row = tile.first_row + 16 * warp + F::row(half as u32, lane / 4);
            if row < p.inputs && lane.is_multiple_of(4) {
                let address = p.row_sums + 4 * (tile.channel as u64 * p.inputs as u64 + row as u64);
                // SAFETY: the input's sum, this lane's alone.
                unsafe {
                    if p.mode == mode::ADD {
                        sum = sum.wrapping_add(read_global(address));
                    }
                    store_global(address, sum);
                }
            }
        }
    }
}

/// The kernels: a name, its samples, its tile.
macro_rules! correlators {
    ($($(#[$attribute:meta])* $name:ident: $samples:ty, $feed:ty, $tile:ident;)*) => {$(
        kernel! {
            $(#[$attribute])*
            fn $name(p: CorrelateWarpgroup) {
                correlate::<
                    $samples,
                    $feed,
                    { $tile.registers.0 },
                    { $tile.registers.1 },
                >(&p, $tile)
            }
        }
    )*};
}

correlators! {
    /// int8, tiles of 128 x 192 baselines.
    correlate_wgmma_s8_192: Int8, Rows, TILE_128_192;
    /// int8, tiles of 128 x 128 baselines.
    correlate_wgmma_s8_128: Int8, Rows, TILE_128_128;
    /// Half precision, tiles of 128 x 192 baselines.
    correlate_wgmma_f16_192: Half, Rows, TILE_128_192;
    /// Half precision, tiles of 128 x 128 baselines.
    correlate_wgmma_f16_128: Half, Rows, TILE_128_128;
    /// `ci8` as delivered, tiles of 128 x 192 baselines.
    correlate_wgmma_tcn_s8_192: Int8, Delivered<2>, TILE_128_192;
    /// `ci8` as delivered, tiles of 128 x 128 baselines.
    correlate_wgmma_tcn_s8_128: Int8, Delivered<2>, TILE_128_128;
    /// `ci4` and `ci4-offset` as delivered, tiles of 128 x 128 baselines.
    correlate_wgmma_tcn_ci4_128: Int8, Delivered<1>, TILE_128_128;
    /// `cf16` as delivered, tiles of 128 x 128 baselines.
    correlate_wgmma_tcn_f16_128: Half, Delivered<4>, TILE_128_128;
}
