//! Races in global memory: one record per granule that blocks have touched, page by page.

use std::collections::hash_map::Entry;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

use super::order::Event;
use super::shadow::{Access, Kind, MOST_PAGES, PAGE, Pages, Record, SHARDS, Shadow};
use super::team::Team;
use super::traffic::Way;
use super::warp::Warp;
use crate::error::{FaultKind, Step, Stop};
use crate::lanes::{Addresses, LANES, Mask, lanes};
use crate::program::{Ordering, Scope};

impl Team<'_> {
    /// Checks and notes an access of the lanes of `mask` to `bytes` bytes of global memory each, and stores what it writes.
    #[inline]
    pub fn global(
        &mut self,
        warp: &Warp,
        at: &Addresses,
        mask: Mask,
        bytes: u32,
        order: Ordering,
        kind: Kind,
    ) -> Step {
        let env = self.env;
        if let Some(tracer) = &self.tally.tracer {
            let way = if order.scope == Scope::Weak { self.way(&kind) } else { Way::past(&kind) };
            tracer.borrow_mut().access(at, mask, bytes, way);
        }
        let store = || {
            if let Kind::Write(write) = kind {
                lanes(mask).for_each(write.store);
            }
        };
        let Some(shadow) = &env.shadow else {
            store();
            return Ok(());
        };
        self.note(shadow, warp, at, mask, bytes, order.scope, kind)?;
        if order.scope != Scope::Weak && self.env.program.synchronises {
            let does = match kind {
                Kind::Read => (true, false),
                Kind::Write(_) => (false, true),
                Kind::Atomic => (true, true),
            };
            for lane in lanes(mask) {
                let thread = (warp.index, lane);
                shadow.releases.access(
                    &mut self.knowledge,
                    &self.clocks,
                    thread,
                    at[lane],
                    order,
                    does,
                );
            }
        }
        // Stored after the release is noted: a thread that acquires the value then finds the release.
        if order.scope != Scope::Weak {
            store();
        }
        Ok(())
    }

    /// Checks and notes an access of one thread to `bytes` bytes by an asynchronous copy.
    pub fn global_copy(
        &self,
        warp: &Warp,
        lane: usize,
        address: u64,
        bytes: u32,
        kind: Kind,
    ) -> Step {
        if let Some(tracer) = &self.tally.tracer {
            tracer.borrow_mut().copy(address, u64::from(bytes), Way::past(&kind));
        }
        let Some(shadow) = &self.env.shadow else { return Ok(()) };
        let scope = if let Kind::Atomic = kind { Scope::Gpu } else { Scope::Weak };
        let mut at = [0; LANES];
        at[lane] = address;
        self.note(shadow, warp, &at, 1 << lane, bytes, scope, kind)
    }

    /// Way of an access of the statement that runs.
    fn way(&self, kind: &Kind) -> Way {
        let past = |opcode: &str| [".cg", ".cv", ".volatile"].iter().any(|m| opcode.contains(m));
        match kind {
            Kind::Read if !past(&self.env.program.sources[self.tally.source as usize].opcode) => {
                Way::Cached
            }
            kind => Way::past(kind),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn note(
        &self,
        shadow: &Shadow,
        warp: &Warp,
        at: &Addresses,
        mask: Mask,
        bytes: u32,
        scope: Scope,
        kind: Kind,
    ) -> Step {
        let source = self.tally.source.min(u32::from(u16::MAX)) as u16;
        let mut held: Option<(u64, MutexGuard<Pages>)> = None;
        for lane in lanes(mask) {
            let event = self.knowledge.event(&self.clocks, warp.index, lane);
            let mine = Access { event, source, scope };
            let (first, last) = (
                at[lane] >> shadow.shift,
                at[lane].saturating_add(u64::from(bytes) - 1) >> shadow.shift,
            );
            for granule in first..=last {
                let page = granule / PAGE as u64;
                let pages = match &mut held {
                    Some((number, pages)) if *number % SHARDS as u64 == page % SHARDS as u64 => {
                        pages
                    }
                    _ => {
                        held = None;
                        &mut held.insert((page, shadow.shard(page))).1
                    }
                };
                let records = match pages.entry(page) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => {
                        if shadow.pages.fetch_add(1, Relaxed) >= MOST_PAGES {
                            shadow.incomplete.store(true, Relaxed);
                            continue;
                        }
                        entry.insert(Box::new([Record::default(); PAGE]))
                    }
                };
                let record = &mut records[granule as usize % PAGE];
                if let Err((other, what)) = self.touch_record(warp.index, lane, record, mine, kind)
                {
                    let twin = usize::from(other.event.lane);
                    let here = other.event.block == event.block
                        && usize::from(other.event.warp) == warp.index
                        && mask >> twin & 1 != 0
                        && twin < lane
                        && at[twin] == at[lane];
                    let same = matches!(kind, Kind::Write(write) if (write.same)(lane, here.then_some(twin)));
                    if !same || what != WRITES {
                        return Err(self.global_race(lane, at[lane], other, what));
                    }
                    let mut notes = shadow.same.lock().unwrap_or_else(|e| e.into_inner());
                    *notes.entry((other.source, source)).or_default() += 1;
                    record.write = mine;
                }
            }
            // While the records are held: a block that finds this store finds its value.
            if let (Kind::Write(write), Scope::Weak) = (kind, scope) {
                (write.store)(lane);
            }
        }
        Ok(())
    }

    /// Checks an access against the record of a granule and enters it there; the other side of a race otherwise.
    #[inline]
    fn touch_record(
        &self,
        warp: usize,
        lane: usize,
        record: &mut Record,
        mine: Access,
        kind: Kind,
    ) -> Result<(), (Access, &'static str)> {
        let clashes = |other: Access| {
            let Access { event, scope, .. } = other;
            event.block != 0
                && !self.knowledge.ordered(&self.clocks, warp, lane, event)
                && !self.knowledge.reaches(scope.min(mine.scope), event.block)
        };
        if let Kind::Read = kind {
            if clashes(record.write) {
                return Err((record.write, "read of bytes written"));
            }
            let last = record.read.event.block;
            if last != 0 && last != mine.event.block {
                record.other = record.read;
            }
            record.read = mine;
            return Ok(());
        }
        if clashes(record.write) {
            return Err((record.write, WRITES));
        }
        for read in [record.read, record.other] {
            if clashes(read) {
                return Err((read, "write over bytes read"));
            }
        }
        *record = Record { write: mine, ..Record::default() };
        Ok(())
    }

    #[cold]
    fn global_race(&self, lane: usize, address: u64, other: Access, what: &str) -> Box<Stop> {
        let Event { block, warp, lane: by, .. } = other.event;
        let at = self.env.place(block - 1);
        let line = self.env.line(other.source);
        let place = self.env.view.describe(address);
        let (who, missing) = if at == self.block {
            (String::new(), "no barrier between")
        } else {
            let [x, y, z] = at;
            (
                format!("block ({x}, {y}, {z}), "),
                "nothing between that orders blocks (atomics or flags with fences, or release and acquire, at gpu scope)",
            )
        };
        let message = format!(
            "race at global address 0x{address:x}, {place}: {what} by {who}warp {warp}, lane {by}{line} with {missing}"
        );
        Stop::at(FaultKind::Race, lane, message)
    }
}

/// A write after a write.
const WRITES: &str = "write over bytes written";
