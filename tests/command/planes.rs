//! Planes of bits on the command line: made of recordings, read from files and from VDIF, correlated, corrected, and
//! refused.

use std::{fs, ops::Range, path::Path};

use command::{done, refused};
use corrust::{
    Correlator, Device, Encoding, Layout,
    format::{self, Options},
    run::{Dumps, Reader},
};
use ndarray::{Array2, Array3, Array4, ArrayD};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{command, oracle::correlate as oracle};

/// Devices that are always there.
const DEVICES: [&str; 2] = ["cpu", "sim"];

/// Compares visibilities in a file with those of plain loops.
fn compare(path: &Path, dump: usize, expected: &[Vec<oracle::Visibility>], what: &str) {
    let found: Array4<i64> = ndarray_npy::read_npy(path).unwrap();
    assert_eq!(found.dim().1, expected.len(), "{what}");
    for (channel, expected) in expected.iter().enumerate() {
        for (baseline, v) in expected.iter().enumerate() {
            let at = |part: usize| found[[dump, channel, baseline, part]];
            let expected = (v.re as i64, v.im as i64);
            assert_eq!((at(0), at(1)), expected, "{what}: channel {channel}, baseline {baseline}");
        }
    }
}

/// What `correlate` writes as the numbers of valid times of the first channel.
fn compare_counts(path: &Path, expected: &[Vec<oracle::Visibility>], what: &str) {
    let found: Array2<u64> = ndarray_npy::read_npy(path).unwrap();
    let expected: Vec<u64> = expected[0].iter().map(|v| v.count).collect();
    assert_eq!(found.row(0).to_vec(), expected, "{what}");
}

/// Words of bits in a file as a block of `times` times.
fn words(path: &Path, encoding: Encoding, times: usize) -> oracle::Block {
    let array: ArrayD<u8> = ndarray_npy::read_npy(path).unwrap();
    let axes = array.shape().to_vec();
    assert_eq!(axes.len(), if encoding == Encoding::B1 { 4 } else { 5 });
    assert_eq!(axes[axes.len() - 2..], [times.div_ceil(128), 32]);
    let bytes = array.iter().copied().collect();
    oracle::Block {
        inputs: axes[1],
        channels: axes[0],
        times,
        encoding,
        layout: Layout::Cnt,
        bytes,
    }
}

fn description(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Planes have the bits of the values that the same command writes without --planes, and correlate as their levels.
#[test]
fn recordings_become_planes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (encoding, layout) in
        [("ci8", "tcn"), ("ci4", "cnt"), ("cf16", "tcn"), ("ci4-offset", "tcn")]
    {
        let kind = format!("--encoding {encoding} --layout {layout}");
        done(folder, &format!("simulate -o rec.npy --inputs 3 --channels 2 --times 300 {kind}"));
        for (bits, name) in [(1, Encoding::B1), (2, Encoding::B2)] {
            done(folder, &format!("quantise rec.npy -o few.npy --bits {bits} --noise 2 {kind}"));
            let few: Array3<u8> = ndarray_npy::read_npy(folder.join("few.npy")).unwrap();
            for device in DEVICES {
                let what = format!("{encoding} {layout}, {bits} bits on {device}");
                let text = done(
                    folder,
                    &format!(
                        "quantise rec.npy -o planes.npy --bits {bits} --planes --noise 2 --device {device} {kind}"
                    ),
                );
                assert!(text.contains("x 300 times to") && text.contains(" in planes"), "{text}");
                let block = words(&folder.join("planes.npy"), name, 300);
                assert_eq!((block.inputs, block.channels), (3, 2));
                for channel in 0..2 {
                    for input in 0..3 {
                        for time in 0..300 {
                            let value = few[match layout {
                                "tcn" => [time, channel, input],
                                _ => [channel, input, time],
                            }];
                            let level = |nibble: u8| f64::from(2 * (nibble as i8 >> 4) + 1);
                            let expected = (level(value), level(value << 4));
                            assert_eq!(block.sample(channel, input, time), expected, "{what}");
                        }
                    }
                }
                let said = description(&folder.join("planes.npy.json"));
                assert_eq!(said["encoding"], name.name(), "{what}");
                assert_eq!(said["layout"], "cnt", "{what}");
                assert_eq!(said["times"], 300, "{what}");
                done(
                    folder,
                    &format!("correlate planes.npy -o v.npy --counts n.npy --device {device}"),
                );
                let expected = oracle::correlate_block(&block);
                compare(&folder.join("v.npy"), 0, &expected, &what);
                compare_counts(&folder.join("n.npy"), &expected, &what);
            }
        }
    }
}

