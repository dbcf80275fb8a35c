//! The beamformer on `mma.sync` (sm_80 and later): the four steps of Smith, "CHORD 8-bit baseband
//! beamformer", sections 3 to 6.
//!
//! A block holds the weights of a tile of beams by dishes in registers for as long as it works on
//! one stream, and takes the stream's times in units of 64:
//!
//! 1. *Load* (section 3): `E` is copied to shared memory asynchronously, units ahead.
//! 2. *Multiply* (section 4): a warp has 16 beams by up to 256 dishes, or 512 of int4 weights. It reads
//!    16 bytes of `E` a lane, takes the nibbles apart, and multiplies into 32-bit sums, four real
//!    products for each complex one:
//!
//!    ```text
//!    rr = A_re . E_re    ii = A_im . E_im    ri = A_re . E_im    ir = A_im . E_re
//!    Re J = rr - ii      Im J = ri + ir
//!    ```
//! 3. *Reduce* (section 5): two warps that share the beams exchange half of their sums through
//!    shared memory, so that each ends with 8 beams.
//! 4. *Quantise and store* (sections 5 and 6): bias, shift, clamp; a lane has 16 consecutive times
//!    of a beam, and stores them at once. The order of times in [`map`] makes it so.
//!
//! With int8 weights (`Int8`) nibbles become int8 in two instructions for each four voltages, without
//! shifts and sign extension:
//!
//! ```text
//! E & 0xf0 = 16 re        (E & 0x0f) ^ 0x08 = im + 8
//! 16 Re J = rr - 16 ii + 128 sum A_im        16 Im J = 16 ri + ir - 128 sum A_re
//! ```
//!
//! The constants of a beam are part of its bias. A sum of 512 dishes stays below 2^25, and further
//! dishes are added in launches of their own, at their own scale: exact for every byte. With
//! [`pass::SHIFT`] a launch takes the dishes of a partial sum of the note, shifts them to 16 bits (eq. 19), and the last
//! one shifts the sum of all (eq. 25). With int4 weights (`Int4`) the nibbles of
//! two words become one of real and one of imaginary parts ([`transpose::nibbles`]).
//!
//! With voltages of `ci8` (`Ci8`) and halves (`Cf16`), byte and 16-bit transposes take two words apart into one of
//! real and one of imaginary parts. Their samples, and those of other encodings than `ci4`, are made and stored
//! four times together.
//!
//! Bound by the tensor cores and the integer units of a scheduler together: on an H200 the cycles of its
//! `mma` and of its integer instructions add up to those that it takes. So weights come one after the
//! other as often as they are wanted, and instructions are few: 64 for the nibbles of a warp's 16 beams
//! by 256 dishes by 16 times, which are 64 `mma`, and 12 for each sample of a lane.
//!
//! With [`beamform_mma_shuffle_96x512`] fragments have consecutive times and the samples of a unit pass through
//! four shuffles, 16 selections and four `prmt` for each 16 samples of a lane, on top of the 192 instructions that
//! make them: no access of memory is better for it.
//!
//! Tried and lost: `E & 0xf0`, `E << 4 & 0xf0` and the complement of that for the negation, into two
//! sums instead of four (112 instructions for the nibbles); 32 beams by 128 dishes a warp (half the
//! unpacking, three times the exchange: 3 % slower); making the samples of an iteration during the
//! next, by the warps of a scheduler at different points of it (3 % slower).

use core::marker::PhantomData;

use crate::{
    abi::{
        beamform::{
            self, Beamform, CHUNK_BYTES, CHUNK_VOLTAGES, ROW_BEAMS, Tile, UNIT_TIMES, pass,
        },
        channelise::output,
    },
    beamform::{
        finish::{
            Float32, Int32, Quad, Sum, add_clipped, add_passes, consecutive, finish_times,
            of_all_parts, quantise, shift_parts, store,
        },
        map,
    },
    isa::{
        common::{
            add_f32, barrier, block, blocks, dynamic_shared, lane, load_global_4, load_shared_4,
            named_barrier, opaque, store_shared_4, sub_f32, thread,
        },
        sm_80::{
            cp_async_16, cp_async_whole_16, mma_m16n8k16_f16, mma_m16n8k32_s8, mma_m16n8k64_s4,
        },
    },
    reorder::transpose,
    tile::{
        divisor,
        ring::{self, Shape, Work},
    },
};

