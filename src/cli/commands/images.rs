//! `corrust images`.

use std::{ops::Range, path::PathBuf};

use corrust::{
    Devices, Error, Result,
    format::{
        PartialFile,
        npy::{Dtype, Reader, Writer},
    },
    images::{
        Blocks, Brightness, Detector, Fitted, MOST_PIXELS, Map, PairCorrelation, Rics, Spatial,
        Stack, TwoTime,
    },
};
use ndarray::{Array2, Array3, Array4, s};
use serde_json::{Value, json};

use crate::cli::options::run_files::{Existing, RunFiles, all, input, output};
use crate::cli::options::units::{Micrometres, Seconds};
use crate::cli::pictures::maps::{self, Axes, Drawn, Profile};
use crate::cli::pictures::plot;
use crate::cli::terminal::numbers::{count, digits, uncertain};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::{say, warn};

/// Bytes of the counts that are read at once for two-time correlations.
const AT_ONCE: usize = 256 << 20;
/// Parts of the frames, by whose scatter a fit knows its errors.
const PARTS: usize = 10;

/// Correlate stacks of images: brightness, RICS, XPCS
///
/// Number and brightness, spatial and pair correlation, two-time correlation.
///
/// A stack is [frame][row][column] of uint8 or uint16: NumPy, HDF5, or TIFF with an image for each frame. Sums are exact integers.
/// Every result is asked for by the file that it goes to.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[group(id = "results", required = true, multiple = true,
        args = ["brightness", "spatial", "rics", "pair_correlation", "two_time", "g2", "plot"])]
pub struct Args {
    /// Stack of images
    #[arg(value_name = "STACK", value_parser = input())]
    stack: PathBuf,
    /// Name of the frames in an HDF5 file
    #[arg(long, value_name = "NAME", default_value = "data", hide_short_help = true)]
    dataset: String,
    /// Frames to take, as 100..500 [default: all]
    #[arg(long, value_name = "FIRST..END", value_parser = frames)]
    frames: Option<Range<usize>>,
    /// NumPy file for maps, float64 [row][column][mean, variance, number, brightness]
    #[arg(long, value_name = "MAPS.npy", value_parser = output())]
    brightness: Option<PathBuf>,
    /// Detector counts of one photon
    #[arg(long, value_name = "COUNTS", default_value_t = 1.0, hide_short_help = true)]
    gain: f64,
    /// Detector counts without light
    #[arg(long, value_name = "COUNTS", default_value_t = 0.0, hide_short_help = true)]
    dark: f64,
    /// Variance of the detector counts without light
    #[arg(long, value_name = "COUNTS", default_value_t = 0.0, hide_short_help = true)]
    dark_variance: f64,
    /// NumPy file for the spatial correlation, float64 [2][2 R + 1][2 C + 1]: values, standard errors
    #[arg(long, value_name = "G.npy", value_parser = output())]
    spatial: Option<PathBuf>,
    /// Largest lags of the spatial correlation, in rows and columns, as 16,32
    #[arg(long, value_name = "R,C", default_value = "16,32", value_parser = pair, hide_short_help = true)]
    lags: (usize, usize),
    /// Frames whose mean is subtracted from each pixel before correlating; 1: the mean of each whole frame is subtracted
    ///
    /// With 2 or more, structures that do not move drop out. Frames of a last window that is not full are left out.
    #[arg(long, value_name = "FRAMES", default_value_t = 1, hide_short_help = true)]
    window: usize,
    /// JSON file for a fit of diffusion to the spatial correlation (RICS)
    #[arg(long, value_name = "FIT.json", value_parser = output(),
          requires_all = ["pixel", "dwell", "line_time", "waist"])]
    rics: Option<PathBuf>,
    /// Side of a pixel, as 50nm
    #[arg(long, value_name = "LENGTH")]
    pixel: Option<Micrometres>,
    /// Time from a pixel to the next of its row, as 10us
    #[arg(long, value_name = "TIME")]
    dwell: Option<Seconds>,
    /// Time from a row to the next, as 5ms
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    line_time: Option<Seconds>,
    /// Radius of the focus (1/e^2), as 0.25um
    #[arg(long, value_name = "LENGTH")]
    waist: Option<Micrometres>,
    /// Length of the focus by its radius
    #[arg(
        long,
        value_name = "RATIO",
        default_value_t = 5.0,
        conflicts_with = "plane",
        hide_short_help = true
    )]
    kappa: f64,
    /// Fit diffusion in a plane, not in space
    #[arg(long, hide_short_help = true)]
    plane: bool,
    /// Hold the value at large lags at 0, though the subtracted mean lowers it
    #[arg(long, hide_short_help = true)]
    no_offset: bool,
    /// NumPy file for the pair correlation along rows, float64 [row][column][point][lag, g, standard error]: of every pixel
    /// with the one --distance columns on, that many frames later
    #[arg(long, value_name = "P.npy", value_parser = output(), requires = "distance")]
    pair_correlation: Option<PathBuf>,
    /// Columns from a pixel to its partner, to the left if below 0
    #[arg(
        long,
        value_name = "COLUMNS",
        requires = "pair_correlation",
        allow_negative_numbers = true,
        hide_short_help = true
    )]
    distance: Option<isize>,
    /// Take the rows of every frame as scans of one line, one after the other: lags of the pair correlation are then lines
    #[arg(long, requires = "pair_correlation", hide_short_help = true)]
    lines: bool,
    /// Groups of lags of the pair correlation, each twice as far apart as the one before, and lags of a group
    #[arg(long, value_name = "G,S", default_value = "6,8", value_parser = pair, requires = "pair_correlation", hide_short_help = true)]
    multi_tau: (usize, usize),
    /// NumPy file for two-time correlations, float64 [group][frame][frame]
    #[arg(long, value_name = "C.npy", value_parser = output())]
    two_time: Option<PathBuf>,
    /// NumPy file for their means at a lag, float64 [group][lag]: g2 where nothing ages
    #[arg(long, value_name = "G2.npy", value_parser = output())]
    g2: Option<PathBuf>,
    /// NumPy file of the groups of pixels (q-bins), uint8 or uint16 [row][column]: 1 to the number of groups, 0 for none
    /// [default: one group of all pixels]
    #[arg(long, value_name = "MASK.npy", value_parser = input(), hide_short_help = true)]
    mask: Option<PathBuf>,
    /// Device of pair and two-time correlations: auto (the first GPU, else the CPU), cuda, cpu or sim
    #[arg(long, default_value_t, help_heading = "Device")]
    device: Devices,
    /// Draw maps of mean, number and brightness, and the spatial correlation if there is one, to a file in .svg or .png
    #[arg(long, value_name = "FILE", value_parser = output())]
    plot: Option<PathBuf>,
    #[command(flatten)]
    existing: Existing,
}

