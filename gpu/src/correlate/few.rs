//! The correlator of few inputs: up to 64, on `mma.sync` (sm_80 and later).
//!
//! A warp has 64 inputs: one channel of up to 64, two of up to 32, or four of up to 16, and all their baselines.
//! So samples are read once, and only fragments on the diagonal or left of it are multiplied, 16 x 8 baselines each.
//! Real and imaginary parts are computed as in [`super::mma`], the rotation as in [`super::samples`]. Warps share
//! nothing: each has a ring of stages of 64 bytes of time, copied asynchronously two ahead.
//!
//! ```text
//! samples as delivered [time][input]          rows of time [input][time]
//! a stage: times x 64 inputs                  64 inputs x 64 bytes
//!
//!          inputs 0-7  8-15  16-23 ...                 bytes 0-15 16-31 32-47 48-63
//! times  0-7    m0      m1    (f = 1)         f = 0  0-7   m0    m2   (q = 1)
//!       8-15    m2      m3                           8-15  m1    m3
//!      16-23   (q = 1)                        f = 1
//!
//! ldmatrix, transposing 16-bit samples        ldmatrix
//! ```
//!
//! Matrices `m0..m3` are a fragment of 16 inputs by 16 times of `ci8`: rows as it is, and columns as two
//! of 8: words 0 and 2, 1 and 3. Of nibbles two inputs are 16 bits as delivered; a word is unpacked to two, at
//! the top of bytes ([`TopNibbles`]), and four matrices are two fragments.
//!
//! Chunks of 16 bytes change places within a row of shared memory by its number, so that eight rows read at
//! one chunk take all banks.
//!
//! With too few channels for all warps of a GPU, time samples are cut into slices whose sums are added in
//! memory: integers, in any order the same.
//!
//! Bound by memory with 16 inputs, by instructions with 64: 16 times of 64 inputs are 2 KB, which an H200 brings to a
//! multiprocessor in 109 cycles; its schedulers take some 160 for 64 inputs, `mma` 60 of them and copies 80.

use core::marker::PhantomData;

use crate::{
    abi::correlate::{
        CorrelateFew, FEW_INPUTS, FEW_STAGE_BYTES, FEW_STAGES, FEW_WARPS, few_correlators, mode,
    },
    correlate::{
        samples::{Int8, Samples, TopNibbles},
        triangle,
    },
    isa::{
        common::{
            add_global, block, dp4a, dynamic_shared, lane, load_global_8, load_global_16,
            load_shared_2, opaque, prmt, shfl_xor, store_global, store_global_2, store_shared,
            store_shared_2, store_shared_4, store_shared_8, store_shared_16, thread, warp_barrier,
        },
        sm_80::{
            cp_async_4, cp_async_16, cp_async_whole_16, ldmatrix_x4, ldmatrix_x4_trans,
            mma_m16n8k32_s8,
        },
    },
    tile::{
        divisor, fragment,
        panel::CHUNK,
        ring::{self, Shape, Work},
    },
};

/// Bytes of time of an input in a stage.
const STAGE_TIME: u32 = FEW_STAGE_BYTES / FEW_INPUTS;

/// Samples in memory, and how a stage of them becomes fragments.
trait Form {
    /// Operands of the products.
    type Samples: Samples;
    /// Bytes of a sample.
    const BYTES: u32;
    /// Whether they are rows of time.
    const ROWS: bool;
    /// Fragments in four matrices.
    const FRAGMENTS: usize = 2 / Self::BYTES as usize;
    /// Times of a stage.
    const TIMES: u32 = STAGE_TIME / Self::BYTES;
    /// Bytes of a row of a stage: a time of all inputs, or an input's times.
    const ROW: u32 = if Self::ROWS { STAGE_TIME } else { FEW_INPUTS * Self::BYTES };

    /// Offset of chunk `chunk` of a row.
    #[inline(always)]
    fn chunk(row: u32, chunk: u32) -> u32 {
        let turn = if Self::ROW == 8 * CHUNK { row % 8 } else { row / 2 % 4 };
        row * Self::ROW + (chunk ^ turn) * CHUNK
    }

    /// Whether fragments lie in memory as they are multiplied, so that columns are loaded by themselves: made of the
    /// rows' they would cost two moves for each product.
    const APART: bool = Self::BYTES == 2;

