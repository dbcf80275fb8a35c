//! Unpacking samples into panels, and multiplying them.

use std::ops::Range;

use num_complex::Complex;

use super::{
    super::{Shape, Strides, baseline},
    RUN,
    dot::{Dot, MAX_COLUMNS, ROWS, Work, tile},
    format::Format,
};
use crate::Layout;

/// Times of one input that are decoded in one go, of time-contiguous samples.
const DECODED: usize = 64;

/// The samples of one call.
pub(super) struct Samples<'a> {
    bytes: &'a [u8],
    shape: Shape,
    strides: Strides,
}

impl<'a> Samples<'a> {
    pub(super) fn new(shape: &Shape, bytes: &'a [u8], times: usize) -> Self {
        Self { bytes, shape: *shape, strides: shape.strides(times) }
    }

    pub(super) fn inputs(&self) -> usize {
        self.shape.inputs
    }

    /// The bytes from a sample on.
    #[inline(always)]
    fn at(&self, channel: usize, input: usize, time: usize) -> &'a [u8] {
        let Strides { time: per_time, channel: per_channel, input: per_input } = self.strides;
        let sample = time * per_time + channel * per_channel + input * per_input;
        &self.bytes[sample * self.shape.encoding.bytes()..]
    }
}

/// Length in words of a column panel over `words` words: `[word][column]`, then for each run and
/// both rows of an input the sums that zeros have with the columns, `[run][2][column]`.
pub(super) fn column_panel_len<D: Dot>(words: usize) -> usize {
    (words + 2 * words.div_ceil(RUN)) * D::COLUMNS
}

/// Unpacks the columns of some inputs.
pub(super) struct ColumnPanel<'a, D: Dot> {
    pub(super) samples: &'a Samples<'a>,
    pub(super) channel: usize,
    /// At most [`Dot::COLUMNS`] of them.
    pub(super) inputs: Range<usize>,
    pub(super) times: Range<usize>,
    /// See [`column_panel_len`].
    pub(super) panel: &'a mut [u32],
    pub(super) arithmetic: std::marker::PhantomData<D>,
}

impl<D: Dot> Work for ColumnPanel<'_, D> {
    #[inline(always)]
    fn run(self) {
        let words = self.times.len().div_ceil(2) * D::Format::WORDS;
        let Self { samples, channel, inputs, times, panel, .. } = self;
        let (columns, excess) = panel.split_at_mut(words * D::COLUMNS);
        match samples.shape.layout {
            Layout::Tcn => inputs_together::<D>(samples, channel, inputs, times, columns),
            Layout::Cnt => times_together::<D>(samples, channel, inputs, times, columns),
        }
        if D::Format::EXCESS {
            let [zero, turned] = D::Format::rows(D::Format::columns([D::Format::ZERO; 2]));
            let mut zeros = [0; 2 * RUN];
            for zeros in zeros.chunks_exact_mut(2 * D::Format::WORDS) {
                for (w, row) in zeros.chunks_exact_mut(2).enumerate() {
                    row.copy_from_slice(&[zero.as_ref()[w], turned.as_ref()[w]]);
                }
            }
            let runs = columns.chunks(RUN * D::COLUMNS);
            for (run, excess) in runs.zip(excess.chunks_exact_mut(2 * D::COLUMNS)) {
                // SAFETY: work runs on CPUs that have the instructions of `D`.
                unsafe { tile_of_vectors::<D, 2>(D::VECTORS, &zeros, run, excess) };
            }
        }
    }
}

/// `[time][channel][input]`: a time of all inputs lies together.
#[inline(always)]
fn inputs_together<D: Dot>(
    samples: &Samples<'_>,
    channel: usize,
    inputs: Range<usize>,
    times: Range<usize>,
    columns: &mut [u32],
) {
    let mut pair = [[D::Format::ZERO; MAX_COLUMNS]; 2];
    let pairs = times.clone().step_by(2);
    for (time, words) in pairs.zip(columns.chunks_exact_mut(D::Format::WORDS * D::COLUMNS)) {
        for (time, decoded) in (time..).zip(&mut pair) {
            let decoded = &mut decoded[..inputs.len()];
            if time < times.end {
                let bytes = samples.at(channel, inputs.start, time);
                D::Format::decode(samples.shape.encoding, bytes, decoded);
            } else {
                decoded.fill(D::Format::ZERO);
            }
        }
        for column in 0..D::COLUMNS {
            let of_pair = D::Format::columns([pair[0][column], pair[1][column]]);
            for (word, &value) in of_pair.as_ref().iter().enumerate() {
                words[word * D::COLUMNS + column] = value;
            }
        }
    }
}

