//! Device global memory: allocations with gaps between them, shared by every block of a launch.
//!
//! Blocks run on many threads, so every access is a relaxed atomic of its own width. Races between
//! blocks that mix widths are as undefined here as they are on a GPU, but never unsafe for the host: the
//! bytes live in memory that only this module touches.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::{BTreeMap, HashMap};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};

use crate::error::Error;

/// First device address.
const BASE: u64 = 0x7f00_0000_0000;
/// Alignment of allocations in bytes.
const ALIGN: u64 = 256;
/// Least number of bytes between two allocations, so that an index that runs over hits nothing.
const GAP: u64 = 64 * 1024;
/// Byte that fresh memory holds: a kernel that counts on zeros fails.
const FRESH: u8 = 0xa5;

/// One allocation.
#[derive(Debug)]
pub(crate) struct Region {
    base: u64,
    bytes: u64,
    data: NonNull<u8>,
}

// SAFETY: all access to `data` goes through atomics.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    fn layout(bytes: u64) -> Layout {
        // Enough for every access; of more than this the system's zeros are written one by one.
        Layout::from_size_align(bytes.max(1) as usize, 16).expect("sizes are checked before")
    }

    fn new(base: u64, bytes: u64, zeros: bool) -> Self {
        let layout = Self::layout(bytes);
        // SAFETY: the layout is not empty.
        let data = unsafe { if zeros { alloc_zeroed(layout) } else { alloc(layout) } };
        let Some(data) = NonNull::new(data) else { handle_alloc_error(layout) };
        if !zeros {
            // SAFETY: freshly allocated with this many bytes.
            unsafe { data.write_bytes(FRESH, layout.size()) };
        }
        Self { base, bytes, data }
    }

    /// Address of the first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Whether `bytes` bytes at `address` lie inside.
    #[inline(always)]
    pub fn holds(&self, address: u64, bytes: u64) -> bool {
        address >= self.base
            && address - self.base <= self.bytes.wrapping_sub(bytes)
            && bytes <= self.bytes
    }

    #[inline(always)]
    fn pointer(&self, address: u64, bytes: u64) -> *mut u8 {
        assert!(self.holds(address, bytes) && address.is_multiple_of(bytes));
        // SAFETY: the offset lies inside of the allocation.
        unsafe { self.data.as_ptr().add((address - self.base) as usize) }
    }

    /// Loads 1, 2, 4 or 8 bytes from a multiple of their number.
    #[inline(always)]
    pub fn load(&self, address: u64, bytes: u32) -> u64 {
        let p = self.pointer(address, u64::from(bytes));
        // SAFETY: `pointer` checked bounds and alignment; other accesses are atomic too.
        unsafe {
            match bytes {
                1 => u64::from(AtomicU8::from_ptr(p).load(Relaxed)),
                2 => u64::from(AtomicU16::from_ptr(p.cast()).load(Relaxed)),
                4 => u64::from(AtomicU32::from_ptr(p.cast()).load(Relaxed)),
                _ => AtomicU64::from_ptr(p.cast()).load(Relaxed),
            }
        }
    }

    /// Stores the low 1, 2, 4 or 8 bytes.
    #[inline(always)]
    pub fn store(&self, address: u64, bytes: u32, value: u64) {
        let p = self.pointer(address, u64::from(bytes));
        // SAFETY: as for `load`.
        unsafe {
            match bytes {
                1 => AtomicU8::from_ptr(p).store(value as u8, Relaxed),
                2 => AtomicU16::from_ptr(p.cast()).store(value as u16, Relaxed),
                4 => AtomicU32::from_ptr(p.cast()).store(value as u32, Relaxed),
                _ => AtomicU64::from_ptr(p.cast()).store(value, Relaxed),
            }
        }
    }

    /// Replaces 2, 4 or 8 bytes by `f` of them; returns what was there.
    pub fn update(&self, address: u64, bytes: u32, f: impl Fn(u64) -> u64) -> u64 {
        use std::sync::atomic::Ordering::SeqCst;
        let p = self.pointer(address, u64::from(bytes));
        // SAFETY: as for `load`.
        unsafe {
            match bytes {
                2 => u64::from(
                    AtomicU16::from_ptr(p.cast())
                        .fetch_update(SeqCst, SeqCst, |v| Some(f(u64::from(v)) as u16))
                        .unwrap_or_else(|v| v),
                ),
                4 => u64::from(
                    AtomicU32::from_ptr(p.cast())
                        .fetch_update(SeqCst, SeqCst, |v| Some(f(u64::from(v)) as u32))
                        .unwrap_or_else(|v| v),
                ),
                _ => AtomicU64::from_ptr(p.cast())
                    .fetch_update(SeqCst, SeqCst, |v| Some(f(v)))
                    .unwrap_or_else(|v| v),
            }
        }
    }

    fn read(&self, address: u64, out: &mut [u8]) {
        let mut at = address;
        let mut rest = out;
        while !rest.is_empty() {
            let step = if at.is_multiple_of(8) && rest.len() >= 8 { 8 } else { 1 };
            let (head, tail) = rest.split_at_mut(step);
            head.copy_from_slice(&self.load(at, step as u32).to_le_bytes()[..step]);
            at += step as u64;
            rest = tail;
        }
    }

    fn write(&self, address: u64, data: &[u8]) {
        let mut at = address;
        let mut rest = data;
        while !rest.is_empty() {
            let step = if at.is_multiple_of(8) && rest.len() >= 8 { 8 } else { 1 };
            let (head, tail) = rest.split_at(step);
            let mut value = [0; 8];
            value[..step].copy_from_slice(head);
            self.store(at, step as u32, u64::from_le_bytes(value));
            at += step as u64;
            rest = tail;
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated with the same layout in `new`.
        unsafe { dealloc(self.data.as_ptr(), Self::layout(self.bytes)) };
    }
}

