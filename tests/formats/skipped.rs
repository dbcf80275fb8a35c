//! Samples after times that were passed over equal a reading of all times, of frames lost,
//! repeated and late in several files, too; and input that writers and readers do not take gets a sentence.

use std::{fs, path::PathBuf};

use corrust::{
    Device, Encoding, Layout,
    autocorrelate::{Autocorrelator, State},
    correlate::{Shape, ValidCounts, Visibilities},
    delays::{DelayModel, Geometric},
    format::{
        self, Block, Options, RawShape, Recording,
        array::Array,
        uvh5,
        vdif::{Framer, Writer},
    },
    samples::RawEncoding,
};
use ndarray::Array2;
use num_complex::Complex;
use proptest::prelude::*;

const ENCODING: RawEncoding = RawEncoding::Vdif { bits: 2, complex: false };
const INPUTS: usize = 3;
/// Samples of a frame, one a second.
const SAMPLES: usize = 320;
/// Bytes of a frame: its header, and 2 bits a sample.
const FRAME: usize = 32 + SAMPLES / 4;

/// The frames of a recording, those of a time one input after the other.
fn frames(count: usize) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.vdif");
    let start = format::moment("2026-03-20T14:47:00Z").unwrap();
    let mut writer =
        Writer::create(&path, Framer::new(INPUTS, 1, ENCODING, SAMPLES as f64, start).unwrap())
            .unwrap();
    let value = |at: usize| ((at as u32).wrapping_mul(0x9e37_79b1) >> 30) as u8;
    let values: Vec<u8> =
        (0..INPUTS * count * SAMPLES).map(|at| value(at).wrapping_sub(2)).collect();
    writer.append(&values).unwrap();
    writer.finish().unwrap();
    let bytes = fs::read(path).unwrap();
    assert_eq!(bytes.len(), INPUTS * count * FRAME);
    bytes.chunks(FRAME).map(<[u8]>::to_vec).collect()
}

/// The samples of the next times, `[time][input]`; [`None`] is one that is missing.
fn next(recording: &mut dyn Recording<RawShape>, times: usize) -> Vec<Option<Complex<f32>>> {
    let mut block = Block::new();
    let count = recording.read_block(times, &mut block).unwrap();
    let view = block.raw(&recording.shape());
    let mut found: Vec<_> =
        (0..count * INPUTS).map(|at| Some(view.get(at % INPUTS, at / INPUTS))).collect();
    for gap in view.gaps() {
        for input in gap.inputs {
            gap.times.clone().for_each(|time| found[time * INPUTS + input] = None);
        }
    }
    found
}

/// Fate of a frame on its way to the disk.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Kept,
    Lost,
    Repeated,
    /// Written so many frames later.
    Late(usize),
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        6 => Just(Fate::Kept),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Repeated),
        2 => (1_usize..12).prop_map(Fate::Late),
    ];
    prop::collection::vec(fate, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_follows_is_what_reading_gives(
        fates in fates(),
        count in 3_usize..20,
        splits in prop::collection::btree_set(1_usize..60, 0..3),
        steps in prop::collection::vec((0_usize..2000, 1_usize..700), 1..8),
    ) {
        let whole = frames(count);
        // The first and last ones say what there is.
        let middle = INPUTS..INPUTS * (count - 1);
        let fate = |slot: usize| match middle.contains(&slot) {
            true => fates[slot % fates.len()],
            false => Fate::Kept,
        };
        let mut order: Vec<usize> = (0..whole.len()).collect();
        order.sort_by_key(|&slot| match fate(slot) {
            Fate::Late(frames) if slot + frames < middle.end => slot + frames,
            _ => slot,
        });
        let written: Vec<&[u8]> = order.iter().flat_map(|&slot| {
            let copies = match fate(slot) {
                Fate::Lost => 0,
                Fate::Repeated => 2,
                Fate::Kept | Fate::Late(_) => 1,
            };
            std::iter::repeat_n(&whole[slot][..], copies)
        }).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut paths: Vec<PathBuf> = Vec::new();
        let mut cuts: Vec<usize> = splits.into_iter().filter(|&cut| cut < written.len()).collect();
        cuts.push(written.len());
        let mut from = 0;
        for to in cuts {
            paths.push(folder.path().join(format!("scan.{:02}.vdif", paths.len())));
            fs::write(paths.last().unwrap(), written[from..to].concat()).unwrap();
            from = to;
        }
        let options = Options { rate: Some(SAMPLES as f64), long_gaps: true, ..Options::default() };
        let all = next(&mut *format::open_raw(&paths, options).unwrap(), count * SAMPLES);
        prop_assert_eq!(all.len(), count * SAMPLES * INPUTS);

        let mut recording = format::open_raw(&paths, options).unwrap();
        let mut position = 0;
        for (skipped, times) in steps {
            recording.skip(skipped as u64).unwrap();
            position = (position + skipped).min(count * SAMPLES);
            let end = (position + times).min(count * SAMPLES);
            let found = next(&mut *recording, times);
            prop_assert!(found == all[position * INPUTS..end * INPUTS], "times {position}..{end}");
            position = end;
        }
    }
}

