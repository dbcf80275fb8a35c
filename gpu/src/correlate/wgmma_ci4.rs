//! The tensor-core correlator of 4-bit samples on Hopper: three products instead of four.
//!
//! ```text
//! a + ib of a row, c + id of a column
//! P = sum 16 a * 16 c,   Q = sum 16 b * 16 d,   V = sum (16 a - b)(16 c + d)
//! real part      sum ac + bd = (P + Q) / 256
//! imaginary part sum bc - ad = (P - Q / 256 - V) / 16
//! ```
//!
//! All factors are bytes, so that the int8 tensor cores give a complex product for three real ones: 4/3
//! of their nominal peak. The idea is Gauss's, applied to packed integers by Klages et al., "GPU Kernels for
//! High-Speed 4-Bit Astrophysical Data Processing": samples of few bits leave room for arithmetic before the
//! multiplication.
//!
//! The products are chosen for their operands. A sample of excess-8 nibbles is a byte
//! `16 (c + 8) + d + 8`: `16 c + d` with a bias of 136, which a product takes as it lies in memory. Its lower
//! nibble complemented, it is `16 a - b` with a bias of 135. A nibble at the top of a byte, its sign flipped,
//! is 16 times its value: P and Q have no bias. That of V is undone by the sums of both
//! factors:
//!
//! ```text
//! V = sum v w - 136 sum v - 135 sum w + 135 * 136 T,   v = 16 a - b + 135, w = 16 c + d + 136
//! ```
//!
//! Blocks take tiles as in [`super::wgmma`]. A step is 128 times, a byte each. Its warpgroups:
//!
//! - the first and the last unpack: one of their threads has TMA bring the bytes of rows and
//!   columns, and all store the planes of the columns, 16 c and 16 d, and sum w. Nibbles in two's
//!   complement are made excess-8 where they lie;
//! - the others multiply 64 rows each: fragments of the rows' bytes by `ldmatrix`, from which they make
//!   v, 16 a and 16 b in registers and sum v.
//!
//! ```text
//! a stage: four panels of 128 inputs by 128 times, 16 KiB each            sample byte of input i at time t
//!
//!  0 columns   w = 16 (c + 8) + d + 8   u8     <- TMA, excess-8 in place    i  |chunk 0|chunk 1| ... |chunk 7|
//!  1 rows      bytes as they are               <- TMA; on the diagonal                16 times each, chunk c of
//!                                                 the columns serve             input i at place c ^ i % 8
//!  2 plane     16 c                     int8   <- unpacked from 0
//!  3 plane     16 d                     int8   <- unpacked from 0
//!
//!  unpacking: thread i of the first warpgroup takes chunks 0-3 of column i, of the last one chunks 4-7
//!  multiplying, of a fragment x of 16 rows by 32 times:    v = x ^ 0x0f  by 0  -> V,  sum v
//!                                                          p = high(x)   by 2  -> P
//!                                                          q = low(x)    by 3  -> Q
//! ```
//!
//! Bound by the tensor cores: a step takes 24 `wgmma` of 64 cycles. Beside them shared memory is the
//! busiest: `wgmma` reads columns at half its rate, and unpacking reads and writes a third as much again.
//! Unpacking must save instructions: a warpgroup that multiplies and one that unpacks share
//! schedulers, and where planes come late the tensor cores wait.
//!
//! No unit is busy all the time, as warpgroups wait for stages: unpacking ones for copies, multiplying ones for
//! planes.
//!
//! Tried and lost: the products ac, bd and (a + b)(c - d), whose columns are three planes and whose rows
//! take three times the instructions to unpack; planes made by one warpgroup, 2.5 % slower at N = 2048; bytes in
//! four stages and planes in two, 4 % slower; the next step's boxes fetched to the L2 cache beforehand.

use core::ops::Range;

use crate::{
    abi::correlate::{CorrelateWarpgroup, STEP_BYTES, TILE_CI4, WarpgroupShared, WarpgroupTile},
    correlate::{
        feed::FRAGMENT_BYTES,
        warpgroup::{TileOrigin, store, take_ticket, unit_of},
    },
    isa::{
        common::{
            add_global, barrier, dp4a_unsigned, dynamic_shared, lane, load_shared, load_shared_2,
            load_shared_4, opaque, shfl, shfl_xor, store_shared, store_shared_4, thread,
        },
        sm_90a::{
            copy_tensor_3d, descriptor, descriptor_step, fence_proxy_async, give_registers,
            mbarrier_arrive_expect, take_registers,
        },
    },
    tile::{
        panel,
        pipeline::{self, Pipeline, Ring, WARPGROUP, Work},
    },
};

