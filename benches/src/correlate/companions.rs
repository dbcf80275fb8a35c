//! Companions of the correlator on codes: running sums, and visibilities that begin with them.

use std::{collections::BTreeMap, sync::Arc};

use corrust_gpu::abi::correlate::{OFFSET, Offset, RUNNING_SUMS, RunningSums, mode};
use corrust_host::{
    Result,
    correlate::{Kernel, baselines},
    device::{Buffer, Gpu, Stream},
};
use rayon::prelude::*;

use crate::{
    case::{BenchDevice, Bound, Case, Clock, Subject, Work},
    data::Ring,
};

/// Kernels that the correlator on codes in excess of 8 runs beside its products: the running sums of the codes,
/// and the visibilities seeded with them.
pub(super) struct Companions {
    pub(super) inputs: usize,
    pub(super) channels: usize,
    pub(super) times: usize,
}

impl Companions {
    /// Bits of a code.
    const BITS: u32 = 4;

    /// The first channel's seeds: `128 T - 8 (S_i + S_j) + 8 i (D_i - D_j)`, with each input's sum `S` of
    /// its codes and difference `D` of the real parts' and the imaginary parts'.
    fn expected(&self, native: &[u8], row_bytes: usize) -> Vec<[i32; 2]> {
        let code = |part: u8| i32::from(part as i8) + 8;
        let sums = native.chunks(row_bytes).take(self.inputs).map(|row| {
            row.as_chunks::<2>().0.iter().fold([0, 0], |[sum, difference], &[re, im]| {
                [sum + code(re) + code(im), difference + code(re) - code(im)]
            })
        });
        let sums: Vec<[i32; 2]> = sums.collect();
        let seed = |i: usize, j: usize| {
            let constant = 128 * self.times as i32;
            [constant - 8 * (sums[i][0] + sums[j][0]), 8 * (sums[i][1] - sums[j][1])]
        };
        (0..self.inputs)
            .flat_map(|i| (0..=i).map(move |j| (i, j)))
            .map(|(i, j)| seed(i, j))
            .collect()
    }
}

impl Case for Companions {
    fn system(&self) -> &'static str {
        "correlate"
    }

    fn label(&self) -> String {
        let Self { inputs, channels, times } = self;
        format!("ci4, companions, N {inputs}, C {channels}, T {times}")
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        let sizes = [self.inputs, self.channels, self.times].map(|size| size as u64);
        ["N", "C", "T"].into_iter().zip(sizes).collect()
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let Some(gpu) = &place.gpu else { return Ok(Vec::new()) };
        let Self { inputs, channels, times } = *self;
        let rows = channels * inputs;
        let row_bytes = (2 * times).next_multiple_of(16);
        let mut native = place.random_bytes(rows * row_bytes);
        native.par_chunks_mut(row_bytes).for_each(|row| {
            let (samples, rest) = row.split_at_mut(2 * times);
            samples.iter_mut().for_each(|part| *part = ((*part << 4) as i8 >> 4) as u8);
            rest.fill(0);
        });
        let visibilities = 8 * channels * baselines(inputs);
        let bytes = (native.len() + visibilities) as f64;
        let work = Seeding {
            gpu: gpu.clone(),
            expected: place.expected(|| Ok(self.expected(&native, row_bytes)))?,
            native: Ring::new(gpu, &native)?,
            sums: Buffer::new(gpu, 8 * rows)?,
            beyond: Buffer::new(gpu, 8)?,
            visibilities: Buffer::new(gpu, visibilities)?,
            shape: [inputs, channels, times, row_bytes].map(|size| size as u32),
        };
        Ok(vec![Subject {
            kernel: Kernel::Packed.to_string(),
            auto: true,
            what: "companions",
            clock: Clock::Device,
            sustain: false,
            useful_operations: 0.0,
            bytes,
            items: ((channels * times) as f64, "matrices"),
            bounds: vec![Bound::memory(bytes)],
            work: Box::new(work),
        }])
    }
}

struct Seeding {
    gpu: Arc<dyn Gpu>,
    native: Ring,
    sums: Buffer,
    beyond: Buffer,
    visibilities: Buffer,
    /// `N`, `C`, `T` and the bytes of a native row.
    shape: [u32; 4],
    /// Visibilities of the first channel.
    expected: Vec<[i32; 2]>,
}

impl Work for Seeding {
    fn run(&mut self) -> Result<()> {
        let [inputs, channels, times, row_bytes] = self.shape;
        let (rows, stream) = (channels * inputs, Stream::default());
        let sums = RunningSums {
            samples: self.native.next(),
            sums: self.sums.address(),
            beyond: self.beyond.address(),
            row_stride: row_bytes.into(),
            row_bytes,
            rows,
            bits: Companions::BITS,
            reserved: 0,
        };
        let offset = Offset {
            sums: self.sums.address(),
            visibilities: self.visibilities.address(),
            inputs,
            channels,
            times,
            bits: Companions::BITS,
            complement: 0,
            mode: mode::STORE,
        };
        let blocks = rows.div_ceil(RUNNING_SUMS.entry.threads / 32).min(1 << 16);
        // SAFETY: the buffers hold the rows, their sums and the visibilities.
        unsafe {
            self.gpu.launch(stream, &RUNNING_SUMS, blocks, &sums)?;
            self.gpu.launch(stream, &OFFSET, rows.min(1 << 16), &offset)
        }
    }

    fn check(&mut self) -> Result<bool> {
        let mut found = vec![[0_i32; 2]; self.expected.len()];
        self.visibilities.download(Stream::default(), &mut found)?;
        Ok(found == self.expected)
    }
}
