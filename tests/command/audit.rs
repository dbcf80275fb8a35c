//! Every file with unsafe code is in the table of docs/reliability.md that says what for and what holds it: a new
//! one is reviewed when its row is written.

use std::{fs, path::Path};

/// Files of Rust in a folder and those below.
fn files(folder: &Path, found: &mut Vec<String>) {
    for entry in
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
    {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn unsafe_code_is_accounted_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/reliability.md")).unwrap();
    let (_, section) = page.split_once("\n## Unsafe code\n").expect("a section on unsafe code");
    let section = section.split("\n## ").next().unwrap();
    let mut rust = Vec::new();
    for folder in [
        "benches/src",
        "c/src",
        "host/src",
        "live/src",
        "ptx-sim/src",
        "python/src",
        "recordings/src",
        "src",
    ] {
        files(&root.join(folder), &mut rust);
    }
    let mut with = 0;
    for path in rust {
        let name = path.strip_prefix(root.to_str().unwrap()).unwrap().trim_start_matches('/');
        let text = fs::read_to_string(&path).unwrap();
        let has = ["unsafe {", "unsafe impl"].iter().any(|begin| text.contains(begin));
        let named = section.contains(&format!("`{name}`"));
        assert_eq!(
            has, named,
            "{name}: in the table of docs/reliability.md where it has unsafe code, else not"
        );
        with += usize::from(has);
    }
    assert!(with > 0, "none has");
}
