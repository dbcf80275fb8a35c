//! Spatial correlation of frames.

use corrust_host::{Error, Result, device};
use ndarray::Array2;
use rayon::prelude::*;

use super::{check, pixels};

/// Lags of a map, at most.
const MOST_LAGS: usize = 1 << 22;

/// Correlation of frames with themselves, shifted by some rows and columns.
///
/// Of the pairs of pixels `p` and `q` that lie a lag apart within the frame, and blocks of `W` frames:
///
/// - `W = 1`: `G = <(I(p) - m) (I(q) - m)> / m^2` with the mean `m` of the whole frame, the same at all lags, so that what it
///   takes from `G` is alike at all lags;
/// - `W > 1`: `G = <sum over the frames of (I(p) - m(p)) (I(q) - m(q)) / (W - 1)> / (<m(p)> <m(q)>)` with the mean `m` of each
///   pixel over the block, so that structures that do not move drop out.
///
/// The result is the mean over blocks, with its standard error. Sums are exact integers; frames of a last block that is not full
/// are left out, and blocks without counts.
#[derive(Clone, Debug)]
pub struct Spatial {
    height: usize,
    width: usize,
    /// Largest lags, in rows and columns.
    largest: (usize, usize),
    block: usize,
    /// Frames of the present block.
    frames: usize,
    /// Sums of the present block's frames, by pixel.
    sums: Vec<u64>,
    /// Sums of products, by lag.
    products: Vec<u128>,
    done: Blocks,
}

/// Values of the blocks of some frames.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    largest: (usize, usize),
    /// Mean of the blocks' values, and sum of squared differences from it, by lag.
    found: Vec<[f64; 2]>,
    blocks: u64,
    empty: u64,
}

/// A map of correlations.
#[derive(Clone, Debug)]
pub struct Map {
    /// Values, `[2 rows + 1][2 columns + 1]`: lag 0 in the middle, the same at a lag and its opposite.
    pub values: Array2<f64>,
    /// Standard errors of the values; NaN of fewer than two blocks.
    pub errors: Array2<f64>,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of blocks without counts, which were left out.
    pub empty: u64,
}

impl Spatial {
    /// Starts without frames: lags up to `largest` rows and columns either way, blocks of `block` frames.
    ///
    /// # Errors
    /// [`Error::Invalid`] for lags as large as the frame, more than 2^22 of them, or blocks of no frame; as
    /// [`Brightness::new`](super::Brightness::new).
    pub fn new(height: usize, width: usize, largest: (usize, usize), block: usize) -> Result<Self> {
        let pixels = pixels(height, width)?;
        let (rows, columns) = largest;
        if rows >= height || columns >= width {
            return Err(Error::invalid(format!(
                "lags up to {rows} rows and {columns} columns of frames of {height} x {width}: expected less than \
                 a frame"
            )));
        }
        // Half of the lags; the others are their opposites.
        let lags = columns + 1 + rows * (2 * columns + 1);
        if lags > MOST_LAGS {
            return Err(Error::invalid(format!("{lags} lags: expected at most {MOST_LAGS}")));
        }
        if !(1..=1 << 24).contains(&block) {
            return Err(Error::invalid(format!(
                "blocks of {block} frames: expected 1 to {}",
                1 << 24
            )));
        }
        Ok(Self {
            height,
            width,
            largest,
            block,
            frames: 0,
            sums: device::zeros(pixels)?,
            products: device::zeros(lags)?,
            done: Blocks { largest, found: device::zeros(lags)?, blocks: 0, empty: 0 },
        })
    }

    /// Adds a frame, `[row][column]`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a frame of another size.
    pub fn add(&mut self, frame: &[u16]) -> Result<()> {
        check(frame, self.sums.len())?;
        for (sum, &count) in self.sums.iter_mut().zip(frame) {
            *sum += u64::from(count);
        }
        let (width, lags) = (self.width, lags(self.largest));
        self.products.par_iter_mut().zip(lags).for_each(|(all, lag)| {
            let row = |p: &[u16], q: &[u16]| -> u128 {
                let product = |(&p, &q): (&u16, &u16)| u64::from(u32::from(p) * u32::from(q));
                p.iter().zip(q).map(product).sum::<u64>().into()
            };
            *all += over_pairs(frame, width, lag, row);
        });
        self.frames += 1;
        if self.frames == self.block {
            self.end_block();
        }
        Ok(())
    }

