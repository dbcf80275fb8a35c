//! Lifetime filters: weights by which each photon belongs to components of different decays (FLCS).
//!
//! A component has a pattern, the probability `p_i(j)` of each microtime `j`. With `I(j)` photons at each microtime,
//! weights `w_i(j)` that give every component its own photons, `sum_j w_i(j) p_k(j) = 1` for `i = k` and 0 otherwise, and
//! whose sums scatter least, are
//!
//! `w = (M^T diag(1/I) M)^-1 M^T diag(1/I)`, patterns in the columns of `M`
//!
//! (Boehmer, Wahl, Rahn, Erdmann and Enderlein, Chem. Phys. Lett. 353, 439, 2002; Enderlein and Gregor, Rev. Sci. Instrum.
//! 76, 033102, 2005). Microtimes without photons say nothing, and are left out of all of it. Afterpulses and background
//! come at any microtime: a component whose pattern is flat.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use corrust_host::{Error, Result, device};
use ndarray::{Array2, Array3, ArrayView2, ArrayView3, Axis, s};

use super::{Arrived, Gate, Options, open};
use crate::formats::{
    input::begins,
    npy::{Dtype, Reader, header::MAGIC},
    read_text_up_to,
};

/// Components, at most.
pub const MOST_COMPONENTS: usize = 16;

/// Microtimes are below this.
const MOST_MICROTIMES: usize = 1 << 20;

/// Bytes of a table of patterns, at most.
const MOST_TEXT: u64 = 64 << 20;

/// Least share of a pattern that no other component explains.
const LEAST_SHARE: f64 = 1e-9;

/// Photons of each microtime.
#[derive(Clone, Debug, PartialEq)]
pub struct Decays {
    /// Seconds of a unit of microtimes.
    pub unit: f64,
    /// Names of the channels.
    pub channels: Vec<String>,
    /// `[channel][microtime]`, as many microtimes as there are between pulses, or as one of the photons has.
    pub counts: Array2<u64>,
}

/// Counts the photons of each microtime, of a file's channels; those within a stretch of seconds, if there is one.
///
/// # Errors
/// As for [`open`]; [`Error::File`] for a file without microtimes, or with some from 2^20 on.
pub fn decays(path: &Path, options: &Options, within: Option<Range<f64>>) -> Result<Decays> {
    let options = Options { gates: Vec::new(), ..options.clone() };
    let opened = open(&[path], &options)?;
    let mut recording = opened.recording;
    let microtimes = recording.microtimes().ok_or_else(|| {
        Error::file(
            path,
            "has no microtimes of a known unit: expected T3, SPC with its setup, or Photon-HDF5",
        )
    })?;
    let mut channels = opened.sensors;
    channels.truncate(channels.len() - usize::from(opened.masked));
    let mut counts: Vec<Vec<u64>> = vec![Vec::new(); channels.len()];
    let dwell = recording.interval().unwrap_or(1.0);
    let instants = |seconds: f64| (seconds / dwell).round().clamp(0.0, 1e18) as u64;
    let within = within.map(|within| instants(within.start)..instants(within.end));
    let mut arrived = Arrived { with_microtimes: true, ..Arrived::default() };
    let (step, mut position) = (recording.stretch(), 0);
    loop {
        let end = within.as_ref().map_or(u64::MAX, |within| match position < within.start {
            true => within.start,
            false => within.end,
        });
        if end <= position || recording.read_times(step.min(end - position), &mut arrived)? == 0 {
            break;
        }
        let counted = within.as_ref().is_none_or(|within| within.contains(&position));
        position += arrived.instants;
        if !counted {
            continue;
        }
        for (counts, microtimes) in counts.iter_mut().zip(&arrived.microtimes) {
            for &microtime in microtimes {
                let microtime = microtime as usize;
                if microtime >= counts.len() {
                    if microtime >= MOST_MICROTIMES {
                        let reason = format!(
                            "microtime {microtime}: expected those below {MOST_MICROTIMES}"
                        );
                        return Err(Error::file(path, reason));
                    }
                    counts.resize(microtime + 1, 0);
                }
                counts[microtime] += 1;
            }
        }
    }
    let length = counts.iter().map(Vec::len).max().unwrap_or(0).max(microtimes.count as usize);
    let mut table = Array2::zeros((channels.len(), length.min(MOST_MICROTIMES)));
    for (mut row, counts) in table.rows_mut().into_iter().zip(counts) {
        row.iter_mut().zip(counts).for_each(|(to, count)| *to = count);
    }
    Ok(Decays { unit: microtimes.unit, channels, counts: table })
}

