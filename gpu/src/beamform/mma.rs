//! The beamformer on `mma.sync` (sm_80 and later): the four steps of Smith, "CHORD 8-bit baseband
//! beamformer", sections 3 to 6.
//!
//! A block holds the weights of a tile of beams by dishes in registers for as long as it works on
//! one stream, and takes the stream's times in units of 64:
//!
//! 1. *Load* (section 3): `E` is copied to shared memory asynchronously, units ahead.
//! 2. *Multiply* (section 4): a warp has 16 beams by up to 256 dishes. It reads 16 bytes of `E` a
//!    lane, makes int8 of the nibbles, and multiplies into 32-bit sums.
//! 3. *Reduce* (section 5): two warps that share the beams exchange half of their sums through
//!    shared memory, so that each ends with 8 beams.
//! 4. *Quantise and store* (sections 5 and 6): bias, shift, clamp; a lane has 16 consecutive times
//!    of a beam, and stores them at once. The order of times in [`map`] makes it so.
//!
//! Nibbles become int8 sixteen times as large by masking, without sign extension:
//!
//! ```text
//! r = E & 0xf0 = 16 re      i = E << 4 & 0xf0 = 16 im      c = i ^ 0xf0 = 16 (-im - 1)
//! sum A_re r + A_im c = 16 (Re J - sum A_im)               sum A_re i + A_im r = 16 Im J
//! ```
//!
//! The complement stands for the negation, which int8 cannot hold at 16 * -8; what it leaves out is
//! a constant of the beam, part of the bias. A sum of 512 dishes stays below 2^24, and further
//! dishes are added in launches of their own, at their own scale: exact for every byte. (The note
//! shifts partial sums to 16 bits, eq. 19, which is not.)
//!
//! Bound by the tensor cores: of a warp's 16 beams by 64 dishes by 16 times, 16 `mma`, 2 loads from
//! shared memory and 32 integer instructions for the nibbles; then, once for all dishes, 12 integer
//! instructions for each sample of a lane.

use crate::{
    abi::beamform::{self, Beamform, CHUNK_BYTES, CHUNK_DISHES, Tile, UNIT_TIMES, pass},
    beamform::{
        finish::{Quad, add_clipped, add_passes, quantise, store},
        map,
    },
    isa::{
        common::{
            barrier, block, blocks, dynamic_shared, lane, load_global_4, load_shared_4,
            named_barrier, opaque, store_shared_4, thread,
        },
        sm_80::{cp_async_16, cp_async_commit, cp_async_wait, cp_async_whole_16, mma_m16n8k32_s8},
    },
    tile::divisor,
};

/// Dishes of one 16-byte copy.
const COPY_DISHES: u32 = 16;

/// Real and imaginary nibbles of a word of four voltages.
const NIBBLES: u32 = 0xf0f0_f0f0;

/// Weights of a warp: `[chunk][step][part]` fragments.
type Weights<const CHUNKS: usize> = [[[[u32; 4]; 2]; map::STEPS as usize]; CHUNKS];

/// Sums of a warp over its dishes: `[fragment][part]`, 16 beams by 2 * 8 times.
type Sums = [[[u32; 4]; 2]; 2];

/// What a warp is there for.
#[derive(Clone, Copy)]
struct Role {
    dish_warp: u32,
    beam_warp: u32,
    time_warp: u32,
    /// Warps along the dishes that share this one's beams and times.
    pair: u32,
}

impl Role {
    #[inline(always)]
    fn of_warp(warp: u32, tile: Tile) -> Self {
        let pair = warp / tile.dish_warps;
        Self {
            dish_warp: warp % tile.dish_warps,
            beam_warp: pair % tile.beam_warps,
            time_warp: pair / tile.beam_warps,
            pair,
        }
    }
}

