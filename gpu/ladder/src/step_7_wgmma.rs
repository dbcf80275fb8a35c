//! Step 7: matrix units of a warpgroup, and copies by the memory accelerator.
//!
//! `wgmma` multiplies 64 rows by 128 columns, by the 128 threads of a warpgroup together; the matrix units read the columns from
//! shared memory by themselves. One thread has TMA copy whole panels, swizzled as in step 5, with zeros in place of inputs
//! and times that are none. An mbarrier says when the bytes have come.

use corrust_gpu::{
    isa::{
        common::{
            barrier, dp4a, dynamic_shared, lane, load_shared_2, load_shared_4, store_shared, thread,
        },
        sm_80::ldmatrix_x4,
        sm_90a::{
            copy_tensor_3d, descriptor, fence_barrier_init, mbarrier_arrive_expect, mbarrier_init,
            mbarrier_wait, wgmma_m64n128_s8,
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

/// The whole correlator. Blocks of 256 threads, a tile of 128 x 128 baselines: each of the two warpgroups has 64 rows.
///
/// # Safety
/// The arrays have the shapes that the crate's page says, `map` is a tensor map of the samples; blocks have the shared memory of
/// [`crate::HOPPER`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn wgmma(map: u64, visibilities: u64, inputs: u32, row_bytes: u32) {
    let arrays = Arrays { samples: map, visibilities, inputs, row_bytes };
    let tile = arrays.tile(SIDE);
    let shared = dynamic_shared();
    let steps = row_bytes.div_ceil(TIME_BYTES);
    let exchange = shared + STAGES * STAGE_BYTES;
    if thread() == 0 {
        for stage in 0..STAGES {
            // SAFETY: nobody uses the barriers yet. Each waits for one arrival and the bytes that it announces.
            unsafe { mbarrier_init(full(shared, stage), 1) };
        }
        fence_barrier_init();
        let mut step = 0;
        while step < STAGES && step < steps {
            // SAFETY: the stage is free.
            unsafe { bring(map, &tile, shared, step) };
            step += 1;
        }
    }
    barrier();
    let mut sums = Sums::new();
    let mut step = 0;
    while step < steps {
        let stage = step % STAGES;
        // SAFETY: the parity belongs to the current lap through the stages.
        unsafe {
            mbarrier_wait(full(shared, stage), step / STAGES % 2);
            sums.multiply(shared + stage * STAGE_BYTES);
        }
        // Nobody reads the stage any more: it takes the panels of a later step.
        barrier();
        if thread() == 0 && step + STAGES < steps {
            // SAFETY: the stage is free.
            unsafe { bring(map, &tile, shared, step + STAGES) };
        }
        step += 1;
    }
    // SAFETY: each warp has its own baselines.
    unsafe { sums.store(&arrays, &tile, exchange) };
}

/// Address of the barrier that ends when a stage's panels have come.
#[inline(always)]
fn full(shared: u32, stage: u32) -> u32 {
    shared + STAGES * STAGE_BYTES + EXCHANGE_BYTES + 8 * stage
}

/// Has both panels of a step copied to its stage. One thread.
///
/// # Safety
/// Nobody reads the stage.
#[inline(always)]
unsafe fn bring(map: u64, tile: &Tile, shared: u32, step: u32) {
    let stage = step % STAGES;
    let (panels, full) = (shared + stage * STAGE_BYTES, full(shared, stage));
    let byte = step * TIME_BYTES;
    // SAFETY: the caller's promise.
    unsafe {
        mbarrier_arrive_expect(full, STAGE_BYTES);
        copy_tensor_3d(panels, map, [byte, tile.row, tile.channel], full);
        copy_tensor_3d(panels + PANEL_BYTES, map, [byte, tile.column, tile.channel], full);
    }
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
        barrier();
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
    }
}
