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
//! Bound by memory: 16 bytes for each point beside the samples and the spectra, and the taps, which come from
//! the L2 cache for every pair of inputs.

use crate::{
    abi::channelise::{Channelise, FUSED_SPECTRA},
    channelise::{
        bin_at,
        filter::Filter,
        finish::{Bins, Finish, Pair},
        pass::{Columns, Line, Merge, Shared, first, pass},
        position_of,
    },
    isa::common::{barrier, block},
    tile::divisor,
};

/// The lot that a block has a part of: the same inputs and spectra for both kernels.
struct Lot {
    /// Its number in the launch.
    number: u32,
    /// Its first input.
    input: u32,
    /// Its first spectrum.
    spectrum: u32,
}

impl Lot {
    #[inline(always)]
    fn new(p: &Channelise, number: u32) -> Self {
        let groups = p.inputs.div_ceil(divisor(p.group).get());
        let lot = p.first_lot + number;
        Self {
            number,
            input: lot % divisor(groups) * p.group,
            spectrum: lot / divisor(groups) * FUSED_SPECTRA,
        }
    }

    /// Where the points of an input of a spectrum of the lot are kept.
    #[inline(always)]
    fn points(&self, p: &Channelise, spectrum: u32, input: u32) -> u64 {
        let row = (self.number * FUSED_SPECTRA + spectrum) * p.group + input;
        p.points + 8 * row as u64 * p.size as u64
    }
}

kernel! {
    /// Columns of two inputs, a run of spectra.
    fn channelise_columns(p: Channelise) {
        // Columns that there are.
        let all = p.size / divisor(p.span);
        let tiles = all / divisor(p.columns);
        let (tile, rest) = (block() % divisor(tiles), block() / divisor(tiles));
        let (pair, number) = (2 * (rest % divisor(p.group / 2)), rest / divisor(p.group / 2));
        let lot = Lot::new(&p, number);
        let (column, shift) = (tile * p.columns, p.columns.trailing_zeros());
        let room = Shared { size: p.span * p.columns };
        let filter = Filter {
            input: lot.input + pair,
            group: 2,
            spectrum: lot.spectrum,
            room,
            first: column,
            shift,
            pitch: all,
        };
        filter.filter(&p);
        barrier();
        let rows = FUSED_SPECTRA * 2;
        let mut span = if p.span.is_power_of_two() {
            first::<16>(room, rows);
            16
        } else {
            first::<12>(room, rows);
            12
        };
        barrier();
        let to = Columns {
            line: Line { address: lot.points(&p, 0, pair) + 8 * column as u64, pitch: p.size },
            apart: p.group,
            shift,
            all,
        };
        let mut merge = Merge { size: room.size, rows, row: 0, span, bin: 0, step: 1 };
        while p.span / divisor(span) > 16 {
            pass(&p, 16, merge, room, room);
            barrier();
            span *= 16;
            merge = Merge { span, ..merge };
        }
        pass(&p, p.span / divisor(span), merge, room, to);
    }
}

kernel! {
    /// A pair of bins of all columns, of a spectrum of the inputs of a lot.
    fn channelise_bins(p: Channelise) {
        let pairs = p.span / 2;
        let (j, rest) = (block() % divisor(pairs), block() / divisor(pairs));
        let (later, number) = (rest % divisor(FUSED_SPECTRA), rest / divisor(FUSED_SPECTRA));
        let lot = Lot::new(&p, number);
        if lot.spectrum + later < p.count {
            let columns = p.size / divisor(p.span);
            let bins = [j, if j == 0 { pairs } else { p.span - j }];
            let room = Shared { size: columns };
            let mut half = 0;
            while half < 2 {
                let bin = if half == 0 { bins[0] } else { bins[1] };
                // Where the row of the half's first input would begin, were it row 0.
                let row = half * p.group;
                let points = lot.points(&p, later, 0)
                    + 8 * (position_of(bin, p.span) * columns) as u64;
                let before = 8 * row as u64 * p.size as u64;
                let from = Line { address: points.wrapping_sub(before), pitch: p.size };
                let merge =
                    Merge { size: columns, rows: p.group, row, span: p.span, bin, step: p.span };
                pass(&p, columns, merge, from, room);
                half += 1;
            }
            barrier();
            let mut span = 16 * p.span;
            while span < p.size {
                let mut half = 0;
                while half < 2 {
                    let bin = if half == 0 { bins[0] } else { bins[1] };
                    let row = half * p.group;
                    let merge =
                        Merge { size: columns, rows: p.group, row, span, bin, step: p.span };
                    pass(&p, p.size / divisor(span), merge, room, room);
                    half += 1;
                }
                barrier();
                span *= 16;
            }
            let (input, spectrum) = (lot.input, lot.spectrum + later);
            let bins = Halves { bins, columns, group: p.group };
            Finish { input, spectrum, row: 0, room, bins }.finish(&p, 1);
        }
    }
}

/// The bins that two bins of all columns become: `bins[half] + A i` in row `group * half`.
#[derive(Clone, Copy)]
struct Halves {
    bins: [u32; 2],
    columns: u32,
    group: u32,
}

impl Bins for Halves {
    #[inline(always)]
    fn count(self) -> u32 {
        2 * self.columns
    }

    #[inline(always)]
    fn pair(self, p: &Channelise, item: u32) -> Pair {
        let [first, second] = self.bins;
        let pairs = self.columns / 2;
        let half = if item < pairs { 0 } else { 1 };
        let at = if half == 0 { item } else { item - pairs };
        let k = if half == 0 { first } else { second } + p.span * bin_at(at, pairs);
        // Bits of the mirror of `i` are those of `B - 1 - i`, but where `j` is 0.
        let whole = position_of(self.columns - bin_at(at, pairs), self.columns);
        let (row, mirror) = match (first, half) {
            (0, 0) => (0, if at == 0 { 1 } else { whole }),
            (0, _) => (1, self.columns - 1 - 2 * at),
            _ => (1 - half, self.columns - 1 - 2 * at),
        };
        let other = if k == 0 { p.size / 2 } else { p.size - k };
        Pair { low: (k, half * self.group, 2 * at), high: (other, row * self.group, mirror) }
    }

    #[inline(always)]
    fn bin(self, p: &Channelise, item: u32) -> (u32, u32, u32) {
        let half = if item < self.columns { 0 } else { 1 };
        let at = if half == 0 { item } else { item - self.columns };
        let bin = if half == 0 { self.bins[0] } else { self.bins[1] };
        (bin + p.span * bin_at(at, self.columns), half * self.group, at)
    }
}
