//! Every instruction on the simulator against its expectation in plain Rust, with operands of 40 seeds, or of as
//! many as `PTX_SIM_SEEDS` says.

#[allow(dead_code, reason = "targets are for those who run the cases on a GPU")]
mod cases;

use std::collections::BTreeSet;
use std::path::Path;

use cases::{Case, cases};
use ptx_sim::{Launch, Memory, Module, launch};

fn run(case: &Case) -> Result<Vec<u8>, ptx_sim::Error> {
    let module = Module::parse(case.ptx)?;
    let memory = Memory::new();
    let input = memory.alloc(case.input.len() as u64);
    let output = memory.alloc(case.expected.len() as u64);
    memory.write(input, &case.input)?;
    memory.zero(output, case.expected.len() as u64)?;
    launch(
        &module,
        &memory,
        Launch {
            entry: case.entry,
            grid: [case.grid, 1, 1],
            block: [case.block, 1, 1],
            shared_bytes: 0,
            params: &Case::params(input, output),
            ..Launch::default()
        },
    )?;
    let mut back = vec![0; case.expected.len()];
    memory.read(output, &mut back)?;
    Ok(back)
}

#[test]
fn every_instruction_gives_the_expected_bits() {
    let seeds = std::env::var("PTX_SIM_SEEDS").map_or(40, |text| text.parse().unwrap());
    let mut failures = Vec::new();
    for seed in 0..seeds {
        for case in cases(seed) {
            match run(&case) {
                Err(e) => failures.push(format!("{}: {e}", case.entry)),
                Ok(back) if back != case.expected => {
                    let word = |bytes: &[u8], i: usize| -> u32 {
                        u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap())
                    };
                    let wrong: Vec<usize> = (0..back.len() / 4)
                        .filter(|&i| word(&back, i) != word(&case.expected, i))
                        .collect();
                    let per_thread = back.len() / 4 / (case.grid * case.block) as usize;
                    let i = wrong[0];
                    failures.push(format!(
                        "{} (seed {seed}): {} words of {} differ, first word {} of thread {}: 0x{:08x}, expected 0x{:08x}",
                        case.entry,
                        wrong.len(),
                        back.len() / 4,
                        i % per_thread.max(1),
                        i / per_thread.max(1),
                        word(&back, i),
                        word(&case.expected, i)
                    ));
                }
                Ok(_) => {}
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_kernel_in_the_folder_has_a_case() {
    let cased: BTreeSet<&str> = cases(0).iter().map(|c| c.entry).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ops");
    let mut entries = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let module = Module::parse(&text).unwrap();
        entries.extend(module.entries().map(|e| e.name.to_owned()));
    }
    let entries: BTreeSet<&str> = entries.iter().map(String::as_str).collect();
    assert_eq!(cased, entries);
}
