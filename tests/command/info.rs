//! Recordings on the command line: `corrust info` of every format, and what headers say beside an array file.

use std::{fs, path::Path, process::Output};

use corrust::format::uvh5::Reader;
use ndarray::Array2;
use serde_json::{Value, json};

use command::{corrust, done};

use crate::support::{command, files::guppi_header};

/// What `info --json` says.
fn info(folder: &Path, arguments: &str) -> Value {
    let output = corrust(folder, &format!("info --json {arguments}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {error}");
    assert_eq!(error, "", "{arguments}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Compares some of the fields.
fn expect(found: &Value, expected: &Value) {
    for (name, expected) in expected.as_object().unwrap() {
        assert_eq!(&found[name], expected, "{name} of {found:#}");
    }
}

/// The one sentence of a refusal.
fn sentence(output: &Output) -> String {
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(output.stdout.is_empty(), "{error}");
    error
}

/// Blocks of GUPPI RAW at these places: 16 times of 2 channels of 2 polarisations of 8 bits.
fn guppi(places: &[usize], more: &[(&str, &str)]) -> Vec<u8> {
    let block = |place: &usize| {
        let packet = (16 * place).to_string();
        let cards = [
            ("OBSNCHAN", "2"),
            ("NPOL", "4"),
            ("NBITS", "8"),
            ("BLOCSIZE", "128"),
            ("PKTSIZE", "8"),
            ("PKTIDX", &packet),
            ("TBIN", "0.001"),
            ("STT_IMJD", "61100"),
            ("STT_SMJD", "43200"),
            ("TELESCOP", "'example'"),
        ];
        let mut block = guppi_header(&[&cards[..], more].concat());
        // [channel][time][polarisation][2]
        block.extend((0..128).map(|at| at as u8));
        block
    };
    places.iter().flat_map(block).collect()
}

/// A DADA header, and 100 times of 2 polarisations, complex, of 8 bits.
fn dada() -> Vec<u8> {
    let header =
        "HDR_SIZE 4096\nNBIT 8\nNDIM 2\nNPOL 2\nTSAMP 0.5\nUTC_START 2026-03-01-00:00:00\n";
    let mut bytes = header.as_bytes().to_vec();
    bytes.resize(4096, 0);
    bytes.extend((0..400).map(|at| at as u8));
    bytes
}

/// A frame of VDIF: 64 samples of 2 bits, the codes 0 to 3 in turn; 10 frames a second.
fn vdif(thread: u32, index: u32) -> Vec<u8> {
    let words = [1000 + index / 10, 28 << 24 | (index % 10), 1 << 29 | 6, 1 << 26 | thread << 16];
    let words = words.into_iter().chain([0; 4]);
    let mut frame: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    frame.extend([0b11_10_01_00; 16]);
    frame
}

/// A frame of Mark 5B.
fn mark5b(number: u32) -> Vec<u8> {
    let words = [0xabad_deed, number, 0x8211_9801, 0];
    let mut frame: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    frame.resize(10_016, 0xff);
    frame
}

#[test]
fn info_knows_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |name: &str, bytes: Vec<u8>| fs::write(folder.join(name), bytes).unwrap();

    let raw = Array2::from_shape_fn((3, 40), |(input, time)| (40 * input + time) as i8);
    ndarray_npy::write_npy(folder.join("raw.npy"), &raw).unwrap();
    let found = info(folder, "raw.npy");
    expect(
        &found,
        &json!({
            "format": "NumPy", "voltages": "raw", "inputs": 3, "channels": null, "times": 40,
            "encoding": "i8", "bits": 8, "complex": false, "layout": "nt", "rate": null,
            "missing": 0.0, "gaps": [],
        }),
    );
    assert_eq!(found["first_levels"][1][2], json!([42.0, 0.0]));

    done(folder, "simulate -o rec.npy --inputs 3 --channels 4 --times 50");
    let channels = json!({
        "format": "NumPy", "voltages": "channels", "inputs": 3, "channels": 4, "times": 50,
        "encoding": "ci8", "complex": true, "layout": "tcn",
    });
    expect(&info(folder, "rec.npy"), &channels);

    write("scan.raw", guppi(&[0, 2, 3], &[]));
    let found = info(folder, "scan.raw");
    expect(
        &found,
        &json!({
            "format": "GUPPI RAW", "voltages": "channels", "inputs": 2, "channels": 2, "times": 64,
            "encoding": "ci8", "layout": "cnt", "rate": 1000.0,
            "start": "2026-03-01T12:00:00Z", "end": "2026-03-01T12:00:00.064Z",
            "missing": 0.25, "gaps_left_out": 0,
            "gaps": [{"start": 16, "times": 16, "first_input": 0, "inputs": 2}],
        }),
    );
    // Time 1 of polarisation 1 of channel 0.
    assert_eq!(found["first_levels"][1][1], json!([6.0, 7.0]));
    // The start alone says nothing of gaps.
    expect(&info(folder, "scan.raw --quick"), &json!({"times": 64, "missing": null, "gaps": null}));

    let stream = json!({
        "format": "DADA", "voltages": "raw", "inputs": 2, "times": 100, "encoding": "ci8",
        "rate": 2e6, "start": "2026-03-01T00:00:00Z", "end": "2026-03-01T00:00:00.00005Z",
        "missing": 0.0, "gaps": [],
    });
    write("scan.dada", dada());
    expect(&info(folder, "scan.dada"), &stream);

    let frames = (0..12).flat_map(|index| [(0, index), (1, index)]);
    let kept = frames.filter(|&frame| frame != (0, 5));
    write("scan.vdif", kept.flat_map(|(thread, index)| vdif(thread, index)).collect());
    let found = info(folder, "scan.vdif");
    expect(
        &found,
        &json!({
            "format": "VDIF", "voltages": "raw", "inputs": 2, "times": 768, "encoding": "vdif-2",
            "bits": 2, "complex": false, "rate": 640.0,
            "start": "2014-01-01T00:16:40Z", "end": "2014-01-01T00:16:41.2Z",
            "missing": 1.0 / 24.0,
            "gaps": [{"start": 320, "times": 64, "first_input": 0, "inputs": 1}],
        }),
    );
    let headers: Vec<(String, String)> = serde_json::from_value(found["headers"].clone()).unwrap();
    assert!(headers.contains(&("threads".into(), "0-1".into())), "{headers:?}");
    let levels: Vec<[f32; 2]> = serde_json::from_value(found["first_levels"][0].clone()).unwrap();
    assert_eq!(levels[..4], [[-3.3165, 0.0], [-1.0, 0.0], [1.0, 0.0], [3.3165, 0.0]]);
    let text = done(folder, "info scan.vdif");
    for line in [
        "format               VDIF",
        "encoding             vdif-2: real, 2 bits",
        "rate                 640 Hz",
        "                     times 320-383, input 0",
        "levels of input 1    -3.3165 -1 1 3.3165 -3.3165 -1 1 3.3165",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} in {text}");
    }

    write("scan.m5b", (0..3).flat_map(mark5b).collect());
    expect(
        &info(folder, "scan.m5b --inputs 2 --near 2014-06-13 --rate 80kHz"),
        &json!({
            "format": "Mark 5B", "inputs": 2, "times": 60_000, "bits": 2, "rate": 80_000.0,
            "start": "2014-06-13T05:30:01Z",
        }),
    );
}

/// A pipe is read only once.
#[cfg(unix)]
#[test]
fn info_reads_pipes() {
    use std::{io::Write, process::Stdio};

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let through = |bytes: Vec<u8>| {
        let mut child = command::command(folder, "info --json -")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        child.wait_with_output().unwrap()
    };
    let array = |shape: &str, bytes: usize| {
        let header = format!("{{'descr': '|i1', 'fortran_order': False, 'shape': {shape}, }}");
        let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        file.extend(format!("{header:117}\n").into_bytes());
        file.extend((0..bytes).map(|at| at as u8));
        file
    };
    for (bytes, expected) in [
        (dada(), json!({"format": "DADA", "times": 100, "inputs": 2, "voltages": "raw"})),
        (
            array("(5, 2, 3, 2)", 60),
            json!({"format": "NumPy", "times": 5, "inputs": 3, "voltages": "channels"}),
        ),
    ] {
        let output = through(bytes);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        expect(&serde_json::from_slice(&output.stdout).unwrap(), &expected);
    }
    let error = sentence(&through(guppi(&[0], &[])));
    assert!(error.contains("is a pipe: expected a file"), "{error}");
}

#[test]
fn info_refuses_what_is_no_recording_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    write("empty", b"");
    write("text", b"This is not a recording.");
    write("scan.raw", &guppi(&[0, 1], &[]));
    write("short.raw", &guppi(&[0, 1], &[])[..1000]);
    write("scan.m5b", &mark5b(0));
    let frames: Vec<u8> = (0..12).flat_map(|index| vdif(0, index)).collect();
    write("scan.vdif", &frames);
    write("short.vdif", &frames[..frames.len() - 7]);
    write("zero.vdif", &[&frames[..8], &[0, 0, 0, 0x20], &frames[12..]].concat());
    write("long.dada", b"HDR_SIZE 99999999999\nNBIT 8\nNDIM 1\n");
    for (arguments, expected) in [
        ("none.vdif", "none.vdif"),
        ("empty", "empty: 0 bytes: expected a recording"),
        ("text", "text: starts with \"This is \": expected a NumPy file"),
        ("short.raw", "short.raw"),
        (
            "scan.vdif scan.raw",
            "scan.raw: GUPPI RAW after VDIF: the files of a recording share one",
        ),
        (
            "short.vdif",
            "truncated: 41 bytes of the frame at byte 528, expected 48; what precedes this last frame can be read alone (--keep-going)",
        ),
        ("zero.vdif", "zero.vdif"),
        ("long.dada", "HDR_SIZE 99999999999: expected 1 to 1048576"),
        ("scan.m5b", "expected their number (--inputs)"),
        ("scan.vdif --rate 641", "rate of 641 Hz (as given): expected a whole number of frames"),
    ] {
        for flag in ["", " --json", " --quick"] {
            let error = sentence(&corrust(folder, &format!("info {arguments}{flag}")));
            assert!(error.contains(expected), "{arguments}: {error}");
        }
    }
    let text = done(folder, "info short.vdif --keep-going");
    assert!(text.contains("truncated: 41 bytes"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("times                704")), "{text}");
}

