//! Global memory that blocks touch: distinct sectors by allocation, and what a block's part of L1 holds.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use serde::Serialize;

use super::shadow::Kind;
use crate::lanes::{Addresses, Mask, lanes};
use crate::memory::View;

/// Bytes of a sector, and sectors of a line of L1.
const SECTOR: u64 = 32;
const OF_LINE: u64 = 4;
/// Sectors of a page of the record.
const PAGE: u64 = 512;
const WORDS: usize = (PAGE / 64) as usize;
/// Lines of a set of L1.
const WAYS: usize = 8;

/// Global memory that the blocks of a sample touched.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Traffic {
    /// Sectors that loads asked L1 for.
    pub loaded: u64,
    /// Sectors of these that the block's part of L1 did not hold.
    pub missed: u64,
    /// Bytes of written sectors that the block which wrote the others left as they were.
    pub left: u64,
    /// Allocations that were touched, by address.
    pub touched: BTreeMap<u64, Touched>,
}

/// Sectors of an allocation that the blocks of a sample touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Touched {
    /// Sectors that were read.
    pub read: Span,
    /// Sectors that were written.
    pub written: Span,
    /// Lines of 128 bytes that a block touched again after its part of L2 had lost them.
    pub repeated: u64,
}

/// Number and place of sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Span {
    /// Distinct sectors of each block, summed over blocks.
    pub sectors: u64,
    /// Runs of sectors side by side, summed over blocks.
    pub runs: u64,
    /// Address of the first byte of them all.
    pub first: u64,
    /// Address after the last byte of them all; 0: none.
    pub end: u64,
}

impl Span {
    fn add(&mut self, other: &Self) {
        if other.end == 0 {
            return;
        }
        self.first = if self.end == 0 { other.first } else { self.first.min(other.first) };
        self.end = self.end.max(other.end);
        self.sectors += other.sectors;
        self.runs += other.runs;
    }
}

impl Traffic {
    pub(crate) fn add(&mut self, other: &Self) {
        self.loaded += other.loaded;
        self.missed += other.missed;
        self.left += other.left;
        for (&base, touched) in &other.touched {
            let mine = self.touched.entry(base).or_default();
            mine.repeated += touched.repeated;
            mine.read.add(&touched.read);
            mine.written.add(&touched.written);
        }
    }
}

/// Hashes numbers of pages.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("pages are numbers");
    }

    fn write_u64(&mut self, page: u64) {
        self.0 = page.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// Bits of sectors, by page.
type Pages = HashMap<u64, [u64; WORDS], BuildHasherDefault<Mixer>>;

/// Way of an access to global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Load that L1 may answer.
    Cached,
    /// Load past L1.
    Past,
    /// Store.
    Write,
    /// Atomic.
    Update,
}

impl Way {
    /// Way of an access that L1 has no part in.
    pub fn past(kind: &Kind) -> Self {
        match kind {
            Kind::Read => Self::Past,
            Kind::Write(_) => Self::Write,
            Kind::Atomic => Self::Update,
        }
    }
}

/// Lines of a cache with the least recently used of a set going first: sectors, and time of the last use.
struct Cache {
    sets: Vec<[(u64, u8, u64); WAYS]>,
    now: u64,
}

impl Cache {
    fn new(bytes: u32) -> Self {
        let sets = (u64::from(bytes) / (SECTOR * OF_LINE) / WAYS as u64).max(1) as usize;
        Self { sets: vec![NO_LINES; sets], now: 0 }
    }

    /// Whether the cache holds the sectors of `bits` of a line, and it does afterwards.
    fn holds(&mut self, line: u64, bits: u8) -> bool {
        self.now += 1;
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[((line ^ (line / sets)) % sets) as usize];
        if let Some(way) = set.iter_mut().find(|way| way.0 == line) {
            let held = way.1 & bits == bits;
            *way = (line, way.1 | bits, self.now);
            return held;
        }
        if let Some(oldest) = set.iter_mut().min_by_key(|way| way.2) {
            *oldest = (line, bits, self.now);
        }
        false
    }

    fn clear(&mut self) {
        self.sets.fill(NO_LINES);
    }
}

const NO_LINES: [(u64, u8, u64); WAYS] = [(u64::MAX, 0, 0); WAYS];

/// Record of the block that runs.
pub struct Tracer {
    read: Pages,
    written: Pages,
    l1: Cache,
    l2: Cache,
    /// Lines that were touched again after L2 had lost them, by page.
    repeated: HashMap<u64, u64, BuildHasherDefault<Mixer>>,
    /// Bytes of sectors that are not whole yet, a bit each.
    partial: HashMap<u64, u32, BuildHasherDefault<Mixer>>,
    traffic: Traffic,
}

impl Tracer {
    /// Tracer of blocks, with the bytes of L1 and of L2 of each.
    pub fn new(l1_bytes: u32, l2_bytes: u32) -> Self {
        Self {
            read: Pages::default(),
            written: Pages::default(),
            l1: Cache::new(l1_bytes),
            l2: Cache::new(l2_bytes),
            repeated: HashMap::default(),
            partial: HashMap::default(),
            traffic: Traffic::default(),
        }
    }

