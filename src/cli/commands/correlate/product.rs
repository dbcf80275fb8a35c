//! Visibilities as a product, and a run that makes nothing else.

use std::{
    cell::RefCell,
    num::NonZeroU64,
    ops::Range,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use corrust::{
    Correlator, Error, Result,
    correlate::{Kernel, Shape, baselines, useful_operations},
    device::Gpu,
    format::array::Array,
    quantise::{Quantised, Quantiser, VanVleck},
    run::{Integration, Product, Run, Visibilities, block_times},
};

use serde_json::json;

use crate::cli::commands::correlate::outputs::{Names, Outputs};
use crate::cli::commands::correlate::totals::Totals;
use crate::cli::input::product_input::{ProductInput, needs_array};
use crate::cli::input::unit::Unit;
use crate::cli::input::{Input, completed};
use crate::cli::options::device::DeviceOptions;
use crate::cli::options::engine::{LEVELS, warn_of_clipped};
use crate::cli::options::files::{Compression, UVH5};
use crate::cli::options::flagging::{Flagging, Judged};
use crate::cli::options::run_files::{ending, output};
use crate::cli::options::selection::{ChannelRange, Gates, Selection, Timing, of_channels};
use crate::cli::options::units::seconds;
use crate::cli::terminal::numbers::{self, count, digits, si};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::{say, tell, warn};

/// Files that a product writes while it is made, and that are completed after it.
pub struct Shared<T>(Rc<RefCell<Option<T>>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: 'static> Shared<T> {
    pub fn new(files: T) -> Self {
        Self(Rc::new(RefCell::new(Some(files))))
    }

    /// Does something with the files.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(self.0.borrow_mut().as_mut().expect("files are completed after the observation"))
    }

    pub fn take(self) -> T {
        self.0.borrow_mut().take().expect("files are completed once")
    }
}

/// Visibilities, and the files that they go to.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct VisibilityOptions {
    /// NumPy file to write, - for the standard output; or a UVH5 file, whose name ends in .uvh5
    #[arg(short, long, value_name = "OUT.npy", value_parser = output())]
    pub output: PathBuf,
    /// Time samples in a dump, as 4096 [default: the whole recording is one dump]
    ///
    /// Time samples at the end that do not fill a dump are left out, and their number is reported; --keep-partial makes a dump
    /// of them.
    #[arg(long, value_name = "T", conflicts_with = "seconds")]
    integrate: Option<NonZeroU64>,
    /// Seconds in a dump, rounded to a whole number of time samples, as 0.5
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Keep a last dump that has fewer time samples than the others. Their number is reported, and in --counts; in UVH5,
    /// integration_time and time_array state the time that they span
    #[arg(long)]
    keep_partial: bool,
    /// NumPy file to write the number of valid time samples of each dump to, uint64 [dump]; of each baseline (in the
    /// first channel), [dump][baseline], with --channelise and for bits; of each channel and baseline,
    /// [dump][channel][baseline], with --flag and of VDIF, whose threads are lost separately
    #[arg(long, value_name = "COUNTS.npy", value_parser = output(), hide_short_help = true)]
    counts: Option<PathBuf>,
    /// Channels to correlate, A to B - 1, as 100..228 [default: all]; an array file describes all of them
    #[arg(long, value_name = "A..B", hide_short_help = true)]
    channels: Option<ChannelRange>,
    /// Write correlation coefficients, -1 to 1, in place of sums: for b1 and b2 made of Gaussian noise; 1 for an input
    /// with itself
    ///
    /// quantise writes beside its output which voltages its levels stand for. STEP replaces that: the step in standard
    /// deviations, of voltages that were no integers. Without either, the optimal step is assumed.
    #[arg(long, value_name = "STEP", num_args = 0..=1, require_equals = true, hide_short_help = true)]
    van_vleck: Option<Option<f64>>,
    #[command(flatten)]
    compression: Compression,
    #[command(flatten)]
    pub selection: Selection,
}

/// Visibilities that are being made.
pub struct Made {
    files: Shared<(Outputs, Totals)>,
    /// Shape of the samples that are correlated, and times of a dump.
    shape: Shape,
    integration: u64,
    keep_partial: bool,
    /// Whether they are all of the stream's channels.
    all_channels: bool,
    gates: Option<usize>,
    /// The plan's device and kernel.
    device: String,
    kernel: Kernel,
}