/// Mask that makes excess-8 nibbles two's complement, and back.
const EXCESS_8: u32 = 0x8888_8888;
/// Sign of an excess-8 nibble at the top of a byte.
const SIGN: u32 = 0x8080_8080;
/// High nibbles.
const HIGH: u32 = 0xf0f0_f0f0;
/// Bytes of one.
const ONES: u32 = 0x0101_0101;

/// Bias of v.
const BIAS_V: u32 = 16 * 8 + 7;
/// Bias of w.
const BIAS_W: u32 = 16 * 8 + 8;

/// From the columns' bytes of a stage to their planes 16 c and 16 d.
const PLANES: [u32; 2] = [TILE_CI4.plane(0), TILE_CI4.plane(1)];

/// A block of the correlator.
#[derive(Clone, Copy)]
struct Correlator<'a> {
    p: &'a CorrelateWarpgroup,
    shape: WarpgroupTile,
    shared: WarpgroupShared,
    pipeline: Pipeline,
}

/// The whole of a block's work.
///
/// # Safety
/// - All threads of a block of `shape.threads()` call it together, once, in a launch that keeps the conditions of
///   [`CorrelateWarpgroup`]: addresses, tensor maps, tickets.
/// - The block has `shape.shared().bytes` of dynamic shared memory, all of it free; `shape` is [`TILE_CI4`], and the
///   registers are its own.
#[inline(always)]
unsafe fn correlate<const STAGING_REGISTERS: u32, const MULTIPLYING_REGISTERS: u32>(
    p: &CorrelateWarpgroup,
    shape: WarpgroupTile,
) {
    let shared = shape.shared();
    let pipeline = Pipeline { base: dynamic_shared(), plan: shared.ring };
    let work = Correlator { p, shape, shared, pipeline };
    // SAFETY: thread 0 makes the barriers, and the block's barrier follows. `full` has the arrival of thread 0,
    // `transformed` those of both staging warpgroups, `empty` those of all that multiply: each arrives once a lap.
    unsafe {
        if thread() == 0 {
            pipeline.init(1, shape.staging * WARPGROUP, shape.multiplying());
        }
        barrier();
        if pipeline::stages(shape.staging, shape.multiplying()) {
            give_registers::<STAGING_REGISTERS>();
            work.unpack_tiles();
        } else {
            take_registers::<MULTIPLYING_REGISTERS>();
            pipeline.multiply_tiles(&work);
        }
    }
}

/// State of the thread that loads: words of shared memory, as registers are scarce.
mod loader {
    /// Byte of the rows at which the next step begins.
    pub const BYTE: u32 = 0;
    /// Channel of the tile that is loaded.
    pub const CHANNEL: u32 = 1;
    /// Its first row's input.
    pub const ROW: u32 = 2;
    /// Its first column's input.
    pub const COLUMN: u32 = 3;
    /// Byte of a thread that has loaded all.
    pub const DONE: u32 = u32::MAX;
}

