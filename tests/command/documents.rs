//! The commands that the documents show work: every `sh` block of every page runs, those of a page in order, in a
//! folder that is empty when the page begins. Commands that need something else (a clone, a GPU, a network, a service
//! that does not end) are `text` blocks, of which the options are compared with the program's. Paths, exit codes and
//! lists that pages take from the sources equal them.

use std::{
    collections::BTreeSet,
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

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository.
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Lines of a page's blocks, continued ones joined, and code within its sentences, a line each.
fn code(text: &str) -> Vec<String> {
    let (mut code, mut prose) = (Vec::new(), String::new());
    let mut in_block = false;
    for line in text.replace("\\\n", " ").lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            code.push(line.trim().to_owned());
        } else {
            prose = prose + line + " ";
        }
    }
    code.extend(prose.split('`').skip(1).step_by(2).map(str::to_owned));
    code
}

/// Words of a command of `corrust` in a line of code, without the program's name, variables before it, and what follows
/// a comment or a pipe.
fn command_words(line: &str) -> Option<Vec<&str>> {
    let words = line.strip_prefix("$ ").unwrap_or(line).split_whitespace();
    let mut words = words.skip_while(|word| word.contains('=') && !word.starts_with('-'));
    let others = ["#", "|", "&&", ";", ">"];
    (words.next() == Some("corrust"))
        .then(|| words.take_while(|word| !others.contains(word)).collect())
}

