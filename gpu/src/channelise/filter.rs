//! The FIR of the first kernel: of all spectra and inputs of a block.
//!
//! A thread that filters four residues loads each of their taps once for all inputs and spectra of the block, and
//! each sample once for all spectra.

use crate::{
    abi::channelise::{Channelise, FUSED_SPECTRA, MISSING, Real, SpectrumStart, raw},
    channelise::{
        AnyFilterbank, Filterbank,
        pass::{SharedBuffer, divide, store_point, store_points},
        sample::{self, CODES_2, CODES_4},
        value,
    },
    isa::common::{load_global_4, thread, threads},
};

/// [`FUSED_SPECTRA`], for arrays.
const SPECTRA: usize = FUSED_SPECTRA as usize;

/// Any encoding, which is looked up.
const ANY: u32 = u32::MAX;

/// Samples that a block filters.
#[derive(Clone, Copy)]
pub struct Filter {
    /// The first input.
    pub input: u32,
    /// Inputs, an even number; those beyond the last are the last again.
    pub group: u32,
    /// The first spectrum.
    pub spectrum: u32,
    /// Shared memory for the points.
    pub buffer: SharedBuffer,
    /// The first point.
    pub first: u32,
    /// Points next to each other, as a power of two, 1 at least.
    pub shift: u32,
    /// From a run of them to the next.
    pub pitch: u32,
}

impl Filter {
    /// Index in the transform of point `index` of a row.
    #[inline(always)]
    fn point(&self, index: u32) -> u32 {
        self.first + (index & ((1 << self.shift) - 1)) + (index >> self.shift) * self.pitch
    }