/// Starts copying a unit of voltages, `UNIT_TIMES` from `time` on, to the shared memory at `shared`.
/// What lies beyond the last time or dish becomes zero, and so do the samples.
///
/// # Safety
/// Every thread of the block calls it; the unit has room; the voltages are what [`Beamform`] says.
#[inline(always)]
unsafe fn stage(p: &Beamform, tile: Tile, shared: u32, stream: u32, time: u32) {
    let copies = tile.dishes() / COPY_DISHES;
    let rows = tile.threads() / copies;
    let (first_row, dish) = (thread() / copies, thread() % copies * COPY_DISHES);
    let whole = p.dishes == tile.dishes() && p.times - time >= UNIT_TIMES;
    let time_pitch = p.streams as u64 * p.voltage_pitch;
    let mut address = p.voltages
        + stream as u64 * p.voltage_pitch
        + (time + first_row) as u64 * time_pitch
        + dish as u64;
    let mut shared = shared + first_row * tile.pitch() + dish;
    let mut row = 0;
    while row < UNIT_TIMES {
        if rows * (UNIT_TIMES / rows) == UNIT_TIMES || first_row + row < UNIT_TIMES {
            // SAFETY: the caller's promise; what is not read has an address inside the voltages.
            unsafe {
                if whole {
                    cp_async_whole_16(shared, address);
                } else if time + first_row + row < p.times && dish < p.dishes {
                    cp_async_16(shared, address, (p.dishes - dish).min(COPY_DISHES));
                } else {
                    cp_async_16(shared, p.voltages, 0);
                }
            }
        }
        shared += rows * tile.pitch();
        address += rows as u64 * time_pitch;
        row += rows;
    }
}

/// The weights of a warp, from `address` on: those of its first chunk.
///
/// # Safety
/// The weights are readable.
#[inline(always)]
unsafe fn load_weights<const CHUNKS: usize>(address: u64) -> Weights<CHUNKS> {
    let mut weights = [[[[0; 4]; 2]; map::STEPS as usize]; CHUNKS];
    let address = address + map::weight_offset(0, 0, lane()) as u64;
    for chunk in 0..CHUNKS {
        for step in 0..map::STEPS as usize {
            for part in 0..2 {
                let offset = chunk as u64 * CHUNK_BYTES as u64
                    + map::weight_offset(step as u32, part as u32, 0) as u64;
                // SAFETY: the caller's promise.
                weights[chunk][step][part] = unsafe { load_global_4(address + offset) };
            }
        }
    }
    weights
}

/// `sum_d A E` over the dishes of a warp, for two fragments of 8 times; `voltages` is where the lane
/// finds those of the first.
///
/// # Safety
/// All lanes of the warp call it; the unit of voltages is complete and visible.
#[inline(always)]
unsafe fn multiply<const CHUNKS: usize>(
    weights: &Weights<CHUNKS>,
    tile: Tile,
    voltages: u32,
) -> Sums {
    let mut sums = [[[0; 4]; 2]; 2];
    for chunk in 0..CHUNKS {
        let mut loaded = [[0; 4]; 2];
        for fragment in 0..2 {
            let time = map::time(tile.time_warps, 0, 0, fragment as u32, 0);
            let offset = time * tile.pitch() + chunk as u32 * CHUNK_DISHES;
            // SAFETY: the caller's promise.
            loaded[fragment] = unsafe { load_shared_4(voltages + offset) };
        }
        for step in 0..map::STEPS as usize {
            let words = loaded.map(|words| [words[2 * step], words[2 * step + 1]]);
            let real = words.map(|words| words.map(|word| word & NIBBLES));
            let imaginary = words.map(|words| words.map(|word| word << 4 & NIBBLES));
            let complement = words.map(|words| words.map(|word| !(word << 4) & NIBBLES));
            let [a_real, a_imaginary] = weights[chunk][step];
            for fragment in 0..2 {
                mma_m16n8k32_s8(&mut sums[fragment][0], a_real, real[fragment]);
                mma_m16n8k32_s8(&mut sums[fragment][1], a_real, imaginary[fragment]);
            }
            for fragment in 0..2 {
                mma_m16n8k32_s8(&mut sums[fragment][0], a_imaginary, complement[fragment]);
                mma_m16n8k32_s8(&mut sums[fragment][1], a_imaginary, real[fragment]);
            }
        }
    }
    sums
}

