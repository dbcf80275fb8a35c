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
//! says; consecutive products share the bins of the delay line, which stay in registers. Before its
//! own instants a subsegment's halo goes through the lines, without products.
//!
//! Sums wrap at 2^32 and are read as unsigned: a product of digits is at most 255^2, 32 of them for
//! every 16 instants; [`crate::abi::autocorrelate::MAX_SUBSEGMENT`] keeps them below.
//!
//! Bound by the tensor cores: 6 `mma` for 512 counts in group 0, 10 for 256 bins in every other.

use crate::{
    abi::autocorrelate::{
        LOW_WARPS, Low, STEP, SUBSEGMENTS, WARP_LAGS, bin_bytes, history, line_bins, line_offset,
        role,
    },
    isa::common::{
        add_global_64, barrier, block, dynamic_shared, lane, load_global_2, load_shared, opaque,
        prmt, shfl_xor, store_global_4, store_shared, store_shared_2, store_shared_4,
        store_shared_16, thread, warp_barrier,
    },
    isa::sm_80::{ldmatrix_x4, mma_m16n8k32_u8},
    tile::{divisor, fragment},
};

/// Instants of each subsegment that one thread loads at a time.
const THREAD_INSTANTS: u32 = STEP * 4 / (32 * LOW_WARPS);

/// Tiles of a warp's sums: 5 tiles of bins by 2 digits, of which group 0 uses 6.
const TILES: usize = 10;

/// Bins of group `low` that a lane writes to memory at a time.
const KEPT: u32 = 8;

/// Words of 32 bits of a tile.
const TILE_WORDS: u32 = 16 * 8;

/// Bytes of a chunk: 16 subsegments of a bin, a row of what `ldmatrix` reads.
const CHUNK: u32 = 16;

/// The delay line of one group in shared memory.
///
/// A bin has two chunks of low digits and, but in group 0, two of high digits. Neighbouring bins and
/// the chunks of each are permuted by `xor`, so that the same chunk of eight bins lies in eight
/// different places of 128 bytes, and so does what lanes store together.
#[derive(Clone, Copy)]
struct Line {
    address: u32,
    mask: u32,
    /// Logarithm of the bytes of a bin.
    shift: u32,
}

impl Line {
    /// The line of `group`, whose lines all lie at `shared`.
    #[inline(always)]
    fn new(shared: u32, group: u32, lags: u32) -> Self {
        Self {
            address: shared + line_offset(group, lags),
            mask: line_bins(group, lags) - 1,
            shift: bin_bytes(group).trailing_zeros(),
        }
    }

    /// The place of a bin, in bins: neighbours that lanes store together change places.
    #[inline(always)]
    fn swapped(self, bin: u32) -> u32 {
        if self.shift == 5 { bin ^ (bin / 4 % 4) } else { bin ^ (bin / 4 % 2) }
    }

    /// Where `chunk` of a bin lies among its chunks, in bytes.
    #[inline(always)]
    fn chunk(self, bin: u32, chunk: u32) -> u32 {
        let quarter = bin / 4 % 2;
        let permutation = if self.shift == 5 { quarter } else { bin / 2 % 2 * 2 + quarter };
        (chunk ^ permutation) * CHUNK
    }

    /// Address of `chunk` of a bin.
    #[inline(always)]
    fn place(self, bin: u32, chunk: u32) -> u32 {
        self.address + ((self.swapped(bin) & self.mask) << self.shift) + self.chunk(bin, chunk)
    }

    /// The row of `ldmatrix` that a lane names: `chunk` of bin `bin`. As long as they are equal modulo
    /// 8, in group 0 modulo 16, other bins lie as many bins later as they are.
    #[inline(always)]
    fn row(self, bin: u32, chunk: u32) -> Row {
        Row {
            address: self.address + self.chunk(bin, chunk),
            offset: self.swapped(bin) << self.shift,
            mask: self.mask << self.shift,
            step: 8 << self.shift,
        }
    }
}

/// A lane's row in a line, for `ldmatrix`.
#[derive(Clone, Copy)]
struct Row {
    address: u32,
    offset: u32,
    mask: u32,
    step: u32,
}

impl Row {
    /// The rows `8 tile` bins later.
    ///
    /// # Safety
    /// All lanes of the warp call it, each with its row.
    #[inline(always)]
    unsafe fn load(self, tile: u32) -> [u32; 4] {
        // SAFETY: places in the line, in whole chunks.
        unsafe { ldmatrix_x4(self.address + ((self.offset + tile * self.step) & self.mask)) }
    }
}

/// Bins of one group at four instants apart: of 8 subsegments, 16 bits each.
type Sums = [u32; 4];

