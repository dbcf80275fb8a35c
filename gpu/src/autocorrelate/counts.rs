//! Groups 0 and 1, and the bins of group 2, from counts as they come, `[instant][sensor]`.
//!
//! A segment of time is cut into 32 subsegments, over which matrix products sum: their K. A block takes
//! one segment of 16 sensors. [`COUNT_STEP`] instants of every subsegment are copied to shared memory,
//! steps ahead; there the threads transpose them: a thread takes four sensors at four instants of four
//! subsegments, transposes bytes in registers, and has the bin of four counts as a by-product.
//!
//! Every subsegment is preceded by a halo: the instants that its delay lines must hold when it begins. Instants
//! before the first come from the tail of the call before, instants after the last are zero. Longer delay lines
//! find their halo's bins in the word before, at the end of its subsegments; the whole halo is transposed only
//! for the subsegments of word 0.
//!
//! Then a warp multiplies one sensor's counts. Operand A has 16 instants as rows, operand B the
//! instants of the delay line as columns; their product is a Gram matrix
//!
//! ```text
//! G[r][c] = sum_subsegments x[n + r] * x[n - 96 + c]
//! ```
//!
//! that is summed over all steps of time. Its diagonals are the lags `96 + r - c`; they are added up
//! once, when a segment ends. Fourteen tiles of 8 columns give the lags from 0 to 95, which are enough
//! for group 1 too: with bins `x[2m] + x[2m+1]`,
//!
//! ```text
//! A_1[c] = sum_m sum_{a,b} x[2m + a] * x[2m + b - S - 2c],
//! ```
//!
//! so that rows of even and of odd instants are added up apart: lag `L` meets group 1 in lag
//! `c = (L - S + 1) / 2` where `a = 0`, `(L - S) / 2` where `a = 1`, both rounded down. An instant is
//! loaded once; the tiles of the delay line stay in registers.
//!
//! Sums wrap at 2^32 and are read as unsigned: a product is at most 255^2, 32 of them for every 16
//! instants; [`crate::abi::autocorrelate::MAX_SUBSEGMENT`] keeps them below.
//!
//! Bound by requests to the load unit and to the L2 cache, one for every 16 counts: the sums of 16 sensors
//! take all registers of a multiprocessor. Where TMA can bring the counts,
//! [`super::counts_boxes`] takes 32 sensors. Memory: each count is read once, halos more often; a bin of four
//! counts takes two bytes. Tensor cores: 14 `mma` for 512 counts.

use crate::{
    abi::autocorrelate::{
        COUNT_LAGS, COUNT_SLOTS, COUNT_STEP, COUNT_WARPS, Counts, RING_BYTES, SUBSEGMENTS,
    },
    isa::common::{
        barrier, block, dynamic_shared, keep_branch, lane, load_global_8, load_shared, opaque,
        prmt, store_global, store_shared, store_shared_2, thread, warp_barrier,
    },
    isa::sm_80::{cp_async_4, cp_async_16, ldmatrix_x4, mma_m16n8k32_u8},
    reorder::transpose,
    tile::{
        divisor, fragment,
        ring::{self, Shape, Work},
    },
};

use super::{
    keep,
    transposed::{self, TILE_BYTES, place},
};

/// Tiles of 8 columns: the lags, and the 16 rows' own instants.
const TILES: usize = (COUNT_LAGS as usize + 16) / 8;

/// Tiles of the delay line that a warp holds between two steps of 16 instants.
const HELD: usize = TILES - 2;

/// Sensors of a row of what is copied, one instant of one subsegment.
const ROW: u32 = 16;

/// Bytes that are copied of a subsegment for a step.
const BOX_BYTES: u32 = COUNT_STEP * ROW;

/// Bytes that are copied for a step.
const SLOT_BYTES: u32 = SUBSEGMENTS * BOX_BYTES;

/// Bytes of all slots.
const SLOTS_BYTES: u32 = COUNT_SLOTS * SLOT_BYTES;

/// Words of 32 bits of half a tile of sums.
const HALF_WORDS: u32 = 8 * 8;

