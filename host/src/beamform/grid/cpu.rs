//! Grid beams on the CPU.
//!
//! Lanes of a vector are items, each a channel and a block of times, so that each item's f32 operations are exactly the
//! contract's ([`corrust_gpu::abi::grid`]), in its order.

use std::ops::Range;

use corrust_gpu::abi::{
    channelise::{Complex as Pair, multiply},
    grid::{Axis, NONE, add, finish, power},
};
use half::f16;
use num_complex::Complex;
use rayon::prelude::*;

use super::{powers::Powers, shape::Shape};
use crate::{
    channelise::cpu::{
        encode::decode,
        vector::{Portable, Vector},
    },
    device::host,
    error::Result,
    layout::Layout,
    samples::view::Samples,
};

/// Grid beams on the CPU.
pub(super) struct Cpu {
    shape: Shape,
    cells: Vec<u32>,
    factors: [Vec<[f32; 2]>; 2],
    weights: Vec<Complex<f32>>,
    gain: f32,
    /// Sums of the block of times that is not complete, `[f][q][p]`.
    sums: Vec<f32>,
}

/// Work of a call.
struct Work<'a> {
    plan: &'a Cpu,
    bytes: &'a [u8],
    times: usize,
    /// Times of the first block that came before, and their sums.
    skip: usize,
    before: &'a [f32],
}

/// A channel and its times of a block.
#[derive(Clone, Default)]
struct Item {
    channel: usize,
    times: Range<usize>,
    /// Whether the sums before belong to it.
    continues: bool,
}

/// Sums of at most as many items as the vectors have lanes, `[item][q][p]`, by the instructions of one kind of CPU.
type Beams = unsafe fn(&Work<'_>, &[Item], &mut [f32]);

impl Cpu {
    pub(super) fn new(shape: &Shape, cells: Vec<u32>, gain: f32) -> Self {
        let (shape, factors) = (*shape, shape.factors());
        Self { shape, cells, factors, weights: Vec::new(), gain, sums: Vec::new() }
    }

    pub(super) fn set_weights(&mut self, weights: &[Complex<f32>]) {
        self.weights = weights.to_vec();
    }

    /// Sums of the block of times that is not complete.
    pub(super) fn sums(&self) -> Vec<f32> {
        self.sums.clone()
    }

    /// Powers of the blocks of times that `voltages` complete, `skip` times of the first of which came before.
    pub(super) fn beamform(
        &mut self,
        voltages: &Samples<'_>,
        skip: usize,
        powers: &mut Powers,
    ) -> Result<()> {
        voltages.check_host()?;
        let gathered;
        let bytes = match voltages.plain(Layout::Tcn) {
            Some(bytes) => bytes,
            None => {
                gathered = voltages.gather(Layout::Tcn)?;
                &gathered
            }
        };
        let times = voltages.extents().times;
        let all = skip + times;
        let complete = all / self.shape.block_times;
        let work = Work { plan: self, bytes, times, skip, before: &self.sums };
        let gain = self.gain;
        match powers {
            Powers::F32(powers) => {
                let powers = powers.as_slice_mut().expect("made in standard order");
                work.blocks(0..complete, powers, |sum| sum * gain)?;
            }
            Powers::F16(powers) => {
                let powers = powers.as_slice_mut().expect("made in standard order");
                work.blocks(0..complete, powers, |sum| f16::from_f32(sum * gain))?;
            }
        }
        if !all.is_multiple_of(self.shape.block_times) {
            let mut sums = host::zeros(self.shape.channels * self.shape.beams())?;
            work.blocks(complete..complete + 1, &mut sums, |sum| sum)?;
            self.sums = sums;
        }
        Ok(())
    }
}

impl Work<'_> {
    /// The blocks of a range, `[f][block][q][p]`, each power made of its sum.
    fn blocks<T: Send>(
        &self,
        range: Range<usize>,
        to: &mut [T],
        make: impl Fn(f32) -> T + Sync,
    ) -> Result<()> {
        let Shape { block_times, .. } = self.plan.shape;
        let beams = self.plan.shape.beams();
        let (compute, lanes) = by();
        let item = |index: usize| {
            let block = range.start + index % range.len();
            let start = (block * block_times).max(self.skip) - self.skip;
            let end = ((block + 1) * block_times - self.skip).min(self.times);
            Item {
                channel: index / range.len(),
                times: start..end,
                continues: block == 0 && self.skip > 0,
            }
        };
        to.par_chunks_mut(lanes * beams).enumerate().try_for_each(|(number, to)| {
            let count = to.len() / beams;
            let items: Vec<Item> = (number * lanes..number * lanes + count).map(item).collect();
            let mut sums: Vec<f32> = host::zeros(to.len())?;
            // SAFETY: the CPU has the instructions.
            unsafe { compute(self, &items, &mut sums) };
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = make(sum));
            Ok(())
        })
    }
}

/// The best instructions that this CPU has, and the lanes of their vectors.
fn by() -> (Beams, usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use crate::channelise::cpu::vector::x86::{Avx2, Avx512};
        if is_x86_feature_detected!("avx512f") {
            return (avx512, Avx512::LANES);
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return (avx2, Avx2::LANES);
        }
    }
    (beams::<Portable>, Portable::LANES)
}

/// [`beams`] by AVX2.
///
/// # Safety
/// The CPU has the instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(work: &Work<'_>, items: &[Item], sums: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { beams::<crate::channelise::cpu::vector::x86::Avx2>(work, items, sums) }
}

