//! Autocorrelation on a GPU, or on the simulator of one.
//!
//! The [`State`] lives in device memory, laid out as on the host, and two implementations advance it:
//! bin groups any number of instants at a time, one by one or in packets, and the tensor-core pipeline, which
//! begins and ends at multiples of `2^low` instants and leaves the rest to the bin groups:
//!
//! ```text
//! counts -> [counts] -> products of groups 0 and 1, bins of group 2
//!           quarters -> [low] -> products of groups 2..=low, bins of group low
//!                                bins -> [long] -> products and delay lines of the groups above
//! counts -> [carry] -> tail, delay lines of groups 0..=low
//! ```
//!
//! The pipeline needs the last `halo` instants before it, the *tail*. It is no part of the state:
//! after a stream is resumed, bin groups take the instants until there is one.

use std::sync::Arc;

use corrust_gpu::abi::{
    Target,
    autocorrelate::{
        BIN_BYTES, BIN_GROUP_BYTES, BIN_GROUP_ROWS, BIN_GROUPS, BOX_SENSORS, BOX_STEP, BinGroups,
        CARRY, COUNT_WARPS, COUNTS, COUNTS_BOXES, Carry, Counts, LONG, LONG_LEVELS, LONG_RANGE,
        LOW, LOW_WARPS, Long, Low, MAX_LOW, MAX_LOW_LAGS, MAX_PART, MAX_SUBSEGMENT,
        PACKET_INSTANTS, PACKETS, STEP, SUBSEGMENTS, WARP_LAGS, history, packet_row_bytes, role,
        row_bytes,
    },
};

use crate::{
    autocorrelate::{
        backend::Backend,
        shape::{Scheme, Shape},
        state::State,
        sums_mut::SumsMut,
    },
    device::{
        gpu::{Gpu, Rows, Stream, TensorMap},
        memory::Buffer,
    },
    error::{Error, Result},
    kernels::autocorrelate::Kernel,
    layout::Layout,
    samples::{extents::Memory, view::Samples},
    stream::{
        feeder::{Feeder, PIECE_BYTES},
        maps::Maps,
    },
    tuning::autocorrelate::Autocorrelate,
};

/// Most bytes of counts that are brought to the device at a time.
const MOST_BYTES: usize = 256 << 20;

/// Instants that are brought at a time, within these bounds: halos are a small part of them.
const BROUGHT_INSTANTS: usize = 1 << 14;

/// Most bytes of counts that one run of the pipeline takes.
const RUN_BYTES: u64 = 2 << 30;

/// Most instants of a launch of bin groups one by one: a few milliseconds.
const BIN_GROUP_INSTANTS: u32 = 1 << 16;

/// Fewest instants that packets are worth their launches for.
const LEAST_PACKET: u32 = 32;

/// Blocks keep the tail when they have this part of it at least: carrying it costs as much as a packet of fewer
/// instants.
const CARRIED_SHARE: usize = 8;

/// Counts in device memory, `[instant][sensor]` without gaps.
type Counted = Samples<'static>;

/// Instants of some counts.
fn instants(counts: &Counted) -> usize {
    counts.extents().times
}

/// The first `count` instants, and the rest.
fn split(counts: &Counted, count: usize) -> (Counted, Counted) {
    (counts.times(0..count), counts.times(count..instants(counts)))
}

