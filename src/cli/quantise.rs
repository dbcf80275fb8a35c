//! `corrust quantise`.

use std::{path::PathBuf, time::Instant};

use corrust::{
    Encoding, Error, Layout, Result,
    correlate::Shape,
    format::{
        is_stream,
        npy::{Description, Dtype, Writer},
    },
    quantise::{self, Quantiser, Requantiser},
    run::Pieces,
    samples::{Memory, Samples},
};

use super::{
    count, digits,
    files::Files,
    progress::Progress,
    run_files::{Existing, RunFiles, all, output},
    say, si, warn,
};

/// Bytes of samples that are read at a time.
const BLOCK_BYTES: usize = 1 << 26;

/// Samples that are quantised and written at a time.
const PIECE: usize = 1 << 20;

/// Quantise a recording to samples of 1 to 4 bits
///
/// The output is a NumPy file of ci4 samples, uint8 [T][C][N] (or [C][N][T], as the recording): value v
/// of n bits, -2^(n-1) to 2^(n-1) - 1, stands for voltages from v to v + 1 steps, the outermost for all
/// beyond. The kernels packed-complex, -3, -2 and -1 correlate them. OUT.npy.json beside it says what it
/// holds, so that corrust need not be told.
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
    /// Bits of the real and of the imaginary part, 1 to 4
    #[arg(long)]
    bits: u32,
    /// Step in units of the noise's standard deviation; by default the one that keeps most of weak
    /// correlations
    #[arg(long)]
    step: Option<f64>,
    /// Standard deviation of the noise in a real or imaginary part, in the recording's units; by default
    /// what the first block shows
    #[arg(long)]
    noise: Option<f32>,
}

const EXAMPLES: &str = "\
Examples:
  corrust quantise rec.npy -o few.npy --bits 3
  corrust correlate few.npy -o visibilities.npy --kernel packed-complex-3    on a GPU
  corrust correlate few.npy -o visibilities.npy --kernel packed-complex-3 --device sim    without one, slowly
  corrust correlate few.npy -o visibilities.npy                              whichever there is";

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
        // Beside a pipe stands nothing.
        let described = (!is_stream(&self.output)).then_some(&self.output);
        let description = described.map(|output| Description::path(output));
        let files = RunFiles::default().reads(&self.files.inputs).writes([&self.output]);
        files.writes(&description).check(self.existing)?;
        let recording = self.files.open()?;
        let (shape, times) = (recording.shape(), recording.times());
        let axes = axes(&shape, times);
        let writer = Writer::with_shape(&self.output, Dtype::Uint8, &axes)?;

        let start = Instant::now();
        let bar = Progress::new("quantising", &shape, times);
        let mut pieces = Pieces::over(recording, BLOCK_BYTES / shape.bytes_per_time())
            .progress(|progress| bar.set(progress.done));
        let mut output = Output {
            shape,
            times,
            writer,
            quantiser: &quantiser,
            requantiser: None,
            noise: self.noise,
            numberless: 0,
            piece: vec![0; PIECE],
        };
        while let Some(piece) = pieces.next_piece(u64::MAX)? {
            // What is missing has the value zero, as the file has where nothing is written.
            if let Some(samples) = piece.samples {
                output.write(piece.start, &samples)?;
            }
        }
        drop(pieces);
        drop(bar);
        let Output { writer, noise, numberless, .. } = output;
        let describe =
            |output: &PathBuf| Description::new(Encoding::Ci4, shape.layout, &axes).write(output);
        all([writer.finish(), described.map_or(Ok(()), describe)])?;
        self.report(&quantiser, &shape, times, noise, numberless, start.elapsed().as_secs_f64());
        Ok(())
    }

    /// Says what was done, in so many seconds.
    fn report(
        &self,
        quantiser: &Quantiser,
        shape: &Shape,
        times: u64,
        noise: Option<f32>,
        numberless: u64,
        seconds: f64,
    ) {
        let Shape { inputs, channels, .. } = *shape;
        if numberless > 0 {
            warn(format_args!(
                "{numberless} of {} samples have a part that is not a number, which becomes 0",
                times * (channels * inputs) as u64
            ));
        }
        say(format_args!(
            "quantised {} x {} x {} to {} in {seconds:.2} s: {}samples/s, steps of {} ({} standard \
             deviations), correlations {} % as efficient as those of the unquantised voltages: {}",
            count(inputs, "input"),
            count(channels, "channel"),
            count(times, "time"),
            count(self.bits, "bit"),
            si((inputs * channels) as f64 * times as f64 / seconds),
            digits(quantiser.step() * f64::from(noise.unwrap_or(1.0))),
            digits(quantiser.step()),
            digits(100.0 * quantiser.efficiency()),
            self.output.display()
        ));
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

/// The file that quantised samples go to.
struct Output<'a> {
    /// The recording's.
    shape: Shape,
    times: u64,
    writer: Writer,
    quantiser: &'a Quantiser,
    /// What quantises noise of this standard deviation, once that is known.
    requantiser: Option<Requantiser>,
    /// Standard deviation of the noise, once it is known.
    noise: Option<f32>,
    /// Samples that are not numbers.
    numberless: u64,
    piece: Vec<u8>,
}

impl Output<'_> {
    /// Quantises and writes the samples from the time `first` on, which lie without gaps.
    fn write(&mut self, first: u64, samples: &Samples<'_>) -> Result<()> {
        let Shape { inputs, channels, encoding, layout } = self.shape;
        let Memory::Host(bytes) = samples.memory() else {
            unreachable!("blocks are in host memory")
        };
        let requantiser = match &self.requantiser {
            Some(requantiser) => requantiser,
            None => {
                let noise = match self.noise {
                    Some(noise) => noise,
                    None => *self.noise.insert(deviation(bytes, encoding)?),
                };
                self.requantiser.insert(self.quantiser.requantiser(encoding, noise))
            }
        };
        // Samples that stand together in the output, and where the next of them begin there.
        let times = samples.extents().times;
        let (row, start, step) = match layout {
            Layout::Tcn => (times * channels * inputs, first * (channels * inputs) as u64, 0),
            Layout::Cnt => (times, first, self.times),
        };
        for (index, samples) in bytes.chunks_exact(row * encoding.bytes()).enumerate() {
            let mut place = start + index as u64 * step;
            for samples in samples.chunks(PIECE * encoding.bytes()) {
                let piece = &mut self.piece[..samples.len() / encoding.bytes()];
                self.numberless += requantiser.requantise(samples, piece)?;
                self.writer.write_at(place, piece)?;
                place += piece.len() as u64;
            }
        }
        Ok(())
    }
}

/// Standard deviation of the samples' real and imaginary parts around zero, of those that are numbers.
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
