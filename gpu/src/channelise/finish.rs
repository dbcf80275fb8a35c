//! From bins in shared memory to spectra: untangles, applies gains and rotations, quantises and stores.
//!
//! What quantises takes a channel of several inputs together, which lie side by side in `tcn`.

use crate::{
    abi::channelise::{Channelise, Complex, Real, multiply, output, untangle},
    channelise::{
        pass::{Shared, load_point, share},
        root, value,
    },
    isa::common::{add_global_64, prmt, round, store_global, store_global_2, thread, threads},
    tile::divisor,
};

/// Two bins that are mirrors of each other, of real samples. Bin 0 is its own; with it comes bin `Z / 2`,
/// whose mirror is its own, too.
#[derive(Clone, Copy)]
pub struct Pair {
    /// The bin below `Z / 2`, and the row and the point of it.
    pub low: (u32, u32, u32),
    /// The other, likewise.
    pub high: (u32, u32, u32),
}

/// What a block has made, by inputs: of an input the rows are `group` apart.
pub trait Bins: Copy {
    /// Bins of an input.
    fn count(self) -> u32;

    /// Pair `item` of half as many, of real samples.
    fn pair(self, p: &Channelise, item: u32) -> Pair;

    /// Bin `item`, its row and its point, of complex samples.
    fn bin(self, p: &Channelise, item: u32) -> (u32, u32, u32);
}

/// The bins of a spectrum of some inputs.
#[derive(Clone, Copy)]
pub struct Finish<B> {
    /// The first input.
    pub input: u32,
    /// The spectrum.
    pub spectrum: u32,
    /// The row of the first input; the next inputs' follow.
    pub row: u32,
    /// Where the rows are.
    pub room: Shared,
    /// Which bins they hold.
    pub bins: B,
}

impl<B: Bins> Finish<B> {
    /// Stores all spectra from this to the one `spectra` later, whose rows are `group` on each.
    ///
    /// # Safety
    /// Parameters are as declared; the block has the rows, and no other block stores these bins.
    #[inline(always)]
    pub unsafe fn finish(self, p: &Channelise, spectra: u32) {
        let plain = p.complex == 0
            && p.inverted == 0
            && p.output == output::CI8
            && p.places == 0
            && p.value_stride == 1
            && self.input + p.group <= p.inputs;
        let aligned = p.spectra | (2 * (p.spectrum_stride | p.channel_stride));
        // SAFETY: what is stored is this block's.
        unsafe {
            if plain && p.group.is_multiple_of(4) && aligned.is_multiple_of(8) {
                self.packed::<4>(p, spectra);
            } else if plain && aligned.is_multiple_of(4) {
                self.packed::<2>(p, spectra);
            } else {
                self.any(p, spectra);
            }
        }
    }

    /// int8, of `INPUTS` inputs together.
    #[inline(always)]
    unsafe fn packed<const INPUTS: usize>(self, p: &Channelise, spectra: u32) {
        let items = self.bins.count() / 2;
        let share = share(items, spectra);
        let mut later = share.row;
        while later < spectra {
            let spectrum = (self.spectrum + later) as u64 * p.spectrum_stride;
            let mut item = share.item;
            while item < items {
                let pair = self.bins.pair(p, item);
                let channels = [pair.low.0, pair.high.0];
                let mut index = 0;
                while index < p.group {
                    // SAFETY: bins of the block's, channels that no other thread stores.
                    unsafe {
                        let w = root(p, pair.low.0);
                        let mut words = [[0; 2]; 2];
                        for part in 0..INPUTS {
                            let row = self.row + later * p.group + index + part as u32;
                            let values = self.channels(p, row, pair, w);
                            for side in 0..2 {
                                let input = self.input + index + part as u32;
                                let value = quantised(p, input, channels[side], values[side]);
                                words[side][part / 2] |= value << (16 * (part % 2));
                            }
                        }
                        let base = spectrum + (self.input + index) as u64;
                        for side in 0..2 {
                            let at = base + channels[side] as u64 * p.channel_stride;
                            if INPUTS == 4 {
                                store_global_2(p.spectra + 2 * at, words[side]);
                            } else {
                                store_global(p.spectra + 2 * at, words[side][0]);
                            }
                        }
                    }
                    index += INPUTS as u32;
                }
                item += share.item_step;
            }
            later += share.row_step;
        }
    }

