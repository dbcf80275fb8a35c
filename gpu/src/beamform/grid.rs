//! Beams of dishes on a grid. The arithmetic is [`crate::abi::grid`]'s.
//!
//! ```text
//! samples -> [weigh] grid[m][n] -> [rows] half[m][q] -> [columns] beam[q][p] -> squares, in registers
//! ```
//!
//! A block has a few items, each a channel and a block of times, whose threads work for no other. A thread makes
//! a tile of groups of beams at once: each value that it reads is multiplied by the factors of four groups, which
//! neighbouring lanes share. Through the second step a thread has two values of `q`, next to each other in the order of
//! groups, and keeps the sums of their 32 beams. Values are read and written by 16 bytes in rows of an odd number of
//! them: no bank conflicts.
//!
//! Bound by latency, as predicted: ten warps of a multiprocessor wait for samples and barriers. Of 24 x 24 dishes there
//! are 144 multiply-adds for each dish, time and polarisation, a quarter of those of two transforms by their definition. The tensor cores make the same beams from f16 values in kotekan's kernel
//! (`julia/kernels/frb.jl`, after "CHORD FRB beamformer", `julia/docs`).

use crate::{
    abi::{
        channelise::{Complex, Real, multiply},
        grid::{
            self, Axis, Grid, NONE, Room, Sums, TILE, TOGETHER, grid_pitch, half_pitch,
            item_threads,
        },
    },
    channelise::sample::component,
    isa::common::{
        barrier, block, dynamic_shared, halves, load_global_2, load_global_4, load_shared_4,
        opaque, read_global, store_global, store_global_16, store_shared_4, thread, threads,
    },
    tile::divisor,
};

/// Values of `q` of a thread.
const COLUMNS: usize = 2;

/// Sums over time of a thread's beams: `[group][column][value]`.
type Powers = [[[f32; 4]; COLUMNS]; TILE as usize];

kernel! {
    /// Powers of all beams.
    fn beamform_grid(p: Grid) {
        let worker = Worker::new(&p);
        worker.prepare(&p);
        barrier();
        let mut powers = [[[0.0; 4]; COLUMNS]; TILE as usize];
        if worker.continues(&p) {
            worker.load(&p, &mut powers);
        }
        let most = if p.times < p.block_times { p.times } else { p.block_times };
        // Items of a warp end apart: unknown numbers of times keep all lanes at the same barriers.
        let of_beams = if worker.has_beams() { worker.times } else { 0 };
        let mut step = 0;
        while step < most {
            let mut polarisation = 0;
            while polarisation < p.polarisations {
                if step < opaque(worker.times) {
                    worker.weigh(&p, step, polarisation);
                }
                barrier();
                if step < opaque(worker.times) {
                    worker.rows();
                }
                barrier();
                if step < opaque(of_beams) {
                    worker.columns(&mut powers);
                }
                polarisation += 1;
            }
            step += 1;
        }
        if worker.times > 0 && worker.has_beams() {
            worker.store(&p, &powers);
        }
    }
}

/// A thread's part of an item.
struct Worker {
    rows: Axis,
    columns: Axis,
    /// Threads of the item.
    threads: u32,
    /// Index among them.
    index: u32,
    /// The item's channel.
    channel: u32,
    /// The item's block of times.
    number: u32,
    /// First of its times among the samples'.
    first: u32,
    /// Times of it that the samples have, 0 of a thread without an item.
    times: u32,
    /// Tile of `p`.
    tile: u32,
    /// Pair of values along `q`.
    pair: u32,
    /// Shared memory: the factors of `n` and of `m`, the item's weighted samples, its `H`.
    factors: [u32; 2],
    grid: u32,
    half: u32,
}

