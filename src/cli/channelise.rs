//! `corrust channelise`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use corrust::{
    Channeliser, Devices, Error, Layout, Result,
    channelise::{Builder, Kernel, Shape, Spectra, SpectrumEncoding, Window},
    delays::Polynomials,
    format::{
        self, Block, Options, RawShape, ReadAhead, Recording, Utc, is_stream,
        npy::{Description, Dtype, Reader, Writer},
    },
    samples::{Missing, RawLayout, RawSamples},
};
use num_complex::Complex;

use super::{
    count, digits,
    progress::Progress,
    run_files::{Existing, RunFiles, all, input, output},
    say, si,
    units::Hertz,
    warn,
};

/// Bytes of raw samples that are read and channelised at a time.
const BLOCK_BYTES: usize = 1 << 26;

/// Where more of an input's samples than this part of them are clipped, it is said.
const MUCH_CLIPPED: f64 = 0.02;

/// Make spectra of raw voltages: decode, polyphase filter bank, delays, gains, quantise, corner turn
///
/// The output is a NumPy file, ready for corrust correlate and beamform: [spectrum][channel][input] (tcn) or
/// [channel][input][spectrum] (cnt), ci8 as int8 with a last axis of 2, ci4 as uint8, cf16 and cf32 as float16
/// and float32 with a last axis of 2. Every device gives the same bits.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// Recordings of raw voltages that follow each other in time, - for the standard input: NumPy, VDIF,
    /// DADA, Mark 5B
    ///
    /// NumPy: i8, i16, f32 are int8, int16, float32 [N][T] (nt) or [T][N] (tn); complex samples have a last
    /// axis of 2.
    #[arg(required = true, value_name = "RAW", value_parser = input())]
    raw: Vec<PathBuf>,
    /// NumPy file to write, - for the standard output
    #[arg(short, long, value_name = "X.npy", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    #[command(flatten)]
    engine: Engine,
    /// Channelised samples: ci8, ci4, ci4-offset, cf16 or cf32
    #[arg(long, default_value = "ci8")]
    output_encoding: SpectrumEncoding,
    /// Order of the axes of the output: tcn (spectrum, channel, input) or cnt (channel, input, spectrum)
    #[arg(long, default_value_t = Layout::Tcn)]
    output_layout: Layout,
    /// auto (the first GPU, else the CPU), cuda, cuda:1, cpu or sim
    #[arg(long, default_value_t)]
    device: Devices,
    #[arg(long, default_value_t = Kernel::Auto, help = kernels())]
    kernel: Kernel,
}

