//! Step 4: dot products of four bytes.
//!
//! `dp4a` multiplies four bytes by four and adds: two time samples of a real part at once. The imaginary part is a real part of
//! what `rotate` makes of the row; what that leaves out, the sum of the column's imaginary parts, is added once.

use corrust_gpu::isa::common::{
    barrier, dp4a, dynamic_shared, lane, load_shared_4, store_shared_4, thread,
};

use crate::{
    TIME_BYTES,
    common::{Arrays, IMAGINARY, rotate},
};

const SIDE: u32 = 32;

/// Place of a chunk of 16 bytes of an input's row in its panel, of eight.
#[inline(always)]
fn place(input: u32, chunk: u32) -> u32 {
    TIME_BYTES * input + 16 * (chunk ^ (input % 8))
}

/// The whole correlator. Blocks of 256 threads, a tile of 32 x 32 baselines: lanes are columns, and each warp has four rows.
///
/// # Safety
/// The arrays have the shapes that the crate's page says; blocks have 8192 bytes of dynamic shared memory.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dp4a_sums(
    samples: u64,
    visibilities: u64,
    inputs: u32,
    row_bytes: u32,
) {
    let arrays = Arrays { samples, visibilities, inputs, row_bytes };
    let tile = arrays.tile(SIDE);
    let rows = dynamic_shared();
    let columns = rows + SIDE * TIME_BYTES;
    let first_row = thread() / 32 * 4;
    let mut sums = [[0; 2]; 4];
    let mut imaginary = 0;
    let mut byte = 0;
    while byte < row_bytes {
        // Each thread brings 16 bytes of a row and 16 of a column.
        let (input, chunk) = (thread() / 8, thread() % 8);
        // SAFETY: chunks are of the arrays, their places in the panels.
        unsafe {
            let row = arrays.chunk(tile.channel, tile.row + input, byte + 16 * chunk);
            let column = arrays.chunk(tile.channel, tile.column + input, byte + 16 * chunk);
            store_shared_4(rows + place(input, chunk), row);
            store_shared_4(columns + place(input, chunk), column);
        }
        barrier();
        let mut chunk = 0;
        while chunk < TIME_BYTES / 16 {
            // SAFETY: the panels are written.
            unsafe {
                let b = load_shared_4(columns + place(lane(), chunk));
                for word in 0..4 {
                    imaginary = dp4a(b[word], IMAGINARY, imaginary);
                }
                for row in 0..4 {
                    let a = load_shared_4(rows + place(first_row + row as u32, chunk));
                    for word in 0..4 {
                        sums[row][0] = dp4a(a[word], b[word], sums[row][0]);
                        sums[row][1] = dp4a(rotate(a[word]), b[word], sums[row][1]);
                    }
                }
            }
            chunk += 1;
        }
        // The panels are free again.
        barrier();
        byte += TIME_BYTES;
    }
    for row in 0..4 {
        let [real, rotated] = sums[row];
        // SAFETY: the baseline is this thread's.
        unsafe {
            arrays.store(
                tile.channel,
                tile.row + first_row + row as u32,
                tile.column + lane(),
                [real, rotated + imaginary],
            )
        };
    }
}
