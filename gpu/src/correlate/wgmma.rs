//! The tensor-core correlator on Hopper's warpgroup instructions (`wgmma`, sm_90a).
//!
//! ```text
//! a  = (re, im, ...)    of a row, b = (re', im', ...) of a column
//! a* = (im, -re, ...)   rotated by -i, made in registers from the fragment of a
//! a  . b = sum re re' + im im' = real part
//! a* . b = sum im re' - re im' = imaginary part
//! ```
//!
//! [`Samples`] says how the rotation is exact for every byte. What it leaves out is the same for a whole
//! column, the sum of its imaginary parts: the tiles at the left edge sum those of their rows, and
//! [`super::widen`] or the host puts the imaginary parts right once.
//!
//! A block is persistent: it takes the next tile of baselines when it has finished one, all tiles of a
//! channel in a row so that its samples are read from the L2 cache. Its warpgroups have roles in a
//! [`pipeline`] of stages, each a step of 128 bytes of time of all rows and columns of a tile:
//!
//! ```text
//! warpgroup 0, thread 0    load      when a stage is empty: TMA brings the panels of rows and columns, several
//!                                    steps ahead, and ends the barrier `full`
//! warpgroup 0, warps 1-3   transform when it is full: samples as packets deliver them are transposed
//!                                    ([`super::feed`]); rows of time need none, and the role is not there
//! warpgroups 1, 2          multiply  when it is ready: 64 rows each, fragments of `a` by `ldmatrix`, `a*` from
//!                                    them in registers, both against the panel of columns as it lies in shared
//!                                    memory ([`Multiply`]); then the stage is empty
//! ```
//!
//! [`super::feed`] shows the panels of a stage, [`WarpgroupTile::shared`] the patches and barriers.
//! Sums stay in registers for all steps of a tile. They are free again when its visibilities are written,
//! through the warp's patch ([`patch`]), while the other warpgroup multiplies.
//!
//! Bound by the tensor cores: a step of a 64 x 192 part takes 8 `wgmma` of 96 cycles. Beside them
//! shared memory is the busiest: `wgmma` reads columns at half its rate, whatever the tile. The sums
//! take 192 of a thread's registers, which is what limits the tile. While one warpgroup prepares its
//! fragments or writes its sums, the other multiplies. Near the diagonal a warpgroup multiplies only
//! as many columns, in whole 64s, as lie on or left of it, and one panel serves as rows and columns.
//!
//! Matrix units truncate sums of half precision. These leave them every `STEPS_IN_UNITS` steps, to be added to others
//! rounded to nearest (`Correlator::multiply_leaving`), so that tiles of them have 128 columns at most.
//!
//! Tried and lost: leaving the last multiplications of a step under way over the next step's barrier
//! (1161 against 1157 useful TOPS). Writing visibilities straight from the registers, 16 bytes a lane,
//! took a fifth of the time: sectors were written in parts. Summing the columns beside, by the other
//! warps of the staging warpgroup: 2 to 10 % of the time, as shared memory was read once more. Tiles
//! dealt out one after the other: blocks on the diagonal ran ahead of the others, out of step in the L2 cache.

use core::{marker::PhantomData, ops::Range};

use crate::{
    abi::correlate::{
        CorrelateWarpgroup, STEP_BYTES, TILE_128_128, TILE_128_128_CF16, TILE_128_192,
        WarpgroupShared, WarpgroupTile, mode, warpgroup_correlators,
    },
    correlate::{
        feed::{B1, Cf16, Ci4, Ci8, Delivered, Encoding, FRAGMENT_BYTES, Feed, Panels, Rows},
        patch::{self, Corner},
        samples::{Bits, Half, Int8, Samples, TopNibbles},
        warpgroup::{Slice, Turns, Unit, corner, take_unit},
    },
    isa::{
        common::{
            add_global, barrier, dynamic_shared, lane, opaque, shfl_xor, store_global, thread,
        },
        sm_90a::{
            descriptor, descriptor_step, give_registers, mbarrier_arrive_expect, take_registers,
        },
    },
    tile::pipeline::{self, Pipeline, Ring, Stage, WARPGROUP, Work},
};

