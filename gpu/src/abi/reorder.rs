//! Corner turns and unpacking: samples as delivered to samples as the tensor cores read them.
//!
//! The kernel-native layout is `[channel][input][time]` with re and im interleaved in one row of
//! `row_stride` bytes. `ci4` and `ci4-offset` become int8, or stay `ci4`, a byte a time, where a kernel
//! unpacks them itself ("nibbles"). What lies between the last time and the
//! end of the row is written as zero.

use super::entry::{Entry, Kernel, kernels, parameters};

/// Inputs of a corner-turn tile.
pub const TILE_INPUTS: u32 = 64;
/// Times of a corner-turn tile.
pub const TILE_TIMES: u32 = 64;

parameters! {
    /// Parameters of every reorder kernel.
    ///
    /// Grid of the `tcn` kernels: one block a tile, in x: input tiles vary fastest, then channels,
    /// then time tiles, `ceil(native_times / TILE_TIMES)` of those. Grid of the `cnt` kernels: any;
    /// the blocks share the 16-byte words of the native rows.
    pub struct Reorder {
        /// Samples as delivered.
        pub source: u64,
        /// Native samples, 16-byte aligned.
        pub native: u64,
        /// Bytes from one native row to the next, a multiple of 16.
        pub row_stride: u64,
        /// Bytes from one input to the next in a `cnt` source.
        pub source_stride: u64,
        /// `N`.
        pub inputs: u32,
        /// `C`.
        pub channels: u32,
        /// `T`.
        pub times: u32,
        /// Times that fit `row_stride`; times from `times` on are written as zero.
        pub native_times: u32,
        /// Xored to each sample byte before nibbles are read as two's complement: 0x88 makes
        /// excess-8 two's complement, 0 leaves it.
        pub flip: u32,
        /// Zero.
        pub reserved: u32,
    }
}

/// A corner turn, whose tile of 32-bit words of two times has rows one word longer than their samples.
const fn corner_turn(name: &'static str) -> Kernel<Reorder> {
    Kernel::new(name, 256).shared_bytes(4 * TILE_INPUTS * (TILE_TIMES / 2 + 1))
}

/// Bytes of a row of the tile that [`WordTurn`] kernels bring through shared memory.
pub const WORD_TILE_BYTES: u32 = 128;

/// A corner turn of 32-bit words, for arrays whose inputs fill whole words, at an address that is a
/// multiple of 4. Grid: as for the `tcn` kernels, with tiles of its own.
#[derive(Clone, Copy, Debug)]
pub struct WordTurn {
    /// The kernel.
    pub kernel: Kernel<Reorder>,
    /// Inputs of a word.
    pub word_inputs: u32,
    /// Inputs of a tile.
    pub tile_inputs: u32,
    /// Times of a tile.
    pub tile_times: u32,
}

impl WordTurn {
    /// The kernel without its parameter type.
    const fn entry(&self) -> Entry {
        self.kernel.entry
    }

    const fn new(name: &'static str, word_inputs: u32, native_bytes: u32) -> Self {
        let tile_inputs = 32 * word_inputs;
        let kernel = Kernel::new(name, 256).shared_bytes(tile_inputs * WORD_TILE_BYTES);
        Self { kernel, word_inputs, tile_inputs, tile_times: WORD_TILE_BYTES / native_bytes }
    }
}

