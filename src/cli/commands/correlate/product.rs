//! Visibilities as a product, and a run that makes nothing else.

use std::{cell::RefCell, num::NonZeroU64, ops::Range, rc::Rc, sync::Arc, time::Instant};

use corrust::{
    Correlator, Devices, Error, Result,
    correlate::{Kernel, Shape, baselines, useful_operations},
    device::Gpu,
    run::{Integration, Product, Run, Visibilities, block_times},
};

use serde_json::json;

use crate::cli::commands::correlate::input::Input;
use crate::cli::commands::correlate::outputs::{Names, Outputs};
use crate::cli::commands::correlate::totals::Totals;
use crate::cli::commands::correlate::unit::Unit;
use crate::cli::options::engine::{LEVELS, warn_of_clipped};
use crate::cli::options::flagging::{Flagging, Judged};
use crate::cli::options::place::Place;
use crate::cli::options::selection::{Gates, Selection};
use crate::cli::terminal::numbers::{self, count, si};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::{say, tell};

/// Files that a product writes while it is made, and that are completed after it.
pub struct Shared<T>(Rc<RefCell<Option<T>>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: 'static> Shared<T> {
    pub fn new(files: T) -> Self {
        Self(Rc::new(RefCell::new(Some(files))))
    }

    /// Does something with the files.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(self.0.borrow_mut().as_mut().expect("files are completed after the observation"))
    }

    pub fn take(self) -> T {
        self.0.borrow_mut().take().expect("files are completed once")
    }
}

/// Visibilities that are asked for.
pub struct Request<'a> {
    pub device: Devices,
    pub gpus: Vec<Arc<dyn Gpu>>,
    pub kernel: Kernel,
    /// Shape of all samples, and the channels that are correlated.
    pub shape: Shape,
    pub channels: Range<usize>,
    pub unit: Unit,
    pub recorded: u64,
    /// Times of a dump.
    pub integration: u64,
    /// Whether samples are missing input by input: flagged ones, and lost ones of a live stream.
    pub by_input: bool,
    /// Whether inputs were delayed towards a phase centre.
    pub phased: bool,
    pub gates: Option<Gates>,
    pub shifts: Option<Vec<i64>>,
    pub names: Names<'a>,
}

/// Visibilities that are being made.
pub struct Made {
    pub files: Shared<(Outputs, Totals)>,
    /// The plan's device and kernel.
    pub device: String,
    pub kernel: Kernel,
}

