//! Beamforming on the CPU.
//!
//! Lanes of a vector are beams. A multiply-add takes pairs of `i16`: the weights come as the pairs
//! `(re, -im)`, whose product with a voltage `(re, im)` is the real part of the beam's, and
//! `(im, re)`, which give the imaginary part. -(-128) is no matter in 16 bits, and the sums fit in 32
//! bits for every number of dishes that a plan takes. Weights and voltages of halves are multiplied and summed
//! as f32, dish after dish.
//!
//! Bound by the multiply-adds: four real ones for each weight and time.

use ndarray::Axis;
use rayon::prelude::*;

use crate::{
    beamform::{
        backend::Backend,
        beams::Beams,
        encode,
        rounding::{Rounding, part, unpack},
        shape::Shape,
    },
    device::host,
    error::{Error, Result},
    kernels::beamform::Kernel,
    layout::Layout,
    sample::Encoding,
    samples::{gather::Gather, view::Samples},
};

/// Beams in a group: the lanes of a vector.
const LANES: usize = 16;

/// Times that share the weights in one pass over the dishes.
const TILE_TIMES: usize = 4;

/// Times of one task.
const BLOCK_TIMES: usize = 64;

/// An integer voltage: the pair (real, imaginary).
type Voltage = [i16; 2];

/// Weights of one dish in a group of beams.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Column {
    /// `(re, -im)`.
    real: [[i16; 2]; LANES],
    /// `(im, re)`.
    imaginary: [[i16; 2]; LANES],
}

const ZERO: Column = Column { real: [[0; 2]; LANES], imaginary: [[0; 2]; LANES] };

/// Weights of one dish in a group of beams, of halves: real parts, imaginary parts.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct FloatColumn([[f32; LANES]; 2]);

/// Sums of a group of beams.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Sums<T = i32> {
    real: [T; LANES],
    imaginary: [T; LANES],
}

/// `sum_d A E` of a group of beams for [`TILE_TIMES`] time samples; `voltages[t]` holds the voltages of one.
type Tile = fn(&[Column], [&[Voltage]; TILE_TIMES]) -> [Sums; TILE_TIMES];

/// The CPU backend for a shape, with the instructions that `kernel` names or the best there are.
pub(super) fn backend(
    shape: &Shape,
    rounding: Rounding,
    kernel: Kernel,
) -> Result<(Kernel, Box<dyn Backend>)> {
    let mut candidates = &[Kernel::CpuAvx512Vnni, Kernel::CpuAvx2, Kernel::CpuPortable][..];
    if shape.encoding == Encoding::Cf16 {
        if matches!(kernel, Kernel::CpuAvx512Vnni | Kernel::CpuAvx2) {
            return Err(Error::invalid(format!(
                "kernel {kernel} with voltages of cf16: expected kernel auto or cpu-portable"
            )));
        }
        candidates = &[Kernel::CpuPortable];
    }
    let (kernel, tile) = kernel.on_cpu(candidates, tile)?;
    let cpu = Cpu {
        shape: *shape,
        rounding,
        tile,
        columns: Vec::new(),
        float_columns: Vec::new(),
        shifts: host::filled(rounding.first_shift(), shape.shifts())?,
    };
    Ok((kernel, Box::new(cpu)))
}