/// One block's work.
struct Task<'a> {
    p: &'a Counts,
    shared: u32,
    /// First sensor.
    sensor: u32,
    segment: u32,
    /// Sensors of the block.
    sensors: u32,
    /// The first step for all subsegments, counted from the beginning of the halo. Those before are for
    /// the subsegments of word 0, every eighth.
    begin: u32,
}

impl Task<'_> {
    /// The ring of a sensor of the block: transposed counts of the last steps.
    #[inline(always)]
    fn ring(&self, sensor: u32) -> u32 {
        self.shared + SLOTS_BYTES + sensor * RING_BYTES
    }

    /// Position of a sensor's word `word` in its chunk: fours of sensors that are transposed together have it in
    /// different banks. All products are of the same sensor, so that it is all the same to them.
    #[inline(always)]
    fn word(sensor: u32, word: u32) -> u32 {
        4 * ((word % 4) ^ (sensor / 4 % 4))
    }

    /// Whether a step is copied for a subsegment.
    #[inline(always)]
    fn is_copied(&self, step: u32, subsegment: u32) -> bool {
        step >= self.begin || subsegment.is_multiple_of(8)
    }

    /// The first instant of a step of a subsegment, counted from the first of all.
    #[inline(always)]
    fn instant(&self, step: u32, subsegment: u32) -> i64 {
        (self.segment * SUBSEGMENTS + subsegment) as i64 * self.p.subsegment as i64
            + (step * COUNT_STEP) as i64
            - self.p.halo as i64
    }

    /// Offset in the ring of a tile of 8 instants, counted from the beginning of the halo. Two steps
    /// of all sensors lie together, where there are two chunks the next two behind them.
    #[inline(always)]
    fn tile(&self, tile: u32) -> u32 {
        const HALF: u32 = 2 * COUNT_STEP / 8;
        let half = (tile / HALF) & (self.p.chunks - 1);
        half * self.sensors * RING_BYTES + tile % HALF * TILE_BYTES
    }

    /// Transposes a step from the slot that lies `slot` bytes from the first into the rings, and writes its bins of group 2.
    ///
    /// # Safety
    /// - All threads of the block call it together, with the same arguments. The slot holds the step, and is complete.
    /// - The step that the rings lose was read by all, which have passed a barrier since.
    #[inline(always)]
    unsafe fn transpose(&self, step: u32, slot: u32) {
        let p = self.p;
        // Four sensors, the subsegments `word`, 8 + `word`, .., and four instants, the eights of lanes
        // in different order. Addresses are made anew for every step: the sums take the registers.
        let thread = opaque(thread());
        let (quad, four, word) = (thread % 4, thread / 4 % 8, thread / 32 % 8);
        let half = thread / 256;
        if 4 * quad >= self.sensors || (step < self.begin && word > 0) {
            return;
        }
        let first = 32 * half + 4 * four;
        let from = self.shared + slot + word * BOX_BYTES + (first + four / 2) * ROW + 4 * quad;
        let to = self.ring(4 * quad)
            + self.tile(step * COUNT_STEP / 8 + first / 8)
            + place(first % 8 + four / 2, word / 4)
            + Self::word(4 * quad, word);
        let mut even = [0; 4];
        let mut odd = [0; 4];
        for i in 0..4 {
            let from = from ^ (i * ROW);
            let to = to ^ (i * SUBSEGMENTS);
            let mut rows = [0; 4];
            for j in 0..4 {
                // SAFETY: rows of the slot.
                rows[j as usize] = unsafe { load_shared(from + 8 * j * BOX_BYTES) };
            }
            let transposed = transpose::bytes_4x4(rows);
            for sensor in 0..4 {
                // SAFETY: the rings have the place, and no other thread has it.
                unsafe { store_shared(to + sensor as u32 * RING_BYTES, transposed[sensor]) };
                even[sensor] += transposed[sensor] & 0x00ff_00ff;
                odd[sensor] += prmt::<0x4341>(transposed[sensor], 0);
            }
        }
        if p.low < 2 {
            return;
        }
        let bin = step * (COUNT_STEP / 4) + first / 4;
        let first = self.sensor + 4 * quad;
        let mut to = transposed::bins(p, first, self.segment, bin / 8)
            + (word * 2 * 4 * 8 + bin % 8 * 4) as u64;
        for sensor in 0..4 {
            if first + (sensor as u32) < p.sensors {
                // SAFETY: the bin is this thread's own.
                unsafe {
                    store_global(to, prmt::<0x6240>(even[sensor], odd[sensor]));
                    store_global(to + 4 * 8, prmt::<0x7351>(even[sensor], odd[sensor]));
                }
            }
            to += transposed::bins_of_sensor(p);
        }
    }

    /// Starts copying a step of all subsegments that need it to the slot that lies `slot` bytes from the first. A warp takes
    /// two.
    ///
    /// # Safety
    /// - All threads of the block call it together, with the same arguments.
    /// - The slot's last contents were read by all, which have passed a barrier since.
    #[inline(always)]
    unsafe fn start(&self, step: u32, slot: u32) {
        let p = self.p;
        let thread = opaque(thread());
        let subsegment = thread / 32 * 2;
        let slot = self.shared + slot + subsegment * BOX_BYTES;
        let first = self.instant(step, subsegment);
        let mut row = thread % 32;
        while row < 2 * COUNT_STEP {
            let part = row / COUNT_STEP;
            if !self.is_copied(step, subsegment + part) {
                row += 32;
                continue;
            }
            let offset = part * p.subsegment + row % COUNT_STEP;
            let instant = first + offset as i64;
            let at = if instant < 0 {
                p.tail + (instant + p.halo as i64) as u64 * p.sensors as u64
            } else {
                p.counts + instant as u64 * p.sensors as u64
            };
            let is_there = instant < p.instants as i64;
            let from = if is_there { at + self.sensor as u64 } else { p.tail };
            let to = slot + row * ROW;
            // SAFETY: counts that exist, to a row of the slot.
            unsafe {
                if p.piece == ROW {
                    cp_async_16(to, from, if is_there { ROW } else { 0 });
                } else {
                    self.copy_row(to, from, is_there);
                }
            }
            row += 32;
        }
    }

    /// Copies a row in pieces of four sensors, or one by one.
    ///
    /// # Safety
    /// - `to` is a multiple of 16, the address of [`ROW`] bytes of the slot that are this thread's alone.
    /// - If `is_there`, the counts of the block's sensors lie from `from` on, as far as there are sensors.
    #[inline(always)]
    unsafe fn copy_row(&self, to: u32, from: u64, is_there: bool) {
        let p = self.p;
        let mut word = 0;
        while word < opaque(ROW / 4) {
            let sensor = self.sensor + 4 * word;
            let is_there = is_there && 4 * word < self.sensors && sensor < p.sensors;
            let left = if is_there { p.sensors - sensor } else { 0 };
            // SAFETY: counts of sensors that exist.
            unsafe {
                if p.piece == 4 {
                    // Fours of sensors exist together.
                    let from = if left > 0 { from + 4 * word as u64 } else { p.tail };
                    cp_async_4(to + 4 * word, from, if left > 0 { 4 } else { 0 });
                } else {
                    let mut counts = 0;
                    for byte in 0..4 {
                        if byte < left {
                            let count = load_global_8(from + (4 * word + byte) as u64);
                            counts |= count << (8 * byte);
                        }
                    }
                    store_shared(to + 4 * word, counts);
                }
            }
            word += 1;
        }
    }
}

