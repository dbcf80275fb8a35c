//! Steps of many instructions in one `asm!`, composed by a kernel's own file from the atoms here.
//!
//! The assembler keeps `wgmma` running back to back only while nothing of the compiler's comes between:
//! from `wgmma.fence` to the wait, fragments included, a step is one `asm!`. An atom is a macro that
//! expands to the text of an instruction; [`asm_scope!`] puts texts and accumulators together. Registers of
//! a scope have names that the kernel declares by `registers!`. Accumulators of
//! some columns are arrays of half as many words, whose registers no one writes down: an atom names a set of
//! them. Offsets are `const` operands, computed from the tile.
//!
//! Word `4n + i` of a set is word `i` of [`crate::tile::fragment::accumulator`] at columns `8n..8n + 8` of the
//! warp's 16 rows.

/// Calls `$then! { @words [numbers] $arguments }` with the numbers of accumulator words, 16 for each of the
/// parts named: part `n` is words `16n..16n + 16`.
macro_rules! accumulator_words {
    ([] [$($word:tt)*] $then:ident $arguments:tt) => {
        $then! { @words [$($word)*] $arguments }
    };
    (@ [$($part:tt)*] [$($before:tt)*] [$($word:tt)*] $($then:tt)*) => {
        accumulator_words! { [$($part)*] [$($before)* $($word)*] $($then)* }
    };
    ([0 $($part:tt)*] $before:tt $($then:tt)*) => {
        accumulator_words! { @ [$($part)*] $before
            [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] $($then)* }
    };
    ([1 $($part:tt)*] $before:tt $($then:tt)*) => {
        accumulator_words! { @ [$($part)*] $before
            [16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31] $($then)* }
    };
    ([2 $($part:tt)*] $before:tt $($then:tt)*) => {
        accumulator_words! { @ [$($part)*] $before
            [32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47] $($then)* }
    };
    ([3 $($part:tt)*] $before:tt $($then:tt)*) => {
        accumulator_words! { @ [$($part)*] $before
            [48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63] $($then)* }
    };
    ([4 $($part:tt)*] $before:tt $($then:tt)*) => {
        accumulator_words! { @ [$($part)*] $before
            [64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79] $($then)* }
    };
    ([5 $($part:tt)*] $before:tt $($then:tt)*) => {
        accumulator_words! { @ [$($part)*] $before
            [80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95] $($then)* }
    };
    ([6 $($part:tt)*] $before:tt $($then:tt)*) => {
        accumulator_words! { @ [$($part)*] $before
            [96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111] $($then)* }
    };
    ([7 $($part:tt)*] $before:tt $($then:tt)*) => {
        accumulator_words! { @ [$($part)*] $before
            [112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127] $($then)* }
    };
    ([8 $($part:tt)*] $before:tt $($then:tt)*) => {
        accumulator_words! { @ [$($part)*] $before
            [128 129 130 131 132 133 134 135 136 137 138 139 140 141 142 143] $($then)* }
    };
    ([9 $($part:tt)*] $before:tt $($then:tt)*) => {
        accumulator_words! { @ [$($part)*] $before
            [144 145 146 147 148 149 150 151 152 153 154 155 156 157 158 159] $($then)* }
    };
    ([10 $($part:tt)*] $before:tt $($then:tt)*) => {
        accumulator_words! { @ [$($part)*] $before
            [160 161 162 163 164 165 166 167 168 169 170 171 172 173 174 175] $($then)* }
    };
    ([11 $($part:tt)*] $before:tt $($then:tt)*) => {
        accumulator_words! { @ [$($part)*] $before
            [176 177 178 179 180 181 182 183 184 185 186 187 188 189 190 191] $($then)* }
    };
}

