//! FX correlation of every format of raw voltages: the bits of the same samples in a NumPy file, and exact counts
//! where some are missing.

use std::{fs, ops::Range, path::Path};

use ndarray::{Array2, Array3};

use command::{corrust, done, refused};

use crate::support::{command, files::guppi_header, tier};

const INPUTS: usize = 4;
const TIMES: usize = 60_000;

/// Channels, taps and spectra of a dump.
const FX: &str = "--channelise 32 --taps 4 --integrate 100 --level --device cpu --rate 1MHz";

/// Samples of a filter bank and from one spectrum to the next, of real samples and of complex ones.
const REAL: [usize; 2] = [4 * 64, 64];
const COMPLEX: [usize; 2] = [4 * 32, 32];

/// Which samples of all inputs a file leaves out.
type Lost = Option<Range<usize>>;

/// A recording in a format, of what `raw.npy` holds.
#[derive(Clone)]
struct Case {
    name: &'static str,
    /// Of `corrust simulate --raw`.
    simulate: &'static str,
    /// Format of its samples in `raw.npy`, and the file.
    write: fn(&Path, Lost) -> Vec<u8>,
    /// Options for values that the format does not have.
    options: &'static str,
    /// Samples, in whole blocks or frames.
    lost: Range<usize>,
    bank: [usize; 2],
}

const CASES: [Case; 5] = [
    Case {
        name: "scan.dada",
        simulate: "--encoding i8",
        write: dada,
        options: "",
        lost: 20_000..28_000,
        bank: REAL,
    },
    Case {
        name: "scan.raw",
        simulate: "--encoding ci8",
        write: guppi,
        options: "",
        lost: 20_000..30_000,
        bank: COMPLEX,
    },
    Case {
        name: "scan.m5b",
        simulate: "--encoding i8",
        write: mark5b,
        options: "--inputs 4 --near 2026-01-01",
        lost: 20_000..40_000,
        bank: REAL,
    },
    Case {
        name: "scan.vdif",
        simulate: "--encoding i8",
        write: vdif,
        options: "",
        lost: 20_000..24_000,
        bank: REAL,
    },
    Case {
        name: "turned.npy",
        simulate: "--encoding i16",
        write: numpy,
        options: "--raw-layout tn",
        lost: 0..0,
        bank: REAL,
    },
];

fn real(folder: &Path) -> Array2<i8> {
    ndarray_npy::read_npy(folder.join("raw.npy")).unwrap()
}

/// `[time][input]`, int8, in one file, or in two around what is lost.
fn dada(folder: &Path, lost: Lost) -> Vec<u8> {
    let samples = real(folder);
    let part = |range: Range<usize>| {
        let header = format!(
            "HDR_SIZE 4096\nNBIT 8\nNDIM 1\nNPOL {INPUTS}\nNCHAN 1\nTSAMP 1\n\
             UTC_START 2026-01-01-00:00:00\nOBS_OFFSET {}\n",
            range.start * INPUTS
        );
        let mut bytes = header.into_bytes();
        bytes.resize(4096, 0);
        bytes.extend(range.flat_map(|time| samples.column(time).to_vec()).map(|x| x as u8));
        bytes
    };
    let Some(lost) = lost else { return part(0..TIMES) };
    fs::write(folder.join("second.dada"), part(lost.end..TIMES)).unwrap();
    part(0..lost.start)
}

/// Blocks of 10,000 times of 2 channels of 2 polarisations, int8 pairs.
fn guppi(folder: &Path, lost: Lost) -> Vec<u8> {
    const BLOCK: usize = 10_000;
    let samples: Array3<i8> = ndarray_npy::read_npy(folder.join("raw.npy")).unwrap();
    let lost = lost.unwrap_or(0..0);
    let block = |first: usize| {
        let cards = [
            ("OBSNCHAN", "2".to_owned()),
            ("NPOL", "4".to_owned()),
            ("NBITS", "8".to_owned()),
            ("BLOCSIZE", (BLOCK * INPUTS * 2).to_string()),
            ("PKTSIZE", "8".to_owned()),
            ("PKTIDX", first.to_string()),
            ("TBIN", "1e-6".to_owned()),
        ];
        let mut bytes = guppi_header(&cards);
        for channel in 0..2 {
            for time in first..first + BLOCK {
                for polarisation in 0..2 {
                    let pair = samples.slice(ndarray::s![2 * channel + polarisation, time, ..]);
                    bytes.extend(pair.iter().map(|&x| x as u8));
                }
            }
        }
        bytes
    };
    (0..TIMES).step_by(BLOCK).filter(|first| !lost.contains(first)).flat_map(block).collect()
}

