//! Any bytes, and files of which some bytes are others, are read or refused in one sentence: nothing panics.

use std::fs;

use corrust::{
    Encoding, Layout,
    correlate::{Shape, ValidCounts, Visibilities, baselines},
    delays::{DelayModel, Polynomials},
    format::{self, AnyRecording, Block, Options, Recording, array::Array, uvh5},
};
use num_complex::Complex;
use proptest::{prelude::*, test_runner::TestRunner};

use crate::support::files::guppi_header;

const ARRAY: &str = r#"{"telescope": "example",
    "location": {"latitude": -30.7, "longitude": 21.4, "altitude": 1050},
    "antennas": [{"name": "a", "number": 3, "position": [0, 0, 0]}, {"position": [30, 0, 0]}],
    "inputs": [[0, "X"], [1, "X"], [0, "Y"], [1, "Y"]],
    "first_channel": 1e8, "channel_width": 1e5, "start": "2026-03-01T00:00:00Z", "sample_time": 1e-5,
    "phase_center": {"name": "zenith", "ra": 12.5, "dec": -30.7}, "dut1": 0.1,
    "pointings": [[0, 0, 1], [180, 45]]}"#;

/// Reads some of a recording; errors are sentences.
fn drain<S>(mut recording: Box<dyn Recording<S>>) {
    recording.facts();
    assert!(recording.contradiction().is_none_or(|said| !said.contains('\n')));
    recording.start();
    recording.frequencies();
    let mut block = Block::new();
    for _ in 0..20 {
        match recording.read_block(50, &mut block) {
            Ok(0) => break,
            Ok(times) => assert!(times <= 50 && block.times == times),
            Err(error) => return is_sentence(&error),
        }
    }
}

fn is_sentence(error: &corrust::Error) {
    assert!(!error.to_string().contains('\n'), "{error}");
}

#[test]
fn what_is_changed_is_read_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scan");
    let times = |bytes: Vec<u8>| {
        fs::write(&path, bytes).unwrap();
        format::open_raw(&[&path], Options::default()).unwrap().times()
    };
    assert_eq!(times(dada()), 100);
    assert_eq!(times(vdif(8, false, true)), 8 * 32);
    assert_eq!(times(vdif(1, true, false)), 8 * 128);
    assert_eq!(times(guppi(8, true)), 4 * 16);
    fs::write(&path, DELAYS).unwrap();
    let start = Some(format::moment("2026-03-01").unwrap());
    assert_eq!(Polynomials::read(&path, start).unwrap().inputs(), 2);
}

/// Opens a file of these bytes as whatever it may be.
fn read(bytes: &[u8], options: Options) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scan");
    fs::write(&path, bytes).unwrap();
    let paths = [path];
    match format::open_any(&paths, options) {
        Ok(AnyRecording::Raw(recording)) => drain(recording),
        Ok(AnyRecording::Channels(recording)) => drain(recording),
        Err(error) => is_sentence(&error),
    }
    match format::open_raw(&paths, options) {
        Ok(recording) => drain(recording),
        Err(error) => is_sentence(&error),
    }
    match format::open(&paths, options) {
        Ok(recording) => drain(recording),
        Err(error) => is_sentence(&error),
    }
}

fn samples(count: usize) -> impl Iterator<Item = u8> {
    (0..count).map(|at| (at * 37 + at / 256) as u8)
}

fn dada() -> Vec<u8> {
    let header = "HDR_VERSION 1.0\nHDR_SIZE 512\nNBIT 8\nNDIM 2\nNPOL 2\nNCHAN 3\nORDER TFP\n\
                  TSAMP 0.5\nUTC_START 2026-03-01-00:00:00\nOBS_OFFSET 0\nFREQ 1400\nBW -3 # MHz\n";
    let mut bytes = header.as_bytes().to_vec();
    bytes.resize(512, 0);
    bytes.extend(samples(1200));
    bytes
}

fn mark5b() -> Vec<u8> {
    let frame = |number: u32| {
        let words = [0xabad_deed, number, 0x8211_9801, 0];
        let header = words.into_iter().flat_map(u32::to_le_bytes);
        header.chain(samples(10_000)).collect::<Vec<u8>>()
    };
    (0..4).flat_map(frame).collect()
}

