//! Beginnings of files, by which the frames of all are placed in time.

use std::{collections::BTreeSet, ops::Range};

use corrust_host::{Error, Result};

use super::{
    files::{CHUNK, Cursor, Files},
    framing::Framing,
};
use crate::formats::{
    options::{Options, Pace},
    placing::{Axis, Stamp, Validity},
};

/// Bytes at the start and the end of a recording in which threads and times are looked for; of the files
/// between, a part of it.
pub(super) const SCANNED: usize = 4 << 20;

pub(super) const SCANNED_BETWEEN: usize = SCANNED / 16;

/// A frame that is read later.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaterFrame {
    pub(super) file: usize,
    pub(super) at: u64,
    pub(super) thread: usize,
    pub(super) index: u64,
    pub(super) validity: Validity,
}

/// Files that follow each other in time. Of several such sequences each has threads of its own, or times.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) cursor: Cursor,
    /// Threads that it has.
    pub(super) threads: Vec<bool>,
    pub(super) early: Vec<LaterFrame>,
    /// The cursor's last frame, until it is [handed out](super::Frames::next_frame).
    pub(super) standing: Option<u64>,
}

/// Facts from the starts and ends of the files.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) threads: BTreeSet<u16>,
    /// Earliest and latest second and number.
    pub(super) first: (i64, u32),
    pub(super) last: (i64, u32),
    highest: u32,
    /// A frame's number and its fraction of the second.
    fraction: Option<(u32, u32)>,
    /// Bytes after the last frame.
    pub(super) rest: u64,
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

/// Numbers, runs of them as in "0-3, 7".
pub(super) fn list(numbers: &[u16]) -> String {
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

/// Looks at the frames of the first and the last `bytes` bytes of a file, and as far beyond them as only frames that are
/// marked invalid stand there; [`None`] of a file that has no others.
pub(super) fn scan(
    files: &mut Files,
    file: usize,
    framing: &impl Framing,
    bytes: usize,
) -> Result<Option<Scan>> {
    let size = framing.geometry().frame as u64;
    let length = files.lengths[file];
    let chunk = bytes.min(CHUNK);
    let mut scan: Option<Scan> = None;
    let see = |scan: &mut Option<Scan>, stamp: &Stamp| {
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
    while cursor.end < bytes as u64
        && let Some((_, _, stamp)) = cursor.next(files, framing)?
    {
        see(&mut scan, &stamp);
    }
    let head = cursor.end;
    let (mut end, mut reach) = (head, bytes as u64);
    loop {
        // The frames of the end stand where they would if nothing else stood between them.
        let tail = (length.saturating_sub(reach) / size * size).max(head);
        let mut cursor = Cursor::new(vec![file], tail, chunk);
        let mut seen = false;
        while let Some((_, _, stamp)) = cursor.next(files, framing)? {
            see(&mut scan, &stamp);
            seen = true;
        }
        end = end.max(cursor.end);
        if seen || tail == head {
            break;
        }
        reach = reach.saturating_mul(4);
    }
    if scan.is_none() && end > 0 {
        return Ok(None);
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
    Ok(Some(scan))
}

/// Sequences in order of time, with files of the same time side by side; and all files in order of time.
pub(super) fn sequences(scans: &[Scan], threads: &[u16]) -> (Vec<Sequence>, Vec<usize>) {
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

/// Number of frames of a thread in a second, from the rate that the caller or the header says, or else as they are
/// [`counted`]; and how far apart times are by that.
pub(super) fn frames_per_second(
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
        options.rate.map(|rate| (rate, "as given")).or(framing.rate().map(|rate| (rate, "header")));
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

/// Number of frames of a thread in a second, from the highest number, or from the fractions of a second that headers
/// have; [`None`] where all frames are of one second and nothing says it.
pub(super) fn counted(
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
    // The last frames of a second are near its end in a file.
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

/// Number of the first frame of a file that is not before something; a few may be out of order.
pub(super) fn first_after(
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

/// Long stretches of frames that a sequence of files, ascending in time, does not have: more than `least` frames each,
/// and at both ends `margin` frames shorter than they are, as frames come out of order.
pub(super) fn long_gaps(
    files: &mut Files,
    framing: &impl Framing,
    axis: &Axis,
    sequence: &[usize],
    (least, margin): (u64, u64),
) -> Result<Vec<Range<u64>>> {
    let size = framing.geometry().frame as u64;
    let mut gaps = Vec::new();
    // The frame before the stretch that is looked at.
    let mut before: Option<i64> = None;
    for &file in sequence {
        let at = |files: &mut Files, slot: u64| -> Result<Option<i64>> {
            let mut cursor = Cursor::new(vec![file], slot * size, 2 * size as usize);
            let found = cursor.next(files, framing)?;
            Ok(found.and_then(|(_, _, stamp)| axis.frame(&stamp)))
        };
        let slots = files.lengths[file] / size;
        let Some(first) = at(files, 0)? else { continue };
        let mut check = |before: i64, after: i64| {
            let gap =
                (before + 1).saturating_add_unsigned(margin)..after.saturating_sub_unsigned(margin);
            if after.saturating_sub(before) > least as i64 && gap.start < gap.end {
                gaps.extend(u64::try_from(gap.start).ok().zip(u64::try_from(gap.end).ok()));
            }
        };
        before.into_iter().for_each(|before| check(before, first));
        // Stretches of slots, the earliest last, and the frames at their ends.
        let end = match at(files, slots.saturating_sub(1))? {
            Some(end) => end,
            None => first,
        };
        let mut stretches = vec![((0, first), (slots.saturating_sub(1), end))];
        while let Some(((low, first), (high, last))) = stretches.pop() {
            if last.saturating_sub(first) <= least as i64 {
                continue;
            }
            if high - low <= 1 {
                check(first, last);
                continue;
            }
            let middle = low + (high - low) / 2;
            // Frames that follow may all be marked invalid.
            let found = at(files, middle)?.unwrap_or(last);
            stretches.push(((middle, found), (high, last)));
            stretches.push(((low, first), (middle, found)));
        }
        before = Some(end);
    }
    Ok(gaps.into_iter().map(|(start, end)| start..end).collect())
}

/// Stretches that are in both of two ascending lists.
pub(super) fn common(one: &[Range<u64>], other: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut common = Vec::new();
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        let both = a.start.max(b.start)..a.end.min(b.end);
        if both.start < both.end {
            common.push(both);
        }
        if a.end < b.end {
            one.next()
        } else {
            other.next()
        };
    }
    common
}

/// The highest number of the frames around where a second ends in a file.
pub(super) fn highest_near(
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
