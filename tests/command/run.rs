//! The command line: what it prints, writes, refuses, and leaves behind.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use corrust::{
    Encoding, Layout,
    format::{
        self, Block, Options,
        npy::{Dtype, Reader, Writer},
    },
};
use ndarray::{Array1, Array4};

use crate::support::{
    command::{corrust, refused},
    files::files_in,
    oracle::autocorrelate as counted,
    oracle::correlate as oracle,
};

const CORRUST: &str = env!("CARGO_BIN_EXE_corrust");

/// Runs a command that succeeds, and returns what it printed and what it warned of.
fn done(folder: &Path, arguments: &str) -> (String, String) {
    let output = corrust(folder, arguments);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{arguments}: {out}{err}");
    (out, err)
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// The samples of a recording, for the oracle.
fn recording(path: &Path, encoding: Encoding, layout: Layout) -> oracle::Block {
    let options = Options { encoding: Some(encoding), layout: Some(layout), ..Options::default() };
    let mut recording = format::open(&[path], options).unwrap();
    let (shape, times) = (recording.shape(), recording.times() as usize);
    let mut block = Block::new();
    recording.read_block(times, &mut block).unwrap();
    oracle::Block {
        inputs: shape.inputs,
        channels: shape.channels,
        times,
        encoding,
        layout,
        bytes: block.samples.into_vec(),
    }
}

#[test]
fn simulated_recordings_correlate_to_what_plain_loops_give() {
    let folder = tempfile::tempdir().unwrap();
    for encoding in [Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset] {
        for layout in Layout::ALL {
            let kind = format!("--encoding {encoding} --layout {layout}");
            done(
                folder.path(),
                &format!("simulate -o rec.npy --inputs 5 --channels 3 --times 100 {kind}"),
            );
            let arguments = format!("correlate rec.npy -o vis.npy --integrate 30 {kind}");
            let (out, err) = done(folder.path(), &arguments);
            assert!(out.contains("5 inputs x 3 channels x 90 times into 3 dumps"), "{out}");
            assert_eq!(out.lines().count(), 1, "{out}");
            assert!(err.contains("the last 10 of 100 times do not fill a dump of 30"), "{err}");

            let found: Array4<i64> = ndarray_npy::read_npy(folder.path().join("vis.npy")).unwrap();
            assert_eq!(found.dim(), (3, 3, 15, 2));
            let block = recording(&folder.path().join("rec.npy"), encoding, layout);
            for dump in 0..3 {
                let times = dump * 30..(dump + 1) * 30;
                let expected =
                    oracle::correlate(5, 3, times, |c, n, t| Some(block.sample(c, n, t)));
                for (channel, row) in expected.iter().enumerate() {
                    for (baseline, v) in row.iter().enumerate() {
                        let part = |part| found[[dump, channel, baseline, part]];
                        assert_eq!((part(0), part(1)), (v.re as i64, v.im as i64));
                    }
                }
            }
        }
    }
    assert_eq!(files_in(folder.path()), ["rec.json", "rec.npy", "rec.npy.json", "vis.npy"]);
}

#[test]
fn files_follow_each_other_and_half_floats_give_floats() {
    let folder = tempfile::tempdir().unwrap();
    let size = "--inputs 3 --channels 2 --encoding cf16 --sources 0";
    done(folder.path(), &format!("simulate -o a.npy --times 50 --seed 1 {size}"));
    done(folder.path(), &format!("simulate -o b.npy --times 25 --seed 2 {size}"));
    // Without an encoding: float16 is cf16.
    done(folder.path(), "correlate a.npy b.npy -o ab.npy --integrate 25 --device cpu");
    let found: Array4<f32> = ndarray_npy::read_npy(folder.path().join("ab.npy")).unwrap();
    assert_eq!(found.dim(), (3, 2, 6, 2));
    done(folder.path(), "correlate b.npy -o b-alone.npy --device cpu");
    let alone: Array4<f32> = ndarray_npy::read_npy(folder.path().join("b-alone.npy")).unwrap();
    assert_eq!(found.slice(ndarray::s![2.., .., .., ..]), alone);
    assert!(alone.iter().any(|&value| value != 0.0));
}

#[test]
fn missing_blocks_are_counted() {
    // Two polarisations, one channel, blocks of 8 times, the second of three blocks missing.
    let block = |index: usize, value: u8| {
        let cards = [
            "OBSNCHAN= 1".to_owned(),
            "NPOL    = 4".to_owned(),
            "NBITS   = 8".to_owned(),
            "BLOCSIZE= 32".to_owned(),
            "PKTSIZE = 32".to_owned(),
            "TBIN    = 0.5".to_owned(),
            format!("PKTIDX  = {index}"),
            "END".to_owned(),
        ];
        let header: String = cards.iter().map(|card| format!("{card:80}")).collect();
        [header.into_bytes(), vec![value; 32]].concat()
    };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("scan.raw"), [block(0, 1), block(2, 255)].concat()).unwrap();
    let (out, err) = done(
        folder.path(),
        "correlate scan.raw -o vis.npy --integrate 6 --counts counts.npy --device cpu",
    );
    assert!(
        out.contains("2 inputs x 1 channel x 24 times (12.0 s of signal) into 4 dumps"),
        "{out}"
    );
    assert!(
        err.contains("33.3 % of the samples are missing (33.3 % lost) and count as zero"),
        "{err}"
    );
    let counts: Array1<u64> = ndarray_npy::read_npy(folder.path().join("counts.npy")).unwrap();
    assert_eq!(counts.to_vec(), [6, 2, 2, 6]);
    let found: Array4<i64> = ndarray_npy::read_npy(folder.path().join("vis.npy")).unwrap();
    // Every sample is 1 + i or -1 - i, every product 2.
    for (dump, &count) in counts.iter().enumerate() {
        for baseline in 0..3 {
            assert_eq!(found[[dump, 0, baseline, 0]], 2 * count as i64);
            assert_eq!(found[[dump, 0, baseline, 1]], 0);
        }
    }
}

