//! The F-engine on the CPU: see [`transform`].
//!
//! Spectra of every input, so many at a time that they stay in cache, are made in rows of their own, which are
//! then brought to the order of the output.

pub(crate) mod encode;
pub(crate) mod transform;
pub(crate) mod vector;

use corrust_gpu::abi::channelise::{MISSING, unit};
use num_complex::Complex;
use rayon::prelude::*;

use self::{
    encode::decode,
    transform::{Engine, Lane, MAX_LANES, Scratch, Transform},
    vector::{Portable, Vector},
};
use super::places::Batch;
use crate::{
    channelise::{
        backend::{Backend, Setup},
        shape::Shape,
        spectra::Spectra,
    },
    device::host,
    error::{Error, Result},
    kernels::channelise::Kernel,
    layout::Layout,
    samples::{
        extents::Memory,
        raw::{RawLayout, RawSamples},
    },
};

/// Bytes of rows that are brought to the output's order at a time.
const ROWS_BYTES: usize = 4 << 20;

/// The CPU backend for a shape, with the instructions that the kernel names or the best there are.
pub(super) fn backend(setup: &Setup<'_>) -> Result<(Kernel, Box<dyn Backend>)> {
    let candidates = [Kernel::CpuAvx512, Kernel::CpuAvx2, Kernel::CpuPortable];
    let (kernel, (transform, lanes)) = setup.kernel.on_cpu(&candidates, by)?;
    let shape = *setup.shape;
    let residues = shape.residues();
    let (parts, factor) = if shape.raw.is_complex() { (2, 1.0) } else { (1, 0.5) };
    let taps = setup.prototype.iter().map(|h| (factor * h) as f32);
    let cpu = Cpu {
        engine: Engine {
            shape,
            taps: taps.flat_map(|h| std::iter::repeat_n(h, parts)).collect(),
            table: (0..residues as u32 / 2).map(|t| unit(t, residues as u32)).collect(),
            gains: pairs(setup.gains),
            turns: setup.turns,
        },
        transform,
        lanes,
        tail: host::filled(Vec::new(), shape.inputs)?,
        tail_first: 0,
    };
    Ok((kernel, Box::new(cpu)))
}

fn pairs(gains: &[Complex<f32>]) -> Vec<[f32; 2]> {
    gains.iter().map(|gain| [gain.re, gain.im]).collect()
}

/// The transform of a kernel and its lanes, if this CPU has the instructions.
fn by(kernel: Kernel) -> Option<(Transform, usize)> {
    match kernel {
        Kernel::CpuPortable => Some((transform::transform::<Portable>, Portable::LANES)),
        #[cfg(target_arch = "x86_64")]
        Kernel::CpuAvx2 => (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"))
            .then_some((avx2, vector::x86::Avx2::LANES)),
        #[cfg(target_arch = "x86_64")]
        Kernel::CpuAvx512 => (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl"))
        .then_some((avx512, vector::x86::Avx512::LANES)),
        _ => None,
    }
}

/// [`transform::transform`] by AVX2.
///
/// # Safety
/// The CPU has the instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(
    engine: &Engine,
    lanes: &[Lane],
    scratch: &mut Scratch,
    rows: &mut [u8],
    clipped: &mut [u64],
) {
    // SAFETY: the caller's promise.
    unsafe { transform::transform::<vector::x86::Avx2>(engine, lanes, scratch, rows, clipped) }
}

/// [`transform::transform`] by AVX-512.
///
/// # Safety
/// The CPU has the instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
unsafe fn avx512(
    engine: &Engine,
    lanes: &[Lane],
    scratch: &mut Scratch,
    rows: &mut [u8],
    clipped: &mut [u64],
) {
    // SAFETY: the caller's promise.
    unsafe { transform::transform::<vector::x86::Avx512>(engine, lanes, scratch, rows, clipped) }
}

struct Cpu {
    engine: Engine,
    transform: Transform,
    /// Lanes of the transform's vectors.
    lanes: usize,
    /// For each input the components of the samples of earlier blocks from `tail_first` on.
    tail: Vec<Vec<f32>>,
    tail_first: u64,
}

/// Samples of a block and those kept before it.
struct Joined<'a> {
    tail: &'a [Vec<f32>],
    tail_first: u64,
    /// In rows of time.
    block: RawSamples<'a>,
    bytes: &'a [u8],
    /// The block's first sample.
    start: u64,
}

