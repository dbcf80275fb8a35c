//! The tensor-core correlator of 4-bit samples on Hopper: three products instead of four.
//!
//! ```text
//! a + ib of a row, c + id of a column
//! P = sum a c,   Q = sum b d,   R = sum (a + b)(c - d)
//! real part      sum ac + bd = P + Q
//! imaginary part sum bc - ad = R - P + Q
//! ```
//!
//! 16 a, 16 b, 8 (a + b), 16 c, 16 d and 8 (c - d) are int8, so that the int8 tensor cores give a complex
//! product for three real ones: 4/3 of what their peak counts as. The factors save instructions: a
//! nibble at the top of a byte has its sign where a byte has. What they add is taken off at the end. The
//! idea is Gauss's; with packed integers it is that of Klages et al., "GPU Kernels for High-Speed 4-Bit
//! Astrophysical Data Processing": samples of few bits leave room for arithmetic before the
//! multiplication.
//!
//! Blocks take tiles as in [`super::wgmma`]. A step is 128 times, a byte each. Its warpgroups:
//!
//! - the first unpacks: one of its threads has the copy engine bring the bytes of rows and columns, a
//!   step ahead, and all store the planes of the columns, 16 c, 16 d and 8 (c - d), as panels;
//! - the others multiply 64 rows each: fragments of the rows' bytes by `ldmatrix`, in registers
//!   unpacked to 16 a, 16 b and 8 (a + b), against the planes.
//!
//! A step's bytes wait in one of three slots, as rows are read till it is multiplied; its planes in one
//! of two.
//!
//! Bound by the tensor cores, 12 `wgmma` of 64 cycles for a step of a 64 x 128 part, and nearly as much
//! by shared memory, of whose 128 bytes a cycle they read 64; writing planes takes 32, rows and columns
//! 21 each.
//!
//! On an H200 the tensor cores are busy 48 % of the time (ncu), and nothing else is busier than 49 %: what
//! holds it up is not yet known. A thread has two fragments, one unpacked while the other multiplies.
//!
//! Tried and lost: columns brought by the threads that unpack them, to registers or by `cp.async`: 1199
//! and 1198 useful TOPS against 1179 at N = 2048, but 8 to 12 % less at fewer inputs.

use core::ops::ControlFlow::Continue;

use crate::{
    abi::correlate::{
        CI4_PLANES, CI4_SETS, CorrelateWarpgroup, PATCH_BYTES, STEP_BYTES, TILE_CI4, WarpgroupTile,
    },
    correlate::warpgroup::{Place, Ring, WARPGROUP, announce, hear, release, store, take_tile},
    isa::{
        common::{barrier, dynamic_shared, load_shared_4, opaque, store_shared_4, thread},
        sm_90a::{
            copy_tensor_3d, fence_barrier_init, fence_proxy_async, give_registers, mbarrier_arrive,
            mbarrier_arrive_expect, mbarrier_init, mbarrier_wait, multiply_nibbles_64,
            multiply_nibbles_128, operand, take_registers,
        },
    },
    tile::panel,
};

/// Rows of columns whose chunks the warpgroup unpacks at a time.
const CHUNK_ROWS: u32 = WARPGROUP / panel::CHUNKS;
/// Chunks of a thread in a step.
const CHUNKS: u32 = TILE_CI4.columns / CHUNK_ROWS;
/// Chunks that a thread unpacks together.
const TOGETHER: usize = 2;
/// Sets of planes.
const SETS: u32 = CI4_SETS;

/// Addresses in shared memory.
#[derive(Clone, Copy)]
struct Shared {
    base: u32,
    shape: WarpgroupTile,
}

impl Shared {
    /// Panel of the columns' bytes in a slot.
    #[inline(always)]
    fn columns(self, slot: u32) -> u32 {
        self.base + slot * self.shape.stage_bytes()
    }

    /// Where in a slot the panel of the rows' bytes is: beside the columns, or these on the diagonal.
    #[inline(always)]
    fn rows(self, tile: &Place) -> u32 {
        if tile.first_row == tile.first_column { 0 } else { self.shape.columns * STEP_BYTES }
    }

    /// First of the planes of a set: 16 c, 16 d, 8 (c - d).
    #[inline(always)]
    fn planes(self, set: u32) -> u32 {
        self.columns(self.shape.stages) + set * CI4_PLANES * self.shape.columns * STEP_BYTES
    }

