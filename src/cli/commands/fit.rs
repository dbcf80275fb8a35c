//! `corrust fit`.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use corrust::{
    Error, Result,
    fit::{Fit, Fitted, Measured, Model, Parameter, State, Uncertainties},
    format::PartialFile,
};
use serde_json::{Value, json};

use crate::cli::commands::autocorrelate::read::Table;
use crate::cli::options::run_files::{Existing, RunFiles, all, input, output};
use crate::cli::options::units::{Micrometres, Seconds};
use crate::cli::pictures::{fits, plot};
use crate::cli::terminal::numbers::{count, digits, uncertain};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::{say, warn};

/// Fit models of diffusion to correlation curves (FCS): values with uncertainties
///
/// g(tau) = offset + 1/n (1 + T/(1-T) exp(-tau/tau_T)) sum_k f_k (1 + tau/tau_k)^-1 (1 + tau/(kappa^2 tau_k))^-1/2,
/// by Levenberg-Marquardt from several starts, with the curves' error bars as weights; uncertainties are the scatter of fits
/// without one block of the recording after the other. Parameters: n; tau, or tau1, tau2 and fraction
/// (f_1) of two components; kappa (3d), fixed at 5 unless given; triplet (T) and triplet_time (tau_T); offset, fixed
/// at 1 unless --offset.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Tables of curves: CSV, as of corrust autocorrelate --curves; text of lag in seconds, g and, if it is known, standard error; or curves
    /// of ALV (.asc), Zeiss ConfoCor (.fcs) or Correlator.com (.sin); files are taken as independent recordings
    #[arg(required = true, value_name = "CURVES", value_parser = input())]
    inputs: Vec<PathBuf>,
    /// Model: diffusion in space (3d) or in a plane (2d)
    #[arg(long, value_enum, default_value_t = Space::Space)]
    model: Space,
    /// Diffusing components: 1 or 2
    #[arg(long, value_name = "K", default_value_t = 1)]
    components: usize,
    /// Fit a triplet state: its fraction and its time, at most the shortest diffusion time unless it has a condition
    #[arg(long)]
    triplet: bool,
    /// Fit the value at long lags
    #[arg(long)]
    offset: bool,
    /// Hold a parameter at a value, as kappa=4.2 or tau=50us; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    fix: Vec<(String, f64)>,
    /// Start fits from this value of a parameter, too, beside those that the curve suggests; frees kappa; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment, hide_short_help = true)]
    start: Vec<(String, f64)>,
    /// Keep a parameter within bounds, as tau=10us..1ms or kappa=0.5..10; frees kappa and offset; may be repeated [default: kappa from 1 on]
    #[arg(long, value_name = "NAME=LOW..HIGH", value_parser = bounds, hide_short_help = true)]
    bound: Vec<(String, f64, f64)>,
    /// Give all curves one value of a parameter; may be repeated
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    share: Vec<String>,
    /// Lags that are fitted, as 1us..100ms or 1e-6..0.1 [default: all above 0]
    #[arg(long, value_name = "LOW..HIGH", value_parser = range)]
    range: Option<(f64, f64)>,
    /// Curve of the tables by its name, as pair_0_1 or mean; may be repeated [default: all but the mean]
    #[arg(long, value_name = "NAME")]
    curve: Vec<String>,
    /// Weigh all lags alike, whatever their error bars
    #[arg(long, hide_short_help = true)]
    unweighted: bool,
    /// State uncertainties for independent errors of lags, as synthetic curves have. Errors of measured curves are correlated:
    /// by default uncertainties come from the columns of autocorrelate --blocks
    #[arg(long, hide_short_help = true)]
    independent: bool,
    /// Radius of the focus (1/e^2), as 0.25um: prints diffusion constants, D = waist^2 / (4 tau)
    #[arg(long, value_name = "LENGTH")]
    waist: Option<Micrometres>,
    /// JSON file for the results
    #[arg(short, long, value_name = "FIT.json", value_parser = output())]
    output: Option<PathBuf>,
    /// CSV file for the table of parameters
    #[arg(long, value_name = "TABLE.csv", value_parser = output(), hide_short_help = true)]
    csv: Option<PathBuf>,
    /// Draw curves, fits and residuals, to a file in .svg or .png
    #[arg(long, value_name = "FILE", value_parser = output())]
    plot: Option<PathBuf>,
    /// Print JSON in place of the table: the contents of --output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    existing: Existing,
}

/// Space in which molecules diffuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Space {
    /// In space
    #[value(name = "3d")]
    Space,
    /// In a plane
    #[value(name = "2d")]
    Plane,
}

