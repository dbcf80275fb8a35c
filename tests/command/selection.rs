//! Gates and time shifts at the command line: the files equal the oracle's plain loops over
//! streams that files and dumps cut, and bad numbers are refused.

use std::{fs, path::Path};

use command::{done, refused};
use corrust::{
    Encoding, Layout,
    format::npy::{Dtype, Writer},
};
use ndarray::{Array, ArrayD, Dimension, IxDyn};
use oracle::Block;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{command, oracle::correlate as oracle};

fn write<D: Dimension, T: ndarray_npy::WritableElement>(path: &Path, array: &Array<T, D>) {
    ndarray_npy::write_npy(path, array).unwrap();
}

fn numbers<T: ndarray_npy::WritableElement + Clone>(folder: &Path, name: &str, values: &[T]) {
    write(&folder.join(name), &ndarray::arr1(values));
}

/// Writes a block as a NumPy recording.
fn record(path: &Path, block: &Block) {
    let Block { inputs, channels, times, .. } = *block;
    let mut shape = match block.layout {
        Layout::Tcn => vec![times, channels, inputs],
        Layout::Cnt => vec![channels, inputs, times],
    };
    let dtype = match block.encoding {
        Encoding::Ci8 => {
            shape.push(2);
            Dtype::Int8
        }
        _ => Dtype::Uint8,
    };
    let mut writer = Writer::with_shape(path, dtype, &shape).unwrap();
    writer.write_at(0, &block.bytes).unwrap();
    writer.finish().unwrap();
}

const INPUTS: usize = 4;
const CHANNELS: usize = 2;
const TIMES: usize = 100;
const GATES: usize = 3;
const DUMP: usize = 30;

fn random(encoding: Encoding, layout: Layout) -> Block {
    let mut rng = StdRng::seed_from_u64(7);
    let size = encoding.bytes() * INPUTS * CHANNELS * TIMES;
    let bytes = (0..size).map(|_| rng.random()).collect();
    Block { inputs: INPUTS, channels: CHANNELS, times: TIMES, encoding, layout, bytes }
}

/// Compares one gate of one dump, and its counts, with plain loops over `times`.
fn compare(
    what: &str,
    found: &ArrayD<i64>,
    place: &[usize],
    times: impl Iterator<Item = usize> + Clone,
    sample: impl Fn(usize, usize, usize) -> Option<(f64, f64)>,
    count: impl Fn(usize) -> u64,
) {
    let expected = oracle::correlate(INPUTS, CHANNELS, times, sample);
    for (channel, row) in expected.iter().enumerate() {
        for (baseline, v) in row.iter().enumerate() {
            let part = |part| found[IxDyn(&[place, &[channel, baseline, part]].concat())];
            assert_eq!((part(0), part(1)), (v.re as i64, v.im as i64), "{what}");
            assert_eq!(count(baseline), v.count, "{what}: valid times");
        }
    }
}

