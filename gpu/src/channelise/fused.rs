//! Spectra in one pass over memory: a block makes [`FUSED_SPECTRA`] consecutive spectra of a group of inputs
//! in its shared memory.
//!
//! ```text
//! samples -> [FIR] -> [first pass: 8 to 32] -> [passes of 16 or 8] -> [last pass of 8, untangle, quantise]
//! ```
//!
//! Bound by the L1 cache, of which stores of few inputs take half, and by instructions: about 50 of those, and 24
//! bytes of shared memory, for each real sample with 8 taps.

use crate::{
    abi::channelise::{
        Channelise, FUSED_SPECTRA, bin_at, cluster_group, fused_channelisers, position_of,
    },
    channelise::{
        AnyFilterbank, DefaultFilterbank, Filterbank,
        filter::Filter,
        finish::{BinPlace, Bins, MirrorPair, OutputStage},
        known,
        pass::{
            LAST_RADIX, Merge, SharedBuffer, divide, first, first_radix, next_radix, pass, power,
        },
    },
    isa::common::{barrier, block},
};

#[cfg(not(corrust_target = "sm_90a"))]
kernel! {
    /// A group of inputs, a run of spectra.
    fn channelise_fused(p: Channelise) {
        fused::<AnyFilterbank>(&p, Store::Block)
    }
}

#[cfg(not(corrust_target = "sm_90a"))]
kernel! {
    /// A group of inputs, a run of spectra, of the default filterbank.
    fn channelise_fused_i8(p: Channelise) {
        fused::<DefaultFilterbank<0>>(&known(p, p.residues), Store::Block)
    }
}

/// The kernels that [`fused_channelisers`] declares, of which all is known but where samples and spectra lie.
macro_rules! of_known {
    ($($residues:literal: $fused:ident $fused_name:ident, $cluster:ident $cluster_name:ident;)*) => {$(
        #[cfg(not(corrust_target = "sm_90a"))]
        kernel! {
            /// A group of inputs, a run of spectra.
            fn $fused_name(p: Channelise) {
                fused::<DefaultFilterbank<$residues>>(&known(p, $residues), Store::Block)
            }
        }

        #[cfg(not(corrust_target = "sm_80"))]
        kernel! {
            /// A group of inputs, a run of spectra, of which the blocks of a cluster store a part each.
            fn $cluster_name(p: Channelise) {
                let group = cluster_group($residues);
                let p = Channelise { group, ..known(p, $residues) };
                fused::<DefaultFilterbank<$residues>>(&p, Store::Cluster)
            }
        }
    )*};
}

fused_channelisers!(of_known);

/// Who stores the spectra together.
#[derive(Clone, Copy, PartialEq)]
enum Store {
    /// A block those of its inputs.
    #[cfg_attr(corrust_target = "sm_90a", expect(dead_code))]
    Block,
    /// The blocks of a cluster those of all their inputs, a part of the channels each.
    #[cfg_attr(corrust_target = "sm_80", expect(dead_code))]
    Cluster,
}

/// A group of inputs, a run of spectra.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Channelise`] and
///   [`FUSED`](crate::abi::channelise::FUSED), of a filterbank of `F`; the block's shared memory is free.
/// - With [`Store::Cluster`], all that [`OutputStage::store_in_cluster`] asks for beside.
#[inline(always)]
unsafe fn fused<F: Filterbank>(p: &Channelise, store: Store) {
    let [groups, _] = divide(p.inputs + p.group - 1, p.group);
    let [run, group] = divide(block(), groups);
    let (input, spectrum) = (group * p.group, run * FUSED_SPECTRA);
    let buffer = SharedBuffer { size: p.size };
    // All points, as one run.
    let filter = Filter { input, group: p.group, spectrum, buffer, first: 0, shift: 31, pitch: 0 };
    // SAFETY: the block's shared memory has the rows, which barriers hand from pass to pass; no other block has these
    // inputs and spectra.
    unsafe {
        filter.filter::<F>(p);
        barrier();
        let rows = FUSED_SPECTRA * p.group;
        let mut span = first_radix(p.size);
        first(span, buffer, rows);
        // Real samples' last pass untangles them.
        let last = if p.complex != 0 { 1 } else { LAST_RADIX };
        let mut left = power(p.size, span);
        while left > last {
            let radix = if left > LAST_RADIX { next_radix(left) } else { left };
            let merge = Merge { size: p.size, rows, row: 0, span, part: 0, parts: 1, wait: true };
            pass(p, radix, merge, buffer, buffer);
            span *= radix;
            left = power(left, radix);
        }
        let count = p.count - spectrum;
        let spectra = if count < FUSED_SPECTRA { count } else { FUSED_SPECTRA };
        let output = OutputStage { input, spectrum, buffer, bins: AllBins(p.size) };
        #[cfg(not(corrust_target = "sm_80"))]
        if store == Store::Cluster {
            return output.store_in_cluster(p, spectra);
        }
        output.store(p, left, spectra);
    }
}

/// All bins of a transform.
#[derive(Clone, Copy)]
struct AllBins(u32);

impl Bins for AllBins {
    #[inline(always)]
    fn count(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn mirror_pair(self, _: &Channelise, span: u32, item: u32) -> MirrorPair {
        // Bins below half the span are at even positions, bin `span / 2` at position 1.
        let k = bin_at(2 * item, span);
        let (mirror, at) =
            if k == 0 { (span / 2, 1) } else { (span - k, position_of(span - k, span)) };
        let positions = [2 * item, at];
        MirrorPair { bins: [k, mirror], positions, rows: [0; 2], places: positions }
    }

    #[inline(always)]
    fn bin(self, p: &Channelise, item: u32) -> BinPlace {
        BinPlace { bin: bin_at(item, p.size), row: 0, point: item }
    }
}