const EXAMPLES: &str = "\
Examples:
  corrust fit g.csv
  corrust fit g.csv --triplet --range 200ns..1s --waist 0.25um -o fit.json --plot fit.svg
  corrust fit a.csv b.csv --components 2 --share tau1 --share tau2 --csv table.csv
  corrust fit g.csv --model 2d --curve mean --fix offset=1.001
  corrust fit sample.asc --offset --range 1us..100ms
  corrust fit lag_and_g_minus_1.txt --fix offset=0";

/// Reads a number, or a time with its unit.
fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let time = || text.parse::<Seconds>().map(|seconds| seconds.0).ok();
    let value = text.parse().ok().or_else(time).filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| format!("{text:?}: expected a number, or a time with its unit, as 50us"))
}

fn assignment(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("expected a name and a value, as kappa=5")?;
    Ok((name.trim().to_owned(), number(value)?))
}

fn range(text: &str) -> Result<(f64, f64), String> {
    let (low, high) = text.split_once("..").ok_or("expected two values, as 1us..100ms")?;
    let (low, high) = (number(low)?, number(high)?);
    if low < high { Ok((low, high)) } else { Err("expected the first below the second".into()) }
}

fn bounds(text: &str) -> Result<(String, f64, f64), String> {
    let (name, values) = text.split_once('=').ok_or("expected NAME=LOW..HIGH, as tau=1us..1ms")?;
    let (low, high) = range(values)?;
    Ok((name.trim().to_owned(), low, high))
}

/// A curve to fit.
struct Named {
    file: String,
    name: String,
    measured: Measured,
}

/// A line of the table.
struct Row {
    name: &'static str,
    value: f64,
    uncertainty: f64,
    unit: &'static str,
    state: &'static str,
}

impl Args {
    /// Fits the curves.
    pub fn run(self) -> Result<()> {
        let files = RunFiles::default().reads(&self.inputs).writes_as(&self.output, &["json"]);
        let files = files.writes_as(&self.csv, &["csv"]).writes_as(&self.plot, plot::ENDINGS);
        files.check(self.existing)?;
        let fit = self.fit()?;
        let curves = self.curves()?;
        // Curves that share nothing are fitted one by one.
        let each = if self.share.is_empty() { 1 } else { curves.len() };
        let fits = self.fits(&fit, &curves, each)?;
        self.warn_of(&curves, &fits, each);
        let json = || {
            serde_json::to_string_pretty(&self.json(&curves, &fits, each))
                .expect("numbers and text")
        };
        if self.json {
            say(json());
        } else {
            self.say_fits(&curves, &fits, each);
        }
        all([
            self.output.as_ref().map_or(Ok(()), |path| write(path, (json() + "\n").as_bytes())),
            self.csv
                .as_ref()
                .map_or(Ok(()), |path| write(path, self.table(&curves, &fits, each).as_bytes())),
            self.plot.as_ref().map_or(Ok(()), |path| self.draw(path, &curves, &fits, each)),
        ])
    }

    /// Fits `each` curves together, and those after them.
    fn fits(&self, fit: &Fit, curves: &[Named], each: usize) -> Result<Vec<Fitted>> {
        let mut fits: Vec<Fitted> = Vec::new();
        let bar = Progress::of("fitting", "curves", 1.0, curves.len() as u64);
        for together in curves.chunks(each) {
            let found = match self.independent {
                true => {
                    let own = together.iter().map(|of| of.measured.curve.clone());
                    fit.run(&own.collect::<Vec<_>>())
                }
                false => {
                    let own = together.iter().map(|of| of.measured.clone());
                    fit.run_measured(&own.collect::<Vec<_>>())
                }
            };
            let fitted = found.map_err(|error| {
                Error::file(&together[0].file, format!("{}: {error}", together[0].name))
            })?;
            fits.push(fitted);
            bar.set((fits.len() * each) as u64);
        }
        Ok(fits)
    }

    /// Warns of what fits lack, and of doubts about them.
    fn warn_of(&self, curves: &[Named], fits: &[Fitted], each: usize) {
        if fits.iter().any(|fitted| !fitted.weighted) && !self.unweighted {
            warn("no error bars: all lags weigh alike");
        }
        let unstated = fits.iter().find_map(|fitted| match &fitted.uncertainties {
            Uncertainties::Unstated(reason) => Some(reason),
            Uncertainties::Independent | Uncertainties::Blocks(_) => None,
        });
        if let Some(reason) = unstated {
            warn(format_args!(
                "no uncertainties: {reason}; expected a table of autocorrelate --blocks 20, or --independent where errors of \
                 lags are independent"
            ));
        }
        for (together, fitted) in curves.chunks(each).zip(fits) {
            if let Some(doubt) = fitted.doubt() {
                warn(format_args!("{} {}: {doubt}", together[0].file, together[0].name));
            }
        }
    }

