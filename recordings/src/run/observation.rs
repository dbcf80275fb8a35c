//! Several products of one recording, which is read once.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use corrust_host::{
    Beamformer, Correlator, Error, Layout, Result,
    beamform::Beams,
    device::{Buffer, Gpu, Stream},
    kurtosis::{Kurtosis, Sums},
    samples::{Extents, Memory, Missing, Samples, Strides},
};

use crate::run::{dumps::Integration, pieces::Pieces};

/// Consecutive times of a recording, as products see them.
#[derive(Clone, Copy, Debug)]
pub struct Times<'a> {
    /// The first of them, counted from the recording's first.
    pub start: u64,
    /// How many they are.
    pub times: u64,
    /// Number of missing times.
    pub missing: u64,
    /// The samples; [`None`] within a long gap, where all are missing.
    pub samples: Option<Views<'a>>,
}

/// Views of the same samples.
#[derive(Clone, Copy, Debug)]
pub struct Views<'a> {
    /// In the memory of the observation's GPU if it has one, else in the host's.
    pub near: Samples<'a>,
    /// In the host's memory; [`None`] where they never came there and no product [needs](Product::needs_host) it.
    pub host: Option<Samples<'a>>,
}

/// Something that is made of a recording's samples, in the order of their times.
pub trait Product {
    /// Takes the next times.
    ///
    /// # Errors
    /// The product's own, with which it ends.
    fn take(&mut self, times: &Times<'_>) -> Result<()>;

    /// Completes it when all times have been taken.
    ///
    /// # Errors
    /// The product's own.
    fn finish(&mut self) -> Result<()>;

    /// Whether it reads samples in the host's memory, beside [those](Views::near) of the GPU.
    fn needs_host(&self, _near: &Samples<'_>) -> bool {
        false
    }
}

/// A product of an observation.
struct Running<'a> {
    name: String,
    product: Box<dyn Product + 'a>,
    /// How long the host was at work on it.
    took: Duration,
}

/// Hears of a product's name and how long it took.
type Timed<'a> = Box<dyn FnMut(&str, Duration) + 'a>;

/// Makes several products of one recording: every sample is read once, and reaches the GPU once.
///
/// ```
/// use corrust_host::{Correlator, Device, Encoding, Layout, Result, samples::Shape};
/// use corrust_recordings::{
///     formats::Recording,
///     run::{Observation, Pieces, Visibilities},
/// };
///
/// /// Dumps of 1024 and of 64 times.
/// fn slow_and_fast(recording: Box<dyn Recording>) -> Result<[usize; 2]> {
///     let Shape { inputs, channels, encoding, layout } = recording.shape();
///     let plan = || {
///         let builder = Correlator::builder(inputs, channels).encoding(encoding).layout(layout);
///         builder.device(Device::Cpu).build()
///     };
///     let (mut slow, mut fast) = (0, 0);
///     let mut observation = Observation::over(Pieces::over(recording, 4096), None);
///     observation.add("slow", Visibilities::new(plan()?, 0..channels, 1024, |_| {
///         slow += 1;
///         Ok(())
///     }));
///     observation.add("fast", Visibilities::new(plan()?, 0..channels, 64, |_| {
///         fast += 1;
///         Ok(())
///     }));
///     let faults = observation.run(|_, _| {})?;
///     assert!(faults.is_empty());
///     Ok([slow, fast])
/// }
/// ```
pub struct Observation<'a> {
    pieces: Pieces<'a>,
    gpu: Option<Arc<dyn Gpu>>,
    running: Vec<Running<'a>>,
    timed: Option<Timed<'a>>,
}

impl<'a> Observation<'a> {
    /// An observation without products; its samples are brought to the GPU of the products, if they have one and
    /// the samples are not there.
    pub fn over(pieces: Pieces<'a>, gpu: Option<Arc<dyn Gpu>>) -> Self {
        Self { pieces: pieces.locked_for(gpu.as_ref()), gpu, running: Vec::new(), timed: None }
    }

    /// Calls `tell` at the end with each product that was made and how long the host was at work on it: which of them a stream
    /// that comes too fast waited for.
    #[must_use]
    pub fn timed(mut self, tell: impl FnMut(&str, Duration) + 'a) -> Self {
        self.timed = Some(Box::new(tell));
        self
    }

    /// Adds a product.
    pub fn add(&mut self, name: impl Into<String>, product: impl Product + 'a) {
        let (name, product) = (name.into(), Box::new(product));
        self.running.push(Running { name, product, took: Duration::ZERO });
    }

