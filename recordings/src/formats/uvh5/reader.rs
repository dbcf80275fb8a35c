//! Reading what was written.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use corrust_host::{Error, Result, device};
use ndarray::Array3;
use num_complex::Complex;
use rust_hdf5::{H5Dataset, H5File, H5Type};

use super::number::Number;
use crate::formats::hdf5::{self, column, guarded, stored};

/// A UVH5 file whose rows are dumps of all baselines, one dump after the other, as [`super::Writer`] writes
/// them.
pub struct Reader {
    path: PathBuf,
    visibilities: H5Dataset,
    integer: bool,
    frequencies: Vec<f64>,
    polarisations: Vec<i64>,
    pairs: Vec<[i64; 2]>,
    times: Vec<f64>,
    names: BTreeMap<i64, String>,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read; [`Error::File`] when it is no such file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // The system's word on a file that is not there or may not be read.
        std::fs::File::open(path).map_err(Error::io(path, "read"))?;
        let file = guarded(path, "read", || H5File::open(path))?;
        let dataset = |name: &str| guarded(path, "read", || file.dataset(name));
        let visibilities = dataset("Data/visdata")?;
        let frequencies: Vec<f64> = read_column(path, dataset, "freq_array")?;
        let polarisations: Vec<i64> = read_column(path, dataset, "polarization_array")?;
        let times: Vec<f64> = read_column(path, dataset, "time_array")?;
        let first: Vec<i64> = read_column(path, dataset, "ant_1_array")?;
        let second: Vec<i64> = read_column(path, dataset, "ant_2_array")?;
        let refuse = |reason: String| Err(Error::file(path, reason));
        let rows = times.len();
        let expected = [rows, frequencies.len(), polarisations.len()];
        let found = stored(path, "Data/visdata", &visibilities)?;
        if found != expected || first.len() != rows || second.len() != rows {
            return refuse(format!(
                "visibilities of shape {:?}: expected {expected:?}, times by frequencies by \
                 polarisations",
                found
            ));
        }
        let integer = match visibilities.element_size() {
            16 => true,
            8 => false,
            size => return refuse(format!("visibilities of {size} bytes: expected 16 or 8")),
        };
        if frequencies.is_empty() || polarisations.is_empty() || rows == 0 {
            return refuse(format!("visibilities of shape {expected:?}: expected none of them 0"));
        }
        let pairs: Vec<[i64; 2]> = first.into_iter().zip(second).map(<[i64; 2]>::from).collect();
        let of_dump = times.iter().take_while(|&time| *time == times[0]).count().max(1);
        let same = |(row, pair): (usize, &[i64; 2])| *pair == pairs[row % of_dump];
        if !rows.is_multiple_of(of_dump) || !pairs.iter().enumerate().all(same) {
            return refuse(
                "rows in another order: expected all baselines of a time, then of the \
                           next"
                    .into(),
            );
        }
        // Files of others may lack them.
        let mut names = BTreeMap::new();
        if let Some(named) = hdf5::dataset(path, &file, "Header/antenna_names")? {
            let numbers: Vec<i64> = read_column(path, dataset, "antenna_numbers")?;
            if stored(path, "Header/antenna_names", &named)? != [numbers.len()] {
                return refuse(format!(
                    "antenna names of shape {:?}: expected {}",
                    named.shape(),
                    numbers.len()
                ));
            }
            let named = guarded(path, "read", || named.read_strings_lossy())?;
            names = numbers.into_iter().zip(named).collect();
        }
        let times = times.into_iter().step_by(of_dump).collect();
        let mut pairs = pairs;
        pairs.truncate(of_dump);
        Ok(Self {
            path: path.to_owned(),
            visibilities,
            integer,
            frequencies,
            polarisations,
            pairs,
            times,
            names,
        })
    }

    /// Number of dumps.
    pub fn dumps(&self) -> usize {
        self.times.len()
    }

    /// Frequencies of channels, hertz.
    pub fn frequencies(&self) -> &[f64] {
        &self.frequencies
    }

    /// Centres of dumps, Julian dates in UTC.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// Numbers of `ant_1` and `ant_2` of each baseline.
    pub fn pairs(&self) -> &[[i64; 2]] {
        &self.pairs
    }

    /// Name of the antenna of such a number, as [`pairs`](Self::pairs) has them; [`None`] where the file names none.
    pub fn name(&self, number: i64) -> Option<&str> {
        self.names.get(&number).map(String::as_str)
    }

    /// Polarisations by their numbers: -1 to -4 RR, LL, RL, LR; -5 to -8 XX, YY, XY, YX.
    pub fn polarisations(&self) -> &[i64] {
        &self.polarisations
    }

    /// The visibilities of a dump, `[baseline][channel][polarisation]`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a dump past the last; [`Error::Io`] and [`Error::File`] when the file
    /// cannot be read.
    pub fn read(&self, dump: usize) -> Result<Array3<Complex<f64>>> {
        if dump >= self.dumps() {
            return Err(Error::invalid(format!(
                "dump {dump}: expected one below {}",
                self.dumps()
            )));
        }
        let counts = [self.pairs.len(), self.frequencies.len(), self.polarisations.len()];
        let starts = [dump * self.pairs.len(), 0, 0];
        let numbers = if self.integer {
            self.numbers::<i64>(&starts, &counts, |part| part as f64)
        } else {
            self.numbers::<f32>(&starts, &counts, f64::from)
        };
        Ok(Array3::from_shape_vec(counts, numbers?).expect("as many as the axes say"))
    }

    fn numbers<T: H5Type + Default>(
        &self,
        starts: &[usize],
        counts: &[usize],
        wide: impl Fn(T) -> f64,
    ) -> Result<Vec<Complex<f64>>> {
        let count = counts.iter().product();
        let mut read: Vec<Number<T>> = device::zeros(count)?;
        guarded(&self.path, "read", || {
            self.visibilities.read_slice_into(&mut read, starts, counts)
        })?;
        let mut numbers = device::room(count)?;
        let number = |Number(number): Number<T>| Complex::new(wide(number.re), wide(number.im));
        numbers.extend(read.into_iter().map(number));
        Ok(numbers)
    }
}

/// All values of a dataset of the header.
fn read_column<T: H5Type + Default>(
    path: &Path,
    dataset: impl Fn(&str) -> Result<H5Dataset>,
    name: &str,
) -> Result<Vec<T>> {
    let name = format!("Header/{name}");
    column(path, &name, &dataset(&name)?)
}