#[test]
fn what_vdif_cannot_hold_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scan.vdif");
    let start = format::moment("2026-03-20T14:47:00Z").unwrap();
    let refusal = |inputs, encoding, rate, start: &str| {
        let start = format::moment(start).unwrap();
        Framer::new(inputs, 1, encoding, rate, start).unwrap_err().to_string()
    };
    let day = "2026-03-20";
    for (said, expected) in [
        (refusal(1, RawEncoding::I8, 1e3, day), "i8 in VDIF: expected one of its own encodings"),
        (refusal(0, ENCODING, 1e3, day), "0 inputs in VDIF: expected 1 to 1024, a thread each"),
        (refusal(1025, ENCODING, 1e3, day), "1025 inputs in VDIF"),
        (refusal(1, ENCODING, 0.5, day), "rate of 0.5 Hz in VDIF"),
        (refusal(1, ENCODING, 320.0, "1999-12-31"), "expected a whole second from 2000 on"),
        (refusal(1, ENCODING, 320.0, "2026-03-20T00:00:00.5Z"), "expected a whole second"),
    ] {
        assert!(said.contains(expected), "{said}");
    }
    assert!(!path.exists());

    // Samples of 16 bits have codes from 0 on.
    let encoding = RawEncoding::Vdif { bits: 16, complex: false };
    let mut writer =
        Writer::create(&path, Framer::new(1, 1, encoding, 4.0, start).unwrap()).unwrap();
    let values = [-32768_i16, -1, 0, 32767];
    writer.append(&[]).unwrap();
    writer.append(&values.map(i16::to_le_bytes).concat()).unwrap();
    writer.finish().unwrap();
    let bytes = fs::read(&path).unwrap();
    let codes = bytes[32..].as_chunks().0.iter().map(|&code| u16::from_le_bytes(code));
    assert_eq!(codes.collect::<Vec<_>>(), [0, 0x7fff, 0x8000, 0xffff]);
}

/// A range that is all missing is zero, and says so.
#[test]
fn a_block_can_be_all_missing() {
    for (layout, encoding) in [(Layout::Tcn, Encoding::Ci4Offset), (Layout::Cnt, Encoding::Ci8)] {
        let shape = Shape { inputs: 2, channels: 3, encoding, layout };
        let block = Block::missing(&shape, 5).unwrap();
        assert_eq!(block.missing_within(&(0..5)), 5);
        let zero = encoding.zero();
        assert_eq!(block.samples.len(), 2 * 3 * 5 * zero.len());
        assert!(block.samples.chunks(zero.len()).all(|sample| sample == zero));
    }
    let shape = Shape { inputs: 1, channels: 1, encoding: Encoding::Ci8, layout: Layout::Tcn };
    assert_eq!(Block::missing(&shape, 0).unwrap().missing_within(&(0..1)), 0);
}

