//! Cases of the beamformer: around the instrument of the CHORD note, 16 channels of 2 polarisations.

use std::{collections::BTreeMap, rc::Rc};

use corrust_gpu::abi::{
    Target,
    beamform::{BEAMFORMERS, Operands, WARPGROUP_BEAMFORMERS},
};
use corrust_host::{
    Beamformer, Device, Encoding, Layout, Result,
    beamform::{Beams, Builder, Kernel, useful_operations},
    device::{Buffer, DeviceSlice, DeviceSliceMut, LockedBytes, Stream},
    samples::Samples,
    tuning::Tuning,
};

use crate::{
    case::{BenchDevice, Bound, Case, Clock, Subject, Work, kernels},
    data::{Ring, locked, random_bytes},
};

/// The instrument's frequency channels.
const CHANNELS: usize = 16;
const POLARISATIONS: usize = 2;
/// Times that are compared with the CPU's, at either end of a block.
const CHECKED: usize = 64;

/// Sizes and kernels to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Dishes and beams.
    pub sizes: Vec<(usize, usize)>,
    /// Times; by default the note's 32768, fewer on a CPU.
    pub times: Option<usize>,
    /// Kernels; none for all that the device runs.
    pub kernels: Vec<Kernel>,
}

impl Default for Options {
    fn default() -> Self {
        let beams = [16, 32, 64, 96, 128].map(|beams| (512, beams));
        let dishes = [64, 256, 1024].map(|dishes| (dishes, 96));
        Self { sizes: [&beams[..], &dishes].concat(), times: None, kernels: Vec::new() }
    }
}

/// The cases of some options.
pub fn cases(options: &Options, place: &BenchDevice) -> Vec<Box<dyn Case>> {
    let usual = if place.gpu.is_some() { 32768 } else { 256 };
    let times = options.times.unwrap_or(usual);
    let case = |&(dishes, beams): &(usize, usize)| {
        let kernels = options.kernels.clone();
        let streams = (CHANNELS, POLARISATIONS);
        Box::new(Size { dishes, beams, streams, times, kernels, tile: None }) as Box<dyn Case>
    };
    options.sizes.iter().map(case).collect()
}

/// A beamformer's tile.
#[derive(Clone, Debug)]
pub(crate) struct Tile {
    /// Name of its kernel.
    pub name: &'static str,
    pub beams: usize,
    pub dishes: usize,
    pub int4: bool,
    pub(crate) target: Target,
}

impl Tile {
    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        // Of `ci4` voltages; the tiles of others go by their costs.
        let mma = BEAMFORMERS.iter().filter(|(_, tile)| tile.operands.voltage_bytes() == 1);
        let mma = mma.map(|(kernel, tile)| Self {
            name: kernel.entry.name,
            beams: tile.beams() as usize,
            dishes: tile.dishes() as usize,
            int4: tile.operands == Operands::Int4,
            target: kernel.entry.target,
        });
        mma.chain(WARPGROUP_BEAMFORMERS.iter().map(|(kernel, tile)| Self {
            name: kernel.entry.name,
            beams: tile.beams as usize,
            dishes: tile.dishes as usize,
            int4: false,
            target: kernel.entry.target,
        }))
    }

    /// A table by which the tile is the quickest for everything.
    pub(crate) fn alone(&self) -> Tuning {
        let mut tuning = Tuning::built_in()[0].clone();
        for tile in Self::all() {
            let cost = if tile.name == self.name { 1e-9 } else { 1e9 };
            tuning.beamform.tiles.insert(tile.name.to_owned(), cost);
        }
        tuning.beamform.pass = 0.0;
        tuning
    }

    /// The tile whose passes are measured: the widest that every GPU has.
    pub(crate) fn of_passes() -> Self {
        let wide = Self::all().filter(|tile| tile.target == Target::Sm80 && !tile.int4);
        wide.max_by_key(|tile| (tile.dishes, tile.beams)).expect("there are tiles")
    }
}

/// A tile's beams, and its dishes `passes` times, by that tile.
pub(crate) fn candidate(tile: &Tile, passes: usize, place: &BenchDevice) -> Box<dyn Case> {
    // 2^20 times of a tile.
    let (streams, times) = match place.simulated() {
        true => ((1, 1), 64),
        false => ((CHANNELS, POLARISATIONS), 32768),
    };
    let (dishes, beams, kernels) = (passes * tile.dishes, tile.beams, vec![Kernel::Auto]);
    Box::new(Size { dishes, beams, streams, times, kernels, tile: Some(tile.clone()) })
}

