//! Recordings of raw voltages, as digitisers deliver them, of point sources that move.
//!
//! Input `i` with receiver noise `n_i` hears source `k` when its delay (what would be put in to undo it,
//! [`crate::array`]) says:
//!
//! `x_i(u) = n_i(u) + sum_k sqrt(p_k) s_k(t) exp(2 pi i f0 (t - u))`, `t = u + d_k,i(t)`,
//!
//! for complex samples; real ones are the real part, times the root of two, of a source of positive
//! frequencies. `f0` is the sky frequency of DC. Delays that change shift the frequencies by the Doppler
//! effect without further ado.
//!
//! **Sources** are functions of continuous time, `s(t) = sum over m of w[m] h(t fs - m)`, of white noise `w`
//! and a prototype `h`, a sinc of 128 samples under a Kaiser window. There is no sampled signal that would be
//! delayed with an error: `h` is evaluated where the delay, in f64, says. It is flat to 92 % of the Nyquist
//! frequency, 6 dB down at 96 %, and 80 dB beyond 100 %, so that aliases are. Real samples have a band-pass
//! with the same edge at DC as at the Nyquist frequency. `h` is held at 1024 places a sample and interpolated
//! in between, with an error of 1e-6 of its height.
//!
//! Delays are evaluated, in f64, at three times of every 256 samples; a parabola joins them.
//!
//! **Noise** is white; a chunk of samples has random numbers of its own, so that any part of a recording can
//! be made alone, by any number of threads.

use std::{f64::consts::TAU, ops::Range, path::Path};

use corrust_host::{
    Encoding, Error, Result,
    channelise::DelayModel,
    device,
    samples::{RawEncoding, RawLayout},
};
use rand::{RngExt, rngs::ChaCha8Rng};
use rand_distr::{Distribution, StandardNormal, UnitDisc};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use super::{GEOMETRY_STREAM, check_sources, random, write_description};
use crate::{
    array::{
        file::{Antenna, Array, Field, Input, Location, PhaseCenter, Polarisation},
        geometric::Geometric,
        polynomials::Polynomials,
    },
    formats::{
        description,
        npy::{self, Dtype},
        vdif,
    },
};

/// Samples that the prototype of a source is long.
const TAPS: usize = 128;

/// Places of the prototype between two samples.
const PHASES: usize = 1024;

/// Samples between two times at which delays are evaluated, twice.
const RUN: usize = 256;

/// Samples that share a stream of random numbers: a multiple of [`RUN`].
const CHUNK: usize = 4096;

/// Bytes of samples that are made at a time: parts of a second, so that progress is steady.
const BLOCK_BYTES: usize = 1 << 22;

/// Inputs of an array, at most.
const MOST_INPUTS: usize = 1 << 16;

/// Decibels by which what lies outside the band is lower.
const STOP_BAND: f64 = 80.0;

/// Seconds before the start and after the end for which delays are made.
const MARGIN: f64 = 1.0;

/// Accuracy of the polynomials of geometric delays, in seconds.
const TOLERANCE: f64 = 1e-15;

/// Width of the prototype's edge, in units of the sampling frequency (Kaiser's formula).
fn edge() -> f64 {
    (STOP_BAND - 7.95) / (14.36 * TAPS as f64)
}

/// Raw voltages of an array.
#[derive(Clone, Debug)]
pub struct RawSimulation {
    /// Number of inputs.
    pub inputs: usize,
    /// Samples of each input.
    pub times: u64,
    /// Samples per second.
    pub rate: f64,
    /// Hertz on the sky of what becomes DC.
    pub sky_frequency: f64,
    /// Encoding of stored samples: `i8`, `i16`, `f32`, `ci8`, `ci16` or `cf32` in NumPy files, or VDIF's in its own files.
    pub encoding: RawEncoding,
    /// Order of the samples.
    pub layout: RawLayout,
    /// Bits of a real or imaginary part, at least 2: samples are integers from `-2^(bits - 1)` to
    /// `2^(bits - 1) - 1`. All that the encoding has, where it is [`None`], as it is to be of VDIF.
    pub bits: Option<u32>,
    /// Standard deviation of a real or imaginary part, of noise and sources, in steps of the samples;
    /// [`raw_level`] where it is [`None`].
    pub level: Option<f64>,
    /// Power of the receivers' noise.
    pub noise: f64,
    /// Sources that all inputs receive.
    pub sources: Vec<RawSource>,
    /// Interference.
    pub tones: Vec<Tone>,
    /// Equal seeds give equal recordings.
    pub seed: u64,
    /// Array that the description beside the recording states.
    pub array: Array,
}

/// A point source.
#[derive(Clone, Debug, PartialEq)]
pub struct RawSource {
    /// Power at each input.
    pub power: f64,
    /// Right ascension and declination in degrees, ICRS, where the source is in the sky.
    pub direction: Option<[f64; 2]>,
    /// Delays that would undo the source's, of each input, from the recording's start to its end, and as
    /// much further as the delays are long.
    pub delays: Polynomials,
}

/// A sine wave that all inputs receive at once, as they do interference from nearby.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tone {
    /// Hertz on the sky.
    pub frequency: f64,
    /// Power at each input.
    pub power: f64,
    /// Seconds from one pulse to the next and of a pulse; [`None`] of a tone that never ends.
    pub pulses: Option<[f64; 2]>,
}

