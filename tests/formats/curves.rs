//! Curves of other programs: small files as these write them, and what PyCorrFit's readers find in them.

use std::{fmt::Write as _, fs, path::Path};

use corrust::{autocorrelate::Curve, format::curves};
use serde_json::json;

use crate::support::witness;

/// Lags in seconds, and `g` of a curve at them.
fn made(curve: usize) -> Vec<(f64, f64)> {
    let lag = |point: i32| 2e-7 * 1.5_f64.powi(point);
    (0..24)
        .map(|point| (lag(point), 1.0 + 0.1 * curve as f64 / (1.0 + lag(point) / 1e-5)))
        .collect()
}

/// Rows of numbers, lags in units of `unit` seconds and `g` less `less`, after `before` each.
fn rows(before: &str, unit: f64, less: f64, curves: &[usize]) -> String {
    let mut text = String::new();
    for point in 0..24 {
        let _ = write!(text, "{before}{:.9e}", made(0)[point].0 / unit);
        curves
            .iter()
            .for_each(|&curve| write!(text, "\t{:.9e}", made(curve)[point].1 - less).unwrap());
        text += "\r\n";
    }
    text
}

/// ALV-6000, one channel, with standard deviations.
fn alv_single() -> String {
    format!(
        "ALV-6000/E-WIN Data\r\nDate :\t\"2/20/2012\"\r\nTemperature [K] :\t 298.0\r\nMode :\t\"SINGLE AUTO CH0\"\r\n\r\n\
         \"Correlation\"\r\n{}\r\n\"Count Rate\"\r\n   1.17188\t  26.77194\r\n   2.34375\t  26.85045\r\n\r\n\
         Monitor Diode\t 12.5\r\n\r\n\"StandardDeviation\"\r\n{}",
        rows("  ", 1e-3, 1.0, &[3]),
        rows("  ", 1e-3, 1.0, &[1]),
    )
}

/// ALV-5000, two channels, runs and their average of each.
fn alv_runs() -> String {
    format!(
        "ALV-5000/E-WIN Data\r\nMode :\t\"DUAL AUTO CH0, CH1\"\r\n\"Correlation (Multi, Averaged)\"\r\n\"Lag [ms]\"\t\"Average CH0\"\t\"Run 1\"\t\
         \"Average CH1\"\t\"Run 2\"\t\r\n{}\r\n\"Count Rate\"\r\n  1.0\t 20\t 30\r\n  2.0\t 21\t 31\r\n",
        rows("  ", 1e-3, 1.0, &[1, 2, 3, 4]),
    )
}

/// ConfoCor 3: two detectors, both ways between them, and an average that is empty.
fn zeiss() -> String {
    let mut text = String::from(
        "Carl Zeiss ConfoCor3 - measurement data file - version 3.0 ANSI\r\nBEGIN FcsData 30000\r\n\tName = \u{b5}M\r\n\tNumberFcsEntries = 5\r\n",
    );
    let detectors = [
        "Auto-correlation detector Ch1",
        "Auto-correlation detector Ch2",
        "Cross-correlation detector Ch1 versus detector Ch2",
        "Cross-correlation detector Ch2 versus detector Ch1",
    ];
    for (entry, channel) in detectors.iter().chain(&detectors[..1]).enumerate() {
        let count = if entry == 4 { 0 } else { 24 };
        let _ = write!(
            text,
            "BEGIN FcsEntry{} 10000\r\n\tBEGIN FcsDataSet1 20000\r\n\t\tAcquisitionTime = {}\r\n\t\tChannel = {channel}\r\n",
            entry + 1,
            1 + entry / 4,
        );
        if entry < 2 {
            text += "\t\tCountRateArray = 2 2\r\n\t\t\t0.001\t12000\r\n\t\t\t0.002\t12500\r\n";
        }
        let _ = write!(
            text,
            "\t\tCorrelationArraySize = {count}\r\n\t\tCorrelationArray = {count} 2\r\n"
        );
        if count > 0 {
            text += &rows("\t\t\t", 1.0, 0.0, &[entry + 1]);
        }
        text += "\tEND\r\nEND\r\n";
    }
    text + "END\r\n"
}

