//! A stream of heaps or of frames as a recording, which products are made of as of files.

use std::{
    num::NonZeroU64,
    ops::Range,
    sync::mpsc::{Receiver as Incoming, Sender},
    time::{Duration, Instant},
};

use corrust_host::{
    Result,
    samples::{Missing, RawLayout, RawShape, Shape},
};
use corrust_recordings::{
    array::time::Timestamp,
    formats::{Block, Recording},
};

use super::{
    chunks::{Chunk, Geometry},
    files::Clock,
    frames::{Frames, RawChunk},
    receive::{Receiver, Watch},
    stream::Stream,
    tally::Fate,
    window::Passed,
};

/// Longest wait for a chunk before a signal to stop is checked.
const LOOK: Duration = Duration::from_millis(50);

/// Silence after the last time that was asked for until heaps before it count as lost, not
/// late.
const SETTLED: Duration = Duration::from_secs(1);

/// Longest gap in seconds that counts as missing samples. After a longer one, or a step back, the senders have begun
/// again, and the recording is over.
const LONGEST_GAP: f64 = 600.0;

/// Stream whose chunks are read one after the other: heaps of channels ([`Geometry`]), or frames of raw voltages
/// ([`Frames`]).
pub trait Readable: Stream {
    /// Shape of the samples.
    type Shape: Copy + Send + 'static;

    /// Shape of a chunk's samples.
    fn shape_of(&self) -> Self::Shape;

    /// Number of rows in which `times` times of samples lie one after the other, and bytes of a row.
    fn rows(&self, times: usize) -> [usize; 2];

    /// First time of a chunk of which something came; [`None`] where nothing came.
    fn first_of(&self, chunk: &Self::Chunk) -> Option<u64>;

    /// Missing samples of a chunk.
    fn missing_of(&self, chunk: &Self::Chunk) -> Vec<Missing>;

    /// Copies times `from` of a chunk to times of a block from `filled` on.
    ///
    /// # Errors
    /// The device's own, of samples in a GPU's memory.
    fn copy(
        &self,
        chunk: &Self::Chunk,
        missing: &[Missing],
        from: Range<usize>,
        block: &mut Block,
        filled: usize,
    ) -> Result<()>;

    /// Marks samples of a block as missing.
    fn mark_missing(&self, block: &mut Block, missing: Missing);
}

impl Readable for Geometry {
    type Shape = Shape;

    fn shape_of(&self) -> Shape {
        self.shape()
    }

    fn rows(&self, times: usize) -> [usize; 2] {
        let shape = self.shape();
        [shape.channels * shape.inputs, times * shape.encoding.bytes()]
    }

    fn first_of(&self, chunk: &Chunk) -> Option<u64> {
        chunk.first_time(self)
    }

    fn missing_of(&self, chunk: &Chunk) -> Vec<Missing> {
        chunk.missing(self)
    }

    fn copy(
        &self,
        chunk: &Chunk,
        _: &[Missing],
        from: Range<usize>,
        block: &mut Block,
        filled: usize,
    ) -> Result<()> {
        let sample = self.shape().encoding.bytes();
        let bytes = chunk.samples(self, 0..self.shape().channels)?;
        let chunk_rows = bytes.chunks_exact(self.chunk_times() * sample);
        let rows = block.samples.chunks_exact_mut(block.times * sample);
        for (row, of_chunk) in rows.zip(chunk_rows) {
            row[filled * sample..][..from.len() * sample]
                .copy_from_slice(&of_chunk[from.start * sample..from.end * sample]);
        }
        Ok(())
    }

    fn mark_missing(&self, block: &mut Block, missing: Missing) {
        block.clear(&self.shape(), std::slice::from_ref(&missing));
        block.missing.push(missing);
    }
}

impl Readable for Frames {
    type Shape = RawShape;

    fn shape_of(&self) -> RawShape {
        self.shape()
    }

    fn rows(&self, times: usize) -> [usize; 2] {
        let shape = self.shape();
        match shape.layout {
            RawLayout::Nt => [shape.inputs, shape.pitch(times)],
            RawLayout::Tn => [1, shape.bytes(times)],
        }
    }

    fn first_of(&self, chunk: &RawChunk) -> Option<u64> {
        chunk.first_time(self)
    }

