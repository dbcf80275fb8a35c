//! Instructions of every GPU this crate supports (sm_80 and later).
//!
//! Shared-memory addresses are the 32-bit ones of PTX's `.shared` space, global addresses the 64-bit
//! ones of its `.global` space.

pub use super::thread::{barrier, block, blocks, keep_branch, shfl, shfl_xor, thread, threads};

/// Index of the calling thread in its warp.
#[inline(always)]
pub fn lane() -> u32 {
    thread() % 32
}

/// `bar.warp.sync`: every lane of the warp waits here.
#[inline(always)]
pub fn warp_barrier() {
    // SAFETY: the kernels call it with all 32 lanes together.
    unsafe { ptx!("bar.warp.sync -1;") };
}

/// `mov.u32`: returns `value`, and hides from rustc that it does.
///
/// It changes no result, only how many registers and instructions the kernel takes. rustc knows nothing of what an
/// `asm!` returns, so it can neither compute with it ahead nor recognise it as a value that it has already:
///
/// - as the bound of a loop, it keeps the loop rolled;
/// - in an address or index, what follows from it is computed where it stands, not before the loop, where it
///   would hold a register all the time;
/// - on a value that is needed again much later (`opaque(thread())`, `opaque(p.inputs)`), it has rustc compute
///   what follows from it once more, rather than keep that in registers meanwhile;
/// - on a sum, it has the addition done here, not put off to where the sum is used.
///
/// `ptxas` sees a copy, and drops it.
#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    let same: u32;
    // SAFETY: a copy.
    unsafe { ptx!("mov.u32 {}, {};", out(reg32) same, in(reg32) value, options(nomem, nostack)) };
    same
}

/// `.pragma "nounroll"`: as the first statement of a loop, keeps the assembler from repeating its body.
///
/// For loops that most launches run once: of several bodies only tests would run.
#[inline(always)]
pub fn rolled() {
    // SAFETY: a hint to the assembler.
    unsafe { ptx!(".pragma \"nounroll\";", options(nomem, nostack)) };
}

/// `bar.sync id, THREADS`: the warps of `THREADS` threads that name barrier `id` (1 to 15)
/// wait here for each other, and see what the others stored to shared memory before.
///
/// Warp-wise: all lanes of a warp together.
#[inline(always)]
pub fn named_barrier<const THREADS: u32>(id: u32) {
    // SAFETY: waits; the kernels call it with as many warps as it says.
    unsafe { ptx!("bar.sync {}, {};", in(reg32) id, const THREADS) };
}

/// `barrier.sync id, THREADS`: as [`named_barrier`], for warps that wait at instructions of their own: one that
/// is `.aligned`, as `bar.sync` is, stands for all threads of the block in one place.
#[inline(always)]
pub fn barrier_apart<const THREADS: u32>(id: u32) {
    // SAFETY: waits; the kernels call it with as many warps as it says.
    unsafe { ptx!("barrier.sync {}, {};", in(reg32) id, const THREADS) };
}

/// `trap`: ends the grid with an error.
#[inline(always)]
pub fn trap() -> ! {
    // SAFETY: ends the thread.
    unsafe { ptx!("trap;", options(nomem, nostack, noreturn)) }
}

/// Address of the block's dynamic shared memory, aligned to 1024 bytes.
///
/// `build.rs` declares the variable in the PTX.
#[inline(always)]
pub fn dynamic_shared() -> u32 {
    let address: u32;
    // SAFETY: takes an address.
    unsafe {
        ptx!("mov.u32 {}, dynamic_shared;", out(reg32) address, options(pure, nomem, nostack))
    };
    address
}

/// `ld.shared.u32`.
///
/// # Safety
/// - `address` is a multiple of 4, and its 4 bytes lie in the block's shared memory.
/// - The bytes were written before, and nobody writes them meanwhile: between another thread's
///   access and this one stands a barrier that both wait at.
#[inline(always)]
pub unsafe fn load_shared(address: u32) -> u32 {
    let value: u32;
    // SAFETY: reads 4 bytes that are the block's, aligned and written, by the conditions above.
    unsafe { ptx!("ld.shared.u32 {}, [{}];", out(reg32) value, in(reg32) address) };
    value
}

