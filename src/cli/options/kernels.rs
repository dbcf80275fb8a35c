//! Kernels and tuning of all GPUs, for the commands that run kernels.

use std::path::PathBuf;

use clap::{ArgMatches, Args as _, Command, FromArgMatches, builder::Resettable};
#[cfg(feature = "sim")]
use corrust::{Error, bench::model::Model, device};
use corrust::{
    Result,
    device::{Kernels, Tuning},
};

#[cfg(feature = "sim")]
use crate::cli::terminal::say::say;

/// Kernels and tuning of all GPUs.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "GPU kernels")]
pub struct KernelArgs {
    /// File or folder of PTX with kernels that replace the built-in ones (or CORRUST_PTX)
    #[arg(long, global = true, value_name = "PATH", hide_short_help = true)]
    ptx: Option<PathBuf>,
    /// Table of `corrust bench --tune` for the choice of kernels (or CORRUST_TUNING)
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    tuning: Option<PathBuf>,
    /// Print what device sim counted of each kernel (instructions, bank conflicts, sectors of memory, divergent branches), or
    /// what a model predicted of it (units, registers, what is spilled)
    #[cfg(feature = "sim")]
    #[arg(long, global = true, hide_short_help = true)]
    report: bool,
    /// Whether no device that is named can be a simulator or a model. A plan of `observe` names its devices itself.
    #[cfg(feature = "sim")]
    #[arg(skip)]
    not_simulated: bool,
}

/// Command that has devices, and no option `--device`.
const OBSERVE: &str = "observe";

impl KernelArgs {
    /// Adds the options to a command if it runs kernels.
    pub fn added(command: Command) -> Command {
        let has_device = command.get_arguments().any(|argument| argument.get_id() == "device");
        match has_device || command.get_name() == OBSERVE {
            true => {
                // Added options bring the words about them along.
                let (about, long) =
                    (command.get_about().cloned(), command.get_long_about().cloned());
                Self::augment_args(command)
                    .about(Resettable::from(about))
                    .long_about(Resettable::from(long))
            }
            false => command,
        }
    }

    /// Options of the command of `all` that was given.
    pub fn of(all: &Command, matches: &ArgMatches) -> clap::error::Result<Self> {
        let has_them = |command: &Command| command.get_arguments().any(|it| it.get_id() == "ptx");
        let given = matches
            .subcommand()
            .filter(|(name, _)| all.find_subcommand(name).is_some_and(has_them));
        let Some((_name, given)) = given else { return Ok(Self::default()) };
        let found = Self::from_arg_matches(given)?;
        #[cfg(feature = "sim")]
        let found = {
            let device = given.try_get_raw("device").ok().flatten();
            let simulates = |device: &str| device.contains("sim") || device.starts_with("model:");
            let is_sim = device
                .is_some_and(|mut all| all.any(|device| simulates(&device.to_string_lossy())));
            Self { not_simulated: !is_sim && _name != OBSERVE, ..found }
        };
        Ok(found)
    }

    /// Sets the kernels and the tuning that were named for all GPUs.
    pub fn set(&self) -> Result<()> {
        if let Some(path) = &self.ptx {
            Kernels::read(path)?.set()?;
        }
        self.tuning.as_deref().map_or(Ok(()), |path| Tuning::read(path)?.set())
    }

    /// Fails if counts are asked for where no simulator can run a kernel, before any work.
    #[cfg(feature = "sim")]
    pub fn check(&self) -> Result<()> {
        match self.report && self.not_simulated {
            true => Err(Error::invalid(NOT_SIMULATED)),
            false => Ok(()),
        }
    }

    #[cfg(not(feature = "sim"))]
    pub fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Prints what simulators counted and models predicted, if it was asked for.
    #[cfg(feature = "sim")]
    pub fn print_reports(&self) -> Result<()> {
        if !self.report {
            return Ok(());
        }
        let counted = device::reports().into_values().map(|report| report.to_string());
        let reports: Vec<String> = counted.chain(Model::reports()).collect();
        if reports.is_empty() {
            return Err(Error::invalid(NOT_SIMULATED));
        }
        reports.iter().for_each(|report| say(report.trim_end()));
        Ok(())
    }

    #[cfg(not(feature = "sim"))]
    pub fn print_reports(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(feature = "sim")]
const NOT_SIMULATED: &str =
    "--report: no kernel ran on a simulator, expected --device sim, or model:CHIP of bench";
