//! The files of a run: no input is lost, no output comes late or by halves, whatever is named and whatever
//! happens.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use command::{corrust, done};
use corrust::format::npy::{Dtype, Writer};

use crate::support::{command, tier::prompt};

fn write(folder: &Path, name: &str, dtype: Dtype, shape: &[usize], bytes: &[u8]) {
    let mut writer = Writer::with_shape(folder.join(name), dtype, shape).unwrap();
    writer.write_at(0, bytes).unwrap();
    writer.finish().unwrap();
}

/// Counts of 2 sensors, voltages with weights and shifts, coordinates, a recording.
fn inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let counts: Vec<u8> = (0..4000_u32).map(|i| (i * i % 11) as u8).collect();
    write(path, "y.npy", Dtype::Uint8, &[2000, 2], &counts);
    write(path, "e.npy", Dtype::Uint8, &[64, 1, 1, 2], &[0x12; 128]);
    write(path, "a.npy", Dtype::Int8, &[1, 1, 1, 2, 2], &[100; 4]);
    write(path, "s.npy", Dtype::Int32, &[1, 1, 1], &[8, 0, 0, 0]);
    write(path, "rec.npy", Dtype::Int8, &[10, 1, 2, 2], &[3; 40]);
    let array = "{\"positions\": [[0, 0, 0]], \"frequencies\": [6e8], \"pointings\": [[0, 0, 1]]}";
    fs::write(path.join("array.json"), array).unwrap();
    folder
}

