//! The F-engine: its arithmetic, which every backend follows to the bit, and its kernels.
//!
//! A spectrum of `K` residues (`K = 2 Z` real samples, or `K = Z` complex ones) is made in this order, every
//! operation an f32 one, rounded to nearest, half to even:
//!
//! 1. Samples become f32 exactly. One that is no finite number is zero.
//! 2. FIR: `acc = 0; acc = fma(h[r + p K], x[r + p K], acc)` for `p = 0..P`. With a hop `D` other than `K`
//!    the sum of tap offset `r` belongs to residue `(r + m D) mod K` of spectrum `m`. The table of real
//!    samples holds `h / 2`, which takes the halves out of step 4.
//! 3. FFT of `Z` points, by decimation in time: real samples make `z[i] = v[2i] + j v[2i+1]`. A column `p`
//!    of span `s` is the transform of `z[p + (Z/s) t]`, `t = 0..s`; columns of span 1 are the samples. If 3
//!    divides `Z`, [`triple`] makes columns of span 3 of `p`, `p + Z/3`, `p + 2Z/3` first. Then [`merge`]
//!    makes columns of span `2 s` of `p` and `p + Z/(2s)` until one is left. How many levels a backend takes
//!    at a time, and where it keeps what, changes no bit.
//! 4. Real samples: [`untangle`] makes channels `k` and `Z - k` of bins `k` and `Z - k`, `k = 0..=Z/2`. Of
//!    `k = 0` (both bins are bin 0) and `k = Z/2` the first result counts.
//!    Bins of a band that runs downwards are conjugated.
//! 5. [`multiply`] by the gain; where there are delays then by the rotation ([`quadrant`], [`rotation`]).
//! 6. Quantised: rounded to nearest, half to even, then clamped. A complex sample of which re or im was
//!    clamped is clipped. What is no number is zero.

use super::entry::{Entry, Kernel, Target, kernels, parameters};

/// f32 numbers that one operation takes together: one on a GPU, one for each input on a CPU.
pub trait Real: Copy {
    /// The same number in all.
    fn splat(value: f32) -> Self;
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// `self * other`.
    fn mul(self, other: Self) -> Self;
    /// `self * factor + term`, rounded once.
    fn fma(self, factor: Self, term: Self) -> Self;
    /// `-self`.
    fn neg(self) -> Self;
}

/// `[real, imaginary]`.
pub type Complex<R> = [R; 2];

/// Spans below this have twiddles of 1 and `-j` that are not multiplied by.
pub const PLAIN_SPANS: u32 = 8;

/// `[a + w b, a - w b]`.
#[inline(always)]
pub fn butterfly<R: Real>(a: Complex<R>, b: Complex<R>, w: Complex<R>) -> [Complex<R>; 2] {
    let re = b[0].fma(w[0], b[1].neg().fma(w[1], a[0]));
    let im = b[0].fma(w[1], b[1].fma(w[0], a[1]));
    let two = R::splat(2.0);
    [[re, im], [two.fma(a[0], re.neg()), two.fma(a[1], im.neg())]]
}

/// `[a + b, a - b]`.
#[inline(always)]
pub fn plain<R: Real>(a: Complex<R>, b: Complex<R>) -> [Complex<R>; 2] {
    [[a[0].add(b[0]), a[1].add(b[1])], [a[0].sub(b[0]), a[1].sub(b[1])]]
}

/// `[a - j b, a + j b]`.
#[inline(always)]
pub fn rotated<R: Real>(a: Complex<R>, b: Complex<R>) -> [Complex<R>; 2] {
    [[a[0].add(b[1]), a[1].sub(b[0])], [a[0].sub(b[1]), a[1].add(b[0])]]
}

/// Bins `k` and `k + span` of the column of span `2 span` that two columns make whose bins `k` are `a` and
/// `b`; `w` is [`twiddle`]`(.., span, k)` of the table, not looked at where it need not be.
#[inline(always)]
pub fn merge<R: Real>(
    a: Complex<R>,
    b: Complex<R>,
    span: u32,
    k: u32,
    w: Complex<R>,
) -> [Complex<R>; 2] {
    if span < PLAIN_SPANS && k == 0 {
        plain(a, b)
    } else if span < PLAIN_SPANS && 2 * k == span {
        rotated(a, b)
    } else {
        butterfly(a, b, w)
    }
}

