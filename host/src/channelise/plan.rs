//! The plan of an F-engine: built once, then fed any number of times.

use std::sync::Arc;

use num_complex::Complex;

use super::{
    cpu,
    gpu::GpuBackend,
    places::{Batch, Delays, Places},
};
use crate::{
    backend::Placed,
    channelise::{
        backend::{Backend, Setup},
        delays::DelayModel,
        prototype::{Window, normalise, prototype},
        shape::{Shape, SpectrumEncoding},
        spectra::{Spectra, SpectraMut},
    },
    device::{choice::Devices, gpu::Gpu, host::filled, memory::Buffer},
    error::{Error, Result},
    kernels::channelise::Kernel,
    layout::Layout,
    sample::Encoding,
    samples::{
        extents::Memory,
        feed::Feed,
        raw::{RawEncoding, RawLayout, RawSamples},
    },
    tuning::place::{PlanDevices, place_setters},
};

/// Settings of a channeliser; see [`Channeliser::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    shape: Shape,
    /// 0: `K`.
    hop: usize,
    window: Option<Window>,
    /// In place of a window's, if it is not empty.
    prototype: Vec<f64>,
    gains: Vec<Complex<f32>>,
    delays: Option<Delays>,
    place: PlanDevices<Kernel>,
}

impl Builder {
    /// Encoding of a raw sample (default: `i8`). Real samples give channels from DC up, the Nyquist
    /// channel left out; complex ones from half the rate below DC up.
    pub fn encoding(mut self, encoding: impl Into<RawEncoding>) -> Self {
        self.shape.raw = encoding.into();
        self
    }

    /// Order of the axes of raw samples in slices (default: `nt`).
    pub fn layout(mut self, layout: RawLayout) -> Self {
        self.shape.raw_layout = layout;
        self
    }

    /// Taps `P` of the filter bank (default: 8); 1 is a plain windowed FFT.
    pub fn taps(mut self, taps: usize) -> Self {
        self.shape.taps = taps;
        self
    }

    /// The prototype's window (default: `hann`; of one tap, `rect`).
    pub fn window(mut self, window: Window) -> Self {
        self.window = Some(window);
        self
    }

    /// A prototype of your own, `K P` numbers in the order of time; it is scaled to `sum h^2 = 1`. A spectrum does not
    /// touch samples that zeros at its beginning stand for.
    pub fn prototype(mut self, prototype: &[f64]) -> Self {
        self.prototype = prototype.to_vec();
        self
    }

    /// Raw samples `D` from one spectrum to the next (default: `K`): fewer oversample the channels.
    pub fn hop(mut self, hop: usize) -> Self {
        self.hop = hop;
        self
    }

    /// Whether the band runs downwards (default: no): the samples' DC is the highest frequency of a real
    /// band, and each channel is the conjugate of what the sky had. Channels come out in ascending
    /// frequency, conjugated back.
    pub fn inverted(mut self, inverted: bool) -> Self {
        self.shape.inverted = inverted;
        self
    }

    /// Encoding of a channelised sample (default: `ci8`).
    pub fn output(mut self, encoding: impl Into<SpectrumEncoding>) -> Self {
        self.shape.encoding = encoding.into();
        self
    }

    /// Order of the axes of spectra (default: `tcn`).
    pub fn output_layout(mut self, layout: Layout) -> Self {
        self.shape.layout = layout;
        self
    }

    /// Gains, `[input][channel]` in the order of the channels that come out (default: 1).
    pub fn gains(mut self, gains: &[Complex<f32>]) -> Self {
        self.gains = gains.to_vec();
        self
    }

    /// Delays of the inputs, in seconds after the first sample, of samples at `rate` a second; `sky` is the
    /// frequency in hertz that DC stood for before it was mixed down, 0 if it was not. Whole samples
    /// are delayed by indexing; the fraction is a phase of each channel.
    pub fn delays(mut self, model: Arc<dyn DelayModel>, rate: f64, sky: f64) -> Self {
        self.delays = Some(Delays { model, rate, sky });
        self
    }

