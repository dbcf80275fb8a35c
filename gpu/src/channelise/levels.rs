//! Spectra of any size, hop and encoding: a spectrum a block, each level of the transform by itself.
//!
//! Bound by shared memory, through which every level passes, and by the samples, each of which is decoded
//! `P` times.

use crate::{
    abi::channelise::{
        Channelise, Complex, MISSING, SpectrumStart, bin_at, merge, position_of, triple, untangle,
    },
    channelise::{load_twiddle, sample, value},
    isa::common::{
        add_global_64, barrier, block, blocks, dynamic_shared, load_shared_2, store_shared_2,
        thread, threads,
    },
    tile::divisor,
};

kernel! {
    /// Spectra, one a block at a time.
    fn channelise_levels(p: Channelise) {
        let rows = p.inputs as u64 * p.count as u64;
        let mut row = block() as u64;
        while row < rows {
            let spectrum = (row / divisor(p.inputs).get() as u64) as u32;
            let input = (row % divisor(p.inputs).get() as u64) as u32;
            let place = value::place(&p, input, spectrum);
            filter(&p, input, spectrum, &place);
            transform(&p);
            finish(&p, input, spectrum, &place);
            barrier();
            row += blocks() as u64;
        }
    }
}

/// Point `index` of the transform.
///
/// # Safety
/// - `index` is below the size of the transform in the block's shared memory.
/// - The point was stored before a barrier of the block, and no other thread stores it before the next.
#[inline(always)]
unsafe fn load(index: u32) -> Complex<f32> {
    // SAFETY: 8 aligned bytes that are there and stored, by the conditions above.
    unsafe { load_shared_2(dynamic_shared() + 8 * index).map(f32::from_bits) }
}

/// Stores point `index` of the transform.
///
/// # Safety
/// - `index` is below the size of the transform in the block's shared memory.
/// - Between two barriers of the block, no other thread loads or stores the point.
#[inline(always)]
unsafe fn store(index: u32, point: Complex<f32>) {
    // SAFETY: 8 aligned bytes that are there, and this thread's, by the conditions above.
    unsafe { store_shared_2(dynamic_shared() + 8 * index, point.map(f32::to_bits)) }
}

/// The FIR.
///
/// # Safety
/// - All threads of the block call it together, in a launch that keeps the conditions of [`Channelise`].
/// - `input` is below `p.inputs`, `spectrum` below `p.count`, and `place` is theirs.
#[inline(always)]
unsafe fn filter(p: &Channelise, input: u32, spectrum: u32, place: &SpectrumStart) {
    let turn = sample::turn(p, spectrum);
    let mut index = thread();
    while index < p.size {
        // SAFETY: a point of the transform, this thread's, of a spectrum that is not missing.
        unsafe {
            let missing = place.first == MISSING;
            let zero = [0.0; 2];
            store(index, if missing { zero } else { sample::point(p, input, turn, place, index) });
        }
        index += threads();
    }
    barrier();
}

/// All levels, in place.
///
/// # Safety
/// - All threads of the block call it together, behind a barrier that follows the stores of the samples, in a launch
///   that keeps the conditions of [`Channelise`].
#[inline(always)]
unsafe fn transform(p: &Channelise) {
    let mut span = 1;
    if p.size.is_multiple_of(3) {
        let third = p.size / 3;
        let mut column = thread();
        while column < third {
            let places = [column, column + third, column + 2 * third];
            // SAFETY: three points below the size, which this thread alone takes.
            unsafe {
                let bins = triple(places.map(|place| load(place)));
                store(places[0], bins[0]);
                store(places[1], bins[1]);
                store(places[2], bins[2]);
            }
            column += threads();
        }
        barrier();
        span = 3;
    }
    while span < p.size {
        // Columns that are made.
        let columns = p.size / divisor(2 * span);
        let mut index = thread();
        while index < p.size / 2 {
            let (position, column) = (index / divisor(columns), index % divisor(columns));
            let k = bin_at(position, span);
            let low = column + 2 * position * columns;
            // SAFETY: two points below the size, which this thread alone takes; a position below the span.
            unsafe {
                let w = load_twiddle(p, span, position);
                let [a, b] = merge(load(low), load(low + columns), span, k, w);
                store(low, a);
                store(low + columns, b);
            }
            index += threads();
        }
        barrier();
        span *= 2;
    }
}

/// Untangles real samples, and stores.
///
/// # Safety
/// - All threads of the block call it together, behind a barrier that follows the stores of the bins, in a launch that
///   keeps the conditions of [`Channelise`].
/// - `input` is below `p.inputs`, `spectrum` below `p.count`, and `place` is theirs; no other block stores this spectrum.
#[inline(always)]
unsafe fn finish(p: &Channelise, input: u32, spectrum: u32, place: &SpectrumStart) {
    let mut clipped = 0;
    let mut k = thread();
    // SAFETY: bins are below the size, and each is stored once.
    unsafe {
        if p.complex != 0 {
            while k < p.size {
                let bin = load(position_of(k, p.size));
                clipped += value::store(p, input, spectrum, k, place, bin) as u64;
                k += threads();
            }
        } else {
            while k <= p.size / 2 {
                let mirror = if k == 0 { 0 } else { p.size - k };
                let [bin, other] = [k, mirror].map(|bin| load(position_of(bin, p.size)));
                let w = load_twiddle(p, p.size, position_of(k, p.size));
                let [low, high] = untangle(bin, other, w);
                clipped += value::store(p, input, spectrum, k, place, low) as u64;
                if k != 0 && 2 * k != p.size {
                    clipped += value::store(p, input, spectrum, mirror, place, high) as u64;
                }
                k += threads();
            }
        }
        if clipped != 0 {
            add_global_64(p.clipped + 8 * input as u64, clipped);
        }
    }
}
