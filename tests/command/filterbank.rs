//! SIGPROC filterbank files: blimpy reads in them what NumPy computes, and those of beams hold their powers.

use std::{fs, path::Path};

use command::{done, refused};

use crate::support::{command, witness};

const ARRAY: &str = r#"{
    "first_channel": 1400e6, "channel_width": -0.5e6,
    "start": "2026-03-01T12:00:00.25Z", "sample_time": 1e-3
}"#;

#[test]
fn blimpy_reads_numpys_sums() {
    let packages = ["blimpy==2.1.4", "setuptools<81"];
    let Some(python) = witness::python(&packages) else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("array.json"), ARRAY).unwrap();
    done(folder, "simulate -o rec.npy --inputs 5 --channels 9 --times 103");
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    for (chosen, step, bits, scale) in [
        ("0,1,2,3,4", "1", "32", "1"),
        ("3", "10", "32", "1"),
        ("0,4", "7", "16", "2"),
        ("1", "1", "8", "0.125"),
    ] {
        let text = done(
            folder,
            &format!(
                "filterbank rec.npy -o x.fil --array array.json --input {chosen} --integrate {step} \
                 --bits {bits} --scale {scale}"
            ),
        );
        assert_eq!(text.contains("do not fill a sample"), 103 % step.parse::<u64>().unwrap() > 0);
        let found = witness::script(
            &python,
            "filterbank.py",
            &[&file("x.fil"), &file("rec.npy"), &file("array.json"), chosen, step, bits, scale],
        );
        assert!(found.ends_with("samples are equal"), "{found}");
    }
}

/// The samples at the end of a file of 4-byte ones.
fn samples(path: &Path, count: usize) -> Vec<f32> {
    let bytes = fs::read(path).unwrap();
    let tail = &bytes[bytes.len() - 4 * count..];
    tail.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// The same powers from every encoding that holds the same samples, in both layouts.
#[test]
fn all_encodings_and_layouts_have_the_same_power() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("array.json"), ARRAY).unwrap();
    // Values of 4 bits: -8 to 7.
    let value = |index: usize| (index * 37 % 16) as i8 - 8;
    let (times, channels, inputs) = (6, 3, 2);
    let at = |t: usize, c: usize, n: usize| 2 * ((t * channels + c) * inputs + n);
    let pair = |index: usize| (value(index), value(index + 1));
    let expected: Vec<f32> = (0..times * channels)
        .map(|row| {
            let power = |n| {
                let (re, im) = pair(at(row / channels, row % channels, n));
                f32::from(re) * f32::from(re) + f32::from(im) * f32::from(im)
            };
            (0..inputs).map(power).sum()
        })
        .collect();
    let tcn = || {
        (0..times)
            .flat_map(move |t| (0..channels).flat_map(move |c| (0..inputs).map(move |n| (t, c, n))))
    };
    let nibble = |value: i8, offset: i8| (value + offset) as u8 & 15;
    let nibbles = |(t, c, n): (usize, usize, usize), offset| {
        let (re, im) = pair(at(t, c, n));
        nibble(re, offset) << 4 | nibble(im, offset)
    };
    let shape = (times, channels, inputs);
    for (encoding, offset) in [("ci4", 0), ("ci4-offset", 8)] {
        let bytes = tcn().map(|place| nibbles(place, offset)).collect();
        let array = ndarray::Array3::from_shape_vec(shape, bytes).unwrap();
        ndarray_npy::write_npy(folder.join("x.npy"), &array).unwrap();
        let turned = array.permuted_axes([1, 2, 0]).as_standard_layout().into_owned();
        ndarray_npy::write_npy(folder.join("y.npy"), &turned).unwrap();
        for (name, layout) in [("x", "tcn"), ("y", "cnt")] {
            let run = format!(
                "filterbank {name}.npy -o x.fil --array array.json --encoding {encoding} --layout {layout}"
            );
            done(folder, &run);
            assert_eq!(samples(&folder.join("x.fil"), expected.len()), expected, "{run}");
        }
    }
    let bytes: Vec<i8> = tcn().flat_map(|(t, c, n)| <[i8; 2]>::from(pair(at(t, c, n)))).collect();
    let array = ndarray::Array4::from_shape_vec((times, channels, inputs, 2), bytes).unwrap();
    ndarray_npy::write_npy(folder.join("x.npy"), &array).unwrap();
    done(folder, "filterbank x.npy -o x.fil --array array.json");
    assert_eq!(samples(&folder.join("x.fil"), expected.len()), expected);
}