impl Request<'_> {
    /// Plans the product, and creates its files.
    pub fn begin(self) -> Result<(impl Product + use<>, Made)> {
        let shape = Shape { channels: self.channels.len(), ..self.shape };
        let (unit, gates, shifts) = (self.unit, &self.gates, &self.shifts);
        let correlator = self.plan(&shape)?;
        let count = gates.as_ref().map(Gates::count);
        let by_channel = self.by_input || gates.as_ref().is_some_and(Gates::differ_by_channel);
        let is_spectra = unit == Unit::Spectrum;
        let bits = shape.encoding.is_bits();
        let by_baseline = self.by_input || shifts.is_some() || is_spectra || bits;
        let counted =
            [by_channel.then_some(shape.channels), by_baseline.then(|| baselines(shape.inputs))];
        let outputs = Outputs::create(&shape, count, counted, self.phased, self.names)?;
        let least = shifts.iter().flatten().copied().min().unwrap_or(0).min(0);
        let shifts = shifts.iter().flatten().map(|&shift| shift.abs_diff(least)).collect();
        let (inputs, channels) = (shape.inputs, shape.channels);
        let totals = Totals { unit, bits, inputs, channels, shifts, ..Totals::default() };
        let totals = Totals { delayed: self.phased, ..totals };
        let files = Shared::new((outputs, totals));
        let theirs = files.clone();
        let device = correlator.device_name().to_owned();
        let made = Made { files, device, kernel: correlator.kernel() };
        let tell = move |dump: &Integration| {
            theirs.with(|(outputs, totals)| {
                outputs.append(dump)?;
                totals.add(dump);
                Ok(())
            })
        };
        let product = Visibilities::new(correlator, self.channels, Some(self.integration), tell);
        let product = match self.gates {
            None => product,
            Some(Gates::Numbers { numbers, .. }) => product.gates(numbers),
            Some(Gates::Folding(folding)) => product.folding(folding),
        };
        Ok((product, made))
    }

    fn plan(&self, shape: &Shape) -> Result<Correlator> {
        let Shape { inputs, channels, encoding, layout } = *shape;
        let builder = Correlator::builder(inputs, channels)
            .encoding(encoding)
            .layout(layout)
            .device(self.device.clone())
            .gpus(self.gpus.iter().cloned())
            .kernel(self.kernel)
            .gates(self.gates.as_ref().map_or(1, Gates::count))
            .shifts(self.shifts.as_deref().unwrap_or_default());
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

/// Correlates a recording into the file `names.output`, one dump every `integrate` times, with a progress
/// bar and a summary.
pub fn correlate(
    input: Input,
    integrate: Option<NonZeroU64>,
    (gates, selection, flagging): (Option<Gates>, &Selection, &Flagging),
    place: Place,
    names: Names<'_>,
    json: bool,
) -> Result<()> {
    let (unit, output) = (input.unit(), names.output);
    // An F-engine is on the correlator's own GPU; spectra are judged there if it is the only one.
    let gpus = place.device.open()?;
    let (recorded, is_raw) = (input.recorded(), input.is_raw());
    let (shape, interval) = (input.head.shape, input.head.interval);
    let integration = integrate.map_or(recorded, NonZeroU64::get);
    let dumps = recorded / integration;
    if dumps == 0 {
        return Err(Error::invalid(format!(
            "--integrate {integration}: the recording has only {recorded} {}, expected at most \
             as many",
            unit.several()
        )));
    }
    let gate_count = gates.as_ref().map(Gates::count);
    let request = Request {
        device: place.device.clone(),
        gpus: gpus.clone(),
        kernel: place.kernel,
        shape,
        channels: 0..shape.channels,
        unit,
        recorded,
        integration,
        by_input: flagging.flag.is_some(),
        phased: input.delayed,
        gates,
        shifts: selection.read_shifts(shape.inputs, recorded)?,
        names: Names { spacing: (dumps > 1).then_some(integration), ..names },
    };
    let (product, made) = request.begin()?;

    let start = Instant::now();
    let times = if recorded == u64::MAX { recorded } else { dumps * integration };
    let bar = Progress::new("correlating", &shape, times);
    let at_once = flagging.flag.map(|_| block_times(shape.bytes_per_time()));
    let (source, judged) = input.source(flagging, &place.device, &gpus, at_once)?;
    let mut run = Run::over(source).progress(|done| bar.set(done.min(times)));
    run.add("visibilities", product);
    let done = run.all()?;
    drop(bar);
    let Made { files, device, kernel } = made;
    let (outputs, totals) = files.take();
    outputs.finish()?;
    let flagged = judged.as_ref().map_or(0.0, |judged| judged.samples().flagged);
    judged.map_or(Ok(()), Judged::finish)?;

    let seconds = start.elapsed().as_secs_f64();
    totals.warn(recorded, integration, flagged);
    if is_raw {
        warn_of_clipped(&done.clipped, shape.channels, totals.times, LEVELS);
    }
    let rate =
        (shape.inputs * shape.channels) as f64 * (totals.times - totals.skipped) as f64 / seconds;
    let operations = useful_operations(shape.inputs, shape.channels, totals.fed) / seconds;
    if json {
        let missing = totals.missing();
        let summary = json!({
            "output": output, "inputs": shape.inputs, "channels": shape.channels,
            "encoding": shape.encoding.name(), "times": totals.times, "times_recorded": recorded,
            "times_per_dump": integration, "seconds_per_time": interval, "dumps": totals.dumps,
            "gates": gate_count, "missing": missing, "flagged": flagged, "seconds": seconds,
            "samples_per_second": rate, "operations_per_second": operations, "device": device,
            "kernel": kernel.name(),
        });
        say(serde_json::to_string_pretty(&summary).expect("numbers and text"));
        return Ok(());
    }
    let took = numbers::seconds(seconds);
    tell(format_args!(
        "{} in {took}: {}samples/s, {}op/s useful on {device} ({kernel}): {}",
        totals.describe(&shape, interval, gate_count),
        si(rate),
        si(operations),
        output.display()
    ));
    Ok(())
}
