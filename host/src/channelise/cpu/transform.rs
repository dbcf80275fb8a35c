//! Spectra of as many inputs and times as a vector has lanes.
//!
//! Lanes are spectra, so that each spectrum's f32 operations are exactly the contract's
//! ([`corrust_gpu::abi::channelise`]), in its order. The FIR alone runs along the samples: its sums are
//! transposed to lanes as they are made. The transform goes from one buffer to the other and back, three
//! levels at a time; bin `k` of column `p` of span `s` lies at `k Z / s + p`.

use corrust_gpu::abi::channelise::{
    Complex, MISSING, Real, SpectrumStart, merge, multiply, quadrant, rotation, triple, turned,
    twiddle, untangle,
};

use super::{encode::encode, vector::Vector};
use crate::channelise::shape::Shape;

/// Numbers of a lane that are brought to, or from, the other lanes' at a time.
pub(super) const TILE: usize = 64;

/// The most lanes.
pub(super) const MAX_LANES: usize = 16;

/// Tables that all spectra share.
pub(super) struct Engine {
    pub shape: Shape,
    /// `h`, for each component of a sample; half of it for real samples.
    pub taps: Vec<f32>,
    /// `exp(-2 pi j t / K)`, `t < K / 2`.
    pub table: Vec<[f32; 2]>,
    /// `[input][channel]`.
    pub gains: Vec<[f32; 2]>,
    pub turns: bool,
}

/// A spectrum of an input.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    pub input: usize,
    pub place: SpectrumStart,
    /// `m D mod K`.
    pub turn: usize,
    /// First of its samples among the decoded ones, in components.
    pub begin: usize,
}

/// Memory of a thread.
#[derive(Default)]
pub(super) struct Scratch {
    /// Decoded components of the samples of lanes.
    pub samples: Vec<f32>,
    buffers: [Vec<Line>; 2],
}

/// Sixteen aligned numbers.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

impl Scratch {
    /// Two buffers of `count` vectors.
    fn buffers<V: Vector>(buffers: &mut [Vec<Line>; 2], count: usize) -> [&mut [V]; 2] {
        assert!(align_of::<V>() <= 64 && size_of::<V>() == 4 * V::LANES);
        let lines = (count * V::LANES).div_ceil(16);
        buffers.each_mut().map(|buffer| {
            if buffer.len() < lines {
                *buffer = vec![Line([0.0; 16]); lines];
            }
            // SAFETY: the lines hold as many numbers, are aligned, and vectors are numbers only.
            unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast::<V>(), count) }
        })
    }
}

/// A transform of one engine's spectra by the instructions of one kind of CPU: for each of at most
/// [`MAX_LANES`] lanes a row of encoded samples, `[lane][channel]`, and clipped ones to add to.
pub(super) type Transform = unsafe fn(&Engine, &[Lane], &mut Scratch, &mut [u8], &mut [u64]);

/// See [`Transform`].
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn transform<V: Vector>(
    engine: &Engine,
    lanes: &[Lane],
    scratch: &mut Scratch,
    rows: &mut [u8],
    clipped: &mut [u64],
) {
    let shape = &engine.shape;
    let residues = shape.residues();
    let complex = shape.raw.is_complex();
    let size = if complex { residues } else { residues / 2 };
    let Scratch { samples, buffers } = scratch;
    let [mut from, mut to] = Scratch::buffers::<V>(buffers, 2 * size);
    // SAFETY: the caller's promise.
    unsafe {
        filter(engine, lanes, samples, from);
        let mut span = 1;
        while span < size {
            let radix = {
                let (from, to) = (from.as_chunks::<2>().0, to.as_chunks_mut::<2>().0);
                step(engine, from, to, span)
            };
            span *= radix;
            std::mem::swap(&mut from, &mut to);
        }
        finish(engine, lanes, from, to);
        let row = shape.channels * shape.encoding.bytes();
        let mut tile = [0.0; TILE * MAX_LANES];
        for first in (0..2 * size).step_by(TILE) {
            let count = TILE.min(2 * size - first);
            for part in (0..count).step_by(V::LANES) {
                V::rows(&to[first + part..], &mut tile[part..], TILE);
            }
            for (lane, clipped) in clipped.iter_mut().enumerate().take(lanes.len()) {
                if lanes[lane].place.first == MISSING {
                    continue;
                }
                let numbers = &tile[lane * TILE..][..count];
                let begin = lane * row + first / 2 * shape.encoding.bytes();
                let bytes = &mut rows[begin..][..count / 2 * shape.encoding.bytes()];
                *clipped += encode(numbers, shape.encoding, bytes);
            }
        }
    }
}

