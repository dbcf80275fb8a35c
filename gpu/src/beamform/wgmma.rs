//! The beamformer on Hopper's warpgroup instructions (`wgmma`, sm_90a).
//!
//! The weights of up to 96 beams by 512 dishes stay in the registers of three warpgroups, and of as many
//! again in shared memory: a row of the operand is the real or the imaginary part of a beam's weights. A
//! column is the real or the imaginary part of the voltages of one time, so that the sums
//!
//! ```text
//! rr = A_re . E_re    ri = A_re . E_im    ir = A_im . E_re    ii = A_im . E_im
//! Re J = rr - ii      Im J = ri + ir
//! ```
//!
//! are four products for each complex one, and no operand is ever negated. Rows are ordered so that a
//! lane has all four of a beam and time, and columns ([`map::warpgroup_row`]) so that it has 16
//! consecutive times: one store of 16 bytes.
//!
//! Another warpgroup unpacks: each thread copies its share of a part of the dishes of a unit of 64 times
//! asynchronously, some ahead, makes int8 of the nibbles by masking (sixteen times as large, as in
//! [`super::mma`]), and writes them where `wgmma` reads its operand.
//!
//! Bound by the tensor cores: a unit takes a warpgroup 16 `wgmma` of 64 cycles; while one warpgroup
//! makes samples of its sums, the others multiply.

use crate::{
    abi::{
        beamform::{
            self, Beamform, CHUNK_BYTES, CHUNK_DISHES, ROW_BEAMS, UNIT_TIMES, WarpgroupTile, pass,
        },
        channelise::output,
        shared::Region,
    },
    beamform::{
        finish::{Int32, Quad, add_clipped, add_passes, finish_times, quantise, store},
        map,
    },
    isa::{
        common::{
            barrier, block, blocks, dynamic_shared, lane, load_global_4, load_shared_4,
            named_barrier, opaque, shfl, store_shared, store_shared_4, thread, warp_barrier,
        },
        sm_80::{cp_async_16, cp_async_commit, cp_async_wait},
        sm_90a::{
            descriptor, descriptor_step, fence_proxy_async, give_registers, mbarrier_arrive,
            mbarrier_wait, take_registers,
        },
    },
    tile::{
        divisor, fragment, panel,
        pipeline::{self, Pipeline, Ring, WARPGROUP},
    },
};

/// Dishes of one 16-byte copy.
const COPY_DISHES: u32 = 16;
/// Bytes of K of a panel.
const PANEL_DISHES: u32 = WarpgroupTile::PANEL_DISHES;

/// The units of a block: the units of all streams in a row, shared by the blocks of a group of beams.
#[derive(Clone, Copy)]
struct Units {
    group: u32,
    /// Units of one stream.
    each: u32,
    first: u32,
    end: u32,
}

impl Units {
    #[inline(always)]
    fn of_block(p: &Beamform) -> Self {
        let groups = divisor(p.groups);
        let (group, part) = (block() % groups, block() / groups);
        let parts = divisor(blocks() / groups);
        let each = p.times.div_ceil(UNIT_TIMES);
        let total = each * p.streams;
        let (share, more) = (total / parts, total % parts);
        let first = part * share + if part < more { part } else { more };
        Self { group, each, first, end: first + share + (part < more) as u32 }
    }
}

/// The whole work of a block. `STEPS`: steps of 32 dishes in a part; `HELD`: parts whose weights are in
/// registers; `PENDING`: one less than the parts as delivered; `REGISTERS`: registers of a multiplying thread.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Beamform`].
/// - `tile` is the kernel's, of `STEPS`, `HELD`, `PENDING` and `REGISTERS`; the block has its shared memory, all of it free.
#[inline(always)]
unsafe fn beamform<
    const STEPS: usize,
    const HELD: usize,
    const PENDING: u32,
    const REGISTERS: u32,
