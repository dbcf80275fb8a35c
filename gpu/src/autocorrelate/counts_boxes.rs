//! Groups 0 and 1, and the bins of group 2, of 32 sensors a block: [`super::counts`] on Hopper.
//!
//! Rows of 32 counts fill a sector, and a request to the L2 cache. The sums of 32 sensors are half as many
//! each as there: rows 0 to 7 of operand A are eight instants, rows 8 to 15 the eight that come 48 later,
//! and the columns are a delay line of 56,
//!
//! ```text
//! G[r][c] = sum_subsegments x[n + r] * x[n - 48 + c],          r < 8,  lags 48 + r - c
//! G[r][c] = sum_subsegments x[n + 40 + r] * x[n - 48 + c],     r >= 8, lags 96 + (r - 8) - c
//! ```
//!
//! so that 7 tiles of sums give 96 lags, and as many `mma` a count as the 14 tiles of 16 instants in a row:
//! they follow each other 8 instants apart. Where a block's part of the subsegments begins, the first 48
//! instants of rows 0 to 7 are those before it, and their sums are forgotten; where it ends, zeros follow it
//! for rows 8 to 15 until rows 0 to 7 have come to its end.
//!
//! TMA copies boxes of [`BOX_STEP`] instants of a subsegment. In a round, a block starts the copies of one step's
//! boxes, transposes the step two before, whose boxes have arrived, and multiplies the step before that. The rings
//! hold the transposed counts of the multiplied step and of the two before it; older ones are operands in
//! registers. The halo of word 0, of which only bins are needed, is transposed first, eight
//! steps a round.
//!
//! ```text
//! memory     [instant][sensor]: a box is 32 instants by 32 sensors of one subsegment, 1 KiB
//!
//! slot       | box of subsegment 0 | 1 | .. | 7 | 4 rows free | 8 | .. | 15 | 4 rows free | ...    3 slots
//!                rows: instants, 32 bytes: sensors
//!
//!              transposed: an instant of a sensor is the 32 bytes of its subsegments, 8 words of 4
//!
//! ring       of each sensor, 4 steps:  | step s - 3 | s - 2 | s - 1 | s |
//!                                        tiles of 8 instants, 256 bytes, read by `ldmatrix`
//!
//! round r    TMA: boxes of step r -> slot r % 3
//!            all: step r - 2, slot -> rings, bins of group 2 -> memory
//!            all: step r - 3, rings -> mma
//! ```
//!
//! Sums wrap at 2^32: 32 products for every 8 instants; [`crate::abi::autocorrelate::MAX_PART`] keeps them
//! below.
//!
//! Bound by instructions and `mma`, one after the other, and the latencies between them; memory would take
//! three quarters of the time. Tried: boxes of eight subsegments (docs/notebook/autocorrelate.md).

use crate::{
    abi::autocorrelate::{
        BOX_SENSORS, BOX_SHIFT, BOX_SLOT_BYTES, BOX_SLOTS, BOX_STEP, BOX_WARPS, COUNT_LAGS, Counts,
        RING_BYTES, SUBSEGMENTS,
    },
    isa::common::{
        barrier, block, dynamic_shared, keep_branch, lane, opaque, prmt, shfl, store_global_2,
        store_shared, store_shared_4, thread, warp_barrier,
    },
    isa::sm_80::{ldmatrix_x4, ldmatrix_x4_trans, mma_m16n8k32_u8},
    isa::sm_90a::{
        copy_tensor_3d, elect, fence_barrier_init, mbarrier_arrive_expect, mbarrier_init,
        mbarrier_wait,
    },
    tile::divisor,
};

use super::{
    gram::Gram,
    keep,
    transposed::{self, TILE_BYTES, place},
};

/// Sensors of a warp.
const WARP_SENSORS: usize = (BOX_SENSORS / BOX_WARPS) as usize;

/// Instants from rows 0 to 7 to the others.
const APART: u32 = COUNT_LAGS / 2;

/// Tiles of 8 columns: the lags of eight rows, and these rows' own instants.
const TILES: usize = APART as usize / 8 + 1;

