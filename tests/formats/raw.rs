//! Raw voltages of NumPy, DADA and GUPPI RAW: every type and layout gives the samples that were written, gaps
//! are missing, and files that are not what they should be get one sentence.

use std::{fs, path::PathBuf};

use corrust::{
    Encoding, Layout,
    correlate::Shape,
    format::{
        self, AnyRecording, Block, Options, RawShape, Recording, array::Channels, dada, guppi,
    },
    samples::{Missing, RawEncoding, RawLayout},
};
use ndarray::{Array2, Array3};
use num_complex::Complex;

/// All samples of a recording, `[input][time]`, read in blocks of `cut` times; [`None`] where missing.
fn read(recording: &mut dyn Recording<RawShape>, cut: usize) -> Vec<Vec<Option<Complex<f32>>>> {
    let shape = recording.shape();
    let mut samples = vec![Vec::new(); shape.inputs];
    let mut block = Block::new();
    while recording.read_block(cut, &mut block).unwrap() > 0 {
        let view = block.raw(&shape);
        for (input, samples) in samples.iter_mut().enumerate() {
            for time in 0..block.times {
                let within =
                    |gap: &Missing| gap.inputs.contains(&input) && gap.times.contains(&time);
                let missing = view.gaps().any(|gap| within(&gap));
                samples.push((!missing).then(|| view.get(input, time)));
            }
        }
    }
    samples
}

/// The sentence that opening files fails with.
fn refusal(paths: &[PathBuf], options: Options) -> String {
    let text =
        format::open_raw(paths, options).err().expect("the files must be refused").to_string();
    assert!(!text.contains('\n'), "{text:?} is one sentence");
    text
}

#[test]
fn numpy_arrays_are_read_in_both_layouts() {
    let folder = tempfile::tempdir().unwrap();
    let value = |a: usize, b: usize, part: usize| (a * 31 + b * 7 + part * 101) as i8;
    let write = |name: &str, array: &dyn Fn(&PathBuf)| {
        let path = folder.path().join(name);
        array(&path);
        path
    };
    let (rows, columns) = (5, 9);
    let real = Array2::from_shape_fn((rows, columns), |(a, b)| value(a, b, 0));
    let complex = Array3::from_shape_fn((rows, columns, 2), |(a, b, part)| value(a, b, part));
    let ci8 = RawEncoding::from(Encoding::Ci8);
    let files = [
        (RawEncoding::I8, write("i8.npy", &|p| ndarray_npy::write_npy(p, &real).unwrap())),
        (
            RawEncoding::I16,
            write("i16.npy", &|p| ndarray_npy::write_npy(p, &real.mapv(i16::from)).unwrap()),
        ),
        (
            RawEncoding::F32,
            write("f32.npy", &|p| ndarray_npy::write_npy(p, &real.mapv(f32::from)).unwrap()),
        ),
        (ci8, write("ci8.npy", &|p| ndarray_npy::write_npy(p, &complex).unwrap())),
        (
            RawEncoding::Ci16,
            write("ci16.npy", &|p| ndarray_npy::write_npy(p, &complex.mapv(i16::from)).unwrap()),
        ),
        (
            RawEncoding::Cf32,
            write("cf32.npy", &|p| ndarray_npy::write_npy(p, &complex.mapv(f32::from)).unwrap()),
        ),
    ];
    for (encoding, path) in &files {
        for layout in RawLayout::ALL {
            let options = Options { raw_layout: Some(layout), ..Options::default() };
            let mut recording = format::open_raw(&[path, path], options).unwrap();
            let (inputs, times) = match layout {
                RawLayout::Nt => (rows, columns),
                RawLayout::Tn => (columns, rows),
            };
            let encoding = *encoding;
            assert_eq!(recording.shape(), RawShape { inputs, encoding, layout });
            assert_eq!(recording.times(), 2 * times as u64);
            for (input, samples) in read(&mut *recording, 4).iter().enumerate() {
                for (time, sample) in samples.iter().enumerate() {
                    let (a, b) = match layout {
                        RawLayout::Nt => (input, time % times),
                        RawLayout::Tn => (time % times, input),
                    };
                    let im = if encoding.is_complex() { value(a, b, 1).into() } else { 0.0 };
                    assert_eq!(*sample, Some(Complex::new(value(a, b, 0).into(), im)));
                }
            }
        }
    }
    let paths = [files[0].1.clone(), files[1].1.clone()];
    let text = refusal(&paths, Options::default());
    assert!(text.contains("5 inputs of i16: expected 5 inputs of i8 as in"), "{text}");
    let any = format::open_any(&paths[..1], Options::default()).unwrap();
    assert!(matches!(any, AnyRecording::Raw(_)));
}