#[test]
fn gates_and_shifts_are_what_plain_loops_give() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut rng = StdRng::seed_from_u64(1);
    // Times that are dropped, and a gate that the second dump has none of.
    let gates: Vec<u8> = (0..TIMES)
        .map(|time| [0, if time / DUMP == 1 { 0 } else { 1 }, 2, 255][rng.random_range(0..4)])
        .collect();
    let shifts = [0, 7, 99, 31];
    numbers(folder, "gates.npy", &gates.iter().map(|&gate| i64::from(gate)).collect::<Vec<_>>());
    numbers(folder, "shifts.npy", &shifts.map(|shift| shift as i32));

    for (encoding, layout) in [
        (Encoding::Ci8, Layout::Tcn),
        (Encoding::Ci8, Layout::Cnt),
        (Encoding::Ci4, Layout::Tcn),
        (Encoding::Ci4Offset, Layout::Cnt),
    ] {
        let block = random(encoding, layout);
        record(&folder.join("a.npy"), &block.cut(0, 37));
        record(&folder.join("b.npy"), &block.cut(37, TIMES));
        for (gated, shifted, length, partial) in [
            (true, false, DUMP, false),
            (false, true, DUMP, false),
            (true, true, DUMP, false),
            // Partial dumps of 1 time, of all but 1, and of 10.
            (true, false, 33, true),
            (false, true, TIMES + 1, true),
            (true, true, DUMP, true),
        ] {
            let what = format!("{encoding} {layout}, gates {gated}, shifts {shifted}, {length}");
            let mut arguments = format!(
                "correlate a.npy b.npy -o v.npy --counts n.npy --integrate {length} --device cpu \
                 --encoding {encoding} --layout {layout}"
            );
            if partial {
                arguments += " --keep-partial";
            }
            let dumps = if partial { TIMES.div_ceil(length) } else { TIMES / length };
            if gated {
                arguments += " --gates gates.npy";
            }
            if shifted {
                arguments += " --shifts shifts.npy";
            }
            let said = done(folder, &arguments);
            assert_eq!(said.contains(&format!("{dumps} dumps of 3 gates")), gated, "{said}");
            assert_eq!(said.contains("do not fill a dump"), !partial, "{said}");
            let left = TIMES - (dumps - 1) * length;
            let short = format!("the last dump has {left} time");
            assert_eq!(said.contains(&short), partial, "{said}");
            assert_eq!(said.contains("belong to no gate and are dropped"), gated, "{said}");

            let found: ArrayD<i64> = ndarray_npy::read_npy(folder.join("v.npy")).unwrap();
            let counts: ArrayD<u64> = ndarray_npy::read_npy(folder.join("n.npy")).unwrap();
            let gate_axis = if gated { &[GATES][..] } else { &[] };
            let baselines = INPUTS * (INPUTS + 1) / 2;
            let count_axis = if shifted { &[baselines][..] } else { &[] };
            assert_eq!(found.shape(), [&[dumps], gate_axis, &[CHANNELS, baselines, 2]].concat());
            assert_eq!(counts.shape(), [&[dumps], gate_axis, count_axis].concat());
            for dump in 0..dumps {
                for gate in 0..if gated { GATES } else { 1 } {
                    let times = (dump * length..((dump + 1) * length).min(TIMES))
                        .filter(|&time| !gated || usize::from(gates[time]) == gate);
                    let place = if gated { vec![dump, gate] } else { vec![dump] };
                    compare(
                        &what,
                        &found,
                        &place,
                        times,
                        |channel, input, time| {
                            let shift = if shifted { shifts[input] } else { 0 };
                            time.checked_sub(shift).map(|time| block.sample(channel, input, time))
                        },
                        |baseline| {
                            let last = shifted.then_some(baseline);
                            let index: Vec<usize> = place.iter().copied().chain(last).collect();
                            counts[IxDyn(&index)]
                        },
                    );
                }
            }
        }
    }
}

/// A GUPPI RAW block of 8 times, two polarisations, one channel, which is packet `index`.
fn block(index: u64, value: u8) -> Vec<u8> {
    let cards = [
        "OBSNCHAN= 1".to_owned(),
        "NPOL    = 4".to_owned(),
        "NBITS   = 8".to_owned(),
        "BLOCSIZE= 32".to_owned(),
        "PKTSIZE = 32".to_owned(),
        format!("PKTIDX  = {index}"),
        "END".to_owned(),
    ];
    let header: String = cards.iter().map(|card| format!("{card:80}")).collect();
    [header.into_bytes(), vec![value; 32]].concat()
}

/// [`refused`] in one sentence that says all of `expected`.
fn refused_saying(folder: &Path, arguments: &str, expected: &[&str]) {
    let text = refused(folder, arguments);
    for expected in expected {
        assert!(text.contains(expected), "{arguments}: {text:?} says {expected:?}");
    }
    assert_eq!(text.lines().count(), 1, "{arguments}: {text}");
}

