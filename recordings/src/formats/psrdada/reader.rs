//! Reading from a ring.

use std::{
    io::{self, ErrorKind, Read},
    ops::Range,
    path::Path,
    sync::atomic::Ordering::SeqCst,
};

use corrust_host::{Error, Result};

use super::{
    header_size,
    memory::Change,
    ring::{
        BETWEEN, CLEAR, ENDS, FREE, FULL, READERS_FREE, READING, Ring, STARTS, TRANSFERS, place,
    },
};

/// A block that is full.
#[derive(Debug)]
struct Held {
    number: u64,
    /// Bytes of it that count and have not been read.
    bytes: Range<usize>,
    /// Whether it is the last of its transfer.
    is_last: bool,
}

/// A reader's place at a ring.
#[derive(Debug)]
struct Place {
    ring: Ring,
    reader: usize,
}

impl Place {
    /// Takes a free place, of several that whose reader has come least far.
    fn take(ring: Ring) -> Result<Self, String> {
        let readers = ring.readers();
        let taken = |error: io::Error| match error.kind() {
            ErrorKind::WouldBlock => format!(
                "its {readers} readers are connected: expected a ring with a free place (dada_db -r)"
            ),
            _ => format!("its semaphores: {error}"),
        };
        ring.take(READERS_FREE).map_err(taken)?;
        let mut places: Vec<usize> = (0..readers).collect();
        places.sort_by_key(|&reader| ring.number_of(place::READ, reader).load(SeqCst));
        let mut last = io::Error::from(ErrorKind::WouldBlock);
        for reader in places {
            match ring.change(reader, &[(FREE, -1)], Change::Held) {
                Ok(()) => return Ok(Self { ring, reader }),
                Err(error) => last = error,
            }
        }
        ring.give(READERS_FREE);
        Err(taken(last))
    }

    /// Whether a reader has left in the midst of a transfer.
    fn is_within(&self) -> bool {
        self.ring.reader(self.reader).load(SeqCst) != BETWEEN
    }

    /// Waits for the next block. It counts as full until it is cleared, so that a process that is killed leaves it to the
    /// next.
    fn wait(&self) -> io::Result<Held> {
        let Self { ring, reader } = self;
        let reader = *reader;
        ring.change(reader, &[(FULL, -1), (FULL, 1)], Change::Lasting)?;
        let transfer = ring.number_of(place::READER_TRANSFER, reader).load(SeqCst);
        let transfer = (transfer % TRANSFERS) as usize;
        let of_transfer = |at: usize| ring.number_of(at, transfer).load(SeqCst);
        let mut first = 0;
        if !self.is_within() {
            ring.reader(reader).store(READING, SeqCst);
            ring.number_of(place::READ, reader).store(of_transfer(place::START_BLOCK), SeqCst);
            first = of_transfer(place::START_BYTE);
            ring.change(reader, &[(STARTS, 1)], Change::Lasting)?;
        }
        let number = ring.number_of(place::READ, reader).load(SeqCst);
        let is_last =
            ring.ended(transfer).load(SeqCst) != 0 && number == of_transfer(place::END_BLOCK);
        let whole = ring.block_bytes() as u64;
        let end = if is_last { of_transfer(place::END_BYTE) } else { whole };
        if first > end || end > whole {
            let reason = format!("bytes {first} to {end} of a block: expected them within {whole}");
            return Err(io::Error::new(ErrorKind::InvalidData, reason));
        }
        Ok(Held { number, bytes: first as usize..end as usize, is_last })
    }

    /// Gives a block back to the writer.
    fn clear(&self, held: &Held) -> io::Result<()> {
        let Self { ring, reader } = self;
        let reader = *reader;
        let mut changes = vec![(FULL, -1), (CLEAR, 1)];
        if held.is_last {
            ring.reader(reader).store(BETWEEN, SeqCst);
            ring.number_of(place::READER_TRANSFER, reader).fetch_add(1, SeqCst);
            changes.push((ENDS, 1));
        } else {
            ring.number_of(place::READ, reader).fetch_add(1, SeqCst);
        }
        ring.change(reader, &changes, Change::Lasting)
    }

    /// Waits for the next header and returns it, with its block.
    fn header(&self) -> io::Result<(Vec<u8>, Held)> {
        loop {
            let held = self.wait()?;
            let mut header = vec![0; held.bytes.len()];
            self.ring.block(held.number).read(held.bytes.start, &mut header);
            if !header.is_empty() {
                return Ok((header, held));
            }
            // A writer that had nothing to say.
            self.clear(&held)?;
        }
    }

    /// Passes over the rest of a transfer in whose midst a reader has left.
    fn pass_over(&self) -> io::Result<()> {
        while self.is_within() {
            let held = self.wait()?;
            self.clear(&held)?;
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A ring that has been removed has no places.
        let _ = self.ring.change(self.reader, &[(FREE, 1)], Change::Held);
        self.ring.give(READERS_FREE);
    }
}

/// The bytes of a recording in a ring, as a DADA file has them: a header, then samples to the end of data.
#[derive(Debug)]
pub struct RingReader {
    header: Vec<u8>,
    /// Bytes of the header that have been read.
    read: usize,
    headers: Place,
    /// The header's block, until samples come: a recording of which none are read stays in the ring.
    header_block: Option<Held>,
    samples: Place,
    held: Option<Held>,
    has_ended: bool,
}

impl RingReader {
    /// Connects to a ring as a reader, and waits for the header of the next recording. The rest of one in whose midst a reader
    /// has left is passed over.
    ///
    /// # Errors
    /// [`Error::File`] where the key is none of a ring, all its readers are connected, or the header does not say how long it is;
    /// [`Error::Io`] when the ring is removed while it is waited for.
    pub fn open(path: &Path) -> Result<Self> {
        let place = |ring| Place::take(ring).map_err(|reason| Error::file(path, reason));
        let [headers, samples] = super::open(path)?;
        let (headers, samples) = (place(headers)?, place(samples)?);
        let next = || {
            samples.pass_over()?;
            headers.header()
        };
        let (mut header, block) = next().map_err(Error::io(path, "read"))?;
        let most = header.len();
        match header_size(&header).map(usize::try_from) {
            Some(Ok(bytes)) if (1..=most).contains(&bytes) => header.truncate(bytes),
            Some(_) => {
                let reason =
                    format!("its header's HDR_SIZE: expected 1 to {most}, the bytes of its block");
                return Err(Error::file(path, reason));
            }
            None => {
                return Err(Error::file(path, "no HDR_SIZE in its header: expected a DADA header"));
            }
        }
        let header_block = Some(block);
        Ok(Self { header, read: 0, headers, header_block, samples, held: None, has_ended: false })
    }
}

impl Read for RingReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let of_header = self.header[self.read..].len().min(bytes.len());
        if of_header > 0 {
            bytes[..of_header].copy_from_slice(&self.header[self.read..][..of_header]);
            self.read += of_header;
            return Ok(of_header);
        }
        while !self.has_ended && !bytes.is_empty() {
            let held = match &mut self.held {
                Some(held) => held,
                none => none.insert(self.samples.wait()?),
            };
            if let Some(block) = self.header_block.take() {
                self.headers.clear(&block)?;
            }
            let count = held.bytes.len().min(bytes.len());
            self.samples.ring.block(held.number).read(held.bytes.start, &mut bytes[..count]);
            held.bytes.start += count;
            if held.bytes.is_empty() {
                self.samples.clear(held)?;
                self.has_ended = held.is_last;
                self.held = None;
            }
            if count > 0 {
                return Ok(count);
            }
        }
        Ok(0)
    }
}
