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
//! distance share accumulators: of 24 x 24 dishes 24 registers a column in place of 48.
//!
//! Where shared memory has room for two stages of samples and two of `H`, one barrier a step is enough, and warps that make
//! rows work beside warps that multiply.
//!
//! Of 24 x 24 dishes a time and polarisation takes 18 products of `m16n8k16` and 18 of `m16n8k8` for rows, and 36 of
//! `m16n8k16` for sums: 63 of 2048 multiply-adds, where transforms to all beams by products of real matrices take 162.
//! Measured on an H100 (docs/grid-beams.md): schedulers issue in 47 % of the cycles, tensor cores are busy in 25 %, shared
//! memory in 62 %. Bound by latency: three warps of a scheduler wait for results of fixed latency and for shared memory.
//!
//! Tried and lost: f32 sums of rows, which take a conversion for each two values and eight registers more (1.88 ms in
//! place of 1.73 ms); one row at a time (1.73 ms in place of 1.70 ms).
//!
//! Sources: "CHORD FRB beamformer" (kotekan, `julia/docs`) for the definition; powers as transforms of correlations are
//! Wiener and Khinchin's theorem.

use core::num::NonZeroU64;

use crate::{
    abi::{
        channelise::raw,
        grid::Axis,
        grid_mma::{
            DEPTH, GROUPS, GridMma, Group, Room, SLOTS, TWIDDLE_BYTES, WARP_SLOTS, row_pitch,
            slot_pitch,
        },
    },
    isa::{
        common::{
            add_halves, barrier, block, blocks, dynamic_shared, fma_f32, fma_halves, halves, lane,
            load_global, load_global_2, load_global_4, load_global_8, load_shared, load_shared_2,
            load_shared_4, load_shared_8, load_shared_16, lop3, mul_halves, neg_halves, opaque,
            prmt, store_global, store_global_4, store_global_16, store_shared_4, store_shared_8,
            thread, threads, warp_barrier,
        },
        sm_80::{
            cp_async_commit, cp_async_wait, cp_async_whole_16, mma_m16n8k8_halves,
            mma_m16n8k16_f16, mma_m16n8k16_halves,
        },
    },
    tile::divisor,
};

/// Columns of a warp.
const COLUMNS: usize = WARP_SLOTS as usize;

/// Sums of products of a warp's columns: `[column][eights between the rows][real or imaginary parts of the second]`.
type Sums<const ROWS: usize> = [[[[u32; 4]; 2]; ROWS]; COLUMNS];

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

/// A channel, a part of the columns and a block of times: an item.
struct Item {
    channel: u32,
    part: u32,
    /// Number of the block of times.
    number: u32,
}

impl Item {
    #[inline(always)]
    fn new(p: &GridMma, index: u32) -> Self {
        let (rest, number) = (index / divisor(p.blocks), index % divisor(p.blocks));
        Self { channel: rest / divisor(p.parts), part: rest % divisor(p.parts), number }
    }
}

/// A step of an item.
#[derive(Clone, Copy)]
struct Step {
    item: u32,
    channel: u32,
    part: u32,
    /// First time, and group of polarisations.
    time: u32,
    group: u32,
    /// End of the times of the item that are summed.
    stop: u32,
}

impl Step {
    /// First step of an item; one that has none stops where it begins.
    #[inline(always)]
    fn first(p: &GridMma, item: u32) -> Self {
        let Item { channel, part, number } = Item::new(p, item);
        let full = p.first_times + number * p.block_times;
        let time = if number == 0 { 0 } else { full - p.block_times };
        let end = if full < p.times { full } else { p.times };
        let whole = time + ((end - time) & !(step_times(p) - 1));
        let stop = if number < p.complete || p.flush != 0 { end } else { whole };
        Self { item, channel, part, time, group: 0, stop }
    }

    /// This step, or the first of the next item below `last` that has one.
    #[inline(always)]
    fn seek(mut self, p: &GridMma, last: u32) -> Self {
        while self.item < last && self.time >= self.stop {
            self = Self::first(p, self.item + 1);
        }
        self
    }

    /// The step behind this one.
    #[inline(always)]
    fn next(mut self, p: &GridMma, last: u32) -> Self {
        self.group += 1;
        if self.group == p.groups {
            self.group = 0;
            self.time += step_times(p);
        }
        self.seek(p, last)
    }
}

