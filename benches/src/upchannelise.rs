//! Cases of the filter bank of subchannels: around the instrument of "CHORD GPU upchannelization", 16 channels of
//! 1024 inputs.
//!
//! Useful operations of a sample: `4 M` for the filter of its two components, and the `5 log2 U` of a complex transform.

use std::{collections::BTreeMap, rc::Rc};

use corrust_host::{
    Device, Encoding, Layout, Result, Upchanneliser,
    device::{DeviceSlice, DeviceSliceMut, Stream},
    samples::Samples,
    upchannelise::{Builder, Kernel},
};

use crate::{
    case::{BenchDevice, Bound, Case, Clock, Subject, kernels},
    data::random_halves,
    spectra::{self, FilterBank, MakingSpectra},
};

/// Spectra of either end of a run, the first that lack nothing and the last, that are compared with the CPU's.
const CHECKED: usize = 2;
const TAPS: usize = 4;

/// Sizes and kernels to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of inputs.
    pub inputs: Vec<usize>,
    /// Number of channels.
    pub channels: usize,
    /// Subchannels of a channel.
    pub factors: Vec<usize>,
    /// Time samples; by default 32768, fewer on a CPU.
    pub times: Option<usize>,
    /// Encodings of samples, and of their subchannels'.
    pub encodings: Vec<Encoding>,
    /// Kernels; none for all that the device runs.
    pub kernels: Vec<Kernel>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            inputs: vec![1024],
            channels: 16,
            factors: vec![16, 64],
            times: None,
            encodings: vec![Encoding::Ci4],
            kernels: Vec::new(),
        }
    }
}

/// The cases of some options.
pub fn cases(options: &Options, place: &BenchDevice) -> Vec<Box<dyn Case>> {
    let usual = if place.gpu.is_some() { 32768 } else { 256 };
    let times = options.times.unwrap_or(usual);
    let mut cases: Vec<Box<dyn Case>> = Vec::new();
    for &encoding in &options.encodings {
        for &inputs in &options.inputs {
            for &factor in &options.factors {
                let (channels, kernels) = (options.channels, options.kernels.clone());
                // As many spectra at least as are compared.
                let times = times.max((CHECKED + TAPS - 1) * factor);
                cases.push(Box::new(Bank { inputs, channels, factor, times, encoding, kernels }));
            }
        }
    }
    cases
}

/// A filter bank, and the samples of a run.
#[derive(Clone)]
struct Bank {
    inputs: usize,
    channels: usize,
    factor: usize,
    times: usize,
    encoding: Encoding,
    kernels: Vec<Kernel>,
}

impl Bank {
    fn builder(&self) -> Builder {
        let builder = Upchanneliser::builder(self.inputs, self.channels, self.factor);
        builder.taps(TAPS).encoding(self.encoding).output(self.encoding).unit_noise(true)
    }

    /// Spectra of a run, the first of which lack samples and are zero.
    fn spectra(&self) -> usize {
        self.times / self.factor
    }

    /// Bytes of the samples of a time.
    fn time_bytes(&self) -> usize {
        self.channels * self.inputs * self.encoding.bytes()
    }

    fn spectrum_bytes(&self) -> usize {
        self.factor * self.time_bytes()
    }

    /// The first and the last spectra, by the CPU.
    fn expected(&self, samples: &[u8]) -> Result<Vec<u8>> {
        let mut plan = self.builder().device(Device::Cpu).build()?;
        let before = (TAPS - 1) * self.spectrum_bytes();
        let part = before + CHECKED * self.spectrum_bytes();
        let last = self.spectra() * self.spectrum_bytes() - part;
        let mut spectra = Vec::new();
        for first in [0, last] {
            plan.reset();
            let made = plan.upchannelise(&samples[first..first + part])?;
            spectra.extend_from_slice(&made.bytes[before..]);
        }
        Ok(spectra)
    }
}

impl Case for Bank {
    fn system(&self) -> &'static str {
        "upchannelise"
    }

    fn label(&self) -> String {
        let Self { inputs, channels, factor, times, encoding, .. } = self;
        format!("{encoding}, N {inputs}, F {channels}, U {factor}, M {TAPS}, T {times}")
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        let sizes = [self.inputs, self.channels, self.factor, TAPS, self.times];
        ["N", "F", "U", "M", "T"].into_iter().zip(sizes.map(|size| size as u64)).collect()
    }

    fn encoding(&self) -> String {
        self.encoding.to_string()
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let build = |kernel| {
            let builder = self.builder().kernel(kernel);
            match &place.gpu {
                Some(gpu) => builder.gpu(gpu.clone()),
                None => builder.device(Device::Cpu),
            }
            .build()
        };
        let auto = build(Kernel::Auto)?.kernel();
        let bytes = self.times * self.time_bytes();
        let samples = Rc::new(match self.encoding {
            Encoding::Cf16 if place.model.is_none() => random_halves(bytes),
            _ => place.random_bytes(bytes),
        });
        let expected: Rc<[u8]> = place.expected(|| self.expected(&samples))?.into();
        let room = self.spectra() * self.spectrum_bytes();
        let rings = spectra::rings(place, &samples, room)?;
        let items = (self.times * self.channels * self.inputs) as f64;
        let moved = (bytes + room) as f64;
        let mut subjects = Vec::new();
        for (_, plan) in kernels(Kernel::ALL, Kernel::Auto, &self.kernels, build)? {
            let name = plan.kernel();
            let bank = Upchannelising { plan, bank: self.clone() };
            let memory = (&samples, &rings);
            let work = MakingSpectra::new(bank, place, memory, room, &expected)?;
            subjects.push(Subject {
                auto: name == auto,
                kernel: name.to_string(),
                what: "kernel",
                clock: if place.gpu.is_some() { Clock::Device } else { Clock::Host },
                sustain: name == auto || !self.kernels.is_empty(),
                useful_operations: items * (4 * TAPS) as f64
                    + items * 5.0 * (self.factor as f64).log2(),
                bytes: moved,
                items: (items, "samples"),
                bounds: vec![Bound::memory(moved)],
                work: Box::new(work),
            });
        }
        Ok(subjects)
    }
}

struct Upchannelising {
    plan: Upchanneliser,
    bank: Bank,
}

impl FilterBank for Upchannelising {
    fn make(&mut self, samples: u64, spectra: u64) -> Result<()> {
        let Bank { inputs, channels, times, encoding, .. } = self.bank;
        let size = self.bank.spectra() * self.bank.spectrum_bytes();
        // SAFETY: places of the rings are as long as the shape asks for.
        let (samples, room) = unsafe {
            (
                DeviceSlice::from_raw(samples, times * self.bank.time_bytes(), Stream::default()),
                DeviceSliceMut::from_raw(spectra, size, Stream::default()),
            )
        };
        self.plan.reset();
        let samples = Samples::new(samples, inputs, channels, encoding, Layout::Tcn)?;
        self.plan.upchannelise_device(samples, room).map(|_| ())
    }

    fn made(&mut self, samples: &[u8]) -> Result<Vec<u8>> {
        self.plan.reset();
        Ok(self.plan.upchannelise(samples)?.bytes)
    }

    fn skipped(&self) -> usize {
        (TAPS - 1) * self.bank.spectrum_bytes()
    }
}
