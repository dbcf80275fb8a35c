//! Arguments of the command.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use ptx_sim::Tensor;
use ptx_sim::cli::{Argument, Save, extents, tensor};

/// Runs PTX on the CPU, without a GPU: checks it, runs it, reports what the hardware would see.
#[derive(Parser)]
#[command(name = "ptx-sim", version, about, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs an entry with every check and prints what it finds. Exit code 1 when there is something
    Check(Input),
    /// Runs an entry; `--save` keeps its buffers
    Run(Input),
    /// Runs an entry and prints what it did: bank conflicts, sectors, divergence, the mix of instructions
    Report(Input),
}

/// Command that was given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Check,
    Run,
    Report,
}

/// Form of the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
    Sarif,
}

/// Launch of an entry.
#[derive(Args)]
pub struct Input {
    /// PTX file
    pub file: PathBuf,
    /// Entry to launch; may be left out where the file has one
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
    /// Blocks along x, y, z, such as 4 or 4,2,1
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1", value_parser = extents)]
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z, such as 128 or 32,8
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "32", value_parser = extents)]
    pub block: [u32; 3],
    /// Blocks of a cluster along x, y, z, such as 2 or 2,2; as the PTX says by default
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = extents)]
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory of a block in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub shared: u32,
    /// Parameter, in the entry's order: buffer:FILE.npy, buffer:BYTES (zeros), buffer:BYTES,fill=0xff,
    /// u32:5 (u8 to u64, s8 to s64, f32, f64), bytes:FILE for a struct, or its fields with + between,
    /// such as buffer:4096+u64:1024, each aligned to its size
    #[arg(long = "param", value_name = "PARAMETER", value_parser = Argument::parse)]
    pub parameters: Vec<Argument>,
    /// Saves the buffer of parameter N, from 0, to a NumPy file after a clean run: N=FILE.npy
    #[arg(long = "save", value_name = "N=FILE", value_parser = Save::parse)]
    pub saves: Vec<Save>,
    /// Rounds sums of floating products in matrix units as a chip does, or exact sums once: exact, a100
    /// or h100; by default mma.sync much as an A100, wgmma as an H100
    #[arg(long, value_name = "MODEL", value_parser = tensor)]
    pub tensor: Option<Tensor>,
    /// Leaves out the checks for races and for reads of memory that nothing wrote
    #[arg(long)]
    pub unchecked: bool,
    /// Prints JSON
    #[arg(long, conflicts_with = "sarif")]
    json: bool,
    /// Prints findings as SARIF 2.1.0, as code scanning takes it
    #[arg(long)]
    sarif: bool,
}

impl Arguments {
    /// The command, and what it is to launch.
    pub fn task(&self) -> (Task, &Input) {
        match &self.command {
            Command::Check(input) => (Task::Check, input),
            Command::Run(input) => (Task::Run, input),
            Command::Report(input) => (Task::Report, input),
        }
    }
}

impl Input {
    /// Form in which the answer is printed.
    pub fn format(&self) -> Format {
        match (self.json, self.sarif) {
            (true, _) => Format::Json,
            (_, true) => Format::Sarif,
            _ => Format::Text,
        }
    }
}
