//! Packing of samples into 32-bit words, so that one multiply-add of words does the most work.
//!
//! Two times of one input make a pair; a pair makes 1, 2 or 4 words.

use ndarray::Array2;
use num_complex::Complex;

use crate::correlate::visibilities::Visibilities;

/// An arithmetic for products of samples.
pub(super) trait Format: Send + Sync + 'static {
    /// A decoded sample: real, imaginary.
    type Sample: Copy + 'static;
    /// The sample of value zero.
    const ZERO: Self::Sample;
    /// The words of a pair of times.
    type Words: Copy + AsRef<[u32]> + AsMut<[u32]> + Default;
    /// Their number.
    const WORDS: usize;
    /// Whether a row of zeros is not made of zero words: every sum then has to be reduced by the
    /// sum that a row of zeros has with the same column.
    const EXCESS: bool = false;
    /// Type of the sums of whole integrations.
    type Total: Copy + Default + Send + Sync + std::ops::AddAssign;

    /// The words of a column, `b = (re, im)`, of two successive times.
    fn columns(pair: [Self::Sample; 2]) -> Self::Words;

    /// The words of the rows `a = (re, im)` and `a' = (im, -re)` out of those of a column.
    fn rows(columns: Self::Words) -> [Self::Words; 2];

    /// The sum, plus the product of a word of a row and a word of a column.
    fn multiply_add(sum: u32, row: u32, column: u32) -> u32;

    /// The sum of a run, less what a row of zeros gives (0 without [`EXCESS`](Self::EXCESS)).
    fn total(sum: u32, excess: u32) -> Self::Total;

    /// Moves the totals to `visibilities`, which has room for them; `totals` then holds unspecified values.
    fn dump(totals: &mut Array2<Complex<Self::Total>>, visibilities: &mut Visibilities);
}

/// A pair is two words, each the real and imaginary part of one time as `i16`, for instructions
/// that sum two 16-bit products into 32 bits.
pub(super) struct Halves;

/// A pair is one word of four bytes, `re, im, re, im`, for instructions that sum four products of
/// unsigned and signed bytes into 32 bits.
///
/// Columns are signed, rows hold value + 128, and -re is replaced by its complement, -re - 1, for
/// which every byte has room: all 256 values are legal. What this adds to a sum depends on the
/// column alone, so a row of zeros shows how much it is. 32-bit sums may wrap in between: what
/// counts is that the difference fits, `2 * 128^2 * times < 2^31`.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for instructions of x86-64"))]
pub(super) struct Bytes;

/// A pair is four words, `re, im, re, im`, each an f32 that holds an IEEE half.
pub(super) struct Floats;

impl Format for Halves {
    type Sample = [i8; 2];
    const ZERO: Self::Sample = [0; 2];
    type Words = [u32; 2];
    const WORDS: usize = 2;
    type Total = i64;

    #[inline(always)]
    fn columns(pair: [Self::Sample; 2]) -> Self::Words {
        let [[a, b], [c, d]] = pair;
        [halves(a.into(), b.into()), halves(c.into(), d.into())]
    }

    #[inline(always)]
    fn rows(columns: Self::Words) -> [Self::Words; 2] {
        let [a, b] = columns;
        [columns, [turned(a), turned(b)]]
    }

    #[inline(always)]
    fn multiply_add(sum: u32, row: u32, column: u32) -> u32 {
        let low = i32::from(row as i16) * i32::from(column as i16);
        let high = (row as i32 >> 16) * (column as i32 >> 16);
        sum.wrapping_add_signed(low + high)
    }

    #[inline(always)]
    fn total(sum: u32, _: u32) -> i64 {
        i64::from(sum as i32)
    }

    fn dump(totals: &mut Array2<Complex<i64>>, visibilities: &mut Visibilities) {
        exchange(totals, visibilities);
    }
}

/// A word of two `i16`.
#[inline(always)]
fn halves(low: i16, high: i16) -> u32 {
    u32::from(low as u16) | u32::from(high as u16) << 16
}

/// `(im, -re)`. No sample is -2^15, which has no negative.
#[inline(always)]
fn turned(word: u32) -> u32 {
    let (re, im) = (word as i16, (word >> 16) as i16);
    halves(im, -re)
}

impl Format for Bytes {
    type Sample = [i8; 2];
    const ZERO: Self::Sample = [0; 2];
    type Words = [u32; 1];
    const WORDS: usize = 1;
    const EXCESS: bool = true;
    type Total = i64;

    #[inline(always)]
    fn columns(pair: [Self::Sample; 2]) -> Self::Words {
        let [[a, b], [c, d]] = pair;
        [u32::from_le_bytes([a as u8, b as u8, c as u8, d as u8])]
    }