impl Correlator<'_> {
    /// Offset in a stage of the panel of the rows' bytes: beside the columns, or the columns' own on the diagonal.
    #[inline(always)]
    fn rows(&self, tile: &TileOrigin) -> u32 {
        if tile.first_row == tile.first_column { 0 } else { self.shape.columns_bytes() }
    }

    /// Address of word `word` of the thread that loads.
    #[inline(always)]
    fn loader(&self, word: u32) -> u32 {
        self.shared.loader.at(self.pipeline.base, word)
    }

    /// Address of the sums of w of each column, in the last stage of a tile.
    #[inline(always)]
    fn column_sums(&self, ring: &Ring) -> u32 {
        self.shared.column_sums.at(self.pipeline.base, ring.stage)
    }

    /// Has TMA bring the next step to the ring's stage, once this was multiplied, or says there that no tile
    /// is left.
    ///
    /// # Safety
    /// - Thread 0 of the block alone calls it, for one place of the ring after the other, with the `ticket` that the
    ///   call before left.
    /// - The loader's word `BYTE` holds `p.row_bytes` before the first call; nobody else uses the loader's words.
    /// - The barriers were made, and a barrier of the block stands between that and this call.
    #[inline(always)]
    unsafe fn load(&self, ring: &Ring, ticket: &mut u32) {
        let Self { p, shape, pipeline, .. } = *self;
        // SAFETY: the words are this thread's. The stage was waited for before its box is asked for, and its `full`
        // expects the bytes of one panel, or of two where rows have their own.
        unsafe {
            let mut byte = load_shared(self.loader(loader::BYTE));
            if byte == loader::DONE {
                return;
            }
            pipeline.wait_empty(ring);
            if byte >= p.row_bytes {
                let tile = unit_of(p, *ticket);
                pipeline.announce(ring, tile);
                let Some(index) = tile else {
                    store_shared(self.loader(loader::BYTE), loader::DONE);
                    pipeline.arrive_full(ring);
                    return;
                };
                let tile = self.tile(index);
                store_shared(self.loader(loader::CHANNEL), tile.channel);
                store_shared(self.loader(loader::ROW), tile.first_row);
                store_shared(self.loader(loader::COLUMN), tile.first_column);
                // Asked for long before it is needed.
                *ticket = take_ticket(p);
                byte = 0;
            }
            let word = |word: u32| load_shared(self.loader(word));
            let tile = TileOrigin {
                channel: word(loader::CHANNEL),
                first_row: word(loader::ROW),
                first_column: word(loader::COLUMN),
            };
            let (stage, full) = (pipeline.stage(ring), pipeline.barrier(pipeline.plan.full, ring));
            let rows = self.rows(&tile);
            let inputs = if rows == 0 { shape.columns } else { shape.columns + shape.rows };
            mbarrier_arrive_expect(full, inputs * STEP_BYTES);
            copy_tensor_3d(stage, p.columns, [byte, tile.first_column, tile.channel], full);
            if rows != 0 {
                copy_tensor_3d(stage + rows, p.rows, [byte, tile.first_row, tile.channel], full);
            }
            store_shared(self.loader(loader::BYTE), byte + STEP_BYTES);
        }
    }

    /// The first warpgroup and the last: make the planes of the columns of the block's tiles, half of the
    /// times each, a column a thread.
    ///
    /// # Safety
    /// - All threads of the first and the last warpgroup call it together, once; the others multiply.
    /// - The barriers were made with `full = 1` and `transformed = 2 WARPGROUP`, and a barrier of the block stands
    ///   between that and this call.
    #[inline(always)]
    unsafe fn unpack_tiles(&self) {
        let Self { p, pipeline, .. } = *self;
        let stages = pipeline.plan.stages;
        // Chunk k of a column lies where chunk 0 does, but for bits 4 to 6. The warpgroup at the end of the
        // block takes the second half.
        let column_of = |thread: u32| {
            panel::offset(thread % WARPGROUP, thread / (2 * WARPGROUP) * panel::CHUNKS / 2)
        };
        let (mut sum, mut byte) = (0, 0);
        let mut ring = Ring::START;
        // SAFETY: thread 0 alone loads, a step ahead. Each thread waits for its stage to be empty and full before it
        // unpacks half a column, which is its own, and arrives once behind a fence. Both warpgroups see the same
        // tiles.
        unsafe {
            let mut ticket = 0;
            if thread() == 0 {
                store_shared(self.loader(loader::BYTE), p.row_bytes);
                ticket = take_ticket(p);
            }
            let mut begun = false;
            loop {
                // A step ahead of unpacking.
                if thread() == 0 {
                    self.load(&ring, &mut ticket);
                }
                let loaded = ring.before(stages);
                ring.advance(stages);
                if !begun {
                    begun = true;
                    continue;
                }
                pipeline.wait_empty(&loaded);
                if byte == 0 && pipeline.wait_for_tile(pipeline.plan.full, &loaded).is_break() {
                    pipeline.arrive_transformed(&loaded);
                    break;
                }
                pipeline.wait_full(&loaded);
                let from = pipeline.stage(&loaded) + column_of(opaque(thread()));
                // A branch, as the encoding would take registers.
                if p.excess == EXCESS_8 {
                    unpack::<true>(from, &mut sum);
                } else {
                    unpack::<false>(from, &mut sum);
                }
                byte += STEP_BYTES;
                if byte >= p.row_bytes {
                    // Recomputed, as registers are scarce: a column, and which half.
                    let word = opaque(thread()) % (2 * WARPGROUP);
                    store_shared(self.column_sums(&loaded) + 4 * word, sum);
                    (sum, byte) = (0, 0);
                }
                fence_proxy_async();
                pipeline.arrive_transformed(&loaded);
            }
        }
    }
}

