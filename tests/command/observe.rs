//! `corrust observe`: products have the bits of the single commands, and plans that cannot be made get a sentence.

use std::{fs, path::Path};

use crate::support::{
    command::{corrust, done, refused},
    files::guppi_header,
    witness,
};

const ARRAY: &str = r#"{"telescope": "example",
 "location": {"latitude": -30.72, "longitude": 21.43, "altitude": 1051.7},
 "antennas": [{"position": [0, 0, 0]}, {"position": [14.6, 0, 0]}, {"position": [7.3, 12.6, 0]},
  {"position": [-40, 3, 0.5]}, {"position": [60, 1, 0]}, {"position": [-20, -33, 0]}],
 "first_channel": 150e6, "channel_width": 1e6, "start": "2026-03-01T12:00:00Z", "sample_time": 1e-6}"#;

/// Reads an array of a NumPy file of version 1: its bytes without the header.
fn body(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[10 + header..].to_vec()
}

/// Asserts that two files are the same, byte for byte.
fn same(folder: &Path, pairs: &[(&str, &str)]) {
    for (ours, theirs) in pairs {
        let [ours_bytes, theirs_bytes] =
            [ours, theirs].map(|name| fs::read(folder.join(name)).unwrap());
        assert!(ours_bytes == theirs_bytes, "{ours} is not {theirs}");
    }
}

/// A recording of channels with a gap in it, weights and an array.
fn recording(encoding: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let simulate = "simulate -o scan.npy --inputs 6 --channels 10 --times 5003 --sources 1";
    done(path, &format!("{simulate} --encoding {encoding}"));
    done(path, "weights scan.json -o weights.npy --shifts shifts.npy --pointing 0,0,1 --shift 9");
    fs::write(path.join("array.json"), ARRAY).unwrap();
    folder
}

fn plan(folder: &Path, text: &str) {
    fs::write(folder.join("plan.toml"), text).unwrap();
}

#[test]
fn products_are_those_of_the_single_commands() {
    for (device, encoding) in [("cpu", "ci8"), ("cpu", "ci4"), ("sim", "ci4")] {
        for flag in [false, true] {
            let folder = recording(encoding);
            let folder = folder.path();
            let (table, options) = match flag {
                true => (
                    "flag = { method = \"sk\", times = 100, false-alarm = 0.01, flags = \"flags.npy\" }",
                    "--flag sk --sk-times 100 --false-alarm 0.01",
                ),
                false => ("", ""),
            };
            plan(
                folder,
                &format!(
                    r#"
[input]
files = ["scan.npy"]
array = "array.json"
encoding = "{encoding}"
device = "{device}"
{table}
[[visibilities]]
output = "v.uvh5"
seconds = 0.001
[[visibilities]]
output = "v.npy"
integrate = 700
keep-partial = true
counts = "counts.npy"
[[visibilities]]
output = "part.npy"
channels = "3..5"
[[beams]]
weights = "weights.npy"
shifts = "shifts.npy"
output = "b.npy"
clipped = "clipped.npy"
[[beams]]
weights = "weights.npy"
shifts = "shifts.npy"
output = "b.fil"
beam = [1]
integrate = 8
[[beams]]
weights = "weights.npy"
shifts = "shifts.npy"
output = "b.raw"
output-encoding = "ci8"
[[power]]
output = "p.fil"
integrate = 7
bits = 8
scale = 0.01
input = [0, 5]
[[spectra]]
output = "s.npy"
integrate = 1000
keep-partial = true
[[spectra]]
output = "whole.npy"
integrate = 1000
[[kurtosis]]
output = "k.npy"
times = 100
"#
                ),
            );
            let said = done(folder, "observe plan.toml");
            let left = "spectra whole.npy: the last 3 of 5003 times do not fill a dump of 1000";
            assert!(said.contains(left), "{said}");
            assert!(said.contains("observed 6 inputs x 10 channels x 5003 times"), "{said}");

            let given = format!("--device {device} {options} --encoding {encoding}");
            done(
                folder,
                &format!(
                    "correlate scan.npy -o v2.npy --integrate 700 --keep-partial --counts counts2.npy {given}"
                ),
            );
            done(folder, &format!("correlate scan.npy -o all.npy {given}"));
            let beams = "beamform scan.npy --weights weights.npy --shifts shifts.npy";
            let options = format!("--device {device} {options}");
            done(folder, &format!("{beams} -o b2.npy --clipped clipped2.npy {options}"));
            done(
                folder,
                &format!("{beams} -o b2.fil --array array.json --beam 1 --integrate 8 {options}"),
            );
            done(
                folder,
                &format!("{beams} -o b2.raw --array array.json --output-encoding ci8 {options}"),
            );
            let pairs = [
                ("v.npy", "v2.npy"),
                ("b.0.raw", "b2.0.raw"),
                ("b.1.raw", "b2.1.raw"),
                ("counts.npy", "counts2.npy"),
                ("b.npy", "b2.npy"),
                ("b.fil", "b2.fil"),
                ("clipped.npy", "clipped2.npy"),
            ];
            same(folder, &pairs);
            // Channels 3 and 4 of [1][10][21][2] int64.
            let all = body(&folder.join("all.npy"));
            let channel = 21 * 16;
            assert!(body(&folder.join("part.npy")) == all[3 * channel..5 * channel]);
            // The sums of |x|^2 are the autocorrelations.
            let integrate = "--integrate 1000 --keep-partial";
            done(folder, &format!("correlate scan.npy -o autos.npy {integrate} {given}"));
            let numbers = |path: &str| -> Vec<i64> {
                let bytes = body(&folder.join(path));
                bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
            };
            let (spectra, autos) = (numbers("s.npy"), numbers("autos.npy"));
            assert_eq!(spectra.len(), 6 * 10 * 6);
            assert_eq!(numbers("whole.npy"), spectra[..5 * 10 * 6]);
            for (at, power) in spectra.iter().enumerate() {
                let (cell, input) = (at / 6, at % 6);
                assert_eq!(*power, autos[(cell * 21 + input * (input + 1) / 2 + input) * 2]);
            }
            match flag {
                true => {
                    done(
                        folder,
                        &format!("correlate scan.npy -o x.npy {given} --flags flags2.npy"),
                    );
                    same(folder, &[("flags.npy", "flags2.npy")]);
                }
                false => {
                    let powers =
                        "filterbank scan.npy -o p2.fil --array array.json --integrate 7 --bits 8";
                    let chosen = format!("--scale 0.01 --input 0,5 --encoding {encoding}");
                    done(folder, &format!("{powers} {chosen}"));
                    done(
                        folder,
                        &format!(
                            "correlate scan.npy -o x.npy {given} --flag sk --sk-times 100 --kurtosis k2.npy"
                        ),
                    );
                    same(folder, &[("p.fil", "p2.fil"), ("k.npy", "k2.npy")]);
                }
            }
        }
    }
}