/// The FIR: sums of residues, of lanes.
#[inline(always)]
unsafe fn filter<V: Vector>(engine: &Engine, lanes: &[Lane], samples: &[f32], to: &mut [V]) {
    let shape = &engine.shape;
    let parts = if shape.raw.is_complex() { 2 } else { 1 };
    let components = shape.residues() * parts;
    let mut tile = [0.0; TILE * MAX_LANES];
    for first in (0..components).step_by(TILE) {
        let count = TILE.min(components - first);
        for (lane, row) in tile.chunks_exact_mut(TILE).enumerate().take(V::LANES) {
            let row = &mut row[..count];
            let Some(lane) = lanes.get(lane).filter(|lane| lane.place.first != MISSING) else {
                row.fill(0.0);
                continue;
            };
            let samples = &samples[lane.begin..][..components * shape.taps];
            // Tap at which the sum of the tile's first residue begins.
            let back = (first + components - lane.turn * parts) % components;
            let (head, tail) = row.split_at_mut(count.min(components - back));
            // SAFETY: the caller's promise.
            unsafe {
                sums::<V>(engine, samples, back, head);
                if !tail.is_empty() {
                    sums::<V>(engine, samples, 0, tail);
                }
            }
        }
        for part in (0..count).step_by(V::LANES) {
            // SAFETY: the caller's promise; components are a multiple of the lanes, or of 8.
            unsafe {
                if count - part >= V::LANES {
                    V::columns(&tile[part..], TILE, &mut to[first + part..]);
                } else {
                    let mut columns = [V::splat(0.0); MAX_LANES];
                    V::columns(&tile[part..], TILE, &mut columns);
                    to[first + part..].copy_from_slice(&columns[..count - part]);
                }
            }
        }
    }
}

/// Sums over the taps, of the residues from `first` on.
#[inline(always)]
unsafe fn sums<V: Vector>(engine: &Engine, samples: &[f32], first: usize, to: &mut [f32]) {
    let taps = engine.shape.taps;
    let components = samples.len() / taps;
    let mut done = 0;
    // Chains of sums that run side by side.
    const CHAINS: usize = 4;
    while done + CHAINS * V::LANES <= to.len() {
        let mut sums = [V::splat(0.0); CHAINS];
        for tap in 0..taps {
            let begin = tap * components + first + done;
            let (h, x) = (&engine.taps[begin..], &samples[begin..]);
            let (h, x) = (&h[..CHAINS * V::LANES], &x[..CHAINS * V::LANES]);
            for (chain, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the caller's promise; both are as long.
                unsafe {
                    let h = V::load(&h[chain * V::LANES..]);
                    *sum = h.fma(V::load(&x[chain * V::LANES..]), *sum);
                }
            }
        }
        for (chain, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller's promise; there is room.
            unsafe { sum.store(&mut to[done + chain * V::LANES..]) };
        }
        done += CHAINS * V::LANES;
    }
    for (index, sum) in to.iter_mut().enumerate().skip(done) {
        *sum = 0.0;
        for tap in 0..taps {
            let place = tap * components + first + index;
            *sum = engine.taps[place].mul_add(samples[place], *sum);
        }
    }
}

