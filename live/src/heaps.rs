//! Heaps, whose packets come in any order, and stay where they are.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
};

use super::spead::{Fault, Item, Packet, id};

/// Bytes of payload of a packet from which it stays where it was received: smaller ones are copied, as a packet takes a
/// whole slot.
const STAYING: usize = 1024;

/// Bytes that a heap counts for at least, against many that are never completed.
const LEAST_BYTES: usize = 4096;

/// Heaps that are remembered once they are complete, as packets of them may come again.
const RECENT: usize = 1024;

/// Payload that came in one packet.
#[derive(Clone, Copy, Debug)]
struct PacketPayload {
    /// Offset in the heap.
    offset: usize,
    bytes: usize,
    /// Offset in the ring or, where no slot is held, in the heap's own copy.
    at: usize,
    slot: Option<u32>,
}

/// Location of a packet's payload in the ring, which can stay there.
#[derive(Clone, Copy)]
pub(super) struct Received {
    pub slot: u32,
    /// Offset of the payload in the ring.
    pub at: usize,
}

/// A heap, complete or not. Its payload stays where it was received; a small one, and what there is no slot for, is
/// copied.
#[derive(Clone, Debug, Default)]
pub struct Heap {
    /// The sender's number; see [`Sources`](super::Sources).
    pub source: u16,
    items: Vec<Item>,
    /// In the order in which they came.
    pieces: Vec<PacketPayload>,
    copied: Vec<u8>,
    /// Whether some bytes came twice: the last ones count.
    overlaps: bool,
    length: Option<usize>,
    /// Which bytes have come: ranges, ascending and apart.
    ranges: Vec<(usize, usize)>,
    /// Whether it came before: its remainder then lacks nothing.
    again: bool,
}

/// Bytes of an item.
pub(super) enum Array {
    /// A part of the heap's payload.
    Payload(Range<usize>),
    /// So many bytes at the end of an item's value.
    Value([u8; 6], usize),
}

impl Array {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Payload(range) => range.len(),
            Self::Value(_, bytes) => *bytes,
        }
    }
}

impl Heap {
    fn is_complete(&self) -> bool {
        match (self.length, &self.ranges[..]) {
            (Some(0), _) => true,
            (Some(length), [(0, end)]) => *end == length,
            _ => false,
        }
    }