/// Half the square root of 3.
pub const HALF_ROOT_3: f32 = 0.866_025_4;

/// The three bins of three samples.
#[inline(always)]
pub fn triple<R: Real>([x, y, z]: [Complex<R>; 3]) -> [Complex<R>; 3] {
    let [sum, difference] = plain(y, z);
    let half = R::splat(-0.5);
    let root = R::splat(HALF_ROOT_3);
    let middle = [half.fma(sum[0], x[0]), half.fma(sum[1], x[1])];
    [
        [x[0].add(sum[0]), x[1].add(sum[1])],
        [root.fma(difference[1], middle[0]), root.neg().fma(difference[0], middle[1])],
        [root.neg().fma(difference[1], middle[0]), root.fma(difference[0], middle[1])],
    ]
}

/// Channels `k` and `Z - k` of real samples, of bins `k` and `Z - k`; `w = exp(-2 pi j k / K)`, entry `k` of
/// the table.
#[inline(always)]
pub fn untangle<R: Real>(bin: Complex<R>, mirror: Complex<R>, w: Complex<R>) -> [Complex<R>; 2] {
    let even = [bin[0].add(mirror[0]), bin[1].sub(mirror[1])];
    let odd = [bin[1].add(mirror[1]), mirror[0].sub(bin[0])];
    let [first, second] = butterfly(even, odd, w);
    [first, [second[0], second[1].neg()]]
}

/// `x * y`.
#[inline(always)]
pub fn multiply<R: Real>(x: Complex<R>, y: Complex<R>) -> Complex<R> {
    [x[1].neg().fma(y[1], x[0].mul(y[0])), x[1].fma(y[0], x[0].mul(y[1]))]
}

/// Entry of the table of `exp(-2 pi j t / K)`, `t = 0..K/2` (see [`unit()`]), that [`merge`] takes for bin `k`
/// of two columns of `span`.
#[inline(always)]
pub const fn twiddle(residues: u32, span: u32, k: u32) -> u32 {
    k * (residues / (2 * span))
}

/// A phase, in units of `2^-32` of a cycle: the nearest quarter, and the rest in the same units, at most an eighth.
#[inline(always)]
pub const fn quadrant(turn: u32) -> (u32, i32) {
    let quarters = turn.wrapping_add(1 << 29) >> 30;
    (quarters, turn.wrapping_sub(quarters << 30) as i32)
}

/// `[cos, sin]` of a rest of [`quadrant`], converted to f32.
#[inline(always)]
pub fn rotation<R: Real>(rest: R) -> Complex<R> {
    const RADIANS: f32 = (core::f64::consts::TAU / 4_294_967_296.0) as f32;
    let x = rest.mul(R::splat(RADIANS));
    let square = x.mul(x);
    let constant = R::splat;
    let cosine = square.fma(constant(-1.0 / 3_628_800.0), constant(1.0 / 40_320.0));
    let cosine = square.fma(cosine, constant(-1.0 / 720.0));
    let cosine = square.fma(cosine, constant(1.0 / 24.0));
    let cosine = square.fma(cosine, constant(-0.5));
    let cosine = square.fma(cosine, constant(1.0));
    let sine = square.fma(constant(1.0 / 362_880.0), constant(-1.0 / 5040.0));
    let sine = square.fma(sine, constant(1.0 / 120.0));
    let sine = square.fma(sine, constant(-1.0 / 6.0));
    let sine = square.mul(sine);
    [cosine, x.fma(sine, x)]
}

/// `[cos, sin]` rotated by quarters of a cycle.
#[inline(always)]
pub fn turned<R: Real>([cosine, sine]: Complex<R>, quarters: u32) -> Complex<R> {
    match quarters & 3 {
        0 => [cosine, sine],
        1 => [sine.neg(), cosine],
        2 => [cosine.neg(), sine.neg()],
        _ => [sine, cosine.neg()],
    }
}

