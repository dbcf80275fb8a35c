//! Unpacking samples into panels, and multiplying them.

use std::ops::Range;

use num_complex::Complex;

use super::{
    decode::Decode,
    dot::{Columns, Dot, MAX_WIDTH, ROWS, Work, tile},
    format::Format,
    sums::RUN,
};
use crate::{correlate::baselines::baseline, layout::Layout, samples::shape::Shape};

/// Times of one signal that are decoded in one go, of time-contiguous samples.
const DECODED: usize = 64;

/// The samples of one call. A signal is an input in a channel; signals are numbered channel by
/// channel.
pub(super) struct Delivered<'a, S, E: Decode<S>> {
    raw: &'a [E::Raw],
    layout: Layout,
    signals: usize,
    times: usize,
}

impl<'a, S, E: Decode<S>> Delivered<'a, S, E> {
    pub(super) fn new(shape: &Shape, bytes: &'a [u8], times: usize) -> Self {
        let signals = shape.inputs * shape.channels;
        Self { raw: E::samples(bytes), layout: shape.layout, signals, times }
    }
}

/// Dimensions of a column panel.
///
/// A panel is `[word][column]`, then, for each run and both rows of an input, the sums that an input
/// of zeros has with the columns: `[run][2][column]`.
#[derive(Clone, Copy)]
pub(super) struct PanelShape {
    /// Words of the strip.
    pub(super) words: usize,
    /// Columns, a multiple of [`LANES`](Dot::LANES).
    pub(super) width: usize,
}

impl PanelShape {
    /// Words of a panel.
    pub(super) fn len(self) -> usize {
        (self.words + 2 * self.words.div_ceil(RUN)) * self.width
    }
}

/// A decoded sample.
pub(super) type Sample<D> = <<D as Dot>::Format as Format>::Sample;

/// Unpacks the columns of some signals.
pub(super) struct ColumnPanel<'a, D: Dot, E: Decode<Sample<D>>> {
    pub(super) samples: &'a Delivered<'a, Sample<D>, E>,
    /// As many as the panel is wide, or fewer: the other columns are zero.
    pub(super) signals: Range<usize>,
    pub(super) times: Range<usize>,
    pub(super) shape: PanelShape,
    pub(super) panel: &'a mut [u32],
}

impl<D: Dot, E: Decode<Sample<D>>> Work for ColumnPanel<'_, D, E> {
    #[inline(always)]
    fn run(self) {
        let Self { samples, signals, times, shape: PanelShape { words, width }, panel } = self;
        let (columns, excess) = panel.split_at_mut(words * width);
        for word in columns.chunks_exact_mut(width) {
            word[signals.len()..].fill(0);
        }
        match samples.layout {
            Layout::Tcn => signals_together::<D, E>(samples, signals, times, width, columns),
            Layout::Cnt => times_together::<D, E>(samples, signals, times, width, columns),
        }
        if D::Format::EXCESS {
            let [zero, turned] = D::Format::rows(D::Format::columns([D::Format::ZERO; 2]));
            let mut zeros = [0; 2 * RUN];
            for zeros in zeros.chunks_exact_mut(2 * D::Format::WORDS) {
                for (w, row) in zeros.chunks_exact_mut(2).enumerate() {
                    row.copy_from_slice(&[zero.as_ref()[w], turned.as_ref()[w]]);
                }
            }
            let runs = columns.chunks(RUN * width);
            for (run, excess) in runs.zip(excess.chunks_exact_mut(2 * width)) {
                for first in (0..width).step_by(D::LANES * D::VECTORS) {
                    let columns = Columns { words: run, width, first };
                    let vectors = D::VECTORS.min((width - first) / D::LANES);
                    // SAFETY: work runs on CPUs that have the instructions of `D`.
                    unsafe {
                        tile_of_vectors::<D, 2>(vectors, &zeros, columns, &mut excess[first..])
                    };
                }
            }
        }
    }
}

