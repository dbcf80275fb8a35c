//! The plan: subchannels as the odd bins of an F-engine of twice as many points.

use std::{ops::RangeInclusive, sync::Arc};

use num_complex::Complex;
use rayon::prelude::*;

use super::{
    rows::{extents, from_rows, to_rows},
    weights::weights,
};
use crate::{
    channelise::{
        plan::Channeliser,
        shape::{MAX_TAPS, RESIDUES, SpectrumEncoding},
        spectra::Spectra,
    },
    device::{
        choice::Devices,
        gpu::Gpu,
        host::{room, zeros},
    },
    error::{Error, Result},
    kernels::channelise::Kernel,
    layout::Layout,
    sample::Encoding,
    samples::{
        extents::{Element, Memory},
        feed::Feed,
        missing::Missing,
        raw::{RawLayout, RawSamples},
        view::Samples,
    },
    tuning::place::{Place, place_setters},
};

/// Subchannels that a channel may be made into, each a power of two.
pub const FACTORS: RangeInclusive<usize> = 2..=512;

/// Bytes of samples that go to the F-engine at a time, whose spectra have twice the subchannels and stay in memory
/// until they are put in order.
const PIECE_BYTES: usize = 1 << 25;

/// Axes and encodings of samples and subchannels, and the filter's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `N`: inputs.
    pub inputs: usize,
    /// `F`: channels.
    pub channels: usize,
    /// `U`: subchannels of a channel.
    pub factor: usize,
    /// `M`: a spectrum is made of `M U` samples.
    pub taps: usize,
    /// Encoding of a sample.
    pub encoding: Encoding,
    /// Encoding of a sample of a subchannel.
    pub output: SpectrumEncoding,
}

impl Shape {
    fn check(&self) -> Result<()> {
        let Self { inputs, channels, factor, taps, .. } = *self;
        if inputs == 0 || channels == 0 {
            return Err(Error::invalid(format!(
                "{channels} channels and {inputs} inputs: expected at least 1 of each"
            )));
        }
        if !FACTORS.contains(&factor) || !factor.is_power_of_two() {
            return Err(Error::invalid(format!(
                "{factor} subchannels of a channel: expected a power of two, {} to {}",
                FACTORS.start(),
                FACTORS.end()
            )));
        }
        if !(1..=MAX_TAPS).contains(&taps) {
            return Err(Error::invalid(format!("{taps} taps: expected 1 to {MAX_TAPS}")));
        }
        Ok(())
    }

    /// Points `K` of the F-engine's transform: subchannel `u` is its bin `K / U (u - (U - 1) / 2)`.
    const fn residues(&self) -> usize {
        let twice = 2 * self.factor;
        if twice < *RESIDUES.start() { *RESIDUES.start() } else { twice }
    }
}

/// Settings of an upchanneliser; see [`Upchanneliser::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    shape: Shape,
    /// In place of [`weights`], if it is not empty.
    weights: Vec<f64>,
    unit_noise: bool,
    gains: Vec<Complex<f32>>,
    place: Place<Kernel>,
}