/// Source of the pattern of a component.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// All microtimes alike: background and afterpulses.
    Flat,
    /// Photons of the file itself within a stretch of microtimes.
    Gate(Gate),
    /// Photons of the file itself within a stretch of seconds.
    Time(Range<f64>),
    /// Photons of another file, of one species; or a table of patterns: NumPy `[component][microtime]` or
    /// `[channel][component][microtime]` of float64, or CSV with a column for each component.
    File(PathBuf),
}

/// Patterns of components, `[channel][component][microtime]`, for the channels of a file whose own decays are known.
///
/// # Errors
/// As for [`decays`], of each file; [`Error::File`] for a table of another shape, or with numbers below 0.
pub fn patterns(
    path: &Path,
    options: &Options,
    own: &Decays,
    patterns: &[Pattern],
) -> Result<Array3<f64>> {
    let (channels, microtimes) = own.counts.dim();
    let mut rows: Vec<Array2<f64>> = Vec::new();
    for pattern in patterns {
        match pattern {
            Pattern::Flat => rows.push(Array2::from_elem((channels, microtimes), 1.0)),
            Pattern::Gate(gate) => {
                let place = |seconds: f64| ((seconds / own.unit).round() as usize).min(microtimes);
                let (start, end) = (place(gate.start), place(gate.end));
                let mut row = Array2::zeros((channels, microtimes));
                let within = s![.., start..end];
                row.slice_mut(within).assign(&own.counts.slice(within).mapv(|count| count as f64));
                rows.push(row);
            }
            Pattern::Time(within) => {
                rows.push(fitting(path, own, &decays(path, options, Some(within.clone()))?)?);
            }
            Pattern::File(other) => {
                let is_numpy = begins(other, MAGIC)?;
                let is_text = other.extension().is_some_and(|it| it.eq_ignore_ascii_case("csv"));
                match (is_numpy, is_text) {
                    (true, _) => rows.extend(numpy(other, channels, microtimes)?),
                    (_, true) => rows.extend(csv(other, channels, microtimes)?),
                    _ => {
                        // Its clock is its own, and so are its stretches.
                        let options = Options {
                            start: None,
                            between: None,
                            exclude: Vec::new(),
                            bursts: None,
                            ..options.clone()
                        };
                        rows.push(fitting(other, own, &decays(other, &options, None)?)?);
                    }
                }
            }
        }
        if rows.len() > MOST_COMPONENTS {
            let reason = format!("{} components: expected at most {MOST_COMPONENTS}", rows.len());
            return Err(Error::invalid(reason));
        }
    }
    let mut all = Array3::zeros((channels, rows.len(), microtimes));
    for (component, row) in rows.into_iter().enumerate() {
        all.index_axis_mut(Axis(1), component).assign(&row);
    }
    Ok(all)
}

/// Decays of other photons, of the same channels and as many microtimes.
fn fitting(path: &Path, own: &Decays, other: &Decays) -> Result<Array2<f64>> {
    let fault = |reason: String| Err(Error::file(path, reason));
    if other.channels != own.channels {
        let [found, expected] = [other, own].map(|decays| decays.channels.join(", "));
        let reason = format!("photons of {found}: expected {expected}");
        return Err(Error::setting("channels", Some(path), reason));
    }
    if (other.unit / own.unit - 1.0).abs() > 1e-6 {
        let reason =
            format!("a unit of microtimes of {:e} s: expected {:e} s", other.unit, own.unit);
        return fault(reason);
    }
    let (channels, microtimes) = own.counts.dim();
    let there = microtimes.min(other.counts.ncols());
    let mut row = Array2::zeros((channels, microtimes));
    let counts = other.counts.slice(s![.., ..there]).mapv(|count| count as f64);
    row.slice_mut(s![.., ..there]).assign(&counts);
    Ok(row)
}

