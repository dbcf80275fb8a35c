//! Reading the tables of curves that `corrust autocorrelate` writes.

use std::path::Path;

use corrust::{Error, Result, autocorrelate::Curve, format::read_text_up_to};

/// Bytes of a table of curves, at most.
const MOST: u64 = 256 << 20;

/// Curves of a table.
pub struct Table {
    /// All lags, in seconds; a curve has those at which it has a value.
    pub lags: Vec<f64>,
    /// The mean over all curves, then every curve, with their names. Errors that are not known are NaN.
    pub curves: Vec<(String, Curve)>,
    /// Whether there are columns of errors.
    pub errors: bool,
}

impl Table {
    /// Reads a table of `--curves`, CSV.
    ///
    /// # Errors
    /// [`Error::File`] when it is none; [`Error::Io`].
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_text_up_to(path, MOST)?;
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        if names.get(..2) != Some(&["lag_seconds", "mean"]) {
            let start: String = text.chars().take(24).collect();
            return Err(Error::file(
                path,
                format!(
                    "starts with \"{}\": expected a table of curves, \"lag_seconds,mean\", as of corrust \
                     autocorrelate --curves",
                    start.escape_debug()
                ),
            ));
        }
        let mut columns = vec![Vec::new(); names.len()];
        for (number, line) in lines.enumerate() {
            let values: Vec<&str> = line.split(',').collect();
            let fault = || {
                let reason = format!(
                    "line {} is \"{}\": expected {} numbers",
                    number + 2,
                    line.escape_debug(),
                    names.len()
                );
                Error::file(path, reason)
            };
            if values.len() != names.len() {
                return Err(fault());
            }
            for (column, value) in columns.iter_mut().zip(values) {
                let value =
                    if value.is_empty() { Some(f64::NAN) } else { value.parse::<f64>().ok() };
                column.push(value.filter(|value| !value.is_infinite()).ok_or_else(fault)?);
            }
        }
        let own = (1..names.len()).filter(|&column| !names[column].ends_with("_error"));
        let curve = |column: usize| {
            let error = format!("{}_error", names[column]);
            let errors = names.iter().position(|name| *name == error);
            let mut curve = Curve::default();
            for (place, &g) in columns[column].iter().enumerate().filter(|(_, g)| !g.is_nan()) {
                curve.lags.push(columns[0][place]);
                curve.values.push(g);
                curve.errors.push(errors.map_or(f64::NAN, |errors| columns[errors][place]));
            }
            (names[column].to_owned(), curve)
        };
        let curves = own.map(curve).collect();
        let errors = names.iter().any(|name| name.ends_with("_error"));
        Ok(Self { lags: columns.swap_remove(0), curves, errors })
    }
}