const PLACES: &str = r#""telescope": "example",
    "location": {"latitude": -30.7, "longitude": 21.4, "altitude": 1050},
    "antennas": [{"name": "a", "position": [0, 0, 0]}, {"name": "b", "position": [30, 0, 0]}]"#;

#[test]
fn headers_complete_the_array_file_and_contradict_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cards = [("OBSFREQ", "1400.0"), ("OBSBW", "2.0")];
    fs::write(folder.join("scan.raw"), guppi(&[0, 1, 2], &cards)).unwrap();
    let correlate = |fields: &str| {
        fs::write(folder.join("array.json"), format!("{{{PLACES}{fields}}}")).unwrap();
        let run = "correlate scan.raw -o x.uvh5 --array array.json --device cpu";
        let text = done(folder, run);
        let file = Reader::open(folder.join("x.uvh5")).unwrap();
        let contradictions =
            text.lines().filter(|line| line.ends_with("the former counts")).map(str::to_owned);
        (contradictions.collect::<Vec<_>>(), file.frequencies().to_vec(), file.times()[0])
    };
    // The middle of 48 times of a millisecond.
    let middle = |start: f64| 2_461_101.0 + (start + 0.024) / 86_400.0;
    let is_at = |found: f64, start: f64| (found - middle(start)).abs() < 1e-9;

    let (said, frequencies, time) = correlate("");
    assert_eq!(said, [""; 0]);
    assert_eq!(frequencies, [1399.5e6, 1400.5e6]);
    assert!(is_at(time, 0.0), "{time}");

    // The same, as far as headers go.
    let (said, ..) = correlate(
        r#", "frequencies": [1399.5e6, 1400.500001e6], "start": "2026-03-01T12:00:00.0005Z",
        "sample_time": 1e-3"#,
    );
    assert_eq!(said, [""; 0]);

    let (said, frequencies, time) = correlate(
        r#", "first_channel": 1399.5e6, "channel_width": 1.1e6,
        "start": "2026-03-01T12:00:01Z", "sample_time": 2e-3"#,
    );
    assert_eq!(frequencies, [1399.5e6, 1400.6e6]);
    assert!(is_at(time, 1.024), "{time}");
    let expected = [
        "array.json: \"sample_time\" 0.002 s, where the recording has 0.001 s: the former counts",
        "array.json: \"start\" 2026-03-01T12:00:01Z, where the recording has 2026-03-01T12:00:00Z: the \
         former counts",
        "array.json: frequency 1400600000 Hz of channel 1, where the recording has 1400500000 Hz: the \
         former counts",
    ];
    assert_eq!(said.len(), expected.len(), "{said:?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.ends_with(expected), "{said}");
    }
}