    fn missing_of(&self, chunk: &RawChunk) -> Vec<Missing> {
        chunk.missing()
    }

    fn copy(
        &self,
        chunk: &RawChunk,
        missing: &[Missing],
        from: Range<usize>,
        block: &mut Block,
        filled: usize,
    ) -> Result<()> {
        block.put_raw(&self.shape(), filled, &chunk.view(missing).times(from));
        Ok(())
    }

    fn mark_missing(&self, block: &mut Block, missing: Missing) {
        block.missing.push(missing);
    }
}

/// A stream as a [`Recording`], whose length shows only at its end: products are made of it while it comes. Heaps are
/// `ci8` samples in `cnt` order, frames raw voltages.
///
/// Times that never came, of some F-engines or threads or of all, are missing. It ends when it is told to stop, after
/// a number of times ([`until`](Self::until)), after a [silence](Self::silence), or where the time of the heaps or frames
/// steps back or more than ten minutes ahead.
pub struct StreamRecording<S: Stream = Geometry> {
    stream: S,
    clock: Clock,
    receiver: Option<Receiver>,
    spent: Sender<S::Chunk>,
    passed: Incoming<Passed<S::Chunk>>,
    stop: Box<dyn FnMut() -> bool + Send>,
    /// Silences that end it: at any time, and after something came.
    silence: Option<Duration>,
    rest: Option<Duration>,
    watch: Watch,
    /// Number of heaps or frames that had come, and when the last of them did.
    heard: u64,
    came: Instant,
    /// First times are multiples of this.
    align: NonZeroU64,
    /// Its first time, counted from timestamp 0.
    first: u64,
    /// Times that were read.
    position: u64,
    end: u64,
    /// The chunk that is being read, and its missing samples.
    current: Option<(Passed<S::Chunk>, Vec<Missing>)>,
    /// Whether the time may jump before the next chunk.
    jumped: bool,
}

impl<S: Readable> StreamRecording<S> {
    /// A recording of what `receiver` gets, whose chunks come from `passed` and are handed back through `spent`. `stop` is
    /// asked 20 times a second whether it is to end.
    pub fn new(
        receiver: Receiver,
        stream: S,
        clock: Clock,
        (spent, passed): (Sender<S::Chunk>, Incoming<Passed<S::Chunk>>),
        stop: impl FnMut() -> bool + Send + 'static,
    ) -> Self {
        Self {
            stream,
            clock,
            watch: receiver.watch(),
            receiver: Some(receiver),
            spent,
            passed,
            stop: Box::new(stop),
            silence: None,
            rest: None,
            heard: 0,
            came: Instant::now(),
            align: NonZeroU64::MIN,
            first: 0,
            position: 0,
            end: u64::MAX,
            current: None,
            jumped: false,
        }
    }

    /// Ends it when nothing has come for `silence`, counted from now.
    pub fn silence(&mut self, silence: Option<Duration>) {
        self.silence = silence;
        self.came = Instant::now();
    }

    /// Ends it when nothing has come for `rest` after something did.
    pub fn rest(&mut self, rest: Option<Duration>) {
        self.rest = rest;
    }

    /// Ends it after `times` times. Where all of them came, it waits for no others.
    pub fn until(&mut self, times: u64) {
        self.end = times;
    }

    /// Waits until something comes, and begins there: at the first time that is a multiple of `align`, counted from
    /// timestamp 0. Returns false where the stream ended before.
    pub fn begin(&mut self, align: NonZeroU64) -> bool {
        self.align = align;
        let began = self.go_on();
        if let Some((Passed { start, chunk: Some(chunk), .. }, _)) = &self.current {
            let came = start + self.stream.first_of(chunk).unwrap_or(0);
            self.first = came.checked_next_multiple_of(align.get()).unwrap_or(came);
        }
        began
    }

