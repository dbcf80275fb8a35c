//! `corrust demo`.

mod sensitivity;

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use corrust::{
    Channeliser, Encoding, Error, Layout, Result,
    correlate::{Shape, baseline},
    format::{self, Options},
    samples::{RawEncoding, RawLayout},
    simulate::{RawSimulation, Simulation, Source},
};

use crate::cli::commands::correlate::product::{VisibilityOptions, correlate};
use crate::cli::commands::simulate;
use crate::cli::input::Input;
use crate::cli::options::device::DeviceOptions;
use crate::cli::options::engine::Sky;
use crate::cli::options::flagging::Flagging;
use crate::cli::options::run_files::{Existing, RunFiles};
use crate::cli::pictures::fringes::{self, Found};
use crate::cli::pictures::measured::{Measured, coherences};
use crate::cli::pictures::plot;
use crate::cli::terminal::numbers::si;
use crate::cli::terminal::say::say;

/// Simulate and correlate sources, recover their delays, and plot
///
/// A recording of channels first, then one of raw voltages. The raw voltages of a source in the sky go through an F-engine, which undoes its delays while Earth turns,
/// and the correlator: its fringes stand still at a phase of 0.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Folder for the recording, the visibilities and the plot
    #[arg(long, default_value = "demo", value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    existing: Existing,
    #[command(flatten)]
    place: DeviceOptions,
    /// Measure instead the sensitivity that samples of 1 to 4 bits keep, as 1,2,4
    #[arg(long, value_delimiter = ',')]
    bits: Vec<u32>,
}

const EXAMPLES: &str = "\
Examples:
  corrust demo
  corrust demo --out /tmp/demo --device cpu
  corrust demo --bits 1,2,3,4                       what few bits are worth";

/// Simulation of the demo.
const SIMULATION: Simulation = Simulation {
    shape: Shape { inputs: 16, channels: 128, encoding: Encoding::Ci8, layout: Layout::Tcn },
    times: 8192,
    sources: 3,
    seed: 1,
};

/// Raw voltages of the demo: a 64th of a second or so.
const RAW_INPUTS: usize = 4;
const RAW_TIMES: u64 = 1 << 18;
const RAW_RATE: f64 = 16e6;
const RAW_SKY: f64 = 1.4e9;
const RAW_CHANNELS: usize = 256;

/// Largest phase, in radians, that noise leaves of them.
const RAW_TOLERANCE: f64 = 0.05;

/// Largest difference between true and recovered delays, in wideband samples, that noise explains.
const TOLERANCE: f64 = 0.05;

impl Args {
    /// Runs the whole chain.
    pub fn run(self) -> Result<()> {
        let Self { out, existing, place, bits } = self;
        if !bits.is_empty() {
            say(sensitivity::table(&bits, &place.device)?);
            return Ok(());
        }
        // Better to hear now than after the simulation that there is no such device.
        place.device.open()?;
        fs::create_dir_all(&out).map_err(Error::io(&out, "write"))?;
        let file = |name| out.join(name);
        let (recording, output) = (file("recording.npy"), file("visibilities.npy"));
        let (description, figure) = (file("recording.json"), file("visibilities.svg"));
        let (raw, raw_output) = (file("raw.npy"), file("stopped.npy"));
        let raw_description = file("raw.json");
        let files = RunFiles::default().writes([&recording, &description, &output, &figure]);
        let files = files.writes([&raw, &raw_description, &raw_output]);
        files.check(existing)?;

        let sky = simulate::write(SIMULATION, &recording)?;
        let input = Input::channels(format::open(&[&recording], Options::default())?);
        visibilities(input, &output, &place)?;

        let inputs = SIMULATION.shape.inputs;
        let visibilities = coherences(&Measured::open(&output, 0, None)?.dump(0)?, inputs);
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
        say(format_args!("plot: {}\n", figure.display()));
        stop_fringes(&raw, &raw_output, &place)
    }
}

/// Correlates all times of samples into one dump.
fn visibilities(input: Input, output: &Path, place: &DeviceOptions) -> Result<()> {
    let options = VisibilityOptions::of_all(output);
    let gpus = place.device.open()?;
    correlate(input, &options, &Flagging::default(), (place, gpus), (None, output), false)
}

/// Simulates raw voltages of a source in the sky and correlates them, delayed as it asks for.
fn stop_fringes(raw: &PathBuf, output: &Path, place: &DeviceOptions) -> Result<()> {
    let array = RawSimulation::array(RAW_INPUTS, 10_000.0, 1)?;
    let size = [1, RAW_TIMES as usize];
    let sources = RawSimulation::sources(&array, RAW_INPUTS, size, RAW_RATE, 1.0, 1)?;
    let delays = sources[0].delays.clone();
    let simulation = RawSimulation {
        inputs: RAW_INPUTS,
        times: RAW_TIMES,
        rate: RAW_RATE,
        sky_frequency: RAW_SKY,
        encoding: RawEncoding::I8,
        layout: RawLayout::Nt,
        bits: None,
        level: None,
        noise: 1.0,
        sources,
        tones: Vec::new(),
        seed: 1,
        array,
    };
    simulation.write(raw, |_| Ok(()))?;
    let builder = Channeliser::builder(RAW_INPUTS, RAW_CHANNELS);
    let builder = builder.delays(Arc::new(delays), RAW_RATE, RAW_SKY);
    let interval = Some(2.0 * RAW_CHANNELS as f64 / RAW_RATE);
    let sky = Sky { interval, delayed: true, ..Sky::default() };
    let recording = format::open_raw(&[raw], Options::default())?;
    let input = Input::raw(recording, (builder, Some(20.0)), sky, None)?;
    visibilities(input, output, place)?;

    let found = coherences(&Measured::open(output, 0, None)?.dump(0)?, RAW_INPUTS);
    let pairs = (0..RAW_INPUTS).flat_map(|i| (0..i).map(move |j| baseline(i, j)));
    let phases = pairs.map(|pair| found.column(pair).sum().arg().abs());
    let largest = phases.fold(0.0, f64::max);
    if largest > RAW_TOLERANCE {
        return Err(Error::invalid(format!(
            "a phase of {largest:.3} rad is left of stopped fringes: expected at most {RAW_TOLERANCE}"
        )));
    }
    say(format_args!(
        "raw voltages at {}Hz: fringes of baselines up to 20 km stopped, largest phase {largest:.4} rad",
        si(RAW_SKY)
    ));
    Ok(())
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
