//! Requirements on what happens when things around the command break: it runs as a child of this one.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use corrust::{
    Error, Result,
    qualify::requirements::{Finding, Verdict},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Runs that are killed.
const KILLS: usize = 12;

/// Command that runs this program in a folder, without standard input and output.
pub(super) fn command(folder: &Path, arguments: &str) -> Result<Command> {
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
pub(super) fn done(folder: &Path, arguments: &str) -> Result<()> {
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

pub(super) fn folder() -> Result<tempfile::TempDir> {
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

/// Not decided: this system has no known limit for a child process.
#[cfg(not(unix))]
pub fn full_disk() -> Result<Finding> {
    Ok(Finding::new(Verdict::NotDecided, "this system has no limit on the size of files"))
}
