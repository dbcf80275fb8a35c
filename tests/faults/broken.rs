//! The program when things around it break: signals at any moment, disks and memory that are full, files
//! that change below it. Outputs are complete or absent, and an error is one sentence.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Read,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use command::{command, done};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{command, tier};

/// Runs that are killed in the full tier, and half of them in the quick one; or as many as `CORRUST_KILLS` says.
const KILLS: usize = 60;

/// A recording, counts, raw voltages.
fn inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), "simulate -o rec.npy --inputs 8 --channels 32 --times 6000");
    done(folder.path(), "simulate --raw -o raw.npy --inputs 4 --times 400000");
    let counts = ndarray::Array2::from_shape_fn((40_000, 16), |(t, i)| ((t * t + i) % 11) as u8);
    ndarray_npy::write_npy(folder.path().join("counts.npy"), &counts).unwrap();
    folder
}

/// Commands and what they write.
const COMMANDS: [(&str, &[&str]); 5] = [
    ("correlate rec.npy -o v.npy --integrate 500 --device cpu", &["v.npy"]),
    ("autocorrelate counts.npy -o g.npy --curves g.csv --device cpu", &["g.npy", "g.csv"]),
    ("channelise raw.npy -o x.npy --channels 64 --level --device cpu", &["x.npy"]),
    ("quantise rec.npy -o q.npy --bits 2", &["q.npy"]),
    ("simulate -o sim.npy --inputs 4 --times 20000", &["sim.npy", "sim.json"]),
];

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the commands undisturbed, and takes away what they wrote.
fn undisturbed(folder: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    let mut expected = BTreeMap::new();
    for (arguments, outputs) in COMMANDS {
        done(folder, arguments);
        for output in outputs {
            expected.insert(*output, fs::read(folder.join(output)).unwrap());
            fs::remove_file(folder.join(output)).unwrap();
        }
    }
    for name in names(folder).iter().filter(|name| name.ends_with(".json")) {
        // The descriptions beside bits say which these are: outputs, too.
        if !["rec.json", "raw.json"].contains(&&name[..]) {
            fs::remove_file(folder.join(name)).unwrap();
        }
    }
    expected
}

#[test]
fn killed_at_any_moment_outputs_are_complete_or_absent() {
    let folder = inputs();
    let folder = folder.path();
    let expected = undisturbed(folder);
    let kills = if tier::full() { KILLS } else { KILLS / 2 };
    let kills = std::env::var("CORRUST_KILLS").map_or(kills, |text| text.parse().unwrap());
    let mut random = StdRng::seed_from_u64(24);
    let mut ended = [0; 2];
    for kill in 0..kills {
        let (arguments, outputs) = COMMANDS[kill % COMMANDS.len()];
        let start = Instant::now();
        done(folder, arguments);
        let whole = start.elapsed();
        outputs.iter().for_each(|output| fs::remove_file(folder.join(output)).unwrap());
        let mut child =
            command(folder, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole.mul_f64(random.random_range(0.0..1.1)));
        let signal = [libc::SIGKILL, libc::SIGTERM, libc::SIGINT][kill / COMMANDS.len() % 3];
        // SAFETY: the child was not waited for, so that its number is its own.
        unsafe { libc::kill(child.id() as i32, signal) };
        let status = child.wait().unwrap();
        let finished = status.success();
        ended[usize::from(finished)] += 1;
        let allowed = status.signal() == Some(signal) || status.code() == Some(130) || finished;
        assert!(allowed, "{arguments}: {status}");
        for output in outputs {
            match fs::read(folder.join(output)) {
                Ok(found) => assert!(found == expected[output], "{output} is not whole"),
                Err(_) => assert!(!finished, "{arguments}: {output} is absent"),
            }
        }
        if signal != libc::SIGKILL {
            let of_output = |name: &String| {
                let is_of = |output| name.starts_with(&format!(".{output}.corrust-"));
                outputs.iter().any(is_of)
            };
            assert_eq!(names(folder).into_iter().find(of_output), None, "{arguments}");
        }
    }
    assert!(ended[0] > kills / 4, "{ended:?}: most runs were over before");
    // The next runs sweep what SIGKILL left.
    for (arguments, _) in COMMANDS {
        done(folder, arguments);
    }
    let left = names(folder).into_iter().find(|name| name.contains(".partial"));
    assert_eq!(left, None);
}

