//! UVH5 files: pyuvdata reads them with every check on and finds what NumPy finds in the `.npy` of the same
//! run.

use std::{fs, path::Path};

use corrust::{
    Encoding, Layout,
    beamform::{SPEED_OF_LIGHT, delays},
    correlate::{Shape, ValidCounts, Visibilities, baseline, baselines},
    format::{array::Array, uvh5},
};
use ndarray::Array2;
use num_complex::Complex;
use serde_json::{Value, json};

use command::{done, refused};

use crate::support::{command, files::files_in, witness};

/// An array of `antennas` antennas on a rough circle.
fn array(antennas: usize) -> Value {
    let antenna = |index: usize| {
        let angle = index as f64 * 2.3;
        let position = [40.0 * angle.sin() + 3.0, 35.0 * angle.cos(), 0.4 * index as f64];
        json!({"name": format!("ant{index}"), "number": 10 + 3 * index, "position": position})
    };
    json!({
        "telescope": "example", "instrument": "corrust",
        "location": {"latitude": -30.72, "longitude": 21.43, "altitude": 1051.7},
        "antennas": (0..antennas).map(antenna).collect::<Vec<_>>(),
        "first_channel": 150e6, "channel_width": 1e5,
        "start": "2026-03-01T12:00:00.25Z", "sample_time": 1e-3
    })
}

fn write(path: &Path, array: &Value) {
    fs::write(path, array.to_string()).unwrap();
}

fn shape(inputs: usize, channels: usize) -> Shape {
    Shape { inputs, channels, encoding: Encoding::Ci8, layout: Layout::Tcn }
}

/// Visibilities that tell which they are; autocorrelations real.
fn numbered(shape: &Shape, dump: i64) -> Visibilities {
    let mut sums = Array2::default((shape.channels, baselines(shape.inputs)));
    for channel in 0..shape.channels {
        for (i, j) in (0..shape.inputs).flat_map(|i| (0..=i).map(move |j| (i, j))) {
            let re = 1_000_000 * dump + 1000 * channel as i64 + baseline(i, j) as i64;
            let im = if i == j { 0 } else { 1 - re };
            sums[[channel, baseline(i, j)]] = Complex::new(re, im);
        }
    }
    Visibilities::Integer(sums)
}

fn uvdata(python: &Path, arguments: &[&str]) -> String {
    witness::script(python, "uvh5.py", arguments)
}

#[test]
fn pyuvdata_finds_what_numpy_finds() {
    let Some(python) = witness::python(&witness::PYUVDATA) else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let circular = json!([[0, "R"], [0, "L"], [1, "R"], [1, "L"]]);
    // Antenna 3 has one feed only, antenna 1 none; feeds and antennas are in no order.
    let mixed = json!([[2, "Y"], [0, "X"], [2, "X"], [3, "Y"], [0, "Y"]]);
    for (index, (inputs, encoding, listed, antennas)) in [
        (5, "ci8", None, 5),
        (6, "ci4", None, 3),
        (4, "cf16", Some(circular), 2),
        (5, "ci8", Some(mixed), 4),
        (1, "ci4-offset", None, 1),
    ]
    .into_iter()
    .enumerate()
    {
        let mut array = array(antennas);
        if let Some(listed) = listed {
            array["inputs"] = listed;
        }
        write(&folder.join("array.json"), &array);
        let seed = index + 1;
        done(
            folder,
            &format!(
                "simulate -o rec.npy --inputs {inputs} --channels 7 --times 500 --encoding {encoding} \
                 --seed {seed}"
            ),
        );
        let correlate =
            format!("correlate rec.npy --integrate 120 --encoding {encoding} --device cpu");
        done(folder, &format!("{correlate} -o x.npy"));
        done(folder, &format!("{correlate} -o x.uvh5 --array array.json"));
        let found =
            uvdata(&python, &["same", &file("x.uvh5"), &file("x.npy"), &file("array.json")]);
        assert!(found.ends_with("products are equal"), "{found}");
        // And our own reader.
        let reader = uvh5::Reader::open(folder.join("x.uvh5")).unwrap();
        assert_eq!((reader.dumps(), reader.frequencies().len()), (4, 7));
    }
}

