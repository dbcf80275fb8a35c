//! `corrust bench`: what it prints, writes, compares and refuses. Measured times are its own affair; that
//! answers are checked and that slower kernels are found are this file's.

use std::{fs, path::Path};

use corrust_gpu::{abi::ENTRIES, ptx};
use serde_json::Value;

use crate::support::{
    command::{self, done},
    device, tier,
};

fn corrust(folder: &Path, arguments: &str) -> (Option<i32>, String) {
    let output = command::corrust(folder, arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}

#[track_caller]
fn refused(folder: &Path, arguments: &str, reason: &str) {
    let text = command::refused(folder, arguments);
    assert!(text.contains(reason), "{arguments}: {text}");
}

/// A quick run of a system that the CPU computes.
const QUICK: &str = "bench correlate --device cpu --inputs 5 --channels 2 --times 64 --encoding ci8,cf16 \
                     --repeats 3";

/// A record whose every time is its row's median multiplied: without the spread that other work on the machine
/// gives, a comparison has one answer.
fn steady(record: &Value, factor: f64) -> Value {
    let mut record = record.clone();
    for row in record["rows"].as_array_mut().unwrap() {
        let median = row["seconds"]["median"].as_f64().unwrap();
        for (name, value) in row["seconds"].as_object_mut().unwrap() {
            if name != "count" {
                *value = (median * factor).into();
            }
        }
    }
    record
}

fn read(folder: &Path, record: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join(record)).unwrap()).unwrap()
}

fn write(folder: &Path, name: &str, record: &Value) {
    fs::write(folder.join(name), record.to_string()).unwrap();
}

#[test]
fn a_run_on_the_cpu_is_recorded_with_its_machine() {
    let folder = tempfile::tempdir().unwrap();
    let text = done(folder.path(), &format!("{QUICK} --json r.json"));
    assert!(text.contains("cpu-portable"), "{text}");
    let record = fs::read_to_string(folder.path().join("r.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    for fact in ["device", "cpu", "date", "commit", "compiler", "version"] {
        assert!(record["machine"][fact].as_str().is_some_and(|fact| !fact.is_empty()), "{fact}");
    }
    let head = std::process::Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "HEAD"])
        .output();
    if let Some(head) = head.ok().filter(|head| head.status.success()) {
        let commit = record["machine"]["commit"].as_str().unwrap();
        assert!(String::from_utf8_lossy(&head.stdout).starts_with(commit), "{commit}");
    }
    let rows = record["rows"].as_array().unwrap();
    for encoding in ["ci8", "cf16"] {
        for what in ["kernel", "from tcn"] {
            let found = rows.iter().find(|row| {
                (&row["encoding"], &row["what"]) == (&encoding.into(), &what.into())
                    && row["auto"] == true
            });
            let row = found.unwrap_or_else(|| panic!("{encoding} {what}"));
            // 8 N (N + 1) / 2 C T.
            assert_eq!(row["useful_operations"], 8.0 * 15.0 * 2.0 * 64.0);
            let (seconds, tops) = (&row["seconds"]["median"], &row["useful_tops"]);
            let expected = 8.0 * 15.0 * 2.0 * 64.0 / seconds.as_f64().unwrap() * 1e-12;
            assert!((tops.as_f64().unwrap() / expected - 1.0).abs() < 1e-9);
            assert_eq!(row["seconds"]["count"], 3);
        }
    }
}

