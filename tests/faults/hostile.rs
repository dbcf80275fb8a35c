//! The command with hostile input: changed files of every format, and command lines drawn from its own
//! options with values at the end of their range. Each run ends with exit code 0 or 2 (1 of `bench --against` too),
//! with one sentence for 2, within 10 s of a processor and 2 GB. `CORRUST_HOSTILE=FILES,LINES,SEED` says how many of
//! each (of files for each format) and where they begin; `scripts/hostile` has the long round.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{Read, Seek},
    os::unix::{ffi::OsStringExt, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use changes::changed;
use clap::{Arg, ArgAction};
use command::{done, refused};
use corrust::{
    Autocorrelator, Beamformer, Channeliser, Device, Error,
    autocorrelate::{self, Scheme, Weighted},
};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};

use crate::support::{changes, command};

/// Files of each format and command lines of a short round, and the seed of the first.
const ROUND: [u64; 3] = [4, 60, 1];

/// Memory of a run, seconds of a processor, bytes of a file that it writes.
const LIMITS: [(libc::__rlimit_resource_t, u64); 3] =
    [(libc::RLIMIT_AS, 2_000_000_000), (libc::RLIMIT_CPU, 10), (libc::RLIMIT_FSIZE, 32 << 20)];

/// Seconds after which a run that waits for something is ended: others may use the processors.
const WAIT: Duration = Duration::from_secs(60);

/// Commands that work for minutes or until they are stopped.
const LASTING: [&str; 5] = ["serve", "send", "bench", "qualify", "demo"];

/// Seconds after which such a command is interrupted.
const PATIENCE: Duration = Duration::from_secs(2);

fn round() -> [u64; 3] {
    let Ok(text) = std::env::var("CORRUST_HOSTILE") else { return ROUND };
    let numbers: Vec<u64> = text.split(',').map(|number| number.parse().unwrap()).collect();
    numbers.try_into().expect("CORRUST_HOSTILE=FILES,LINES,SEED")
}

/// How a run ended that was not to end so.
type Fault = String;

/// Runs the command under limits.
fn run(folder: &Path, arguments: &[OsString]) -> Result<(), Fault> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corrust"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command.env("RAYON_NUM_THREADS", "2").env("MALLOC_ARENA_MAX", "2");
    let mut said = tempfile::tempfile().unwrap();
    command.stderr(said.try_clone().unwrap());
    let set = || {
        for (resource, limit) in LIMITS {
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
            // SAFETY: nothing but system calls between fork and exec. Writing too much is to be an error.
            unsafe {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                if libc::setrlimit(resource, &limit) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(set) };
    let lasts = LASTING.iter().any(|name| arguments.iter().any(|a| a == name));
    let (mut child, start) = (command.spawn().unwrap(), Instant::now());
    let mut asked = Duration::ZERO;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let passed = start.elapsed();
        if lasts && passed > asked + PATIENCE {
            asked = passed;
            // SAFETY: the child was not waited for, so that its number is its own.
            unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        }
        if passed > WAIT {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err(format!("has no end in {WAIT:?}"));
        }
        std::thread::sleep(Duration::from_millis(3));
    };
    let mut text = String::new();
    said.rewind().unwrap();
    said.take(1 << 16).read_to_string(&mut text).map_err(|error| format!("stderr: {error}"))?;
    let bad = ["panicked", "memory allocation of", "overflowed its stack", "RUST_BACKTRACE"];
    let is_sentence = |line: &&str| {
        !line.is_empty() && !line.starts_with("warning: ") && !line.starts_with("note: ")
    };
    let mut sentences = text.lines().filter(is_sentence);
    let expected = match status.code() {
        Some(0) => true,
        Some(1) => arguments.iter().any(|argument| argument == "bench"),
        Some(2) => {
            sentences.next().is_some_and(|line| line.starts_with("error: "))
                && sentences.next().is_none()
        }
        Some(130) => lasts,
        _ => false,
    };
    if !expected || bad.iter().any(|bad| text.contains(bad)) {
        let short: String = text.chars().take(600).collect();
        return Err(format!("{status}, says {short:?}"));
    }
    Ok(())
}

