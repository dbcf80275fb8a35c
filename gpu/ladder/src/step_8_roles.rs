//! Step 8: persistent blocks with roles.
//!
//! As many blocks as multiprocessors take one tile after another. One warpgroup does nothing but have panels copied, as soon
//! as a stage is empty, whatever tile they are of, and leaves its registers to two others, which multiply. No barrier of the
//! whole block is left: while the sums of a tile are written, the panels of the next one come.

use corrust_gpu::{
    isa::{
        common::{
            barrier, block, blocks, dp4a, dynamic_shared, lane, load_shared_2, load_shared_4,
            named_barrier, store_shared, thread,
        },
        sm_80::ldmatrix_x4,
        sm_90a::{
            copy_tensor_3d, descriptor, fence_barrier_init, give_registers, mbarrier_arrive,
            mbarrier_arrive_expect, mbarrier_init, mbarrier_wait, take_registers, wgmma_m64n128_s8,
        },
    },
    tile::panel,
};

use crate::{
    TIME_BYTES,
    common::{Arrays, IMAGINARY, Tile, rotate},
};

const SIDE: u32 = 128;
const STAGES: u32 = 4;
/// Bytes of a panel: 128 inputs.
const PANEL_BYTES: u32 = SIDE * TIME_BYTES;
/// Bytes of a stage: a panel of rows and one of columns.
const STAGE_BYTES: u32 = 2 * PANEL_BYTES;
/// Bytes behind the stages in which threads exchange sums; barriers are behind them.
const EXCHANGE_BYTES: u32 = 1024;
/// Threads that multiply.
const CONSUMERS: u32 = 256;

/// The whole correlator. Any number of blocks of 384 threads, which share `tiles` tiles of 128 x 128 baselines: two warpgroups
/// multiply 64 rows each, and one thread of the third loads.
///
/// # Safety
/// The arrays have the shapes that the crate's page says, `map` is a tensor map of the samples; blocks have the shared memory of
/// [`crate::HOPPER`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn roles(
    map: u64,
    visibilities: u64,
    inputs: u32,
    row_bytes: u32,
    tiles: u32,
) {
    let arrays = Arrays { samples: map, visibilities, inputs, row_bytes };
    let shared = dynamic_shared();
    if thread() == 0 {
        for stage in 0..STAGES {
            // SAFETY: nobody uses the barriers yet.
            unsafe {
                mbarrier_init(full(shared, stage), 1);
                mbarrier_init(empty(shared, stage), CONSUMERS);
            }
        }
        fence_barrier_init();
    }
    barrier();
    // SAFETY: the caller's promise; whole warps and warpgroups take each role.
    unsafe {
        if thread() < CONSUMERS {
            take_registers::<240>();
            consume(&arrays, shared, tiles);
        } else {
            give_registers::<24>();
            if thread() == CONSUMERS {
                produce(&arrays, shared, tiles);
            }
        }
    }
}

/// Has the panels of all steps of all tiles of this block copied, each into the next stage that is empty. One thread.
#[inline(always)]
unsafe fn produce(arrays: &Arrays, shared: u32, tiles: u32) {
    let (mut index, mut step) = (block(), 0);
    while index < tiles {
        let tile = arrays.tile_at(index, SIDE);
        let mut byte = 0;
        while byte < arrays.row_bytes {
            let (stage, lap) = (step % STAGES, step / STAGES);
            let (panels, full) = (shared + stage * STAGE_BYTES, full(shared, stage));
            // SAFETY: the stage is empty. In the first lap the phase before the first, of parity 1, has ended.
            unsafe {
                mbarrier_wait(empty(shared, stage), (lap + 1) % 2);
                mbarrier_arrive_expect(full, STAGE_BYTES);
                copy_tensor_3d(panels, arrays.samples, [byte, tile.row, tile.channel], full);
                let columns = [byte, tile.column, tile.channel];
                copy_tensor_3d(panels + PANEL_BYTES, arrays.samples, columns, full);
            }
            byte += TIME_BYTES;
            step += 1;
        }
        index += blocks();
    }
}

