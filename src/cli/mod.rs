//! The command line: one file per subcommand, each with its arguments and its `run`.

use std::{
    fmt::Display,
    io::Write,
    process::ExitCode,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::{Parser, Subcommand};
use corrust::{Error, Result};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

mod autocorrelate;
mod beamform;
mod bench;
mod correlate;
mod delays;
mod demo;
mod devices;
mod files;
mod plot;
mod progress;
mod quantise;
mod selection;
mod simulate;
mod weights;

/// Correlators for radio telescopes whose GPU kernels are written in Rust.
#[derive(Debug, Parser)]
#[command(name = "corrust", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  corrust demo                                      see it work, with a plot
  corrust devices                                   what it can run on
  corrust correlate scan.raw -o visibilities.npy    a GUPPI RAW recording
  corrust autocorrelate counts.npy -o g.npy         photon counts, multi-tau
  corrust bench                                     how quick it is, against what the chip can do
  corrust help correlate                            options and more examples

Exit codes: 0 done, 1 slower (bench --against), 2 bad input or arguments (one sentence says what), 130 interrupted.";

#[derive(Debug, Subcommand)]
enum Command {
    Devices(devices::Args),
    Demo(demo::Args),
    Simulate(simulate::Args),
    Quantise(quantise::Args),
    Correlate(correlate::Args),
    Beamform(beamform::Args),
    Weights(weights::Args),
    Bench(bench::Args),
    Autocorrelate(autocorrelate::Args),
}

/// Runs the command that the arguments ask for.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = listen_for_interrupts().and_then(|()| {
        let done = match cli.command {
            Command::Devices(args) => args.run(),
            Command::Demo(args) => args.run(),
            Command::Simulate(args) => args.run(),
            Command::Quantise(args) => args.run(),
            Command::Correlate(args) => args.run(),
            Command::Beamform(args) => args.run(),
            Command::Weights(args) => args.run(),
            Command::Bench(args) => return args.run(),
            Command::Autocorrelate(args) => args.run(),
        };
        done.map(|()| ExitCode::SUCCESS)
    });
    match result {
        Ok(code) => code,
        Err(error) => {
            warn(error);
            ExitCode::from(if INTERRUPTED.load(Ordering::Relaxed) { EXIT_INTERRUPTED } else { 2 })
        }
    }
}

/// What shells report for a program that Ctrl-C ended.
const EXIT_INTERRUPTED: u8 = 130;

/// Whether the user wants the program to stop.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Makes Ctrl-C, and the signal that ends a batch job, stop the program at its next opportunity, so
/// that it tidies up; the second time at once.
fn listen_for_interrupts() -> Result<()> {
    let listen = |signal| {
        let status = EXIT_INTERRUPTED.into();
        flag::register_conditional_shutdown(signal, status, INTERRUPTED.clone())?;
        flag::register(signal, INTERRUPTED.clone())
    };
    for signal in [SIGINT, SIGTERM] {
        listen(signal)
            .map_err(|error| Error::invalid(format!("cannot listen for signals: {error}")))?;
    }
    Ok(())
}

/// An error if the user wants the program to stop, so that what is unfinished is removed.
fn check_interrupted() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Error::invalid("interrupted")) } else { Ok(()) }
}

/// Prints a line of results. A reader that has seen enough is no error.
fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints a line about the work, apart from its results.
fn warn(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "corrust: {line}");
}

/// A number with three significant digits and the prefix of its magnitude, as in "12.3 G".
fn si(value: f64) -> String {
    const PREFIXES: [(f64, &str); 5] =
        [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, " ")];
    let (unit, prefix) =
        PREFIXES.into_iter().find(|(unit, _)| value >= *unit).unwrap_or((1.0, " "));
    format!("{}{prefix}", digits(value / unit))
}

/// A number with three significant digits, where it has that many.
fn digits(value: f64) -> String {
    let decimals = if value == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i32).max(0) };
    format!("{value:.*}", decimals as usize)
}
