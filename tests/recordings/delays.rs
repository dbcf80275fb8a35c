//! Delays that move with Earth: beside astropy, as polynomials, and from files.

use std::{f64::consts::TAU, fs};

use corrust::{
    delays::{DelayModel, EarthOrientation, Geometric, Polynomial, Polynomials},
    format::array::{Array, Location},
};
use serde_json::{Value, json};

use crate::support::witness;

/// Hertz at which 1e-3 rad is 16 fs.
const FREQUENCY: f64 = 10e9;

/// Antennas 100 km from a telescope, metres east, north and up.
const POSITIONS: [[f64; 3]; 3] =
    [[100_000.0, 0.0, 0.0], [0.0, -60_000.0, 0.0], [-50_000.0, 70_000.0, -600.0]];

const SOURCE: [f64; 2] = [201.3, -43.0];

fn model(latitude: f64, source: [f64; 2]) -> Geometric {
    let location = Location { latitude, longitude: 21.4, altitude: 1050.0 };
    let orientation = EarthOrientation { dut1: 0.1234, pole: [0.11, 0.43] };
    let start = "2026-03-20T18:00:00Z".parse().unwrap();
    Geometric::new(location, &POSITIONS, source, start, orientation).unwrap()
}

/// Radians at [`FREQUENCY`].
fn phase(delay: f64) -> f64 {
    TAU * FREQUENCY * delay
}

/// Values of astropy 8.0.2 at the start, after half an hour and after an hour
/// (`tests/python/geometric_delays.py`).
#[test]
fn delays_are_those_that_astropy_gave() {
    let model = model(-30.7, SOURCE);
    let expected = [
        [0.00024325668598999616, 0.00024228125812328114, 0.00023713764699952565],
        [0.00012028083962429147, 0.00011050563363643623, 0.00010085362746794115],
        [-0.0002626106067343151, -0.00025088311861063794, -0.0002372131973089958],
    ];
    for (input, expected) in expected.iter().enumerate() {
        for (seconds, expected) in [0.0, 1800.0, 3600.0].iter().zip(expected) {
            let error = model.delay(input, *seconds).unwrap() - expected;
            assert!(error.abs() < 1e-14, "input {input}, {seconds} s: off by {error}");
        }
    }
}

#[test]
fn an_hour_of_delays_agrees_with_astropy() {
    let Some(python) = witness::python(&["astropy==8.0.2"]) else { return };
    let seconds: Vec<f64> = (0..=60).map(|minute| 60.0 * f64::from(minute)).collect();
    // Near the meridian, the pole, and the horizon; north and south.
    for (latitude, source) in [(-30.7, SOURCE), (53.2, [12.0, 89.7]), (19.1, [300.0, 20.0])] {
        let case = json!({
            "latitude": latitude, "longitude": 21.4, "altitude": 1050, "dut1": 0.1234,
            "pole": [0.11, 0.43], "ra": source[0], "dec": source[1],
            "start": "2026-03-20T18:00:00", "seconds": seconds, "positions": POSITIONS,
        });
        let output = witness::script(&python, "geometric_delays.py", &[&case.to_string()]);
        let expected: Vec<Vec<f64>> = serde_json::from_str(&output).unwrap();
        let model = model(latitude, source);
        let polynomials = model.polynomials(0.0..3600.0, 1e-15).unwrap();
        let mut largest = [0.0_f64; 2];
        for (input, expected) in expected.iter().enumerate() {
            for (&seconds, expected) in seconds.iter().zip(expected) {
                let models: [&dyn DelayModel; 2] = [&model, &polynomials];
                for (model, largest) in models.into_iter().zip(&mut largest) {
                    let error = model.delay(input, seconds).unwrap() - expected;
                    *largest = largest.max(error.abs());
                }
            }
        }
        println!("off by {largest:?} s");
        assert!(largest.iter().all(|&error| error < 1e-12 && phase(error) < 1e-3), "{largest:?} s");
    }
}

#[test]
fn polynomials_follow_the_model() {
    let model = model(-30.7, SOURCE);
    for (tolerance, pieces) in [(1e-15, 2..10), (1e-9, 1..3)] {
        let polynomials = model.polynomials(-1.0..3601.0, tolerance).unwrap();
        assert_eq!(polynomials.inputs(), 3);
        for input in 0..3 {
            let found = polynomials.pieces(input);
            assert!(pieces.contains(&found.len()), "{tolerance}: {} pieces", found.len());
            assert_eq!((found[0].start, found.last().unwrap().end), (-1.0, 3601.0));
            let mut largest = 0.0_f64;
            for step in 0..=997 {
                let seconds = -1.0 + 3602.0 * f64::from(step) / 997.0;
                let [fit, exact] = [polynomials.delay(input, seconds), model.delay(input, seconds)];
                largest = largest.max((fit.unwrap() - exact.unwrap()).abs());
            }
            assert!(largest < tolerance, "{tolerance}: off by {largest}");
            assert!(tolerance > 1e-15 || phase(largest) < 1e-3);
        }
        assert_eq!(polynomials.delay(0, 3601.1), None);
        assert_eq!(polynomials.delay(3, 0.0), None);
    }
    assert_eq!(model.delay(3, 0.0), None);
    assert_eq!(model.delay(0, 1e12), None);
    let refused = |range, tolerance| model.polynomials(range, tolerance).unwrap_err().to_string();
    assert!(refused(1.0..1.0, 1e-15).contains("from 1 to 1 s: expected an end after"));
    assert!(refused(0.0..1.0, 0.0).contains("to 0 s: expected a positive"));
    assert!(refused(0.0..1e300, 1e-15).contains("expected times of 1900 to 2099"));
}

