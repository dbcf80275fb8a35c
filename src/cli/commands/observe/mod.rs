//! `corrust observe`.

mod grid;
#[cfg(feature = "serve")]
mod live;
mod products;
mod table;

use std::{
    cell::Cell,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use corrust::{
    Devices, Error, Layout, Result,
    correlate::Shape,
    device::Gpu,
    format::{array::Array, read_text},
    run::{Bring, Done, Run, Source, block_times},
};
use toml::{Spanned, Value};

use self::{
    products::{Made, Request},
    table::{Keys, Tables, Text, take_key},
};
use crate::cli::{
    commands::upchannelise::{FilterBank, on_first},
    input::{
        Input, completed,
        product_input::{ProductInput, Ticks, span},
    },
    options::{
        engine::Engine,
        files::{Files, RawOptions},
        flagging::{Flagging, Judged, missing_samples},
        run_files::{self, Existing, RunFiles, input},
        selection::Timing,
    },
    terminal::{
        numbers::{self, count, si},
        progress::Progress,
        say::{error, say, tell, warn},
    },
};

/// Times of a block are a multiple of this, or fewer.
const GRAIN: usize = 256;
/// Seconds of a live stream that are worked on at a time, at most.
const SOON: f64 = 0.25;

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

/// Facts of a live stream that is to come.
struct Expected {
    shape: Shape,
    interval: f64,
    /// Times that it is to have; [`None`] until it is ended.
    times: Option<u64>,
}

/// A plan whose options are understood.
struct Plan<'a> {
    text: Text<'a>,
    input: InputOptions,
    requests: Vec<(Spanned<Keys>, Request)>,
}

/// Options of the table `[input]`.
struct InputOptions {
    table: Spanned<Keys>,
    origin: Origin,
    raw: RawOptions,
    array: Option<PathBuf>,
    device: Devices,
    flagging: Flagging,
    /// Channels that are made of raw voltages, and how.
    engine: Option<(usize, Engine)>,
    /// Subchannels that are made of channels.
    upchannelise: Option<FilterBank>,
}

/// Source of samples.
enum Origin {
    Files(Files),
    #[cfg(feature = "serve")]
    Live(Box<live::Live>),
}

/// The keys of a table within a table, and its own place.
fn inner(
    text: Text<'_>,
    key: &str,
    value: Option<Spanned<Value>>,
) -> Result<Option<Spanned<Keys>>> {
    let Some(value) = value else { return Ok(None) };
    let span = value.span();
    let Value::Table(keys) = value.into_inner() else {
        return Err(
            text.error(span.start, format!("{key}: expected a table, as {{ a = 1, b = 2 }}"))
        );
    };
    let at = |(key, value)| (key, Spanned::new(span.clone(), value));
    Ok(Some(Spanned::new(span.clone(), keys.into_iter().map(at).collect())))
}

/// Options of a product or of raw voltages, all at their defaults.
fn nothing(at: &Spanned<Keys>) -> Spanned<Keys> {
    Spanned::new(at.span(), Keys::new())
}