impl Made {
    /// Completes the files of a stream of `recorded` times, `flagged` samples of which are missing as RFI, and warns of
    /// what is missing, `named` first.
    pub fn finish(self, named: &str, recorded: u64, flagged: f64) -> Result<Totals> {
        let (outputs, mut totals) = self.files.take();
        outputs.finish()?;
        totals.flagged = totals.flagged_of(flagged, recorded, self.all_channels);
        totals.warn(named, recorded, self.integration, self.keep_partial);
        Ok(totals)
    }
}

impl VisibilityOptions {
    /// One dump of all times.
    pub fn of_all(output: &Path) -> Self {
        Self { output: output.to_owned(), ..Self::default() }
    }

    /// Files that are written.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.output].into_iter().chain(&self.counts)
    }

    /// Whether the output is a UVH5 file.
    pub fn is_uvh5(&self) -> bool {
        ending(&self.output) == UVH5
    }

    /// Channels to correlate.
    fn channels(&self, shape: &Shape) -> Result<Range<usize>> {
        ChannelRange::of(self.channels.as_ref(), "--channels", shape.channels)
    }

    /// Times of a dump.
    fn times(&self, place: &ProductInput<'_>) -> Result<u64> {
        let unit = place.unit();
        let (times, said) = match (self.integrate, self.seconds) {
            (Some(times), _) => (times.get(), format!("--integrate {times}")),
            (None, None) => return Ok(place.recorded),
            (None, Some(seconds)) => {
                let interval = place.interval.or(place.array.and_then(|array| array.sample_time));
                let interval = interval.ok_or_else(|| {
                    Error::invalid(format!(
                        "--seconds {seconds}: the recording does not say how many samples a second it has, \
                         expected --integrate{}",
                        if place.raw { " or --rate" } else { "" }
                    ))
                })?;
                let times = (seconds / interval).round() as u64;
                if times == 0 {
                    return Err(Error::invalid(format!(
                        "--seconds {seconds}: expected at least {interval}, from one {} to the next",
                        unit.one()
                    )));
                }
                (times, format!("--seconds {seconds}, {}", unit.count(times)))
            }
        };
        if times > place.recorded && !self.keep_partial {
            return Err(too_long(&said, place));
        }
        Ok(times)
    }

    /// Dumps that `recorded` times make, of `integration` each.
    fn dumps(&self, recorded: u64, integration: u64) -> u64 {
        let whole = recorded / integration;
        if self.keep_partial { recorded.div_ceil(integration) } else { whole }
    }

    /// Gates of the channels to correlate; a stream has gates of a period, or numbers that repeat.
    fn gates(&self, channels: &Range<usize>, place: &ProductInput<'_>) -> Result<Option<Gates>> {
        let timing = || {
            let Timing { start, interval, frequencies } = place.timing.clone();
            let frequencies = frequencies.map(|all| all[channels.clone()].to_vec());
            Timing { start, interval, frequencies }
        };
        match place.live {
            false => self.selection.read_gates(place.recorded, timing),
            true => Ok(self.selection.live_gates(timing)?.map(Gates::Folding)),
        }
    }

    /// Correction of sums to coefficients, if they are asked for.
    fn van_vleck(&self, place: &ProductInput<'_>) -> Result<Option<VanVleck>> {
        self.van_vleck.map(|step| van_vleck(step, &place.shape, &place.quantised)).transpose()
    }

    /// Bytes of a dump.
    pub fn dump_bytes(&self, place: &ProductInput<'_>) -> Result<f64> {
        let sums = place.shape.encoding.is_integer() && self.van_vleck(place)?.is_none();
        let channels = self.channels(&place.shape)?.len();
        Ok((baselines(place.shape.inputs) * channels) as f64 * if sums { 16.0 } else { 8.0 })
    }

    /// Bytes that are written and operations that are done for `recorded` times.
    pub fn load(&self, place: &ProductInput<'_>, recorded: u64) -> Result<(f64, f64)> {
        let channels = self.channels(&place.shape)?.len();
        let dumps = self.dumps(recorded, self.times(place)?.min(recorded));
        let operations = useful_operations(place.shape.inputs, channels, recorded);
        Ok((dumps as f64 * self.dump_bytes(place)?, operations))
    }

    /// Plans the product, and creates its files.
    pub fn begin(
        &self,
        place: &ProductInput<'_>,
        kernel: Kernel,
    ) -> Result<(impl Product + use<>, Made)> {
        let (channels, integration) = (self.channels(&place.shape)?, self.times(place)?);
        let shape = Shape { channels: channels.len(), ..place.shape };
        let array = match (self.is_uvh5(), place.array) {
            (false, _) => None,
            (true, None) => return Err(needs_array(&self.output)),
            (true, Some(array)) => Some(of_channels(array, place.shape.channels, &channels)?),
        };
        let names = Names {
            output: &self.output,
            array: array.as_ref(),
            counts: self.counts.as_deref(),
            gzip: self.compression.of(&self.output)?,
            spacing: (self.dumps(place.recorded, integration.max(1)) > 1).then_some(integration),
            van_vleck: self.van_vleck(place)?,
        };
        if !place.quantised.is_empty() && !shape.encoding.is_bits() {
            warn(
                "values v of few bits stand for levels 2 v + 1: sums V of T valid times are 0.5 T too large; of voltages \
                 whose mean is 0 the sums of levels are 4 V - 2 T",
            );
        }
        let gates = self.gates(&channels, place)?;
        let shifts = self.selection.read_shifts(shape.inputs, place.recorded)?;
        let (unit, gate_count) = (place.unit(), gates.as_ref().map(Gates::count));
        let chosen = (kernel, gate_count.unwrap_or(1));
        let correlator = correlator(place, &shape, chosen, shifts.as_deref().unwrap_or_default())?;
        let by_channel = place.by_input || gates.as_ref().is_some_and(Gates::differ_by_channel);
        let bits = shape.encoding.is_bits();
        let by_baseline = place.by_input || shifts.is_some() || unit == Unit::Spectrum || bits;
        let counted =
            [by_channel.then_some(shape.channels), by_baseline.then(|| baselines(shape.inputs))];
        let outputs = Outputs::create(&shape, gate_count, counted, place.phased, names)?;
        let least = shifts.iter().flatten().copied().min().unwrap_or(0).min(0);
        let shifts = shifts.iter().flatten().map(|&shift| shift.abs_diff(least)).collect();
        let (inputs, delayed) = (shape.inputs, place.phased);
        let totals = Totals {
            unit,
            bits,
            inputs,
            channels: shape.channels,
            shifts,
            delayed,
            ..Totals::default()
        };
        let files = Shared::new((outputs, totals));
        let theirs = files.clone();
        let device = correlator.device_name().to_owned();
        let kernel = correlator.kernel();
        let all_channels = shape.channels == place.shape.channels;
        let keep_partial = self.keep_partial;
        let made = Made {
            files,
            shape,
            integration,
            keep_partial,
            all_channels,
            gates: gate_count,
            device,
            kernel,
        };
        let tell = move |dump: &mut Integration| {
            theirs.with(|(outputs, totals)| {
                totals.add(dump);
                outputs.append(dump)
            })
        };
        let product = Visibilities::new(correlator, channels, Some(integration), tell);
        let product = if keep_partial { product.keep_partial() } else { product };
        let product = match gates {
            None => product,
            Some(Gates::Numbers { numbers, .. }) => product.gates(numbers),
            Some(Gates::Folding(folding)) => product.folding(folding),
        };
        Ok((product, made))
    }
}