/// The wave that passes the location at `t` is at an antenna at `t - d`: what the sign and the retarded
/// baseline mean, by plain rotation.
#[test]
fn delays_are_what_is_put_in() {
    let rate = 7.292_115_146_706_98e-5;
    let model = model(0.0, [0.0, 0.0]);
    for seconds in [0.0, 20_000.0, 40_000.0] {
        let delay = model.delay(0, seconds).unwrap();
        // On the equator, a source of declination near 0: the antenna is east, so it hears a source that
        // rises first and one that sets last.
        let later = model.delay(0, seconds + 1.0).unwrap();
        let hour_angle = (later - delay).signum();
        assert!((later - delay).abs() < 1.01 * rate * 100_000.0 / 299_792_458.0);
        assert!(delay.abs() < 1.01 * 100_000.0 / 299_792_458.0 && hour_angle != 0.0);
    }
    let array = |ra: f64| {
        Array::parse(&format!(
            r#"{{"location": {{"latitude": 0, "longitude": 0, "altitude": 0}},
                "positions": [[0, 0, 0], [1000, 0, 0]], "start": "2026-03-20T18:00:00",
                "phase_center": {{"name": "s", "ra": {ra}, "dec": 0}}}}"#
        ))
        .unwrap()
    };
    // Six hours after the equinox's noon, the point of the equinox has just set at Greenwich.
    let delay = |ra| Geometric::of(&array(ra), 2, None).unwrap().delay(1, 0.0).unwrap();
    let far = 1000.0 / 299_792_458.0;
    assert!(delay(0.0) < -0.99 * far && delay(180.0) > 0.99 * far && delay(90.0).abs() < 0.1 * far);
}

#[test]
fn an_array_without_what_is_needed_is_refused() {
    let array = Array::parse(r#"{"positions": [[0, 0, 0]]}"#).unwrap();
    let refused = |start: Option<&str>| {
        let start = start.map(|start| start.parse().unwrap());
        Geometric::of(&array, 1, start).unwrap_err().to_string()
    };
    assert_eq!(
        refused(None),
        "array: lacks \"location\", \"phase_center\", \"start\": expected them for delays"
    );
    assert!(refused(Some("2026-03-20T18:00:00Z")).contains("\"phase_center\": expected"));
    let location = Location { latitude: 0.0, longitude: 0.0, altitude: 0.0 };
    let new = |location, position, source, start: &str, dut1, pole| {
        let orientation = EarthOrientation { dut1, pole };
        let model =
            Geometric::new(location, &[position], source, start.parse().unwrap(), orientation);
        model.expect_err("must be refused").to_string()
    };
    let (now, origin) = ("2026-03-20T18:00:00Z", [0.0; 3]);
    let pole = [0.0; 2];
    let high = Location { latitude: 91.0, ..location };
    assert!(new(high, origin, [0.0; 2], now, 0.0, pole).starts_with("latitude 91"));
    let error = new(location, [0.0, f64::NAN, 0.0], [0.0; 2], now, 0.0, pole);
    assert!(error.starts_with("input 0, position [0.0, NaN"), "{error}");
    assert!(new(location, origin, [0.0, 90.5], now, 0.0, pole).contains("declination 90.5"));
    let error = new(location, origin, [0.0; 2], "2300-01-01T00:00:00Z", 0.0, pole);
    assert!(error.starts_with("start 2300-01-01T00:00:00Z: expected"), "{error}");
    assert!(new(location, origin, [0.0; 2], now, 37.0, pole).starts_with("UT1 - UTC of 37 s"));
    assert!(new(location, origin, [0.0; 2], now, 0.0, [110.0, 0.0]).starts_with("pole at"));
}

/// Reads delays from text.
fn read(text: &Value, start: Option<&str>) -> Result<Polynomials, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.json");
    fs::write(&path, text.to_string()).unwrap();
    let start = start.map(|start| start.parse().unwrap());
    Polynomials::read(&path, start).map_err(|error| {
        let text = error.to_string();
        let (before, fault) = text.split_once("d.json: ").expect("the file is named");
        assert!(before.ends_with('/'), "{text}");
        fault.to_owned()
    })
}

