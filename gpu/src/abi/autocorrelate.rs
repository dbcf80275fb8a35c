//! Multi-tau autocorrelation: bin groups, and the steps of the tensor-core pipeline.
//!
//! A *row* is one curve. The state of all rows lies in device memory as the host has it: products
//! u64 `[row][group][lag]`, totals u64 `[row][2]`, zero-delay registers u32 `[row][group]`, delay
//! lines u32 `[row][group][lag]`.

use super::entry::{Entry, Kernel, Target, kernels, parameters};

/// Most bytes of shared memory that the bin groups of a block may take.
pub const BIN_GROUP_BYTES: u32 = 96 << 10;
/// Most rows of a block of [`BIN_GROUPS`] or [`PACKETS`]: a warp each.
pub const BIN_GROUP_ROWS: u32 = 8;
/// Most instants of a launch of [`PACKETS`].
pub const PACKET_INSTANTS: u32 = 512;

/// Subsegments of time that a matrix product sums over: its K.
pub const SUBSEGMENTS: u32 = 32;
/// Instants of each subsegment that a block of [`LOW`] takes at a time: a multiple of those of a block
/// of [`COUNTS`].
pub const STEP: u32 = 512;
/// Most instants of a subsegment: 32-bit sums of `32 * 255^2` for every 16 of them cannot wrap.
pub const MAX_SUBSEGMENT: u32 = 32_768;
/// Highest group that [`LOW`] computes: its bins of 32 counts fit 16 bits.
pub const MAX_LOW: u32 = 5;
/// Lags that one warp of [`LOW`] computes.
pub const WARP_LAGS: u32 = 32;
/// Warps of a block of [`LOW`].
pub const LOW_WARPS: u32 = 8;
/// Groups that a launch of [`LONG`] computes.
pub const LONG_LEVELS: u32 = 4;
/// Bins of the group before that a block of [`LONG`] takes: more than its delay lines reach back.
pub const LONG_RANGE: u32 = 4096;
/// Warps of a block of [`LONG`], at least 8.
pub const LONG_WARPS: u32 = 8;
/// Most lags of a group that the delay lines of [`LOW`] reach.
pub const MAX_LOW_LAGS: u32 = 64;

/// Warps of a block of [`COUNTS`]: one for each sensor and chunk of [`COUNT_LAGS`].
pub const COUNT_WARPS: u32 = 16;
/// Instants of each subsegment that a block of [`COUNTS`] takes at a time.
pub const COUNT_STEP: u32 = 64;
/// Stages of [`COUNTS`]: steps being copied or ready.
pub const COUNT_SLOTS: u32 = 3;
/// Lags, in instants, that one warp of [`COUNTS`] computes: lags of group 1 reach `3 S`.
pub const COUNT_LAGS: u32 = 3 * WARP_LAGS;
/// Bytes of two steps of one sensor in a block of [`COUNTS`], of four steps in one of [`COUNTS_BOXES`].
pub const RING_BYTES: u32 = 2 * COUNT_STEP * SUBSEGMENTS;

/// Sensors of a block of [`COUNTS_BOXES`]: bytes of a row of a box of its tensor maps.
pub const BOX_SENSORS: u32 = 32;
/// Warps of a block of [`COUNTS_BOXES`], which share its sensors.
pub const BOX_WARPS: u32 = 16;
/// Instants of each subsegment that a block of [`COUNTS_BOXES`] takes at a time: rows of a box.
pub const BOX_STEP: u32 = 32;
/// Most instants of a subsegment in a block of [`COUNTS_BOXES`]: 32-bit sums of `32 * 255^2` for every 8 of
/// them cannot wrap.
pub const MAX_PART: u32 = 16_384;
/// Stages of [`COUNTS_BOXES`]: steps being copied or ready.
pub const BOX_SLOTS: u32 = 3;
/// Bytes by which the second eight subsegments of a step of [`COUNTS_BOXES`] lie further, as copied, than
/// they would behind the first, and so on: four rows, after which a box has halves of rows change places.
pub const BOX_SHIFT: u32 = 4 * BOX_SENSORS;
/// Bytes of a step of [`COUNTS_BOXES`] as copied.
pub const BOX_SLOT_BYTES: u32 = SUBSEGMENTS * BOX_STEP * BOX_SENSORS + SUBSEGMENTS / 8 * BOX_SHIFT;

