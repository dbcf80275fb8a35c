//! The simulator as a GPU: the PTX of the kernels, run on the CPU warp by warp by `ptx-sim`.
//!
//! Slow and strict: accesses out of bounds, races in shared memory and results read before they were
//! waited for are errors that name the kernel, block, warp, lane and PTX line. The kernels' work is
//! counted: [`SimGpu::report`].

use std::{
    collections::{BTreeMap, HashMap},
    env, fmt, fs,
    ops::{Deref, DerefMut},
    path::Path,
    ptr::NonNull,
    slice,
    sync::{Arc, Mutex},
};

use corrust_gpu::abi::Entry;
use ptx_sim::{Launch, Memory, Module, Report};

use crate::{
    device::{
        gpu::{Facts, Gpu, LockedBytes, Rows, Stream, TensorMap, lock},
        ptx::Kernels,
    },
    error::{Error, Result},
};

/// Names a folder into which simulators write, after each launch of a kernel, what all of them counted of it so far:
/// `KERNEL.txt`.
pub const REPORT_VARIABLE: &str = "CORRUST_REPORT";

/// A simulated GPU with a memory of its own.
pub struct SimGpu {
    pub(super) name: String,
    facts: Facts,
    kernels: Kernels,
    memory: Arc<Memory>,
    modules: Mutex<HashMap<&'static str, Arc<Module>>>,
    reports: Mutex<HashMap<&'static str, Report>>,
}

impl SimGpu {
    /// A GPU of compute capability 9.0 with four multiprocessors, few enough that kernels whose
    /// blocks take several tiles in turn do so at small sizes too.
    pub fn new() -> Self {
        Self::with_kernels(&Kernels::default())
    }

    /// The same with other kernels in place of those of the same name.
    pub fn with_kernels(kernels: &Kernels) -> Self {
        Self {
            name: "sim".to_owned(),
            kernels: kernels.clone(),
            facts: Facts {
                name: "simulator".to_owned(),
                uuid: String::new(),
                memory: 1 << 32,
                capability: (9, 0),
                multiprocessors: 4,
                shared_bytes: 227 << 10,
                l2_bytes: 50 << 20,
                driver: (0, 0),
            },
            memory: Arc::new(Memory::new()),
            modules: Mutex::default(),
            reports: Mutex::default(),
        }
    }

    /// Counters of all launches of a kernel so far; nothing if there was none.
    pub fn report(&self, entry: &Entry) -> Option<Report> {
        lock(&self.reports).get(entry.name).cloned()
    }

    /// Adds the counters of every kernel to those of `reports`, by the kernels' names.
    pub(super) fn add_reports(&self, reports: &mut BTreeMap<&'static str, Report>) {
        for (name, report) in &*lock(&self.reports) {
            reports.entry(name).or_default().merge(report);
        }
    }

    /// Error of a kernel, with the file that its lines are of.
    fn error(&self, entry: &Entry, found: &ptx_sim::Error) -> Error {
        Error::Device(format!("simulator: {}: {found}", self.kernels.file(entry).display()))
    }

    fn module(&self, entry: &Entry) -> Result<Arc<Module>> {
        if let Some(module) = lock(&self.modules).get(entry.name) {
            return Ok(module.clone());
        }
        let module = Arc::new(
            Module::parse(self.kernels.ptx(entry)).map_err(|found| self.error(entry, &found))?,
        );
        lock(&self.modules).insert(entry.name, module.clone());
        Ok(module)
    }
}

impl Default for SimGpu {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SimGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimGpu")
    }
}

/// Simulated memory that the host uses as its own.
struct Mapped {
    memory: Arc<Memory>,
    address: u64,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the pointer is to memory that this alone frees.
unsafe impl Send for Mapped {}

// SAFETY: as above; only exclusive borrows change it, and kernels, which their launcher keeps apart from the host's
// use.
unsafe impl Sync for Mapped {}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: an allocation of `bytes` bytes, freed only when `self` is dropped.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Mapped {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed for this alone.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = self.memory.free(self.address);
    }
}

/// Adds a launch to the file of its kernel.
fn write_report(folder: &Path, entry: &Entry, report: &Report) -> Result<()> {
    static WRITTEN: Mutex<BTreeMap<&str, Report>> = Mutex::new(BTreeMap::new());
    let mut written = lock(&WRITTEN);
    let sum = written.entry(entry.name).or_default();
    sum.merge(report);
    let path = folder.join(format!("{}.txt", entry.name));
    fs::write(&path, sum.to_string()).map_err(Error::io(&path, "write"))
}

fn error(error: ptx_sim::Error) -> Error {
    Error::Device(format!("simulator: {error}"))
}