    /// Offset of the row that the lane gives to `ldmatrix` for the first four matrices of a stage. `columns`: matrices 1
    /// and 2 change places.
    #[inline(always)]
    fn lane_offset(lane: u32, columns: bool) -> u32 {
        let (matrix, row) = (lane / 8, lane % 8);
        let matrix = if columns { matrix % 2 * 2 + matrix / 2 } else { matrix };
        if Self::ROWS {
            Self::chunk(matrix % 2 * 8 + row, matrix / 2)
        } else if Self::BYTES == 2 {
            Self::chunk(matrix / 2 * 8 + row, matrix % 2)
        } else {
            Self::chunk(matrix * 8 + row, 0)
        }
    }

    /// The matrices of inputs `16 f..` in half `q` of a stage, from what the lane's address is for the first.
    #[inline(always)]
    fn address(first: u32, f: u32, q: u32) -> u32 {
        if Self::ROWS {
            (first ^ (2 * CHUNK * q)) + f * 16 * Self::ROW
        } else {
            (first ^ (16 * Self::BYTES * f)) + q * FEW_STAGE_BYTES / 2
        }
    }

    /// Four matrices.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together.
    /// - `address` is the lane's own of a fragment ([`address`](Self::address)) in a stage whose copies have come, and are
    ///   visible to the warp.
    #[inline(always)]
    unsafe fn load(address: u32) -> [u32; 4] {
        // SAFETY: the warp is whole; each lane's 16 bytes are a chunk of the stage, aligned and complete.
        unsafe { if Self::ROWS { ldmatrix_x4(address) } else { ldmatrix_x4_trans(address) } }
    }

    /// Fragment `n` of four matrices. `excess` is [`CorrelateFew::excess`].
    fn fragment(matrices: [u32; 4], n: usize, excess: u32) -> [u32; 4];

    /// Index among 16 inputs of row `row` of half `half` of a fragment.
    #[inline(always)]
    fn input(half: u32, row: u32) -> u32 {
        8 * half + row
    }
}

/// Nibbles of four samples, the real ones and the imaginary ones, at the top of bytes.
#[inline(always)]
fn nibbles(word: u32, excess: u32) -> [u32; 2] {
    [(word ^ excess) & 0xf0f0_f0f0, ((word << 4) ^ excess) & 0xf0f0_f0f0]
}

/// `ci8`, `[time][channel][input]`.
struct DeliveredBytes;

impl Form for DeliveredBytes {
    type Samples = Int8;
    const BYTES: u32 = 2;
    const ROWS: bool = false;

    #[inline(always)]
    fn fragment(matrices: [u32; 4], _: usize, _: u32) -> [u32; 4] {
        matrices
    }
}

/// `ci8`, rows of time.
struct RowsOfBytes;

impl Form for RowsOfBytes {
    type Samples = Int8;
    const BYTES: u32 = 2;
    const ROWS: bool = true;

    #[inline(always)]
    fn fragment(matrices: [u32; 4], _: usize, _: u32) -> [u32; 4] {
        matrices
    }
}

/// `ci4` and `ci4-offset`, `[time][channel][input]`. A word is two inputs at two times; the first half of a fragment
/// is the even inputs.
struct DeliveredNibbles;

impl Form for DeliveredNibbles {
    type Samples = TopNibbles;
    const BYTES: u32 = 1;
    const ROWS: bool = false;

    #[inline(always)]
    fn fragment(matrices: [u32; 4], n: usize, excess: u32) -> [u32; 4] {
        let [real, imaginary] = nibbles(matrices[2 * n], excess);
        let [later_real, later_imaginary] = nibbles(matrices[2 * n + 1], excess);
        [
            prmt::<0x6240>(real, imaginary),
            prmt::<0x7351>(real, imaginary),
            prmt::<0x6240>(later_real, later_imaginary),
            prmt::<0x7351>(later_real, later_imaginary),
        ]
    }

    #[inline(always)]
    fn input(half: u32, row: u32) -> u32 {
        2 * row + half
    }
}

/// `ci4` and `ci4-offset`, rows of time. A word is four times: two of each fragment.
struct RowsOfNibbles;

impl Form for RowsOfNibbles {
    type Samples = TopNibbles;
    const BYTES: u32 = 1;
    const ROWS: bool = true;

    #[inline(always)]
    fn fragment(matrices: [u32; 4], n: usize, excess: u32) -> [u32; 4] {
        matrices.map(|word| {
            let low = word << 4;
            let pairs = if n == 0 { prmt::<0x5140>(word, low) } else { prmt::<0x7362>(word, low) };
            (pairs ^ excess) & 0xf0f0_f0f0
        })
    }
}

