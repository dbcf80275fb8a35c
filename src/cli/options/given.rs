//! Options that were given and that this run does not use, where the parser cannot tell because it has not seen the recording:
//! a warning, or a refusal where an output is asked for that is not made.

use std::{
    fmt::Display,
    sync::{Mutex, PoisonError},
};

use clap::{ArgMatches, Command, parser::ValueSource};
use corrust::{Error, Result};

use crate::cli::terminal::say::warn;

/// Names of the options on the command line, without their dashes.
static GIVEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps in mind which options of `command`, and of the commands below it, the arguments have.
pub fn note(command: &Command, matches: &ArgMatches) {
    let mut given = Vec::new();
    let mut level = Some((command, matches));
    while let Some((command, matches)) = level {
        let named = command.get_arguments().filter(|option| {
            // A command does not know global options, and they always apply.
            let id = option.get_id().as_str();
            matches.try_contains_id(id).is_ok()
                && matches.value_source(id) == Some(ValueSource::CommandLine)
        });
        given.extend(named.filter_map(|option| option.get_long()).map(str::to_owned));
        level = matches
            .subcommand()
            .and_then(|(name, matches)| Some((command.find_subcommand(name)?, matches)));
    }
    *GIVEN.lock().unwrap_or_else(PoisonError::into_inner) = given;
}

/// Whether the command line has an option of this name.
pub fn is_given(option: &str) -> bool {
    !given(&[option]).is_empty()
}

/// Refuses the first of the options that was given: it asks for what this run does not make; `why` says when it is made.
///
/// # Errors
/// [`Error::Invalid`].
pub fn refuse(options: &[&str], why: impl Display) -> Result<()> {
    match given(options).first() {
        None => Ok(()),
        Some(option) => Err(Error::invalid(format!("--{option}: {why}"))),
    }
}

/// Warns of each of the options that was given and has no effect; `why` says when it has one.
pub fn warn_unused(options: &[&str], why: impl Display) {
    for option in given(options) {
        warn(format_args!("--{option} has no effect: {why}"));
    }
}

/// Options of these that were given.
fn given<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_given = |option: &&&str| given.iter().any(|given| given == **option);
    options.iter().filter(is_given).copied().collect()
}

/// Values that say what an option takes, where it was not given.
const EXAMPLES: [(&str, &str); 2] = [("rate", "32MHz"), ("unit", "1ns")];

/// Option by which a setting of the library is given: `--keep-going` for `keep_going`, `--unit 1ns` for a unit that is lacking.
fn option_of(setting: &str) -> String {
    let option = setting.replace('_', "-");
    match EXAMPLES.iter().find(|(name, _)| *name == option) {
        Some((_, example)) if !is_given(&option) => format!("--{option} {example}"),
        _ => format!("--{option}"),
    }
}

/// The same error, whose sentence names the option if it is about a setting.
pub fn named(error: Error) -> Error {
    let Error::Setting { setting, path, reason } = error else { return error };
    let reason = format!("{reason} ({})", option_of(setting));
    match path {
        Some(path) => Error::File { path, reason },
        None => Error::Invalid(reason),
    }
}
