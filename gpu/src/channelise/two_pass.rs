//! Spectra of transforms that no block has room for, in two passes over memory.
//!
//! ```text
//! samples -> [FIR] -> [columns of span A: all bins of some columns] -> points in global memory
//! points -> [bins j and A - j of all columns: merged to the end] -> [untangle, quantise]
//! ```
//!
//! Point `p + (Z / A) t` is sample `t` of column `p`: the first kernel's block has [`Channelise::columns`] columns
//! next to each other. Bin `j` of all columns lies in a row, from which come the bins `j + A i`; their mirrors come
//! from bin `A - j`. Bins 0 and `A / 2` are their own mirrors and go together.
//!
//! Bound by the L1 cache's pipe, in which samples, taps and points of few columns and int8 of few inputs are many
//! small pieces, and by waiting; then by memory: 16 bytes for each point beside the samples and the spectra.

use crate::{
    abi::channelise::{
        Channelise, FUSED_SPECTRA, Split, bin_at, position_of, split_channelisers, split_of,
    },
    channelise::{
        AnyFilterbank, DefaultFilterbank, Filterbank,
        filter::Filter,
        finish::{BinPlace, Bins, MirrorPair, OutputStage},
        known,
        pass::{
            Buffer, ColumnBuffer, GlobalBuffer, LAST_RADIX, Merge, SharedBuffer, divide, first,
            first_radix, next_radix, pass, power,
        },
    },
    isa::common::{barrier, block, blocks},
    tile::divisor,
};

/// Columns whose samples share a line of memory, if they are bytes.
const NEAR: u32 = 64;

/// The batch that a block has a part of: the same inputs and spectra for both kernels.
struct Batch {
    /// Its number in the launch.
    number: u32,
    /// Its first input.
    input: u32,
    /// Its first spectrum.
    spectrum: u32,
}

impl Batch {
    #[inline(always)]
    fn new(p: &Channelise, number: u32) -> Self {
        let [groups, _] = divide(p.inputs + p.group - 1, p.group);
        let [run, group] = divide(p.first_batch + number, groups);
        Self { number, input: group * p.group, spectrum: run * FUSED_SPECTRA }
    }

    /// Address of the points of an input of a spectrum of the batch.
    #[inline(always)]
    fn points(&self, p: &Channelise, spectrum: u32, input: u32) -> u64 {
        let row = (self.number * FUSED_SPECTRA + spectrum) * p.group + input;
        p.points + 8 * row as u64 * p.size as u64
    }
}

kernel! {
    /// Columns of two inputs, a run of spectra.
    fn channelise_columns(p: Channelise) {
        columns::<AnyFilterbank>(&p)
    }
}

kernel! {
    /// Columns of two inputs, a run of spectra, of the default filterbank.
    fn channelise_columns_i8(p: Channelise) {
        columns::<DefaultFilterbank<0>>(&known(p, p.residues))
    }
}

