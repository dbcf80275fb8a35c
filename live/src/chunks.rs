//! Chunks of samples, which heaps, or frames, are put into by their timestamps.
//!
//! A window of consecutive chunks is open: a heap for one of them gets its place there, whatever the order in
//! which heaps come. Whoever has the place brings the samples there, while others use the window. A heap for a later
//! chunk moves the window on, and chunks that leave it are handed out once all their samples are there, in the order of
//! their times, with what is missing. A heap from far outside of the window is held until
//! others agree with it: a single wrong timestamp moves nothing, and a sender that begins again is followed.

use std::{
    borrow::Cow,
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
};

use corrust_host::{
    Encoding, Error, Layout, Result, Samples,
    device::Gpu,
    reorder::place::ToPlaces,
    samples::{Extents, Memory as Located, Missing, Shape, Strides},
};

use super::{
    heaps::{Array, Heap},
    memory::{self, ChunkMemory, DeviceMemory, Memory, SharedMemory},
    spead::{VALUE_BITS, id},
    stores::{self, SAMPLE},
    tally::{Fate, Tally},
};

/// Heaps that agree before a jump of their time is believed, at least.
const AGREEING: usize = 16;

/// Windows behind the open one within which a heap is late, not astray.
const LATE_WINDOWS: u64 = 16;

/// Geometry of a stream: how samples lie in heaps, and heaps in chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// F-engines, numbered from 0.
    pub fengs: usize,
    /// Inputs of each of them; the input is `F-engine x polarisations + polarisation`.
    pub polarisations: usize,
    /// Channels that are correlated.
    pub channels: usize,
    /// The number that heaps have for the first of them.
    pub first_channel: u64,
    /// Times of a heap.
    pub heap_times: usize,
    /// How much the timestamp grows from one time to the next.
    pub step: u64,
    /// Heaps of a chunk, one after the other.
    pub chunk_heaps: usize,
    /// Chunks that are open at a time.
    pub window: usize,
}

impl Geometry {
    /// Checks that it can be received.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a count of 0, or chunks that cannot be addressed.
    pub fn check(&self) -> Result<()> {
        let counts = [
            (self.fengs, "F-engines"),
            (self.polarisations, "polarisations"),
            (self.channels, "channels"),
            (self.heap_times, "times of a heap"),
            (self.step.min(1) as usize, "timestamps from one time to the next"),
            (self.chunk_heaps, "heaps of a chunk"),
            (self.window, "open chunks"),
        ];
        if let Some((_, what)) = counts.into_iter().find(|(count, _)| *count == 0) {
            return Err(Error::invalid(format!("0 {what}: expected at least 1")));
        }
        self.shape().check()?;
        let times = self.heap_times.checked_mul(self.chunk_heaps);
        let bytes = times
            .and_then(|times| times.checked_mul(SAMPLE * self.channels))
            .and_then(|bytes| bytes.checked_mul(self.fengs * self.polarisations))
            .and_then(|bytes| bytes.checked_mul(self.window));
        let window = (self.step as u128) * times.unwrap_or(0) as u128 * self.window as u128;
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize)
            || window * u128::from(4 * LATE_WINDOWS) >= 1 << (VALUE_BITS - 1)
        {
            return Err(Error::invalid(format!(
                "chunks of {} heaps of {} times, {} apart: expected less in a window of {}",
                self.chunk_heaps, self.heap_times, self.step, self.window
            )));
        }
        Ok(())
    }

    /// Shape of a chunk for a correlator.
    pub fn shape(&self) -> Shape {
        Shape {
            inputs: self.fengs.saturating_mul(self.polarisations),
            channels: self.channels,
            encoding: Encoding::Ci8,
            layout: Layout::Cnt,
        }
    }

    /// Times of a chunk.
    pub fn chunk_times(&self) -> usize {
        self.heap_times * self.chunk_heaps
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.shape().inputs * self.channels * self.chunk_times() * SAMPLE
    }

    /// Memory of a chunk, all zero: from where `gpu` fetches it by itself, where there is one.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::Device`] when there is no such memory.
    pub fn memory(&self, gpu: Option<&Arc<dyn Gpu>>) -> Result<Memory> {
        let bytes = self.chunk_bytes();
        match gpu {
            Some(gpu) => Ok(Box::new(gpu.locked_bytes(bytes)?)),
            None => memory::zeros(bytes),
        }
    }

    /// Byte of a chunk at which the samples of a place begin.
    fn first_byte(&self, place: &Destination<usize>) -> usize {
        let slot = (place.slot % self.chunk_heaps as u64) as usize;
        let row = place.facts * self.shape().inputs + place.sender * self.polarisations;
        (row * self.chunk_times() + slot * self.heap_times) * SAMPLE
    }

    /// How a GPU takes payloads to their places in a chunk, but for the payloads.
    pub(super) fn to_places(&self) -> ToPlaces {
        ToPlaces {
            pieces: 0,
            count: 0,
            row: (self.chunk_times() * SAMPLE) as u64,
            inputs: self.shape().inputs as u32,
            times: self.heap_times as u32,
            parts: self.polarisations as u32,
        }
    }

    /// Bytes of a heap of all channels.
    pub fn heap_bytes(&self) -> usize {
        self.channels * self.heap_times * self.polarisations * SAMPLE
    }
}

