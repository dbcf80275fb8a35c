//! Gates of microtimes, and the sensors that they make of channels.

use std::path::Path;

use corrust_host::{Error, Result};

use super::Gate;

/// Most gates, and most sensors.
const MOST_GATES: usize = 1024;
const MOST_SENSORS: usize = 1 << 16;

/// Use of a channel's photons.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// The first of its sensors.
    pub sensor: u16,
    /// Whether it has any.
    pub wanted: bool,
}

/// A gate in units of microtime.
#[derive(Clone, Copy)]
pub(super) struct Units {
    pub start: u32,
    pub length: u32,
}

/// Gives channels their sensors, one for each gate, in `places`.
pub(super) fn place(places: &mut [Place], channels: &[usize], gates: usize) -> Result<()> {
    let each = gates.max(1);
    if each > MOST_GATES || channels.len() * each > MOST_SENSORS {
        return Err(Error::invalid(format!(
            "{each} gates of {} channels: expected at most {MOST_GATES}, and {MOST_SENSORS} sensors",
            channels.len()
        )));
    }
    for (index, &channel) in channels.iter().enumerate() {
        places[channel] = Place { sensor: (index * each) as u16, wanted: true };
    }
    Ok(())
}

/// Names of the sensors of channels.
pub(super) fn sensor_names(channels: impl Iterator<Item = String>, gates: &[Gate]) -> Vec<String> {
    let nanoseconds = |seconds: f64| (seconds * 1e12).round() / 1e3;
    let names = |channel: String| {
        if gates.is_empty() {
            return vec![format!("channel {channel}")];
        }
        let gates = gates.iter().map(|gate| {
            let [start, end] = [gate.start, gate.end].map(nanoseconds);
            format!("channel {channel} {start}..{end} ns")
        });
        gates.collect()
    };
    channels.flat_map(names).collect()
}

/// A gate as errors show it.
pub(super) fn shown(gate: &Gate) -> String {
    format!("gate {:e}..{:e} s", gate.start, gate.end)
}

/// Gates in units of microtime, to the nearest; they end within `period`, which `what` names.
pub(super) fn gate_units(
    path: &Path,
    unit: f64,
    (what, period): (&str, f64),
    gates: &[Gate],
) -> Result<Vec<Units>> {
    let units = |gate: &Gate| {
        let [start, end] = [gate.start, gate.end].map(|seconds| (seconds / unit).round() as u32);
        if gate.end > period * (1.0 + 1e-9) {
            let reason = format!("{}: expected one within {what}, {period:e} s", shown(gate));
            return Err(Error::file(path, reason));
        }
        if start >= end {
            let reason =
                format!("{}: expected at least a unit of microtime, {unit:e} s", shown(gate));
            return Err(Error::file(path, reason));
        }
        Ok(Units { start, length: end - start })
    };
    gates.iter().map(units).collect()
}
