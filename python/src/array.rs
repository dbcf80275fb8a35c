//! Arrays of every library, as an address, a shape and strides: NumPy's own, and what speaks DLPack or
//! `__cuda_array_interface__`. Nothing is copied.

use std::sync::Arc;

use corrust::device::{DeviceSlice, DeviceSliceMut, Gpu, Stream};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    device_array::{DeviceArray, Memory},
    dlpack::{self, Lent},
    dtype::Dtype,
    error::{kind, value},
    stream::StreamGuard,
};

/// Memory of an array.
enum MemoryPlace {
    Host,
    /// On the CUDA device of this number, if that is known.
    Cuda(Option<u32>),
    /// In memory of corrust's own.
    Own(Arc<Memory>),
}

/// Owner of an array's memory.
enum Owner {
    /// Of NumPy, or of `__cuda_array_interface__`.
    Object(#[allow(dead_code, reason = "kept, not used")] Py<PyAny>),
    Lent(#[allow(dead_code, reason = "kept, not used")] Lent),
    Memory,
}

/// An array of any library.
pub struct Array {
    /// Name of the array in errors.
    name: &'static str,
    address: u64,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    /// In bytes.
    pub strides: Vec<isize>,
    place: MemoryPlace,
    writable: bool,
    _owner: Owner,
}

impl Array {
    /// The array that an object is or lends, for work in the order of `stream`.
    ///
    /// # Errors
    /// `TypeError` of an object that is no array; whatever the object raises.
    pub fn of(name: &'static str, object: &Bound<'_, PyAny>, stream: u64) -> PyResult<Self> {
        if let Ok(array) = object.cast::<PyUntypedArray>() {
            refuse_masked(name, object)?;
            return Ok(Self::of_numpy(name, array));
        }
        if let Ok(array) = object.cast::<DeviceArray>() {
            return Ok(Self::of_own(name, array.get()));
        }
        if object.hasattr("__dlpack__")? && object.hasattr("__dlpack_device__")? {
            return Self::of_dlpack(name, object, stream);
        }
        if object.hasattr("__cuda_array_interface__")? {
            return Self::of_cuda(name, object, stream);
        }
        Err(kind(format!(
            "{name} is {}: expected a NumPy array, or an object with __dlpack__ or __cuda_array_interface__",
            object.get_type().name()?
        )))
    }

    fn of_numpy(name: &'static str, array: &Bound<'_, PyUntypedArray>) -> Self {
        let dtype = array.dtype();
        // SAFETY: the array is alive, and `data` points to its elements.
        let (address, flags) = unsafe {
            ((*array.as_array_ptr()).fields.data as u64, (*array.as_array_ptr()).fields.flags)
        };
        Self {
            name,
            address,
            dtype: Dtype::numpy(
                dtype.kind(),
                dtype.itemsize(),
                dtype.is_native_byteorder() != Some(false),
            ),
            shape: array.shape().to_vec(),
            strides: array.strides().to_vec(),
            place: MemoryPlace::Host,
            writable: flags & numpy::npyffi::flags::NPY_ARRAY_WRITEABLE != 0,
            _owner: Owner::Object(array.clone().into_any().unbind()),
        }
    }

    fn of_own(name: &'static str, array: &DeviceArray) -> Self {
        Self {
            name,
            address: array.address(),
            dtype: array.dtype,
            strides: dense(&array.shape, array.dtype.bytes),
            shape: array.shape.clone(),
            place: MemoryPlace::Own(array.memory.clone()),
            writable: true,
            _owner: Owner::Memory,
        }
    }

    fn of_dlpack(name: &'static str, object: &Bound<'_, PyAny>, stream: u64) -> PyResult<Self> {
        let device = Lent::device(object)?;
        let place = match device.kind {
            dlpack::CPU | dlpack::CUDA_HOST => MemoryPlace::Host,
            dlpack::CUDA => MemoryPlace::Cuda(u32::try_from(device.id).ok()),
            dlpack::CUDA_MANAGED => MemoryPlace::Cuda(None),
            other => {
                return Err(value(format!(
                    "{name} is on a device of DLPack's kind {other}: expected host memory ({}) or a CUDA \
                     device ({})",
                    dlpack::CPU,
                    dlpack::CUDA
                )));
            }
        };
        let on_host = matches!(place, MemoryPlace::Host);
        let lent = Lent::of(object, (!on_host).then_some(stream))?;
        let tensor = lent.tensor();
        let ndim = usize::try_from(tensor.ndim).unwrap_or(0);
        // SAFETY: as many as the array has axes, which stay as long as the array is lent.
        let (shape, strides) =
            unsafe { (dlpack::numbers(tensor.shape, ndim), dlpack::numbers(tensor.strides, ndim)) };
        let shape: Option<Vec<usize>> =
            shape.and_then(|shape| shape.iter().map(|&size| usize::try_from(size).ok()).collect());
        let Some(shape) = shape else {
            return Err(value(format!("{name} lends an array without a shape: expected its axes")));
        };
        let dtype = Dtype::from_dlpack(tensor.dtype);
        let strides = match strides {
            Some(strides) => {
                strides.iter().map(|&stride| stride as isize * dtype.bytes as isize).collect()
            }
            None => dense(&shape, dtype.bytes),
        };
        Ok(Self {
            name,
            address: tensor.data as u64 + tensor.byte_offset,
            dtype,
            shape,
            strides,
            place,
            writable: !lent.is_read_only(),
            _owner: Owner::Lent(lent),
        })
    }

    fn of_cuda(name: &'static str, object: &Bound<'_, PyAny>, stream: u64) -> PyResult<Self> {
        let interface = object.getattr("__cuda_array_interface__")?;
        let interface = interface.cast_into::<PyDict>()?;
        let item = |key: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
            Ok(interface.get_item(key)?.filter(|item| !item.is_none()))
        };
        let needed = |key: &str| {
            item(key)?.ok_or_else(|| {
                value(format!("{name}.__cuda_array_interface__ without {key:?}: expected one"))
            })
        };
        let shape: Vec<usize> = needed("shape")?.extract()?;
        let typestr: String = needed("typestr")?.extract()?;
        let (address, read_only): (u64, bool) = needed("data")?.extract()?;
        let bytes = typestr.get(2..).and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let letters = typestr.as_bytes();
        let letter = letters.get(1).copied().unwrap_or(0);
        let dtype = Dtype::numpy(letter, bytes, letters.first() != Some(&b'>') || bytes == 1);
        let strides: Vec<isize> = match item("strides")? {
            Some(strides) => strides.extract()?,
            None => dense(&shape, dtype.bytes),
        };
        if strides.len() != shape.len() {
            return Err(value(format!(
                "{name}.__cuda_array_interface__ of {} axes with {} strides: expected as many",
                shape.len(),
                strides.len()
            )));
        }
        let theirs: Option<u64> = item("stream")?.map(|stream| stream.extract()).transpose()?;
        let array = Self {
            name,
            address,
            dtype,
            shape,
            strides,
            place: MemoryPlace::Cuda(None),
            writable: !read_only,
            _owner: Owner::Object(object.clone().unbind()),
        };
        if let Some(theirs) = theirs.filter(|&theirs| theirs != stream && theirs != 0) {
            // Work that they have enqueued comes first.
            if let Some(gpu) = array.find_gpu()? {
                gpu.order(Stream::from_raw(theirs), Stream::from_raw(stream))
                    .map_err(|error| crate::error::exception(&error))?;
            }
        }
        Ok(array)
    }

    /// Whether it is in host memory.
    pub fn is_host(&self) -> bool {
        matches!(self.place, MemoryPlace::Host)
    }

    /// Returns the name of the array in errors.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The device that it is on, as a plan's argument: none of one in host memory.
    pub fn device(&self) -> PyResult<Option<Vec<Arc<dyn Gpu>>>> {
        Ok(match &self.place {
            MemoryPlace::Host => None,
            MemoryPlace::Own(memory) => Some(vec![memory.gpu().clone()]),
            MemoryPlace::Cuda(_) => self.find_gpu()?.map(|gpu| vec![gpu]),
        })
    }

    /// The CUDA device that has the array.
    fn find_gpu(&self) -> PyResult<Option<Arc<dyn Gpu>>> {
        use corrust::device::cuda;
        let fault = |error| crate::error::exception(&error);
        if let MemoryPlace::Cuda(Some(ordinal)) = self.place {
            return cuda::open(ordinal).map(Some).map_err(fault);
        }
        for ordinal in 0..cuda::count().map_err(fault)? {
            let Ok(gpu) = cuda::open(ordinal) else { continue };
            if gpu.holds(self.address) {
                return Ok(Some(gpu));
            }
        }
        Ok(None)
    }

    /// Bytes from the first element to the end of the last, of an array without negative strides.
    ///
    /// # Errors
    /// `TypeError` of one with negative strides, or more than can be addressed.
    pub fn reach(&self) -> PyResult<usize> {
        if self.shape.contains(&0) {
            return Ok(0);
        }
        let mut end = self.dtype.bytes;
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            let stride = usize::try_from(stride).or_else(|_| {
                if size == 1 {
                    return Ok(0);
                }
                Err(kind(format!(
                    "{} has a stride of {stride} bytes: expected none below 0, as in \
                     numpy.ascontiguousarray({})",
                    self.name, self.name
                )))
            })?;
            end = stride
                .checked_mul(size - 1)
                .and_then(|further| end.checked_add(further))
                .ok_or_else(|| kind(format!("{} is larger than memory", self.name)))?;
        }
        Ok(end)
    }