/// `ld.shared.v2.u32`.
///
/// # Safety
/// - `address` is a multiple of 8, and its 8 bytes lie in the block's shared memory.
/// - The bytes were written before, and nobody writes them meanwhile: between another thread's
///   access and this one stands a barrier that both wait at.
#[inline(always)]
pub unsafe fn load_shared_2(address: u32) -> [u32; 2] {
    let [a, b]: [u32; 2];
    // SAFETY: reads 8 bytes that are the block's, aligned and written, by the conditions above.
    unsafe {
        ptx!("ld.shared.v2.u32 {{{}, {}}}, [{}];", out(reg32) a, out(reg32) b, in(reg32) address)
    };
    [a, b]
}

/// `ld.shared.v4.u32`.
///
/// # Safety
/// - `address` is a multiple of 16, and its 16 bytes lie in the block's shared memory.
/// - The bytes were written before, and nobody writes them meanwhile: between another thread's
///   access and this one stands a barrier that both wait at.
#[inline(always)]
pub unsafe fn load_shared_4(address: u32) -> [u32; 4] {
    let [a, b, c, d]: [u32; 4];
    // SAFETY: reads 16 bytes that are the block's, aligned and written, by the conditions above.
    unsafe {
        ptx!(
            "ld.shared.v4.u32 {{{}, {}, {}, {}}}, [{}];",
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) address,
        )
    };
    [a, b, c, d]
}

/// `ld.shared.u8`.
///
/// # Safety
/// - `address`: its byte lies in the block's shared memory.
/// - The byte was written before, and nobody writes it meanwhile: between another thread's
///   access and this one stands a barrier that both wait at.
#[inline(always)]
pub unsafe fn load_shared_8(address: u32) -> u32 {
    let value: u32;
    // SAFETY: reads a byte that is the block's and written, by the conditions above.
    unsafe { ptx!("ld.shared.u8 {}, [{}];", out(reg32) value, in(reg32) address) };
    value
}

/// `ld.shared.u16`.
///
/// # Safety
/// - `address` is a multiple of 2, and its 2 bytes lie in the block's shared memory.
/// - The bytes were written before, and nobody writes them meanwhile: between another thread's
///   access and this one stands a barrier that both wait at.
#[inline(always)]
pub unsafe fn load_shared_16(address: u32) -> u32 {
    let value: u32;
    // SAFETY: reads 2 bytes that are the block's, aligned and written, by the conditions above.
    unsafe {
        ptx!(
            "{{ .reg .b16 half; ld.shared.u16 half, [{}]; cvt.u32.u16 {}, half; }}",
            in(reg32) address, out(reg32) value,
        )
    };
    value
}

/// `st.shared.u32`.
///
/// # Safety
/// - `address` is a multiple of 4, and its 4 bytes lie in the block's shared memory.
/// - Nobody else reads or writes them meanwhile: between another thread's access and this one stands a
///   barrier that both wait at.
#[inline(always)]
pub unsafe fn store_shared(address: u32, value: u32) {
    // SAFETY: writes 4 bytes that are the block's, and this thread's now, by the conditions above.
    unsafe { ptx!("st.shared.u32 [{}], {};", in(reg32) address, in(reg32) value) };
}

/// `ld.shared.u64`.
///
/// # Safety
/// - `address` is a multiple of 8, and its 8 bytes lie in the block's shared memory.
/// - The bytes were written before, and nobody writes them meanwhile: between another thread's
///   access and this one stands a barrier that both wait at.
#[inline(always)]
pub unsafe fn load_shared_64(address: u32) -> u64 {
    let value: u64;
    // SAFETY: reads 8 bytes that are the block's, aligned and written, by the conditions above.
    unsafe { ptx!("ld.shared.u64 {}, [{}];", out(reg64) value, in(reg32) address) };
    value
}

/// `st.shared.u64`.
///
/// # Safety
/// - `address` is a multiple of 8, and its 8 bytes lie in the block's shared memory.
/// - Nobody else reads or writes them meanwhile: between another thread's access and this one stands a
///   barrier that both wait at.
#[inline(always)]
pub unsafe fn store_shared_64(address: u32, value: u64) {
    // SAFETY: writes 8 bytes that are the block's, and this thread's now, by the conditions above.
    unsafe { ptx!("st.shared.u64 [{}], {};", in(reg32) address, in(reg64) value) };
}

