//! Descriptors of open files, sockets among them, whose number per process the system limits.

use std::io;

/// Descriptors that stay free of connections: for files of dumps, and what libraries open on their way.
const FILES: u64 = 64;

/// Returns the number of connections, at most `most`, that may be open at a time, so that files always find a descriptor.
/// The system's limit is
/// raised for this process where it is too low and may be raised.
///
/// # Errors
/// When the limit leaves no room for a single connection beside the files, or the system does not tell.
pub fn for_connections(most: usize) -> io::Result<usize> {
    let open = open()?;
    let limit = raised_to(open + FILES + most as u64)?;
    match limit.saturating_sub(open + FILES) {
        0 => Err(io::Error::other(format!(
            "{open} files are open of the {limit} that the system allows this process: expected a limit of {} at \
             least (ulimit -n)",
            open + FILES + 1
        ))),
        free => Ok(free.min(most as u64) as usize),
    }
}

/// Descriptors that this process has open.
#[cfg(unix)]
fn open() -> io::Result<u64> {
    // The folder itself is open while it is read.
    Ok(std::fs::read_dir("/dev/fd")?.count() as u64)
}

#[cfg(not(unix))]
fn open() -> io::Result<u64> {
    Ok(0)
}

/// Raises the soft limit to `wanted`, or as far as the hard one allows, and returns the one that holds.
#[cfg(unix)]
fn raised_to(wanted: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limits are written where there is room for them.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let raised = libc::rlimit { rlim_cur: limit.rlim_max.min(wanted as _), ..limit };
    if raised.rlim_cur <= limit.rlim_cur {
        return Ok(limit.rlim_cur as _);
    }
    // SAFETY: the limits live until the call returns.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    Ok(if set == 0 { raised.rlim_cur } else { limit.rlim_cur } as _)
}

#[cfg(not(unix))]
fn raised_to(wanted: u64) -> io::Result<u64> {
    Ok(wanted)
}
