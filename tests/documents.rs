//! The commands that the book shows work: every `sh` block of a page runs, in order, in one folder.

use std::{fs, path::Path, process::Command};

use ndarray::Array2;

/// Runs the `sh` blocks of a page in `folder`.
fn run(page: &str, folder: &Path) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    let text = fs::read_to_string(&path).unwrap();
    let blocks: Vec<&str> = text
        .split("\n```sh\n")
        .skip(1)
        .map(|rest| rest.split_once("\n```").expect("a block ends").0)
        .collect();
    assert!(!blocks.is_empty(), "{page}: no sh blocks");
    let binary = Path::new(env!("CARGO_BIN_EXE_corrust")).parent().unwrap();
    let search = std::env::var_os("PATH").unwrap_or_default();
    let search = [binary.to_path_buf()].into_iter().chain(std::env::split_paths(&search));
    let search = std::env::join_paths(search).unwrap();
    for block in blocks {
        let shell = Command::new("sh")
            .args(["-e", "-c", block])
            .current_dir(folder)
            .env("PATH", &search)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&shell.stderr);
        assert!(shell.status.success(), "{page}:\n{block}\n{said}");
    }
}

/// What a page's commands write must be there.
fn wrote(page: &str, folder: &Path, outputs: &[&str]) {
    run(page, folder);
    for output in outputs {
        let bytes = fs::metadata(folder.join(output)).map_or(0, |file| file.len());
        assert!(bytes > 0, "{page}: no {output}");
    }
}

#[test]
fn start() {
    let folder = tempfile::tempdir().unwrap();
    wrote("start.md", folder.path(), &["rec.json", "visibilities.npy", "j.npy"]);
}

#[test]
fn channelise() {
    let folder = tempfile::tempdir().unwrap();
    wrote("channelise.md", folder.path(), &["spectra.npy", "stopped.npy", "visibilities.npy"]);
}

#[test]
fn correlate() {
    let folder = tempfile::tempdir().unwrap();
    wrote("correlate.md", folder.path(), &["visibilities.npy", "dumps.npy", "counts.npy"]);
}

#[test]
fn formats_out() {
    let folder = tempfile::tempdir().unwrap();
    let outputs = ["scan.uvh5", "matrix.svg", "scan.fil", "x.fil", "beams.1.fil", "zenith.fil"];
    wrote("formats-out.md", folder.path(), &outputs);
}

#[test]
fn beamform() {
    let folder = tempfile::tempdir().unwrap();
    wrote("beamform.md", folder.path(), &["j.npy", "i.npy", "clipped.npy"]);
}

#[test]
fn autocorrelate() {
    let folder = tempfile::tempdir().unwrap();
    // The page makes them with NumPy.
    let counts = Array2::from_shape_fn((20_000, 2), |(n, sensor)| (n * n % (5 + sensor)) as u8);
    ndarray_npy::write_npy(folder.path().join("counts.npy"), &counts).unwrap();
    let outputs = ["sums.npy", "g.csv", "g.svg", "classic.npy", "cross.npy"];
    wrote("autocorrelate.md", folder.path(), &outputs);
}

#[test]
fn fcs() {
    let folder = tempfile::tempdir().unwrap();
    let outputs = ["photons.ptu", "g_pair_0_1.csv", "table.csv", "g.svg", "rate.svg", "gated.npy"];
    wrote("fcs.md", folder.path(), &outputs);
}

#[test]
fn delays() {
    let folder = tempfile::tempdir().unwrap();
    wrote("delays.md", folder.path(), &["delays.json", "raw.npy", "raw.json", "few.npy"]);
}

#[test]
fn formats() {
    let folder = tempfile::tempdir().unwrap();
    run("formats.md", folder.path());
    for (page, outputs) in [
        ("vdif", &["scan.vdif", "scan.uvh5", "matrix.svg"][..]),
        ("mark5b", &["m5b.npy"]),
        ("dada", &["dada.npy", "spectra.npy"]),
        ("guppi", &["guppi.npy", "finer.npy"]),
        ("numpy", &["visibilities.npy", "fx.npy"]),
    ] {
        wrote(&format!("formats/{page}.md"), folder.path(), outputs);
    }
}

#[test]
fn reorder() {
    let folder = tempfile::tempdir().unwrap();
    wrote("reorder.md", folder.path(), &["few.npy", "v.npy"]);
}
