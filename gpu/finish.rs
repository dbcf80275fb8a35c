//! From the PTX that a compiler wrote to the PTX that is launched. Part of `build.rs`, and of the
//! builder in `rust-cuda/`.

use std::collections::BTreeSet;

use crate::abi::{ENTRIES, Entry, Target};

/// Adds what Rust cannot say (dynamic shared memory, launch bounds) and checks the entries against
/// [`ENTRIES`].
pub fn finish(ptx: &str, target: Target) -> Result<String, String> {
    let expected: Vec<&Entry> = ENTRIES.iter().filter(|entry| entry.target == target).collect();
    let mut found = BTreeSet::new();
    let mut text = String::with_capacity(ptx.len());
    let mut entry: Option<&Entry> = None;
    for line in ptx.lines() {
        if line.starts_with(".func") {
            return Err(format!(
                "the PTX for {} has a function that is no kernel ({line}): kernels call nothing and \
                 cannot panic; mark what they use #[inline(always)]",
                target.name()
            ));
        }
        if line.contains("__local_depot") && line.contains(".local") {
            return Err(format!(
                "kernel {} for {} keeps an array in local memory ({}): index it by constants only",
                entry.map_or("?", |entry| entry.name),
                target.name(),
                line.trim()
            ));
        }
        if let Some(rest) = line.strip_prefix(".visible .entry ") {
            let name = rest.split('(').next().unwrap_or(rest);
            let row = expected.iter().find(|entry| entry.name == name).ok_or_else(|| {
                format!("kernel {name} for {} has no row in gpu/src/abi", target.name())
            })?;
            found.insert(name);
            entry = Some(row);
        }
        if line == "{"
            && let Some(row) = entry
        {
            text += &format!(".maxntid {}, 1, 1\n.minnctapersm {}\n", row.threads, row.min_blocks);
        }
        text += line.trim_end();
        text.push('\n');
        if line.starts_with(".address_size") {
            text += "\n.extern .shared .align 1024 .b8 dynamic_shared[];\n";
        }
    }
    match expected.iter().find(|entry| !found.contains(entry.name)) {
        Some(entry) => Err(format!(
            "gpu/src/abi lists kernel {} for {}, which the device code lacks",
            entry.name,
            target.name()
        )),
        None => Ok(text),
    }
}