/// Bytes of one copy.
const COPY_BYTES: u32 = 16;
/// Most chunks of dishes of a warp, most multiplications of a chunk, most fragments of 8 times that a warp multiplies at
/// once, and most beams of a lane: of the kernels that there are.
const MOST_CHUNKS: usize = 8;
const MOST_STEPS: usize = 2;
const MOST_FRAGMENTS: usize = 2;
const MOST_BEAMS: usize = 2;

/// A kernel: weights and voltages, the tile of a block, and what follows from them.
trait Beamformer {
    /// Weights and voltages.
    type Precision: Precision;
    /// Beams, dishes and times of a block.
    const TILE: Tile;
    /// Whether sums may be those of one launch of several, and samples any but `ci4`.
    const GENERAL: bool;
    /// Chunks of dishes of a warp.
    const CHUNKS: usize = Self::TILE.chunks as usize;
    /// Fragments of 8 times that a warp multiplies at once.
    const FRAGMENTS: usize = Self::TILE.fragments as usize;
    /// Beams of a lane: both of a fragment's, or one if two warps share the dishes.
    const BEAMS: usize = 2 / Self::TILE.dish_warps as usize;
    /// Times of a beam that a lane has of a unit, in fours: a word of `ci4` samples each.
    const WORDS: usize = 4 / Self::TILE.time_warps as usize;
}

/// Type of the weights, and how voltages become the other operand.
trait Precision {
    /// Its sums, of which those that are no integers have no scale.
    type Sum: Sum;
    /// Its sums are `1 << SCALE` times those of the voltages.
    const SCALE: u32;
    /// Bytes of a chunk of prepared weights.
    const CHUNK_BYTES: u32;
    /// Multiplications of a chunk of dishes.
    const STEPS: usize;

    /// The operands of step `step` from a lane's 16 bytes of voltages: real and imaginary parts, of
    /// which the real ones are `1 << SCALE` times as large.
    ///
    /// `low` is [`Beamform::low_nibbles`].
    fn split(voltages: [u32; 4], step: usize, low: u32) -> [[u32; 2]; 2];

    /// `d += a * b`. Warp-wise.
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]);

    /// The parts of a complex sum, from `[rr, ii, ri, ir]`.
    #[inline(always)]
    fn parts([rr, ii, ri, ir]: [u32; 4]) -> [u32; 2] {
        [rr.wrapping_sub(ii << Self::SCALE), ir.wrapping_add(ri << Self::SCALE)]
    }
}

/// int8 weights: 32 dishes a step.
struct Int8;

impl Precision for Int8 {
    type Sum = Int32;
    const SCALE: u32 = 4;
    const CHUNK_BYTES: u32 = CHUNK_BYTES;
    const STEPS: usize = map::STEPS as usize;

    #[inline(always)]
    fn split(voltages: [u32; 4], step: usize, low: u32) -> [[u32; 2]; 2] {
        let words = [voltages[2 * step], voltages[2 * step + 1]];
        [
            map!(words, of 2, |word: u32| word & 0xf0f0_f0f0),
            map!(words, of 2, |word: u32| word & low ^ 0x0808_0808),
        ]
    }

    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k32_s8(d, a, b);
    }
}

/// int4 weights: 64 dishes a step.
struct Int4;

impl Precision for Int4 {
    type Sum = Int32;
    const SCALE: u32 = 0;
    const CHUNK_BYTES: u32 = CHUNK_BYTES / 2;
    const STEPS: usize = 1;

    #[inline(always)]
    fn split([a, b, c, d]: [u32; 4], _: usize, _: u32) -> [[u32; 2]; 2] {
        let ([low_imaginary, low_real], [high_imaginary, high_real]) =
            (transpose::nibbles([a, b]), transpose::nibbles([c, d]));
        [[low_real, high_real], [low_imaginary, high_imaginary]]
    }

    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k64_s4(d, a, b);
    }
}

/// int8 weights and `ci8` voltages: 32 dishes a step, taken apart by local transposes.
struct Ci8;

impl Precision for Ci8 {
    type Sum = Int32;
    const SCALE: u32 = 0;
    const CHUNK_BYTES: u32 = CHUNK_BYTES / 2;
    const STEPS: usize = 1;

    #[inline(always)]
    fn split([a, b, c, d]: [u32; 4], _: usize, _: u32) -> [[u32; 2]; 2] {
        let ([low_real, low_imaginary], [high_real, high_imaginary]) =
            (transpose::bytes([a, b]), transpose::bytes([c, d]));
        [[low_real, high_real], [low_imaginary, high_imaginary]]
    }

    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k32_s8(d, a, b);
    }
}

