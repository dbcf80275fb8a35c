//! Gates of microtimes, and the sensors that they make of channels.

use std::path::Path;

use corrust_host::{Error, Result};

use super::{
    Gate,
    bins::{Photon, Sink},
};

/// Most gates, and most sensors.
const MOST_GATES: usize = 1024;
const MOST_SENSORS: usize = 1 << 16;

/// Use of a channel's photons.
#[derive(Clone, Copy, Default)]
pub(super) struct ChannelUse {
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

/// Photons that are taken: the channels' places, and gates.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub places: &'a [ChannelUse],
    pub gates: &'a [Units],
}

impl Wanted<'_> {
    /// Adds a photon that lies within a sink's stretch, `GATED` if there are gates. Returns a sensor that has as many as can be in the
    /// instant, if there is one.
    #[inline(always)]
    pub fn put<const GATED: bool>(
        &self,
        sink: &mut impl Sink,
        photon: Photon,
        late: bool,
    ) -> Option<usize> {
        let Photon { since, channel, microtime } = photon;
        let ChannelUse { sensor, wanted } = self.places.get(channel).copied().unwrap_or_default();
        let (place, sensor) = (sink.place(since), usize::from(sensor));
        let full = if GATED {
            (sensor..).zip(self.gates).find_map(|(sensor, gate)| {
                let within = microtime.wrapping_sub(gate.start) < gate.length;
                (!sink.add(place, sensor, microtime, within & wanted)).then_some(sensor)
            })
        } else {
            (!sink.add(place, sensor, microtime, wanted)).then_some(sensor)
        };
        if late {
            let sensors = if GATED { self.gates.len() } else { 1 };
            (sensor..sensor + sensors).for_each(|sensor| sink.settle(sensor));
        }
        full
    }
}

/// Gives channels their sensors, one for each gate, in `places`.
pub(super) fn place(places: &mut [ChannelUse], channels: &[usize], gates: usize) -> Result<()> {
    let each = gates.max(1);
    if each > MOST_GATES || channels.len() * each > MOST_SENSORS {
        return Err(Error::invalid(format!(
            "{each} gates of {} channels: expected at most {MOST_GATES}, and {MOST_SENSORS} sensors",
            channels.len()
        )));
    }
    for (index, &channel) in channels.iter().enumerate() {
        places[channel] = ChannelUse { sensor: (index * each) as u16, wanted: true };
    }
    Ok(())
}

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