/// The sums of a lane's beams in an iteration over all dishes of the block: of beams `lane / 4` and
/// `lane / 4 + 8`, or, where two warps share the dishes, of the one that this warp keeps.
///
/// # Safety
/// All lanes of the warps along the dishes call it together; `exchange` is 1024 bytes of shared
/// memory for each warp of the block.
#[inline(always)]
unsafe fn reduce<const LANE_BEAMS: usize>(
    sums: &Sums,
    exchange: u32,
    pair: u32,
) -> [Quad; LANE_BEAMS] {
    let mut quads = [[[0; 2]; 4]; LANE_BEAMS];
    for beam in 0..LANE_BEAMS {
        for time in 0..4 {
            for part in 0..2 {
                quads[beam][time][part] = sums[time / 2][part][2 * beam + time % 2] as i32;
            }
        }
    }
    if LANE_BEAMS == 1 {
        let warp = thread() / 32;
        let slot = |warp: u32, fragment: usize| {
            exchange + warp * 1024 + fragment as u32 * 512 + lane() * 16
        };
        // The other warp has read what was given in the iteration before.
        named_barrier::<64>(1 + pair);
        for fragment in 0..2 {
            let [[_, _, a, b], [_, _, c, d]] = sums[fragment];
            // SAFETY: this warp's slot.
            unsafe { store_shared_4(slot(warp, fragment), [a, b, c, d]) };
        }
        named_barrier::<64>(1 + pair);
        for fragment in 0..2 {
            // SAFETY: the other warp's slot, complete.
            let [a, b, c, d] = unsafe { load_shared_4(slot(warp ^ 1, fragment)) };
            for (time, [real, imaginary]) in [(0, [a, c]), (1, [b, d])] {
                let sum = &mut quads[0][2 * fragment + time];
                sum[0] = sum[0].wrapping_add(real as i32);
                sum[1] = sum[1].wrapping_add(imaginary as i32);
            }
        }
    }
    quads
}

/// The whole of a block's work.
///
/// # Safety
/// As the kernels'.
#[inline(always)]
unsafe fn beamform<
    const CHUNKS: usize,
    const LANE_BEAMS: usize,
    const WORDS: usize,
    const PENDING: u32,
