//! Subchannels on the CPU.
//!
//! Lanes of a vector are inputs, so that the f32 operations of one are those that the contract
//! ([`corrust_gpu::abi::upchannelise`]) has, in its order. Some spectra of all channels and inputs are made at a time;
//! their samples are decoded once.

use std::ops::Range;

use corrust_gpu::abi::{
    channelise::{Complex as Pair, multiply},
    upchannelise::{INPUTS, beyond, merge, subchannel_at, twiddle},
};
use num_complex::Complex;
use rayon::prelude::*;

use super::{history::Batch, shape::Shape};
use crate::{
    channelise::cpu::{
        encode::{decode, encode},
        vector::{Portable, Vector},
    },
    device::host,
    error::Result,
    kernels::upchannelise::Kernel,
    layout::Layout,
    samples::{raw::RawEncoding, view::Samples},
};

/// Most spectra that are made at a time.
const SPECTRA: usize = 16;
/// Most lanes of a vector.
const MAX_LANES: usize = 16;

/// The filter bank on the CPU.
pub(super) struct Cpu {
    bank: Bank,
    make: Make,
    /// Samples of earlier times that the next spectra are made of, `[t][f][i]`.
    kept: Vec<u8>,
}

/// The filter bank's tables.
struct Bank {
    shape: Shape,
    filter: Vec<f32>,
    /// Factors of merges: entry `s + i` of the bin at position `i` of a column of span `s`.
    roots: Vec<[f32; 2]>,
    /// `[channel][subchannel]`, or none.
    gains: Vec<[f32; 2]>,
}

/// Samples of some spectra, those kept before the block's.
struct Joined<'a> {
    kept: &'a [u8],
    block: &'a [u8],
    /// Bytes of a time.
    pitch: usize,
    /// Words of the batch, from the spectra's first on.
    missing: &'a [u32],
}

impl Joined<'_> {
    /// Samples of a time, counted from the first that was kept, `[f][i]`.
    fn time(&self, time: usize) -> &[u8] {
        let kept = self.kept.len() / self.pitch;
        match time.checked_sub(kept) {
            None => &self.kept[time * self.pitch..][..self.pitch],
            Some(time) => &self.block[time * self.pitch..][..self.pitch],
        }
    }
}

/// Buffers of a thread.
#[derive(Default)]
struct Scratch {
    /// Samples of some inputs, `[time][re, im][lane]`.
    samples: Vec<f32>,
    /// Points of a spectrum, `[point][re, im][lane]`.
    points: Vec<f32>,
}

