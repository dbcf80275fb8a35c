//! `corrust quantise`.

mod packed;
mod planes;

use std::{borrow::Cow, path::PathBuf, time::Instant};

use corrust::{
    Device, Encoding, Error, Layout, Result,
    correlate::Shape,
    format::{
        is_stream,
        npy::{Description, Dtype, Writer},
    },
    quantise::{self, Places, Quantised, Quantiser, Requantiser},
    run::{self, Reader, Run},
    samples::{Memory, Missing, Samples},
};

use crate::cli::commands::channelise::file::RowFile;
use crate::cli::commands::quantise::packed::{PackedFile, block_times};
use crate::cli::commands::quantise::planes::PlaneFile;
use crate::cli::options::files::Files;
use crate::cli::options::given;
use crate::cli::options::run_files::{Existing, RunFiles, all, output};
use crate::cli::terminal::missing::{LOST, fractions};
use crate::cli::terminal::numbers::{self, count, digits, si};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::{tell, warn};

/// Times of a word of bits.
const WORD: usize = Encoding::B1.times();

/// Quantise a recording to samples of 1 to 4 bits
///
/// The output is a NumPy file of ci4 samples, uint8 [T][C][N] (or [C][N][T], as the recording): value v
/// of n bits, -2^(n-1) to 2^(n-1) - 1, stands for voltages from v to v + 1 steps, the outermost for all
/// beyond. Half of the samples that are on a threshold, as 0 always is, are quantised up and half down, by a hash of
/// their time, channel and input: always the same. The kernels packed-complex, -3, -2 and -1 correlate them.
/// OUT.npy.json beside it describes the file to other commands of corrust.
///
/// With --planes it is a file of planes along time, a bit a time, which tensor cores multiply as bits: uint8
/// [C][N][word][32] of 1 bit (b1), [C][N][2][word][32] of 2 bits (b2), words of 128 times. OUT.npy.json says
/// how many time samples they hold and which words are missing: words with a missing time sample.
///
/// With --pack it is a file of words of 32 bits, uint32 [C][N][word][2], which hold 8, 10, 16 or 32 values of 4, 3, 2 or 1
/// bits, real and imaginary parts apart, as the GMRT packs them. OUT.npy.json says how many time samples they hold; other
/// commands read them as ci4.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// NumPy file to write, - for the standard output
    #[arg(short, long, value_name = "OUT.npy", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    /// Bits of the real and of the imaginary part, 1 to 4
    #[arg(long)]
    bits: u32,
    /// Write planes of bits along time, of 1 or 2 bits, as correlate --encoding b1 or b2 reads them
    #[arg(long)]
    planes: bool,
    /// Write values packed in words of 32 bits, ten of 3 bits in one
    #[arg(long, conflicts_with = "planes")]
    pack: bool,
    /// Device that makes the planes: auto (the first GPU, else the CPU), cuda, cuda:1, cpu or sim
    #[arg(long, default_value_t, requires = "planes", help_heading = "Device")]
    device: Device,
    /// Step in units of the noise's standard deviation, as 0.996 [default: the step that keeps most of weak correlations]
    #[arg(long, hide_short_help = true)]
    step: Option<f64>,
    /// Standard deviation of the noise in a real or imaginary part, in the recording's units [default: measured in the
    /// first block]
    #[arg(long, hide_short_help = true)]
    noise: Option<f32>,
}

const EXAMPLES: &str = "\
Examples:
  corrust quantise rec.npy -o few.npy --bits 3
  corrust correlate few.npy -o visibilities.npy --kernel packed-complex-3    on a GPU
  corrust correlate few.npy -o visibilities.npy --kernel packed-complex-3 --device sim    without one, slowly
  corrust correlate few.npy -o visibilities.npy                              whichever there is
  corrust quantise rec.npy -o packed.npy --bits 3 --pack
  corrust quantise rec.npy -o bits.npy --bits 1 --planes
  corrust correlate bits.npy -o coefficients.npy --van-vleck
  corrust quantise scan.vdif --encoding b2 -o bits.npy --bits 2 --planes     VDIF's own bits";

