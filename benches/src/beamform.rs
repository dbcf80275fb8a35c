//! Cases of the beamformer: around the instrument of the CHORD note, 16 channels of 2 polarisations.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use corrust_gpu::abi::{
    Target,
    beamform::{BEAMFORMERS, Operands, WARPGROUP_BEAMFORMERS},
};
use corrust_host::{
    Beamformer, Device, Encoding, Layout, Result,
    beamform::{Beams, Builder, Kernel, useful_operations},
    device::{Buffer, DeviceSlice, DeviceSliceMut, LockedBytes, SimGpu, Stream},
    samples::Samples,
    tuning::Tuning,
};
use ptx_sim::Class;

use crate::{
    case::{BenchDevice, Bound, Case, Clock, Subject, Work, kernels},
    data::{Ring, locked, random_bytes, random_halves},
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
    /// Encodings of weights, for the voltages that they go with: `cf16` with `cf16` alone.
    pub weights: Vec<Encoding>,
    /// Encodings of voltages.
    pub voltages: Vec<Encoding>,
    /// Encoding of beams: `ci4` or `ci8`.
    pub output: Encoding,
    /// Kernels; none for all that the device runs.
    pub kernels: Vec<Kernel>,
}

impl Default for Options {
    fn default() -> Self {
        let beams = [16, 32, 64, 96, 128].map(|beams| (512, beams));
        let dishes = [64, 256, 1024].map(|dishes| (dishes, 96));
        Self {
            sizes: [&beams[..], &dishes].concat(),
            times: None,
            weights: vec![Encoding::Ci8],
            voltages: vec![Encoding::Ci4],
            output: Encoding::Ci4,
            kernels: Vec::new(),
        }
    }
}

/// The cases of some options.
pub fn cases(options: &Options, place: &BenchDevice) -> Vec<Box<dyn Case>> {
    let usual = if place.gpu.is_some() { 32768 } else { 256 };
    let times = options.times.unwrap_or(usual);
    let mut cases: Vec<Box<dyn Case>> = Vec::new();
    for &voltages in &options.voltages {
        let half = |encoding| encoding == Encoding::Cf16;
        // Voltages of floats have weights of floats, whatever weights integers have.
        let weights: Vec<Encoding> = match half(voltages) {
            true => vec![Encoding::Cf16],
            false => options.weights.iter().copied().filter(|&weights| !half(weights)).collect(),
        };
        for (weights, &(dishes, beams)) in weights
            .iter()
            .flat_map(|&weights| options.sizes.iter().map(move |size| (weights, size)))
        {
            cases.push(Box::new(Size {
                dishes,
                beams,
                streams: (CHANNELS, POLARISATIONS),
                times,
                encodings: (weights, voltages),
                output: options.output,
                kernels: options.kernels.clone(),
                tile: None,
            }));
        }
    }
    cases
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
    let weights = if tile.int4 { Encoding::Ci4 } else { Encoding::Ci8 };
    let (encodings, output, tile) = ((weights, Encoding::Ci4), Encoding::Ci4, Some(tile.clone()));
    Box::new(Size { dishes, beams, streams, times, encodings, output, kernels, tile })
}

/// Work of a kernel for a time sample of one channel and polarisation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkPerTime {
    /// Bytes of voltages and beams in device memory, read and written; shifts, which every unit of times loads again, stay
    /// in caches.
    pub device_bytes: f64,
    /// Bytes of shared memory, read and written.
    pub shared_bytes: f64,
    /// Operations of tensor cores, two a multiply-add.
    pub tensor_operations: f64,
    /// Shuffles of lanes.
    pub shuffles: f64,
    /// Integer, bitwise, comparing and converting instructions of lanes.
    pub integer_operations: f64,
}