/// Text that loads fragment `$a`, 16 rows by 32 bytes, from `$at`, where the feed left it.
///
/// A word of nibbles is two inputs at two time samples, and becomes int8, 16 times as large: the first input's
/// word, then the second's, 8 rows further.
macro_rules! load {
    (rows, $a:literal, $at:literal) => {
        ldmatrix!($a, $at)
    };
    (delivered, $a:literal, $at:literal) => {
        ldmatrix_trans!($a, $at)
    };
    (delivered_nibbles, $a:literal, $at:literal) => {
        concat!(
            ldmatrix_trans!(x2 $a, $at),
            load!(@unpack $a, 0, 1),
            load!(@unpack $a, 2, 3),
        )
    };
    (@unpack $a:literal, $first:literal, $second:literal) => {
        concat!(
            // (word ^ excess) & 0xf0f0f0f0
            instruction!(shl "bits", [$a $first], 4),
            instruction!(lop3 "bits", "bits", {excess}, "0xf0f0f0f0", "0x28"),
            instruction!(lop3 "next", [$a $first], {excess}, "0xf0f0f0f0", "0x28"),
            instruction!(prmt [$a $first], "next", "bits", "0x6240"),
            instruction!(prmt [$a $second], "next", "bits", "0x7351"),
        )
    };
}

/// Text that makes a* of fragment `$a`.
///
/// Bytes and halves of a word change places, one of them negated. Planes of bits are words apart: 0 and 1 are of the
/// real parts, 2 and 3 of the imaginary ones.
macro_rules! rotate {
    (b1, $a:literal, $rotated:literal) => {
        concat!(
            rotate!(@ $a, 2, $rotated, 0), rotate!(@ $a, 3, $rotated, 1),
            rotate!(@ $a, 0, $rotated, 2), rotate!(@ flip $rotated, 2),
            rotate!(@ $a, 1, $rotated, 3), rotate!(@ flip $rotated, 3),
        )
    };
    ($type:ident, $a:literal, $rotated:literal) => {
        concat!(
            rotate!(@ $a, 0, $rotated, 0), rotate!(@ flip $rotated, 0),
            rotate!(@ $a, 1, $rotated, 1), rotate!(@ flip $rotated, 1),
            rotate!(@ $a, 2, $rotated, 2), rotate!(@ flip $rotated, 2),
            rotate!(@ $a, 3, $rotated, 3), rotate!(@ flip $rotated, 3),
        )
    };
    (@ $a:literal, $from:literal, $rotated:literal, $to:literal) => {
        instruction!(prmt [$rotated $to], [$a $from], [$a $from], {selector})
    };
    (@ flip $rotated:literal, $word:literal) => {
        instruction!(xor [$rotated $word], [$rotated $word], {flip})
    };
}

/// Text that sums the imaginary parts of fragment `$a`: words 0 and 2 are of row `lane / 4`, 1 and 3 of the
/// row 8 further. Half precision and bits have no sums: there the texts are comments, as every operand of an `asm!` must
/// be named.
macro_rules! sum_imaginary {
    (int8, $a:literal) => {
        concat!(
            sum_imaginary!(@ $a, 0, low), sum_imaginary!(@ $a, 2, low),
            sum_imaginary!(@ $a, 1, high), sum_imaginary!(@ $a, 3, high),
        )
    };
    (none, $a:literal) => { "/* {low} {high} */" };
    (@ $a:literal, $word:literal, $sum:ident) => {
        instruction!(dp4a {$sum}, [$a $word], "0x01000100", {$sum})
    };
}

/// Text that makes `at` the address of the fragment `$next` from the first, and `b` its columns' descriptor. If rows are
/// summed, the address waits for the sums so far.
macro_rules! go_to {
    (int8, $feed:ident, $next:literal, $units:literal) => {
        concat!(
            zero_after_sums!("bits", "at"),
            go_to!(none, $feed, $next, $units),
            instruction!(add "at", "at", "bits"),
        )
    };
    (none, $feed:ident, $next:literal, $units:literal) => {
        concat!(go_to!(@ $feed $next), go_to_columns!($units))
    };
    // Chunks of a row of time change bits of the address; as delivered, times follow one another.
    (@ rows $next:literal) => { instruction!(xor "at", {row}, $next) };
    (@ $delivered:ident $next:literal) => { instruction!(add "at", {row}, $next) };
}

/// Text of a fragment of 32 bytes of time: `real += a . b` and `imaginary += a* . b`, one group.
macro_rules! fragment {
    ($type:ident $kind:ident, $feed:ident, $columns:tt, $a:literal, $rotated:literal, $at:literal) => {
        concat!(
            load!($feed, $a, $at),
            rotate!($type, $a, $rotated),
            sum_imaginary!($kind, $a),
            wgmma_fence!(),
            wgmma!($type, (0, $columns), fragment $a, "b", "accumulate"),
            wgmma!($type, (1, $columns), fragment $rotated, "b", "accumulate"),
            wgmma_commit!(),
        )
    };
}