    /// The map of all full blocks.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none with counts.
    pub fn map(&self) -> Result<Map> {
        self.done.map()
    }

    /// Takes the full blocks away, so that others follow on their own.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn take_blocks(&mut self) -> Result<Blocks> {
        let found = device::zeros(self.done.found.len())?;
        let next = Blocks { largest: self.largest, found, blocks: 0, empty: 0 };
        Ok(std::mem::replace(&mut self.done, next))
    }

    /// Takes the present block's values, and starts another.
    fn end_block(&mut self) {
        let (height, width) = (self.height, self.width);
        if self.sums.iter().all(|&sum| sum == 0) {
            self.done.empty += 1;
        } else {
            let corners = corners(&self.sums, width);
            let (sums, frames) = (&self.sums, self.block as u128);
            let (pixels, total) = (sums.len() as i128, i128::from(sums.iter().sum::<u64>()));
            let lags = lags(self.largest);
            let values: Vec<f64> = lags
                .par_iter()
                .zip(&self.products)
                .map(|(&(row, column), &products)| {
                    let shifted = column.unsigned_abs();
                    let pairs = (height - row) * (width - shifted);
                    // First columns of p and of q, which lies `column` to its right.
                    let from = if column < 0 { shifted } else { 0 };
                    let to = (from as isize + column) as usize;
                    let wide = width - shifted;
                    let p = rectangle(&corners, width, [0, height - row], [from, from + wide]);
                    let q = rectangle(&corners, width, [row, height], [to, to + wide]);
                    if frames == 1 {
                        // The mean of the frame is total / pixels; differences from it, times pixels, are exact.
                        let level = pairs as i128 * total * total;
                        let linear = pixels * total * (i128::from(p) + i128::from(q));
                        let covariance = pixels * pixels * products as i128 - linear + level;
                        return covariance as f64 / level as f64;
                    }
                    let means = p as f64 * (q as f64 / pairs as f64);
                    let both = over_pairs(sums, width, (row, column), |p, q| {
                        p.iter().zip(q).map(|(&p, &q)| u128::from(p) * u128::from(q)).sum()
                    });
                    // The difference may be negative; it is exact.
                    let covariance = (frames * products) as i128 - both as i128;
                    let frames = frames as f64;
                    covariance as f64 * frames / ((frames - 1.0) * means)
                })
                .collect();
            self.done.blocks += 1;
            for ([mean, spread], value) in self.done.found.iter_mut().zip(values) {
                let before = value - *mean;
                *mean += before / self.done.blocks as f64;
                *spread += before * (value - *mean);
            }
        }
        self.frames = 0;
        self.sums.fill(0);
        self.products.fill(0);
    }
}

impl Blocks {
    /// Adds the blocks of other frames with as many lags.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another number of lags.
    pub fn join(&mut self, other: &Self) -> Result<()> {
        if self.largest != other.largest {
            return Err(Error::invalid(format!(
                "blocks with lags to {:?} and to {:?}: expected the same",
                self.largest, other.largest
            )));
        }
        let [own, more] = [self.blocks, other.blocks].map(|blocks| blocks as f64);
        let all = (own + more).max(1.0);
        for ([mean, spread], [other, further]) in self.found.iter_mut().zip(&other.found) {
            let before = other - *mean;
            *mean += before * more / all;
            *spread += further + before * before * own * more / all;
        }
        self.blocks += other.blocks;
        self.empty += other.empty;
        Ok(())
    }

    /// Number of blocks with counts.
    pub fn count(&self) -> u64 {
        self.blocks
    }

