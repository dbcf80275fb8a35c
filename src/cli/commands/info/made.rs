//! Facts of files that corrust writes: powers, visibilities, curves, states, and arrays of every command.

use std::{fs::File, io::Read, path::Path};

use corrust::{
    Error, Result,
    autocorrelate::State,
    correlate::baselines,
    format::{
        self, Options,
        npy::{Dtype, Reader},
        photon_hdf5, read_most, sigproc, tttr, uvh5,
    },
    images::Stack,
};
use serde_json::{Value, json};

use crate::cli::commands::autocorrelate::read::Table;
use crate::cli::options::files::UVH5;
use crate::cli::options::run_files::ending;
use crate::cli::terminal::numbers::{self, si};
use crate::cli::terminal::say::say;

/// Arrays of a type and axes.
struct Array {
    types: &'static [Dtype],
    holds: &'static str,
    /// Names of the axes. A number in place of a name is the length, of baselines it is one that inputs have.
    axes: &'static [&'static str],
    /// Files that `corrust plot` draws in place of these, which it does not.
    drawn: Option<&'static str>,
}

impl Array {
    const fn new(
        types: &'static [Dtype],
        holds: &'static str,
        axes: &'static [&'static str],
    ) -> Self {
        Self { types, holds, axes, drawn: None }
    }

    /// Arrays that are not drawn, but these files are.
    const fn but(self, drawn: &'static str) -> Self {
        Self { drawn: Some(drawn), ..self }
    }

    /// The first that an array of a type and axes can be.
    fn of(dtype: Dtype, shape: &[usize]) -> Option<&'static Self> {
        let fits = |(name, &length): (&&str, &usize)| match *name {
            "baseline" => (1..).map(baselines).find(|&all| all >= length) == Some(length),
            name => name.parse().map_or(true, |it: usize| it == length),
        };
        ARRAYS.iter().find(|array| {
            array.types.contains(&dtype)
                && array.axes.len() == shape.len()
                && array.axes.iter().zip(shape).all(fits)
        })
    }
}

/// Arrays that are no recordings.
const ARRAYS: &[Array] = &[
    Array::new(
        &[Dtype::Int64, Dtype::Float32],
        "visibilities of corrust correlate",
        &["dump", "channel", "baseline", "2"],
    ),
    Array::new(
        &[Dtype::Int64, Dtype::Float32],
        "visibilities of gates, of corrust correlate",
        &["dump", "gate", "channel", "baseline", "2"],
    )
    .but("those of one gate, [dump][channel][baseline][2]"),
    Array::new(
        &[Dtype::Float32],
        "spectra of corrust channelise, cf32",
        &["time", "channel", "input", "2"],
    )
    .but("spectra of ci8, ci4 or cf16, which corrust filterbank makes powers of"),
    Array::new(
        &[Dtype::Int64],
        "sums of corrust correlate --kurtosis",
        &["block", "channel", "input", "3"],
    )
    .but("powers, as corrust filterbank writes"),
    Array::new(
        &[Dtype::Int64, Dtype::Float64],
        "powers of corrust filterbank --stokes, spectra of corrust observe [dump][channel][input], or maps and correlations of \
         corrust images",
        &["sample", "parameter", "channel"],
    ),
    Array::new(
        &[Dtype::Uint64],
        "correlation sums of corrust autocorrelate",
        &["sensor", "group", "lag"],
    )
    .but("curves, as corrust autocorrelate --curves g.csv writes"),
    Array::new(
        &[Dtype::Int8],
        "beams of corrust beamform, or weights of corrust weights [F][P][B][D][2]",
        &["beam", "channel", "polarisation", "time", "2"],
    ),
    Array::new(
        &[Dtype::Float16, Dtype::Float32],
        "beams of corrust beamform",
        &["beam", "channel", "polarisation", "time", "2"],
    ),
    Array::new(
        &[Dtype::Uint8],
        "beams of corrust beamform, ci4",
        &["beam", "channel", "polarisation", "time"],
    ),
    Array::new(&[Dtype::Int32], "shifts of corrust weights", &["channel", "polarisation", "beam"])
        .but("beams, as corrust beamform writes"),
    Array::new(
        &[Dtype::Float32],
        "powers of beams on a grid",
        &["channel", "time", "row", "column"],
    )
    .but("beams, as corrust beamform --weights writes"),
    Array::new(
        &[Dtype::Float64],
        "curves or a trace of corrust autocorrelate, g2 of corrust images, or powers [sample][channel]",
        &["column", "point"],
    ),
    Array::new(&[Dtype::Int64], "powers of corrust filterbank", &["sample", "channel"]),
    Array::new(&[Dtype::Uint16], "stack of images", &["frame", "row", "column"]),
];

/// Points of a column of lags or times, at most.
const MOST_POINTS: usize = 1 << 20;

/// Names of curves that are shown.
const NAMES: usize = 16;