#[test]
fn the_demo_recovers_the_delays() {
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = done(folder.path(), "demo --device cpu --out new/figures");
    // No progress bar without a terminal: only the warning that delays reach before the recording's start.
    assert!(err.lines().all(|line| line.contains("of the samples are missing")), "{err}");
    assert!(out.contains("fringes of baselines up to 20 km stopped"), "{out}");
    let error = out
        .lines()
        .find_map(|line| line.strip_prefix("largest error "))
        .and_then(|rest| rest.split(' ').next())
        .and_then(|number| number.parse::<f64>().ok())
        .expect("the largest error is printed");
    assert!(error < 0.02, "{out}");
    let lines: Vec<&str> =
        out.lines().filter(|line| line.trim_start().starts_with("input")).collect();
    assert_eq!(lines.len(), 16, "{out}");
    let folder = folder.path().join("new/figures");
    assert_eq!(
        files_in(&folder),
        [
            "raw.json",
            "raw.npy",
            "recording.json",
            "recording.npy",
            "stopped.npy",
            "visibilities.npy",
            "visibilities.svg"
        ]
    );
    let plot = fs::read_to_string(folder.join("visibilities.svg")).unwrap();
    assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));
    // The colour bars' steps lie on top of each other, down to the end: no seam can show.
    let number = |line: &str, name: &str| -> Option<i32> {
        line.split_once(&format!(" {name}=\""))?.1.split('"').next()?.parse().ok()
    };
    let mut ends = std::collections::BTreeMap::<i32, Vec<i32>>::new();
    for line in plot.lines().filter(|line| line.starts_with("<rect") && !line.contains("#000000")) {
        if let (Some(16), Some(y), Some(height)) =
            (number(line, "width"), number(line, "y"), number(line, "height"))
        {
            ends.entry(y + height).or_default().push(y);
        }
    }
    assert_eq!(ends.len(), 2, "a bar of phases, one of coherences: {ends:?}");
    assert!(ends.values().all(|steps| steps.len() > 150), "{ends:?}");
    // 16 x 16 cells, and 128 points for each of three baselines.
    assert!(plot.matches("<rect").count() >= 256 && plot.matches("<circle").count() == 384);
}

