//! Counts of photons: packets of consecutive instants, or a plain stream of them, put into chunks by the numbers of
//! their instants.
//!
//! A packet is the number of its first instant, 64 bits, the low byte first, and the counts of one or more whole instants
//! behind it, `[instant][sensor]`. A stream, of TCP or a pipe, is the counts alone; its instants are numbered from 0.

use std::{io::Read, sync::Mutex};

use corrust_host::{Error, Result, device, samples::CountShape};

use super::{
    chunks::{Place, Stream, Window, absent},
    intake::{Intake, lock},
    spead::Fault,
    tally::Fate,
};

/// Bytes of the number before the counts of a packet.
pub(super) const NUMBER: usize = 8;

/// Numbers from here on are none: instants could not be counted on from them.
const LAST: u64 = 1 << 62;

/// Bytes of a stream that are read at a time, where an instant has fewer.
pub(super) const PIECE: usize = 256 << 10;

/// Stream of counts of so many sensors.
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
    counts: Vec<u8>,
    /// Which sender's counts are there, or 0, by instant.
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
            counts: device::zeros(chunk_instants * shape.bytes())?,
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
            self.counts[range.start * shape.bytes()..range.end * shape.bytes()].fill(0);
        }
        lost
    }

    /// The counts `[instant][sensor]`.
    pub(super) fn counts(&self) -> &[u8] {
        &self.counts
    }
}

impl Stream for Counts {
    type Chunk = CountChunk;
    /// Instants that come together.
    type Part = usize;

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

    fn put(&self, chunk: &mut CountChunk, place: &Place<usize>, bytes: &[u8]) -> Fate {
        let Place { slot, part: instants, source, .. } = *place;
        let first = (slot % self.chunk_instants as u64) as usize;
        let sources = &mut chunk.sources[first..first + instants];
        if let Some(&other) = sources.iter().find(|&&other| other > 0) {
            return if other == source { Fate::Repeated } else { Fate::Conflicting };
        }
        sources.fill(source);
        chunk.counts[first * self.shape.bytes()..][..bytes.len()].copy_from_slice(bytes);
        Fate::Placed
    }
}

impl Window<Counts> {
    /// Puts the counts of a packet from a sender where they belong. What reaches into the next chunk is counted as a
    /// packet of its own.
    ///
    /// # Errors
    /// [`Fault::Cut`] of a packet shorter than its number; one that has no place is counted.
    pub fn packet(&mut self, source: u16, packet: &[u8]) -> std::result::Result<(), Fault> {
        let (first, counts) = Counts::parse(packet)?;
        if counts.is_empty() || !counts.len().is_multiple_of(self.stream().shape.bytes()) {
            self.tally_mut().count(Fate::WrongSize, Some(0));
        } else if first >= LAST {
            self.tally_mut().count(Fate::Astray, Some(0));
        } else {
            self.counts(first, source, counts);
        }
        Ok(())
    }

    /// Puts the counts of whole instants from `first` on where they belong.
    fn counts(&mut self, mut first: u64, source: u16, mut counts: &[u8]) {
        while !counts.is_empty() {
            let instants = self.within_chunk(first, counts.len());
            let (now, rest) = counts.split_at(instants * self.stream().shape.bytes());
            self.take_at(Place { slot: first, sender: 0, part: instants, source }, now);
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

/// Takes in packets of counts.
pub(super) struct CountsOnly;

impl Intake<Counts> for CountsOnly {
    fn take(
        &mut self,
        window: &Mutex<Window<Counts>>,
        source: u16,
        packet: &[u8],
    ) -> std::result::Result<(), Fault> {
        lock(window).packet(source, packet)
    }

    fn clear(&mut self, _: &Mutex<Window<Counts>>) {}
}

/// Takes in a plain stream, until it ends or `stop` says so. The sender waits where there is no memory for more. Bytes
/// that fill no instant at the end are of no use: their number is returned.
pub(super) fn pour(
    mut stream: impl Read,
    window: &Mutex<Window<Counts>>,
    stop: impl Fn() -> bool,
) -> usize {
    let bytes = lock(window).stream().shape.bytes();
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
            let mut window = lock(window);
            if !window.has_room(first) {
                drop(window);
                std::thread::sleep(std::time::Duration::from_millis(1));
                continue;
            }
            let instants = window.within_chunk(first, rest.len());
            let (now, after) = rest.split_at(instants * bytes);
            window.counts(first, 1, now);
            (first, rest) = (first + instants as u64, after);
        }
        room.copy_within(whole..held, 0);
        held -= whole;
    }
    held
}
