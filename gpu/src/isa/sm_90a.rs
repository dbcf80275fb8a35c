//! Instructions of Hopper alone (compute capability 9.0, `sm_90a`): the tensor memory accelerator,
//! barriers with transaction counts, and warpgroup matrix multiplication.
//!
//! A warpgroup is four warps, the first of them a multiple of four.

/// `mbarrier.init.shared::cta.b64`: a barrier whose phase ends after `arrivals` arrivals and the
/// bytes they announce.
///
/// # Safety
/// `barrier` is 8 bytes of shared memory, 8-byte aligned, that no one else uses yet.
#[inline(always)]
pub unsafe fn mbarrier_init(barrier: u32, arrivals: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        ptx!("mbarrier.init.shared::cta.b64 [{}], {};", in(reg32) barrier, in(reg32) arrivals)
    };
}

/// `fence.mbarrier_init.release.cluster` and `fence.proxy.async`: makes initialised barriers known
/// to the copy engine.
#[inline(always)]
pub fn fence_barrier_init() {
    // SAFETY: orders the thread's own accesses.
    unsafe { ptx!("fence.mbarrier_init.release.cluster; fence.proxy.async;") };
}

/// `mbarrier.arrive.shared::cta.b64`.
///
/// # Safety
/// `barrier` is an initialised barrier in shared memory.
#[inline(always)]
pub unsafe fn mbarrier_arrive(barrier: u32) {
    // SAFETY: the caller's promise.
    unsafe { ptx!("mbarrier.arrive.shared::cta.b64 _, [{}];", in(reg32) barrier) };
}

/// `mbarrier.arrive.expect_tx.shared::cta.b64`: arrives, and announces `bytes` bytes of copies.
///
/// # Safety
/// `barrier` is an initialised barrier in shared memory.
#[inline(always)]
pub unsafe fn mbarrier_arrive_expect(barrier: u32, bytes: u32) {
    // SAFETY: the caller's promise.
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
/// `barrier` is an initialised barrier in shared memory.
#[inline(always)]
pub unsafe fn mbarrier_try_wait(barrier: u32, parity: u32) -> bool {
    let ended: u32;
    // SAFETY: the caller's promise.
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
/// As [`mbarrier_try_wait`]'s.
#[inline(always)]
pub unsafe fn mbarrier_wait(barrier: u32, parity: u32) {
    // SAFETY: the caller's promise.
    while !unsafe { mbarrier_try_wait(barrier, parity) } {}
}

/// `cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes`: copies the
/// box of a tensor map that begins at `(x, y, z)`, x varying fastest; what lies outside the tensor
/// is zero. `barrier` counts the bytes of the whole box.
///
/// One thread.
///
/// # Safety
/// `map` is a tensor map in global memory; `shared` has room for the box, aligned as its swizzle
/// asks (1024 bytes for 128-byte rows).
#[inline(always)]
pub unsafe fn copy_tensor_3d(shared: u32, map: u64, [x, y, z]: [u32; 3], barrier: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        ptx!(
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
             [{}], [{}, {{{}, {}, {}}}], [{}];",
            in(reg32) shared, in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) z,
            in(reg32) barrier,
        )
    };
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
/// Every lane takes part; addresses are 16-byte aligned shared memory.
#[inline(always)]
pub unsafe fn stmatrix_x4(address: u32, [a, b, c, d]: [u32; 4]) {
    // SAFETY: the caller's promise.
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

/// Descriptor of a K-major operand in shared memory: rows of 128 bytes, swizzled as the copy engine
/// does (chunk `c` of row `r` at place `c ^ (r % 8)`), groups of eight rows 1024 bytes apart.
///
/// Source: PTX ISA, "Matrix descriptor". The operand of the next 32 bytes is two units further.
#[inline(always)]
pub const fn operand(shared: u32) -> u64 {
    const SWIZZLE_128: u64 = 1 << 62;
    const GROUP_STRIDE: u64 = (1024 / 16) << 32;
    SWIZZLE_128 | GROUP_STRIDE | 1 << 16 | ((shared as u64 & 0x3_ffff) >> 4)
}

/// Text that loads the fragment of 16 rows by 32 bytes at `$at`: of rows of time, of rows as delivered, or of
/// rows of 4-bit samples as delivered, which become int8, 16 times as large.
///
/// Of the latter a word is two inputs at two times: their real parts, then their imaginary parts stay, and
/// go to rows 8 from each other.
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_macros))]
macro_rules! load_rows {
    (of_time, $at:literal, $a:literal) => {
        concat!(
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 ",
            "{{", $a, "0, ", $a, "1, ", $a, "2, ", $a, "3}}, [", $at, "];"
        )
    };
    (delivered, $at:literal, $a:literal) => {
        concat!(
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 ",
            "{{", $a, "0, ", $a, "1, ", $a, "2, ", $a, "3}}, [", $at, "];"
        )
    };
    (delivered_nibbles, $at:literal, $a:literal) => {
        concat!(
            "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {{", $a, "0, ", $a, "2}}, [", $at, "];",
            load_rows!(@unpack $a, 0, 1),
            load_rows!(@unpack $a, 2, 3),
        )
    };
    (@unpack $a:literal, $first:literal, $second:literal) => {
        concat!(
            // (word ^ zero) & 0xf0f0f0f0
            "shl.b32 bits, ", $a, $first, ", 4; lop3.b32 bits, bits, {zero}, 0xf0f0f0f0, 0x28;",
            "lop3.b32 next, ", $a, $first, ", {zero}, 0xf0f0f0f0, 0x28;",
            "prmt.b32 ", $a, $first, ", next, bits, 0x6240;",
            "prmt.b32 ", $a, $second, ", next, bits, 0x7351;",
        )
    };
}

