//! `corrust correlate`.

use std::{
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use corrust::{
    Correlator, Devices, Encoding, Error, Result, channelise,
    correlate::{Kernel, Shape, baselines, useful_operations},
    device::Gpu,
    format::{
        self, RawShape, Recording,
        array::{Array, Channels},
        npy::{Dtype, Writer},
        uvh5,
    },
    quantise::{Quantised, Quantiser, VanVleck},
    run::{Dumps, Integration, Voltages},
};

use super::{
    count, digits,
    engine::{self, Engine, Known, Sky, spectra, warn_of_clipped},
    files::{Files, RawOptions},
    progress::Progress,
    run_files::{Existing, RunFiles, all, ending, input, output},
    say,
    selection::{Gates, Selection, Timing},
    si, warn,
};

/// Correlate a recording: V[c][b(i,j)] = sum over t of x_i[c][t] conj(x_j[c][t]), j <= i
///
/// The output is a NumPy file, int64 [dump][channel][baseline][2] (float32 for cf16 samples), with
/// baseline b(i,j) = i(i+1)/2 + j, autocorrelations included; or, where its name ends in .uvh5, a UVH5
/// file, which pyuvdata reads. Sums of integer samples are exact and the same on every device.
///
/// Planes of 1 and 2 bits (corrust quantise --planes) are multiplied as bits. With --van-vleck the output is the
/// correlation coefficients of the voltages, float32 [dump][channel][baseline][2].
///
/// With --channelise the recording is of raw voltages, NumPy, VDIF, DADA, Mark 5B or GUPPI RAW: spectra go
/// from the F-engine to the correlator on the device, and a spectrum is a time.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    allow_negative_numbers = true,
    mut_group("Engine", |group| group.requires("channelise")),
    mut_group("RawOptions", |group| group.requires("channelise")),
    mut_arg("layout", |arg| arg.conflicts_with("channelise"))
)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// NumPy file to write, - for the standard output; or a UVH5 file, whose name ends in .uvh5
    #[arg(short, long, value_name = "OUT.npy", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    /// Array file, for UVH5: telescope, location, antennas, frequencies, start, sample time (JSON)
    ///
    /// The book's page on layouts and files has all its fields.
    #[arg(long, value_name = "ARRAY.json", value_parser = input())]
    array: Option<PathBuf>,
    /// Times in a dump; by default the whole recording is one dump
    ///
    /// Times at the end that do not fill a dump are left out, and their number is reported.
    #[arg(long, value_name = "T", conflicts_with = "seconds")]
    integrate: Option<NonZeroU64>,
    /// Seconds of a dump, to the nearest whole number of times
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// NumPy file to write the number of valid times behind each dump to, uint64 [dump]; with --channelise and of
    /// bits behind each baseline (of the first channel), [dump][baseline]
    #[arg(long, value_name = "COUNTS.npy", value_parser = output())]
    counts: Option<PathBuf>,
    /// Write correlation coefficients of the samples that those of b1 or b2 were made of, of Gaussian noise, -1 to 1,
    /// in place of sums; of an input with itself 1
    ///
    /// quantise writes beside its output which voltages its levels stand for. STEP counts before that: the step in
    /// standard deviations of voltages that were no integers. Without either it is the optimal one.
    #[arg(long, value_name = "STEP", num_args = 0..=1, require_equals = true)]
    van_vleck: Option<Option<f64>>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    place: Place,
    /// The recording is of raw voltages: make so many channels of them. Of real samples from DC up, without
    /// the Nyquist channel; of complex ones around DC. Twice (real) or once (complex) their number is to be
    /// 2^a or 3 x 2^a, 8 to 1048576
    #[arg(long, value_name = "C")]
    channelise: Option<usize>,
    #[command(flatten)]
    engine: Engine,
    #[command(flatten)]
    raw: RawOptions,
}

/// A positive number of seconds.
pub(super) fn seconds(text: &str) -> std::result::Result<f64, &'static str> {
    let found = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && seconds.is_finite());
    found.ok_or("expected a positive number of seconds")
}

