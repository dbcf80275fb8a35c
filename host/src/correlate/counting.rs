//! Counting of valid samples behind the work of a device.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::mpsc::{Receiver, TryRecvError, channel},
    thread,
};

use rayon::Yield;

use super::{gates::Gates, valid::Counter, visibilities::ValidCounts};
use crate::samples::{missing::Missing, shape::Shape};

/// Most blocks that wait to be counted, and gaps of theirs, of 48 bytes each.
const MOST_WAITING: usize = 64;
const MOST_GAPS: usize = 1 << 16;

/// Counter of the samples behind a gate's sums, which other threads have while the caller goes on.
#[derive(Default)]
pub(super) struct Counting {
    /// The counter, where no other thread has it.
    counter: Counter,
    /// Its way back from the thread that counts, or the panic of that.
    away: Option<Receiver<Result<Counter, Box<dyn Any + Send>>>>,
    /// Gaps and numbers of times of the blocks that nobody counts yet.
    waiting: Vec<(Vec<Missing>, usize)>,
}

impl Counting {
    /// Counts a block of `times` times, of which those whose number is `gate` belong to the gate; without numbers of gates,
    /// later, if some of it is missing.
    pub(super) fn add(
        &mut self,
        shape: &Shape,
        gaps: &[Missing],
        gates: (Option<Gates<'_>>, usize),
        times: usize,
    ) {
        let is_here = self.away.is_none() && self.waiting.is_empty();
        if gates.0.is_some() || gaps.is_empty() && is_here {
            return self.settle(shape).add(shape, gaps, gates, times);
        }
        self.waiting.push((gaps.to_vec(), times));
        let gaps: usize = self.waiting.iter().map(|(gaps, _)| gaps.len()).sum();
        let must_wait = self.waiting.len() >= MOST_WAITING || gaps >= MOST_GAPS;
        let is_back = match &self.away {
            Some(away) if !must_wait => match away.try_recv() {
                Ok(counted) => {
                    self.take(counted);
                    true
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => false,
            },
            _ => {
                self.fetch();
                true
            }
        };
        if is_back {
            self.send(*shape);
        }
    }

    /// Has the blocks that wait counted by another thread.
    fn send(&mut self, shape: Shape) {
        let mut counter = mem::take(&mut self.counter);
        let blocks = mem::take(&mut self.waiting);
        let (sender, away) = channel();
        rayon::spawn(move || {
            let counted = catch_unwind(AssertUnwindSafe(|| {
                for (gaps, times) in &blocks {
                    counter.add(&shape, gaps, (None, 0), *times);
                }
                counter
            }));
            // Nobody waits for counts that are reset.
            let _ = sender.send(counted);
        });
        self.away = Some(away);
    }

    /// Waits for the counter.
    fn fetch(&mut self) {
        let Some(away) = self.away.take() else { return };
        let counted = loop {
            match away.try_recv() {
                Ok(counted) => break counted,
                Err(_) => match rayon::yield_now() {
                    // A thread of the pool counts itself if no other does.
                    Some(Yield::Executed) => {}
                    Some(Yield::Idle) => thread::yield_now(),
                    None => break away.recv().expect("the thread that counts answers"),
                },
            }
        };
        self.take(counted);
    }

    fn take(&mut self, counted: Result<Counter, Box<dyn Any + Send>>) {
        self.away = None;
        self.counter = counted.unwrap_or_else(|panic| resume_unwind(panic));
    }

    /// Waits until all blocks are counted.
    pub(super) fn settle(&mut self, shape: &Shape) -> &mut Counter {
        self.fetch();
        for (gaps, times) in self.waiting.drain(..) {
            self.counter.add(shape, &gaps, (None, 0), times);
        }
        &mut self.counter
    }

    /// The times of the integration, of channels that differ those of the channel that has most, and the valid samples among
    /// them.
    pub(super) fn finish(mut self, shape: &Shape) -> (u64, ValidCounts) {
        mem::take(self.settle(shape)).finish(shape)
    }
}