/// A file of DADA whose samples count up from `first`.
fn dada(header: &str, first: usize, bytes: usize) -> Vec<u8> {
    let mut file = format!("HEADER DADA # a comment\nHDR_SIZE 512\n{header}").into_bytes();
    file.resize(512, 0);
    file.extend((first..first + bytes).map(|byte| byte as u8));
    file
}

const DADA: &str =
    "NBIT 8\nNDIM 2\nNPOL 2\nNCHAN 1\nTSAMP 0.5\nUTC_START 2013-07-02-01:37:40\nORDER FTP\n";

#[test]
fn dada_files_stand_where_their_offsets_say() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    // Ten times from time 100 on, and ten more after a gap of five.
    let first = write("b.dada", &dada(&format!("{DADA}OBS_OFFSET 400\n"), 0, 40));
    let second = write("a.dada", &dada(&format!("{DADA}OBS_OFFSET 460\n"), 60, 40));
    let paths = [second.clone(), first.clone()];
    let mut recording = format::open_raw(&paths, Options::default()).unwrap();
    assert_eq!(recording.times(), 25);
    assert_eq!(recording.gaps(), std::slice::from_ref(&(10..15)));
    assert_eq!(recording.start().unwrap().to_string(), "2013-07-02T01:37:40.00005Z");
    for (input, samples) in read(&mut *recording, 7).iter().enumerate() {
        for (time, sample) in samples.iter().enumerate() {
            let byte = |part| f32::from((4 * time + 2 * input + part) as u8 as i8);
            let there = !(10..15).contains(&time);
            assert_eq!(*sample, there.then(|| Complex::new(byte(0), byte(1))));
        }
    }
    // Complex samples of 8 bits are channels, too.
    let mut recording = format::open(&paths, Options::default()).unwrap();
    let (encoding, layout) = (Encoding::Ci8, Layout::Tcn);
    assert_eq!(recording.shape(), Shape { inputs: 2, channels: 1, encoding, layout });
    let mut block = Block::new();
    recording.read_block(25, &mut block).unwrap();
    assert_eq!(block.missing, [Missing::times(10..15)]);
    assert_eq!(block.samples[..3], [0, 1, 2]);
    assert_eq!(block.samples[40..60], [0; 20]);

    let any = Options::default();
    let text = refusal(&[first.clone(), first], any);
    assert!(text.contains("OBS_OFFSET 400: expected at least 440"), "{text}");
    let cases = [
        (DADA.replace("NBIT 8", "NBIT 4"), 40, "NBIT 4: expected 8, 16 or 32"),
        (DADA.replace("NBIT 8", ""), 40, "no NBIT in its DADA header"),
        (DADA.replace("NDIM 2", "NDIM 3"), 40, "NDIM 3: expected 1 (real) or 2 (complex)"),
        (DADA.replace("NPOL 2", "NPOL x"), 40, "NPOL \"x\": expected a whole number"),
        (DADA.replace("NCHAN 1", "NCHAN 2"), 40, "ORDER \"FTP\": expected TFP"),
        (DADA.replace("TSAMP 0.5", "TSAMP -1"), 40, "TSAMP \"-1\": expected microseconds"),
        (DADA.to_owned(), 41, "truncated: 41 bytes of samples, expected a multiple of 4"),
        (format!("{DADA}HDR_SIZE 0"), 41, "truncated"),
    ];
    for (header, bytes, expected) in cases {
        let text = refusal(&[write("bad.dada", &dada(&header, 0, bytes))], any);
        assert!(text.contains(expected), "{text:?} says {expected:?}");
    }
    // Starts are exact below a second.
    for (cards, start) in [
        ("PICOSECONDS 250000001000\n", "2013-07-02T01:37:40.250000001Z"),
        ("PICOSECONDS 0\n", "2013-07-02T01:37:40Z"),
        ("PICOSECONDS 999999999600\n", "2013-07-02T01:37:41Z"),
        ("PICOSECONDS 250000000000\nOBS_OFFSET 400\n", "2013-07-02T01:37:40.25005Z"),
    ] {
        let path = write("start.dada", &dada(&format!("{DADA}{cards}"), 0, 40));
        let recording = format::open_raw(&[path], any).unwrap();
        assert_eq!(recording.start().unwrap().to_string(), start, "{cards}");
    }
    let fraction = DADA.replace("37:40", "37:40.5");
    for (header, expected) in [
        (format!("{DADA}PICOSECONDS 1000000000000\n"), "PICOSECONDS 1000000000000: expected less"),
        (format!("{fraction}PICOSECONDS 25\n"), "expected one of them"),
    ] {
        let text = refusal(&[write("bad.dada", &dada(&header, 0, 40))], any);
        assert!(text.contains(expected), "{text:?} says {expected:?}");
    }
    let long = dada(DADA, 0, 0)[..511].to_vec();
    assert!(refusal(&[write("short.dada", &long)], any).contains("expected a DADA header of 512"));
}

