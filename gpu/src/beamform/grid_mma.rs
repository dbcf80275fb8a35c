//! Beams of dishes on a grid on `mma.sync` (sm_80 and later). The steps and tables are [`crate::abi::grid_mma`]'s.
//!
//! ```text
//! samples -> [weigh] B fragments -> [rows] H, shared memory -> [gram] sums over time, registers
//!     -> [lags] R, shared memory -> [powers] beams      once for each block of times
//! ```
//!
//! A block of threads has all columns `q` of a channel, or a part of them, for one block of times after another. A step is
//! of 16 values of `s`, time and polarisation together. A warp makes the rows of some `m` of all columns: each lane
//! reads two dishes of a value of `s` and has the fragments of real and imaginary parts at once. Then it takes four
//! columns `q`, whose products of rows stay in its registers: squares and sums over time and polarisation are the
//! tensor cores'. Products of rows `m` and `m + d` are wanted summed over `m` alone, so tiles of the same
//! distance share accumulators; rows `H` and `-j H` of one matrix make both parts of a product in one: of 24 x 24
//! dishes 12 registers a column. The pairs of a lane's dishes take others, read once a channel.
//!
//! Half a turn of both axes is in the weights: columns come in pairs without exception, and so do beams. The cosines
//! and sines of a pair serve two more beams with other signs.
//!
//! Where shared memory has room for two stages of samples and two of `H`, one barrier a step is enough. Launches that have
//! both, and as many tiles as the kernel allows, take a loop of their own, in which the compiler knows that.
//!
//! Of 24 x 24 dishes a time and polarisation takes 18 products of `m16n8k16` and 18 of `m16n8k8` for rows, and 72 of
//! `m16n8k8` for sums: 63 of 2048 multiply-adds, where transforms to all beams by products of real matrices take 162.
//! Measured on an H200 (docs/notebook/beamform.md): 478 instructions of a warp, issue in 44 % of the cycles, L1 and shared
//! memory busy in 64 %, tensor cores in 43 %. Bound by latency: three warps of a scheduler wait for tensor cores, which all
//! use at the same time, for results of fixed latency and at the barrier. Cycles of a step before its first sample is read, of
//! addresses and branches, are lost by all warps together.
//!
//! Tried and lost: f32 sums of rows, which take a conversion for each two values and eight registers more (1.88 ms in
//! place of 1.73 ms); one row at a time (1.73 ms in place of 1.70 ms); sums by `m16n8k16`, whose operands are copied
//! (1.37 ms in place of 1.34 ms); pairs read at each step (1.52 ms); a loop in which one of three warps makes rows while the others
//! multiply (1.43 ms, 17 % more instructions); products of the step before ahead of rows in some warps and behind them in
//! others, as straight code (1.44 ms: values that all threads share no longer lie in uniform registers); copies in the middle
//! of rows (1.25 ms where ahead of them takes 1.21 ms); powers without a loop over lags (1.29 ms in place of 1.21 ms).
//!
//! Sources: "CHORD FRB beamformer" (kotekan, `julia/docs`) for the definition; powers as transforms of correlations are
//! Wiener and Khinchin's theorem.

use core::num::NonZeroU64;

use crate::{
    abi::{
        channelise::raw,
        grid::Axis,
        grid_mma::{
            COPY_BYTES, DEPTH, GROUPS, GridMma, Group, HALF_BYTES, Room, SLOTS, TILE_THREADS,
            TURNS, TWIDDLE_BYTES, WARP_SLOTS, even_tiles, most_tiles, row_pitch, slot_pitch,
            staged,
        },
    },
    isa::{
        common::{
            add_halves, barrier, block, blocks, dynamic_shared, fma_f32, fma_halves, halves, lane,
            load_global, load_global_2, load_global_4, load_global_8, load_shared, load_shared_2,
            load_shared_4, load_shared_8, load_shared_16, lop3, mul_halves, neg_halves, opaque,
            prmt, rolled, store_global, store_global_4, store_global_16, store_shared_4,
            store_shared_8, thread, threads, warp_barrier,
        },
        sm_80::{
            cp_async_commit, cp_async_wait, cp_async_whole_16, mma_m16n8k8_f16, mma_m16n8k8_halves,
            mma_m16n8k16_halves,
        },
    },
    tile::divisor,
};

/// Columns of a warp.
const COLUMNS: usize = WARP_SLOTS as usize;

/// Sums of products of a warp's columns: `[column][eights between the rows]`: real parts, then imaginary parts.
type Sums<const ROWS: usize> = [[[u32; 4]; ROWS]; COLUMNS];

/// Words of a lane's [pairs](crate::abi::grid_mma::Pair) of two rows: `[row][eight of places]`.
type Pairs<const EIGHTS: usize> = [[[u32; 4]; EIGHTS]; 2];

/// Fragments of weighted samples: `[eight of places][half of a step][real, imaginary]`.
type Fragments<const EIGHTS: usize> = [[[u32; 2]; 2]; EIGHTS];

/// Stamps the kernels, of eights of rows and of columns.
macro_rules! stamp {
    ($($name:ident: $rows:literal, $columns:literal;)*) => {$(
        kernel! {
            /// Powers of all beams of a grid of up to 8R x 8C dishes, R and C the literals of the kernel.
            fn $name(p: GridMma) {
                beams::<$rows, $columns>(&p);
            }
        }
    )*};
}

