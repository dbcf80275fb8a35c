//! Sets `cfg(cuda)` where GPUs are built in: with the feature `cuda` or the compiler flag `--cfg corrust_cuda`,
//! on the platforms that NVIDIA's driver runs on (`cuda/README.md`).

use std::{env, path::Path};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CUDA_LIBRARY_PATH");
    println!("cargo::rustc-check-cfg=cfg(cuda)");
    let is =
        |name: &str, values: &[&str]| env::var(name).is_ok_and(|v| values.contains(&v.as_str()));
    if !is("CARGO_CFG_TARGET_OS", &["linux"])
        || !is("CARGO_CFG_TARGET_ARCH", &["x86_64", "aarch64"])
    {
        return;
    }
    let there = |name| env::var_os(name).is_some();
    if there("CARGO_FEATURE_CUDA") || there("CARGO_CFG_CORRUST_CUDA") {
        println!("cargo::rustc-cfg=cuda");
    } else if stands_for_cuda() {
        // Flags in RUSTFLAGS replace those of .cargo/config.toml, and Cargo does not say so.
        println!(
            "cargo::warning=CUDA_LIBRARY_PATH names corrust's host/cuda, but this build has no GPUs: expected \
             the feature cuda, or --cfg corrust_cuda among the compiler's flags (RUSTFLAGS replaces those \
             of .cargo/config.toml)"
        );
    }
}

/// Whether this package's folder `cuda` is what Cargo is told to take for CUDA.
fn stands_for_cuda() -> bool {
    let Some(named) = env::var_os("CUDA_LIBRARY_PATH") else { return false };
    let Some(package) = env::var_os("CARGO_MANIFEST_DIR") else { return false };
    let own = Path::new(&package).join("cuda");
    own.canonicalize().is_ok_and(|own| {
        env::split_paths(&named).any(|path| path.canonicalize().is_ok_and(|path| path == own))
    })
}