struct Size {
    dishes: usize,
    beams: usize,
    /// Channels and polarisations.
    streams: (usize, usize),
    times: usize,
    kernels: Vec<Kernel>,
    /// The only tile to beamform by, where it is not the plan's choice.
    tile: Option<Tile>,
}

impl Case for Size {
    fn system(&self) -> &'static str {
        "beamform"
    }

    fn label(&self) -> String {
        let Self { dishes, beams, streams: (channels, polarisations), times, .. } = self;
        let size = format!("D {dishes}, B {beams}, F {channels}, P {polarisations}, T {times}");
        match &self.tile {
            Some(tile) => format!("{}, {size}", tile.name),
            None => size,
        }
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        let sizes = [self.dishes, self.beams, self.streams.0, self.streams.1, self.times];
        ["D", "B", "F", "P", "T"].into_iter().zip(sizes.map(|size| size as u64)).collect()
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let builder = |kernel| {
            let builder = self.builder().kernel(kernel);
            match &place.gpu {
                Some(gpu) => builder.gpu(gpu.clone()),
                None => builder.device(Device::Cpu),
            }
        };
        let build = |kernel| self.prepared(builder(kernel));
        let auto = build(Kernel::Auto)?;
        let auto_kernel = auto.kernel();
        let voltages = Rc::new(place.random_bytes(auto.shape().bytes_per_time() * self.times));
        let expected: Rc<[u8]> = place.expected(|| self.expected(&voltages))?.into();

        let mut subjects = Vec::new();
        let memory = match &place.gpu {
            Some(gpu) => {
                let samples = self.beams * auto.shape().streams() * self.times;
                Some(Rc::new((Ring::new(gpu, &voltages)?, Ring::empty(gpu, samples)?)))
            }
            None => None,
        };
        for (_, plan) in kernels(Kernel::ALL, Kernel::Auto, &self.kernels, build)? {
            let source = match (&place.gpu, &memory) {
                (Some(gpu), Some(rings)) => BeamformerMemory::Device {
                    rings: rings.clone(),
                    samples: Buffer::new(gpu, self.beams * plan.shape().streams() * self.times)?,
                },
                _ => BeamformerMemory::Host(voltages.clone()),
            };
            subjects.push(self.subject(plan, auto_kernel, "kernel", source, &expected));
        }
        if let Some(gpu) = place.gpu.as_ref().filter(|_| self.tile.is_none()) {
            let locked = locked(gpu, &voltages)?;
            let source = BeamformerMemory::Host(voltages);
            subjects.push(self.subject(auto, auto_kernel, "from host", source, &expected));
            let (plan, source) = (build(Kernel::Auto)?, BeamformerMemory::Locked(locked));
            subjects.push(self.subject(plan, auto_kernel, "page-locked", source, &expected));
        }
        Ok(subjects)
    }
}

impl Size {
    fn builder(&self) -> Builder {
        let builder = Beamformer::builder(self.dishes, self.beams)
            .channels(self.streams.0)
            .polarisations(self.streams.1)
            .encoding(Encoding::Ci4)
            .weights(self.weights());
        match &self.tile {
            Some(tile) => builder.tuning(tile.alone()),
            None => builder,
        }
    }

    fn weights(&self) -> Encoding {
        let int4 = self.tile.as_ref().is_some_and(|tile| tile.int4);
        if int4 { Encoding::Ci4 } else { Encoding::Ci8 }
    }

    /// A plan with weights and shifts.
    fn prepared(&self, builder: Builder) -> Result<Beamformer> {
        let mut plan = builder.build()?;
        let shape = *plan.shape();
        plan.set_weights(&random_bytes(self.weights().bytes() * shape.weights()))?;
        // Full-range weights and voltages: sums have a standard deviation of about 480 sqrt(D), of 4-bit
        // weights 30 sqrt(D).
        let scale = if self.weights() == Encoding::Ci4 { 30.0 } else { 480.0 };
        let shift = (scale * (self.dishes as f64).sqrt() / 3.0).log2().round() as u32;
        plan.set_shifts(&vec![shift; shape.shifts()])?;
        Ok(plan)
    }

    /// Times that are compared with the CPU's: some of the first and the last.
    fn checked(&self) -> [std::ops::Range<usize>; 2] {
        let part = CHECKED.min(self.times);
        [0..part, self.times - part..self.times]
    }