>(
    p: &Beamform,
    tile: WarpgroupTile,
) where
    [[u32; 4]; STEPS]: Weights,
{
    let shared = tile.shared();
    let pipeline = Pipeline { base: dynamic_shared(), plan: shared.ring };
    let units = Units::of_block(p);
    if thread() == 0 {
        // SAFETY: nobody uses the barriers yet.
        unsafe { pipeline.init(WARPGROUP, 0, tile.beams / 8) };
    }
    barrier();
    // SAFETY: whole warpgroups, with the tile's own numbers; the barriers are initialised.
    unsafe {
        if pipeline::stages(1, tile.multiplying()) {
            give_registers::<{ WarpgroupTile::UNPACKING_REGISTERS }>();
            unpack_units::<PENDING>(p, units, tile, shared.packed, pipeline);
        } else {
            take_registers::<REGISTERS>();
            if p.pass == 0 && p.output == output::CI4 {
                multiply_units::<STEPS, HELD, false>(p, units, tile, shared.weights, pipeline);
            } else {
                multiply_units::<STEPS, HELD, true>(p, units, tile, shared.weights, pipeline);
            }
        }
    }
}

/// The kernels that [`warpgroup_beamformers`](crate::abi::beamform) declares.
macro_rules! beamformers {
    ($($tile:ident $kernel:ident $name:ident: $beams:literal x $dishes:literal by $part:literal, $held:literal held,
       $stages:literal stages, $packed:literal packed;)*) => {$(
        kernel! {
            #[doc = concat!(stringify!($beams), " beams by ", stringify!($dishes), " dishes.")]
            fn $name(p: Beamform) {
                const TILE: WarpgroupTile = beamform::$tile;
                beamform::<
                    { TILE.part as usize / 32 },
                    { TILE.held as usize },
                    { TILE.packed - 1 },
                    { TILE.registers() },
                >(&p, TILE)
            }
        }
    )*};
}

beamform::warpgroup_beamformers!(beamformers);

/// A warpgroup: brings the block's units to shared memory, in int8, part by part.
///
/// Long, as copying ahead and unpacking share where the thread's bytes are.
///
/// # Safety
/// - The first 128 threads of the block call it together, once, in a launch that keeps the conditions of [`Beamform`].
/// - `tile` is the kernel's, `packed` and `pipeline` are of its plan; `units` is the block's share.
/// - `PENDING` is the number of packed stages less one.
#[inline(always)]
unsafe fn unpack_units<const PENDING: u32>(
    p: &Beamform,
    units: Units,
    tile: WarpgroupTile,
    packed: Region,
    pipeline: Pipeline,
) {
    // A thread has the same dishes of every part of every `times`-th time.
    let copies = tile.part / COPY_DISHES;
    let dish = thread() % copies * COPY_DISHES;
    let first_time = thread() / copies;
    let times = WARPGROUP / copies;
    let each = divisor(units.each);
    let time_pitch = p.streams as u64 * p.voltage_pitch;
    let place = first_time * tile.part + dish;
    let end = units.end * tile.parts();

    let copy = |step: u32| {
        if step < end {
            let (unit, dish) = (step / tile.parts(), step % tile.parts() * tile.part + dish);
            let left = p.row_bytes.saturating_sub(dish);
            let bytes = if left < COPY_DISHES { left } else { COPY_DISHES };
            let (stream, start) = (unit / each, unit % each * UNIT_TIMES + first_time);
            let mut address = p.voltages
                + stream as u64 * p.voltage_pitch
                + start as u64 * time_pitch
                + dish as u64;
            let mut to = packed.at(pipeline.base, step % tile.packed) + place;
            let mut time = 0;
            while time < opaque(UNIT_TIMES) {
                let there = start + time < p.times && bytes > 0;
                // SAFETY: dishes of a time that is there, to the thread's own place; what is not read has an address in
                // the voltages.
                unsafe {
                    cp_async_16(
                        to,
                        if there { address } else { p.voltages },
                        if there { bytes } else { 0 },
                    );
                }
                address += times as u64 * time_pitch;
                to += times * tile.part;
                time += times;
            }
        }
        cp_async_commit();
    };

    let (panel, chunk) = (dish / PANEL_DISHES, dish % PANEL_DISHES / COPY_DISHES);
    let panel = panel * WarpgroupTile::COLUMNS * PANEL_DISHES;
    let first = units.first * tile.parts();
    let mut ahead = 0;
    while ahead < tile.packed {
        copy(first + ahead);
        ahead += 1;
    }
    // In the first lap, every stage is empty.
    let (mut step, mut ring) = (first, Ring { stage: 0, parity: 1 });
    while step < end {
        cp_async_wait::<PENDING>();
        // SAFETY: the thread's own copies, waited for; the stage was read by all, as its barrier says.
        unsafe {
            mbarrier_wait(pipeline.plan.empty.at(pipeline.base, ring.stage), ring.parity);
            let from = packed.at(pipeline.base, step % tile.packed) + place;
            let to = pipeline.stage(&ring) + panel;
            let mut time = 0;
            while time < opaque(UNIT_TIMES) {
                // Two at a time: the second load hides behind the first.
                let pair = [0, times]
                    .map(|later| (time + later, load_shared_4(from + (time + later) * tile.part)));
                for (time, words) in pair {
                    let row = map::warpgroup_row(first_time + time);
                    let real = to + panel::offset(row, chunk);
                    store_shared_4(real, words.map(|word| word & 0xf0f0_f0f0));
                    store_shared_4(
                        real + UNIT_TIMES * PANEL_DISHES,
                        words.map(|word| word << 4 & 0xf0f0_f0f0),
                    );
                }
                time += 2 * times;
            }
            fence_proxy_async();
            pipeline.arrive_full(&ring);
        }
        copy(step + tile.packed);
        pipeline.advance(&mut ring);
        step += 1;
    }
    cp_async_wait::<0>();
}