/// Weights and voltages of halves: 16 dishes a step, taken apart by local transposes. At most 128 dishes are
/// summed by the tensor cores, which truncate; sums of more are added as f32.
struct Cf16;

impl Precision for Cf16 {
    type Sum = Float32;
    const SCALE: u32 = 0;
    const CHUNK_BYTES: u32 = CHUNK_BYTES / 2;
    const STEPS: usize = 1;

    #[inline(always)]
    fn split([a, b, c, d]: [u32; 4], _: usize, _: u32) -> [[u32; 2]; 2] {
        let ([low_real, low_imaginary], [high_real, high_imaginary]) =
            (transpose::halves([a, b]), transpose::halves([c, d]));
        [[low_real, high_real], [low_imaginary, high_imaginary]]
    }

    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k16_f16(d, a, b);
    }

    #[inline(always)]
    fn parts(products: [u32; 4]) -> [u32; 2] {
        let [rr, ii, ri, ir] = map!(products, of 4 to 0.0, |bits: u32| f32::from_bits(bits));
        [sub_f32(rr, ii).to_bits(), add_f32(ri, ir).to_bits()]
    }
}

/// Weights of a warp: `[chunk][step][part]` fragments.
type Weights = [[[[u32; 4]; 2]; MOST_STEPS]; MOST_CHUNKS];

/// Sums of a warp over its dishes: `[fragment][part]`, 16 beams by 2 * 8 times.
type Sums = [[[u32; 4]; 2]; 2];

/// Share of a warp in the work of its block.
#[derive(Clone, Copy)]
struct Role {
    dish_warp: u32,
    beam_warp: u32,
    time_warp: u32,
    /// Warps along the dishes that share this one's beams and times.
    pair: u32,
}

impl Role {
    #[inline(always)]
    fn of_warp(warp: u32, tile: Tile) -> Self {
        let pair = warp / tile.dish_warps;
        Self {
            dish_warp: warp % tile.dish_warps,
            beam_warp: pair % tile.beam_warps,
            time_warp: pair / tile.beam_warps,
            pair,
        }
    }
}

/// Origin of a unit of voltages.
#[derive(Clone, Copy)]
struct UnitOrigin {
    stream: u32,
    /// Its first time.
    time: u32,
}

impl UnitOrigin {
    /// Whether the unit is the last of its stream.
    #[inline(always)]
    fn is_last(self, p: &Beamform) -> bool {
        self.time + UNIT_TIMES >= p.times
    }

    /// Returns the unit `count` units later, of this stream or of later ones.
    #[inline(always)]
    fn after(self, count: u32, p: &Beamform) -> Self {
        let mut origin = Self { time: self.time + count * UNIT_TIMES, ..self };
        while origin.time >= p.times {
            origin.stream += 1;
            origin.time -= p.times.next_multiple_of(UNIT_TIMES);
        }
        origin
    }
}

/// Starts copying a unit of voltages to the shared memory at `shared`.
/// Samples beyond the last time sample or dish become zero.
///
/// # Safety
/// - All threads of a block of `tile.threads()` call it, with the same arguments.
/// - `shared` is a multiple of 16, and `tile.unit_bytes()` of the block's shared memory lie there. All threads have
///   passed a barrier behind their last reads of them.
/// - `stream` is below `p.streams`, and `time` below `p.times`.
/// - The voltages at `p.voltages` are as [`Beamform`] says: aligned for copies of 16 bytes, `p.row_bytes` of each
///   time sample and stream, and constant.
#[inline(always)]
unsafe fn load_unit(
    p: &Beamform,
    tile: Tile,
    shared: u32,
    UnitOrigin { stream, time }: UnitOrigin,
) {
    let copies = tile.row_bytes() / COPY_BYTES;
    let rows = tile.threads() / copies;
    let thread = opaque(thread());
    let (first_row, byte) = (thread / copies, thread % copies * COPY_BYTES);
    let whole = p.row_bytes == tile.row_bytes() && p.times - time >= UNIT_TIMES;
    let time_pitch = p.streams as u64 * p.voltage_pitch;
    let mut address = p.voltages
        + stream as u64 * p.voltage_pitch
        + (time + first_row) as u64 * time_pitch
        + byte as u64;
    let mut shared = shared + first_row * tile.pitch() + byte;
    let within =
        |row: u32| rows * (UNIT_TIMES / rows) == UNIT_TIMES || first_row + row < UNIT_TIMES;
    let mut row = 0;
    if whole {
        while row < UNIT_TIMES {
            if within(row) {
                // SAFETY: 16 aligned bytes of the unit's room, which are this thread's; the unit has all its time
                // samples and the row all its bytes.
                unsafe { cp_async_whole_16(shared, address) };
            }
            shared += rows * tile.pitch();
            address += rows as u64 * time_pitch;
            row += rows;
        }
        return;
    }
    // The few units at an edge need no straight code.
    while row < opaque(UNIT_TIMES) {
        if within(row) {
            let read = time + first_row + row < p.times && byte < p.row_bytes;
            let bytes = if read { (p.row_bytes - byte).min(COPY_BYTES) } else { 0 };
            // SAFETY: the same of bytes that are there; what is not read has an address inside the voltages.
            unsafe { cp_async_16(shared, if read { address } else { p.voltages }, bytes) };
        }
        shared += rows * tile.pitch();
        address += rows as u64 * time_pitch;
        row += rows;
    }
}

