//! Cases of the F-engine: real samples to channels, 8 taps by default.
//!
//! Useful operations: `2 P` a raw sample for the filter, and the `5 Z log2 Z` of a complex transform of `Z`
//! points with the 10 a channel that untangle it.

use std::{collections::BTreeMap, rc::Rc};

use corrust_host::{
    Channeliser, Device, Result,
    channelise::{Builder, Kernel},
    device::{Buffer, DeviceSlice, DeviceSliceMut, Stream},
    samples::{RawEncoding, RawLayout, RawSamples},
};
use num_complex::Complex;

use super::{Bound, Case, Clock, Place, Ring, Subject, Work, kernels, random_bytes};

/// Spectra of either end of a block that are compared with the CPU's.
const CHECKED: usize = 4;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of inputs.
    pub inputs: Vec<usize>,
    /// Numbers of channels; of real samples, `K` is twice as many.
    pub channels: Vec<usize>,
    /// Taps.
    pub taps: Vec<usize>,
    /// Raw samples of all inputs; by default 2^30, fewer on a CPU.
    pub samples: Option<usize>,
    /// How raw samples are stored.
    pub encodings: Vec<RawEncoding>,
    /// Kernels; none for all that the device runs.
    pub kernels: Vec<Kernel>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            inputs: vec![64],
            channels: vec![512, 1024, 2048, 4096, 8192],
            taps: vec![8],
            samples: None,
            encodings: vec![RawEncoding::I8],
            kernels: Vec::new(),
        }
    }
}

/// The cases of some options.
pub fn cases(options: &Options, place: &Place) -> Vec<Box<dyn Case>> {
    let usual = if place.gpu.is_some() { 1 << 30 } else { 1 << 22 };
    let samples = options.samples.unwrap_or(usual);
    let mut cases: Vec<Box<dyn Case>> = Vec::new();
    for &encoding in &options.encodings {
        for &taps in &options.taps {
            for &inputs in &options.inputs {
                for &channels in &options.channels {
                    let kernels = options.kernels.clone();
                    cases.push(Box::new(Size {
                        inputs,
                        channels,
                        taps,
                        samples,
                        encoding,
                        kernels,
                    }));
                }
            }
        }
    }
    cases
}

struct Size {
    inputs: usize,
    channels: usize,
    taps: usize,
    samples: usize,
    encoding: RawEncoding,
    kernels: Vec<Kernel>,
}

impl Size {
    fn builder(&self) -> Builder {
        let gains = vec![Complex::new(0.3, 0.0); self.inputs * self.channels];
        let builder = Channeliser::builder(self.inputs, self.channels).taps(self.taps);
        builder.encoding(self.encoding).gains(&gains)
    }

    /// `K`.
    fn residues(&self) -> usize {
        if self.encoding.is_complex() { self.channels } else { 2 * self.channels }
    }

    /// Spectra of a run.
    fn spectra(&self) -> usize {
        (self.samples / self.inputs / self.residues()).max(2 * CHECKED)
    }

    /// Raw samples of an input: what comes before the second spectrum's own, and a spectrum's for each.
    fn times(&self) -> usize {
        (self.spectra() + self.taps - 1) * self.residues()
    }

    fn raw<'a>(
        &self,
        memory: impl Into<corrust_host::samples::Memory<'a>>,
    ) -> Result<RawSamples<'a>> {
        let pitch = self.encoding.bytes(self.times());
        let shape = [self.inputs, self.times()];
        RawSamples::strided(memory, self.encoding, RawLayout::Nt, shape, pitch)
    }

    /// The first and the last spectra, by the CPU.
    fn expected(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut plan = self.builder().device(Device::Cpu).build()?;
        let part = (CHECKED + self.taps - 1) * self.residues();
        let mut spectra = Vec::new();
        for first in [0, self.times() - part] {
            plan.reset();
            let samples = self.raw(bytes)?.times(first..first + part);
            spectra.extend(plan.channelise(samples)?.bytes);
        }
        Ok(spectra)
    }
}