/// Codes of two bits, in VDIF's order, whose levels become the levels of `raw.npy`.
fn codes(folder: &Path) -> Array2<u8> {
    let samples = real(folder);
    let codes = samples.mapv(|x| (x.div_euclid(20)).clamp(-2, 1) + 2);
    let level = |code: i8| [-3.3165_f32, -1.0, 1.0, 3.3165][code as usize];
    ndarray_npy::write_npy(folder.join("raw.npy"), &codes.mapv(level)).unwrap();
    codes.mapv(|code| code as u8)
}

/// Frames of 10,000 times of all inputs, 2 bits.
fn mark5b(folder: &Path, lost: Lost) -> Vec<u8> {
    const FRAME: usize = 10_000;
    let (codes, lost) = (codes(folder), lost.unwrap_or(0..0));
    let frame = |number: usize| {
        // Day 41 of 1000 is 2026-01-01.
        let tenths = u32::try_from(number * 100).unwrap();
        let decimal =
            (0..4).rev().fold(0, |code, digit| (code << 4) | (tenths / 10_u32.pow(digit) % 10));
        let words = [0xabad_deed, number as u32, 0x0410_0000, decimal << 16];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        for time in number * FRAME..(number + 1) * FRAME {
            // Sign low, magnitude high.
            let swapped = |input: usize| codes[[input, time]] << 1 & 2 | codes[[input, time]] >> 1;
            bytes.push((0..INPUTS).fold(0, |byte, input| byte | swapped(input) << (2 * input)));
        }
        bytes
    };
    let frames = (0..TIMES / FRAME).filter(|number| !lost.contains(&(number * FRAME)));
    frames.flat_map(frame).collect()
}

/// Frames of 4000 times of a thread for each input, 2 bits, in no order.
fn vdif(folder: &Path, lost: Lost) -> Vec<u8> {
    const FRAME: usize = 4000;
    let (codes, lost) = (codes(folder), lost.unwrap_or(0..0));
    let frame = |(number, thread): (usize, usize)| {
        let (words, bits) = ((32 + FRAME / 4) as u32 / 8, 1 << 26);
        let header = [0, 52 << 24 | number as u32, words, bits | (thread as u32) << 16, 0, 0, 0, 0];
        let mut bytes: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
        let row = codes.row(thread);
        let times = row.as_slice().unwrap()[number * FRAME..(number + 1) * FRAME].chunks(4);
        let packed = times.map(|codes| codes.iter().rev().fold(0, |byte, code| byte << 2 | code));
        bytes.extend(packed);
        bytes
    };
    let frames = (0..TIMES / FRAME).filter(|number| !lost.contains(&(number * FRAME)));
    let turned = |number| (0..INPUTS).map(move |thread| (number, (thread + number) % INPUTS));
    frames.flat_map(turned).flat_map(frame).collect()
}

/// `[time][input]`, int16.
fn numpy(folder: &Path, _: Lost) -> Vec<u8> {
    let samples: Array2<i16> = ndarray_npy::read_npy(folder.join("raw.npy")).unwrap();
    let turned = samples.t().as_standard_layout().into_owned();
    ndarray_npy::write_npy(folder.join("turned.npy"), &turned).unwrap();
    fs::read(folder.join("turned.npy")).unwrap()
}

#[test]
fn every_format_gives_the_bits_of_a_numpy_file() {
    for Case { name, simulate, write, options, .. } in CASES {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let size = format!("--inputs {INPUTS} --times {TIMES}");
        done(folder, &format!("simulate --raw -o raw.npy {size} {simulate}"));
        fs::write(folder.join(name), write(folder, None)).unwrap();
        done(folder, &format!("correlate raw.npy {FX} -o a.npy"));
        let said = done(folder, &format!("correlate {name} {options} {FX} -o b.npy"));
        assert!(said.contains("4 inputs x 32 channels"), "{name}: {said}");
        let [a, b] = ["a.npy", "b.npy"].map(|name| fs::read(folder.join(name)).unwrap());
        assert_eq!(a, b, "{name}");
    }
}