/// Names and contents.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    let file = |entry: &fs::DirEntry| entry.path().metadata().is_ok_and(|found| found.is_file());
    entries.filter(file).map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect()
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The one sentence of a command that is refused and changes nothing.
#[track_caller]
fn refused(folder: &Path, arguments: &str) -> String {
    let before = contents(folder);
    let output = corrust(folder, arguments);
    let text = error(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
    assert_eq!(text.lines().count(), 1, "{arguments}: {text}");
    assert!(contents(folder) == before, "{arguments}: something changed");
    text
}

const BEAMS: &str = "beamform e.npy --weights a.npy --shifts s.npy --device cpu";

#[test]
fn no_output_is_an_input_or_another_output() {
    let folder = inputs();
    let folder = folder.path();
    fs::write(folder.join("r.json"), "{}").unwrap();
    fs::create_dir(folder.join("sub")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("y.npy", folder.join("link.npy")).unwrap();
        std::os::unix::fs::symlink("later", folder.join("to-later")).unwrap();
        fs::hard_link(folder.join("y.npy"), folder.join("hard.npy")).unwrap();
        std::os::unix::fs::symlink(".", folder.join("here")).unwrap();
        for (arguments, sentence) in [
            ("autocorrelate y.npy -o o --save link.npy", "link.npy: is an input"),
            ("autocorrelate link.npy -o o --plot y.npy", "y.npy: is an input"),
            ("autocorrelate y.npy -o hard.npy", "hard.npy: is an input"),
            ("autocorrelate y.npy -o here/y.npy", "here/y.npy: is an input"),
            ("autocorrelate y.npy -o later --save to-later", "to-later: is to hold two outputs"),
            ("autocorrelate y.npy -o o --save here/o", "here/o: is to hold two outputs"),
            ("autocorrelate y.npy -o - --save -", "/dev/stdout: is to hold two outputs"),
        ] {
            let text = refused(folder, arguments);
            assert!(text.contains(sentence), "{arguments}: {text}");
        }
    }
    for (arguments, sentence) in [
        ("autocorrelate y.npy -o o.npy --save y.npy", "y.npy: is an input"),
        ("autocorrelate y.npy -o o.npy --save o.npy", "o.npy: is to hold two outputs"),
        ("autocorrelate y.npy -o o --plot A.svg --save A.svg", "A.svg: is to hold two outputs"),
        ("autocorrelate y.npy -o o --curves B.csv --save B.csv", "B.csv: is to hold two outputs"),
        ("autocorrelate y.npy -o o --save sub/../o", "sub/../o: is to hold two outputs"),
        (&format!("{BEAMS} -o j.npy --clipped s.npy"), "s.npy: is an input"),
        (&format!("{BEAMS} -o j.npy --incoherent ./j.npy"), "./j.npy: is to hold two outputs"),
        ("weights array.json -o array.json", "array.json: is an input"),
        ("weights array.json -o a.npy --shifts ./a.npy", "./a.npy: is to hold two outputs"),
        ("correlate rec.npy -o v.npy --counts rec.npy", "rec.npy: is an input"),
        ("correlate rec.npy -o v.npy --shifts s.npy --counts s.npy", "s.npy: is an input"),
        ("quantise rec.npy -o ./rec.npy --bits 2", "./rec.npy: is an input"),
        ("simulate -o out.json", "out.json: is also the name of the recording's description"),
        ("bench report r.json --json r.json", "r.json: is an input"),
        ("bench report r.json --json b.svg --plot b.svg", "b.svg: is to hold two outputs"),
    ] {
        let text = refused(folder, arguments);
        assert!(text.contains(sentence), "{arguments}: {text}");
    }
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_is_computed() {
    let folder = inputs();
    let folder = folder.path();
    let none = |name: &str| format!("none/{name}: cannot write: No such file or directory");
    let long = "x".repeat(256);
    for (arguments, sentence) in [
        ("autocorrelate y.npy -o o --save none/s", none("s")),
        ("autocorrelate y.npy -o o --curves none/g.csv", none("g.csv")),
        ("autocorrelate y.npy -o o --plot none/g.svg", none("g.svg")),
        (
            "autocorrelate y.npy -o o --plot g.pdf",
            "g.pdf: expected a name that ends in .svg".into(),
        ),
        (
            "autocorrelate y.npy -o o --plot g",
            "g: expected a name that ends in .svg or .png".into(),
        ),
        ("autocorrelate y.npy -o o --curves g", "g: expected a name that ends in .csv or".into()),
        ("autocorrelate y.npy -o o --save .", ".: is a folder".into()),
        (&format!("autocorrelate y.npy -o o --save {long}"), "cannot write: File name".into()),
        ("correlate rec.npy -o v.npy --counts none/n.npy", none("n.npy")),
        ("weights array.json -o w.npy --shifts none/s.npy", none("s.npy")),
        (&format!("{BEAMS} -o j.npy --clipped none/c.npy"), none("c.npy")),
        ("bench correlate --device cpu --plot none/b.svg", none("b.svg")),
        ("bench correlate --device cpu --json none/b.json", none("b.json")),
        ("bench correlate --device cpu --page rec.npy", "rec.npy: cannot read".into()),
    ] {
        let start = Instant::now();
        let text = refused(folder, arguments);
        assert!(text.contains(&sentence), "{arguments}: {text}");
        // The benchmark takes minutes.
        assert!(start.elapsed() < Duration::from_secs(20), "{arguments}");
    }
}

/// A disk that is full shows when a file is completed.
#[cfg(target_os = "linux")]
#[test]
fn one_output_that_fails_leaves_the_others() {
    let folder = inputs();
    let folder = folder.path();
    let all = "autocorrelate y.npy --device cpu -o o.npy --save state --curves g.csv --plot g.svg";
    for failing in ["o.npy", "state"] {
        let output = corrust(folder, &all.replace(failing, "/dev/full"));
        assert_eq!(output.status.code(), Some(2));
        let text = error(&output);
        assert!(text.contains("/dev/full: cannot write: No space left"), "{text}");
        for name in ["o.npy", "state", "g.csv", "g.svg"] {
            let path = folder.join(name);
            assert_eq!(path.exists(), name != failing, "{name} of {failing}");
            let _ = fs::remove_file(path);
        }
    }
    let output = corrust(folder, &format!("{BEAMS} -o /dev/full --clipped c.npy"));
    assert_eq!((output.status.code(), folder.join("c.npy").exists()), (Some(2), true));
    let output = corrust(folder, "correlate rec.npy -o /dev/full --counts n.npy --device cpu");
    assert_eq!((output.status.code(), folder.join("n.npy").exists()), (Some(2), true));
    let output = corrust(folder, "weights array.json -o /dev/full --shifts t.npy");
    assert_eq!((output.status.code(), folder.join("t.npy").exists()), (Some(2), true));
}

#[test]
fn what_exists_is_replaced_with_a_word_or_not_at_all() {
    let folder = inputs();
    let folder = folder.path();
    let command = "autocorrelate y.npy -o o.npy --curves g.csv --device cpu";
    let text = done(folder, command);
    assert!(!text.contains("replaced"), "{text}");
    let text = done(folder, command);
    assert!(text.contains("o.npy, g.csv existed and were replaced"), "{text}");
    // Nothing was, of a run that is refused.
    refused(folder, "correlate rec.npy -o o.npy --integrate 99");
    for (command, name) in [
        (command, "o.npy"),
        ("autocorrelate y.npy -o new.npy --curves g.csv", "g.csv"),
        ("simulate -o array.npy", "array.json"),
        ("correlate rec.npy -o a.npy", "a.npy"),
        ("quantise rec.npy -o a.npy --bits 2", "a.npy"),
        ("weights array.json -o a.npy", "a.npy"),
        (&format!("{BEAMS} -o o.npy"), "o.npy"),
        ("bench limits --device cpu --json array.json", "array.json"),
    ] {
        let text = refused(folder, &format!("{command} --no-clobber"));
        assert!(text.contains(&format!("{name}: exists: expected a new name")), "{text}");
    }
}

#[test]
fn arguments_that_are_wrong_get_one_sentence() {
    let folder = inputs();
    for (arguments, sentence) in [
        ("correlate", "arguments were not provided: --output <OUT.npy>, <IN>..."),
        ("correlate a.npy", "arguments were not provided: --output <OUT.npy>"),
        ("correlate --wrong", "unexpected argument '--wrong' found"),
        ("correlate a.npy -o", "a value is required for '--output <OUT.npy>' but none"),
        ("correlate a.npy -o o --layout nct", "unknown layout \"nct\": expected tcn or cnt"),
        ("correlate a.npy -o o --encodin ci4", "a similar argument exists: '--encoding'"),
        ("weights array.json -o w.npy --shift 3", "--shifts <s.npy>"),
        ("help nothing", "unrecognized subcommand 'nothing'"),
        ("corelate", "unrecognized subcommand 'corelate'"),
    ] {
        let text = refused(folder.path(), arguments);
        assert!(text.starts_with("error: ") && text.contains(sentence), "{arguments}: {text}");
    }
}

/// Runs a command with `input` on its standard input.
fn piped(folder: &Path, arguments: &str, input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_corrust"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses its input does not read it.
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), input);
    child.wait_with_output().unwrap()
}

