//! Groups of long bins, from the bins of group `low`.
//!
//! With `Z_0` the bins of the group that a launch begins with, and `F_0` those of its delay line, which
//! begin `S` samples after them, the groups above it have, on *level* `l`,
//!
//! ```text
//! Z_l(J) = Z_{l-1}(2 J) + Z_{l-1}(2 J + 1)
//! F_l(K) = F_{l-1}(2 K) + F_{l-1}(2 K + 1)
//! A_l[c] = sum_J Z_l(J) F_l(J - S - c)
//! ```
//!
//! A block takes a range of one sensor's bins, and the bins before them that its delay lines reach to. It
//! makes [`LONG_LEVELS`] levels in shared memory, one from the other, and multiplies them there: nothing but
//! the bins of the first group comes from memory, and where more groups follow, the last level goes there
//! for the next launch. Bins are numbered from a multiple of `2^LONG_LEVELS` bins on, so that every range
//! begins with whole bins of all levels; the first new ones are then `begun`, `begun / 2` and so on.
//! Counts from before the launch come from the state: delay lines, and in the zero-delay registers halves
//! of bins that are begun. A state is read by the first block of a sensor and written by the last, and so
//! lies in two places.
//!
//! A thread takes eight lags of 16 neighbouring bins: 128 products from 40 numbers. Those of bins of at most
//! 64 counts are 28 bits, and 16 of them are summed in 32.
//!
//! Bound by integer operations: a multiply-add for `S / 2^low` lags and counts.

use crate::{
    abi::autocorrelate::{
        LONG, LONG_LEVELS, LONG_RANGE, LONG_WARPS, Long, long_before, long_halo, long_lags,
        long_offset,
    },
    isa::common::{
        add_global_64, barrier, block, dynamic_shared, lane, load_global, load_global_16,
        load_shared, load_shared_4, load_shared_64, read_global, store_global, store_shared_4,
        store_shared_64, thread,
    },
    tile::divisor,
};

/// Lags of a thread, and bins that it loads at a time.
const LAGS: usize = 8;

/// The highest group whose products fit 32 bits 16 at a time: `16 * (255 * 2^6)^2 < 2^32`.
const NARROW_GROUP: u32 = 6;

/// One level of a block.
struct Level {
    level: u32,
    /// Shared memory of its bins, and of those of its delay line.
    direct: u32,
    shifted: u32,
    /// The first bin of the block's range.
    first: i32,
    /// The first bin of the delay line in shared memory.
    first_shifted: i32,
    /// Bins of the block's range up to the launch's last, in whole sixteens of the last level.
    bins: u32,
    /// The first new bin of the launch, and the one after its last.
    begun: i32,
    end: i32,
}

impl Level {
    #[inline(always)]
    fn new(p: &Long, range: u32, level: u32) -> Self {
        const WHOLE: u32 = 16 << LONG_LEVELS;
        let first = ((range * LONG_RANGE) >> level) as i32;
        let left = p.begun + p.count - range * LONG_RANGE;
        let shared = dynamic_shared();
        Self {
            level,
            direct: shared + 4 * (LONG_RANGE - (LONG_RANGE >> (level - 1))),
            shifted: shared + 4 * (LONG_RANGE + long_offset(level, p.lags)),
            first,
            first_shifted: first - long_halo(level, p.lags) as i32,
            bins: left.next_multiple_of(WHOLE).min(LONG_RANGE) >> level,
            begun: (p.begun >> level) as i32,
            end: ((p.begun + p.count) >> level) as i32,
        }
    }

    /// Address of a bin.
    #[inline(always)]
    fn direct(&self, bin: i32) -> u32 {
        self.direct + 4 * (bin - self.first) as u32
    }

    /// Address of a bin of the delay line.
    #[inline(always)]
    fn shifted(&self, bin: i32) -> u32 {
        self.shifted + 4 * (bin - self.first_shifted) as u32
    }

