//! Helpers of the tests: launches with one parameter, an address.

#![allow(dead_code, missing_docs)]

use ptx_sim::{Error, Fault, FaultKind, Launch, Memory, Module, Report, launch};

/// Wraps the body of a kernel `k` with one parameter, `buffer`.
pub fn kernel(target: &str, variables: &str, body: &str) -> String {
    format!(
        ".version 8.3\n.target {target}\n.address_size 64\n{variables}\n\
         .visible .entry k(.param .u64 buffer)\n{{\n{body}\n}}\n"
    )
}

/// Runs `k` on one block over a copy of `bytes`; the buffer afterwards and the report.
pub fn run(ptx: &str, threads: u32, shared: u32, bytes: &[u8]) -> Result<(Vec<u8>, Report), Error> {
    let module = Module::parse(ptx)?;
    let memory = Memory::new();
    let buffer = memory.alloc(bytes.len() as u64);
    memory.write(buffer, bytes)?;
    let report = launch(
        &module,
        &memory,
        Launch {
            entry: "k",
            grid: [1, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: shared,
            params: &buffer.to_le_bytes(),
            ..Launch::default()
        },
    )?;
    let mut back = vec![0; bytes.len()];
    memory.read(buffer, &mut back)?;
    Ok((back, report))
}

/// The fault that a kernel must end with.
pub fn fault(ptx: &str, threads: u32, shared: u32, bytes: &[u8]) -> Fault {
    match run(ptx, threads, shared, bytes) {
        Err(Error::Fault(fault)) => *fault,
        Err(other) => panic!("not a fault: {other}"),
        Ok(_) => panic!("the kernel ran through"),
    }
}

/// Checks a fault's kind and that its text says `words`, and that it stands on the line with `at`.
pub fn expect(ptx: &str, fault: &Fault, kind: FaultKind, at: &str, words: &[&str]) {
    let text = fault.to_string();
    assert_eq!(fault.kind, kind, "{text}");
    assert_eq!(fault.kernel, "k");
    let line = ptx.lines().nth(fault.line as usize - 1).unwrap();
    assert!(line.contains(at), "{text}\nis on line {}: {line}", fault.line);
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

/// Words of a buffer.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
}

pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