/// Coefficients of planes equal the coefficients of their samples: integers are thresholds' neighbours, and the
/// description beside planes says so.
#[test]
fn coefficients_are_those_of_the_samples() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for encoding in ["ci8", "ci4"] {
        let size = "--inputs 8 --channels 4 --times 100000 --seed 3";
        done(folder, &format!("simulate -o rec.npy {size} --encoding {encoding}"));
        done(folder, &format!("correlate rec.npy -o v.npy --encoding {encoding} --device cpu"));
        let v: Array4<i64> = ndarray_npy::read_npy(folder.join("v.npy")).unwrap();
        for bits in [1, 2] {
            let what = format!("{encoding}, {bits} bits");
            done(
                folder,
                &format!(
                    "quantise rec.npy -o planes.npy --encoding {encoding} --bits {bits} --planes --device cpu"
                ),
            );
            done(folder, "correlate planes.npy -o c.npy --van-vleck --device cpu");
            let c: Array4<f32> = ndarray_npy::read_npy(folder.join("c.npy")).unwrap();
            let (mut product, mut square) = (0.0, 0.0);
            for channel in 0..4 {
                for i in 0..8 {
                    for j in 0..i {
                        let at = |i: usize, j: usize| i * (i + 1) / 2 + j;
                        let power = |i: usize| v[[0, channel, at(i, i), 0]] as f64;
                        for part in 0..2 {
                            let own = v[[0, channel, at(i, j), part]] as f64
                                / (power(i) * power(j)).sqrt();
                            let found = f64::from(c[[0, channel, at(i, j), part]]);
                            // Five standard deviations of what one bit adds.
                            assert!((found - own).abs() < 0.017, "{what}: {found}, {own}");
                            product += found * own;
                            square += own * own;
                        }
                    }
                }
            }
            // Together they are off by no scale.
            let scale = product / square;
            println!("{what}: {scale:.4}");
            assert!((scale - 1.0).abs() < 0.006, "{what}: {scale}");
        }
    }

    // Beside the planes stands what the levels are.
    let said = &description(&folder.join("planes.npy.json"))["quantised"];
    assert_eq!(said["of"], "ci4");
    let noise = said["noise"].as_f64().unwrap();
    assert!((noise - 2.5).abs() < 0.1, "{noise}");
    let expected = serde_json::json!([[-2.5, 1.0], [-0.5, 0.5], [0.5, 0.5], [2.5, 1.0]]);
    assert_eq!(said["transitions"], expected);
    // Copies keep it, --van-vleck=STEP counts before it, files that differ are refused, and older ones are read.
    done(folder, "quantise planes.npy -o copy.npy --bits 2 --planes");
    assert_eq!(&description(&folder.join("copy.npy.json"))["quantised"], said);
    let coefficient = |file: &str, more: &str| {
        done(folder, &format!("correlate {file} -o c.npy --van-vleck{more} --device cpu"));
        let c: Array4<f32> = ndarray_npy::read_npy(folder.join("c.npy")).unwrap();
        c[[0, 0, 1, 0]]
    };
    let known = coefficient("copy.npy", "");
    let nominal = coefficient("copy.npy", "=0.9957");
    assert!((known - nominal).abs() > 1e-4, "{known}, {nominal}");
    let path = folder.join("copy.npy.json");
    let mut older = description(&path);
    older.as_object_mut().unwrap().remove("quantised").unwrap();
    fs::write(&path, older.to_string()).unwrap();
    assert!((coefficient("copy.npy", "") - nominal).abs() < 1e-4);
    done(folder, "simulate -o rec.npy --inputs 8 --channels 4 --times 128");
    done(folder, "quantise rec.npy -o other.npy --bits 2 --planes");
    done(folder, "quantise rec.npy -o third.npy --bits 2 --planes --noise 9");
    let text = refused(folder, "correlate other.npy third.npy -o c.npy --van-vleck");
    assert!(text.contains("files quantised from ci8 noise of "), "{text}");
    older["quantised"] = serde_json::json!({"of": "ci8", "noise": -1, "transitions": [[0, 1]]});
    fs::write(&path, older.to_string()).unwrap();
    let text = refused(folder, "correlate copy.npy -o c.npy");
    assert!(text.contains("copy.npy.json: \"noise\" of -1: expected 1e-30 to 1e30"), "{text}");
}

