//! Tiles of the warpgroup correlators: how blocks take them by ticket, in slices of time where that leaves fewer blocks
//! idle, and which visibilities belong to which warp.

use crate::{
    abi::correlate::{CorrelateWarpgroup, STEP_BYTES, WarpgroupTile, mode},
    correlate::{
        patch::{self, Corner},
        triangle::{self, TilePlace},
    },
    isa::common::{
        acquire_global, add_global, fence_gpu, fetch_add_global, lane, opaque, shfl, thread,
        warp_barrier,
    },
    tile::{divisor, pipeline::WARPGROUP},
};

/// Text that makes the register `b` the descriptor `$units` from the operand `{b}`
/// ([`descriptor_step`](crate::isa::sm_90a::descriptor_step)), whose high word is the constant `{descriptor_bits}`.
macro_rules! go_to_columns {
    ($units:literal) => {
        concat!(
            instruction!(add "next", {b}, $units),
            instruction!(mov_pair "b", "next", {descriptor_bits}),
        )
    };
}

/// Text that makes the register `$zero` zero, by way of `$scratch`, when the operands `{low}` and `{high}` are summed so
/// far. Where it is added to an address, the sums are made there: the assembler would otherwise put them all off to the
/// end, and hold every fragment till then. They are less than 2^30 in all.
macro_rules! zero_after_sums {
    ($zero:literal, $scratch:literal) => {
        concat!(
            instruction!(add $scratch, {low}, {high}),
            instruction!(add $scratch, $scratch, "0x40000000"),
            instruction!(shr $zero, $scratch, 31),
        )
    };
}

/// Origin of a tile: its channel and its first inputs.
#[derive(Clone, Copy)]
pub struct TileOrigin {
    /// Its channel.
    pub channel: u32,
    /// Its first row's input.
    pub first_row: u32,
    /// Its first column's input.
    pub first_column: u32,
}

impl TileOrigin {
    /// Tile `index` of all channels'.
    #[inline(always)]
    pub fn of(p: &CorrelateWarpgroup, shape: WarpgroupTile, index: u32) -> Self {
        let tiles = divisor(p.tiles);
        let index_of_channel = index % tiles;
        let (row, column) = if shape.rows == shape.columns {
            let TilePlace { row, column } = triangle::tile(index_of_channel);
            (row, column)
        } else {
            let (mut row, mut column) = (0, index_of_channel);
            loop {
                let across = shape.across(row, p.inputs);
                if column < across {
                    break (row, column);
                }
                column -= across;
                row += 1;
            }
        };
        Self {
            channel: index / tiles,
            first_row: row * shape.rows,
            first_column: column * shape.columns,
        }
    }

    /// Index of the tile's first row among its columns, if all rows are among them: near the diagonal.
    #[inline(always)]
    pub fn rows_among_columns(&self, shape: WarpgroupTile) -> Option<u32> {
        let row = self.first_row.wrapping_sub(self.first_column);
        if row <= shape.columns - shape.rows { Some(row) } else { None }
    }
}

/// Slice of a tile's times that a unit is ([`CorrelateWarpgroup`]).
#[derive(Clone, Copy)]
pub struct Slice {
    /// The tile.
    pub tile: u32,
    /// Which slice of the tile: the first writes its sums, the others add to them.
    pub index: u32,
    /// Its first byte of each input.
    pub first_byte: u32,
    /// The byte behind its last.
    pub end_byte: u32,
}

impl Slice {
    /// Slice that unit `unit` is; all times of a tile that is not cut.
    #[inline(always)]
    pub fn of(p: &CorrelateWarpgroup, unit: u32) -> Self {
        if unit < p.whole {
            return Self { tile: unit, index: 0, first_byte: 0, end_byte: p.row_bytes };
        }
        let (of_cut, cut) = (unit - p.whole, divisor(p.tiles * p.channels - p.whole));
        let index = of_cut / cut;
        let (first_byte, left) = (index * p.slice_bytes, p.row_bytes - index * p.slice_bytes);
        let end_byte = first_byte + if left < p.slice_bytes { left } else { p.slice_bytes };
        Self { tile: p.whole + of_cut % cut, index, first_byte, end_byte }
    }

    /// Steps of its times.
    #[inline(always)]
    pub fn steps(&self) -> u32 {
        (self.end_byte - self.first_byte).div_ceil(STEP_BYTES)
    }

    /// Use that its sums make of those in memory.
    #[inline(always)]
    pub fn mode(&self, p: &CorrelateWarpgroup) -> u32 {
        if self.index == 0 { p.mode } else { mode::ADD }
    }
}

/// Unit of a block's work: a tile, or a slice of its times.
#[derive(Clone, Copy)]
pub struct Unit {
    /// Origin of the tile.
    pub tile: TileOrigin,
    /// The slice.
    pub slice: Slice,
}

impl Unit {
    /// Unit `index`.
    #[inline(always)]
    pub fn of(p: &CorrelateWarpgroup, shape: WarpgroupTile, index: u32) -> Self {
        let slice = Slice::of(p, index);
        Self { tile: TileOrigin::of(p, shape, slice.tile), slice }
    }
}