/// Text that loads the fragment of 16 rows by 32 bytes at `$at`, turns it and sums its rows.
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_macros))]
macro_rules! load_and_turn {
    ($load:ident, $at:literal, $a:literal, $turned:literal, $permutation:literal, $flip:literal,
        $sum:ident) => {
        concat!(
            load_rows!($load, $at, $a),
            load_and_turn!(@turn $a, $turned, 0, $permutation, $flip),
            load_and_turn!(@turn $a, $turned, 1, $permutation, $flip),
            load_and_turn!(@turn $a, $turned, 2, $permutation, $flip),
            load_and_turn!(@turn $a, $turned, 3, $permutation, $flip),
            load_and_turn!(@$sum $a, 0, "low"), load_and_turn!(@$sum $a, 2, "low"),
            load_and_turn!(@$sum $a, 1, "high"), load_and_turn!(@$sum $a, 3, "high"),
        )
    };
    (@imaginary $a:literal, $word:literal, $sum:literal) => {
        concat!("dp4a.s32.s32 {", $sum, "}, ", $a, $word, ", 0x01000100, {", $sum, "};")
    };
    // A comment: every operand of an `asm!` must be named.
    (@nothing $a:literal, $word:literal, $sum:literal) => { concat!("/* {", $sum, "} */") };
    (@turn $a:literal, $turned:literal, $word:literal, $permutation:literal, $flip:literal) => {
        concat!(
            "prmt.b32 ", $turned, $word, ", ", $a, $word, ", ", $a, $word, ", ", $permutation, ";",
            "xor.b32 ", $turned, $word, ", ", $turned, $word, ", ", $flip, ";",
        )
    };
}

/// Text of one `wgmma`: `$sums += $a * $b` over 32 bytes.
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_macros))]
macro_rules! wgmma {
    ($shape:literal, $types:literal, $scale:literal, $a:literal, $b:literal,
        $first:literal $($index:literal)*) => {
        concat!(
            "wgmma.mma_async.sync.aligned.", $shape, $types,
            " {{{", $first, "}", $(", {", $index, "}",)* "}}, ",
            "{{", $a, "0, ", $a, "1, ", $a, "2, ", $a, "3}}, ",
            $b, ", accumulate", $scale, ";"
        )
    };
}

/// Text of a fragment's part of the step: real products, turned products, one group.
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_macros))]
macro_rules! multiply_fragment {
    ($instruction:literal, $scale:literal, $a:literal, $turned:literal, $b:literal,
        [$($sum:literal)*] [$($turned_sum:literal)*]) => {
        concat!(
            "wgmma.fence.sync.aligned;",
            wgmma!($instruction, "", $scale, $a, $b, $($sum)*),
            wgmma!($instruction, "", $scale, $turned, $b, $($turned_sum)*),
            "wgmma.commit_group.sync.aligned;"
        )
    };
}

/// Text that goes `$units` on in `b`, and in the rows by `$go $bytes`: chunk 2k of a row lies where chunk
/// 0 does, but for bits 5 and 6; as delivered it is 16 k times further.
///
/// Where rows are summed, the address waits for the sums so far: the assembler would otherwise put
/// them all off to the end, and hold every fragment till then. The sums are less than 2^30.
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_macros))]
macro_rules! next_chunks {
    ($go:literal, $bytes:literal, $units:literal, imaginary) => {
        concat!(
            "add.s32 at, {low}, {high}; add.s32 at, at, 0x40000000; shr.u32 bits, at, 31;",
            next_chunks!($go, $bytes, $units, nothing),
            "add.u32 at, at, bits; "
        )
    };
    ($go:literal, $bytes:literal, $units:literal, nothing) => {
        concat!(
            $go,
            " at, {row}, ",
            $bytes,
            "; add.u32 next, {b}, ",
            $units,
            ";",
            "mov.b64 b, {{next, {high_bits}}};"
        )
    };
}

