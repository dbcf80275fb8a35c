//! Samples to work on: a recording of channels, or raw voltages and their F-engine; subchannels of both.

pub mod product_input;
pub mod unit;

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use corrust::{
    Devices, Error, Result, Samples, Upchanneliser, channelise,
    correlate::Shape,
    device::Gpu,
    format::{
        Options, RawShape, Recording,
        array::{Array, Channels},
    },
    run::{
        Blocks, BlocksOf, Channelise, Head, HostSpectra, Piece, Reader, Source, Upchannelise, Wants,
    },
};

use self::product_input::{ProductInput, Ticks};
use crate::cli::options::engine::{self, Engine, Known, Sky};
use crate::cli::options::files::RawOptions;
use crate::cli::options::flagging::{Flagging, Judged};
use crate::cli::options::given;
use crate::cli::options::selection::Timing;
use crate::cli::terminal::missing::{LOST, LOST_OR_BEYOND, fractions};
use crate::cli::terminal::say::warn;

/// Raw voltages, and the channels that are made of them first.
#[derive(Debug, clap::Args)]
#[command(
    mut_group("Engine", |group| group.requires("channelise")),
    mut_group("RawOptions", |group| group.requires("channelise"))
)]
pub struct RawInput {
    /// Number of channels to make of a recording of raw voltages: from 0 Hz up without the Nyquist channel for real
    /// samples, around 0 Hz for complex ones. Twice it (real) or it (complex) is 2^a or 3 x 2^a, 8 to 1048576
    #[arg(long, value_name = "C", help_heading = "F-engine")]
    pub channelise: Option<usize>,
    #[command(flatten)]
    pub engine: Engine,
    #[command(flatten)]
    raw: RawOptions,
}

impl RawInput {
    /// Opens files of raw voltages, if channels are to be made of them. Facts of the array file, which is of `factor`
    /// subchannels of every channel, take precedence over the recording's; `dated` are outputs that use times and frequencies,
    /// which `expected` names.
    pub fn open(
        &self,
        (paths, options): (&[PathBuf], Options),
        (array, factor): (Option<&Array>, usize),
        (dated, expected): (bool, &str),
    ) -> Result<Option<Input>> {
        let Some(channels) = self.channelise else { return Ok(None) };
        self.engine.warn_of_sky_but_for(expected, dated);
        let coarse = array.filter(|_| factor > 1).map(|array| array.coarse(channels, factor));
        let coarse = coarse.transpose()?;
        let array = coarse.as_ref().or(array);
        let input =
            Input::channelised((paths, self.raw.with(options)), &self.engine, channels, array);
        input.map(Some).map_err(|error| match error {
            // Some commands have other bits, too.
            Error::Setting { setting: "bits", path, reason } if given::is_given("raw-bits") => {
                Error::Setting { setting: "raw_bits", path, reason }
            }
            other => other,
        })
    }
}

/// Samples to work on: channels of a recording, or that are made of one, and their facts.
pub struct Input {
    pub head: Head,
    kind: Kind,
    /// Makes subchannels of the channels.
    subchannels: Option<Upchanneliser>,
    /// Whether an F-engine delays inputs towards a phase centre.
    pub delayed: bool,
}

/// Kind of the samples.
enum Kind {
    Channels(Box<dyn Recording>),
    Raw(Box<Raw>),
}

/// Raw voltages and their F-engine, with gains to be measured where there is a `level`.
struct Raw {
    voltages: Reader<RawShape>,
    builder: channelise::Builder,
    level: Option<f32>,
}

impl Raw {
    /// The spectra, made on a device or a GPU, with gains measured where they are to be.
    fn spectra(self, device: Devices, gpu: Option<&Arc<dyn Gpu>>) -> Result<Channelise<'static>> {
        let mut voltages = self.voltages.locked_for(gpu);
        let mut builder = self.builder.device(device).gpus(gpu.cloned());
        if let Some(sigma) = self.level
            && let Some(first) = voltages.first()?
        {
            builder = builder.level(sigma, first)?;
        }
        Channelise::over(voltages, builder.build()?)
    }
}

impl Input {
    /// Files of raw voltages, and the F-engine that makes channels of them; facts of the array file take precedence over
    /// the recording's.
    pub fn channelised(
        (paths, options): (&[PathBuf], Options),
        engine: &Engine,
        channels: usize,
        array: Option<&Array>,
    ) -> Result<Self> {
        let recording = Engine::open(paths, options)?;
        let known = Known::of(array, channels)?;
        let of = engine::Raw::of(&*recording, &paths[0]);
        let (builder, sky) = engine.builder(channels, &of, options.rate, &known)?;
        Self::raw(recording, (builder, engine.level()), sky, None)
    }