impl WorkPerTime {
    /// Counts the kernel `mma` for some dishes and beams of `ci4` voltages, in the simulator. Work that a block does
    /// once, as to load its weights, does not count, nor do loads without `cp.async`, as of shifts.
    ///
    /// # Errors
    /// Errors of the plan.
    pub fn counted(dishes: usize, beams: usize) -> Result<Self> {
        // Two runs of as many blocks: what a block does once is in both.
        const TIMES: [usize; 2] = [2048, 4096];
        let [less, more] = TIMES.map(|times| -> Result<[u64; 5]> {
            let gpu = Arc::new(SimGpu::new());
            let builder =
                Beamformer::builder(dishes, beams).encoding(Encoding::Ci4).kernel(Kernel::Mma);
            let mut plan = builder.gpu(gpu.clone()).build()?;
            plan.set_weights(&random_bytes(2 * plan.shape().weights()))?;
            plan.set_shifts(&vec![12; plan.shape().shifts()])?;
            plan.beamform(&random_bytes(dishes * times)[..])?;
            let reports = BEAMFORMERS.iter().filter_map(|(kernel, _)| gpu.report(&kernel.entry));
            let mut work = [0; 5];
            for report in reports {
                let shuffles = report.sum(|site| site.opcode.starts_with("shfl"));
                let class = |class| report.class(class);
                let copied = class(Class::AsyncCopy).bytes;
                let stored = class(Class::GlobalStore).bytes;
                let wavefronts =
                    class(Class::SharedLoad).wavefronts + class(Class::SharedStore).wavefronts;
                let integer = [Class::Integer, Class::Logic, Class::Compare, Class::Convert];
                let integer: u64 = integer.into_iter().map(|of| class(of).lanes).sum();
                let counts = [
                    copied + stored,
                    WAVEFRONT * wavefronts + copied,
                    report.tensor_operations,
                    shuffles.lanes,
                    integer,
                ];
                work.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            Ok(work)
        });
        let (less, more) = (less?, more?);
        let each = |index: usize| (more[index] - less[index]) as f64 / (TIMES[1] - TIMES[0]) as f64;
        Ok(Self {
            device_bytes: each(0),
            shared_bytes: each(1),
            tensor_operations: each(2),
            shuffles: each(3),
            integer_operations: each(4),
        })
    }
}

/// Bytes of a wavefront of shared memory.
const WAVEFRONT: u64 = 128;

struct Size {
    dishes: usize,
    beams: usize,
    /// Channels and polarisations.
    streams: (usize, usize),
    times: usize,
    /// Encoding of a weight, and of a voltage.
    encodings: (Encoding, Encoding),
    /// Encoding of a beam's sample.
    output: Encoding,
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
        match (&self.tile, &self.encoding()[..]) {
            (Some(tile), _) => format!("{}, {size}", tile.name),
            (None, "") => size,
            (None, encodings) => format!("{encodings}, {size}"),
        }
    }

