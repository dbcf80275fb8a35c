//! Autocorrelation on the CPU.
//!
//! Rows go in tiles to the cores. A tile takes its counts in runs of [`RUN`] instants, turned so that
//! a sensor's counts lie next to each other; then every group of every row in turn:
//!
//! - bins: `Z_k[m] = Z_{k-1}[2m] + Z_{k-1}[2m+1]`, and the delay line grows by as many delayed bins,
//!   made of two of the group before;
//! - products: with the line `d` whose oldest bin comes first, lag `c` is the dot product of the new
//!   bins `z` with `d` from place `S - 1 - c` on.
//!
//! The bound: the dot products, `S (2 - 2^(1-G))` multiply-adds a count, 32 of them an AVX-512
//! instruction in the groups whose bins fit int16.

use rayon::prelude::*;

use crate::{
    autocorrelate::{
        backend::Backend,
        shape::{Scheme, Shape},
        state::State,
        times::{Curve, Entry, Lists, Run, by_lists},
    },
    error::Result,
    layout::Layout,
    samples::view::Samples,
};

/// Bytes of counts that are brought together at once where they cannot be read as they lie.
const PIECE_BYTES: usize = 16 << 20;

/// Instants of a run: one sensor's bins and lines of all groups stay in the L1 cache.
const RUN: usize = 4096;

/// Rows of a tile: as many bytes as a cache line, where sensors are neighbours.
const TILE: usize = 64;

/// Rows for each sensor above which counts are turned for all rows together.
const SHARED: usize = 2;

/// Bins of a run of arrival times, in the first group that is computed from counts; and its photons, if no group is.
const RUN_BINS: u64 = 4096;
const RUN_PHOTONS: u64 = 4096;

/// Groups whose bins are held in 16 bits: `255 * 2^6 < 2^15`, and dot products of at least 16 terms
/// fit 32 bits.
const NARROW_GROUPS: usize = 7;

/// Lags whose dot products are summed together: they share the loads of `z`.
const LAGS_TOGETHER: usize = 8;

/// The CPU backend: a state, and the instructions to advance it.
pub(super) struct Cpu {
    state: State,
    advance: Advance,
}

/// Advances a row by a run of counts, or from a group on whose lists are in the scratch.
type Advance = fn(&Shape, &mut Row<'_>, &mut Scratch, u64, usize);

impl Cpu {
    pub(super) fn new(state: State) -> Self {
        Self { state, advance: best() }
    }
}

/// One row of a state.
struct Row<'a> {
    products: &'a mut [u64],
    totals: &'a mut [u64; 2],
    partial: &'a mut [u32],
    cells: &'a mut [u32],
}

impl Cpu {
    /// Advances the state by counts `[instant][sensor]`.
    fn advance_by(&mut self, counts: &[u8]) {
        let shape = self.state.shape;
        let (points, groups) = (shape.points(), shape.groups);
        let line = groups * shape.cells();
        let (begin, advance) = (self.state.instants, self.advance);
        let instants = counts.len() / shape.sensors;
        let rows = self.state.pairs.len();
        let tile = TILE.min(rows.div_ceil(rayon::current_num_threads()));
        // The counts of a sensor with many rows are transposed once for all of them, a run at a time.
        let shared = rows > SHARED * shape.sensors;
        let stretch = if shared { RUN } else { instants.max(1) };
        for start in (0..instants).step_by(stretch) {
            let counts =
                &counts[start * shape.sensors..instants.min(start + stretch) * shape.sensors];
            let (begin, instants) = (begin + start as u64, counts.len() / shape.sensors);
            let turned = if shared { turned(counts, shape.sensors) } else { Vec::new() };
            (
                self.state.pairs.par_chunks(tile),
                self.state.products.par_chunks_mut(tile * points),
                self.state.totals.par_chunks_mut(tile),
                self.state.partial.par_chunks_mut(tile * groups),
                self.state.cells.par_chunks_mut(tile * line),
            )
                .into_par_iter()
                .for_each_init(Scratch::default, |scratch, tile| {
                    let (pairs, products, totals, partial, cells) = tile;
                    for first in (0..instants).step_by(RUN) {
                        let run = RUN.min(instants - first);
                        if !shared {
                            let part = first * shape.sensors..(first + run) * shape.sensors;
                            scratch.turn(&counts[part], shape.sensors, pairs);
                        }
                        let rows = products
                            .chunks_mut(points)
                            .zip(totals.iter_mut())
                            .zip(partial.chunks_mut(groups).zip(cells.chunks_mut(line)));
                        for (index, ((products, totals), (partial, cells))) in rows.enumerate() {
                            let mut row = Row { products, totals, partial, cells };
                            if shared {
                                scratch.copy_runs(&turned, pairs[index], run);
                            } else {
                                scratch.begin(index, run);
                            }
                            advance(&shape, &mut row, scratch, begin + first as u64, 0);
                        }
                    }
                });
        }
        self.state.instants += instants as u64;
    }
}

