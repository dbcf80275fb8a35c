//! Kernels on `wgmma`, which bring samples by TMA and take tiles by tickets.

use std::sync::Arc;

use corrust_gpu::abi::{
    Target,
    correlate::{
        self, Correlate, CorrelateWarpgroup, Order, STEP_BYTES, WARPGROUP_CORRELATORS,
        WarpgroupCorrelator, WarpgroupTile,
    },
};

use super::{
    cut::Cut,
    family::{Family, Launch, Work},
    piece::{Piece, brings_delivered},
};
use crate::{
    device::{
        gpu::{Gpu, Stream, TensorMap},
        memory::Buffer,
    },
    error::Result,
    kernels::correlate::Kernel,
    reorder::native::{Native, ROW_ALIGNMENT},
    sample::Encoding,
    samples::shape::Shape,
    stream::maps::Maps,
};

/// Kernels of one name, at least one of them of rows of time.
pub(super) struct Warpgroup(Vec<&'static WarpgroupCorrelator>);

impl Warpgroup {
    /// The kernels that are declared for a name, if there are any.
    pub(super) fn of(of: Kernel) -> Option<Self> {
        let all = WARPGROUP_CORRELATORS.iter().copied().flatten();
        let kernels: Vec<_> = all.filter(|declared| declared.name == of.name()).collect();
        (!kernels.is_empty()).then_some(Self(kernels))
    }

    fn reading(
        &self,
        encoding: correlate::Encoding,
        order: Order,
    ) -> Option<&'static WarpgroupCorrelator> {
        let reads = |declared: &&_| {
            let &&WarpgroupCorrelator { encoding: read, order: of, .. } = declared;
            (read, of) == (encoding, order)
        };
        self.0.iter().copied().find(reads)
    }
}

impl Family for Warpgroup {
    fn target(&self) -> Target {
        self.0[0].kernel.entry.target
    }

    fn tile(&self) -> (u32, u32) {
        (self.0[0].tile.rows, self.0[0].tile.columns)
    }

    fn form(&self, encoding: Encoding) -> Native {
        match self.reading(correlate::Encoding::Ci4, Order::Rows) {
            Some(_) => Native::Nibbles,
            None => Native::of(encoding),
        }
    }

    fn sums_rows(&self) -> bool {
        // Its products of planes give whole imaginary parts.
        self.reading(correlate::Encoding::Ci4, Order::Rows).is_none()
    }

    fn begin(&self, gpu: &Arc<dyn Gpu>, shape: &Shape, _gates: usize) -> Result<Box<dyn Launch>> {
        use correlate::Encoding::{B1, Cf16, Ci4, Ci8};
        let form = self.form(shape.encoding);
        // Most inputs of each encoding: beyond, a corner turn and the kernel of rows are quicker than the kernel of
        // delivered samples (docs/performance.md).
        let (rows, delivered, most_inputs) = match shape.encoding {
            _ if form == Native::Nibbles => (Ci4, None, 0),
            Encoding::Ci8 => (Ci8, Some(Ci8), usize::MAX),
            Encoding::Ci4 | Encoding::Ci4Offset => (Ci8, Some(Ci4), 511),
            Encoding::Cf16 => (Cf16, Some(Cf16), 1023),
            Encoding::B1 | Encoding::B2 => (B1, None, 0),
        };
        let delivered = delivered.and_then(|encoding| self.reading(encoding, Order::Delivered));
        let counter = Buffer::new(gpu, 4)?;
        counter.upload(Stream::default(), &[0_u32])?;
        let most_cut = Cut::MOST_TILES * gpu.facts().multiprocessors;
        let turns = Turns::new(gpu, (LAPS * most_cut * self.tile().0 / 16) as usize)?;
        Ok(Box::new(OfWarpgroup {
            maps: Maps::new(gpu),
            gpu: gpu.clone(),
            shape: *shape,
            form,
            rows: self.reading(rows, Order::Rows).expect("an encoding that the kernels take"),
            delivered: delivered.filter(|_| brings_delivered(shape) && shape.inputs <= most_inputs),
            counter,
            ticket: 0,
            turns,
        }))
    }
}

/// Launches for one encoding.
struct OfWarpgroup {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    form: Native,
    rows: &'static WarpgroupCorrelator,
    /// The kernel of samples as delivered, where there is one and it is quicker.
    delivered: Option<&'static WarpgroupCorrelator>,
    maps: Maps,
    /// Counter that blocks take units by, and its value after the launches so far.
    counter: Buffer,
    ticket: u32,
    turns: Turns,
}

