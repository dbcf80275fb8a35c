//! Reading and computing at the same time.

use std::{
    sync::mpsc::{Receiver, Sender, channel, sync_channel},
    thread,
};

use super::{Block, Recording};
use crate::Result;

/// Blocks that wait to be used while the next one is being read.
const WAITING: usize = 1;

/// Reads a recording in a thread of its own, a block ahead of its user. At most three blocks are in
/// memory: one in use, one waiting, one being read.
#[derive(Debug)]
pub struct ReadAhead {
    blocks: Receiver<Result<Block>>,
    spent: Sender<Block>,
    current: Block,
}

impl ReadAhead {
    /// Starts to read `recording` in blocks of `times` times.
    pub fn new(mut recording: Box<dyn Recording>, times: usize) -> Self {
        let (sender, blocks) = sync_channel(WAITING);
        let (spent, empty) = channel::<Block>();
        // The thread ends with the recording, with an error, or when its user is gone.
        thread::spawn(move || {
            loop {
                let mut block = empty.try_recv().unwrap_or_default();
                let read = recording.read_block(times, &mut block);
                let last = !matches!(read, Ok(count) if count > 0);
                if sender.send(read.map(|_| block)).is_err() || last {
                    break;
                }
            }
        });
        Self { blocks, spent, current: Block::new() }
    }

    /// The next block, or `None` at the end of the recording.
    ///
    /// # Errors
    /// As for [`Recording::read_block`]; the recording ends there.
    pub fn next_block(&mut self) -> Result<Option<&Block>> {
        // Refused when the thread has ended, and then no longer needed.
        let _ = self.spent.send(std::mem::take(&mut self.current));
        match self.blocks.recv() {
            Ok(block) => self.current = block?,
            Err(_) => return Ok(None),
        }
        Ok((self.current.times > 0).then_some(&self.current))
    }
}