/// Frequencies of the sky are told of what headers say them of, and channels of raw voltages have them.
#[test]
fn frequencies_of_headers_are_told_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let dada = |name: &str, lines: &str| {
        let mut bytes = format!(
            "HDR_SIZE 4096\nNBIT 8\nTSAMP 0.5\nFREQ 1400\nUTC_START 2026-03-01-00:00:00\n{lines}\n"
        )
        .into_bytes();
        bytes.resize(4096, 0);
        bytes.extend((0..4096_u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 25) as u8));
        fs::write(folder.join(name), bytes).unwrap();
    };
    dada("up.dada", "NDIM 1\nBW 1");
    dada("down.dada", "NDIM 1\nBW -1");
    dada("complex.dada", "NDIM 2\nBW 2");
    expect(&info(folder, "up.dada"), &json!({"sky_frequency": 1.4e9, "bandwidth": 1e6}));
    expect(&info(folder, "down.dada"), &json!({"sky_frequency": 1.4e9, "bandwidth": -1e6}));
    let text = done(folder, "info down.dada");
    assert!(text.contains("sky frequency        1.40 GHz"), "{text}");
    assert!(text.contains("bandwidth            1.00 MHz, descending"), "{text}");
    fs::write(folder.join("scan.raw"), guppi(&[0], &[("OBSFREQ", "600"), ("OBSBW", "-4")]))
        .unwrap();
    expect(&info(folder, "scan.raw"), &json!({"sky_frequency": 6e8, "bandwidth": -4e6}));

    // Bands that run downwards are inverted.
    let spectra = |arguments: &str| {
        done(folder, &format!("channelise {arguments} -o s.npy --channels 8 --device cpu"));
        fs::read(folder.join("s.npy")).unwrap()
    };
    assert!(spectra("down.dada") == spectra("up.dada --inverted"));
    assert!(spectra("down.dada") != spectra("up.dada"));

    // Fringe rotation and UVH5 take frequencies from the edge or the middle of the band.
    let array = r#"{"telescope": "example", "location": {"latitude": 0, "longitude": 0, "altitude": 0},
        "positions": [[0, 0, 0]]}"#;
    fs::write(folder.join("array.json"), array).unwrap();
    for (name, first) in [("up", 1399.5e6), ("down", 1399.5e6 + 62_500.0), ("complex", 1.399e9)] {
        let run = format!("correlate {name}.dada --channelise 16 -o x.uvh5 --array array.json");
        done(folder, &format!("{run} --device cpu"));
        let reader = Reader::open(folder.join("x.uvh5")).unwrap();
        let width = if name == "complex" { 125_000.0 } else { 62_500.0 };
        let found = reader.frequencies();
        assert!((found[0] - first).abs() < 1e-3, "{name}: {} {first}", found[0]);
        assert!((found[1] - found[0] - width).abs() < 1e-3, "{name}");
    }
}