/// The level at which samples of `bits` bits are simulated, in their steps: clipping lies at two standard
/// deviations for 2 bits, and 3/4 more for each further bit, so that few bits lose little and many leave
/// room for interference.
pub fn raw_level(bits: u32) -> f64 {
    f64::from(1_u32 << (bits.max(1) - 1)) / (2.0 + 0.75 * (f64::from(bits) - 2.0))
}

impl RawSimulation {
    /// An array of one antenna for each of `inputs` inputs, anywhere within `radius` metres, whose phase
    /// centre stands high in the sky.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more inputs than [`check`](Self::check) takes.
    pub fn array(inputs: usize, radius: f64, seed: u64) -> Result<Array> {
        check_inputs(inputs)?;
        let mut random = random(seed, GEOMETRY_STREAM);
        let antenna = |number: usize| {
            let [x, y]: [f64; 2] = UnitDisc.sample(&mut random);
            let position = [radius * x, radius * y, 0.0];
            Antenna { name: number.to_string(), number: number as u32, position }
        };
        let input = |antenna| Input { antenna, polarisation: Polarisation::X };
        Ok(Array {
            telescope: Some("simulated".into()),
            location: Some(Location { latitude: -30.0, longitude: 21.4, altitude: 1050.0 }),
            antennas: Some((0..inputs).map(antenna).collect()),
            inputs: Some((0..inputs).map(input).collect()),
            start: Some("2026-01-01T00:00:00Z".parse().expect("a time")),
            phase_center: Some(PhaseCenter { name: "source 0".into(), ra: 122.0, dec: -30.0 }),
            ..Array::default()
        })
    }

    /// Sources of half the noise's power and less, each half as strong as the one before: the first at the
    /// phase centre of `array`, the others anywhere within `field` degrees of it. Their delays hold for
    /// `times` samples, `rate` a second, from the array's start.
    ///
    /// # Errors
    /// As [`Geometric::of`]; [`Error::Invalid`] for more sources than have any power.
    pub fn sources(
        array: &Array,
        inputs: usize,
        [count, times]: [usize; 2],
        rate: f64,
        field: f64,
        seed: u64,
    ) -> Result<Vec<RawSource>> {
        check_sources(count)?;
        let margin = MARGIN + RUN as f64 / rate;
        // Another stream than the array's.
        let mut random = random(seed, GEOMETRY_STREAM - 1);
        let mut sky = array.clone();
        let source = |source: usize| {
            let [x, y]: [f64; 2] = UnitDisc.sample(&mut random);
            if let (1.., Some(centre), Some(of)) =
                (source, &mut sky.phase_center, &array.phase_center)
            {
                centre.dec = (of.dec + field * y).clamp(-90.0, 90.0);
                centre.ra = of.ra + field * x / of.dec.to_radians().cos().max(field.to_radians());
            }
            let model = Geometric::of(&sky, inputs, None)?;
            Ok(RawSource {
                power: 0.5_f64.powi(source as i32 + 1),
                direction: sky.phase_center.as_ref().map(|centre| [centre.ra, centre.dec]),
                delays: model.polynomials(-margin..times as f64 / rate + margin, TOLERANCE)?,
            })
        };
        (0..count).map(source).collect()
    }

    /// Bits of a real or imaginary part; [`None`] of floating point.
    fn sample_bits(&self) -> Option<u32> {
        let bits = self.bits.unwrap_or(self.encoding.component_bits() as u32);
        (!self.is_float()).then_some(bits)
    }

    fn is_float(&self) -> bool {
        matches!(self.encoding, RawEncoding::F32 | RawEncoding::Cf32)
    }

    /// Standard deviation of a real or imaginary part.
    fn sample_level(&self) -> f64 {
        self.level.unwrap_or_else(|| self.sample_bits().map_or(1.0, raw_level))
    }

    /// Encoding of samples before they are written, in whole bytes; [`None`] for encodings that are not simulated.
    fn made(&self) -> Option<RawEncoding> {
        match self.encoding {
            RawEncoding::Vdif { bits: 16, complex: false } => Some(RawEncoding::I16),
            RawEncoding::Vdif { bits: 16, complex: true } => Some(RawEncoding::Ci16),
            RawEncoding::Vdif { complex: false, .. } => Some(RawEncoding::I8),
            RawEncoding::Vdif { complex: true, .. } => Some(Encoding::Ci8.into()),
            other => element(other).map(|_| other),
        }
    }

    /// Whether it is written as VDIF.
    fn is_vdif(&self) -> bool {
        matches!(self.encoding, RawEncoding::Vdif { .. })
    }