/// Adds the products of a step's instants with the [`COUNT_LAGS`] before each 16 of them, which are
/// those of the delay line.
///
/// # Safety
/// - All 32 lanes of the warp call it together, with the same `sensor`, `step` and `chunk`, for steps in order.
/// - The sensor's ring holds the step, and the steps of its delay line, complete and visible to the warp.
#[inline(always)]
unsafe fn multiply(
    task: &Task,
    sums: &mut [[u32; 4]; TILES],
    held: &mut [[u32; 2]; HELD],
    sensor: u32,
    step: u32,
    chunk: u32,
) {
    // Tiles of half a step.
    const TILES_OF_HALF: u32 = COUNT_STEP / 16;
    let sensor = opaque(sensor);
    let ring = task.ring(sensor);
    let first = step * COUNT_STEP / 8;
    let delayed = first.wrapping_sub(chunk * COUNT_LAGS / 8);
    // As operand A either chunk of two tiles, as operand B two tiles of either chunk.
    let lane = opaque(lane());
    let (row, matrix) = (lane % 8, lane / 8);
    let direct = ring + task.tile(first) + matrix % 2 * TILE_BYTES + place(row, matrix / 2);
    let as_column = matrix / 2 * TILE_BYTES + place(row, matrix % 2);
    // Either half of the delayed instants lies in one piece.
    let delayed = [delayed, delayed.wrapping_add(TILES_OF_HALF)];
    let delayed = delayed.map(|tile| ring + task.tile(tile) + as_column);
    for i in 0..COUNT_STEP / 16 {
        let delayed =
            delayed[(2 * i / TILES_OF_HALF) as usize] + 2 * i % TILES_OF_HALF * TILE_BYTES;
        // SAFETY: tiles of the ring.
        let (a, b) = unsafe { (ldmatrix_x4(direct + 2 * i * TILE_BYTES), ldmatrix_x4(delayed)) };
        let (new, newest) = ([b[0], b[1]], [b[2], b[3]]);
        for tile in 0..HELD {
            mma_m16n8k32_u8(&mut sums[tile], a, held[tile]);
        }
        mma_m16n8k32_u8(&mut sums[HELD], a, new);
        mma_m16n8k32_u8(&mut sums[HELD + 1], a, newest);
        for tile in 0..HELD - 2 {
            held[tile] = held[tile + 2];
        }
        held[HELD - 2] = new;
        held[HELD - 1] = newest;
    }
}

