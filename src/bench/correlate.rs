//! Cases of the correlator.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    rc::Rc,
    sync::Arc,
};

use bytemuck::Pod;
use corrust_gpu::abi::correlate::{OFFSET, Offset, RUNNING_SUMS, RunningSums, mode};
use corrust_host::{
    Correlator, Device, Encoding, Error, Layout, Result,
    correlate::{Builder, Kernel, Shape, Visibilities, baselines, useful_operations},
    device::{Buffer, DeviceSlice, Gpu, LockedBytes, Stream},
    samples::Samples,
};
use ndarray::{Array2, Axis};
use num_complex::Complex;
use rayon::prelude::*;

use super::{
    Bound, Case, Clock, Place, Ring, Subject, Work, gaussian, is_simulated, kernels, locked,
    random_bytes, random_halves,
};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Encodings of the samples.
    pub encodings: Vec<Encoding>,
    /// Numbers of inputs.
    pub inputs: Vec<usize>,
    /// Numbers of channels; none for one number, about as many as make the work of 20 channels of 2048
    /// inputs.
    pub channels: Vec<usize>,
    /// Times; by default 3072, of bits sixteen times as many: their samples are sixteen times shorter. On a CPU
    /// fewer where channels are chosen and inputs many.
    pub times: Option<usize>,
    /// Kernels, for the encodings that they take; none for all that the device runs.
    pub kernels: Vec<Kernel>,
    /// Numbers of inputs at which to compare kernels that nobody named, where not at all of them;
    /// at others there is the kernel that the device chooses.
    pub compare_at: Option<Vec<usize>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            encodings: vec![Encoding::Ci8, Encoding::Ci4, Encoding::Cf16],
            inputs: vec![128, 256, 512, 1024, 2048],
            channels: Vec::new(),
            times: None,
            kernels: Vec::new(),
            compare_at: None,
        }
    }
}

/// Times by default.
const TIMES: usize = 3072;

/// Products of two samples that a CPU is given at a time: all its kernels at all sizes are to take seconds.
const CPU_PRODUCTS: usize = 1 << 26;

/// The channels and times of a case whose channels nobody named.
fn usual_size(inputs: usize, place: &Place) -> (usize, usize) {
    let most = |work: usize| (work as f64 / baselines(inputs) as f64).round() as usize;
    if place.gpu.is_some() {
        return (most(20 * baselines(2048)).clamp(1, 2048), TIMES);
    }
    let channels = most(CPU_PRODUCTS / TIMES).clamp(1, 2048);
    (channels, most(CPU_PRODUCTS / channels).clamp(64, TIMES))
}

/// The cases of some options: none for encodings that no named kernel takes.
pub fn cases(options: &Options, place: &Place) -> Vec<Box<dyn Case>> {
    let mut cases: Vec<Box<dyn Case>> = Vec::new();
    for (&encoding, &inputs) in
        options.encodings.iter().flat_map(|e| options.inputs.iter().map(move |n| (e, n)))
    {
        let usual = usual_size(inputs, place);
        let longer = if encoding.is_bits() { 16 } else { 1 };
        let times = |usual: usize| {
            let whole = (longer * usual).next_multiple_of(encoding.times());
            options.times.unwrap_or(whole)
        };
        let sizes = match &options.channels[..] {
            [] => vec![(usual.0, times(usual.1))],
            named => named.iter().map(|&c| (c, times(TIMES))).collect(),
        };
        let compare = options.compare_at.as_ref().is_none_or(|at| at.contains(&inputs));
        let kernels: Vec<Kernel> = match options.kernels.is_empty() && !compare {
            true => vec![Kernel::Auto],
            false => options.kernels.iter().copied().filter(|k| k.takes(encoding)).collect(),
        };
        if kernels.is_empty() && !options.kernels.is_empty() {
            continue;
        }
        let packed = match &options.kernels[..] {
            [] => compare,
            named => named.contains(&Kernel::Packed),
        };
        for (channels, times) in sizes {
            let kernels = kernels.clone();
            cases.push(Box::new(Correlation { encoding, inputs, channels, times, kernels }));
            if packed && encoding == Encoding::Ci4 && place.gpu.is_some() {
                cases.push(Box::new(Companions { inputs, channels, times }));
            }
        }
    }
    cases
}

