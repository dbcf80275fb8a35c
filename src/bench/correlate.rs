//! Cases of the correlator.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    rc::Rc,
};

use corrust_host::{
    Correlator, Device, Encoding, Layout, Result,
    correlate::{Kernel, Visibilities, baselines, useful_operations},
    device::Stream,
};

use rayon::prelude::*;

use super::{Bound, Case, Clock, Place, Ring, Subject, Work, kernels, random_bytes, random_halves};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Encodings of the samples.
    pub encodings: Vec<Encoding>,
    /// Numbers of inputs.
    pub inputs: Vec<usize>,
    /// Channels; by default about as many as make the work of 20 channels of 2048 inputs.
    pub channels: Option<usize>,
    /// Times.
    pub times: usize,
    /// Kernels; none for all that the device runs.
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
            channels: None,
            times: 3072,
            kernels: Vec::new(),
            compare_at: None,
        }
    }
}

/// The cases of some options.
pub fn cases(options: &Options, place: &Place) -> Vec<Box<dyn Case>> {
    // A CPU does in seconds what a GPU does in a millisecond.
    let work = if place.gpu.is_some() { 20.0 } else { 0.05 } * baselines(2048) as f64;
    let mut cases: Vec<Box<dyn Case>> = Vec::new();
    for &encoding in &options.encodings {
        for &inputs in &options.inputs {
            let most = (work / baselines(inputs) as f64).round() as usize;
            let channels = options.channels.unwrap_or(most.clamp(1, 2048));
            let compare = options.compare_at.as_ref().is_none_or(|at| at.contains(&inputs));
            let kernels = match options.kernels.is_empty() && !compare {
                true => vec![Kernel::Auto],
                false => options.kernels.clone(),
            };
            let times = options.times;
            cases.push(Box::new(Correlation { encoding, inputs, channels, times, kernels }));
        }
    }
    cases
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
        let builder = |layout, kernel| {
            let builder = Correlator::builder(self.inputs, self.channels)
                .encoding(self.encoding)
                .layout(layout)
                .kernel(kernel);
            match &place.gpu {
                Some(gpu) => builder.gpu(gpu.clone()),
                None => builder.device(Device::Cpu),
            }
        };
        let samples = self.inputs * self.channels * self.times;
        let samples: Rc<[u8]> = match self.encoding {
            Encoding::Cf16 => random_halves(4 * samples),
            encoding => random_bytes(encoding.bytes() * samples),
        }
        .into();
        let placed = |samples: &Rc<[u8]>| -> Result<Source> {
            Ok(match &place.gpu {
                Some(gpu) => Source::Device(Rc::new(Ring::new(gpu, samples)?)),
                None => Source::Host(samples.clone()),
            })
        };
        let auto = builder(Layout::Cnt, Kernel::Auto).build()?.kernel();
        let mut subjects = Vec::new();
        let build = |kernel| builder(Layout::Cnt, kernel).build();
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
                    let expected = Rc::new(self.first_channel(&samples, Layout::Cnt)?);
                    unknown.insert((placed(&samples)?, expected)).clone()
                }
            };
            subjects.push(self.subject(plan, auto, "kernel", source, &expected));
        }
        // The whole way, by the kernel that a user gets.
        let wide = self.kernels.iter().copied().find(|kernel| kernel.value_bits().is_none());
        let named = wide.unwrap_or(Kernel::Auto);
        let expected = Rc::new(self.first_channel(&samples, Layout::Tcn)?);
        let plan = builder(Layout::Tcn, named).build()?;
        let source = match data.remove(&None) {
            Some((source, _)) => source,
            None => placed(&samples)?,
        };
        subjects.push(self.subject(plan, auto, "from tcn", source, &expected));
        if place.gpu.is_some() {
            let plan = builder(Layout::Tcn, named).build()?;
            let source = Source::Host(samples);
            subjects.push(self.subject(plan, auto, "from host", source, &expected));
        }
        Ok(subjects)
    }
}

impl Correlation {
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
        let operations = useful_operations(self.inputs, self.channels, self.times as u64);
        let input = (self.inputs * self.channels * self.times * self.encoding.bytes()) as f64;
        let output = (8 * baselines(self.inputs) * self.channels) as f64;
        let values = if self.encoding == Encoding::Cf16 { "f16" } else { "s8" };
        let mut bounds =
            vec![Bound::tensor(&name, values, operations), Bound::memory(input + output)];
        if what == "from host" {
            bounds.push(Bound::upload(input));
        }
        Subject {
            auto: kernel == auto,
            kernel: name,
            what,
            clock: match source {
                Source::Device(_) => Clock::Device,
                Source::Host(_) => Clock::Host,
            },
            sustain: what == "kernel" && (kernel == auto || !self.kernels.is_empty()),
            useful_operations: operations,
            bytes: input + output,
            items: ((self.channels * self.times) as f64, "matrices"),
            bounds,
            work: Box::new(Correlating {
                plan,
                source,
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

    /// The first channel's visibilities, by the CPU.
    fn first_channel(&self, samples: &[u8], layout: Layout) -> Result<Visibilities> {
        let row = self.inputs * self.encoding.bytes();
        let channel: Vec<u8> = match layout {
            Layout::Cnt => samples[..samples.len() / self.channels].to_vec(),
            Layout::Tcn => {
                let times = samples.chunks(row * self.channels);
                times.flat_map(|time| &time[..row]).copied().collect()
            }
        };
        let mut plan = Correlator::builder(self.inputs, 1)
            .encoding(self.encoding)
            .layout(layout)
            .device(Device::Cpu)
            .build()?;
        plan.accumulate(&channel)?;
        Ok(plan.dump()?.visibilities)
    }
}

/// Where the samples are.
#[derive(Clone)]
enum Source {
    Device(Rc<Ring>),
    Host(Rc<[u8]>),
}

struct Correlating {
    plan: Correlator,
    source: Source,
    times: usize,
    /// Visibilities of the first channel.
    expected: Rc<Visibilities>,
}

impl Work for Correlating {
    fn run(&mut self) -> Result<()> {
        self.plan.reset();
        match &self.source {
            // SAFETY: the ring holds the samples as long as the plan.
            Source::Device(ring) => unsafe {
                self.plan.accumulate_device(ring.next(), self.times, Stream::default())
            },
            Source::Host(samples) => {
                self.plan.accumulate(samples)?;
                self.plan.wait()
            }
        }
    }

    /// Exactly, or to a thousandth for `cf16`.
    fn check(&mut self) -> Result<bool> {
        let dump = self.plan.dump()?;
        Ok(match (&dump.visibilities, &*self.expected) {
            (Visibilities::Integer(found), Visibilities::Integer(expected)) => {
                found.row(0) == expected.row(0)
            }
            (Visibilities::Float(found), Visibilities::Float(expected)) => {
                let norm = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>().sqrt();
                let pairs = || found.row(0).into_iter().zip(expected.row(0));
                let error = norm(&mut pairs().map(|(a, b)| f64::from((a - b).norm_sqr())));
                let size = norm(&mut pairs().map(|(_, b)| f64::from(b.norm_sqr())));
                error <= 1e-3 * size
            }
            _ => false,
        })
    }
}