/// [`accumulator_words`] of a set: `(1, 192)` is set 1 of those of 192 columns, 96 words each.
macro_rules! accumulator_set {
    ((0, 64) $($then:tt)*) => { accumulator_words! { [0 1] [] $($then)* } };
    ((1, 64) $($then:tt)*) => { accumulator_words! { [2 3] [] $($then)* } };
    ((2, 64) $($then:tt)*) => { accumulator_words! { [4 5] [] $($then)* } };
    ((0, 128) $($then:tt)*) => { accumulator_words! { [0 1 2 3] [] $($then)* } };
    ((1, 128) $($then:tt)*) => { accumulator_words! { [4 5 6 7] [] $($then)* } };
    ((2, 128) $($then:tt)*) => { accumulator_words! { [8 9 10 11] [] $($then)* } };
    ((0, 192) $($then:tt)*) => { accumulator_words! { [0 1 2 3 4 5] [] $($then)* } };
    ((1, 192) $($then:tt)*) => { accumulator_words! { [6 7 8 9 10 11] [] $($then)* } };
    ((0, 256) $($then:tt)*) => { accumulator_words! { [0 1 2 3 4 5 6 7] [] $($then)* } };
}

/// Text of the registers of a set of accumulators: `accumulator!((1, 192))`.
macro_rules! accumulator {
    (@words [$first:tt $($word:tt)*] ()) => { concat!("{", $first, "}" $(, ", {", $word, "}")*) };
    ($set:tt) => { accumulator_set! { $set accumulator () } };
}

/// One `asm!` with accumulators:
///
/// ```text
/// asm_scope! {
///     inout real: (0, 192), imaginary: (1, 192);      sets of accumulators, [u32; 96] each
///     [ texts, ]                                      atoms, which name a set as (0, 192)
///     [ operands, ]                                   as asm! takes them, in the end named
///     [ name: value, ]                                constants of the texts: offsets, masks
/// }
/// ```
///
/// All sets in order. `out` in place of `inout` where the first product overwrites them.
macro_rules! asm_scope {
    (@words [$($word:tt)*]
        ($direction:ident $sums:ident $columns:tt [$($set:tt)*] [$($done:tt)*] $text:tt $operands:tt $constants:tt)) => {
        asm_scope! {
            @sets $direction [$($set)*]
            [$($done)* $($direction(reg32) $sums[$word % ($columns / 2)],)*] $text $operands $constants
        }
    };
    (@sets $direction:ident [$sums:ident: ($set:tt, $columns:tt), $($more:tt)*] $done:tt $text:tt
        $operands:tt $constants:tt) => {
        accumulator_set! {
            ($set, $columns) asm_scope
            ($direction $sums $columns [$($more)*] $done $text $operands $constants)
        }
    };
    (@sets $direction:ident [] [$($accumulator:tt)*] [$($text:tt)*] [$($operand:tt)*]
        [$($name:ident: $value:expr),* $(,)?]) => {{
        // Where `ptx!` is not compiled, its operands are still type-checked.
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let _: &[u32] = &[$($value),*];
        }
        ptx!(
            // Not in column 0, where braces are a kernel's.
            " {{", $($text)* " }}",
            $($accumulator)*
            $($operand)*
            $($name = const $value,)*
        )
    }};
    ($direction:ident $($sums:ident: $set:tt),*; $text:tt $operands:tt $constants:tt) => {
        asm_scope! { @sets $direction [$($sums: $set,)*] [] $text $operands $constants }
    };
}

/// `.reg`: declares the registers of a scope, by type: `registers!(pred accumulate; b64 b; b32 at next; fragment even)`.
/// A `fragment` is four words, `even0` to `even3`.
macro_rules! registers {
    ($($type:ident $first:ident $($more:ident)*);+) => {
        concat!($(
            ".reg .", registers!(@type $type), " ", stringify!($first), registers!(@count $type),
            $(", ", stringify!($more), registers!(@count $type),)* ";",
        )+)
    };
    (@type fragment) => { "b32" };
    (@type $type:ident) => { stringify!($type) };
    (@count fragment) => { "<4>" };
    (@count $type:ident) => { "" };
}