#[cfg(unix)]
#[test]
fn dada_comes_through_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for (bytes, keep_going) in [(400_000, false), (400_003, true)] {
        let header = DADA.replace("NBIT 8", "NBIT 16").replace("NDIM 2", "NDIM 1");
        let (path, file) = (pipe.clone(), dada(&header, 0, bytes));
        let writer = std::thread::spawn(move || fs::write(path, file));
        let options = Options { keep_going, ..Options::default() };
        let mut recording = format::open_raw(&[&pipe], options).unwrap();
        assert_eq!((recording.times(), recording.interval()), (u64::MAX, Some(0.5e-6)));
        let samples = read(&mut *recording, 1 << 15);
        writer.join().unwrap().unwrap();
        assert_eq!(samples[1].len(), 100_000);
        for (time, sample) in samples[1].iter().enumerate() {
            let code = i16::from_le_bytes([2, 3].map(|byte| (4 * time + byte) as u8));
            assert_eq!(*sample, Some(Complex::new(code.into(), 0.0)));
        }
    }
}

/// A beam of three channels of two polarisations.
fn description(encoding: Encoding) -> guppi::Description {
    guppi::Description {
        telescope: Some("a telescope #1".into()),
        source: None,
        start: "2026-03-01T12:00:00.25Z".parse().unwrap(),
        interval: 1e-5,
        first_channel: 1e9,
        channel_width: -1e5,
        channels: 3,
        polarisations: 2,
        encoding,
        times: u64::MAX,
    }
}