/// Global memory of a simulated device. All methods take `&self`: it may be shared between threads.
#[derive(Debug)]
pub struct Memory {
    regions: RwLock<BTreeMap<u64, Arc<Region>>>,
    next: Mutex<u64>,
    /// Addresses of the variables of modules that ran here.
    variables: Mutex<HashMap<u64, Arc<Vec<u64>>>>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// Memory without allocations.
    pub fn new() -> Self {
        Self { regions: RwLock::default(), next: Mutex::new(BASE), variables: Mutex::default() }
    }

    /// Allocates `bytes` bytes and returns their device address, a multiple of 256. The bytes are not
    /// zero. Addresses are never used twice.
    pub fn alloc(&self, bytes: u64) -> u64 {
        self.place(bytes, false)
    }

    /// As [`Self::alloc`], with zeroed bytes. Pages that are never touched take no host memory on systems that commit
    /// memory page by page.
    pub fn alloc_zeros(&self, bytes: u64) -> u64 {
        self.place(bytes, true)
    }

    fn place(&self, bytes: u64, zeros: bool) -> u64 {
        let base = {
            let mut next = self.next.lock().unwrap_or_else(|e| e.into_inner());
            let base = *next;
            *next = (base + bytes + GAP).next_multiple_of(ALIGN);
            base
        };
        let region = Arc::new(Region::new(base, bytes, zeros));
        self.regions.write().unwrap_or_else(|e| e.into_inner()).insert(base, region);
        base
    }

    /// Frees an allocation.
    ///
    /// # Errors
    /// When `address` is not what [`Memory::alloc`] returned, or was freed before.
    pub fn free(&self, address: u64) -> Result<(), Error> {
        match self.regions.write().unwrap_or_else(|e| e.into_inner()).remove(&address) {
            Some(_) => Ok(()),
            None => Err(Error::Memory(format!("0x{address:x} is not the start of an allocation"))),
        }
    }

    /// Copies `data` to `address`.
    ///
    /// # Errors
    /// When the bytes do not lie inside of one allocation.
    pub fn write(&self, address: u64, data: &[u8]) -> Result<(), Error> {
        if !data.is_empty() {
            self.find(address, data.len() as u64)?.write(address, data);
        }
        Ok(())
    }