/// The command under a limit of the system.
fn limited(folder: &Path, arguments: &str, resource: u32, limit: u64) -> Output {
    let mut command = command(folder, arguments);
    let set = move || {
        let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
        // SAFETY: nothing but system calls between fork and exec. Writing too much is to be an error.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            match libc::setrlimit(resource, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        }
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(set) };
    command.output().unwrap()
}

#[test]
fn a_disk_that_is_full_leaves_what_was_there() {
    let folder = inputs();
    let folder = folder.path();
    let expected = undisturbed(folder);
    let inputs = names(folder);
    for (arguments, outputs) in COMMANDS {
        let longest = outputs.iter().map(|output| expected[output].len() as u64).max().unwrap();
        for limit in [0, 1, 100, longest / 2, longest - 1] {
            let output = limited(folder, arguments, libc::RLIMIT_FSIZE, limit);
            let error = text(&output);
            assert_eq!(output.status.code(), Some(2), "{arguments}, {limit} bytes: {error}");
            // A sentence for each output that was lost.
            let sentences = error.lines().filter(|line| line.starts_with("error: ")).count();
            assert!((1..=outputs.len()).contains(&sentences), "{arguments}: {error}");
            assert!(outputs.iter().any(|output| error.contains(output)), "{arguments}: {error}");
            // Files that were complete before the disk was full may stay.
            for name in names(folder).iter().filter(|name| !inputs.contains(name)) {
                let whole = expected
                    .get(&name[..])
                    .is_some_and(|bytes| fs::read(folder.join(name)).unwrap() == *bytes);
                assert!(whole || name.ends_with(".json"), "{arguments}, {limit} bytes: {name}");
                fs::remove_file(folder.join(name)).unwrap();
            }
        }
    }
    assert_eq!(names(folder), inputs);
}

#[test]
fn uvh5_on_a_full_disk_gets_one_sentence() {
    let folder = inputs();
    let folder = folder.path();
    let array = r#"{
        "telescope": "example", "location": {"latitude": -30.7, "longitude": 21.4, "altitude": 1050},
        "positions": [[0, 0, 0], [29, 0, 0], [0, 30, 0], [7, 8, 0], [9, 70, 0], [11, 12, 0], [13, 14, 0], [15, 16, 0]],
        "first_channel": 1e8, "channel_width": 1e5, "start": "2026-03-01T00:00:00Z", "sample_time": 1e-3
    }"#;
    fs::write(folder.join("array.json"), array).unwrap();
    done(folder, "simulate -o eight.npy --inputs 8 --channels 32 --times 4000");
    let before = names(folder);
    let arguments = "correlate eight.npy -o v.uvh5 --array array.json --integrate 100 --device cpu";
    done(folder, arguments);
    let whole = fs::metadata(folder.join("v.uvh5")).unwrap().len();
    fs::remove_file(folder.join("v.uvh5")).unwrap();
    for part in 0..24 {
        let limit = whole * part / 24;
        let output = limited(folder, arguments, libc::RLIMIT_FSIZE, limit);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{limit} of {whole} bytes: {said}");
        assert_eq!(said.lines().count(), 1, "{limit} of {whole} bytes: {said}");
        assert!(said.contains("v.uvh5: cannot write: "), "{said}");
        assert_eq!(names(folder), before);
    }
}

#[test]
fn too_many_open_files_are_said_to_be() {
    let folder = inputs();
    let folder = folder.path();
    let mut refused = 0;
    for limit in 3..30 {
        let output = limited(folder, COMMANDS[0].0, libc::RLIMIT_NOFILE, limit);
        let said = text(&output);
        let _ = fs::remove_file(folder.join("v.npy"));
        assert!(!said.contains("uncategorized"), "{limit}: {said}");
        refused += u32::from(said.contains("v.npy: cannot write: Too many open files"));
    }
    assert!(refused > 0);
}

