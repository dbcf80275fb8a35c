//! Samples that are put together and judged, on a GPU or in host memory.

use std::sync::Arc;

use rayon::prelude::*;

use super::{
    judge::Judge,
    judge_gpu::JudgeOnGpu,
    plan::Kurtosis,
    sums::{Sums, Verdict},
};
use crate::{
    device::{
        choice::Device,
        gpu::{Gpu, Rows, Stream},
        host,
        memory::Buffer,
    },
    error::{Error, Result},
    layout::Layout,
    samples::{
        extents::{Extents, Memory, Strides},
        gather::{clear, zero_rows},
        missing::Missing,
        shape::Shape,
        view::Samples,
    },
    stream::fill::Fill,
};

/// Bytes of samples that a CPU judges together, and times where that is less.
const NEAR_BYTES: usize = 8 << 20;
const NEAR_TIMES: usize = 512;

/// Samples that are brought to a GPU once, or copied in host memory: whole blocks of times are put together there and judged, and
/// flagged ones become zero where they lie. There is room for two stretches of times, of which one is filled, and judged by a GPU,
/// while the other is used.
///
/// ```
/// use corrust_host::{
///     Device, Encoding, Layout,
///     kurtosis::{Judge, Stage},
///     samples::{Samples, Shape},
/// };
///
/// let gpu = Device::Sim.open()?;
/// let shape = Shape { inputs: 1, channels: 1, encoding: Encoding::Ci8, layout: Layout::Tcn };
/// let judge = Judge::new(Encoding::Ci8, 0.001)?;
/// let mut stage = Stage::new(&[gpu], shape, judge, 16, 32)?.with_sums();
///
/// // A carrier for 20 times, silence for 12.
/// let samples = [[[30_i8, 40]; 20].concat(), vec![0; 24]].concat();
/// stage.begin()?;
/// stage.put(&Samples::new(&samples[..], 1, 1, Encoding::Ci8, Layout::Tcn)?)?;
/// stage.close();
/// let verdict = stage.judge()?;
/// let sums = verdict.sums.map(|sums| sums.values.as_slice());
/// assert_eq!(sums, Some(Some(&[16, 16 * 2500, 16 * 6250000, 16, 4 * 2500, 4 * 6250000][..])));
/// assert_eq!(verdict.flagged[0].times, 0..16);
/// assert_eq!((verdict.numbers.blocks, verdict.numbers.samples, verdict.numbers.lost), (2, 32, 0));
/// let gaps = verdict.flagged.len();
/// assert_eq!(stage.view().gaps().count(), gaps);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Debug)]
pub struct Stage {
    /// GPU that has the samples; none for host memory.
    gpu: Option<Arc<dyn Gpu>>,
    /// The stream of copies from host memory, which the stream of a room waits for.
    copies: Stream,
    block_times: usize,
    judge: JudgeAt,
    /// Sums of the stretch that was judged last; on a GPU if they are brought.
    sums: Option<Sums>,
    shape: Shape,
    /// Most times.
    room_times: usize,
    rooms: [Room; 2],
    /// Number of the room that is filled, and of the one that was judged last.
    now: usize,
    judged: usize,
    /// Whether host memory may still be read.
    lent: bool,
}

/// Room for a stretch of times.
#[derive(Debug)]
struct Room {
    memory: RoomMemory,
    times: usize,
    missing: Vec<Missing>,
    /// Whether the judgement of a stretch that was closed could begin; none of one that is open or judged.
    begun: Option<Result<()>>,
}

#[derive(Debug)]
enum RoomMemory {
    Host(Vec<u8>),
    /// Memory of a GPU, the stream of the work on it, and zeros for it.
    Device(Buffer, Stream, Fill),
}

/// A judge where the samples are.
#[derive(Debug)]
enum JudgeAt {
    Host(Kurtosis, Judge),
    Device(Box<JudgeOnGpu>),
}

