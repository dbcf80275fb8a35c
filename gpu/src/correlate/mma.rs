//! The tensor-core correlator on `mma.sync` (sm_80 and later).
//!
//! ```text
//! a  = ( re,  im, ...)    of a row, b = (re', im', ...) of a column
//! b* = (-im', re', ...)   its turn, made in registers from the fragment of b
//! a . b  = sum re re' + im im' = real part
//! a . b* = sum im re' - re im' = imaginary part
//! ```
//!
//! Integers of `n` bits cannot hold the negation of `-2^(n-1)`: the complement `~x = -x - 1` stands for
//! it, and what that adds to an imaginary part, the sum of its row's real parts, is taken out again at
//! the end: exact for every sample.
//!
//! A block computes a square tile of baselines of one channel in the lower triangle, of which each warp
//! has a part; on the diagonal, warps leave out rows that lie above all their columns. Panels of 128 bytes
//! of time are copied asynchronously, `stages` deep, a part in each chunk of a step: four of 32 bytes.
//! Fragments of rows are loaded two ahead, across steps too, and columns before the chunk that needs
//! them. The sums of real parts are products with a column of ones, of 16 rows a warp, as every warp needs
//! those of its rows only at the end. Visibilities go through shared memory ([`patch`]).
//!
//! Bound by the tensor cores, on Hopper together with the integer units, which `mma.sync` does not leave
//! free: so registers are loaded in the pairs that `mma` wants, and instructions beside it are few. Of a
//! step of a 64 x 32 part, 132 of about 290 are `mma`, 28 `ldmatrix` and 64 make `b*`.
//!
//! Tried and lost on an H200 (docs/performance.md): parts of 128 x 16, which need half the instructions for
//! `b*` and a third more `ldmatrix`; the addresses of copies kept in registers.

use crate::{
    abi::correlate::{Correlate, PATCH_BYTES, PATCH_COLUMNS, STEP_BYTES, TILE_64, TILE_128, Tile},
    correlate::{
        patch::{self, Corner},
        samples::{Half, Int8, Nibbles, Samples},
        triangle,
    },
    isa::{
        common::{barrier, block, dynamic_shared, lane, load_shared, opaque, store_shared, thread},
        sm_80::{
            cp_async_16, cp_async_commit, cp_async_wait, cp_async_whole_16, ldmatrix_x4,
            mma_m16n8k16_f16, mma_m16n8k32_s8, mma_m16n8k64_s4,
        },
    },
    tile::{divisor, panel},
};

/// Straight code for fragments `m` of rows: a loop over them may stay one, and an index known only at run
/// time would put sums into local memory.
macro_rules! each_fragment {
    ($m:ident < $rows:expr, $body:block) => {
        each_fragment!(@ $m, $rows, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $m:ident, $rows:expr, $body:block, $($number:literal)*) => {$(
        {
            let $m: usize = $number;
            if $m < $rows $body
        }
    )*};
}

/// Bytes of 16 rows of a panel.
const FRAGMENT: u32 = 16 * STEP_BYTES;

/// A sample type on `mma.sync`.
trait Multiply: Samples {
    /// `d += a * b`.
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]);
}

impl Multiply for Int8 {
    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k32_s8(d, a, b);
    }
}

impl<const OFFSET: bool> Multiply for Nibbles<OFFSET> {
    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k64_s4(d, a, b);
    }
}

impl Multiply for Half {
    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k16_f16(d, a, b);
    }
}

/// Sums of one warp: `ROWS` fragments of 16 rows by `PAIRS` pairs of fragments of 8 columns.
struct Sums<const ROWS: usize, const PAIRS: usize> {
    real: [[[[u32; 4]; 2]; PAIRS]; ROWS],
    imaginary: [[[[u32; 4]; 2]; PAIRS]; ROWS],
    /// Sums of the real parts of 16 rows, in every column.
    row: [u32; 4],
}

/// Columns of a warp: what `ldmatrix` loads of 32 bytes.
type Columns<const PAIRS: usize> = [[u32; 4]; PAIRS];

impl<const ROWS: usize, const PAIRS: usize> Sums<ROWS, PAIRS> {
    /// Adds the products of fragment `m` of the rows with columns and their turns.
    #[inline(always)]
    fn add<S: Multiply>(
        &mut self,
        m: usize,
        a: [u32; 4],
        columns: &Columns<PAIRS>,
        turned: &Columns<PAIRS>,
    ) {
        for n in 0..PAIRS {
            let (b, turned) = (columns[n], turned[n]);
            for half in 0..2 {
                let words = |c: [u32; 4]| [c[2 * half], c[2 * half + 1]];
                S::multiply(&mut self.real[m][n][half], a, words(b));
                S::multiply(&mut self.imaginary[m][n][half], a, words(turned));
            }
        }
    }
}

