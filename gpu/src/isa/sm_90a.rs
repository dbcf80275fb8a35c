//! Instructions of Hopper alone (compute capability 9.0, `sm_90a`): the tensor memory accelerator,
//! barriers with transaction counts, and warpgroup matrix multiplication.
//!
//! A warpgroup is four warps, the first of them a multiple of four.

/// `mbarrier.init.shared::cta.b64`: a barrier whose phase ends after `arrivals` arrivals and the
/// bytes they announce.
///
/// # Safety
/// - `barrier` is a multiple of 8, and its 8 bytes lie in the block's shared memory.
/// - `arrivals` is at least 1, and less than 2^20.
/// - Nobody else uses these bytes before a barrier of the block that follows [`fence_barrier_init`].
#[inline(always)]
pub unsafe fn mbarrier_init(barrier: u32, arrivals: u32) {
    // SAFETY: writes 8 bytes that are the block's, aligned and this thread's now, by the conditions above.
    unsafe {
        ptx!("mbarrier.init.shared::cta.b64 [{}], {};", in(reg32) barrier, in(reg32) arrivals)
    };
}

/// `fence.mbarrier_init.release.cluster` and `fence.proxy.async`: makes initialised barriers known
/// to TMA.
#[inline(always)]
pub fn fence_barrier_init() {
    // SAFETY: orders the thread's own accesses.
    unsafe { ptx!("fence.mbarrier_init.release.cluster; fence.proxy.async;") };
}

/// `mbarrier.arrive.shared::cta.b64`.
///
/// # Safety
/// - `barrier` is a multiple of 8, and its 8 bytes lie in the block's shared memory.
/// - It was initialised by [`mbarrier_init`], and a barrier of the block stands between that and this call.
/// - The phase that is under way still lacks an arrival.
#[inline(always)]
pub unsafe fn mbarrier_arrive(barrier: u32) {
    // SAFETY: a barrier that is there and initialised, and has room for the arrival, by the conditions above.
    unsafe { ptx!("mbarrier.arrive.shared::cta.b64 _, [{}];", in(reg32) barrier) };
}

/// `mbarrier.arrive.expect_tx.shared::cta.b64`: arrives, and announces `bytes` bytes of copies.
///
/// # Safety
/// - `barrier` is a multiple of 8, and its 8 bytes lie in the block's shared memory.
/// - It was initialised by [`mbarrier_init`], and a barrier of the block stands between that and this call.
/// - The phase that is under way still lacks an arrival.
/// - Copies of `bytes` bytes in all, less than 2^20, follow that report to this barrier: its phase ends no sooner.
#[inline(always)]
pub unsafe fn mbarrier_arrive_expect(barrier: u32, bytes: u32) {
    // SAFETY: a barrier that is there and initialised, and has room for the arrival, by the conditions above.
    unsafe {
        ptx!(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{}], {};",
            in(reg32) barrier, in(reg32) bytes,
        )
    };
}

/// `mbarrier.try_wait.parity.shared::cta.b64`: whether the phase of that parity has ended, after a
/// while at the latest.
///
/// # Safety
/// - `barrier` is a multiple of 8, and its 8 bytes lie in the block's shared memory.
/// - It was initialised by [`mbarrier_init`], and a barrier of the block stands between that and this call.
/// - The phase of that parity is the one under way or the one before it: an older one has the parity of its successor.
#[inline(always)]
pub unsafe fn mbarrier_try_wait(barrier: u32, parity: u32) -> bool {
    let ended: u32;
    // SAFETY: reads a barrier that is there and initialised, by the conditions above.
    unsafe {
        ptx!(
            "{{ .reg .pred ended; \
             mbarrier.try_wait.parity.shared::cta.b64 ended, [{}], {}; \
             selp.u32 {}, 1, 0, ended; }}",
            in(reg32) barrier, in(reg32) parity, out(reg32) ended,
        )
    };
    ended != 0
}