    /// The place of the level's group in the state.
    #[inline(always)]
    fn row(&self, p: &Long, sensor: u64) -> u64 {
        sensor * p.groups as u64 + (p.base + self.level) as u64
    }

    /// Stores four bins from `bin` on: `sums` of their halves that are new.
    ///
    /// # Safety
    /// - The bins are of the level, in the block's shared memory and in `p`'s state of `sensor`; no other thread stores them.
    /// - The launch keeps the conditions of [`Long`].
    #[inline(always)]
    unsafe fn store(&self, p: &Long, sensor: u64, bin: i32, mut sums: [u32; 4]) {
        // SAFETY: bins of the level and of the state, this thread's.
        unsafe {
            if bin <= self.begun || bin + 4 > self.end {
                for i in 0..4 {
                    let bin = bin + i as i32;
                    if 2 * bin + 1 == (p.begun >> (self.level - 1)) as i32 {
                        // Its first half was counted before; shorter bins that are begun wait in the
                        // register before.
                        let register = p.partial + 4 * self.row(p, sensor);
                        sums[i] += load_global(register) - load_global(register - 4);
                    }
                    if bin >= self.end {
                        sums[i] = 0;
                    }
                }
            }
            store_shared_4(self.direct(bin), sums);
        }
    }

    /// Stores four bins of the delay line from `bin` on: `sums` of two before, where the state has none.
    ///
    /// # Safety
    /// - The bins are of the level, in the block's shared memory and in `p`'s state of `sensor`; no other thread stores them.
    /// - The launch keeps the conditions of [`Long`].
    #[inline(always)]
    unsafe fn store_shifted(&self, p: &Long, sensor: u64, bin: i32, mut sums: [u32; 4]) {
        let newest = self.begun - p.lags as i32;
        // SAFETY: bins of the level and of the state, this thread's.
        unsafe {
            if bin <= newest {
                let row = self.row(p, sensor) * p.lags as u64;
                for i in 0..4 {
                    let cell = newest - bin - i as i32;
                    if (cell as u32) < p.lags {
                        sums[i] = load_global(p.cells + 4 * (row + cell as u64));
                    }
                }
            }
            store_shared_4(self.shifted(bin), sums);
        }
    }
}

/// The sums of two bins each of the eight in memory from `bin` on. Those before `from` and from `to` on are
/// zero.
///
/// # Safety
/// - The bins from `from` to `to` lie in device memory at `address`, counted from bin 0, as the parameters say; no thread of
///   the grid writes them in this launch.
#[inline(always)]
unsafe fn add_pairs(p: &Long, address: u64, bin: i32, from: i32, to: i32) -> [u32; 4] {
    let mut sums = [0; 4];
    // SAFETY: bins that are there; whole words are read where more bins lie on either side.
    unsafe {
        if p.narrow != 0 && from < bin && bin + 9 < to {
            let address = address.wrapping_add_signed(2 * bin as i64);
            let shift = 8 * (address & 2);
            let mut words = [0; 5];
            for i in 0..5 {
                words[i] = load_global((address & !3) + 4 * i as u64);
            }
            for i in 0..4 {
                let pair = ((words[i] as u64 | (words[i + 1] as u64) << 32) >> shift) as u32;
                sums[i] = (pair & 0xffff) + (pair >> 16);
            }
        } else {
            for i in 0..8 {
                let bin = bin + i as i32;
                if from <= bin && bin < to {
                    sums[i / 2] += load(p, address, bin);
                }
            }
        }
    }
    sums
}

/// A bin of the first group.
///
/// # Safety
/// - It lies in device memory at `address`, counted from bin 0; no thread of the grid writes it in this launch.
#[inline(always)]
unsafe fn load(p: &Long, address: u64, bin: i32) -> u32 {
    // SAFETY: a bin that is there, of the size that the parameters say.
    unsafe {
        if p.narrow != 0 {
            load_global_16(address.wrapping_add_signed(2 * bin as i64))
        } else {
            load_global(address.wrapping_add_signed(4 * bin as i64))
        }
    }
}

