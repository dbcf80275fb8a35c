//! The tensor-core correlator on `mma.sync` (sm_80 and later).
//!
//! ```text
//! a  = (re,  im, ...) of a row, b = (re', im', ...) of a column
//! a* = (im, -re, ...) rotated by -i, made in registers from the fragment of a
//! a  . b = sum re re' + im im' = real part
//! a* . b = sum im re' - re im' = imaginary part
//! ```
//!
//! Integers of `n` bits cannot hold the negation of `-2^(n-1)`: the complement `~x = -x - 1` stands for
//! it, and what that takes from an imaginary part, the sum of its column's imaginary parts, is put right
//! when sums are widened ([`super::widen`]): exact for every sample. Tiles at the left edge, which have all
//! inputs as rows, sum them, as products with a column of ones.
//!
//! A block computes a tile of baselines of one channel in the lower triangle: each warp 16 or 32 rows by all
//! columns, so that few words are rotated, which takes two instructions each. Near the diagonal, warps leave
//! out columns that lie right of all their rows. Panels of 128 bytes of time are copied asynchronously,
//! `stages` deep; a lap of that ring is straight code, where every address is a register and a constant.
//! Columns are loaded two pairs of fragments ahead, rows a chunk of 32 bytes. Visibilities go through shared
//! memory ([`patch`]), while another block of the multiprocessor multiplies.
//!
//! Bound by the tensor cores: on Hopper an `mma` takes 6 cycles of its scheduler and each other instruction
//! one more, as they do not overlap. So registers are loaded in the pairs that `mma` wants, and instructions
//! beside it are few: 125 for 128 `mma` of [`TILE_128`], 87 for 64 of [`TILE_64`]. Of shared memory, `ldmatrix`
//! and copies ask for three quarters of the time that the `mma` of [`TILE_128`] take there, and for a sixth
//! more than those of [`TILE_64`].
//!
//! Matrix units truncate sums of half precision. These leave them every two steps, to be added to others rounded to
//! nearest: 64 times, as Ampere's truncate at twice as many places as Hopper's. Two sets of sums fill the registers
//! of [`TILE_64`].
//!
//! Tried and lost on an H200 (docs/notebook/correlate-mma.md): rotated columns; one block with tiles of 128 x 128 on a
//! multiprocessor, where nothing hides the first copies and the visibilities; four or five stages; copies
//! at the beginning of a step; fragments four pairs ahead; tiles of 128 x 192, which spill.

use crate::{
    abi::correlate::{
        Correlate, PATCH_BYTES, PATCH_COLUMNS, STEP_BYTES, TILE_64, TILE_128, Tile,
        mma_correlators, mode,
    },
    correlate::{
        patch::{self, Corner},
        samples::{Bits, Half, Int8, Nibbles, Samples},
        triangle,
    },
    isa::{
        common::{
            barrier, barrier_apart, block, dynamic_shared, lane, opaque, read_global, shfl,
            store_global, thread,
        },
        sm_80::{
            cp_async_16, cp_async_commit, cp_async_wait, cp_async_whole_16, ldmatrix_x4,
            mma_m16n8k16_f16, mma_m16n8k32_s8, mma_m16n8k64_s4, mma_m16n8k256_b1,
        },
    },
    tile::{divisor, panel},
};

/// Bytes of 16 inputs of a panel.
const FRAGMENT: u32 = 16 * STEP_BYTES;
/// The barrier at the end of a step.
const STEP: u32 = 1;
/// Chunks of 32 bytes of time of a step, one a fragment.
const FRAGMENTS: usize = STEP_BYTES as usize / 32;

/// A sample type on `mma.sync`.
trait Multiply: Samples {
    /// Whether laps of the ring are straight code. Not where a product may be a hundred instructions.
    const STRAIGHT: bool = true;
    /// Whether sums leave the matrix unit, which truncates them, every two steps at the latest: they are added to
    /// others, rounded to nearest.
    const LEAVE: bool = false;

    /// `d += a * b`.
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]);

    /// `d += a* * b` of rotated rows.
    #[inline(always)]
    fn multiply_rotated(d: &mut [u32; 4], rotated: [u32; 4], b: [u32; 2]) {
        Self::multiply(d, rotated, b);
    }
}

impl Multiply for Int8 {
    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k32_s8(d, a, b);
    }
}

