//! From the PTX that a compiler wrote to the kernels that are shipped. Part of `build.rs`, of the tool in `builder/`, and
//! of the builder in `rust-cuda/`.

use std::collections::BTreeMap;

use crate::{
    abi::{Entry, Target},
    split::split,
};

/// The kernels of a module, by name, each as a module of its own in which nothing tells of the others: adds
/// what Rust cannot say (dynamic shared memory, launch bounds), leaves out comments, and checks that the kernels are
/// those of `entries` for `target`.
pub fn finish(
    ptx: &str,
    target: Target,
    entries: &[&'static Entry],
) -> Result<BTreeMap<&'static str, String>, String> {
    if let Some(line) = ptx.lines().find(|line| line.starts_with(".func")) {
        return Err(format!(
            "the PTX for {} has a function that is no kernel ({line}): kernels call nothing and \
             cannot panic; mark what they use #[inline(always)]",
            target.name()
        ));
    }
    let kernels = split(ptx);
    let expected = entries.iter().filter(|entry| entry.target == target);
    if let Some((name, _)) =
        kernels.iter().find(|(name, _)| !expected.clone().any(|entry| entry.name == *name))
    {
        return Err(format!("kernel {name} for {} has no row in gpu/src/abi", target.name()));
    }
    expected
        .map(|entry| match kernels.iter().find(|(name, _)| *name == entry.name) {
            Some((_, text)) => Ok((entry.name, finish_kernel(text, entry)?)),
            None => Err(format!(
                "gpu/src/abi lists kernel {} for {}, which the device code lacks",
                entry.name,
                target.name()
            )),
        })
        .collect()
}

/// One kernel's module.
fn finish_kernel(ptx: &str, entry: &Entry) -> Result<String, String> {
    let mut text = String::with_capacity(ptx.len());
    for line in without_comments(ptx).lines() {
        let line = line.trim_end();
        if line.is_empty() {
            continue;
        }
        if line.contains("__local_depot") && line.contains(".local") {
            return Err(format!(
                "kernel {} for {} keeps an array in local memory ({}): index it by constants only",
                entry.name,
                entry.target.name(),
                line.trim()
            ));
        }
        if line == "{" {
            text +=
                &format!(".maxntid {}, 1, 1\n.minnctapersm {}\n", entry.threads, entry.min_blocks);
            if entry.cluster > 1 {
                text += &format!(".reqnctapercluster {}, 1, 1\n", entry.cluster);
            }
        }
        text += line;
        text.push('\n');
        if line.starts_with(".address_size") {
            text += ".extern .shared .align 1024 .b8 dynamic_shared[];\n";
        }
    }
    Ok(own_names(&text))
}

/// The text without `/* ... */` and what follows `//`.
pub fn without_comments(ptx: &str) -> String {
    let mut text = String::with_capacity(ptx.len());
    let mut rest = ptx;
    while let Some((before, comment)) = rest.split_once('/') {
        text += before;
        let (end, is_comment) = match comment.as_bytes().first() {
            Some(b'*') => (comment[1..].find("*/").map(|end| end + 3), true),
            Some(b'/') => (comment.find('\n'), true),
            _ => (Some(0), false),
        };
        if !is_comment {
            text.push('/');
        }
        rest = &comment[end.unwrap_or(comment.len())..];
    }
    text + rest
}

/// Labels and tables by names that do not depend on the other kernels of the module.
fn own_names(text: &str) -> String {
    // LLVM's labels have the number of their function: $L__BB12_34.
    const LABEL: &str = "$L__BB";
    let mut parts = text.split(LABEL);
    let mut renamed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = part.trim_start_matches(|digit: char| digit.is_ascii_digit());
        renamed += "$L";
        renamed += number;
    }
    let tables: Vec<String> = renamed
        .lines()
        .filter(|line| line.starts_with(".global"))
        .filter_map(|line| line.split('[').next()?.split_whitespace().last().map(str::to_owned))
        .collect();
    // The longest first: one may begin like another.
    let mut order: Vec<usize> = (0..tables.len()).collect();
    order.sort_by_key(|&table| std::cmp::Reverse(tables[table].len()));
    for table in order {
        renamed = renamed.replace(&tables[table], &format!("table_{table}"));
    }
    renamed
}
