//! `corrust devices`.

use corrust::{
    Correlator, Device, Result,
    device::{Facts, cuda},
};
use corrust_gpu::abi::Target;

use crate::cli::terminal::say::say;

/// List the devices that --device accepts: the CPU and the GPUs, or why there is no GPU
#[derive(Debug, clap::Args)]
pub struct Args {}

impl Args {
    /// Prints a line per device.
    pub fn run(self) -> Result<()> {
        let cpu = Correlator::builder(1, 1).device(Device::Cpu).build()?;
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

/// A GPU in one line.
fn describe(facts: &Facts) -> String {
    let targets: Vec<_> =
        Target::ALL.into_iter().filter(|&target| facts.runs(target)).map(Target::name).collect();
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