impl<const OFFSET: bool> Multiply for Nibbles<OFFSET> {
    const STRAIGHT: bool = false;

    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k64_s4(d, a, b);
    }
}

impl Multiply for Half {
    const STRAIGHT: bool = false;
    const LEAVE: bool = true;

    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k16_f16(d, a, b);
    }
}

impl Multiply for Bits {
    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k256_b1(d, a, b);
    }

    /// Planes of bits are words apart: of a row and of that 8 further first the real parts, then the imaginary
    /// ones, of a column the same. Those of the column change places instead; imaginary parts stay as they were.
    #[inline(always)]
    fn multiply_rotated(d: &mut [u32; 4], [re, re_8, im, im_8]: [u32; 4], b: [u32; 2]) {
        mma_m16n8k256_b1(d, [re, re_8, !im, !im_8], [b[1], b[0]]);
    }
}

/// Pairs of fragments of 8 columns of a tile.
const PAIRS: usize = 4;

/// Sums of a warp's fragments.
type Fragments<const ROWS: usize> = [[[[u32; 4]; 2]; PAIRS]; ROWS];

/// Adds one of `sums` to its counterpart in `left`, and clears it.
#[inline(always)]
fn take<S: Samples, const ROWS: usize>(
    sums: &mut Fragments<ROWS>,
    left: &mut Fragments<ROWS>,
    (m, pair, half, word): (usize, usize, usize, usize),
) {
    let sum = core::mem::take(&mut sums[m][pair][half][word]);
    let left = &mut left[m][pair][half][word];
    *left = S::add(*left, sum);
}

/// Sums of one warp: `ROWS` fragments of 16 rows by the columns of a tile.
struct Sums<const ROWS: usize> {
    real: Fragments<ROWS>,
    imaginary: Fragments<ROWS>,
    /// Sums of the imaginary parts of the rows, in every column.
    rows: [[u32; 4]; ROWS],
}

/// Origin of the tile of a block.
#[derive(Clone, Copy)]
struct TileOrigin {
    channel: u32,
    /// First inputs of its rows and columns.
    row: u32,
    column: u32,
}

impl TileOrigin {
    /// Tile `index` of all channels'.
    #[inline(always)]
    fn of(p: &Correlate, shape: Tile, index: u32) -> Self {
        let tiles = divisor(shape.tiles(p.inputs));
        let (channel, index) = (index / tiles, index % tiles);
        // Row of tiles `r` has `(r + 1) * across` tiles, the last one as many or fewer.
        let across = shape.rows / shape.columns;
        let row = triangle::tile(index / across).row;
        let column = index - across * (row * (row + 1) / 2);
        Self { channel, row: row * shape.rows, column: column * shape.columns }
    }
}

/// The panels of a block, in the order of its steps of time: of rows, and behind it of columns.
struct Panels<const COPIES: usize> {
    shape: Tile,
    /// Whether the columns are among the rows, whose panel then serves both.
    among: bool,
    /// Addresses of the next chunks of rows, then of columns, that this thread copies.
    sources: [u64; COPIES],
}

impl<const COPIES: usize> Panels<COPIES> {
    #[inline(always)]
    fn new(p: &Correlate, shape: Tile, place: TileOrigin) -> Self {
        let among = place.column >= place.row;
        let mut panels = Self { shape, among, sources: [0; COPIES] };
        for copy in 0..COPIES {
            panels.sources[copy] = panels.source(p, &place, thread(), copy as u32);
        }
        panels
    }

    /// Address of a thread's chunk `copy` in the first step.
    #[inline(always)]
    fn source(&self, p: &Correlate, place: &TileOrigin, thread: u32, copy: u32) -> u64 {
        let first = copy * self.shape.inputs_at_once();
        let input = thread / panel::CHUNKS
            + match first.checked_sub(self.shape.rows) {
                None => place.row + first,
                Some(column) => place.column + column,
            };
        // Beyond the last input there is the last, as no visibility is made of it.
        let input = if input < p.inputs { input } else { p.inputs - 1 };
        let row = place.channel as u64 * p.inputs as u64 + input as u64;
        p.samples + row * p.row_stride + (thread % panel::CHUNKS * panel::CHUNK) as u64
    }

    /// Whether chunk `copy` is one of columns that are among the rows.
    #[inline(always)]
    fn spared(&self, copy: u32) -> bool {
        self.among && copy * self.shape.inputs_at_once() >= self.shape.rows
    }