/// Columns of two inputs, a run of spectra.
///
/// Blocks next to each other have the columns of all inputs: their taps are the same. Those after them have columns
/// that share a line of samples' memory, and next the spectra that share samples.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Channelise`] and
///   [`COLUMNS`](crate::abi::channelise::COLUMNS), of a filterbank of `F`; the block's shared memory is free.
#[inline(always)]
unsafe fn columns<F: Filterbank>(p: &Channelise) {
    // SAFETY: the block's shared memory has the rows, which barriers hand from pass to pass; in `p.points` the columns of
    // these inputs and spectra are this block's.
    unsafe {
        // Number of columns.
        let all = power(p.size, p.span);
        let tiles = power(all, p.columns);
        let near = if p.columns * tiles > NEAR { NEAR / divisor(p.columns) } else { tiles };
        let [rest, pair] = divide(block(), p.group / 2);
        let [rest, wide] = divide(rest, p.wide);
        let [rest, low] = divide(rest, near);
        let [high, run] = divide(rest, blocks() / divisor(tiles * p.wide * (p.group / 2)));
        let (pair, tile) = (2 * pair, high * near + low);
        let batch = Batch::new(p, run * p.wide + wide);
        let (column, shift) = (tile * p.columns, p.columns.trailing_zeros());
        let buffer = SharedBuffer { size: p.span * p.columns };
        let filter = Filter {
            input: batch.input + pair,
            group: 2,
            spectrum: batch.spectrum,
            buffer,
            first: column,
            shift,
            pitch: all,
        };
        filter.filter::<F>(p);
        barrier();
        let there = p.count - batch.spectrum;
        let rows = 2 * if there < FUSED_SPECTRA { there } else { FUSED_SPECTRA };
        let mut span = first_radix(p.span);
        first(span, buffer, rows);
        let points = batch.points(p, 0, pair) + 8 * column as u64;
        let to = ColumnBuffer {
            rows: GlobalBuffer { address: points, pitch: p.size },
            apart: p.group,
            shift,
            all,
        };
        let mut merge =
            Merge { size: buffer.size, rows, row: 0, span, part: 0, parts: 1, wait: true };
        let mut left = power(p.span, span);
        while left > LAST_RADIX {
            let radix = next_radix(left);
            pass(p, radix, merge, buffer, buffer);
            span *= radix;
            left = power(left, radix);
            merge = Merge { span, ..merge };
        }
        pass(p, left, merge, buffer, to);
    }
}

kernel! {
    /// A pair of bins of all columns.
    fn channelise_bins(p: Channelise) {
        bins(&p)
    }
}

/// The kernels that [`split_channelisers`] declares, of which all is known but where samples and spectra lie.
macro_rules! of_known {
    ($($residues:literal: $columns:ident $columns_name:ident, $bins:ident $bins_name:ident;)*) => {$(
        kernel! {
            /// Columns of two inputs, a run of spectra.
            fn $columns_name(p: Channelise) {
                columns::<DefaultFilterbank<$residues>>(&split(p, $residues))
            }
        }

        kernel! {
            /// A pair of bins of all columns.
            fn $bins_name(p: Channelise) {
                bins(&split(p, $residues))
            }
        }
    )*};
}

split_channelisers!(of_known);

/// [`known`] parameters, and what [`split_of`] says.
#[inline(always)]
const fn split(p: Channelise, residues: u32) -> Channelise {
    let Split { span, columns, group, together, .. } = split_of(residues / 2);
    Channelise { span, columns, group, together, ..known(p, residues) }
}

/// A pair of bins of all columns, of a spectrum or all of them of the inputs of a batch.
///
/// Blocks next to each other have all inputs of the same channels, which share lines of memory.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Channelise`] and
///   [`BINS`](crate::abi::channelise::BINS); the block's shared memory is free.
/// - `p.points` holds the points that [`columns`] of the same parameters stored, in a launch that has ended.
#[inline(always)]
unsafe fn bins(p: &Channelise) {
    // SAFETY: the block's shared memory has the rows, which barriers hand from pass to pass; the channels of these bins
    // are stored by no other block.
    unsafe {
        let pairs = p.span / 2;
        let [rest, wide] = divide(block(), p.wide);
        let [rest, j] = divide(rest, pairs);
        let [run, later] = divide(rest, FUSED_SPECTRA / divisor(p.together));
        let later = later * p.together;
        let batch = Batch::new(p, run * p.wide + wide);
        let (input, spectrum) = (batch.input, batch.spectrum + later);
        if spectrum < p.count {
            let left = p.count - spectrum;
            let spectra = if left < p.together { left } else { p.together };
            let columns = power(p.size, p.span);
            let bins = [j, if j == 0 { pairs } else { p.span - j }];
            let (apart, rows) = (p.together * p.group, spectra * p.group);
            let halves = Halves { bins, columns, apart, rows };
            let mut radix = next_radix(columns);
            halves.pass(p, radix, p.span, |half| {
                // Address at which the half's first row would begin if it were row 0.
                let at = position_of(halves.bin_of(half), p.span);
                let points = batch.points(p, later, 0) + 8 * (at * columns) as u64;
                let before = 8 * (half * apart) as u64 * p.size as u64;
                GlobalBuffer { address: points.wrapping_sub(before), pitch: p.size }
            });
            let last = if p.complex != 0 { 1 } else { LAST_RADIX };
            let (mut span, mut left) = (p.span * radix, power(columns, radix));
            while left > last {
                radix = if left > LAST_RADIX { next_radix(left) } else { left };
                halves.pass(p, radix, span, |_| halves.buffer());
                span *= radix;
                left = power(left, radix);
            }
            let output = OutputStage { input, spectrum, buffer: halves.buffer(), bins: halves };
            output.store(p, left, spectra);
        }
    }
}

