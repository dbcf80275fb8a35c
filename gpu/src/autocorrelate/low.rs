//! Groups of short bins, from 2 on, on tensor cores.
//!
//! As in [`super::counts`], matrix products sum over K = 32 subsegments of time at once, and the
//! diagonals of Gram matrices of bins are the lags. Bins of up to 13 bits are two digits of 8 bits. Rows
//! 0..8 of operand A are the low digits of 8 bins, rows 8..16 their high digits, and there is a tile of
//! columns for either digit: 5 tiles of bins give 32 lags and all four products of digits, weighted 1,
//! 256 and 65536 in the end.
//!
//! Delay lines of all groups lie in shared memory, rings of a power of two. The threads fill them
//! together from the bins of group 2, [`STEP`] instants of every subsegment at a time: each takes two
//! bins of 8 subsegments and adds neighbours, first its own, then other lanes'. Then every warp multiplies
//! what its role says; consecutive products share the bins of the delay line, which stay in registers.
//! Before its own instants a subsegment's halo goes through the lines, without products: the last bins
//! of the subsegment before.
//!
//! ```text
//! a bin in a delay line: 64 bytes, two digits of 32 subsegments          operand A of a product: 16 rows
//!
//!   | low, words 0-3 | low, words 4-7 | high, 0-3 | high, 4-7 |           rows 0..8   low digits of bins n..n + 8
//!     chunk 0          1                2           3                     rows 8..16  their high digits
//!   chunk c of bin b lies at c ^ (b / 2 % 2 * 2 + b / 4 % 2)
//!
//! a delay line: a ring of bins, bin b at b ^ (b / 4 % 2)                 operand B: 8 columns, bins of a tile,
//!   ... | tile 0 | tile 1 | tile 2 | tile 3 | tile 4 | ...               once their low, once their high digits
//!       ^ `window` bins before n
//!
//! product of row r and column c of a tile: lag first_lag + 32 + r - (8 tile + c), for r = 0..8
//!   weights: low . low 1, low . high and high . low 256, high . high 65536
//! ```
//!
//! Sums wrap at 2^32 and are read as unsigned: a product of digits is at most 255^2, 32 of them for
//! every 8 bins of 4 instants or more; [`crate::abi::autocorrelate::MAX_SUBSEGMENT`] keeps them below.
//!
//! Bound by nothing in particular: 10 `mma` for 256 bins, two bytes each, of every group.

use crate::{
    abi::autocorrelate::{
        BIN_BYTES, LOW, LOW_WARPS, Low, QUARTERS_BYTES, STEP, SUBSEGMENTS, WARP_LAGS, history,
        line_bins, line_offset, role, subsegment_at,
    },
    isa::common::{
        add_global_64, barrier, block, dynamic_shared, lane, load_global_2, load_shared, opaque,
        prmt, shfl_xor, store_shared, store_shared_2, store_shared_4, store_shared_16, thread,
        warp_barrier,
    },
    isa::sm_80::{ldmatrix_x4, mma_m16n8k32_u8},
    tile::divisor,
};

use super::{gram::Gram, keep};

/// Bins of group 2 of each subsegment that one thread loads at a time.
const THREAD_BINS: u32 = STEP / 4 * 4 / (32 * LOW_WARPS);

/// Tiles of a warp's sums: 5 tiles of bins by 2 digits.
const TILES: usize = 10;

/// Bytes of a chunk: 16 subsegments of a bin, a row of what `ldmatrix` reads.
const CHUNK: u32 = 16;

/// Which bytes of a bin tell its digits apart.
const OTHER_DIGIT: u32 = SUBSEGMENTS;

/// The delay line of one group in shared memory.
///
/// A bin has two chunks of low digits and two of high digits. Neighbouring bins and the chunks of each
/// are permuted by `xor`, so that the same chunk of eight bins lies in eight different places of 128
/// bytes, and so does what lanes store together.
#[derive(Clone, Copy)]
struct Line {
    address: u32,
    mask: u32,
}

impl Line {
    /// The line of `group`, whose lines all lie at `shared`.
    #[inline(always)]
    fn new(shared: u32, group: u32, lags: u32) -> Self {
        Self { address: shared + line_offset(group, lags), mask: line_bins(group, lags) - 1 }
    }

    /// The place of a bin, in bins: neighbours that lanes store together change places.
    #[inline(always)]
    fn swapped(bin: u32) -> u32 {
        bin ^ (bin / 4 % 2)
    }