    /// Whether its elements follow each other.
    pub fn is_dense(&self) -> bool {
        let dense = dense(&self.shape, self.dtype.bytes);
        let strides = self.strides.iter().zip(&dense).zip(&self.shape);
        self.shape.contains(&0) || strides.into_iter().all(|((a, b), &size)| size == 1 || a == b)
    }

    /// The bytes of an array in host memory, as far as its strides reach.
    ///
    /// # Errors
    /// Errors of [`reach`](Self::reach); `ValueError` for an array on a GPU.
    pub fn bytes(&self) -> PyResult<&[u8]> {
        if !self.is_host() {
            return Err(value(format!(
                "{} is on a GPU: expected an array in host memory",
                self.name
            )));
        }
        let len = self.reach()?;
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: the owner keeps the elements, which reach so far; who changes them meanwhile reads what they
        // wrote, as everywhere in NumPy.
        Ok(unsafe { std::slice::from_raw_parts(self.address as *const u8, len) })
    }

    /// Copies `from` to an array in host memory.
    ///
    /// # Errors
    /// `ValueError` for an array that is read-only, not dense, or of another number of bytes.
    pub fn write(&self, from: &[u8]) -> PyResult<()> {
        self.check_room(from.len())?;
        if !from.is_empty() {
            // SAFETY: the owner keeps as many bytes, which may be written; Python's lock is held.
            unsafe {
                std::ptr::copy_nonoverlapping(from.as_ptr(), self.address as *mut u8, from.len());
            }
        }
        Ok(())
    }