/// Most fragments of 16 rows.
const MOST: usize = 4;

/// Sums of a channel of `16 F` inputs: fragments of 16 rows by 8 columns, on the diagonal and left of it.
#[derive(Clone, Copy)]
struct Sums {
    real: [[[[u32; 4]; 2]; MOST]; MOST],
    imaginary: [[[[u32; 4]; 2]; MOST]; MOST],
    /// Sums of the imaginary parts of the lane's share of the rows of a fragment's halves.
    rows: [[i32; 2]; MOST],
}

/// Part of the samples that a warp correlates.
#[derive(Clone, Copy)]
struct WarpSamples<'a> {
    p: &'a CorrelateFew,
    /// Its ring.
    ring: u32,
    /// First of its channels, and how many.
    first_channel: u32,
    channels: u32,
    /// Most inputs of a channel.
    room: u32,
}

impl WarpSamples<'_> {
    /// Copies stage `stage`, which begins at time `first`, of samples as delivered. What lies beyond the last time
    /// becomes zero.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, with the same arguments.
    /// - `stage` is the address of one of the ring's stages, which no lane reads any more: all have passed a barrier since.
    /// - The samples are as [`CorrelateFew`] says, and the part's channels are there.
    #[inline(always)]
    unsafe fn copy_delivered<F: Form>(&self, stage: u32, first: u32) {
        let p = self.p;
        let row = p.inputs * F::BYTES;
        let units = divisor(self.channels * row / divisor(p.unit));
        // Added anew for each stage, as registers are scarce.
        let start = p.samples + (opaque(self.first_channel) * row) as u64;
        // Address of byte `byte` of a time sample.
        let place = |time: u32, byte: u32| {
            let (channel, within) = (byte / divisor(row), byte % divisor(row));
            let byte = channel * self.room * F::BYTES + within;
            stage + F::chunk(time, byte / CHUNK) + byte % CHUNK
        };
        if p.unit >= 4 {
            // A pass: as many whole times as there are lanes for.
            let together = divisor(32 / units);
            let (time, byte) = (lane() / units, lane() % units * p.unit);
            if time >= together.get() {
                return;
            }
            let (channel, within) = (byte / divisor(row), byte % divisor(row));
            let byte_of_row = channel * self.room * F::BYTES + within;
            let (chunk, rest) = (byte_of_row / CHUNK, byte_of_row % CHUNK);
            let mut time = time;
            let mut from = start + (first + time) as u64 * p.stride + byte as u64;
            while time < F::TIMES {
                let to = stage + F::chunk(time, chunk) + rest;
                // SAFETY: within the stage; a time that is there.
                unsafe {
                    if first + time < p.times {
                        if p.unit == 16 {
                            cp_async_whole_16(to, from);
                        } else {
                            cp_async_4(to, from, 4);
                        }
                    } else {
                        let mut word = 0;
                        while word < p.unit {
                            store_shared(to + word, p.excess);
                            word += 4;
                        }
                    }
                }
                time += together.get();
                from += together.get() as u64 * p.stride;
            }
        } else {
            let mut unit = lane();
            while unit < units.get() {
                let byte = unit * F::BYTES;
                let mut time = 0;
                // Several on their way before the first is waited for.
                while time < opaque(F::TIMES) {
                    let mut samples = [p.excess; 4];
                    for n in 0..4 {
                        let at = first + time + n as u32;
                        if at < p.times {
                            let from = start + at as u64 * p.stride + byte as u64;
                            // SAFETY: a time that is there.
                            samples[n] = unsafe {
                                if F::BYTES == 2 {
                                    load_global_16(from)
                                } else {
                                    load_global_8(from)
                                }
                            };
                        }
                    }
                    for n in 0..4 {
                        let to = place(time + n as u32, byte);
                        // SAFETY: within the stage.
                        unsafe {
                            if F::BYTES == 2 {
                                store_shared_16(to, samples[n] as u16);
                            } else {
                                store_shared_8(to, samples[n]);
                            }
                        }
                    }
                    time += 4;
                }
                unit += 32;
            }
        }
    }

    /// Copies stage `stage`, which begins at time `first`, of rows of time. Chunks beyond the last time become
    /// zero bytes.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, with the same arguments.
    /// - `stage` is the address of one of the ring's stages, which no lane reads any more: all have passed a barrier since.
    /// - The samples are as [`CorrelateFew`] says, and the part's channels are there.
    #[inline(always)]
    unsafe fn copy_rows<F: Form>(&self, stage: u32, first: u32) {
        const CHUNKS: u32 = STAGE_TIME / CHUNK;
        let p = self.p;
        // Values that follow from the lane take no register between stages.
        let lane = opaque(lane());
        let chunk = lane % CHUNKS;
        let byte = first * F::BYTES + chunk * CHUNK;
        let left = (p.times * F::BYTES).saturating_sub(byte);
        let bytes = if left < CHUNK { left } else { CHUNK };
        let mut row = lane / CHUNKS;
        // A loop, so that addresses take few registers.
        while row < opaque(FEW_INPUTS) {
            let (channel, input) = (row / divisor(self.room), row % divisor(self.room));
            if channel < self.channels && input < p.inputs {
                let of = (self.first_channel + channel) as u64 * p.inputs as u64 + input as u64;
                // A copy of zero bytes still needs an address inside the samples.
                let from = match bytes {
                    0 => p.samples,
                    _ => p.samples + of * p.stride + byte as u64,
                };
                // SAFETY: within the stage; bytes that are there.
                unsafe { cp_async_16(stage + F::chunk(row, chunk), from, bytes) };
            }
            row += 32 / CHUNKS;
        }
    }

    /// Copies stage `stage`, which begins at time `first`.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, with the same arguments.
    /// - `stage` is the address of one of the ring's stages, which no lane reads any more: all have passed a barrier since.
    /// - The samples are as [`CorrelateFew`] says, and the part's channels are there.
    #[inline(always)]
    unsafe fn copy<F: Form>(&self, stage: u32, first: u32) {
        // SAFETY: the conditions are the same.
        unsafe {
            if F::ROWS {
                self.copy_rows::<F>(stage, first);
            } else {
                self.copy_delivered::<F>(stage, first);
            }
        }
    }
}

