//! `corrust demo`.

use std::{fmt::Write, fs, path::PathBuf};

use corrust::{
    Encoding, Error, Layout, Result,
    correlate::Shape,
    format::{self, Options},
    simulate::{Simulation, Source},
};

use super::{
    correlate::{Input, Names, Place, correlate},
    figure::{Measured, coherences},
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
            Input::channels(format::open(&[&recording], Options::default())?),
            None,
            &Selection::default(),
            place,
            Names { output: &output, array: None, counts: None },
        )?;

        let inputs = SIMULATION.shape.inputs;
        let visibilities = coherences(&Measured::open(&output, 0)?.dump(0)?, inputs);
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
