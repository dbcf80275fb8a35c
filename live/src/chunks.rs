//! Chunks of samples of F-engines, and the places of heaps in them.

use std::{borrow::Cow, ops::Range, sync::Arc};

use corrust_host::{
    Encoding, Error, Layout, Result, Samples,
    device::Gpu,
    reorder::place::ToPlaces,
    samples::{Extents, Memory as Located, Missing, Shape, Strides},
};

use super::{
    memory::{self, ChunkMemory, DeviceMemory, Memory, SharedMemory},
    spead::VALUE_BITS,
    stores::{self, SAMPLE},
    stream::{Destination, LATE_WINDOWS, Stream},
    tally::Fate,
};

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
    /// Timestamps from one time to the next.
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
    pub(super) fn first_byte(&self, place: &Destination<usize>) -> usize {
        let slot = (place.slot % self.chunk_heaps as u64) as usize;
        let row = place.facts * self.shape().inputs + place.sender * self.polarisations;
        (row * self.chunk_times() + slot * self.heap_times) * SAMPLE
    }

    /// Parameters of the kernel that moves payloads to their places in a chunk, without the payloads.
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

/// The samples of consecutive times.
pub struct Chunk {
    memory: Arc<ChunkMemory>,
    /// Sender whose samples are there, or 0: `[heap][F-engine][channel]`.
    present: Vec<u16>,
    /// Number of entries of `present` that are not 0.
    count: usize,
}

impl Chunk {
    pub(super) fn new(memory: ChunkMemory, geometry: &Geometry) -> Self {
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
    /// If the range ends after the last channel.
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