/// Makes the planes of half a column's times of a step from the bytes at `from`, and turns two's complement
/// bytes into w in place; `EXCESS`-8 bytes are w already. Adds to `sum`.
///
/// # Safety
/// - `from` is the address of chunk 0 or 4 of a column in the panel of columns of a stage, whose planes lie
///   [`PLANES`] further.
/// - The stage is full, and the planes are not read any more: the thread has waited for `full` and `empty`.
/// - Nobody else reads or writes these four chunks of the column, nor their places in the planes, before the thread
///   has arrived at `transformed`.
#[inline(always)]
unsafe fn unpack<const EXCESS: bool>(from: u32, sum: &mut u32) {
    let (sign, flip) = if EXCESS { (SIGN, 0) } else { (0, EXCESS_8) };
    for chunk in 0..panel::CHUNKS / 2 {
        let at = from ^ (chunk * panel::CHUNK);
        // SAFETY: 16 aligned bytes of the panel and of each plane, which are this thread's: exclusive or with a chunk
        // stays in the row.
        unsafe {
            let words = load_shared_4(at);
            store_shared_4(at + PLANES[0], words.map(|word| word & HIGH ^ sign));
            store_shared_4(at + PLANES[1], words.map(|word| word << 4 & HIGH ^ sign));
            let words = words.map(|word| word ^ flip);
            if !EXCESS {
                store_shared_4(at, words);
            }
            *sum = words.iter().fold(*sum, |sum, word| dp4a_unsigned(*word, ONES, sum));
        }
    }
}

impl Work for Correlator<'_> {
    type Tile = TileOrigin;
    const STEP_BYTES: u32 = STEP_BYTES;
    const TRANSFORMS: bool = true;

    #[inline(always)]
    fn tile(&self, index: u32) -> TileOrigin {
        TileOrigin::of(self.p, self.shape, index)
    }

    #[inline(always)]
    fn bytes(&self, _: &TileOrigin) -> Range<u32> {
        0..self.p.row_bytes
    }

    /// Multiplies the warpgroup's 64 rows by the columns of the tile that lie on or left of the diagonal for the
    /// last of the rows, in whole 64s.
    #[inline(always)]
    unsafe fn multiply(&self, group: u32, index: u32, ring: &mut Ring) {
        let tile = self.tile(index);
        let first_row = tile.first_row + 64 * group;
        let columns = (first_row + 64).saturating_sub(tile.first_column);
        // SAFETY: the warpgroup is whole and sees the same rows and columns. A tile that it has nothing of is passed,
        // step by step; the diagonal leaves at most 128 columns of others.
        unsafe {
            if first_row >= self.p.inputs || columns == 0 {
                self.pipeline.skip(self, &tile, ring);
            } else if columns <= 64 {
                self.multiply_part::<32>(index, ring);
            } else {
                self.multiply_part::<64>(index, ring);
            }
        }
    }
}

/// Sums V, P, Q of a thread in parts of `2 * WORDS` columns.
struct Sums<const WORDS: usize>([[u32; WORDS]; 3]);

/// Text that makes factor `$part` of the rows, v, 16 a (p) or 16 b (q), of the fragment of samples x; the words
/// of v are summed, 0 and 2 of row `lane / 4`, 1 and 3 of the row 8 further.
macro_rules! unpack_rows {
    ($part:ident) => {
        concat!(
            unpack_rows!(@$part 0, low), unpack_rows!(@$part 1, high),
            unpack_rows!(@$part 2, low), unpack_rows!(@$part 3, high),
        )
    };
    (@p $word:literal, $sum:ident) => {
        concat!(
            instruction!(and ["p" $word], ["x" $word], "0xf0f0f0f0"),
            instruction!(xor ["p" $word], ["p" $word], {sign}),
        )
    };
    (@q $word:literal, $sum:ident) => {
        concat!(
            instruction!(shl ["q" $word], ["x" $word], 4),
            instruction!(and ["q" $word], ["q" $word], "0xf0f0f0f0"),
            instruction!(xor ["q" $word], ["q" $word], {sign}),
        )
    };
    (@v $word:literal, $sum:ident) => {
        concat!(
            instruction!(xor ["v" $word], ["x" $word], {complement}),
            instruction!(dp4a_unsigned {$sum}, ["v" $word], "0x01010101", {$sum}),
        )
    };
}

