//! Samples to correlate: a recording of channels, or raw voltages and their F-engine.

use std::{num::NonZeroU64, sync::Arc};

use corrust::{
    Channeliser, Devices, Error, Result, Upchanneliser, channelise,
    correlate::Shape,
    device::Gpu,
    format::{
        RawShape, Recording,
        array::{Array, Channels},
        later,
    },
    quantise::{Quantised, Quantiser, VanVleck},
    run::{Channelise, Channelised, Reader, Source, Upchannelised},
};

use crate::cli::commands::correlate::unit::Unit;
use crate::cli::options::engine::{self, Engine, Known, Sky};
use crate::cli::options::files::{Files, RawOptions};
use crate::cli::options::flagging::{Flagging, Judged};
use crate::cli::options::selection::Timing;
use crate::cli::terminal::numbers::digits;
use crate::cli::terminal::say::warn;

/// Samples to correlate and their facts.
pub struct Input {
    pub shape: Shape,
    /// Number of times; `u64::MAX` if unknown.
    pub recorded: u64,
    /// Seconds from one time to the next.
    pub interval: Option<f64>,
    /// How its samples were made of others, as its files say.
    quantised: Vec<Quantised>,
    pub kind: Kind,
    /// Facts of channels that were made of raw voltages.
    pub sky: Option<Sky>,
}

/// Kind of the samples.
pub enum Kind {
    Channels(Box<dyn Recording>),
    Raw(Box<Raw>),
}

/// Raw voltages and their F-engine.
pub struct Raw {
    pub voltages: Reader<RawShape>,
    pub builder: channelise::Builder,
    pub level: Option<f32>,
    pub engine: channelise::Shape,
}

impl Kind {
    /// The samples as a source, read about `at_once` times at a time, else as suits a correlator; flagged samples are
    /// missing. The F-engine of raw voltages is on the GPUs of the products, too; spectra are judged on the only one.
    pub fn source(
        self,
        flagging: &Flagging,
        device: &Devices,
        gpus: &[Arc<dyn Gpu>],
        at_once: Option<usize>,
    ) -> Result<(Box<dyn Source>, Option<Judged>)> {
        match (self, at_once, gpus) {
            (Self::Channels(recording), None, _) => {
                Ok((Box::new(Reader::channels(recording).locked_for(gpus.first())), None))
            }
            (Self::Channels(recording), Some(at_once), _) => {
                flagging.over(recording, gpus, at_once)
            }
            (Self::Raw(raw), at_once, gpus) => {
                let (voltages, engine) = raw.on(device.clone(), gpus.to_vec())?;
                let spectra = Channelise::over(voltages, engine)?;
                match (flagging.flag, at_once, gpus) {
                    (Some(_), Some(at_once), [gpu]) => flagging.on_gpu(spectra, gpu, at_once),
                    _ => Ok((Box::new(spectra), None)),
                }
            }
        }
    }
}

impl Raw {
    /// The voltages, and their F-engine on some devices, with its gains measured where they are to be.
    pub fn on(
        self,
        device: Devices,
        gpus: Vec<Arc<dyn Gpu>>,
    ) -> Result<(Reader<RawShape>, Channeliser)> {
        let mut voltages = self.voltages.locked_for(gpus.first());
        let mut builder = self.builder.device(device).gpus(gpus);
        if let Some(sigma) = self.level
            && let Some(first) = voltages.first()?
        {
            builder = builder.level(sigma, first)?;
        }
        Ok((voltages, builder.build()?))
    }
}

impl Input {
    /// Files of raw voltages, and the F-engine that makes channels of them; facts of the array file take precedence over
    /// the recording's.
    pub fn channelised(
        files: &Files,
        engine: &Engine,
        raw: &RawOptions,
        channels: usize,
        array: Option<&Array>,
    ) -> Result<Self> {
        let recording = Engine::open(&files.inputs, raw.with(files.options()))?;
        let known = Known::of(array, channels)?;
        let of = engine::Raw::of(&*recording, &files.inputs[0]);
        let (builder, sky) = engine.builder(channels, &of, raw.rate(), &known)?;
        Self::raw(recording, builder, engine.level(), sky)
    }

