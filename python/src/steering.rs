//! Weights that point beams.

use corrust::{
    beamform::{self, Pointing, Targets},
    format::moment,
};
use numpy::{IntoPyArray, PyArray5};
use pyo3::{exceptions::PyMemoryError, prelude::*};

use crate::{
    error::{Fault, count, kind, list, optional_count, optional_moment},
    uvh5::description,
};

/// A direction.
#[derive(FromPyObject)]
pub enum Direction {
    Vector([f64; 3]),
    Horizontal([f64; 2]),
}

/// Directions of beams, in one sentence where they are none.
fn directions(given: &Bound<'_, PyAny>) -> PyResult<Vec<Direction>> {
    let others = |error: PyErr| match error.is_instance_of::<PyMemoryError>(given.py()) {
        true => error,
        false => kind(
            "pointings: expected directions (east, north, up) or (azimuth, altitude), as [(0, 0, 1)]",
        ),
    };
    list(given).map_err(others)
}

impl From<Direction> for Pointing {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Vector(vector) => Self::Direction(vector),
            Direction::Horizontal(angles) => Self::Horizontal(angles),
        }
    }
}

/// Weights that point beams, as ``corrust weights`` makes them.
///
/// Parameters
/// ----------
/// array : path or dict
///     An array file of JSON, or its content: positions of the dishes, frequencies of the channels, and ``"pointings"`` of beams.
/// pointings : sequence, optional
///     Further beams: ``(east, north, up)`` of any length, or ``(azimuth, altitude)`` in degrees, azimuth from north through east.
/// sources : sequence of (float, float), optional
///     Further beams, after those: right ascension and declination in degrees, ICRS.
/// at : str or astropy.time.Time, optional
///     When sources are pointed at, UTC; by default the array's ``"start"``.
/// delayed : bool
///     Voltages have been delayed to the array's ``"phase_center"``, which they follow: weights count from it, and are all equal
///     towards it. Without any beam there is one towards it.
/// channels : int, optional
///     Channels, of an array that has ``"first_channel"`` and ``"channel_width"``.
/// polarisations : int
///     Polarisations, all with the same weights.
///
/// Returns
/// -------
/// numpy.ndarray
///     int8 ``[F, P, B, D, 2]``, as of `Beamformer.set_weights`: ``127 exp(2 pi i nu tau)``, rounded, of a delay ``tau``.
///
/// Raises
/// ------
/// ValueError
///     When the array lacks antennas, frequencies or pointings, or for sources its location or a moment.
///
/// Examples
/// --------
/// >>> import corrust
/// >>> array = {
/// ...     "location": {"latitude": 19.1, "longitude": 74.05, "altitude": 650},
/// ...     "positions": [[0, 0, 0], [6.3, 0, 0]], "frequencies": [6e8],
/// ... }
/// >>> weights = corrust.weights(array, pointings=[(0, 0, 1)], sources=[(83.633, 22.014)], at="2026-03-20T14:46:00Z")
/// >>> weights.shape                                     # [channel][polarisation][beam][dish][re, im]
/// (1, 1, 2, 2, 2)
/// >>> weights[0, 0, 0].tolist()
/// [[127, 0], [127, 0]]
/// >>> corrust.noise_shift(2)                            # keeps the level of the noise that dishes do not share
/// 7
#[pyfunction]
#[pyo3(signature = (array, *, pointings=Vec::new(), sources=Vec::new(), at=None, delayed=false, channels=None, polarisations=1))]
#[expect(clippy::too_many_arguments, reason = "Python names them")]
pub fn weights<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = directions)] pointings: Vec<Direction>,
    #[pyo3(from_py_with = list)] sources: Vec<[f64; 2]>,
    #[pyo3(from_py_with = optional_moment)] at: Option<String>,
    delayed: bool,
    #[pyo3(from_py_with = optional_count)] channels: Option<usize>,
    #[pyo3(from_py_with = count)] polarisations: usize,
) -> PyResult<Bound<'py, PyArray5<i8>>> {
    let array = description(array)?;
    let targets = Targets {
        pointings: pointings.into_iter().map(Pointing::from).collect(),
        sources,
        at: at.as_deref().map(moment).transpose().map_err(Fault::from)?,
        delayed,
        channels,
    };
    let weights = py.detach(|| array.weights(polarisations, &targets)).map_err(Fault::from)?;
    Ok(weights.into_pyarray(py))
}

/// The shift at which noise that the dishes do not share has about the same level in beams by `weights` as in the voltages.
///
/// Parameters
/// ----------
/// dishes : int
///     Number of dishes.
///
/// Returns
/// -------
/// int
///     Bits, the same for every beam; a strong source needs 1 or 2 more.
#[pyfunction]
pub fn noise_shift(#[pyo3(from_py_with = count)] dishes: usize) -> u32 {
    beamform::noise_shift(dishes)
}
