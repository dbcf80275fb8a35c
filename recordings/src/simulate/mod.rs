//! Recordings of point sources, to try and to check a correlator with.
//!
//! An array of `N` inputs in a plane sees `K` point sources. Channel `c` of `C` lies at `c / C`
//! cycles per wideband sample, so a delay of `tau` wideband samples turns its phase by
//! `-2 pi tau c / C`:
//!
//! `x_i[c][t] = n_i[c][t] + sum_k exp(-2 pi i tau_k,i c / C) s_k[c][t]`
//!
//! with the receiver noise `n_i` of power 1 and the signals `s_k` of power [`Source::power`], all of
//! them independent complex Gaussian noise. So the visibility of inputs `i` and `j` is expected to be
//! `T sum_k p_k exp(-2 pi i (tau_k,i - tau_k,j) c / C)` in units of the receiver noise: each source
//! shows as a straight line of phase against channel whose slope is the difference of its delays.
//!
//! The samples are scaled to the [`level`] of the encoding, rounded, and clipped to its range.
//!
//! In metres and hertz the array is what [`Simulation::array`] says: a wideband sample lasts
//! [`WIDEBAND_SAMPLE`] seconds.

use std::{
    f64::consts::TAU,
    path::{Path, PathBuf},
};

use corrust_host::{Encoding, Error, Layout, Result, device, partial::PartialFile, samples::Shape};
use half::f16;
use num_complex::Complex;
use rand::{Rng, RngExt, SeedableRng, rngs::ChaCha8Rng};
use rand_distr::{Distribution, StandardNormal, UnitDisc};
use rayon::prelude::*;
use serde::Serialize;

use crate::{
    array::{
        file::{Antenna, Array, Channels, Input, Polarisation},
        pointing::{Pointing, SPEED_OF_LIGHT},
    },
    formats::{
        description, is_stream,
        npy::{Description, Dtype, Writer},
    },
};

pub(crate) mod diffusion;
pub(crate) mod raw;
pub(crate) mod scan;

pub use diffusion::{Diffusion, Photon, Species};
pub use raw::{RawSimulation, RawSource, Tone, raw_level};
pub use scan::Scan;

/// Hertz of the band.
const WIDTH: f64 = 1e9;

/// Seconds of a wideband sample: the band is 1 GHz wide.
pub const WIDEBAND_SAMPLE: f64 = 1.0 / WIDTH;

/// Bytes of samples that are made at a time: parts of a second, so that progress is steady.
const BLOCK_BYTES: usize = 1 << 23;

/// Stream of random numbers that the array and the sky are drawn from; times have the others.
const GEOMETRY_STREAM: u64 = u64::MAX;

/// A recording to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulation {
    /// Inputs, channels, encoding and layout.
    pub shape: Shape,
    /// Number of times.
    pub times: u64,
    /// Number of point sources, each half as strong as the one before.
    pub sources: usize,
    /// Equal seeds give equal recordings.
    pub seed: u64,
}

/// One point source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Source {
    /// Power received by each input, in units of the receiver noise's.
    pub power: f64,
    /// Delay of the source at each input, in wideband samples after the centre of the array.
    pub delays: Vec<f64>,
    /// Direction of the source: a unit vector east, north, up.
    #[serde(skip)]
    pub direction: [f64; 3],
}

impl Simulation {
    /// Checks that the recording can be made.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a recording without inputs, channels or times, one of bits, or one too large to
    /// be addressed.
    pub fn check(&self) -> Result<()> {
        self.shape.check()?;
        check_sources(self.sources)?;
        if self.times == 0 {
            return Err(Error::invalid("0 times: a recording needs at least 1"));
        }
        if self.shape.encoding.is_bits() {
            return Err(Error::invalid(format!(
                "a simulated recording of {}: expected ci8, ci4, ci4-offset or cf16, of which quantise \
                 makes bits",
                self.shape.encoding
            )));
        }
        let addressable = u128::from(self.times)
            .checked_mul(self.shape.bytes_per_time() as u128)
            .is_some_and(|bytes| bytes <= isize::MAX as u128);
        if !addressable {
            return Err(Error::invalid(format!(
                "{} times of {} bytes cannot be addressed",
                self.times,
                self.shape.bytes_per_time()
            )));
        }
        Ok(())
    }