/// Rows of components, `[channel][microtime]` each, from a NumPy file.
fn numpy(path: &Path, channels: usize, microtimes: usize) -> Result<Vec<Array2<f64>>> {
    let mut reader = Reader::open(path)?;
    let axes = reader.shape().to_vec();
    let names: &[&str] = match axes.len() {
        3 => &["channel", "component", "microtime"],
        _ => &["component", "microtime"],
    };
    reader.expect(Dtype::Float64, names)?;
    let (first, components, bins) = match axes[..] {
        [components, bins] => (1, components, bins),
        [first, components, bins] => (first, components, bins),
        _ => unreachable!("the number of axes was checked"),
    };
    if first != 1 && first != channels || components > MOST_COMPONENTS || bins > MOST_MICROTIMES {
        let reason = format!(
            "patterns of shape {axes:?}: expected [component][microtime], or [channel][component][microtime] of {channels} \
             channels, at most {MOST_COMPONENTS} components and {MOST_MICROTIMES} microtimes"
        );
        return Err(Error::file(path, reason));
    }
    let bytes = reader.read_all()?;
    let values: Vec<f64> =
        bytes.as_chunks().0.iter().map(|&value| f64::from_le_bytes(value)).collect();
    let table = Array3::from_shape_vec((first, components, bins), values).expect("as many values");
    table_rows(path, table.view(), channels, microtimes)
}

/// Rows of components from a table in text, a column each; a first line of names is passed over.
fn csv(path: &Path, channels: usize, microtimes: usize) -> Result<Vec<Array2<f64>>> {
    let text = read_text_up_to(path, MOST_TEXT)?;
    let mut values = Vec::new();
    let mut components = 0;
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row: Option<Vec<f64>> =
            line.split(',').map(|value| value.trim().parse().ok()).collect();
        let Some(row) = row else {
            if number == 0 {
                continue;
            }
            let reason =
                format!("line {} is \"{}\": expected numbers", number + 1, line.escape_debug());
            return Err(Error::file(path, reason));
        };
        if values.is_empty() {
            components = row.len();
        }
        if row.len() != components || components > MOST_COMPONENTS {
            let reason = format!(
                "line {} of {} numbers: expected {components}, at most {MOST_COMPONENTS}",
                number + 1,
                row.len()
            );
            return Err(Error::file(path, reason));
        }
        values.extend(row);
    }
    let bins = values.len() / components.max(1);
    let table = Array2::from_shape_vec((bins, components), values).expect("whole lines");
    let table = table.t().insert_axis(Axis(0)).to_owned();
    table_rows(path, table.view(), channels, microtimes)
}

/// Rows of a table, `[1 or channel][component][microtime]`.
fn table_rows(
    path: &Path,
    table: ArrayView3<'_, f64>,
    channels: usize,
    microtimes: usize,
) -> Result<Vec<Array2<f64>>> {
    if let Some(value) = table.iter().find(|value| !(value.is_finite() && **value >= 0.0)) {
        let reason = format!("a pattern with {value}: expected numbers of at least 0");
        return Err(Error::file(path, reason));
    }
    let (first, components, bins) = table.dim();
    if components == 0 || bins == 0 {
        return Err(Error::file(path, "no patterns: expected at least one component"));
    }
    if table.slice(s![.., .., microtimes.min(bins)..]).iter().any(|&value| value > 0.0) {
        let reason = format!(
            "patterns of {bins} microtimes: expected at most {microtimes}, as the photons have"
        );
        return Err(Error::file(path, reason));
    }
    let there = bins.min(microtimes);
    let row = |component| {
        let mut row = Array2::zeros((channels, microtimes));
        for (channel, mut row) in row.rows_mut().into_iter().enumerate() {
            let from = table.slice(s![if first == 1 { 0 } else { channel }, component, ..there]);
            row.slice_mut(s![..there]).assign(&from);
        }
        row
    };
    Ok((0..components).map(row).collect())
}

