//! Passes: several levels of many transforms, by the threads of a block.
//!
//! A thread loads a butterfly's points, merges them level by level in registers and puts them back where they
//! were, or where the next kernel finds them. A barrier stands between passes only.

use crate::{
    abi::channelise::{
        Channelise, Complex, Real, bin_at, butterfly, merge, point_offset, spectrum_bytes, triple,
        unit,
    },
    channelise::root,
    isa::common::{
        barrier, dynamic_shared, load_global_2, load_shared_2, load_shared_4, opaque,
        store_global_2, store_shared_2, store_shared_4, thread, threads,
    },
    tile::divisor,
};

/// Memory that holds the points of rows.
pub trait Room: Copy {
    /// Position of the first point of a butterfly.
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
    /// Address of point `index` of `row`.
    #[inline(always)]
    pub fn address(self, row: u32, index: u32) -> u32 {
        dynamic_shared() + row * spectrum_bytes(self.size) + point_offset(index)
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
        unsafe { load_point(start + point_offset(step)) }
    }

    #[inline(always)]
    unsafe fn store(self, start: u32, step: u32, point: Complex<f32>) {
        // SAFETY: the caller's promise.
        unsafe { store_point(start + point_offset(step), point) };
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

/// Loads two points next to each other, the first an even one.
///
/// # Safety
/// They are of the block's.
#[inline(always)]
pub unsafe fn load_points(address: u32) -> [Complex<f32>; 2] {
    // SAFETY: the caller's promise; even points lie in 16 aligned bytes with the next.
    let [a, b, c, d] = unsafe { load_shared_4(address).map(f32::from_bits) };
    [[a, b], [c, d]]
}

/// See [`load_points`].
///
/// # Safety
/// They are of the block's.
#[inline(always)]
pub unsafe fn store_points(address: u32, [[a, b], [c, d]]: [Complex<f32>; 2]) {
    // SAFETY: the caller's promise; even points lie in 16 aligned bytes with the next.
    unsafe { store_shared_4(address, [a, b, c, d].map(f32::to_bits)) }
}

/// `value` divided, and the rest. Most divisors are powers of two.
#[inline(always)]
pub fn divide(value: u32, by: u32) -> [u32; 2] {
    if by.is_power_of_two() {
        [value >> by.trailing_zeros(), value & (by - 1)]
    } else {
        [value / divisor(by), value % divisor(by)]
    }
}

/// `value / by`, a power of two. A division would take tens of instructions.
#[inline(always)]
pub const fn power(value: u32, by: u32) -> u32 {
    1 << (value.trailing_zeros() - by.trailing_zeros())
}

/// Share of a thread in `items` of each of some rows: the same items of all rows that its team takes, so that
/// what depends on the item alone is made once.
#[derive(Clone, Copy)]
pub struct Share {
    /// The first item.
    pub item: u32,
    /// From an item to the next.
    pub step: u32,
    /// The first row.
    pub team: u32,
    /// From a row to the next.
    pub teams: u32,
}

impl Share {
    /// Returns the thread's share of `items`.
    #[inline(always)]
    pub fn new(items: u32) -> Self {
        if items >= threads() {
            return Self { item: thread(), step: threads(), team: 0, teams: 1 };
        }
        let [teams, _] = divide(threads(), items);
        let [team, item] = divide(thread(), items);
        // Threads that no whole team is left of have no item.
        let item = if team < teams { item } else { items };
        Self { item, step: items, team, teams }
    }
}

/// Radix of the first pass of a transform that [`is_fused`](crate::abi::channelise::is_fused): the rest goes by
/// passes of 8, which touch all banks of shared memory.
#[inline(always)]
pub const fn first_radix(size: u32) -> u32 {
    if !size.is_power_of_two() {
        return 12;
    }
    match (size.trailing_zeros(), size.trailing_zeros() % 3) {
        (0..6, _) => 8,
        // Rather one pass of 16 than two.
        (12.., 0) => 32,
        (_, 0) => 8,
        (_, 1) => 16,
        _ => 32,
    }
}

/// Radix of the next pass where columns are still to become `left` times as long, of which the last pass takes [`LAST`].
#[inline(always)]
pub const fn next_radix(left: u32) -> u32 {
    let levels = (left / 8).trailing_zeros();
    if levels >= 4 && levels != 5 && !levels.is_multiple_of(3) {
        16
    } else if levels >= 3 {
        8
    } else {
        1 << levels
    }
}

/// Most that a last pass makes columns longer.
pub const LAST: u32 = 8;

/// The levels of the first pass: columns of span [`first_radix`] of samples, in place.
///
/// # Safety
/// The room has `rows` rows.
#[inline(always)]
pub unsafe fn first(radix: u32, room: Shared, rows: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        match radix {
            32 => first_of::<32>(room, rows),
            16 => first_of::<16>(room, rows),
            12 => first_to::<12, false>(room, room.size / 12, rows),
            _ => first_of::<8>(room, rows),
        }
    }
}

/// A first pass of `R`.
#[inline(always)]
unsafe fn first_of<const R: usize>(room: Shared, rows: u32) {
    // Positions of points are known where these are.
    // SAFETY: the caller's promise.
    unsafe {
        match room.size / R as u32 {
            8 => first_to::<R, false>(room, 8, rows),
            64 => first_to::<R, false>(room, 64, rows),
            128 => first_to::<R, false>(room, 128, rows),
            columns if R > 16 => first_to::<R, true>(room, columns, rows),
            columns => first_to::<R, false>(room, columns, rows),
        }
    }
}

/// A first pass of `R` that leaves `columns` columns. `ALONG`: a place is made from the one before, as all would fill
/// the registers; columns are then a multiple of the distance between pads.
#[inline(always)]
unsafe fn first_to<const R: usize, const ALONG: bool>(room: Shared, columns: u32, rows: u32) {
    let share = Share::new(columns);
    let mut item = share.item;
    while item < columns {
        let mut row = share.team;
        while row < rows {
            let start = room.start(row, item);
            let next = |place: u32, index: usize| match ALONG {
                true => opaque(place + point_offset(columns)),
                false => start + point_offset(index as u32 * columns),
            };
            let mut points = [[0.0_f32; 2]; R];
            // SAFETY: points of the row's, of this thread only.
            unsafe {
                let mut place = start;
                each!(index < R, of 32 {
                    if index > 0 {
                        place = next(place, index);
                    }
                    points[index] = load_point(place);
                });
                samples_to_bins(&mut points);
                let mut place = start;
                each!(index < R, of 32 {
                    if index > 0 {
                        place = next(place, index);
                    }
                    store_point(place, points[index]);
                });
            }
            row += share.teams;
        }
        item += share.step;
    }
}

/// [`unit`] of all parts of a cycle.
struct Circle<const PARTS: usize>;

impl<const PARTS: usize> Circle<PARTS> {
    const UNITS: [Complex<f32>; PARTS] = {
        let mut units = [[0.0; 2]; PARTS];
        let mut part = 0;
        while part < PARTS {
            units[part] = unit(part as u32, PARTS as u32);
            part += 1;
        }
        units
    };
}

/// The transform of `R` samples, in place: all twiddles are known here.
#[inline(always)]
fn samples_to_bins<const R: usize>(points: &mut [Complex<f32>; R]) {
    let first = if R.is_multiple_of(3) { 3 } else { 1 };
    if first == 3 {
        each!(column < R / 3, of 4 {
            let [a, b, c] = [column, column + R / 3, column + 2 * R / 3];
            [points[a], points[b], points[c]] = triple([points[a], points[b], points[c]]);
        });
    }
    let units = &Circle::<R>::UNITS;
    each!(level < (R as u32).trailing_zeros() as usize, of 8 {
        let span = first << level;
        let half = R / (2 * span);
        each!(merged < R / 2, of 16 {
            let (position, column) = (merged / half, merged % half);
            let k = bin_at(position as u32, span as u32);
            let w = units[k as usize * half];
            let low = column + 2 * position * half;
            [points[low], points[low + half]] =
                merge(points[low], points[low + half], span as u32, k, w);
        });
    });
}

/// Columns that a pass merges: columns of `span` bins, of which each row has those at one of `parts` equal parts of
/// their positions, and all columns there are or a power of two of them.
#[derive(Clone, Copy)]
pub struct Merge {
    /// Points of a row.
    pub size: u32,
    /// Rows.
    pub rows: u32,
    /// The first of them.
    pub row: u32,
    /// Span of the columns before the pass.
    pub span: u32,
    /// Number of the part of a column's positions that the rows have.
    pub part: u32,
    /// Number of parts.
    pub parts: u32,
    /// Whether other threads of the block store the points before.
    pub wait: bool,
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
            2 => pass_of::<2>(p, merge, from, to),
            4 => pass_of::<4>(p, merge, from, to),
            8 => pass_of::<8>(p, merge, from, to),
            _ => pass_of::<16>(p, merge, from, to),
        }
    }
}

