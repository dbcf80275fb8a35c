//! Groups of short bins on tensor cores.
//!
//! A matrix product sums over K = 32 subsegments of time at once. Operand A has bins as rows, operand
//! B the bins of the delay line as columns; their product is a Gram matrix
//!
//! ```text
//! G[r][c] = sum_subsegments Z[n + r] * Z[n' + c]
//! ```
//!
//! that is summed over all steps of time, `n` and `n'` advancing together. Its diagonals are the lags
//! `n - n' + r - c`; they are added up once, when a subsegment ends.
//!
//! - Group 0: bins are bytes. 16 rows by 6 tiles of 8 columns give 32 lags.
//! - Groups above: bins of up to 13 bits are two digits of 8 bits. Rows 0..8 are the low digits of 8
//!   bins, rows 8..16 their high digits, and a tile of columns for either digit: 5 tiles of bins give
//!   32 lags and all four products of digits, weighted 1, 256 and 65536 in the end.
//!
//! Delay lines of all groups lie in shared memory, rings of a power of two. The threads fill them
//! together, [`STEP`] instants of every subsegment at a time: each takes 4 instants of 8 subsegments
//! and adds neighbours, first its own, then other lanes'. Then every warp multiplies what its role
//! says. Before its own instants a subsegment's halo goes through the lines, without products.
//!
//! Sums wrap at 2^32 and are read as unsigned: a product of digits is at most 255^2, 32 of them for
//! every 16 instants; [`crate::abi::autocorrelate::MAX_SUBSEGMENT`] keeps them below.
//!
//! Bound by the tensor cores: 6 `mma` for 512 counts in group 0, 20 for 512 bins in every other.

use crate::{
    abi::autocorrelate::{
        LOW_WARPS, Low, STEP, SUBSEGMENTS, WARP_LAGS, bin_bytes, line_bins, role,
    },
    isa::{
        common::{
            add_global_64, barrier, block, dynamic_shared, lane, load_global_2, load_shared,
            load_shared_2, load_shared_4, prmt, shfl_xor, store_global_16, store_shared_2,
            store_shared_4, thread, warp_barrier,
        },
        sm_80::mma_m16n8k32_u8,
    },
    tile::{divisor, fragment},
};

/// Instants of each subsegment that one thread loads at a time.
const THREAD_INSTANTS: u32 = STEP * 4 / (32 * LOW_WARPS);

/// Tiles of a warp's sums: 5 tiles of bins by 2 digits, of which group 0 uses 6.
const TILES: usize = 10;

/// Words of 32 bits of a tile.
const TILE_WORDS: u32 = 16 * 8;

/// The delay line of one group in shared memory.
#[derive(Clone, Copy)]
struct Line {
    address: u32,
    mask: u32,
    bin_bytes: u32,
}

impl Line {
    /// The line of `group`, whose lines all lie at `shared`.
    #[inline(always)]
    fn new(shared: u32, group: u32, lags: u32) -> Self {
        // As `line_offset`, without its recursion.
        let first = line_bins(0, lags) * bin_bytes(0);
        let second = first + line_bins(1, lags) * bin_bytes(1);
        let offset = match group {
            0 => 0,
            1 => first,
            _ => second + (group - 2) * line_bins(2, lags) * bin_bytes(2),
        };
        Self {
            address: shared + offset,
            mask: line_bins(group, lags) - 1,
            bin_bytes: bin_bytes(group),
        }
    }

    #[inline(always)]
    fn bin(self, bin: u32) -> u32 {
        self.address + (bin & self.mask) * self.bin_bytes
    }
}

/// Bins of one group at four instants apart: of 8 subsegments, 16 bits each.
type Sums = [u32; 4];

#[inline(always)]
fn add(a: Sums, b: Sums) -> Sums {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
}

/// The bins of another lane.
#[inline(always)]
fn exchange<const MASK: u32>(sums: Sums) -> Sums {
    [
        shfl_xor::<MASK>(sums[0]),
        shfl_xor::<MASK>(sums[1]),
        shfl_xor::<MASK>(sums[2]),
        shfl_xor::<MASK>(sums[3]),
    ]
}

