//! Diffusion under a scanned beam.

use corrust_host::{Error, Result};
use rmpfit::{MPConfig, MPError, MPFitter, MPPar, MPResult, MPSide, MPSuccess};

use super::{Blocks, Map};

/// Raster image correlation spectroscopy: a beam scans rows of pixels while molecules diffuse.
///
/// `G(v, u) = 1/n (1 + 4 D t / w^2)^-1 (1 + 4 D t / (kappa w)^2)^-1/2 exp(-p^2 (u^2 + v^2) / (w^2 + 4 D t)) + offset` at a lag of
/// `v` rows and `u` columns, `t = |u dwell + v line|` later (Digman et al., Biophys. J. 89, 1317, 2005); without the second
/// bracket in a plane. `n` is the number of molecules of `corrust::fit`: `G(0, 0) = 1/n`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rics {
    /// Side of a pixel, micrometres.
    pub pixel: f64,
    /// Time from a pixel to the next of its row, seconds.
    pub dwell: f64,
    /// Time from a row to the next, seconds.
    pub line: f64,
    /// Radius of the focus (1/e^2), micrometres.
    pub waist: f64,
    /// Length of the focus by its radius; none: molecules diffuse in a plane.
    pub kappa: Option<f64>,
    /// Whether a value at large lags is fitted.
    pub offset: bool,
}

/// Result of a fit: values with their standard errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted {
    /// Number of molecules.
    pub n: [f64; 2],
    /// Diffusion constant, square micrometres a second.
    pub diffusion: [f64; 2],
    /// Value at large lags; 0 with the error NaN where it was not fitted.
    pub offset: [f64; 2],
    /// Sum of squared residuals, divided by standard errors if there are any.
    pub chi2: f64,
    /// Number of points less that of parameters.
    pub degrees: usize,
    /// Whether standard errors weighted the points; otherwise the reduced chi2 scales the errors.
    pub weighted: bool,
    /// Number of parts of the frames whose scatter the errors are; 0: they follow from the curvature of chi2.
    pub parts: usize,
}

/// A point of a map: rows, columns, value, standard error.
type Point = (f64, f64, f64, f64);

impl Rics {
    /// Value of the model at a lag, without offset.
    pub fn g(&self, rows: f64, columns: f64, n: f64, diffusion: f64) -> f64 {
        self.value(rows, columns, diffusion)[0] / n
    }

    /// Value of the model of one molecule at a lag, without offset, and its derivative by the logarithm of D.
    fn value(&self, rows: f64, columns: f64, diffusion: f64) -> [f64; 2] {
        let spread = 4.0 * diffusion * (columns * self.dwell + rows * self.line).abs();
        let area = self.waist * self.waist;
        let distance = self.pixel * self.pixel * (rows * rows + columns * columns);
        let across = area + spread;
        let mut value = (-distance / across).exp() * area / across;
        let mut slope = distance / (across * across) - 1.0 / across;
        if let Some(kappa) = self.kappa {
            let along = kappa * kappa * area;
            value /= (1.0 + spread / along).sqrt();
            slope -= 0.5 / (along + spread);
        }
        [value, value * slope * spread]
    }

