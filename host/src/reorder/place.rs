//! Payloads of packets brought to their places on a GPU, from host memory that it reads.

pub use corrust_gpu::abi::reorder::PayloadPiece;
use corrust_gpu::abi::reorder::{PIECE_BYTES, PLACE, PlacePayloads};

use super::prepared::Prepared;

/// Most bytes of a [`PayloadPiece`].
pub const MOST_BYTES: usize = PIECE_BYTES as usize;

/// Pieces of payloads `[channel][time][part]` of 2-byte samples, which become rows `[channel][input][time]`, an input for
/// each part.
#[derive(Clone, Copy, Debug)]
pub struct ToPlaces {
    /// Device address of the [`PayloadPiece`]s, 8-byte aligned.
    pub pieces: u64,
    /// Number of them.
    pub count: u32,
    /// Bytes from one row to the next.
    pub row: u64,
    /// Rows of a channel.
    pub inputs: u32,
    /// Times of a payload.
    pub times: u32,
    /// Parts of a time.
    pub parts: u32,
}

impl ToPlaces {
    /// The kernel that brings them there.
    pub fn kernel(&self) -> Prepared<PlacePayloads> {
        /// Most blocks: each takes pieces in turn.
        const BLOCKS: u32 = 1 << 12;
        let Self { pieces, count, row, inputs, times, parts } = *self;
        Prepared {
            kernel: PLACE,
            blocks: count.min(BLOCKS),
            parameters: PlacePayloads { pieces, row, count, inputs, times, parts },
            strip: None,
        }
    }
}