/// Every command that a page shows, run or not, has subcommands and options of the program. The changelog and the
/// notebook tell of programs of their day.
#[test]
fn commands_of_all_pages_have_options_of_the_program() {
    let mut parser = corrust::cli::parser();
    parser.build();
    let mut all = Vec::new();
    pages(root(), &mut all);
    let (mut faults, mut checked) = (Vec::new(), 0);
    for page in all {
        if page.ends_with("CHANGELOG.md") || page.parent().unwrap().ends_with("notebook") {
            continue;
        }
        for line in code(&fs::read_to_string(&page).unwrap()) {
            let Some(words) = command_words(&line) else { continue };
            // The name alone, the dependency of that name, and a placeholder for any command.
            if matches!(words.first(), None | Some(&("=" | "..."))) {
                continue;
            }
            let mut command = &parser;
            let mut words = words.into_iter().peekable();
            while let Some(below) = words.peek().and_then(|word| command.find_subcommand(word)) {
                command = below;
                words.next();
            }
            let is_option = |name: &str| {
                command.get_arguments().any(|argument| argument.get_long() == Some(name))
            };
            let mut options = words.filter_map(|word| word.strip_prefix("--"));
            let unknown = options.find(|option| !is_option(option.split('=').next().unwrap()));
            if let Some(option) = unknown {
                faults.push(format!("{}: {line}: --{option}", page.display()));
            } else if std::ptr::eq(command, &parser) {
                faults.push(format!("{}: {line}: no command", page.display()));
            }
            checked += 1;
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked > 200, "{checked} commands");
}

/// Files and folders of the repository that pages name are there. The page on adding a kernel names files to come.
#[test]
fn paths_that_pages_name_exist() {
    let mut all = Vec::new();
    pages(root(), &mut all);
    let (mut faults, mut checked) = (Vec::new(), 0);
    for page in all {
        let text = fs::read_to_string(&page).unwrap();
        for path in code(&text).iter().flat_map(|line| line.split_whitespace()) {
            let mut parts = path.split('/');
            let (first, second) = (parts.next().unwrap(), parts.next());
            let is_source = [
                "benches",
                "c",
                "docs",
                "gpu",
                "host",
                "ptx-model",
                "ptx-sim",
                "qualify",
                "recordings",
            ]
            .contains(&first);
            let is_named =
                path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte));
            if second.is_none() || !is_source || !is_named || path.ends_with("power.rs") {
                continue;
            }
            checked += 1;
            if !root().join(path).exists() {
                faults.push(format!("{}: {path}", page.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked > 100, "{checked} paths");
}

#[test]
fn page_and_help_have_the_same_exit_codes() {
    let codes = |text: &str| {
        let text = text.replace('`', "");
        let (_, codes) = text.split_once("Exit codes: ").unwrap();
        let codes = codes.split_once("interrupted").unwrap().0;
        codes.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let help = Command::new(env!("CARGO_BIN_EXE_corrust")).arg("--help").output().unwrap();
    assert_eq!(codes(&read("docs/start.md")), codes(&String::from_utf8(help.stdout).unwrap()));
}

/// The words of kernels are folders of `gpu/src` and `host/src`, and the same on the page and in the script.
#[test]
fn words_of_kernels_are_folders() {
    let folders = |path: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(root().join(path)).unwrap().map(Result::unwrap);
        let folders = entries.filter(|entry| entry.path().is_dir());
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    let words: BTreeSet<String> = &folders("gpu/src") & &folders("host/src");
    let listed = |text: &str, from: &str, to: &str| -> BTreeSet<String> {
        let (_, list) = text.split_once(from).unwrap();
        let list = list.split_once(to).unwrap().0;
        list.split(',').map(|word| word.trim().trim_matches('"').to_owned()).collect()
    };
    assert_eq!(listed(&read("docs/add-a-kernel.md"), "one of the words (", ")"), words);
    assert_eq!(listed(&read("scripts/new-kernel"), "WORDS = [", "]"), words);
}

/// README and the page on compilers name the unstable features that the kernels use.
#[test]
fn pages_name_the_unstable_features_of_the_kernels() {
    let source = read("gpu/src/lib.rs");
    let (_, features) = source.split_once("feature(abi_ptx").unwrap();
    let features = format!("abi_ptx{}", features.split_once(')').unwrap().0);
    for page in ["README.md", "docs/rust-cuda.md"] {
        let words: Vec<String> = code(&read(page));
        for feature in features.split(", ") {
            assert!(words.iter().any(|word| word == feature), "{page} lacks {feature}");
        }
    }
    let flags = read("gpu/build/compile.rs");
    for flag in ["\"RUSTC_BOOTSTRAP\", \"1\"", "\"-Zbuild-std=core\""] {
        assert!(flags.contains(flag), "{flag}");
    }
}

/// Every row of the papers' tables has a command or says that there is none.
#[test]
fn rows_of_the_papers_have_commands() {
    let page = read("docs/papers.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    let tables = rows.iter().filter(|row| row.ends_with("| by this command |")).count();
    assert_eq!(tables, page.matches("\n## ").count());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), if row.starts_with("|---") { 1 } else { 4 }, "{row}");
        let command = cells[cells.len() - 1];
        let is_said = ["`", "none", "the same", "by this command", "---"];
        assert!(is_said.iter().any(|word| command.contains(word)), "{row}");
    }
}

/// Pages give the predicted times of the note's beamformer as the tables of estimates have them, and their shares of
/// real time.
#[test]
fn the_predicted_beamformer_of_the_pages_is_the_estimate() {
    let share = |ms: &str| 100.0 * ms.parse::<f64>().unwrap() / (32_768.0 * 1.7067e-3);
    for (chip, name) in [("a40", "A40"), ("a100", "A100")] {
        let table = read(&format!("benches/estimates/{chip}.csv"));
        let case = "beamform,\"D 512, B 96, F 16, P 2, T 32768\",mma,kernel,";
        let row = table.lines().find_map(|line| line.strip_prefix(case)).unwrap();
        let [ms, least, most, ..] = row.split(',').collect::<Vec<_>>()[..] else { panic!("{row}") };
        for page in ["docs/papers.md", "docs/performance.md"] {
            let text = read(page).split_whitespace().collect::<Vec<_>>().join(" ");
            for part in [
                format!("{ms} ms"),
                format!("{:.1} %", share(ms)),
                format!("({:.1} to {:.1})", share(least), share(most)),
                name.to_owned(),
            ] {
                assert!(text.contains(&part), "{page}: {part}");
            }
        }
    }
}

/// The shared library of C has the compatible part of the version on its page.
#[test]
fn the_library_of_c_has_the_version_of_its_page() {
    let compatible = match env!("CARGO_PKG_VERSION_MAJOR") {
        "0" => concat!("0.", env!("CARGO_PKG_VERSION_MINOR")),
        major => major,
    };
    let name = format!("libcorrust.so.{compatible}");
    let words = code(&read("docs/c.md"));
    assert!(words.contains(&name), "docs/c.md lacks {name}");
}

/// Pages name the kernels that their commands have, and no others in the tables of kernels.
#[test]
fn pages_name_the_kernels_of_the_program() {
    for (page, arguments) in [
        ("correlate", "correlate x.npy -o y.npy"),
        ("beamform", "beamform x.npy --weights a.npy -o y.npy"),
        ("autocorrelate", "autocorrelate x.npy -o y.npy"),
        ("channelise", "channelise x.npy --channels 4 -o y.npy"),
        ("upchannelise", "upchannelise x.npy --factor 4 -o y.npy"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_corrust"))
            .args(arguments.split(' '))
            .args(["--kernel", "unknown"])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let (_, names) = said.trim().split_once("expected one of ").unwrap();
        let names: Vec<&str> = names.split(", ").collect();
        let text = read(&format!("docs/{page}.md"));
        // Vectors of CPUs are named once, in the concepts.
        for name in names.iter().filter(|name| !name.starts_with("cpu-")) {
            let short = name.strip_prefix("packed-complex").filter(|number| !number.is_empty());
            let is_named = |name: &str| code(&text).iter().any(|code| code == name);
            assert!(is_named(name) || short.is_some_and(is_named), "{page} lacks kernel {name}");
        }
        let rows = text.lines().skip_while(|line| {
            !line.starts_with("| `--kernel`") && !line.starts_with("| kernel |")
        });
        for row in rows.skip(2).take_while(|line| line.starts_with('|')) {
            let first = row.trim_start_matches('|').split('|').next().unwrap();
            for name in code(first).iter().filter(|name| !name.starts_with('-')) {
                assert!(names.contains(&&**name), "{page}: {name}");
            }
        }
    }
}
