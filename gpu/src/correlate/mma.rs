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

use core::marker::PhantomData;

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
            barrier_apart, block, dynamic_shared, lane, opaque, read_global, shfl, store_global,
            thread,
        },
        sm_80::{
            cp_async_16, cp_async_commit, cp_async_whole_16, ldmatrix_x4, mma_m16n8k16_f16,
            mma_m16n8k32_s8, mma_m16n8k64_s4, mma_m16n8k256_b1,
        },
    },
    tile::{
        divisor, panel,
        ring::{Ring, Shape, Stages},
    },
};

/// Bytes of 16 inputs of a panel.
const FRAGMENT: u32 = 16 * STEP_BYTES;
/// The barrier of a block's warps, at the end of a step and behind the last.
const STEP: u32 = 1;
/// Chunks of 32 bytes of time of a step, one a fragment.
const FRAGMENTS: usize = STEP_BYTES as usize / 32;
/// Pairs of fragments of 8 columns of a tile.
const PAIRS: usize = 4;
/// Most fragments of 16 rows of a warp, most chunks that a thread copies of a step, and most pairs of fragments of columns
/// that are loaded ahead: of the tiles and parts that there are.
const MOST_ROWS: usize = 2;
const MOST_COPIES: usize = 12;
const MOST_AHEAD: usize = 3;

/// A sample type on `mma.sync`.
trait Multiply: Samples {
    /// Most fragments of 16 rows of a warp for which laps of the ring are straight code. None where a product may be a
    /// hundred instructions.
    const STRAIGHT_ROWS: usize = MOST_ROWS;
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
    const STRAIGHT_ROWS: usize = 0;

    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k64_s4(d, a, b);
    }
}

impl Multiply for Half {
    const STRAIGHT_ROWS: usize = 0;
    const LEAVE: bool = true;

    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k16_f16(d, a, b);
    }
}

impl Multiply for Bits {
    // Of more, GPUs that emulate the product have no registers for it (sm_100).
    const STRAIGHT_ROWS: usize = 1;

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

/// A kernel: samples and the tile of a block, and what follows from them.
trait Correlator {
    /// The samples.
    type Samples: Multiply;
    /// Baselines of a block.
    const TILE: Tile;
    /// Fragments of 16 rows of a warp.
    const ROWS: usize = Self::TILE.warp_rows as usize / 16;
    /// Chunks of 16 bytes that a thread copies of a step.
    const COPIES: usize =
        ((Self::TILE.rows + Self::TILE.columns) / Self::TILE.inputs_at_once()) as usize;

    /// Waits for all warps of the block, each from the code of its part.
    fn barrier();
}

/// Columns of a tile that a warp multiplies.
trait Columns {
    /// Pairs of fragments of 8 columns.
    const PAIRS: usize;
    /// Pairs that are loaded before they are multiplied.
    const AHEAD: usize;
    /// Whether imaginary parts of the rows are summed: where the tile lies at the left edge.
    const SUMS_ROWS: bool;
    /// Whether laps of the ring are straight code.
    const LAPS: bool;
}

/// All columns of a tile that lies right of the left edge: what most warps multiply.
struct Inner;

impl Columns for Inner {
    const PAIRS: usize = PAIRS;
    const AHEAD: usize = 2;
    const SUMS_ROWS: bool = false;
    const LAPS: bool = true;
}

/// The first `OWN` pairs of fragments of columns of a tile, which may lie at the left edge.
struct Edge<const OWN: usize>;

impl<const OWN: usize> Columns for Edge<OWN> {
    const PAIRS: usize = OWN;
    // By whose number pairs can be counted.
    const AHEAD: usize = if OWN == PAIRS { 2 } else { OWN };
    const SUMS_ROWS: bool = true;
    const LAPS: bool = false;
}

/// Sums of a warp's fragments.
type Fragments = [[[[u32; 4]; 2]; PAIRS]; MOST_ROWS];

/// Adds one of `sums` to its counterpart in `left`, and clears it.
#[inline(always)]
fn flush_sum<S: Samples>(
    sums: &mut Fragments,
    left: &mut Fragments,
    (m, pair, half, word): (usize, usize, usize, usize),
) {
    let sum = core::mem::take(&mut sums[m][pair][half][word]);
    let left = &mut left[m][pair][half][word];
    *left = S::add(*left, sum);
}

/// Sums of one warp: fragments of 16 rows by the columns of a tile.
struct Sums {
    real: Fragments,
    imaginary: Fragments,
    /// Sums of the imaginary parts of the rows, in every column.
    rows: [[u32; 4]; MOST_ROWS],
}

/// Origin of the tile of a block.
#[derive(Clone, Copy)]
struct TileOrigin {
    channel: u32,
    /// First input of its rows.
    row: u32,
    /// First input of its columns.
    column: u32,
}

impl TileOrigin {
    /// Returns tile `index` of those of all channels.
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

/// The panels of a block, in the order of its steps of time: of rows, and behind it of columns. They are the stages of
/// its ring.
struct Panels<K> {
    /// Whether the columns are among the rows, whose panel then serves both.
    among: bool,
    /// Addresses of the next chunks of rows, then of columns, that this thread copies.
    sources: [u64; MOST_COPIES],
    kernel: PhantomData<K>,
}

impl<K: Correlator> Shape for Panels<K> {
    const STAGES: u32 = K::TILE.stages;
    const STAGE_BYTES: u32 = K::TILE.stage_bytes();

