//! Correlation on the CPU: a matrix product on small tiles held in registers.
//!
//! With x as rows and columns of a matrix product over time, `V = X X^H`, lower triangle only.
//! Complex products are made of real ones by giving every row twice, as `a = (re, im)` and as
//! `a' = -i a = (im, -re)`, against columns `b = (re, im)`:
//!
//! ```text
//! re V = sum_t a . b      im V = sum_t a' . b
//! ```
//!
//! One algorithm is written once over [`Dot`], a multiply-add of vectors, which every
//! instruction set implements for the arithmetic it does best ([`Bytes`](format::Bytes),
//! [`Halves`](format::Halves), [`Floats`](format::Floats)). The order of loops, from the outside:
//!
//! - channels, in parallel, in groups if they have few inputs; strips of [`STRIP`] words, each
//!   unpacked once into column panels;
//! - blocks of [`BLOCK`] inputs as rows, in parallel: their row panels stay in the L2 cache;
//! - column panels; runs of [`RUN`](sums::RUN) words: that much of a column panel stays in the L1 cache;
//! - row panels of the block, and for each the tile: its sums live in registers over the run, then
//!   join the 64-bit totals.
//!
//! The bound: the multiply-adds, for more than about a hundred inputs; unpacking, for fewer.
//!
//! Integer sums are exact: see [`format::Bytes`] for the 32-bit sums of a run. `cf16` sums are kept
//! in f32 over a run of at most `RUN` products and in f64 beyond, and rounded to f32 when dumped.
//! The components of a visibility `V` are off by at most
//! `RUN * 2^-24 * sum_t (|re_i| + |im_i|) (|re_j| + |im_j|) + 2^-24 |V|`, whatever the length of
//! the integration (below 2^29 runs).

pub(crate) mod bits;
pub(crate) mod decode;
pub(crate) mod dot;
pub(crate) mod format;
pub(crate) mod panel;
pub(crate) mod sums;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

use std::{cell::Cell, marker::PhantomData, ops::Range};

use ndarray::Array2;
use num_complex::Complex;
use rayon::prelude::*;

use self::{
    decode::{Cf16, Ci4, Ci4Offset, Ci8, Decode},
    dot::{Dot, Portable, ROWS},
    format::{Floats, Format, Halves},
    panel::{ColumnPanel, Delivered, PanelShape, RowBlock, Sample},
    sums::{Sums, zeros},
};
use super::delay::DelayLine;
use crate::{
    correlate::{
        backend::{Backend, Setup},
        baselines::{baseline, baselines},
        gates::Gates,
        visibilities::Visibilities,
    },
    error::Result,
    kernels::correlate::Kernel,
    sample::Encoding,
    samples::{gather::gather_lists, shape::Shape, view::Samples},
};

/// Bytes of samples that are brought together at once where they cannot be read as they lie.
const PIECE_BYTES: usize = 64 << 20;

/// Words of a column panel between two unpackings.
const STRIP: usize = 1024;

/// Inputs whose row panels are used together.
const BLOCK: usize = 96;

/// Signals to unpack together: channels of fewer inputs are unpacked in groups, so that what lies
/// together in memory is read together.
const GROUP: usize = 64;

/// Delays and gates samples for what multiplies them.
struct Selecting {
    shape: Shape,
    delays: Option<DelayLine>,
    sums: Box<dyn Sums>,
}

impl Backend for Selecting {
    fn accumulate(&mut self, samples: &Samples<'_>, gates: Option<Gates<'_>>) -> Result<()> {
        samples.check_host()?;
        let Shape { layout, .. } = self.shape;
        let times = samples.extents().times;
        if self.delays.is_none()
            && gates.is_none()
            && let Some(plain) = samples.plain(layout)
        {
            self.sums.accumulate(0, plain, times);
            return Ok(());
        }
        // Whole strips of times, where there are so many: sums are gone through once for each.
        let most = (PIECE_BYTES / self.shape.bytes_per_time()).max(1);
        let most = if most > 2 * STRIP { most / (2 * STRIP) * (2 * STRIP) } else { most };
        for first in (0..times).step_by(most) {
            let part = first..times.min(first + most);
            let piece = samples.times(part.clone());
            let delayed;
            let piece = match &mut self.delays {
                Some(delays) => {
                    delayed = delays.apply(&piece.gather(layout)?);
                    let Shape { channels, inputs, encoding, .. } = self.shape;
                    Samples::new(&delayed[..], inputs, channels, encoding, layout)?
                }
                None => piece,
            };
            let Some(numbers) = gates else {
                self.sums.accumulate(0, &piece.gather(layout)?, part.len());
                continue;
            };
            let numbers = numbers.times(part.clone());
            let lists = numbers.lists(self.sums.gates(), self.shape.channels);
            for (gate, lists) in lists.iter().enumerate().filter(|(_, lists)| lists.longest() > 0) {
                let gathered = gather_lists(&piece, layout, &lists.times)?;
                self.sums.accumulate(gate, &gathered, lists.longest());
            }
        }
        Ok(())
    }

    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities) -> Result<()> {
        self.sums.dump_into(gate, visibilities);
        Ok(())
    }

    fn reset(&mut self) {
        self.sums.reset();
    }
}