/// Chunks of a panel that a thread copies, one in each chunk of a step that it multiplies.
const PARTS: u32 = 4;

/// The panels of a block, in the order of its steps of time.
struct Panels {
    p: Correlate,
    shape: Tile,
    /// Address of the tile's first chunks of rows and of columns that this thread copies.
    sources: [u64; 2],
    /// Inputs from those to the last of the array.
    inputs: [u32; 2],
    /// On the diagonal, rows and columns are the same inputs: one panel serves both.
    diagonal: bool,
}

impl Panels {
    /// The slot after `slot`, both as distances from the first.
    #[inline(always)]
    fn after(&self, slot: u32) -> u32 {
        let next = slot + 2 * self.shape.panel_bytes();
        if next == self.shape.shared_bytes() { 0 } else { next }
    }

    /// Distance from the rows' panel of a slot to the columns'.
    #[inline(always)]
    fn columns(&self) -> u32 {
        if self.diagonal { 0 } else { self.shape.panel_bytes() }
    }

    /// Where this thread's chunk `part` of a side of a step goes in `slot`, and where it comes from. Rows
    /// beyond the last input are the last's, as no visibility is made of them.
    #[inline(always)]
    fn chunk(&self, step: u32, slot: u32, side: usize, part: u32) -> (u32, u64) {
        let (row, chunk) = (thread() / panel::CHUNKS, thread() % panel::CHUNKS);
        let to = dynamic_shared() + slot + panel::offset(row, chunk);
        // A multiple of eight rows further, chunks lie at the same places.
        let below = part * (self.shape.inputs / PARTS);
        let input = if below < self.inputs[side] { below } else { self.inputs[side] };
        let to = to + side as u32 * self.shape.panel_bytes() + below * STEP_BYTES;
        let from = self.sources[side] + (step * STEP_BYTES) as u64;
        (to, from + input as u64 * self.p.row_stride)
    }

    /// Starts copying chunk `part` of rows and columns of a step that is whole.
    ///
    /// # Safety
    /// The slot was read by all; the samples are readable.
    #[inline(always)]
    unsafe fn copy_part(&self, step: u32, slot: u32, part: u32) {
        for side in 0..2 {
            if side == 0 || !self.diagonal {
                let (to, from) = self.chunk(step, slot, side, part);
                // SAFETY: within the panel; an existing input's bytes, none beyond its last.
                unsafe { cp_async_whole_16(to, from) };
            }
        }
    }

    /// Starts copying all chunks of a step, if there is such a step. What lies beyond the last time becomes
    /// zero.
    ///
    /// # Safety
    /// As for [`copy_part`](Self::copy_part).
    #[inline(always)]
    unsafe fn copy(&self, step: u32, slot: u32) {
        let byte = step * STEP_BYTES + thread() % panel::CHUNKS * panel::CHUNK;
        let left = self.p.row_bytes.saturating_sub(byte);
        let bytes = if left < panel::CHUNK { left } else { panel::CHUNK };
        let mut part = 0;
        while step * STEP_BYTES < self.p.row_bytes && part < opaque(PARTS) {
            for side in 0..2 {
                let (to, from) = self.chunk(step, slot, side, part);
                // What is not read still needs an address inside the samples.
                let from = if bytes == 0 { self.p.samples } else { from };
                // SAFETY: as above.
                unsafe { cp_async_16(to, from, bytes) };
            }
            part += 1;
        }
    }
}

/// What a warp does in its tile.
struct Part {
    /// First of its rows and of its columns in the tile.
    row: u32,
    column: u32,
    /// Fragments of rows that it multiplies.
    first: u32,
    end: u32,
}

/// What a warp has at hand, and where it stands.
struct Walk<const ROWS: usize, const PAIRS: usize> {
    sums: Sums<ROWS, PAIRS>,
    /// The next fragments of rows with an even and with an odd number.
    rows: [[u32; 4]; 2],
    columns: Columns<PAIRS>,
    step: u32,
    /// The slot of the step, and that of the one before.
    slot: u32,
    free: u32,
}

