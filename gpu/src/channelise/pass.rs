//! Passes: several levels of many transforms, by the threads of a block.
//!
//! A thread loads a butterfly's points, merges them level by level in registers and puts them back where they
//! were, or where the next kernel finds them. A barrier stands between passes only.

use crate::{
    abi::channelise::{
        Channelise, Complex, PAD, Real, butterfly, merge, spectrum_bytes, triple, unit,
    },
    channelise::{bin_at, root},
    isa::common::{
        dynamic_shared, load_global_2, load_shared_2, opaque, store_global_2, store_shared_2,
        thread, threads,
    },
    tile::divisor,
};

/// Where the points of rows lie.
pub trait Room: Copy {
    /// Where a butterfly begins.
    type Start: Copy;

    /// The butterfly of a row whose first point is `base`.
    fn start(self, row: u32, base: u32) -> Self::Start;

    /// The point `step` after the butterfly's first.
    ///
    /// # Safety
    /// It is one of the room's, and no other thread stores it.
    unsafe fn load(self, start: Self::Start, step: u32) -> Complex<f32>;

    /// See [`load`](Self::load).
    ///
    /// # Safety
    /// It is one of the room's, of this thread only.
    unsafe fn store(self, start: Self::Start, step: u32, point: Complex<f32>);
}

/// Rows of `size` points in the block's shared memory.
#[derive(Clone, Copy)]
pub struct Shared {
    /// Points of a row.
    pub size: u32,
}

impl Shared {
    /// Where point `index` of `row` lies.
    #[inline(always)]
    pub fn address(self, row: u32, index: u32) -> u32 {
        dynamic_shared() + row * spectrum_bytes(self.size) + 8 * (index + index / PAD)
    }
}

impl Room for Shared {
    type Start = u32;

    #[inline(always)]
    fn start(self, row: u32, base: u32) -> u32 {
        self.address(row, base)
    }

    #[inline(always)]
    unsafe fn load(self, start: u32, step: u32) -> Complex<f32> {
        // SAFETY: the caller's promise.
        unsafe { load_point(start + 8 * (step + step / PAD)) }
    }

    #[inline(always)]
    unsafe fn store(self, start: u32, step: u32, point: Complex<f32>) {
        // SAFETY: the caller's promise.
        unsafe { store_point(start + 8 * (step + step / PAD), point) };
    }
}

/// Rows of points next to each other, between kernels.
#[derive(Clone, Copy)]
pub struct Line {
    /// Point 0 of row 0.
    pub address: u64,
    /// Points from a row to the next.
    pub pitch: u32,
}

impl Room for Line {
    type Start = u64;

    #[inline(always)]
    fn start(self, row: u32, base: u32) -> u64 {
        self.address + 8 * (row as u64 * self.pitch as u64 + base as u64)
    }

    #[inline(always)]
    unsafe fn load(self, start: u64, step: u32) -> Complex<f32> {
        // Made where it is used: sixteen addresses would fill the registers.
        let step = opaque(step);
        // SAFETY: the caller's promise; the kernel that stored it has ended.
        unsafe { load_global_2(start + 8 * step as u64).map(f32::from_bits) }
    }

    #[inline(always)]
    unsafe fn store(self, start: u64, step: u32, point: Complex<f32>) {
        let step = opaque(step);
        // SAFETY: the caller's promise.
        unsafe { store_global_2(start + 8 * step as u64, point.map(f32::to_bits)) };
    }
}

/// Rows of which each has some columns of many, `[position][column]`, of pairs of inputs.
#[derive(Clone, Copy)]
pub struct Columns {
    /// The first column of row 0.
    pub line: Line,
    /// Rows from a pair to the next.
    pub apart: u32,
    /// Columns, `1 << shift`, next to each other.
    pub shift: u32,
    /// All columns: points from a position to the next.
    pub all: u32,
}

impl Room for Columns {
    type Start = u64;

    #[inline(always)]
    fn start(self, row: u32, base: u32) -> u64 {
        let column = base & ((1 << self.shift) - 1);
        let point = (base >> self.shift) * self.all + column;
        self.line.start(row / 2 * self.apart + row % 2, point)
    }

    // Butterflies step by whole positions.
    #[inline(always)]
    unsafe fn load(self, start: u64, step: u32) -> Complex<f32> {
        // SAFETY: the caller's promise.
        unsafe { self.line.load(start, (step >> self.shift) * self.all) }
    }

    #[inline(always)]
    unsafe fn store(self, start: u64, step: u32, point: Complex<f32>) {
        // SAFETY: the caller's promise.
        unsafe { self.line.store(start, (step >> self.shift) * self.all, point) };
    }
}

/// Loads a point of shared memory.
///
/// # Safety
/// It is one of the block's.
#[inline(always)]
pub unsafe fn load_point(address: u32) -> Complex<f32> {
    // SAFETY: the caller's promise.
    unsafe { load_shared_2(address).map(f32::from_bits) }
}

/// See [`load_point`].
///
/// # Safety
/// It is one of the block's.
#[inline(always)]
pub unsafe fn store_point(address: u32, point: Complex<f32>) {
    // SAFETY: the caller's promise.
    unsafe { store_shared_2(address, point.map(f32::to_bits)) }
}

/// How threads share what is to be done for every row: from `item` of `row` on, by these steps.
pub struct Share {
    /// The first.
    pub item: u32,
    /// From one to the next.
    pub item_step: u32,
    /// The first.
    pub row: u32,
    /// From one to the next.
    pub row_step: u32,
}