/// A sample type on `wgmma`, with parts of `2 * WORDS` columns and rows as the feed leaves them.
trait Multiply<F: Feed, const WORDS: usize>: Samples {
    /// A step: 64 rows by the columns that the descriptor `b` describes, over 128 bytes of time.
    ///
    /// `real += a . b` and `imaginary += a* . b`, a* by complement for int8 ([`super::samples`]).
    /// `row_sums += im` of the lane's share of its rows `lane / 4` and `lane / 4 + 8`; not in half
    /// precision. `row` is the address that the lane gives to `ldmatrix` for the first fragment
    /// ([`Feed::row_address`]); `excess` is [`CorrelateWarpgroup::excess`].
    ///
    /// Two sets of registers hold fragments: the warp makes one while the other multiplies.
    ///
    /// ```text
    /// the warp loads, rotates, sums     the tensor cores multiply
    /// fragment 0 -> even
    /// fragment 1 -> odd                 even
    ///   waits till even is free         even, odd
    /// fragment 2 -> even                      odd
    ///   waits till odd is free          even, odd
    /// fragment 3 -> odd                 even
    ///   waits for all                   even, odd
    /// ```
    ///
    /// Then the stage is free: nothing of it is read any more.
    ///
    /// # Safety
    /// - All 128 threads of the warpgroup call it together, with the same `b` and `excess`.
    /// - `b` is the [`descriptor`] of a panel of `2 WORDS` columns or more in the block's shared memory, at a
    ///   multiple of 1024 bytes.
    /// - `row` is [`Feed::row_address`] of the warp's 16 rows, in panels that lie in shared memory.
    /// - Both panels are complete, and visible to the thread and to `wgmma`: it has waited for TMA's barrier
    ///   ([`Pipeline::wait_ready`]), behind which no thread wrote to them but before a `fence.proxy.async`. Nobody
    ///   writes them before the call returns.
    unsafe fn multiply(
        real: &mut [u32; WORDS],
        imaginary: &mut [u32; WORDS],
        row_sums: &mut [u32; 2],
        row: u32,
        b: u64,
        excess: u32,
    );
}

/// Stamps [`Multiply`] for samples on a type of `wgmma`, as a feed leaves them.
macro_rules! multiply {
    ($($samples:ident, $feed:ty: $type:ident $kind:ident, $load:ident($($excess:ident)?);)*) => {$(
        multiply!(@ 64, $samples, $feed, $type $kind, $load, $($excess)?);
        multiply!(@ 128, $samples, $feed, $type $kind, $load, $($excess)?);
        multiply!(@ 192, $samples, $feed, $type $kind, $load, $($excess)?);
    )*};
    (@ $columns:tt, $samples:ident, $feed:ty, $type:ident $kind:ident, $load:ident,
        $($excess:ident)?) => {
        impl Multiply<$feed, { $columns / 2 }> for $samples {
            #[inline(always)]
            unsafe fn multiply(
                real: &mut [u32; $columns / 2],
                imaginary: &mut [u32; $columns / 2],
                row_sums: &mut [u32; 2],
                row: u32,
                b: u64,
                multiply!(@name $($excess)?): u32,
            ) {
                // SAFETY: a whole warpgroup on panels that are there and visible, as the trait asks. The text waits
                // for its products: the sums are complete and the fragments free when it ends. `ldmatrix` reads rows
                // of 16 bytes, which the feed's pitch leads from one fragment to the next.
                unsafe {
                    asm_scope! {
                        inout real: (0, $columns), imaginary: (1, $columns);
                        [
                            registers!(pred accumulate; b64 b; b32 at bits next),
                            registers!(fragment even even_rotated odd odd_rotated),
                            instruction!(setp_eq "accumulate", 0, 0),
                            instruction!(mov_pair "b", {b}, {descriptor_bits}),
                            fragment!($type $kind, $load, $columns, "even", "even_rotated", "{row}"),
                            go_to!($kind, $load, "{row_1}", "{b_1}"),
                            fragment!($type $kind, $load, $columns, "odd", "odd_rotated", "at"),
                            wgmma_wait!(1),
                            go_to!($kind, $load, "{row_2}", "{b_2}"),
                            fragment!($type $kind, $load, $columns, "even", "even_rotated", "at"),
                            wgmma_wait!(1),
                            go_to!($kind, $load, "{row_3}", "{b_3}"),
                            fragment!($type $kind, $load, $columns, "odd", "odd_rotated", "at"),
                            wgmma_wait!(0),
                        ]
                        [
                            low = inout(reg32) row_sums[0],
                            high = inout(reg32) row_sums[1],
                            row = in(reg32) row,
                            b = in(reg32) b as u32,
                            $($excess = in(reg32) $excess,)?
                        ]
                        [
                            descriptor_bits: (descriptor(0) >> 32) as u32,
                            row_1: <$feed>::FRAGMENT_PITCH,
                            row_2: 2 * <$feed>::FRAGMENT_PITCH,
                            row_3: 3 * <$feed>::FRAGMENT_PITCH,
                            b_1: descriptor_step(FRAGMENT_BYTES),
                            b_2: descriptor_step(2 * FRAGMENT_BYTES),
                            b_3: descriptor_step(3 * FRAGMENT_BYTES),
                            selector: $samples::SELECTOR,
                            flip: $samples::FLIP,
                        ]
                    }
                };
            }
        }
    };
    (@name $excess:ident) => { $excess };
    (@name) => { _ };
}