impl InputOptions {
    fn read(text: Text<'_>, mut table: Spanned<Keys>) -> Result<Self> {
        let whole = table.clone();
        let live = inner(text, "live", take_key(&mut table, "live"))?;
        let paths = match take_key(&mut table, "files") {
            Some(value) if live.is_some() => {
                return Err(text.error(value.span().start, "files: expected one of files and live"));
            }
            None if live.is_some() => Vec::new(),
            Some(value) => match value.get_ref() {
                Value::Array(all) if !all.is_empty() => all
                    .iter()
                    .map(|each| each.as_str().map(str::to_owned))
                    .collect::<Option<Vec<_>>>(),
                _ => None,
            }
            .ok_or_else(|| {
                let at = value.span().start;
                text.error(at, "files: expected a list of paths, as [\"scan.npy\"]")
            })?,
            None => {
                let at = table.span().start;
                return Err(
                    text.error(at, "[input]: expected files, as files = [\"scan.npy\"], or live")
                );
            }
        };
        let array =
            take_key(&mut table, "array").map(|value| path(text, "array", &value)).transpose()?;
        let device = match take_key(&mut table, "device") {
            None => Devices::default(),
            Some(value) => {
                let said = value.get_ref().as_str().map(str::parse);
                match said {
                    Some(Ok(devices)) => devices,
                    Some(Err(error)) => return Err(text.error(value.span().start, error)),
                    None => return Err(text.error(value.span().start, "device: expected a text")),
                }
            }
        };
        let flag = inner(text, "flag", take_key(&mut table, "flag"))?;
        let flagging = match flag {
            None => Flagging::default(),
            Some(mut flag) => {
                for (key, option) in [
                    ("method", "flag"),
                    ("times", "sk-times"),
                    ("real", "sk-real"),
                    ("full-range", "sk-full-range"),
                ] {
                    if let Some(value) = take_key(&mut flag, key) {
                        flag.get_mut().insert(option.to_owned(), value);
                    }
                }
                text.options::<Flagging>(&flag, [], [])?
            }
        };
        let mut raw = nothing(&table);
        for key in ["rate", "raw-layout", "inputs", "bits", "near"] {
            if let Some(value) = take_key(&mut table, key) {
                raw.get_mut().insert(key.to_owned(), value);
            }
        }
        let engine = match inner(text, "channelise", take_key(&mut table, "channelise"))? {
            None if !raw.get_ref().is_empty() && live.is_none() => {
                let key = raw.get_ref().keys().next().expect("one key");
                let what =
                    format!("{key}: of raw voltages, expected channelise = {{ channels = C }}");
                return Err(text.error(table.span().start, what));
            }
            None => None,
            Some(mut engine) => {
                let channels = take_key(&mut engine, "channels").and_then(|value| {
                    value.get_ref().as_integer().and_then(|channels| usize::try_from(channels).ok())
                });
                let Some(channels) = channels else {
                    let what = "channelise: expected channels, as { channels = 4096 }";
                    return Err(text.error(engine.span().start, what));
                };
                Some((channels, text.options::<Engine>(&engine, [], [])?))
            }
        };
        let upchannelise = match inner(text, "upchannelise", take_key(&mut table, "upchannelise"))?
        {
            None => None,
            Some(keys) => {
                let of_raw = engine.as_ref().map(|(_, engine)| engine);
                if of_raw.is_some_and(Engine::is_oversampled) {
                    let what = "upchannelise: of channels that overlap, expected no oversample in channelise";
                    return Err(text.error(keys.span().start, what));
                }
                let filter: FilterBank = text.options(&keys, [], [])?;
                filter.voltages().map_err(|error| text.located(&keys, error))?;
                Some(filter)
            }
        };
        let origin = match live {
            None => Origin::Files(text.options::<Files>(&table, [], paths)?),
            #[cfg(not(feature = "serve"))]
            Some(live) => {
                return Err(text.error(
                    live.span().start,
                    "live: this build has no live streams, expected files",
                ));
            }
            #[cfg(feature = "serve")]
            Some(live) => {
                let other = table.get_ref().iter().next();
                if let Some((key, value)) = other {
                    let what = format!("{key}: for files, expected none beside live");
                    return Err(text.error(value.span().start, what));
                }
                if let Some((key, value)) = raw.get_ref().iter().next() {
                    let what = format!("{key}: for files, expected none beside live");
                    return Err(text.error(value.span().start, what));
                }
                Origin::Live(Box::new(live::Live::read(text, live, engine.as_ref())?))
            }
        };
        let raw = text.options::<RawOptions>(&raw, [], [])?;
        Ok(Self { table: whole, origin, raw, array, device, flagging, engine, upchannelise })
    }

    /// Files of the recording.
    fn files(&self) -> &[PathBuf] {
        match &self.origin {
            Origin::Files(files) => &files.inputs,
            #[cfg(feature = "serve")]
            Origin::Live(_) => &[],
        }
    }

    /// The array with the channels that the F-engine makes; the file has the products' channels.
    fn coarse(&self, array: Option<&Array>) -> Result<Option<Array>> {
        let (Some((channels, _)), Some(array)) = (&self.engine, array) else { return Ok(None) };
        let factor = self.upchannelise.as_ref().map_or(1, FilterBank::factor);
        array.coarse(*channels, factor).map(Some)
    }