#[test]
fn without_memory_there_is_a_sentence() {
    let folder = inputs();
    let folder = folder.path();
    let expected = undisturbed(folder);
    let mut refused = 0;
    for (arguments, outputs) in COMMANDS {
        for megabytes in [60, 90, 130, 180, 250, 400, 4000] {
            let output = limited(folder, arguments, libc::RLIMIT_AS, megabytes << 20);
            let error = text(&output);
            for name in outputs {
                match fs::read(folder.join(name)) {
                    Ok(found) => assert!(found == expected[name], "{name}"),
                    Err(_) => assert!(!output.status.success(), "{arguments}"),
                }
                let _ = fs::remove_file(folder.join(name));
            }
            // Rust's own allocator ends the program if the system gives not even a megabyte.
            let aborted = output.status.signal() == Some(libc::SIGABRT);
            if aborted {
                assert!(megabytes < 200, "{arguments}, {megabytes} MB: {error}");
                assert!(error.contains("memory allocation of"), "{error}");
            } else if !output.status.success() {
                refused += 1;
                assert_eq!(
                    output.status.code(),
                    Some(2),
                    "{arguments}, {megabytes} MB: {} {error}",
                    output.status
                );
                assert_eq!(error.lines().count(), 1, "{arguments}, {megabytes} MB: {error}");
            }
        }
    }
    println!("{refused} runs had not enough");
}

#[test]
fn files_that_change_while_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o rec.npy --inputs 8 --channels 64 --times 30000");
    let whole = fs::read(folder.join("rec.npy")).unwrap();
    done(folder, "correlate rec.npy -o v.npy --device cpu");
    let expected = fs::read(folder.join("v.npy")).unwrap();
    let mut shortened = 0;
    for attempt in 0..12 {
        fs::write(folder.join("rec.npy"), &whole).unwrap();
        let _ = fs::remove_file(folder.join("v.npy"));
        let child = command(folder, "correlate rec.npy -o v.npy --device cpu")
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(3 * attempt));
        let file = OpenOptions::new().write(true).open(folder.join("rec.npy")).unwrap();
        let grows = attempt % 3 == 2;
        let length = whole.len() as u64;
        file.set_len(if grows { 2 * length } else { length / 3 }).unwrap();
        let output = child.wait_with_output().unwrap();
        let error = text(&output);
        if output.status.success() {
            assert!(fs::read(folder.join("v.npy")).unwrap() == expected, "attempt {attempt}");
        } else {
            shortened += 1;
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains("rec.npy: ") && error.lines().count() == 1, "{error}");
            assert!(!folder.join("v.npy").exists());
        }
    }
    assert!(shortened > 0, "no run noticed");
}

#[test]
fn two_runs_with_one_output_leave_a_whole_one() {
    let folder = inputs();
    let folder = folder.path();
    let (arguments, _) = COMMANDS[0];
    done(folder, arguments);
    let expected = fs::read(folder.join("v.npy")).unwrap();
    for _ in 0..5 {
        fs::remove_file(folder.join("v.npy")).unwrap();
        let spawn = || {
            command(folder, arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
        };
        for child in [spawn(), spawn(), spawn()] {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", text(&output));
        }
        assert!(fs::read(folder.join("v.npy")).unwrap() == expected);
    }
    let left = names(folder).into_iter().find(|name| name.contains(".partial"));
    assert_eq!(left, None);
}

#[test]
fn a_reader_that_goes_away_is_no_crash() {
    let folder = inputs();
    let mut child = command(folder.path(), "channelise raw.npy -o - --channels 64 --device cpu")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut first).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    let error = text(&output);
    let quiet = output.status.signal() == Some(libc::SIGPIPE);
    assert!(quiet || output.status.code() == Some(2), "{}: {error}", output.status);
    assert!(error.lines().filter(|line| line.starts_with("error: ")).count() <= 1, "{error}");
    assert!(!error.contains("panicked"), "{error}");
}

#[test]
fn places_that_take_no_files_and_temporary_folders_that_are_none() {
    let folder = inputs();
    let folder = folder.path();
    for output in ["/proc/v.npy", "/sys/v.npy", "rec.npy/v.npy", "none/v.npy"] {
        let arguments = format!("correlate rec.npy -o {output} --device cpu");
        let error = command::refused(folder, &arguments);
        assert!(error.contains(output) && error.lines().count() == 1, "{error}");
    }
    for (arguments, outputs) in COMMANDS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corrust"));
        command.args(arguments.split_whitespace()).current_dir(folder);
        let output = command.env("TMPDIR", "/none").output().unwrap();
        assert!(output.status.success(), "{arguments}: {}", text(&output));
        outputs.iter().for_each(|output| fs::remove_file(folder.join(output)).unwrap());
    }
}