/// `exp(-2 pi j t / count)` for `t < count`, to the nearest f32: of the first eighth of the circle, mirrored,
/// so that equal parts are equal to the bit.
pub const fn unit(t: u32, count: u32) -> [f32; 2] {
    let (t, count) = (t as u64, count as u64);
    // Eighths of a cycle, then the rest of it, from the nearer end.
    let eighth = 8 * t / count;
    let (first, last) = (8 * t - eighth * count, (eighth + 1) * count - 8 * t);
    let part = if eighth % 2 == 0 { first } else { last };
    let x = core::f64::consts::FRAC_PI_4 * part as f64 / count as f64;
    let (mut cosine, mut sine, mut term) = (0.0, 0.0, 1.0);
    // The terms of the series, small against f64's precision after the last.
    let mut power = 0;
    while power < 20 {
        match power % 4 {
            0 => cosine += term,
            1 => sine += term,
            2 => cosine -= term,
            _ => sine -= term,
        }
        power += 1;
        term = term * x / power as f64;
    }
    let (c, s) = (cosine as f32, sine as f32);
    match eighth {
        0 => [c, -s],
        1 => [s, -c],
        2 => [-s, -c],
        3 => [-c, -s],
        4 => [-c, s],
        5 => [-s, c],
        6 => [s, c],
        _ => [c, s],
    }
}

/// How raw samples lie in memory.
pub mod raw {
    /// int8.
    pub const I8: u32 = 0;
    /// int16, little endian.
    pub const I16: u32 = 1;
    /// f32, little endian.
    pub const F32: u32 = 2;
    /// f16.
    pub const F16: u32 = 3;
    /// Two's-complement nibbles, the first of two in the high one.
    pub const NIBBLES: u32 = 4;
    /// The same, each in excess of 8.
    pub const NIBBLES_OFFSET: u32 = 5;
    /// Codes of 1, 2, 4, 8 or 16 bits: `CODES + bits`, the first in the lowest bits.
    pub const CODES: u32 = 16;
}

/// Levels of 2-bit codes.
pub const LEVELS_2: [f32; 4] = [-3.3165, -1.0, 1.0, 3.3165];

/// Encodings of spectra and beams.
pub mod output {
    /// int8 re, im.
    pub const CI8: u32 = 0;
    /// Two's-complement nibbles, re in the high one.
    pub const CI4: u32 = 1;
    /// Nibbles in excess of 8, re in the high one.
    pub const CI4_OFFSET: u32 = 2;
    /// IEEE half re, im.
    pub const CF16: u32 = 3;
    /// f32 re, im.
    pub const CF32: u32 = 4;

    /// Whether samples are integers.
    pub const fn is_integer(output: u32) -> bool {
        output < CF16
    }

    /// Bytes of a sample.
    pub const fn bytes(output: u32) -> u32 {
        match output {
            CI4 | CI4_OFFSET => 1,
            CI8 => 2,
            CF16 => 4,
            _ => 8,
        }
    }
}

/// `SpectrumStart::first` of a spectrum that is missing.
pub const MISSING: i64 = i64::MIN;

parameters! {
    /// First sample of a spectrum of an input, and the phases by which its channels are rotated.
    pub struct SpectrumStart {
        /// Index of the sample of tap 0, or [`MISSING`]: the spectrum is zero.
        pub first: i64,
        /// Phase of frequency 0, in units of `2^-64` of a cycle.
        pub phase: u64,
        /// Difference of phase from one channel to the next, likewise; both wrap, and the highest 32 bits count.
        pub slope: u64,
    }
}