    /// Makes all products. One that fails ends alone: `tell` hears of it at once, and it is returned at the end.
    ///
    /// # Errors
    /// As for [`Pieces::next_piece`]; [`Error::Device`] and [`Error::OutOfMemory`] of the samples' way to the GPU;
    /// [`Error::Invalid`] without a product.
    pub fn run(self, mut tell: impl FnMut(&str, &Error)) -> Result<Vec<(String, Error)>> {
        let Self { mut pieces, gpu, mut running, timed } = self;
        if running.is_empty() {
            return Err(Error::invalid("an observation without products: expected at least one"));
        }
        let mut buffer = gpu.as_ref().map(|gpu| Buffer::new(gpu, 0)).transpose()?;
        let mut faults: Vec<(String, Error)> = Vec::new();
        let mut ended = |running: &mut Vec<Running<'_>>, results: Vec<Result<()>>| {
            let mut results = results.into_iter();
            running.retain(|each| match results.next() {
                Some(Err(error)) => {
                    tell(&each.name, &error);
                    faults.push((each.name.clone(), error));
                    false
                }
                _ => true,
            });
        };
        while let Some(piece) = pieces.next_piece(u64::MAX)? {
            let mut times = Times {
                start: piece.start,
                times: piece.times,
                missing: piece.missing,
                samples: None,
            };
            let gaps: Vec<Missing>;
            let bytes: Vec<u8>;
            if let Some(samples) = piece.samples {
                gaps = samples.gaps().collect();
                let Extents { channels, inputs, .. } = samples.extents();
                let layout = layout(&samples);
                let needs_host = running.iter().any(|each| each.product.needs_host(&samples));
                times.samples = Some(match (samples.memory(), &mut buffer, &gpu) {
                    (Memory::Host(all), Some(buffer), _) => {
                        buffer.reserve(all.len())?;
                        buffer.upload(Stream::default(), all)?;
                        let slice = buffer.slice().part(0..all.len());
                        let (extents, strides) = (samples.extents(), samples.strides());
                        let near = Samples::strided(slice, samples.element(), extents, strides)?;
                        let near = match samples.is_zeroed() {
                            true => near.missing_zeroed(&gaps),
                            false => near.missing(&gaps),
                        };
                        Views { near, host: Some(samples) }
                    }
                    (Memory::Device(_), _, Some(gpu)) if needs_host => {
                        bytes = samples.gather_from(gpu, layout)?;
                        let host =
                            Samples::new(&bytes[..], samples.element(), layout, channels, inputs)?;
                        Views { near: samples, host: Some(host.missing(&gaps)) }
                    }
                    (Memory::Device(_), ..) => Views { near: samples, host: None },
                    (Memory::Host(_), ..) => Views { near: samples, host: Some(samples) },
                });
            }
            let take = |each: &mut Running<'_>| {
                let start = Instant::now();
                let result = each.product.take(&times);
                each.took += start.elapsed();
                result
            };
            let results = running.iter_mut().map(take).collect();
            ended(&mut running, results);
            if running.is_empty() {
                break;
            }
        }
        let results = running.iter_mut().map(|each| each.product.finish()).collect();
        ended(&mut running, results);
        if let Some(mut tell) = timed {
            running.iter().for_each(|each| tell(&each.name, each.took));
        }
        Ok(faults)
    }
}

/// The order of samples whose times lie beside each other, or not.
fn layout(samples: &Samples<'_>) -> Layout {
    let Strides { time, input, .. } = samples.strides();
    if time < input { Layout::Cnt } else { Layout::Tcn }
}

/// Visibilities of some channels, an integration at a time.
pub struct Visibilities<Tell> {
    correlator: Correlator,
    channels: Range<usize>,
    integration: u64,
    dump: Integration,
    tell: Tell,
}

impl<Tell: FnMut(&Integration) -> Result<()>> Visibilities<Tell> {
    /// Dumps of `integration` times of `channels`, for a plan of so many; `tell` is given each. Times that do not
    /// fill the last one are left out, of a stream whose length nobody knew they are a dump, too (`u64::MAX`).
    pub fn new(
        mut correlator: Correlator,
        channels: Range<usize>,
        integration: u64,
        tell: Tell,
    ) -> Self {
        correlator.reset();
        Self { correlator, channels, integration, dump: Integration::default(), tell }
    }

    fn dump(&mut self) -> Result<()> {
        self.correlator.dump_gates_into(&mut self.dump.gates)?;
        (self.tell)(&self.dump)?;
        let gates = std::mem::take(&mut self.dump.gates);
        let (index, start) = (self.dump.index + 1, self.dump.start + self.dump.times);
        self.dump = Integration { index, start, gates, ..Integration::default() };
        Ok(())
    }
}