impl Joined<'_> {
    /// Decodes an input's samples from `first` on to components; all of them exist.
    fn decode(&self, input: usize, first: u64, to: &mut [f32]) {
        let encoding = self.block.encoding();
        let parts = if encoding.is_complex() { 2 } else { 1 };
        let before = self.start.saturating_sub(first) as usize * parts;
        let (old, new) = to.split_at_mut(before.min(to.len()));
        if !old.is_empty() {
            let begin = (first - self.tail_first) as usize * parts;
            old.copy_from_slice(&self.tail[input][begin..][..old.len()]);
        }
        if !new.is_empty() {
            let bit = self.block.bit(input, (first.max(self.start) - self.start) as usize);
            let row = &self.bytes[bit / 8..];
            decode(row, encoding, bit % 8 / encoding.component_bits(), new);
        }
    }
}

impl Cpu {
    /// Makes the spectra `range` of a batch, `[input][spectrum][channel]`, and counts clipped samples.
    fn rows(
        &self,
        source: &Joined<'_>,
        batch: &Batch,
        range: std::ops::Range<usize>,
        rows: &mut [u8],
    ) -> Vec<u64> {
        let Shape { inputs, channels, hop, encoding, .. } = self.engine.shape;
        let residues = self.engine.shape.residues() as u64;
        let window = self.engine.shape.window();
        let parts = if self.engine.shape.raw.is_complex() { 2 } else { 1 };
        let row = channels * encoding.bytes();
        let chunk = |scratch: &mut Scratch, (index, rows): (usize, &mut [u8])| {
            let mut lanes = Vec::with_capacity(self.lanes);
            scratch.samples.clear();
            // Samples decoded last: their input, range, and where they begin.
            let mut decoded: Option<(usize, std::ops::Range<u64>, usize)> = None;
            for lane in index * self.lanes..index * self.lanes + rows.len() / row {
                let (input, spectrum) = (lane / range.len(), range.start + lane % range.len());
                let place = batch.place(input, spectrum);
                let number = batch.first + spectrum as u64;
                let turn = (u128::from(number) * hop as u128 % u128::from(residues)) as usize;
                let mut begin = 0;
                if place.first != MISSING {
                    let first = place.first as u64;
                    let end = first + window as u64;
                    let (from, at) = match &decoded {
                        // Samples of neighbours are decoded once.
                        Some((of, there, at)) if *of == input && there.contains(&first) => {
                            begin = at + (first - there.start) as usize * parts;
                            decoded = Some((input, there.start..there.end.max(end), *at));
                            (scratch.samples.len() - begin, scratch.samples.len())
                        }
                        _ => {
                            begin = scratch.samples.len();
                            decoded = Some((input, first..end, begin));
                            (0, begin)
                        }
                    };
                    let length = begin + window * parts;
                    if length > at {
                        scratch.samples.resize(length, 0.0);
                        let first = first + (from / parts) as u64;
                        source.decode(input, first, &mut scratch.samples[at..]);
                    }
                }
                lanes.push(Lane { input, place, turn, begin });
            }
            let mut clipped = [0; MAX_LANES];
            // SAFETY: the kernel was chosen for its instructions.
            unsafe { (self.transform)(&self.engine, &lanes, scratch, rows, &mut clipped) };
            for (lane, rows) in lanes.iter().zip(rows.chunks_exact_mut(row)) {
                if lane.place.first == MISSING {
                    rows.fill(encoding.zero());
                }
            }
            lanes.iter().zip(clipped).map(|(lane, clipped)| (lane.input, clipped)).collect()
        };
        let counts: Vec<Vec<(usize, u64)>> = rows
            .par_chunks_mut(self.lanes * row)
            .enumerate()
            .map_init(Scratch::default, chunk)
            .collect();
        let mut clipped = vec![0; inputs];
        counts.into_iter().flatten().for_each(|(input, count)| clipped[input] += count);
        clipped
    }

    /// Brings spectra `range` to their place in the output, of elements of `B` bytes.
    fn place<const B: usize>(
        &self,
        rows: &[u8],
        range: std::ops::Range<usize>,
        spectra: &mut Spectra,
    ) {
        /// Channels that are brought to their place at a time.
        const CHANNELS: usize = 32;
        let Shape { inputs, channels, .. } = self.engine.shape;
        let (times, made) = (spectra.times(), range.len());
        let rows = rows.as_chunks::<B>().0;
        let to = spectra.bytes.as_chunks_mut::<B>().0;
        match spectra.layout {
            Layout::Tcn => {
                let to = &mut to[range.start * channels * inputs..range.end * channels * inputs];
                to.par_chunks_mut(channels * inputs).enumerate().for_each(|(time, to)| {
                    for (index, to) in to.chunks_mut(CHANNELS * inputs).enumerate() {
                        for input in 0..inputs {
                            let from = (input * made + time) * channels + index * CHANNELS;
                            let from = &rows[from..][..to.len() / inputs];
                            for (to, from) in to[input..].iter_mut().step_by(inputs).zip(from) {
                                *to = *from;
                            }
                        }
                    }
                });
            }
            Layout::Cnt => {
                to.par_chunks_mut(CHANNELS * inputs * times).enumerate().for_each(|(index, to)| {
                    for input in 0..inputs {
                        for time in 0..made {
                            let from = (input * made + time) * channels + index * CHANNELS;
                            let from = &rows[from..][..to.len() / (inputs * times)];
                            let first = input * times + range.start + time;
                            let to = to[first..].iter_mut().step_by(inputs * times);
                            for (to, from) in to.zip(from) {
                                *to = *from;
                            }
                        }
                    }
                });
            }
        }
    }

