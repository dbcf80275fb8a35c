//! `corrust channelise`.

pub mod file;
mod response;

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use corrust::{
    Channeliser, Devices, Error, Layout, Result,
    channelise::{Kernel, Shape, Spectra},
    device::Gpu,
    format::{
        Options, RawShape, is_stream,
        npy::{Description, Dtype},
    },
    run::{Bring, Channelise, Reader, Run, block_times},
    samples::Missing,
};

use file::SpectraFile;
pub use file::element;

use crate::cli::options::engine::{self, Engine, Known, LEVELS, warn_of_clipped};
use crate::cli::options::files::{RAW_OPTIONS, RawOptions, TOLERANCE, Tolerance};
use crate::cli::options::flagging::{Flagging, Judged};
use crate::cli::options::given;
use crate::cli::options::run_files::{Existing, RunFiles, all, input, output};
use crate::cli::options::selection::ChannelRange;
use crate::cli::pictures::plot::ENDINGS;
use crate::cli::terminal::missing::{FLAGGED, LOST, LOST_OR_FLAGGED, fractions};
use crate::cli::terminal::numbers::{self, count, digits, si};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::tell;

/// Parts of a block in which a CPU makes spectra, so that the bar goes on.
const PARTS: usize = 8;

/// Make spectra of raw voltages by a polyphase filter bank
///
/// Samples are decoded, delayed, filtered, transformed, multiplied by gains, quantised and put in order.
///
/// The output is a NumPy file, ready for corrust correlate and beamform: [spectrum][channel][input] (tcn) or
/// [channel][input][spectrum] (cnt), ci8 as int8 with a last axis of 2, ci4 as uint8, cf16 and cf32 as float16
/// and float32 with a last axis of 2. Every device gives the same bits. Samples that are missing or flagged are zero.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = EXAMPLES,
    allow_negative_numbers = true,
    mut_arg("raw_layout", |arg| arg.visible_alias("layout"))
)]
pub struct Args {
    /// Files of one recording of raw voltages in order of time, - for the standard input, dada:KEY for a ring of
    /// PSRDADA: NumPy, VDIF, DADA, Mark 5B
    ///
    /// NumPy: i8, i16, f32 are int8, int16, float32 [N][T] (nt) or [T][N] (tn); complex samples have a last
    /// axis of 2.
    #[arg(required_unless_present = "response", value_name = "RAW", value_parser = input())]
    raw: Vec<PathBuf>,
    /// NumPy file to write, - for the standard output
    #[arg(
        short,
        long,
        required_unless_present = "response",
        value_name = "X.npy",
        value_parser = output()
    )]
    output: Option<PathBuf>,
    /// Draw a channel's response instead, to .svg or .png: tones through the filter bank on the device, beside the
    /// design by its prototype
    #[arg(
        long,
        value_name = "FIGURE.svg",
        value_parser = output(),
        conflicts_with_all = ["raw", "output"], hide_short_help = true)]
    response: Option<PathBuf>,
    #[command(flatten)]
    existing: Existing,
    /// Number of channels: from 0 Hz up without the Nyquist channel for real samples, around 0 Hz for complex ones. Twice
    /// it (real) or it (complex) is 2^a or 3 x 2^a, 8 to 1048576
    #[arg(long)]
    channels: usize,
    /// Channels to write, A to B - 1, as 100..228 [default: all]
    #[arg(long, value_name = "A..B", conflicts_with = "response", hide_short_help = true)]
    only: Option<ChannelRange>,
    #[command(flatten)]
    tolerance: Tolerance,
    /// Device: auto (the first GPU, else the CPU), cuda, cuda:1, cpu or sim
    #[arg(long, default_value_t, help_heading = "Device")]
    device: Devices,
    #[arg(long, default_value_t = Kernel::Auto, help = kernels(), help_heading = "Device", hide_short_help = true)]
    kernel: Kernel,
    #[command(flatten)]
    engine: Engine,
    #[command(flatten)]
    flagging: Flagging,
    #[command(flatten)]
    recording: RawOptions,
}

fn kernels() -> String {
    let names: Vec<_> = Kernel::ALL[1..].iter().map(|kernel| kernel.name()).collect();
    format!("auto (the quickest for the shape on the device), {}", names.join(", "))
}

const EXAMPLES: &str = "\
Examples:
  corrust channelise raw.npy -o spectra.npy --channels 4096 --level
  corrust correlate spectra.npy -o visibilities.npy --integrate 1024
  corrust channelise scan.vdif -o spectra.npy --channels 1024 --oversample 32/27 --delays delays.json
  corrust channelise raw.npy -o spectra.npy --channels 512 --taps 1 --output-encoding cf32
  corrust channelise scan.vdif -o spectra.npy --channels 1024 --level --flag sk --flags flagged.npy
  corrust channelise --response response.svg --channels 1024 --taps 16 --window kaiser:8

