//! The commit and the compiler that a program is built from. The program and the Python package have this file
//! each, the library has not: a commit is no reason to compile all of it again.

/// The compiler's name and version.
pub const COMPILER: &str = env!("CORRUST_COMPILER");

/// Git's log as `build.rs` found it: lines of the commit before, the commit, and more.
const LOG: &[u8] = include_bytes!(env!("CORRUST_LOG"));

/// Digits of a commit that are kept.
const DIGITS: usize = 12;

const DIGITS_KEPT: Option<[u8; DIGITS]> = last(LOG);

/// The commit's first digits; nothing of the log beside them is in the program.
pub const COMMIT: &str = match &DIGITS_KEPT {
    Some(digits) => match str::from_utf8(digits) {
        Ok(commit) => commit,
        Err(_) => "unknown",
    },
    None => "unknown",
};

/// The commit of the last line.
const fn last(log: &[u8]) -> Option<[u8; DIGITS]> {
    let mut end = log.len();
    while end > 0 && log[end - 1] == b'\n' {
        end -= 1;
    }
    let mut at = end;
    while at > 0 && log[at - 1] != b'\n' {
        at -= 1;
    }
    while at < end && log[at] != b' ' {
        at += 1;
    }
    at += 1;
    let mut digits = [0; DIGITS];
    let mut index = 0;
    while index < DIGITS {
        if at + index >= end {
            return None;
        }
        digits[index] = log[at + index];
        index += 1;
    }
    Some(digits)
}
