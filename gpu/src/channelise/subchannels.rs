//! Subchannels of channels, for each input and channel by itself. The arithmetic is [`crate::abi::upchannelise`]'s.
//!
//! ```text
//! Y[t'][f][u][i] = G[f][u] sum over s < M U of W[s] exp(-2 pi j (u - (U - 1) / 2) s / U) x[(t' - M + 1) U + s][f][i]
//! ```
//!
//! Inputs lie side by side in memory, so that the lanes of a warp are inputs: samples and values go in whole sectors, and
//! no number passes from lane to lane.
//!
//! | kernel | sums | transform |
//! |---|---|---|
//! | `channelise_subchannels_U` | of the three spectra under way, in registers: a sample is decoded once | in registers, 16 points at a time; of more, the `U / 16` warps of a block exchange them once |
//! | `channelise_subchannels` | made anew for each spectrum: a sample is decoded `M` times | in registers, 8 points at a time, which pass shared memory between |
//!
//! More than 16 subchannels, of `Q = U / 16` warps:
//!
//! ```text
//! warp q    residues r = q + Q e, e < 16: the filter, with two of four weights in registers, and the first four levels
//! exchange  [q][position P of 16][lane] in shared memory
//! warp q'   positions P = (16 / Q) q' + j, j < 16 / Q: the other log2 Q levels, of the Q points of each P; bins 16 q' + e
//! ```
//!
//! The first four levels of the transform merge points `U / 2` to `U / 16` apart, which have the same residue of `Q`, with
//! the factors of 16 points; so operations have the order of the whole transform. A buffer of two is written
//! while the other is read, and one barrier of the block a spectrum is enough.
//!
//! Kernels with sums in registers are bound by the issue of instructions. With `U = 16` and four taps a sample takes 8 FP32
//! instructions of the filter and 11 of the transform (32 butterflies of six, of which the 8 of the first level are
//! additions alone), 4 that make numbers of its nibbles and some 11 that make nibbles of a value and count the clipped. Each
//! doubling of `U` adds 3; beyond 16 the exchange of points, the factors and the weights, which are no constants any more, add
//! some 5.
//!
//! Tried and lost: all weights of a warp in registers, five instructions of 51 less: 4 to 5 % slower on an H200.
//!
//! Source: "CHORD GPU upchannelization" (kotekan, `julia/docs`), equations 83 to 92. kotekan's kernel
//! (`julia/kernels/upchan.jl`) multiplies by the transform's matrices on tensor cores, in f16.

use core::marker::PhantomData;

use crate::{
    abi::{
        channelise::{Complex, Real, bin_at, multiply, output, raw},
        upchannelise::{
            INPUTS, LEVELS, MOST, TAPS, Upchannelise, WARP_POINTS_BYTES, beyond, block_inputs,
            merge, stages, subchannel_at, twiddle,
        },
    },
    channelise::sample::finite,
    isa::{
        common::{
            add_global_64, barrier, block, dynamic_shared, from_half, halves, lane, load_global,
            load_global_2, load_global_4, load_global_8, load_global_16, load_shared,
            load_shared_2, load_shared_4, load_shared_8, load_shared_16, max_f32, min_f32, opaque,
            prmt, store_global, store_global_2, store_global_4, store_global_8, store_global_16,
            store_shared, store_shared_2, store_shared_4, store_shared_8, store_shared_16, thread,
            threads, warp_barrier,
        },
        sm_80::cp_async_16,
    },
    tile::{
        divisor,
        ring::{self, Shape},
    },
};

kernel! {
    /// 2 subchannels, four taps.
    fn channelise_subchannels_2(p: Upchannelise) {
        in_registers::<2, 1, 1>(&p);
    }
}

kernel! {
    /// 4 subchannels, four taps.
    fn channelise_subchannels_4(p: Upchannelise) {
        in_registers::<4, 2, 1>(&p);
    }
}

kernel! {
    /// 8 subchannels, four taps.
    fn channelise_subchannels_8(p: Upchannelise) {
        in_registers::<8, 3, 1>(&p);
    }
}

kernel! {
    /// 16 subchannels, four taps.
    fn channelise_subchannels_16(p: Upchannelise) {
        in_registers::<16, 4, 1>(&p);
    }
}

kernel! {
    /// 32 subchannels, four taps.
    fn channelise_subchannels_32(p: Upchannelise) {
        in_registers::<16, 4, 2>(&p);
    }
}

kernel! {
    /// 64 subchannels, four taps.
    fn channelise_subchannels_64(p: Upchannelise) {
        in_registers::<16, 4, 4>(&p);
    }
}

kernel! {
    /// 128 subchannels, four taps.
    fn channelise_subchannels_128(p: Upchannelise) {
        in_registers::<16, 4, 8>(&p);
    }
}

kernel! {
    /// Any number of subchannels and taps.
    fn channelise_subchannels(p: Upchannelise) {
        any(&p);
    }
}

/// Factors of the merges of [`MOST`] points: of the bin at position `i` of a column of span `s` entry `s + i`.
const ROOTS: [[f32; 2]; MOST as usize] = {
    let mut roots = [[0.0; 2]; MOST as usize];
    let mut span = 1;
    while span < MOST {
        let mut position = 0;
        while position < span {
            roots[(span + position) as usize] = twiddle(span, position);
            position += 1;
        }
        span *= 2;
    }
    roots
};

/// Complex samples of an encoding, one in the lowest bits of a word.
trait Sample {
    /// Bytes of a sample.
    const BYTES: u32;

