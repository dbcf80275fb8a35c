//! A warp's tiles of sums in shared memory, where the diagonals of its Gram matrices can be added up.

use crate::{
    isa::common::{lane, load_shared, store_shared_2},
    tile::fragment,
};

/// Words of 32 bits of a tile: 16 rows by 8 columns.
const TILE_WORDS: u32 = 16 * 8;

/// `TILES` tiles in shared memory.
#[derive(Clone, Copy)]
pub struct Gram<const TILES: usize> {
    /// Address of the first.
    pub address: u32,
}

impl<const TILES: usize> Gram<TILES> {
    /// Bytes of shared memory.
    pub const BYTES: u32 = 4 * TILE_WORDS * TILES as u32;

    #[inline(always)]
    fn word(self, tile: u32, row: u32, column: u32) -> u32 {
        self.address + 4 * (tile * TILE_WORDS + row * 8 + column)
    }

    /// Stores a warp's sums.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together.
    /// - The tiles lie in the block's shared memory, at a multiple of 8, and are the warp's alone.
    #[inline(always)]
    pub unsafe fn store(self, sums: &[[u32; 4]; TILES]) {
        for tile in 0..TILES {
            for half in 0..2 {
                let place = fragment::accumulator(lane(), 2 * half as u32);
                let pair = [sums[tile][2 * half], sums[tile][2 * half + 1]];
                // SAFETY: a pair of the lane's own places.
                unsafe { store_shared_2(self.word(tile as u32, place.row, place.column), pair) };
            }
        }
    }

    /// A sum.
    ///
    /// # Safety
    /// - The tiles lie in the block's shared memory; `tile` is below `TILES`, `row` and `column` are of a tile.
    /// - They were [stored](Self::store), and a barrier of the warp stands between that and this call.
    #[inline(always)]
    pub unsafe fn load(self, tile: u32, row: u32, column: u32) -> u32 {
        // SAFETY: a word that was stored.
        unsafe { load_shared(self.word(tile, row, column)) }
    }
}
