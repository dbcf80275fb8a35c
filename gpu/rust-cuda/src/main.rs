//! Compiles the kernels of `gpu/` that `CORRUST_CFGS` names, all without it, with Rust-CUDA, for the target given as the
//! first argument, and writes them as one module of PTX into the file given as the second. `gpu/build` finishes it.

use std::{env, error::Error, fs, path::PathBuf};

use cuda_builder::{CudaBuilder, NvvmArch};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [target, file] = &arguments[..] else {
        return Err("expected a target and a file: sm_80 module.ptx".into());
    };
    let arch = match target.as_str() {
        "sm_80" => NvvmArch::Compute80,
        "sm_90a" => NvvmArch::Compute90a,
        other => return Err(format!("target {other}: expected sm_80 or sm_90a").into()),
    };
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    // cuda_builder looks for its code generator below this folder, and else below one that is relative to another.
    // SAFETY: nothing else runs.
    unsafe { env::set_var("CARGO_WORKSPACE_DIR", &here) };
    // SAFETY: nothing else runs. The variable is for the kernels' build script.
    unsafe { env::set_var("CORRUST_TARGET", target) };
    let kernels = CudaBuilder::new(here.join("kernels")).arch(arch);
    let compiled = kernels.build().map_err(|error| error.to_string())?;
    fs::copy(compiled, file)?;
    Ok(())
}