/// Where the work is done.
#[derive(Clone, Debug, clap::Args)]
pub struct Place {
    /// auto (the first GPU, else the CPU), cuda, cuda:1, cpu or sim; cuda:0,cuda:1, cuda:all or sim,sim:
    /// several GPUs share the channels
    #[arg(long, default_value_t)]
    pub device: Devices,
    #[arg(long, default_value_t = Kernel::Auto, help = kernels())]
    pub kernel: Kernel,
}

fn kernels() -> String {
    let names: Vec<_> = Kernel::ALL[1..].iter().map(|kernel| kernel.name()).collect();
    format!("auto (the quickest for the recording on the device), {}", names.join(", "))
}

const EXAMPLES: &str = "\
Examples:
  corrust correlate scan.0000.raw scan.0001.raw -o visibilities.npy
  corrust correlate rec.npy -o visibilities.npy --integrate 1024 --device cpu
  corrust correlate nibbles.npy -o visibilities.npy --encoding ci4-offset --layout cnt
  corrust correlate scan.raw -o scan.uvh5 --array array.json --integrate 4096
  corrust correlate pulsar.raw -o visibilities.npy --gates phase-bins.npy --shifts delays.npy
  corrust correlate pulsar.raw -o visibilities.npy --gate-period 33.4ms --gate-bins 32 --dispersion 56.77
  corrust correlate bits.npy -o coefficients.npy --van-vleck
  corrust correlate scan.vdif --channelise 1024 -o scan.uvh5 --array array.json --seconds 1 \
      --delays delays.json --sky-frequency 1.4GHz --level