impl Stage {
    /// Room for `most` times, at least 1, rounded up to whole blocks of `block_times`: in the memory of the only GPU, else in
    /// host memory, where the first GPU or the CPU sums them. For a CPU a room has fewer times, those that stay in its caches.
    ///
    /// # Errors
    /// As for [`Builder::build`](super::Builder::build); [`Error::OutOfMemory`] for a room that does not fit; the device's own.
    pub fn new(
        gpus: &[Arc<dyn Gpu>],
        shape: Shape,
        judge: Judge,
        block_times: usize,
        most: usize,
    ) -> Result<Self> {
        let gpu = if let [gpu] = gpus { Some(gpu) } else { None };
        let room = || {
            let memory = match gpu {
                None => RoomMemory::Host(Vec::new()),
                Some(gpu) => {
                    let (buffer, fill) = (Buffer::new(gpu, 0)?, Fill::new(gpu)?);
                    RoomMemory::Device(buffer, gpu.create_stream()?, fill)
                }
            };
            Ok(Room { memory, times: 0, missing: Vec::new(), begun: None })
        };
        let rooms = [room()?, room()?];
        let (judge, copies) = match gpu {
            None => {
                let plan = Kurtosis::builder().encoding(shape.encoding).block_times(block_times);
                let plan = if gpus.is_empty() { plan.device(Device::Cpu) } else { plan };
                let kurtosis = plan.gpu(gpus.first().cloned()).build()?;
                (JudgeAt::Host(kurtosis, judge), Stream::default())
            }
            Some(gpu) => {
                let judge = JudgeOnGpu::new(gpu, judge, shape.encoding, block_times)?;
                (JudgeAt::Device(Box::new(judge)), gpu.create_stream()?)
            }
        };
        // Rows of times are used whole.
        let near = match shape.layout {
            Layout::Tcn if gpus.is_empty() => {
                (NEAR_BYTES / shape.bytes_per_time().max(1)).max(NEAR_TIMES)
            }
            _ => usize::MAX,
        };
        let mut stage = Self {
            gpu: gpu.cloned(),
            copies,
            block_times,
            room_times: most.min(near).max(1).next_multiple_of(block_times),
            judge,
            sums: gpu.is_none().then(Sums::default),
            shape,
            rooms,
            now: 0,
            judged: 0,
            lent: false,
        };
        // A room that does not fit is refused now.
        stage.begin()?;
        Ok(stage)
    }

    /// GPU that has the samples; none where they are in host memory.
    pub fn gpu(&self) -> Option<&Arc<dyn Gpu>> {
        self.gpu.as_ref()
    }

    /// Brings sums from the GPU, too, as verdicts have them then. Without, only flags come.
    #[must_use]
    pub fn with_sums(mut self) -> Self {
        self.sums = Some(Sums::default());
        self
    }

    /// Shape of the samples.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Times of a block.
    pub fn block_times(&self) -> usize {
        self.block_times
    }

    /// Number of times so far.
    pub fn times(&self) -> usize {
        self.rooms[self.now].times
    }

    /// Number of time samples that still have room.
    pub fn left(&self) -> usize {
        let reserved = match &self.rooms[self.now].memory {
            RoomMemory::Host(samples) => samples.len(),
            RoomMemory::Device(buffer, ..) => buffer.bytes(),
        };
        if reserved < self.shape.bytes(self.room_times) {
            0
        } else {
            self.room_times - self.times()
        }
    }