    /// The first time, counted from timestamp 0, once it has [begun](Self::begin).
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Advances to a chunk that has unread times; false where there is none.
    fn go_on(&mut self) -> bool {
        while self.current.is_none() {
            if (self.is_over() || (self.stop)())
                && let Some(receiver) = self.receiver.take()
            {
                receiver.stop();
            }
            match self.passed.recv_timeout(LOOK) {
                Ok(passed) => {
                    let missing = passed.chunk.as_ref().map(|chunk| self.stream.missing_of(chunk));
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

    /// Whether nothing else is to come: there was silence, or all came that was asked for and nothing follows it.
    fn is_over(&mut self) -> bool {
        let tally = self.watch.tally();
        let heard = Fate::ALL.iter().map(|fate| tally.heaps(*fate)).sum();
        if std::mem::replace(&mut self.heard, heard) != heard {
            self.came = Instant::now();
            return false;
        }
        let quiet = self.came.elapsed();
        let rest = self.rest.filter(|_| heard > 0);
        if [self.silence, rest].into_iter().flatten().any(|silence| quiet > silence) {
            return true;
        }
        let span = self.watch.span().filter(|_| quiet > SETTLED);
        span.is_some_and(|span| {
            let began = self.current.is_some() || self.position > 0 || self.first > 0;
            let first = match began {
                true => Some(self.first),
                false => span.start.checked_next_multiple_of(self.align.get()),
            };
            let end = first.and_then(|first| first.checked_add(self.end));
            end.is_some_and(|end| end <= span.end)
        })
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
    fn return_chunk(&mut self) {
        if let Some((Passed { chunk: Some(chunk), .. }, _)) = self.current.take() {
            // Fails when the receiver is gone.
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
        let at = (now - start) as usize;
        self.stream.copy(chunk, missing, at..at + count, block, filled)?;
        for each in missing {
            let within = each.times.start.max(at)..each.times.end.min(at + count);
            if !within.is_empty() {
                let times = within.start - at + filled..within.end - at + filled;
                self.stream.mark_missing(block, Missing { times, ..each.clone() });
            }
        }
        Ok(count)
    }
}

impl<S: Readable> StreamRecording<S> {
    /// Times of a chunk.
    fn chunk_times(&self) -> u64 {
        (self.stream.slots() * self.stream.slot_times()) as u64
    }

    /// Makes room for times of a block.
    fn reset(&self, block: &mut Block, times: usize) -> Result<()> {
        block.reset_bytes(self.stream.rows(times).into_iter().product(), times)
    }

    /// Truncates a block to its first `times` times.
    fn cut(&self, block: &mut Block, times: usize) -> Result<()> {
        let [[rows, from], [_, to]] = [block.times, times].map(|times| self.stream.rows(times));
        for row in 0..rows {
            block.samples.copy_within(row * from..row * from + to, row * to);
        }
        block.times = times;
        block.samples.resize(rows * to)
    }
}

impl<S: Readable> Recording<S::Shape> for StreamRecording<S> {
    fn shape(&self) -> S::Shape {
        self.stream.shape_of()
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
        self.reset(block, 0)?;
        let left = self.end - self.position;
        if left == 0 || times == 0 || !self.go_on() {
            self.receiver = None;
            return Ok(0);
        }
        let ahead = self.current.as_ref().map_or(0, |(passed, _)| passed.start);
        let gap = ahead.saturating_sub(self.now()).min(left) / times as u64 * times as u64;
        let count = usize::try_from(left - gap).map_or(times, |left| left.min(times));
        self.position += gap;
        self.reset(block, count)?;
        block.gap = gap;
        let mut filled = 0;
        while filled < count && self.go_on() {
            let now = self.now() + filled as u64;
            let start = self.current.as_ref().map_or(now, |(passed, _)| passed.start);
            let absent = start.saturating_sub(now).min((count - filled) as u64) as usize;
            if absent > 0 {
                self.stream.mark_missing(block, Missing::times(filled..filled + absent));
                filled += absent;
                continue;
            }
            match self.copy(block, filled)? {
                0 => self.return_chunk(),
                copied => filled += copied,
            }
        }
        if filled < count {
            self.cut(block, filled)?;
        }
        self.position += filled as u64;
        Ok(filled)
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        let end = self.position.saturating_add(times).min(self.end);
        let mut block = Block::new();
        while self.position < end {
            let most = (end - self.position).min(self.chunk_times()) as usize;
            if self.read_block(most, &mut block)? == 0 {
                break;
            }
        }
        Ok(())
    }
}