    /// Checks that the recording can be made.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a value that is 0, no number, out of range, or too large to be addressed.
    pub fn check(&self) -> Result<()> {
        let fault = |what: String| Err(Error::invalid(what));
        let Self { inputs, times, rate, sky_frequency, encoding, bits, noise, .. } = *self;
        if inputs == 0 || times == 0 {
            return fault(format!(
                "{inputs} inputs x {times} times: a recording needs at least 1 of each"
            ));
        }
        check_inputs(inputs)?;
        let Some(made) = self.made() else {
            return fault(format!(
                "encoding {encoding}: expected i8, i16, f32, ci8, ci16, cf32 or one of VDIF to simulate raw voltages"
            ));
        };
        let width = made.bytes(1);
        let bytes = u128::from(times).saturating_mul(inputs as u128 * width as u128);
        if bytes > isize::MAX as u128 {
            return fault(format!(
                "{times} times of {} bytes cannot be addressed",
                inputs.saturating_mul(width)
            ));
        }
        if !(rate > 0.0 && rate.is_finite()) {
            return fault(format!("rate of {rate} samples/s: expected a positive number"));
        }
        if !(sky_frequency >= 0.0 && sky_frequency.is_finite()) {
            return fault(format!("sky frequency of {sky_frequency} Hz: expected 0 or more"));
        }
        if self.is_vdif() {
            self.check_frames()?;
        }
        let most = encoding.component_bits() as u32;
        match bits {
            Some(bits) if self.is_float() => {
                return fault(format!(
                    "{bits} bits of {encoding}: expected them for integer encodings alone"
                ));
            }
            Some(bits) if self.is_vdif() && bits != most => {
                return fault(format!("{bits} bits of {encoding}: expected its own"));
            }
            Some(bits) if !self.is_vdif() && !(2..=most).contains(&bits) => {
                return fault(format!("{bits} bits of {encoding}: expected 2 to {most}"));
            }
            _ => {}
        }
        let level = self.sample_level();
        if !(level > 0.0 && level.is_finite()) {
            return fault(format!("level {level}: expected a positive number of steps"));
        }
        let powers = self.sources.iter().map(|source| source.power);
        let powers = powers.chain(self.tones.iter().map(|tone| tone.power)).chain([noise]);
        if let Some(power) = powers.clone().find(|power| !(*power >= 0.0 && power.is_finite())) {
            return fault(format!("power {power}: expected 0 or more"));
        }
        if powers.sum::<f64>() == 0.0 {
            return fault("no noise, no source and no tone of any power: expected some".into());
        }
        for (index, source) in self.sources.iter().enumerate() {
            if source.delays.inputs() != inputs {
                return fault(format!(
                    "source {index} has delays of {} inputs: expected {inputs}",
                    source.delays.inputs()
                ));
            }
        }
        self.tones.iter().try_for_each(|tone| self.check_tone(tone))
    }

    /// Checks that samples are whole frames of VDIF.
    fn check_frames(&self) -> Result<()> {
        let Self { times, rate, encoding, .. } = *self;
        // Other misfits of frames are told by their writer.
        if let Some(samples) = vdif::frame_samples(encoding, 1, rate)
            && !times.is_multiple_of(samples as u64)
        {
            return Err(Error::invalid(format!(
                "{times} times in VDIF: expected a multiple of {samples}, the samples of a frame"
            )));
        }
        if self.layout != RawLayout::Nt {
            return Err(Error::invalid(format!("layout {} in VDIF: expected nt", self.layout)));
        }
        Ok(())
    }