#[test]
fn gaps_take_no_time_and_long_ones_are_asked_for() {
    const FAR: u64 = 16_000_000_000_000;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("scan.raw"), [block(0, 1), block(FAR, 255)].concat()).unwrap();
    let correlate = "correlate scan.raw -o v.npy --counts n.npy --device cpu";
    refused_saying(
        folder,
        correlate,
        &["PKTIDX = 16000000000000", "--long-gaps", "the 16 of all data"],
    );

    let start = std::time::Instant::now();
    let visibilities = |counts: &[u64]| {
        let found: ArrayD<i64> = ndarray_npy::read_npy(folder.join("v.npy")).unwrap();
        let sums: Vec<i64> = counts.iter().flat_map(|&count| [2 * count as i64, 0]).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), sums);
    };
    let valid = || {
        let found: ArrayD<u64> = ndarray_npy::read_npy(folder.join("n.npy")).unwrap();
        found.into_iter().collect::<Vec<_>>()
    };
    let said = done(folder, &format!("{correlate} --long-gaps"));
    assert!(
        said.contains("more than 99.9 % of the samples are missing (more than 99.9 % lost"),
        "{said}"
    );
    assert!(!said.contains("dropped"), "{said}");
    assert_eq!(valid(), [16]);
    visibilities(&[16; 3]);

    // The two dumps meet within the gap.
    done(folder, &format!("{correlate} --long-gaps --integrate {}", 4 * FAR + 4));
    assert_eq!(valid(), [8, 8]);
    visibilities(&[8; 6]);

    // Samples delayed into the gap are not lost: three samples before it are valid with themselves.
    numbers(folder, "shifts.npy", &[0_i64, 3]);
    done(folder, &format!("{correlate} --long-gaps --shifts shifts.npy"));
    assert_eq!(valid(), [16, 10, 13]);
    visibilities(&[16, 10, 13]);
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());

    // Gates count the times of a gap that is longer than a read.
    let times = 40_000_008_usize;
    let gates: Vec<u8> = (0..times).map(|time| [0, 1, 255][time / 4 % 3]).collect();
    numbers(folder, "gates.npy", &gates);
    fs::write(folder.join("scan.raw"), [block(0, 1), block(5_000_000, 255)].concat()).unwrap();
    let said = done(folder, &format!("{correlate} --long-gaps --gates gates.npy"));
    let dropped = gates.iter().filter(|&&gate| gate == 255).count();
    assert!(said.contains(&format!("{dropped} of {times} times belong to no gate")), "{said}");
    let there =
        |gate| (0..8).chain(times - 8..times).filter(|&time| gates[time] == gate).count() as u64;
    assert_eq!(valid(), [there(0), there(1)]);
    visibilities(&[[there(0); 3], [there(1); 3]].concat());

    // A gap of no more than the data needs no option.
    fs::write(folder.join("scan.raw"), [block(0, 1), block(3, 255)].concat()).unwrap();
    done(folder, correlate);
    assert_eq!(valid(), [16]);
}

#[test]
fn recordings_that_were_cut_short_are_read_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let whole = [block(0, 1), block(1, 255), block(2, 1)].concat();
    let correlate = "correlate scan.raw -o v.npy --device cpu";
    // In the last block's data, in its header, and just behind a header.
    for cut in [1, 31, 32, 33, 200, 591] {
        fs::write(folder.join("scan.raw"), &whole[..whole.len() - cut]).unwrap();
        refused_saying(folder, correlate, &["scan.raw: truncated", "--keep-going"]);
        let said = done(folder, &format!("{correlate} --keep-going"));
        assert!(said.contains("scan.raw: truncated"), "{said}");
        assert!(said.contains("the block is left out"), "{said}");
        assert!(said.contains("x 16 times"), "{said}");
    }
    // Another file's last block is followed by times: it is no end.
    fs::write(folder.join("more.raw"), block(3, 1)).unwrap();
    refused_saying(
        folder,
        "correlate scan.raw more.raw -o v.npy --keep-going",
        &["scan.raw: truncated"],
    );
    // Nothing is left.
    fs::write(folder.join("scan.raw"), &whole[..500]).unwrap();
    refused_saying(
        folder,
        &format!("{correlate} --keep-going"),
        &["no block: expected at least 1"],
    );
    // Files that are wrong in another way stay wrong.
    fs::write(folder.join("scan.raw"), [&whole[..], &[7; 80]].concat()).unwrap();
    refused_saying(folder, &format!("{correlate} --keep-going"), &["a card starts with"]);
}