kernels! { CORNER_TURNS:
    /// Corner turn of words of two `ci8` samples.
    TCN_WORDS_CI8: WordTurn = WordTurn::new("reorder_tcn_words_ci8", 2, 2);
    /// Corner turn and unpacking of words of four `ci4` or `ci4-offset` samples.
    TCN_WORDS_CI4: WordTurn = WordTurn::new("reorder_tcn_words_ci4", 4, 2);
    /// Corner turn of words of four `ci4` or `ci4-offset` samples, to `ci4`.
    TCN_WORDS_NIBBLES: WordTurn = WordTurn::new("reorder_tcn_words_nibbles", 4, 1);
    /// Corner turn of words of one `cf16` sample.
    TCN_WORDS_CF16: WordTurn = WordTurn::new("reorder_tcn_words_cf16", 1, 4);
    /// Corner turn of `ci8`.
    TCN_CI8: Kernel<Reorder> = corner_turn("reorder_tcn_ci8");
    /// Corner turn and unpacking of `ci4` and `ci4-offset`.
    TCN_CI4: Kernel<Reorder> = corner_turn("reorder_tcn_ci4");
    /// Corner turn of `ci4` and `ci4-offset`, to `ci4`.
    TCN_NIBBLES: Kernel<Reorder> = corner_turn("reorder_tcn_nibbles");
    /// Padding of time-contiguous `ci8` rows.
    CNT_CI8: Kernel<Reorder> = Kernel::new("reorder_cnt_ci8", 256).sectors(8);
    /// Unpacking and padding of time-contiguous `ci4` and `ci4-offset` rows.
    CNT_CI4: Kernel<Reorder> = Kernel::new("reorder_cnt_ci4", 256).sectors(8);
    /// Padding of time-contiguous `ci4` and `ci4-offset` rows, to `ci4`.
    CNT_NIBBLES: Kernel<Reorder> = Kernel::new("reorder_cnt_nibbles", 256).sectors(8);
    /// Padding of time-contiguous `cf16` rows.
    CNT_CF16: Kernel<Reorder> = Kernel::new("reorder_cnt_cf16", 256);
}

parameters! {
    /// Parameters of [`PAD_ROWS`]. Grid: any; the threads share the words.
    pub struct PadRows {
        /// Rows of `row_bytes` bytes, one behind the other.
        pub source: u64,
        /// Rows of `pitch` bytes, 4-byte aligned; those past `row_bytes` are written as zero.
        pub padded: u64,
        /// How many.
        pub rows: u32,
        /// Bytes of a row.
        pub row_bytes: u32,
        /// Bytes from one padded row to the next, a multiple of 4.
        pub pitch: u32,
        /// Zero.
        pub reserved: u32,
    }
}

kernels! { PADDING:
    /// Rows of bytes, padded to a pitch that they are aligned to.
    PAD_ROWS: Kernel<PadRows> = Kernel::new("reorder_pad_rows", 256).sectors(8);
}

/// Bytes of a tile of a strip.
pub const STRIP_TILE_BYTES: u32 = 8192;
/// Tiles being copied to shared memory.
pub const STRIP_AHEAD: u32 = 3;
/// Threads of a block of [`SHIFT_STRIPS`].
pub const STRIP_THREADS: u32 = 512;

/// A strip of samples with the inputs next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strip {
    /// 32-bit words of a time: 8, 16, 32 or 64.
    pub words: u32,
    /// Tiles that the times of the largest shift fill.
    pub lead: u32,
}

impl Strip {
    /// A strip of `words` words for shifts up to `largest`.
    pub const fn new(words: u32, largest: u32) -> Self {
        let lead = largest.div_ceil(Self { words, lead: 0 }.times());
        Self { words, lead }
    }

    /// Times of a tile.
    pub const fn times(self) -> u32 {
        // Shifts, as kernels cannot panic.
        (STRIP_TILE_BYTES / 4) >> self.words.trailing_zeros()
    }

    /// Bytes of shared memory of a block.
    pub const fn shared_bytes(self) -> u32 {
        self.lead.saturating_add(1 + STRIP_AHEAD).saturating_mul(STRIP_TILE_BYTES)
    }
}

parameters! {
    /// Parameters of the kernels that delay inputs. The window is `history_times` times of history, then
    /// `times` times of the block; time `t` of the output is time `first + t - shift` of it.
    ///
    /// Grid: any.
    pub struct Shift {
        /// History: `history_times` times in the block's layout.
        pub history: u64,
        /// The block: `times` times of `channels` channels and `inputs` inputs.
        pub block: u64,
        /// Output: `out_times` times in the block's layout; 4-byte aligned.
        pub delayed: u64,
        /// A u32 for each input, 0: nothing is shifted.
        pub shifts: u64,
        /// Times of the history.
        pub history_times: u32,
        /// Times of the block.
        pub times: u32,
        /// Times of the output.
        pub out_times: u32,
        /// Time of the window that is the output's first, no less than the largest shift.
        pub first: u32,
        /// `N`.
        pub inputs: u32,
        /// `C`.
        pub channels: u32,
        /// Bytes of a sample: 1, 2 or 4.
        pub element: u32,
        /// [`Strip::words`], and [`Strip::lead`] for the largest shift.
        pub words: u32,
        /// See there.
        pub lead: u32,
        /// Zero.
        pub reserved: u32,
    }
}