/// The tile of a kernel, if this CPU has the instructions.
fn tile(kernel: Kernel) -> Option<Tile> {
    match kernel {
        Kernel::CpuPortable => Some(portable_tile),
        #[cfg(target_arch = "x86_64")]
        Kernel::CpuAvx2 => is_x86_feature_detected!("avx2").then_some(x86::avx2_tile),
        #[cfg(target_arch = "x86_64")]
        Kernel::CpuAvx512Vnni => (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vnni"))
        .then_some(x86::avx512_vnni_tile),
        _ => None,
    }
}

struct Cpu {
    shape: Shape,
    rounding: Rounding,
    tile: Tile,
    /// `[F P][group][D]`.
    columns: Vec<Column>,
    /// The same, of `cf16` weights.
    float_columns: Vec<FloatColumn>,
    /// `[F P][B]`.
    shifts: Vec<u32>,
}

/// Results of one task: the beams of one channel and polarisation over a block of time samples.
struct Block {
    stream: usize,
    first_time: usize,
    times: usize,
    /// Bytes of samples `[B][times]`.
    samples: Vec<u8>,
    /// `[B]`.
    clipped: Vec<u64>,
    /// `[times]`, if asked for.
    incoherent: Vec<u32>,
}

impl Cpu {
    fn groups(&self) -> usize {
        self.shape.beams.div_ceil(LANES)
    }

    /// Beamforms `times` times from `first_time` on of one channel and polarisation.
    fn block(
        &self,
        voltages: &Samples<'_>,
        stream: usize,
        first_time: usize,
        times: usize,
        incoherent: bool,
    ) -> Block {
        let part = voltages.channels(stream..stream + 1).times(first_time..first_time + times);
        let mut bytes = vec![0; times * self.shape.row_bytes()];
        Gather::new(&part, Layout::Tcn, None).fill(0, &mut bytes);
        let mut block = Block {
            stream,
            first_time,
            times,
            samples: vec![0; self.shape.beams * times * self.shape.output.bytes()],
            clipped: vec![0; self.shape.beams],
            incoherent: Vec::new(),
        };
        if self.shape.encoding == Encoding::Cf16 {
            self.floats(&bytes, &mut block);
        } else {
            self.integers(&bytes, &mut block, incoherent);
        }
        block
    }

    /// The beams of a block of integer voltages.
    fn integers(&self, bytes: &[u8], block: &mut Block, incoherent: bool) {
        let voltages: Vec<Voltage> = match self.shape.encoding {
            Encoding::Ci8 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|pair: &[u8; 2]| pair.map(|b| (b as i8).into()))
                .collect(),
            _ => bytes.iter().map(|&byte| unpack(byte).map(i16::from)).collect(),
        };
        if incoherent {
            let square = |part: i16| i32::from(part) * i32::from(part);
            let power = |row: &[Voltage]| {
                row.iter().map(|&[re, im]| (square(re) + square(im)) as u32).sum()
            };
            block.incoherent = voltages.chunks_exact(self.shape.dishes).map(power).collect();
        }
        let Self { rounding, tile, .. } = *self;
        let output = self.shape.output;
        let first_shift = rounding.first_shift();
        let of_parts = |columns: &[Column], rows: [&[Voltage]; TILE_TIMES]| match rounding {
            Rounding::Partial(dishes) => partial_sums(tile, columns, rows, dishes, first_shift),
            _ => tile(columns, rows),
        };
        self.groups_of(block, &self.columns, &voltages, of_parts, |sum, shift, to| {
            encode::integers(sum, shift - first_shift, rounding, output, to)
        });
    }

    /// The beams of a block of halves.
    fn floats(&self, bytes: &[u8], block: &mut Block) {
        let halves = bytes.as_chunks().0.iter();
        let voltages: Vec<[f32; 2]> = halves.map(encode::half_pair).collect();
        let Self { rounding, .. } = *self;
        let output = self.shape.output;
        self.groups_of(block, &self.float_columns, &voltages, float_tile, |sum, shift, to| {
            encode::floats(sum, shift, rounding, output, to)
        });
    }

    /// The beams of `voltages`, `[times][D]`: `tile` gives the sums of a group of beams, `encode` writes a
    /// sample and tells whether it was clipped.
    fn groups_of<C, V, S: Copy>(
        &self,
        block: &mut Block,
        columns: &[C],
        voltages: &[V],
        tile: impl Fn(&[C], [&[V]; TILE_TIMES]) -> [Sums<S>; TILE_TIMES],
        encode: impl Fn([S; 2], u32, &mut [u8]) -> bool,
    ) {
        let Shape { dishes, beams, output, .. } = self.shape;
        let Block { stream, times, .. } = *block;
        let bytes = output.bytes();
        for group in 0..self.groups() {
            let columns = &columns[(stream * self.groups() + group) * dishes..][..dishes];
            for time in (0..times).step_by(TILE_TIMES) {
                // Rows beyond the block repeat its last time sample and are dropped.
                let rows = std::array::from_fn(|t| {
                    &voltages[(time + t).min(times - 1) * dishes..][..dishes]
                });
                let sums = tile(columns, rows);
                for (time, sums) in (time..times).zip(&sums) {
                    for (beam, lane) in (group * LANES..beams).zip(0..LANES) {
                        let shift = self.shifts[stream * beams + beam];
                        let sum = [sums.real[lane], sums.imaginary[lane]];
                        let to = &mut block.samples[(beam * times + time) * bytes..][..bytes];
                        block.clipped[beam] += u64::from(encode(sum, shift, to));
                    }
                }
            }
        }
    }

    /// Weights `[F][P][B][D]` by groups of beams: `set` sets a lane of a column.
    fn columns<W: Sync, C: Copy + Send>(
        &self,
        weights: &[W],
        zero: C,
        set: impl Fn(&mut C, usize, &W) + Sync,
    ) -> Vec<C> {
        let Shape { dishes, beams, .. } = self.shape;
        let groups = self.groups();
        let mut columns = vec![zero; self.shape.streams() * groups * dishes];
        columns.par_chunks_exact_mut(dishes).enumerate().for_each(|(index, columns)| {
            let (stream, group) = (index / groups, index % groups);
            for (beam, lane) in (group * LANES..beams).zip(0..LANES) {
                let row = &weights[(stream * beams + beam) * dishes..][..dishes];
                for (column, weight) in columns.iter_mut().zip(row) {
                    set(column, lane, weight);
                }
            }
        });
        columns
    }
}

