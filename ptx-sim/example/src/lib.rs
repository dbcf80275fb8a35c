//! Kernels. On the computer that compiles the tests the library is empty.

#![cfg(target_arch = "nvptx64")]
#![no_std]
#![feature(abi_ptx, asm_experimental_arch, stdarch_nvptx)]

use core::{
    arch::{
        asm,
        nvptx::{_block_dim_x, _block_idx_x, _syncthreads, _thread_idx_x},
    },
    panic::PanicInfo,
};

/// `y[i] += a * x[i]`, a thread for each `i < length`.
///
/// # Safety
/// Both pointers are to `length` numbers in device memory.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn add_scaled(x: *const f32, y: *mut f32, a: f32, length: u32) {
    unsafe {
        let i = (_block_idx_x() * _block_dim_x() + _thread_idx_x()) as u32;
        if i < length {
            *y.add(i as usize) += a * *x.add(i as usize);
        }
    }
}

/// Numbers of a block of [`reverse`], one a thread.
const BLOCK: u32 = 256;

/// Reverses the numbers of each block of 256, through shared memory.
///
/// # Safety
/// The pointer is to 256 numbers for each block, in device memory; blocks have 256 threads and 1024 bytes of dynamic shared
/// memory.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn reverse(data: *mut u32) {
    unsafe { reverse_block(data, || _syncthreads()) }
}

/// As [`reverse`], with a mistake: threads read what other threads may not have written yet.
///
/// # Safety
/// As of [`reverse`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn reverse_without_barrier(data: *mut u32) {
    unsafe { reverse_block(data, || {}) }
}

/// The body of both; `wait` synchronises between writing and reading.
#[inline(always)]
unsafe fn reverse_block(data: *mut u32, wait: impl FnOnce()) {
    unsafe {
        let thread = _thread_idx_x() as u32;
        let place = data.add((_block_idx_x() as u32 * BLOCK + thread) as usize);
        store_shared(4 * thread, *place);
        wait();
        *place = load_shared(4 * (BLOCK - 1 - thread));
    }
}

/// `st.shared.u32` at a byte of the block's dynamic shared memory, which `RustKernels` declares.
#[inline(always)]
unsafe fn store_shared(byte: u32, value: u32) {
    unsafe {
        asm!(
            "{{ .reg .b32 at; mov.u32 at, dynamic_shared; add.u32 at, at, {}; st.shared.u32 [at], {}; }}",
            in(reg32) byte, in(reg32) value,
        )
    }
}

/// `ld.shared.u32`, likewise.
#[inline(always)]
unsafe fn load_shared(byte: u32) -> u32 {
    let value: u32;
    unsafe {
        asm!(
            "{{ .reg .b32 at; mov.u32 at, dynamic_shared; add.u32 at, at, {}; ld.shared.u32 {}, [at]; }}",
            in(reg32) byte, out(reg32) value,
        )
    }
    value
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    unsafe { asm!("trap;", options(noreturn)) }
}
