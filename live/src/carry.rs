//! Samples of heaps, brought by a GPU from where their packets were received to their places in its memory.
//!
//! ```text
//! system -> slots of a page-locked ring -- the bus, by a kernel, by a table of pieces --> chunk in the GPU's memory
//! ```
//!
//! The CPU reads headers alone. Slots stay held, and chunks are not handed out, until the kernel that reads them is done.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use corrust_host::{
    Result,
    device::{Gpu, LockedBytes, Stream},
    reorder::place::{PayloadPiece, ToPlaces},
};

use super::{
    chunks::Geometry,
    heaps::Heap,
    memory::pieces,
    ring::{Ring, Slots},
    window::HeapTicket,
};

/// Loads of a socket, each of which has a stream of its own: more are on their way where kernels of others keep them
/// waiting.
const LOADS: usize = 8;

/// Bytes of payload that are worth a launch, and how long fewer wait for more.
const WORTH: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_micros(500);

/// Most pieces of a load, and most bytes of its pieces that are not in the ring.
const PIECES: usize = 4096;
const STAGED: usize = 1 << 20;

/// Carrier of one socket's heaps.
pub(super) struct Carrier {
    gpu: Arc<dyn Gpu>,
    geometry: Geometry,
    /// Device address of the ring.
    ring: u64,
    filling: Load,
    free: Vec<Load>,
    /// Loads in the order in which they were launched.
    under_way: VecDeque<Load>,
    /// Reason why nothing is carried any more.
    fault: Option<String>,
}

/// Pieces that one launch brings to their places.
struct Load {
    stream: Stream,
    /// The kernel's table, page-locked, of which `count` are in use, and its device address.
    table: (LockedBytes, u64),
    count: usize,
    /// Payload that is not in the ring, page-locked, of which `used` bytes are in use, and its device address; none
    /// before it is needed.
    staged: Option<(LockedBytes, u64)>,
    used: usize,
    /// Heaps whose last pieces are here.
    tickets: Vec<HeapTicket>,
    /// Slots that they hold, once for each hold.
    slots: Vec<u32>,
    /// Bytes of payload, and when the first of them was loaded.
    bytes: usize,
    since: Option<Instant>,
}

impl Load {
    fn new(gpu: &Arc<dyn Gpu>) -> Result<Self> {
        let table = gpu.locked_bytes(PIECES * size_of::<PayloadPiece>())?;
        Ok(Self {
            stream: gpu.create_urgent_stream()?,
            table: (gpu.reach(&table).map(|address| (table, address)))?,
            count: 0,
            staged: None,
            used: 0,
            tickets: Vec::new(),
            slots: Vec::new(),
            bytes: 0,
            since: None,
        })
    }

    /// Ends it: its slots are free, and its chunks may be handed out.
    fn end(&mut self, slots: &mut Slots) {
        self.slots.drain(..).for_each(|slot| slots.release(slot));
        self.tickets.clear();
        (self.count, self.used, self.bytes, self.since) = (0, 0, 0, None);
    }
}

impl Carrier {
    /// Carrier of heaps whose packets are in `ring`; [`None`] if the GPU cannot read the ring.
    ///
    /// # Errors
    /// The GPU's own.
    pub fn new(gpu: &Arc<dyn Gpu>, geometry: &Geometry, ring: &Ring) -> Result<Option<Self>> {
        let Some(ring) = ring.address else { return Ok(None) };
        Ok(Some(Self {
            gpu: gpu.clone(),
            geometry: geometry.clone(),
            ring,
            filling: Load::new(gpu)?,
            free: (1..LOADS).map(|_| Load::new(gpu)).collect::<Result<_>>()?,
            under_way: VecDeque::new(),
            fault: None,
        }))
    }

    /// Takes a heap along, and releases its slots once its samples are at their place.
    ///
    /// # Errors
    /// The ticket of a heap whose place is not in a GPU's memory.
    pub fn carry_heap(
        &mut self,
        ticket: HeapTicket,
        heap: &Heap,
        (room, slots): (&[u8], &mut Slots),
    ) -> std::result::Result<(), HeapTicket> {
        let target = ticket.target(&self.geometry).map(|(_, target)| target);
        let Some(target) = target else { return Err(ticket) };
        let (start, mut stays) = (room.as_ptr().addr(), false);
        ticket.pieces(heap, room, |offset, bytes| {
            let at = bytes.as_ptr().addr().wrapping_sub(start);
            if at < room.len() {
                stays = true;
                let source = self.ring + at as u64;
                pieces(source, target, offset, bytes.len())
                    .for_each(|piece| self.add(piece, slots));
            } else {
                self.stage(target, offset, bytes, slots);
            }
        });
        match stays {
            true => self.filling.slots.extend(heap.slots()),
            false => heap.slots().for_each(|slot| slots.release(slot)),
        }
        self.filling.tickets.push(ticket);
        Ok(())
    }