#[test]
fn without_a_gpu_the_cpu_is_measured_and_it_is_said() {
    if corrust::device::cuda::count().is_ok() {
        println!("skipped: there is a GPU");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let quick = QUICK.replace("--device cpu", "");
    let text = done(folder.path(), &quick);
    assert!(text.contains("no CUDA device") && text.contains("CPU backends"), "{text}");
    let text = done(folder.path(), "bench limits");
    assert!(text.contains("CPU backends"), "{text}");
}

#[test]
fn what_got_slower_than_a_record_is_named_and_the_code_is_1() {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), &format!("{QUICK} --json now.json"));
    let now = read(folder.path(), "now.json");
    write(folder.path(), "now.json", &steady(&now, 1.0));
    let text = done(folder.path(), "bench report now.json --against now.json");
    assert!(text.contains("all the same within the noise"), "{text}");

    // Times of a record that did the same in a third, and in three times the time.
    write(folder.path(), "before.json", &steady(&now, 1.0 / 3.0));
    let (code, text) = corrust(folder.path(), "bench report now.json --against before.json");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("slower: correlate, ci8, N 5, C 2, T 64"), "{text}");
    assert!(text.contains("+200.0 %") && !text.contains("quicker:"), "{text}");
    write(folder.path(), "before.json", &steady(&now, 3.0));
    let text = done(folder.path(), "bench report now.json --against before.json");
    assert!(text.contains("quicker:") && !text.contains("slower:"), "{text}");
}

/// A shipped kernel.
fn shipped(name: &str) -> &'static str {
    ptx::of_entry(ENTRIES.iter().find(|entry| entry.name == name).unwrap())
}

/// A kernel that counts to `turns` before it begins, with a barrier at each, as the assembler leaves out
/// loops that do nothing.
fn slowed(kernel: &str, turns: u32) -> String {
    let spin = format!(
        "\n{{\n{{ .reg .b32 %turns; .reg .pred %more; mov.b32 %turns, {turns};\n\
         SPIN: bar.warp.sync 0xffffffff; sub.u32 %turns, %turns, 1; setp.ne.u32 %more, %turns, 0; @%more bra SPIN; }}\n"
    );
    kernel.replacen("\n{\n", &spin, 1)
}

/// Measures a kernel beside its slowed form; what the command printed of them, and the record.
fn beside_slowed(folder: &Path, device: &str, sizes: &str, turns: u32) -> (String, Value) {
    let ptx = slowed(shipped(SLOWED), turns);
    fs::write(folder.join("slow.ptx"), ptx).unwrap();
    let bench = format!("bench reorder --device {device} --encoding ci8 --sustain 0 {sizes}");
    // Other kernels may well seem slower on a busy machine.
    let (code, text) = corrust(folder, &format!("{bench} --against slow.ptx --json both.json"));
    assert!(matches!(code, Some(0 | 1)), "{text}");
    (text, read(folder, "both.json"))
}

const SLOWED: &str = "reorder_tcn_words_ci8";

/// Whether a comparison says `word` of the kernel that was slowed.
fn flagged(text: &str, word: &str) -> bool {
    let case = format!("{word}: reorder, ci8 tcn");
    text.lines().any(|line| line.contains(&case) && line.contains("tcn-words-ci8"))
}

/// The slowed build alone against this one: records as two runs would have written them.
fn judge_slowed_record(folder: &Path, both: &Value) {
    let of_build = |build: Value| {
        let mut record = steady(both, 1.0);
        let rows = record["rows"].as_array_mut().unwrap();
        rows.retain(|row| row["build"] == build);
        rows.iter_mut().for_each(|row| row["build"] = Value::Null);
        record
    };
    write(folder, "slow.json", &of_build("slow.ptx".into()));
    write(folder, "now.json", &of_build(Value::Null));
    let (code, text) = corrust(folder, "bench report slow.json --against now.json");
    assert_eq!(code, Some(1), "{text}");
    assert!(flagged(&text, "slower") && !flagged(&text, "quicker"), "{text}");
}

