//! Fits of tables of curves by the command.

use std::{fmt::Write as _, fs, path::Path};

use corrust::fit::Model;
use serde_json::Value;

use crate::support::command::{done, refused};

/// Writes a table of curves of molecules in a focus, without noise, that differ in their number alone.
fn write(path: &Path, numbers: &[f64], error: &str) {
    let mut text = String::from("lag_seconds,mean");
    (0..numbers.len()).for_each(|sensor| write!(text, ",sensor_{sensor}").unwrap());
    text += ",mean_error";
    (0..numbers.len()).for_each(|sensor| write!(text, ",sensor_{sensor}_error").unwrap());
    for k in 0..80 {
        let lag = 1e-6 * 1.15_f64.powi(k);
        let g = |n: &f64| Model::default().g(lag, &[*n, 1e-4, 5.0, 1.0]);
        let _ = write!(text, "\n{lag:e},{}", g(&numbers[0]));
        numbers.iter().for_each(|n| write!(text, ",{}", g(n)).unwrap());
        (0..=numbers.len()).for_each(|_| write!(text, ",{error}").unwrap());
    }
    fs::write(path, text + "\n").unwrap();
}

#[test]
fn values_reach_table_json_and_figure() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("g.csv"), &[2.0, 4.0], "0.001");
    let fit = "fit g.csv --share tau --waist 0.2um -o fit.json --csv table.csv --plot fit.svg";
    let said = done(folder.path(), fit);
    assert!(said.contains("tau") && said.contains("shared") && said.contains("um^2/s"), "{said}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("fit.json")).unwrap();
    for (curve, n) in [2.0, 4.0].into_iter().enumerate() {
        let value =
            |name: &str| json["curves"][curve]["parameters"][name]["value"].as_f64().unwrap();
        assert!((value("n") - n).abs() < 1e-6 && (value("tau") - 1e-4).abs() < 1e-10, "{json}");
        // D = 0.04 um^2 / (4 x 100 us).
        assert!((value("D") - 100.0).abs() < 1e-4, "{json}");
    }
    assert_eq!(json["fits"].as_array().unwrap().len(), 1);
    let table = read("table.csv");
    assert_eq!(table.lines().count(), 1 + 2 * 5, "{table}");
    assert!(table.contains("g.csv,sensor_1,kappa,5e0,,,fixed"), "{table}");
    assert!(read("fit.svg").contains("residual"));
    // Without shared parameters a fit each.
    assert_eq!(done(folder.path(), "fit g.csv").matches("reduced chi2").count(), 2);
}

#[test]
fn faults_are_said_before_and_after_the_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("g.csv"), &[2.0], "0.001");
    write(&folder.path().join("zero.csv"), &[2.0], "0");
    fs::write(folder.path().join("no.csv"), "a,b\n").unwrap();
    let says = |arguments: &str, expected: &str| {
        let found = refused(folder.path(), arguments);
        assert!(found.contains(expected) && found.trim().lines().count() == 1, "{found}");
    };
    says("fit g.csv --csv g.csv", "is an input");
    says("fit g.csv -o fit.txt", "ends in .json");
    says("fit no.csv", "expected a table of curves");
    says("fit zero.csv", "an error bar of 0");
    says("fit g.csv --components 3", "expected 1 or 2");
    says("fit g.csv --fix tua=1us", "expected n, tau, kappa, offset");
    says("fit g.csv --fix tau", "expected a name and a value");
    says("fit g.csv --fix tau=1us --start tau=1us", "expected one of them");
    says("fit g.csv --bound tau=1ms..1us", "the first below the second");
    says("fit g.csv --range 10s..20s", "expected 2 or more points");
    says("fit g.csv --curve sensor_7", "expected mean, sensor_0");
    says("fit g.csv --waist 3", "expected a positive number with nm or um");
    assert!(!folder.path().join("fit.json").exists());
}