/// Plans the correlator of samples of a `shape`, with a kernel and a number of gates.
fn correlator(
    place: &ProductInput<'_>,
    shape: &Shape,
    (kernel, gates): (Kernel, usize),
    shifts: &[i64],
) -> Result<Correlator> {
    let correlator = Correlator::builder(shape.inputs, shape.channels)
        .encoding(shape.encoding)
        .layout(shape.layout)
        .device(place.device.clone())
        .gpus(place.gpus.iter().cloned())
        .kernel(kernel)
        .gates(gates)
        .shifts(shifts);
    correlator.build().map_err(|error| match error {
        // The axes may have been taken for others.
        Error::OutOfMemory { .. } => Error::invalid(format!(
            "{error}; as {}, the recording has {}, {} and {}",
            shape.layout,
            place.unit().count(place.recorded),
            count(shape.channels, "channel"),
            count(shape.inputs, "input")
        )),
        other => other,
    })
}

/// Refuses a dump that is longer than the recording, as `said`.
pub fn too_long(said: &str, place: &ProductInput<'_>) -> Error {
    Error::invalid(format!(
        "{said}: the recording has only {}, expected at most as many",
        place.unit().count(place.recorded)
    ))
}

/// The correction of sums to coefficients: for the quantiser of this step, else for the one that the files name, else for
/// the optimal one.
pub fn van_vleck(step: Option<f64>, shape: &Shape, quantised: &[Quantised]) -> Result<VanVleck> {
    let encoding = shape.encoding;
    if !encoding.is_bits() {
        return Err(Error::invalid(format!(
            "--van-vleck of {encoding} samples: expected b1 or b2, as corrust quantise --planes makes them"
        )));
    }
    let bits = encoding.planes() as u32;
    match (step, quantised) {
        (Some(step), _) => Ok(Quantiser::new(bits, step)?.van_vleck()),
        (None, []) => Ok(Quantiser::optimal(bits)?.van_vleck()),
        (None, [first, others @ ..]) => {
            let other = others.iter().find(|other| !first.agrees(other));
            other.map_or_else(|| first.van_vleck(), |other| Err(differ(first, other)))
        }
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

/// Correlates a recording, of the file `source`, with a progress bar and a summary; facts of the `array` file come first. An
/// F-engine is on the correlator's own GPU; spectra are judged there if it is the only one.
pub fn correlate(
    input: Input,
    options: &VisibilityOptions,
    flagging: &Flagging,
    (devices, gpus): (&DeviceOptions, Vec<Arc<dyn Gpu>>),
    (array, source): (Option<Array>, &Path),
    json: bool,
) -> Result<()> {
    let timing = input.timing(array.as_ref());
    let array = array.filter(|_| options.is_uvh5());
    let array = array.map(|array| completed(array, &input)).transpose()?;
    let (recorded, is_raw) = (input.recorded(), input.is_raw());
    let (whole, interval) = (input.head.shape, input.head.interval);
    let mut place = input.for_products((&devices.device, &gpus), (array.as_ref(), timing), source);
    place.by_input |= flagging.flag.is_some();
    let (product, made) = options.begin(&place, devices.kernel)?;
    let Made { shape, integration, gates, kernel, .. } = made;
    let device = made.device.clone();

    let start = Instant::now();
    let times = match recorded {
        u64::MAX => recorded,
        _ => recorded.min(options.dumps(recorded, integration).saturating_mul(integration)),
    };
    let bar = Progress::new("correlating", &shape, times);
    let at_once = flagging.flag.map(|_| block_times(whole.bytes_per_time()));
    let (source, judged, _) = input.source(flagging, &devices.device, &gpus, at_once)?;
    let mut run = Run::over(source).progress(|done| bar.set(done.min(times)));
    run.add("visibilities", product)?;
    let done = run.all()?;
    drop(bar);
    let flagged = judged.as_ref().map_or(0.0, |judged| judged.samples().flagged as f64);
    judged.map_or(Ok(()), Judged::finish)?;
    let totals = made.finish("", recorded, flagged)?;

    let seconds = start.elapsed().as_secs_f64();
    if is_raw {
        warn_of_clipped(&done.clipped, whole.channels, totals.times, LEVELS);
    }
    let rate =
        (shape.inputs * shape.channels) as f64 * (totals.times - totals.skipped) as f64 / seconds;
    let operations = useful_operations(shape.inputs, shape.channels, totals.fed) / seconds;
    let output = &options.output;
    if json {
        let missing = totals.missing();
        let summary = json!({
            "output": output, "inputs": shape.inputs, "channels": shape.channels,
            "encoding": shape.encoding.name(), "times": totals.times, "times_recorded": recorded,
            "times_per_dump": integration, "times_of_last_dump": totals.last, "seconds_per_time": interval, "dumps": totals.dumps,
            "gates": gates, "missing": missing, "flagged": totals.flagged, "seconds": seconds,
            "samples_per_second": rate, "operations_per_second": operations, "device": device,
            "kernel": kernel.name(),
        });
        say(serde_json::to_string_pretty(&summary).expect("numbers and text"));
        return Ok(());
    }
    let took = numbers::seconds(seconds);
    tell(format_args!(
        "{} in {took}: {}samples/s, {}op/s useful on {device} ({kernel}): {}",
        totals.describe(&shape, interval, gates),
        si(rate),
        si(operations),
        output.display()
    ));
    Ok(())
}
