//! Recordings of frames.

use std::{collections::BTreeSet, ops::Range, path::PathBuf};

use corrust_host::{Error, Result, samples::RawShape};

use super::{
    files::{AHEAD, CHUNK, Cursor, Files},
    framing::Framing,
    scan::{
        LaterFrame, SCANNED, SCANNED_BETWEEN, Scan, Sequence, common, first_after,
        frames_per_second, list, long_gaps, scan, sequences,
    },
};
use crate::array::time::{self, Timestamp};
use crate::formats::{
    input::Input,
    options::{MOST_INPUTS, Options, Pace, leave_out},
    placing::{Axis, Filling, Geometry, Stamp},
    recording::{Block, Recording},
};

/// Most frames that are remembered.
pub(super) const REMEMBERED: usize = 1 << 16;

/// The file of the first frame that is not marked invalid, and bytes from there on.
fn first_frame<F: Framing>(files: &mut Files) -> Result<(usize, Vec<u8>)> {
    let mut invalid = 0_u64;
    for file in 0..files.paths.len() {
        let (mut at, length) = (0, files.lengths[file]);
        loop {
            let mut start = vec![0; (length - at).min(CHUNK as u64) as usize];
            files.read(file, at, &mut start)?;
            let mut passed = 0;
            while let Some(bytes) = start.get(passed..).and_then(F::invalid) {
                passed += bytes;
                invalid += 1;
            }
            if passed == 0 {
                return Ok((file, start));
            }
            at += passed as u64;
            if at >= length {
                break;
            }
        }
    }
    let reason = format!("all {invalid} frames are marked invalid: expected one that is not");
    Err(Error::file(&files.paths[0], reason))
}

/// Looks at the starts and ends of all files, of which those whose frames are all marked invalid are left away; and what
/// is left out of the last file, in words.
fn scan_all(
    files: &mut Files,
    framing: &impl Framing,
    options: &Options,
) -> Result<(Vec<Scan>, Option<String>)> {
    let mut left_out = None;
    let mut scans = Vec::with_capacity(files.paths.len());
    while scans.len() < files.paths.len() {
        let file = scans.len();
        let last = file + 1 == files.paths.len();
        let scanned = if file == 0 || last { SCANNED } else { SCANNED_BETWEEN };
        let Some(scan) = scan(files, file, framing, scanned)? else {
            // All of its frames are marked invalid.
            files.paths.remove(file);
            files.lengths.remove(file);
            files.open = None;
            continue;
        };
        if scan.rest > 0 {
            let at = files.lengths[file] - scan.rest;
            let reason = format!(
                "truncated: {} bytes of the frame at byte {at}, expected {}",
                scan.rest,
                framing.geometry().frame
            );
            let path = &files.paths[file];
            left_out = Some(leave_out(path, &reason, "frame", (last, options.keep_going))?);
        }
        scans.push(scan);
    }
    Ok((scans, left_out))
}

/// Shape of the samples of all threads; the error is the reason alone.
fn shape(framing: &impl Framing, threads: usize, options: &Options) -> Result<RawShape, String> {
    let geometry = framing.geometry();
    let (Geometry { channels, encoding, .. }, layout) = (geometry, geometry.layout());
    if let Some(asked) = options.raw_layout.filter(|&asked| asked != layout) {
        return Err(format!("{} of {encoding} is read as {layout}, not {asked}", framing.name()));
    }
    let inputs = threads.checked_mul(channels).filter(|&inputs| inputs <= MOST_INPUTS);
    let inputs =
        inputs.ok_or_else(|| format!("{channels} channels: expected at most {MOST_INPUTS}"))?;
    Ok(RawShape { inputs, encoding, layout })
}

/// Long stretches of `times` times of which no sequence has anything.
fn gaps_of_all(
    files: &mut Files,
    framing: &impl Framing,
    axis: &Axis,
    sequences: &[Sequence],
    (least, window): (u64, u64),
    times: u64,
) -> Result<Vec<Range<u64>>> {
    let mut of_all: Option<Vec<Range<u64>>> = None;
    for sequence in sequences {
        // A cursor has its files in reverse.
        let mut ascending = sequence.cursor.files.clone();
        ascending.reverse();
        let found = long_gaps(files, framing, axis, &ascending, (least, window))?;
        of_all = Some(of_all.map_or_else(|| found.clone(), |all| common(&all, &found)));
    }
    let samples = framing.geometry().samples;
    let of_frames = of_all.unwrap_or_default().into_iter();
    let mut gaps: Vec<_> = of_frames.map(|gap| gap.start * samples..gap.end * samples).collect();
    // Clocks that go back are refused where they are read.
    let mut end = 0;
    gaps.retain(|gap: &Range<u64>| {
        let follows = gap.start >= end && gap.end <= times;
        end = if follows { gap.end } else { end };
        follows
    });
    Ok(gaps)
}

