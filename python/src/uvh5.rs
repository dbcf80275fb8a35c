//! UVH5 files, of dumps and back.

use std::path::PathBuf;

use corrust::{
    Encoding, Error, Layout,
    correlate::{BaselineCounts, Shape, ValidCounts, Visibilities},
    format::{array::Array as Description, uvh5},
};
use ndarray::Array2;
use num_complex::Complex;
use numpy::{IntoPyArray, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::{prelude::*, sync::PyOnceLock};

use crate::{
    error::{Fault, kind, value},
    results::result,
};

/// Writes dumps as a UVH5 file, which pyuvdata, CASA and others read through pyuvdata.
///
/// Parameters
/// ----------
/// path : path
///     Appears when it is complete.
/// dumps : iterable of Dump
///     One after the other: of ``Recording.dumps``, or of a ``Correlator``, with ``start``, its first time, set.
/// array : path or dict
///     Facts of the inputs, channels and times: an array file of JSON, or its content.
/// phased : bool
///     Samples were delayed so that the array's phase centre arrives everywhere at once.
/// gzip : int, optional
///     Level of compression, 1 to 9; by default none.
///
/// Raises
/// ------
/// ValueError
///     When the array lacks something or is of others inputs or channels than the dumps.
/// OSError
///     When the file cannot be written.
///
/// Examples
/// --------
/// >>> import corrust, numpy, tempfile, pathlib
/// >>> array = {
/// ...     "telescope": "example",
/// ...     "location": {"latitude": -30.7, "longitude": 21.4, "altitude": 1050},
/// ...     "positions": [[0, 0, 0], [29, 0, 0]],
/// ...     "frequencies": [1e8, 1.1e8],
/// ...     "start": "2026-03-01T00:00:00Z", "sample_time": 1e-7,
/// ... }
/// >>> dump = corrust.correlate(numpy.ones((100, 2, 2, 2), numpy.int8), device="cpu")
/// >>> with tempfile.TemporaryDirectory() as folder:
/// ...     path = pathlib.Path(folder) / "x.uvh5"
/// ...     corrust.write_uvh5(path, [dump], array)
/// ...     read = corrust.read_uvh5(path)
/// >>> read.visibilities.shape                           # [dump][baseline][channel][polarisation]
/// (1, 3, 2, 1)
/// >>> read.visibilities[0, 1, 0, 0]
/// np.complex128(200+0j)
#[pyfunction]
#[pyo3(signature = (path, dumps, array, *, phased=false, gzip=None))]
pub fn write_uvh5(
    py: Python<'_>,
    path: PathBuf,
    dumps: &Bound<'_, PyAny>,
    array: &Bound<'_, PyAny>,
    phased: bool,
    gzip: Option<u8>,
) -> PyResult<()> {
    let description = description(array)?;
    let mut file: Option<uvh5::Writer> = None;
    for dump in dumps.try_iter()? {
        let dump = dump?;
        let visibilities = visibilities(&dump)?;
        let (dim, encoding) = match &visibilities {
            Visibilities::Integer(sums) => (sums.dim(), Encoding::Ci8),
            Visibilities::Float(sums) => (sums.dim(), Encoding::Cf16),
        };
        let inputs: usize = dump.getattr("inputs")?.extract()?;
        let shape = Shape { inputs, channels: dim.0, encoding, layout: Layout::Tcn };
        let (start, times) = (dump.getattr("start")?.extract()?, dump.getattr("times")?.extract()?);
        let valid = valid(&dump, dim)?;
        let write = || {
            let file = match &mut file {
                Some(file) => file,
                none => {
                    let options = uvh5::Options { phased, gzip };
                    let file = uvh5::Writer::with_options(&path, &description, &shape, options)?;
                    none.insert(file)
                }
            };
            file.append(&visibilities, &valid, start, times)
        };
        py.detach(write).map_err(Fault::from)?;
        py.check_signals()?;
    }
    let Some(file) = file else { return Err(value("no dumps: expected at least 1")) };
    Ok(py.detach(|| file.finish()).map_err(Fault::from)?)
}

/// The array of a file, or of a dict with the same content.
pub fn description(given: &Bound<'_, PyAny>) -> PyResult<Description> {
    let array = match given.extract::<PathBuf>() {
        Ok(path) => Description::read(path),
        Err(_) => {
            let json = given.py().import("json")?;
            let text: String = json.call_method1("dumps", (given,))?.extract()?;
            Description::parse(&text)
        }
    };
    Ok(array.map_err(Fault::from)?)
}

/// The visibilities of a dump, copied.
fn visibilities(dump: &Bound<'_, PyAny>) -> PyResult<Visibilities> {
    let host = dump.py().import("corrust._results")?.getattr("_host")?;
    let sums = host.call1((dump
        .getattr("visibilities")
        .map_err(|_| kind(format!("dumps have {}: expected corrust.Dump", dump.get_type())))?,))?;
    let wrong = || {
        let found = sums.getattr("shape").map_or_else(|_| String::new(), |shape| shape.to_string());
        value(format!(
            "a dump of visibilities {found}: expected int64 or float32 [channel][baseline][2]"
        ))
    };
    fn pairs<T: Copy + numpy::Element>(
        sums: &PyReadonlyArray3<'_, T>,
    ) -> Option<Array2<Complex<T>>> {
        let (channels, baselines, parts) = sums.as_array().dim();
        let number = |(channel, baseline)| {
            let part = |part| sums.as_array()[[channel, baseline, part]];
            Complex::new(part(0), part(1))
        };
        (parts == 2).then(|| Array2::from_shape_fn((channels, baselines), number))
    }
    if let Ok(sums) = sums.extract::<PyReadonlyArray3<'_, i64>>() {
        return pairs(&sums).map(Visibilities::Integer).ok_or_else(wrong);
    }
    let sums: PyReadonlyArray3<'_, f32> = sums.extract().map_err(|_| wrong())?;
    pairs(&sums).map(Visibilities::Float).ok_or_else(wrong)
}