impl Args {
    /// Quantises the recording.
    pub fn run(self) -> Result<()> {
        let quantiser = match self.step {
            Some(step) => Quantiser::new(self.bits, step)?,
            None => Quantiser::optimal(self.bits)?,
        };
        if let Some(noise) = self.noise.filter(|&noise| !(noise > 0.0 && noise.is_finite())) {
            return Err(Error::invalid(format!("--noise {noise}: expected a positive number")));
        }
        if self.planes {
            return self.run_planes(&quantiser);
        }
        if self.pack {
            return self.run_pack(&quantiser);
        }
        // Beside a pipe stands nothing.
        let described = (!is_stream(&self.output)).then_some(&self.output);
        let description = described.map(|output| Description::path(output));
        let files = RunFiles::default().reads(&self.files.inputs).writes([&self.output]);
        files.writes(&description).check(self.existing)?;
        let recording = self.files.open()?;
        let (shape, times) = (recording.shape(), recording.times());
        self.check_bits(&shape)?;
        let axes = axes(&shape, times);
        let writer = Writer::with_shape(&self.output, Dtype::Uint8, &axes)?;

        let start = Instant::now();
        let bar = Progress::new("quantising", &shape, times);
        // Missing samples, also those of gaps, are quantised as voltages of 0 are.
        let source = Reader::over(recording, run::block_times(shape.bytes_per_time())).filled();
        let mut values = Values::new(&shape, &quantiser, self.noise);
        let (mut file, mut made) = (RowFile::new(writer)?, Vec::new());
        let mut missing = 0;
        let rows = shape.channels * shape.inputs;
        let mut run = Run::over(source).progress(|done| bar.set(done));
        run.each("values", |piece| {
            let Some(samples) = &piece.samples else { unreachable!("gaps have samples") };
            missing += piece.missing(&(0..shape.channels), 0..shape.inputs);
            let (first, count) = (piece.start, piece.times as usize);
            made.resize(rows * count, 0);
            values.fill(samples, first, (0, count), &mut made)?;
            match shape.layout {
                Layout::Tcn => file.put((first * rows as u64, 0), made.len(), &mut made),
                Layout::Cnt => file.put((first, times), count, &mut made),
            }
        });
        run.all()?;
        drop(bar);
        let describe = |output: &PathBuf| {
            let description = Description::new(Encoding::Ci4, shape.layout, &axes);
            description.quantised(values.quantised()).write(output)
        };
        all([file.finish(), described.map_or(Ok(()), describe)])?;
        warn_of_missing(missing, &shape, times);
        self.report(&values, times, start.elapsed().as_secs_f64());
        Ok(())
    }

    /// Quantises the recording to planes, or copies its planes.
    fn run_planes(&self, quantiser: &Quantiser) -> Result<()> {
        if is_stream(&self.output) {
            return Err(Error::invalid(
                "--planes to the standard output: expected a file, beside which stands how many times it holds",
            ));
        }
        let description = Description::path(&self.output);
        let files = RunFiles::default().reads(&self.files.inputs);
        files.writes([&self.output, &description]).check(self.existing)?;
        let recording = self.files.open()?;
        let copied = recording.quantised().first().cloned();
        let (shape, times) = (recording.shape(), recording.times());
        self.check_bits(&shape)?;
        if shape.encoding.is_bits() {
            let why = "the recording's own bits are copied, expected samples of more bits";
            given::warn_unused(&["step", "noise", "device"], why);
        }
        let gpu = if shape.encoding.is_bits() { None } else { self.device.gpu()? };
        let mut file = PlaneFile::create(&self.output, &shape, times, self.bits, gpu)?;

        let start = Instant::now();
        let bar = Progress::new("quantising", &shape, times);
        let mut values = Values::new(&shape, quantiser, self.noise);
        // Whole words, where blocks hold them.
        let block = run::block_times(shape.bytes_per_time());
        let block = if block > WORD { block / WORD * WORD } else { WORD };
        let source = Reader::over(recording, block);
        let mut run = Run::over(source).progress(|done| bar.set(done));
        run.each("planes", |piece| {
            match &piece.samples {
                Some(samples) if shape.encoding.is_bits() => file.copy(piece.start, samples)?,
                Some(samples) => {
                    values.write(&mut file, piece.start, samples)?;
                    samples.gaps().for_each(|gap| file.miss(piece.start, gap));
                }
                None => file.miss(piece.start, Missing::times(0..piece.times as usize)),
            }
            Ok(())
        });
        run.all()?;
        drop(bar);
        let (file, description, lost) = file.finish();
        let description = description.quantised(values.quantised().or(copied));
        all([file.finish(), description.write(&self.output)])?;
        if lost > 0 {
            warn(format_args!(
                "{lost} of {} words of {WORD} times miss some of them in an input, and count as missing there",
                times.div_ceil(WORD as u64)
            ));
        }
        self.report(&values, times, start.elapsed().as_secs_f64());
        Ok(())
    }

