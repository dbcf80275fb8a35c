//! The CUDA driver, found at run time.
//!
//! `cust` calls the driver through symbols `cu...`. They are defined here, as forwarders that look
//! the function up in `libcuda.so.1` at their first call and jump there from then on. Without a
//! driver each answers `CUDA_ERROR_NO_DEVICE`. So one binary starts everywhere, and nothing of CUDA
//! is needed to build it.

use std::{
    ffi::{CStr, c_char, c_void},
    sync::{
        OnceLock,
        atomic::{AtomicPtr, Ordering},
    },
};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Name of the driver's library.
const LIBRARY: &str = "libcuda.so.1";

fn library() -> Result<&'static Library, &'static str> {
    static DRIVER: OnceLock<Result<Library, String>> = OnceLock::new();
    DRIVER
        .get_or_init(|| {
            // SAFETY: the driver's initialisers are meant to run in any process.
            unsafe { Library::open(Some(LIBRARY), RTLD_NOW | RTLD_LOCAL) }
                .map_err(|error| error.to_string())
        })
        .as_ref()
        .map_err(String::as_str)
}

/// Why there is no driver, if there is none.
pub fn missing() -> Option<&'static str> {
    library().err()
}

/// Address of a driver function, for those that `cust` does not know.
pub fn symbol(name: &CStr) -> Option<*const c_void> {
    // SAFETY: only the address is taken.
    unsafe { library().ok()?.get::<*const c_void>(name.to_bytes_with_nul()) }
        .ok()
        .map(|symbol| symbol.into_raw().cast_const())
}

/// A forwarder's data: the address to jump to, and the name to look up until then.
///
/// The assembly below reads `target` at offset 0.
#[repr(C)]
struct Forwarder {
    target: AtomicPtr<c_void>,
    name: *const c_char,
}

// SAFETY: `name` points to a constant.
unsafe impl Sync for Forwarder {}

/// Finds where `forwarder` jumps to.
///
/// # Safety
/// `forwarder.name` is a C string.
unsafe extern "C" fn resolve(forwarder: &Forwarder) -> *const c_void {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(forwarder.name) };
    let target = symbol(name).unwrap_or(no_device as *const c_void);
    forwarder.target.store(target.cast_mut(), Ordering::Release);
    target
}

/// Stands for every driver function where there is no driver.
extern "C" fn no_device() -> i32 {
    cust::sys::cudaError_enum::CUDA_ERROR_NO_DEVICE as i32
}

macro_rules! forward {
    ($($name:ident)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            static FORWARDER: Forwarder = Forwarder {
                target: AtomicPtr::new(std::ptr::null_mut()),
                name: concat!(stringify!($name), "\0").as_ptr().cast(),
            };
            // Arguments stay where the caller put them; those in registers are kept across the
            // look-up. No driver function takes a floating-point number by value.
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "mov r11, qword ptr [rip + {forwarder}]",
                "test r11, r11",
                "jne 2f",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "sub rsp, 8",
                "lea rdi, [rip + {forwarder}]",
                "call {resolve}",
                "mov r11, rax",
                "add rsp, 8",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "2: jmp r11",
                forwarder = sym FORWARDER,
                resolve = sym resolve,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "adrp x16, {forwarder}",
                "ldr x16, [x16, :lo12:{forwarder}]",
                "cbnz x16, 2f",
                "stp x29, x30, [sp, #-80]!",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "adrp x0, {forwarder}",
                "add x0, x0, :lo12:{forwarder}",
                "bl {resolve}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]",
                "ldp x6, x7, [sp, #64]",
                "ldp x29, x30, [sp], #80",
                "2: br x16",
                forwarder = sym FORWARDER,
                resolve = sym resolve,
            );
        }
    )*};
}