#[test]
fn predictions_beside_other_ptx_are_of_its_kernels_alone() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["correlate_mma_s8_64", "reorder_gather"] {
        fs::write(folder.path().join(format!("{name}.ptx")), shipped(name)).unwrap();
    }
    let bench = "bench correlate --device model:a100 --inputs 64 --channels 4 --times 512 --encoding ci8,ci4 \
                 --json rows.json --against";
    let text = done(folder.path(), &format!("{bench} correlate_mma_s8_64.ptx"));
    let rows = fs::read_to_string(folder.path().join("rows.json")).unwrap();
    let rows: Value = serde_json::from_str(&rows).unwrap();
    // Beside limits of the chip.
    let rows = rows["rows"].as_array().unwrap().iter();
    let rows: Vec<&Value> = rows.filter(|row| row["system"] == "correlate").collect();
    let of_other = rows.iter().filter(|row| row["build"] == "correlate_mma_s8_64.ptx").count();
    assert!(of_other > 0 && 2 * of_other == rows.len(), "{text}");
    assert!(rows.iter().all(|row| row["kernel"] == "mma-64"), "{text}");
    let text = done(folder.path(), &format!("{bench} reorder_gather.ptx"));
    assert!(text.contains("no case launches its kernels"), "{text}");
}

#[test]
fn a_slowed_kernel_is_flagged_on_sim() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = "--inputs 8 --times 33 --repeats 3";
    let (text, both) = beside_slowed(folder.path(), "sim", sizes, 10_000);
    assert!(text.contains("measurements compared") && !flagged(&text, "slower"), "{text}");
    // A hundred times as long on an idle machine.
    let median = |build: Value| {
        let rows = both["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["kernel"] == "tcn-words-ci8" && row["build"] == build);
        row.unwrap()["seconds"]["median"].as_f64().unwrap()
    };
    assert!(median("slow.ptx".into()) > 3.0 * median(Value::Null), "{text}");
    judge_slowed_record(folder.path(), &both);
}

#[test]
fn a_slowed_kernel_is_flagged_on_cuda() {
    if device::there("cuda", corrust::device::cuda::count()).is_some() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = "--inputs 256 --repeats 5";
        let (text, both) = beside_slowed(folder.path(), "cuda", sizes, 4_000);
        assert!(flagged(&text, "quicker") && !flagged(&text, "slower"), "{text}");
        judge_slowed_record(folder.path(), &both);
    }
}

#[test]
fn kernels_that_the_environment_names_take_the_place_of_those_shipped() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = shipped("limits_multiply_add").replace("mad.lo.u32", "mad.hi.u32");
    fs::write(folder.path().join("wrong.ptx"), wrong).unwrap();
    let run = |ptx: &str, device: &str| {
        let limits = "bench limits --limit integer-multiply-add --repeats 1 --device ";
        let mut command = command::command(folder.path(), &(limits.to_owned() + device));
        let output = command.env("CORRUST_PTX", ptx).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run("", "sim").0, Some(0));
    let (code, text) = run("wrong.ptx", "sim");
    assert!(code == Some(2) && text.contains("integer multiply-add, limit"), "{text}");
    let (code, text) = run("missing.ptx", "sim");
    assert!(code == Some(2) && text.starts_with("error: CORRUST_PTX: missing.ptx: "), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn a_wrong_answer_is_no_measurement() {
    let folder = tempfile::tempdir().unwrap();
    // High halves of products instead of low ones; another operand of the tensor cores; a copy of
    // something else.
    for (kernel, from, to, name) in [
        ("limits_multiply_add", "mad.lo.u32", "mad.hi.u32", "integer multiply-add"),
        ("limits_shuffle", "shfl.sync.idx", "shfl.sync.bfly", "shuffle"),
        ("limits_mma_s8", "s32.s8.s8.s32", "s32.u8.s8.s32", "mma.sync s8"),
        ("limits_wgmma_b1", "popc", "popc", "wgmma b1"),
        ("limits_copy", "st.global.v4.u32", "// st.global.v4.u32", "device copy"),
    ] {
        let ptx = if from == to {
            // A multiplication that is left out.
            shipped(kernel).replacen("wgmma.mma_async", "// wgmma.mma_async", 1)
        } else {
            shipped(kernel).replace(from, to)
        };
        assert_ne!(ptx, shipped(kernel), "{kernel}");
        fs::write(folder.path().join("wrong.ptx"), ptx).unwrap();
        let limit = name.replace(' ', "-");
        let bench = "bench limits --device sim --repeats 1 --against wrong.ptx --limit ";
        refused(folder.path(), &(bench.to_owned() + &limit), &format!("limits {name}, limit"));
    }
}

#[test]
fn every_limit_and_every_system_is_checked_on_sim() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &str| {
        done(folder.path(), &format!("bench {arguments} --device sim --repeats 1"))
    };
    // Most of the work, in which the quick tier would find nothing that a limit's own tests do not.
    let text = if tier::full() { run("limits") } else { String::new() };
    for limit in [
        "wgmma s8",
        "wgmma f16",
        "wgmma b1",
        "mma.sync s8",
        "mma.sync s4",
        "mma.sync f16",
        "mma.sync b1",
        "dp4a",
        "integer multiply-add",
        "shuffle",
        "shared memory",
        "device copy",
        "host to device",
        "device to host",
    ] {
        assert!(!tier::full() || text.contains(limit), "{limit}: {text}");
    }
    let text = run("correlate --inputs 9 --channels 2 --times 70");
    assert!(text.contains("from host") && text.contains("wgmma-128"), "{text}");
    assert!(text.contains("masked"), "{text}");
    let text = run("beamform --dishes 17 --beams 5 --times 66");
    assert!(text.contains("from host") && text.contains("mma"), "{text}");
    let text =
        run("beamform --dishes 33 --beams 3 --times 66 --voltages ci8 --output-encoding ci8");
    assert!(text.contains("ci8 by ci8 to ci8") && text.contains("mma"), "{text}");
    let text = run("upchannelise --inputs 33 --channels 2 --times 100 --factors 8,32");
    assert!(text.contains("registers") && text.contains("any"), "{text}");
    let text = run("autocorrelate --sensors 3 --instants 70");
    assert!(text.contains("bin-groups") && text.contains("tensor-cores"), "{text}");
    let text = run("reorder --inputs 7,8 --times 33");
    assert!(text.contains("tcn-words-ci8") && text.contains("pad-rows"), "{text}");
}