/// Defines steps of the multiplication of 64 rows by some columns over 128 bytes: one of rows of time
/// and, under more names, those of rows as delivered and of 4-bit samples as delivered.
macro_rules! multiply_steps {
    ($(
        $(#[$attribute:meta])*
        $name:ident $(, $delivered:ident, $nibbles:ident)?: $words:literal words, $instruction:literal,
        $scale:literal, turn $permutation:literal, $flip:literal, sum $what:ident,
        $sums:tt $turned:tt;
    )*) => {$(
        multiply_step! {
            $(#[$attribute])*
            ///
            /// Rows are a panel of [`crate::tile::panel`], `row` the address that the lane gives to
            /// `ldmatrix` for the first chunk of its warp's 16.
            $name(): $words words, $instruction, $scale, $permutation, $flip, $what, $sums $turned,
            of_time, "xor.b32", "32" "64" "96"
        }
        $(
            multiply_step! {
                #[doc = concat!("[`", stringify!($name), "`] of rows as delivered.")]
                ///
                /// Rows are a box of [`crate::correlate::feed`] as delivered, `row` the address that the
                /// lane gives to `ldmatrix` for the first 16 times of its warp's 16.
                $delivered(): $words words, $instruction, $scale, $permutation, $flip, $what,
                $sums $turned, delivered, "add.u32", "2048" "4096" "6144"
            }
            multiply_step! {
                #[doc = concat!("[`", stringify!($name), "`] of rows of 4-bit samples as delivered.")]
                ///
                /// Rows are a box of [`crate::correlate::feed`] as delivered, `row` the address that the
                /// lane gives to `ldmatrix` for the first 16 times of its warp's 16: their even ones, then
                /// the odd ones. Samples are two's complement, `zero` zero, or 8 too large, `zero`
                /// 0x88888888; they and their turn are multiplied as int8, 16 times as large.
                $nibbles(zero): $words words, $instruction, $scale, $permutation, "0xf000f000", $what,
                $sums $turned, delivered_nibbles, "add.u32", "2048" "4096" "6144"
            }
        )?
    )*};
}

/// Defines one of [`multiply_steps`].
///
/// One `asm!` holds the step: the assembler then keeps the multiplications running back to back, and
/// no copy of a register in use can come between. Two sets of fragments take turns: one is loaded and
/// turned while the other multiplies.
macro_rules! multiply_step {
    (
        $(#[$attribute:meta])*
        $name:ident($($zero:ident)?): $words:literal words, $instruction:literal, $scale:literal,
        $permutation:literal, $flip:literal, $what:ident,
        [$($sum:literal)*] [$($turned:literal)*],
        $load:ident, $go:literal, $second:literal $third:literal $fourth:literal
    ) => {
        $(#[$attribute])*
        ///
        /// Warpgroup-wise. `sums += a * b` and `turned_sums += a* * b` over 128 bytes of time. `a` is
        /// the rows, 64 of them; `a*` is their turn `(im, -re)`, by complement for int8
        /// ([`crate::correlate::samples`]); `b` is the [`operand`] of the
        /// columns. Word `4n + i` of the sums is word `i` of
        /// [`crate::tile::fragment::accumulator`] at columns `8n..8n + 8`. `row_sums += im` (int8; not
        /// in half precision) of the lane's share of its rows `lane / 4` and `lane / 4 + 8`.
        ///
        /// # Safety
        /// The whole warpgroup calls it; both panels are complete and visible.
        #[inline(always)]
        pub unsafe fn $name(
            sums: &mut [u32; $words],
            turned_sums: &mut [u32; $words],
            row_sums: &mut [u32; 2],
            row: u32,
            b: u64,
            $($zero: u32,)?
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                ptx!(
                    "{{ .reg .pred accumulate; .reg .b64 b; .reg .b32 at, bits, next;",
                    ".reg .b32 even<4>, even_turned<4>, odd<4>, odd_turned<4>;",
                    "setp.eq.u32 accumulate, 0, 0; mov.b64 b, {{{b}, {high_bits}}};",
                    load_and_turn!($load, "{row}", "even", "even_turned", $permutation, $flip, $what),
                    multiply_fragment!($instruction, $scale, "even", "even_turned", "b",
                        [$($sum)*] [$($turned)*]),
                    next_chunks!($go, $second, "2", $what),
                    load_and_turn!($load, "at", "odd", "odd_turned", $permutation, $flip, $what),
                    multiply_fragment!($instruction, $scale, "odd", "odd_turned", "b",
                        [$($sum)*] [$($turned)*]),
                    "wgmma.wait_group.sync.aligned 1;",
                    next_chunks!($go, $third, "4", $what),
                    load_and_turn!($load, "at", "even", "even_turned", $permutation, $flip, $what),
                    multiply_fragment!($instruction, $scale, "even", "even_turned", "b",
                        [$($sum)*] [$($turned)*]),
                    "wgmma.wait_group.sync.aligned 1;",
                    next_chunks!($go, $fourth, "6", $what),
                    load_and_turn!($load, "at", "odd", "odd_turned", $permutation, $flip, $what),
                    multiply_fragment!($instruction, $scale, "odd", "odd_turned", "b",
                        [$($sum)*] [$($turned)*]),
                    "wgmma.wait_group.sync.aligned 0; }}",
                    $(inout(reg32) sums[$sum],)*
                    $(inout(reg32) turned_sums[$turned - $words],)*
                    low = inout(reg32) row_sums[0],
                    high = inout(reg32) row_sums[1],
                    row = in(reg32) row,
                    b = in(reg32) b as u32,
                    high_bits = const (operand(0) >> 32) as u32,
                    $($zero = in(reg32) $zero,)?
                )
            };
        }
    };
}

multiply_steps! {
    /// `wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8`: int8, 64 columns.
    multiply_s8_64, multiply_delivered_s8_64, multiply_delivered_ci4_64: 32 words, "m64n64k32.s32.s8.s8", "",
        turn "0x2301", "0xff00ff00", sum imaginary,
        [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31]
        [32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60
        61 62 63];
    /// `wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8`: int8, 128 columns.
    multiply_s8_128, multiply_delivered_s8_128, multiply_delivered_ci4_128: 64 words, "m64n128k32.s32.s8.s8", "",
        turn "0x2301", "0xff00ff00", sum imaginary,
        [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
        62 63]
        [64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92
        93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116
        117 118 119 120 121 122 123 124 125 126 127];
    /// `wgmma.mma_async.sync.aligned.m64n192k32.s32.s8.s8`: int8, 192 columns.
    multiply_s8_192, multiply_delivered_s8_192, multiply_delivered_ci4_192: 96 words, "m64n192k32.s32.s8.s8", "",
        turn "0x2301", "0xff00ff00", sum imaginary,
        [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
        62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90
        91 92 93 94 95]
        [96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118
        119 120 121 122 123 124 125 126 127 128 129 130 131 132 133 134 135 136 137 138 139 140
        141 142 143 144 145 146 147 148 149 150 151 152 153 154 155 156 157 158 159 160 161 162
        163 164 165 166 167 168 169 170 171 172 173 174 175 176 177 178 179 180 181 182 183 184
        185 186 187 188 189 190 191];
    /// `wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16`: half precision, 64 columns.
    multiply_f16_64: 32 words, "m64n64k16.f32.f16.f16", ", 1, 1, 0",
        turn "0x1032", "0x80000000", sum nothing,
        [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31]
        [32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60
        61 62 63];
    /// `wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16`: half precision, 128 columns.
    multiply_f16_128: 64 words, "m64n128k16.f32.f16.f16", ", 1, 1, 0",
        turn "0x1032", "0x80000000", sum nothing,
        [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
        62 63]
        [64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92
        93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116
        117 118 119 120 121 122 123 124 125 126 127];
    /// `wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16`: half precision, 192 columns.
    multiply_f16_192: 96 words, "m64n192k16.f32.f16.f16", ", 1, 1, 0",
        turn "0x1032", "0x80000000", sum nothing,
        [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
        62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90
        91 92 93 94 95]
        [96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118
        119 120 121 122 123 124 125 126 127 128 129 130 131 132 133 134 135 136 137 138 139 140
        141 142 143 144 145 146 147 148 149 150 151 152 153 154 155 156 157 158 159 160 161 162
        163 164 165 166 167 168 169 170 171 172 173 174 175 176 177 178 179 180 181 182 183 184
        185 186 187 188 189 190 191];
}

/// Text that makes `$to` of the fragment of samples `$x`: p = 16 re or q = 16 im; or v where it lies, whose
/// rows it sums.
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_macros))]
macro_rules! nibbles {
    ($part:ident $x:literal $to:literal) => {
        concat!(
            nibbles!(@$part $x, $to, 0, "low"), nibbles!(@$part $x, $to, 1, "high"),
            nibbles!(@$part $x, $to, 2, "low"), nibbles!(@$part $x, $to, 3, "high"),
        )
    };
    (@p $x:literal, $to:literal, $word:literal, $sum:literal) => {
        concat!(
            "and.b32 ", $to, $word, ", ", $x, $word, ", 0xf0f0f0f0;",
            "xor.b32 ", $to, $word, ", ", $to, $word, ", {sign};",
        )
    };
    (@q $x:literal, $to:literal, $word:literal, $sum:literal) => {
        concat!(
            "shl.b32 ", $to, $word, ", ", $x, $word, ", 4; and.b32 ", $to, $word, ", ", $to, $word,
            ", 0xf0f0f0f0; xor.b32 ", $to, $word, ", ", $to, $word, ", {sign};",
        )
    };
    (@v $x:literal, $to:literal, $word:literal, $sum:literal) => {
        concat!(
            "xor.b32 ", $to, $word, ", ", $x, $word, ", {turn};",
            "dp4a.u32.u32 {", $sum, "}, ", $to, $word, ", 0x01010101, {", $sum, "};",
        )
    };
}