/// Adds the diagonals of a warp's sums to the products in memory.
///
/// # Safety
/// - All 32 lanes of the warp call it together, with the same arguments but for their `sums`.
/// - `scratch` is a multiple of 8, the address of `4 HALF_WORDS TILES` bytes of shared memory of the warp alone.
/// - `p.products` is as [`Counts`] says, and `sensor` is below `p.sensors`.
#[inline(always)]
unsafe fn finish(p: &Counts, sums: &[[u32; 4]; TILES], scratch: u32, sensor: u32, chunk: u32) {
    const TOGETHER: usize = COUNT_LAGS as usize / 32;
    let word =
        |tile: u32, row: u32, column: u32| scratch + 4 * (tile * HALF_WORDS + row * 8 + column);
    // Sums of the rows of even instants, and of odd ones.
    let mut totals = [[0u64; 2]; TOGETHER];
    // SAFETY: the scratch has room for the eight rows of a half.
    unsafe {
        for half in 0..2 {
            warp_barrier();
            for tile in 0..TILES {
                let place = fragment::accumulator(lane(), 0);
                let pair = [sums[tile][2 * half], sums[tile][2 * half + 1]];
                store_shared_2(word(tile as u32, place.row, place.column), pair);
            }
            warp_barrier();
            for i in 0..TOGETHER {
                for row in 0..8 {
                    let lag = 32 * i as u32 + lane();
                    let column = COUNT_LAGS + 8 * half as u32 + row - lag;
                    let sum = load_shared(word(column / 8, row, column % 8));
                    totals[i][row as usize % 2] += sum as u64;
                }
            }
        }
        for i in 0..TOGETHER {
            let lag = chunk * COUNT_LAGS + 32 * i as u32 + lane();
            transposed::add_products(p, sensor, lag, totals[i]);
        }
    }
}

/// A segment of a block's sensors: its steps are copied to slots, transposed into the rings of the sensors, and multiplied
/// there, a step later.
struct Segment<'a> {
    task: &'a Task<'a>,
    /// Number of steps, and of those before the first instant of the subsegments.
    steps: u32,
    halo_steps: u32,
    /// Sensor and chunk of lags of the warp, and whether there is such a sensor.
    sensor: u32,
    chunk: u32,
    is_there: bool,
    sums: [[u32; 4]; TILES],
    /// Tiles of the delay line.
    held: [[u32; 2]; HELD],
    /// The lane's share of the sums of the sensor's counts.
    total: u32,
}