/// Tiles of the delay line that a warp holds between two steps.
const HELD: usize = TILES - 1;

/// Bytes that are copied of a subsegment for a step.
const BOX_BYTES: u32 = BOX_STEP * BOX_SENSORS;

/// Bytes of all slots.
const SLOTS_BYTES: u32 = BOX_SLOTS * BOX_SLOT_BYTES;

/// Bytes of a step of one sensor, transposed.
const STEP_BYTES: u32 = BOX_STEP * SUBSEGMENTS;

/// Steps of a ring.
const RING_STEPS: u32 = RING_BYTES / STEP_BYTES;

/// Steps after the last, until rows 0 to 7 have come to its end.
const STEPS_AFTER: u32 = APART.div_ceil(BOX_STEP);

/// A warp's sums.
type Sums = [[[u32; 4]; TILES]; WARP_SENSORS];

/// The tiles of the delay lines that a warp holds.
type Held = [[[u32; 2]; HELD]; WARP_SENSORS];

/// One block's work.
struct Task<'a> {
    p: &'a Counts,
    shared: u32,
    /// First sensor.
    sensor: u32,
    segment: u32,
    /// The first step of the block's part of the subsegments, counted from the beginning of the halo.
    first: u32,
    /// The first step that is transposed for products.
    start: u32,
    /// Rounds before that one, which transpose the halo of word 0.
    before: u32,
}