/// All kernels that a table may choose for a size, from `tcn` samples and from `cnt` ones.
pub(super) fn candidates(encoding: Encoding, inputs: usize, place: &Place) -> Box<dyn Case> {
    /// Samples of a case: sizes of few inputs would take long to make.
    const MOST_SAMPLES: usize = 1 << 29;
    let (channels, times) = match place.simulated() {
        true => (2, 32),
        false => (usual_size(inputs, place).0.min(MOST_SAMPLES / TIMES / inputs), TIMES),
    };
    // Bits as many as make work of as many bytes.
    let times =
        (if encoding.is_bits() { 16 } else { 1 } * times).next_multiple_of(encoding.times());
    Box::new(Candidates(Correlation { encoding, inputs, channels, times, kernels: Vec::new() }))
}

struct Candidates(Correlation);

/// Of the samples that [`Candidates`] are given, `tcn` ones.
pub(super) const DELIVERED: &str = "delivered";
/// And `cnt` ones.
pub(super) const ROWS: &str = "rows";

impl Case for Candidates {
    fn system(&self) -> &'static str {
        self.0.system()
    }

    fn label(&self) -> String {
        self.0.label()
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        self.0.sizes()
    }

    fn encoding(&self) -> String {
        self.0.encoding()
    }

    fn subjects(&self, place: &Place) -> Result<Vec<Subject>> {
        let Self(case) = self;
        let samples = case.samples();
        let source = case.placed(place, &samples)?;
        let mut subjects = Vec::new();
        let orders = [(Layout::Tcn, DELIVERED), (Layout::Cnt, ROWS)];
        // Words of bits lie along time.
        let orders = if case.encoding.is_bits() { &orders[1..] } else { &orders[..] };
        for &(layout, what) in orders {
            let expected = Rc::new(case.end_channels(&samples, layout)?);
            let auto = case.builder(place, layout, Kernel::Auto).build()?.kernel();
            let build = |kernel| case.builder(place, layout, kernel).build();
            for (kernel, plan) in kernels(Kernel::ALL, Kernel::Auto, &[], build)? {
                // Integer multiply-adds are no match for tensor cores.
                let packed = kernel.name().starts_with("packed");
                if !packed && kernel.may_be_chosen(case.encoding) {
                    subjects.push(case.subject(plan, auto, what, source.clone(), &expected));
                }
            }
        }
        Ok(subjects)
    }
}

struct Correlation {
    encoding: Encoding,
    inputs: usize,
    channels: usize,
    times: usize,
    kernels: Vec<Kernel>,
}