parameters! {
    /// Parameters of the channelisers. Samples are counted, components of complex ones not.
    pub struct Channelise {
        /// Raw samples.
        pub samples: u64,
        /// Prototype `h` (real samples: `h / 2`), f32, `K P` of them.
        pub taps: u64,
        /// Pairs of f32: entry `s + i` is the [`twiddle`] of the bin at position `i` of a column of span `s`
        /// ([`bin_at`]), for all spans from the first merge's to `Z`.
        pub table: u64,
        /// Gains, pairs of f32.
        pub gains: u64,
        /// [`SpectrumStart`]s `[input][spectrum]`, or 0: spectrum `m` begins at sample `origin + m D`.
        pub places: u64,
        /// See `places`.
        pub origin: u64,
        /// Spectra.
        pub spectra: u64,
        /// Clipped samples of each input, u64, added to.
        pub clipped: u64,
        /// Samples from one input to the next.
        pub input_stride: u64,
        /// Samples from one time to the next.
        pub time_stride: u64,
        /// Values from one spectrum to the next.
        pub spectrum_stride: u64,
        /// Values from one channel to the next.
        pub channel_stride: u64,
        /// Values from one input to the next.
        pub value_stride: u64,
        /// [`COLUMNS`], [`BINS`]: points between the two, pairs of f32
        /// `[batch][spectrum][input][point]`.
        pub points: u64,
        /// `K`.
        pub residues: u32,
        /// `Z`, and `C`.
        pub size: u32,
        /// `P`.
        pub tap_count: u32,
        /// `D`.
        pub hop: u32,
        /// `m D mod K` of the first spectrum.
        pub turn: u32,
        /// Inputs.
        pub inputs: u32,
        /// Spectra of each.
        pub count: u32,
        /// One of [`raw`].
        pub encoding: u32,
        /// 1 for complex samples, else 0.
        pub complex: u32,
        /// One of [`output`].
        pub output: u32,
        /// Gains from one channel to the next: 1, or 0 if an input has one for all.
        pub gain_stride: u32,
        /// Gains from one input to the next.
        pub gain_pitch: u32,
        /// Inputs of a batch: [`FUSED_SPECTRA`] consecutive spectra of as many inputs. Batches are numbered with the
        /// inputs varying fastest.
        pub group: u32,
        /// [`COLUMNS`], [`BINS`]: the first batch.
        pub first_batch: u32,
        /// [`COLUMNS`], [`BINS`]: batches of the launch that have the same spectra; all, or those of one run.
        pub wide: u32,
        /// [`BINS`]: spectra of a block, 1 or [`FUSED_SPECTRA`].
        pub together: u32,
        /// [`COLUMNS`], [`BINS`]: span of the columns between the two, one that [`is_fused`].
        pub span: u32,
        /// [`COLUMNS`]: columns of a block, a power of two, 2 or more.
        pub columns: u32,
        /// 1 where inputs have delays: spectra are rotated as places say. Else 0.
        pub turned: u32,
        /// 1 for a band that runs downwards: bins are conjugated, and channels are numbered from the highest
        /// frequency of the samples down. Else 0.
        pub inverted: u32,
    }
}

parameters! {
    /// Parameters of [`KEEP`]. Rows are of an input each: samples one after the other, the first in the lowest bits.
    /// Grid: any; the threads share the words.
    pub struct Keep {
        /// Rows that were kept before.
        pub before: u64,
        /// Raw samples that came after them.
        pub samples: u64,
        /// Rows that are made.
        pub kept: u64,
        /// The first sample of the rows before that is kept.
        pub first: u64,
        /// Samples of the rows before that are kept.
        pub common: u64,
        /// Time of the first of the new samples.
        pub origin: u64,
        /// New samples from one input to the next.
        pub input_stride: u64,
        /// New samples from one time to the next.
        pub time_stride: u64,
        /// Bytes from one row before to the next.
        pub before_pitch: u64,
        /// Bytes from one row to the next, a multiple of 4.
        pub kept_pitch: u64,
        /// Samples of a row.
        pub times: u64,
        /// Inputs.
        pub inputs: u32,
        /// Bits of a sample, a power of two up to 64.
        pub bits: u32,
    }
}

/// Most points of a transform in one block's shared memory on any GPU from compute capability 8.0 on.
pub const LEVELS_SIZE: u32 = 12288;