    /// Quantises the recording to packed words.
    fn run_pack(&self, quantiser: &Quantiser) -> Result<()> {
        if is_stream(&self.output) {
            return Err(Error::invalid(
                "--pack to the standard output: expected a file, beside which stands how many times it holds",
            ));
        }
        let description = Description::path(&self.output);
        let files = RunFiles::default().reads(&self.files.inputs);
        files.writes([&self.output, &description]).check(self.existing)?;
        let recording = self.files.open()?;
        let (shape, times) = (recording.shape(), recording.times());
        self.check_bits(&shape)?;
        let mut file = PackedFile::create(&self.output, &shape, times, self.bits)?;

        let start = Instant::now();
        let bar = Progress::new("quantising", &shape, times);
        let mut values = Values::new(&shape, quantiser, self.noise);
        let block = block_times(&shape, self.bits)?;
        let source = Reader::over(recording, block).filled();
        let mut made = Vec::new();
        let mut missing = 0;
        // Words begin at multiples of a block, wherever gaps do.
        let block = block as u64;
        let (mut next, mut done) = (0, 0);
        let mut run = Run::over(source).progress(|done| bar.set(done));
        run.each("words", |piece| {
            missing += piece.missing(&(0..shape.channels), 0..shape.inputs);
            let mut from = 0;
            while from < piece.times {
                let count = (times - next).min(block);
                if done == 0 {
                    made.clear();
                    made.resize(count as usize * shape.channels * shape.inputs, 0);
                }
                let end = piece.times.min(from + count - done);
                if let Some(samples) = piece.samples {
                    let samples = samples.times(from as usize..end as usize);
                    let place = (done as usize, count as usize);
                    values.fill(&samples, piece.start + from, place, &mut made)?;
                }
                done += end - from;
                from = end;
                if done == count {
                    file.write(next, &made)?;
                    (next, done) = (next + count, 0);
                }
            }
            Ok(())
        });
        run.all()?;
        drop(bar);
        let (file, description) = file.finish();
        let description = description.quantised(values.quantised());
        all([file.finish(), description.write(&self.output)])?;
        warn_of_missing(missing, &shape, times);
        self.report(&values, times, start.elapsed().as_secs_f64());
        Ok(())
    }

    /// Checks that samples of bits are asked for as they are.
    fn check_bits(&self, shape: &Shape) -> Result<()> {
        let encoding = shape.encoding;
        if encoding.is_bits() && !(self.planes && encoding.planes() == self.bits as usize) {
            return Err(Error::invalid(format!(
                "samples of {encoding} to be quantised: expected --bits {} --planes, which copies them",
                encoding.planes()
            )));
        }
        Ok(())
    }

    /// Reports the work of `seconds` seconds.
    fn report(&self, values: &Values<'_>, times: u64, seconds: f64) {
        let Values {
            shape: Shape { inputs, channels, encoding, .. },
            quantiser,
            noise,
            numberless,
            ..
        } = *values;
        if numberless > 0 {
            warn(format_args!(
                "{numberless} of {} samples have a part that is not a number, which becomes 0",
                times * (channels * inputs) as u64
            ));
        }
        let steps = match encoding.is_bits() {
            // The steps belong to no known noise.
            true => String::new(),
            false => format!(
                "steps of {} ({} standard deviations), ",
                digits(quantiser.step() * f64::from(noise.unwrap_or(1.0))),
                digits(quantiser.step())
            ),
        };
        let took = numbers::seconds(seconds);
        tell(format_args!(
            "quantised {} x {} x {} to {}{} in {took}: {}samples/s, {steps}correlations {} % as \
             efficient as those of the unquantised voltages: {}",
            count(inputs, "input"),
            count(channels, "channel"),
            count(times, "time"),
            count(self.bits, "bit"),
            if self.planes { " in planes" } else { "" },
            si((inputs * channels) as f64 * times as f64 / seconds),
            digits(100.0 * quantiser.efficiency()),
            self.output.display()
        ));
    }
}

/// Warns of missing samples, which values have no place for.
fn warn_of_missing(missing: u64, shape: &Shape, times: u64) {
    if missing > 0 {
        let all = times as f64 * (shape.channels * shape.inputs) as f64;
        let missing = fractions(all, &[(LOST, missing as f64)]);
        warn(format_args!("{missing} and become 0 or -1 at random; --planes keeps them missing"));
    }
}

