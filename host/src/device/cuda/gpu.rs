//! A CUDA device, through `cust`.

use std::{
    collections::{HashMap, HashSet},
    ffi::c_void,
    fmt,
    sync::{
        Mutex, MutexGuard, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use corrust_gpu::abi::{Entry, Target};
use cust::{
    context::{Context, CurrentContext},
    device::Device,
    error::CudaError,
    memory::LockedBuffer,
    module::Module,
    stream::{Stream as CudaStream, StreamFlags},
    sys,
};
use rayon::prelude::*;

use super::{
    driver,
    facts::{check, device_error, facts},
    streams::{Event, STAGING_BYTES, STAGING_SLOTS, SharedStream, Slot, Staging},
};
use crate::{
    device::{
        gpu::{Facts, Gpu, LockedBytes, Rows, Stream, TensorMap, lock},
        ptx::Kernels,
    },
    error::{Error, Result},
};

/// Bytes that one thread copies at a time.
const PART: usize = 1 << 18;

/// Bytes of each of the page-locked buffers that a thread fills on the way to the device: measured on an
/// H200's host of 16 cores, half or four times as many are slower.
const FILLING_BYTES: usize = 1 << 20;

/// Buffers of a thread: one is on its way while it fills the other.
const SLOTS_OF_THREAD: usize = 2;

/// Most threads that fill them: more are no quicker there.
const MOST_FILLERS: usize = 12;

/// A kernel loaded on a device.
struct Loaded {
    function: sys::CUfunction,
    /// Keeps `function` alive.
    _module: Module,
}

// SAFETY: a CUfunction may be used by any thread whose current context is the module's.
unsafe impl Send for Loaded {}

/// A CUDA device with its primary context.
pub(super) struct CudaGpu {
    ordinal: u32,
    name: String,
    facts: Facts,
    ptx: Kernels,
    context: Context,
    default_stream: CudaStream,
    streams: Mutex<Vec<CudaStream>>,
    kernels: Mutex<HashMap<&'static str, Loaded>>,
    /// Page-locked buffers that threads fill for uploads, [`SLOTS_OF_THREAD`] each.
    filling: OnceLock<Mutex<Vec<Slot>>>,
    staging: OnceLock<Mutex<Staging>>,
    /// Contexts of other GPUs whose memory this one was asked to reach.
    peers: Mutex<HashSet<usize>>,
}

// SAFETY: the driver's objects may be used by any thread whose current context is theirs; every
// method makes it so first.
unsafe impl Send for CudaGpu {}
// SAFETY: as above; what changes is behind mutexes.
unsafe impl Sync for CudaGpu {}

impl CudaGpu {
    pub(super) fn new(ordinal: u32, kernels: &Kernels) -> Result<Self> {
        let facts = facts(ordinal)?;
        let name = format!("cuda:{ordinal}");
        if !facts.runs(Target::Sm80) {
            let (major, minor) = facts.capability;
            return Err(Error::Device(format!(
                "{name} ({}) has compute capability {major}.{minor}: the kernels need 8.0 or later",
                facts.name
            )));
        }
        let open = || {
            let context = Context::new(Device::get_device(ordinal)?)?;
            CurrentContext::set_current(&context)?;
            let default_stream = CudaStream::new(StreamFlags::NON_BLOCKING, None)?;
            Ok((context, default_stream))
        };
        let (context, default_stream) = open().map_err(|error| device_error(&name, error))?;
        Ok(Self {
            ordinal,
            name,
            facts,
            ptx: kernels.clone(),
            context,
            default_stream,
            streams: Mutex::default(),
            kernels: Mutex::default(),
            filling: OnceLock::new(),
            staging: OnceLock::new(),
            peers: Mutex::default(),
        })
    }

    /// Makes the device's context current for the calling thread.
    fn enter(&self) -> Result<()> {
        let current = CurrentContext::set_current(&self.context);
        current.map_err(|error| self.error(error))
    }

    fn error(&self, error: CudaError) -> Error {
        device_error(&self.name, error)
    }

    fn check(&self, result: sys::CUresult) -> Result<()> {
        check(&self.name, result)
    }

    fn stream(&self, stream: Stream) -> sys::CUstream {
        match stream.raw() {
            0 => self.default_stream.as_inner(),
            raw => raw as sys::CUstream,
        }
    }

    fn function(&self, entry: &Entry) -> Result<sys::CUfunction> {
        let mut kernels = lock(&self.kernels);
        if let Some(loaded) = kernels.get(entry.name) {
            return Ok(loaded.function);
        }
        if !self.facts.runs(entry.target) {
            return Err(Error::Device(format!(
                "{} ({}) does not run kernel {}, compiled for {}",
                self.name,
                self.facts.name,
                entry.name,
                entry.target.name()
            )));
        }
        let module = Module::from_ptx(self.ptx.ptx(entry), &[]);
        let module = module.map_err(|error| self.error(error))?;
        let function = module.get_function(entry.name).map_err(|error| self.error(error))?.to_raw();
        // As much as a block may have: each launch says how much it takes.
        // SAFETY: the function was loaded above.
        self.check(unsafe {
            sys::cuFuncSetAttribute(
                function,
                sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                self.facts.shared_bytes as i32,
            )
        })?;
        kernels.insert(entry.name, Loaded { function, _module: module });
        Ok(function)
    }

    /// Enqueues a copy of rows, or of bytes where they follow each other.
    ///
    /// # Safety
    /// Both sides are memory of the rows' sizes until the stream has done this work.
    unsafe fn copy_2d(&self, stream: Stream, copy: &sys::CUDA_MEMCPY2D) -> Result<()> {
        let sys::CUDA_MEMCPY2D { WidthInBytes: width, Height: rows, .. } = *copy;
        if width * rows == 0 {
            return Ok(());
        }
        self.enter()?;
        let stream = self.stream(stream);
        let contiguous = rows == 1 || (copy.srcPitch == width && copy.dstPitch == width);
        let from_host = copy.srcMemoryType == sys::CUmemorytype_enum::CU_MEMORYTYPE_HOST;
        // SAFETY: the caller's promise.
        self.check(unsafe {
            match (contiguous, from_host) {
                (false, _) => sys::cuMemcpy2DAsync_v2(copy, stream),
                (true, true) => {
                    sys::cuMemcpyHtoDAsync_v2(copy.dstDevice, copy.srcHost, width * rows, stream)
                }
                (true, false) => {
                    sys::cuMemcpyDtoDAsync_v2(copy.dstDevice, copy.srcDevice, width * rows, stream)
                }
            }
        })
    }

    fn filling(&self) -> Result<MutexGuard<'_, Vec<Slot>>> {
        if self.filling.get().is_none() {
            let count = SLOTS_OF_THREAD * rayon::current_num_threads().clamp(1, MOST_FILLERS);
            let slots = (0..count).map(|_| self.slot(FILLING_BYTES)).collect::<Result<_>>()?;
            let _ = self.filling.set(Mutex::new(slots));
        }
        Ok(lock(self.filling.get().expect("set above")))
    }

    /// Page-locked memory, and the event that says when it is free.
    fn slot(&self, bytes: usize) -> Result<Slot> {
        // SAFETY: plain bytes, written before they are read.
        let buffer = unsafe { LockedBuffer::uninitialized(bytes) };
        let buffer = buffer.map_err(|error| self.error(error))?;
        Ok((buffer, Event::new(&self.name, false)?))
    }

    /// A stream of a priority that lives as long as the GPU.
    fn add_stream(&self, priority: Option<i32>) -> Result<Stream> {
        let stream = CudaStream::new(StreamFlags::NON_BLOCKING, priority);
        let stream = stream.map_err(|error| self.error(error))?;
        let raw = Stream::from_raw(stream.as_inner() as u64);
        lock(&self.streams).push(stream);
        Ok(raw)
    }

    /// Context of another GPU's memory, which this one reaches over the bus from now on, if it can; none of memory from a pool.
    fn peer(&self, address: u64) -> Option<sys::CUcontext> {
        let mut context: sys::CUcontext = std::ptr::null_mut();
        // SAFETY: the attribute is a context, which is written; the driver only looks the address up.
        let result = unsafe {
            sys::cuPointerGetAttribute(
                std::ptr::from_mut(&mut context).cast(),
                sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_CONTEXT,
                address,
            )
        };
        if result != sys::cudaError_enum::CUDA_SUCCESS || context.is_null() {
            return None;
        }
        if lock(&self.peers).insert(context.addr()) {
            // SAFETY: a context of the driver's. Without access the driver copies through the host.
            let _ = unsafe { sys::cuCtxEnablePeerAccess(context, 0) };
        }
        Some(context)
    }

    fn staging(&self) -> Result<MutexGuard<'_, Staging>> {
        if self.staging.get().is_none() {
            let slot = || self.slot(STAGING_BYTES);
            let staging = Staging { slots: [slot()?, slot()?, slot()?, slot()?], next: 0 };
            let _ = self.staging.set(Mutex::new(staging));
        }
        Ok(lock(self.staging.get().expect("set above")))
    }
}