#[test]
fn dumps_and_delays_that_are_not_there_are_refused() {
    let array = Array::parse(include_str!("../corpus/array/whole")).unwrap();
    let shape = Shape { inputs: 4, channels: 3, encoding: Encoding::Ci8, layout: Layout::Tcn };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scan.uvh5");
    let mut writer = uvh5::Writer::create(&path, &array, &shape).unwrap();
    let sums = Visibilities::Integer(Array2::from_elem((3, 10), Complex::new(3, -4)));
    writer.append(&sums, &ValidCounts::Complete(8), 0, 8).unwrap();
    writer.finish().unwrap();
    let reader = uvh5::Reader::open(&path).unwrap();
    reader.read(0).unwrap();
    assert!(reader.read(1).unwrap_err().to_string().contains("dump 1: expected one below 1"));

    let delays = Geometric::of(&array, 4, None).unwrap();
    assert_eq!((delays.inputs(), delays.delay(4, 0.0), delays.longest(4)), (4, None, 0.0));
    for input in 0..4 {
        for hour in 0..24 {
            let delay = delays.delay(input, 3600.0 * f64::from(hour)).unwrap();
            assert!(delay.abs() <= delays.longest(input), "{delay} s of input {input}");
        }
    }
    let refusal =
        |from, to, tolerance| delays.polynomials(from..to, tolerance).unwrap_err().to_string();
    assert!(refusal(5.0, 5.0, 1e-12).contains("expected an end after the start"));
    assert!(refusal(0.0, 1e12, 1e-12).contains("expected times of 1900 to 2099"));
    assert!(refusal(0.0, 1.0, 0.0).contains("expected a positive tolerance"));
    assert!(refusal(0.0, 1.0, f64::NAN).contains("expected a positive tolerance"));

    // Authors of a model need not know.
    struct Still;
    impl DelayModel for Still {
        fn delay(&self, _: usize, _: f64) -> Option<f64> {
            Some(0.0)
        }
    }
    assert_eq!((Still.delay(0, 0.0), Still.longest(0)), (Some(0.0), f64::INFINITY));
}

/// CRC-32 of IEEE 802.3, bit by bit.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
    let crc = |crc: u32, &byte: &u8| (0..8).fold(crc ^ u32::from(byte), step);
    (!bytes.iter().fold(!0, crc)).to_le_bytes()
}

/// Numbers that no counts give are refused, though the checksum is theirs.
#[test]
fn states_that_no_counts_lead_to_are_refused() {
    let builder = || Autocorrelator::builder(1).groups(2).lags(2).device(Device::Cpu);
    let mut plan = builder().build().unwrap();
    plan.accumulate(&[1_u8, 2, 3]).unwrap();
    let state = plan.state().unwrap();
    let said = |bytes: Vec<u8>| {
        let (content, _) = bytes.split_last_chunk::<4>().unwrap();
        let bytes = [content, &checksum(content)].concat();
        State::from_bytes(&bytes).map(|_| ()).map_err(|error| error.to_string())
    };
    let bytes = state.to_bytes();
    said(bytes.clone()).unwrap();
    // Each 32-bit word in turn is too large for what it is.
    let line = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let mut found = Vec::new();
    for word in (line..bytes.len() - 4).step_by(4) {
        let mut changed = bytes.clone();
        changed[word..word + 4].fill(0xff);
        if let Err(error) = said(changed) {
            found.push(error);
        }
    }
    for what in
        ["sensor 4294967295", "a total of", "a partial bin of", "a bin of", "a first sum of"]
    {
        assert!(found.iter().any(|error| error.contains(what)), "{what}: {found:?}");
    }
    let text = String::from_utf8_lossy(&bytes[..line]).into_owned();
    let renamed =
        |from: &str, to: &str| [text.replace(from, to).as_bytes(), &bytes[line..]].concat();
    let most = renamed("\"instants\":3", "\"instants\":18446744073709551615");
    assert!(
        said(most).unwrap_err().contains("with instants 18446744073709551615: expected at most")
    );

    // Rows of digits that are not a pair's.
    let wide = state.widened();
    assert_eq!((wide.is_wide(), wide.instants(), wide.pairs()), (true, 3, vec![[0, 0]]));
    assert!(wide.clone().widened() == wide);
    let mut bytes = wide.to_bytes();
    said(bytes.clone()).unwrap();
    let line = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    bytes[line..line + 8].fill(0);
    assert!(said(bytes).unwrap_err().contains("whose rows are not those of digits"));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sums.state");
    wide.save(&path).unwrap();
    assert!(State::load(&path).unwrap() == wide);
    fs::write(&path, "no state").unwrap();
    let error = State::load(&path).unwrap_err().to_string();
    assert!(error.contains("sums.state: starts with \"no state\""), "{error}");
}