    /// Keeps the samples from `keep` on.
    fn samples_from(&self, source: &Joined<'_>, keep: u64) -> Vec<Vec<f32>> {
        let parts = if self.engine.shape.raw.is_complex() { 2 } else { 1 };
        let end = source.start + source.block.len() as u64;
        let keep_row = |input| {
            let mut row = vec![0.0; (end - keep) as usize * parts];
            source.decode(input, keep, &mut row);
            row
        };
        (0..self.engine.shape.inputs).into_par_iter().map(keep_row).collect()
    }
}

impl Backend for Cpu {
    fn channelise(
        &mut self,
        block: &RawSamples<'_>,
        start: u64,
        batch: &Batch,
        spectra: &mut Spectra,
    ) -> Result<()> {
        let Memory::Host(bytes) = block.memory() else {
            return Err(Error::invalid("raw samples in a GPU's memory: expected host memory"));
        };
        let gathered;
        let source = |block, bytes| Joined {
            tail: &self.tail,
            tail_first: self.tail_first,
            block,
            bytes,
            start,
        };
        let source = match block.layout() {
            RawLayout::Nt => source(*block, bytes),
            RawLayout::Tn => {
                gathered = in_rows(block, bytes)?;
                let shape = [block.inputs(), block.len()];
                let pitch = block.encoding().bytes(block.len());
                let rows = RawSamples::strided(
                    &gathered[..],
                    block.encoding(),
                    RawLayout::Nt,
                    shape,
                    pitch,
                )?;
                source(rows, &gathered)
            }
        };
        let Shape { inputs, channels, encoding, .. } = self.engine.shape;
        let bytes = inputs * channels * encoding.bytes();
        // At least as many as keep all threads' lanes busy.
        let least = (self.lanes * rayon::current_num_threads()).div_ceil(inputs);
        let at_once = (ROWS_BYTES / bytes).max(least).next_multiple_of(self.lanes);
        let mut rows = host::zeros(bytes * at_once.min(batch.count))?;
        let mut first = 0;
        while first < batch.count {
            let range = first..(first + at_once).min(batch.count);
            let rows = &mut rows[..bytes * range.len()];
            let clipped = self.rows(&source, batch, range.clone(), rows);
            spectra.clipped.iter_mut().zip(clipped).for_each(|(sum, count)| *sum += count);
            match encoding.bytes() {
                1 => self.place::<1>(rows, range.clone(), spectra),
                2 => self.place::<2>(rows, range.clone(), spectra),
                4 => self.place::<4>(rows, range.clone(), spectra),
                _ => self.place::<8>(rows, range.clone(), spectra),
            }
            first = range.end;
        }
        let tail = self.samples_from(&source, batch.keep);
        (self.tail, self.tail_first) = (tail, batch.keep);
        Ok(())
    }

    fn set_gains(&mut self, gains: &[Complex<f32>]) -> Result<()> {
        self.engine.gains = pairs(gains);
        Ok(())
    }

    fn reset(&mut self) {
        self.tail.iter_mut().for_each(Vec::clear);
        self.tail_first = 0;
    }
}

/// Samples in the order of time, as rows of each input.
fn in_rows(block: &RawSamples<'_>, bytes: &[u8]) -> Result<Vec<u8>> {
    /// Times that are brought to all rows together.
    const TIMES: usize = 256;
    let size = block.encoding().bytes(1);
    let row = size * block.len();
    let mut rows = host::zeros(row * block.inputs())?;
    if row == 0 {
        return Ok(rows);
    }
    // Sixteen inputs a thread, which share lines of memory.
    rows.par_chunks_mut(16 * row).enumerate().for_each(|(group, rows)| {
        for begin in (0..block.len()).step_by(TIMES) {
            for (index, row) in rows.chunks_exact_mut(row).enumerate() {
                for time in begin..(begin + TIMES).min(block.len()) {
                    let from = block.bit(16 * group + index, time) / 8;
                    row[time * size..][..size].copy_from_slice(&bytes[from..from + size]);
                }
            }
        }
    });
    Ok(rows)
}
