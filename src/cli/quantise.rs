//! `corrust quantise`.

use std::{path::PathBuf, time::Instant};

use corrust::{
    Encoding, Error, Layout, Result,
    correlate::Shape,
    format::{
        ReadAhead, is_stream,
        npy::{Description, Dtype, Writer},
    },
    quantise::{self, Quantiser, Requantiser},
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
        let shape = recording.shape();
        let Shape { inputs, channels, encoding, layout } = shape;
        let times = recording.times();
        let length = usize::try_from(times).unwrap_or(usize::MAX);
        let axes = match layout {
            Layout::Tcn => [length, channels, inputs],
            Layout::Cnt => [channels, inputs, length],
        };
        let mut writer = Writer::with_shape(&self.output, Dtype::Uint8, &axes)?;

        let start = Instant::now();
        let progress = Progress::new("quantising", &shape, times);
        let mut blocks = ReadAhead::new(recording, (BLOCK_BYTES / shape.bytes_per_time()).max(1));
        let (mut done, mut noise, mut numberless) = (0, self.noise, 0);
        let mut requantiser: Option<Requantiser> = None;
        let mut piece = vec![0; PIECE];
        while let Some(block) = blocks.next_block()? {
            // What is missing has the value zero, as the file has where nothing is written.
            done += block.gap;
            let requantiser = match &requantiser {
                Some(requantiser) => requantiser,
                None => {
                    let noise = match noise {
                        Some(noise) => noise,
                        None => *noise.insert(deviation(&block.samples, encoding)?),
                    };
                    requantiser.insert(quantiser.requantiser(encoding, noise))
                }
            };
            // Samples that stand together in the output, and where the next of them begin there.
            let (row, step) = match layout {
                Layout::Tcn => (block.times * channels * inputs, 0),
                Layout::Cnt => (block.times, times),
            };
            let start = match layout {
                Layout::Tcn => done * (channels * inputs) as u64,
                Layout::Cnt => done,
            };
            for (index, samples) in block.samples.chunks_exact(row * encoding.bytes()).enumerate() {
                let mut place = start + index as u64 * step;
                for samples in samples.chunks(PIECE * encoding.bytes()) {
                    let piece = &mut piece[..samples.len() / encoding.bytes()];
                    numberless += requantiser.requantise(samples, piece)?;
                    writer.write_at(place, piece)?;
                    place += piece.len() as u64;
                }
            }
            done += block.times as u64;
            progress.set(done);
        }
        drop(progress);
        if done < times {
            return Err(Error::invalid(format!("the recording ended at time {done} of {times}")));
        }
        let describe =
            |output: &PathBuf| Description::new(Encoding::Ci4, layout, &axes).write(output);
        all([writer.finish(), described.map_or(Ok(()), describe)])?;
        let seconds = start.elapsed().as_secs_f64();
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
