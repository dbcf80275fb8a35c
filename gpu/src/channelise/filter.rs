//! The FIR of the first kernel: of all spectra and inputs of a block.
//!
//! A thread that filters four residues of two inputs loads each sample and each tap of theirs once for all
//! spectra of the block.

use crate::{
    abi::channelise::{Channelise, FUSED_SPECTRA, MISSING, Place, Real, raw},
    channelise::{
        pass::{Share, Shared, divide, store_point, store_points},
        sample, value,
    },
    isa::common::{load_global_4, thread, threads},
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
        // SAFETY: the parameters are as declared.
        unsafe {
            let regular = self.regular(p);
            match (regular, p.tap_count, p.encoding == raw::I8) {
                (true, 8, true) => self.filter_whole::<8, true>(p),
                (true, 8, false) => self.filter_whole::<8, false>(p),
                (true, 4, true) => self.filter_whole::<4, true>(p),
                (true, 4, false) => self.filter_whole::<4, false>(p),
                _ => self.filter_any(p),
            }
        }
    }

    /// Input `index` of the group; beyond the last, the last again.
    #[inline(always)]
    fn input(&self, p: &Channelise, index: u32) -> u32 {
        let input = self.input + index;
        if input < p.inputs { input } else { p.inputs - 1 }
    }

    /// Whether all samples are real ones next to each other, and all spectra of the block begin `K` after the one
    /// before, where [`sample::four`] takes four.
    #[inline(always)]
    unsafe fn regular(&self, p: &Channelise) -> bool {
        // Of codes of bits the address counts less than the index.
        let aligned = match p.encoding {
            raw::I16 => 8,
            raw::F32 => 16,
            raw::I8 => 4,
            _ if p.encoding == raw::CODES + 8 => 4,
            _ if p.encoding == raw::CODES + 4 => 2,
            _ => 1,
        };
        let mut regular = sample::has_four(p.encoding)
            && p.samples.is_multiple_of(aligned)
            && p.complex == 0
            && p.time_stride == 1
            && p.hop == p.residues
            && p.turn == 0;
        let mut index = 0;
        while regular && index < self.group {
            // SAFETY: the input and the spectra are below their counts.
            unsafe {
                let input = self.input(p, index);
                let first = value::place(p, input, self.spectrum).first;
                regular &= first != MISSING;
                if p.places != 0 {
                    for later in 1..self.spectra(p) {
                        let next = value::place(p, input, self.spectrum + later).first;
                        regular &= next == first.wrapping_add((later * p.residues) as i64);
                    }
                }
                regular &= self.sample(p, index).is_multiple_of(4);
            }
            index += 1;
        }
        regular
    }

    /// Spectra that there are.
    #[inline(always)]
    fn spectra(&self, p: &Channelise) -> u32 {
        let left = p.count - self.spectrum;
        if left < FUSED_SPECTRA { left } else { FUSED_SPECTRA }
    }

    /// The first sample of an input of the group, of samples next to each other.
    #[inline(always)]
    unsafe fn sample(&self, p: &Channelise, index: u32) -> u64 {
        let input = self.input(p, index);
        // SAFETY: the input and the spectrum are below their counts.
        let first = unsafe { value::place(p, input, self.spectrum).first };
        (input as u64 * p.input_stride).wrapping_add(first as u64)
    }

    /// The FIR of two inputs at a time, four residues of each; `BYTES`: of int8.
    #[inline(always)]
    unsafe fn filter_whole<const TAPS: usize, const BYTES: bool>(&self, p: &Channelise) {
        // Spectra that are not there are made of samples that are.
        let most = TAPS as u32 - 1 + self.spectra(p) - 1;
        let mut share = Share::new(self.room.size / 2);
        while share.row < self.group / 2 {
            let (quad, pair) = (share.item, 2 * share.row);
            let residue = 2 * self.point(2 * quad);
            let mut sums = [[[0.0_f32; 4]; SPECTRA]; 2];
            let mut taps = [[0.0_f32; 4]; TAPS];
            for tap in 0..TAPS {
                let index = tap as u32 * p.residues + residue;
                // SAFETY: taps of residues.
                taps[tap] =
                    unsafe { load_global_4(p.taps + (4 * index) as u64).map(f32::from_bits) };
            }
            for input in 0..2 {
                // SAFETY: an input of the group.
                let first = unsafe { self.sample(p, pair + input as u32) } + residue as u64;
                let encoding = if BYTES { raw::I8 } else { p.encoding };
                for block in 0..TAPS + SPECTRA - 1 {
                    let there = if (block as u32) < most { block as u32 } else { most };
                    let index = first + (there * p.residues) as u64;
                    // SAFETY: samples of the block's spectra.
                    let four = unsafe { sample::four(p.samples, index, encoding) };
                    for part in 0..4 {
                        let x = four[part];
                        for spectrum in 0..SPECTRA {
                            if block >= spectrum && block - spectrum < TAPS {
                                let sum = &mut sums[input][spectrum][part];
                                *sum = taps[block - spectrum][part].fma(x, *sum);
                            }
                        }
                    }
                }
                for spectrum in 0..SPECTRA {
                    let row = spectrum as u32 * self.group + pair + input as u32;
                    let [a, b, c, d] = sums[input][spectrum];
                    // SAFETY: points of the block's: the group is even.
                    unsafe { store_points(self.room.address(row, 2 * quad), [[a, b], [c, d]]) };
                }
            }
            share.advance();
        }
    }

    /// The FIR of any samples, a spectrum of an input at a time.
    #[inline(always)]
    unsafe fn filter_any(&self, p: &Channelise) {
        let mut row = 0;
        while row < self.group * FUSED_SPECTRA {
            let [later, index] = divide(row, self.group);
            let (input, spectrum) = (self.input(p, index), self.spectrum + later);
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
                    store_point(self.room.address(row, item), value);
                }
                item += threads();
            }
            row += 1;
        }
    }
}