impl fmt::Debug for CudaGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaGpu({})", self.name)
    }
}

impl Gpu for CudaGpu {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn free_bytes(&self) -> Result<u64> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are written.
        self.check(unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok(free as u64)
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.enter()?;
        let mut address = 0;
        // SAFETY: `address` is written.
        match unsafe { sys::cuMemAlloc_v2(&mut address, bytes) } {
            sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY => Err(Error::OutOfMemory {
                device: format!("{} ({})", self.name, self.facts.name),
                needed: bytes as u64,
                available: self.free_bytes()?,
            }),
            result => self.check(result).map(|()| address),
        }
    }

    unsafe fn free(&self, address: u64) {
        if self.enter().is_ok() {
            // SAFETY: the caller's promise. The driver waits for what uses the memory.
            let _ = unsafe { sys::cuMemFree_v2(address) };
        }
    }

    fn holds(&self, address: u64) -> bool {
        use sys::CUpointer_attribute_enum::{
            CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        };
        let attribute = |attribute| {
            let mut value = u32::MAX;
            // SAFETY: both attributes are 32 bits, which are written; the driver only looks the address up.
            let result = unsafe {
                sys::cuPointerGetAttribute(
                    std::ptr::from_mut(&mut value).cast(),
                    attribute,
                    address,
                )
            };
            (result == sys::cudaError_enum::CUDA_SUCCESS).then_some(value)
        };
        self.enter().is_ok()
            && attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
                == Some(sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE as u32)
            && attribute(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) == Some(self.ordinal)
    }

