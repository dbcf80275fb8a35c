//! Kernels with one planted fault each, and their mended twins (`tests/faults`): every fault is found, and nothing
//! in the twins.
//!
//! A file is both. Lines that end in `//-` belong to the faulty kernel alone, lines that end in `//+` to its twin.
//! Comments at its head say how to launch it, what kinds of finding are right, and a word of the line that they
//! must name.

mod common;

use std::path::Path;

use ptx_sim::{Error, Launch, Memory, Module, launch};

/// A file of the folder.
struct Planted {
    name: String,
    faulty: String,
    mended: String,
    blocks: u32,
    threads: u32,
    bytes: u64,
    kinds: Vec<String>,
    at: String,
}

impl Planted {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let head = |word: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(word)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let launch = head("// launch ");
        let number = |name: &str| {
            let at = launch.iter().position(|w| w == name).unwrap();
            launch[at + 1].parse::<u32>().unwrap()
        };
        let finds = head("// finds ");
        let without = |mark: &str| {
            let lines = text.lines().map(|line| if line.ends_with(mark) { "" } else { line });
            lines.collect::<Vec<_>>().join("\n")
        };
        assert!(text.lines().any(|l| l.ends_with("//+") || l.ends_with("//-")), "{path:?}");
        Self {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            faulty: without("//+"),
            mended: without("//-"),
            blocks: number("blocks"),
            threads: number("threads"),
            bytes: number("bytes").into(),
            kinds: finds[0].split('|').map(str::to_owned).collect(),
            at: finds.get(1).cloned().unwrap_or_default(),
        }
    }

    /// Runs one of the twins on zeros.
    fn run(&self, ptx: &str) -> Result<(), Error> {
        let module = Module::parse(ptx)?;
        let memory = Memory::new();
        let buffer = memory.alloc(self.bytes);
        memory.zero(buffer, self.bytes)?;
        let report = launch(
            &module,
            &memory,
            Launch {
                entry: "k",
                grid: [self.blocks, 1, 1],
                block: [self.threads, 1, 1],
                shared_bytes: 0,
                params: &buffer.to_le_bytes(),
                ..Launch::default()
            },
        )?;
        assert!(report.same_value.is_empty() && !report.partly_checked, "{}: {report}", self.name);
        Ok(())
    }

    /// The reason for which the answer to the faulty twin is wrong, if it is.
    fn misjudged(&self) -> Option<String> {
        let fault = match self.run(&self.faulty) {
            Err(Error::Fault(fault)) => fault,
            Err(error) => return Some(error.to_string()),
            Ok(()) => return Some("nothing was found".to_owned()),
        };
        let kind = format!("{:?}", fault.kind);
        let known = self.kinds.iter().any(|k| k.replace('-', "") == kind.to_lowercase());
        let line = self.faulty.lines().nth(fault.line as usize - 1).unwrap();
        (!known || !line.contains(&self.at)).then(|| format!("{kind}: {fault}"))
    }
}

#[test]
fn every_planted_fault_is_found_and_nothing_else() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 50, "{} files", paths.len());
    let mut wrong = Vec::new();
    // On one thread and on several: findings do not depend on it.
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for path in &paths {
            let planted = Planted::read(path);
            let (missed, false_finding) =
                pool.install(|| (planted.misjudged(), planted.run(&planted.mended).err()));
            let name = &planted.name;
            wrong.extend(
                missed.map(|reason| format!("{name}, {threads} threads, faulty: {reason}")),
            );
            wrong.extend(false_finding.map(|e| format!("{name}, {threads} threads, mended: {e}")));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), 4 * paths.len(), wrong.join("\n"));
    println!("{} faults found, {} twins clean", paths.len(), paths.len());
}
