//! Rings, and where their numbers lie.

use std::{
    io::{self, ErrorKind},
    sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::SeqCst},
};

use super::memory::{Change, Segment, Semaphores};

/// Bytes of the segment of control at which numbers lie: of 64 bits where an item has 8 bytes, of 32 where it has 4.
pub mod place {
    /// Keys of the semaphores of connections, and of each reader's.
    pub const CONNECTIONS: usize = 0;
    pub const READER_KEYS: usize = 4;
    /// Number of blocks, and their bytes.
    pub const BLOCKS: usize = 40;
    pub const BLOCK_BYTES: usize = 48;
    /// Number of the next block that is to be written, and of the first that has not been filled.
    pub const NEXT: usize = 56;
    pub const FILLED: usize = 64;
    /// State of the writer, and its transfer.
    pub const WRITER: usize = 72;
    pub const WRITER_TRANSFER: usize = 80;
    /// Block, state and transfer of each reader.
    pub const READ: usize = 88;
    pub const READER: usize = 152;
    pub const READER_TRANSFER: usize = 184;
    /// Number of readers.
    pub const READERS: usize = 248;
    /// First block of each of the last transfers, and the first valid byte in it; whether the transfer has ended; its last
    /// block, and the number of valid bytes in that.
    pub const START_BLOCK: usize = 256;
    pub const START_BYTE: usize = 320;
    pub const ENDED: usize = 384;
    pub const END_BLOCK: usize = 392;
    pub const END_BYTE: usize = 456;
    /// Number of the GPU whose memory the blocks are, below zero of the host's.
    pub const DEVICE: usize = 520;
    /// Bytes of the numbers. Two arrays follow: a byte for each block, the transfers that it is full of, then a key of four
    /// bytes for each.
    pub const END: usize = 528;
}

/// Semaphores of connections: a writer, readers.
pub const WRITER_FREE: u16 = 0;
pub const READERS_FREE: u16 = 1;

/// Semaphores of a reader: starts and ends of data that it has seen, blocks that are full and that it has cleared, and whether
/// its place is free.
pub const STARTS: u16 = 0;
pub const ENDS: u16 = 1;
pub const FULL: u16 = 2;
pub const CLEAR: u16 = 3;
pub const FREE: u16 = 4;

/// States: of a reader or writer between transfers, of a writer and of a reader in the midst of one.
pub const BETWEEN: u32 = 0;
pub const WRITING: u32 = 3;
pub const READING: u32 = 6;

/// Transfers whose starts and ends are kept, and most readers.
pub const TRANSFERS: u64 = 8;
const MOST_READERS: u32 = 8;

/// Most blocks.
const MOST_BLOCKS: u64 = 1 << 16;

/// A ring, connected.
#[derive(Debug)]
pub struct Ring {
    control: Segment,
    blocks: Vec<Segment>,
    block_bytes: usize,
    connections: Semaphores,
    readers: Vec<Semaphores>,
}

