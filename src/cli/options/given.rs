//! Refusal of options that were given and have no effect, where the parser cannot tell because it has not seen the
//! recording.

use std::{
    fmt::Display,
    sync::{Mutex, PoisonError},
};

use clap::{ArgMatches, Command, parser::ValueSource};
use corrust::{Error, Result};

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
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|given| given == option)
}

/// Refuses the first of the options that was given and has no effect; `why` says when it has one.
///
/// # Errors
/// [`Error::Invalid`].
pub fn refuse(options: &[&str], why: impl Display) -> Result<()> {
    match options.iter().find(|option| is_given(option)) {
        None => Ok(()),
        Some(option) => Err(Error::invalid(format!("--{option}: {why}"))),
    }
}