impl Part {
    /// The sums over all steps. `WHOLE` tiles have rows and columns apart, and all of them.
    ///
    /// # Safety
    /// All threads of the block call it with the same `WHOLE`; the samples are readable.
    #[inline(always)]
    unsafe fn multiply<
        S: Multiply,
        const ROWS: usize,
        const PAIRS: usize,
        const WHOLE: bool,
        const PENDING: u32,
    >(
        &self,
        panels: &Panels,
    ) -> Sums<ROWS, PAIRS> {
        let p = &panels.p;
        let steps = p.row_bytes.div_ceil(STEP_BYTES);
        let ahead = panels.shape.stages - 1;
        let zero = [[[[0; 4]; 2]; PAIRS]; ROWS];
        let start = [[[[S::start(steps * STEP_BYTES - p.row_bytes); 4]; 2]; PAIRS]; ROWS];
        let sums = Sums { real: start, imaginary: zero, row: [0; 4] };
        let free = ahead * 2 * panels.shape.panel_bytes();
        let (rows, columns) = ([[0; 4]; 2], [[0; 4]; PAIRS]);
        let mut walk = Walk { sums, rows, columns, step: 0, slot: 0, free };
        // SAFETY: a slot is read after it was waited for, and copied to after all have read it.
        unsafe {
            let (mut step, mut slot) = (0, 0);
            while step < opaque(ahead) {
                panels.copy(step, slot);
                cp_async_commit();
                slot = panels.after(slot);
                step += 1;
            }
            cp_async_wait::<PENDING>();
            barrier();
            self.load::<S, ROWS, PAIRS>(panels, &mut walk, 0, 0);
            // As long as what is copied meanwhile is whole, and then the rest.
            let whole = (p.row_bytes / STEP_BYTES).saturating_sub(ahead);
            self.steps::<S, ROWS, PAIRS, WHOLE, true, PENDING>(panels, &mut walk, whole);
            self.steps::<S, ROWS, PAIRS, WHOLE, false, PENDING>(panels, &mut walk, steps);
        }
        walk.sums
    }

    /// Fragment `m` of the rows that begin at `row`.
    ///
    /// # Safety
    /// The whole warp calls it; the slot is complete.
    #[inline(always)]
    unsafe fn load_rows<S: Multiply>(row: u32, slot: u32, chunk: u32, m: u32) -> [u32; 4] {
        let place = panel::ldmatrix_address(dynamic_shared(), row, 0);
        // Even chunks of a row lie where chunk 0 does, but for bits 5 and 6.
        let at = (place + slot) ^ (2 * chunk * panel::CHUNK);
        // SAFETY: the caller's promise.
        unsafe { ldmatrix_x4(at + m * FRAGMENT).map(S::value) }
    }

    /// The part's columns.
    ///
    /// # Safety
    /// As for [`load_rows`](Self::load_rows).
    #[inline(always)]
    unsafe fn load_columns<S: Multiply, const PAIRS: usize>(
        &self,
        panels: &Panels,
        slot: u32,
        chunk: u32,
    ) -> Columns<PAIRS> {
        let place = panel::ldmatrix_columns(dynamic_shared(), self.column, 0) + panels.columns();
        let at = (place + slot) ^ (2 * chunk * panel::CHUNK);
        let mut columns = [[0; 4]; PAIRS];
        for n in 0..PAIRS {
            // SAFETY: the caller's promise.
            columns[n] = unsafe { ldmatrix_x4(at + n as u32 * FRAGMENT).map(S::value) };
        }
        columns
    }

    /// Loads what a chunk begins with.
    ///
    /// # Safety
    /// As for [`load_rows`](Self::load_rows).
    #[inline(always)]
    unsafe fn load<S: Multiply, const ROWS: usize, const PAIRS: usize>(
        &self,
        panels: &Panels,
        walk: &mut Walk<ROWS, PAIRS>,
        slot: u32,
        chunk: u32,
    ) {
        let last = ROWS as u32 - 1;
        for (odd, rows) in walk.rows.iter_mut().enumerate() {
            let first = if odd == 1 { self.first | 1 } else { self.first.next_multiple_of(2) };
            let first = if first < last { first } else { last };
            // SAFETY: the caller's promise.
            *rows = unsafe { Self::load_rows::<S>(self.row, slot, chunk, first) };
        }
        // SAFETY: as above.
        walk.columns = unsafe { self.load_columns::<S, PAIRS>(panels, slot, chunk) };
    }