/// The bins that two bins of all columns become: `bins[half] + A i` in rows from `apart * half` on.
#[derive(Clone, Copy)]
struct Halves {
    bins: [u32; 2],
    columns: u32,
    /// Rows from a half's to the other's.
    apart: u32,
    /// Rows of each.
    rows: u32,
}

impl Halves {
    /// Shared memory of the rows.
    #[inline(always)]
    fn buffer(self) -> SharedBuffer {
        SharedBuffer { size: self.columns }
    }

    /// The bin of a half.
    #[inline(always)]
    fn bin_of(self, half: u32) -> u32 {
        if half == 0 { self.bins[0] } else { self.bins[1] }
    }

    /// A pass of both, from where each is.
    ///
    /// # Safety
    /// - All threads of the block call it together, with the same arguments, in a launch that keeps the conditions of
    ///   [`Channelise`].
    /// - The block's shared memory has the rows of both halves, and nobody else uses it before the next barrier. `from`
    ///   returns a half's rows: in shared memory, or, in the first pass, of a launch that has ended.
    /// - `radix` is a power of two up to 16 that divides the number of columns of `span`.
    #[inline(always)]
    unsafe fn pass<B: Buffer>(
        self,
        p: &Channelise,
        radix: u32,
        span: u32,
        from: impl Fn(u32) -> B,
    ) {
        let mut half = 0;
        while half < 2 {
            let bin = self.bin_of(half);
            let (row, part) = (half * self.apart, position_of(bin, p.span));
            let merge = Merge {
                size: self.columns,
                rows: self.rows,
                row,
                span,
                part,
                parts: p.span,
                // The first pass has points of another kernel; the halves share no points.
                wait: span > p.span && half == 0,
            };
            // SAFETY: the rows of a half, which are the block's.
            unsafe { pass(p, radix, merge, from(half), self.buffer()) };
            half += 1;
        }
    }
}

impl Bins for Halves {
    #[inline(always)]
    fn count(self) -> u32 {
        2 * self.columns
    }

    #[inline(always)]
    fn mirror_pair(self, p: &Channelise, span: u32, item: u32) -> MirrorPair {
        // Number of columns of a row.
        let count = power(span, p.span);
        let (halves, places) = if self.bins[0] != 0 {
            // The mirror of `t` is `count - 1 - t`, and so are its bits.
            ([0, 1], [item, count - 1 - item])
        } else if item >= count / 2 {
            let at = 2 * item - count;
            ([1, 1], [at, count - 1 - at])
        } else {
            let t = bin_at(2 * item, count);
            ([0, 0], [2 * item, if t == 0 { 1 } else { position_of(count - t, count) }])
        };
        let of = |half: u32, place: u32| {
            let bin = self.bin_of(half);
            (bin + p.span * bin_at(place, count), position_of(bin, p.span) * count + place)
        };
        let ((k, position), (mirror, other)) = (of(halves[0], places[0]), of(halves[1], places[1]));
        let rows = [halves[0] * self.apart, halves[1] * self.apart];
        MirrorPair { bins: [k, mirror], positions: [position, other], rows, places }
    }

    #[inline(always)]
    fn bin(self, p: &Channelise, item: u32) -> BinPlace {
        let half = if item < self.columns { 0 } else { 1 };
        let point = if half == 0 { item } else { item - self.columns };
        let bin = self.bin_of(half) + p.span * bin_at(point, self.columns);
        BinPlace { bin, row: half * self.apart, point }
    }
}
