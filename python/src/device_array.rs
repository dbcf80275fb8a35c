//! Arrays of corrust's own in a GPU's memory.

use std::sync::{Arc, Mutex, PoisonError};

use corrust::device::{Buffer, Gpu, Stream};
use numpy::IntoPyArray;
use pyo3::{exceptions::PyAttributeError, prelude::*, types::PyDict};

use crate::{dlpack, dtype::Dtype, error::Fault, stream::LEGACY_STREAM};

/// Memory on a GPU, and the stream of the library's last work on it: one of the library's own, which stays.
pub struct Memory {
    gpu: Arc<dyn Gpu>,
    buffer: Buffer,
    last: Mutex<Stream>,
}

impl Memory {
    /// Memory whose last work is on `stream`.
    pub fn new(gpu: Arc<dyn Gpu>, buffer: Buffer, stream: Stream) -> Arc<Self> {
        Arc::new(Self { gpu, buffer, last: Mutex::new(stream) })
    }

    pub fn gpu(&self) -> &Arc<dyn Gpu> {
        &self.gpu
    }

    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Makes the work on `stream`, one of the library's own, wait for the memory's last use.
    pub fn use_on(&self, stream: Stream) -> PyResult<()> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != stream {
            self.gpu.order(*last, stream).map_err(Fault::from)?;
            *last = stream;
        }
        Ok(())
    }

    /// Makes the work on another's stream wait for the library's work on the memory.
    fn lend_on(&self, stream: u64) -> PyResult<()> {
        Ok(self.gpu.order(self.last(), Stream::from_raw(stream)).map_err(Fault::from)?)
    }

    fn last(&self) -> Stream {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An array in a GPU's memory, without gaps.
///
/// CuPy, PyTorch, JAX and others take it without a copy: ``cupy.from_dlpack(array)``,
/// ``torch.from_dlpack(array)``. So do all plans of the same GPU.
///
/// Attributes
/// ----------
/// shape : tuple of int
/// dtype : numpy.dtype
/// device : str
///     ``"cuda:0"``, or ``"sim"`` for the simulator's memory, which no other library knows.
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> array = corrust.to_device(numpy.arange(6, dtype=numpy.int8).reshape(3, 2), "sim")
/// >>> array.shape, array.device
/// ((3, 2), 'sim')
/// >>> array.numpy()[2]
/// array([4, 5], dtype=int8)
#[pyclass(frozen, module = "corrust")]
pub struct DeviceArray {
    pub memory: Arc<Memory>,
    /// Offset of its first element, in bytes.
    pub first: usize,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
}

impl DeviceArray {
    /// The address of the first element.
    pub fn address(&self) -> u64 {
        self.memory.buffer().address() + self.first as u64
    }

    fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bytes
    }

    /// The number of its CUDA device; none of the simulator.
    fn ordinal(&self) -> Option<i32> {
        self.memory.gpu().name().strip_prefix("cuda:")?.parse().ok()
    }
}

#[pymethods]
impl DeviceArray {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
        pyo3::types::PyTuple::new(py, &self.shape)
    }

    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, numpy::PyArrayDescr>> {
        numpy::PyArrayDescr::new(py, self.dtype.typestr())
    }

    #[getter]
    fn device(&self) -> &str {
        self.memory.gpu().name()
    }

    /// Bytes of its elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes()
    }

    /// A copy in host memory, after all work of corrust's on the array and all of others in the default stream.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut bytes = vec![0_u8; self.bytes()];
        let (gpu, last) = (self.memory.gpu(), self.memory.last());
        if !bytes.is_empty() {
            py.detach(|| {
                // A borrower may have written to the array.
                gpu.order(Stream::from_raw(LEGACY_STREAM), last)?;
                // SAFETY: the array's own memory.
                unsafe { gpu.download(last, self.address(), &mut bytes) }
            })
            .map_err(Fault::from)?;
        }
        numpy_array(py, bytes, self.dtype, &self.shape)
    }

    /// The DLPack protocol: a capsule for work in the order of ``stream``.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let refused = pyo3::exceptions::PyBufferError::new_err::<String>;
        let array = slf.get();
        let device = array.__dlpack_device__();
        if dl_device.is_some_and(|asked| asked != device) {
            return Err(refused(format!(
                "dl_device={dl_device:?} of an array on {}: expected {device:?}",
                array.device()
            )));
        }
        if copy == Some(true) {
            return Err(refused("copy=True: expected None or False, the array is lent".to_owned()));
        }
        match stream {
            // The borrower says that it sees to the order.
            Some(-1) => {}
            Some(raw @ ..=0) => {
                return Err(refused(format!(
                    "stream={raw}: expected -1, 1 (legacy default), 2 (per-thread default) or an address"
                )));
            }
            // None is the legacy default stream.
            raw => array.memory.lend_on(raw.map_or(LEGACY_STREAM, |raw| raw as u64))?,
        }
        dlpack::lend(
            slf.py(),
            array.memory.clone(),
            array.address(),
            dlpack::Device { kind: device.0, id: device.1 },
            array.dtype.dlpack(),
            &array.shape,
            max_version.is_some_and(|version| version.0 >= 1),
        )
    }

    /// The DLPack protocol: kind and number of the device.
    fn __dlpack_device__(&self) -> (i32, i32) {
        self.ordinal().map_or((dlpack::OTHER, 0), |ordinal| (dlpack::CUDA, ordinal))
    }

    /// The CUDA array interface, version 3.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if self.ordinal().is_none() {
            return Err(PyAttributeError::new_err(format!(
                "an array on {} has no __cuda_array_interface__",
                self.device()
            )));
        }
        let stream = match self.memory.last().raw() {
            // The library's default stream has no name here: the legacy default one waits for it.
            0 => {
                self.memory.lend_on(LEGACY_STREAM)?;
                LEGACY_STREAM
            }
            raw => raw,
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", self.dtype.typestr())?;
        interface.set_item("data", (self.address(), false))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("stream", stream)?;
        Ok(interface)
    }

    fn __len__(&self) -> PyResult<usize> {
        let unsized_array = || crate::error::kind("len() of an array without axes");
        self.shape.first().copied().ok_or_else(unsized_array)
    }

    fn __repr__(&self) -> String {
        format!("DeviceArray({}, shape={:?}, device={:?})", self.dtype, self.shape, self.device())
    }
}

/// Bytes as a NumPy array.
pub fn numpy_array<'py>(
    py: Python<'py>,
    bytes: Vec<u8>,
    dtype: Dtype,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let array = bytes.into_pyarray(py);
    let array = array.call_method1("view", (dtype.typestr(),))?;
    array.call_method1("reshape", (pyo3::types::PyTuple::new(py, shape)?,))
}