/// Gates of numbers and of a period, of all channels and of some, and shifts.
#[test]
fn gates_and_shifts_are_those_of_correlate() {
    let folder = recording("ci8");
    let folder = folder.path();
    let write = |name: &str, all: Vec<u8>| {
        ndarray_npy::write_npy(folder.join(name), &ndarray::Array1::from(all)).unwrap();
    };
    write("gates.npy", (0..5003).map(|time| [0, 1, 255, 1][time / 11 % 4]).collect());
    write("late.npy", vec![0, 17, 3, 0, 2, 9]);
    let folded = "gate-period = \"0.7ms\"\ngate-bins = 3\ndispersion = 20";
    let options = "--gate-period 0.7ms --gate-bins 3 --dispersion 20 --array array.json";
    let correlate = "correlate scan.npy --encoding ci8 --integrate 900";
    let shifted = "--gates gates.npy --shifts late.npy --counts one_counts.npy";
    for device in ["cpu", "sim"] {
        plan(
            folder,
            &format!(
                r#"
[input]
files = ["scan.npy"]
array = "array.json"
device = "{device}"
[[visibilities]]
output = "gated.npy"
integrate = 900
gates = "gates.npy"
shifts = "late.npy"
counts = "counts.npy"
[[visibilities]]
output = "folded.npy"
integrate = 900
counts = "folded_counts.npy"
{folded}
[[visibilities]]
output = "some.npy"
integrate = 900
channels = "2..5"
{folded}
"#
            ),
        );
        done(folder, "observe plan.toml");
        done(folder, &format!("{correlate} {shifted} -o one.npy --device {device}"));
        let folds = format!("{options} --counts two_counts.npy");
        done(folder, &format!("{correlate} {folds} -o two.npy --device {device}"));
        same(
            folder,
            &[
                ("gated.npy", "one.npy"),
                ("counts.npy", "one_counts.npy"),
                ("folded.npy", "two.npy"),
                ("folded_counts.npy", "two_counts.npy"),
            ],
        );
        let read =
            |name| -> ndarray::Array5<i64> { ndarray_npy::read_npy(folder.join(name)).unwrap() };
        assert_eq!(read("some.npy"), read("two.npy").slice(ndarray::s![.., .., 2..5, .., ..]));
    }
    plan(
        folder,
        "[input]\nfiles = [\"scan.npy\"]\n[[visibilities]]\noutput = \"v.npy\"\ngate-bins = 3",
    );
    let text = refused(folder, "observe plan.toml");
    assert!(text.contains("line 5") && text.contains("expected gate-period"), "{text}");
}

#[test]
fn raw_voltages_become_all_products() {
    for device in ["cpu", "sim"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        done(
            folder,
            "simulate --raw -o scan.vdif --encoding vdif-2 --inputs 6 --rate 32MHz --times 64000 --sky-frequency 150MHz",
        );
        done(folder, "simulate -o other.npy --inputs 6 --channels 16 --times 8 --sources 1");
        done(
            folder,
            "weights other.json -o weights.npy --shifts shifts.npy --pointing 0,0,1 --shift 9",
        );
        fs::write(folder.join("array.json"), ARRAY).unwrap();
        plan(
            folder,
            &format!(
                r#"
[input]
files = ["scan.vdif"]
array = "array.json"
device = "{device}"
channelise = {{ channels = 16, taps = 4, level = true }}
[[visibilities]]
output = "v.npy"
integrate = 500
[[beams]]
weights = "weights.npy"
shifts = "shifts.npy"
output = "b.npy"
[[power]]
output = "p.fil"
integrate = 10
[[kurtosis]]
output = "k.npy"
"#
            ),
        );
        done(folder, "observe plan.toml");
        let engine = format!("--channelise 16 --taps 4 --level --device {device}");
        done(folder, &format!("correlate scan.vdif -o v2.npy --integrate 500 {engine}"));
        done(
            folder,
            &format!(
                "channelise scan.vdif -o x.npy --channels 16 --taps 4 --level --device {device}"
            ),
        );
        done(
            folder,
            &format!(
                "beamform x.npy --weights weights.npy --shifts shifts.npy -o b2.npy --device {device}"
            ),
        );
        same(folder, &[("v.npy", "v2.npy"), ("b.npy", "b2.npy")]);
        // The header says when the first spectrum began, which the file of spectra does not.
        done(folder, "filterbank x.npy -o p2.fil --array array.json --integrate 10");
        let [ours, theirs] = ["p.fil", "p2.fil"].map(|name| fs::read(folder.join(name)).unwrap());
        let count = 16 * 4 * (64000 / 32 - 4 + 1) / 10;
        assert!(ours[ours.len() - count / 64 * 64..] == theirs[theirs.len() - count / 64 * 64..]);
        done(
            folder,
            &format!("correlate x.npy -o y.npy --flag sk --kurtosis k2.npy --device {device}"),
        );
        same(folder, &[("k.npy", "k2.npy")]);
    }
}