    fn check_tone(&self, tone: &Tone) -> Result<()> {
        let Self { rate, sky_frequency, .. } = *self;
        let band = match self.encoding.is_complex() {
            true => sky_frequency - rate / 2.0..sky_frequency + rate / 2.0,
            false => sky_frequency..sky_frequency + rate / 2.0,
        };
        if !band.contains(&tone.frequency) {
            return Err(Error::invalid(format!(
                "tone at {} Hz: expected one of the band, {} to {} Hz",
                tone.frequency, band.start, band.end
            )));
        }
        match tone.pulses {
            Some([period, length]) if !(0.0 < length && length <= period && period.is_finite()) => {
                Err(Error::invalid(format!(
                    "pulses of {length} s every {period} s: expected some length, no longer than that"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Writes the recording to the file `path`, calling `progress` with the number of times made so far: NumPy's
    /// `[input][time]` (`nt`) or `[time][input]` (`tn`), complex samples with a last axis of 2, or VDIF, a thread for
    /// each input. Beside it, with the extension `json`, appears its description, which is an array file, and a file
    /// of the delays that undo the first source's.
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`check`](Self::check), of VDIF as for [`vdif::Framer::new`], or for delays that
    /// end before the recording;
    /// [`Error::OutOfMemory`]; [`Error::Io`] when a file cannot be written; whatever `progress` returns to
    /// stop the simulation.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let path = path.as_ref();
        self.check()?;
        let description = description(path)?;
        let Self { inputs, .. } = *self;
        let times = self.times as usize;
        let size = self.made().expect("checked").bytes(1);
        let mut output = Output::create(path, self)?;
        let block_times = (BLOCK_BYTES / (inputs * size)).max(1).next_multiple_of(CHUNK).min(times);
        let synthesiser = Synthesiser::new(self);
        let mut rows: Vec<u8> = device::zeros(inputs * block_times * size)?;
        let mut start = 0;
        while start < times {
            let count = block_times.min(times - start);
            let rows = &mut rows[..inputs * count * size];
            synthesiser.fill(start..start + count, rows)?;
            output.put(self, start, rows)?;
            start += count;
            progress(start as u64)?;
        }
        let described = write_description(description, || self.describe());
        output.finish().and(described)
    }

    /// A description of the recording, in JSON.
    fn describe(&self) -> String {
        #[derive(Serialize)]
        struct Description<'a> {
            model: &'static str,
            times: u64,
            rate: f64,
            sky_frequency: f64,
            encoding: String,
            layout: String,
            bits: Option<u32>,
            level: f64,
            seed: u64,
            noise_power: f64,
            sources: Vec<Value>,
            tones: &'a [Tone],
            #[serde(flatten)]
            array: &'a Array,
            #[serde(flatten)]
            delays: serde_json::Map<String, Value>,
        }
        let source = |source: &RawSource| {
            let mut fields = source.delays.fields(None);
            fields.insert("power".into(), json!(source.power));
            if let Some([ra, dec]) = source.direction {
                fields.insert("ra".into(), json!(ra));
                fields.insert("dec".into(), json!(dec));
            }
            Value::Object(fields)
        };
        let description = Description {
            model: "x_i(u) = n_i(u) + sum_k s_k(t) exp(2 pi i f0 (t - u)), t = u + delay_k,i(t), f0 the \
                    sky frequency of DC; delays are those to put in, in seconds, those outside of \
                    sources the first source's; frequencies in hertz, positions in metres east, north \
                    and up",
            times: self.times,
            rate: self.rate,
            sky_frequency: self.sky_frequency,
            encoding: self.encoding.to_string(),
            layout: self.layout.to_string(),
            bits: self.sample_bits(),
            level: self.sample_level(),
            seed: self.seed,
            noise_power: self.noise,
            sources: self.sources.iter().map(source).collect(),
            tones: &self.tones,
            array: &self.array,
            delays: match self.sources.first() {
                Some(source) => source.delays.fields(self.array.start),
                None => serde_json::Map::new(),
            },
        };
        serde_json::to_string_pretty(&description).expect("numbers and names are always JSON")
            + "\n"
    }
}

/// Refuses more inputs than an array may have.
fn check_inputs(inputs: usize) -> Result<()> {
    if inputs <= MOST_INPUTS {
        return Ok(());
    }
    Err(Error::invalid(format!("{inputs} inputs: expected at most {MOST_INPUTS} of raw voltages")))
}

/// The type of the elements of a NumPy array of raw samples.
fn element(encoding: RawEncoding) -> Option<Dtype> {
    match encoding {
        RawEncoding::I8 | RawEncoding::Complex(Encoding::Ci8) => Some(Dtype::Int8),
        RawEncoding::I16 | RawEncoding::Ci16 => Some(Dtype::Int16),
        RawEncoding::F32 | RawEncoding::Cf32 => Some(Dtype::Float32),
        _ => None,
    }
}

/// The file of a recording.
enum Output {
    Npy(npy::Writer),
    Vdif(vdif::Writer),
}

impl Output {
    fn create(path: &Path, simulation: &RawSimulation) -> Result<Self> {
        let RawSimulation { inputs, encoding, layout, rate, .. } = *simulation;
        let Some(dtype) = element(encoding) else {
            let start = simulation.array.start.ok_or_else(|| {
                simulation.array.lacks(&[Field::Start], "the times of VDIF's frames")
            })?;
            let framer = vdif::Framer::new(inputs, 1, encoding, rate, start)?;
            return Ok(Self::Vdif(vdif::Writer::create(path, framer)?));
        };
        let times = simulation.times as usize;
        let mut axes = match layout {
            RawLayout::Nt => vec![inputs, times],
            RawLayout::Tn => vec![times, inputs],
        };
        if encoding.is_complex() {
            axes.push(2);
        }
        Ok(Self::Npy(npy::Writer::with_shape(path, dtype, &axes)?))
    }

    /// Writes samples `[input][time]` from time `start` on.
    fn put(&mut self, simulation: &RawSimulation, start: usize, rows: &[u8]) -> Result<()> {
        let RawSimulation { inputs, encoding, layout, .. } = *simulation;
        let file = match self {
            Self::Vdif(file) => return file.append(rows),
            Self::Npy(file) => file,
        };
        let size = encoding.bytes(1);
        let (times, count) = (simulation.times as usize, rows.len() / (inputs * size));
        let parts = if encoding.is_complex() { 2 } else { 1 };
        let elements = |samples: usize| (samples * parts) as u64;
        match layout {
            RawLayout::Nt => {
                for (input, row) in rows.chunks_exact(count * size).enumerate() {
                    file.write_at(elements(input * times + start), row)?;
                }
                Ok(())
            }
            RawLayout::Tn => {
                let mut turned: Vec<u8> = device::zeros(rows.len())?;
                turned.par_chunks_exact_mut(inputs * size).enumerate().for_each(
                    |(time, samples)| {
                        for (input, sample) in samples.chunks_exact_mut(size).enumerate() {
                            let first = (input * count + time) * size;
                            sample.copy_from_slice(&rows[first..first + size]);
                        }
                    },
                );
                file.write_at(elements(start * inputs), &turned)
            }
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::Npy(file) => file.finish(),
            Self::Vdif(file) => file.finish().map(drop),
        }
    }
}

/// Real and imaginary parts, or two of the same where there is one.
type Planes<'a> = [&'a [f32]; 2];

/// The prototype at one phase, `[plane][0: value, 1: what the next phase has more][tap]`.
type Row = [[[f32; TAPS]; 2]; 2];

/// Synthesis of the samples.
struct Synthesiser<'a> {
    simulation: &'a RawSimulation,
    /// Encoding in which samples are made.
    made: RawEncoding,
    /// The prototype, a row for each phase.
    prototype: Vec<Row>,
    /// From the powers' units to steps.
    scale: f64,
    /// Phases of the tones at the start, in turns.
    phases: Vec<f64>,
}

/// White noise that a source is made of.
struct White {
    /// Index of the first.
    first: i64,
    /// Real parts, and imaginary ones of complex samples.
    planes: [Vec<f32>; 2],
}

impl<'a> Synthesiser<'a> {
    fn new(simulation: &'a RawSimulation) -> Self {
        let sources: f64 = simulation.sources.iter().map(|source| source.power).sum();
        let total = simulation.noise + sources;
        // A tone alone has the level.
        let total = match total {
            0.0 => simulation.tones.iter().map(|tone| tone.power).sum(),
            total => total,
        };
        let parts = if simulation.encoding.is_complex() { 2.0 } else { 1.0 };
        let mut random = random(simulation.seed, GEOMETRY_STREAM - 2);
        Self {
            simulation,
            made: simulation.made().expect("checked"),
            prototype: prototype(simulation.encoding.is_complex()),
            scale: simulation.sample_level() / (total / parts).sqrt(),
            phases: simulation.tones.iter().map(|_| random.random()).collect(),
        }
    }