    place_setters!("channelise", "inputs");

    /// The shape, with defaults filled in.
    ///
    /// # Errors
    /// As for [`Shape::check`].
    pub fn shape(&self) -> Result<Shape> {
        let shape = Shape { hop: if self.hop == 0 { 1 } else { self.hop }, ..self.shape };
        shape.check()?;
        Ok(Shape { hop: if self.hop == 0 { shape.residues() } else { self.hop }, ..shape })
    }

    /// Sets the gains so that the real and imaginary parts of each input and channel have the standard deviation
    /// `sigma`, measured in `samples`, from which the stream may begin; channels without power there keep a gain of 1.
    /// Gains set before are ignored.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `sigma` is no positive number, or the samples are not enough for a spectrum or
    /// not the plan's; those of [`build`](Self::build).
    pub fn level<'a>(
        mut self,
        sigma: f32,
        samples: impl Into<Feed<'a, RawSamples<'a>>>,
    ) -> Result<Self> {
        if !(sigma > 0.0 && sigma.is_finite()) {
            return Err(Error::invalid(format!("a level of {sigma}: expected a positive number")));
        }
        self.gains.clear();
        let mut plan = self.clone().output(SpectrumEncoding::Cf32).build()?;
        let first = plan.channelise(samples)?;
        let rest = plan.finish()?;
        let Shape { inputs, channels, .. } = *plan.shape();
        if first.times() + rest.times() == 0 {
            return Err(Error::invalid(format!(
                "{} raw samples to measure levels of: expected at least the {} of a spectrum",
                plan.places.total(),
                plan.shape().window()
            )));
        }
        let mut sums = vec![(0.0_f64, 0_u64); inputs * channels];
        for spectra in [&first, &rest] {
            let lost = |time: usize, input: usize| {
                spectra
                    .missing
                    .iter()
                    .any(|gap| gap.times.contains(&time) && gap.inputs.contains(&input))
            };
            for (time, input) in
                (0..spectra.times()).flat_map(|time| (0..inputs).map(move |input| (time, input)))
            {
                if lost(time, input) {
                    continue;
                }
                for (channel, sum) in
                    sums[input * channels..(input + 1) * channels].iter_mut().enumerate()
                {
                    let x = spectra.get(time, channel, input);
                    sum.0 += f64::from(x.re).powi(2) + f64::from(x.im).powi(2);
                    sum.1 += 2;
                }
            }
        }
        self.gains = sums
            .into_iter()
            .map(|(sum, count)| {
                let gain = f64::from(sigma) / (sum / count.max(1) as f64).sqrt();
                let gain = gain as f32;
                Complex::new(if gain.is_finite() { gain } else { 1.0 }, 0.0)
            })
            .collect();
        Ok(self)
    }

    /// Plan for `inputs` inputs of tones: floats to floats, without gains and delays.
    pub(super) fn of_tones(&self, inputs: usize) -> Result<Channeliser> {
        let mut tones = self.clone().output(SpectrumEncoding::Cf32).layout(RawLayout::Nt);
        let complex = tones.shape.raw.is_complex();
        tones.shape.inputs = inputs;
        tones.shape.raw = if complex { RawEncoding::Cf32 } else { RawEncoding::F32 };
        tones.shape.inverted = false;
        (tones.gains, tones.delays) = (Vec::new(), None);
        tones.build()
    }

    /// The gains that were set or measured; none if all are 1.
    pub fn gains_set(&self) -> &[Complex<f32>] {
        &self.gains
    }

    /// Builds the plan.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a shape that cannot be channelised (see [`Shape::check`]), a prototype, gains
    /// or rates that are not those of the shape or no finite numbers, or a kernel that does not run on the
    /// device; [`Error::Device`] when the device is not there; [`Error::OutOfMemory`].
    pub fn build(self) -> Result<Channeliser> {
        let shape = self.shape()?;
        let Self { window, prototype: own, gains, delays, place, .. } = self;
        let prototype = if own.is_empty() {
            let by_default = if shape.taps == 1 { Window::Rect } else { Window::Hann };
            prototype(window.unwrap_or(by_default), shape.residues(), shape.taps)
        } else {
            scaled(own, &shape)?
        };
        if let Some(Delays { rate, sky, .. }) = delays {
            if !(rate > 0.0 && rate.is_finite()) {
                return Err(Error::invalid(format!(
                    "{rate} samples a second: expected a positive number"
                )));
            }
            if !sky.is_finite() {
                return Err(Error::invalid(format!(
                    "a sky frequency of {sky} Hz: expected a finite number"
                )));
            }
        }
        let gains = match gains.is_empty() {
            true => filled(Complex::new(1.0, 0.0), shape.inputs.saturating_mul(shape.channels))?,
            false => gains,
        };
        check_gains(&gains, &shape)?;
        let setup = Setup {
            shape: &shape,
            kernel: place.kernel,
            prototype: &prototype,
            gains: &gains,
            turns: delays.is_some(),
        };
        let backend = backend(&place.open()?, &setup)?;
        Ok(Channeliser {
            backend,
            places: Places::new(&shape, &prototype, delays)?,
            shape,
            prototype,
        })
    }
}

