//! Correlation between places: the pair correlation function along the lines of a scan.
//!
//! `g(tau) = <F(x, t) F(x + d, t + tau)> / (<F(x)> <F(x + d)>)` of every pixel `x` and the one `d` columns on says how long
//! molecules take from the one to the other, and where something bars their way (Digman and Gratton, Biophys. J. 97, 665,
//! 2009). Pixels are sensors of a multi-tau correlation, frames or lines its instants: exact sums, on any device.

use corrust_host::{
    Autocorrelator, Devices, Error, Result,
    autocorrelate::{Blocks, Shape},
};
use ndarray::Array4;

use super::{check, pixels};

/// Rows of a correlation, at most.
const MOST_ROWS: usize = 1 << 20;

/// Lags of a group that a stack of any length may have.
const FEW_LAGS: usize = 64;

/// Sums of a stack of frames, taken in one by one.
pub struct PairCorrelation {
    plan: Autocorrelator,
    blocks: Blocks,
    height: usize,
    width: usize,
    /// Columns from a pixel to its partner.
    distance: isize,
    /// Whether the rows of a frame are scans of one line.
    lines: bool,
}

impl PairCorrelation {
    /// Starts without frames, of which at most `frames` come, of `height` rows and `width` columns. With `lines`, the rows
    /// of each frame are scans of one line, one after the other, otherwise frames are. `distance` columns lie between a pixel
    /// and its partner, to the right of it, or, below 0, to the left; 0 correlates pixels with themselves. Lags come in
    /// `groups` groups of `lags` each, in frames or lines.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a distance that no two pixels have, more than a million pairs, more lags in a group than 64 and
    /// than frames or lines, and groups or lags that cannot be computed; the device's own.
    pub fn new(
        [frames, height, width]: [usize; 3],
        distance: isize,
        lines: bool,
        [groups, lags]: [usize; 2],
        devices: Devices,
    ) -> Result<Self> {
        let pixels = pixels(height, width)?;
        if distance.unsigned_abs() >= width {
            return Err(Error::invalid(format!(
                "a distance of {distance} columns in {width}: expected less than there are"
            )));
        }
        let (sensors, instants, what) = match lines {
            true => (width, frames.saturating_mul(height), "lines"),
            false => (pixels, frames, "frames"),
        };
        if lags > instants.max(FEW_LAGS) {
            return Err(Error::invalid(format!(
                "{lags} lags in a group of {instants} {what}: expected at most {}",
                instants.max(FEW_LAGS)
            )));
        }
        let pairs: Vec<_> = (0..sensors)
            .filter_map(|pixel| {
                let column =
                    (pixel % width).checked_add_signed(distance).filter(|&it| it < width)?;
                // The partner's photons come later: the pixel's are delayed.
                Some((pixel / width * width + column, pixel))
            })
            .collect();
        if pairs.len() > MOST_ROWS {
            let reason = format!("{} pairs of pixels: expected at most {MOST_ROWS}", pairs.len());
            return Err(Error::invalid(reason));
        }
        let plan = Autocorrelator::builder(sensors)
            .groups(groups)
            .lags(lags)
            .pairs(&pairs)
            .device(devices)
            .build()?;
        Ok(Self { plan, blocks: Blocks::default(), height, width, distance, lines })
    }

    /// Adds a frame, `[row][column]`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a frame of another size; the device's own.
    pub fn add(&mut self, frame: &[u16]) -> Result<()> {
        check(frame, self.height * self.width)?;
        self.plan.accumulate(frame)
    }

    /// Ends a block of frames; standard errors come from blocks that are equally long.
    ///
    /// # Errors
    /// [`Error::Invalid`] without a frame since the last one.
    pub fn end_block(&mut self) -> Result<()> {
        let sums = self.plan.snapshot()?;
        self.blocks.add(&sums)
    }

    /// Groups and lags.
    pub fn shape(&self) -> &Shape {
        self.plan.shape()
    }

    /// The correlation, `[row][column][point][lag, g, standard error]`: lags in frames or lines, and NaN where a pixel has no
    /// partner or no photons, or there are less than two blocks. Of scans of one line there is one row.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a sum is beyond 64 bits; the device's own.
    pub fn curves(&mut self) -> Result<Array4<f64>> {
        let sums = self.plan.snapshot()?;
        let errors = (self.blocks.len() > 1).then(|| self.blocks.errors());
        let rows = if self.lines { 1 } else { self.height };
        let mut curves = Array4::from_elem((rows, self.width, sums.points.len(), 3), f64::NAN);
        for (point, at) in sums.points.iter().enumerate() {
            curves.slice_mut(ndarray::s![.., .., point, 0]).fill(at.lag as f64);
        }
        let there = (0..rows * self.width).filter(|pixel| {
            let column = (pixel % self.width).checked_add_signed(self.distance);
            column.is_some_and(|column| column < self.width)
        });
        for (pair, pixel) in there.enumerate() {
            for point in 0..sums.points.len() {
                let at = |what| [pixel / self.width, pixel % self.width, point, what];
                curves[at(1)] = sums.g(pair, point).unwrap_or(f64::NAN);
                if let Some(errors) = &errors {
                    curves[at(2)] = errors.rows[[pair, point]];
                }
            }
        }
        Ok(curves)
    }
}