    /// Raw voltages, and the F-engine that is to make channels of them, with gains to be measured where there
    /// is a level; they are read in blocks of `at_once` samples, or as suits the F-engine.
    pub fn raw(
        recording: Box<dyn Recording<RawShape>>,
        (builder, level): (channelise::Builder, Option<f32>),
        sky: Sky,
        at_once: Option<usize>,
    ) -> Result<Self> {
        let engine = builder.shape()?;
        let (start, frequencies) = sky.found();
        let of = Head::of(&*recording);
        let head = Head {
            times: of.times.map(|times| engine.spectra(times)),
            interval: sky.interval,
            start,
            frequencies,
            source: of.source,
            source_name: of.source_name,
            ..Head::new(engine::correlated(&engine)?)
        };
        let voltages = match at_once {
            Some(at_once) => Reader::over(recording, at_once).filled(),
            None => Reader::voltages(recording, &engine),
        };
        let kind = Kind::Raw(Box::new(Raw { voltages, builder, level }));
        Ok(Self { head, kind, subchannels: None, delayed: sky.delayed })
    }

    /// A recording of channels.
    pub fn channels(recording: Box<dyn Recording>) -> Self {
        let (head, kind) = (Head::of(&*recording), Kind::Channels(recording));
        Self { head, kind, subchannels: None, delayed: false }
    }

    /// The subchannels that a plan makes of the channels.
    pub fn upchannelised(self, plan: Upchanneliser) -> Result<Self> {
        let head = Upchannelise::head(&self.head, &plan)?;
        Ok(Self { head, subchannels: Some(plan), ..self })
    }

    /// Whether spectra of raw voltages are time samples.
    pub fn is_raw(&self) -> bool {
        matches!(self.kind, Kind::Raw(_))
    }

    /// Number of times; `u64::MAX` if unknown.
    pub fn recorded(&self) -> u64 {
        self.head.times.unwrap_or(u64::MAX)
    }

    /// The samples as a source, read about `at_once` times at a time, else as suits a correlator; flagged samples are
    /// missing. The F-engine of raw voltages is on the products' GPU, too, where spectra are judged; several GPUs fetch their
    /// channels of the spectra that the first one makes.
    pub fn source(
        self,
        flagging: &Flagging,
        device: &Devices,
        gpus: &[Arc<dyn Gpu>],
        at_once: Option<usize>,
    ) -> Result<(Box<dyn Source>, Option<Judged>, Losses)> {
        let losses = Losses::of(&self);
        let (source, judged) = self.stages(flagging, device, gpus, at_once)?;
        // Judges count what is lost, too.
        Ok(match judged {
            Some(judged) => (source, Some(judged), losses),
            None => (Box::new(Counted { source, lost: losses.lost.clone() }), None, losses),
        })
    }

    /// The source of [`source`](Self::source).
    fn stages(
        self,
        flagging: &Flagging,
        device: &Devices,
        gpus: &[Arc<dyn Gpu>],
        at_once: Option<usize>,
    ) -> Result<(Box<dyn Source>, Option<Judged>)> {
        let factor = self.subchannels.as_ref().map_or(1, |plan| plan.shape().factor);
        let at_once = at_once.unwrap_or_else(|| Reader::correlated_times(&self.head.shape));
        let times = flagging.whole(at_once);
        // Steps in host memory.
        let on_host = self.subchannels.is_some();
        let blocks: Box<dyn Blocks> = match self.kind {
            Kind::Channels(recording) => {
                let blocks = BlocksOf::recording(recording, times.saturating_mul(factor));
                Box::new(if on_host { blocks.whole() } else { blocks })
            }
            Kind::Raw(raw) => {
                let spectra = raw.spectra(device.clone(), gpus.first())?;
                if !on_host {
                    return flagging.over(spectra, &gpus[..gpus.len().min(1)], at_once);
                }
                Box::new(HostSpectra::of(spectra, times.saturating_mul(factor)))
            }
        };
        match self.subchannels {
            Some(plan) => flagging.of(Upchannelise::over(blocks, plan)?, gpus),
            None => flagging.of(blocks, gpus),
        }
    }