/// Bytes of 8 bins of group 2 of all subsegments of a segment.
pub const QUARTERS_BYTES: u32 = 8 * BIN_BYTES;

/// Warps of a block of [`DELAYS`]: a row each.
pub const DELAY_WARPS: u32 = 8;
/// In [`Delays::sensors`]: no sensor, whose counts are zero.
pub const NO_SENSOR: u32 = u32::MAX;

/// Which subsegment stands at `position` among the 32 bytes of an instant or a digit: a word holds every
/// eighth.
pub const fn subsegment_at(position: u32) -> u32 {
    position % 4 * 8 + position / 4
}

/// Room for bins of the halo before those of group `low`: whole words of 16 bytes.
pub const fn history(lags: u32) -> u32 {
    (2 * lags).next_multiple_of(8)
}

/// Lags of [`LONG`], in whole eights of a thread.
pub const fn long_lags(lags: u32) -> u32 {
    lags.next_multiple_of(8)
}

/// Bins of the delay line of a block of [`LONG`], on one of its levels, before the newest that meets the
/// first of its own: twice what the next level reaches back to is there, in whole eights.
pub const fn long_before(level: u32, lags: u32) -> u32 {
    long_lags(lags) * ((2 << (LONG_LEVELS - level)) - 1)
}

/// Bins of the delay line before the first bin of a block of [`LONG`].
pub const fn long_halo(level: u32, lags: u32) -> u32 {
    lags + long_before(level, lags)
}

/// Bins of the delay line of a block of [`LONG`] in shared memory, and room for three more, which makes
/// whole words of 16 bytes.
const fn long_words(level: u32, lags: u32) -> u32 {
    (LONG_RANGE >> level) + long_before(level, lags) + 4
}

/// Bins of the delay lines of the levels before `level`.
pub const fn long_offset(level: u32, lags: u32) -> u32 {
    let mut words = 0;
    let mut before = 1;
    while before < level {
        words += long_words(before, lags);
        before += 1;
    }
    words
}

/// Bins of group `group`, from 2 on, in a delay line of [`LOW`] with `lags` lags: a power of two that
/// holds the bins of two steps and the longest delay of the group.
pub const fn line_bins(group: u32, lags: u32) -> u32 {
    match group {
        2 => 512,
        3 => 256,
        4 if lags > WARP_LAGS => 256,
        _ => 128,
    }
}

/// Bytes of one bin of a delay line of [`LOW`], two digits of all subsegments.
pub const BIN_BYTES: u32 = 2 * SUBSEGMENTS;

/// Bytes of the delay lines of the groups before `group`.
pub const fn line_offset(group: u32, lags: u32) -> u32 {
    let bins = match group {
        2 => 0,
        3 => 512,
        4 => 768,
        5 => 768 + line_bins(4, lags),
        _ => 768 + line_bins(4, lags) + line_bins(5, lags),
    };
    bins * BIN_BYTES
}

/// Roles of the warps of [`LOW`]: one byte of [`Low::roles`] each.
pub mod role {
    /// No products: the warp only fills delay lines.
    pub const IDLE: u8 = of(7, 0, 0, 1);

    /// Part `part` of `parts` (1 to 4) of the steps of `group`, at lags from `32 chunk` on (0 or 1).
    pub const fn of(group: u8, chunk: u8, part: u8, parts: u8) -> u8 {
        group | chunk << 3 | part << 4 | (parts - 1) << 6
    }
}