/// Makes columns of wider span, and returns by how much.
#[inline(always)]
unsafe fn step<V: Vector>(
    engine: &Engine,
    from: &[Complex<V>],
    to: &mut [Complex<V>],
    span: usize,
) -> usize {
    let size = from.len();
    if span == 1 && size.is_multiple_of(3) {
        let third = size / 3;
        for column in 0..third {
            let bins = triple([0, 1, 2].map(|part| from[column + part * third]));
            for (k, bin) in bins.into_iter().enumerate() {
                to[k * third + column] = bin;
            }
        }
        return 3;
    }
    // The remaining levels go in threes, an incomplete group first.
    match (size / span).trailing_zeros() {
        levels if levels % 3 == 0 => levels_of::<V, 8>(engine, from, to, span),
        levels if levels % 3 == 2 => levels_of::<V, 4>(engine, from, to, span),
        _ => levels_of::<V, 2>(engine, from, to, span),
    }
}

/// `log2(R)` levels.
#[inline(always)]
fn levels_of<V: Vector, const R: usize>(
    engine: &Engine,
    from: &[Complex<V>],
    to: &mut [Complex<V>],
    span: usize,
) -> usize {
    let size = from.len();
    let residues = engine.shape.residues() as u32;
    let columns = size / (span * R);
    let levels = R.trailing_zeros();
    let (from, to) = (&from[..columns * span * R], &mut to[..columns * span * R]);
    for k in 0..span {
        let mut roots = [[V::splat(0.0); 2]; R];
        for level in 0..levels {
            for part in 0..1 << level {
                let bin = (k + part * span) as u32;
                let root = engine.table[twiddle(residues, (span << level) as u32, bin) as usize];
                roots[(1 << level) + part] = root.map(V::splat);
            }
        }
        for column in 0..columns {
            let mut values = [[V::splat(0.0); 2]; R];
            for (part, value) in values.iter_mut().enumerate() {
                // SAFETY: k < span, column < columns, part < R: below span R columns.
                *value = unsafe { *from.get_unchecked((k * R + part) * columns + column) };
            }
            for level in 0..levels {
                // Columns that are left of each bin, after this level.
                let left = R >> (level + 1);
                let before = values;
                for part in 0..1 << level {
                    for index in 0..left {
                        let low = 2 * left * part + index;
                        let [a, b] = merge(
                            before[low],
                            before[low + left],
                            (span << level) as u32,
                            (k + part * span) as u32,
                            roots[(1 << level) + part],
                        );
                        values[left * part + index] = a;
                        values[left * (part + (1 << level)) + index] = b;
                    }
                }
            }
            for (part, value) in values.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { *to.get_unchecked_mut((k + part * span) * columns + column) = value };
            }
        }
    }
    R
}

/// Untangles the bins of real samples; gains and turns. `to` has the channels in their order.
#[inline(always)]
unsafe fn finish<V: Vector>(engine: &Engine, lanes: &[Lane], from: &[V], to: &mut [V]) {
    let bins = from.as_chunks::<2>().0;
    let size = bins.len();
    let first = &engine.gains[lanes[0].input * size..][..size];
    let mut gains = [first; MAX_LANES];
    let mut turns = [[0_u64; 2]; MAX_LANES];
    for (lane, (gains, turns)) in lanes.iter().zip(gains.iter_mut().zip(&mut turns)) {
        *gains = &engine.gains[lane.input * size..][..size];
        *turns = [lane.place.phase, lane.place.slope];
    }
    let alike = lanes.iter().all(|lane| lane.input == lanes[0].input);
    let mut channels = Channels { engine, gains, alike, turns, to: to.as_chunks_mut::<2>().0 };
    if engine.shape.raw.is_complex() {
        for (bin, &value) in bins.iter().enumerate() {
            let frequency = if bin >= size / 2 { bin as i64 - size as i64 } else { bin as i64 };
            // SAFETY: the CPU has the instructions of V.
            unsafe { channels.put(frequency, value) };
        }
        return;
    }
    for k in 0..=size / 2 {
        let mirror = if k == 0 { 0 } else { size - k };
        let root = engine.table[k].map(V::splat);
        let [low, high] = untangle(bins[k], bins[mirror], root);
        // SAFETY: as above.
        unsafe {
            channels.put(k as i64, low);
            if k != 0 && k != mirror {
                channels.put(mirror as i64, high);
            }
        }
    }
}

