//! Compiles the kernels of `gpu/`, as its build script does, without touching what cargo has built:
//!
//! - `refresh`: writes the PTX that `gpu/ptx` ships, with its manifest; compiles kernels whose sources changed.
//! - `all`: the same of every kernel, whatever was compiled before.
//! - `check`: compiles every kernel and fails unless `gpu/ptx` ships the same.
//! - `list`: prints every kernel with its threads, least blocks of a multiprocessor, and bytes of shared memory.
//! - `first`: compiles the least kernel of each target, and `core` with it, once for all that are compiled later; the same with
//!   lines of Rust.
//! - `nvvm`: compiles kernels whose sources changed with Rust-CUDA and keeps all in `ptx/` of its folder, for `CORRUST_PTX`.
//! - `lines KERNEL FILE LINE ...`: prints of each line of a kernel's PTX, which rustc compiled from the sources of now, the
//!   lines of Rust that it came from, the innermost first, on a line.
//! - `one COMPILER KERNEL FILE`: writes the PTX of one kernel by `rustc` or `nvvm`, prints a test that launches it, options
//!   by which `ptx-sim` launches it, if there are any, and its declared bank conflicts and sectors.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

#[allow(dead_code, missing_docs, unused_imports)]
#[path = "../../src/abi/mod.rs"]
mod abi;
#[path = "../../build/compile.rs"]
mod compile;
#[path = "../../build/finish.rs"]
mod finish;
mod launches;
mod lines;
#[path = "../../build/nvvm.rs"]
mod nvvm;
#[allow(dead_code)]
#[path = "../../build/shipped.rs"]
mod shipped;
#[path = "../../build/sources.rs"]
mod sources;
#[path = "../../src/ptx/split.rs"]
mod split;
#[cfg(test)]
mod tests;

use compile::Compiler;
use shipped::Purpose;
pub use sources::Result;

fn main() {
    if let Err(message) = run() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let package = shipped::package().parent().map(Path::to_owned).unwrap_or_default();
    let program = env::current_exe().map_err(|error| error.to_string())?;
    // target/PROFILE/corrust-gpu-builder
    let target = program.ancestors().nth(2).unwrap_or(&program);
    let builds = Compiler::Rustc.builds(&package, target);
    let ptx = package.join("ptx");
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["refresh"] => {
            let kernels =
                shipped::provide(&package, &builds, Compiler::Rustc, Purpose::Ship, |_| true)?;
            let changed: Vec<&str> = kernels
                .iter()
                .filter(|kernel| !kernel.is_shipped)
                .map(|kernel| kernel.entry.name)
                .collect();
            if !changed.is_empty() {
                println!(
                    "gpu/ptx: {} kernels of changed sources: {}",
                    changed.len(),
                    changed.join(", ")
                );
            }
            shipped::write_all(&ptx, &kernels, Compiler::Rustc)
        }
        ["all"] => {
            let kernels = shipped::compile_all(&package, &builds)?;
            shipped::write_all(&ptx, &kernels, Compiler::Rustc)
        }
        ["check"] => shipped::check_all(&ptx, &shipped::compile_all(&package, &builds)?),
        ["first"] => first(&package, &builds),
        ["nvvm"] => {
            let folder = Compiler::Nvvm.builds(&package, target);
            let kernels =
                shipped::provide(&package, &folder, Compiler::Nvvm, Purpose::Build, |_| true)?;
            println!("{}", folder.join("ptx").display());
            shipped::write_all(&folder.join("ptx"), &kernels, Compiler::Nvvm)
        }
        ["one", compiler, kernel, file] => one(&package, target, compiler, kernel, file),
        ["lines", kernel, file, numbers @ ..] => lines(&package, &builds, kernel, file, numbers),
        ["list"] => {
            for abi::Entry { name, threads, min_blocks, shared_bytes, .. } in abi::ENTRIES {
                println!("{name} {threads} {min_blocks} {shared_bytes}");
            }
            Ok(())
        }
        _ => {
            let commands = "refresh, all, check, first, nvvm, list, lines KERNEL FILE LINE ..., or one COMPILER KERNEL FILE";
            Err(format!("expected {commands}"))
        }
    }
}

/// Writes the PTX of one kernel, and prints what launches it.
fn one(package: &Path, target: &Path, compiler: &str, kernel: &str, file: &str) -> Result<()> {
    let compiler = match compiler {
        "rustc" => Compiler::Rustc,
        "nvvm" => Compiler::Nvvm,
        other => return Err(format!("compiler {other}: expected rustc or nvvm")),
    };
    let builds = compiler.builds(package, target);
    let is_wanted = |entry: &abi::Entry| entry.name == kernel;
    let kernels = shipped::provide(package, &builds, compiler, Purpose::Try, is_wanted)?;
    let [found] = &kernels[..] else {
        return Err(format!("{kernel} is no kernel of gpu/src/abi{}", launches::near(kernel)));
    };
    println!("{}", launches::suite(found.entry));
    println!("{}", launches::options(found.entry, launches::SMALL).unwrap_or_default());
    println!("{}\n{}", found.entry.conflicts, found.entry.sectors);
    shipped::write(&PathBuf::from(file), &found.text)
}

/// Prints the lines of Rust of lines of PTX.
fn lines(package: &Path, builds: &Path, kernel: &str, file: &str, numbers: &[&str]) -> Result<()> {
    let entry = abi::ENTRIES.iter().find(|entry| entry.name == kernel);
    let entry = entry.ok_or_else(|| format!("{kernel} is no kernel of gpu/src/abi"))?;
    let ptx = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let lines = lines::compile(package, builds, entry, &sources::sources(package)?)?;
    for number in numbers {
        let number = number.parse().map_err(|_| format!("line {number}: expected a number"))?;
        println!("{}", lines.places(package, entry, &ptx, number)?.join(" "));
    }
    Ok(())
}

/// Compiles the least kernel of each target, without lines and with them.
fn first(package: &Path, builds: &Path) -> Result<()> {
    let least = abi::Target::ALL.iter().filter_map(|&target| {
        let of_target = abi::ENTRIES.iter().filter(|entry| entry.target == target);
        of_target.min_by_key(|entry| entry.fields.len())
    });
    let least: Vec<_> = least.collect();
    let sources = sources::sources(package)?;
    compile::compile(package, builds, Compiler::Rustc, &least, &sources)?;
    least.iter().try_for_each(|entry| lines::compile(package, builds, entry, &sources).map(drop))
}