/// Text of one product, a group: factor `$a` of the rows by the factor of the columns that lies `$units` from the first.
macro_rules! product {
    ($type:ident, $sums:tt, $a:literal, $units:literal) => {
        concat!(
            go_to_columns!($units),
            wgmma_fence!(),
            wgmma!($type, $sums, fragment $a, "b", "accumulate"),
            wgmma_commit!(),
        )
    };
}

/// Text of the three products of the fragment of samples x. Products of the fragment before may still run, each
/// until its operands are overwritten.
macro_rules! fragment {
    ($columns:tt, $v_units:literal $p_units:literal $q_units:literal) => {
        concat!(
            wgmma_wait!(2),
            unpack_rows!(p),
            product!(s8, (1, $columns), "p", $p_units),
            wgmma_wait!(2),
            unpack_rows!(q),
            product!(s8, (2, $columns), "q", $q_units),
            wgmma_wait!(2),
            unpack_rows!(v),
            product!(u8, (0, $columns), "v", $v_units),
        )
    };
}

/// Text that loads the next fragment of samples, `$bytes` from the first. Its address waits for the sums so far.
macro_rules! load_next {
    ($bytes:literal) => {
        concat!(
            zero_after_sums!("bits", "at"),
            instruction!(xor "at", {row}, $bytes),
            instruction!(add "at", "at", "bits"),
            ldmatrix!("x", "at"),
        )
    };
}

/// A step of the multiplication.
trait Multiply {
    /// 64 rows by the columns over 128 times. Two products at least are always under way:
    ///
    /// ```text
    /// the warp         the tensor cores multiply
    /// loads x
    /// makes p          (q, v of the fragment before)
    /// makes q          (v,) p
    /// makes v          p, q
    /// loads x anew     q, v       and so on, four times; then it waits for all
    /// ```
    ///
    /// `row` is the address that the lane gives to `ldmatrix` for the first chunk of its warp's 16 rows, `b` the
    /// descriptor of the columns' w. `row_sums += v` of the lane's share of its rows `lane / 4` and
    /// `lane / 4 + 8`. `EXCESS`: the rows are excess-8.
    ///
    /// # Safety
    /// - All 128 threads of the warpgroup call it together, with the same `b`.
    /// - `b` is the descriptor of the panel of columns of a stage, at a multiple of 1024 bytes, whose planes lie
    ///   [`PLANES`] further.
    /// - `row` is the address that the lane gives to `ldmatrix`, in the panel of rows (or of columns, on the
    ///   diagonal) of that stage.
    /// - Panels and planes are complete, and visible to the thread and to `wgmma`: it has waited for the stage
    ///   ([`Pipeline::wait_ready`]). Nobody writes them before the call returns.
    unsafe fn multiply<const EXCESS: bool>(&mut self, row_sums: &mut [u32; 2], row: u32, b: u64);
}

