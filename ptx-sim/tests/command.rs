//! The command `ptx-sim`: its answers and exit codes.

#![cfg(feature = "cli")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const REDUCE: &str = "tests/cuda/reduce.ptx";
const FAULT: &str = "tests/cuda/reduce_fault.ptx";
/// Two blocks of the reduction.
const LAUNCH: &[&str] =
    &["--grid", "2", "--block", "256", "--param", "buffer:2048", "--param", "buffer:8"];

fn ptx_sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ptx-sim"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .unwrap()
}

fn answer(arguments: &[&str], code: i32) -> String {
    let output = ptx_sim(arguments);
    let (out, err) = (output.stdout, output.stderr);
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&err));
    String::from_utf8(if code == 2 { err } else { out }).unwrap()
}

#[test]
fn a_missing_barrier_is_found_in_one_command() {
    let text = answer(&[&["check", FAULT], LAUNCH].concat(), 1);
    assert!(text.starts_with("error["), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("  --> tests/cuda/reduce_fault.ptx:"), "{text}");
    assert!(lines[1].contains("reduce.cu:"), "{text}");
    // The line and two neighbours on each side.
    let marked: Vec<&str> = lines.iter().filter(|l| l.contains(" > ")).copied().collect();
    assert_eq!(
        (marked.len(), lines.iter().filter(|l| l.contains(" | ")).count()),
        (1, 4),
        "{text}"
    );
    assert!(marked[0].contains(".shared.f32"), "{text}");
    assert!(text.contains("entry reduce, block ("), "{text}");
    let clean = answer(&[&["check", REDUCE], LAUNCH].concat(), 0);
    assert_eq!(clean, "reduce: nothing found\n");
    let clustered = answer(&[&["check", REDUCE, "--cluster", "2"], LAUNCH].concat(), 0);
    assert_eq!(clustered, clean);
    // Unchecked it runs through.
    answer(&[&["run", FAULT, "--unchecked"], LAUNCH].concat(), 0);
}

#[test]
fn json_and_sarif() {
    let json: Value =
        serde_json::from_str(&answer(&[&["check", FAULT, "--json"], LAUNCH].concat(), 1)).unwrap();
    let finding = &json["findings"][0];
    let line = finding["line"].as_u64().unwrap();
    assert!(finding["instruction"].as_str().unwrap().contains("shared"), "{json}");
    let sarif: Value =
        serde_json::from_str(&answer(&[&["check", FAULT, "--sarif"], LAUNCH].concat(), 1)).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let result = &run["results"][0];
    assert_eq!(result["level"], "error");
    assert_eq!(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], FAULT);
    assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], line);
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]), "{sarif}");
    let clean: Value =
        serde_json::from_str(&answer(&[&["check", REDUCE, "--sarif"], LAUNCH].concat(), 0))
            .unwrap();
    assert_eq!(clean["runs"][0]["results"], Value::Array(Vec::new()));
    let report: Value =
        serde_json::from_str(&answer(&[&["report", REDUCE, "--json"], LAUNCH].concat(), 0))
            .unwrap();
    assert_eq!(report["blocks"], 2);
    assert!(answer(&[&["report", REDUCE], LAUNCH].concat(), 0).contains("shared wavefronts"));
}

#[test]
fn buffers_come_from_numpy_files_and_go_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let header = |shape: &str| {
        let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
        let mut bytes = [&b"\x93NUMPY\x01\x00"[..], &(length as u16).to_le_bytes()].concat();
        bytes.extend(format!("{text:<width$}\n", width = length - 1).bytes());
        bytes
    };
    let values: Vec<u8> = (0..512).flat_map(|i| (i as f32).to_le_bytes()).collect();
    std::fs::write(path("in.npy"), [header("(2, 256)"), values].concat()).unwrap();
    std::fs::write(path("sums.npy"), [header("(2,)"), vec![0; 8]].concat()).unwrap();
    let input = format!("buffer:{}", path("in.npy"));
    let sums = format!("buffer:{}", path("sums.npy"));
    let (same, raw) = (format!("1={}", path("out.npy")), format!("1={}", path("raw.npy")));
    let run = ["run", REDUCE, "--grid", "2", "--block", "256", "--param", &input];
    answer(&[&run[..], &["--param", &sums, "--save", &same]].concat(), 0);
    let expected: Vec<u8> = [32640_f32, 98176.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let read = |name: &str| std::fs::read(Path::new(&path(name))).unwrap();
    assert_eq!(read("out.npy"), [header("(2,)"), expected.clone()].concat());
    answer(&[&run[..], &["--param", "buffer:8,fill=0x7f", "--save", &raw]].concat(), 0);
    let saved = read("raw.npy");
    assert!(saved.ends_with(&expected) && String::from_utf8_lossy(&saved).contains("'|u1'"));
}

#[test]
fn bad_input_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.ptx").display().to_string();
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u32 n)\n{\nfrob.b32 n;\nret;\n}\n";
    std::fs::write(&file, text).unwrap();
    let two = folder.path().join("two.ptx").display().to_string();
    std::fs::write(&two, ".visible .entry a() { ret; }\n.visible .entry b() { ret; }\n").unwrap();
    let huge = format!("buffer:{}", u64::MAX);
    for (arguments, reason) in [
        (&["check", "nothing.ptx"][..], "nothing.ptx: "),
        (&["check", &file], ":6: `frob.b32 n`: unknown instruction `frob`"),
        (&["check", &two], "--entry chooses one of a, b"),
        (&["check", &two, "--entry", "c"], "no entry `c`: the file has a, b"),
        (&["check", "Cargo.toml"], "Cargo.toml:1: expected a directive"),
        (&["check", REDUCE], "the entry has 2 parameters, 0 were given"),
        (
            &["check", REDUCE, "--param", "u32:1", "--param", "buffer:8"],
            "parameter 0 (reduce_param_0) has 8 bytes, 4 were given",
        ),
        (&["check", REDUCE, "--param", "buffer:x.npy", "--param", "buffer:8"], "x.npy: "),
        (
            &["check", REDUCE, "--param", "buffer:Cargo.toml", "--param", "buffer:8"],
            "Cargo.toml: not a NumPy file",
        ),
        (
            &["check", REDUCE, "--param", "buffer:8", "--param", "u64:8", "--save", "1=x.npy"],
            "--save 1: the entry has no buffer",
        ),
        (
            &["check", REDUCE, "--block", "2048", "--param", "buffer:8", "--param", "buffer:8"],
            "has 2048 threads",
        ),
        (&["check", REDUCE, "--param", &huge], "a buffer has 0 to"),
        (&["check", REDUCE, "--grid", "1,2,3,4"], "at most three numbers"),
        (&["check", REDUCE, "--tensor", "b200"], "expected exact, a100, h100"),
        (&[&["check", REDUCE, "--cluster", "9"], LAUNCH].concat(), "expected 1 to 8 blocks"),
        (&[&["check", REDUCE, "--cluster", "1,2"], LAUNCH].concat(), "1 blocks along y"),
    ] {
        let said = answer(arguments, 2);
        assert!(said.contains(reason), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}