impl Backend for Cpu {
    fn set_weights(&mut self, weights: &[u8]) -> Result<()> {
        if self.shape.encoding == Encoding::Cf16 {
            let weights: Vec<[f32; 2]> =
                weights.as_chunks().0.iter().map(encode::half_pair).collect();
            let zero = FloatColumn([[0.0; LANES]; 2]);
            self.float_columns = self.columns(&weights, zero, |column, lane, weight| {
                for (lanes, part) in column.0.iter_mut().zip(weight) {
                    lanes[lane] = *part;
                }
            });
        } else {
            let weights: &[[i8; 2]] = bytemuck::cast_slice(weights);
            self.columns = self.columns(weights, ZERO, |column, lane, weight| {
                let [re, im] = weight.map(i16::from);
                column.real[lane] = [re, -im];
                column.imaginary[lane] = [im, re];
            });
        }
        Ok(())
    }

    fn set_shifts(&mut self, shifts: &[u32]) -> Result<()> {
        self.shifts.copy_from_slice(shifts);
        Ok(())
    }

    fn beamform(&mut self, voltages: &Samples<'_>, beams: &mut Beams) -> Result<()> {
        voltages.check_host()?;
        let times = beams.times();
        let streams = self.shape.streams();
        let tasks = times.div_ceil(BLOCK_TIMES) * streams;
        let incoherent = beams.incoherent.is_some();
        let blocks: Vec<Block> = (0..tasks)
            .into_par_iter()
            .map(|task| {
                let first = task / streams * BLOCK_TIMES;
                let count = BLOCK_TIMES.min(times - first);
                self.block(voltages, task % streams, first, count, incoherent)
            })
            .collect();

        let rows = beams.samples.as_slice_mut().expect("a fresh array is contiguous");
        let bytes = self.shape.output.bytes();
        rows.par_chunks_exact_mut(streams * times * bytes).enumerate().for_each(|(beam, rows)| {
            for block in &blocks {
                let (first, size) = (block.stream * times + block.first_time, block.times * bytes);
                rows[first * bytes..][..size]
                    .copy_from_slice(&block.samples[beam * size..][..size]);
            }
        });
        let mut clipped: Vec<_> = beams.clipped.lanes_mut(Axis(2)).into_iter().collect();
        for block in &blocks {
            for (total, count) in clipped[block.stream].iter_mut().zip(&block.clipped) {
                *total += count;
            }
        }
        if let Some(incoherent) = &mut beams.incoherent {
            let rows = incoherent.as_slice_mut().expect("a fresh array is contiguous");
            for block in &blocks {
                rows[block.stream * times + block.first_time..][..block.times]
                    .copy_from_slice(&block.incoherent);
            }
        }
        Ok(())
    }
}

/// Sums of partial sums over `dishes` dishes each, which are shifted and saturated to 16 bits before.
fn partial_sums(
    tile: Tile,
    columns: &[Column],
    rows: [&[Voltage]; TILE_TIMES],
    dishes: usize,
    shift: u32,
) -> [Sums; TILE_TIMES] {
    let mut all = [Sums::default(); TILE_TIMES];
    for (group, columns) in columns.chunks(dishes).enumerate() {
        let sums = tile(columns, rows.map(|row| &row[group * dishes..][..columns.len()]));
        for (all, sums) in all.iter_mut().zip(sums) {
            for lane in 0..LANES {
                all.real[lane] += part(sums.real[lane], shift);
                all.imaginary[lane] += part(sums.imaginary[lane], shift);
            }
        }
    }
    all
}