/// A warpgroup: forms 32 beams of the block's units.
///
/// # Safety
/// - The 128 threads of a warpgroup behind the first call it together, once, in a launch that keeps the conditions of
///   [`Beamform`].
/// - `tile` is the kernel's, of `STEPS` fragments a part and `HELD` parts in registers; `kept` and `pipeline` are of its plan;
///   `units` is the block's share.
/// - `GENERAL`, unless the launch adds no passes and stores `ci4`.
/// - No other block forms these beams of these units.
#[inline(always)]
unsafe fn multiply_units<const STEPS: usize, const HELD: usize, const GENERAL: bool>(
    p: &Beamform,
    units: Units,
    tile: WarpgroupTile,
    kept: Region,
    pipeline: Pipeline,
) where
    [[u32; 4]; STEPS]: Weights,
{
    let beams = tile.beams;
    let padded_beams = p.groups * beams;
    let each = divisor(units.each);
    let (mut stream, mut unit) = (units.first / each, units.first % each);
    let mut left = units.end - units.first;

    let mut weights = [[[0u32; 4]; STEPS]; HELD];
    let mut clipped = [0u32];
    let mut fresh = true;
    // The ring, as two words: of a `Ring` the assembler makes one register more than the 32 x 512 tile has.
    let (mut stage, mut parity) = (0, 0);
    while left > 0 {
        // Registers are short: values that follow from a thread's index are computed again.
        let warp_beam = units.group * beams + 8 * (opaque(thread() - WARPGROUP) / 32);
        if fresh {
            let group = (stream * padded_beams + warp_beam) / 8;
            for part in 0..HELD {
                // SAFETY: eight beams of the warp, and dishes of the tile, which the weights are padded to.
                weights[part] = unsafe { load_weights(p, group, part as u32 * tile.part) };
            }
            if tile.held < tile.parts() {
                // SAFETY: the whole warpgroup, and its part of the shared memory.
                unsafe { keep_weights(p, group, tile, kept, pipeline.base) };
            }
            fresh = false;
        }
        // The stage's columns, when they are there.
        let columns = |stage: u32, parity: u32| {
            // SAFETY: the barriers are there.
            unsafe { mbarrier_wait(pipeline.plan.full.at(pipeline.base, stage), parity) };
            descriptor(pipeline.plan.data.at(pipeline.base, stage))
        };
        // Lets the stage be filled anew, and goes on to the next.
        let next = |stage: &mut u32, parity: &mut u32| {
            warp_barrier();
            if lane() == 0 {
                // SAFETY: the barriers are there.
                unsafe { mbarrier_arrive(pipeline.plan.empty.at(pipeline.base, *stage)) };
            }
            *stage += 1;
            if *stage == tile.stages {
                *stage = 0;
                *parity ^= 1;
            }
        };
        // SAFETY: a stage holds a part of the unit, as its barrier says; the weights are there.
        let sums = unsafe {
            let mut sums = weights[0].multiply(columns(stage, parity));
            next(&mut stage, &mut parity);
            for part in 1..HELD {
                weights[part].add(&mut sums, columns(stage, parity));
                next(&mut stage, &mut parity);
            }
            let mut part = tile.held;
            while part < tile.parts() {
                // From one lane, so that the assembler knows that it is the same in all.
                let group = shfl(opaque(thread() - WARPGROUP) / WARPGROUP, 0);
                let index = group * (tile.parts() - tile.held) + part - tile.held;
                let rows = descriptor(kept.at(pipeline.base, index));
                match tile.part {
                    128 => add_128(&mut sums, rows, columns(stage, parity)),
                    _ => add_256(&mut sums, rows, columns(stage, parity)),
                }
                next(&mut stage, &mut parity);
                part += 1;
            }
            sums
        };

        let thread = opaque(thread() - WARPGROUP);
        let beam = units.group * beams + thread / 32 * 8 + thread % 32 / 4;
        let row = (stream * padded_beams + beam) as u64;
        let time = unit * UNIT_TIMES + 16 * (thread % 4);
        // SAFETY: four words of a beam, which beams are padded to.
        let beam_words = unsafe { load_global_4(p.beams + 16 * row) };
        let sample_row = beam as u64 * p.streams as u64 + stream as u64;
        let mut words = [0; 4];
        for word in 0..4 {
            let mut quad = quad(&sums, word);
            if GENERAL {
                let time = time + 4 * word as u32;
                let first = row * (units.each * UNIT_TIMES) as u64 + time as u64;
                // SAFETY: these four sums, and samples, are this lane's alone.
                unsafe {
                    add_passes::<Int32>(&mut quad, 4, p.partial + 8 * first, p.pass);
                    if p.pass & pass::KEEP == 0 && beam < p.beam_count {
                        clipped[0] += finish_times::<Int32>(p, &quad, beam_words, sample_row, time);
                    }
                }
            } else {
                let (samples, count) = quantise(&quad, beam_words);
                words[word] = samples;
                clipped[0] += count;
            }
        }
        if !GENERAL && beam < p.beam_count {
            // SAFETY: no other lane has these times of this beam.
            unsafe { store::<4>(p.samples + sample_row * p.sample_pitch, time, p.times, &words) };
        }

        unit += 1;
        left -= 1;
        if unit == units.each || left == 0 {
            // SAFETY: a counter of a stream that is there, by all lanes of the warp.
            unsafe { add_clipped(p, stream, &mut clipped, |_| beam) };
            (stream, unit, fresh) = (stream + 1, 0, true);
        }
    }
}