/// An own prototype, checked and scaled.
fn scaled(mut own: Vec<f64>, shape: &Shape) -> Result<Vec<f64>> {
    if own.len() != shape.window() {
        return Err(Error::invalid(format!(
            "a prototype of {} numbers: expected {}, {} taps of {}",
            own.len(),
            shape.window(),
            shape.taps,
            shape.residues()
        )));
    }
    if let Some((index, h)) = own.iter().enumerate().find(|(_, h)| !h.is_finite()) {
        return Err(Error::invalid(format!(
            "a prototype with {h} at index {index}: expected finite numbers"
        )));
    }
    normalise(&mut own);
    if own.iter().any(|h| !h.is_finite()) {
        return Err(Error::invalid(
            "a prototype whose squares sum to nothing, or to more than f64 holds: expected numbers \
             around 1",
        ));
    }
    Ok(own)
}

fn check_gains(gains: &[Complex<f32>], shape: &Shape) -> Result<()> {
    let expected = shape.inputs * shape.channels;
    if gains.len() != expected {
        return Err(Error::invalid(format!(
            "{} gains: expected {expected}, for {} inputs and {} channels",
            gains.len(),
            shape.inputs,
            shape.channels
        )));
    }
    if let Some((index, gain)) = gains.iter().enumerate().find(|(_, gain)| !gain.is_finite()) {
        return Err(Error::invalid(format!(
            "a gain of {gain} for input {} and channel {}: expected finite numbers",
            index / shape.channels,
            index % shape.channels
        )));
    }
    Ok(())
}

/// An F-engine planned for one shape and device: [feed](Self::channelise) it raw samples in blocks of any
/// length, and it gives the spectra that they complete; [finish](Self::finish) gives those that delays held
/// back.
///
/// `T` samples give `M = floor((T - K P) / D) + 1` spectra, however the stream is cut, and every backend gives
/// the same bits. White noise of variance 1 has `E|X|^2 = 1`. Samples that are no finite numbers count as
/// zero.
///
/// ```
/// use corrust_host::{Channeliser, Device, channelise::SpectrumEncoding, samples::RawEncoding};
///
/// // A tone in channel 3 of 8, of one input.
/// let samples: Vec<f32> =
///     (0..80).map(|n| (std::f32::consts::TAU * 3.0 * n as f32 / 16.0).cos()).collect();
/// let mut channeliser = Channeliser::builder(1, 8)
///     .encoding(RawEncoding::F32)
///     .taps(4)
///     .output(SpectrumEncoding::Cf32)
///     .device(Device::Cpu)
///     .build()?;
/// let mut spectra = channeliser.channelise(&samples[..70])?;
/// assert_eq!(spectra.times(), 1); // 64 samples make the first, 16 more the next
/// spectra = channeliser.channelise(&samples[70..])?;
/// assert_eq!((spectra.first, spectra.times()), (1, 1));
/// assert!(spectra.get(0, 3, 0).norm() > 1.5 && spectra.get(0, 6, 0).norm() < 0.01);
/// # Ok::<(), corrust_host::Error>(())
/// ```
pub struct Channeliser {
    shape: Shape,
    prototype: Vec<f64>,
    places: Places,
    backend: Placed<dyn Backend, Kernel>,
}