#[test]
fn gates_and_shifts_are_integers_of_any_type() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o rec.npy --inputs 2 --channels 1 --times 6");
    let correlate = "correlate rec.npy -o v.npy --device cpu --gates gates.npy --shifts shifts.npy";
    let result = || fs::read(folder.join("v.npy")).unwrap();
    numbers(folder, "gates.npy", &[0_u8, 1, 2, 255, 1, 0]);
    numbers(folder, "shifts.npy", &[0_u8, 3]);
    done(folder, correlate);
    let expected = result();
    macro_rules! check {
        ($($integer:ty)*) => {$(
            numbers(folder, "gates.npy", &[0 as $integer, 1, 2, 255_u8 as $integer, 1, 0]);
            numbers(folder, "shifts.npy", &[0 as $integer, 3]);
            done(folder, correlate);
            assert_eq!(result(), expected, stringify!($integer));
        )*};
    }
    check!(u8 i16 u16 i32 u32 i64 u64);
    // The highest byte first.
    let file = |name: &str, descr: &str, values: &[u8]| {
        let text = format!(
            "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({},)}}\n",
            values.len() * 8 / descr[2..].parse::<usize>().unwrap() / 8
        );
        let bytes =
            [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes(), values];
        fs::write(folder.join(name), bytes.concat()).unwrap();
    };
    file("gates.npy", ">i2", &[0, 0, 0, 1, 0, 2, 0, 255, 0, 1, 0, 0]);
    file("shifts.npy", ">u4", &[0, 0, 0, 0, 0, 0, 0, 3]);
    done(folder, correlate);
    assert_eq!(result(), expected);

    numbers(folder, "gates.npy", &[0_i16, 1, 2, 256, 1, 0]);
    refused_saying(folder, correlate, &["gates.npy: gate number 256 at time 3: expected 0 to 254"]);
    numbers(folder, "gates.npy", &[0_f32; 6]);
    refused_saying(
        folder,
        correlate,
        &["gates.npy: elements of type float32: expected integers [T]"],
    );
    file("gates.npy", "<c8", &[0; 48]);
    refused_saying(
        folder,
        correlate,
        &["gates.npy: elements of type complex64: expected integers [T]"],
    );
}

#[test]
fn missing_times_are_delayed_with_their_samples() {
    // The second of three blocks is missing.
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("scan.raw"), [block(0, 1), block(2, 255)].concat()).unwrap();
    let gates: Vec<u8> = (0..24).map(|time| if time == 23 { 255 } else { time % 2 }).collect();
    numbers(folder, "gates.npy", &gates);
    numbers(folder, "shifts.npy", &[0_i64, 3]);
    done(
        folder,
        "correlate scan.raw -o v.npy --counts n.npy --gates gates.npy --shifts shifts.npy --device cpu",
    );
    let found: ArrayD<i64> = ndarray_npy::read_npy(folder.join("v.npy")).unwrap();
    let counts: ArrayD<u64> = ndarray_npy::read_npy(folder.join("n.npy")).unwrap();
    assert_eq!((found.shape(), counts.shape()), (&[1, 2, 1, 3, 2][..], &[1, 2, 3][..]));
    let there = |time: usize| !(8..16).contains(&time);
    let value = |time: usize| if time < 8 { 1_i64 } else { -1 };
    for gate in 0..2 {
        for (baseline, [i, j]) in [[0, 0], [1, 0], [1, 1]].into_iter().enumerate() {
            let (mut sum, mut count) = (0, 0);
            for time in (0..23_usize).filter(|time| time % 2 == gate) {
                let at = |input: usize| {
                    time.checked_sub([0, 3][input]).filter(|&time| there(time)).map(value)
                };
                if let (Some(a), Some(b)) = (at(i), at(j)) {
                    // Real and imaginary part are the same: (1 + i)(1 - i) = 2.
                    sum += 2 * a * b;
                    count += 1;
                }
            }
            assert_eq!(found[IxDyn(&[0, gate, 0, baseline, 0])], sum);
            assert_eq!(found[IxDyn(&[0, gate, 0, baseline, 1])], 0);
            assert_eq!(counts[IxDyn(&[0, gate, baseline])], count);
        }
    }
    // Without shifts, missing times are missing from their own gates.
    done(
        folder,
        "correlate scan.raw -o v.npy --counts n.npy --gates gates.npy --integrate 12 --device cpu",
    );
    let counts: ArrayD<u64> = ndarray_npy::read_npy(folder.join("n.npy")).unwrap();
    assert_eq!(counts.shape(), [2, 2]);
    let expected = [0, 12].map(|from: usize| {
        [0, 1].map(|gate| {
            (from..from + 12).filter(|&t| t < 23 && t % 2 == gate && there(t)).count() as u64
        })
    });
    assert_eq!(counts.iter().copied().collect::<Vec<_>>(), expected.concat());
}

