//! The command line: a file or folder in `commands/` for each subcommand, with its arguments and its `run`.

use std::{ffi::OsString, path::PathBuf};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};
use corrust::{
    Error, Result,
    device::{self, Kernels, Tuning},
};

#[cfg(feature = "serve")]
use self::commands::serve;
use self::{
    commands::{
        autocorrelate, beamform, bench, channelise, correlate, delays, demo, devices, filterbank,
        fit, images, info, observe, plan, plot, qualify, quantise, send, simulate, upchannelise,
        weights,
    },
    options::{given, run_files},
    terminal::{
        say::{clap_sentence, flush_stdout, record_error, say, warn},
        signals::obey_signals,
    },
};

mod commands;
mod input;
mod options;
mod pictures;
mod terminal;

/// Correlators for radio telescopes whose GPU kernels are written in Rust.
#[derive(Debug, Parser)]
#[command(name = "corrust", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    kernels: KernelArgs,
}

/// Kernels and tuning of all GPUs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "GPU kernels")]
struct KernelArgs {
    /// File or folder of PTX with kernels that replace the built-in ones (or CORRUST_PTX)
    #[arg(long, global = true, value_name = "PATH")]
    ptx: Option<PathBuf>,
    /// Table of `corrust bench --tune` for the choice of kernels (or CORRUST_TUNING)
    #[arg(long, global = true, value_name = "FILE")]
    tuning: Option<PathBuf>,
    /// Print what device sim counted of each kernel: instructions, bank conflicts, sectors of memory, divergent branches
    #[cfg(feature = "sim")]
    #[arg(long, global = true)]
    report: bool,
}

impl KernelArgs {
    /// Sets the kernels and the tuning that were named for all GPUs.
    fn set(&self) -> Result<()> {
        if let Some(path) = &self.ptx {
            Kernels::read(path)?.set()?;
        }
        self.tuning.as_deref().map_or(Ok(()), |path| Tuning::read(path)?.set())
    }

    /// Fails if counts are asked for where no simulator can run a kernel, before any work. A plan of `observe` names its devices itself.
    #[cfg(feature = "sim")]
    fn check(&self, all: &clap::Command, matches: &ArgMatches) -> Result<()> {
        let Some((name, matches)) = matches.subcommand().filter(|_| self.report) else {
            return Ok(());
        };
        let command = all.find_subcommand(name).expect("a command that was parsed");
        if !command.get_arguments().any(|argument| argument.get_id() == "device") {
            return Err(Error::invalid(format!("--report: {name} runs no kernels")));
        }
        let mut devices = matches.get_raw("device").into_iter().flatten();
        if devices.any(|device| device.to_string_lossy().contains("sim")) || name == "observe" {
            return Ok(());
        }
        Err(Error::invalid(NOT_SIMULATED))
    }

    #[cfg(not(feature = "sim"))]
    fn check(&self, _: &clap::Command, _: &ArgMatches) -> Result<()> {
        Ok(())
    }

    /// Prints what simulators counted, if it was asked for.
    #[cfg(feature = "sim")]
    fn print_reports(&self) -> Result<()> {
        let reports = if self.report { device::reports() } else { return Ok(()) };
        if reports.is_empty() {
            return Err(Error::invalid(NOT_SIMULATED));
        }
        reports.values().for_each(|report| say(format_args!("{}", report.to_string().trim_end())));
        Ok(())
    }

