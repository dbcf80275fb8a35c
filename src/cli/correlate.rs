//! `corrust correlate`.

use std::{
    num::NonZeroU64,
    path::{Path, PathBuf},
    time::Instant,
};

use corrust::{
    Correlator, Devices, Error, Result,
    correlate::{Kernel, Shape, Visibilities, baselines, useful_operations},
    format::{
        Recording,
        array::Array,
        npy::{Dtype, Writer},
        uvh5,
    },
    run::{Dumps, Integration},
};

use super::{
    count, digits,
    files::Files,
    progress::Progress,
    run_files::{Existing, RunFiles, all, ending, input, output},
    say,
    selection::Selection,
    si, warn,
};

/// Correlate a recording: V[c][b(i,j)] = sum over t of x_i[c][t] conj(x_j[c][t]), j <= i
///
/// The output is a NumPy file, int64 [dump][channel][baseline][2] (float32 for cf16 samples), with
/// baseline b(i,j) = i(i+1)/2 + j, autocorrelations included; or, where its name ends in .uvh5, a UVH5
/// file, which pyuvdata reads. Sums of integer samples are exact and the same on every device.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
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
    #[arg(long, value_name = "T")]
    integrate: Option<NonZeroU64>,
    /// NumPy file to write the number of valid times behind each dump to, uint64 [dump]
    #[arg(long, value_name = "COUNTS.npy", value_parser = output())]
    counts: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    place: Place,
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

In Python:
  v = numpy.load('visibilities.npy'); v = v[..., 0] + 1j * v[..., 1]
  v[dump, channel, i * (i + 1) // 2 + j]    # inputs j <= i";

impl Args {
    /// Correlates the recording.
    pub fn run(self) -> Result<()> {
        let Self { files, output, existing, array, integrate, counts, selection, place } = self;
        let run_files = RunFiles::default().reads(&files.inputs).reads(selection.files());
        run_files.reads(&array).writes([&output]).writes(&counts).check(existing)?;
        let is_uvh5 = ending(&output) == UVH5;
        let array = match (array, is_uvh5) {
            (Some(array), true) => Some(Array::read(array)?),
            (None, false) => None,
            (None, true) => {
                let reason = "is to be UVH5: expected --array ARRAY.json, which says what the inputs, \
                              channels and times are";
                return Err(Error::file(output, reason));
            }
            (Some(array), false) => {
                return Err(Error::invalid(format!(
                    "--array {}: expected an output whose name ends in .{UVH5}, found {}",
                    array.display(),
                    output.display()
                )));
            }
        };
        let recording = files.open()?;
        let array = array.map(|array| completed(array, recording.as_ref()));
        let outputs = Names { output: &output, array: array.as_ref(), counts: counts.as_deref() };
        correlate(recording, integrate, &selection, place, outputs)
    }
}

/// What the names of UVH5 files end in.
pub(super) const UVH5: &str = "uvh5";

/// The array with what the recording says and its file does not; where they contradict each other the file
/// counts, and that is said.
fn completed(mut array: Array, recording: &dyn Recording) -> Array {
    array.complete(recording, recording.shape().channels).into_iter().for_each(warn);
    if array.phase_center.is_some() {
        warn(array.error(
            "\"phase_center\": the recording's samples were not delayed towards it, so the output is \
             not phased",
        ));
    }
    array
}

/// The files that a correlation is written to.
pub struct Names<'a> {
    pub output: &'a Path,
    /// What is known of the array, for UVH5.
    pub array: Option<&'a Array>,
    pub counts: Option<&'a Path>,
}

/// Correlates a recording into the file `names.output`, one dump every `integrate` times, with a progress
/// bar and a summary.
pub fn correlate(
    recording: Box<dyn Recording>,
    integrate: Option<NonZeroU64>,
    selection: &Selection,
    place: Place,
    names: Names<'_>,
) -> Result<()> {
    let shape = recording.shape();
    let (recorded, interval) = (recording.times(), recording.interval());
    let integration = integrate.map_or(recorded, NonZeroU64::get);
    let dumps = recorded / integration;
    if dumps == 0 {
        return Err(Error::invalid(format!(
            "--integrate {integration}: the recording has only {recorded} times, expected at most \
             as many"
        )));
    }
    let gates = selection.read_gates(recorded)?;
    let shifts = selection.read_shifts(shape.inputs, recorded)?;
    let gate_count = gates.as_ref().map(|gates| gates.count);
    let mut correlator = plan(&shape, recorded, place, gate_count, shifts.as_deref())?;
    let mut outputs = Outputs::create(&shape, gate_count, shifts.is_some(), &names)?;

    let start = Instant::now();
    let times = dumps * integration;
    let bar = Progress::new("correlating", &shape, times);
    let mut found = Dumps::over(recording, &mut correlator)
        .integrate(integration)
        .progress(|progress| bar.set(progress.done));
    if let Some(gates) = gates {
        found = found.gates(gates.numbers);
    }
    let mut totals = Totals::default();
    let mut dump = Integration::default();
    while found.next_into(&mut dump)? {
        outputs.append(&dump)?;
        totals.add(&dump);
    }
    drop(found);
    drop(bar);
    outputs.finish()?;

    let seconds = start.elapsed().as_secs_f64();
    totals.warn(recorded, integration);
    say(format_args!(
        "{} in {seconds:.2} s: {}samples/s, {} useful TOPS on {} ({}): {}",
        totals.describe(&shape, interval, dumps, gate_count),
        si(shape.inputs as f64 * shape.channels as f64 * (times - totals.skipped) as f64 / seconds),
        digits(useful_operations(shape.inputs, shape.channels, totals.fed) / seconds / 1e12),
        correlator.device_name(),
        correlator.kernel(),
        names.output.display()
    ));
    Ok(())
}

