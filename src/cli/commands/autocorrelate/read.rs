//! Reading the tables of curves that `corrust autocorrelate` writes.

use std::{collections::HashMap, path::Path};

use ndarray::Array2;

use corrust::{
    Error, Result,
    autocorrelate::Curve,
    format::{curves, read_most},
};

/// Bytes of a table of curves, at most.
const MOST: u64 = 256 << 20;

/// First names of a table's columns.
const MEAN: &str = "lag_seconds,mean";

/// Part of a column's name between a curve's and the number of the block that it is without.
const WITHOUT: &str = "_without_";

/// Curves of a table.
pub struct Table {
    /// All lags, in seconds; a curve has those at which it has a value.
    pub lags: Vec<f64>,
    /// The mean over all curves, of a table that has it, then every curve, with their names. Errors that are not known are NaN.
    pub curves: Vec<(String, Curve)>,
    /// Values of each curve without one block after the other, `[block][point]`; of no blocks where there are none.
    pub without: Vec<Array2<f64>>,
    /// Whether there are columns of errors.
    pub errors: bool,
    /// Whether the first curve is the mean.
    pub mean: bool,
}

impl Table {
    /// Reads a table of `--curves`, CSV, or curves of another program ([`format::curves`]).
    ///
    /// # Errors
    /// [`Error::File`] when it is none; [`Error::Io`].
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = read_most(path, MOST)?;
        if !bytes.starts_with(MEAN.as_bytes()) {
            return Ok(Self::of(curves::of(path, &bytes)?));
        }
        let text = String::from_utf8(bytes)
            .map_err(|error| Error::file(path, format!("{error}: expected text")))?;
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
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
        let places: HashMap<&str, usize> =
            names.iter().enumerate().map(|(column, &name)| (name, column)).collect();
        let derived = |name: &str| {
            let block =
                name.rsplit_once(WITHOUT).is_some_and(|(_, block)| block.parse::<u32>().is_ok());
            block || name.ends_with("_error")
        };
        let own: Vec<usize> = (1..names.len()).filter(|&column| !derived(names[column])).collect();
        let curve = |&column: &usize| {
            let name = names[column];
            let errors = places.get(&format!("{name}_error")[..]);
            let blocks =
                (0..).map_while(|block| places.get(&format!("{name}{WITHOUT}{block}")[..]));
            let blocks: Vec<usize> = blocks.copied().collect();
            let known = columns[column].iter().enumerate().filter(|(_, g)| !g.is_nan());
            let known: Vec<usize> = known.map(|(place, _)| place).collect();
            let of = |column: usize| known.iter().map(|&place| columns[column][place]).collect();
            let unknown = || vec![f64::NAN; known.len()];
            let errors = errors.map_or_else(unknown, |&errors| of(errors));
            let curve = Curve { lags: of(0), values: of(column), errors };
            let without = Array2::from_shape_fn((blocks.len(), known.len()), |(block, point)| {
                columns[blocks[block]][known[point]]
            });
            ((name.to_owned(), curve), without)
        };
        let (curves, without) = own.iter().map(curve).unzip();
        let errors = names.iter().any(|name| name.ends_with("_error"));
        Ok(Self { lags: columns.swap_remove(0), curves, without, errors, mean: true })
    }

    /// Curves without a mean, and without blocks.
    fn of(mut curves: Vec<(String, Curve)>) -> Self {
        let lags = curves.iter().flat_map(|(_, curve)| curve.lags.iter().copied()).collect();
        let without = curves.iter().map(|(_, curve)| Array2::default((0, curve.lags.len())));
        let without = without.collect();
        let errors = curves.iter().any(|(_, curve)| !curve.errors.is_empty());
        for (_, curve) in &mut curves {
            curve.errors.resize(curve.lags.len(), f64::NAN);
        }
        Self { lags, curves, without, errors, mean: false }
    }
}