/// Times of a step.
#[inline(always)]
fn step_times(p: &GridMma) -> u32 {
    DEPTH >> (p.together - 1)
}

/// A warp's part of a block.
struct Worker<const ROWS: usize, const EIGHTS: usize> {
    warp: u32,
    warps: u32,
    lane: u32,
    /// Row and column of the lane in fragments.
    eighth: u32,
    quarter: u32,
    room: Room,
    base: u32,
}

/// See the module.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`GridMma`], of `8 ROWS` rows
///   and `8 EIGHTS` dishes of a row at most.
/// - The block's shared memory has the [`Room`] of the parameters, all of it free.
#[inline(always)]
unsafe fn beams<const ROWS: usize, const EIGHTS: usize>(p: &GridMma) {
    // SAFETY: a whole block in its own shared memory; barriers stand between copies, rows and products of a stage.
    unsafe {
        let of = Worker::<ROWS, EIGHTS>::new(p);
        let share = |block: u32| (block as u64 * p.items as u64 / long(blocks())) as u32;
        let (mut item, last) = (share(block()), share(block() + 1));
        let mut next = Step::first(p, item).seek(p, last);
        if next.item < last {
            of.copy(p, &next, 0);
        }
        of.prepare(p);
        cp_async_wait::<0>();
        barrier();
        // With two of both, no warp writes a stage or buffer that another still reads.
        let alone = p.stages != 2 || p.buffers != 2;
        let mut turn = 0;
        while item < last {
            let mut sums = of.begin(p, &Item::new(p, item));
            while next.item == item {
                let step = next;
                next = step.next(p, last);
                let (stage, buffer) = of.places(p, turn);
                if p.stages == 2 && next.item < last {
                    of.copy(p, &next, stage ^ 1);
                }
                of.rows(p, &step, stage, buffer);
                cp_async_wait::<0>();
                barrier();
                if p.stages != 2 && next.item < last {
                    of.copy(p, &next, 0);
                }
                of.gram(&mut sums, buffer);
                if alone {
                    cp_async_wait::<0>();
                    barrier();
                }
                turn ^= 1;
            }
            let (_, buffer) = of.places(p, turn ^ 1);
            // Computed anew: kept, it would take the registers of sums.
            of.finish(p, &Item::new(p, opaque(item)), &sums, buffer);
            if alone {
                barrier();
            }
            item += 1;
        }
    }
}

impl<const ROWS: usize, const EIGHTS: usize> Worker<ROWS, EIGHTS> {
    #[inline(always)]
    fn new(p: &GridMma) -> Self {
        Self {
            warp: thread() / 32,
            warps: threads() / 32,
            lane: lane(),
            eighth: lane() / 4,
            quarter: lane() % 4,
            room: Room::new(ROWS as u32, [p.tiles, p.parts], p.row_bytes, [p.stages, p.buffers]),
            base: dynamic_shared(),
        }
    }

    /// Number of the stage of samples and address of the buffer of `H` of a step.
    #[inline(always)]
    fn places(&self, p: &GridMma, turn: u32) -> (u32, u32) {
        let stage = if p.stages == 2 { turn } else { 0 };
        (stage, self.room.half.at(self.base, if p.buffers == 2 { turn } else { 0 }))
    }

    /// Copies cosines and sines to shared memory, and clears the buffers of `H`, whose padding rows stay zero.
    ///
    /// # Safety
    /// - All threads of the block call it together, in a launch that keeps the conditions of [`GridMma`].
    /// - Nobody else uses these parts of the room before the next barrier.
    #[inline(always)]
    unsafe fn prepare(&self, p: &GridMma) {
        let first = self.room.twiddles.at(self.base, 0);
        let mut byte = 16 * thread();
        while byte < p.parts * p.tiles * TWIDDLE_BYTES {
            // SAFETY: within the tables here and there.
            unsafe { store_shared_4(first + byte, load_global_4(p.twiddles + byte as u64)) };
            byte += 16 * threads();
        }
        let first = self.room.half.at(self.base, 0);
        let bytes = p.buffers * p.tiles * SLOTS * slot_pitch(ROWS as u32);
        let mut byte = 16 * thread();
        while byte < bytes {
            // SAFETY: within the room.
            unsafe { store_shared_4(first + byte, [0; 4]) };
            byte += 16 * threads();
        }
    }

