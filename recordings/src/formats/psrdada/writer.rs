//! Writing to a ring.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::atomic::Ordering::SeqCst,
};

use corrust_host::{Error, Result};

use super::{
    memory::Change,
    ring::{BETWEEN, CLEAR, ENDS, FULL, Ring, STARTS, TRANSFERS, WRITER_FREE, WRITING, place},
};

/// The writer's place at a ring.
#[derive(Debug)]
struct Place(Ring);

impl Place {
    fn take(ring: Ring) -> Result<Self, String> {
        ring.take(WRITER_FREE).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => {
                "another writes to it: expected a ring with a free place".to_owned()
            }
            _ => format!("its semaphores: {error}"),
        })?;
        Ok(Self(ring))
    }

    /// Changes a semaphore of every reader.
    fn change(&self, semaphore: u16, by: i16, change: Change) -> io::Result<()> {
        let mut readers = 0..self.0.readers();
        readers.try_for_each(|reader| self.0.change(reader, &[(semaphore, by)], change))
    }

    /// Place of the transfer that is written among those that are kept.
    fn transfer(&self) -> usize {
        (self.0.number(place::WRITER_TRANSFER).load(SeqCst) % TRANSFERS) as usize
    }

    /// Begins a transfer where none is under way, waits until every reader has cleared the next block, and returns its number.
    fn next(&self, change: Change) -> io::Result<u64> {
        let ring = &self.0;
        if ring.writer().load(SeqCst) == BETWEEN {
            self.change(STARTS, -1, change)?;
            let (transfer, first) = (self.transfer(), ring.number(place::FILLED).load(SeqCst));
            ring.number_of(place::START_BLOCK, transfer).store(first, SeqCst);
            ring.number_of(place::START_BYTE, transfer).store(0, SeqCst);
            // Later ones end at blocks that lie behind.
            if first == 0 {
                ring.ended(transfer).store(0, SeqCst);
            }
            ring.writer().store(WRITING, SeqCst);
        }
        self.free(change)
    }

    /// Waits until every reader has cleared the next block, and returns its number.
    fn free(&self, change: Change) -> io::Result<u64> {
        let number = self.0.number(place::NEXT).load(SeqCst);
        let fillings = self.0.fillings(number);
        while fillings.load(SeqCst) > 0 {
            self.change(CLEAR, -1, change)?;
            fillings.fetch_sub(1, SeqCst);
        }
        self.0.number(place::NEXT).fetch_add(1, SeqCst);
        Ok(number)
    }

    /// Hands the block on that was the next.
    fn fill(&self) -> io::Result<()> {
        let number = self.0.number(place::FILLED).fetch_add(1, SeqCst);
        self.0.fillings(number).fetch_add(1, SeqCst);
        self.change(FULL, 1, Change::Lasting)
    }

    /// Hands it on as the last of a transfer, of which `bytes` count.
    fn end(&self, bytes: usize, change: Change) -> io::Result<()> {
        let (ring, transfer) = (&self.0, self.transfer());
        self.change(ENDS, -1, change)?;
        let last = ring.number(place::FILLED).load(SeqCst);
        ring.number_of(place::END_BLOCK, transfer).store(last, SeqCst);
        ring.number_of(place::END_BYTE, transfer).store(bytes as u64, SeqCst);
        ring.ended(transfer).store(1, SeqCst);
        ring.number(place::WRITER_TRANSFER).fetch_add(1, SeqCst);
        ring.writer().store(BETWEEN, SeqCst);
        self.fill()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.give(WRITER_FREE);
    }
}

/// A recording that goes to a ring, a header and samples as they come. It ends when it is [finished](Self::finish), and
/// also when it is dropped before that.
#[derive(Debug)]
pub struct RingWriter {
    path: PathBuf,
    samples: Place,
    /// Held for as long as samples come, as the header's place.
    _headers: Place,
    /// The block that is begun, and the bytes of it that are written.
    block: Option<(u64, usize)>,
    is_finished: bool,
}

impl RingWriter {
    /// Connects to a ring as its writer, and hands the header on that `header` makes of its length in bytes.
    ///
    /// # Errors
    /// [`Error::File`] where the key is none of a ring, it has a writer, or one has left in the midst of a recording;
    /// [`Error::Io`] when the ring is removed; errors of `header`.
    pub fn create(path: &Path, header: impl FnOnce(usize) -> Result<Vec<u8>>) -> Result<Self> {
        let place = |ring| Place::take(ring).map_err(|reason| Error::file(path, reason));
        let [headers, samples] = super::open(path)?;
        let (headers, samples) = (place(headers)?, place(samples)?);
        if samples.0.writer().load(SeqCst) != BETWEEN {
            let reason =
                "a writer has left it in the midst of a recording: expected a new ring (dada_db)";
            return Err(Error::file(path, reason));
        }
        let header = header(headers.0.block_bytes())?;
        let hand_on = || -> io::Result<()> {
            let number = headers.next(Change::Lasting)?;
            headers.0.block(number).write(0, &header);
            headers.fill()
        };
        hand_on().map_err(Error::io(path, "write"))?;
        Ok(Self {
            path: path.to_owned(),
            samples,
            _headers: headers,
            block: None,
            is_finished: false,
        })
    }

    /// Appends samples, and waits for readers where the ring is full.
    ///
    /// # Errors
    /// [`Error::Io`] when the ring has been removed.
    pub fn append(&mut self, samples: &[u8]) -> Result<()> {
        self.hand_on(samples).map_err(Error::io(&self.path, "write"))
    }

    fn hand_on(&mut self, mut samples: &[u8]) -> io::Result<()> {
        let whole = self.samples.0.block_bytes();
        while !samples.is_empty() {
            // A full block is handed on only when more comes, for the last one says that it is that.
            let (number, written) = match self.block {
                Some((_, written)) if written == whole => {
                    self.samples.fill()?;
                    self.block = None;
                    (self.samples.next(Change::Lasting)?, 0)
                }
                Some(block) => block,
                None => (self.samples.next(Change::Lasting)?, 0),
            };
            let count = samples.len().min(whole - written);
            self.samples.0.block(number).write(written, &samples[..count]);
            self.block = Some((number, written + count));
            samples = &samples[count..];
        }
        Ok(())
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// [`Error::Io`] when the ring has been removed.
    pub fn finish(mut self) -> Result<()> {
        self.end(Change::Lasting).map_err(Error::io(&self.path, "write"))
    }

    fn end(&mut self, change: Change) -> io::Result<()> {
        self.is_finished = true;
        let bytes = match self.block {
            Some((_, bytes)) => bytes,
            None => {
                self.samples.next(change)?;
                0
            }
        };
        self.samples.end(bytes, change)
    }
}

impl Drop for RingWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            // Readers that have left are not waited for.
            let _ = self.end(Change::AtOnce);
        }
    }
}