/// Counts of 8 subsegments as 16-bit numbers: those of even subsegments and of odd ones, of the
/// first four and of the others.
#[inline(always)]
fn widen(counts: [u32; 2]) -> Sums {
    const EVEN: u32 = 0x00ff_00ff;
    [counts[0] & EVEN, counts[0] >> 8 & EVEN, counts[1] & EVEN, counts[1] >> 8 & EVEN]
}

/// The 16-bit number of subsegment `i` of the 8 of a lane.
#[inline(always)]
fn number(sums: Sums, i: usize) -> u32 {
    sums[i / 4 * 2 + i % 2] >> (i % 4 / 2 * 16) & 0xffff
}

/// Fills the delay lines of all groups.
struct Filler<'a> {
    p: &'a Low,
    shared: u32,
    sensor: u32,
    segment: u32,
}

impl Filler<'_> {
    /// A lane's instants: its place among those of a step, and its part of a bin.
    #[inline(always)]
    fn instant(&self) -> u32 {
        thread() / 4 * THREAD_INSTANTS
    }

    /// The counts of the step at `step`, instants from `-halo` on.
    ///
    /// # Safety
    /// The step exists.
    #[inline(always)]
    unsafe fn fetch(&self, step: u32) -> [[u32; 2]; THREAD_INSTANTS as usize] {
        let length = (self.p.halo + self.p.subsegment) as u64;
        let row = self.sensor as u64 * self.p.segments as u64 + self.segment as u64;
        let instant = row * length + (step * STEP + self.instant()) as u64;
        let address = self.p.turned + instant * SUBSEGMENTS as u64 + 8 * (lane() % 4) as u64;
        let mut counts = [[0; 2]; THREAD_INSTANTS as usize];
        for i in 0..THREAD_INSTANTS as usize {
            // SAFETY: the caller's promise.
            counts[i] = unsafe { load_global_2(address + i as u64 * SUBSEGMENTS as u64) };
        }
        counts
    }

    /// Stores a bin of `group` whose first instant is `instant`, counted from the beginning of the
    /// halo; of group `low` also to memory.
    ///
    /// # Safety
    /// No other lane has the bin.
    #[inline(always)]
    unsafe fn store(&self, group: u32, instant: u32, sums: Sums) {
        let p = self.p;
        if group > p.low {
            return;
        }
        let line = Line::new(self.shared, group, p.lags);
        let digits = [
            prmt::<0x6240>(sums[0], sums[1]),
            prmt::<0x6240>(sums[2], sums[3]),
            prmt::<0x7351>(sums[0], sums[1]),
            prmt::<0x7351>(sums[2], sums[3]),
        ];
        // SAFETY: a place in the line.
        unsafe { store_shared_4(line.bin(instant >> group) + 16 * (lane() % 4), digits) };
        if group == p.low {
            // SAFETY: the caller's promise.
            unsafe { self.keep(instant, sums) };
        }
    }

    /// Writes a bin of group `low` to memory: of the halo, only that of the very first subsegment.
    ///
    /// # Safety
    /// As [`Self::store`].
    #[inline(always)]
    unsafe fn keep(&self, instant: u32, sums: Sums) {
        let p = self.p;
        let history = 2 * p.lags;
        let bins = p.subsegment >> p.low;
        let row = p.bins + 2 * self.sensor as u64 * p.bins_stride;
        let bin = (instant as i32 - p.halo as i32) >> p.low;
        for i in 0..8 {
            let subsegment = self.segment * SUBSEGMENTS + 8 * (lane() % 4) + i as u32;
            if bin >= 0 || (subsegment == 0 && bin >= -(history as i32)) {
                // A launch's bins are counted in 32 bits; wider places would spill registers.
                let place = subsegment * bins + (history as i32 + bin) as u32;
                // SAFETY: the bin exists, and no other lane has it.
                unsafe { store_global_16(row + 2 * place as u64, number(sums, i) as u16) };
            }
        }
    }

    /// Stores the counts of a step to all lines.
    ///
    /// # Safety
    /// All threads of the block call it, after all have read what it overwrites.
    #[inline(always)]
    unsafe fn fill(&self, step: u32, counts: [[u32; 2]; THREAD_INSTANTS as usize]) {
        let instant = step * STEP + self.instant();
        let line = Line::new(self.shared, 0, self.p.lags);
        let owner = lane() / 4;
        // SAFETY: places in the lines, each of one lane.
        unsafe {
            for i in 0..THREAD_INSTANTS {
                let place = line.bin(instant + i) + 8 * (lane() % 4);
                store_shared_2(place, counts[i as usize]);
            }
            if self.p.low == 0 {
                for i in 0..THREAD_INSTANTS {
                    self.keep(instant + i, widen(counts[i as usize]));
                }
            }
            let first = add(widen(counts[0]), widen(counts[1]));
            let second = add(widen(counts[2]), widen(counts[3]));
            self.store(1, instant, first);
            self.store(1, instant + 2, second);
            let quarter = add(first, second);
            self.store(2, instant, quarter);
            // Neighbouring owners make longer bins; the first of them stores.
            let eighth = add(quarter, exchange::<4>(quarter));
            if owner.is_multiple_of(2) {
                self.store(3, instant, eighth);
            }
            let sixteenth = add(eighth, exchange::<8>(eighth));
            if owner.is_multiple_of(4) {
                self.store(4, instant, sixteenth);
            }
            let whole = add(sixteenth, exchange::<16>(sixteenth));
            if owner == 0 {
                self.store(5, instant, whole);
            }
        }
    }
}