stamp! {
    beamform_grid_mma_2x2: 2, 2;
    beamform_grid_mma_2x3: 2, 3;
    beamform_grid_mma_2x4: 2, 4;
    beamform_grid_mma_3x2: 3, 2;
    beamform_grid_mma_3x3: 3, 3;
    beamform_grid_mma_3x4: 3, 4;
    beamform_grid_mma_4x2: 4, 2;
    beamform_grid_mma_4x3: 4, 3;
    beamform_grid_mma_4x4: 4, 4;
}

/// A channel, a part of the columns and a block of times.
#[derive(Clone, Copy)]
struct Item {
    index: u32,
    channel: u32,
    part: u32,
    /// Number of the block of times.
    number: u32,
}

impl Item {
    #[inline(always)]
    fn new(p: &GridMma, index: u32) -> Self {
        let (rest, number) = (index / divisor(p.blocks), index % divisor(p.blocks));
        let (channel, part) = (rest / divisor(p.parts), rest % divisor(p.parts));
        Self { index, channel, part, number }
    }

    /// The item behind this one, without a division.
    #[inline(always)]
    fn next(mut self, p: &GridMma) -> Self {
        self.index += 1;
        self.number += 1;
        if self.number == p.blocks {
            self.number = 0;
            self.part += 1;
            if self.part == p.parts {
                self.part = 0;
                self.channel += 1;
            }
        }
        self
    }
}

/// A step of an item.
#[derive(Clone, Copy)]
struct Step {
    item: Item,
    /// First time, and group of polarisations.
    time: u32,
    group: u32,
    /// End of the times of the item that are summed.
    stop: u32,
    /// Bytes from the first time that was carried to the step's, of the channel and the group.
    byte: u64,
    /// Number of times, from the first that was not carried, at which a step of the item has all its samples behind what was
    /// carried, in whole 16 bytes.
    whole: u32,
}

impl Step {
    /// First step of an item; one that has none stops where it begins.
    #[inline(always)]
    fn first(p: &GridMma, item: Item) -> Self {
        let full = p.first_times + item.number * p.block_times;
        let time = if item.number == 0 { 0 } else { full - p.block_times };
        let end = if full < p.times { full } else { p.times };
        let whole = time + ((end - time) & !(step_times(p) - 1));
        let stop = if item.number < p.complete || p.flush != 0 { end } else { whole };
        let stream = item.channel * p.groups * p.together;
        let byte = time as u64 * time_bytes(p) + stream as u64 * p.row_bytes as u64;
        let end = (stop + 1).saturating_sub(p.carried_times + step_times(p));
        let whole = if p.aligned != 0 { end } else { 0 };
        Self { item, time, group: 0, stop, byte, whole }
    }

    /// Whether all samples of the step are there, in whole 16 bytes, and none of them was carried.
    #[inline(always)]
    fn is_whole(&self, p: &GridMma) -> bool {
        self.time.wrapping_sub(p.carried_times) < self.whole
    }

    /// This step, or the first of the next item below `last` that has one.
    #[inline(always)]
    fn seek(mut self, p: &GridMma, last: u32) -> Self {
        while self.item.index < last && self.time >= self.stop {
            self = Self::first(p, self.item.next(p));
        }
        if self.item.index >= last {
            self.whole = 0;
        }
        self
    }

    /// The step behind this one.
    #[inline(always)]
    fn next(mut self, p: &GridMma, last: u32) -> Self {
        self.group += 1;
        self.byte += (p.together * p.row_bytes) as u64;
        if self.group == p.groups {
            self.group = 0;
            self.time += step_times(p);
            // Behind the groups of a channel.
            self.byte += step_times(p) as u64 * time_bytes(p);
            self.byte -= (p.groups * p.together) as u64 * p.row_bytes as u64;
        }
        self.seek(p, last)
    }
}

/// Bytes that a lane copies at once.
#[inline(always)]
fn copied(p: &GridMma) -> u32 {
    if p.aligned != 0 { COPY_BYTES } else { 1 }
}

/// Times of a step.
#[inline(always)]
fn step_times(p: &GridMma) -> u32 {
    DEPTH >> (p.together - 1)
}

/// Bytes of a time of all channels.
#[inline(always)]
fn time_bytes(p: &GridMma) -> u64 {
    (p.channels * p.groups * p.together) as u64 * p.row_bytes as u64
}

/// A warp's part of a block.
///
/// `PLAIN` launches have [as many tiles](Self::TILES) in a block as the kernel allows, two stages and two buffers.
struct Worker<const ROWS: usize, const EIGHTS: usize, const PLAIN: bool> {
    warp: u32,
    warps: u32,
    lane: u32,
    /// Row and column of the lane in fragments.
    eighth: u32,
    quarter: u32,
    room: Room,
    base: u32,
    /// Address of the samples, if they began at the first time that was carried.
    samples: u64,
    /// Bytes from a step's first sample to the lane's first of the value of `s` that is its warp's number.
    byte: u64,
    /// Place in a stage of the first 16 bytes that the lane copies of a whole step.
    place: u32,
    /// Bytes from samples that the warp copies to those of its next value of `s`.
    next_row: u64,
}