/// Correlator.com, with lags of no measurement at the end.
fn sin(mode: &str, curves: &[usize]) -> String {
    format!(
        "FLXA\r\nVersion= 1d\r\n\r\n[Parameters]\r\nRunningTime= 60\r\nMode= {mode}\r\n\r\n[CorrelationFunction]\r\n{}1.0{}\r\n\r\n\
         [RawCorrelationFunction]\r\n1.0\t5\r\n\r\n[IntensityHistory]\r\nTraceNumber= 2\r\n0.0\t9.6e3\t9.7e3\r\n0.2\t9.5e3\t9.6e3\r\n\r\n\
         [Histogram]\r\n1\t2\r\n",
        rows("", 1.0, 0.0, curves),
        "\t0.0".repeat(curves.len()),
    )
}

/// A file's name, its text, and the names and numbers of its curves.
type Made = (&'static str, String, Vec<(&'static str, usize)>);

/// PyCorrFit, with a trace.
fn pycorrfit(rows: &str) -> String {
    let heading = "# Channel (tau [s])\tExperimental correlation";
    format!(
        "# Type AC/CC: Autocorrelation\n{heading}\n{rows}# BEGIN TRACE\n# Time [s]\n0\t5\n1\t6\n"
    )
}

/// Files of every kind.
fn files() -> Vec<Made> {
    let two = |text: String| format!("# tau [s]\tg\nlag,g\n{}", text.replace('\t', ", "));
    vec![
        ("two.csv", two(rows("", 1.0, 0.0, &[2])), vec![("curve", 2)]),
        ("pycorrfit.csv", pycorrfit(&rows("", 1.0, 1.0, &[2])), vec![("curve", 2)]),
        ("three.txt", rows(" ", 1.0, 0.0, &[2, 1]), vec![("curve", 2)]),
        ("single.asc", alv_single(), vec![("curve", 3)]),
        (
            "runs.asc",
            alv_runs(),
            vec![("Average_CH0", 1), ("Run_1", 2), ("Average_CH1", 3), ("Run_2", 4)],
        ),
        (
            "zeiss.fcs",
            zeiss(),
            vec![("auto_Ch1", 1), ("auto_Ch2", 2), ("cross_Ch1_Ch2", 3), ("cross_Ch2_Ch1", 4)],
        ),
        ("single.sin", sin("Single Auto", &[2]), vec![("curve", 2)]),
        (
            "quad.sin",
            sin("0\t0\t1\t1\t0\t1\t1\t0", &[1, 2, 3, 4]),
            vec![("0_0", 1), ("1_1", 2), ("0_1", 3), ("1_0", 4)],
        ),
    ]
}

fn write(folder: &Path) {
    for (name, text, _) in files() {
        // Letters as instruments' programs write them.
        let bytes: Vec<u8> = text.chars().map(|letter| letter as u32 as u8).collect();
        fs::write(folder.join(name), bytes).unwrap();
    }
}

#[test]
fn files_of_other_programs_are_read() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    for (name, _, expected) in files() {
        let found = curves::read(&folder.path().join(name)).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, expected.iter().map(|of| of.0).collect::<Vec<_>>(), "{name}");
        for ((_, Curve { lags, values, errors }), &(_, number)) in found.iter().zip(&expected) {
            assert_eq!(lags.len(), 24, "{name}");
            for (point, (lag, g)) in made(number).into_iter().enumerate() {
                assert!((lags[point] / lag - 1.0).abs() < 1e-8, "{name}: lag {}", lags[point]);
                assert!((values[point] - g).abs() < 1e-8, "{name}: {} at {lag}", values[point]);
            }
            match name {
                "three.txt" => assert!((errors[0] - made(1)[0].1).abs() < 1e-8),
                "single.asc" => assert!((errors[0] - (made(1)[0].1 - 1.0)).abs() < 1e-8),
                _ => assert!(errors.is_empty(), "{name}"),
            }
        }
    }
}