/// What a warp multiplies.
#[derive(Clone, Copy)]
struct Role {
    group: u32,
    /// First lag.
    first_lag: u32,
    part: u32,
    parts: u32,
}

impl Role {
    #[inline(always)]
    fn new(byte: u32) -> Self {
        Self {
            group: byte & 7,
            first_lag: (byte >> 3 & 3) * WARP_LAGS,
            part: byte >> 5 & 1,
            parts: 1 + (byte >> 6 & 1),
        }
    }
}

/// Adds the products of 16 bins of group 0, from `bin` on, with the 48 from `delayed` on.
///
/// # Safety
/// All lanes of the warp call it; the line holds the bins.
#[inline(always)]
unsafe fn multiply_counts(sums: &mut [[u32; 4]; TILES], line: Line, bin: u32, delayed: u32) {
    let (row, part) = (lane() / 4, 8 * (lane() % 4));
    // SAFETY: places in the line.
    unsafe {
        let [a0, a2] = load_shared_2(line.bin(bin + row) + part);
        let [a1, a3] = load_shared_2(line.bin(bin + row + 8) + part);
        for tile in 0..6 {
            let column = delayed.wrapping_add(8 * tile as u32 + row);
            let b = load_shared_2(line.bin(column) + part);
            mma_m16n8k32_u8(&mut sums[tile], [a0, a1, a2, a3], b);
        }
    }
}

/// Adds the products of 8 bins of two digits, from `bin` on, with the 40 from `delayed` on.
///
/// # Safety
/// All lanes of the warp call it; the line holds the bins.
#[inline(always)]
unsafe fn multiply_digits(sums: &mut [[u32; 4]; TILES], line: Line, bin: u32, delayed: u32) {
    let (row, part) = (lane() / 4, 16 * (lane() % 4));
    // SAFETY: places in the line.
    unsafe {
        let [low0, low1, high0, high1] = load_shared_4(line.bin(bin + row) + part);
        let a = [low0, high0, low1, high1];
        for tile in 0..TILES / 2 {
            let column = delayed.wrapping_add(8 * tile as u32 + row);
            let [low0, low1, high0, high1] = load_shared_4(line.bin(column) + part);
            mma_m16n8k32_u8(&mut sums[2 * tile], a, [low0, low1]);
            mma_m16n8k32_u8(&mut sums[2 * tile + 1], a, [high0, high1]);
        }
    }
}