/// See the module.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`GridMma`], of `8 ROWS` rows
///   and `8 EIGHTS` dishes of a row at most.
/// - The block's shared memory has the [`Room`] of the parameters, all of it free.
#[inline(always)]
unsafe fn beams<const ROWS: usize, const EIGHTS: usize>(p: &GridMma) {
    let plain = p.tiles == even_tiles(EIGHTS as u32, most_tiles(ROWS as u32));
    // SAFETY: the same conditions; `PLAIN` is what it says.
    unsafe {
        if plain && p.stages == 2 && p.buffers == 2 {
            items::<ROWS, EIGHTS, true>(p);
        } else {
            items::<ROWS, EIGHTS, false>(p);
        }
    }
}

/// Powers of the block's items.
///
/// # Safety
/// - Those of [`beams`]; `PLAIN` only of launches that [are so](Worker).
#[inline(always)]
unsafe fn items<const ROWS: usize, const EIGHTS: usize, const PLAIN: bool>(p: &GridMma) {
    // SAFETY: a whole block in its own shared memory; barriers stand between copies, rows and products of a stage.
    unsafe {
        let of = Worker::<ROWS, EIGHTS, PLAIN>::new(p);
        let share = |block: u32| (block as u64 * p.items as u64 / long(blocks())) as u32;
        let (first, last) = (share(block()), share(block() + 1));
        let mut item = Item::new(p, first);
        let mut next = Step::first(p, item).seek(p, last);
        of.copy(p, &next, last, 0);
        of.clear(p);
        cp_async_wait::<0>();
        barrier();
        // With two of both, no warp writes a stage or buffer that another still reads.
        let alone = !PLAIN && (p.stages != 2 || p.buffers != 2);
        let mut parity = 0;
        // Pairs of the warp's first rows, and the channel and group of polarisations that they are of.
        let (mut pairs, mut held) = ([[[0; 4]; EIGHTS]; 2], (u32::MAX, 0));
        while item.index < last {
            let mut sums = of.begin(p, &item);
            while next.item.index == item.index {
                let step = next;
                next = step.next(p, last);
                let (stage, buffer) = of.places(p, parity);
                if PLAIN || p.stages == 2 {
                    of.copy(p, &next, last, stage ^ 1);
                }
                let two_rows = Worker::<ROWS, EIGHTS, PLAIN>::TWO_ROWS;
                if !two_rows && p.rows > 2 * of.warps || held != (step.item.channel, step.group) {
                    held = (step.item.channel, step.group);
                    pairs = of.pairs(p, &step, of.warp);
                }
                let places = [stage, buffer];
                // Nibbles, the voltages of most arrays, take one branch.
                if p.encoding >= raw::NIBBLES {
                    of.rows::<{ raw::NIBBLES }>(p, &mut pairs, &step, places);
                } else if p.encoding == raw::I8 {
                    of.rows::<{ raw::I8 }>(p, &mut pairs, &step, places);
                } else {
                    of.rows::<{ raw::F16 }>(p, &mut pairs, &step, places);
                }
                cp_async_wait::<0>();
                barrier();
                if !PLAIN && p.stages != 2 {
                    of.copy(p, &next, last, 0);
                }
                of.gram(&mut sums, buffer);
                if alone {
                    cp_async_wait::<0>();
                    barrier();
                }
                parity ^= 1;
            }
            let (_, buffer) = of.places(p, parity ^ 1);
            of.finish(p, &item, &sums, buffer);
            if alone {
                barrier();
            }
            item = item.next(p);
        }
    }
}

impl<const ROWS: usize, const EIGHTS: usize, const PLAIN: bool> Worker<ROWS, EIGHTS, PLAIN> {
    /// Tiles of a block that has as many as the kernel allows.
    const TILES: u32 = even_tiles(EIGHTS as u32, most_tiles(ROWS as u32));
    /// Warps of that block.
    const WARPS: u32 = Self::TILES * TILE_THREADS / 32;
    /// Whether no warp makes more rows of a step than the two whose pairs it keeps.
    const TWO_ROWS: bool = PLAIN && 8 * ROWS as u32 <= 2 * Self::WARPS;

    #[inline(always)]
    fn new(p: &GridMma) -> Self {
        let (warp, shift) = (thread() / 32, p.together - 1);
        let warps = if PLAIN { Self::WARPS } else { threads() / 32 };
        let polarisation = (warp & shift) * p.row_bytes + copied(p) * lane();
        Self {
            warp,
            warps,
            lane: lane(),
            eighth: lane() / 4,
            quarter: lane() % 4,
            room: Room::new(ROWS as u32, p.tiles, p.row_bytes, [p.stages, p.buffers]),
            base: dynamic_shared(),
            samples: p.samples.wrapping_sub(p.carried_times as u64 * time_bytes(p)),
            byte: (warp >> shift) as u64 * time_bytes(p) + polarisation as u64,
            place: warp % 8 * row_pitch(p.row_bytes)
                + warp / 8 * HALF_BYTES
                + staged(COPY_BYTES * lane()),
            next_row: (warps >> shift) as u64 * time_bytes(p),
        }
    }

    /// Number of the stage of samples and address of the buffer of `H` of a step.
    #[inline(always)]
    fn places(&self, p: &GridMma, parity: u32) -> (u32, u32) {
        let stage = if PLAIN || p.stages == 2 { parity } else { 0 };
        let buffer = if PLAIN || p.buffers == 2 { parity } else { 0 };
        (stage, self.room.half.at(self.base, buffer))
    }