/// A recording in frames.
pub(in crate::formats) struct Frames<F> {
    framing: F,
    geometry: Geometry,
    shape: RawShape,
    files: Files,
    sequences: Vec<Sequence>,
    axis: Axis,
    times: u64,
    /// Stretches of more times than the files hold of which there is nothing.
    gaps: Vec<Range<u64>>,
    position: u64,
    /// Frames of a thread that may be remembered; one from before them is not late, its clock is wrong.
    window: u64,
    left_out: Option<String>,
    pace: Pace,
    filling: Filling,
    scratch: Vec<u8>,
}

impl<F: Framing> Frames<F> {
    /// Opens `paths` as one recording, the start of whose first frame that is not marked invalid `framing` understands;
    /// looks at the headers at the files' starts and ends, and where a second ends.
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
        let (file, start) = first_frame::<F>(&mut files)?;
        let framing = framing(&start).map_err(|reason| Error::file(&paths[file], reason))?;
        let geometry = framing.geometry();
        let (scans, left_out) = scan_all(&mut files, &framing, options)?;
        if scans.is_empty() {
            let reason = "frames that are marked invalid alone: expected one that is not";
            return Err(Error::file(&paths[0], reason));
        }
        let first = scans.iter().map(|scan| scan.first).min().unwrap_or_default();
        let last = scans.iter().map(|scan| scan.last).max().unwrap_or_default();
        let all: BTreeSet<u16> =
            scans.iter().flat_map(|scan| scan.threads.iter().copied()).collect();
        let threads: Vec<u16> = all.into_iter().collect();
        let (sequences, starts) = sequences(&scans, &threads);
        let (per_second, pace) =
            frames_per_second(&mut files, &framing, options, &scans, &starts, (first, last))?;
        let held: u64 = files.lengths.iter().map(|length| length / geometry.frame as u64).sum();
        let held = held.div_ceil(threads.len() as u64);
        let axis = Axis { threads, first, per_second };
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
        let span = axis.frame_at(last).and_then(|last| u64::try_from(last + 1).ok());
        let times = span.and_then(|span| span.checked_mul(geometry.samples));
        let (Some(span), Some(times)) = (span, times) else { return Err(far(span)) };
        let has_long_gaps = span - held.min(span) > held;
        if has_long_gaps && !options.long_gaps {
            return Err(far(Some(span)));
        }
        let shape = shape(&framing, axis.threads.len(), options)
            .map_err(|reason| Error::file(&paths[0], reason))?;
        let remembered = (AHEAD / geometry.frame).clamp(16, REMEMBERED) as u64;
        let window = remembered.div_ceil(axis.threads.len() as u64) + 1;
        let gaps = match has_long_gaps {
            false => Vec::new(),
            true => {
                let least = (held.max(2 * window), window);
                gaps_of_all(&mut files, &framing, &axis, &sequences, least, times)?
            }
        };
        Ok(Self {
            shape,
            geometry,
            files,
            sequences,
            window,
            axis,
            times,
            gaps,
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
        // A frame that is a little too late has been read before, and comes again.
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

    /// Advances a sequence to the frame `frame`, without reading further before it than early frames may stand.
    fn advance_to(&mut self, sequence: usize, frame: u64) -> Result<()> {
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
                early.push(LaterFrame { file: found, at, thread, index, validity: stamp.validity });
            }
        }
        let sequence = &mut self.sequences[sequence];
        sequence.cursor = cursor;
        sequence.early.extend(early);
        Ok(())
    }

    /// Takes in a frame whose time is within the block; whether nothing was known of it.
    fn place_frame(
        &mut self,
        block: &mut Block,
        place: &LaterFrame,
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
                let new = self.place_frame(block, &place, sequence, true)?;
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
            let place = LaterFrame { file, at, thread, index, validity: stamp.validity };
            if self.filling.holds(index) {
                let new = self.place_frame(block, &place, sequence, false)?;
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

    fn gaps(&self) -> &[Range<u64>] {
        &self.gaps
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        if times == 0 {
            return Ok(());
        }
        self.position = self.position.saturating_add(times).min(self.times);
        let frame = self.position / self.geometry.samples;
        (0..self.sequences.len()).try_for_each(|sequence| self.advance_to(sequence, frame))
    }

    fn left_out(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    fn contradiction(&self) -> Option<&str> {
        self.pace.contradiction.as_deref()
    }
}
