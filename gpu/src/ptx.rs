//! The PTX of every kernel, as text: what `build.rs` compiled from this crate, or, when the sources
//! are those of `gpu/ptx/manifest.txt`, what is shipped there.

extern crate alloc;

use alloc::string::String;

use crate::abi::{Entry, Target};

/// Kernels for compute capability 8.0 and later.
pub const SM_80: &str = include_str!(env!("CORRUST_PTX_SM_80"));
/// Kernels for compute capability 9.0 with its architecture-specific instructions (Hopper).
pub const SM_90A: &str = include_str!(env!("CORRUST_PTX_SM_90A"));

/// The module of all kernels for `target`.
pub const fn module(target: Target) -> &'static str {
    match target {
        Target::Sm80 => SM_80,
        Target::Sm90a => SM_90A,
    }
}

/// A module of one kernel: the driver then compiles nothing else.
pub fn of_entry(entry: &Entry) -> String {
    only(module(entry.target), entry)
}

/// As [`of_entry`], with the kernel of that name in `text` in place of the one shipped, if it has one.
pub fn of_entry_in(text: &str, entry: &Entry) -> String {
    let named = |part: &str| part.split('(').next() == Some(entry.name);
    if text.split(ENTRY).skip(1).any(named) { only(text, entry) } else { of_entry(entry) }
}

/// What stands before the name of a kernel.
const ENTRY: &str = ".visible .entry ";

/// The module `text` without its other kernels.
fn only(text: &str, entry: &Entry) -> String {
    let mut parts = text.split(ENTRY);
    let mut module = String::from(parts.next().unwrap_or_default());
    for part in parts {
        // A kernel ends at the first brace in column 0; declarations may follow it.
        let end = part.find("\n}\n").map_or(part.len(), |brace| brace + 3);
        let (kernel, rest) = part.split_at(end);
        if kernel.split('(').next() == Some(entry.name) {
            module.push_str(ENTRY);
            module.push_str(kernel);
        }
        module.push_str(rest);
    }
    module
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ENTRIES;

    #[test]
    fn a_module_of_one_entry_has_that_entry_alone() {
        for entry in ENTRIES {
            let module = of_entry(entry);
            assert_eq!(module.matches(".entry").count(), 1, "{}", entry.name);
            assert_eq!(module.matches('{').count(), module.matches('}').count());
            assert!(module.contains(".version"));
        }
    }

    #[test]
    fn a_kernel_may_come_from_elsewhere() {
        let [first, second, ..] = ENTRIES else { panic!("there are kernels") };
        let other = of_entry(first).replace(".version", "// another\n.version");
        assert_eq!(of_entry_in(&other, first), other);
        assert_eq!(of_entry_in(&other, second), of_entry(second));
    }

    #[test]
    fn every_kernel_fits_the_gpus_that_it_is_for() {
        for (index, entry) in ENTRIES.iter().enumerate() {
            // The least that a GPU of the target has: 8.6 and 8.9, and 9.0. One kernel is for those with
            // as much as 8.0 has; the host takes another where there is less.
            let large = entry.name == crate::abi::autocorrelate::COUNTS.entry.name;
            let (shared_bytes, threads) = match entry.target {
                Target::Sm80 if large => (163 << 10, 1536),
                Target::Sm80 => (99 << 10, 1536),
                Target::Sm90a => (227 << 10, 2048),
            };
            assert!(entry.shared_bytes <= shared_bytes, "{entry:?}");
            assert!(entry.threads * entry.min_blocks <= threads, "{entry:?}");
            assert!(entry.threads <= 1024 && entry.threads % 32 == 0, "{entry:?}");
            assert!(ENTRIES[..index].iter().all(|other| other.name != entry.name), "{entry:?}");
        }
    }
}