    /// Clears the buffers of `H`, whose padding rows and ends of columns stay zero.
    ///
    /// # Safety
    /// - All threads of the block call it together, in a launch that keeps the conditions of [`GridMma`].
    /// - Nobody else uses these parts of the room before the next barrier.
    #[inline(always)]
    unsafe fn clear(&self, p: &GridMma) {
        let first = self.room.half.at(self.base, 0);
        let bytes = p.buffers * p.tiles * SLOTS * slot_pitch(ROWS as u32);
        let mut byte = 16 * thread();
        while byte < bytes {
            // SAFETY: within the room.
            unsafe { store_shared_4(first + byte, [0; 4]) };
            byte += 16 * threads();
        }
    }

    /// Begins to copy the samples of a step to a stage, if it is one of an item below `last`: a warp for each value of `s`.
    ///
    /// # Safety
    /// - All threads of the block call it together, in a launch that keeps the conditions of [`GridMma`].
    /// - `stage` is below `p.stages`; nobody reads the stage any more, or before a barrier that follows the wait for these
    ///   copies.
    #[inline(always)]
    unsafe fn copy(&self, p: &GridMma, step: &Step, last: u32, stage: u32) {
        // SAFETY: the same conditions.
        unsafe {
            if step.is_whole(p) {
                self.copy_whole(p, step, stage);
            } else if step.item.index < last {
                self.copy_parts(p, step, stage);
            }
        }
    }

    /// Begins to copy the samples of a step that [is whole](Step::is_whole), as [`copy`](Self::copy) says.
    ///
    /// # Safety
    /// - Those of [`copy`](Self::copy).
    #[inline(always)]
    unsafe fn copy_whole(&self, p: &GridMma, step: &Step, stage: u32) {
        let (stage, pitch) = (self.room.samples.at(self.base, stage), row_pitch(p.row_bytes));
        let place = |s: u32| s % 8 * pitch + s / 8 * HALF_BYTES;
        let (lane, mut of) = (COPY_BYTES * self.lane, self.samples + step.byte + self.byte);
        let first = stage + self.place;
        // SAFETY: whole 16 bytes within the row here and there.
        unsafe {
            // The warp's first 512 bytes without a loop: most warps have no more.
            if lane < p.row_bytes {
                cp_async_whole_16(first, of);
            }
            let (mut s, mut byte) = (self.warp, lane + 32 * COPY_BYTES);
            loop {
                if byte - lane >= p.row_bytes {
                    s += self.warps;
                    byte = lane;
                    of += self.next_row;
                }
                if s >= DEPTH {
                    break;
                }
                rolled();
                if byte < p.row_bytes {
                    let to = first - place(self.warp) + place(s) + 2 * (byte - lane);
                    cp_async_whole_16(to, of + (byte - lane) as u64);
                }
                byte += 32 * COPY_BYTES;
            }
        }
        cp_async_commit();
    }

    /// Begins to copy the samples of any step of an item, as [`copy`](Self::copy) says.
    ///
    /// # Safety
    /// - Those of [`copy`](Self::copy).
    #[inline(always)]
    unsafe fn copy_parts(&self, p: &GridMma, step: &Step, stage: u32) {
        let zero = if p.encoding == raw::NIBBLES_OFFSET { 0x8888_8888 } else { 0 };
        let (stage, pitch) = (self.room.samples.at(self.base, stage), row_pitch(p.row_bytes));
        let shift = p.together - 1;
        let (mut s, mut time) = (self.warp, step.time + (self.warp >> shift));
        let mut from = step.byte + self.byte;
        while s < DEPTH {
            let of = from + if time < p.carried_times { p.carried } else { self.samples };
            let to = stage + s % 8 * pitch + s / 8 * HALF_BYTES;
            let there = time < step.stop;
            let mut byte = copied(p) * self.lane;
            let mut of = of;
            while byte < p.row_bytes {
                rolled();
                let to = to + staged(byte);
                // SAFETY: within the row here and there; whole 16 bytes where they are aligned.
                unsafe {
                    match (p.aligned != 0, there) {
                        (true, true) => cp_async_whole_16(to, of),
                        (true, false) => store_shared_4(to, [zero; 4]),
                        (false, true) => store_shared_8(to, load_global_8(of)),
                        (false, false) => store_shared_8(to, zero),
                    }
                }
                byte += 32 * copied(p);
                of += 32 * copied(p) as u64;
            }
            // Warps are whole fours: the polarisation stays.
            s += self.warps;
            time += self.warps >> shift;
            from += (self.warps >> shift) as u64 * time_bytes(p);
        }
        cp_async_commit();
    }

    /// The lane's pairs of row `m` and of the warp's [next one](Self::row); of the last row for a warp that has none.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`GridMma`]; `step` is one of an item.
    #[inline(always)]
    unsafe fn pairs(&self, p: &GridMma, step: &Step, m: u32) -> Pairs<EIGHTS> {
        let mut pairs = [[[0; 4]; EIGHTS]; 2];
        let polarisation = step.group * p.together + (self.eighth & (p.together - 1));
        let stream = step.item.channel * p.groups * p.together + polarisation;
        let m = if m < p.rows { m } else { p.rows - 1 };
        each!(index < 2, of 2 {
            let row = stream as u64 * p.rows as u64 + self.row(p, m, index as u32) as u64;
            let first = p.pairs + 16 * (row * 4 * EIGHTS as u64 + self.quarter as u64);
            each!(eight < EIGHTS, of 4 {
                // SAFETY: pairs of the row.
                pairs[index][eight] = unsafe { load_global_4(first + 64 * eight as u64) };
            });
        });
        pairs
    }

