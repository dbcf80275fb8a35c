//! The build finds which kernels a change of the sources concerns, and refuses what it must not ship.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ptx_sim::{
    Counts, Launch, Memory, Site,
    cli::{Argument, Parameters, extents, module},
};

use crate::{
    abi::{ENTRIES, Entry},
    compile::Compiler,
    launches::{OTHERS, SMALL, options},
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
    let all = || shipped::provide(&package, &builds, Compiler::Rustc, Purpose::Build, |_| true);
    assert!(all().unwrap().iter().all(|kernel| kernel.is_shipped));
    append(&package.join("ptx/sm_80/correlate_widen.ptx"), "\n");
    let error = all().err().expect("an edited file");
    assert!(error.contains("correlate_widen.ptx is not what gpu/src compiled to"), "{error}");
}

/// A kernel as compilers write it: without what `finish` adds, labels and tables by names of the whole module, a comment.
fn unfinished(entry: &Entry, finished: &str) -> String {
    let added = [".maxntid", ".minnctapersm", ".reqnctapercluster", ".extern .shared .align 1024"];
    let kept = finished.lines().filter(|line| added.iter().all(|start| !line.starts_with(start)));
    let body = kept.skip_while(|line| !line.starts_with(".address_size")).skip(1);
    body.map(|line| {
        let comment = if line.ends_with(';') { " // libnvvm" } else { "" };
        let line = line.replace("$L_", "$L__BB7_") + comment + "\n";
        line.replace("table_", &format!("{}_", entry.name.to_uppercase()))
    })
    .collect()
}

/// Puts in place of Rust-CUDA's compiler a script that joins the kernels that are asked for, of texts in `folder`.
fn stand_in(package: &Path, folder: &Path) {
    for entry in ENTRIES {
        let file = shipped::file_name(entry);
        let text = fs::read_to_string(package.join("ptx").join(&file)).unwrap();
        shipped::write(&folder.join(file), unfinished(entry, &text)).unwrap();
    }
    let script = r#"
        [ "$2" = module ] && target=$3 file=$4 && shift 4 || exit 1
        [ "$target" = sm_80 ] && version=7.1 || version=8.0
        printf '.version %s\n.target %s\n.address_size 64\n' $version $target >"$file"
        for cfg in "$@"; do
            [ ! -e "FOLDER/$target/$cfg.ptx" ] || cat "FOLDER/$target/$cfg.ptx" >>"$file"
        done"#;
    let script = script.replace("FOLDER", folder.to_str().unwrap());
    shipped::write(&package.join("rust-cuda/toolchain"), script).unwrap();
}

#[test]
fn modules_of_rust_cuda_become_kernels_as_those_of_rustc_do() {
    let folder = tempfile::tempdir().unwrap();
    let package = copy(folder.path());
    let (texts, builds) = (folder.path().join("texts"), folder.path().join("rust-cuda"));
    let provide = |purpose, name: &str| {
        let is_wanted = |entry: &Entry| name.is_empty() || entry.name == name;
        shipped::provide(&package, &builds, Compiler::Nvvm, purpose, is_wanted)
    };
    let error = provide(Purpose::Try, "correlate_widen").err().expect("no script");
    assert!(error.contains("rust-cuda/toolchain is missing"), "{error}");
    stand_in(&package, &texts);
    let error = provide(Purpose::Try, "correlate_widen").err().expect("no compiler");
    let advice = format!("run `gpu/rust-cuda/toolchain {}`", builds.display());
    assert!(error.contains(&advice) && error.lines().count() == 1, "{error}");
    assert!(!builds.exists());

    fs::create_dir_all(builds.join("done")).unwrap();
    fs::write(builds.join("done/codegen"), "").unwrap();
    // Alone, not kept; then all, kept.
    let [alone] = &provide(Purpose::Try, "correlate_widen").unwrap()[..] else { panic!("one") };
    assert!(!builds.join("ptx").exists());
    let kernels = provide(Purpose::Build, "").unwrap();
    assert_eq!(kernels.len(), ENTRIES.len());
    for kernel in kernels.iter().chain([alone]) {
        let shipped = package.join("ptx").join(shipped::file_name(kernel.entry));
        assert!(!kernel.is_shipped);
        assert!(kernel.text == fs::read_to_string(&shipped).unwrap(), "{}", kernel.entry.name);
    }
    fs::remove_file(package.join("rust-cuda/toolchain")).unwrap();
    assert_eq!(provide(Purpose::Build, "").unwrap().len(), ENTRIES.len());
    let manifest = fs::read_to_string(builds.join("ptx/manifest.txt")).unwrap();
    assert!(manifest.starts_with("compiler Rust-CUDA\n"), "{}", &manifest[..40]);

    // The same checks as of rustc's.
    stand_in(&package, &texts);
    let widen = texts.join("sm_80/correlate_widen.ptx");
    append(&widen, ".func help()\n{\n\tret;\n}\n");
    fs::remove_dir_all(builds.join("ptx")).unwrap();
    let error = provide(Purpose::Try, "correlate_widen").err().expect("a function");
    assert!(error.contains("has a function that is no kernel"), "{error}");
    fs::write(&widen, "").unwrap();
    let error = provide(Purpose::Try, "correlate_widen").err().expect("no kernel");
    assert!(
        error.contains("lists kernel correlate_widen for sm_80, which the device code lacks"),
        "{error}"
    );
    fs::write(package.join("rust-cuda/toolchain"), "echo no such arch >&2; exit 1").unwrap();
    let error = provide(Purpose::Try, "correlate_widen").err().expect("a failure");
    assert_eq!(error, "compiling gpu/ for sm_80 by Rust-CUDA failed:\nno such arch\n");
}

