//! Findings of the fuzzer, and the seeds that it began from, given to every parser anew (`tests/corpus`): nothing
//! panics. Changed once more, too: `CORRUST_CHANGES` of each file, by default 100.

use std::{
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use changes::changed;
use rand::{SeedableRng, rngs::ChaCha8Rng};

use crate::{parsers, support::changes};

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