    /// Returns the sample at an address of shared memory.
    ///
    /// # Safety
    /// - `address` is a multiple of [`BYTES`](Self::BYTES), and a sample of the block's shared memory lies there.
    /// - It was stored before, and nobody stores it meanwhile: between another thread's store and this stands a barrier.
    unsafe fn load_shared(address: u32) -> u32;

    /// Returns the sample at an address of global memory.
    ///
    /// # Safety
    /// - `address` is a multiple of [`BYTES`](Self::BYTES), and a sample of device memory lies there, which was written
    ///   before the launch and is constant in it.
    unsafe fn load_global(address: u64) -> u32;

    /// Stores a sample to shared memory.
    ///
    /// # Safety
    /// - `address` is a multiple of [`BYTES`](Self::BYTES), and a sample's bytes of the block's shared memory lie there.
    /// - No other thread uses them before a barrier that follows, or has used them since the last one.
    unsafe fn store_shared(address: u32, word: u32);

    /// Its components, exactly.
    fn decode(word: u32, encoding: u32) -> Complex<f32>;
}

/// `2^23`, whose lowest bit is worth 1: integers put into the lowest bits are added to it.
const MAGIC: u32 = 0x4b00_0000;
/// `2^23`.
const MAGIC_VALUE: f32 = 8_388_608.0;

/// int8 re, im.
struct Int8;
/// Nibbles, re in the high one.
struct Nibbles;
/// IEEE half re, im.
struct Halves;

impl Sample for Int8 {
    const BYTES: u32 = 2;

    #[inline(always)]
    unsafe fn load_shared(address: u32) -> u32 {
        // SAFETY: the conditions are the same.
        unsafe { load_shared_16(address) }
    }

    #[inline(always)]
    unsafe fn load_global(address: u64) -> u32 {
        // SAFETY: the conditions are the same.
        unsafe { load_global_16(address) }
    }

    #[inline(always)]
    unsafe fn store_shared(address: u32, word: u32) {
        // SAFETY: the conditions are the same.
        unsafe { store_shared_16(address, word as u16) };
    }

    #[inline(always)]
    fn decode(word: u32, _: u32) -> Complex<f32> {
        // 128 more is a byte without sign; the second is worth 256 times as much.
        let re = f32::from_bits((word & 0xff) ^ (MAGIC | 0x80));
        let im = f32::from_bits((word & 0xff00) ^ (MAGIC | 0x8000));
        [re.sub(MAGIC_VALUE + 128.0), im.fma(1.0 / 256.0, -(MAGIC_VALUE / 256.0 + 128.0))]
    }
}

impl Sample for Nibbles {
    const BYTES: u32 = 1;

    #[inline(always)]
    unsafe fn load_shared(address: u32) -> u32 {
        // SAFETY: the conditions are the same.
        unsafe { load_shared_8(address) }
    }

    #[inline(always)]
    unsafe fn load_global(address: u64) -> u32 {
        // SAFETY: the conditions are the same.
        unsafe { load_global_8(address) }
    }

    #[inline(always)]
    unsafe fn store_shared(address: u32, word: u32) {
        // SAFETY: the conditions are the same.
        unsafe { store_shared_8(address, word) };
    }

    #[inline(always)]
    fn decode(word: u32, encoding: u32) -> Complex<f32> {
        // 8 more is a nibble without sign; the first is worth 16 times as much.
        let flip = if encoding == raw::NIBBLES { 0x88 } else { 0 };
        let re = f32::from_bits((word & 0xf0) ^ (MAGIC | flip & 0xf0));
        let im = f32::from_bits((word & 0x0f) ^ (MAGIC | flip & 0x0f));
        [re.fma(1.0 / 16.0, -(MAGIC_VALUE / 16.0 + 8.0)), im.sub(MAGIC_VALUE + 8.0)]
    }
}

impl Sample for Halves {
    const BYTES: u32 = 4;

    #[inline(always)]
    unsafe fn load_shared(address: u32) -> u32 {
        // SAFETY: the conditions are the same.
        unsafe { load_shared(address) }
    }

    #[inline(always)]
    unsafe fn load_global(address: u64) -> u32 {
        // SAFETY: the conditions are the same.
        unsafe { load_global(address) }
    }

    #[inline(always)]
    unsafe fn store_shared(address: u32, word: u32) {
        // SAFETY: the conditions are the same.
        unsafe { store_shared(address, word) };
    }

    #[inline(always)]
    fn decode(word: u32, _: u32) -> Complex<f32> {
        let part = |half: u32| finite(from_half(half as u16).to_bits());
        [part(word), part(word >> 16)]
    }
}

/// Bytes of a sample.
#[inline(always)]
const fn sample_bytes(encoding: u32) -> u32 {
    match encoding {
        raw::I8 => Int8::BYTES,
        raw::F16 => Halves::BYTES,
        _ => Nibbles::BYTES,
    }
}

/// Inputs, channel and spectra of a block.
struct Share {
    /// The first input.
    input: u32,
    channel: u32,
    /// Spectra, from the first to before the last.
    first: u32,
    last: u32,
}