// Every driver function that cust 0.3.2 calls, and those that this crate calls through its `sys`.
forward! {
    cuArray3DCreate_v2 cuArray3DGetDescriptor_v2 cuArrayDestroy cuCtxCreate_v2 cuCtxDestroy_v2 cuCtxEnablePeerAccess
    cuCtxGetApiVersion cuCtxGetCacheConfig cuCtxGetCurrent cuCtxGetDevice cuCtxGetFlags
    cuCtxGetLimit cuCtxGetSharedMemConfig cuCtxGetStreamPriorityRange cuCtxPopCurrent_v2
    cuCtxPushCurrent_v2 cuCtxSetCacheConfig cuCtxSetCurrent cuCtxSetLimit cuCtxSetSharedMemConfig
    cuCtxSynchronize cuDestroyExternalMemory cuDeviceGet cuDeviceGetAttribute cuDeviceGetCount
    cuDeviceGetName cuDeviceGetUuid cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset_v2
    cuDevicePrimaryCtxRetain cuDevicePrimaryCtxSetFlags_v2 cuDeviceTotalMem_v2 cuDriverGetVersion
    cuEventCreate cuEventDestroy_v2 cuEventElapsedTime cuEventQuery cuEventRecord
    cuEventSynchronize cuExternalMemoryGetMappedBuffer cuFuncGetAttribute cuFuncSetAttribute
    cuFuncSetCacheConfig cuFuncSetSharedMemConfig cuGetErrorName cuGetErrorString
    cuGraphAddKernelNode cuGraphCreate cuGraphDebugDotPrint cuGraphDestroy cuGraphGetEdges
    cuGraphGetNodes cuGraphKernelNodeGetParams cuGraphNodeGetType cuImportExternalMemory cuInit
    cuLaunchHostFunc cuLaunchKernel cuLinkAddData_v2 cuLinkComplete cuLinkCreate_v2 cuLinkDestroy
    cuMemAdvise cuMemAllocAsync cuMemAllocHost_v2 cuMemAllocManaged cuMemAllocPitch_v2
    cuMemAlloc_v2 cuMemFreeAsync cuMemFreeHost cuMemFree_v2 cuMemGetInfo_v2 cuMemHostGetDevicePointer_v2
    cuMemHostRegister_v2
    cuMemHostUnregister cuMemPrefetchAsync cuMemcpy2D_v2 cuMemcpy2DAsync_v2 cuMemcpyAtoH_v2
    cuMemcpyDtoDAsync_v2 cuMemcpyDtoD_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoH_v2 cuMemcpyHtoA_v2
    cuMemcpyHtoDAsync_v2 cuMemcpyHtoD_v2 cuMemcpyPeerAsync cuMemsetD16Async cuMemsetD16_v2 cuMemsetD2D8Async cuMemsetD32Async
    cuMemsetD32_v2 cuMemsetD8Async cuMemsetD8_v2 cuModuleGetFunction cuModuleGetGlobal_v2
    cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleUnload
    cuOccupancyAvailableDynamicSMemPerBlock cuOccupancyMaxActiveBlocksPerMultiprocessor
    cuOccupancyMaxPotentialBlockSize cuPointerGetAttribute cuStreamCreate
    cuStreamCreateWithPriority cuStreamDestroy_v2
    cuStreamGetFlags cuStreamGetPriority cuStreamQuery cuStreamSynchronize cuStreamWaitEvent
    cuSurfObjectCreate cuSurfObjectDestroy cuSurfObjectGetResourceDesc cuTexObjectCreate
    cuTexObjectDestroy cuTexObjectGetResourceDesc cuTexObjectGetResourceViewDesc
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_driver_is_absent_or_answers() {
        // SAFETY: cuInit may be called at any time.
        let answer = unsafe { cust::sys::cuInit(0) };
        match super::missing() {
            Some(_) => assert_eq!(answer, cust::sys::cudaError_enum::CUDA_ERROR_NO_DEVICE),
            // A second call takes the forwarder's direct way.
            // SAFETY: as above.
            None => assert_eq!(answer, unsafe { cust::sys::cuInit(0) }),
        }
    }
}
