//! Images of molecules that diffuse while a beam scans them.
//!
//! Molecules and focus are as in [`Diffusion`]; lengths are in units of the focus's radius. The beam stands for a dwell time
//! in the middle of every pixel of a row, and begins the next row a line time later. The correlation of a frame with itself
//! shifted is the model of `corrust::images::Rics`.

use std::path::Path;

use corrust_host::{Error, Result, partial::PartialFile};
use rand::{RngExt, rngs::ChaCha8Rng};
use rand_distr::{Exp1, StandardNormal};
use rayon::prelude::*;
use serde::Serialize;

use super::{
    diffusion::{DARK, Diffusion, FAR},
    random,
};
use crate::formats::{
    description,
    npy::{Dtype, Writer},
};

/// Room around the scanned field, in units of the focus.
const MARGIN: f64 = 8.0;
/// Pixels of a stack, and molecules in the box, at most.
const MOST: f64 = (1_u64 << 36) as f64;
const MOST_MOLECULES: f64 = 1e6;

/// A scanned field of molecules.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scan {
    /// Molecules and focus; its detectors and its duration are not used.
    #[serde(flatten)]
    pub diffusion: Diffusion,
    /// Rows of a frame.
    pub rows: usize,
    /// Columns of a frame.
    pub columns: usize,
    /// Number of frames.
    pub frames: usize,
    /// Side of a pixel, in units of the focus's radius.
    pub pixel: f64,
    /// Seconds from a pixel to the next of its row.
    pub dwell: f64,
    /// Seconds from a row to the next.
    pub line: f64,
}

/// A molecule on its way.
struct Molecule {
    place: [f64; 3],
    random: ChaCha8Rng,
    /// Photons' worth of light until the next one.
    until: f64,
}

impl Scan {
    /// Checks that it can be simulated.
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`Diffusion::check`], for a frame without pixels, more pixels or molecules than can be made,
    /// times or sides that are not above 0, and a line time shorter than its pixels take.
    pub fn check(&self) -> Result<()> {
        let Self { rows, columns, frames, pixel, dwell, line, .. } = *self;
        self.diffusion.check()?;
        let all = rows as f64 * columns as f64 * frames as f64;
        if !(1.0..=MOST).contains(&all) || rows.saturating_mul(columns) > 1 << 26 {
            return Err(Error::invalid(format!(
                "{frames} frames of {rows} x {columns} pixels: expected 1 or more of each, and at most {} pixels a frame and \
                 {MOST} in all",
                1 << 26
            )));
        }
        for (what, value) in [("pixel", pixel), ("dwell time", dwell), ("line time", line)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::invalid(format!("{what} {value}: expected one above 0")));
            }
        }
        if line < columns as f64 * dwell {
            return Err(Error::invalid(format!(
                "a line time of {line:e} s for {columns} pixels of {dwell:e} s: expected as long or longer"
            )));
        }
        let number = self.number();
        if !(1.0..=MOST_MOLECULES).contains(&number) {
            return Err(Error::invalid(format!(
                "{number} molecules around the scanned field: expected 1 to {MOST_MOLECULES}"
            )));
        }
        Ok(())
    }

    /// Sides of the box: across columns, rows, and along the axis.
    fn sides(&self) -> [f64; 3] {
        let along = |pixels: usize| pixels as f64 * self.pixel + MARGIN;
        [along(self.columns), along(self.rows), self.diffusion.depth()]
    }

    /// Molecules in the box.
    fn number(&self) -> f64 {
        let [x, y, z] = self.sides();
        let room = x * y * if self.diffusion.axial_ratio.is_some() { z } else { 1.0 };
        (self.diffusion.molecules * room / self.diffusion.volume()).round()
    }

    /// Makes the frames one after the other, counts `[row][column]`; any number of threads make the same.
    ///
    /// # Errors
    /// As for [`check`](Self::check); errors of `take`, which end it.
    pub fn frames(&self, mut take: impl FnMut(&[u16]) -> Result<()>) -> Result<()> {
        self.check()?;
        let sides = self.sides();
        let number = self.number() as u64;
        let start = |number| {
            let mut random = random(self.diffusion.seed, number);
            let place = sides.map(|side| (random.random::<f64>() - 0.5) * side);
            let until = random.sample(Exp1);
            Molecule { place, random, until }
        };
        let mut molecules: Vec<Molecule> = (0..number).map(start).collect();
        // Light that does not come from molecules is a molecule that lights every pixel alike.
        let mut background = start(u64::MAX);
        let pixels = self.rows * self.columns;
        for _ in 0..self.frames {
            let empty = || vec![0_u16; pixels];
            let add = |mut all: Vec<u16>, frame: Vec<u16>| {
                all.iter_mut().zip(frame).for_each(|(sum, count)| *sum = sum.saturating_add(count));
                all
            };
            let seen = molecules.par_iter_mut().fold(empty, |mut frame, molecule| {
                molecule.cross(self, sides, &mut frame);
                frame
            });
            let mut frame = seen.reduce(empty, add);
            let light = self.diffusion.background * self.dwell;
            frame
                .iter_mut()
                .for_each(|count| *count = count.saturating_add(background.photons(light)));
            take(&frame)?;
        }
        Ok(())
    }

    /// Writes the frames to a NumPy file, uint16 `[frame][row][column]`, and a description beside it, in JSON.
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`check`](Self::check); [`Error::Io`] when a file cannot be written; what `progress`, which is
    /// told the frames that are done, returns.
    pub fn write(&self, path: &Path, mut progress: impl FnMut(u64) -> Result<()>) -> Result<()> {
        self.check()?;
        let beside = description(path)?;
        let mut writer = Writer::appending(path, Dtype::Uint16, &[self.rows, self.columns])?;
        let mut done = 0;
        self.frames(|frame| {
            let bytes = frame.iter().flat_map(|count| count.to_le_bytes());
            writer.append(&bytes.collect::<Vec<_>>())?;
            done += 1;
            progress(done)
        })?;
        writer.finish()?;
        if let Some(beside) = beside {
            #[derive(Serialize)]
            struct Description<'a> {
                scan: &'a Scan,
            }
            PartialFile::write_json(&beside, &Description { scan: self })?;
        }
        Ok(())
    }
}

