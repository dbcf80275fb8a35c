//! Chunks of samples, which heaps, or frames, are put into by their timestamps.
//!
//! A window of consecutive chunks is open: a heap for one of them is copied there, whatever the order in
//! which heaps come. A heap for a later chunk moves the window on, and chunks that leave it are handed out,
//! in the order of their times, with what is missing. A heap from far outside of the window is held until
//! others agree with it: a single wrong timestamp moves nothing, and a sender that begins again is followed.

use std::{
    borrow::Cow,
    collections::VecDeque,
    ops::{DerefMut, Range},
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
};

use corrust_host::{
    Encoding, Error, Layout, Result, Samples,
    device::{self, Gpu},
    samples::{Extents, Missing, Shape, Strides},
};

use super::{
    heaps::Heap,
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
            None => Ok(Box::new(device::zeros(bytes)?)),
        }
    }

    /// Bytes of a heap of all channels.
    pub fn heap_bytes(&self) -> usize {
        self.channels * self.heap_times * self.polarisations * SAMPLE
    }
}

/// Memory of a chunk.
pub type Memory = Box<dyn DerefMut<Target = [u8]> + Send>;

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
    memory: Memory,
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
    fn new(memory: Memory, geometry: &Geometry) -> Self {
        let cells = geometry.chunk_heaps * geometry.fengs * geometry.channels;
        Self { memory, present: vec![0; cells], count: 0 }
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
        let samples = Samples::strided(&self.memory[..], encoding, extents, strides);
        samples.expect("a chunk holds all of them").missing(missing)
    }

    /// Copies a heap's samples `[channel][time][polarisation]` to the chunk's `[channel][input][time]`.
    fn copy(&mut self, geometry: &Geometry, slot: usize, feng: usize, first: usize, bytes: &[u8]) {
        let Geometry { polarisations, heap_times, .. } = *geometry;
        let row = geometry.chunk_times() * SAMPLE;
        let (part, inputs) = (heap_times * SAMPLE, geometry.shape().inputs);
        for (channel, bytes) in bytes.chunks_exact(part * polarisations).enumerate() {
            let start = ((first + channel) * inputs + feng * polarisations) * row + slot * part;
            let rows = &mut self.memory[start..start + (polarisations - 1) * row + part];
            match polarisations {
                1 => stores::copy(rows, bytes),
                2 => {
                    let (x, y) = rows.split_at_mut(row);
                    stores::part(&mut x[..part], y, bytes);
                }
                _ => {
                    for (time, samples) in bytes.chunks_exact(polarisations * SAMPLE).enumerate() {
                        for (input, sample) in samples.chunks_exact(SAMPLE).enumerate() {
                            rows[input * row + time * SAMPLE..][..SAMPLE].copy_from_slice(sample);
                        }
                    }
                }
            }
        }
        stores::settle();
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
pub struct Place<P> {
    /// Unwrapped, in heaps or frames.
    pub slot: u64,
    /// The F-engine or thread.
    pub sender: usize,
    /// Facts about the samples beside time and sender.
    pub part: P,
    /// The number of the address that they came from.
    pub source: u16,
}

/// Kind of stream that a window receives: heaps ([`Geometry`]), or frames ([`Frames`](super::Frames)).
pub trait Stream: Clone + Send + 'static {
    /// Memory that samples are put into.
    type Chunk: Send;

    /// Facts about samples beside their time and sender.
    type Part: Copy + Send;

    /// Heaps or frames of a chunk, one after the other.
    fn slots(&self) -> usize;

    /// Times of one of them.
    fn slot_times(&self) -> usize;

    /// Chunks that are open at a time.
    fn window(&self) -> usize;

    /// F-engines or threads.
    fn senders(&self) -> usize;

    /// Slots that samples fill, all of one chunk.
    fn slots_of(_: &Self::Part) -> u64 {
        1
    }

    /// Has a used chunk be the empty one of a number.
    fn begin(&self, chunk: &mut Self::Chunk, number: u64);

    /// Puts samples into the chunk that they belong to.
    fn put(&self, chunk: &mut Self::Chunk, place: &Place<Self::Part>, bytes: &[u8]) -> Fate;
}