/// A number for each sender, which tells them apart.
#[derive(Debug, Default)]
pub struct Sources(std::collections::HashMap<u64, u16>);

impl Sources {
    /// The number of an address. All that come after many others share one.
    pub fn number(&mut self, address: u64) -> u16 {
        let next = self.0.len() as u16 + 1;
        match self.0.get(&address) {
            Some(&number) => number,
            None if next == u16::MAX => next,
            None => *self.0.entry(address).or_insert(next),
        }
    }
}

/// The samples of consecutive times.
pub struct Chunk {
    memory: Arc<ChunkMemory>,
    /// Which sender's samples are there, or 0: `[heap][F-engine][channel]`.
    present: Vec<u16>,
    /// How many of them are.
    count: usize,
}

/// A chunk that left the window.
pub struct Passed<C = Chunk> {
    /// Its first time, counted from timestamp 0.
    pub start: u64,
    /// The time after its last one, or after the latest that came, where nothing else comes.
    pub end: u64,
    /// Its samples; [`None`] where nothing came.
    pub chunk: Option<C>,
    /// Whether the time jumped after it, so that nothing else of its dump comes.
    pub jumped: bool,
}

impl Chunk {
    fn new(memory: ChunkMemory, geometry: &Geometry) -> Self {
        let cells = geometry.chunk_heaps * geometry.fengs * geometry.channels;
        Self { memory: Arc::new(memory), present: vec![0; cells], count: 0 }
    }

    /// An empty chunk in a GPU's memory, whose kernels bring samples there: see
    /// [`Receiver::on_gpu`](super::Receiver::on_gpu).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], and [`Error::Invalid`] where a heap has more bytes than kernels count.
    pub fn on_gpu(geometry: &Geometry, gpu: &Arc<dyn Gpu>) -> Result<Self> {
        let heap = geometry.heap_bytes();
        if heap > (i32::MAX / 2) as usize {
            return Err(Error::invalid(format!(
                "heaps of {heap} bytes: expected at most {} for a GPU",
                i32::MAX / 2
            )));
        }
        let memory = DeviceMemory::new(gpu, geometry.chunk_bytes())?;
        Ok(Self::new(ChunkMemory::Device(memory), geometry))
    }

    /// Its memory in a GPU, if it has one.
    pub(super) fn device(&self) -> Option<&DeviceMemory> {
        match &*self.memory {
            ChunkMemory::Host(_) => None,
            ChunkMemory::Device(memory) => Some(memory),
        }
    }