    /// Checks that it can be written, and is as long as the results.
    pub fn check_room(&self, bytes: usize) -> PyResult<()> {
        let found = self.shape.iter().product::<usize>() * self.dtype.bytes;
        if !self.writable || !self.is_dense() || found != bytes {
            let found = match () {
                () if !self.writable => "is read-only".to_owned(),
                () if !self.is_dense() => "has gaps".to_owned(),
                () => format!("has {found} bytes"),
            };
            return Err(value(format!(
                "{} {found}: expected {bytes} bytes that follow each other and can be written",
                self.name
            )));
        }
        Ok(())
    }

    /// The array's memory on the plan's GPU, for work on the call's stream there.
    ///
    /// # Errors
    /// `ValueError` where it is in the memory of none of them, or was freed.
    pub fn slice(&self, guard: &StreamGuard<'_>) -> PyResult<DeviceSlice<'_>> {
        let len = self.reach()?;
        let gpus = guard.gpus();
        if let MemoryPlace::Own(memory) = &self.place {
            let Some(index) = gpus.iter().position(|gpu| Arc::ptr_eq(gpu, memory.gpu())) else {
                return Err(self.elsewhere(memory.gpu().name(), gpus));
            };
            let stream = guard.on(index)?;
            memory.use_on(stream)?;
            let first = (self.address - memory.buffer().address()) as usize;
            return Ok(memory.buffer().slice().part(first..first + len).on(stream));
        }
        self.check_cuda(gpus, len)?;
        // SAFETY: the memory is the first GPU's, as was checked, and held until the plan has done with it.
        Ok(unsafe { DeviceSlice::from_raw(self.address, len, guard.on(0)?) })
    }

    /// The same, to be written: `count` elements of type `T`.
    ///
    /// # Errors
    /// Errors of [`slice`](Self::slice) and [`check_room`](Self::check_room).
    pub fn room<T: bytemuck::Pod>(
        &self,
        guard: &StreamGuard<'_>,
        count: usize,
    ) -> PyResult<DeviceSliceMut<'_, T>> {
        self.check_room(count * size_of::<T>())?;
        let slice = self.slice(guard)?;
        let (address, stream) = (slice.address(), slice.stream());
        // SAFETY: as many bytes are the plan's GPU's, and held until it has done with them.
        Ok(unsafe { DeviceSliceMut::from_raw(address, count, stream) })
    }