/// Text of an instruction of single threads: its name, then its operands as PTX orders them, the result first. An operand
/// is text (a register of the scope, a number), `{name}` of an operand or constant of `asm_scope!`, or parts in brackets
/// that are joined: `instruction!(prmt ["odd" 1], ["odd" 1], ["odd" 1], {selector})`.
///
/// | name | PTX | result |
/// |---|---|---|
/// | `and`, `xor` | `and.b32`, `xor.b32` | bit by bit |
/// | `lop3` | `lop3.b32` | bit by bit, by a table of three operands ([`lop3`](crate::isa::common::lop3)) |
/// | `shl`, `shr` | `shl.b32`, `shr.u32` | bits shifted, zeros shifted in |
/// | `prmt` | `prmt.b32` | bytes picked ([`prmt`](crate::isa::common::prmt)) |
/// | `add`, `add_64` | `add.u32`, `add.s64` | sum, modulo 2^32 or 2^64 |
/// | `dp4a`, `dp4a_unsigned` | `dp4a.s32.s32`, `dp4a.u32.u32` | four products added ([`dp4a`](crate::isa::common::dp4a)) |
/// | `mov_pair` | `mov.b64` | 64 bits, of a low and a high word |
/// | `setp_eq`, `setp_ne` | `setp.eq.u32`, `setp.ne.u32` | predicate: whether two words are equal, or differ |
macro_rules! instruction {
    (and $($operand:tt),+) => { instruction!(@ "and.b32" $($operand),+) };
    (xor $($operand:tt),+) => { instruction!(@ "xor.b32" $($operand),+) };
    (lop3 $($operand:tt),+) => { instruction!(@ "lop3.b32" $($operand),+) };
    (shl $($operand:tt),+) => { instruction!(@ "shl.b32" $($operand),+) };
    (shr $($operand:tt),+) => { instruction!(@ "shr.u32" $($operand),+) };
    (prmt $($operand:tt),+) => { instruction!(@ "prmt.b32" $($operand),+) };
    (add $($operand:tt),+) => { instruction!(@ "add.u32" $($operand),+) };
    (add_64 $($operand:tt),+) => { instruction!(@ "add.s64" $($operand),+) };
    (dp4a $($operand:tt),+) => { instruction!(@ "dp4a.s32.s32" $($operand),+) };
    (dp4a_unsigned $($operand:tt),+) => { instruction!(@ "dp4a.u32.u32" $($operand),+) };
    (mov_pair $to:tt, $low:tt, $high:tt) => {
        concat!(
            "mov.b64 ", instruction!(@operand $to),
            ", {{", instruction!(@operand $low), ", ", instruction!(@operand $high), "}};"
        )
    };
    (setp_eq $($operand:tt),+) => { instruction!(@ "setp.eq.u32" $($operand),+) };
    (setp_ne $($operand:tt),+) => { instruction!(@ "setp.ne.u32" $($operand),+) };
    (@ $mnemonic:literal $first:tt $(, $more:tt)+) => {
        concat!(
            $mnemonic, " ", instruction!(@operand $first),
            $(", ", instruction!(@operand $more),)+ ";"
        )
    };
    (@operand [$($part:tt)+]) => { concat!($($part),+) };
    (@operand {$name:ident}) => { concat!("{", stringify!($name), "}") };
    (@operand $text:literal) => { $text };
}

