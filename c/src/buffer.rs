//! Memory of a device, for programs without a CUDA library of their own, and for the simulator.

use std::{
    ffi::{c_char, c_void},
    ptr,
    sync::Arc,
};

use corrust_host::device::{Buffer as DeviceBuffer, Gpu, Stream};

use crate::{
    border::{Handle, Result, Status, free, give, invalid, tell, with},
    memory::{bytes as host_bytes, devices},
};

/// Memory of a device.
pub struct DeviceMemory {
    gpu: Arc<dyn Gpu>,
    buffer: DeviceBuffer,
}

/// Memory of a device, from corrust_buffer_new.
pub type Buffer = Handle<DeviceMemory>;

/// Reserves `bytes` bytes of the memory of `device`: "cuda", "cuda:1", "sim". Their contents are undefined. Programs with
/// a CUDA library of their own do without: plans take any memory of their device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_buffer_new(
    device: *const c_char,
    bytes: usize,
    buffer: *mut *mut Buffer,
) -> Status {
    let make = || {
        // SAFETY: the caller passes a text.
        let gpus = unsafe { devices(device)? }.open()?;
        let [gpu] = &gpus[..] else {
            return invalid(format!("a buffer of {} GPUs: expected one GPU", gpus.len()));
        };
        Ok(DeviceMemory { gpu: gpu.clone(), buffer: DeviceBuffer::new(gpu, bytes)? })
    };
    // SAFETY: the caller passes room for the address.
    unsafe { give(buffer, "corrust_buffer", make) }
}

/// The address on the device; NULL of NULL, and of no bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_buffer_data(buffer: *const Buffer) -> *mut c_void {
    // SAFETY: the caller passes a buffer.
    let address = unsafe { tell(buffer, |memory| memory.buffer.address() as usize) };
    ptr::without_provenance_mut(address)
}

/// Checks that a buffer has `count` bytes from `first` on, and returns their address.
fn place(memory: &DeviceMemory, first: usize, count: usize) -> Result<u64> {
    let all = memory.buffer.bytes();
    if first.checked_add(count).is_none_or(|end| end > all) {
        return invalid(format!(
            "{count} bytes from {first} on of a buffer: expected them within its {all} bytes"
        ));
    }
    Ok(memory.buffer.address() + first as u64)
}

/// Copies `bytes` bytes to the buffer, from its byte `first` on, in the order of the device's default stream. The host's
/// memory is free for other use on return.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_buffer_upload(
    buffer: *mut Buffer,
    first: usize,
    data: *const c_void,
    bytes: usize,
) -> Status {
    let work = |memory: &mut DeviceMemory| {
        let address = place(memory, first, bytes)?;
        // SAFETY: the caller passes so many bytes.
        let data = unsafe { host_bytes(data, bytes, "data")? };
        if data.is_empty() {
            return Ok(());
        }
        // SAFETY: within the buffer.
        unsafe { memory.gpu.upload(Stream::default(), address, data)? };
        Ok(())
    };
    // SAFETY: the caller passes a buffer.
    unsafe { with(buffer, "corrust_buffer", work) }
}

/// Copies `bytes` bytes from the buffer, from its byte `first` on, after what is on the device's default stream, and
/// waits for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_buffer_download(
    buffer: *mut Buffer,
    first: usize,
    data: *mut c_void,
    bytes: usize,
) -> Status {
    let work = |memory: &mut DeviceMemory| {
        let address = place(memory, first, bytes)?;
        // SAFETY: the caller passes room for `bytes` bytes, whose contents are not read.
        unsafe { host_bytes(data, bytes, "data")? };
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: checked above, and nobody else uses it during the call.
        let room = unsafe { std::slice::from_raw_parts_mut(data.cast::<u8>(), bytes) };
        // SAFETY: within the buffer.
        unsafe { memory.gpu.download(Stream::default(), address, room)? };
        Ok(())
    };
    // SAFETY: the caller passes a buffer.
    unsafe { with(buffer, "corrust_buffer", work) }
}

/// Frees a buffer; NULL is none. What a plan still reads or writes must be waited for before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_buffer_free(buffer: *mut Buffer) {
    // SAFETY: the caller passes a buffer that is not used any more.
    unsafe { free(buffer, |_| Ok(())) }
}
