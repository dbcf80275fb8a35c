//! Stacks of images: `corrust.brightness_maps`, `spatial_correlation`, `fit_rics`, `two_time`.

use corrust::{
    Devices, Error,
    images::{Blocks, Brightness, Detector, PairCorrelation, Rics, Spatial, TwoTime},
};
use ndarray::Array3;
use numpy::{IntoPyArray, PyArray3, PyArrayMethods, PyReadonlyArray3};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    array::refuse_masked,
    device,
    error::{Fault, kind, parse, value},
    fork::compute,
};

/// Parts of the frames, by whose scatter a fit knows its errors.
const PARTS: usize = 10;

/// Counts of a stack, `[frame][row][column]`, in order.
struct Stack<'py> {
    counts: PyReadonlyArray3<'py, u16>,
    height: usize,
    width: usize,
}

impl<'py> Stack<'py> {
    /// Takes an array of uint8 or uint16.
    fn of(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Self> {
        refuse_masked(name, given)?;
        let py = given.py();
        let numpy = py.import("numpy")?;
        let array = numpy.call_method1("asarray", (given,))?;
        let dtype: String = array.getattr("dtype")?.str()?.extract()?;
        if !matches!(&dtype[..], "uint8" | "uint16") {
            return Err(kind(format!("{name} of {dtype}: expected uint8 or uint16")));
        }
        let shape: Vec<usize> = array.getattr("shape")?.extract()?;
        if shape.len() != 3 || shape.contains(&0) {
            return Err(value(format!(
                "{name} of shape {shape:?}: expected [frame, row, column], none of them empty"
            )));
        }
        let array = numpy.call_method1(
            "require",
            (array, numpy::dtype::<u16>(py), ["C_CONTIGUOUS", "ALIGNED"]),
        )?;
        let counts = array.cast::<PyArray3<u16>>()?.readonly();
        Ok(Self { counts, height: shape[1], width: shape[2] })
    }

    fn all(&self) -> &[u16] {
        self.counts.as_slice().expect("it was made contiguous")
    }
}

/// Number and brightness of molecules, of every pixel.
///
/// Parameters
/// ----------
/// stack : array of uint8 or uint16
///     Frames, ``[frame, row, column]``.
/// gain, dark, dark_variance : float
///     Counts of a photon; counts without light, and their variance.
///
/// Returns
/// -------
/// numpy.ndarray
///     float64 ``[row, column, 4]``: mean, variance, number, brightness in photons of a molecule and frame.
#[pyfunction]
#[pyo3(signature = (stack, *, gain=1.0, dark=0.0, dark_variance=0.0))]
pub fn brightness_maps<'py>(
    py: Python<'py>,
    stack: &Bound<'py, PyAny>,
    gain: f64,
    dark: f64,
    dark_variance: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let stack = Stack::of("stack", stack)?;
    let (all, height, width) = (stack.all(), stack.height, stack.width);
    let maps = py.detach(|| {
        let mut sums = Brightness::new(height, width)?;
        all.chunks_exact(height * width).try_for_each(|frame| sums.add(frame))?;
        sums.maps(&Detector { gain, offset: dark, variance: dark_variance })
    });
    Ok(maps.map_err(Fault::from)?.into_pyarray(py).into_any())
}

/// Correlates frames with themselves, in parts of whole windows.
fn parts(
    all: &[u16],
    [height, width]: [usize; 2],
    lags: (usize, usize),
    window: usize,
) -> Result<Vec<Blocks>, Error> {
    let mut spatial = Spatial::new(height, width, lags, window)?;
    let windows = all.len() / (height * width) / window;
    let part = windows.div_ceil(PARTS).max(1) * window;
    let frames: Vec<&[u16]> = all.chunks_exact(height * width).collect();
    let each = frames.chunks(part).map(|frames| {
        frames.iter().try_for_each(|frame| spatial.add(frame))?;
        spatial.take_blocks()
    });
    each.collect()
}

