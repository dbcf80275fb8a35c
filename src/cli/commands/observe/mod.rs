//! `corrust observe`.

mod grid;
mod input;
#[cfg(feature = "serve")]
mod live;
mod products;
mod table;

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use corrust::{
    Error, Result,
    correlate::Shape,
    device::Gpu,
    format::{array::Array, read_text},
    run::{Bring, Done, Run},
};
use toml::Spanned;

use self::{
    input::InputOptions,
    products::{Made, Request},
    table::{Keys, Tables, Text},
};
use crate::cli::{
    commands::upchannelise::FilterBank,
    input::{
        Input, completed,
        product_input::{Expected, ProductInput, span},
    },
    options::{
        flagging::{Judged, missing_samples},
        run_files::{self, Existing, RunFiles, input},
        selection::Timing,
    },
    terminal::{
        numbers::{self, count, si},
        progress::Progress,
        say::{error, say, tell, warn},
    },
};

/// Make several products of a recording or stream that is read once
///
/// Products are visibilities, beams, beams on a grid, powers, spectra and kurtosis.
///
/// The plan is a TOML file: a table [input], and a table for each product, [[visibilities]], [[beams]], [[grid]],
/// [[power]], [[spectra]], [[kurtosis]], whose keys are options of the single commands. Each product has the bits that its single
/// command gives. Samples reach a GPU once. A product whose file fails ends alone, with an error at once.
///
/// A live stream is heaps of F-engines, SPEAD over UDP, as corrust serve takes them. SIGINT and SIGTERM end it: products
/// then hold what arrived.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The plan, - for the standard input
    #[arg(value_name = "PLAN.toml", value_parser = input(), required_unless_present = "example")]
    plan: Option<PathBuf>,
    /// Print a plan to begin with
    #[arg(long, conflicts_with = "plan")]
    example: bool,
    /// Say what the plan reads, writes and computes, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    existing: Existing,
}

const EXAMPLES: &str = "\
Examples:
  corrust observe --example > plan.toml
  corrust observe plan.toml --dry-run
  corrust observe plan.toml";

impl Args {
    /// Makes the products.
    pub fn run(self) -> Result<()> {
        let Some(path) = &self.plan else {
            say(include_str!("example.toml").trim_end());
            return Ok(());
        };
        let text = read_text(path)?;
        let text = Text { path, text: &text };
        let said = Plan::read(text)?.make(Some(path), self.existing, self.dry_run)?;
        if self.dry_run {
            run_files::replace_nothing();
        }
        said.into_iter().for_each(|line| if self.dry_run { say(line) } else { tell(line) });
        Ok(())
    }
}

/// Makes the products of a plan, TOML, which is not in a file, and returns a sentence on each.
///
/// # Errors
/// As of the command.
pub fn observe(text: &str) -> Result<Vec<String>> {
    let path = Path::new("plan");
    Plan::read(Text { path, text })?.make(None, Existing::default(), false)
}

/// A plan whose options are understood.
struct Plan<'a> {
    text: Text<'a>,
    input: InputOptions,
    requests: Vec<(Spanned<Keys>, Request)>,
}

impl<'a> Plan<'a> {
    fn read(text: Text<'a>) -> Result<Self> {
        let Tables { input, visibilities, beams, grid, power, spectra, kurtosis } =
            text.tables()?;
        let input = InputOptions::read(text, input)?;
        let array = input.array.as_deref();
        let mut requests = Vec::new();
        let mut all = |tables: Vec<Spanned<Keys>>,
                       make: &dyn Fn(&Spanned<Keys>) -> Result<Request>|
         -> Result<()> {
            for table in tables {
                let request = make(&table)?;
                requests.push((table, request));
            }
            Ok(())
        };
        all(visibilities, &|table| Request::visibilities(text, table))?;
        all(beams, &|table| Request::beams(text, table, array))?;
        all(grid, &|table| Request::grid(text, table, array))?;
        all(power, &|table| Request::power(text, table, array))?;
        all(spectra, &|table| Request::spectra(text, table))?;
        all(kurtosis, &|table| Request::kurtosis(text, table))?;
        if requests.is_empty() {
            return Err(Error::file(
                text.path,
                "expected a product: [[visibilities]], [[beams]], [[grid]], [[power]], [[spectra]] or [[kurtosis]]",
            ));
        }
        Ok(Self { text, input, requests })
    }

    /// Calls `make` with each product; its errors are at the product's table.
    fn each<T>(&self, mut make: impl FnMut(&Request) -> Result<T>) -> Result<Vec<T>> {
        let located = |(table, request): &(Spanned<Keys>, Request)| {
            make(request).map_err(|error| self.text.located(table, error))
        };
        self.requests.iter().map(located).collect()
    }