/// Curves of other programs.
fn curves(folder: &Path) {
    let rows = |before: &str, unit: f64, less: f64| {
        let row = |point: i32| {
            let lag = 1e-6 * 1.4_f64.powi(point);
            let g = 1.0 + 0.5 / (1.0 + lag / 1e-4);
            format!("{before}{:e}\t{}\t{}\n", lag / unit, g - less, g - less + 0.01)
        };
        (0..30).map(row).collect::<String>()
    };
    let columns = format!("# lag, g, error\n{}", rows("", 1.0, 0.0));
    let alv = format!(
        "ALV-6000/E-WIN Data\nMode :\t\"DUAL AUTO\"\n\"Correlation\"\n{}\n\"Count Rate\"\n 1.0\t2\n\n\
         \"StandardDeviation\"\n{}",
        rows("  ", 1e-3, 1.0),
        rows("  ", 1e-3, 1.0)
    );
    let zeiss = format!(
        "Carl Zeiss ConfoCor3 - measurement data file\nBEGIN FcsEntry1 10000\n\tChannel = Auto-correlation detector Ch1\n\
         \tCountRateArray = 1 2\n\t\t0.1\t5\n\tCorrelationArray = 30 3\n{}END\n",
        rows("\t\t", 1.0, 0.0)
    );
    let sin = format!(
        "FLXA\n[Parameters]\nMode= 0 0 1 1\n[CorrelationFunction]\n{}\n[IntensityHistory]\n0.1\t5\n",
        rows("", 1.0, 0.0)
    );
    for (name, text) in
        [("columns.txt", columns), ("alv.asc", alv), ("zeiss.fcs", zeiss), ("flex.sin", sin)]
    {
        fs::write(folder.join(name), text).unwrap();
    }
}

/// A folder with a file of every format, none of them large.
fn formats(folder: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    let make = |line: &str| drop(done(folder, line));
    make("simulate -o rec.npy --inputs 3 --channels 4 --times 200");
    make("simulate --raw -o raw.npy --inputs 2 --times 3000");
    make("simulate --raw -o raw.vdif --inputs 2 --times 32000 --rate 1.6MHz --encoding vdif-2");
    make("simulate --diffusion -o photons.ptu --duration 0.02s --seed 3");
    let counts = ndarray::Array2::from_shape_fn((900, 4), |(t, i)| ((t * t + i) % 11) as u8);
    ndarray_npy::write_npy(folder.join("counts.npy"), &counts).unwrap();
    make("autocorrelate counts.npy -o g.npy --save state --curves curves.csv --device cpu");
    let floats = counts.mapv(|count| if count == 7 { f32::NAN } else { f32::from(count) });
    ndarray_npy::write_npy(folder.join("floats.npy"), &floats).unwrap();
    let times = ndarray::Array1::from_shape_fn(900, |photon| 1000 * (photon as i64 ^ 1));
    ndarray_npy::write_npy(folder.join("times.npy"), &times).unwrap();
    curves(folder);
    make("delays raw.json -o delays.json --duration 1s");
    make("correlate rec.npy -o v.npy --integrate 100 --device cpu");
    let array = r#"{"telescope": "hostile", "location": {"latitude": -30, "longitude": 21, "altitude": 1000},
        "positions": [[0, 0, 0], [29, 0, 0], [0, 31, 0]], "frequencies": [1e8, 1.1e8, 1.2e8, 1.3e8],
        "start": "2026-03-01T00:00:00Z", "sample_time": 1e-3}"#;
    fs::write(folder.join("array.json"), array).unwrap();
    make("correlate rec.npy -o v.uvh5 --integrate 100 --array array.json --device cpu");
    make("weights rec.json -o weights.npy --shifts shifts.npy");
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    // Inputs of the parsers' recordings end in three bytes that choose options.
    for (name, of, spare) in [
        ("x.raw", "guppi/two_blocks", 3),
        ("x.dada", "dada/channels", 3),
        ("x.m5b", "mark5b/two", 3),
        ("counts.h5", "hdf5/gzip", 0),
        ("filtered.h5", "hdf5/bitshuffle_lz4", 0),
        ("tuning.json", "tuning/h200.json", 0),
    ] {
        let bytes = fs::read(corpus.join(of)).unwrap();
        fs::write(folder.join(name), &bytes[..bytes.len() - spare]).unwrap();
    }
    let ptx = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/ptx/reorder_gather.ptx");
    fs::copy(ptx, folder.join("kernel.ptx")).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort_unstable();
    let named = |name: OsString| -> &'static str { name.into_string().unwrap().leak() };
    let all = names.into_iter().map(named);
    all.map(|name| (name, fs::read(folder.join(name)).unwrap())).collect()
}

