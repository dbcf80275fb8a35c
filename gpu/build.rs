//! Provides the PTX of the kernels: the shipped one where `ptx/manifest.txt` names these very
//! sources, otherwise one compiled now from `src/` by the device compiler in rustc.
//!
//! `CORRUST_BUILD_PTX=refresh` compiles always and writes the result to `ptx/`;
//! `CORRUST_BUILD_PTX=check` compiles always and fails unless it equals what `ptx/` ships.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use sha2::{Digest, Sha256};

#[allow(dead_code, missing_docs, unused_imports)]
#[path = "src/abi/mod.rs"]
mod abi;

mod finish;
#[path = "src/ptx/split.rs"]
mod split;

use abi::{ENTRIES, Entry, Target};
use finish::finish;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=finish.rs");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=ptx");
    println!("cargo:rerun-if-env-changed={MODE}");
    println!("cargo:rerun-if-env-changed={SOURCE_ROOT}");
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("nvptx64") {
        return;
    }
    if let Err(message) = provide_ptx() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

/// Where cargo looks for the standard library's sources instead of the toolchain's own folder.
const SOURCE_ROOT: &str = "__CARGO_TESTS_ONLY_SRC_ROOT";
/// What to do about `ptx/`: `refresh` or `check`.
const MODE: &str = "CORRUST_BUILD_PTX";

type Result<T> = std::result::Result<T, String>;

/// Text of the files that a build makes, by their paths in `ptx/`.
type Files = BTreeMap<PathBuf, String>;

fn provide_ptx() -> Result<()> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let shipped = package.join("ptx");
    let mode = env::var(MODE).unwrap_or_default();
    let sources = source_hash(&package)?;
    let manifest = fs::read_to_string(shipped.join(MANIFEST)).unwrap_or_default();
    let current = manifest.lines().any(|line| line == format!("sources {sources}"));

    let folder = if current && mode.is_empty() {
        shipped
    } else {
        let files = compile_all(&package, &out, &sources)?;
        let compiled = out.join("ptx");
        match mode.as_str() {
            "" => println!(
                "cargo:warning=gpu/ptx is older than gpu/src: scripts/ptx refreshes what is shipped"
            ),
            "refresh" => write_all(&shipped, &files)?,
            "check" => check_all(&shipped, &files)?,
            other => return Err(format!("{MODE}={other}: expected refresh or check")),
        }
        write_all(&compiled, &files)?;
        compiled
    };
    embed(&folder, &out)
}

/// Writes the kernels of `folder` compressed, and `kernels.rs`, which includes them by name.
fn embed(folder: &Path, out: &Path) -> Result<()> {
    let mut names: Vec<_> = ENTRIES.iter().map(|entry| (entry.name, file_name(entry))).collect();
    names.sort();
    let mut kernels = String::new();
    for (name, file) in names {
        let path = folder.join(file);
        let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let packed = out.join("packed").join(name);
        write(&packed, miniz_oxide::deflate::compress_to_vec(&text, LEVEL))?;
        kernels += &format!("    Kernel::new({name:?}, include_bytes!({packed:?})),\n");
    }
    write(&out.join("kernels.rs"), format!("[\n{kernels}]\n"))
}

/// Effort of the compression, of 10. The last four levels take twice the time for 1 % of the size.
const LEVEL: u8 = 6;

/// Says what the shipped kernels were compiled from, and by what.
const MANIFEST: &str = "manifest.txt";

/// Path of a kernel in `ptx/`.
fn file_name(entry: &Entry) -> PathBuf {
    Path::new(entry.target.name()).join(format!("{}.ptx", entry.name))
}

fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, contents))
        .map_err(|error| format!("{}: cannot write: {error}", path.display()))
}

/// Makes `folder` hold these files, and no other kernels.
fn write_all(folder: &Path, files: &Files) -> Result<()> {
    for path in beside(folder, files) {
        fs::remove_file(&path)
            .map_err(|error| format!("{}: cannot remove: {error}", path.display()))?;
    }
    for (file, text) in files {
        let path = folder.join(file);
        // An unchanged file keeps its date: nothing that includes it is compiled again.
        if fs::read_to_string(&path).ok().as_ref() != Some(text) {
            write(&path, text)?;
        }
    }
    Ok(())
}

/// Fails unless `folder` holds these files, and no other kernels.
fn check_all(folder: &Path, files: &Files) -> Result<()> {
    const ADVICE: &str = "run scripts/ptx and commit gpu/ptx";
    if let Some(path) = beside(folder, files).first() {
        return Err(format!("{} is no kernel of gpu/src: {ADVICE}", path.display()));
    }
    for (file, text) in files {
        let path = folder.join(file);
        if fs::read_to_string(&path).unwrap_or_default() != *text {
            return Err(format!("{} is not what gpu/src compiles to: {ADVICE}", path.display()));
        }
    }
    Ok(())
}