const EXAMPLES: &str = "\
Examples:
  corrust images cells.tif --brightness maps.npy --plot maps.svg
  corrust images scan.tif --window 10 --spatial g.npy --rics fit.json --pixel 50nm --dwell 10us --line-time 5ms --waist 0.25um
  corrust images lines.tif --pair-correlation p.npy --distance 6 --lines --plot p.svg
  corrust images speckle.h5 --dataset entry/data --mask q.npy --two-time c.npy --g2 g2.npy";

/// Reads a range of frames.
fn frames(text: &str) -> Result<Range<usize>, &'static str> {
    let ends = text.split_once("..").map(|(first, end)| (first.trim().parse(), end.trim().parse()));
    match ends {
        Some((Ok(first), Ok(end))) if first < end => Ok(first..end),
        _ => Err("expected the first frame and the one after the last, as 100..500"),
    }
}

/// Reads two numbers.
fn pair(text: &str) -> Result<(usize, usize), &'static str> {
    let parts =
        text.split_once(',').map(|(rows, columns)| (rows.trim().parse(), columns.trim().parse()));
    match parts {
        Some((Ok(rows), Ok(columns))) => Ok((rows, columns)),
        _ => Err("expected rows and columns, as 16,32"),
    }
}

/// Sums over frames.
struct Sums {
    brightness: Option<Brightness>,
    spatial: Option<Spatial>,
    pairs: Option<PairCorrelation>,
}