    /// Patch of a warp that multiplies.
    #[inline(always)]
    fn patch(self, warp: u32) -> u32 {
        self.planes(SETS) + warp * PATCH_BYTES
    }

    /// Barrier of a slot that holds bytes.
    #[inline(always)]
    fn brought(self, slot: u32) -> u32 {
        self.patch(self.shape.rows / 16) + 8 * slot
    }

    /// Barrier of a set of planes that is complete.
    #[inline(always)]
    fn full(self, set: u32) -> u32 {
        self.brought(self.shape.stages + set)
    }

    /// Barrier of a set of planes that was multiplied, and the rows with it.
    #[inline(always)]
    fn empty(self, set: u32) -> u32 {
        self.full(SETS + set)
    }

    /// Word of a slot that says which tile begins there.
    #[inline(always)]
    fn tile(self, slot: u32) -> u32 {
        self.empty(SETS) + 4 * slot
    }
}

/// The whole of a block's work.
///
/// # Safety
/// As the kernels'.
#[inline(always)]
unsafe fn correlate<const STAGING_REGISTERS: u32, const MULTIPLYING_REGISTERS: u32>(
    p: &CorrelateWarpgroup,
    shape: WarpgroupTile,
) {
    let shared = Shared { base: dynamic_shared(), shape };
    // SAFETY: the addresses lie in the block's shared memory, and every role below keeps to the
    // barriers.
    unsafe {
        if thread() == 0 {
            let mut slot = 0;
            while slot < shape.stages {
                mbarrier_init(shared.brought(slot), 1);
                slot += 1;
            }
            for set in 0..SETS {
                mbarrier_init(shared.full(set), WARPGROUP);
                mbarrier_init(shared.empty(set), shape.rows / 16);
            }
            fence_barrier_init();
        }
        barrier();
        if thread() < WARPGROUP {
            give_registers::<STAGING_REGISTERS>();
            unpack_tiles(p, shape, shared);
        } else {
            take_registers::<MULTIPLYING_REGISTERS>();
            multiply_tiles(p, shape, shared);
        }
    }
}

/// The one thread that has bytes brought: where it stands, a step ahead of those that unpack.
struct Bringer<'a> {
    p: &'a CorrelateWarpgroup,
    shape: WarpgroupTile,
    shared: Shared,
    /// The tile that steps are brought of, none at the end.
    index: Option<u32>,
    /// Where the next step begins.
    byte: u32,
}

impl Bringer<'_> {
    /// Has the next step brought to `slot`, or says there that no tile is left.
    ///
    /// # Safety
    /// The slot was read by all.
    #[inline(always)]
    unsafe fn bring(&mut self, slot: u32) {
        let Self { p, shape, shared, .. } = *self;
        let (brought, word) = (shared.brought(slot), shared.tile(slot));
        // SAFETY: the caller's promise; the panels are the slot's.
        unsafe {
            if self.byte >= p.row_bytes {
                (self.index, self.byte) = (take_tile(p), 0);
            }
            if self.byte == 0 {
                announce(word, self.index);
            }
            let Some(index) = self.index else {
                mbarrier_arrive(brought);
                return;
            };
            let tile = Place::of(p, shape, index);
            let rows = shared.rows(&tile);
            let panels = if rows == 0 { shape.columns } else { shape.columns + shape.rows };
            mbarrier_arrive_expect(brought, panels * STEP_BYTES);
            let from = [self.byte, tile.first_column, tile.channel];
            copy_tensor_3d(shared.columns(slot), p.columns, from, brought);
            if rows != 0 {
                let from = [self.byte, tile.first_row, tile.channel];
                copy_tensor_3d(shared.columns(slot) + rows, p.rows, from, brought);
            }
            self.byte += STEP_BYTES;
        }
    }
}

/// Four samples of a column to four bytes of each of the planes 16 c, 16 d, 8 (c - d).
///
/// Differences are made of nibbles that are 8 too large, and put 0 at 0x80: none leaves its byte.
#[inline(always)]
fn unpack(bytes: u32, sign: u32) -> [u32; 3] {
    const SIGNS: u32 = 0x8080_8080;
    let excess = (sign ^ SIGNS) >> 1;
    let c = bytes & 0xf0f0_f0f0 ^ sign;
    let d = bytes << 4 & 0xf0f0_f0f0 ^ sign;
    let high = bytes >> 1 & 0x7878_7878 ^ excess;
    let low = bytes << 3 & 0x7878_7878 ^ excess;
    [c, d, high.wrapping_add(SIGNS).wrapping_sub(low) ^ SIGNS]
}

