//! Delays as polynomials of time, in pieces.

use std::path::Path;

use corrust_host::{Error, Result, channelise::DelayModel, partial::PartialFile, text::read_text};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::array::{tai::Moment, time::parse_moment};

/// Piecewise polynomials, a list of pieces for each input.
///
/// As JSON, an object with a list `"delays"`, whose entries are the inputs in order, each a number of seconds
/// that never changes, or a list of pieces:
///
/// ```json
/// {
///   "epoch": "2026-03-20T14:46:00Z",
///   "delays": [
///     0,
///     1.25e-7,
///     [{"start": 0, "end": 600, "coefficients": [2.1e-6, -3.0e-10]},
///      {"start": "2026-03-20T14:56:00Z", "end": 1200, "coefficients": [1.92e-6, -2.9e-10]}]
///   ]
/// }
/// ```
///
/// A piece gives `sum over k of coefficients[k] (t - start)^k` seconds from its start to its end. Times are
/// seconds after the `"epoch"`, which is the recording's start where the file does not say, or in ISO 8601.
/// Other fields are ignored: the description that `corrust simulate --raw` writes is such a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Polynomials {
    /// Pieces of each input, ascending and apart.
    inputs: Vec<Vec<Polynomial>>,
}

/// A polynomial and the time for which it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Polynomial {
    /// First second, after the recording's start.
    pub start: f64,
    /// Last second.
    pub end: f64,
    /// Seconds, seconds per second, and so on, of the time after `start`.
    pub coefficients: Vec<f64>,
}

impl Polynomial {
    /// The delay in seconds, `seconds` after the recording's start.
    fn delay(&self, seconds: f64) -> f64 {
        let Some((last, others)) = self.coefficients.split_last() else { return 0.0 };
        // A constant may begin at minus infinity.
        others
            .iter()
            .rev()
            .fold(*last, |sum, coefficient| sum * (seconds - self.start) + coefficient)
    }

    /// Seconds that its delay is no longer than, either way.
    fn longest(&self) -> f64 {
        let Some((last, others)) = self.coefficients.split_last() else { return 0.0 };
        // The piece of a constant may have no end.
        let length = self.end - self.start;
        others.iter().rev().fold(last.abs(), |sum, coefficient| sum * length + coefficient.abs())
    }

    /// Says what is wrong with the piece, if anything is.
    fn check(&self) -> Result<(), String> {
        let Self { start, end, coefficients } = self;
        // A constant holds for all of time.
        if start.is_nan() || end.is_nan() || start >= end {
            return Err(format!("from {start} to {end} s: expected an end after the start"));
        }
        if coefficients.is_empty() {
            return Err("0 coefficients: expected at least 1".into());
        }
        match coefficients.iter().find(|coefficient| !coefficient.is_finite()) {
            Some(found) => Err(format!("coefficient {found}: expected a finite number")),
            None => Ok(()),
        }
    }
}

impl Polynomials {
    /// Delays of as many inputs as there are lists of pieces.
    ///
    /// # Errors
    /// [`Error::Invalid`] for pieces that end before they start, lie in another order or over each other, or
    /// have no coefficients or such as are not finite.
    pub fn new(inputs: Vec<Vec<Polynomial>>) -> Result<Self> {
        for (input, pieces) in inputs.iter().enumerate() {
            check(pieces).map_err(|fault| Error::invalid(format!("input {input}, {fault}")))?;
        }
        Ok(Self { inputs })
    }