/// The fragments of a warp's rows of a part of the weights: as many as there are 32 dishes.
trait Weights {
    /// The sums of 64 rows and the 128 columns of the unit that the descriptor `b` describes, in panels of
    /// [`PANEL_DISHES`]: one fragment after the other, and nothing waits between.
    ///
    /// # Safety
    /// - All 128 threads of the warpgroup call it together, with the same `b`.
    /// - `b` is the [`descriptor`] of 128 columns in panels in the block's shared memory, at a multiple of 1024 bytes.
    /// - The panels are complete, and visible to `wgmma`: the thread has waited for the stage's barrier. Nobody writes them
    ///   before the call returns.
    unsafe fn multiply(&self, b: u64) -> [u32; 64];

    /// Adds those sums.
    ///
    /// # Safety
    /// - All that [`multiply`](Self::multiply) asks for.
    unsafe fn add(&self, sums: &mut [u32; 64], b: u64);
}

/// Stamps [`Weights`] for so many fragments: words of operands in sixteens, those behind the sums, then the
/// number and the name of each fragment's columns.
macro_rules! multiply {
    ($($fragments:literal: $words:tt, $columns:tt;)*) => {$(
        accumulator_words! { $words [] multiply ($fragments $columns) }
    )*};
    (@words $words:tt ($fragments:literal $columns:tt)) => {
        multiply! { @ $fragments $words $columns [] }
    };
    // Four words are a fragment.
    (@ $fragments:literal [$a:tt $b:tt $c:tt $d:tt $($word:tt)*]
        [$number:tt $columns:ident $($more:tt)*] [$($done:tt)*]) => {
        multiply! { @ $fragments [$($word)*] [$($more)*]
            [$($done)* ($number $columns $a $b $c $d)] }
    };
    (@ $fragments:literal [] [] $done:tt) => {
        impl Weights for [[u32; 4]; $fragments] {
            #[inline(always)]
            unsafe fn multiply(&self, b: u64) -> [u32; 64] {
                let mut sums = [0; 64];
                // SAFETY: a whole warpgroup on panels that are there and visible. The first product overwrites the sums.
                unsafe { multiply!(@scope out self sums b setp_ne $done) };
                sums
            }

            #[inline(always)]
            unsafe fn add(&self, sums: &mut [u32; 64], b: u64) {
                // SAFETY: a whole warpgroup on panels that are there and visible.
                unsafe { multiply!(@scope inout self sums b setp_eq $done) };
            }
        }
    };
    // `$compare` of zero and zero: whether the first product adds to the sums.
    (@scope $direction:ident $self:ident $sums:ident $b:ident $compare:ident
        [$(($number:tt $columns:ident $w0:tt $w1:tt $w2:tt $w3:tt))*]) => {
        asm_scope! {
            $direction $sums: (0, 128);
            [
                registers!(pred first more; b64 b),
                instruction!($compare "first", 0, 0),
                instruction!(setp_eq "more", 0, 0),
                wgmma_fence!(),
                $(multiply!(@fragment $number, $columns, $w0 $w1 $w2 $w3),)*
                wgmma_commit!(),
                wgmma_wait!(0),
            ]
            [
                $(
                    in(reg32) $self[$number][0], in(reg32) $self[$number][1],
                    in(reg32) $self[$number][2], in(reg32) $self[$number][3],
                )*
                b = in(reg64) $b,
            ]
            [
                $($columns: descriptor_step(
                    WarpgroupTile::fragment_offset($number, WarpgroupTile::COLUMNS)
                ),)*
            ]
        }
    };
    (@fragment 0, $columns:ident, $($a:tt)*) => {
        multiply!(@product $columns, "first", $($a)*)
    };
    (@fragment $number:tt, $columns:ident, $($a:tt)*) => {
        multiply!(@product $columns, "more", $($a)*)
    };
    (@product $columns:ident, $accumulate:literal, $a:tt $b:tt $c:tt $d:tt) => {
        concat!(
            instruction!(add_64 "b", {b}, {$columns}),
            wgmma!(s8, (0, 128), operands $a $b $c $d, "b", $accumulate),
        )
    };
}