    /// Samples of those times, by the CPU.
    fn expected(&self, voltages: &[u8]) -> Result<Vec<u8>> {
        let mut plan = self.prepared(self.builder().device(Device::Cpu))?;
        let step = plan.shape().bytes_per_time();
        let mut samples = Vec::new();
        for times in self.checked() {
            let beams = plan.beamform(&voltages[times.start * step..times.end * step])?;
            samples.extend(beams.samples);
        }
        Ok(samples)
    }

    fn subject(
        &self,
        plan: Beamformer,
        auto: Kernel,
        what: &'static str,
        source: BeamformerMemory,
        expected: &Rc<[u8]>,
    ) -> Subject {
        let shape = *plan.shape();
        let name = plan.kernel().to_string();
        let operations = useful_operations(&shape, self.times as u64);
        let input = (shape.bytes_per_time() * self.times) as f64;
        let output = (self.beams * shape.streams() * self.times) as f64;
        let mut bounds =
            vec![Bound::tensor(&name, "s8", operations), Bound::memory(input + output)];
        if matches!(what, "from host" | "page-locked") {
            bounds.extend([Bound::upload(input), Bound::download(output)]);
        }
        Subject {
            auto: plan.kernel() == auto,
            kernel: name,
            what,
            clock: match source {
                BeamformerMemory::Device { .. } => Clock::Device,
                BeamformerMemory::Host(_) | BeamformerMemory::Locked(_) => Clock::Host,
            },
            sustain: what == "kernel" && (plan.kernel() == auto || !self.kernels.is_empty()),
            useful_operations: operations,
            bytes: input + output,
            items: (self.times as f64, "times"),
            bounds,
            work: Box::new(Beamforming {
                plan,
                source,
                times: self.times,
                checked: self.checked(),
                expected: expected.clone(),
                beams: Beams::default(),
            }),
        }
    }
}

/// Memory of the voltages.
enum BeamformerMemory {
    /// In rings, voltages and samples; the run that is checked leaves its samples in `samples`.
    Device { rings: Rc<(Ring, Ring)>, samples: Buffer },
    /// In ordinary memory.
    Host(Rc<Vec<u8>>),
    /// In page-locked memory.
    Locked(LockedBytes),
}

struct Beamforming {
    plan: Beamformer,
    source: BeamformerMemory,
    times: usize,
    checked: [std::ops::Range<usize>; 2],
    expected: Rc<[u8]>,
    /// Beams of the last run from host memory, whose memory is used again.
    beams: Beams,
}

impl Beamforming {
    /// Samples of the beams.
    fn samples(&self) -> usize {
        self.plan.shape().shifts() * self.times
    }

    /// Voltages in a place of a ring.
    fn on_device(&self, address: u64) -> Result<Samples<'static>> {
        let shape = self.plan.shape();
        let bytes = self.times * shape.bytes_per_time();
        // SAFETY: the ring holds the voltages as long as the plan.
        let slice = unsafe { DeviceSlice::from_raw(address, bytes, Stream::default()) };
        Samples::new(slice, shape.dishes, shape.streams(), Encoding::Ci4, Layout::Tcn)
    }
}

impl Work for Beamforming {
    fn run(&mut self) -> Result<()> {
        match &self.source {
            BeamformerMemory::Device { rings, .. } => {
                let (from, to) = (rings.0.next(), rings.1.next());
                // SAFETY: places of the rings are as long as the shape asks for.
                let to = unsafe { DeviceSliceMut::from_raw(to, self.samples(), Stream::default()) };
                let voltages = self.on_device(from)?;
                self.plan.beamform_device(voltages, to)
            }
            BeamformerMemory::Host(voltages) => {
                self.plan.beamform_into(&voltages[..], &mut self.beams)
            }
            BeamformerMemory::Locked(voltages) => {
                self.plan.beamform_into(voltages, &mut self.beams)
            }
        }
    }

    fn check(&mut self) -> Result<bool> {
        let mut downloaded = Vec::new();
        let voltages = match &self.source {
            BeamformerMemory::Device { rings, .. } => Some(self.on_device(rings.0.next())?),
            _ => None,
        };
        let found = match (&mut self.source, voltages) {
            (BeamformerMemory::Device { samples, .. }, Some(voltages)) => {
                self.plan.beamform_device(voltages, samples.slice_mut::<u8>())?;
                downloaded.resize(samples.bytes(), 0);
                samples.download(Stream::default(), &mut downloaded)?;
                &downloaded[..]
            }
            _ => self.beams.samples.as_slice().unwrap_or_default(),
        };
        let parts = self
            .checked
            .iter()
            .flat_map(|times| found.chunks_exact(self.times).flat_map(|row| &row[times.clone()]));
        Ok(parts.eq(self.expected.iter()))
    }
}
