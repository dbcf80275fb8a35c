//! The multiply-add that a tile is made of, and what runs on any CPU.

use std::marker::PhantomData;

use super::format::Format;

/// Inputs in a row panel. Each gives two rows, `a` and `a'`.
pub(super) const ROWS: usize = 4;

/// The most columns that a panel has in any implementation.
pub(super) const MAX_COLUMNS: usize = 48;

/// A vector multiply-add over words of a [`Format`].
pub(super) trait Dot: Send + Sync + 'static {
    /// How samples are packed into the words that are multiplied.
    type Format: Format;
    /// [`LANES`](Self::LANES) words or sums.
    type Vector: Copy;
    /// Words in a vector.
    const LANES: usize;
    /// Vectors in a column panel: `2 * ROWS * VECTORS` sums, as many columns and a row fit in the
    /// registers.
    const VECTORS: usize;
    /// Inputs in a column panel.
    const COLUMNS: usize = Self::LANES * Self::VECTORS;

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
/// of the columns. `sums` has a pitch of `D::COLUMNS`.
///
/// # Safety
/// The CPU has the instructions of `D`.
#[inline(always)]
pub(super) unsafe fn tile<D: Dot, const R: usize, const V: usize>(
    rows: &[u32],
    columns: &[u32],
    sums: &mut [u32],
) {
    // SAFETY: the caller's; the slices are as long as the chunks and the assertion say.
    unsafe {
        let mut registers = [[D::splat(0); V]; R];
        for (rows, columns) in rows.chunks_exact(R).zip(columns.chunks_exact(D::COLUMNS)) {
            let mut column = [D::splat(0); V];
            for (v, column) in column.iter_mut().enumerate() {
                *column = D::load(&columns[v * D::LANES..]);
            }
            for (&row, registers) in rows.iter().zip(&mut registers) {
                let row = D::splat(row);
                for (sum, &column) in registers.iter_mut().zip(&column) {
                    *sum = D::multiply_add(*sum, row, column);
                }
            }
        }
        for (registers, sums) in registers.iter().zip(sums.chunks_exact_mut(D::COLUMNS)) {
            for (&sum, sums) in registers.iter().zip(sums.chunks_exact_mut(D::LANES)) {
                D::store(sum, sums);
            }
        }
    }
}

/// Plain Rust, four lanes at a time: what the compiler makes of it on any CPU.
pub(super) struct Portable<F>(PhantomData<F>);

impl<F: Format> Dot for Portable<F> {
    type Format = F;
    type Vector = [u32; 4];
    const LANES: usize = 4;
    const VECTORS: usize = 1;

    #[inline(always)]
    unsafe fn run<W: Work>(work: W) {
        work.run();
    }

    #[inline(always)]
    unsafe fn splat(word: u32) -> Self::Vector {
        [word; 4]
    }

    #[inline(always)]
    unsafe fn load(words: &[u32]) -> Self::Vector {
        std::array::from_fn(|lane| words[lane])
    }

    #[inline(always)]
    unsafe fn store(vector: Self::Vector, words: &mut [u32]) {
        words[..4].copy_from_slice(&vector);
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
