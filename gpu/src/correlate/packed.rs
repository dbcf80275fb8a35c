//! Few-bit correlators without tensor cores: several products in one integer multiply-add.
//!
//! A 32-bit register holds several sums of small products, as fields that are kept apart until one
//! could overflow; then they are split and added to sums of their own. Three ways to pack:
//!
//! | `Packing` | register | multiply-adds a complex product | times until it is split |
//! |---|---|---|---|
//! | `Pairs` | `re' + 2^16 im'` | 2 | 256 (at most 291, as `225 * 291 < 2^16`) |
//! | `Codes` | all three parts of a complex product, 11 bits apart | 1 | 4, 16, 112, 1016 for 4 to 1 bits |
//! | `Signed` | the same of signed values, their fields biased | 1 | 8 |
//!
//! `Pairs` is the kernel of Klages et al., "GPU Kernels for High-Speed 4-Bit Astrophysical Data
//! Processing", section III: tiles of 32 x 32 baselines of one triangle, 8 x 8 threads of 4 x 4
//! complex products, samples unpacked once into shared memory, 8 times at a time. `Codes` is the
//! complex multiply of Sievers, "GPU Correlation". Both multiply unsigned codes; what the offset
//! adds is undone by [`super::offset`]. `Signed` needs no such thing and splits its register by
//! three additions.
//!
//! `Codes` come as native int8 samples too, or in words as they were packed: ten of 3 bits in 32 (Sievers, "1 unsigned int
//! has 10 time samples in it"), real and imaginary parts in words of their own. Memory then holds 6.4 bits a complex
//! sample of 3 bits, native samples 16.
//!
//! Blocks own their baselines for all times, so that results are added without atomics.
//!
//! Bound by integer multiply-adds: a multiprocessor of compute capability 8.0 or 9.0 does 64 a clock,
//! half of its issue rate, so that unpacking and splitting, on other units, run beside them.

use super::triangle;
use crate::{
    abi::correlate::{
        Correlate, PACKED_COMPLEX, PACKED_COMPLEX_3, PACKED_PAIRS, PACKED_TIMES, PACKED_TIMES_3,
        PackedTile, mode, packed_correlators,
    },
    isa::common::{
        barrier, block, dynamic_shared, load_global_2, load_global_4, load_shared_4, prmt,
        read_global_2, store_global_2, store_shared, thread,
    },
    tile::divisor,
};

/// A way to pack samples and the sums of their products.
///
/// Samples come as native int8 (`docs/layouts.md`), two times to a word: `re, im, re, im`.
trait Packing {
    /// Sums of a baseline that have been split.
    type Sums: Copy;
    /// Registers in which the fields of a baseline are summed.
    type Fields: Copy;
    /// Fields before the first product.
    const START: Self::Fields;
    /// Times until fields could overflow: of native samples a divisor or a multiple of [`PACKED_TIMES`].
    const TIMES: u32;
    /// No sums.
    const ZERO: Self::Sums;
    /// A word of two samples as the unconjugated side takes them.
    fn row(word: u32) -> [u32; 2];
    /// A word of two samples as the conjugated side takes them.
    fn column(word: u32) -> [u32; 2];
    /// Adds the product of a row and a column sample.
    fn multiply(fields: Self::Fields, row: u32, column: u32) -> Self::Fields;
    /// Splits the fields and adds them to the sums. `opaque_zero` is [`Correlate::opaque_zero`].
    fn split(sums: Self::Sums, fields: Self::Fields, opaque_zero: u32) -> Self::Sums;
    /// Real and imaginary part, from the sums of `times` times.
    fn finish(sums: Self::Sums, times: u32) -> [u32; 2];
}

/// Order of samples in memory.
trait SampleOrder<P: Packing> {
    /// Words of an input that a thread loads for a stage.
    type Loaded: Copy;
    /// Words of missing samples.
    const NONE: Self::Loaded;
    /// Times of a stage.
    const STAGE: u32;
    /// Times until fields are split: a divisor or a multiple of [`STAGE`](Self::STAGE), at most [`Packing::TIMES`] or
    /// what the fields hold.
    const TIMES: u32;
    /// Stages of a row of `row_bytes` bytes.
    fn steps(row_bytes: u32) -> u32;
    /// Loads the samples of stage `step` of the row at `row`.
    ///
    /// # Safety
    /// The row has such a stage.
    unsafe fn load(row: u64, step: u32) -> Self::Loaded;
    /// Unpacks a stage for the unconjugated side or the conjugated one, and calls `store` for each time.
    fn stage(loaded: Self::Loaded, is_row: bool, store: impl FnMut(u32, u32));
}