#[test]
fn bad_gates_and_shifts_get_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    record(&folder.join("rec.npy"), &random(Encoding::Ci8, Layout::Tcn));
    let gates = |time: usize, number: i64| {
        let mut numbers = vec![0; TIMES];
        numbers[time] = number;
        numbers
    };
    numbers(folder, "many.npy", &gates(5, 256));
    numbers(folder, "minus.npy", &gates(99, -1));
    numbers(folder, "few.npy", &[0_u8; TIMES - 1]);
    numbers(folder, "none.npy", &[255_u8; TIMES]);
    numbers(folder, "float.npy", &[0.5_f32; TIMES]);
    write(&folder.join("square.npy"), &Array::<u8, _>::zeros((10, 10)));
    numbers(folder, "long.npy", &[0_i64, 1, 100, 0]);
    numbers(folder, "huge.npy", &[0_u64, 1, u64::MAX, 0]);
    numbers(folder, "back.npy", &[0_i32, -100, 0, 0]);
    numbers(folder, "apart.npy", &[60_i32, -40, 0, 0]);
    numbers(folder, "three.npy", &[0_i64; 3]);
    fs::write(folder.join("text.npy"), "0 1 2").unwrap();
    fs::write(folder.join("array.json"), r#"{"sample_time": 1e-3}"#).unwrap();
    let mut before: Vec<_> = fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    before.sort();
    for (arguments, expected) in [
        ("--gates many.npy", "many.npy: gate number 256 at time 5: expected 0 to 254, or 255 to"),
        ("--gates minus.npy", "minus.npy: gate number -1 at time 99: expected 0 to 254"),
        (
            "--gates few.npy",
            "few.npy: 99 numbers: expected 100, as many as the recording has times",
        ),
        ("--gates none.npy", "none.npy: only 255s: expected a time that is not dropped"),
        ("--gates float.npy", "float.npy: elements of type float32: expected integers [T]"),
        ("--gates square.npy", "square.npy: 2 axes"),
        ("--gates text.npy", "text.npy: truncated"),
        ("--gates missing.npy", "missing.npy: cannot read"),
        (
            "--shifts long.npy",
            "long.npy: shift 100 of input 2: expected -99 to 99, as the recording",
        ),
        ("--shifts huge.npy", "huge.npy: shift 18446744073709551615 of input 2: expected"),
        ("--shifts back.npy", "back.npy: shift -100 of input 1: expected -99 to 99"),
        ("--shifts apart.npy", "apart.npy: shifts from -40 to 60: expected them at most 99 apart"),
        ("--gate-bins 4", "--gate-bins 4: expected --gate-period or --gate-polyco"),
        (
            "--gate-bins 4 --gate-period 1ms",
            "--gate-period: the samples do not say how far times are apart: expected",
        ),
        (
            "--gate-bins 4 --gate-period 1ms --array array.json --dispersion 10",
            "--gate-period: the samples do not say the channels' frequencies: expected",
        ),
        (
            "--gate-bins 4 --gate-period 1ms --array array.json --gate-epoch 2026-01-01",
            "--gate-period: the samples do not say when they begin: expected",
        ),
        (
            "--gate-bins 300 --gate-period 1ms --array array.json",
            "300 gates of a period: expected 1 to 255",
        ),
        (
            "--gate-bins 3 --gate-polyco text.npy --array array.json",
            "text.npy: line 1: 3 words, expected at least 5 of a polyco file",
        ),
        #[cfg(unix)]
        (
            "--gate-bins 3 --gate-polyco /dev/zero --array array.json",
            "/dev/zero: too long: expected at most 16777216 bytes",
        ),
        (
            "--shifts three.npy",
            "three.npy: 3 numbers: expected 4, as many as the recording has inputs",
        ),
    ] {
        let text =
            refused(folder, &format!("correlate rec.npy -o out.npy {arguments} --device cpu"));
        assert!(text.contains(expected), "{arguments}: {text:?} says {expected:?}");
        assert_eq!(text.lines().count(), 1, "{text}");
        let mut after: Vec<_> = fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
        after.sort();
        assert_eq!(after, before, "{arguments}");
    }
    let text = refused(folder, "correlate rec.npy -o long.npy --shifts long.npy");
    assert!(text.contains("long.npy: is an input: expected another file to write"), "{text}");
}