/// Bytes of a row that a warp of [`SHIFT_ROWS`] takes at once.
pub const SHIFT_PIECE_BYTES: u32 = 8192;
kernels! { SHIFTS:
    /// Delays of time-contiguous rows.
    SHIFT_ROWS: Kernel<Shift> = Kernel::new("reorder_shift_rows", 256).sectors(8);
    /// Delays of samples with the inputs next to each other, in strips; a time's bytes, and all addresses, are
    /// multiples of 4. To be launched with the shared memory that [`Strip::shared_bytes`] gives.
    SHIFT_STRIPS: Kernel<Shift> = Kernel::new("reorder_shift_strips", STRIP_THREADS).min_blocks(2);
    /// Delays of any samples with the inputs next to each other.
    SHIFT_ELEMENTS: Kernel<Shift> = Kernel::new("reorder_shift_elements", 256).sectors(8);
}

parameters! {
    /// Parameters of [`GATHER`]. Grid: any; the threads share the runs.
    pub struct Gather {
        /// `rows` rows of `times` times of `parts` runs of `run` bytes.
        pub source: u64,
        /// `rows` rows of `chosen` times.
        pub gathered: u64,
        /// Lists of `chosen` u32 each: which of a row's times, or [`NO_TIME`]. Run `part` of row `row` has list
        /// `row / rows_of_list + part`.
        pub numbers: u64,
        /// Rows.
        pub rows: u32,
        /// Times of a row of the source.
        pub times: u32,
        /// Times that are chosen.
        pub chosen: u32,
        /// Runs of a time; more than one where there is one row, and each has a list.
        pub parts: u32,
        /// Rows of a list.
        pub rows_of_list: u32,
        /// Bytes of a run.
        pub run: u32,
        /// Four bytes that are written for [`NO_TIME`].
        pub zero: u32,
        /// Zero.
        pub reserved: u32,
    }
}

/// A time of [`Gather::numbers`] that no list has.
pub const NO_TIME: u32 = u32::MAX;

kernels! { GATHERING:
    /// Chosen times of a block, of all channels or of each its own, copied together.
    GATHER: Kernel<Gather> = Kernel::new("reorder_gather", 256).sectors(8);
}

parameters! {
    /// Parameters of [`QUANTISE`]. Grid: any; the threads share the samples.
    pub struct Quantise {
        /// Complex voltages, pairs of f32, 16-byte aligned.
        pub voltages: u64,
        /// `ci4` samples, 4-byte aligned.
        pub quantised: u64,
        /// How many.
        pub samples: u64,
        /// Bits of an f32: steps in a volt.
        pub scale: u32,
        /// Bits of a value, 1 to 4.
        pub bits: u32,
    }
}

kernels! { QUANTISING:
    /// Few-bit quantisation.
    QUANTISE: Kernel<Quantise> = Kernel::new("reorder_quantise", 256);
}

/// Times of a word of bits: 16 bytes of real parts, then 16 of imaginary ones.
pub const PLANE_TIMES: u32 = 128;
/// Rows of a tile of [`PLANES_WORDS_1`].
pub const PLANE_ROWS: u32 = 128;
/// Words of a row of such a tile, a warp each.
pub const PLANE_WORDS: u32 = 4;

parameters! {
    /// Parameters of the kernels that make planes.
    ///
    /// Grid of [`PLANES_WORDS_1`]: one block a tile, in x: row tiles vary fastest. Grid of [`PLANES_1`]: any; the
    /// threads share 16 times of a row each.
    pub struct Planes {
        /// `ci4` or `ci4-offset` samples of 1- or 2-bit values.
        pub source: u64,
        /// Words `[row][plane][word]`, 32 bytes each, 16-byte aligned. Bits after the last time are clear.
        pub words: u64,
        /// Bytes from one row of the source to the next; 1 of [`PLANES_WORDS_1`].
        pub row_stride: u64,
        /// Bytes from one time to the next; of [`PLANES_WORDS_1`] a multiple of 4, as is the source's address.
        pub time_stride: u64,
        /// `C N`; of [`PLANES_WORDS_1`] a multiple of 4.
        pub rows: u32,
        /// `T`, at least 1.
        pub times: u32,
        /// Mask that each sample byte is XORed with to make two's complement nibbles excess-8 codes: 0x88 for `ci4`, 0 for
        /// `ci4-offset`.
        pub flip: u32,
        /// Zero.
        pub reserved: u32,
    }
}