/// Waits until the phase of that parity has ended.
///
/// # Safety
/// - `barrier` is a multiple of 8, and its 8 bytes lie in the block's shared memory.
/// - It was initialised by [`mbarrier_init`], and a barrier of the block stands between that and this call.
/// - The phase of that parity is the one under way or the one before it.
/// - The arrivals and bytes that end it come from others, whatever this thread does: it waits for them without end.
#[inline(always)]
pub unsafe fn mbarrier_wait(barrier: u32, parity: u32) {
    // SAFETY: the barrier is initialised, and stays so, by the first two conditions; asking changes nothing.
    while !unsafe { mbarrier_try_wait(barrier, parity) } {}
}

/// `cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes`: copies the
/// box of a tensor map that begins at `(x, y, z)`, x varying fastest; elements outside the tensor
/// are zero. `barrier` counts the bytes of the whole box.
///
/// One thread.
///
/// # Safety
/// - `map` is a multiple of 64, and its 128 bytes are a tensor map (`CUtensorMap`) of 3 dimensions that the host encoded
///   before the launch. Its tensor lies in device memory, was written before, and nobody writes it in this launch.
/// - `shared` is a multiple of 128, or of what the map's swizzle repeats after (1024 for rows of 128 bytes); the whole box
///   lies in the block's shared memory from there on.
/// - Nobody reads or writes that box before the phase of `barrier` has ended; those who read it before have arrived at
///   a barrier that this thread waited for. Stores to it were followed by [`fence_proxy_async`].
/// - `barrier` is initialised, and its phase under way was told to expect the bytes of the box
///   ([`mbarrier_arrive_expect`]).
#[inline(always)]
pub unsafe fn copy_tensor_3d(shared: u32, map: u64, [x, y, z]: [u32; 3], barrier: u32) {
    // SAFETY: reads a tensor and writes a box that are there, and that nobody else touches, by the conditions above.
    unsafe {
        ptx!(
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
             [{}], [{}, {{{}, {}, {}}}], [{}];",
            in(reg32) shared, in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) z,
            in(reg32) barrier,
        )
    };
}

/// `%cluster_ctarank`: the block's number in its cluster.
#[inline(always)]
pub fn cluster_rank() -> u32 {
    let rank: u32;
    // SAFETY: reads a register.
    unsafe {
        ptx!("mov.u32 {}, %cluster_ctarank;", out(reg32) rank, options(pure, nomem, nostack))
    };
    rank
}

/// `barrier.cluster.arrive.release.aligned`: what the thread stored to shared memory before is seen by those of
/// the cluster that [`cluster_wait`].
///
/// Cluster-wise: all threads of all its blocks.
#[inline(always)]
pub fn cluster_arrive() {
    // SAFETY: the kernels call it with all threads.
    unsafe { ptx!("barrier.cluster.arrive.release.aligned;") };
}

/// `barrier.cluster.arrive.relaxed.aligned`: as [`cluster_arrive`], but what the thread stored need not be seen.
///
/// Cluster-wise: all threads of all its blocks.
#[inline(always)]
pub fn cluster_arrive_relaxed() {
    // SAFETY: the kernels call it with all threads.
    unsafe { ptx!("barrier.cluster.arrive.relaxed.aligned;") };
}

/// `barrier.cluster.wait.acquire.aligned`: waits until all threads of the cluster have arrived.
///
/// Cluster-wise: all threads of all its blocks.
#[inline(always)]
pub fn cluster_wait() {
    // SAFETY: the kernels call it with all threads, each once after it arrived.
    unsafe { ptx!("barrier.cluster.wait.acquire.aligned;") };
}

/// `mapa.shared::cluster.u32`: address, in block `rank` of the cluster, that corresponds to `shared`.
#[inline(always)]
pub fn of_block(shared: u32, rank: u32) -> u32 {
    let address: u32;
    // SAFETY: computes an address.
    unsafe {
        ptx!(
            "mapa.shared::cluster.u32 {}, {}, {};",
            out(reg32) address, in(reg32) shared, in(reg32) rank,
            options(pure, nomem, nostack),
        )
    };
    address
}