/// Weights of the photons of one channel, `[component][microtime]`, from its photons of each microtime and the patterns of
/// the components, `[component][microtime]`. Patterns need not be normalised: they are here, over the microtimes that have
/// photons. Weights at other microtimes are 0.
///
/// ```
/// use corrust_recordings::photons::lifetime_weights;
/// use ndarray::array;
///
/// // Two components that overlap in the second of three microtimes.
/// let weights = lifetime_weights(&[40, 50, 10], array![[0.8, 0.2, 0.0], [0.0, 0.8, 0.2]].view())?;
/// let photons = |component: usize| {
///     weights.row(component).iter().zip([40.0, 50.0, 10.0]).map(|(w, photons)| w * photons).sum::<f64>()
/// };
/// assert!((photons(0) - 50.0).abs() < 1e-9 && (photons(1) - 50.0).abs() < 1e-9);
/// # Ok::<(), corrust_host::Error>(())
/// ```
///
/// # Errors
/// [`Error::Invalid`] for no component or more than [`MOST_COMPONENTS`], patterns of another number of microtimes, without
/// photons there, with numbers below 0, or so alike that no microtime tells them apart.
pub fn lifetime_weights(photons: &[u64], patterns: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
    let (components, microtimes) = patterns.dim();
    if !(1..=MOST_COMPONENTS).contains(&components) || microtimes != photons.len() {
        return Err(Error::invalid(format!(
            "patterns of {components} components and {microtimes} microtimes: expected 1 to {MOST_COMPONENTS}, and {}",
            photons.len()
        )));
    }
    if let Some(value) = patterns.iter().find(|value| !(value.is_finite() && **value >= 0.0)) {
        let reason = format!("a pattern with {value}: expected numbers of at least 0");
        return Err(Error::invalid(reason));
    }
    let mut normal = patterns.to_owned();
    for (component, mut row) in normal.rows_mut().into_iter().enumerate() {
        row.iter_mut().zip(photons).for_each(|(value, &count)| {
            if count == 0 {
                *value = 0.0;
            }
        });
        let sum = row.sum();
        if sum <= 0.0 {
            return Err(Error::invalid(format!(
                "component {component} has no pattern at microtimes of photons: expected some"
            )));
        }
        row.mapv_inplace(|value| value / sum);
    }
    let inverse = |count: u64| if count == 0 { 0.0 } else { 1.0 / count as f64 };
    let mut weighted = normal.clone();
    for mut row in weighted.rows_mut() {
        row.iter_mut().zip(photons).for_each(|(value, &count)| *value *= inverse(count));
    }
    solve(normal.dot(&weighted.t()), weighted)
}

/// The solution `x` of `a x = b`, `a` symmetric and positive, by Cholesky's decomposition.
fn solve(mut a: Array2<f64>, mut b: Array2<f64>) -> Result<Array2<f64>> {
    let size = a.nrows();
    for column in 0..size {
        let whole = a[[column, column]];
        let known: f64 = (0..column).map(|k| a[[column, k]].powi(2)).sum();
        let pivot = whole - known;
        if pivot.is_nan() || pivot <= LEAST_SHARE * whole {
            return Err(Error::invalid(format!(
                "the pattern of component {column} is a mixture of those before it: expected patterns that differ"
            )));
        }
        a[[column, column]] = pivot.sqrt();
        for row in column + 1..size {
            let known: f64 = (0..column).map(|k| a[[row, k]] * a[[column, k]]).sum();
            a[[row, column]] = (a[[row, column]] - known) / a[[column, column]];
        }
    }
    let take = |b: &mut Array2<f64>, from: usize, to: usize, factor: f64| {
        let row = b.row(from).to_owned();
        b.row_mut(to).scaled_add(-factor, &row);
    };
    for row in 0..size {
        (0..row).for_each(|before| take(&mut b, before, row, a[[row, before]]));
        b.row_mut(row).mapv_inplace(|value| value / a[[row, row]]);
    }
    for row in (0..size).rev() {
        (row + 1..size).for_each(|after| take(&mut b, after, row, a[[after, row]]));
        b.row_mut(row).mapv_inplace(|value| value / a[[row, row]]);
    }
    Ok(b)
}