    /// Begins a stretch; the one before stays until it is called twice.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the device's own.
    pub fn begin(&mut self) -> Result<()> {
        self.now ^= 1;
        let bytes = self.shape.bytes(self.room_times);
        if let JudgeAt::Device(judge) = &mut self.judge {
            judge.forget(self.now)?;
        }
        let room = &mut self.rooms[self.now];
        (room.times, room.begun) = (0, None);
        room.missing.clear();
        match &mut room.memory {
            RoomMemory::Host(samples) if samples.len() < bytes => *samples = host::zeros(bytes)?,
            RoomMemory::Device(buffer, stream, _) if buffer.bytes() < bytes => {
                buffer.gpu().wait(*stream)?;
                buffer.reserve(bytes)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the stretch: it is to be [judged](Self::judge), while another may begin. A GPU begins at once; what fails is told by
    /// [`judge`](Self::judge).
    pub fn close(&mut self) {
        let begun = self.begin_judgement(self.now);
        self.rooms[self.now].begun = Some(begun);
    }

    /// Enqueues the judgement of a room's samples on a GPU.
    fn begin_judgement(&mut self, number: usize) -> Result<()> {
        match &mut self.judge {
            JudgeAt::Host(..) => Ok(()),
            JudgeAt::Device(judge) => {
                let samples = self.rooms[number].view(&self.shape, self.room_times);
                // SAFETY: the samples are the room's own, which waits before they go.
                unsafe { judge.ask(number, &samples, self.shape.encoding) }
            }
        }
    }

    /// Waits until host memory is no longer read.
    ///
    /// # Errors
    /// The device's own.
    pub fn settle(&mut self) -> Result<()> {
        match &self.gpu {
            Some(gpu) if std::mem::take(&mut self.lent) => gpu.wait(self.copies),
            _ => Ok(()),
        }
    }

    /// Rows of `times` times from the next on, `from_pitch` bytes apart where they come from, `from` on.
    fn rows(&self, times: usize, from_pitch: usize) -> Rows {
        let size = self.shape.encoding.bytes();
        let step = self.shape.bytes_per_time();
        match self.shape.layout {
            Layout::Tcn => Rows { to: self.times() * step, ..Rows::one(times * step) },
            Layout::Cnt => Rows {
                from: 0,
                from_pitch,
                to: self.times() * size,
                to_pitch: self.room_times * size,
                width: times * size,
                count: self.shape.channels * self.shape.inputs,
            },
        }
    }

    /// Whether rows of samples are equally far apart, in the order of the layout.
    fn is_regular(&self, samples: &Samples<'_>) -> bool {
        let (Extents { channels, inputs, times }, strides) = (samples.extents(), samples.strides());
        let row = samples.row_stride();
        match self.shape.layout {
            Layout::Tcn => samples.is_dense(Layout::Tcn),
            Layout::Cnt => {
                (times == 1 || strides.time == samples.element().bytes())
                    && (channels == 1 || strides.channel == inputs * row)
            }
        }
    }

    /// Adds samples of further times, in host memory or, of a stage on a GPU, that GPU's. They may be used again when it returns,
    /// of a GPU in the order of their stream.
    ///
    /// # Errors
    /// [`Error::Invalid`] for samples of another shape, or more than there is [room](Self::left) for; the device's own.
    pub fn put(&mut self, samples: &Samples<'_>) -> Result<()> {
        // SAFETY: nothing is read after the wait, which an error does not leave out.
        let put = unsafe { self.put_ahead(samples) };
        let settled = self.settle();
        put.and(settled)
    }

    /// [`put`](Self::put) that does not wait.
    ///
    /// # Safety
    /// Samples in host memory stay unchanged until the stage has [settled](Self::settle), or is gone.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub unsafe fn put_ahead(&mut self, samples: &Samples<'_>) -> Result<()> {
        let Extents { channels, inputs, times } = samples.extents();
        let Shape { encoding, layout, .. } = self.shape;
        if (channels, inputs) != (self.shape.channels, self.shape.inputs)
            || samples.element() != encoding.into()
            || times > self.left()
        {
            return Err(Error::invalid(format!(
                "{times} times of {inputs} inputs and {channels} channels of {}: expected at most {} of {} inputs and {} \
                 channels of {encoding}",
                samples.element(),
                self.left(),
                self.shape.inputs,
                self.shape.channels
            )));
        }
        if times == 0 {
            return Ok(());
        }
        let rows = self.rows(times, samples.row_stride());
        let gathered = self.rows(times, times * encoding.bytes());
        let gaps: Vec<Missing> = samples.gaps().collect();
        let is_regular = self.is_regular(samples);
        match (&mut self.rooms[self.now].memory, samples.memory()) {
            (RoomMemory::Host(to), Memory::Host(bytes)) => match is_regular && samples.is_ready() {
                true => copy(to, bytes, &rows),
                false => copy(to, &samples.gather(layout)?, &gathered),
            },
            (RoomMemory::Device(to, stream, _), Memory::Device(slice)) if is_regular => {
                let gpu = to.gpu();
                slice.check(gpu)?;
                gpu.order(slice.stream(), *stream)?;
                // SAFETY: the room has place for as many times; the samples reach as far as their strides lead.
                unsafe { gpu.copy_rows(*stream, to.address(), slice.address(), &rows)? };
                if let Err(error) = gpu.order(*stream, slice.stream()) {
                    gpu.wait(*stream)?;
                    return Err(error);
                }
                if !samples.is_ready() {
                    self.clear(self.now, &self.placed(&gaps))?;
                }
            }
            (RoomMemory::Device(to, stream, _), Memory::Host(bytes))
                if is_regular && samples.is_ready() =>
            {
                let gpu = to.gpu();
                // Work on the room's earlier samples comes first.
                gpu.order(*stream, self.copies)?;
                self.lent = true;
                // SAFETY: as above; the caller's promise.
                unsafe { gpu.copy_in(self.copies, to.address(), bytes, &rows)? };
                gpu.order(self.copies, *stream)?;
            }
            (RoomMemory::Device(to, stream, _), _) => {
                let bytes = samples.gather_from(to.gpu(), layout)?;
                // SAFETY: as above.
                unsafe { to.gpu().copy_in(*stream, to.address(), &bytes, &gathered)? };
                to.gpu().wait(*stream)?;
            }
            (RoomMemory::Host(_), Memory::Device(_)) => return samples.check_host(),
        }
        let gaps = self.placed(&gaps);
        let room = &mut self.rooms[self.now];
        room.missing.extend(gaps);
        room.times += times;
        Ok(())
    }

    /// Missing samples of which times are counted from the next on, as those of the room.
    fn placed(&self, gaps: &[Missing]) -> Vec<Missing> {
        let first = self.times();
        let place = |gap: &Missing| Missing {
            times: gap.times.start + first..gap.times.end + first,
            ..gap.clone()
        };
        gaps.iter().map(place).collect()
    }

    /// Adds times of which all is missing.
    ///
    /// # Errors
    /// The device's own.
    ///
    /// # Panics
    /// If there is no [room](Self::left) for these times.
    pub fn lose(&mut self, times: usize) -> Result<()> {
        assert!(times <= self.left(), "{times} times");
        let Shape { channels, inputs, .. } = self.shape;
        let all = Missing { times: 0..times, channels: 0..channels, inputs: 0..inputs };
        self.clear(self.now, &self.placed(&[all]))?;
        let room = &mut self.rooms[self.now];
        room.missing.push(Missing::times(room.times..room.times + times));
        room.times += times;
        Ok(())
    }

    /// Gives samples of a room the value zero.
    fn clear(&mut self, number: usize, gaps: &[Missing]) -> Result<()> {
        let Shape { channels, inputs, encoding, layout } = self.shape;
        match &mut self.rooms[number].memory {
            RoomMemory::Host(samples) => clear(samples, &self.shape, self.room_times, gaps),
            RoomMemory::Device(buffer, stream, fill) => {
                let counts = match layout {
                    Layout::Tcn => [channels, inputs],
                    Layout::Cnt => [inputs, self.room_times],
                };
                let size = encoding.bytes();
                let zeros = gaps.iter().flat_map(|gap| zero_rows(gap, layout, None, counts, size));
                let zeros: Vec<_> = zeros.collect();
                // SAFETY: the samples are within the room; the stream orders all work on it.
                unsafe { fill.fill(*stream, buffer.address(), &zeros, encoding.zero()[0])? };
            }
        }
        Ok(())
    }

    /// Judges the stretch that was [closed](Self::close) first and not judged yet: flagged samples become zero and missing. The last
    /// block may be shorter than others.
    ///
    /// # Errors
    /// The device's own.
    pub fn judge(&mut self) -> Result<Verdict<'_>> {
        let other = self.now ^ 1;
        self.judged = if self.rooms[other].begun.is_some() { other } else { self.now };
        match self.rooms[self.judged].begun.take() {
            Some(begun) => begun?,
            None => self.begin_judgement(self.judged)?,
        }
        let Self { judge, sums, judged, .. } = self;
        let verdict = match judge {
            JudgeAt::Host(kurtosis, judge) => {
                let sums = sums.get_or_insert_default();
                kurtosis.sums_into(self.rooms[*judged].view(&self.shape, self.room_times), sums)?;
                let Verdict { flagged, numbers, block_times, shape, .. } = judge.verdict(sums);
                self.clear(self.judged, &flagged)?;
                Verdict { sums: None, flagged, numbers, block_times, shape }
            }
            JudgeAt::Device(judge) => judge.verdict(*judged, sums)?,
        };
        self.rooms[self.judged].missing.extend(verdict.flagged.iter().cloned());
        Ok(Verdict { sums: self.sums.as_ref(), ..verdict })
    }

    /// The samples of the stretch that was [judged](Self::judge) last; missing ones are zero in memory.
    pub fn view(&self) -> Samples<'_> {
        self.rooms[self.judged].view(&self.shape, self.room_times)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Host memory may still be on its way, and flags to theirs.
        let _ = self.settle();
        if let JudgeAt::Device(judge) = &mut self.judge {
            let _ = (judge.forget(0), judge.forget(1));
        }
    }
}

