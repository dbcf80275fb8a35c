//! Correlation on a GPU, or on the simulator of one.
//!
//! Samples are cut into pieces that fit the device's memory and [brought](crate::stream::feeder) there, one while
//! the one before is computed:
//!
//! ```text
//! source -> [shift] -> [gather a gate] -> [reorder] native -> [correlate] 32-bit sums -> [widen] 64-bit sums
//! ```
//!
//! The abi declares kernels in rows of tables. A [family](family::Family) is all of one name; [`rows`], [`wgmma`] and
//! [`few`] launch what the three kinds of declarations say, and hold what their kernels need beside samples and [`sums`].

use std::sync::Arc;

use super::{backend::accumulate_unpacked, on_device::OnDevice, visibilities::Room};
use crate::{
    correlate::{
        Gates,
        backend::{Backend, Setup},
        visibilities::{Visibilities, VisibilitiesMut},
    },
    device::{
        gpu::{Facts, Gpu, Stream},
        memory::Buffer,
    },
    error::{Error, Result},
    kernels::correlate::Kernel,
    layout::Layout,
    quantise::Packed,
    reorder::native::{Native, ROW_ALIGNMENT, ToNative},
    sample::Encoding,
    samples::{
        extents::{Extents, Memory},
        shape::Shape,
        view::Samples,
    },
    stream::feeder::{Feeder, PIECE_BYTES},
    tuning::Tuning,
};

mod choose;
mod codes;
mod cut;
mod family;
mod few;
mod piece;
mod rows;
mod sums;
mod wgmma;

use choose::{choose, family};
use family::{Family, Launch};
use piece::{Piece, Rows, fits};
use sums::{Sums, launch_times};

/// Most bytes of samples that are brought to the device at once, however large the sums.
const MOST_BYTES: usize = 1 << 30;

/// The visibilities of integrations in the making, on a GPU.
pub(super) struct GpuBackend {
    gpu: Arc<dyn Gpu>,
    /// Shape of the operands: bits have a row for each plane.
    shape: Shape,
    pub(super) kernel: Kernel,
    /// Form of the rows that the kernels read.
    form: Native,
    /// Tiles of baselines of one channel.
    tiles: u32,
    launch: Box<dyn Launch>,
    feeder: Feeder,
    on_device: OnDevice,
    native: Buffer,
    sums: Sums,
}

impl GpuBackend {
    /// Reserves the visibilities of a plan on `gpu`.
    pub(super) fn new(gpu: Arc<dyn Gpu>, setup: &Setup<'_>) -> Result<Self> {
        let &Setup { gates, shifts, .. } = setup;
        let (encoding, shape) = (setup.shape.encoding, &setup.shape.of_planes());
        let kernel = match setup.kernel {
            Kernel::Auto => choose(gpu.facts(), Tuning::or_of(setup.tuning, gpu.facts())?, shape),
            named => named,
        };
        let family = of_gpus(kernel)?;
        check_target(kernel, &*family, gpu.facts())?;
        check_encoding(kernel, encoding)?;
        check_inputs(kernel, &*family, shape)?;
        let tiles = check_tiles(&*family, shape)?;
        let all = (shape, encoding.planes());
        Ok(Self {
            feeder: Feeder::new(&gpu, 2),
            on_device: OnDevice::new(&gpu, shape, shifts)?,
            native: Buffer::new(&gpu, 0)?,
            sums: Sums::new(&gpu, all, gates, family.sums_rows())?,
            launch: family.begin(&gpu, shape, gates)?,
            form: family.form(shape.encoding),
            gpu,
            shape: *shape,
            kernel,
            tiles,
        })
    }

    /// Bytes of one native row of `times` times.
    fn row_bytes(&self, times: usize) -> usize {
        (times * self.form.bytes()).next_multiple_of(ROW_ALIGNMENT)
    }

    /// Whether rows as delivered are native already.
    fn is_native(&self, piece: &Piece<'_>) -> bool {
        self.shape.layout == Layout::Cnt
            && self.shape.encoding.bytes() == self.form.bytes()
            && piece.row_stride().is_multiple_of(ROW_ALIGNMENT)
            && piece.address().is_multiple_of(ROW_ALIGNMENT as u64)
    }