/// One command makes visibilities, beams, powers and kurtosis of raw voltages of eight inputs, the same on every device;
/// others read them.
#[test]
fn one_command_makes_all_products_of_raw_voltages() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let simulate = "simulate --raw -o scan.vdif --encoding vdif-2 --inputs 8 --rate 64MHz";
    done(folder, &format!("{simulate} --times 96000 --sky-frequency 150MHz"));
    let frequencies: Vec<String> =
        (0..16).map(|channel| format!("{}e6", 150 + 2 * channel)).collect();
    let positions: Vec<String> =
        (0..8).map(|at| format!("{{\"position\": [{}, {}, 0]}}", 14 * at, at * at)).collect();
    fs::write(
        folder.join("array.json"),
        format!(
            r#"{{"telescope": "example", "location": {{"latitude": -30.72, "longitude": 21.43, "altitude": 1051.7}},
                "antennas": [{}], "frequencies": [{}]}}"#,
            positions.join(","),
            frequencies.join(",")
        ),
    )
    .unwrap();
    done(
        folder,
        "weights array.json -o weights.npy --shifts shifts.npy --pointing 0,0,1 --shift 13",
    );
    let cuda = corrust::device::cuda::count().is_ok_and(|count| count > 0);
    let devices = ["cpu", "sim", "cuda"];
    for device in devices.iter().filter(|device| cuda || **device != "cuda") {
        plan(
            folder,
            &format!(
                r#"
[input]
files = ["scan.vdif"]
array = "array.json"
device = "{device}"
channelise = {{ channels = 16, taps = 4, level = true }}
flag = {{ method = "sk", times = 256, false-alarm = 0.02, flags = "{device}-f.npy" }}
[[visibilities]]
output = "{device}-v.uvh5"
integrate = 256
counts = "{device}-c.npy"
[[visibilities]]
output = "{device}-v.npy"
integrate = 256
[[beams]]
weights = "weights.npy"
shifts = "shifts.npy"
output = "{device}-b.vdif"
[[beams]]
weights = "weights.npy"
shifts = "shifts.npy"
output = "{device}-b.npy"
[[power]]
output = "{device}-p.fil"
integrate = 64
[[kurtosis]]
output = "{device}-k.npy"
"#
            ),
        );
        let output = corrust(folder, "observe plan.toml");
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(
            output.status.success() && said.contains("8 inputs x 16 channels x 2997 times"),
            "{said}"
        );
        // Spectra begin between two times of VDIF's headers, and 1.5 spectra after a frame.
        assert!(said.contains("0.500 of a sample earlier than VDIF's headers say"), "{said}");
        let names = ["f.npy", "c.npy", "v.npy", "b.vdif", "b.npy", "p.fil", "k.npy"];
        for name in names.iter().filter(|_| *device != "cpu") {
            let (ours, theirs) = (format!("{device}-{name}"), format!("cpu-{name}"));
            same(folder, &[(&ours, &theirs)]);
        }
    }
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    if let Some(python) = witness::python(&witness::PYUVDATA) {
        let given = ["flagged", &file("cpu-v.uvh5"), &file("cpu-c.npy"), "256"];
        let said = witness::script(&python, "uvh5.py", &given);
        assert!(!said.starts_with("0 flagged"), "{said}");
    }
    // Frames from the first whole one on hold the beams of their times.
    let found = fs::read(folder.join("cpu-b.vdif")).unwrap();
    let beams: ndarray::Array4<u8> = ndarray_npy::read_npy(folder.join("cpu-b.npy")).unwrap();
    let bytes = 8 * (u32::from_le_bytes(found[8..12].try_into().unwrap()) & 0xff_ffff) as usize;
    let (times, number) =
        ((bytes - 32) / 16, u32::from_le_bytes(found[4..8].try_into().unwrap()) & 0xff_ffff);
    let first = number as usize * times - 2;
    for (frame, bytes) in found.chunks_exact(bytes).enumerate() {
        for (at, code) in bytes[32..].iter().enumerate() {
            let (time, channel) = (first + frame * times + at / 16, at % 16);
            assert_eq!(code.rotate_left(4) ^ 0x88, beams[[0, channel, 0, time]], "{frame} {at}");
        }
    }
}

/// A number of a filterbank file's header.
fn header_number(path: &Path, name: &str) -> f64 {
    let bytes = fs::read(path).unwrap();
    let at = bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
    f64::from_le_bytes(bytes[at + name.len()..][..8].try_into().unwrap())
}

/// Raw voltages, 16 channels of them, 4 subchannels of each, and all products of these.
#[test]
fn raw_voltages_become_subchannels() {
    // A channel of 1 MHz and its four subchannels have the same middle.
    const FINE: &str = r#"{"first_channel": 149.625e6, "channel_width": 0.25e6,
        "start": "2026-03-01T12:00:00Z", "sample_time": 4e-6}"#;
    for (device, flag) in [("cpu", false), ("cpu", true), ("sim", false)] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        done(
            folder,
            "simulate --raw -o scan.vdif --encoding vdif-2 --inputs 6 --rate 32MHz --times 64000 --sky-frequency 150MHz",
        );
        done(folder, "simulate -o other.npy --inputs 6 --channels 64 --times 8 --sources 1");
        done(
            folder,
            "weights other.json -o weights.npy --shifts shifts.npy --pointing 0,0,1 --shift 9",
        );
        fs::write(folder.join("array.json"), FINE).unwrap();
        let (table, judged) = match flag {
            true => (
                "flag = { method = \"sk\", times = 50, false-alarm = 0.01, flags = \"flags.npy\" }",
                "--flag sk --sk-times 50 --false-alarm 0.01",
            ),
            false => ("", ""),
        };
        plan(
            folder,
            &format!(
                r#"
[input]
files = ["scan.vdif"]
array = "array.json"
device = "{device}"
channelise = {{ channels = 16, taps = 4, level = true }}
upchannelise = {{ factor = 4, unit-noise = true }}
{table}
[[visibilities]]
output = "v.npy"
integrate = 100
counts = "counts.npy"
[[beams]]
weights = "weights.npy"
shifts = "shifts.npy"
output = "b.npy"
[[power]]
output = "p.fil"
integrate = 10
[[kurtosis]]
output = "k.npy"
times = 50
"#
            ),
        );
        let said = done(folder, "observe plan.toml");
        let spectra = (64000 / 32 - 4 + 1) / 4;
        assert!(said.contains(&format!("6 inputs x 64 channels x {spectra} times")), "{said}");
        let device = format!("--device {device}");
        done(
            folder,
            &format!("channelise scan.vdif -o x.npy --channels 16 --taps 4 --level {device}"),
        );
        done(folder, &format!("upchannelise x.npy -o y.npy --factor 4 --unit-noise {device}"));
        let fine = "--upchannelise 4 --unit-noise --integrate 100";
        done(folder, &format!("correlate x.npy -o v2.npy {fine} {device} {judged}"));
        // The plan knows that channel 0 is real, the command on spectra does not, and judges its four subchannels by other limits.
        let alike = |names: [&str; 2], rows: usize| {
            let [ours, theirs] = names.map(|name| {
                let all = body(&folder.join(name));
                assert_eq!(all.len() % (16 * rows), 0);
                let rows = all.chunks(all.len() / rows);
                let skipped = if flag { all.len() / rows.len() / 16 } else { 0 };
                rows.flat_map(|row| row[skipped..].to_vec()).collect::<Vec<u8>>()
            });
            assert!(ours == theirs, "{names:?}");
            ours
        };
        alike(["v.npy", "v2.npy"], spectra / 100);
        // The first three spectra touch times before the first.
        if !flag {
            let counts = body(&folder.join("counts.npy"));
            let counts: Vec<u64> =
                counts.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
            assert!(counts.len() == 21 * (spectra / 100));
            assert!(counts[..21].iter().all(|&count| count == 97));
            assert!(counts[21..].iter().all(|&count| count == 100));
            done(
                folder,
                &format!(
                    "beamform y.npy --weights weights.npy --shifts shifts.npy -o b2.npy {device}"
                ),
            );
            done(folder, "filterbank y.npy -o p2.fil --array array.json --integrate 10");
            same(folder, &[("b.npy", "b2.npy")]);
            let powers = |name: &str| {
                let bytes = fs::read(folder.join(name)).unwrap();
                bytes[bytes.len() - spectra / 10 * 64 * 4..].to_vec()
            };
            assert!(powers("p.fil") == powers("p2.fil"));
        } else {
            let sums = "--upchannelise 4 --unit-noise --flag sk --sk-times 50 --false-alarm 0.01";
            done(folder, &format!("correlate x.npy -o z.npy {sums} --flags flags2.npy {device}"));
            assert!(alike(["flags.npy", "flags2.npy"], spectra.div_ceil(50)).contains(&1));
        }
        let header = |name| header_number(&folder.join("p.fil"), name);
        assert_eq!((header("fch1"), header("foff")), (149.625, 0.25));
        assert!((header("tsamp") - 4e-5).abs() < 1e-18);
        // One command from raw voltages to beams of subchannels.
        let beams = "beamform scan.vdif --weights weights.npy --shifts shifts.npy -o b3.npy";
        let fx = "--channelise 16 --taps 4 --level --upchannelise 4 --unit-noise";
        let flags = if flag { "--flags flags3.npy" } else { "" };
        done(folder, &format!("{beams} {fx} {judged} {flags} {device}"));
        same(folder, &[("b.npy", "b3.npy"), ("flags.npy", "flags3.npy")][..1 + usize::from(flag)]);
        // The start of the first spectrum of raw voltages, less half the length of the filter bank of subchannels.
        let start = "2026-03-01T12:00:00Z".parse::<corrust::format::Timestamp>().unwrap();
        let expected = start.as_nanosecond() as f64 / 86400e9 + 40587.0;
        let offset = (1.5 * 1e-6 - 1.5 * 4e-6) / 86400.0;
        assert!((header("tstart") - expected - offset).abs() < 1e-11, "{}", header("tstart"));
    }
}