/// Shares `items` of every row; of few, several rows at a time.
#[inline(always)]
pub fn share(items: u32, rows: u32) -> Share {
    if items >= threads() {
        Share { item: thread(), item_step: threads(), row: 0, row_step: 1 }
    } else {
        let at_once = threads() / divisor(items);
        let row = thread() / divisor(items);
        let row = if row < at_once { row } else { rows };
        Share { item: thread() % divisor(items), item_step: items, row, row_step: at_once }
    }
}

/// The levels of the first pass: columns of span `R` of samples, in place.
///
/// # Safety
/// The room has `rows` rows.
#[inline(always)]
pub unsafe fn first<const R: usize>(room: Shared, rows: u32) {
    let columns = room.size / divisor(R as u32);
    let share = share(columns, rows);
    let mut item = share.item;
    while item < columns {
        let mut row = share.row;
        while row < rows {
            let mut points = [[0.0_f32; 2]; R];
            let mut places = [0; R];
            for index in 0..R {
                places[index] = room.address(row, item + index as u32 * columns);
                // SAFETY: a point of the row's.
                points[index] = unsafe { load_point(places[index]) };
            }
            let mut span = 1;
            if R.is_multiple_of(3) {
                for column in 0..R / 3 {
                    let three = [column, column + R / 3, column + 2 * R / 3];
                    let bins = triple(three.map(|index| points[index]));
                    for index in 0..3 {
                        points[three[index]] = bins[index];
                    }
                }
                span = 3;
            }
            for _ in 0..R.trailing_zeros() {
                let half = R / (2 * span);
                for position in 0..span {
                    let k = bin_at(position as u32, span as u32);
                    let w = unit(k, 2 * span as u32);
                    for column in 0..half {
                        let low = column + 2 * position * half;
                        let merged = merge(points[low], points[low + half], span as u32, k, w);
                        [points[low], points[low + half]] = merged;
                    }
                }
                span *= 2;
            }
            for index in 0..R {
                // SAFETY: a point of the row's, of this thread only.
                unsafe { store_point(places[index], points[index]) };
            }
            row += share.row_step;
        }
        item += share.item_step;
    }
}

/// What a pass merges: the bins `bin + step i`, `i = 0, 1 ..`, of columns of `span`, of which a row holds all
/// columns there are or a power of two of them.
#[derive(Clone, Copy)]
pub struct Merge {
    /// Points of a row.
    pub size: u32,
    /// Rows.
    pub rows: u32,
    /// The first of them.
    pub row: u32,
    /// The span of the columns that there are.
    pub span: u32,
    /// The first bin.
    pub bin: u32,
    /// From one bin to the next.
    pub step: u32,
}

/// The pass that makes columns of `span R` of those of `span`.
///
/// # Safety
/// The rooms have the rows.
#[inline(always)]
pub unsafe fn pass(p: &Channelise, radix: u32, merge: Merge, from: impl Room, to: impl Room) {
    // SAFETY: the caller's promise.
    unsafe {
        match radix {
            2 => pass_of::<2, 1>(p, merge, from, to),
            4 => pass_of::<4, 2>(p, merge, from, to),
            8 => pass_of::<8, 3>(p, merge, from, to),
            _ => pass_of::<16, 4>(p, merge, from, to),
        }
    }
}

/// A pass of `R = 1 << LEVELS`.
#[inline(always)]
unsafe fn pass_of<const R: usize, const LEVELS: usize>(
    p: &Channelise,
    merge: Merge,
    from: impl Room,
    to: impl Room,
) {
    let Merge { size, span, .. } = merge;
    // Bins of a column that a row has.
    let bins = span / divisor(merge.step);
    // Columns that are made, a power of two: the first pass took the three.
    let columns = size / divisor(bins * R as u32);
    let shift = columns.trailing_zeros();
    let share = share(size / R as u32, merge.rows);
    let mut item = share.item;
    while item < size / R as u32 {
        let position = item >> shift;
        let base = position * R as u32 * columns + (item & (columns - 1));
        let k = merge.bin + merge.step * bin_at(position, bins);
        // Those of a level's first half of bins; the others are a quarter turn on.
        let mut roots = [[0.0_f32; 2]; R];
        for level in 0..LEVELS {
            let parts: usize = 1 << level;
            let step = p.residues / divisor((2 * span) << level);
            for part in 0..parts.div_ceil(2) {
                // SAFETY: below half the table's turn.
                roots[parts / 2 + part] = unsafe { root(p, (k + part as u32 * span) * step) };
            }
        }
        let mut row = share.row;
        while row < merge.rows {
            let mut points = [[0.0_f32; 2]; R];
            let start = from.start(merge.row + row, base);
            for index in 0..R {
                // SAFETY: a point of the row's.
                points[index] = unsafe { from.load(start, index as u32 * columns) };
            }
            for level in 0..LEVELS {
                let (parts, half): (usize, usize) = (1 << level, R >> (level + 1));
                for position in 0..parts {
                    let part = bin_at(position as u32, parts as u32) as usize;
                    let quarter = part >= parts.div_ceil(2);
                    let w = roots[parts / 2 + if quarter { part - parts / 2 } else { part }];
                    let w = if quarter { [w[1], w[0].neg()] } else { w };
                    for column in 0..half {
                        let low = column + 2 * position * half;
                        [points[low], points[low + half]] =
                            butterfly(points[low], points[low + half], w);
                    }
                }
            }
            let start = to.start(merge.row + row, base);
            for index in 0..R {
                // SAFETY: a point of the row's, of this thread only.
                unsafe { to.store(start, index as u32 * columns, points[index]) };
            }
            row += share.row_step;
        }
        item += share.item_step;
    }
}