multiply! {
    Int8, Rows: s8 int8, rows();
    Int8, Delivered<Ci8>: s8 int8, delivered();
    TopNibbles, Delivered<Ci4>: s8 int8, delivered_nibbles(excess);
    Bits, Rows: b1 none, rows();
}

/// A sample type whose sums leave the matrix units, with parts of `2 * WORDS` columns: real parts, or imaginary ones.
trait Leave<F: Feed, const WORDS: usize, const IMAGINARY: bool>: Samples {
    /// A step of one component: `fresh += a . b`, or `a* . b`, of what [`Multiply::multiply`] multiplies. What was in
    /// `fresh` is overwritten if `begun` is zero.
    ///
    /// # Safety
    /// - All 128 threads of the warpgroup call it together, with the same `b` and `begun`.
    /// - `b` is the [`descriptor`] of a panel of `2 WORDS` columns or more in the block's shared memory, at a
    ///   multiple of 1024 bytes.
    /// - `row` is [`Feed::row_address`] of the warp's 16 rows, in panels that lie in shared memory.
    /// - Both panels are complete, and visible to the thread and to `wgmma`, as [`Multiply::multiply`] asks. Nobody
    ///   writes them before the call returns.
    unsafe fn multiply_component(fresh: &mut [u32; WORDS], row: u32, b: u64, begun: u32);
}

/// Text that loads the four fragments of a step of halves from where the feed left them.
macro_rules! load_step {
    () => {
        concat!(
            load!(rows, "first", "{row}"),
            instruction!(xor "at", {row}, {row_1}),
            load!(rows, "second", "at"),
            instruction!(xor "at", {row}, {row_2}),
            load!(rows, "third", "at"),
            instruction!(xor "at", {row}, {row_3}),
            load!(rows, "fourth", "at"),
        )
    };
}

/// Text of the product of a fragment, `$step` on, which it rotates before if it is of imaginary parts.
macro_rules! product {
    ($columns:tt, $imaginary:tt, $a:literal, $step:literal, $accumulate:literal) => {
        concat!(
            product!(@ $imaginary $a),
            go_to_columns!($step),
            wgmma_fence!(),
            wgmma!(f16, (0, $columns), fragment $a, "b", $accumulate),
        )
    };
    (@ true $a:literal) => { rotate!(f16, $a, $a) };
    (@ false $a:literal) => { "/* {selector} {flip} */" };
}

/// Stamps [`Leave`] for halves in rows of time.
macro_rules! leave {
    ($($feed:ty, $columns:tt;)*) => {$(
        leave!(@ $columns false, $feed);
        leave!(@ $columns true, $feed);
    )*};
    (@ $columns:tt $imaginary:tt, $feed:ty) => {
        impl Leave<$feed, { $columns / 2 }, $imaginary> for Half {
            #[inline(always)]
            unsafe fn multiply_component(
                fresh: &mut [u32; $columns / 2],
                row: u32,
                b: u64,
                begun: u32,
            ) {
                // SAFETY: a whole warpgroup on panels that are there and visible, as the trait asks. The text waits
                // for its products, so that the sums are complete when it ends.
                unsafe {
                    asm_scope! {
                        inout fresh: (0, $columns);
                        [
                            registers!(pred accumulate begun; b64 b; b32 at next),
                            registers!(fragment first second third fourth),
                            instruction!(setp_eq "accumulate", 0, 0),
                            instruction!(setp_ne "begun", {begun}, 0),
                            load_step!(),
                            product!($columns, $imaginary, "first", "0", "begun"),
                            product!($columns, $imaginary, "second", "{b_1}", "accumulate"),
                            product!($columns, $imaginary, "third", "{b_2}", "accumulate"),
                            product!($columns, $imaginary, "fourth", "{b_3}", "accumulate"),
                            wgmma_commit!(),
                            wgmma_wait!(0),
                        ]
                        [
                            row = in(reg32) row,
                            b = in(reg32) b as u32,
                            begun = in(reg32) begun,
                        ]
                        [
                            descriptor_bits: (descriptor(0) >> 32) as u32,
                            row_1: FRAGMENT_BYTES,
                            row_2: 2 * FRAGMENT_BYTES,
                            row_3: 3 * FRAGMENT_BYTES,
                            b_1: descriptor_step(FRAGMENT_BYTES),
                            b_2: descriptor_step(2 * FRAGMENT_BYTES),
                            b_3: descriptor_step(3 * FRAGMENT_BYTES),
                            selector: Half::SELECTOR,
                            flip: Half::FLIP,
                        ]
                    }
                };
            }
        }
    };
}