/// Text of one product, by the operand `$units` from `{b}`: one group.
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_macros))]
macro_rules! multiply_part {
    ($columns:literal, $types:literal, $a:literal, $units:literal, [$($sum:literal)*]) => {
        concat!(
            "add.u32 next, {b}, ", $units, "; mov.b64 b, {{next, {high_bits}}};",
            "wgmma.fence.sync.aligned;",
            wgmma!($columns, $types, "", $a, "b", $($sum)*),
            "wgmma.commit_group.sync.aligned;"
        )
    };
}

/// Text of the three products of the fragment of samples x. Those of the fragment before may be under way,
/// each till what it reads is made anew.
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_macros))]
macro_rules! multiply_nibble_fragment {
    ($columns:literal, $v_units:literal $p_units:literal $q_units:literal,
        $v:tt $p:tt $q:tt) => {
        concat!(
            "wgmma.wait_group.sync.aligned 2;",
            nibbles!(p "x" "p"),
            multiply_part!($columns, ".s32.s8.s8", "p", $p_units, $p),
            "wgmma.wait_group.sync.aligned 2;",
            nibbles!(q "x" "q"),
            multiply_part!($columns, ".s32.s8.s8", "q", $q_units, $q),
            "wgmma.wait_group.sync.aligned 2;",
            nibbles!(v "x" "v"),
            multiply_part!($columns, ".s32.u8.u8", "v", $v_units, $v),
        )
    };
}

