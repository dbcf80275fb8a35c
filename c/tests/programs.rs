//! Programs in C and C++ against the shared library and the header: compiled with every warning an error, run on each
//! device, results judged by their own plain loops.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror"];

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder with the library under the names that programs look for.
fn installed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let test = env::current_exe().unwrap();
    let built = test.parent().unwrap().join("libcorrust_c.so");
    assert!(built.exists(), "{}: expected the shared library of this build", built.display());
    let version = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
    for name in ["libcorrust.so", &format!("libcorrust.so.{version}")] {
        std::os::unix::fs::symlink(&built, folder.path().join(name)).unwrap();
    }
    folder
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Compiles a program; `extra` arguments too.
fn compile(compiler: &str, source: &str, folder: &Path, extra: &[&str]) -> PathBuf {
    let program = folder.join(source.replace(['/', '.'], "_"));
    let standard = if compiler == "cc" { "-std=c99" } else { "-std=c++11" };
    let output = Command::new(compiler)
        .args([standard, "-O1", "-g"])
        .args(WARNINGS)
        .args(extra)
        .args(["-I", "include", "-I", "examples", source, "-o"])
        .arg(&program)
        .arg(format!("-L{}", folder.display()))
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .args(["-lcorrust", "-lm"])
        .current_dir(here())
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}, expected a compiler"));
    assert!(output.status.success(), "{source}: {}", said(&output));
    program
}

/// Runs a program on a device; where there is none (exit code 77) it says so.
fn run(program: &Path, device: &str) {
    let folder = program.parent().unwrap();
    let output = Command::new(program).arg(device).current_dir(folder).output().unwrap();
    if output.status.code() == Some(77) {
        let required = env::var("CORRUST_REQUIRE").is_ok_and(|devices| devices.contains(device));
        assert!(!required, "{device} is required: {}", said(&output));
        println!("{}: skipped: {}", program.display(), said(&output).trim());
        return;
    }
    assert!(output.status.success(), "{} {device}: {}", program.display(), said(&output));
    assert!(said(&output).contains("are right"), "{}", said(&output));
}

#[test]
fn examples_agree_with_plain_loops() {
    let folder = installed();
    let examples = [
        ("cc", "examples/correlate.c"),
        ("cc", "examples/observe.c"),
        ("c++", "examples/instrument.cpp"),
    ];
    for (compiler, source) in examples {
        let program = compile(compiler, source, folder.path(), &[]);
        for device in ["cpu", "sim", "cuda"] {
            run(&program, device);
        }
    }
}

#[test]
fn bad_input_is_refused_with_a_sentence() {
    let folder = installed();
    let checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let program = compile("cc", "tests/refused.c", folder.path(), &checks);
    let output = Command::new(program).env("ASAN_OPTIONS", "detect_leaks=0").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

/// Functions of the header are those that the library exports, and none is declared in vain.
#[test]
fn the_header_declares_what_the_library_has() {
    let header = fs::read_to_string(here().join("include/corrust.h")).unwrap();
    let source: String = fs::read_dir(here().join("src"))
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let mut exported: Vec<&str> = (source.split("extern \"C\" fn ").skip(1))
        .map(|rest| rest.split('(').next().unwrap())
        .collect();
    exported.sort_unstable();
    assert!(exported.len() > 30, "{exported:?}");
    for name in exported {
        assert!(
            header.contains(&format!("{name}(")),
            "{name}: expected in corrust.h, run scripts/c header"
        );
    }
}
