//! `corrust plot`.

use std::{
    f64::consts::PI,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use corrust::{Error, Result, autocorrelate::Curve, correlate::baseline};
use ndarray::Array2;
use num_complex::Complex;
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::cli::commands::autocorrelate::read::Table;
use crate::cli::options::files::UVH5;
use crate::cli::options::given;
use crate::cli::options::run_files::{Existing, RunFiles, ending, input, output};
use crate::cli::pictures::chart::{Look, chart};
use crate::cli::pictures::measured::{Measured, coherences};
use crate::cli::pictures::plot::{
    Area, COLOURS, Drawn, ENDINGS, PHASE, SIZE, coherence, curves, label, level_bar, matrix,
    phase_bar, phase_colour, save, upwards,
};
use crate::cli::terminal::say::say;

/// Endings of tables of curves, of corrust and of other programs.
const TEXTS: [&str; 6] = ["csv", "txt", "dat", "asc", "fcs", "sin"];

/// Spectra and closure phases that are drawn: as many as have room for their names.
const LINES: usize = 20;

/// Draw visibilities: their matrix, spectra, waterfall or closure phases; or correlation curves
///
/// Reads outputs of `corrust correlate`, NumPy or UVH5, or of `corrust autocorrelate --curves`, CSV, and writes an SVG file, or a PNG file where the
/// output's name ends in .png.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Visibilities: .npy [dump][channel][baseline][2], or .uvh5; curves: .csv, or .txt, .dat, .asc, .fcs, .sin
    /// of other programs, as corrust fit reads them
    #[arg(value_name = "FILE", value_parser = input())]
    input: PathBuf,
    /// Figure to write: a name ending in .svg or .png
    #[arg(short, long, value_name = "FIGURE.svg", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    /// Figure to draw
    #[arg(long, value_enum, default_value_t = Kind::Matrix)]
    kind: Kind,
    /// Which dump, from 0; a waterfall has them all
    #[arg(long, value_name = "D", default_value_t = 0)]
    dump: usize,
    /// Channel of the matrix, from 0 [default: the middle one]
    #[arg(long, value_name = "C")]
    channel: Option<usize>,
    /// Inputs i,j of the waterfall; of UVH5, antennas in the file's order [default: 1,0, or 0,0 of one]
    #[arg(long, value_name = "I,J", value_delimiter = ',', num_args = 1)]
    baseline: Vec<usize>,
    /// Which polarisation of a UVH5 file, from 0 in the file's order
    #[arg(long, value_name = "P", default_value_t = 0)]
    polarisation: usize,
}

/// Figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Coherence and phase of all baselines of a channel
    Matrix,
    /// Power of each input against frequency
    Spectra,
    /// Amplitude and phase of a baseline against time and frequency
    Waterfall,
    /// Phases of triangles of inputs against frequency
    Closure,
}

const EXAMPLES: &str = "\
Examples:
  corrust plot visibilities.npy -o matrix.svg
  corrust plot scan.uvh5 -o spectra.png --kind spectra --dump 3
  corrust plot scan.uvh5 -o waterfall.svg --kind waterfall --baseline 4,2
  corrust plot g.csv -o g.svg";

