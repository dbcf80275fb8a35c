//! `corrust correlate`.

use std::{
    num::NonZeroU64,
    path::{Path, PathBuf},
    time::Instant,
};

use corrust::{
    Correlator, Device, Encoding, Error, Layout, Result,
    correlate::{Kernel, Shape, Visibilities, baselines, useful_operations},
    format::{
        self, Options, ReadAhead, Recording,
        npy::{Dtype, Writer},
    },
};

use super::{digits, progress::Progress, say, si, warn};

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
    /// NumPy or GUPPI RAW files that follow each other in time
    ///
    /// NumPy: ci8 is int8 [T][C][N][2] (tcn) or [C][N][T][2] (cnt), cf16 the same in float16, ci4
    /// and ci4-offset are uint8 without the last axis. GUPPI RAW: 8-bit samples; input index =
    /// antenna x polarisations + polarisation; times that no block holds count as missing.
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<PathBuf>,
    /// NumPy file to write
    #[arg(short, long, value_name = "OUT.npy")]
    output: PathBuf,
    /// How a sample is stored: ci8, ci4, ci4-offset or cf16
    ///
    /// By default int8 is ci8 and float16 is cf16; uint8 needs to be told.
    #[arg(long)]
    encoding: Option<Encoding>,
    /// Order of the axes: tcn (time, channel, input; the default) or cnt (channel, input, time)
    #[arg(long)]
    layout: Option<Layout>,
    /// Times in a dump; by default the whole recording is one dump
    ///
    /// Times at the end that do not fill a dump are left out, and their number is reported.
    #[arg(long, value_name = "T")]
    integrate: Option<NonZeroU64>,
    /// NumPy file to write the number of valid times behind each dump to, uint64 [dump]
    #[arg(long, value_name = "COUNTS.npy")]
    counts: Option<PathBuf>,
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

In Python:
  v = numpy.load('visibilities.npy'); v = v[..., 0] + 1j * v[..., 1]
  v[dump, channel, i * (i + 1) // 2 + j]    # inputs j <= i";

impl Args {
    /// Correlates the recording.
    pub fn run(self) -> Result<()> {
        let Self { inputs, output, encoding, layout, integrate, counts, place } = self;
        let outputs: Vec<&Path> =
            [Some(&output), counts.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect();
        refuse_overwriting(&inputs, &outputs)?;
        let recording = format::open(&inputs, Options { encoding, layout })?;
        correlate(recording, integrate, place, &output, counts.as_deref())
    }
}

/// Refuses outputs that are inputs, or each other.
pub fn refuse_overwriting(inputs: &[PathBuf], outputs: &[&Path]) -> Result<()> {
    let same = |a: &Path, b: &Path| {
        a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
    };
    for (index, output) in outputs.iter().enumerate() {
        if inputs.iter().any(|input| same(input, output)) {
            return Err(Error::file(output, "is an input: expected another file to write"));
        }
        if outputs[..index].iter().any(|other| same(other, output)) {
            return Err(Error::file(output, "is to hold two outputs: expected two files"));
        }
    }
    Ok(())
}

/// Correlates a recording into the file `output`, one dump every `integrate` times, with a progress
/// bar and a summary.
pub fn correlate(
    recording: Box<dyn Recording>,
    integrate: Option<NonZeroU64>,
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
    let mut correlator = Correlator::builder(inputs, channels)
        .encoding(encoding)
        .layout(layout)
        .device(place.device)
        .kernel(place.kernel)
        .build()?;
    let dtype = if encoding.is_integer() { Dtype::Int64 } else { Dtype::Float32 };
    let mut writer = Writer::appending(output, dtype, &[channels, baselines(inputs), 2])?;
    let mut counts = counts.map(|path| Writer::appending(path, Dtype::Uint64, &[])).transpose()?;

    let start = Instant::now();
    let progress = Progress::new("correlating", &shape, times);
    let mut blocks = ReadAhead::new(recording, block_times(&shape));
    let mut scratch = Vec::new();
    // Times correlated so far, and those missing since the last dump and altogether.
    let (mut done, mut missing, mut all_missing) = (0, 0, 0);
    while done < times
        && let Some(block) = blocks.next_block()?
    {
        let mut position = 0;
        while position < block.times && done < times {
            let left = integration - done % integration;
            let count = usize::try_from(left).map_or(block.times, |left| left.min(block.times));
            let range = position..(position + count).min(block.times);
            missing += block.missing_within(&range) as u64;
            position = range.end;
            done += range.len() as u64;
            // Missing samples have the value zero, which adds nothing.
            correlator.accumulate(block.part(&shape, range, &mut scratch))?;
            if done.is_multiple_of(integration) {
                append(&mut writer, &correlator.dump()?.visibilities)?;
                if let Some(counts) = &mut counts {
                    counts.append(&(integration - missing).to_le_bytes())?;
                }
                all_missing += missing;
                missing = 0;
            }
            progress.set(done)?;
        }
    }
    drop(progress);
    if done < times {
        return Err(Error::invalid(format!("the recording ended at time {done} of {times}")));
    }
    writer.finish()?;
    counts.map(Writer::finish).transpose()?;

    let seconds = start.elapsed().as_secs_f64();
    if recorded > times {
        warn(format_args!(
            "the last {} of {recorded} times do not fill a dump of {integration} and are left out",
            recorded - times
        ));
    }
    if all_missing > 0 {
        warn(format_args!("{all_missing} of {times} times are missing and count as zero"));
    }
    let recorded_time = interval
        .map(|interval| format!(" ({} s of signal)", digits(interval * times as f64)))
        .unwrap_or_default();
    say(format_args!(
        "correlated {inputs} inputs x {channels} channels x {times} times{recorded_time} into {dumps} \
         {} in {seconds:.2} s: {}samples/s, {} useful TOPS on {} ({}): {}",
        if dumps == 1 { "dump" } else { "dumps" },
        si(inputs as f64 * channels as f64 * times as f64 / seconds),
        digits(useful_operations(inputs, channels, times) / seconds / 1e12),
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