/// The options of an F-engine and of the recording that it takes.
#[derive(Debug, clap::Args)]
pub struct Engine {
    /// Channels: of real samples from DC up, without the Nyquist channel; of complex ones around DC. Twice
    /// (real) or once (complex) their number is to be 2^a or 3 x 2^a, 8 to 1048576
    #[arg(long)]
    channels: usize,
    /// Taps of the filter bank; 1 is a plain FFT
    #[arg(long, default_value_t = 8)]
    taps: usize,
    /// Window of the prototype: hann, hamming, rect or kaiser:BETA; by default hann, of one tap rect
    #[arg(long, conflicts_with = "prototype")]
    window: Option<Window>,
    /// NumPy file of a prototype of your own: float32 or float64, one number for each of the taps' samples
    #[arg(long, value_name = "H.npy", value_parser = input())]
    prototype: Option<PathBuf>,
    /// Oversampling, as 32/27: spectra begin 27/32 of their channels' period after one another
    #[arg(long, value_name = "A/B")]
    oversample: Option<Oversampling>,
    /// The band runs downwards: channels are conjugated and come out in ascending frequency
    #[arg(long)]
    inverted: bool,
    /// Order of the axes of NumPy files: nt (input, time) or tn (time, input); by default nt
    #[arg(long)]
    layout: Option<RawLayout>,
    /// Raw samples of each input a second, as 800MHz; by default what the recording says
    #[arg(long)]
    rate: Option<Hertz>,
    /// JSON file of delays of the inputs; --rate or the recording says how long a sample is
    #[arg(long, value_name = "D.json", value_parser = input())]
    delays: Option<PathBuf>,
    /// When the first sample was taken, in UTC, as 2026-03-20T14:46:00, for delays that count from a date; by
    /// default what the recording says
    #[arg(long, value_name = "TIME", requires = "delays")]
    start: Option<Utc>,
    /// Sky frequency that DC of the samples stands for, as 1.4GHz; delays turn it [default: 0]
    #[arg(long, requires = "delays")]
    sky_frequency: Option<Hertz>,
    /// NumPy file of gains: complex64 [N][C]; by default 1
    #[arg(long, value_name = "G.npy", value_parser = input(), conflicts_with = "level")]
    gains: Option<PathBuf>,
    /// Gains that give the real and imaginary parts of each input and channel this standard deviation, as the
    /// first block shows; without a number 20 for ci8, 2.8 for 4 bits, 1 for floats
    #[arg(long, value_name = "SIGMA", num_args = 0..=1)]
    level: Option<Option<f32>>,
    /// Inputs of a Mark 5B recording, which does not say
    #[arg(long)]
    inputs: Option<usize>,
    /// Bits of a sample of a Mark 5B recording, which does not say: 1 or 2; by default 2
    #[arg(long)]
    bits: Option<u8>,
    /// Leave out what is cut short at the end of a recording, instead of refusing it
    #[arg(long)]
    keep_going: bool,
}

/// `A/B`.
#[derive(Clone, Copy, Debug)]
struct Oversampling {
    above: usize,
    below: usize,
}

impl std::str::FromStr for Oversampling {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('/').unwrap_or((text, "1"));
        let parts = (parts.0.parse::<usize>(), parts.1.parse::<usize>());
        match parts {
            (Ok(above), Ok(below)) if below > 0 && above >= below => Ok(Self { above, below }),
            _ => Err(Error::invalid(format!(
                "oversampling {text:?}: expected A/B with A at least B, as 32/27"
            ))),
        }
    }
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

In Python:
  x = numpy.load('spectra.npy')              # [spectrum, channel, input, (re, im)]";

impl Engine {
    /// The files that are read beside the recording.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.prototype, &self.delays, &self.gains].into_iter().flatten()
    }

    /// Opens the recording.
    pub fn open(&self, paths: &[PathBuf]) -> Result<Box<dyn Recording<RawShape>>> {
        let options = Options {
            keep_going: self.keep_going,
            raw_layout: self.layout,
            rate: self.rate.map(|rate| rate.0),
            inputs: self.inputs,
            bits: self.bits,
            ..Options::default()
        };
        let recording = format::open_raw(paths, options)?;
        if let Some(fault) = recording.left_out() {
            warn(format_args!("{fault}; it is left out"));
        }
        Ok(recording)
    }

    /// The plan for a recording of `paths`, but for gains that are to be measured.
    pub fn builder(&self, recording: &dyn Recording<RawShape>, path: &Path) -> Result<Builder> {
        let RawShape { inputs, encoding, layout } = recording.shape();
        let mut builder = Channeliser::builder(inputs, self.channels)
            .encoding(encoding)
            .layout(layout)
            .taps(self.taps)
            .inverted(self.inverted);
        let residues = self.channels.saturating_mul(if encoding.is_complex() { 1 } else { 2 });
        if let Some(Oversampling { above, below }) = self.oversample {
            let product = residues.saturating_mul(below);
            if !product.is_multiple_of(above) || product == 0 {
                return Err(Error::invalid(format!(
                    "--oversample {above}/{below} of {residues} samples a spectrum: expected a whole \
                     number of samples from one to the next"
                )));
            }
            builder = builder.hop(product / above);
        }
        if let Some(window) = self.window {
            builder = builder.window(window);
        }
        if let Some(path) = &self.prototype {
            builder = builder.prototype(&numbers(path)?);
        }
        if let Some(path) = &self.gains {
            builder = builder.gains(&read_gains(path, inputs, self.channels)?);
        }
        if let Some(delays) = &self.delays {
            let said = recording.interval().map(|interval| 1.0 / interval);
            let rate = self.rate.map(|rate| rate.0).or(said).ok_or_else(|| {
                Error::file(path, "does not say how many samples a second it has: expected --rate")
            })?;
            let start = self.start.or(recording.start()).and_then(|start| start.timestamp());
            let polynomials = Polynomials::read(delays, start)?;
            if polynomials.inputs() != inputs {
                return Err(Error::file(
                    delays,
                    format!(
                        "delays of {}: expected {inputs}, as the recording has",
                        count(polynomials.inputs(), "input")
                    ),
                ));
            }
            builder = {
                let sky = self.sky_frequency.map_or(0.0, |sky| sky.0);
                builder.delays(Arc::new(polynomials), rate, sky)
            };
        }
        Ok(builder)
    }

    /// The level that is asked for.
    pub fn level(&self, encoding: SpectrumEncoding) -> Option<f32> {
        let by_default = match encoding.limit() {
            Some(127) => 20.0,
            Some(_) => 2.8,
            None => 1.0,
        };
        self.level.map(|level| level.unwrap_or(by_default))
    }
}