/// `st.shared.v2.u32`.
///
/// # Safety
/// - `address` is a multiple of 8, and its 8 bytes lie in the block's shared memory.
/// - Nobody else reads or writes them meanwhile: between another thread's access and this one stands a
///   barrier that both wait at.
#[inline(always)]
pub unsafe fn store_shared_2(address: u32, [a, b]: [u32; 2]) {
    // SAFETY: writes 8 bytes that are the block's, and this thread's now, by the conditions above.
    unsafe {
        ptx!("st.shared.v2.u32 [{}], {{{}, {}}};", in(reg32) address, in(reg32) a, in(reg32) b)
    };
}

/// `st.shared.v4.u32`.
///
/// # Safety
/// - `address` is a multiple of 16, and its 16 bytes lie in the block's shared memory.
/// - Nobody else reads or writes them meanwhile: between another thread's access and this one stands a
///   barrier that both wait at.
#[inline(always)]
pub unsafe fn store_shared_4(address: u32, [a, b, c, d]: [u32; 4]) {
    // SAFETY: writes 16 bytes that are the block's, and this thread's now, by the conditions above.
    unsafe {
        ptx!(
            "st.shared.v4.u32 [{}], {{{}, {}, {}, {}}};",
            in(reg32) address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
        )
    };
}

/// `st.shared.u8`: the low byte of `value`.
///
/// # Safety
/// - `address`: its byte lies in the block's shared memory.
/// - Nobody else reads or writes it meanwhile: between another thread's access and this one stands a
///   barrier that both wait at.
#[inline(always)]
pub unsafe fn store_shared_8(address: u32, value: u32) {
    // SAFETY: writes a byte that is the block's, and this thread's now, by the conditions above.
    unsafe { ptx!("st.shared.u8 [{}], {};", in(reg32) address, in(reg32) value) };
}

/// `st.shared.u16`.
///
/// # Safety
/// - `address` is a multiple of 2, and its 2 bytes lie in the block's shared memory.
/// - Nobody else reads or writes them meanwhile: between another thread's access and this one stands a
///   barrier that both wait at.
#[inline(always)]
pub unsafe fn store_shared_16(address: u32, value: u16) {
    // SAFETY: writes 2 bytes that are the block's, and this thread's now, by the conditions above.
    unsafe { ptx!("st.shared.u16 [{}], {};", in(reg32) address, in(reg16) value) };
}

/// `ld.global.nc.u8`: read-only data.
///
/// # Safety
/// - `address`: its byte lies in device memory that was written before the launch.
/// - No thread of the grid writes it in this launch: the cache of read-only data does not follow writes.
#[inline(always)]
pub unsafe fn load_global_8(address: u64) -> u32 {
    let value: u32;
    // SAFETY: reads a byte that is there and constant, by the conditions above.
    unsafe {
        ptx!(
            "ld.global.nc.u8 {}, [{}];",
            out(reg32) value, in(reg64) address, options(pure, readonly, nostack)
        )
    };
    value
}

/// `ld.global.nc.u16`: read-only data.
///
/// # Safety
/// - `address` is a multiple of 2, and its 2 bytes lie in device memory that was written before the launch.
/// - No thread of the grid writes them in this launch: the cache of read-only data does not follow writes.
#[inline(always)]
pub unsafe fn load_global_16(address: u64) -> u32 {
    let value: u32;
    // SAFETY: reads 2 bytes that are there, aligned and constant, by the conditions above.
    unsafe {
        ptx!(
            "{{ .reg .b16 half; ld.global.nc.u16 half, [{}]; cvt.u32.u16 {}, half; }}",
            in(reg64) address, out(reg32) value, options(pure, readonly, nostack)
        )
    };
    value
}