    /// Makes a range of times of all inputs, `[input][time]`; the range begins with a chunk.
    fn fill(&self, times: Range<usize>, rows: &mut [u8]) -> Result<()> {
        let RawSimulation { inputs, sources, .. } = self.simulation;
        let size = self.made.bytes(1);
        let runs = times.len().div_ceil(RUN);
        let mut heard = Vec::with_capacity(sources.len());
        for (index, source) in sources.iter().enumerate() {
            // `[input][run][start, middle, end]`, in samples.
            let mut delays: Vec<[f64; 3]> = device::zeros(inputs * runs)?;
            delays.par_iter_mut().enumerate().try_for_each(|(place, delays)| {
                let (input, run) = (place / runs, place % runs);
                let first = (times.start + run * RUN) as f64;
                for (part, delay) in delays.iter_mut().enumerate() {
                    let time = first + part as f64 * RUN as f64 / 2.0;
                    *delay = self.delay(index, source, input, time)?;
                }
                Ok(())
            })?;
            heard.push((self.white(index, &times, &delays)?, delays));
        }
        rows.par_chunks_exact_mut(times.len() * size).enumerate().for_each(|(input, row)| {
            row.par_chunks_mut(CHUNK * size).enumerate().for_each(|(chunk, samples)| {
                let first = times.start + chunk * CHUNK;
                let mut planes = self.noise(input, first, samples.len() / size);
                for (source, (white, delays)) in sources.iter().zip(&heard) {
                    let runs = &delays[input * runs..][..runs][chunk * CHUNK / RUN..];
                    self.add_source(source, white, runs, first, &mut planes);
                }
                for (tone, phase) in self.simulation.tones.iter().zip(&self.phases) {
                    self.add_tone(tone, *phase, first, &mut planes);
                }
                self.store(&planes, samples);
            });
        });
        Ok(())
    }

    /// Delay `d` of an input at a sample `u`, in samples: the wave that it receives then passes the array's location at
    /// `t = u + d(t)`.
    fn delay(&self, index: usize, source: &RawSource, input: usize, time: f64) -> Result<f64> {
        /// More than any delay needs that changes by less than half of time.
        const ROUNDS: usize = 60;
        /// Samples whose places f64 holds to 1e-4 of one.
        const LONGEST: f64 = (1_u64 << 40) as f64;
        let seconds = time / self.simulation.rate;
        let mut delay = 0.0;
        for _ in 0..ROUNDS {
            let next = source.delays.delay(input, seconds + delay).ok_or_else(|| {
                Error::invalid(format!(
                    "source {index} has no delay of input {input} at {} s: expected one from the start \
                     of the recording to its end, {} s, and as much further as delays are long",
                    seconds + delay,
                    self.simulation.times as f64 / self.simulation.rate
                ))
            })?;
            if (next * self.simulation.rate).abs() > LONGEST {
                return Err(Error::invalid(format!(
                    "source {index} has a delay of {next} s: expected at most {LONGEST} samples"
                )));
            }
            if (next - delay).abs() <= 1e-18 + 1e-15 * next.abs() {
                return Ok(next * self.simulation.rate);
            }
            delay = next;
        }
        Err(Error::invalid(format!(
            "delay of input {input} at {seconds} s changes about as fast as time: expected a source slower \
             than light"
        )))
    }

    /// The white noise of a source that a block is made of.
    fn white(&self, index: usize, times: &Range<usize>, delays: &[[f64; 3]]) -> Result<White> {
        let delays = delays.iter().flatten();
        let (least, most) = delays.fold((f64::MAX, f64::MIN), |(least, most), &delay| {
            (least.min(delay), most.max(delay))
        });
        let span = times.start as f64 + least..(times.end + RUN) as f64 + most;
        let first = span.start.floor() as i64 - TAPS as i64;
        let first = first.div_euclid(CHUNK as i64) * CHUNK as i64;
        let length = (span.end - first as f64) as usize + TAPS;
        let length = length.next_multiple_of(CHUNK);
        let stream = self.simulation.inputs + index;
        let (complex, amplitude) = match self.simulation.encoding.is_complex() {
            true => (true, std::f32::consts::FRAC_1_SQRT_2),
            false => (false, 1.0),
        };
        let mut planes: [Vec<f32>; 2] =
            [device::zeros(length)?, device::zeros(if complex { length } else { 0 })?];
        let [re, im] = &mut planes;
        let chunk_of = |chunk: usize| first / CHUNK as i64 + chunk as i64;
        if complex {
            let chunks = re.par_chunks_exact_mut(CHUNK).zip(im.par_chunks_exact_mut(CHUNK));
            chunks.enumerate().for_each(|(chunk, (re, im))| {
                let mut random = self.random(stream, chunk_of(chunk));
                normals(&mut random, amplitude, re);
                normals(&mut random, amplitude, im);
            });
        } else {
            re.par_chunks_exact_mut(CHUNK).enumerate().for_each(|(chunk, values)| {
                normals(&mut self.random(stream, chunk_of(chunk)), amplitude, values);
            });
        }
        Ok(White { first, planes })
    }

