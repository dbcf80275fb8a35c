//! Frames of several threads on one axis of times, wherever the frames come from.
//!
//! An [`Axis`] says which frame a header's second and number mean, and [`Filling`] puts frames of a stretch of times
//! where they belong: of a frame that comes twice the first one counts, an invalid one gives way to a valid one, and
//! frames that have not come are missing.

use std::ops::Range;

use corrust_host::samples::{Missing, RawEncoding, RawLayout, RawShape};

use super::bits;

/// Geometry that all frames of a recording share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of the header.
    pub header: usize,
    /// Bytes of the frame, header included.
    pub frame: usize,
    /// Channels, each of them an input.
    pub channels: usize,
    pub encoding: RawEncoding,
    /// Samples of each channel.
    pub samples: u64,
}

impl Geometry {
    /// Order of the axes in which samples are put.
    pub fn layout(&self) -> RawLayout {
        match self.encoding.bits() < 8 || self.channels == 1 {
            true => RawLayout::Nt,
            false => RawLayout::Tn,
        }
    }
}

/// Memory to part the channels of frames in.
#[derive(Debug, Default)]
pub struct Parting(bits::Channels);

/// Samples that follow each other where they come from and where they go, in bits.
pub struct Run<'a> {
    to: usize,
    payload: &'a [u8],
    from: usize,
    count: usize,
}

impl Run<'_> {
    /// Copies them to the bytes that they belong to.
    pub fn copy(&self, bytes: &mut [u8]) {
        bits::copy(bytes, self.to, self.payload, self.from, self.count);
    }
}

impl Geometry {
    /// Hands to `each` what of a frame of a thread lies within a stretch of `times` times from `position` on: bytes of
    /// the stretch's samples, which are of the shape, and the run of samples that goes there. Other bytes are other
    /// threads', or of times that share no byte with the frame.
    pub fn put(
        &self,
        shape: &RawShape,
        (position, times): (u64, usize),
        (thread, frame): (usize, u64),
        payload: &[u8],
        parting: &mut Parting,
        mut each: impl FnMut(Range<usize>, Run<'_>),
    ) {
        let Self { channels, encoding, samples, .. } = *self;
        let start = frame * samples;
        let first = position.max(start);
        let end = (position + times as u64).min(start + samples);
        let count = (end - first) as usize;
        let (from, to) = ((first - start) as usize, (first - position) as usize);
        let bits = encoding.bits();
        let pitch = shape.pitch(times);
        match shape.layout {
            RawLayout::Nt => {
                let (parted, length) = match channels {
                    1 => (payload, payload.len()),
                    _ => parting.0.part(payload, bits, channels),
                };
                let (begin, end) = (to * bits / 8, ((to + count) * bits).div_ceil(8));
                for (channel, part) in parted.chunks_exact(length).take(channels).enumerate() {
                    let row = (thread * channels + channel) * pitch;
                    let (to, from, count) = (to * bits % 8, from * bits, count * bits);
                    each(row + begin..row + end, Run { to, payload: part, from, count });
                }
            }
            RawLayout::Tn => {
                let run = channels * bits / 8;
                let payload = &payload[from * run..(from + count) * run];
                // Frames of all inputs are one run.
                let (runs, length) = if run == pitch { (1, count * run) } else { (count, run) };
                for (time, part) in payload.chunks_exact(length).take(runs).enumerate() {
                    let begin = (to + time) * pitch + thread * run;
                    let all = Run { to: 0, payload: part, from: 0, count: 8 * length };
                    each(begin..begin + length, all);
                }
            }
        }
    }
}

/// Facts in the header of one frame.
#[derive(Clone, Debug)]
pub struct Stamp {
    pub thread: u16,
    pub second: i64,
    /// Within the second.
    pub number: u32,
    /// Tenths of a millisecond of the second, rounded down, where the header says so.
    pub fraction: Option<u32>,
    pub validity: Validity,
}

/// Valid samples of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    All,
    None,
    /// A bit for each group of `channels` channels, bit 0 for the first.
    Mask {
        mask: u64,
        channels: usize,
    },
}

/// Order of frames of several threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The threads' numbers, ascending: channel `c` of the `t`th one is input `t x channels + c`.
    pub threads: Vec<u16>,
    /// Second and number of frame 0.
    pub first: (i64, u32),
    /// Frames of a thread a second, where they are known.
    pub per_second: Option<u64>,
}

impl Axis {
    /// Index of a thread, by its number.
    pub fn thread(&self, number: u16) -> Option<usize> {
        self.threads.binary_search(&number).ok()
    }

    /// The frame of a thread that a header means, if frames can be counted.
    pub fn frame(&self, stamp: &Stamp) -> Option<i64> {
        self.frame_at((stamp.second, stamp.number))
    }

    /// The frame of a second and number, if frames can be counted.
    pub fn frame_at(&self, (second, number): (i64, u32)) -> Option<i64> {
        let seconds = second.checked_sub(self.first.0)?;
        let frames = match self.per_second {
            Some(per_second) => seconds.checked_mul(per_second as i64),
            None => (seconds == 0).then_some(0),
        };
        frames?.checked_add(i64::from(number) - i64::from(self.first.1))
    }
}

/// State of a frame of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    No,
    Invalid,
    Yes(Validity),
}