/// Dumps of whole words, gates that cut words, delays, and files one after the other.
#[test]
fn planes_are_correlated_as_other_recordings_are() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o rec.npy --inputs 3 --channels 2 --times 700");
    done(folder, "quantise rec.npy -o planes.npy --bits 2 --planes --device cpu");
    let block = words(&folder.join("planes.npy"), Encoding::B2, 700);
    let gates: Vec<u8> = (0..700).map(|time| [0, 1, 255][time / 50 % 3]).collect();
    ndarray_npy::write_npy(folder.join("gates.npy"), &ndarray::Array1::from(gates.clone()))
        .unwrap();
    let shifts = [0_i64, 5, 200];
    ndarray_npy::write_npy(folder.join("shifts.npy"), &ndarray::arr1(&shifts)).unwrap();
    let expected = |times: Range<usize>, gate: Option<u8>, shifted: bool| {
        let times = times.filter(|&time| gate.is_none_or(|gate| gates[time] == gate));
        oracle::correlate(3, 2, times, |channel, input, time| {
            let time = time.checked_sub(if shifted { shifts[input] as usize } else { 0 })?;
            Some(block.sample(channel, input, time))
        })
    };
    for device in DEVICES {
        let run = |more: &str| {
            done(folder, &format!("correlate planes.npy -o v.npy --device {device} {more}"))
        };
        let text = run("--integrate 256");
        assert!(text.contains("the last 188 of 700 times do not fill a dump of 256"), "{text}");
        for dump in 0..2 {
            let expected = expected(256 * dump..256 * (dump + 1), None, false);
            compare(&folder.join("v.npy"), dump, &expected, device);
        }
        run("--integrate 700");
        compare(&folder.join("v.npy"), 0, &expected(0..700, None, false), device);
        run("--shifts shifts.npy");
        compare(&folder.join("v.npy"), 0, &expected(0..700, None, true), device);
        run("--gates gates.npy");
        let found: ndarray::Array5<i64> = ndarray_npy::read_npy(folder.join("v.npy")).unwrap();
        for gate in 0..2 {
            for (channel, row) in expected(0..700, Some(gate), false).iter().enumerate() {
                for (baseline, v) in row.iter().enumerate() {
                    let at = [0, usize::from(gate), channel, baseline];
                    assert_eq!(found[[at[0], at[1], at[2], at[3], 0]], v.re as i64, "{device}");
                    assert_eq!(found[[at[0], at[1], at[2], at[3], 1]], v.im as i64, "{device}");
                }
            }
        }
        // Whole words without a description, before the words of `planes.npy`.
        let first: ArrayD<u8> = ndarray_npy::read_npy(folder.join("planes.npy")).unwrap();
        let first = first.slice_axis(ndarray::Axis(3), ndarray::Slice::from(1..3)).to_owned();
        ndarray_npy::write_npy(folder.join("first.npy"), &first).unwrap();
        done(
            folder,
            &format!("correlate first.npy planes.npy -o v.npy --encoding b2 --device {device}"),
        );
        let both = oracle::correlate(3, 2, 0..956, |channel, input, time| {
            let time = if time < 256 { time + 128 } else { time - 256 };
            Some(block.sample(channel, input, time))
        });
        compare(&folder.join("v.npy"), 0, &both, device);
    }
}

/// Complex samples of VDIF, threads as inputs, frames of threads that are missing and all of one time.
struct Vdif {
    bits: usize,
    threads: usize,
    channels: usize,
    frames: usize,
    /// Times of a frame.
    samples: usize,
}

impl Vdif {
    fn code(&self, thread: usize, channel: usize, time: usize, part: usize) -> u32 {
        let mut rng =
            StdRng::seed_from_u64((((thread * 64 + channel) * 65536 + time) * 2 + part) as u64);
        rng.random_range(0..1 << self.bits)
    }