/// Spectra of each input of a batch.
pub const FUSED_SPECTRA: u32 = 3;
/// Threads of a multiprocessor, which its blocks share: of one of them at most.
pub const FUSED_THREADS: u32 = 512;
/// Points of a transform after which two places of shared memory stay empty, so that passes of most strides
/// touch all banks, and two points next to each other lie in 16 aligned bytes.
pub const PAD: u32 = 16;

/// Offset of point `index` of a spectrum in shared memory, in bytes.
pub const fn point_offset(index: u32) -> u32 {
    8 * (index + index / PAD * 2)
}

/// Bytes of a spectrum of `size` points in shared memory.
pub const fn spectrum_bytes(size: u32) -> u32 {
    point_offset(size.next_multiple_of(PAD))
}

/// The lowest `bits` bits of `value`, reversed.
#[inline(always)]
const fn reversed(value: u32, bits: u32) -> u32 {
    // Twice, as a shift by 32 is none.
    value.reverse_bits() >> 1 >> (31 - bits)
}

/// Bin that lies at a position of a column of `span` bins, a power of two or three times one.
#[inline(always)]
pub const fn bin_at(position: u32, span: u32) -> u32 {
    let bits = span.trailing_zeros();
    let (third, rest) = (position >> bits, position & ((1 << bits) - 1));
    if span >> bits == 3 { third + 3 * reversed(rest, bits) } else { reversed(position, bits) }
}

/// Position of a bin of a column of `span` bins.
#[inline(always)]
pub const fn position_of(bin: u32, span: u32) -> u32 {
    let bits = span.trailing_zeros();
    if span >> bits == 3 {
        ((bin % 3) << bits) + reversed(bin / 3, bits)
    } else {
        reversed(bin, bits)
    }
}

/// Whether [`FUSED`] makes transforms of `size` points: a first pass of 8 to 32 or of 12, others of 2 to 16.
pub const fn is_fused(size: u32) -> bool {
    size >= 32
        && (size.is_power_of_two() || size.is_multiple_of(24) && (size / 3).is_power_of_two())
}

kernels! { KERNELS:
    /// Raw samples that later spectra need.
    KEEP: Kernel<Keep> = Kernel::new("channelise_keep", 256).sectors(32);
    /// Spectra of any size up to [`LEVELS_SIZE`], level by level. Launched with 8 bytes of shared memory for
    /// each point. Grid: any; the blocks share the spectra of
    /// every input.
    LEVELS: Kernel<Channelise> = Kernel::new("channelise_levels", 256).min_blocks(4).conflicts(16).sectors(32);
    /// Spectra of sizes that [`is_fused`], whose passes take several levels each. Launched with
    /// `FUSED_SPECTRA * group` times [`spectrum_bytes`] of shared memory. Grid: a block for each batch.
    FUSED: Kernel<Channelise> = Kernel::new("channelise_fused", FUSED_THREADS).conflicts(2).sectors(32);
    /// [`FUSED`], for the [default filterbank](is_default_pfb).
    FUSED_I8: Kernel<Channelise> = Kernel::new("channelise_fused_i8", FUSED_THREADS).conflicts(2).sectors(8);
    /// Columns of `span` of transforms of any size, to `points`. Launched with `FUSED_SPECTRA * 2` times
    /// [`spectrum_bytes`] of `span * columns` of shared memory. Grid: for each batch a block for every two
    /// inputs and every `columns` of the `Z / span` columns, a power of two of them.
    COLUMNS: Kernel<Channelise> = Kernel::new("channelise_columns", FUSED_THREADS).conflicts(2).sectors(8);
    /// [`COLUMNS`], for the [default filterbank](is_default_pfb).
    COLUMNS_I8: Kernel<Channelise> = Kernel::new("channelise_columns_i8", FUSED_THREADS).conflicts(2).sectors(8);
    /// Spectra of those points. Launched with `2 * together * group` times [`spectrum_bytes`] of `Z / span` of
    /// shared memory. Grid: for each batch a block for every `together` of its spectra and each of `span / 2` pairs
    /// of bins.
    BINS: Kernel<Channelise> = Kernel::new("channelise_bins", FUSED_THREADS).conflicts(2).sectors(4);
}