/// Rows of the beamformer end in their share of CHORD's real time.
#[test]
fn rows_of_beams_have_their_share_of_real_time() {
    let folder = tempfile::tempdir().unwrap();
    let record = "benches/record/h200/all.json";
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join(record);
    fs::copy(record, folder.path().join("r.json")).unwrap();
    let (code, text) = corrust(folder.path(), "bench report r.json");
    assert_eq!(code, Some(0), "{text}");
    let (_, beams) = text.split_once("D 512, B 96,").unwrap();
    let row = |kernel: &str| {
        let row = beams.lines().find(|row| row.contains(&format!(" {kernel} "))).unwrap();
        row.split_whitespace().last().unwrap().to_owned()
    };
    assert_eq!([row("wgmma"), row("mma")], ["0.484", "1.02"], "{text}");
}

/// The table of a page is the one that the record of its GPU gives.
#[test]
fn the_page_on_performance_has_the_table_of_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = folder.path().join("performance.md");
    fs::copy(root.join("docs/performance.md"), &page).unwrap();
    fs::copy(root.join("benches/record/h200/all.json"), folder.path().join("r.json")).unwrap();
    done(folder.path(), "bench report r.json --page performance.md");
    let expected = fs::read_to_string(root.join("docs/performance.md")).unwrap();
    assert_eq!(fs::read_to_string(page).unwrap(), expected);
}