/// Use of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whether its samples are to be put.
    pub wanted: bool,
    /// Whether nothing came of it before.
    pub new: bool,
}

/// Frames that came of a stretch of times.
#[derive(Debug)]
pub struct Filling {
    geometry: Geometry,
    shape: RawShape,
    position: u64,
    times: usize,
    /// Numbers of the frames that reach into the stretch.
    frames: Range<u64>,
    /// By thread and frame.
    seen: Vec<Seen>,
    parting: Parting,
}

impl Filling {
    /// Nothing yet, of no times.
    pub fn new(geometry: Geometry, shape: RawShape) -> Self {
        Self {
            geometry,
            shape,
            position: 0,
            times: 0,
            frames: 0..0,
            seen: Vec::new(),
            parting: Parting::default(),
        }
    }

    /// Begins with `times` times from `position` on, of which nothing came.
    pub fn begin(&mut self, position: u64, times: usize) {
        let samples = self.geometry.samples;
        let end = position + times as u64;
        (self.position, self.times) = (position, times);
        self.frames = position / samples..end.div_ceil(samples);
        self.seen.clear();
        self.seen.resize(self.frames_of_thread() * self.threads(), Seen::No);
    }

    fn frames_of_thread(&self) -> usize {
        (self.frames.end - self.frames.start) as usize
    }

    fn threads(&self) -> usize {
        self.shape.inputs / self.geometry.channels
    }

    /// Whether a frame reaches into the stretch.
    pub fn holds(&self, frame: u64) -> bool {
        self.frames.contains(&frame)
    }

    /// Frames of which nothing came, of the threads that are true.
    pub fn wanted(&self, threads: &[bool]) -> usize {
        let slots = self.seen.chunks_exact(self.frames_of_thread().max(1)).zip(threads);
        let unknown = |slots: &[Seen]| slots.iter().filter(|&&seen| seen == Seen::No).count();
        slots.filter(|(_, here)| **here).map(|(slots, _)| unknown(slots)).sum()
    }

    /// Index of a frame: by thread and frame.
    pub fn slot(&self, thread: usize, frame: u64) -> usize {
        thread * self.frames_of_thread() + (frame - self.frames.start) as usize
    }

    /// Takes note of a frame that reaches into the stretch.
    pub fn claim(&mut self, thread: usize, frame: u64, validity: Validity) -> Claim {
        let slot = self.slot(thread, frame);
        let before = self.seen[slot];
        let wanted = validity != Validity::None && !matches!(before, Seen::Yes(_));
        self.seen[slot] = match (wanted, before) {
            (true, _) => Seen::Yes(validity),
            (false, Seen::No) => Seen::Invalid,
            (false, before) => before,
        };
        Claim { wanted, new: before == Seen::No }
    }

    /// Puts what of a frame lies within the stretch where it belongs in `samples`, which are of the shape.
    pub fn put(&mut self, samples: &mut [u8], thread: usize, frame: u64, payload: &[u8]) {
        let stretch = (self.position, self.times);
        let each = |rows: Range<usize>, run: Run<'_>| run.copy(&mut samples[rows]);
        self.geometry.put(&self.shape, stretch, (thread, frame), payload, &mut self.parting, each);
    }

    /// Missing samples of the stretch.
    pub fn missing(&self) -> Vec<Missing> {
        let Geometry { samples, channels, .. } = self.geometry;
        let frames = &self.frames;
        let count = self.frames_of_thread();
        let times = |frames: Range<u64>| {
            let time = |frame: u64| (frame * samples).saturating_sub(self.position) as usize;
            time(frames.start)..time(frames.end).min(self.times)
        };
        let mut missing: Vec<Missing> = Vec::new();
        let mut mark = |range: Range<usize>, inputs: Range<usize>| match missing.last_mut() {
            Some(last) if last.times.end == range.start && last.inputs == inputs => {
                last.times.end = range.end;
            }
            _ => missing.push(Missing::times(range).of_inputs(inputs)),
        };
        // A stretch that all threads lack is missing as a whole.
        let threads: Vec<&[Seen]> = self.seen.chunks_exact(count.max(1)).collect();
        let lacks = |thread: usize, frame: usize| !matches!(threads[thread][frame], Seen::Yes(_));
        let all: Vec<bool> =
            (0..count).map(|frame| (0..threads.len()).all(|thread| lacks(thread, frame))).collect();
        for frame in (0..count).filter(|&frame| all[frame]) {
            let index = frames.start + frame as u64;
            mark(times(index..index + 1), 0..usize::MAX);
        }
        for (thread, slots) in threads.iter().enumerate() {
            let inputs = thread * channels..(thread + 1) * channels;
            for frame in (0..count).filter(|&frame| !all[frame] && lacks(thread, frame)) {
                let index = frames.start + frame as u64;
                mark(times(index..index + 1), inputs.clone());
            }
            for (frame, seen) in slots.iter().enumerate() {
                let Seen::Yes(Validity::Mask { mask, channels: group }) = *seen else { continue };
                let index = frames.start + frame as u64;
                for part in (0..channels / group).filter(|&part| mask >> part & 1 == 0) {
                    let first = inputs.start + part * group;
                    mark(times(index..index + 1), first..first + group);
                }
            }
        }
        missing
    }
}