    /// Where `chunk` of a bin lies among its chunks, in bytes.
    #[inline(always)]
    fn chunk(bin: u32, chunk: u32) -> u32 {
        (chunk ^ (bin / 2 % 2 * 2 + bin / 4 % 2)) * CHUNK
    }

    /// Address of `chunk` of a bin.
    #[inline(always)]
    fn place(self, bin: u32, chunk: u32) -> u32 {
        self.address + (Self::swapped(bin) & self.mask) * BIN_BYTES + Self::chunk(bin, chunk)
    }

    /// Address of `chunk` of bin `bin` of those that begin at `start`, a multiple of 8. The chunk of the
    /// other digit lies there `^` [`OTHER_DIGIT`], an even bin's successor `^` [`BIN_BYTES`].
    #[inline(always)]
    fn at(self, start: u32, bin: u32, chunk: u32) -> u32 {
        self.address
            + (start & self.mask) * BIN_BYTES
            + Self::swapped(bin) * BIN_BYTES
            + Self::chunk(bin, chunk)
    }

    /// The row of `ldmatrix` that a lane names: `chunk` of bin `bin`. As long as they are equal modulo
    /// 8, other bins lie as many bins later as they are.
    #[inline(always)]
    fn row(self, bin: u32, chunk: u32) -> Row {
        Row {
            address: self.address + Self::chunk(bin, chunk),
            offset: Self::swapped(bin) * BIN_BYTES,
            mask: self.mask * BIN_BYTES,
        }
    }
}

/// A lane's row in a line, for `ldmatrix`.
#[derive(Clone, Copy)]
struct Row {
    address: u32,
    offset: u32,
    mask: u32,
}

impl Row {
    /// The rows `8 tile` bins later.
    ///
    /// # Safety
    /// All lanes of the warp call it, each with its row.
    #[inline(always)]
    unsafe fn load(self, tile: u32) -> [u32; 4] {
        // SAFETY: places in the line, in whole chunks.
        unsafe { ldmatrix_x4(self.address + ((self.offset + tile * 8 * BIN_BYTES) & self.mask)) }
    }
}

/// Bins of one group: of 8 subsegments, 16 bits each.
type Sums = [u32; 4];

#[inline(always)]
fn add(a: Sums, b: Sums) -> Sums {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
}

/// A bin of 8 subsegments as its digits lie in memory: low ones, high ones.
type Digits = [[u32; 2]; 2];

/// Bins as 16-bit numbers: bins of even subsegments and of odd ones, of the first four and of the
/// others.
#[inline(always)]
fn widen([low, high]: Digits) -> Sums {
    [
        prmt::<0x6240>(low[0], high[0]),
        prmt::<0x7351>(low[0], high[0]),
        prmt::<0x6240>(low[1], high[1]),
        prmt::<0x7351>(low[1], high[1]),
    ]
}

/// The digits of bins.
#[inline(always)]
fn digits(sums: Sums) -> Digits {
    [
        [prmt::<0x6240>(sums[0], sums[1]), prmt::<0x6240>(sums[2], sums[3])],
        [prmt::<0x7351>(sums[0], sums[1]), prmt::<0x7351>(sums[2], sums[3])],
    ]
}

/// Fills the delay lines of all groups.
struct Filler<'a> {
    p: &'a Low,
    shared: u32,
    sensor: u32,
    segment: u32,
}

