//! What fuzzing found, and the seeds that it began from, given to every parser anew (`tests/corpus`): nothing
//! panics. Changed once more, too: `CORRUST_CHANGES` of each file, by default 100.

use std::{
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};

mod parsers;

/// The inputs of a parser, by name; of PTX the kernels of every instruction, too.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kernels = (target == "ptx").then(|| root.join("ptx-sim/tests/ops"));
    let mut files = Vec::new();
    for folder in [Some(root.join("tests/corpus").join(target)), kernels].into_iter().flatten() {
        let entries =
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let before = files.len();
        files.extend(entries.map(|entry| entry.unwrap().path()));
        assert!(files.len() > before, "{} is empty", folder.display());
    }
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Some bytes others, taken out, put in, or numbers that are at the end of their range.
fn changed(bytes: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    const NUMBERS: [&[u8]; 8] = [
        b"0",
        b"-1",
        b"1e400",
        b"18446744073709551615",
        b"9223372036854775807",
        b"nan",
        b"4294967296",
        &[255; 4],
    ];
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..5) {
        // Half of them where headers are.
        let end = if random.random() { bytes.len() } else { bytes.len().min(300) };
        let at = random.random_range(0..=end);
        let run = at..(at + random.random_range(0..20)).min(bytes.len());
        match random.random_range(0..6) {
            0 => drop(bytes.drain(run)),
            1 => drop(bytes.splice(at..at, bytes[run].to_vec())),
            2 => {
                // A number, whole.
                let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let number = NUMBERS[random.random_range(0..NUMBERS.len())];
                bytes.splice(at..at + digits, number.iter().copied());
            }
            3 => bytes.truncate(at.max(bytes.len() / 2)),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.random();
                }
            }
        }
    }
    bytes
}

#[test]
fn nothing_that_was_found_comes_back() {
    for (target, parse) in parsers::TARGETS {
        for (path, bytes) in corpus(target) {
            let ended = catch_unwind(AssertUnwindSafe(|| parse(&bytes)));
            assert!(ended.is_ok(), "{} panics", path.display());
        }
    }
}

#[test]
fn changed_files_are_read_or_refused() {
    let changes: u64 = env::var("CORRUST_CHANGES").map_or(100, |text| text.parse().unwrap());
    for (target, parse) in parsers::TARGETS {
        for (path, bytes) in corpus(target) {
            for seed in 0..changes {
                let bytes = changed(&bytes, &mut ChaCha8Rng::seed_from_u64(seed));
                let ended = catch_unwind(AssertUnwindSafe(|| parse(&bytes)));
                assert!(ended.is_ok(), "{}, changed by seed {seed}, panics", path.display());
            }
        }
    }
}
