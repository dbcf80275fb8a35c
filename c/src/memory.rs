//! Arguments from C: structs with their sizes, texts, and memory.

use std::{
    ffi::{CStr, c_char, c_void},
    mem::MaybeUninit,
    slice,
    str::FromStr,
};

use bytemuck::Pod;
use corrust_host::{
    Devices, Error, Layout,
    device::{DeviceSlice, DeviceSliceMut, Stream},
    samples::{Element, Extents, Memory, Missing, Samples, Strides},
};

use crate::border::{Result, invalid};

/// A range of times, channels and inputs of which every sample is missing: `begin` counts, `end` does not. Channels or
/// inputs from 0 to 0 are all of them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MissingRange {
    /// First time, counted from the first of the samples.
    pub times_begin: usize,
    /// Time after the last.
    pub times_end: usize,
    /// First channel.
    pub channels_begin: usize,
    /// Channel after the last.
    pub channels_end: usize,
    /// First input.
    pub inputs_begin: usize,
    /// Input after the last.
    pub inputs_end: usize,
}

/// Samples to be read: where they are, how they lie, which are missing. Set to zero what does not matter.
///
/// Strides are bytes from a sample to its neighbour along an axis; all zero, samples lie in the plan's layout without
/// gaps. Of a channeliser's raw samples, `input_stride` (nt) or `time_stride` (tn) is the distance of rows, the others
/// are zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SamplesView {
    /// sizeof (struct corrust_samples).
    pub size: usize,
    /// The first sample: an address of the host, or of the device.
    pub data: *const c_void,
    /// Bytes from there on that may be read.
    pub bytes: usize,
    /// A CUstream (cudaStream_t), after whose work so far samples on the device are read; NULL is the default stream. It
    /// has to live until the call returns.
    pub stream: *mut c_void,
    /// Times; 0: as many as `bytes` hold without gaps.
    pub times: usize,
    /// From one channel to the next.
    pub channel_stride: usize,
    /// From one input to the next.
    pub input_stride: usize,
    /// From one time to the next.
    pub time_stride: usize,
    /// Ranges of samples that are missing, and count as zero whatever their bytes; NULL: none.
    pub missing: *const MissingRange,
    /// Number of ranges.
    pub missing_count: usize,
    /// Whether `data` is an address of the device.
    pub on_device: Flag,
}

/// Memory to be written.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Room {
    /// An address of the host, or of the device.
    pub data: *mut c_void,
    /// Bytes from there on.
    pub bytes: usize,
    /// A CUstream (cudaStream_t) in whose order room on the device is written; NULL is the default stream.
    pub stream: *mut c_void,
    /// Whether `data` is an address of the device.
    pub on_device: Flag,
}

/// `bool` of C, of which any byte but 0 is true here.
pub type Flag = u8;

/// A struct that says its size in its first member, and all of whose members may be zero.
///
/// # Safety
/// The type is `repr(C)`, its first member is `size: usize`, and it is valid whatever its bytes are.
pub unsafe trait Described: Copy {
    /// The name that C knows it by.
    const NAME: &'static str;
}

// SAFETY: as the trait asks: numbers and pointers, `size` first.
unsafe impl Described for SamplesView {
    const NAME: &'static str = "corrust_samples";
}

/// Reads a struct that says its size; members beyond are zero.
///
/// # Safety
/// `pointer` is NULL or leads to a number of bytes, and these bytes.
pub unsafe fn read<T: Described>(pointer: *const T) -> Result<T> {
    const WORD: usize = size_of::<usize>();
    let name = T::NAME;
    if pointer.is_null() {
        return invalid(format!("{name}: found NULL, expected a struct"));
    }
    // SAFETY: the caller's promise.
    let size = unsafe { pointer.cast::<usize>().read_unaligned() };
    if size < WORD || size > size_of::<T>() || !size.is_multiple_of(WORD) {
        return invalid(format!(
            "{name}.size: found {size}, expected sizeof (struct {name}), {} in this version",
            size_of::<T>()
        ));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: `size` bytes exist and fit in a T, for which any bytes are valid.
    unsafe {
        pointer.cast::<u8>().copy_to_nonoverlapping(value.as_mut_ptr().cast(), size);
        Ok(value.assume_init())
    }
}

/// A text; none for NULL.
///
/// # Safety
/// `pointer` is NULL or a text that ends with a zero, and stays during the call.
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    let text = text.to_str().map_err(|_| Error::invalid(format!("{name}: expected UTF-8")))?;
    Ok(Some(text))
}