impl Builder {
    /// Encoding of a sample (default: `ci8`): `ci8`, `ci4`, `ci4-offset` or `cf16`.
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.shape.encoding = encoding;
        self
    }

    /// Encoding of a sample of a subchannel (default: `ci8`).
    pub fn output(mut self, encoding: impl Into<SpectrumEncoding>) -> Self {
        self.shape.output = encoding.into();
        self
    }

    /// Taps `M` of the filter bank (default: 4).
    pub fn taps(mut self, taps: usize) -> Self {
        self.shape.taps = taps;
        self
    }

    /// Weights of your own, `M U` numbers in the order of time, taken as they are. The filter bank has the taps `M`
    /// that they make.
    pub fn weights(mut self, weights: &[f64]) -> Self {
        self.weights = weights.to_vec();
        self
    }

    /// Whether weights are scaled to `sum W^2 = 1`, so that white noise keeps its variance (default: no; a tone at a
    /// subchannel's centre keeps its amplitude, and noise has its variance times `sum W^2`).
    pub fn unit_noise(mut self, unit_noise: bool) -> Self {
        self.unit_noise = unit_noise;
        self
    }

    /// Gains `G`, `[channel][subchannel]` (default: 1).
    pub fn gains(mut self, gains: &[Complex<f32>]) -> Self {
        self.gains = gains.to_vec();
        self
    }

    place_setters!("upchannelise", "inputs");

    /// Axes and encodings of samples and subchannels, and the filter's size.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a shape that there is no filter bank of.
    pub fn shape(&self) -> Result<Shape> {
        let mut shape = self.shape;
        let own = self.weights.len();
        if own > 0 && shape.factor > 0 {
            if !own.is_multiple_of(shape.factor) {
                return Err(Error::invalid(format!(
                    "{own} weights: expected a multiple of {}, the subchannels of a channel",
                    shape.factor
                )));
            }
            shape.taps = own / shape.factor;
        }
        shape.check()?;
        Ok(shape)
    }

    /// Builds the plan.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a shape that there is no filter bank of, weights or gains that are not those of the shape
    /// or no finite numbers, or a kernel that does not run on the device; [`Error::Device`] when the device is not
    /// there; [`Error::OutOfMemory`].
    pub fn build(self) -> Result<Upchanneliser> {
        let shape = self.shape()?;
        let Self { weights: mut own, unit_noise, gains, place, .. } = self;
        let Shape { inputs, channels, factor, taps, .. } = shape;
        if own.is_empty() {
            own = weights(factor, taps);
        }
        if gains.len() != channels * factor && !gains.is_empty() {
            return Err(Error::invalid(format!(
                "{} gains: expected {}, for {channels} channels of {factor} subchannels",
                gains.len(),
                channels * factor
            )));
        }
        // The F-engine scales to 1 the sum of the squares.
        let power: f64 = own.iter().map(|weight| weight * weight).sum();
        if !power.is_normal() {
            return Err(Error::invalid(
                "weights whose squares sum to nothing, or to more than f64 holds: expected finite numbers around 1",
            ));
        }
        if let Some((index, gain)) = gains.iter().enumerate().find(|(_, gain)| !gain.is_finite()) {
            return Err(Error::invalid(format!(
                "a gain of {gain} for subchannel {} of channel {}: expected finite numbers",
                index % factor,
                index / factor
            )));
        }
        let scale = if unit_noise { 1.0 } else { power.sqrt() };

        let (residues, length) = (shape.residues(), own.len());
        let lead = length.next_multiple_of(residues) - length;
        let mut prototype = vec![0.0; lead];
        prototype.append(&mut own);
        let rows = channels.saturating_mul(inputs);
        let mut all = room(rows.saturating_mul(residues))?;
        let step = residues / factor;
        for row in 0..rows {
            let of = |bin: usize| match gains.get(row / inputs * factor + bin / step) {
                _ if bin % step != step / 2 => Complex::new(0.0, 0.0),
                None => Complex::new(scale as f32, 0.0),
                Some(gain) => Complex::new(
                    (f64::from(gain.re) * scale) as f32,
                    (f64::from(gain.im) * scale) as f32,
                ),
            };
            all.extend((0..residues).map(of));
        }
        let engine = Channeliser::builder(rows, residues)
            .encoding(shape.encoding)
            .layout(RawLayout::Tn)
            .taps(prototype.len() / residues)
            .hop(factor)
            .prototype(&prototype)
            .gains(&all)
            .output(shape.output)
            .place(place)
            .build()?;
        Ok(Upchanneliser { shape, engine, made: Spectra::default() })
    }
}