impl Cpu {
    /// Advances the state by photons of each sensor.
    fn advance_by_times(&mut self, instants: u64, photons: &[Vec<Entry<u32>>]) {
        let shape = self.state.shape;
        let (points, groups) = (shape.points(), shape.groups);
        let line = groups * shape.cells();
        let (begin, advance) = (self.state.instants, self.advance);
        (
            self.state.pairs.par_iter(),
            self.state.products.par_chunks_mut(points),
            self.state.totals.par_iter_mut(),
            self.state.partial.par_chunks_mut(groups),
            self.state.cells.par_chunks_mut(line),
        )
            .into_par_iter()
            .for_each_init(Scratch::default, |scratch, row| {
                let (pair, products, totals, partial, cells) = row;
                let mut row = Row { products, totals, partial, cells };
                let photons = pair.map(|sensor| &photons[sensor as usize][..]);
                let stretch = Run { begin, instants: instants as u32 };
                row.advance_by_times(&shape, scratch, stretch, photons, advance);
            });
        self.state.instants += instants;
    }
}

impl Row<'_> {
    /// Advances it by photons of a stretch: short bins by their lists, long ones by counts.
    fn advance_by_times(
        &mut self,
        shape: &Shape,
        scratch: &mut Scratch,
        stretch: Run,
        photons: [&[Entry<u32>]; 2],
        advance: Advance,
    ) {
        let sums = photons.map(|list| list.iter().map(|entry| u64::from(entry.value)).sum::<u64>());
        self.totals.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
        let entries = photons.map(|list| list.len() as u64);
        let instants = u64::from(stretch.instants);
        // Lists compute one group at least: counts of times have to be made elsewhere.
        let (groups, _) = by_lists(shape, entries, instants);
        let groups = groups.max(1);
        let most = match groups < shape.groups {
            true => RUN_BINS << groups,
            false => (instants * RUN_PHOTONS / (entries[0] + entries[1]).max(1)).max(RUN_BINS),
        };
        let mut rest = photons;
        let mut first = 0;
        while first < instants {
            let run =
                Run { begin: stretch.begin + first, instants: most.min(instants - first) as u32 };
            let end = first + u64::from(run.instants);
            let now = rest
                .map(|list| list.split_at(list.partition_point(|entry| u64::from(entry.at) < end)));
            rest = now.map(|(_, after)| after);
            let now = now.map(|(now, _)| now);
            // Half of a bin waits where a group has begun one that the group before has not.
            let halves = &mut scratch.halves;
            halves.clear();
            halves.push(0);
            halves.extend(self.partial.array_windows().map(|[before, own]| own - before));
            let mut curve =
                Curve { products: &mut *self.products, halves, cells: &mut *self.cells };
            scratch.lists.advance(shape, groups, run, now, first as u32, &mut curve);
            if groups < shape.groups {
                scratch.run_sum =
                    now[0].iter().fold(0_u32, |sum, entry| sum.wrapping_add(entry.value));
                scratch.fill(shape, groups, run, self.cells);
                advance(shape, self, scratch, run.begin, groups);
            }
            let mut waits = 0;
            for (partial, half) in self.partial.iter_mut().zip(&scratch.halves).take(groups) {
                waits += half;
                *partial = waits;
            }
            first = end;
        }
    }
}

impl Backend for Cpu {
    fn takes_times(&self) -> bool {
        true
    }