/// Files, and the commands that read them.
const READERS: &[(&str, &[&str])] = &[
    (
        "rec.npy",
        &[
            "info F",
            "correlate F -o out.npy --device cpu",
            "filterbank F -o out.fil --array rec.json",
        ],
    ),
    ("raw.npy", &["info F", "channelise F -o out.npy --channels 8 --device cpu"]),
    (
        "x.raw",
        &[
            "info F",
            "correlate F -o out.npy --device cpu",
            "channelise F -o out.npy --channels 4 --device cpu",
        ],
    ),
    ("raw.vdif", &["info F", "channelise F -o out.npy --channels 8 --device cpu"]),
    ("x.dada", &["info F", "correlate F -o out.npy --device cpu --keep-going"]),
    (
        "x.m5b",
        &[
            "info F",
            "channelise F -o out.npy --channels 8 --inputs 2 --bits 2 --rate 1MHz --device cpu",
        ],
    ),
    (
        "photons.ptu",
        &[
            "info F",
            "autocorrelate F -o out.npy --device cpu",
            "autocorrelate F -o out.npy --dwell 1ms --keep-going --device cpu",
        ],
    ),
    ("counts.npy", &["info F", "autocorrelate F -o out.npy --device cpu --pairs all"]),
    ("counts.h5", &["info F", "autocorrelate F -o out.npy --device cpu"]),
    ("filtered.h5", &["autocorrelate F -o out.npy --device cpu"]),
    ("v.uvh5", &["info F", "plot F -o out.svg", "plot F -o out.png --kind spectra"]),
    ("v.npy", &["info F", "plot F -o out.svg"]),
    ("curves.csv", &["plot F -o out.svg", "fit F --curve mean"]),
    ("columns.txt", &["fit F -o out.json", "plot F -o out.svg"]),
    ("alv.asc", &["fit F -o out.json", "fit F --share tau --offset"]),
    ("zeiss.fcs", &["fit F -o out.json", "plot F -o out.svg"]),
    ("flex.sin", &["fit F -o out.json", "fit F --unweighted --triplet"]),
    (
        "floats.npy",
        &[
            "info F",
            "autocorrelate F -o out.npy --device cpu --pairs all",
            "autocorrelate F -o out.npy --device cpu --bursts 100kHz --trace-bin 100us",
        ],
    ),
    (
        "times.npy",
        &[
            "info F",
            "autocorrelate F -o out.npy --unit 1ns --device cpu",
            "autocorrelate F -o out.npy --unit 1ns --device cpu --exclude 10us..100us --bursts 1MHz --trace-bin 10us",
            "autocorrelate F -o out.npy --device cpu",
        ],
    ),
    ("raw.json", &["delays F -o out.json --duration 1s", "info F"]),
    ("array.json", &["correlate rec.npy -o out.uvh5 --array F --device cpu"]),
    ("rec.json", &["weights F -o out.npy", "correlate rec.npy -o out.uvh5 --array F --device cpu"]),
    ("delays.json", &["channelise raw.npy -o out.npy --channels 8 --delays F --device cpu"]),
    ("state", &["autocorrelate counts.npy -o out.npy --resume F --device cpu"]),
    ("tuning.json", &["correlate rec.npy -o out.npy --device cpu --tuning F"]),
    ("kernel.ptx", &["correlate rec.npy -o out.npy --device cpu --ptx F"]),
    ("weights.npy", &["beamform rec.npy --weights F --shifts shifts.npy -o out.npy --device cpu"]),
    ("shifts.npy", &["beamform rec.npy --weights weights.npy --shifts F -o out.npy --device cpu"]),
];

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

