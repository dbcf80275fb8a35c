//! The memory of the machine itself.

use crate::{Error, Result};

/// A vector of `count` default values, if there is memory for it.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn zeros<T: Copy + Default>(count: usize) -> Result<Vec<T>> {
    let needed = (count as u64).saturating_mul(size_of::<T>() as u64);
    let available = available_bytes();
    let mut values = Vec::new();
    if available.is_some_and(|available| needed > available)
        || values.try_reserve_exact(count).is_err()
    {
        let available = available.unwrap_or(0);
        return Err(Error::OutOfMemory { device: "CPU".to_owned(), needed, available });
    }
    values.resize(count, T::default());
    Ok(values)
}

/// Bytes that can be allocated without swapping, where the system says so.
fn available_bytes() -> Option<u64> {
    // "MemAvailable:   12345678 kB"; elsewhere than on Linux there is no such file.
    let facts = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = facts.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_is_refused() {
        assert_eq!(zeros::<u16>(3).unwrap(), [0; 3]);
        for count in [usize::MAX, isize::MAX as usize, isize::MAX as usize / 8, 1 << 50] {
            match zeros::<u64>(count) {
                Err(Error::OutOfMemory { device, .. }) => assert_eq!(device, "CPU"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn linux_says_how_much_there_is() {
        assert!(available_bytes().unwrap() > 1 << 20);
    }
}
