//! The command `corrust correlate` against NumPy, on a recording of Arecibo's that the Python
//! package baseband ships and on random recordings of every encoding and layout.
//!
//! The Python packages are installed into a virtual environment in the target folder. Where that
//! cannot be done the tests are skipped and say why, except on CI, where they fail.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

const CORRUST: &str = env!("CARGO_BIN_EXE_corrust");
const PACKAGES: [&str; 2] = ["baseband==4.3.0", "numpy>=2"];
/// Random recordings of each encoding and layout.
const RECORDINGS: usize = 20;

/// Runs a command to its end and returns what it printed, or what went wrong.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{command:?}: {} {}", text(&output.stdout), text(&output.stderr)))
    }
}

/// The Python interpreter of a virtual environment with the packages, made if need be.
fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let python = PYTHON.get_or_init(|| {
        let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
        let python = environment.join(if cfg!(windows) { "Scripts/python" } else { "bin/python" });
        let complete = environment.join("packages.txt");
        if fs::read_to_string(&complete).ok() != Some(PACKAGES.join("\n")) {
            let system = if cfg!(windows) { "python" } else { "python3" };
            run(Command::new(system).args(["-m", "venv", "--clear"]).arg(&environment))?;
            run(Command::new(&python).args(["-m", "pip", "install", "-q"]).args(PACKAGES))?;
            fs::write(&complete, PACKAGES.join("\n")).map_err(|error| error.to_string())?;
        }
        Ok(python)
    });
    match python {
        Ok(python) => Some(python),
        Err(reason) => {
            assert!(std::env::var_os("CI").is_none(), "{reason}");
            eprintln!("skipped: needs Python with {}: {reason}", PACKAGES.join(" and "));
            None
        }
    }
}

/// Runs `tests/python/reference.py`, which ends with an error where NumPy finds something else.
fn reference(python: &Path, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/reference.py");
    run(Command::new(python).arg(script).args(arguments)).unwrap_or_else(|error| panic!("{error}"))
}

/// The devices to try: the CPU, the simulator, and a GPU where there is one.
fn devices() -> Vec<&'static str> {
    let mut devices = vec!["cpu", "sim"];
    match corrust::device::cuda::count() {
        Ok(_) => devices.push("cuda"),
        Err(reason) => eprintln!("skipped on cuda: {reason}"),
    }
    devices
}

#[test]
fn baseband_and_numpy_agree_on_arecibo_data() {
    let Some(python) = python() else { return };
    let sample = reference(python, &["sample"]);
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("visibilities.npy");
    for device in devices() {
        let correlate = run(Command::new(CORRUST)
            .args(["correlate", &sample, "--device", device, "-o"])
            .arg(&output));
        let summary = correlate.unwrap_or_else(|error| panic!("{error}"));
        assert!(summary.contains("2 inputs x 4 channels x 3904 times"), "{summary}");
        let compared = reference(python, &["check-sample", output.to_str().unwrap()]);
        assert_eq!(compared, "24 numbers of 3904 times are equal");
    }
}

#[test]
fn numpy_agrees_on_random_recordings() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let cases = reference(python, &["make", path, &RECORDINGS.to_string()]);
    assert_eq!(cases.lines().count(), 8 * RECORDINGS);
    for device in devices() {
        for case in cases.lines() {
            let correlate = run(Command::new(CORRUST)
                .args(["correlate", "--device", device])
                .args(case.split(' '))
                .current_dir(&folder));
            correlate.unwrap_or_else(|error| panic!("{error}"));
        }
        let compared = reference(python, &["check", path]);
        assert_eq!(compared, format!("{} recordings are equal", 8 * RECORDINGS));
    }
}