#[test]
fn flags_of_raw_voltages_are_those_of_their_spectra() {
    for device in ["cpu", "sim"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        done(
            folder,
            "simulate --raw -o scan.vdif --encoding vdif-2 --inputs 3 --rate 32MHz --times 64000",
        );
        plan(
            folder,
            &format!(
                "[input]\nfiles = [\"scan.vdif\"]\ndevice = \"{device}\"\n\
                 channelise = {{ channels = 16, taps = 4, level = true, output-layout = \"cnt\" }}\n\
                 flag = {{ method = \"sk\", times = 100, false-alarm = 0.05, flags = \"f.npy\" }}\n\
                 [[visibilities]]\noutput = \"v.npy\"\nintegrate = 700\n"
            ),
        );
        done(folder, "observe plan.toml");
        let device = format!("--device {device}");
        let engine = "--channels 16 --taps 4 --level";
        done(folder, &format!("channelise scan.vdif -o x.npy {engine} {device}"));
        // A file does not say that its first channel is of real voltages.
        let judged = format!("--flag sk --sk-times 100 --sk-real 0 --false-alarm 0.05 {device}");
        done(folder, &format!("correlate x.npy -o v2.npy --integrate 700 {judged}"));
        done(folder, &format!("correlate x.npy -o all.npy --flags f2.npy {judged}"));
        same(folder, &[("v.npy", "v2.npy"), ("f.npy", "f2.npy")]);
        assert!(body(&folder.join("f.npy")).contains(&1));
    }
}

#[test]
fn channels_become_subchannels() {
    let folder = recording("ci4");
    let folder = folder.path();
    plan(
        folder,
        "[input]\nfiles = [\"scan.npy\"]\nencoding = \"ci4\"\ndevice = \"cpu\"\n\
         upchannelise = { factor = 8, taps = 2, output-encoding = \"ci4\" }\n\
         [[visibilities]]\noutput = \"v.npy\"\nintegrate = 123\n\
         [[spectra]]\noutput = \"s.npy\"\nintegrate = 25\n",
    );
    let said = done(folder, "observe plan.toml --dry-run");
    assert!(said.contains("6 inputs x 80 channels x 625 times of ci4"), "{said}");
    done(folder, "observe plan.toml");
    let filter = "--factor 8 --taps 2 --output-encoding ci4 --encoding ci4 --device cpu";
    done(folder, &format!("upchannelise scan.npy -o y.npy {filter}"));
    done(folder, "correlate y.npy -o v2.npy --integrate 123 --device cpu");
    same(folder, &[("v.npy", "v2.npy")]);
    assert!(body(&folder.join("s.npy")).len() == 25 * 80 * 6 * 8);
}

