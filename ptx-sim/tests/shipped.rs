//! Every entry of the PTX that the repository ships must decode.

use std::path::{Path, PathBuf};

use ptx_sim::Module;

/// PTX files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "ptx") {
            found.push(path);
        }
    }
}

#[test]
fn every_shipped_entry_decodes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/ptx");
    if !folder.exists() {
        eprintln!("no {}: the package stands alone", folder.display());
        return;
    }
    let mut paths = Vec::new();
    files(&folder, &mut paths);
    assert!(!paths.is_empty(), "{} has no PTX", folder.display());
    let mut failures = Vec::new();
    for path in &paths {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.strip_prefix(&folder).unwrap().display();
        let module = match Module::parse(&text) {
            Ok(module) => module,
            Err(error) => {
                failures.push(format!("{name}: {error}"));
                continue;
            }
        };
        failures.extend(module.refused().map(|(entry, error)| format!("{name}: {entry}: {error}")));
        let declared = text.lines().filter(|l| l.contains(".entry ")).count();
        assert!(declared > 0, "{name} declares no entry");
        assert_eq!(module.entries().count() + module.refused().count(), declared, "{name}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("{} files", paths.len());
}