/// Removes files that a run left behind and restores files that it changed.
fn swept(folder: &Path, files: &BTreeMap<&'static str, Vec<u8>>) -> Vec<String> {
    let mut changed = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name == "folder" || files.contains_key(&*name.to_string_lossy()) {
            continue;
        }
        let path = entry.path();
        drop(if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) });
    }
    for (name, bytes) in files {
        if fs::read(folder.join(name)).ok().as_ref() != Some(bytes) {
            changed.push((*name).to_owned());
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
    changed
}

#[test]
fn changed_files_are_read_or_refused_by_every_command() {
    let [count, _, seed] = round();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let files = formats(folder);
    println!("{count} changes of {} formats, seed {seed}", READERS.len());
    let mut faults = Vec::new();
    for (number, (name, commands)) in READERS.iter().enumerate() {
        let ending = Path::new(name).extension().and_then(OsStr::to_str).unwrap_or("state");
        let hostile = format!("changed.{ending}");
        for change in seed..seed + count {
            let mut random = ChaCha8Rng::seed_from_u64(change << 8 | number as u64);
            fs::write(folder.join(&hostile), changed(&files[name], &mut random)).unwrap();
            let line = commands[random.random_range(0..commands.len())]
                .replace(" F", &format!(" {hostile}"));
            if let Err(fault) = run(folder, &words(&line)) {
                faults.push(format!("{name} changed by seed {change}: {line}: {fault}"));
                println!("{}", faults.last().unwrap());
            }
            let _ = fs::remove_file(folder.join("out.npy"));
        }
        swept(folder, &files);
    }
    assert!(faults.is_empty(), "{} runs: {:#?}", faults.len(), faults);
}

/// Values at the end of what numbers, names and files can be.
fn extreme(random: &mut ChaCha8Rng) -> OsString {
    const VALUES: &[&str] = &[
        "0",
        "-1",
        "1",
        "2",
        "2147483648",
        "4294967296",
        "4294967295",
        "9223372036854775807",
        "18446744073709551616",
        "18446744073709551615",
        "1e308",
        "-1e308",
        "1e-308",
        "NaN",
        "inf",
        "-inf",
        "",
        " ",
        ",",
        "0,0",
        "1,9223372036854775807",
        "0/0",
        "4/3",
        "9223372036854775807/1",
        "0x0",
        "9223372036854775807x9223372036854775807",
        "1e308s",
        "0s",
        "-1Hz",
        "1e308Hz",
        "1ns..0ns",
        "NaNs",
        "9999-12-31T23:59:59Z",
        "0000-00-00",
        "/dev/zero",
        "/dev/full",
        "/dev/urandom",
        "/dev/null",
        "folder",
        "missing",
        "missing/file",
        "-",
        "--",
        "rec.npy",
        "raw.npy",
        "counts.npy",
        "🛰",
        "\u{1b}[31m",
        "%s%n",
    ];
    match random.random_range(0..VALUES.len() + 2) {
        0 => OsString::from_vec(vec![0xff, 0xfe, b'a', 0x80]),
        1 => "9".repeat(10_000).into(),
        other => VALUES[other - 2].into(),
    }
}

/// A value that an option may well have.
fn plausible(argument: &Arg, files: &[&str], random: &mut ChaCha8Rng) -> OsString {
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        return possible[random.random_range(0..possible.len())].get_name().to_owned().into();
    }
    let id = argument.get_id().as_str();
    if argument.is_positional()
        || ["array", "weights", "shifts", "delays", "prototype", "gains"].contains(&id)
    {
        return files[random.random_range(0..files.len())].into();
    }
    match id {
        "output" => ["out.npy", "out.svg", "out.uvh5", "out.ptu", "out.fil", "out.vdif"]
            [random.random_range(0..6)]
        .into(),
        "channels" | "times" | "inputs" | "channelise" => {
            (1 << random.random_range(0..8)).to_string().into()
        }
        "duration" => "1ms".into(),
        "bandwidth" | "rate" => "1MHz".into(),
        "device" => "cpu".into(),
        _ => random.random_range(0..9).to_string().into(),
    }
}