/// `ld.shared::cluster.u32`.
///
/// # Safety
/// - `address` is one of [`of_block`], a multiple of 4, and its 4 bytes lie in that block's shared memory.
/// - All blocks of the cluster have started ([`cluster_wait`] once), and the one that owns the bytes has not ended: it
///   waits at another [`cluster_wait`], at which this block arrives after the load.
/// - They were written before, and nobody writes them meanwhile: between another thread's store and this load stands a
///   [`cluster_arrive`] of that thread and a [`cluster_wait`] of this one.
#[inline(always)]
pub unsafe fn load_cluster(address: u32) -> u32 {
    let value: u32;
    // SAFETY: reads 4 bytes of a block that is there, aligned and written, by the conditions above.
    unsafe { ptx!("ld.shared::cluster.u32 {}, [{}];", out(reg32) value, in(reg32) address) };
    value
}

/// `ld.shared::cluster.v2.u32`.
///
/// # Safety
/// - `address` is one of [`of_block`], a multiple of 8, and its 8 bytes lie in that block's shared memory.
/// - All blocks of the cluster have started ([`cluster_wait`] once), and the one that owns the bytes has not ended: it
///   waits at another [`cluster_wait`], at which this block arrives after the load.
/// - They were written before, and nobody writes them meanwhile: between another thread's store and this load stands a
///   [`cluster_arrive`] of that thread and a [`cluster_wait`] of this one.
#[inline(always)]
pub unsafe fn load_cluster_2(address: u32) -> [u32; 2] {
    let [a, b]: [u32; 2];
    // SAFETY: reads 8 bytes of a block that is there, aligned and written, by the conditions above.
    unsafe {
        ptx!(
            "ld.shared::cluster.v2.u32 {{{}, {}}}, [{}];",
            out(reg32) a, out(reg32) b, in(reg32) address,
        )
    };
    [a, b]
}

/// `elect.sync`: true in one lane of the warp. In what that lane does alone the assembler knows that what
/// is the same in all lanes is so.
///
/// Warp-wise: all lanes together.
#[inline(always)]
pub fn elect() -> bool {
    let elected: u32;
    // SAFETY: the kernels call it with all 32 lanes together.
    unsafe {
        ptx!(
            "{{ .reg .pred one; elect.sync _|one, -1; selp.u32 {}, 1, 0, one; }}",
            out(reg32) elected,
        )
    };
    elected != 0
}

/// `stmatrix.sync.aligned.m8n8.x4.shared.b16`: four matrices of eight 16-byte rows, from where
/// [`ldmatrix_x4`](crate::isa::sm_80::ldmatrix_x4) leaves them.
///
/// Warp-wise: lanes `8m..8m+8` give the addresses of the rows of matrix `m`; word `m` of lane `l`
/// becomes bytes `4(l % 4)..` of its row `l / 4`.
///
/// # Safety
/// - All 32 lanes of the warp call it together.
/// - `address` is a multiple of 16 in every lane, and its 16 bytes lie in the block's shared memory; no two lanes' overlap.
/// - Nobody else reads or writes the bytes meanwhile: between another thread's access and this one stands a barrier that
///   both wait at.
#[inline(always)]
pub unsafe fn stmatrix_x4(address: u32, [a, b, c, d]: [u32; 4]) {
    // SAFETY: all lanes write rows that are there, aligned and the warp's now, by the conditions above.
    unsafe {
        ptx!(
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{}], {{{}, {}, {}, {}}};",
            in(reg32) address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
        )
    };
}

/// `setmaxnreg.inc.sync.aligned.u32`: takes registers up to `COUNT` a thread.
///
/// Warpgroup-wise, at the top of a branch that the warpgroup alone takes.
#[inline(always)]
pub fn take_registers<const COUNT: u32>() {
    // SAFETY: the kernels call it with the whole warpgroup.
    unsafe { ptx!("setmaxnreg.inc.sync.aligned.u32 {};", const COUNT) };
}

/// `setmaxnreg.dec.sync.aligned.u32`: gives registers back down to `COUNT` a thread.
///
/// Warpgroup-wise, at the top of a branch that the warpgroup alone takes.
#[inline(always)]
pub fn give_registers<const COUNT: u32>() {
    // SAFETY: the kernels call it with the whole warpgroup.
    unsafe { ptx!("setmaxnreg.dec.sync.aligned.u32 {};", const COUNT) };
}

