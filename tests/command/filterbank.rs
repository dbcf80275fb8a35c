//! SIGPROC filterbank files: blimpy reads from them the values that NumPy computes, and files of beams hold their powers.

use std::{fs, path::Path};

use command::{done, refused};
use num_complex::Complex;

use crate::support::{command, files::guppi_header, witness};

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
    // Four IFs of two antennas, listed X, X, Y, Y; the fifth input is of another one.
    let inputs = r#""inputs": [[0, "X"], [1, "X"], [0, "Y"], [1, "Y"], [2, "X"]],"#;
    fs::write(folder.join("stokes.json"), ARRAY.replacen('{', &format!("{{ {inputs}"), 1)).unwrap();
    for chosen in ["0,1,2,3", "1,3"] {
        let run = format!("--array stokes.json --input {chosen} --integrate 10 --stokes IQUV");
        done(folder, &format!("filterbank rec.npy -o x.fil {run}"));
        let found = witness::script(
            &python,
            "filterbank.py",
            &[
                &file("x.fil"),
                &file("rec.npy"),
                &file("stokes.json"),
                chosen,
                "10",
                "32",
                "1",
                "IQUV",
            ],
        );
        assert!(found.ends_with("360 samples are equal"), "{found}");
    }
}

/// I, Q, U and V of two voltages by the IAU's definition.
fn stokes(x: Complex<f64>, y: Complex<f64>) -> [f64; 4] {
    let (xy, yx) = (x * y.conj(), y * x.conj());
    let v = Complex::new(0.0, -1.0) * (xy - yx);
    [(x * x.conj() + y * y.conj()).re, (x * x.conj() - y * y.conj()).re, (xy + yx).re, v.re]
}

/// Sums of Stokes parameters over stretches of times, `[sample][parameter][channel]`, of `[time][channel][input]`; pairs are of
/// X and Y.
fn summed(samples: &ndarray::Array3<Complex<f64>>, pairs: &[[usize; 2]], step: usize) -> Vec<f64> {
    let (times, channels, _) = samples.dim();
    let mut sums = vec![0.0; times / step * 4 * channels];
    for time in 0..times / step * step {
        for channel in 0..channels {
            for &[x, y] in pairs {
                let of = |input| samples[[time, channel, input]];
                for (parameter, value) in stokes(of(x), of(y)).into_iter().enumerate() {
                    sums[(time / step * 4 + parameter) * channels + channel] += value;
                }
            }
        }
    }
    sums
}