/// Launches that cut as many tiles as any before their words of turns are cleared again.
const LAPS: u32 = 64;

/// Words by which blocks take turns at tiles that are cut, each used by one launch until all are cleared.
struct Turns {
    words: Buffer,
    /// Words that were used.
    used: usize,
}

impl Turns {
    fn new(gpu: &Arc<dyn Gpu>, words: usize) -> Result<Self> {
        // Cleared before the first are taken.
        Ok(Self { words: Buffer::new(gpu, 4 * words)?, used: words })
    }

    /// Address of `count` words that are zero when the launches before on the stream have ended.
    fn take(&mut self, stream: Stream, count: usize) -> Result<u64> {
        if self.used + count > self.words.bytes() / 4 {
            self.words.clear(stream)?;
            self.used = 0;
        }
        let first = self.used;
        self.used += count;
        Ok(self.words.address() + 4 * first as u64)
    }
}

impl Launch for OfWarpgroup {
    fn takes(&self, piece: &Piece<'_>) -> bool {
        self.delivered.is_some() && piece.address().is_multiple_of(ROW_ALIGNMENT as u64)
    }

    fn launch(&mut self, work: &Work<'_>) -> Result<()> {
        let &Work { piece, excess, .. } = work;
        let Correlate { visibilities, row_sums, row_bytes, inputs, mode, .. } = work.correlate;
        let (declared, maps) = match self.delivered.filter(|_| self.takes(piece)) {
            Some(delivered) => (delivered, [self.delivered_map(piece); 2]),
            None => (self.rows, row_maps(self.rows.tile, piece, &work.correlate)),
        };
        let maps = self.maps.address(work.stream, maps)?;
        let tiles = declared.tile.tiles(inputs);
        let channels = piece.channels() as u32;
        let multiprocessors = self.gpu.facts().multiprocessors;
        let steps = row_bytes.div_ceil(STEP_BYTES);
        // Sums of halves are rounded: their bits depend on the order.
        let in_order = declared.encoding == correlate::Encoding::Cf16;
        let cut = match declared.takes_slices {
            true => Cut::of(tiles * channels, steps, multiprocessors, in_order),
            false => Cut::none(tiles * channels, steps),
        };
        let units = cut.units(tiles * channels);
        let blocks = multiprocessors.min(units);
        let words = (tiles * channels - cut.whole) * declared.tile.rows / 16;
        let turns = self.turns.take(work.stream, words as usize)?;
        let parameters = CorrelateWarpgroup {
            rows: maps,
            columns: maps + 128,
            visibilities,
            row_sums,
            tickets: self.counter.address(),
            turns,
            first_ticket: self.ticket,
            row_bytes,
            inputs,
            channels,
            tiles,
            excess,
            mode,
            whole: cut.whole,
            units,
            slice_bytes: cut.slice_steps * STEP_BYTES,
        };
        // SAFETY: the maps describe the samples, and the visibilities have the shape's size.
        unsafe { self.gpu.launch(work.stream, &declared.kernel, blocks, &parameters)? };
        // Only a launch takes tickets: one that was refused took none.
        self.ticket = self.ticket.wrapping_add(units).wrapping_add(blocks);
        Ok(())
    }
}

impl OfWarpgroup {
    /// Tensor map of samples as delivered.
    fn delivered_map(&self, piece: &Piece<'_>) -> TensorMap {
        let Shape { inputs, encoding, .. } = self.shape;
        let row_bytes = (inputs * encoding.bytes()) as u64;
        TensorMap {
            address: piece.address(),
            sizes: [row_bytes, piece.times() as u64, piece.channels() as u64],
            strides: [self.shape.bytes_per_time() as u64, row_bytes],
            box_bytes: 128,
            box_rows: STEP_BYTES / self.form.bytes() as u32,
        }
    }
}

/// Tensor maps of rows of time, for the rows and columns of tiles.
fn row_maps(tile: WarpgroupTile, piece: &Piece<'_>, correlate: &Correlate) -> [TensorMap; 2] {
    [tile.rows, tile.columns].map(|box_rows| TensorMap {
        address: correlate.samples,
        sizes: [correlate.row_bytes.into(), correlate.inputs.into(), piece.channels() as u64],
        strides: [correlate.row_stride, correlate.row_stride * u64::from(correlate.inputs)],
        box_bytes: 128,
        box_rows,
    })
}