/// Adds a stage's products of the channels of a warp, of `FRAGMENTS` fragments of inputs each.
///
/// # Safety
/// - All 32 lanes of the warp call it together, with the same arguments but for `lane_offset`, which is the lane's own
///   ([`Form::lane_offset`]).
/// - `stage` is the address of a stage whose copies have come, and are visible to the warp.
#[inline(always)]
unsafe fn multiply<F: Form, const FRAGMENTS: usize>(
    sums: &mut [Sums; MOST],
    stage: u32,
    lane_offset: u32,
    excess: u32,
) {
    let apart = F::APART && FRAGMENTS > 1;
    let columns = if apart { stage + F::lane_offset(opaque(lane()), true) } else { 0 };
    let first = stage + lane_offset;
    // 0, of which the assembler does not know.
    let none = excess & 1;
    let mut q = 0;
    while q < 2 {
        // Addresses are made anew, as registers are scarce.
        let (first, columns) = (opaque(first), if apart { opaque(columns) } else { 0 });
        each!(channel < MOST / FRAGMENTS, of 4 {
            each!(n < F::FRAGMENTS, of 2 {
                // Columns: of either half, two words.
                let mut b = [[0; 4]; MOST];
                // Loaded for each fragment anew: registers are scarcer.
                each!(i < FRAGMENTS, of 4 {
                    let f = (channel * FRAGMENTS + i) as u32;
                    // SAFETY: the warp is whole; a fragment of the stage.
                    b[i] = unsafe {
                        if apart {
                            F::load(F::address(columns, f, q))
                        } else {
                            let a = F::fragment(F::load(F::address(first, f, q)), n, excess);
                            [a[0], a[2], a[1], a[3]]
                        }
                    };
                });
                each!(i < FRAGMENTS, of 4 {
                    let f = (channel * FRAGMENTS + i) as u32;
                    let a = if apart {
                        // SAFETY: the warp is whole; a fragment of the stage.
                        unsafe { F::load(F::address(first, f, q)) }
                    } else {
                        let rows = [b[i][0], b[i][2], b[i][1], b[i][3]];
                        // An instruction that is no move, as moves are repeated for each product. 64 inputs have no
                        // registers for it.
                        if FRAGMENTS == 2 { rows.map(|word| word ^ none) } else { rows }
                    };
                    let rotated = a.map(F::Samples::rotate_row);
                    let Sums { real, imaginary, rows } = &mut sums[channel];
                    for word in 0..4 {
                        let sum = &mut rows[i][word % 2];
                        *sum = dp4a(a[word], F::Samples::IMAGINARY, *sum);
                    }
                    each!(j < i + 1, of 4 {
                        for half in 0..2 {
                            let b = [b[j][2 * half], b[j][2 * half + 1]];
                            mma_m16n8k32_s8(&mut real[i][j][half], a, b);
                            mma_m16n8k32_s8(&mut imaginary[i][j][half], rotated, b);
                        }
                    });
                });
            });
        });
        q += 1;
    }
}