    /// Samples in pieces that are brought to the device one after the other. `whole` pieces have all
    /// channels.
    fn pieces<'a>(&self, samples: &Samples<'a>, whole: bool) -> Result<Vec<Piece<'a>>> {
        /// Times that kernels take in at once.
        const GRAIN: usize = 256;
        let times = samples.extents().times;
        let one = |samples, first_channel| Piece { samples, first_channel, gate: 0 };
        if self.stays(samples, whole) {
            return Ok(vec![one(*samples, 0)]);
        }
        // Each launch reads and writes all sums, so its samples should have at least as many bytes.
        let wanted = self.sums.values().saturating_mul(4).clamp(PIECE_BYTES, MOST_BYTES);
        let budget = self.feeder.piece_bytes(samples, wanted)?;
        let Shape { channels, inputs, encoding, layout } = self.shape;
        let (together, most) =
            (budget / (inputs * times * encoding.bytes()), launch_times(encoding));
        // Channels go in parts only where one launch takes all their times, as the 32-bit sums of all
        // channels cover the same times.
        if layout == Layout::Cnt && !whole && times <= most && together >= 1 {
            let cut =
                |first: usize| one(samples.channels(first..channels.min(first + together)), first);
            return Ok((0..channels).step_by(together).map(cut).collect());
        }
        let most = (budget / self.shape.bytes_per_time()).clamp(1, most);
        let most = if most > GRAIN { most / GRAIN * GRAIN } else { most };
        let cut = |first: usize| one(samples.times(first..times.min(first + most)), 0);
        Ok((0..times).step_by(most).map(cut).collect())
    }

    /// Whether samples are used where they lie.
    fn stays(&self, samples: &Samples<'_>, whole: bool) -> bool {
        let layout = self.shape.layout;
        matches!(samples.memory(), Memory::Device(_))
            && samples.is_ready()
            && if whole { samples.is_dense(layout) } else { fits(samples, layout) }
    }

    /// Correlates a piece that is in device memory.
    fn correlate(&mut self, piece: &Piece<'_>) -> Result<()> {
        let (times, most) = (piece.times(), launch_times(self.shape.encoding));
        for first in (0..times).step_by(most) {
            let part = first..times.min(first + most);
            let samples = piece.samples.times(part);
            self.correlate_launch(&Piece { samples, ..*piece })?;
        }
        Ok(())
    }

    /// Correlates as many times as 32-bit sums hold.
    fn correlate_launch(&mut self, piece: &Piece<'_>) -> Result<()> {
        let (address, stream) = piece.samples.on_device();
        let Shape { inputs, encoding, .. } = self.shape;
        let (native, takes) = (self.is_native(piece), self.launch.takes(piece));
        let (samples, row_stride) = if native || takes {
            (address, piece.row_stride())
        } else {
            let row_bytes = self.row_bytes(piece.times());
            self.native.reserve(piece.channels() * inputs * row_bytes)?;
            self.reorder(row_bytes, stream, piece)?;
            (self.native.address(), row_bytes)
        };
        // Reordered samples become two's complement on the way.
        let offset =
            encoding == Encoding::Ci4Offset && (takes || native && self.form == Native::Nibbles);
        let row_bytes = piece.times() * self.form.bytes();
        let rows = Rows { samples, row_stride, row_bytes, offset };
        let work = self.sums.work(stream, piece, rows, self.tiles)?;
        self.launch.launch(&work)?;
        self.sums.added(piece);
        Ok(())
    }

    /// Correlates words of codes as they were packed, in pieces that are brought one after the other.
    fn correlate_words(&mut self, packed: &Packed<'_>) -> Result<()> {
        let (Shape { inputs, channels, encoding, .. }, of_word) =
            (self.shape, packed.times_of_word());
        let (pairs, stream) = (packed.row() / 2, self.feeder.last());
        let together = MOST_BYTES / (8 * inputs * channels);
        let most = together.min(launch_times(encoding) / of_word).max(1);
        for first in (0..pairs).step_by(most) {
            let count = most.min(pairs - first);
            let times = (count * of_word).min(packed.extents().times - first * of_word);
            let part;
            let words = match packed.whole().filter(|_| count == pairs) {
                Some(words) => words,
                None => {
                    part = packed.part(first, count)?;
                    &part[..]
                }
            };
            self.native.reserve(4 * words.len())?;
            self.native.upload(stream, words)?;
            let extents = Extents { channels, inputs, times };
            let samples =
                Samples::dense(self.native.slice().into(), encoding.into(), Layout::Cnt, extents);
            let piece = Piece { samples, first_channel: 0, gate: 0 };
            let (samples, bytes) = (piece.address(), 8 * count);
            let rows = Rows { samples, row_stride: bytes, row_bytes: bytes, offset: false };
            let work = self.sums.work(stream, &piece, rows, self.tiles)?;
            self.launch.launch_words(&work, times)?;
            self.sums.added(&piece);
        }
        Ok(())
    }

    /// Brings a piece to native rows of `row_bytes` bytes.
    fn reorder(&self, row_bytes: usize, stream: Stream, piece: &Piece<'_>) -> Result<()> {
        let way = ToNative {
            samples: piece.samples,
            layout: self.shape.layout,
            form: self.form,
            native: self.native.address(),
            row_bytes,
        };
        // SAFETY: the native buffer has room for the rows, and `way` describes the delivered piece.
        unsafe { way.kernels()[0].launch(&self.gpu, stream) }
    }

    /// Delays, gates and correlates pieces of samples.
    fn accumulate_pieces(&mut self, samples: &Samples<'_>, gates: Option<Gates<'_>>) -> Result<()> {
        let layout = self.shape.layout;
        let selects = self.on_device.delays() || gates.is_some();
        let mut done = 0;
        for piece in self.pieces(samples, selects)? {
            let gates = gates.map(|gates| gates.times(done..done + piece.times()));
            done += piece.times();
            let brought = self.feeder.bring(&piece.samples, layout, |samples| {
                if selects { samples.is_dense(layout) } else { fits(samples, layout) }
            })?;
            self.feeder.continue_on(brought.on_device().1)?;
            if !selects {
                self.correlate(&Piece { samples: brought, ..piece })?;
                continue;
            }
            let delayed = self.on_device.delay(&brought)?;
            let Some(numbers) = gates else {
                self.correlate(&Piece { samples: delayed, ..piece })?;
                continue;
            };
            let lists = numbers.lists(self.sums.gates(), self.shape.channels);
            for (gate, lists) in lists.iter().enumerate().filter(|(_, lists)| lists.longest() > 0) {
                let samples = self.on_device.gather(&delayed, lists)?;
                self.correlate(&Piece { samples, first_channel: 0, gate })?;
            }
        }
        Ok(())
    }

    /// Checks that all samples of a gate were what the kernel takes.
    fn check(&self, gate: usize, stream: Stream) -> Result<()> {
        if self.sums.is_empty(gate) { Ok(()) } else { self.launch.check(gate, stream) }
    }

    /// [`Backend::dump_into`] of a part of a plan's visibilities.
    pub(super) fn dump_room(&mut self, gate: usize, room: Room<'_>) -> Result<()> {
        let stream = self.feeder.last();
        self.check(gate, stream)?;
        self.sums.dump(gate, stream, room)
    }

    /// [`Backend::dump_device`].
    fn copy_sums(&mut self, room: &VisibilitiesMut<'_>) -> Result<()> {
        let room = self.sums.check_room(room)?;
        self.feeder.continue_on(room.1)?;
        for gate in 0..self.sums.gates() {
            self.check(gate, room.1)?;
            self.sums.copy(gate, room)?;
        }
        Ok(())
    }
}

