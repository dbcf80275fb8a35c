//! The command line: a file or folder in `commands/` for each subcommand, with its arguments and its `run`.

use std::{ffi::OsString, time::Instant};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};
use corrust::{Error, Result};

#[cfg(feature = "serve")]
use self::commands::serve;
use self::{
    commands::{
        autocorrelate, beamform, bench, channelise, completions, correlate, delays, demo, devices,
        filterbank, fit, images, info, man, observe, plan, plot, qualify, quantise, send, simulate,
        upchannelise, weights,
    },
    options::{given, kernels::KernelArgs, run_files},
    terminal::{
        numbers::{count, seconds},
        say::{self, Volume, clap_sentence, detail, error, flush_stdout, record_error},
        signals::obey_signals,
    },
};

mod commands;
mod help;
mod input;
mod options;
mod pictures;
mod terminal;

/// Correlators for radio telescopes whose GPU kernels are written in Rust.
#[derive(Debug, Parser)]
#[command(name = "corrust", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    volume: Volume,
}

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
    Completions(completions::Args),
    Man(man::Args),
}

pub use commands::observe::observe;

/// All commands with their options, as they are parsed.
#[doc(hidden)]
pub fn parser() -> clap::Command {
    help::arranged(Cli::command().mut_subcommands(KernelArgs::added))
}

/// Runs the command that the arguments ask for, the first of which is the program's name, and returns its
/// exit code. From then on signals that end programs end this one.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let begun = Instant::now();
    let mut command = parser();
    let parsed = command.try_get_matches_from_mut(arguments).and_then(|matches| {
        given::note(&command, &matches);
        let kernels = KernelArgs::of(&command, &matches);
        let cli = Cli::from_arg_matches(&matches).and_then(|cli| Ok((cli, kernels?)));
        cli.map_err(|error| error.format(&mut command))
    });
    let (cli, kernels) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return explain(&error),
    };
    cli.volume.set();
    let checked = kernels.check().and_then(|()| obey_signals());
    let ready = checked.and_then(|()| start_threads()).and_then(|()| kernels.set());
    let result = ready.and_then(|()| {
        let threads = count(rayon::current_num_threads(), "thread");
        detail(format_args!("corrust {}, {threads}", env!("CARGO_PKG_VERSION")));
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
            Command::Completions(args) => args.run(parser()),
            Command::Man(args) => args.run(parser()),
        };
        done.map(|()| 0)
    });
    let result = result.and_then(|code| kernels.print_reports().map(|()| code));
    let result = result.and_then(|code| flush_stdout().map(|()| code));
    if result.is_ok() {
        run_files::mention_replaced();
        detail(format_args!("done in {}", seconds(begun.elapsed().as_secs_f64())));
    }
    result.unwrap_or_else(|fault| {
        error(options::given::named(fault));
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
            Err(fault) => {
                say::error(fault);
                EXIT_BAD_INPUT
            }
        };
    }
    say::error(clap_sentence(error));
    EXIT_BAD_INPUT
}
