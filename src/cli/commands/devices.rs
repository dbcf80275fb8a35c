//! `corrust devices`.

use corrust::{
    Correlator, Device, Result,
    device::{Facts, cuda},
};
use corrust_gpu::abi::Target;

use serde_json::{Value, json};

use crate::cli::terminal::say::say;

/// List the devices that --device accepts, or why there is no GPU
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  corrust devices
  corrust devices --json";

impl Args {
    /// Prints a line per device.
    pub fn run(self) -> Result<()> {
        let cpu = Correlator::builder(1, 1).device(Device::Cpu).build()?;
        if self.json {
            let devices = serde_json::to_string_pretty(&described(&cpu));
            say(devices.expect("text and numbers"));
            return Ok(());
        }
        say(format_args!("{:<8}{}, kernel {}", "cpu", cpu.device_name(), cpu.kernel()));
        match cuda::count() {
            Ok(count) => {
                for ordinal in 0..count {
                    let line = match cuda::facts(ordinal) {
                        Ok(facts) => describe(&facts),
                        Err(error) => error.to_string(),
                    };
                    say(format_args!("{:<8}{line}", format!("cuda:{ordinal}")));
                }
            }
            Err(reason) => say(reason),
        }
        if cfg!(feature = "sim") {
            say(format_args!("{:<8}the GPU kernels run on the CPU, for tests", "sim"));
        }
        Ok(())
    }
}

/// The devices, for programs.
fn described(cpu: &Correlator) -> Value {
    let mut devices =
        vec![json!({"device": "cpu", "name": cpu.device_name(), "kernel": cpu.kernel().name()})];
    let (count, reason) = match cuda::count() {
        Ok(count) => (count, None),
        Err(reason) => (0, Some(reason.to_string())),
    };
    devices.extend((0..count).map(|ordinal| {
        let device = format!("cuda:{ordinal}");
        match cuda::facts(ordinal) {
            Ok(facts) => json!({
                "device": device, "name": facts.name, "memory_bytes": facts.memory,
                "compute_capability": [facts.capability.0, facts.capability.1],
                "multiprocessors": facts.multiprocessors, "driver_cuda": [facts.driver.0, facts.driver.1],
                "ptx": targets(&facts),
            }),
            Err(error) => json!({"device": device, "error": error.to_string()}),
        }
    }));
    if cfg!(feature = "sim") {
        devices.push(json!({"device": "sim", "name": "the GPU kernels run on the CPU, for tests"}));
    }
    json!({"devices": devices, "no_gpu": reason})
}

/// Targets of PTX that a GPU runs.
fn targets(facts: &Facts) -> Vec<&'static str> {
    Target::ALL.into_iter().filter(|&target| facts.runs(target)).map(Target::name).collect()
}

/// A GPU in one line.
fn describe(facts: &Facts) -> String {
    let targets = targets(facts);
    let ptx = if targets.is_empty() {
        "too old for the kernels, which need compute capability 8.0".to_owned()
    } else {
        format!("PTX {}", targets.join(" and "))
    };
    format!(
        "{}, {:.1} GiB, compute capability {}.{}, {} SMs, driver for CUDA {}.{}, {ptx}",
        facts.name,
        facts.memory as f64 / f64::from(1 << 30),
        facts.capability.0,
        facts.capability.1,
        facts.multiprocessors,
        facts.driver.0,
        facts.driver.1
    )
}
