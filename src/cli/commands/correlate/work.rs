//! The correlation: plan, loop over dumps, summary.

use std::{num::NonZeroU64, sync::Arc, time::Instant};

use corrust::{
    Correlator, Error, Result,
    correlate::{Shape, baselines, useful_operations},
    device::Gpu,
    run::{Dumps, Integration, Pieces},
};

use crate::cli::commands::correlate::input::{Input, Source};
use crate::cli::commands::correlate::outputs::{Names, Outputs};
use crate::cli::commands::correlate::totals::Totals;
use crate::cli::commands::correlate::unit::Unit;
use crate::cli::options::engine::{LEVELS, warn_of_clipped};
use crate::cli::options::flagging::{Flagging, Judged};
use crate::cli::options::place::Place;
use crate::cli::options::selection::{Gates, Selection};
use crate::cli::terminal::numbers::{count, digits, si};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::say;

/// Bytes of samples that are judged at a time.
const BLOCK_BYTES: usize = 1 << 26;

/// Correlates a recording into the file `names.output`, one dump every `integrate` times, with a progress
/// bar and a summary.
pub fn correlate(
    input: Input,
    integrate: Option<NonZeroU64>,
    (gates, selection, flagging): (Option<Gates>, &Selection, &Flagging),
    place: Place,
    names: Names<'_>,
) -> Result<()> {
    let (unit, output) = (input.unit(), names.output);
    // An F-engine is on the correlator's own GPU; spectra are judged there if it is the only one.
    let gpus = place.device.open()?;
    let input = match flagging.flag.is_some() && gpus.len() != 1 {
        true => input.recording(place.device.clone(), gpus.clone())?,
        false => input,
    };
    let Input { shape, recorded, interval, source, sky, .. } = input;
    let integration = integrate.map_or(recorded, NonZeroU64::get);
    let dumps = recorded / integration;
    if dumps == 0 {
        return Err(Error::invalid(format!(
            "--integrate {integration}: the recording has only {recorded} {}, expected at most \
             as many",
            unit.several()
        )));
    }
    let names = Names { spacing: (dumps > 1).then_some(integration), ..names };
    let shifts = selection.read_shifts(shape.inputs, recorded)?;
    let gate_count = gates.as_ref().map(Gates::count);
    let by_channel =
        flagging.flag.is_some() || gates.as_ref().is_some_and(Gates::differ_by_channel);
    let plan = Plan { recorded, unit, gpus: gpus.clone() };
    let mut correlator = plan.build(&shape, place.clone(), gate_count, shifts.as_deref())?;
    let phased = sky.is_some_and(|sky| sky.delayed);
    let engine = match &source {
        Source::Channels(_) => None,
        Source::Raw(raw) => Some(raw.engine),
    };
    let by_baseline =
        flagging.flag.is_some() || shifts.is_some() || engine.is_some() || shape.encoding.is_bits();
    let counted =
        [by_channel.then_some(shape.channels), by_baseline.then(|| baselines(shape.inputs))];
    let mut outputs = Outputs::create(&shape, gate_count, counted, phased, names)?;

    let start = Instant::now();
    let times = if recorded == u64::MAX { recorded } else { dumps * integration };
    let bar = Progress::new("correlating", &shape, times);
    let at_once = BLOCK_BYTES / shape.bytes_per_time();
    let (found, judged) = match (source, &gpus[..]) {
        (source, _) if flagging.flag.is_none() => {
            (source.dumps(&mut correlator, place.device, gpus)?, None)
        }
        (Source::Channels(recording), gpus) => {
            let (pieces, judged) = flagging.pieces(recording, gpus, at_once)?;
            (Dumps::of(pieces, &mut correlator), judged)
        }
        (Source::Raw(raw), _) => {
            let (voltages, engine) = raw.on(place.device, gpus.clone())?;
            let pieces = Pieces::channelised(voltages, engine)?;
            let (pieces, judged) = flagging.on_gpu(pieces, &gpus[0], at_once)?;
            (Dumps::of(pieces, &mut correlator), Some(judged))
        }
    };
    let found = found.integrate(integration).progress(|progress| bar.set(progress.done));
    let mut found = match gates {
        None => found,
        Some(Gates::Numbers { numbers, .. }) => found.gates(numbers),
        Some(Gates::Folding(folding)) => found.folding(folding),
    };
    let bits = shape.encoding.is_bits();
    let (inputs, channels) = (shape.inputs, shape.channels);
    let least = shifts.iter().flatten().copied().min().unwrap_or(0).min(0);
    let shifts = shifts.iter().flatten().map(|&shift| shift.abs_diff(least)).collect();
    let totals = Totals { unit, bits, inputs, channels, shifts, ..Totals::default() };
    let mut totals = Totals { delayed: phased, ..totals };
    let mut dump = Integration::default();
    while found.next_into(&mut dump)? {
        outputs.append(&dump)?;
        totals.add(&dump);
    }
    if judged.is_some() {
        // Blocks that are judged belong to the recording, whatever is integrated.
        found.pass_rest()?;
    }
    let clipped = found.clipped()?;
    drop(found);
    drop(bar);
    outputs.finish()?;
    let flagged = judged.as_ref().map_or(0.0, |judged| judged.samples().flagged);
    judged.map_or(Ok(()), Judged::finish)?;

    let seconds = start.elapsed().as_secs_f64();
    totals.warn(recorded, integration, flagged);
    if let Some(engine) = engine {
        warn_of_clipped(&clipped, engine.channels, totals.times, LEVELS);
    }
    say(format_args!(
        "{} in {seconds:.2} s: {}samples/s, {} useful TOPS on {} ({}): {}",
        totals.describe(&shape, interval, gate_count),
        si(shape.inputs as f64 * shape.channels as f64 * (totals.times - totals.skipped) as f64
            / seconds),
        digits(useful_operations(shape.inputs, shape.channels, totals.fed) / seconds / 1e12),
        correlator.device_name(),
        correlator.kernel(),
        output.display()
    ));
    Ok(())
}

/// Facts that a correlator is planned for.
struct Plan {
    recorded: u64,
    unit: Unit,
    gpus: Vec<Arc<dyn Gpu>>,
}

impl Plan {
    /// The plan for a recording.
    fn build(
        self,
        shape: &Shape,
        place: Place,
        gates: Option<usize>,
        shifts: Option<&[i64]>,
    ) -> Result<Correlator> {
        let Shape { inputs, channels, encoding, layout } = *shape;
        let builder = Correlator::builder(inputs, channels)
            .encoding(encoding)
            .layout(layout)
            .device(place.device)
            .gpus(self.gpus)
            .kernel(place.kernel)
            .gates(gates.unwrap_or(1))
            .shifts(shifts.unwrap_or_default());
        builder.build().map_err(|error| match error {
            // The axes may have been taken for others.
            Error::OutOfMemory { .. } => Error::invalid(format!(
                "{error}; as {layout}, the recording has {}, {} and {}",
                self.unit.count(self.recorded),
                count(channels, "channel"),
                count(inputs, "input")
            )),
            other => other,
        })
    }
}
