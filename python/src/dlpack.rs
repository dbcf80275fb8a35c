//! DLPack, the protocol by which libraries of arrays lend each other memory: capsules of both kinds, with a
//! version (1.0 on) and without.
//!
//! Source: `dlpack.h` and "Python specification for DLPack", <https://dmlc.github.io/dlpack/latest/>.

use std::{
    ffi::{CStr, c_void},
    ptr::{self, NonNull},
};

use pyo3::{ffi, prelude::*, types::PyDict};

use crate::error::{kind, value};

/// Ordinary memory.
pub const CPU: i32 = 1;
/// Memory of a CUDA device.
pub const CUDA: i32 = 2;
/// Page-locked host memory.
pub const CUDA_HOST: i32 = 3;
/// A device that DLPack has no name for: the simulator.
pub const OTHER: i32 = 12;
/// Memory that a CUDA device and the host share.
pub const CUDA_MANAGED: i32 = 13;

/// The major version of capsules that are understood.
const MAJOR: u32 = 1;
/// Flag of memory that is not to be written.
const READ_ONLY: u64 = 1;

const NAME: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// Device of memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Device {
    pub kind: i32,
    pub id: i32,
}

/// Type of an element.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DataType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

/// An array.
#[repr(C)]
pub struct Tensor {
    pub data: *mut c_void,
    pub device: Device,
    pub ndim: i32,
    pub dtype: DataType,
    pub shape: *mut i64,
    /// In elements; null where they follow each other.
    pub strides: *mut i64,
    pub byte_offset: u64,
}

/// An array, and how to give it back.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

/// The same with a version.
#[repr(C)]
struct ManagedVersioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

/// Content of a capsule.
#[derive(Clone, Copy)]
enum Content {
    Plain(NonNull<Managed>),
    Versioned(NonNull<ManagedVersioned>),
}

/// An array that another library lends; given back when dropped.
pub struct Lent(Content);

// SAFETY: DLPack lets any thread give an array back; those that need Python's lock are given back with it.
unsafe impl Send for Lent {}
// SAFETY: nothing is changed through a shared reference.
unsafe impl Sync for Lent {}

impl Lent {
    /// Device that an object names for its array.
    pub fn device(object: &Bound<'_, PyAny>) -> PyResult<Device> {
        let (kind, id) = object.call_method0("__dlpack_device__")?.extract()?;
        Ok(Device { kind, id })
    }

    /// Borrows an object's array, for use in the order of `stream` where it is on a GPU.
    ///
    /// # Errors
    /// Whatever the object raises; `TypeError` where it does not return a capsule, `ValueError` where the
    /// capsule is used or of another version.
    pub fn of(object: &Bound<'_, PyAny>, stream: Option<u64>) -> PyResult<Self> {
        let py = object.py();
        let options = PyDict::new(py);
        if let Some(stream) = stream {
            options.set_item("stream", stream)?;
        }
        let plain = options.copy()?;
        options.set_item("max_version", (MAJOR, 0))?;
        // Objects without versions refuse the argument.
        let capsule = match object.call_method("__dlpack__", (), Some(&options)) {
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
                object.call_method("__dlpack__", (), Some(&plain))?
            }
            other => other?,
        };
        Self::from_capsule(&capsule)
    }

    /// Takes over what is in a capsule.
    fn from_capsule(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let pointer = capsule.as_ptr();
        // SAFETY: the object is alive; the functions check that it is a capsule of this name, and what is in
        // such a capsule is what DLPack says.
        unsafe {
            if ffi::PyCapsule_CheckExact(pointer) == 0 {
                return Err(kind(format!(
                    "__dlpack__ returned {}: expected a capsule",
                    capsule.get_type().name()?
                )));
            }
            if ffi::PyCapsule_IsValid(pointer, VERSIONED.as_ptr()) != 0 {
                let content = ffi::PyCapsule_GetPointer(pointer, VERSIONED.as_ptr());
                let content = content.cast::<ManagedVersioned>();
                let major = (*content).version.major;
                if major != MAJOR {
                    return Err(value(format!(
                        "a DLPack capsule of version {major}: expected version {MAJOR}"
                    )));
                }
                ffi::PyCapsule_SetName(pointer, VERSIONED_USED.as_ptr());
                return Ok(Self(Content::Versioned(NonNull::new_unchecked(content))));
            }
            if ffi::PyCapsule_IsValid(pointer, NAME.as_ptr()) != 0 {
                let content = ffi::PyCapsule_GetPointer(pointer, NAME.as_ptr());
                ffi::PyCapsule_SetName(pointer, USED.as_ptr());
                return Ok(Self(Content::Plain(NonNull::new_unchecked(content.cast()))));
            }
            ffi::PyErr_Clear();
        }
        Err(value("a DLPack capsule that was used before: expected a new one"))
    }

    /// The array.
    pub fn tensor(&self) -> &Tensor {
        // SAFETY: the content lives until it is given back.
        unsafe {
            match self.0 {
                Content::Plain(managed) => &managed.as_ref().tensor,
                Content::Versioned(managed) => &managed.as_ref().tensor,
            }
        }
    }

    /// Whether it is said that the array is not to be written.
    pub fn is_read_only(&self) -> bool {
        match self.0 {
            Content::Plain(_) => false,
            // SAFETY: the content lives until it is given back.
            Content::Versioned(managed) => unsafe { managed.as_ref().flags & READ_ONLY != 0 },
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // What Python no longer runs for is left to the end of the process.
        Python::try_attach(|_| {
            // SAFETY: given back once, with Python's lock.
            unsafe {
                match self.0 {
                    Content::Plain(managed) => {
                        if let Some(deleter) = managed.as_ref().deleter {
                            deleter(managed.as_ptr());
                        }
                    }
                    Content::Versioned(managed) => {
                        if let Some(deleter) = managed.as_ref().deleter {
                            deleter(managed.as_ptr());
                        }
                    }
                }
            }
        });
    }
}