    /// The map of these blocks.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none with counts.
    pub fn map(&self) -> Result<Map> {
        if self.blocks == 0 {
            return Err(Error::invalid(
                "no full window of frames with counts to correlate: expected one or more",
            ));
        }
        let (rows, columns) = self.largest;
        let size = (2 * rows + 1, 2 * columns + 1);
        let [mut values, mut errors] = [(); 2].map(|()| Array2::zeros(size));
        let blocks = self.blocks as f64;
        for ((row, column), &[mean, spread]) in lags(self.largest).into_iter().zip(&self.found) {
            let error = match self.blocks {
                1 => f64::NAN,
                _ => (spread / (blocks * (blocks - 1.0))).sqrt(),
            };
            for sign in [1, -1] {
                let place = [
                    (rows as isize + sign * row as isize) as usize,
                    (columns as isize + sign * column) as usize,
                ];
                (values[place], errors[place]) = (mean, error);
            }
        }
        Ok(Map { values, errors, blocks: self.blocks, empty: self.empty })
    }
}

/// Half of the lags, whose others are their opposites: rows, and columns either way.
fn lags(largest: (usize, usize)) -> Vec<(usize, isize)> {
    let (rows, columns) = (largest.0, largest.1 as isize);
    let first = (0..=columns).map(|column| (0, column));
    let further = (1..=rows).flat_map(|row| (-columns..=columns).map(move |column| (row, column)));
    first.chain(further).collect()
}

/// Adds up `row` of the rows of `p` and of `q`, over the pairs of pixels a lag apart.
fn over_pairs<T: Copy>(
    pixels: &[T],
    width: usize,
    (down, right): (usize, isize),
    row: impl Fn(&[T], &[T]) -> u128,
) -> u128 {
    let shifted = right.unsigned_abs();
    let rows = pixels.chunks_exact(width);
    let pairs = rows.clone().zip(rows.skip(down));
    pairs
        .map(|(p, q)| match right < 0 {
            false => row(&p[..width - shifted], &q[shifted..]),
            true => row(&p[shifted..], &q[..width - shifted]),
        })
        .sum()
}

/// Sums of the pixels above and to the left of each corner, `[row][column]`, a row and a column more than the pixels have.
fn corners(pixels: &[u64], width: usize) -> Vec<u64> {
    let mut corners = vec![0; width + 1];
    for row in pixels.chunks_exact(width) {
        let above = corners.len() - width - 1;
        let mut sum = 0;
        corners.push(0);
        for (column, pixel) in row.iter().enumerate() {
            sum += pixel;
            corners.push(corners[above + column + 1] + sum);
        }
    }
    corners
}