#[test]
fn what_makes_no_file_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o rec.npy --inputs 2 --channels 3 --times 20");
    let run = "filterbank rec.npy -o x.fil --array array.json";
    for (array, arguments, expected) in [
        (
            "{}",
            "",
            "array.json: lacks \"frequencies\", \"start\", \"sample_time\": expected them for a",
        ),
        (ARRAY, "--input 2", "--input 2: expected one below 2"),
        (ARRAY, "--bits 4", "4 bits: expected 8, 16 or 32"),
        (ARRAY, "--scale inf", "--scale inf: expected a finite number"),
        (ARRAY, "--integrate 21", "--integrate 21: the recording has only 20 times"),
        (
            r#"{"frequencies": [1e6, 2e6, 4e6], "start": "2026-03-01", "sample_time": 1}"#,
            "",
            "\"frequencies\" 2000000 and 4000000 are 2000000 hertz apart",
        ),
    ] {
        fs::write(folder.join("array.json"), array).unwrap();
        let error = refused(folder, &format!("{run} {arguments}"));
        assert!(error.contains(expected), "{arguments}: {error}");
        assert!(!folder.join("x.fil").exists());
    }
    fs::write(folder.join("array.json"), ARRAY).unwrap();
    let text = done(folder, &format!("{run} --bits 8 --scale 1e9"));
    assert!(text.contains("60 of 60 samples are clipped to 8 bits"), "{text}");
}

/// Voltages, weights and shifts of 5 dishes, 3 channels, 2 polarisations and 4 beams.
fn write_beams(folder: &Path, times: usize) {
    let byte = |index: usize| (index * 73 + index / 7 * 29) as u8;
    let (channels, polarisations, dishes, beams) = (3, 2, 5, 4);
    let fill = |count: usize| (0..count).map(byte).collect::<Vec<u8>>();
    let voltages = ndarray::Array4::from_shape_vec(
        (times, channels, polarisations, dishes),
        fill(times * channels * polarisations * dishes),
    );
    let weights = ndarray::Array4::from_shape_vec(
        (channels, polarisations, beams, dishes),
        fill(channels * polarisations * beams * dishes),
    );
    let shifts = ndarray::Array3::<i32>::from_elem((channels, polarisations, beams), 4);
    ndarray_npy::write_npy(folder.join("e.npy"), &voltages.unwrap()).unwrap();
    ndarray_npy::write_npy(folder.join("a.npy"), &weights.unwrap()).unwrap();
    ndarray_npy::write_npy(folder.join("s.npy"), &shifts).unwrap();
}

/// Powers of a beam, `[time][channel]`, of the samples that NumPy files hold.
fn powers(folder: &Path, beam: usize, step: usize) -> Vec<f32> {
    let samples: ndarray::Array4<u8> = ndarray_npy::read_npy(folder.join("j.npy")).unwrap();
    let (_, channels, polarisations, times) = samples.dim();
    let power = |sample: u8| {
        let (re, im) = (i32::from(sample as i8 >> 4), i32::from((sample << 4) as i8 >> 4));
        re * re + im * im
    };
    let sum = |row: usize, channel: usize| {
        let within = (0..polarisations).flat_map(|p| (0..step).map(move |t| (p, row * step + t)));
        within.map(|(p, t)| power(samples[[beam, channel, p, t]])).sum::<i32>() as f32
    };
    (0..times / step).flat_map(|row| (0..channels).map(move |c| sum(row, c))).collect()
}

