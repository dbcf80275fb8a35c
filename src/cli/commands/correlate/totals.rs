//! Totals of all dumps, and the sentences that they make.

use corrust::{correlate::Shape, run::Integration};

use crate::cli::commands::correlate::unit::Unit;
use crate::cli::terminal::numbers::{count, digits};
use crate::cli::terminal::say::warn;

/// Totals of all dumps.
#[derive(Default)]
pub struct Totals {
    pub unit: Unit,
    /// Whether samples are bits, which have no zero.
    pub bits: bool,
    /// Whether samples are flagged input by input.
    pub by_input: bool,
    /// Whether inputs are delayed, so that spectra at the ends ask for samples that there are not.
    pub delayed: bool,
    pub dumps: u64,
    pub times: u64,
    pub missing: u64,
    pub kept: u64,
    pub skipped: u64,
    /// Times that gates were fed with.
    pub fed: u64,
}

impl Totals {
    pub fn add(&mut self, integration: &Integration) {
        self.dumps += 1;
        self.times += integration.times;
        self.missing += integration.missing;
        self.kept += integration.kept;
        self.skipped += integration.skipped;
        self.fed += integration.gates.iter().map(|dump| dump.times).sum::<u64>();
    }

    /// Says which times of the recording are not in the dumps.
    pub fn warn(&self, recorded: u64, integration: u64) {
        let Self { unit, times, missing, kept, .. } = *self;
        let all = unit.several();
        if recorded > times && recorded < u64::MAX {
            warn(format_args!(
                "the last {} of {recorded} {all} do not fill a dump of {integration} and are left out",
                recorded - times
            ));
        }
        if missing > 0 {
            let of = if unit == Unit::Spectrum || self.bits || self.by_input {
                " for an input"
            } else {
                ""
            };
            let worth = if self.bits { "are left out" } else { "count as zero" };
            let why = match self.delayed {
                true => {
                    ": delayed inputs lack samples at the recording's ends, or samples are missing"
                }
                false => "",
            };
            warn(format_args!("{missing} of {times} {all} are missing{of} and {worth}{why}"));
        }
        if kept < times {
            warn(format_args!(
                "{} of {times} {all} belong to no gate and are dropped",
                times - kept
            ));
        }
    }

    /// Describes the samples and the dumps.
    pub fn describe(&self, shape: &Shape, interval: Option<f64>, gates: Option<usize>) -> String {
        let recorded = interval
            .map(|interval| format!(" ({} s of signal)", digits(interval * self.times as f64)))
            .unwrap_or_default();
        let gates = gates.map(|gates| format!(" of {}", count(gates, "gate"))).unwrap_or_default();
        format!(
            "correlated {} x {} x {}{recorded} into {}{gates}",
            count(shape.inputs, "input"),
            count(shape.channels, "channel"),
            self.unit.count(self.times),
            count(self.dumps, "dump")
        )
    }
}