leave! {
    Rows, 64;
    Rows, 128;
    Delivered<Cf16>, 64;
    Delivered<Cf16>, 128;
}

/// A sample type on `wgmma`, in parts of 64, 128 or, where the tile has them, 192 columns.
trait Parts<F: Feed>: Samples + Sized {
    /// Calls [`Correlator::multiply_part`] or [`Correlator::multiply_leaving`] for the first columns, at least `columns`
    /// of them.
    ///
    /// # Safety
    /// - All 128 threads of the warpgroup call it together, as one of those that [`Pipeline::multiply_tiles`] runs.
    /// - `unit` is unit `index`, which begins in the ring's stage.
    /// - The warpgroup has inputs among its rows, and `columns` is at least 1.
    unsafe fn multiply_columns(
        work: &Correlator<Self, F>,
        columns: u32,
        index: u32,
        unit: &Unit,
        ring: &mut Ring,
    );
}

/// Stamps [`Parts`] for samples as a feed leaves them, whose sums stay in the matrix units or leave them.
macro_rules! parts {
    ($($samples:ident, $feed:ty: $multiply:ident of $($columns:literal)*;)*) => {$(
        impl Parts<$feed> for $samples {
            #[inline(always)]
            unsafe fn multiply_columns(
                work: &Correlator<Self, $feed>,
                columns: u32,
                index: u32,
                unit: &Unit,
                ring: &mut Ring,
            ) {
                // SAFETY: the conditions are the same; a part has the columns that are asked for, and no more than
                // the tile, as the widths grow and the tile's own stands at the end.
                unsafe {
                    $(if columns <= $columns || work.shape.columns == $columns {
                        return work.$multiply::<{ $columns / 2 }>(index, unit, ring);
                    })*
                }
            }
        }
    )*};
}

parts! {
    Int8, Rows: multiply_part of 64 128 192;
    Int8, Delivered<Ci8>: multiply_part of 64 128 192;
    TopNibbles, Delivered<Ci4>: multiply_part of 64 128 192;
    Bits, Rows: multiply_part of 64 128 192;
    Half, Rows: multiply_leaving of 64 128;
    Half, Delivered<Cf16>: multiply_leaving of 64 128;
}

/// Steps after which sums leave the matrix units, where they do: 128 times of halves, in which a power loses 9e-7
/// of itself. A stage is read until its steps are done: two of six are left to load ahead.
const STEPS_IN_UNITS: u32 = 4;
const _: () =
    assert!(TILE_128_128_CF16.stages >= STEPS_IN_UNITS, "a stage is held until its second product");

/// Warps that transpose delivered samples: the warps of the staging warpgroup that have nothing else to do.
const TRANSPOSING_WARPS: u32 = WARPGROUP / 32 - 1;

/// A block of the correlator of samples `S` that the feed `F` brings.
struct Correlator<'a, S, F> {
    p: &'a CorrelateWarpgroup,
    shape: WarpgroupTile,
    shared: WarpgroupShared,
    pipeline: Pipeline,
    kind: PhantomData<(S, F)>,
}

