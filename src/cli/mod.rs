//! The command line: one file per subcommand, each with its arguments and its `run`.

use std::{
    ffi::OsString,
    fmt::Display,
    io::{IsTerminal, Write},
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};
use corrust::{
    Error, Result,
    device::{Kernels, Tuning},
};

mod autocorrelate;
mod beamform;
mod bench;
mod canvas;
mod channelise;
mod correlate;
mod delays;
mod demo;
mod devices;
mod engine;
mod figure;
mod files;
mod filterbank;
mod fringes;
mod given;
mod info;
mod plan;
mod planes;
mod plot;
mod progress;
mod quantise;
mod response;
mod run_files;
mod selection;
mod send;
mod sensitivity;
#[cfg(feature = "serve")]
mod serve;
mod simulate;
mod stream;
mod units;
mod weights;

/// Correlators for radio telescopes whose GPU kernels are written in Rust.
#[derive(Debug, Parser)]
#[command(name = "corrust", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    kernels: KernelArgs,
}

/// What all GPUs go by.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "GPU kernels")]
struct KernelArgs {
    /// File or folder of PTX whose kernels GPUs run in place of those built in (or CORRUST_PTX)
    #[arg(long, global = true, value_name = "PATH")]
    ptx: Option<PathBuf>,
    /// File of `corrust bench --tune` that kernels are chosen by (or CORRUST_TUNING)
    #[arg(long, global = true, value_name = "FILE")]
    tuning: Option<PathBuf>,
}

impl KernelArgs {
    /// Has all GPUs go by what was named.
    fn set(&self) -> Result<()> {
        if let Some(path) = &self.ptx {
            Kernels::read(path)?.set()?;
        }
        self.tuning.as_deref().map_or(Ok(()), |path| Tuning::read(path)?.set())
    }
}

const EXAMPLES: &str = "\
Examples:
  corrust demo                                      see it work, with a plot
  corrust devices                                   what it can run on
  corrust info scan.vdif                            what a recording is, and what it lacks
  corrust correlate scan.raw -o visibilities.npy    a GUPPI RAW recording
  corrust autocorrelate counts.npy -o g.npy         photon counts, multi-tau
  corrust autocorrelate x.ptu -o g.npy --plot g.svg photons of PicoQuant's (FCS)
  corrust bench                                     how quick it is, against what the chip can do
  corrust plan --inputs 128 --bandwidth 856MHz      how many GPUs an array needs
  corrust help correlate                            options and more examples

Exit codes: 0 done, 1 slower (bench --against), 2 bad input or arguments (one sentence says what), 130 interrupted.";

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
    Correlate(correlate::Args),
    #[cfg(feature = "serve")]
    Serve(Box<serve::Args>),
    Filterbank(filterbank::Args),
    Beamform(beamform::Args),
    Weights(weights::Args),
    Delays(delays::Args),
    Plot(figure::Args),
    Bench(bench::Args),
    Autocorrelate(autocorrelate::Args),
}

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
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    let ready = obey_signals().and_then(|()| start_threads()).and_then(|()| cli.kernels.set());
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
            Command::Correlate(args) => args.run(),
            #[cfg(feature = "serve")]
            Command::Serve(args) => args.run(),
            Command::Filterbank(args) => args.run(),
            Command::Beamform(args) => args.run(),
            Command::Weights(args) => args.run(),
            Command::Delays(args) => args.run(),
            Command::Plot(args) => args.run(),
            Command::Bench(args) => return args.run(),
            Command::Autocorrelate(args) => args.run(),
        };
        done.map(|()| 0)
    });
    let result = result.and_then(|code| said().map(|()| code));
    if result.is_ok() {
        run_files::mention_replaced();
    }
    result.unwrap_or_else(|error| {
        warn(error);
        EXIT_BAD_INPUT
    })
}

/// Bad input or arguments.
const EXIT_BAD_INPUT: u8 = 2;