impl<Tell: FnMut(&Integration) -> Result<()>> Product for Visibilities<Tell> {
    fn take(&mut self, times: &Times<'_>) -> Result<()> {
        let mut done = 0;
        while done < times.times {
            let count = (self.integration - self.dump.times).min(times.times - done);
            self.dump.times += count;
            self.dump.kept += count;
            match &times.samples {
                Some(views) => {
                    let range = done as usize..(done + count) as usize;
                    let samples = views.near.times(range).channels(self.channels.clone());
                    self.dump.missing += missing(&samples);
                    self.correlator.accumulate(samples)?;
                }
                None => {
                    self.dump.skipped += count;
                    self.dump.missing += count;
                }
            }
            done += count;
            if self.dump.times == self.integration {
                self.dump()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        match self.integration == u64::MAX && self.dump.times > 0 {
            true => self.dump(),
            false => Ok(()),
        }
    }
}

/// Number of times of which something is missing.
fn missing(samples: &Samples<'_>) -> u64 {
    let gaps: Vec<Missing> = samples.gaps().collect();
    corrust_host::samples::missing_within(&gaps, &(0..samples.extents().times)) as u64
}

/// Beams of a recording whose inputs are the dishes of one polarisation after those of the other.
pub struct BeamsOf<'a, Tell> {
    beamformer: Beamformer,
    beams: Beams,
    tell: Tell,
    steer: Option<Steer<'a>>,
}

/// May give a plan other weights before the samples from a time on.
type Steer<'a> = Box<dyn FnMut(&mut Beamformer, u64) -> Result<()> + 'a>;

impl<'a, Tell: FnMut(u64, Option<&Beams>, u64) -> Result<()>> BeamsOf<'a, Tell> {
    /// Beams of a plan; `tell` is given the first time of each piece, its beams, none within a long gap, and how many
    /// times it has.
    pub fn new(beamformer: Beamformer, tell: Tell) -> Self {
        Self { beamformer, beams: Beams::default(), tell, steer: None }
    }

    /// Calls `steer` with the plan and the first time of each piece before the piece's beams are formed: weights and shifts
    /// that it sets hold from that time on.
    #[must_use]
    pub fn steered(mut self, steer: impl FnMut(&mut Beamformer, u64) -> Result<()> + 'a) -> Self {
        self.steer = Some(Box::new(steer));
        self
    }
}

impl<Tell: FnMut(u64, Option<&Beams>, u64) -> Result<()>> Product for BeamsOf<'_, Tell> {
    fn take(&mut self, times: &Times<'_>) -> Result<()> {
        let Some(views) = &times.samples else {
            return (self.tell)(times.start, None, times.times);
        };
        if let Some(steer) = &mut self.steer {
            steer(&mut self.beamformer, times.start)?;
        }
        let shape = *self.beamformer.shape();
        let gaps = by_dish(views.near.gaps(), shape.dishes, shape.polarisations);
        let voltages = voltages(&views.near, shape.dishes, shape.polarisations)?;
        let voltages = match views.near.is_zeroed() {
            true => voltages.missing_zeroed(&gaps),
            false => voltages.missing(&gaps),
        };
        self.beamformer.beamform_into(voltages, &mut self.beams)?;
        (self.tell)(times.start, Some(&self.beams), times.times)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The samples with a channel for each channel and polarisation, as beamformers take them.
pub(super) fn voltages<'a>(
    samples: &Samples<'a>,
    dishes: usize,
    polarisations: usize,
) -> Result<Samples<'a>> {
    let (Extents { channels, inputs, times }, strides) = (samples.extents(), samples.strides());
    if inputs != dishes * polarisations
        || polarisations > 1 && strides.channel != inputs * strides.input
    {
        return Err(Error::invalid(format!(
            "samples of {inputs} inputs: expected {dishes} dishes x {polarisations} polarisations, the channels one \
             after the other"
        )));
    }
    let extents = Extents { channels: channels * polarisations, inputs: dishes, times };
    let strides = match polarisations {
        1 => strides,
        _ => Strides { channel: dishes * strides.input, ..strides },
    };
    Samples::strided(samples.memory(), samples.element(), extents, strides)
}