/// Makes the first level.
///
/// # Safety
/// All threads of the block call it.
#[inline(always)]
unsafe fn begin(p: &Long, sensor: u64, range: u32) {
    let level = Level::new(p, range, 1);
    let lags = p.lags as i32;
    let (begun, end) = (p.begun as i32, (p.begun + p.count) as i32);
    // SAFETY: bins of the range and of the delay line before it, as the parameters promise.
    unsafe {
        let address = p.direct + sensor * p.direct_stride;
        let mut i = 4 * thread();
        while i < level.bins {
            let bin = level.first + i as i32;
            level.store(p, sensor, bin, add_pairs(p, address, 2 * bin, begun, end));
            i += 4 * LONG.entry.threads;
        }
        let address = p.shifted + sensor * p.shifted_stride;
        let mut i = 4 * thread();
        while i <= level.bins + long_before(1, p.lags) {
            let bin = level.first_shifted + i as i32;
            let sums = add_pairs(p, address, 2 * bin, begun - 2 * lags + 1, end - lags);
            level.store_shifted(p, sensor, bin, sums);
            i += 4 * LONG.entry.threads;
        }
    }
}

/// Makes a level from the one before.
///
/// # Safety
/// All threads of the block call it after a barrier.
#[inline(always)]
unsafe fn double<const LEVEL: u32>(p: &Long, sensor: u64, range: u32) {
    let before = Level::new(p, range, LEVEL - 1);
    let level = Level::new(p, range, LEVEL);
    let add = |[a, b, c, d, e, f, g, h]: [u32; 8]| [a + b, c + d, e + f, g + h];
    // SAFETY: bins in shared memory.
    unsafe {
        let mut i = 4 * thread();
        while i < level.bins {
            let bin = level.first + i as i32;
            level.store(p, sensor, bin, add(eight(before.direct(2 * bin))));
            i += 4 * LONG.entry.threads;
        }
        let mut i = 4 * thread();
        let last = level.bins + long_before(LEVEL, p.lags);
        while i <= last {
            let bin = level.first_shifted + i as i32;
            let from = before.shifted(2 * bin);
            let sums = if p.lags.is_multiple_of(8) {
                add(eight(from))
            } else {
                // Not 16-byte aligned.
                let mut sums = [0; 4];
                for k in 0..4 {
                    let from = from + 8 * k as u32;
                    if i + k as u32 <= last {
                        sums[k] = load_shared(from) + load_shared(from + 4);
                    }
                }
                sums
            };
            level.store_shifted(p, sensor, bin, sums);
            i += 4 * LONG.entry.threads;
        }
    }
}

/// Which warps of a block multiply the bins of a level: the first, and how many. Every level has half as
/// many bins as the one before.
#[inline(always)]
fn warps(level: u32) -> (u32, u32) {
    match level {
        1 => (0, LONG_WARPS / 2),
        2 => (LONG_WARPS / 2, LONG_WARPS / 4),
        3 => (LONG_WARPS * 3 / 4, LONG_WARPS / 8),
        _ => (LONG_WARPS * 7 / 8, LONG_WARPS / 8),
    }
}

/// The level whose bins a warp multiplies.
#[inline(always)]
fn level_of(warp: u32) -> u32 {
    if warp < LONG_WARPS / 2 {
        1
    } else if warp < LONG_WARPS * 3 / 4 {
        2
    } else if warp < LONG_WARPS * 7 / 8 {
        3
    } else {
        4
    }
}

/// Four and four neighbouring words.
///
/// # Safety
/// - `address` is a multiple of 16, and the words lie in the block's shared memory, stored before a barrier.
#[inline(always)]
unsafe fn eight(address: u32) -> [u32; LAGS] {
    // SAFETY: 16 aligned bytes twice, which are there and stored.
    let [[a, b, c, d], [e, f, g, h]] =
        unsafe { [load_shared_4(address), load_shared_4(address + 16)] };
    [a, b, c, d, e, f, g, h]
}

