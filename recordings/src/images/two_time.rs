//! Two-time correlation.

use std::{ops::Range, sync::Arc};

use corrust_host::{
    Correlator, Device, Devices, Encoding, Error, Layout, Result,
    correlate::{Visibilities, baseline},
    device::{self, Gpu},
};
use ndarray::Array2;
use num_complex::Complex;
use rayon::prelude::*;

use super::pixels;

/// Groups of pixels, at most.
const MOST_GROUPS: usize = 1 << 12;
/// Frames, at most: the sums of all pairs are held.
const MOST_FRAMES: usize = 1 << 15;
/// Samples of a call of the correlator, at most, where a frame of a group has one or more.
const PIECE: usize = 1 << 27;
/// Largest count of a pixel in a group.
const LARGEST: u16 = 127;

/// Correlation of every frame with every other, over groups of pixels (rings of equal momentum transfer, say):
/// `C(a, b) = <I_a I_b> / (<I_a> <I_b>)`, means over the pixels of a group (Sutton, Laaziri, Livet, Bley, Opt. Express
/// 11, 2268, 2003).
///
/// The sums `sum I_a I_b` are a Gram matrix, which the correlator's kernels make on any device, exactly: frames are inputs, groups are channels,
/// and two pixels are the two parts of a complex sample, so that the real part of a visibility is the sum over both.
pub struct TwoTime {
    plan: Correlator,
    frames: usize,
    /// Pixels of each group, in the order of the frame.
    groups: Vec<Vec<usize>>,
    pixels: usize,
    /// Sums of counts, `[group][frame]`.
    counts: Array2<u64>,
    samples: Vec<i8>,
}

impl TwoTime {
    /// Builds the plan for frames of `mask.len()` pixels: `mask` has the group of every pixel, 1 to the number of groups, or 0
    /// for pixels that are in none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no frame or more than 32768, groups beyond 4096 or without a pixel; the device's own errors.
    pub fn new(frames: usize, mask: &[u16], device: impl Into<Devices>) -> Result<Self> {
        Self::on(frames, mask, device.into().open()?)
    }

    /// [`new`](Self::new) on GPUs that are open already; on the CPU if there is none.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn on(frames: usize, mask: &[u16], gpus: Vec<Arc<dyn Gpu>>) -> Result<Self> {
        let pixels = pixels(mask.len(), 1)?;
        if !(1..=MOST_FRAMES).contains(&frames) {
            return Err(Error::invalid(format!("{frames} frames: expected 1 to {MOST_FRAMES}")));
        }
        let last = usize::from(mask.iter().copied().max().unwrap_or(0));
        if !(1..=MOST_GROUPS).contains(&last) {
            return Err(Error::invalid(format!(
                "a mask of {last} groups: expected 1 to {MOST_GROUPS}, numbered from 1"
            )));
        }
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); last];
        for (pixel, &group) in mask.iter().enumerate().filter(|(_, group)| **group > 0) {
            groups[usize::from(group) - 1].push(pixel);
        }
        if let Some(empty) = groups.iter().position(Vec::is_empty) {
            return Err(Error::invalid(format!(
                "a mask without a pixel of group {}: expected one or more of each to {last}",
                empty + 1
            )));
        }
        let plan = Correlator::builder(frames, last)
            .encoding(Encoding::Ci8)
            .layout(Layout::Cnt)
            .device(Device::Cpu)
            .gpus(gpus)
            .build()?;
        let counts = Array2::from_shape_vec((last, frames), device::zeros(last * frames)?);
        let counts = counts.expect("as many as the shape has");
        Ok(Self { plan, frames, groups, pixels, counts, samples: Vec::new() })
    }

    /// Adds a range of pixels of all frames, `[frame][pixel of the range]`. Every pixel is to be added once, in any order.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a range beyond the mask, counts that are not as many, and a count above 127 in a group; the device's
    /// own errors.
    pub fn add(&mut self, range: Range<usize>, counts: &[u16]) -> Result<()> {
        let (frames, width) = (self.frames, range.len());
        if range.end > self.pixels || Some(counts.len()) != frames.checked_mul(width) {
            return Err(Error::invalid(format!(
                "{} counts of the pixels {range:?} of {}: expected one of each in {frames} frames",
                counts.len(),
                self.pixels
            )));
        }
        let own = self.groups.iter().map(|pixels| {
            let [from, to] =
                [range.start, range.end].map(|at| pixels.partition_point(|&pixel| pixel < at));
            from..to
        });
        let own: Vec<Range<usize>> = own.collect();
        for (group, places) in own.iter().enumerate() {
            for (frame, sum) in self.counts.row_mut(group).iter_mut().enumerate() {
                for &pixel in &self.groups[group][places.clone()] {
                    let count = counts[frame * width + pixel - range.start];
                    if count > LARGEST {
                        return Err(Error::invalid(format!(
                            "a count of {count} at pixel {pixel} of frame {frame}: expected at most {LARGEST} in a group"
                        )));
                    }
                    *sum += u64::from(count);
                }
            }
        }
        let longest = own.iter().map(Range::len).max().unwrap_or(0);
        let step = (PIECE / (own.len() * frames)).max(1) * 2;
        for first in (0..longest).step_by(step) {
            // Groups with fewer pixels have zeros after them, which add nothing.
            let times = step.min(longest - first).div_ceil(2);
            self.samples.clear();
            self.samples.resize(own.len() * frames * times * 2, 0);
            let rows = self.samples.par_chunks_exact_mut(times * 2).enumerate();
            rows.for_each(|(row, samples)| {
                let (group, frame) = (row / frames, row % frames);
                let places = own[group].clone().skip(first);
                for (sample, place) in samples.iter_mut().zip(places) {
                    let pixel = self.groups[group][place] - range.start;
                    *sample = counts[frame * width + pixel] as i8;
                }
            });
            self.plan.accumulate(bytemuck::cast_slice::<i8, [i8; 2]>(&self.samples))?;
        }
        Ok(())
    }

    /// Ends the sums, and starts anew.
    ///
    /// # Errors
    /// The device's own errors.
    pub fn sums(&mut self) -> Result<Sums> {
        let dump = self.plan.dump()?;
        let Visibilities::Integer(products) = dump.visibilities else {
            unreachable!("ci8 gives integers")
        };
        let pixels = self.groups.iter().map(Vec::len).collect();
        let counts = self.counts.clone();
        self.counts.fill(0);
        Ok(Sums { products, counts, pixels })
    }
}