impl Case for Correlation {
    fn system(&self) -> &'static str {
        "correlate"
    }

    fn label(&self) -> String {
        let Self { encoding, inputs, channels, times, .. } = self;
        format!("{encoding}, N {inputs}, C {channels}, T {times}")
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        let sizes = [self.inputs, self.channels, self.times].map(|size| size as u64);
        ["N", "C", "T"].into_iter().zip(sizes).collect()
    }

    fn encoding(&self) -> String {
        self.encoding.to_string()
    }

    fn subjects(&self, place: &Place) -> Result<Vec<Subject>> {
        if !self.times.is_multiple_of(self.encoding.times()) {
            return Err(Error::invalid(format!(
                "{} times of {}: expected a multiple of {}, those of a word",
                self.times,
                self.encoding,
                self.encoding.times()
            )));
        }
        let samples = self.samples();
        let mut subjects = Vec::new();
        let auto = self.builder(place, Layout::Cnt, Kernel::Auto).build()?.kernel();
        let build = |kernel| self.builder(place, Layout::Cnt, kernel).build();
        // Kernels of narrower values have samples of their own.
        let mut data: BTreeMap<_, (Source, Rc<Visibilities>)> = BTreeMap::new();
        for (kernel, plan) in kernels(Kernel::ALL, Kernel::Auto, &self.kernels, build)? {
            let (source, expected) = match data.entry(kernel.value_bits()) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(unknown) => {
                    let samples = match kernel.value_bits() {
                        Some(bits) => self.narrowed(&samples, bits).into(),
                        None => samples.clone(),
                    };
                    let expected = Rc::new(self.end_channels(&samples, Layout::Cnt)?);
                    unknown.insert((self.placed(place, &samples)?, expected)).clone()
                }
            };
            subjects.push(self.subject(plan, auto, "kernel", source, &expected));
        }
        let source = match data.remove(&None) {
            Some(known) => known,
            None => {
                let expected = Rc::new(self.end_channels(&samples, Layout::Cnt)?);
                (self.placed(place, &samples)?, expected)
            }
        };
        // Bits are delivered as they are multiplied, and noise has as many of each.
        if self.encoding.is_bits() {
            return Ok(subjects);
        }
        // By the kernel that a user gets.
        let wide = self.kernels.iter().copied().find(|kernel| kernel.value_bits().is_none());
        let named = wide.unwrap_or(Kernel::Auto);
        if place.gpu.is_some() {
            subjects.extend(self.as_used(place, (named, auto), &source)?);
        }
        subjects.extend(self.whole_way(place, named, source.0, samples)?);
        Ok(subjects)
    }
}

impl Correlation {
    fn builder(&self, place: &Place, layout: Layout, kernel: Kernel) -> Builder {
        let builder = Correlator::builder(self.inputs, self.channels)
            .encoding(self.encoding)
            .layout(layout)
            .kernel(kernel);
        match &place.gpu {
            Some(gpu) => builder.gpu(gpu.clone()),
            None => builder.device(Device::Cpu),
        }
    }

    /// Random samples, all values equally likely.
    fn samples(&self) -> Rc<Vec<u8>> {
        match self.encoding {
            Encoding::Cf16 => random_halves(self.bytes()),
            _ => random_bytes(self.bytes()),
        }
        .into()
    }

    /// Bytes of all samples.
    fn bytes(&self) -> usize {
        let Self { encoding, inputs, channels, times, .. } = *self;
        inputs * encoding.planes() * channels * (times / encoding.times()) * encoding.bytes()
    }

    fn placed(&self, place: &Place, samples: &Rc<Vec<u8>>) -> Result<Source> {
        Ok(match &place.gpu {
            Some(gpu) => Source::Device(Rc::new(Ring::new(gpu, samples)?)),
            None => Source::Host(samples.clone()),
        })
    }

    /// A kernel as it runs for hours: on sums that are there already, in integrations that end, and on noise as
    /// telescopes have it, of which fewer bits flip and for which the chip needs less power.
    fn as_used(
        &self,
        place: &Place,
        (kernel, auto): (Kernel, Kernel),
        (source, expected): &(Source, Rc<Visibilities>),
    ) -> Result<[Subject; 3]> {
        let build = || self.builder(place, Layout::Cnt, kernel).build();
        let adding = self.subject(build()?, auto, ADDING, source.clone(), expected);
        let whole = self.subject(build()?, auto, WHOLE, source.clone(), expected);
        let noise: Rc<Vec<u8>> =
            gaussian(self.encoding, self.inputs * self.channels * self.times).into();
        let expected = Rc::new(self.end_channels(&noise, Layout::Cnt)?);
        let source = self.placed(place, &noise)?;
        Ok([adding, whole, self.subject(build()?, auto, "gaussian", source, &expected)])
    }

