//! The array file: what it may hold, what follows of it, and what it may not say.

use std::{fs, path::Path};

use corrust::{
    beamform::Targets,
    format::array::{Antenna, Array, Channels, Field, Input, Location, Polarisation},
};

const ARRAY: &str = r#"{
    "telescope": "HERA", "instrument": "corrust", "anything": {"else": [1, 2]},
    "location": {"latitude": -30.72, "longitude": 21.43, "altitude": 1051.7},
    "antennas": [{"name": "a", "number": 7, "position": [0, 0, 0]}, {"position": [14.6, 0, 0.5]}],
    "inputs": [[1, "Y"], [0, "X"], [1, "X"], [0, "Y"]],
    "first_channel": 100e6, "channel_width": -1e5,
    "start": "2026-03-01T12:00:00.25", "sample_time": 1e-5, "dut1": -0.1,
    "phase_center": {"name": "zenith", "ra": 12.5, "dec": -30.7},
    "pointings": [[0, 0, 1], [180, 45]]
}"#;

#[test]
fn every_field_is_read_and_written() {
    let array = Array::parse(ARRAY).unwrap();
    assert_eq!(array.telescope.as_deref(), Some("HERA"));
    assert_eq!(
        array.location,
        Some(Location { latitude: -30.72, longitude: 21.43, altitude: 1051.7 })
    );
    let antenna = |name: &str, number, position| Antenna { name: name.into(), number, position };
    let antennas = [antenna("a", 7, [0.0; 3]), antenna("1", 1, [14.6, 0.0, 0.5])];
    assert_eq!(array.antennas.as_deref(), Some(&antennas[..]));
    assert_eq!(array.channels, Some(Channels::Even { first: 100e6, width: -1e5 }));
    assert_eq!(array.frequencies(3).unwrap(), [100e6, 99.9e6, 99.8e6]);
    let input = |antenna, polarisation| Input { antenna, polarisation };
    let (x, y) = (Polarisation::X, Polarisation::Y);
    assert_eq!(array.inputs(4).unwrap(), [input(1, y), input(0, x), input(1, x), input(0, y)]);
    assert_eq!(array.start.unwrap().as_millisecond(), 1_772_366_400_250);
    assert_eq!(array.dut1, Some(-0.1));
    assert_eq!(array.phase_center.as_ref().unwrap().dec, -30.7);

    let again = Array::parse(&serde_json::to_string(&array).unwrap()).unwrap();
    assert_eq!(array, again);
    assert_eq!(Array::parse("{}").unwrap(), Array::default());
    assert_eq!(serde_json::to_string(&Array::default()).unwrap(), "{}");
}

#[test]
fn short_forms_say_the_same() {
    let short = Array::parse(r#"{"positions": [[0, 1, 2], [3, 4, 5]], "frequencies": [5, 7, 10]}"#);
    let long = Array::parse(
        r#"{"antennas": [{"position": [0, 1, 2]}, {"name": "1", "number": 1, "position": [3, 4, 5]}],
            "positions": [[0, 1, 2], [3, 4, 5]], "frequencies": [5, 7, 10], "first_channel": 5}"#,
    );
    let short = short.unwrap();
    assert_eq!(short, long.unwrap());
    let widths = |array: &Array| {
        let channels = array.channels.clone().unwrap();
        [0, 1, 2].map(|channel| channels.width(channel))
    };
    assert_eq!(widths(&short), [Some(2.0), Some(3.0), Some(3.0)]);
    // One input an antenna, or two.
    let inputs = |count| {
        let inputs = short.inputs(count).unwrap();
        inputs.iter().map(|input| (input.antenna, input.polarisation)).collect::<Vec<_>>()
    };
    let (x, y) = (Polarisation::X, Polarisation::Y);
    assert_eq!(inputs(2), [(0, x), (1, x)]);
    assert_eq!(inputs(4), [(0, x), (0, y), (1, x), (1, y)]);
}