/// Tables of the page on performance have the figures of the record, wherever it has the case.
#[test]
fn the_page_on_performance_has_the_figures_of_the_record() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/performance.md")).unwrap();
    let record = fs::read_to_string(root.join("benches/record/h200/all.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let rows = record["rows"].as_array().unwrap();
    let row = |system: &str, sizes: &[(&str, &str)], what: &str, encoding: &str, kernel: &str| {
        rows.iter().find(|row| {
            row["system"] == system
                && sizes.iter().all(|(name, size)| row["sizes"][name].as_u64() == size.parse().ok())
                && row["what"] == what
                && row["encoding"] == encoding
                && if kernel == "auto" { row["auto"] == true } else { row["kernel"] == kernel }
        })
    };
    // Rows of the table below a heading, cell by cell without marks.
    let table = |heading: &str| -> Vec<Vec<String>> {
        let (_, below) = page.split_once(heading).unwrap_or_else(|| panic!("no table {heading}"));
        let lines = below.lines().skip(2).take_while(|line| line.starts_with('|'));
        let cells = |line: &str| line.trim_matches('|').split('|').map(plain).collect();
        lines.map(cells).collect()
    };
    let plain_tops = |row: &Value| format!("{:.0}", row["useful_tops"].as_f64().unwrap());
    let mut checked = 0;

    for cells in table("| N, C | `ci8` kernel | from tcn") {
        let sizes = cells[0].split(" (").next().unwrap();
        let (inputs, channels) = sizes.split_once(", ").unwrap();
        let sizes = [("N", inputs), ("C", channels), ("T", "3072")];
        for (cell, encoding, what) in [
            (1, "ci8", "kernel"),
            (2, "ci8", "from tcn"),
            (3, "ci8", "from host"),
            (4, "cf16", "kernel"),
            (5, "cf16", "from tcn"),
            (6, "ci4", "kernel"),
            (7, "ci4", "from tcn"),
        ] {
            let row = row("correlate", &sizes, what, encoding, "auto").unwrap();
            assert_eq!(cells[cell], plain_tops(row), "{sizes:?} {encoding} {what}");
            checked += 1;
        }
    }

    let kernels = ["wgmma-ci4", "wgmma-192", "wgmma-128", "mma-128", "mma-64", "mma-s4"];
    for cells in table("| | `wgmma-ci4` | `wgmma-192`") {
        let case: Vec<_> = cells[0].split(", ").collect();
        let [inputs, channels] = [case[1], case[2]].map(|size| size.split_once(" = ").unwrap().1);
        let sizes = [("N", inputs), ("C", channels), ("T", "3072")];
        for (cell, kernel) in cells[1..].iter().zip(kernels) {
            let tops = row("correlate", &sizes, "kernel", case[0], kernel).map(plain_tops);
            assert_eq!(*cell, tops.unwrap_or_default(), "{} {kernel}", cells[0]);
            checked += 1;
        }
    }

    for cells in table("| D | B | `mma` (sm_80 code)") {
        let sizes = [("D", &*cells[0]), ("B", &*cells[1])];
        for (cell, kernel) in cells[2..4].iter().zip(["mma", "wgmma"]) {
            let Some(row) = row("beamform", &sizes, "kernel", "", kernel) else { continue };
            let (time, tops) = cell.split_once(" ms, ").unwrap();
            let milliseconds = 1e3 * row["seconds"]["median"].as_f64().unwrap();
            assert!((time.parse::<f64>().unwrap() / milliseconds - 1.0).abs() < 5e-3, "{cells:?}");
            assert_eq!(tops.split(' ').next().unwrap(), plain_tops(row), "{cells:?}");
            checked += 1;
        }
    }

    for cells in table("| D | B | voltages from page-locked memory") {
        let sizes = [("D", &*cells[0]), ("B", &*cells[1])];
        for (cell, what) in cells[2..4].iter().zip(["page-locked", "from host"]) {
            let row = row("beamform", &sizes, what, "", "auto").unwrap();
            let expected = format!("{:.1} GB/s", row["gigabytes_per_second"].as_f64().unwrap());
            assert_eq!(*cell, expected, "{cells:?} {what}");
            checked += 1;
        }
    }
    assert!(checked > 90, "{checked} figures");
}

/// A cell of a table without marks of code and weight.
fn plain(cell: &str) -> String {
    cell.trim().replace(['`', '*'], "")
}

/// A record as an H200 could have given it, with all that plots and tables want.
fn synthetic() -> String {
    let times = serde_json::json!({"median": 1e-3, "lower": 1e-3, "upper": 1e-3, "least": 1e-3,
        "most": 1e-3, "count": 7});
    let row = |system: &str, case: &str, encoding: &str, sizes: Value, kernel: &str, tops: f64| {
        let what = if system == "limits" { "limit" } else { "kernel" };
        serde_json::json!({
            "system": system, "case": case, "sizes": sizes, "encoding": encoding,
            "kernel": kernel, "auto": true, "what": what, "host_clock": false, "build": null,
            "useful_operations": tops * 1e9, "bytes": if kernel == "device copy" { 4e9 } else { 1e9 },
            "item": "matrices", "items": 1e5, "seconds": times, "useful_tops": tops,
            "gigabytes_per_second": 1e3, "items_per_second": 1e8,
            "limit": {"limit": "wgmma s8", "share": 0.6},
            "sustained": {"seconds": 1e-3, "useful_tops": tops, "watts": 700.0,
                "useful_tops_per_watt": tops / 700.0, "sm_mhz": 1755.0, "memory_mhz": 3201.0},
        })
    };
    let mut rows = vec![
        row("limits", "wgmma s8", "", serde_json::json!({}), "wgmma s8", 1900.0),
        row("limits", "device copy", "", serde_json::json!({}), "device copy", 0.0),
        row(
            "beamform",
            "D 512, B 96, F 16, P 2, T 32768",
            "",
            serde_json::json!({"D": 512, "B": 96, "F": 16, "P": 2, "T": 32768}),
            "wgmma",
            1400.0,
        ),
    ];
    for (inputs, encoding, kernel, tops) in [
        (256, "ci8", "wgmma-128", 800.0),
        (2048, "ci8", "wgmma-128", 1300.0),
        (2048, "ci4", "wgmma-ci4", 1500.0),
        (2048, "ci4", "packed", 58.0),
        (2048, "ci4", "packed-signed", 90.0),
        (2048, "cf16", "wgmma-128", 700.0),
    ] {
        let sizes = serde_json::json!({"N": inputs, "C": 20, "T": 3072});
        rows.push(row("correlate", &format!("N {inputs}"), encoding, sizes, kernel, tops));
    }
    let sizes = serde_json::json!({"sensors": 1024, "instants": 1 << 20});
    rows.push(row("autocorrelate", "1024 sensors", "", sizes, "bin-groups", 10.0));
    let sizes = serde_json::json!({"N": 256, "C": 20, "T": 3072});
    rows.push(row("reorder", "ci8 tcn, N 256, C 20", "ci8", sizes, "tcn-words-ci8", 0.0));
    serde_json::json!({
        "machine": {"device": "NVIDIA H200", "compute_capability": [9, 0], "multiprocessors": 132,
            "driver": "580.1", "cuda": [13, 0], "power_limit": 700.0, "max_sm_mhz": 1980,
            "max_memory_mhz": 3201, "cpu": "a CPU", "threads": 16, "date": "2026-11-21T00:00:00Z",
            "version": "0.1.0", "commit": "0123456789ab", "compiler": "rustc 1.95.0"},
        "rows": rows,
    })
    .to_string()
}

#[test]
fn a_record_is_drawn_and_fills_a_page() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("r.json"), synthetic()).unwrap();
    fs::write(folder.path().join("P.md"), "before\n<!-- bench -->\nold\n<!-- /bench -->\nafter\n")
        .unwrap();
    done(folder.path(), "bench report r.json --plot f.svg --page P.md");
    let plot = fs::read_to_string(folder.path().join("f.svg")).unwrap();
    for part in ["Performance", "Energy efficiency", "Matrices per second", "Roofline", "TCC int8"]
    {
        assert!(plot.contains(part), "{part}");
    }
    let page = fs::read_to_string(folder.path().join("P.md")).unwrap();
    assert!(page.starts_with("before\n<!-- bench -->\nOn one NVIDIA H200"), "{page}");
    assert!(page.ends_with("<!-- /bench -->\nafter\n") && !page.contains("old"), "{page}");
    assert!(page.contains("| correlate `ci8`, N = 2048 | 1300 TOPS | 60 %"), "{page}");
    assert!(page.contains("540, Tensor-Core Correlator") && page.contains("kotekan"), "{page}");
    // Peers stand beside what is like them.
    assert!(page.contains("540 of int8; 40 of int4, emulated"), "{page}");
    let two = page.lines().find(|line| line.contains("two products an instruction")).unwrap();
    assert!(two.contains("58 TOPS") && two.contains("1.31 times its GPU's, CHIME"), "{two}");
    // Drawing it again changes nothing.
    done(folder.path(), "bench report r.json --page P.md");
    assert_eq!(fs::read_to_string(folder.path().join("P.md")).unwrap(), page);
    // A record that has not all that the table shows leaves it as it is.
    done(folder.path(), &format!("{QUICK} --json other.json"));
    refused(folder.path(), "bench report other.json --page P.md", "P.md: is left as it is: no");
    assert_eq!(fs::read_to_string(folder.path().join("P.md")).unwrap(), page);
}

