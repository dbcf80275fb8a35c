//! `corrust plan`: what it computes, refuses, and what docs/scaling.md says of it.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

/// Runs a line of a shell, and returns the exit code and what was printed.
fn shell(line: &str) -> (Option<i32>, String, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_corrust")).parent().unwrap();
    let search = std::env::var_os("PATH").unwrap_or_default();
    let search = [binary.to_path_buf()].into_iter().chain(std::env::split_paths(&search));
    let done = Command::new("sh")
        .args(["-e", "-c", line])
        .env("PATH", std::env::join_paths(search).unwrap())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (done.status.code(), text(&done.stdout), text(&done.stderr))
}

/// A run that succeeds.
fn done(line: &str) -> String {
    let (code, out, err) = shell(line);
    assert_eq!((code, &err[..]), (Some(0), ""), "{line}: {out}");
    out
}

#[test]
fn the_page_says_what_the_command_does() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/scaling.md");
    let text = fs::read_to_string(page).unwrap();
    let block = |fence: &str, which: usize| {
        let rest = text.split(fence).nth(which).unwrap();
        rest.split_once("\n```").unwrap().0
    };
    let printed = done(block("\n```sh\n", 1));
    assert_eq!(
        block("\n```text\n", 1),
        printed.trim_end(),
        "expected in docs/scaling.md:\n{printed}"
    );
    let printed = done(block("\n```sh\n", 2));
    let table = text.split_once("|---|\n").unwrap().1.split_once("\n\n").unwrap().0;
    assert_eq!(table, printed.trim_end(), "expected in docs/scaling.md:\n{printed}");
}

/// A row of a record: a correlation of `inputs` inputs at `tops`.
fn correlation(inputs: u64, tops: f64, limit: &str) -> Value {
    json!({
        "system": "correlate", "case": "ci8", "sizes": {"N": inputs, "C": 8, "T": 64}, "encoding": "ci8",
        "kernel": "k", "auto": true, "what": "from tcn", "host_clock": false, "build": null,
        "useful_operations": 1.0, "bytes": 1.0, "item": "matrices", "items": 1.0,
        "seconds": {"median": 1.0, "lower": 1.0, "upper": 1.0, "least": 1.0, "most": 1.0, "count": 1},
        "useful_tops": tops, "gigabytes_per_second": 1.0, "items_per_second": 4e9,
        "limit": {"limit": limit, "share": 0.5}, "sustained": null
    })
}

/// A limit of `rate` bytes a second.
fn limit(name: &str, rate: f64) -> Value {
    let mut row = correlation(0, 0.0, "");
    row["system"] = json!("limits");
    row["kernel"] = json!(name);
    row["useful_operations"] = json!(0.0);
    row["bytes"] = json!(rate);
    row
}

/// Writes a record of an easy GPU, and returns what `arguments` of it print.
fn planned(folder: &Path, f_engine: bool, arguments: &str) -> String {
    let mut rows = vec![
        correlation(100, 100.0, "device copy"),
        correlation(400, 300.0, "wgmma s8"),
        limit("host to device", 5e10),
        limit("device to host", 4e10),
    ];
    // Along the beams of 500 dishes, and along the dishes of 100 beams.
    for (dishes, beams, tops) in
        [(500, 50, 100.0), (500, 100, 200.0), (500, 200, 300.0), (250, 100, 160.0)]
    {
        let mut row = correlation(0, tops, "wgmma s8");
        row["system"] = json!("beamform");
        row["what"] = json!("kernel");
        row["sizes"] = json!({"D": dishes, "B": beams});
        rows.push(row);
    }
    if f_engine {
        let mut row = correlation(100, 1.0, "device copy");
        row["system"] = json!("channelise");
        row["what"] = json!("kernel");
        rows.push(row);
    }
    let machine = json!({
        "device": "an easy GPU", "compute_capability": null, "multiprocessors": null, "driver": null, "cuda": null,
        "power_limit": null, "max_sm_mhz": null, "max_memory_mhz": null, "cpu": "", "threads": 1, "date": "",
        "version": "", "commit": "", "compiler": ""
    });
    let path = folder.join("record.json");
    fs::write(&path, json!({"machine": machine, "rows": rows}).to_string()).unwrap();
    done(&format!("corrust plan --record {} {arguments}", path.display()))
}

fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn rates_are_those_of_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let row = |arguments: &str| planned(folder.path(), true, &format!("--row X {arguments}"));
    // 8 x 5050 x 1e9 operations of 1e14, 2e11 bytes of 5e10 and of 2.5e10, four fifths of each.
    let found = row("--inputs 100 --bandwidth 1GHz --network 200Gb/s");
    assert_eq!(
        cells(&found),
        [
            "X", "100", "1.00 GHz", "ci8", "200 GB/s", "0.404", "-", "8.00", "4.00", "**10**",
            "network"
        ]
    );
    // Half way, on the scale of factors; half of the bytes, and PCIe as slow as the network.
    let found = row("--inputs 200 --bandwidth 1GHz --network 50GB/s --load 100");
    assert_eq!(cells(&found)[5..], ["0.804", "-", "8.00", "8.00", "**8**", "PCIe"]);
    // Above and below the measured sizes: a fifth of the inputs, a fifth of the rate.
    assert_eq!(cells(&row("--inputs 4000 --bandwidth 1MHz"))[5], "0.213");
    assert_eq!(cells(&row("--inputs 20 --bandwidth 1GHz"))[5], "0.0840");
    // 2e11 real samples of 2 bits, which the F-engine makes 4e9 a second of.
    let found = row("--inputs 100 --bandwidth 1GHz --channelise --raw-bits 2 --load 100");
    assert_eq!(
        cells(&found)[4..],
        ["50.0 GB/s", "0.404", "50.0", "1.00", "1.00", "**51**", "memory"]
    );
    let found = planned(
        folder.path(),
        false,
        "--inputs 400 --bandwidth 1kHz --channels 1000000 --dump 1ms",
    );
    assert!(found.contains("\ndumps "), "{found}");
    assert!(found.ends_with("dumps binds, by PCIe\n"), "{found}");
}