/// Native int8 samples, 16 bytes a stage; rows are padded to as much.
struct Native;

impl<P: Packing> SampleOrder<P> for Native {
    type Loaded = [u32; 4];
    const NONE: [u32; 4] = [0; 4];
    const STAGE: u32 = PACKED_TIMES;
    const TIMES: u32 = P::TIMES;

    #[inline(always)]
    fn steps(row_bytes: u32) -> u32 {
        row_bytes.div_ceil(2 * PACKED_TIMES)
    }

    #[inline(always)]
    unsafe fn load(row: u64, step: u32) -> [u32; 4] {
        // SAFETY: within the row, whose end is padded to 16 bytes.
        unsafe { load_global_4(row + 2 * (PACKED_TIMES * step) as u64) }
    }

    #[inline(always)]
    fn stage(loaded: [u32; 4], is_row: bool, mut store: impl FnMut(u32, u32)) {
        for word in 0..4 {
            let pair = if is_row { P::row(loaded[word]) } else { P::column(loaded[word]) };
            for half in 0..2 {
                store(2 * word as u32 + half as u32, pair[half]);
            }
        }
    }
}

/// Pairs of words of codes, real and imaginary parts: a stage is ten codes of 3 bits, else eight. Codes past the last time
/// are zero, and add nothing: the bits of rows are a factor of every product.
struct Words<const BITS: u32>;

impl<const BITS: u32> Words<BITS> {
    /// Stages of a word.
    const STEPS: u32 = if BITS == 3 { 1 } else { 4 / BITS };
}

impl<const BITS: u32> SampleOrder<Codes<BITS>> for Words<BITS> {
    type Loaded = [u32; 2];
    const NONE: [u32; 2] = [0; 2];
    const STAGE: u32 = if BITS == 3 { PACKED_TIMES_3 } else { PACKED_TIMES };
    // Fields of 3 bits hold 1023 / 49 = 20 times.
    const TIMES: u32 = if BITS == 3 { 2 * PACKED_TIMES_3 } else { <Codes<BITS> as Packing>::TIMES };

    #[inline(always)]
    fn steps(row_bytes: u32) -> u32 {
        row_bytes / 8 * Self::STEPS
    }

    #[inline(always)]
    unsafe fn load(row: u64, step: u32) -> [u32; 2] {
        // SAFETY: the pair of words that the stage lies in, 8-byte aligned.
        let words = unsafe { load_global_2(row + 8 * (step / Self::STEPS) as u64) };
        let shift = step % Self::STEPS * PACKED_TIMES * BITS;
        [words[0] >> shift, words[1] >> shift]
    }

    #[inline(always)]
    fn stage([real, imaginary]: [u32; 2], is_row: bool, mut store: impl FnMut(u32, u32)) {
        let imaginary = if is_row { imaginary } else { !imaginary };
        let code = |word: u32, time: u32| word >> (time * BITS) & Codes::<BITS>::LARGEST;
        for time in 0..<Self as SampleOrder<Codes<BITS>>>::STAGE {
            store(time, code(real, time) | code(imaginary, time) << 11);
        }
    }
}

/// The low four bits of bytes, as excess-8 codes: value + 8.
#[inline(always)]
fn excess_8(word: u32) -> u32 {
    (word ^ 0x0808_0808) & 0x0f0f_0f0f
}

/// Excess-8 pairs `re + 2^16 im`. A row sample's parts each multiply a column's pair:
///
/// ```text
/// re (re' + 2^16 im') = re re' + 2^16 re im'
/// im (re' + 2^16 im') = im re' + 2^16 im im'
/// ```
struct Pairs;

impl Packing for Pairs {
    type Sums = [u32; 2];
    type Fields = [u32; 2];
    const START: [u32; 2] = [0; 2];
    const TIMES: u32 = 256;
    const ZERO: [u32; 2] = [0; 2];

    #[inline(always)]
    fn row(word: u32) -> [u32; 2] {
        let codes = excess_8(word);
        [prmt::<0x4140>(codes, 0), prmt::<0x4342>(codes, 0)]
    }

    #[inline(always)]
    fn column(word: u32) -> [u32; 2] {
        Self::row(word)
    }