/// The missing samples, counted by channels and polarisations, and dishes.
pub(super) fn by_dish(
    gaps: impl Iterator<Item = Missing>,
    dishes: usize,
    polarisations: usize,
) -> Vec<Missing> {
    let mut all = Vec::new();
    for gap in gaps {
        if polarisations == 1 {
            all.push(gap);
            continue;
        }
        for polarisation in 0..polarisations {
            let first = polarisation * dishes;
            let inputs = gap.inputs.start.max(first)..gap.inputs.end.min(first + dishes);
            if inputs.is_empty() {
                continue;
            }
            let inputs = inputs.start - first..inputs.end - first;
            all.extend(gap.channels.clone().map(|channel| {
                let stream = channel * polarisations + polarisation;
                Missing {
                    times: gap.times.clone(),
                    channels: stream..stream + 1,
                    inputs: inputs.clone(),
                }
            }));
        }
    }
    all
}

/// Sums of blocks of times: valid samples, `|x|^2`, `|x|^4` of every channel and input.
pub struct BlockSums<Tell> {
    kurtosis: Kurtosis,
    /// Times of a block.
    length: u64,
    /// The block that is begun, `[channel][input][3]`, and its times.
    begun: Vec<i64>,
    times: u64,
    tell: Tell,
}

impl<Tell: FnMut(&[i64], u64) -> Result<()>> BlockSums<Tell> {
    /// Sums of blocks of `length` times from the recording's first on, `channels` x `inputs`, by a plan of blocks of
    /// that length, where it can have such; `tell` is given each block's, int64 `[channel][input][3]`, and its times, of
    /// which the last may have fewer.
    pub fn new(
        kurtosis: Kurtosis,
        length: u64,
        channels: usize,
        inputs: usize,
        tell: Tell,
    ) -> Self {
        Self { kurtosis, length, begun: vec![0; 3 * channels * inputs], times: 0, tell }
    }

    /// Adds the sums of samples that begin where a block of the plan may.
    fn add(&mut self, sums: &Sums) -> Result<()> {
        let values = sums.values.as_slice().expect("sums lie in standard order");
        for (block, values) in values.chunks_exact(self.begun.len()).enumerate() {
            self.begun.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            self.pass(sums.range(block).len() as u64)?;
        }
        Ok(())
    }

    /// Goes on by times that do not reach beyond the block.
    fn pass(&mut self, times: u64) -> Result<()> {
        self.times += times;
        if self.times == self.length { self.end() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<()> {
        (self.tell)(&self.begun, self.times)?;
        self.begun.fill(0);
        self.times = 0;
        Ok(())
    }
}

impl<Tell: FnMut(&[i64], u64) -> Result<()>> Product for BlockSums<Tell> {
    fn take(&mut self, times: &Times<'_>) -> Result<()> {
        let Some(views) = &times.samples else {
            let mut left = times.times;
            while left > 0 {
                let count = left.min(self.length - self.times);
                left -= count;
                self.pass(count)?;
            }
            return Ok(());
        };
        let samples = match views.host {
            Some(host) if self.needs_host(&views.near) => host,
            _ => views.near,
        };
        let whole = self.length == self.kurtosis.block_times() as u64;
        let mut first = 0;
        while first < times.times {
            // What is left of the block that is begun; then all blocks at once, or one after the other.
            let left = times.times - first;
            let count =
                if whole && self.times == 0 { left } else { left.min(self.length - self.times) };
            let sums =
                self.kurtosis.sums(samples.times(first as usize..(first + count) as usize))?;
            self.add(&sums)?;
            first += count;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if self.times > 0 { self.end() } else { Ok(()) }
    }

    /// Samples that are not zero where they are missing are summed on their way from the host.
    fn needs_host(&self, near: &Samples<'_>) -> bool {
        !self.kurtosis.is_on_gpu() || !(near.is_complete() || near.is_zeroed())
    }
}

/// A product that is made of samples in the host's memory.
pub struct HostSamples<Take>(Take);

impl<Take: FnMut(Option<&Samples<'_>>, u64) -> Result<()>> HostSamples<Take> {
    /// Gives `take` the samples of consecutive times, none within a long gap, and how many times they are.
    pub fn new(take: Take) -> Self {
        Self(take)
    }
}

impl<Take: FnMut(Option<&Samples<'_>>, u64) -> Result<()>> Product for HostSamples<Take> {
    fn take(&mut self, times: &Times<'_>) -> Result<()> {
        let samples = times.samples.as_ref().map(|views| {
            views.host.as_ref().expect("samples come to the host where a product needs them there")
        });
        (self.0)(samples, times.times)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    fn needs_host(&self, _: &Samples<'_>) -> bool {
        true
    }
}
