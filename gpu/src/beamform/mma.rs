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
//! dishes are added in launches of their own, at their own scale: exact for every byte. (The note
//! shifts partial sums to 16 bits, eq. 19, which is not.) With int4 weights (`Int4`) the nibbles of
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
            self, Beamform, CHUNK_BYTES, CHUNK_VOLTAGES, TILE_SHUFFLE_96X512, Tile, UNIT_TIMES,
            pass,
        },
        channelise::output,
    },
    beamform::{
        finish::{
            Float32, Int32, Quad, Sum, add_clipped, add_passes, consecutive, finish_times,
            quantise, store,
        },
        map,
    },
    isa::{
        common::{
            add_f32, barrier, block, blocks, dynamic_shared, lane, load_global_4, load_shared_4,
            named_barrier, opaque, store_shared_4, sub_f32, thread,
        },
        sm_80::{
            cp_async_16, cp_async_commit, cp_async_wait, cp_async_whole_16, mma_m16n8k16_f16,
            mma_m16n8k32_s8, mma_m16n8k64_s4,
        },
    },
    reorder::transpose,
    tile::divisor,
};

/// Bytes of one copy.
const COPY_BYTES: u32 = 16;

/// Type of the weights, and how voltages become the other operand: in `STEPS` multiplications a
/// chunk of dishes.
trait Precision<const STEPS: usize> {
    /// Its sums, of which those that are no integers have no scale.
    type Sum: Sum;
    /// Its sums are `1 << SCALE` times those of the voltages.
    const SCALE: u32;
    /// Bytes of a chunk of prepared weights.
    const CHUNK_BYTES: u32;

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

impl Precision<{ map::STEPS as usize }> for Int8 {
    type Sum = Int32;
    const SCALE: u32 = 4;
    const CHUNK_BYTES: u32 = CHUNK_BYTES;

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

impl Precision<1> for Int4 {
    type Sum = Int32;
    const SCALE: u32 = 0;
    const CHUNK_BYTES: u32 = CHUNK_BYTES / 2;

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

impl Precision<1> for Ci8 {
    type Sum = Int32;
    const SCALE: u32 = 0;
    const CHUNK_BYTES: u32 = CHUNK_BYTES / 2;

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

impl Precision<1> for Cf16 {
    type Sum = Float32;
    const SCALE: u32 = 0;
    const CHUNK_BYTES: u32 = CHUNK_BYTES / 2;

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
type Weights<const CHUNKS: usize, const STEPS: usize> = [[[[u32; 4]; 2]; STEPS]; CHUNKS];

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
unsafe fn stage(p: &Beamform, tile: Tile, shared: u32, UnitOrigin { stream, time }: UnitOrigin) {
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
            // SAFETY: the same of what is there; what is not read has an address inside the voltages.
            unsafe { cp_async_16(shared, if read { address } else { p.voltages }, bytes) };
        }
        shared += rows * tile.pitch();
        address += rows as u64 * time_pitch;
        row += rows;
    }
}

/// The weights of a warp, from `address` on, for its first chunk.
///
/// # Safety
/// - `address` is a multiple of 16, the first of the warp's chunks of weights: `CHUNKS * P::CHUNK_BYTES` bytes of
///   device memory were written there before the launch, and nobody writes them in it.
#[inline(always)]
unsafe fn load_weights<P: Precision<STEPS>, const CHUNKS: usize, const STEPS: usize>(
    address: u64,
) -> Weights<CHUNKS, STEPS> {
    let mut weights = [[[[0; 4]; 2]; STEPS]; CHUNKS];
    let address = address + map::weight_offset(0, 0, lane()) as u64;
    for chunk in 0..CHUNKS {
        for step in 0..STEPS {
            for part in 0..2 {
                let offset = chunk as u64 * P::CHUNK_BYTES as u64
                    + map::weight_offset(step as u32, part as u32, 0) as u64;
                // SAFETY: 16 aligned bytes of the lane's, within one of the chunks.
                weights[chunk][step][part] = unsafe { load_global_4(address + offset) };
            }
        }
    }
    weights
}

/// `sum_d A E` over the dishes of a warp, for two fragments of 8 times, `FRAGMENTS` of them at once;
/// `voltages` is where the lane finds those of the first.
///
/// # Safety
/// All lanes of the warp call it; the unit of voltages is complete and visible.
#[inline(always)]
unsafe fn multiply<
    P: Precision<STEPS>,
    const STEPS: usize,
    const CHUNKS: usize,
    const FRAGMENTS: usize,
>(
    weights: &Weights<CHUNKS, STEPS>,
    tile: Tile,
    voltages: u32,
    low: u32,
) -> Sums {
    let mut sums = [[[0; 4]; 2]; 2];
    for first in (0..2 / FRAGMENTS).map(|group| group * FRAGMENTS) {
        let [mut rr, mut ii, mut ri, mut ir] = [[[0; 4]; FRAGMENTS]; 4];
        for chunk in 0..CHUNKS {
            let mut loaded = [[0; 4]; FRAGMENTS];
            for fragment in 0..FRAGMENTS {
                let time = map::tile_time(tile, 0, 0, (first + fragment) as u32, 0);
                let offset = time * tile.pitch() + chunk as u32 * CHUNK_VOLTAGES;
                // SAFETY: the caller's promise.
                loaded[fragment] = unsafe { load_shared_4(voltages + offset) };
            }
            for step in 0..STEPS {
                let split = map!(loaded, of FRAGMENTS to [[0; 2]; 2], |words: [u32; 4]| P::split(words, step, low));
                let [a_real, a_imaginary] = weights[chunk][step];
                // The same weights one after the other: registers are read once for them.
                for fragment in 0..FRAGMENTS {
                    let [real, imaginary] = split[fragment];
                    P::multiply(&mut rr[fragment], a_real, real);
                    P::multiply(&mut ri[fragment], a_real, imaginary);
                }
                for fragment in 0..FRAGMENTS {
                    let [real, imaginary] = split[fragment];
                    P::multiply(&mut ii[fragment], a_imaginary, imaginary);
                    P::multiply(&mut ir[fragment], a_imaginary, real);
                }
            }
        }
        for fragment in 0..FRAGMENTS {
            let [real, imaginary] = &mut sums[first + fragment];
            for word in 0..4 {
                [real[word], imaginary[word]] = P::parts([
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

/// Address at which a warp leaves the sums of a lane for the warp of the other dishes: 1024 bytes a warp.
#[inline(always)]
fn exchange_place(exchange: u32, warp: u32, half: usize) -> u32 {
    exchange + warp * 1024 + half as u32 * 512 + lane() * 16
}

/// Gives away the sums of the beam that the other warp keeps.
///
/// # Safety
/// Nobody reads this warp's part of `exchange` any more.
#[inline(always)]
unsafe fn give(sums: &Quad, exchange: u32) {
    let warp = opaque(thread()) / 32;
    for half in 0..2 {
        let [[a, b], [c, d]] = [sums[2 * half], sums[2 * half + 1]];
        let words = [a, b, c, d].map(|sum| sum as u32);
        // SAFETY: this warp's place.
        unsafe { store_shared_4(exchange_place(exchange, warp, half), words) };
    }
}

/// Sums that the other warp left.
///
/// # Safety
/// It has been given, and a barrier passed since.
#[inline(always)]
unsafe fn receive(exchange: u32) -> Quad {
    let mut sums = [[0; 2]; 4];
    let warp = (opaque(thread()) / 32) ^ 1;
    for half in 0..2 {
        // SAFETY: the other warp's place.
        let words = unsafe { load_shared_4(exchange_place(exchange, warp, half)) };
        let [a, b, c, d] = words.map(|sum| sum as i32);
        (sums[2 * half], sums[2 * half + 1]) = ([a, b], [c, d]);
    }
    sums
}

/// Origin of a unit of voltages.
#[derive(Clone, Copy)]
struct UnitOrigin {
    stream: u32,
    /// Its first time.
    time: u32,
}

/// The beams of a lane: their number `index`, and what becomes of their sums.
struct Lane<'a, S, const LANE_BEAMS: usize, const WORDS: usize, const GENERAL: bool> {
    p: &'a Beamform,
    tile: Tile,
    group: u32,
    scale: u32,
    sums: PhantomData<S>,
}

impl<S: Sum, const LANE_BEAMS: usize, const WORDS: usize, const GENERAL: bool>
    Lane<'_, S, LANE_BEAMS, WORDS, GENERAL>
{
    // Registers are short: values that follow from the thread's index are computed again.
    #[inline(always)]
    fn role(&self) -> Role {
        Role::of_warp(opaque(thread()) / 32, self.tile)
    }

    /// First beam of the warp.
    #[inline(always)]
    fn first_beam(&self) -> u32 {
        self.group * self.tile.beams() + self.role().beam_warp * beamform::ROW_BEAMS
    }

    #[inline(always)]
    fn beam(&self, index: usize) -> u32 {
        self.first_beam() + map::kept_beam(lane(), self.role().dish_warp, index as u32)
    }

    /// First time of the lane in a unit.
    #[inline(always)]
    fn first_time(&self) -> u32 {
        map::time(self.tile.time_warps, self.role().time_warp, 0, 0, lane() % 4 * 2)
    }

    /// Row of a beam among those of all streams, padded.
    #[inline(always)]
    fn row(&self, stream: u32, index: usize) -> u64 {
        (stream * (self.p.groups * self.tile.beams()) + self.beam(index)) as u64
    }

    /// In general launches, adds earlier launches' sums over other dishes, and keeps the sums for later ones or makes
    /// samples and stores them, in iteration `iteration` of a unit.
    ///
    /// # Safety
    /// The conditions of the kernels hold.
    #[inline(always)]
    unsafe fn finish(
        &self,
        place: UnitOrigin,
        iteration: u32,
        sums: &mut [Quad; LANE_BEAMS],
        clipped: &mut [u32; LANE_BEAMS],
    ) {
        let p = self.p;
        let time = place.time + self.first_time() + 4 * iteration;
        for index in 0..LANE_BEAMS {
            let row = self.row(place.stream, index);
            let units = p.times.div_ceil(UNIT_TIMES);
            let first = row * (units * UNIT_TIMES) as u64;
            let address = p.partial + 8 * (first + time as u64);
            // SAFETY: the caller's promise: these four sums, and samples, are this lane's.
            unsafe {
                add_passes::<S>(&mut sums[index], self.scale, address, p.pass);
                let beam = self.beam(index);
                if p.pass & pass::KEEP == 0 && beam < p.beam_count {
                    let how = load_global_4(p.beams + 16 * row);
                    let row = beam as u64 * p.streams as u64 + place.stream as u64;
                    clipped[index] += finish_times::<S>(p, &sums[index], how, row, time);
                }
            }
        }
    }

    /// Makes four samples of each beam from their sums, behind those in `words`.
    ///
    /// # Safety
    /// The conditions of the kernels hold.
    #[inline(always)]
    unsafe fn quantise(
        &self,
        stream: u32,
        sums: &[Quad; LANE_BEAMS],
        words: &mut [[u32; 4]; LANE_BEAMS],
        clipped: &mut [u32; LANE_BEAMS],
    ) {
        for index in 0..LANE_BEAMS {
            // SAFETY: the caller's promise.
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
    /// The conditions of the kernels hold.
    #[inline(always)]
    unsafe fn store(&self, place: UnitOrigin, words: &[[u32; 4]; LANE_BEAMS]) {
        let p = self.p;
        for index in 0..LANE_BEAMS {
            let beam = self.beam(index);
            let words = if self.tile.transposes { consecutive(words[index]) } else { words[index] };
            if beam < p.beam_count {
                let row = beam as u64 * p.streams as u64 + place.stream as u64;
                let (address, time) =
                    (p.samples + row * p.sample_pitch, place.time + self.first_time());
                // SAFETY: the caller's promise: no other lane has these times of this beam.
                unsafe { store::<WORDS>(address, time, p.times, &words) };
            }
        }
    }

    /// Adds the clipped samples of `stream` to those in memory, and starts again from none.
    ///
    /// # Safety
    /// The conditions of the kernels hold.
    #[inline(always)]
    unsafe fn count(&self, stream: u32, clipped: &mut [u32; LANE_BEAMS]) {
        // SAFETY: the caller's promise.
        unsafe { add_clipped(self.p, stream, clipped, |index| self.beam(index)) };
    }
}

/// The whole of a block's work.
///
/// Long, as copies, products and samples of neighbouring units overlap in one loop.
///
/// # Safety
/// The conditions of the kernels hold.
#[inline(always)]
unsafe fn beamform<
    P: Precision<STEPS>,
    const STEPS: usize,
    const CHUNKS: usize,
    const FRAGMENTS: usize,
    const LANE_BEAMS: usize,
    const WORDS: usize,
    const PENDING: u32,
    const GENERAL: bool,
>(
    p: &Beamform,
    tile: Tile,
) {
    let shared = dynamic_shared();
    // The blocks of a group of beams share the units of all streams, numbered in one row.
    let groups = divisor(p.groups);
    let (group, part) = (block() % groups, block() / groups);
    let parts = divisor(blocks() / groups);
    let units = divisor(p.times.div_ceil(UNIT_TIMES));
    let total = units.get() * p.streams;
    let (each, more) = (total / parts, total % parts);
    let first = part * each + if part < more { part } else { more };
    let mut left = each + (part < more) as u32;
    let mut place = UnitOrigin { stream: first / units, time: first % units * UNIT_TIMES };
    let mut slot = 0;
    let lanes = Lane::<P::Sum, LANE_BEAMS, WORDS, GENERAL> {
        p,
        tile,
        group,
        scale: P::SCALE,
        sums: PhantomData,
    };

    let unit_address = |slot: u32| shared + slot % tile.stages * tile.unit_bytes();
    // Stages the unit that is `ahead` of the first of the `left` units, which is at `place`.
    let stage_ahead = |ahead: u32, left: u32, mut place: UnitOrigin, slot: u32| {
        if left > ahead {
            for _ in 0..ahead {
                place.time += UNIT_TIMES;
                if place.time >= p.times {
                    place = UnitOrigin { stream: place.stream + 1, time: 0 };
                }
            }
            // SAFETY: the caller's promise; the unit there before was read before the last barrier.
            unsafe { stage(p, tile, unit_address(slot + ahead), place) };
        }
        cp_async_commit();
    };
    let mut ahead = 0;
    while ahead < opaque(tile.stages - 1) {
        stage_ahead(ahead, left, place, slot);
        ahead += 1;
    }

    let role = lanes.role();
    let voltages = map::voltage_offset(tile, role.time_warp, role.dish_warp, lane());
    // Two exchanges alternate: the one that is written was read before the last barrier.
    let exchange =
        |which: u32| shared + tile.stages * tile.unit_bytes() + which * tile.exchange_bytes();

    let mut weights: Weights<CHUNKS, STEPS> = [[[[0; 4]; 2]; STEPS]; CHUNKS];
    let mut fresh = true;
    let mut clipped = [0u32; LANE_BEAMS];
    let mut which = 0;
    while left > 0 {
        if fresh {
            let row_tiles = p.groups * tile.beam_warps;
            let row_tile = place.stream * row_tiles + lanes.first_beam() / beamform::ROW_BEAMS;
            let chunk = lanes.role().dish_warp * tile.chunks;
            let chunks = row_tile as u64 * p.weight_chunks as u64 + chunk as u64;
            // SAFETY: the caller's promise.
            weights = unsafe {
                load_weights::<P, CHUNKS, STEPS>(p.weights + chunks * P::CHUNK_BYTES as u64)
            };
            fresh = false;
        }
        cp_async_wait::<PENDING>();
        barrier();
        stage_ahead(tile.stages - 1, left, place, slot);

        let mut words = [[0u32; 4]; LANE_BEAMS];
        let mut iteration = 0;
        while iteration < opaque(WORDS as u32) {
            let rows = map::tile_time(tile, 0, iteration, 0, 0) * tile.pitch();
            let address = unit_address(slot) + voltages + rows;
            // SAFETY: the unit was waited for; all warps come here together.
            unsafe {
                let all =
                    multiply::<P, STEPS, CHUNKS, FRAGMENTS>(&weights, tile, address, p.low_nibbles);
                let mut sums = [[[0; 2]; 4]; LANE_BEAMS];
                for index in 0..LANE_BEAMS {
                    sums[index] = quad(&all, index);
                }
                if LANE_BEAMS == 1 {
                    give(&quad(&all, 1), exchange(which));
                    named_barrier::<64>(1 + lanes.role().pair);
                    add::<P::Sum>(&mut sums[0], &receive(exchange(which)));
                    which ^= 1;
                }
                if GENERAL {
                    lanes.finish(place, iteration, &mut sums, &mut clipped);
                } else {
                    lanes.quantise(place.stream, &sums, &mut words, &mut clipped);
                }
            }
            iteration += 1;
        }
        if !GENERAL {
            // SAFETY: the caller's promise.
            unsafe { lanes.store(place, &words) };
        }

        slot = (slot + 1) % tile.stages;
        left -= 1;
        let stream = place.stream;
        place.time += UNIT_TIMES;
        if place.time >= p.times {
            (place, fresh) = (UnitOrigin { stream: stream + 1, time: 0 }, true);
        }
        if fresh || left == 0 {
            // SAFETY: the caller's promise.
            unsafe { lanes.count(stream, &mut clipped) };
        }
    }
    cp_async_wait::<0>();
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

/// The kernels that [`mma_beamformers`](crate::abi::beamform) declares.
macro_rules! beamformers {
    ($($tile:ident $kernel:ident $name:ident: $beam_warps:literal x $dish_warps:literal x
       $time_warps:literal, $chunks:literal chunks of $weights:ident, $fragments:literal at once, $stages:literal stages,
       $blocks:literal blocks;)*) => {$(
        kernel! {
            #[doc = concat!("Beams by dishes of [`beamform::", stringify!($tile), "`].")]
            fn $name(p: Beamform) {
                const TILE: Tile = beamform::$tile;
                const CHUNKS: usize = TILE.chunks as usize;
                const FRAGMENTS: usize = TILE.fragments as usize;
                const LANE_BEAMS: usize = 2 / TILE.dish_warps as usize;
                const WORDS: usize = 4 / TILE.time_warps as usize;
                const PENDING: u32 = TILE.stages - 2;
                beamformers!(@ $weights p TILE CHUNKS FRAGMENTS LANE_BEAMS WORDS PENDING)
            }
        }
    )*};
    (@ int8 $($constant:ident)*) => { beamformers!(@@ Int8 2 $($constant)*) };
    (@ int4 $($constant:ident)*) => { beamformers!(@@ Int4 1 $($constant)*) };
    (@ ci8 $($constant:ident)*) => { beamformers!(@@@ Ci8 1 true $($constant)*) };
    (@ cf16 $($constant:ident)*) => { beamformers!(@@@ Cf16 1 true $($constant)*) };
    // Operands, and `mma` of a chunk.
    (@@ $operands:ident $steps:literal $p:ident $($constant:ident)*) => {
        if $p.pass == 0 && $p.output == output::CI4 {
            beamformers!(@@@ $operands $steps false $p $($constant)*)
        } else {
            beamformers!(@@@ $operands $steps true $p $($constant)*)
        }
    };
    (@@@ $operands:ident $steps:literal $general:literal $p:ident $tile:ident $chunks:ident
        $fragments:ident $beams:ident $words:ident $pending:ident) => {
        beamform::<$operands, $steps, $chunks, $fragments, $beams, $words, $pending, $general>(&$p, $tile)
    };
}

beamform::mma_beamformers!(beamformers);

kernel! {
    /// [`beamform_mma_96x512`] with the transposes of section 6, which the order of times in [`map`] spares.
    fn beamform_mma_shuffle_96x512(p: Beamform) {
        beamform::<Int8, 2, 4, 2, 1, 4, 0, false>(&p, TILE_SHUFFLE_96X512)
    }
}