/// Turns of a warp to write its 16 rows of a tile that is cut, whose slices other blocks have.
#[derive(Clone, Copy)]
pub struct Turns<'a> {
    /// The launch's parameters.
    pub p: &'a CorrelateWarpgroup,
    /// The warp, of those that multiply `rows` rows.
    pub warp: u32,
    /// Rows of a tile.
    pub rows: u32,
    /// Whether slices are to be added in their order; else the first is written before the others are added.
    pub in_order: bool,
}

impl Turns<'_> {
    /// Address of the number of slices of which the warp's rows were written.
    #[inline(always)]
    fn written(self, slice: &Slice) -> u64 {
        let word = (slice.tile - self.p.whole) * (self.rows / 16) + self.warp;
        self.p.turns + 4 * word as u64
    }

    /// Waits till the rows of those slices of the tile were written that must be before. They were taken before this one,
    /// so that their blocks run.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together.
    /// - `p.turns` is as [`CorrelateWarpgroup`] says, and the grid uses its words by this type alone.
    #[inline(always)]
    pub unsafe fn wait(self, slice: &Slice) {
        if slice.index == 0 {
            return;
        }
        let before = if self.in_order { slice.index } else { 1 };
        // SAFETY: an aligned word of the tile, which is cut, zero before the launch and changed atomically.
        while shfl(unsafe { acquire_global(self.written(slice)) }, 0) < before {}
        warp_barrier();
    }

    /// Counts this slice's rows as written, where others wait for it.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, once, when they have written or added the sums of their rows.
    /// - `p.turns` is as [`CorrelateWarpgroup`] says, and the grid uses its words by this type alone.
    #[inline(always)]
    pub unsafe fn pass(self, slice: &Slice) {
        if slice.tile < self.p.whole || slice.index > 0 && !self.in_order {
            return;
        }
        // One lane's fence is the warp's behind a barrier.
        warp_barrier();
        if opaque(lane()) == 0 {
            fence_gpu();
            // SAFETY: an aligned word of the tile, which is cut, changed atomically.
            unsafe { add_global(self.written(slice), 1) };
        }
    }
}

/// The next unit that no block has taken, by the one thread of the block that asks.
///
/// A launch takes one ticket for every unit and one more for every block, which tells it to stop:
/// the host knows the next launch's first.
///
/// # Safety
/// - One thread of the block calls it.
/// - `p.tickets` is a multiple of 4, the address of a word of device memory that was `p.first_ticket` before the
///   launch; until it has ended nobody else uses it.
#[inline(always)]
pub unsafe fn take_unit(p: &CorrelateWarpgroup) -> Option<u32> {
    // SAFETY: an aligned word that this launch alone adds to.
    unit_of(p, unsafe { fetch_add_global(p.tickets, 1) })
}

/// The next ticket, of which [`unit_of`] may be asked later, when it has come.
///
/// # Safety
/// - Thread 0 of the block calls it: what it adds is 1 there.
/// - `p.tickets` is a multiple of 4, the address of a word of device memory that was `p.first_ticket` before the
///   launch; until it has ended nobody else uses it.
#[inline(always)]
pub unsafe fn take_ticket(p: &CorrelateWarpgroup) -> u32 {
    // The assembler would have the lanes share an addition of 1, and wait for the ticket to be dealt out.
    // SAFETY: an aligned word that this launch alone adds to.
    unsafe { fetch_add_global(p.tickets, opaque(thread()) / WARPGROUP + 1) }
}

/// The unit of a ticket.
#[inline(always)]
pub fn unit_of(p: &CorrelateWarpgroup, ticket: u32) -> Option<u32> {
    let unit = ticket.wrapping_sub(p.first_ticket);
    if unit < p.units { Some(unit) } else { None }
}

/// Place of a warp's 16 rows of sums of a tile among the visibilities, which `mode` says how to use.
#[inline(always)]
pub fn corner(p: &CorrelateWarpgroup, tile: &TileOrigin, warp: u32, mode: u32) -> Corner {
    Corner {
        visibilities: p.visibilities + 8 * tile.channel as u64 * triangle::baselines(p.inputs),
        inputs: p.inputs,
        mode,
        row: tile.first_row + 16 * warp,
        column: tile.first_column,
    }
}

/// Writes a warp's 16 rows of sums of a tile to the visibilities, through its patch of shared memory:
/// [`patch::store`].
///
/// # Safety
/// - All 32 lanes of warp `warp` of those that multiply call it together.
/// - `patch` is a multiple of 16 and begins [`PATCH_BYTES`](crate::abi::correlate::PATCH_BYTES) of the block's shared
///   memory that nobody else uses meanwhile.
/// - `p.visibilities` is 8-byte aligned device memory, a pair of words for each baseline of each channel. No other
///   warp of the launch writes the baselines of these rows and columns.
/// - `COLUMNS` is a multiple of 32.
#[inline(always)]
pub unsafe fn store<const COLUMNS: usize>(
    p: &CorrelateWarpgroup,
    tile: &TileOrigin,
    warp: u32,
    patch: u32,
    value: impl Fn(usize) -> [u32; 2],
    add: impl Fn(u64, u32),
) {
    // SAFETY: the warp is whole, the patch its own, and the corner's rows and columns lie in its tile.
    unsafe { patch::store::<COLUMNS>(&corner(p, tile, warp, p.mode), patch, value, add) };
}