/// A plan that makes subchannels of channels: [feed](Self::upchannelise) it samples in blocks of any length, and it gives
/// the spectra that they complete, one for each `U` times.
///
/// Samples before the first are missing, and so are the `M - 1` spectra that touch them. However the stream is cut,
/// and on every backend, bits are the same.
///
/// ```
/// use corrust_host::{Device, Upchanneliser};
/// use num_complex::Complex;
///
/// // A tone a quarter of a channel above its centre, of one channel and one input: [time][channel][input].
/// let tone = [[100_i8, 0], [0, 100], [-100, 0], [0, -100]];
/// let samples: Vec<[i8; 2]> = tone.into_iter().cycle().take(4 * 40).collect();
/// let mut upchanneliser = Upchanneliser::builder(1, 1, 2).device(Device::Cpu).build()?;
/// let spectra = upchanneliser.upchannelise(&samples)?;
/// assert_eq!((spectra.times(), spectra.extents.channels), (80, 2));
/// assert_eq!(spectra.missing[0].times, 0..3);
/// let [lower, upper] = [0, 1].map(|subchannel| spectra.get(10, subchannel, 0).norm());
/// assert!(lower <= 1.0 && (upper - 100.0).abs() <= 1.0);
/// # Ok::<(), corrust_host::Error>(())
/// ```
pub struct Upchanneliser {
    shape: Shape,
    engine: Channeliser,
    /// Spectra of a piece, before they are put in order.
    made: Spectra,
}

impl Upchanneliser {
    /// Starts a plan for `inputs` inputs and `channels` channels, which `factor` subchannels each are made of: a power
    /// of two, 2 to 512.
    pub fn builder(inputs: usize, channels: usize, factor: usize) -> Builder {
        let encoding = Encoding::Ci8;
        let output = encoding.into();
        Builder {
            shape: Shape { inputs, channels, factor, taps: 4, encoding, output },
            weights: Vec::new(),
            unit_noise: false,
            gains: Vec::new(),
            place: Place::default(),
        }
    }

    /// Axes, encodings and the filter's size.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The device that computes, as a person would name it.
    pub fn device_name(&self) -> &str {
        self.engine.device_name()
    }

    /// The kernel that computes: never [`Kernel::Auto`].
    pub fn kernel(&self) -> Kernel {
        self.engine.kernel()
    }

    /// Forgets the stream; the next samples begin another.
    pub fn reset(&mut self) {
        self.engine.reset();
    }