/// Stamps [`Multiply`] for each width of a part, in columns.
macro_rules! multiply {
    ($($columns:tt)*) => {$(
        impl Multiply for Sums<{ $columns / 2 }> {
            #[inline(always)]
            unsafe fn multiply<const EXCESS: bool>(
                &mut self,
                row_sums: &mut [u32; 2],
                row: u32,
                b: u64,
            ) {
                let [sums_v, sums_p, sums_q] = &mut self.0;
                // SAFETY: a whole warpgroup on panels that are there and visible, as the trait asks; fragments of x,
                // p, q and v are overwritten when the product that reads them has been waited for, and all are when
                // the text ends.
                unsafe {
                    asm_scope! {
                        inout sums_v: (0, $columns), sums_p: (1, $columns), sums_q: (2, $columns);
                        [
                            registers!(pred accumulate; b64 b; b32 at bits next; fragment x p q v),
                            instruction!(setp_eq "accumulate", 0, 0),
                            ldmatrix!("x", "{row}"),
                            fragment!($columns, "{v_0}" "{p_0}" "{q_0}"),
                            load_next!("{row_1}"),
                            fragment!($columns, "{v_1}" "{p_1}" "{q_1}"),
                            load_next!("{row_2}"),
                            fragment!($columns, "{v_2}" "{p_2}" "{q_2}"),
                            load_next!("{row_3}"),
                            fragment!($columns, "{v_3}" "{p_3}" "{q_3}"),
                            wgmma_wait!(0),
                        ]
                        [
                            low = inout(reg32) row_sums[0],
                            high = inout(reg32) row_sums[1],
                            row = in(reg32) row,
                            b = in(reg32) b as u32,
                        ]
                        [
                            row_1: FRAGMENT_BYTES,
                            row_2: 2 * FRAGMENT_BYTES,
                            row_3: 3 * FRAGMENT_BYTES,
                            v_0: descriptor_step(0 * FRAGMENT_BYTES),
                            v_1: descriptor_step(1 * FRAGMENT_BYTES),
                            v_2: descriptor_step(2 * FRAGMENT_BYTES),
                            v_3: descriptor_step(3 * FRAGMENT_BYTES),
                            p_0: descriptor_step(PLANES[0] + 0 * FRAGMENT_BYTES),
                            p_1: descriptor_step(PLANES[0] + 1 * FRAGMENT_BYTES),
                            p_2: descriptor_step(PLANES[0] + 2 * FRAGMENT_BYTES),
                            p_3: descriptor_step(PLANES[0] + 3 * FRAGMENT_BYTES),
                            q_0: descriptor_step(PLANES[1] + 0 * FRAGMENT_BYTES),
                            q_1: descriptor_step(PLANES[1] + 1 * FRAGMENT_BYTES),
                            q_2: descriptor_step(PLANES[1] + 2 * FRAGMENT_BYTES),
                            q_3: descriptor_step(PLANES[1] + 3 * FRAGMENT_BYTES),
                            descriptor_bits: (descriptor(0) >> 32) as u32,
                            // Excess-8 nibbles at the top of a byte have their sign the other way.
                            sign: if EXCESS { SIGN } else { 0 },
                            // 16 (a + 8) + 7 - b, of excess-8 nibbles or of two's complement.
                            complement: if EXCESS { !HIGH } else { !HIGH ^ EXCESS_8 },
                        ]
                    }
                };
            }
        }
    )*};
}

multiply! { 64 128 }

impl Correlator<'_> {
    /// Multiplies the warpgroup's rows of tile `index` by the first `2 * WORDS` columns, and writes the
    /// visibilities.
    ///
    /// # Safety
    /// - All 128 threads of the warpgroup call it together, as one of those that [`Pipeline::multiply_tiles`] runs.
    /// - Tile `index` begins in the ring's stage, and the warpgroup has inputs among its rows.
    /// - `p.row_bytes` is not 0: a step is multiplied in any case.
    #[inline(always)]
    unsafe fn multiply_part<const WORDS: usize>(&self, index: u32, ring: &mut Ring)
    where
        Sums<WORDS>: Multiply,
    {
        let Self { p, pipeline, .. } = *self;
        let rows = self.rows(&self.tile(index));
        // The columns, and rows among them, are excess-8 in the end.
        let excess = rows == 0 || p.excess == EXCESS_8;
        let rows = panel::ldmatrix_address(rows, 16 * ((thread() - WARPGROUP) / 32), 0);
        let (mut sums, mut row_sums) = (Sums([[0; WORDS]; 3]), [0; 2]);
        // SAFETY: `steps` leaves the ring at the last stage, which is ready and still held: it has the sums of the
        // columns. Each thread arrives when it has read them.
        unsafe {
            let byte = if excess {
                self.steps::<WORDS, true>(ring, rows, &mut sums, &mut row_sums)
            } else {
                self.steps::<WORDS, false>(ring, rows, &mut sums, &mut row_sums)
            };
            sums.set_right(row_sums, byte, self.column_sums(ring));
            pipeline.arrive_empty(ring);
            pipeline.advance(ring);
        }
        // Recomputed, as registers are scarce above: where the tile is, and who this is.
        let tile = &self.tile(opaque(index));
        let warp = (opaque(thread()) - WARPGROUP) / 32;
        let [imaginary, real, _] = &sums.0;
        // Beyond the last time, bytes are zero: excess-8, each nibble is -8.
        let beyond =
            if p.excess == 0 { 0 } else { (p.row_bytes.wrapping_neg() % STEP_BYTES) << 15 };
        let value = |word: usize| {
            let real = real[word].wrapping_sub(beyond) as i32 >> 8;
            [real as u32, (imaginary[word] as i32 >> 4) as u32]
        };
        let patch = self.shared.patches.at(pipeline.base, warp);
        // SAFETY: the warp is whole, its patch its own by the plan; the block alone has this tile, and the warp alone
        // these rows.
        unsafe {
            let add = |address, sum| add_global(address, sum);
            if WORDS == 32 {
                store::<64>(p, tile, warp, patch, value, add);
            } else {
                store::<128>(p, tile, warp, patch, value, add);
            }
        }
    }

    /// The steps of a tile but for the passing of the last; how many times they are. The lane gives the
    /// address `rows`, in a stage, to `ldmatrix`.
    ///
    /// # Safety
    /// - All 128 threads of the warpgroup call it together; a tile begins in the ring's stage.
    /// - `rows` is the offset in a stage of the 16 bytes that the lane gives to `ldmatrix`.
    /// - `p.row_bytes` is not 0.
    #[inline(always)]
    unsafe fn steps<const WORDS: usize, const EXCESS: bool>(
        &self,
        ring: &mut Ring,
        rows: u32,
        sums: &mut Sums<WORDS>,
        row_sums: &mut [u32; 2],
    ) -> u32
    where
        Sums<WORDS>: Multiply,
    {
        let Self { p, pipeline, .. } = *self;
        let mut byte = 0;
        // There is a step at least: a loop that may not run would hold zeros beside the sums.
        loop {
            // SAFETY: the whole warpgroup has waited for the stage, and none of its threads has arrived at `empty`
            // for it.
            unsafe {
                pipeline.wait_ready::<Self>(ring);
                // From one lane, so that the assembler knows that it is the same in all.
                let columns = pipeline.plan.data.at(pipeline.base, shfl(ring.stage, 0));
                sums.multiply::<EXCESS>(row_sums, columns + rows, descriptor(columns));
            }
            byte += STEP_BYTES;
            if byte >= p.row_bytes {
                return byte;
            }
            // SAFETY: the stage was waited for, and its products too: nothing reads it any more.
            unsafe { pipeline.arrive_empty(ring) };
            pipeline.advance(ring);
        }
    }
}