/// Writes the sums of a channel. `past` is subtracted from real parts.
///
/// # Safety
/// - All 32 lanes of the warp call it together, with the same arguments but for their `sums`.
/// - `patch` is a multiple of 8, the address of 16 rows of `16 FRAGMENTS` pairs of words of shared memory of the warp alone.
/// - `p.visibilities` and `p.row_sums` are as [`CorrelateFew`] says, and `channel` is below `p.channels`. With
///   [`mode::STORE`] no other warp writes the channel; with [`mode::ADD`] others may add to it.
#[inline(always)]
unsafe fn store<F: Form, const FRAGMENTS: usize>(
    p: &CorrelateFew,
    channel: u32,
    patch: u32,
    past: u32,
    sums: &Sums,
) {
    let (lane, adds) = (opaque(lane()), opaque(p.mode) == mode::ADD);
    let columns = 16 * FRAGMENTS as u32;
    let visibilities = p.visibilities + 8 * channel as u64 * triangle::baselines(p.inputs);
    let scaled = |sum: u32| (sum as i32 >> (2 * F::Samples::SCALE)) as u32;
    let put = |address: u64, value: u32| {
        // SAFETY: the sum of a row, of which one lane of the warp has charge.
        unsafe {
            if adds {
                add_global(address, value);
            } else {
                store_global(address, value);
            }
        }
    };
    each!(i < FRAGMENTS, of 4 {
        warp_barrier();
        each!(j < i + 1, of 4 {
            for half in 0..2 {
                for word in 0..4 {
                    let place = fragment::accumulator(lane, word);
                    let row = F::input(place.row / 8, place.row % 8);
                    let column = 16 * j as u32 + F::input(half, place.column);
                    let at = patch + 8 * (row * columns + column);
                    let real = scaled(sums.real[i][j][half as usize][word as usize]).wrapping_sub(past);
                    let imaginary = scaled(sums.imaginary[i][j][half as usize][word as usize]);
                    // SAFETY: within the patch.
                    unsafe { store_shared_2(at, [real, imaginary]) };
                }
            }
        });
        warp_barrier();
        let mut row = 0;
        while row < 16 {
            let input = 16 * i as u32 + row;
            let mut column = lane;
            while input < p.inputs && column <= input {
                let address = visibilities + 8 * triangle::baseline(input, column);
                // SAFETY: within the patch; a baseline.
                unsafe {
                    let sum = load_shared_2(patch + 8 * (row * columns + column));
                    if adds {
                        add_global(address, sum[0]);
                        add_global(address + 4, sum[1]);
                    } else {
                        store_global_2(address, sum);
                    }
                }
                column += 32;
            }
            row += 1;
        }
        for half in 0..2 {
            let mut sum = sums.rows[i][half] as u32;
            sum = sum.wrapping_add(shfl_xor::<1>(sum));
            sum = sum.wrapping_add(shfl_xor::<2>(sum));
            let input = 16 * i as u32 + F::input(half as u32, lane / 4);
            if lane.is_multiple_of(4) && input < p.inputs {
                let sum = (sum as i32 >> F::Samples::SCALE) as u32;
                put(p.row_sums + 4 * (channel as u64 * p.inputs as u64 + input as u64), sum);
            }
        }
    });
}

/// A slice of the times of a warp's channels, and its sums.
struct Slice<'a, F, const FRAGMENTS: usize> {
    part: &'a WarpSamples<'a>,
    /// Number of stages.
    stages: u32,
    /// First time of the stage that is loaded next.
    next: u32,
    /// What the lane's address of the first matrices adds to that of a stage.
    lane_offset: u32,
    sums: [Sums; MOST],
    form: PhantomData<F>,
}