multiply! {
    4: [4], [0 b0 1 b1 2 b2 3 b3];
    8: [4 5], [0 b0 1 b1 2 b2 3 b3 4 b4 5 b5 6 b6 7 b7];
    16: [4 5 6 7], [
        0 b0 1 b1 2 b2 3 b3 4 b4 5 b5 6 b6 7 b7
        8 b8 9 b9 10 b10 11 b11 12 b12 13 b13 14 b14 15 b15
    ];
}

/// Stamps functions that add the sums of the 64 rows that the descriptor `a` describes, in panels as those of the
/// 128 columns `b`: the dishes of a part, the number of each fragment and the names of its steps.
macro_rules! add_parts {
    ($($name:ident: $dishes:literal, [$($number:literal $rows:ident $columns:ident),*];)*) => {$(
        /// # Safety
        /// - All that [`Weights::multiply`] asks for, of the columns and of the 64 rows that `a` describes.
        #[inline(always)]
        unsafe fn $name(sums: &mut [u32; 64], a: u64, b: u64) {
            const FRAGMENTS: &[u32] = &[$($number),*];
            const { assert!($dishes == FRAGMENTS.len() as u32 * WarpgroupTile::FRAGMENT_DISHES) };
            // SAFETY: a whole warpgroup on panels that are there and visible; the text waits for its products.
            unsafe {
                asm_scope! {
                    inout sums: (0, 128);
                    [
                        registers!(pred more; b64 a b),
                        instruction!(setp_eq "more", 0, 0),
                        wgmma_fence!(),
                        $(
                            instruction!(add_64 "a", {a}, {$rows}),
                            instruction!(add_64 "b", {b}, {$columns}),
                            wgmma!(s8, (0, 128), panel "a", "b", "more"),
                        )*
                        wgmma_commit!(),
                        wgmma_wait!(0),
                    ]
                    [
                        a = in(reg64) a,
                        b = in(reg64) b,
                    ]
                    [
                        $(
                            $rows: descriptor_step(
                                WarpgroupTile::fragment_offset($number, WarpgroupTile::ROWS)
                            ),
                            $columns: descriptor_step(
                                WarpgroupTile::fragment_offset($number, WarpgroupTile::COLUMNS)
                            ),
                        )*
                    ]
                }
            };
        }
    )*};
}