impl Share {
    /// The share of the block: `inputs` inputs, a power of two.
    #[inline(always)]
    fn new(p: &Upchannelise, inputs: u32) -> Self {
        let groups = (p.inputs + inputs - 1) >> inputs.trailing_zeros();
        let (rest, group) = (block() / divisor(groups), block() % divisor(groups));
        let (run, channel) = (rest / divisor(p.channels), rest % divisor(p.channels));
        let first = run * p.run;
        let last = first + p.run;
        Self {
            input: group * inputs,
            channel,
            first,
            last: if last < p.count { last } else { p.count },
        }
    }

    /// Address of the first input's sample at a time, of the channel.
    #[inline(always)]
    fn row(&self, p: &Upchannelise, time: u32) -> u64 {
        let (time, channel, kept) = (time as u64, self.channel as u64, p.kept as u64);
        if time < kept {
            let row = (p.inputs * sample_bytes(p.encoding)) as u64;
            p.before + (time * p.channels as u64 + channel) * row
        } else {
            p.samples + (time - kept) * p.time_stride + channel * p.channel_stride
        }
    }

    /// Whether a spectrum of an input is missing.
    ///
    /// # Safety
    /// - `p.missing` is as [`Upchannelise`] says; the spectrum and the input are of the launch.
    #[inline(always)]
    unsafe fn is_missing(&self, p: &Upchannelise, spectrum: u32, input: u32) -> bool {
        if p.missing == 0 {
            return false;
        }
        let row = spectrum as u64 * p.channels as u64 + self.channel as u64;
        let word = row * p.inputs.div_ceil(INPUTS) as u64 + (input / INPUTS) as u64;
        // SAFETY: the parameters are as declared.
        unsafe { load_global(p.missing + 4 * word) >> (input % INPUTS) & 1 != 0 }
    }

    /// Index of the value of subchannel 0.
    #[inline(always)]
    fn value(&self, p: &Upchannelise, spectrum: u32, input: u32) -> u64 {
        let row = spectrum as u64 * p.channels as u64 + self.channel as u64;
        row * p.factor as u64 * p.inputs as u64 + input as u64
    }
}

/// See the entries: `R WARPS` subchannels, of `R = 1 << LEVELS` residues of each of the `WARPS` warps that share inputs.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch as [`Upchannelise`] says, of `R WARPS` subchannels.
/// - The block's dynamic shared memory is as large as [`staged_bytes`](crate::abi::upchannelise::staged_bytes) says, all of
///   it free.
/// - `R` is 2 to [`MOST`]; if `WARPS` is not 1, `R` is [`MOST`], and `WARPS` is the block's number of warps, a power of two
///   of `R / 2` at most.
#[inline(always)]
unsafe fn in_registers<const R: usize, const LEVELS: usize, const WARPS: usize>(p: &Upchannelise) {
    // SAFETY: the parameters are as declared.
    unsafe {
        match p.encoding {
            raw::I8 => in_registers_of::<Int8, R, LEVELS, WARPS>(p),
            raw::F16 => in_registers_of::<Halves, R, LEVELS, WARPS>(p),
            _ => in_registers_of::<Nibbles, R, LEVELS, WARPS>(p),
        }
    }
}

/// [`in_registers`], of samples of one encoding.
///
/// # Safety
/// - As of [`in_registers`], of samples `S`.
#[inline(always)]
unsafe fn in_registers_of<S: Sample, const R: usize, const LEVELS: usize, const WARPS: usize>(
    p: &Upchannelise,
) {
    let factor = (R * WARPS) as u32;
    let mut share = Share::new(p, block_inputs(factor));
    if WARPS == 1 {
        // Warps by themselves.
        share.input += thread() / 32 * INPUTS;
        if share.input >= p.inputs {
            return;
        }
    }
    let warp = thread() / 32 * R as u32 * INPUTS;
    let ring = stages(factor, S::BYTES) * S::BYTES;
    // Values of a spectrum that leave together, of two bytes at most, behind the samples of all warps; or points.
    let behind = dynamic_shared() + block_inputs(factor) * factor * ring;
    let mut blocks = Blocks::<S, R, LEVELS, WARPS> {
        p,
        share: &share,
        room: dynamic_shared() + warp * ring,
        room_out: if WARPS == 1 { behind + 2 * warp } else { behind },
        weights: [[0.0; 2]; R],
        // 8 bytes for each residue, of which `warp` counts 32 inputs.
        room_weights: behind + 2 * WARPS as u32 * WARP_POINTS_BYTES + warp / 4,
        sums: [[[0.0; 2]; R]; TAPS as usize - 1],
        clipped: 0,
        sample: PhantomData,
    };
    let input = share.input + lane();
    // SAFETY: the warp is whole, and the stages and the room for values are its own; those for points are the block's, all
    // of whose warps have as many steps.
    unsafe {
        if WARPS > 1 {
            blocks.load_weights();
        }
        ring::run(&mut blocks);
        if blocks.clipped != 0 && input < p.inputs {
            add_global_64(p.clipped + 8 * input as u64, blocks.clipped as u64);
        }
    }
}

/// Merges pair `pair` of a level of `R` points, of columns that had `span` bins before the first level.
#[inline(always)]
fn merge_pair<const R: usize>(
    points: &mut [Complex<f32>; R],
    [level, pair]: [usize; 2],
    span: u32,
    w: Complex<f32>,
) {
    let half = R >> (level + 1);
    let low = pair / half * 2 * half + pair % half;
    let [a, b] = merge(points[low], points[low + half], span << level, w);
    points[low] = a;
    points[low + half] = b;
}

