//! Division of instants and of labour among blocks and warps.

use corrust_gpu::abi::autocorrelate::{
    LOW_WARPS, MAX_PART, MAX_SUBSEGMENT, STEP, SUBSEGMENTS, WARP_LAGS, role,
};

/// Division of instants: into segments of [`SUBSEGMENTS`] subsegments, no shorter than the halo, and these
/// into parts for blocks of `COUNTS_BOXES`.
pub(super) struct Cut {
    pub(super) segments: usize,
    /// Instants.
    pub(super) subsegment: usize,
    pub(super) parts: usize,
}

impl Cut {
    /// Most waves of blocks: fewer than one idle in each.
    const MOST_WAVES: usize = 8;

    fn new(instants: usize, halo: usize, segments: usize, parts: usize) -> Self {
        let subsegment = instants.div_ceil(segments * SUBSEGMENTS as usize);
        Self { segments, subsegment: subsegment.next_multiple_of(STEP as usize).max(halo), parts }
    }

    /// Into segments of which blocks take all. There are enough blocks for all multiprocessors and few
    /// idle ones in the end, of `tiles` for each segment.
    pub(super) fn whole(
        instants: usize,
        halo: usize,
        tiles: usize,
        boxes: bool,
        multiprocessors: usize,
    ) -> Self {
        let longest = if boxes { MAX_PART } else { MAX_SUBSEGMENT };
        let least = instants.div_ceil((SUBSEGMENTS * longest) as usize);
        let most = (Self::MOST_WAVES * multiprocessors).div_ceil(tiles).max(least);
        (least..=most)
            .map(|segments| Self::new(instants, halo, segments, 1))
            .min_by_key(|cut| {
                (tiles * cut.segments).div_ceil(multiprocessors) * (halo + cut.subsegment)
            })
            .expect("the least is among them")
    }

    /// Into segments for `LOW`, which also reads their halos, and parts for `COUNTS_BOXES`.
    pub(super) fn parts(
        instants: usize,
        halo: usize,
        sensors: usize,
        tiles: usize,
        multiprocessors: usize,
        longer: f64,
    ) -> Self {
        /// Blocks of `LOW` on a multiprocessor.
        const LOW_BLOCKS: usize = 2;
        let least = instants.div_ceil((SUBSEGMENTS * MAX_SUBSEGMENT) as usize);
        let most = (Self::MOST_WAVES * multiprocessors).div_ceil(tiles).max(least);
        let cost = |cut: &Self| {
            let waves = (tiles * cut.segments * cut.parts).div_ceil(multiprocessors);
            let low_waves = (sensors * cut.segments).div_ceil(LOW_BLOCKS * multiprocessors);
            longer * (waves * (halo / 4 + cut.subsegment / cut.parts)) as f64
                + (low_waves * (halo + cut.subsegment)) as f64
        };
        (least..=most)
            .flat_map(|segments| [1, 2, 4, 8, 16].map(|parts| (segments, parts)))
            .map(|(segments, parts)| Self::new(instants, halo, segments, parts))
            .filter(|cut| cut.subsegment / cut.parts <= MAX_PART as usize)
            .min_by(|a, b| cost(a).total_cmp(&cost(b)))
            .expect("sixteen parts are short enough")
    }
}

/// The division of labour among the warps of a block: the work of group `k` is as `2^-k`, and warps `w`
/// and `w + 4` share a tensor core.
pub(super) fn roles(low: u8, lags: u32) -> [u8; LOW_WARPS as usize] {
    let plan = if lags <= WARP_LAGS {
        [
            role::of(2, 0, 0, 4),
            role::of(2, 0, 1, 4),
            role::of(2, 0, 2, 4),
            role::of(2, 0, 3, 4),
            role::of(3, 0, 0, 2),
            role::of(3, 0, 1, 2),
            role::of(4, 0, 0, 1),
            role::of(5, 0, 0, 1),
        ]
    } else {
        [
            role::of(2, 0, 0, 2),
            role::of(2, 0, 1, 2),
            role::of(2, 1, 0, 2),
            role::of(2, 1, 1, 2),
            role::of(3, 0, 0, 1),
            role::of(3, 1, 0, 1),
            role::of(4, 0, 0, 1),
            role::of(4, 1, 0, 1),
        ]
    };
    plan.map(|role| if role & 7 > low { role::IDLE } else { role })
}