impl Molecule {
    /// Advances by a frame, and adds its photons.
    fn cross(&mut self, scan: &Scan, sides: [f64; 3], frame: &mut [u16]) {
        let ratio = scan.diffusion.axial_ratio.unwrap_or(1.0);
        // Variance along an axis after a time: 2 D t = w^2 t / (2 tau_D).
        let sigma = |seconds: f64| (seconds / (2.0 * scan.diffusion.diffusion_time)).sqrt();
        let seen = scan.columns as f64 * scan.dwell;
        let (of_pixel, of_line, rest) =
            (sigma(scan.dwell), sigma(scan.line), sigma(scan.line - seen));
        // Out of the light for as long as the beam is in a row.
        let far = FAR * sigma(seen);
        let middle =
            |index: usize, count: usize| (index as f64 + 0.5 - count as f64 / 2.0) * scan.pixel;
        for (row, counts) in frame.chunks_exact_mut(scan.columns).enumerate() {
            let y = middle(row, scan.rows);
            let [_, down, depth] = self.place;
            if (down - y).abs() > DARK + far || depth.abs() > DARK * ratio + far {
                self.move_by(of_line, sides);
                continue;
            }
            for (column, count) in counts.iter_mut().enumerate() {
                let [across, down] =
                    [self.place[0] - middle(column, scan.columns), self.place[1] - y];
                let depth = self.place[2] / ratio;
                let distance = across * across + down * down + depth * depth;
                if distance < DARK * DARK {
                    let light = scan.diffusion.brightness * scan.dwell * (-2.0 * distance).exp();
                    *count = count.saturating_add(self.photons(light));
                }
                self.move_by(of_pixel, sides);
            }
            self.move_by(rest, sides);
        }
    }

    /// Photons of so much light.
    fn photons(&mut self, light: f64) -> u16 {
        self.until -= light;
        let mut count = 0_u16;
        while self.until <= 0.0 {
            count = count.saturating_add(1);
            self.until += self.random.sample::<f64, _>(Exp1);
        }
        count
    }

    /// Moves at random; what leaves the box on one side enters on the other.
    fn move_by(&mut self, sigma: f64, sides: [f64; 3]) {
        for (place, side) in self.place.iter_mut().zip(sides).filter(|(_, side)| *side > 0.0) {
            let normal: f64 = self.random.sample(StandardNormal);
            *place += sigma * normal;
            *place -= side * (*place / side).round();
        }
    }
}
