//! `corrust qualify`: verdicts, reports, and kernels that are wrong.

use std::{fs, path::Path};

use serde_json::Value;

use crate::support::command::{corrust, done, refused};

fn report(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Verdicts of a report, by requirement.
fn verdicts(report: &Value) -> Vec<(&str, &str)> {
    let results = report["results"].as_array().unwrap().iter();
    results
        .map(|each| (each["id"].as_str().unwrap(), each["finding"]["verdict"].as_str().unwrap()))
        .collect()
}

const BROKEN: &str = "killed,full-disk,lost-packets";

#[test]
fn a_cpu_is_judged_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let exact = "exact-correlate,exact-beamform,exact-autocorrelate,same-channelise,deterministic";
    done(folder, &format!("qualify --device cpu --only {exact} -o a.html"));
    let said =
        done(folder, &format!("qualify --device cpu --only {BROKEN} -o b.html --submit b.md"));
    assert!(said.contains("3 requirements: "), "{said}");
    assert!(said.contains("b.md: the text of an issue; please attach b.json"), "{said}");

    let (a, b) = (report(&folder.join("a.json")), report(&folder.join("b.json")));
    for (of, count) in [(&a, 5), (&b, 3)] {
        let verdicts = verdicts(of);
        assert_eq!(verdicts.len(), count);
        assert!(verdicts.iter().all(|(_, verdict)| *verdict == "passed"), "{verdicts:?}");
    }
    // Every implementation that this CPU has ran.
    let kernels = a["results"][0]["finding"]["rows"].as_array().unwrap();
    assert!(kernels.iter().any(|row| row[0] == "cpu-portable"), "{kernels:?}");
    let issue = fs::read_to_string(folder.join("b.md")).unwrap();
    assert!(issue.contains("| lost-packets | passed |"), "{issue}");

    done(folder, "qualify a.json --compare b.json -o both.html");
    let page = fs::read_to_string(folder.join("both.html")).unwrap();
    assert!(page.contains("the other"));
    assert!(
        !page.contains("http://") && !page.contains("https://"),
        "the page refers to a network"
    );
    assert!(page.contains("exact-correlate") && page.contains("</html>"));
}

#[test]
fn a_wrong_kernel_fails() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // `few`, of whose sums the largest stays where all are to be added.
    let ptx =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("gpu/ptx/sm_80/correlate_few_tcn_s8_16.ptx");
    let text = fs::read_to_string(ptx).unwrap();
    let wrong = text.replace("red.global.add.u32", "red.global.max.u32");
    assert_ne!(text, wrong);
    fs::write(folder.join("wrong.ptx"), wrong).unwrap();
    let output = corrust(folder, "qualify --device sim --only exact-correlate --ptx wrong.ptx");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("1 failed"), "{said}");
    let report = report(&folder.join("qualification.json"));
    assert_eq!(verdicts(&report), [("exact-correlate", "failed")]);
    let text = report["results"][0]["finding"]["text"].as_str().unwrap();
    assert!(text.contains("seed"), "{text}");
}

#[test]
fn bad_input_gets_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("x.json"), "{}").unwrap();
    for (arguments, sentence) in [
        ("--minutes=-1", "--minutes: expected 0 to 10080, found -1"),
        ("--minutes nan", "--minutes: expected 0 to 10080, found NaN"),
        ("--only speeed", "--only speeed: expected some of exact-correlate, "),
        ("-o report.pdf", "report.pdf: "),
        ("x.json", "x.json: expected a report of `corrust qualify`: missing field"),
        ("absent.json", "absent.json: cannot read"),
        ("--compare x.json -o x.html", "x.json: is an input"),
    ] {
        let error = refused(folder, &format!("qualify {arguments}"));
        assert!(error.contains(sentence) && error.lines().count() == 1, "{arguments}: {error}");
    }
    assert_eq!(fs::read_to_string(folder.join("x.json")).unwrap(), "{}");
}