/// Text that loads the next fragment of samples, `$bytes` from the first.
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_macros))]
macro_rules! load_nibbles {
    ($bytes:literal) => {
        concat!(
            // The address waits for the sums, as in `next_chunks`.
            "add.s32 at, {low}, {high}; add.s32 at, at, 0x40000000; shr.u32 bits, at, 31;",
            "xor.b32 at, {row}, ",
            $bytes,
            "; add.u32 at, at, bits;",
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{x0, x1, x2, x3}}, [at];",
        )
    };
}

/// Defines a step of the three products of 64 rows and some columns of 4-bit samples over 128 times.
///
/// Of the parts of a fragment two products at least are always under way.
macro_rules! multiply_nibbles {
    ($(
        $(#[$attribute:meta])*
        $name:ident: $words:literal words, $columns:literal, $v:tt $p:tt $q:tt,
        [$($index:literal $sum:literal $word:literal,)*];
    )*) => {$(
        $(#[$attribute])*
        ///
        /// Warpgroup-wise. Over 128 times of 64 rows, whose samples `a + ib` are those of a panel of
        /// [`crate::tile::panel`], a byte a time, the real part in the high nibble:
        /// `sums[0] += v * V`, `v = 16 (a + 8) + 7 - b` (u8); `sums[1] += 16 a * P` and
        /// `sums[2] += 16 b * Q` (int8). Nibbles are 8 too large, `sign` 0x80808080 and `turn`
        /// 0x0f0f0f0f, or two's complement, `sign` zero and `turn` 0x87878787. `row` is the address that
        /// the lane gives to `ldmatrix` for the first chunk of its warp's 16 rows. `b` is the
        /// [`operand`] of the columns' V (u8); P and Q (int8) are 32 and 48 KiB after it. Word `4n + i`
        /// of the sums is word `i` of [`crate::tile::fragment::accumulator`] at columns `8n..8n + 8`.
        /// `row_sums += v` of the lane's share of its rows `lane / 4` and `lane / 4 + 8`.
        ///
        /// # Safety
        /// The whole warpgroup calls it; the panels are complete and visible.
        #[inline(always)]
        pub unsafe fn $name<const EXCESS: bool>(
            sums: &mut [[u32; $words]; 3],
            row_sums: &mut [u32; 2],
            row: u32,
            b: u64,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                ptx!(
                    "{{ .reg .pred accumulate; .reg .b64 b; .reg .b32 at, bits, next;",
                    ".reg .b32 x<4>, p<4>, q<4>, v<4>; setp.eq.u32 accumulate, 0, 0;",
                    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{x0, x1, x2, x3}}, [{row}];",
                    multiply_nibble_fragment!($columns, "0" "2048" "3072", $v $p $q),
                    load_nibbles!("32"),
                    multiply_nibble_fragment!($columns, "2" "2050" "3074", $v $p $q),
                    load_nibbles!("64"),
                    multiply_nibble_fragment!($columns, "4" "2052" "3076", $v $p $q),
                    load_nibbles!("96"),
                    multiply_nibble_fragment!($columns, "6" "2054" "3078", $v $p $q),
                    "wgmma.wait_group.sync.aligned 0; }}",
                    $(inout(reg32) sums[$sum][$word],)*
                    low = inout(reg32) row_sums[0],
                    high = inout(reg32) row_sums[1],
                    row = in(reg32) row,
                    b = in(reg32) b as u32,
                    high_bits = const (operand(0) >> 32) as u32,
                    sign = const if EXCESS { 0x8080_8080u32 } else { 0 },
                    turn = const if EXCESS { 0x0f0f_0f0fu32 } else { 0x8787_8787 },
                )
            };
        }
    )*};
}