/// The numbers of a file of float32 or float64, flattened.
fn numbers(path: &Path) -> Result<Vec<f64>> {
    let mut reader = Reader::open(path)?;
    let bytes = reader.read_all()?;
    match reader.dtype() {
        Some(Dtype::Float32) => {
            Ok(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect())
        }
        Some(Dtype::Float64) => {
            Ok(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect())
        }
        _ => Err(Error::file(
            path,
            format!("numbers of type {}: expected float32 or float64", reader.type_name()),
        )),
    }
}

/// The gains of a file.
fn read_gains(path: &Path, inputs: usize, channels: usize) -> Result<Vec<Complex<f32>>> {
    let mut reader = Reader::open(path)?;
    reader.expect(Dtype::Complex64, &["N", "C"])?;
    if reader.shape() != [inputs, channels] {
        return Err(Error::file(
            path,
            format!("gains of shape {:?}: expected [{inputs}, {channels}]", reader.shape()),
        ));
    }
    let bytes = reader.read_all()?;
    let numbers = bytes.as_chunks::<8>().0.iter().map(|bytes| {
        let part =
            |at: usize| f32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Complex::new(part(0), part(4))
    });
    Ok(numbers.collect())
}

impl Args {
    /// Channelises the recording.
    pub fn run(self) -> Result<()> {
        // Beside a pipe stands nothing, and other files say all themselves.
        let (dtype, _) = element(self.output_encoding);
        let described = dtype == Dtype::Uint8 && !is_stream(&self.output);
        let described = described.then_some(&self.output);
        let description = described.map(|output| Description::path(output));
        let files = RunFiles::default().reads(&self.raw).reads(self.engine.files());
        files.writes([&self.output]).writes(&description).check(self.existing)?;

        let recording = self.engine.open(&self.raw)?;
        let raw = recording.shape();
        let times = recording.times();
        let builder = self
            .engine
            .builder(&*recording, &self.raw[0])?
            .output(self.output_encoding)
            .output_layout(self.output_layout)
            .device(self.device.clone())
            .kernel(self.kernel);
        let shape = builder.shape()?;
        if times < shape.window() as u64 {
            return Err(Error::file(
                &self.raw[0],
                format!(
                    "{times} samples of each input: expected at least the {} of a spectrum",
                    shape.window()
                ),
            ));
        }
        let mut output = Output::create(&self, &shape, times)?;

        let start = Instant::now();
        let bar = Progress::over("channelising", raw.inputs as f64, times);
        let at_once = block_times(&raw, &shape);
        let mut feed =
            Feed { builder: Some(builder), plan: None, level: self.engine.level(shape.encoding) };
        let mut blocks = ReadAhead::new(recording, at_once);
        let mut zeros = Vec::new();
        let mut spectra = Spectra::default();
        while let Some(block) = blocks.next_block()? {
            let mut gap = block.gap;
            while gap > 0 {
                let lost = gap.min(at_once as u64) as usize;
                zeros.resize(raw.bytes(at_once), 0);
                let missing = [Missing::times(0..lost)];
                let nothing = RawSamples::strided(
                    &zeros[..],
                    raw.encoding,
                    raw.layout,
                    [raw.inputs, lost],
                    raw.pitch(lost),
                )?;
                feed.plan(block, &raw)?.channelise_into(nothing.missing(&missing), &mut spectra)?;
                output.write(&spectra)?;
                gap -= lost as u64;
            }
            feed.plan(block, &raw)?.channelise_into(block.raw(&raw), &mut spectra)?;
            output.write(&spectra)?;
            bar.set(feed.plan(block, &raw)?.times());
        }
        let Some(mut plan) = feed.plan else {
            return Err(Error::file(
                &self.raw[0],
                "no samples: expected at least those of a spectrum",
            ));
        };
        let fed = plan.times();
        output.write(&plan.finish()?)?;
        drop(bar);
        output.report(&self, &plan, fed, start.elapsed().as_secs_f64());
        output.finish(described)
    }
}