/// Filters of a recording's channels.
#[derive(Clone, Debug, PartialEq)]
pub struct Filters {
    /// `[channel][component][microtime]`.
    pub weights: Array3<f64>,
}

impl Filters {
    /// Filters by the decays of the channels and the [`patterns`] of the components there.
    ///
    /// # Errors
    /// As for [`lifetime_weights`], with the channel; [`Error::OutOfMemory`].
    pub fn new(decays: &Decays, patterns: ArrayView3<'_, f64>) -> Result<Self> {
        let (channels, components, microtimes) = patterns.dim();
        device::room::<f64>(channels.saturating_mul(components).saturating_mul(microtimes))?;
        let mut weights = Array3::zeros(patterns.raw_dim());
        for (channel, photons) in decays.counts.rows().into_iter().enumerate() {
            let photons = photons.to_vec();
            let own = lifetime_weights(&photons, patterns.index_axis(Axis(0), channel));
            let own = own.map_err(|error| {
                Error::invalid(format!("{}: {error}", decays.channels[channel]))
            })?;
            weights.index_axis_mut(Axis(0), channel).assign(&own);
        }
        Ok(Self { weights })
    }

    /// Number of components.
    pub fn components(&self) -> usize {
        self.weights.dim().1
    }

    /// Replaces `weights` by the weights of a stretch's photons: for each channel a list for each component, of as many
    /// weights as the channel has photons. A mask after the channels has weights of 1.
    pub fn weigh(&self, arrived: &Arrived, weights: &mut Vec<Vec<f64>>) {
        let (channels, components, microtimes) = self.weights.dim();
        let (photons, masks) = arrived.microtimes.split_at(channels);
        weights.resize_with(channels * components + masks.len(), Vec::new);
        for (list, mask) in weights[channels * components..].iter_mut().zip(masks) {
            list.clear();
            list.resize(mask.len(), 1.0);
        }
        for (channel, of) in photons.iter().enumerate() {
            for component in 0..components {
                let row = self.weights.slice(s![channel, component, ..]);
                let row = row.as_slice().expect("the quickest axis");
                let list = &mut weights[channel * components + component];
                list.clear();
                // A microtime that the decays did not have has no photons.
                list.extend(of.iter().map(|&at| row[(at as usize).min(microtimes - 1)]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn weights_give_each_component_its_own() {
        let patterns = array![
            [0.5, 0.3, 0.15, 0.05, 0.0],
            [0.1, 0.2, 0.3, 0.4, 3.0],
            [1.0, 1.0, 1.0, 1.0, 1.0]
        ];
        let weights = lifetime_weights(&[400, 200, 120, 90, 0], patterns.view()).unwrap();
        for component in 0..3 {
            for other in 0..3 {
                let pattern = patterns.slice(s![other, ..4]);
                let product = &weights.slice(s![component, ..4]) * &pattern;
                let sum = product.sum() / pattern.sum();
                let expected = f64::from(u8::from(component == other));
                assert!((sum - expected).abs() < 1e-12, "{component} {other}: {sum}");
            }
            assert_eq!(weights[[component, 4]], 0.0);
        }
    }

    #[test]
    fn what_cannot_be_is_said() {
        let refused = |photons: &[u64], patterns: Array2<f64>| {
            lifetime_weights(photons, patterns.view()).unwrap_err().to_string()
        };
        assert!(
            refused(&[1, 2], array![[1.0, 1.0], [2.0, 2.0]]).contains("component 1 is a mixture")
        );
        assert!(refused(&[1, 0], array![[0.0, 1.0]]).contains("no pattern at"));
        assert!(refused(&[1, 2], array![[1.0, -1.0]]).contains("-1"));
        assert!(refused(&[1], array![[1.0, 1.0]]).contains("and 1"));
    }
}