    /// The steps up to `end`, of which `HOT` ones copy a whole step meanwhile: without a branch.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply).
    #[inline(always)]
    unsafe fn steps<
        S: Multiply,
        const ROWS: usize,
        const PAIRS: usize,
        const WHOLE: bool,
        const HOT: bool,
        const PENDING: u32,
    >(
        &self,
        panels: &Panels,
        walk: &mut Walk<ROWS, PAIRS>,
        end: u32,
    ) {
        let own = thread() / 32 * 16;
        let ahead = panels.shape.stages - 1;
        // SAFETY: the caller's promise.
        unsafe {
            while walk.step < end {
                let (step, slot) = (walk.step, walk.slot);
                // After the last step, any slot will do.
                let next_slot = if HOT || step + 1 < end { panels.after(slot) } else { slot };
                for chunk in 0..4 {
                    let next = if chunk == 3 { (next_slot, 0) } else { (slot, chunk + 1) };
                    if HOT {
                        panels.copy_part(step + ahead, walk.free, chunk);
                    } else if chunk == 0 {
                        panels.copy(step + ahead, walk.free);
                    }
                    let b = walk.columns;
                    let turned = b.map(|words| words.map(S::turn_column));
                    if S::SUMS {
                        let a = Self::load_rows::<S>(own, slot, chunk, 0);
                        S::multiply(&mut walk.sums.row, a, [S::REAL; 2]);
                    }
                    each_fragment!(m < ROWS, {
                        if WHOLE {
                            if m + 2 == ROWS && chunk == 3 {
                                // All have read the step: its slot is free, and the next one full.
                                cp_async_commit();
                                cp_async_wait::<PENDING>();
                                barrier();
                            }
                            let ahead = if m + 2 < ROWS {
                                Self::load_rows::<S>(self.row, slot, chunk, m as u32 + 2)
                            } else {
                                let m = (m + 2 - ROWS) as u32;
                                Self::load_rows::<S>(self.row, next.0, next.1, m)
                            };
                            if m + 2 == ROWS {
                                walk.columns =
                                    self.load_columns::<S, PAIRS>(panels, next.0, next.1);
                            }
                            walk.sums.add::<S>(m, walk.rows[m % 2], &b, &turned);
                            walk.rows[m % 2] = ahead;
                        } else if self.first <= m as u32 && (m as u32) < self.end {
                            walk.sums.add::<S>(m, walk.rows[m % 2], &b, &turned);
                            if m + 2 < ROWS {
                                walk.rows[m % 2] =
                                    Self::load_rows::<S>(self.row, slot, chunk, m as u32 + 2);
                            }
                        }
                    });
                    if !WHOLE {
                        if chunk == 3 {
                            cp_async_commit();
                            cp_async_wait::<PENDING>();
                            barrier();
                        }
                        self.load::<S, ROWS, PAIRS>(panels, walk, next.0, next.1);
                    }
                }
                walk.free = slot;
                walk.slot = next_slot;
                walk.step += 1;
            }
        }
    }
}

/// The whole of a block's work.
///
/// # Safety
/// As the kernels'.
#[inline(always)]
unsafe fn correlate<
    S: Multiply,
    const ROWS: usize,
    const PAIRS: usize,
    const COLUMNS: usize,
    const PENDING: u32,
>(
    p: &Correlate,
    shape: Tile,
) {
    let tiles = p.inputs.div_ceil(shape.inputs);
    let tiles = divisor(tiles * (tiles + 1) / 2);
    let channel = (block() / tiles) as u64;
    let place = triangle::tile(block() % tiles);
    let (tile_row, tile_column) = (place.row * shape.inputs, place.column * shape.inputs);
    let diagonal = place.row == place.column;

    let first_inputs = [tile_row, tile_column].map(|first| {
        let (input, last) = (first + thread() / panel::CHUNKS, p.inputs - 1);
        if input < last { input } else { last }
    });
    let chunk = (thread() % panel::CHUNKS * panel::CHUNK) as u64;
    let panels = Panels {
        p: *p,
        shape,
        sources: first_inputs.map(|input| {
            p.samples + (channel * p.inputs as u64 + input as u64) * p.row_stride + chunk
        }),
        inputs: first_inputs.map(|input| p.inputs - 1 - input),
        diagonal,
    };

    // Every other four warps, of this block and from block to block, take their parts from the far end: on
    // the diagonal, a scheduler gets warps with much to do and with little.
    let warp = thread() / 32;
    let warp = if (warp / 4 + block()).is_multiple_of(2) { warp } else { warp ^ 3 };
    let across = shape.inputs / (16 * PAIRS as u32);
    let (row, column) = (warp / across * 16 * ROWS as u32, warp % across * 16 * PAIRS as u32);
    let above = if diagonal { column.saturating_sub(row) / 16 } else { 0 };
    let left = p.inputs.saturating_sub(tile_row + row).div_ceil(16);
    let part = Part {
        row,
        column,
        first: if above < ROWS as u32 { above } else { ROWS as u32 },
        end: if left < ROWS as u32 { left } else { ROWS as u32 },
    };
    let corner = Corner {
        visibilities: p.visibilities + 8 * channel * triangle::baselines(p.inputs),
        inputs: p.inputs,
        mode: p.mode,
        row: tile_row + row,
        column: tile_column + column,
    };
    let warps = shape.threads() / 32;
    // SAFETY: the caller's promise; the condition is the block's.
    unsafe {
        let sums = if !diagonal && tile_row + shape.inputs <= p.inputs {
            part.multiply::<S, ROWS, PAIRS, true, PENDING>(&panels)
        } else {
            part.multiply::<S, ROWS, PAIRS, false, PENDING>(&panels)
        };
        store::<S, ROWS, PAIRS, COLUMNS>(&sums, row, &corner, warps);
    }
}

