//! Requirements on what happens when things around the command break: it runs as a child of this one.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use corrust::{
    Correlator, Device, Error, Result,
    correlate::{Dump, baselines},
    format::{self, Block, Options, npy::Reader},
    live::{Geometry, Sender},
    qualify::requirements::{Finding, Verdict},
    samples::Missing,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Runs that are killed.
const KILLS: usize = 12;
/// Longest that a service may take to write what it received.
const PATIENCE: Duration = Duration::from_secs(60);

/// This program, to be run in a folder; without its input and output.
fn command(folder: &Path, arguments: &str) -> Result<Command> {
    let program = env::current_exe()
        .map_err(|error| Error::invalid(format!("cannot run itself: {error}")))?;
    let mut command = Command::new(&program);
    // The command of the Python package runs in an interpreter.
    if program.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with("python")) {
        command.args(["-m", "corrust"]);
    }
    command.args(arguments.split(' ')).current_dir(folder).stdin(Stdio::null());
    Ok(command)
}

/// Starts a command that writes nothing to the terminal.
fn start(folder: &Path, arguments: &str) -> Result<std::process::Child> {
    let mut command = command(folder, arguments)?;
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map_err(|error| Error::invalid(format!("cannot run itself: {error}")))
}

/// Runs a command that must succeed.
fn done(folder: &Path, arguments: &str) -> Result<()> {
    let output = command(folder, arguments)?
        .output()
        .map_err(|error| Error::invalid(format!("cannot run itself: {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(Error::invalid(format!("corrust {arguments}: {}", said.trim())))
        }
    }
}

fn folder() -> Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(Error::io(&env::temp_dir(), "write"))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(Error::io(path, "read"))
}

const SIMULATE: &str = "simulate -o rec.npy --inputs 8 --channels 32 --times 6000";
const CORRELATE: &str = "correlate rec.npy -o v.npy --integrate 500 --device cpu";

/// Kills a correlation at random moments.
pub fn killed() -> Result<Finding> {
    let folder = folder()?;
    let folder = folder.path();
    done(folder, SIMULATE)?;
    let recording = read(&folder.join("rec.npy"))?;
    let begun = Instant::now();
    done(folder, CORRELATE)?;
    let whole = begun.elapsed();
    let output = folder.join("v.npy");
    let expected = read(&output)?;
    let mut random = StdRng::seed_from_u64(24);
    let (mut killed, mut finished) = (0, 0);
    for kill in 0..KILLS {
        fs::remove_file(&output).or_else(absent).map_err(Error::io(&output, "remove"))?;
        let mut child = start(folder, CORRELATE)?;
        std::thread::sleep(whole.mul_f64(random.random_range(0.0..1.0)));
        let fault = |error| Error::invalid(format!("cannot end a child: {error}"));
        child.kill().map_err(fault)?;
        let ended = child.wait().map_err(fault)?.success();
        *(if ended { &mut finished } else { &mut killed }) += 1;
        let failed = |what| {
            let text = format!("{what} after kill {}", kill + 1);
            Ok(Finding::new(Verdict::Failed, text))
        };
        match fs::read(&output) {
            Ok(found) if found != expected => return failed("the output is not whole"),
            Err(_) if ended => return failed("the output is absent, though the command ended,"),
            _ => {}
        }
        if read(&folder.join("rec.npy"))? != recording {
            return failed("the input has changed");
        }
    }
    // The next run sweeps what a killed one left.
    done(folder, CORRELATE)?;
    let entries = fs::read_dir(folder).map_err(Error::io(folder, "read"))?;
    let left =
        entries.flatten().find(|entry| entry.file_name().to_string_lossy().contains(".partial"));
    if let Some(left) = left {
        let text = format!("{} was left behind", left.file_name().to_string_lossy());
        return Ok(Finding::new(Verdict::Failed, text));
    }
    let text = format!("{killed} runs killed, {finished} done before; outputs whole or absent");
    let verdict = if killed == 0 { Verdict::NotDecided } else { Verdict::Passed };
    Ok(Finding::new(verdict, text))
}