#[test]
fn dada_that_is_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.dada");
    for encoding in [Encoding::Ci4, Encoding::Ci8] {
        let description = description(encoding);
        let mut writer = dada::Writer::create(&path, &description).unwrap();
        // [channel][polarisation][time] of 3 and 2 times, around 1 that is missing.
        let bytes = |times: usize| -> Vec<u8> {
            (0..6 * times * encoding.bytes()).map(|at| (at * 37 + times) as u8).collect()
        };
        writer.append(&bytes(3)).unwrap();
        writer.append_missing(1).unwrap();
        writer.append(&bytes(2)).unwrap();
        writer.finish().unwrap();
        let mut found = format::open(&[&path], Options::default()).unwrap();
        let shape = found.shape();
        assert_eq!((found.times(), shape.inputs, shape.channels), (6, 2, 3));
        assert_eq!(found.start(), Some(description.start));
        assert!((found.interval().unwrap() - description.interval).abs() < 1e-20);
        let Some(Channels::Even { first, width }) = found.frequencies() else { panic!("even") };
        assert!((first - 1e9).abs() < 1.0 && (width + 1e5).abs() < 1e-3, "{first}, {width}");
        let mut block = Block::new();
        assert_eq!(found.read_block(10, &mut block).unwrap(), 6);
        for (time, samples) in block.samples.chunks_exact(12).enumerate() {
            let (within, times) = if time < 3 { (time, 3) } else { (time.saturating_sub(4), 2) };
            for (stream, parts) in samples.chunks_exact(2).enumerate() {
                let at = stream * times + within;
                let expected = match encoding {
                    _ if time == 3 => [0, 0],
                    Encoding::Ci4 => {
                        let packed = bytes(times)[at] as i8;
                        [packed >> 4, packed << 4 >> 4].map(|part| part as u8)
                    }
                    _ => [bytes(times)[2 * at], bytes(times)[2 * at + 1]],
                };
                assert_eq!(parts, expected, "time {time}, stream {stream}, {encoding}");
            }
        }
    }
}

#[test]
fn dada_of_no_recording_is_refused() {
    let refused = |change: fn(&mut guppi::Description)| {
        let mut description = description(Encoding::Ci8);
        change(&mut description);
        dada::Writer::create("x.dada", &description).unwrap_err().to_string()
    };
    assert!(refused(|of| of.encoding = Encoding::Cf16).contains("expected ci8 or ci4"));
    assert!(refused(|of| of.polarisations = 0).contains("at least 1 of each"));
    assert!(refused(|of| of.channels = 0).contains("at least 1 of each"));
}

#[test]
fn guppi_raw_of_4_and_16_bits() {
    let folder = tempfile::tempdir().unwrap();
    let (channels, times) = (3, 8);
    for (bits, encoding) in
        [(4, RawEncoding::from(Encoding::Ci4)), (8, Encoding::Ci8.into()), (16, RawEncoding::Ci16)]
    {
        let sample = bits / 4;
        let bytes = channels * times * 2 * sample;
        let cards = [
            format!("OBSNCHAN= {channels}"),
            "NPOL    = 4".to_owned(),
            format!("NBITS   = {bits}"),
            format!("BLOCSIZE= {bytes}"),
            "STT_IMJD= 56475".to_owned(),
            "STT_SMJD= 5860".to_owned(),
            "STT_OFFS= 0.25".to_owned(),
            "END".to_owned(),
        ];
        let mut file: Vec<u8> =
            cards.iter().flat_map(|card| format!("{card:80}").into_bytes()).collect();
        let start = file.len();
        file.extend((0..bytes).map(|byte| (byte * 37 + 11) as u8));
        let path = folder.path().join(format!("{bits}.raw"));
        fs::write(&path, &file).unwrap();
        let mut recording = format::open_raw(&[&path], Options::default()).unwrap();
        let layout = RawLayout::Nt;
        assert_eq!(recording.shape(), RawShape { inputs: 6, encoding, layout });
        assert_eq!(recording.start().unwrap().to_string(), "2013-07-02T01:37:40.25Z");
        for (input, samples) in read(&mut *recording, 5).iter().enumerate() {
            for (time, found) in samples.iter().enumerate() {
                // [channel][time][polarisation]; an input is a channel of a polarisation.
                let place = ((input / 2 * times + time) * 2 + input % 2) * sample;
                assert_eq!(*found, Some(encoding.decode(&file[start + place..], 0)));
            }
        }
        let channelised = format::open(&[&path], Options::default());
        match bits {
            16 => {
                let text = channelised.err().unwrap().to_string();
                assert!(text.contains("NBITS = 16: expected 2, 4 or 8"), "{text}");
            }
            _ => {
                let shape = channelised.unwrap().shape();
                assert_eq!(RawEncoding::from(shape.encoding), encoding);
                assert_eq!((shape.inputs, shape.channels), (2, 3));
            }
        }
    }
}