#[test]
fn fractions_of_samples_and_flags_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.uvh5");
    let shape = shape(3, 2);
    let array = Array::parse(&array(3).to_string()).unwrap();
    let mut file = uvh5::Writer::create(&path, &array, &shape).unwrap();
    for (dump, valid) in [100, 25, 0].into_iter().enumerate() {
        let start = 100 * dump as u64;
        let valid = ValidCounts::Complete(valid);
        file.append(&numbered(&shape, dump as i64), &valid, start, 100).unwrap();
    }
    file.finish().unwrap();
    let reader = uvh5::Reader::open(&path).unwrap();
    assert_eq!(reader.pairs()[..3], [[10, 10], [10, 13], [13, 13]]);
    assert_eq!(reader.polarisations(), [-5]);
    assert_eq!(reader.frequencies(), [150e6, 150.1e6]);
    let second = reader.read(1).unwrap();
    let Visibilities::Integer(sums) = numbered(&shape, 1) else { unreachable!() };
    for ((baseline, channel, _), value) in second.indexed_iter() {
        let sum = sums[[channel, baseline]];
        assert_eq!(*value, Complex::new(sum.re as f64, sum.im as f64));
    }
    let step = (reader.times()[1] - reader.times()[0]) * 86_400.0;
    assert!((step - 0.1).abs() < 1e-4, "{step}");
    let Some(python) = witness::python(&witness::PYUVDATA) else { return };
    uvdata(&python, &["samples", path.to_str().unwrap(), "1", "0.25", "0"]);
}

/// Rows of many pieces: chunks that are filled by several dumps, and several chunks of a dump.
/// Julian dates are 40 us apart in f64: dumps that follow each other faster are refused before anything is read, and dumps of
/// one date wherever they come from.
#[test]
fn dumps_that_dates_do_not_tell_apart_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut quick = array(2);
    quick["sample_time"] = json!(1e-5);
    write(&folder.join("array.json"), &quick);
    done(folder, "simulate -o rec.npy --inputs 2 --channels 3 --times 40");
    let correlate = "correlate rec.npy -o x.uvh5 --array array.json --device cpu";
    let before = files_in(folder);
    for times in [1, 4] {
        let text = refused(folder, &format!("{correlate} --integrate {times}"));
        let spacing = 1e-5 * f64::from(times);
        assert!(
            text.contains(&format!(
                "x.uvh5: dumps {spacing:.2e} s apart: expected at least 4.02e-5 s"
            )),
            "{text}"
        );
        assert_eq!(files_in(folder), before);
    }
    // One dump has no neighbour.
    done(folder, &format!("{correlate} --integrate 40"));
    done(folder, &format!("{correlate} --integrate 5"));
    if let Some(python) = witness::python(&witness::PYUVDATA) {
        let path = folder.join("x.uvh5");
        uvdata(&python, &["times", path.to_str().unwrap(), "8"]);
    }
    let (shape, path) = (shape(2, 3), folder.join("y.uvh5"));
    let array = Array::parse(&quick.to_string()).unwrap();
    let mut file = uvh5::Writer::create(&path, &array, &shape).unwrap();
    let valid = ValidCounts::Complete(1);
    file.append(&numbered(&shape, 0), &valid, 0, 1).unwrap();
    let error = file.append(&numbered(&shape, 1), &valid, 0, 1).unwrap_err().to_string();
    assert!(error.contains("dumps of one Julian date"), "{error}");
}

#[test]
fn many_rows_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.uvh5");
    let shape = shape(48, 300);
    let array = Array::parse(&array(24).to_string()).unwrap();
    let mut file = uvh5::Writer::create(&path, &array, &shape).unwrap();
    for dump in 0..3 {
        let valid = ValidCounts::Complete(10);
        file.append(&numbered(&shape, dump), &valid, 10 * dump as u64, 10).unwrap();
    }
    file.finish().unwrap();
    let reader = uvh5::Reader::open(&path).unwrap();
    assert_eq!((reader.dumps(), reader.pairs().len()), (3, 300));
    let last = reader.read(2).unwrap();
    // The pair of antennas 20 and 23: inputs 40, 41 and 46, 47; x with y.
    let row = baseline(23, 20);
    assert_eq!(reader.pairs()[row], [70, 79]);
    let expected = 2_000_000 + 299_000 + baseline(47, 40) as i64;
    assert_eq!(last[[row, 299, 2]], Complex::new(expected as f64, 1.0 - expected as f64));
}

const PHASED: uvh5::Options = uvh5::Options { phased: true, gzip: None };

#[test]
fn compressed_files_hold_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let shape = shape(8, 50);
    let array = Array::parse(&array(4).to_string()).unwrap();
    let write = |name: &str, gzip: Option<u8>| {
        let path = folder.path().join(name);
        let options = uvh5::Options { gzip, ..uvh5::Options::default() };
        let mut file = uvh5::Writer::with_options(&path, &array, &shape, options).unwrap();
        for dump in 0..40 {
            let valid = ValidCounts::Complete(10 - dump as u64 % 3);
            file.append(&numbered(&shape, dump), &valid, 10 * dump as u64, 10).unwrap();
        }
        file.finish().unwrap();
        path
    };
    let plain = write("plain.uvh5", None);
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    for level in [1, 9] {
        let packed = write("packed.uvh5", Some(level));
        assert!(4 * size(&packed) < size(&plain), "{} of {} bytes", size(&packed), size(&plain));
        let [ours, theirs] = [&packed, &plain].map(|path| uvh5::Reader::open(path).unwrap());
        assert_eq!((ours.dumps(), ours.times()), (40, theirs.times()));
        for dump in 0..40 {
            assert_eq!(ours.read(dump).unwrap(), theirs.read(dump).unwrap(), "{dump}");
        }
    }
    for level in [0, 10] {
        let options = uvh5::Options { gzip: Some(level), ..uvh5::Options::default() };
        let error = uvh5::Writer::with_options(&plain, &array, &shape, options).unwrap_err();
        assert_eq!(error.to_string(), format!("gzip of level {level}: expected 1 to 9"));
    }
}