// Everything happens at once, in the order of the calls, so that streams need no order.
impl Gpu for SimGpu {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(self.facts.memory.saturating_sub(self.memory.allocated()))
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        let available = self.free_bytes()?;
        if bytes as u64 > available {
            return Err(Error::OutOfMemory {
                device: self.facts.name.clone(),
                needed: bytes as u64,
                available,
            });
        }
        Ok(self.memory.alloc(bytes as u64))
    }

    unsafe fn free(&self, address: u64) {
        let _ = self.memory.free(address);
    }

    fn holds(&self, address: u64) -> bool {
        self.memory.read(address, &mut [0]).is_ok()
    }

    fn create_stream(&self) -> Result<Stream> {
        Ok(Stream::default())
    }

    fn order(&self, _earlier: Stream, _later: Stream) -> Result<()> {
        Ok(())
    }

    unsafe fn upload_filled(
        &self,
        _stream: Stream,
        address: u64,
        bytes: usize,
        fill: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<()> {
        // Parts of odd lengths, as a GPU's might be for other sizes of its staging memory.
        const PART: usize = 4 * 331;
        let mut part = vec![0; PART.min(bytes)];
        for first in (0..bytes).step_by(PART) {
            let part = &mut part[..PART.min(bytes - first)];
            fill(first, part);
            self.memory.write(address + first as u64, part).map_err(error)?;
        }
        Ok(())
    }

    fn locked_bytes(&self, bytes: usize) -> Result<LockedBytes> {
        let address = self.memory.alloc_zeros(bytes as u64);
        let start = self.memory.host_pointer(address).map_err(error)?;
        Ok(LockedBytes::new(Mapped { memory: self.memory.clone(), address, start, bytes }))
    }

    fn reach(&self, bytes: &LockedBytes) -> Result<u64> {
        self.memory.address_of(bytes.as_ptr()).map_err(error)
    }

    unsafe fn copy_in(
        &self,
        _stream: Stream,
        address: u64,
        bytes: &[u8],
        rows: &Rows,
    ) -> Result<()> {
        for row in 0..rows.count {
            let from = &bytes[rows.from + row * rows.from_pitch..][..rows.width];
            let to = address + (rows.to + row * rows.to_pitch) as u64;
            self.memory.write(to, from).map_err(error)?;
        }
        Ok(())
    }

    unsafe fn copy_rows(&self, _stream: Stream, to: u64, from: u64, rows: &Rows) -> Result<()> {
        let mut bytes = vec![0; rows.width];
        for row in 0..rows.count {
            let from = from + (rows.from + row * rows.from_pitch) as u64;
            self.memory.read(from, &mut bytes).map_err(error)?;
            let to = to + (rows.to + row * rows.to_pitch) as u64;
            self.memory.write(to, &bytes).map_err(error)?;
        }
        Ok(())
    }

    unsafe fn download(&self, _stream: Stream, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.memory.read(address, bytes).map_err(error)
    }

    unsafe fn set_rows(&self, _stream: Stream, address: u64, rows: &Rows, byte: u8) -> Result<()> {
        let bytes = vec![byte; rows.width];
        (0..rows.count).try_for_each(|row| {
            let to = address + (rows.to + row * rows.to_pitch) as u64;
            self.memory.write(to, &bytes).map_err(error)
        })
    }

    fn tensor_map(&self, map: &TensorMap) -> Result<[u8; 128]> {
        ptx_sim::TensorMap {
            address: map.address,
            element_bytes: 1,
            shape: map.sizes.to_vec(),
            strides: map.strides.to_vec(),
            box_shape: vec![map.box_bytes, map.box_rows, 1],
            element_strides: vec![1; 3],
            swizzle: if matches!(map.box_bytes, 32 | 128) { map.box_bytes } else { 0 },
        }
        .encode()
        .map_err(error)
    }

    unsafe fn launch_bytes(
        &self,
        _stream: Stream,
        entry: &Entry,
        blocks: u32,
        parameters: &[u8],
    ) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let launch = Launch {
            entry: entry.name,
            grid: [blocks, 1, 1],
            block: [entry.threads, 1, 1],
            shared_bytes: entry.shared_bytes,
            params: parameters,
            ..Launch::default()
        };
        let report = ptx_sim::launch(&*self.module(entry)?, &self.memory, launch)
            .map_err(|found| self.error(entry, &found))?;
        lock(&self.reports).entry(entry.name).or_default().merge(&report);
        match env::var_os(REPORT_VARIABLE).filter(|folder| !folder.is_empty()) {
            Some(folder) => write_report(Path::new(&folder), entry, &report),
            None => Ok(()),
        }
    }

    fn wait(&self, _stream: Stream) -> Result<()> {
        Ok(())
    }
}