#[test]
fn stokes_parameters_are_those_of_the_single_commands() {
    let folder = recording("ci8");
    let folder = folder.path();
    let inputs = r#""inputs": [[0, "X"], [1, "X"], [2, "X"], [0, "Y"], [1, "Y"], [2, "Y"]],"#;
    fs::write(folder.join("array.json"), ARRAY.replacen('{', &format!("{{{inputs}"), 1)).unwrap();
    // The same samples as [T][F][P][D], and weights of three dishes.
    done(folder, "simulate -o three.npy --inputs 3 --channels 10 --times 8 --sources 1");
    let of_two = "--polarisations 2 --pointing 0,0,1 --shift 9";
    done(folder, &format!("weights three.json -o weights.npy --shifts shifts.npy {of_two}"));
    let read: ndarray::Array4<i8> = ndarray_npy::read_npy(folder.join("scan.npy")).unwrap();
    let turned = read.into_shape_with_order((5003, 10, 2, 3, 2)).unwrap();
    ndarray_npy::write_npy(folder.join("e.npy"), &turned).unwrap();
    plan(
        folder,
        "[input]\nfiles = [\"scan.npy\"]\narray = \"array.json\"\ndevice = \"cpu\"\n\
         [[power]]\noutput = \"p.fil\"\nstokes = \"IQUV\"\nintegrate = 7\n\
         [[power]]\noutput = \"p.npy\"\nstokes = \"IQUV\"\ninput = [5, 2]\nintegrate = 7\n\
         [[beams]]\nweights = \"weights.npy\"\nshifts = \"shifts.npy\"\noutput = \"b.npy\"\nstokes = \"IQUV\"\n\
         integrate = 11\n\
         [[beams]]\nweights = \"weights.npy\"\nshifts = \"shifts.npy\"\noutput = \"b.fil\"\nstokes = \"I\"\nbeam = [1]\n",
    );
    done(folder, "observe plan.toml");
    let power = "filterbank scan.npy --array array.json --stokes IQUV --integrate 7";
    done(folder, &format!("{power} -o p2.fil"));
    done(folder, &format!("{power} -o p2.npy --input 5,2"));
    let beams =
        "beamform e.npy --weights weights.npy --shifts shifts.npy --array array.json --device cpu";
    done(folder, &format!("{beams} -o b2.npy --stokes IQUV --integrate 11"));
    done(folder, &format!("{beams} -o b2.fil --stokes I --beam 1"));
    let pairs = [
        ("p.fil", "p2.fil"),
        ("p.npy", "p2.npy"),
        ("b.0.npy", "b2.0.npy"),
        ("b.1.npy", "b2.1.npy"),
        ("b.fil", "b2.fil"),
    ];
    same(folder, &pairs);
    let found: ndarray::Array3<f64> = ndarray_npy::read_npy(folder.join("b.1.npy")).unwrap();
    assert_eq!(found.dim(), (5003 / 11, 4, 10));
    assert!(found.iter().any(|&value| value < 0.0));
}

/// Bits, of planes and of VDIF, with coefficients, and some of the channels: in a plan and in the single command.
#[test]
fn bits_and_coefficients_are_those_of_correlate() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o rec.npy --inputs 3 --channels 4 --times 1700 --sources 1");
    done(folder, "quantise rec.npy -o planes.npy --bits 2 --planes --device cpu");
    let simulate = "simulate --raw -o scan.vdif --encoding vdif-1-complex --inputs 3 --rate 8MHz";
    done(folder, &format!("{simulate} --times 32000"));
    let late = ndarray::arr1(&[0_i64, 5, 200]);
    ndarray_npy::write_npy(folder.join("late.npy"), &late).unwrap();
    for (device, file, encoding) in [
        ("cpu", "planes.npy", ""),
        ("sim", "planes.npy", ""),
        ("cpu", "scan.vdif", "b1"),
        ("sim,sim", "scan.vdif", "b1"),
    ] {
        let [key, option] = match encoding {
            "" => [String::new(), String::new()],
            _ => [format!("encoding = \"{encoding}\""), format!("--encoding {encoding}")],
        };
        let input = format!("[input]\nfiles = [\"{file}\"]\ndevice = \"{device}\"\n{key}\n");
        let v = "[[visibilities]]\nintegrate = 512\n";
        plan(
            folder,
            &format!(
                "{input}{v}output = \"v.npy\"\ncounts = \"c.npy\"\nshifts = \"late.npy\"\n\
                 {v}output = \"r.npy\"\nvan-vleck = true\n\
                 {v}output = \"s.npy\"\nvan-vleck = 0.9\nchannels = \"0..1\"\n"
            ),
        );
        std::fs::write(folder.join("v.npy"), "before").unwrap();
        let dry = done(folder, "observe plan.toml --dry-run");
        assert!(dry.contains("visibilities r.npy: at most") && !dry.contains("replaced"), "{dry}");
        assert_eq!(std::fs::read(folder.join("v.npy")).unwrap(), b"before");
        assert!(done(folder, "observe plan.toml").contains("replaced"));
        let correlate = format!("correlate {file} {option} --integrate 512 --device {device}");
        done(folder, &format!("{correlate} --shifts late.npy -o v2.npy --counts c2.npy"));
        done(folder, &format!("{correlate} --van-vleck -o r2.npy"));
        done(folder, &format!("{correlate} --van-vleck=0.9 --channels 0..1 -o s2.npy"));
        done(folder, &format!("{correlate} --van-vleck=0.9 -o s3.npy"));
        let pairs =
            [("v.npy", "v2.npy"), ("c.npy", "c2.npy"), ("r.npy", "r2.npy"), ("s.npy", "s2.npy")];
        same(folder, &pairs);
        let read =
            |name| -> ndarray::Array4<f32> { ndarray_npy::read_npy(folder.join(name)).unwrap() };
        assert_eq!(read("s2.npy"), read("s3.npy").slice(ndarray::s![.., 0..1, .., ..]));
        assert!(read("r.npy").iter().any(|&part| part != 0.0 && part.abs() < 1.0));
        // No other product takes bits.
        for (product, key) in [("spectra", ""), ("kurtosis", ""), ("power", "integrate = 2\n")] {
            plan(folder, &format!("{input}[[{product}]]\noutput = \"x.npy\"\n{key}"));
            let text = refused(folder, "observe plan.toml");
            assert!(text.contains("expected") && !folder.join("x.npy").exists(), "{text}");
        }
        plan(folder, &format!("{input}[[visibilities]]\nintegrate = 500\noutput = \"x.npy\"\n"));
        for dry in ["", "--dry-run"] {
            let text = refused(folder, &format!("observe plan.toml {dry}"));
            assert!(text.contains("plan.toml: line 5: an integration of 500 times of b"), "{text}");
            assert!(!folder.join("x.npy").exists());
        }
    }
}

