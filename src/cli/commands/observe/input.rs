//! The table `[input]` of a plan: a recording or stream, and its preparation for all products.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use corrust::{
    Devices, Error, Result, correlate::Shape, device::Gpu, format::array::Array, run::block_times,
};
use toml::{Spanned, Value};

#[cfg(feature = "serve")]
use super::live;
use super::table::{Keys, Text, take_key};
#[cfg(feature = "serve")]
use crate::cli::terminal::say::warn;
use crate::cli::{
    commands::upchannelise::{FilterBank, on_first},
    input::{
        Input,
        product_input::{Expected, SOON, Ticks},
    },
    options::{
        engine::Engine,
        files::{Files, RawOptions},
        flagging::Flagging,
    },
};

/// Times of a block are a multiple of this, or fewer.
const GRAIN: usize = 256;

/// Options of the table `[input]`.
pub struct InputOptions {
    pub table: Spanned<Keys>,
    origin: Origin,
    raw: RawOptions,
    pub array: Option<PathBuf>,
    pub device: Devices,
    pub flagging: Flagging,
    /// Channels that are made of raw voltages, and how.
    pub engine: Option<(usize, Engine)>,
    /// Subchannels that are made of channels.
    pub upchannelise: Option<FilterBank>,
}

/// Source of samples.
enum Origin {
    Files(Files),
    #[cfg(feature = "serve")]
    Live(Box<live::Live>),
}