    /// Prints the parameters of every curve.
    fn say_fits(&self, curves: &[Named], fits: &[Fitted], each: usize) {
        for (index, named) in curves.iter().enumerate() {
            let fitted = &fits[index / each];
            say(format_args!("{} {}", named.file, named.name));
            for row in self.rows(fitted, index % each) {
                let Row { name, value, uncertainty, unit, state } = row;
                let value = uncertain(value, uncertainty, unit);
                let state = if state == "free" { "" } else { state };
                say(format!("  {name:<13}{value:<26}{state}").trim_end());
            }
            if index % each == each - 1 {
                say(format_args!(
                    "  reduced chi2 {}, {} degrees of freedom, {}{}",
                    match fitted.weighted {
                        true => format!("{:.3}", fitted.reduced_chi2()),
                        // Squares of g itself, which are small.
                        false => digits(fitted.reduced_chi2()),
                    },
                    fitted.degrees,
                    count(fitted.iterations, "iteration"),
                    match &fitted.uncertainties {
                        Uncertainties::Blocks(blocks) =>
                            format!(", uncertainties from {blocks} blocks"),
                        Uncertainties::Independent => ", uncertainties of independent lags".into(),
                        Uncertainties::Unstated(_) => String::new(),
                    }
                ));
            }
        }
    }

    /// Draws the curves and their fits.
    fn draw(&self, path: &Path, curves: &[Named], fits: &[Fitted], each: usize) -> Result<()> {
        let drawn = curves.iter().enumerate().map(|(index, named)| {
            let (fitted, place) = (&fits[index / each], index % each);
            let parameters = self.rows(fitted, place).into_iter().map(|row| {
                let Row { name, value, uncertainty, unit, state } = row;
                let state = match state {
                    "free" => String::new(),
                    state => format!(", {state}"),
                };
                format!("{name} = {}{state}", uncertain(value, uncertainty, unit))
            });
            fits::Drawn {
                name: named.name.replace('_', " "),
                curve: &named.measured.curve,
                fitted,
                place,
                parameters: parameters.collect(),
            }
        });
        fits::fits(path, &drawn.collect::<Vec<_>>())
    }

    /// The model with the conditions on its parameters.
    fn fit(&self) -> Result<Fit> {
        let mut fit = Fit::new(Model {
            plane: self.model == Space::Plane,
            components: self.components,
            triplet: self.triplet,
            offset: self.offset,
        })?;
        for (name, low, high) in &self.bound {
            fit = fit.bound(name, *low..=*high)?;
        }
        for (name, value) in &self.fix {
            fit = fit.fix(name, *value)?;
        }
        for (name, value) in &self.start {
            if self.fix.iter().any(|(fixed, _)| fixed == name) {
                return Err(Error::invalid(format!(
                    "--start {name} and --fix {name}: expected one of them"
                )));
            }
            fit = fit.start(name, *value)?;
        }
        for name in &self.share {
            fit = fit.share(name)?;
        }
        if let Some((low, high)) = self.range {
            fit = fit.range(low..=high);
        }
        Ok(if self.unweighted { fit.unweighted() } else { fit })
    }

    /// The curves of all tables that are asked for.
    fn curves(&self) -> Result<Vec<Named>> {
        // Recordings are independent; the same one twice is not.
        let places = self.inputs.iter().map(|path| path.canonicalize().unwrap_or(path.clone()));
        let mut seen = BTreeSet::new();
        if let Some((_, path)) =
            places.zip(&self.inputs).find(|(place, _)| !seen.insert(place.clone()))
        {
            let reason = "is given twice: expected files of independent recordings";
            return Err(Error::file(path, reason));
        }
        let mut found = Vec::new();
        for (recording, path) in self.inputs.iter().enumerate() {
            let table = Table::read(path)?;
            let known = |name: &String| table.curves.iter().any(|(of, _)| of == name);
            if let Some(missing) = self.curve.iter().find(|name| !known(name)) {
                let names: Vec<&str> = table.curves.iter().map(|(of, _)| &of[..]).take(9).collect();
                let reason = format!("no curve {missing:?}: expected {}", names.join(", "));
                return Err(Error::file(path, reason));
            }
            let curves = table.curves.into_iter().zip(table.without);
            for (index, ((name, mut curve), without)) in curves.enumerate() {
                let taken = if self.curve.is_empty() {
                    index > 0 || !table.mean
                } else {
                    self.curve.contains(&name)
                };
                if !taken {
                    continue;
                }
                if !table.errors {
                    curve.errors.clear();
                }
                let measured = Measured { curve, without, recording };
                found.push(Named { file: path.display().to_string(), name, measured });
            }
        }
        Ok(found)
    }