impl Segment<'_> {
    /// Adds the products of a step that lies in the rings.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, for steps in order; the warp's sensor is there.
    /// - The step was transposed, and all threads have passed a barrier since.
    #[inline(always)]
    unsafe fn add_products(&mut self, step: u32) {
        let Self { task, halo_steps, sensor, chunk, .. } = *self;
        let p = task.p;
        // SAFETY: the ring of the sensor holds the step, and those of the delay line.
        unsafe {
            if p.low < 2 && chunk == 0 {
                let place = |instant: u32, word: u32| {
                    task.ring(opaque(sensor))
                        + task.tile(instant / 8)
                        + place(instant % 8, word / 4)
                        + Task::word(sensor, word)
                };
                let of_all = task.sensor + sensor;
                self.total += transposed::keep::<COUNT_STEP>(p, step, of_all, task.segment, place);
            }
            // Products from before the end of the halo are discarded; the last operands are kept in `held`.
            if step + 2 >= halo_steps {
                if step == halo_steps {
                    keep_branch();
                    self.sums = [[0; 4]; TILES];
                }
                multiply(task, &mut self.sums, &mut self.held, sensor, step, chunk);
            }
        }
    }
}

impl Shape for Segment<'_> {
    const STAGES: u32 = COUNT_SLOTS;
    const STAGE_BYTES: u32 = SLOT_BYTES;

    #[inline(always)]
    fn barrier() {
        barrier();
    }
}

impl Work for Segment<'_> {
    /// One more than there are, in which the last is multiplied.
    #[inline(always)]
    fn steps(&self) -> u32 {
        self.steps + 1
    }

    #[inline(always)]
    unsafe fn load(&mut self, step: u32, slot: u32) {
        if step < self.steps {
            // SAFETY: the whole block copies a step, to a slot that is free.
            unsafe { self.task.start(step, slot) };
        }
    }

    /// Transposes the step, and multiplies the one before.
    #[inline(always)]
    unsafe fn multiply(&mut self, step: u32, slot: u32) {
        // SAFETY: the slot is complete; the step before was transposed before the barrier.
        unsafe {
            if step < self.steps {
                self.task.transpose(step, slot);
            }
            if self.is_there && step > 0 {
                self.add_products(step - 1);
            }
        }
    }
}

kernel! {
    /// Products of groups 0 and 1 and bins of group 2 of one segment of the block's sensors.
    fn autocorrelate_counts(p: Counts) {
        let chunks = divisor(p.chunks);
        let sensors = COUNT_WARPS / chunks;
        let tiles = divisor((p.sensors + sensors - 1) / divisor(sensors));
        let halo_steps = p.halo / COUNT_STEP;
        // Delay lines are filled by two steps, and by two more for every chunk behind.
        // Bins of groups 0 and 1 go to memory from here, too.
        let begin = if p.low < 2 { 0 } else { halo_steps - 2 * p.chunks };
        let task = Task {
            p: &p,
            shared: dynamic_shared(),
            sensor: block() % tiles * sensors,
            segment: block() / tiles,
            sensors,
            begin,
        };
        let warp = thread() / 32;
        let (sensor, chunk) = (warp / chunks, warp % chunks);
        let mut segment = Segment {
            task: &task,
            steps: halo_steps + p.subsegment / COUNT_STEP,
            halo_steps,
            sensor,
            chunk,
            is_there: task.sensor + sensor < p.sensors,
            sums: [[0; 4]; TILES],
            held: [[0; 2]; HELD],
            total: 0,
        };
        ring::run(&mut segment);
        barrier();
        if segment.is_there {
            let scratch = task.shared + warp * (4 * HALF_WORDS * TILES as u32);
            finish(&p, &segment.sums, scratch, task.sensor + sensor, chunk);
            keep::add_total(p.totals, task.sensor + sensor, segment.total);
        }
    }
}