/// Sum of the pixels of a rectangle of `rows` and `columns`, by their corners.
fn rectangle(corners: &[u64], width: usize, rows: [usize; 2], columns: [usize; 2]) -> u64 {
    let at = |row: usize, column: usize| corners[row * (width + 1) + column];
    at(rows[1], columns[1]) + at(rows[0], columns[0])
        - at(rows[0], columns[1])
        - at(rows[1], columns[0])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, in plain loops over the frames of one block.
    fn plain(frames: &[Vec<u16>], [height, width]: [usize; 2], [down, right]: [isize; 2]) -> f64 {
        let at =
            |frame: &[u16], y: isize, x: isize| f64::from(frame[y as usize * width + x as usize]);
        let mean =
            |y, x| frames.iter().map(|frame| at(frame, y, x)).sum::<f64>() / frames.len() as f64;
        let (mut products, mut first, mut second, mut pairs) = (0.0, 0.0, 0.0, 0.0);
        let whole = frames.iter().flatten().map(|&count| f64::from(count)).sum::<f64>()
            / (frames.len() * height * width) as f64;
        for y in 0..height as isize {
            for x in 0..width as isize {
                let (v, u) = (y + down, x + right);
                if !((0..height as isize).contains(&v) && (0..width as isize).contains(&u)) {
                    continue;
                }
                let both = frames.iter().map(|frame| match frames.len() {
                    1 => (at(frame, y, x) - whole) * (at(frame, v, u) - whole),
                    _ => (at(frame, y, x) - mean(y, x)) * (at(frame, v, u) - mean(v, u)),
                });
                products += both.sum::<f64>() / (frames.len() - 1).max(1) as f64;
                (first, second, pairs) = (first + mean(y, x), second + mean(v, u), pairs + 1.0);
            }
        }
        match frames.len() {
            1 => products / (pairs * whole * whole),
            _ => products * pairs / (first * second),
        }
    }

    proptest! {
        #[test]
        fn equals_the_definition(
            [height, width] in [2..7_usize, 2..9],
            block in 1..5_usize,
            blocks in 1..4_usize,
            seed in 1..u16::MAX,
        ) {
            let mut state = u32::from(seed);
            let mut count = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) as u16 % 200 + 1
            };
            let frames: Vec<Vec<u16>> =
                (0..block * blocks + block - 1).map(|_| (0..height * width).map(|_| count()).collect()).collect();
            let largest = (height - 1, width - 1);
            let mut spatial = Spatial::new(height, width, largest, block).unwrap();
            frames.iter().for_each(|frame| spatial.add(frame).unwrap());
            let map = spatial.map().unwrap();
            prop_assert_eq!(map.blocks, blocks as u64);
            // The same in two parts.
            let (first, second) = frames.split_at(blocks / 2 * block);
            let mut joined = Blocks { largest, found: vec![[0.0; 2]; spatial.done.found.len()], blocks: 0, empty: 0 };
            let mut parts = Spatial::new(height, width, largest, block).unwrap();
            for part in [first, second] {
                part.iter().for_each(|frame| parts.add(frame).unwrap());
                joined.join(&parts.take_blocks().unwrap()).unwrap();
            }
            for (one, two) in joined.found.iter().flatten().zip(spatial.done.found.iter().flatten()) {
                prop_assert!((one - two).abs() < 1e-12 * (1.0 + two.abs()));
            }
            for (place, &found) in map.values.indexed_iter() {
                let lag = [place.0 as isize - largest.0 as isize, place.1 as isize - largest.1 as isize];
                let values: Vec<f64> =
                    frames.chunks_exact(block).map(|of| plain(of, [height, width], lag)).collect();
                let mean = values.iter().sum::<f64>() / blocks as f64;
                prop_assert!((found - mean).abs() < 1e-9 * (1.0 + mean.abs()), "{:?}: {} {}", lag, found, mean);
                let spread: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
                let error = (spread / (blocks * (blocks - 1)) as f64).sqrt();
                let bar = map.errors[place];
                let same = (bar - error).abs() < 1e-9 * (1.0 + error.abs());
                prop_assert!(same || blocks == 1 && bar.is_nan());
            }
        }
    }

    #[test]
    fn what_does_not_move_drops_out() {
        let scene: Vec<u16> = (0..20).map(|pixel| 10 + pixel * pixel % 17).collect();
        let [mut still, mut frame] = [3, 1].map(|block| Spatial::new(4, 5, (1, 1), block).unwrap());
        for _ in 0..6 {
            still.add(&scene).unwrap();
            frame.add(&scene).unwrap();
        }
        assert!(still.map().unwrap().values.iter().all(|&value| value == 0.0));
        assert!(frame.map().unwrap().values[[1, 1]] > 0.05);
    }

    #[test]
    fn frames_without_counts_are_left_out() {
        let mut spatial = Spatial::new(2, 2, (1, 1), 1).unwrap();
        spatial.add(&[0; 4]).unwrap();
        assert!(spatial.map().is_err());
        spatial.add(&[1, 2, 3, 4]).unwrap();
        let map = spatial.map().unwrap();
        assert_eq!((map.blocks, map.empty), (1, 1));
        assert!(Spatial::new(2, 2, (2, 1), 1).is_err());
        assert!(Spatial::new(2, 2, (1, 1), 0).is_err());
    }
}