/// `ld.global.nc.u32`: read-only data.
///
/// # Safety
/// - `address` is a multiple of 4, and its 4 bytes lie in device memory that was written before the launch.
/// - No thread of the grid writes them in this launch: the cache of read-only data does not follow writes.
#[inline(always)]
pub unsafe fn load_global(address: u64) -> u32 {
    let value: u32;
    // SAFETY: reads 4 bytes that are there, aligned and constant, by the conditions above.
    unsafe {
        ptx!(
            "ld.global.nc.u32 {}, [{}];",
            out(reg32) value, in(reg64) address, options(pure, readonly, nostack)
        )
    };
    value
}

/// `ld.global.nc.v4.u32`: read-only data.
///
/// # Safety
/// - `address` is a multiple of 16, and its 16 bytes lie in device memory that was written before the launch.
/// - No thread of the grid writes them in this launch: the cache of read-only data does not follow writes.
#[inline(always)]
pub unsafe fn load_global_4(address: u64) -> [u32; 4] {
    let [a, b, c, d]: [u32; 4];
    // SAFETY: reads 16 bytes that are there, aligned and constant, by the conditions above.
    unsafe {
        ptx!(
            "ld.global.nc.v4.u32 {{{}, {}, {}, {}}}, [{}];",
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) address,
            options(pure, readonly, nostack)
        )
    };
    [a, b, c, d]
}

/// `ld.global.v2.u32`: data that this thread may have written.
///
/// # Safety
/// - `address` is a multiple of 8, and its 8 bytes lie in device memory that was written before.
/// - Nobody else writes them meanwhile: no other block in this launch, and other threads of this block only on
///   the other side of a barrier.
#[inline(always)]
pub unsafe fn read_global_2(address: u64) -> [u32; 2] {
    let [a, b]: [u32; 2];
    // SAFETY: reads 8 bytes that are there, aligned and written, by the conditions above.
    unsafe {
        ptx!("ld.global.v2.u32 {{{}, {}}}, [{}];", out(reg32) a, out(reg32) b, in(reg64) address)
    };
    [a, b]
}

/// `ld.global.v4.u32`: data that this thread may have written.
///
/// # Safety
/// - `address` is a multiple of 16, and its 16 bytes lie in device memory that was written before.
/// - Nobody else writes them meanwhile: no other block in this launch, and other threads of this block only on
///   the other side of a barrier.
#[inline(always)]
pub unsafe fn read_global_4(address: u64) -> [u32; 4] {
    let [a, b, c, d]: [u32; 4];
    // SAFETY: reads 16 bytes that are there, aligned and written, by the conditions above.
    unsafe {
        ptx!(
            "ld.global.v4.u32 {{{}, {}, {}, {}}}, [{}];",
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) address,
        )
    };
    [a, b, c, d]
}

/// `st.global.u8`: the lowest byte of `value`.
///
/// # Safety
/// - `address`: its byte lies in device memory.
/// - Nobody else reads or writes it meanwhile: no other block in this launch, and other threads of this
///   block only on the other side of a barrier.
#[inline(always)]
pub unsafe fn store_global_8(address: u64, value: u32) {
    // SAFETY: writes a byte that is there and this thread's now, by the conditions above.
    unsafe { ptx!("st.global.u8 [{}], {};", in(reg64) address, in(reg32) value) };
}

/// `st.global.u32`.
///
/// # Safety
/// - `address` is a multiple of 4, and its 4 bytes lie in device memory.
/// - Nobody else reads or writes them meanwhile: no other block in this launch, and other threads of this
///   block only on the other side of a barrier.
#[inline(always)]
pub unsafe fn store_global(address: u64, value: u32) {
    // SAFETY: writes 4 bytes that are there, aligned and this thread's now, by the conditions above.
    unsafe { ptx!("st.global.u32 [{}], {};", in(reg64) address, in(reg32) value) };
}

/// `st.global.v2.u32`.
///
/// # Safety
/// - `address` is a multiple of 8, and its 8 bytes lie in device memory.
/// - Nobody else reads or writes them meanwhile: no other block in this launch, and other threads of this
///   block only on the other side of a barrier.
#[inline(always)]
pub unsafe fn store_global_2(address: u64, [a, b]: [u32; 2]) {
    // SAFETY: writes 8 bytes that are there, aligned and this thread's now, by the conditions above.
    unsafe {
        ptx!("st.global.v2.u32 [{}], {{{}, {}}};", in(reg64) address, in(reg32) a, in(reg32) b)
    };
}