/// The `.ptx` files of `folder` that are not among `files`.
fn beside(folder: &Path, files: &Files) -> Vec<PathBuf> {
    let folders = Target::ALL.map(|target| folder.join(target.name()));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let ptx = paths.filter(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    let stray =
        |path: &PathBuf| path.strip_prefix(folder).is_ok_and(|file| !files.contains_key(file));
    ptx.filter(stray).collect()
}

/// Hash of what the PTX depends on: names of the source files in order, and their tokens. Comments and
/// spaces are no matter.
fn source_hash(package: &Path) -> Result<String> {
    fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                collect(&path, files)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.insert(path);
            }
        }
        Ok(())
    }
    let mut files = BTreeSet::from([package.join("build.rs"), package.join("finish.rs")]);
    collect(&package.join("src"), &mut files).map_err(|error| format!("gpu/src: {error}"))?;
    let mut hash = Sha256::new();
    for file in files {
        let contents =
            fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let tokens: TokenStream =
            contents.parse().map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.strip_prefix(package).unwrap_or(&file);
        for part in name.components() {
            hash.update(part.as_os_str().to_string_lossy().as_bytes());
            hash.update("/");
        }
        hash_tokens(tokens, &mut hash);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Adds tokens to a hash, but for documentation, which to Rust is an attribute: `#[doc = "..."]`.
fn hash_tokens(tokens: TokenStream, hash: &mut Sha256) {
    let is_doc = |tree: &TokenTree| {
        let TokenTree::Group(group) = tree else { return false };
        let mut inside = group.stream().into_iter();
        group.delimiter() == Delimiter::Bracket
            && inside.next().is_some_and(|first| first.to_string() == "doc")
            && inside.next().is_some_and(|second| second.to_string() == "=")
    };
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let is_punct = |index: usize, text: &str| {
        trees.get(index).is_some_and(
            |tree| matches!(tree, TokenTree::Punct(punct) if punct.to_string() == text),
        )
    };
    let mut index = 0;
    while index < trees.len() {
        let inner = usize::from(is_punct(index + 1, "!"));
        if is_punct(index, "#") && trees.get(index + 1 + inner).is_some_and(is_doc) {
            index += 2 + inner;
            continue;
        }
        match &trees[index] {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                hash.update(open);
                hash_tokens(group.stream(), hash);
                hash.update(close);
            }
            token => hash.update(token.to_string()),
        }
        // Between any two, so that no two sequences look the same.
        hash.update("\n");
        index += 1;
    }
}

fn manifest_text(sources: &str) -> Result<String> {
    let version = Command::new(env::var_os("RUSTC").unwrap())
        .arg("--version")
        .output()
        .map_err(|error| format!("rustc --version: {error}"))?;
    let version = String::from_utf8_lossy(&version.stdout);
    Ok(format!("sources {sources}\ncompiler {}\n", version.trim()))
}

/// Every kernel and the manifest.
fn compile_all(package: &Path, out: &Path, hash: &str) -> Result<Files> {
    let sources = core_sources(package)?;
    // OUT_DIR is target/PROFILE/build/PACKAGE/out: all profiles share one device build.
    let builds = out.ancestors().nth(4).unwrap_or(out).join("device");
    let compiled: Result<Vec<_>> = thread::scope(|scope| {
        let jobs = Target::ALL.map(|target| {
            let (sources, builds) = (&sources, &builds);
            scope.spawn(move || -> Result<_> {
                let ptx = compile(package, sources, &builds.join(target.name()), target)?;
                finish(&ptx, target)
            })
        });
        jobs.into_iter().map(|job| job.join().expect("a compile job panicked")).collect()
    });
    let mut kernels: BTreeMap<&str, String> = compiled?.into_iter().flatten().collect();
    let kernel = |entry: &Entry| (file_name(entry), kernels.remove(entry.name).expect("finished"));
    let mut files: Files = ENTRIES.iter().map(kernel).collect();
    files.insert(MANIFEST.into(), manifest_text(hash)?);
    Ok(files)
}

/// The folder `library` of the standard library's sources.
fn core_sources(package: &Path) -> Result<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap();
    let sysroot = Command::new(rustc)
        .args(["--print", "sysroot"])
        .output()
        .map_err(|error| format!("rustc --print sysroot: {error}"))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    let named = env::var_os(SOURCE_ROOT).map(PathBuf::from);
    let unpacked = package.parent().map(|project| project.join(".rust-src/library"));
    named
        .into_iter()
        .chain([sysroot.join("lib/rustlib/src/rust/library")])
        .chain(unpacked)
        .find(|library| library.join("core/src/lib.rs").is_file())
        .ok_or_else(|| {
            "gpu/src differs from what gpu/ptx was compiled from, and core's sources, needed to \
             compile it, are missing: run `rustup component add rust-src`, or `scripts/rust-src` \
             where rustup cannot download."
                .to_owned()
        })
}

/// Compiles the crate for `target` and returns the PTX as LLVM wrote it.
fn compile(package: &Path, sources: &Path, build: &Path, target: Target) -> Result<String> {
    let mut command = Command::new(env::var_os("CARGO").unwrap());
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let inherited = name.starts_with("CARGO_") && name != "CARGO_HOME"
            || name.starts_with("RUSTC") && name != "RUSTC"
            || ["RUSTFLAGS", "RUSTDOCFLAGS", "TARGET", "HOST", "OUT_DIR"].contains(&name.as_str());
        if inherited {
            command.env_remove(name);
        }
    }
    // The least PTX version that has the instructions: older drivers take it too.
    let version = match target {
        Target::Sm80 => "+ptx71",
        Target::Sm90a => "+ptx80",
    };
    let flags = [
        format!("-Ctarget-cpu={}", target.name()),
        format!("-Ctarget-feature={version}"),
        format!("--cfg=corrust_target=\"{}\"", target.name()),
        // Fragments live in registers: every loop over them is unrolled, however long its body.
        "-Cllvm-args=-unroll-threshold=20000".to_owned(),
        // The PTX is taken from the compiler; there is nothing to link.
        "-Clinker=true".to_owned(),
    ];
    command
        .args(["rustc", "--quiet", "--lib", "--release", "--crate-type", "cdylib"])
        .args(["--target", "nvptx64-nvidia-cuda", "-Zbuild-std=core"])
        .arg("--manifest-path")
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(build)
        .args(["--", "--emit=asm", "--cap-lints=warn"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env(SOURCE_ROOT, sources)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "compiling gpu/ for {} failed:\n{}",
            target.name(),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let path = build.join("nvptx64-nvidia-cuda/release/deps/corrust_gpu.s");
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}
