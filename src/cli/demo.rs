//! `corrust demo`.

use std::{fmt::Write, fs, path::PathBuf};

use corrust::{
    Encoding, Error, Layout, Result,
    correlate::{Shape, baseline, baselines},
    format::{self, Options, npy},
    simulate::{Simulation, Source},
};
use ndarray::Array2;
use num_complex::Complex;

use super::{
    correlate::{Place, correlate},
    fringes::{self, Found},
    plot,
    run_files::{Existing, RunFiles},
    say,
    selection::Selection,
    simulate,
};

/// Simulate a recording, correlate it, recover the delays of its sources, and plot
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folder for the recording, the visibilities and the plot
    #[arg(long, default_value = "demo", value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    existing: Existing,
    #[command(flatten)]
    place: Place,
}

const EXAMPLES: &str = "\
Examples:
  corrust demo
  corrust demo --out /tmp/demo --device cpu";

/// What the demo simulates.
const SIMULATION: Simulation = Simulation {
    shape: Shape { inputs: 16, channels: 128, encoding: Encoding::Ci8, layout: Layout::Tcn },
    times: 8192,
    sources: 3,
    seed: 1,
};

/// Largest difference between true and recovered delays, in wideband samples, that noise explains.
const TOLERANCE: f64 = 0.05;

impl Args {
    /// Runs the whole chain.
    pub fn run(self) -> Result<()> {
        let Self { out, existing, place } = self;
        // Better to hear now than after the simulation that there is no such device.
        place.device.open()?;
        fs::create_dir_all(&out).map_err(Error::io(&out, "write"))?;
        let file = |name| out.join(name);
        let (recording, output) = (file("recording.npy"), file("visibilities.npy"));
        let (description, figure) = (file("recording.json"), file("visibilities.svg"));
        let files = RunFiles::default().writes([&recording, &description, &output, &figure]);
        files.check(existing)?;

        let sky = simulate::write(SIMULATION, &recording)?;
        correlate(
            format::open(&[&recording], Options::default())?,
            None,
            &Selection::default(),
            place,
            &output,
            None,
        )?;

        let Shape { inputs, channels, .. } = SIMULATION.shape;
        let visibilities = coherences(&output, inputs, channels)?;
        let found = fringes::find(visibilities.view(), inputs, sky.len());
        let (table, error) = compare(&sky, &found);
        say(table);
        plot::visibilities(&figure, visibilities.view(), inputs, &found)?;
        if error > TOLERANCE {
            return Err(Error::invalid(format!(
                "a recovered delay is off by {error:.3} wideband samples: expected at most {TOLERANCE}"
            )));
        }
        say(format_args!("largest error {error:.4} wideband samples"));
        say(format_args!("plot: {}", figure.display()));
        Ok(())
    }
}

/// Reads the first dump, `[channel][baseline]`, each visibility divided by the root of the powers
/// of both inputs.
fn coherences(path: &PathBuf, inputs: usize, channels: usize) -> Result<Array2<Complex<f64>>> {
    let mut reader = npy::Reader::open(path)?;
    reader.expect(npy::Dtype::Int64, &["dump", "channel", "baseline", "real, imaginary"])?;
    let mut sums = vec![Complex::<i64>::default(); channels * baselines(inputs)];
    reader.read_at(0, bytemuck::cast_slice_mut(&mut sums))?;
    let sum = |channel: usize, baseline: usize| sums[channel * baselines(inputs) + baseline];
    let mut coherences = Array2::default((channels, baselines(inputs)));
    for channel in 0..channels {
        for i in 0..inputs {
            for j in 0..=i {
                let power = |input| sum(channel, baseline(input, input)).re as f64;
                let value = sum(channel, baseline(i, j));
                coherences[[channel, baseline(i, j)]] =
                    Complex::new(value.re as f64, value.im as f64) / (power(i) * power(j)).sqrt();
            }
        }
    }
    Ok(coherences)
}

/// A table of true and recovered powers and delays, and the largest difference of delays.
fn compare(sky: &[Source], found: &[Found]) -> (String, f64) {
    let noise_and_sources = 1.0 + sky.iter().map(|source| source.power).sum::<f64>();
    let mut table = String::from(
        "\nPowers as fractions of an input's, delays in wideband samples after input 0:\n\n",
    );
    let mut row = |title: &str, cells: Vec<[String; 2]>| {
        let _ = write!(table, "{title:>8}");
        for [left, right] in cells {
            let _ = write!(table, " | {left:>8} {right:>9}");
        }
        table.push('\n');
    };
    let pairs = || sky.iter().zip(found);
    let number = |value: f64| format!("{value:.3}");
    row("", (1..=found.len()).map(|source| [format!("source {source}"), String::new()]).collect());
    row("", pairs().map(|_| ["true", "recovered"].map(str::to_owned)).collect());
    row(
        "power",
        pairs()
            .map(|(source, found)| [source.power / noise_and_sources, found.power].map(number))
            .collect(),
    );
    let mut largest = 0.0_f64;
    for input in 0..sky.first().map_or(0, |source| source.delays.len()) {
        let delays = pairs()
            .map(|(source, found)| [source.delays[input] - source.delays[0], found.delays[input]]);
        largest = delays.clone().map(|[a, b]| (a - b).abs()).fold(largest, f64::max);
        row(&format!("input {input}"), delays.map(|pair| pair.map(number)).collect());
    }
    (table, largest)
}
