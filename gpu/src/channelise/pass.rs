//! Passes: several levels of many transforms, by the threads of a block.
//!
//! A thread loads a butterfly's points, merges them level by level in registers and puts them back where they
//! were, or where the next kernel finds them. A barrier stands between passes only.

use crate::{
    abi::channelise::{
        Channelise, Complex, Real, bin_at, butterfly, merge, point_offset, spectrum_bytes, triple,
        unit,
    },
    channelise::load_twiddle,
    isa::common::{
        barrier, dynamic_shared, load_global_2, load_shared_2, load_shared_4, opaque,
        store_global_2, store_shared_2, store_shared_4, thread, threads,
    },
    tile::divisor,
};

/// Memory that holds the points of transforms, in rows.
pub trait Buffer: Copy {
    /// Position of the first point of a butterfly.
    type Start: Copy;

    /// The butterfly of a row whose first point is `base`.
    fn start(self, row: u32, base: u32) -> Self::Start;

    /// The point `step` after the butterfly's first.
    ///
    /// # Safety
    /// - `start` is [`start`](Self::start) of a row that the buffer has, and the point lies in the row.
    /// - It was stored before this launch or before a barrier that this thread waited at, and no other thread stores it
    ///   before this thread's next barrier.
    unsafe fn load(self, start: Self::Start, step: u32) -> Complex<f32>;

    /// Stores the point `step` after the butterfly's first.
    ///
    /// # Safety
    /// - `start` is [`start`](Self::start) of a row that the buffer has, and the point lies in the row.
    /// - Between the last barrier of this thread and its next, no other thread of the grid loads or stores it.
    unsafe fn store(self, start: Self::Start, step: u32, point: Complex<f32>);
}

/// Rows of `size` points in the block's shared memory.
#[derive(Clone, Copy)]
pub struct SharedBuffer {
    /// Points of a row.
    pub size: u32,
}

impl SharedBuffer {
    /// Address of point `index` of `row`.
    #[inline(always)]
    pub fn address(self, row: u32, index: u32) -> u32 {
        dynamic_shared() + row * spectrum_bytes(self.size) + point_offset(index)
    }
}

impl Buffer for SharedBuffer {
    type Start = u32;

    #[inline(always)]
    fn start(self, row: u32, base: u32) -> u32 {
        self.address(row, base)
    }

    #[inline(always)]
    unsafe fn load(self, start: u32, step: u32) -> Complex<f32> {
        // SAFETY: a point of a row, stored behind a barrier.
        unsafe { load_point(start + point_offset(step)) }
    }

    #[inline(always)]
    unsafe fn store(self, start: u32, step: u32, point: Complex<f32>) {
        // SAFETY: a point of a row, this thread's till the next barrier.
        unsafe { store_point(start + point_offset(step), point) };
    }
}

/// Rows of points next to each other in device memory, which one kernel stores for the next.
#[derive(Clone, Copy)]
pub struct GlobalBuffer {
    /// Point 0 of row 0.
    pub address: u64,
    /// Points from a row to the next.
    pub pitch: u32,
}

impl Buffer for GlobalBuffer {
    type Start = u64;

    #[inline(always)]
    fn start(self, row: u32, base: u32) -> u64 {
        self.address + 8 * (row as u64 * self.pitch as u64 + base as u64)
    }

    #[inline(always)]
    unsafe fn load(self, start: u64, step: u32) -> Complex<f32> {
        // Made where it is used: sixteen addresses would fill the registers.
        let step = opaque(step);
        // SAFETY: a point of a row; the kernel that stored it has ended.
        unsafe { load_global_2(start + 8 * step as u64).map(f32::from_bits) }
    }

    #[inline(always)]
    unsafe fn store(self, start: u64, step: u32, point: Complex<f32>) {
        let step = opaque(step);
        // SAFETY: a point of a row, which no other thread of the launch stores.
        unsafe { store_global_2(start + 8 * step as u64, point.map(f32::to_bits)) };
    }
}

/// Rows in device memory of which each has some columns of many, `[position][column]`, of pairs of inputs.
#[derive(Clone, Copy)]
pub struct ColumnBuffer {
    /// The first column of row 0.
    pub rows: GlobalBuffer,
    /// Rows from a pair to the next.
    pub apart: u32,
    /// Columns, `1 << shift`, next to each other.
    pub shift: u32,
    /// All columns: points from a position to the next.
    pub all: u32,
}

impl Buffer for ColumnBuffer {
    type Start = u64;

