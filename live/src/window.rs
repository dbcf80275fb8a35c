//! The window of open chunks.
//!
//! A window of consecutive chunks is open: a heap for one of them gets its place there, whatever the order in
//! which heaps come. Whoever has the place brings the samples there, while others use the window. A heap for a later
//! chunk moves the window on, and chunks that leave it are handed out once all their samples are there, in the order of
//! their times, with what is missing. A heap from far outside of the window is held until
//! others agree with it: a single wrong timestamp moves nothing, and a sender that begins again is followed.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
};

use super::{
    chunks::{Chunk, Geometry},
    heaps::{Array, Heap},
    memory::{ChunkMemory, DeviceMemory, Memory, SharedMemory},
    spead::{VALUE_BITS, id},
    stores::{self, SAMPLE},
    stream::{Destination, LATE_WINDOWS, Stream, Ticket},
    tally::{Fate, Tally},
};

/// Heaps that agree before a jump of their time is believed, at least.
const AGREEING: usize = 16;

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

    /// Puts the samples of a heap, of the caller's own [`Assembler`](super::Assembler), where they belong.
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