/// Multiplies all steps of all tiles of this block, and writes their visibilities. Two warpgroups.
#[inline(always)]
unsafe fn consume(arrays: &Arrays, shared: u32, tiles: u32) {
    let (mut index, mut step) = (block(), 0);
    while index < tiles {
        let mut sums = Sums::new();
        let mut byte = 0;
        while byte < arrays.row_bytes {
            let (stage, lap) = (step % STAGES, step / STAGES);
            // SAFETY: the stage is full behind the wait, and not read behind the arrival.
            unsafe {
                mbarrier_wait(full(shared, stage), lap % 2);
                sums.multiply(shared + stage * STAGE_BYTES);
                mbarrier_arrive(empty(shared, stage));
            }
            byte += TIME_BYTES;
            step += 1;
        }
        let tile = arrays.tile_at(index, SIDE);
        // SAFETY: each warp has its own baselines.
        unsafe { sums.store(arrays, &tile, shared + STAGES * STAGE_BYTES) };
        index += blocks();
    }
}

/// Address of the barrier that ends when a stage's panels have come.
#[inline(always)]
fn full(shared: u32, stage: u32) -> u32 {
    shared + STAGES * STAGE_BYTES + EXCHANGE_BYTES + 8 * stage
}

/// Address of the barrier that ends when a stage has been read.
#[inline(always)]
fn empty(shared: u32, stage: u32) -> u32 {
    full(shared, STAGES + stage)
}

/// Sums of a warp: 16 rows of its warpgroup's 64, and 128 columns.
struct Sums {
    real: [u32; 64],
    rotated: [u32; 64],
    /// Sum of the imaginary parts of column `thread % 128`, of this thread's half of each step.
    imaginary: i32,
}

impl Sums {
    #[inline(always)]
    fn new() -> Self {
        Self { real: [0; 64], rotated: [0; 64], imaginary: 0 }
    }

    /// First row of this warp in the tile.
    #[inline(always)]
    fn row() -> u32 {
        thread() / 32 * 16
    }

    /// Adds the products of a stage: a panel of rows, and one of columns behind it.
    ///
    /// # Safety
    /// The whole warpgroup calls it; the panels have come.
    #[inline(always)]
    unsafe fn multiply(&mut self, rows: u32) {
        let columns = rows + PANEL_BYTES;
        for half in 0..2 {
            let mut a = [[0; 4]; 2];
            for (k, a) in a.iter_mut().enumerate() {
                let chunk = 4 * half + 2 * k as u32;
                // SAFETY: the caller's promise.
                *a = unsafe { ldmatrix_x4(panel::ldmatrix_address(rows, Self::row(), chunk)) };
            }
            let rotated = a.map(|words| words.map(rotate));
            let b = descriptor(columns + 64 * half);
            // SAFETY: the caller's promise. The matrix units read the columns where they lie.
            unsafe { wgmma_m64n128_s8(&mut self.real, &mut self.rotated, a, rotated, b) };
        }
        for chunk in 0..4 {
            let at = panel::offset(thread() % 128, thread() / 128 * 4 + chunk);
            // SAFETY: the caller's promise.
            let words = unsafe { load_shared_4(columns + at) };
            for word in words {
                self.imaginary = dp4a(word, IMAGINARY, self.imaginary);
            }
        }
    }

    /// Writes the visibilities. `exchange` is the address of 256 words of shared memory.
    ///
    /// # Safety
    /// All 256 threads that multiply call it.
    #[inline(always)]
    unsafe fn store(&self, arrays: &Arrays, tile: &Tile, exchange: u32) {
        // Each thread has half of the sum of one column, and needs the sums of 32.
        // SAFETY: each thread has a word of its own.
        unsafe { store_shared(exchange + 4 * thread(), self.imaginary as u32) };
        named_barrier::<CONSUMERS>(1);
        for n in 0..16 {
            let column = 8 * n as u32 + lane() % 4 * 2;
            // SAFETY: all have stored theirs.
            let [first, second] = unsafe {
                [load_shared_2(exchange + 4 * column), load_shared_2(exchange + 512 + 4 * column)]
            };
            let of_column = [first[0] + second[0], first[1] + second[1]];
            for word in 0..4 {
                let i = tile.row + Self::row() + lane() / 4 + word as u32 / 2 * 8;
                let j = tile.column + column + word as u32 % 2;
                let imaginary = self.rotated[4 * n + word] + of_column[word % 2];
                let value = [self.real[4 * n + word] as i32, imaginary as i32];
                // SAFETY: each warp has its own baselines.
                unsafe { arrays.store(tile.channel, i, j, value) };
            }
        }
        // The words are free for the next tile.
        named_barrier::<CONSUMERS>(1);
    }
}