/// The tensor-core pipeline's own memory.
struct Pipeline {
    /// Highest group that tensor cores compute.
    low: u32,
    /// Instants before each subsegment.
    halo: usize,
    /// The last `halo` instants of the stream, and room for the next ones.
    tails: [Buffer; 2],
    /// Instants of the tail that are known: those before the stream are zero.
    known: usize,
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

/// A state in device memory.
pub(super) struct GpuBackend {
    gpu: Arc<dyn Gpu>,
    name: String,
    shape: Shape,
    pairs: Vec<[u32; 2]>,
    instants: u64,
    kernel: Kernel,
    tuned: Autocorrelate,
    /// Instants of a packet, if bin groups take packets.
    packet: Option<u32>,
    device_pairs: Buffer,
    products: Buffer,
    totals: Buffer,
    partial: Buffer,
    cells: Buffer,
    pipeline: Option<Pipeline>,
    feeder: Feeder,
}

impl GpuBackend {
    /// Puts `state` on `gpu`.
    pub(super) fn new(
        gpu: Arc<dyn Gpu>,
        state: State,
        kernel: Kernel,
        tuned: Autocorrelate,
    ) -> Result<Self> {
        let State { shape, instants, .. } = state;
        let Shape { groups, lags, scheme, .. } = shape;
        if scheme != Scheme::BinGroups {
            return Err(Error::invalid(format!(
                "scheme {scheme} does not run on a GPU: expected device cpu, or scheme bin-groups"
            )));
        }
        let (least_bytes, packet) = match kernel {
            Kernel::BinGroups => (row_bytes(groups as u32, lags as u32), None),
            _ => (
                packet_row_bytes(groups as u32, lags as u32, LEAST_PACKET),
                packet_instants(groups as u32, lags as u32),
            ),
        };
        if least_bytes > BIN_GROUP_BYTES.into() {
            return Err(Error::invalid(format!(
                "{groups} groups of {lags} lags take {least_bytes} bytes of a GPU's shared memory: \
                 expected at most {BIN_GROUP_BYTES}"
            )));
        }
        let pipes = state.is_auto() && lags <= MAX_LOW_LAGS as usize;
        if kernel == Kernel::TensorCores && !pipes {
            return Err(Error::invalid(format!(
                "kernel tensor-cores: expected one group, or autocorrelations with at most \
                 {MAX_LOW_LAGS} lags a group, found {}{lags} lags in {groups} groups",
                if state.is_auto() { "" } else { "pairs with " }
            )));
        }
        // The counts under way would not fit an A40 or another GPU of capability 8.6 or 8.9.
        let (needed, there) = (COUNTS.entry.shared_bytes, gpu.facts().shared_bytes);
        if kernel == Kernel::TensorCores && there < needed {
            return Err(Error::Device(format!(
                "kernel tensor-cores takes {needed} bytes of shared memory: {} has {there}",
                gpu.facts().name
            )));
        }
        let pipes = pipes && there >= needed;
        let stream = Stream::default();
        let pipeline = if pipes && !matches!(kernel, Kernel::BinGroups | Kernel::Packets) {
            Some(Pipeline::new(&gpu, &shape, instants)?)
        } else {
            None
        };
        let buffer = |bytes: &[u8]| -> Result<Buffer> {
            let buffer = Buffer::new(&gpu, bytes.len())?;
            buffer.upload(stream, bytes)?;
            Ok(buffer)
        };
        Ok(Self {
            device_pairs: buffer(bytemuck::cast_slice(&state.pairs))?,
            products: buffer(bytemuck::cast_slice(&state.products))?,
            totals: buffer(bytemuck::cast_slice(&state.totals))?,
            partial: buffer(bytemuck::cast_slice(&state.partial))?,
            cells: buffer(bytemuck::cast_slice(&state.cells))?,
            name: gpu.facts().name.clone(),
            feeder: Feeder::new(&gpu, 2),
            gpu,
            shape,
            pairs: state.pairs,
            instants,
            kernel,
            tuned,
            packet,
            pipeline,
        })
    }

    /// Advances the state by counts.
    fn advance(&mut self, mut block: Counted) -> Result<()> {
        let stream = block.on_device().1;
        self.feeder.continue_on(stream)?;
        let least = match self.kernel {
            Kernel::TensorCores => 1,
            _ => self.tuned.tensor_core_instants,
        };
        let Some(mut pipeline) = self.pipeline.take() else {
            return self.bin_groups(stream, block);
        };
        let mut run = || -> Result<()> {
            // Up to the next multiple of 2^low, once the tail is known.
            let unit = 1 << pipeline.low;
            let missing = (pipeline.halo - pipeline.known) as u64;
            let first = (self.instants + missing).next_multiple_of(unit);
            let head = usize::try_from(first - self.instants).unwrap_or(usize::MAX);
            let ran = head.saturating_add(least.max(unit as usize)) <= instants(&block);
            if ran {
                let (before, rest) = split(&block, head);
                if head > 0 {
                    self.bin_groups(stream, before)?;
                    pipeline.carry(self, stream, before, 0)?;
                }
                block = rest;
                let limit = pipeline.piece_instants(self)?;
                loop {
                    let count = instants(&block).min(limit) / unit as usize * unit as usize;
                    if count == 0 {
                        break;
                    }
                    let (piece, rest) = split(&block, count);
                    pipeline.run(self, stream, piece)?;
                    block = rest;
                }
            }
            if instants(&block) > 0 {
                self.bin_groups(stream, block)?;
                let few = instants(&block) < pipeline.halo / CARRIED_SHARE;
                if few && !ran && self.kernel == Kernel::Auto {
                    pipeline.known = 0;
                } else {
                    pipeline.carry(self, stream, block, 0)?;
                }
            }
            Ok(())
        };
        let result = run();
        self.pipeline = Some(pipeline);
        result
    }