    fn level(&self, thread: usize, channel: usize, time: usize, part: usize) -> f64 {
        let codes = f64::from((1 << self.bits) - 1);
        2.0 * f64::from(self.code(thread, channel, time, part)) - codes
    }

    fn bytes(&self, lost: &[(usize, usize)]) -> Vec<u8> {
        let time_bits = 2 * self.bits * self.channels;
        let payload = self.samples * time_bits / 8;
        assert!(payload.is_multiple_of(8) && (self.samples * time_bits).is_multiple_of(64));
        let mut bytes = Vec::new();
        for frame in 0..self.frames {
            for thread in (0..self.threads).filter(|&thread| !lost.contains(&(frame, thread))) {
                let header = [
                    1000,
                    30 << 24 | frame as u32,
                    self.channels.trailing_zeros() << 24 | ((32 + payload) / 8) as u32,
                    1 << 31 | (self.bits as u32 - 1) << 26 | (thread as u32) << 16 | 0x4141,
                    0,
                    0,
                    0,
                    0_u32,
                ];
                bytes.extend(header.iter().flat_map(|word| word.to_le_bytes()));
                let mut samples = vec![0_u8; payload];
                let mut bit = 0;
                for time in frame * self.samples..(frame + 1) * self.samples {
                    for channel in 0..self.channels {
                        for part in 0..2 {
                            let code = self.code(thread, channel, time, part);
                            for place in 0..self.bits {
                                samples[bit / 8] |= ((code >> place & 1) as u8) << (bit % 8);
                                bit += 1;
                            }
                        }
                    }
                }
                bytes.extend(samples);
            }
        }
        bytes
    }

    /// Whether one of the times of the word of `time` is lost.
    fn is_lost(&self, lost: &[(usize, usize)], thread: usize, time: usize) -> bool {
        let word = time / 128 * 128..(time / 128 + 1) * 128;
        lost.iter().any(|&(frame, of)| {
            of == thread
                && frame * self.samples < word.end
                && word.start < (frame + 1) * self.samples
        })
    }
}

#[test]
fn vdif_is_read_as_bits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (bits, channels) in [(1, 4), (2, 4), (1, 1), (2, 1), (2, 16)] {
        let vdif = Vdif { bits, threads: 3, channels, frames: 13, samples: 96 };
        let times = 13 * 96;
        for lost in [&[][..], &[(3, 1), (10, 0), (10, 1), (10, 2), (11, 2)]] {
            fs::write(folder.join("scan.vdif"), vdif.bytes(lost)).unwrap();
            let expected = oracle::correlate(3, channels, 0..times, |channel, input, time| {
                let level = |part| vdif.level(input, channel, time, part);
                (!vdif.is_lost(lost, input, time)).then(|| (level(0), level(1)))
            });
            for device in DEVICES {
                let what = format!("{bits} bits, {channels} channels, {lost:?} on {device}");
                let text = done(
                    folder,
                    &format!(
                        "correlate scan.vdif --encoding b{bits} -o v.npy --counts n.npy --device {device}"
                    ),
                );
                assert_eq!(
                    text.contains("of the samples are missing")
                        && text.contains(" and are left out"),
                    !lost.is_empty(),
                    "{text}"
                );
                compare(&folder.join("v.npy"), 0, &expected, &what);
                compare_counts(&folder.join("n.npy"), &expected, &what);
            }
            // Its bits are planes as they are, with the missing samples.
            done(
                folder,
                &format!(
                    "quantise scan.vdif --encoding b{bits} --bits {bits} --planes -o planes.npy"
                ),
            );
            done(folder, "correlate planes.npy -o v.npy --counts n.npy --device cpu");
            compare(&folder.join("v.npy"), 0, &expected, "a copy");
            compare_counts(&folder.join("n.npy"), &expected, "a copy");
        }
    }
}

/// A GUPPI RAW file of two inputs and one channel, blocks of 64 times, of which some are missing.
fn guppi(blocks: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(4);
    let mut bytes = Vec::new();
    for block in blocks {
        let cards = [
            "OBSNCHAN= 1".to_owned(),
            "NPOL    = 4".to_owned(),
            "NBITS   = 8".to_owned(),
            "BLOCSIZE= 256".to_owned(),
            "PIPERBLK= 1".to_owned(),
            format!("PKTIDX  = {block}"),
            "END".to_owned(),
        ];
        for card in cards {
            bytes.extend(format!("{card:<80}").bytes());
        }
        bytes.extend((0..256).map(|_| rng.random::<u8>()));
    }
    bytes
}

