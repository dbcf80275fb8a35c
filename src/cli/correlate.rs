//! `corrust correlate`.

use std::{
    num::NonZeroU64,
    path::{Path, PathBuf},
    time::Instant,
};

use corrust::{
    Correlator, Device, Error, Result,
    correlate::{DROP, Kernel, Shape, Visibilities, baselines, useful_operations},
    format::{
        Block, ReadAhead, Recording,
        npy::{Dtype, Writer},
    },
};

use super::{
    count, digits,
    files::Files,
    progress::Progress,
    run_files::{Existing, RunFiles, all, output},
    say,
    selection::Selection,
    si, warn,
};

/// Fewest and most bytes of samples that are read and correlated at a time.
const BLOCK_BYTES: [usize; 2] = [1 << 26, 1 << 28];

/// Correlate a recording: V[c][b(i,j)] = sum over t of x_i[c][t] conj(x_j[c][t]), j <= i
///
/// The output is a NumPy file, int64 [dump][channel][baseline][2] (float32 for cf16 samples), with
/// baseline b(i,j) = i(i+1)/2 + j, autocorrelations included. Sums of integer samples are exact and
/// the same on every device.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// NumPy file to write, - for the standard output
    #[arg(short, long, value_name = "OUT.npy", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
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
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Place {
    /// auto (the first GPU, else the CPU), cuda, cuda:1, cpu or sim
    #[arg(long, default_value_t = Device::Auto)]
    pub device: Device,
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
  corrust correlate pulsar.raw -o visibilities.npy --gates phase-bins.npy --shifts delays.npy

In Python:
  v = numpy.load('visibilities.npy'); v = v[..., 0] + 1j * v[..., 1]
  v[dump, channel, i * (i + 1) // 2 + j]    # inputs j <= i";

impl Args {
    /// Correlates the recording.
    pub fn run(self) -> Result<()> {
        let Self { files, output, existing, integrate, counts, selection, place } = self;
        let run_files = RunFiles::default().reads(&files.inputs).reads(selection.files());
        run_files.writes([&output]).writes(&counts).check(existing)?;
        let recording = files.open()?;
        correlate(recording, integrate, &selection, place, &output, counts.as_deref())
    }
}

/// Correlates a recording into the file `output`, one dump every `integrate` times, with a progress
/// bar and a summary.
pub fn correlate(
    recording: Box<dyn Recording>,
    integrate: Option<NonZeroU64>,
    selection: &Selection,
    place: Place,
    output: &Path,
    counts: Option<&Path>,
) -> Result<()> {
    let shape = recording.shape();
    let Shape { inputs, channels, encoding, layout } = shape;
    let recorded = recording.times();
    let interval = recording.interval();
    let integration = integrate.map_or(recorded, NonZeroU64::get);
    let dumps = recorded / integration;
    if dumps == 0 {
        return Err(Error::invalid(format!(
            "--integrate {integration}: the recording has only {recorded} times, expected at most \
             as many"
        )));
    }
    let times = dumps * integration;
    let gates = selection.read_gates(recorded)?;
    let shifts = selection.read_shifts(inputs, recorded)?;
    let mut correlator = Correlator::builder(inputs, channels)
        .encoding(encoding)
        .layout(layout)
        .device(place.device)
        .kernel(place.kernel)
        .gates(gates.as_ref().map_or(1, |gates| gates.count))
        .shifts(shifts.as_deref().unwrap_or_default())
        .build()
        .map_err(|error| match error {
            // The axes may have been taken for others.
            Error::OutOfMemory { .. } => Error::invalid(format!(
                "{error}; as {layout}, the recording has {}, {} and {}",
                count(recorded, "time"),
                count(channels, "channel"),
                count(inputs, "input")
            )),
            other => other,
        })?;
    let dtype = if encoding.is_integer() { Dtype::Int64 } else { Dtype::Float32 };
    let gate_axis: Vec<usize> = gates.iter().map(|gates| gates.count).collect();
    let entry = [&gate_axis[..], &[channels, baselines(inputs), 2]].concat();
    let mut writer = Writer::appending(output, dtype, &entry)?;
    let baseline_axis = shifts.is_some().then_some(baselines(inputs));
    let entry: Vec<usize> = gate_axis.into_iter().chain(baseline_axis).collect();
    let mut counts =
        counts.map(|path| Writer::appending(path, Dtype::Uint64, &entry)).transpose()?;

    let start = Instant::now();
    let progress = Progress::new("correlating", &shape, times);
    let mut blocks = ReadAhead::new(recording, block_times(&shape));
    let mut dumped = Vec::new();
    // Times correlated so far, and those missing and kept among them.
    let (mut done, mut missing, mut kept) = (0, 0, 0);
    // Those of gaps that take no time, and those kept among them.
    let (mut skipped, mut skipped_kept) = (0, 0);
    let longest_shift = shifts.iter().flatten().copied().max().unwrap_or(0);
    while done < times
        && let Some(block) = blocks.next_block()?
    {
        // A gap takes no time, but for the samples before it that shifts delay into it.
        let delayed = block.gap.min(longest_shift as u64);
        let head = Block::missing(&shape, delayed as usize);
        let pieces = [
            (Some(&head), delayed),
            (None, block.gap - delayed),
            (Some(block), block.times as u64),
        ];
        for (piece, length) in pieces {
            let mut position = 0;
            while position < length && done < times {
                let left = integration - done % integration;
                let part = position..position + left.min(length - position);
                let count = part.end - part.start;
                position = part.end;
                let numbers = gates
                    .as_ref()
                    .map(|gates| &gates.numbers[done as usize..(done + count) as usize]);
                match piece {
                    Some(block) => {
                        let range = part.start as usize..part.end as usize;
                        missing += block.missing_within(&range) as u64;
                        let samples = block.view(&shape).times(range);
                        match numbers {
                            Some(numbers) => correlator.accumulate_gated(samples, numbers)?,
                            None => correlator.accumulate(samples)?,
                        }
                    }
                    None => {
                        missing += count;
                        skipped += count;
                        skipped_kept += numbers.map_or(count, |numbers| {
                            numbers.iter().filter(|&&number| number != DROP).count() as u64
                        });
                    }
                }
                done += count;
                if done.is_multiple_of(integration) {
                    correlator.dump_gates_into(&mut dumped)?;
                    for dump in &dumped {
                        append(&mut writer, &dump.visibilities)?;
                        kept += dump.times;
                        if let Some(counts) = &mut counts {
                            // Delays make them differ from baseline to baseline.
                            let baselines = if shifts.is_some() { baselines(inputs) } else { 1 };
                            let each: Vec<u64> = (0..baselines)
                                .map(|baseline| dump.valid.get(0, baseline))
                                .collect();
                            counts.append(bytemuck::cast_slice(&each))?;
                        }
                    }
                }
                progress.set(done);
            }
        }
    }
    drop(progress);
    if done < times {
        return Err(Error::invalid(format!("the recording ended at time {done} of {times}")));
    }
    all([writer.finish(), counts.map_or(Ok(()), Writer::finish)])?;

    let seconds = start.elapsed().as_secs_f64();
    if recorded > times {
        warn(format_args!(
            "the last {} of {recorded} times do not fill a dump of {integration} and are left out",
            recorded - times
        ));
    }
    if missing > 0 {
        warn(format_args!("{missing} of {times} times are missing and count as zero"));
    }
    let dropped = times - kept - skipped_kept;
    if dropped > 0 {
        warn(format_args!("{dropped} of {times} times belong to no gate and are dropped"));
    }
    let recorded_time = interval
        .map(|interval| format!(" ({} s of signal)", digits(interval * times as f64)))
        .unwrap_or_default();
    let gates =
        gates.map(|gates| format!(" of {}", count(gates.count, "gate"))).unwrap_or_default();
    say(format_args!(
        "correlated {} x {} x {}{recorded_time} into {}{gates} in {seconds:.2} s: {}samples/s, {} \
         useful TOPS on {} ({}): {}",
        count(inputs, "input"),
        count(channels, "channel"),
        count(times, "time"),
        count(dumps, "dump"),
        si(inputs as f64 * channels as f64 * (times - skipped) as f64 / seconds),
        digits(useful_operations(inputs, channels, kept) / seconds / 1e12),
        correlator.device_name(),
        correlator.kernel(),
        output.display()
    ));
    Ok(())
}

/// Times of the blocks that are read. A device goes through its sums once per block, so a block is
/// to be no smaller than they are, within [`BLOCK_BYTES`]; it is a multiple of what kernels take in
/// at a time, where there are so many.
fn block_times(shape: &Shape) -> usize {
    const GRAIN: usize = 256;
    let sums = 16_usize.saturating_mul(baselines(shape.inputs)).saturating_mul(shape.channels);
    let times = (sums.clamp(BLOCK_BYTES[0], BLOCK_BYTES[1]) / shape.bytes_per_time()).max(1);
    if times > GRAIN { times / GRAIN * GRAIN } else { times }
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