/// The whole of a block's work.
///
/// # Safety
/// - All threads of a block of `shape.threads()` call it together, once, in a launch that keeps the conditions of
///   [`CorrelateWarpgroup`]: addresses, tensor maps, tickets.
/// - The block has `shape.shared().bytes` of dynamic shared memory, all of it free.
/// - `shape` states these numbers of registers.
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
    let shared = shape.shared();
    let pipeline = Pipeline { base: dynamic_shared(), plan: shared.ring };
    let work = &Correlator::<S, F> { p, shape, shared, pipeline, kind: PhantomData };
    // SAFETY: thread 0 makes the barriers, and the block's barrier follows. `full` has the arrival of thread 0,
    // `transformed` those of warps 1 to 3, `empty` those of all that multiply, whole warpgroups that take registers
    // together.
    unsafe {
        if thread() == 0 {
            pipeline.init(1, 32 * TRANSPOSING_WARPS, shape.multiplying());
        }
        barrier();
        if pipeline::stages(shape.staging, shape.multiplying()) {
            give_registers::<STAGING_REGISTERS>();
            if thread() == 0 {
                pipeline.load_tiles(work);
            } else if F::TRANSPOSES && thread() >= 32 {
                pipeline.transform_tiles(work);
            }
        } else {
            take_registers::<MULTIPLYING_REGISTERS>();
            pipeline.multiply_tiles(work);
        }
    }
}

impl<S: Parts<F>, F: Feed> Stage for Correlator<'_, S, F> {
    #[inline(always)]
    unsafe fn next_tile(&self) -> Option<u32> {
        // SAFETY: one thread of the block asks, and the counter of tickets is this launch's, as `CorrelateWarpgroup`
        // says.
        unsafe { take_unit(self.p) }
    }

    /// Has TMA bring the panels of rows and columns.
    #[inline(always)]
    unsafe fn load(&self, unit: &Unit, byte: u32, stage: u32, full: u32) {
        let panels = Panels { at: stage, shape: self.shape, tile: &unit.tile };
        // SAFETY: the stage is empty, as the trait asks; `full` expects what the feed brings of each input.
        unsafe {
            mbarrier_arrive_expect(full, panels.inputs() * F::INPUT_BYTES);
            F::bring(self.p, panels, byte, full);
        }
    }

    /// Transposes them, where they lie `[time][input]` as packets deliver them.
    #[inline(always)]
    unsafe fn transform(&self, unit: &Unit, byte: u32, stage: u32) {
        let panels = Panels { at: stage, shape: self.shape, tile: &unit.tile };
        // SAFETY: warps 1 to 3 of the block are the role, whole; each has waited for the stage to be full.
        unsafe { F::transpose(self.p, panels, byte, thread() / 32 - 1, TRANSPOSING_WARPS) };
    }
}

impl<S: Parts<F>, F: Feed> Work for Correlator<'_, S, F> {
    type Tile = Unit;
    const STEP_BYTES: u32 = STEP_BYTES;
    const TRANSFORMS: bool = F::TRANSPOSES;

    #[inline(always)]
    fn tile(&self, index: u32) -> Unit {
        Unit::of(self.p, self.shape, index)
    }

    #[inline(always)]
    fn bytes(&self, unit: &Unit) -> Range<u32> {
        unit.slice.first_byte..unit.slice.end_byte
    }

    /// Multiplies the warpgroup's 64 rows by the columns of the tile that lie on or left of the diagonal for the
    /// last of the rows, in whole 64s.
    #[inline(always)]
    unsafe fn multiply(&self, group: u32, index: u32, ring: &mut Ring) {
        let unit = &self.tile(index);
        let first_row = unit.tile.first_row + 64 * group;
        let columns = (first_row + 64).saturating_sub(unit.tile.first_column);
        // SAFETY: the warpgroup is whole and sees the same rows and columns. A tile that it has nothing of is passed,
        // step by step; of others the widest part has all columns that it needs.
        unsafe {
            if first_row >= self.p.inputs || columns == 0 {
                self.pipeline.skip(self, unit, ring);
            } else {
                S::multiply_columns(self, columns, index, unit, ring);
            }
        }
    }
}