    fn accumulate_times(&mut self, instants: u64, photons: &[Vec<Entry<u32>>]) -> Result<()> {
        self.advance_by_times(instants, photons);
        Ok(())
    }

    fn accumulate(&mut self, counts: &Samples<'_>) -> Result<()> {
        counts.check_host()?;
        if let Some(plain) = counts.plain(Layout::Tcn) {
            self.advance_by(plain);
            return Ok(());
        }
        let times = counts.extents().times;
        let most = (PIECE_BYTES / self.state.shape.sensors).max(1);
        for first in (0..times).step_by(most) {
            let piece = counts.times(first..times.min(first + most));
            self.advance_by(&piece.gather(Layout::Tcn)?);
        }
        Ok(())
    }

    fn state_into(&mut self, state: &mut State) -> Result<()> {
        state.clone_from(&self.state);
        Ok(())
    }
}

/// One group's bins and delay line over a run.
#[derive(Default)]
struct Bins<T> {
    /// New complete bins of the sensor that is not delayed.
    z: Vec<T>,
    /// The delay line, the oldest bin first, and the bins that enter it.
    d: Vec<T>,
}

impl<T: Bin> Bins<T> {
    /// Makes bins of lists, of which `new` are new.
    fn fill(&mut self, lists: &Lists<u32>, new: u32, cells: &[u32]) {
        let Self { z, d } = self;
        z.clear();
        z.resize(new as usize, T::default());
        lists.direct.iter().for_each(|bin| z[bin.at as usize] = T::from_cell(bin.value));
        d.clear();
        d.resize(cells.len() + new as usize, T::default());
        lists.delayed().iter().for_each(|bin| d[bin.at as usize] = T::from_cell(bin.value));
    }
}

/// Buffers of a thread.
#[derive(Default)]
struct Scratch {
    /// Counts of a run, `[row][instant]`: of the direct sensors, then, unless they are the same, of the delayed ones.
    turned: [Vec<u8>; 2],
    narrow: [Bins<i16>; 2],
    wide: [Bins<u32>; 2],
    /// Counts of the row's run.
    direct: Vec<u8>,
    delayed: Vec<u8>,
    /// Lists of a run's photons, the bins that wait for their neighbours, and the sum of its counts.
    lists: Lists<u32>,
    halves: Vec<u32>,
    run_sum: u32,
}

impl Scratch {
    /// Makes bins of a group's lists.
    fn fill(&mut self, shape: &Shape, group: usize, run: Run, cells: &[u32]) {
        let cells = &cells[group * shape.cells()..][..shape.cells()];
        let (lists, parity) = (&self.lists, group % 2);
        match group < NARROW_GROUPS {
            true => self.narrow[parity].fill(lists, run.complete(group), cells),
            false => self.wide[parity].fill(lists, run.complete(group), cells),
        }
    }

    /// Corner turn of a run of counts `[instant][sensor]` for the rows of a tile.
    fn turn(&mut self, counts: &[u8], sensors: usize, pairs: &[[u32; 2]]) {
        let instants = counts.len() / sensors;
        let auto = pairs.iter().all(|[direct, delayed]| direct == delayed);
        self.turned[1].clear();
        for side in 0..if auto { 1 } else { 2 } {
            let turned = &mut self.turned[side];
            turned.resize(pairs.len() * instants, 0);
            corner_turn(counts, sensors, pairs.iter().map(|pair| pair[side] as usize), turned);
        }
    }

    /// The runs of a row's sensors, from the counts of all sensors.
    fn copy_runs(&mut self, turned: &[u8], pair: [u32; 2], run: usize) {
        for (to, sensor) in [&mut self.direct, &mut self.delayed].into_iter().zip(pair) {
            to.clear();
            to.extend_from_slice(&turned[sensor as usize * run..][..run]);
        }
    }

    /// Takes out the run of a row.
    fn begin(&mut self, row: usize, run: usize) {
        let part = |turned: &[u8], to: &mut Vec<u8>| {
            to.clear();
            to.extend_from_slice(&turned[row * run..(row + 1) * run]);
        };
        part(&self.turned[0], &mut self.direct);
        let delayed = if self.turned[1].is_empty() { &self.turned[0] } else { &self.turned[1] };
        part(delayed, &mut self.delayed);
    }
}