/// Value that a text names; none for NULL.
///
/// # Safety
/// As for [`text`].
pub unsafe fn named<T: FromStr<Err = Error>>(
    pointer: *const c_char,
    name: &str,
) -> Result<Option<T>> {
    // SAFETY: the caller's promise.
    let text = unsafe { text(pointer, name)? };
    Ok(text.map(str::parse).transpose()?)
}

/// The devices that a text names; `auto` for NULL.
///
/// # Safety
/// As for [`text`].
pub unsafe fn devices(pointer: *const c_char) -> Result<Devices> {
    // SAFETY: the caller's promise.
    Ok(unsafe { named(pointer, "device")? }.unwrap_or_default())
}

fn check<T>(pointer: *const T, count: usize, name: &str) -> Result<()> {
    if pointer.is_null() && count > 0 {
        return invalid(format!("{name}: found NULL, expected the address of {count}"));
    }
    let bytes = count.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
    if bytes.is_none_or(|bytes| (pointer as usize).checked_add(bytes).is_none()) {
        return invalid(format!("{name}: found {count}, expected as many as can be addressed"));
    }
    Ok(())
}

/// Bytes of the host to be read.
///
/// # Safety
/// `pointer` is NULL or points to `count` bytes, which do not change during the call.
pub unsafe fn bytes<'a>(pointer: *const c_void, count: usize, name: &str) -> Result<&'a [u8]> {
    check(pointer.cast::<u8>(), count, name)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller's promise, checked as far as can be.
    Ok(unsafe { slice::from_raw_parts(pointer.cast(), count) })
}

/// Values of the host, wherever they begin.
///
/// # Safety
/// As for [`bytes`]; any bytes are a T.
pub unsafe fn values<T: Copy>(pointer: *const T, count: usize, name: &str) -> Result<Vec<T>> {
    check(pointer, count, name)?;
    // SAFETY: within what the caller promises.
    Ok((0..count).map(|index| unsafe { pointer.add(index).read_unaligned() }).collect())
}

/// Checks that room of the host is for `expected` values, if any is wanted: NULL says that none is.
pub fn check_wanted<T>(pointer: *const T, count: usize, expected: usize, name: &str) -> Result<()> {
    if !pointer.is_null() && count != expected {
        return invalid(format!("{name}: found room for {count}, expected {expected}"));
    }
    check(pointer, if pointer.is_null() { 0 } else { count }, name)
}

/// Writes values to room of the host that [`check_wanted`] has checked, if they are wanted.
///
/// # Safety
/// `pointer` is NULL or has room for the values.
pub unsafe fn write<T: Copy>(pointer: *mut T, values: impl IntoIterator<Item = T>) {
    if !pointer.is_null() {
        for (index, value) in values.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { pointer.add(index).write_unaligned(value) };
        }
    }
}

/// Device memory, checked as far as can be.
fn check_device(address: u64, bytes: usize, element: usize, name: &str) -> Result<()> {
    if address == 0 || address.checked_add(bytes as u64).is_none() {
        return invalid(format!(
            "{name}: found {bytes} bytes at device address {address:#x}, expected device memory"
        ));
    }
    if !address.is_multiple_of(element as u64) {
        return invalid(format!(
            "{name}: found device address {address:#x}, expected a multiple of {element}"
        ));
    }
    Ok(())
}

impl SamplesView {
    /// Whether `data` is on the device.
    pub fn on_device(&self) -> bool {
        self.on_device != 0
    }

    /// The memory.
    ///
    /// # Safety
    /// It is there.
    pub unsafe fn memory<'a>(&self) -> Result<Memory<'a>> {
        if !self.on_device() {
            // SAFETY: the caller's promise.
            return Ok(Memory::Host(unsafe { bytes(self.data, self.bytes, "samples.data")? }));
        }
        let address = self.data.addr() as u64;
        check_device(address, self.bytes, 1, "samples.data")?;
        let stream = Stream::from_raw(self.stream.addr() as u64);
        // SAFETY: the caller's promise.
        Ok(Memory::Device(unsafe { DeviceSlice::from_raw(address, self.bytes, stream) }))
    }