#[test]
fn stokes_parameters_are_those_of_the_definition() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let array = |inputs: &str| {
        let text = ARRAY.replacen('{', &format!("{{ \"inputs\": [{inputs}],"), 1);
        fs::write(folder.join("array.json"), text).unwrap();
    };
    done(folder, "simulate -o x.npy --inputs 4 --channels 3 --times 103");
    let read: ndarray::Array4<i8> = ndarray_npy::read_npy(folder.join("x.npy")).unwrap();
    let values = ndarray::Array3::from_shape_fn((103, 3, 4), |(t, c, n)| {
        Complex::new(f64::from(read[[t, c, n, 0]]), f64::from(read[[t, c, n, 1]]))
    });
    let run = "filterbank x.npy --array array.json";
    for (inputs, chosen, pairs) in [
        (r#"[0, "X"], [0, "Y"], [1, "X"], [1, "Y"]"#, "", &[[0, 1], [2, 3]][..]),
        (r#"[0, "Y"], [1, "X"], [0, "X"], [1, "Y"]"#, "", &[[2, 0], [1, 3]]),
        (r#"[0, "Y"], [1, "X"], [0, "X"], [1, "Y"]"#, "--input 3,1", &[[1, 3]]),
    ] {
        array(inputs);
        let expected = summed(&values, pairs, 10);
        done(folder, &format!("{run} {chosen} -o s.npy --stokes IQUV --integrate 10"));
        let found: ndarray::Array3<i64> = ndarray_npy::read_npy(folder.join("s.npy")).unwrap();
        assert_eq!(found.dim(), (10, 4, 3));
        assert!(found.iter().zip(&expected).all(|(found, expected)| *found as f64 == *expected));
        done(folder, &format!("{run} {chosen} -o s.fil --stokes IQUV --integrate 10"));
        let found = samples(&folder.join("s.fil"), expected.len());
        assert!(found.iter().zip(&expected).all(|(found, expected)| *found == *expected as f32));
        // I alone is the sum of the powers.
        done(
            folder,
            &format!("{run} {chosen} -o i.fil --stokes I --integrate 10 --bits 16 --scale 0.5"),
        );
        done(folder, &format!("{run} {chosen} -o p.fil --integrate 10 --bits 16 --scale 0.5"));
        assert!(fs::read(folder.join("i.fil")).unwrap() == fs::read(folder.join("p.fil")).unwrap());
        done(folder, &format!("{run} {chosen} -o p.npy --integrate 10"));
        let power: ndarray::Array2<i64> = ndarray_npy::read_npy(folder.join("p.npy")).unwrap();
        let expected: Vec<f64> = expected.chunks(12).flat_map(|all| all[..3].to_vec()).collect();
        assert!(power.iter().zip(&expected).all(|(found, expected)| *found as f64 == *expected));
    }
    // R and L: I = RR* + LL*, Q + jU = 2 RL*, V = RR* - LL*.
    array(r#"[0, "R"], [0, "L"], [1, "L"], [1, "R"]"#);
    done(folder, &format!("{run} -o s.npy --stokes IQUV"));
    let found: ndarray::Array3<i64> = ndarray_npy::read_npy(folder.join("s.npy")).unwrap();
    for ((time, parameter, channel), found) in found.indexed_iter() {
        let of = |[r, l]: [usize; 2]| {
            let [r, l] = [r, l].map(|input| values[[time, channel, input]]);
            let product = 2.0 * r * l.conj();
            [r.norm_sqr() + l.norm_sqr(), product.re, product.im, r.norm_sqr() - l.norm_sqr()]
                [parameter]
        };
        assert_eq!(*found as f64, (of([0, 1]) + of([3, 2])).round());
    }

    // Of floats the sums are f64.
    let halves = read.map(|&part| half::f16::from_f32(f32::from(part) / 8.0).to_bits());
    let bytes: Vec<u8> = halves.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let ours = fs::read(folder.join("x.npy")).unwrap();
    let header = String::from_utf8_lossy(&ours[10..ours.len() - read.len()]).replace("|i1", "<f2");
    let header = [&ours[..10], header.as_bytes()].concat();
    fs::write(folder.join("h.npy"), [header, bytes].concat()).unwrap();
    array(r#"[0, "X"], [0, "Y"], [1, "X"], [1, "Y"]"#);
    done(folder, "filterbank h.npy --array array.json -o s.npy --stokes IQUV --integrate 10");
    let found: ndarray::Array3<f64> = ndarray_npy::read_npy(folder.join("s.npy")).unwrap();
    let expected = summed(&values, &[[0, 1], [2, 3]], 10);
    assert!(found.iter().zip(&expected).all(|(found, expected)| *found == expected / 64.0));

    for (inputs, arguments, sentence) in [
        (
            r#"[0, "X"], [0, "Y"], [1, "X"], [2, "Y"]"#,
            "-o y.npy --stokes IQUV",
            "input 2 of antenna 1",
        ),
        (r#"[0, "X"], [0, "Y"], [1, "R"], [1, "L"]"#, "-o y.npy --stokes I", "input 2 is R"),
        (r#"[0, "X"], [0, "Y"]"#, "-o y.npy --stokes I", "2 \"inputs\": expected 4"),
        ("", "-o y.npy --stokes Q", "expected I or IQUV"),
        (
            r#"[0, "X"], [0, "Y"], [1, "X"], [1, "Y"]"#,
            "-o y.fil --stokes IQUV --bits 8",
            "expected 32",
        ),
        ("", "-o y.npy --bits 8", "expected neither"),
        ("", "-o y.npy --scale 2", "expected neither"),
    ] {
        array(inputs);
        let error = refused(folder, &format!("{run} {arguments}"));
        assert!(error.contains(sentence), "{arguments}: {error}");
        assert!(!folder.join("y.npy").exists() && !folder.join("y.fil").exists());
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

/// A frequency of a file's header.
fn megahertz(file: &[u8], field: &[u8; 4]) -> f64 {
    let at = file.windows(4).position(|name| name == field).unwrap();
    f64::from_le_bytes(*file[at + 4..].first_chunk().unwrap())
}

/// A file of some channels has the powers and frequencies that a file of all channels has for them; the command and a plan agree.
#[test]
fn some_channels_are_those_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("array.json"), ARRAY).unwrap();
    for layout in ["tcn", "cnt"] {
        let simulate = "simulate -o rec.npy --inputs 3 --channels 9 --times 103 --layout";
        done(folder, &format!("{simulate} {layout}"));
        let powers = |options: &str| {
            let options = format!("--layout {layout} --input 0,2 --integrate 7 {options}");
            done(folder, &format!("filterbank rec.npy --array array.json {options}"))
        };
        powers("-o all.npy");
        assert!(powers("-o some.npy --channels 2..6").contains("2 inputs x 4 channels"));
        powers("-o some.fil --channels 2..6");
        let read =
            |name| -> ndarray::Array2<i64> { ndarray_npy::read_npy(folder.join(name)).unwrap() };
        let (all, some) = (read("all.npy"), read("some.npy"));
        assert_eq!(some, all.slice(ndarray::s![.., 2..6]));
        let plan = format!(
            "[input]\nfiles = [\"rec.npy\"]\narray = \"array.json\"\nlayout = \"{layout}\"\ndevice = \"cpu\"\n\
             [[power]]\noutput = \"plan.fil\"\ninput = [0, 2]\nintegrate = 7\nchannels = \"2..6\"\n"
        );
        fs::write(folder.join("plan.toml"), plan).unwrap();
        done(folder, "observe plan.toml");
        let [ours, theirs] =
            ["plan.fil", "some.fil"].map(|name| fs::read(folder.join(name)).unwrap());
        assert!(ours == theirs, "{layout}");
        assert_eq!(megahertz(&ours, b"fch1"), 1400.0 - 2.0 * 0.5);
        let found = samples(&folder.join("some.fil"), some.len());
        assert!(found.iter().zip(&some).all(|(&found, &sum)| f64::from(found) == sum as f64));
    }
    // One channel of a list has the list's width.
    let listed: Vec<_> = (0..9).map(|channel| 1400e6 - 0.5e6 * f64::from(channel)).collect();
    let even = r#""first_channel": 1400e6, "channel_width": -0.5e6"#;
    fs::write(
        folder.join("list.json"),
        ARRAY.replace(even, &format!("\"frequencies\": {listed:?}")),
    )
    .unwrap();
    for channel in [4, 8] {
        let channels = format!("--channels {channel}..{}", channel + 1);
        done(
            folder,
            &format!("filterbank rec.npy -o one.fil --layout cnt --array list.json {channels}"),
        );
        let file = fs::read(folder.join("one.fil")).unwrap();
        assert_eq!(megahertz(&file, b"fch1"), 1400.0 - 0.5 * f64::from(channel));
        assert_eq!(megahertz(&file, b"foff"), -0.5);
    }
    let said = refused(folder, "filterbank rec.npy -o x.npy --layout cnt --channels 5..10");
    assert!(said.contains("--channels 5..10: expected some of 9"), "{said}");
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
    let samples: ndarray::Array5<f32> = ndarray_npy::read_npy(folder.join("j.npy")).unwrap();
    let (_, channels, polarisations, times, _) = samples.dim();
    let part = |channel, p, t, part| f64::from(samples[[beam, channel, p, t, part]]).powi(2);
    let sum = |row: usize, channel: usize| {
        let within = (0..polarisations).flat_map(|p| (0..step).map(move |t| (p, row * step + t)));
        within.map(|(p, t)| part(channel, p, t, 0) + part(channel, p, t, 1)).sum::<f64>() as f32
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
    done(
        folder,
        "beamform e.npy --weights a.npy --shifts s.npy --device cpu -o j.npy --output-encoding cf32",
    );

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
    let scaled = |&power: &f32| (f64::from(power) * 100.0).round_ties_even().min(255.0) as u8;
    let scaled: Vec<u8> = expected.iter().map(scaled).collect();
    assert!(bytes.ends_with(&scaled));

    if let Some(python) = witness::python(&["blimpy==2.1.4", "setuptools<81"]) {
        let path = folder.join("x.1.fil");
        let found = witness::script(&python, "beam.py", &[path.to_str().unwrap()]);
        let sums: f64 = powers(folder, 1, 7).iter().map(|&power| f64::from(power)).sum();
        // Libraries of the witness may speak first, of caches that they make.
        let last = found.lines().last().unwrap_or_default();
        assert_eq!(last, format!("21 x 3 samples, sum {sums:.4}"));
    }
}

#[test]
fn beams_have_the_stokes_parameters_of_their_samples() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_beams(folder, 150);
    let beams = "beamform e.npy --weights a.npy --shifts s.npy --device cpu --array array.json --output-encoding ci4";
    done(folder, "beamform e.npy --weights a.npy --shifts s.npy --device cpu -o j.npy");
    let read: ndarray::Array4<u8> = ndarray_npy::read_npy(folder.join("j.npy")).unwrap();
    let listed = |first: &str, second: &str| {
        let half =
            |name: &str| (0..5).map(|dish| format!("[{dish}, \"{name}\"]")).collect::<Vec<_>>();
        format!("\"inputs\": [{}],", [half(first), half(second)].concat().join(", "))
    };
    for (inputs, pair) in
        [(String::new(), [0, 1]), (listed("X", "Y"), [0, 1]), (listed("Y", "X"), [1, 0])]
    {
        fs::write(folder.join("array.json"), ARRAY.replacen('{', &format!("{{ {inputs}"), 1))
            .unwrap();
        let text = done(folder, &format!("{beams} -o x.npy --integrate 7 --stokes IQUV"));
        assert!(text.contains(": x.0.npy to x.3.npy\n"), "{text}");
        done(folder, &format!("{beams} -o x.fil --integrate 7 --stokes IQUV --beam 2"));
        for beam in 0..4 {
            let values = ndarray::Array3::from_shape_fn((150, 3, 2), |(t, c, p)| {
                let byte = read[[beam, c, p, t]];
                Complex::new(f64::from(byte as i8 >> 4), f64::from((byte << 4) as i8 >> 4))
            });
            let expected = summed(&values, &[pair], 7);
            let path = folder.join(format!("x.{beam}.npy"));
            let found: ndarray::Array3<i64> = ndarray_npy::read_npy(path).unwrap();
            assert_eq!(found.dim(), (21, 4, 3));
            assert!(
                found.iter().zip(&expected).all(|(found, expected)| *found as f64 == *expected)
            );
            if beam == 2 {
                let found = samples(&folder.join("x.fil"), expected.len());
                assert!(found.iter().zip(&expected).all(|(found, one)| *found == *one as f32));
            }
        }
    }
    for (arguments, sentence) in [
        ("-o y.vdif --stokes I", "expected a name that ends in .fil or .npy"),
        ("-o udp://127.0.0.1:9 --stokes I", "expected a name that ends in .fil or .npy"),
        ("-o y.fil --stokes IQUV --bits 16", "expected 32"),
    ] {
        let error = refused(folder, &format!("{beams} {arguments}"));
        assert!(error.contains(sentence), "{arguments}: {error}");
    }
    fs::write(
        folder.join("array.json"),
        ARRAY.replacen(
            '{',
            &format!("{{ {}", listed("X", "Y").replace("[1, \"Y\"]", "[5, \"X\"]")),
            1,
        ),
    )
    .unwrap();
    let error = refused(folder, &format!("{beams} -o y.fil --stokes I"));
    assert!(error.contains("expected 5 of X, then 5 of Y"), "{error}");
    let error = refused(
        folder,
        &format!("{} -o y.npy --stokes I", beams.replace("--array array.json", "")),
    );
    assert!(error.contains("--array"), "{error}");
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
            "expected an output whose name ends in .vdif, .raw, .dada or .fil, found j.npy",
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

/// Blocks of GUPPI RAW whose headers say all that a filterbank file does.
fn complete_guppi(cards: &[(&str, &str)]) -> Vec<u8> {
    let block = |packet: usize| {
        let packet = packet.to_string();
        let said = [
            ("OBSNCHAN", "4"),
            ("NPOL", "4"),
            ("NBITS", "8"),
            ("BLOCSIZE", "160"),
            ("PKTSIZE", "160"),
            ("PKTIDX", &packet),
            ("TBIN", "0.001"),
            ("OBSFREQ", "1.4E+03"),
            ("OBSBW", "-2.0"),
            ("STT_IMJD", "61100"),
            ("STT_SMJD", "43200"),
            ("TELESCOP", "'example'"),
            ("SRC_NAME", "'J0534+2200'"),
            ("RA_STR", "'05:34:31.94'"),
            ("DEC_STR", "'-22:00:52.2'"),
        ];
        let kept = said.iter().filter(|card| cards.iter().all(|other| other.0 != card.0));
        let cards = kept.chain(cards.iter().filter(|card| !card.1.is_empty()));
        let mut block = guppi_header(&cards.copied().collect::<Vec<_>>());
        block.extend((0..160).map(|at| (at * 7 + 3) as u8));
        block
    };
    [block(0), block(1)].concat()
}

#[test]
fn what_headers_say_needs_no_array_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("scan.raw"), complete_guppi(&[])).unwrap();
    done(folder, "filterbank scan.raw -o x.fil --integrate 2");
    let bytes = fs::read(folder.join("x.fil")).unwrap();
    let number = |name: &str| {
        let at = bytes.windows(name.len()).position(|found| found == name.as_bytes());
        let at = at.unwrap_or_else(|| panic!("{name}")) + name.len();
        f64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    };
    assert_eq!((number("src_raj"), number("src_dej")), (53_431.94, -220_052.2));
    assert_eq!((number("fch1"), number("foff")), (1400.75, -0.5));
    assert_eq!((number("tstart"), number("tsamp")), (61_100.5, 0.002));
    assert!(bytes.windows(10).any(|found| found == b"J0534+2200"));
    // An empty array file does as much, and one with a source counts.
    fs::write(folder.join("array.json"), "{}").unwrap();
    done(folder, "filterbank scan.raw -o y.fil --integrate 2 --array array.json");
    assert!(fs::read(folder.join("y.fil")).unwrap() == bytes);
    let center = r#"{"phase_center": {"name": "zenith", "ra": 15.0, "dec": 1.5}}"#;
    fs::write(folder.join("array.json"), center).unwrap();
    done(folder, "filterbank scan.raw -o y.fil --integrate 2 --array array.json");
    let other = fs::read(folder.join("y.fil")).unwrap();
    assert!(other.windows(6).any(|found| found == b"zenith"));
    done(folder, "filterbank scan.raw -o y.npy --integrate 2");
    if let Some(python) = witness::python(&["blimpy==2.1.4", "setuptools<81"]) {
        let path = folder.join("x.fil");
        let found = witness::script(&python, "direction.py", &[path.to_str().unwrap()]);
        assert!(found.ends_with("83.633083 -22.014500 J0534+2200"), "{found}");
    }

    fs::write(folder.join("scan.raw"), complete_guppi(&[("OBSBW", "")])).unwrap();
    let text = refused(folder, "filterbank scan.raw -o z.fil");
    assert!(text.contains("scan.raw: does not say") && text.contains("expected --array"), "{text}");
}