    /// Raw voltages, and the F-engine that is to make channels of them, with gains to be measured where there
    /// is a `level`.
    pub fn raw(
        recording: Box<dyn Recording<RawShape>>,
        builder: channelise::Builder,
        level: Option<f32>,
        sky: Sky,
    ) -> Result<Self> {
        let engine = builder.shape()?;
        let shape = engine::correlated(&engine)?;
        let recorded = match recording.times() {
            u64::MAX => u64::MAX,
            times => engine.spectra(times),
        };
        let voltages = Reader::voltages(recording, &engine);
        let raw = Raw { voltages, builder, level, engine };
        let (interval, kind) = (sky.interval, Kind::Raw(Box::new(raw)));
        Ok(Self { shape, recorded, interval, quantised: Vec::new(), kind, sky: Some(sky) })
    }

    /// Reads raw voltages in blocks of `times` times, at least 1.
    #[cfg(feature = "serve")]
    pub fn blocks(self, times: usize) -> Self {
        match self.kind {
            Kind::Channels(_) => self,
            Kind::Raw(raw) => {
                let raw = Raw { voltages: raw.voltages.blocks(times), ..*raw };
                Self { kind: Kind::Raw(Box::new(raw)), ..self }
            }
        }
    }

    /// The same as a recording of channels: of raw voltages their spectra, which are made on some devices.
    pub fn recording(self, device: Devices, gpus: Vec<Arc<dyn Gpu>>) -> Result<Self> {
        let Kind::Raw(raw) = self.kind else { return Ok(self) };
        let (voltages, engine) = raw.on(device, gpus)?;
        let sky = self.sky.unwrap_or_default();
        let (start, frequencies) = sky.found();
        let recording = Channelised::over(voltages, engine)?;
        let recording = Box::new(recording.told(sky.interval, start, frequencies));
        let shape = recording.shape();
        Ok(Self { shape, kind: Kind::Channels(recording), ..self })
    }

    /// The subchannels that a plan makes of the channels of a recording.
    pub fn upchannelised(self, plan: Upchanneliser) -> Result<Self> {
        let Kind::Channels(recording) = self.kind else {
            unreachable!("raw voltages become a recording of channels before")
        };
        let (factor, taps) = (plan.shape().factor as f64, plan.shape().taps as f64);
        let recording = Upchannelised::over(recording, plan)?;
        let sky = self.sky.map(|sky| {
            let interval = sky.interval.map(|interval| interval * factor);
            let first = sky.first_channel.zip(sky.channel_width);
            Sky {
                interval,
                offset: sky.offset - (taps - 1.0) / 2.0 * interval.unwrap_or(0.0),
                first_channel: first
                    .map(|(first, width)| first - width * (1.0 - 1.0 / factor) / 2.0),
                channel_width: sky.channel_width.map(|width| width / factor),
                ..sky
            }
        });
        let made = Self::channels(Box::new(recording));
        Ok(Self { sky, ..made })
    }

    /// A recording of channels.
    pub fn channels(recording: Box<dyn Recording>) -> Self {
        Self {
            shape: recording.shape(),
            recorded: recording.times(),
            interval: recording.interval(),
            quantised: recording.quantised().to_vec(),
            kind: Kind::Channels(recording),
            sky: None,
        }
    }

    /// Times and frequencies for the gates of a period; facts of the array's file come first.
    pub fn timing(&self, array: Option<&Array>) -> Timing {
        let channels = self.shape.channels;
        let listed = |channels_of: Option<Channels>| {
            Array { channels: channels_of, ..Array::default() }.frequencies(channels).ok()
        };
        let of_file = array.and_then(|array| array.start);
        let (start, frequencies) = match (&self.kind, self.sky) {
            (_, Some(sky)) => {
                let (start, frequencies) = sky.found();
                (start, listed(frequencies))
            }
            (Kind::Channels(recording), None) => {
                (of_file.or(recording.start()), listed(recording.frequencies()))
            }
            (Kind::Raw(_), None) => (of_file, None),
        };
        let of_file = array.and_then(|array| array.frequencies(channels).ok());
        Timing {
            start,
            interval: array.and_then(|array| array.sample_time).or(self.interval),
            frequencies: of_file.or(frequencies),
        }
    }

