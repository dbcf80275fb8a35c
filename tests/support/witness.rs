//! Python packages that judge what corrust reads and writes, each set of them in a virtual environment of
//! its own under the target folder.
//!
//! The quick tier installs nothing: the tests that ask for one are skipped there and say so. If one cannot be made, without a
//! network for example, they are skipped and say why, except on CI, where they fail.

use std::{
    collections::HashMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use super::tier;

/// Packages that judge UVH5.
pub const PYUVDATA: [&str; 3] = ["pyuvdata==3.2.8", "python-casacore==3.8.1", "setuptools"];

/// Runs a command to its end and returns what it printed, or what went wrong.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{command:?}: {} {}", text(&output.stdout), text(&output.stderr)))
    }
}

/// The Python interpreter of a virtual environment with `packages`, made if need be; [`None`] where it
/// cannot be, of which the reason is printed.
pub fn python(packages: &[&str]) -> Option<PathBuf> {
    if !tier::full() {
        println!("skipped: CORRUST_TESTS=full compares with {}", packages.join(", "));
        return None;
    }
    static KNOWN: Mutex<Option<HashMap<String, Result<PathBuf, String>>>> = Mutex::new(None);
    let list = packages.join("\n");
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    match known.entry(list.clone()).or_insert_with(|| environment(packages, &list)) {
        Ok(python) => Some(python.clone()),
        Err(reason) => {
            assert!(std::env::var_os("CI").is_none(), "{reason}");
            eprintln!("skipped: needs Python with {}: {reason}", packages.join(", "));
            None
        }
    }
}

/// Makes the environment, while no other process does.
fn environment(packages: &[&str], list: &str) -> Result<PathBuf, String> {
    let fault = |error: std::io::Error| error.to_string();
    // Named by what is in it: 64-bit FNV-1a.
    let hash = list.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("witness");
    fs::create_dir_all(&folder).map_err(fault)?;
    let environment = folder.join(format!("{hash:016x}"));
    let lock = File::create(environment.with_extension("lock")).map_err(fault)?;
    lock.lock().map_err(fault)?;
    let python = environment.join(if cfg!(windows) { "Scripts/python" } else { "bin/python" });
    let complete = environment.join("packages.txt");
    if fs::read_to_string(&complete).ok().as_deref() != Some(list) {
        let system = if cfg!(windows) { "python" } else { "python3" };
        run(Command::new(system).args(["-m", "venv", "--clear"]).arg(&environment))?;
        run(Command::new(&python).args(["-m", "pip", "install", "-q"]).args(packages))?;
        fs::write(&complete, list).map_err(fault)?;
    }
    Ok(python)
}

/// Runs a script of `tests/python`, which ends with an error where it finds something else than expected,
/// and returns what it printed.
pub fn script(python: &Path, name: &str, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name);
    run(Command::new(python).arg(script).args(arguments)).unwrap_or_else(|error| panic!("{error}"))
}