/// Names and values, in the order in which they are printed.
type Facts = Vec<(&'static str, Value)>;

/// Facts of a file that is no recording.
pub struct Made(Facts);

impl Made {
    /// Describes a file if corrust writes such ones and they are neither recordings nor photons.
    pub fn of(path: &Path) -> Result<Option<Self>> {
        if !path.is_file() {
            return Ok(None);
        }
        let found = match &ending(path)[..] {
            UVH5 => visibilities(path)?,
            "csv" => curves(path)?,
            "tif" | "tiff" => stack(path)?,
            "npy" => return Ok(array(path)?.map(Self)),
            _ if sigproc::Reader::recognises(path)? => powers(path)?,
            _ if is_state(path)? => state(path)?,
            "json" => names(path)?,
            _ => return Ok(None),
        };
        Ok(Some(Self(found)))
    }

    /// Prints the facts: lines, or JSON of the same names.
    pub fn print(&self, json: bool) {
        if json {
            let facts: serde_json::Map<String, Value> =
                self.0.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            say(serde_json::to_string_pretty(&facts).expect("text and numbers"));
            return;
        }
        for (name, value) in &self.0 {
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text.clone(),
                Value::Number(number) if name.ends_with("_hz") => {
                    format!("{}Hz", si(number.as_f64().unwrap_or(f64::NAN)))
                }
                Value::Number(number) if name.ends_with("seconds") => {
                    numbers::seconds(number.as_f64().unwrap_or(f64::NAN))
                }
                Value::Array(all) => {
                    let all =
                        all.iter().map(|it| it.as_str().map_or(it.to_string(), str::to_owned));
                    all.collect::<Vec<_>>().join(" x ")
                }
                other => other.to_string(),
            };
            let name = name.trim_end_matches("_hz").trim_end_matches("_seconds").replace('_', " ");
            let name = if name == "seconds" { "length".to_owned() } else { name };
            say(format_args!("{name:<21}{text}"));
        }
    }
}

fn powers(path: &Path) -> Result<Facts> {
    let reader = sigproc::Reader::open(path)?;
    let header = reader.header();
    let last = header.first_channel + (header.channels - 1) as f64 * header.channel_width;
    Ok(vec![
        ("format", json!("SIGPROC filterbank")),
        ("holds", json!("powers [time][parameter][channel]")),
        ("source", json!(header.source)),
        ("times", json!(reader.times())),
        ("parameters", json!(header.ifs)),
        ("channels", json!(header.channels)),
        ("bits", json!(header.bits.count())),
        ("sample_seconds", json!(header.interval)),
        ("seconds", json!(header.interval * reader.times() as f64)),
        ("first_channel_hz", json!(header.first_channel)),
        ("last_channel_hz", json!(last)),
        ("start_mjd", json!((header.start > 0.0).then_some(header.start))),
        ("ra_degrees", json!(header.direction.map(|[ra, _]| ra))),
        ("dec_degrees", json!(header.direction.map(|[_, dec]| dec))),
        ("beam", json!(header.beam.map(|(beam, _)| beam))),
    ])
}

fn visibilities(path: &Path) -> Result<Facts> {
    let reader = uvh5::Reader::open(path)?;
    let (times, frequencies) = (reader.times(), reader.frequencies());
    let day = 86_400.0;
    let seconds = match times {
        [first, .., last] => Some(day * (last - first) / (times.len() - 1) as f64),
        _ => None,
    };
    Ok(vec![
        ("format", json!("UVH5")),
        ("holds", json!("visibilities [dump][baseline][channel][polarisation]")),
        ("dumps", json!(reader.dumps())),
        ("baselines", json!(reader.pairs().len())),
        ("channels", json!(frequencies.len())),
        ("polarisations", json!(reader.polarisations().len())),
        ("first_channel_hz", json!(frequencies.first())),
        ("last_channel_hz", json!(frequencies.last())),
        ("first_dump_jd", json!(times.first())),
        ("dump_seconds", json!(seconds)),
    ])
}

fn curves(path: &Path) -> Result<Facts> {
    let table = Table::read(path)?;
    let lags = table.lags.iter().copied().filter(|lag| *lag > 0.0);
    let (first, last) =
        lags.fold((f64::INFINITY, 0.0_f64), |(first, last), lag| (lag.min(first), lag.max(last)));
    let names: Vec<&String> = table.curves.iter().map(|(name, _)| name).collect();
    Ok(vec![
        ("format", json!("table of text")),
        ("holds", json!("correlation curves g(tau)")),
        ("curves", json!(names.len())),
        ("names", json!(names.iter().take(NAMES).collect::<Vec<_>>())),
        ("lags", json!(table.lags.len())),
        ("first_lag_seconds", json!((first < last).then_some(first))),
        ("last_lag_seconds", json!((first < last).then_some(last))),
        ("error_bars", json!(table.errors)),
        ("blocks", json!(table.without.first().map_or(0, |blocks| blocks.nrows()))),
    ])
}

