//! From the sources to the PTX of some kernels, by the device compiler in rustc or by Rust-CUDA's.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use crate::{
    Result,
    abi::{Entry, Target},
    finish::finish,
    nvvm,
    sources::Sources,
};

/// Where cargo looks for the standard library's sources instead of the toolchain's own folder.
pub const SOURCE_ROOT: &str = "__CARGO_TESTS_ONLY_SRC_ROOT";

/// Compiler of the kernels.
#[derive(Clone, Copy, PartialEq)]
pub enum Compiler {
    /// The host's rustc and its PTX backend.
    Rustc,
    /// Rust-CUDA's `cuda_builder`: `rustc_codegen_nvvm` and libnvvm.
    Nvvm,
}

impl Compiler {
    /// The folder that holds its device builds, for a cargo that builds in `target`.
    pub fn builds(self, package: &Path, target: &Path) -> PathBuf {
        match self {
            Self::Rustc => target.join("device"),
            Self::Nvvm => nvvm::folder(package),
        }
    }

    /// Its name and version.
    pub fn version(self) -> Result<String> {
        match self {
            Self::Rustc => {
                let version = Command::new(program("RUSTC", "rustc")).arg("--version").output();
                let version = version.map_err(|error| format!("rustc --version: {error}"))?;
                Ok(String::from_utf8_lossy(&version.stdout).trim().to_owned())
            }
            Self::Nvvm => Ok("Rust-CUDA".to_owned()),
        }
    }
}

/// Compiles these kernels, and nothing else of the crate, in the folder `builds`, and returns the PTX of each.
///
/// # Errors
/// Sources of core, or a compiler, that are missing; what the compiler says; what [`finish`] refuses.
pub fn compile(
    package: &Path,
    builds: &Path,
    compiler: Compiler,
    entries: &[&'static Entry],
    sources: &Sources,
) -> Result<BTreeMap<&'static str, String>> {
    // Sources of core for the one, the script that runs it for the other.
    let needed = match compiler {
        Compiler::Rustc => core_sources(package)?,
        Compiler::Nvvm => nvvm::script(package, builds)?,
    };
    fs::create_dir_all(builds).map_err(|error| format!("{}: {error}", builds.display()))?;
    // Another build may be at work there, on other kernels.
    let lock = File::create(builds.join("lock")).and_then(|file| file.lock().map(|()| file));
    let _lock = lock.map_err(|error| format!("{}/lock: {error}", builds.display()))?;
    let compiled: Result<Vec<_>> = thread::scope(|scope| {
        let jobs: Vec<_> = Target::ALL
            .iter()
            .filter_map(|&target| {
                let of_target = |entry: &&&'static Entry| entry.target == target;
                let entries: Vec<_> = entries.iter().filter(of_target).copied().collect();
                (!entries.is_empty()).then_some((target, entries))
            })
            .map(|(target, entries)| {
                let cfgs = cfgs(&entries, sources);
                let needed = &needed;
                scope.spawn(move || {
                    let ptx = match compiler {
                        Compiler::Rustc => {
                            let build = builds.join(target.name());
                            compile_target(package, needed, &build, target, &cfgs, "none")
                        }
                        Compiler::Nvvm => {
                            let bash = fresh("bash".into());
                            nvvm::compile_target(bash, needed, builds, target, &cfgs)
                        }
                    }?;
                    finish(&ptx, target, &entries)
                })
            })
            .collect();
        jobs.into_iter().map(|job| job.join().expect("a compile job panicked")).collect()
    });
    Ok(compiled?.into_iter().flatten().collect())
}

/// Names by which the crate's sources pick these kernels and the folders that they need.
pub fn cfgs(entries: &[&'static Entry], sources: &Sources) -> BTreeSet<String> {
    let needs = entries.iter().flat_map(|entry| &sources[entry.name].needs);
    let words = needs.map(|word| format!("corrust_word=\"{word}\""));
    let names = entries.iter().map(|entry| entry.name.to_owned());
    words.chain(names).chain(["corrust_some".to_owned()]).collect()
}

/// Program that a variable names, which cargo sets for build scripts.
pub fn program(variable: &str, name: &str) -> OsString {
    env::var_os(variable).unwrap_or_else(|| name.into())
}

/// Command without the variables that cargo sets for build scripts: a cargo that it starts builds by its own.
fn fresh(program: OsString) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let inherited = name.starts_with("CARGO_") && name != "CARGO_HOME"
            || name.starts_with("RUSTC") && name != "RUSTC"
            || ["RUSTFLAGS", "RUSTDOCFLAGS", "TARGET", "HOST", "OUT_DIR"].contains(&name.as_str());
        if inherited {
            command.env_remove(name);
        }
    }
    command
}

/// The folder `library` of the standard library's sources.
pub fn core_sources(package: &Path) -> Result<PathBuf> {
    let sysroot = Command::new(program("RUSTC", "rustc"))
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

/// Compiles the kernels that `cfgs` name, and the folders that these need, for `target`, and returns the PTX as LLVM
/// wrote it, with as much debug information as rustc's `-Cdebuginfo` names by `debug`: instructions are the same by any.
pub fn compile_target(
    package: &Path,
    core: &Path,
    build: &Path,
    target: Target,
    cfgs: &BTreeSet<String>,
    debug: &str,
) -> Result<String> {
    let mut command = fresh(program("CARGO", "cargo"));
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
        .args(["--", "--emit=asm", "--cap-lints=allow"])
        .args(cfgs.iter().map(|cfg| format!("--cfg={cfg}")))
        .env("RUSTC_BOOTSTRAP", "1")
        .env(SOURCE_ROOT, core)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3")
        .env("CARGO_PROFILE_RELEASE_DEBUG", debug);
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