    #[inline(always)]
    fn start(self, row: u32, base: u32) -> u64 {
        let column = base & ((1 << self.shift) - 1);
        let point = (base >> self.shift) * self.all + column;
        self.rows.start(row / 2 * self.apart + row % 2, point)
    }

    // Butterflies step by whole positions.
    #[inline(always)]
    unsafe fn load(self, start: u64, step: u32) -> Complex<f32> {
        // SAFETY: the same point, of the rows as they lie in memory.
        unsafe { self.rows.load(start, (step >> self.shift) * self.all) }
    }

    #[inline(always)]
    unsafe fn store(self, start: u64, step: u32, point: Complex<f32>) {
        // SAFETY: the same point, of the rows as they lie in memory.
        unsafe { self.rows.store(start, (step >> self.shift) * self.all, point) };
    }
}

/// Loads a point of shared memory.
///
/// # Safety
/// - `address` is [`SharedBuffer::address`] of a point in the block's shared memory.
/// - The point was stored before a barrier of the block, and no other thread stores it before the next.
#[inline(always)]
pub unsafe fn load_point(address: u32) -> Complex<f32> {
    // SAFETY: 8 aligned bytes that are there and stored, by the conditions above.
    unsafe { load_shared_2(address).map(f32::from_bits) }
}

/// Stores a point in shared memory.
///
/// # Safety
/// - `address` is [`SharedBuffer::address`] of a point in the block's shared memory.
/// - Between two barriers of the block, no other thread loads or stores the point.
#[inline(always)]
pub unsafe fn store_point(address: u32, point: Complex<f32>) {
    // SAFETY: 8 aligned bytes that are there, and this thread's, by the conditions above.
    unsafe { store_shared_2(address, point.map(f32::to_bits)) }
}

/// Loads two points of shared memory next to each other, the first an even one.
///
/// # Safety
/// - `address` is [`SharedBuffer::address`] of an even point in the block's shared memory, and the next point too is of
///   the row.
/// - The points were stored before a barrier of the block, and no other thread stores them before the next.
#[inline(always)]
pub unsafe fn load_points(address: u32) -> [Complex<f32>; 2] {
    // SAFETY: an even point and the next lie in 16 aligned bytes, which are there and stored.
    let [a, b, c, d] = unsafe { load_shared_4(address).map(f32::from_bits) };
    [[a, b], [c, d]]
}