/// Counts `[instant][sensor]` of some sensors as `[sensor][instant]`.
fn corner_turn(
    counts: &[u8],
    sensors: usize,
    wanted: impl Iterator<Item = usize> + Clone,
    turned: &mut [u8],
) {
    let instants = counts.len() / sensors;
    // 64 instants of all of them at a time, so that all bytes read stay in the cache.
    for first in (0..instants).step_by(64) {
        let last = instants.min(first + 64);
        for (row, sensor) in wanted.clone().enumerate() {
            let to = &mut turned[row * instants + first..row * instants + last];
            let from = counts[first * sensors + sensor..].iter();
            to.iter_mut().zip(from.step_by(sensors)).for_each(|(to, from)| *to = *from);
        }
    }
}

/// Counts `[instant][sensor]` of all sensors as `[sensor][instant]`.
fn turned(counts: &[u8], sensors: usize) -> Vec<u8> {
    let instants = counts.len() / sensors;
    let mut turned = vec![0; counts.len()];
    turned.par_chunks_mut(TILE * instants).enumerate().for_each(|(tile, turned)| {
        let first = tile * TILE;
        corner_turn(counts, sensors, first..first + turned.len() / instants, turned);
    });
    turned
}

/// Dot products of 16-bit numbers with the instructions of a CPU.
trait Narrow {
    /// `sum_i z[i] * d[i + lag]` for `lag` in `0..L`, modulo 2^32.
    ///
    /// # Safety
    /// The CPU has the instructions; `d` has at least `z.len() + L - 1` elements.
    unsafe fn dots<const L: usize>(z: &[i16], d: &[i16]) -> [u32; L];
}

/// The compiler's code for plain loops.
struct Portable;

impl Narrow for Portable {
    #[inline(always)]
    unsafe fn dots<const L: usize>(z: &[i16], d: &[i16]) -> [u32; L] {
        let mut sums = [0i32; L];
        let places: [&[i16]; L] = std::array::from_fn(|lag| &d[lag..lag + z.len()]);
        for i in 0..z.len() {
            for lag in 0..L {
                let product = i32::from(z[i]) * i32::from(places[lag][i]);
                sums[lag] = sums[lag].wrapping_add(product);
            }
        }
        sums.map(|sum| sum as u32)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Narrow, Portable};

    /// AVX2: 16 products an instruction (`vpmaddwd`).
    pub(super) struct Avx2;

    impl Narrow for Avx2 {
        #[inline(always)]
        unsafe fn dots<const L: usize>(z: &[i16], d: &[i16]) -> [u32; L] {
            let whole = z.len() / 16 * 16;
            // SAFETY: the caller's promise: the CPU has AVX2, and `d` reaches so far.
            unsafe {
                let mut sums = [_mm256_setzero_si256(); L];
                for i in (0..whole).step_by(16) {
                    let bins = _mm256_loadu_si256(z.as_ptr().add(i).cast());
                    for (lag, sum) in sums.iter_mut().enumerate() {
                        let delayed = _mm256_loadu_si256(d.as_ptr().add(i + lag).cast());
                        *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(bins, delayed));
                    }
                }
                let mut totals = Portable::dots::<L>(&z[whole..], &d[whole..]);
                for lag in 0..L {
                    let halves = _mm_add_epi32(
                        _mm256_castsi256_si128(sums[lag]),
                        _mm256_extracti128_si256::<1>(sums[lag]),
                    );
                    let pairs = _mm_add_epi32(halves, _mm_shuffle_epi32::<0b01_00_11_10>(halves));
                    let sum = _mm_add_epi32(pairs, _mm_shuffle_epi32::<0b10_11_00_01>(pairs));
                    totals[lag] = totals[lag].wrapping_add(_mm_cvtsi128_si32(sum) as u32);
                }
                totals
            }
        }
    }

    /// AVX-512 with VNNI: 32 multiply-adds an instruction (`vpdpwssd`).
    pub(super) struct Avx512Vnni;

    impl Narrow for Avx512Vnni {
        #[inline(always)]
        unsafe fn dots<const L: usize>(z: &[i16], d: &[i16]) -> [u32; L] {
            let whole = z.len() / 32 * 32;
            let rest = (1u32 << (z.len() - whole)) - 1;
            // SAFETY: the caller's promise: the CPU has the instructions, and `d` reaches so far;
            // what the mask leaves out is not read.
            unsafe {
                let mut sums = [_mm512_setzero_si512(); L];
                for i in (0..whole).step_by(32) {
                    let bins = _mm512_loadu_epi16(z.as_ptr().add(i));
                    for (lag, sum) in sums.iter_mut().enumerate() {
                        let delayed = _mm512_loadu_epi16(d.as_ptr().add(i + lag));
                        *sum = _mm512_dpwssd_epi32(*sum, bins, delayed);
                    }
                }
                if rest != 0 {
                    let bins = _mm512_maskz_loadu_epi16(rest, z.as_ptr().add(whole));
                    for (lag, sum) in sums.iter_mut().enumerate() {
                        let delayed = _mm512_maskz_loadu_epi16(rest, d.as_ptr().add(whole + lag));
                        *sum = _mm512_dpwssd_epi32(*sum, bins, delayed);
                    }
                }
                sums.map(|sum| _mm512_reduce_add_epi32(sum) as u32)
            }
        }
    }
}

