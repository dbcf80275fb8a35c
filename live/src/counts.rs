//! Counts of photons: packets of consecutive instants, or a plain stream of them, put into chunks by the numbers of
//! their instants.
//!
//! A packet is the number of its first instant, 64 bits, the low byte first, and the counts of one or more whole instants
//! behind it, `[instant][sensor]`. A stream, of TCP or a pipe, is the counts alone; its instants are numbered from 0.

use std::{
    borrow::Cow,
    io::Read,
    sync::{Arc, Mutex},
};

use corrust_host::{Error, Result, device, samples::CountShape};

use super::{
    chunks::absent,
    intake::{Single, lock},
    memory::SharedMemory,
    spead::Fault,
    stream::{Destination, Stream, Ticket},
    tally::Fate,
    window::Window,
};

/// Bytes of the number before the counts of a packet.
pub(super) const NUMBER: usize = 8;

/// Instant numbers from here on count as astray: counting on from them could overflow.
const LAST: u64 = 1 << 62;

/// Bytes of a stream that are read at a time, where an instant has fewer.
pub(super) const PIECE: usize = 256 << 10;

/// Stream of photon counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Shape of the counts of an instant.
    pub shape: CountShape,
    /// Instants of a chunk.
    pub chunk_instants: usize,
    /// Chunks that are open at a time.
    pub window: usize,
}

impl Counts {
    /// Checks that they can be received.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a count of 0, or chunks that cannot be addressed.
    pub fn check(&self) -> Result<()> {
        let Self { shape, chunk_instants, window } = self;
        for (count, what) in [
            (shape.sensors, "sensors"),
            (*chunk_instants, "instants of a chunk"),
            (*window, "chunks"),
        ] {
            if count == 0 {
                return Err(Error::invalid(format!("0 {what}: expected at least 1")));
            }
        }
        let bytes = shape.sensors.checked_mul(2 * chunk_instants * window);
        match bytes.filter(|&bytes| bytes <= isize::MAX as usize) {
            Some(_) => Ok(()),
            None => Err(Error::invalid(format!(
                "{} sensors: expected fewer, {window} chunks of {chunk_instants} instants cannot be addressed",
                shape.sensors
            ))),
        }
    }

    /// The counts of a packet and the number of its first instant.
    ///
    /// # Errors
    /// [`Fault::Cut`] of one that is shorter than the number.
    pub fn parse(packet: &[u8]) -> std::result::Result<(u64, &[u8]), Fault> {
        let (number, counts) = packet.split_first_chunk::<NUMBER>().ok_or(Fault::Cut)?;
        Ok((u64::from_le_bytes(*number), counts))
    }
}

/// The counts of consecutive instants.
pub struct CountChunk {
    counts: Arc<SharedMemory>,
    /// Sender whose counts are there, or 0, by instant.
    sources: Vec<u16>,
}

impl CountChunk {
    /// Empty memory for a chunk.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(counts: &Counts) -> Result<Self> {
        let Counts { shape, chunk_instants, .. } = *counts;
        Ok(Self {
            counts: Arc::new(SharedMemory::new(Box::new(device::zeros(
                chunk_instants * shape.bytes(),
            )?))),
            sources: vec![0; chunk_instants],
        })
    }

    /// The ranges of the first `instants` instants that are lost. Their counts are zero from now on.
    pub(super) fn lost(
        &mut self,
        shape: &CountShape,
        instants: usize,
    ) -> Vec<std::ops::Range<usize>> {
        let lost = absent(&self.sources[..instants]);
        for range in &lost {
            let range = range.start * shape.bytes()..range.end * shape.bytes();
            // SAFETY: a chunk is handed out once no ticket holds its memory, and is borrowed here.
            unsafe { self.counts.part(range) }.fill(0);
        }
        lost
    }

    /// The counts `[instant][sensor]`.
    pub(super) fn counts(&self) -> &[u8] {
        // SAFETY: a chunk is handed out once no ticket holds its memory.
        unsafe { self.counts.all() }
    }
}

impl Stream for Counts {
    type Chunk = CountChunk;
    /// Instants that come together.
    type Facts = usize;
    type Memory = SharedMemory;

    fn slots(&self) -> usize {
        self.chunk_instants
    }

    fn slot_times(&self) -> usize {
        1
    }

    fn window(&self) -> usize {
        self.window
    }

    fn senders(&self) -> usize {
        1
    }

    fn slots_of(instants: &usize) -> u64 {
        *instants as u64
    }

    fn begin(&self, chunk: &mut CountChunk, _: u64) {
        chunk.sources.fill(0);
    }