    /// Samples `[channel][input][time]` of some channels in the host's memory: copied there where they are in a GPU's.
    /// Missing ones are whatever was there.
    ///
    /// # Errors
    /// The GPU's own, and [`Error::Device`] where it could not bring all samples to the chunk.
    ///
    /// # Panics
    /// When there are not so many channels.
    pub fn samples(&self, geometry: &Geometry, channels: Range<usize>) -> Result<Cow<'_, [u8]>> {
        let channel = geometry.chunk_bytes() / geometry.channels;
        let range = channels.start * channel..channels.end * channel;
        match &*self.memory {
            // SAFETY: a chunk is handed out once no ticket holds its memory.
            ChunkMemory::Host(memory) => Ok(Cow::Borrowed(&unsafe { memory.all() }[range])),
            ChunkMemory::Device(memory) => memory.read(range).map(Cow::Owned),
        }
    }

    /// The first time of which something came; nothing where nothing came.
    pub(super) fn first_time(&self, geometry: &Geometry) -> Option<u64> {
        let cell = self.present.iter().position(|&source| source > 0)?;
        Some((cell / (geometry.fengs * geometry.channels) * geometry.heap_times) as u64)
    }

    /// Missing samples, in rectangles.
    pub fn missing(&self, geometry: &Geometry) -> Vec<Missing> {
        let mut missing: Vec<Missing> = Vec::new();
        if self.count == self.present.len() {
            return missing;
        }
        let Geometry { fengs, polarisations, channels, heap_times, .. } = *geometry;
        // A gap grows along time as long as its channels and inputs stay the same.
        let mut open: Vec<Vec<usize>> = vec![Vec::new(); fengs];
        for (slot, heaps) in self.present.chunks_exact(fengs * channels).enumerate() {
            let times = slot * heap_times..(slot + 1) * heap_times;
            for (feng, cells) in heaps.chunks_exact(channels).enumerate() {
                let mut now = Vec::new();
                for range in absent(cells) {
                    let same =
                        open[feng].iter().copied().find(|&gap| missing[gap].channels == range);
                    match same {
                        Some(gap) => {
                            missing[gap].times.end = times.end;
                            now.push(gap);
                        }
                        None => {
                            let inputs = feng * polarisations..(feng + 1) * polarisations;
                            now.push(missing.len());
                            missing.push(
                                Missing::times(times.clone()).of_inputs(inputs).of_channels(range),
                            );
                        }
                    }
                }
                open[feng] = now;
            }
        }
        missing
    }

    /// The samples as a view, of which `missing` are missing.
    pub fn view<'a>(&'a self, geometry: &Geometry, missing: &'a [Missing]) -> Samples<'a> {
        let Shape { inputs, channels, encoding, layout } = geometry.shape();
        let extents = Extents { channels, inputs, times: geometry.chunk_times() };
        let strides = Strides::dense(layout, extents, Encoding::Ci8.into());
        let located = match &*self.memory {
            // SAFETY: a chunk is handed out once no ticket holds its memory.
            ChunkMemory::Host(memory) => Located::Host(unsafe { memory.all() }),
            ChunkMemory::Device(memory) => Located::Device(memory.buffer().slice()),
        };
        let samples = Samples::strided(located, encoding, extents, strides);
        samples.expect("a chunk holds all of them").missing(missing)
    }
}

/// The ranges of cells in which nothing is.
pub(super) fn absent(cells: &[u16]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (cell, _) in cells.iter().enumerate().filter(|(_, source)| **source == 0) {
        match ranges.last_mut() {
            Some(last) if last.end == cell => last.end += 1,
            _ => ranges.push(cell..cell + 1),
        }
    }
    ranges
}

/// Destination of samples.
#[derive(Clone, Copy)]
pub struct Destination<P> {
    /// Unwrapped, in heaps or frames.
    pub slot: u64,
    /// The F-engine or thread.
    pub sender: usize,
    /// Facts about the samples beside time and sender.
    pub facts: P,
    /// The number of the address that they came from.
    pub source: u16,
}