/// A command line of a command's own options.
fn drawn(files: &[&str], random: &mut ChaCha8Rng) -> Vec<OsString> {
    let parser = corrust::cli::parser();
    let mut commands: Vec<_> = parser.get_subcommands().collect();
    // Lasting commands are seldom drawn.
    if !random.random_bool(0.02) {
        commands.retain(|command| !LASTING.contains(&command.get_name()));
    }
    let mut command = commands[random.random_range(0..commands.len())];
    let mut line: Vec<OsString> = vec![command.get_name().into()];
    while let below @ [_, ..] = &*command.get_subcommands().collect::<Vec<_>>()
        && random.random_bool(0.7)
    {
        command = below[random.random_range(0..below.len())];
        line.push(command.get_name().into());
    }
    let odds = [0.0, 0.1, 0.5][random.random_range(0..3)];
    let value = |argument: &Arg, odds: f64, random: &mut ChaCha8Rng| match random.random_bool(odds)
    {
        true => extreme(random),
        false => plausible(argument, files, random),
    };
    let all: Vec<&Arg> = command.get_arguments().chain(parser.get_arguments()).collect();
    let mut options = random.random_range(0..5);
    let optional: Vec<&&Arg> = all.iter().filter(|argument| !argument.is_positional()).collect();
    let mut chosen: Vec<&Arg> =
        all.iter().copied().filter(|argument| argument.is_required_set()).collect();
    chosen.extend(all.iter().filter(|argument| argument.get_id() == "device"));
    while options > 0 && !optional.is_empty() {
        chosen.push(optional[random.random_range(0..optional.len())]);
        options -= 1;
    }
    let mut positional = Vec::new();
    for (place, argument) in chosen.iter().enumerate() {
        if chosen[..place].iter().any(|before| before.get_id() == argument.get_id()) {
            continue;
        }
        let needed = argument.is_required_set() || argument.get_id() == "device";
        // Half of the drawn options have an extreme value.
        let odds = if needed { odds } else { 0.6 };
        if argument.is_positional() {
            positional.push(value(argument, odds, random));
            continue;
        }
        match (argument.get_long(), argument.get_short()) {
            (Some(long), _) => line.push(format!("--{long}").into()),
            (None, Some(short)) => line.push(format!("-{short}").into()),
            (None, None) => continue,
        }
        if matches!(argument.get_action(), ArgAction::Set | ArgAction::Append) {
            let mut last = line.pop().unwrap();
            last.push("=");
            last.push(value(argument, odds, random));
            line.push(last);
        }
    }
    // Ten seconds of photons take longer than that.
    let has = |option: &str| line.iter().any(|word| word.to_string_lossy().starts_with(option));
    if has("--diffusion") && !has("--duration") {
        line.push("--duration=1ms".into());
    }
    line.extend(positional);
    line
}

#[test]
fn command_lines_of_any_values_end_in_a_sentence() {
    let [_, count, seed] = round();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let files = formats(folder);
    fs::create_dir(folder.join("folder")).unwrap();
    let names: Vec<&str> = files.keys().copied().collect();
    println!("{count} command lines, seed {seed}");
    let (mut faults, mut done) = (Vec::new(), 0);
    for number in seed..seed + count {
        let line = drawn(&names, &mut ChaCha8Rng::seed_from_u64(number));
        let ended = run(folder, &line);
        done += u32::from(ended.is_ok());
        let shown = |line: &[OsString]| {
            let shown = line.iter().map(|word| word.to_string_lossy().chars().take(80).collect());
            shown.collect::<Vec<String>>().join(" ")
        };
        let mut fault = ended.err();
        for name in swept(folder, &files) {
            // A file that the line names once is an output alone.
            let named = |word: &&OsString| {
                word.to_string_lossy().split(['=', ',']).any(|part| part == name)
            };
            if line.iter().filter(named).count() > 1 {
                fault = Some(format!("{name} is an input and was overwritten"));
            }
        }
        if let Some(fault) = fault {
            faults.push(format!("line {number}: {}: {fault}", shown(&line)));
            println!("{}", faults.last().unwrap());
        }
    }
    assert!(
        faults.is_empty(),
        "{} of {count}, {done} as they should be: {:#?}",
        faults.len(),
        faults
    );
}