impl Stream for Geometry {
    type Chunk = Chunk;
    /// The first channel, counted from the first that is correlated.
    type Part = usize;

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

    fn put(&self, chunk: &mut Chunk, place: &Place<usize>, bytes: &[u8]) -> Fate {
        let Place { slot, sender: feng, part: channel, source } = *place;
        let slot = (slot % self.chunk_heaps as u64) as usize;
        let count = bytes.len() / (self.heap_times * self.polarisations * SAMPLE);
        let first = (slot * self.fengs + feng) * self.channels + channel;
        let cells = &mut chunk.present[first..first + count];
        if let Some(&other) = cells.iter().find(|&&other| other > 0) {
            return if other == source { Fate::Repeated } else { Fate::Conflicting };
        }
        cells.fill(source);
        chunk.count += count;
        chunk.copy(self, slot, feng, channel, bytes);
        Fate::Placed
    }
}

/// The fate of a heap that has no place, and whose it is.
type Refused = (Fate, Option<usize>);

/// The open chunks.
pub struct Window<S: Stream = Geometry> {
    stream: S,
    /// Timestamp next to which the first heap's would be, had it not wrapped.
    expected: u64,
    /// The number of the first open chunk, once a heap came.
    base: Option<u64>,
    /// The heap after the latest that came.
    end: u64,
    open: VecDeque<Option<S::Chunk>>,
    /// Heaps from outside of the window whose timestamps agree with each other.
    held: Vec<(Place<S::Part>, Vec<u8>)>,
    spent: Receiver<S::Chunk>,
    /// One of these that somebody has asked for.
    spare: Option<S::Chunk>,
    passed: Sender<Passed<S::Chunk>>,
    tally: Tally,
}