    /// Returns the correction of sums to coefficients: for the quantiser of this step, else for the one that the files
    /// name, else for the optimal one.
    pub fn van_vleck(&self, step: Option<f64>) -> Result<VanVleck> {
        let encoding = self.shape.encoding;
        if !encoding.is_bits() {
            return Err(Error::invalid(format!(
                "--van-vleck of {encoding} samples: expected b1 or b2, as corrust quantise --planes makes them"
            )));
        }
        let bits = encoding.planes() as u32;
        match (step, &self.quantised[..]) {
            (Some(step), _) => Ok(Quantiser::new(bits, step)?.van_vleck()),
            (None, []) => Ok(Quantiser::optimal(bits)?.van_vleck()),
            (None, [first, others @ ..]) => {
                let other = others.iter().find(|other| !first.agrees(other));
                other.map_or_else(|| first.van_vleck(), |other| Err(differ(first, other)))
            }
        }
    }

    /// Unit of the time axis.
    pub fn unit(&self) -> Unit {
        if self.sky.is_some() { Unit::Spectrum } else { Unit::Time }
    }

    /// Number of times of a dump of `seconds` seconds.
    pub fn times_of(&self, seconds: f64) -> Result<NonZeroU64> {
        let Some(interval) = self.interval else {
            return Err(Error::invalid(format!(
                "--seconds {seconds}: the recording does not say how many samples a second it has, \
                 expected --integrate{}",
                if self.sky.is_some() { " or --rate" } else { "" }
            )));
        };
        NonZeroU64::new((seconds / interval).round() as u64).ok_or_else(|| {
            Error::invalid(format!(
                "--seconds {seconds}: expected at least {interval}, from one {} to the next",
                self.unit().one()
            ))
        })
    }
}

/// Says that files were quantised in different ways.
fn differ(first: &Quantised, other: &Quantised) -> Error {
    let told = |made: &Quantised| {
        let Quantised { of, noise, transitions } = made;
        let places: Vec<_> = transitions.iter().map(|[place, _]| digits(*place)).collect();
        format!("{of} noise of {} at {}", digits(*noise), places.join(", "))
    };
    Error::invalid(format!(
        "--van-vleck of files quantised from {} and from {}: expected the same of all, by quantise --noise, or \
         --van-vleck=STEP",
        told(first),
        told(other)
    ))
}

/// The array with what the recording says and its file does not; where they contradict each other the file
/// counts, and that is said.
pub fn completed(mut array: Array, input: &Input) -> Result<Array> {
    match (&input.sky, &input.kind) {
        (Some(sky), _) => complete(&mut array, sky, input.shape.channels)?,
        (None, Kind::Channels(recording)) => {
            array.complete(&**recording, input.shape.channels).into_iter().for_each(warn);
        }
        (None, Kind::Raw(_)) => {}
    }
    if array.phase_center.is_some() && !input.sky.is_some_and(|sky| sky.delayed) {
        warn(array.error(
            "\"phase_center\": the recording's samples were not delayed towards it, so the output is \
             not phased",
        ));
    }
    Ok(array)
}

/// Completes the array by the facts of an F-engine's spectra that its file lacks.
pub fn complete(array: &mut Array, sky: &Sky, channels: usize) -> Result<()> {
    let differ = |a: f64, b: f64| (a - b).abs() > 1e-9 * b.abs();
    if let Some(interval) = sky.interval {
        let seconds = *array.sample_time.get_or_insert(interval);
        if differ(seconds, interval) {
            warn(array.error(format_args!(
                "\"sample_time\" {seconds} s, where the spectra have {interval} s: the former counts"
            )));
        }
    }
    // As for delays, the command line comes first.
    array.start = sky.start.or(array.start);
    array.start = array.start.and_then(|start| later(start, sky.offset));
    match (&array.channels, sky.channel_width) {
        (Some(known), Some(width)) => {
            let found = known.width(0).unwrap_or(width);
            let first = array.frequencies(channels)?[0];
            let expected = sky.first_channel.unwrap_or(first);
            if differ(found, width) || (first - expected).abs() > 1e-6 * width {
                warn(array.error(format_args!(
                    "channels of {found} Hz from {first} Hz on, where the F-engine makes those of {width} Hz \
                     from {expected} Hz on: the former count"
                )));
            }
        }
        (None, Some(width)) => {
            let first = sky.first_channel.ok_or_else(|| {
                let reason = "lacks \"frequencies\": expected them, or --sky-frequency, for UVH5";
                array.error(reason)
            })?;
            array.channels = Some(Channels::Even { first, width });
        }
        (_, None) => {}
    }
    Ok(())
}
