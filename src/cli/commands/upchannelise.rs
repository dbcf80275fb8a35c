//! `corrust upchannelise`.

use std::{path::PathBuf, sync::Arc, time::Instant};

use corrust::{
    Device, Devices, Encoding, Error, Layout, Result, Upchanneliser,
    channelise::{Spectra, SpectrumEncoding},
    correlate::Shape,
    device::Gpu,
    format::{
        is_stream,
        npy::{Description, Dtype},
    },
    run::{Reader, Run, Upchannelise, block_times},
    samples::Missing,
    upchannelise::{Builder, Kernel},
};

use crate::cli::commands::channelise::file::{SpectraFile, element};
use crate::cli::input::Input;
use crate::cli::options::engine::{self, Engine, numbers, read_gains, warn_of_clipped};
use crate::cli::options::files::Files;
use crate::cli::options::run_files::{Existing, RunFiles, input, output};
use crate::cli::terminal::numbers::{count, digits, seconds as in_seconds, si};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::tell;

/// Make subchannels of channels: a zoom into every channel
///
/// The output is a NumPy file [spectrum][channel x U + subchannel][input], ready for corrust correlate and beamform, with
/// a spectrum for every U times; ci8 is int8 with a last axis of 2, ci4 uint8, cf16 and cf32 float16 and float32 with a
/// last axis of 2. Subchannels ascend in frequency. Every device gives the same bits.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// NumPy file to write, - for the standard output
    #[arg(short, long, value_name = "Y.npy", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    #[command(flatten)]
    filter: FilterBank,
    /// Device: auto (the first GPU, else the CPU), cuda, cuda:1, cpu or sim
    #[arg(long, default_value_t, help_heading = "Device")]
    device: Devices,
}

/// The filter bank that makes subchannels.
#[derive(Debug, clap::Args)]
pub struct FilterBank {
    /// Subchannels U of a channel: a power of two, 2 to 512
    #[arg(long, value_name = "U")]
    factor: usize,
    /// Taps of the filter bank [default: 4]
    #[arg(long, conflicts_with = "weights")]
    taps: Option<usize>,
    /// NumPy file of your own weights, taken as they are: float32 or float64, a number for each time of the taps
    #[arg(long, value_name = "W.npy", value_parser = input())]
    weights: Option<PathBuf>,
    /// Scale the weights so that white noise keeps its variance [default: a tone keeps its amplitude]
    #[arg(long)]
    unit_noise: bool,
    /// NumPy file of gains: complex64 [C][U] [default: 1]
    #[arg(long, value_name = "G.npy", value_parser = input())]
    gains: Option<PathBuf>,
    /// Encoding of samples of subchannels: ci8, ci4, ci4-offset, cf16 or cf32
    #[arg(long, default_value = "ci8")]
    output_encoding: SpectrumEncoding,
    /// Kernel of the filter bank: auto, or one of cpu-portable, cpu-avx2, cpu-avx512, registers, any
    #[arg(long, default_value_t = Kernel::Auto, help_heading = "Device", hide_short_help = true)]
    kernel: Kernel,
}

impl FilterBank {
    /// The files that are read.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.weights, &self.gains].into_iter().flatten()
    }

    /// Subchannels of a channel.
    pub fn factor(&self) -> usize {
        self.factor
    }

    /// Encoding of samples of the filter bank's subchannels, which are correlated and beamformed.
    pub fn voltages(&self) -> Result<Encoding> {
        let bank = Upchanneliser::builder(1, 1, self.factor);
        self.taps.into_iter().fold(bank, Builder::taps).shape()?;
        match self.output_encoding {
            SpectrumEncoding::Voltage(encoding) => Ok(encoding),
            SpectrumEncoding::Cf32 => Err(Error::invalid(
                "subchannels of cf32: expected ci8, ci4, ci4-offset or cf16, which are correlated and beamformed",
            )),
        }
    }

    /// Subchannels of `channels` channels of `inputs` inputs.
    pub fn builder(&self, inputs: usize, channels: usize, encoding: Encoding) -> Result<Builder> {
        let mut builder = Upchanneliser::builder(inputs, channels, self.factor)
            .encoding(encoding)
            .output(self.output_encoding)
            .unit_noise(self.unit_noise)
            .kernel(self.kernel);
        if let Some(taps) = self.taps {
            builder = builder.taps(taps);
        }
        if let Some(path) = &self.weights {
            let weights = numbers(path)?;
            if weights.is_empty() {
                return Err(Error::file(path, "no weights: expected some"));
            }
            builder = builder.weights(&weights);
        }
        builder.shape()?;
        if let Some(path) = &self.gains {
            builder = builder.gains(&read_gains(path, channels, self.factor)?);
        }
        Ok(builder)
    }
}

/// Subchannels that are made of every channel before anything else.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Subchannels {
    /// Subchannels to make of every channel first: a power of two, 2 to 512, in ci8, by 4 taps. A spectrum of them is a time
    /// sample; the array file describes subchannels. corrust upchannelise has more options
    #[arg(long, value_name = "U")]
    upchannelise: Option<usize>,
    /// Scale the weights of --upchannelise so that white noise keeps its variance [default: a tone keeps its amplitude]
    #[arg(long, requires = "upchannelise", hide_short_help = true)]
    unit_noise: bool,
}

impl Subchannels {
    /// Whether there are some.
    pub fn are_given(&self) -> bool {
        self.upchannelise.is_some()
    }

