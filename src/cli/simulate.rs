//! `corrust simulate`.

use std::{path::PathBuf, time::Instant};

use corrust::{
    Encoding, Layout, Result,
    correlate::Shape,
    format::description,
    simulate::{Simulation, Source},
};

use super::{
    count,
    progress::Progress,
    run_files::{Existing, RunFiles, output},
    say, si,
};

/// Write a recording of point sources with known delays
///
/// The recording is a NumPy file. Beside it appears a description in JSON with the sources and
/// their delays, so that the phases of the visibilities can be checked:
/// x_i[c][t] = n_i[c][t] + sum_k exp(-2 pi i delay_k,i c / channels) s_k[c][t], with noise n of
/// power 1 and signals s of power 1/2, 1/4, 1/8 ...; delays count wideband samples.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// NumPy file to write, - for the standard output; its description has the same name, ending in .json
    #[arg(short, long, value_name = "REC.npy", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    #[command(flatten)]
    recording: RecordingArgs,
}

/// The size and contents of a simulated recording.
#[derive(Debug, clap::Args)]
pub struct RecordingArgs {
    /// Inputs: antennas times polarisations
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub inputs: usize,
    /// Frequency channels
    #[arg(long, default_value_t = 128, value_name = "C")]
    pub channels: usize,
    /// Samples of every input and channel
    #[arg(long, default_value_t = 8192, value_name = "T")]
    pub times: u64,
    /// How a sample is stored: ci8, ci4, ci4-offset or cf16
    #[arg(long, default_value_t = Encoding::Ci8)]
    pub encoding: Encoding,
    /// Order of the axes: tcn (time, channel, input) or cnt (channel, input, time)
    #[arg(long, default_value_t = Layout::Tcn)]
    pub layout: Layout,
    /// Point sources, each half as strong as the one before
    #[arg(long, default_value_t = 3, value_name = "K")]
    pub sources: usize,
    /// Equal seeds give equal recordings
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

const EXAMPLES: &str = "\
Examples:
  corrust simulate -o rec.npy
  corrust simulate -o rec.npy --inputs 256 --channels 20 --times 3072 --encoding ci4 --seed 7";

impl Args {
    /// Writes the recording.
    pub fn run(self) -> Result<()> {
        let simulation = self.recording.simulation();
        simulation.check()?;
        let description = description(&self.output)?;
        let files = RunFiles::default().writes([&self.output]).writes(&description);
        files.check(self.existing)?;
        write(simulation, &self.output).map(drop)
    }
}

impl RecordingArgs {
    /// What the arguments describe.
    pub fn simulation(&self) -> Simulation {
        let &Self { inputs, channels, times, encoding, layout, sources, seed } = self;
        Simulation { shape: Shape { inputs, channels, encoding, layout }, times, sources, seed }
    }
}

/// Writes a recording with a progress bar and a summary, and returns its sources.
pub fn write(simulation: Simulation, output: &PathBuf) -> Result<Vec<Source>> {
    let start = Instant::now();
    let Shape { inputs, channels, encoding, layout } = simulation.shape;
    let progress = Progress::new("simulating", &simulation.shape, simulation.times);
    let sky = simulation.write(output, |times| {
        progress.set(times);
        Ok(())
    })?;
    drop(progress);
    let seconds = start.elapsed().as_secs_f64();
    let samples = inputs as f64 * channels as f64 * simulation.times as f64;
    say(format_args!(
        "simulated {} x {} x {} ({encoding}, {layout}, {}) in {seconds:.2} s, {}samples/s: {}",
        count(inputs, "input"),
        count(channels, "channel"),
        count(simulation.times, "time"),
        count(sky.len(), "source"),
        si(samples / seconds),
        output.display()
    ));
    Ok(sky)
}
