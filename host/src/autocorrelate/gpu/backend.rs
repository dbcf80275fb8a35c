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

use corrust_gpu::abi::autocorrelate::{
    BIN_GROUP_BYTES, BIN_GROUP_ROWS, BIN_GROUPS, BinGroups, COUNTS, MAX_LOW_LAGS, PACKET_INSTANTS,
    PACKETS, packet_row_bytes, row_bytes,
};

use super::{
    pipeline::Pipeline,
    state::{Counted, DeviceState, instants, split},
};
use crate::{
    autocorrelate::{
        backend::Backend,
        shape::{Scheme, Shape},
        state::State,
        sums_mut::SumsMut,
    },
    device::{
        gpu::{Gpu, Rows, Stream},
        memory::Buffer,
    },
    error::{Error, Result},
    kernels::autocorrelate::Kernel,
    layout::Layout,
    samples::{extents::Memory, view::Samples},
    stream::feeder::{Feeder, PIECE_BYTES},
    tuning::autocorrelate::Autocorrelate,
};

/// Most bytes of counts that are brought to the device at a time.
const MOST_BYTES: usize = 256 << 20;

/// Instants that are brought at a time, within these bounds: halos are a small part of them.
const BROUGHT_INSTANTS: usize = 1 << 14;

/// Most instants of a launch of bin groups one by one: a few milliseconds.
const BIN_GROUP_INSTANTS: u32 = 1 << 16;

/// Fewest instants that packets are worth their launches for.
const LEAST_PACKET: u32 = 32;

/// Blocks keep the tail when they have this part of it at least: carrying it costs as much as a packet of fewer
/// instants.
const CARRIED_SHARE: usize = 8;

/// An autocorrelation on a GPU.
pub(in crate::autocorrelate) struct GpuBackend {
    pairs: Vec<[u32; 2]>,
    kernel: Kernel,
    /// Instants of a packet, if bin groups take packets.
    packet: Option<u32>,
    device_pairs: Buffer,
    state: DeviceState,
    pipeline: Option<Pipeline>,
    feeder: Feeder,
}