/// Raw voltages become channels, subchannels, visibilities and beams on a grid, in one plan.
#[test]
fn raw_voltages_become_beams_on_a_grid() {
    for (device, kernel) in [("cpu", "auto"), ("sim", "tensor")] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let simulate = "simulate -o scan.vdif --raw --inputs 6 --times 8000 --sources 1";
        done(folder, &format!("{simulate} --rate 32e6"));
        fs::write(folder.join("array.json"), ARRAY.replace("1e6", "500e3")).unwrap();
        // Three dishes of two polarisations.
        let dishes = r#"{"rows": 2, "columns": 3, "dishes": [[0, 0], [1, 1], [0, 2]],
            "weights": [[1, 0], [0, -1], [0.5, 0.25]], "gain": 0.01}"#;
        fs::write(folder.join("dishes.json"), dishes).unwrap();
        plan(
            folder,
            &format!(
                r#"
[input]
files = ["scan.vdif"]
device = "{device}"
channelise = {{ channels = 8, taps = 4, level = true }}
upchannelise = {{ factor = 4, unit-noise = true }}
[[visibilities]]
output = "v.npy"
integrate = 100
[[grid]]
dishes = "dishes.json"
output = "i.npy"
integrate = 7
kernel = "{kernel}"
[[grid]]
dishes = "dishes.json"
output = "h.npy"
half = true
integrate = 3
kernel = "{kernel}"
"#
            ),
        );
        let dry = done(folder, "observe plan.toml --dry-run");
        assert!(dry.contains("grid i.npy: at most"), "{dry}");
        let said = done(folder, "observe plan.toml");
        assert!(said.contains("grid i.npy: 24 beams, "), "{said}");
        let device = format!("--device {device}");
        done(
            folder,
            &format!("channelise scan.vdif -o x.npy --channels 8 --taps 4 --level {device}"),
        );
        done(folder, &format!("upchannelise x.npy -o y.npy --factor 4 --unit-noise {device}"));
        done(folder, &format!("correlate y.npy -o v2.npy --integrate 100 {device}"));
        // Polarisations have an axis of their own here.
        let y: ndarray::Array4<i8> = ndarray_npy::read_npy(folder.join("y.npy")).unwrap();
        let (times, channels, _, parts) = y.dim();
        let by_dish = y.into_shape_with_order((times, channels, 2, 3, parts)).unwrap();
        ndarray_npy::write_npy(folder.join("z.npy"), &by_dish).unwrap();
        let grid = format!("beamform z.npy --grid dishes.json --grid-kernel {kernel} {device}");
        done(folder, &format!("{grid} -o i2.npy --integrate 7"));
        done(folder, &format!("{grid} -o h2.npy --integrate 3 --half"));
        let one = format!("beamform scan.vdif --grid dishes.json --grid-kernel {kernel} {device}");
        let fx = "--channelise 8 --taps 4 --level --upchannelise 4 --unit-noise";
        done(folder, &format!("{one} {fx} -o i3.npy --integrate 7"));
        let pairs =
            [("v.npy", "v2.npy"), ("i.npy", "i2.npy"), ("i.npy", "i3.npy"), ("h.npy", "h2.npy")];
        same(folder, &pairs);
    }
}

#[test]
fn the_example_is_a_plan() {
    let folder = recording("ci4");
    let folder = folder.path();
    let example = done(folder, "observe --example");
    fs::write(folder.join("example.toml"), example.replace("\"8..24\"", "\"2..7\"")).unwrap();
    let said = done(folder, "observe example.toml --dry-run");
    assert!(
        said.contains("visibilities vis.uvh5: ") && !folder.join("vis.uvh5").exists(),
        "{said}"
    );
    // A block is all of the recording: 5003 times of 60 bytes; sums of 21 baselines and 10 channels, 16 bytes each.
    fs::write(
        folder.join("short.toml"),
        "[input]\nfiles = [\"scan.npy\"]\nencoding = \"ci4\"\ndevice = \"sim\"\n[[visibilities]]\noutput = \"v.npy\"\n",
    )
    .unwrap();
    let said = done(folder, "observe short.toml --dry-run");
    assert!(said.contains("device memory: at least 304 kB for samples and products"), "{said}");
    assert!(!said.contains("host memory"), "{said}");
    let power = "array = \"array.json\"\n[[power]]\noutput = \"p.fil\"\n[[visibilities]]";
    let text = fs::read_to_string(folder.join("short.toml")).unwrap();
    plan(folder, &text.replace("[[visibilities]]", power));
    let said = done(folder, "observe plan.toml --dry-run");
    let of = |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(of("power p.fil").ends_with("; reads samples in host memory"), "{said}");
    assert!(!of("visibilities v.npy").contains("host memory"), "{said}");
    let text = fs::read_to_string(folder.join("short.toml")).unwrap().replace("sim", "cpu");
    fs::write(folder.join("short.toml"), text).unwrap();
    let said = done(folder, "observe short.toml --dry-run");
    assert!(!said.contains("device memory"), "{said}");
    done(folder, "observe example.toml");
    for name in ["vis.uvh5", "fast.npy", "beams.npy", "power.fil", "spectra.npy", "kurtosis.npy"] {
        assert!(folder.join(name).exists(), "{name}");
    }
}

#[test]
fn a_product_that_cannot_be_written_ends_alone() {
    let folder = recording("ci8");
    let folder = folder.path();
    // The standard output of a reader that is gone is no fault, a full device is.
    plan(
        folder,
        "[input]\nfiles = [\"scan.npy\"]\ndevice = \"cpu\"\n[[visibilities]]\noutput = \"/dev/full\"\nintegrate = 1\n\
         [[visibilities]]\noutput = \"v.npy\"\nintegrate = 1000\n",
    );
    let output = corrust(folder, "observe plan.toml");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!((said.matches("No space left").count(), said.lines().count()), (1, 2), "{said}");
    done(folder, "correlate scan.npy -o v2.npy --integrate 1000 --device cpu");
    same(folder, &[("v.npy", "v2.npy")]);
}