/// A pass of `R`.
#[inline(always)]
unsafe fn pass_of<const R: usize>(p: &Channelise, merge: Merge, from: impl Room, to: impl Room) {
    // Columns that are made, a power of two: the first pass took the three. Before the last pass they are
    // as many as it merges.
    let columns = power(merge.size << merge.parts.trailing_zeros(), merge.span * R as u32);
    // SAFETY: the caller's promise.
    unsafe {
        if columns == LAST {
            pass_to::<R, true>(p, merge, LAST, from, to);
        } else {
            pass_to::<R, false>(p, merge, columns, from, to);
        }
    }
}

/// A pass of `R` that leaves so many columns. `KNOWN`: whether the compiler knows how many.
#[inline(always)]
unsafe fn pass_to<const R: usize, const KNOWN: bool>(
    p: &Channelise,
    merge: Merge,
    columns: u32,
    from: impl Room,
    to: impl Room,
) {
    let Merge { size, span, .. } = merge;
    // The first of the bins of a column that a row has.
    let first = if merge.parts == 1 { 0 } else { merge.part * power(span, merge.parts) };
    let shift = columns.trailing_zeros();
    let items = size / R as u32;
    let share = Share::new(items);
    let mut item = share.item;
    // SAFETY: a position of the span's.
    let of = |item: u32| unsafe { roots::<R>(p, span, first + (item >> shift)) };
    // On their way while the block waits.
    let mut roots = of(if item < items { item } else { 0 });
    if merge.wait {
        barrier();
    }
    while item < items {
        let base = (item >> shift) * R as u32 * columns + (item & (columns - 1));
        // SAFETY: points of the row's, which this thread alone stores.
        unsafe {
            let mut row = share.team;
            while row < merge.rows {
                // Places are made where they are used: the places of all points would fill the registers.
                let columns = if KNOWN { columns } else { opaque(columns) };
                let mut points = [[0.0_f32; 2]; R];
                let start = from.start(merge.row + row, base);
                each!(index < R, of 16 {
                    points[index] = from.load(start, index as u32 * columns);
                });
                butterflies(&mut points, &roots);
                let start = to.start(merge.row + row, base);
                each!(index < R, of 16 {
                    to.store(start, index as u32 * columns, points[index]);
                });
                row += share.teams;
            }
        }
        item += share.step;
        if item < items {
            roots = of(item);
        }
    }
}