/// Stores two points in shared memory next to each other, the first an even one.
///
/// # Safety
/// - `address` is [`SharedBuffer::address`] of an even point in the block's shared memory, and the next point too is of
///   the row.
/// - Between two barriers of the block, no other thread loads or stores the points.
#[inline(always)]
pub unsafe fn store_points(address: u32, [[a, b], [c, d]]: [Complex<f32>; 2]) {
    // SAFETY: an even point and the next lie in 16 aligned bytes, which are there, and this thread's.
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

/// Butterflies of a stage that a thread takes: the same ones of every row that it takes, so that the twiddles, which depend
/// on the butterfly alone, are loaded once.
#[derive(Clone, Copy)]
pub struct ThreadButterflies {
    /// The first butterfly of a row; at least the number of them if the thread has none.
    pub first: u32,
    /// From a butterfly to the next.
    pub step: u32,
    /// The first row.
    pub first_row: u32,
    /// From a row to the next.
    pub row_step: u32,
}

impl ThreadButterflies {
    /// Returns the thread's share of the `count` butterflies of each row.
    #[inline(always)]
    pub fn of(count: u32) -> Self {
        if count >= threads() {
            return Self { first: thread(), step: threads(), first_row: 0, row_step: 1 };
        }
        // As many threads as butterflies take a row together.
        let [teams, _] = divide(threads(), count);
        let [team, butterfly] = divide(thread(), count);
        // Threads that no whole team is left of have no butterfly.
        let first = if team < teams { butterfly } else { count };
        Self { first, step: count, first_row: team, row_step: teams }
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

/// Radix of the next pass where columns are still to become `left` times as long, of which the last pass takes
/// [`LAST_RADIX`].
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

/// Largest radix of a last pass.
pub const LAST_RADIX: u32 = 8;

/// The levels of the first pass: columns of span [`first_radix`] of samples, in place.
///
/// # Safety
/// - All threads of the block call it together, behind a barrier that follows the stores of the samples.
/// - The buffer has `rows` rows in the block's shared memory, of a size that
///   [`is_fused`](crate::abi::channelise::is_fused), whose [`first_radix`] is `radix`.
#[inline(always)]
pub unsafe fn first(radix: u32, buffer: SharedBuffer, rows: u32) {
    // SAFETY: `radix` divides the size into columns, as asked for.
    unsafe {
        match radix {
            32 => first_of::<32>(buffer, rows),
            16 => first_of::<16>(buffer, rows),
            12 => first_to::<12, FromFirst>(buffer, buffer.size / 12, rows),
            _ => first_of::<8>(buffer, rows),
        }
    }
}

/// A first pass of radix `R`.
///
/// # Safety
/// - All threads of the block call it together, behind a barrier that follows the stores of the samples.
/// - The buffer has `rows` rows in the block's shared memory, of a multiple of `R` points.
#[inline(always)]
unsafe fn first_of<const R: usize>(buffer: SharedBuffer, rows: u32) {
    // Positions of points are known where these are.
    // SAFETY: `R` divides the size into columns, of which those of more than 16 points are a multiple of the pads.
    unsafe {
        match buffer.size / R as u32 {
            8 => first_to::<R, FromFirst>(buffer, 8, rows),
            64 => first_to::<R, FromFirst>(buffer, 64, rows),
            128 => first_to::<R, FromFirst>(buffer, 128, rows),
            columns if R > 16 => first_to::<R, FromPrevious>(buffer, columns, rows),
            columns => first_to::<R, FromFirst>(buffer, columns, rows),
        }
    }
}

/// How a pass finds the addresses of a butterfly's points: from that of the first point, unless it says otherwise.
trait Addressing {
    /// Distances are computed where they are used ([`opaque`]): the addresses of all points would fill the registers.
    const OPAQUE: bool = false;
    /// From the address of the point before, in a first pass, as the distances of 32 points too would fill the registers.
    /// Columns are a multiple of [`PAD`](crate::abi::channelise::PAD).
    const FROM_PREVIOUS: bool = false;
}

/// By distances that the compiler knows, or may compute ahead.
struct FromFirst;
/// [`Addressing::OPAQUE`].
struct Opaque;
/// [`Addressing::FROM_PREVIOUS`].
struct FromPrevious;

impl Addressing for FromFirst {}

impl Addressing for Opaque {
    const OPAQUE: bool = true;
}

impl Addressing for FromPrevious {
    const FROM_PREVIOUS: bool = true;
}

/// A first pass of radix `R` that leaves `columns` columns.
///
/// # Safety
/// - All threads of the block call it together, behind a barrier that follows the stores of the samples.
/// - The buffer has `rows` rows in the block's shared memory, of `R * columns` points.
#[inline(always)]
unsafe fn first_to<const R: usize, A: Addressing>(buffer: SharedBuffer, columns: u32, rows: u32) {
    let mine = ThreadButterflies::of(columns);
    let mut column = mine.first;
    while column < columns {
        let mut row = mine.first_row;
        while row < rows {
            let first = buffer.start(row, column);
            let next = |place: u32, index: usize| match A::FROM_PREVIOUS {
                true => opaque(place + point_offset(columns)),
                false => first + point_offset(index as u32 * columns),
            };
            let mut points = [[0.0_f32; 2]; R];
            // SAFETY: the points of a column of a row, which this thread alone takes.
            unsafe {
                let mut place = first;
                each!(index < R, of 32 {
                    if index > 0 {
                        place = next(place, index);
                    }
                    points[index] = load_point(place);
                });
                samples_to_bins(&mut points);
                let mut place = first;
                each!(index < R, of 32 {
                    if index > 0 {
                        place = next(place, index);
                    }
                    store_point(place, points[index]);
                });
            }
            row += mine.row_step;
        }
        column += mine.step;
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
/// - All threads of the block call it together, with the same arguments, in a launch that keeps the conditions of
///   [`Channelise`]: `p.table` has the twiddles of all spans up to `p.size`.
/// - Both buffers have rows `merge.row` to `merge.row + merge.rows`, of `merge.size` points. In `to` they are the block's
///   alone; those of `from` are stored: before a barrier of the block, by a kernel that has ended, or, where
///   `merge.wait`, before the barrier of this call.
/// - `radix` is a power of two up to 16, and columns of `merge.span` are at least as many as it merges.
#[inline(always)]
pub unsafe fn pass(p: &Channelise, radix: u32, merge: Merge, from: impl Buffer, to: impl Buffer) {
    // SAFETY: as asked for, of each radix.
    unsafe {
        match radix {
            2 => pass_of::<2>(p, merge, from, to),
            4 => pass_of::<4>(p, merge, from, to),
            8 => pass_of::<8>(p, merge, from, to),
            _ => pass_of::<16>(p, merge, from, to),
        }
    }
}

/// A pass of radix `R`.
///
/// # Safety
/// - All that [`pass`] asks for, of radix `R`.
#[inline(always)]
unsafe fn pass_of<const R: usize>(
    p: &Channelise,
    merge: Merge,
    from: impl Buffer,
    to: impl Buffer,
) {
    // Columns that are made, a power of two: the first pass took the three. Before the last pass they are
    // as many as it merges.
    let columns = power(merge.size << merge.parts.trailing_zeros(), merge.span * R as u32);
    // SAFETY: as many columns as the pass leaves.
    unsafe {
        if columns == LAST_RADIX {
            pass_to::<R, FromFirst>(p, merge, LAST_RADIX, from, to);
        } else {
            pass_to::<R, Opaque>(p, merge, columns, from, to);
        }
    }
}

/// A pass of radix `R` that leaves `columns` columns.
///
/// # Safety
/// - All that [`pass`] asks for, of radix `R`.
/// - `columns`, a power of two, is the number of columns of `merge.span * R` points.
#[inline(always)]
unsafe fn pass_to<const R: usize, A: Addressing>(
    p: &Channelise,
    merge: Merge,
    columns: u32,
    from: impl Buffer,
    to: impl Buffer,
) {
    let Merge { size, span, .. } = merge;
    // The first of the bins of a column that a row has.
    let first = if merge.parts == 1 { 0 } else { merge.part * power(span, merge.parts) };
    let shift = columns.trailing_zeros();
    let butterflies_of_row = size / R as u32;
    let mine = ThreadButterflies::of(butterflies_of_row);
    let mut item = mine.first;
    // SAFETY: a position of the span's.
    let of = |item: u32| unsafe { twiddles::<R>(p, span, first + (item >> shift)) };
    // On their way while the block waits.
    let mut twiddles = of(if item < butterflies_of_row { item } else { 0 });
    if merge.wait {
        barrier();
    }
    while item < butterflies_of_row {
        let base = (item >> shift) * R as u32 * columns + (item & (columns - 1));
        // SAFETY: points of a row, which this thread alone loads and stores.
        unsafe {
            let mut row = mine.first_row;
            while row < merge.rows {
                let columns = if A::OPAQUE { opaque(columns) } else { columns };
                let mut points = [[0.0_f32; 2]; R];
                let start = from.start(merge.row + row, base);
                each!(index < R, of 16 {
                    points[index] = from.load(start, index as u32 * columns);
                });
                butterflies(&mut points, &twiddles);
                let start = to.start(merge.row + row, base);
                each!(index < R, of 16 {
                    to.store(start, index as u32 * columns, points[index]);
                });
                row += mine.row_step;
            }
        }
        item += mine.step;
        if item < butterflies_of_row {
            twiddles = of(item);
        }
    }
}

/// The twiddles of a butterfly of `R` points of the bin at `position` of columns of `span`: those of the first
/// half of each level's positions that are even from `parts / 2` on, as the next position's is a quarter of a cycle on.
///
/// # Safety
/// - `p.table` has the twiddles of spans from `span` to `span * R / 2`, in device memory, written before the launch.
/// - `position` is below `span`.
#[inline(always)]
pub unsafe fn twiddles<const R: usize>(
    p: &Channelise,
    span: u32,
    position: u32,
) -> [Complex<f32>; R] {
    let mut twiddles = [[0.0_f32; 2]; R];
    each!(level < (R as u32).trailing_zeros() as usize, of 4 {
        let parts: usize = 1 << level;
        each!(part < parts.div_ceil(2), of 4 {
            let at = (position << level) + 2 * part as u32;
            // SAFETY: `at` is below `span << level`, whose twiddles the table has.
            twiddles[parts / 2 + part] = unsafe { load_twiddle(p, span << level, at) };
        });
    });
    twiddles
}

/// The levels of a pass, in place, by its [`twiddles`].
#[inline(always)]
pub fn butterflies<const R: usize>(points: &mut [Complex<f32>; R], twiddles: &[Complex<f32>; R]) {
    for level in 0..(R as u32).trailing_zeros() as usize {
        let (parts, half): (usize, usize) = (1 << level, R >> (level + 1));
        for part in 0..parts {
            let w = twiddles[parts / 2 + part / 2];
            let w = if part % 2 == 1 { [w[1], w[0].neg()] } else { w };
            for column in 0..half {
                let low = column + 2 * part * half;
                [points[low], points[low + half]] = butterfly(points[low], points[low + half], w);
            }
        }
    }
}
