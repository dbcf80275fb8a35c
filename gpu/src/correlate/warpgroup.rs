//! What the warpgroup correlators share: tiles taken by ticket, the ring of stages, and which visibilities
//! are whose.

use core::ops::ControlFlow::{self, Break, Continue};

use crate::{
    abi::correlate::{CorrelateWarpgroup, WarpgroupTile},
    correlate::{
        patch::{self, Corner},
        triangle::{self, TilePlace},
    },
    isa::{
        common::{fetch_add_global, load_shared, opaque, shfl, store_shared, thread},
        sm_90a::mbarrier_wait,
    },
    tile::divisor,
};

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;

/// A tile of one channel.
#[derive(Clone, Copy)]
pub struct Place {
    /// Its channel.
    pub channel: u32,
    /// Its first row's input.
    pub first_row: u32,
    /// Its first column's input.
    pub first_column: u32,
}

impl Place {
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

    /// Where the tile's rows are among its columns, if all are: near the diagonal.
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
/// The launch is the only one that uses the counter now.
#[inline(always)]
pub unsafe fn take_tile(p: &CorrelateWarpgroup) -> Option<u32> {
    // SAFETY: the caller's promise.
    tile_of(p, unsafe { fetch_add_global(p.tickets, 1) })
}

/// The next ticket, of which [`tile_of`] may be asked later, when it has come.
///
/// # Safety
/// As [`take_tile`]'s.
#[inline(always)]
pub unsafe fn take_ticket(p: &CorrelateWarpgroup) -> u32 {
    // The assembler would have the lanes share an addition of 1, and wait for the ticket to be dealt out.
    // SAFETY: the caller's promise.
    unsafe { fetch_add_global(p.tickets, opaque(thread()) / WARPGROUP + 1) }
}

/// The tile of a ticket.
#[inline(always)]
pub fn tile_of(p: &CorrelateWarpgroup, ticket: u32) -> Option<u32> {
    let tile = ticket.wrapping_sub(p.first_ticket);
    if tile < p.tiles * p.channels { Some(tile) } else { None }
}

/// Position in the ring of stages, and the parity of the turn.
pub struct Ring {
    /// The stage.
    pub stage: u32,
    /// Parity of the phase that its barriers end next.
    pub parity: u32,
}

impl Ring {
    /// The first stage, in the first turn.
    pub const START: Self = Self { stage: 0, parity: 0 };

    /// Goes on to the next of so many stages.
    #[inline(always)]
    pub fn advance(&mut self, stages: u32) {
        self.stage += 1;
        if self.stage == stages {
            self.stage = 0;
            self.parity ^= 1;
        }
    }
}

/// What stands in a tile's first stage beside its samples: which tile it is. No tile: the end.
const END: u32 = u32::MAX;

/// Says in a stage whose tile begins there; `None` ends the block's work.
///
/// # Safety
/// `at` is the stage's word, which all have read; the stage's barrier follows.
#[inline(always)]
pub unsafe fn announce(at: u32, tile: Option<u32>) {
    let tile = match tile {
        Some(tile) => tile,
        None => END,
    };
    // SAFETY: the caller's promise.
    unsafe { store_shared(at, tile) };
}

/// Waits for the stage that a tile begins in, and reads which one it is.
///
/// # Safety
/// The whole warp calls it; `full` is the stage's barrier, `at` its word.
#[inline(always)]
pub unsafe fn hear(full: u32, parity: u32, at: u32) -> ControlFlow<(), u32> {
    // SAFETY: the caller's promise.
    let tile = unsafe {
        mbarrier_wait(full, parity);
        // From one lane, so that the assembler knows that it is the same in all.
        shfl(load_shared(at), 0)
    };
    if tile == END { Break(()) } else { Continue(tile) }
}

/// Where a warp's 16 rows of sums of a tile belong.
#[inline(always)]
pub fn corner(p: &CorrelateWarpgroup, tile: &Place, warp: u32) -> Corner {
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
/// As [`patch::store`]'s.
#[inline(always)]
pub unsafe fn store<const COLUMNS: usize>(
    p: &CorrelateWarpgroup,
    tile: &Place,
    warp: u32,
    patch: u32,
    value: impl Fn(usize) -> [u32; 2],
    add: impl Fn(u32, u32) -> u32,
) {
    // SAFETY: the caller's promise.
    unsafe { patch::store::<COLUMNS>(&corner(p, tile, warp), patch, value, add) };
}