/// Gates of a period and of a polyco, in each channel as late as dispersion makes them, and negative shifts: what plain
/// loops give, and as many valid samples of each channel.
#[test]
fn gates_of_a_period_are_what_plain_loops_give() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let block = random(Encoding::Ci8, Layout::Tcn);
    record(&folder.join("rec.npy"), &block);
    // 8 times a period; a delay of 2.987 times at 100 MHz, none at 10^9 MHz.
    let array =
        r#"{"sample_time": 1e-3, "frequencies": [1e15, 1e8], "start": "2026-09-07T01:00:00"}"#;
    fs::write(folder.join("array.json"), array).unwrap();
    let polyco = "\
0531+21     7-SEP-26   10000.00   61290.04166666666667           0.0072000  0.123 -7.412
           17.500000  125.000000000000    1   30    1     0.000
  0.00000000000000000D+00
";
    fs::write(folder.join("polyco.dat"), polyco).unwrap();
    let shifts = [-2_i64, 0, 5, -1];
    numbers(folder, "shifts.npy", &shifts);
    let bins = 4;
    for (options, half, dispersed, shifted) in [
        ("--gate-period 8ms", 0.0, false, false),
        ("--gate-period 8ms --dispersion 0.0072", 0.0, true, false),
        (
            "--gate-period 8ms --dispersion 0.0072 --gate-epoch 2026-09-07T00:59:59.996",
            0.5,
            true,
            true,
        ),
        ("--gate-polyco polyco.dat", 0.5, true, false),
        ("--gate-polyco polyco.dat --dispersion 0", 0.5, false, true),
    ] {
        let shift = if shifted { " --shifts shifts.npy" } else { "" };
        let arguments = format!(
            "correlate rec.npy -o v.npy --counts n.npy --integrate {DUMP} --device cpu --array array.json \
             --gate-bins {bins} {options}{shift}"
        );
        let said = done(folder, &arguments);
        assert!(said.contains("3 dumps of 4 gates") && !said.contains("dropped"), "{said}");
        let found: ArrayD<i64> = ndarray_npy::read_npy(folder.join("v.npy")).unwrap();
        let counts: ArrayD<u64> = ndarray_npy::read_npy(folder.join("n.npy")).unwrap();
        let baselines = INPUTS * (INPUTS + 1) / 2;
        assert_eq!(found.shape(), [3, bins, CHANNELS, baselines, 2]);
        let channel_axis = if dispersed { &[CHANNELS][..] } else { &[] };
        let baseline_axis = if shifted { &[baselines][..] } else { &[] };
        assert_eq!(counts.shape(), [&[3, bins], channel_axis, baseline_axis].concat());
        let gate = |channel: usize, time: usize| {
            let delay = if dispersed && channel == 1 { 4.148808 * 0.72 } else { 0.0 };
            let phase = ((time as f64 + 0.5 - delay) / 8.0 + half).rem_euclid(1.0);
            (phase * bins as f64) as usize
        };
        for dump in 0..3 {
            for bin in 0..bins {
                let all = dump * DUMP..(dump + 1) * DUMP;
                let expected = oracle::correlate(INPUTS, CHANNELS, all, |channel, input, time| {
                    let there = (gate(channel, time) == bin).then_some(time)?;
                    let late = if shifted { (shifts[input] + 2) as usize } else { 0 };
                    Some(block.sample(channel, input, there.checked_sub(late)?))
                });
                for (channel, row) in expected.iter().enumerate() {
                    for (baseline, v) in row.iter().enumerate() {
                        let part = |part| found[IxDyn(&[dump, bin, channel, baseline, part])];
                        let what = format!("{options}: {dump}, {bin}, {channel}, {baseline}");
                        assert_eq!((part(0), part(1)), (v.re as i64, v.im as i64), "{what}");
                        let mut place = vec![dump, bin];
                        place.extend(dispersed.then_some(channel));
                        place.extend(shifted.then_some(baseline));
                        if dispersed || channel == 0 {
                            assert_eq!(counts[IxDyn(&place)], v.count, "{what}");
                        }
                    }
                }
            }
        }
    }
}