    /// Any spectra, a value at a time.
    #[inline(always)]
    unsafe fn any(self, p: &Channelise, spectra: u32) {
        let inputs = if p.inputs - self.input < p.group { p.inputs - self.input } else { p.group };
        let items = if p.complex != 0 { self.bins.count() } else { self.bins.count() / 2 };
        let mut index = 0;
        while index < spectra * inputs {
            let (later, part) = (index / divisor(inputs), index % divisor(inputs));
            let (input, spectrum) = (self.input + part, self.spectrum + later);
            let from = self.row + later * p.group + part;
            let mut clipped = 0;
            // SAFETY: bins of the block's, channels that no other thread stores.
            unsafe {
                let place = value::place(p, input, spectrum);
                let mut item = thread();
                while item < items {
                    if p.complex != 0 {
                        let (k, row, point) = self.bins.bin(p, item);
                        let bin = load_point(self.room.address(from + row, point));
                        clipped += value::store(p, input, spectrum, k, &place, bin) as u64;
                    } else {
                        let pair = self.bins.pair(p, item);
                        let values = self.channels(p, from, pair, root(p, pair.low.0));
                        let channels = [pair.low.0, pair.high.0];
                        for side in 0..2 {
                            let (k, value) = (channels[side], values[side]);
                            clipped += value::store(p, input, spectrum, k, &place, value) as u64;
                        }
                    }
                    item += threads();
                }
                if clipped != 0 {
                    add_global_64(p.clipped + 8 * input as u64, clipped);
                }
            }
            index += 1;
        }
    }

    /// The channels of a pair of bins, of the input whose rows begin at `row`.
    #[inline(always)]
    unsafe fn channels(
        self,
        p: &Channelise,
        row: u32,
        pair: Pair,
        w: Complex<f32>,
    ) -> [Complex<f32>; 2] {
        let load = |(_, of, point): (u32, u32, u32)| {
            // SAFETY: a bin of the block's.
            unsafe { load_point(self.room.address(row + of, point)) }
        };
        let (low, high) = (load(pair.low), load(pair.high));
        if pair.low.0 == 0 {
            // SAFETY: below the table's size.
            let quarter = unsafe { root(p, p.size / 2) };
            [untangle(low, low, w)[0], untangle(high, high, quarter)[0]]
        } else {
            untangle(low, high, w)
        }
    }
}

/// Added to a number, this leaves the nearest integer, half to even, in the lowest bits.
const WHOLE: f32 = 12_582_912.0;
/// Bits of the sum for the least of int8.
const LEAST: u32 = WHOLE.to_bits() - 127;

/// A channel as int8, after its gain; counted if it was clipped.
#[inline(always)]
unsafe fn quantised(p: &Channelise, input: u32, channel: u32, bin: Complex<f32>) -> u32 {
    // SAFETY: both are below their counts.
    unsafe {
        let value = multiply(bin, value::gain(p, input, channel));
        let whole = value.map(|part| part.add(WHOLE).to_bits());
        // Whatever is not in range, or no number, is none of these.
        let inside = whole.map(|bits| bits.wrapping_sub(LEAST) <= 254);
        if inside[0] && inside[1] {
            return prmt::<0x7740>(whole[0], whole[1]) & 0xffff;
        }
        let whole = value.map(round);
        let clamped = whole.map(|part| part.clamp(-127, 127));
        if clamped[0] != whole[0] || clamped[1] != whole[1] {
            add_global_64(p.clipped + 8 * input as u64, 1);
        }
        clamped[0] as u32 & 0xff | (clamped[1] as u32 & 0xff) << 8
    }
}