/// `[channel][input][time]`: the times of an input lie together.
#[inline(always)]
fn times_together<D: Dot>(
    samples: &Samples<'_>,
    channel: usize,
    inputs: Range<usize>,
    times: Range<usize>,
    columns: &mut [u32],
) {
    if inputs.len() < D::COLUMNS {
        columns.fill(0);
    }
    let pieces = columns.chunks_mut(DECODED / 2 * D::Format::WORDS * D::COLUMNS);
    for (start, words) in times.clone().step_by(DECODED).zip(pieces) {
        let count = DECODED.min(times.end - start);
        let mut decoded = [D::Format::ZERO; DECODED];
        for (column, input) in inputs.clone().enumerate() {
            let bytes = samples.at(channel, input, start);
            D::Format::decode(samples.shape.encoding, bytes, &mut decoded[..count]);
            let pairs = words.chunks_exact_mut(D::Format::WORDS * D::COLUMNS);
            for (pair, words) in decoded.chunks_exact(2).zip(pairs) {
                let of_pair = D::Format::columns([pair[0], pair[1]]);
                for (word, &value) in of_pair.as_ref().iter().enumerate() {
                    words[word * D::COLUMNS + column] = value;
                }
            }
        }
    }
}

/// Adds the products of some inputs, as rows, with all inputs up to them.
pub(super) struct RowBlock<'a, D: Dot> {
    /// The column panels of all inputs, each of [`column_panel_len`].
    pub(super) columns: &'a [u32],
    /// Words of the strip.
    pub(super) words: usize,
    /// The first is a multiple of [`ROWS`].
    pub(super) inputs: Range<usize>,
    /// Memory for the row panels, `2 * ROWS * words` for every [`ROWS`] inputs.
    pub(super) rows: &'a mut [u32],
    /// Those of the baselines `(i, 0)..=(i, i)` of every input `i`.
    pub(super) totals: &'a mut [Complex<<D::Format as Format>::Total>],
}

impl<D: Dot> Work for RowBlock<'_, D> {
    #[inline(always)]
    fn run(self) {
        let Self { columns, words, inputs, rows, totals } = self;
        let panel_len = column_panel_len::<D>(words);
        let tops = inputs.clone().step_by(ROWS);
        for (top, panel) in tops.clone().zip(rows.chunks_exact_mut(2 * ROWS * words)) {
            let column = &columns[top / D::COLUMNS * panel_len..][..words * D::COLUMNS];
            row_panel::<D>(column, top % D::COLUMNS, panel);
        }

        let mut sums = [0; 2 * ROWS * MAX_COLUMNS];
        for (left, panel) in
            (0..inputs.end).step_by(D::COLUMNS).zip(columns.chunks_exact(panel_len))
        {
            let (columns, excess) = panel.split_at(words * D::COLUMNS);
            let runs = columns.chunks(RUN * D::COLUMNS).zip(excess.chunks_exact(2 * D::COLUMNS));
            for (run, (columns, excess)) in runs.enumerate() {
                for (top, rows) in tops.clone().zip(rows.chunks_exact(2 * ROWS * words)) {
                    let bottom = inputs.end.min(top + ROWS);
                    if bottom <= left {
                        continue;
                    }
                    let vectors = (bottom - left).div_ceil(D::LANES).min(D::VECTORS);
                    let rows = &rows[run * RUN * 2 * ROWS..];
                    // SAFETY: work runs on CPUs that have the instructions of `D`.
                    unsafe {
                        tile_of_vectors::<D, { 2 * ROWS }>(vectors, rows, columns, &mut sums)
                    };
                    for i in top.max(left)..bottom {
                        let first = baseline(i, left) - baseline(inputs.start, 0);
                        let count = D::COLUMNS.min(i + 1 - left);
                        let row = &sums[(i - top) * D::COLUMNS..][..count];
                        let turned = &sums[(ROWS + i - top) * D::COLUMNS..][..count];
                        add_row::<D>(&mut totals[first..][..count], [row, turned], excess);
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
    excess: &[u32],
) {
    let (excess_re, excess_im) = excess.split_at(D::COLUMNS);
    for (j, total) in totals.iter_mut().enumerate() {
        total.re += D::Format::total(re[j], excess_re[j]);
        total.im += D::Format::total(im[j], excess_im[j]);
    }
}

/// The rows `[word][a of each input, a' of each input]` of the [`ROWS`] inputs from column `first`
/// of a column panel on.
#[inline(always)]
fn row_panel<D: Dot>(columns: &[u32], first: usize, rows: &mut [u32]) {
    let per_pair = D::Format::WORDS;
    let pairs = rows.chunks_exact_mut(2 * ROWS * per_pair);
    for (rows, columns) in pairs.zip(columns.chunks_exact(per_pair * D::COLUMNS)) {
        for input in 0..ROWS {
            let mut of_pair = <D::Format as Format>::Words::default();
            for (word, value) in of_pair.as_mut().iter_mut().enumerate() {
                *value = columns[word * D::COLUMNS + first + input];
            }
            let [row, turned] = D::Format::rows(of_pair);
            for word in 0..per_pair {
                rows[word * 2 * ROWS + input] = row.as_ref()[word];
                rows[word * 2 * ROWS + ROWS + input] = turned.as_ref()[word];
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
    columns: &[u32],
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