/// [`Tile`] in plain Rust.
fn portable_tile(columns: &[Column], voltages: [&[Voltage]; TILE_TIMES]) -> [Sums; TILE_TIMES] {
    let mut sums = [Sums::default(); TILE_TIMES];
    for (dish, column) in columns.iter().enumerate() {
        for (sums, voltages) in sums.iter_mut().zip(voltages) {
            let voltage = voltages[dish].map(i32::from);
            let product = |weight: [i16; 2]| {
                i32::from(weight[0]) * voltage[0] + i32::from(weight[1]) * voltage[1]
            };
            for (sum, weight) in sums.real.iter_mut().zip(column.real) {
                *sum += product(weight);
            }
            for (sum, weight) in sums.imaginary.iter_mut().zip(column.imaginary) {
                *sum += product(weight);
            }
        }
    }
    sums
}

/// The sums of halves: dish after dish, real before imaginary products.
fn float_tile(
    columns: &[FloatColumn],
    voltages: [&[[f32; 2]]; TILE_TIMES],
) -> [Sums<f32>; TILE_TIMES] {
    let mut sums = [Sums::default(); TILE_TIMES];
    for (dish, FloatColumn([real, imaginary])) in columns.iter().enumerate() {
        for (sums, voltages) in sums.iter_mut().zip(voltages) {
            let [re, im] = voltages[dish];
            for lane in 0..LANES {
                sums.real[lane] += real[lane] * re;
                sums.real[lane] -= imaginary[lane] * im;
                sums.imaginary[lane] += real[lane] * im;
                sums.imaginary[lane] += imaginary[lane] * re;
            }
        }
    }
    sums
}

/// The multiply-adds of x86-64.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Column, LANES, Sums, TILE_TIMES, Voltage};

    /// Defines a [`Tile`](super::Tile) from the vectors that `LANES` pairs and their sums take.
    macro_rules! tile {
        (
            $(#[$attribute:meta])* $name:ident, $features:literal, $vector:ident, $words:literal,
            $times:literal, $load:ident, $store:ident, $splat:ident, $zero:ident, $multiply_add:expr
        ) => {
            $(#[$attribute])*
            pub(super) fn $name(
                columns: &[Column],
                voltages: [&[Voltage]; TILE_TIMES],
            ) -> [Sums; TILE_TIMES] {
                const VECTORS: usize = LANES / $words;

                #[target_feature(enable = $features)]
                fn run(columns: &[Column], voltages: [&[Voltage]; TILE_TIMES]) -> [Sums; TILE_TIMES] {
                    let multiply_add = $multiply_add;
                    let mut result = [Sums::<i32>::default(); TILE_TIMES];
                    // As many times together as their sums fit in the registers.
                    for first in (0..TILE_TIMES).step_by($times) {
                        let rows: [&[Voltage]; $times] =
                            std::array::from_fn(|t| &voltages[first + t][..columns.len()]);
                        let mut sums = [[[$zero(); VECTORS]; 2]; $times];
                        for (dish, column) in columns.iter().enumerate() {
                            for v in 0..VECTORS {
                                let weights = [&column.real, &column.imaginary].map(|pairs| {
                                    // SAFETY: `LANES` pairs are `VECTORS` vectors; unaligned.
                                    unsafe { $load(pairs.as_ptr().add(v * $words).cast()) }
                                });
                                for t in 0..$times {
                                    let voltage =
                                        $splat(bytemuck::cast::<Voltage, i32>(rows[t][dish]));
                                    for part in 0..2 {
                                        let sum = &mut sums[t][part][v];
                                        *sum = multiply_add(*sum, weights[part], voltage);
                                    }
                                }
                            }
                        }
                        for t in 0..$times {
                            let Sums { real, imaginary } = &mut result[first + t];
                            for (part, lanes) in [real, imaginary].into_iter().enumerate() {
                                for v in 0..VECTORS {
                                    let to = lanes[v * $words..].as_mut_ptr();
                                    // SAFETY: `LANES` sums are `VECTORS` vectors; unaligned.
                                    unsafe { $store(to.cast(), sums[t][part][v]) };
                                }
                            }
                        }
                    }
                    result
                }
                // SAFETY: the plan chose this tile after asking the CPU for the instructions.
                unsafe { run(columns, voltages) }
            }
        };
    }

    tile!(
        /// AVX2: eight pairs per instruction.
        avx2_tile, "avx2", __m256i, 8, 2,
        _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi32, _mm256_setzero_si256,
        |sum, weights, voltage| _mm256_add_epi32(sum, _mm256_madd_epi16(weights, voltage))
    );

    tile!(
        /// AVX-512 VNNI: sixteen pairs per instruction.
        avx512_vnni_tile, "avx512f,avx512vnni", __m512i, 16, 4,
        _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi32, _mm512_setzero_si512,
        |sum, weights, voltage| _mm512_dpwssd_epi32(sum, weights, voltage)
    );
}