/// Loads the weights of a warp, from `address` on, where its first chunk lies.
///
/// # Safety
/// - `address` is a multiple of 16, the first of the warp's chunks of weights: `K::CHUNKS` chunks of device memory were
///   written there before the launch, and nobody writes them in it.
#[inline(always)]
unsafe fn load_weights<K: Beamformer>(address: u64) -> Weights {
    let mut weights = [[[[0; 4]; 2]; MOST_STEPS]; MOST_CHUNKS];
    let address = address + map::weight_offset(0, 0, lane()) as u64;
    for chunk in 0..K::CHUNKS {
        for step in 0..K::Precision::STEPS {
            for part in 0..2 {
                let offset = chunk as u64 * K::Precision::CHUNK_BYTES as u64
                    + map::weight_offset(step as u32, part as u32, 0) as u64;
                // SAFETY: 16 aligned bytes of the lane's, within one of the chunks.
                weights[chunk][step][part] = unsafe { load_global_4(address + offset) };
            }
        }
    }
    weights
}

/// Sums of products `[fragment]` of one part of the weights and one of the voltages.
type Products = [[u32; 4]; MOST_FRAGMENTS];

/// Returns `sum_d A E` over the dishes of a warp, for two fragments of 8 times, `K::FRAGMENTS` of them at once;
/// `voltages` is where the lane finds those of the first. `low` is [`Beamform::low_nibbles`].
///
/// # Safety
/// - All 32 lanes of the warp call it together.
/// - `voltages` is the lane's own in a unit of voltages ([`map::voltage_offset`]) and an iteration's times, whose copies
///   were waited for by all threads, which passed a barrier since.
#[inline(always)]
unsafe fn multiply<K: Beamformer>(weights: &Weights, voltages: u32, low: u32) -> Sums {
    let mut sums = [[[0; 4]; 2]; 2];
    for first in (0..2 / K::FRAGMENTS).map(|group| group * K::FRAGMENTS) {
        let [mut rr, mut ii, mut ri, mut ir]: [Products; 4] = [[[0; 4]; MOST_FRAGMENTS]; 4];
        for chunk in 0..K::CHUNKS {
            let mut loaded = [[0; 4]; MOST_FRAGMENTS];
            for fragment in 0..K::FRAGMENTS {
                let time = map::tile_time(K::TILE, 0, 0, (first + fragment) as u32, 0);
                let offset = time * K::TILE.pitch() + chunk as u32 * CHUNK_VOLTAGES;
                // SAFETY: 16 aligned bytes of a time sample of the unit, which is complete.
                loaded[fragment] = unsafe { load_shared_4(voltages + offset) };
            }
            for step in 0..K::Precision::STEPS {
                let mut split = [[[0; 2]; 2]; MOST_FRAGMENTS];
                for fragment in 0..K::FRAGMENTS {
                    split[fragment] = K::Precision::split(loaded[fragment], step, low);
                }
                let [a_real, a_imaginary] = weights[chunk][step];
                // The same weights one after the other: registers are read once for them.
                for fragment in 0..K::FRAGMENTS {
                    let [real, imaginary] = split[fragment];
                    K::Precision::multiply(&mut rr[fragment], a_real, real);
                    K::Precision::multiply(&mut ri[fragment], a_real, imaginary);
                }
                for fragment in 0..K::FRAGMENTS {
                    let [real, imaginary] = split[fragment];
                    K::Precision::multiply(&mut ii[fragment], a_imaginary, imaginary);
                    K::Precision::multiply(&mut ir[fragment], a_imaginary, real);
                }
            }
        }
        for fragment in 0..K::FRAGMENTS {
            let [real, imaginary] = &mut sums[first + fragment];
            for word in 0..4 {
                [real[word], imaginary[word]] = K::Precision::parts([
                    rr[fragment][word],
                    ii[fragment][word],
                    ri[fragment][word],
                    ir[fragment][word],
                ]);
            }
        }
    }
    sums
}