/// Correlation of frames with themselves, shifted.
///
/// Parameters
/// ----------
/// stack : array of uint8 or uint16
///     Frames, ``[frame, row, column]``.
/// lags : (int, int)
///     Largest lags, in rows and columns.
/// window : int
///     Frames over which each pixel's mean is taken out; 1: the mean of each frame is.
///
/// Returns
/// -------
/// (numpy.ndarray, numpy.ndarray)
///     Values and their standard errors, float64 ``[2 rows + 1, 2 columns + 1]``, lag 0 in the middle.
#[pyfunction]
#[pyo3(signature = (stack, *, lags=(16, 32), window=1))]
pub fn spatial_correlation<'py>(
    py: Python<'py>,
    stack: &Bound<'py, PyAny>,
    lags: (usize, usize),
    window: usize,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let stack = Stack::of("stack", stack)?;
    let (all, size) = (stack.all(), [stack.height, stack.width]);
    let map = py.detach(|| {
        compute(|| {
            let parts = parts(all, size, lags, window)?;
            let mut joined = parts[0].clone();
            parts[1..].iter().try_for_each(|part| joined.join(part))?;
            joined.map()
        })
    });
    let map = map.map_err(Fault::from)?;
    Ok((map.values.into_pyarray(py).into_any(), map.errors.into_pyarray(py).into_any()))
}

/// Fits diffusion under a scanned beam (RICS) to the spatial correlation of frames.
///
/// Parameters
/// ----------
/// stack : array of uint8 or uint16
///     Frames, ``[frame, row, column]``.
/// pixel, waist : float
///     Side of a pixel, and radius of the focus (1/e^2), in micrometres.
/// dwell, line : float
///     Seconds from a pixel to the next of its row, and from a row to the next.
/// kappa : float, optional
///     Length of the focus by its radius; none: molecules diffuse in a plane.
/// offset : bool
///     Whether a value at large lags is fitted.
/// lags, window
///     As for ``spatial_correlation``.
///
/// Returns
/// -------
/// dict
///     ``values`` and ``uncertainties`` of ``n``, ``D`` (um^2/s) and ``offset``; ``chi2``, ``degrees``; ``correlation``, to which was
///     fitted. Uncertainties are from fits that leave out a tenth of the frames each.
#[pyfunction]
#[pyo3(signature = (stack, *, pixel, dwell, line, waist, kappa=Some(5.0), offset=true, lags=(16, 32), window=1))]
#[expect(clippy::too_many_arguments, reason = "arguments by name")]
pub fn fit_rics<'py>(
    py: Python<'py>,
    stack: &Bound<'py, PyAny>,
    pixel: f64,
    dwell: f64,
    line: f64,
    waist: f64,
    kappa: Option<f64>,
    offset: bool,
    lags: (usize, usize),
    window: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let stack = Stack::of("stack", stack)?;
    let (all, size) = (stack.all(), [stack.height, stack.width]);
    let model = Rics { pixel, dwell, line, waist, kappa, offset };
    let fitted = py.detach(|| compute(|| model.fit_parts(&parts(all, size, lags, window)?)));
    let (map, fitted) = fitted.map_err(Fault::from)?;
    let [values, uncertainties] = [(); 2].map(|()| PyDict::new(py));
    for (name, [found, error]) in
        [("n", fitted.n), ("D", fitted.diffusion), ("offset", fitted.offset)]
    {
        values.set_item(name, found)?;
        uncertainties.set_item(name, error)?;
    }
    let found = PyDict::new(py);
    found.set_item("values", values)?;
    found.set_item("uncertainties", uncertainties)?;
    found.set_item("chi2", fitted.chi2)?;
    found.set_item("degrees", fitted.degrees)?;
    found.set_item("correlation", map.values.into_pyarray(py))?;
    Ok(found)
}