/// Counts and arrival times of NumPy files are told of, as `corrust autocorrelate` reads them.
#[test]
fn counts_and_times_of_arrays_are_described() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let counts = Array2::from_shape_fn((300, 2), |(t, i)| (t * (i + 3)) % 5);
    let sums: Vec<usize> = counts.columns().into_iter().map(|column| column.sum()).collect();
    ndarray_npy::write_npy(folder.join("u16.npy"), &counts.mapv(|count| count as u16)).unwrap();
    ndarray_npy::write_npy(folder.join("u8.npy"), &counts.mapv(|count| count as u8)).unwrap();
    ndarray_npy::write_npy(folder.join("i64.npy"), &counts.mapv(|count| count as i64)).unwrap();
    let some = counts.mapv(|count| if count == 4 { f64::NAN } else { count as f64 });
    let missing = counts.rows().into_iter().filter(|row| row.iter().any(|&count| count == 4));
    let missing = missing.count();
    assert!(missing > 0);
    ndarray_npy::write_npy(folder.join("f64.npy"), &some).unwrap();
    let counted = "NumPy, counts";
    let formats =
        [("u16.npy", counted), ("u8.npy", counted), ("i64.npy", "NumPy, counts or powers")];
    for (name, format) in formats {
        let expected = json!({
            "format": format, "sensors": 2, "instants": 300, "photons": sums, "missing": 0
        });
        assert_eq!(info(folder, name), expected, "{name}");
    }
    let found = info(folder, "f64.npy");
    expect(&found, &json!({"sensors": 2, "instants": 300, "missing": missing}));
    let kept = counts.rows().into_iter().filter(|row| row.iter().all(|&count| count != 4));
    let kept: Vec<usize> = kept.map(|row| row[0]).collect();
    assert_eq!(found["photons"][0], kept.iter().sum::<usize>());
    expect(&info(folder, "f64.npy --quick"), &json!({"photons": null, "missing": null}));
    // One column of 64-bit numbers is counts if all of them can be, arrival times otherwise.
    let line = counts.column(0).mapv(|count| count as i64);
    ndarray_npy::write_npy(folder.join("line.npy"), &line).unwrap();
    expect(&info(folder, "line.npy"), &json!({"format": "NumPy, counts", "photons": [sums[0]]}));
    let times = ndarray::Array1::from_shape_fn(50, |photon| (1 << 40) + 700 * photon as i64);
    ndarray_npy::write_npy(folder.join("times.npy"), &times).unwrap();
    ndarray_npy::write_npy(folder.join("unsigned.npy"), &times.mapv(|time| time as u64)).unwrap();
    for name in ["times.npy", "unsigned.npy"] {
        let expected = json!({
            "format": "NumPy, arrival times", "sensors": 1, "instants": 34_301, "photons": [50], "missing": null
        });
        assert_eq!(info(folder, name), expected, "{name}");
        let text = done(folder, &format!("info {name}"));
        assert!(text.contains("34301, from the first photon to the last"), "{text}");
    }
    let said = done(folder, "info u16.npy --rate 1MHz");
    assert!(said.contains("warning: --rate has no effect: the file holds counts"), "{said}");
}