/// Merges `R` points of columns that had `span` bins before level 0, by the levels from `first` to before `LEVELS`; the
/// factor of the bin at position `i` of the `1 << level` of a level is `roots[(1 << level) + i]`.
#[inline(always)]
fn merge_levels<const R: usize, const LEVELS: usize>(
    points: &mut [Complex<f32>; R],
    first: usize,
    span: u32,
    roots: &[Complex<f32>; MOST as usize],
) {
    each!(level < LEVELS, of 4 {
        if level >= first {
            each!(pair < R / 2, of 8 {
                let position = pair / (R >> (level + 1));
                merge_pair(points, [level, pair], span, roots[(1 << level) + position]);
            });
        }
    });
}

/// Blocks of `R` times of a warp's inputs, `[time][input]`, `WARPS` times apart, which go through a ring of stages of the
/// warp. A block of each of the `WARPS` warps completes a spectrum of the polyphase filter bank.
struct Blocks<'a, S, const R: usize, const LEVELS: usize, const WARPS: usize> {
    p: &'a Upchannelise,
    share: &'a Share,
    /// Shared memory of the warp: its ring, and, of one warp, its room for values that leave together; of several, the
    /// block's two buffers of points.
    room: u32,
    room_out: u32,
    /// Of several warps: weights of the last two taps of the warp's residues. Shared memory holds the first two taps' weights,
    /// `[residue][tap]`. One warp has its weights among the parameters, as constant operands.
    weights: [[f32; 2]; R],
    room_weights: u32,
    /// Sums of the spectra that have begun, which lack three blocks, two, and one.
    sums: [[Complex<f32>; R]; TAPS as usize - 1],
    /// Number of values of the lane's input that were clipped.
    clipped: u32,
    sample: PhantomData<S>,
}

impl<S: Sample, const R: usize, const LEVELS: usize, const WARPS: usize> Shape
    for Blocks<'_, S, R, LEVELS, WARPS>
{
    const STAGES: u32 = stages((R * WARPS) as u32, S::BYTES);
    const STAGE_BYTES: u32 = R as u32 * INPUTS * S::BYTES;

    #[inline(always)]
    fn barrier() {
        warp_barrier();
    }
}