/// The sums of beam `index` of a lane (`lane / 4 + 8 index` in the order of the warp's weights) over the
/// warp's dishes.
#[inline(always)]
fn quad(sums: &Sums, index: usize) -> Quad {
    let mut quad = [[0; 2]; 4];
    for time in 0..4 {
        for part in 0..2 {
            quad[time][part] = sums[time / 2][part][2 * index + time % 2] as i32;
        }
    }
    quad
}

/// Adds sums to those of the other dishes.
#[inline(always)]
fn add<S: Sum>(sums: &mut Quad, others: &Quad) {
    for time in 0..4 {
        for part in 0..2 {
            sums[time][part] = S::add(sums[time][part], others[time][part]);
        }
    }
}

/// Address at which a warp leaves the sums of a lane for the warp of the other dishes: 1024 bytes a warp.
#[inline(always)]
fn exchange_place(exchange: u32, warp: u32, half: usize) -> u32 {
    exchange + warp * 1024 + half as u32 * 512 + lane() * 16
}

/// Gives away the sums of the beam that the other warp keeps.
///
/// # Safety
/// - `exchange` is a multiple of 16, the address of 1024 bytes of shared memory for each warp of the block.
/// - The other warp reads this warp's part of it no more: both have passed a barrier since.
#[inline(always)]
unsafe fn give(sums: &Quad, exchange: u32) {
    let warp = opaque(thread()) / 32;
    for half in 0..2 {
        let [[a, b], [c, d]] = [sums[2 * half], sums[2 * half + 1]];
        let words = [a, b, c, d].map(|sum| sum as u32);
        // SAFETY: 16 aligned bytes of this warp's part, this lane's own.
        unsafe { store_shared_4(exchange_place(exchange, warp, half), words) };
    }
}

/// Returns the sums that the other warp gave away.
///
/// # Safety
/// - The other warp has called [`give`] with the same `exchange`, and both have passed a barrier since.
#[inline(always)]
unsafe fn receive(exchange: u32) -> Quad {
    let mut sums = [[0; 2]; 4];
    let warp = (opaque(thread()) / 32) ^ 1;
    for half in 0..2 {
        // SAFETY: 16 aligned bytes of the other warp's part, written before a barrier.
        let words = unsafe { load_shared_4(exchange_place(exchange, warp, half)) };
        let [a, b, c, d] = words.map(|sum| sum as i32);
        (sums[2 * half], sums[2 * half + 1]) = ([a, b], [c, d]);
    }
    sums
}

/// The beams of a lane, and what becomes of their sums.
struct Lane<'a, K> {
    p: &'a Beamform,
    /// The block's group of beams.
    group: u32,
    kernel: PhantomData<K>,
}