    /// Address of a thread's chunk `copy` in the first slot.
    #[inline(always)]
    fn to(&self, thread: u32, copy: u32) -> u32 {
        // A multiple of eight inputs further, chunks lie at the same places.
        let own = panel::offset(thread / panel::CHUNKS, thread % panel::CHUNKS);
        dynamic_shared() + own + copy * self.shape.inputs_at_once() * STEP_BYTES
    }

    /// Starts copying chunks of the step `steps` after the next, which is whole, into `slot`: of `parts` parts
    /// of them part `part`.
    ///
    /// # Safety
    /// - All threads of the block call it, for the same `slot` and step, with all parts `0..parts` in some order;
    ///   `part < parts`.
    /// - `slot` is a multiple of the bytes of a stage, inside the ring. All warps have passed the barrier behind
    ///   their last reads of it ([`end_step`]).
    /// - The step is whole: the samples have 128 bytes more in each row from the sources on, `steps` steps further. A
    ///   launch keeps them constant and 16-byte aligned ([`Correlate`]).
    #[inline(always)]
    unsafe fn copy_part(&self, slot: u32, steps: u32, part: usize, parts: usize) {
        let slot = opaque(slot);
        each!(copy < COPIES, {
            if copy % parts == part && !self.spared(copy as u32) {
                let from = self.sources[copy] + (steps * STEP_BYTES) as u64;
                // SAFETY: 16 aligned bytes of the slot, which are free and this thread's alone; they come from the
                // row of an input that exists, and the step ends within the row.
                unsafe { cp_async_whole_16(self.to(thread(), copy as u32) + slot, from) };
            }
        });
    }

    /// Advances by `steps`.
    #[inline(always)]
    fn advance(&mut self, steps: u32) {
        for source in &mut self.sources {
            // Addresses that rustc cannot foresee stay where they are: it would keep each of them twice.
            *source += opaque(steps * STEP_BYTES) as u64;
        }
    }

    /// Starts copying all chunks of a step, if there is such a step. What lies beyond the last time becomes
    /// zero. Takes its time, and no registers otherwise.
    ///
    /// # Safety
    /// - All threads of the block call it, for the same `step` and `slot`.
    /// - `slot` is a multiple of the bytes of a stage, inside the ring. All warps have passed the barrier behind
    ///   their last reads of it ([`end_step`]).
    /// - A launch keeps the samples constant and 16-byte aligned, `row_bytes` of each row ([`Correlate`]).
    #[inline(always)]
    unsafe fn copy_end(&self, p: &Correlate, step: u32, slot: u32) {
        let byte = step * STEP_BYTES;
        if byte >= p.row_bytes {
            return;
        }
        let p = &Correlate { inputs: opaque(p.inputs), ..*p };
        let (place, thread) = (TileOrigin::of(p, self.shape, opaque(block())), opaque(thread()));
        let left = p.row_bytes.saturating_sub(byte + thread % panel::CHUNKS * panel::CHUNK);
        let bytes = if left < panel::CHUNK { left } else { panel::CHUNK };
        let mut copy = opaque(0);
        while copy < opaque(COPIES as u32) && !self.spared(copy) {
            // A copy of zero bytes still needs an address inside the samples.
            let from = match bytes {
                0 => p.samples,
                _ => self.source(p, &place, thread, copy) + byte as u64,
            };
            // SAFETY: 16 aligned bytes of the slot, which are free and this thread's alone; `bytes` ends with the row
            // of an input that exists, and where it is zero the address is that of the samples.
            unsafe { cp_async_16(self.to(thread, copy) + slot, from, bytes) };
            copy += 1;
        }
    }

    /// Starts copying the steps before the last of `STAGES`.
    ///
    /// # Safety
    /// - All threads of the block call it, at the beginning of the kernel: nobody has read the slots yet.
    /// - The ring has `STAGES` slots, and the sources are those of the first step ([`Panels::new`]).
    /// - A launch keeps the samples constant and 16-byte aligned, `row_bytes` of each row ([`Correlate`]).
    #[inline(always)]
    unsafe fn start<const STAGES: usize>(&mut self, p: &Correlate) {
        let ahead = STAGES as u32 - 1;
        // SAFETY: the slots were never read, each step has its own, and steps are copied as whole ones only where the
        // row has all of them.
        unsafe {
            if p.row_bytes >= ahead * STEP_BYTES {
                each!(step < STAGES - 1, {
                    self.copy_part(step as u32 * self.shape.stage_bytes(), step as u32, 0, 1);
                    cp_async_commit();
                });
            } else {
                let mut step = 0;
                while step < opaque(ahead) {
                    self.copy_end(p, step, step * self.shape.stage_bytes());
                    cp_async_commit();
                    step += 1;
                }
            }
        }
        self.advance(ahead);
    }
}