    /// The F-engine of a stream.
    #[cfg(feature = "serve")]
    fn f_engine<'a>(&'a self, array: Option<&'a Array>) -> Option<live::FEngine<'a>> {
        self.engine.as_ref().map(|(channels, engine)| (*channels, engine, array))
    }

    /// Opens the recording, or waits for the stream; [`None`] of a stream that ended before anything came.
    fn open(&self, array: Option<&Array>, gpus: &[Arc<dyn Gpu>]) -> Result<Option<Input>> {
        let input = match (&self.origin, &self.engine) {
            (Origin::Files(files), None) => Input::channels(files.open()?),
            (Origin::Files(files), Some((channels, engine))) => {
                let array = self.coarse(array)?;
                let files = (&files.inputs[..], self.raw.with(files.options()));
                Input::channelised(files, engine, *channels, array.as_ref())?
            }
            #[cfg(feature = "serve")]
            (Origin::Live(live), _) => {
                let coarse = self.coarse(array)?;
                match live.begin(gpus.first(), self.f_engine(coarse.as_ref()))? {
                    Some(input) => input,
                    None => return Ok(None),
                }
            }
        };
        let Some(filter) = &self.upchannelise else { return Ok(Some(input)) };
        let Shape { inputs, channels, encoding, .. } = input.head.shape;
        let plan = on_first(filter.builder(inputs, channels, encoding)?, gpus)?;
        input.upchannelised(plan).map(Some)
    }

    /// Timestamps of the times of `channels` channels; a live stream's own once it has begun.
    fn ticks(&self, channels: usize) -> Ticks {
        #[cfg(feature = "serve")]
        if let Origin::Live(live) = &self.origin
            && let Some(Ticks { first, step }) = live.ticks()
        {
            let factor = self.upchannelise.as_ref().map_or(1, FilterBank::factor) as u64;
            return Ticks { first, step: step.saturating_mul(factor) };
        }
        Ticks::of(channels)
    }

    /// Number of times to process at once; few for a live stream, of interval `pace`, so that results come soon.
    fn at_once(&self, shape: &Shape, pace: Option<f64>) -> usize {
        let at_once = block_times(shape.bytes_per_time());
        let at_once = if at_once > GRAIN { at_once / GRAIN * GRAIN } else { at_once };
        let Some(interval) = pace else { return at_once };
        let grain = self.flagging.block_times().unwrap_or(GRAIN);
        let soon = ((SOON / interval) as usize).next_multiple_of(grain);
        at_once.next_multiple_of(grain).min(soon.max(grain))
    }

    /// Sentence on what was received of a live stream.
    fn received(&self) -> Option<String> {
        match &self.origin {
            Origin::Files(_) => None,
            #[cfg(feature = "serve")]
            Origin::Live(live) => live.said(),
        }
    }

    /// Names the products that a live stream was too fast for, by the time that they took.
    fn warn_of_overrun(&self, took: &[(String, Duration)]) {
        #[cfg(not(feature = "serve"))]
        let _ = took;
        #[cfg(feature = "serve")]
        if let Origin::Live(live) = &self.origin
            && live.overrun() > 0
        {
            let all = took.iter().map(|(_, time)| time.as_secs_f64()).sum::<f64>().max(1e-9);
            let mut shares: Vec<_> = took.iter().map(|(name, time)| (time, name)).collect();
            shares.sort_unstable_by(|a, b| b.cmp(a));
            let share = |(time, name): &(&Duration, &String)| {
                format!("{name} {:.0} %", 100.0 * time.as_secs_f64() / all)
            };
            warn(format_args!(
                "the stream is too fast for these products, and samples are missing from all of them; of the time they took {}",
                shares.iter().map(share).collect::<Vec<_>>().join(", ")
            ));
        }
    }

    /// Samples that are expected, where they are told without the recording: a live stream.
    fn expected(&self, array: Option<&Array>) -> Result<Option<Expected>> {
        match &self.origin {
            Origin::Files(_) => Ok(None),
            #[cfg(feature = "serve")]
            Origin::Live(live) => {
                let coarse = self.coarse(array)?;
                let expected = live.expected(self.f_engine(coarse.as_ref()))?;
                let Expected { shape, interval, times } = expected;
                let Some(filter) = &self.upchannelise else {
                    return Ok(Some(Expected { shape, interval, times }));
                };
                let (factor, encoding) = (filter.factor(), filter.voltages()?);
                let channels = shape.channels * factor;
                Ok(Some(Expected {
                    shape: Shape { channels, encoding, layout: Layout::Tcn, ..shape },
                    interval: interval * factor as f64,
                    times: times.map(|times| times / factor as u64),
                }))
            }
        }
    }
}