/// Arrays of a type that no reader knows, and numbers that ask for more memory than there is.
#[test]
fn numbers_that_ask_for_memory_are_refused_first() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --raw -o raw.npy --inputs 2 --times 3000");
    let header =
        format!("{:117}\n", "{'descr': '<f16', 'fortran_order': False, 'shape': (2, 8), }");
    let mut array = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    array.extend(header.into_bytes());
    array.resize(array.len() + 2 * 8 * 16, 0);
    fs::write(folder.join("long.npy"), &array).unwrap();
    let raw = "simulate --raw -o out.npy --times 10";
    let diffusion = "simulate --diffusion -o out.npy";
    for (line, expected) in [
        (
            "channelise raw.npy -o out.npy --channels 8 --device cpu --prototype long.npy",
            "type '<f16'",
        ),
        ("channelise raw.npy -o out.npy --channels 8 --device cpu --gains long.npy", "type '<f16'"),
        (&format!("{raw} --inputs 9223372036854775807"), "expected at most 65536"),
        (&format!("{raw} --inputs 4294967296"), "expected at most 65536"),
        (&format!("{raw} --inputs 100000000"), "expected at most 65536"),
        (&format!("{raw} --sources 1000000000"), "expected at most 1021"),
        ("simulate -o out.npy --sources 1000000000", "expected at most 1021"),
        (&format!("{diffusion} --brightness 9e18"), "photons in a step"),
        (&format!("{diffusion} --background 9e18"), "photons in a step"),
        (
            "delays raw.json -o out.json --duration 100000000s --tolerance 1e-300s",
            "1e-18 s to 1e18 s",
        ),
    ] {
        let start = Instant::now();
        let said = refused(folder, line);
        assert!(said.contains(expected) && said.lines().count() == 1, "{line}: {said}");
        assert!(start.elapsed() < WAIT, "{line}");
    }
    assert!(!folder.join("out.npy").exists());
}

/// Small files of text that never end.
/// Plans whose sizes ask for more memory than there is are an error, not the end of the program.
#[test]
fn plans_that_ask_for_memory_are_refused() {
    let many = 1 << 30;
    let raw = |inputs| Channeliser::builder(inputs, 1 << 12).device(Device::Cpu).build().err();
    let curves = |sensors| {
        let builder = Autocorrelator::builder(sensors).groups(20).lags(64);
        builder.device(Device::Cpu).build().err()
    };
    let weighted = |sensors| {
        let scheme = Scheme::BinGroups;
        Weighted::new(autocorrelate::Shape { sensors, groups: 20, lags: 64, scheme }, &[]).err()
    };
    let beams = |channels, beams| {
        let builder = Beamformer::builder(1, beams).channels(channels);
        builder.device(Device::Cpu).build().err()
    };
    let errors =
        [raw(many), curves(many), weighted(many), beams(many, 1 << 12), beams(1 << 12, many)];
    for error in errors {
        assert!(matches!(error, Some(Error::OutOfMemory { .. })), "{error:?}");
    }
}

#[test]
fn texts_without_an_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate --raw -o raw.npy --inputs 2 --times 3000");
    done(folder, "simulate -o rec.npy --inputs 2 --channels 4 --times 100");
    ndarray_npy::write_npy(folder.join("counts.npy"), &ndarray::Array2::<u8>::zeros((900, 2)))
        .unwrap();
    for device in ["/dev/zero", "/dev/urandom"] {
        for line in [
            "delays F -o out.json --duration 1s",
            "weights F -o out.npy",
            "correlate rec.npy -o out.uvh5 --array F --device cpu",
            "channelise raw.npy -o out.npy --channels 8 --delays F --device cpu",
            "plan --inputs 8 --bandwidth 1MHz --record F",
            "autocorrelate counts.npy -o out.npy --resume F --device cpu",
            "correlate rec.npy -o out.npy --device cpu --tuning F",
            "correlate rec.npy -o out.npy --device cpu --ptx F",
            "plot F -o out.svg",
            "fit F",
        ] {
            let line = line.replace(" F", &format!(" {device}"));
            run(folder, &words(&line)).unwrap_or_else(|fault| panic!("{line}: {fault}"));
            refused(folder, &line);
        }
    }
    // A state whose header promises little, and that does not end.
    done(folder, "autocorrelate counts.npy -o g.npy --save state --device cpu");
    let state = fs::read(folder.join("state")).unwrap();
    let file = File::options().append(true).open(folder.join("state")).unwrap();
    file.set_len(1 << 40).unwrap();
    assert!(state.len() < 1 << 20);
    let line = words("autocorrelate counts.npy -o out.npy --resume state --device cpu");
    run(folder, &line).unwrap();
}