    fn encoding(&self) -> String {
        let ((weights, voltages), output) = (self.encodings, self.output);
        match (self.tile.is_some() || (weights, voltages) == (Encoding::Ci8, Encoding::Ci4), output)
        {
            // The instrument's own have no name.
            (true, Encoding::Ci4) => String::new(),
            (false, Encoding::Ci4) => format!("{voltages} by {weights}"),
            _ => format!("{voltages} by {weights} to {output}"),
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
        let bytes = auto.shape().bytes_per_time() * self.times;
        let voltages = Rc::new(match self.encodings.1 {
            Encoding::Cf16 if place.model.is_none() => random_halves(bytes),
            _ => place.random_bytes(bytes),
        });
        let expected: Rc<[u8]> = place.expected(|| self.expected(&voltages))?.into();

        let mut subjects = Vec::new();
        let memory = match &place.gpu {
            Some(gpu) => {
                let room = self.beam_bytes(&auto);
                Some(Rc::new((Ring::new(gpu, &voltages)?, Ring::empty(gpu, room)?)))
            }
            None => None,
        };
        for (_, plan) in kernels(Kernel::ALL, Kernel::Auto, &self.kernels, build)? {
            let source = match (&place.gpu, &memory) {
                (Some(gpu), Some(rings)) => BeamformerMemory::Device {
                    rings: rings.clone(),
                    samples: Buffer::new(gpu, self.beam_bytes(&plan))?,
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
            .encoding(self.encodings.1)
            .output(self.output)
            .weights(self.encodings.0);
        match &self.tile {
            Some(tile) => builder.tuning(tile.alone()),
            None => builder,
        }
    }

    /// A plan with weights and shifts.
    fn prepared(&self, builder: Builder) -> Result<Beamformer> {
        let mut plan = builder.build()?;
        let shape = *plan.shape();
        let (weights, voltages) = self.encodings;
        let bytes = weights.bytes() * shape.weights();
        plan.set_weights(&match weights {
            Encoding::Cf16 => random_halves(bytes),
            _ => random_bytes(bytes),
        })?;
        // Standard deviations of the parts of weights and voltages over all their values.
        let deviation = |encoding| match encoding {
            Encoding::Ci4 => 4.6,
            // Halves of all exponents below 2.
            Encoding::Cf16 => 0.44,
            _ => 74.0,
        };
        let sums = deviation(weights) * deviation(voltages) * (2.0 * self.dishes as f64).sqrt();
        let shift = (sums / 3.0).log2().round().max(0.0) as u32;
        plan.set_shifts(&vec![shift; shape.shifts()])?;
        Ok(plan)
    }

    /// Bytes of all beams of a plan.
    fn beam_bytes(&self, plan: &Beamformer) -> usize {
        plan.shape().shifts() * self.times * self.output.bytes()
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
        let output = self.beam_bytes(&plan) as f64;
        let values = if self.encodings.1 == Encoding::Cf16 { "f16" } else { "s8" };
        let mut bounds =
            vec![Bound::tensor(&name, values, operations), Bound::memory(input + output)];
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
                sample_bytes: self.output.bytes(),
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
    /// Bytes of a beam's sample.
    sample_bytes: usize,
    checked: [std::ops::Range<usize>; 2],
    expected: Rc<[u8]>,
    /// Beams of the last run from host memory, whose memory is used again.
    beams: Beams,
}

impl Beamforming {
    /// Bytes of the beams.
    fn beam_bytes(&self) -> usize {
        self.plan.shape().shifts() * self.times * self.sample_bytes
    }

    /// Voltages in a place of a ring.
    fn on_device(&self, address: u64) -> Result<Samples<'static>> {
        let shape = self.plan.shape();
        let bytes = self.times * shape.bytes_per_time();
        // SAFETY: the ring holds the voltages as long as the plan.
        let slice = unsafe { DeviceSlice::from_raw(address, bytes, Stream::default()) };
        Samples::new(slice, shape.dishes, shape.streams(), shape.encoding, Layout::Tcn)
    }
}

impl Work for Beamforming {
    fn run(&mut self) -> Result<()> {
        match &self.source {
            BeamformerMemory::Device { rings, .. } => {
                let (from, to) = (rings.0.next(), rings.1.next());
                // SAFETY: places of the rings are as long as the shape asks for.
                let to =
                    unsafe { DeviceSliceMut::from_raw(to, self.beam_bytes(), Stream::default()) };
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

    /// Exactly; of `cf16` voltages, whose sums are floats, to a step of a beam's part.
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
        let bytes = self.sample_bytes;
        let found = self.checked.iter().flat_map(|times| {
            found
                .chunks_exact(bytes * self.times)
                .flat_map(move |row| &row[bytes * times.start..bytes * times.end])
        });
        if self.plan.shape().encoding != Encoding::Cf16 {
            return Ok(found.eq(self.expected.iter()));
        }
        let near = |a: i8, b: i8| a.abs_diff(b) <= 1;
        // Of `ci4`, either half of a byte.
        let parts = |byte: u8| match bytes {
            1 => [byte as i8 >> 4, (byte << 4) as i8 >> 4],
            _ => [byte as i8; 2],
        };
        let same = |(&a, &b): (&u8, &u8)| {
            let (a, b) = (parts(a), parts(b));
            near(a[0], b[0]) && near(a[1], b[1])
        };
        Ok(found.zip(&*self.expected).all(same))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 7 of the note, and what differs: half the sums leave the registers, as 32-bit numbers, and no sample is
    /// shuffled.
    #[test]
    fn the_work_of_a_time_is_the_note_s() {
        let work = WorkPerTime::counted(512, 96).unwrap();
        assert_eq!(work.device_bytes, 512.0 + 96.0);
        assert_eq!(work.shared_bytes, 512.0 + 3072.0 + 768.0 + 768.0);
        assert_eq!(work.tensor_operations, 8.0 * 512.0 * 96.0);
        assert_eq!(work.shuffles, 0.0);
        assert!(work.integer_operations > 0.0);
    }
}