    /// The sources and their delays: inputs in a disc whose radius is an eighth of the unambiguous
    /// delay of `C` wideband samples, sources anywhere above it.
    pub fn sky(&self) -> Vec<Source> {
        let mut random = self.random(GEOMETRY_STREAM);
        let inputs = self.inputs(&mut random);
        (0..self.sources)
            .map(|source| {
                let [x, y]: [f64; 2] = UnitDisc.sample(&mut random);
                let later = |input: &[f64; 2]| input[0] * x + input[1] * y;
                Source {
                    power: 0.5_f64.powi(source as i32 + 1),
                    delays: inputs.iter().map(|input| self.radius() * later(input)).collect(),
                    // Antennas that lie towards the source receive it earlier.
                    direction: [-x, -y, (1.0 - x * x - y * y).max(0.0).sqrt()],
                }
            })
            .collect()
    }

    /// The array and the sky in metres and hertz, with a beam at each source.
    pub fn array(&self) -> Array {
        let radius = self.radius() * WIDEBAND_SAMPLE * SPEED_OF_LIGHT;
        let places = self.inputs(&mut self.random(GEOMETRY_STREAM));
        let antenna = |(number, [x, y]): (usize, [f64; 2])| Antenna {
            name: number.to_string(),
            number: number as u32,
            position: [radius * x, radius * y, 0.0],
        };
        let input = |antenna| Input { antenna, polarisation: Polarisation::X };
        let channels = self.shape.channels;
        let frequency = |channel| channel as f64 * WIDTH / channels as f64;
        Array {
            antennas: Some(places.into_iter().enumerate().map(antenna).collect()),
            inputs: Some((0..self.shape.inputs).map(input).collect()),
            channels: Some(Channels::Each((0..channels).map(frequency).collect())),
            sample_time: Some(WIDEBAND_SAMPLE * channels as f64),
            pointings: Some(self.sky().iter().map(|s| Pointing::Direction(s.direction)).collect()),
            ..Array::default()
        }
    }

    /// Positions of the inputs, east and north, in units of the [radius](Self::radius).
    fn inputs(&self, random: &mut ChaCha8Rng) -> Vec<[f64; 2]> {
        random.sample_iter(UnitDisc).take(self.shape.inputs).collect()
    }

    /// Radius of the array in wideband samples.
    fn radius(&self) -> f64 {
        self.shape.channels as f64 / 8.0
    }

