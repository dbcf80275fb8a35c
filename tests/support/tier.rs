//! Tiers of the tests: `cargo test --release` runs the quick one, `CORRUST_TESTS=full cargo test --release` all cases.

use std::env::{self, VarError};

/// Whether every case is tested. Panics if `CORRUST_TESTS` is neither `full` nor `quick`.
pub fn full() -> bool {
    match env::var("CORRUST_TESTS").as_deref() {
        Ok("full") => true,
        Ok("quick") | Err(VarError::NotPresent) => false,
        other => panic!("CORRUST_TESTS is {other:?}: expected full or quick"),
    }
}

/// Sizes or other cases to test on `devices`. In the quick tier simulated devices take `count` of them (at least two), from the first
/// to the last at even distances, and the output says so.
pub fn cases<T: Copy>(devices: &str, all: &[T], count: usize) -> Vec<T> {
    if all.len() <= count || !devices.starts_with("sim") || full() {
        return all.to_vec();
    }
    println!("{devices}: {count} of {} cases; CORRUST_TESTS=full takes all", all.len());
    (0..count).map(|index| all[index * (all.len() - 1) / (count - 1)]).collect()
}