    /// Copies from `address` to `out`.
    ///
    /// # Errors
    /// When the bytes do not lie inside of one allocation.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Error> {
        if !out.is_empty() {
            self.find(address, out.len() as u64)?.read(address, out);
        }
        Ok(())
    }

    /// Sets `bytes` bytes at `address` to zero.
    ///
    /// # Errors
    /// When the bytes do not lie inside of one allocation.
    pub fn zero(&self, address: u64, bytes: u64) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        let region = self.find(address, bytes)?;
        let mut at = address;
        while at < address + bytes {
            let step = if at.is_multiple_of(8) && address + bytes - at >= 8 { 8 } else { 1 };
            region.store(at, step, 0);
            at += u64::from(step);
        }
        Ok(())
    }

    /// First byte of an allocation in the host's memory. It stays there until the allocation is freed: whoever reads
    /// or writes it meanwhile keeps apart from kernels that use the same bytes.
    ///
    /// # Errors
    /// When `address` is in no allocation.
    pub fn host_pointer(&self, address: u64) -> Result<NonNull<u8>, Error> {
        let region = self.find(address, 0)?;
        // SAFETY: within the allocation, or its end.
        Ok(unsafe { region.data.add((address - region.base) as usize) })
    }

    /// Device address of a byte that [`Memory::host_pointer`] leads to.
    ///
    /// # Errors
    /// When it is in no allocation.
    pub fn address_of(&self, pointer: *const u8) -> Result<u64, Error> {
        let regions = self.regions.read().unwrap_or_else(|e| e.into_inner());
        let at = |region: &Region| {
            let offset = pointer.addr().checked_sub(region.data.addr().get())? as u64;
            (offset <= region.bytes).then_some(region.base + offset)
        };
        regions.values().find_map(|region| at(region)).ok_or_else(|| {
            Error::Memory(format!("{pointer:p} is not inside of an allocation's memory"))
        })
    }

    /// Bytes allocated at the moment.
    pub fn allocated(&self) -> u64 {
        let regions = self.regions.read().unwrap_or_else(|e| e.into_inner());
        regions.values().map(|r| r.bytes).sum()
    }

    fn find(&self, address: u64, bytes: u64) -> Result<Arc<Region>, Error> {
        let regions = self.regions.read().unwrap_or_else(|e| e.into_inner());
        match regions.range(..=address).next_back() {
            Some((_, region)) if region.holds(address, bytes) => Ok(Arc::clone(region)),
            _ => Err(Error::Memory(format!(
                "{bytes} bytes at 0x{address:x} are not inside of an allocation"
            ))),
        }
    }

    /// The allocations as they are now, for a launch.
    pub(crate) fn view(&self) -> View {
        let regions = self.regions.read().unwrap_or_else(|e| e.into_inner());
        View { regions: regions.values().cloned().collect() }
    }

    /// Addresses of a module's variables; `place` allocates and fills them the first time.
    pub(crate) fn variables(
        &self,
        module: u64,
        place: impl FnOnce() -> Result<Vec<u64>, Error>,
    ) -> Result<Arc<Vec<u64>>, Error> {
        let mut variables = self.variables.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(addresses) = variables.get(&module) {
            return Ok(Arc::clone(addresses));
        }
        let addresses = Arc::new(place()?);
        variables.insert(module, Arc::clone(&addresses));
        Ok(addresses)
    }
}

/// The allocations that a launch sees, by ascending address.
#[derive(Debug)]
pub(crate) struct View {
    regions: Vec<Arc<Region>>,
}

impl View {
    /// The region at or below `address`, whether it reaches that far or not.
    #[inline]
    pub fn below(&self, address: u64) -> Option<&Region> {
        let after = self.regions.partition_point(|r| r.base <= address);
        after.checked_sub(1).map(|i| &*self.regions[i])
    }

    /// The region that holds `bytes` bytes at `address`.
    #[inline]
    pub fn find(&self, address: u64, bytes: u64) -> Option<&Region> {
        self.below(address).filter(|r| r.holds(address, bytes))
    }

    /// Place of `address` in words, for a message.
    pub fn describe(&self, address: u64) -> String {
        let region = self.below(address);
        let fresh = u64::from(u32::from_le_bytes([FRESH; 4]));
        // A pointer, or an index of elements of up to 16 bytes.
        let is_fresh = address >> 32 == fresh
            || region
                .is_some_and(|r| (0..=4).any(|shift| address.abs_diff(r.base) >> shift == fresh));
        if is_fresh {
            return format!("made of 0x{fresh:x}, which memory holds that was never written");
        }
        match region {
            Some(r) if address >= r.base + r.bytes => format!(
                "{} bytes past the end of the {} bytes at 0x{:x}",
                address - r.base - r.bytes,
                r.bytes,
                r.base
            ),
            Some(r) => {
                format!("at byte {} of the {} bytes at 0x{:x}", address - r.base, r.bytes, r.base)
            }
            None => "below every allocation".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        let memory = Memory::new();
        let a = memory.alloc(1000);
        let b = memory.alloc(3);
        assert_eq!((a % ALIGN, b % ALIGN), (0, 0));
        let data: Vec<u8> = (0..777).map(|i| (i * 7) as u8).collect();
        memory.write(a + 3, &data).unwrap();
        let mut back = vec![0; 777];
        memory.read(a + 3, &mut back).unwrap();
        assert_eq!(back, data);
        memory.zero(a + 5, 11).unwrap();
        memory.read(a + 3, &mut back).unwrap();
        assert_eq!(back[2..13], [0; 11]);
        assert_eq!((back[1], back[13]), (data[1], data[13]));
        assert!(memory.write(a + 999, &[0, 0]).is_err());
        assert!(memory.read(b + 3, &mut [0]).is_err());
        let view = memory.view();
        for made in [0xa5a5_a5a5_a5a5_a5a5, b + 0xa5a5_a5a5, b + 4 * 0xa5a5_a5a5] {
            assert!(view.describe(made).contains("never written"), "{made:x}");
        }
        assert!(view.describe(b + 5).starts_with("2 bytes past the end of the 3 bytes"));
        drop(view);
        memory.free(b).unwrap();
        assert!(memory.free(b).is_err());
        assert!(memory.write(b, &[0]).is_err());
        assert_eq!(memory.allocated(), 1000);
    }
}
