//! Cases of the correlator.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    rc::Rc,
};

use corrust_host::{
    Correlator, Device, Encoding, Error, Layout, Result,
    correlate::{Builder, Kernel, Visibilities, baselines, useful_operations},
    samples::{Missing, Samples},
};
use rayon::prelude::*;

use self::{
    companions::Companions,
    work::{ADDING, Correlating, Sums, WHOLE, WHOLE_TIMES},
};
use crate::{
    case::{BenchDevice, Bound, Case, Clock, Subject, is_simulated, kernels},
    data::{Ring, SampleMemory, gaussian, locked, random_bytes, random_halves},
};

mod companions;
mod work;

/// Sizes, encodings and kernels to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Encodings of the samples.
    pub encodings: Vec<Encoding>,
    /// Numbers of inputs.
    pub inputs: Vec<usize>,
    /// Numbers of channels; none for a single number, scaled to about the work of 20 channels of 2048 inputs.
    pub channels: Vec<usize>,
    /// Number of time samples; by default 3072, for b1 and b2 16 x 3072, which have as many bytes. A CPU is given fewer
    /// at many inputs, where channels are chosen automatically.
    pub times: Option<usize>,
    /// Kernels, for the encodings that they take; none for all that the device runs.
    pub kernels: Vec<Kernel>,
    /// Numbers of inputs at which to compare all kernels, unless `kernels` names some; none for all numbers. At others,
    /// only the kernel that the device chooses runs.
    pub compare_at: Option<Vec<usize>>,
    /// Whether kernels run on samples in device memory alone: no integrations, noise, corner turns or copies.
    pub alone: bool,
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
            alone: false,
        }
    }
}

/// Times by default.
const TIMES: usize = 3072;

/// Subjects whose samples are in part missing, and times of a block of them.
const MASKED: &str = "masked";
const BLOCK_TIMES: usize = 256;

/// Products of two samples that a CPU is given at a time: all its kernels at all sizes are to take seconds.
const CPU_PRODUCTS: usize = 1 << 26;

/// Channels and times of a case whose channels were not named.
fn usual_size(inputs: usize, place: &BenchDevice) -> (usize, usize) {
    let most = |work: usize| (work as f64 / baselines(inputs) as f64).round() as usize;
    if place.gpu.is_some() {
        return (most(20 * baselines(2048)).clamp(1, 2048), TIMES);
    }
    let channels = most(CPU_PRODUCTS / TIMES).clamp(1, 2048);
    (channels, most(CPU_PRODUCTS / channels).clamp(64, TIMES))
}

/// The cases of some options: none for encodings that no named kernel takes.
pub fn cases(options: &Options, place: &BenchDevice) -> Vec<Box<dyn Case>> {
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
            let alone = options.alone;
            cases.push(Box::new(Correlation { encoding, inputs, channels, times, kernels, alone }));
            if packed && !alone && encoding == Encoding::Ci4 && place.gpu.is_some() {
                cases.push(Box::new(Companions { inputs, channels, times }));
            }
        }
    }
    cases
}

/// All kernels that a table may choose for a size, from `tcn` samples and from `cnt` ones.
pub(crate) fn candidates(encoding: Encoding, inputs: usize, place: &BenchDevice) -> Box<dyn Case> {
    /// Samples of a case: sizes of few inputs would take long to make.
    const MOST_SAMPLES: usize = 1 << 29;
    let (channels, times) = match place.simulated() {
        true => (2, 32),
        false => (usual_size(inputs, place).0.min(MOST_SAMPLES / TIMES / inputs), TIMES),
    };
    // 16 times as many time samples of bits, for the same number of bytes.
    let times =
        (if encoding.is_bits() { 16 } else { 1 } * times).next_multiple_of(encoding.times());
    let (kernels, alone) = (Vec::new(), true);
    Box::new(Candidates(Correlation { encoding, inputs, channels, times, kernels, alone }))
}

struct Candidates(Correlation);

