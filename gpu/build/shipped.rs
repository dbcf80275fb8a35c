//! The PTX that `gpu/ptx` ships, its manifest, and what takes its place where the sources are others.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process,
};

use sha2::{Digest, Sha256};

use crate::{
    abi::{ENTRIES, Entry, Target},
    compile::{Compiler, compile},
    sources::{self, Result},
};

/// Says of each kernel which sources it was compiled from, and which text came of them.
const MANIFEST: &str = "manifest.txt";

/// The PTX of a kernel, for sources of today.
pub struct Kernel {
    /// Its row in `abi`.
    pub entry: &'static Entry,
    /// Hash of its sources.
    pub sources: String,
    /// Its module.
    pub text: String,
    /// Whether the package ships it.
    pub is_shipped: bool,
}

/// Path of a kernel in `ptx/`.
pub fn file_name(entry: &Entry) -> PathBuf {
    Path::new(entry.target.name()).join(format!("{}.ptx", entry.name))
}

/// Purpose for which kernels are wanted.
#[derive(Clone, Copy, PartialEq)]
pub enum Purpose {
    /// A build of the package.
    Build,
    /// Shipping: recompiles shipped PTX that differs from the compiler's output, which other purposes refuse.
    Ship,
    /// A trial: kernels are compiled apart from those of their folder, and are not kept.
    Try,
    /// A build of programs that are given the PTX of the one kernel that they judge: of others they take what is shipped,
    /// whatever its sources were.
    Judge,
}

/// The kernels that `wanted` picks: shipped ones if their sources have not changed (to [`Purpose::Judge`] this is no
/// matter) and rustc is to compile them, else ones that an earlier build left in `builds`; the rest are compiled now.
///
/// # Errors
/// Shipped PTX differs from the compiler's output; errors of [`compile`].
pub fn provide(
    package: &Path,
    builds: &Path,
    compiler: Compiler,
    purpose: Purpose,
    wanted: impl Fn(&Entry) -> bool,
) -> Result<Vec<Kernel>> {
    let all = sources::sources(package)?;
    let kept = builds.join("ptx");
    let folders = [(package.join("ptx"), true), (kept.clone(), false)]
        .into_iter()
        .filter(|(_, is_shipped)| !is_shipped || compiler == Compiler::Rustc);
    let mut folders: Vec<_> = folders
        .map(|(folder, is_shipped)| {
            let manifest = read_manifest(&folder);
            (folder, manifest, is_shipped)
        })
        .collect();
    let apart = matches!(purpose, Purpose::Try | Purpose::Judge);
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for entry in ENTRIES.iter().filter(|entry| wanted(entry)) {
        let sources = all[entry.name].hash.clone();
        let file = file_name(entry);
        let mut text = None;
        for (folder, manifest, is_shipped) in &folders {
            let is_good = |known: &&Line| {
                known.sources == sources || purpose == Purpose::Judge && *is_shipped
            };
            let Some(known) = manifest.get(&file).filter(is_good) else {
                continue;
            };
            let path = folder.join(&file);
            let read = fs::read_to_string(&path).unwrap_or_default();
            if hash(&read) == known.text {
                text = Some((read, *is_shipped));
                break;
            }
            if *is_shipped && purpose != Purpose::Ship {
                return Err(format!(
                    "{} is not what gpu/src compiled to, by the hash in gpu/ptx/{MANIFEST}: kernels are \
                     changed in gpu/src, and scripts/ptx writes gpu/ptx",
                    path.display()
                ));
            }
        }
        match text {
            Some((text, is_shipped)) => found.push(Kernel { entry, sources, text, is_shipped }),
            None => missing.push((entry, sources)),
        }
    }
    if missing.is_empty() {
        return Ok(found);
    }
    let beside = |entry: &Entry, missing: &Entry| {
        let folders = &all[missing.name].folders;
        entry.target == missing.target && !all[entry.name].folders.is_disjoint(folders)
    };
    let needed = |entry: &&Entry| {
        missing
            .iter()
            .any(|(missing, _)| missing.name == entry.name || !apart && beside(entry, missing))
    };
    let entries: Vec<&'static Entry> = ENTRIES.iter().filter(needed).collect();
    let mut compiled = compile(package, builds, compiler, &entries, &all)?;
    let (_, manifest, _) = folders.last_mut().expect("the folder of kept kernels");
    for (entry, sources) in missing {
        let text = compiled.remove(entry.name).expect("finished");
        if !apart {
            write(&kept.join(file_name(entry)), &text)?;
        }
        let line = Line { sources: sources.clone(), text: hash(&text) };
        manifest.insert(file_name(entry), line);
        found.push(Kernel { entry, sources, text, is_shipped: false });
    }
    if !apart {
        write(&kept.join(MANIFEST), manifest_text(manifest, compiler)?)?;
    }
    Ok(found)
}