/// `[time][channel][input]`: a time of all signals lies together.
#[inline(always)]
fn signals_together<D: Dot, E: Decode<Sample<D>>>(
    samples: &Delivered<'_, Sample<D>, E>,
    signals: Range<usize>,
    times: Range<usize>,
    width: usize,
    columns: &mut [u32],
) {
    let silence = [E::ZERO; MAX_WIDTH];
    let row = |time| match times.contains(&time) {
        true => &samples.raw[time * samples.signals..][signals.clone()],
        false => &silence[..signals.len()],
    };
    let pairs = columns.chunks_exact_mut(D::Format::WORDS * width);
    for (time, words) in times.clone().step_by(2).zip(pairs) {
        let rows = [row(time), row(time + 1)];
        // Each word on its own, known when compiling, so that a component that it does not need is not decoded.
        for (word, columns) in words.chunks_exact_mut(width).enumerate() {
            match word {
                0 => column_words::<D, E, 0>(rows, columns),
                1 => column_words::<D, E, 1>(rows, columns),
                2 => column_words::<D, E, 2>(rows, columns),
                _ => column_words::<D, E, 3>(rows, columns),
            }
        }
    }
}

/// Word `WORD` of the pairs that two successive times make.
#[inline(always)]
fn column_words<D: Dot, E: Decode<Sample<D>>, const WORD: usize>(
    [earlier, later]: [&[E::Raw]; 2],
    columns: &mut [u32],
) {
    for ((column, &earlier), &later) in columns.iter_mut().zip(earlier).zip(later) {
        let of_pair = D::Format::columns([E::decode(earlier), E::decode(later)]);
        *column = of_pair.as_ref()[WORD];
    }
}

/// `[channel][input][time]`: the times of a signal lie together.
#[inline(always)]
fn times_together<D: Dot, E: Decode<Sample<D>>>(
    samples: &Delivered<'_, Sample<D>, E>,
    signals: Range<usize>,
    times: Range<usize>,
    width: usize,
    columns: &mut [u32],
) {
    let pieces = columns.chunks_mut(DECODED / 2 * D::Format::WORDS * width);
    for (start, words) in times.clone().step_by(DECODED).zip(pieces) {
        let end = times.end.min(start + DECODED);
        let mut decoded = [D::Format::ZERO; DECODED];
        for (column, signal) in signals.clone().enumerate() {
            let raw = &samples.raw[signal * samples.times..][start..end];
            for (decoded, &raw) in decoded.iter_mut().zip(raw) {
                *decoded = E::decode(raw);
            }
            let pairs = words.chunks_exact_mut(D::Format::WORDS * width);
            for (pair, words) in decoded.as_chunks().0.iter().zip(pairs) {
                let of_pair = D::Format::columns(*pair);
                for (word, &value) in of_pair.as_ref().iter().enumerate() {
                    words[word * width + column] = value;
                }
            }
        }
    }
}

/// Adds the products of some inputs, as rows, with all inputs of the same channel up to them.
pub(super) struct RowBlock<'a, D: Dot> {
    pub(super) shape: PanelShape,
    /// The column panels that hold the channel.
    pub(super) columns: &'a [u32],
    /// The column of input 0 in the first of them.
    pub(super) first: usize,
    /// Starts at a multiple of [`ROWS`].
    pub(super) inputs: Range<usize>,
    /// Memory for the row panels, `2 * ROWS * words` for every [`ROWS`] inputs.
    pub(super) rows: &'a mut [u32],
    /// Totals of the baselines `(i, 0)..=(i, i)` of every input `i`.
    pub(super) totals: &'a mut [Complex<<D::Format as Format>::Total>],
}

