//! The command `corrust`, run in a folder.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

/// Runs the command in `folder`.
pub fn corrust(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corrust"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs a command that succeeds, and returns all that it said.
pub fn done(folder: &Path, arguments: &str) -> String {
    let output = corrust(folder, arguments);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{arguments}: {text}");
    text
}