    /// Delays that never change, of each input, in seconds.
    ///
    /// # Errors
    /// [`Error::Invalid`] when one is not finite.
    pub fn constant(delays: &[f64]) -> Result<Self> {
        Self::new(delays.iter().map(|&delay| vec![Polynomial::constant(delay)]).collect())
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Pieces of an input, ascending and apart.
    ///
    /// # Panics
    /// When there is no such input.
    pub fn pieces(&self, input: usize) -> &[Polynomial] {
        &self.inputs[input]
    }

    /// Reads the delays of the JSON file `path` for a recording that starts at `start`.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read; [`Error::File`] when it is not such a file, or needs to
    /// know when the recording started and that is not known.
    ///
    /// ```
    /// use corrust_host::channelise::DelayModel;
    /// use corrust_recordings::array::Polynomials;
    ///
    /// # let folder = std::env::temp_dir().join(format!("corrust-doc-delays-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("delays.json");
    /// std::fs::write(
    ///     &path,
    ///     r#"{
    ///         "epoch": "2026-03-20T14:46:00Z",
    ///         "delays": [1e-7, [{"start": 0, "end": 600, "coefficients": [2e-6, -3e-10]}]]
    ///     }"#,
    /// )?;
    /// // The recording starts a minute later.
    /// let delays = Polynomials::read(&path, Some("2026-03-20T14:47:00Z".parse()?))?;
    /// assert_eq!(delays.delay(0, 0.0), Some(1e-7));
    /// assert_eq!(delays.delay(1, 40.0), Some(2e-6 - 3e-10 * 100.0));
    /// assert_eq!(delays.delay(1, 541.0), None);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(path: impl AsRef<Path>, start: Option<Timestamp>) -> Result<Self> {
        let path = path.as_ref();
        let text = read_text(path)?;
        let value = serde_json::from_str(&text).map_err(|error| {
            Error::file(path, format!("{error}: expected JSON with \"delays\" [...]"))
        })?;
        Self::parse(&value, start).map_err(|fault| Error::file(path, fault))
    }

    fn parse(value: &Value, start: Option<Timestamp>) -> Result<Self, String> {
        let delays = match value.get("delays") {
            Some(Value::Array(delays)) => delays,
            Some(other) => {
                return Err(format!(
                    "\"delays\" {}: expected a list with a number or pieces for each input",
                    brief(other)
                ));
            }
            None => {
                return Err(
                    "no \"delays\": expected a list with a number or pieces for each input".into(),
                );
            }
        };
        if delays.is_empty() {
            return Err("\"delays\" of 0 inputs: expected at least 1".into());
        }
        let epoch = match value.get("epoch") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => {
                Some(parse_moment(text).map_err(|error| format!("\"epoch\" {error}"))?)
            }
            Some(other) => {
                return Err(format!("\"epoch\" {}: expected a time as text", brief(other)));
            }
        };
        let [epoch, start] = [epoch, start].map(|moment| moment.map(Moment::from));
        let clock = Clock { epoch, start };
        let inputs = delays.iter().enumerate().map(|(input, delays)| {
            let named = |fault| format!("input {input}, {fault}");
            let pieces = match delays {
                Value::Number(number) => {
                    vec![Polynomial::constant(number.as_f64().unwrap_or(f64::NAN))]
                }
                Value::Array(pieces) => {
                    let piece = |(piece, value)| {
                        let named = |fault| format!("piece {piece}: {fault}");
                        clock.piece(value).map_err(named)
                    };
                    let pieces: Result<_, _> = pieces.iter().enumerate().map(piece).collect();
                    pieces.map_err(named)?
                }
                other => {
                    let fault = format!(
                        "{}: expected a number of seconds or a list of pieces",
                        brief(other)
                    );
                    return Err(named(fault));
                }
            };
            check(&pieces).map_err(named)?;
            Ok(pieces)
        });
        Ok(Self { inputs: inputs.collect::<Result<_, _>>()? })
    }

    /// As JSON: what [`read`](Self::read) reads, as fields of an object. Times are seconds after `epoch`,
    /// when the recording starts.
    ///
    /// # Panics
    /// When a piece of several reaches to the end of time, which a file cannot say.
    pub fn fields(&self, epoch: Option<Timestamp>) -> Map<String, Value> {
        let pieces = |pieces: &Vec<Polynomial>| match &pieces[..] {
            [Polynomial { start, end, coefficients }]
                if start.is_infinite() && end.is_infinite() =>
            {
                json!(coefficients[0])
            }
            pieces => pieces
                .iter()
                .map(|Polynomial { start, end, coefficients }| {
                    assert!(start.is_finite() && end.is_finite(), "a piece without an end");
                    json!({"start": start, "end": end, "coefficients": coefficients})
                })
                .collect(),
        };
        let mut fields = Map::new();
        if let Some(epoch) = epoch {
            fields.insert("epoch".into(), epoch.to_string().into());
        }
        fields.insert("delays".into(), self.inputs.iter().map(pieces).collect());
        fields
    }

    /// Writes the delays to the JSON file `path`. `epoch` is when the recording starts.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written.
    ///
    /// # Panics
    /// As [`fields`](Self::fields).
    pub fn write(&self, path: impl AsRef<Path>, epoch: Option<Timestamp>) -> Result<()> {
        let mut file = PartialFile::create(path)?;
        let text = serde_json::to_string_pretty(&self.fields(epoch));
        file.append(text.expect("numbers are always JSON").as_bytes())?;
        file.append(b"\n")?;
        file.finish()
    }
}

