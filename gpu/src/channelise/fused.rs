//! Spectra in one pass over memory: a block makes [`FUSED_SPECTRA`] consecutive spectra of a group of inputs
//! in its shared memory.
//!
//! ```text
//! samples -> [FIR] -> [first pass: 16 or 12] -> [passes of 16, the last of 2 to 16] -> [untangle, quantise]
//! ```
//!
//! A thread that filters four residues of two inputs loads each sample and each tap of theirs once for all
//! spectra of the block. Passes are in place: a thread loads a butterfly's points, merges them level by
//! level in registers and puts them back where they were, so that a barrier stands between passes only.
//! What quantises takes a channel of the group's inputs together, which lie side by side in `tcn`.
//!
//! Bound by FP32 instructions and shared memory about alike: about 45 instructions and 32 bytes of shared
//! memory for each real sample with 8 taps and 4096 channels.

use crate::{
    abi::channelise::{
        Channelise, Complex, FUSED_SPECTRA, MISSING, PAD, Place, Real, butterfly, merge, multiply,
        output, raw, spectrum_bytes, triple, unit, untangle,
    },
    channelise::{bin_at, position_of, root, sample, value},
    isa::common::{
        add_global_64, barrier, block, dynamic_shared, from_i32, load_global, load_global_4,
        load_shared_2, round, store_global_2, store_shared_2, thread, threads,
    },
    tile::divisor,
};

/// [`FUSED_SPECTRA`], for arrays.
const SPECTRA: usize = FUSED_SPECTRA as usize;

kernel! {
    /// A group of inputs, a run of spectra.
    fn channelise_fused(p: Channelise) {
        let groups = p.inputs.div_ceil(divisor(p.group).get());
        let work = Work {
            input: block() % divisor(groups) * p.group,
            spectrum: block() / divisor(groups) * FUSED_SPECTRA,
        };
        work.filter(&p);
        barrier();
        let rows = FUSED_SPECTRA * p.group;
        let mut span = if p.size.is_power_of_two() {
            first::<16>(&p, rows);
            16
        } else {
            first::<12>(&p, rows);
            12
        };
        barrier();
        while span < p.size {
            match p.size / divisor(span) {
                2 => pass::<2, 1>(&p, span, rows),
                4 => pass::<4, 2>(&p, span, rows),
                8 => pass::<8, 3>(&p, span, rows),
                _ => pass::<16, 4>(&p, span, rows),
            }
            barrier();
            span *= 16;
        }
        work.finish(&p);
    }
}

/// What a block makes.
#[derive(Clone, Copy)]
struct Work {
    /// The first input of its group.
    input: u32,
    /// The first of its spectra.
    spectrum: u32,
}

/// Where point `index` of spectrum `row` of the block lies.
#[inline(always)]
fn address(p: &Channelise, row: u32, index: u32) -> u32 {
    dynamic_shared() + row * spectrum_bytes(p.size) + 8 * (index + index / PAD)
}

/// Loads a point.
#[inline(always)]
unsafe fn load(address: u32) -> Complex<f32> {
    // SAFETY: a point of the block's.
    unsafe { load_shared_2(address).map(f32::from_bits) }
}

/// See [`load`].
#[inline(always)]
unsafe fn store(address: u32, point: Complex<f32>) {
    // SAFETY: a point of the block's.
    unsafe { store_shared_2(address, point.map(f32::to_bits)) }
}

/// How threads share what is to be done for every row: from `item` of `row` on, by these steps.
struct Share {
    item: u32,
    item_step: u32,
    row: u32,
    row_step: u32,
}

/// Shares `items` of every row; of few, several rows at a time.
#[inline(always)]
fn share(items: u32, rows: u32) -> Share {
    if items >= threads() {
        Share { item: thread(), item_step: threads(), row: 0, row_step: 1 }
    } else {
        let at_once = threads() / divisor(items);
        let row = thread() / divisor(items);
        let row = if row < at_once { row } else { rows };
        Share { item: thread() % divisor(items), item_step: items, row, row_step: at_once }
    }
}

impl Work {
    /// The FIR, of all rows: row `j * group + i` is spectrum `j` of input `i`.
    #[inline(always)]
    unsafe fn filter(&self, p: &Channelise) {
        let mut pair = 0;
        while pair < p.group {
            // SAFETY: the parameters are as declared.
            unsafe {
                match self.regular(p, pair) {
                    Some(first) if p.tap_count == 8 => self.filter_whole::<8>(p, pair, first),
                    Some(first) if p.tap_count == 4 => self.filter_whole::<4>(p, pair, first),
                    _ => self.filter_any(p, pair),
                }
            }
            pair += 2;
        }
    }