/// Adds the diagonals of a warp's sums to the products in memory.
///
/// # Safety
/// All lanes of the warp call it; `scratch` is its own shared memory for all tiles.
#[inline(always)]
unsafe fn finish(p: &Low, role: Role, sums: &[[u32; 4]; TILES], scratch: u32, sensor: u32) {
    let word =
        |tile: u32, row: u32, column: u32| scratch + 4 * (tile * TILE_WORDS + row * 8 + column);
    // SAFETY: the scratch has room for all tiles; the products are added to atomically.
    unsafe {
        for tile in 0..TILES {
            for half in 0..2 {
                let place = fragment::accumulator(lane(), 2 * half as u32);
                let pair = [sums[tile][2 * half], sums[tile][2 * half + 1]];
                store_shared_2(word(tile as u32, place.row, place.column), pair);
            }
        }
        warp_barrier();
        // Lane l has lag first_lag + l: row r meets the column 32 + r - l of all tiles.
        let mut total = 0u64;
        if role.group == 0 {
            for row in 0..16 {
                let column = WARP_LAGS + row - lane();
                total += load_shared(word(column / 8, row, column % 8)) as u64;
            }
        } else {
            for row in 0..8 {
                let column = WARP_LAGS + row - lane();
                let (tile, column) = (column / 8 * 2, column % 8);
                let low_low = load_shared(word(tile, row, column)) as u64;
                let high_low = load_shared(word(tile, row + 8, column)) as u64;
                let low_high = load_shared(word(tile + 1, row, column)) as u64;
                let high_high = load_shared(word(tile + 1, row + 8, column)) as u64;
                total += low_low + ((high_low + low_high) << 8) + (high_high << 16);
            }
        }
        let lag = role.first_lag + lane();
        if lag < p.lags {
            let group = sensor as u64 * p.groups as u64 + role.group as u64;
            add_global_64(p.products + 8 * (group * p.lags as u64 + lag as u64), total);
        }
    }
}

kernel! {
    /// Products and bins of one segment of one sensor.
    fn autocorrelate_low(p: Low) {
        let segments = divisor(p.segments);
        let (sensor, segment) = (block() / segments, block() % segments);
        let shared = dynamic_shared();
        let filler = Filler { p: &p, shared, sensor, segment };
        let warp = thread() / 32;
        let byte = (p.roles >> (8 * warp)) as u32 & 0xff;
        let busy = byte & role::IDLE as u32 == 0;
        let role = Role::new(byte);
        let line = Line::new(shared, role.group, p.lags);
        // Lines are read a tile beyond their lags: there must be something.
        let mut place = 16 * thread();
        while place < crate::abi::autocorrelate::LOW.entry.shared_bytes {
            store_shared_4(shared + place, [0; 4]);
            place += 16 * 32 * LOW_WARPS;
        }

        // Y_{k,c}[m] = Z_k[m - (S - S / 2^k) - c]: the window of bins that meets bin m begins here.
        let window = p.lags - (p.lags >> role.group) + role.first_lag + WARP_LAGS;
        let mut sums = [[0; 4]; TILES];
        let halo_steps = p.halo / STEP;
        let steps = halo_steps + p.subsegment / STEP;
        let mut next = filler.fetch(0);
        let mut step = 0;
        while step < steps {
            barrier();
            filler.fill(step, next);
            barrier();
            if step + 1 < steps {
                next = filler.fetch(step + 1);
            }
            if busy && step >= halo_steps {
                let first = (step * STEP) >> role.group;
                let bins = STEP >> role.group;
                if role.group == 0 {
                    let mut bin = 16 * role.part;
                    while bin < bins {
                        let bin_now = first + bin;
                        multiply_counts(&mut sums, line, bin_now, bin_now.wrapping_sub(window));
                        bin += 16 * role.parts;
                    }
                } else {
                    let mut bin = 8 * role.part;
                    while bin < bins {
                        let bin_now = first + bin;
                        multiply_digits(&mut sums, line, bin_now, bin_now.wrapping_sub(window));
                        bin += 8 * role.parts;
                    }
                }
            }
            step += 1;
        }
        barrier();
        if busy {
            let scratch = shared + warp * (4 * TILE_WORDS * TILES as u32);
            finish(&p, role, &sums, scratch, sensor);
        }
    }
}