impl Polynomial {
    /// A delay that never changes.
    pub fn constant(delay: f64) -> Self {
        Self { start: f64::NEG_INFINITY, end: f64::INFINITY, coefficients: vec![delay] }
    }
}

impl DelayModel for Polynomials {
    fn delay(&self, input: usize, seconds: f64) -> Option<f64> {
        let pieces = self.inputs.get(input)?;
        let piece = pieces.get(pieces.partition_point(|piece| piece.end < seconds))?;
        (piece.start <= seconds).then(|| piece.delay(seconds))
    }

    fn longest(&self, input: usize) -> f64 {
        let pieces = self.inputs.get(input).map_or(&[][..], |pieces| pieces);
        pieces.iter().map(Polynomial::longest).fold(0.0, f64::max)
    }
}

/// Says what is wrong with an input's pieces, if anything is.
fn check(pieces: &[Polynomial]) -> Result<(), String> {
    if pieces.is_empty() {
        return Err("0 pieces: expected at least 1".into());
    }
    for (index, piece) in pieces.iter().enumerate() {
        piece.check().map_err(|fault| format!("piece {index}: {fault}"))?;
        if let Some(before) = index.checked_sub(1).map(|before| &pieces[before])
            && piece.start < before.end
        {
            return Err(format!(
                "piece {index}: starts at {} s: expected no earlier than the end of the piece before, \
                 {} s",
                piece.start, before.end
            ));
        }
    }
    Ok(())
}

/// Origins of the times in a file and of the times of a model.
struct Clock {
    epoch: Option<Moment>,
    start: Option<Moment>,
}

impl Clock {
    fn piece(&self, value: &Value) -> Result<Polynomial, String> {
        let Value::Object(fields) = value else {
            return Err(format!(
                "{}: expected {{\"start\", \"end\", \"coefficients\"}}",
                brief(value)
            ));
        };
        let coefficients = match fields.get("coefficients") {
            Some(Value::Array(coefficients)) => coefficients
                .iter()
                .map(|value| {
                    let fault = || format!("coefficient {}: expected a number", brief(value));
                    value.as_f64().ok_or_else(fault)
                })
                .collect::<Result<_, _>>()?,
            Some(other) => {
                return Err(format!("\"coefficients\" {}: expected a list", brief(other)));
            }
            None => return Err("no \"coefficients\": expected a list of numbers".into()),
        };
        let (start, end) = (self.seconds(fields, "start")?, self.seconds(fields, "end")?);
        Ok(Polynomial { start, end, coefficients })
    }

    /// A time of a piece in seconds after the recording's start.
    fn seconds(&self, fields: &Map<String, Value>, name: &str) -> Result<f64, String> {
        let since = |moment: Moment| match self.start {
            Some(start) => Ok(moment.seconds_since(start)),
            None => Err(format!(
                "\"{name}\" counts from a date, and the recording does not say when it started: expected \
                 seconds without an \"epoch\", or the recording's start"
            )),
        };
        match (fields.get(name), self.epoch) {
            (Some(Value::String(text)), _) => {
                since(parse_moment(text).map_err(|error| format!("\"{name}\" {error}"))?.into())
            }
            (Some(Value::Number(number)), epoch) => {
                let seconds = number.as_f64().unwrap_or(f64::NAN);
                Ok(seconds + epoch.map_or(Ok(0.0), since)?)
            }
            (Some(other), _) => {
                Err(format!("\"{name}\" {}: expected seconds or a time as text", brief(other)))
            }
            (None, _) => Err(format!("no \"{name}\": expected seconds or a time as text")),
        }
    }
}

/// A value, not more of it than a sentence bears.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
