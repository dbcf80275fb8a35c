//! Recordings in frames of one length, each with a header that says its time and thread.
//!
//! A format says what its headers mean ([`Framing`]); [`Frames`] looks for the frames of a block of times, and has
//! them [placed](super::placing). They are looked for from where the last block left off. Those that come too early are remembered by
//! their place in the file, up to [`AHEAD`] bytes of them, and read when their time comes: what is not found
//! by then is missing. Of a frame that comes twice the first one counts, and an invalid one gives way to a
//! valid one that is in reach. Bytes that are no frame, as
//! recorders write them where data were lost, are passed over up to the next header.

use std::{collections::BTreeSet, path::PathBuf};

use corrust_host::{Error, Result, samples::RawShape};

use super::{
    input::Input,
    options::{Options, Pace},
    placing::{Axis, Filling, Geometry, Stamp, Validity},
    recording::{Block, Recording},
};
use crate::array::time::{self, Timestamp};

/// Bytes that are read at once: so many stay in a processor's cache until they are copied.
const CHUNK: usize = 512 << 10;

/// How far apart in a file frames of one time may be, in bytes.
const AHEAD: usize = 64 << 20;

/// Most frames that are remembered.
const REMEMBERED: usize = 1 << 16;

/// Bytes at the start and the end of a recording in which threads and times are looked for; of the files
/// between, a part of it.
const SCANNED: usize = 4 << 20;
const SCANNED_BETWEEN: usize = SCANNED / 16;

/// What the headers of a recording's frames say, whatever bytes they are.
pub(super) trait Framing: Send + 'static {
    /// The format.
    fn name(&self) -> &'static str;

    /// What every frame shares.
    fn geometry(&self) -> Geometry;

    /// Understands the header of what may be a whole frame, or the start of one.
    fn stamp(&self, frame: &[u8]) -> Result<Stamp, Fault>;

    /// Brings the samples of a frame into the encoding's order.
    fn recode(&self, payload: &mut [u8]);

    /// Samples of an input a second, if the first header says so.
    fn rate(&self) -> Option<f64>;

    /// The Modified Julian Day from which seconds are counted, if it is known.
    fn first_day(&self) -> Option<i64>;

    /// What else the first header says.
    fn facts(&self) -> Vec<(&'static str, String)>;
}

/// Why a frame cannot be taken.
#[derive(Debug)]
pub(super) enum Fault {
    /// No header of this recording is there.
    NoHeader,
    /// A header of something else, in words.
    Other(String),
}

/// The files of a recording.
#[derive(Debug)]
struct Files {
    paths: Vec<PathBuf>,
    lengths: Vec<u64>,
    open: Option<(usize, Input)>,
}

impl Files {
    fn read(&mut self, file: usize, at: u64, bytes: &mut [u8]) -> Result<()> {
        let input = match &mut self.open {
            Some((index, input)) if *index == file => input,
            slot => &mut slot.insert((file, Input::open(&self.paths[file])?)).1,
        };
        input.read_at(at, bytes)
    }

    fn fault(&self, file: usize, at: u64, reason: &str) -> Error {
        Error::file(&self.paths[file], format!("{reason} (frame at byte {at})"))
    }
}

/// Goes through the frames of files one after the other.
#[derive(Debug, Default)]
struct Cursor {
    /// Files still to be read, in reverse; the last one is being read.
    files: Vec<usize>,
    /// Byte of the next frame.
    at: u64,
    /// Bytes of the file from `start` on.
    buffer: Vec<u8>,
    start: u64,
    /// Bytes to read at once.
    chunk: usize,
}