/// Where [`finish`] writes its channels.
struct Channels<'a, V> {
    engine: &'a Engine,
    /// Of each lane's input.
    gains: [&'a [[f32; 2]]; MAX_LANES],
    /// Whether all lanes are of one input.
    alike: bool,
    /// Phase and slope of each lane.
    turns: [[u64; 2]; MAX_LANES],
    to: &'a mut [Complex<V>],
}

impl<V: Vector> Channels<'_, V> {
    /// Writes a channel. No closure: one that is not inlined has none of the CPU's vector instructions.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn put(&mut self, frequency: i64, value: Complex<V>) {
        let shape = &self.engine.shape;
        let (value, frequency) = match shape.inverted {
            true => ([value[0], value[1].neg()], -frequency),
            false => (value, frequency),
        };
        let channel = (frequency - shape.frequency(0)) as usize;
        let gain = if self.alike {
            self.gains[0][channel].map(V::splat)
        } else {
            let mut gain = [[0.0; MAX_LANES]; 2];
            for (lane, gains) in self.gains.iter().enumerate() {
                [gain[0][lane], gain[1][lane]] = gains[channel];
            }
            // SAFETY: there are as many numbers as lanes; the caller's CPU has the instructions.
            unsafe { [V::load(&gain[0]), V::load(&gain[1])] }
        };
        let value = multiply(value, gain);
        self.to[channel] = match self.engine.turns {
            // SAFETY: the caller's CPU has the instructions.
            true => multiply(value, unsafe { turning::<V>(&self.turns, frequency) }),
            false => value,
        };
    }
}

/// `exp(2 pi j (phase + slope * frequency))` of lanes' turns.
#[inline(always)]
unsafe fn turning<V: Vector>(turns: &[[u64; 2]; MAX_LANES], frequency: i64) -> Complex<V> {
    let mut quarters = [0_u32; MAX_LANES];
    let mut rests = [0.0; MAX_LANES];
    for lane in 0..V::LANES {
        let [phase, slope] = turns[lane];
        let turn = phase.wrapping_add(slope.wrapping_mul(frequency as u64));
        let rest;
        (quarters[lane], rest) = quadrant((turn >> 32) as u32);
        rests[lane] = rest as f32;
    }
    let mut parts = [[0.0; MAX_LANES]; 2];
    // SAFETY: there are as many numbers as lanes; the caller's CPU has the instructions.
    unsafe {
        let [cosines, sines] = rotation(V::load(&rests));
        cosines.store(&mut parts[0]);
        sines.store(&mut parts[1]);
    }
    for lane in 0..V::LANES {
        let part = [Number(parts[0][lane]), Number(parts[1][lane])];
        let [cosine, sine] = turned(part, quarters[lane]);
        (parts[0][lane], parts[1][lane]) = (cosine.0, sine.0);
    }
    // SAFETY: as above.
    unsafe { [V::load(&parts[0]), V::load(&parts[1])] }
}

#[derive(Clone, Copy)]
struct Number(f32);

impl Real for Number {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self(value)
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(self.0 * other.0)
    }

    #[inline(always)]
    fn fma(self, factor: Self, term: Self) -> Self {
        Self(self.0.mul_add(factor.0, term.0))
    }

    #[inline(always)]
    fn neg(self) -> Self {
        Self(-self.0)
    }
}
