//! The plan.

use std::sync::Arc;

use num_complex::Complex;

use super::{
    cpu::Cpu,
    gpu::OnGpu,
    history::{History, merged},
    shape::Shape,
    weights::weights,
};
use crate::{
    backend::{Placed, not_on_device},
    channelise::{
        shape::SpectrumEncoding,
        spectra::{Spectra, SpectraMut},
    },
    device::{choice::Devices, gpu::Gpu, host::zeros},
    error::{Error, Result},
    kernels::upchannelise::Kernel,
    layout::Layout,
    sample::Encoding,
    samples::{
        extents::{Element, Extents},
        feed::Feed,
        missing::Missing,
        view::Samples,
    },
    tuning::place::{PlanDevices, place_setters},
};

/// Bytes of samples that the CPU takes at a time, unless a spectrum is made of more.
const PIECE_BYTES: usize = 1 << 25;

/// Settings of an upchanneliser; see [`Upchanneliser::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    shape: Shape,
    /// In place of [`weights`], if it is not empty.
    weights: Vec<f64>,
    unit_noise: bool,
    gains: Vec<Complex<f32>>,
    place: PlanDevices<Kernel>,
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
    /// [`Error::Invalid`] for a shape without a filter bank.
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
    /// [`Error::Invalid`] for a shape without a filter bank, weights or gains that do not fit the shape or are not finite,
    /// or a kernel that does not run on the device; [`Error::Device`] when the device does not exist;
    /// [`Error::OutOfMemory`].
    pub fn build(self) -> Result<Upchanneliser> {
        let shape = self.shape()?;
        let Self { weights: mut own, unit_noise, gains, place, .. } = self;
        if own.is_empty() {
            own = weights(shape.factor, shape.taps);
        }
        let filter = shape.filter(&own, unit_noise)?;
        shape.check_gains(&gains, &filter)?;
        let gpus = place.open()?;
        let (kernel, backend) = match &gpus[..] {
            [] => {
                let (kernel, cpu) = Cpu::new(&shape, filter, &gains, place.kernel)?;
                (kernel, Backend::Cpu(Box::new(cpu)))
            }
            [gpu] => {
                let on_gpu = OnGpu::new(gpu.clone(), &shape, &filter, &gains, place.kernel)?;
                (on_gpu.kernel, Backend::Gpu(Box::new(on_gpu)))
            }
            gpus => {
                return Err(Error::invalid(format!(
                    "{} GPUs for one upchanneliser: expected one",
                    gpus.len()
                )));
            }
        };
        let backend = Placed::new(&gpus, (kernel, Box::new(backend)));
        let of_real = circularity(&own, shape.factor);
        Ok(Upchanneliser { history: History::new(&shape), shape, backend, of_real })
    }
}

/// `|sum W[s]^2 exp(2 pi j s (U - 1 - 2 u) / U)| / sum W^2` of each subchannel `u`.
fn circularity(weights: &[f64], factor: usize) -> Vec<f64> {
    let power: f64 = weights.iter().map(|weight| weight * weight).sum();
    let of = |subchannel: usize| {
        let step = (factor as f64 - 1.0 - 2.0 * subchannel as f64) / factor as f64;
        let turns = |s: usize| std::f64::consts::TAU * (step * s as f64).fract();
        let terms = weights.iter().enumerate();
        let sum: Complex<f64> =
            terms.map(|(s, weight)| Complex::from_polar(weight * weight, turns(s))).sum();
        sum.norm() / power
    };
    (0..factor).map(of).collect()
}

/// A place that computes.
enum Backend {
    Cpu(Box<Cpu>),
    Gpu(Box<OnGpu>),
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
    history: History,
    backend: Placed<Backend, Kernel>,
    /// `|E[Y^2]| / E[|Y|^2]` of each subchannel of a channel whose noise is real.
    of_real: Vec<f64>,
}

impl Upchanneliser {
    /// Starts a plan for `inputs` inputs and `channels` channels, each made into `factor` subchannels: a power of two,
    /// 2 to 512.
    pub fn builder(inputs: usize, channels: usize, factor: usize) -> Builder {
        let encoding = Encoding::Ci8;
        let output = encoding.into();
        Builder {
            shape: Shape { inputs, channels, factor, taps: 4, encoding, output },
            weights: Vec::new(),
            unit_noise: false,
            gains: Vec::new(),
            place: PlanDevices::default(),
        }
    }

    /// Axes, encodings and the filter's size.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Circularity of white noise in each subchannel, `|E[Y^2]| / E[|Y|^2]`, `[channel][subchannel]`, from that in the
    /// channels: see [`Channeliser::circularity`](crate::Channeliser::circularity).
    pub fn circularity(&self, of_channels: &[f64]) -> Vec<f64> {
        let all = of_channels.iter();
        all.flat_map(|channel| self.of_real.iter().map(move |of| of * channel)).collect()
    }

    /// Name of the device that computes, for people to read.
    pub fn device_name(&self) -> &str {
        self.backend.device_name()
    }

    /// The GPU that computes; [`None`] on the CPU.
    pub fn gpu(&self) -> Option<&Arc<dyn Gpu>> {
        self.backend.gpu()
    }

    /// The kernel that computes: never [`Kernel::Auto`].
    pub fn kernel(&self) -> Kernel {
        self.backend.kernel()
    }