#[test]
fn info_describes_what_corrust_writes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(
        folder.join("array.json"),
        r#"{"telescope": "example", "location": {"latitude": 1, "longitude": 2, "altitude": 3},
            "positions": [[0, 0, 0], [10, 0, 0], [0, 20, 0]], "first_channel": 150e6, "channel_width": 1e6,
            "start": "2026-03-01T12:00:00Z", "sample_time": 1e-3}"#,
    )
    .unwrap();
    done(folder, "simulate -o rec.npy --inputs 3 --channels 8 --times 600");
    done(folder, "filterbank rec.npy -o p.fil --array array.json --integrate 8");
    let correlate = "correlate rec.npy --integrate 100 --device cpu";
    done(folder, &format!("{correlate} -o v.uvh5 --array array.json"));
    done(folder, &format!("{correlate} -o v.npy"));
    done(folder, "simulate --diffusion -o photons.ptu --duration 100ms");
    let photons = "autocorrelate photons.ptu -o g.npy --groups 4 --lags 8 --device cpu";
    done(folder, &format!("{photons} --curves g.csv"));
    let counts = ndarray::Array2::from_elem((100, 3), 1_u8);
    ndarray_npy::write_npy(folder.join("counts.npy"), &counts).unwrap();
    done(folder, "autocorrelate counts.npy -o h.npy --groups 4 --lags 8 --device cpu --save state");
    for (file, expected) in [
        (
            "p.fil",
            json!({
                "format": "SIGPROC filterbank", "times": 75, "channels": 8, "bits": 32, "parameters": 1,
                "sample_seconds": 8e-3, "first_channel_hz": 150e6, "last_channel_hz": 157e6,
                "start_mjd": 61100.5,
            }),
        ),
        ("v.uvh5", json!({"format": "UVH5", "dumps": 6, "baselines": 6, "channels": 8})),
        (
            "v.npy",
            json!({"holds": "visibilities of corrust correlate", "shape": [6, 8, 6, 2], "type": "int64"}),
        ),
        ("g.csv", json!({"holds": "correlation curves g(tau)", "error_bars": false})),
        ("g.npy", json!({"holds": "correlation sums of corrust autocorrelate"})),
        ("state", json!({"sensors": 3, "groups": 4, "lags": 8, "instants": 100})),
        ("rec.json", json!({"format": "JSON"})),
    ] {
        let found = info(folder, file);
        expect(&found, &expected);
        // Text has the same, in lines.
        let text = done(folder, &format!("info {file}"));
        assert!(text.starts_with("format               "), "{text}");
    }
    let text = done(folder, "info p.fil");
    for line in [
        "sample               8.00 ms",
        "length               600 ms",
        "first channel        150 MHz",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} in {text}");
    }
    // A filterbank file that ends within its header, and one of another program's bits.
    let bytes = fs::read(folder.join("p.fil")).unwrap();
    fs::write(folder.join("short.fil"), &bytes[..100]).unwrap();
    let at = bytes.windows(5).position(|name| name == b"nbits").unwrap() + 5;
    let odd = [&bytes[..at], &4_i32.to_le_bytes(), &bytes[at + 4..]].concat();
    fs::write(folder.join("odd.fil"), odd).unwrap();
    for (file, expected) in [
        ("short.fil", "short.fil: ends within its header"),
        ("odd.fil", "odd.fil: 4 bits: expected 8, 16 or 32"),
    ] {
        let error = sentence(&corrust(folder, &format!("info {file}")));
        assert!(error.contains(expected), "{file}: {error}");
    }
}