impl Worker {
    #[inline(always)]
    fn new(p: &Grid) -> Self {
        let (rows, columns) = (Axis { size: p.rows }, Axis { size: p.columns });
        let of_item = item_threads(rows, columns);
        let (slot, index) = (thread() / divisor(of_item), thread() % divisor(of_item));
        let item = block() * p.items + slot;
        let (number, channel) = (item / divisor(p.channels), item % divisor(p.channels));
        // Times are counted from the start of the first block here, of the samples below.
        let start = number * p.block_times;
        let there = slot < p.items && number < p.blocks;
        let begin = if start < p.skip { p.skip } else { start };
        let (end, last) = (start + p.block_times, p.skip + p.times);
        let end = if end < last { end } else { last };
        let lanes = columns.places().next_multiple_of(TOGETHER);
        let (room, base) = (Room::new(rows, columns, p.items), dynamic_shared());
        Self {
            rows,
            columns,
            threads: of_item,
            index,
            channel,
            number,
            first: begin.wrapping_sub(p.skip),
            times: if there { end - begin } else { 0 },
            tile: index / divisor(lanes),
            pair: index % divisor(lanes),
            factors: [room.factors[0].at(base, 0), room.factors[1].at(base, 0)],
            grid: room.grid.at(base, slot),
            half: room.half.at(base, slot),
        }
    }

    /// Whether the thread has beams.
    #[inline(always)]
    fn has_beams(&self) -> bool {
        self.pair < self.columns.places()
    }

    /// Whether the item begins with sums.
    #[inline(always)]
    fn continues(&self, p: &Grid) -> bool {
        self.times > 0 && self.has_beams() && self.number == 0 && p.skip > 0
    }

    /// Factors, and zeros for the places without a dish.
    ///
    /// # Safety
    /// - All threads of the block call it together, in a launch that keeps the conditions of [`Grid`]; the worker is
    ///   [`new`](Self::new)'s of the same parameters.
    /// - The block's shared memory has the room of the parameters, all of it free.
    #[inline(always)]
    unsafe fn prepare(&self, p: &Grid) {
        let words = (self.columns.table_len() + self.rows.table_len()) / 2;
        let mut word = thread();
        while word < words {
            // SAFETY: a word of the tables', which lie one behind the other here and there.
            unsafe {
                let factors = load_global_4(p.factors + 16 * word as u64);
                store_shared_4(self.factors[0] + 16 * word, factors);
            }
            word += threads();
        }
        let bytes = self.rows.places() * grid_pitch(self.columns);
        let mut byte = 16 * self.index;
        while self.times > 0 && byte < bytes {
            // SAFETY: within the item's room.
            unsafe { store_shared_4(self.grid + byte, [0; 4]) };
            byte += 16 * self.threads;
        }
    }

    /// Weighted samples of a time and polarisation, to their places: two neighbours at a time.
    ///
    /// # Safety
    /// - The threads of the item call it together, in a launch that keeps the conditions of [`Grid`].
    /// - `step` is below the item's times and `polarisation` below `p.polarisations`.
    /// - The item's grid is in the block's shared memory, behind [`prepare`](Self::prepare) and a barrier; nobody else uses it
    ///   before the next.
    #[inline(always)]
    unsafe fn weigh(&self, p: &Grid, step: u32, polarisation: u32) {
        let stream = self.channel as u64 * p.polarisations as u64 + polarisation as u64;
        let streams = p.channels as u64 * p.polarisations as u64;
        let time = (self.first + step) as u64;
        let (weights, samples) =
            (stream * p.dishes as u64, (time * streams + stream) * p.dishes as u64);
        let value = |dish: u32| -> [u32; 2] {
            if dish == NONE {
                return [0; 2];
            }
            // SAFETY: a dish of the samples'.
            unsafe {
                let index = 2 * (samples + dish as u64);
                let sample = [
                    component(p.samples, index, p.encoding),
                    component(p.samples, index + 1, p.encoding),
                ];
                let weight = load_global_2(p.weights + 8 * (weights + dish as u64));
                multiply(sample, weight.map(f32::from_bits)).map(f32::to_bits)
            }
        };
        // Threads pass over the end of rows as over places, so that neighbours store next to each other.
        let (groups, pitch) = (self.columns.groups(), grid_pitch(self.columns) / 16);
        let mut place = self.index;
        while place < self.rows.places() * pitch {
            let (row, pair) = (place / divisor(pitch), place % divisor(pitch));
            if pair < groups {
                // SAFETY: two places of the grid, and theirs in the item's room.
                unsafe {
                    let dishes = load_global_2(p.places + 8 * (row * groups + pair) as u64);
                    if dishes[0] & dishes[1] != NONE {
                        let [a, b] = dishes.map(value);
                        store_shared_4(self.grid + 16 * place, [a[0], a[1], b[0], b[1]]);
                    }
                }
            }
            place += self.threads;
        }
    }

