//! Spectra in one pass over memory: a block makes [`FUSED_SPECTRA`] consecutive spectra of a group of inputs
//! in its shared memory.
//!
//! ```text
//! samples -> [FIR] -> [first pass: 16 or 12] -> [passes of 16, the last of 2 to 16] -> [untangle, quantise]
//! ```
//!
//! Bound by FP32 instructions and shared memory about alike: about 45 instructions and 32 bytes of shared
//! memory for each real sample with 8 taps and 4096 channels.

use crate::{
    abi::channelise::{Channelise, FUSED_SPECTRA},
    channelise::{
        bin_at,
        filter::Filter,
        finish::{Bins, Finish, Pair},
        pass::{Merge, Shared, first, pass},
        position_of,
    },
    isa::common::{barrier, block},
    tile::divisor,
};

kernel! {
    /// A group of inputs, a run of spectra.
    fn channelise_fused(p: Channelise) {
        let groups = p.inputs.div_ceil(divisor(p.group).get());
        let input = block() % divisor(groups) * p.group;
        let spectrum = block() / divisor(groups) * FUSED_SPECTRA;
        let room = Shared { size: p.size };
        // All points, as one run.
        let filter =
            Filter { input, group: p.group, spectrum, room, first: 0, shift: 31, pitch: 0 };
        filter.filter(&p);
        barrier();
        let rows = FUSED_SPECTRA * p.group;
        let mut span = if p.size.is_power_of_two() {
            first::<16>(room, rows);
            16
        } else {
            first::<12>(room, rows);
            12
        };
        barrier();
        while span < p.size {
            let merge = Merge { size: p.size, rows, row: 0, span, bin: 0, step: 1 };
            pass(&p, p.size / divisor(span), merge, room, room);
            barrier();
            span *= 16;
        }
        let left = p.count - spectrum;
        let spectra = if left < FUSED_SPECTRA { left } else { FUSED_SPECTRA };
        Finish { input, spectrum, row: 0, room, bins: Whole(p.size) }.finish(&p, spectra);
    }
}

/// All bins of a transform.
#[derive(Clone, Copy)]
struct Whole(u32);

impl Bins for Whole {
    #[inline(always)]
    fn count(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn pair(self, p: &Channelise, item: u32) -> Pair {
        let k = bin_at(item, p.size / 2);
        // Bin `Z / 2` is at position 1.
        let (other, at) =
            if k == 0 { (p.size / 2, 1) } else { (p.size - k, position_of(p.size - k, p.size)) };
        Pair { low: (k, 0, 2 * item), high: (other, 0, at) }
    }

    #[inline(always)]
    fn bin(self, p: &Channelise, item: u32) -> (u32, u32, u32) {
        (bin_at(item, p.size), 0, item)
    }
}