/// A number that holds a bin.
trait Bin: Copy + Default + std::ops::Add<Output = Self> {
    fn from_cell(cell: u32) -> Self;
    fn to_cell(self) -> u32;
    /// Dot products of `z` with `d` from each of `L` consecutive places on, for bins of `group`.
    ///
    /// # Safety
    /// The CPU has the instructions of `N`.
    unsafe fn dots<N: Narrow, const L: usize>(z: &[Self], d: &[Self], group: usize) -> [u64; L];
}

impl Bin for i16 {
    #[inline(always)]
    fn from_cell(cell: u32) -> Self {
        cell as Self
    }

    #[inline(always)]
    fn to_cell(self) -> u32 {
        self as u32
    }

    #[inline(always)]
    unsafe fn dots<N: Narrow, const L: usize>(z: &[Self], d: &[Self], group: usize) -> [u64; L] {
        // (255 * 2^group)^2 * terms < 2^32: sums modulo 2^32 are exact.
        let terms = 65536 >> (2 * group);
        let mut totals = [0; L];
        for (index, z) in z.chunks(terms).enumerate() {
            let d = &d[index * terms..][..z.len() + L - 1];
            // SAFETY: the caller's promise, and the length of `d`.
            let sums = unsafe { N::dots::<L>(z, d) };
            for lag in 0..L {
                totals[lag] += u64::from(sums[lag]);
            }
        }
        totals
    }
}

impl Bin for u32 {
    #[inline(always)]
    fn from_cell(cell: u32) -> Self {
        cell
    }

    #[inline(always)]
    fn to_cell(self) -> u32 {
        self
    }

    #[inline(always)]
    unsafe fn dots<N: Narrow, const L: usize>(z: &[Self], d: &[Self], _: usize) -> [u64; L] {
        let mut sums = [0; L];
        let places: [&[Self]; L] = std::array::from_fn(|lag| &d[lag..lag + z.len()]);
        for i in 0..z.len() {
            for lag in 0..L {
                sums[lag] += u64::from(z[i]) * u64::from(places[lag][i]);
            }
        }
        sums
    }
}

/// A group's part in a row.
struct Group<'a> {
    scheme: Scheme,
    group: usize,
    /// Its first lag and its number of lags, in bins.
    first: usize,
    products: &'a mut [u64],
    partial: &'a mut u32,
    cells: &'a mut [u32],
    /// Complete bins of the group before when the run begins.
    before: u64,
}