    /// The spectra that more samples complete: a slice of elements of any type whose bytes are the samples in the plan's
    /// encoding, `[time][channel][input]`, or [`Samples`] that say where they are, how they lie and what of them is
    /// missing. A spectrum that touches a missing sample is missing itself, and zero. Spectra are in host memory,
    /// `[spectrum][channel U + subchannel][input]`; subchannels ascend in frequency.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a slice does not hold a whole number of times, or [`Samples`] are not the plan's
    /// (encoding, channels, inputs, GPU); the device's own errors.
    pub fn upchannelise<'a>(&mut self, samples: impl Into<Feed<'a>>) -> Result<Spectra> {
        let Shape { inputs, channels, factor, encoding, output, .. } = self.shape;
        let row = channels * inputs * encoding.bytes();
        let whole = |bytes: usize| match bytes.is_multiple_of(row) {
            true => Ok(bytes / row),
            false => Err(Error::invalid(format!(
                "{bytes} bytes of samples: expected a multiple of {row} ({channels} channels x {inputs} inputs x {} \
                 bytes)",
                encoding.bytes()
            ))),
        };
        let element = Element::Voltage(encoding);
        let samples = samples.into().samples(element, Layout::Tcn, (channels, inputs), whole)?;
        let times = samples.extents().times;
        self.begin()?;
        let count = self.engine.upcoming(times)?;
        let spectrum = channels * inputs * factor * output.bytes();
        let mut spectra = Spectra {
            first: self.engine.spectra(),
            bytes: zeros(count.saturating_mul(spectrum))?,
            encoding: output,
            layout: Layout::Tcn,
            extents: extents(channels, inputs, factor, count),
            missing: Vec::new(),
            clipped: vec![0; inputs],
        };
        let step = (PIECE_BYTES / row).max(factor);
        let mut done = 0;
        for first in (0..times).step_by(step) {
            let piece = samples.times(first..times.min(first + step));
            self.feed(&piece)?;
            let made = self.made.times();
            self.arrange(&mut spectra.bytes[done * spectrum..(done + made) * spectrum]);
            for (row, clipped) in self.made.clipped.iter().enumerate() {
                spectra.clipped[row % inputs] += clipped;
            }
            let gaps = self.made.missing.iter();
            spectra.missing.extend(gaps.flat_map(|gap| from_rows(gap, inputs, factor, done)));
            done += made;
        }
        Ok(spectra)
    }

    /// Samples before the first, which are missing.
    fn begin(&mut self) -> Result<()> {
        if self.engine.times() > 0 {
            return Ok(());
        }
        let Shape { inputs, channels, encoding, factor, .. } = self.shape;
        let (rows, times) = (channels * inputs, self.engine.shape().window() - factor);
        let before = zeros::<u8>(rows.saturating_mul(encoding.bytes()).saturating_mul(times))?;
        let memory = Memory::Host(&before);
        let gaps = [Missing::times(0..times).of_inputs(0..rows)];
        let before = RawSamples::new(memory, encoding.into(), RawLayout::Tn, rows)?;
        self.engine.channelise(before.missing(&gaps))?;
        Ok(())
    }

    /// Spectra of the rows of a piece.
    fn feed(&mut self, piece: &Samples<'_>) -> Result<()> {
        let Shape { inputs, channels, encoding, .. } = self.shape;
        let gathered;
        let memory = if piece.is_dense(Layout::Tcn) {
            piece.memory()
        } else {
            gathered = match self.engine.gpu() {
                Some(gpu) => piece.gather_from(&gpu.clone(), Layout::Tcn)?,
                None => piece.gather(Layout::Tcn)?,
            };
            Memory::Host(&gathered)
        };
        let (rows, times) = (channels * inputs, piece.extents().times);
        let pitch = rows * encoding.bytes();
        let gaps = to_rows(piece.gaps(), inputs);
        let raw =
            RawSamples::strided(memory, encoding.into(), RawLayout::Tn, [rows, times], pitch)?;
        self.engine.channelise_into(raw.missing(&gaps), &mut self.made)
    }

    /// Puts the bins that are subchannels in order, `[spectrum][channel][subchannel][input]`. The F-engine counts its
    /// phases from the stream's start, where they are to be counted from the spectrum's, so that every second spectrum
    /// has the other sign.
    fn arrange(&self, ordered: &mut [u8]) {
        let Shape { inputs, channels, factor, taps, output, .. } = self.shape;
        let residues = self.engine.shape().residues();
        let (step, run) = (residues / factor, inputs * output.bytes());
        let first = self.made.first + (self.engine.shape().window() / factor - taps) as u64;
        let (to, from) = (channels * factor * run, channels * residues * run);
        let spectra = ordered.par_chunks_exact_mut(to).zip(self.made.bytes.par_chunks_exact(from));
        spectra.enumerate().for_each(|(index, (to, from))| {
            let odd = !(first + index as u64).is_multiple_of(2);
            for (place, to) in to.chunks_exact_mut(run).enumerate() {
                let (channel, subchannel) = (place / factor, place % factor);
                let bin = subchannel * step + step / 2;
                to.copy_from_slice(&from[(bin * channels + channel) * run..][..run]);
                if odd {
                    negate(output, to);
                }
            }
        });
    }
}

/// Values times -1; zero stays as it is.
fn negate(encoding: SpectrumEncoding, bytes: &mut [u8]) {
    let float = |bytes: &mut [u8]| {
        let (sign, rest) = bytes.split_last_mut().expect("a number's bytes");
        if *sign & 0x7f != 0 || rest.iter().any(|&byte| byte != 0) {
            *sign ^= 0x80;
        }
    };
    match encoding {
        SpectrumEncoding::Voltage(Encoding::Ci8) => {
            bytes.iter_mut().for_each(|part| *part = part.wrapping_neg());
        }
        // Eight more is as much as eight less.
        SpectrumEncoding::Voltage(Encoding::Ci4 | Encoding::Ci4Offset) => {
            for parts in bytes {
                *parts = (*parts & 0xf0).wrapping_neg() & 0xf0 | parts.wrapping_neg() & 0x0f;
            }
        }
        SpectrumEncoding::Voltage(_) => bytes.chunks_exact_mut(2).for_each(float),
        SpectrumEncoding::Cf32 => bytes.chunks_exact_mut(4).for_each(float),
    }
}