#[test]
fn pyuvdata_phases_a_source_to_zero() {
    let Some(python) = witness::python(&witness::PYUVDATA) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.uvh5");
    let shape = shape(6, 5);
    let array = Array::parse(&array(6).to_string()).unwrap();
    let positions: Vec<_> =
        array.antennas.iter().flatten().map(|antenna| antenna.position).collect();
    let length = (0.3_f64.powi(2) + 0.5_f64.powi(2) + 1.0).sqrt();
    let direction = [0.3, -0.5, 1.0].map(|part| part / length);
    // Visibilities of a wave that comes late by these delays.
    let delays = delays(&positions, &[direction]);
    let frequencies = array.frequencies(5).unwrap();
    let mut sums = Array2::default((5, baselines(6)));
    for (channel, frequency) in frequencies.iter().enumerate() {
        let phase = |input| -std::f64::consts::TAU * frequency * delays[[0, input]];
        for (i, j) in (0..6).flat_map(|i| (0..=i).map(move |j| (i, j))) {
            let value = Complex::cis(phase(i) - phase(j)) * 1e15;
            sums[[channel, baseline(i, j)]] = Complex::new(value.re as i64, value.im as i64);
        }
    }
    assert!(positions[3][0].hypot(positions[3][1]) * frequencies[0] > 10.0 * SPEED_OF_LIGHT);
    let mut file = uvh5::Writer::create(&path, &array, &shape).unwrap();
    file.append(&Visibilities::Integer(sums), &ValidCounts::Complete(10), 0, 10).unwrap();
    file.finish().unwrap();
    let text = direction.map(|part| part.to_string()).join(",");
    let largest: f64 = uvdata(&python, &["source", path.to_str().unwrap(), &text]).parse().unwrap();
    assert!(largest < 1e-6, "{largest} rad");
}

#[test]
fn phased_files_have_pyuvdatas_coordinates() {
    let Some(python) = witness::python(&witness::PYUVDATA) else { return };
    let folder = tempfile::tempdir().unwrap();
    let [ours, theirs] = ["ours.uvh5", "theirs.uvh5"].map(|name| folder.path().join(name));
    let shape = shape(4, 3);
    let mut json = array(4);
    let start = json["start"].as_str().unwrap().trim_end_matches('Z').to_owned();
    json["dut1"] = uvdata(&python, &["dut1", &start]).parse::<f64>().unwrap().into();
    json["phase_center"] = json!({"name": "somewhere", "ra": 123.4, "dec": -48.2});
    let array = Array::parse(&json.to_string()).unwrap();
    let files = [
        uvh5::Writer::with_options(&ours, &array, &shape, PHASED).unwrap(),
        uvh5::Writer::create(&theirs, &array, &shape).unwrap(),
    ];
    for mut file in files {
        for dump in 0..4 {
            // An hour apart.
            let start = 3_600_000 * dump as u64;
            let valid = ValidCounts::Complete(1000);
            file.append(&numbered(&shape, dump), &valid, start, 1000).unwrap();
        }
        file.finish().unwrap();
    }
    let [ours, theirs] = [&ours, &theirs].map(|path| path.to_str().unwrap());
    println!("{}", uvdata(&python, &["phased", ours, theirs, "somewhere"]));
}

#[test]
fn casacore_opens_what_pyuvdata_writes() {
    let Some(python) = witness::python(&witness::PYUVDATA) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.uvh5");
    let shape = shape(6, 4);
    let array = Array::parse(&array(3).to_string()).unwrap();
    let mut file = uvh5::Writer::create(&path, &array, &shape).unwrap();
    for dump in 0..2 {
        let valid = ValidCounts::Complete(1000);
        file.append(&numbered(&shape, dump), &valid, 1000 * dump as u64, 1000).unwrap();
    }
    file.finish().unwrap();
    let set = folder.path().join("x.ms");
    let rows = uvdata(&python, &["measurement_set", path.to_str().unwrap(), set.to_str().unwrap()]);
    assert!(rows.ends_with("12 rows"), "{rows}");
}