In Python:
  x = numpy.load('spectra.npy')              # [spectrum, channel, input, (re, im)]";

impl Args {
    /// Channelises the recording, or draws the response.
    pub fn run(self) -> Result<()> {
        match (&self.output, &self.response) {
            (Some(output), _) => self.channelise(output),
            (None, Some(figure)) => {
                self.engine.warn_of_all_but_the_bank();
                given::warn_unused(
                    &[RAW_OPTIONS, TOLERANCE].concat(),
                    "--response has no recording",
                );
                given::warn_unused(&["flag"], "--response has no recording");
                let files = RunFiles::default().reads(self.engine.files());
                files.writes_as([figure], ENDINGS).check(self.existing)?;
                let builder = self.engine.bank(self.channels)?;
                response::draw(figure, &builder.device(self.device.clone()).kernel(self.kernel))
            }
            (None, None) => unreachable!("one of them is required"),
        }
    }

    fn channelise(&self, path: &PathBuf) -> Result<()> {
        // Beside a pipe stands nothing, and other files say all themselves.
        let (dtype, _) = element(self.engine.output_encoding());
        let described = dtype == Dtype::Uint8 && !is_stream(path);
        let description = described.then(|| Description::path(path));
        let files = RunFiles::default().reads(&self.raw).reads(self.engine.files());
        let files = files.writes([path]).writes(&description);
        files.writes(self.flagging.files()).check(self.existing)?;

        self.engine.warn_of_sky_but_for("--delays", false);
        let options = self.recording.with(self.tolerance.with(Options::default()));
        let recording = Engine::open(&self.raw, options)?;
        let raw = recording.shape();
        let times = recording.times();
        let (of, known) = (engine::Raw::of(&*recording, &self.raw[0]), Known::default());
        let rate = self.recording.rate();
        let builder = self.engine.builder(self.channels, &of, rate, &known)?.0;
        let gpus = self.device.open()?;
        let builder = builder.device(self.device.clone()).gpus(gpus.clone());
        let mut builder = builder.kernel(self.kernel);
        let shape = builder.shape()?;
        let mut output = Output::create(self, path, &shape, times)?;

        let start = Instant::now();
        let bar = Progress::over("channelising", raw.inputs as f64, times);
        let mut voltages = Reader::voltages(recording, &shape).locked_for(gpus.first());
        if let Some(sigma) = self.engine.level()
            && let Some(first) = voltages.first()?
        {
            builder = builder.level(sigma, first)?;
        }
        let mut plan = builder.build()?;
        let made = format!("{} ({})", plan.device_name(), plan.kernel());
        if self.flagging.flag.is_some() {
            let judged = self.write_judged((voltages, plan), &gpus, &mut output, &bar)?;
            drop(bar);
            let flagged = judged.as_ref().map_or(0.0, |judged| judged.samples().flagged as f64);
            output.report(&made, output.samples(), start.elapsed().as_secs_f64(), flagged);
            return all([output.finish(described), judged.map_or(Ok(()), Judged::finish)]);
        }
        let mut spectra = Spectra::default();
        let mut run = Run::over(voltages).progress(|done| bar.set(done));
        // A CPU takes seconds for a block: it is told in parts, unless each would be written to many places.
        let parts = if gpus.is_empty() && shape.layout == Layout::Tcn { PARTS } else { 1 };
        let least = shape.window().saturating_mul(8);
        run.each("spectra", |piece| {
            let samples = piece.samples.expect("gaps have samples");
            let times = piece.times as usize;
            let part = times.div_ceil(parts).max(least).next_multiple_of(64);
            for first in (0..times).step_by(part) {
                let end = times.min(first + part);
                plan.channelise_into(samples.times(first..end), &mut spectra)?;
                output.write(&mut spectra)?;
                bar.set(piece.start + end as u64);
            }
            Ok(())
        });
        run.all()?;
        let fed = plan.times();
        output.write(&mut plan.finish()?)?;
        drop(bar);
        output.report(&made, fed, start.elapsed().as_secs_f64(), 0.0);
        output.finish(described)
    }

    /// Writes spectra whose flagged samples are zero.
    fn write_judged(
        &self,
        (voltages, plan): (Reader<RawShape>, Channeliser),
        gpus: &[Arc<dyn Gpu>],
        output: &mut Output<'_>,
        bar: &Progress,
    ) -> Result<Option<Judged>> {
        let layout = output.shape.layout;
        let at_once = block_times(output.shape.spectrum_bytes());
        let spectra = Channelise::over(voltages, plan)?;
        let (source, judged) = self.flagging.over(spectra, gpus, at_once)?;
        let source = Bring::to(gpus, source)?;
        let mut run = Run::over(source);
        run.each("spectra", |piece| {
            let Some(samples) = piece.samples else { return Ok(()) };
            output.put(piece.start, piece.times as usize, samples.gather(layout)?)?;
            output.missing += samples.gaps().map(|gap| output.lost(&gap)).sum::<f64>();
            bar.set(output.samples());
            Ok(())
        });
        output.clipped = run.all()?.clipped;
        Ok(judged)
    }
}

