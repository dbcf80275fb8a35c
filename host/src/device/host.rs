//! The memory of the machine itself.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use crate::{
    device::gpu::{Gpu, LockedBytes},
    error::{Error, Result},
};

/// Bytes in the machine's memory that are filled again and again: page-locked for a GPU, which copies them
/// from where they are, or ordinary ones.
///
/// ```
/// use corrust_host::{Device, device::HostBytes};
///
/// let gpu = Device::Sim.open()?;
/// let mut bytes = HostBytes::locked_for(Some(&gpu));
/// bytes.resize(3)?;
/// bytes.copy_from_slice(&[1, 2, 3]);
/// assert_eq!(bytes, HostBytes::from(vec![1, 2, 3]));
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Default)]
pub struct HostBytes {
    memory: HostMemory,
    /// Bytes in use of those there are.
    length: usize,
    gpu: Option<Arc<dyn Gpu>>,
}

enum HostMemory {
    Ordinary(Vec<u8>),
    Locked(LockedBytes),
}

impl HostBytes {
    /// No bytes yet, to be page-locked for a GPU, if there is one.
    pub fn locked_for(gpu: Option<&Arc<dyn Gpu>>) -> Self {
        Self { gpu: gpu.cloned(), ..Self::default() }
    }

    /// Makes them `length` bytes, contents undefined. They are ordinary ones where no more memory can be
    /// locked.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn resize(&mut self, length: usize) -> Result<()> {
        if length > self.memory.len() {
            // Memory that is too small is freed first.
            self.memory = HostMemory::default();
            self.length = 0;
            let locked = self.gpu.as_ref().and_then(|gpu| gpu.locked_bytes(length).ok());
            self.memory = match locked {
                Some(bytes) => HostMemory::Locked(bytes),
                None => HostMemory::Ordinary(zeros(length)?),
            };
        }
        self.length = length;
        Ok(())
    }

    /// Keeps the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// The bytes, copied where they are page-locked.
    pub fn into_vec(self) -> Vec<u8> {
        match self.memory {
            HostMemory::Ordinary(mut bytes) => {
                bytes.truncate(self.length);
                bytes
            }
            HostMemory::Locked(bytes) => bytes[..self.length].to_vec(),
        }
    }
}

impl HostMemory {
    fn len(&self) -> usize {
        match self {
            Self::Ordinary(bytes) => bytes.len(),
            Self::Locked(bytes) => bytes.len(),
        }
    }
}

impl Default for HostMemory {
    fn default() -> Self {
        Self::Ordinary(Vec::new())
    }
}

impl Deref for HostBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            HostMemory::Ordinary(bytes) => &bytes[..self.length],
            HostMemory::Locked(bytes) => &bytes[..self.length],
        }
    }
}

impl DerefMut for HostBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            HostMemory::Ordinary(bytes) => &mut bytes[..self.length],
            HostMemory::Locked(bytes) => &mut bytes[..self.length],
        }
    }
}

impl From<Vec<u8>> for HostBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self { length: bytes.len(), memory: HostMemory::Ordinary(bytes), gpu: None }
    }
}

impl Clone for HostBytes {
    /// An ordinary copy.
    fn clone(&self) -> Self {
        self.to_vec().into()
    }
}

impl AsRef<[u8]> for HostBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<T: AsRef<[u8]>> PartialEq<T> for HostBytes {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A vector of `count` default values, if there is memory for it.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn zeros<T: Copy + Default>(count: usize) -> Result<Vec<T>> {
    filled(T::default(), count)
}

/// Returns `count` copies of a value.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut values = room(count)?;
    values.resize(count, value);
    Ok(values)
}

/// Returns an empty vector with room for `count` values. All memory whose size a file, an option or an argument gives
/// is reserved by it, so that too little is an error.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn room<T>(count: usize) -> Result<Vec<T>> {
    let needed = (count as u64).saturating_mul(size_of::<T>() as u64);
    let available = available_bytes();
    let mut values = Vec::new();
    if available.is_some_and(|available| needed > available)
        || values.try_reserve_exact(count).is_err()
    {
        let available = available.unwrap_or(0);
        return Err(Error::OutOfMemory { device: "CPU".to_owned(), needed, available });
    }
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