/// Launches a shipped kernel as the options of `ptx-sim` say; its loads must keep to the declared sectors.
fn launch(entry: &Entry, options: &str) -> Result<(), String> {
    let words: Vec<&str> = options.split(' ').collect();
    let value = |name: &str| {
        let at = words.iter().position(|word| *word == name).unwrap();
        words[at + 1]
    };
    let package = shipped::package().parent().unwrap().to_owned();
    let file = package.join("ptx").join(shipped::file_name(entry));
    let (_, module, name) = module(&file, Some(value("--entry")))?;
    let declared = module.entries().find(|entry| entry.name == name).unwrap();
    let memory = Memory::new();
    let arguments = [Argument::parse(value("--param"))?];
    let parameters = Parameters::place(&arguments, declared.params, &memory)?;
    let launch = Launch {
        entry: &name,
        grid: extents(value("--grid"))?,
        block: extents(value("--block"))?,
        shared_bytes: value("--shared").parse().unwrap(),
        params: &parameters.packed,
        ..Launch::default()
    };
    let report = ptx_sim::launch(&module, &memory, launch).map_err(|error| error.to_string())?;
    let is_load = |site: &&Site| ["ld.", "cp.async"].iter().any(|op| site.opcode.starts_with(op));
    let Entry { conflicts, sectors, .. } = *entry;
    let scattered = report.uncoalesced().filter(is_load).map(|site| {
        let Counts { sectors: done, ideal_sectors: ideal, .. } = site.counts;
        (site, done, ideal, sectors, "sectors")
    });
    let conflicting = report.bank_conflicts().map(|site| {
        let Counts { wavefronts: done, ideal_wavefronts: ideal, .. } = site.counts;
        (site, done, ideal, conflicts, "conflicts")
    });
    let mut wasteful = scattered.chain(conflicting);
    match wasteful.find(|(_, done, ideal, most, _)| *done > u64::from(*most) * ideal) {
        None => Ok(()),
        Some((site, done, ideal, most, declared)) => Err(format!(
            "line {}: {done} where {ideal} would do: expected {most} times as many at most (`{declared}`)",
            site.line
        )),
    }
}

/// Shipped kernels are without faults in the launches of first looks, which all have but those of other parameters.
#[test]
fn first_looks_find_nothing_in_shipped_kernels() {
    let looks = ENTRIES.iter().filter_map(|entry| Some((entry, options(entry, SMALL)?)));
    let faults: Vec<String> = looks
        .filter_map(|(entry, options)| {
            let error = launch(entry, &options).err()?;
            Some(format!("{}: {error}\n{options}", entry.name))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let missing: Vec<&str> = ENTRIES
        .iter()
        .filter(|entry| !OTHERS.iter().any(|word| entry.name.starts_with(word)))
        .filter(|entry| options(entry, SMALL).is_none())
        .map(|entry| entry.name)
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