    /// Fits a map by the Levenberg-Marquardt method. Lag 0, which has the light's own noise, is left out, as are points that
    /// are no numbers.
    ///
    /// # Errors
    /// [`Error::Invalid`] for facts that are not positive numbers, too few points, a map that does not decay, and when the fit does
    /// not converge.
    pub fn fit(&self, map: &Map) -> Result<Fitted> {
        let Self { pixel, dwell, line, waist, kappa, offset } = *self;
        for (name, fact) in [
            ("pixel", pixel),
            ("dwell", dwell),
            ("line", line),
            ("waist", waist),
            ("kappa", kappa.unwrap_or(1.0)),
        ] {
            if !(fact > 0.0 && fact.is_finite()) {
                return Err(Error::invalid(format!(
                    "{name} of {fact}: expected a positive number"
                )));
            }
        }
        let weighted = map.errors.iter().any(|error| *error > 0.0);
        let (rows, columns) = (map.values.nrows() / 2, map.values.ncols() / 2);
        // Half of the map: the rest are its opposites.
        let points = map.values.indexed_iter().filter_map(|((row, column), &value)| {
            let error = if weighted { map.errors[[row, column]] } else { 1.0 };
            let lag = (row as f64 - rows as f64, column as f64 - columns as f64);
            let later = row > rows || row == rows && column > columns;
            let usable = later && value.is_finite() && error > 0.0 && error.is_finite();
            usable.then_some((lag.0, lag.1, value, error))
        });
        let points: Vec<Point> = points.collect();
        let free = if offset { 3 } else { 2 };
        if points.len() <= free {
            return Err(Error::invalid(format!(
                "{} points besides lag 0 and {free} parameters: expected more points",
                points.len()
            )));
        }
        let mut values = self.start(&points).ok_or_else(|| {
            Error::invalid("the map does not decay from lag 0: expected more frames, or other facts of the scan")
        })?;
        let parameter = |_| MPPar { side: MPSide::User, ..MPPar::new() };
        let parameters = (0..free).map(parameter).collect();
        let config = MPConfig { covtol: 1e-10, ..MPConfig::new() };
        let mut problem = Problem { rics: self, points: &points, parameters, config };
        let status = problem.mpfit(&mut values).map_err(|error| {
            Error::invalid(match error {
                MPError::Nan => {
                    "the model is not finite on the way: expected other facts of the scan"
                }
                _ => "the fit cannot begin: expected more points",
            })
        })?;
        let found = values.iter().chain(&status.xerror[..free]).all(|value| value.is_finite());
        let done = !matches!(status.success, MPSuccess::NotDone | MPSuccess::MaxIter);
        if !(done && found && status.xerror[..free].iter().all(|&error| error > 0.0)) {
            return Err(Error::invalid(format!(
                "the map does not tell the parameters apart after {} iterations: expected more frames, or lags that see the decay",
                status.n_iter
            )));
        }
        let mut residuals = vec![0.0; points.len()];
        problem.residuals(&values, &mut residuals);
        let chi2: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let degrees = points.len() - free;
        let scale = if weighted { 1.0 } else { (chi2 / degrees as f64).sqrt() };
        let logarithm = |place: usize, value: f64| [value, value * status.xerror[place] * scale];
        Ok(Fitted {
            n: logarithm(0, (-values[0]).exp()),
            diffusion: logarithm(1, values[1].exp()),
            offset: match offset {
                true => [values[2], status.xerror[2] * scale],
                false => [0.0, f64::NAN],
            },
            chi2,
            degrees,
            weighted,
            parts: 0,
        })
    }

    /// Fits the map of all parts of the frames, with errors from the parts' scatter by the jackknife: lags next to each other see the same
    /// molecules, so that errors of [`fit`](Self::fit), which takes points as independent, are several times too small. Less than
    /// three parts with counts have those errors all the same.
    ///
    /// # Errors
    /// As for [`fit`](Self::fit), of all parts and of all but one; [`Error::Invalid`] without a part.
    pub fn fit_parts(&self, parts: &[Blocks]) -> Result<(Map, Fitted)> {
        let filled: Vec<&Blocks> = parts.iter().filter(|part| part.count() > 0).collect();
        let joined = |without: Option<usize>| {
            let mut kept = filled.iter().enumerate().filter(|(at, _)| Some(*at) != without);
            let mut all = kept.next().map_or_else(Blocks::default, |(_, first)| (*first).clone());
            kept.try_for_each(|(_, part)| all.join(part))?;
            all.map()
        };
        let map = joined(None)?;
        let mut fitted = self.fit(&map)?;
        if filled.len() < 3 {
            return Ok((map, fitted));
        }
        let others = (0..filled.len()).map(|part| self.fit(&joined(Some(part))?));
        let others = others.collect::<Result<Vec<_>>>()?;
        let count = others.len() as f64;
        let scatter = |of: &dyn Fn(&Fitted) -> f64| {
            let mean = others.iter().map(of).sum::<f64>() / count;
            let squares: f64 = others.iter().map(|other| (of(other) - mean).powi(2)).sum();
            (squares * (count - 1.0) / count).sqrt()
        };
        fitted.n[1] = scatter(&|of| of.n[0]);
        fitted.diffusion[1] = scatter(&|of| of.diffusion[0]);
        if self.offset {
            fitted.offset[1] = scatter(&|of| of.offset[0]);
        }
        fitted.parts = filled.len();
        Ok((map, fitted))
    }

