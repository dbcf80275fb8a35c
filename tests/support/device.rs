//! Devices and backends that may not be there.

use std::sync::Arc;

use corrust_host::{Device, Error, Result, device::Gpu};

/// Returns what was `made` on the backend `name`; if it is not there says why, and fails if `CORRUST_REQUIRE` names
/// it (`CORRUST_REQUIRE=cuda`: all whose names start so).
pub fn there<T>(name: &str, made: Result<T>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(Error::Device(reason)) => {
            let required = std::env::var("CORRUST_REQUIRE").unwrap_or_default();
            let required = required
                .split(',')
                .any(|required| !required.is_empty() && name.starts_with(required));
            assert!(!required, "{name}: {reason}");
            println!("{name}: skipped: {reason}");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

/// The GPU of a device, if it is [there].
pub fn open(device: Device) -> Option<Arc<dyn Gpu>> {
    there(&device.to_string(), device.open())
}