    #[inline(always)]
    fn multiply([real, imaginary]: [u32; 2], row: u32, column: u32) -> [u32; 2] {
        [
            (row & 0xffff).wrapping_mul(column).wrapping_add(real),
            (row >> 16).wrapping_mul(column).wrapping_add(imaginary),
        ]
    }

    #[inline(always)]
    fn split([real, imaginary]: [u32; 2], [a, b]: [u32; 2], _opaque_zero: u32) -> [u32; 2] {
        [
            real.wrapping_add(a & 0xffff).wrapping_add(b >> 16),
            imaginary.wrapping_add(b & 0xffff).wrapping_sub(a >> 16),
        ]
    }

    #[inline(always)]
    fn finish(sums: [u32; 2], _times: u32) -> [u32; 2] {
        sums
    }
}

/// Sums of three fields, 11 bits apart: of the register, of it without the lowest field, and of the
/// highest field. Each takes one instruction, a shift and an addition at once.
type Thirds = [u32; 3];

/// Adds a register of three fields to their sums. Only an addition of three numbers is sure to leave
/// the multiply-add unit alone, which the assembler takes for additions of two: hence `opaque_zero`.
#[inline(always)]
fn split_thirds([all, upper, highest]: Thirds, fields: u32, opaque_zero: u32) -> Thirds {
    [
        all.wrapping_add(fields).wrapping_add(opaque_zero),
        upper.wrapping_add(fields >> 11),
        highest.wrapping_add(fields >> 22),
    ]
}

/// The sums of the three fields, lowest first.
#[inline(always)]
fn thirds([all, upper, highest]: Thirds) -> [u32; 3] {
    [all.wrapping_sub(upper << 11), upper.wrapping_sub(highest << 11), highest]
}

/// Codes of `BITS` bits, each a value plus `2^(BITS - 1)`. The complement `m - im'`, `m = 2^BITS - 1`,
/// stands for `-im'`, so that no part is negative:
///
/// ```text
/// (re + 2^11 im) (re' + 2^11 (m - im')) =
///     re re' + 2^11 (im re' + re (m - im')) + 2^22 im (m - im')
/// ```
///
/// A time adds at most `2 m^2` to the middle field, which has 11 bits, and `m^2` to the highest, which
/// has 10: both hold `1023 / m^2` times.
struct Codes<const BITS: u32>;

impl<const BITS: u32> Codes<BITS> {
    const LARGEST: u32 = (1 << BITS) - 1;

    #[inline(always)]
    fn codes(word: u32) -> u32 {
        (word ^ (0x0101_0101 << (BITS - 1))) & (0x0101_0101 * Self::LARGEST)
    }

    /// Pairs of codes in bytes to codes 11 bits apart.
    #[inline(always)]
    fn spread(codes: u32) -> [u32; 2] {
        // The code in the second byte is 8 bits up already.
        let word = |pair: u32| (pair & 0xff) + ((pair & 0xff00) << 3);
        [word(codes), word(codes >> 16)]
    }
}

impl<const BITS: u32> Packing for Codes<BITS> {
    type Sums = Thirds;
    type Fields = u32;
    const START: u32 = 0;
    const TIMES: u32 = match BITS {
        4 => 4,
        3 => 16,
        2 => 112,
        _ => 1016,
    };
    const ZERO: Thirds = [0; 3];

    #[inline(always)]
    fn row(word: u32) -> [u32; 2] {
        Self::spread(Self::codes(word))
    }

    #[inline(always)]
    fn column(word: u32) -> [u32; 2] {
        Self::spread(Self::codes(word) ^ (0x0100_0100 * Self::LARGEST))
    }

    #[inline(always)]
    fn multiply(fields: u32, row: u32, column: u32) -> u32 {
        row.wrapping_mul(column).wrapping_add(fields)
    }

    #[inline(always)]
    fn split(sums: Thirds, fields: u32, opaque_zero: u32) -> Thirds {
        split_thirds(sums, fields, opaque_zero)
    }

    #[inline(always)]
    fn finish(sums: Thirds, _times: u32) -> [u32; 2] {
        let [low, middle, high] = thirds(sums);
        [low.wrapping_sub(high), middle]
    }
}

/// Signed 4-bit values, so that there is no offset to undo:
///
/// ```text
/// (re + 2^11 im) (re' - 2^11 im') = re re' + 2^11 (im re' - re im') - 2^22 im im'
/// ```
///
/// Over 8 times the fields stay within -448..512, -960..960 and -512..448: with 512, 1024 and 512 added
/// to begin with they are never negative and fit 11, 11 and 10 bits.
struct Signed;