/// The plan for a recording of `recorded` times.
fn plan(
    shape: &Shape,
    recorded: u64,
    place: Place,
    gates: Option<usize>,
    shifts: Option<&[usize]>,
) -> Result<Correlator> {
    let Shape { inputs, channels, encoding, layout } = *shape;
    let builder = Correlator::builder(inputs, channels)
        .encoding(encoding)
        .layout(layout)
        .device(place.device)
        .kernel(place.kernel)
        .gates(gates.unwrap_or(1))
        .shifts(shifts.unwrap_or_default());
    builder.build().map_err(|error| match error {
        // The axes may have been taken for others.
        Error::OutOfMemory { .. } => Error::invalid(format!(
            "{error}; as {layout}, the recording has {}, {} and {}",
            count(recorded, "time"),
            count(channels, "channel"),
            count(inputs, "input")
        )),
        other => other,
    })
}

/// The files that dumps go to.
struct Outputs {
    visibilities: Output,
    counts: Option<Writer>,
    /// Baselines whose times are counted: delays make them differ from one to the other.
    counted: usize,
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
        shifted: bool,
        names: &Names<'_>,
    ) -> Result<Self> {
        let baselines = baselines(shape.inputs);
        let dtype = if shape.encoding.is_integer() { Dtype::Int64 } else { Dtype::Float32 };
        let gate_axis: Vec<usize> = gates.into_iter().collect();
        let visibilities = match names.array {
            Some(_) if gates.is_some() => {
                let reason = "is to be UVH5, which knows no gates: expected a name ending in .npy, \
                              because of --gates";
                return Err(Error::file(names.output, reason));
            }
            Some(array) => {
                Output::Uvh5(Box::new(uvh5::Writer::create(names.output, array, shape)?))
            }
            None => {
                let entry = [&gate_axis[..], &[shape.channels, baselines, 2]].concat();
                Output::Npy(Writer::appending(names.output, dtype, &entry)?)
            }
        };
        let entry: Vec<usize> = gate_axis.into_iter().chain(shifted.then_some(baselines)).collect();
        let counts =
            names.counts.map(|path| Writer::appending(path, Dtype::Uint64, &entry)).transpose()?;
        Ok(Self { visibilities, counts, counted: if shifted { baselines } else { 1 } })
    }

    fn append(&mut self, integration: &Integration) -> Result<()> {
        let Integration { start, times, .. } = *integration;
        for dump in &integration.gates {
            match &mut self.visibilities {
                Output::Npy(file) => append(file, &dump.visibilities)?,
                Output::Uvh5(file) => file.append(&dump.visibilities, &dump.valid, start, times)?,
            }
            if let Some(counts) = &mut self.counts {
                let each: Vec<u64> =
                    (0..self.counted).map(|baseline| dump.valid.get(0, baseline)).collect();
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
    times: u64,
    missing: u64,
    kept: u64,
    skipped: u64,
    /// Times that gates were fed with.
    fed: u64,
}

impl Totals {
    fn add(&mut self, integration: &Integration) {
        self.times += integration.times;
        self.missing += integration.missing;
        self.kept += integration.kept;
        self.skipped += integration.skipped;
        self.fed += integration.gates.iter().map(|dump| dump.times).sum::<u64>();
    }

    /// Says which times of the recording are not in the dumps.
    fn warn(&self, recorded: u64, integration: u64) {
        let Self { times, missing, kept, .. } = *self;
        if recorded > times {
            warn(format_args!(
                "the last {} of {recorded} times do not fill a dump of {integration} and are left out",
                recorded - times
            ));
        }
        if missing > 0 {
            warn(format_args!("{missing} of {times} times are missing and count as zero"));
        }
        if kept < times {
            warn(format_args!(
                "{} of {times} times belong to no gate and are dropped",
                times - kept
            ));
        }
    }

    /// What was correlated into what.
    fn describe(
        &self,
        shape: &Shape,
        interval: Option<f64>,
        dumps: u64,
        gates: Option<usize>,
    ) -> String {
        let recorded = interval
            .map(|interval| format!(" ({} s of signal)", digits(interval * self.times as f64)))
            .unwrap_or_default();
        let gates = gates.map(|gates| format!(" of {}", count(gates, "gate"))).unwrap_or_default();
        format!(
            "correlated {} x {} x {}{recorded} into {}{gates}",
            count(shape.inputs, "input"),
            count(shape.channels, "channel"),
            count(self.times, "time"),
            count(dumps, "dump")
        )
    }
}

/// Appends one dump.
fn append(writer: &mut Writer, visibilities: &Visibilities) -> Result<()> {
    const CONTIGUOUS: &str = "a dump is stored in standard order";
    match visibilities {
        Visibilities::Integer(sums) => {
            writer.append(bytemuck::cast_slice(sums.as_slice().expect(CONTIGUOUS)))
        }
        Visibilities::Float(sums) => {
            writer.append(bytemuck::cast_slice(sums.as_slice().expect(CONTIGUOUS)))
        }
    }
}