/// Name of subjects of [`Candidates`] that take `tcn` samples.
pub(crate) const DELIVERED: &str = "delivered";
/// Name of subjects of [`Candidates`] that take `cnt` samples.
pub(crate) const ROWS: &str = "rows";

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

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let Self(case) = self;
        let samples = case.samples(place);
        let source = case.placed(place, &samples)?;
        let mut subjects = Vec::new();
        let orders = [(Layout::Tcn, DELIVERED), (Layout::Cnt, ROWS)];
        // Words of bits lie along time.
        let orders = if case.encoding.is_bits() { &orders[1..] } else { &orders[..] };
        for &(layout, what) in orders {
            let expected = Rc::new(case.end_channels(place, &samples, layout)?);
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
    alone: bool,
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

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        if !self.times.is_multiple_of(self.encoding.times()) {
            return Err(Error::invalid(format!(
                "{} times of {}: expected a multiple of {}, those of a word",
                self.times,
                self.encoding,
                self.encoding.times()
            )));
        }
        let samples = self.samples(place);
        let mut subjects = Vec::new();
        let auto = self.builder(place, Layout::Cnt, Kernel::Auto).build()?.kernel();
        let build = |kernel| self.builder(place, Layout::Cnt, kernel).build();
        // Kernels of narrower values have samples of their own.
        let mut data: BTreeMap<_, (SampleMemory, Rc<Visibilities>)> = BTreeMap::new();
        for (kernel, plan) in kernels(Kernel::ALL, Kernel::Auto, &self.kernels, build)? {
            let (source, expected) = match data.entry(kernel.value_bits()) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(unknown) => {
                    let samples = match kernel.value_bits().filter(|_| place.model.is_none()) {
                        Some(bits) => self.narrowed(&samples, bits).into(),
                        None => samples.clone(),
                    };
                    let expected = Rc::new(self.end_channels(place, &samples, Layout::Cnt)?);
                    unknown.insert((self.placed(place, &samples)?, expected)).clone()
                }
            };
            subjects.push(self.subject(plan, auto, "kernel", source, &expected));
        }
        let source = match data.remove(&None) {
            Some(known) => known,
            None => {
                let expected = Rc::new(self.end_channels(place, &samples, Layout::Cnt)?);
                (self.placed(place, &samples)?, expected)
            }
        };
        // Bits are delivered as they are multiplied, and noise has as many of each.
        if self.encoding.is_bits() || self.alone {
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
    fn builder(&self, place: &BenchDevice, layout: Layout, kernel: Kernel) -> Builder {
        let builder = Correlator::builder(self.inputs, self.channels)
            .encoding(self.encoding)
            .layout(layout)
            .kernel(kernel);
        match &place.gpu {
            Some(gpu) => builder.gpu(gpu.clone()),
            None => builder.device(Device::Cpu),
        }
    }

    /// Random samples, all values equally likely; none for a model, which has no use for them.
    fn samples(&self, place: &BenchDevice) -> Rc<Vec<u8>> {
        match self.encoding {
            _ if place.model.is_some() => vec![0; self.bytes()],
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

    fn placed(&self, place: &BenchDevice, samples: &Rc<Vec<u8>>) -> Result<SampleMemory> {
        Ok(match &place.gpu {
            Some(gpu) => SampleMemory::Device(Rc::new(Ring::new(gpu, samples)?)),
            None => SampleMemory::Host(samples.clone()),
        })
    }

    /// A kernel as it runs for hours: on sums that are there already, in integrations that end, and on noise as
    /// telescopes have it, of which fewer bits flip and for which the chip needs less power.
    fn as_used(
        &self,
        place: &BenchDevice,
        (kernel, auto): (Kernel, Kernel),
        (source, expected): &(SampleMemory, Rc<Visibilities>),
    ) -> Result<[Subject; 3]> {
        let build = || self.builder(place, Layout::Cnt, kernel).build();
        let adding = self.subject(build()?, auto, ADDING, source.clone(), expected);
        let whole = self.subject(build()?, auto, WHOLE, source.clone(), expected);
        let noise: Rc<Vec<u8>> = match place.model.is_some() {
            true => self.samples(place),
            false => gaussian(self.encoding, self.inputs * self.channels * self.times).into(),
        };
        let expected = Rc::new(self.end_channels(place, &noise, Layout::Cnt)?);
        let source = self.placed(place, &noise)?;
        Ok([adding, whole, self.subject(build()?, auto, "gaussian", source, &expected)])
    }

    /// From samples as packets deliver them: where the device has them, and from the host's memory to a GPU.
    fn whole_way(
        &self,
        place: &BenchDevice,
        named: Kernel,
        source: SampleMemory,
        samples: Rc<Vec<u8>>,
    ) -> Result<Vec<Subject>> {
        let build = || self.builder(place, Layout::Tcn, named).build();
        let auto = self.builder(place, Layout::Tcn, Kernel::Auto).build()?.kernel();
        let expected = Rc::new(self.end_channels(place, &samples, Layout::Tcn)?);
        let mut subjects =
            vec![self.subject(build()?, auto, "from tcn", source.clone(), &expected)];
        if place.gpu.is_some() && place.model.is_none() {
            let without = self.ends_without(&samples, Layout::Tcn, &self.flagged())?;
            subjects.push(self.subject(build()?, auto, MASKED, source, &Rc::new(without)));
        }
        if let Some(gpu) = place.gpu.as_ref().filter(|_| place.model.is_none()) {
            let locked = SampleMemory::Locked(Rc::new(locked(gpu, &samples)?));
            for (what, source) in
                [("from host", SampleMemory::Host(samples)), ("page-locked", locked)]
            {
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
        source: SampleMemory,
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
                SampleMemory::Device(_) => Clock::Device,
                SampleMemory::Host(_) | SampleMemory::Locked(_) => Clock::Host,
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
                missing: if what == MASKED { self.flagged() } else { Vec::new() },
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

    /// Samples that are masked: of each block of times an input in 16, in all channels.
    fn flagged(&self) -> Vec<Missing> {
        let blocks = (0..self.times).step_by(BLOCK_TIMES).enumerate();
        let of_block = |(number, first): (usize, usize)| {
            let times = first..self.times.min(first + BLOCK_TIMES);
            let inputs = (number % 16..self.inputs).step_by(16);
            inputs.map(move |input| Missing::times(times.clone()).of_inputs(input..input + 1))
        };
        blocks.flat_map(of_block).collect()
    }

    /// The first and the last channel's visibilities, by the CPU.
    fn end_channels(
        &self,
        place: &BenchDevice,
        samples: &[u8],
        layout: Layout,
    ) -> Result<Visibilities> {
        match place.model.is_some() {
            true => Ok(Visibilities::Integer(Default::default())),
            false => self.ends_without(samples, layout, &[]),
        }
    }

    /// The same without missing samples.
    fn ends_without(
        &self,
        samples: &[u8],
        layout: Layout,
        missing: &[Missing],
    ) -> Result<Visibilities> {
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
        let ends = Samples::new(&ends[..], self.inputs, 2, self.encoding, layout)?;
        plan.accumulate(ends.missing(missing))?;
        Ok(plan.dump()?.visibilities)
    }
}