/// The first warpgroup: makes the planes of the columns of the block's tiles.
#[inline(always)]
unsafe fn unpack_tiles(p: &CorrelateWarpgroup, shape: WarpgroupTile, shared: Shared) {
    let (mut slots, mut sets) = (Ring::START, Ring::START);
    let sign = p.zero & 0x8080_8080;
    // A thread's chunks are the same of every 16th row, and lie at the same places there.
    let chunk = thread() % panel::CHUNKS;
    let place = panel::offset(thread() / panel::CHUNKS, chunk);
    // SAFETY: slots and planes are written when they were read by all, as the barriers say.
    unsafe {
        let mut bringer = Bringer { p, shape, shared, index: None, byte: p.row_bytes };
        if thread() == 0 {
            bringer.bring(0);
        }
        while let Continue(_) =
            hear(shared.brought(slots.stage), slots.parity, shared.tile(slots.stage))
        {
            let mut byte = 0;
            while byte < p.row_bytes {
                mbarrier_wait(shared.empty(sets.stage), sets.parity ^ 1);
                if thread() == 0 {
                    // The step before the last was multiplied: its slot is free.
                    let next = slots.stage + 1;
                    bringer.bring(if next == shape.stages { 0 } else { next });
                }
                mbarrier_wait(shared.brought(slots.stage), slots.parity);
                let columns = shared.columns(slots.stage) + place;
                let planes = shared.planes(sets.stage) + place;
                let there = byte + chunk * panel::CHUNK < p.row_bytes;
                for round in 0..CHUNKS / TOGETHER as u32 {
                    let row = |chunk: usize| {
                        (round * TOGETHER as u32 + chunk as u32) * CHUNK_ROWS * STEP_BYTES
                    };
                    let mut chunks = [[p.zero; 4]; TOGETHER];
                    if there {
                        for chunk in 0..TOGETHER {
                            chunks[chunk] = load_shared_4(columns + row(chunk));
                        }
                    }
                    for chunk in 0..TOGETHER {
                        let [a, b, c, d] = chunks[chunk].map(|bytes| unpack(bytes, sign));
                        for plane in 0..3 {
                            let panel = plane as u32 * shape.columns * STEP_BYTES;
                            let words = [a[plane], b[plane], c[plane], d[plane]];
                            store_shared_4(planes + panel + row(chunk), words);
                        }
                    }
                }
                fence_proxy_async();
                mbarrier_arrive(shared.full(sets.stage));
                slots.advance(shape.stages);
                sets.advance(SETS);
                byte += STEP_BYTES;
            }
        }
    }
}

/// A warpgroup: multiplies its 64 rows of all of the block's tiles.
#[inline(always)]
unsafe fn multiply_tiles(p: &CorrelateWarpgroup, shape: WarpgroupTile, shared: Shared) {
    let mut rings = Rings { slots: Ring::START, sets: Ring::START };
    // First row of the warpgroup in the tile.
    let group_row = (thread() - WARPGROUP) / WARPGROUP * 64;
    // SAFETY: the barriers are the block's; the number of columns is the warpgroup's.
    unsafe {
        while let Continue(index) = hear(
            shared.brought(rings.slots.stage),
            rings.slots.parity,
            shared.tile(rings.slots.stage),
        ) {
            let tile = Place::of(p, shape, index);
            // Columns of the tile that lie on or left of the diagonal for the last of the rows.
            let first_row = tile.first_row + group_row;
            let columns = (first_row + 64).saturating_sub(tile.first_column);
            if first_row >= p.inputs || columns == 0 {
                skip(p, shared, &mut rings);
            } else if columns <= 64 {
                multiply::<32>(p, shared, &mut rings, index);
            } else {
                multiply::<64>(p, shared, &mut rings, index);
            }
        }
    }
}

/// Positions in the rings of slots and of planes.
struct Rings {
    slots: Ring,
    sets: Ring,
}

impl Rings {
    /// Waits for a step.
    ///
    /// # Safety
    /// The barriers are the block's.
    #[inline(always)]
    unsafe fn wait(&self, shared: Shared) {
        // SAFETY: the caller's promise.
        unsafe {
            mbarrier_wait(shared.brought(self.slots.stage), self.slots.parity);
            mbarrier_wait(shared.full(self.sets.stage), self.sets.parity);
        }
    }