/// A file that is not there needs no removal.
fn absent(error: std::io::Error) -> std::io::Result<()> {
    match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

/// Runs a correlation that may write few bytes.
#[cfg(unix)]
pub fn full_disk() -> Result<Finding> {
    use std::os::unix::process::CommandExt;
    const MOST_BYTES: libc::rlim_t = 4096;
    let folder = folder()?;
    let folder = folder.path();
    done(folder, SIMULATE)?;
    let mut command = command(folder, CORRELATE)?;
    let limit = move || {
        let limit = libc::rlimit { rlim_cur: MOST_BYTES, rlim_max: MOST_BYTES };
        // SAFETY: nothing but system calls between fork and exec. Writing too much is to be an error, no signal.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        }
    };
    // SAFETY: the closure calls nothing that may not run between fork and exec.
    unsafe { command.pre_exec(limit) };
    let output =
        command.output().map_err(|error| Error::invalid(format!("cannot run itself: {error}")))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let (code, lines) = (output.status.code(), said.lines().count());
    let absent = !folder.join("v.npy").exists();
    if code == Some(2) && lines == 1 && absent {
        return Ok(Finding::new(Verdict::Passed, format!("exit code 2: {said}")));
    }
    let text = format!(
        "exit code {code:?}, {lines} lines, {}: {said}",
        if absent { "no output" } else { "an output" }
    );
    Ok(Finding::new(Verdict::Failed, text))
}

/// No limit that a child could be given is known.
#[cfg(not(unix))]
pub fn full_disk() -> Result<Finding> {
    Ok(Finding::new(Verdict::NotDecided, "this system has no limit on the size of files"))
}

/// Stream of the F-engines that lose heaps.
const GEOMETRY: Geometry = Geometry {
    fengs: 4,
    polarisations: 2,
    channels: 16,
    first_channel: 0,
    heap_times: 64,
    step: 32,
    chunk_heaps: 4,
    window: 4,
};
/// Dumps that are compared, and their heaps.
const DUMPS: usize = 6;
const DUMP_HEAPS: usize = 16;
/// Heaps after them, which end the last dump.
const MORE_HEAPS: usize = 64;

/// Sends heaps of F-engines, some of which never come, to a service on loopback, and compares the sums and counts that
/// it writes.
#[cfg(feature = "serve")]
pub fn lost_packets(device: Device) -> Result<Finding> {
    use std::io::{BufRead, BufReader};
    let folder = folder()?;
    let folder = folder.path();
    let times = (DUMPS * DUMP_HEAPS + MORE_HEAPS) * GEOMETRY.heap_times;
    let (fengs, polarisations, channels) =
        (GEOMETRY.fengs, GEOMETRY.polarisations, GEOMETRY.channels);
    let inputs = fengs * polarisations;
    done(
        folder,
        &format!("simulate -o rec.npy --inputs {inputs} --channels {channels} --times {times}"),
    )?;
    // A fifth of the heaps are lost, and none of those that end the last dump.
    let mut random = StdRng::seed_from_u64(7);
    let mut lost = Vec::new();
    for heap in 0..DUMPS * DUMP_HEAPS {
        for feng in 0..fengs {
            if random.random_ratio(1, 5) {
                let first = heap * GEOMETRY.heap_times;
                lost.push(Missing {
                    times: first..first + GEOMETRY.heap_times,
                    channels: 0..channels,
                    inputs: feng * polarisations..(feng + 1) * polarisations,
                });
            }
        }
    }
    let mut recording = format::open(&[folder.join("rec.npy")], Options::default())?;
    let mut block = Block::new();
    recording.read_block(times, &mut block)?;
    let shape = recording.shape();
    let samples = block.view(&shape);
    let length = DUMP_HEAPS * GEOMETRY.heap_times;

    let arguments = format!(
        "serve --listen 127.0.0.1:0 --http 127.0.0.1:0 --fengs {fengs} --channels {channels} --heap-times {} \
         --step {} --integrate {length} --wraps 0 --sync 2026-01-01T00:00:00 --device {device} -o live.npy",
        GEOMETRY.heap_times, GEOMETRY.step
    );
    let mut child = command(folder, &arguments)?
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Error::invalid(format!("cannot run itself: {error}")))?;
    let mut line = String::new();
    let heard = child.stdout.take().map(|output| BufReader::new(output).read_line(&mut line));
    let address = line.strip_prefix("listening to ").and_then(|rest| rest.split([' ', ',']).next());
    let served = || -> Result<Vec<u8>> {
        let Some(to) = address.and_then(|address| address.parse().ok()) else {
            return Err(Error::invalid(format!("corrust {arguments}: {heard:?} {line}")));
        };
        let mut sender = Sender::new(vec![to], None, GEOMETRY.clone(), channels, 1024)?;
        for heap in 0..times / GEOMETRY.heap_times {
            let first = heap * GEOMETRY.heap_times;
            let range = first..first + GEOMETRY.heap_times;
            let known = samples.missing(&lost);
            sender.send(&known.times(range), heap as u64)?;
            // Slower than any machine receives.
            std::thread::sleep(Duration::from_millis(2));
        }
        let begun = Instant::now();
        loop {
            let mut files: Vec<_> = fs::read_dir(folder)
                .map_err(Error::io(folder, "read"))?
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    name.starts_with("live-") && name.ends_with(".npy") && !name.contains(".valid.")
                })
                .collect();
            if files.len() >= DUMPS {
                files.sort();
                let mut bytes = Vec::new();
                for path in &files[..DUMPS] {
                    // The number of valid samples of each visibility stands beside, and is written first.
                    for path in [path, &path.with_extension("valid.npy")] {
                        bytes.extend(Reader::open(path)?.read_all()?);
                    }
                }
                return Ok(bytes);
            }
            if begun.elapsed() > PATIENCE {
                let text = format!("{} of {DUMPS} dumps after {PATIENCE:?}", files.len());
                return Err(Error::invalid(text));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let found = served();
    // It may have ended.
    let _ = child.kill();
    let _ = child.wait();
    let found = match found {
        Ok(found) => found,
        Err(error) => return Ok(Finding::new(Verdict::Failed, error.to_string())),
    };

    let mut correlator = Correlator::builder(inputs, channels).device(Device::Cpu).build()?;
    let mut expected = Vec::new();
    for dump in 0..DUMPS {
        let known = samples.missing(&lost);
        correlator.accumulate(known.times(dump * length..(dump + 1) * length))?;
        let Dump { visibilities, valid, .. } = correlator.dump()?;
        let sums = visibilities.integer().expect("sums of integers");
        expected.extend(sums.iter().flat_map(|sum| [sum.re, sum.im]).flat_map(i64::to_le_bytes));
        for channel in 0..channels {
            let counts = (0..baselines(inputs)).map(|baseline| valid.get(channel, baseline));
            expected.extend(counts.flat_map(u64::to_le_bytes));
        }
    }
    let (heaps, missing) = (DUMPS * DUMP_HEAPS * fengs, lost.len());
    Ok(match found == expected {
        true => Finding::new(
            Verdict::Passed,
            format!("{missing} of {heaps} heaps lost, {DUMPS} dumps, the same sums and counts"),
        ),
        false => Finding::new(Verdict::Failed, "dumps differ from those of what came"),
    })
}

/// This build has no service.
#[cfg(not(feature = "serve"))]
pub fn lost_packets(_device: Device) -> Result<Finding> {
    Ok(Finding::new(Verdict::NotDecided, "this build of corrust has no corrust serve"))
}
