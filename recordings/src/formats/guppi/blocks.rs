//! Blocks of the files of a recording, and the gaps between them.

use std::{
    fs::File,
    io::{BufReader, Seek, SeekFrom},
    path::PathBuf,
};

use corrust_host::{Error, Result};

use super::header::{Cards, Fault, Header, pad, zeros_before_sector};
use crate::formats::{input::read_rows, options::cut_short};

/// Bytes of two blocks that are compared at a time.
const COMPARED: usize = 1 << 20;

/// Place of the data of one block, in its file and in time.
#[derive(Clone, Debug)]
pub(super) struct DataBlock {
    pub(super) header: Header,
    /// Index of the file.
    pub(super) file: usize,
    /// Byte at which the header starts.
    pub(super) at: u64,
    /// Byte at which the data start.
    pub(super) data: u64,
    /// First time of the block, counted from the start of the recording.
    pub(super) start: u64,
}

impl DataBlock {
    /// The time after the block's last one.
    pub(super) fn end(&self, paths: &[PathBuf]) -> Result<u64> {
        self.start.checked_add(self.header.times).ok_or_else(|| {
            Error::file(&paths[self.file], "PKTIDX leads beyond any time that can be counted")
        })
    }
}

/// The blocks of a sequence of files in order, each checked against the first and the one before.
#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) paths: Vec<PathBuf>,
    /// The open file, its length, and the byte after the last block.
    file: Option<(BufReader<File>, u64, u64)>,
    /// Index of the file that is open or is to be opened next.
    index: usize,
    pub(super) first: Option<DataBlock>,
    previous: Option<DataBlock>,
    /// Packets of a block of the first one's size, once known.
    packets_per_block: Option<u64>,
    /// Another handle for data, with the index of its file, so that headers are not read again.
    data: Option<(usize, File)>,
    /// Whether a last block that is cut short is left out.
    keep_going: bool,
    /// Its fault.
    pub(super) left_out: Option<String>,
}

impl Blocks {
    pub(super) fn new(paths: &[PathBuf], keep_going: bool) -> Self {
        Self {
            paths: paths.to_vec(),
            keep_going,
            left_out: None,
            file: None,
            index: 0,
            first: None,
            previous: None,
            packets_per_block: None,
            data: None,
        }
    }