impl<S: Parts<F>, F: Feed> Correlator<'_, S, F> {
    /// Multiplies the warpgroup's rows by the first `2 * WORDS` columns, and writes the visibilities.
    ///
    /// # Safety
    /// - All 128 threads of the warpgroup call it together, as one of those that [`Pipeline::multiply_tiles`] runs.
    /// - `unit` is unit `index`, which begins in the ring's stage.
    /// - Its tile has `2 WORDS` columns or more in its panel, and the warpgroup has inputs among its rows.
    #[inline(always)]
    unsafe fn multiply_part<const WORDS: usize>(&self, index: u32, unit: &Unit, ring: &mut Ring)
    where
        S: Multiply<F, WORDS>,
    {
        let Self { p, shape, pipeline, .. } = *self;
        let warp = (thread() - WARPGROUP) / 32;
        let rows = F::row_address(Panels { at: 0, shape, tile: &unit.tile }, 16 * warp);
        let (mut real, mut imaginary, mut row_sums) = ([0; WORDS], [0; WORDS], [0; 2]);
        let mut left = unit.slice.steps();
        while left > 0 {
            // SAFETY: the whole warpgroup waits for a stage before it multiplies, and each thread arrives at `empty`
            // when the products have been waited for.
            unsafe {
                pipeline.wait_ready::<Self>(ring);
                let columns = pipeline.stage(ring);
                let (row, b) = (columns + rows, descriptor(columns));
                <S as Multiply<F, WORDS>>::multiply(
                    &mut real,
                    &mut imaginary,
                    &mut row_sums,
                    row,
                    b,
                    p.excess,
                );
                pipeline.arrive_empty(ring);
            }
            pipeline.advance(ring);
            left -= 1;
        }
        // SAFETY: the warpgroup's sums are of its own rows, which no other multiplies.
        unsafe { self.store(index, &real, &imaginary, row_sums) };
    }

    /// The same of samples whose sums leave the matrix units, which truncate them, every [`STEPS_IN_UNITS`] steps: they
    /// are added to others, rounded to nearest. There are no registers for two sets of both components; so
    /// one is multiplied after the other, in the same stages.
    ///
    /// # Safety
    /// - All 128 threads of the warpgroup call it together, as one of those that [`Pipeline::multiply_tiles`] runs.
    /// - `unit` is unit `index`, which begins in the ring's stage.
    /// - Its tile has `2 WORDS` columns or more in its panel, and the warpgroup has inputs among its rows.
    /// - The ring has [`STEPS_IN_UNITS`] stages or more: so many are held at a time.
    #[inline(always)]
    unsafe fn multiply_leaving<const WORDS: usize>(&self, index: u32, unit: &Unit, ring: &mut Ring)
    where
        S: Leave<F, WORDS, false> + Leave<F, WORDS, true>,
    {
        let Self { p, shape, pipeline, .. } = *self;
        let warp = (thread() - WARPGROUP) / 32;
        let rows = F::row_address(Panels { at: 0, shape, tile: &unit.tile }, 16 * warp);
        // Fresh words are overwritten before they are read.
        let (mut real, mut imaginary, mut fresh) = ([0; WORDS], [0; WORDS], [0; WORDS]);
        let mut left = unit.slice.steps();
        while left > 0 {
            let steps = if left < STEPS_IN_UNITS { left } else { STEPS_IN_UNITS };
            left -= steps;
            let mut again = Ring { ..*ring };
            let mut step = 0;
            while step < steps {
                // SAFETY: the whole warpgroup waits for a stage before it multiplies; none is let go before its
                // second product.
                unsafe {
                    pipeline.wait_ready::<Self>(&again);
                    let stage = pipeline.stage(&again);
                    let (row, b) = (stage + rows, descriptor(stage));
                    <S as Leave<F, WORDS, false>>::multiply_component(&mut fresh, row, b, step);
                }
                pipeline.advance(&mut again);
                step += 1;
            }
            add_here::<S, WORDS>(&mut real, &fresh);
            let mut step = 0;
            while step < steps {
                // SAFETY: the stage was waited for in the loop above, and is still held; each thread arrives at
                // `empty` when this product has been waited for.
                unsafe {
                    let stage = pipeline.stage(ring);
                    let (row, b) = (stage + rows, descriptor(stage));
                    <S as Leave<F, WORDS, true>>::multiply_component(&mut fresh, row, b, step);
                    pipeline.arrive_empty(ring);
                }
                pipeline.advance(ring);
                step += 1;
            }
            add_here::<S, WORDS>(&mut imaginary, &fresh);
        }
        // SAFETY: the warpgroup's sums are of its own rows, which no other multiplies.
        unsafe { self.store(index, &real, &imaginary, [0; 2]) };
    }

    /// Writes the sums of the warpgroup's rows by the first `2 * WORDS` columns of unit `index` to the
    /// visibilities.
    ///
    /// # Safety
    /// - All 32 lanes of each warp of the warpgroup call it together.
    /// - The sums belong to unit `index`, to the warp's 16 rows by the first `2 WORDS` columns. No other warp of the
    ///   launch writes these baselines out of its turn: a unit is one block's, and its rows one warp's.
    /// - Memory at `p.visibilities` and, at the left edge, `p.row_sums` is as [`CorrelateWarpgroup`] says.
    #[inline(always)]
    unsafe fn store<const WORDS: usize>(
        &self,
        index: u32,
        real: &[u32; WORDS],
        imaginary: &[u32; WORDS],
        row_sums: [u32; 2],
    ) {
        let p = self.p;
        // Recomputed each time, as registers are scarce: which turn it is, where the tile is, and who this is.
        let warp = || (opaque(thread()) - WARPGROUP) / 32;
        let turns = || Turns { p, warp: warp(), rows: self.shape.rows, in_order: !S::COMMUTES };
        // SAFETY: the warp is whole, and writes below; the words of turns are this launch's.
        unsafe { turns().wait(&Slice::of(p, opaque(index))) };
        let unit = &self.tile(opaque(index));
        let warp = warp();
        // SAFETY: the warp is whole; its patch is its own by the plan; other warps have these baselines in other turns
        // alone, and every row has one tile at the left edge.
        unsafe {
            if S::SUMS && unit.tile.first_column == 0 {
                self.store_row_sums(unit, warp, row_sums);
            }
            let scaled =
                |sum: u32| if S::SCALE == 0 { sum } else { (sum as i32 >> (2 * S::SCALE)) as u32 };
            let value = |word: usize| [scaled(real[word]), scaled(imaginary[word])];
            let add = |address, sum| S::add_global(address, sum);
            let (corner, patch) = (
                &corner(p, &unit.tile, warp, unit.slice.mode(p)),
                self.shared.patches.at(self.pipeline.base, warp),
            );
            match WORDS {
                32 => patch::store_rows::<64>(corner, patch, F::row, value, add),
                64 => patch::store_rows::<128>(corner, patch, F::row, value, add),
                _ => {
                    // In two parts: Rust-CUDA's LLVM unrolls no loop over the pieces of all.
                    patch::store_rows::<128>(corner, patch, F::row, value, add);
                    let right = &Corner { column: corner.column + 128, ..*corner };
                    let value = |word: usize| value(64 + word);
                    patch::store_rows::<64>(right, patch, F::row, value, add);
                }
            }
            turns().pass(&Slice::of(p, opaque(index)));
        }
    }

    /// Writes the sums of the imaginary parts of a warp's rows, of which four lanes have a share.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together.
    /// - `p.row_sums` has a 4-byte aligned word for each input of each channel, written before if the mode is
    ///   [`mode::ADD`].
    /// - No other warp of the launch writes the sums of these rows out of its turn: the tile is the one at the left
    ///   edge, `warp` the calling one.
    #[inline(always)]
    unsafe fn store_row_sums(&self, unit: &Unit, warp: u32, row_sums: [u32; 2]) {
        let Unit { tile, slice } = unit;
        let p = self.p;
        for half in 0..2 {
            let mut sum = row_sums[half];
            sum = sum.wrapping_add(shfl_xor::<1>(sum));
            sum = sum.wrapping_add(shfl_xor::<2>(sum));
            if S::SCALE > 0 {
                // Rows hold zero bytes past the last time: samples that are 8 too small, if that is how
                // they are encoded.
                let past = slice.end_byte.wrapping_neg() % STEP_BYTES / 2;
                let lacking = past * (p.excess & 8);
                sum = ((sum as i32 >> S::SCALE) as u32).wrapping_add(lacking);
            }
            let lane = opaque(lane());
            let row = tile.first_row + 16 * warp + F::row(half as u32, lane / 4);
            if row < p.inputs && lane.is_multiple_of(4) {
                let address = p.row_sums + 4 * (tile.channel as u64 * p.inputs as u64 + row as u64);
                // SAFETY: the row is an input's, whose sum one lane of one warp of the launch writes, before others add.
                unsafe {
                    if slice.mode(p) == mode::ADD {
                        add_global(address, sum);
                    } else {
                        store_global(address, sum);
                    }
                }
            }
        }
    }
}

/// Adds `fresh` to `sums`. Here and now: put off, it would take registers.
#[inline(always)]
fn add_here<S: Samples, const WORDS: usize>(sums: &mut [u32; WORDS], fresh: &[u32; WORDS]) {
    for word in 0..WORDS {
        sums[word] = opaque(S::add(sums[word], fresh[word]));
    }
}

/// The kernels that [`warpgroup_correlators`] declares.
macro_rules! correlators {
    ($($(#[$attribute:meta])* $kernel:ident $name:ident: $of:literal of $encoding:ident $order:ident, $tile:ident;)*) => {$(
        kernel! {
            $(#[$attribute])*
            fn $name(p: CorrelateWarpgroup) {
                correlate::<
                    <$encoding as Encoding>::Samples,
                    correlators!(@ $order $encoding),
                    { $tile.registers.0 },
                    { $tile.registers.1 },
                >(&p, $tile)
            }
        }
    )*};
    (@ Rows $encoding:ident) => { Rows };
    (@ Delivered $encoding:ident) => { Delivered<$encoding> };
}

warpgroup_correlators!(correlators);