/// `st.global.v4.u32`.
///
/// # Safety
/// - `address` is a multiple of 16, and its 16 bytes lie in device memory.
/// - Nobody else reads or writes them meanwhile: no other block in this launch, and other threads of this
///   block only on the other side of a barrier.
#[inline(always)]
pub unsafe fn store_global_4(address: u64, [a, b, c, d]: [u32; 4]) {
    // SAFETY: writes 16 bytes that are there, aligned and this thread's now, by the conditions above.
    unsafe {
        ptx!(
            "st.global.v4.u32 [{}], {{{}, {}, {}, {}}};",
            in(reg64) address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
        )
    };
}

/// `ld.global.nc.v2.u32`: read-only data.
///
/// # Safety
/// - `address` is a multiple of 8, and its 8 bytes lie in device memory that was written before the launch.
/// - No thread of the grid writes them in this launch: the cache of read-only data does not follow writes.
#[inline(always)]
pub unsafe fn load_global_2(address: u64) -> [u32; 2] {
    let [a, b]: [u32; 2];
    // SAFETY: reads 8 bytes that are there, aligned and constant, by the conditions above.
    unsafe {
        ptx!(
            "ld.global.nc.v2.u32 {{{}, {}}}, [{}];",
            out(reg32) a, out(reg32) b, in(reg64) address, options(pure, readonly, nostack)
        )
    };
    [a, b]
}

/// `ld.global.u32`: data that this thread, or another of its block before a barrier, may have
/// written.
///
/// # Safety
/// - `address` is a multiple of 4, and its 4 bytes lie in device memory that was written before.
/// - Nobody else writes them meanwhile: no other block in this launch, and other threads of this block only on
///   the other side of a barrier.
#[inline(always)]
pub unsafe fn read_global(address: u64) -> u32 {
    let value: u32;
    // SAFETY: reads 4 bytes that are there, aligned and written, by the conditions above.
    unsafe { ptx!("ld.global.u32 {}, [{}];", out(reg32) value, in(reg64) address) };
    value
}

/// `st.global.u16`.
///
/// # Safety
/// - `address` is a multiple of 2, and its 2 bytes lie in device memory.
/// - Nobody else reads or writes them meanwhile: no other block in this launch, and other threads of this
///   block only on the other side of a barrier.
#[inline(always)]
pub unsafe fn store_global_16(address: u64, value: u16) {
    // SAFETY: writes 2 bytes that are there, aligned and this thread's now, by the conditions above.
    unsafe { ptx!("st.global.u16 [{}], {};", in(reg64) address, in(reg16) value) };
}

/// `ld.global.u64`: data that this thread may have written.
///
/// # Safety
/// - `address` is a multiple of 8, and its 8 bytes lie in device memory that was written before.
/// - Nobody else writes them meanwhile: no other block in this launch, and other threads of this block only on
///   the other side of a barrier.
#[inline(always)]
pub unsafe fn read_global_64(address: u64) -> u64 {
    let value: u64;
    // SAFETY: reads 8 bytes that are there, aligned and written, by the conditions above.
    unsafe { ptx!("ld.global.u64 {}, [{}];", out(reg64) value, in(reg64) address) };
    value
}

/// `st.global.u64`.
///
/// # Safety
/// - `address` is a multiple of 8, and its 8 bytes lie in device memory.
/// - Nobody else reads or writes them meanwhile: no other block in this launch, and other threads of this
///   block only on the other side of a barrier.
#[inline(always)]
pub unsafe fn store_global_64(address: u64, value: u64) {
    // SAFETY: writes 8 bytes that are there, aligned and this thread's now, by the conditions above.
    unsafe { ptx!("st.global.u64 [{}], {};", in(reg64) address, in(reg64) value) };
}

/// `atom.global.add.u32`: atomically adds `value` to a word of memory, and returns the old one.
///
/// # Safety
/// - `address` is a multiple of 4, and its 4 bytes lie in device memory that was written before.
/// - The grid uses them by atomic additions only, until the launch has ended.
#[inline(always)]
pub unsafe fn fetch_add_global(address: u64, value: u32) -> u32 {
    let before: u32;
    // SAFETY: changes 4 bytes that are there, aligned and only added to, by the conditions above.
    unsafe {
        ptx!(
            "atom.global.add.u32 {}, [{}], {};",
            out(reg32) before, in(reg64) address, in(reg32) value,
        )
    };
    before
}