impl Task<'_> {
    /// A step in the ring of a sensor of the block.
    #[inline(always)]
    fn transposed(&self, sensor: u32, step: u32) -> u32 {
        self.shared + SLOTS_BYTES + sensor * RING_BYTES + step % RING_STEPS * STEP_BYTES
    }

    /// Position in the ring of a sensor's word of an instant, one of eight of a step's tile:
    /// the sensors that are transposed together have it in different banks. All products are of the same
    /// sensor, so that it is all the same to them.
    #[inline(always)]
    fn word(sensor: u32, instant: u32, word: u32) -> u32 {
        place(instant, 0) ^ (4 * (word ^ (sensor / 2 % 8)))
    }

    /// Offset of the box of a subsegment in a slot. Shifted by four rows, the same halves of the rows of
    /// two boxes lie in different banks.
    #[inline(always)]
    fn box_at(&self, slot: u32, subsegment: u32) -> u32 {
        self.shared + slot * BOX_SLOT_BYTES + subsegment * BOX_BYTES + subsegment / 8 * BOX_SHIFT
    }

    /// The barrier that counts the bytes of a slot.
    #[inline(always)]
    fn barrier(&self, slot: u32) -> u32 {
        self.shared + SLOTS_BYTES + BOX_SENSORS * RING_BYTES + 8 * slot
    }

    /// The step that a round has brought, from [`before`](Self::before) on.
    #[inline(always)]
    fn step(&self, round: u32) -> u32 {
        self.start + round - self.before
    }

    /// The step of the halo and the word that a round before those has in the place of a word.
    #[inline(always)]
    fn before(round: u32, word: u32) -> (u32, u32) {
        (8 * round + word, 0)
    }

    /// Starts the copies of a round's counts to a slot: each warp, the boxes of two subsegments.
    ///
    /// # Safety
    /// The whole warp calls it; the slot's last contents were read.
    #[inline(always)]
    unsafe fn bring(&self, round: u32, slot: u32) {
        let p = self.p;
        // From one lane, so that the assembler knows that it is the same in all.
        let warp = shfl(opaque(thread()) / 32, 0);
        if !elect() {
            return;
        }
        let barrier = self.barrier(slot);
        let place = 2 * warp;
        let (subsegment, step, apart) = if round < self.before {
            let (step, word) = Self::before(round, place % 8);
            (place / 8 * 8 + word, step, BOX_STEP)
        } else {
            (place, self.step(round), p.subsegment)
        };
        // A launch's instants are counted in 31 bits.
        let first = (self.segment * SUBSEGMENTS + subsegment) * p.subsegment + step * BOX_STEP;
        // SAFETY: boxes of the slot; halo and subsegments are whole steps, so that a box lies in the tail
        // or in the counts, the end of which zeros follow.
        unsafe {
            mbarrier_arrive_expect(barrier, 2 * BOX_BYTES);
            for part in 0..2 {
                let instant = first + part * apart;
                let (map, instant) = if instant < p.halo {
                    (p.maps + 128, instant)
                } else {
                    (p.maps, instant - p.halo)
                };
                let to = self.box_at(slot, place) + part * BOX_BYTES;
                copy_tensor_3d(to, map, [self.sensor, instant, 0], barrier);
            }
        }
    }

    /// Transposes the counts of a round into the rings, and writes their bins of group 2.
    ///
    /// # Safety
    /// The slot holds the counts; what the rings had in its place was read.
    #[inline(always)]
    unsafe fn transpose(&self, round: u32, slot: u32) {
        let p = self.p;
        // A warp takes one word of 16 sensors. `ldmatrix` transposes pairs of sensors: of two matrices a lane
        // gets a pair's counts at one instant of all four subsegments. The lanes of a row take the tiles of
        // the step, their instants in different order. Addresses are made anew for every step: the sums
        // take the registers.
        let thread = opaque(thread());
        let (lane, word, half) = (thread % 32, thread / 32 % 8, thread / 256);
        if self.sensor + 16 * half >= p.sensors {
            return;
        }
        // The lane's row: a quarter of the word, one of two fours of one of four tiles.
        let quarter = lane / 8 % 2 * 2 + lane % 2;
        let (tile, four) = (lane / 2 % 4, lane / 16);
        let from = self.box_at(slot, 8 * quarter + word)
            + (8 * tile + 4 * four + tile) * BOX_SENSORS
            + (half ^ four ^ (quarter % 2)) * 16;
        // The lane gets two sensors, both fours of one of four tiles.
        let (sensor, tile) = (16 * half + lane / 4 * 2, lane % 4);
        let to = self.transposed(sensor, self.step(round))
            + tile * TILE_BYTES
            + Self::word(sensor, tile, word);
        let mut bins = [[[0; 2]; 2]; 2];
        each!(i < 4, of 4 {
            // SAFETY: rows of the slot.
            let pairs = unsafe { ldmatrix_x4_trans(from ^ (i as u32 * BOX_SENSORS)) };
            each!(four < 2, of 2 {
                let [low, high] = [pairs[2 * four], pairs[2 * four + 1]];
                let to = to ^ (i as u32 * SUBSEGMENTS) ^ place(4 * four as u32, 0);
                // SAFETY: the rings have the places, and no other lane has them.
                unsafe {
                    store_shared(to, prmt::<0x6420>(low, high));
                    store_shared(to + RING_BYTES, prmt::<0x7531>(low, high));
                }
                each!(part < 2, of 2 {
                    let pair = pairs[2 * four + part];
                    bins[0][four][part] += pair & 0x00ff_00ff;
                    bins[1][four][part] += prmt::<0x4341>(pair, 0);
                });
            });
        });
        let is_before = round < self.before;
        let (step, word) =
            if is_before { Self::before(round, word) } else { (self.step(round), word) };
        if p.low < 2 || (!is_before && step < self.first) {
            return;
        }
        let to = transposed::bins(p, self.sensor + sensor, self.segment, step)
            + (word * 2 * 4 * 8 + tile * 8) as u64;
        each!(sensor < 2, of 2 {
            let [[a, b], [c, d]] = bins[sensor];
            let to = to + sensor as u64 * transposed::bins_of_sensor(p);
            // SAFETY: the bins are this lane's own.
            unsafe {
                store_global_2(to, [prmt::<0x6420>(a, b), prmt::<0x6420>(c, d)]);
                store_global_2(to + 4 * 8, [prmt::<0x7531>(a, b), prmt::<0x7531>(c, d)]);
            }
        });
    }

    /// Puts zeros in the rings for a step after the last.
    ///
    /// # Safety
    /// The words that the rings held there have been read.
    #[inline(always)]
    unsafe fn clear(&self, step: u32) {
        let thread = opaque(thread());
        let mut at = self.transposed(thread / 16, step) + thread % 16 * 16;
        for _ in 0..STEP_BYTES / (16 * 16) {
            // SAFETY: places of the ring, this thread's own.
            unsafe { store_shared_4(at, [0; 4]) };
            at += 16 * 16;
        }
    }

    /// Adds the products of a step's instants with those of the delay line. `begins` says that rows 0 to 7
    /// come to the first instant of the block's part within the step.
    ///
    /// # Safety
    /// All lanes of the warp call it; the ring holds the step and the two before.
    #[inline(always)]
    unsafe fn multiply(&self, sums: &mut Sums, held: &mut Held, step: u32, begins: bool) {
        /// Tiles of half a step, which are multiplied together.
        const TOGETHER: usize = BOX_STEP as usize / 16;
        let thread = opaque(thread());
        let (row, matrix) = (thread % 8, thread / 8 % 4);
        let at = |step: u32| self.transposed(thread / 32 * WARP_SENSORS as u32, step);
        // The instants of rows 0 to 7 begin within a step: its second half, then the next one's first.
        let early = [at(step.wrapping_sub(2)) + 2 * TILE_BYTES, at(step.wrapping_sub(1))];
        let late = [at(step), at(step) + 2 * TILE_BYTES];
        // Loads half a step of every sensor: as operand B two tiles of either chunk, as operand A twice either
        // chunk of two tiles.
        let load = |half: usize| {
            let columns = early[half] + matrix / 2 * TILE_BYTES + place(row, matrix % 2);
            let rows = if matrix % 2 == 0 { early[half] } else { late[half] };
            let rows = rows + place(row, matrix / 2);
            // SAFETY: tiles of the ring.
            let of = |ring: u32| unsafe {
                (
                    ldmatrix_x4(columns + ring),
                    [ldmatrix_x4(rows + ring), ldmatrix_x4(rows + ring + TILE_BYTES)],
                )
            };
            [of(0), of(RING_BYTES)]
        };
        each!(half < 2, of 2 {
            // Before the branch, so that they come while the first half is multiplied.
            let operands = load(half);
            if half == 1 && begins {
                keep_branch();
                each!(sensor < WARP_SENSORS, of 2 {
                    each!(tile < TILES, {
                        sums[sensor][tile][0] = 0;
                        sums[sensor][tile][1] = 0;
                    });
                });
            }
            each!(sensor < WARP_SENSORS, of 2 {
                let (b, a) = operands[sensor];
                let new = [[b[0], b[1]], [b[2], b[3]]];
                each!(i < TOGETHER, of 2 {
                    each!(tile < TILES, {
                        let column = tile + i;
                        let b =
                            if column < HELD { held[sensor][column] } else { new[column - HELD] };
                        mma_m16n8k32_u8(&mut sums[sensor][tile], a[i], b);
                    });
                });
                each!(tile < HELD - TOGETHER, {
                    held[sensor][tile] = held[sensor][tile + TOGETHER];
                });
                each!(i < TOGETHER, of 2 {
                    held[sensor][HELD - TOGETHER + i] = new[i];
                });
            });
        });
    }
}