parameters! {
    /// Parameters of [`BIN_GROUPS`] and [`PACKETS`]. Grid: `ceil(rows / rows_per_block)` blocks, launched with
    /// shared memory for `rows_per_block` rows.
    pub struct BinGroups {
        /// Counts `[instant][sensor]`.
        pub counts: u64,
        /// The two sensors of each row, u32 `[row][2]`: the direct one, the delayed one.
        pub pairs: u64,
        /// Sums of products.
        pub products: u64,
        /// Sums of counts.
        pub totals: u64,
        /// Zero-delay registers.
        pub partial: u64,
        /// Delay lines.
        pub cells: u64,
        /// Instants before the first one.
        pub begin: u64,
        /// Sensors.
        pub sensors: u32,
        /// Rows.
        pub rows: u32,
        /// `G`.
        pub groups: u32,
        /// `S`.
        pub lags: u32,
        /// Instants.
        pub instants: u32,
        /// Rows of a block, at most [`BIN_GROUP_ROWS`], whose [`row_bytes`] or [`packet_row_bytes`] fit
        /// [`BIN_GROUP_BYTES`].
        pub rows_per_block: u32,
    }
}

/// Bytes of shared memory of one row of [`BIN_GROUPS`]: products, zero-delay registers, and delay
/// lines of a power of two.
pub const fn row_bytes(groups: u32, lags: u32) -> u64 {
    groups as u64 * (8 * lags as u64 + 8 + 4 * lags.next_power_of_two() as u64)
}

/// Bins that a group of [`PACKETS`] has room for, in whole sixteens, with `count` new ones.
pub const fn packet_room(count: u32) -> u32 {
    count.next_multiple_of(16)
}

/// Delayed bins that a group of [`PACKETS`] has room for besides those of its new bins.
pub const fn packet_line(lags: u32) -> u32 {
    lags.next_multiple_of(4)
}

/// Most bytes of shared memory of one row of [`PACKETS`]: bins and delay lines. Group `k` gets at most
/// `instants / 2^k + 1` bins.
pub const fn packet_row_bytes(groups: u32, lags: u32, instants: u32) -> u64 {
    let bins = 2 * instants as u64 + 16 * groups as u64;
    4 * (2 * bins + groups as u64 * packet_line(lags) as u64)
}

parameters! {
    /// Parameters of [`COUNTS`] and [`COUNTS_BOXES`]. Grid: a block for every segment, or part of one, of
    /// every [`COUNT_WARPS`]` / chunks` or [`BOX_SENSORS`] sensors, sensors fastest, then parts.
    pub struct Counts {
        /// Counts `[instant][sensor]`.
        pub counts: u64,
        /// The `halo` instants before them.
        pub tail: u64,
        /// If `low` is 2 or more: bins of group 2, u32 `[sensor][segment][bin / 8][word][digit][bin % 8]`,
        /// low digits first. The words hold a bin's 32 subsegments in the order of [`subsegment_at`].
        /// There are `(halo + subsegment) / 4` bins; the halo's belong to word 0.
        pub quarters: u64,
        /// For [`COUNTS_BOXES`]: tensor maps of `counts` and of `tail`, 128 bytes each, boxes of
        /// [`BOX_SENSORS`] sensors and [`BOX_STEP`] instants.
        pub maps: u64,
        /// If `low` is less: [`Low::bins`].
        pub bins: u64,
        /// Sums of products, added to atomically.
        pub products: u64,
        /// If `low` is less than 2: sums of counts, added to atomically.
        pub totals: u64,
        /// Instants.
        pub instants: u64,
        /// Bins of one sensor, a multiple of 8.
        pub bins_stride: u64,
        /// Sensors.
        pub sensors: u32,
        /// Instants of a subsegment, a multiple of [`STEP`], no fewer than `halo`.
        pub subsegment: u32,
        /// Instants before each subsegment that its delay lines must hold, a multiple of [`STEP`].
        pub halo: u32,
        /// Segments of [`SUBSEGMENTS`] subsegments.
        pub segments: u32,
        /// `G`.
        pub groups: u32,
        /// `S`.
        pub lags: u32,
        /// The highest group whose delayed bins lie on the grid of the others: group 1 is computed if it
        /// is not 0.
        pub low: u32,
        /// Chunks of [`COUNT_LAGS`]: 1 or 2.
        pub chunks: u32,
        /// Counts that are copied together: 16 or 4 if `counts`, `tail` and the number of sensors are
        /// multiples, else 1; 16 only where there is one chunk.
        pub piece: u32,
        /// Parts of a subsegment that blocks of [`COUNTS_BOXES`] share, whole [`BOX_STEP`]s of no more
        /// than [`MAX_PART`] instants: 1 where `low` is less than 2.
        pub parts: u32,
    }
}