/// `ld.acquire.gpu.global.u32`: reads a word of memory that other blocks add to; what they wrote before they added what
/// is seen, behind a [`fence_gpu`], is seen by what the thread does next.
///
/// # Safety
/// - `address` is a multiple of 4, and its 4 bytes lie in device memory that was written before.
/// - The grid changes them by atomic operations only, until the launch has ended.
#[inline(always)]
pub unsafe fn acquire_global(address: u64) -> u32 {
    let value: u32;
    // SAFETY: reads 4 bytes that are there, aligned and only changed atomically, by the conditions above.
    unsafe { ptx!("ld.acquire.gpu.global.u32 {}, [{}];", out(reg32) value, in(reg64) address) };
    value
}

/// `fence.acq_rel.gpu`: what the thread wrote before, and what it saw others write, is seen by who sees what it writes
/// behind.
#[inline(always)]
pub fn fence_gpu() {
    // SAFETY: orders accesses, and makes none.
    unsafe { ptx!("fence.acq_rel.gpu;") };
}

/// `red.global.add.u32`: atomically adds `value` to a word of memory.
///
/// # Safety
/// - `address` is a multiple of 4, and its 4 bytes lie in device memory that was written before.
/// - The grid uses them by atomic additions only, until the launch has ended.
#[inline(always)]
pub unsafe fn add_global(address: u64, value: u32) {
    // SAFETY: changes 4 bytes that are there, aligned and only added to, by the conditions above.
    unsafe { ptx!("red.global.add.u32 [{}], {};", in(reg64) address, in(reg32) value) };
}

/// `red.global.add.f32`: atomically adds `value` to a word of memory, rounded to nearest even; numbers too small
/// to be normal are zero.
///
/// # Safety
/// - `address` is a multiple of 4, and its 4 bytes lie in device memory that was written before.
/// - The grid uses them by atomic additions only, until the launch has ended.
#[inline(always)]
pub unsafe fn add_global_f32(address: u64, value: f32) {
    // SAFETY: changes 4 bytes that are there, aligned and only added to, by the conditions above.
    unsafe { ptx!("red.global.add.f32 [{}], {};", in(reg64) address, in(reg32) value) };
}

/// `red.global.add.u64`: atomically adds `value` to a 64-bit word of memory.
///
/// # Safety
/// - `address` is a multiple of 8, and its 8 bytes lie in device memory that was written before.
/// - The grid uses them by atomic additions only, until the launch has ended.
#[inline(always)]
pub unsafe fn add_global_64(address: u64, value: u64) {
    // SAFETY: changes 8 bytes that are there, aligned and only added to, by the conditions above.
    unsafe { ptx!("red.global.add.u64 [{}], {};", in(reg64) address, in(reg64) value) };
}

/// `lop3.b32`: `TABLE`, computed from 0xf0, 0xcc and 0xaa, is computed from `a`, `b` and `c`, bit by bit.
#[inline(always)]
pub fn lop3<const TABLE: u32>(a: u32, b: u32, c: u32) -> u32 {
    let value: u32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "lop3.b32 {}, {}, {}, {}, {};",
            out(reg32) value, in(reg32) a, in(reg32) b, in(reg32) c, const TABLE,
            options(pure, nomem, nostack)
        )
    };
    value
}

/// `prmt.b32`: result byte `i` is byte `selector >> 4i & 7` of the eight in `(low, high)`, or its sign eight
/// times if `selector >> 4i & 8` is set.
///
/// Also runs on a CPU, for tests of functions that use it.
#[inline(always)]
pub fn prmt<const SELECTOR: u32>(low: u32, high: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let value: u32;
        // SAFETY: arithmetic.
        unsafe {
            ptx!(
                "prmt.b32 {}, {}, {}, {};",
                out(reg32) value, in(reg32) low, in(reg32) high, const SELECTOR,
                options(pure, nomem, nostack)
            )
        };
        value
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let bytes = (high as u64) << 32 | low as u64;
        let byte = |index: u32| {
            let selector = SELECTOR >> (4 * index);
            let byte = (bytes >> (8 * (selector & 7))) as u8;
            let sign = (byte as i8 >> 7) as u8;
            (if selector & 8 == 0 { byte } else { sign }) as u32
        };
        byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24
    }
}

