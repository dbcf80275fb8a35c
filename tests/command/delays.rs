//! `corrust delays` and `corrust simulate --raw`, from the outside.

use std::fs;

use command::{corrust, done};
use corrust::{
    delays::{DelayModel, Polynomials},
    format::array::Array,
};

use crate::support::command;

const ARRAY: &str = r#"{
    "location": {"latitude": 19.1, "longitude": 74.05, "altitude": 650},
    "positions": [[0, 0, 0], [14000, 0, 0], [0, -9000, 20]],
    "start": "2026-03-20T14:46:00Z",
    "phase_center": {"name": "3C 196", "ra": 123.4, "dec": 48.2},
    "dut1": 0.1
}"#;

#[test]
fn delays_of_an_array_are_written_and_simulated() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("array.json"), ARRAY).unwrap();
    let said = done(folder.path(), "delays array.json -o d.json --duration 10min");
    assert!(said.starts_with("made delays of 3 inputs, 1 piece each, up to "), "{said}");
    assert!(said.trim_end().ends_with("us: d.json"), "{said}");
    let start = Array::read(folder.path().join("array.json")).unwrap().start;
    let delays = Polynomials::read(folder.path().join("d.json"), start).unwrap();
    assert_eq!(delays.delay(0, 300.0), Some(0.0));
    let [d0, d1] = [0.0, 600.0].map(|seconds| delays.delay(1, seconds).unwrap());
    assert!(d0 != d1 && d0.abs().max(d1.abs()) < 14_000.0 / 299_792_458.0);
    // Two polarisations of each antenna.
    done(folder.path(), "delays array.json -o d6.json --duration 1s --inputs 6 --tolerance 1ns");
    let six = Polynomials::read(folder.path().join("d6.json"), start).unwrap();
    assert_eq!(six.delay(2, 0.5), six.delay(3, 0.5));

    let said = done(
        folder.path(),
        "simulate --raw -o raw.npy --array array.json --rate 2MHz --sky-frequency 1.4GHz --times \
         10000 --sources 1 --tone 1.4001GHz:2",
    );
    let expected =
        "simulated 3 inputs x 10000 times (i8, nt, 1 source), 0.00500 s at 2.00 Msamples/s";
    assert!(said.starts_with(expected), "{said}");
    let found = Polynomials::read(folder.path().join("raw.json"), start).unwrap();
    let error = found.delay(1, 0.0).unwrap() - delays.delay(1, 0.0).unwrap();
    assert!(error.abs() < 2e-15, "{error}");
    // The same delays from a file, one source. Its times are dates, so that the array says the start.
    let from_file = "simulate --raw -o e.npy --delays d.json --times 5000 --encoding cf32";
    done(folder.path(), &format!("{from_file} --array array.json"));
    let found = Polynomials::read(folder.path().join("e.json"), start).unwrap();
    assert_eq!(found.delay(1, 300.0), delays.delay(1, 300.0));
    let output = corrust(folder.path(), from_file);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("the recording does not say when it started"), "{text}");
}

#[test]
fn bad_arguments_get_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("array.json"), ARRAY).unwrap();
    fs::write(folder.path().join("bare.json"), r#"{"positions": [[0, 0, 0]]}"#).unwrap();
    let simulate = "simulate --raw -o raw.npy";
    for (arguments, expected) in [
        ("delays array.json -o d.json", "--duration"),
        ("delays array.json -o d.json --duration 5", "expected a positive number with"),
        ("delays array.json -o d.json --duration 1s --inputs 4", "array.json: 3 \"antennas\""),
        ("delays array.json -o array.json --duration 1s", "is an input"),
        ("delays array.json -o d.json --duration 900000h", "expected times of 1900 to 2099"),
        ("delays bare.json -o d.json --duration 1s", "bare.json: lacks \"location\""),
        ("delays none.json -o d.json --duration 1s", "none.json: cannot read"),
        ("simulate -o raw.npy --rate 1MHz", "--raw"),
        (&format!("{simulate} --channels 4"), "--channels"),
        (&format!("{simulate} --encoding ci4"), "encoding ci4: expected i8"),
        (&format!("{simulate} --encoding x"), "unknown raw encoding \"x\""),
        (&format!("{simulate} --layout tcn"), "unknown raw layout \"tcn\""),
        ("simulate -o raw.npy --layout nt", "unknown layout \"nt\""),
        (&format!("{simulate} --array bare.json"), "bare.json: lacks \"location\""),
        (&format!("{simulate} --delays bare.json"), "bare.json: no \"delays\""),
        (&format!("{simulate} --rate 0"), "expected a positive number of Hz"),
        (&format!("{simulate} --tone 1"), "expected FREQUENCY:POWER"),
        (&format!("{simulate} --tone 9MHz:1"), "tone at 9000000 Hz: expected one of the band"),
        (&format!("{simulate} --bits 9"), "9 bits of i8: expected 2 to 8"),
    ] {
        let output = corrust(folder.path(), arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.contains(expected) && text.lines().count() == 1, "{arguments}: {text}");
    }
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["array.json", "bare.json"]);
}