parameters! {
    /// Parameters of [`LOW`]. Grid: a block for every segment of every sensor, segments fastest.
    pub struct Low {
        /// What [`COUNTS`] wrote.
        pub quarters: u64,
        /// Bins of group `low`, u16 `[sensor][history + bins]`: the last `2 S` of the halo, behind
        /// what makes them [`history`], then those of all subsegments.
        pub bins: u64,
        /// Sums of products, added to atomically.
        pub products: u64,
        /// Sums of counts, added to atomically.
        pub totals: u64,
        /// Bins of one sensor, a multiple of 8.
        pub bins_stride: u64,
        /// A byte for each warp: see [`role`].
        pub roles: u64,
        /// Instants of a subsegment, a multiple of [`STEP`].
        pub subsegment: u32,
        /// Instants of the halo, a multiple of [`STEP`].
        pub halo: u32,
        /// Segments.
        pub segments: u32,
        /// `G`.
        pub groups: u32,
        /// `S`, a multiple of `2^low`.
        pub lags: u32,
        /// Highest group computed here, 2 to [`MAX_LOW`].
        pub low: u32,
    }
}

parameters! {
    /// Parameters of [`LONG`]. Grid: a block for every [`LONG_RANGE`] bins of every sensor, with
    /// consecutive blocks for one sensor.
    pub struct Long {
        /// Bins of group `base`, u16 or u32, from bin 0 on, which was `begun` bins before the first new one:
        /// those are there.
        pub direct: u64,
        /// The same `S` samples later, for the delay line: the counts from `2 S - 1` before the first new one to
        /// `S` before the last are there.
        pub shifted: u64,
        /// Bytes from one sensor's bins to the next one's.
        pub direct_stride: u64,
        /// Bytes from one sensor's bins of the delay line to the next one's.
        pub shifted_stride: u64,
        /// If there are more than [`LONG_LEVELS`] groups above: new bins of the last of these for the next
        /// launch, u32 `[sensor][bin]`, else 0.
        pub next_direct: u64,
        /// And those of its delay line, u32 `[sensor][`S + bin]`.
        pub next_shifted: u64,
        /// Sums of products, added to atomically.
        pub products: u64,
        /// Zero-delay registers.
        pub partial: u64,
        /// The same after these bins: sums of the groups above `base`, and if it is the first, of all
        /// others, which are zero.
        pub new_partial: u64,
        /// Delay lines.
        pub cells: u64,
        /// The same after these bins: sums of the groups above `base`.
        pub new_cells: u64,
        /// Bins before the first new one, modulo `2^LONG_LEVELS`.
        pub begun: u32,
        /// New bins.
        pub count: u32,
        /// The group before the first that is computed; at most the number of groups less two.
        pub base: u32,
        /// Whether it is group `low`, whose bins are u16.
        pub narrow: u32,
        /// `G`.
        pub groups: u32,
        /// `S`, at most [`MAX_LOW_LAGS`].
        pub lags: u32,
        /// Blocks of a sensor.
        pub blocks: u32,
        /// Zero.
        pub reserved: u32,
    }
}

parameters! {
    /// Parameters of [`DELAYS`]. Grid: a warp for every row, fewer than 2^31 rows.
    pub struct Delays {
        /// Counts less 128, int8 `[sensor][before + count]`, 4 bytes or more behind each sensor's.
        pub counts: u64,
        /// Rows, int8 `[part][unit][row][part bytes]`: rows of the marks, `[mark][slot]`, and one of ones.
        pub rows: u64,
        /// Sensors of the units, u32 `[unit][slot]`, or [`NO_SENSOR`].
        pub sensors: u64,
        /// Marks, u32: instants by which rows are delayed, at most `before`.
        pub marks: u64,
        /// Bytes from one sensor's counts to the next one's.
        pub stride: u64,
        /// Instants before the first one.
        pub before: u32,
        /// Instants.
        pub count: u32,
        /// Parts of the time.
        pub parts: u32,
        /// Instants of a part, a multiple of 4: bytes of a row.
        pub part: u32,
        /// Units of sensors.
        pub units: u32,
        /// Sensors of a unit.
        pub slots: u32,
        /// Number of marks.
        pub marks_count: u32,
        /// Zero.
        pub reserved: u32,
    }
}

