//! Instructions that came with compute capability 8.0 (Ampere).

/// `cp.async.cg.shared.global [shared], [global], 16, bytes`: copies 16 bytes past the L1 cache
/// without waiting; bytes past the first `bytes` (0 to 16) are written as zero and not read.
///
/// Thread-wise; visible to the thread after [`cp_async_wait`], to the block after a barrier more.
///
/// # Safety
/// - `shared` and `global` are multiples of 16.
/// - The 16 bytes at `shared` lie in the block's shared memory. Nobody reads or writes them before the copy was waited
///   for; what other threads read there before, they read before a barrier that this thread waited at too.
/// - `bytes` is at most 16. `global` lies in device memory, even if `bytes` is zero; its first `bytes` bytes were
///   written before the launch, and no thread of the grid writes them in it.
#[inline(always)]
pub unsafe fn cp_async_16(shared: u32, global: u64, bytes: u32) {
    // SAFETY: copies between bytes that are there and aligned, and that nobody else touches, by the conditions above.
    unsafe {
        ptx!(
            "cp.async.cg.shared.global [{}], [{}], 16, {};",
            in(reg32) shared, in(reg64) global, in(reg32) bytes,
        )
    };
}

/// `cp.async.cg.shared.global [shared], [global], 16`: [`cp_async_16`] of all 16 bytes.
///
/// # Safety
/// - `shared` and `global` are multiples of 16.
/// - The 16 bytes at `shared` lie in the block's shared memory. Nobody reads or writes them before the copy was waited
///   for; what other threads read there before, they read before a barrier that this thread waited at too.
/// - The 16 bytes at `global` lie in device memory, were written before the launch, and no thread of the grid writes
///   them in it.
#[inline(always)]
pub unsafe fn cp_async_whole_16(shared: u32, global: u64) {
    // SAFETY: copies between bytes that are there and aligned, and that nobody else touches, by the conditions above.
    unsafe {
        ptx!("cp.async.cg.shared.global [{}], [{}], 16;", in(reg32) shared, in(reg64) global)
    };
}

/// `cp.async.ca.shared.global [shared], [global], 4, bytes`: [`cp_async_16`] of 4 bytes, through the L1
/// cache.
///
/// # Safety
/// - `shared` and `global` are multiples of 4.
/// - The 4 bytes at `shared` lie in the block's shared memory. Nobody reads or writes them before the copy was waited
///   for; what other threads read there before, they read before a barrier that this thread waited at too.
/// - `bytes` is at most 4. `global` lies in device memory, even if `bytes` is zero; its first `bytes` bytes were
///   written before the launch, and no thread of the grid writes them in it.
#[inline(always)]
pub unsafe fn cp_async_4(shared: u32, global: u64, bytes: u32) {
    // SAFETY: copies between bytes that are there and aligned, and that nobody else touches, by the conditions above.
    unsafe {
        ptx!(
            "cp.async.ca.shared.global [{}], [{}], 4, {};",
            in(reg32) shared, in(reg64) global, in(reg32) bytes,
        )
    };
}

/// `cp.async.commit_group`: closes the group of copies that this thread has issued since the last.
#[inline(always)]
pub fn cp_async_commit() {
    // SAFETY: orders the thread's own copies.
    unsafe { ptx!("cp.async.commit_group;") };
}

/// `cp.async.wait_group PENDING`: waits until at most `PENDING` of this thread's groups are under
/// way.
#[inline(always)]
pub fn cp_async_wait<const PENDING: u32>() {
    // SAFETY: waits.
    unsafe { ptx!("cp.async.wait_group {};", const PENDING) };
}

/// `ldmatrix.sync.aligned.m8n8.x4.shared.b16`: four matrices of eight 16-byte rows.
///
/// Warp-wise: lanes `8m..8m+8` give the addresses of the rows of matrix `m`; word `m` of lane `l`
/// is bytes `4(l % 4)..` of its row `l / 4`.
///
/// # Safety
/// - All 32 lanes of the warp call it together.
/// - `address` is a multiple of 16 in every lane, and its 16 bytes lie in the block's shared memory.
/// - The bytes were written before, and nobody writes them meanwhile: between another thread's access and this one stands
///   a barrier that both wait at; copies by `cp.async` were waited for by their own threads before it.
#[inline(always)]
pub unsafe fn ldmatrix_x4(address: u32) -> [u32; 4] {
    let [a, b, c, d]: [u32; 4];
    // SAFETY: all lanes read rows that are there, aligned and written, by the conditions above.
    unsafe {
        ptx!(
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{}, {}, {}, {}}}, [{}];",
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) address,
        )
    };
    [a, b, c, d]
}

/// `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16`: [`ldmatrix_x4`] of matrices of 16-bit elements,
/// transposed.
///
/// Warp-wise: lanes `8m..8m+8` give the addresses of the rows of matrix `m`; word `m` of lane `l`
/// is elements `l / 4` of its rows `2(l % 4)` and `2(l % 4) + 1`.
///
/// # Safety
/// - All 32 lanes of the warp call it together.
/// - `address` is a multiple of 16 in every lane, and its 16 bytes lie in the block's shared memory.
/// - The bytes were written before, and nobody writes them meanwhile: between another thread's access and this one stands
///   a barrier that both wait at; copies by `cp.async` were waited for by their own threads before it.
#[inline(always)]
pub unsafe fn ldmatrix_x4_trans(address: u32) -> [u32; 4] {
    let [a, b, c, d]: [u32; 4];
    // SAFETY: all lanes read rows that are there, aligned and written, by the conditions above.
    unsafe {
        ptx!(
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{{}, {}, {}, {}}}, [{}];",
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) address,
        )
    };
    [a, b, c, d]
}