#[test]
fn files_say_what_counts_from_when() {
    let piece = json!({"start": 10, "end": 20, "coefficients": [1.0, 0.5, -0.25]});
    let file = json!({"epoch": "2026-03-20T18:00:00Z", "delays": [3, [piece]]});
    let delays = read(&file, Some("2026-03-20T18:00:05Z")).unwrap();
    assert_eq!(delays.delay(0, -1e9), Some(3.0));
    assert_eq!(delays.delay(1, 5.0), Some(1.0));
    assert_eq!(delays.delay(1, 9.0), Some(1.0 + 0.5 * 4.0 - 0.25 * 16.0));
    assert_eq!((delays.delay(1, 4.9), delays.delay(1, 15.1)), (None, None));

    // Without an epoch, from the recording's start, which need not be known.
    let file = json!({"delays": [[
        {"start": 0, "end": 1, "coefficients": [1]},
        {"start": 1.5, "end": 2, "coefficients": [2, 1]},
    ]]});
    for start in [None, Some("2026-03-20T18:00:05Z")] {
        let delays = read(&file, start).unwrap();
        let found = [0.0, 1.0, 1.2, 1.5, 2.0, 2.1].map(|seconds| delays.delay(0, seconds));
        assert_eq!(found, [Some(1.0), Some(1.0), None, Some(2.0), Some(2.5), None]);
    }
    let piece =
        json!({"start": "2026-03-20T18:00:04", "end": "2026-03-20 18:01", "coefficients": [1, 1]});
    let delays = read(&json!({"delays": [[piece]]}), Some("2026-03-20T18:00:05Z")).unwrap();
    assert_eq!((delays.delay(0, 1.0), delays.delay(0, 55.1)), (Some(3.0), None));
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.json");
    let start = Some("2026-03-20T18:00:00.25Z".parse().unwrap());
    let moving = model(-30.7, SOURCE).polynomials(0.0..3600.0, 1e-15).unwrap();
    for delays in [moving, Polynomials::constant(&[0.0, 1e-7]).unwrap()] {
        for epoch in [None, start] {
            delays.write(&path, epoch).unwrap();
            assert_eq!(Polynomials::read(&path, start).unwrap(), delays);
        }
    }
    let piece = |start, end| Polynomial { start, end, coefficients: vec![1.0] };
    let error = Polynomials::new(vec![vec![piece(0.0, 2.0), piece(1.0, 3.0)]]).unwrap_err();
    assert!(error.to_string().starts_with("input 0, piece 1: starts at 1 s"), "{error}");
    assert!(Polynomials::constant(&[f64::NAN]).is_err());
}

#[test]
fn what_is_wrong_with_a_file_is_one_sentence() {
    let piece = |start: Value, end: Value, coefficients: Value| json!({"delays": [0, [{"start": start, "end": end, "coefficients": coefficients}]]});
    let cases = [
        (json!([]), "no \"delays\": expected a list"),
        (json!({"delays": 3}), "\"delays\" 3: expected a list"),
        (json!({"delays": []}), "\"delays\" of 0 inputs: expected at least 1"),
        (json!({"delays": ["a"]}), "input 0, \"a\": expected a number of seconds or a list"),
        (json!({"delays": [[]]}), "input 0, 0 pieces: expected at least 1"),
        (json!({"delays": [[3]]}), "input 0, piece 0: 3: expected {\"start\""),
        (json!({"delays": [[{"end": 1, "coefficients": [1]}]]}), "input 0, piece 0: no \"start\""),
        (json!({"delays": [[{"start": 1, "end": 2}]]}), "input 0, piece 0: no \"coefficients\""),
        (json!({"epoch": 3, "delays": [0]}), "\"epoch\" 3: expected a time as text"),
        (json!({"epoch": "now", "delays": [0]}), "\"epoch\" \"now\": expected UTC"),
        (piece(json!(1), json!(1), json!([0])), "input 1, piece 0: from 1 to 1 s: expected an end"),
        (piece(json!(0), json!(1), json!([])), "input 1, piece 0: 0 coefficients: expected"),
        (piece(json!(0), json!(1), json!(["x"])), "input 1, piece 0: coefficient \"x\": expected"),
        (piece(json!(0), json!(1), json!(7)), "input 1, piece 0: \"coefficients\" 7: expected"),
        (
            piece(json!("x"), json!(1), json!([1])),
            "input 1, piece 0: \"start\" \"x\": expected UTC",
        ),
        (
            piece(json!([]), json!(1), json!([1])),
            "input 1, piece 0: \"start\" []: expected seconds",
        ),
        (
            piece(json!("2026-03-20T18:00:00Z"), json!(1), json!([1])),
            "input 1, piece 0: \"start\" counts from a date, and the recording does not say",
        ),
    ];
    for (file, expected) in cases {
        let found = read(&file, None).expect_err(expected);
        assert!(found.starts_with(expected), "{found}\nfor {expected}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.json");
    assert!(Polynomials::read(&path, None).unwrap_err().to_string().contains("cannot read"));
    fs::write(&path, "{").unwrap();
    let error = Polynomials::read(&path, None).unwrap_err().to_string();
    assert!(error.contains("expected JSON with \"delays\""), "{error}");
}
