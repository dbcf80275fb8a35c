//! One parser of `tests/formats/parsers.rs` under libFuzzer: the one that the environment's `CORRUST_FUZZ` names.

#![no_main]

use std::{env, sync::LazyLock};

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/formats/parsers.rs"]
mod parsers;

static PARSER: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = env::var("CORRUST_FUZZ").unwrap_or_default();
    let named = |(target, _): &&parsers::Target| *target == name;
    let found = parsers::TARGETS.iter().find(named);
    let names = parsers::TARGETS.iter().map(|(target, _)| *target).collect::<Vec<_>>().join(", ");
    found.unwrap_or_else(|| panic!("CORRUST_FUZZ={name}: expected one of {names}")).1
});

fuzz_target!(|bytes: &[u8]| PARSER(bytes));