/// Exact sums over the pixels of groups.
#[derive(Clone, Debug)]
pub struct Sums {
    /// Visibilities, whose real parts are the sums of products, `[group][baseline]`.
    products: Array2<Complex<i64>>,
    /// Sums of counts, `[group][frame]`.
    pub counts: Array2<u64>,
    /// Pixels of each group.
    pub pixels: Vec<usize>,
}

impl Sums {
    /// Sum of the products of two frames' counts, over the pixels of a group.
    ///
    /// # Panics
    /// When there is no such group or frame.
    pub fn product(&self, group: usize, a: usize, b: usize) -> i64 {
        self.products[[group, baseline(a.max(b), a.min(b))]].re
    }

    /// Two-time correlation of two frames; NaN where one has no counts.
    ///
    /// # Panics
    /// As [`product`](Self::product).
    pub fn correlation(&self, group: usize, a: usize, b: usize) -> f64 {
        let [first, second] = [a, b].map(|frame| self.counts[[group, frame]] as f64);
        self.product(group, a, b) as f64 * self.pixels[group] as f64 / (first * second)
    }

    /// Two-time correlation of a group, `[frame][frame]`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn map(&self, group: usize) -> Result<Array2<f64>> {
        let frames = self.counts.ncols();
        let mut values: Vec<f64> = device::zeros(frames * frames)?;
        values.par_chunks_exact_mut(frames).enumerate().for_each(|(a, row)| {
            row.iter_mut()
                .enumerate()
                .for_each(|(b, value)| *value = self.correlation(group, a, b));
        });
        Ok(Array2::from_shape_vec((frames, frames), values).expect("as many as the shape has"))
    }

    /// Means of the two-time correlation over frames at a lag, `[group][lag]`: g2 of a sample that does not age. Pairs of
    /// frames without counts are left out; NaN where none is left.
    pub fn g2(&self) -> Array2<f64> {
        let frames = self.counts.ncols();
        Array2::from_shape_fn((self.pixels.len(), frames), |(group, lag)| {
            let pairs = (0..frames - lag).map(|a| self.correlation(group, a, a + lag));
            let finite = pairs.filter(|value| value.is_finite());
            let (sum, count) =
                finite.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
            sum / count
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_plain_loops() {
        let (frames, pixels) = (5, 41);
        let mask: Vec<u16> =
            (0..pixels).map(|pixel| [1, 3, 0, 3, 2, 3][pixel * pixel % 6]).collect();
        let count = |frame: usize, pixel: usize| {
            ((frame * 31 + pixel * pixel * 7 + 3 * frame * pixel) % 128) as u16
        };
        let mut two_time = TwoTime::new(frames, &mask, Device::Cpu).unwrap();
        for range in [17..41, 0..3, 3..17] {
            let part =
                (0..frames).flat_map(|frame| range.clone().map(move |pixel| count(frame, pixel)));
            let part: Vec<u16> = part.collect();
            two_time.add(range, &part).unwrap();
        }
        let sums = two_time.sums().unwrap();
        for group in 0..3 {
            let own: Vec<usize> =
                (0..pixels).filter(|&pixel| usize::from(mask[pixel]) == group + 1).collect();
            assert_eq!(sums.pixels[group], own.len());
            for a in 0..frames {
                let of = |frame| own.iter().map(move |&pixel| i64::from(count(frame, pixel)));
                let all: i64 = of(a).sum();
                assert_eq!(sums.counts[[group, a]], all as u64);
                for b in 0..frames {
                    let expected: i64 = of(a).zip(of(b)).map(|(p, q)| p * q).sum();
                    assert_eq!(
                        sums.product(group, a, b),
                        expected,
                        "group {group}, frames {a} and {b}"
                    );
                }
            }
        }
        let map = sums.map(2).unwrap();
        assert_eq!(map[[1, 4]], map[[4, 1]]);
        let mean = (0..3).map(|a| map[[a, a + 2]]).sum::<f64>() / 3.0;
        assert!((sums.g2()[[2, 2]] - mean).abs() < 1e-12);
    }

    #[test]
    fn bad_counts_and_masks_are_refused() {
        let said = |error: Error| error.to_string();
        let refused = |mask: &[u16]| said(TwoTime::new(2, mask, Device::Cpu).err().unwrap());
        assert!(refused(&[0, 0]).contains("0 groups"));
        assert!(refused(&[1, 3]).contains("without a pixel of group 2"));
        let mut plan = TwoTime::new(2, &[0, 1], Device::Cpu).unwrap();
        plan.add(0..1, &[500, 500]).unwrap();
        assert!(
            said(plan.add(1..2, &[3, 128]).unwrap_err())
                .contains("a count of 128 at pixel 1 of frame 1")
        );
        assert!(plan.add(1..3, &[1; 4]).is_err());
        assert!(plan.add(0..2, &[1; 3]).is_err());
    }
}
