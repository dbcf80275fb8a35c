//! Cases of beams on a grid: around CHORD's search for bursts, 512 dishes on 24 x 24 places, 2 polarisations.

use std::{collections::BTreeMap, ops::Range, rc::Rc};

use corrust_host::{
    Device, Encoding, GridBeamformer, Layout, Result,
    beamform::grid::{Builder, GridBeams, Kernel},
    device::{Buffer, DeviceSlice, DeviceSliceMut, Stream},
    samples::Samples,
};

use crate::{
    case::{BenchDevice, Bound, Case, Clock, Subject, Work, kernels},
    data::{Ring, random_halves},
    spectra::{Rings, rings},
};

/// Polarisations, and times whose powers are added.
const POLARISATIONS: usize = 2;
const BLOCK_TIMES: usize = 40;
/// Bound of the relative error of powers, root mean square: the tensor cores' are of f16 values.
const ERROR: f64 = 1e-3;

/// Sizes and kernels to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Places of the grid along both axes.
    pub sizes: Vec<usize>,
    /// Frequency channels.
    pub channels: usize,
    /// Blocks of 40 times; by default 51, fewer on a CPU.
    pub blocks: Option<usize>,
    /// Encodings of voltages.
    pub encodings: Vec<Encoding>,
    /// Kernels; none for all that the device runs.
    pub kernels: Vec<Kernel>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sizes: vec![24],
            channels: 256,
            blocks: None,
            encodings: vec![Encoding::Ci4],
            kernels: Vec::new(),
        }
    }
}

/// The cases of some options.
pub fn cases(options: &Options, place: &BenchDevice) -> Vec<Box<dyn Case>> {
    let blocks = options.blocks.unwrap_or(if place.gpu.is_some() { 51 } else { 1 });
    let mut cases: Vec<Box<dyn Case>> = Vec::new();
    for &encoding in &options.encodings {
        for &side in &options.sizes {
            let (channels, kernels) = (options.channels, options.kernels.clone());
            cases.push(Box::new(Size { side, channels, blocks, encoding, kernels }));
        }
    }
    cases
}

/// A grid, and the voltages of a run.
#[derive(Clone)]
struct Size {
    side: usize,
    channels: usize,
    blocks: usize,
    encoding: Encoding,
    kernels: Vec<Kernel>,
}

impl Size {
    /// Dishes on eight of nine places, spread evenly.
    fn places(&self) -> Vec<[usize; 2]> {
        let all = (0..self.side).flat_map(|m| (0..self.side).map(move |n| [m, n]));
        all.filter(|[m, n]| (m * self.side + n) % 9 != 4).collect()
    }

    /// A plan of some channels.
    fn builder(&self, channels: usize) -> Builder {
        let gain = 1.0 / (BLOCK_TIMES * self.side.pow(4)) as f32;
        GridBeamformer::builder(self.side, self.side)
            .places(&self.places())
            .channels(channels)
            .polarisations(POLARISATIONS)
            .encoding(self.encoding)
            .integrate(BLOCK_TIMES)
            .gain(gain)
            .half(true)
    }

    fn times(&self) -> usize {
        self.blocks * BLOCK_TIMES
    }

    /// Bytes of the voltages of a time and channel.
    fn row_bytes(&self) -> usize {
        POLARISATIONS * self.places().len() * self.encoding.bytes()
    }

    /// Bytes of the powers of a block of times and channel.
    fn block_bytes(&self) -> usize {
        4 * self.side * self.side * size_of::<half::f16>()
    }

    /// Powers of the first channel's first block and of the last channel's last, by the CPU.
    fn expected(&self, voltages: &[u8]) -> Result<Vec<f32>> {
        let of = |channel: usize, times: Range<usize>| {
            let rows = voltages.chunks_exact(self.row_bytes()).skip(channel).step_by(self.channels);
            let of_block = rows.skip(times.start).take(times.len());
            let bytes: Vec<u8> = of_block.flatten().copied().collect();
            let beams = self.builder(1).device(Device::Cpu).build()?.beamform(&bytes[..])?;
            Ok(powers(&beams, 0, 0))
        };
        let times = self.times();
        let last = of(self.channels - 1, times - BLOCK_TIMES..times)?;
        Ok([of(0, 0..BLOCK_TIMES)?, last].concat())
    }
}

/// Powers of a channel and block.
fn powers(beams: &GridBeams, channel: usize, block: usize) -> Vec<f32> {
    let (.., columns, rows) = beams.powers.dim();
    let of = |q| (0..rows).map(move |p| beams.powers.get(channel, block, q, p));
    (0..columns).flat_map(of).collect()
}