impl Group<'_> {
    /// The delay line as the state has it, the oldest bin first.
    #[inline(always)]
    fn load_line<T: Bin>(&self, d: &mut Vec<T>) {
        d.clear();
        d.extend(self.cells.iter().rev().map(|&cell| T::from_cell(cell)));
    }

    /// Group 0: bins are counts.
    #[inline(always)]
    fn counts<T: Bin>(&self, direct: &[u8], delayed: &[u8], to: &mut Bins<T>) {
        to.z.clear();
        to.z.extend(direct.iter().map(|&count| T::from_cell(count.into())));
        self.load_line(&mut to.d);
        if self.scheme == Scheme::BinGroups {
            // The newest cell stands for the sample that comes now.
            to.d.pop();
        }
        to.d.extend(delayed.iter().map(|&count| T::from_cell(count.into())));
        if self.scheme == Scheme::BinGroups {
            to.d.push(T::default());
        }
    }

    /// The bins that the group before completes.
    #[inline(always)]
    fn add_pairs<F: Bin, T: Bin>(&self, from: &Bins<F>, half: u32, to: &mut Bins<T>) {
        let sum = |pair: &[F; 2]| T::from_cell(pair[0].to_cell() + pair[1].to_cell());
        // Whether the group before has begun a bin of this one.
        let begun = !self.before.is_multiple_of(2);
        let new = (from.z.len() + usize::from(begun)) / 2;

        to.z.clear();
        let mut rest = &from.z[..];
        if let (true, [first, after @ ..]) = (begun, rest) {
            to.z.push(T::from_cell(half + first.to_cell()));
            rest = after;
        }
        to.z.extend(rest.as_chunks().0.iter().map(sum));

        self.load_line(&mut to.d);
        let first = match self.scheme {
            // The line of the group before begins with D[before - 2S + 1]; two of its bins make
            // this group's D[bins - S + 1].
            Scheme::BinGroups => usize::from(!begun),
            // It begins with Z[before - m]; two of its bins make this group's Z[bins].
            Scheme::Classic => self.cells.len() - usize::from(begun),
        };
        to.d.extend(from.d[first..].as_chunks().0.iter().take(new).map(sum));
    }

    /// Adds the products of the new bins, and keeps what the next run needs.
    ///
    /// # Safety
    /// The CPU has the instructions of `N`.
    #[inline(always)]
    unsafe fn finish<N: Narrow, T: Bin>(&mut self, bins: &Bins<T>, run_sum: u32) {
        let newest_lag = self.first + self.products.len() - 1;
        // Place in the line of the first new bin's partner at the longest lag.
        let start = match self.scheme {
            Scheme::BinGroups => self.cells.len() - 1 - newest_lag,
            Scheme::Classic => self.cells.len() - newest_lag,
        };
        if !bins.z.is_empty() {
            let places = &bins.d[start..];
            let lags = self.products.len();
            let whole = lags / LAGS_TOGETHER * LAGS_TOGETHER;
            for place in (0..whole).step_by(LAGS_TOGETHER) {
                // SAFETY: the caller's promise.
                let dots =
                    unsafe { T::dots::<N, LAGS_TOGETHER>(&bins.z, &places[place..], self.group) };
                for (offset, dot) in dots.into_iter().enumerate() {
                    self.products[lags - 1 - place - offset] += dot;
                }
            }
            for place in whole..lags {
                // SAFETY: the caller's promise.
                let [dot] = unsafe { T::dots::<N, 1>(&bins.z, &places[place..], self.group) };
                self.products[lags - 1 - place] += dot;
            }
        }
        // Sums of a long run may wrap; the register, their difference, does not.
        let binned = bins.z.iter().fold(0_u32, |sum, bin| sum.wrapping_add(bin.to_cell()));
        *self.partial = self.partial.wrapping_add(run_sum).wrapping_sub(binned);
        let line = bins.d[bins.d.len() - self.cells.len()..].iter().rev();
        self.cells.iter_mut().zip(line).for_each(|(cell, bin)| *cell = bin.to_cell());
    }
}