    /// Input `index` of the group; beyond the last, the last again.
    #[inline(always)]
    fn input(&self, p: &Channelise, index: u32) -> u32 {
        let input = self.input + index;
        if input < p.inputs { input } else { p.inputs - 1 }
    }

    /// Addresses of the samples of a pair of inputs, if they are int8, next to each other, and all spectra
    /// of the block begin `K` after the one before, at whole words.
    #[inline(always)]
    unsafe fn regular(&self, p: &Channelise, pair: u32) -> Option<[u64; 2]> {
        let plain = p.encoding == raw::I8
            && p.complex == 0
            && p.time_stride == 1
            && p.hop == p.residues
            && p.turn == 0
            && self.spectrum + FUSED_SPECTRA <= p.count;
        if !plain {
            return None;
        }
        let inputs = [self.input(p, pair), self.input(p, pair + 1)];
        let mut regular = true;
        let mut addresses = [0; 2];
        for index in 0..2 {
            // SAFETY: the input and the spectra are below their counts.
            unsafe {
                let first = value::place(p, inputs[index], self.spectrum).first;
                regular &= first != MISSING;
                if p.places != 0 {
                    for later in 1..FUSED_SPECTRA {
                        let next = value::place(p, inputs[index], self.spectrum + later).first;
                        regular &= next == first.wrapping_add((later * p.residues) as i64);
                    }
                }
                addresses[index] =
                    (p.samples + inputs[index] as u64 * p.input_stride).wrapping_add(first as u64);
            }
            regular &= addresses[index] % 4 == 0;
        }
        if regular { Some(addresses) } else { None }
    }

    /// The FIR of two inputs: four residues at a time.
    #[inline(always)]
    unsafe fn filter_whole<const TAPS: usize>(&self, p: &Channelise, pair: u32, first: [u64; 2]) {
        let mut quad = thread();
        while quad < p.residues / 4 {
            let mut sums = [[[0.0_f32; 4]; SPECTRA]; 2];
            let mut taps = [[0.0_f32; 4]; TAPS];
            for tap in 0..TAPS {
                let index = tap as u32 * p.residues + 4 * quad;
                // SAFETY: taps of residues.
                taps[tap] = unsafe { load_global_4(p.taps + 4 * index as u64).map(f32::from_bits) };
            }
            for block in 0..TAPS + SPECTRA - 1 {
                let offset = block as u32 * p.residues + 4 * quad;
                for input in 0..2 {
                    // SAFETY: samples of the block's spectra.
                    let word = unsafe { load_global(first[input] + offset as u64) };
                    for part in 0..4 {
                        let x = from_i32((word >> (8 * part)) as i8 as i32);
                        for spectrum in 0..SPECTRA {
                            if block >= spectrum && block - spectrum < TAPS {
                                let sum = &mut sums[input][spectrum][part];
                                *sum = taps[block - spectrum][part].fma(x, *sum);
                            }
                        }
                    }
                }
            }
            for input in 0..2 {
                for spectrum in 0..SPECTRA {
                    let row = spectrum as u32 * p.group + pair + input as u32;
                    let place = address(p, row, 2 * quad);
                    let [a, b, c, d] = sums[input][spectrum];
                    // SAFETY: points of the block's: the group is even.
                    unsafe {
                        store(place, [a, b]);
                        store(place + 8, [c, d]);
                    }
                }
            }
            quad += threads();
        }
    }

    /// The FIR of two inputs, of any samples, a spectrum at a time.
    #[inline(always)]
    unsafe fn filter_any(&self, p: &Channelise, pair: u32) {
        let mut part = 0;
        while part < 2 * FUSED_SPECTRA {
            let (index, later) = (part % 2, part / 2);
            let (input, spectrum) = (self.input(p, pair + index), self.spectrum + later);
            part += 1;
            let none = Place { first: MISSING, phase: 0, slope: 0 };
            // SAFETY: the input and the spectrum are below their counts.
            let place =
                if spectrum < p.count { unsafe { value::place(p, input, spectrum) } } else { none };
            let turn = sample::turn(p, spectrum);
            let mut point = thread();
            while point < p.size {
                let mut value = [0.0; 2];
                // SAFETY: a point of the block's.
                unsafe {
                    if place.first != MISSING {
                        value = sample::point(p, input, turn, &place, point);
                    }
                    store(address(p, later * p.group + pair + index, point), value);
                }
                point += threads();
            }
        }
    }