    /// The random numbers of a chunk of an input's noise, or, after the inputs, of a source.
    fn random(&self, stream: usize, chunk: i64) -> ChaCha8Rng {
        /// Bits for the chunk, which may lie before the recording's start.
        const BITS: u32 = 44;
        let chunk = (chunk + (1 << (BITS - 1))) as u64 & ((1 << BITS) - 1);
        random(self.simulation.seed, ((stream as u64) << BITS) | chunk)
    }

    /// Receiver noise, `count` samples from `first` on, which begins a chunk.
    fn noise(&self, input: usize, first: usize, count: usize) -> [Vec<f32>; 2] {
        let complex = self.simulation.encoding.is_complex();
        let mut planes = [vec![0.0; count], vec![0.0; if complex { count } else { 0 }]];
        if self.simulation.noise > 0.0 {
            let mut random = self.random(input, (first / CHUNK) as i64);
            let power = self.simulation.noise / if complex { 2.0 } else { 1.0 };
            for plane in &mut planes {
                // All of the chunk, so that a shorter recording begins a longer one.
                normals(&mut random, power.sqrt() as f32, plane);
                (count..CHUNK).for_each(|_| {
                    let _: f32 = random.sample(StandardNormal);
                });
            }
        }
        planes
    }

    /// Adds a source's signal at one input, from sample `first` on.
    fn add_source(
        &self,
        source: &RawSource,
        white: &White,
        runs: &[[f64; 3]],
        first: usize,
        planes: &mut [Vec<f32>; 2],
    ) {
        let RawSimulation { rate, sky_frequency, encoding, .. } = *self.simulation;
        let amplitude = source.power.sqrt() as f32;
        let turns = sky_frequency / rate;
        let complex = encoding.is_complex();
        let [re, im] = planes;
        let origin = (first as i64 - white.first) as f64;
        let (mut delays, mut places) = ([0.0; RUN], [0.0; RUN]);
        let mut signal = [[0.0; RUN]; 2];
        let (mut cos, mut sin) = ([1.0; RUN], [0.0; RUN]);
        for (run, re) in re.chunks_mut(RUN).enumerate() {
            let [start, middle, end] = runs[run];
            let count = re.len();
            for (index, (delay, place)) in delays.iter_mut().zip(&mut places).enumerate() {
                let part = index as f64 / RUN as f64;
                // The parabola through both ends and the middle.
                *delay = start
                    + part
                        * (4.0 * middle - 3.0 * start - end
                            + part * 2.0 * (start + end - 2.0 * middle));
                *place = origin + (run * RUN + index) as f64 + *delay;
            }
            let white = [0, usize::from(complex)].map(|plane| &white.planes[plane][..]);
            let [signal_re, signal_im] = &mut signal;
            let signals = [&mut signal_re[..count], &mut signal_im[..count]];
            interpolate(white, &self.prototype, &places[..count], signals);
            if turns != 0.0 {
                rotations(turns, &delays, [&mut cos, &mut sin]);
            }
            for (index, re) in re.iter_mut().enumerate() {
                *re += amplitude * (signal_re[index] * cos[index] - signal_im[index] * sin[index]);
            }
            if complex {
                for (index, im) in im[run * RUN..][..count].iter_mut().enumerate() {
                    *im +=
                        amplitude * (signal_re[index] * sin[index] + signal_im[index] * cos[index]);
                }
            }
        }
    }

    /// Adds a tone, from sample `first` on.
    fn add_tone(&self, tone: &Tone, phase: f64, first: usize, planes: &mut [Vec<f32>; 2]) {
        let RawSimulation { rate, sky_frequency, encoding, .. } = *self.simulation;
        let turns = (tone.frequency - sky_frequency) / rate;
        let complex = encoding.is_complex();
        let amplitude = if complex { tone.power } else { 2.0 * tone.power }.sqrt();
        let [re, im] = planes;
        for (index, re) in re.iter_mut().enumerate() {
            let time = (first + index) as f64;
            if let Some([period, length]) = tone.pulses
                && (time / rate) % period >= length
            {
                continue;
            }
            let (sin, cos) = ((turns * time + phase).fract() * TAU).sin_cos();
            *re += (amplitude * cos) as f32;
            if complex {
                im[index] += (amplitude * sin) as f32;
            }
        }
    }

