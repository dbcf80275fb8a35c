//! Signals that end the program.

use std::sync::atomic::AtomicBool;
#[cfg(unix)]
use std::{
    io::{IsTerminal, Write},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

#[cfg(unix)]
use corrust::Error;
use corrust::Result;

#[cfg(unix)]
use crate::cli::terminal::say::error;

/// Exit code that shells report for a program that Ctrl-C ended.
#[cfg(unix)]
const EXIT_INTERRUPTED: i32 = 130;

/// Makes Ctrl-C, the end of a batch job and a lost connection remove unfinished files and end the program, whether it
/// computes or waits for a pipe or a device.
#[cfg(unix)]
pub fn obey_signals() -> Result<()> {
    use corrust::format::abandon_partial_files;
    use signal_hook::{
        consts::{SIGHUP, SIGINT, SIGTERM},
        iterator::Signals,
        low_level,
    };
    let fault = |error| Error::invalid(format!("cannot listen for signals: {error}"));
    // `nohup` has a program ignore that its connection is lost.
    let obeyed = [SIGINT, SIGTERM].into_iter().chain((!is_ignored(SIGHUP)).then_some(SIGHUP));
    let mut signals = Signals::new(obeyed).map_err(fault)?;
    let listen = move || {
        let mut first = None;
        for _ in &mut signals {
            // A service first writes its complete dumps; a second signal ends it at once. Within a second both may
            // come from one sender, to the process and to its group.
            let asked: &mut Instant = first.get_or_insert_with(Instant::now);
            if SERVING.load(Ordering::Relaxed) && asked.elapsed() < Duration::from_secs(1) {
                STOPPING.store(true, Ordering::Relaxed);
                continue;
            }
            abandon_partial_files();
            if std::io::stderr().is_terminal() {
                let _ = write!(std::io::stderr(), "\r\x1b[2K");
            }
            error("interrupted");
            low_level::exit(EXIT_INTERRUPTED);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map(drop).map_err(fault)
}

/// Whether a service listens, which ends by itself when it is to stop, and whether it is. Before it listens, as while its memory
/// is made, a signal ends the program at once.
pub static SERVING: AtomicBool = AtomicBool::new(false);
pub static STOPPING: AtomicBool = AtomicBool::new(false);

/// Whether a signal is ignored.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given, the old one is written where there is room for it, and all bits
    // zero are an action.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Elsewhere the system ends the program, and the next run removes its unfinished files.
#[cfg(not(unix))]
pub fn obey_signals() -> Result<()> {
    Ok(())
}