#[inline(always)]
fn add(a: Sums, b: Sums) -> Sums {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
}

/// Counts of 8 subsegments as 16-bit numbers: those of even subsegments and of odd ones, of the
/// first four and of the others.
#[inline(always)]
fn widen(counts: [u32; 2]) -> Sums {
    const EVEN: u32 = 0x00ff_00ff;
    [counts[0] & EVEN, counts[0] >> 8 & EVEN, counts[1] & EVEN, counts[1] >> 8 & EVEN]
}

/// Fills the delay lines of all groups.
struct Filler<'a> {
    p: &'a Low,
    shared: u32,
    sensor: u32,
    segment: u32,
}

impl Filler<'_> {
    /// The first of a lane's instants in a step.
    #[inline(always)]
    fn instant(&self) -> u32 {
        thread() / 4 * THREAD_INSTANTS
    }

    /// The chunk of low digits that holds a lane's subsegments, and their place in it.
    #[inline(always)]
    fn part(&self) -> (u32, u32) {
        (lane() / 2 % 2, lane() % 2 * 8)
    }

    /// The counts of the step at `step`, instants from `-halo` on.
    ///
    /// # Safety
    /// The step exists.
    #[inline(always)]
    unsafe fn fetch(&self, step: u32) -> [[u32; 2]; THREAD_INSTANTS as usize] {
        let length = (self.p.halo + self.p.subsegment) as u64;
        let row = self.sensor as u64 * self.p.segments as u64 + self.segment as u64;
        let instant = row * length + self.instant() as u64 + (step * STEP) as u64;
        let address = self.p.turned + instant * SUBSEGMENTS as u64 + 8 * (lane() % 4) as u64;
        let mut counts = [[0; 2]; THREAD_INSTANTS as usize];
        for i in 0..THREAD_INSTANTS as usize {
            // SAFETY: the caller's promise.
            counts[i] = unsafe { load_global_2(address + i as u64 * SUBSEGMENTS as u64) };
        }
        counts
    }

    /// Stores a bin of `group` whose first instant is `instant`, counted from the beginning of the
    /// halo.
    ///
    /// # Safety
    /// No other lane has the bin.
    #[inline(always)]
    unsafe fn store(&self, group: u32, instant: u32, sums: Sums) {
        if group > self.p.low {
            return;
        }
        let line = Line::new(self.shared, group, self.p.lags);
        let low = [prmt::<0x6240>(sums[0], sums[1]), prmt::<0x6240>(sums[2], sums[3])];
        let high = [prmt::<0x7351>(sums[0], sums[1]), prmt::<0x7351>(sums[2], sums[3])];
        let (bin, (chunk, place)) = (instant >> group, self.part());
        // SAFETY: places in the line.
        unsafe {
            store_shared_2(line.place(bin, chunk) + place, low);
            store_shared_2(line.place(bin, 2 + chunk) + place, high);
        }
    }

    /// Stores the counts of a step to all lines.
    ///
    /// # Safety
    /// All threads of the block call it, after all have read what it overwrites.
    #[inline(always)]
    unsafe fn fill(&self, step: u32, counts: [[u32; 2]; THREAD_INSTANTS as usize]) {
        let p = self.p;
        let instant = step * STEP + self.instant();
        let (chunk, place) = self.part();
        let line = Line::new(self.shared, 0, p.lags);
        // SAFETY: places in the lines, each of one lane.
        unsafe {
            let first = line.place(instant, chunk) + place;
            for i in 0..THREAD_INSTANTS {
                store_shared_2(first ^ (i * SUBSEGMENTS), counts[i as usize]);
            }
            let first = add(widen(counts[0]), widen(counts[1]));
            let second = add(widen(counts[2]), widen(counts[3]));
            self.store(1, instant, first);
            self.store(1, instant + 2, second);
            let quarter = add(first, second);
            self.store(2, instant, quarter);

            // Neighbouring owners make longer bins. Each gives half of its subsegments to the other:
            // the second four, then two of four.
            let owner = lane() / 4;
            let [a, b, c, d] = quarter;
            let odd = !owner.is_multiple_of(2);
            let ours = if odd { [c, d] } else { [a, b] };
            let theirs = if odd { [a, b] } else { [c, d] };
            let even = ours[0] + shfl_xor::<4>(theirs[0]);
            let odd = ours[1] + shfl_xor::<4>(theirs[1]);
            let place = place + owner % 2 * 4;
            if p.low >= 3 {
                let line = Line::new(self.shared, 3, p.lags);
                let bin = instant / 8;
                store_shared(line.place(bin, chunk) + place, prmt::<0x6240>(even, odd));
                store_shared(line.place(bin, 2 + chunk) + place, prmt::<0x7351>(even, odd));
            }
            let (a, b) = (prmt::<0x5410>(even, odd), prmt::<0x7632>(even, odd));
            let second = !(owner / 2).is_multiple_of(2);
            let (ours, theirs) = if second { (b, a) } else { (a, b) };
            let sixteenth = ours + shfl_xor::<8>(theirs);
            let place = place + owner / 2 % 2 * 2;
            let store = |group: u32, sums: u32| {
                let line = Line::new(self.shared, group, p.lags);
                let bin = instant >> group;
                let low = prmt::<0x2020>(sums, sums) as u16;
                store_shared_16(line.place(bin, chunk) + place, low);
                let high = prmt::<0x3131>(sums, sums) as u16;
                store_shared_16(line.place(bin, 2 + chunk) + place, high);
            };
            if p.low >= 4 {
                store(4, sixteenth);
            }
            let whole = sixteenth + shfl_xor::<16>(sixteenth);
            if p.low >= 5 && owner < 4 {
                store(5, whole);
            }
        }
    }

    /// Writes the bins of group `low` of a step to memory, of the halo only those of the very first
    /// subsegment, and gives the sum of those after the halo. Warps share the bins, lanes the
    /// subsegments.
    ///
    /// # Safety
    /// All lanes of the warp call it after the lines were filled.
    #[inline(always)]
    unsafe fn keep(&self, step: u32) -> u32 {
        let p = self.p;
        // Seldom enough to take no registers between steps.
        let lane = opaque(lane());
        let line = Line::new(self.shared, p.low, p.lags);
        let subsegment = self.segment * SUBSEGMENTS + lane;
        let row = p.bins + 2 * self.sensor as u64 * p.bins_stride;
        let begin = subsegment * (p.subsegment >> p.low) + history(p.lags);
        let (chunk, place) = (lane / CHUNK, lane % CHUNK / 4 * 4);
        let (high_chunk, high_mask) = if p.low > 0 { (2 + chunk, 0xff) } else { (chunk, 0) };
        let shift = 8 * (lane % 4);
        let mut total = 0;
        // Warp 6 has the least to multiply.
        let mut kept = KEPT * ((thread() / 32 + 2) % LOW_WARPS);
        while kept < STEP >> p.low {
            let bin = ((step * STEP) >> p.low) + kept;
            let mut values = [0; KEPT as usize];
            for i in 0..KEPT {
                // SAFETY: places in the line.
                let [low, high] = unsafe {
                    [
                        load_shared(line.place(bin + i, chunk) + place),
                        load_shared(line.place(bin + i, high_chunk) + place),
                    ]
                };
                values[i as usize] = low >> shift & 0xff | (high >> shift & high_mask) << 8;
            }
            let after = bin as i32 - (p.halo >> p.low) as i32;
            if after >= 0 || (subsegment == 0 && after >= -(history(p.lags) as i32)) {
                let mut words = [0; 4];
                for i in 0..4 {
                    words[i] = values[2 * i] | values[2 * i + 1] << 16;
                }
                // A launch's bins are counted in 32 bits.
                let to = row + 2 * (begin as i32 + after) as u32 as u64;
                // SAFETY: the bins exist, and no other lane has them.
                unsafe { store_global_4(to, words) };
            }
            if after >= 0 {
                for i in 0..KEPT as usize {
                    total += values[i];
                }
            }
            kept += KEPT * LOW_WARPS;
        }
        total
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

/// Adds the products of 16 `RUN` bins of group 0, from `bin` on, with those of the line, each 16
/// with the 48 that begin `window` bins earlier.
///
/// # Safety
/// All lanes of the warp call it; the line holds the bins.
#[inline(always)]
unsafe fn multiply_counts<const RUN: usize>(
    sums: &mut [[u32; 4]; TILES],
    line: Line,
    bin: u32,
    window: u32,
) {
    const COLUMNS: usize = 6;
    let line = Line { shift: bin_bytes(0).trailing_zeros(), ..line };
    let lane = opaque(lane());
    let (row, matrix) = (lane % 8, lane / 8);
    // As operand A two eights of bins with either chunk, as operand B either chunk of two eights.
    let direct = line.row(bin + row + matrix % 2 * 8, matrix / 2);
    let delayed = line.row(bin.wrapping_sub(window) + row + matrix / 2 * 8, matrix % 2);
    let mut b = [[0; 2]; COLUMNS];
    // SAFETY: all lanes of the warp are here.
    unsafe {
        for pair in 0..COLUMNS / 2 - 1 {
            let [b0, b1, b2, b3] = delayed.load(2 * pair as u32);
            [b[2 * pair], b[2 * pair + 1]] = [[b0, b1], [b2, b3]];
        }
        for i in 0..RUN {
            let a = direct.load(2 * i as u32);
            let [b0, b1, b2, b3] = delayed.load((2 * i + COLUMNS - 2) as u32);
            [b[COLUMNS - 2], b[COLUMNS - 1]] = [[b0, b1], [b2, b3]];
            for tile in 0..COLUMNS {
                mma_m16n8k32_u8(&mut sums[tile], a, b[tile]);
            }
            for tile in 0..COLUMNS - 2 {
                b[tile] = b[tile + 2];
            }
        }
    }
}

/// Adds the products of 8 `RUN` bins of two digits, from `bin` on, with those of the line, each 8
/// with the 40 that begin `window` bins earlier.
///
/// # Safety
/// All lanes of the warp call it; the line holds the bins.
#[inline(always)]
unsafe fn multiply_digits<const RUN: usize>(
    sums: &mut [[u32; 4]; TILES],
    line: Line,
    bin: u32,
    window: u32,
) {
    const COLUMNS: usize = TILES / 2;
    let line = Line { shift: bin_bytes(1).trailing_zeros(), ..line };
    let lane = opaque(lane());
    let (row, matrix) = (lane % 8, lane / 8);
    // As operand A low and high digits of either half, as operand B the halves of either digit.
    let direct = line.row(bin + row, matrix % 2 * 2 + matrix / 2);
    let delayed = line.row(bin.wrapping_sub(window) + row, matrix);
    let mut b = [[0; 4]; COLUMNS];
    // SAFETY: all lanes of the warp are here.
    unsafe {
        for tile in 0..COLUMNS - 1 {
            b[tile] = delayed.load(tile as u32);
        }
        for i in 0..RUN {
            let a = direct.load(i as u32);
            b[COLUMNS - 1] = delayed.load((i + COLUMNS - 1) as u32);
            for tile in 0..COLUMNS {
                let [low0, low1, high0, high1] = b[tile];
                mma_m16n8k32_u8(&mut sums[2 * tile], a, [low0, low1]);
                mma_m16n8k32_u8(&mut sums[2 * tile + 1], a, [high0, high1]);
            }
            for tile in 0..COLUMNS - 1 {
                b[tile] = b[tile + 1];
            }
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
        barrier();

        // Y_{k,c}[m] = Z_k[m - (S - S / 2^k) - c]: the window of bins that meets bin m begins here.
        let window = p.lags - (p.lags >> role.group) + role.first_lag + WARP_LAGS;
        let mut sums = [[0; 4]; TILES];
        let mut total = 0;
        let halo_steps = p.halo / STEP;
        let steps = halo_steps + p.subsegment / STEP;
        filler.fill(0, filler.fetch(0));
        let mut next = filler.fetch(1);
        let mut step = 0;
        while step < steps {
            barrier();
            // The next step goes where no warp reads in this one.
            if step + 1 < steps {
                filler.fill(step + 1, next);
                next = filler.fetch(if step + 2 < steps { step + 2 } else { step });
            }
            total += filler.keep(step);
            if busy && step >= halo_steps {
                let first = (step * STEP) >> role.group;
                // Runs of 128 instants of group 0, of 64 bins of groups 1 and 2.
                let mut run = role.part;
                match role.group {
                    0 => {
                        while run < opaque(STEP / 128) {
                            multiply_counts::<8>(&mut sums, line, first + 128 * run, window);
                            run += role.parts;
                        }
                    }
                    1 | 2 => {
                        while run < opaque(STEP / 64) >> role.group {
                            multiply_digits::<8>(&mut sums, line, first + 64 * run, window);
                            run += role.parts;
                        }
                    }
                    3 => multiply_digits::<4>(&mut sums, line, first, window),
                    4 => multiply_digits::<2>(&mut sums, line, first, window),
                    _ => multiply_digits::<1>(&mut sums, line, first, window),
                }
            }
            step += 1;
        }
        barrier();
        if busy {
            let scratch = shared + warp * (4 * TILE_WORDS * TILES as u32);
            finish(&p, role, &sums, scratch, sensor);
        }
        total += shfl_xor::<16>(total);
        total += shfl_xor::<8>(total);
        total += shfl_xor::<4>(total);
        total += shfl_xor::<2>(total);
        total += shfl_xor::<1>(total);
        if lane() == 0 && total != 0 {
            let totals = p.totals + 16 * sensor as u64;
            add_global_64(totals, total as u64);
            add_global_64(totals + 8, total as u64);
        }
    }
}
