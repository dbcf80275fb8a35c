//! Command `ptx-sim`: runs an entry of a PTX file on the CPU, and says what it did wrong or what it did.

mod arguments;
mod findings;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use ptx_sim::cli::{Parameters, at, module};
use ptx_sim::{Checks, Error, Launch, Memory, Report, launch_with};

use arguments::{Arguments, Format, Task};
use findings::Findings;

/// Exit code for a kernel in which something was found.
const FOUND: u8 = 1;
/// Exit code for input that cannot be run.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FOUND),
        Err(sentence) => {
            // A closed pipe is no reason to fail differently.
            let _ = writeln!(std::io::stderr(), "ptx-sim: {sentence}");
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// Carries out a command. Returns whether the kernel is clean; an error is one sentence about the input.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let (task, input) = arguments.task();
    let file = input.file.display().to_string();
    let (text, module, entry) = module(&input.file, input.entry.as_deref())?;
    let declared = module.entries().find(|e| e.name == entry).expect("the module has it");
    let memory = Memory::new();
    let parameters = Parameters::place(&input.parameters, declared.params, &memory)?;
    parameters.can_save(&input.saves)?;
    let launched = Launch {
        entry: &entry,
        grid: input.grid,
        block: input.block,
        shared_bytes: input.shared,
        params: &parameters.packed,
        cluster: input.cluster,
        tensor: input.tensor.unwrap_or_default(),
    };
    let checks = if input.unchecked { Checks::NONE } else { Checks::default() };
    let result = launch_with(&module, &memory, launched, checks);
    let (report, fault) = match result {
        Ok(report) => (Some(report), None),
        Err(Error::Fault(fault)) => (None, Some(*fault)),
        Err(error) => return Err(at(&file, &error)),
    };
    let findings = Findings::new(&file, &text, &entry, fault, report.as_ref());
    let clean = findings.clean();
    if clean {
        parameters.save(&input.saves, &memory)?;
    }
    print(&output(task, input.format(), &findings, report.as_ref()))?;
    Ok(clean)
}

/// Text of the answer.
fn output(task: Task, format: Format, findings: &Findings, report: Option<&Report>) -> String {
    match (task, format, report) {
        (Task::Report, Format::Text, Some(report)) => report.to_string(),
        (Task::Report, Format::Json, Some(report)) => report.to_json() + "\n",
        (_, Format::Json, _) => findings.to_json(),
        (_, Format::Sarif, _) => findings.to_sarif(),
        (Task::Run, Format::Text, Some(report)) => {
            let total = report.total();
            format!(
                "{}{}: {} blocks, {} warp instructions\n",
                findings.to_text(),
                report.kernels.join(", "),
                report.blocks,
                total.warps
            )
        }
        (Task::Check, Format::Text, Some(_)) => {
            format!("{}{}: nothing found\n", findings.to_text(), findings.entry())
        }
        (_, Format::Text, _) => findings.to_text(),
    }
}

fn print(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("the answer cannot be written: {error}"))
        }
        _ => Ok(()),
    }
}