    /// Missing ranges.
    ///
    /// # Safety
    /// `missing` is NULL or leads to `missing_count` ranges.
    pub unsafe fn missing(&self) -> Result<Vec<Missing>> {
        // SAFETY: the caller's promise.
        let ranges = unsafe { values(self.missing, self.missing_count, "samples.missing")? };
        let range = |what: &str, begin: usize, end: usize, all: bool| match (begin, end) {
            (0, 0) if all => Ok(0..usize::MAX),
            (begin, end) if begin <= end => Ok(begin..end),
            _ => invalid(format!(
                "samples.missing: found {what} {begin} to {end}, expected an end after the beginning"
            )),
        };
        let missing = ranges.iter().map(|missing| {
            Ok(Missing {
                times: range("times", missing.times_begin, missing.times_end, false)?,
                channels: range("channels", missing.channels_begin, missing.channels_end, true)?,
                inputs: range("inputs", missing.inputs_begin, missing.inputs_end, true)?,
            })
        });
        missing.collect()
    }

    /// Whether samples lie in the plan's layout without gaps.
    pub fn is_dense(&self) -> bool {
        (self.channel_stride, self.input_stride, self.time_stride) == (0, 0, 0)
    }

    /// Samples of a plan of `channels` channels and `inputs` inputs.
    ///
    /// # Safety
    /// The memory that it describes exists.
    pub unsafe fn samples<'a>(
        &self,
        element: impl Into<Element>,
        layout: Layout,
        channels: usize,
        inputs: usize,
    ) -> Result<Samples<'a>> {
        let element = element.into();
        // SAFETY: the caller's promise.
        let memory = unsafe { self.memory()? };
        if self.is_dense() && self.times == 0 {
            return Ok(Samples::new(memory, inputs, channels, element, layout)?);
        }
        if self.times == 0 {
            return invalid("samples.times: found 0 beside strides, expected how many there are");
        }
        let extents = Extents { channels, inputs, times: self.times };
        let strides = if self.is_dense() {
            // Whatever is beyond memory is refused below, if it can be counted.
            let step =
                channels.saturating_mul(inputs).saturating_mul(element.planes() * element.bytes());
            if self
                .times
                .div_ceil(element.times())
                .checked_mul(step)
                .is_none_or(|bytes| bytes > self.bytes)
            {
                return invalid(format!(
                    "samples.bytes: found {}, expected {step} for each of {} times",
                    self.bytes, self.times
                ));
            }
            Strides::dense(layout, extents, element)
        } else {
            Strides {
                channel: self.channel_stride,
                input: self.input_stride,
                time: self.time_stride,
            }
        };
        Ok(Samples::strided(memory, element, extents, strides)?)
    }
}

/// Reads a room.
///
/// # Safety
/// `pointer` is NULL or leads to one.
pub unsafe fn room(pointer: *const Room, name: &str) -> Result<Room> {
    if pointer.is_null() {
        return invalid(format!("{name}: found NULL, expected a corrust_room"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { pointer.read_unaligned() })
}

impl Room {
    /// Whether `data` is on the device.
    pub fn on_device(&self) -> bool {
        self.on_device != 0
    }

    /// Checks that there are `expected` bytes.
    pub fn check(&self, name: &str, expected: usize) -> Result<()> {
        if self.bytes != expected {
            return invalid(format!("{name}: found {} bytes, expected {expected}", self.bytes));
        }
        if self.on_device() {
            return check_device(self.data.addr() as u64, self.bytes, 1, name);
        }
        check(self.data.cast::<u8>(), self.bytes, name)
    }

    /// The room on the device as `T`s, at an address that is a multiple of their size.
    ///
    /// # Safety
    /// It is there.
    pub unsafe fn device<'a, T: Pod>(&self, name: &str) -> Result<DeviceSliceMut<'a, T>> {
        let (address, stream) = (self.data.addr() as u64, self.stream.addr() as u64);
        check_device(address, self.bytes, size_of::<T>(), name)?;
        let len = self.bytes / size_of::<T>();
        // SAFETY: the caller's promise.
        Ok(unsafe { DeviceSliceMut::from_raw(address, len, Stream::from_raw(stream)) })
    }

    /// Copies bytes to room of the host that [`check`](Self::check) has checked.
    ///
    /// # Safety
    /// It is there.
    pub unsafe fn fill(&self, bytes: &[u8]) {
        let count = bytes.len().min(self.bytes);
        if count > 0 {
            // SAFETY: the caller's promise.
            unsafe { bytes.as_ptr().copy_to_nonoverlapping(self.data.cast(), count) };
        }
    }
}
