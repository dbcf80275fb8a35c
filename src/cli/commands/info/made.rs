//! Facts of files that corrust writes: powers, visibilities, curves, states, and arrays of every command.

use std::{fs::File, io::Read, path::Path};

use corrust::{
    Error, Result,
    autocorrelate::State,
    format::{
        npy::{Dtype, Reader},
        sigproc, uvh5,
    },
    images::Stack,
};
use serde_json::{Map, Value, json};

use crate::cli::commands::autocorrelate::read::Table;
use crate::cli::options::files::UVH5;
use crate::cli::options::run_files::ending;
use crate::cli::terminal::numbers::{self, si};
use crate::cli::terminal::say::say;

/// Arrays by their types and axes: what they hold, and the axes' names. A number in place of a name is the length.
const ARRAYS: &[(&[Dtype], &str, &[&str])] = &[
    (
        &[Dtype::Int64, Dtype::Float32],
        "visibilities of corrust correlate",
        &["dump", "channel", "baseline", "2"],
    ),
    (
        &[Dtype::Int64, Dtype::Float32],
        "visibilities of gates, of corrust correlate",
        &["dump", "gate", "channel", "baseline", "2"],
    ),
    (&[Dtype::Int64], "sums of corrust correlate --kurtosis", &["block", "channel", "input", "3"]),
    (
        &[Dtype::Int64, Dtype::Float64],
        "powers of corrust filterbank --stokes, or spectra of corrust observe [dump][channel][input]",
        &["sample", "parameter", "channel"],
    ),
    (&[Dtype::Uint64], "correlation sums of corrust autocorrelate", &["sensor", "group", "lag"]),
    (
        &[Dtype::Int8],
        "beams of corrust beamform, or weights of corrust weights [F][P][B][D][2]",
        &["beam", "channel", "polarisation", "time", "2"],
    ),
    (
        &[Dtype::Float16, Dtype::Float32],
        "beams of corrust beamform",
        &["beam", "channel", "polarisation", "time", "2"],
    ),
    (
        &[Dtype::Uint8],
        "beams of corrust beamform, ci4",
        &["beam", "channel", "polarisation", "time"],
    ),
    (&[Dtype::Int32], "shifts of corrust weights", &["channel", "polarisation", "beam"]),
    (&[Dtype::Float32], "powers of beams on a grid", &["channel", "time", "row", "column"]),
    (
        &[Dtype::Float64],
        "curves of corrust autocorrelate, or powers [sample][channel]",
        &["column", "point"],
    ),
    (&[Dtype::Int64], "powers of corrust filterbank", &["sample", "channel"]),
    (&[Dtype::Float64], "maps of corrust images --brightness", &["row", "column", "4"]),
    (&[Dtype::Uint16], "stack of images", &["frame", "row", "column"]),
];

/// Facts of a file that is no recording.
pub struct Made(Map<String, Value>);

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
            _ => return Ok(None),
        };
        Ok(found.as_object().cloned().map(Self))
    }

    /// Prints the facts: lines, or JSON of the same names.
    pub fn print(&self, json: bool) {
        if json {
            say(serde_json::to_string_pretty(&self.0).expect("text and numbers"));
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
            let name = name.trim_end_matches("_hz").replace('_', " ");
            say(format_args!("{name:<21}{text}"));
        }
    }
}

fn powers(path: &Path) -> Result<Value> {
    let reader = sigproc::Reader::open(path)?;
    let header = reader.header();
    let last = header.first_channel + (header.channels - 1) as f64 * header.channel_width;
    Ok(json!({
        "format": "SIGPROC filterbank", "holds": "powers [time][parameter][channel]",
        "source": header.source, "times": reader.times(), "parameters": header.ifs,
        "channels": header.channels, "bits": header.bits.count(),
        "sample_seconds": header.interval, "seconds": header.interval * reader.times() as f64,
        "first_channel_hz": header.first_channel, "last_channel_hz": last,
        "start_mjd": (header.start > 0.0).then_some(header.start),
        "ra_degrees": header.direction.map(|[ra, _]| ra),
        "dec_degrees": header.direction.map(|[_, dec]| dec),
        "beam": header.beam.map(|(beam, _)| beam),
    }))
}

