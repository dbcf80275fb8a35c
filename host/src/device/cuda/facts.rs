//! CUDA devices and their facts, through `cust`.

use std::{ffi::CStr, sync::LazyLock};

use cust::{
    CudaFlags,
    device::{Device, DeviceAttribute},
    error::CudaError,
    sys,
};

use super::driver;
use crate::{
    device::gpu::Facts,
    error::{Error, Result},
};

/// Number of CUDA devices, or one sentence saying why there is none.
///
/// # Errors
/// [`Error::Device`].
pub fn count() -> Result<u32> {
    static COUNT: LazyLock<std::result::Result<u32, String>> = LazyLock::new(|| {
        if let Some(reason) = driver::missing() {
            return Err(format!("no CUDA device: the driver is not installed ({reason})"));
        }
        let count = cust::init(CudaFlags::empty()).and_then(|()| Device::num_devices());
        match count {
            Ok(0) | Err(CudaError::NoDevice) => {
                Err("no CUDA device: the driver is installed but finds no GPU".to_owned())
            }
            Ok(count) => Ok(count),
            Err(error) => Err(format!("no CUDA device: the driver fails to start ({error})")),
        }
    });
    COUNT.clone().map_err(Error::Device)
}

/// Facts of device `ordinal`, whether or not it runs the kernels.
///
/// # Errors
/// [`Error::Device`].
pub fn facts(ordinal: u32) -> Result<Facts> {
    count()?;
    read_facts(ordinal).map_err(|error| device_error(&format!("cuda:{ordinal}"), error))
}

fn read_facts(ordinal: u32) -> std::result::Result<Facts, CudaError> {
    let device = Device::get_device(ordinal)?;
    let attribute = |attribute| device.get_attribute(attribute).map(|value| value.max(0) as u32);
    let driver = cust::CudaApiVersion::get()?;
    let mut shared_bytes = 0;
    // SAFETY: the number is written; cust has no name for this attribute.
    unsafe {
        sys::cuDeviceGetAttribute(
            &mut shared_bytes,
            sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            device.as_raw(),
        );
    }
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: the identifier is written.
    unsafe { sys::cuDeviceGetUuid(&mut uuid, device.as_raw()) };
    Ok(Facts {
        name: device.name()?,
        uuid: uuid_text(uuid.bytes.map(|byte| byte as u8)),
        memory: device.total_memory()? as u64,
        capability: (
            attribute(DeviceAttribute::ComputeCapabilityMajor)?,
            attribute(DeviceAttribute::ComputeCapabilityMinor)?,
        ),
        multiprocessors: attribute(DeviceAttribute::MultiprocessorCount)?,
        shared_bytes: shared_bytes.max(0) as u32,
        l2_bytes: attribute(DeviceAttribute::L2CacheSize)?.into(),
        driver: (driver.major().max(0) as u32, driver.minor().max(0) as u32),
    })
}

/// An identifier as `nvidia-smi` writes it.
fn uuid_text(uuid: [u8; 16]) -> String {
    let mut text = "GPU".to_owned();
    for (index, byte) in uuid.iter().enumerate() {
        if [0, 4, 6, 8, 10].contains(&index) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

/// The error of a call that failed.
pub(super) fn device_error(name: &str, error: CudaError) -> Error {
    Error::Device(format!("{name}: the CUDA driver reports {error:?}"))
}

/// A driver function's answer as a result.
pub(super) fn check(name: &str, result: sys::CUresult) -> Result<()> {
    if result == sys::cudaError_enum::CUDA_SUCCESS {
        return Ok(());
    }
    let mut text = std::ptr::null();
    // SAFETY: the driver stores the address of a constant, or null.
    let text = unsafe {
        sys::cuGetErrorString(result, &mut text);
        if text.is_null() { c"unknown error" } else { CStr::from_ptr(text) }
    };
    Err(Error::Device(format!(
        "{name}: the CUDA driver reports error {} ({})",
        result as u32,
        text.to_string_lossy()
    )))
}
