//! Tells the program which commit and compiler it comes from, for the records of `corrust bench`.

use std::{env, ffi::OsString, fs, path::PathBuf, process::Command};

fn main() {
    // Cargo looks at this file itself, and without a word of what else counts at all others of the package.
    println!("cargo:rerun-if-env-changed=RUSTC");
    println!("cargo:rustc-env=CORRUST_LOG={}", log().display());
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let compiler = output(rustc, &["--version"]);
    println!("cargo:rustc-env=CORRUST_COMPILER={}", compiler.as_deref().unwrap_or("unknown"));
}

/// The file to which every commit adds a line, git's log of HEAD: `src/commit.rs` reads it, and is all that is
/// compiled again for a commit. Where git keeps none, a file like it.
fn log() -> PathBuf {
    let path = output("git", &["rev-parse", "--git-path", "logs/HEAD"]);
    if let Some(path) = path.and_then(|path| fs::canonicalize(path).ok()) {
        return path;
    }
    // A commit moves it; in a worktree it lies elsewhere.
    if let Some(head) = output("git", &["rev-parse", "--git-path", "HEAD"]) {
        println!("cargo:rerun-if-changed={head}");
    }
    let commit = output("git", &["rev-parse", "HEAD"]).unwrap_or_default();
    let path = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("log");
    fs::write(&path, format!("- {commit}\n")).expect("the output folder can be written");
    path
}

/// Standard output of a program, if it runs and succeeds.
fn output(program: impl Into<OsString>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program.into()).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
