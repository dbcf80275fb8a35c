//! `corrust plot`.

use std::{
    f64::consts::PI,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use corrust::{
    Error, Result,
    autocorrelate::Curve,
    correlate::baseline,
    device,
    format::{
        array::Array,
        npy::{self, Dtype},
    },
    images::Stack,
};
use ndarray::Array2;
use num_complex::Complex;
use plotters::prelude::*;

use crate::cli::commands::autocorrelate::read::Table;
use crate::cli::commands::info::made::undrawn;
use crate::cli::options::files::UVH5;
use crate::cli::options::given;
use crate::cli::options::run_files::{Existing, RunFiles, ending, input, output};
use crate::cli::pictures::chart::{CHANNEL, Look, chart};
use crate::cli::pictures::heat::{Panel, panel};
use crate::cli::pictures::maps::{self, Axes};
use crate::cli::pictures::measured::{Measured, coherences};
use crate::cli::pictures::plot::{
    Area, COLOURS, Drawn, ENDINGS, GREY, PHASE, SIZE, coherence, curves, level_bar, matrix,
    phase_bar, phase_colour, range_bar, save, shortened, usual_range,
};
use crate::cli::pictures::powers::Powers;
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::tell;

/// Endings of tables of curves, of corrust and of other programs.
const TEXTS: [&str; 6] = ["csv", "txt", "dat", "asc", "fcs", "sin"];

/// Spectra and closure phases that are drawn: as many as have colours that everyone can tell apart.
const LINES: usize = COLOURS.len();

/// Characters of a name in a key, at most.
const NAME: usize = 16;

/// Draw visibilities, powers, spectra or correlation curves
///
/// Reads what corrust writes: visibilities, NumPy or UVH5; powers, filterbank files or NumPy; spectra and beams; curves; stacks of
/// images. Writes an SVG file, or a PNG file where the output's name ends in .png.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Visibilities: .npy [dump][channel][baseline][2], or .uvh5; powers: .fil, or .npy of corrust filterbank; spectra
    /// [dump][channel][input] of corrust observe; beams: .npy [B][F][P][T] of ci4 or [B][F][P][T][2]; curves: .csv, or .txt,
    /// .dat, .asc, .fcs, .sin of other programs, as corrust fit reads them; stacks of images: .tif, .h5, .npy
    #[arg(value_name = "FILE", value_parser = input())]
    input: PathBuf,
    /// Figure to write: a name ending in .svg or .png
    #[arg(short, long, value_name = "FIGURE.svg", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    /// Figure to draw [default: matrix; waterfall of powers]
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Number of the dump, from 0; a waterfall has all
    #[arg(long, value_name = "D", default_value_t = 0)]
    dump: usize,
    /// Channel of the matrix, from 0 [default: the middle one]
    #[arg(long, value_name = "C")]
    channel: Option<usize>,
    /// Numbers i,j of the inputs of the waterfall; of UVH5, antennas in the file's order [default: 1,0, or 0,0 of one]
    #[arg(long, value_name = "I,J", value_delimiter = ',', num_args = 1)]
    baseline: Vec<usize>,
    /// Polarisation of a UVH5 file, from 0 in the file's order
    #[arg(long, value_name = "P", default_value_t = 0)]
    polarisation: usize,
    /// Array file, as of corrust correlate: names of inputs and frequencies of channels, which NumPy files lack
    #[arg(long, value_name = "ARRAY.json", value_parser = input())]
    array: Option<PathBuf>,
    /// Number, from 0, of the beam, the Stokes parameter of powers, or the input of spectra
    #[arg(long, value_name = "K", default_value_t = 0)]
    index: usize,
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
  corrust plot powers.fil -o powers.png
  corrust plot beams.npy -o beam.png --index 2
  corrust plot g.csv -o g.svg";

impl Args {
    /// Draws the figure.
    pub fn run(self) -> Result<()> {
        let files = RunFiles::default().reads([&self.input]).reads(&self.array);
        files.writes_as([&self.output], ENDINGS).check(self.existing)?;
        self.warn_of_given();
        if TEXTS.contains(&&ending(&self.input)[..]) {
            draw_curves(&self.input, &self.output)?;
        } else if let Some(reason) = undrawn(&self.input)? {
            return Err(Error::file(&self.input, reason));
        } else if self.is_stack()? {
            draw_stack(&self.input, &self.output)?;
        } else {
            let array = self.array.as_ref().map(Array::read).transpose()?;
            match Powers::open(&self.input, self.index, array.as_ref())? {
                Some(mut powers) => self.draw_powers(&mut powers)?,
                None => self.draw_visibilities(array.as_ref())?,
            }
        }
        tell(format_args!("figure: {}", self.output.display()));
        Ok(())
    }

    fn draw_powers(&self, powers: &mut Powers) -> Result<()> {
        let spectrum = match self.kind {
            None | Some(Kind::Waterfall) => false,
            Some(Kind::Spectra) => true,
            Some(Kind::Matrix | Kind::Closure) => {
                let reason = "holds powers: expected --kind waterfall or spectra";
                return Err(Error::file(&self.input, reason));
            }
        };
        draw_powers(powers, spectrum, &self.output)
    }

    fn draw_visibilities(&self, array: Option<&Array>) -> Result<()> {
        let mut file = Measured::open(&self.input, self.polarisation, array)?;
        self.below("--dump", self.dump, file.dumps)?;
        let polarisation = file.polarisation().map_or(String::new(), |name| format!(", {name}"));
        match self.kind.unwrap_or(Kind::Matrix) {
            Kind::Matrix => self.draw_matrix(&mut file, &polarisation),
            Kind::Spectra => self.draw_spectra(&mut file, &polarisation),
            Kind::Closure => self.draw_closure(&mut file, &polarisation),
            Kind::Waterfall => self.draw_waterfall(&mut file, &polarisation),
        }
    }

    /// Refuses a number that is not below a count.
    fn below(&self, what: &str, found: usize, count: usize) -> Result<()> {
        if found < count {
            return Ok(());
        }
        Err(Error::file(&self.input, format!("{what} {found}: expected one below {count}")))
    }

    fn draw_matrix(&self, file: &mut Measured, polarisation: &str) -> Result<()> {
        let channels = file.axis.values.len();
        let channel = self.channel.unwrap_or(channels / 2);
        self.below("--channel", channel, channels)?;
        let visibilities = coherences(&file.dump(self.dump)?, file.inputs);
        let size = (620, SIZE.1);
        let at = match file.axis.name {
            CHANNEL => format!("of channel {channel}"),
            _ => format!("at {} MHz", file.axis.tick(file.axis.values[channel])),
        };
        let title = format!("Visibilities {at}{polarisation}");
        save(&self.output, size, |root| {
            matrix(root, visibilities.row(channel), &title, (file.of, &file.names))
        })
    }

    fn draw_spectra(&self, file: &mut Measured, polarisation: &str) -> Result<()> {
        let channels = file.axis.values.len();
        let sums = file.dump(self.dump)?;
        let title = format!(
            "Power of {}s, dump {}{polarisation}{}",
            file.of,
            self.dump,
            first_of(file.inputs)
        );
        let lines = (0..file.inputs.min(LINES)).map(|input| {
            let power = |channel: usize| {
                10.0 * sums[[channel, baseline(input, input)]].re.max(1e-30).log10()
            };
            (shortened(&file.names[input], NAME), (0..channels).map(power).collect())
        });
        let lines: Vec<(String, Vec<f64>)> = lines.collect();
        let all = || lines.iter().flat_map(|(_, line)| line.iter().copied());
        let (low, high) =
            (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let margin = 0.05 * (high - low).max(1.0);
        let range = low - margin..high + margin;
        let look = Look { title, y: "power (dB)", range, lines: file.of, wide: 0 };
        save(&self.output, SIZE, |root| chart(root, &file.axis, &look, &lines, true))
    }

    fn draw_closure(&self, file: &mut Measured, polarisation: &str) -> Result<()> {
        let channels = file.axis.values.len();
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
                let names = [0, j, k].map(|input| shortened(&file.names[input], NAME));
                (names.join(", "), (0..channels).map(phase).collect())
            })
            .collect();
        let all = (file.inputs - 1) * (file.inputs - 2) / 2;
        let title = format!("Closure phases, dump {}{polarisation}{}", self.dump, first_of(all));
        let triangles = if file.of == "antenna" { "antennas" } else { "inputs" };
        let look = Look { title, y: PHASE, range: -1.0..1.0, lines: triangles, wide: 0 };
        save(&self.output, SIZE, |root| chart(root, &file.axis, &look, &lines, false))
    }

    fn draw_waterfall(&self, file: &mut Measured, polarisation: &str) -> Result<()> {
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
        self.below("--baseline", i, file.inputs)?;
        let cells = file.waterfall(baseline(i, j))?;
        let names = (&file.pair(i, j)[..], polarisation);
        save(&self.output, SIZE, |root| waterfall(root, file, &cells, names))
    }
}

