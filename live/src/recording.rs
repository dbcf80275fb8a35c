//! A stream of heaps as a recording, which products are made of as of files.

use std::{
    num::NonZeroU64,
    sync::mpsc::{Receiver as Incoming, Sender},
    time::{Duration, Instant},
};

use corrust_host::{
    Result,
    samples::{Missing, Shape},
};
use corrust_recordings::{
    array::time::Timestamp,
    formats::{Block, Recording},
};

use super::{
    chunks::{Chunk, Geometry, Passed},
    files::Clock,
    receive::Receiver,
};

/// How long to wait for a chunk before it is asked whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Longest gap in seconds that counts as missing samples. After a longer one, or a step back, the senders have begun
/// again, and the recording is over.
const LONGEST_GAP: f64 = 600.0;

/// The heaps of a stream as a [`Recording`] of `ci8` samples in `cnt` order, whose length shows only at its end: products
/// are made of it while it comes.
///
/// Times that never came, of some F-engines or of all, are missing. It ends when it is told to stop, after
/// [`until`](Self::until) so many times, after a [silence](Self::silence), or where the time of the heaps steps back or
/// more than ten minutes ahead.
pub struct StreamRecording {
    geometry: Geometry,
    clock: Clock,
    receiver: Option<Receiver>,
    spent: Sender<Chunk>,
    passed: Incoming<Passed>,
    stop: Box<dyn FnMut() -> bool + Send>,
    silence: Option<Duration>,
    /// When a chunk came last.
    came: Instant,
    /// Its first time, counted from timestamp 0.
    first: u64,
    /// Times that were read.
    position: u64,
    end: u64,
    /// The chunk that is being read, and its missing samples.
    current: Option<(Passed, Vec<Missing>)>,
    /// Whether the time may jump before the next chunk.
    jumped: bool,
}

impl StreamRecording {
    /// A recording of what `receiver` gets, whose chunks come from `passed` and are handed back through `spent`. `stop` is
    /// asked 20 times a second whether it is to end.
    pub fn new(
        receiver: Receiver,
        geometry: Geometry,
        clock: Clock,
        (spent, passed): (Sender<Chunk>, Incoming<Passed>),
        stop: impl FnMut() -> bool + Send + 'static,
    ) -> Self {
        Self {
            geometry,
            clock,
            receiver: Some(receiver),
            spent,
            passed,
            stop: Box::new(stop),
            silence: None,
            came: Instant::now(),
            first: 0,
            position: 0,
            end: u64::MAX,
            current: None,
            jumped: false,
        }
    }

    /// Ends it when nothing has come for so long.
    pub fn silence(&mut self, silence: Option<Duration>) {
        self.silence = silence;
        self.came = Instant::now();
    }

    /// Ends it after `times` times.
    pub fn until(&mut self, times: u64) {
        self.end = times;
    }

    /// Waits until something comes, and begins there: at the first time that is a multiple of `align`, counted from
    /// timestamp 0. Returns false where the stream ended before.
    pub fn begin(&mut self, align: NonZeroU64) -> bool {
        let began = self.go_on();
        if let Some((Passed { start, chunk: Some(chunk), .. }, _)) = &self.current {
            let came = start + chunk.first_time(&self.geometry).unwrap_or(0);
            self.first = came.checked_next_multiple_of(align.get()).unwrap_or(came);
        }
        began
    }

    /// Goes on to a chunk of which something has not been read; whether there is one.
    fn go_on(&mut self) -> bool {
        while self.current.is_none() {
            let silent = self.silence.is_some_and(|silence| self.came.elapsed() > silence);
            if (silent || (self.stop)())
                && let Some(receiver) = self.receiver.take()
            {
                receiver.stop();
            }
            match self.passed.recv_timeout(LOOK) {
                Ok(passed) => {
                    self.came = Instant::now();
                    let missing = passed.chunk.as_ref().map(|chunk| chunk.missing(&self.geometry));
                    let jumped = std::mem::replace(&mut self.jumped, passed.jumped);
                    if jumped && !self.is_next(passed.start) {
                        self.receiver = None;
                        self.end = self.position;
                        return false;
                    }
                    self.current = missing.map(|missing| (passed, missing));
                }
                Err(_) if self.receiver.is_none() => return false,
                Err(_) => {}
            }
        }
        true
    }