impl GpuBackend {
    /// Puts `state` on `gpu`.
    pub(in crate::autocorrelate) fn new(
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
            feeder: Feeder::new(&gpu, 2),
            kernel,
            packet,
            pipeline,
            state: DeviceState {
                products: buffer(bytemuck::cast_slice(&state.products))?,
                totals: buffer(bytemuck::cast_slice(&state.totals))?,
                partial: buffer(bytemuck::cast_slice(&state.partial))?,
                cells: buffer(bytemuck::cast_slice(&state.cells))?,
                gpu,
                shape,
                instants,
                tuned,
            },
            pairs: state.pairs,
        })
    }

    /// The kernel that computes: [`Kernel::Auto`] where it depends on the length of the blocks.
    pub(in crate::autocorrelate) fn kernel(&self) -> Kernel {
        match (&self.pipeline, self.packet) {
            (Some(_), _) => self.kernel,
            (None, Some(_)) => Kernel::Packets,
            (None, None) => Kernel::BinGroups,
        }
    }

    /// Advances the state by counts.
    fn advance(&mut self, mut block: Counted) -> Result<()> {
        let stream = block.on_device().1;
        self.feeder.continue_on(stream)?;
        let least = match self.kernel {
            Kernel::TensorCores => 1,
            _ => self.state.tuned.tensor_core_instants,
        };
        let Some(mut pipeline) = self.pipeline.take() else {
            return self.bin_groups(stream, block);
        };
        let mut run = || -> Result<()> {
            // Up to the next multiple of 2^low, once the tail is known.
            let unit = 1 << pipeline.low;
            let missing = (pipeline.halo - pipeline.known) as u64;
            let first = (self.state.instants + missing).next_multiple_of(unit);
            let head = usize::try_from(first - self.state.instants).unwrap_or(usize::MAX);
            let ran = head.saturating_add(least.max(unit as usize)) <= instants(&block);
            if ran {
                let (before, rest) = split(&block, head);
                if head > 0 {
                    self.bin_groups(stream, before)?;
                    pipeline.carry(&self.state, stream, before, 0)?;
                }
                block = rest;
                let limit = pipeline.piece_instants(&self.state)?;
                loop {
                    let count = instants(&block).min(limit) / unit as usize * unit as usize;
                    if count == 0 {
                        break;
                    }
                    let (piece, rest) = split(&block, count);
                    pipeline.run(&mut self.state, stream, piece)?;
                    block = rest;
                }
            }
            if instants(&block) > 0 {
                self.bin_groups(stream, block)?;
                let few = instants(&block) < pipeline.halo / CARRIED_SHARE;
                if few && !ran && self.kernel == Kernel::Auto {
                    pipeline.known = 0;
                } else {
                    pipeline.carry(&self.state, stream, block, 0)?;
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
        let Shape { sensors, groups, lags, .. } = self.state.shape;
        let rows = self.pairs.len() as u32;
        // No more rows in a block than all multiprocessors have work with.
        let spread = rows.div_ceil(self.state.gpu.facts().multiprocessors).clamp(1, BIN_GROUP_ROWS);
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
                products: self.state.products.address(),
                totals: self.state.totals.address(),
                partial: self.state.partial.address(),
                cells: self.state.cells.address(),
                begin: self.state.instants,
                sensors: sensors as u32,
                rows,
                groups: groups as u32,
                lags: lags as u32,
                instants: count as u32,
                rows_per_block,
            };
            let blocks = rows.div_ceil(rows_per_block);
            let kernel = kernel.shared_bytes(rows_per_block * bytes);
            // SAFETY: the state's buffers have the shape's sizes, and the block's counts are on the device.
            unsafe { self.state.gpu.launch(stream, &kernel, blocks, &parameters)? };
            self.state.instants += count as u64;
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
            let [least, most] =
                [PIECE_BYTES, MOST_BYTES].map(|bytes| bytes / self.state.shape.sensors);
            let wanted = BROUGHT_INSTANTS.clamp(least, most).max(1) * self.state.shape.sensors;
            (self.feeder.piece_bytes(counts, wanted)? / self.state.shape.sensors).max(1)
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
        let points = self.state.shape.points() * self.pairs.len();
        room.products.check(&self.state.gpu, "sums", points)?;
        let mut copies = vec![(&self.state.products, room.products.read(), points)];
        if let Some(totals) = &room.totals {
            totals.check(&self.state.gpu, "totals", 2 * self.pairs.len())?;
            copies.push((&self.state.totals, totals.read(), 2 * self.pairs.len()));
        }
        for (from, to, count) in copies {
            self.feeder.continue_on(to.stream())?;
            let rows = Rows::one(8 * count);
            // SAFETY: the room was checked; the state has as many sums.
            unsafe { self.state.gpu.copy_rows(to.stream(), to.address(), from.address(), &rows)? };
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
        state.make_room(&self.state.shape, &self.pairs);
        state.instants = self.state.instants;
        let stream = self.feeder.last();
        self.state.products.download(stream, &mut state.products)?;
        self.state.totals.download(stream, &mut state.totals)?;
        self.state.partial.download(stream, &mut state.partial)?;
        self.state.cells.download(stream, &mut state.cells)
    }

    fn snapshot_device(&mut self, room: &SumsMut<'_>) -> Result<()> {
        let result = self.copy_sums(room);
        result.and(self.feeder.give_back())
    }
}

/// Most instants of a packet of this shape whose rows fit a block's shared memory, if any do.
fn packet_instants(groups: u32, lags: u32) -> Option<u32> {
    let halves = std::iter::successors(Some(PACKET_INSTANTS), |instants| Some(instants / 2));
    halves
        .take_while(|&instants| instants >= LEAST_PACKET)
        .find(|&instants| packet_row_bytes(groups, lags, instants) <= BIN_GROUP_BYTES.into())
}