/// Pair correlation along rows: every pixel with one some columns on, at later times (Digman and Gratton, 2009).
///
/// Parameters
/// ----------
/// stack : array of uint8 or uint16
///     Frames, ``[frame, row, column]``.
/// distance : int
///     Columns from a pixel to its partner, to the left if below 0.
/// lines : bool
///     Take the rows of all frames as scans of one line, one after the other.
/// groups, lags : int
///     Groups of lags, each twice as far apart as the one before, and lags of a group; in frames, or lines.
/// device : str
///     ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"sim"``.
///
/// Returns
/// -------
/// numpy.ndarray
///     float64 ``[row, column, point, 3]``: lag, ``g``, standard error from ten blocks of the frames; NaN where a pixel has no
///     partner. Of ``lines`` there is one row.
#[pyfunction]
#[pyo3(signature = (stack, distance, *, lines=false, groups=6, lags=8, device="auto"))]
pub fn pair_correlation<'py>(
    py: Python<'py>,
    stack: &Bound<'py, PyAny>,
    distance: isize,
    lines: bool,
    groups: usize,
    lags: usize,
    device: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let stack = Stack::of("stack", stack)?;
    let (all, height, width) = (stack.all(), stack.height, stack.width);
    let devices: Devices = parse(device)?;
    let curves: Result<_, Error> = py.detach(|| {
        compute(|| {
            let frames = all.len() / (height * width);
            let size = [frames, height, width];
            let mut plan = PairCorrelation::new(size, distance, lines, [groups, lags], devices)?;
            for (number, frame) in all.chunks_exact(height * width).enumerate() {
                plan.add(frame)?;
                if (number + 1) % frames.div_ceil(PARTS) == 0 {
                    plan.end_block()?;
                }
            }
            plan.curves()
        })
    });
    Ok(curves.map_err(Fault::from)?.into_pyarray(py).into_any())
}

/// Two-time correlation: every frame with every other, over groups of pixels.
///
/// Parameters
/// ----------
/// stack : array of uint8 or uint16
///     Frames, ``[frame, row, column]``; counts in a group are 127 at most.
/// mask : array of uint8 or uint16, optional
///     Group of every pixel, ``[row, column]``: 1 to the number of groups, 0 for none. By default all are in one.
/// device : str
///     ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"sim"``.
///
/// Returns
/// -------
/// numpy.ndarray
///     float64 ``[group, frame, frame]``: ``<I_a I_b> / (<I_a> <I_b>)``, means over the pixels of a group.
#[pyfunction]
#[pyo3(signature = (stack, mask=None, *, device="auto"))]
pub fn two_time<'py>(
    py: Python<'py>,
    stack: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
    device: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let stack = Stack::of("stack", stack)?;
    let (all, height, width) = (stack.all(), stack.height, stack.width);
    let mask = match mask {
        None => vec![1; height * width],
        Some(mask) => {
            let mask = py.import("numpy")?.call_method1("expand_dims", (mask, 0))?;
            let mask = Stack::of("mask", &mask)?;
            let (found, expected) = ([mask.height, mask.width], [height, width]);
            if found != expected || mask.all().len() != height * width {
                return Err(value(format!("mask of shape {found:?}: expected {expected:?}")));
            }
            mask.all().to_vec()
        }
    };
    let gpus = device::open(py, device)?;
    let maps = py.detach(|| {
        compute(|| {
            let frames = all.len() / (height * width);
            let mut plan = TwoTime::on(frames, &mask, gpus)?;
            plan.add(0..height * width, all)?;
            let sums = plan.sums()?;
            let groups = sums.counts.nrows();
            let mut maps = corrust::device::zeros(groups * frames * frames)?;
            for (group, room) in maps.chunks_exact_mut(frames * frames).enumerate() {
                room.copy_from_slice(sums.map(group)?.as_slice().expect("a fresh array"));
            }
            Ok(Array3::from_shape_vec((groups, frames, frames), maps).expect("as many"))
        })
    });
    let maps: Result<Array3<f64>, Error> = maps;
    Ok(maps.map_err(Fault::from)?.into_pyarray(py).into_any())
}