>(
    p: &Beamform,
    tile: Tile,
) {
    let shared = dynamic_shared();
    let exchange = shared + tile.stages * tile.unit_bytes();
    let role = Role::of_warp(thread() / 32, tile);

    // The blocks of a group of beams share its units, those of all streams in a row.
    let groups = divisor(p.groups);
    let (group, part) = (block() % groups, block() / groups);
    let parts = divisor(blocks() / groups);
    let units = divisor(p.times.div_ceil(UNIT_TIMES));
    let total = units.get() * p.streams;
    let (each, more) = (total / parts, total % parts);
    let first = part * each + if part < more { part } else { more };
    let end = first + each + (part < more) as u32;

    let unit_address = |unit: u32| shared + unit % tile.stages * tile.unit_bytes();
    let stage_unit = |unit: u32| {
        if unit < end {
            // SAFETY: the caller's promise; the unit there before was read before the last barrier.
            unsafe {
                stage(p, tile, unit_address(unit), unit / units, unit % units * UNIT_TIMES);
            }
        }
        cp_async_commit();
    };
    let mut ahead = 0;
    while ahead < tile.stages - 1 {
        stage_unit(first + ahead);
        ahead += 1;
    }

    let padded_beams = p.groups * tile.beams();
    let first_beam = group * tile.beams() + role.beam_warp * beamform::WARP_BEAMS;
    let lane_beam =
        |index: usize| first_beam + map::kept_beam(lane(), role.dish_warp, index as u32);
    let lane_time = map::time(tile.time_warps, role.time_warp, 0, 0, lane() % 4 * 2);
    let voltages = map::voltage_offset(tile, role.time_warp, role.dish_warp, lane());

    let mut weights: Weights<CHUNKS> = [[[[0; 4]; 2]; map::STEPS as usize]; CHUNKS];
    let mut clipped = [0u32; LANE_BEAMS];
    let mut stream = u32::MAX;

    let mut unit = first;
    while unit < end {
        if unit / units != stream {
            // SAFETY: the caller's promise.
            unsafe {
                add_clipped(p, stream, &mut clipped, lane_beam);
                stream = unit / units;
                let chunks = (stream * (padded_beams / beamform::WARP_BEAMS)
                    + first_beam / beamform::WARP_BEAMS) as u64
                    * p.weight_chunks as u64
                    + (role.dish_warp * tile.chunks) as u64;
                weights = load_weights(p.weights + chunks * CHUNK_BYTES as u64);
            }
        }
        cp_async_wait::<PENDING>();
        barrier();
        stage_unit(unit + tile.stages - 1);

        let unit_time = unit % units * UNIT_TIMES;
        let mut words = [[0u32; 4]; LANE_BEAMS];
        let mut iteration = 0;
        while iteration < opaque(WORDS as u32) {
            let rows = 4 * iteration * tile.pitch();
            // SAFETY: the unit was waited for; all warps come here together.
            let sums = unsafe { multiply(&weights, tile, unit_address(unit) + voltages + rows) };
            let row = |index: usize| (stream * padded_beams + lane_beam(index)) as u64;
            let mut beams = [[0; 4]; LANE_BEAMS];
            for index in 0..LANE_BEAMS {
                // SAFETY: the caller's promise.
                beams[index] = unsafe { load_global_4(p.beams + 16 * row(index)) };
            }
            // SAFETY: as above; `exchange` lies behind the units.
            let mut quads = unsafe { reduce::<LANE_BEAMS>(&sums, exchange, role.pair) };
            for index in 0..LANE_BEAMS {
                if p.pass != 0 {
                    let row = row(index) * (units.get() * UNIT_TIMES) as u64;
                    let time = unit_time + lane_time + 4 * iteration;
                    // SAFETY: the caller's promise: these four sums are this lane's.
                    unsafe {
                        add_passes(&mut quads[index], p.partial + 8 * (row + time as u64), p.pass);
                    }
                }
                if p.pass & pass::KEEP == 0 {
                    let (word, count) = quantise(&quads[index], beams[index]);
                    let [_, b, c, d] = words[index];
                    words[index] = [b, c, d, word];
                    clipped[index] += count;
                }
            }
            iteration += 1;
        }
        if p.pass & pass::KEEP == 0 {
            for index in 0..LANE_BEAMS {
                let beam = lane_beam(index);
                if beam < p.beam_count {
                    let row = p.samples
                        + (beam as u64 * p.streams as u64 + stream as u64) * p.sample_pitch;
                    // SAFETY: the caller's promise: no other lane has these times of this beam.
                    unsafe {
                        store::<WORDS>(row, unit_time + lane_time, p.times, &words[index]);
                    }
                }
            }
        }
        unit += 1;
    }
    cp_async_wait::<0>();
    // SAFETY: the caller's promise.
    unsafe { add_clipped(p, stream, &mut clipped, lane_beam) };
}

/// The kernels: a name and its tile.
macro_rules! beamformers {
    ($($(#[$attribute:meta])* $name:ident: $tile:ident;)*) => {$(
        kernel! {
            $(#[$attribute])*
            fn $name(p: Beamform) {
                beamform::<
                    { beamform::$tile.chunks as usize },
                    { 2 / beamform::$tile.dish_warps as usize },
                    { 4 / beamform::$tile.time_warps as usize },
                    { beamform::$tile.stages - 2 },
                >(&p, beamform::$tile)
            }
        }
    )*};
}

beamformers! {
    /// 16 beams by 512 dishes.
    beamform_mma_16x512: TILE_16X512;
    /// 32 beams by 512 dishes.
    beamform_mma_32x512: TILE_32X512;
    /// 64 beams by 512 dishes.
    beamform_mma_64x512: TILE_64X512;
    /// 96 beams by 512 dishes: the tile of CHORD.
    beamform_mma_96x512: TILE_96X512;
    /// 16 beams by 256 dishes.
    beamform_mma_16x256: TILE_16X256;
    /// 32 beams by 256 dishes.
    beamform_mma_32x256: TILE_32X256;
    /// 64 beams by 256 dishes.
    beamform_mma_64x256: TILE_64X256;
    /// 96 beams by 256 dishes.
    beamform_mma_96x256: TILE_96X256;
    /// 16 beams by 64 dishes.
    beamform_mma_16x64: TILE_16X64;
    /// 64 beams by 64 dishes.
    beamform_mma_64x64: TILE_64X64;
    /// 96 beams by 64 dishes.
    beamform_mma_96x64: TILE_96X64;
}
