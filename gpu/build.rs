//! Provides the PTX of the kernels: what `ptx/` ships where `ptx/manifest.txt` names these very sources, otherwise
//! PTX compiled now from `src/` by the device compiler in rustc. With the feature `nvvm` all PTX is of Rust-CUDA's compiler.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

#[allow(dead_code, missing_docs, unused_imports)]
#[path = "src/abi/mod.rs"]
mod abi;
#[path = "build/compile.rs"]
mod compile;
#[path = "build/finish.rs"]
mod finish;
#[path = "build/nvvm.rs"]
mod nvvm;
#[allow(dead_code)]
#[path = "build/shipped.rs"]
mod shipped;
#[path = "build/sources.rs"]
mod sources;
#[path = "src/ptx/split.rs"]
mod split;

use abi::ENTRIES;
use compile::Compiler;
use shipped::{Kernel, Purpose, package, provide, write};
pub use sources::Result;

fn main() {
    for path in ["build.rs", "build", "src", "ptx"] {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-env-changed={}", compile::SOURCE_ROOT);
    println!("cargo:rerun-if-env-changed={}", nvvm::FOLDER);
    println!("cargo:rerun-if-env-changed={JUDGE}");
    // Names of kernels that a device build picks: see `kernel!`.
    let names: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
    println!("cargo:rustc-check-cfg=cfg(corrust_some, {})", names.join(", "));
    println!("cargo:rustc-check-cfg=cfg(corrust_word, values(any()))");
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("nvptx64") {
        return;
    }
    if let Err(message) = run() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let is_nvvm = env::var_os("CARGO_FEATURE_NVVM").is_some();
    let compiler = if is_nvvm { Compiler::Nvvm } else { Compiler::Rustc };
    let package = package();
    // OUT_DIR is target/PROFILE/build/PACKAGE/out: all profiles share one device build.
    let builds = compiler.builds(&package, out.ancestors().nth(4).unwrap_or(&out));
    let purpose = if env::var_os(JUDGE).is_some() { Purpose::Judge } else { Purpose::Build };
    let kernels = provide(&package, &builds, compiler, purpose, |_| true)?;
    let others = kernels.iter().filter(|kernel| !kernel.is_shipped).count();
    if others > 0 && compiler == Compiler::Rustc {
        println!(
            "cargo:warning=gpu/ptx is older than gpu/src for {others} kernels: scripts/ptx refreshes what is shipped"
        );
    }
    let kept = builds.join("ptx");
    let project = package.parent().unwrap_or(&package);
    embed(kernels, kept.strip_prefix(project).unwrap_or(&kept), &out)
}

/// Writes the kernels compressed, and `kernels.rs`, which includes them by name. `kept` has those that are not shipped.
fn embed(mut kernels: Vec<Kernel>, kept: &Path, out: &Path) -> Result<()> {
    kernels.sort_by_key(|kernel| kernel.entry.name);
    let mut list = String::new();
    for Kernel { entry, text, is_shipped, .. } in kernels {
        let path = out.join("packed").join(entry.name);
        let packed = miniz_oxide::deflate::compress_to_vec(text.as_bytes(), LEVEL);
        // A kernel that stays keeps its date: nothing that includes it is compiled again.
        if fs::read(&path).ok().as_ref() != Some(&packed) {
            write(&path, packed)?;
        }
        let folder = if is_shipped { Path::new("gpu/ptx") } else { kept };
        let (name, file) = (entry.name, folder.join(shipped::file_name(entry)));
        list += &format!("    Kernel::new({name:?}, {file:?}, include_bytes!({path:?})),\n");
    }
    write(&out.join("kernels.rs"), format!("[\n{list}]\n"))
}

/// Is set where the built programs are given the PTX of the kernel that they judge (scripts/try).
const JUDGE: &str = "CORRUST_JUDGE";

/// Effort of the compression, of 10. The last four levels take twice the time for 1 % of the size.
const LEVEL: u8 = 6;