impl Case for Size {
    fn system(&self) -> &'static str {
        "channelise"
    }

    fn label(&self) -> String {
        let Self { inputs, taps, encoding, .. } = self;
        format!("N {inputs}, K {}, P {taps}, M {}, {encoding}", self.residues(), self.spectra())
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        let sizes = [self.inputs, self.channels, self.residues(), self.taps, self.spectra()];
        ["N", "C", "K", "P", "M"].into_iter().zip(sizes.map(|size| size as u64)).collect()
    }

    fn encoding(&self) -> String {
        self.encoding.to_string()
    }

    fn subjects(&self, place: &Place) -> Result<Vec<Subject>> {
        let build = |kernel| {
            let builder = self.builder().kernel(kernel);
            match &place.gpu {
                Some(gpu) => builder.gpu(gpu.clone()),
                None => builder.device(Device::Cpu),
            }
            .build()
        };
        let auto = build(Kernel::Auto)?.kernel();
        let bytes: Rc<[u8]> = random_bytes(self.inputs * self.encoding.bytes(self.times())).into();
        let expected: Rc<[u8]> = self.expected(&bytes)?.into();
        let size = self.channels * self.inputs * self.spectra() * 2;
        let memory = match &place.gpu {
            Some(gpu) => Some(Rc::new((Ring::new(gpu, &bytes)?, Ring::empty(gpu, size)?))),
            None => None,
        };
        let raw = (self.inputs * self.residues() * self.spectra()) as f64;
        let channels = (self.inputs * self.channels * self.spectra()) as f64;
        let parts = if self.encoding.is_complex() { 2.0 } else { 1.0 };
        let levels = (self.channels as f64).log2();
        let useful_operations =
            2.0 * self.taps as f64 * parts * raw + (5.0 * levels + 10.0) * channels;
        let moved = bytes.len() as f64 + size as f64;
        let mut subjects = Vec::new();
        for (_, plan) in kernels(Kernel::ALL, Kernel::Auto, &self.kernels, build)? {
            let name = plan.kernel();
            let source = match (&place.gpu, &memory) {
                (Some(gpu), Some(rings)) => {
                    Source::Device { rings: rings.clone(), spectra: Buffer::new(gpu, size)? }
                }
                _ => Source::Host(bytes.clone()),
            };
            subjects.push(Subject {
                auto: name == auto,
                kernel: name.to_string(),
                what: "kernel",
                clock: if place.gpu.is_some() { Clock::Device } else { Clock::Host },
                sustain: name == auto || !self.kernels.is_empty(),
                useful_operations,
                bytes: moved,
                items: (raw, "samples"),
                bounds: vec![Bound::memory(moved)],
                work: Box::new(Channelising {
                    plan,
                    source,
                    size: Size { kernels: Vec::new(), ..*self },
                    expected: expected.clone(),
                    found: Vec::new(),
                }),
            });
        }
        Ok(subjects)
    }
}

/// Where the samples are.
enum Source {
    /// In rings, samples and spectra; the run that is checked leaves its spectra in `spectra`.
    Device { rings: Rc<(Ring, Ring)>, spectra: Buffer },
    /// In ordinary memory.
    Host(Rc<[u8]>),
}

struct Channelising {
    plan: Channeliser,
    source: Source,
    size: Size,
    expected: Rc<[u8]>,
    /// Spectra of the last run from host memory.
    found: Vec<u8>,
}

impl Channelising {
    fn on_device(&mut self, address: u64, room: u64) -> Result<()> {
        let size = &self.size;
        let bytes = size.inputs * size.encoding.bytes(size.times());
        let spectra = 2 * size.channels * size.inputs * size.spectra();
        // SAFETY: places of the rings are as long as the shape asks for.
        let (samples, room) = unsafe {
            (
                DeviceSlice::from_raw(address, bytes, Stream::default()),
                DeviceSliceMut::from_raw(room, spectra, Stream::default()),
            )
        };
        self.plan.reset();
        self.plan.channelise_device(size.raw(samples)?, room).map(|_| ())
    }
}

impl Work for Channelising {
    fn run(&mut self) -> Result<()> {
        match &self.source {
            Source::Device { rings, .. } => {
                let (from, to) = (rings.0.next(), rings.1.next());
                self.on_device(from, to)
            }
            Source::Host(bytes) => {
                self.plan.reset();
                self.found = self.plan.channelise(self.size.raw(&bytes[..])?)?.bytes;
                Ok(())
            }
        }
    }

    fn check(&mut self) -> Result<bool> {
        if let Source::Device { rings, spectra } = &self.source {
            let (from, to) = (rings.0.next(), spectra.address());
            self.found.resize(spectra.bytes(), 0);
            self.on_device(from, to)?;
            if let Source::Device { spectra, .. } = &self.source {
                spectra.download(Stream::default(), &mut self.found)?;
            }
        }
        let part = self.expected.len() / 2;
        let last = self.found.len() - part;
        Ok(self.found[..part] == self.expected[..part]
            && self.found[last..] == self.expected[part..])
    }
}