#[test]
fn what_cannot_be_measured_or_read_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text"), "neither\n").unwrap();
    fs::write(folder.path().join("other.json"), "{\"rows\": 3}\n").unwrap();
    fs::write(folder.path().join("r.json"), synthetic()).unwrap();
    fs::write(folder.path().join("k.ptx"), shipped("limits_copy")).unwrap();
    fs::write(folder.path().join("other.ptx"), ".visible .entry k()\n{\n}\n").unwrap();
    for (arguments, reason) in [
        ("bench correlate --inputs 0", "--inputs: expected 1 or more, found 0"),
        ("bench beamform --times 0", "--times: expected 1 or more, found 0"),
        ("bench autocorrelate --sensors 4,0", "--sensors: expected 1 or more, found 0"),
        (
            "bench correlate --device model:a100 --inputs 99999999999999",
            "--inputs 99999999999999: expected at most 65536",
        ),
        (
            "bench correlate --device cpu --inputs 60000 --times 60000 --channels 60000",
            "samples in all: expected at most",
        ),
        ("bench --repeats 0", "--repeats: expected 1 or more, found 0"),
        ("bench --sustain 61", "--sustain: expected 0 to 60 seconds, found 61"),
        ("bench --sustain NaN", "--sustain: expected 0 to 60 seconds, found NaN"),
        ("bench limits --device cuda:99", "no "),
        (
            "bench limits --device sim --limit wgmma-s9",
            "--limit wgmma-s9: expected some of wgmma-s8,",
        ),
        ("bench limits --against none.json", "none.json: cannot read"),
        ("bench limits --against text", "text: expected a file that --json wrote, or PTX"),
        ("bench limits --against other.json", "other.json: expected a record"),
        ("bench correlate --device cpu --against k.ptx", "k.ptx: its kernels need a GPU"),
        ("bench limits --against other.ptx", "other.ptx: kernel k: expected one that corrust has"),
        ("bench report r.json --against k.ptx", "a report measures nothing"),
        ("bench report r.json --page text", "text: expected the lines <!-- bench -->"),
        ("bench correlate --kernel none", "unknown kernel"),
        (
            "bench correlate --paper romein",
            "--paper romein: chooses what is measured, expected neither",
        ),
        (
            "bench --paper romein --tune t.json",
            "--paper romein: chooses what is measured, expected neither",
        ),
        (
            "bench --paper klages --device sim",
            "times of the simulator mean nothing, expected --device",
        ),
        (
            "bench report r.json --paper klages",
            "--paper klages: draws a record's figures to --plot FILE",
        ),
        ("bench autocorrelate --device cpu --groups 0", "--groups: expected 1 or more, found 0"),
        ("bench autocorrelate --device cpu --sensors 4 --groups 99 --lags 2", "groups"),
        ("bench beamform --device cpu --voltages b1", "b1"),
        ("bench correlate --device cpu --kernel mma-64 --inputs 4", "mma-64"),
    ] {
        refused(folder.path(), arguments, reason);
    }
    assert!(!folder.path().join("f.svg").exists());
}