/// Writes a warp's sums to the visibilities. `corner` is the first of them, `row` its row in the tile.
///
/// # Safety
/// All threads of the block call it, having done with the panels but for what they wait for; no other
/// warp writes these baselines.
#[inline(always)]
unsafe fn store<S: Multiply, const ROWS: usize, const PAIRS: usize, const COLUMNS: usize>(
    sums: &Sums<ROWS, PAIRS>,
    row: u32,
    corner: &Corner,
    warps: u32,
) {
    let warp = thread() / 32;
    let row_sums = dynamic_shared() + warps * PATCH_BYTES + 4 * (lane() / 4);
    // SAFETY: nobody reads the panels after the first barrier.
    unsafe {
        barrier();
        if S::SUMS {
            // Each warp has the sums of 16 rows.
            if lane().is_multiple_of(4) {
                store_shared(row_sums + 64 * warp, sums.row[0]);
                store_shared(row_sums + 64 * warp + 32, sums.row[2]);
            }
            barrier();
        }
    }
    for m in 0..ROWS {
        let mut of_rows = [0; 2];
        if S::SUMS {
            for half in 0..2 {
                let place = row_sums + 4 * row + 64 * m as u32 + 32 * half;
                // SAFETY: written above.
                of_rows[half as usize] = unsafe { load_shared(place) };
            }
        }
        let value = |index: usize| {
            let (pair, side, word) = (index / 8, index / 4 % 2, index % 4);
            let imaginary = sums.imaginary[m][pair][side][word];
            [sums.real[m][pair][side][word], S::finish(imaginary, of_rows[word / 2])]
        };
        let corner = Corner { row: corner.row + 16 * m as u32, ..*corner };
        let patch = dynamic_shared() + warp * PATCH_BYTES;
        // SAFETY: the warp's patch; the caller's promise.
        unsafe { patch::store::<COLUMNS>(&corner, patch, value, S::add) };
    }
}

/// What the kernels ask of a tile.
const fn check(tile: Tile) {
    assert!(
        tile.warp_rows.is_multiple_of(32) && tile.warp_rows <= 128,
        "fragments of rows come in pairs"
    );
    assert!(tile.warp_columns.is_multiple_of(PATCH_COLUMNS), "patches are written whole");
    assert!(tile.inputs / 16 == tile.threads() / 32, "each warp sums 16 rows");
    assert!(tile.inputs * panel::CHUNKS == PARTS * tile.threads(), "threads share the chunks");
}

/// The kernels: a name, its samples, its tile.
macro_rules! correlators {
    ($($(#[$attribute:meta])* $name:ident: $samples:ty, $tile:ident;)*) => {$(
        const _: () = check($tile);

        kernel! {
            $(#[$attribute])*
            fn $name(p: Correlate) {
                correlate::<
                    $samples,
                    { $tile.warp_rows as usize / 16 },
                    { $tile.warp_columns as usize / 16 },
                    { $tile.warp_columns as usize },
                    { $tile.stages - 2 },
                >(&p, $tile)
            }
        }
    )*};
}

correlators! {
    /// int8, tiles of 128 x 128 baselines.
    correlate_mma_s8_128: Int8, TILE_128;
    /// int8, tiles of 64 x 64 baselines.
    correlate_mma_s8_64: Int8, TILE_64;
    /// Nibbles, tiles of 64 x 64 baselines.
    correlate_mma_s4: Nibbles<false>, TILE_64;
    /// Nibbles that hold value + 8, tiles of 64 x 64 baselines.
    correlate_mma_s4_offset: Nibbles<true>, TILE_64;
    /// Half precision, tiles of 128 x 128 baselines.
    correlate_mma_f16_128: Half, TILE_128;
    /// Half precision, tiles of 64 x 64 baselines.
    correlate_mma_f16_64: Half, TILE_64;
}