/// Advances a row by the run in `scratch`, which begins at instant `begin`.
///
/// # Safety
/// The CPU has the instructions of `N`.
#[inline(always)]
unsafe fn advance<N: Narrow>(
    shape: &Shape,
    row: &mut Row<'_>,
    scratch: &mut Scratch,
    begin: u64,
    from: usize,
) {
    let sum = |counts: &[u8]| counts.iter().map(|&count| u32::from(count)).sum::<u32>();
    if from == 0 {
        scratch.run_sum = sum(&scratch.direct);
        row.totals[0] += u64::from(scratch.run_sum);
        row.totals[1] += u64::from(sum(&scratch.delayed));
    }
    let run_sum = scratch.run_sum;

    let before = (0..from).map(|group| shape.steps(group).count()).sum::<usize>();
    let mut products = &mut row.products[before..];
    let lines = row.cells.chunks_mut(shape.cells());
    // Remainder of the group before: half a bin of this one, and less.
    let mut pending = 0;
    for (group, (cells, partial)) in lines.zip(row.partial.iter_mut()).enumerate().skip(from) {
        let steps = shape.steps(group);
        let (own, rest) = products.split_at_mut(steps.clone().count());
        products = rest;
        let half = if group > from { *partial - pending } else { 0 };
        pending = *partial;
        let mut this = Group {
            scheme: shape.scheme,
            group,
            first: *steps.start(),
            products: own,
            partial,
            cells,
            before: begin >> group.saturating_sub(1),
        };
        let [even, odd] = &mut scratch.narrow;
        let [wide_even, wide_odd] = &mut scratch.wide;
        let (this_narrow, last_narrow) = if group % 2 == 0 { (even, odd) } else { (odd, even) };
        let (this_wide, last_wide) =
            if group % 2 == 0 { (wide_even, wide_odd) } else { (wide_odd, wide_even) };
        // SAFETY: the caller's promise.
        unsafe {
            if group < NARROW_GROUPS {
                match group {
                    0 => this.counts(&scratch.direct, &scratch.delayed, this_narrow),
                    // They are there.
                    _ if group == from => {}
                    _ => this.add_pairs(last_narrow, half, this_narrow),
                }
                this.finish::<N, _>(this_narrow, run_sum);
            } else {
                match group {
                    _ if group == from => {}
                    NARROW_GROUPS => this.add_pairs(last_narrow, half, this_wide),
                    _ => this.add_pairs(last_wide, half, this_wide),
                }
                this.finish::<N, _>(this_wide, run_sum);
            }
        }
    }
}

/// Whether this CPU has AVX-512 with VNNI.
#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
}

/// [`advance`] with the best instructions that this CPU has.
fn best() -> Advance {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
        fn avx512(
            shape: &Shape,
            row: &mut Row<'_>,
            scratch: &mut Scratch,
            begin: u64,
            from: usize,
        ) {
            // SAFETY: the caller has found the instructions.
            unsafe { advance::<x86::Avx512Vnni>(shape, row, scratch, begin, from) };
        }
        #[target_feature(enable = "avx2")]
        fn avx2(shape: &Shape, row: &mut Row<'_>, scratch: &mut Scratch, begin: u64, from: usize) {
            // SAFETY: the caller has found the instructions.
            unsafe { advance::<x86::Avx2>(shape, row, scratch, begin, from) };
        }
        if has_avx512() {
            // SAFETY: the CPU has the instructions.
            return |shape, row, scratch, begin, from| unsafe {
                avx512(shape, row, scratch, begin, from)
            };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the instructions.
            return |shape, row, scratch, begin, from| unsafe {
                avx2(shape, row, scratch, begin, from)
            };
        }
    }
    // SAFETY: it needs no instructions of its own.
    |shape, row, scratch, begin, from| unsafe {
        advance::<Portable>(shape, row, scratch, begin, from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every set of instructions gives what plain loops do, at lengths around those of its vectors.
    #[test]
    fn dot_products_agree() {
        let number = |i: usize| (i * i * 7919 % 32_641) as i16;
        let d: Vec<i16> = (0..300).map(number).collect();
        let z: Vec<i16> = (1000..1300).map(number).collect();
        for length in [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 293] {
            let (z, d) = (&z[..length], &d[..length + 7]);
            // SAFETY: the instructions are asked for; `d` is long enough.
            unsafe {
                let expected = Portable::dots::<8>(z, d);
                #[cfg(target_arch = "x86_64")]
                {
                    if is_x86_feature_detected!("avx2") {
                        assert_eq!(x86::Avx2::dots::<8>(z, d), expected, "{length}");
                    }
                    if has_avx512() {
                        assert_eq!(x86::Avx512Vnni::dots::<8>(z, d), expected, "{length}");
                    }
                }
                assert_eq!(Portable::dots::<1>(z, d)[0], expected[0]);
            }
        }
    }
}
