//! Reading and computing at the same time.

use std::{
    ops::Range,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel, sync_channel},
    },
    thread,
};

use corrust_host::{Error, Result, device::Gpu};

use super::recording::{Block, Recording};

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
    /// Starts to read `recording` in blocks of `times` times. Fewer are in the block before a gap that is
    /// longer than a block; the block after it says how long it is.
    pub fn new<S: 'static>(recording: Box<dyn Recording<S>>, times: usize) -> Self {
        Self::locked_for(None, recording, times)
    }

    /// [`new`](Self::new) into memory that a GPU has locked, if there is one: bytes that are read into it go to the
    /// GPU without another copy.
    pub fn locked_for<S: 'static>(
        gpu: Option<&Arc<dyn Gpu>>,
        mut recording: Box<dyn Recording<S>>,
        times: usize,
    ) -> Self {
        let gpu = gpu.cloned();
        let (sender, blocks) = sync_channel(WAITING);
        let (spent, empty) = channel::<Block>();
        let refused = sender.clone();
        // The thread ends with the recording, with an error, or when its user is gone.
        let started = thread::Builder::new().spawn(move || {
            let long = |gap: &&Range<u64>| gap.end - gap.start > times as u64;
            let gaps: Vec<Range<u64>> = recording.gaps().iter().filter(long).cloned().collect();
            let mut gaps = gaps.into_iter().peekable();
            let mut position = 0;
            loop {
                let gap = gaps.next_if(|gap| gap.start == position).unwrap_or(position..position);
                let skipped = gap.end - gap.start;
                position = gap.end;
                let present = gaps.peek().map_or(u64::MAX, |gap| gap.start - position);
                let count = usize::try_from(present).map_or(times, |present| present.min(times));

                let mut block =
                    empty.try_recv().unwrap_or_else(|_| Block::locked_for(gpu.as_ref()));
                block.gap = 0;
                let passed = recording.skip(skipped);
                let read = passed.and_then(|()| recording.read_block(count, &mut block));
                position += block.gap + block.times as u64;
                block.gap += skipped;
                let last = !matches!(read, Ok(count) if count > 0);
                if sender.send(read.map(|_| block)).is_err() || last {
                    break;
                }
            }
        });
        if let Err(error) = started {
            let reason = format!("CPU: the thread that reads cannot be started: {error}");
            let _ = refused.send(Err(Error::Device(reason)));
        }
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

    /// The block that [`next_block`](Self::next_block) gave last, or an empty one.
    pub fn current(&self) -> &Block {
        &self.current
    }
}
