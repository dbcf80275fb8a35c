//! Cases of the F-engine: real samples to channels, 8 taps by default, and on to visibilities.
//!
//! Useful operations: `2 P` a raw sample for the filter, and the `5 Z log2 Z` of a complex transform of `Z`
//! points with the 10 a channel that untangle it.

use std::{collections::BTreeMap, rc::Rc};

use corrust_host::{
    Channeliser, Device, Result,
    channelise::Kernel,
    correlate::Visibilities,
    correlate::useful_operations as useful_operations_of_correlation,
    device::{DeviceSlice, DeviceSliceMut, Stream},
    samples::RawEncoding,
};

use crate::{
    case::{BenchDevice, Bound, Case, Clock, Subject, kernels},
    data::locked,
    fx::{self, Fx},
    size::Size,
    spectra::{self, FilterBank, MakingSpectra, Rings},
};

/// Most bytes of visibilities that raw samples are made to: a CPU makes them too.
const MOST_VISIBILITIES: usize = 1 << 30;

/// Sizes and kernels to measure.
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
    /// Encodings of raw samples.
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
pub fn cases(options: &Options, place: &BenchDevice) -> Vec<Box<dyn Case>> {
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
        let bytes = Rc::new(place.random_bytes(self.bytes()));
        let expected: Rc<[u8]> = place.expected(|| self.expected(&bytes))?.into();
        let size = self.channels * self.inputs * self.spectra() * 2;
        let rings = spectra::rings(place, &bytes, size)?;
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
            let bank = Channelising { plan, size: self.clone() };
            let work = MakingSpectra::new(bank, place, (&bytes, &rings), size, &expected)?;
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
                work: Box::new(work),
            });
        }
        let asked = self.kernels.is_empty() || self.kernels.contains(&auto);
        if asked && self.visibilities() <= MOST_VISIBILITIES {
            let operations = useful_operations
                + useful_operations_of_correlation(
                    self.inputs,
                    self.channels,
                    self.spectra() as u64,
                );
            subjects.extend(self.fx(place, operations, rings, &bytes, &expected)?);
        }
        Ok(subjects)
    }
}

impl Size {
    /// Samples to visibilities: from where the device has them, and from page-locked memory to a GPU.
    fn fx(
        &self,
        place: &BenchDevice,
        useful_operations: f64,
        rings: Option<Rings>,
        bytes: &Rc<Vec<u8>>,
        expected: &[u8],
    ) -> Result<Vec<Subject>> {
        let expected = Rc::new(match place.model.is_some() {
            true => Visibilities::Integer(Default::default()),
            false => Fx::expected(self, expected)?,
        });
        let whole = fx::Whole::default();
        let sources = match (&place.gpu, rings) {
            (Some(gpu), Some(rings)) => {
                let locked = fx::FxMemory::Locked(Rc::new(locked(gpu, bytes)?));
                vec![("FX", fx::FxMemory::Device(rings)), ("FX page-locked", locked)]
            }
            _ => vec![("FX", fx::FxMemory::Host(bytes.clone()))],
        };
        let moved = (bytes.len() + self.visibilities()) as f64;
        let subjects = sources.into_iter().map(|(what, source)| {
            let on_device = matches!(source, fx::FxMemory::Device(_));
            let mut bounds = vec![Bound::memory(moved)];
            if matches!(source, fx::FxMemory::Locked(_)) {
                bounds.push(Bound::upload(bytes.len() as f64));
            }
            let work = Fx::new(self, place, source, &expected, &whole)?;
            Ok(Subject {
                auto: true,
                kernel: work.kernel(),
                what,
                clock: if on_device { Clock::Device } else { Clock::Host },
                sustain: false,
                useful_operations,
                bytes: moved,
                items: ((self.inputs * self.residues() * self.spectra()) as f64, "samples"),
                bounds,
                work: Box::new(work),
            })
        });
        subjects.collect()
    }
}

struct Channelising {
    plan: Channeliser,
    size: Size,
}

impl FilterBank for Channelising {
    fn make(&mut self, samples: u64, spectra: u64) -> Result<()> {
        let size = &self.size;
        let bytes = size.bytes();
        let room = 2 * size.channels * size.inputs * size.spectra();
        // SAFETY: places of the rings are as long as the shape asks for.
        let (samples, room) = unsafe {
            (
                DeviceSlice::from_raw(samples, bytes, Stream::default()),
                DeviceSliceMut::from_raw(spectra, room, Stream::default()),
            )
        };
        self.plan.reset();
        self.plan.channelise_device(size.raw(samples)?, room).map(|_| ())
    }

    fn made(&mut self, samples: &[u8]) -> Result<Vec<u8>> {
        self.plan.reset();
        Ok(self.plan.channelise(self.size.raw(samples)?)?.bytes)
    }
}
