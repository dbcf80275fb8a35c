//! `cp.async`: the bytes are taken from global memory when the copy is issued and appear in shared memory
//! at the wait that covers it, not before.

use super::shadow::Kind;
use super::shared::Actor;
use super::state::{Copies, Copy, OPEN};
use super::team::Team;
use super::warp::Warp;
use crate::error::{FaultKind, Step, Stop};
use crate::lanes::{LANES, Mask, lanes};
use crate::program::{CpAsync, Ordering};

impl Team<'_> {
    pub fn cp_async(&mut self, warp: &Warp, op: &CpAsync, mask: Mask) -> Step {
        let to = Self::addresses(warp, &op.destination);
        let from = Self::addresses(warp, &op.source);
        let mut sizes = [op.bytes; LANES];
        if let Some(slot) = op.source_bytes {
            sizes = warp.registers.narrow[slot as usize];
        }
        if let Some(slot) = op.ignore {
            let ignored = warp.registers.predicates[slot as usize];
            lanes(ignored).for_each(|l| sizes[l] = 0);
        }
        let reading = lanes(mask).filter(|&l| sizes[l] != 0).fold(0, |m, l| m | 1 << l);
        self.count_shared(&to, mask, op.bytes);
        self.count_global(&from, reading, op.bytes);
        let whole = lanes(reading).filter(|&l| sizes[l] == op.bytes).fold(0, |m, l| m | 1 << l);
        self.global(warp, &from, whole, op.bytes, Ordering::default(), Kind::Read)?;
        for lane in lanes(reading & !whole) {
            self.global(warp, &from, 1 << lane, sizes[lane], Ordering::default(), Kind::Read)?;
        }
        for lane in lanes(mask) {
            let size = sizes[lane];
            if size > op.bytes {
                return Err(Stop::at(
                    FaultKind::Invalid,
                    lane,
                    format!("a source size of {size} bytes: expected at most {}", op.bytes),
                ));
            }
            let at = self.shared.locate(lane, to[lane], op.bytes, op.bytes)?;
            let mut data = [0; 16];
            if size > 0 {
                let region = self.region(None, lane, from[lane], size, op.bytes)?;
                if size == op.bytes && size >= 4 {
                    for i in (0..size).step_by(4) {
                        let word = region.load(from[lane] + u64::from(i), 4) as u32;
                        data[i as usize..][..4].copy_from_slice(&word.to_le_bytes());
                    }
                } else {
                    for i in 0..size {
                        data[i as usize] = region.load(from[lane] + u64::from(i), 1) as u8;
                    }
                }
            }
            let actor = self.actor(warp, lane);
            self.shared
                .begin_copy(&self.clocks, actor, at, op.bytes, false)
                .map_err(|c| self.refuse(actor, c))?;
            let source = self.tally.source;
            let copies = &mut self.copies[warp.index];
            copies.list.push(Copy {
                lane: lane as u8,
                bytes: op.bytes as u8,
                to: at,
                data,
                group: OPEN,
                number: copies.issued,
                source,
            });
            copies.issued += 1;
        }
        Ok(())
    }

    /// Completes the copies of the lanes of `mask`, but for the `pending` latest groups; without a
    /// number all of them, committed or not.
    pub fn cp_async_wait(&mut self, warp: &Warp, mask: Mask, pending: Option<u32>) {
        let Self { copies, shared, clocks, .. } = self;
        let Copies { list, committed, .. } = &mut copies[warp.index];
        list.retain(|copy| {
            let lane = copy.lane as usize;
            let done = mask >> lane & 1 != 0
                && match pending {
                    None => true,
                    Some(pending) => {
                        copy.group != OPEN && copy.group.saturating_add(pending) < committed[lane]
                    }
                };
            if done {
                let actor = Actor { warp: warp.index, lane, source: copy.source };
                shared.end_copy(clocks, actor, copy.to, &copy.data[..copy.bytes as usize]);
            }
            !done
        });
    }

    /// Completes the copies that lane `lane` issued before copy number `before`, as the engine's work.
    pub fn finish_copies(&mut self, warp: usize, lane: usize, before: u64, clock: u32) {
        let Self { copies, shared, clocks, .. } = self;
        copies[warp].list.retain(|copy| {
            let done = copy.lane as usize == lane && copy.number < before;
            if done {
                let data = &copy.data[..copy.bytes as usize];
                shared.end_engine_copy(clocks, clock, copy.source, copy.to, data);
            }
            !done
        });
    }
}