    /// From samples as packets deliver them: where the device has them, and from the host's memory to a GPU.
    fn whole_way(
        &self,
        place: &Place,
        named: Kernel,
        source: Source,
        samples: Rc<Vec<u8>>,
    ) -> Result<Vec<Subject>> {
        let build = || self.builder(place, Layout::Tcn, named).build();
        let auto = self.builder(place, Layout::Tcn, Kernel::Auto).build()?.kernel();
        let expected = Rc::new(self.end_channels(&samples, Layout::Tcn)?);
        let mut subjects = vec![self.subject(build()?, auto, "from tcn", source, &expected)];
        if let Some(gpu) = &place.gpu {
            let locked = Source::Locked(Rc::new(locked(gpu, &samples)?));
            for (what, source) in [("from host", Source::Host(samples)), ("page-locked", locked)] {
                subjects.push(self.subject(build()?, auto, what, source, &expected));
            }
        }
        Ok(subjects)
    }

    fn subject(
        &self,
        plan: Correlator,
        auto: Kernel,
        what: &'static str,
        source: Source,
        expected: &Rc<Visibilities>,
    ) -> Subject {
        let kernel = plan.kernel();
        let name = kernel.to_string();
        let sums = match what {
            ADDING => Sums::Added,
            WHOLE => {
                let simulated = plan.gpu().is_some_and(is_simulated);
                let times = if simulated { 2 * self.times } else { WHOLE_TIMES };
                Sums::Dumped { calls: times.div_ceil(self.times), room: None }
            }
            _ => Sums::Fresh,
        };
        let calls = sums.calls() as f64;
        let operations = calls * useful_operations(self.inputs, self.channels, self.times as u64);
        let input = calls * self.bytes() as f64;
        let output = (8 * baselines(self.inputs) * self.channels) as f64;
        let values = match self.encoding {
            Encoding::Cf16 => "f16",
            Encoding::B1 | Encoding::B2 => "b1",
            _ => "s8",
        };
        // Each plane of an input with each.
        let products = operations * self.encoding.planes().pow(2) as f64;
        let mut bounds =
            vec![Bound::tensor(&name, values, products), Bound::memory(input + output)];
        if matches!(what, "from host" | "page-locked") {
            bounds.push(Bound::upload(input));
        }
        Subject {
            auto: kernel == auto,
            kernel: name,
            what,
            clock: match source {
                Source::Device(_) => Clock::Device,
                Source::Host(_) | Source::Locked(_) => Clock::Host,
            },
            sustain: matches!(what, "kernel" | "gaussian")
                && (kernel == auto || !self.kernels.is_empty()),
            useful_operations: operations,
            bytes: input + output,
            items: (calls * (self.channels * self.times) as f64, "matrices"),
            bounds,
            work: Box::new(Correlating {
                plan,
                source,
                sums,
                channels: self.channels,
                times: self.times,
                expected: expected.clone(),
            }),
        }
    }

    /// 4-bit samples with values of only `bits` bits.
    fn narrowed(&self, samples: &[u8], bits: u32) -> Vec<u8> {
        let half = 1_u8 << (bits - 1);
        let narrow = |nibble: u8| match self.encoding {
            Encoding::Ci4Offset => 8 + (nibble & (2 * half - 1)) - half,
            // The low bits, sign-extended.
            _ => ((nibble & (2 * half - 1)) ^ half).wrapping_sub(half) & 15,
        };
        samples.par_iter().map(|&byte| narrow(byte >> 4) << 4 | narrow(byte & 15)).collect()
    }

    /// The first and the last channel's visibilities, by the CPU.
    fn end_channels(&self, samples: &[u8], layout: Layout) -> Result<Visibilities> {
        let row = self.inputs * self.encoding.bytes();
        let last = self.channels - 1;
        let ends: Vec<u8> = match layout {
            Layout::Cnt => {
                let channel = samples.len() / self.channels;
                [&samples[..channel], &samples[last * channel..]].concat()
            }
            Layout::Tcn => {
                let times = samples.chunks(row * self.channels);
                times.flat_map(|time| [&time[..row], &time[last * row..]].concat()).collect()
            }
        };
        let mut plan = Correlator::builder(self.inputs, 2)
            .encoding(self.encoding)
            .layout(layout)
            .device(Device::Cpu)
            .build()?;
        plan.accumulate(&ends)?;
        Ok(plan.dump()?.visibilities)
    }
}