    /// Begins to copy the samples of a step to a stage: a warp for each value of `s`.
    ///
    /// # Safety
    /// - All threads of the block call it together, in a launch that keeps the conditions of [`GridMma`].
    /// - `step` is one of an item, `stage` below `p.stages`; nobody reads the stage any more, or before a barrier that follows
    ///   the wait for these copies.
    #[inline(always)]
    unsafe fn copy(&self, p: &GridMma, step: &Step, stage: u32) {
        let zero = if p.encoding == raw::NIBBLES_OFFSET { 0x8888_8888 } else { 0 };
        let pitch = row_pitch(p.row_bytes);
        let mut s = self.warp;
        while s < DEPTH {
            let time = step.time + (s >> (p.together - 1));
            let polarisation = step.group * p.together + (s & (p.together - 1));
            let (from, time_there) = if time < p.carried_times {
                (p.carried, time)
            } else {
                (p.samples, time - p.carried_times)
            };
            let row = (time_there as u64 * p.channels as u64 + step.channel as u64)
                * (p.groups * p.together) as u64
                + polarisation as u64;
            let from = from + row * p.row_bytes as u64;
            let to = self.room.samples.at(self.base, stage) + s * pitch;
            let (there, wide) = (time < step.stop, p.aligned != 0);
            let each = if wide { 16 } else { 1 };
            let mut byte = each * self.lane;
            while byte < p.row_bytes {
                // SAFETY: within the row here and there; whole 16 bytes where they are aligned.
                unsafe {
                    match (wide, there) {
                        (true, true) => cp_async_whole_16(to + byte, from + byte as u64),
                        (true, false) => store_shared_4(to + byte, [zero; 4]),
                        (false, true) => {
                            store_shared_8(to + byte, load_global_8(from + byte as u64));
                        }
                        (false, false) => store_shared_8(to + byte, zero),
                    }
                }
                byte += 32 * each;
            }
            s += self.warps;
        }
        cp_async_commit();
    }

    /// `H` of the warp's rows, of all columns of the block.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, in a launch that keeps the conditions of [`GridMma`].
    /// - The stage's samples and the twiddles are complete, and visible to the warp.
    /// - `buffer` is the address of a buffer of `H`, of which no other warp uses these rows before the next barrier.
    #[inline(always)]
    unsafe fn rows(&self, p: &GridMma, step: &Step, stage: u32, buffer: u32) {
        let samples = self.room.samples.at(self.base, stage) + self.eighth * row_pitch(p.row_bytes);
        let polarisation = step.group * p.together + (self.eighth & (p.together - 1));
        let stream = step.channel * p.groups * p.together + polarisation;
        let mut m = self.warp;
        while m < p.rows {
            // Two rows together read a tile's fragments once; the second may be none.
            let other = m + self.warps;
            let rows = [m, if other < p.rows { other } else { m }];
            let pairs = map!(rows, of 2 to 0_u64, |m| {
                let row = stream as u64 * p.rows as u64 + m as u64;
                p.pairs + 16 * (row * 4 * EIGHTS as u64 + self.quarter as u64)
            });
            // SAFETY: the rows' pairs, and samples of the stage.
            let fragments = unsafe {
                match p.encoding {
                    raw::I8 => self.weigh::<{ raw::I8 }>(p, pairs, samples),
                    raw::F16 => self.weigh::<{ raw::F16 }>(p, pairs, samples),
                    raw::NIBBLES => self.weigh::<{ raw::NIBBLES }>(p, pairs, samples),
                    _ => self.weigh::<{ raw::NIBBLES_OFFSET }>(p, pairs, samples),
                }
            };
            let to = map!(rows, of 2, |m| buffer + m / 8 * 512 + m % 8 * 64 + self.quarter * 16);
            let mut tile = 0;
            while tile < p.tiles {
                let of = step.part * p.tiles + tile;
                let twiddles = self.room.twiddles.at(self.base, of) + 16 * self.lane;
                let slot = slot_pitch(ROWS as u32) * (tile * SLOTS + self.eighth);
                // SAFETY: a tile's fragments.
                let twiddles = unsafe {
                    let rest = if EIGHTS > 2 { load_shared_4(twiddles + 512) } else { [0; 4] };
                    [load_shared_4(twiddles), rest]
                };
                let alone = of == 0 && self.eighth == 0;
                each!(row < 2, of 2 {
                    if row == 0 || other < p.rows {
                        let products = multiply(twiddles, &fragments[row]);
                        let [plus, minus] = if of == 0 {
                            each_alone(&products, alone)
                        } else {
                            mirrored(&products)
                        };
                        let slot = to[row] + slot;
                        // SAFETY: the room of the tile's columns.
                        unsafe {
                            store_shared_4(slot, plus);
                            store_shared_4(slot + GROUPS * slot_pitch(ROWS as u32), minus);
                        }
                    }
                });
                tile += 1;
            }
            m += 2 * self.warps;
        }
    }