impl Filler<'_> {
    /// The first of a lane's bins of group 2 in a step.
    #[inline(always)]
    fn bin(&self) -> u32 {
        thread() / 4 * THREAD_BINS
    }

    /// The chunk of low digits that holds a lane's subsegments, and their place in it.
    #[inline(always)]
    fn part(&self) -> (u32, u32) {
        (lane() / 2 % 2, lane() % 2 * 8)
    }

    /// The bins of the step at `step`, from the beginning of the halo on.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`Low`], and `step` is one of the segment's.
    #[inline(always)]
    unsafe fn fetch(&self, step: u32) -> [Digits; THREAD_BINS as usize] {
        let p = self.p;
        let halo = p.halo / 4;
        let length = halo + p.subsegment / 4;
        let row = self.sensor as u64 * p.segments as u64 + self.segment as u64;
        let address = p.quarters + row * (length / 8 * QUARTERS_BYTES) as u64;
        let bin = step * (STEP / 4) + self.bin();
        let mut bins = [[[0; 2]; 2]; THREAD_BINS as usize];
        for i in 0..2 {
            // The halo of a word's subsegments is the end of those of the word before. That of word 0, whose
            // subsegments follow others' of other bytes, was transposed.
            let word = 2 * (lane() % 4) + i as u32;
            let (bin, word) = if bin < halo && word > 0 {
                (bin + p.subsegment / 4, word - 1)
            } else {
                (bin, word)
            };
            let at = address + (bin / 8 * QUARTERS_BYTES + bin % 8 * 4 + 2 * 4 * 8 * word) as u64;
            for digit in 0..2 {
                // SAFETY: bins of a step that exists.
                let [first, second] = unsafe { load_global_2(at + 4 * 8 * digit as u64) };
                bins[0][digit][i] = first;
                bins[1][digit][i] = second;
            }
        }
        bins
    }

    /// Stores the bins of a step to all lines.
    ///
    /// # Safety
    /// All threads of the block call it, after all have read the bins that it overwrites.
    #[inline(always)]
    unsafe fn fill(&self, step: u32, bins: [Digits; THREAD_BINS as usize]) {
        let p = self.p;
        let (chunk, place) = self.part();
        // Address of a lane's low digits in the line of a group.
        let at = |group: u32| {
            let line = Line::new(self.shared, group, p.lags);
            line.at(step * (STEP >> group), self.bin() >> (group - 2), chunk) + place
        };
        let store = |at: u32, [low, high]: Digits| {
            // SAFETY: places in the line, this lane's.
            unsafe {
                store_shared_2(at, low);
                store_shared_2(at ^ OTHER_DIGIT, high);
            }
        };
        store(at(2), bins[0]);
        store(at(2) ^ BIN_BYTES, bins[1]);
        if p.low < 3 {
            return;
        }
        let sums = add(widen(bins[0]), widen(bins[1]));
        store(at(3), digits(sums));
        // SAFETY: places in the lines, each of one lane.
        unsafe {
            // Neighbouring owners make longer bins. Each gives half of its subsegments to the other:
            // the second four, then two of four.
            let owner = lane() / 4;
            let [a, b, c, d] = sums;
            let odd = !owner.is_multiple_of(2);
            let ours = if odd { [c, d] } else { [a, b] };
            let theirs = if odd { [a, b] } else { [c, d] };
            let even = ours[0] + shfl_xor::<4>(theirs[0]);
            let odd = ours[1] + shfl_xor::<4>(theirs[1]);
            let place = owner % 2 * 4;
            if p.low >= 4 {
                let at = at(4) + place;
                store_shared(at, prmt::<0x6240>(even, odd));
                store_shared(at ^ OTHER_DIGIT, prmt::<0x7351>(even, odd));
            }
            let (a, b) = (prmt::<0x5410>(even, odd), prmt::<0x7632>(even, odd));
            let second = !(owner / 2).is_multiple_of(2);
            let (ours, theirs) = if second { (b, a) } else { (a, b) };
            let sums = ours + shfl_xor::<8>(theirs);
            let place = place + owner / 2 % 2 * 2;
            if p.low >= 5 {
                let at = at(5) + place;
                store_shared_16(at, prmt::<0x2020>(sums, sums) as u16);
                store_shared_16(at ^ OTHER_DIGIT, prmt::<0x3131>(sums, sums) as u16);
            }
        }
    }

    /// Writes the bins of group `low`, whose line it is, of a step to memory, and gives their sum. Warps
    /// share the bins, lanes the subsegments.
    ///
    /// # Safety
    /// All lanes of the warp call it after the lines were filled.
    #[inline(always)]
    unsafe fn keep(&self, step: u32, line: Line) -> u32 {
        const BINS: u32 = keep::BINS;
        let p = self.p;
        // Seldom enough to take no registers between steps.
        let lane = opaque(lane());
        let bins = keep::Bins {
            bins: p.bins + 2 * self.sensor as u64 * p.bins_stride,
            history: history(p.lags),
            halo: p.halo >> p.low,
            per_subsegment: p.subsegment >> p.low,
        };
        let (chunk, place) = (lane / CHUNK, lane % CHUNK / 4 * 4);
        let shift = 8 * (lane % 4);
        let mut total = 0;
        // The last warp has the least to multiply.
        let mut kept = BINS * ((thread() / 32 + 1) % LOW_WARPS);
        while kept < STEP >> p.low {
            let bin = ((step * STEP) >> p.low) + kept;
            let mut words = [0; BINS as usize / 2];
            let mut sum = 0;
            for i in 0..BINS {
                // SAFETY: places in the line.
                let [low, high] = unsafe {
                    [
                        load_shared(line.place(bin + i, chunk) + place),
                        load_shared(line.place(bin + i, 2 + chunk) + place),
                    ]
                };
                let value = low >> shift & 0xff | (high >> shift & 0xff) << 8;
                words[i as usize / 2] |= value << (16 * (i % 2));
                sum += value;
            }
            // SAFETY: the bins exist, and no other lane has them.
            if unsafe { bins.write(self.segment * SUBSEGMENTS + subsegment_at(lane), bin, words) } {
                total += sum;
            }
            kept += BINS * LOW_WARPS;
        }
        total
    }
}