    /// Row `m` of the warp, or its next one; `m` once more where that is not there.
    #[inline(always)]
    fn row(&self, p: &GridMma, m: u32, row: u32) -> u32 {
        let next = m + row * self.warps;
        if next < p.rows { next } else { m }
    }

    /// `H` of the warp's rows, of all columns of the block.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, in a launch that keeps the conditions of [`GridMma`].
    /// - The stage's samples are complete, and visible to the warp; `pairs` are [those](Self::pairs) of the step and
    ///   the warp's first rows; afterwards they belong to its last rows.
    /// - `buffer` is the address of a buffer of `H`, of which no other warp uses these rows before the next barrier.
    #[inline(always)]
    unsafe fn rows<const ENCODING: u32>(
        &self,
        p: &GridMma,
        pairs: &mut Pairs<EIGHTS>,
        step: &Step,
        [stage, buffer]: [u32; 2],
    ) {
        let samples = self.room.samples.at(self.base, stage) + self.eighth * row_pitch(p.row_bytes);
        let pitch = slot_pitch(ROWS as u32);
        let buffer = buffer + self.quarter * 16 + self.eighth * pitch;
        let mut m = self.warp;
        while m < p.rows {
            let mut to = [0; 2];
            each!(row < 2, of 2 {
                let m = self.row(p, m, row as u32);
                to[row] = buffer + m / 8 * 512 + m % 8 * 64;
            });
            // SAFETY: the rows' pairs and samples of the stage; a tile's fragments, and the room of its columns.
            unsafe {
                let fragments = self.weigh::<ENCODING>(p, pairs, samples);
                let first = step.item.part * p.tiles * TWIDDLE_BYTES + 16 * self.lane;
                let twiddles = p.twiddles + first as u64;
                if PLAIN || p.tiles == Self::TILES {
                    each!(tile < Self::TILES as usize, of 4 {
                        self.tile(twiddles, tile as u32, &fragments, to);
                    });
                } else {
                    let mut tile = 0;
                    while tile < p.tiles {
                        self.tile(twiddles, tile, &fragments, to);
                        tile += 1;
                    }
                }
                m += 2 * self.warps;
                if Self::TWO_ROWS {
                    break;
                }
                if m < p.rows {
                    *pairs = self.pairs(p, step, m);
                }
            }
        }
    }

    /// `H` of the columns of a tile of the part that begins with tile `first`, of two rows, to where the lane's parts of the
    /// part's first tile are.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together.
    /// - `to` and what lies [`GROUPS`] columns behind are the lane's, and nobody else uses them before the next barrier.
    #[inline(always)]
    unsafe fn tile(
        &self,
        twiddles: u64,
        tile: u32,
        fragments: &[Fragments<EIGHTS>; 2],
        to: [u32; 2],
    ) {
        let address = twiddles + (tile * TWIDDLE_BYTES) as u64;
        // SAFETY: the lane's cosines and sines of the tile.
        let twiddles = unsafe {
            let rest = if EIGHTS > 2 { load_global_4(address + 512) } else { [0; 4] };
            [load_global_4(address), rest]
        };
        let pitch = slot_pitch(ROWS as u32);
        each!(row < 2, of 2 {
            let [plus, minus] = mirrored(&multiply(twiddles, &fragments[row]));
            let to = to[row] + tile * SLOTS * pitch;
            // SAFETY: the lane's.
            unsafe {
                store_shared_4(to, plus);
                store_shared_4(to + GROUPS * pitch, minus);
            }
        });
    }

    /// Fragments of weighted samples of the dishes of two rows.
    ///
    /// # Safety
    /// - `pairs` are the lane's of two rows: of dishes in a row of samples of `ENCODING`.
    /// - `samples` is the lane's row of a stage that is complete, and visible to the thread.
    #[inline(always)]
    unsafe fn weigh<const ENCODING: u32>(
        &self,
        p: &GridMma,
        pairs: &Pairs<EIGHTS>,
        samples: u32,
    ) -> [Fragments<EIGHTS>; 2] {
        let mut fragments = [[[[0; 2]; 2]; EIGHTS]; 2];
        let flip = if p.encoding == raw::NIBBLES { 0x0088_0088 } else { 0 };
        each!(row < 2, of 2 {
            each!(eight < EIGHTS, of 4 {
                let [first, second, re, im] = pairs[row][eight];
                let (first, second) = (samples + first, samples + second);
                each!(half < 2, of 2 {
                    let apart = half as u32 * HALF_BYTES;
                    // SAFETY: the pairs name dishes of the samples.
                    let [x, y] =
                        unsafe { dishes::<ENCODING>(first + apart, second + apart, flip) };
                    fragments[row][eight][half] = [
                        fma_halves(neg_halves(im), y, mul_halves(re, x)),
                        fma_halves(re, y, mul_halves(im, x)),
                    ];
                });
            });
        });
        fragments
    }

    /// Address of the first of the warp's columns.
    #[inline(always)]
    fn columns(&self, buffer: u32) -> u32 {
        buffer + WARP_SLOTS * self.warp * slot_pitch(ROWS as u32)
    }