impl Room {
    /// The samples, where there is room for those of `room_times` times.
    fn view(&self, shape: &Shape, room_times: usize) -> Samples<'_> {
        let Shape { channels, inputs, encoding, layout } = *shape;
        let extents = Extents { channels, inputs, times: room_times };
        let strides = Strides::dense(layout, extents, encoding.into());
        let located = match &self.memory {
            RoomMemory::Host(samples) => Memory::Host(samples),
            RoomMemory::Device(buffer, stream, _) => Memory::Device(buffer.slice().on(*stream)),
        };
        let samples = Samples::strided(located, encoding, extents, strides);
        let samples = samples.expect("the room holds them").missing_zeroed(&self.missing);
        samples.times(0..self.times)
    }
}

/// Copies rows of host memory, which do not overlap.
fn copy(to: &mut [u8], from: &[u8], rows: &Rows) {
    let Rows { from: first, from_pitch, to: place, to_pitch, width, count } = *rows;
    /// Bytes that a thread copies at a time.
    const PART: usize = 1 << 20;
    if count == 1 {
        let (to, from) = (&mut to[place..place + width], &from[first..first + width]);
        let parts = to.par_chunks_mut(PART).zip(from.par_chunks(PART));
        return parts.for_each(|(to, from)| to.copy_from_slice(from));
    }
    let rows = to[place..].par_chunks_mut(to_pitch.max(1)).take(count).enumerate();
    rows.with_min_len(PART.div_ceil(width.max(1))).for_each(|(row, to)| {
        to[..width].copy_from_slice(&from[first + row * from_pitch..][..width]);
    });
}