impl<K: Beamformer> Lane<'_, K> {
    // Registers are short: values that follow from the thread's index are computed again.
    #[inline(always)]
    fn role(&self) -> Role {
        Role::of_warp(opaque(thread()) / 32, K::TILE)
    }

    /// First beam of the warp.
    #[inline(always)]
    fn first_beam(&self) -> u32 {
        self.group * K::TILE.beams() + self.role().beam_warp * ROW_BEAMS
    }

    /// Beam `index` of the lane.
    #[inline(always)]
    fn beam(&self, index: usize) -> u32 {
        self.first_beam() + map::kept_beam(lane(), self.role().dish_warp, index as u32)
    }

    /// First time of the lane in a unit.
    #[inline(always)]
    fn first_time(&self) -> u32 {
        map::time(K::TILE.time_warps, self.role().time_warp, 0, 0, lane() % 4 * 2)
    }

    /// Row of a beam among those of all streams, padded.
    #[inline(always)]
    fn row(&self, stream: u32, index: usize) -> u64 {
        (stream * (self.p.groups * K::TILE.beams()) + self.beam(index)) as u64
    }

    /// Loads the weights of the warp for `stream`.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together. `stream` is below `p.streams`.
    /// - `p.weights` is as [`Beamform`] says.
    #[inline(always)]
    unsafe fn weights(&self, stream: u32) -> Weights {
        let p = self.p;
        let row_tile = stream * (p.groups * K::TILE.beam_warps) + self.first_beam() / ROW_BEAMS;
        let chunk = self.role().dish_warp * K::TILE.chunks;
        let chunks = row_tile as u64 * p.weight_chunks as u64 + chunk as u64;
        // SAFETY: a row of tiles has `weight_chunks` chunks, among them all of the launch's dishes.
        unsafe { load_weights::<K>(p.weights + chunks * K::Precision::CHUNK_BYTES as u64) }
    }

    /// In general launches, adds earlier launches' sums over other dishes, and keeps the sums for later ones or makes
    /// samples and stores them, in iteration `iteration` of a unit.
    ///
    /// # Safety
    /// - `sums` are the lane's of this unit and iteration, over all dishes of the launch; it calls this once for them.
    /// - `p` is as [`Beamform`] says, and the launch is general.
    #[inline(always)]
    unsafe fn finish(
        &self,
        place: UnitOrigin,
        iteration: u32,
        sums: &mut [Quad; MOST_BEAMS],
        clipped: &mut [u32; MOST_BEAMS],
    ) {
        let p = self.p;
        let time = place.time + self.first_time() + 4 * iteration;
        for index in 0..K::BEAMS {
            let row = self.row(place.stream, index);
            let units = p.times.div_ceil(UNIT_TIMES);
            let first = row * (units * UNIT_TIMES) as u64;
            let address = p.partial + 8 * (first + time as u64);
            // SAFETY: these four sums, and samples, are this lane's alone, in memory that has all units' times; each padded
            // beam has its step.
            unsafe {
                let quad = &mut sums[index];
                if p.pass & pass::SHIFT != 0 {
                    let step = load_global_4(p.beams + 16 * row);
                    shift_parts::<Summed<K>>(quad, K::Precision::SCALE, step, p.first_shift);
                }
                add_passes::<Summed<K>>(quad, K::Precision::SCALE, address, p.pass);
                let beam = self.beam(index);
                if p.pass & pass::KEEP == 0 && beam < p.beam_count {
                    let mut how = load_global_4(p.beams + 16 * row);
                    if p.pass & pass::SHIFT != 0 {
                        how = of_all_parts(how);
                    }
                    let row = beam as u64 * p.streams as u64 + place.stream as u64;
                    clipped[index] += finish_times::<Summed<K>>(p, quad, how, row, time);
                }
            }
        }
    }

    /// Makes four samples of each beam from their sums, behind those in `words`.
    ///
    /// # Safety
    /// - `stream` is below `p.streams`; `p.beams` is as [`Beamform`] says, for a launch that is not general.
    #[inline(always)]
    unsafe fn quantise(
        &self,
        stream: u32,
        sums: &[Quad; MOST_BEAMS],
        words: &mut [[u32; 4]; MOST_BEAMS],
        clipped: &mut [u32; MOST_BEAMS],
    ) {
        for index in 0..K::BEAMS {
            // SAFETY: 16 aligned bytes for each padded beam of each stream.
            let beam = unsafe { load_global_4(self.p.beams + 16 * self.row(stream, index)) };
            let (word, count) = quantise(&sums[index], beam);
            let [_, b, c, d] = words[index];
            words[index] = [b, c, d, word];
            clipped[index] += count;
        }
    }

    /// Stores the samples of a unit.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, once for a unit that is the block's alone.
    /// - `p.samples` is as [`Beamform`] says.
    #[inline(always)]
    unsafe fn store(&self, place: UnitOrigin, words: &[[u32; 4]; MOST_BEAMS]) {
        let p = self.p;
        for index in 0..K::BEAMS {
            let beam = self.beam(index);
            let words = if K::TILE.transposes { consecutive(words[index]) } else { words[index] };
            if beam < p.beam_count {
                let row = beam as u64 * p.streams as u64 + place.stream as u64;
                let (address, time) =
                    (p.samples + row * p.sample_pitch, place.time + self.first_time());
                // SAFETY: no other lane has these times of this beam.
                unsafe {
                    match K::WORDS {
                        4 => store::<4>(address, time, p.times, &words),
                        2 => store::<2>(address, time, p.times, &words),
                        _ => store::<1>(address, time, p.times, &words),
                    }
                }
            }
        }
    }
}

