//! The tables that GPUs go by: written by `corrust bench --tune`, gone by wherever a kernel is chosen.

use std::{fs, path::Path, sync::Arc};

use corrust::{
    Autocorrelator,
    correlate::Kernel,
    device::{Gpu, SimGpu, Tuning, tuning::Basis},
};
use corrust_gpu::{
    abi::{ENTRIES, autocorrelate::LOW},
    ptx,
};
use serde_json::Value;

use crate::support::command;

/// A table by which `mma-64` is the only correlator.
fn other_table() -> Tuning {
    let mut tuning = Tuning::built_in()[0].clone();
    tuning.correlate.ci8.ranges.clear();
    tuning.correlate.ci8.speeds = [(Kernel::Mma64, 1.0)].into();
    tuning
}

/// A run of the benchmark whose plan chooses its kernel.
const CHOOSING: &str = "bench correlate --device sim --inputs 32 --channels 1 --times 32 --encoding ci8 \
                        --kernel auto --repeats 1 --sustain 0 --json r.json";

/// The kernel that it chose.
fn chosen(folder: &Path) -> String {
    let record = fs::read_to_string(folder.join("r.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let rows = record["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["what"] == "from tcn").unwrap();
    row["kernel"].as_str().unwrap().to_owned()
}

#[test]
fn what_tune_writes_is_a_table_of_everything_that_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        command::done(folder.path(), "bench --tune t.json --device sim --repeats 1 --json r.json");
    assert!(text.contains("wgmma-ci4") && text.contains("beamform_wgmma_96x512"), "{text}");
    let table = Tuning::read(&folder.path().join("t.json")).unwrap();
    assert_eq!((&table.model[..], table.capability), ("simulator", (9, 0)));
    assert_eq!((table.basis, &table.machine["device"][..]), (Basis::Measured, "simulator"));
    let speeds: Vec<Kernel> = table.correlate.ci4.speeds.keys().copied().collect();
    for kernel in ["mma-64", "mma-128", "mma-s4", "wgmma-128", "wgmma-192", "wgmma-ci4"] {
        assert!(speeds.contains(&kernel.parse().unwrap()), "{kernel}: {speeds:?}");
    }
    let built_in = Tuning::built_in()[0].beamform.tiles.clone();
    assert_eq!(table.beamform.tiles.len(), built_in.len());
    assert!(built_in.iter().all(|(tile, cost)| table.beamform.tiles[tile] != *cost));
    // Gone by at once.
    command::done(folder.path(), &format!("{CHOOSING} --tuning t.json"));
    // Not without leave.
    let again = command::corrust(folder.path(), "bench --tune t.json --no-clobber --device sim");
    assert_eq!(again.status.code(), Some(2));
}

#[test]
fn a_table_is_named_by_an_option_or_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    other_table().write(&folder.join("t.json")).unwrap();
    command::done(folder, CHOOSING);
    assert_eq!(chosen(folder), "few");
    command::done(folder, &format!("{CHOOSING} --tuning t.json"));
    assert_eq!(chosen(folder), "mma-64");
    let run = |arguments: &str, tuning: &str| {
        let output =
            command::command(folder, arguments).env("CORRUST_TUNING", tuning).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(CHOOSING, "").0, Some(0));
    assert_eq!(chosen(folder), "few");
    assert_eq!(run(CHOOSING, "t.json").0, Some(0));
    assert_eq!(chosen(folder), "mma-64");
    // The option counts.
    assert_eq!(run(&format!("{CHOOSING} --tuning t.json"), "missing.json").0, Some(0));
    for (arguments, tuning, expected) in [
        (CHOOSING.to_owned(), "missing.json", "error: CORRUST_TUNING: missing.json: cannot read"),
        (format!("{CHOOSING} --tuning none.json"), "", "error: none.json: cannot read"),
        (format!("{CHOOSING} --tuning r.json"), "", "error: r.json: "),
    ] {
        let (code, text) = run(&arguments, tuning);
        assert!(code == Some(2) && text.starts_with(expected), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn tune_needs_a_gpu_and_nothing_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, reason) in [
        ("bench --tune t.json --device cpu", "--tune: found a CPU, expected a GPU"),
        ("bench correlate --tune t.json --device sim", "expected neither a system"),
    ] {
        let output = command::corrust(folder.path(), arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(reason), "{text}");
    }
    assert!(!folder.path().join("t.json").exists());
}

#[test]
fn kernels_that_an_option_names_take_the_place_of_those_shipped() {
    let folder = tempfile::tempdir().unwrap();
    let entry = ENTRIES.iter().find(|entry| entry.name == "limits_multiply_add").unwrap();
    let shipped = ptx::of_entry(entry);
    fs::create_dir(folder.path().join("wrong")).unwrap();
    let wrong = shipped.replace("mad.lo.u32", "mad.hi.u32");
    fs::write(folder.path().join("wrong/mine.ptx"), wrong).unwrap();
    fs::write(folder.path().join("same.ptx"), shipped).unwrap();
    let run = |ptx: &str| {
        let limits = "bench limits --limit integer-multiply-add --repeats 1 --device sim --ptx ";
        let mut command = command::command(folder.path(), &(limits.to_owned() + ptx));
        let output = command.env("CORRUST_PTX", "missing.ptx").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run("same.ptx"), (Some(0), String::new()));
    let (code, text) = run("wrong");
    assert!(code == Some(2) && text.contains("the answer differs"), "{text}");
    let (code, text) = run("nothing");
    assert!(code == Some(2) && text.starts_with("error: nothing: cannot read"), "{text}");
}

#[test]
fn the_autocorrelators_kernels_change_where_the_table_says() {
    let counts = vec![3_u8; 4096];
    let launched = |instants: usize| {
        let gpu = Arc::new(SimGpu::new());
        let mut tuning = Tuning::built_in()[0].clone();
        tuning.autocorrelate.tensor_core_instants = instants;
        let plan = Autocorrelator::builder(1).groups(4).lags(8).gpu(gpu.clone() as Arc<dyn Gpu>);
        let mut plan = plan.tuning(tuning).build().unwrap();
        plan.accumulate(&counts).unwrap();
        let lag_1 = plan.snapshot().unwrap().products[[0, 1]];
        assert_eq!(lag_1, 9 * (counts.len() as u64 - 1));
        gpu.report(&LOW.entry).is_some()
    };
    assert!(launched(1024));
    assert!(!launched(5000));
}