impl InputOptions {
    /// Reads the keys of the table.
    pub fn read(text: Text<'_>, mut table: Spanned<Keys>) -> Result<Self> {
        let whole = table.clone();
        let live = inner(text, &mut table, "live")?;
        let paths = paths(text, &mut table, live.is_some())?;
        let array = array(text, &mut table)?;
        let device = device(text, &mut table)?;
        let flagging = flagging(text, &mut table)?;
        let raw = taken(&mut table, &["rate", "raw-layout", "inputs", "bits", "near"]);
        let engine = engine(text, &mut table, raw.get_ref(), live.is_some())?;
        let upchannelise = upchannelise(text, &mut table, engine.as_ref())?;
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
                let other = table.get_ref().iter().chain(raw.get_ref()).next();
                if let Some((key, value)) = other {
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
    pub fn files(&self) -> &[PathBuf] {
        match &self.origin {
            Origin::Files(files) => &files.inputs,
            #[cfg(feature = "serve")]
            Origin::Live(_) => &[],
        }
    }

    /// A file of the recording.
    pub fn source(&self) -> &Path {
        self.files().first().map_or(Path::new("live"), PathBuf::as_path)
    }

    /// Polarisations of heaps of a live stream, whose inputs lie side by side; 1 of others.
    pub fn polarisations(&self) -> usize {
        match &self.origin {
            Origin::Files(_) => 1,
            #[cfg(feature = "serve")]
            Origin::Live(live) => live.polarisations(),
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
    pub fn open(&self, array: Option<&Array>, gpus: &[Arc<dyn Gpu>]) -> Result<Option<Input>> {
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

    /// Timestamps and numbers of `channels` channels; a live stream's own once it has begun.
    pub fn ticks(&self, channels: usize) -> Ticks {
        #[cfg(feature = "serve")]
        if let Origin::Live(live) = &self.origin
            && let Some(ticks) = live.ticks()
        {
            let factor = self.upchannelise.as_ref().map_or(1, FilterBank::factor) as u64;
            return ticks.upchannelised(factor);
        }
        Ticks::of(channels)
    }

    /// Number of times to process at once; few for a live stream, of interval `pace`, so that results come soon.
    pub fn at_once(&self, shape: &Shape, pace: Option<f64>) -> usize {
        let at_once = block_times(shape.bytes_per_time());
        let at_once = if at_once > GRAIN { at_once / GRAIN * GRAIN } else { at_once };
        let Some(interval) = pace else { return at_once };
        let grain = self.flagging.block_times().unwrap_or(GRAIN);
        let soon = ((SOON / interval) as usize).next_multiple_of(grain);
        at_once.next_multiple_of(grain).min(soon.max(grain))
    }

    /// Sentence on what was received of a live stream.
    pub fn received(&self) -> Option<String> {
        match &self.origin {
            Origin::Files(_) => None,
            #[cfg(feature = "serve")]
            Origin::Live(live) => live.said(),
        }
    }

    /// Names the products that a live stream was too fast for, by the time that they took.
    pub fn warn_of_overrun(&self, took: &[(String, Duration)]) {
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
    pub fn expected(&self, array: Option<&Array>) -> Result<Option<Expected>> {
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
                    shape: Shape { channels, encoding, layout: corrust::Layout::Tcn, ..shape },
                    interval: interval * factor as f64,
                    times: times.map(|times| times / factor as u64),
                }))
            }
        }
    }
}

/// The keys of a table within a table, and its own place.
fn inner(text: Text<'_>, table: &mut Spanned<Keys>, key: &str) -> Result<Option<Spanned<Keys>>> {
    let Some(value) = take_key(table, key) else { return Ok(None) };
    let span = value.span();
    let Value::Table(keys) = value.into_inner() else {
        return Err(
            text.error(span.start, format!("{key}: expected a table, as {{ a = 1, b = 2 }}"))
        );
    };
    let at = |(key, value)| (key, Spanned::new(span.clone(), value));
    Ok(Some(Spanned::new(span.clone(), keys.into_iter().map(at).collect())))
}

/// The keys of these names, taken out of a table.
fn taken(table: &mut Spanned<Keys>, names: &[&str]) -> Spanned<Keys> {
    let named = |name: &&str| take_key(table, name).map(|value| ((*name).to_owned(), value));
    let keys = names.iter().filter_map(named).collect();
    Spanned::new(table.span(), keys)
}

/// Paths of the recording's files; none of a live stream.
fn paths(text: Text<'_>, table: &mut Spanned<Keys>, live: bool) -> Result<Vec<String>> {
    let value = match (take_key(table, "files"), live) {
        (None, true) => return Ok(Vec::new()),
        (None, false) => {
            let what = "[input]: expected files, as files = [\"scan.npy\"], or live";
            return Err(text.error(table.span().start, what));
        }
        (Some(value), true) => {
            return Err(text.error(value.span().start, "files: expected one of files and live"));
        }
        (Some(value), false) => value,
    };
    let paths = value.get_ref().as_array().filter(|all| !all.is_empty());
    let paths =
        paths.and_then(|all| all.iter().map(|each| each.as_str().map(str::to_owned)).collect());
    paths.ok_or_else(|| {
        let what = "files: expected a list of paths, as [\"scan.npy\"]";
        text.error(value.span().start, what)
    })
}

/// Path of the array file.
fn array(text: Text<'_>, table: &mut Spanned<Keys>) -> Result<Option<PathBuf>> {
    let Some(value) = take_key(table, "array") else { return Ok(None) };
    let path = value.get_ref().as_str().map(PathBuf::from);
    path.map(Some).ok_or_else(|| text.error(value.span().start, "array: expected a path"))
}

/// Devices that make the products.
fn device(text: Text<'_>, table: &mut Spanned<Keys>) -> Result<Devices> {
    let Some(value) = take_key(table, "device") else { return Ok(Devices::default()) };
    let at = value.span().start;
    let said = value.get_ref().as_str();
    let said = said.ok_or_else(|| text.error(at, "device: expected a text"))?;
    said.parse().map_err(|error: Error| text.error(at, error))
}

/// Options of flags, whose keys are shorter than those of the commands.
fn flagging(text: Text<'_>, table: &mut Spanned<Keys>) -> Result<Flagging> {
    let Some(mut flag) = inner(text, table, "flag")? else { return Ok(Flagging::default()) };
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
    text.options(&flag, [], [])
}

/// The F-engine and its channels; files of `raw` voltages need it.
fn engine(
    text: Text<'_>,
    table: &mut Spanned<Keys>,
    raw: &Keys,
    live: bool,
) -> Result<Option<(usize, Engine)>> {
    let Some(mut engine) = inner(text, table, "channelise")? else {
        return match raw.iter().next().filter(|_| !live) {
            None => Ok(None),
            Some((key, value)) => {
                let what =
                    format!("{key}: of raw voltages, expected channelise = {{ channels = C }}");
                Err(text.error(value.span().start, what))
            }
        };
    };
    let channels = take_key(&mut engine, "channels").and_then(|value| value.get_ref().as_integer());
    let Some(channels) = channels.and_then(|channels| usize::try_from(channels).ok()) else {
        let what = "channelise: expected channels, as { channels = 4096 }";
        return Err(text.error(engine.span().start, what));
    };
    Ok(Some((channels, text.options(&engine, [], [])?)))
}

/// The filter bank of subchannels, of channels that do not overlap.
fn upchannelise(
    text: Text<'_>,
    table: &mut Spanned<Keys>,
    engine: Option<&(usize, Engine)>,
) -> Result<Option<FilterBank>> {
    let Some(keys) = inner(text, table, "upchannelise")? else { return Ok(None) };
    if engine.is_some_and(|(_, engine)| engine.is_oversampled()) {
        let what = "upchannelise: of channels that overlap, expected no oversample in channelise";
        return Err(text.error(keys.span().start, what));
    }
    let filter: FilterBank = text.options(&keys, [], [])?;
    filter.voltages().map_err(|error| text.located(&keys, error))?;
    Ok(Some(filter))
}