/// Every paper's figures are drawn of a record that has some of their rows.
#[test]
fn the_figures_of_papers_are_drawn_of_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let record = "benches/record/h200/all.json";
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join(record);
    fs::copy(record, folder.path().join("r.json")).unwrap();
    for (paper, parts) in [
        ("klages", ["packed, without packing", "packed, sums out", "AMD R9 280X"]),
        ("romein", ["xGPU ci8", "ci8, predicted", "(fig. 5)  Generations, N = 2048"]),
        ("falcone", ["AutocorrelationCUDA, this GPU", "10 groups", "bin-groups"]),
        ("sievers", ["computed, optimal step", "the talk", "no results of these sizes"]),
        ("smith", ["shuffles (37)", "ci4 by ci8", "6.30"]),
    ] {
        done(folder.path(), &format!("bench report r.json --paper {paper} --plot {paper}.svg"));
        let plot = fs::read_to_string(folder.path().join(format!("{paper}.svg"))).unwrap();
        for part in parts {
            assert!(plot.contains(part), "{paper}: {part}");
        }
        if paper == "smith" {
            // 512 + 96 bytes of a time: the note's, and those that the simulator counts.
            assert_eq!(plot.matches("\n608\n").count(), 2, "{plot}");
        }
    }
}

/// A model's figures say that they are predicted; named kernels are drawn by their names.
#[test]
fn kernels_that_are_named_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let bench = "bench correlate --device model:a40 --encoding ci4 --inputs 64,128 --channels 2 \
                 --times 64 --kernel packed,packed-signed";
    done(folder.path(), &format!("{bench} --json r.json --plot f.svg"));
    let plot = fs::read_to_string(folder.path().join("f.svg")).unwrap();
    for part in ["ci4 packed", "ci4 packed-signed", "(predicted)"] {
        assert!(plot.contains(part), "{part}");
    }
    done(folder.path(), "bench report r.json --paper klages --plot k.svg");
    let plot = fs::read_to_string(folder.path().join("k.svg")).unwrap();
    for part in ["packed, without packing", "triangles are predictions"] {
        assert!(plot.contains(part), "{part}");
    }
    // Points of predictions are triangles, filled and, of the second value, hollow. Circles are the paper's own point in two
    // panels, and their keys.
    assert!(plot.contains("<polygon") && plot.contains("<polyline"));
    assert_eq!(plot.matches("<circle").count(), 4, "{plot}");
}