impl Packing for Signed {
    type Sums = Thirds;
    type Fields = u32;
    const START: u32 = 512 + (1024 << 11) + (512 << 22);
    const TIMES: u32 = 8;
    const ZERO: Thirds = [0; 3];

    #[inline(always)]
    fn row(word: u32) -> [u32; 2] {
        let parts = bytes(word);
        [parts[0].wrapping_add(parts[1] << 11), parts[2].wrapping_add(parts[3] << 11)]
    }

    #[inline(always)]
    fn column(word: u32) -> [u32; 2] {
        let parts = bytes(word);
        [parts[0].wrapping_sub(parts[1] << 11), parts[2].wrapping_sub(parts[3] << 11)]
    }

    #[inline(always)]
    fn multiply(fields: u32, row: u32, column: u32) -> u32 {
        row.wrapping_mul(column).wrapping_add(fields)
    }

    #[inline(always)]
    fn split(sums: Thirds, fields: u32, opaque_zero: u32) -> Thirds {
        split_thirds(sums, fields, opaque_zero)
    }

    #[inline(always)]
    fn finish(sums: Thirds, times: u32) -> [u32; 2] {
        let [low, middle, high] = thirds(sums);
        // The initial values of the lowest and the highest field cancel.
        [low.wrapping_sub(high), middle.wrapping_sub(times / Self::TIMES * 1024)]
    }
}

/// The four bytes of a word, sign-extended.
#[inline(always)]
fn bytes(word: u32) -> [u32; 4] {
    [
        prmt::<0x8880>(word, 0),
        prmt::<0x9991>(word, 0),
        prmt::<0xaaa2>(word, 0),
        prmt::<0xbbb3>(word, 0),
    ]
}

/// `COUNT` words, four together and then four `stride` bytes on.
///
/// # Safety
/// - `address` and `stride` are multiples of 16, and the words lie in the block's shared memory.
/// - They were stored before a barrier, and nobody stores them before the next.
#[inline(always)]
unsafe fn fours<const COUNT: usize>(address: u32, stride: u32) -> [u32; COUNT] {
    let mut words = [0; COUNT];
    for four in 0..COUNT / 4 {
        // SAFETY: 16 aligned bytes that are there and stored.
        let loaded = unsafe { load_shared_4(address + four as u32 * stride) };
        for k in 0..4 {
            words[4 * four + k] = loaded[k];
        }
    }
    words
}

/// Splits the fields of all baselines, which start again.
#[inline(always)]
fn split<P: Packing, const ROWS: usize, const COLUMNS: usize>(
    sums: &mut [[P::Sums; COLUMNS]; ROWS],
    fields: &mut [[P::Fields; COLUMNS]; ROWS],
    opaque_zero: u32,
) {
    each!(row < ROWS, {
        each!(column < COLUMNS, of 4 {
            sums[row][column] = P::split(sums[row][column], fields[row][column], opaque_zero);
            fields[row][column] = P::START;
        });
    });
}

/// The whole of a block's work: `ROWS` x `COLUMNS` baselines a thread (multiples of 4), of which
/// `INPUTS` inputs a thread are staged.
///
/// Long, as staging and multiplying alternate line by line, which hides the loads.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Correlate`]; `shape` is the
///   kernel's tile.
/// - The block's shared memory has the tile's stages, all of them free.
#[inline(always)]
// Clippy warns where `unroll!` is straight code.
#[allow(clippy::manual_is_multiple_of)]
unsafe fn correlate<
    P: Packing,
    S: SampleOrder<P>,
    const ROWS: usize,
    const COLUMNS: usize,
    const INPUTS: usize,