/// Kind of stream that a window receives: heaps ([`Geometry`]), or frames ([`Frames`](super::Frames)).
pub trait Stream: Clone + Send + 'static {
    /// Memory that samples are put into.
    type Chunk: Send;

    /// Facts about samples beside their time and sender.
    type Facts: Copy + Send;

    /// Heaps or frames of a chunk, one after the other.
    fn slots(&self) -> usize;

    /// Times of one of them.
    fn slot_times(&self) -> usize;

    /// Chunks that are open at a time.
    fn window(&self) -> usize;

    /// F-engines or threads.
    fn senders(&self) -> usize;

    /// Slots that samples fill, all of one chunk.
    fn slots_of(_: &Self::Facts) -> u64 {
        1
    }

    /// Memory of a chunk's samples, shared with the threads that fill it.
    type Memory: Send + Sync;

    /// Resets a used chunk as the empty chunk `number`.
    fn begin(&self, chunk: &mut Self::Chunk, number: u64);

    /// Claims the place of samples of `bytes` bytes in their chunk, or returns another fate. Claimed places never overlap.
    fn claim(
        &self,
        chunk: &mut Self::Chunk,
        place: &Destination<Self::Facts>,
        bytes: usize,
    ) -> Fate;

    /// Memory of a chunk.
    fn memory(chunk: &mut Self::Chunk) -> &mut Arc<Self::Memory>;

    /// Brings samples, or a part of them that begins at a byte, to their place.
    ///
    /// # Safety
    /// The place was claimed for them, and no other thread fills it now.
    unsafe fn fill(
        &self,
        memory: &Self::Memory,
        place: &Destination<Self::Facts>,
        offset: usize,
        bytes: &[u8],
    );
}

/// Right to fill a place of a chunk, which is not handed out before.
pub struct Ticket<S: Stream> {
    memory: Arc<S::Memory>,
    place: Destination<S::Facts>,
}

impl<S: Stream> Ticket<S> {
    /// Brings the samples, or a part of them that begins at a byte, to their place.
    pub(super) fn fill(&mut self, stream: &S, offset: usize, bytes: &[u8]) {
        // SAFETY: a ticket is given for a place that was taken, once, and not cloned.
        unsafe { stream.fill(&self.memory, &self.place, offset, bytes) };
    }
}

impl Stream for Geometry {
    type Chunk = Chunk;
    /// The first channel, counted from the first that is correlated.
    type Facts = usize;
    type Memory = ChunkMemory;

    fn slots(&self) -> usize {
        self.chunk_heaps
    }

    fn slot_times(&self) -> usize {
        self.heap_times
    }

    fn window(&self) -> usize {
        self.window
    }

    fn senders(&self) -> usize {
        self.fengs
    }

    fn begin(&self, chunk: &mut Chunk, _: u64) {
        chunk.present.fill(0);
        chunk.count = 0;
    }

    fn claim(&self, chunk: &mut Chunk, place: &Destination<usize>, bytes: usize) -> Fate {
        let Destination { slot, sender: feng, facts: channel, source } = *place;
        let slot = (slot % self.chunk_heaps as u64) as usize;
        let count = bytes / (self.heap_times * self.polarisations * SAMPLE);
        let first = (slot * self.fengs + feng) * self.channels + channel;
        let cells = &mut chunk.present[first..first + count];
        if let Some(&other) = cells.iter().find(|&&other| other > 0) {
            return if other == source { Fate::Repeated } else { Fate::Conflicting };
        }
        cells.fill(source);
        chunk.count += count;
        Fate::Placed
    }

    fn memory(chunk: &mut Chunk) -> &mut Arc<ChunkMemory> {
        &mut chunk.memory
    }

    /// Brings samples `[channel][time][polarisation]` to the chunk's `[channel][input][time]`.
    unsafe fn fill(
        &self,
        memory: &ChunkMemory,
        place: &Destination<usize>,
        offset: usize,
        mut bytes: &[u8],
    ) {
        let start = self.first_byte(place);
        let memory = match memory {
            ChunkMemory::Host(memory) => memory,
            ChunkMemory::Device(memory) => {
                let target = memory.buffer().address() + start as u64;
                return memory.bring(self.to_places(), target, offset, bytes);
            }
        };
        let row = self.chunk_times() * SAMPLE;
        let channel_bytes = self.heap_times * SAMPLE * self.polarisations;
        let (mut channel, mut within) = (offset / channel_bytes, offset % channel_bytes);
        while !bytes.is_empty() {
            let now;
            (now, bytes) = bytes.split_at(bytes.len().min(channel_bytes - within));
            let start = start + channel * self.shape().inputs * row;
            let rows = Rows { memory, start, row, count: self.polarisations };
            // SAFETY: rows of this place, as the caller says.
            unsafe { rows.fill(within, now) };
            (channel, within) = (channel + 1, 0);
        }
    }
}

