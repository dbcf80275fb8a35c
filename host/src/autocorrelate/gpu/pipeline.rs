//! The tensor-core pipeline.

use std::sync::Arc;

use corrust_gpu::abi::{
    Target,
    autocorrelate::{
        BIN_BYTES, BOX_SENSORS, BOX_STEP, CARRY, COUNT_WARPS, COUNTS, COUNTS_BOXES, Carry, Counts,
        LONG, LONG_LEVELS, LONG_RANGE, LOW, Long, Low, MAX_LOW, STEP, SUBSEGMENTS, WARP_LAGS,
        history,
    },
};

use super::{
    cut::{Cut, roles},
    state::{Counted, DeviceState, grid, instants},
};
use crate::{
    autocorrelate::shape::Shape,
    device::{
        gpu::{Gpu, Stream, TensorMap},
        memory::Buffer,
    },
    error::Result,
    stream::maps::Maps,
};

/// Most bytes of counts that one run of the pipeline takes.
const RUN_BYTES: u64 = 2 << 30;

/// The tensor-core pipeline's own memory.
pub(super) struct Pipeline {
    /// Highest group that tensor cores compute.
    pub(super) low: u32,
    /// Instants before each subsegment.
    pub(super) halo: usize,
    /// The last `halo` instants of the stream, and room for the next ones.
    tails: [Buffer; 2],
    /// Instants of the tail that are known; instants before the stream are zero.
    pub(super) known: usize,
    /// Zero-delay registers and delay lines of the state after the next run, which takes the places of
    /// the state's own.
    next_partial: Buffer,
    next_cells: Buffer,
    quarters: Buffer,
    bins: Buffer,
    long: Buffer,
    /// Tensor maps of counts and of tails.
    maps: Maps,
    /// The most instants that one run may take, and the buffers' bytes when that was found.
    most: Option<(usize, u64)>,
}

impl Pipeline {
    pub(super) fn new(gpu: &Arc<dyn Gpu>, shape: &Shape, instants: u64) -> Result<Self> {
        let lags = shape.lags as u32;
        // More lags than one warp has take the warp of group 5.
        let most = if lags > WARP_LAGS { MAX_LOW - 1 } else { MAX_LOW };
        let low = lags.trailing_zeros().min(most).min(shape.groups as u32 - 1);
        let halo = ((2 * shape.lags) << low).next_multiple_of(STEP as usize);
        let tail = || {
            let tail = Buffer::new(gpu, halo * shape.sensors)?;
            tail.clear(Stream::default())?;
            Ok(tail)
        };
        let buffer = || Buffer::new(gpu, 0);
        Ok(Self {
            low,
            halo,
            tails: [tail()?, tail()?],
            known: if instants == 0 { halo } else { 0 },
            next_partial: Buffer::new(gpu, 4 * shape.sensors * shape.groups)?,
            next_cells: Buffer::new(gpu, 4 * shape.sensors * shape.groups * shape.lags)?,
            quarters: buffer()?,
            bins: buffer()?,
            long: buffer()?,
            maps: Maps::new(gpu),
            most: None,
        })
    }

    /// Most instants that one run may take with the memory there is.
    pub(super) fn piece_instants(&mut self, state: &DeviceState) -> Result<usize> {
        let held = (self.quarters.bytes() + self.bins.bytes() + self.long.bytes()) as u64;
        // Asking the driver takes as long as a launch.
        if let Some((most, known)) = self.most
            && known == held
        {
            return Ok(most);
        }
        let free = state.gpu.free_bytes()? + held;
        let sensors = state.shape.sensors as u64;
        // A count takes half a byte in bins of four, no more again in their halo unless subsegments are
        // shorter than that, and up to 18 bytes of bins where `low` is 0.
        let bytes = 2 + (18 >> self.low);
        let halos = sensors * u64::from(SUBSEGMENTS) * (self.halo as u64 + u64::from(STEP));
        let counts = (free / 2).saturating_sub(halos) / bytes;
        let instants = counts.min(RUN_BYTES) / sensors;
        // Bins and instants of a launch are counted in 32 bits.
        let most = (instants.min(1 << 30) as usize).max(1 << self.low);
        self.most = Some((most, held));
        Ok(most)
    }

