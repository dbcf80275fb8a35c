//! Facts about recordings that their files may not say.

use std::path::{Path, PathBuf};

use corrust_host::{Encoding, Error, Layout, Result, partial::is_stream, samples::RawLayout};

use super::format::Format;
use crate::array::{TOLERANCE, time::Timestamp};

/// Facts that the caller knows about a recording and its files may not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Encoding of the samples; by default what the file's type implies.
    pub encoding: Option<Encoding>,
    /// Layout of the samples; by default what the file says, `tcn` for NumPy files.
    pub layout: Option<Layout>,
    /// Whether to read what there is of a recording whose last block is cut short, instead of refusing it.
    pub keep_going: bool,
    /// Whether more times in a row may be missing than there are in all of the data.
    pub long_gaps: bool,
    /// Order of the axes of raw samples; by default what the file says, `nt` for NumPy files.
    pub raw_layout: Option<RawLayout>,
    /// Times a second, in hertz, which of raw voltages are samples of each input; by default what the file
    /// says. Where it says another number this one counts, and [`Recording::contradiction`](super::Recording::contradiction) says so.
    pub rate: Option<f64>,
    /// Inputs of a Mark 5B recording, which does not say.
    pub inputs: Option<usize>,
    /// Bits of a sample of a Mark 5B recording, which does not say: 1 or 2; by default 2.
    pub bits: Option<u8>,
    /// A moment within 500 days of the recording, where days are counted by thousands.
    pub near: Option<Timestamp>,
}

impl Options {
    /// Refuses options that would have no effect: of other formats, of raw voltages where there are channels, or of
    /// channels where there are raw voltages (`raw`).
    pub(super) fn check(&self, path: &Path, format: Format, raw: bool) -> Result<()> {
        let refuse = |setting: &'static str, value: &dyn std::fmt::Display, expected: &str| {
            let name = setting.replace('_', " ");
            let reason = format!("{name} {value} of {format}: expected it only of {expected}");
            Err(Error::setting(setting, Some(path), reason))
        };
        if format != Format::Mark5b {
            let mark5b = "Mark 5B, which does not say";
            if let Some(inputs) = self.inputs {
                return refuse("inputs", &inputs, mark5b);
            }
            if let Some(bits) = self.bits {
                return refuse("bits", &bits, mark5b);
            }
            if let Some(near) = self.near {
                return refuse("near", &near, "Mark 5B, which counts days by thousands");
            }
        }
        match (raw, self.layout, self.raw_layout) {
            (true, Some(layout), _) => refuse("layout", &layout, "channels"),
            (false, _, Some(layout)) => refuse("raw_layout", &layout, "raw voltages"),
            _ => Ok(()),
        }
    }
}

/// Most inputs, or channels, of raw voltages.
pub(super) const MOST_INPUTS: usize = 1 << 24;

/// The error of a recording whose last `unit` is cut short, where [`Options::keep_going`] is not set.
pub(super) fn cut_short(path: &Path, reason: &str, unit: &str) -> Error {
    let reason = format!("{reason}; what precedes this last {unit} can be read alone");
    Error::setting("keep_going", Some(path), reason)
}

/// The sentence about a file whose last `unit` is left out, being cut short: [`Options::keep_going`] lets the last file's be.
pub(super) fn leave_out(
    path: &Path,
    reason: &str,
    unit: &str,
    (last, keep_going): (bool, bool),
) -> Result<String> {
    match (last, keep_going) {
        (true, true) => Ok(format!("{}: {reason}", path.display())),
        (true, false) => Err(cut_short(path, reason, unit)),
        (false, _) => Err(Error::file(path, reason)),
    }
}

/// Step from one time of a recording to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// Seconds from one time to the next.
    pub(super) interval: Option<f64>,
    /// Sentence about a difference between the caller's rate and the files'.
    pub(super) contradiction: Option<String>,
}

impl Pace {
    /// Interval that the caller gives for the recording `path`, or else the one that `whose`, a part of the file, gives.
    pub(super) fn new(path: &Path, options: &Options, interval: Option<f64>, whose: &str) -> Self {
        let Some(rate) = options.rate else { return Self { interval, contradiction: None } };
        let differs = |found: &f64| (found * rate - 1.0).abs() > TOLERANCE;
        let contradiction = interval.filter(differs).map(|found| {
            format!(
                "{}: a rate of {rate} Hz as given, where {whose} {} Hz: the former counts",
                path.display(),
                // Intervals are rounded.
                (1e6 / found).round() / 1e6
            )
        });
        Self { interval: Some(1.0 / rate), contradiction }
    }
}

/// Facts of a recording that its header may name: the telescope and the source.
pub(super) fn named_facts(
    telescope: &Option<String>,
    source: &Option<String>,
) -> impl Iterator<Item = (&'static str, String)> {
    let named = [("telescope", telescope.clone()), ("source", source.clone())];
    named.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// The name of the description, in JSON, that stands beside the recording `path`; [`None`] beside a pipe.
///
/// # Errors
/// [`Error::File`] when it is the recording's own.
pub fn description(path: &Path) -> Result<Option<PathBuf>> {
    let description = path.with_extension("json");
    if description == path {
        return Err(Error::file(
            path,
            "is also the name of the recording's description: expected a name ending in .npy",
        ));
    }
    Ok((!is_stream(path)).then_some(description))
}