/// Products that a warp computes.
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
            first_lag: (byte >> 3 & 1) * WARP_LAGS,
            part: byte >> 4 & 3,
            parts: 1 + (byte >> 6),
        }
    }
}

/// The most eights of bins that are multiplied together.
const LONGEST_RUN: usize = 4;

/// Adds the products of 8 `RUN` bins of two digits, from `bin` on, with those of the line, each 8
/// with the 40 that begin `window` bins earlier.
///
/// # Safety
/// All lanes of the warp call it; the line holds the bins.
#[inline(always)]
unsafe fn multiply<const RUN: usize>(
    sums: &mut [[u32; 4]; TILES],
    line: Line,
    bin: u32,
    window: u32,
) {
    const COLUMNS: usize = TILES / 2;
    let lane = opaque(lane());
    let (row, matrix) = (lane % 8, lane / 8);
    // As operand A low and high digits of either half, as operand B the halves of either digit.
    let direct = line.at(bin, row, matrix % 2 * 2 + matrix / 2);
    let delayed = line.row(bin.wrapping_sub(window) + row, matrix);
    let mut b = [[0; 4]; COLUMNS - 1 + LONGEST_RUN];
    // SAFETY: all lanes of the warp are here.
    unsafe {
        for tile in 0..COLUMNS - 1 {
            b[tile] = delayed.load(tile as u32);
        }
        each!(i < RUN, of 4 {
            let a = ldmatrix_x4(direct + 8 * i as u32 * BIN_BYTES);
            b[i + COLUMNS - 1] = delayed.load((i + COLUMNS - 1) as u32);
            each!(tile < COLUMNS, {
                let [low0, low1, high0, high1] = b[i + tile];
                mma_m16n8k32_u8(&mut sums[2 * tile], a, [low0, low1]);
                mma_m16n8k32_u8(&mut sums[2 * tile + 1], a, [high0, high1]);
            });
        });
    }
}

/// Adds the diagonals of a warp's sums to the products in memory.
///
/// # Safety
/// - All 32 lanes of the warp call it together, in a launch that keeps the conditions of [`Low`].
/// - `gram` is shared memory of the warp alone; `sensor` is one of the launch's.
#[inline(always)]
unsafe fn finish(p: &Low, role: Role, sums: &[[u32; 4]; TILES], gram: Gram<TILES>, sensor: u32) {
    // SAFETY: the warp's own tiles; products that are there, which are added to atomically.
    unsafe {
        gram.store(sums);
        warp_barrier();
        // Lane l has lag first_lag + l: row r meets the column 32 + r - l of all tiles.
        let mut total = 0u64;
        for row in 0..8 {
            let column = WARP_LAGS + row - lane();
            let (tile, column) = (column / 8 * 2, column % 8);
            let low_low = gram.load(tile, row, column) as u64;
            let high_low = gram.load(tile, row + 8, column) as u64;
            let low_high = gram.load(tile + 1, row, column) as u64;
            let high_high = gram.load(tile + 1, row + 8, column) as u64;
            total += low_low + ((high_low + low_high) << 8) + (high_high << 16);
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
        let busy = byte != role::IDLE as u32;
        let role = Role::new(byte);
        let line = Line::new(shared, role.group, p.lags);
        let kept = Line::new(shared, p.low, p.lags);
        // Lines are read a tile beyond their lags: there must be something.
        let mut place = 16 * thread();
        while place < LOW.entry.shared_bytes {
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
            total += filler.keep(step, kept);
            if busy && step >= halo_steps {
                let first = (step * STEP) >> role.group;
                // Runs of 32 bins; a step has 16 bins of group 5.
                let bins = STEP >> role.group;
                let mut run = 32 * role.part;
                while run + 32 <= bins {
                    multiply::<LONGEST_RUN>(&mut sums, line, first + run, window);
                    run += 32 * role.parts;
                }
                if bins < 32 {
                    multiply::<2>(&mut sums, line, first, window);
                }
            }
            step += 1;
        }
        barrier();
        if busy {
            let gram = Gram { address: shared + warp * Gram::<TILES>::BYTES };
            finish(&p, role, &sums, gram, sensor);
        }
        keep::add_total(p.totals, sensor, total);
    }
}
