//! The commands that the documents show work: every `sh` block of every page runs, those of a page in order, in a
//! folder that is empty when the page begins. Commands that need something else (a clone, a GPU, a network, a service
//! that does not end) are `text` blocks.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

use crate::support::tier;

/// All pages: Markdown files of the repository, but for what is built or brought there.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            pages(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The `sh` blocks of a page, those in lists, too, without their indentation.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for line in text.lines() {
        match &mut open {
            Some((indent, block)) if line.trim() == "```" => {
                assert_eq!(line.len() - 3, *indent, "a block ends where it begins: {block}");
                blocks.push(open.take().unwrap().1);
            }
            Some((indent, block)) => {
                *block += line.get(*indent..).unwrap_or_default();
                block.push('\n');
            }
            None if line.trim() == "```sh" => open = Some((line.len() - 5, String::new())),
            None => {}
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

/// Names that commands are told to write to.
fn outputs(block: &str) -> impl Iterator<Item = &str> {
    let words = block.split_whitespace();
    let pairs = words.clone().zip(words.skip(1));
    let named = ["-o", "--plot", "--curves", "--trace", "--counts", "--clipped", "--incoherent"];
    pairs.filter(move |(option, name)| named.contains(option) && *name != "-").map(|(_, name)| name)
}

/// Whether a file of this name was written, or several that are named after it, as in `x.0.fil`.
fn is_written(folder: &Path, output: &str) -> bool {
    let output = Path::new(output);
    let parent = folder.join(output.parent().unwrap());
    let [stem, ending] =
        [output.file_stem(), output.extension()].map(|part| part.unwrap().to_str().unwrap());
    fs::read_dir(parent).unwrap().map(Result::unwrap).any(|entry| {
        let name = entry.file_name().into_string().unwrap();
        let rest = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(ending));
        rest.is_some() && entry.metadata().unwrap().len() > 0
    })
}

/// Runs the blocks of a page, and says what is wrong with the first that does not work.
fn run(blocks: &[String]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_corrust")).parent().unwrap();
    let search = std::env::var_os("PATH").unwrap_or_default();
    let search = [binary.to_path_buf()].into_iter().chain(std::env::split_paths(&search));
    let search = std::env::join_paths(search).unwrap();
    for block in blocks {
        let done = Command::new("sh")
            .args(["-e", "-c", block])
            .current_dir(folder.path())
            .env("PATH", &search)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        let fault = |fault: &str| Err(format!("{block}{fault}\n{said}"));
        if !done.status.success() {
            return fault("failed");
        }
        // Examples are to be imitated.
        if said.contains("clipped") {
            return fault("clips samples");
        }
        if let Some(output) = outputs(block).find(|output| !is_written(folder.path(), output)) {
            return fault(&format!("did not write {output}"));
        }
    }
    Ok(())
}

/// Pages whose commands the quick tier runs.
const FIRST: [&str; 2] = ["README.md", "docs/start.md"];

/// Some of the pages that show commands.
const PAGES: [&str; 6] = ["start", "correlate", "beamform", "autocorrelate", "fcs", "formats/vdif"];

#[test]
fn commands_of_all_pages_work_from_an_empty_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    pages(root, &mut all);
    assert!(all.contains(&root.join("README.md")) && all.len() > 30, "{all:?}");
    let mut queue: Vec<(PathBuf, Vec<String>)> = Vec::new();
    for page in all {
        let blocks = blocks(&fs::read_to_string(&page).unwrap());
        if !blocks.is_empty()
            && (tier::full() || FIRST.iter().any(|first| page == root.join(first)))
        {
            queue.push((page, blocks));
        }
    }
    for page in if tier::full() { &PAGES[..] } else { &PAGES[..1] } {
        let path = root.join(format!("docs/{page}.md"));
        assert!(queue.iter().any(|(page, _)| *page == path), "{page} shows no command");
    }
    let (queue, faults) = (Mutex::new(queue), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().pop();
                    let Some((page, blocks)) = next else { break };
                    if let Err(fault) = run(&blocks) {
                        faults.lock().unwrap().push(format!("{}:\n{fault}", page.display()));
                    }
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn blocks_and_outputs_are_found() {
    let text = "a\n```sh\ntrue\n```\n- b\n  ```sh\n  x -o a.npy \\\n      --plot b.svg\n  ```\n```text\nno\n```\n";
    assert_eq!(blocks(text), ["true\n", "x -o a.npy \\\n    --plot b.svg\n"]);
    assert_eq!(outputs(&blocks(text)[1]).collect::<Vec<_>>(), ["a.npy", "b.svg"]);
}