#[test]
fn beams_take_their_part() {
    let folder = tempfile::tempdir().unwrap();
    let load = |arguments: &str, name: &str| {
        let printed = planned(folder.path(), false, &format!("--json {arguments}"));
        let plan: Value = serde_json::from_str(&printed).unwrap();
        let loads = plan["loads"].as_array().unwrap().clone();
        loads.into_iter().find(|load| load["name"] == name)
    };
    let near = |found: &Value, expected: f64| {
        let found = found.as_f64().unwrap();
        assert!((found / expected - 1.0).abs() < 1e-12, "{found}: expected {expected}");
    };
    let only = "--bandwidth 1GHz --bits 4 --beams-only";
    let found = load(&format!("--inputs 1000 {only} --beams 100"), "beams").unwrap();
    near(&found["needed"], 8e14);
    near(&found["a_gpu_gives"], 2e14);
    assert_eq!(found["binds"], "tensor cores");
    // Four fifths as quick with half of the dishes.
    let found = load(&format!("--inputs 500 {only} --beams 200"), "beams").unwrap();
    near(&found["a_gpu_gives"], 0.8 * 3e14);
    // Above and below what was measured: as the largest, and as many beams fewer.
    let found = load(&format!("--inputs 1000 {only} --beams 1000"), "beams").unwrap();
    near(&found["a_gpu_gives"], 3e14);
    let found = load(&format!("--inputs 1000 {only} --beams 25"), "beams").unwrap();
    near(&found["a_gpu_gives"], 5e13);
    // One polarisation has as many dishes as inputs; a byte leaves for each sample of a beam.
    let one = format!("--inputs 250 --polarisations 1 {only} --beams 100");
    near(&load(&one, "beams").unwrap()["a_gpu_gives"], 1.6e14);
    let found = load(&one, "beams out").unwrap();
    near(&found["needed"], 1e11);
    near(&found["gpus"], 2.5);
    assert!(load(&one, "correlation").is_none());
    let printed = planned(folder.path(), false, &one);
    assert!(printed.contains(", 100 beams alone, on an easy GPUs"), "{printed}");
    // Predicted, where there is no record.
    let printed = done(&format!("corrust plan --inputs 64 --beams 16 --gpu a40 {only} --json"));
    let plan: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&plan["beams"], &plan["loads"][0]["name"]), (&json!(16), &json!("beams")));
    let given = plan["loads"][0]["a_gpu_gives"].as_f64().unwrap();
    assert!((1e12..3e14).contains(&given), "{printed}");
}

#[test]
fn bad_input_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    planned(folder.path(), false, "--inputs 1 --bandwidth 1MHz");
    let record = folder.path().join("record.json");
    let (record, ok) = (record.display(), "--inputs 8 --bandwidth 1MHz");
    let none = folder.path().join("none.json");
    fs::write(&none, "{}").unwrap();
    for (arguments, expected) in [
        ("--inputs 0 --bandwidth 1MHz".to_owned(), "--inputs 0: expected at least 1"),
        (
            "--inputs 18446744073709551615 --bandwidth 1MHz".into(),
            "--inputs 18446744073709551615: expected at most 16777216",
        ),
        (format!("{ok} --channels 8 --dump 1e-320s"), "expected a positive number with ns"),
        ("--inputs 8 --bandwidth fast".into(), "expected a positive number with Hz, kHz"),
        ("--inputs 8 --bandwidth 400".into(), "as in 800MHz"),
        (format!("{ok} --bits 5"), "--bits 5: expected 4 (ci4), 8 (ci8) or 16 (cf16)"),
        (format!("{ok} --beams 0"), "--beams 0: expected 1 to 65536"),
        (format!("{ok} --beams 8"), "--bits 8: expected 4 with --beams"),
        (format!("{ok} --beams 8 --bits 4 --polarisations 3"), "expected a divisor of 8 inputs"),
        (format!("{ok} --beams-only"), "--beams"),
        (format!("{ok} --row X --beams 8"), "--row"),
        (format!("{ok} --load 101"), "--load 101: expected more than 0 and at most 100 %"),
        (format!("{ok} --network 4"), "expected a positive number with Gb/s or GB/s"),
        (format!("{ok} --raw-bits 2"), "--channelise"),
        (format!("{ok} --channels 8"), "--dump"),
        (format!("{ok} --record nothing.json"), "nothing.json: cannot read"),
        (
            format!("{ok} --record {}", none.display()),
            "expected a record of `corrust bench --json`",
        ),
        (format!("{ok} --record {record} --bits 4"), "has no correlation of ci4 from tcn"),
        (
            format!("{ok} --record {record} --channelise"),
            "has no F-engine (corrust bench channelise)",
        ),
    ] {
        let (code, out, err) = shell(&format!("corrust plan {arguments}"));
        assert_eq!((code, &out[..]), (Some(2), ""), "{arguments}: {err}");
        assert!(err.starts_with("error: ") && err.lines().count() == 1, "{arguments}: {err}");
        assert!(err.contains(expected), "{arguments}: {err}");
    }
}