    /// Copies payload to where the GPU reads it.
    fn stage(&mut self, target: u64, mut offset: usize, mut bytes: &[u8], slots: &mut Slots) {
        while !bytes.is_empty() {
            if self.filling.used == STAGED {
                self.launch(slots);
            }
            if self.filling.staged.is_none() {
                let staged = self.gpu.locked_bytes(STAGED);
                match staged.and_then(|staged| Ok((self.gpu.reach(&staged)?, staged))) {
                    Ok((address, staged)) => self.filling.staged = Some((staged, address)),
                    Err(error) => return self.fail(&error.to_string()),
                }
            }
            let load = &mut self.filling;
            let Some((staged, address)) = &mut load.staged else { return };
            let now;
            (now, bytes) = bytes.split_at(bytes.len().min(STAGED - load.used));
            staged[load.used..load.used + now.len()].copy_from_slice(now);
            let source = *address + load.used as u64;
            load.used += now.len();
            pieces(source, target, offset, now.len()).for_each(|piece| self.add(piece, slots));
            offset += now.len();
        }
    }

    /// Adds a piece to the table.
    fn add(&mut self, piece: PayloadPiece, slots: &mut Slots) {
        if self.filling.count == PIECES {
            self.launch(slots);
        }
        let load = &mut self.filling;
        let entry =
            load.count * size_of::<PayloadPiece>()..(load.count + 1) * size_of::<PayloadPiece>();
        load.table.0[entry].copy_from_slice(bytemuck::bytes_of(&piece));
        load.count += 1;
        load.bytes += piece.bytes as usize;
        load.since.get_or_insert_with(Instant::now);
    }

    /// Ends the loads whose samples have arrived, and launches the current one if it is large or old enough.
    pub fn go_on(&mut self, slots: &mut Slots) {
        while let Some(first) = self.under_way.front() {
            match self.gpu.is_done(first.stream) {
                Ok(false) => break,
                Ok(true) => self.end_first(slots),
                Err(error) => {
                    self.fail(&error.to_string());
                    self.end_first(slots);
                }
            }
        }
        let worth = self.filling.bytes >= WORTH
            || self.filling.since.is_some_and(|since| since.elapsed() >= PATIENCE);
        // Where all are on their way, this one is filled further.
        if worth && !self.free.is_empty() {
            self.launch(slots);
        }
    }

    /// Launches the current load, and waits for all loads.
    pub fn finish(&mut self, slots: &mut Slots) {
        self.launch(slots);
        while !self.under_way.is_empty() {
            self.wait(slots);
        }
    }

    /// Launches the current load and takes an empty one, for which it waits if need be.
    fn launch(&mut self, slots: &mut Slots) {
        if self.filling.count == 0 && self.filling.tickets.is_empty() {
            return;
        }
        if self.fault.is_none() {
            let places = ToPlaces {
                pieces: self.filling.table.1,
                count: self.filling.count as u32,
                ..self.geometry.to_places()
            };
            // SAFETY: the pieces lie in the ring, whose slots are held, or in this load's memory, which stay as they are
            // until the load has ended; tickets that are kept until then own their destinations.
            let launched = unsafe { places.kernel().launch(&self.gpu, self.filling.stream) };
            if let Err(error) = launched {
                self.fail(&error.to_string());
            }
        }
        if self.free.is_empty() {
            self.wait(slots);
        }
        if let Some(empty) = self.free.pop() {
            self.under_way.push_back(std::mem::replace(&mut self.filling, empty));
        }
    }

    /// Waits for the first load on its way.
    fn wait(&mut self, slots: &mut Slots) {
        let Some(first) = self.under_way.front() else { return };
        if let Err(error) = self.gpu.wait(first.stream) {
            self.fail(&error.to_string());
        }
        self.end_first(slots);
    }

    fn end_first(&mut self, slots: &mut Slots) {
        let Some(mut first) = self.under_way.pop_front() else { return };
        if let Some(reason) = &self.fault {
            self.say(&first, reason);
        }
        first.end(slots);
        self.free.push(first);
    }

    /// Records the first fault, after which no load is launched.
    fn fail(&mut self, reason: &str) {
        self.fault.get_or_insert_with(|| reason.to_owned());
    }

    /// Records in a load's chunks why their samples are missing.
    fn say(&self, load: &Load, reason: &str) {
        let memories = load.tickets.iter().filter_map(|ticket| ticket.target(&self.geometry));
        memories.for_each(|(memory, _)| memory.fail(reason));
    }
}

impl Drop for Carrier {
    /// Waits until nothing reads the ring.
    fn drop(&mut self) {
        for load in &self.under_way {
            let _ = self.gpu.wait(load.stream);
        }
    }
}