    /// The samples as products take them, from a file and with no flags.
    pub fn for_products<'a>(
        &self,
        (device, gpus): (&'a Devices, &'a [Arc<dyn Gpu>]),
        (array, timing): (Option<&'a Array>, Timing),
        source: &'a Path,
    ) -> ProductInput<'a> {
        let Head { shape, interval, ref quantised, .. } = self.head;
        ProductInput {
            device,
            gpus,
            shape,
            recorded: self.recorded(),
            interval,
            phased: self.delayed,
            by_input: self.head.loses_by_input,
            polarisations: self.head.polarisations,
            said: self.said(),
            raw: self.is_raw(),
            live: false,
            timing,
            array,
            source,
            quantised: quantised.clone(),
            ticks: Ticks::of(shape.channels),
            flagged: Rc::default(),
        }
    }

    /// Facts that the recording says, as an array without a file.
    pub fn said(&self) -> Array {
        let mut said = Array::default();
        // Nothing contradicts an empty array.
        said.complete(&self.head);
        said.name_source(&self.head);
        said
    }

    /// Times and frequencies for the gates of a period; facts of the array's file come first.
    pub fn timing(&self, array: Option<&Array>) -> Timing {
        let Head { shape: Shape { channels, .. }, interval, start, ref frequencies, .. } =
            self.head;
        let listed = |of: &Array| of.frequencies(channels).ok();
        let found = Array { channels: frequencies.clone(), ..Array::default() };
        // The array's start belongs to raw voltages, not to their spectra.
        let of_file = array.filter(|_| !self.is_raw()).and_then(|array| array.start);
        Timing {
            start: of_file.or(start),
            interval: array.and_then(|array| array.sample_time).or(interval),
            frequencies: array.and_then(listed).or_else(|| listed(&found)),
        }
    }
}

/// Samples that are missing of a source that no judge counts.
pub struct Losses {
    lost: Arc<AtomicU64>,
    /// Samples of a time.
    samples: usize,
    /// Cause, in words.
    pub cause: &'static str,
}

impl Losses {
    fn of(input: &Input) -> Self {
        let Shape { inputs, channels, .. } = input.head.shape;
        let cause = if input.delayed { LOST_OR_BEYOND } else { LOST };
        Self { lost: Arc::default(), samples: inputs * channels, cause }
    }

    /// The fraction of the samples of `times` times that is missing, in words, if any is.
    pub fn said(&self, times: u64) -> Option<String> {
        let lost = self.lost.load(Ordering::Relaxed);
        let all = times as f64 * self.samples as f64;
        (lost > 0).then(|| fractions(all, &[(self.cause, lost as f64)]))
    }
}

/// A source whose missing samples are counted.
struct Counted {
    source: Box<dyn Source>,
    lost: Arc<AtomicU64>,
}

impl Source for Counted {
    fn head(&self) -> &Head {
        self.source.head()
    }

    fn begin(&mut self, wants: &Wants) {
        self.source.begin(wants);
    }

    fn advance(&mut self) -> Result<bool> {
        let more = self.source.advance()?;
        if more {
            let Shape { inputs, channels, .. } = self.head().shape;
            let lost = self.piece().missing(&(0..channels), 0..inputs);
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
        Ok(more)
    }

    fn piece(&self) -> Piece<Samples<'_>> {
        self.source.piece()
    }

    fn clipped(&self) -> Result<Vec<u64>> {
        self.source.clipped()
    }
}

/// The array with what the recording says and its file does not; where they contradict each other the file
/// counts, and that is said.
pub fn completed(mut array: Array, input: &Input) -> Result<Array> {
    match input.is_raw() {
        true => complete(&mut array, &input.head)?,
        false => array.complete(&input.head).into_iter().for_each(warn),
    }
    if array.phase_center.is_some() && !input.delayed {
        warn(array.error(
            "\"phase_center\": the recording's samples were not delayed towards it, so the output is \
             not phased",
        ));
    }
    Ok(array)
}

/// Completes the array by the facts of an F-engine's spectra that its file lacks.
pub fn complete(array: &mut Array, spectra: &Head) -> Result<()> {
    let Head { interval, start, ref frequencies, shape, .. } = *spectra;
    let differ = |a: f64, b: f64| (a - b).abs() > 1e-9 * b.abs();
    if let Some(interval) = interval {
        let seconds = *array.sample_time.get_or_insert(interval);
        if differ(seconds, interval) {
            warn(array.error(format_args!(
                "\"sample_time\" {seconds} s, where the spectra have {interval} s: the former counts"
            )));
        }
    }
    // As for delays, the command line comes first; and the array's start is the first sample's.
    array.start = start.or(array.start);
    match (&array.channels, frequencies) {
        (Some(known), Some(Channels::Even { first: expected, width })) => {
            let found = known.width(0).unwrap_or(*width);
            let first = array.frequencies(shape.channels)?[0];
            if differ(found, *width) || (first - expected).abs() > 1e-6 * width {
                warn(array.error(format_args!(
                    "channels of {found} Hz from {first} Hz on, where the F-engine makes those of {width} Hz \
                     from {expected} Hz on: the former count"
                )));
            }
        }
        (None, Some(found)) => array.channels = Some(found.clone()),
        // Of a known rate the sky frequency is what is missing.
        (None, None) if interval.is_some() => {
            let reason = "lacks \"frequencies\": expected them, or --sky-frequency";
            return Err(array.error(reason));
        }
        _ => {}
    }
    Ok(())
}