impl Cursor {
    fn new(files: Vec<usize>, at: u64, chunk: usize) -> Self {
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

    /// The next frame: its file, its place and what it says; its bytes are those that
    /// [`frame`](Self::frame) gives. [`None`] after the last one.
    fn next(
        &mut self,
        files: &mut Files,
        framing: &impl Framing,
    ) -> Result<Option<(usize, u64, Stamp)>> {
        let size = framing.geometry().frame;
        while let Some(&file) = self.files.last() {
            let at = self.at;
            let bytes = self.fill(files, at, size)?;
            if bytes.len() >= size {
                match framing.stamp(&bytes[..size]) {
                    Ok(stamp) => {
                        self.at = at + size as u64;
                        return Ok(Some((file, at, stamp)));
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

    /// Goes on to the next byte at which a frame of the recording begins; whether there is one. Headers agree
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
    fn frame(&mut self, size: usize) -> &mut [u8] {
        let end = (self.at - self.start) as usize;
        &mut self.buffer[end - size..end]
    }
}

/// A frame that is read later.
#[derive(Clone, Copy, Debug)]
struct Place {
    file: usize,
    at: u64,
    thread: usize,
    index: u64,
    validity: Validity,
}

/// Files that follow each other in time. Of several such sequences each has threads of its own, or times.
#[derive(Debug)]
struct Sequence {
    cursor: Cursor,
    /// Which threads are in it.
    threads: Vec<bool>,
    early: Vec<Place>,
    /// The cursor's last frame, until it is [handed out](Frames::next_frame).
    standing: Option<u64>,
}

/// What the files' starts and ends say.
#[derive(Debug)]
struct Scan {
    threads: BTreeSet<u16>,
    /// Earliest and latest second and number.
    first: (i64, u32),
    last: (i64, u32),
    highest: u32,
    /// A frame's number and its fraction of the second.
    fraction: Option<(u32, u32)>,
    /// Bytes after the last frame.
    rest: u64,
}

impl Scan {
    /// Takes in a frame.
    fn see(&mut self, stamp: &Stamp) {
        self.threads.insert(stamp.thread);
        let time = (stamp.second, stamp.number);
        self.first = self.first.min(time);
        self.last = self.last.max(time);
        self.highest = self.highest.max(stamp.number);
        if let Some(fraction) = stamp.fraction.filter(|_| stamp.number > 0) {
            let seen = (stamp.number, fraction);
            self.fraction = self.fraction.max(Some(seen));
        }
    }
}

/// A recording in frames.
pub(super) struct Frames<F> {
    framing: F,
    geometry: Geometry,
    shape: RawShape,
    files: Files,
    sequences: Vec<Sequence>,
    axis: Axis,
    times: u64,
    position: u64,
    /// Frames of a thread that may be remembered; one from before them is not late, its clock is wrong.
    window: u64,
    left_out: Option<String>,
    pace: Pace,
    filling: Filling,
    scratch: Vec<u8>,
}

impl<F: Framing> Frames<F> {
    /// Opens `paths` as one recording, whose first file's first bytes `framing` understands; looks at the
    /// headers at the files' starts and ends, and where a second ends.
    ///
    /// # Errors
    /// As for [`open`](super::open).
    pub fn open(
        paths: &[PathBuf],
        options: &Options,
        framing: impl Fn(&[u8]) -> Result<F, String>,
    ) -> Result<Self> {
        let mut files = Files { paths: paths.to_vec(), lengths: Vec::new(), open: None };
        for path in paths {
            let length = Input::open(path)?.length().ok_or_else(|| {
                Error::file(
                    path,
                    "is a pipe: expected a file, for frames at its end are read first",
                )
            })?;
            files.lengths.push(length);
        }
        let mut start = vec![0; files.lengths[0].min(CHUNK as u64) as usize];
        files.read(0, 0, &mut start)?;
        let framing = framing(&start).map_err(|reason| Error::file(&paths[0], reason))?;
        let geometry = framing.geometry();
        let mut left_out = None;
        let mut scans = Vec::with_capacity(paths.len());
        for file in 0..paths.len() {
            let last = file + 1 == paths.len();
            let scanned = if file == 0 || last { SCANNED } else { SCANNED_BETWEEN };
            let scan = scan(&mut files, file, &framing, scanned)?;
            if scan.rest > 0 {
                let at = files.lengths[file] - scan.rest;
                let reason = format!(
                    "truncated: {} bytes of the frame at byte {at}, expected {}",
                    scan.rest, geometry.frame
                );
                if !(last && options.keep_going) {
                    let hint = if last { "; --keep-going leaves this last frame out" } else { "" };
                    return Err(Error::file(&paths[file], reason + hint));
                }
                left_out = Some(format!("{}: {reason}", paths[file].display()));
            }
            scans.push(scan);
        }
        let first = scans.iter().map(|scan| scan.first).min().unwrap_or_default();
        let last = scans.iter().map(|scan| scan.last).max().unwrap_or_default();
        let all: BTreeSet<u16> =
            scans.iter().flat_map(|scan| scan.threads.iter().copied()).collect();
        let threads: Vec<u16> = all.into_iter().collect();
        let (sequences, starts) = sequences(&scans, &threads);
        let (per_second, pace) =
            frames_per_second(&mut files, &framing, options, &scans, &starts, (first, last))?;
        let index = |(second, number): (i64, u32)| {
            let seconds = second.checked_sub(first.0)?;
            let frames = seconds.checked_mul(per_second.unwrap_or(0) as i64)?;
            u64::try_from(frames + i64::from(number) - i64::from(first.1)).ok()
        };
        let held: u64 = files.lengths.iter().map(|length| length / geometry.frame as u64).sum();
        let held = held.div_ceil(threads.len() as u64);
        let far = |frames: Option<u64>| {
            let seconds = last.0 - first.0;
            let frames = frames.map_or("more than can be counted".to_owned(), |n| n.to_string());
            Error::file(
                &paths[paths.len() - 1],
                format!(
                    "clocks jump: the last frame is {frames} frames ({seconds} s) after the first, and each \
                     thread has about {held}; --long-gaps takes what is between as missing"
                ),
            )
        };
        let span = index(last).map(|last| last + 1);
        let times = span.and_then(|span| span.checked_mul(geometry.samples));
        let (Some(span), Some(times)) = (span, times) else { return Err(far(span)) };
        if span - held.min(span) > held && !options.long_gaps {
            return Err(far(Some(span)));
        }
        let (Geometry { channels, encoding, .. }, layout) = (geometry, geometry.layout());
        if let Some(asked) = options.raw_layout.filter(|&asked| asked != layout) {
            let reason =
                format!("{} of {encoding} is read as {layout}, not {asked}", framing.name());
            return Err(Error::file(&paths[0], reason));
        }
        let inputs = threads.len().checked_mul(channels).filter(|&inputs| inputs <= 1 << 24);
        let inputs = inputs.ok_or_else(|| {
            Error::file(&paths[0], format!("{channels} channels: expected at most {}", 1 << 24))
        })?;
        let remembered = (AHEAD / geometry.frame).clamp(16, REMEMBERED) as u64;
        let shape = RawShape { inputs, encoding, layout };
        Ok(Self {
            shape,
            geometry,
            files,
            sequences,
            window: remembered.div_ceil(threads.len() as u64) + 1,
            axis: Axis { threads, first, per_second },
            times,
            position: 0,
            left_out,
            pace,
            filling: Filling::new(geometry, shape),
            scratch: Vec::new(),
            framing,
        })
    }

    /// Channels of a thread.
    pub fn channels(&self) -> usize {
        self.geometry.channels
    }

    /// The next frame as it stands in its file, and its number counted from the recording's first, of files side by
    /// side the earliest one's; [`None`] after the last. Blocks are to be read of another one.
    ///
    /// # Errors
    /// As for [`read_block`](Recording::read_block).
    pub fn next_frame(&mut self) -> Result<Option<(u64, &[u8])>> {
        for sequence in 0..self.sequences.len() {
            let Self { sequences, files, framing, .. } = self;
            let Sequence { cursor, standing, .. } = &mut sequences[sequence];
            if standing.is_none()
                && let Some((file, at, stamp)) = cursor.next(files, framing)?
            {
                let (_, index) = self.index(file, at, &stamp)?;
                self.sequences[sequence].standing = Some(index);
            }
        }
        let standing = self.sequences.iter_mut().filter(|sequence| sequence.standing.is_some());
        let Some(next) = standing.min_by_key(|sequence| sequence.standing) else { return Ok(None) };
        let index = next.standing.take().expect("it stands there");
        self.position = self.position.max(index * self.geometry.samples);
        Ok(Some((index, next.cursor.frame(self.geometry.frame))))
    }

    /// Samples of a frame.
    pub fn samples(&self) -> u64 {
        self.geometry.samples
    }

    /// The frame of a thread, counted from the recording's first.
    fn index(&self, file: usize, at: u64, stamp: &Stamp) -> Result<(usize, u64)> {
        let fault = |reason: String| self.files.fault(file, at, &reason);
        let thread = self.axis.thread(stamp.thread).ok_or_else(|| {
            fault(format!(
                "a frame of thread {}: expected one of the threads {} at the recording's start and end",
                stamp.thread,
                list(&self.axis.threads)
            ))
        })?;
        if let Some(per_second) = self.axis.per_second
            && u64::from(stamp.number) >= per_second
        {
            return Err(fault(format!(
                "frame {} of a second: expected less than the {per_second} of the rate",
                stamp.number
            )));
        }
        let index = self.axis.frame(stamp);
        let seconds = stamp.second - self.axis.first.0;
        let end = self.times / self.geometry.samples;
        let next = self.position / self.geometry.samples;
        // What is a little too late has been read before, and comes again.
        let earliest = next.saturating_sub(self.window) as i64;
        let found = index.filter(|&index| index >= earliest && index < end as i64);
        let index = found.ok_or_else(|| {
            fault(format!(
                "clocks jump: frame {} of second {seconds} after the recording's first, expected about \
                 frame {next} of {end} of the recording",
                stamp.number
            ))
        })?;
        Ok((thread, index as u64))
    }

    /// Goes on in a sequence to the frame `frame`, without reading what is further before it than frames that
    /// come early stand.
    fn pass(&mut self, sequence: usize, frame: u64) -> Result<()> {
        let Sequence { cursor, early, .. } = &mut self.sequences[sequence];
        early.retain(|place| place.index >= frame);
        let (files, at) = (cursor.files.clone(), cursor.at);
        let axis = &self.axis;
        let is_before = |stamp: &Stamp| axis.frame(stamp).is_none_or(|index| index < frame as i64);
        // The last file that begins before the frame, and where it would be there.
        let size = self.geometry.frame as u64;
        let mut current = files.len();
        for (index, &file) in files.iter().enumerate().rev() {
            let mut start = Cursor::new(vec![file], 0, 2 * size as usize);
            let first = start.next(&mut self.files, &self.framing)?;
            if index + 1 < files.len() && !first.is_some_and(|(_, _, stamp)| is_before(&stamp)) {
                break;
            }
            current = index;
        }
        let Some(&file) = files.get(current) else { return Ok(()) };
        let goal = size * first_after(&mut self.files, file, &self.framing, is_before)?;
        // As much before it as frames that come early may stand.
        let (mut start, mut from, mut reach) = (current, goal, AHEAD as u64);
        while from < reach && start + 1 < files.len() {
            reach -= from;
            start += 1;
            from = self.files.lengths[files[start]];
        }
        from = from.saturating_sub(reach);
        if start + 1 == files.len() {
            from = from.max(at);
        }
        let mut cursor = Cursor::new(files[..=start].to_vec(), from, CHUNK);
        let mut early = Vec::new();
        while let Some((found, at, stamp)) = cursor.next(&mut self.files, &self.framing)? {
            if found == file && at >= goal || files[..current].contains(&found) {
                // It is still to come.
                cursor.at = at;
                break;
            }
            let thread = axis.thread(stamp.thread);
            let index = axis.frame(&stamp).and_then(|index| u64::try_from(index).ok());
            if let (Some(thread), Some(index)) = (thread, index.filter(|&index| index >= frame)) {
                early.push(Place { file: found, at, thread, index, validity: stamp.validity });
            }
        }
        let sequence = &mut self.sequences[sequence];
        sequence.cursor = cursor;
        sequence.early.extend(early);
        Ok(())
    }

    /// Takes in a frame whose time is within the block; whether nothing was known of it.
    fn take(
        &mut self,
        block: &mut Block,
        place: &Place,
        sequence: usize,
        remembered: bool,
    ) -> Result<bool> {
        let claim = self.filling.claim(place.thread, place.index, place.validity);
        if claim.wanted {
            let Geometry { header, frame, .. } = self.geometry;
            let bytes = match remembered {
                true => {
                    self.scratch.resize(frame, 0);
                    self.files.read(place.file, place.at, &mut self.scratch)?;
                    &mut self.scratch[..]
                }
                false => self.sequences[sequence].cursor.frame(frame),
            };
            let payload = &mut bytes[header..];
            self.framing.recode(payload);
            self.filling.put(&mut block.samples, place.thread, place.index, payload);
        }
        Ok(claim.new)
    }

    /// Brings in the frames of a block that a sequence of files has.
    fn gather(&mut self, block: &mut Block, sequence: usize) -> Result<()> {
        let mut wanted = self.filling.wanted(&self.sequences[sequence].threads);
        // The block's last frame may reach into the next block.
        let after = (self.position + block.times as u64) / self.geometry.samples;

        let mut early = Vec::new();
        for place in std::mem::take(&mut self.sequences[sequence].early) {
            if self.filling.holds(place.index) {
                let new = self.take(block, &place, sequence, true)?;
                wanted = wanted.saturating_sub(usize::from(new));
            }
            if place.index >= after {
                early.push(place);
            }
        }

        while wanted > 0 && (early.len() as u64) < self.window * self.axis.threads.len() as u64 {
            let Self { sequences, files, framing, .. } = self;
            let Some((file, at, stamp)) = sequences[sequence].cursor.next(files, framing)? else {
                break;
            };
            let (thread, index) = self.index(file, at, &stamp)?;
            let place = Place { file, at, thread, index, validity: stamp.validity };
            if self.filling.holds(index) {
                let new = self.take(block, &place, sequence, false)?;
                wanted = wanted.saturating_sub(usize::from(new));
            }
            if index >= after {
                early.push(place);
            }
        }
        self.sequences[sequence].early = early;
        Ok(())
    }
}

impl<F: Framing> Recording<RawShape> for Frames<F> {
    fn shape(&self) -> RawShape {
        self.shape
    }

    fn times(&self) -> u64 {
        self.times
    }

    fn interval(&self) -> Option<f64> {
        self.pace.interval
    }

    fn start(&self) -> Option<Timestamp> {
        let (second, number) = self.axis.first;
        let day = self.framing.first_day()? + second.div_euclid(86_400);
        let fraction = match (self.axis.per_second, number) {
            (_, 0) => 0,
            (Some(frames), number) => {
                (u128::from(number) * 1_000_000_000_000 / u128::from(frames)) as u64
            }
            (None, _) => return None,
        };
        time::of_day(day, second.rem_euclid(86_400), fraction)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("format", self.framing.name().to_owned())];
        facts.extend(self.framing.facts());
        facts.push(("threads", list(&self.axis.threads)));
        facts.push(("channels of a thread", self.geometry.channels.to_string()));
        facts.push((
            "frames",
            format!("{} bytes, {} samples", self.geometry.frame, self.geometry.samples),
        ));
        facts
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let left = self.times - self.position;
        let times = usize::try_from(left).map_or(times, |left| times.min(left));
        block.reset_bytes(self.shape.bytes(times), times)?;
        if times == 0 {
            return Ok(0);
        }
        self.filling.begin(self.position, times);
        for sequence in 0..self.sequences.len() {
            self.gather(block, sequence)?;
        }
        block.missing = self.filling.missing();
        self.position += times as u64;
        Ok(times)
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        if times == 0 {
            return Ok(());
        }
        self.position = self.position.saturating_add(times).min(self.times);
        let frame = self.position / self.geometry.samples;
        (0..self.sequences.len()).try_for_each(|sequence| self.pass(sequence, frame))
    }

    fn left_out(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    fn contradiction(&self) -> Option<&str> {
        self.pace.contradiction.as_deref()
    }
}

/// Numbers, runs of them as in "0-3, 7".
fn list(numbers: &[u16]) -> String {
    let mut text = String::new();
    let mut rest = numbers;
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first..).take_while(|(number, next)| **number == *next).count();
        let comma = if text.is_empty() { "" } else { ", " };
        text += &match run {
            1 => format!("{comma}{first}"),
            _ => format!("{comma}{first}-{}", rest[run - 1]),
        };
        rest = &rest[run..];
    }
    text
}

/// Looks at the frames of the first and the last `bytes` bytes of a file.
fn scan(files: &mut Files, file: usize, framing: &impl Framing, bytes: usize) -> Result<Scan> {
    let size = framing.geometry().frame as u64;
    let length = files.lengths[file];
    let chunk = bytes.min(CHUNK);
    let mut scan: Option<Scan> = None;
    let mut see = |stamp: &Stamp| {
        let time = (stamp.second, stamp.number);
        let new = || Scan {
            threads: BTreeSet::new(),
            first: time,
            last: time,
            highest: 0,
            fraction: None,
            rest: 0,
        };
        scan.get_or_insert_with(new).see(stamp);
    };
    let mut cursor = Cursor::new(vec![file], 0, chunk);
    let mut end = 0;
    while end < bytes as u64
        && let Some((_, at, stamp)) = cursor.next(files, framing)?
    {
        see(&stamp);
        end = at + size;
    }
    // The frames of the end stand where they would if nothing else stood between them.
    let tail = (length.saturating_sub(bytes as u64) / size * size).max(end);
    let mut cursor = Cursor::new(vec![file], tail, chunk);
    while let Some((_, at, stamp)) = cursor.next(files, framing)? {
        see(&stamp);
        end = at + size;
    }
    let mut scan = scan.ok_or_else(|| {
        let reason = match length < size {
            true => format!("truncated: {length} bytes, expected a frame of {size}"),
            false => format!("no frame of {} of {size} bytes", framing.name()),
        };
        Error::file(&files.paths[file], reason)
    })?;
    let rest = (length - end).min(size);
    let mut start = vec![0; rest as usize];
    files.read(file, end, &mut start)?;
    let header = framing.geometry().header as u64;
    if rest > 0 && (rest < header || framing.stamp(&start).is_ok()) {
        scan.rest = rest;
    }
    Ok(scan)
}

/// Files in order of time, those that are of the same time side by side; and all files in order of time.
fn sequences(scans: &[Scan], threads: &[u16]) -> (Vec<Sequence>, Vec<usize>) {
    let mut order: Vec<usize> = (0..scans.len()).collect();
    order.sort_by_key(|&file| scans[file].first);
    let mut sequences: Vec<(Vec<usize>, (i64, u32))> = Vec::new();
    for &file in &order {
        let (first, last) = (scans[file].first, scans[file].last);
        match sequences.iter_mut().find(|(_, end)| *end <= first) {
            Some((files, end)) => {
                files.push(file);
                *end = last;
            }
            None => sequences.push((vec![file], last)),
        }
    }
    let sequence = |(mut files, _): (Vec<usize>, _)| {
        let here = |thread| files.iter().any(|&file| scans[file].threads.contains(thread));
        let threads = threads.iter().map(here).collect();
        files.reverse();
        Sequence {
            cursor: Cursor::new(files, 0, CHUNK),
            threads,
            early: Vec::new(),
            standing: None,
        }
    };
    (sequences.into_iter().map(sequence).collect(), order)
}

/// How many frames a thread has in a second, from the rate that the caller or the header says, or else as they are
/// [`counted`]; and how far apart times are by that.
fn frames_per_second(
    files: &mut Files,
    framing: &impl Framing,
    options: &Options,
    scans: &[Scan],
    order: &[usize],
    (first, last): ((i64, u32), (i64, u32)),
) -> Result<(Option<u64>, Pace)> {
    let samples = framing.geometry().samples;
    let path = files.paths[0].clone();
    let highest = scans.iter().map(|scan| scan.highest).max().unwrap_or_default();
    let (counted, interval, whose) = match framing.rate() {
        Some(rate) => (None, Some(1.0 / rate), "the header says"),
        None => {
            let frames = counted(files, framing, scans, order, (first, last), highest)?;
            let interval = frames.map(|frames| 1.0 / (frames * samples) as f64);
            (frames, interval, "frames' numbers show")
        }
    };
    let pace = Pace::new(&path, options, interval, whose);
    let said =
        options.rate.map(|rate| (rate, "--rate")).or(framing.rate().map(|rate| (rate, "header")));
    if let Some((rate, whose)) = said {
        let frames = rate / samples as f64;
        if !(frames >= 1.0 && frames.fract() == 0.0 && frames <= f64::from(1 << 24)) {
            return Err(Error::file(
                &path,
                format!(
                    "rate of {rate} Hz ({whose}): expected a whole number of frames of {samples} samples \
                     a second"
                ),
            ));
        }
        if f64::from(highest) >= frames {
            return Err(Error::file(
                &path,
                format!(
                    "frame {highest} of a second: expected less than {frames}, for a rate of {rate} Hz \
                     ({whose}) and {samples} samples a frame"
                ),
            ));
        }
        return Ok((Some(frames as u64), pace));
    }
    Ok((counted, pace))
}

/// How many frames a thread has in a second, from the highest number, or from the fractions of a second that headers
/// have; [`None`] where all frames are of one second and nothing says it.
fn counted(
    files: &mut Files,
    framing: &impl Framing,
    scans: &[Scan],
    order: &[usize],
    (first, last): ((i64, u32), (i64, u32)),
    mut highest: u32,
) -> Result<Option<u64>> {
    let samples = framing.geometry().samples;
    if first.0 == last.0 {
        // The fraction is rounded down; rates are a power of two in megahertz.
        let seen = scans.iter().filter_map(|scan| scan.fraction).max();
        let Some((number, fraction)) = seen.filter(|(_, fraction)| *fraction > 0) else {
            return Ok(None);
        };
        let fits = |frames: &u64| {
            let tenths = u64::from(number) * 10_000;
            (tenths / frames == u64::from(fraction)) && (frames * samples).is_multiple_of(1_000_000)
        };
        let powers = (0..16).map(|power| (1_000_000_u64 << power) / samples);
        return Ok(powers.filter(|&frames| frames > 0).find(fits));
    }
    // Where a second ends in a file, its last frames are near.
    for &file in order {
        let (begin, end) = (scans[file].first.0, scans[file].last.0);
        for second in (begin..end).take(2) {
            highest = highest.max(highest_near(files, file, framing, second)?);
        }
        if begin < end {
            break;
        }
    }
    Ok(Some(u64::from(highest) + 1))
}

/// Which frame of a file is the first that is not before something; a few may be out of order.
fn first_after(
    files: &mut Files,
    file: usize,
    framing: &impl Framing,
    is_before: impl Fn(&Stamp) -> bool,
) -> Result<u64> {
    let size = framing.geometry().frame as u64;
    // Frames before `low` are before it, those from `high` on are not.
    let (mut low, mut high) = (0, files.lengths[file] / size);
    while low < high {
        let middle = low + (high - low) / 2;
        let mut cursor = Cursor::new(vec![file], middle * size, 2 * size as usize);
        match cursor.next(files, framing)? {
            Some((_, _, stamp)) if is_before(&stamp) => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The highest number of the frames around where a second ends in a file.
fn highest_near(
    files: &mut Files,
    file: usize,
    framing: &impl Framing,
    second: i64,
) -> Result<u32> {
    let size = framing.geometry().frame as u64;
    let low = first_after(files, file, framing, |stamp| stamp.second <= second)?;
    let around = (SCANNED_BETWEEN as u64 / size).max(64);
    let mut cursor = Cursor::new(vec![file], low.saturating_sub(around) * size, SCANNED_BETWEEN);
    let mut highest = 0;
    for _ in 0..2 * around {
        let Some((_, _, stamp)) = cursor.next(files, framing)? else { break };
        highest = highest.max(stamp.number);
    }
    Ok(highest)
}
