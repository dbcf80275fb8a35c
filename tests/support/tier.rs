//! Tiers of the tests: `cargo test --release` runs the quick one, `CORRUST_TESTS=full cargo test --release` all cases,
//! `CORRUST_TESTS=left` those cases that the quick one leaves out, and `CORRUST_TESTS=time` holds what must be prompt to its limit, on a machine that does nothing else.

use std::{
    env::{self, VarError},
    ffi::OsString,
    fs::OpenOptions,
    io::Write as _,
    thread,
    time::{Duration, Instant},
};

#[derive(Clone, Copy, PartialEq)]
enum Tier {
    Quick,
    Full,
    /// What the quick tier leaves out.
    Left,
    Time,
}

/// Tier that `CORRUST_TESTS` names. Panics if it names none.
fn tier() -> Tier {
    match env::var("CORRUST_TESTS").as_deref() {
        Ok("full") => Tier::Full,
        Ok("left") => Tier::Left,
        Ok("time") => Tier::Time,
        Ok("quick") | Err(VarError::NotPresent) => Tier::Quick,
        other => panic!("CORRUST_TESTS is {other:?}: expected quick, full, left or time"),
    }
}

/// Returns whether every case is tested. Tests that ask, and get no, leave cases to the full tier: the file that
/// `CORRUST_TESTS_LEFT` names, if it does, gains a line of the program and the test for each.
pub fn full() -> bool {
    let full = matches!(tier(), Tier::Full | Tier::Left);
    if !full && let Some(file) = env::var_os("CORRUST_TESTS_LEFT") {
        leave(file);
    }
    full
}

/// Appends this test to the file of tests that leave cases.
fn leave(file: OsString) {
    let program = module_path!().split("::").next().unwrap();
    let thread = thread::current();
    let test = thread
        .name()
        .filter(|name| *name != "main")
        .expect("a test's own thread to ask for the tier");
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    file.write_all(format!("{program} {test}\n").as_bytes()).unwrap();
}

/// Returns whether tests hold the program to limits of time.
pub fn times() -> bool {
    tier() == Tier::Time
}

/// Panics if more than `limit` has passed since `start`, in the tier of times alone: elsewhere a machine that does other work is
/// slow, and the program has no fault.
#[track_caller]
pub fn prompt(start: Instant, limit: Duration, what: &str) {
    let passed = start.elapsed();
    let is_prompt = !times() || passed <= limit;
    assert!(is_prompt, "{what} took {passed:?}, expected {limit:?} at most");
}

/// Sizes or other cases to test on `devices`. In the quick tier simulated devices take `count` of them, from the first to the last at
/// even distances (of one, the first), and the output says so.
pub fn cases<T: Copy>(devices: &str, all: &[T], count: usize) -> Vec<T> {
    let is_quick =
        |case: usize| (0..count).any(|index| case == index * (all.len() - 1) / (count - 1).max(1));
    let chosen = |quick: bool| {
        (0..all.len()).filter(|&case| is_quick(case) == quick).map(|case| all[case]).collect()
    };
    if all.len() <= count || !devices.starts_with("sim") {
        return all.to_vec();
    }
    match tier() {
        Tier::Left => chosen(false),
        _ if full() => all.to_vec(),
        _ => {
            println!("{devices}: {count} of {} cases; CORRUST_TESTS=full takes all", all.len());
            chosen(true)
        }
    }
}