impl Args {
    /// Correlates the stack.
    pub fn run(self) -> Result<()> {
        let files = RunFiles::default().reads([&self.stack]).reads(&self.mask);
        let files = files.writes_as(&self.brightness, &["npy"]).writes_as(&self.spatial, &["npy"]);
        let files = files.writes_as(&self.rics, &["json"]).writes_as(&self.two_time, &["npy"]);
        let files = files.writes_as(&self.pair_correlation, &["npy"]);
        let files = files.writes_as(&self.g2, &["npy"]).writes_as(&self.plot, plot::ENDINGS);
        files.check(self.existing)?;
        let detector =
            Detector { gain: self.gain, offset: self.dark, variance: self.dark_variance };
        detector.check()?;
        let mut stack = Stack::open(&self.stack, &self.dataset)?;
        let (height, width) = (stack.height(), stack.width());
        let frames = self.frames.clone().unwrap_or(0..stack.frames());
        if frames.end > stack.frames() {
            let reason = format!("--frames {frames:?}: expected at most {}", stack.frames());
            return Err(Error::file(&self.stack, reason));
        }
        let two_times = self.two_time.is_some() || self.g2.is_some();
        if self.mask.is_some() && !two_times {
            return Err(Error::invalid("--mask without --two-time or --g2: expected one of them"));
        }
        let mut sums = self.sums([frames.len(), height, width])?;
        let two_time = match two_times {
            true => {
                Some(TwoTime::new(frames.len(), &self.groups(height, width)?, self.device.clone())?)
            }
            false => None,
        };
        let parts = self.add_frames(&mut stack, &frames, &mut sums)?;
        let two_time =
            two_time.map(|plan| self.add_pixels(&mut stack, &frames, plan)).transpose()?;
        say(format_args!(
            "{} of {height} x {width} pixels, {}",
            count(frames.len(), "frame"),
            stack.format()
        ));
        let Sums { brightness, spatial, pairs } = sums;
        let maps = brightness.map(|sums| sums.maps(&detector)).transpose()?;
        let pairs = pairs.map(|mut pairs| pairs.curves()).transpose()?;
        let (map, fitted) = match &spatial {
            Some(_) => self.correlation(&parts, frames.len())?,
            None => (None, None),
        };
        if let (Some(maps), Some(_)) = (&maps, &self.brightness) {
            let mean = |quantity| {
                let finite = maps.slice(s![.., .., quantity]);
                let finite: Vec<f64> =
                    finite.iter().copied().filter(|value| value.is_finite()).collect();
                finite.iter().sum::<f64>() / finite.len() as f64
            };
            say(format_args!(
                "  mean of {} counts a pixel, brightness {}",
                digits(mean(0)),
                digits(mean(3))
            ));
        }
        all([
            self.write_maps(maps.as_ref()),
            self.write_spatial(map.as_ref()),
            self.write_fit(fitted.as_ref()),
            self.write_pairs(pairs.as_ref()),
            two_time.map_or(Ok(()), |mut plan| self.write_two_time(&mut plan)),
            self.draw(maps.as_ref(), map.as_ref(), fitted.as_ref(), pairs.as_ref()),
        ])
    }

    /// Sums that outputs need, of a number of frames of `height` x `width` pixels.
    fn sums(&self, shape @ [_, height, width]: [usize; 3]) -> Result<Sums> {
        let brightness = (self.brightness.is_some() || self.plot.is_some())
            .then(|| Brightness::new(height, width));
        let spatial = (self.spatial.is_some() || self.rics.is_some())
            .then(|| Spatial::new(height, width, self.lags, self.window));
        let pairs = self.distance.filter(|_| self.pair_correlation.is_some()).map(|distance| {
            let lags = [self.multi_tau.0, self.multi_tau.1];
            PairCorrelation::new(shape, distance, self.lines, lags, self.device.clone())
        });
        Ok(Sums {
            brightness: brightness.transpose()?,
            spatial: spatial.transpose()?,
            pairs: pairs.transpose()?,
        })
    }