multiply_nibbles! {
    /// `wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.u8` and `.s8.s8`: 4-bit samples, 64 columns.
    multiply_nibbles_64: 32 words, "m64n64k32",
        [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31]
        [32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
62 63]
        [64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93
94 95],
        [0 0 0, 1 0 1, 2 0 2, 3 0 3, 4 0 4, 5 0 5, 6 0 6, 7 0 7, 8 0 8, 9 0 9, 10 0 10, 11 0 11, 12
0 12, 13 0 13, 14 0 14, 15 0 15, 16 0 16, 17 0 17, 18 0 18, 19 0 19, 20 0 20, 21 0 21, 22
0 22, 23 0 23, 24 0 24, 25 0 25, 26 0 26, 27 0 27, 28 0 28, 29 0 29, 30 0 30, 31 0 31, 32
1 0, 33 1 1, 34 1 2, 35 1 3, 36 1 4, 37 1 5, 38 1 6, 39 1 7, 40 1 8, 41 1 9, 42 1 10, 43 1
11, 44 1 12, 45 1 13, 46 1 14, 47 1 15, 48 1 16, 49 1 17, 50 1 18, 51 1 19, 52 1 20, 53 1
21, 54 1 22, 55 1 23, 56 1 24, 57 1 25, 58 1 26, 59 1 27, 60 1 28, 61 1 29, 62 1 30, 63 1
31, 64 2 0, 65 2 1, 66 2 2, 67 2 3, 68 2 4, 69 2 5, 70 2 6, 71 2 7, 72 2 8, 73 2 9, 74 2
10, 75 2 11, 76 2 12, 77 2 13, 78 2 14, 79 2 15, 80 2 16, 81 2 17, 82 2 18, 83 2 19, 84 2
20, 85 2 21, 86 2 22, 87 2 23, 88 2 24, 89 2 25, 90 2 26, 91 2 27, 92 2 28, 93 2 29, 94 2
30, 95 2 31,];
    /// `wgmma.mma_async.sync.aligned.m64n128k32.s32.u8.u8` and `.s8.s8`: 4-bit samples, 128 columns.
    multiply_nibbles_128: 64 words, "m64n128k32",
        [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
63]
        [64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93
94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117
118 119 120 121 122 123 124 125 126 127]
        [128 129 130 131 132 133 134 135 136 137 138 139 140 141 142 143 144 145 146 147 148 149
150 151 152 153 154 155 156 157 158 159 160 161 162 163 164 165 166 167 168 169 170 171
172 173 174 175 176 177 178 179 180 181 182 183 184 185 186 187 188 189 190 191],
        [0 0 0, 1 0 1, 2 0 2, 3 0 3, 4 0 4, 5 0 5, 6 0 6, 7 0 7, 8 0 8, 9 0 9, 10 0 10, 11 0 11, 12
0 12, 13 0 13, 14 0 14, 15 0 15, 16 0 16, 17 0 17, 18 0 18, 19 0 19, 20 0 20, 21 0 21, 22
0 22, 23 0 23, 24 0 24, 25 0 25, 26 0 26, 27 0 27, 28 0 28, 29 0 29, 30 0 30, 31 0 31, 32
0 32, 33 0 33, 34 0 34, 35 0 35, 36 0 36, 37 0 37, 38 0 38, 39 0 39, 40 0 40, 41 0 41, 42
0 42, 43 0 43, 44 0 44, 45 0 45, 46 0 46, 47 0 47, 48 0 48, 49 0 49, 50 0 50, 51 0 51, 52
0 52, 53 0 53, 54 0 54, 55 0 55, 56 0 56, 57 0 57, 58 0 58, 59 0 59, 60 0 60, 61 0 61, 62
0 62, 63 0 63, 64 1 0, 65 1 1, 66 1 2, 67 1 3, 68 1 4, 69 1 5, 70 1 6, 71 1 7, 72 1 8, 73
1 9, 74 1 10, 75 1 11, 76 1 12, 77 1 13, 78 1 14, 79 1 15, 80 1 16, 81 1 17, 82 1 18, 83 1
19, 84 1 20, 85 1 21, 86 1 22, 87 1 23, 88 1 24, 89 1 25, 90 1 26, 91 1 27, 92 1 28, 93 1
29, 94 1 30, 95 1 31, 96 1 32, 97 1 33, 98 1 34, 99 1 35, 100 1 36, 101 1 37, 102 1 38,
103 1 39, 104 1 40, 105 1 41, 106 1 42, 107 1 43, 108 1 44, 109 1 45, 110 1 46, 111 1 47,
112 1 48, 113 1 49, 114 1 50, 115 1 51, 116 1 52, 117 1 53, 118 1 54, 119 1 55, 120 1 56,
121 1 57, 122 1 58, 123 1 59, 124 1 60, 125 1 61, 126 1 62, 127 1 63, 128 2 0, 129 2 1,
130 2 2, 131 2 3, 132 2 4, 133 2 5, 134 2 6, 135 2 7, 136 2 8, 137 2 9, 138 2 10, 139 2
11, 140 2 12, 141 2 13, 142 2 14, 143 2 15, 144 2 16, 145 2 17, 146 2 18, 147 2 19, 148 2
20, 149 2 21, 150 2 22, 151 2 23, 152 2 24, 153 2 25, 154 2 26, 155 2 27, 156 2 28, 157 2
29, 158 2 30, 159 2 31, 160 2 32, 161 2 33, 162 2 34, 163 2 35, 164 2 36, 165 2 37, 166 2
38, 167 2 39, 168 2 40, 169 2 41, 170 2 42, 171 2 43, 172 2 44, 173 2 45, 174 2 46, 175 2
47, 176 2 48, 177 2 49, 178 2 50, 179 2 51, 180 2 52, 181 2 53, 182 2 54, 183 2 55, 184 2
56, 185 2 57, 186 2 58, 187 2 59, 188 2 60, 189 2 61, 190 2 62, 191 2 63,];
}

