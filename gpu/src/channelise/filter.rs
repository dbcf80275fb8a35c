//! The FIR of the first kernel: of all spectra and inputs of a block.
//!
//! A thread that filters four residues of two inputs loads each sample and each tap of theirs once for all
//! spectra of the block.

use crate::{
    abi::channelise::{Channelise, FUSED_SPECTRA, MISSING, Place, Real, raw},
    channelise::{
        pass::{Shared, store_point},
        sample, value,
    },
    isa::common::{from_i32, load_global, load_global_4, thread, threads},
};

/// [`FUSED_SPECTRA`], for arrays.
const SPECTRA: usize = FUSED_SPECTRA as usize;

/// What a block filters.
#[derive(Clone, Copy)]
pub struct Filter {
    /// The first input.
    pub input: u32,
    /// Inputs, an even number; those beyond the last are the last again.
    pub group: u32,
    /// The first spectrum.
    pub spectrum: u32,
    /// Where the points go.
    pub room: Shared,
    /// The first point.
    pub first: u32,
    /// Points next to each other, as a power of two, 1 at least.
    pub shift: u32,
    /// From a run of them to the next.
    pub pitch: u32,
}

impl Filter {
    /// Which point of the transform point `index` of a row is.
    #[inline(always)]
    fn point(&self, index: u32) -> u32 {
        self.first + (index & ((1 << self.shift) - 1)) + (index >> self.shift) * self.pitch
    }

    /// The FIR, of all rows: row `j * group + i` is spectrum `j` of input `i`.
    ///
    /// # Safety
    /// The parameters are as declared; the block has room for the rows.
    #[inline(always)]
    pub unsafe fn filter(&self, p: &Channelise) {
        let mut pair = 0;
        while pair < self.group {
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
        while quad < self.room.size / 2 {
            let residue = 2 * self.point(2 * quad);
            let mut sums = [[[0.0_f32; 4]; SPECTRA]; 2];
            let mut taps = [[0.0_f32; 4]; TAPS];
            for tap in 0..TAPS {
                let index = tap as u32 * p.residues + residue;
                // SAFETY: taps of residues.
                taps[tap] = unsafe { load_global_4(p.taps + 4 * index as u64).map(f32::from_bits) };
            }
            for block in 0..TAPS + SPECTRA - 1 {
                let offset = block as u32 * p.residues + residue;
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
                    let row = spectrum as u32 * self.group + pair + input as u32;
                    let place = self.room.address(row, 2 * quad);
                    let [a, b, c, d] = sums[input][spectrum];
                    // SAFETY: points of the block's: the group is even.
                    unsafe {
                        store_point(place, [a, b]);
                        store_point(place + 8, [c, d]);
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
            let place = if spectrum < p.count {
                // SAFETY: the input and the spectrum are below their counts.
                unsafe { value::place(p, input, spectrum) }
            } else {
                none
            };
            let turn = sample::turn(p, spectrum);
            let mut item = thread();
            while item < self.room.size {
                let mut value = [0.0; 2];
                // SAFETY: a point of the block's.
                unsafe {
                    if place.first != MISSING {
                        value = sample::point(p, input, turn, &place, self.point(item));
                    }
                    let row = later * self.group + pair + index;
                    store_point(self.room.address(row, item), value);
                }
                item += threads();
            }
        }
    }
}
