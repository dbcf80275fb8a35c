//! Blocks in host memory: a recording's, and their way to a thread that uses them.

use std::{
    iter::Peekable,
    ops::Range,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel, sync_channel},
    },
    thread, vec,
};

use corrust_host::{Error, Result, device::Gpu, samples::Shape};

use super::source::{Head, Recorded};
use crate::formats::{Block, Recording};

/// Maker of blocks in host memory, on the thread of the [`Reader`](super::Reader) that hands them out: a recording
/// ([`BlocksOf`]), or a step over another maker.
pub trait Blocks<S: Recorded = Shape>: Send {
    /// Facts of the stream.
    fn head(&self) -> &Head<S>;

    /// Most times of a block.
    fn block_times(&self) -> usize;

    /// Makes the next block in `block`, whose memory is used again, and returns whether there is one. A gap before it has no
    /// samples ([`Block::gap`]).
    ///
    /// # Errors
    /// As for [`Recording::read_block`]; a step's own. Nothing comes after an error.
    fn next(&mut self, block: &mut Block) -> Result<bool>;

    /// Samples of each input that an F-engine has clipped so far; empty without one.
    ///
    /// # Errors
    /// The device's own.
    fn clipped(&self) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }
}

impl<S: Recorded, T: Blocks<S> + ?Sized> Blocks<S> for Box<T> {
    fn head(&self) -> &Head<S> {
        (**self).head()
    }

    fn block_times(&self) -> usize {
        (**self).block_times()
    }

    fn next(&mut self, block: &mut Block) -> Result<bool> {
        (**self).next(block)
    }

    fn clipped(&self) -> Result<Vec<u64>> {
        (**self).clipped()
    }
}

/// Blocks of a recording, in its encoding and layout. Gaps that are longer than a block are passed over.
pub struct BlocksOf<S: Recorded = Shape> {
    recording: Box<dyn Recording<S>>,
    head: Head<S>,
    times: usize,
    /// Gaps to pass over.
    gaps: Peekable<vec::IntoIter<Range<u64>>>,
    position: u64,
}

impl<S: Recorded> BlocksOf<S> {
    /// Blocks of `times` times, at least 1, of bits whole words.
    pub fn recording(recording: Box<dyn Recording<S>>, times: usize) -> Self {
        let head = Head::of(&*recording);
        let times = times.max(1).next_multiple_of(head.shape.word() as usize);
        let long = |gap: &&Range<u64>| gap.end - gap.start > times as u64;
        let gaps: Vec<_> = recording.gaps().iter().filter(long).cloned().collect();
        Self { recording, head, times, gaps: gaps.into_iter().peekable(), position: 0 }
    }

    /// Reads gaps, too, as missing samples: every block but the last has all its times, but for those of a live stream.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { gaps: Vec::new().into_iter().peekable(), ..self }
    }
}

impl<S: Recorded> Blocks<S> for BlocksOf<S> {
    fn head(&self) -> &Head<S> {
        &self.head
    }

    fn block_times(&self) -> usize {
        self.times
    }

    fn next(&mut self, block: &mut Block) -> Result<bool> {
        let gap = self.gaps.next_if(|gap| gap.start == self.position);
        let skipped = gap.map_or(0, |gap| gap.end - gap.start);
        self.recording.skip(skipped)?;
        self.position += skipped;
        let present = self.gaps.peek().map_or(u64::MAX, |gap| gap.start - self.position);
        let times = usize::try_from(present).map_or(self.times, |present| present.min(self.times));
        block.gap = 0;
        let read = self.recording.read_block(times, block)?;
        self.position += block.gap + block.times as u64;
        block.gap += skipped;
        Ok(read > 0)
    }
}

/// Blocks that wait to be used while the next one is being made.
const WAITING: usize = 1;

/// A block, and the samples of each input that were clipped until its end.
type Made = Result<Option<(Block, Vec<u64>)>>;

/// Makes blocks in a thread of its own, one ahead of its user. At most three are in memory: one in use, one waiting, one
/// being made.
pub(super) struct Ahead {
    made: Receiver<Made>,
    spent: Sender<Block>,
    current: Block,
    clipped: Vec<u64>,
}

impl Ahead {
    /// Starts to make `blocks`, in memory that a GPU has locked, if there is one: bytes that are read into it go to the GPU
    /// without another copy.
    pub fn start<S: Recorded>(gpu: Option<&Arc<dyn Gpu>>, mut blocks: Box<dyn Blocks<S>>) -> Self {
        let gpu = gpu.cloned();
        let (sender, made) = sync_channel(WAITING);
        let (spent, empty) = channel::<Block>();
        let refused = sender.clone();
        // The thread ends with the blocks, with an error, or when its user is gone.
        let started = thread::Builder::new().spawn(move || {
            loop {
                let mut block =
                    empty.try_recv().unwrap_or_else(|_| Block::locked_for(gpu.as_ref()));
                let made = blocks.next(&mut block).and_then(|is_made| {
                    is_made.then(|| Ok((block, blocks.clipped()?))).transpose()
                });
                let is_last = !matches!(made, Ok(Some(_)));
                if sender.send(made).is_err() || is_last {
                    break;
                }
            }
        });
        if let Err(error) = started {
            let reason = format!("CPU: the thread that reads cannot be started: {error}");
            let _ = refused.send(Err(Error::Device(reason)));
        }
        Self { made, spent, current: Block::new(), clipped: Vec::new() }
    }

    /// Advances to the next block, and returns whether there is one.
    pub fn advance(&mut self) -> Result<bool> {
        // Refused when the thread has ended, and then no longer needed.
        let _ = self.spent.send(std::mem::take(&mut self.current));
        match self.made.recv() {
            Ok(made) => match made? {
                Some(made) => (self.current, self.clipped) = made,
                None => return Ok(false),
            },
            Err(_) => return Ok(false),
        }
        Ok(true)
    }

    /// The current block, or an empty one.
    pub fn current(&self) -> &Block {
        &self.current
    }

    /// Samples of each input that were clipped until the end of the current block.
    pub fn clipped(&self) -> &[u64] {
        &self.clipped
    }
}