    /// An error that the table `[input]` led to.
    fn of_input(&self, error: Error) -> Error {
        self.text.located(&self.input.table, error)
    }

    /// An error about a file of any table.
    fn of_files(&self, error: Error) -> Error {
        let products = self.requests.iter().map(|(table, _)| table);
        self.text.located_in(std::iter::once(&self.input.table).chain(products), error)
    }

    /// Checks all files that are read and written, that of the plan too if there is one.
    fn check_files(&self, plan: Option<&PathBuf>, existing: Existing) -> Result<()> {
        let input = &self.input;
        let mut reads: Vec<PathBuf> = plan.into_iter().cloned().collect();
        reads.extend(input.files().iter().chain(&input.array).cloned());
        reads.extend(input.engine.iter().flat_map(|(_, engine)| engine.files()).cloned());
        reads.extend(input.upchannelise.iter().flat_map(FilterBank::files).cloned());
        reads.extend(self.requests.iter().flat_map(|(_, request)| request.reads()));
        let mut writes: Vec<PathBuf> = input.flagging.files().cloned().collect();
        writes.extend(self.each(Request::writes)?.into_iter().flatten());
        let run_files = RunFiles::default().reads(&reads).writes(&writes);
        run_files.check(existing).map_err(|error| self.of_files(error))
    }

    /// Checks all files, that of the plan too if there is one, then makes the products; returns a sentence on each.
    fn make(
        self,
        plan: Option<&PathBuf>,
        existing: Existing,
        dry_run: bool,
    ) -> Result<Vec<String>> {
        self.check_files(plan, existing)?;
        let input = &self.input;
        let array = input.array.as_deref().map(Array::read).transpose();
        let array = array.map_err(|error| self.of_files(error))?;
        let gpus = input.device.open().map_err(|error| self.of_input(error))?;
        let expected = input.expected(array.as_ref()).map_err(|error| self.of_input(error))?;
        if let Some(expected) = &expected {
            if plan.is_none() && expected.times.is_none() {
                let what = "live: expected seconds or times, as no signal ends it here";
                return Err(self.text.error(input.table.span().start, what));
            }
            // Before the stream is waited for.
            let place = self.expected_input(expected, &gpus, array.as_ref());
            let loads = if dry_run { self.dry_said(&place) } else { self.loads(&place) }?;
            if dry_run {
                return Ok(loads);
            }
        }
        let opened = input.open(array.as_ref(), &gpus).map_err(|error| self.of_input(error))?;
        let Some(recording) = opened else {
            return Err(Error::invalid("nothing came: no product was made"));
        };
        let timing = recording.timing(array.as_ref());
        let array = array.map(|array| completed(array, &recording)).transpose();
        let array = array.map_err(|error| self.of_files(error))?;
        let of_devices = (&input.device, &gpus[..]);
        let mut place =
            recording.for_products(of_devices, (array.as_ref(), timing), input.source());
        place.by_input |= input.flagging.flag.is_some();
        let place = match &expected {
            Some(expected) => ProductInput {
                recorded: expected.times.unwrap_or(u64::MAX),
                by_input: true,
                polarisations: input.polarisations(),
                live: true,
                ticks: input.ticks(place.shape.channels),
                ..place
            },
            None => place,
        };
        let said = if dry_run { self.dry_said(&place)? } else { Vec::new() };
        let pace = expected.map(|expected| expected.interval);
        let made = self.observe(recording, &place, pace, dry_run)?;
        Ok([said, made].concat())
    }