    /// Advances `state`, which stands at a multiple of `2^low`, by a multiple of that.
    pub(super) fn run(
        &mut self,
        state: &mut DeviceState,
        stream: Stream,
        piece: Counted,
    ) -> Result<()> {
        let Shape { sensors, groups, lags, .. } = state.shape;
        let (gpu, address, count) = (state.gpu.clone(), piece.on_device().0, instants(&piece));
        let chunks = if self.low > 0 && lags > WARP_LAGS as usize { 2 } else { 1 };
        let wide = chunks == 1 && address.is_multiple_of(16) && sensors.is_multiple_of(16);
        let boxes = wide && gpu.facts().runs(Target::Sm90a);
        let block_sensors =
            if boxes { BOX_SENSORS as usize } else { COUNT_WARPS as usize / chunks };
        let tiles = sensors.div_ceil(block_sensors);
        let multiprocessors = gpu.facts().multiprocessors as usize;
        let Cut { segments, subsegment, parts } = if boxes && self.low >= 2 {
            let longer = state.tuned.counts_over_bins;
            Cut::parts(count, self.halo, sensors, tiles, multiprocessors, longer)
        } else {
            Cut::whole(count, self.halo, tiles, boxes, multiprocessors)
        };
        let new_bins = count >> self.low;
        let history = history(lags as u32) as usize;
        let bins_stride = history + ((segments * SUBSEGMENTS as usize * subsegment) >> self.low);
        self.bins.reserve(2 * sensors * bins_stride)?;
        if self.low >= 2 {
            let rows = sensors * segments * (self.halo + subsegment) / 4;
            self.quarters.reserve(rows * BIN_BYTES as usize)?;
        }
        let counts = Counts {
            counts: address,
            tail: self.tails[0].address(),
            quarters: self.quarters.address(),
            maps: if boxes { self.maps(stream, address, count, sensors)? } else { 0 },
            bins: self.bins.address(),
            products: state.products.address(),
            totals: state.totals.address(),
            instants: count as u64,
            bins_stride: bins_stride as u64,
            sensors: sensors as u32,
            subsegment: subsegment as u32,
            halo: self.halo as u32,
            segments: segments as u32,
            groups: groups as u32,
            lags: lags as u32,
            low: self.low,
            chunks: chunks as u32,
            piece: if wide {
                16
            } else if words(address, sensors) {
                4
            } else {
                1
            },
            parts: parts as u32,
        };
        let low = low(&counts);
        // SAFETY: the buffers were reserved for these parameters; the state is at a multiple of
        // 2^low, and the tail is known.
        unsafe {
            let kernel = if boxes { &COUNTS_BOXES } else { &COUNTS };
            gpu.launch(stream, kernel, grid(tiles * segments * parts)?, &counts)?;
            if self.low >= 2 {
                gpu.launch(stream, &LOW, grid(sensors * segments)?, &low)?;
            }
        }
        self.carry(state, stream, piece, self.low + 1)?;
        if self.low + 1 < groups as u32 {
            self.long(state, stream, new_bins as u32, bins_stride)?;
            std::mem::swap(&mut state.partial, &mut self.next_partial);
        }
        std::mem::swap(&mut state.cells, &mut self.next_cells);
        state.instants += count as u64;
        Ok(())
    }

    /// Device address of the tensor maps of counts and of the tail.
    fn maps(&mut self, stream: Stream, counts: u64, count: usize, sensors: usize) -> Result<u64> {
        let map = |address, instants: usize| TensorMap {
            address,
            sizes: [sensors as u64, instants as u64, 1],
            strides: [sensors as u64, (sensors * instants) as u64],
            box_bytes: BOX_SENSORS,
            box_rows: BOX_STEP,
        };
        let maps = [map(counts, count), map(self.tails[0].address(), self.halo)];
        self.maps.address(stream, maps)
    }