/// Every kernel by rustc, compiled now whatever was compiled before.
pub fn compile_all(package: &Path, builds: &Path) -> Result<Vec<Kernel>> {
    let all = sources::sources(package)?;
    let entries: Vec<_> = ENTRIES.iter().collect();
    let mut compiled = compile(package, builds, Compiler::Rustc, &entries, &all)?;
    let mut kernel = |entry: &'static Entry| Kernel {
        entry,
        sources: all[entry.name].hash.clone(),
        text: compiled.remove(entry.name).expect("finished"),
        is_shipped: false,
    };
    Ok(ENTRIES.iter().map(&mut kernel).collect())
}

/// Makes `folder` hold these kernels and their manifest, and no other PTX.
pub fn write_all(folder: &Path, kernels: &[Kernel], compiler: Compiler) -> Result<()> {
    for path in beside(folder, kernels) {
        fs::remove_file(&path)
            .map_err(|error| format!("{}: cannot remove: {error}", path.display()))?;
    }
    for kernel in kernels {
        write_changed(&folder.join(file_name(kernel.entry)), &kernel.text)?;
    }
    write_changed(&folder.join(MANIFEST), &manifest_text(&manifest_of(kernels), compiler)?)
}

/// Fails unless `folder` holds these kernels, their manifest, and no other PTX.
pub fn check_all(folder: &Path, kernels: &[Kernel]) -> Result<()> {
    const ADVICE: &str = "run `scripts/ptx all` and commit gpu/ptx";
    if let Some(path) = beside(folder, kernels).first() {
        return Err(format!("{} is no kernel of gpu/src: {ADVICE}", path.display()));
    }
    let texts = kernels.iter().map(|kernel| (file_name(kernel.entry), kernel.text.clone()));
    let manifest = manifest_text(&manifest_of(kernels), Compiler::Rustc)?;
    for (file, text) in texts.chain([(MANIFEST.into(), manifest)]) {
        let path = folder.join(file);
        if fs::read_to_string(&path).unwrap_or_default() != text {
            return Err(format!("{} is not what gpu/src compiles to: {ADVICE}", path.display()));
        }
    }
    Ok(())
}

/// Writes a file and the folders above it, whole or not at all.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    let beside = path.with_added_extension(process::id().to_string());
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&beside, contents))
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|error| format!("{}: cannot write: {error}", path.display()))
}

/// Writes a file unless it holds the text already: one that stays keeps its date, and nothing is compiled again.
fn write_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) { Ok(()) } else { write(path, text) }
}

/// The `.ptx` files of `folder` that are not these kernels.
fn beside(folder: &Path, kernels: &[Kernel]) -> Vec<PathBuf> {
    let folders = Target::ALL.map(|target| folder.join(target.name()));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let ptx = paths.filter(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    let files: Vec<PathBuf> = kernels.iter().map(|kernel| file_name(kernel.entry)).collect();
    let stray = |path: &PathBuf| {
        path.strip_prefix(folder).is_ok_and(|file| files.iter().all(|known| known != file))
    };
    ptx.filter(stray).collect()
}

/// A file's line of the manifest: hashes of the sources and of the text.
#[derive(PartialEq)]
struct Line {
    sources: String,
    text: String,
}

fn manifest_of(kernels: &[Kernel]) -> BTreeMap<PathBuf, Line> {
    let line = |kernel: &Kernel| Line { sources: kernel.sources.clone(), text: hash(&kernel.text) };
    kernels.iter().map(|kernel| (file_name(kernel.entry), line(kernel))).collect()
}

/// The manifest of a folder; empty where there is none.
fn read_manifest(folder: &Path) -> BTreeMap<PathBuf, Line> {
    let text = fs::read_to_string(folder.join(MANIFEST)).unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (file, sources, text) = (words.next()?, words.next()?, words.next()?);
        Some((file.into(), Line { sources: sources.to_owned(), text: text.to_owned() }))
    });
    lines.collect()
}

fn manifest_text(lines: &BTreeMap<PathBuf, Line>, compiler: Compiler) -> Result<String> {
    let mut text = format!("compiler {}\n", compiler.version()?);
    for (file, line) in lines {
        // By components: a manifest is the same on every system.
        let file: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
        text += &format!("{} {} {}\n", file.join("/"), line.sources, line.text);
    }
    Ok(text)
}

fn hash(text: &str) -> String {
    sources::hex(&Sha256::digest(text))
}

/// The package whose build script or tool this is.
pub fn package() -> PathBuf {
    PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
}