    /// Advances the state by bin groups, in packets where they fit.
    fn bin_groups(&mut self, stream: Stream, mut block: Counted) -> Result<()> {
        let Shape { sensors, groups, lags, .. } = self.shape;
        let rows = self.pairs.len() as u32;
        // No more rows in a block than all multiprocessors have work with.
        let spread = rows.div_ceil(self.gpu.facts().multiprocessors).clamp(1, BIN_GROUP_ROWS);
        let most = self.packet.unwrap_or(BIN_GROUP_INSTANTS) as usize;
        while instants(&block) > 0 {
            let (part, rest) = split(&block, instants(&block).min(most));
            let count = instants(&part);
            let (kernel, bytes) = match self.packet {
                Some(_) => {
                    (PACKETS, packet_row_bytes(groups as u32, lags as u32, count as u32) as u32)
                }
                None => (BIN_GROUPS, row_bytes(groups as u32, lags as u32) as u32),
            };
            let rows_per_block = (BIN_GROUP_BYTES / bytes).min(spread);
            let parameters = BinGroups {
                counts: part.on_device().0,
                pairs: self.device_pairs.address(),
                products: self.products.address(),
                totals: self.totals.address(),
                partial: self.partial.address(),
                cells: self.cells.address(),
                begin: self.instants,
                sensors: sensors as u32,
                rows,
                groups: groups as u32,
                lags: lags as u32,
                instants: count as u32,
                rows_per_block,
            };
            let blocks = rows.div_ceil(rows_per_block);
            let kernel = kernel.shared_bytes(rows_per_block * bytes);
            // SAFETY: the state's buffers are those of the shape, the block's counts are there.
            unsafe { self.gpu.launch(stream, &kernel, blocks, &parameters)? };
            self.instants += count as u64;
            block = rest;
        }
        Ok(())
    }

    /// Brings counts to the device, a piece at a time, and advances the state by them.
    fn accumulate_pieces(&mut self, counts: &Samples<'_>) -> Result<()> {
        let times = counts.extents().times;
        let dense = |counts: &Samples<'_>| counts.is_dense(Layout::Tcn);
        let stays =
            matches!(counts.memory(), Memory::Device(_)) && dense(counts) && counts.is_complete();
        let most = if stays {
            times
        } else {
            let [least, most] = [PIECE_BYTES, MOST_BYTES].map(|bytes| bytes / self.shape.sensors);
            let wanted = BROUGHT_INSTANTS.clamp(least, most).max(1) * self.shape.sensors;
            (self.feeder.piece_bytes(counts, wanted)? / self.shape.sensors).max(1)
        };
        for first in (0..times).step_by(most) {
            let piece = counts.times(first..times.min(first + most));
            let brought = self.feeder.bring(&piece, Layout::Tcn, dense)?;
            self.advance(brought)?;
        }
        Ok(())
    }

    /// [`Backend::snapshot_device`].
    fn copy_sums(&mut self, room: &SumsMut<'_>) -> Result<()> {
        let points = self.shape.points() * self.pairs.len();
        room.products.check(&self.gpu, "sums", points)?;
        let mut copies = vec![(&self.products, room.products.read(), points)];
        if let Some(totals) = &room.totals {
            totals.check(&self.gpu, "totals", 2 * self.pairs.len())?;
            copies.push((&self.totals, totals.read(), 2 * self.pairs.len()));
        }
        for (from, to, count) in copies {
            self.feeder.continue_on(to.stream())?;
            let rows = Rows::one(8 * count);
            // SAFETY: the room was checked; the state has as many sums.
            unsafe { self.gpu.copy_rows(to.stream(), to.address(), from.address(), &rows)? };
        }
        Ok(())
    }
}

impl Backend for GpuBackend {
    fn accumulate(&mut self, counts: &Samples<'_>) -> Result<()> {
        let result = self.accumulate_pieces(counts);
        result.and(self.feeder.give_back())
    }