#[cfg(unix)]
#[test]
fn pipes_are_read_once_and_written() {
    let folder = inputs();
    let folder = folder.path();
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    for (command, input) in [
        ("autocorrelate IN -o OUT --device cpu", "y.npy"),
        ("correlate IN -o OUT --device cpu --integrate 3", "rec.npy"),
        ("quantise IN -o OUT --bits 2 --noise 3", "rec.npy"),
        ("beamform IN --weights a.npy --shifts s.npy -o OUT --device cpu", "e.npy"),
        ("beamform e.npy --weights IN --shifts s.npy -o OUT --device cpu", "a.npy"),
        ("weights IN -o OUT", "array.json"),
    ] {
        done(folder, &command.replace("IN", input).replace("OUT", "expected.npy"));
        let expected = read("expected.npy");
        for (from, to) in [("-", "out.npy"), ("-", "-"), ("/dev/stdin", "/dev/stdout")] {
            let arguments = command.replace("IN", from).replace("OUT", to);
            let output = piped(folder, &arguments, &read(input));
            assert_eq!(output.status.code(), Some(0), "{arguments}: {}", error(&output));
            let found = if to == "out.npy" { read(to) } else { output.stdout };
            assert!(found == expected, "{arguments}");
        }
        let fifo = folder.join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let bytes = read(input);
        let writer = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::write(fifo, bytes)
        });
        done(folder, &command.replace("IN", "fifo").replace("OUT", "out.npy"));
        writer.join().unwrap().unwrap();
        assert!(read("out.npy") == expected, "{command}");
        fs::remove_file(fifo).unwrap();
    }
    // Nothing else was written: not beside the standard output either.
    assert!(!Path::new("/dev/stdout.json").exists());
}

