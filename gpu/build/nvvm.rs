//! From the sources to the PTX of some kernels, by Rust-CUDA's compiler, which `rust-cuda/toolchain` fetches and runs.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::abi::Target;

/// Names the folder that `rust-cuda/toolchain` filled, relative to the project's; `.rust-cuda` without it.
pub const FOLDER: &str = "CORRUST_NVVM";

/// The folder of the compiler, whether it is there or not.
pub fn folder(package: &Path) -> PathBuf {
    let named = env::var_os(FOLDER).unwrap_or_else(|| ".rust-cuda".into());
    package.parent().unwrap_or(package).join(named)
}

/// The script that runs the compiler in `folder`.
///
/// # Errors
/// A package without the script; a folder without a compiler.
pub fn script(package: &Path, folder: &Path) -> Result<PathBuf, String> {
    let script = package.join("rust-cuda/toolchain");
    if !script.is_file() {
        return Err(format!(
            "{} is missing, which runs Rust-CUDA's compiler: the packages on crates.io have rustc's PTX alone, so \
             build from the repository",
            script.display()
        ));
    }
    if !folder.join("done/codegen").is_file() {
        let folder = folder.display();
        return Err(format!(
            "Rust-CUDA's compiler (rustc_codegen_nvvm) is missing in {folder}: run `gpu/rust-cuda/toolchain {folder}`, \
             or let {FOLDER} name the folder that has it."
        ));
    }
    Ok(script)
}

/// Compiles the kernels that `cfgs` name, and the folders that these need, for `target`, and returns the PTX as libnvvm
/// wrote it; `bash` is to have no variables of the build that asks.
pub fn compile_target(
    mut bash: Command,
    script: &Path,
    folder: &Path,
    target: Target,
    cfgs: &BTreeSet<String>,
) -> Result<String, String> {
    let path = folder.join(target.name()).with_extension("ptx");
    // A compiler and an output folder of its own.
    for name in ["CARGO", "RUSTC", "PROFILE"] {
        bash.env_remove(name);
    }
    bash.arg(script).arg(folder).args(["module", target.name()]).arg(&path).args(cfgs);
    let output = bash.output().map_err(|error| format!("bash: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "compiling gpu/ for {} by Rust-CUDA failed:\n{}",
            target.name(),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let ptx = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    // The next compilation must not find this one's.
    fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(ptx)
}