/// `fence.proxy.async.shared::cta`: what the thread wrote to shared memory before is visible to
/// `wgmma` and the copy engine of who hears of it after.
#[inline(always)]
pub fn fence_proxy_async() {
    // SAFETY: orders the thread's own accesses.
    unsafe { ptx!("fence.proxy.async.shared::cta;") };
}

/// Text of one `wgmma` with weights in registers, its operand `$offset` units from the first, the
/// address of which is asm operand `$b`.
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_macros))]
macro_rules! wgmma_weights {
    ([$first:literal $($sum:literal)*] $operand:literal $a:literal $b:literal $c:literal $d:literal,
        $offset:literal, $accumulate:literal) => {
        concat!(
            "add.s64 b, {", $operand, "}, ", $offset, ";",
            "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 ",
            "{{{", $first, "}", $(", {", $sum, "}",)* "}}, ",
            "{{{", $a, "}, {", $b, "}, {", $c, "}, {", $d, "}}}, b, ", $accumulate, ";"
        )
    };
}

/// Defines a function of [`multiply_weights`]: its name and steps, the number of the asm operand that is
/// the address of `b`, sums, then steps of (operands of a fragment, offset of `b`).
macro_rules! multiply_weights {
    ($name:ident $steps:literal $operand:literal; $sums:tt; [$($sum:literal)*];
        $($step:literal: $a:literal $b:literal $c:literal $d:literal, $offset:literal, $accumulate:literal;)*) => {
        /// [`multiply_weights`] of so many steps.
        ///
        /// # Safety
        /// As for [`multiply_weights`].
        #[inline(always)]
        unsafe fn $name(weights: &[[u32; 4]; $steps], b: u64) -> [u32; 64] {
            let mut sums = [0; 64];
            // SAFETY: the caller's promise.
            unsafe {
                ptx!(
                    "{{ .reg .pred first, more; .reg .b64 b;",
                    "setp.ne.u32 first, 0, 0; setp.eq.u32 more, 0, 0;",
                    "wgmma.fence.sync.aligned;",
                    $(wgmma_weights!($sums $operand $a $b $c $d, $offset, $accumulate),)*
                    "wgmma.commit_group.sync.aligned;",
                    "wgmma.wait_group.sync.aligned 0; }}",
                    $(out(reg32) sums[$sum],)*
                    $(
                        in(reg32) weights[$step][0], in(reg32) weights[$step][1],
                        in(reg32) weights[$step][2], in(reg32) weights[$step][3],
                    )*
                    in(reg64) b,
                )
            };
            sums
        }
    };
}

/// `wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8`, `STEPS` of them (4, 8 or 16): the product of 64
/// rows of `32 STEPS` bytes, whose fragments the warpgroup holds (each warp 16 rows, as
/// [`crate::tile::fragment::a`]), and of the 128 columns that the [`operand`] `b` describes, in panels
/// of 128 bytes of K, 16 KiB apart. Word `4n + i` of the sums is word `i` of
/// [`crate::tile::fragment::accumulator`] at columns `8n..8n + 8`.
///
/// Warpgroup-wise.
///
/// # Safety
/// The whole warpgroup calls it; the panels are complete and visible to `wgmma`.
#[inline(always)]
pub unsafe fn multiply_weights<const STEPS: usize>(
    weights: &[[u32; 4]; STEPS],
    b: u64,
) -> [u32; 64] {
    // Which it is is known when compiling.
    if let (16, Some(weights)) = (STEPS, weights.first_chunk()) {
        // SAFETY: the caller's promise.
        unsafe { multiply_weights_16(weights, b) }
    } else if let (8, Some(weights)) = (STEPS, weights.first_chunk()) {
        // SAFETY: the caller's promise.
        unsafe { multiply_weights_8(weights, b) }
    } else if let (4, Some(weights)) = (STEPS, weights.first_chunk()) {
        // SAFETY: the caller's promise.
        unsafe { multiply_weights_4(weights, b) }
    } else {
        crate::isa::common::trap()
    }
}

multiply_weights! {
    multiply_weights_4 4 80;
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63]; [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63];
    0: 64 65 66 67, 0, "first";
    1: 68 69 70 71, 2, "more";
    2: 72 73 74 75, 4, "more";
    3: 76 77 78 79, 6, "more";
}