/// The file that spectra go to.
struct Output<'a> {
    path: &'a Path,
    file: SpectraFile,
    shape: Shape,
    /// Channels that are written.
    only: Range<usize>,
    written: u64,
    /// Spectra of an input that are missing, or channels of them as parts.
    missing: f64,
    clipped: Vec<u64>,
}

impl<'a> Output<'a> {
    fn create(args: &Args, path: &'a Path, shape: &Shape, times: u64) -> Result<Self> {
        let known = (times != u64::MAX).then(|| shape.spectra(times));
        let Shape { inputs, channels, layout, encoding, .. } = *shape;
        if known.is_none() && layout == Layout::Cnt {
            return Err(Error::file(
                &args.raw[0],
                "a stream of unknown length to the layout cnt: expected --output-layout tcn",
            ));
        }
        let only = ChannelRange::of(args.only.as_ref(), "--only", channels)?;
        let file = SpectraFile::create(path, (encoding, layout), (only.len(), inputs), known)?;
        let clipped = vec![0; inputs];
        Ok(Self { path, file, shape: *shape, only, written: 0, missing: 0.0, clipped })
    }

    /// Writes spectra from `first` on.
    fn put(&mut self, first: u64, times: usize, mut bytes: Vec<u8>) -> Result<()> {
        self.written += times as u64;
        self.choose(times, &mut bytes);
        self.file.put(first, times, &mut bytes)
    }

    /// Leaves the channels of `times` spectra that are written.
    fn choose(&self, times: usize, bytes: &mut Vec<u8>) {
        let Shape { channels, layout, .. } = self.shape;
        let blocks = if layout == Layout::Tcn { times } else { 1 };
        if self.only.len() == channels || bytes.is_empty() {
            return;
        }
        let channel = bytes.len() / blocks / channels;
        let part = self.only.len() * channel;
        for block in 0..blocks {
            let from = (block * channels + self.only.start) * channel;
            bytes.copy_within(from..from + part, block * part);
        }
        bytes.truncate(blocks * part);
    }

    /// Spectra of an input that a gap takes; of some of the channels a part of them.
    fn lost(&self, gap: &Missing) -> f64 {
        let Range { start, end } = self.only;
        let channels = gap.channels.end.min(end).saturating_sub(gap.channels.start.max(start));
        let inputs = gap.inputs.end.min(self.shape.inputs) - gap.inputs.start;
        (gap.times.len() * inputs) as f64 * channels as f64 / self.only.len() as f64
    }

    /// Samples of an input that the spectra so far are of.
    fn samples(&self) -> u64 {
        let Shape { hop, .. } = self.shape;
        match self.written {
            0 => 0,
            written => (written - 1) * hop as u64 + self.shape.window() as u64,
        }
    }

    /// Writes spectra, and leaves memory in place of theirs that can be used again.
    fn write(&mut self, spectra: &mut Spectra) -> Result<()> {
        self.written += spectra.times() as u64;
        self.choose(spectra.times(), &mut spectra.bytes);
        self.file.put(spectra.first, spectra.times(), &mut spectra.bytes)?;
        self.missing += spectra.missing.iter().map(|gap| self.lost(gap)).sum::<f64>();
        self.clipped.iter_mut().zip(&spectra.clipped).for_each(|(sum, count)| *sum += count);
        Ok(())
    }

    /// Reports the work of `seconds` seconds, and the number of flagged samples.
    fn report(&self, made: &str, fed: u64, seconds: f64, flagged: f64) {
        let Shape { inputs, channels, .. } = self.shape;
        let clipped = warn_of_clipped(&self.clipped, channels, self.written, LEVELS);
        // Flags are counted of all channels together.
        let known = flagged == 0.0 || self.only.len() == channels;
        let channels = self.only.len();
        // Of spectra the samples of all channels.
        let all = (self.written * inputs as u64) as f64 * channels as f64;
        let missing = self.missing * channels as f64;
        let flagged = flagged.min(missing);
        let missing = match known {
            true => fractions(all, &[(LOST, missing - flagged), (FLAGGED, flagged)]),
            false => fractions(all, &[(LOST_OR_FLAGGED, missing)]),
        };
        let took = numbers::seconds(seconds);
        tell(format_args!(
            "channelised {} x {} to {} of {} in {took}: {}samples/s on {made}, {missing}, {} % are \
             clipped: {}",
            count(inputs, "input"),
            count(fed, "sample"),
            engine::spectra(self.written),
            count(channels, "channel"),
            si(inputs as f64 * fed as f64 / seconds),
            digits(clipped),
            self.path.display()
        ));
    }

    fn finish(self, described: bool) -> Result<()> {
        self.file.finish(self.path, described)
    }
}