/// Frames of two threads of two channels: of two seconds, or of a part of one where headers say the rate.
fn vdif(bits: u32, complex: bool, says_rate: bool) -> Vec<u8> {
    let kilohertz = 64 * 8 / (2 * bits * (1 + u32::from(complex)));
    let frame = |(number, thread): (u32, u32)| {
        let (second, extended) = match says_rate {
            true => (number / 100, [1 << 24 | kilohertz, 0xacab_feed, 0, 0]),
            false => (number / 4, [0; 4]),
        };
        let kind = u32::from(complex) << 31 | (bits - 1) << 26 | thread << 16 | 0x4566;
        let number = number - second * 4;
        let header = [1000 + second, 44 << 24 | number, 1 << 29 | 1 << 24 | 12, kind];
        let header = header.into_iter().chain(extended).flat_map(u32::to_le_bytes);
        header.chain(samples(64)).collect::<Vec<u8>>()
    };
    (0..8).flat_map(|number| [(number, 0), (number, 1)]).flat_map(frame).collect()
}

/// Three blocks with a gap before the last.
fn guppi(bits: u32, direct: bool) -> Vec<u8> {
    let block = |packet: u32| {
        let times = 1024 / (2 * 2 * 2 * bits);
        let cards = [
            ("BACKEND", "'GUPPI   '".to_owned()),
            ("OBSNCHAN", "2".to_owned()),
            ("NPOL", "4".to_owned()),
            ("NBITS", bits.to_string()),
            ("BLOCSIZE", "128".to_owned()),
            ("PKTSIZE", (128 / times).to_string()),
            ("PKTIDX", (packet * times).to_string()),
            ("TBIN", "0.001".to_owned()),
            ("OBSFREQ", "1400.0".to_owned()),
            ("OBSBW", "-2.0".to_owned()),
            ("STT_IMJD", "61100".to_owned()),
            ("STT_SMJD", "43200".to_owned()),
            ("DIRECTIO", u32::from(direct).to_string()),
        ];
        let mut bytes = guppi_header(&cards);
        if direct {
            bytes.resize(bytes.len().next_multiple_of(512), b' ');
        }
        bytes.extend(samples(128));
        bytes
    };
    [0, 1, 3].into_iter().flat_map(block).collect()
}

const DELAYS: &str = r#"{"start": "2026-03-01T00:00:00Z", "delays": [1e-7,
    [{"start": 0, "end": 60, "coefficients": [1e-6, 2e-11]}, {"start": 60, "end": 120, "coefficients": [2e-6]}]]}"#;

fn numpy(descriptor: &str, shape: &str) -> Vec<u8> {
    let header = format!("{{'descr': '{descriptor}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{header:117}\n").into_bytes());
    bytes.extend(samples(480));
    bytes
}

/// Some bytes of a file are others: where, and what.
fn changes(most: usize) -> impl Strategy<Value = Vec<(usize, u8)>> {
    // Half of them where headers are.
    let place = prop_oneof![0_usize..600, any::<usize>()];
    // Digits make other numbers.
    let value = prop_oneof![any::<u8>(), b'0'..=b'9', Just(0), Just(0xff)];
    prop::collection::vec((place, value), 0..most)
}

fn changed(mut bytes: Vec<u8>, changes: &[(usize, u8)], cut: usize) -> Vec<u8> {
    let length = bytes.len();
    for &(place, value) in changes {
        bytes[place % length] = value;
    }
    // Most files keep their length.
    bytes.truncate(length - cut.saturating_sub(1000).min(length));
    bytes
}