    /// Has done with a step.
    ///
    /// # Safety
    /// The whole warp calls it.
    #[inline(always)]
    unsafe fn pass(&mut self, shared: Shared) {
        // SAFETY: the caller's promise.
        unsafe { release(shared.empty(self.sets.stage)) };
        self.slots.advance(shared.shape.stages);
        self.sets.advance(SETS);
    }
}

/// Lets a tile's steps pass.
#[inline(always)]
unsafe fn skip(p: &CorrelateWarpgroup, shared: Shared, rings: &mut Rings) {
    let mut byte = 0;
    while byte < p.row_bytes {
        // SAFETY: the block's barriers.
        unsafe {
            rings.wait(shared);
            rings.pass(shared);
        }
        byte += STEP_BYTES;
    }
}

/// Sums P, Q, R of a thread in parts of `2 * WORDS` columns.
struct Sums<const WORDS: usize>([[u32; WORDS]; 3]);

/// A step of the multiplication.
trait Multiply {
    /// # Safety
    /// As [`multiply_nibbles_128`]'s.
    unsafe fn multiply(&mut self, row: u32, b: u64, sign: u32);
}

impl Multiply for Sums<32> {
    #[inline(always)]
    unsafe fn multiply(&mut self, row: u32, b: u64, sign: u32) {
        // SAFETY: the caller's promise.
        unsafe { multiply_nibbles_64(&mut self.0, row, b, sign) }
    }
}

impl Multiply for Sums<64> {
    #[inline(always)]
    unsafe fn multiply(&mut self, row: u32, b: u64, sign: u32) {
        // SAFETY: the caller's promise.
        unsafe { multiply_nibbles_128(&mut self.0, row, b, sign) }
    }
}

/// Multiplies the warpgroup's rows of tile `index` by the first `2 * WORDS` columns, and writes the
/// visibilities.
#[inline(always)]
unsafe fn multiply<const WORDS: usize>(
    p: &CorrelateWarpgroup,
    shared: Shared,
    rings: &mut Rings,
    index: u32,
) where
    Sums<WORDS>: Multiply,
{
    let shape = shared.shape;
    let rows = shared.rows(&Place::of(p, shape, index));
    let rows = panel::ldmatrix_address(rows, 16 * ((thread() - WARPGROUP) / 32), 0);
    let mut sums = Sums([[0; WORDS]; 3]);
    let mut byte = 0;
    // There is a step at least: a loop that may not run would hold zeros beside the sums.
    loop {
        // SAFETY: the slot and the planes are complete, as their barriers say.
        unsafe {
            rings.wait(shared);
            let planes = operand(shared.planes(rings.sets.stage));
            let rows = shared.columns(rings.slots.stage) + rows;
            sums.multiply(rows, planes, p.zero & 0x8080_8080);
            rings.pass(shared);
        }
        byte += STEP_BYTES;
        if byte >= p.row_bytes {
            break;
        }
    }
    // Found again, as registers are scarce above: where the tile is, and who this is.
    let tile = &Place::of(p, shape, opaque(index));
    let warp = (opaque(thread()) - WARPGROUP) / 32;
    let [ac, bd, differences] = &sums.0;
    // 256 P, 256 Q, 64 R: their sums stay below 2^31 in as many times as those of int8.
    let value = |word: usize| {
        let (p, q, r) = (ac[word] as i32, bd[word] as i32, differences[word] as i32);
        let (real, imaginary) = (p.wrapping_add(q) >> 8, (r >> 6) + (q.wrapping_sub(p) >> 8));
        [real as u32, imaginary as u32]
    };
    // SAFETY: no other warp has these baselines.
    unsafe {
        if WORDS == 32 {
            store::<64>(p, tile, warp, shared.patch(warp), value, u32::wrapping_add);
        } else {
            store::<128>(p, tile, warp, shared.patch(warp), value, u32::wrapping_add);
        }
    }
}

kernel! {
    /// 4-bit samples as three products, tiles of 128 x 128 baselines.
    fn correlate_wgmma_ci4(p: CorrelateWarpgroup) {
        correlate::<{ TILE_CI4.registers.0 }, { TILE_CI4.registers.1 }>(&p, TILE_CI4)
    }
}