    /// Start values: logarithms of 1/n and of D, and the offset. Of diffusion constants a factor of 1.3 apart the one whose best
    /// amplitude and offset leave the least.
    fn start(&self, points: &[Point]) -> Option<Vec<f64>> {
        let mut best: Option<(f64, Vec<f64>)> = None;
        for step in -88..=88 {
            let diffusion = 1.3_f64.powi(step);
            // Sums of a weighted linear fit of the amplitude, and of the offset.
            let [mut aa, mut a1, mut ay, mut one, mut y, mut yy] = [0.0; 6];
            for &(rows, columns, value, error) in points {
                let weight = 1.0 / (error * error);
                let shape = self.value(rows, columns, diffusion)[0];
                aa += weight * shape * shape;
                a1 += weight * shape;
                ay += weight * shape * value;
                one += weight;
                y += weight * value;
                yy += weight * value * value;
            }
            let (amplitude, offset) = match self.offset {
                false => (ay / aa, 0.0),
                true => {
                    let determinant = aa * one - a1 * a1;
                    ((ay * one - a1 * y) / determinant, (aa * y - a1 * ay) / determinant)
                }
            };
            let left = yy - amplitude * ay - offset * y;
            if amplitude > 0.0 && left.is_finite() && best.as_ref().is_none_or(|best| left < best.0)
            {
                let mut values = vec![amplitude.ln(), diffusion.ln()];
                values.extend(self.offset.then_some(offset));
                best = Some((left, values));
            }
        }
        best.map(|(_, values)| values)
    }
}

/// A fit in the making.
struct Problem<'a> {
    rics: &'a Rics,
    points: &'a [Point],
    parameters: Vec<MPPar>,
    config: MPConfig,
}

impl Problem<'_> {
    fn residuals(&self, values: &[f64], found: &mut [f64]) {
        let (n, diffusion) = ((-values[0]).exp(), values[1].exp());
        let offset = values.get(2).copied().unwrap_or(0.0);
        for (found, &(rows, columns, value, error)) in found.iter_mut().zip(self.points) {
            *found = (value - offset - self.rics.g(rows, columns, n, diffusion)) / error;
        }
    }
}

impl MPFitter for Problem<'_> {
    fn eval(&mut self, params: &[f64], deviates: &mut [f64]) -> MPResult<()> {
        self.residuals(params, deviates);
        Ok(())
    }

    fn number_of_points(&self) -> usize {
        self.points.len()
    }

    fn config(&self) -> &MPConfig {
        &self.config
    }

    fn parameters(&self) -> &[MPPar] {
        &self.parameters
    }

    fn jacobian(
        &mut self,
        params: &[f64],
        deviates: &mut [f64],
        derivs: &mut [Option<Vec<f64>>],
    ) -> MPResult<()> {
        self.residuals(params, deviates);
        let (amplitude, diffusion) = (params[0].exp(), params[1].exp());
        for (row, &(rows, columns, _, error)) in self.points.iter().enumerate() {
            let [value, slope] = self.rics.value(rows, columns, diffusion);
            let by = [amplitude * value, amplitude * slope, 1.0];
            for (column, by) in derivs.iter_mut().zip(by) {
                if let Some(column) = column {
                    column[row] = -by / error;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;

    const SCAN: Rics =
        Rics { pixel: 0.05, dwell: 1e-5, line: 5e-3, waist: 0.25, kappa: Some(4.0), offset: true };

    fn map(scan: &Rics, n: f64, diffusion: f64, offset: f64, error: f64) -> Map {
        let size = (17, 33);
        let values = Array2::from_shape_fn(size, |(row, column)| {
            scan.g(row as f64 - 8.0, column as f64 - 16.0, n, diffusion) + offset
        });
        Map { values, errors: Array2::from_elem(size, error), blocks: 10, empty: 0 }
    }

    #[test]
    fn a_model_is_found_again() {
        for (n, diffusion, offset) in [(3.0, 50.0, 0.0), (0.2, 1.0, 1e-3), (40.0, 0.01, -1e-4)] {
            for kappa in [Some(4.0), None] {
                for weighted in [1e-4, f64::NAN] {
                    let scan = Rics { kappa, ..SCAN };
                    let mut map = map(&scan, n, diffusion, offset, weighted);
                    // Noise of the light at lag 0 does not matter.
                    map.values[[8, 16]] += 5.0;
                    let fitted = scan.fit(&map).unwrap();
                    assert!((fitted.n[0] / n - 1.0).abs() < 1e-5, "{fitted:?}");
                    assert!((fitted.diffusion[0] / diffusion - 1.0).abs() < 1e-4, "{fitted:?}");
                    assert!((fitted.offset[0] - offset).abs() < 1e-7, "{fitted:?}");
                    assert_eq!(fitted.degrees, 17 * 33 / 2 - 3);
                }
            }
        }
    }

    #[test]
    fn maps_without_a_decay_are_refused() {
        let scan = Rics { offset: false, ..SCAN };
        let mut flat = map(&scan, 1.0, 1.0, 0.0, 0.1);
        flat.values.fill(-1.0);
        let said = scan.fit(&flat).unwrap_err().to_string();
        assert!(said.contains("does not decay"), "{said}");
        assert!(Rics { waist: 0.0, ..scan }.fit(&flat).is_err());
    }
}
