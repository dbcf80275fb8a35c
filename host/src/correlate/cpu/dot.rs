//! The multiply-add that a tile is made of, and what runs on any CPU.

use std::marker::PhantomData;

use super::format::Format;

/// Inputs in a row panel. Each gives two rows, `a` and `a'`.
pub(super) const ROWS: usize = 4;

/// The most columns that a panel may have: sums are kept for as many.
pub(super) const MAX_WIDTH: usize = 128;

/// Columns `[word][column]`, to be used from the column `first` on.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    pub(super) words: &'a [u32],
    pub(super) width: usize,
    pub(super) first: usize,
}

/// A vector multiply-add over words of a [`Format`].
pub(super) trait Dot: Send + Sync + 'static {
    /// Packing of samples into the words that are multiplied.
    type Format: Format;
    /// [`LANES`](Self::LANES) words or sums.
    type Vector: Copy;
    /// Words in a vector.
    const LANES: usize;
    /// Most vectors in a column panel: `2 * ROWS * VECTORS` sums, as many columns and a row fit in
    /// the registers.
    const VECTORS: usize;

    /// Runs `work` compiled for the instructions of this implementation.
    ///
    /// # Safety
    /// The CPU has them.
    unsafe fn run<W: Work>(work: W);

    /// `word` in all lanes.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn splat(word: u32) -> Self::Vector;

    /// The first [`LANES`](Self::LANES) of `words`.
    ///
    /// # Safety
    /// As for [`run`](Self::run); `words` has that many.
    unsafe fn load(words: &[u32]) -> Self::Vector;

    /// Writes the first [`LANES`](Self::LANES) of `words`.
    ///
    /// # Safety
    /// As for [`run`](Self::run); `words` has that many.
    unsafe fn store(vector: Self::Vector, words: &mut [u32]);

    /// [`Format::multiply_add`] in every lane.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn multiply_add(
        sums: Self::Vector,
        rows: Self::Vector,
        columns: Self::Vector,
    ) -> Self::Vector;
}

/// Work to be compiled once for every instruction set.
pub(super) trait Work {
    /// Does the work. To be `#[inline(always)]`, like everything it calls in the inner loops: only
    /// then is it compiled for the instructions of the caller.
    fn run(self);
}

/// `sums[r][c] = sum_word rows[word][r] . columns[word][c]`, for `R` rows and the first `V` vectors
/// of the columns. Rows of sums are as far apart as rows of columns.
///
/// # Safety
/// The CPU has the instructions of `D`.
#[inline(always)]
pub(super) unsafe fn tile<D: Dot, const R: usize, const V: usize>(
    rows: &[u32],
    columns: Columns<'_>,
    sums: &mut [u32],
) {
    let Columns { words, width, first } = columns;
    assert!(first + V * D::LANES <= width);
    // SAFETY: the caller's; the slices are as long as the chunks and the assertion say.
    unsafe {
        let mut registers = [[D::splat(0); V]; R];
        for (rows, columns) in rows.chunks_exact(R).zip(words.chunks_exact(width)) {
            let mut column = [D::splat(0); V];
            for (v, column) in column.iter_mut().enumerate() {
                *column = D::load(&columns[first + v * D::LANES..]);
            }
            for (&row, registers) in rows.iter().zip(&mut registers) {
                let row = D::splat(row);
                for (sum, &column) in registers.iter_mut().zip(&column) {
                    *sum = D::multiply_add(*sum, row, column);
                }
            }
        }
        for (registers, sums) in registers.iter().zip(sums.chunks_mut(width)) {
            for (&sum, sums) in registers.iter().zip(sums.chunks_exact_mut(D::LANES)) {
                D::store(sum, sums);
            }
        }
    }
}

/// Plain Rust, eight lanes at a time, for a compiler of any CPU.
pub(super) struct Portable<F>(PhantomData<F>);

impl<F: Format> Dot for Portable<F> {
    type Format = F;
    type Vector = [u32; 8];
    const LANES: usize = 8;
    const VECTORS: usize = 1;

    #[inline(always)]
    unsafe fn run<W: Work>(work: W) {
        work.run();
    }

    #[inline(always)]
    unsafe fn splat(word: u32) -> Self::Vector {
        [word; 8]
    }

    #[inline(always)]
    unsafe fn load(words: &[u32]) -> Self::Vector {
        std::array::from_fn(|lane| words[lane])
    }

    #[inline(always)]
    unsafe fn store(vector: Self::Vector, words: &mut [u32]) {
        words[..8].copy_from_slice(&vector);
    }

    #[inline(always)]
    unsafe fn multiply_add(
        sums: Self::Vector,
        rows: Self::Vector,
        columns: Self::Vector,
    ) -> Self::Vector {
        std::array::from_fn(|lane| F::multiply_add(sums[lane], rows[lane], columns[lane]))
    }
}