    /// Takes a packet's part; `hold` keeps it in its slot of the ring, if it can.
    fn add_packet(
        &mut self,
        packet: &Packet<'_>,
        most: usize,
        hold: impl FnOnce() -> Option<Received>,
    ) -> Result<(), Fault> {
        let end = packet.offset + packet.payload.len() as u64;
        let length = packet.length.map_or(self.length.map(|length| length as u64), Some);
        if end.max(length.unwrap_or(0)) > most as u64 {
            return Err(Fault::Long);
        }
        let last = self.ranges.last().map_or(0, |range| range.1);
        if length.is_some_and(|length| end > length || last as u64 > length) {
            return Err(Fault::Payload);
        }
        self.length = length.map(|length| length as usize);
        for item in packet.items() {
            if self.items.iter().all(|known| known.id != item.id) {
                self.items.push(item);
            }
        }
        let (start, end) = (packet.offset as usize, end as usize);
        if start == end {
            return Ok(());
        }
        // A packet that adds nothing takes no memory.
        if self.ranges.iter().any(|range| range.0 <= start && end <= range.1) {
            return Ok(());
        }
        let bytes = packet.payload.len();
        let held = if bytes >= STAYING { hold() } else { None };
        let piece = match held {
            Some(Received { slot, at }) => {
                PacketPayload { offset: start, bytes, at, slot: Some(slot) }
            }
            None => {
                self.copied.extend_from_slice(packet.payload);
                PacketPayload { offset: start, bytes, at: self.copied.len() - bytes, slot: None }
            }
        };
        self.pieces.push(piece);
        match self.ranges.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.insert(start, end),
        }
        Ok(())
    }

    /// Slots of the ring that it holds, once for each hold.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        self.pieces.iter().filter_map(|piece| piece.slot)
    }

    /// The payload from `start` to `end` in pieces, in order of arrival: the offset from `start`, and bytes. `room` is the
    /// ring's memory.
    pub(super) fn pieces<'a>(
        &'a self,
        room: &'a [u8],
        Range { start, end }: Range<usize>,
    ) -> impl Iterator<Item = (usize, &'a [u8])> {
        self.pieces.iter().filter_map(move |piece| {
            let memory = if piece.slot.is_some() { room } else { &self.copied[..] };
            let bytes = memory.get(piece.at..piece.at + piece.bytes)?;
            let [from, to] =
                [start, end].map(|at| at.saturating_sub(piece.offset).min(bytes.len()));
            (from < to).then(|| (piece.offset + from - start, &bytes[from..to]))
        })
    }

    /// Whether bytes came twice that are not the same packet's.
    pub(super) fn overlaps(&self) -> bool {
        self.overlaps
    }

    fn insert(&mut self, start: usize, end: usize) {
        let first = self.ranges.partition_point(|range| range.1 < start);
        let after = self.ranges.partition_point(|range| range.0 <= end);
        let meets = |range: &(usize, usize)| range.0 < end && start < range.1;
        self.overlaps |= self.ranges.get(first..after).is_some_and(|found| found.iter().any(meets));
        let joined = match self.ranges.get(first..after) {
            Some([one, .., other]) => (one.0.min(start), other.1.max(end)),
            Some([one]) => (one.0.min(start), one.1.max(end)),
            _ => (start, end),
        };
        self.ranges.splice(first..after.max(first), [joined]);
    }

    /// Bytes of the payload that an item has, which is not immediate.
    fn range_of(&self, item: &Item) -> Range<usize> {
        let length = self.length.unwrap_or(0);
        let begins = self.items.iter().filter(|other| !other.immediate).map(|other| other.value);
        let next = begins.filter(|&begin| begin > item.value).min().unwrap_or(u64::MAX);
        let end = usize::try_from(next).map_or(length, |next| next.min(length));
        let start = usize::try_from(item.value).unwrap_or(usize::MAX);
        if start < end { start..end } else { 0..0 }
    }

    fn find(&self, id: u16) -> Option<&Item> {
        self.items.iter().find(|item| item.id == id)
    }

    /// The value of an item that is a number of up to 64 bits; `room` is the ring's memory.
    pub(super) fn number(&self, room: &[u8], id: u16) -> Option<u64> {
        let item = self.find(id)?;
        if item.immediate {
            return Some(item.value);
        }
        let range = self.range_of(item);
        let length = range.len();
        let mut bytes = [0; 8];
        let bytes = bytes.get_mut(..length).filter(|bytes| !bytes.is_empty())?;
        for (offset, piece) in self.pieces(room, range) {
            bytes[offset..offset + piece.len()].copy_from_slice(piece);
        }
        Some(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// The bytes of an item of which `grain` are the least: an immediate one gives as many as fit in its
    /// value, where a small array is right-aligned.
    pub(super) fn array(&self, id: u16, grain: usize) -> Option<Array> {
        let item = self.find(id)?;
        if !item.immediate {
            return Some(Array::Payload(self.range_of(item)));
        }
        let [_, _, value @ ..] = item.value.to_be_bytes();
        Some(Array::Value(value, value.len() - value.len() % grain.max(1)))
    }

    /// Whether it has an item.
    pub fn has(&self, id: u16) -> bool {
        self.find(id).is_some()
    }

    /// Whether packets of it are still to come, or never came.
    pub fn lacks_packets(&self) -> bool {
        !self.is_complete()
    }

    /// Whether it is only the rest of a heap that came before, to be ignored.
    pub(super) fn is_rest(&self) -> bool {
        self.again && !self.is_complete()
    }
}

/// Keeps account of the heaps of one socket. What never gets complete is given up when others need its room.
#[derive(Debug)]
pub struct Assembler {
    /// By source and number.
    heaps: HashMap<(u16, u64), Heap>,
    /// In the order in which they began, and what they count for.
    order: VecDeque<((u16, u64), usize)>,
    held: usize,
    most_held: usize,
    most_bytes: usize,
    /// Timestamps of heaps that were complete lately, in their order.
    recent: HashMap<(u16, u64), Option<u64>>,
    recent_order: VecDeque<(u16, u64)>,
    /// Heaps that are complete or given up.
    over: Vec<Heap>,
    spare: Vec<Heap>,
}

impl Assembler {
    /// Heaps of at most `most_bytes` bytes each, of which `most_held` bytes are held incomplete.
    pub fn new(most_bytes: usize, most_held: usize) -> Self {
        Self {
            heaps: HashMap::new(),
            order: VecDeque::new(),
            held: 0,
            most_held,
            most_bytes,
            recent: HashMap::new(),
            recent_order: VecDeque::new(),
            over: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Takes a packet from `source`; `done` gets the heap that it completes, and heaps that are given up.
    ///
    /// # Errors
    /// [`Fault`] of a packet that does not fit its heap.
    pub fn add_packet(
        &mut self,
        source: u16,
        packet: &Packet<'_>,
        done: impl FnMut(&Heap),
    ) -> Result<(), Fault> {
        let taken = self.add(source, packet, || None);
        self.hand_out(done);
        taken
    }

    /// Gives up all heaps that are incomplete.
    pub fn clear(&mut self, done: impl FnMut(&Heap)) {
        self.give_up_all();
        self.hand_out(done);
    }

    fn hand_out(&mut self, done: impl FnMut(&Heap)) {
        let mut over = std::mem::take(&mut self.over);
        over.iter().filter(|heap| !heap.is_rest()).for_each(done);
        over.drain(..).for_each(|heap| self.recycle(heap));
        self.over = over;
    }

    /// Heaps that are complete or given up since the last call, to be [recycled](Self::recycle).
    pub(super) fn over(&mut self) -> Vec<Heap> {
        std::mem::take(&mut self.over)
    }

    /// Takes a packet from `source`, for which `hold` may hold a slot.
    ///
    /// # Errors
    /// [`Fault`] of a packet that does not fit its heap.
    pub(super) fn add(
        &mut self,
        source: u16,
        packet: &Packet<'_>,
        hold: impl FnOnce() -> Option<Received>,
    ) -> Result<(), Fault> {
        let key = (source, packet.heap);
        let most = self.most_bytes;
        if let Some(heap) = self.heaps.get_mut(&key) {
            heap.add_packet(packet, most, hold)?;
            if heap.is_complete() {
                let heap = self.heaps.remove(&key).expect("it is there");
                let place = self.order.iter().position(|other| other.0 == key);
                let (_, size) = self.order.remove(place.expect("listed")).expect("listed");
                self.held -= size;
                self.finish(key, heap);
            }
            return Ok(());
        }
        let mut heap = self.spare.pop().unwrap_or_default();
        heap.source = source;
        // A sender that begins again may use numbers again, but not for the same time.
        let time = packet.items().find(|item| item.id == id::TIMESTAMP).map(|item| item.value);
        heap.again = self.recent.get(&key).is_some_and(|&known| time.is_none() || time == known);
        if let Err(fault) = heap.add_packet(packet, most, hold) {
            self.recycle(heap);
            return Err(fault);
        }
        if heap.is_complete() {
            self.finish(key, heap);
            return Ok(());
        }
        let size = heap.length.unwrap_or(most).max(LEAST_BYTES);
        self.held += size;
        self.order.push_back((key, size));
        self.heaps.insert(key, heap);
        while self.held > self.most_held && self.order.len() > 1 {
            self.give_up();
        }
        Ok(())
    }

    /// Hands out a heap that is complete.
    fn finish(&mut self, key: (u16, u64), heap: Heap) {
        let time = heap.find(id::TIMESTAMP).map(|item| item.value);
        self.over.push(heap);
        if self.recent.insert(key, time).is_none() {
            self.recent_order.push_back(key);
        }
        if self.recent_order.len() > RECENT
            && let Some(oldest) = self.recent_order.pop_front()
        {
            self.recent.remove(&oldest);
        }
    }

    /// Gives up all heaps that are incomplete.
    pub(super) fn give_up_all(&mut self) {
        while !self.order.is_empty() {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        let Some((key, size)) = self.order.pop_front() else { return };
        self.held -= size;
        self.over.extend(self.heaps.remove(&key));
    }

    /// Keeps the memory of a heap that is over, and whose slots were released.
    pub(super) fn recycle(&mut self, mut heap: Heap) {
        heap.items.clear();
        heap.pieces.clear();
        heap.copied.clear();
        heap.ranges.clear();
        heap.length = None;
        heap.overlaps = false;
        if self.spare.len() < 64 {
            self.spare.push(heap);
        }
    }
}