#[test]
fn devices_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let (out, _) = done(folder.path(), "devices");
    assert!(out.starts_with("cpu "), "{out}");
    match corrust::device::cuda::count() {
        Ok(_) => assert!(out.contains("cuda:0") && out.contains("compute capability"), "{out}"),
        Err(reason) => {
            assert!(out.contains(&reason.to_string()), "{out}");
            let text = refused(folder.path(), "demo --device cuda");
            assert!(text.contains(&reason.to_string()), "{text}");
        }
    }
}

/// 4000 inputs of 4 times are more likely 4000 times of 4 inputs.
#[test]
fn more_inputs_than_times_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Writer::with_shape(folder.join("rec.npy"), Dtype::Int8, &[4, 8, 40, 2])
        .unwrap()
        .finish()
        .unwrap();
    let (_, err) = done(folder, "correlate rec.npy -o v.npy --device cpu");
    assert!(err.contains("as tcn, its axes are 4 times and 40 inputs"), "{err}");
    assert!(err.contains("say --layout cnt") && err.lines().count() == 1, "{err}");
    for layout in ["tcn", "cnt"] {
        let command = format!("correlate rec.npy -o {layout}.npy --layout {layout} --device cpu");
        assert_eq!(done(folder, &command).1, "", "{layout}: the user knows");
    }
}

#[test]
fn help_shows_defaults_and_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let (out, _) = done(folder.path(), "autocorrelate --help");
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["1 to 24 [default: 10]", "2 to 65536", "[default: 32]", "[default: bin-groups]"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (out, _) = done(folder.path(), "quantise --help");
    let line = out.lines().find(|line| line.contains("packed-complex-3 ")).unwrap();
    assert!(line.contains("on a GPU") && out.contains("--device sim"), "{out}");
}

#[test]
fn help_has_examples() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["", "simulate", "correlate", "demo"] {
        let (out, _) = done(folder.path(), &format!("{command} --help"));
        assert!(out.contains("Examples:") && out.contains("corrust "), "{out}");
    }
}