/// The twiddles of a butterfly of `R` points of the bin at `position` of columns of `span`: those of the first
/// half of each level's positions that are even from `parts / 2` on, as the next position's is a quarter of a cycle on.
///
/// # Safety
/// The position is below the span, which is one of the table's.
#[inline(always)]
pub unsafe fn roots<const R: usize>(p: &Channelise, span: u32, position: u32) -> [Complex<f32>; R] {
    let mut roots = [[0.0_f32; 2]; R];
    each!(level < (R as u32).trailing_zeros() as usize, of 4 {
        let parts: usize = 1 << level;
        each!(part < parts.div_ceil(2), of 4 {
            let at = (position << level) + 2 * part as u32;
            // SAFETY: the caller's promise.
            roots[parts / 2 + part] = unsafe { root(p, span << level, at) };
        });
    });
    roots
}

/// The levels of a pass, in place, by its [`roots`].
#[inline(always)]
pub fn butterflies<const R: usize>(points: &mut [Complex<f32>; R], roots: &[Complex<f32>; R]) {
    for level in 0..(R as u32).trailing_zeros() as usize {
        let (parts, half): (usize, usize) = (1 << level, R >> (level + 1));
        for part in 0..parts {
            let w = roots[parts / 2 + part / 2];
            let w = if part % 2 == 1 { [w[1], w[0].neg()] } else { w };
            for column in 0..half {
                let low = column + 2 * part * half;
                [points[low], points[low + half]] = butterfly(points[low], points[low + half], w);
            }
        }
    }
}