impl Args {
    /// Draws the figure.
    pub fn run(self) -> Result<()> {
        let files = RunFiles::default().reads([&self.input]);
        files.writes_as([&self.output], ENDINGS).check(self.existing)?;
        self.check_given()?;
        if TEXTS.contains(&&ending(&self.input)[..]) {
            draw_curves(&self.input, &self.output)?;
            say(format_args!("figure: {}", self.output.display()));
            return Ok(());
        }
        let mut file = Measured::open(&self.input, self.polarisation)?;
        let below = |what: &str, found: usize, count: usize| {
            if found < count {
                return Ok(());
            }
            Err(Error::file(&self.input, format!("{what} {found}: expected one below {count}")))
        };
        below("--dump", self.dump, file.dumps)?;
        let channels = file.axis.values.len();
        let path = &self.output;
        match self.kind {
            Kind::Matrix => {
                let channel = self.channel.unwrap_or(channels / 2);
                below("--channel", channel, channels)?;
                let visibilities = coherences(&file.dump(self.dump)?, file.inputs);
                let size = (620, SIZE.1);
                save(path, size, |root| matrix(root, visibilities.view(), file.inputs, channel))?;
            }
            Kind::Spectra => {
                let sums = file.dump(self.dump)?;
                let title = format!("Power of inputs, dump {}{}", self.dump, first_of(file.inputs));
                let lines = (0..file.inputs.min(LINES)).map(|input| {
                    let power = |channel: usize| {
                        10.0 * sums[[channel, baseline(input, input)]].re.max(1e-30).log10()
                    };
                    (format!("{input}"), (0..channels).map(power).collect())
                });
                let lines: Vec<(String, Vec<f64>)> = lines.collect();
                let all = || lines.iter().flat_map(|(_, line)| line.iter().copied());
                let (low, high) =
                    (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
                let margin = 0.05 * (high - low).max(1.0);
                let range = low - margin..high + margin;
                let look = Look { title, y: "power (dB)", range, lines: "input" };
                save(path, SIZE, |root| chart(root, &file.axis, &look, &lines, true))?;
            }
            Kind::Closure => {
                if file.inputs < 3 {
                    return Err(Error::file(
                        &self.input,
                        format!("{} inputs: expected at least 3 for closure phases", file.inputs),
                    ));
                }
                let sums = file.dump(self.dump)?;
                let triangles = (2..file.inputs).flat_map(|k| (1..k).map(move |j| (j, k)));
                let lines: Vec<(String, Vec<f64>)> = triangles
                    .take(LINES)
                    .map(|(j, k)| {
                        let phase = |channel: usize| {
                            let v = |i, j| sums[[channel, baseline(i, j)]];
                            (v(j, 0) * v(k, j) * v(k, 0).conj()).arg() / PI
                        };
                        (format!("0,{j},{k}"), (0..channels).map(phase).collect())
                    })
                    .collect();
                let all = (file.inputs - 1) * (file.inputs - 2) / 2;
                let title = format!("Closure phases, dump {}{}", self.dump, first_of(all));
                let look = Look { title, y: PHASE, range: -1.0..1.0, lines: "inputs" };
                save(path, SIZE, |root| chart(root, &file.axis, &look, &lines, false))?;
            }
            Kind::Waterfall => {
                let usual = [1.min(file.inputs - 1), 0];
                let [i, j] = match self.baseline[..] {
                    [] => usual,
                    [i, j] if j <= i => [i, j],
                    _ => {
                        return Err(Error::invalid(format!(
                            "--baseline {:?}: expected two inputs i,j, j at most i",
                            self.baseline
                        )));
                    }
                };
                below("--baseline", i, file.inputs)?;
                let cells = file.waterfall(baseline(i, j))?;
                save(path, SIZE, |root| waterfall(root, &file, &cells, (i, j)))?;
            }
        }
        say(format_args!("figure: {}", self.output.display()));
        Ok(())
    }
}

impl Args {
    /// Refuses options that this figure does not use.
    fn check_given(&self) -> Result<()> {
        if TEXTS.contains(&&ending(&self.input)[..]) {
            let all = ["kind", "dump", "channel", "baseline", "polarisation"];
            return given::refuse(&all, "correlation curves have none, expected visibilities");
        }
        let name = self.kind.to_possible_value().expect("all kinds have names");
        let refuse = |option: &str, expected: &str| {
            let why =
                format!("a figure of {} does not use it, expected {expected}", name.get_name());
            given::refuse(&[option], why)
        };
        if self.kind != Kind::Waterfall {
            refuse("baseline", "--kind waterfall")?;
        } else {
            refuse("dump", "another --kind, as it shows all dumps")?;
        }
        if self.kind != Kind::Matrix {
            refuse("channel", "--kind matrix")?;
        }
        if ending(&self.input) != UVH5 {
            given::refuse(&["polarisation"], "NumPy files have none, expected a UVH5 file")?;
        }
        Ok(())
    }
}

/// Draws the curves of a table that `corrust autocorrelate --curves` wrote: all where there are few of them, else
/// their mean.
fn draw_curves(input: &Path, output: &Path) -> Result<()> {
    let mut table = Table::read(input)?;
    // The mean is the first.
    let own = table.curves.split_off(usize::from(table.mean));
    let drawn = match own.len() > COLOURS.len() {
        true if table.mean => table.curves,
        _ => own.into_iter().take(COLOURS.len()).collect(),
    };
    let named = drawn.into_iter().map(|(name, curve)| (name.replace('_', " "), curve));
    let curves_drawn: Vec<(String, Curve)> = named.collect();
    let lags = table.lags.iter().copied().filter(|lag| *lag > 0.0);
    let (first, last) =
        lags.fold((f64::INFINITY, 0.0_f64), |(first, last), lag| (lag.min(first), lag.max(last)));
    let all = if first < last { first..last } else { 1e-6..1.0 };
    curves(output, &curves_drawn, all, "")
}

/// Part of a title for figures that leave out some of `all` lines.
fn first_of(all: usize) -> String {
    if all > LINES { format!(", the first {LINES} of {all}") } else { String::new() }
}

/// Amplitude, as a part of the largest, and phase of a baseline.
fn waterfall(
    root: &Area<'_>,
    file: &Measured,
    cells: &Array2<Complex<f64>>,
    (i, j): (usize, usize),
) -> Drawn {
    const WIDTH: i32 = 430;
    const HEIGHT: i32 = 420;
    const TOP: i32 = 62;
    let largest = cells.iter().map(|cell| cell.norm()).fold(f64::MIN_POSITIVE, f64::max);
    let centred = Pos::new(HPos::Center, VPos::Top);
    let (rows, columns) = cells.dim();
    let edge = |index: usize, count: usize, length: i32| {
        (index as i64 * i64::from(length) / count as i64) as i32
    };
    // Low frequencies are on the left whichever way channels run.
    let flipped = file.axis.values.first() > file.axis.values.last();
    for (left, title) in [(90, "amplitude"), (710, "phase")] {
        for ((row, column), cell) in cells.indexed_iter() {
            let colour = match title {
                "phase" => phase_colour(cell.arg()),
                _ => coherence(cell.norm() / largest),
            };
            let column = if flipped { columns - 1 - column } else { column };
            let from = (left + edge(column, columns, WIDTH), TOP + edge(row, rows, HEIGHT));
            // A pixel further, which the next one covers: where edges meet, the paper would show.
            let to = (
                (left + edge(column + 1, columns, WIDTH) + 1).min(left + WIDTH),
                (TOP + edge(row + 1, rows, HEIGHT) + 1).min(TOP + HEIGHT),
            );
            root.draw(&Rectangle::new([from, to], colour.filled()))?;
        }
        root.draw(&Rectangle::new([(left, TOP), (left + WIDTH, TOP + HEIGHT)], BLACK))?;
        let text = format!("V({i},{j}), {title}");
        root.draw_text(&text, &label(20).pos(centred), (left + WIDTH / 2, 22))?;
        let bottom = TOP + HEIGHT;
        let range = file.axis.range();
        for (value, x) in [(range.start, left), (range.end, left + WIDTH)] {
            let style = label(14).pos(centred);
            root.draw_text(&file.axis.tick(value), &style, (x, bottom + 8))?;
        }
        let middle = (left + WIDTH / 2, bottom + 28);
        root.draw_text(file.axis.name, &label(16).pos(centred), middle)?;
        let right = label(14).pos(Pos::new(HPos::Right, VPos::Center));
        root.draw_text("0", &right, (left - 8, TOP))?;
        root.draw_text(&file.dumps.to_string(), &right, (left - 8, bottom))?;
        upwards(root, "dump", (left - 42, TOP + HEIGHT / 2))?;
        let (bar, heights) = (left + WIDTH + 20, TOP..bottom);
        match title {
            "phase" => phase_bar(root, bar, heights)?,
            _ => level_bar(root, bar, heights, ("amplitude, part of the largest", 1.0))?,
        }
    }
    Ok(())
}