/// Words of which a time is missing are missing, before and after gaps longer than a block too.
#[test]
fn gaps_are_of_words() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Three blocks, two missing ones, one; then a gap longer than what is read at once.
    let far = 300_001_u64;
    fs::write(folder.join("scan.raw"), guppi([0, 1, 2, 5, far, far + 1].into_iter())).unwrap();
    let text = done(
        folder,
        "quantise scan.raw --long-gaps -o planes.npy --bits 1 --planes --noise 70 --device cpu",
    );
    assert!(text.contains("words of 128 times miss some of them"), "{text}");
    let times = (far as usize + 2) * 64;
    let said = description(&folder.join("planes.npy.json"));
    assert_eq!(said["times"], times);
    // Times 192 to 320, and 384 up to the block that begins in the middle of a word.
    let last = (far as usize * 64).div_ceil(128);
    assert_eq!(said["missing"], serde_json::json!([{"words": [1, last]}]), "{said}");
    let block = words(&folder.join("planes.npy"), Encoding::B1, times);
    let info: serde_json::Value =
        serde_json::from_str(&done(folder, "info --json planes.npy")).unwrap();
    assert_eq!(info["times"], times);
    assert_eq!(info["bits"], 1);
    let gap = &info["gaps"][0];
    assert_eq!(gap["start"], 128);
    assert_eq!(gap["inputs"], 2);
    assert_eq!(gap["times"], 128 * (last - 1));
    let (re, im) = block.sample(0, 1, 7);
    assert_eq!(info["first_levels"][1][7], serde_json::json!([re, im]));
    done(folder, "correlate planes.npy -o v.npy --counts n.npy --device cpu");
    let there = (0..128).chain(128 * last..times);
    let expected = oracle::correlate(2, 1, there, |c, n, t| Some(block.sample(c, n, t)));
    compare(&folder.join("v.npy"), 0, &expected, "gaps");
    compare_counts(&folder.join("n.npy"), &expected, "gaps");

    // The same in blocks that are shorter than the gap, which is passed over.
    let recording = format::open(&[folder.join("planes.npy")], Options::default()).unwrap();
    let plan = Correlator::builder(2, 1).encoding(Encoding::B1).layout(Layout::Cnt);
    let plan = plan.device(Device::Cpu).build().unwrap();
    let mut dumps: Vec<_> =
        Dumps::of(Reader::over(recording, 1000), plan).map(Result::unwrap).collect();
    let dump = dumps.remove(0);
    assert_eq!((dump.times, dump.missing), (times as u64, 128 * (last as u64 - 1)));
    assert_eq!(dump.skipped, dump.missing);
    let sums = dump.gates[0].visibilities.integer().unwrap();
    for (sum, v) in sums.iter().zip(&expected[0]) {
        assert_eq!((sum.re, sum.im), (v.re as i64, v.im as i64));
    }

    // The bits before a gap and after it are in one word where it is short.
    done(folder, "quantise scan.raw --long-gaps -o few.npy --bits 1 --noise 70");
    let few: Array3<u8> = ndarray_npy::read_npy(folder.join("few.npy")).unwrap();
    for input in 0..2 {
        for time in (0..192).chain(320..384).chain(far as usize * 64..times) {
            let level = |nibble: u8| f64::from(2 * (nibble as i8 >> 4) + 1);
            let value = few[[0, input, time]];
            assert_eq!(block.sample(0, input, time), (level(value), level(value << 4)), "{time}");
        }
    }
}

