//! Step 1: plain loops. A thread takes a baseline and reads both rows from global memory.

use corrust_gpu::isa::common::{load_global_16, thread};

use crate::common::{Arrays, multiply};

const SIDE: u32 = 16;

/// The whole correlator. Blocks of 256 threads: a tile of 16 x 16 baselines.
///
/// # Safety
/// The arrays have the shapes that the crate's page says.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn plain(
    samples: u64,
    visibilities: u64,
    inputs: u32,
    row_bytes: u32,
) {
    let arrays = Arrays { samples, visibilities, inputs, row_bytes };
    let tile = arrays.tile(SIDE);
    let i = tile.row + thread() / SIDE;
    let j = tile.column + thread() % SIDE;
    if i >= inputs || j > i {
        return;
    }
    let (x, y) = (arrays.row(tile.channel, i), arrays.row(tile.channel, j));
    let mut sum = [0; 2];
    let mut byte = 0;
    while byte < row_bytes {
        // SAFETY: both rows have `row_bytes` bytes.
        unsafe {
            let a = load_global_16(x + byte as u64);
            let b = load_global_16(y + byte as u64);
            multiply(&mut sum, a, b);
        }
        byte += 2;
    }
    // SAFETY: the baseline is this thread's.
    unsafe { arrays.store(tile.channel, i, j, sum) };
}