/// Owner of a capsule's content: the numbers that its tensor points to, and the memory's owner.
struct Owner<T> {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _memory: T,
}

/// Lends an array of `shape` without gaps at `address`, which lives as long as `memory`: a capsule with a version
/// if the borrower knows of them.
pub fn lend<'py, T: Send + 'static>(
    py: Python<'py>,
    memory: T,
    address: u64,
    device: Device,
    dtype: DataType,
    shape: &[usize],
    versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1) as i64;
    }
    let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
    let mut owner = Box::new(Owner { shape, strides, _memory: memory });
    let tensor = Tensor {
        data: address as *mut c_void,
        device,
        ndim: owner.shape.len() as i32,
        dtype,
        shape: owner.shape.as_mut_ptr(),
        strides: owner.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(owner).cast::<c_void>();
    let (content, name, end): (*mut c_void, &CStr, ffi::PyCapsule_Destructor) = if versioned {
        let managed = ManagedVersioned {
            version: Version { major: MAJOR, minor: 0 },
            context,
            deleter: Some(delete_versioned::<T>),
            flags: 0,
            tensor,
        };
        (Box::into_raw(Box::new(managed)).cast(), VERSIONED, end_versioned)
    } else {
        let managed = Managed { tensor, context, deleter: Some(delete::<T>) };
        (Box::into_raw(Box::new(managed)).cast(), NAME, end_plain)
    };
    // SAFETY: the content lives until its deleter is called, by the borrower or by the capsule's end.
    unsafe {
        Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(content, name.as_ptr(), Some(end)))
    }
}

/// Gives back what a capsule of ours lent.
unsafe extern "C" fn delete<T>(managed: *mut Managed) {
    // SAFETY: called once, of what `lend` made.
    unsafe { drop(Box::from_raw(Box::from_raw(managed).context.cast::<Owner<T>>())) };
}

/// The same of one with a version.
unsafe extern "C" fn delete_versioned<T>(managed: *mut ManagedVersioned) {
    // SAFETY: called once, of what `lend` made.
    unsafe { drop(Box::from_raw(Box::from_raw(managed).context.cast::<Owner<T>>())) };
}

/// Ends a capsule: content that was not borrowed is freed.
unsafe extern "C" fn end_plain(capsule: *mut ffi::PyObject) {
    // SAFETY: Python ends a capsule once; its name says whether somebody has the content.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast::<Managed>();
            if let Some(deleter) = (*managed).deleter {
                deleter(managed);
            }
        }
    }
}

/// The same of one with a version.
unsafe extern "C" fn end_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr());
            let managed = managed.cast::<ManagedVersioned>();
            if let Some(deleter) = (*managed).deleter {
                deleter(managed);
            }
        }
    }
}

/// A slice at a pointer that may be null where there is nothing.
///
/// # Safety
/// There are `len` numbers at `pointer`.
pub unsafe fn numbers<'a>(pointer: *const i64, len: usize) -> Option<&'a [i64]> {
    let pointer = if len == 0 { ptr::dangling() } else { pointer };
    // SAFETY: the caller's promise.
    (!pointer.is_null()).then(|| unsafe { std::slice::from_raw_parts(pointer, len) })
}