#[test]
fn plans_that_cannot_be_made_get_a_sentence() {
    let folder = recording("ci8");
    let folder = folder.path();
    let input = "[input]\nfiles = [\"scan.npy\"]\ndevice = \"cpu\"\n";
    let array = "[input]\nfiles = [\"scan.npy\"]\narray = \"array.json\"\ndevice = \"cpu\"\n";
    let v = "[[visibilities]]\noutput = \"v.npy\"\n";
    for (text, sentence) in [
        ("", "missing field `input`"),
        ("[input\n", "line 1: "),
        (input, "plan.toml: expected a product"),
        (&format!("{input}[[visibility]]\n")[..], "line 4: unknown field `visibility`"),
        (&format!("{input}{v}integrat = 3\n"), "line 6: unexpected argument 'integrat'"),
        (&format!("{input}{v}integrate = 0\n"), "line 6: invalid value '0' for 'integrate"),
        (
            &format!("{input}{v}integrate = 6000\n"),
            "line 6: integrate 6000: the recording has only 5003 times",
        ),
        (&format!("{input}{v}van-vleck = true\n"), "line 6: van-vleck of ci8 samples"),
        (&format!("{input}rate = 3\n{v}"), "line 4: rate: of raw voltages, expected channelise"),
        (&format!("{input}{v}integrate = {{ a = 1 }}\n"), "line 6: integrate: expected a text"),
        (&format!("{input}{v}seconds = 1\nintegrate = 1\n"), "cannot be used with"),
        (&format!("{input}{v}seconds = 1\n"), "does not say how many samples a second"),
        (&format!("{input}{v}channels = \"5..11\"\n"), "channels 5..11: expected some of 10"),
        (&format!("{input}{v}channels = \"5..5\"\n"), "expected a range of channels"),
        (&format!("{input}{v}{v}"), "line 7: v.npy: is to hold two outputs"),
        (&format!("{input}{v}counts = \"v.npy\"\n"), "line 6: v.npy: is to hold two outputs"),
        (
            &format!("{input}[[visibilities]]\noutput = \"scan.npy\"\n"),
            "line 5: scan.npy: is an input",
        ),
        (&format!("{input}[[visibilities]]\noutput = \"plan.toml\"\n"), "plan.toml: is an input"),
        (&format!("{input}[[visibilities]]\noutput = \"v.uvh5\"\n"), "expected array ="),
        (
            &format!("{input}[[power]]\noutput = \"p.fil\"\n"),
            "line 4: scan.npy: does not say its frequencies, start, sample time: expected array =",
        ),
        (
            &format!("{array}[[power]]\noutput = \"p.fil\"\ninput = [6]\n"),
            "line 7: input 6: expected one below 6",
        ),
        (&format!("{input}[[kurtosis]]\noutput = \"k.npy\"\ntimes = 15\n"), "16"),
        (
            &format!("{input}[[kurtosis]]\noutput = \"k.fil\"\n"),
            "k.fil: is to be a NumPy file: expected a name that ends in .npy",
        ),
        (
            &format!("{input}[[spectra]]\noutput = \"s.uvh5\"\n"),
            "s.uvh5: is to be a NumPy file: expected a name that ends in .npy",
        ),
        (
            &format!(
                "{input}[[beams]]\nweights = \"weights.npy\"\nshifts = \"shifts.npy\"\noutput = \"b.npy\"\nintegrate = 4\n"
            ),
            "line 8: integrate 4: expected",
        ),
        (
            &format!("{array}[[power]]\noutput = \"p.fil\"\nscale = 0\n"),
            "line 7: scale 0: expected a finite number, not 0",
        ),
        (
            &format!("{array}[[power]]\noutput = \"p.fil\"\ninput = [0, 0]\n"),
            "line 7: input 0: found twice, expected it once",
        ),
        (&format!("{input}flag = {{ method = \"sk\", times = 1 }}\n{v}"), "times"),
        (
            &format!("{input}[[grid]]\noutput = \"g.npy\"\n"),
            "line 4: the following required arguments were not provided: dishes",
        ),
        (&format!("{input}[[kurtosis]]\noutput = \"k.npy\"\ntimes = 0\n"), "16 to 65536"),
        (&format!("{input}flag = {{ method = \"sk\", times = 0 }}\n{v}"), "16 to 65536"),
        (&format!("{input}flag = {{ method = \"sk\", real = [10] }}\n{v}"), "real 10"),
        (
            &format!(
                "{input}[[beams]]\nweights = \"shifts.npy\"\nshifts = \"shifts.npy\"\noutput = \"b.npy\"\n"
            ),
            "shifts.npy: ",
        ),
        (&format!("{input}[[beams]]\noutput = \"b.npy\"\n"), "weights"),
        ("[input]\n[[visibilities]]\noutput = \"v.npy\"\n", "line 1: [input]: expected files"),
        (
            "[input]\nfiles = []\n[[visibilities]]\noutput = \"v.npy\"\n",
            "line 2: files: expected a list of paths",
        ),
        (
            "[input]\nfiles = [\"absent.npy\"]\n[[visibilities]]\noutput = \"v.npy\"\n",
            "plan.toml: line 2: absent.npy: cannot read",
        ),
        (
            &format!("{input}array = \"absent.json\"\n{v}"),
            "plan.toml: line 4: absent.json: cannot read",
        ),
        (
            &format!(
                "{input}[[beams]]\nweights = \"absent.npy\"\nshifts = \"shifts.npy\"\noutput = \"b.npy\"\n"
            ),
            "plan.toml: line 5: absent.npy: cannot read",
        ),
        (
            &format!("{input}{v}gates = \"absent.npy\"\n"),
            "plan.toml: line 6: absent.npy: cannot read",
        ),
        (
            &format!(
                "{array}[[beams]]\nweights = \"weights.npy\"\nshifts = \"shifts.npy\"\noutput = \"spead://127.0.0.1:9\"\n"
            ),
            "line 8: spead://127.0.0.1:9: 1 address for ",
        ),
        (&format!("{input}rate = 3\n{v}"), "rate: of raw voltages"),
        (&format!("{input}channelise = 3\n{v}"), "channelise: expected a table"),
        (&format!("{input}channelise = {{ taps = 3 }}\n{v}"), "channelise: expected channels"),
        (&format!("{input}flag = {{ method = \"x\" }}\n{v}"), "invalid value 'x'"),
        (&format!("{input}upchannelise = 4\n{v}"), "upchannelise: expected a table"),
        (&format!("{input}upchannelise = {{ taps = 4 }}\n{v}"), "factor"),
        (
            &format!("{input}upchannelise = {{ factor = 6 }}\n{v}"),
            "line 4: 6 subchannels of a channel: expected a power of two, 2 to 512",
        ),
        (
            &format!("{input}upchannelise = {{ factor = 4, output-encoding = \"cf32\" }}\n{v}"),
            "line 4: subchannels of cf32",
        ),
        (
            &format!("{input}upchannelise = {{ factor = 4, weights = \"scan.npy\" }}\n{v}"),
            "scan.npy: ",
        ),
        (
            &format!(
                "{input}channelise = {{ channels = 8, oversample = \"2\" }}\nupchannelise = {{ factor = 4 }}\n{v}"
            ),
            "line 5: upchannelise: of channels that overlap",
        ),
        (&format!("{input}device2 = \"cpu\"\n{v}"), "unexpected argument 'device2'"),
        (&format!("{v}[input]\nfiles = [\"scan.npy\"]\ndevice = \"gpu\"\n"), "line 5: "),
    ] {
        plan(folder, text);
        let error = refused(folder, "observe plan.toml");
        assert!(error.contains(sentence) && error.lines().count() == 1, "{text}: {error}");
        assert!(!error.contains("--"), "an option in place of a key: {error}");
        assert_eq!(refused(folder, "observe plan.toml --dry-run"), error, "{text}");
        assert!(!folder.join("v.npy").exists(), "{text}");
    }
}