/// Defines matrix products of a warp: `d += a * b`, fragments of four, four and two words.
macro_rules! products {
    ($($(#[$attribute:meta])* $name:ident: $instruction:literal;)*) => {$(
        $(#[$attribute])*
        #[inline(always)]
        pub fn $name(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
            let [d0, d1, d2, d3] = d;
            // SAFETY: the kernels call it with all 32 lanes together.
            unsafe {
                ptx!(
                    concat!(
                        $instruction,
                        " {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, \
                         {{{0}, {1}, {2}, {3}}};"
                    ),
                    inout(reg32) *d0, inout(reg32) *d1, inout(reg32) *d2, inout(reg32) *d3,
                    in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
                    in(reg32) b[0], in(reg32) b[1],
                    options(nomem, nostack)
                )
            };
        }
    )*};
}

products! {
    /// `mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32`: `d += a * b` over 32 int8 products.
    ///
    /// Warp-wise; lane maps in [`crate::tile::fragment`]. Wraps modulo 2^32.
    mma_m16n8k32_s8: "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32";

    /// `mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32`: `d += a * b` over 32 products of unsigned
    /// bytes.
    ///
    /// Warp-wise; lane maps in [`crate::tile::fragment`]. Wraps modulo 2^32: read as unsigned numbers,
    /// sums below 2^32 are exact.
    mma_m16n8k32_u8: "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32";

    /// `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32`: `d += a * b` over 16 half-precision
    /// products, accumulated in single precision.
    ///
    /// Warp-wise; in bytes it has the lane maps of [`mma_m16n8k32_s8`].
    mma_m16n8k16_f16: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";

    /// `mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32`: `d += a * b` over 64 products of signed
    /// nibbles, the lower one of a byte first.
    ///
    /// Warp-wise; in bytes it has the lane maps of [`mma_m16n8k32_s8`]. Wraps modulo 2^32.
    mma_m16n8k64_s4: "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32";

    /// `mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc`: `d` plus the number of bits, of
    /// 256, that are set in `a` and in `b`.
    ///
    /// Warp-wise; in bytes it has the lane maps of [`mma_m16n8k32_s8`]. Wraps modulo 2^32.
    mma_m16n8k256_b1: "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc";
}

/// `mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16`: `d += a * b` over 16 half-precision products, sums in half
/// precision: rounded once for each instruction.
///
/// Warp-wise; fragments `a` and `b` are laid out as for [`mma_m16n8k16_f16`]. Word `w` of `d` holds the elements of words `2w`
/// and `2w + 1` there.
#[inline(always)]
pub fn mma_m16n8k16_halves(d: &mut [u32; 2], a: [u32; 4], b: [u32; 2]) {
    let [d0, d1] = d;
    // SAFETY: the kernels call it with all 32 lanes together.
    unsafe {
        ptx!(
            "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {{{0}, {1}}}, {{{2}, {3}, {4}, {5}}}, {{{6}, {7}}}, \
             {{{0}, {1}}};",
            inout(reg32) *d0, inout(reg32) *d1,
            in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
            in(reg32) b[0], in(reg32) b[1],
            options(nomem, nostack)
        )
    };
}

/// `mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32`: [`mma_m16n8k16_f16`] over 8 products.
///
/// Warp-wise; words 0 and 1 of `a`, and word 0 of `b`.
#[inline(always)]
pub fn mma_m16n8k8_f16(d: &mut [u32; 4], a: [u32; 2], b: u32) {
    let [d0, d1, d2, d3] = d;
    // SAFETY: the kernels call it with all 32 lanes together.
    unsafe {
        ptx!(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{{0}, {1}, {2}, {3}}}, {{{4}, {5}}}, {{{6}}}, \
             {{{0}, {1}, {2}, {3}}};",
            inout(reg32) *d0, inout(reg32) *d1, inout(reg32) *d2, inout(reg32) *d3,
            in(reg32) a[0], in(reg32) a[1], in(reg32) b,
            options(nomem, nostack)
        )
    };
}

/// `mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16`: [`mma_m16n8k16_halves`] over 8 products.
///
/// Warp-wise; words 0 and 1 of `a`, and word 0 of `b`.
#[inline(always)]
pub fn mma_m16n8k8_halves(d: &mut [u32; 2], a: [u32; 2], b: u32) {
    let [d0, d1] = d;
    // SAFETY: the kernels call it with all 32 lanes together.
    unsafe {
        ptx!(
            "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {{{0}, {1}}}, {{{2}, {3}}}, {{{4}}}, {{{0}, {1}}};",
            inout(reg32) *d0, inout(reg32) *d1,
            in(reg32) a[0], in(reg32) a[1], in(reg32) b,
            options(nomem, nostack)
        )
    };
}