    /// Adds the products of the warp's columns of `H`.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together.
    /// - `buffer` is the address of a buffer of `H` that is complete, and visible to the warp.
    #[inline(always)]
    unsafe fn gram(&self, sums: &mut Sums<ROWS>, buffer: u32) {
        let first = self.columns(buffer) + 16 * self.lane;
        each!(column < COLUMNS, of 4 {
            let mut h = [[0; 4]; ROWS];
            let address = first + column as u32 * slot_pitch(ROWS as u32);
            each!(eight < ROWS, of 4 {
                // SAFETY: real and imaginary parts of the column, of both halves of the step.
                h[eight] = unsafe { load_shared_4(address + 512 * eight as u32) };
            });
            each!(half < 2, of 2 {
                each!(eight < ROWS, of 4 {
                    // `H`, then `-j H`, over real and imaginary parts: products have both parts of `H[m] conj(H[m'])`.
                    let [re, im] = [h[eight][2 * half], h[eight][2 * half + 1]];
                    let (rows, other) = ([re, im], [im, neg_halves(re)]);
                    each!(apart < ROWS, of 4 {
                        if eight + apart < ROWS {
                            let of = &h[eight + apart];
                            mma_m16n8k8_f16(&mut sums[column][apart], rows, of[2 * half]);
                            mma_m16n8k8_f16(&mut sums[column][apart], other, of[2 * half + 1]);
                        }
                    });
                });
            });
        });
    }

    /// Address of the lane's sums of an item that is not complete.
    #[inline(always)]
    fn kept(&self, p: &GridMma, item: &Item, sums: u64) -> u64 {
        let warp = (item.channel * p.parts + item.part) * self.warps + self.warp;
        sums + 16 * (warp as u64 * (COLUMNS * ROWS) as u64 * 32 + self.lane as u64)
    }

    /// Sums that an item begins with.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`GridMma`]; if `p.continues`, `p.before` has the sums of every lane.
    #[inline(always)]
    unsafe fn begin(&self, p: &GridMma, item: &Item) -> Sums<ROWS> {
        let mut sums = [[[0; 4]; ROWS]; COLUMNS];
        if item.number == 0 && p.continues != 0 {
            let kept = self.kept(p, item, p.before);
            each!(column < COLUMNS, of 4 {
                each!(apart < ROWS, of 4 {
                    let index = column * ROWS + apart;
                    // SAFETY: sums of the lane.
                    sums[column][apart] = unsafe { load_global_4(kept + 512 * index as u64) };
                });
            });
        }
        sums
    }

    /// Beams of a complete item, or sums of another.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, in a launch that keeps the conditions of [`GridMma`].
    /// - `sums` are the item's, which no other warp stores; the warp's columns of `buffer` are its own until the next barrier
    ///   but one.
    #[inline(always)]
    unsafe fn finish(&self, p: &GridMma, item: &Item, sums: &Sums<ROWS>, buffer: u32) {
        if item.number >= p.complete {
            let kept = self.kept(p, item, p.after);
            each!(column < COLUMNS, of 4 {
                each!(apart < ROWS, of 4 {
                    let index = column * ROWS + apart;
                    // SAFETY: sums of the lane.
                    unsafe { store_global_4(kept + 512 * index as u64, sums[column][apart]) };
                });
            });
            return;
        }
        let first = self.columns(buffer);
        // SAFETY: the warp's columns, which it alone uses until the next barrier but one.
        unsafe {
            warp_barrier();
            self.spread(sums, first);
            warp_barrier();
            let lags = self.lags(first);
            warp_barrier();
            self.share(&lags, first);
            warp_barrier();
            self.powers(p, item, first);
            if p.rows == 8 * ROWS as u32 {
                return;
            }
            warp_barrier();
            // Padding rows are zero again.
            let mut byte = 16 * self.lane;
            while byte < WARP_SLOTS * slot_pitch(ROWS as u32) {
                store_shared_4(first + byte, [0; 4]);
                byte += 16 * 32;
            }
        }
    }

    /// Products `H[m] conj(H[m'])` of the warp's columns to shared memory: `[m][m']`, rows `m` of the first eight, `m'` of
    /// all.
    ///
    /// # Safety
    /// - `first` is the address of the warp's [columns](Self::columns) of a buffer, which no other lane uses before the next
    ///   barrier of the warp.
    #[inline(always)]
    unsafe fn spread(&self, sums: &Sums<ROWS>, first: u32) {
        let first = first + self.eighth * 64 * ROWS as u32 + 16 * self.quarter;
        each!(column < COLUMNS, of 4 {
            let address = first + column as u32 * slot_pitch(ROWS as u32);
            each!(apart < ROWS, of 4 {
                let [re, other_re, im, other_im] = sums[column][apart];
                let products = [re, im, other_re, other_im];
                // SAFETY: the lane's part of the column's room.
                unsafe { store_shared_4(address + 64 * apart as u32, products) };
            });
        });
    }