    #[inline(always)]
    fn rows([word]: Self::Words) -> [Self::Words; 2] {
        let turned = (word & 0x00ff_00ff) << 8 | word >> 8 & 0x00ff_00ff;
        // Excess-128 flips the highest bit of a byte, the complement of re the others as well.
        [[word ^ 0x8080_8080], [turned ^ 0x7f80_7f80]]
    }

    #[inline(always)]
    fn multiply_add(sum: u32, row: u32, column: u32) -> u32 {
        let products = row.to_le_bytes().into_iter().zip(column.to_le_bytes());
        products.fold(sum, |sum, (row, column)| {
            sum.wrapping_add_signed(i32::from(row) * i32::from(column as i8))
        })
    }

    #[inline(always)]
    fn total(sum: u32, excess: u32) -> i64 {
        i64::from(sum.wrapping_sub(excess) as i32)
    }

    fn dump(totals: &mut Array2<Complex<i64>>, visibilities: &mut Visibilities) {
        exchange(totals, visibilities);
    }
}

impl Format for Floats {
    type Sample = [f32; 2];
    const ZERO: Self::Sample = [0.0; 2];
    type Words = [u32; 4];
    const WORDS: usize = 4;
    type Total = f64;

    #[inline(always)]
    fn columns([[a, b], [c, d]]: [Self::Sample; 2]) -> Self::Words {
        [a.to_bits(), b.to_bits(), c.to_bits(), d.to_bits()]
    }

    #[inline(always)]
    fn rows([a, b, c, d]: Self::Words) -> [Self::Words; 2] {
        const SIGN: u32 = 1 << 31;
        [[a, b, c, d], [b, a ^ SIGN, d, c ^ SIGN]]
    }

    #[inline(always)]
    fn multiply_add(sum: u32, row: u32, column: u32) -> u32 {
        // The product of two halves is exact in f32: fused or not, the sum is the same.
        let product = f32::from_bits(row) * f32::from_bits(column);
        (f32::from_bits(sum) + product).to_bits()
    }

    #[inline(always)]
    fn total(sum: u32, _: u32) -> f64 {
        f32::from_bits(sum).into()
    }

    fn dump(totals: &mut Array2<Complex<f64>>, visibilities: &mut Visibilities) {
        let Visibilities::Float(sums) = visibilities else { panic!("room for other sums") };
        sums.zip_mut_with(totals, |sum, v| *sum = Complex::new(v.re as f32, v.im as f32));
    }
}

/// Swaps the integer totals with the room.
fn exchange(totals: &mut Array2<Complex<i64>>, visibilities: &mut Visibilities) {
    let Visibilities::Integer(sums) = visibilities else { panic!("room for other sums") };
    std::mem::swap(sums, totals);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x_i conj(x_j)` summed over a pair of times, from the words of a format.
    fn visibility<F: Format>(i: [F::Sample; 2], j: [F::Sample; 2]) -> [F::Total; 2] {
        let dot = |rows: F::Words, columns: F::Words| {
            let words = rows.as_ref().iter().zip(columns.as_ref());
            words.fold(0, |sum, (&row, &column)| F::multiply_add(sum, row, column))
        };
        let columns = F::columns(j);
        let rows = F::rows(F::columns(i));
        let zeros = F::rows(F::columns([F::ZERO; 2]));
        std::array::from_fn(|k| F::total(dot(rows[k], columns), dot(zeros[k], columns)))
    }

    #[test]
    fn formats_multiply_all_bytes() {
        let bytes = i8::MIN..=i8::MAX;
        for (a, b) in bytes.clone().flat_map(|a| bytes.clone().map(move |b| (a, b))) {
            let (i, j) = ([[a, b], [b, i8::MIN]], [[b, a.wrapping_add(7)], [i8::MIN, a]]);
            let mut expected = [0; 2];
            for time in 0..2 {
                let [[ar, ai], [br, bi]] = [i[time], j[time]].map(|x| x.map(i64::from));
                expected[0] += ar * br + ai * bi;
                expected[1] += ai * br - ar * bi;
            }
            assert_eq!(visibility::<Halves>(i, j), expected, "{i:?} {j:?}");
            assert_eq!(visibility::<Bytes>(i, j), expected, "{i:?} {j:?}");
            let float = |x: [[i8; 2]; 2]| x.map(|x| x.map(f32::from));
            let found = visibility::<Floats>(float(i), float(j));
            assert_eq!(found.map(|v| v as i64), expected, "{i:?} {j:?}");
        }
    }
}