    #[cfg(not(feature = "sim"))]
    fn print_reports(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(feature = "sim")]
const NOT_SIMULATED: &str = "--report: no kernel ran on a simulator, expected --device sim";

const EXAMPLES: &str = "\
Examples:
  corrust demo                                      see it work, with a plot
  corrust devices                                   what it can run on
  corrust info scan.vdif                            what a recording is, and what it lacks
  corrust correlate scan.raw -o visibilities.npy    a GUPPI RAW recording
  corrust autocorrelate counts.npy -o g.npy         photon counts, multi-tau
  corrust autocorrelate x.ptu -o g.npy --plot g.svg photons of PicoQuant's (FCS)
  corrust fit g.csv -o fit.json                     a diffusion time, with its uncertainty
  corrust images cells.tif --brightness maps.npy    number and brightness, RICS, two-time correlation
  corrust bench                                     how quick it is, against what the chip can do
  corrust qualify                                   whether it computes rightly on this machine
  corrust plan --inputs 128 --bandwidth 856MHz      how many GPUs an array needs
  corrust help correlate                            options and more examples

Exit codes: 0 done, 1 slower (bench --against) or a requirement failed (qualify), 2 bad input or arguments (one sentence says what), 130 interrupted.";

#[derive(Debug, Subcommand)]
enum Command {
    Devices(devices::Args),
    Demo(demo::Args),
    Info(info::Args),
    Plan(plan::Args),
    Simulate(simulate::Args),
    Send(send::Args),
    Quantise(quantise::Args),
    Channelise(channelise::Args),
    Upchannelise(upchannelise::Args),
    Correlate(Box<correlate::Args>),
    #[cfg(feature = "serve")]
    Serve(Box<serve::Args>),
    Observe(observe::Args),
    Filterbank(filterbank::Args),
    Beamform(beamform::Args),
    Weights(weights::Args),
    Delays(delays::Args),
    Plot(plot::Args),
    Bench(bench::Args),
    Qualify(qualify::Args),
    Autocorrelate(autocorrelate::Args),
    Fit(fit::Args),
    Images(Box<images::Args>),
}

pub use commands::observe::observe;

/// All commands with their options, for tests that draw command lines from them.
#[doc(hidden)]
pub fn parser() -> clap::Command {
    Cli::command()
}

/// Runs the command that the arguments ask for, the first of which is the program's name, and returns its
/// exit code. From then on signals that end programs end this one.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let mut command = Cli::command();
    let parsed = command.try_get_matches_from_mut(arguments).and_then(|matches| {
        given::note(&command, &matches);
        let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        Ok((cli, matches))
    });
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return explain(&error),
    };
    let checked = cli.kernels.check(&command, &matches).and_then(|()| obey_signals());
    let ready = checked.and_then(|()| start_threads()).and_then(|()| cli.kernels.set());
    let result = ready.and_then(|()| {
        let done = match cli.command {
            Command::Devices(args) => args.run(),
            Command::Demo(args) => args.run(),
            Command::Info(args) => args.run(),
            Command::Plan(args) => args.run(),
            Command::Simulate(args) => args.run(),
            Command::Send(args) => args.run(),
            Command::Quantise(args) => args.run(),
            Command::Channelise(args) => args.run(),
            Command::Upchannelise(args) => args.run(),
            Command::Correlate(args) => args.run(),
            #[cfg(feature = "serve")]
            Command::Serve(args) => args.run(),
            Command::Observe(args) => args.run(),
            Command::Filterbank(args) => args.run(),
            Command::Beamform(args) => args.run(),
            Command::Weights(args) => args.run(),
            Command::Delays(args) => args.run(),
            Command::Plot(args) => args.run(),
            Command::Bench(args) => return args.run(),
            Command::Qualify(args) => return args.run(),
            Command::Autocorrelate(args) => args.run(),
            Command::Fit(args) => args.run(),
            Command::Images(args) => args.run(),
        };
        done.map(|()| 0)
    });
    let result = result.and_then(|code| cli.kernels.print_reports().map(|()| code));
    let result = result.and_then(|code| flush_stdout().map(|()| code));
    if result.is_ok() {
        run_files::mention_replaced();
    }
    result.unwrap_or_else(|error| {
        warn(error);
        EXIT_BAD_INPUT
    })
}

/// Exit code of bad input or arguments.
const EXIT_BAD_INPUT: u8 = 2;

/// Starts the threads that compute: where there is no memory for them, rayon would panic when they are needed.
fn start_threads() -> Result<()> {
    match rayon::ThreadPoolBuilder::new().build_global() {
        // Without a cause they run already.
        Err(error) if std::error::Error::source(&error).is_some() => {
            Err(Error::Device(format!("CPU: the threads that compute cannot be started: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints the help that was asked for, or one sentence on what is wrong with the arguments.
fn explain(error: &clap::Error) -> u8 {
    if let ErrorKind::DisplayHelp
    | ErrorKind::DisplayVersion
    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand = error.kind()
    {
        record_error(error.print());
        return match flush_stdout() {
            Ok(()) => error.exit_code() as u8,
            Err(error) => {
                warn(error);
                EXIT_BAD_INPUT
            }
        };
    }
    warn(clap_sentence(error));
    EXIT_BAD_INPUT
}