/// Two blocks of GUPPI RAW: 16 times of 2 antennas, 2 channels and 2 polarisations of 8 bits, of a source without a direction.
fn guppi() -> Vec<u8> {
    let block = |packet: &str| {
        let cards = [
            ("OBSNCHAN", "4"),
            ("NANTS", "2"),
            ("NPOL", "4"),
            ("NBITS", "8"),
            ("BLOCSIZE", "256"),
            ("PKTSIZE", "16"),
            ("PKTIDX", packet),
            ("TBIN", "0.001"),
            ("OBSFREQ", "1400.0"),
            ("OBSBW", "2.0"),
            ("STT_IMJD", "61100"),
            ("STT_SMJD", "43200"),
            ("SRC_NAME", "'J1234-56'"),
        ];
        [guppi_header(&cards), (0..256).map(|at| at as u8).collect()].concat()
    };
    [block("0"), block("16")].concat()
}

/// Headers that say all need no array, and name the source.
#[test]
fn powers_take_their_facts_from_headers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("scan.raw"), guppi()).unwrap();
    plan(folder, "[input]\nfiles = [\"scan.raw\"]\n[[power]]\noutput = \"p.fil\"\nintegrate = 4\n");
    done(folder, "observe plan.toml");
    done(folder, "filterbank scan.raw -o q.fil --integrate 4");
    same(folder, &[("p.fil", "q.fil")]);
    let bytes = fs::read(folder.join("p.fil")).unwrap();
    assert!(bytes.windows(8).any(|name| name == b"J1234-56"));

    done(folder, "simulate -o scan.npy --inputs 2 --channels 3 --times 20");
    plan(folder, "[input]\nfiles = [\"scan.npy\"]\n[[power]]\noutput = \"n.fil\"\n");
    let said = refused(folder, "observe plan.toml");
    let sentence = "scan.npy: does not say its frequencies, start, sample time: expected array = \"ARRAY.json\" in [input]";
    assert!(said.contains(sentence), "{said}");
    plan(folder, "[input]\nfiles = [\"scan.npy\"]\n[[power]]\noutput = \"n.npy\"\n");
    done(folder, "observe plan.toml");
    done(folder, "filterbank scan.npy -o m.npy");
    same(folder, &[("n.npy", "m.npy")]);
}

/// Inputs that are X and Y of an antenna, then those of the next, are no dishes of X, then of Y.
#[test]
fn beams_of_two_polarisations_are_of_inputs_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("scan.raw"), guppi()).unwrap();
    let weights = |name: &str, polarisations: usize| {
        let axes = (2, polarisations, 1, 4 / polarisations, 2);
        let weights = ndarray::Array5::from_elem(axes, 1_i8);
        ndarray_npy::write_npy(folder.join(format!("w{name}.npy")), &weights).unwrap();
        let shifts = ndarray::Array3::from_elem((2, polarisations, 1), 0_i32);
        ndarray_npy::write_npy(folder.join(format!("s{name}.npy")), &shifts).unwrap();
    };
    weights("1", 1);
    weights("2", 2);
    let grid = r#"{"rows": 1, "columns": 2, "dishes": [[0, 0], [0, 1]]}"#;
    fs::write(folder.join("grid.json"), grid).unwrap();
    let beams = |of: &str| {
        format!("[[beams]]\nweights = \"w{of}.npy\"\nshifts = \"s{of}.npy\"\noutput = \"b.npy\"\n")
    };
    let on_grid = "[[grid]]\ndishes = \"grid.json\"\noutput = \"b.npy\"\n".to_owned();
    let listed = |inputs: &str| {
        fs::write(folder.join("array.json"), format!(r#"{{"inputs": [{inputs}]}}"#)).unwrap()
    };
    let input = "[input]\nfiles = [\"scan.raw\"]\ndevice = \"cpu\"\n";
    let with_array = format!("{input}array = \"array.json\"\n");
    for products in [beams("2"), on_grid.clone()] {
        plan(folder, &format!("{input}{products}"));
        for dry in ["", "--dry-run"] {
            let said = refused(folder, &format!("observe plan.toml {dry}"));
            assert!(said.contains("expected beams of 1 polarisation of 4 dishes"), "{said}");
        }
        plan(folder, &format!("{with_array}{products}"));
        listed(r#"[0, "X"], [0, "Y"], [1, "X"], [1, "Y"]"#);
        let said = refused(folder, "observe plan.toml");
        assert!(said.contains("expected 2 of X, then 2 of Y"), "{said}");
        assert!(!folder.join("b.npy").exists());
        listed(r#"[0, "X"], [1, "X"], [0, "Y"], [1, "Y"]"#);
        done(folder, "observe plan.toml");
        fs::remove_file(folder.join("b.npy")).unwrap();
    }
    plan(folder, &format!("{input}{}", beams("1")));
    done(folder, "observe plan.toml");

    // The command, of raw voltages: listed inputs, and the array's default.
    done(folder, "simulate --raw -o raw.npy --inputs 4 --times 20000 --rate 1MHz");
    let beamform = "beamform raw.npy --channelise 8 --level --rate 1MHz --sky-frequency 1.4GHz \
        --start 2026-03-01T12:00:00 --weights w8.npy --shifts s8.npy --array array.json -o b.fil --device cpu";
    let weights = ndarray::Array5::from_elem((8, 2, 1, 2, 2), 1_i8);
    ndarray_npy::write_npy(folder.join("w8.npy"), &weights).unwrap();
    let shifts = ndarray::Array3::from_elem((8, 2, 1), 0_i32);
    ndarray_npy::write_npy(folder.join("s8.npy"), &shifts).unwrap();
    listed(r#"[0, "X"], [0, "Y"], [1, "X"], [1, "Y"]"#);
    assert!(refused(folder, beamform).contains("expected 2 of X, then 2 of Y"));
    fs::write(folder.join("array.json"), r#"{"positions": [[0, 0, 0], [9, 0, 0]]}"#).unwrap();
    assert!(refused(folder, beamform).contains("expected beams of 1 polarisation of 4 dishes"));
    listed(r#"[0, "X"], [1, "X"], [0, "Y"], [1, "Y"]"#);
    done(folder, beamform);
}