/// Makes spectra from the first on of the lanes of the inputs from one on, to `[spectrum][f][u][i]`; adds to the counts of clipped
/// samples.
type Make = unsafe fn(&Bank, &Joined<'_>, Range<usize>, &mut Scratch, &mut [u8], &mut [u64]);

impl Cpu {
    pub(super) fn new(
        shape: &Shape,
        filter: Vec<f32>,
        gains: &[Complex<f32>],
        kernel: Kernel,
    ) -> Result<(Kernel, Self)> {
        let candidates = [Kernel::CpuAvx512, Kernel::CpuAvx2, Kernel::CpuPortable];
        let (kernel, make) = kernel.on_cpu(&candidates, by)?;
        // Room for the samples that every stream keeps.
        drop(host::room::<u8>(shape.time_bytes().saturating_mul(shape.factor * shape.taps))?);
        let gains = gains.iter().map(|gain| [gain.re, gain.im]).collect();
        let bank = Bank { shape: *shape, filter, roots: roots(shape.factor as u32), gains };
        Ok((kernel, Self { bank, make, kept: Vec::new() }))
    }

    pub(super) fn reset(&mut self) {
        self.kept.clear();
    }

    /// The spectra of a batch, of a block's samples and those kept, into `to`; adds to the counts of clipped samples.
    pub(super) fn upchannelise(
        &mut self,
        block: &Samples<'_>,
        batch: &Batch,
        to: &mut [u8],
        clipped: &mut [u64],
    ) -> Result<()> {
        block.check_host()?;
        let shape = self.bank.shape;
        let block = block.missing(&[]);
        let gathered;
        let bytes = match block.plain(Layout::Tcn) {
            Some(bytes) => bytes,
            None => {
                gathered = block.gather(Layout::Tcn)?;
                &gathered
            }
        };
        let (pitch, spectrum) = (shape.time_bytes(), shape.spectrum_bytes());
        let (before, to) = to.split_at_mut(batch.before * spectrum);
        before.fill(shape.output.zero());
        let count = batch.count - batch.before;
        let missing = batch.words(&shape, batch.before..batch.count)?;
        let words = shape.channels * shape.inputs.div_ceil(INPUTS as usize);
        // Few at a time where there are few, so that every thread has some.
        let at_once = (count / (4 * rayon::current_num_threads())).clamp(1, SPECTRA);
        let make = |scratch: &mut Scratch, (index, to): (usize, &mut [u8])| {
            let first = index * at_once;
            let source = Joined {
                kept: &self.kept,
                block: bytes,
                pitch,
                missing: missing.get(first * words..).unwrap_or_default(),
            };
            let range = first..first + to.len() / spectrum;
            let mut clipped = vec![0; shape.inputs];
            // SAFETY: the kernel was chosen for its instructions.
            unsafe { (self.make)(&self.bank, &source, range, scratch, to, &mut clipped) };
            clipped
        };
        let counts: Vec<Vec<u64>> = to
            .par_chunks_mut(at_once * spectrum)
            .enumerate()
            .map_init(Scratch::default, make)
            .collect();
        for counts in counts {
            clipped.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        self.keep_history(bytes, batch)
    }

    /// Keeps what the next spectra are made of.
    fn keep_history(&mut self, block: &[u8], batch: &Batch) -> Result<()> {
        let drop = batch.drop * self.bank.shape.time_bytes();
        let old = self.kept.get(drop..).unwrap_or_default();
        let new = &block[drop.saturating_sub(self.kept.len())..];
        let mut kept = host::room(old.len() + new.len())?;
        kept.extend_from_slice(old);
        kept.extend_from_slice(new);
        self.kept = kept;
        Ok(())
    }
}

/// Factors of merges of `factor` points.
pub(super) fn roots(factor: u32) -> Vec<[f32; 2]> {
    let mut roots = vec![[0.0; 2]; factor as usize];
    let spans = (0..factor.trailing_zeros()).map(|level| 1 << level);
    for (span, position) in spans.flat_map(|span| (0..span).map(move |position| (span, position))) {
        roots[(span + position) as usize] = twiddle(span, position);
    }
    roots
}

/// Function by which a kernel makes spectra, if this CPU has the instructions.
fn by(kernel: Kernel) -> Option<Make> {
    match kernel {
        Kernel::CpuPortable => Some(spectra::<Portable>),
        #[cfg(target_arch = "x86_64")]
        Kernel::CpuAvx2 => {
            (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(avx2)
        }
        #[cfg(target_arch = "x86_64")]
        Kernel::CpuAvx512 => (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl"))
        .then_some(avx512),
        _ => None,
    }
}

/// [`spectra`] by AVX2.
///
/// # Safety
/// The CPU has the instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(
    bank: &Bank,
    source: &Joined<'_>,
    range: Range<usize>,
    scratch: &mut Scratch,
    to: &mut [u8],
    clipped: &mut [u64],
) {
    use crate::channelise::cpu::vector::x86::Avx2;
    // SAFETY: the caller's promise.
    unsafe { spectra::<Avx2>(bank, source, range, scratch, to, clipped) }
}

/// [`spectra`] by AVX-512.
///
/// # Safety
/// The CPU has the instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
unsafe fn avx512(
    bank: &Bank,
    source: &Joined<'_>,
    range: Range<usize>,
    scratch: &mut Scratch,
    to: &mut [u8],
    clipped: &mut [u64],
) {
    use crate::channelise::cpu::vector::x86::Avx512;
    // SAFETY: the caller's promise.
    unsafe { spectra::<Avx512>(bank, source, range, scratch, to, clipped) }
}

/// See [`Make`].
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn spectra<V: Vector>(
    bank: &Bank,
    source: &Joined<'_>,
    range: Range<usize>,
    scratch: &mut Scratch,
    to: &mut [u8],
    clipped: &mut [u64],
) {
    let Shape { inputs, channels, factor, taps, output, .. } = bank.shape;
    let times = (range.len() + taps - 1) * factor;
    let Scratch { samples, points } = scratch;
    samples.resize(times * 2 * V::LANES, 0.0);
    points.resize(factor * 2 * V::LANES, 0.0);
    let spectrum = to.len() / range.len();
    let words = inputs.div_ceil(INPUTS as usize);
    for channel in 0..channels {
        for input in (0..inputs).step_by(V::LANES) {
            let lanes = V::LANES.min(inputs - input);
            let from = range.start * factor;
            bank.decode(source, from..from + times, (channel, input, lanes), V::LANES, samples);
            for (index, to) in to.chunks_exact_mut(spectrum).enumerate() {
                let samples = &samples[index * factor * 2 * V::LANES..];
                // SAFETY: the caller's promise; buffers of these sizes.
                unsafe { bank.bins::<V>(samples, channel, points) };
                let word = (index * channels + channel) * words + input / INPUTS as usize;
                let missing = source.missing.get(word).map_or(0, |word| word >> (input % 32));
                for (position, point) in points.chunks_exact(2 * V::LANES).enumerate() {
                    let subchannel = subchannel_at(position as u32, factor as u32) as usize;
                    let place = (channel * factor + subchannel) * inputs + input;
                    let to = &mut to[place * output.bytes()..][..lanes * output.bytes()];
                    bank.store(point, missing, to, &mut clipped[input..input + lanes]);
                }
            }
        }
    }
}

impl Bank {
    /// Decodes `count` inputs from `input` on, at `times`, to `[time][re, im][lane]` of `lanes` lanes.
    #[inline(always)]
    fn decode(
        &self,
        source: &Joined<'_>,
        times: Range<usize>,
        (channel, input, count): (usize, usize, usize),
        lanes: usize,
        to: &mut [f32],
    ) {
        let Shape { inputs, encoding, .. } = self.shape;
        let first = (channel * inputs + input) * encoding.bytes();
        for (time, to) in times.zip(to.chunks_exact_mut(2 * lanes)) {
            let bytes = &source.time(time)[first..][..count * encoding.bytes()];
            let mut parts = [0.0; 2 * MAX_LANES];
            decode(bytes, RawEncoding::from(encoding), 0, &mut parts[..2 * count]);
            let (re, im) = to.split_at_mut(lanes);
            for ((re, im), [x, y]) in re.iter_mut().zip(im).zip(parts.as_chunks::<2>().0) {
                (*re, *im) = (*x, *y);
            }
        }
    }

    /// Bins of a spectrum, in the order of the transform, with their gains.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`; there are samples of all taps, and as many points as subchannels.
    #[inline(always)]
    unsafe fn bins<V: Vector>(&self, samples: &[f32], channel: usize, points: &mut [f32]) {
        let Shape { factor, taps, .. } = self.shape;
        let size = 2 * V::LANES;
        // SAFETY: the caller's promise.
        unsafe {
            for (residue, point) in points.chunks_exact_mut(size).enumerate() {
                let sample = |tap: usize| load::<V>(&samples[(tap * factor + residue) * size..]);
                let weight = |tap: usize| V::splat(self.filter[tap * factor + residue]);
                let mut sum = sample(0).map(|part| weight(0).mul(part));
                for tap in 1..taps {
                    let (w, [re, im]) = (weight(tap), sample(tap));
                    sum = [w.fma(re, sum[0]), w.fma(im, sum[1])];
                }
                store(sum, point);
            }
            let mut span = 1;
            while span < factor {
                // Points from one of a pair to the other.
                let half = factor / (2 * span);
                for position in 0..span {
                    let root = self.roots[span + position].map(V::splat);
                    for low in 2 * half * position..2 * half * position + half {
                        let (a, b) = (low * size, (low + half) * size);
                        let [x, y] =
                            merge(load::<V>(&points[a..]), load(&points[b..]), span as u32, root);
                        store(x, &mut points[a..]);
                        store(y, &mut points[b..]);
                    }
                }
                span *= 2;
            }
            for (position, point) in points.chunks_exact_mut(size).enumerate() {
                let subchannel = subchannel_at(position as u32, factor as u32) as usize;
                if let Some(gain) = self.gains.get(channel * factor + subchannel) {
                    store(multiply(load::<V>(point), gain.map(V::splat)), point);
                }
            }
        }
    }

    /// Stores a point of some inputs, zero where the mask says that it is missing; adds to the counts of clipped samples.
    #[inline(always)]
    fn store(&self, point: &[f32], missing: u32, to: &mut [u8], clipped: &mut [u64]) {
        let (re, im) = point.split_at(point.len() / 2);
        let mut parts = [0.0; 2 * MAX_LANES];
        for (lane, (parts, (re, im))) in
            parts.as_chunks_mut::<2>().0.iter_mut().zip(re.iter().zip(im)).enumerate()
        {
            *parts = if missing >> lane & 1 == 0 { [*re, *im] } else { [0.0; 2] };
        }
        let parts = &parts[..2 * clipped.len()];
        encode(parts, self.shape.output, to);
        if let Some(limit) = self.shape.output.limit() {
            let limit = beyond(limit as f32);
            for (count, [re, im]) in clipped.iter_mut().zip(parts.as_chunks::<2>().0) {
                *count += u64::from((re.abs() >= limit) | (im.abs() >= limit));
            }
        }
    }
}

/// The point that begins here.
///
/// # Safety
/// There are as many numbers, and the CPU has the instructions of `V`.
#[inline(always)]
unsafe fn load<V: Vector>(from: &[f32]) -> Pair<V> {
    // SAFETY: the caller's promise.
    unsafe { [V::load(&from[..V::LANES]), V::load(&from[V::LANES..2 * V::LANES])] }
}

/// See [`load`].
///
/// # Safety
/// As for [`load`].
#[inline(always)]
unsafe fn store<V: Vector>([re, im]: Pair<V>, to: &mut [f32]) {
    let (first, second) = to[..2 * V::LANES].split_at_mut(V::LANES);
    // SAFETY: the caller's promise.
    unsafe {
        re.store(first);
        im.store(second);
    }
}