    /// Whether a time that was jumped to is of the same recording.
    fn is_next(&self, start: u64) -> bool {
        let gap = start.checked_sub(self.now());
        self.position == 0
            || gap.is_some_and(|gap| gap as f64 * self.clock.interval() <= LONGEST_GAP)
    }

    /// The time that comes next, counted from timestamp 0.
    fn now(&self) -> u64 {
        self.first + self.position
    }

    /// Hands the memory of the current chunk back.
    fn pass(&mut self) {
        if let Some((Passed { chunk: Some(chunk), .. }, _)) = self.current.take() {
            // Refused when nobody receives any more.
            let _ = self.spent.send(chunk);
        }
    }

    /// Copies the times of the current chunk from time `now` on to a block, which has room for them from `filled` on, and
    /// returns how many; 0 when all have been read.
    fn copy(&self, block: &mut Block, filled: usize) -> Result<usize> {
        let Some((Passed { start, end, chunk: Some(chunk), .. }, missing)) = &self.current else {
            return Ok(0);
        };
        let now = self.now() + filled as u64;
        let count = end.saturating_sub(now).min((block.times - filled) as u64) as usize;
        if count == 0 {
            return Ok(0);
        }
        let (shape, at) = (self.geometry.shape(), (now - start) as usize);
        let sample = shape.encoding.zero().len();
        let from = chunk.samples(&self.geometry, 0..shape.channels)?;
        let from = from.chunks_exact(self.geometry.chunk_times() * sample);
        let rows = block.samples.chunks_exact_mut(block.times * sample);
        for (row, from) in rows.zip(from) {
            row[filled * sample..][..count * sample]
                .copy_from_slice(&from[at * sample..][..count * sample]);
        }
        for each in missing {
            let within = each.times.start.max(at)..each.times.end.min(at + count);
            if !within.is_empty() {
                let times = within.start - at + filled..within.end - at + filled;
                lose(block, &shape, Missing { times, ..each.clone() });
            }
        }
        Ok(count)
    }
}

/// Has samples of a block be missing.
fn lose(block: &mut Block, shape: &Shape, missing: Missing) {
    block.clear(shape, &missing);
    block.missing.push(missing);
}

/// Has a block of `cnt` samples end after its first `times` times.
fn cut(block: &mut Block, shape: &Shape, times: usize) -> Result<()> {
    let sample = shape.encoding.zero().len();
    let (from, to) = (block.times * sample, times * sample);
    for row in 0..shape.channels * shape.inputs {
        block.samples.copy_within(row * from..row * from + to, row * to);
    }
    block.times = times;
    block.samples.resize(shape.bytes(times))
}

impl Recording for StreamRecording {
    fn shape(&self) -> Shape {
        self.geometry.shape()
    }

    fn times(&self) -> u64 {
        u64::MAX
    }

    fn interval(&self) -> Option<f64> {
        Some(self.clock.interval())
    }

    fn start(&self) -> Option<Timestamp> {
        Some(self.clock.moment(self.first))
    }

    /// Reads times as they come. Gaps of whole blocks are left out, and told by [`Block::gap`].
    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let shape = self.shape();
        block.reset(&shape, 0)?;
        let left = self.end - self.position;
        if left == 0 || times == 0 || !self.go_on() {
            self.receiver = None;
            return Ok(0);
        }
        let ahead = self.current.as_ref().map_or(0, |(passed, _)| passed.start);
        let gap = ahead.saturating_sub(self.now()).min(left) / times as u64 * times as u64;
        let count = usize::try_from(left - gap).map_or(times, |left| left.min(times));
        self.position += gap;
        block.reset(&shape, count)?;
        block.gap = gap;
        let mut filled = 0;
        while filled < count && self.go_on() {
            let now = self.now() + filled as u64;
            let start = self.current.as_ref().map_or(now, |(passed, _)| passed.start);
            let absent = start.saturating_sub(now).min((count - filled) as u64) as usize;
            if absent > 0 {
                lose(block, &shape, Missing::times(filled..filled + absent));
                filled += absent;
                continue;
            }
            match self.copy(block, filled)? {
                0 => self.pass(),
                copied => filled += copied,
            }
        }
        if filled < count {
            cut(block, &shape, filled)?;
        }
        self.position += filled as u64;
        Ok(filled)
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        let end = self.position.saturating_add(times).min(self.end);
        let mut block = Block::new();
        while self.position < end {
            let most = (end - self.position).min(self.geometry.chunk_times() as u64) as usize;
            if self.read_block(most, &mut block)? == 0 {
                break;
            }
        }
        Ok(())
    }
}
