//! Tells the program which commit and compiler it comes from, for the records of `corrust bench`.

use std::{env, ffi::OsString, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // A commit moves one of these; in a worktree they lie elsewhere.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = output("git", &["rev-parse", "--git-path", name]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let commit = output("git", &["rev-parse", "--short=12", "HEAD"]);
    println!("cargo:rustc-env=CORRUST_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let compiler = output(rustc, &["--version"]);
    println!("cargo:rustc-env=CORRUST_COMPILER={}", compiler.as_deref().unwrap_or("unknown"));
}

/// What a program prints, if it runs and succeeds.
fn output(program: impl Into<OsString>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program.into()).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