    /// Sums of the products of rows that are `lane` apart, of each column.
    ///
    /// # Safety
    /// - `first` is the address of the warp's [columns](Self::columns), where the warp has [`spread`](Self::spread) products
    ///   before its last barrier.
    #[inline(always)]
    unsafe fn lags(&self, first: u32) -> [[f32; 2]; COLUMNS] {
        let mut lags = [[0.0; 2]; COLUMNS];
        each!(m < 8, of 8 {
            let (m, rows) = (m as u32, 8 * ROWS as u32);
            // Beyond the last row, zeros: the ends of columns.
            let there = self.lane + m < rows;
            let of = if there { m * 8 * (rows + 1) + 8 * self.lane } else { 64 * rows };
            each!(column < COLUMNS, of 4 {
                let address = first + of + column as u32 * slot_pitch(ROWS as u32);
                // SAFETY: a product of the column's.
                let [re, im] = unsafe { load_shared_2(address) };
                lags[column][0] += f32::from_bits(re);
                lags[column][1] += f32::from_bits(im);
            });
        });
        lags
    }

    /// Lags of the columns side by side, `[lag][column]`.
    ///
    /// # Safety
    /// - `first` is the address of the warp's [columns](Self::columns) of a buffer, which no lane reads before the next barrier
    ///   of the warp.
    #[inline(always)]
    unsafe fn share(&self, lags: &[[f32; 2]; COLUMNS], first: u32) {
        if self.lane >= 8 * ROWS as u32 {
            return;
        }
        let bits = |column: usize, part: usize| lags[column][part].to_bits();
        let address = first + 32 * self.lane;
        // SAFETY: within the first of the warp's columns.
        unsafe {
            store_shared_4(address, [bits(0, 0), bits(0, 1), bits(1, 0), bits(1, 1)]);
            store_shared_4(address + 16, [bits(2, 0), bits(2, 1), bits(3, 0), bits(3, 1)]);
        }
    }

    /// Powers of two columns of each half of a warp: a lane has those of [`Group`] `k` of `p` and of group `M - 1 - k`, whose
    /// cosines and sines are the same but for signs that alternate with the lag.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`GridMma`]; `item` is complete.
    /// - `first` is the address of the warp's [columns](Self::columns), where it has [`share`](Self::share)d lags before its
    ///   last barrier.
    /// - No other warp of the launch stores these beams.
    #[inline(always)]
    unsafe fn powers(&self, p: &GridMma, item: &Item, first: u32) {
        // Values made of the lane number are computed here, and take no registers during the steps.
        let lane = opaque(self.lane);
        let (k, half) = (lane % TURNS, lane / TURNS);
        if k >= p.rows.div_ceil(2) {
            return;
        }
        let mirror = p.rows - 1 - k;
        // SAFETY: a channel's gain. It is there when the sums are.
        let gain = f32::from_bits(unsafe { load_global(p.gains + 4 * item.channel as u64) });
        // Sums of even and of odd lags, of a column.
        let (mut cosines, mut sines) = ([[0.0_f32; 2]; 2], [[0.0_f32; 2]; 2]);
        let (turns, lags) = (p.turns + 8 * k as u64, first + 16 * half);
        // Unrolled as a whole, it would take more registers than there are.
        let mut first_lag = 0;
        while first_lag < opaque(8 * ROWS as u32) {
            rolled();
            each!(lag < 8, of 8 {
                let number = first_lag + lag as u32;
                // SAFETY: turns of a lag, and its sums.
                let ([cosine, sine], of) = unsafe {
                    let turn = load_global_2(turns + (8 * TURNS * number) as u64);
                    (turn.map(f32::from_bits), load_shared_4(lags + 32 * number))
                };
                each!(column < 2, of 2 {
                    let [re, im] = [of[2 * column], of[2 * column + 1]].map(f32::from_bits);
                    let (even, odd) = (&mut cosines[lag % 2][column], &mut sines[lag % 2][column]);
                    *even = fma_f32(cosine, re, *even);
                    *odd = fma_f32(sine, im, *odd);
                });
            });
            first_lag += 8;
        }
        let (rows, columns) = (Axis { size: p.rows }, Axis { size: p.columns });
        let slot = WARP_SLOTS * self.warp + 2 * half;
        let group = (item.part * p.tiles + slot / SLOTS) * GROUPS + slot % GROUPS;
        let block = item.channel as u64 * p.complete as u64 + item.number as u64;
        let bytes = if p.half != 0 { 2 } else { 4 };
        let beams = p.beams + block * (4 * p.rows * p.columns * bytes) as u64;
        // Bytes from a column's first beam to the lane's.
        let places = [(k, false), (k, true), (mirror, false), (mirror, true)]
            .map(|(group, mirrored)| bytes * Group(group).column(rows, mirrored).unwrap_or(0));
        each!(column < 2, of 2 {
            let of = Group(group + column as u32).column(columns, slot % SLOTS >= GROUPS);
            if let Some(q) = of {
                let [cosines, sines] =
                    [[cosines[0][column], cosines[1][column]], [sines[0][column], sines[1][column]]];
                let (even, odd) = (cosines[0] + cosines[1], sines[0] + sines[1]);
                let (mirror_even, mirror_odd) = (cosines[0] - cosines[1], sines[1] - sines[0]);
                let first = beams + (2 * p.rows * q * bytes) as u64;
                let powers =
                    [even + odd, even - odd, mirror_even + mirror_odd, mirror_even - mirror_odd];
                each!(index < 4, of 4 {
                    // SAFETY: a beam that no other lane stores.
                    unsafe { store_power(p, first + places[index] as u64, powers[index], gain) };
                });
            }
        });
    }
}