    fn create_stream(&self) -> Result<Stream> {
        self.enter()?;
        self.add_stream(None)
    }

    fn create_urgent_stream(&self) -> Result<Stream> {
        self.enter()?;
        let priorities = CurrentContext::get_stream_priority_range();
        let greatest = priorities.map_err(|error| self.error(error))?.greatest;
        self.add_stream(Some(greatest))
    }

    fn order(&self, earlier: Stream, later: Stream) -> Result<()> {
        self.enter()?;
        let event = Event::new(&self.name, false)?;
        event.record(&self.name, self.stream(earlier))?;
        // SAFETY: a stream of this device; the driver keeps the event until it was waited for.
        self.check(unsafe { sys::cuStreamWaitEvent(self.stream(later), event.0, 0) })
    }

    unsafe fn upload_filled(
        &self,
        stream: Stream,
        address: u64,
        bytes: usize,
        fill: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<()> {
        self.enter()?;
        let stream = self.stream(stream);
        let mut slots = self.filling()?;
        let stream = SharedStream(stream);
        // The slot is not written before its event has happened.
        let send = |(buffer, event): &mut Slot, first: usize| -> Result<()> {
            event.synchronize(&self.name)?;
            let part = &mut buffer[..FILLING_BYTES.min(bytes - first)];
            fill(first, part);
            // SAFETY: the caller's promise; the slot stays as it is until the copy has ended.
            self.check(unsafe {
                let (to, from) = (address + first as u64, part.as_ptr().cast());
                sys::cuMemcpyHtoDAsync_v2(to, from, part.len(), stream.raw())
            })?;
            event.record(&self.name, stream.raw())
        };
        if (1..=FILLING_BYTES).contains(&bytes) {
            // Small uploads take the slots in turn: none waits for the one before.
            slots.rotate_left(1);
            return send(&mut slots[0], 0);
        }
        // Each thread takes the next part as soon as a slot of its own is free: none waits for the others.
        let parts = AtomicUsize::new(0);
        slots.par_chunks_mut(SLOTS_OF_THREAD).try_for_each(|slots| {
            self.enter()?;
            for turn in 0.. {
                let first = parts.fetch_add(1, Ordering::Relaxed).saturating_mul(FILLING_BYTES);
                if first >= bytes {
                    break;
                }
                send(&mut slots[turn % SLOTS_OF_THREAD], first)?;
            }
            Ok(())
        })
    }

    unsafe fn download(&self, stream: Stream, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.enter()?;
        let stream = self.stream(stream);
        let mut staging = self.staging()?;
        let parts = bytes.len().div_ceil(STAGING_BYTES);
        let begin = staging.next;
        // Parts are on their way while those before are copied out.
        for turn in 0..parts + STAGING_SLOTS - 1 {
            if turn < parts {
                let first = turn * STAGING_BYTES;
                let length = STAGING_BYTES.min(bytes.len() - first);
                let (buffer, event) = staging.next_slot(&self.name)?;
                // SAFETY: the caller's promise; what the slot held before has been copied out.
                self.check(unsafe {
                    let to = buffer.as_mut_ptr().cast();
                    sys::cuMemcpyDtoHAsync_v2(to, address + first as u64, length, stream)
                })?;
                event.record(&self.name, stream)?;
            }
            if let Some(done) = turn.checked_sub(STAGING_SLOTS - 1) {
                let (buffer, event) = &staging.slots[(begin + done) % STAGING_SLOTS];
                event.synchronize(&self.name)?;
                let end = bytes.len().min((done + 1) * STAGING_BYTES);
                let part = &mut bytes[done * STAGING_BYTES..end];
                let from = buffer[..part.len()].par_chunks(PART);
                part.par_chunks_mut(PART).zip(from).for_each(|(to, from)| to.copy_from_slice(from));
            }
        }
        Ok(())
    }

    fn locked_bytes(&self, bytes: usize) -> Result<LockedBytes> {
        self.enter()?;
        let buffer = LockedBuffer::new(&0, bytes).map_err(|error| self.error(error))?;
        Ok(LockedBytes::new(buffer))
    }

    fn is_locked(&self, bytes: &[u8]) -> bool {
        let page_locked = |byte: &u8| {
            let mut kind = 0u32;
            // SAFETY: `kind` is written; the driver only looks the address up.
            let result = unsafe {
                sys::cuPointerGetAttribute(
                    std::ptr::from_mut(&mut kind).cast(),
                    sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                    std::ptr::from_ref(byte).addr() as u64,
                )
            };
            result == sys::cudaError_enum::CUDA_SUCCESS
                && kind == sys::CUmemorytype_enum::CU_MEMORYTYPE_HOST as u32
        };
        self.enter().is_ok()
            && bytes.first().is_some_and(page_locked)
            && bytes.last().is_some_and(page_locked)
    }

    fn reach(&self, bytes: &LockedBytes) -> Result<u64> {
        self.enter()?;
        let mut address = 0;
        // SAFETY: `address` is written; the driver only looks the memory up.
        self.check(unsafe {
            let start = bytes.as_ptr().cast_mut().cast();
            sys::cuMemHostGetDevicePointer_v2(&mut address, start, 0)
        })?;
        Ok(address)
    }

    unsafe fn copy_in(
        &self,
        stream: Stream,
        address: u64,
        bytes: &[u8],
        rows: &Rows,
    ) -> Result<()> {
        let copy = sys::CUDA_MEMCPY2D {
            srcMemoryType: sys::CUmemorytype_enum::CU_MEMORYTYPE_HOST,
            srcHost: bytes[rows.from..].as_ptr().cast(),
            ..to_device(address, rows)
        };
        // SAFETY: the caller's promise.
        unsafe { self.copy_2d(stream, &copy) }
    }

    unsafe fn copy_rows(&self, stream: Stream, to: u64, from: u64, rows: &Rows) -> Result<()> {
        let copy = sys::CUDA_MEMCPY2D {
            srcMemoryType: sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE,
            srcDevice: from + rows.from as u64,
            ..to_device(to, rows)
        };
        // SAFETY: the caller's promise.
        unsafe { self.copy_2d(stream, &copy) }
    }

    unsafe fn fetch_peer(
        &self,
        stream: Stream,
        to: u64,
        address: u64,
        bytes: usize,
    ) -> Result<bool> {
        if bytes == 0 {
            return Ok(true);
        }
        self.enter()?;
        let Some(peer) = self.peer(address) else { return Ok(false) };
        let (context, stream) = (self.context.as_raw(), self.stream(stream));
        // SAFETY: the caller's promise.
        let copied = unsafe { sys::cuMemcpyPeerAsync(to, context, address, peer, bytes, stream) };
        self.check(copied).map(|()| true)
    }

    unsafe fn copy_out(&self, stream: Stream, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.enter()?;
        let stream = self.stream(stream);
        // SAFETY: the caller's promise.
        self.check(unsafe {
            sys::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), address, bytes.len(), stream)
        })
    }

    unsafe fn set_rows(&self, stream: Stream, address: u64, rows: &Rows, byte: u8) -> Result<()> {
        if rows.width * rows.count == 0 {
            return Ok(());
        }
        self.enter()?;
        let (address, stream) = (address + rows.to as u64, self.stream(stream));
        // SAFETY: the caller's promise.
        self.check(unsafe {
            if rows.count == 1 || rows.to_pitch == rows.width {
                sys::cuMemsetD8Async(address, byte, rows.width * rows.count, stream)
            } else {
                sys::cuMemsetD2D8Async(address, rows.to_pitch, byte, rows.width, rows.count, stream)
            }
        })
    }

    fn tensor_map(&self, map: &TensorMap) -> Result<[u8; 128]> {
        /// `cuTensorMapEncodeTiled`, which came after the driver interface that cust knows.
        type Encode = unsafe extern "C" fn(
            map: *mut AlignedMap,
            data_type: i32,
            rank: u32,
            address: u64,
            sizes: *const u64,
            strides: *const u64,
            box_sizes: *const u32,
            element_strides: *const u32,
            interleave: i32,
            swizzle: i32,
            l2_promotion: i32,
            outside: i32,
        ) -> sys::CUresult;
        #[repr(C, align(64))]
        struct AlignedMap([u8; 128]);
        const BYTES: i32 = 0;
        const NO_INTERLEAVE: i32 = 0;
        const NO_SWIZZLE: i32 = 0;
        const SWIZZLE_32: i32 = 1;
        const SWIZZLE_128: i32 = 3;
        const PROMOTE_256: i32 = 3;
        const ZEROS_OUTSIDE: i32 = 0;

        self.enter()?;
        let encode = driver::symbol(c"cuTensorMapEncodeTiled").ok_or_else(|| {
            Error::Device(format!("{}: the driver is too old for tensor maps", self.name))
        })?;
        let mut encoded = AlignedMap([0; 128]);
        // SAFETY: the symbol is the function of that name; all pointers live through the call.
        let result = unsafe {
            let encode: Encode = std::mem::transmute(encode);
            encode(
                &mut encoded,
                BYTES,
                3,
                map.address,
                map.sizes.as_ptr(),
                map.strides.as_ptr(),
                [map.box_bytes, map.box_rows, 1].as_ptr(),
                [1, 1, 1].as_ptr(),
                NO_INTERLEAVE,
                match map.box_bytes {
                    32 => SWIZZLE_32,
                    128 => SWIZZLE_128,
                    _ => NO_SWIZZLE,
                },
                PROMOTE_256,
                ZEROS_OUTSIDE,
            )
        };
        self.check(result).map(|()| encoded.0)
    }

    unsafe fn launch_bytes(
        &self,
        stream: Stream,
        entry: &Entry,
        blocks: u32,
        parameters: &[u8],
    ) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        self.enter()?;
        let function = self.function(entry)?;
        let mut arguments = [parameters.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the caller's promise; the driver copies the parameters before it returns.
        self.check(unsafe {
            sys::cuLaunchKernel(
                function,
                blocks,
                1,
                1,
                entry.threads,
                1,
                1,
                entry.shared_bytes,
                self.stream(stream),
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        })
    }

    fn wait(&self, stream: Stream) -> Result<()> {
        self.enter()?;
        // SAFETY: a stream of this device.
        self.check(unsafe { sys::cuStreamSynchronize(self.stream(stream)) })
    }

    fn is_done(&self, stream: Stream) -> Result<bool> {
        self.enter()?;
        // SAFETY: a stream of this device.
        match unsafe { sys::cuStreamQuery(self.stream(stream)) } {
            sys::cudaError_enum::CUDA_ERROR_NOT_READY => Ok(false),
            result => self.check(result).map(|()| true),
        }
    }

    fn time(&self, stream: Stream, work: &mut dyn FnMut() -> Result<()>) -> Result<Duration> {
        self.enter()?;
        let (start, end) = (Event::new(&self.name, true)?, Event::new(&self.name, true)?);
        start.record(&self.name, self.stream(stream))?;
        work()?;
        end.record(&self.name, self.stream(stream))?;
        end.synchronize(&self.name)?;
        let mut milliseconds = 0.0;
        // SAFETY: both events have happened.
        self.check(unsafe { sys::cuEventElapsedTime(&mut milliseconds, start.0, end.0) })?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds) * 1e-3))
    }
}

/// A copy of rows to device memory, whose source is still to be named.
fn to_device(address: u64, rows: &Rows) -> sys::CUDA_MEMCPY2D {
    let host = sys::CUmemorytype_enum::CU_MEMORYTYPE_HOST;
    // One row may be longer than any pitch that the driver takes.
    let pitch = |pitch: usize| if rows.count == 1 { rows.width } else { pitch };
    sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: host,
        srcHost: std::ptr::null(),
        srcDevice: 0,
        srcArray: std::ptr::null_mut(),
        srcPitch: pitch(rows.from_pitch),
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE,
        dstHost: std::ptr::null_mut(),
        dstDevice: address + rows.to as u64,
        dstArray: std::ptr::null_mut(),
        dstPitch: pitch(rows.to_pitch),
        WidthInBytes: rows.width,
        Height: rows.count,
    }
}