/// `prmt.b32`: [`prmt`] by a selector that is known at run time only.
#[inline(always)]
pub fn prmt_by(low: u32, high: u32, selector: u32) -> u32 {
    let value: u32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "prmt.b32 {}, {}, {}, {};",
            out(reg32) value, in(reg32) low, in(reg32) high, in(reg32) selector,
            options(pure, nomem, nostack)
        )
    };
    value
}

/// `cvt.pack.sat.u4.s32.b32`: `high` and `low`, each clamped to 0..15, as the nibbles of the lowest byte,
/// below the bytes of `above`, of which the highest is lost.
#[inline(always)]
pub fn pack_u4(high: i32, low: i32, above: u32) -> u32 {
    let value: u32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "cvt.pack.sat.u4.s32.b32 {}, {}, {}, {};",
            out(reg32) value, in(reg32) high, in(reg32) low, in(reg32) above,
            options(pure, nomem, nostack)
        )
    };
    value
}

/// `dp4a.s32.s32`: `c` plus the dot product of the signed bytes of `a` and `b`.
#[inline(always)]
pub fn dp4a(a: u32, b: u32, c: i32) -> i32 {
    let value: i32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "dp4a.s32.s32 {}, {}, {}, {};",
            out(reg32) value, in(reg32) a, in(reg32) b, in(reg32) c,
            options(pure, nomem, nostack)
        )
    };
    value
}

/// `dp4a.u32.u32`: `c` plus the dot product of the unsigned bytes of `a` and `b`.
#[inline(always)]
pub fn dp4a_unsigned(a: u32, b: u32, c: u32) -> u32 {
    let value: u32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "dp4a.u32.u32 {}, {}, {}, {};",
            out(reg32) value, in(reg32) a, in(reg32) b, in(reg32) c,
            options(pure, nomem, nostack)
        )
    };
    value
}

/// `mad.lo.u32`: the low half of `a * b`, plus `c`.
#[inline(always)]
pub fn mad(a: u32, b: u32, c: u32) -> u32 {
    let value: u32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "mad.lo.u32 {}, {}, {}, {};",
            out(reg32) value, in(reg32) a, in(reg32) b, in(reg32) c,
            options(pure, nomem, nostack)
        )
    };
    value
}

/// `cvt.rmi.s32.f32`: the largest integer not above `x`, clamped to i32; 0 for NaN.
#[inline(always)]
pub fn floor(x: f32) -> i32 {
    let value: i32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "cvt.rmi.s32.f32 {}, {};",
            out(reg32) value, in(reg32) x, options(pure, nomem, nostack)
        )
    };
    value
}

/// `sqrt.approx.f32`: square root, to within a few units in the last place.
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    let root: f32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "sqrt.approx.f32 {}, {};",
            out(reg32) root, in(reg32) x, options(pure, nomem, nostack)
        )
    };
    root
}

/// `add.rn.f32`: `a + b`, to the nearest.
#[inline(always)]
pub fn add_f32(a: f32, b: f32) -> f32 {
    let value: f32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "add.rn.f32 {}, {}, {};",
            out(reg32) value, in(reg32) a, in(reg32) b, options(pure, nomem, nostack)
        )
    };
    value
}

/// `sub.rn.f32`: `a - b`, to the nearest.
#[inline(always)]
pub fn sub_f32(a: f32, b: f32) -> f32 {
    let value: f32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "sub.rn.f32 {}, {}, {};",
            out(reg32) value, in(reg32) a, in(reg32) b, options(pure, nomem, nostack)
        )
    };
    value
}

/// `mul.rn.f32`: `a * b`, to the nearest.
#[inline(always)]
pub fn mul_f32(a: f32, b: f32) -> f32 {
    let value: f32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "mul.rn.f32 {}, {}, {};",
            out(reg32) value, in(reg32) a, in(reg32) b, options(pure, nomem, nostack)
        )
    };
    value
}