/// Lengths of the output's axes.
fn axes(shape: &Shape, times: u64) -> [usize; 3] {
    let Shape { inputs, channels, layout, .. } = *shape;
    let length = usize::try_from(times).unwrap_or(usize::MAX);
    match layout {
        Layout::Tcn => [length, channels, inputs],
        Layout::Cnt => [channels, inputs, length],
    }
}

/// Quantiser of samples of any encoding.
struct Values<'a> {
    /// The recording's.
    shape: Shape,
    quantiser: &'a Quantiser,
    /// Quantiser for noise of the samples' standard deviation, once that is known.
    requantiser: Option<Requantiser>,
    /// Standard deviation of the noise, once it is known.
    noise: Option<f32>,
    /// Samples that are not numbers.
    numberless: u64,
}

impl<'a> Values<'a> {
    fn new(shape: &Shape, quantiser: &'a Quantiser, noise: Option<f32>) -> Self {
        Self { shape: *shape, quantiser, requantiser: None, noise, numberless: 0 }
    }

    /// Measures the noise in the first samples, if it was not given.
    fn learn(&mut self, bytes: &[u8]) -> Result<()> {
        if self.requantiser.is_none() {
            let encoding = self.shape.encoding;
            let noise = match self.noise {
                Some(noise) => noise,
                None => *self.noise.insert(deviation(bytes, encoding)?),
            };
            self.requantiser = Some(self.quantiser.requantiser(encoding, noise));
        }
        Ok(())
    }

    /// Values of samples, once they have been learnt from.
    fn make(&mut self, samples: &[u8], places: Places, values: &mut [u8]) -> Result<()> {
        let requantiser = self.requantiser.as_ref().expect("learnt");
        self.numberless += requantiser.requantise(samples, places, values)?;
        Ok(())
    }

    /// Voltages that the values stand for, where there are any and numbers can say it.
    fn quantised(&self) -> Option<Quantised> {
        let quantised = self.requantiser.as_ref().map(|made| made.quantised().clone());
        quantised.filter(|quantised| quantised.check().is_ok())
    }

    /// Quantises samples from the time `first` on into `values`, a block of `count` times of which they begin at time
    /// `done`.
    fn fill(
        &mut self,
        samples: &Samples<'_>,
        first: u64,
        (done, count): (usize, usize),
        values: &mut [u8],
    ) -> Result<()> {
        let Shape { inputs, channels, encoding, layout } = self.shape;
        let bytes = match samples.is_dense(layout) {
            // Missing ones are zero.
            true => Cow::Borrowed(&in_memory(samples)[..samples.bytes()]),
            false => Cow::Owned(samples.gather(layout)?),
        };
        self.learn(&bytes)?;
        let times = samples.extents().times;
        let (row, from, pitch) = match layout {
            Layout::Tcn => (times * channels * inputs, done * channels * inputs, 0),
            Layout::Cnt => (times, done, count),
        };
        for (index, samples) in bytes.chunks_exact(row * encoding.bytes()).enumerate() {
            let places = Places { shape: self.shape, first, times, start: index * row };
            self.make(samples, places, &mut values[from + index * pitch..][..row])?;
        }
        Ok(())
    }

    /// Quantises samples from the time `first` on, which lie without gaps, to planes.
    fn write(&mut self, file: &mut PlaneFile, first: u64, samples: &Samples<'_>) -> Result<()> {
        let bytes = in_memory(samples);
        self.learn(bytes)?;
        let (shape, times) = (self.shape, samples.extents().times);
        file.write(first, times, shape.layout, |start, values| {
            let size = shape.encoding.bytes();
            let places = Places { shape, first, times, start };
            self.make(&bytes[start * size..(start + values.len()) * size], places, values)
        })
    }
}

/// The bytes of a block's samples.
fn in_memory<'a>(samples: &Samples<'a>) -> &'a [u8] {
    let Memory::Host(bytes) = samples.memory() else { unreachable!("blocks are in host memory") };
    bytes
}

/// Standard deviation of the samples' real and imaginary parts around zero, without NaNs.
fn deviation(samples: &[u8], encoding: Encoding) -> Result<f32> {
    let deviation = quantise::deviation(samples, encoding);
    if deviation > 0.0 && deviation.is_finite() {
        Ok(deviation)
    } else {
        Err(Error::invalid(format!(
            "the first samples have a standard deviation of {deviation}: give the noise's by --noise"
        )))
    }
}