#[test]
fn faults_have_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad");
    let says = |text: &str, expected: &str| {
        // Letters are bytes.
        fs::write(&path, text.chars().map(|letter| letter as u8).collect::<Vec<_>>()).unwrap();
        let error = curves::read(&path).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}: expected {expected}");
    };
    says("", "no line of numbers");
    says("\u{93}NUMPY", "a NumPy file: expected a table of curves in text");
    says("##JCAMP-DX=5.00\n##XYDATA=(X++(Y..Y))\n1 2\n", "JCAMP-DX, which is not read");
    says("words\n", "line 1 is \"words\": expected a table of curves");
    says("words\nmore\n", "line 1 is \"words\"");
    says("1e-6 1.5\n2e-6 x\n", "line 2 is \"2e-6 x\": expected numbers");
    says("1e-6 1.5\n2e-6 1.4 3\n", "line 2 is \"2e-6 1.4 3\": expected 2 numbers");
    says("1e-6\n", "expected a lag and one value or more");
    says("1 2 3 4\n", "a standard error at the most".trim_start_matches("a "));
    says("2e-6 1.5\n1e-6 1.4\n", "a lag of 1e-6 s after 2e-6 s: expected lags that ascend");
    says("-1 1.5\n1e-6 1.4\n", "a lag of -1 s");
    says("1 inf\n", "a value of inf");
    says("# Channel (tau [s])\n1 2\nx\n# BEGIN TRACE\n0 1\n", "line 3 is \"x\": expected numbers");
    says("1 nan\n", "a curve without a value");
    says(&"1 2\n".repeat(70_000), "more than 65536 lags");
    says("ALV-6000/E-WIN Data\n", "no section \"Correlation\"");
    says("ALV-6000/E-WIN Data\n\"Correlation\"\n\n", "no lags in \"Correlation\"");
    says("ALV-6000/E-WIN Data\n\"Correlation\"\n1 0\n2 0\n", "a correlation of zeros alone");
    says("Carl Zeiss ConfoCor3\n", "no CorrelationArray that is not empty");
    says(
        "Carl Zeiss ConfoCor3\nCorrelationArray = 3 2\n1 2\n",
        "line 2 is \"CorrelationArray = 3 2\"",
    );
    says(
        "Carl Zeiss ConfoCor3\nCorrelationArray = 99999999999999999999 2\n",
        "numbers of rows and columns",
    );
    says("Carl Zeiss ConfoCor3\nCountRateArray = 18446744073709551615 2\n", "no CorrelationArray");
    says("[CorrelationFunction]\n", "no lags in [CorrelationFunction]");
    says("[CorrelationFunction]\n1 0\n2 0\n", "a curve without a value");
}

/// PyCorrFit's readers find the same curves.
#[test]
fn pycorrfit_finds_the_same_curves() {
    let Some(python) = witness::python(&["pycorrfit==1.3.1"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    // It takes the first letters for UTF-8.
    fs::write(folder.path().join("zeiss.fcs"), zeiss().replace('\u{b5}', "u")).unwrap();
    let mut cases = Vec::new();
    // PyCorrFit does not read tables of other programs, and puts all points of several runs into each curve.
    let others = ["two.csv", "three.txt", "runs.asc"];
    for (name, ..) in files().into_iter().filter(|(name, ..)| !others.contains(name)) {
        let found = curves::read(&folder.path().join(name)).unwrap();
        let found = found.into_iter().map(|(_, curve)| json!([curve.lags, curve.values]));
        cases.push(json!({"file": name, "curves": found.collect::<Vec<_>>()}));
    }
    fs::write(folder.path().join("cases.json"), json!(cases).to_string()).unwrap();
    println!("{}", witness::script(&python, "curves.py", &[folder.path().to_str().unwrap()]));
}
