//! Devices that may not be there.

use std::sync::Arc;

use corrust::{Device, Error, device::Gpu};

/// The GPU of a device; says why if it is not there, and fails if `CORRUST_REQUIRE` names it.
pub fn open(device: Device) -> Option<Arc<dyn Gpu>> {
    match device.open() {
        Ok(gpu) => Some(gpu.expect("a device that runs the kernels")),
        Err(Error::Device(reason)) => {
            let required = std::env::var("CORRUST_REQUIRE").unwrap_or_default();
            let required = required.split(',').any(|name| name == device.to_string());
            assert!(!required, "{reason}");
            println!("{device}: skipped: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