    /// Writes the recording to the NumPy file `path`, calling `progress` with the number of times
    /// made so far, and returns the sky. Beside it, with the extension `json`, appears a description
    /// of the recording with the sources and their delays, and for 4-bit samples
    /// [their encoding](Self::typed_beside).
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`check`](Self::check); [`Error::OutOfMemory`] for too many sources,
    /// inputs and channels; [`Error::Io`] when a file cannot be written; whatever `progress` returns to stop the simulation.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64) -> Result<()>,
    ) -> Result<Vec<Source>> {
        let path = path.as_ref();
        self.check()?;
        let description = description(path)?;
        let Shape { inputs, channels, encoding, layout } = self.shape;
        let times = self.times as usize;
        let dtype = match encoding {
            Encoding::Ci8 => Dtype::Int8,
            Encoding::Ci4 | Encoding::Ci4Offset => Dtype::Uint8,
            Encoding::Cf16 => Dtype::Float16,
            Encoding::B1 | Encoding::B2 => unreachable!("checked"),
        };
        let mut axes = match layout {
            Layout::Tcn => vec![times, channels, inputs],
            Layout::Cnt => vec![channels, inputs, times],
        };
        if encoding.bytes() > dtype.bytes() {
            axes.push(2);
        }
        let mut writer = Writer::with_shape(path, dtype, &axes)?;

        let sample = encoding.bytes();
        let elements = |samples: usize| (samples * sample / dtype.bytes()) as u64;
        let step = self.shape.bytes_per_time();
        let mut row = Vec::new();
        let sky = self.blocks(|start, block| {
            match layout {
                Layout::Tcn => writer.write_at(elements(start * channels * inputs), block)?,
                Layout::Cnt => {
                    for stream in 0..channels * inputs {
                        row.clear();
                        for time in block.chunks_exact(step) {
                            row.extend_from_slice(&time[stream * sample..][..sample]);
                        }
                        writer.write_at(elements(stream * times + start), &row)?;
                    }
                }
            }
            progress((start + block.len() / step) as u64)
        })?;
        let described = write_description(description, || self.describe(&sky));
        let typed = match self.typed_beside(path) {
            Some(_) => Description::new(encoding, layout, &axes).write(path),
            None => Ok(()),
        };
        writer.finish().and(described).and(typed)?;
        Ok(sky)
    }

    /// Name of the file that [`write`](Self::write) puts beside the recording `path` to say the encoding of its bytes; [`None`] where the
    /// type of the array says it, and beside a pipe.
    pub fn typed_beside(&self, path: &Path) -> Option<PathBuf> {
        let bytes = matches!(self.shape.encoding, Encoding::Ci4 | Encoding::Ci4Offset);
        (bytes && !is_stream(path)).then(|| Description::path(path))
    }

    /// Hands the samples to `take` block by block, each with its first time, in the order of `tcn` whatever the
    /// layout, and returns the sky.
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`check`](Self::check); [`Error::OutOfMemory`] for too many sources, inputs and
    /// channels; whatever `take` returns to stop the simulation.
    pub fn blocks(&self, mut take: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<Vec<Source>> {
        self.check()?;
        let Shape { inputs, channels, .. } = self.shape;
        // First what may be large: a sentence where there is no memory for it.
        let phases = device::zeros(channels.saturating_mul(inputs).saturating_mul(self.sources))?;
        let sky = self.sky();
        let receiver = Receiver::new(self, &sky, phases);
        let (times, step) = (self.times as usize, self.shape.bytes_per_time());
        let block_times = (BLOCK_BYTES / step).clamp(1, times);
        let mut block = device::zeros(block_times * step)?;
        let mut start = 0;
        while start < times {
            let count = block_times.min(times - start);
            let block = &mut block[..count * step];
            block.par_chunks_exact_mut(step).enumerate().for_each(|(time, samples)| {
                receiver.receive((start + time) as u64, samples);
            });
            take(start, block)?;
            start += count;
        }
        Ok(sky)
    }

    /// A description of the recording, in JSON.
    fn describe(&self, sky: &[Source]) -> String {
        #[derive(Serialize)]
        struct Description<'a> {
            model: &'static str,
            channels: usize,
            times: u64,
            encoding: &'static str,
            layout: &'static str,
            level: f64,
            seed: u64,
            noise_power: f64,
            sources: &'a [Source],
            wideband_sample_seconds: f64,
            #[serde(flatten)]
            array: Array,
        }
        let description = Description {
            model: "x_i[c][t] = n_i[c][t] + sum_k exp(-2 pi i delay_k,i c / channels) s_k[c][t]; \
                    delays in wideband samples, positions in metres east, north and up, \
                    frequencies in hertz, pointings at the sources",
            channels: self.shape.channels,
            times: self.times,
            encoding: self.shape.encoding.name(),
            layout: self.shape.layout.name(),
            level: level(self.shape.encoding),
            seed: self.seed,
            noise_power: 1.0,
            sources: sky,
            wideband_sample_seconds: WIDEBAND_SAMPLE,
            array: self.array(),
        };
        serde_json::to_string_pretty(&description).expect("numbers and names are always JSON")
            + "\n"
    }

    /// A stream of random numbers of its own.
    fn random(&self, stream: u64) -> ChaCha8Rng {
        random(self.seed, stream)
    }
}

/// A stream of random numbers of its own.
fn random(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    random
}

/// Refuses sources of no power: each has half of the one before.
fn check_sources(count: usize) -> Result<()> {
    const MOST: usize = f64::MIN_EXP.unsigned_abs() as usize;
    if count <= MOST {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{count} sources: expected at most {MOST}, each half as strong as the one before"
    )))
}

/// Writes what stands beside a recording, where anything can.
fn write_description(path: Option<PathBuf>, text: impl FnOnce() -> String) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let mut file = PartialFile::create(path)?;
    file.append(text().as_bytes())?;
    file.finish()
}