/// Stores a power; what rounding left below zero is zero.
///
/// # Safety
/// - The launch keeps the conditions of [`GridMma`]; `address` is the address of a beam, which no other thread stores.
#[inline(always)]
unsafe fn store_power(p: &GridMma, address: u64, power: f32, gain: f32) {
    let power = if power < 0.0 { 0.0 } else { power } * gain;
    // SAFETY: a beam that this thread alone stores.
    unsafe {
        if p.half != 0 {
            store_global_16(address, halves(0.0, power) as u16);
        } else {
            store_global(address, power.to_bits());
        }
    }
}

/// Two dishes of a value of `s`: their real parts and their imaginary parts as halves, exactly. `flip` has the highest bit
/// of nibbles in two's complement in bytes 0 and 2, of nibbles in excess of 8 nothing.
///
/// # Safety
/// - `first` and `second` are addresses of samples of `ENCODING`, aligned to their size, in the block's shared memory.
/// - They were stored before a barrier that this thread waited at, or copied by it and waited for.
#[inline(always)]
unsafe fn dishes<const ENCODING: u32>(first: u32, second: u32, flip: u32) -> [u32; 2] {
    // SAFETY: two aligned samples that are there.
    unsafe {
        match ENCODING {
            raw::I8 => {
                // An integer in excess of 128 in the lowest byte of 1024.
                let both = (load_shared_16(first) | load_shared_16(second) << 16) ^ 0x8080_8080;
                let [re, im] =
                    [prmt::<0x4240>(both, 0x6464_6464), prmt::<0x4341>(both, 0x6464_6464)];
                [re, im].map(|value| add_halves(value, 0xe480_e480)) // -1152
            }
            raw::F16 => {
                let (a, b) = (load_shared(first), load_shared(second));
                [finite(prmt::<0x5410>(a, b)), finite(prmt::<0x7632>(a, b))]
            }
            _ => {
                // A nibble in excess of 8 as the lowest of 1024, or sixteen times it in the next.
                let both = load_shared_8(first) | load_shared_8(second) << 16;
                // The bits of a mask, of which some are flipped, and 1024.
                let re = lop3::<0x6a>(both, 0x00f0_00f0, 0x6400_6400 | flip & 0x00f0_00f0);
                let im = lop3::<0x6a>(both, 0x000f_000f, 0x6400_6400 | flip & 0x000f_000f);
                // 1/16 and -72; -1032.
                [fma_halves(re, 0x2c00_2c00, 0xd480_d480), add_halves(im, 0xe408_e408)]
            }
        }
    }
}

/// Two halves; infinities and NaN become zero.
#[inline(always)]
fn finite(halves: u32) -> u32 {
    let exponents = halves & 0x7c00_7c00;
    let low = if exponents & 0x7c00 == 0x7c00 { 0 } else { halves & 0xffff };
    let high = if exponents >> 16 == 0x7c00 { 0 } else { halves & 0xffff_0000 };
    low | high
}

/// Sums of a tile's cosines and sines times weighted samples, two values of `s` in a word:
/// `[half of a step][real, imaginary][cosines, sines]`.
#[inline(always)]
fn multiply<const EIGHTS: usize>(
    [first, rest]: [[u32; 4]; 2],
    fragments: &Fragments<EIGHTS>,
) -> [[[u32; 2]; 2]; 2] {
    let mut products = [[[0; 2]; 2]; 2];
    each!(half < 2, of 2 {
        each!(part < 2, of 2 {
            let sums = &mut products[half][part];
            let at = |eight: usize| fragments[if eight < EIGHTS { eight } else { 0 }][half][part];
            mma_m16n8k16_halves(sums, first, [at(0), at(1)]);
            if EIGHTS == 3 {
                mma_m16n8k8_halves(sums, [rest[0], rest[1]], at(2));
            } else if EIGHTS == 4 {
                mma_m16n8k16_halves(sums, rest, [at(2), at(3)]);
            }
        });
    });
    products
}

/// `H` of the two columns of each of a tile's groups: real and imaginary parts, of the first half of a step and of the
/// second.
#[inline(always)]
fn mirrored(products: &[[[u32; 2]; 2]; 2]) -> [[u32; 4]; 2] {
    let mut columns = [[0; 4]; 2];
    each!(half < 2, of 2 {
        let [[re, sine_re], [im, sine_im]] = products[half];
        columns[0][2 * half] = add_halves(re, neg_halves(sine_im));
        columns[0][2 * half + 1] = add_halves(im, sine_re);
        columns[1][2 * half] = add_halves(re, sine_im);
        columns[1][2 * half + 1] = add_halves(im, neg_halves(sine_re));
    });
    columns
}

/// A divisor of 64 bits.
#[inline(always)]
fn long(value: u32) -> NonZeroU64 {
    NonZeroU64::new(value as u64).unwrap_or(NonZeroU64::MIN)
}

#[cfg(test)]
mod tests {
    use crate::{
        abi::grid_mma::{GROUPS, TWIDDLE_BYTES, twiddle},
        tile::fragment,
    };

    #[test]
    fn fragments_of_factors_are_those_of_products() {
        for index in 0..TWIDDLE_BYTES / 2 {
            let (half, word, lane, step) = (index % 2, index / 2 % 4, index / 8 % 32, index / 256);
            let element = fragment::a(lane, word, 2 * half);
            let (group, place, sine) = twiddle(index);
            assert_eq!(element.row, group + if sine { GROUPS } else { 0 });
            assert_eq!(element.column / 2 + 16 * step, place);
        }
    }
}
