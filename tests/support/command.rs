//! The command `corrust`, run in a folder.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

/// The command in `folder`, to be run.
pub fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corrust"));
    command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs the command in `folder`.
pub fn corrust(folder: &Path, arguments: &str) -> Output {
    command(folder, arguments).output().unwrap()
}

/// Runs a command that succeeds, and returns all that it said.
#[track_caller]
pub fn done(folder: &Path, arguments: &str) -> String {
    let output = corrust(folder, arguments);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{arguments}: {text}");
    text
}

/// Runs a command that is refused, and returns its error.
#[track_caller]
pub fn refused(folder: &Path, arguments: &str) -> String {
    let output = corrust(folder, arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
    text
}