impl Case for Size {
    fn system(&self) -> &'static str {
        "grid"
    }

    fn label(&self) -> String {
        let Self { side, channels, encoding, .. } = self;
        format!("{encoding}, {side} x {side}, F {channels}, P {POLARISATIONS}, T {}", self.times())
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        let sizes = [self.side, self.channels, POLARISATIONS, self.times()];
        ["M", "F", "P", "T"].into_iter().zip(sizes.map(|size| size as u64)).collect()
    }

    fn encoding(&self) -> String {
        self.encoding.to_string()
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let build = |kernel| {
            let builder = self.builder(self.channels).kernel(kernel);
            match &place.gpu {
                Some(gpu) => builder.gpu(gpu.clone()),
                None => builder.device(Device::Cpu),
            }
            .build()
        };
        let auto = build(Kernel::Auto)?.kernel();
        let bytes = self.times() * self.channels * self.row_bytes();
        let voltages = Rc::new(match self.encoding {
            Encoding::Cf16 if place.model.is_none() => random_halves(bytes),
            _ => place.random_bytes(bytes),
        });
        let expected: Rc<[f32]> = place.expected(|| self.expected(&voltages))?.into();
        let room = self.channels * self.blocks * self.block_bytes();
        let rings = rings(place, &voltages, room)?;
        let transforms = (self.times() * self.channels * POLARISATIONS) as f64;
        // 5 n log2 n of a complex transform of n points, and the sums of squares.
        let points = (4 * self.side * self.side) as f64;
        let operations = transforms * points * (5.0 * points.log2() + 4.0);
        let moved = (bytes + room) as f64;
        let mut subjects = Vec::new();
        for (_, plan) in kernels(Kernel::ALL, Kernel::Auto, &self.kernels, build)? {
            let name = plan.kernel();
            let memory = match (&place.gpu, &rings) {
                (Some(gpu), Some(rings)) => {
                    Source::Device { rings: rings.clone(), powers: Buffer::new(gpu, room)? }
                }
                _ => Source::Host { voltages: voltages.clone(), beams: None },
            };
            subjects.push(Subject {
                auto: name == auto,
                kernel: name.to_string(),
                what: "kernel",
                clock: if place.gpu.is_some() { Clock::Device } else { Clock::Host },
                sustain: name == auto || !self.kernels.is_empty(),
                useful_operations: operations,
                bytes: moved,
                items: (self.times() as f64, "times"),
                bounds: vec![Bound::memory(moved)],
                work: Box::new(Beamforming {
                    plan,
                    size: self.clone(),
                    memory,
                    expected: expected.clone(),
                }),
            });
        }
        Ok(subjects)
    }
}

/// Memory of the voltages.
enum Source {
    /// In rings; the run that is checked leaves its powers in `powers`.
    Device { rings: Rings, powers: Buffer },
    /// In ordinary memory, with the beams of the last run.
    Host { voltages: Rc<Vec<u8>>, beams: Option<GridBeams> },
}

struct Beamforming {
    plan: GridBeamformer,
    size: Size,
    memory: Source,
    /// Powers of the first channel's first block and of the last channel's last, by the CPU.
    expected: Rc<[f32]>,
}

impl Beamforming {
    /// Enqueues a run, from a place of a ring to an address.
    fn enqueue(plan: &mut GridBeamformer, size: &Size, from: &Ring, to: u64) -> Result<()> {
        let bytes = size.times() * size.channels * size.row_bytes();
        let room = size.channels * size.blocks * size.block_bytes();
        // SAFETY: places of the rings are as long as the shape asks for.
        let (voltages, room) = unsafe {
            (
                DeviceSlice::from_raw(from.next(), bytes, Stream::default()),
                DeviceSliceMut::from_raw(to, room, Stream::default()),
            )
        };
        let (dishes, streams) = (size.places().len(), size.channels * POLARISATIONS);
        let voltages = Samples::new(voltages, dishes, streams, size.encoding, Layout::Tcn)?;
        plan.beamform_device(voltages, room).map(|_| ())
    }
}

impl Work for Beamforming {
    fn run(&mut self) -> Result<()> {
        match &mut self.memory {
            Source::Device { rings, .. } => {
                Self::enqueue(&mut self.plan, &self.size, &rings.0, rings.1.next())
            }
            Source::Host { voltages, beams } => {
                *beams = Some(self.plan.beamform(&voltages[..])?);
                Ok(())
            }
        }
    }

    fn check(&mut self) -> Result<bool> {
        let found = match &mut self.memory {
            Source::Device { rings, powers } => {
                let address = powers.address();
                Self::enqueue(&mut self.plan, &self.size, &rings.0, address)?;
                let mut all = vec![half::f16::ZERO; powers.bytes() / 2];
                powers.download(Stream::default(), &mut all)?;
                let ends =
                    [&all[..self.expected.len() / 2], &all[all.len() - self.expected.len() / 2..]];
                ends.concat().into_iter().map(half::f16::to_f32).collect()
            }
            Source::Host { beams: Some(beams), .. } => {
                let last = (self.size.channels - 1, self.size.blocks - 1);
                [powers(beams, 0, 0), powers(beams, last.0, last.1)].concat()
            }
            Source::Host { beams: None, .. } => Vec::new(),
        };
        let square = |value: f32| f64::from(value).powi(2);
        let wrong: f64 = found.iter().zip(&*self.expected).map(|(a, b)| square(a - b)).sum();
        let all: f64 = self.expected.iter().map(|&power| square(power)).sum();
        Ok(found.len() == self.expected.len() && wrong <= ERROR * ERROR * all)
    }
}
