//! Lines that the program prints.

use std::{
    fmt::Display,
    io::Write,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use console::Style;
use corrust::{Error, Result};

/// Options of all commands for what the terminal shows.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Volume {
    /// Print only errors, and results that are asked for
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print details, too: version, threads, time
    #[arg(short, long, global = true)]
    verbose: bool,
}

static VOLUME: OnceLock<Volume> = OnceLock::new();

impl Volume {
    /// Sets it for all lines from here on.
    pub fn set(self) {
        let _ = VOLUME.set(self);
    }
}

/// Whether only errors and results are printed.
pub fn is_quiet() -> bool {
    VOLUME.get().is_some_and(|volume| volume.quiet)
}

/// Whether an output goes to the standard output, so that nothing else may.
static STDOUT_TAKEN: AtomicBool = AtomicBool::new(false);

/// Keeps lines of results off the standard output, which an output takes.
pub fn take_stdout() {
    STDOUT_TAKEN.store(true, Ordering::Relaxed);
}

/// Prints a line of results, where the standard output is not taken by a file; [`flush_stdout`] tells whether all of them
/// arrived.
pub fn say(line: impl Display) {
    match STDOUT_TAKEN.load(Ordering::Relaxed) {
        false => record_error(writeln!(std::io::stdout(), "{line}")),
        true => drop(writeln!(std::io::stderr(), "{line}")),
    }
}

/// The first error of the standard output.
static FIRST_ERROR: Mutex<Option<std::io::Error>> = Mutex::new(None);

/// Keeps `result` for [`flush_stdout`] if it is the first error of the standard output.
pub fn record_error(result: std::io::Result<()>) {
    if let Err(error) = result {
        FIRST_ERROR.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Whether all lines of results could be written. A reader that has seen enough is no error.
pub fn flush_stdout() -> Result<()> {
    record_error(std::io::stdout().flush());
    match FIRST_ERROR.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("the standard output", "write")(error))
        }
        _ => Ok(()),
    }
}

/// Whether the results are one JSON text, which nothing else may stand beside.
static ONLY_JSON: AtomicBool = AtomicBool::new(false);

/// Keeps summaries off the standard output, for which a JSON text was asked.
pub fn say_only_json() {
    ONLY_JSON.store(true, Ordering::Relaxed);
}

/// Prints a summary of work whose result is a file, where it is not to be quiet.
pub fn tell(line: impl Display) {
    match (is_quiet(), ONLY_JSON.load(Ordering::Relaxed)) {
        (true, _) => {}
        (false, true) => drop(writeln!(std::io::stderr(), "{line}")),
        (false, false) => say(line),
    }
}

/// Prints why the program, or a part of its work, fails.
pub fn error(line: impl Display) {
    label("error", Style::new().red(), line);
}

/// Prints a fault that the work goes on with.
pub fn warn(line: impl Display) {
    if !is_quiet() {
        label("warning", Style::new().yellow(), line);
    }
}

/// Prints a fact about the work that asks for nothing.
pub fn note(line: impl Display) {
    if !is_quiet() {
        label("note", Style::new().cyan(), line);
    }
}

/// Prints a detail that is asked for with `--verbose`.
pub fn detail(line: impl Display) {
    if VOLUME.get().is_some_and(|volume| volume.verbose) {
        label("note", Style::new().cyan(), line);
    }
}

/// Prints a line about the work, apart from its results; its label has a colour on a terminal that shows them, unless NO_COLOR is
/// set.
fn label(label: &str, style: Style, line: impl Display) {
    let label = style.bold().for_stderr().apply_to(format_args!("{label}:")).to_string();
    let _ = writeln!(std::io::stderr(), "{label} {line}");
}

/// The one sentence of an error of arguments.
pub fn clap_sentence(error: &clap::Error) -> String {
    // clap writes the fault, its subject, hints, and then a usage of several lines, which the help has too.
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
    sentence
}