/// The steps of a block, and the ring of slots that they lie in.
struct Steps {
    all: u32,
    /// Slots that are multiplied while another whole one is copied.
    whole: u32,
    /// Bytes of a slot, and of all slots.
    stage: u32,
    ring: u32,
}

impl Steps {
    #[inline(always)]
    fn new<const STAGES: usize>(p: &Correlate, shape: Tile) -> Self {
        Self {
            all: p.row_bytes.div_ceil(STEP_BYTES),
            whole: (p.row_bytes / STEP_BYTES).saturating_sub(STAGES as u32 - 1),
            stage: shape.stage_bytes(),
            ring: shape.shared_bytes(),
        }
    }

    /// The slot after `slot`.
    #[inline(always)]
    fn after(&self, slot: u32) -> u32 {
        if slot + self.stage == self.ring { 0 } else { slot + self.stage }
    }

    /// The slot before `slot`, which is free.
    #[inline(always)]
    fn before(&self, slot: u32) -> u32 {
        if slot == 0 { self.ring - self.stage } else { slot - self.stage }
    }
}

/// All have read the step: its slot is free, and the next one full.
///
/// All warps of the block call it together, each from the code of its part.
#[inline(always)]
fn end_step<const THREADS: u32, const PENDING: u32>() {
    cp_async_commit();
    cp_async_wait::<PENDING>();
    barrier_apart::<THREADS>(STEP);
}

/// All steps of a warp that has no baselines: it only copies.
///
/// # Safety
/// - All lanes of the warp call it, while the block's other warps call it or [`Part::correlate`]: each passes the
///   same barriers.
/// - [`Panels::start`] was called by the whole block with the same `p` and `STAGES`, and its first step waited for.
/// - `THREADS` is the number of threads of the block, and `PENDING` is `STAGES - 2`.
#[inline(always)]
unsafe fn attend<
    const COPIES: usize,
    const STAGES: usize,
    const THREADS: u32,
    const PENDING: u32,
>(
    p: &Correlate,
    panels: &mut Panels<COPIES>,
) {
    let steps = Steps::new::<STAGES>(p, panels.shape);
    let (mut step, mut slot) = (0, 0);
    // SAFETY: the slot before the one that is multiplied was read in the step before, at whose end all warps passed
    // the barrier. Whole steps are copied as such only while there are.
    unsafe {
        while step < steps.all {
            if step < steps.whole {
                panels.copy_part(steps.before(slot), 0, 0, 1);
                panels.advance(1);
            } else {
                panels.copy_end(p, step + STAGES as u32 - 1, steps.before(slot));
            }
            end_step::<THREADS, PENDING>();
            slot = steps.after(slot);
            step += 1;
        }
    }
    barrier_apart::<THREADS>(STEP);
}

/// Addresses from which a warp's lanes load the fragments of the first slot, chunk by chunk.
#[derive(Clone, Copy)]
struct Addresses {
    rows: [u32; FRAGMENTS],
    columns: [u32; FRAGMENTS],
}

impl Addresses {
    /// Addresses of rows and columns from inputs `row` and `column` of the slot on.
    #[inline(always)]
    fn new(row: u32, column: u32) -> Self {
        let row = panel::ldmatrix_address(dynamic_shared(), row, 0);
        let column = panel::ldmatrix_columns(dynamic_shared(), column, 0);
        let mut addresses = Self { rows: [row; FRAGMENTS], columns: [column; FRAGMENTS] };
        for chunk in 0..FRAGMENTS {
            // Even chunks of 16 bytes of an input lie where chunk 0 does, but for bits 5 and 6.
            addresses.rows[chunk] ^= 32 * chunk as u32;
            addresses.columns[chunk] ^= 32 * chunk as u32;
        }
        addresses
    }