    #[inline(always)]
    fn barrier() {
        K::barrier();
    }
}

impl<K: Correlator> Panels<K> {
    /// Returns the panels of the first step.
    #[inline(always)]
    fn new(p: &Correlate, place: TileOrigin) -> Self {
        let among = place.column >= place.row;
        let mut panels = Self { among, sources: [0; MOST_COPIES], kernel: PhantomData };
        for copy in 0..K::COPIES {
            panels.sources[copy] = panels.source(p, &place, thread(), copy as u32);
        }
        panels
    }

    /// Address of a thread's chunk `copy` in the first step.
    #[inline(always)]
    fn source(&self, p: &Correlate, place: &TileOrigin, thread: u32, copy: u32) -> u64 {
        let first = copy * K::TILE.inputs_at_once();
        let input = thread / panel::CHUNKS
            + match first.checked_sub(K::TILE.rows) {
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
    fn shared_with_rows(&self, copy: u32) -> bool {
        self.among && copy * K::TILE.inputs_at_once() >= K::TILE.rows
    }

    /// Address of a thread's chunk `copy` in the first stage.
    #[inline(always)]
    fn to(&self, thread: u32, copy: u32) -> u32 {
        // A multiple of eight inputs further, chunks lie at the same places.
        let own = panel::offset(thread / panel::CHUNKS, thread % panel::CHUNKS);
        dynamic_shared() + own + copy * K::TILE.inputs_at_once() * STEP_BYTES
    }

    /// Starts copying part `part` of `parts` of the chunks of a whole step, `steps` steps after the next, to `stage`.
    ///
    /// # Safety
    /// - All threads of the block call it, for the same `stage` and step, with all parts `0..parts` in some order;
    ///   `part < parts`.
    /// - `stage` is the address of a stage of the ring. All warps have passed the barrier behind their last reads of it
    ///   ([`Ring::wait`]).
    /// - The step is whole: the samples have 128 bytes more in each row from the sources on, `steps` steps further. A
    ///   launch keeps them constant and 16-byte aligned ([`Correlate`]).
    #[inline(always)]
    unsafe fn load_part(&self, stage: u32, steps: u32, part: usize, parts: usize) {
        let stage = opaque(stage);
        each!(copy < K::COPIES, {
            if copy % parts == part && !self.shared_with_rows(copy as u32) {
                let from = self.sources[copy] + (steps * STEP_BYTES) as u64;
                // SAFETY: 16 aligned bytes of the stage, which are free and this thread's alone; they come from the
                // row of an input that exists, and the step ends within the row.
                unsafe { cp_async_whole_16(self.to(thread(), copy as u32) + stage, from) };
            }
        });
    }

    /// Advances by `steps`.
    #[inline(always)]
    fn advance(&mut self, steps: u32) {
        for source in &mut self.sources[..K::COPIES] {
            // Addresses that rustc cannot foresee stay where they are: it would keep each of them twice.
            *source += opaque(steps * STEP_BYTES) as u64;
        }
    }

    /// Starts copying all chunks of a step, if there is such a step. Bytes beyond the last time become zero. Takes its
    /// time, and no registers otherwise.
    ///
    /// # Safety
    /// - All threads of the block call it, for the same `step` and `stage`.
    /// - `stage` is the address of a stage of the ring. All warps have passed the barrier behind their last reads of it
    ///   ([`Ring::wait`]).
    /// - A launch keeps the samples constant and 16-byte aligned, `row_bytes` of each row ([`Correlate`]).
    #[inline(always)]
    unsafe fn load_end(&self, p: &Correlate, step: u32, stage: u32) {
        let byte = step * STEP_BYTES;
        if byte >= p.row_bytes {
            return;
        }
        let p = &Correlate { inputs: opaque(p.inputs), ..*p };
        let (place, thread) = (TileOrigin::of(p, K::TILE, opaque(block())), opaque(thread()));
        let left = p.row_bytes.saturating_sub(byte + thread % panel::CHUNKS * panel::CHUNK);
        let bytes = if left < panel::CHUNK { left } else { panel::CHUNK };
        let mut copy = opaque(0);
        while copy < opaque(K::COPIES as u32) && !self.shared_with_rows(copy) {
            // A copy of zero bytes still needs an address inside the samples.
            let from = match bytes {
                0 => p.samples,
                _ => self.source(p, &place, thread, copy) + byte as u64,
            };
            // SAFETY: 16 aligned bytes of the stage, which are free and this thread's alone; `bytes` ends with the row
            // of an input that exists, and where it is zero the address is `p.samples`.
            unsafe { cp_async_16(self.to(thread, copy) + stage, from, bytes) };
            copy += 1;
        }
    }

    /// Starts copying the steps before the last stage's.
    ///
    /// # Safety
    /// - All threads of the block call it, at the beginning of the kernel: nobody has read the stages yet.
    /// - The addresses of copies belong to the first step ([`Panels::new`]).
    /// - A launch keeps the samples constant and 16-byte aligned, `row_bytes` of each row ([`Correlate`]).
    #[inline(always)]
    unsafe fn start(&mut self, p: &Correlate) {
        let ahead = Ring::<Self>::AHEAD;
        // SAFETY: the stages were never read, each step has its own, and steps are copied as whole ones only where the
        // row has all of them.
        unsafe {
            if p.row_bytes >= ahead * STEP_BYTES {
                each!(step < ahead as usize, of 4 {
                    self.load_part(Ring::<Self>::of_lap(step as u32).now, step as u32, 0, 1);
                    cp_async_commit();
                });
            } else {
                let mut step = 0;
                while step < opaque(ahead) {
                    self.load_end(p, step, step * Self::STAGE_BYTES);
                    cp_async_commit();
                    step += 1;
                }
            }
        }
        self.advance(ahead);
    }
}

/// Part of a block's work that a warp does with each step.
trait WarpWork<K: Correlator> {
    /// Whether laps of the ring are straight code.
    const LAPS: bool;

    /// Multiplies the step in `stages.now`, and loads what the step in `stages.next` begins with. `load(part, parts)`
    /// is called for every part `0..parts`, between the products, to copy it of a later step.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together; each other warp of the block takes the same step with its own part,
    ///   and passes its barrier.
    /// - `stages.now` holds a step that was waited for; the part's fragments are the first of it.
    /// - The step in `stages.next` is the next to be waited for ([`Ring::wait`]), or `next` is `now`: its fragments are
    ///   loaded behind that.
    /// - `load` writes nothing to `stages.now` or `stages.next`.
    unsafe fn step(&mut self, stages: Stages, load: impl FnMut(usize, usize));

    /// Has the sums leave the matrix unit, if they do.
    fn leave(&mut self);

    /// Takes all steps: loads, waits, and multiplies.
    ///
    /// # Safety
    /// - All lanes of the warp call it, while the block's other warps call it: each passes the same barriers.
    /// - [`Panels::start`] was called by the whole block with the same `p`; the first step was waited for ([`Ring::wait`]),
    ///   and the part's fragments are the first of it.
    #[inline(always)]
    unsafe fn run(&mut self, p: &Correlate, panels: &mut Panels<K>) {
        let stages = K::TILE.stages;
        let steps = p.row_bytes.div_ceil(STEP_BYTES);
        // Steps that are multiplied while another whole one is copied.
        let whole = (p.row_bytes / STEP_BYTES).saturating_sub(Ring::<Panels<K>>::AHEAD);
        let mut ring = Ring::<Panels<K>>::START;
        // SAFETY: all warps take the same steps, whose barriers stand between the reads of a stage and the next copy
        // to it, and between a copy that was waited for and its reads. `step < whole` is where the copied step is
        // whole.
        unsafe {
            while Self::LAPS && ring.step + stages <= whole {
                each!(index < stages as usize, of 4 {
                    let stages = Ring::<Panels<K>>::of_lap(index as u32);
                    self.step(stages, |part, parts| {
                        panels.load_part(stages.free, index as u32, part, parts);
                    });
                });
                panels.advance(stages);
                ring.step += stages;
            }
            while ring.step < whole {
                let stages = ring.stages();
                self.step(stages, |part, parts| panels.load_part(stages.free, 0, part, parts));
                panels.advance(1);
                ring.advance();
                if ring.step.is_multiple_of(2) {
                    self.leave();
                }
            }
            while ring.step < steps {
                let Stages { now, next, free } = ring.stages();
                panels.load_end(p, ring.ahead(), free);
                // After the last step, any stage will do.
                let next = if ring.step + 1 < steps { next } else { now };
                self.step(Stages { now, next, free }, |_, _| ());
                self.leave();
                ring.advance();
            }
        }
    }
}

/// Part of a warp that has no baselines: it only copies.
struct Idle;

impl<K: Correlator> WarpWork<K> for Idle {
    const LAPS: bool = false;

    #[inline(always)]
    unsafe fn step(&mut self, _stages: Stages, mut load: impl FnMut(usize, usize)) {
        load(0, 1);
        cp_async_commit();
        // SAFETY: the block's other warps wait for the same step; this one reads no stage.
        unsafe { Ring::<Panels<K>>::wait() };
    }

    #[inline(always)]
    fn leave(&mut self) {}
}

/// Addresses from which a warp's lanes load the fragments of the first stage, chunk by chunk.
#[derive(Clone, Copy)]
struct Addresses {
    rows: [u32; FRAGMENTS],
    columns: [u32; FRAGMENTS],
}

impl Addresses {
    /// Returns addresses of rows and columns from inputs `row` and `column` of the stage on.
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

    /// Loads the rows' fragments.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, with the same `stage` and `chunk`.
    /// - `stage` is the address of a stage of the ring; `self` points at `16 K::ROWS` rows of its panels.
    /// - Its step was waited for ([`Ring::wait`]), and is not copied to before the next wait.
    #[inline(always)]
    unsafe fn load_rows<K: Correlator>(&self, stage: u32, chunk: usize) -> [[u32; 4]; MOST_ROWS] {
        let mut rows = [[0; 4]; MOST_ROWS];
        each!(m < K::ROWS, of 2 {
            let at = opaque(self.rows[chunk]) + stage + m as u32 * FRAGMENT;
            // SAFETY: the warp is whole; its 16-byte rows are swizzled chunks of the panel, aligned and complete.
            rows[m] = unsafe { map!(ldmatrix_x4(at), of 4, K::Samples::value) };
        });
        rows
    }

    /// Loads two fragments of columns.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, with the same `stage`, `chunk` and `pair`.
    /// - `stage` is the address of a stage of the ring; `self` points at `16 (pair + 1)` columns of its panels or more.
    /// - Its step was waited for ([`Ring::wait`]), and is not copied to before the next wait.
    #[inline(always)]
    unsafe fn load_columns<S: Multiply>(&self, stage: u32, chunk: usize, pair: usize) -> [u32; 4] {
        let at = opaque(self.columns[chunk]) + stage + pair as u32 * FRAGMENT;
        // SAFETY: the warp is whole; its 16-byte rows are swizzled chunks of the panel, aligned and complete.
        unsafe { map!(ldmatrix_x4(at), of 4, S::value) }
    }
}

/// Part of a warp that has baselines: its rows by columns `C` of the tile.
struct Products<K, C> {
    sums: Sums,
    /// Sums that have left the matrix unit, if sums leave it.
    left: Sums,
    addresses: Addresses,
    /// Fragments that are multiplied next.
    rows: [[u32; 4]; MOST_ROWS],
    columns: [[u32; 4]; MOST_AHEAD],
    kernel: PhantomData<(K, C)>,
}

impl<K: Correlator, C: Columns> Products<K, C> {
    /// Loads what the first step begins with.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together.
    /// - [`Panels::start`] was called by the whole block with the same `p`, and its first step waited for ([`Ring::wait`]).
    #[inline(always)]
    unsafe fn new(p: &Correlate, tile: &Warp, panels: &Panels<K>) -> Self {
        let past = p.row_bytes.wrapping_neg() % STEP_BYTES;
        let addresses = Addresses::new(
            tile.row - tile.place.row,
            if panels.among { tile.place.column - tile.place.row } else { K::TILE.rows },
        );
        let mut columns = [[0; 4]; MOST_AHEAD];
        // SAFETY: the first step is in the first stage, and is not copied to before the next wait.
        unsafe {
            for pair in 0..C::AHEAD {
                columns[pair] = addresses.load_columns::<K::Samples>(0, 0, pair);
            }
            Self {
                sums: Sums::new(K::Samples::start(past)),
                left: Sums::new(0),
                rows: addresses.load_rows::<K>(0, 0),
                addresses,
                columns,
                kernel: PhantomData,
            }
        }
    }

    /// Multiplies all steps, and returns the sums.
    ///
    /// # Safety
    /// - All lanes of the warp call it, while the block's other warps take the same steps with parts of their own.
    /// - [`Panels::start`] was called by the whole block with the same `p`, and its first step waited for ([`Ring::wait`]).
    #[inline(always)]
    unsafe fn of(p: &Correlate, tile: &Warp, panels: &mut Panels<K>) -> Sums {
        // SAFETY: the conditions are the same.
        unsafe {
            let mut part = Self::new(p, tile, panels);
            part.run(p, panels);
            if K::Samples::LEAVE { part.left } else { part.sums }
        }
    }

    /// Adds the products of row fragment `m` and its rotation with a pair of columns.
    #[inline(always)]
    fn add(&mut self, m: usize, a: [u32; 4], rotated: [u32; 4], pair: usize, b: [u32; 4]) {
        let halves = [[b[0], b[1]], [b[2], b[3]]];
        for half in 0..2 {
            K::Samples::multiply(&mut self.sums.real[m][pair][half], a, halves[half]);
        }
        for half in 0..2 {
            let sum = &mut self.sums.imaginary[m][pair][half];
            K::Samples::multiply_rotated(sum, rotated, halves[half]);
        }
    }
}

impl<K: Correlator, C: Columns> WarpWork<K> for Products<K, C> {
    const LAPS: bool = C::LAPS && K::ROWS <= K::Samples::STRAIGHT_ROWS;

    #[inline(always)]
    unsafe fn step(
        &mut self,
        Stages { now, next, .. }: Stages,
        mut load: impl FnMut(usize, usize),
    ) {
        // SAFETY: fragments of `now` are loaded before the wait at its end, those of `next` after it: the last rows,
        // and the columns for which `pair + AHEAD >= PAIRS`, follow the wait.
        unsafe {
            each!(chunk < FRAGMENTS, of 4 {
                let last = chunk == FRAGMENTS - 1;
                let (next, next_chunk) = if last { (next, 0) } else { (now, chunk + 1) };
                load(chunk, FRAGMENTS);
                let a = self.rows;
                let mut rotated = [[0; 4]; MOST_ROWS];
                each!(m < K::ROWS, of 2 {
                    rotated[m] = map!(a[m], of 4, K::Samples::rotate_row);
                });
                if K::Samples::SUMS && C::SUMS_ROWS {
                    each!(m < K::ROWS, of 2 {
                        K::Samples::multiply(&mut self.sums.rows[m], a[m], [K::Samples::IMAGINARY; 2]);
                    });
                }
                each!(pair < C::PAIRS, of 4 {
                    if pair + C::AHEAD == C::PAIRS {
                        if last {
                            cp_async_commit();
                            Ring::<Panels<K>>::wait();
                        }
                        self.rows = self.addresses.load_rows::<K>(next, next_chunk);
                    }
                    let b = self.columns[pair % C::AHEAD];
                    let later = pair + C::AHEAD;
                    self.columns[pair % C::AHEAD] = if later < C::PAIRS {
                        self.addresses.load_columns::<K::Samples>(now, chunk, later)
                    } else {
                        self.addresses.load_columns::<K::Samples>(next, next_chunk, later - C::PAIRS)
                    };
                    each!(m < K::ROWS, of 2 {
                        self.add(m, a[m], rotated[m], pair, b);
                    });
                });
            });
        }
    }

    #[inline(always)]
    fn leave(&mut self) {
        if K::Samples::LEAVE {
            let (sums, left) = (&mut self.sums, &mut self.left);
            each!(m < K::ROWS, of 2 {
                each!(pair < C::PAIRS, of 4 {
                    for half in 0..2 {
                        for word in 0..4 {
                            let place = (m, pair, half, word);
                            flush_sum::<K::Samples>(&mut sums.real, &mut left.real, place);
                            flush_sum::<K::Samples>(&mut sums.imaginary, &mut left.imaginary, place);
                        }
                    }
                });
            });
        }
    }
}

impl Sums {
    /// Returns sums of zero, except that the real parts start from `real`.
    #[inline(always)]
    fn new(real: u32) -> Self {
        Self {
            real: [[[[real; 4]; 2]; PAIRS]; MOST_ROWS],
            imaginary: [[[[0; 4]; 2]; PAIRS]; MOST_ROWS],
            rows: [[0; 4]; MOST_ROWS],
        }
    }

    /// Writes the sums to the visibilities.
    ///
    /// # Safety
    /// - All threads of the block that have sums call it, each with the rest of its warp; the others pass the same
    ///   barrier ([`Correlator::barrier`]). The block reads its panels no more behind it.
    /// - `tile` is the warp's own, and its shared memory has a patch of [`PATCH_BYTES`] for each warp.
    /// - No other warp of the launch writes these baselines; a launch has room for all of them at `visibilities`.
    #[inline(always)]
    unsafe fn store<K: Correlator>(&self, p: &Correlate, tile: &Warp) {
        let TileOrigin { channel, column, .. } = tile.place;
        let visibilities = p.visibilities + 8 * channel as u64 * triangle::baselines(p.inputs);
        let patch = dynamic_shared() + thread() / 32 * PATCH_BYTES;
        K::barrier();
        each!(m < K::ROWS, of 2 {
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
                let add = |address, sum| K::Samples::add_global(address, sum);
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
    unsafe fn store_row_sums<K: Correlator>(&self, p: &Correlate, tile: &Warp) {
        let lane = opaque(lane());
        let sums = p.row_sums + 4 * (tile.place.channel as u64 * p.inputs as u64);
        for half in 0..2 * K::ROWS {
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
/// - All threads of a block of `K::TILE.threads()` call it together, once, in a launch that keeps the conditions of
///   [`Correlate`]: addresses, sizes, and the grid.
/// - The block has `K::TILE.shared_bytes()` of dynamic shared memory, all of it free.
#[inline(always)]
unsafe fn correlate<K: Correlator>(p: &Correlate) {
    const { check(K::TILE) };
    let tile = Warp::of(p, K::TILE, block(), thread());
    let mut panels = Panels::<K>::new(p, tile.place);
    // Pairs of fragments of columns that lie on or left of the diagonal for the last of the rows, if there
    // are any.
    let end = if tile.row < p.inputs { tile.row + K::TILE.warp_rows } else { 0 };
    let pairs = end.saturating_sub(tile.place.column) / 16;

    // SAFETY: the block starts its copies together, waits for the first and passes a barrier. Then every warp takes
    // all steps, with products or without, and one more barrier. Baselines of a warp are its own, and the tile at the
    // left edge is one for each row.
    unsafe {
        panels.start(p);
        Ring::<Panels<K>>::wait();
        let sums = match pairs {
            4.. if tile.place.column > 0 || !K::Samples::SUMS => {
                Products::<K, Inner>::of(p, &tile, &mut panels)
            }
            0 => {
                Idle.run(p, &mut panels);
                return K::barrier();
            }
            1 if K::ROWS == 1 => Products::<K, Edge<1>>::of(p, &tile, &mut panels),
            1 | 2 => Products::<K, Edge<2>>::of(p, &tile, &mut panels),
            3 if K::ROWS == 1 => Products::<K, Edge<3>>::of(p, &tile, &mut panels),
            _ => Products::<K, Edge<4>>::of(p, &tile, &mut panels),
        };
        // Found again, as registers are scarce above.
        let p = &Correlate { inputs: opaque(p.inputs), ..*p };
        let tile = &Warp::of(p, K::TILE, opaque(block()), opaque(thread()));
        if K::Samples::SUMS && tile.place.column == 0 {
            sums.store_row_sums::<K>(p, tile);
        }
        sums.store::<K>(p, tile);
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
    assert!(tile.stages <= 4, "laps of the ring are written out");
}

/// The kernels that [`mma_correlators`] declares.
macro_rules! correlators {
    ($($(#[$attribute:meta])* $kernel:ident $name:ident: $of:literal of $encoding:ident, $samples:ty, $tile:ident,
       $blocks:literal blocks;)*) => {$(
        kernel! {
            $(#[$attribute])*
            fn $name(p: Correlate) {
                struct This;
                impl Correlator for This {
                    type Samples = $samples;
                    const TILE: Tile = $tile;

                    #[inline(always)]
                    fn barrier() {
                        barrier_apart::<{ $tile.threads() }>(STEP);
                    }
                }
                correlate::<This>(&p)
            }
        }
    )*};
}

mma_correlators!(correlators);