    /// Subchannels of a channel.
    pub fn factor(&self) -> usize {
        self.upchannelise.unwrap_or(1)
    }

    /// The filter bank of channels, which an `engine` makes if there is one; on the first of some GPUs, else on the CPU.
    pub fn plan(
        &self,
        channels: &Shape,
        engine: Option<&Engine>,
        gpus: &[Arc<dyn Gpu>],
    ) -> Result<Option<Upchanneliser>> {
        let Some(factor) = self.upchannelise else { return Ok(None) };
        if engine.is_some_and(Engine::is_oversampled) {
            let what = "--upchannelise: of channels that overlap, expected no --oversample";
            return Err(Error::invalid(what));
        }
        let Shape { inputs, channels, encoding, .. } = *channels;
        let plan = Upchanneliser::builder(inputs, channels, factor).encoding(encoding);
        on_first(plan.unit_noise(self.unit_noise), gpus).map(Some)
    }

    /// Subchannels of the channels of `input`, if there are to be some.
    pub fn of(&self, input: Input, engine: &Engine, gpus: &[Arc<dyn Gpu>]) -> Result<Input> {
        let engine = input.is_raw().then_some(engine);
        match self.plan(&input.head.shape, engine, gpus)? {
            Some(plan) => input.upchannelised(plan),
            None => Ok(input),
        }
    }
}

/// A filter bank of channels on the first of some GPUs, else on the CPU.
pub fn on_first(plan: Builder, gpus: &[Arc<dyn Gpu>]) -> Result<Upchanneliser> {
    match gpus.first() {
        Some(gpu) => plan.gpu(gpu.clone()),
        None => plan.device(Device::Cpu),
    }
    .build()
}

const EXAMPLES: &str = "\
Examples:
  corrust upchannelise scan.0000.raw -o fine.npy --factor 16 --unit-noise
  corrust correlate fine.npy -o visibilities.npy --integrate 1024
  corrust upchannelise x.npy -o y.npy --factor 64 --taps 8 --output-encoding cf32

In Python:
  y = numpy.load('y.npy')                    # [spectrum, channel x U + subchannel, input, (re, im)]";

impl Args {
    /// Makes the subchannels of the recording.
    pub fn run(self) -> Result<()> {
        // Beside a pipe stands nothing, and other files say all themselves.
        let (output_encoding, factor) = (self.filter.output_encoding, self.filter.factor);
        let (dtype, _) = element(output_encoding);
        let described = dtype == Dtype::Uint8 && !is_stream(&self.output);
        let description = described.then(|| Description::path(&self.output));
        let files = RunFiles::default().reads(&self.files.inputs);
        let files = files.reads(self.filter.files());
        files.writes([&self.output]).writes(&description).check(self.existing)?;
        let recording = self.files.open()?;
        let (shape, times) = (recording.shape(), recording.times());
        let plan = self.filter.builder(shape.inputs, shape.channels, shape.encoding)?;
        let mut plan = plan.device(self.device.clone()).build()?;
        let channels = shape.channels * factor;
        let known = (times != u64::MAX).then_some(times);
        Upchannelise::check_times(known, factor)?;
        let known = known.map(|times| times / factor as u64);
        let (layout, of) = ((output_encoding, Layout::Tcn), (channels, shape.inputs));
        let mut file = SpectraFile::create(&self.output, layout, of, known)?;

        let start = Instant::now();
        let bar = Progress::new("upchannelising", &shape, times);
        let source = Reader::over(recording, block_times(shape.bytes_per_time())).filled();
        let mut sums = Sums { clipped: vec![0; shape.inputs], ..Sums::default() };
        let mut spectra = Spectra::default();
        let mut run = Run::over(source).progress(|done| bar.set(done));
        run.each("subchannels", |piece| {
            plan.upchannelise_into(piece.samples.expect("gaps have samples"), &mut spectra)?;
            sums.add(&spectra);
            file.write(&mut spectra)
        });
        run.all()?;
        drop(bar);
        let seconds = start.elapsed().as_secs_f64();
        file.finish(&self.output, described)?;
        let clipped = warn_of_clipped(&sums.clipped, channels, sums.spectra, "smaller --gains");
        let samples = sums.spectra.max(1) as f64 * (channels * shape.inputs) as f64;
        let took = in_seconds(seconds);
        tell(format_args!(
            "upchannelised {} x {} to {} of {} in {took}: {}samples/s on {} ({}), {} % of the samples missing, \
             {} % clipped: {}",
            count(shape.inputs, "input"),
            count(shape.channels, "channel"),
            engine::spectra(sums.spectra),
            count(channels, "subchannel"),
            si(samples / seconds),
            plan.device_name(),
            plan.kernel(),
            digits(100.0 * sums.missing as f64 / samples),
            digits(clipped),
            self.output.display()
        ));
        Ok(())
    }
}

/// Totals of the run.
#[derive(Default)]
struct Sums {
    spectra: u64,
    /// Missing samples of subchannels.
    missing: u64,
    clipped: Vec<u64>,
}

impl Sums {
    fn add(&mut self, spectra: &Spectra) {
        self.spectra += spectra.times() as u64;
        let lost = |gap: &Missing| (gap.times.len() * gap.channels.len() * gap.inputs.len()) as u64;
        self.missing += spectra.missing.iter().map(lost).sum::<u64>();
        self.clipped.iter_mut().zip(&spectra.clipped).for_each(|(sum, count)| *sum += count);
    }
}