/// `fma.rn.f32`: `a * b + c`, rounded once, to the nearest.
#[inline(always)]
pub fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    let value: f32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "fma.rn.f32 {}, {}, {}, {};",
            out(reg32) value, in(reg32) a, in(reg32) b, in(reg32) c, options(pure, nomem, nostack)
        )
    };
    value
}

/// `max.f32`: the larger of two numbers.
#[inline(always)]
pub fn max_f32(a: f32, b: f32) -> f32 {
    let value: f32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "max.f32 {}, {}, {};",
            out(reg32) value, in(reg32) a, in(reg32) b, options(pure, nomem, nostack)
        )
    };
    value
}

/// `min.f32`: the smaller of two numbers.
#[inline(always)]
pub fn min_f32(a: f32, b: f32) -> f32 {
    let value: f32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "min.f32 {}, {}, {};",
            out(reg32) value, in(reg32) a, in(reg32) b, options(pure, nomem, nostack)
        )
    };
    value
}

/// `neg.f32`: `-a`.
#[inline(always)]
pub fn neg_f32(a: f32) -> f32 {
    let value: f32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "neg.f32 {}, {};",
            out(reg32) value, in(reg32) a, options(pure, nomem, nostack)
        )
    };
    value
}

/// `cvt.rni.s32.f32`: the nearest integer, half to even, clamped to i32; 0 for NaN.
#[inline(always)]
pub fn round(x: f32) -> i32 {
    let value: i32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "cvt.rni.s32.f32 {}, {};",
            out(reg32) value, in(reg32) x, options(pure, nomem, nostack)
        )
    };
    value
}

/// `cvt.rn.f16x2.f32`: two numbers as halves, the second in the low one.
#[inline(always)]
pub fn halves(high: f32, low: f32) -> u32 {
    let value: u32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "cvt.rn.f16x2.f32 {}, {}, {};",
            out(reg32) value, in(reg32) high, in(reg32) low, options(pure, nomem, nostack)
        )
    };
    value
}

/// `add.rn.f16x2`: two sums of halves.
#[inline(always)]
pub fn add_halves(a: u32, b: u32) -> u32 {
    let sum: u32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "add.rn.f16x2 {}, {}, {};",
            out(reg32) sum, in(reg32) a, in(reg32) b, options(pure, nomem, nostack)
        )
    };
    sum
}

/// `mul.rn.f16x2`: two products of halves.
#[inline(always)]
pub fn mul_halves(a: u32, b: u32) -> u32 {
    let product: u32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "mul.rn.f16x2 {}, {}, {};",
            out(reg32) product, in(reg32) a, in(reg32) b, options(pure, nomem, nostack)
        )
    };
    product
}

/// `fma.rn.f16x2`: `a * b + c` of two halves each, rounded once.
#[inline(always)]
pub fn fma_halves(a: u32, b: u32, c: u32) -> u32 {
    let sum: u32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "fma.rn.f16x2 {}, {}, {}, {};",
            out(reg32) sum, in(reg32) a, in(reg32) b, in(reg32) c, options(pure, nomem, nostack)
        )
    };
    sum
}

/// `neg.f16x2`: two halves with the other sign.
#[inline(always)]
pub fn neg_halves(a: u32) -> u32 {
    let value: u32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!("neg.f16x2 {}, {};", out(reg32) value, in(reg32) a, options(pure, nomem, nostack))
    };
    value
}

/// `cvt.f32.f16`: a half, exactly.
#[inline(always)]
pub fn from_half(half: u16) -> f32 {
    let value: f32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "cvt.f32.f16 {}, {};",
            out(reg32) value, in(reg16) half, options(pure, nomem, nostack)
        )
    };
    value
}

/// `cvt.rn.f32.s32`: an integer as f32, to the nearest.
#[inline(always)]
pub fn from_i32(integer: i32) -> f32 {
    let value: f32;
    // SAFETY: arithmetic.
    unsafe {
        ptx!(
            "cvt.rn.f32.s32 {}, {};",
            out(reg32) value, in(reg32) integer, options(pure, nomem, nostack)
        )
    };
    value
}