parameters! {
    /// Parameters of [`CARRY`]. Grid: any; the blocks share the bytes of the tail and the cells.
    pub struct Carry {
        /// Counts `[instant][sensor]`.
        pub counts: u64,
        /// The `halo` instants before them.
        pub tail: u64,
        /// The last `halo` instants of both, written here.
        pub new_tail: u64,
        /// Delay lines, of which those of groups `0..fill` are written.
        pub cells: u64,
        /// Instants.
        pub instants: u64,
        /// Sensors.
        pub sensors: u32,
        /// Instants of the tail.
        pub halo: u32,
        /// `G`.
        pub groups: u32,
        /// `S`.
        pub lags: u32,
        /// Groups whose delay lines are written, none or `low + 1`.
        pub fill: u32,
        /// Whether `counts`, `tail` and the number of sensors are multiples of 4.
        pub words: u32,
    }
}

kernels! { KERNELS:
    /// AutocorrelationCUDA's own form, bin groups an instant at a time: any shape, any number of instants.
    BIN_GROUPS: Kernel<BinGroups> =
        Kernel::new("autocorrelate_bin_groups", 32 * BIN_GROUP_ROWS)
            .shared_bytes(BIN_GROUP_BYTES).conflicts(2).sectors(32);
    /// Bin groups, all instants of a packet together: at most [`PACKET_INSTANTS`].
    PACKETS: Kernel<BinGroups> =
        Kernel::new("autocorrelate_packets", 32 * BIN_GROUP_ROWS)
            .shared_bytes(BIN_GROUP_BYTES)
            .min_blocks(4).conflicts(2).sectors(32);
    /// Groups 0 and 1, and bins of group 2, from counts.
    COUNTS: Kernel<Counts> =
        Kernel::new("autocorrelate_counts", 32 * COUNT_WARPS)
            .shared_bytes(COUNT_WARPS * (COUNT_SLOTS * COUNT_STEP * SUBSEGMENTS + RING_BYTES)).conflicts(4).sectors(32);
    /// [`COUNTS`] with TMA, on Hopper: where `piece` is 16, and there are tensor maps.
    COUNTS_BOXES: Kernel<Counts> =
        Kernel::new("autocorrelate_counts_boxes", 32 * BOX_WARPS)
            .target(Target::Sm90a)
            .shared_bytes(BOX_SLOTS * BOX_SLOT_BYTES + BOX_SENSORS * RING_BYTES + 8 * BOX_SLOTS).conflicts(4);
    /// Groups `2..=low` on tensor cores.
    LOW: Kernel<Low> =
        Kernel::new("autocorrelate_low", 32 * LOW_WARPS)
            .shared_bytes(line_offset(MAX_LOW + 1, WARP_LAGS))
            .min_blocks(2).conflicts(4);
    /// Products, delay lines and zero-delay registers of the groups above `low`.
    LONG: Kernel<Long> =
        Kernel::new("autocorrelate_long", 32 * LONG_WARPS)
            .shared_bytes(4 * (LONG_RANGE + long_offset(LONG_LEVELS + 1, MAX_LOW_LAGS)))
            .min_blocks(4).conflicts(8).sectors(8);
    /// Delayed counts as inputs of a correlator.
    DELAYS: Kernel<Delays> = Kernel::new("autocorrelate_delays", 32 * DELAY_WARPS);
    /// Keeps the counts and delay lines that the next instants need.
    CARRY: Kernel<Carry> = Kernel::new("autocorrelate_carry", 256).sectors(32);
}

/// Entries of all.
pub(super) const ENTRIES: &[&[Entry]] = &[KERNELS];