    /// Untangles, applies gains and rotations, quantises and stores.
    #[inline(always)]
    unsafe fn finish(&self, p: &Channelise) {
        let spectra = if p.count - self.spectrum < FUSED_SPECTRA {
            p.count - self.spectrum
        } else {
            FUSED_SPECTRA
        };
        let four = p.complex == 0
            && p.inverted == 0
            && p.output == output::CI8
            && p.places == 0
            && p.value_stride == 1
            && p.group.is_multiple_of(4)
            && self.input + p.group <= p.inputs
            && (p.spectra | 2 * p.spectrum_stride | 2 * p.channel_stride) % 8 == 0;
        // SAFETY: what is stored is this block's.
        unsafe {
            if four {
                let share = share(p.size / 2, spectra);
                let mut row = share.row;
                while row < spectra {
                    let mut item = share.item;
                    while item < p.size / 2 {
                        self.finish_four(p, row, item);
                        item += share.item_step;
                    }
                    row += share.row_step;
                }
            } else {
                self.finish_any(p, spectra);
            }
        }
    }

    /// The two channels that item `item` makes of spectrum `row`, of all inputs of the group, int8.
    #[inline(always)]
    unsafe fn finish_four(&self, p: &Channelise, row: u32, item: u32) {
        let k = bin_at(item, p.size / 2);
        let (at, other) = mirror(p, k, 2 * item);
        let spectrum = (self.spectrum + row) as u64 * p.spectrum_stride;
        let mut input = 0;
        while input < p.group {
            // SAFETY: bins of the block's, channels that no other thread stores.
            unsafe {
                let w = root(p, k);
                let mut words = [[0; 2]; 2];
                for part in 0..4 {
                    let row = row * p.group + input + part;
                    let [low, high] = pair(p, row, k, 2 * item, at, w);
                    let number = self.input + input + part;
                    let low = quantised(p, number, k, low);
                    let high = quantised(p, number, other, high);
                    words[0][part as usize / 2] |= low << (16 * (part % 2));
                    words[1][part as usize / 2] |= high << (16 * (part % 2));
                }
                let base = spectrum + (self.input + input) as u64;
                let [low, high] = [k, other]
                    .map(|channel| p.spectra + 2 * (base + channel as u64 * p.channel_stride));
                store_global_2(low, words[0]);
                store_global_2(high, words[1]);
            }
            input += 4;
        }
    }

    /// Any spectra, a value at a time.
    #[inline(always)]
    unsafe fn finish_any(&self, p: &Channelise, spectra: u32) {
        let inputs = if p.inputs - self.input < p.group { p.inputs - self.input } else { p.group };
        let mut row = 0;
        while row < spectra * inputs {
            let (later, index) = (row / divisor(inputs), row % divisor(inputs));
            let (input, spectrum) = (self.input + index, self.spectrum + later);
            let from = later * p.group + index;
            let mut clipped = 0;
            // SAFETY: bins of the block's, channels that no other thread stores.
            unsafe {
                let place = value::place(p, input, spectrum);
                let items = if p.complex != 0 { p.size } else { p.size / 2 };
                let mut item = thread();
                while item < items {
                    if p.complex != 0 {
                        let k = bin_at(item, p.size);
                        let bin = load(address(p, from, item));
                        clipped += value::store(p, input, spectrum, k, &place, bin) as u64;
                    } else {
                        let k = bin_at(item, p.size / 2);
                        let (at, other) = mirror(p, k, 2 * item);
                        let channels = pair(p, from, k, 2 * item, at, root(p, k));
                        clipped += value::store(p, input, spectrum, k, &place, channels[0]) as u64;
                        clipped +=
                            value::store(p, input, spectrum, other, &place, channels[1]) as u64;
                    }
                    item += threads();
                }
                if clipped != 0 {
                    add_global_64(p.clipped + 8 * input as u64, clipped);
                }
            }
            row += 1;
        }
    }
}

/// Where the bin lies that is made into channels with bin `k`, and which the other channel is. Bin 0 is its
/// own mirror, and with it channel `Z / 2` is made, whose bin is its own, too.
#[inline(always)]
fn mirror(p: &Channelise, k: u32, position: u32) -> (u32, u32) {
    if k == 0 { (position, p.size / 2) } else { (position_of(p.size - k, p.size), p.size - k) }
}

/// Channels `k` and its [`mirror`] of a row.
#[inline(always)]
unsafe fn pair(
    p: &Channelise,
    row: u32,
    k: u32,
    position: u32,
    mirror: u32,
    w: Complex<f32>,
) -> [Complex<f32>; 2] {
    // SAFETY: positions are below the size.
    unsafe {
        let (bin, other) = (load(address(p, row, position)), load(address(p, row, mirror)));
        let [low, mut high] = untangle(bin, other, w);
        if k == 0 {
            // Half a turn is at position 1.
            let middle = load(address(p, row, 1));
            high = untangle(middle, middle, root(p, p.size / 2))[0];
        }
        [low, high]
    }
}

