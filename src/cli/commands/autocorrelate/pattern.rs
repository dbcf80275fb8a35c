//! Options that say where a component's pattern comes from.

use std::path::PathBuf;

use corrust::photons::{Gate, Pattern};

use crate::cli::options::units::Seconds;

/// Source of a component's pattern.
#[derive(Clone, Debug)]
pub struct PatternArg(pub Pattern);

impl PatternArg {
    /// The file that it is read from, besides the photons' own.
    pub fn file(&self) -> Option<&PathBuf> {
        match &self.0 {
            Pattern::File(path) => Some(path),
            Pattern::Flat | Pattern::Gate(_) | Pattern::Time(_) => None,
        }
    }
}

/// Reads where a pattern comes from.
pub fn pattern(text: &str) -> Result<PatternArg, String> {
    let found = if text == "flat" {
        Pattern::Flat
    } else if let Some(text) = text.strip_prefix("gate:") {
        Pattern::Gate(gate(text)?)
    } else if let Some(text) = text.strip_prefix("time:") {
        let Gate { start, end } = gate(text)?;
        Pattern::Time(start..end)
    } else {
        Pattern::File(text.into())
    };
    Ok(PatternArg(found))
}

/// Reads a stretch of microtimes.
pub fn gate(text: &str) -> Result<Gate, String> {
    let expected = || "expected two times, the first below the second, as in 2ns..10ns".to_owned();
    let (start, end) = text.split_once("..").ok_or_else(expected)?;
    let start = moment(start).map_err(|_| expected())?;
    let end = end.parse::<Seconds>().map_err(|_| expected())?.0;
    if start < end { Ok(Gate { start, end }) } else { Err(expected()) }
}

/// Reads a time that may be 0.
pub fn moment(text: &str) -> Result<f64, String> {
    let zero = text.trim_end_matches(char::is_alphabetic).trim().parse() == Ok(0.0);
    if zero {
        Ok(0.0)
    } else {
        text.parse::<Seconds>().map(|seconds| seconds.0).map_err(str::to_owned)
    }
}