#[test]
fn beams_have_the_powers_of_their_samples() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("array.json"), ARRAY).unwrap();
    write_beams(folder, 150);
    let run =
        "beamform e.npy --weights a.npy --shifts s.npy --device cpu --array array.json -o x.fil";
    done(folder, "beamform e.npy --weights a.npy --shifts s.npy --device cpu -o j.npy");

    let text = done(folder, &format!("{run} --integrate 7 --clipped c.npy"));
    assert!(text.contains("last 3 of 150 times do not fill a sample of 7"), "{text}");
    assert!(text.contains(": x.0.fil to x.3.fil\n"), "{text}");
    for beam in 0..4 {
        let path = folder.join(format!("x.{beam}.fil"));
        let expected = powers(folder, beam, 7);
        assert!(expected.iter().any(|&power| power > 0.0));
        assert_eq!(samples(&path, expected.len()), expected, "beam {beam}");
        let bytes = fs::read(&path).unwrap();
        let header = &bytes[..bytes.len() - 4 * expected.len()];
        assert!(header.ends_with(b"HEADER_END"));
        for (name, number) in [(&b"ibeam"[..], beam as u8 + 1), (b"nbeams", 4)] {
            let at = header.windows(name.len()).position(|window| window == name).unwrap();
            assert_eq!(header[at + name.len()..][..4], [number, 0, 0, 0]);
        }
    }
    assert!(!folder.join("x.fil").exists());

    // One beam takes the name as it is.
    done(folder, &format!("{run} --beam 2"));
    let expected = powers(folder, 2, 1);
    assert_eq!(samples(&folder.join("x.fil"), expected.len()), expected);
    let text = done(folder, &format!("{run} --beam 2 --bits 8 --scale 100"));
    assert!(text.contains("samples are clipped to 8 bits"), "{text}");
    let bytes = fs::read(folder.join("x.fil")).unwrap();
    let scaled: Vec<u8> = expected.iter().map(|power| (power * 100.0).min(255.0) as u8).collect();
    assert!(bytes.ends_with(&scaled));

    if let Some(python) = witness::python(&["blimpy==2.1.4", "setuptools<81"]) {
        let path = folder.join("x.1.fil");
        let found = witness::script(&python, "beam.py", &[path.to_str().unwrap()]);
        let sums: f64 = powers(folder, 1, 7).iter().map(|&power| f64::from(power)).sum();
        // Libraries of the witness may speak first, of caches that they make.
        let last = found.lines().last().unwrap_or_default();
        assert_eq!(last, format!("21 x 3 samples, sum {sums}"));
    }
}

#[test]
fn beams_that_make_no_filterbank_are_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("array.json"), ARRAY).unwrap();
    fs::write(folder.join("empty.json"), "{}").unwrap();
    write_beams(folder, 20);
    let run = "beamform e.npy --weights a.npy --shifts s.npy --device cpu";
    for (arguments, expected) in [
        ("-o x.fil", "x.fil: is to be a filterbank file: expected --array ARRAY.json"),
        (
            "-o j.npy --array array.json",
            "expected an output whose name ends in .vdif or .fil, found j.npy",
        ),
        ("-o x.fil --array array.json --beam 4", "--beam 4: expected one below 4"),
        ("-o x.fil --array array.json --beam 1,1", "x.1.fil: is to hold two outputs"),
        ("-o x.fil --array array.json --integrate 21", "the recording has only 20 times"),
        (
            "-o x.fil --array empty.json",
            "empty.json: lacks \"frequencies\", \"start\", \"sample_time\": expected them for a",
        ),
        ("-o j.npy --integrate 2", "--array <ARRAY.json>"),
    ] {
        let error = refused(folder, &format!("{run} {arguments}"));
        assert!(error.contains(expected), "{arguments}: {error}");
        let left: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 5, "{arguments}: {left:?}");
    }
    done(folder, &format!("{run} -o x.fil --array array.json"));
    let error =
        refused(folder, &format!("{run} -o x.fil --array array.json --beam 0,1 --no-clobber"));
    assert!(error.contains("x.0.fil: exists"), "{error}");
}