/// Noise of a known coefficient, quantised and correlated by commands.
#[test]
fn coefficients_are_those_of_the_voltages() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let times = 1 << 16;
    let mut rng = StdRng::seed_from_u64(5);
    // Sums of twelve uniform numbers are Gaussian enough.
    let mut noise = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
    let (re, im) = (0.6, -0.3);
    let rest = (1.0_f64 - re * re - im * im).sqrt();
    let mut samples = Array4::<i8>::zeros((times, 1, 2, 2));
    for time in 0..times {
        let [a, b, c, d] = [noise(), noise(), noise(), noise()];
        let second = [re * a - im * b + rest * c, im * a + re * b + rest * d];
        for (part, value) in [a, b].into_iter().enumerate() {
            samples[[time, 0, 0, part]] = (20.0 * value).round() as i8;
            samples[[time, 0, 1, part]] = (20.0 * second[part]).round() as i8;
        }
    }
    ndarray_npy::write_npy(folder.join("rec.npy"), &samples).unwrap();
    for (bits, step, option) in
        [(1, "", ""), (2, "", ""), (2, "--step 1.5", ""), (2, "--step 1.5", "=1.5")]
    {
        done(
            folder,
            &format!("quantise rec.npy -o planes.npy --bits {bits} --planes --noise 20 {step}"),
        );
        done(folder, &format!("correlate planes.npy -o c.npy --van-vleck{option} --device cpu"));
        let found: Array4<f32> = ndarray_npy::read_npy(folder.join("c.npy")).unwrap();
        assert_eq!(found.dim(), (1, 1, 3, 2));
        let at = |baseline: usize| (found[[0, 0, baseline, 0]], found[[0, 0, baseline, 1]]);
        assert_eq!((at(0), at(2)), ((1.0, 0.0), (1.0, 0.0)));
        let (found_re, found_im) = at(1);
        let off = (f64::from(found_re) - re).hypot(f64::from(found_im) - im);
        // Five standard deviations of a one-bit coefficient.
        assert!(
            off < 5.0 * 1.6 / (times as f64).sqrt(),
            "{bits} bits {step}: {found_re} {found_im}"
        );
    }
    // The wrong step shows.
    done(folder, "correlate planes.npy -o c.npy --van-vleck=0.9957 --device cpu");
    let found: Array4<f32> = ndarray_npy::read_npy(folder.join("c.npy")).unwrap();
    assert!((f64::from(found[[0, 0, 1, 0]]) - re).abs() > 0.03, "{}", found[[0, 0, 1, 0]]);
}

#[test]
fn the_demo_measures_what_bits_are_worth() {
    let folder = tempfile::tempdir().unwrap();
    let text = done(folder.path(), "demo --bits 1,2,3,4 --device cpu");
    let exact = [63.66, 88.12, 96.26, 98.85];
    for (bits, (exact, talk)) in (1..).zip(exact.into_iter().zip(["65", "85", "96", "99"])) {
        let row = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = row.into_iter().find(|row| row.first() == Some(&bits.to_string().as_str()));
        let row = row.unwrap_or_else(|| panic!("no row of {bits} bits: {text}"));
        let measured: f64 = row[1].parse().unwrap();
        assert!((measured - exact).abs() < 1.0, "{text}");
        assert!((row[2].parse::<f64>().unwrap() - exact).abs() < 0.06, "{text}");
        assert_eq!(row[3], talk, "{text}");
    }
    assert!(!fs::exists(folder.path().join("demo")).unwrap());
}