    fn wait(&mut self) -> Result<()> {
        self.feeder.wait()
    }

    fn state_into(&mut self, state: &mut State) -> Result<()> {
        state.make_room(&self.shape, &self.pairs);
        state.instants = self.instants;
        let stream = self.feeder.last();
        self.products.download(stream, &mut state.products)?;
        self.totals.download(stream, &mut state.totals)?;
        self.partial.download(stream, &mut state.partial)?;
        self.cells.download(stream, &mut state.cells)
    }

    fn snapshot_device(&mut self, room: &SumsMut<'_>) -> Result<()> {
        let result = self.copy_sums(room);
        result.and(self.feeder.give_back())
    }

    fn device_name(&self) -> &str {
        &self.name
    }

    fn kernel(&self) -> Kernel {
        match (&self.pipeline, self.packet) {
            (Some(_), _) => self.kernel,
            (None, Some(_)) => Kernel::Packets,
            (None, None) => Kernel::BinGroups,
        }
    }
}

impl Pipeline {
    fn new(gpu: &Arc<dyn Gpu>, shape: &Shape, instants: u64) -> Result<Self> {
        let lags = shape.lags as u32;
        // Where 32 lags are not enough for one warp, there is none for group 5.
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
    fn piece_instants(&mut self, state: &GpuBackend) -> Result<usize> {
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
    fn run(&mut self, state: &mut GpuBackend, stream: Stream, piece: Counted) -> Result<()> {
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
        let low = Low {
            quarters: self.quarters.address(),
            bins: self.bins.address(),
            products: state.products.address(),
            totals: state.totals.address(),
            bins_stride: bins_stride as u64,
            roles: u64::from_le_bytes(roles(self.low as u8, lags as u32)),
            subsegment: subsegment as u32,
            halo: self.halo as u32,
            segments: segments as u32,
            groups: groups as u32,
            lags: lags as u32,
            low: self.low,
        };
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
        state: &GpuBackend,
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
    fn carry(
        &mut self,
        state: &GpuBackend,
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

/// Most instants of a packet of this shape whose rows fit a block's shared memory, if any do.
fn packet_instants(groups: u32, lags: u32) -> Option<u32> {
    let halves = std::iter::successors(Some(PACKET_INSTANTS), |instants| Some(instants / 2));
    halves
        .take_while(|&instants| instants >= LEAST_PACKET)
        .find(|&instants| packet_row_bytes(groups, lags, instants) <= BIN_GROUP_BYTES.into())
}

/// Whether the counts of four neighbouring sensors can be read as one word.
fn words(address: u64, sensors: usize) -> bool {
    address.is_multiple_of(4) && sensors.is_multiple_of(4)
}

/// A grid of so many blocks.
pub(super) fn grid(blocks: usize) -> Result<u32> {
    u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32).ok_or_else(|| {
        Error::invalid(format!("{blocks} blocks are more than one launch takes ({})", i32::MAX))
    })
}

/// How instants are cut: into segments of [`SUBSEGMENTS`] subsegments, no shorter than the halo, and these
/// into parts for blocks of [`COUNTS_BOXES`].
struct Cut {
    segments: usize,
    /// Instants.
    subsegment: usize,
    parts: usize,
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
    fn whole(
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

    /// Into segments for [`LOW`], whose halos are a part of what it reads, and parts for
    /// [`COUNTS_BOXES`].
    fn parts(
        instants: usize,
        halo: usize,
        sensors: usize,
        tiles: usize,
        multiprocessors: usize,
        longer: f64,
    ) -> Self {
        /// Blocks of [`LOW`] on a multiprocessor.
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
fn roles(low: u8, lags: u32) -> [u8; LOW_WARPS as usize] {
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