kernels! { MAKING_PLANES:
    /// Planes of rows next to each other, a time's together, of 1 bit.
    PLANES_WORDS_1: Kernel<Planes> = Kernel::new("reorder_planes_words_1", 32 * PLANE_WORDS);
    /// The same of 2 bits.
    PLANES_WORDS_2: Kernel<Planes> = Kernel::new("reorder_planes_words_2", 32 * PLANE_WORDS);
    /// Planes of samples in any order, of 1 bit.
    PLANES_1: Kernel<Planes> = Kernel::new("reorder_planes_1", 256).sectors(32);
    /// The same of 2 bits.
    PLANES_2: Kernel<Planes> = Kernel::new("reorder_planes_2", 256).sectors(32);
}

/// Bytes of a [`PayloadPiece`] at most: those of a jumbo frame.
pub const PIECE_BYTES: u32 = 9216;

parameters! {
    /// Piece of a payload `[channel][time][part]` of 2-byte samples, and where the payload goes.
    pub struct PayloadPiece {
        /// First byte, wherever it lies; the whole 16 bytes that it and the last one lie in can be read.
        pub source: u64,
        /// Place of the payload's first sample, 2-byte aligned.
        pub target: u64,
        /// Bytes of the payload before the piece.
        pub offset: u32,
        /// Bytes of the piece, at most [`PIECE_BYTES`].
        pub bytes: u32,
    }
}

parameters! {
    /// Parameters of [`PLACE`]. Grid: any; the blocks share the pieces.
    pub struct PlacePayloads {
        /// A [`PayloadPiece`] for each of `count`, 8-byte aligned. No two have a byte of a payload in common.
        pub pieces: u64,
        /// Bytes from one row of the target to the next.
        pub row: u64,
        /// Number of pieces.
        pub count: u32,
        /// Rows of the target from one channel to the next.
        pub inputs: u32,
        /// Times of a payload.
        pub times: u32,
        /// Parts of a time, each of which goes to a row of its own.
        pub parts: u32,
    }
}

kernels! { PLACING:
    /// Moves payloads of packets from where they were received to `target[channel][part][time]`. The declared bank conflicts
    /// assume four parts.
    PLACE: Kernel<PlacePayloads> =
        Kernel::new("reorder_place", 256).shared_bytes(PIECE_BYTES + 48).conflicts(2);
}

parameters! {
    /// Rows of bytes that are to have one value.
    pub struct Rectangle {
        /// Byte of the target at which the first row begins.
        pub first: u64,
        /// Bytes from one row to the next.
        pub pitch: u64,
        /// Bytes of a row.
        pub width: u64,
        /// Number of rows.
        pub rows: u64,
    }
}

parameters! {
    /// Parameters of [`FILL`]. Grid: any; the blocks share the `count << parts` parts of rectangles, at most 2^31.
    pub struct FillRectangles {
        /// Target.
        pub target: u64,
        /// A [`Rectangle`] for each of `count`, 8-byte aligned.
        pub rectangles: u64,
        /// Number of rectangles.
        pub count: u32,
        /// Binary logarithm of the parts of a rectangle, at most 16.
        pub parts: u32,
        /// Value of the bytes, below 256.
        pub byte: u32,
        /// Bytes of a store, 16, 4 or 1: a divisor of the target, and of each rectangle's first byte, pitch and width. Where
        /// rectangles overlap, stores are to the same bytes.
        pub word: u32,
    }
}

kernels! { FILLING:
    /// Gives rectangles of bytes one value.
    FILL: Kernel<FillRectangles> = Kernel::new("reorder_fill", 256);
}

/// Entries of all.
pub(super) const ENTRIES: &[&[Entry]] =
    &[CORNER_TURNS, PADDING, SHIFTS, GATHERING, QUANTISING, MAKING_PLANES, PLACING, FILLING];