    /// Adds frames to sums, one after the other, and returns those of parts for the spatial correlation.
    fn add_frames(
        &self,
        stack: &mut Stack,
        frames: &Range<usize>,
        Sums { brightness, spatial, pairs }: &mut Sums,
    ) -> Result<Vec<Blocks>> {
        let mut parts: Vec<Blocks> = Vec::new();
        if brightness.is_none() && spatial.is_none() && pairs.is_none() {
            return Ok(parts);
        }
        let pixels = stack.height() * stack.width();
        let bar = Progress::over("reading", pixels as f64, frames.len() as u64);
        let mut frame: Vec<u16> = corrust::device::zeros(pixels)?;
        // Parts of whole windows, by whose scatter a fit knows its errors.
        let part = (frames.len() / self.window.max(1)).div_ceil(PARTS).max(1) * self.window.max(1);
        for (place, number) in frames.clone().enumerate() {
            stack.read_frame(number, &mut frame)?;
            brightness.as_mut().map_or(Ok(()), |maps| maps.add(&frame))?;
            if let Some(pairs) = pairs {
                pairs.add(&frame)?;
                let block = frames.len().div_ceil(PARTS);
                if (place + 1) % block == 0 {
                    pairs.end_block()?;
                }
            }
            if let Some(spatial) = spatial {
                spatial.add(&frame)?;
                if (place + 1) % part == 0 || place + 1 == frames.len() {
                    parts.push(spatial.take_blocks()?);
                }
            }
            bar.set(place as u64 + 1);
        }
        Ok(parts)
    }

    /// Adds all frames of some rows of pixels to two-time correlations, and of the rows after them.
    fn add_pixels(
        &self,
        stack: &mut Stack,
        frames: &Range<usize>,
        mut plan: TwoTime,
    ) -> Result<TwoTime> {
        let (height, width) = (stack.height(), stack.width());
        let rows = (AT_ONCE / (2 * frames.len() * width)).clamp(1, height);
        let bar = Progress::over("correlating", (frames.len() * width) as f64, height as u64);
        let mut counts: Vec<u16> = corrust::device::zeros(frames.len() * rows * width)?;
        for first in (0..height).step_by(rows) {
            let rows = first..height.min(first + rows);
            let counts = &mut counts[..frames.len() * rows.len() * width];
            let each = counts.chunks_exact_mut(rows.len() * width);
            frames
                .clone()
                .zip(each)
                .try_for_each(|(frame, part)| stack.read(frame, rows.clone(), part))?;
            let pixels = rows.start * width..rows.end * width;
            plan.add(pixels, counts)
                .map_err(|error| Error::file(&self.stack, error.to_string()))?;
            bar.set(rows.end as u64);
        }
        Ok(plan)
    }

    /// Groups of the mask's file, or one of all pixels.
    fn groups(&self, height: usize, width: usize) -> Result<Vec<u16>> {
        let Some(path) = &self.mask else { return Ok(vec![1; height * width]) };
        let mut reader = Reader::open(path)?;
        let wide = reader.dtype() == Some(Dtype::Uint16);
        reader.expect(if wide { Dtype::Uint16 } else { Dtype::Uint8 }, &["row", "column"])?;
        if reader.shape() != [height, width] {
            let reason = format!(
                "shape {:?}: expected {:?}, as frames have",
                reader.shape(),
                [height, width]
            );
            return Err(Error::file(path, reason));
        }
        debug_assert!(height * width <= MOST_PIXELS);
        let bytes = reader.read_all()?;
        Ok(match wide {
            true => {
                bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
            }
            false => bytes.into_iter().map(u16::from).collect(),
        })
    }

    /// The spatial correlation and its fit, with words about frames that were left out.
    fn correlation(
        &self,
        parts: &[Blocks],
        frames: usize,
    ) -> Result<(Option<Map>, Option<Fitted>)> {
        let fault = |error: Error| Error::file(&self.stack, error.to_string());
        let (map, fitted) = match (&self.rics, self.model()) {
            (Some(_), Some(model)) => {
                let (map, fitted) = model.fit_parts(parts).map_err(fault)?;
                (map, Some(fitted))
            }
            _ => {
                let (first, rest) = parts.split_first().expect("a stack has a frame");
                let mut all = first.clone();
                rest.iter().try_for_each(|part| all.join(part))?;
                (all.map().map_err(fault)?, None)
            }
        };
        if map.empty > 0 {
            warn(format_args!("{} without counts left out", count(map.empty, "window")));
        }
        if !frames.is_multiple_of(self.window) {
            let rest = count(frames % self.window, "frame");
            warn(format_args!("{rest} of a last window left out: --window {}", self.window));
        }
        fitted.iter().for_each(print);
        Ok((Some(map), fitted))
    }