impl<const WORDS: usize> Sums<WORDS> {
    /// Makes 16 times the imaginary and 256 times the real parts from V, P, Q over `times` time samples, given the
    /// lane's share of the row sums and the place of the column sums.
    ///
    /// 256 times the real parts stay below 2^31 for as many time samples as sums of int8 do; terms added to V may
    /// wrap modulo 2^32, as the result does not.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together.
    /// - `column_sums` is a multiple of 8, and two rows of [`TILE_CI4`]`.columns` words lie there in the block's
    ///   shared memory.
    /// - They are complete, and nobody writes them meanwhile: the thread has waited for their stage, and not arrived
    ///   at `empty` for it.
    #[inline(always)]
    unsafe fn set_right(&mut self, row_sums: [u32; 2], times: u32, column_sums: u32) {
        let rows = row_sums.map(|mut sum| {
            sum = sum.wrapping_add(shfl_xor::<1>(sum));
            sum = sum.wrapping_add(shfl_xor::<2>(sum));
            (BIAS_V * BIAS_W).wrapping_mul(times).wrapping_sub(BIAS_W.wrapping_mul(sum))
        });
        let column = column_sums + 8 * (opaque(lane()) % 4);
        let [v, p, q] = &mut self.0;
        for half in 0..2 {
            for n in 0..WORDS / 4 {
                let at = column + half * 4 * TILE_CI4.columns + 32 * n as u32;
                // SAFETY: 8 aligned bytes of the words of `column_sums`: the columns `8n + 2 (lane % 4)` and the
                // next, of one half of the times.
                let sums = unsafe { load_shared_2(at) };
                for word in 0..4 {
                    let v = &mut v[4 * n + word];
                    *v = opaque(v.wrapping_sub(BIAS_V.wrapping_mul(sums[word % 2])));
                }
            }
        }
        for word in 0..WORDS {
            let v_right = v[word].wrapping_add(rows[word % 4 / 2]);
            let q_once = (q[word] as i32 >> 8) as u32;
            // Here and not where they are needed: q's registers are free then.
            v[word] = opaque(p[word].wrapping_sub(q_once).wrapping_sub(v_right));
            p[word] = opaque(p[word].wrapping_add(q[word]));
        }
    }
}

kernel! {
    /// 4-bit samples as three products, tiles of 128 x 128 baselines.
    fn correlate_wgmma_ci4(p: CorrelateWarpgroup) {
        correlate::<{ TILE_CI4.registers.0 }, { TILE_CI4.registers.1 }>(&p, TILE_CI4)
    }
}