#[cfg(unix)]
#[test]
fn what_pipes_cannot_do_is_said_in_one_sentence() {
    let folder = inputs();
    let folder = folder.path();
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    let (counts, recording) = (read("y.npy"), read("rec.npy"));
    // More than are read at a time, in an order that is not that of time.
    let mut long = Vec::new();
    {
        write(folder, "long.npy", Dtype::Int8, &[2, 2, 9_000_000, 2], &[]);
        long.extend(read("long.npy"));
        fs::remove_file(folder.join("long.npy")).unwrap();
    }
    let card = |text: &str| format!("{text:80}");
    let guppi =
        [card("OBSNCHAN= 1"), card("NBITS   = 8"), card("BLOCSIZE= 4"), card("END")].concat();
    for (arguments, input, sentence) in [
        ("autocorrelate - -o o", &counts[..counts.len() - 1], "/dev/stdin: truncated: it ended"),
        ("autocorrelate - -o o", &[&counts[..], &[0]].concat(), "/dev/stdin: too long: more bytes"),
        ("autocorrelate - -o o --resume -", &counts, "/dev/stdin: is a pipe that is to be read"),
        ("correlate - - -o o", &recording, "/dev/stdin: is a pipe that is to be read twice"),
        ("correlate - -o o --layout cnt", &long, "/dev/stdin: is a pipe, which is read from its"),
        ("correlate - -o o", guppi.as_bytes(), "/dev/stdin: is a pipe: expected a file, for all"),
        ("correlate - -o o", b"", "/dev/stdin: 0 bytes: expected a recording"),
    ] {
        let before = contents(folder).len();
        let output = piped(folder, arguments, input);
        let text = error(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.contains(sentence) && text.lines().count() == 1, "{arguments}: {text}");
        assert_eq!(contents(folder).len(), before, "{arguments}");
    }
}

