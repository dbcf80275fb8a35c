//! Provides the PTX of the kernels: the shipped one where `ptx/manifest.txt` names these very
//! sources, otherwise one compiled now from `src/` by the device compiler in rustc.
//!
//! `CORRUST_PTX=refresh` compiles always and writes the result to `ptx/`; `CORRUST_PTX=check`
//! compiles always and fails unless it equals what `ptx/` ships.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use sha2::{Digest, Sha256};

#[allow(dead_code, missing_docs)]
#[path = "src/abi/mod.rs"]
mod abi;

mod finish;

use abi::Target;
use finish::finish;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=finish.rs");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=ptx");
    println!("cargo:rerun-if-env-changed=CORRUST_PTX");
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

type Result<T> = std::result::Result<T, String>;

fn provide_ptx() -> Result<()> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let shipped = package.join("ptx");
    let mode = env::var("CORRUST_PTX").unwrap_or_default();
    let sources = source_hash(&package)?;
    let manifest = fs::read_to_string(shipped.join("manifest.txt")).unwrap_or_default();
    let current = manifest.lines().any(|line| line == format!("sources {sources}"));

    let folder = if current && mode.is_empty() {
        shipped
    } else {
        let compiled = compile_all(&package, &out)?;
        for (target, ptx) in &compiled {
            write(&out.join(file_name(*target)), ptx)?;
        }
        let manifest = manifest_text(&sources, &compiled)?;
        match mode.as_str() {
            "" => println!(
                "cargo:warning=gpu/ptx is older than gpu/src: scripts/ptx refreshes what is shipped"
            ),
            "refresh" => {
                fs::create_dir_all(&shipped)
                    .map_err(|error| format!("{}: {error}", shipped.display()))?;
                for (target, ptx) in &compiled {
                    write(&shipped.join(file_name(*target)), ptx)?;
                }
                write(&shipped.join("manifest.txt"), &manifest)?;
            }
            "check" => {
                for (target, ptx) in &compiled {
                    let path = shipped.join(file_name(*target));
                    if fs::read_to_string(&path).unwrap_or_default() != *ptx {
                        return Err(format!(
                            "{} is not what gpu/src compiles to: run scripts/ptx and commit gpu/ptx",
                            path.display()
                        ));
                    }
                }
                if fs::read_to_string(shipped.join("manifest.txt")).unwrap_or_default() != manifest
                {
                    return Err(
                        "gpu/ptx/manifest.txt is stale: run scripts/ptx and commit gpu/ptx"
                            .to_owned(),
                    );
                }
            }
            other => return Err(format!("CORRUST_PTX={other}: expected refresh or check")),
        }
        out
    };
    for target in Target::ALL {
        println!(
            "cargo:rustc-env=CORRUST_PTX_{}={}",
            target.name().to_uppercase(),
            folder.join(file_name(target)).display()
        );
    }
    Ok(())
}

fn file_name(target: Target) -> String {
    format!("{}.ptx", target.name())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| format!("{}: cannot write: {error}", path.display()))
}

/// Hash of every file that the PTX depends on: names and contents, in order.
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
        hash.update(file.strip_prefix(package).unwrap_or(&file).to_string_lossy().as_bytes());
        // Line ends are the version control system's affair.
        hash.update(contents.replace("\r\n", "\n").as_bytes());
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn manifest_text(sources: &str, compiled: &[(Target, String)]) -> Result<String> {
    let version = Command::new(env::var_os("RUSTC").unwrap())
        .arg("--version")
        .output()
        .map_err(|error| format!("rustc --version: {error}"))?;
    let version = String::from_utf8_lossy(&version.stdout);
    let mut text = format!("sources {sources}\ncompiler {}\n", version.trim());
    for (target, ptx) in compiled {
        let hash: String = Sha256::digest(ptx).iter().map(|byte| format!("{byte:02x}")).collect();
        text += &format!("target {} {hash}\n", target.name());
    }
    Ok(text)
}

fn compile_all(package: &Path, out: &Path) -> Result<Vec<(Target, String)>> {
    let sources = core_sources(package)?;
    // OUT_DIR is target/PROFILE/build/PACKAGE/out: all profiles share one device build.
    let builds = out.ancestors().nth(4).unwrap_or(out).join("device");
    thread::scope(|scope| {
        let jobs = Target::ALL.map(|target| {
            let (sources, builds) = (&sources, &builds);
            scope.spawn(move || -> Result<_> {
                let ptx = compile(package, sources, &builds.join(target.name()), target)?;
                Ok((target, finish(&ptx, target)?))
            })
        });
        jobs.into_iter().map(|job| job.join().expect("a compile job panicked")).collect()
    })
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