    /// The model with the facts of the scan.
    fn model(&self) -> Option<Rics> {
        Some(Rics {
            pixel: self.pixel?.0,
            dwell: self.dwell?.0,
            line: self.line_time?.0,
            waist: self.waist?.0,
            kappa: (!self.plane).then_some(self.kappa),
            offset: !self.no_offset,
        })
    }

    fn write_maps(&self, maps: Option<&Array3<f64>>) -> Result<()> {
        let (Some(path), Some(maps)) = (&self.brightness, maps) else { return Ok(()) };
        write(path, maps.shape(), maps.iter())
    }

    fn write_spatial(&self, map: Option<&Map>) -> Result<()> {
        let (Some(path), Some(map)) = (&self.spatial, map) else { return Ok(()) };
        let (rows, columns) = map.values.dim();
        write(path, &[2, rows, columns], map.values.iter().chain(&map.errors))
    }

    fn write_pairs(&self, pairs: Option<&Array4<f64>>) -> Result<()> {
        let (Some(path), Some(pairs)) = (&self.pair_correlation, pairs) else { return Ok(()) };
        write(path, pairs.shape(), pairs.iter())
    }

    fn write_fit(&self, fitted: Option<&Fitted>) -> Result<()> {
        let (Some(path), Some(fitted)) = (&self.rics, fitted) else { return Ok(()) };
        let known = |value: f64| if value.is_finite() { json!(value) } else { Value::Null };
        let parameter = |[value, error]: [f64; 2], unit: &str| json!({ "value": value, "uncertainty": known(error), "unit": unit });
        let model = self.model().expect("clap asks for the facts of the scan");
        let facts = json!({
            "file": self.stack.display().to_string(),
            "model": if self.plane { "2d" } else { "3d" },
            "pixel_um": model.pixel, "dwell_s": model.dwell, "line_s": model.line, "waist_um": model.waist,
            "kappa": model.kappa, "window": self.window,
            "n": parameter(fitted.n, ""),
            "D": parameter(fitted.diffusion, "um^2/s"),
            "offset": parameter(fitted.offset, ""),
            "chi2": fitted.chi2, "degrees": fitted.degrees, "weighted": fitted.weighted, "parts": fitted.parts,
        });
        let mut text = serde_json::to_vec_pretty(&facts).expect("numbers and text");
        text.push(b'\n');
        let mut file = PartialFile::create(path)?;
        file.append(&text)?;
        file.finish()
    }

    fn write_two_time(&self, plan: &mut TwoTime) -> Result<()> {
        let sums = plan.sums()?;
        let (groups, frames) = sums.counts.dim();
        let write_maps = |path: &PathBuf| {
            let mut writer = Writer::appending(path, Dtype::Float64, &[frames, frames])?;
            for group in 0..groups {
                let map = sums.map(group)?;
                writer.append(bytemuck::cast_slice(map.as_slice().expect("a fresh array")))?;
            }
            writer.finish()
        };
        let write_g2 = |path: &PathBuf| {
            let g2: Array2<f64> = sums.g2();
            write(path, g2.shape(), g2.iter())
        };
        say(format_args!(
            "  {} of pixels, {frames} x {frames} frames each",
            count(groups, "group")
        ));
        all([
            self.two_time.as_ref().map_or(Ok(()), write_maps),
            self.g2.as_ref().map_or(Ok(()), write_g2),
        ])
    }