    /// The rows' fragments.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, with the same `slot` and `chunk`.
    /// - `slot` is a multiple of the bytes of a stage, inside the ring; `self` points at `16 ROWS` rows of its
    ///   panels.
    /// - Its step was waited for by all threads, which passed a barrier since, and is not copied to before the next.
    #[inline(always)]
    unsafe fn load_rows<S: Multiply, const ROWS: usize>(
        &self,
        slot: u32,
        chunk: usize,
    ) -> [[u32; 4]; ROWS] {
        let mut rows = [[0; 4]; ROWS];
        each!(m < ROWS, {
            let at = opaque(self.rows[chunk]) + slot + m as u32 * FRAGMENT;
            // SAFETY: the warp is whole; its 16-byte rows are swizzled chunks of the panel, aligned and complete.
            rows[m] = unsafe { map!(ldmatrix_x4(at), of 4, S::value) };
        });
        rows
    }

    /// Two fragments of columns.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, with the same `slot`, `chunk` and `pair`.
    /// - `slot` is a multiple of the bytes of a stage, inside the ring; `self` points at `16 (pair + 1)` columns of
    ///   its panels or more.
    /// - Its step was waited for by all threads, which passed a barrier since, and is not copied to before the next.
    #[inline(always)]
    unsafe fn load_columns<S: Multiply>(&self, slot: u32, chunk: usize, pair: usize) -> [u32; 4] {
        let at = opaque(self.columns[chunk]) + slot + pair as u32 * FRAGMENT;
        // SAFETY: the warp is whole; its 16-byte rows are swizzled chunks of the panel, aligned and complete.
        unsafe { map!(ldmatrix_x4(at), of 4, S::value) }
    }
}

/// Part of a tile that a warp multiplies: its rows by its `OWN` pairs of fragments of columns, which are loaded
/// `AHEAD` pairs before.
struct Part<const ROWS: usize, const OWN: usize, const AHEAD: usize> {
    sums: Sums<ROWS>,
    /// Sums that have left the matrix unit, if sums leave it.
    left: Sums<ROWS>,
    addresses: Addresses,
    /// Fragments that are multiplied next.
    rows: [[u32; 4]; ROWS],
    columns: [[u32; 4]; AHEAD],
}

impl<const ROWS: usize, const OWN: usize, const AHEAD: usize> Part<ROWS, OWN, AHEAD> {
    /// Adds the products of row fragment `m` and its rotation with a pair of columns.
    #[inline(always)]
    fn add<S: Multiply>(
        &mut self,
        m: usize,
        a: [u32; 4],
        rotated: [u32; 4],
        pair: usize,
        b: [u32; 4],
    ) {
        let halves = [[b[0], b[1]], [b[2], b[3]]];
        for half in 0..2 {
            S::multiply(&mut self.sums.real[m][pair][half], a, halves[half]);
        }
        for half in 0..2 {
            S::multiply_rotated(&mut self.sums.imaginary[m][pair][half], rotated, halves[half]);
        }
    }

    /// Has the sums leave the matrix unit, if they do.
    #[inline(always)]
    fn leave<S: Multiply>(&mut self) {
        if S::LEAVE {
            let (sums, left) = (&mut self.sums, &mut self.left);
            each!(m < ROWS, {
                each!(pair < OWN, {
                    for half in 0..2 {
                        for word in 0..4 {
                            let place = (m, pair, half, word);
                            take::<S, ROWS>(&mut sums.real, &mut left.real, place);
                            take::<S, ROWS>(&mut sums.imaginary, &mut left.imaginary, place);
                        }
                    }
                });
            });
        }
    }

