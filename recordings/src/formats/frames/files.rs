//! Files of frames, read one after the other.

use std::path::PathBuf;

use corrust_host::{Error, Result};

use super::framing::{Fault, Framing};
use crate::formats::{input::Input, placing::Stamp};

/// Bytes that are read at once: so many stay in a processor's cache until they are copied.
pub(super) const CHUNK: usize = 512 << 10;

/// Largest distance in a file between frames of one time, in bytes.
pub(super) const AHEAD: usize = 64 << 20;

/// The files of a recording.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) paths: Vec<PathBuf>,
    pub(super) lengths: Vec<u64>,
    pub(super) open: Option<(usize, Input)>,
}

impl Files {
    pub(super) fn read(&mut self, file: usize, at: u64, bytes: &mut [u8]) -> Result<()> {
        let input = match &mut self.open {
            Some((index, input)) if *index == file => input,
            slot => &mut slot.insert((file, Input::open(&self.paths[file])?)).1,
        };
        input.read_at(at, bytes)
    }

    pub(super) fn fault(&self, file: usize, at: u64, reason: &str) -> Error {
        Error::file(&self.paths[file], format!("{reason} (frame at byte {at})"))
    }
}

/// Cursor over the frames of files, one after the other.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// Files still to be read, in reverse; the last one is being read.
    pub(super) files: Vec<usize>,
    /// Byte of the next frame.
    pub(super) at: u64,
    /// Byte after the last frame that was found in a file, invalid ones among them.
    pub(super) end: u64,
    /// Bytes of the file from `start` on.
    buffer: Vec<u8>,
    start: u64,
    /// Bytes to read at once.
    chunk: usize,
}

impl Cursor {
    pub(super) fn new(files: Vec<usize>, at: u64, chunk: usize) -> Self {
        Self { files, at, chunk, ..Self::default() }
    }

    /// Makes sure that `bytes` bytes from `at` on are in the buffer, or as many as the file has, and returns
    /// those from `at` on.
    fn fill(&mut self, files: &mut Files, at: u64, bytes: usize) -> Result<&mut [u8]> {
        let file = self.files[self.files.len() - 1];
        let left = files.lengths[file].saturating_sub(at);
        let wanted = left.min(bytes as u64);
        if at < self.start || at + wanted > self.start + self.buffer.len() as u64 {
            let count = left.min(self.chunk.max(bytes) as u64) as usize;
            self.buffer.resize(count, 0);
            self.start = at;
            files.read(file, at, &mut self.buffer)?;
        }
        Ok(&mut self.buffer[(at - self.start) as usize..])
    }

    /// The next frame that is not marked invalid: its file, its place and its header's facts; [`frame`](Self::frame)
    /// returns its bytes. [`None`] after the last one.
    pub(super) fn next(
        &mut self,
        files: &mut Files,
        framing: &impl Framing,
    ) -> Result<Option<(usize, u64, Stamp)>> {
        let size = framing.geometry().frame;
        while let Some(&file) = self.files.last() {
            let at = self.at;
            let bytes = self.fill(files, at, 2 * size)?;
            if bytes.len() >= size {
                match framing.stamp(&bytes[..size]) {
                    Ok(stamp) => {
                        self.at = at + size as u64;
                        self.end = self.at;
                        return Ok(Some((file, at, stamp)));
                    }
                    Err(Fault::Invalid) => {
                        // Few bits tell of such a frame, and many of a whole header: where one begins within it, other
                        // bytes stand before that.
                        let within = |place: &usize| {
                            let frame = bytes.get(*place..*place + size);
                            frame.is_some_and(|frame| framing.stamp(frame).is_ok())
                        };
                        match (1..size).find(within) {
                            Some(place) => self.at = at + place as u64,
                            None => {
                                self.at = at + size as u64;
                                self.end = self.at;
                            }
                        }
                        continue;
                    }
                    Err(Fault::Other(reason)) => return Err(files.fault(file, at, &reason)),
                    Err(Fault::NoHeader) => {
                        if self.find(files, framing)? {
                            continue;
                        }
                    }
                }
            }
            self.files.pop();
            (self.at, self.start) = (0, 0);
            self.buffer.clear();
        }
        Ok(None)
    }

    /// Advances to the next byte at which a frame of the recording begins; false where there is none. Headers agree
    /// in some fifty bits, which other bytes do not by chance.
    fn find(&mut self, files: &mut Files, framing: &impl Framing) -> Result<bool> {
        let size = framing.geometry().frame;
        let file = self.files[self.files.len() - 1];
        let last = files.lengths[file].saturating_sub(size as u64);
        let mut at = self.at + 1;
        while at <= last {
            let bytes = self.fill(files, at, size)?;
            let there = bytes.len() - size;
            let found = (0..=there).find(|&place| framing.stamp(&bytes[place..][..size]).is_ok());
            if let Some(place) = found {
                self.at = at + place as u64;
                return Ok(true);
            }
            at += there as u64 + 1;
        }
        Ok(false)
    }

    /// The bytes of the frame that [`next`](Self::next) gave last.
    pub(super) fn frame(&mut self, size: usize) -> &mut [u8] {
        let end = (self.at - self.start) as usize;
        &mut self.buffer[end - size..end]
    }
}