/// Descriptor of a K-major operand in shared memory: rows of 128 bytes, swizzled as TMA does (chunk `c` of
/// row `r` at place `c ^ (r % 8)`), groups of eight rows 1024 bytes apart.
///
/// Source: PTX ISA, "Matrix descriptor". Addresses are the low bits, in units of 16 bytes:
/// [`descriptor_step`].
#[inline(always)]
pub const fn descriptor(shared: u32) -> u64 {
    const SWIZZLE_128: u64 = 1 << 62;
    const GROUP_STRIDE: u64 = (1024 / 16) << 32;
    SWIZZLE_128 | GROUP_STRIDE | 1 << 16 | ((shared as u64 & 0x3_ffff) >> 4)
}

/// Difference between the [`descriptor`]s of addresses `bytes` apart, a multiple of 16.
pub const fn descriptor_step(bytes: u32) -> u32 {
    bytes >> 4
}

/// `fence.proxy.async.shared::cta`: makes the thread's earlier writes to shared memory visible to
/// `wgmma` and TMA of threads that synchronise with it afterwards.
#[inline(always)]
pub fn fence_proxy_async() {
    // SAFETY: orders the thread's own accesses.
    unsafe { ptx!("fence.proxy.async.shared::cta;") };
}

/// `wgmma.fence`, four `wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8`, `wgmma.commit_group` and `wgmma.wait_group 0`:
/// `real += a b` and `imaginary += rotated b` of 64 rows and 128 columns over 64 bytes.
///
/// Warpgroup-wise. Fragment `k` of `a` and `rotated` is bytes `32k..32k + 32` of the warp's 16 rows, as
/// [`crate::tile::fragment::a`]; `columns` is the [`descriptor`] of 128 rows at the first of these bytes. Word `4n + i` of the
/// sums is word `i` of [`crate::tile::fragment::accumulator`] at columns `8n..8n + 8`. Wraps modulo 2^32.
///
/// # Safety
/// - All 128 threads of the warpgroup call it together, with the same `columns`.
/// - `columns` describes 128 rows of 128 bytes in the block's shared memory, from a multiple of 1024 bytes on, and
///   stands 0 or 64 bytes into the row.
/// - These bytes are complete and visible to `wgmma`: every thread has waited for the barrier of TMA's copy, or for one
///   behind the [`fence_proxy_async`] of the threads that stored them. Nobody writes them before the call returns.
#[inline(always)]
pub unsafe fn wgmma_m64n128_s8(
    real: &mut [u32; 64],
    imaginary: &mut [u32; 64],
    a: [[u32; 4]; 2],
    rotated: [[u32; 4]; 2],
    columns: u64,
) {
    // SAFETY: a whole warpgroup on columns that are there and visible, by the conditions above; the text waits for its
    // own products, so that the sums are complete.
    unsafe {
        asm_scope! {
            inout real: (0, 128), imaginary: (1, 128);
            [
                ".reg .pred accumulate; .reg .b64 b;",
                "setp.eq.u32 accumulate, 0, 0; mov.b64 b, {columns};",
                wgmma_fence!(),
                wgmma!(s8, (0, 128), operands "a00" "a01" "a02" "a03", "b", "accumulate"),
                wgmma!(s8, (1, 128), operands "r00" "r01" "r02" "r03", "b", "accumulate"),
                "add.s64 b, b, {step};",
                wgmma!(s8, (0, 128), operands "a10" "a11" "a12" "a13", "b", "accumulate"),
                wgmma!(s8, (1, 128), operands "r10" "r11" "r12" "r13", "b", "accumulate"),
                wgmma_commit!(),
                wgmma_wait!(0),
            ]
            [
                a00 = in(reg32) a[0][0], a01 = in(reg32) a[0][1], a02 = in(reg32) a[0][2], a03 = in(reg32) a[0][3],
                r00 = in(reg32) rotated[0][0], r01 = in(reg32) rotated[0][1], r02 = in(reg32) rotated[0][2], r03 = in(reg32) rotated[0][3],
                a10 = in(reg32) a[1][0], a11 = in(reg32) a[1][1], a12 = in(reg32) a[1][2], a13 = in(reg32) a[1][3],
                r10 = in(reg32) rotated[1][0], r11 = in(reg32) rotated[1][1], r12 = in(reg32) rotated[1][2], r13 = in(reg32) rotated[1][3],
                columns = in(reg64) columns,
            ]
            [
                step: descriptor_step(32),
            ]
        }
    };
}