/// Parts of a chunk's rows that a heap's samples of one channel go to, a row for each polarisation.
struct Rows<'a> {
    memory: &'a SharedMemory,
    /// First byte of the first one.
    start: usize,
    /// Bytes from one to the next.
    row: usize,
    count: usize,
}

impl Rows<'_> {
    /// Fills them with samples `[time][polarisation]`, of which `bytes` are those from byte `within` on.
    ///
    /// # Safety
    /// The caller alone has the rows.
    unsafe fn fill(&self, mut within: usize, bytes: &[u8]) {
        let Self { memory, start, row, count } = *self;
        let grain = count * SAMPLE;
        // Packets may begin and end within the samples of a time.
        let each = |within: usize, bytes: &[u8]| {
            for (at, &byte) in (within..).zip(bytes) {
                let (time, polarisation) = (at / grain, at % grain / SAMPLE);
                let at = start + polarisation * row + time * SAMPLE + at % SAMPLE;
                // SAFETY: a byte of the rows, which the caller alone has.
                let to = unsafe { memory.part(at..at + 1) };
                to[0] = byte;
            }
        };
        let head = (within.next_multiple_of(grain) - within).min(bytes.len());
        let (head, bytes) = bytes.split_at(head);
        each(within, head);
        within += head.len();
        let (whole, tail) = bytes.split_at(bytes.len() / grain * grain);
        each(within + whole.len(), tail);
        if whole.is_empty() {
            return;
        }
        let start = start + within / grain * SAMPLE;
        let length = whole.len() / count;
        // SAFETY: a row, or a part of it, which the caller alone has; each is another.
        let part = |number: usize| unsafe {
            let start = start + number * row;
            memory.part(start..start + length)
        };
        match count {
            1 => stores::copy(part(0), whole),
            2 => stores::part(part(0), part(1), whole),
            _ => {
                for number in 0..count {
                    let samples = whole.chunks_exact(grain).map(|time| &time[number * SAMPLE..]);
                    for (to, sample) in part(number).chunks_exact_mut(SAMPLE).zip(samples) {
                        to.copy_from_slice(&sample[..SAMPLE]);
                    }
                }
            }
        }
    }
}

impl<S: Stream> Drop for Ticket<S> {
    fn drop(&mut self) {
        stores::settle();
    }
}

/// The fate of a heap that has no place, and whose it is.
type Refused = (Fate, Option<usize>);

/// [`Ticket`] of a heap, and the bytes of its samples.
pub(super) struct HeapTicket {
    ticket: Ticket<Geometry>,
    array: Array,
}

impl HeapTicket {
    /// Device memory that the heap's samples go to, and the address of the first one; [`None`] for host memory.
    pub fn target(&self, stream: &Geometry) -> Option<(&DeviceMemory, u64)> {
        match &*self.ticket.memory {
            ChunkMemory::Host(_) => None,
            ChunkMemory::Device(memory) => {
                let first = stream.first_byte(&self.ticket.place) as u64;
                Some((memory, memory.buffer().address() + first))
            }
        }
    }

    /// Hands the heap's samples to `each` in pieces: the first one's offset among them, and bytes. Pieces have no byte
    /// of the samples in common.
    pub fn pieces(&self, heap: &Heap, room: &[u8], mut each: impl FnMut(usize, &[u8])) {
        if heap.overlaps() {
            each(0, &whole(heap, room, &self.array));
        } else {
            each_piece(heap, room, &self.array, each);
        }
    }

    /// Brings the heap's samples to their place.
    pub fn fill(&mut self, stream: &Geometry, heap: &Heap, room: &[u8]) {
        each_piece(heap, room, &self.array, |offset, piece| {
            self.ticket.fill(stream, offset, piece);
            if heap.overlaps() {
                stores::settle();
            }
        });
    }
}

/// Hands the bytes of an array of a heap to `each`, in pieces: the first one's offset in the array, and bytes.
fn each_piece(heap: &Heap, room: &[u8], array: &Array, mut each: impl FnMut(usize, &[u8])) {
    match array {
        Array::Payload(range) => {
            heap.pieces(room, range.clone()).for_each(|(offset, piece)| each(offset, piece));
        }
        Array::Value(value, bytes) => each(0, &value[value.len() - bytes..]),
    }
}