#[test]
fn what_makes_no_file_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o rec.npy --inputs 4 --channels 3 --times 20");
    let correlate = "correlate rec.npy -o x.uvh5 --device cpu";
    for (arguments, expected) in [
        (correlate, "x.uvh5: is to be UVH5: expected --array ARRAY.json"),
        ("correlate rec.npy -o x.npy --array rec.json", "whose name ends in .uvh5, found x.npy"),
        ("correlate rec.npy -o x.uvh5 --array none.json", "none.json: cannot read"),
        ("correlate rec.npy -o x.uvh5 --array x.uvh5", "x.uvh5: is an input"),
        (
            "correlate rec.npy -o x.uvh5 --array rec.json",
            "rec.json: lacks \"telescope\", \"location\", \"start\": expected them for UVH5",
        ),
    ] {
        let error = refused(folder, arguments);
        assert!(error.contains(expected), "{arguments}: {error}");
        assert!(!folder.join("x.uvh5").exists(), "{arguments}");
    }
    let with = |field: &str, value: Value| {
        let mut array = array(4);
        array[field] = value;
        array
    };
    for (array, expected) in [
        (array(3), "3 \"antennas\" and no \"inputs\""),
        (with("inputs", json!([[0, "X"]])), "1 \"inputs\": expected 4"),
        (
            with("inputs", json!([[0, "X"], [1, "X"], [2, "X"], [3, "R"]])),
            "\"inputs\" with linear and with circular feeds",
        ),
        (with("start", json!("1950-01-01T00:00:00")), "expected one in the years 1972 to 2100"),
        (
            json!({"telescope": "x", "frequencies": [1, 2]}),
            "lacks \"location\", \"antennas\", \"start\", \"sample_time\": expected them for UVH5",
        ),
    ] {
        write(&folder.join("array.json"), &array);
        let error = refused(folder, &format!("{correlate} --array array.json"));
        assert!(error.contains(expected), "{error}");
    }
    let mut frequencies = array(4);
    for field in ["first_channel", "channel_width"] {
        frequencies.as_object_mut().unwrap().remove(field);
    }
    frequencies["frequencies"] = json!([1e8, 2e8]);
    write(&folder.join("array.json"), &frequencies);
    let error = refused(folder, &format!("{correlate} --array array.json"));
    assert!(error.contains("2 \"frequencies\": expected 3"), "{error}");
    // Nothing is replaced that may not be, nothing half done is left.
    write(&folder.join("array.json"), &array(4));
    done(folder, &format!("{correlate} --array array.json"));
    let error = refused(folder, &format!("{correlate} --array array.json --no-clobber"));
    assert!(error.contains("x.uvh5: exists"), "{error}");
    let expected = ["array.json", "rec.json", "rec.npy", "x.uvh5"];
    assert_eq!(files_in(folder), expected);
}

#[test]
fn a_file_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.uvh5");
    let shape = shape(2, 2);
    let array = Array::parse(&array(2).to_string()).unwrap();
    let mut file = uvh5::Writer::create(&path, &array, &shape).unwrap();
    file.append(&numbered(&shape, 0), &ValidCounts::Complete(1), 0, 1).unwrap();
    // Another shape is refused.
    let other = Shape { channels: 3, ..shape };
    let error = file.append(&numbered(&other, 0), &ValidCounts::Complete(1), 0, 1).unwrap_err();
    assert!(error.to_string().contains("expected"), "{error}");
    drop(file);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let error = uvh5::Writer::with_options(&path, &array, &shape, PHASED).unwrap_err().to_string();
    assert!(error.contains("lacks \"phase_center\": expected them for phased UVH5"), "{error}");
    let error = uvh5::Writer::create("/dev/stdout", &array, &shape).unwrap_err().to_string();
    assert!(error.contains("is a pipe: expected the name of a file"), "{error}");
}

#[test]
fn what_is_no_uvh5_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.uvh5");
    let refuse = |expected: &str| {
        let error = uvh5::Reader::open(&path).err().unwrap().to_string();
        assert!(error.starts_with(path.to_str().unwrap()) && error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    refuse("cannot read: ");
    fs::write(&path, "").unwrap();
    refuse("cannot read");
    fs::write(&path, [0x5a; 5000]).unwrap();
    refuse("cannot read");
    let shape = shape(2, 2);
    let array = Array::parse(&array(2).to_string()).unwrap();
    let mut file = uvh5::Writer::create(&path, &array, &shape).unwrap();
    file.append(&numbered(&shape, 0), &ValidCounts::Complete(1), 0, 1).unwrap();
    file.finish().unwrap();
    let whole = fs::read(&path).unwrap();
    // Cut anywhere: an error or, if only what is not read went, the file.
    for length in (0..whole.len()).step_by(whole.len() / 40 + 1) {
        fs::write(&path, &whole[..length]).unwrap();
        let _ = uvh5::Reader::open(&path).and_then(|reader| reader.read(0));
    }
}