    fn draw(
        &self,
        maps: Option<&Array3<f64>>,
        map: Option<&Map>,
        fitted: Option<&Fitted>,
        pairs: Option<&Array4<f64>>,
    ) -> Result<()> {
        let (Some(path), Some(maps)) = (&self.plot, maps) else { return Ok(()) };
        let of = |quantity| maps.slice(s![.., .., quantity]).to_owned();
        let mut drawn = vec![
            Drawn { title: "Mean", unit: "counts", values: of(0), axes: Axes::Pixels },
            Drawn { title: "Number", unit: "molecules", values: of(2), axes: Axes::Pixels },
            Drawn { title: "Brightness", unit: "photons", values: of(3), axes: Axes::Pixels },
        ];
        let mut profiles = Vec::new();
        if let Some(map) = map {
            let mut values = map.values.clone();
            // The light's own noise at lag 0 would hide the rest.
            let (rows, columns) = (values.nrows() / 2, values.ncols() / 2);
            values[[rows, columns]] = f64::NAN;
            drawn.push(Drawn { title: "Spatial correlation", unit: "G", values, axes: Axes::Lags });
            if let (Some(model), Some(fitted)) = (self.model(), fitted) {
                let size = map.values.dim();
                let values = Array2::from_shape_fn(size, |(row, column)| {
                    let lag = (row as f64 - rows as f64, column as f64 - columns as f64);
                    fitted.offset[0] + model.g(lag.0, lag.1, fitted.n[0], fitted.diffusion[0])
                });
                drawn.push(Drawn { title: "Fit", unit: "G", values, axes: Axes::Lags });
                profiles = self.profiles(map, &model, fitted);
            }
        }
        if let Some(pairs) = pairs {
            // The first row's, lags downwards; lag 0 has the light's own noise where pixels are their own partners.
            let values = pairs.slice(s![0, .., 1.., 1]).t().mapv(|g| g - 1.0);
            // Lags as long as the stack have no pairs.
            let is_known = |row: ndarray::ArrayView1<'_, f64>| row.iter().any(|g| g.is_finite());
            let known = values.rows().into_iter().rposition(is_known).map_or(1, |last| last + 1);
            let values = values.slice_move(s![..known, ..]);
            let lags = pairs.slice(s![0, 0, 1..=known, 0]).to_vec();
            let axes = Axes::Times(lags, if self.lines { "lag (lines)" } else { "lag (frames)" });
            drawn.push(Drawn { title: "Pair correlation", unit: "g - 1", values, axes });
        }
        maps::maps(path, &drawn, &profiles, self.pixel.map(|pixel| pixel.0))
    }

    /// The correlation and its fit along the scan's rows and across them.
    fn profiles(&self, map: &Map, model: &Rics, fitted: &Fitted) -> Vec<Profile> {
        const STEPS: i32 = 200;
        let (rows, columns) = (map.values.nrows() / 2, map.values.ncols() / 2);
        let profile = |name, centre: usize, count: usize, along: bool| {
            let place = |index: usize| if along { [rows, index] } else { [index, columns] };
            let lag = |index: usize| index as f64 - centre as f64;
            // The light's own noise is at lag 0.
            let points = (0..count).filter(|&index| index != centre);
            let points = points
                .map(|index| [lag(index), map.values[place(index)], map.errors[place(index)]]);
            let points = points.filter(|[_, value, _]| value.is_finite());
            let (first, last) = (lag(0), lag(count - 1));
            let model = (0..=STEPS).map(|step| {
                let lag = first + (last - first) * f64::from(step) / f64::from(STEPS);
                let (y, x) = if along { (0.0, lag) } else { (lag, 0.0) };
                (lag, fitted.offset[0] + model.g(y, x, fitted.n[0], fitted.diffusion[0]))
            });
            Profile { name, points: points.collect(), model: model.collect() }
        };
        vec![
            profile("along x", columns, map.values.ncols(), true),
            profile("along y", rows, map.values.nrows(), false),
        ]
    }
}

/// Prints the values of a fit.
fn print(fitted: &Fitted) {
    if fitted.parts == 0 {
        warn(
            "less than three windows: the uncertainties take lags as independent, and are too small",
        );
    }
    for (name, [value, error], unit) in
        [("n", fitted.n, ""), ("D", fitted.diffusion, "um^2/s"), ("offset", fitted.offset, "")]
    {
        if !error.is_nan() {
            say(format_args!("  {name:<7}{}", uncertain(value, error, unit)));
        }
    }
    let reduced = fitted.chi2 / fitted.degrees as f64;
    say(format_args!("  reduced chi2 {reduced:.3}, {} degrees of freedom", fitted.degrees));
}

/// Writes numbers of such a shape.
fn write<'a>(path: &PathBuf, shape: &[usize], values: impl Iterator<Item = &'a f64>) -> Result<()> {
    let mut writer = Writer::with_shape(path, Dtype::Float64, shape)?;
    let values: Vec<f64> = values.copied().collect();
    writer.write_at(0, bytemuck::cast_slice(&values))?;
    writer.finish()
}