impl Window {
    /// A window that takes memory from `spent`, hands chunks to `passed`, and whose first heap's timestamp is
    /// the one next to `expected` of those that it may have wrapped from.
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
        memory.into_iter().map(|memory| Chunk::new(memory, geometry))
    }

    /// Puts a heap's samples where they belong, and says what became of it.
    pub fn take(&mut self, heap: &Heap) {
        match self.understand(heap) {
            Ok((place, bytes)) => self.take_at(place, &bytes),
            Err((fate, feng)) => self.tally.count(fate, feng),
        }
    }

    /// Destination and bytes of a heap's samples; or its fate, and its sender.
    fn understand<'a>(
        &self,
        heap: &'a Heap,
    ) -> std::result::Result<(Place<usize>, Cow<'a, [u8]>), Refused> {
        let Geometry { fengs, polarisations, channels, heap_times, first_channel, step, .. } =
            self.stream;
        if !heap.has(id::SAMPLES) && (heap.has(id::DESCRIPTOR) || heap.has(id::CONTROL)) {
            return Err((Fate::Control, None));
        }
        let number = |id| heap.number(id);
        let (time, feng, channel) = (number(id::TIMESTAMP), number(id::FENG), number(id::CHANNEL));
        let known = feng.filter(|&feng| feng < fengs as u64).map(|feng| feng as usize);
        if heap.lacks_packets() {
            return Err((Fate::Incomplete, known));
        }
        let grain = polarisations * heap_times * SAMPLE;
        let bytes = heap.array(id::SAMPLES, grain);
        let (Some(time), Some(_), Some(channel), Some(bytes)) = (time, feng, channel, bytes) else {
            return Err((Fate::Lacking, known));
        };
        let feng = known.ok_or((Fate::Unknown, None))?;
        let fault = |fate| (fate, Some(feng));
        if bytes.is_empty() || !bytes.len().is_multiple_of(grain) {
            return Err(fault(Fate::WrongSize));
        }
        let count = bytes.len() / grain;
        let channel = channel
            .checked_sub(first_channel)
            .filter(|&first| first < channels as u64 && count <= channels - first as usize);
        let channel = channel.ok_or(fault(Fate::Outside))? as usize;
        let time = self.unwrapped(time).ok_or(fault(Fate::Astray))?;
        let span = step * heap_times as u64;
        if !time.is_multiple_of(span) {
            return Err(fault(Fate::Misaligned));
        }
        let place = Place { slot: time / span, sender: feng, part: channel, source: heap.source };
        Ok((place, bytes))
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
            end: 0,
            open: VecDeque::new(),
            held: Vec::new(),
            spent,
            spare: None,
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

    /// The number of the chunk of a heap or frame.
    fn chunk_of(&self, slot: u64) -> u64 {
        slot / self.stream.slots() as u64
    }

    /// Puts samples where they belong.
    pub(super) fn take_at(&mut self, place: Place<S::Part>, bytes: &[u8]) {
        let chunk = self.chunk_of(place.slot);
        let window = self.stream.window() as u64;
        // The first heap to come may not be the earliest.
        let base = *self.base.get_or_insert(chunk.saturating_sub(window - 1));
        if chunk >= base && chunk - base < 2 * window {
            self.forget_held();
            while chunk >= self.base.expect("it is set") + window {
                self.pass(false, false);
            }
            let fate = self.put(place, bytes);
            self.tally.count(fate, Some(place.sender));
            return;
        }
        if chunk < base && base - chunk <= LATE_WINDOWS * window {
            self.tally.count(Fate::Late, Some(place.sender));
            return;
        }
        let agrees = self
            .held
            .last()
            .is_none_or(|(last, _)| self.chunk_of(last.slot).abs_diff(chunk) < window);
        if !agrees {
            self.forget_held();
        }
        self.held.push((place, bytes.to_vec()));
        if self.held.len() < AGREEING.max(2 * self.stream.senders()) {
            return;
        }
        // All agree: the time has jumped.
        let held = std::mem::take(&mut self.held);
        let first = held.iter().map(|(place, _)| self.chunk_of(place.slot)).min();
        self.flush(true);
        (self.base, self.end) = (first.map(|first| first.saturating_sub(window - 1)), 0);
        self.tally.jumps += 1;
        held.iter().for_each(|(place, bytes)| self.take_at(*place, bytes));
    }

    fn forget_held(&mut self) {
        for (place, _) in std::mem::take(&mut self.held) {
            self.tally.count(Fate::Astray, Some(place.sender));
        }
    }

    /// Copies samples into their chunk, which is open.
    fn put(&mut self, place: Place<S::Part>, bytes: &[u8]) -> Fate {
        let chunk = self.chunk_of(place.slot);
        let open = (chunk - self.base.expect("it is set")) as usize;
        if self.open.len() <= open {
            self.open.resize_with(open + 1, || None);
        }
        self.end = self.end.max(place.slot + S::slots_of(&place.part));
        let entry = &mut self.open[open];
        if entry.is_none() {
            let empty = self.spare.take().or_else(|| self.spent.try_recv().ok());
            *entry = empty.map(|mut empty| {
                self.stream.begin(&mut empty, chunk);
                empty
            });
        }
        let Some(chunk) = entry else { return Fate::Overrun };
        self.stream.put(chunk, &place, bytes)
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

    /// Hands out all open chunks, and has the next slot that comes be the first of another stream.
    pub(super) fn begin_anew(&mut self) {
        self.flush(true);
        (self.base, self.end) = (None, 0);
        self.tally.jumps += 1;
    }

    /// Hands out the first open chunk, which is over; or the `last` ones, which are as long as what came.
    fn pass(&mut self, last: bool, jumped: bool) {
        let Some(base) = &mut self.base else { return };
        let times = (self.stream.slots() * self.stream.slot_times()) as u64;
        let start = *base * times;
        *base += 1;
        let end = if last { self.end().min(start + times) } else { start + times };
        let chunk = self.open.pop_front().flatten();
        // Refused when nobody correlates any more.
        let _ = self.passed.send(Passed { start, end, chunk, jumped });
    }

    /// Hands out all open chunks: nothing else comes, or the time has `jumped`.
    pub fn flush(&mut self, jumped: bool) {
        self.forget_held();
        while !self.open.is_empty() {
            let last = self.open.len() == 1;
            self.pass(true, jumped && last);
        }
    }
}