/// Adds the products of the sixteens of bins that are the thread's, from `sixteen` on.
///
/// # Safety
/// - The level's bins are in the block's shared memory, stored before a barrier, and nobody stores them before the next.
/// - `delay` and [`LAGS`] reach no further than the bins before its first.
#[inline(always)]
unsafe fn multiply<const NARROW: bool>(
    level: &Level,
    sums: &mut [u64; LAGS],
    mut sixteen: u32,
    stride: u32,
    delay: i32,
) {
    while 16 * sixteen < level.bins {
        let bin = level.first + 16 * sixteen as i32;
        let direct = level.direct(bin);
        // The bins that meet the first one, the last lag's first, are behind this one.
        let shifted = level.shifted(bin - delay - LAGS as i32);
        let mut narrow = [0u32; LAGS];
        // SAFETY: bins of the level, of which more are stored on either side than a lag reaches.
        unsafe {
            let mut older = eight(shifted);
            each!(half < 2, of 2 {
                let z = eight(direct + 32 * half as u32);
                let newer = eight(shifted + 32 + 32 * half as u32);
                each!(i < LAGS, {
                    each!(lag < LAGS, {
                        let f = if i < lag { older[LAGS + i - lag] } else { newer[i - lag] };
                        if NARROW {
                            narrow[lag] += z[i] * f;
                        } else {
                            sums[lag] += z[i] as u64 * f as u64;
                        }
                    });
                });
                older = newer;
            });
        }
        if NARROW {
            for lag in 0..LAGS {
                sums[lag] += narrow[lag] as u64;
            }
        }
        sixteen += stride;
    }
}

/// Writes the launch's output for later work: the state, from the last range, and bins of the last level for the
/// groups above it.
///
/// # Safety
/// All threads of the block call it after a barrier.
#[inline(always)]
unsafe fn carry(p: &Long, sensor: u64, range: u32, levels: u32) {
    let lags = p.lags as i32;
    // SAFETY: the state's other place, and room for bins.
    unsafe {
        if range + 1 == p.blocks {
            let mut item = thread();
            while item < levels * p.lags {
                let level = Level::new(p, range, 1 + item / divisor(p.lags));
                let cell = item % divisor(p.lags);
                let value = load_shared(level.shifted(level.end - lags - cell as i32));
                let row = level.row(p, sensor) * p.lags as u64;
                store_global(p.new_cells + 4 * (row + cell as u64), value);
                item += LONG.entry.threads;
            }
            if thread() == 0 {
                registers(p, sensor, range, levels);
            }
        }
        if p.next_direct == 0 {
            return;
        }
        let level = Level::new(p, range, LONG_LEVELS);
        let room = (level.end - level.begun) as u64;
        let direct = p.next_direct + 4 * sensor * room;
        let shifted = p.next_shifted + 4 * sensor * (room + p.lags as u64);
        let mut i = thread() as i32;
        while i <= (LONG_RANGE >> LONG_LEVELS) as i32 {
            let bin = level.first + i;
            if i < (LONG_RANGE >> LONG_LEVELS) as i32 && level.begun <= bin && bin < level.end {
                store_global(
                    direct + 4 * (bin - level.begun) as u64,
                    load_shared(level.direct(bin)),
                );
            }
            // The newest bin that meets this one; the first of a range is also the last of another.
            if i > 0 && level.begun < bin && bin <= level.end {
                let to = shifted + 4 * (bin - level.begun + lags - 1) as u64;
                store_global(to, load_shared(level.shifted(bin - lags)));
            }
            i += LONG.entry.threads as i32;
        }
        if range == 0 && thread() < p.lags {
            let cell = thread() as i32;
            let value = load_shared(level.shifted(level.begun - lags - cell));
            store_global(shifted + 4 * (lags - 1 - cell) as u64, value);
        }
    }
}

