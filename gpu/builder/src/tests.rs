//! The build finds which kernels a change of the sources concerns, and refuses what it must not ship.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    shipped::{self, Purpose},
    sources::{Sources, sources},
};

/// Copies what a build of the package reads.
fn copy(folder: &Path) -> PathBuf {
    fn all(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let copy = to.join(path.file_name().unwrap());
            if path.is_dir() {
                all(&path, &copy);
            } else {
                fs::copy(&path, &copy).unwrap();
            }
        }
    }
    let package = shipped::package().parent().unwrap().to_owned();
    let copied = folder.join("gpu");
    for part in ["src", "build", "ptx"] {
        all(&package.join(part), &copied.join(part));
    }
    copied
}

fn append(file: &Path, text: &str) {
    let old = fs::read_to_string(file).unwrap();
    fs::write(file, old + text).unwrap();
}

/// Kernels whose hashes differ.
fn changed(before: &Sources, package: &Path) -> Vec<&'static str> {
    let after = sources(package).unwrap();
    before
        .iter()
        .filter(|(name, old)| after[*name].hash != old.hash)
        .map(|(name, _)| *name)
        .collect()
}

#[test]
fn a_change_concerns_the_kernels_that_import_it() {
    let folder = tempfile::tempdir().unwrap();
    let package = copy(folder.path());
    let before = sources(&package).unwrap();
    append(&package.join("src/correlate/widen.rs"), "/// Words.\n// More words.\n");
    assert_eq!(changed(&before, &package), [""; 0]);
    append(&package.join("src/correlate/widen.rs"), "const ONE: u32 = 1;\n");
    let widen = ["correlate_widen", "correlate_widen_bits", "correlate_widen_f32"];
    assert_eq!(changed(&before, &package), widen);

    let before = sources(&package).unwrap();
    append(&package.join("src/correlate/packed.rs"), "const ONE: u32 = 1;\n");
    let packed = changed(&before, &package);
    // The kernels of a file that a table of the declarations stamps.
    assert!(packed.contains(&"correlate_packed_words_3"), "{packed:?}");
    assert!(packed.iter().all(|name| name.starts_with("correlate_packed")), "{packed:?}");

    let before = sources(&package).unwrap();
    append(&package.join("src/isa/common.rs"), "const ONE: u32 = 1;\n");
    assert_eq!(changed(&before, &package).len(), before.len());
}

#[test]
fn ptx_outside_isa_and_kernels_without_a_declaration_are_refused() {
    for (text, expected) in [
        ("fn f() { unsafe { core::arch::asm!(\"ret;\") } }", "asm! stands outside gpu/src/isa"),
        ("fn f() { unsafe { ptx!(\"ret;\") } }", "ptx! stands outside gpu/src/isa"),
        ("const STEP: &str = \"add.u32 a, b, c;\";", "PTX (add.u32) stands outside gpu/src/isa"),
        (
            "macro_rules! f { () => { \"wgmma.fence.sync.aligned;\" } }",
            "PTX (wgmma.fence.sync.aligned)",
        ),
        ("macro_rules! f { ($a:tt) => { concat!(\".reg .b32 \", $a) } }", "PTX (.reg)"),
        ("kernel! { fn correlate_power(p: Power) {} }", "kernel correlate_power has no row"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let package = copy(folder.path());
        append(&package.join("src/correlate/widen.rs"), text);
        let error = sources(&package).err().expect(text);
        assert!(error.contains("widen.rs: ") && error.contains(expected), "{error}");
    }
}

#[test]
fn shipped_ptx_that_was_edited_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let package = copy(folder.path());
    let builds = folder.path().join("device");
    let all = || shipped::provide(&package, &builds, Purpose::Build, |_| true);
    assert!(all().unwrap().iter().all(|kernel| kernel.is_shipped));
    append(&package.join("ptx/sm_80/correlate_widen.ptx"), "\n");
    let error = all().err().expect("an edited file");
    assert!(error.contains("correlate_widen.ptx is not what gpu/src compiled to"), "{error}");
}