#[test]
fn what_is_lost_is_counted() {
    for Case { name, simulate, write, options, lost, bank } in CASES {
        if lost.is_empty() {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let size = format!("--inputs {INPUTS} --times {TIMES}");
        done(folder, &format!("simulate --raw -o raw.npy {size} {simulate}"));
        fs::write(folder.join(name), write(folder, Some(lost.clone()))).unwrap();
        let more = if folder.join("second.dada").exists() { "second.dada" } else { "" };
        let fx = format!("correlate {name} {more} {options} {FX} -o v.npy --counts n.npy");
        let said = done(folder, &fx);
        assert!(said.contains("of the samples are missing ("), "{name}: {said}");
        let counts: Array2<u64> = ndarray_npy::read_npy(folder.join("n.npy")).unwrap();
        let [window, hop] = bank;
        let whole = |spectrum: &usize| {
            let first = spectrum * hop;
            first + window <= lost.start || first >= lost.end
        };
        let spectra = (TIMES - window) / hop + 1;
        assert_eq!(counts.nrows(), spectra / 100, "{name}");
        for (dump, counts) in counts.rows().into_iter().enumerate() {
            let expected = (100 * dump..100 * (dump + 1)).filter(whole).count() as u64;
            assert!(counts.iter().all(|&count| count == expected), "{name}, dump {dump}: {counts}");
        }
    }
}

/// Integers of any shape, the same for the same number.
fn numbers(count: usize) -> impl Iterator<Item = i32> {
    (0..count as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as i32)
}

/// Writes weights and shifts of 3 beams of dishes of some polarisations, and the dishes on a grid.
fn write_beams(folder: &Path, channels: usize, polarisations: usize) {
    let (beams, dishes) = (3, INPUTS / polarisations);
    let weights: Vec<i8> =
        numbers(channels * INPUTS * beams * 2).map(|n| (n % 16 - 8) as i8).collect();
    let axes = (channels, polarisations, beams, dishes, 2);
    let weights = ndarray::Array5::from_shape_vec(axes, weights).unwrap();
    ndarray_npy::write_npy(folder.join("w.npy"), &weights).unwrap();
    let shifts = Array3::from_elem((channels, polarisations, beams), 3_i32);
    ndarray_npy::write_npy(folder.join("s.npy"), &shifts).unwrap();
    let places = (0..dishes).map(|dish| format!("[{}, {}]", dish % 2, dish / 2));
    let places = places.collect::<Vec<_>>().join(", ");
    let grid = format!(r#"{{"rows": 2, "columns": 2, "dishes": [{places}]}}"#);
    fs::write(folder.join("grid.json"), grid).unwrap();
}

/// The spectra `[T][F][N][2]` of `spectra.npy` as voltages `[T][F][P][D][2]`.
fn part(folder: &Path, polarisations: usize) {
    let spectra: ndarray::Array4<i8> = ndarray_npy::read_npy(folder.join("spectra.npy")).unwrap();
    let (times, channels, inputs, _) = spectra.dim();
    let axes = (times, channels, polarisations, inputs / polarisations, 2);
    ndarray_npy::write_npy(folder.join("e.npy"), &spectra.into_shape_with_order(axes).unwrap())
        .unwrap();
}

/// Powers and beams of raw voltages are, bit for bit, those of the spectra that `channelise` writes: with delays, flags and
/// lost samples, on every device.
#[test]
fn powers_and_beams_of_raw_voltages_are_those_of_their_spectra() {
    const INPUTS_OF: &str = r#""inputs": [[0, "X"], [1, "X"], [0, "Y"], [1, "Y"]]"#;
    const SKY: &str = "--sky-frequency 1.4GHz";
    let delays = format!("--delays d.json {SKY}");
    let flags = "--flag sk --sk-times 32 --false-alarm 0.1 --flags f.npy --kurtosis k.npy";
    let outputs = ["p.npy", "p.fil", "i.npy", "b.npy", "n.npy", "b.1.fil", "g.npy"];
    let [dada, guppi, mark5b, vdif, numpy] = CASES;
    // The simulator takes few samples.
    let all = [
        (&vdif, TIMES, "cpu", &delays[..], flags),
        (&guppi, TIMES, "cpu", "--output-layout cnt", flags),
        (&mark5b, TIMES, "cpu", "", flags),
        (&dada, TIMES, "cpu", &delays, ""),
        (&numpy, 6000, "sim", "--output-layout cnt", flags),
        (&numpy, 6000, "sim", "--oversample 4/3", flags),
    ];
    for (case, times, device, bank, flagged) in tier::cases("sim", &all, 3) {
        let Case { name, simulate, write, options, lost, bank: [window, mut hop] } = case.clone();
        if bank.contains("4/3") {
            hop = hop / 4 * 3;
        }
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let size = format!("--inputs {INPUTS} --times {times}");
        done(folder, &format!("simulate --raw -o raw.npy {size} {simulate}"));
        fs::write(folder.join(name), write(folder, (!lost.is_empty()).then_some(lost))).unwrap();
        let more = if folder.join("second.dada").exists() { "second.dada" } else { "" };
        fs::write(folder.join("d.json"), r#"{"delays": [0, 3.2e-6, -1.7e-6, 2.5e-5]}"#).unwrap();
        write_beams(folder, 32, 2);
        // Spectra are centred on the window, and complex samples have 0 Hz in the middle.
        let width = 1e6 / (window / 4) as f64;
        let first = 1.4e9 - if window == COMPLEX[0] { 16.0 * width } else { 0.0 };
        let array = |name: &str, microseconds: usize, more: &str| {
            let start = format!("2026-01-01T00:00:00.{microseconds:06}Z");
            let text = format!(r#"{{"start": "{start}", {INPUTS_OF}{more}}}"#);
            fs::write(folder.join(name), text).unwrap();
        };
        array("raw.json", 0, "");
        let spectra = format!(
            r#", "first_channel": {first}, "channel_width": {width}, "sample_time": {hop}e-6"#
        );
        array("spectra.json", (window - hop) / 2, &spectra);

        let raw = format!("{name} {more} {options} --rate 1MHz --taps 4 --level {bank}");
        let channelise = format!("channelise {raw} --channels 32 --device {device} -o spectra.npy");
        done(folder, &format!("{} {flagged}", channelise.replace("cnt", "tcn")));
        let judged = || ["f.npy", "k.npy"].map(|name| fs::read(folder.join(name)).ok());
        let made = |powers: &str, beams: &str, array: &str| {
            for run in [
                format!("filterbank {powers} --integrate 10 -o p.npy"),
                format!("filterbank {powers} --integrate 10 -o p.fil --input 0,3 {array}"),
                format!("filterbank {powers} --integrate 10 -o i.npy --stokes IQUV {array}"),
                format!("{beams} -o b.npy --output-encoding ci8 --incoherent n.npy"),
                format!("{beams} -o b.fil --beam 1,2 --bits 16 --integrate 7 {array}"),
                format!("{beams} -o g.npy --integrate 8 --grid-kernel exact"),
            ] {
                let given = match run.contains("-o g.npy") {
                    true => "--grid grid.json",
                    false if run.starts_with("beamform") => "--weights w.npy --shifts s.npy",
                    false => "",
                };
                // Without delays only outputs with times use the sky's frequency.
                let sky = run.contains(".fil") && run.contains("--channelise") && bank != delays;
                done(folder, &format!("{run} {given} {}", if sky { SKY } else { "" }));
            }
            outputs.map(|name| fs::read(folder.join(name)).unwrap())
        };
        part(folder, 2);
        let of_spectra = judged();
        let expected = made(
            "spectra.npy",
            &format!("beamform e.npy --device {device}"),
            "--array spectra.json",
        );
        let way = format!("{raw} --channelise 32 {flagged} --device {device}");
        let found = made(&way, &format!("beamform {way}"), "--array raw.json");
        for ((found, expected), output) in found.iter().zip(&expected).zip(outputs) {
            assert!(found == expected, "{name} {output}");
        }
        assert_eq!(judged(), of_spectra, "{name}");
        assert_eq!(of_spectra[0].is_some(), !flagged.is_empty(), "{name}");
    }
}

/// Raw voltages that say all themselves need no array file; what has no effect or does not fit is refused in one sentence.
#[test]
fn options_of_raw_voltages_belong_to_channelise() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(
        folder,
        &format!("simulate --raw -o raw.npy --encoding i8 --inputs {INPUTS} --times {TIMES}"),
    );
    fs::write(folder.join("scan.dada"), dada(folder, None)).unwrap();
    write_beams(folder, 32, 1);
    let powers = "filterbank scan.dada -o p.fil --channelise 32";
    done(folder, &format!("{powers} --sky-frequency 1.4GHz"));
    let beams = "beamform raw.npy --weights w.npy --shifts s.npy -o b.npy";
    for (run, expected) in [
        (
            powers.to_owned(),
            "scan.dada: does not say its frequencies: expected --sky-frequency, or --array ARRAY.json",
        ),
        (
            powers.replace("scan.dada", "raw.npy"),
            "raw.npy: does not say its frequencies, start, sample time: expected --sky-frequency, --start, --rate, or",
        ),
        (
            format!("{powers} --raw-bits 2"),
            "bits 2 of DADA: expected it only of Mark 5B, which does not say (--raw-bits)",
        ),
        ("filterbank spectra.npy -o p.fil --taps 4".to_owned(), "--channelise"),
        (format!("{powers} --layout cnt"), "--layout"),
        (powers.replace("p.fil", "none/p.fil"), "none"),
        (format!("{beams} --level"), "--channelise"),
        (format!("{beams} --keep-going"), "--channelise"),
        (
            beams.replace("raw.npy", "raw.npy scan.dada"),
            "a second file: expected one, or --channelise",
        ),
        (
            format!("{beams} --channelise 64"),
            "weights of shape [32, 1, 3, 4, 2]: expected [64, 1, 3, 4, 2]",
        ),
        (
            format!("{beams} --channelise 32 --spectrum-encoding ci4-offset"),
            "beams of ci4-offset samples",
        ),
        (format!("{beams} --channelise 32 --spectrum-encoding cf32"), "cf32: expected"),
    ] {
        let said = refused(folder, &run);
        assert!(said.contains(expected), "{run}: {said}");
        assert_eq!(said.lines().count(), 1, "{run}: {said}");
        for output in ["p.npy", "b.npy"] {
            assert!(!folder.join(output).exists(), "{run} left {output}");
        }
    }
}

#[test]
fn rates_and_starts_that_contradict_each_other_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --raw -o raw.npy --inputs 4 --times 60000 --sky-frequency 100MHz");
    for Case { name, write, .. } in CASES.into_iter().filter(|case| case.simulate.ends_with(" i8"))
    {
        fs::write(folder.join(name), write(folder, None)).unwrap();
        done(folder, "simulate --raw -o raw.npy --inputs 4 --times 60000 --sky-frequency 100MHz");
    }
    let mut array: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("raw.json")).unwrap()).unwrap();
    array["start"] = "2026-01-01T00:00:05Z".into();
    fs::write(folder.join("late.json"), array.to_string()).unwrap();
    let fx = "--channelise 32 --taps 4 --device cpu --sky-frequency 100MHz -o x.uvh5";
    let said = |arguments: &str| {
        let text = done(folder, &format!("correlate {arguments} {fx}"));
        let contradictions = text.lines().filter(|line| line.ends_with("the former counts"));
        contradictions.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(said("scan.dada --array raw.json"), [""; 0]);
    assert_eq!(said("scan.dada --array raw.json --rate 1MHz --start 2026-01-01"), [""; 0]);
    let found = said("scan.dada --array late.json --rate 2MHz --start 2026-01-01T00:00:09");
    let expected = [
        "scan.dada: a rate of 2000000 Hz as given, where TSAMP says 1000000 Hz: the former counts",
        "scan.dada: starts at 2026-01-01T00:00:09Z (--start), where the array file has \
         2026-01-01T00:00:05Z: the former counts",
        "scan.dada: starts at 2026-01-01T00:00:09Z (--start), where the recording has \
         2026-01-01T00:00:00Z: the former counts",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.ends_with(expected), "{found}");
    }
    let found = said("scan.vdif --rate 1MHz --array late.json");
    assert!(
        found.len() == 1 && found[0].contains("(array file), where the recording"),
        "{found:?}"
    );

    // Options give values that the recording does not have; values that neither has are asked for.
    let info = |arguments: &str| done(folder, &format!("info --quick {arguments}"));
    for (recording, rate) in [
        ("raw.npy --rate 3MHz", "3.00 MHz"),
        ("scan.dada --rate 3MHz", "3.00 MHz"),
        ("scan.dada", "1.00 MHz"),
        ("scan.vdif", "not said: --rate says it"),
        ("scan.vdif --rate 3MHz", "3.00 MHz"),
    ] {
        let text = info(recording);
        assert!(text.contains(&format!("rate                 {rate}")), "{recording}: {text}");
    }
    let output = corrust(folder, "info --json --quick scan.dada --rate 3MHz");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = found["contradiction"].as_str().unwrap();
    assert!(said.ends_with(
        "a rate of 3000000 Hz as given, where TSAMP says 1000000 Hz: the former counts"
    ));
    assert!(String::from_utf8(output.stderr).unwrap().contains(said));
}

#[test]
fn frames_numbers_contradict_a_rate() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(
        folder,
        "simulate --raw -o scan.vdif --inputs 1 --times 120000 --rate 50kHz --encoding vdif-8",
    );
    // Without the header's word for the rate.
    let mut bytes = fs::read(folder.join("scan.vdif")).unwrap();
    let word = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
    let frame = 8 * (word & 0xff_ffff) as usize;
    bytes.chunks_exact_mut(frame).for_each(|frame| frame[16..32].fill(0));
    fs::write(folder.join("scan.vdif"), bytes).unwrap();
    let text = done(folder, "info scan.vdif");
    assert!(text.contains("rate                 50.0 kHz"), "{text}");
    let text = done(folder, "info scan.vdif --rate 100kHz");
    assert!(text.contains("100000 Hz as given, where frames' numbers show 50000 Hz"), "{text}");
}