/// Root mean square of the real and of the imaginary part of the samples, in quantisation steps:
/// small enough that clipping is rare, large enough that rounding adds little noise.
pub const fn level(encoding: Encoding) -> f64 {
    match encoding {
        Encoding::Ci8 => 20.0,
        Encoding::Ci4 | Encoding::Ci4Offset => 2.5,
        Encoding::Cf16 | Encoding::B1 | Encoding::B2 => 1.0,
    }
}

/// Quantiser of the received signals.
struct Receiver<'a> {
    simulation: &'a Simulation,
    /// Amplitude of each source's real and imaginary part.
    amplitudes: Vec<f32>,
    /// Phase factors `[channel][source][input]`.
    phases: Vec<Complex<f32>>,
    /// From the receiver noise's units to quantisation steps.
    scale: f32,
}

impl<'a> Receiver<'a> {
    /// Fills `phases`, which has room for every channel, source and input.
    fn new(simulation: &'a Simulation, sky: &[Source], mut phases: Vec<Complex<f32>>) -> Self {
        let Shape { inputs, channels, .. } = simulation.shape;
        let rows = phases.chunks_exact_mut(inputs * sky.len().max(1));
        for (channel, row) in rows.enumerate() {
            let frequency = channel as f64 / channels as f64;
            let delays = sky.iter().flat_map(|source| &source.delays);
            for (factor, delay) in row.iter_mut().zip(delays) {
                let phase = Complex::cis(-TAU * delay * frequency);
                *factor = Complex::new(phase.re as f32, phase.im as f32);
            }
        }
        let power = 1.0 + sky.iter().map(|source| source.power).sum::<f64>();
        Self {
            simulation,
            amplitudes: sky.iter().map(|source| (source.power / 2.0).sqrt() as f32).collect(),
            phases,
            scale: (level(simulation.shape.encoding) / (power / 2.0).sqrt()) as f32,
        }
    }

    /// Makes the samples of one time, `[channel][input]`.
    fn receive(&self, time: u64, samples: &mut [u8]) {
        let Shape { inputs, channels, encoding, .. } = self.simulation.shape;
        let mut random = self.simulation.random(time);
        let mut voltages = vec![Complex::new(0.0, 0.0); inputs];
        for (channel, samples) in
            (0..channels).zip(samples.chunks_exact_mut(inputs * encoding.bytes()))
        {
            let amplitude = std::f32::consts::FRAC_1_SQRT_2;
            voltages.fill_with(|| gaussian(&mut random, amplitude));
            for (source, &amplitude) in self.amplitudes.iter().enumerate() {
                let signal = gaussian(&mut random, amplitude);
                let first = (channel * self.amplitudes.len() + source) * inputs;
                for (voltage, phase) in voltages.iter_mut().zip(&self.phases[first..]) {
                    *voltage += signal * phase;
                }
            }
            for (sample, voltage) in samples.chunks_exact_mut(encoding.bytes()).zip(&voltages) {
                encode(voltage * self.scale, encoding, sample);
            }
        }
    }
}

/// A complex number whose parts are independent, Gaussian, and have this standard deviation.
fn gaussian(random: &mut impl Rng, amplitude: f32) -> Complex<f32> {
    let mut normal = || -> f32 { random.sample(StandardNormal) };
    Complex::new(normal(), normal()) * amplitude
}

/// Rounds and clips a voltage to an encoding.
fn encode(voltage: Complex<f32>, encoding: Encoding, sample: &mut [u8]) {
    let quantise =
        |part: f32, least: f32, most: f32| part.round_ties_even().clamp(least, most) as i8;
    match encoding {
        Encoding::Ci8 => {
            sample[0] = quantise(voltage.re, -128.0, 127.0) as u8;
            sample[1] = quantise(voltage.im, -128.0, 127.0) as u8;
        }
        Encoding::Ci4 | Encoding::Ci4Offset => {
            let offset = if encoding == Encoding::Ci4Offset { 8 } else { 0 };
            let nibble = |part| (quantise(part, -8.0, 7.0) + offset) as u8 & 15;
            sample[0] = nibble(voltage.re) << 4 | nibble(voltage.im);
        }
        Encoding::Cf16 => {
            sample[..2].copy_from_slice(&f16::from_f32(voltage.re).to_le_bytes());
            sample[2..].copy_from_slice(&f16::from_f32(voltage.im).to_le_bytes());
        }
        Encoding::B1 | Encoding::B2 => unreachable!("checked"),
    }
}
