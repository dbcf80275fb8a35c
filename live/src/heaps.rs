//! Heaps, put together from packets that come in any order.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
};

use super::spead::{Fault, Item, Packet, id};

/// Bytes that a heap counts for at least, against many that are never completed.
const LEAST_BYTES: usize = 4096;

/// Heaps that are remembered once they are complete, as packets of them may come again.
const RECENT: usize = 1024;

/// A heap, complete or not.
#[derive(Clone, Debug, Default)]
pub struct Heap {
    /// The sender's number; see [`Sources`](super::Sources).
    pub source: u16,
    items: Vec<Item>,
    bytes: Vec<u8>,
    length: Option<usize>,
    /// Which bytes have come: ranges, ascending and apart.
    ranges: Vec<(usize, usize)>,
    /// Whether it came before: what is left of it then lacks nothing.
    again: bool,
}

impl Heap {
    fn is_complete(&self) -> bool {
        match (self.length, &self.ranges[..]) {
            (Some(0), _) => true,
            (Some(length), [(0, end)]) => *end == length,
            _ => false,
        }
    }

    /// Takes a packet's part.
    fn take(&mut self, packet: &Packet<'_>, most: usize) -> Result<(), Fault> {
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
        let room = self.length.unwrap_or(end).max(end);
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        self.bytes[start..end].copy_from_slice(packet.payload);
        match self.ranges.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.insert(start, end),
        }
        Ok(())
    }

    fn insert(&mut self, start: usize, end: usize) {
        let first = self.ranges.partition_point(|range| range.1 < start);
        let after = self.ranges.partition_point(|range| range.0 <= end);
        let joined = match self.ranges.get(first..after) {
            Some([one, .., other]) => (one.0.min(start), other.1.max(end)),
            Some([one]) => (one.0.min(start), one.1.max(end)),
            _ => (start, end),
        };
        self.ranges.splice(first..after.max(first), [joined]);
    }

    /// The bytes of an item: of an immediate one the six of its value.
    fn bytes_of(&self, item: &Item) -> Cow<'_, [u8]> {
        if item.immediate {
            return item.value.to_be_bytes()[2..].to_vec().into();
        }
        let length = self.length.unwrap_or(0);
        let begins = self.items.iter().filter(|other| !other.immediate).map(|other| other.value);
        let next = begins.filter(|&begin| begin > item.value).min().unwrap_or(u64::MAX);
        let end = usize::try_from(next).map_or(length, |next| next.min(length));
        let start = usize::try_from(item.value).ok();
        start.and_then(|start| self.bytes.get(start..end)).unwrap_or(&[]).into()
    }

    fn find(&self, id: u16) -> Option<&Item> {
        self.items.iter().find(|item| item.id == id)
    }

    /// The value of an item that is a number of up to 64 bits.
    pub fn number(&self, id: u16) -> Option<u64> {
        let item = self.find(id)?;
        if item.immediate {
            return Some(item.value);
        }
        let bytes = self.bytes_of(item);
        let fits = (1..=8).contains(&bytes.len());
        fits.then(|| bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// The bytes of an item of which `grain` are the least: an immediate one gives as many as fit in its
    /// value, where a small array is right-aligned.
    pub fn array(&self, id: u16, grain: usize) -> Option<Cow<'_, [u8]>> {
        let item = self.find(id)?;
        let bytes = self.bytes_of(item);
        if !item.immediate {
            return Some(bytes);
        }
        Some(bytes[bytes.len() % grain.max(1)..].to_vec().into())
    }

    /// Whether it has an item.
    pub fn has(&self, id: u16) -> bool {
        self.find(id).is_some()
    }

    /// Whether packets of it are still to come, or never came.
    pub fn lacks_packets(&self) -> bool {
        !self.is_complete()
    }
}

/// Puts together the heaps of one socket. What never gets complete is given up when others need its room.
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
            spare: Vec::new(),
        }
    }

    /// Takes a packet from `source`; `done` gets the heap that it completes, and heaps that are given up.
    ///
    /// # Errors
    /// [`Fault`] of a packet that does not fit its heap.
    pub fn take(
        &mut self,
        source: u16,
        packet: &Packet<'_>,
        mut done: impl FnMut(&Heap),
    ) -> Result<(), Fault> {
        let key = (source, packet.heap);
        let most = self.most_bytes;
        if !self.heaps.contains_key(&key) {
            let mut heap = self.spare.pop().unwrap_or_default();
            heap.source = source;
            // A sender that begins again may use numbers again, but not for the same time.
            let time = packet.items().find(|item| item.id == id::TIMESTAMP).map(|item| item.value);
            heap.again =
                self.recent.get(&key).is_some_and(|&known| time.is_none() || time == known);
            if let Err(fault) = heap.take(packet, most) {
                self.recycle(heap);
                return Err(fault);
            }
            if heap.is_complete() {
                self.finish(key, heap, done);
                return Ok(());
            }
            let size = heap.length.unwrap_or(most).max(LEAST_BYTES);
            self.held += size;
            self.order.push_back((key, size));
            self.heaps.insert(key, heap);
            while self.held > self.most_held && self.order.len() > 1 {
                self.give_up(&mut done);
            }
            return Ok(());
        }
        let heap = self.heaps.get_mut(&key).expect("it is there");
        heap.take(packet, most)?;
        if heap.is_complete() {
            let heap = self.heaps.remove(&key).expect("it is there");
            let place = self.order.iter().position(|other| other.0 == key);
            let (_, size) = self.order.remove(place.expect("listed")).expect("listed");
            self.held -= size;
            self.finish(key, heap, done);
        }
        Ok(())
    }

    /// Hands out a heap that is complete.
    fn finish(&mut self, key: (u16, u64), heap: Heap, mut done: impl FnMut(&Heap)) {
        done(&heap);
        let time = heap.find(id::TIMESTAMP).map(|item| item.value);
        if self.recent.insert(key, time).is_none() {
            self.recent_order.push_back(key);
        }
        if self.recent_order.len() > RECENT
            && let Some(oldest) = self.recent_order.pop_front()
        {
            self.recent.remove(&oldest);
        }
        self.recycle(heap);
    }

    /// Gives up all heaps that are incomplete.
    pub fn clear(&mut self, mut done: impl FnMut(&Heap)) {
        while !self.order.is_empty() {
            self.give_up(&mut done);
        }
    }

    fn give_up(&mut self, done: &mut impl FnMut(&Heap)) {
        let Some((key, size)) = self.order.pop_front() else { return };
        self.held -= size;
        if let Some(heap) = self.heaps.remove(&key) {
            if !heap.again {
                done(&heap);
            }
            self.recycle(heap);
        }
    }

    fn recycle(&mut self, mut heap: Heap) {
        heap.items.clear();
        heap.ranges.clear();
        heap.length = None;
        // Bytes that heaps lack are never read: they need not be cleared.
        if self.spare.len() < 64 {
            self.spare.push(heap);
        }
    }
}