impl<F: Form, const FRAGMENTS: usize> Shape for Slice<'_, F, FRAGMENTS> {
    const STAGES: u32 = FEW_STAGES;
    const STAGE_BYTES: u32 = FEW_STAGE_BYTES;

    #[inline(always)]
    fn barrier() {
        warp_barrier();
    }
}

impl<F: Form, const FRAGMENTS: usize> Work for Slice<'_, F, FRAGMENTS> {
    #[inline(always)]
    fn steps(&self) -> u32 {
        self.stages
    }

    #[inline(always)]
    unsafe fn load(&mut self, _: u32, stage: u32) {
        // SAFETY: the warp is whole, and the stage one of its own, which no lane reads.
        unsafe { self.part.copy::<F>(self.part.ring + stage, self.next) };
        self.next += F::TIMES;
    }

    #[inline(always)]
    unsafe fn multiply(&mut self, _: u32, stage: u32) {
        let WarpSamples { p, ring, .. } = *self.part;
        // SAFETY: the warp is whole, and the stage complete.
        unsafe {
            multiply::<F, FRAGMENTS>(&mut self.sums, ring + stage, self.lane_offset, p.excess);
        }
    }
}

/// The whole of a warp's work.
///
/// # Safety
/// - All 32 lanes of the warp call it together, once, in a launch that keeps the conditions of [`CorrelateFew`].
/// - Each warp of the block has `FEW_STAGES * FEW_STAGE_BYTES` of dynamic shared memory, all of it free.
#[inline(always)]
unsafe fn correlate<F: Form, const FRAGMENTS: usize>(p: &CorrelateFew) {
    let together = (MOST / FRAGMENTS) as u32;
    let warp = thread() / 32;
    let index = block() * FEW_WARPS + warp;
    let (group, slice) = (index / divisor(p.slices), index % divisor(p.slices));
    let first_channel = group * together;
    if first_channel >= p.channels {
        return;
    }
    let left = p.channels - first_channel;
    let ring = dynamic_shared() + warp * FEW_STAGES * FEW_STAGE_BYTES;
    let channels = if left < together { left } else { together };
    let part = &WarpSamples { p, ring, first_channel, channels, room: 16 * FRAGMENTS as u32 };

    let first = slice * p.slice_stages * F::TIMES;
    let end = first + p.slice_stages * F::TIMES;
    let end = if end < p.times { end } else { p.times };
    let empty = Sums {
        real: [[[[0; 4]; 2]; MOST]; MOST],
        imaginary: [[[[0; 4]; 2]; MOST]; MOST],
        rows: [[0; 2]; MOST],
    };
    let mut slice = Slice::<F, FRAGMENTS> {
        part,
        stages: end.saturating_sub(first).div_ceil(F::TIMES),
        next: first,
        lane_offset: F::lane_offset(lane(), false),
        sums: [empty; MOST],
        form: PhantomData,
    };
    // SAFETY: the warp is whole, and its ring its own. Lanes wait for each other before they store to the room of the
    // ring as a patch; channels below `channels` are the warp's, of these times.
    unsafe {
        // Room that no input takes is multiplied too.
        let mut at = ring + CHUNK * lane();
        while at < opaque(ring + FEW_STAGES * FEW_STAGE_BYTES) {
            store_shared_4(at, [0; 4]);
            at += 32 * CHUNK;
        }
        warp_barrier();
        ring::run(&mut slice);
        // Zero bytes of rows past the last time are -8 - 8i in excess-8. With their conjugates they add 128; that their
        // imaginary parts are zero, the sums of rows see to.
        let is_last = slice.next >= p.times;
        let past =
            if F::ROWS && p.excess != 0 && is_last { 128 * (slice.next - p.times) } else { 0 };
        warp_barrier();
        each!(channel < MOST / FRAGMENTS, of 4 {
            if (channel as u32) < channels {
                let sums = &slice.sums[channel];
                store::<F, FRAGMENTS>(p, first_channel + channel as u32, ring, past, sums);
            }
        });
    }
}

/// The kernels that [`few_correlators`] declares.
macro_rules! correlators {
    ($($(#[$attribute:meta])* $kernel:ident $name:ident: $form:ident, $fragments:literal, $blocks:literal blocks;)*) => {$(
        kernel! {
            $(#[$attribute])*
            fn $name(p: CorrelateFew) {
                correlate::<$form, $fragments>(&p)
            }
        }
    )*};
}

few_correlators!(correlators);