    /// Fills rows with the bytes of the file that `block` is in, from byte `from` on and `pitch` bytes apart.
    pub(super) fn read<'a>(
        &mut self,
        block: &DataBlock,
        from: u64,
        pitch: u64,
        rows: impl IntoIterator<Item = &'a mut [u8]>,
    ) -> Result<()> {
        let path = &self.paths[block.file];
        let file = match &mut self.data {
            Some((index, file)) if *index == block.file => file,
            slot => {
                let file = File::open(path).map_err(Error::io(path, "read"))?;
                &mut slot.insert((block.file, file)).1
            }
        };
        read_rows(file, from, pitch, rows).map_err(Error::io(path, "read"))
    }

    /// The error for a recording that ends earlier than when it was opened.
    pub(super) fn changed(&self) -> Error {
        let path = self.paths.last().cloned().unwrap_or_default();
        Error::file(path, "has become shorter while it was read")
    }

    /// The next block, or `None` after the last one.
    pub(super) fn next(&mut self) -> Result<Option<DataBlock>> {
        while self.index < self.paths.len() {
            let path = &self.paths[self.index];
            let (reader, length, position) = match &mut self.file {
                Some(open) => open,
                closed => {
                    let file = File::open(path).map_err(Error::io(path, "read"))?;
                    let length = file.metadata().map_err(Error::io(path, "read"))?.len();
                    closed.insert((BufReader::new(file), length, 0))
                }
            };
            let fault = |reason: String| Error::file(path, reason);
            let at = *position;
            let is_last = self.index + 1 == self.paths.len();
            // A recording that was cut short, by a crash or a full disk, ends with a part of a block.
            let truncated = |reason: String| match is_last {
                true => cut_short(path, &reason, "block"),
                false => fault(reason),
            };
            let cards = reader
                .seek(SeekFrom::Start(at))
                .map_err(|error| Fault::Other(format!("cannot read: {error}")))
                .and_then(|_| Cards::read(reader));
            let (cards, card_bytes) = match cards {
                Ok(Some(cards)) => cards,
                Ok(None) => {
                    self.file = None;
                    self.index += 1;
                    continue;
                }
                Err(Fault::Truncated(reason)) if is_last && self.keep_going => {
                    return Ok(self.leave_out(reason));
                }
                Err(Fault::Truncated(reason)) => return Err(truncated(reason)),
                Err(Fault::Other(reason)) => return Err(fault(reason)),
            };
            let header = Header::parse(&cards)
                .map_err(|reason| fault(format!("{reason} (block at byte {at})")))?;
            let padded = |bytes: u64| if header.direct_io { pad(bytes) } else { bytes };
            let data = at + padded(card_bytes);
            let left = length.saturating_sub(data);
            if left < header.bytes {
                let reason = format!(
                    "truncated: {left} bytes of data in the block at byte {at}, expected {}",
                    header.bytes
                );
                if is_last && self.keep_going {
                    return Ok(self.leave_out(reason));
                }
                return Err(truncated(reason));
            }
            *position = data + header.bytes;
            if header.direct_io {
                *position += zeros_before_sector(reader, *position, *length)
                    .map_err(Error::io(path, "read"))?;
            }
            let file = self.index;
            if self.is_repeated(&header, data)? {
                continue;
            }
            let start = self.start(&header, file, at)?;
            let block = DataBlock { header, file, at, data, start };
            self.first.get_or_insert_with(|| block.clone());
            self.previous = Some(block.clone());
            return Ok(Some(block));
        }
        Ok(None)
    }

    /// Whether a block is the one before, written again: its packets and its data.
    fn is_repeated(&mut self, header: &Header, data: u64) -> Result<bool> {
        let Some(previous) = self.previous.clone() else { return Ok(false) };
        if header.packet.is_none()
            || (header.packet, header.bytes) != (previous.header.packet, previous.header.bytes)
            || header.shared() != previous.header.shared()
        {
            return Ok(false);
        }
        let mut at = 0;
        let [mut one, mut other] = [Vec::new(), Vec::new()];
        while at < header.bytes {
            let count = (header.bytes - at).min(COMPARED as u64) as usize;
            [&mut one, &mut other].into_iter().for_each(|bytes| bytes.resize(count, 0));
            self.read(&previous, previous.data + at, 0, [&mut one[..]])?;
            let again = DataBlock { file: self.index, data, ..previous.clone() };
            self.read(&again, data + at, 0, [&mut other[..]])?;
            if one != other {
                return Ok(false);
            }
            at += count as u64;
        }
        Ok(true)
    }

    /// Ends the recording before a block that is cut short.
    fn leave_out(&mut self, reason: String) -> Option<DataBlock> {
        self.left_out = Some(format!("{}: {reason}", self.paths[self.index].display()));
        self.file = None;
        self.index = self.paths.len();
        None
    }

    /// First time of a block, from its `PKTIDX` if it has one, else from the block before.
    fn start(&mut self, header: &Header, file: usize, at: u64) -> Result<u64> {
        let fault = |reason: String| {
            Error::file(&self.paths[file], format!("{reason} (block at byte {at})"))
        };
        let (Some(first), Some(previous)) = (&self.first, &self.previous) else {
            return Ok(0);
        };
        if header.shared() != first.header.shared() {
            return Err(fault(format!(
                "{}: expected {} as in the first block",
                header.describe(),
                first.header.describe()
            )));
        }
        let follows = previous.end(&self.paths)? - previous.header.overlap;
        let (Some(packet), Some(first_packet)) = (header.packet, first.header.packet) else {
            return Ok(follows);
        };
        let advance =
            packet.checked_sub(first_packet).filter(|&advance| advance > 0).ok_or_else(|| {
                fault(format!(
                    "PKTIDX = {packet}: expected more than the first block's {first_packet}"
                ))
            })?;
        let packets = *self
            .packets_per_block
            .get_or_insert(first.header.packets_per_block.unwrap_or(advance));
        let fresh = first.header.times - first.header.overlap;
        let times = u128::from(advance) * u128::from(fresh);
        let packets = u128::from(packets);
        let start = u64::try_from(times / packets)
            .ok()
            .filter(|start| times % packets == 0 && *start >= follows)
            .ok_or_else(|| {
                let least = (u128::from(follows) * packets).div_ceil(u128::from(fresh));
                fault(format!(
                    "PKTIDX = {packet}, {advance} after the first block's: expected a whole number \
                     of times, at least {least} packets, at {packets} packets for {fresh} times"
                ))
            })?;
        Ok(start)
    }
}