impl<S: Sample, const R: usize, const LEVELS: usize, const WARPS: usize> ring::Work
    for Blocks<'_, S, R, LEVELS, WARPS>
{
    #[inline(always)]
    fn steps(&self) -> u32 {
        self.share.last - self.share.first + TAPS - 1
    }

    /// 16 bytes at a time where they are aligned, else a sample.
    #[inline(always)]
    unsafe fn load(&mut self, step: u32, stage: u32) {
        let time = (self.share.first + step) * (R * WARPS) as u32;
        // SAFETY: the block is one of the share's, and no lane reads the stage.
        unsafe {
            if self.p.aligned == 0 {
                self.load_samples(stage, time);
            } else {
                self.copy(stage, time);
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply(&mut self, step: u32, stage: u32) {
        let Self { p, share, room_out, .. } = *self;
        let input = share.input + Self::lane();
        let mut points = [[0.0; 2]; R];
        // SAFETY: the stage is complete; the warp is whole, and its room for values its own. All warps of the block are at
        // this step, and the buffers of points are theirs.
        unsafe {
            self.filter(stage, &mut points);
            if step + 1 < TAPS {
                return;
            }
            merge_levels::<R, LEVELS>(&mut points, 0, 1, &ROOTS);
            let mut room = room_out;
            if WARPS > 1 {
                let [now, next] = self.buffers(step);
                self.exchange(now, &mut points);
                // The warp's own part of the other buffer, which nobody reads any more.
                room = next + Self::warp() * WARP_POINTS_BYTES;
            }
            let spectrum = share.first + step + 1 - TAPS;
            let first = if WARPS == 1 { 0 } else { bin_at(Self::warp(), WARPS as u32) };
            let bins = Bins { spectrum, input, first, apart: WARPS as u32 };
            if p.staged != 0 {
                self.clipped += match p.output {
                    output::CI8 => stage_values::<R, 2>(p, share, bins, room, points),
                    _ => stage_values::<R, 1>(p, share, bins, room, points),
                };
            } else if input < p.inputs {
                self.clipped += finish::<R>(p, share, bins, points);
            }
        }
    }
}

impl<S: Sample, const R: usize, const LEVELS: usize, const WARPS: usize>
    Blocks<'_, S, R, LEVELS, WARPS>
{
    /// Number of the warp among those that share inputs. Where registers are few the compiler is not to keep what a step
    /// makes of it, nor of [`lane`](Self::lane).
    #[inline(always)]
    fn warp() -> u32 {
        if WARPS == 1 { 0 } else { opaque(thread()) / 32 }
    }

    /// Number of the lane.
    #[inline(always)]
    fn lane() -> u32 {
        if WARPS == 1 { lane() } else { opaque(lane()) }
    }

    /// Time of a row of the warp's blocks, from the first of the spectrum's `R WARPS`: its residue.
    #[inline(always)]
    fn residue(row: u32) -> u32 {
        Self::warp() + WARPS as u32 * row
    }

    /// Loads the weights of the warp's residues.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, of 16 residues.
    /// - `p.weights` are as [`Upchannelise`] says, of `R WARPS` subchannels of [`TAPS`] taps.
    #[inline(always)]
    unsafe fn load_weights(&mut self) {
        let of = |r: u32, tap: u32| {
            let index = Self::residue(r) + tap * (R * WARPS) as u32;
            // SAFETY: a weight of a residue and tap that are there.
            unsafe { load_global(self.p.weights + 4 * index as u64) }
        };
        // SAFETY: the warp's own room, 4 bytes of each lane, which is read behind a barrier.
        unsafe {
            store_shared(
                self.room_weights + 4 * Self::lane(),
                of(Self::lane() / 2, Self::lane() % 2),
            )
        };
        each!(r < R, of 16 {
            self.weights[r] = [of(r as u32, 2), of(r as u32, 3)].map(f32::from_bits);
        });
    }

    /// Starts copying the block that begins at time `time` to `stage`, 16 bytes at a time.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together; no lane reads the stage any more.
    /// - The block's samples are there, in rows of whole 16 bytes, 16-byte aligned.
    #[inline(always)]
    unsafe fn copy(&self, stage: u32, time: u32) {
        let Self { p, share, .. } = *self;
        // Pieces of 16 bytes, of which a row has a power of two.
        let of_row = INPUTS * S::BYTES / 16;
        let pieces = R as u32 * of_row;
        let place = self.room + stage + 16 * Self::lane();
        let there = (p.inputs - share.input) * S::BYTES;
        each!(round < pieces.div_ceil(32) as usize, of 4 {
            let piece = Self::lane() + 32 * round as u32;
            let (row, column) = (piece / of_row, 16 * (piece % of_row));
            // Zeros where there is no input.
            let (column, bytes) = if column < there { (column, 16) } else { (0, 0) };
            if row < R as u32 {
                let from = share.row(p, time + Self::residue(row)) + (share.input * S::BYTES + column) as u64;
                // SAFETY: 16 aligned bytes of the stage, this lane's; the row has them, or no byte is read.
                unsafe { cp_async_16(place + 512 * round as u32, from, bytes) };
            }
        });
    }

    /// Loads the block that begins at time `time` to `stage`, a sample at a time.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together; no lane reads the stage any more.
    /// - The block's samples are there.
    #[inline(always)]
    unsafe fn load_samples(&self, stage: u32, time: u32) {
        let Self { p, share, .. } = *self;
        let input = share.input + Self::lane();
        let place = self.room + stage + Self::lane() * S::BYTES;
        // Zeros where there is no input; a loop that stays one.
        let rows = opaque(R as u32);
        let mut row = 0;
        while row < rows {
            let mut word = 0;
            // SAFETY: a sample that is there; the lane's own bytes of the stage.
            unsafe {
                if input < p.inputs {
                    let from = share.row(p, time + Self::residue(row));
                    word = S::load_global(from + (input * S::BYTES) as u64);
                }
                S::store_shared(place + row * INPUTS * S::BYTES, word);
            }
            row = opaque(row + 1);
        }
    }

    /// Adds a block of samples to the sums of the unfinished spectra, and writes those of the spectrum that it completes to
    /// `points`.
    ///
    /// # Safety
    /// - A stage of the warp's ring lies `stage` bytes from the first; it is complete, and visible to the lane.
    #[inline(always)]
    unsafe fn filter(&mut self, stage: u32, points: &mut [Complex<f32>; R]) {
        let p = self.p;
        let place = self.room + stage + lane() * S::BYTES;
        let sums = &mut self.sums;
        let mut shared = [0.0; 4];
        each!(r < R, of 16 {
            // SAFETY: the block is in shared memory.
            let word = unsafe { S::load_shared(place + r as u32 * INPUTS * S::BYTES) };
            let x = S::decode(word, p.encoding);
            let kept = |tap: usize| p.kept_weights[tap * R + r];
            let [a, b, c, d] = if WARPS == 1 {
                [kept(0), kept(1), kept(2), kept(3)]
            } else {
                if r.is_multiple_of(2) {
                    // SAFETY: weights of two residues, stored before the first barrier.
                    let words = unsafe { load_shared_4(self.room_weights + 8 * r as u32) };
                    shared = words.map(f32::from_bits);
                }
                [shared[r % 2 * 2], shared[r % 2 * 2 + 1], self.weights[r][0], self.weights[r][1]]
            };
            each!(part < 2, of 2 {
                // Added here, not put off behind the next branch, where the old sum would be needed beside the new one.
                let point = d.fma(x[part], sums[2][r][part]);
                points[r][part] = f32::from_bits(opaque(point.to_bits()));
                sums[2][r][part] = c.fma(x[part], sums[1][r][part]);
                sums[1][r][part] = b.fma(x[part], sums[0][r][part]);
                sums[0][r][part] = a.mul(x[part]);
            });
        });
    }

    /// Addresses of the buffers of the points of a step's spectrum, and of the next one's.
    #[inline(always)]
    fn buffers(&self, step: u32) -> [u32; 2] {
        let offset = |step: u32| step % 2 * WARPS as u32 * WARP_POINTS_BYTES;
        [self.room_out + offset(step), self.room_out + offset(step + 1)]
    }

    /// Exchanges the points of the block's warps, columns of `R` bins of a residue each, and merges those of the warp's
    /// positions to bins of the whole column: `R` that follow each other.
    ///
    /// # Safety
    /// - All threads of the block call it together, of one spectrum, whose buffer of points begins at `buffer`. All warps have
    ///   read the points of the spectrum before the last one from there before they called it for the last one.
    /// - `p.table` is as [`Upchannelise`] says.
    #[inline(always)]
    unsafe fn exchange(&self, buffer: u32, points: &mut [Complex<f32>; R]) {
        let first = LEVELS - (WARPS as u32).trailing_zeros() as usize;
        let mut roots = [[0.0; 2]; MOST as usize];
        // Two positions side by side: 16 bytes of a lane, 512 of a warp.
        let (warp, lane) = (Self::warp(), Self::lane());
        let place = buffer + 16 * lane;
        let pair_bytes = 16 * INPUTS;
        // SAFETY: this warp's part of the buffer; all of it behind the barrier. The table has the factors of all levels.
        unsafe {
            each!(pair < R / 2, of 8 {
                let [[a, b], [c, d]] = [points[2 * pair], points[2 * pair + 1]];
                let words = [a, b, c, d].map(f32::to_bits);
                store_shared_4(
                    place + warp * WARP_POINTS_BYTES + pair as u32 * pair_bytes,
                    words,
                );
            });
            // On their way while the warp waits.
            each!(level < LEVELS, of 4 {
                if level >= first {
                    each!(pair < (1 << level) / 2, of 4 {
                        let index = ((WARPS as u32 + warp) << level) + 2 * pair as u32;
                        let [a, b, c, d] = load_global_4(self.p.table + 8 * index as u64).map(f32::from_bits);
                        let at = (1 << level) + 2 * pair;
                        (roots[at], roots[at + 1]) = ([a, b], [c, d]);
                    });
                }
            });
            barrier();
            let place = place + warp * (R / WARPS / 2) as u32 * pair_bytes;
            each!(pair < R / WARPS / 2, of 4 {
                each!(of < WARPS, of 8 {
                    let [a, b, c, d] = load_shared_4(
                        place + of as u32 * WARP_POINTS_BYTES + pair as u32 * pair_bytes,
                    )
                    .map(f32::from_bits);
                    points[2 * pair * WARPS + of] = [a, b];
                    points[(2 * pair + 1) * WARPS + of] = [c, d];
                });
            });
        }
        merge_levels::<R, LEVELS>(points, first, WARPS as u32, &roots);
    }
}

/// Bins of a spectrum of an input: `R`, a power of two, whose positions follow each other from a multiple of `R` on.
#[derive(Clone, Copy)]
struct Bins {
    spectrum: u32,
    input: u32,
    /// Lowest subchannel of them.
    first: u32,
    /// Subchannels from one of them to the next: the bins of all subchannels in place of `R`.
    apart: u32,
}

impl Bins {
    /// Subchannel of the bin at position `e` of them.
    #[inline(always)]
    fn subchannel<const R: usize>(self, e: usize) -> u32 {
        self.first + self.apart * subchannel_at(e as u32, R as u32)
    }
}

/// Multiplies `R` bins of a spectrum by their gains; zeros if it is missing.
///
/// # Safety
/// - `p.gains` and `p.missing` are as [`Upchannelise`] says; the spectrum and the input are of the launch.
#[inline(always)]
unsafe fn weigh<const R: usize>(
    p: &Upchannelise,
    share: &Share,
    of: Bins,
    bins: &mut [Complex<f32>; R],
) {
    // SAFETY: the parameters are as declared.
    unsafe {
        if p.gains != 0 {
            let gains = p.gains + 8 * (share.channel * of.apart * R as u32) as u64;
            each!(e < R, of 16 {
                let subchannel = of.subchannel::<R>(e);
                let gain = load_global_2(gains + 8 * subchannel as u64).map(f32::from_bits);
                bins[e] = multiply(bins[e], gain);
            });
        }
        if share.is_missing(p, of.spectrum, of.input) {
            *bins = [[0.0; 2]; R];
        }
    }
}

/// Stores `R` bins of a spectrum after gain and quantisation. Returns the number of those that were clipped.
///
/// # Safety
/// - The parameters are as [`Upchannelise`] says; the spectrum and the input are of the launch.
/// - No other thread stores these bins.
#[inline(always)]
unsafe fn finish<const R: usize>(
    p: &Upchannelise,
    share: &Share,
    of: Bins,
    mut bins: [Complex<f32>; R],
) -> u32 {
    // SAFETY: the parameters are as declared, and no other thread stores these values.
    unsafe {
        weigh(p, share, of, &mut bins);
        let index = share.value(p, of.spectrum, of.input);
        // Places are made where they are used: all would fill the registers.
        let pitch = opaque(p.inputs) as u64;
        let place = |e: usize| index + of.subchannel::<R>(e) as u64 * pitch;
        let mut clipped = 0;
        match p.output {
            output::CI8 => {
                each!(e < R, of 16 {
                    store_global_16(p.spectra + 2 * place(e), int8(bins[e]) as u16);
                    clipped += clips(bins[e], 127.0);
                });
            }
            output::CF16 => {
                each!(e < R, of 16 {
                    store_global(p.spectra + 4 * place(e), halves(bins[e][1], bins[e][0]));
                });
            }
            output::CF32 => {
                each!(e < R, of 16 {
                    // Zeros keep the pairs of registers that a store of 8 bytes takes from the other encodings.
                    let words = bins[e].map(|part| part.to_bits() ^ p.reserved);
                    store_global_2(p.spectra + 8 * place(e), words);
                });
            }
            _ => {
                let flip = if p.output == output::CI4 { 0x88 } else { 0 };
                each!(e < R, of 16 {
                    store_global_8(p.spectra + place(e), excess_8(bins[e]) ^ flip);
                    clipped += clips(bins[e], 7.0);
                });
            }
        }
        clipped
    }
}

/// Stores `R` bins of a spectrum of a warp's inputs by way of shared memory, 16 bytes at a time: integers of `B` bytes, of
/// rows of whole 16 bytes. Returns the number of those that were clipped.
///
/// # Safety
/// - All 32 lanes of the warp call it together. The parameters are as [`Upchannelise`] says, the spectrum of the launch.
/// - `room` is a multiple of 16, the address of `32 R B` bytes of shared memory of the warp alone. All lanes have passed
///   a barrier since they last read them.
#[inline(always)]
unsafe fn stage_values<const R: usize, const B: u32>(
    p: &Upchannelise,
    share: &Share,
    of: Bins,
    room: u32,
    mut bins: [Complex<f32>; R],
) -> u32 {
    let mut clipped = 0;
    let lane = of.input - share.input;
    // SAFETY: the parameters are as declared; room of the warp alone, which waits before others read it.
    unsafe {
        let there = if of.input < p.inputs { of.input } else { share.input };
        weigh(p, share, Bins { input: there, ..of }, &mut bins);
        let place = room + lane * B;
        each!(e < R, of 16 {
            let row = subchannel_at(e as u32, R as u32) * INPUTS * B;
            if B == 1 {
                store_shared_8(place + row, excess_8(bins[e]));
                clipped += clips(bins[e], 7.0);
            } else {
                store_shared_16(place + row, int8(bins[e]) as u16);
                clipped += clips(bins[e], 127.0);
            }
        });
        warp_barrier();
        let flip = if p.output == output::CI4 { 0x8888_8888 } else { 0 };
        let there = (p.inputs - share.input) * B;
        let pitch = (p.inputs * B) as u64;
        let spectra = p.spectra + share.value(p, of.spectrum, share.input) * B as u64;
        // Pieces of 16 bytes, of which a row has 2 B.
        each!(round < (R * B as usize).div_ceil(16), of 2 {
            let piece = lane + 32 * round as u32;
            let (row, column) = (piece / (2 * B), 16 * (piece % (2 * B)));
            if row < R as u32 && column < there {
                let words = load_shared_4(room + 16 * piece).map(|word| word ^ flip);
                let row = of.first + of.apart * row;
                store_global_4(spectra + row as u64 * pitch + column as u64, words);
            }
        });
    }
    clipped
}

/// A value as int8 re, im.
#[inline(always)]
fn int8(value: Complex<f32>) -> u32 {
    let [re, im] = value.map(|part| whole(part, 127.0));
    prmt::<0x0040>(re, im)
}

/// A value as nibbles in excess of 8, re in the high one of the lowest byte.
#[inline(always)]
fn excess_8(value: Complex<f32>) -> u32 {
    let [re, im] = value.map(|part| clamp(part, 7.0).add(1.5 * MAGIC_VALUE + 8.0).to_bits());
    // The bits above the lowest nibble of `im` begin beyond the byte.
    (re << 4).wrapping_add(im)
}

/// The nearest integer, half to even, within the limit; in two's complement in the lowest bits.
#[inline(always)]
fn whole(value: f32, limit: f32) -> u32 {
    clamp(value, limit).add(1.5 * MAGIC_VALUE).to_bits()
}

/// The number within the limit.
#[inline(always)]
fn clamp(value: f32, limit: f32) -> f32 {
    min_f32(max_f32(value, -limit), limit)
}

/// 1 if a component is beyond the limit when it is rounded, else 0: the sign of a difference of bits, which are in the
/// order of magnitudes.
#[inline(always)]
fn clips(value: Complex<f32>, limit: f32) -> u32 {
    let magnitude = value[0].abs().max(value[1].abs()).to_bits();
    opaque((beyond(limit).to_bits() - 1).wrapping_sub(magnitude)) >> 31
}

/// Subchannels of any factor: the kernel `channelise_subchannels`.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Upchannelise`] and
///   [`ANY`](crate::abi::upchannelise::ANY).
/// - The block's shared memory has the points of its spectra, all of them free.
#[inline(always)]
unsafe fn any(p: &Upchannelise) {
    let share = Share::new(p, p.lanes);
    let shift = p.lanes.trailing_zeros();
    let work = Work {
        p,
        share: &share,
        input: share.input + (thread() & (p.lanes - 1)),
        shift,
        slot: thread() >> shift,
    };
    let mut spectrum = share.first;
    let mut clipped = 0;
    while spectrum < share.last {
        let left = share.last - spectrum;
        let count = if left < p.together { left } else { p.together };
        let (mut span, mut levels) = (1, p.factor.trailing_zeros());
        while levels > 0 {
            // As few passes as need be, of about as many levels each.
            let now = match levels.div_ceil(LEVELS) {
                1 => levels,
                2 => levels.div_ceil(2),
                _ => levels.div_ceil(3),
            };
            // SAFETY: the parameters are as declared.
            clipped += unsafe {
                match now {
                    1 => work.pass::<2, 1>(spectrum, count, span),
                    2 => work.pass::<4, 2>(spectrum, count, span),
                    _ => work.pass::<8, 3>(spectrum, count, span),
                }
            };
            span <<= now;
            levels -= now;
            barrier();
        }
        spectrum += count;
    }
    if clipped != 0 {
        // SAFETY: an input that there is.
        unsafe { add_global_64(p.clipped + 8 * work.input as u64, clipped as u64) };
    }
}

/// Work of a thread of `channelise_subchannels`.
struct Work<'a> {
    p: &'a Upchannelise,
    share: &'a Share,
    input: u32,
    /// Inputs of a block, as a power of two.
    shift: u32,
    slot: u32,
}

impl Work<'_> {
    /// Makes columns of `R` times the span, of `1 << LEVELS`, of some spectra. Returns the number of clipped values, if
    /// that is the last pass.
    ///
    /// # Safety
    /// - All threads of the block call it together, in a launch that keeps the conditions of [`Upchannelise`].
    /// - `count` spectra from `spectrum` on exist, and the block's shared memory has their points: those of the pass before,
    ///   of columns of `span`, stored before a barrier.
    /// - `R` is `1 << LEVELS`, and `span * R` divides `p.factor`. No other block stores these spectra of these inputs.
    #[inline(always)]
    unsafe fn pass<const R: usize, const LEVELS: usize>(
        &self,
        spectrum: u32,
        count: u32,
        span: u32,
    ) -> u32 {
        let Self { p, input, .. } = *self;
        if input >= p.inputs {
            return 0;
        }
        let tasks = (p.factor / R as u32).trailing_zeros();
        let span_bits = span.trailing_zeros();
        // Points from one of a task to the next.
        let apart_bits = tasks - span_bits;
        let mut clipped = 0;
        let mut item = self.slot;
        while item < count << tasks {
            let (place, task) = (item >> tasks, item & ((1 << tasks) - 1));
            let position = task >> apart_bits;
            let first = (task & ((1 << apart_bits) - 1)) | (position * R as u32) << apart_bits;
            let spectrum = spectrum + place;
            let address = |e: usize| {
                let index = place * p.factor + first + ((e as u32) << apart_bits);
                dynamic_shared() + 8 * ((index << self.shift) + (thread() & (p.lanes - 1)))
            };
            let mut points = [[0.0_f32; 2]; R];
            // SAFETY: points that this thread alone loads and stores, and twiddles of the table.
            unsafe {
                if span == 1 {
                    let time = spectrum * p.factor + first;
                    match p.encoding {
                        raw::I8 => self.filter::<Int8, R>(time, first, apart_bits, &mut points),
                        raw::F16 => self.filter::<Halves, R>(time, first, apart_bits, &mut points),
                        _ => self.filter::<Nibbles, R>(time, first, apart_bits, &mut points),
                    }
                } else {
                    each!(e < R, of 16 {
                        points[e] = load_shared_2(address(e)).map(f32::from_bits);
                    });
                }
                each!(level < LEVELS, of 4 {
                    let column = ((span + position) << level) as u64;
                    each!(pair < R / 2, of 8 {
                        let within = pair / (R >> (level + 1));
                        let root = load_global_2(p.table + 8 * (column + within as u64));
                        merge_pair(&mut points, [level, pair], span, root.map(f32::from_bits));
                    });
                });
                if span * R as u32 == p.factor {
                    clipped += finish::<R>(
                        p,
                        self.share,
                        Bins { spectrum, input, first: bin_at(position, span), apart: span },
                        points,
                    );
                } else {
                    each!(e < R, of 16 {
                        store_shared_2(address(e), points[e].map(f32::to_bits));
                    });
                }
            }
            item += threads() >> self.shift;
        }
        clipped
    }

    /// Sums over the taps of `R` residues from `residue` on, `1 << apart` apart; `time` is the time of the first tap.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`Upchannelise`], of samples of `S`; `self.input` is below `p.inputs`.
    /// - The residues are below `p.factor`, and `time` is the time of a spectrum that exists.
    #[inline(always)]
    unsafe fn filter<S: Sample, const R: usize>(
        &self,
        time: u32,
        residue: u32,
        apart: u32,
        points: &mut [Complex<f32>; R],
    ) {
        let Self { p, share, input, .. } = *self;
        let within = (input * S::BYTES) as u64;
        // Addresses of the first time as one of those kept and as one of those behind; times to the first of these.
        let (time_64, channel) = (time as u64, share.channel as u64);
        let row = (p.inputs * S::BYTES) as u64;
        let early = p.before + (time_64 * p.channels as u64 + channel) * row + within;
        let behind = time_64.wrapping_sub(p.kept as u64).wrapping_mul(p.time_stride);
        let late = (p.samples + channel * p.channel_stride + within).wrapping_add(behind);
        let strides = [p.channels * p.inputs * S::BYTES, p.time_stride as u32];
        let kept = p.kept.saturating_sub(time);
        let mut tap = 0;
        while tap < p.taps {
            let before = tap * p.factor;
            let weights = p.weights + 4 * (residue + before) as u64;
            let mut words = [0; R];
            each!(e < R, of 16 {
                let step = before + ((e as u32) << apart);
                let (base, stride) = if step < kept { (early, strides[0]) } else { (late, strides[1]) };
                // SAFETY: a sample of the launch, kept or new.
                words[e] = unsafe { S::load_global(base.wrapping_add(step as u64 * stride as u64)) };
            });
            each!(e < R, of 16 {
                // SAFETY: a weight of a residue and tap that are there.
                let w = unsafe { f32::from_bits(load_global(weights + 4 * ((e as u64) << apart))) };
                let x = S::decode(words[e], p.encoding);
                let sum = points[e];
                points[e] = if tap == 0 {
                    [w.mul(x[0]), w.mul(x[1])]
                } else {
                    [w.fma(x[0], sum[0]), w.fma(x[1], sum[1])]
                };
            });
            tap += 1;
        }
    }
}
