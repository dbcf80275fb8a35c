//! Bits on the CPU: ones of words, counted.
//!
//! A word is 16 bytes of real and 16 of imaginary parts. Two words are a row of eight `u64`, a vector of AVX-512;
//! elsewhere the compiler uses the vectors of the target. Rows are copied a strip of [`STRIP`] pairs of words at a
//! time, as they are and with a* of them, as a tile of [`TILE`] x [`TILE`] baselines is gone through: its counts stay
//! in registers over the strip. The bound: counting ones.

use ndarray::Array2;
use num_complex::Complex;
use rayon::prelude::*;

use super::sums::{Sums, zeros};
use crate::{
    correlate::{
        backend::Setup,
        baselines::{baseline, baselines},
        ones::widen_ones,
        visibilities::{Room, Visibilities},
    },
    error::Result,
    kernels::correlate::Kernel,
    sample::Encoding,
    samples::shape::Shape,
};

/// Pairs of words between two additions to the sums.
const STRIP: usize = 32;

/// Inputs along either side of a tile.
const TILE: usize = 2;

/// Two words.
type Pair = [u64; 8];

/// The sums of a plan's gates.
pub(super) struct Ones {
    /// Shape of the planes, each an input.
    shape: Shape,
    planes: usize,
    /// Counts of ones of each gate, `[channel][baseline of planes]`, and the words that they are of.
    gates: Vec<(Array2<Complex<i64>>, usize)>,
    count: unsafe fn(Block<'_>),
}

impl Ones {
    pub(super) fn new(setup: &Setup<'_>) -> Result<Self> {
        let shape = setup.shape.of_planes();
        let gates = (0..setup.gates).map(|_| Ok((zeros(&shape)?, 0)));
        Ok(Self {
            shape,
            planes: setup.shape.encoding.planes(),
            gates: gates.collect::<Result<_>>()?,
            count: counting(setup.kernel),
        })
    }
}

/// Function that counts ones, with the instructions that a kernel names and the CPU's own for ones.
fn counting(kernel: Kernel) -> unsafe fn(Block<'_>) {
    #[cfg(target_arch = "x86_64")]
    {
        let avx512 = matches!(kernel, Kernel::CpuAvx512 | Kernel::CpuAvx512Vnni);
        if avx512 && is_x86_feature_detected!("avx512vpopcntdq") {
            return count_avx512;
        }
        if kernel != Kernel::CpuPortable && is_x86_feature_detected!("popcnt") {
            return count_avx2;
        }
    }
    let _ = kernel;
    count
}

impl Sums for Ones {
    fn accumulate(&mut self, gate: usize, samples: &[u8], words: usize) {
        let inputs = self.shape.inputs;
        let (sums, of) = &mut self.gates[gate];
        *of += words;
        let sums = sums.as_slice_mut().expect("sums lie in one piece");
        let channels = samples.par_chunks_exact(inputs * words * Encoding::B1.bytes());
        let count = self.count;
        channels.zip(sums.par_chunks_exact_mut(baselines(inputs))).for_each(|(samples, sums)| {
            let padded = inputs.next_multiple_of(TILE);
            let mut panel = vec![[[[0; 8]; STRIP]; 2]; padded];
            for first in (0..words).step_by(2 * STRIP) {
                let rows = samples.par_chunks_exact(words * Encoding::B1.bytes());
                panel.par_iter_mut().zip(rows).with_min_len(16).for_each(|(row, samples)| {
                    let last = words.min(first + 2 * STRIP);
                    let strip = first * Encoding::B1.bytes()..last * Encoding::B1.bytes();
                    fill(row, &samples[strip]);
                });
                let mut rest = &mut *sums;
                let mut blocks = Vec::with_capacity(padded / TILE);
                for first in (0..inputs).step_by(TILE) {
                    let last = inputs.min(first + TILE);
                    let length = baseline(last, 0) - baseline(first, 0);
                    let (sums, after) = rest.split_at_mut(length);
                    blocks.push(Block { panel: &panel, first, sums });
                    rest = after;
                }
                // SAFETY: the counting function was chosen for the CPU's instructions.
                blocks.into_par_iter().with_min_len(8).for_each(|block| unsafe { count(block) });
            }
        });
    }

    fn gates(&self) -> usize {
        self.gates.len()
    }

    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities) {
        let (ones, words) = &self.gates[gate];
        let Room::Integer(sums) = visibilities.room() else { unreachable!("bits are integers") };
        let ones = ones.as_slice().expect("sums lie in one piece");
        let times = (words * Encoding::B1.times()) as i64;
        widen_ones(ones, (self.shape.inputs, self.planes), times, sums);
        self.reset_gate(gate);
    }

    fn reset(&mut self) {
        (0..self.gates.len()).for_each(|gate| self.reset_gate(gate));
    }
}

impl Ones {
    fn reset_gate(&mut self, gate: usize) {
        let (ones, words) = &mut self.gates[gate];
        if std::mem::take(words) > 0 {
            ones.fill(Complex::default());
        }
    }
}

/// A strip of an input's words: as they are, and a*.
type Row = [[Pair; STRIP]; 2];

/// Copies words, at most a strip of them, to a row; beyond them there are no ones.
fn fill([row, rotated]: &mut Row, samples: &[u8]) {
    *row = [[0; 8]; STRIP];
    for (pair, samples) in row.iter_mut().zip(samples.chunks(2 * Encoding::B1.bytes())) {
        for (part, bytes) in pair.iter_mut().zip(samples.as_chunks().0) {
            *part = u64::from_le_bytes(*bytes);
        }
    }
    for (rotated, row) in rotated.iter_mut().zip(row) {
        let [a, b, c, d, e, f, g, h] = *row;
        *rotated = [c, d, !a, !b, g, h, !e, !f];
    }
}

/// Some rows of a channel's triangle, at most [`TILE`].
struct Block<'a> {
    /// Rows of all inputs, padded to whole tiles.
    panel: &'a [Row],
    first: usize,
    sums: &'a mut [Complex<i64>],
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq")]
fn count_avx512(block: Block<'_>) {
    count(block);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn count_avx2(block: Block<'_>) {
    count(block);
}

/// Counts the ones of a block's rows.
#[inline(always)]
fn count(block: Block<'_>) {
    let Block { panel, first, sums } = block;
    let rows = &panel[first..first + TILE];
    let begin = baseline(first, 0);
    for (tile, columns) in panel[..first + TILE].chunks_exact(TILE).enumerate() {
        let mut ones = [[[[0_u64; 8]; 2]; TILE]; TILE];
        for pair in 0..STRIP {
            for (ones, row) in ones.iter_mut().zip(rows) {
                for (ones, [column, _]) in ones.iter_mut().zip(columns) {
                    for (ones, row) in ones.iter_mut().zip(row) {
                        for lane in 0..8 {
                            let both = row[pair][lane] & column[pair][lane];
                            ones[lane] += u64::from(both.count_ones());
                        }
                    }
                }
            }
        }
        for (i, ones) in (first..).zip(&ones) {
            for (j, [re, im]) in (tile * TILE..).zip(ones) {
                if j <= i
                    && let Some(sum) = sums.get_mut(baseline(i, j) - begin)
                {
                    let [re, im] = [re, im].map(|ones| ones.iter().sum::<u64>() as i64);
                    *sum += Complex::new(re, im);
                }
            }
        }
    }
}