    fn claim(&self, chunk: &mut CountChunk, place: &Destination<usize>, _: usize) -> Fate {
        let Destination { slot, facts: instants, source, .. } = *place;
        let first = (slot % self.chunk_instants as u64) as usize;
        let sources = &mut chunk.sources[first..first + instants];
        if let Some(&other) = sources.iter().find(|&&other| other > 0) {
            return if other == source { Fate::Repeated } else { Fate::Conflicting };
        }
        sources.fill(source);
        Fate::Placed
    }

    fn memory(chunk: &mut CountChunk) -> &mut Arc<SharedMemory> {
        &mut chunk.counts
    }

    unsafe fn fill(
        &self,
        memory: &SharedMemory,
        place: &Destination<usize>,
        offset: usize,
        bytes: &[u8],
    ) {
        let first = (place.slot % self.chunk_instants as u64) as usize;
        let start = first * self.shape.bytes() + offset;
        // SAFETY: the instants of this place, as the caller says.
        unsafe { memory.part(start..start + bytes.len()) }.copy_from_slice(bytes);
    }
}

impl Single for Counts {
    fn reserve<'a>(
        window: &mut Window<Self>,
        source: u16,
        packet: &'a [u8],
        each: &mut dyn FnMut(Ticket<Self>, Cow<'a, [u8]>),
    ) -> std::result::Result<(), Fault> {
        let (first, counts) = Self::parse(packet)?;
        if counts.is_empty() || !counts.len().is_multiple_of(window.stream().shape.bytes()) {
            window.tally_mut().count(Fate::WrongSize, Some(0));
        } else if first >= LAST {
            window.tally_mut().count(Fate::Astray, Some(0));
        } else {
            window.counts(first, source, counts, each);
        }
        Ok(())
    }
}

impl Window<Counts> {
    /// Takes the places of the counts of whole instants from `first` on. What reaches into the next chunk is counted as
    /// a packet of its own.
    fn counts<'a>(
        &mut self,
        mut first: u64,
        source: u16,
        mut counts: &'a [u8],
        each: &mut dyn FnMut(Ticket<Counts>, Cow<'a, [u8]>),
    ) {
        while !counts.is_empty() {
            let instants = self.within_chunk(first, counts.len());
            let (now, rest) = counts.split_at(instants * self.stream().shape.bytes());
            let place = Destination { slot: first, sender: 0, facts: instants, source };
            if let Some(ticket) = self.reserve(place, now.len(), &mut || now.to_vec()) {
                each(ticket, now.into());
            }
            (first, counts) = (first + instants as u64, rest);
        }
    }

    /// Instants in `bytes` bytes from instant `first` on that are in its chunk.
    fn within_chunk(&self, first: u64, bytes: usize) -> usize {
        let Counts { shape, chunk_instants, .. } = self.stream();
        let left = chunk_instants - (first % *chunk_instants as u64) as usize;
        left.min(bytes / shape.bytes())
    }
}

/// Takes in a plain stream, until it ends or `stop` says so. The sender waits where there is no memory for more. Bytes
/// that fill no instant at the end are of no use: their number is returned.
pub(super) fn pour(
    mut stream: impl Read,
    window: &Mutex<Window<Counts>>,
    stop: impl Fn() -> bool,
) -> usize {
    let kind = lock(window).stream().clone();
    let bytes = kind.shape.bytes();
    let mut room = vec![0; PIECE.next_multiple_of(bytes).max(bytes)];
    let (mut held, mut first) = (0, 0);
    while !stop() {
        match stream.read(&mut room[held..]) {
            Ok(0) => break,
            Ok(read) => {
                held += read;
                lock(window).tally_mut().bytes += read as u64;
            }
            // A time limit, or a signal.
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock
                | std::io::ErrorKind::TimedOut
                | std::io::ErrorKind::Interrupted => continue,
                _ => break,
            },
        }
        let whole = held / bytes * bytes;
        let mut rest = &room[..whole];
        while !rest.is_empty() && !stop() {
            let mut open = lock(window);
            if !open.has_room(first) {
                drop(open);
                std::thread::sleep(std::time::Duration::from_millis(1));
                continue;
            }
            let instants = open.within_chunk(first, rest.len());
            let (now, after) = rest.split_at(instants * bytes);
            let mut taken = None;
            open.counts(first, 1, now, &mut |ticket, _| taken = Some(ticket));
            drop(open);
            if let Some(mut ticket) = taken {
                ticket.fill(&kind, 0, now);
                drop(ticket);
                lock(window).hand_out();
            }
            (first, rest) = (first + instants as u64, after);
        }
        room.copy_within(whole..held, 0);
        held -= whole;
    }
    held
}