    fn check_cuda(&self, gpus: &[Arc<dyn Gpu>], len: usize) -> PyResult<()> {
        let found = match self.place {
            MemoryPlace::Cuda(Some(ordinal)) => format!("cuda:{ordinal}"),
            _ => "a CUDA device".to_owned(),
        };
        let Some(gpu) = gpus.first() else { return Err(self.elsewhere(&found, gpus)) };
        if matches!(self.place, MemoryPlace::Cuda(Some(_))) && gpu.name() != found {
            return Err(self.elsewhere(&found, gpus));
        }
        let last = self.address + len.max(1) as u64 - 1;
        if len > 0 && !(gpu.holds(self.address) && gpu.holds(last)) {
            return Err(value(format!(
                "{} is at device address {:#x}, which is not (or no longer) memory of {}: expected an array \
                 that is",
                self.name,
                self.address,
                gpu.name()
            )));
        }
        Ok(())
    }

    fn elsewhere(&self, found: &str, gpus: &[Arc<dyn Gpu>]) -> PyErr {
        let expected = match gpus {
            [] => "host memory, as the plan is the CPU's".to_owned(),
            [gpu] => format!("host memory or {}, the plan's device", gpu.name()),
            [gpu, ..] => format!("host memory or {}, the first of the plan's devices", gpu.name()),
        };
        value(format!("{} is on {found}: expected {expected}", self.name))
    }
}

/// Refuses a masked array of NumPy's some of whose elements are masked: they would be taken for samples.
///
/// # Errors
/// `ValueError`.
pub fn refuse_masked(name: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(mask) = object.getattr_opt("mask")? else { return Ok(()) };
    if !object.py().import("numpy")?.call_method1("any", (mask,))?.is_truthy()? {
        return Ok(());
    }
    Err(value(format!(
        "{name} is a masked array of which some elements are masked: expected a plain array, and ranges of samples \
         that are not there in missing="
    )))
}

/// The strides, in bytes, of an array without gaps.
pub fn dense(shape: &[usize], bytes: usize) -> Vec<isize> {
    let mut strides = vec![bytes as isize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1) as isize;
    }
    strides
}