    /// The FIR, of all rows: row `j * group + i` is spectrum `j` of input `i`.
    ///
    /// # Safety
    /// - All threads of the block call it together, in a launch that keeps the conditions of [`Channelise`]; `p` is a
    ///   filterbank of `F`.
    /// - The buffer has [`FUSED_SPECTRA`] rows of each of `group` inputs in the block's shared memory, which nobody else
    ///   uses before the next barrier.
    /// - `spectrum` is below `p.count` and `input` below `p.inputs`; points of the rows are points of the transform.
    #[inline(always)]
    pub unsafe fn filter<F: Filterbank>(&self, p: &Channelise) {
        // SAFETY: as asked for; taps, encoding and residues equal the parameters.
        unsafe {
            let regular = self.regular(p);
            let whole = self.spectra(p) == FUSED_SPECTRA && p.places == 0;
            match (regular, p.tap_count, p.encoding) {
                (true, 8, raw::I8) if F::IS_DEFAULT && F::RESIDUES > 0 && whole => {
                    self.filter_whole::<8, { raw::I8 }, F>(p)
                }
                (true, 8, raw::I8) if F::IS_DEFAULT => {
                    self.filter_whole::<8, { raw::I8 }, AnyFilterbank>(p)
                }
                (true, 8, raw::I16) => self.filter_whole::<8, { raw::I16 }, AnyFilterbank>(p),
                (true, 8, CODES_2) => self.filter_whole::<8, CODES_2, AnyFilterbank>(p),
                (true, 8, CODES_4) => self.filter_whole::<8, CODES_4, AnyFilterbank>(p),
                (true, 8, _) => self.filter_whole::<8, ANY, AnyFilterbank>(p),
                (true, 4, raw::I8) => self.filter_whole::<4, { raw::I8 }, AnyFilterbank>(p),
                (true, 4, _) => self.filter_whole::<4, ANY, AnyFilterbank>(p),
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
    /// before, where [`sample::load_four`] takes four.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`Channelise`]; `spectrum` is below `p.count` and `input` below `p.inputs`.
    #[inline(always)]
    unsafe fn regular(&self, p: &Channelise) -> bool {
        let mut regular = sample::takes_four(p.samples, p.encoding)
            && p.complex == 0
            && p.time_stride == 1
            && p.hop == p.residues
            && p.turn == 0;
        // SAFETY: the inputs and the spectra are below their counts.
        unsafe {
            if p.places == 0 {
                return regular
                    && self.sample(p, 0).is_multiple_of(4)
                    && (p.inputs == 1 || p.input_stride.is_multiple_of(4));
            }
            let mut index = 0;
            while regular && index < self.group {
                let input = self.input(p, index);
                let first = value::place(p, input, self.spectrum).first;
                regular &= first != MISSING;
                for later in 1..self.spectra(p) {
                    let next = value::place(p, input, self.spectrum + later).first;
                    regular &= next == first.wrapping_add((later * p.residues) as i64);
                }
                regular &= self.sample(p, index).is_multiple_of(4);
                index += 1;
            }
        }
        regular
    }

    /// Number of spectra.
    #[inline(always)]
    fn spectra(&self, p: &Channelise) -> u32 {
        let left = p.count - self.spectrum;
        if left < FUSED_SPECTRA { left } else { FUSED_SPECTRA }
    }

    /// The first sample of an input of the group, of samples next to each other.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`Channelise`]; `spectrum` is below `p.count` and `input` below `p.inputs`.
    #[inline(always)]
    unsafe fn sample(&self, p: &Channelise, index: u32) -> u64 {
        let input = self.input(p, index);
        // SAFETY: the input and the spectrum are below their counts.
        let first = unsafe { value::place(p, input, self.spectrum).first };
        (input as u64 * p.input_stride).wrapping_add(first as u64)
    }

    /// Leaves the sums of four residues of an input.
    ///
    /// # Safety
    /// - The buffer has the rows of `input`, below `group`, and points `2 * quad` and the next of them; no other thread uses
    ///   these points before the next barrier.
    #[inline(always)]
    unsafe fn add<const TAPS: usize, const ENCODING: u32>(
        &self,
        p: &Channelise,
        words: &[[u32; 4]; 16],
        taps: &[[f32; 4]; TAPS],
        input: u32,
        quad: u32,
    ) {
        let sums = sums::<TAPS, ENCODING>(p, words, taps);
        each!(spectrum < SPECTRA, of 4 {
            let row = spectrum as u32 * self.group + input;
            let [a, b, c, d] = sums[spectrum];
            // SAFETY: an even point of a row and the next, this thread's.
            unsafe { store_points(self.buffer.address(row, 2 * quad), [[a, b], [c, d]]) };
        });
    }

    /// The sample of the input after `input` that `first` is of it; after the last of all, or of those of a group with
    /// places of their own, `first` again. `F` of known residues has no places.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`Channelise`]; `spectrum` is below `p.count` and `self.input` below `p.inputs`.
    #[inline(always)]
    unsafe fn next(
        &self,
        p: &Channelise,
        first: u64,
        input: u32,
        residue: u32,
        plain: bool,
    ) -> u64 {
        if !plain && p.places != 0 {
            if input + 1 == self.group {
                return first;
            }
            // SAFETY: the first sample of an input that is there.
            unsafe { self.sample(p, input + 1) + residue as u64 }
        } else {
            first + if self.input + input + 1 < p.inputs { p.input_stride } else { 0 }
        }
    }

    /// The FIR of four residues at a time: a thread loads their taps once for all inputs, and each sample once.
    /// `ENCODING`: one of [`raw`], or [`ANY`].
    ///
    /// # Safety
    /// - All that [`filter`](Self::filter) asks for.
    /// - [`regular`](Self::regular) is true; `TAPS` and, but for [`ANY`], `ENCODING` equal the parameters.
    /// - If `F` knows the residues, the block has [`FUSED_SPECTRA`] spectra, and `p.places` is 0.
    #[inline(always)]
    unsafe fn filter_whole<const TAPS: usize, const ENCODING: u32, F: Filterbank>(
        &self,
        p: &Channelise,
    ) {
        let residues = if F::RESIDUES > 0 { F::RESIDUES } else { p.residues };
        // Spectra past the last are made of samples of the last.
        let most = if F::RESIDUES > 0 { u32::MAX } else { TAPS as u32 + self.spectra(p) - 2 };
        let mut quad = thread();
        while quad < self.buffer.size / 2 {
            let residue = 2 * self.point(2 * quad);
            let mut taps = [[0.0_f32; 4]; TAPS];
            // SAFETY: taps of four residues, all below the filterbank's.
            unsafe {
                let from = p.taps + (4 * residue) as u64;
                each!(tap < TAPS, of 8 {
                    let at = from + (4 * tap as u32 * residues) as u64;
                    taps[tap] = load_global_4(at).map(f32::from_bits);
                });
            }
            // The samples of an input are on their way while those of the one before are added.
            // SAFETY: inputs of the group; of the one after the last nothing is added.
            unsafe {
                let mut first = self.sample(p, 0) + residue as u64;
                let mut input = 0;
                if ENCODING == ANY {
                    // Four words each: there is no room for two inputs'.
                    while input < self.group {
                        let words = words_of::<TAPS, ENCODING>(p, first, residues, most);
                        self.add::<TAPS, ENCODING>(p, &words, &taps, input, quad);
                        first = self.next(p, first, input, residue, false);
                        input += 1;
                    }
                } else {
                    let mut words = words_of::<TAPS, ENCODING>(p, first, residues, most);
                    while input < self.group {
                        first = self.next(p, first, input, residue, F::RESIDUES > 0);
                        let second = words_of::<TAPS, ENCODING>(p, first, residues, most);
                        self.add::<TAPS, ENCODING>(p, &words, &taps, input, quad);
                        first = self.next(p, first, input + 1, residue, F::RESIDUES > 0);
                        words = words_of::<TAPS, ENCODING>(p, first, residues, most);
                        self.add::<TAPS, ENCODING>(p, &second, &taps, input + 1, quad);
                        input += 2;
                    }
                }
            }
            quad += threads();
        }
    }

    /// The FIR of any samples, a spectrum of an input at a time.
    ///
    /// # Safety
    /// - All that [`filter`](Self::filter) asks for.
    #[inline(always)]
    unsafe fn filter_any(&self, p: &Channelise) {
        let mut row = 0;
        while row < self.group * FUSED_SPECTRA {
            let [later, index] = divide(row, self.group);
            let (input, spectrum) = (self.input(p, index), self.spectrum + later);
            let none = SpectrumStart { first: MISSING, phase: 0, slope: 0 };
            let place = if spectrum < p.count {
                // SAFETY: the input and the spectrum are below their counts.
                unsafe { value::place(p, input, spectrum) }
            } else {
                none
            };
            let turn = sample::turn(p, spectrum);
            let mut item = thread();
            while item < self.buffer.size {
                let mut value = [0.0; 2];
                // SAFETY: a point of a row, this thread's; the input and the spectrum exist where it has a place.
                unsafe {
                    if place.first != MISSING {
                        value = sample::point(p, input, turn, &place, self.point(item));
                    }
                    store_point(self.buffer.address(row, item), value);
                }
                item += threads();
            }
            row += 1;
        }
    }
}

/// Four samples of each block of `residues` that the spectra of a batch have, from `first` on; of blocks after `most`
/// those of that one.
///
/// # Safety
/// - [`Filter::regular`] is true for the samples, and `first` is the first sample of four residues of a spectrum of an input.
/// - All blocks up to `most`, or up to the last of `TAPS` and [`FUSED_SPECTRA`], are samples of the launch.
#[inline(always)]
unsafe fn words_of<const TAPS: usize, const ENCODING: u32>(
    p: &Channelise,
    first: u64,
    residues: u32,
    most: u32,
) -> [[u32; 4]; 16] {
    let encoding = if ENCODING == ANY { p.encoding } else { ENCODING };
    // Long enough for eight taps.
    let mut words = [[0_u32; 4]; 16];
    each!(block < TAPS + SPECTRA - 1, {
        let there = if (block as u32) < most { block as u32 } else { most };
        let index = first + (there * residues) as u64;
        // SAFETY: four samples of a block up to `most`, from a multiple of four on.
        words[block] = unsafe { sample::load_four(p.samples, index, encoding) };
    });
    words
}

/// The sums of four residues.
#[inline(always)]
fn sums<const TAPS: usize, const ENCODING: u32>(
    p: &Channelise,
    words: &[[u32; 4]; 16],
    taps: &[[f32; 4]; TAPS],
) -> [[f32; 4]; SPECTRA] {
    let encoding = if ENCODING == ANY { p.encoding } else { ENCODING };
    let mut sums = [[0.0_f32; 4]; SPECTRA];
    each!(block < TAPS + SPECTRA - 1, {
        let four = sample::decode_four(words[block], encoding);
        each!(part < 4, of 4 {
            each!(spectrum < SPECTRA, of 4 {
                if block >= spectrum && block - spectrum < TAPS {
                    let sum = &mut sums[spectrum][part];
                    *sum = taps[block - spectrum][part].fma(four[part], *sum);
                }
            });
        });
    });
    sums
}
