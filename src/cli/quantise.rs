//! `corrust quantise`.

use std::{path::PathBuf, time::Instant};

use corrust::{
    Encoding, Error, Layout, Result,
    correlate::Shape,
    format::{
        ReadAhead,
        npy::{Dtype, Writer},
    },
    quantise::{Quantiser, voltages},
};

use super::{correlate::refuse_overwriting, digits, files::Files, progress::Progress, say, si};

/// Bytes of samples that are read and quantised at a time.
const BLOCK_BYTES: usize = 1 << 26;

/// Quantise a recording to samples of 1 to 4 bits
///
/// The output is a NumPy file of ci4 samples, uint8 [T][C][N] (or [C][N][T], as the recording): value v
/// of n bits, -2^(n-1) to 2^(n-1) - 1, stands for voltages from v to v + 1 steps, the outermost for all
/// beyond. The kernels packed-complex, -3, -2 and -1 correlate them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// NumPy file to write
    #[arg(short, long, value_name = "OUT.npy")]
    output: PathBuf,
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
  corrust correlate few.npy -o visibilities.npy --encoding ci4 --kernel packed-complex-3";

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
        refuse_overwriting(&self.files.inputs, &[&self.output])?;
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
        let (mut done, mut noise) = (0, self.noise);
        while let Some(block) = blocks.next_block()? {
            let noise = match noise {
                Some(noise) => noise,
                None => *noise.insert(deviation(&block.samples, encoding)?),
            };
            let samples = quantiser.requantise(&block.samples, encoding, noise)?;
            match layout {
                Layout::Tcn => writer.write_at(done * (channels * inputs) as u64, &samples)?,
                Layout::Cnt => {
                    for (row, samples) in samples.chunks_exact(block.times).enumerate() {
                        writer.write_at(row as u64 * times + done, samples)?;
                    }
                }
            }
            done += block.times as u64;
            progress.set(done)?;
        }
        drop(progress);
        if done < times {
            return Err(Error::invalid(format!("the recording ended at time {done} of {times}")));
        }
        writer.finish()?;
        let seconds = start.elapsed().as_secs_f64();
        say(format_args!(
            "quantised {inputs} inputs x {channels} channels x {times} times to {} {} in {seconds:.2} s: \
             {}samples/s, steps of {} ({} standard deviations), {} % as efficient: {}",
            self.bits,
            if self.bits == 1 { "bit" } else { "bits" },
            si((inputs * channels) as f64 * times as f64 / seconds),
            digits(quantiser.step() * f64::from(noise.unwrap_or(1.0))),
            digits(quantiser.step()),
            digits(100.0 * quantiser.efficiency()),
            self.output.display()
        ));
        Ok(())
    }
}

/// Standard deviation of the samples' real and imaginary parts around zero.
fn deviation(samples: &[u8], encoding: Encoding) -> Result<f32> {
    let voltages = voltages(samples, encoding)?;
    let power: f64 =
        voltages.iter().map(|v| f64::from(v.re).powi(2) + f64::from(v.im).powi(2)).sum();
    let deviation = (power / (2.0 * voltages.len() as f64)).sqrt() as f32;
    if deviation > 0.0 && deviation.is_finite() {
        Ok(deviation)
    } else {
        Err(Error::invalid(format!(
            "the first samples have a standard deviation of {deviation}: give the noise's by --noise"
        )))
    }
}