/// [`beams`] by AVX-512.
///
/// # Safety
/// The CPU has the instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
unsafe fn avx512(work: &Work<'_>, items: &[Item], sums: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { beams::<crate::channelise::cpu::vector::x86::Avx512>(work, items, sums) }
}

/// See [`Beams`].
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn beams<V: Vector>(work: &Work<'_>, items: &[Item], sums: &mut [f32]) {
    let plan = work.plan;
    let Shape { channels, polarisations, dishes, encoding, .. } = plan.shape;
    let (beams, row) = (plan.shape.beams(), dishes * encoding.bytes());
    let zero = [V::splat(0.0); 2];
    let mut grid = vec![zero; plan.cells.len()];
    let mut half = vec![zero; 2 * plan.cells.len()];
    let mut powers = vec![V::splat(0.0); beams];
    let mut lanes = [[0.0; 16]; 2];
    for (beam, power) in powers.iter_mut().enumerate() {
        for (lane, item) in items.iter().enumerate() {
            let sum = || work.before[item.channel * beams + beam];
            lanes[0][lane] = if item.continues { sum() } else { 0.0 };
        }
        // SAFETY: 16 numbers; the caller's promise.
        *power = unsafe { V::load(&lanes[0]) };
    }
    let mut weights = vec![zero; polarisations * dishes];
    for (index, weights) in weights.iter_mut().enumerate() {
        for (lane, item) in items.iter().enumerate() {
            let weight = plan.weights[item.channel * polarisations * dishes + index];
            (lanes[0][lane], lanes[1][lane]) = (weight.re, weight.im);
        }
        // SAFETY: 16 numbers; the caller's promise.
        *weights = unsafe { [V::load(&lanes[0]), V::load(&lanes[1])] };
    }
    let mut samples = vec![0.0; V::LANES * 2 * dishes];
    let most = items.iter().map(|item| item.times.len()).max().unwrap_or(0);
    for step in 0..most {
        for polarisation in 0..polarisations {
            for (item, samples) in items.iter().zip(samples.chunks_exact_mut(2 * dishes)) {
                if step < item.times.len() {
                    let stream = item.channel * polarisations + polarisation;
                    let time = item.times.start + step;
                    let begin = (time * channels * polarisations + stream) * row;
                    let bytes = &work.bytes[begin..begin + row];
                    decode(bytes, encoding.into(), 0, samples);
                } else {
                    samples.fill(0.0);
                }
            }
            for (place, &dish) in grid.iter_mut().zip(&plan.cells) {
                if dish == NONE {
                    continue;
                }
                let dish = dish as usize;
                for lane in 0..V::LANES {
                    let sample = &samples[(lane * dishes + dish) * 2..][..2];
                    (lanes[0][lane], lanes[1][lane]) = (sample[0], sample[1]);
                }
                // SAFETY: 16 numbers; the caller's promise.
                let sample = unsafe { [V::load(&lanes[0]), V::load(&lanes[1])] };
                *place = multiply(sample, weights[polarisation * dishes + dish]);
            }
            transform(plan, &grid, &mut half, &mut powers);
        }
    }
    for (beam, power) in powers.iter().enumerate() {
        // SAFETY: 16 numbers; the caller's promise.
        unsafe { power.store(&mut lanes[0]) };
        for (lane, sums) in sums.chunks_exact_mut(beams).enumerate() {
            sums[beam] = lanes[0][lane];
        }
    }
}

/// Adds the powers of weighted samples to the beams' sums: rows to `H`, columns of that to beams.
#[inline(always)]
fn transform<V: Vector>(plan: &Cpu, grid: &[Pair<V>], half: &mut [Pair<V>], powers: &mut [V]) {
    let [rows, columns] = plan.shape.axes();
    let values = columns.places() as usize;
    let grid = grid.chunks_exact(values);
    for (grid, half) in grid.zip(half.chunks_exact_mut(2 * values)) {
        for group in 0..columns.groups() {
            let values = group_of(columns, &plan.factors[0], group, grid, 1);
            half[4 * group as usize..][..4].copy_from_slice(&values);
        }
    }
    let pitch = 2 * values;
    for position in 0..pitch {
        let q = columns.beam(position as u32 / 4, position as u32 % 4);
        if q == NONE {
            continue;
        }
        let first = (q * 2 * rows.size) as usize;
        for group in 0..rows.groups() {
            let column = &half[position..];
            let values = group_of(rows, &plan.factors[1], group, column, pitch);
            for (index, value) in values.into_iter().enumerate() {
                let p = rows.beam(group, index as u32);
                if p != NONE {
                    let sum = &mut powers[first + p as usize];
                    *sum = power(value, *sum);
                }
            }
        }
    }
}

/// The values of a group, of values `pitch` apart.
#[inline(always)]
fn group_of<V: Vector>(
    axis: Axis,
    factors: &[[f32; 2]],
    group: u32,
    values: &[Pair<V>],
    pitch: usize,
) -> [Pair<V>; 4] {
    let width = (axis.table_len() / axis.places()) as usize;
    let mut sums = [[[V::splat(0.0); 2]; 2]; 2];
    for place in 0..axis.places() as usize {
        let [cosine, sine] = factors[place * width + group as usize];
        let factors = [V::splat(cosine), V::splat(sine)];
        add(&mut sums[place % 2], factors, values[place * pitch]);
    }
    finish(group == 0, sums)
}