/// Bytes of an array of a heap, one after the other.
fn whole(heap: &Heap, room: &[u8], array: &Array) -> Vec<u8> {
    let mut bytes = vec![0; array.len()];
    each_piece(heap, room, array, |offset, piece| {
        bytes[offset..offset + piece.len()].copy_from_slice(piece);
    });
    bytes
}

/// The open chunks.
pub struct Window<S: Stream = Geometry> {
    stream: S,
    /// Timestamp next to which the first heap's would be, had it not wrapped.
    expected: u64,
    /// The number of the first open chunk, once a heap came.
    base: Option<u64>,
    /// The earliest heap that came, once one did since the time jumped, and the one after the latest.
    earliest: Option<u64>,
    end: u64,
    open: VecDeque<Option<S::Chunk>>,
    /// Heaps from outside of the window whose timestamps agree with each other.
    held: Vec<(Destination<S::Facts>, Vec<u8>)>,
    spent: Receiver<S::Chunk>,
    /// One of these that somebody has asked for.
    spare: Option<S::Chunk>,
    /// Chunks that left, to some of which samples are still being brought.
    leaving: VecDeque<Passed<S::Chunk>>,
    passed: Sender<Passed<S::Chunk>>,
    tally: Tally,
}

impl Window {
    /// A window that takes memory from `spent` and hands chunks to `passed`. The first heap's timestamp, which may have
    /// wrapped, is taken as the value nearest to `expected`.
    pub fn new(
        geometry: Geometry,
        expected: u64,
        spent: Receiver<Chunk>,
        passed: Sender<Passed>,
    ) -> Self {
        // Far from where times could not be counted on.
        Self::over(geometry, expected.min(1 << 62), spent, passed)
    }

    /// Empty chunks, one for each piece of memory.
    pub fn chunks(
        geometry: &Geometry,
        memory: impl IntoIterator<Item = Memory>,
    ) -> impl Iterator<Item = Chunk> {
        memory
            .into_iter()
            .map(|memory| Chunk::new(ChunkMemory::Host(SharedMemory::new(memory)), geometry))
    }

    /// Puts the samples of a heap of an [`Assembler`](super::Assembler) of one's own where they belong.
    pub fn insert_heap(&mut self, heap: &Heap) {
        if let Some(mut ticket) = self.reserve_heap(heap, &[]) {
            ticket.fill(&self.stream, heap, &[]);
        }
        self.hand_out();
    }

    /// Reserves the place of a heap's samples, if it has one. `room` is the memory of the ring that holds its packets.
    pub(super) fn reserve_heap(&mut self, heap: &Heap, room: &[u8]) -> Option<HeapTicket> {
        match self.understand(heap, room) {
            Ok((place, array)) => {
                let mut copy = || whole(heap, room, &array);
                let ticket = self.reserve(place, array.len(), &mut copy)?;
                Some(HeapTicket { ticket, array })
            }
            Err((fate, feng)) => {
                self.tally.count(fate, feng);
                None
            }
        }
    }

    /// Destination and bytes of a heap's samples; or its fate, and its sender.
    fn understand(
        &self,
        heap: &Heap,
        room: &[u8],
    ) -> std::result::Result<(Destination<usize>, Array), Refused> {
        let Geometry { fengs, polarisations, channels, heap_times, first_channel, step, .. } =
            self.stream;
        if !heap.has(id::SAMPLES) && (heap.has(id::DESCRIPTOR) || heap.has(id::CONTROL)) {
            return Err((Fate::Control, None));
        }
        let number = |id| heap.number(room, id);
        let (time, feng, channel) = (number(id::TIMESTAMP), number(id::FENG), number(id::CHANNEL));
        let known = feng.filter(|&feng| feng < fengs as u64).map(|feng| feng as usize);
        if heap.lacks_packets() {
            return Err((Fate::Incomplete, known));
        }
        let grain = polarisations * heap_times * SAMPLE;
        let array = heap.array(id::SAMPLES, grain);
        let (Some(time), Some(_), Some(channel), Some(array)) = (time, feng, channel, array) else {
            return Err((Fate::Lacking, known));
        };
        let feng = known.ok_or((Fate::Unknown, None))?;
        let fault = |fate| (fate, Some(feng));
        let bytes = array.len();
        if bytes == 0 || !bytes.is_multiple_of(grain) {
            return Err(fault(Fate::WrongSize));
        }
        let count = bytes / grain;
        let channel = channel
            .checked_sub(first_channel)
            .filter(|&first| first < channels as u64 && count <= channels - first as usize);
        let channel = channel.ok_or(fault(Fate::Outside))? as usize;
        let time = self.unwrapped(time).ok_or(fault(Fate::Astray))?;
        let span = step * heap_times as u64;
        if !time.is_multiple_of(span) {
            return Err(fault(Fate::Misaligned));
        }
        let place =
            Destination { slot: time / span, sender: feng, facts: channel, source: heap.source };
        Ok((place, array))
    }