    /// Scales, rounds and clips voltages.
    fn store(&self, planes: &[Vec<f32>; 2], samples: &mut [u8]) {
        let scale = self.scale as f32;
        let limit = self.simulation.sample_bits().map(|bits| (1_u32 << (bits - 1)) as f32);
        // VDIF's levels lie half a step above the integers, except with four bits.
        let above = match self.simulation.encoding {
            RawEncoding::Vdif { bits: 4, .. } => 0.0,
            RawEncoding::Vdif { .. } => 0.5,
            _ => 0.0,
        };
        let integer = |value: f32| {
            let limit = limit.unwrap_or_default();
            // Adding 1.5 * 2^23 leaves no bits for a fraction: rounds half to even.
            const ROUND: f32 = 12_582_912.0;
            ((value * scale - above).clamp(-limit, limit - 1.0) + ROUND) - ROUND
        };
        let parts = if self.simulation.encoding.is_complex() { 2 } else { 1 };
        for (part, plane) in planes.iter().take(parts).enumerate() {
            match self.made.component_bits() {
                8 => {
                    let samples = samples.iter_mut().skip(part).step_by(parts);
                    samples.zip(plane).for_each(|(sample, &x)| *sample = integer(x) as i8 as u8);
                }
                16 => {
                    let samples =
                        samples.as_chunks_mut::<2>().0.iter_mut().skip(part).step_by(parts);
                    samples.zip(plane).for_each(|(sample, &x)| {
                        *sample = (integer(x) as i16).to_le_bytes();
                    });
                }
                _ => {
                    let samples =
                        samples.as_chunks_mut::<4>().0.iter_mut().skip(part).step_by(parts);
                    samples.zip(plane).for_each(|(sample, &x)| *sample = (x * scale).to_le_bytes());
                }
            }
        }
    }
}

/// Independent Gaussian numbers of this standard deviation.
fn normals(random: &mut ChaCha8Rng, amplitude: f32, values: &mut [f32]) {
    for value in values {
        let normal: f32 = random.sample(StandardNormal);
        *value = normal * amplitude;
    }
}

/// Signals `sum over m of white[m] h(place - m)` of both planes at each of the places, by the widest vectors that the processor
/// has; sums have one order, and so the same bits, in all of them.
fn interpolate(white: Planes<'_>, prototype: &[Row], places: &[f64], signals: [&mut [f32]; 2]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { interpolate_avx2(white, prototype, places, signals) };
    }
    interpolate_groups(white, prototype, places, signals);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn interpolate_avx2(
    white: Planes<'_>,
    prototype: &[Row],
    places: &[f64],
    signals: [&mut [f32]; 2],
) {
    interpolate_groups(white, prototype, places, signals);
}

/// Samples that are interpolated together.
const GROUP: usize = 16;

/// [`interpolate`] of groups of places that lie one sample apart and between the same two rows of the prototype, and of others
/// one by one.
#[inline(always)]
fn interpolate_groups(
    white: Planes<'_>,
    prototype: &[Row],
    places: &[f64],
    [re, im]: [&mut [f32]; 2],
) {
    let groups = places.chunks(GROUP).zip(re.chunks_mut(GROUP)).zip(im.chunks_mut(GROUP));
    for ((places, re), im) in groups {
        let (Some(places), Some(re), Some(im)) =
            (places.as_array::<GROUP>(), re.as_mut_array::<GROUP>(), im.as_mut_array::<GROUP>())
        else {
            for (place, (re, im)) in places.iter().zip(re.iter_mut().zip(im)) {
                let [[own_re], [own_im]] = interpolated(white, prototype, &Placed::of(&[*place]));
                (*re, *im) = (own_re, own_im);
            }
            continue;
        };
        let placed = Placed::of(places);
        if placed.together {
            [*re, *im] = interpolated(white, prototype, &placed);
            continue;
        }
        for (place, (re, im)) in places.iter().zip(re.iter_mut().zip(im)) {
            let [[own_re], [own_im]] = interpolated(white, prototype, &Placed::of(&[*place]));
            (*re, *im) = (own_re, own_im);
        }
    }
}

/// Places among samples of the white noise and rows of the prototype.
struct Placed<const N: usize> {
    /// Index of the first sample that the first place needs.
    first: usize,
    /// Row of the prototype.
    row: usize,
    /// Part of the way to the next row.
    shares: [f32; N],
    /// Whether all lie one sample apart and have the row.
    together: bool,
}

impl<const N: usize> Placed<N> {
    #[inline(always)]
    fn of(places: &[f64; N]) -> Self {
        let split = |place: f64| {
            let whole = place.floor();
            let phase = (place - whole) * PHASES as f64;
            let row = phase.floor();
            (whole, row, (phase - row) as f32)
        };
        let (first, row, _) = split(places[0]);
        let (mut shares, mut together) = ([0.0; N], true);
        for (index, (share, &place)) in shares.iter_mut().zip(places).enumerate() {
            let (whole, its, part) = split(place);
            *share = part;
            together &= (whole == first + index as f64) & (its == row);
        }
        Self { first: first as usize + 1 - TAPS / 2, row: row as usize, shares, together }
    }
}

/// Signals at places that are together.
#[inline(always)]
fn interpolated<const N: usize>(
    white: Planes<'_>,
    prototype: &[Row],
    placed: &Placed<N>,
) -> [[f32; N]; 2] {
    /// Sums that each signal has.
    const LANES: usize = 8;
    let Placed { first, row, shares, .. } = placed;
    let mut signals = [[-0.0_f32; N]; 2];
    for plane in 0..2 {
        let white = &white[plane][*first..][..TAPS + N - 1];
        let [near, step] = &prototype[*row][plane];
        for lane in 0..LANES {
            let mut sums = [0.0_f32; N];
            for tap in (lane..TAPS).step_by(LANES) {
                for ((sum, white), share) in sums.iter_mut().zip(&white[tap..tap + N]).zip(shares) {
                    *sum += white * (near[tap] + share * step[tap]);
                }
            }
            signals[plane].iter_mut().zip(sums).for_each(|(signal, sum)| *signal += sum);
        }
    }
    signals
}

/// Cosine and sine of `2 pi turns delay` at each of the delays.
fn rotations(turns: f64, delays: &[f64; RUN], rotations: [&mut [f32; RUN]; 2]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { rotations_avx2(turns, delays, rotations) };
    }
    rotations_plain(turns, delays, rotations);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn rotations_avx2(turns: f64, delays: &[f64; RUN], rotations: [&mut [f32; RUN]; 2]) {
    rotations_plain(turns, delays, rotations);
}

#[inline(always)]
fn rotations_plain(turns: f64, delays: &[f64; RUN], [cos, sin]: [&mut [f32; RUN]; 2]) {
    for ((delay, cos), sin) in delays.iter().zip(cos).zip(sin) {
        let [of_cos, of_sin] = rotation((turns * delay).fract());
        (*cos, *sin) = (of_cos as f32, of_sin as f32);
    }
}

/// Cosine and sine of `2 pi turns`, for -1 to 1, by their series around the nearest quarter of a turn: relative errors are below
/// 1e-15. Loops over it have no calls and no branches.
#[inline(always)]
fn rotation(turns: f64) -> [f64; 2] {
    /// Leaves no bits for a fraction; the last bits of the sum are the integer's.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// `1 - y / (n (n + 1)) (1 - y / ((n + 2) (n + 3)) (1 - ...))`, n the first.
    #[inline(always)]
    fn series(y: f64, first: u32) -> f64 {
        (0..9).rev().fold(1.0, |sum, term| {
            let n = f64::from(2 * term + first);
            1.0 - sum * (y * (1.0 / (n * (n + 1.0))))
        })
    }
    let sum = 4.0 * turns + ROUND;
    let quarter = sum.to_bits() & 3;
    let x = (turns - 0.25 * (sum - ROUND)) * TAU;
    let (cos, sin) = (series(x * x, 1), x * series(x * x, 2));
    let (even, odd) = if quarter & 1 == 0 { (cos, sin) } else { (sin, cos) };
    let cos = if matches!(quarter, 1 | 2) { -even } else { even };
    let sin = if quarter >= 2 { -odd } else { odd };
    [cos, sin]
}

/// The prototype `h` at every phase, of unit power: real, in both planes, for complex samples; for real ones
/// a band-pass of positive frequencies, whose real and imaginary parts have unit power each.
fn prototype(complex: bool) -> Vec<Row> {
    // Kaiser's formula for the window's parameter.
    let beta = 0.1102 * (STOP_BAND - 8.7);
    let band = if complex { 0.5 } else { 0.25 };
    let cutoff = 2.0 * (band - edge() / 2.0);
    let half = TAPS as f64 / 2.0;
    let value = |time: f64| {
        let window = bessel(beta * (1.0 - (time / half).powi(2)).max(0.0).sqrt()) / bessel(beta);
        let sinc = match std::f64::consts::PI * cutoff * time {
            0.0 => 1.0,
            angle => angle.sin() / angle,
        };
        let centre = if complex { 0.0 } else { time / 4.0 };
        let (sin, cos) = (TAU * centre).sin_cos();
        [window * sinc * cos, window * sinc * sin]
    };
    // One row more: the next sample's first.
    let times = (0..=PHASES).flat_map(|phase| {
        (0..TAPS).map(move |tap| phase as f64 / PHASES as f64 + half - 1.0 - tap as f64)
    });
    let values: Vec<[f64; 2]> = times.map(value).collect();
    let power: f64 = values.iter().flatten().map(|part| part * part).sum();
    let power = power / (PHASES + 1) as f64 / if complex { 1.0 } else { 2.0 };
    let value = |phase: usize, part: usize, tap: usize| {
        let part = if complex { 0 } else { part };
        (values[phase * TAPS + tap][part] / power.sqrt()) as f32
    };
    let row = |phase: usize| {
        [0, 1].map(|part| {
            let near: [f32; TAPS] = std::array::from_fn(|tap| value(phase, part, tap));
            let far = |tap: usize| value(phase + 1, part, tap);
            [near, std::array::from_fn(|tap| far(tap) - near[tap])]
        })
    };
    (0..PHASES).map(row).collect()
}

/// The modified Bessel function of order 0.
fn bessel(x: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 1.0;
    let mut k = 1.0;
    while term > 1e-17 * sum {
        term *= (x / (2.0 * k)).powi(2);
        sum += term;
        k += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotations_are_cosines_and_sines() {
        for step in -2000..=2000 {
            let turns = f64::from(step) / 2000.0;
            let (sin, cos) = (turns * TAU).sin_cos();
            let [of_cos, of_sin] = rotation(turns);
            assert!((cos - of_cos).abs() < 1e-15 && (sin - of_sin).abs() < 1e-15, "{turns}");
        }
    }

    /// Groups, single places and processors' vectors give the bits of sums in one order.
    #[test]
    fn interpolation_has_the_bits_of_plain_loops() {
        let white: Vec<f32> = (0..1000).map(|k| ((k * k % 977) as f32 - 488.0) / 300.0).collect();
        let rows = prototype(false);
        // Places that stay within a row of the prototype, and that cross rows.
        for drift in [1e-7, 3e-4, -2e-3] {
            let places: Vec<f64> = (0..77).map(|k| 200.25 + f64::from(k) * (1.0 + drift)).collect();
            let mut signals = [vec![0.0; 77], vec![0.0; 77]];
            let [re, im] = &mut signals;
            interpolate([&white; 2], &rows, &places, [re, im]);
            for (index, place) in places.iter().enumerate() {
                let phase = place.fract() * PHASES as f64;
                let (row, share) = (phase as usize, phase.fract() as f32);
                let white = &white[*place as usize + 1 - TAPS / 2..];
                for (signal, [near, step]) in signals.iter().zip(&rows[row]) {
                    let mut lanes = [0.0_f32; 8];
                    for (tap, (near, step)) in near.iter().zip(step).enumerate() {
                        lanes[tap % 8] += white[tap] * (near + share * step);
                    }
                    let sum: f32 = lanes.iter().sum();
                    assert_eq!(signal[index].to_bits(), sum.to_bits(), "{place}");
                }
            }
        }
    }
}