/// A small UVH5 file.
fn visibilities() -> Vec<u8> {
    let array = Array::parse(ARRAY).unwrap();
    let (inputs, channels) = (4, 3);
    let shape = Shape { inputs, channels, encoding: Encoding::Ci8, layout: Layout::Tcn };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.uvh5");
    let sums = ndarray::Array2::from_elem((channels, baselines(inputs)), Complex::new(3_i64, -4));
    let mut file = uvh5::Writer::create(&path, &array, &shape).unwrap();
    for dump in 0..2 {
        let sums = Visibilities::Integer(sums.clone());
        file.append(&sums, &ValidCounts::Complete(8), 8 * dump, 8).unwrap();
    }
    file.finish().unwrap();
    fs::read(path).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn changed_dada_is_read_or_refused(
        changes in changes(6), cut in 0_usize..2500, keep_going: bool, long_gaps: bool,
    ) {
        read(&changed(dada(), &changes, cut), Options { keep_going, long_gaps, ..Options::default() });
    }

    #[test]
    fn changed_mark_5b_is_read_or_refused(
        changes in changes(6),
        cut in 0_usize..2500,
        (inputs, bits) in (0_usize..40, 0_u8..4),
        near in any::<bool>(),
    ) {
        let options = Options {
            inputs: Some(inputs),
            bits: Some(bits),
            near: near.then(|| format::moment("2014-06-13").unwrap()),
            long_gaps: near,
            ..Options::default()
        };
        read(&changed(mark5b(), &changes, cut), options);
    }

    #[test]
    fn changed_vdif_is_read_or_refused(
        bits in prop::sample::select(vec![1, 2, 4, 8, 16]),
        (complex, says_rate, keep_going, long_gaps) in any::<(bool, bool, bool, bool)>(),
        rate in prop::option::of(prop::sample::select(vec![1.0, 64.0, 2000.0, 1e6, 1e300])),
        changes in changes(6),
        cut in 0_usize..2500,
    ) {
        let options = Options { rate, keep_going, long_gaps, ..Options::default() };
        read(&changed(vdif(bits, complex, says_rate), &changes, cut), options);
    }

    #[test]
    fn changed_guppi_raw_is_read_or_refused(
        bits in prop::sample::select(vec![4, 8, 16]),
        (direct, keep_going, long_gaps) in any::<(bool, bool, bool)>(),
        changes in changes(6),
        cut in 0_usize..2500,
    ) {
        read(&changed(guppi(bits, direct), &changes, cut), Options { keep_going, long_gaps, ..Options::default() });
    }

    #[test]
    fn changed_delays_are_read_or_refused(
        changes in prop::collection::vec((any::<usize>(), "[-0-9a-zA-Z\"\\[\\]{}:,.]"), 0..5),
        start: bool,
    ) {
        let mut text: Vec<char> = DELAYS.chars().collect();
        let length = text.len();
        for (place, character) in changes {
            text[place % length] = character.chars().next().unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.json");
        fs::write(&path, text.into_iter().collect::<String>()).unwrap();
        let start = start.then(|| format::moment("2026-03-01").unwrap());
        match Polynomials::read(&path, start) {
            Ok(delays) => {
                let inputs = 0..delays.inputs().min(5);
                assert!(inputs.filter_map(|input| delays.delay(input, 30.0)).all(f64::is_finite));
            }
            Err(error) => is_sentence(&error),
        }
    }

    #[test]
    fn changed_numpy_arrays_are_read_or_refused(
        descriptor in prop::sample::select(vec!["|i1", "<i2", "|u1", "<f2", "<f4", ">f4"]),
        shape in prop::sample::select(vec![
            "(4, 120)", "(4, 60)", "(4, 30)", "(4, 60, 2)", "(4, 30, 2)", "(4, 15, 2)",
            "(5, 3, 16, 2)", "(5, 3, 8, 2)", "(5, 6, 16)",
        ]),
        changes in changes(4),
        cut in 0_usize..1200,
        encoding in prop::option::of(prop::sample::select(Encoding::ALL.to_vec())),
    ) {
        let options = Options { encoding, ..Options::default() };
        read(&changed(numpy(descriptor, shape), &changes, cut), options);
    }

    #[test]
    fn changed_array_files_are_read_or_refused(
        changes in prop::collection::vec((any::<usize>(), "[-0-9a-zA-Z\"\\[\\]{}:,.]"), 0..5),
        inputs in 0_usize..6,
    ) {
        let mut text: Vec<char> = ARRAY.chars().collect();
        let length = text.len();
        for (place, character) in changes {
            text[place % length] = character.chars().next().unwrap();
        }
        match Array::parse(&text.into_iter().collect::<String>()) {
            Ok(array) => {
                for result in [array.inputs(inputs).map(drop), array.frequencies(inputs).map(drop)] {
                    result.unwrap_or_else(|error| is_sentence(&error));
                }
            }
            Err(error) => is_sentence(&error),
        }
    }

    #[test]
    fn any_text_is_no_panicking_array_file(text in "\\PC{0,200}") {
        drop(Array::parse(&text));
    }
}

/// A UVH5 file with bytes that are others is read or refused.
#[test]
fn changed_uvh5_is_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.uvh5");
    let whole = visibilities();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(300));
    let cut = prop_oneof![4 => Just(0), 1 => 0..whole.len()];
    let all = (changes(60), cut);
    runner
        .run(&all, |(changes, cut)| {
            fs::write(&path, changed(whole.clone(), &changes, cut + 1000)).unwrap();
            match uvh5::Reader::open(&path) {
                Ok(reader) => {
                    for dump in 0..reader.dumps().min(3) {
                        reader.read(dump).map_or_else(|error| is_sentence(&error), drop);
                    }
                }
                Err(error) => is_sentence(&error),
            }
            Ok(())
        })
        .unwrap();
}
