//! Fits of models of fluorescence correlation spectroscopy to correlation curves.
//!
//! [`Fit`] holds a [`Model`] and its conditions: fixed values, start values, bounds, parameters that curves share.
//! [`Fit::run`] minimises the sum of squared residuals, each divided by its standard error, by the
//! Levenberg-Marquardt method of MINPACK as in MPFIT (crate `rmpfit`; Markwardt, ASP Conf. Ser. 411, 251, 2009), from
//! several starts. [`Fit::run_measured`] takes uncertainties from blocks of the recording, which a measured curve needs: its
//! neighbouring lags are correlated.
//!
//! ```
//! use corrust_host::autocorrelate::Curve;
//! use corrust_recordings::fit::{Fit, Model};
//!
//! let lags: Vec<f64> = (0..60).map(|k| 1e-6 * 1.2_f64.powi(k)).collect();
//! let values = lags.iter().map(|tau| 1.0 + 0.5 / (1.0 + tau / 1e-4)).collect();
//! let curve = Curve { errors: vec![0.01; lags.len()], lags, values };
//! let fitted = Fit::new(Model { plane: true, ..Model::default() })?.run(&[curve])?;
//! assert!((fitted.get("n", 0).unwrap().value - 2.0).abs() < 1e-6);
//! assert!((fitted.get("tau", 0).unwrap().value - 1e-4).abs() < 1e-10);
//! # Ok::<(), corrust_host::Error>(())
//! ```

pub(crate) mod conditions;
pub(crate) mod model;
pub(crate) mod solve;
pub(crate) mod start;

pub use conditions::Fit;
pub use model::Model;
pub use solve::{Fitted, LEAST_BLOCKS, Measured, Parameter, State, Uncertainties};