impl<D: Dot> Work for RowBlock<'_, D> {
    #[inline(always)]
    fn run(self) {
        let Self { shape, columns, first, inputs, rows, totals } = self;
        let PanelShape { words, width } = shape;
        let tops = inputs.clone().step_by(ROWS);
        for (top, panel) in tops.clone().zip(rows.chunks_exact_mut(2 * ROWS * words)) {
            let column = first + top;
            let columns = &columns[column / width * shape.len()..][..words * width];
            row_panel::<D>(Columns { words: columns, width, first: column % width }, panel);
        }

        let mut sums = [0; 2 * ROWS * MAX_WIDTH];
        let tile_vectors = D::VECTORS.min(width / D::LANES);
        for left in (0..inputs.end).step_by(tile_vectors * D::LANES) {
            let panel = &columns[(first + left) / width * shape.len()..][..shape.len()];
            let first = (first + left) % width;
            let (columns, excess) = panel.split_at(words * width);
            let runs = columns.chunks(RUN * width).zip(excess.chunks_exact(2 * width));
            for (run, (columns, excess)) in runs.enumerate() {
                let columns = Columns { words: columns, width, first };
                for (top, rows) in tops.clone().zip(rows.chunks_exact(2 * ROWS * words)) {
                    let bottom = inputs.end.min(top + ROWS);
                    if bottom <= left {
                        continue;
                    }
                    let vectors = (bottom - left).div_ceil(D::LANES).min(tile_vectors);
                    let rows = &rows[run * RUN * 2 * ROWS..];
                    // SAFETY: work runs on CPUs that have the instructions of `D`.
                    unsafe {
                        tile_of_vectors::<D, { 2 * ROWS }>(vectors, rows, columns, &mut sums)
                    };
                    for i in top.max(left)..bottom {
                        let start = baseline(i, left) - baseline(inputs.start, 0);
                        let count = (vectors * D::LANES).min(i + 1 - left);
                        let row = &sums[(i - top) * width..][..count];
                        let turned = &sums[(ROWS + i - top) * width..][..count];
                        let excess = [&excess[first..][..count], &excess[width + first..][..count]];
                        add_row::<D>(&mut totals[start..][..count], [row, turned], excess);
                    }
                }
            }
        }
    }
}

/// Adds the sums of a row of a tile, real and imaginary, to the totals.
#[inline(always)]
fn add_row<D: Dot>(
    totals: &mut [Complex<<D::Format as Format>::Total>],
    [re, im]: [&[u32]; 2],
    excess: [&[u32]; 2],
) {
    for (j, total) in totals.iter_mut().enumerate() {
        total.re += D::Format::total(re[j], excess[0][j]);
        total.im += D::Format::total(im[j], excess[1][j]);
    }
}

/// The rows `[word][a of each input, a' of each input]` of [`ROWS`] inputs out of their columns.
#[inline(always)]
fn row_panel<D: Dot>(columns: Columns<'_>, rows: &mut [u32]) {
    let Columns { words, width, first } = columns;
    let per_pair = D::Format::WORDS;
    let pairs = rows.chunks_exact_mut(2 * ROWS * per_pair);
    for (rows, columns) in pairs.zip(words.chunks_exact(per_pair * width)) {
        let mut of_pair = [<D::Format as Format>::Words::default(); ROWS];
        for (word, columns) in columns.chunks_exact(width).enumerate() {
            for (of_pair, &column) in of_pair.iter_mut().zip(&columns[first..first + ROWS]) {
                of_pair.as_mut()[word] = column;
            }
        }
        for (word, rows) in rows.chunks_exact_mut(2 * ROWS).enumerate() {
            for (input, &of_pair) in of_pair.iter().enumerate() {
                let [row, turned] = D::Format::rows(of_pair);
                rows[input] = row.as_ref()[word];
                rows[ROWS + input] = turned.as_ref()[word];
            }
        }
    }
}

/// [`tile`] for a number of vectors known at run time, 1 to 3.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn tile_of_vectors<D: Dot, const R: usize>(
    vectors: usize,
    rows: &[u32],
    columns: Columns<'_>,
    sums: &mut [u32],
) {
    // SAFETY: the caller's.
    unsafe {
        match vectors {
            1 => tile::<D, R, 1>(rows, columns, sums),
            2 => tile::<D, R, 2>(rows, columns, sums),
            _ => tile::<D, R, 3>(rows, columns, sums),
        }
    }
}
