//! Totals of all dumps, and the sentences that they make.

use corrust::{
    correlate::{Shape, baseline},
    run::Integration,
};

use crate::cli::input::unit::Unit;
use crate::cli::terminal::missing::{
    BEFORE, FLAGGED, LOST, LOST_OR_BEYOND, LOST_OR_FLAGGED, fractions,
};
use crate::cli::terminal::numbers::{count, digits};
use crate::cli::terminal::say::{note, warn};

/// Totals of all dumps.
#[derive(Default)]
pub struct Totals {
    pub unit: Unit,
    /// Whether samples are bits, which have no zero.
    pub bits: bool,
    pub inputs: usize,
    pub channels: usize,
    /// Times that each input is shifted by; empty without shifts.
    pub shifts: Vec<u64>,
    /// Whether inputs are delayed, so that spectra at the ends need samples beyond the recording.
    pub delayed: bool,
    pub dumps: u64,
    pub times: u64,
    /// Times of the last dump.
    pub last: u64,
    /// Samples of inputs that are valid.
    pub valid: f64,
    pub kept: u64,
    pub skipped: u64,
    /// Times that gates were fed with.
    pub fed: u64,
    /// Samples of the dumps that are missing as RFI; [`None`] where that is not known.
    pub flagged: Option<f64>,
}

impl Totals {
    pub fn add(&mut self, integration: &Integration) {
        self.dumps += 1;
        self.times += integration.times;
        self.last = integration.times;
        self.kept += integration.kept;
        self.skipped += integration.skipped;
        self.fed += integration.gates.iter().map(|dump| dump.times).sum::<u64>();
        for dump in &integration.gates {
            for channel in 0..self.channels {
                let of = |input| dump.valid.get(channel, baseline(input, input)) as f64;
                self.valid += (0..self.inputs).map(of).sum::<f64>();
            }
        }
    }

    /// Samples of the dumps.
    fn samples(&self) -> f64 {
        self.kept as f64 * (self.inputs * self.channels) as f64
    }

    /// Samples of the dumps that are missing.
    pub fn missing(&self) -> f64 {
        self.samples() - self.valid
    }

    /// Samples of the dumps that are flagged, of `flagged` ones of all channels and `recorded` times: known where there are none, or
    /// the dumps are of all of them.
    pub fn flagged_of(&self, flagged: f64, recorded: u64, all_channels: bool) -> Option<f64> {
        let all = all_channels && self.kept == self.times && self.times == recorded;
        (all || flagged == 0.0).then_some(flagged)
    }

    /// Says which times of the recording are not in the dumps, and which samples of those are missing; and how long a last dump is that is kept although it is shorter than the others. `named` comes
    /// first, where one command makes several products.
    pub fn warn(&self, named: &str, recorded: u64, integration: u64, keep_partial: bool) {
        let Self { unit, times, kept, last, .. } = *self;
        let all = unit.several();
        if recorded > times && recorded < u64::MAX {
            warn(format_args!(
                "{named}the last {} of {recorded} {all} do not fill a dump of {integration} and are left out",
                recorded - times
            ));
        }
        if keep_partial && self.dumps > 0 && last < integration {
            note(format_args!("{named}the last dump has {} of {integration}", unit.count(last)));
        }
        let samples = self.samples();
        let missing = self.missing();
        if missing > 0.0 {
            let before: u64 = self.shifts.iter().map(|&shift| shift.min(times)).sum();
            let before = (before as f64 * self.channels as f64).min(missing);
            let rest = missing - before;
            let (lost, flagged) = match self.flagged {
                Some(flagged) => {
                    (if self.delayed { LOST_OR_BEYOND } else { LOST }, flagged.min(rest))
                }
                None => (LOST_OR_FLAGGED, 0.0),
            };
            let causes = [(lost, rest - flagged), (BEFORE, before), (FLAGGED, flagged)];
            let worth = if self.bits { "are left out" } else { "count as zero" };
            warn(format_args!("{named}{} and {worth}", fractions(samples, &causes)));
        }
        if kept < times {
            warn(format_args!(
                "{named}{} of {times} {all} belong to no gate and are dropped",
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