impl Channeliser {
    /// Starts a plan for `inputs` inputs and `channels` channels: `2^a` or `3 x 2^a`, up to 2^19 of real
    /// samples, 2^20 of complex ones.
    pub fn builder(inputs: usize, channels: usize) -> Builder {
        Builder {
            shape: Shape {
                inputs,
                channels,
                taps: 8,
                hop: 0,
                raw: RawEncoding::I8,
                raw_layout: RawLayout::Nt,
                inverted: false,
                encoding: Encoding::Ci8.into(),
                layout: Layout::Tcn,
            },
            hop: 0,
            window: None,
            prototype: Vec::new(),
            gains: Vec::new(),
            delays: None,
            place: PlanDevices::default(),
        }
    }

    /// Axes, encodings and the filter's size.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The prototype `h`, in the order of time, before it is rounded to f32.
    pub fn prototype(&self) -> &[f64] {
        &self.prototype
    }

    /// Circularity of white noise in each channel, `|E[X^2]| / E[|X|^2]`, 0 for complex noise: of real samples 1 in
    /// channel DC, whose values are real but for gains and delays, and little in its neighbours and those of the
    /// Nyquist channel. Empty for complex samples.
    pub fn circularity(&self) -> Vec<f64> {
        // Further from DC and from the Nyquist channel the prototype lets nothing through.
        const REACH: i64 = 4;
        if self.shape.raw.is_complex() {
            return Vec::new();
        }
        let (channels, residues) = (self.shape.channels as i64, self.shape.residues() as f64);
        let power: f64 = self.prototype.iter().map(|h| h * h).sum();
        // sum over n of h[n]^2 exp(-2 pi j 2 k n / K).
        let at = |away: i64| {
            let turns = |n: usize| {
                std::f64::consts::TAU * ((2 * away) as f64 * n as f64 / residues).fract()
            };
            let terms = self.prototype.iter().enumerate();
            let sum: Complex<f64> = terms.map(|(n, h)| Complex::from_polar(h * h, -turns(n))).sum();
            sum.norm() / power
        };
        let near: Vec<f64> = (0..=REACH.min(channels / 2)).map(at).collect();
        let of_channel = |channel| {
            let from_dc = self.shape.frequency(channel).abs();
            near.get(from_dc.min(channels - from_dc) as usize).copied().unwrap_or(0.0)
        };
        (0..self.shape.channels).map(of_channel).collect()
    }

    /// Name of the device that channelises, for people to read.
    pub fn device_name(&self) -> &str {
        self.backend.device_name()
    }

    /// The GPU that channelises; [`None`] on the CPU. It copies quickest from memory that it has locked
    /// ([`Gpu::locked_bytes`]).
    pub fn gpu(&self) -> Option<&Arc<dyn Gpu>> {
        self.backend.gpu()
    }

    /// The kernel that channelises: never [`Kernel::Auto`].
    pub fn kernel(&self) -> Kernel {
        self.backend.kernel()
    }

    /// Replaces the gains, `[input][channel]`, for the spectra to come.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are more or fewer gains than inputs and channels, or one is no finite
    /// number; the device's own errors.
    pub fn set_gains(&mut self, gains: &[Complex<f32>]) -> Result<()> {
        check_gains(gains, &self.shape)?;
        self.backend.set_gains(gains)
    }