impl Ring {
    /// Connects to the ring of a key.
    ///
    /// # Errors
    /// The reason alone, where there is none, or none that can be read here.
    pub fn connect(key: u32) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("its {what}: {error}");
        let control = Segment::attach(key).map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!(
                "no shared memory of key {key:x}: expected a ring of PSRDADA, as dada_db makes"
            ),
            _ => format!("shared memory of key {key:x}: {error}"),
        })?;
        let found = control.bytes();
        let other = |expected: String| {
            format!(
                "shared memory of {found} bytes under key {key:x}: expected {expected}, a ring of PSRDADA of 2017 or later"
            )
        };
        if found < place::END {
            return Err(other(format!("at least {}", place::END)));
        }
        let blocks = control.u64(place::BLOCKS).load(SeqCst);
        if !(1..=MOST_BLOCKS).contains(&blocks) {
            return Err(format!(
                "{blocks} blocks under key {key:x}: expected 1 to {MOST_BLOCKS}, a ring of PSRDADA of 2017 or later"
            ));
        }
        let expected = place::END + 5 * blocks as usize;
        if found != expected {
            return Err(other(format!("{expected} for {blocks} blocks")));
        }
        let device = control.u32(place::DEVICE).load(SeqCst) as i32;
        if device >= 0 {
            return Err(format!("blocks in memory of GPU {device}: expected a ring in the host's"));
        }
        let readers = control.u32(place::READERS).load(SeqCst);
        if !(1..=MOST_READERS).contains(&readers) {
            return Err(format!("{readers} readers: expected a ring of 1 to {MOST_READERS}"));
        }
        let block_bytes = control.u64(place::BLOCK_BYTES).load(SeqCst);
        let mut segments = Vec::with_capacity(blocks as usize);
        for block in 0..blocks as usize {
            let mut key = [0; 4];
            control.read(place::END + blocks as usize + 4 * block, &mut key);
            let segment = Segment::attach(u32::from_ne_bytes(key))
                .map_err(|error| failed(&format!("block {block}"), error))?;
            if block_bytes == 0 || segment.bytes() as u64 != block_bytes {
                return Err(format!(
                    "block {block} of {} bytes: expected {block_bytes}, as its ring says",
                    segment.bytes()
                ));
            }
            segments.push(segment);
        }
        let key = |at: usize| control.u32(at).load(SeqCst);
        let semaphores =
            |key, count| Semaphores::open(key, count).map_err(|error| failed("semaphores", error));
        let connections = semaphores(key(place::CONNECTIONS), 2)?;
        let keys = (0..readers as usize).map(|reader| key(place::READER_KEYS + 4 * reader));
        let readers = keys.map(|key| semaphores(key, 5)).collect::<Result<_, _>>()?;
        Ok(Self {
            control,
            blocks: segments,
            block_bytes: block_bytes as usize,
            connections,
            readers,
        })
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Number of readers.
    pub fn readers(&self) -> usize {
        self.readers.len()
    }

    /// The segment of a block, by its number since the ring was made.
    pub fn block(&self, number: u64) -> &Segment {
        &self.blocks[(number % self.blocks.len() as u64) as usize]
    }

    /// The number of transfers that a block is full of.
    pub fn fillings(&self, number: u64) -> &AtomicU8 {
        self.control.u8(place::END + (number % self.blocks.len() as u64) as usize)
    }

    /// A number of control.
    pub fn number(&self, at: usize) -> &AtomicU64 {
        self.control.u64(at)
    }

    /// One of the numbers of readers or transfers.
    pub fn number_of(&self, at: usize, index: usize) -> &AtomicU64 {
        self.control.u64(at + 8 * index)
    }

    /// State of the writer.
    pub fn writer(&self) -> &AtomicU32 {
        self.control.u32(place::WRITER)
    }

    /// State of a reader.
    pub fn reader(&self, reader: usize) -> &AtomicU32 {
        self.control.u32(place::READER + 4 * reader)
    }

    /// Whether a transfer has ended.
    pub fn ended(&self, transfer: usize) -> &AtomicU8 {
        self.control.u8(place::ENDED + transfer)
    }

    /// Takes the place of the writer or of a reader, until it is given back or the process ends.
    ///
    /// # Errors
    /// The system's; [`ErrorKind::WouldBlock`] where it is taken.
    pub fn take(&self, who: u16) -> io::Result<()> {
        self.connections.change(&[(who, -1)], Change::Held)
    }

    /// Gives a place back that was taken.
    pub fn give(&self, who: u16) {
        // A ring that has been removed has no places.
        let _ = self.connections.change(&[(who, 1)], Change::Held);
    }

    /// Changes semaphores of a reader.
    ///
    /// # Errors
    /// The system's.
    pub fn change(&self, reader: usize, changes: &[(u16, i16)], change: Change) -> io::Result<()> {
        self.readers[reader].change(changes, change)
    }
}