multiply_weights! {
    multiply_weights_8 8 96;
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63]; [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63];
    0: 64 65 66 67, 0, "first";
    1: 68 69 70 71, 2, "more";
    2: 72 73 74 75, 4, "more";
    3: 76 77 78 79, 6, "more";
    4: 80 81 82 83, 1024, "more";
    5: 84 85 86 87, 1026, "more";
    6: 88 89 90 91, 1028, "more";
    7: 92 93 94 95, 1030, "more";
}

multiply_weights! {
    multiply_weights_16 16 128;
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63]; [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63];
    0: 64 65 66 67, 0, "first";
    1: 68 69 70 71, 2, "more";
    2: 72 73 74 75, 4, "more";
    3: 76 77 78 79, 6, "more";
    4: 80 81 82 83, 1024, "more";
    5: 84 85 86 87, 1026, "more";
    6: 88 89 90 91, 1028, "more";
    7: 92 93 94 95, 1030, "more";
    8: 96 97 98 99, 2048, "more";
    9: 100 101 102 103, 2050, "more";
    10: 104 105 106 107, 2052, "more";
    11: 108 109 110 111, 2054, "more";
    12: 112 113 114 115, 3072, "more";
    13: 116 117 118 119, 3074, "more";
    14: 120 121 122 123, 3076, "more";
    15: 124 125 126 127, 3078, "more";
}

/// Text of one `wgmma` with both operands in shared memory, `$offset` units from the first.
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_macros))]
macro_rules! wgmma_panels {
    ($instruction:literal, $scale:literal, [$first:literal $($sum:literal)*], $offset:literal) => {
        concat!(
            "add.s64 a, {a}, ", $offset, "; add.s64 b, {b}, ", $offset, ";",
            "wgmma.mma_async.sync.aligned.", $instruction,
            " {{{", $first, "}", $(", {", $sum, "}",)* "}}, a, b, accumulate", $scale, ";"
        )
    };
}

/// Text of the four `wgmma` over the 128 bytes of a panel's rows.
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_macros))]
macro_rules! wgmma_rows {
    ($instruction:literal, $scale:literal, $sums:tt) => {
        concat!(
            wgmma_panels!($instruction, $scale, $sums, 0),
            wgmma_panels!($instruction, $scale, $sums, 2),
            wgmma_panels!($instruction, $scale, $sums, 4),
            wgmma_panels!($instruction, $scale, $sums, 6),
        )
    };
}

/// Calls a macro with the numbers of the sums of 256 columns before its arguments.
macro_rules! with_sums_of_256 {
    ($macro:ident! $($arguments:tt)*) => {
        $macro! { [
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26
            27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50
            51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74
            75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98
            99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116
            117 118 119 120 121 122 123 124 125 126 127
        ] $($arguments)* }
    };
}

/// Defines the product of panels of 64 rows and 256 columns.
macro_rules! multiply_panels {
    ([$($sum:literal)*] $(#[$attribute:meta])* $name:ident: $instruction:literal, $scale:literal) => {
        $(#[$attribute])*
        /// 16 of them: four times `sums += a * b` over 128 bytes, `a` the [`operand`] of 64 rows, `b`
        /// that of 256 columns. Word `4n + i` of the sums is word `i` of
        /// [`crate::tile::fragment::accumulator`] at columns `8n..8n + 8`.
        ///
        /// Warpgroup-wise.
        ///
        /// # Safety
        /// The whole warpgroup calls it; the panels are complete and visible to `wgmma`.
        #[inline(always)]
        pub unsafe fn $name(sums: &mut [u32; 128], a: u64, b: u64) {
            // SAFETY: the caller's promise.
            unsafe {
                ptx!(
                    "{{ .reg .pred accumulate; .reg .b64 a; .reg .b64 b;",
                    "setp.eq.u32 accumulate, 0, 0;",
                    "wgmma.fence.sync.aligned;",
                    wgmma_rows!($instruction, $scale, [$($sum)*]),
                    wgmma_rows!($instruction, $scale, [$($sum)*]),
                    wgmma_rows!($instruction, $scale, [$($sum)*]),
                    wgmma_rows!($instruction, $scale, [$($sum)*]),
                    "wgmma.commit_group.sync.aligned;",
                    "wgmma.wait_group.sync.aligned 0; }}",
                    $(inout(reg32) sums[$sum],)*
                    a = in(reg64) a,
                    b = in(reg64) b,
                )
            };
        }
    };
}

with_sums_of_256! { multiply_panels!
    /// `wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8`: int8,
    multiply_panels_s8: "m64n256k32.s32.s8.s8", ""
}
with_sums_of_256! { multiply_panels!
    /// `wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16`: half precision,
    multiply_panels_f16: "m64n256k16.f32.f16.f16", ", 1, 1, 0, 0"
}
with_sums_of_256! { multiply_panels!
    /// `wgmma.mma_async.sync.aligned.m64n256k256.s32.b1.b1.and.popc`: single bits,
    multiply_panels_b1: "m64n256k256.s32.b1.b1.and.popc", ""
}