/// What the correlator on codes in excess of 8 takes beside its products: the running sums of the codes,
/// and the visibilities seeded with them.
struct Companions {
    inputs: usize,
    channels: usize,
    times: usize,
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

    fn subjects(&self, place: &Place) -> Result<Vec<Subject>> {
        let Some(gpu) = &place.gpu else { return Ok(Vec::new()) };
        let Self { inputs, channels, times } = *self;
        let rows = channels * inputs;
        let row_bytes = (2 * times).next_multiple_of(16);
        let mut native = random_bytes(rows * row_bytes);
        native.par_chunks_mut(row_bytes).for_each(|row| {
            let (samples, rest) = row.split_at_mut(2 * times);
            samples.iter_mut().for_each(|part| *part = ((*part << 4) as i8 >> 4) as u8);
            rest.fill(0);
        });
        let visibilities = 8 * channels * baselines(inputs);
        let bytes = (native.len() + visibilities) as f64;
        let work = Seeding {
            gpu: gpu.clone(),
            expected: self.expected(&native, row_bytes),
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

/// Where the samples are.
#[derive(Clone)]
enum Source {
    Device(Rc<Ring>),
    Host(Rc<Vec<u8>>),
    /// In page-locked memory.
    Locked(Rc<LockedBytes>),
}

/// Runs that add to the sums of those before.
const ADDING: &str = "adding";
/// Runs of integrations, dumps included.
const WHOLE: &str = "integration";
/// Least times of such an integration.
const WHOLE_TIMES: usize = 98_304;

/// What a run does with sums.
enum Sums {
    /// Starts anew.
    Fresh,
    /// Adds to what the runs before left.
    Added,
    /// Starts anew, feeds the samples so many times and dumps the sums to device memory.
    Dumped { calls: usize, room: Option<Buffer> },
}

impl Sums {
    /// How many times a run feeds the samples.
    fn calls(&self) -> usize {
        match self {
            Self::Fresh | Self::Added => 1,
            Self::Dumped { calls, .. } => *calls,
        }
    }
}

struct Correlating {
    plan: Correlator,
    source: Source,
    sums: Sums,
    channels: usize,
    times: usize,
    /// Visibilities of the first and the last channel.
    expected: Rc<Visibilities>,
}

impl Correlating {
    /// Runs of which the sums are compared with the CPU's where they add up.
    const ADDED: usize = 3;

    /// The visibilities of the first and the last channel: to bring all of them from a GPU takes longer than
    /// many runs.
    fn ends(&mut self) -> Result<Visibilities> {
        let ends = [0, self.channels - 1];
        let Some(gpu) = self.plan.gpu().cloned() else {
            return Ok(match self.plan.dump()?.visibilities {
                Visibilities::Integer(sums) => Visibilities::Integer(sums.select(Axis(0), &ends)),
                Visibilities::Float(sums) => Visibilities::Float(sums.select(Axis(0), &ends)),
            });
        };
        let mut fresh = None;
        let room = match &self.sums {
            Sums::Dumped { room, .. } => room.as_ref().expect("a run made it"),
            _ => dump_device(&mut self.plan, &gpu, &mut fresh)?,
        };
        let baselines = baselines(self.plan.shape().inputs);
        Ok(match self.plan.shape().encoding.is_integer() {
            true => Visibilities::Integer(rows(&gpu, room, ends, baselines)?),
            false => Visibilities::Float(rows(&gpu, room, ends, baselines)?),
        })
    }

    /// Adds the samples to the sums.
    fn feed(&mut self) -> Result<()> {
        match &self.source {
            Source::Device(ring) => {
                let shape = *self.plan.shape();
                let Shape { channels, encoding, layout, .. } = shape;
                let bytes = self.times / encoding.times() * shape.bytes_per_time();
                // SAFETY: the ring holds the samples as long as the plan.
                let slice = unsafe { DeviceSlice::from_raw(ring.next(), bytes, Stream::default()) };
                let samples = Samples::new(slice, encoding, layout, channels, shape.inputs)?;
                self.plan.accumulate(samples)
            }
            Source::Host(samples) => {
                self.plan.accumulate(&samples[..])?;
                self.plan.wait()
            }
            Source::Locked(samples) => {
                self.plan.accumulate(&**samples)?;
                self.plan.wait()
            }
        }
    }
}

/// Has the device write the visibilities of all channels to memory of its own, made if need be.
fn dump_device<'a>(
    plan: &mut Correlator,
    gpu: &Arc<dyn Gpu>,
    room: &'a mut Option<Buffer>,
) -> Result<&'a Buffer> {
    let Shape { inputs, channels, encoding, .. } = *plan.shape();
    let exact = encoding.is_integer();
    let size = if exact { size_of::<Complex<i64>>() } else { size_of::<Complex<f32>>() };
    let room = match room {
        Some(room) => room,
        none => none.insert(Buffer::new(gpu, channels * baselines(inputs) * size)?),
    };
    match exact {
        true => plan.dump_device(room.slice_mut::<Complex<i64>>())?,
        false => plan.dump_device(room.slice_mut::<Complex<f32>>())?,
    };
    Ok(room)
}

/// Some rows of as many values in device memory.
fn rows<T: Pod>(
    gpu: &Arc<dyn Gpu>,
    room: &Buffer,
    numbers: [usize; 2],
    length: usize,
) -> Result<Array2<T>> {
    let mut values = vec![T::zeroed(); numbers.len() * length];
    for (row, number) in values.chunks_exact_mut(length).zip(numbers) {
        let bytes = bytemuck::cast_slice_mut(row);
        let address = room.address() + (number * bytes.len()) as u64;
        // SAFETY: the room has this row.
        unsafe { gpu.download(Stream::default(), address, bytes)? };
    }
    Ok(Array2::from_shape_vec((numbers.len(), length), values).expect("rows of that length"))
}

impl Work for Correlating {
    fn run(&mut self) -> Result<()> {
        // An integration of so many times has an end.
        if !matches!(self.sums, Sums::Added) || self.plan.times() > 1 << 32 {
            self.plan.reset();
        }
        (0..self.sums.calls()).try_for_each(|_| self.feed())?;
        if let (Sums::Dumped { room, .. }, Some(gpu)) = (&mut self.sums, self.plan.gpu().cloned()) {
            dump_device(&mut self.plan, &gpu, room)?;
        }
        Ok(())
    }

    /// Exactly, or to a thousandth for `cf16`.
    fn check(&mut self) -> Result<bool> {
        let mut runs = self.sums.calls();
        if matches!(self.sums, Sums::Added) {
            runs = Self::ADDED;
            self.plan.reset();
            (0..runs).try_for_each(|_| self.run())?;
        }
        Ok(match (&self.ends()?, &*self.expected) {
            (Visibilities::Integer(found), Visibilities::Integer(expected)) => {
                *found == expected.mapv(|sum| sum * runs as i64)
            }
            (Visibilities::Float(found), Visibilities::Float(expected)) => {
                let expected = expected.mapv(|sum| sum * runs as f32);
                let norm = |values: &Array2<Complex<f32>>| {
                    values.iter().map(|value| f64::from(value.norm_sqr())).sum::<f64>().sqrt()
                };
                norm(&(found - &expected)) <= 1e-3 * norm(&expected)
            }
            _ => false,
        })
    }
}