    /// Rows of the grid to `H`: a row and a tile of `q` at a time.
    ///
    /// # Safety
    /// - The threads of the item call it together. Its grid and the factors were stored before a barrier of the block.
    /// - Nobody else uses its `H` before the next barrier.
    #[inline(always)]
    unsafe fn rows(&self) {
        let (tiles, groups) = (self.columns.tiles(), self.columns.groups());
        let rows = self.rows.places().next_multiple_of(TOGETHER);
        let mut task = self.index;
        while task < tiles * rows {
            let (tile, row) = (task / divisor(rows), task % divisor(rows));
            if row < self.rows.places() {
                let mut sums = [[[[0.0; 2]; 2]; 2]; TILE as usize];
                let mut values = self.grid + row * grid_pitch(self.columns);
                let mut factors = self.factors[0] + 8 * TILE * tile;
                let mut pair = 0;
                while pair < groups {
                    // SAFETY: a row of the item's, two places of it, and their factors.
                    unsafe {
                        let [even, odd] = split(load_shared_4(values));
                        add_tile::<0>(&mut sums, factors_at(factors), even);
                        factors += 8 * TILE * tiles;
                        add_tile::<1>(&mut sums, factors_at(factors), odd);
                    }
                    factors += 8 * TILE * tiles;
                    values += 16;
                    pair += 1;
                }
                let address = self.half + row * half_pitch(self.columns) + 32 * TILE * tile;
                each!(group < TILE as usize, of 4 {
                    if TILE * tile + (group as u32) < groups {
                        let first = group == 0 && tile == 0;
                        let [a, b, c, d] =
                            grid::finish(first, sums[group]).map(|value| value.map(f32::to_bits));
                        // SAFETY: the group's values of the row.
                        unsafe {
                            let address = address + 32 * group as u32;
                            store_shared_4(address, [a[0], a[1], b[0], b[1]]);
                            store_shared_4(address + 16, [c[0], c[1], d[0], d[1]]);
                        }
                    }
                });
            }
            task += self.threads;
        }
    }

    /// The thread's columns of `H` to beams, whose powers are added.
    ///
    /// # Safety
    /// - The thread [has beams](Self::has_beams). The item's `H` and the factors were stored before a barrier of the block,
    ///   and nobody stores them before the next.
    #[inline(always)]
    unsafe fn columns(&self, powers: &mut Powers) {
        let tiles = self.rows.tiles();
        let mut sums = [[[[[0.0; 2]; 2]; 2]; TILE as usize]; COLUMNS];
        let mut values = self.half + 16 * self.pair;
        let mut factors = self.factors[1] + 8 * TILE * self.tile;
        let mut pair = 0;
        while pair < self.rows.groups() {
            // SAFETY: two rows of the item's, and their factors.
            unsafe {
                let (even, of_even) = (split(load_shared_4(values)), factors_at(factors));
                each!(column < COLUMNS, of 2 {
                    add_tile::<0>(&mut sums[column], of_even, even[column]);
                });
                values += half_pitch(self.columns);
                factors += 8 * TILE * tiles;
                let (odd, of_odd) = (split(load_shared_4(values)), factors_at(factors));
                each!(column < COLUMNS, of 2 {
                    add_tile::<1>(&mut sums[column], of_odd, odd[column]);
                });
                values += half_pitch(self.columns);
                factors += 8 * TILE * tiles;
            }
            pair += 1;
        }
        each!(group < TILE as usize, of 4 {
            let first = group == 0 && self.tile == 0;
            each!(column < COLUMNS, of 2 {
                let beams = grid::finish(first, sums[column][group]);
                each!(value < 4, of 4 {
                    let sum = &mut powers[group][column][value];
                    *sum = grid::power(beams[value], *sum);
                });
            });
        });
    }