/// Sums of a kernel.
type Summed<K> = <<K as Beamformer>::Precision as Precision>::Sum;

/// Units of voltages of a block, in the order in which they go through its ring.
struct Units<'a, K> {
    lane: Lane<'a, K>,
    /// Number of units.
    count: u32,
    /// Offset of the lane's voltages in a unit.
    voltages: u32,
    /// Number of the unit that is multiplied next, and its origin.
    unit: u32,
    place: UnitOrigin,
    /// Weights of the stream of `place`, once it has begun.
    weights: Weights,
    /// Whether a stream begins.
    fresh: bool,
    /// Clipped samples of the lane's beams in the stream.
    clipped: [u32; MOST_BEAMS],
    /// Number of the exchange that is written next.
    exchange: u32,
}

impl<'a, K: Beamformer> Units<'a, K> {
    /// Returns the units of the block. The blocks of a group of beams share the units of all streams, numbered in one row.
    #[inline(always)]
    fn new(p: &'a Beamform) -> Self {
        let groups = divisor(p.groups);
        let (group, part) = (block() % groups, block() / groups);
        let parts = divisor(blocks() / groups);
        let units = divisor(p.times.div_ceil(UNIT_TIMES));
        let total = units.get() * p.streams;
        let (each, more) = (total / parts, total % parts);
        let first = part * each + if part < more { part } else { more };
        let place = UnitOrigin { stream: first / units, time: first % units * UNIT_TIMES };
        let lane_of = Lane { p, group, kernel: PhantomData };
        let Role { time_warp, dish_warp, .. } = lane_of.role();
        Self {
            lane: lane_of,
            count: each + (part < more) as u32,
            voltages: map::voltage_offset(K::TILE, time_warp, dish_warp, lane()),
            unit: 0,
            place,
            weights: [[[[0; 4]; 2]; MOST_STEPS]; MOST_CHUNKS],
            fresh: true,
            clipped: [0; MOST_BEAMS],
            exchange: 0,
        }
    }

    /// Returns the sums of the lane's beams over all dishes of the launch, for the times of iteration `iteration` of the
    /// unit in `stage`.
    ///
    /// # Safety
    /// - All threads of the block call it together, with the same arguments, iteration after iteration.
    /// - The unit's copies were waited for, and a barrier of the block passed since.
    #[inline(always)]
    unsafe fn sums(&mut self, stage: u32, iteration: u32) -> [Quad; MOST_BEAMS] {
        let rows = map::tile_time(K::TILE, 0, iteration, 0, 0) * K::TILE.pitch();
        let address = dynamic_shared() + stage + self.voltages + rows;
        let mut sums = [[[0; 2]; 4]; MOST_BEAMS];
        // SAFETY: the unit is there. Of the two exchanges, this was read two iterations ago, before the pair's barrier
        // of the iteration between.
        unsafe {
            let own = multiply::<K>(&self.weights, address, self.lane.p.low_nibbles);
            for index in 0..K::BEAMS {
                sums[index] = quad(&own, index);
            }
            if K::BEAMS == 1 {
                let exchange = dynamic_shared()
                    + K::TILE.stages * K::TILE.unit_bytes()
                    + self.exchange * K::TILE.exchange_bytes();
                give(&quad(&own, 1), exchange);
                named_barrier::<64>(1 + self.lane.role().pair);
                add::<Summed<K>>(&mut sums[0], &receive(exchange));
                self.exchange ^= 1;
            }
        }
        sums
    }
}

impl<K: Beamformer> Shape for Units<'_, K> {
    const STAGES: u32 = K::TILE.stages;
    const STAGE_BYTES: u32 = K::TILE.unit_bytes();

    #[inline(always)]
    fn barrier() {
        barrier();
    }
}