/// A channel as int8, after its gain; counted if it was clipped.
#[inline(always)]
unsafe fn quantised(p: &Channelise, input: u32, channel: u32, bin: Complex<f32>) -> u32 {
    // SAFETY: both are below their counts.
    unsafe {
        let whole = multiply(bin, value::gain(p, input, channel)).map(round);
        let clamped = whole.map(|part| part.clamp(-127, 127));
        if clamped[0] != whole[0] || clamped[1] != whole[1] {
            add_global_64(p.clipped + 8 * input as u64, 1);
        }
        clamped[0] as u32 & 0xff | (clamped[1] as u32 & 0xff) << 8
    }
}

/// The levels of the first pass: columns of span `R` of samples `Z / R` apart.
#[inline(always)]
unsafe fn first<const R: usize>(p: &Channelise, rows: u32) {
    let columns = p.size / divisor(R as u32);
    let share = share(columns, rows);
    let mut item = share.item;
    while item < columns {
        let mut row = share.row;
        while row < rows {
            let mut points = [[0.0_f32; 2]; R];
            let mut places = [0; R];
            for index in 0..R {
                places[index] = address(p, row, item + index as u32 * columns);
                // SAFETY: a point of the row's.
                points[index] = unsafe { load(places[index]) };
            }
            let mut span = 1;
            if R % 3 == 0 {
                for column in 0..R / 3 {
                    let three = [column, column + R / 3, column + 2 * R / 3];
                    let bins = triple(three.map(|index| points[index]));
                    for index in 0..3 {
                        points[three[index]] = bins[index];
                    }
                }
                span = 3;
            }
            for _ in 0..R.trailing_zeros() {
                let half = R / (2 * span);
                for position in 0..span {
                    let k = bin_at(position as u32, span as u32);
                    let w = unit(k, 2 * span as u32);
                    for column in 0..half {
                        let low = column + 2 * position * half;
                        let merged = merge(points[low], points[low + half], span as u32, k, w);
                        [points[low], points[low + half]] = merged;
                    }
                }
                span *= 2;
            }
            for index in 0..R {
                // SAFETY: a point of the row's, of this thread only.
                unsafe { store(places[index], points[index]) };
            }
            row += share.row_step;
        }
        item += share.item_step;
    }
}

/// A pass of `R = 1 << LEVELS`: columns of span `span R` of those of `span`.
#[inline(always)]
unsafe fn pass<const R: usize, const LEVELS: usize>(p: &Channelise, span: u32, rows: u32) {
    // Columns that are made, a power of two: the first pass took the three.
    let columns = p.size / divisor(span * R as u32);
    let shift = columns.trailing_zeros();
    let share = share(p.size / R as u32, rows);
    let mut item = share.item;
    while item < p.size / R as u32 {
        let position = item >> shift;
        let base = position * R as u32 * columns + (item & (columns - 1));
        let k = bin_at(position, span);
        // Those of a level's first half of bins; the others are a quarter turn on.
        let mut roots = [[0.0_f32; 2]; R];
        for level in 0..LEVELS {
            let parts: usize = 1 << level;
            let step = p.residues / divisor(2 * span << level);
            for part in 0..parts.div_ceil(2) {
                // SAFETY: below half the table's turn.
                roots[parts / 2 + part] = unsafe { root(p, (k + part as u32 * span) * step) };
            }
        }
        let mut row = share.row;
        while row < rows {
            let mut points = [[0.0_f32; 2]; R];
            let start = address(p, row, base);
            for index in 0..R {
                // SAFETY: a point of the row's.
                points[index] = unsafe { load(start + offset(index as u32, columns)) };
            }
            for level in 0..LEVELS {
                let (parts, half): (usize, usize) = (1 << level, R >> (level + 1));
                for position in 0..parts {
                    let part = bin_at(position as u32, parts as u32) as usize;
                    let quarter = part >= parts.div_ceil(2);
                    let w = roots[parts / 2 + if quarter { part - parts / 2 } else { part }];
                    let w = if quarter { [w[1], w[0].neg()] } else { w };
                    for column in 0..half {
                        let low = column + 2 * position * half;
                        [points[low], points[low + half]] =
                            butterfly(points[low], points[low + half], w);
                    }
                }
            }
            for index in 0..R {
                // SAFETY: a point of the row's, of this thread only.
                unsafe { store(start + offset(index as u32, columns), points[index]) };
            }
            row += share.row_step;
        }
        item += share.item_step;
    }
}

/// Bytes from a butterfly's first point to point `index`, `columns` points apart each.
#[inline(always)]
fn offset(index: u32, columns: u32) -> u32 {
    8 * (index * columns + index * columns / PAD)
}
