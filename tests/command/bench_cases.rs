//! Which cases `corrust bench` measures, and which it leaves out.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use corrust::{
    Correlator, Encoding, Layout,
    bench::{BenchDevice, model::Model},
    correlate::Kernel,
    quantise::Packed,
};
use serde_json::Value;

use crate::support::{
    command,
    tier::{self, prompt},
};

/// The rows of a run.
fn rows(folder: &Path, arguments: &str) -> (Vec<Value>, String) {
    let text = command::done(folder, &format!("{arguments} --json r.json"));
    let record = fs::read_to_string(folder.join("r.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    (record["rows"].as_array().unwrap().clone(), text)
}

const SMALL: &str = "bench correlate --device sim --inputs 9 --times 40 --repeats 1 --sustain 0";

#[test]
fn numbers_of_channels_are_cases_each() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "bench correlate --device cpu --inputs 3,5 --channels 1,4 --times 20 --encoding ci8 \
                     --repeats 1";
    let (rows, _) = rows(folder.path(), arguments);
    let mut sizes: Vec<_> = rows
        .iter()
        .map(|row| ["N", "C"].map(|axis| row["sizes"][axis].as_u64().unwrap()))
        .collect();
    sizes.dedup();
    assert_eq!(sizes, [[3, 1], [3, 4], [5, 1], [5, 4]]);
    let none = command::corrust(folder.path(), "bench correlate --device cpu --channels 1,0");
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn bin_groups_are_left_out_where_they_do_not_take_the_lags() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = "--sensors 32 --instants 100 --groups 1";
    let bench = format!("bench autocorrelate --device model:h200 {sizes} --lags");
    let has_bin_groups = |lags| {
        let (rows, _) = rows(folder.path(), &format!("{bench} {lags}"));
        assert!(rows.iter().any(|row| row["kernel"] == "auto"));
        rows.iter().any(|row| row["kernel"] == "bin-groups")
    };
    assert!(has_bin_groups(32) && !has_bin_groups(10_000));
}

#[test]
fn beams_on_grids_are_cases_with_both_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = "--places 5 --channels 2 --blocks 2 --repeats 1 --sustain 0";
    let (rows, _) = rows(folder.path(), &format!("bench grid --device sim {sizes}"));
    let kernels: Vec<_> = rows.iter().map(|row| row["kernel"].as_str().unwrap()).collect();
    assert_eq!(kernels, ["exact", "tensor"]);
    // 80 times of 22 dishes, and 100 powers of f16 of two blocks.
    let bytes = 80.0 * 2.0 * 2.0 * 22.0 + 2.0 * 2.0 * 100.0 * 2.0;
    assert!(rows.iter().all(|row| row["bytes"] == bytes));
    let (rows, _) = self::rows(folder.path(), &format!("bench grid --device cpu {sizes}"));
    assert_eq!(rows.len(), 1);
    let none = command::corrust(folder.path(), "bench grid --device cpu --blocks 0");
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn kernels_are_left_out_where_they_do_not_take_the_samples_and_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!("{SMALL} --channels 2 --encoding ci8,ci4 --kernel mma-s4,mma-64");
    let (rows, text) = rows(folder.path(), &arguments);
    assert!(text.contains("left out, as such samples are not taken: mma-s4 with ci8"), "{text}");
    let measured = |kernel: &str, encoding: &str| {
        rows.iter().any(|row| {
            (&row["kernel"], &row["encoding"], &row["what"])
                == (&kernel.into(), &encoding.into(), &"kernel".into())
        })
    };
    assert!(measured("mma-s4", "ci4") && measured("mma-64", "ci4") && measured("mma-64", "ci8"));
    assert!(!measured("mma-s4", "ci8"));
    let none = format!("{SMALL} --encoding ci8,cf16 --kernel wgmma-ci4");
    let output = command::corrust(folder.path(), &none);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && text.contains("wgmma-ci4 with ci8"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn launches_that_add_and_noise_are_measured_beside_first_ones() {
    let folder = tempfile::tempdir().unwrap();
    for encoding in ["ci8", "ci4-offset", "cf16"] {
        let (rows, _) = rows(folder.path(), &format!("{SMALL} --channels 2 --encoding {encoding}"));
        for what in ["kernel", "adding", "gaussian", "from tcn"] {
            let found =
                rows.iter().filter(|row| row["what"] == what && row["auto"] == true).count();
            assert_eq!(found, 1, "{encoding}: {what}");
        }
    }
}

#[test]
fn sustained_runs_have_a_length_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    // On a CPU nothing is sustained, whatever the length.
    let quick =
        "bench correlate --device cpu --inputs 2 --channels 1 --times 8 --encoding ci8 --repeats 1";
    command::done(folder.path(), &format!("{quick} --sustain"));
    command::done(folder.path(), &format!("{quick} --sustain 20"));
    let long = command::corrust(folder.path(), &format!("{quick} --sustain 61"));
    let text = String::from_utf8(long.stderr).unwrap();
    assert!(text.contains("--sustain: expected 0 to 60 seconds, found 61"), "{text}");
    let help = command::done(folder.path(), "bench --help");
    assert!(help.contains("without a number 20"), "{help}");
}

#[test]
fn prompt_measurement_of_a_cpu() {
    if !tier::full() && !tier::times() {
        println!("skipped: CORRUST_TESTS=full measures a CPU whole");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let (rows, _) = rows(folder.path(), "bench correlate --device cpu");
    prompt(start, Duration::from_secs(120), "the measurement");
    assert!(!rows.is_empty());
    for row in &rows {
        let products = row["useful_operations"].as_f64().unwrap() / 8.0;
        assert!(products <= 2.2e8, "{}", row["case"]);
    }
}

/// 64 inputs of 3 bits (GMRT's): words of ten samples take less than half the time of `ci8` on the bus, and more than it in
/// kernels, as they are not multiplied by tensor cores.
#[test]
fn words_of_3_bits_are_predicted_beside_int8() {
    let (inputs, channels, times) = (64, 32, 960);
    let words = vec![0_u32; channels * inputs * times / 5];
    let int8 = vec![0_i8; 2 * channels * inputs * times];
    for chip in ["a100", "h200"] {
        let model = Model::open(chip).unwrap();
        let gpu = BenchDevice::of_model(model.clone()).gpu.expect("a model is a GPU");
        let mut seconds = Vec::new();
        for (encoding, kernel) in
            [(Encoding::Ci4, Kernel::PackedComplex3), (Encoding::Ci8, Kernel::Auto)]
        {
            let plan = Correlator::builder(inputs, channels).encoding(encoding);
            let plan = plan.layout(Layout::Cnt).gpu(gpu.clone()).kernel(kernel);
            let mut plan = plan.build().unwrap();
            let predicted = model.predict(&mut || {
                match encoding {
                    Encoding::Ci8 => plan.accumulate(&int8)?,
                    _ => {
                        plan.accumulate_packed(&Packed::new(&words, inputs, channels, times, 3)?)?
                    }
                }
                plan.wait()
            });
            seconds.push(predicted.unwrap().seconds);
        }
        println!("{chip}: words {:.2e} s, ci8 {:.2e} s", seconds[0], seconds[1]);
        assert!(seconds[1] < seconds[0] && seconds[0] < 20.0 * seconds[1], "{chip}: {seconds:?}");
    }
    assert!(2 * 4 * words.len() < int8.len());
}
