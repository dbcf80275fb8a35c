//! The command `corrust correlate` against NumPy, on a recording of Arecibo's that the Python
//! package baseband ships and on random recordings of every encoding and layout.

use std::{path::Path, process::Command};

use witness::run;

use crate::support::witness;

const CORRUST: &str = env!("CARGO_BIN_EXE_corrust");
const PACKAGES: [&str; 2] = ["baseband==4.3.0", "numpy>=2"];
/// Random recordings of each encoding and layout.
const RECORDINGS: usize = 20;

/// Runs `tests/python/reference.py`, which ends with an error where NumPy finds something else.
fn reference(python: &Path, arguments: &[&str]) -> String {
    witness::script(python, "reference.py", arguments)
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
    let Some(python) = &witness::python(&PACKAGES) else { return };
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
    let Some(python) = &witness::python(&PACKAGES) else { return };
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