    /// For each of the thread's beams its index in `[q][p]`.
    #[inline(always)]
    fn each_beam(&self, mut then: impl FnMut(usize, usize, usize, u64)) {
        // Indices are computed anew each time: kept, they would take the registers of sums.
        let (tile, pair) = (opaque(self.tile), opaque(self.pair));
        each!(column < COLUMNS, of 2 {
            let position = COLUMNS as u32 * pair + column as u32;
            let q = self.columns.beam(position / 4, position % 4);
            each!(group < TILE as usize, of 4 {
                let of_row = TILE * tile + group as u32;
                each!(value < 4, of 4 {
                    let p = self.rows.beam(of_row, value as u32);
                    if q != NONE && p != NONE && of_row < self.rows.groups() {
                        then(group, column, value, (2 * self.rows.size * q + p) as u64);
                    }
                });
            });
        });
    }

    /// Sums that the first block begins with.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`Grid`], and the item [continues](Self::continues): `p.before` has sums of its
    ///   beams, which no other thread uses.
    #[inline(always)]
    unsafe fn load(&self, p: &Grid, powers: &mut Powers) {
        let first = self.channel as u64 * self.beams();
        self.each_beam(|group, column, value, beam| {
            // SAFETY: a sum that no other thread uses.
            let sum = unsafe { read_global(p.before + 4 * (first + beam)) };
            powers[group][column][value] = f32::from_bits(sum);
        });
    }

    /// Beams of a complete block, or sums of another.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`Grid`]; the thread [has beams](Self::has_beams), of an item with times.
    /// - No other thread of the launch stores them.
    #[inline(always)]
    unsafe fn store(&self, p: &Grid, powers: &Powers) {
        let gain = f32::from_bits(p.gain);
        let complete = self.number < p.complete;
        let block = self.channel as u64 * p.complete as u64 + self.number as u64;
        let first = if complete { block } else { self.channel as u64 } * self.beams();
        self.each_beam(|group, column, value, beam| {
            let sum = powers[group][column][value];
            // SAFETY: a beam that no other thread stores.
            unsafe {
                if !complete {
                    store_global(p.after + 4 * (first + beam), sum.to_bits());
                } else if p.half != 0 {
                    let half = halves(0.0, sum.mul(gain)) as u16;
                    store_global_16(p.beams + 2 * (first + beam), half);
                } else {
                    store_global(p.beams + 4 * (first + beam), sum.mul(gain).to_bits());
                }
            }
        });
    }

    /// Beams of an item.
    #[inline(always)]
    fn beams(&self) -> u64 {
        (4 * self.rows.size * self.columns.size) as u64
    }
}

/// Two complex values of 16 bytes.
#[inline(always)]
fn split(words: [u32; 4]) -> [Complex<f32>; 2] {
    let [a, b, c, d] = words.map(f32::from_bits);
    [[a, b], [c, d]]
}

/// The factors of a tile's groups.
///
/// # Safety
/// - `address` is a multiple of 16, and 32 bytes there lie in the block's shared memory, stored before a barrier.
#[inline(always)]
unsafe fn factors_at(address: u32) -> [[f32; 2]; TILE as usize] {
    // SAFETY: 16 aligned bytes twice, which are there and stored.
    let [[a, b], [c, d]] =
        unsafe { [split(load_shared_4(address)), split(load_shared_4(address + 16))] };
    [a, b, c, d]
}

/// Adds a value at a place of one parity to the sums of all groups of a tile.
#[inline(always)]
fn add_tile<const PARITY: usize>(
    sums: &mut [Sums<f32>; TILE as usize],
    factors: [[f32; 2]; TILE as usize],
    value: Complex<f32>,
) {
    each!(group < TILE as usize, of 4 {
        grid::add(&mut sums[group][PARITY], factors[group], value);
    });
}