#[test]
fn bad_arguments_get_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o rec.npy --inputs 2 --channels 1 --times 300");
    done(folder, "quantise rec.npy -o one.npy --bits 1 --planes --device cpu");
    done(folder, "quantise rec.npy -o two.npy --bits 2 --planes --device cpu");
    let write = |name: &str, axes: &[usize]| {
        ndarray_npy::write_npy(folder.join(name), &ArrayD::<u8>::zeros(axes)).unwrap();
    };
    write("short.npy", &[1, 2, 3, 31]);
    write("three.npy", &[1, 2, 3, 2, 32]);
    write("whole.npy", &[1, 2, 3, 32]);
    write("none.npy", &[1, 2, 0, 32]);
    let described = |name: &str, more: &str| {
        write(name, &[1, 2, 3, 32]);
        let text = format!(
            "{{\"encoding\": \"b1\", \"layout\": \"cnt\", \"shape\": [1, 2, 3, 32], {more}}}"
        );
        fs::write(folder.join(format!("{name}.json")), text).unwrap();
    };
    described("long.npy", "\"times\": 400");
    described("lost.npy", "\"missing\": [{\"words\": [2, 4]}]");
    described("input.npy", "\"missing\": [{\"words\": [0, 1], \"inputs\": [1, 3]}]");
    let vdif = Vdif { bits: 2, threads: 1, channels: 1, frames: 4, samples: 48 };
    fs::write(folder.join("scan.vdif"), vdif.bytes(&[])).unwrap();
    for (arguments, expected) in [
        (
            "quantise rec.npy -o out.npy --bits 3 --planes",
            "--planes of 3 bits: expected --bits 1 or 2",
        ),
        ("quantise rec.npy -o out.npy --bits 0 --planes", "samples of 0 bits: expected 1 to 4"),
        ("quantise rec.npy -o out.npy --bits 1 --device cpu", "--planes"),
        (
            "quantise rec.npy -o - --bits 1 --planes",
            "--planes to the standard output: expected a file",
        ),
        (
            "quantise one.npy -o out.npy --bits 1",
            "samples of b1 to be quantised: expected --bits 1 --planes",
        ),
        (
            "quantise two.npy -o out.npy --bits 1 --planes",
            "samples of b2 to be quantised: expected --bits 2",
        ),
        (
            "correlate short.npy -o out.npy --encoding b1",
            "axis \"byte\" has length 31: expected 32 of b1",
        ),
        (
            "correlate three.npy -o out.npy --encoding b2",
            "axis \"plane\" has length 3: expected 2 of b2",
        ),
        (
            "correlate whole.npy -o out.npy --encoding b2",
            "4 axes [1, 2, 3, 32]: expected 5, uint8 [channel]",
        ),
        (
            "correlate none.npy -o out.npy --encoding b1",
            "axis \"word\" has length 0: expected at least 1",
        ),
        ("correlate rec.npy -o out.npy --encoding b1", "elements of type int8: expected uint8"),
        (
            "correlate whole.npy -o out.npy --encoding b1 --layout tcn",
            "b1 in the layout tcn: expected cnt",
        ),
        (
            "correlate whole.npy -o out.npy --encoding b3",
            "expected ci8, ci4, ci4-offset, cf16, b1 or b2",
        ),
        (
            "correlate one.npy two.npy -o out.npy",
            "two.npy: b2 samples, of type uint8: expected b1 as in one.npy",
        ),
        (
            "correlate rec.npy one.npy -o out.npy",
            "one.npy: b1 samples, of type uint8: expected ci8 as in",
        ),
        (
            "correlate one.npy one.npy -o out.npy",
            "whose last word of bits holds 44 times: expected 128",
        ),
        (
            "correlate one.npy -o out.npy --integrate 100",
            "an integration of 100 times of b1: expected a multiple of 128",
        ),
        ("correlate one.npy -o out.npy --integrate 301", "the recording has only 300 times"),
        (
            "correlate long.npy -o out.npy",
            "\"times\" of 400 in 3 words of b1, which hold up to 128 each: expected 257 to 384",
        ),
        (
            "correlate lost.npy -o out.npy",
            "\"missing\" words [2, 4]: expected a first one and one past the last, 0 to 3",
        ),
        ("correlate input.npy -o out.npy", "\"missing\" inputs [1, 3]: expected a first one"),
        (
            "correlate rec.npy -o out.npy --van-vleck",
            "--van-vleck of ci8 samples: expected b1 or b2",
        ),
        (
            "correlate two.npy -o out.npy --van-vleck=0",
            "a quantiser's step of 0 standard deviations",
        ),
        (
            "correlate one.npy -o out.npy --device sim --kernel packed",
            "kernel packed with b1 samples: expected ci4",
        ),
        ("correlate scan.vdif -o out.npy", "or for complex samples of few bits"),
        (
            "correlate scan.vdif -o out.npy --encoding b1",
            "samples of vdif-2-complex: expected vdif-1-complex",
        ),
        (
            "correlate scan.vdif -o out.npy --encoding b2 --layout tcn",
            "b2 in the layout tcn: expected cnt",
        ),
        ("filterbank one.npy -o out.fil --array rec.json", "powers of b1: expected samples of ci8"),
        ("demo --bits 5", "samples of 5 bits: expected 1 to 4"),
    ] {
        let text = refused(folder, arguments);
        assert!(text.contains(expected), "{arguments}: {text}");
        assert_eq!(text.trim_end().lines().count(), 1, "{arguments}: {text}");
        for name in ["out.npy", "out.npy.json", "out.fil"] {
            assert!(!fs::exists(folder.join(name)).unwrap(), "{arguments}");
        }
    }
}
