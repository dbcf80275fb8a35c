//! Tiles of the warpgroup correlators: how blocks take them by ticket, and which visibilities belong to which warp.

use crate::{
    abi::correlate::{CorrelateWarpgroup, WarpgroupTile},
    correlate::{
        patch::{self, Corner},
        triangle::{self, TilePlace},
    },
    isa::common::{fetch_add_global, opaque, thread},
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

/// The next tile that no block has taken, by the one thread of the block that asks.
///
/// A launch takes one ticket for every tile and one more for every block, which tells it to stop:
/// the host knows the next launch's first.
///
/// # Safety
/// - One thread of the block calls it.
/// - `p.tickets` is a multiple of 4, the address of a word of device memory that was `p.first_ticket` before the
///   launch; until it has ended nobody else uses it.
#[inline(always)]
pub unsafe fn take_tile(p: &CorrelateWarpgroup) -> Option<u32> {
    // SAFETY: an aligned word that this launch alone adds to.
    tile_of(p, unsafe { fetch_add_global(p.tickets, 1) })
}

/// The next ticket, of which [`tile_of`] may be asked later, when it has come.
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

/// The tile of a ticket.
#[inline(always)]
pub fn tile_of(p: &CorrelateWarpgroup, ticket: u32) -> Option<u32> {
    let tile = ticket.wrapping_sub(p.first_ticket);
    if tile < p.tiles * p.channels { Some(tile) } else { None }
}

/// Place of a warp's 16 rows of sums of a tile among the visibilities.
#[inline(always)]
pub fn corner(p: &CorrelateWarpgroup, tile: &TileOrigin, warp: u32) -> Corner {
    Corner {
        visibilities: p.visibilities + 8 * tile.channel as u64 * triangle::baselines(p.inputs),
        inputs: p.inputs,
        mode: p.mode,
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
    unsafe { patch::store::<COLUMNS>(&corner(p, tile, warp), patch, value, add) };
}