    /// Notes an access of the lanes of `mask` to `bytes` bytes each.
    pub fn access(&mut self, at: &Addresses, mask: Mask, bytes: u32, way: Way) {
        // Sectors with the bytes that lanes ask of them, a bit each.
        let mut asked: Vec<(u64, u32)> = Vec::new();
        for lane in lanes(mask) {
            let (mut from, end) = (at[lane], at[lane].saturating_add(u64::from(bytes)));
            while from < end {
                let sector = from / SECTOR;
                let next = end.min((sector + 1) * SECTOR);
                let bits = (u32::MAX >> (SECTOR - (next - from))) << (from % SECTOR);
                match asked.last_mut().filter(|last| last.0 == sector) {
                    Some(last) => last.1 |= bits,
                    None => asked.push((sector, bits)),
                }
                from = next;
            }
        }
        asked.sort_unstable();
        asked.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 |= if same { next.1 } else { 0 };
            same
        });
        for (sector, bits) in asked {
            if way == Way::Write && bits != u32::MAX {
                let so_far = self.partial.entry(sector).or_default();
                *so_far |= bits;
            }
            self.sector(sector, way);
        }
    }

    /// Notes an access to bytes side by side.
    pub fn copy(&mut self, address: u64, bytes: u64, way: Way) {
        if bytes > 0 {
            (address / SECTOR..=(address + bytes - 1) / SECTOR).for_each(|s| self.sector(s, way));
        }
    }

    fn sector(&mut self, sector: u64, way: Way) {
        let (page, bit) = (sector / PAGE, sector % PAGE);
        let (word, line) = ((bit / 64) as usize, 0xf << (bit % 64 / OF_LINE * OF_LINE));
        let mut before = false;
        let reads = way != Way::Write;
        let writes = matches!(way, Way::Write | Way::Update);
        for (pages, touches) in [(&mut self.read, reads), (&mut self.written, writes)] {
            before |= pages.get(&page).is_some_and(|words| words[word] & line != 0);
            if touches {
                pages.entry(page).or_insert([0; WORDS])[word] |= 1 << (bit % 64);
            }
        }
        if !self.l2.holds(sector / OF_LINE, 0) && before {
            *self.repeated.entry(page).or_default() += 1;
        }
        if way == Way::Cached {
            self.traffic.loaded += 1;
            let held = self.l1.holds(sector / OF_LINE, 1 << (sector % OF_LINE));
            self.traffic.missed += u64::from(!held);
        }
    }

    pub fn end_block(&mut self, view: &View) {
        let Self { read, written, repeated, partial, traffic, .. } = self;
        traffic.left +=
            partial.drain().map(|sector| u64::from(sector.1.count_zeros())).sum::<u64>();
        let base = |page: u64| {
            view.below((page + 1) * PAGE * SECTOR - 1).map_or(0, |region| region.base())
        };
        for (page, lines) in repeated.drain() {
            traffic.touched.entry(base(page)).or_default().repeated += lines;
        }
        for (pages, write) in [(read, false), (written, true)] {
            let mut sorted: Vec<_> = pages.drain().collect();
            sorted.sort_unstable_by_key(|page| page.0);
            let mut before = None;
            for (page, words) in sorted {
                let base = base(page);
                let mut span = Span::default();
                for bit in (0..PAGE).filter(|bit| words[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
                {
                    let sector = page * PAGE + bit;
                    if span.end == 0 {
                        span.first = sector * SECTOR;
                    }
                    span.end = (sector + 1) * SECTOR;
                    span.sectors += 1;
                    span.runs += u64::from(before != Some(sector - 1));
                    before = Some(sector);
                }
                let touched = traffic.touched.entry(base).or_default();
                (if write { &mut touched.written } else { &mut touched.read }).add(&span);
            }
        }
        self.l1.clear();
        self.l2.clear();
    }

    /// All blocks so far.
    pub fn into_traffic(self) -> Traffic {
        self.traffic
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::{ALL, LANES};
    use crate::memory::Memory;

    #[test]
    fn sectors_count_once_a_block_and_lines_stay_as_long_as_there_is_room() {
        let memory = Memory::new();
        let base = memory.alloc(1 << 16);
        let view = memory.view();
        let mut tracer = Tracer::new(2 * 1024, 8 * 1024);
        // Half sectors, then the other halves: one miss for each sector.
        for half in [0, 16] {
            let at: Addresses = std::array::from_fn(|lane| base + 32 * lane as u64 + half);
            tracer.access(&at, ALL, 16, Way::Cached);
        }
        tracer.copy(base + 4096, 64, Way::Write);
        tracer.end_block(&view);
        let again: Addresses = [base; LANES];
        tracer.access(&again, ALL, 4, Way::Cached);
        tracer.end_block(&view);
        let traffic = tracer.into_traffic();
        assert_eq!((traffic.loaded, traffic.missed), (65, 33));
        let touched = traffic.touched[&base];
        let read = Span { sectors: 33, runs: 2, first: base, end: base + 1024 };
        assert_eq!(touched.read, read);
        assert_eq!((touched.written.sectors, touched.written.runs), (2, 1));
        assert_eq!((traffic.left, touched.repeated), (0, 0));
        // A line that more others than there is room for came after is read again.
        let mut tracer = Tracer::new(2 * 1024, 8 * 1024);
        (0..2).for_each(|_| tracer.copy(base, 4096, Way::Cached));
        assert_eq!(tracer.traffic.missed, 256);
        assert!(tracer.repeated.is_empty());
        // Half a sector is written in part; L2 has lost the lines of 32 kilobytes before.
        tracer.copy(base, 32 << 10, Way::Past);
        let half: Addresses = std::array::from_fn(|lane| base + 16 + 32 * lane as u64);
        tracer.access(&half, ALL, 16, Way::Write);
        tracer.copy(base, 1024, Way::Past);
        tracer.end_block(&view);
        let traffic = tracer.into_traffic();
        assert_eq!(traffic.left, 32 * 16);
        assert!(traffic.touched[&base].repeated > 0);
    }
}