    /// Advances the groups above `low` by `new_bins` bins of that.
    fn long(
        &mut self,
        state: &DeviceState,
        stream: Stream,
        new_bins: u32,
        bins_stride: usize,
    ) -> Result<()> {
        let Shape { sensors, groups, lags, .. } = state.shape;
        let last = groups as u32 - 1;
        // New bins of a group.
        let count = |group: u32| {
            let before = (state.instants >> self.low) & ((1 << (group - self.low)) - 1);
            ((before + u64::from(new_bins)) >> (group - self.low)) as usize
        };
        let begun = |group: u32| (state.instants >> group) as u32 % (1 << LONG_LEVELS);
        let words = |group: u32| if group < last { lags + 2 * count(group) } else { 0 };
        let bases = (self.low..last).step_by(LONG_LEVELS as usize);
        let needed: usize = bases.clone().map(|base| words(base + LONG_LEVELS)).sum();
        self.long.reserve(4 * sensors * needed)?;

        let mut direct = self.bins.address() + 2 * u64::from(history(lags as u32))
            - 2 * u64::from(begun(self.low));
        let mut shifted = direct + 2 * (lags as u64 >> self.low);
        let mut strides = [2 * bins_stride as u64; 2];
        let mut next = self.long.address();
        for base in bases {
            let top = base + LONG_LEVELS;
            let is_last = top >= last;
            let next_shifted = next + 4 * (sensors * if is_last { 0 } else { count(top) }) as u64;
            let blocks = (begun(base) + count(base) as u32).div_ceil(LONG_RANGE).max(1);
            let parameters = Long {
                direct,
                shifted,
                direct_stride: strides[0],
                shifted_stride: strides[1],
                next_direct: if is_last { 0 } else { next },
                next_shifted,
                products: state.products.address(),
                partial: state.partial.address(),
                new_partial: self.next_partial.address(),
                cells: state.cells.address(),
                new_cells: self.next_cells.address(),
                begun: begun(base),
                count: count(base) as u32,
                base,
                narrow: (base == self.low).into(),
                groups: groups as u32,
                lags: lags as u32,
                blocks,
                reserved: 0,
            };
            // SAFETY: the bins of the group before are there, and room for those of the next launch.
            unsafe {
                state.gpu.launch(stream, &LONG, grid(sensors * blocks as usize)?, &parameters)?
            };
            if !is_last {
                direct = next - 4 * u64::from(begun(top));
                shifted = next_shifted + 4 * (2 * lags as u64 - 1) - 4 * u64::from(begun(top));
                strides = [count(top), lags + count(top)].map(|bins| 4 * bins as u64);
                next = next_shifted + strides[1] * sensors as u64;
            }
        }
        Ok(())
    }

    /// Moves the tail past counts, and writes the next delay lines of `fill` groups.
    pub(super) fn carry(
        &mut self,
        state: &DeviceState,
        stream: Stream,
        block: Counted,
        fill: u32,
    ) -> Result<()> {
        let Shape { sensors, groups, lags, .. } = state.shape;
        let (address, count) = (block.on_device().0, instants(&block));
        let parameters = Carry {
            counts: address,
            tail: self.tails[0].address(),
            new_tail: self.tails[1].address(),
            cells: self.next_cells.address(),
            instants: count as u64,
            sensors: sensors as u32,
            halo: self.halo as u32,
            groups: groups as u32,
            lags: lags as u32,
            fill,
            words: words(address, sensors).into(),
        };
        let items = (self.halo * sensors / 4).max(fill as usize * lags * sensors);
        let blocks = items.div_ceil(CARRY.entry.threads as usize).min(1 << 14);
        // SAFETY: the tails hold `halo` instants, the block's counts are there.
        unsafe { state.gpu.launch(stream, &CARRY, blocks as u32, &parameters)? };
        self.tails.swap(0, 1);
        self.known = (self.known + count).min(self.halo);
        Ok(())
    }
}

/// Whether the counts of four neighbouring sensors can be read as one word.
fn words(address: u64, sensors: usize) -> bool {
    address.is_multiple_of(4) && sensors.is_multiple_of(4)
}

/// Parameters of the low groups behind those of counts.
fn low(counts: &Counts) -> Low {
    let &Counts { quarters, bins, products, totals, bins_stride, .. } = counts;
    let &Counts { subsegment, halo, segments, groups, lags, low, .. } = counts;
    let roles = u64::from_le_bytes(roles(low as u8, lags));
    Low {
        quarters,
        bins,
        products,
        totals,
        bins_stride,
        roles,
        subsegment,
        halo,
        segments,
        groups,
        lags,
        low,
    }
}