In Python:
  v = numpy.load('visibilities.npy'); v = v[..., 0] + 1j * v[..., 1]
  v[dump, channel, i * (i + 1) // 2 + j]    # inputs j <= i";

impl Args {
    /// Correlates the recording.
    pub fn run(self) -> Result<()> {
        let Self { output, array, .. } = &self;
        let run_files = RunFiles::default().reads(&self.files.inputs).reads(self.selection.files());
        let run_files = run_files.reads(array).reads(self.engine.files());
        run_files.writes([output]).writes(&self.counts).check(self.existing)?;
        let is_uvh5 = ending(output) == UVH5;
        let known = self.selection.folds();
        let array = match (array, is_uvh5) {
            (Some(array), _) if is_uvh5 || known => Some(Array::read(array)?),
            (None, false) => None,
            (None, true) => {
                let reason = "is to be UVH5: expected --array ARRAY.json, which says what the inputs, \
                              channels and times are";
                return Err(Error::file(output, reason));
            }
            (Some(array), _) => {
                return Err(Error::invalid(format!(
                    "--array {}: expected an output whose name ends in .{UVH5}, found {}",
                    array.display(),
                    output.display()
                )));
            }
        };
        let input = match self.channelise {
            Some(channels) => self.raw_input(channels, array.as_ref())?,
            None => Input::channels(self.files.open()?),
        };
        let timing = input.timing(array.as_ref());
        let array = array.filter(|_| is_uvh5).map(|array| completed(array, &input)).transpose()?;
        let integrate = match (self.integrate, self.seconds) {
            (None, Some(seconds)) => Some(input.times_of(seconds)?),
            (integrate, _) => integrate,
        };
        let van_vleck = self.van_vleck.map(|step| input.van_vleck(step)).transpose()?;
        let array = array.as_ref();
        let outputs = Names { output, array, counts: self.counts.as_deref(), van_vleck };
        let gates = self.selection.read_gates(input.recorded, || timing)?;
        correlate(input, integrate, (gates, &self.selection), self.place.clone(), outputs)
    }

    /// Raw voltages and their F-engine.
    fn raw_input(&self, channels: usize, array: Option<&Array>) -> Result<Input> {
        let dated = array.is_some() || self.selection.folds();
        self.engine.refuse_sky_but_for("--delays, --gate-period, or --array for UVH5", dated)?;
        let options = self.raw.with(self.files.options());
        let recording = Engine::open(&self.files.inputs, options)?;
        let known = Known::of(array, channels)?;
        let of = engine::Raw::of(&*recording, &self.files.inputs[0]);
        let (builder, sky) = self.engine.builder(channels, &of, self.raw.rate(), &known)?;
        Input::raw(recording, builder, self.engine.level(), sky)
    }
}

/// What is correlated.
pub struct Input {
    shape: Shape,
    /// Times of all; `u64::MAX` where nobody knows.
    recorded: u64,
    /// Seconds from one time to the next.
    interval: Option<f64>,
    /// How its samples were made of others, as its files say.
    quantised: Vec<Quantised>,
    source: Source,
}

enum Source {
    Channels(Box<dyn Recording>),
    Raw(Box<Raw>),
}

/// Raw voltages and their F-engine.
struct Raw {
    voltages: Voltages,
    builder: channelise::Builder,
    level: Option<f32>,
    sky: Sky,
    engine: channelise::Shape,
}

impl Input {
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
        let voltages = Voltages::over(recording, &engine);
        let raw = Raw { voltages, builder, level, sky, engine };
        let (interval, source) = (sky.interval, Source::Raw(Box::new(raw)));
        Ok(Self { shape, recorded, interval, quantised: Vec::new(), source })
    }

    /// A recording of channels.
    pub fn channels(recording: Box<dyn Recording>) -> Self {
        Self {
            shape: recording.shape(),
            recorded: recording.times(),
            interval: recording.interval(),
            quantised: recording.quantised().to_vec(),
            source: Source::Channels(recording),
        }
    }

    /// What gates of a period have to know of the samples; what the array's file says counts.
    fn timing(&self, array: Option<&Array>) -> Timing {
        let channels = self.shape.channels;
        let listed = |channels_of: Option<Channels>| {
            Array { channels: channels_of, ..Array::default() }.frequencies(channels).ok()
        };
        let of_file = array.and_then(|array| array.start);
        let (start, frequencies) = match &self.source {
            Source::Channels(recording) => {
                (of_file.or(recording.start()), listed(recording.frequencies()))
            }
            Source::Raw(raw) => {
                let Sky { start, offset, first_channel, channel_width, .. } = raw.sky;
                let even = first_channel.zip(channel_width);
                let even = even.map(|(first, width)| Channels::Even { first, width });
                (start.and_then(|start| format::later(start, offset)), listed(even))
            }
        };
        let of_file = array.and_then(|array| array.frequencies(channels).ok());
        Timing {
            start,
            interval: array.and_then(|array| array.sample_time).or(self.interval),
            frequencies: of_file.or(frequencies),
        }
    }

    /// What makes coefficients of sums of samples: of those that a quantiser of this step made, or the one that their
    /// files name, or the optimal one.
    fn van_vleck(&self, step: Option<f64>) -> Result<VanVleck> {
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

    /// What a time is, and several of them.
    fn unit(&self) -> Unit {
        match self.source {
            Source::Channels(_) => Unit::Time,
            Source::Raw(_) => Unit::Spectrum,
        }
    }

    /// Times of a dump of so many seconds.
    fn times_of(&self, seconds: f64) -> Result<NonZeroU64> {
        let Some(interval) = self.interval else {
            return Err(Error::invalid(format!(
                "--seconds {seconds}: the recording does not say how many samples a second it has, \
                 expected --integrate{}",
                if matches!(self.source, Source::Raw(_)) { " or --rate" } else { "" }
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

/// What a time of a correlation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Unit {
    #[default]
    Time,
    Spectrum,
}

impl Unit {
    fn one(self) -> &'static str {
        if self == Self::Time { "time" } else { "spectrum" }
    }

    fn several(self) -> &'static str {
        if self == Self::Time { "times" } else { "spectra" }
    }

    fn count(self, number: u64) -> String {
        if self == Self::Time { count(number, "time") } else { spectra(number) }
    }
}

/// What the names of UVH5 files end in.
pub(super) const UVH5: &str = "uvh5";

/// The array with what the recording says and its file does not; where they contradict each other the file
/// counts, and that is said.
fn completed(mut array: Array, input: &Input) -> Result<Array> {
    let sky = match &input.source {
        Source::Channels(recording) => {
            array.complete(&**recording, input.shape.channels).into_iter().for_each(warn);
            None
        }
        Source::Raw(raw) => {
            complete(&mut array, &raw.sky, input.shape.channels)?;
            Some(raw.sky)
        }
    };
    if array.phase_center.is_some() && !sky.is_some_and(|sky| sky.delayed) {
        warn(array.error(
            "\"phase_center\": the recording's samples were not delayed towards it, so the output is \
             not phased",
        ));
    }
    Ok(array)
}

/// Adds to the array what an F-engine's spectra say and its file does not.
pub(super) fn complete(array: &mut Array, sky: &Sky, channels: usize) -> Result<()> {
    let differ = |a: f64, b: f64| (a - b).abs() > 1e-9 * b.abs();
    if let Some(interval) = sky.interval {
        let seconds = *array.sample_time.get_or_insert(interval);
        if differ(seconds, interval) {
            warn(array.error(format_args!(
                "\"sample_time\" {seconds} s, where the spectra have {interval} s: the former counts"
            )));
        }
    }
    // As the delays are: what was said on the command line counts first.
    array.start = sky.start.or(array.start);
    array.start = array.start.and_then(|start| format::later(start, sky.offset));
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

/// The files that a correlation is written to, and what to them.
pub struct Names<'a> {
    pub output: &'a Path,
    /// What is known of the array, for UVH5.
    pub array: Option<&'a Array>,
    pub counts: Option<&'a Path>,
    /// What makes coefficients of sums, where these are to be written.
    pub van_vleck: Option<VanVleck>,
}

/// Correlates a recording into the file `names.output`, one dump every `integrate` times, with a progress
/// bar and a summary.
pub fn correlate(
    input: Input,
    integrate: Option<NonZeroU64>,
    (gates, selection): (Option<Gates>, &Selection),
    place: Place,
    names: Names<'_>,
) -> Result<()> {
    let (unit, output) = (input.unit(), names.output);
    let Input { shape, recorded, interval, source, .. } = input;
    let integration = integrate.map_or(recorded, NonZeroU64::get);
    let dumps = recorded / integration;
    if dumps == 0 {
        return Err(Error::invalid(format!(
            "--integrate {integration}: the recording has only {recorded} {}, expected at most \
             as many",
            unit.several()
        )));
    }
    let shifts = selection.read_shifts(shape.inputs, recorded)?;
    let gate_count = gates.as_ref().map(Gates::count);
    let by_channel = gates.as_ref().is_some_and(Gates::differ_by_channel);
    // An F-engine is on the correlator's own GPU.
    let gpus = place.device.open()?;
    let plan = Plan { recorded, unit, gpus: gpus.clone() };
    let mut correlator = plan.build(&shape, place.clone(), gate_count, shifts.as_deref())?;
    let (raw, recording) = match source {
        Source::Channels(recording) => (None, Some(recording)),
        Source::Raw(raw) => (Some(*raw), None),
    };
    let by_baseline = shifts.is_some() || raw.is_some() || shape.encoding.is_bits();
    let phased = raw.as_ref().is_some_and(|raw| raw.sky.delayed);
    let counted =
        [by_channel.then_some(shape.channels), by_baseline.then(|| baselines(shape.inputs))];
    let mut outputs = Outputs::create(&shape, gate_count, counted, phased, names)?;

    let start = Instant::now();
    let times = if recorded == u64::MAX { recorded } else { dumps * integration };
    let bar = Progress::new("correlating", &shape, times);
    let engine = raw.as_ref().map(|raw| raw.engine);
    let found = match (raw, recording) {
        (Some(Raw { voltages, mut builder, level, .. }), _) => {
            let mut voltages = voltages.locked_for(gpus.first());
            builder = builder.device(place.device).gpus(gpus);
            if let Some(sigma) = level {
                builder = builder.level(sigma, voltages.first()?)?;
            }
            Dumps::channelised(voltages, builder.build()?, &mut correlator)?
        }
        (None, recording) => {
            let recording = recording.expect("one or the other");
            Dumps::over(recording, &mut correlator)
        }
    };
    let mut found = found.integrate(integration).progress(|progress| bar.set(progress.done));
    found = match gates {
        None => found,
        Some(Gates::Numbers { numbers, .. }) => found.gates(numbers),
        Some(Gates::Folding(folding)) => found.folding(folding),
    };
    let bits = shape.encoding.is_bits();
    let mut totals = Totals { unit, bits, delayed: phased, ..Totals::default() };
    let mut dump = Integration::default();
    while found.next_into(&mut dump)? {
        outputs.append(&dump)?;
        totals.add(&dump);
    }
    let clipped = found.clipped()?;
    drop(found);
    drop(bar);
    outputs.finish()?;

    let seconds = start.elapsed().as_secs_f64();
    totals.warn(recorded, integration);
    if let Some(engine) = engine {
        warn_of_clipped(&clipped, &engine, totals.times);
    }
    say(format_args!(
        "{} in {seconds:.2} s: {}samples/s, {} useful TOPS on {} ({}): {}",
        totals.describe(&shape, interval, gate_count),
        si(shape.inputs as f64 * shape.channels as f64 * (totals.times - totals.skipped) as f64
            / seconds),
        digits(useful_operations(shape.inputs, shape.channels, totals.fed) / seconds / 1e12),
        correlator.device_name(),
        correlator.kernel(),
        output.display()
    ));
    Ok(())
}

/// What there is to plan for.
struct Plan {
    recorded: u64,
    unit: Unit,
    gpus: Vec<Arc<dyn Gpu>>,
}

impl Plan {
    /// The plan for a recording.
    fn build(
        self,
        shape: &Shape,
        place: Place,
        gates: Option<usize>,
        shifts: Option<&[i64]>,
    ) -> Result<Correlator> {
        let Shape { inputs, channels, encoding, layout } = *shape;
        let builder = Correlator::builder(inputs, channels)
            .encoding(encoding)
            .layout(layout)
            .device(place.device)
            .gpus(self.gpus)
            .kernel(place.kernel)
            .gates(gates.unwrap_or(1))
            .shifts(shifts.unwrap_or_default());
        builder.build().map_err(|error| match error {
            // The axes may have been taken for others.
            Error::OutOfMemory { .. } => Error::invalid(format!(
                "{error}; as {layout}, the recording has {}, {} and {}",
                self.unit.count(self.recorded),
                count(channels, "channel"),
                count(inputs, "input")
            )),
            other => other,
        })
    }
}

/// The files that dumps go to.
struct Outputs {
    visibilities: Output,
    counts: Option<Writer>,
    /// Channels and baselines whose times are counted: dispersion makes them differ from one channel to the other,
    /// delays, raw samples and bits from one baseline to the other.
    counted: [usize; 2],
    van_vleck: Option<VanVleck>,
}

/// Where visibilities go.
enum Output {
    Npy(Writer),
    Uvh5(Box<uvh5::Writer>),
}

impl Outputs {
    fn create(
        shape: &Shape,
        gates: Option<usize>,
        counted: [Option<usize>; 2],
        phased: bool,
        names: Names<'_>,
    ) -> Result<Self> {
        // Coefficients are what sums of cf16 are: pairs of float32.
        let encoding = if names.van_vleck.is_some() { Encoding::Cf16 } else { shape.encoding };
        let shape = &Shape { encoding, ..*shape };
        let baselines = baselines(shape.inputs);
        let dtype = if shape.encoding.is_integer() { Dtype::Int64 } else { Dtype::Float32 };
        let gate_axis: Vec<usize> = gates.into_iter().collect();
        let visibilities = match names.array {
            Some(_) if gates.is_some() => {
                let reason = "is to be UVH5, which knows no gates: expected a name ending in .npy, \
                              because of the gates";
                return Err(Error::file(names.output, reason));
            }
            Some(array) => {
                let phased = phased && array.phase_center.is_some();
                let create = if phased { uvh5::Writer::phased } else { uvh5::Writer::create };
                Output::Uvh5(Box::new(create(names.output, array, shape)?))
            }
            None => {
                let entry = [&gate_axis[..], &[shape.channels, baselines, 2]].concat();
                Output::Npy(Writer::appending(names.output, dtype, &entry)?)
            }
        };
        let entry: Vec<usize> =
            gate_axis.into_iter().chain(counted.into_iter().flatten()).collect();
        let counts =
            names.counts.map(|path| Writer::appending(path, Dtype::Uint64, &entry)).transpose()?;
        let counted = counted.map(|count| count.unwrap_or(1));
        Ok(Self { visibilities, counts, counted, van_vleck: names.van_vleck })
    }

    fn append(&mut self, integration: &Integration) -> Result<()> {
        let Integration { start, times, .. } = *integration;
        for dump in &integration.gates {
            let coefficients = self.van_vleck.as_ref().map(|known| known.coefficients(dump));
            let coefficients = coefficients.transpose()?;
            let visibilities = coefficients.as_ref().unwrap_or(&dump.visibilities);
            match &mut self.visibilities {
                Output::Npy(file) => file.append(visibilities.bytes())?,
                Output::Uvh5(file) => file.append(visibilities, &dump.valid, start, times)?,
            }
            if let Some(counts) = &mut self.counts {
                let [channels, baselines] = self.counted;
                let of =
                    |channel| (0..baselines).map(move |baseline| dump.valid.get(channel, baseline));
                let each: Vec<u64> = (0..channels).flat_map(of).collect();
                counts.append(bytemuck::cast_slice(&each))?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        let visibilities = match self.visibilities {
            Output::Npy(file) => file.finish(),
            Output::Uvh5(file) => file.finish(),
        };
        all([visibilities, self.counts.map_or(Ok(()), Writer::finish)])
    }
}

/// What all dumps have together.
#[derive(Default)]
struct Totals {
    unit: Unit,
    /// Whether samples are bits, which have no zero.
    bits: bool,
    /// Whether inputs are delayed, so that spectra at the ends ask for samples that there are not.
    delayed: bool,
    dumps: u64,
    times: u64,
    missing: u64,
    kept: u64,
    skipped: u64,
    /// Times that gates were fed with.
    fed: u64,
}

impl Totals {
    fn add(&mut self, integration: &Integration) {
        self.dumps += 1;
        self.times += integration.times;
        self.missing += integration.missing;
        self.kept += integration.kept;
        self.skipped += integration.skipped;
        self.fed += integration.gates.iter().map(|dump| dump.times).sum::<u64>();
    }

    /// Says which times of the recording are not in the dumps.
    fn warn(&self, recorded: u64, integration: u64) {
        let Self { unit, times, missing, kept, .. } = *self;
        let all = unit.several();
        if recorded > times && recorded < u64::MAX {
            warn(format_args!(
                "the last {} of {recorded} {all} do not fill a dump of {integration} and are left out",
                recorded - times
            ));
        }
        if missing > 0 {
            let of = if unit == Unit::Spectrum || self.bits { " for an input" } else { "" };
            let worth = if self.bits { "are left out" } else { "count as zero" };
            let why = match self.delayed {
                true => {
                    ": delayed inputs lack samples at the recording's ends, or samples are missing"
                }
                false => "",
            };
            warn(format_args!("{missing} of {times} {all} are missing{of} and {worth}{why}"));
        }
        if kept < times {
            warn(format_args!(
                "{} of {times} {all} belong to no gate and are dropped",
                times - kept
            ));
        }
    }

    /// What was correlated into what.
    fn describe(&self, shape: &Shape, interval: Option<f64>, gates: Option<usize>) -> String {
        let recorded = interval
            .map(|interval| format!(" ({} s of signal)", digits(interval * self.times as f64)))
            .unwrap_or_default();
        let gates = gates.map(|gates| format!(" of {}", count(gates, "gate"))).unwrap_or_default();
        format!(
            "correlated {} x {} x {}{recorded} into {}{gates}",
            count(shape.inputs, "input"),
            count(shape.channels, "channel"),
            self.unit.count(self.times),
            count(self.dumps, "dump")
        )
    }
}