impl<K: Beamformer> Work for Units<'_, K> {
    #[inline(always)]
    fn steps(&self) -> u32 {
        self.count
    }

    #[inline(always)]
    unsafe fn load(&mut self, unit: u32, stage: u32) {
        let p = self.lane.p;
        // Found again for each unit: registers are short.
        let origin = self.place.after(unit - self.unit, p);
        // SAFETY: the whole block loads one of its units, to a stage that is free.
        unsafe { load_unit(p, K::TILE, dynamic_shared() + stage, origin) };
    }

    #[inline(always)]
    unsafe fn prepare(&mut self, _: u32) {
        if self.fresh {
            // SAFETY: the warp is whole, and the stream one of the launch.
            self.weights = unsafe { self.lane.weights(self.place.stream) };
        }
    }

    #[inline(always)]
    unsafe fn multiply(&mut self, unit: u32, stage: u32) {
        let place = self.place;
        let mut words = [[0; 4]; MOST_BEAMS];
        let mut iteration = 0;
        while iteration < opaque(K::WORDS as u32) {
            // SAFETY: the unit is there, and the whole block takes its iterations; sums are of this lane's own beams and
            // times.
            unsafe {
                let mut sums = self.sums(stage, iteration);
                if K::GENERAL {
                    self.lane.finish(place, iteration, &mut sums, &mut self.clipped);
                } else {
                    self.lane.quantise(place.stream, &sums, &mut words, &mut self.clipped);
                }
            }
            iteration += 1;
        }
        if !K::GENERAL {
            // SAFETY: the warp is whole, and the unit the block's alone.
            unsafe { self.lane.store(place, &words) };
        }
        (self.unit, self.place) = (unit + 1, place.after(1, self.lane.p));
        self.fresh = place.is_last(self.lane.p);
        if self.fresh || unit + 1 == self.count {
            let (lane, clipped) = (&self.lane, &mut self.clipped[..K::BEAMS]);
            // SAFETY: all warps come here with the same stream.
            unsafe { add_clipped(lane.p, place.stream, clipped, |index| lane.beam(index)) };
        }
    }
}

/// The whole of a block's work: loads units of voltages, waits for them, multiplies them, stores samples.
///
/// # Safety
/// - All threads of a block of `K::TILE.threads()` call it together, once, in a launch that keeps the conditions of
///   [`Beamform`]: addresses, sizes, and the grid.
/// - The block has `K::TILE.shared_bytes()` of dynamic shared memory, all of it free.
#[inline(always)]
unsafe fn beamform<K: Beamformer>(p: &Beamform) {
    const {
        assert!(K::CHUNKS <= MOST_CHUNKS && K::Precision::STEPS <= MOST_STEPS);
        assert!(K::FRAGMENTS <= MOST_FRAGMENTS && K::BEAMS <= MOST_BEAMS);
    }
    // SAFETY: the block is whole, and its shared memory has the stages, and behind them two exchanges.
    unsafe { ring::run(&mut Units::<K>::new(p)) };
}

/// Calls [`beamform`] of some operands and a tile.
macro_rules! beamform {
    ($p:ident, $precision:ident, $tile:expr, $general:literal) => {{
        struct This;
        impl Beamformer for This {
            type Precision = $precision;
            const TILE: Tile = $tile;
            const GENERAL: bool = $general;
        }
        beamform::<This>(&$p)
    }};
    // Of `ci4` voltages, launches that are not general have code of their own.
    ($p:ident, int8, $tile:expr) => { beamform!(@ $p, Int8, $tile) };
    ($p:ident, int4, $tile:expr) => { beamform!(@ $p, Int4, $tile) };
    ($p:ident, ci8, $tile:expr) => { beamform!($p, Ci8, $tile, true) };
    ($p:ident, cf16, $tile:expr) => { beamform!($p, Cf16, $tile, true) };
    (@ $p:ident, $precision:ident, $tile:expr) => {
        if $p.pass == 0 && $p.output == output::CI4 {
            beamform!($p, $precision, $tile, false)
        } else {
            beamform!($p, $precision, $tile, true)
        }
    };
}

/// The kernels that [`mma_beamformers`](crate::abi::beamform) declares.
macro_rules! beamformers {
    ($($tile:ident $kernel:ident $name:ident: $beam_warps:literal x $dish_warps:literal x
       $time_warps:literal, $chunks:literal chunks of $operands:ident, $fragments:literal at once, $stages:literal stages,
       $blocks:literal blocks;)*) => {$(
        kernel! {
            #[doc = concat!("Beams by dishes of [`beamform::", stringify!($tile), "`].")]
            fn $name(p: Beamform) {
                beamform!(p, $operands, beamform::$tile)
            }
        }
    )*};
}

beamform::mma_beamformers!(beamformers);

kernel! {
    /// The note's own form: [`beamform_mma_96x512`] with the transposes of its section 6, which the order of times in [`map`]
    /// spares. Kept to compare with.
    fn beamform_mma_shuffle_96x512(p: Beamform) {
        beamform!(p, Int8, beamform::TILE_SHUFFLE_96X512, false)
    }
}