    /// The timestamp next to the latest that ends in these bits; [`None`] before timestamp 0.
    fn unwrapped(&self, time: u64) -> Option<u64> {
        let time = time & ((1 << VALUE_BITS) - 1);
        let now = match self.base {
            None => self.expected,
            Some(_) => self.end() * self.stream.step,
        };
        // Sign-extended: up to half of all timestamps later or earlier.
        let unused = u64::BITS - VALUE_BITS;
        let ahead = (time.wrapping_sub(now) << unused) as i64 >> unused;
        // The first heap has one, whatever is expected.
        let first = self.base.is_none().then_some(time);
        now.checked_add_signed(ahead).or(first)
    }
}

impl<S: Stream> Window<S> {
    /// A window whose first heap's timestamp is next to `expected`.
    fn over(
        stream: S,
        expected: u64,
        spent: Receiver<S::Chunk>,
        passed: Sender<Passed<S::Chunk>>,
    ) -> Self {
        Self {
            tally: Tally::of(stream.senders()),
            stream,
            expected,
            base: None,
            earliest: None,
            end: 0,
            open: VecDeque::new(),
            held: Vec::new(),
            spent,
            spare: None,
            leaving: VecDeque::new(),
            passed,
        }
    }

    /// A window of frames or the like, whose times do not wrap, that takes empty chunks from `spent` and hands chunks
    /// to `passed`.
    pub fn of(stream: S, spent: Receiver<S::Chunk>, passed: Sender<Passed<S::Chunk>>) -> Self {
        Self::over(stream, 0, spent, passed)
    }

    pub(super) fn stream(&self) -> &S {
        &self.stream
    }

    /// Counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(super) fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// The time after the latest that came, counted from timestamp 0.
    pub fn end(&self) -> u64 {
        self.end * self.stream.slot_times() as u64
    }

    /// Times from the earliest to the latest that came since the time jumped, counted from timestamp 0.
    pub(super) fn span(&self) -> Option<Range<u64>> {
        let times = self.stream.slot_times() as u64;
        self.earliest.map(|slot| slot * times..self.end())
    }

    /// The number of the chunk of a heap or frame.
    fn chunk_of(&self, slot: u64) -> u64 {
        slot / self.stream.slots() as u64
    }

    /// Reserves the place of samples of `bytes` bytes. Samples without one are counted; samples that may get one later
    /// are copied.
    pub(super) fn reserve(
        &mut self,
        place: Destination<S::Facts>,
        bytes: usize,
        copy: &mut dyn FnMut() -> Vec<u8>,
    ) -> Option<Ticket<S>> {
        let chunk = self.chunk_of(place.slot);
        let window = self.stream.window() as u64;
        // The first heap to come may not be the earliest.
        let base = *self.base.get_or_insert(chunk.saturating_sub(window - 1));
        if chunk >= base && chunk - base < 2 * window {
            self.forget_held();
            while chunk >= self.base.expect("it is set") + window {
                self.hand_out_first(false, false);
            }
            let (fate, ticket) = self.claim(place, bytes);
            self.tally.count(fate, Some(place.sender));
            return ticket;
        }
        if chunk < base && base - chunk <= LATE_WINDOWS * window {
            self.tally.count(Fate::Late, Some(place.sender));
            return None;
        }
        let agrees = self
            .held
            .last()
            .is_none_or(|(last, _)| self.chunk_of(last.slot).abs_diff(chunk) < window);
        if !agrees {
            self.forget_held();
        }
        self.held.push((place, copy()));
        if self.held.len() < AGREEING.max(2 * self.stream.senders()) {
            return None;
        }
        // All agree: the time has jumped.
        let held = std::mem::take(&mut self.held);
        let first = held.iter().map(|(place, _)| self.chunk_of(place.slot)).min();
        self.flush(true);
        (self.base, self.end) = (first.map(|first| first.saturating_sub(window - 1)), 0);
        self.earliest = None;
        self.tally.jumps += 1;
        for (place, bytes) in held {
            let (length, mut kept) = (bytes.len(), Some(bytes));
            let ticket = self.reserve(place, length, &mut || kept.take().unwrap_or_default());
            if let (Some(mut ticket), Some(bytes)) = (ticket, kept) {
                ticket.fill(&self.stream, 0, &bytes);
            }
        }
        None
    }