    /// Multiplies the step in `slot`, and loads what the step in `next_slot` begins with. `copy(chunk)` is
    /// called for each chunk.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together; each other warp of the block takes the same step here or in
    ///   [`attend`], and passes its barrier.
    /// - `slot` holds a step that was waited for; the part's fragments are the first of it.
    /// - The step in `next_slot` was copied as group `PENDING` before the last that is committed here, or `next_slot`
    ///   is `slot`: its fragments are loaded after [`end_step`] has waited for it.
    /// - `copy` writes nothing to `slot` or `next_slot`.
    #[inline(always)]
    unsafe fn step<S: Multiply, const SUMMING: bool, const THREADS: u32, const PENDING: u32>(
        &mut self,
        slot: u32,
        next_slot: u32,
        mut copy: impl FnMut(usize),
    ) {
        // SAFETY: fragments of `slot` are loaded before the barrier at its end, those of `next_slot` after it: the
        // last rows, and the columns for which `pair + AHEAD >= OWN`, follow `end_step`.
        unsafe {
            each!(chunk < FRAGMENTS, {
                let last = chunk == FRAGMENTS - 1;
                let next = if last { (next_slot, 0) } else { (slot, chunk + 1) };
                copy(chunk);
                let a = self.rows;
                let rotated = map!(a, of ROWS, |words: [u32; 4]| map!(words, of 4, S::rotate_row));
                if S::SUMS && SUMMING {
                    each!(m < ROWS, {
                        S::multiply(&mut self.sums.rows[m], a[m], [S::IMAGINARY; 2]);
                    });
                }
                each!(pair < OWN, {
                    if pair + AHEAD == OWN {
                        if last {
                            end_step::<THREADS, PENDING>();
                        }
                        self.rows = self.addresses.load_rows::<S, ROWS>(next.0, next.1);
                    }
                    let b = self.columns[pair % AHEAD];
                    self.columns[pair % AHEAD] = if pair + AHEAD < OWN {
                        self.addresses.load_columns::<S>(slot, chunk, pair + AHEAD)
                    } else {
                        self.addresses.load_columns::<S>(next.0, next.1, pair + AHEAD - OWN)
                    };
                    each!(m < ROWS, {
                        self.add::<S>(m, a[m], rotated[m], pair, b);
                    });
                });
            });
        }
    }

    /// The sums of all steps, which are multiplied in laps of the ring if `RING`, as far as they are whole.
    ///
    /// # Safety
    /// - All lanes of the warp call it, while the block's other warps call it or [`attend`]: each passes the same
    ///   barriers.
    /// - [`Panels::start`] was called by the whole block with the same `p` and `STAGES`; its first step was waited
    ///   for, and a barrier passed since.
    /// - `THREADS` is the number of threads of the block, `PENDING` is `STAGES - 2`, and `COPIES` are the chunks that
    ///   a thread copies of a step.
    #[inline(always)]
    unsafe fn correlate<
        S: Multiply,
        const COPIES: usize,
        const SUMMING: bool,
        const RING: bool,
        const STAGES: usize,
        const THREADS: u32,
        const PENDING: u32,
    >(
        p: &Correlate,
        tile: &Warp,
        panels: &mut Panels<COPIES>,
    ) -> Sums<ROWS> {
        let steps = Steps::new::<STAGES>(p, panels.shape);
        let past = p.row_bytes.wrapping_neg() % STEP_BYTES;
        let addresses = Addresses::new(
            tile.row - tile.place.row,
            if panels.among { tile.place.column - tile.place.row } else { panels.shape.rows },
        );
        // SAFETY: all warps take the same steps, whose barriers stand between the reads of a slot and the next copy
        // to it, and between a copy that was waited for and its reads. `step < whole` is where the copied step is
        // whole.
        unsafe {
            let mut columns = [[0; 4]; AHEAD];
            for pair in 0..AHEAD {
                columns[pair] = addresses.load_columns::<S>(0, 0, pair);
            }
            let mut part = Self {
                sums: Sums::new(S::start(past)),
                left: Sums::new(0),
                rows: addresses.load_rows::<S, ROWS>(0, 0),
                addresses,
                columns,
            };
            let Steps { all, whole, stage, .. } = steps;
            let (mut step, mut slot) = (0, 0);
            while RING && S::STRAIGHT && step + STAGES as u32 <= whole {
                each!(index < STAGES, {
                    let slot = |after: usize| ((index + after) % STAGES) as u32 * stage;
                    part.step::<S, SUMMING, THREADS, PENDING>(slot(0), slot(1), |chunk| {
                        panels.copy_part(slot(STAGES - 1), index as u32, chunk, FRAGMENTS);
                    });
                });
                panels.advance(STAGES as u32);
                step += STAGES as u32;
            }
            while step < whole {
                let next = steps.after(slot);
                let free = steps.before(slot);
                part.step::<S, SUMMING, THREADS, PENDING>(slot, next, |chunk| {
                    panels.copy_part(free, 0, chunk, FRAGMENTS);
                });
                panels.advance(1);
                slot = next;
                step += 1;
                if step % 2 == 0 {
                    part.leave::<S>();
                }
            }
            while step < all {
                panels.copy_end(p, step + STAGES as u32 - 1, steps.before(slot));
                // After the last step, any slot will do.
                let next = if step + 1 < all { steps.after(slot) } else { slot };
                part.step::<S, SUMMING, THREADS, PENDING>(slot, next, |_| ());
                part.leave::<S>();
                slot = next;
                step += 1;
            }
            if S::LEAVE { part.left } else { part.sums }
        }
    }
}