fn path(text: Text<'_>, key: &str, value: &Spanned<Value>) -> Result<PathBuf> {
    let found = value.get_ref().as_str().map(PathBuf::from);
    found.ok_or_else(|| text.error(value.span().start, format!("{key}: expected a path")))
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

    /// Checks all files, that of the plan too if there is one, then makes the products; returns a sentence on each.
    fn make(
        self,
        plan: Option<&PathBuf>,
        existing: Existing,
        dry_run: bool,
    ) -> Result<Vec<String>> {
        let Self { text, input, requests } = self;
        let mut reads: Vec<PathBuf> = plan.into_iter().cloned().collect();
        reads.extend(input.files().iter().cloned());
        reads.extend(input.array.iter().cloned());
        if let Some((_, engine)) = &input.engine {
            reads.extend(engine.files().cloned());
        }
        if let Some(filter) = &input.upchannelise {
            reads.extend(filter.files().cloned());
        }
        let mut writes: Vec<PathBuf> = input.flagging.files().cloned().collect();
        for (table, request) in &requests {
            reads.extend(request.reads());
            writes.extend(request.writes().map_err(|error| text.located(table, error))?);
        }
        let of_files = |error| {
            let products = requests.iter().map(|(table, _)| table);
            text.located_in(std::iter::once(&input.table).chain(products), error)
        };
        let run_files = RunFiles::default().reads(&reads).writes(&writes);
        run_files.check(existing).map_err(of_files)?;

        let array = input.array.as_deref().map(Array::read).transpose().map_err(of_files)?;
        let gpus = input.device.open().map_err(|error| text.located(&input.table, error))?;
        let flagged = Rc::new(Cell::new(0.0));
        let place = |shape: Shape, recorded, interval| ProductInput {
            device: &input.device,
            gpus: &gpus,
            shape,
            recorded,
            interval,
            phased: false,
            by_input: input.flagging.flag.is_some(),
            raw: false,
            live: false,
            timing: Timing::default(),
            array: None,
            quantised: Vec::new(),
            source: input.files().first().map_or(Path::new("live"), PathBuf::as_path),
            ticks: input.ticks(shape.channels),
            flagged: flagged.clone(),
        };
        let loads = |place: &ProductInput<'_>| -> Result<Vec<String>> {
            let load = |(table, request): &(_, Request)| {
                request.load(place).map_err(|error| text.located(table, error))
            };
            requests.iter().map(load).collect()
        };
        // The sentences of a dry run.
        let dry = |place: &ProductInput<'_>, live: bool| -> Result<Vec<String>> {
            let (shape, interval) = (&place.shape, place.interval);
            let times = input.at_once(shape, interval.filter(|_| live)) as u64;
            let times = times.min(place.recorded);
            let held = requests.iter().map(|(table, request)| {
                request.held(place, times).map_err(|error| text.located(table, error))
            });
            let held = held.sum::<Result<f64>>()?;
            let samples = shape.bytes_per_time() as f64 * times as f64;
            let free = gpus.iter().map(|gpu| gpu.free_bytes()).sum::<Result<u64>>()?;
            let memory = format!(
                "device memory: at least {}B for samples and products, of {}B free",
                si(samples + held),
                si(free as f64)
            );
            let memory = (!gpus.is_empty()).then_some(memory);
            let said = vec![describe(shape, place.recorded, interval)];
            Ok([said, loads(place)?, memory.into_iter().collect()].concat())
        };
        let expected = input.expected(array.as_ref());
        let expected = expected.map_err(|error| text.located(&input.table, error))?;
        if let Some(Expected { shape, interval, times }) = expected {
            if plan.is_none() && times.is_none() {
                let what = "live: expected seconds or times, as no signal ends it here";
                return Err(text.error(input.table.span().start, what));
            }
            // Before the stream is waited for.
            let recorded = times.unwrap_or(u64::MAX);
            let interval = Some(interval);
            let place = ProductInput {
                by_input: true,
                raw: input.engine.is_some(),
                live: true,
                array: array.as_ref(),
                ..place(shape, recorded, interval)
            };
            if dry_run {
                return dry(&place, true);
            }
            loads(&place)?;
        }
        let opened = input.open(array.as_ref(), &gpus);
        let Some(recording) = opened.map_err(|error| text.located(&input.table, error))? else {
            return Err(Error::invalid("nothing came: no product was made"));
        };
        let timing = recording.timing(array.as_ref());
        let array =
            array.map(|array| completed(array, &recording)).transpose().map_err(of_files)?;
        let (shape, interval) = (recording.head.shape, recording.head.interval);
        let recorded = match &expected {
            Some(expected) => expected.times.unwrap_or(u64::MAX),
            None => recording.recorded(),
        };
        let place = ProductInput {
            phased: recording.delayed,
            by_input: input.flagging.flag.is_some() || expected.is_some(),
            raw: recording.is_raw(),
            live: expected.is_some(),
            timing,
            array: array.as_ref(),
            quantised: recording.head.quantised.clone(),
            ..place(shape, recorded, interval)
        };
        let dry_said = if dry_run { dry(&place, false)? } else { Vec::new() };
        let start = Instant::now();
        // Products on several GPUs bring their own channels there.
        let gpu = if gpus.len() == 1 { gpus.first().cloned() } else { None };
        let pace = expected.as_ref().map(|expected| expected.interval);
        let at_once = Some(input.at_once(&shape, pace));
        let found = recording.source(&input.flagging, &input.device, &gpus, at_once);
        let (source, judged) = found.map_err(|error| text.located(&input.table, error))?;
        let source: Box<dyn Source> = match gpu {
            Some(gpu) => Box::new(Bring::to(&gpu, source)?),
            None => source,
        };
        let bar = (!dry_run).then(|| Progress::new("observing", &shape, recorded));
        let mut run = Run::over(source).progress(|done| bar.iter().for_each(|bar| bar.set(done)));
        let mut made: Vec<Made> = Vec::new();
        for (table, request) in &requests {
            let found = request.begin(&place, &mut run, dry_run);
            made.push(found.map_err(|error| text.located(table, error))?);
        }
        if dry_run {
            // Products that have begun and are dropped leave nothing.
            return Ok(dry_said);
        }
        let Done { times: done, faults, took, .. } =
            run.go(|name, fault| error(format_args!("{name}: {fault}")))?;
        drop(bar);
        input.warn_of_overrun(&took);
        if expected.is_some() && done < recorded && recorded < u64::MAX {
            warn(format_args!("the stream ended after {done} of {}", count(recorded, "time")));
        }
        // Of files times that no product wanted are not read.
        let of_stream = expected.is_some() || recorded == u64::MAX;
        let recorded = if of_stream { done } else { recorded };
        let samples = judged.as_ref().map(Judged::samples);
        flagged.set(samples.map_or(0.0, |samples| samples.flagged as f64));
        let (mut said, mut first) = (Vec::new(), None);
        for made in made {
            if faults.iter().any(|(name, _)| *name == made.name()) {
                // Its files are left away.
                continue;
            }
            match made.finish(recorded) {
                Ok(sentence) => said.push(sentence),
                Err(error) => {
                    first.get_or_insert(error);
                }
            }
        }
        // Files of flags are a product, too.
        let judged = judged.map_or(Ok(()), Judged::finish);
        if let Some((name, _)) = faults.into_iter().next() {
            return Err(Error::invalid(format!("{name} ended before the others")));
        }
        judged?;
        first.map_or(Ok(()), Err)?;
        said.extend(
            samples.map(|samples| format!("of all that was read, {}", missing_samples(&samples))),
        );
        said.extend(input.received());
        let seconds = start.elapsed().as_secs_f64();
        said.push(format!(
            "observed {} x {} x {} in {}: {}samples/s",
            count(shape.inputs, "input"),
            count(shape.channels, "channel"),
            count(recorded, "time"),
            numbers::seconds(seconds),
            si(shape.inputs as f64 * shape.channels as f64 * recorded as f64 / seconds)
        ));
        Ok(said)
    }
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