impl Args {
    /// Whether the file is a stack of images, by its name, or its type and axes.
    fn is_stack(&self) -> Result<bool> {
        Ok(match &ending(&self.input)[..] {
            "tif" | "tiff" | "h5" | "hdf5" => true,
            "npy" => {
                let reader = npy::Reader::open(&self.input)?;
                let is_pixels = matches!(reader.dtype(), Some(Dtype::Uint8 | Dtype::Uint16));
                is_pixels && reader.shape().len() == 3
            }
            _ => false,
        })
    }

    /// Warns of options that this figure does not use.
    fn warn_of_given(&self) {
        if TEXTS.contains(&&ending(&self.input)[..]) {
            let all = ["kind", "dump", "channel", "baseline", "polarisation", "array", "index"];
            given::warn_unused(&all, "correlation curves have none, expected visibilities");
            return;
        }
        let kind = self.kind.unwrap_or(Kind::Matrix);
        let name = kind.to_possible_value().expect("all kinds have names");
        let unused = |option: &str, expected: &str| {
            let why =
                format!("a figure of {} does not use it, expected {expected}", name.get_name());
            given::warn_unused(&[option], why);
        };
        if kind != Kind::Waterfall {
            unused("baseline", "--kind waterfall");
        } else {
            unused("dump", "another --kind, as it shows all dumps");
        }
        if kind != Kind::Matrix {
            unused("channel", "--kind matrix");
        }
        if matches!(&ending(&self.input)[..], UVH5 | "fil") {
            given::warn_unused(&["array"], "the file has frequencies and names of its own");
        }
        if ending(&self.input) != UVH5 {
            given::warn_unused(&["polarisation"], "NumPy files have none, expected a UVH5 file");
        }
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
    (names, polarisation): (&str, &str),
) -> Drawn {
    let largest = cells.iter().map(|cell| cell.norm()).fold(f64::MIN_POSITIVE, f64::max);
    let (left, right) = root.split_horizontally(SIZE.0 / 2);
    let rows = file.rows();
    let drawn = |title: &str, area: &Area<'_>, colour: &dyn Fn(Complex<f64>) -> RGBColor| {
        let title = format!("V({names}), {title}{polarisation}");
        let rows = (rows.0, rows.1.clone());
        let look = Panel { title: &title, columns: &file.axis, rows, tick: None };
        panel(area, &look, cells.dim(), &|row, column| colour(cells[[row, column]]))
    };
    let (bar, heights) = drawn("amplitude", &left, &|cell| coherence(cell.norm() / largest))?;
    level_bar(&left, bar, heights, ("amplitude, part of the largest", 1.0))?;
    let (bar, heights) = drawn("phase", &right, &|cell| phase_colour(cell.arg()))?;
    phase_bar(&right, bar, heights)
}

