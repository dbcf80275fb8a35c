//! Curves and count rates as files.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use corrust::{
    Result,
    autocorrelate::{Amount, Blocks, Curve, Errors, Sums},
    format::{
        PartialFile,
        npy::{Dtype, Writer},
    },
    photons::Trace,
};
use ndarray::Array2;

use crate::cli::options::run_files::ending;
use crate::cli::pictures::chart;
use crate::cli::terminal::say::warn;

/// Endings of the files of normalised curves, and of count rates.
pub const TABLES: &[&str] = &["csv", "npy"];
pub const TRACES: &[&str] = &["npy", "svg", "png"];

/// Most values of curves without each block in a table, so that a table of text can be read again.
const MOST_WITHOUT: usize = 1 << 23;

/// Curves of a stream, to be written.
pub struct Curves<'a, T = u64> {
    pub sums: &'a Sums<T>,
    /// Sums of the stream's mask, 1 where an instant came: normalised curves are divided by its own.
    pub mask: Option<&'a Sums<T>>,
    pub pairs: &'a [[u32; 2]],
    /// Errors of the curves, as they are written.
    pub errors: Option<&'a Errors>,
    /// Blocks of the stream, and of its mask, for curves without each of them; none where they are not written.
    pub blocks: Option<(&'a Blocks<T>, Option<&'a Blocks<T>>)>,
    /// Seconds of an instant.
    pub dwell: f64,
    pub trace: Option<&'a Trace>,
    /// Names of the sensors.
    pub sensors: &'a [String],
}

/// The name of a curve: the sensor that is not delayed, and the one that is.
fn name([direct, delayed]: [u32; 2]) -> String {
    if direct == delayed { format!("sensor_{direct}") } else { format!("pair_{direct}_{delayed}") }
}