/// Times of the blocks that are read.
fn block_times(raw: &RawShape, shape: &Shape) -> usize {
    let times = BLOCK_BYTES * 8 / (raw.inputs * raw.encoding.bits());
    times.max(2 * shape.window()).next_multiple_of(64)
}

/// The plan, which is built when the first samples are there to measure.
struct Feed {
    builder: Option<Builder>,
    plan: Option<Channeliser>,
    level: Option<f32>,
}

impl Feed {
    fn plan(&mut self, block: &Block, raw: &RawShape) -> Result<&mut Channeliser> {
        if let Some(mut builder) = self.builder.take() {
            if let Some(sigma) = self.level {
                builder = builder.level(sigma, block.raw(raw))?;
            }
            self.plan = Some(builder.build()?);
        }
        Ok(self.plan.as_mut().expect("a plan is built once"))
    }
}

/// The file that spectra go to.
struct Output {
    writer: Writer,
    shape: Shape,
    /// Spectra of the recording, where it is known.
    times: Option<u64>,
    axes: Vec<usize>,
    written: u64,
    missing: u64,
    clipped: Vec<u64>,
}

impl Output {
    fn create(args: &Args, shape: &Shape, times: u64) -> Result<Self> {
        let (dtype, parts) = element(shape.encoding);
        let known = (times != u64::MAX).then(|| shape.spectra(times));
        let (channels, inputs) = (shape.channels, shape.inputs);
        let length = known.map_or(0, |times| usize::try_from(times).unwrap_or(usize::MAX));
        let mut axes = match shape.layout {
            Layout::Tcn => vec![length, channels, inputs],
            Layout::Cnt => vec![channels, inputs, length],
        };
        if parts == 2 {
            axes.push(2);
        }
        let writer = match (known, shape.layout) {
            (Some(_), _) => Writer::with_shape(&args.output, dtype, &axes)?,
            (None, Layout::Tcn) => Writer::appending(&args.output, dtype, &axes[1..])?,
            (None, Layout::Cnt) => {
                return Err(Error::file(
                    &args.raw[0],
                    "a stream of unknown length to the layout cnt: expected --output-layout tcn",
                ));
            }
        };
        let clipped = vec![0; inputs];
        Ok(Self { writer, shape: *shape, times: known, axes, written: 0, missing: 0, clipped })
    }