    fn forget_held(&mut self) {
        for (place, _) in std::mem::take(&mut self.held) {
            self.tally.count(Fate::Astray, Some(place.sender));
        }
    }

    /// Takes a place in its chunk, which is open.
    fn claim(&mut self, place: Destination<S::Facts>, bytes: usize) -> (Fate, Option<Ticket<S>>) {
        let chunk = self.chunk_of(place.slot);
        let open = (chunk - self.base.expect("it is set")) as usize;
        if self.open.len() <= open {
            self.open.resize_with(open + 1, || None);
        }
        self.earliest = Some(self.earliest.map_or(place.slot, |slot| slot.min(place.slot)));
        self.end = self.end.max(place.slot + S::slots_of(&place.facts));
        let entry = &mut self.open[open];
        if entry.is_none() {
            let empty = self.spare.take().or_else(|| self.spent.try_recv().ok());
            *entry = empty.map(|mut empty| {
                self.stream.begin(&mut empty, chunk);
                empty
            });
        }
        let Some(chunk) = entry else { return (Fate::Overrun, None) };
        let fate = self.stream.claim(chunk, &place, bytes);
        let ticket = || Ticket { memory: S::memory(chunk).clone(), place };
        (fate, (fate == Fate::Placed).then(ticket))
    }

    /// Whether there is memory for a slot's chunk, whichever it is.
    pub(super) fn has_room(&mut self, slot: u64) -> bool {
        let open = self.base.and_then(|base| self.chunk_of(slot).checked_sub(base));
        let open = open.and_then(|open| self.open.get(usize::try_from(open).ok()?));
        if open.is_some_and(Option::is_some) {
            return true;
        }
        if self.spare.is_none() {
            self.spare = self.spent.try_recv().ok();
        }
        self.spare.is_some()
    }

    /// Hands out all open chunks. The next slot begins another stream.
    pub(super) fn begin_anew(&mut self) {
        self.flush(true);
        (self.base, self.end, self.earliest) = (None, 0, None);
        self.tally.jumps += 1;
    }

    /// Hands out the first open chunk; if it is one of the `last`, cut after the latest time that came.
    fn hand_out_first(&mut self, last: bool, jumped: bool) {
        let Some(base) = &mut self.base else { return };
        let times = (self.stream.slots() * self.stream.slot_times()) as u64;
        let start = *base * times;
        *base += 1;
        let end = if last { self.end().min(start + times) } else { start + times };
        let chunk = self.open.pop_front().flatten();
        self.leaving.push_back(Passed { start, end, chunk, jumped });
        self.hand_out();
    }

    /// Hands out the chunks that left, up to one to which samples are still being brought.
    pub(super) fn hand_out(&mut self) {
        while let Some(first) = self.leaving.front_mut() {
            let mut memory = first.chunk.as_mut().map(S::memory);
            if memory.as_mut().is_some_and(|memory| Arc::get_mut(memory).is_none()) {
                return;
            }
            let Some(first) = self.leaving.pop_front() else { return };
            // Fails when the receiving end is gone.
            let _ = self.passed.send(first);
        }
    }

    /// Hands out all open chunks: nothing else comes, or the time has `jumped`.
    pub fn flush(&mut self, jumped: bool) {
        self.forget_held();
        while !self.open.is_empty() {
            let last = self.open.len() == 1;
            self.hand_out_first(true, jumped && last);
        }
    }
}