    /// Forgets the stream; the next samples begin another.
    pub fn reset(&mut self) {
        self.history.reset();
        if let Backend::Cpu(cpu) = &mut *self.backend {
            cpu.reset();
        }
    }

    /// Number of spectra that `times` more times complete, missing ones included.
    pub fn upcoming(&self, times: usize) -> usize {
        self.history.upcoming(times)
    }

    /// Waits until the device has done everything that it was given.
    ///
    /// # Errors
    /// The device's own.
    pub fn wait(&mut self) -> Result<()> {
        match &*self.backend {
            Backend::Cpu(_) => Ok(()),
            Backend::Gpu(on_gpu) => on_gpu.wait(),
        }
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
        let mut spectra = Spectra::default();
        self.upchannelise_into(samples, &mut spectra)?;
        Ok(spectra)
    }

    /// [`upchannelise`](Self::upchannelise) in place of other spectra, whose memory is used again.
    ///
    /// # Errors
    /// As for [`upchannelise`](Self::upchannelise).
    pub fn upchannelise_into<'a>(
        &mut self,
        samples: impl Into<Feed<'a>>,
        spectra: &mut Spectra,
    ) -> Result<()> {
        let samples = self.samples(samples.into())?;
        let times = samples.extents().times;
        let count = self.upcoming(times);
        let spectrum = self.shape.spectrum_bytes();
        let mut bytes = std::mem::take(&mut spectra.bytes);
        if bytes.len() != count.saturating_mul(spectrum) {
            bytes = zeros(count.saturating_mul(spectrum))?;
        }
        *spectra = Spectra { bytes, ..self.empty(count) };
        let Spectra { bytes, clipped, .. } = &mut *spectra;
        let missing = match &mut *self.backend {
            Backend::Gpu(on_gpu) => {
                on_gpu.upchannelise(&samples, &mut self.history, bytes, clipped)?
            }
            Backend::Cpu(cpu) => {
                let step = (PIECE_BYTES / self.shape.time_bytes()).max(self.shape.factor);
                let mut missing = Vec::new();
                let mut done = 0;
                for first in (0..times).step_by(step) {
                    let piece = samples.times(first..times.min(first + step));
                    let batch = self.history.advance(piece.extents().times, piece.gaps());
                    let to = &mut bytes[done * spectrum..(done + batch.count) * spectrum];
                    cpu.upchannelise(&piece, &batch, to, clipped)?;
                    missing.extend(batch.gaps.into_iter().map(|gap| Missing {
                        times: gap.times.start + done..gap.times.end + done,
                        ..gap
                    }));
                    done += batch.count;
                }
                missing
            }
        };
        spectra.missing = self.of_subchannels(missing);
        Ok(())
    }

    /// [`upchannelise`](Self::upchannelise) into the memory of the plan's GPU, room for the
    /// [upcoming](Self::upcoming) spectra. Enqueued in the order of the streams of the samples and of the room without
    /// waiting. Returns the spectra without their samples, and without counts of those that were clipped.
    ///
    /// # Errors
    /// As for [`upchannelise`](Self::upchannelise), and [`Error::Invalid`] when the plan is the CPU's, or the room is not
    /// that of the spectra.
    pub fn upchannelise_device<'a, 'b>(
        &mut self,
        samples: impl Into<Feed<'a>>,
        room: impl Into<SpectraMut<'b>>,
    ) -> Result<Spectra> {
        let samples = self.samples(samples.into())?;
        let mut spectra = self.empty(self.upcoming(samples.extents().times));
        let missing = match &mut *self.backend {
            Backend::Gpu(on_gpu) => {
                on_gpu.upchannelise_device(&samples, &mut self.history, &room.into())?
            }
            Backend::Cpu(_) => return Err(not_on_device("spectra")),
        };
        spectra.missing = self.of_subchannels(missing);
        Ok(spectra)
    }

    fn samples<'a>(&self, feed: Feed<'a>) -> Result<Samples<'a>> {
        let Shape { inputs, channels, encoding, .. } = self.shape;
        let row = self.shape.time_bytes();
        let whole = |bytes: usize| match bytes.is_multiple_of(row) {
            true => Ok(bytes / row),
            false => Err(Error::invalid(format!(
                "{bytes} bytes of samples: expected a multiple of {row} ({channels} channels x {inputs} inputs x {} \
                 bytes)",
                encoding.bytes()
            ))),
        };
        feed.samples(Element::Voltage(encoding), Layout::Tcn, (channels, inputs), whole)
    }

    /// Metadata of `times` spectra, without samples.
    fn empty(&self, times: usize) -> Spectra {
        let Shape { inputs, channels, factor, output, .. } = self.shape;
        Spectra {
            first: self.history.next(),
            bytes: Vec::new(),
            encoding: output,
            layout: Layout::Tcn,
            extents: Extents { channels: channels * factor, inputs, times },
            missing: Vec::new(),
            clipped: vec![0; inputs],
        }
    }

    /// Missing spectra of channels as those of their subchannels.
    fn of_subchannels(&self, missing: Vec<Missing>) -> Vec<Missing> {
        let factor = self.shape.factor;
        let of = |gap: Missing| {
            let channels = gap.channels.start * factor..gap.channels.end * factor;
            Missing { channels, ..gap }
        };
        merged(missing.into_iter().map(of))
    }
}