/// Draws powers against time and frequency, in decibels where none is negative.
fn draw_powers(powers: &mut Powers, spectrum: bool, output: &Path) -> Result<()> {
    let mut cells = powers.waterfall()?;
    let is_decibel = cells.iter().all(|power| power.is_nan() || *power >= 0.0);
    if is_decibel {
        cells.mapv_inplace(|power| 10.0 * power.log10());
    }
    let unit = if is_decibel { "power (dB)" } else { "power" };
    let one = if powers.of.count > 1 { format!(", {}", powers.one) } else { String::new() };
    let axis = powers.axis.averaged(cells.ncols());
    let (low, high) = usual_range(cells.iter().copied());
    if spectrum {
        let linear = |power: f64| if is_decibel { 10_f64.powf(power / 10.0) } else { power };
        let mean = cells.columns().into_iter().map(|column| {
            let finite = column.iter().filter(|power| power.is_finite());
            let (sum, count) =
                finite.fold((0.0, 0.0), |(sum, count), &it| (sum + linear(it), count + 1.0));
            if is_decibel { 10.0 * (sum / count).log10() } else { sum / count }
        });
        let line: Vec<f64> = mean.collect();
        let finite = || line.iter().copied().filter(|power| power.is_finite());
        let (low, high) =
            (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let margin = 0.05 * (high - low).max(1e-3 * high.abs()).max(1e-3);
        let look = Look {
            title: format!("Mean power{one}"),
            y: unit,
            range: low - margin..high + margin,
            lines: "",
            wide: 0,
        };
        return save(output, SIZE, |root| {
            chart(root, &axis, &look, &[(String::new(), line)], true)
        });
    }
    let rows = match powers.interval {
        Some(interval) => ("time (s)", 0.0..powers.times as f64 * interval),
        None => ("time sample", 0.0..powers.times as f64),
    };
    save(output, SIZE, |root| {
        let title = format!("Power{one}");
        let look = Panel { title: &title, columns: &axis, rows, tick: None };
        let (bar, heights) = panel(root, &look, cells.dim(), &|row, column| {
            let power = cells[[row, column]];
            match power.is_finite() || power == f64::NEG_INFINITY {
                true => coherence((power - low) / (high - low)),
                false => GREY,
            }
        })?;
        range_bar(root, bar, heights, (unit, low, high))
    })
}

/// Draws the mean image of a stack.
fn draw_stack(path: &Path, output: &Path) -> Result<()> {
    let mut stack = Stack::open(path, "data")?;
    let (height, width, frames) = (stack.height(), stack.width(), stack.frames());
    let mut sums = Array2::<f64>::zeros((height, width));
    let mut frame: Vec<u16> = device::zeros(height * width)?;
    let bar = Progress::over("reading", (height * width) as f64, frames as u64);
    for index in 0..frames {
        bar.set(index as u64);
        stack.read_frame(index, &mut frame)?;
        sums.iter_mut().zip(&frame).for_each(|(sum, pixel)| *sum += f64::from(*pixel));
    }
    let values = sums / frames.max(1) as f64;
    drop(bar);
    let mean = maps::Drawn { title: "Mean", unit: "counts", values, axes: Axes::Pixels };
    maps::maps(output, &[mean], &[], None)
}