/// The visibilities of integrations in the making.
struct Cpu<D: Dot, E> {
    shape: Shape,
    /// For each gate, `[channel][baseline]`, and whether they may be other than zero.
    totals: Vec<(Array2<Complex<Total<D>>>, bool)>,
    encoding: PhantomData<E>,
}

/// Type of the sums of whole integrations.
type Total<D> = <<D as Dot>::Format as Format>::Total;

/// The CPU backend for a plan, with the instructions that its kernel names or the best there are.
pub(super) fn backend(setup: &Setup<'_>) -> Result<(Kernel, Box<dyn Backend>)> {
    /// Boxes sums for the encoding of a plan, with the arithmetic for integers or for floats.
    fn boxed<I, F>(setup: &Setup<'_>) -> Result<Box<dyn Sums>>
    where
        I: Dot<Format: Format<Sample = [i8; 2]>>,
        F: Dot<Format: Format<Sample = [f32; 2]>>,
    {
        Ok(match setup.shape.encoding {
            Encoding::Ci8 => Box::new(Cpu::<I, Ci8>::new(setup)?),
            Encoding::Ci4 => Box::new(Cpu::<I, Ci4>::new(setup)?),
            Encoding::Ci4Offset => Box::new(Cpu::<I, Ci4Offset>::new(setup)?),
            Encoding::Cf16 => Box::new(Cpu::<F, Cf16>::new(setup)?),
            Encoding::B1 | Encoding::B2 => Box::new(bits::Ones::new(setup)?),
        })
    }

    let there = |kernel| has_instructions(kernel).then_some(());
    let (kernel, ()) = setup.kernel.on_cpu(&KERNELS, there)?;
    let &Setup { shape, shifts, .. } = setup;
    let setup = &Setup { kernel, ..*setup };
    let sums = match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::CpuAvx512Vnni => boxed::<x86::Avx512Vnni, x86::Avx512<Floats>>(setup)?,
        #[cfg(target_arch = "x86_64")]
        Kernel::CpuAvx512 => boxed::<x86::Avx512<Halves>, x86::Avx512<Floats>>(setup)?,
        #[cfg(target_arch = "x86_64")]
        Kernel::CpuAvxVnni => boxed::<x86::AvxVnni, x86::Avx2<Floats>>(setup)?,
        #[cfg(target_arch = "x86_64")]
        Kernel::CpuAvx2 => boxed::<x86::Avx2<Halves>, x86::Avx2<Floats>>(setup)?,
        _ => boxed::<Portable<Halves>, Portable<Floats>>(setup)?,
    };
    let shifted = shifts.iter().any(|&shift| shift > 0);
    let delays = shifted.then(|| DelayLine::new(shape, shifts)).transpose()?;
    Ok((kernel, Box::new(Selecting { shape: shape.of_planes(), delays, sums })))
}

/// The kernels for CPUs, the quickest first.
const KERNELS: [Kernel; 5] = [
    Kernel::CpuAvx512Vnni,
    Kernel::CpuAvx512,
    Kernel::CpuAvxVnni,
    Kernel::CpuAvx2,
    Kernel::CpuPortable,
];

/// Whether this CPU has the instructions of a kernel.
fn has_instructions(kernel: Kernel) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        match kernel {
            Kernel::CpuAvx512Vnni => avx512 && is_x86_feature_detected!("avx512vnni"),
            Kernel::CpuAvx512 => avx512,
            Kernel::CpuAvxVnni => avx2 && is_x86_feature_detected!("avxvnni"),
            Kernel::CpuAvx2 => avx2,
            _ => true,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        kernel == Kernel::CpuPortable
    }
}

impl<D: Dot, E> Cpu<D, E> {
    fn new(setup: &Setup<'_>) -> Result<Self> {
        Ok(Self {
            shape: *setup.shape,
            totals: (0..setup.gates)
                .map(|_| Ok((zeros(setup.shape)?, false)))
                .collect::<Result<_>>()?,
            encoding: PhantomData,
        })
    }
}