/// Writes the zero-delay registers: sums of the bins that wait for their second half.
///
/// # Safety
/// One thread of the last range's block calls it.
#[inline(always)]
unsafe fn registers(p: &Long, sensor: u64, range: u32, levels: u32) {
    let row = sensor * p.groups as u64;
    // SAFETY: registers of the sensor, and the last bin of each level, which is in the range.
    unsafe {
        if p.narrow != 0 {
            for group in 0..=p.base as u64 {
                store_global(p.new_partial + 4 * (row + group), 0);
            }
        }
        let base = row + p.base as u64;
        let mut pending = read_global(p.new_partial + 4 * base);
        let mut old = load_global(p.partial + 4 * base);
        for level in 1..=levels {
            let register = load_global(p.partial + 4 * (base + level as u64));
            let (begun, end) = (p.begun >> (level - 1), (p.begun + p.count) >> (level - 1));
            if end % 2 == 1 {
                pending += if end == begun {
                    register - old
                } else if level == 1 {
                    load(p, p.direct + sensor * p.direct_stride, end as i32 - 1)
                } else {
                    load_shared(Level::new(p, range, level - 1).direct(end as i32 - 1))
                };
            }
            old = register;
            store_global(p.new_partial + 4 * (base + level as u64), pending);
        }
    }
}

kernel! {
    /// Products of a range of one sensor's bins in the next groups, then the state and bins for later work.
    fn autocorrelate_long(p: Long) {
        let blocks = divisor(p.blocks);
        let (sensor, range) = ((block() / blocks) as u64, block() % blocks);
        let levels = (p.groups - 1 - p.base).min(LONG_LEVELS);
        begin(&p, sensor, range);
        barrier();
        if levels >= 2 {
            double::<2>(&p, sensor, range);
            barrier();
        }
        if levels >= 3 {
            double::<3>(&p, sensor, range);
            barrier();
        }
        if levels >= 4 {
            double::<4>(&p, sensor, range);
            barrier();
        }
        carry(&p, sensor, range, levels);

        // Lanes that share bins have eight lags each: a power of two of them.
        let octets = long_lags(p.lags) / LAGS as u32;
        let sharers = octets.next_power_of_two();
        let shift = sharers.trailing_zeros();
        let octet = lane() % sharers;
        let level = level_of(thread() / 32);
        let mut sums = [0; LAGS];
        if level <= levels && octet < octets {
            let (first_warp, warps) = warps(level);
            let sixteen = (thread() - 32 * first_warp) >> shift;
            let stride = (32 * warps) >> shift;
            let delay = (p.lags + LAGS as u32 * octet) as i32;
            let level = Level::new(&p, range, level);
            if p.base + level.level <= NARROW_GROUP {
                multiply::<true>(&level, &mut sums, sixteen, stride, delay);
            } else {
                multiply::<false>(&level, &mut sums, sixteen, stride, delay);
            }
        }
        barrier();
        let scratch = dynamic_shared();
        let place = |lag: u32, thread: u32| scratch + 8 * (lag * (LONG.entry.threads + 2) + thread);
        for lag in 0..LAGS {
            store_shared_64(place(lag as u32, thread()), sums[lag]);
        }
        barrier();
        let mut item = thread();
        while item < levels * p.lags {
            let level = 1 + item / divisor(p.lags);
            let lag = item % divisor(p.lags);
            let (first_warp, warps) = warps(level);
            let mut sum = 0;
            let mut thread = 32 * first_warp + lag / LAGS as u32;
            while thread < 32 * (first_warp + warps) {
                sum += load_shared_64(place(lag % LAGS as u32, thread));
                thread += sharers;
            }
            let row = sensor * p.groups as u64 + (p.base + level) as u64;
            add_global_64(p.products + 8 * (row * p.lags as u64 + lag as u64), sum);
            item += LONG.entry.threads;
        }
    }
}