/// The files of curves for PyCorrFit: `path`, or of several one each, named after it.
pub fn pycorrfit_files(path: &Path, pairs: &[[u32; 2]]) -> Vec<PathBuf> {
    if pairs.len() == 1 {
        return vec![path.to_owned()];
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map_or(String::new(), |it| format!(".{}", it.to_string_lossy()));
    let named = |&pair| path.with_file_name(format!("{stem}_{}{ending}", name(pair)));
    pairs.iter().map(named).collect()
}

impl<T: Amount> Curves<'_, T> {
    /// The name of a row.
    fn name(&self, row: usize) -> String {
        name(self.pairs[row])
    }

    fn lag(&self, point: usize) -> f64 {
        self.sums.points[point].lag as f64 * self.dwell
    }

    /// A value of the curves, divided by that of the mask's.
    fn masked(&self, point: usize, value: Option<f64>) -> Option<f64> {
        match self.mask {
            Some(mask) => Some(value? / mask.g(0, point)?),
            None => value,
        }
    }

    /// Value of a row.
    fn g(&self, row: usize, point: usize) -> Option<f64> {
        self.masked(point, self.sums.g(row, point))
    }

    /// Mean over all rows.
    fn mean_g(&self, point: usize) -> Option<f64> {
        self.masked(point, self.sums.mean_g(point))
    }

    /// The mean curve, with its errors if there are any.
    pub fn mean_curve(&self) -> Curve {
        let mut curve = Curve::default();
        for point in 0..self.sums.points.len() {
            let Some(g) = self.mean_g(point) else { continue };
            curve.lags.push(self.lag(point));
            curve.values.push(g);
            curve.errors.extend(self.errors.map(|errors| errors.mean[point]));
        }
        curve
    }

    /// Values without one block after the other, `[block][point]`, of the mean and of each row, with their names; empty, with
    /// a warning, if they would make the table too large.
    fn without(&self, path: &Path) -> Vec<(String, Array2<f64>)> {
        let Some((blocks, masks)) = self.blocks else { return Vec::new() };
        let rows = self.sums.products.nrows();
        let values = (rows + 1).saturating_mul(blocks.len()).saturating_mul(self.sums.points.len());
        if values > MOST_WITHOUT {
            warn(format_args!(
                "{}: curves without each block are {values} numbers, more than {MOST_WITHOUT}, and are left out; a fit \
                 then states no uncertainties, expected fewer pairs, lags or blocks",
                path.display()
            ));
            return Vec::new();
        }
        let mean = ("mean".to_owned(), blocks.curves_without_over(None, masks));
        let rows =
            (0..rows).map(|row| (self.name(row), blocks.curves_without_over(Some(row), masks)));
        std::iter::once(mean).chain(rows).collect()
    }

    /// Writes the normalised curves, their standard errors, and what they are without each block.
    pub fn write(&self, path: &Path) -> Result<()> {
        let without = self.without(path);
        let rows = self.sums.products.nrows();
        let points = 0..self.sums.points.len();
        let mut columns: Vec<Box<dyn Fn(usize) -> Option<f64> + '_>> =
            vec![Box::new(|point| self.mean_g(point))];
        for row in 0..rows {
            columns.push(Box::new(move |point| self.g(row, point)));
        }
        if let Some(errors) = self.errors {
            let known = |error: f64| Some(error).filter(|error| !error.is_nan());
            columns.push(Box::new(move |point| known(errors.mean[point])));
            for row in 0..rows {
                columns.push(Box::new(move |point| known(errors.rows[[row, point]])));
            }
        }
        for (_, values) in &without {
            for block in values.rows() {
                let known = move |point: usize| Some(block[point]).filter(|g: &f64| !g.is_nan());
                columns.push(Box::new(known));
            }
        }
        if ending(path) == "npy" {
            let mut writer = Writer::appending(path, Dtype::Float64, &[points.len()])?;
            let mut append = |column: &dyn Fn(usize) -> f64| {
                let bytes: Vec<u8> =
                    points.clone().flat_map(|point| column(point).to_le_bytes()).collect();
                writer.append(&bytes)
            };
            append(&|point| self.lag(point))?;
            for column in columns {
                append(&|point| column(point).unwrap_or(f64::NAN))?;
            }
            return writer.finish();
        }
        let mut text = String::from("lag_seconds,mean");
        (0..rows).for_each(|row| text += &format!(",{}", self.name(row)));
        if self.errors.is_some() {
            text += ",mean_error";
            (0..rows).for_each(|row| text += &format!(",{}_error", self.name(row)));
        }
        for (name, values) in &without {
            (0..values.nrows()).for_each(|block| text += &format!(",{name}_without_{block}"));
        }
        text.push('\n');
        for point in points {
            let _ = write!(text, "{:.9e}", self.lag(point));
            for column in &columns {
                text.push(',');
                if let Some(value) = column(point) {
                    let _ = write!(text, "{value}");
                }
            }
            text.push('\n');
        }
        write_text(path, &text)
    }

    /// Writes `g - 1` as PyCorrFit reads it, a file for each curve.
    pub fn write_pycorrfit(&self, files: &[PathBuf]) -> Result<()> {
        files.iter().enumerate().try_for_each(|(row, path)| self.write_one(path, row))
    }

    fn write_one(&self, path: &Path, row: usize) -> Result<()> {
        let [direct, delayed] = self.pairs[row].map(|sensor| sensor as usize);
        let kind = if direct == delayed { "Autocorrelation" } else { "Cross-correlation" };
        let mut text = format!("# Written by corrust {}\n", env!("CARGO_PKG_VERSION"));
        let _ = writeln!(text, "# Of {}, {} delayed", self.sensors[direct], self.sensors[delayed]);
        let _ = writeln!(text, "# Type AC/CC: {kind}");
        let _ = match self.errors {
            None => writeln!(text, "# Channel (tau [s])\tExperimental correlation"),
            Some(_) => writeln!(
                text,
                "# Channel (tau [s])\tExperimental correlation\tFitted correlation\tResiduals\tWeights [blocks]"
            ),
        };
        for point in 0..self.sums.points.len() {
            // Lag 0 holds the shot noise, and has no place on a logarithmic axis.
            let (lag, Some(g)) = (self.lag(point), self.g(row, point)) else { continue };
            if lag == 0.0 {
                continue;
            }
            match self.errors.map(|errors| errors.rows[[row, point]]) {
                None => drop(writeln!(text, "{lag:.9e}\t{:.9e}", g - 1.0)),
                // Nothing has been fitted: all of it is residual. A weight is a standard error there.
                Some(error) if error > 0.0 => {
                    let y = g - 1.0;
                    let _ = writeln!(text, "{lag:.9e}\t{y:.9e}\t0\t{y:.9e}\t{error:.9e}");
                }
                Some(_) => {}
            }
        }
        if let Some(trace) = self.trace.filter(|trace| !trace.is_empty()) {
            let heads = [(direct, "# BEGIN TRACE"), (delayed, "# BEGIN SECOND TRACE")];
            let traces = if direct == delayed { 1 } else { 2 };
            for (sensor, head) in heads.into_iter().take(traces) {
                let _ = writeln!(text, "{head}\n# Time [s]\tIntensity trace [kHz]");
                let rates = trace.rates(sensor).into_iter().enumerate();
                // Bins in which no instant counts have none.
                for (bin, rate) in rates.filter(|(_, rate)| !rate.is_nan()) {
                    let _ =
                        writeln!(text, "{:.9e}\t{:.9e}", bin as f64 * trace.seconds(), rate / 1e3);
                }
            }
        }
        write_text(path, &text)
    }

    /// Writes the count rates, or draws them.
    pub fn write_trace(&self, path: &Path) -> Result<()> {
        let Some(trace) = self.trace else { return Ok(()) };
        let rates = self.sensors.iter().enumerate();
        let rates: Vec<_> =
            rates.map(|(sensor, name)| (name.clone(), trace.rates(sensor))).collect();
        if ending(path) != "npy" {
            return chart::rates(path, trace.seconds(), &rates);
        }
        let mut writer = Writer::appending(path, Dtype::Float64, &[trace.len()])?;
        let times = (0..trace.len()).map(|bin| bin as f64 * trace.seconds()).collect();
        for column in std::iter::once(&times).chain(rates.iter().map(|(_, rates)| rates)) {
            let bytes: Vec<u8> = column.iter().flat_map(|value| value.to_le_bytes()).collect();
            writer.append(&bytes)?;
        }
        writer.finish()
    }
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    let mut file = PartialFile::create(path)?;
    file.append(text.as_bytes())?;
    file.finish()
}