/// The kernels for one `K` and the [default filterbank](is_default_pfb), beside [`FUSED`]: `K`, then the constant and the entry of that
/// by itself, and of that whose blocks of a cluster store together, [`CLUSTER_INPUTS`] inputs. Handed to `$then!`: here,
/// and by the kernels' file.
macro_rules! fused_channelisers {
    ($then:ident) => {
        $then! {
            1024: FUSED_1024 channelise_fused_1024, CLUSTER_1024 channelise_cluster_1024;
            2048: FUSED_2048 channelise_fused_2048, CLUSTER_2048 channelise_cluster_2048;
            4096: FUSED_4096 channelise_fused_4096, CLUSTER_4096 channelise_cluster_4096;
            8192: FUSED_8192 channelise_fused_8192, CLUSTER_8192 channelise_cluster_8192;
        }
    };
}
#[allow(unused_imports)]
pub(crate) use fused_channelisers;

macro_rules! declare_fused {
    ($($residues:literal: $fused:ident $fused_name:ident, $cluster:ident $cluster_name:ident;)*) => {
        kernels! { WHOLE:
            $(
                #[doc = concat!("[`FUSED`], for `K` = ", $residues, " and the [default filterbank](is_default_pfb).")]
                $fused: Kernel<Channelise> = Kernel::new(stringify!($fused_name), FUSED_THREADS).conflicts(2).sectors(4);
                #[doc = concat!("[`", stringify!($fused), "`] in clusters.")]
                $cluster: Kernel<Channelise> = cluster(stringify!($cluster_name), $residues);
            )*
        }

        /// The kernels for one `K`, beside [`FUSED`].
        pub const FUSED_OF: &[(u32, Kernel<Channelise>)] = &[$(($residues, $fused)),*];
        /// Kernels of blocks in clusters, by `K`.
        pub const CLUSTERS: &[(u32, Kernel<Channelise>)] = &[$(($residues, $cluster)),*];
    };
}
fused_channelisers!(declare_fused);

/// The kernels for one `K` and the [default filterbank](is_default_pfb), beside [`COLUMNS`] and [`BINS`]: `K`, then the constants and the
/// entries of the two; see [`split_of`]. Handed to `$then!`: here, and by the kernels' file.
macro_rules! split_channelisers {
    ($then:ident) => {
        $then! {
            16384: COLUMNS_16384 channelise_columns_16384, BINS_16384 channelise_bins_16384;
            32768: COLUMNS_32768 channelise_columns_32768, BINS_32768 channelise_bins_32768;
            65536: COLUMNS_65536 channelise_columns_65536, BINS_65536 channelise_bins_65536;
            131072: COLUMNS_131072 channelise_columns_131072, BINS_131072 channelise_bins_131072;
            262144: COLUMNS_262144 channelise_columns_262144, BINS_262144 channelise_bins_262144;
            524288: COLUMNS_524288 channelise_columns_524288, BINS_524288 channelise_bins_524288;
            1048576: COLUMNS_1048576 channelise_columns_1048576, BINS_1048576 channelise_bins_1048576;
        }
    };
}
#[allow(unused_imports)]
pub(crate) use split_channelisers;

macro_rules! declare_split {
    ($($residues:literal: $columns:ident $columns_name:ident, $bins:ident $bins_name:ident;)*) => {
        kernels! { SPLIT:
            $(
                #[doc = concat!("[`COLUMNS`], for `K` = ", $residues, " and the [default filterbank](is_default_pfb).")]
                $columns: Kernel<Channelise> = columns_of(stringify!($columns_name), $residues);
                #[doc = concat!("[`BINS`] of [`", stringify!($columns), "`].")]
                $bins: Kernel<Channelise> = bins_of(stringify!($bins_name), $residues);
            )*
        }

        /// The kernels for one `K`, beside [`COLUMNS`] and [`BINS`].
        pub const SPLIT_OF: &[(u32, [Kernel<Channelise>; 2])] = &[$(($residues, [$columns, $bins])),*];
    };
}
split_channelisers!(declare_split);

