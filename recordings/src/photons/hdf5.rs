//! Counts that are kept in an HDF5 file, as BrightEyes-MCS and BrightEyes-FFS write them.

use std::path::{Path, PathBuf};

use corrust_host::{Error, Result, samples::CountShape};
use rust_hdf5::{DatatypeMessage, H5Dataset, H5File};

use super::source::CountSource;
use crate::formats::{
    Block,
    hdf5::{guarded, stored},
};

/// Name of the dataset of counts.
const NAME: &str = "data";

/// The counts of a file: dataset `data` of uint8 or uint16, whose last axis counts sensors. All axes before
/// it (repetition, z, y, x, time) are time, the last of them the quickest.
pub(super) struct Hdf5 {
    path: PathBuf,
    data: H5Dataset,
    axes: Vec<usize>,
    shape: CountShape,
    instants: u64,
    dwell: f64,
}

impl Hdf5 {
    pub fn open(path: &Path, dwell: f64) -> Result<Self> {
        let (data, kind) = guarded(path, "read counts, dataset \"data\"", || {
            let data = H5File::open(path)?.dataset(NAME)?;
            let kind = data.datatype()?;
            Ok((data, kind))
        })?;
        let wide = match kind {
            DatatypeMessage::FixedPoint { size: 1, signed: false, .. } => false,
            DatatypeMessage::FixedPoint { size: 2, signed: false, .. } => true,
            other => {
                let reason = format!("dataset \"data\" of {other:?}: expected uint8 or uint16");
                return Err(Error::file(path, reason));
            }
        };
        let axes = stored(path, NAME, &data)?;
        let (&sensors, times) = match axes.split_last() {
            Some(split) if axes.len() > 1 && !axes.contains(&0) => split,
            _ => {
                let reason = format!(
                    "dataset \"data\" of shape {axes:?}: expected [T][sensor], or more axes of time, none of \
                     them empty"
                );
                return Err(Error::file(path, reason));
            }
        };
        let instants = times.iter().try_fold(1_u64, |all, &axis| all.checked_mul(axis as u64));
        let instants = instants.filter(|_| times.len() <= 32).ok_or_else(|| {
            Error::file(path, format!("dataset \"data\" of shape {axes:?}: expected fewer counts"))
        })?;
        let shape = CountShape { sensors, wide };
        Ok(Self { path: path.to_owned(), data, axes, shape, instants, dwell })
    }

    /// Reads instants, `[instant][sensor]`.
    fn fill<T: rust_hdf5::H5Type>(&self, mut first: u64, mut counts: &mut [T]) -> Result<()> {
        let (&sensors, axes) = self.axes.split_last().expect("checked when it was opened");
        while !counts.is_empty() {
            let mut left = counts.len() / sensors;
            let (mut starts, mut sizes) = (vec![0; axes.len()], vec![1; axes.len()]);
            let mut rest = first;
            for (start, &axis) in starts.iter_mut().zip(axes).rev() {
                (*start, rest) = ((rest % axis as u64) as usize, rest / axis as u64);
            }
            // The largest box that begins here: whole axes, and a part of the one before them.
            for (axis, &size) in axes.iter().enumerate().rev() {
                sizes[axis] = left.min(size - starts[axis]);
                if sizes[axis] < size {
                    break;
                }
                left /= size;
                if left == 0 {
                    break;
                }
            }
            let instants: usize = sizes.iter().product();
            let (part, after) = counts.split_at_mut(instants * sensors);
            starts.push(0);
            sizes.push(sensors);
            guarded(&self.path, "read", || self.data.read_slice_into(part, &starts, &sizes))?;
            (first, counts) = (first + instants as u64, after);
        }
        Ok(())
    }
}

impl CountSource for Hdf5 {
    const SEEKS: bool = true;

    fn shape(&self) -> CountShape {
        self.shape
    }

    fn instants(&self) -> u64 {
        self.instants
    }

    fn dwell(&self) -> f64 {
        self.dwell
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("format", "HDF5, counts".to_owned())]
    }

    fn read(&mut self, first: u64, times: usize, block: &mut Block) -> Result<()> {
        if self.shape.wide {
            return block.fill_counts(self.shape, times, |counts| self.fill(first, counts));
        }
        block.reset_bytes(times * self.shape.bytes(), times)?;
        self.fill(first, &mut block.samples)
    }
}
