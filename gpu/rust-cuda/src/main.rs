//! Compiles the kernels of `gpu/` with Rust-CUDA and writes them, a file each, into the folder given as the
//! argument (`target/ptx` without one), which `CORRUST_PTX` can name.

use std::{env, error::Error, fs, path::PathBuf};

use corrust_gpu::abi::{self, Target};
use cuda_builder::{CudaBuilder, NvvmArch};

#[path = "../../build/finish.rs"]
mod finish;
#[path = "../../src/ptx/split.rs"]
mod split;

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folder = env::args_os().nth(1).map_or_else(|| here.join("target/ptx"), PathBuf::from);
    fs::create_dir_all(&folder)?;
    // cuda_builder looks for its code generator below this folder, and else below one that is relative to another.
    // SAFETY: nothing else runs.
    unsafe { env::set_var("CARGO_WORKSPACE_DIR", &here) };
    let entries: Vec<_> = abi::ENTRIES.iter().collect();
    for target in Target::ALL {
        let arch = match target {
            Target::Sm80 => NvvmArch::Compute80,
            Target::Sm90a => NvvmArch::Compute90a,
        };
        // SAFETY: nothing else runs. The variable is for the kernels' build script.
        unsafe { env::set_var("CORRUST_TARGET", target.name()) };
        let kernels = CudaBuilder::new(here.join("kernels")).arch(arch);
        let compiled = kernels.build().map_err(|error| error.to_string())?;
        for (name, ptx) in finish::finish(&fs::read_to_string(compiled)?, target, &entries)? {
            let path = folder.join(format!("{name}.ptx"));
            fs::write(&path, ptx)?;
            println!("{}", path.display());
        }
    }
    Ok(())
}