/// The samples behind the visibilities of a dump.
fn valid(dump: &Bound<'_, PyAny>, dim: (usize, usize)) -> PyResult<ValidCounts> {
    let valid = dump.getattr("_valid")?;
    if let Ok(count) = valid.extract::<u64>() {
        return Ok(ValidCounts::Complete(count));
    }
    let counts: PyReadonlyArray2<'_, u64> = valid.extract()?;
    let counts = counts.as_array();
    if counts.dim() != dim {
        return Err(value(format!("counts of shape {:?}: expected {dim:?}", counts.dim())));
    }
    Ok(ValidCounts::Each(BaselineCounts::from_array(counts).map_err(Fault::from)?))
}

/// Reads a UVH5 file whose rows are dumps of all baselines, one dump after the other, as ``write_uvh5`` and
/// ``corrust correlate`` write them.
///
/// Parameters
/// ----------
/// path : path
///
/// Returns
/// -------
/// Uvh5
///
/// Raises
/// ------
/// ValueError
///     When it is no such file.
/// OSError
///     When it cannot be read.
#[pyfunction]
pub fn read_uvh5(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    static UVH5: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let read = || {
        let file = uvh5::Reader::open(&path)?;
        let dim = (
            file.dumps(),
            file.pairs().len(),
            file.frequencies().len(),
            file.polarisations().len(),
        );
        let mut all = ndarray::Array4::<Complex<f64>>::zeros(dim);
        for (dump, mut room) in all.outer_iter_mut().enumerate() {
            room.assign(&file.read(dump)?);
        }
        Ok::<_, Error>((file, all))
    };
    let (file, visibilities) = py.detach(read).map_err(Fault::from)?;
    let pairs =
        Array2::from_shape_fn((file.pairs().len(), 2), |(row, side)| file.pairs()[row][side]);
    result(py, &UVH5, "Uvh5")?.call1((
        visibilities.into_pyarray(py),
        file.times().to_vec().into_pyarray(py),
        file.frequencies().to_vec().into_pyarray(py),
        pairs.into_pyarray(py),
        file.polarisations().to_vec().into_pyarray(py),
    ))
}