    /// Samples of a live stream that is to come.
    fn expected_input<'b>(
        &'b self,
        expected: &Expected,
        gpus: &'b [Arc<dyn Gpu>],
        array: Option<&'b Array>,
    ) -> ProductInput<'b> {
        let input = &self.input;
        ProductInput {
            device: &input.device,
            gpus,
            shape: expected.shape,
            recorded: expected.times.unwrap_or(u64::MAX),
            interval: Some(expected.interval),
            phased: false,
            by_input: true,
            polarisations: input.polarisations(),
            said: Array::default(),
            raw: input.engine.is_some(),
            live: true,
            timing: Timing::default(),
            array,
            quantised: Vec::new(),
            source: input.source(),
            ticks: input.ticks(expected.shape.channels),
            flagged: Rc::default(),
        }
    }

    /// What each product writes and computes, in words.
    fn loads(&self, place: &ProductInput<'_>) -> Result<Vec<String>> {
        self.each(|request| request.load(place))
    }

    /// The sentences of a dry run.
    fn dry_said(&self, place: &ProductInput<'_>) -> Result<Vec<String>> {
        let ProductInput { shape, recorded, interval, gpus, .. } = place;
        let times = self.input.at_once(shape, interval.filter(|_| place.live)) as u64;
        let times = times.min(*recorded);
        let held: f64 = self.each(|request| request.held(place, times))?.iter().sum();
        let samples = shape.bytes_per_time() as f64 * times as f64;
        let free = gpus.iter().map(|gpu| gpu.free_bytes()).sum::<Result<u64>>()?;
        let memory = (!gpus.is_empty()).then(|| {
            format!(
                "device memory: at least {}B for samples and products, of {}B free",
                si(samples + held),
                si(free as f64)
            )
        });
        let said = vec![describe(shape, *recorded, *interval)];
        Ok([said, self.loads(place)?, memory.into_iter().collect()].concat())
    }

    /// Makes the products of an open recording, or of a stream with a time every `pace` seconds; in a dry run they only begin.
    fn observe(
        &self,
        recording: Input,
        place: &ProductInput<'_>,
        pace: Option<f64>,
        dry_run: bool,
    ) -> Result<Vec<String>> {
        let (input, gpus, shape) = (&self.input, place.gpus, &place.shape);
        let start = Instant::now();
        let at_once = Some(input.at_once(shape, pace));
        let source = recording.source(&input.flagging, &input.device, gpus, at_once);
        let (source, judged, losses) = source.map_err(|error| self.of_input(error))?;
        let source = Bring::to(gpus, source)?;
        let bar = (!dry_run).then(|| Progress::new("observing", shape, place.recorded));
        let mut run = Run::over(source).progress(|done| bar.iter().for_each(|bar| bar.set(done)));
        let made = self.each(|request| request.begin(place, &mut run, dry_run))?;
        if dry_run {
            // Products that have begun and are dropped leave nothing.
            return Ok(Vec::new());
        }
        let Done { times: done, faults, took, .. } =
            run.go(|name, fault| error(format_args!("{name}: {fault}")))?;
        drop(bar);
        input.warn_of_overrun(&took);
        if place.live && done < place.recorded && place.recorded < u64::MAX {
            let expected = count(place.recorded, "time");
            warn(format_args!("the stream ended after {done} of {expected}"));
        }
        // Of files times that no product wanted are not read.
        let of_stream = place.live || place.recorded == u64::MAX;
        let times = if of_stream { done } else { place.recorded };
        let samples = judged.as_ref().map(Judged::samples);
        place.flagged.set(samples.map_or(0.0, |samples| samples.flagged as f64));
        let mut said = finish(made, judged, &faults, times)?;
        // Visibilities say it of themselves.
        let others = |(_, of): &(_, Request)| !matches!(of, Request::Visibilities(_));
        if let Some(missing) = losses.said(done)
            && self.requests.iter().any(others)
        {
            warn(format_args!("of all that was read, {missing}"));
        }
        said.extend(
            samples.map(|samples| format!("of all that was read, {}", missing_samples(&samples))),
        );
        said.extend(input.received());
        let seconds = start.elapsed().as_secs_f64();
        said.push(format!(
            "observed {} x {} x {} in {}: {}samples/s",
            count(shape.inputs, "input"),
            count(shape.channels, "channel"),
            count(times, "time"),
            numbers::seconds(seconds),
            si(shape.inputs as f64 * shape.channels as f64 * times as f64 / seconds)
        ));
        Ok(said)
    }
}

/// Completes the files of flags and of products of `times` times, but for those with faults.
fn finish(
    made: Vec<Made>,
    judged: Option<Judged>,
    faults: &[(String, Error)],
    times: u64,
) -> Result<Vec<String>> {
    let whole = |made: &Made| faults.iter().all(|(name, _)| name != made.name());
    // All files are completed before the first error is told.
    let finished: Vec<_> = made.into_iter().filter(whole).map(|made| made.finish(times)).collect();
    let judged = judged.map_or(Ok(()), Judged::finish);
    if let Some((name, _)) = faults.first() {
        return Err(Error::invalid(format!("{name} ended before the others")));
    }
    judged?;
    finished.into_iter().collect()
}

/// The samples that are read, in words.
fn describe(shape: &Shape, recorded: u64, interval: Option<f64>) -> String {
    let (recorded, span) = span(recorded, interval);
    // Of bits the times of a word lie together.
    let of_time = shape.bytes_per_time() as f64 / shape.encoding.times() as f64;
    let bytes = of_time * recorded as f64;
    let pace = interval.map_or(String::new(), |interval| {
        format!(", {}B/s as they were recorded", si(of_time / interval))
    });
    format!(
        "reads {} x {} x {} of {}: {}B{span}{pace}",
        count(shape.inputs, "input"),
        count(shape.channels, "channel"),
        count(recorded, "time"),
        shape.encoding,
        si(bytes)
    )
}