add_parts! {
    add_128: 128, [0 a0 b0, 1 a1 b1, 2 a2 b2, 3 a3 b3];
    add_256: 256, [0 a0 b0, 1 a1 b1, 2 a2 b2, 3 a3 b3, 4 a4 b4, 5 a5 b5, 6 a6 b6, 7 a7 b7];
}

/// Fragment `step` of a warp's eight beams, `group` of them in the order of [`map::warpgroup_weight`].
///
/// # Safety
/// - The launch keeps the conditions of [`Beamform`]: `p.weights` has whole chunks of all beams, padded.
/// - `group` is below an eighth of the padded beams of all streams, and `step` that of a chunk of the weights.
#[inline(always)]
unsafe fn load_fragment(p: &Beamform, group: u32, step: u32) -> [u32; 4] {
    const WARP_BYTES: u32 = CHUNK_BYTES * 8 / ROW_BEAMS;
    let address = p.weights
        + (group / 2) as u64 * p.weight_chunks as u64 * CHUNK_BYTES as u64
        + (group % 2 * WARP_BYTES + 16 * lane()) as u64;
    let offset = step / map::STEPS * CHUNK_BYTES + step % map::STEPS * 512;
    // SAFETY: 16 aligned bytes of a chunk.
    unsafe { load_global_4(address + offset as u64) }
}

/// The fragments of a part of the dishes, from `dish` on.
///
/// # Safety
/// - All that [`load_fragment`] asks for, of `STEPS` steps from that of `dish`, a multiple of 32, on.
#[inline(always)]
unsafe fn load_weights<const STEPS: usize>(
    p: &Beamform,
    group: u32,
    dish: u32,
) -> [[u32; 4]; STEPS] {
    let mut weights = [[0; 4]; STEPS];
    for step in 0..STEPS {
        // SAFETY: a step of the part.
        weights[step] = unsafe { load_fragment(p, group, dish / 32 + step as u32) };
    }
    weights
}

/// Brings a warpgroup's weights that are not in registers to its part of the shared memory, as panels.
///
/// # Safety
/// - All 128 threads of the warpgroup call it together.
/// - All that [`load_fragment`] asks for, of all steps of the parts that are not held.
/// - `kept` has those parts in the block's shared memory, from a multiple of 1024 bytes on; nobody else uses the
///   warpgroup's.
#[inline(always)]
unsafe fn keep_weights(p: &Beamform, group: u32, tile: WarpgroupTile, kept: Region, base: u32) {
    let thread = opaque(thread() - WARPGROUP);
    let warpgroup = thread / WARPGROUP;
    let parts = tile.parts() - tile.held;
    let to = kept.at(base, warpgroup * parts);
    // Products still read the weights before these.
    named_barrier::<WARPGROUP>(1 + warpgroup);
    let steps = tile.part / 32;
    let mut step = 0;
    while step < opaque(parts * steps) {
        // SAFETY: a step of a part that is not held.
        let words = unsafe { load_fragment(p, group, tile.held * steps + step) };
        let panel = to + step / 4 * WarpgroupTile::ROWS * PANEL_DISHES;
        for word in 0..4 {
            let place = fragment::a(lane(), word, 0);
            let row = thread % WARPGROUP / 32 * 16 + place.row;
            let byte = step % 4 * 32 + place.column;
            // SAFETY: a word of the warpgroup's panels, this lane's.
            unsafe {
                store_shared(
                    panel + panel::offset(row, byte / COPY_DISHES) + byte % COPY_DISHES,
                    words[word as usize],
                );
            }
        }
        step += 1;
    }
    fence_proxy_async();
    named_barrier::<WARPGROUP>(1 + warpgroup);
}

/// Times `4 index..4 index + 4` of a lane's 16: from the four products of each.
#[inline(always)]
fn quad(sums: &[u32; 64], index: usize) -> Quad {
    let mut quad = [[0; 2]; 4];
    for time in 0..4 {
        // Two columns of eight are the lane's.
        let real = 4 * (2 * index + time / 2) + time % 2;
        let imaginary = 32 + real;
        quad[time] = [
            sums[real].wrapping_sub(sums[imaginary + 2]) as i32,
            sums[imaginary].wrapping_add(sums[real + 2]) as i32,
        ];
    }
    quad
}

const _: () = assert!(CHUNK_DISHES == 32 * map::STEPS);