>(
    p: &Correlate,
    shape: PackedTile,
) {
    let threads = shape.threads();
    let tiles = p.inputs.div_ceil(shape.inputs);
    let tiles = divisor(tiles * (tiles + 1) / 2);
    let channel = (block() / tiles) as u64;
    let place = triangle::tile(block() % tiles);
    let (tile_row, tile_column) = (place.row * shape.inputs, place.column * shape.inputs);

    // Threads of a warp share few rows and many columns: 8 across, 4 down.
    let (warp, lane) = (thread() / 32, thread() % 32);
    let warps_across = shape.threads_across() / 8;
    let across = warp % warps_across * 8 + lane % 8;
    let down = warp / warps_across * 4 + lane / 8;
    // Four neighbours at a time, so that 16 bytes are loaded at once.
    let row_of = |row: u32| row / 4 * 4 * shape.threads_down() + 4 * down + row % 4;
    let column_of = |column: u32| column / 4 * 4 * shape.threads_across() + 4 * across + column % 4;

    // A time in shared memory: a word for each row, then one for each column.
    let pitch = 8 * shape.inputs;
    let shared = dynamic_shared();
    let steps = S::steps(p.row_bytes);
    let samples = p.samples + channel * p.inputs as u64 * p.row_stride;

    // The inputs that this thread stages.
    let mut next = [S::NONE; INPUTS];
    let load = |next: &mut [S::Loaded; INPUTS], step: u32| {
        for staged in 0..INPUTS {
            let number = staged as u32 * threads + thread();
            let input = if number < shape.inputs {
                tile_row + number
            } else {
                tile_column + number - shape.inputs
            };
            if step < steps && input < p.inputs {
                let row = samples + input as u64 * p.row_stride;
                // SAFETY: one of the row's stages.
                next[staged] = unsafe { S::load(row, step) };
            }
        }
    };
    load(&mut next, 0);

    let mut sums = [[P::ZERO; COLUMNS]; ROWS];
    let mut fields = [[P::START; COLUMNS]; ROWS];
    let mut step = 0;
    while step < steps {
        // Two stages alternate: this one was read before the last barrier.
        let stage = shared + step % 2 * S::STAGE * pitch;
        for staged in 0..INPUTS {
            let number = staged as u32 * threads + thread();
            S::stage(next[staged], number < shape.inputs, |time, word| {
                // SAFETY: within the stage.
                unsafe { store_shared(stage + time * pitch + 4 * number, word) };
            });
        }
        step += 1;
        load(&mut next, step);
        barrier();
        unroll!(time as u32 < S::STAGE, of 16 {
            // SAFETY: within the stage, stored before the barrier.
            let (rows, columns) = unsafe {
                let at = stage + time * pitch;
                (
                    fours::<ROWS>(at + 4 * row_of(0), 16 * shape.threads_down()),
                    fours::<COLUMNS>(
                        at + 4 * (shape.inputs + column_of(0)),
                        16 * shape.threads_across(),
                    ),
                )
            };
            unroll!(row < ROWS, of 8 {
                unroll!(column < COLUMNS, of 4 {
                    fields[row][column] =
                        P::multiply(fields[row][column], rows[row], columns[column]);
                });
            });
            if S::TIMES <= S::STAGE && (time + 1) % S::TIMES == 0 {
                split::<P, ROWS, COLUMNS>(&mut sums, &mut fields, p.opaque_zero);
            }
        });
        if S::TIMES > S::STAGE && (step % (S::TIMES / S::STAGE) == 0 || step == steps) {
            split::<P, ROWS, COLUMNS>(&mut sums, &mut fields, p.opaque_zero);
        }
    }

    let visibilities = p.visibilities + 8 * channel * triangle::baselines(p.inputs);
    unroll!(row < ROWS, of 8 {
        let i = tile_row + row_of(row as u32);
        unroll!(column < COLUMNS, of 4 {
            let j = tile_column + column_of(column as u32);
            if i < p.inputs && j <= i {
                let address = visibilities + 8 * triangle::baseline(i, j);
                let mut sum = P::finish(sums[row][column], steps * S::STAGE);
                // SAFETY: (i, j) is a baseline, and this thread's alone.
                unsafe {
                    if p.mode == mode::ADD {
                        let before = read_global_2(address);
                        sum = [before[0].wrapping_add(sum[0]), before[1].wrapping_add(sum[1])];
                    }
                    store_global_2(address, sum);
                }
            }
        });
    });
}

/// The kernels that [`packed_correlators`] declares.
macro_rules! correlators {
    ($($(#[$attribute:meta])* $kernel:ident $name:ident: $packing:ident$(<$bits:literal>)? of $source:ident$(<$of:literal>)?, $tile:ident, $blocks:literal blocks;)*) => {$(
        kernel! {
            $(#[$attribute])*
            fn $name(p: Correlate) {
                correlate::<
                    $packing$(<$bits>)?,
                    $source$(<$of>)?,
                    { $tile.rows as usize },
                    { $tile.columns as usize },
                    { 2 * $tile.inputs as usize / $tile.threads() as usize },
                >(&p, $tile)
            }
        }
    )*};
}

packed_correlators!(correlators);