/// Adds the diagonals of a warp's sums of a sensor to the products in memory.
///
/// # Safety
/// - All 32 lanes of the warp call it together, in a launch that keeps the conditions of [`Counts`].
/// - `gram` is shared memory of the warp alone; `sensor` is one of the launch's.
#[inline(always)]
unsafe fn finish(p: &Counts, sums: &[[u32; 4]; TILES], gram: Gram<TILES>, sensor: u32) {
    // SAFETY: the warp's own tiles; products that are there, which are added to atomically.
    unsafe {
        warp_barrier();
        gram.store(sums);
        warp_barrier();
        let mut lag = lane();
        while lag < COUNT_LAGS {
            let half = lag / APART;
            // Sums of the rows of even instants, and of odd ones.
            let mut totals = [0u64; 2];
            each!(row < 8, {
                let column = APART + row as u32 - lag % APART;
                let sum = gram.load(column / 8, 8 * half + row as u32, column % 8);
                totals[row % 2] += sum as u64;
            });
            transposed::add_products(p, sensor, lag, totals);
            lag += 32;
        }
    }
}

kernel! {
    /// Products of groups 0 and 1 and bins of group 2 of a part of one segment of 32 sensors.
    ///
    /// Long, as its rounds overlap: each brings, transposes and multiplies steps of its own.
    fn autocorrelate_counts_boxes(p: Counts) {
        let tiles = divisor(p.sensors.div_ceil(BOX_SENSORS));
        let parts = divisor(p.parts);
        let (segment, part) = (block() / tiles / parts, block() / tiles % parts);
        let halo_steps = p.halo / BOX_STEP;
        let steps = p.subsegment / BOX_STEP / parts;
        let first = halo_steps + part * steps;
        let task = Task {
            p: &p,
            shared: dynamic_shared(),
            sensor: block() % tiles * BOX_SENSORS,
            segment,
            first,
            // Delay lines are filled by two steps, with rows two steps and more before each.
            // Bins of groups 0 and 1 of the halo go to memory from here, too.
            start: if p.low < 2 { 0 } else { first - 4 },
            before: if p.low < 2 || part > 0 { 0 } else { halo_steps / 8 },
        };
        // Rounds that have counts brought.
        let rounds = task.before + first + steps - task.start;
        if thread() == 0 {
            for slot in 0..BOX_SLOTS {
                mbarrier_init(task.barrier(slot), BOX_WARPS);
            }
            fence_barrier_init();
        }
        barrier();
        // Fours of fours of sensors exist together, and so do a warp's.
        let sensor = task.sensor + thread() / 32 * WARP_SENSORS as u32;
        let is_there = sensor < p.sensors;

        let mut sums = [[[0; 4]; TILES]; WARP_SENSORS];
        let mut held = [[[0; 2]; HELD]; WARP_SENSORS];
        // A step is transposed two rounds after its copy began, and multiplied in the one after that.
        let mut round = 0;
        while round < rounds + BOX_SLOTS + STEPS_AFTER {
            let transposed = round.wrapping_sub(BOX_SLOTS - 1);
            if transposed < rounds {
                mbarrier_wait(task.barrier(transposed % BOX_SLOTS), transposed / BOX_SLOTS % 2);
            }
            // The step to be transposed has come, and every warp has done with what the others overwrite.
            barrier();
            if round < rounds {
                task.bring(round, round % BOX_SLOTS);
            }
            if transposed < rounds {
                task.transpose(transposed, transposed % BOX_SLOTS);
            } else if transposed < rounds + STEPS_AFTER {
                task.clear(task.step(transposed));
            }
            let multiplied = round.wrapping_sub(BOX_SLOTS);
            if is_there && multiplied >= task.before && multiplied < rounds + STEPS_AFTER {
                let step = task.step(multiplied);
                if p.low < 2 && multiplied < rounds {
                    for i in 0..WARP_SENSORS {
                        let sensor = opaque(thread()) / 32 * WARP_SENSORS as u32 + i as u32;
                        let place = |instant: u32, word: u32| {
                            let (step, tile) = (instant / BOX_STEP, instant % BOX_STEP / 8);
                            task.transposed(sensor, step)
                                + tile * TILE_BYTES
                                + Task::word(sensor, instant % 8, word)
                        };
                        let (first, segment) = (task.sensor, task.segment);
                        let total = transposed::keep::<BOX_STEP>(&p, step, first + sensor, segment, place);
                        // At once, as the sums take the registers.
                        keep::add_total(p.totals, first + sensor, total);
                    }
                }
                // Products from before the part begins are discarded; the last operands are kept in
                // `held`.
                if step + 2 >= first {
                    if step == first {
                        keep_branch();
                        sums = [[[0; 4]; TILES]; WARP_SENSORS];
                    }
                    let begins = step == first + APART / BOX_STEP;
                    task.multiply(&mut sums, &mut held, step, begins);
                }
            }
            round += 1;
        }
        barrier();
        if is_there {
            let gram = Gram { address: task.shared + thread() / 32 * Gram::<TILES>::BYTES };
            for i in 0..WARP_SENSORS {
                finish(&p, &sums[i], gram, sensor + i as u32);
            }
        }
    }
}