impl Backend for GpuBackend {
    fn accumulate(&mut self, samples: &Samples<'_>, gates: Option<Gates<'_>>) -> Result<()> {
        let result = self.accumulate_pieces(samples, gates);
        result.and(self.feeder.give_back())
    }

    fn accumulate_packed(&mut self, packed: &Packed<'_>) -> Result<()> {
        if self.launch.reads_words(packed.bits()) && !self.on_device.delays() {
            return self.correlate_words(packed);
        }
        accumulate_unpacked(self, packed)
    }

    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities) -> Result<()> {
        self.dump_room(gate, visibilities.room())
    }

    fn dump_device(&mut self, room: &VisibilitiesMut<'_>) -> Result<()> {
        let result = self.copy_sums(room);
        result.and(self.feeder.give_back())
    }

    fn reset(&mut self) {
        (0..self.sums.gates()).for_each(|gate| self.sums.reset(gate));
    }

    fn wait(&mut self) -> Result<()> {
        self.feeder.wait()
    }
}

/// The kernels of a name that runs on GPUs.
fn of_gpus(kernel: Kernel) -> Result<Box<dyn Family>> {
    family(kernel).ok_or_else(|| {
        let all = Kernel::ALL.iter().filter(|kernel| kernel.is_of_gpus());
        let names: Vec<_> = all.map(|kernel| kernel.name()).collect();
        Error::invalid(format!(
            "kernel {kernel} does not run on a GPU: expected auto, {}",
            names.join(", ")
        ))
    })
}

/// Checks that the GPU runs the kernels.
fn check_target(kernel: Kernel, family: &dyn Family, facts: &Facts) -> Result<()> {
    if facts.runs(family.target()) {
        return Ok(());
    }
    let (major, minor) = facts.capability;
    Err(Error::Device(format!(
        "kernel {kernel} is compiled for {}: {} has compute capability {major}.{minor}",
        family.target().name(),
        facts.name
    )))
}

/// Checks that the kernels take the samples.
fn check_encoding(kernel: Kernel, encoding: Encoding) -> Result<()> {
    if kernel.takes(encoding) {
        return Ok(());
    }
    let names: Vec<_> = kernel.encodings().iter().map(|e| e.name()).collect();
    Err(Error::invalid(format!(
        "kernel {kernel} with {encoding} samples: expected {}",
        names.join(" or ")
    )))
}

/// Checks that the kernels take as many inputs.
fn check_inputs(kernel: Kernel, family: &dyn Family, shape: &Shape) -> Result<()> {
    let (Shape { inputs, encoding, layout, .. }, most) = (*shape, family.most_inputs(shape));
    if inputs <= most {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "kernel {kernel} with {inputs} inputs of {encoding} samples in {layout}: expected at most {most}"
    )))
}

/// Tiles of baselines of one channel, of which one launch takes those of all channels.
fn check_tiles(family: &dyn Family, shape: &Shape) -> Result<u32> {
    let tiles = family.tiles(shape.inputs);
    let blocks = tiles * shape.channels as u128;
    if blocks <= i32::MAX as u128 {
        return Ok(tiles as u32);
    }
    Err(Error::invalid(format!(
        "{} inputs and {} channels: {blocks} tiles of baselines are more than one launch takes ({}), \
         correlate fewer channels at a time",
        shape.inputs,
        shape.channels,
        i32::MAX
    )))
}