/// Columns and rows into which a transform is split, by the kernels of [`SPLIT_OF`] and where a block has the room.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// [`Channelise::span`].
    pub span: u32,
    /// [`Channelise::columns`].
    pub columns: u32,
    /// [`Channelise::group`].
    pub group: u32,
    /// [`Channelise::together`].
    pub together: u32,
    /// Blocks of columns, and of bins, on a multiprocessor.
    pub blocks: [u32; 2],
}

impl Split {
    /// Shared memory of a block of columns, and of bins, of transforms of `size` points.
    pub const fn shared_bytes(&self, size: u32) -> [u32; 2] {
        let of_columns = FUSED_SPECTRA * 2 * self.columns * spectrum_bytes(self.span);
        [of_columns, 2 * self.together * self.group * spectrum_bytes(size / self.span)]
    }
}

/// Split of a transform of `size` points, a power of two from 2^13 on.
///
/// Samples of a block's columns lie in pieces of two for each column: many columns go before long ones. Blocks of
/// bins store pieces of the inputs of a batch.
pub const fn split_of(size: u32) -> Split {
    let (span, columns, blocks) = match size.trailing_zeros() {
        ..=13 => (32, 64, 2),
        14..=16 => (64, 32, 2),
        17..=18 => (128, 16, 2),
        _ => (256, 16, 1),
    };
    let (group, together, of_bins) = match size / span {
        ..=256 => (4, FUSED_SPECTRA, 4),
        257..=512 => (4, FUSED_SPECTRA, 2),
        513..=1024 => (4, 1, 2),
        _ => (2, 1, 2),
    };
    Split { span, columns, group, together, blocks: [blocks, of_bins] }
}

/// [`COLUMNS`] for one `K`.
const fn columns_of(name: &'static str, residues: u32) -> Kernel<Channelise> {
    let split = split_of(residues / 2);
    Kernel::new(name, FUSED_THREADS / split.blocks[0])
        .min_blocks(split.blocks[0])
        .shared_bytes(split.shared_bytes(residues / 2)[0])
        .conflicts(2)
        .sectors(4)
}

/// [`BINS`] for one `K`.
const fn bins_of(name: &'static str, residues: u32) -> Kernel<Channelise> {
    let split = split_of(residues / 2);
    Kernel::new(name, FUSED_THREADS / split.blocks[1])
        .min_blocks(split.blocks[1])
        .shared_bytes(split.shared_bytes(residues / 2)[1])
        .conflicts(2)
        .sectors(4)
}

/// Inputs of a cluster, whose int8 fill a sector of memory.
pub const CLUSTER_INPUTS: u32 = 16;

/// Inputs of a block of a cluster.
pub const fn cluster_group(residues: u32) -> u32 {
    if residues > 2048 { 2 } else { 4 }
}

/// A kernel in clusters: a thread for each task of the last pass.
const fn cluster(name: &'static str, residues: u32) -> Kernel<Channelise> {
    let (size, group) = (residues / 2, cluster_group(residues));
    Kernel::new(name, size / 16 * group)
        .target(Target::Sm90a)
        .min_blocks(FUSED_THREADS / (size / 16 * group))
        .cluster(CLUSTER_INPUTS / group)
        .shared_bytes(FUSED_SPECTRA * group * spectrum_bytes(size))
        .conflicts(2)
        .sectors(4)
}

/// Whether the filterbank is the one that [`FUSED_OF`] is built for: real int8 samples, one time sample beside the
/// next, 8 taps, a hop of one spectrum, no frequency shift.
pub const fn is_default_pfb(p: &Channelise) -> bool {
    p.encoding == raw::I8
        && p.complex == 0
        && p.tap_count == 8
        && p.hop == p.residues
        && p.turn == 0
        && p.time_stride == 1
}

/// Entries of this module.
pub const ENTRIES: &[&[Entry]] = &[KERNELS, WHOLE, SPLIT];