/// `ldmatrix.sync.aligned.m8n8.x4.shared.b16`: words `0..4` of fragment `$a` from `$at`, as
/// [`ldmatrix_x4`](crate::isa::sm_80::ldmatrix_x4).
///
/// Warp-wise.
macro_rules! ldmatrix {
    ($a:literal, $at:literal) => {
        concat!(
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{",
            $a,
            "0, ",
            $a,
            "1, ",
            $a,
            "2, ",
            $a,
            "3}}, [",
            $at,
            "];"
        )
    };
}

/// `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16`, as
/// [`ldmatrix_x4_trans`](crate::isa::sm_80::ldmatrix_x4_trans). `x2` loads the first two of the matrices, to
/// words 0 and 2.
///
/// Warp-wise.
macro_rules! ldmatrix_trans {
    ($a:literal, $at:literal) => {
        concat!(
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{",
            $a,
            "0, ",
            $a,
            "1, ",
            $a,
            "2, ",
            $a,
            "3}}, [",
            $at,
            "];"
        )
    };
    (x2 $a:literal, $at:literal) => {
        concat!(
            "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {{",
            $a,
            "0, ",
            $a,
            "2}}, [",
            $at,
            "];"
        )
    };
}

/// `wgmma.fence.sync.aligned`: registers that the scope wrote may be read by `wgmma`.
///
/// Warpgroup-wise.
macro_rules! wgmma_fence {
    () => {
        "wgmma.fence.sync.aligned;"
    };
}

/// `wgmma.commit_group.sync.aligned`: the products since the last commit are a group.
///
/// Warpgroup-wise.
macro_rules! wgmma_commit {
    () => {
        "wgmma.commit_group.sync.aligned;"
    };
}

/// `wgmma.wait_group.sync.aligned`: all but the last `$groups` groups have ended, and the registers that they
/// read are free.
///
/// Warpgroup-wise.
macro_rules! wgmma_wait {
    ($groups:literal) => {
        concat!("wgmma.wait_group.sync.aligned ", $groups, ";")
    };
}

/// `wgmma.mma_async.sync.aligned.m64n<columns>k...`: adds to a set of accumulators the product of 64 rows and
/// `$columns` columns over 32 bytes; where the predicate `$accumulate` is false, overwrites it.
///
/// The rows are a `fragment` in registers of the scope or in `operands` of the `asm!`, each warp's 16 as
/// [`crate::tile::fragment::a`]; or, as columns are, a `panel` that the descriptor
/// ([`crate::isa::sm_90a::descriptor`]) in a 64-bit register describes.
///
/// Warpgroup-wise. Types: `s8`, `u8` (32-bit sums modulo 2^32), `f16` (single precision), `b1` (`and.popc`).
macro_rules! wgmma {
    ($type:ident, ($set:tt, $columns:tt), fragment $a:literal, $b:literal, $accumulate:literal) => {
        concat!(
            "wgmma.mma_async.sync.aligned.m64n", $columns, wgmma!(@ $type),
            " {{", accumulator!(($set, $columns)), "}}, ",
            "{{", $a, "0, ", $a, "1, ", $a, "2, ", $a, "3}}, ",
            $b, ", ", $accumulate, wgmma!(@fragment $type), ";"
        )
    };
    ($type:ident, ($set:tt, $columns:tt), operands $a:tt $a1:tt $a2:tt $a3:tt, $b:literal,
        $accumulate:literal) => {
        concat!(
            "wgmma.mma_async.sync.aligned.m64n", $columns, wgmma!(@ $type),
            " {{", accumulator!(($set, $columns)), "}}, ",
            "{{{", $a, "}, {", $a1, "}, {", $a2, "}, {", $a3, "}}}, ",
            $b, ", ", $accumulate, wgmma!(@fragment $type), ";"
        )
    };
    ($type:ident, ($set:tt, $columns:tt), panel $a:literal, $b:literal, $accumulate:literal) => {
        concat!(
            "wgmma.mma_async.sync.aligned.m64n", $columns, wgmma!(@ $type),
            " {{", accumulator!(($set, $columns)), "}}, ", $a, ", ",
            $b, ", ", $accumulate, wgmma!(@panel $type), ";"
        )
    };
    (@ s8) => { "k32.s32.s8.s8" };
    (@ u8) => { "k32.s32.u8.u8" };
    (@ f16) => { "k16.f32.f16.f16" };
    (@ b1) => { "k256.s32.b1.b1.and.popc" };
    // Factors of both operands; whether columns, and rows in shared memory, are transposed.
    (@fragment f16) => { ", 1, 1, 0" };
    (@panel f16) => { ", 1, 1, 0, 0" };
    (@fragment $type:ident) => { "" };
    (@panel $type:ident) => { "" };
}