    fn write(&mut self, spectra: &Spectra) -> Result<()> {
        let (_, parts) = element(self.shape.encoding);
        let Shape { inputs, channels, layout, encoding, .. } = self.shape;
        match (self.times, layout) {
            (None, _) => self.writer.append(&spectra.bytes)?,
            (Some(_), Layout::Tcn) => {
                let place = spectra.first * (channels * inputs * parts) as u64;
                self.writer.write_at(place, &spectra.bytes)?;
            }
            (Some(times), Layout::Cnt) if spectra.times() > 0 => {
                let rows = spectra.bytes.chunks_exact(spectra.times() * encoding.bytes());
                for (row, bytes) in rows.enumerate() {
                    let place = (row as u64 * times + spectra.first) * parts as u64;
                    self.writer.write_at(place, bytes)?;
                }
            }
            _ => {}
        }
        self.written += spectra.times() as u64;
        let lost = |gap: &Missing| (gap.times.len() * gap.inputs.len()) as u64;
        self.missing += spectra.missing.iter().map(lost).sum::<u64>();
        self.clipped.iter_mut().zip(&spectra.clipped).for_each(|(sum, count)| *sum += count);
        Ok(())
    }

    /// Says what was done, in so many seconds.
    fn report(&self, args: &Args, plan: &Channeliser, fed: u64, seconds: f64) {
        let Shape { inputs, channels, .. } = self.shape;
        let of_each = (self.written * channels as u64).max(1) as f64;
        let (worst, most) = self
            .clipped
            .iter()
            .enumerate()
            .max_by_key(|(_, count)| **count)
            .map_or((0, 0.0), |(input, count)| (input, *count as f64 / of_each));
        if most > MUCH_CLIPPED {
            warn(format_args!(
                "{} % of the samples of input {worst} are clipped: --level or smaller --gains keep them",
                digits(100.0 * most)
            ));
        }
        let lost = self.missing as f64 / (self.written * inputs as u64).max(1) as f64;
        let clipped = self.clipped.iter().sum::<u64>() as f64 / (of_each * inputs as f64);
        say(format_args!(
            "channelised {} x {} to {} of {} in {seconds:.2} s: {}samples/s on {} ({}), {} % of the spectra \
             missing, {} % of the samples clipped: {}",
            count(inputs, "input"),
            count(fed, "sample"),
            if self.written == 1 {
                "1 spectrum".to_owned()
            } else {
                format!("{} spectra", self.written)
            },
            count(channels, "channel"),
            si(inputs as f64 * fed as f64 / seconds),
            plan.device_name(),
            plan.kernel(),
            digits(100.0 * lost),
            digits(100.0 * clipped),
            args.output.display()
        ));
    }

    fn finish(self, described: Option<&PathBuf>) -> Result<()> {
        let describe = |output: &PathBuf| match self.shape.encoding {
            SpectrumEncoding::Voltage(encoding) => {
                Description::new(encoding, self.shape.layout, &self.axes).write(output)
            }
            SpectrumEncoding::Cf32 => Ok(()),
        };
        all([self.writer.finish(), described.map_or(Ok(()), describe)])
    }
}

/// The type of the output's numbers, and how many a sample has.
fn element(encoding: SpectrumEncoding) -> (Dtype, usize) {
    use corrust::Encoding::{B1, B2, Cf16, Ci4, Ci4Offset, Ci8};
    match encoding {
        SpectrumEncoding::Voltage(Ci8) => (Dtype::Int8, 2),
        SpectrumEncoding::Voltage(Ci4 | Ci4Offset) => (Dtype::Uint8, 1),
        SpectrumEncoding::Voltage(Cf16) => (Dtype::Float16, 2),
        SpectrumEncoding::Voltage(B1 | B2) => unreachable!("no spectra are bits"),
        SpectrumEncoding::Cf32 => (Dtype::Float32, 2),
    }
}
