//! Every entry of the PTX that the repository ships must decode.

use std::path::Path;

use ptx_sim::Module;

#[test]
fn every_shipped_entry_decodes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/ptx");
    let Ok(files) = std::fs::read_dir(&folder) else {
        eprintln!("no {}: the package stands alone", folder.display());
        return;
    };
    let mut failures = Vec::new();
    for file in files {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|e| e != "ptx") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match Module::parse(&text) {
            Ok(module) => {
                let declared = text.lines().filter(|l| l.contains(".entry ")).count();
                assert_eq!(module.entries().count(), declared, "{name}");
                for entry in module.entries() {
                    println!(
                        "{name}: {}, {} instructions, {} bytes shared, {} bytes local",
                        entry.name, entry.instructions, entry.shared_bytes, entry.local_bytes
                    );
                }
            }
            Err(e) => failures.push(format!("{name}: {e}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