fn visibilities(path: &Path) -> Result<Value> {
    let reader = uvh5::Reader::open(path)?;
    let (times, frequencies) = (reader.times(), reader.frequencies());
    let day = 86_400.0;
    let seconds = match times {
        [first, .., last] => Some(day * (last - first) / (times.len() - 1) as f64),
        _ => None,
    };
    Ok(json!({
        "format": "UVH5", "holds": "visibilities [dump][baseline][channel][polarisation]",
        "dumps": reader.dumps(), "baselines": reader.pairs().len(),
        "channels": frequencies.len(), "polarisations": reader.polarisations().len(),
        "first_channel_hz": frequencies.first(), "last_channel_hz": frequencies.last(),
        "first_dump_jd": times.first(), "dump_seconds": seconds,
    }))
}

fn curves(path: &Path) -> Result<Value> {
    let table = Table::read(path)?;
    let lags = table.lags.iter().copied().filter(|lag| *lag > 0.0);
    let (first, last) =
        lags.fold((f64::INFINITY, 0.0_f64), |(first, last), lag| (lag.min(first), lag.max(last)));
    let names: Vec<&String> = table.curves.iter().map(|(name, _)| name).collect();
    Ok(json!({
        "format": "table of text", "holds": "correlation curves g(tau)", "curves": names.len(),
        "names": names.iter().take(super::LINES).collect::<Vec<_>>(), "lags": table.lags.len(),
        "first_lag_seconds": (first < last).then_some(first),
        "last_lag_seconds": (first < last).then_some(last), "error_bars": table.errors,
        "blocks": table.without.first().map_or(0, |blocks| blocks.nrows()),
    }))
}

fn stack(path: &Path) -> Result<Value> {
    let stack = Stack::open(path, "data")?;
    Ok(json!({
        "format": stack.format(), "holds": "stack of images [frame][row][column]",
        "frames": stack.frames(), "rows": stack.height(), "columns": stack.width(),
    }))
}

/// Whether a file begins as a state does.
fn is_state(path: &Path) -> Result<bool> {
    const BEGIN: &[u8] = b"{\"corrust\":\"autocorrelation state\"";
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::io(path, "read"))?;
    file.take(BEGIN.len() as u64).read_to_end(&mut bytes).map_err(Error::io(path, "read"))?;
    Ok(bytes == BEGIN)
}

fn state(path: &Path) -> Result<Value> {
    let state = State::load(path)?;
    let shape = state.shape();
    Ok(json!({
        "format": "state of corrust autocorrelate --save", "holds": "a stream to be resumed",
        "sensors": shape.sensors, "groups": shape.groups, "lags": shape.lags,
        "scheme": shape.scheme.name(), "instants": state.instants(),
    }))
}

fn array(path: &Path) -> Result<Option<Map<String, Value>>> {
    let reader = Reader::open(path)?;
    let (Some(dtype), shape) = (reader.dtype(), reader.shape()) else { return Ok(None) };
    let fits = |axes: &[&str]| {
        let pairs = axes.iter().zip(shape);
        axes.len() == shape.len()
            && pairs
                .clone()
                .all(|(name, length)| name.parse().map_or(true, |it: usize| it == *length))
    };
    let found = ARRAYS.iter().find(|(types, _, axes)| types.contains(&dtype) && fits(axes));
    let Some((_, holds, axes)) = found else { return Ok(None) };
    let facts = json!({
        "format": "NumPy", "holds": holds, "type": reader.type_name(), "axes": axes, "shape": shape,
    });
    Ok(facts.as_object().cloned())
}