/// The sentence about a file that holds `json`.
fn refused(folder: &Path, json: &str) -> String {
    let path = folder.join("array.json");
    fs::write(&path, json).unwrap();
    let error = Array::read(&path).expect_err(json).to_string();
    assert!(error.starts_with(path.to_str().unwrap()), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

#[test]
fn contradictions_and_nonsense_get_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    for (json, expected) in [
        ("", "expected JSON with \"positions\""),
        ("[1]", "expected JSON with \"positions\""),
        (r#"{"sample_time": 1e999}"#, "number out of range"),
        (r#"{"location": {"latitude": 1, "longitude": 2}}"#, "missing field `altitude`"),
        (
            r#"{"location": {"latitude": 91, "longitude": 2, "altitude": 3}}"#,
            "latitude 91: expected -90 to 90 degrees",
        ),
        (r#"{"phase_center": {"name": "x", "ra": 400, "dec": 0}}"#, "ra 400: expected -360 to 360"),
        (r#"{"sample_time": 0}"#, "\"sample_time\" 0: expected more than 0"),
        (r#"{"dut1": -1}"#, "\"dut1\" -1: expected less than 1 second"),
        (r#"{"start": "yesterday"}"#, "\"start\" \"yesterday\": expected UTC in ISO 8601"),
        (r#"{"start": "2026-03-01T12:00:00+01:00"}"#, "expected UTC in ISO 8601"),
        (r#"{"inputs": [[0, "Z"]]}"#, "unknown variant `Z`"),
        (r#"{"inputs": [[0, "X"], [0, "Y"], [0, "X"]]}"#, "inputs 0 and 2 are both X of antenna 0"),
        (
            r#"{"positions": [[0, 0, 0]], "inputs": [[1, "X"]]}"#,
            "input 0 is of antenna 1, expected one below 1",
        ),
        (
            r#"{"positions": [[0, 0, 0]], "antennas": [{"position": [1, 0, 0]}]}"#,
            "\"positions\" are not those of the \"antennas\"",
        ),
        (
            r#"{"antennas": [{"position": [1, 0, 0]}, {"number": 0, "position": [2, 0, 0]}]}"#,
            "two have the number 0",
        ),
        (
            r#"{"antennas": [{"name": "a", "position": [1, 0, 0]}, {"name": "a", "position": [0, 0, 0]}]}"#,
            "two have the name \"a\"",
        ),
        (r#"{"first_channel": 1}"#, "\"first_channel\" without \"channel_width\""),
        (r#"{"channel_width": 1}"#, "\"channel_width\" without \"first_channel\""),
        (r#"{"first_channel": 1, "channel_width": 0}"#, "\"channel_width\" 0: expected another"),
        (
            r#"{"frequencies": [5, 6], "first_channel": 6}"#,
            "\"first_channel\" 6 and first of \"frequencies\" 5",
        ),
        (
            r#"{"frequencies": [5, 6], "channel_width": 2}"#,
            "\"channel_width\" 2 and \"frequencies\" 5 and 6",
        ),
    ] {
        let error = refused(folder.path(), json);
        assert!(error.contains(expected), "{error}");
    }
    let none = Array::read(folder.path().join("none.json")).unwrap_err().to_string();
    assert!(none.contains("none.json: cannot read: "), "{none}");
}

#[test]
fn what_is_lacking_is_named() {
    let array =
        Array::parse(r#"{"positions": [[0, 0, 0], [1, 0, 0]], "frequencies": [1]}"#).unwrap();
    let fields = [Field::Location, Field::Antennas, Field::Start];
    assert_eq!(
        array.lacks(&fields, "UVH5").to_string(),
        "array: lacks \"location\", \"start\": expected them for UVH5"
    );
    let error = array.inputs(3).unwrap_err().to_string();
    assert!(error.contains("2 \"antennas\" and no \"inputs\""), "{error}");
    let error = array.frequencies(3).unwrap_err().to_string();
    assert!(error.contains("1 \"frequencies\": expected 3"), "{error}");
    let error = array.weights(1, &Targets::default()).unwrap_err().to_string();
    assert!(error.contains("lacks \"pointings\": expected them for weights"), "{error}");
    let targets = Targets { sources: vec![[83.6, 22.0]], ..Targets::default() };
    let error = array.weights(1, &targets).unwrap_err().to_string();
    assert!(error.contains("lacks \"location\", \"start\""), "{error}");
    let error = Array::default().weights(1, &Targets::default()).unwrap_err().to_string();
    assert!(error.contains("lacks \"antennas\", \"frequencies\""), "{error}");
}
