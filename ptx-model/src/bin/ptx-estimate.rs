//! Command `ptx-estimate`: predicts the time of an entry of a PTX file on a GPU that is not at hand.

use std::{
    io::{ErrorKind, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use ptx_model::{Chip, Code, Estimate, Sampled, code, estimate};
use ptx_sim::{
    Launch, Memory,
    cli::{Argument, Parameters, extents, module},
};

/// Predicts the time of a kernel on a GPU that is not at hand, from a simulation of some of its blocks.
///
/// Machine code comes from ptxas and nvdisasm where they are found (PTXAS and NVDISASM name them); else the PTX alone
/// is judged, and the range is wider. Every number is a prediction.
#[derive(Parser)]
#[command(name = "ptx-estimate", version, max_term_width = 100)]
struct Arguments {
    /// PTX file
    file: PathBuf,
    /// Entry to launch; may be left out where the file has one
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Chips, with commas between: a100, a30, a40, h100, h200, l40s, or files CHIP.json
    #[arg(long, value_name = "CHIP", value_delimiter = ',', required = true)]
    chip: Vec<String>,
    /// Blocks along x, y, z, such as 4 or 4,2,1
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1", value_parser = extents)]
    grid: [u32; 3],
    /// Threads of a block along x, y, z, such as 128 or 32,8
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "32", value_parser = extents)]
    block: [u32; 3],
    /// Dynamic shared memory of a block in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    shared: u32,
    /// Parameter, in the entry's order: buffer:FILE.npy, buffer:BYTES (zeros), buffer:BYTES,fill=0xff,
    /// u32:5 (u8 to u64, s8 to s64, f32, f64), or bytes:FILE for a struct
    #[arg(long = "param", value_name = "PARAMETER", value_parser = Argument::parse)]
    parameters: Vec<Argument>,
    /// Uses the PTX alone, whatever tools there are
    #[arg(long)]
    ptx_alone: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(text) => match std::io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => ExitCode::from(2),
            _ => ExitCode::SUCCESS,
        },
        Err(sentence) => {
            // A closed pipe is no reason to fail differently.
            let _ = writeln!(std::io::stderr(), "ptx-estimate: {sentence}");
            ExitCode::from(2)
        }
    }
}

/// Text of the answer; an error is one sentence about the input.
fn run(arguments: &Arguments) -> Result<String, String> {
    let chips = arguments.chip.iter().map(|name| Chip::named(name));
    let chips: Vec<Chip> = chips.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let file = arguments.file.display();
    let (text, module, entry) = module(&arguments.file, arguments.entry.as_deref())?;
    let declared = module.entries().find(|e| e.name == entry).expect("the module has it");
    let (min_blocks, cluster) = (declared.min_blocks, declared.cluster);
    let mut made: Vec<(String, Estimate)> = Vec::new();
    for chip in &chips {
        // Each chip has memory of its own: kernels change it.
        let memory = Memory::new();
        let parameters = Parameters::place(&arguments.parameters, declared.params, &memory)?;
        let code: Option<Code> = match arguments.ptx_alone {
            true => None,
            false => code::assemble(&text, &chip.arch)
                .map_err(|error| format!("{file}: {error}"))?
                .and_then(|mut kernels| kernels.remove(&entry)),
        };
        let launch = Launch {
            entry: &entry,
            grid: arguments.grid,
            block: arguments.block,
            shared_bytes: arguments.shared,
            params: &parameters.packed,
            ..Launch::default()
        };
        let sampled = Sampled { launch, min_blocks, cluster, tickets: None };
        let counts = sampled.count(&module, &memory, code.as_ref(), chip);
        let counts = counts.map_err(|error| format!("{file}: {error}"))?;
        let predicted = estimate(&counts, code.as_ref(), chip);
        made.push((chip.name.clone(), predicted.map_err(|error| format!("{file}: {error}"))?));
    }
    if arguments.json {
        let rows: Vec<serde_json::Value> = made
            .iter()
            .map(|(chip, estimate)| serde_json::json!({"chip": chip, "estimate": estimate}))
            .collect();
        return serde_json::to_string_pretty(&rows)
            .map(|text| text + "\n")
            .map_err(|error| error.to_string());
    }
    Ok(made.iter().map(|(chip, estimate)| format!("{entry} on {chip}: {estimate}")).collect())
}