fn stack(path: &Path) -> Result<Facts> {
    let stack = Stack::open(path, "data")?;
    Ok(vec![
        ("format", json!(stack.format())),
        ("holds", json!("stack of images [frame][row][column]")),
        ("frames", json!(stack.frames())),
        ("rows", json!(stack.height())),
        ("columns", json!(stack.width())),
    ])
}

/// Names in a JSON file, such as an array file, a description, delays or the results of a fit.
fn names(path: &Path) -> Result<Facts> {
    const MOST: u64 = 64 << 20;
    let bytes = read_most(path, MOST)?;
    let object: serde_json::Map<String, Value> = serde_json::from_slice(&bytes)
        .map_err(|error| Error::file(path, format!("{error}: expected a JSON object")))?;
    let names: Vec<String> = object.keys().cloned().collect();
    Ok(vec![("format", json!("JSON")), ("names", json!(names.join(", ")))])
}

/// Whether a file begins as a state does.
fn is_state(path: &Path) -> Result<bool> {
    const BEGIN: &[u8] = b"{\"corrust\":\"autocorrelation state\"";
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::io(path, "read"))?;
    file.take(BEGIN.len() as u64).read_to_end(&mut bytes).map_err(Error::io(path, "read"))?;
    Ok(bytes == BEGIN)
}

fn state(path: &Path) -> Result<Facts> {
    let state = State::load(path)?;
    let shape = state.shape();
    Ok(vec![
        ("format", json!("state of corrust autocorrelate --save")),
        ("holds", json!("a stream to be resumed")),
        ("sensors", json!(shape.sensors)),
        ("groups", json!(shape.groups)),
        ("lags", json!(shape.lags)),
        ("scheme", json!(shape.scheme.name())),
        ("instants", json!(state.instants())),
        ("dwell_seconds", json!(state.dwell())),
        ("masked", json!(state.is_masked())),
    ])
}

/// Why `corrust plot` does not draw a file, and what it draws in place of it; [`None`] where it does, or the file is none of these.
pub fn undrawn(path: &Path) -> Result<Option<String>> {
    let drawn = [UVH5, "fil", "tif", "tiff"];
    if !path.is_file() || drawn.contains(&&ending(path)[..]) {
        return Ok(None);
    }
    let says = |holds: &str, drawn: &str| Ok(Some(format!("holds {holds}: expected {drawn}")));
    let curves = "curves, as corrust autocorrelate --curves g.csv writes";
    if tttr::is_tttr(path)? || !photon_hdf5::spots(path)?.is_empty() {
        return says("photons", curves);
    }
    let is_described = path.with_added_extension("json").exists();
    if ending(path) == "npy" && !is_described {
        let mut reader = Reader::open(path)?;
        let found = reader.dtype().and_then(|dtype| Array::of(dtype, reader.shape()));
        if let Some(Array { holds, drawn, .. }) = found {
            if reader.dtype() == Some(Dtype::Float64) && has_lags(&mut reader)? {
                return says("columns, lags or times first", curves);
            }
            return drawn.map_or(Ok(None), |drawn| says(holds, drawn));
        }
        if reader.dtype() == Some(Dtype::Uint64) {
            return says("photons, or counts of them", curves);
        }
    }
    // A file that is no recording is drawn, or has an error of its own.
    match format::open_any(&[path], Options::default()) {
        Ok(_) => says(
            "voltages",
            "powers or visibilities of them, as corrust filterbank and corrust correlate write, of raw ones with --channelise",
        ),
        Err(_) => Ok(None),
    }
}

/// Whether the first column of float64 `[column][point]` ascends, as lags and times do and powers of a sample do not.
fn has_lags(reader: &mut Reader) -> Result<bool> {
    let &[_, points @ 3..=MOST_POINTS] = reader.shape() else { return Ok(false) };
    let mut lags = vec![0.0_f64; points];
    reader.read_at(0, bytemuck::cast_slice_mut(&mut lags))?;
    Ok(lags[0] >= 0.0 && lags.is_sorted_by(|a, b| a < b))
}

fn array(path: &Path) -> Result<Option<Facts>> {
    // A recording has a description beside it where its axes do not say enough.
    if path.with_added_extension("json").exists() {
        return Ok(None);
    }
    let reader = Reader::open(path)?;
    let (Some(dtype), shape) = (reader.dtype(), reader.shape()) else { return Ok(None) };
    let Some(Array { holds, axes, .. }) = Array::of(dtype, shape) else { return Ok(None) };
    let facts: Facts = vec![
        ("format", json!("NumPy")),
        ("holds", json!(holds)),
        ("type", json!(reader.type_name())),
        ("axes", json!(axes)),
        ("shape", json!(shape)),
    ];
    Ok(Some(facts))
}