impl<const ROWS: usize> Sums<ROWS> {
    /// Returns sums of zero, except that the real parts start from `real`.
    #[inline(always)]
    fn new(real: u32) -> Self {
        Self {
            real: [[[[real; 4]; 2]; PAIRS]; ROWS],
            imaginary: [[[[0; 4]; 2]; PAIRS]; ROWS],
            rows: [[0; 4]; ROWS],
        }
    }

    /// Writes the sums to the visibilities.
    ///
    /// # Safety
    /// - All threads of the block that have sums call it, each with the rest of its warp; the others are in
    ///   [`attend`], and pass the same barrier at its end. The block reads its panels no more behind it.
    /// - `tile` is the warp's own, and its shared memory has a patch of [`PATCH_BYTES`] for each warp.
    /// - No other warp of the launch writes these baselines; a launch has room for all of them at `visibilities`.
    #[inline(always)]
    unsafe fn store<S: Multiply, const THREADS: u32>(&self, p: &Correlate, tile: &Warp) {
        let TileOrigin { channel, column, .. } = tile.place;
        let visibilities = p.visibilities + 8 * channel as u64 * triangle::baselines(p.inputs);
        let patch = dynamic_shared() + thread() / 32 * PATCH_BYTES;
        barrier_apart::<THREADS>(STEP);
        each!(m < ROWS, {
            let row = tile.row + 16 * m as u32;
            let corner = Corner { visibilities, inputs: p.inputs, mode: p.mode, row, column };
            let (real, imaginary) = (&self.real[m], &self.imaginary[m]);
            let value = |index: usize| {
                let (pair, half, word) = (index / 8, index / 4 % 2, index % 4);
                [real[pair][half][word], imaginary[pair][half][word]]
            };
            // SAFETY: nobody reads the panels after the barrier, and no copy is under way; the warp's
            // patch and baselines are its own.
            unsafe {
                let add = |address, sum| S::add_global(address, sum);
                patch::store::<{ 16 * PAIRS }>(&corner, patch, value, add);
            }
        });
    }

    /// Writes the sums of the imaginary parts of the rows.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together.
    /// - `row_sums` has a 4-byte aligned word for each input of each channel, written before if the mode is
    ///   [`mode::ADD`].
    /// - No other warp of the launch writes the sums of these rows: the tile is the one at the left edge.
    #[inline(always)]
    unsafe fn store_row_sums(&self, p: &Correlate, tile: &Warp) {
        let lane = opaque(lane());
        let sums = p.row_sums + 4 * (tile.place.channel as u64 * p.inputs as u64);
        for half in 0..2 * ROWS {
            let row = tile.row + 8 * half as u32 + lane / 4;
            let mut sum = self.rows[half / 2][half % 2 * 2];
            if row < p.inputs && lane.is_multiple_of(4) {
                // SAFETY: the row is an input's, whose sum one lane of one warp of the launch writes.
                unsafe {
                    if p.mode == mode::ADD {
                        sum = sum.wrapping_add(read_global(sums + 4 * row as u64));
                    }
                    store_global(sums + 4 * row as u64, sum);
                }
            }
        }
    }
}

/// A warp's rows of a tile.
struct Warp {
    place: TileOrigin,
    /// The first of them.
    row: u32,
}

impl Warp {
    /// Returns the warp of a thread of a block.
    #[inline(always)]
    fn of(p: &Correlate, shape: Tile, block: u32, thread: u32) -> Self {
        let place = TileOrigin::of(p, shape, block);
        // Every other four warps, of this block and from block to block, take their rows from the far end: on
        // the diagonal, a scheduler gets warps with much to do and with little.
        let warp = shfl(thread / 32, 0);
        let warp = if (warp / 4 + block).is_multiple_of(2) { warp } else { warp ^ 3 };
        Self { place, row: place.row + shape.warp_rows * warp }
    }
}