/// What shells report for a program that Ctrl-C ended.
#[cfg(unix)]
const EXIT_INTERRUPTED: i32 = 130;

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
        keep(error.print());
        return match said() {
            Ok(()) => error.exit_code() as u8,
            Err(error) => {
                warn(error);
                EXIT_BAD_INPUT
            }
        };
    }
    // What is wrong, what it is about, hints; then a usage of several lines, which the help has too.
    let text = error.to_string();
    let lines = text.lines().map(str::trim);
    let lines = lines.take_while(|line| {
        !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    let mut sentence = String::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let line = line.strip_prefix("error: ").unwrap_or(line);
        sentence += match sentence.chars().last() {
            None => "",
            Some(':') => " ",
            Some(_) if line.starts_with("tip:") => "; ",
            Some(_) => ", ",
        };
        sentence += line.strip_prefix("tip: ").unwrap_or(line);
    }
    warn(sentence);
    EXIT_BAD_INPUT
}

/// Makes Ctrl-C, the end of a batch job and a lost connection remove what is unfinished and end the
/// program, whatever it is doing: computing, or waiting for a pipe or a device.
#[cfg(unix)]
fn obey_signals() -> Result<()> {
    use corrust::format::abandon_partial_files;
    use signal_hook::{
        consts::{SIGHUP, SIGINT, SIGTERM},
        iterator::Signals,
        low_level,
    };
    let fault = |error| Error::invalid(format!("cannot listen for signals: {error}"));
    // `nohup` has a program ignore that its connection is lost.
    let obeyed = [SIGINT, SIGTERM].into_iter().chain((!is_ignored(SIGHUP)).then_some(SIGHUP));
    let mut signals = Signals::new(obeyed).map_err(fault)?;
    let listen = move || {
        let mut first = None;
        for _ in &mut signals {
            // A service has what is complete written first; who cannot wait says it again. Some say it to the
            // process and to its group at once.
            let asked: &mut Instant = first.get_or_insert_with(Instant::now);
            if SERVING.load(Ordering::Relaxed) && asked.elapsed() < Duration::from_secs(1) {
                STOPPING.store(true, Ordering::Relaxed);
                continue;
            }
            abandon_partial_files();
            if std::io::stderr().is_terminal() {
                let _ = write!(std::io::stderr(), "\r\x1b[2K");
            }
            warn("interrupted");
            low_level::exit(EXIT_INTERRUPTED);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map(drop).map_err(fault)
}

/// Whether a service runs that ends by itself when it is to stop, and whether it is.
static SERVING: AtomicBool = AtomicBool::new(false);
static STOPPING: AtomicBool = AtomicBool::new(false);

/// Whether a signal is ignored.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given, the old one is written where there is room for it, and all bits
    // zero are an action.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Elsewhere the system ends the program, and what it leaves is removed by the next run.
#[cfg(not(unix))]
fn obey_signals() -> Result<()> {
    Ok(())
}

/// Prints a line of results, where the standard output is not taken by a file; [`said`] tells whether all of them
/// arrived.
fn say(line: impl Display) {
    match run_files::stdout_is_free() {
        true => keep(writeln!(std::io::stdout(), "{line}")),
        false => drop(writeln!(std::io::stderr(), "{line}")),
    }
}

/// The first error of the standard output.
static UNSAID: Mutex<Option<std::io::Error>> = Mutex::new(None);

/// Keeps the first error of the standard output in mind.
fn keep(result: std::io::Result<()>) {
    if let Err(error) = result {
        UNSAID.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Whether all lines of results could be written. A reader that has seen enough is no error.
fn said() -> Result<()> {
    keep(std::io::stdout().flush());
    match UNSAID.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("the standard output", "write")(error))
        }
        _ => Ok(()),
    }
}

/// Prints a line about the work, apart from its results.
fn warn(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "corrust: {line}");
}

/// A number of things, as in "1 beam" and "2 beams".
fn count(number: impl Display, thing: &str) -> String {
    let number = number.to_string();
    let ending = match (&number[..], thing) {
        ("1", _) => "",
        (_, "dish") => "es",
        _ => "s",
    };
    format!("{number} {thing}{ending}")
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