/// A simulated recording says its encoding, whatever the type of its array.
#[test]
fn simulated_recordings_need_no_encoding() {
    let folder = tempfile::tempdir().unwrap();
    for (encoding, layout) in
        [("ci8", "tcn"), ("ci4", "tcn"), ("ci4-offset", "cnt"), ("cf16", "tcn")]
    {
        let simulate = "simulate -o rec.npy --inputs 3 --channels 2 --times 40";
        done(folder.path(), &format!("{simulate} --encoding {encoding} --layout {layout}"));
        let beside = folder.path().join("rec.npy.json");
        assert_eq!(beside.exists(), encoding.starts_with("ci4"), "{encoding}");
        let layout = if beside.exists() { String::new() } else { format!("--layout {layout}") };
        done(folder.path(), &format!("correlate rec.npy -o described.npy {layout} --device cpu"));
        let described = fs::read(folder.path().join("described.npy")).unwrap();
        let _ = fs::remove_file(beside);
        let given = format!("--encoding {encoding} {layout}");
        let given = if encoding == "ci4-offset" { format!("{given} --layout cnt") } else { given };
        done(folder.path(), &format!("correlate rec.npy -o given.npy {given} --device cpu"));
        assert!(described == fs::read(folder.path().join("given.npy")).unwrap(), "{encoding}");
    }
    done(folder.path(), "simulate -o rec.npy --inputs 1 --channels 1 --times 4 --encoding ci4");
    let output = corrust(
        folder.path(),
        "simulate -o rec.npy --inputs 1 --channels 1 --times 4 --encoding ci4 --no-clobber",
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn bad_input_gets_one_sentence_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), "simulate -o rec.npy --inputs 2 --channels 2 --times 10");
    done(
        folder.path(),
        "simulate -o nibbles.npy --inputs 2 --channels 2 --times 10 --encoding ci4",
    );
    fs::remove_file(folder.path().join("nibbles.npy.json")).unwrap();
    fs::write(folder.path().join("empty.npy"), "").unwrap();
    fs::write(folder.path().join("notes.txt"), "not a recording\n").unwrap();
    let bytes = fs::read(folder.path().join("rec.npy")).unwrap();
    // A time of 10^7 inputs is no large file, but their visibilities take 800 TB.
    let wide =
        Writer::with_shape(folder.path().join("wide.npy"), Dtype::Int8, &[1, 1, 10_000_000, 2]);
    wide.unwrap().finish().unwrap();
    fs::write(folder.path().join("short.npy"), &bytes[..bytes.len() - 1]).unwrap();
    let before = files_in(folder.path());
    for (arguments, expected) in [
        ("correlate missing.npy -o out.npy", "missing.npy: cannot read"),
        ("correlate empty.npy -o out.npy", "empty.npy: 0 bytes: expected"),
        ("correlate notes.txt -o out.npy", "notes.txt: starts with"),
        (
            "correlate short.npy -o out.npy",
            "short.npy: truncated: 79 bytes of elements, expected 80",
        ),
        ("correlate rec.npy short.npy -o out.npy", "short.npy: truncated"),
        ("correlate . -o out.npy", ".: cannot read: Is a directory"),
        ("correlate nibbles.npy -o out.npy", "say which encoding"),
        ("correlate rec.npy -o out.npy --encoding ci4", "rec.npy: elements of type int8: expected"),
        ("correlate rec.npy -o none/out.npy", "none/out.npy: cannot write"),
        ("correlate rec.npy -o .", ".: is a folder"),
        ("correlate rec.npy -o rec.npy", "rec.npy: is an input: expected another file to write"),
        ("correlate rec.npy -o ./rec.npy", "rec.npy: is an input: expected another file to write"),
        ("correlate rec.npy -o out.npy --counts out.npy", "out.npy: is to hold two outputs"),
        ("correlate rec.npy -o out.npy --counts none/n.npy", "none/n.npy: cannot write"),
        ("correlate rec.npy -o out.npy --integrate 11", "the recording has only 10 times"),
        ("correlate rec.npy -o out.npy --integrate 0", "--integrate"),
        (
            "correlate rec.npy -o out.npy --layout nct",
            "unknown layout \"nct\": expected tcn or cnt",
        ),
        ("correlate rec.npy -o out.npy --encoding ci2", "unknown encoding \"ci2\""),
        ("correlate rec.npy -o out.npy --device gpu", "unknown device \"gpu\""),
        ("correlate rec.npy -o out.npy --kernel best", "unknown kernel \"best\""),
        (
            "correlate wide.npy -o out.npy --device cpu --layout tcn",
            "out of memory: 800000080000000 bytes are needed",
        ),
        (
            "correlate wide.npy -o out.npy --device cpu --layout tcn",
            "; as tcn, the recording has 1 time, 1 channel",
        ),
        ("simulate -o out.npy --sources 10000000000000", "expected at most 1021"),
        ("correlate -o out.npy", "<IN>"),
        ("simulate -o out.npy --inputs 0", "0 inputs"),
        ("simulate -o out.npy --channels 0", "0 channels"),
        ("simulate -o out.npy --times 0", "0 times"),
        ("simulate -o out.npy --times -1", "--times"),
        ("simulate -o none/out.npy", "none/out.npy: cannot write"),
        ("simulate -o out.json", "expected a name ending in .npy"),
        ("demo --out notes.txt", "notes.txt: cannot write"),
        ("rotate", "rotate"),
    ] {
        let text = refused(folder.path(), arguments);
        assert!(text.contains(expected), "{arguments}: {text:?} says {expected:?}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert_eq!(files_in(folder.path()), before, "{arguments}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_command_leaves_nothing() {
    for signal in ["-INT", "-TERM"] {
        interrupt(signal);
    }
}

/// Interrupts a command by a signal while it writes.
#[cfg(unix)]
fn interrupt(signal: &str) {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(CORRUST)
        .args(["simulate", "-o", "rec.npy", "--inputs", "64", "--times", "100000000"])
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Wait for the unfinished file, then interrupt.
    while files_in(folder.path()).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(files_in(folder.path())[0].ends_with(".partial"));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(texts(&output).1.contains("interrupted"));
    assert!(files_in(folder.path()).is_empty());
}

#[test]
fn counts_are_autocorrelated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (sensors, instants) = (3, 5000);
    let counts: Vec<u8> =
        (0..sensors * instants).map(|i| (i * i % 251 + i / 7 % 5) as u8).collect();
    let write = |name: &str, counts: &[u8]| {
        let mut writer = Writer::appending(folder.join(name), Dtype::Uint8, &[sensors]).unwrap();
        writer.append(counts).unwrap();
        writer.finish().unwrap();
    };
    write("counts.npy", &counts);
    write("first.npy", &counts[..sensors * 1234]);
    write("second.npy", &counts[sensors * 1234..]);
    let read = |name: &str| Reader::open(folder.join(name)).unwrap();

    let (out, _) = done(
        folder,
        "autocorrelate counts.npy -o sums.npy --groups 5 --lags 16 --device cpu --curves g.csv \
         --plot g.svg --dwell 200ns",
    );
    assert!(out.contains("3 sensors x 5000 instants (0.00100 s) at 80 lags"), "{out}");
    let mut sums = read("sums.npy");
    assert_eq!((sums.dtype(), sums.shape()), (Some(Dtype::Uint64), &[3, 5, 16][..]));
    let sums = sums.read_all().unwrap();
    let stream = counted::Stream { sensors, counts: counts.clone() };
    let expected: Vec<u8> = (0..sensors)
        .flat_map(|sensor| counted::bin_groups(&stream, (sensor, sensor), 5, 16))
        .flat_map(|point| point.products.to_le_bytes())
        .collect();
    assert_eq!(sums, expected);
    let table = fs::read_to_string(folder.join("g.csv")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 81);
    assert_eq!(lines[0], "lag_seconds,mean,sensor_0,sensor_1,sensor_2");
    assert!(lines[2].starts_with("2.000000000e-7,"), "{}", lines[2]);
    assert!(fs::read_to_string(folder.join("g.svg")).unwrap().contains("lag τ"));

    // Ticks have as many digits as they need: they are as far apart as they say.
    let plot = fs::read_to_string(folder.join("g.svg")).unwrap();
    let ticks: Vec<f64> = plot.lines().filter_map(|line| line.trim().parse().ok()).collect();
    let steps: Vec<f64> = ticks.windows(2).map(|ticks| ticks[1] - ticks[0]).collect();
    assert!(steps.len() > 2 && steps[0] != 0.0, "{ticks:?}");
    assert!(steps.iter().all(|step| (step / steps[0] - 1.0).abs() < 1e-6), "{ticks:?}");
    done(folder, "autocorrelate counts.npy -o sums.npy --groups 5 --device cpu --plot g.png");
    assert!(fs::read(folder.join("g.png")).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
    // A figure of nothing has axes, with a word.
    write("dark.npy", &[0; 300]);
    done(folder, "autocorrelate dark.npy -o dark-sums.npy --device cpu --plot dark.svg");
    let plot = fs::read_to_string(folder.join("dark.svg")).unwrap();
    assert!(plot.contains("lag τ") && plot.contains("no lag above 0 has counts"), "{plot}");
    // One sensor needs no axis.
    let mut single = Writer::with_shape(folder.join("single.npy"), Dtype::Uint8, &[5000]).unwrap();
    single.write_at(0, &counts[..5000]).unwrap();
    single.finish().unwrap();
    let (out, _) = done(folder, "autocorrelate single.npy -o single-sums.npy --device cpu");
    assert!(out.contains("1 sensor x 5000 instants"), "{out}");
    assert_eq!(read("single-sums.npy").shape(), [1, 10, 32]);

    // A stream in two files is one stream.
    done(folder, "autocorrelate first.npy -o a.npy --groups 5 --lags 16 --device cpu --save state");
    done(folder, "autocorrelate second.npy -o b.npy --resume state --device sim --curves g.npy");
    assert_eq!(read("b.npy").read_all().unwrap(), expected);
    assert_eq!(
        (read("g.npy").dtype(), read("g.npy").shape()),
        (Some(Dtype::Float64), &[5, 80][..])
    );

    done(folder, "autocorrelate counts.npy -o c.npy --scheme classic --lags 8 --groups 4");
    assert_eq!(read("c.npy").shape(), [3, 9 + 3 * 4]);
    done(folder, "autocorrelate counts.npy -o x.npy --pair 0,2 --pair 2,0 --device cpu --groups 3");
    assert_eq!(read("x.npy").shape(), [2, 3, 32]);

    let before = files_in(folder);
    for (arguments, sentence) in [
        ("counts.npy -o counts.npy", "counts.npy: is an input: expected another file to write"),
        ("sums.npy -o o.npy", "sums.npy: 3 axes [3, 5, 32]: expected 2, uint64 [T][sensor]"),
        ("counts.npy -o o.npy --groups 0", "0 groups: expected 1 to 24"),
        ("counts.npy -o o.npy --curves g.txt", "g.txt: expected a name that ends in .csv or .npy"),
        ("counts.npy -o o.npy --dwell 3", "expected a positive number with ns, us, ms or s"),
        ("counts.npy -o o.npy --pair 0,3", "sensor pair 0,3: expected numbers below 3"),
        ("counts.npy -o o.npy --resume g.csv", "g.csv: starts with \"lag_seco\": expected an"),
    ] {
        let error = refused(folder, &format!("autocorrelate {arguments}"));
        assert!(error.contains(sentence), "{arguments}: {error}");
    }
    assert_eq!(files_in(folder), before);
}

#[test]
#[cfg(target_os = "linux")]
fn results_that_cannot_be_written_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o rec.npy --inputs 2 --channels 2 --times 100");
    let run = |arguments: &str, stdout: Stdio| {
        let mut command = Command::new(CORRUST);
        command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
        command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap()
    };
    for arguments in [
        "info rec.npy",
        "info --json rec.npy",
        "devices",
        "plan --inputs 8 --bandwidth 1MHz",
        "correlate rec.npy -o v.npy --device cpu",
        "simulate -o again.npy --inputs 2 --channels 2 --times 100",
        "help correlate",
        "--help",
        "--version",
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = run(arguments, full.into()).wait_with_output().unwrap();
        let (_, said) = texts(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        let sentence = "error: the standard output: cannot write: No space left on device";
        assert!(said.lines().last().unwrap().starts_with(sentence), "{arguments}: {said}");
        // A reader that has seen enough.
        let mut child = run(arguments, Stdio::piped());
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let (_, said) = texts(&output);
        assert!(output.status.success(), "{arguments}: {said}");
        assert!(!said.contains("cannot write"), "{arguments}: {said}");
    }
}

#[test]
fn numbers_that_are_none_are_shown_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let mut file =
        Writer::appending(folder.path().join("rec.npy"), Dtype::Float16, &[1, 1, 2]).unwrap();
    // NaN and NaN, 1 and NaN, -1 and -infinity, in IEEE halves.
    for half in [0x7e00_u16, 0x7e00, 0x3c00, 0xfe00, 0xbc00, 0xfc00] {
        file.append(&half.to_le_bytes()).unwrap();
    }
    file.finish().unwrap();
    let (said, _) = done(folder.path(), "info rec.npy");
    assert!(said.contains("NaN+NaNj 1+NaNj -1-infj"), "{said}");
}