/// Starts a command that takes minutes, and waits until it has begun to write.
#[cfg(unix)]
fn long_run(folder: &Path, output: &str) -> Child {
    let child = Command::new("env")
        // The program that runs the tests may ignore the signal.
        .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_corrust"), "simulate", "-o", output])
        .args(["--inputs", "64", "--times", "100000000"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_partial(folder, output, &[]);
    child
}

/// Waits until an output has an unfinished file beside those of `others` that is written: one that is empty may be
/// the check that the output can be written.
#[cfg(unix)]
fn wait_for_partial(folder: &Path, output: &str, others: &[String]) {
    let is_written = |name: &String| {
        !others.contains(name)
            && fs::metadata(folder.join(name)).is_ok_and(|metadata| metadata.len() > 0)
    };
    while !partials(folder, output).iter().any(is_written) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The unfinished files of an output.
fn partials(folder: &Path, output: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let unfinished = |name: &String| {
        name.starts_with(&format!(".{output}.corrust-")) && name.ends_with(".partial")
    };
    entries.map(|name| name.into_string().unwrap()).filter(unfinished).collect()
}

/// Waits until the command catches SIGINT, where the system tells: before, the signal ends it without a word.
#[cfg(unix)]
fn wait_for_handler(child: &Child) {
    const SIGINT_BIT: u64 = 1 << (2 - 1);
    let status = format!("/proc/{}/status", child.id());
    let is_caught = |text: &str| {
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
        u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & SIGINT_BIT != 0)
    };
    while fs::read_to_string(&status).is_ok_and(|text| !is_caught(&text)) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(unix)]
fn send(signal: &str, child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn prompt_end_of_a_lost_connection_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let child = long_run(folder.path(), "rec.npy");
    let start = Instant::now();
    send("-HUP", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &error(&output)[..]), (Some(130), "error: interrupted\n"));
    prompt(start, Duration::from_millis(300), "the end after a signal");
    assert!(contents(folder.path()).is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_told_to_stay_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("nohup")
        .args([env!("CARGO_BIN_EXE_corrust"), "simulate", "-o", "rec.npy", "--inputs", "64"])
        .args(["--times", "100000000"])
        .current_dir(&folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while partials(folder.path(), "rec.npy").is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    send("-HUP", &child);
    std::thread::sleep(Duration::from_millis(400));
    assert!(child.try_wait().unwrap().is_none(), "it went all the same");
    send("-TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Whatever a program does when a signal comes: wait for a pipe without a writer, compute for long.
#[cfg(unix)]
#[test]
fn prompt_ends_after_signals() {
    let folder = inputs();
    let folder = folder.path();
    assert!(Command::new("mkfifo").arg(folder.join("fifo")).status().unwrap().success());
    // The simulated GPU takes many seconds for these, which need no room on the disk.
    write(folder, "large.npy", Dtype::Int8, &[4096, 8, 512, 2], &[]);
    let before = contents(folder).len();
    for arguments in ["correlate fifo -o o.npy", "correlate large.npy -o o.npy --device sim"] {
        let child = Command::new(env!("CARGO_BIN_EXE_corrust"))
            .args(arguments.split_whitespace())
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_handler(&child);
        std::thread::sleep(Duration::from_millis(400));
        let start = Instant::now();
        send("-INT", &child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{arguments}: {}", error(&output));
        prompt(start, Duration::from_millis(300), arguments);
        assert_eq!(contents(folder).len(), before, "{arguments}");
    }
}

/// A service of many channels allocates gigabytes of memory before it listens.
#[cfg(all(unix, feature = "serve"))]
#[test]
fn prompt_end_of_a_service_of_many_channels() {
    let child = Command::new(env!("CARGO_BIN_EXE_corrust"))
        .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--device", "cpu"])
        .args(["--channels", "65536"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_handler(&child);
    std::thread::sleep(Duration::from_millis(200));
    let start = Instant::now();
    send("-TERM", &child);
    let output = child.wait_with_output().unwrap();
    // It may have begun to listen.
    assert!(matches!(output.status.code(), Some(0 | 130)), "{}", error(&output));
    prompt(start, Duration::from_secs(2), "the end of a service");
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_killed_run_left_is_swept_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut killed = long_run(folder, "rec.npy");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let left = partials(folder, "rec.npy");
    assert_eq!(left.len(), 1, "SIGKILL leaves it");
    let alive = long_run(folder, "other.npy");
    // Another output: not its to sweep.
    done(folder, "simulate -o third.npy --times 3");
    assert_eq!(partials(folder, "rec.npy").len(), 1);
    let second = long_run(folder, "rec.npy");
    wait_for_partial(folder, "rec.npy", &left);
    assert_eq!(partials(folder, "rec.npy").len(), 1, "the first one's is swept");
    // Files of live processes stay.
    done(folder, "simulate -o rec.npy --times 3");
    done(folder, "simulate -o other.npy --times 3");
    assert_eq!(partials(folder, "rec.npy").len(), 1);
    assert_eq!(partials(folder, "other.npy").len(), 1);
    for child in [second, alive] {
        send("-TERM", &child);
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    }
    let names: Vec<String> = contents(folder).into_keys().collect();
    assert!(!names.iter().any(|name| name.ends_with(".partial")), "{names:?}");
}