    /// Fragments of weighted samples of the dishes of two rows.
    ///
    /// # Safety
    /// - `pairs` are addresses of the lane's pairs of two rows of `p.pairs`: of dishes in a row of samples of `ENCODING`.
    /// - `samples` is the lane's row of a stage that is complete, and visible to the thread.
    #[inline(always)]
    unsafe fn weigh<const ENCODING: u32>(
        &self,
        p: &GridMma,
        pairs: [u64; 2],
        samples: u32,
    ) -> [Fragments<EIGHTS>; 2] {
        let mut fragments = [[[[0; 2]; 2]; EIGHTS]; 2];
        each!(row < 2, of 2 {
            each!(eight < EIGHTS, of 4 {
                // SAFETY: pairs of the row, and two dishes of a value of s.
                let [offsets, re, im, _] =
                    unsafe { load_global_4(pairs[row] + 64 * eight as u64) };
                each!(half < 2, of 2 {
                    let of = samples + half as u32 * 8 * row_pitch(p.row_bytes);
                    // SAFETY: the pairs name dishes of the samples.
                    let [x, y] = unsafe {
                        dishes::<ENCODING>(of + (offsets & 0xffff), of + (offsets >> 16))
                    };
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
                // SAFETY: fragments of the column.
                h[eight] = unsafe { load_shared_4(address + 512 * eight as u32) };
            });
            each!(eight < ROWS, of 4 {
                each!(apart < ROWS, of 4 {
                    if eight + apart < ROWS {
                        let [re, im, re_high, im_high] = h[eight + apart];
                        let [of_real, of_imaginary] = &mut sums[column][apart];
                        mma_m16n8k16_f16(of_real, h[eight], [re, re_high]);
                        mma_m16n8k16_f16(of_imaginary, h[eight], [im, im_high]);
                    }
                });
            });
        });
    }

    /// Address of the lane's sums of an item that is not complete.
    #[inline(always)]
    fn kept(&self, p: &GridMma, item: &Item, sums: u64) -> u64 {
        let warp = (item.channel * p.parts + item.part) * self.warps + self.warp;
        let of_warp = (COLUMNS * ROWS * 2) as u64;
        sums + 16 * (warp as u64 * of_warp * 32 + self.lane as u64)
    }

    /// Sums that an item begins with.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`GridMma`]; if `p.continues`, `p.before` has the sums of every lane.
    #[inline(always)]
    unsafe fn begin(&self, p: &GridMma, item: &Item) -> Sums<ROWS> {
        let mut sums = [[[[0; 4]; 2]; ROWS]; COLUMNS];
        if item.number == 0 && p.continues != 0 {
            let kept = self.kept(p, item, p.before);
            each!(column < COLUMNS, of 4 {
                each!(apart < ROWS, of 4 {
                    each!(part < 2, of 2 {
                        let index = (column * ROWS + apart) * 2 + part;
                        // SAFETY: sums of the lane.
                        sums[column][apart][part] =
                            unsafe { load_global_4(kept + 512 * index as u64) };
                    });
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
                    each!(part < 2, of 2 {
                        let index = (column * ROWS + apart) * 2 + part;
                        // SAFETY: sums of the lane.
                        unsafe {
                            store_global_4(kept + 512 * index as u64, sums[column][apart][part]);
                        }
                    });
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
            self.share(p, &lags, first);
            warp_barrier();
            self.powers(p, item, first);
            warp_barrier();
            // Padding rows are zero again.
            let mut byte = 16 * self.lane;
            while byte < WARP_SLOTS * slot_pitch(ROWS as u32) {
                store_shared_4(first + byte, [0; 4]);
                byte += 16 * 32;
            }
        }
    }

    /// Products `H[m] conj(H[m'])` of the warp's columns to shared memory: `[eights apart][m][m']`.
    ///
    /// # Safety
    /// - `first` is the address of the warp's [columns](Self::columns) of a buffer, which no other lane uses before the next
    ///   barrier of the warp.
    #[inline(always)]
    unsafe fn spread(&self, sums: &Sums<ROWS>, first: u32) {
        each!(column < COLUMNS, of 4 {
            let address = first + column as u32 * slot_pitch(ROWS as u32) + 16 * self.lane;
            each!(apart < ROWS, of 4 {
                let [re, im] = &sums[column][apart];
                let number = |bits: u32| f32::from_bits(bits);
                let product = |n: usize| [
                    (number(re[n]) + number(im[2 + n])).to_bits(),
                    (number(re[2 + n]) - number(im[n])).to_bits(),
                ];
                let ([a, b], [c, d]) = (product(0), product(1));
                // SAFETY: the lane's part of the column's room.
                unsafe { store_shared_4(address + 512 * apart as u32, [a, b, c, d]) };
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
        let (eights, rest) = (self.lane / 8, self.lane % 8);
        each!(column < COLUMNS, of 4 {
            let address = first + column as u32 * slot_pitch(ROWS as u32);
            let mut m = 0;
            while m < 8 {
                let to = m + rest;
                let apart = eights + to / 8;
                if apart < ROWS as u32 {
                    // SAFETY: a product of the column's.
                    let [re, im] = unsafe {
                        load_shared_2(address + 512 * apart + 64 * m + 8 * (to % 8))
                    };
                    lags[column][0] += f32::from_bits(re);
                    lags[column][1] += f32::from_bits(im);
                }
                m += 1;
            }
        });
        lags
    }

    /// Lags of the columns side by side, `[lag][column]`; behind them once more, imaginary parts replaced by real ones.
    ///
    /// # Safety
    /// - `first` is the address of the warp's [columns](Self::columns) of a buffer, which no lane reads before the next barrier
    ///   of the warp.
    #[inline(always)]
    unsafe fn share(&self, p: &GridMma, lags: &[[f32; 2]; COLUMNS], first: u32) {
        if self.lane >= p.rows {
            return;
        }
        let bits = |column: usize, part: usize| lags[column][part].to_bits();
        let (address, alone) = (first + 32 * self.lane, first + 32 * (p.rows + self.lane));
        // SAFETY: within the first of the warp's columns.
        unsafe {
            store_shared_4(address, [bits(0, 0), bits(0, 1), bits(1, 0), bits(1, 1)]);
            store_shared_4(address + 16, [bits(2, 0), bits(2, 1), bits(3, 0), bits(3, 1)]);
            store_shared_4(alone, [bits(0, 0), bits(0, 0), bits(1, 0), bits(1, 0)]);
            store_shared_4(alone + 16, [bits(2, 0), bits(2, 0), bits(3, 0), bits(3, 0)]);
        }
    }

    /// Powers of the columns: a lane has `p` and `2M - p`, the first 0 and `M`.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`GridMma`]; `item` is complete.
    /// - `first` is the address of the warp's [columns](Self::columns), where it has [`share`](Self::share)d lags before its
    ///   last barrier.
    /// - No other warp of the launch stores these beams.
    #[inline(always)]
    unsafe fn powers(&self, p: &GridMma, item: &Item, first: u32) {
        // Unknown to be the lane of before: lanes that have none stay at the same barriers.
        let lane = opaque(self.lane);
        if lane >= p.rows {
            return;
        }
        let lags = if lane == 0 { first + 32 * p.rows } else { first };
        let (mut even, mut odd) = ([0.0_f32; COLUMNS], [0.0_f32; COLUMNS]);
        let mut lag = 0;
        while lag < p.rows {
            // SAFETY: turns of a lag, and its sums.
            let ([cosine, sine], a, b) = unsafe {
                let turn = load_global_2(p.turns + 8 * (32 * lag + lane) as u64);
                let address = lags + 32 * lag;
                (turn.map(f32::from_bits), load_shared_4(address), load_shared_4(address + 16))
            };
            let of = [[a[0], a[1]], [a[2], a[3]], [b[0], b[1]], [b[2], b[3]]];
            each!(column < COLUMNS, of 4 {
                let [re, im] = of[column].map(f32::from_bits);
                even[column] = fma_f32(cosine, re, even[column]);
                odd[column] = fma_f32(sine, im, odd[column]);
            });
            lag += 1;
        }
        // SAFETY: a channel's gain.
        let gain = f32::from_bits(unsafe { load_global(p.gains + 4 * item.channel as u64) });
        let axis = Axis { size: p.columns };
        let slot = WARP_SLOTS * self.warp;
        let group = (item.part * p.tiles + slot / SLOTS) * GROUPS + slot % GROUPS;
        let block = item.channel as u64 * p.complete as u64 + item.number as u64;
        let beams = block * (4 * p.rows * p.columns) as u64;
        each!(column < COLUMNS, of 4 {
            let of = Group(group + column as u32).column(axis, slot % SLOTS >= GROUPS);
            if let Some(q) = of {
                let (a, b) = (even[column], odd[column]);
                let (powers, other) = if lane == 0 {
                    ([a, b], p.rows)
                } else {
                    ([a + b, a - b], 2 * p.rows - lane)
                };
                let row = beams + (2 * p.rows * q) as u64;
                // SAFETY: beams that no other lane stores.
                unsafe {
                    store_power(p, row + lane as u64, powers[0], gain);
                    store_power(p, row + other as u64, powers[1], gain);
                }
            }
        });
    }
}

/// Stores a power; what rounding left below zero is zero.
///
/// # Safety
/// - The launch keeps the conditions of [`GridMma`]; `index` is the number of a beam, which no other thread stores.
#[inline(always)]
unsafe fn store_power(p: &GridMma, index: u64, power: f32, gain: f32) {
    let power = if power < 0.0 { 0.0 } else { power } * gain;
    // SAFETY: a beam that this thread alone stores.
    unsafe {
        if p.half != 0 {
            store_global_16(p.beams + 2 * index, halves(0.0, power) as u16);
        } else {
            store_global(p.beams + 4 * index, power.to_bits());
        }
    }
}

/// Two dishes of a value of `s`: their real parts and their imaginary parts as halves, exactly.
///
/// # Safety
/// - `first` and `second` are addresses of samples of `ENCODING`, aligned to their size, in the block's shared memory.
/// - They were stored before a barrier that this thread waited at, or copied by it and waited for.
#[inline(always)]
unsafe fn dishes<const ENCODING: u32>(first: u32, second: u32) -> [u32; 2] {
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
                let flip = if ENCODING == raw::NIBBLES { 0x0088_0088 } else { 0 };
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

/// `H` of a tile's columns `q` and `2N - q`: fragments of real and imaginary parts, of the first half of a step and of
/// the second.
#[inline(always)]
fn mirrored(products: &[[[u32; 2]; 2]; 2]) -> [[u32; 4]; 2] {
    let mut fragments = [[0; 4]; 2];
    each!(half < 2, of 2 {
        let [[re, sine_re], [im, sine_im]] = products[half];
        fragments[0][2 * half] = add_halves(re, neg_halves(sine_im));
        fragments[0][2 * half + 1] = add_halves(im, sine_re);
        fragments[1][2 * half] = add_halves(re, sine_im);
        fragments[1][2 * half + 1] = add_halves(im, neg_halves(sine_re));
    });
    fragments
}

/// [`mirrored`] of the first tile, whose group 0 has two cosines.
#[inline(always)]
fn each_alone(products: &[[[u32; 2]; 2]; 2], alone: bool) -> [[u32; 4]; 2] {
    let mut fragments = mirrored(products);
    if alone {
        each!(half < 2, of 2 {
            let [[re, other_re], [im, other_im]] = products[half];
            fragments[0][2 * half] = re;
            fragments[0][2 * half + 1] = im;
            fragments[1][2 * half] = other_re;
            fragments[1][2 * half + 1] = other_im;
        });
    }
    fragments
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