/// Groups, lags and encodings that are named are measured, and their answers checked.
#[test]
fn sizes_of_the_papers_are_measured_on_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let quick = "--device cpu --repeats 1 --json r.json";
    let rows = |arguments: &str| -> Vec<Value> {
        done(folder.path(), &format!("{arguments} {quick}"));
        let record = fs::read_to_string(folder.path().join("r.json")).unwrap();
        let record: Value = serde_json::from_str(&record).unwrap();
        record["rows"].as_array().unwrap().clone()
    };
    let linear = rows("bench autocorrelate --sensors 2 --instants 300 --groups 1 --lags 100,200");
    assert_eq!(linear.len(), 2);
    // A multiplication and an addition for every lag of every count.
    assert_eq!(linear[1]["useful_operations"], 2.0 * 200.0 * 2.0 * 300.0);
    assert_eq!(linear[1]["sizes"]["groups"], 1);
    let beams = rows(
        "bench beamform --kernel auto --dishes 8 --beams 4 --times 8 --weights ci8,ci4 --voltages ci4,ci8,cf16",
    );
    let encodings: Vec<&str> = beams.iter().map(|row| row["encoding"].as_str().unwrap()).collect();
    assert_eq!(encodings, ["", "ci4 by ci4", "ci8 by ci8", "ci8 by ci4", "cf16 by cf16"]);
}