/// The whole of a block's work.
///
/// # Safety
/// - All threads of a block of `shape.threads()` call it together, once, in a launch that keeps the conditions of
///   [`Correlate`]: addresses, sizes, and the grid.
/// - The block has `shape.shared_bytes()` of dynamic shared memory, all of it free.
/// - The constants follow from `shape`, as `correlators!` computes them, and [`check`] accepts it.
#[inline(always)]
unsafe fn correlate<
    S: Multiply,
    const ROWS: usize,
    const COPIES: usize,
    const STAGES: usize,
    const THREADS: u32,
    const PENDING: u32,
>(
    p: &Correlate,
    shape: Tile,
) {
    let tile = Warp::of(p, shape, block(), thread());
    let Warp { place, row } = tile;
    let mut panels = Panels::<COPIES>::new(p, shape, place);
    // Pairs of fragments of columns that lie on or left of the diagonal for the last of the rows, if there
    // are any.
    let end = if row < p.inputs { row + shape.warp_rows } else { 0 };
    let pairs = end.saturating_sub(place.column) / 16;

    // SAFETY: the block starts its copies together, waits for the first and passes a barrier. Then every warp takes
    // all steps, in `Part::correlate` or `attend`, and one more barrier. Baselines of a warp are its own, and the
    // tile at the left edge is one for each row.
    unsafe {
        panels.start::<STAGES>(p);
        cp_async_wait::<PENDING>();
        barrier();
        macro_rules! part {
            ($pairs:literal, $ahead:literal, $summing:literal, $ring:literal) => {
                Part::<ROWS, $pairs, $ahead>::correlate::<
                    S,
                    COPIES,
                    $summing,
                    $ring,
                    STAGES,
                    THREADS,
                    PENDING,
                >(p, &tile, &mut panels)
            };
        }
        // Pairs, how many are loaded ahead (by whose number they can be counted), summing, ring.
        let sums = match pairs {
            4.. if place.column > 0 || !S::SUMS => part!(4, 2, false, true),
            0 => return attend::<COPIES, STAGES, THREADS, PENDING>(p, &mut panels),
            1 if ROWS == 1 => part!(1, 1, true, false),
            1 | 2 => part!(2, 2, true, false),
            3 if ROWS == 1 => part!(3, 3, true, false),
            _ => part!(4, 2, true, false),
        };
        // Found again, as registers are scarce above.
        let p = &Correlate { inputs: opaque(p.inputs), ..*p };
        let tile = &Warp::of(p, shape, opaque(block()), opaque(thread()));
        if S::SUMS && tile.place.column == 0 {
            sums.store_row_sums(p, tile);
        }
        sums.store::<S, THREADS>(p, tile);
    }
}

/// Checks the conditions of the kernels on a tile.
const fn check(tile: Tile) {
    assert!(tile.columns == 64 && tile.warp_rows <= 32, "parts that `correlate` has code for");
    assert!(tile.columns.is_multiple_of(PATCH_COLUMNS), "patches are written whole");
    assert!(tile.columns.is_multiple_of(tile.inputs_at_once()), "threads share the chunks");
    assert!((tile.threads() / 32).is_multiple_of(4), "warps change places in groups of four");
    assert!(tile.rows.is_multiple_of(tile.columns), "columns are among the rows or left of them");
    assert!(tile.inputs_at_once().is_multiple_of(8), "a thread's chunks lie at the same places");
    assert!(tile.threads() / 32 * PATCH_BYTES <= tile.shared_bytes(), "each warp has a patch");
}

/// The kernels that [`mma_correlators`] declares.
macro_rules! correlators {
    ($($(#[$attribute:meta])* $kernel:ident $name:ident: $of:literal of $encoding:ident, $samples:ty, $tile:ident,
       $blocks:literal blocks;)*) => {$(
        const _: () = check($tile);

        kernel! {
            $(#[$attribute])*
            fn $name(p: Correlate) {
                correlate::<
                    $samples,
                    { $tile.warp_rows as usize / 16 },
                    { (($tile.rows + $tile.columns) / $tile.inputs_at_once()) as usize },
                    { $tile.stages as usize },
                    { $tile.threads() },
                    { $tile.stages - 2 },
                >(&p, $tile)
            }
        }
    )*};
}

mma_correlators!(correlators);