    /// Parameters of a curve, and the diffusion constants that follow.
    fn rows(&self, fitted: &Fitted, curve: usize) -> Vec<Row> {
        let names = fitted.model.names().into_iter();
        let mut rows: Vec<Row> = names
            .filter_map(|name| fitted.get(name, curve))
            .map(|&Parameter { name, curve, value, uncertainty, state }| Row {
                name,
                value,
                uncertainty,
                unit: Model::unit(name),
                state: match state {
                    State::Fixed => "fixed",
                    State::AtBound => "at bound",
                    State::Free if curve.is_none() => "shared",
                    State::Free => "free",
                },
            })
            .collect();
        let Some(Micrometres(waist)) = self.waist else { return rows };
        let constants: Vec<Row> = [("tau", "D"), ("tau1", "D1"), ("tau2", "D2")]
            .into_iter()
            .filter_map(|(time, name)| {
                let row = rows.iter().find(|row| row.name == time)?;
                let value = waist * waist / (4.0 * row.value);
                let uncertainty = value * row.uncertainty / row.value;
                Some(Row { name, value, uncertainty, unit: "um^2/s", state: row.state })
            })
            .collect();
        rows.extend(constants);
        rows
    }

    fn table(&self, curves: &[Named], fits: &[Fitted], each: usize) -> String {
        let mut text = String::from("file,curve,parameter,value,uncertainty,unit,state\n");
        for (index, Named { file, name, .. }) in curves.iter().enumerate() {
            let file = match file.contains([',', '"', '\n']) {
                true => format!("\"{}\"", file.replace('"', "\"\"")),
                false => file.clone(),
            };
            for row in self.rows(&fits[index / each], index % each) {
                let Row { name: parameter, value, uncertainty, unit, state } = row;
                let known = match uncertainty.is_nan() {
                    true => String::new(),
                    false => format!("{uncertainty:e}"),
                };
                let _ =
                    writeln!(text, "{file},{name},{parameter},{value:e},{known},{unit},{state}");
            }
        }
        text
    }

    fn json(&self, curves: &[Named], fits: &[Fitted], each: usize) -> Value {
        let known = |value: f64| if value.is_finite() { json!(value) } else { Value::Null };
        let curve = |(index, Named { file, name, .. }): (usize, &Named)| {
            let (fitted, place) = (&fits[index / each], index % each);
            let rows = self.rows(fitted, place).into_iter().map(|row| {
                let Row { name, value, uncertainty, unit, state } = row;
                let fields = json!({
                    "value": value, "uncertainty": known(uncertainty), "unit": unit, "state": state
                });
                (name.to_owned(), fields)
            });
            json!({
                "file": file, "curve": name, "fit": index / each,
                "parameters": rows.collect::<serde_json::Map<_, _>>(),
                "lags": fitted.lags[place], "residuals": fitted.residuals[place],
            })
        };
        let fit = |fitted: &Fitted| {
            let names = fitted.parameters.iter();
            let names = names.map(|of| json!({"name": of.name, "curve": of.curve}));
            let rows: Vec<Vec<f64>> =
                fitted.covariance.rows().into_iter().map(|row| row.to_vec()).collect();
            json!({
                "chi2": fitted.chi2, "degrees": fitted.degrees, "reduced_chi2": fitted.reduced_chi2(),
                "points": fitted.points, "iterations": fitted.iterations,
                "weights": if fitted.weighted { "error bars" } else { "none" },
                "uncertainties": match &fitted.uncertainties {
                    Uncertainties::Blocks(_) => json!("blocks"),
                    Uncertainties::Independent => json!("independent lags"),
                    Uncertainties::Unstated(_) => Value::Null,
                },
                "blocks": match &fitted.uncertainties {
                    Uncertainties::Blocks(blocks) => json!(blocks),
                    Uncertainties::Independent | Uncertainties::Unstated(_) => Value::Null,
                },
                "uncertainties_scaled_by_chi2":
                    !fitted.weighted && fitted.uncertainties == Uncertainties::Independent,
                "warning": fitted.doubt(),
                "parameters": names.collect::<Vec<_>>(), "covariance": rows,
            })
        };
        json!({
            "model": {
                "dimensions": if self.model == Space::Plane { 2 } else { 3 },
                "components": self.components, "triplet": self.triplet, "offset": self.offset,
            },
            "curves": curves.iter().enumerate().map(curve).collect::<Vec<_>>(),
            "fits": fits.iter().map(fit).collect::<Vec<_>>(),
        })
    }
}

fn write(path: &std::path::Path, bytes: &[u8]) -> Result<()> {
    let mut file = PartialFile::create(path)?;
    file.append(bytes)?;
    file.finish()
}