impl<D: Dot, E: Decode<Sample<D>>> Sums for Cpu<D, E> {
    fn accumulate(&mut self, gate: usize, samples: &[u8], times: usize) {
        let samples = Delivered::new(&self.shape, samples, times);
        let inputs = self.shape.inputs;
        let group = GROUP / inputs.min(GROUP);
        let (totals, used) = &mut self.totals[gate];
        *used = true;
        totals
            .as_slice_mut()
            .expect("totals lie in one piece")
            .par_chunks_mut(group * baselines(inputs))
            .enumerate()
            .for_each(|(index, totals)| {
                let strip = STRIP / D::Format::WORDS * 2;
                for start in (0..times).step_by(strip) {
                    let times = start..times.min(start + strip);
                    accumulate_strip::<D, E>(&samples, inputs, index * group, times, totals);
                }
            });
    }

    fn gates(&self) -> usize {
        self.totals.len()
    }

    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities) {
        let (totals, used) = &mut self.totals[gate];
        D::Format::dump(totals, visibilities);
        *used = true;
        self.reset_gate(gate);
    }

    fn reset(&mut self) {
        (0..self.totals.len()).for_each(|gate| self.reset_gate(gate));
    }
}

impl<D: Dot, E> Cpu<D, E> {
    fn reset_gate(&mut self, gate: usize) {
        let (totals, used) = &mut self.totals[gate];
        if std::mem::take(used) {
            totals.fill(Complex::default());
        }
    }
}

/// Adds the products of the times `strip` to the totals of a group of channels from `channel` on.
fn accumulate_strip<D: Dot, E: Decode<Sample<D>>>(
    samples: &Delivered<'_, Sample<D>, E>,
    inputs: usize,
    channel: usize,
    strip: Range<usize>,
    totals: &mut [Complex<Total<D>>],
) {
    thread_local! {
        static COLUMN_PANELS: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
        static ROW_PANELS: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
    }
    let channels = totals.len() / baselines(inputs);
    let signals = channel * inputs..(channel + channels) * inputs;
    // Several channels lie in one panel, where the columns that a tile reads beyond its channel
    // must exist; one channel lies in as few panels as hold it, all as wide as the widest.
    let vectors = inputs.div_ceil(D::LANES);
    let width = if channels > 1 {
        ((channels - 1) * inputs + vectors * D::LANES).next_multiple_of(D::LANES)
    } else {
        vectors.div_ceil(vectors.div_ceil(D::VECTORS)) * D::LANES
    };
    let words = strip.len().div_ceil(2) * D::Format::WORDS;
    let shape = PanelShape { words, width };

    with_scratch(&COLUMN_PANELS, signals.len().div_ceil(width) * shape.len(), |columns| {
        columns.par_chunks_exact_mut(shape.len()).enumerate().for_each(|(index, panel)| {
            let first = signals.start + index * width;
            let signals = first..signals.end.min(first + width);
            let times = strip.clone();
            let panel = ColumnPanel::<D, E> { samples, signals, times, shape, panel };
            // SAFETY: a backend is only made for instructions that the CPU has.
            unsafe { D::run(panel) };
        });
        let columns = &*columns;

        let mut blocks = Vec::with_capacity(channels * inputs.div_ceil(BLOCK));
        for (channel, mut rest) in totals.chunks_exact_mut(baselines(inputs)).enumerate() {
            for first in (0..inputs).step_by(BLOCK) {
                let last = inputs.min(first + BLOCK);
                let (totals, after) = rest.split_at_mut(baseline(last, 0) - baseline(first, 0));
                blocks.push((channel * inputs, first..last, totals));
                rest = after;
            }
        }
        blocks.into_par_iter().with_min_len(channels).for_each(|(first, inputs, totals)| {
            let rows = inputs.len().div_ceil(ROWS) * 2 * ROWS * words;
            with_scratch(&ROW_PANELS, rows, |rows| {
                let block = RowBlock::<D> { shape, columns, first, inputs, rows, totals };
                // SAFETY: a backend is only made for instructions that the CPU has.
                unsafe { D::run(block) };
            });
        });
    });
}

/// Calls `work` with `length` words of the thread's scratch memory, whatever they hold.
fn with_scratch(
    scratch: &'static std::thread::LocalKey<Cell<Vec<u32>>>,
    length: usize,
    work: impl FnOnce(&mut [u32]),
) {
    // Taken, not borrowed: while `work` waits for others, rayon may start it again on this thread.
    let mut words = scratch.take();
    if words.len() < length {
        words.resize(length, 0);
    }
    work(&mut words[..length]);
    scratch.set(words);
}

#[cfg(test)]
mod tests {
    use super::sums::RUN;

    /// Users read the bound of `cf16` sums in the docs.
    #[test]
    fn the_documented_bound_is_that_of_a_run() {
        let docs = include_str!("../../../../docs/layouts.md");
        assert!(docs.contains(&format!("`{RUN} u S + u abs(V)`")));
    }
}