    /// Raw samples of each input so far.
    pub fn times(&self) -> u64 {
        self.places.total()
    }

    /// Spectra so far.
    pub fn spectra(&self) -> u64 {
        self.places.next()
    }

    /// Number of spectra that `times` more raw samples complete, if none is missing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for delays that are no numbers or too long.
    pub fn upcoming(&self, times: usize) -> Result<usize> {
        Ok(self.places.clone().advance(times, std::iter::empty(), false)?.count)
    }

    /// The spectra that more raw samples complete: a slice of elements of any type whose bytes are the samples
    /// in the plan's encoding and layout, or [`RawSamples`] that say where they are, in host or device
    /// memory, how they lie and what of them is missing. A spectrum that touches a missing sample is
    /// missing itself, and zero.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a slice does not hold a whole number of times, [`RawSamples`] are not the
    /// plan's (encoding, inputs, GPU), or delays are no numbers or too long; the device's own errors.
    pub fn channelise<'a>(
        &mut self,
        samples: impl Into<Feed<'a, RawSamples<'a>>>,
    ) -> Result<Spectra> {
        let mut spectra = Spectra::default();
        self.channelise_into(samples, &mut spectra)?;
        Ok(spectra)
    }

    /// [`channelise`](Self::channelise) into the spectra of an earlier block, or [`Spectra::default`]: where
    /// they are as many their memory is used again.
    ///
    /// # Errors
    /// As for [`channelise`](Self::channelise); the spectra are of no use then.
    pub fn channelise_into<'a>(
        &mut self,
        samples: impl Into<Feed<'a, RawSamples<'a>>>,
        spectra: &mut Spectra,
    ) -> Result<()> {
        let block = self.block(samples.into())?;
        self.advance(&block, false, spectra)
    }

    /// The spectra of the stream that are left, which would have needed later samples because inputs are
    /// advanced: missing. The stream is over then, and the next samples begin another.
    ///
    /// # Errors
    /// The device's own.
    pub fn finish(&mut self) -> Result<Spectra> {
        let mut spectra = Spectra::default();
        let Shape { inputs, raw, raw_layout, .. } = self.shape;
        let none = RawSamples::strided(&[0_u8; 0][..], raw, raw_layout, [inputs, 0], 0)?;
        self.advance(&none, true, &mut spectra)?;
        self.reset();
        Ok(spectra)
    }

    /// [`channelise`](Self::channelise) into the memory of the plan's GPU. Enqueued in the order of the streams
    /// of the samples and of the room without waiting. Returns the spectra without their samples, and
    /// without counts of those that were clipped.
    ///
    /// # Errors
    /// As for [`channelise`](Self::channelise), and [`Error::Invalid`] when the plan is the CPU's, or the room
    /// is not that of the spectra.
    pub fn channelise_device<'a, 'b>(
        &mut self,
        samples: impl Into<Feed<'a, RawSamples<'a>>>,
        room: impl Into<SpectraMut<'b>>,
    ) -> Result<Spectra> {
        let block = self.block(samples.into())?;
        let (start, batch) = self.batch(&block, false)?;
        self.advance_device(&block, start, batch, &room.into())
    }

    /// [`channelise_device`](Self::channelise_device) into a buffer that is made as long as it is to be, and
    /// counts of clipped samples that are added to.
    pub(crate) fn channelise_buffer(
        &mut self,
        samples: RawSamples<'_>,
        room: &mut Buffer,
        clipped: &mut Buffer,
    ) -> Result<Spectra> {
        let block = self.block(samples.into())?;
        let (start, batch) = self.batch(&block, false)?;
        let bytes = self.shape.spectrum_bytes() * batch.count;
        room.reserve(bytes)?;
        let samples = room.slice_mut().first(bytes);
        let room = SpectraMut { samples, clipped: Some(clipped.slice_mut()) };
        self.advance_device(&block, start, batch, &room)
    }

    fn advance_device(
        &mut self,
        block: &RawSamples<'_>,
        start: u64,
        batch: Batch,
        room: &SpectraMut<'_>,
    ) -> Result<Spectra> {
        let mut spectra = Spectra::default();
        spectra.make_room(&self.shape, 0)?;
        spectra.extents.times = batch.count;
        self.backend.channelise_device(block, start, &batch, room)?;
        (spectra.first, spectra.missing) = (batch.first, batch.missing);
        Ok(spectra)
    }

    /// Waits until the device has done everything that it was given.
    ///
    /// # Errors
    /// The device's own.
    pub fn wait(&mut self) -> Result<()> {
        self.backend.wait()
    }

    /// Forgets the stream; the next samples begin another.
    pub fn reset(&mut self) {
        self.places.reset();
        self.backend.reset();
    }

    /// Forgets the stream and begins within another, of which spectrum `spectrum` comes next: a part of a
    /// recording gives the bits that the whole would. Returns which of the whole stream's samples is to be fed
    /// first.
    ///
    /// # Errors
    /// [`Error::Invalid`] for delays that are no numbers or too long, or a number beyond all samples.
    ///
    /// ```
    /// use corrust_host::{Channeliser, Device};
    ///
    /// let stream: Vec<i8> = (0..4000).map(|n| (n * n % 251) as i8).collect();
    /// let mut channeliser = Channeliser::builder(1, 8).taps(4).device(Device::Cpu).build()?;
    /// let whole = channeliser.channelise(&stream)?;
    /// let first = channeliser.begin_at(100)? as usize;
    /// assert_eq!(first, 1600); // the window of spectrum 100 begins there, 64 samples long
    /// let part = channeliser.channelise(&stream[first..])?;
    /// assert_eq!((part.first, part.get(0, 3, 0)), (100, whole.get(100, 3, 0)));
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    pub fn begin_at(&mut self, spectrum: u64) -> Result<u64> {
        self.backend.reset();
        self.places.begin_at(spectrum)
    }

    fn batch(&mut self, block: &RawSamples<'_>, ends: bool) -> Result<(u64, Batch)> {
        let start = self.places.total();
        Ok((start, self.places.advance(block.len(), block.gaps(), ends)?))
    }

    fn advance(&mut self, block: &RawSamples<'_>, ends: bool, spectra: &mut Spectra) -> Result<()> {
        let (start, batch) = self.batch(block, ends)?;
        spectra.make_room(&self.shape, batch.count)?;
        self.backend.channelise(block, start, &batch, spectra)?;
        (spectra.first, spectra.missing) = (batch.first, batch.missing);
        Ok(())
    }

    fn block<'a>(&self, feed: Feed<'a, RawSamples<'a>>) -> Result<RawSamples<'a>> {
        let Shape { inputs, raw, raw_layout, .. } = self.shape;
        match feed {
            Feed::Bytes(bytes, _) => RawSamples::new(Memory::Host(bytes), inputs, raw, raw_layout),
            Feed::Samples(samples) => {
                if samples.encoding() != raw {
                    return Err(Error::invalid(format!(
                        "raw samples of {}: expected {raw}",
                        samples.encoding()
                    )));
                }
                if samples.inputs() != inputs {
                    return Err(Error::invalid(format!(
                        "raw samples of {} inputs: expected {inputs}",
                        samples.inputs()
                    )));
                }
                Ok(samples)
            }
        }
    }
}

/// The backend on a GPU, or on the CPU where there is none.
fn backend(gpus: &[Arc<dyn Gpu>], setup: &Setup<'_>) -> Result<Placed<dyn Backend, Kernel>> {
    match gpus {
        [] => Ok(Placed::new(gpus, cpu::backend(setup)?)),
        [gpu] => {
            let backend = GpuBackend::new(gpu.clone(), setup)?;
            Ok(Placed::new(gpus, (backend.kernel, Box::new(backend))))
        }
        _ => Err(Error::invalid(format!("{} GPUs for one F-engine: expected one", gpus.len()))),
    }
}
