//! `corrust bench`: one file per system.

mod correlate;

use std::{path::PathBuf, time::Duration};

use corrust::{Device, Error, Result, device::Facts};
use serde::Serialize;

use super::{digits, say};

/// Time the kernels, with their answers checked in the same run
///
/// Times are medians between GPU events (on the CPU, of a clock), after a warm-up, over samples several
/// times larger than the L2 cache.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    system: System,
}

const EXAMPLES: &str = "\
Examples:
  corrust bench correlate
  corrust bench correlate --inputs 256,2048 --encoding ci8 --kernel wgmma-192,mma-128 --json h.json";

#[derive(Debug, clap::Subcommand)]
enum System {
    Correlate(correlate::Args),
}

impl Args {
    /// Runs the benchmark.
    pub fn run(self) -> Result<()> {
        match self.system {
            System::Correlate(args) => args.run(),
        }
    }
}

/// Where and with what a record was made.
#[derive(Debug, Serialize)]
struct Machine {
    device: String,
    compute_capability: Option<(u32, u32)>,
    multiprocessors: Option<u32>,
    cuda_driver: Option<(u32, u32)>,
    threads: usize,
    seconds_since_1970: u64,
    version: &'static str,
}

impl Machine {
    fn new(device: &str, facts: Option<&Facts>) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            device: device.to_owned(),
            compute_capability: facts.map(|facts| facts.capability),
            multiprocessors: facts.map(|facts| facts.multiprocessors),
            cuda_driver: facts.map(|facts| facts.driver),
            threads: rayon::current_num_threads(),
            seconds_since_1970: now.unwrap_or_default().as_secs(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// What a benchmark measured, with the machine that it was measured on.
#[derive(Debug, Serialize)]
struct Record<R> {
    machine: Machine,
    rows: Vec<R>,
}

impl<R: Serialize> Record<R> {
    /// Writes the record as JSON.
    fn write(&self, path: &PathBuf) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::file(path, format!("cannot be written: {error}")))?;
        std::fs::write(path, text + "\n").map_err(Error::io(path, "write"))
    }
}

/// Median and extremes of repeated times, in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Times {
    median: f64,
    least: f64,
    most: f64,
}

impl Times {
    /// Of `repeats` runs of `measure` after one that does not count.
    fn of(repeats: usize, mut measure: impl FnMut() -> Result<Duration>) -> Result<Self> {
        measure()?;
        let mut times = Vec::with_capacity(repeats);
        for _ in 0..repeats {
            super::check_interrupted()?;
            times.push(measure()?.as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(Self { median: times[repeats / 2], least: times[0], most: times[repeats - 1] })
    }
}

/// Says on what the benchmark runs.
fn introduce(device: Device, name: &str) {
    if device == Device::Auto && corrust::device::cuda::count().is_err() {
        say("no GPU: the CPU is measured");
    }
    say(format_args!("device: {name}"));
}
