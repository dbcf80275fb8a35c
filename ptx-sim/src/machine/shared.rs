//! Shared memory of a block, and beside it one record per granule: who wrote it last and when each warp
//! read it. Every access is checked against the clocks, see [`super::clocks`].

use super::clocks::Clocks;
use crate::error::{FaultKind, Step, Stop};

/// Clock of bytes that an asynchronous copy is still to write, or that one is still reading.
const IN_FLIGHT: u32 = u32::MAX;
/// Added to a lane: the write was an atomic.
const ATOMIC: u8 = 0x40;
/// Stands in place of a lane: the write came from the asynchronous engine.
const ENGINE: u8 = 33;
/// Stands in place of a lane: the access came from another block of the cluster.
const REMOTE: u8 = 34;

/// The last write of a granule. Clock 0: never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Record {
    clock: u32,
    warp: u8,
    lane: u8,
    source: u16,
}

impl Record {
    /// Whether the write happened before what `actor`, whose view is `view`, does now.
    #[inline(always)]
    fn seen_by(self, view: &[u32], actor: Actor) -> bool {
        let own = self.warp as usize == actor.warp;
        self.clock != 0
            && self.clock <= view[self.warp as usize]
            && !(own && self.clock == view[actor.warp] && self.lane & !ATOMIC != actor.lane as u8)
    }
}

/// Rules that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// Unordered accesses to shared memory by different warps, and by different lanes of a warp with no
    /// `bar.warp.sync` between them.
    pub races: bool,
    /// Reads of shared memory that nothing wrote.
    pub uninitialised: bool,
    /// Unordered accesses to global memory, one of them a write, by different blocks or threads.
    pub global: bool,
}

impl Checks {
    /// None of them.
    pub const NONE: Self = Self { races: false, uninitialised: false, global: false };
}

impl Default for Checks {
    fn default() -> Self {
        Self { races: true, uninitialised: true, global: true }
    }
}

/// Why an access was refused.
#[derive(Debug, Clone, Copy)]
pub enum Conflict {
    Uninitialised {
        at: u32,
    },
    /// Other access: by warp, lane code, source; `kind` names the pair.
    Race {
        at: u32,
        warp: u8,
        lane: u8,
        source: u16,
        kind: &'static str,
    },
    /// The bytes are still to be written by a copy.
    Pending {
        at: u32,
        warp: u8,
        lane: u8,
        source: u16,
    },
    /// The bytes are still being read asynchronously by a warp.
    Reading {
        at: u32,
        warp: u8,
    },
    /// The bytes were written without a proxy fence.
    Unfenced {
        at: u32,
        warp: u8,
        source: u16,
    },
}

/// Accesses by other blocks of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remote {
    Read,
    Write,
    Atomic,
    /// By the engine, to be completed later.
    Copy,
}

/// Thread that accesses, and the statement.
#[derive(Debug, Clone, Copy)]
pub struct Actor {
    pub warp: usize,
    pub lane: usize,
    pub source: u32,
}

/// Shared memory and its records.
#[derive(Debug, Default)]
pub struct Shared {
    data: Vec<u8>,
    shift: u32,
    writes: Vec<Record>,
    /// `reads[g * warps + w]`: clock of warp `w` when it last read granule `g`.
    reads: Vec<u32>,
    granules: usize,
    warps: usize,
    checks: Checks,
}

impl Shared {
    pub fn reset(&mut self, bytes: u32, granule: u32, warps: usize, checks: Checks) {
        self.shift = granule.trailing_zeros();
        self.granules = (bytes as usize).div_ceil(granule as usize);
        self.warps = warps;
        self.checks = checks;
        self.data.clear();
        self.data.resize(bytes as usize, 0xa5);
        self.writes.clear();
        self.writes.resize(self.granules, Record::default());
        self.reads.clear();
        self.reads.resize(self.granules * warps, 0);
    }

    /// Bounds and alignment of an access of `bytes` at a multiple of `align`.
    #[inline(always)]
    pub fn locate(&self, lane: usize, address: u64, bytes: u32, align: u32) -> Step<u32> {
        let size = self.data.len() as u64;
        if address > size || size - address < u64::from(bytes) {
            return Err(Stop::at(
                FaultKind::OutOfBounds,
                lane,
                format!(
                    "{bytes} bytes at shared address 0x{address:x} are outside of the block's {size} bytes"
                ),
            ));
        }
        if !address.is_multiple_of(u64::from(align)) {
            return Err(Stop::at(
                FaultKind::Misaligned,
                lane,
                format!("shared address 0x{address:x} is not a multiple of {align}"),
            ));
        }
        Ok(address as u32)
    }

    #[inline(always)]
    pub fn load(&self, at: u32, bytes: u32) -> u64 {
        let at = at as usize;
        match bytes {
            1 => u64::from(self.data[at]),
            2 => u64::from(u16::from_le_bytes(self.data[at..at + 2].try_into().expect("2"))),
            4 => u64::from(u32::from_le_bytes(self.data[at..at + 4].try_into().expect("4"))),
            _ => u64::from_le_bytes(self.data[at..at + 8].try_into().expect("8")),
        }
    }

    #[inline(always)]
    pub fn store(&mut self, at: u32, bytes: u32, value: u64) {
        let at = at as usize;
        match bytes {
            1 => self.data[at] = value as u8,
            2 => self.data[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes()),
            4 => self.data[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes()),
            _ => self.data[at..at + 8].copy_from_slice(&value.to_le_bytes()),
        }
    }

    pub fn slice(&self, at: u32, bytes: u32) -> &[u8] {
        &self.data[at as usize..(at + bytes) as usize]
    }

    pub fn slice_mut(&mut self, at: u32, bytes: u32) -> &mut [u8] {
        &mut self.data[at as usize..(at + bytes) as usize]
    }

    #[inline(always)]
    fn span(&self, at: u32, bytes: u32) -> std::ops::RangeInclusive<usize> {
        (at >> self.shift) as usize..=((at + bytes - 1) >> self.shift) as usize
    }

    /// Checks and notes a read of the generic proxy.
    #[inline]
    pub fn read(
        &mut self,
        clocks: &Clocks,
        actor: Actor,
        at: u32,
        bytes: u32,
    ) -> Result<(), Conflict> {
        let view = clocks.view(actor.warp);
        let own = view[actor.warp];
        let mut good = Record { clock: 1, warp: u8::MAX, ..Record::default() };
        for g in self.span(at, bytes) {
            let record = self.writes[g];
            if record != good {
                if !record.seen_by(view, actor) {
                    self.explain_read(g, record)?;
                }
                good = record;
            }
            if self.checks.races {
                let last = &mut self.reads[g * self.warps + actor.warp];
                // A read in flight stays in flight.
                *last = (*last).max(own);
            }
        }
        Ok(())
    }

    #[cold]
    fn explain_read(&self, g: usize, record: Record) -> Result<(), Conflict> {
        let at = (g << self.shift) as u32;
        let Record { clock, warp, lane, source } = record;
        match clock {
            0 if self.checks.uninitialised => Err(Conflict::Uninitialised { at }),
            0 => Ok(()),
            IN_FLIGHT => Err(Conflict::Pending { at, warp, lane, source }),
            _ if self.checks.races => {
                Err(Conflict::Race { at, warp, lane, source, kind: "read of bytes written" })
            }
            _ => Ok(()),
        }
    }

    /// Checks that a write may happen. Where `same` says so, a second lane of the same instruction may
    /// store what is there already.
    #[inline]
    fn check_write(
        &self,
        clocks: &Clocks,
        actor: Actor,
        g: usize,
        atomic: bool,
        same: impl FnOnce() -> bool,
    ) -> Result<(), Conflict> {
        let at = (g << self.shift) as u32;
        let view = clocks.view(actor.warp);
        let record = self.writes[g];
        let Record { clock, warp, lane, source } = record;
        if clock == IN_FLIGHT {
            return Err(Conflict::Pending { at, warp, lane, source });
        }
        if !self.checks.races {
            return Ok(());
        }
        let atomics = atomic && lane & ATOMIC != 0;
        let own = warp as usize == actor.warp;
        let allowed = clock == 0 || record.seen_by(view, actor) || atomics || own && same();
        if !allowed {
            return Err(Conflict::Race {
                at,
                warp,
                lane,
                source,
                kind: "write over bytes written",
            });
        }
        let reads = &self.reads[g * self.warps..][..self.warps];
        for (v, (&read, &seen)) in reads.iter().zip(view).enumerate() {
            if read > seen {
                return Err(if read == IN_FLIGHT {
                    Conflict::Reading { at, warp: v as u8 }
                } else {
                    Conflict::Race {
                        at,
                        warp: v as u8,
                        lane: u8::MAX,
                        source: u16::MAX,
                        kind: "write over bytes read",
                    }
                });
            }
        }
        Ok(())
    }

    /// Checks and notes a write of the generic proxy. `value` is what is about to be stored.
    #[inline]
    pub fn write(
        &mut self,
        clocks: &Clocks,
        actor: Actor,
        at: u32,
        value: &[u8],
    ) -> Result<(), Conflict> {
        let bytes = value.len() as u32;
        let record = Record {
            clock: clocks.view(actor.warp)[actor.warp],
            warp: actor.warp as u8,
            lane: actor.lane as u8,
            source: actor.source.min(u32::from(u16::MAX)) as u16,
        };
        for g in self.span(at, bytes) {
            self.check_write(clocks, actor, g, false, || self.slice(at, bytes) == value)?;
            self.writes[g] = record;
        }
        Ok(())
    }

    /// Checks and notes an atomic read-modify-write.
    pub fn update(
        &mut self,
        clocks: &Clocks,
        actor: Actor,
        at: u32,
        bytes: u32,
    ) -> Result<(), Conflict> {
        for g in self.span(at, bytes) {
            let record = self.writes[g];
            // Other atomics on the same bytes need no order; anything else does, read or written.
            if record.lane & ATOMIC == 0 && !record.seen_by(clocks.view(actor.warp), actor) {
                self.explain_read(g, record)?;
            }
            self.check_write(clocks, actor, g, true, || false)?;
            self.writes[g] = Record {
                clock: clocks.view(actor.warp)[actor.warp],
                warp: actor.warp as u8,
                lane: actor.lane as u8 | ATOMIC,
                source: actor.source.min(u32::from(u16::MAX)) as u16,
            };
        }
        Ok(())
    }

    /// Checks and notes an access by another block of the cluster, which has `seen` so much of this one; it is the
    /// `clock`th. A copy by the engine of `actor`'s block leaves the bytes in flight.
    pub fn remote(
        &mut self,
        clocks: &Clocks,
        seen: &[u32],
        clock: u32,
        actor: Actor,
        (at, bytes): (u32, u32),
        access: Remote,
    ) -> Result<(), Conflict> {
        let remote = clocks.remote();
        for g in self.span(at, bytes) {
            let record = self.writes[g];
            let ordered = record.clock != IN_FLIGHT
                && (record.clock <= seen[usize::from(record.warp)]
                    || access == Remote::Atomic && record.lane & ATOMIC != 0);
            if !ordered || access == Remote::Read && record.clock == 0 {
                self.explain_read(g, record)?;
            }
            if access == Remote::Read {
                if self.checks.races {
                    self.reads[g * self.warps + remote] = clock;
                }
                continue;
            }
            if self.checks.races {
                let reads = &self.reads[g * self.warps..][..self.warps];
                let late = |(v, &read): (usize, &u32)| (read > seen[v]).then_some((v, read));
                if let Some((v, read)) = reads.iter().enumerate().find_map(late) {
                    let (at, warp) = ((g << self.shift) as u32, v as u8);
                    let kind = "write over bytes read";
                    return Err(if read == IN_FLIGHT {
                        Conflict::Reading { at, warp }
                    } else {
                        Conflict::Race { at, warp, lane: u8::MAX, source: u16::MAX, kind }
                    });
                }
            }
            self.writes[g] = match access {
                Remote::Copy => Record {
                    clock: IN_FLIGHT,
                    warp: actor.warp as u8,
                    lane: ENGINE,
                    source: actor.source.min(u32::from(u16::MAX)) as u16,
                },
                _ => Record {
                    clock,
                    warp: remote as u8,
                    lane: REMOTE | if access == Remote::Atomic { ATOMIC } else { 0 },
                    source: actor.source.min(u32::from(u16::MAX)) as u16,
                },
            };
        }
        Ok(())
    }

    /// An asynchronous copy will write these bytes: until it has, no thread may access them.
    pub fn begin_copy(
        &mut self,
        clocks: &Clocks,
        actor: Actor,
        at: u32,
        bytes: u32,
        by_engine: bool,
    ) -> Result<(), Conflict> {
        for g in self.span(at, bytes) {
            self.check_write(clocks, actor, g, false, || false)?;
            self.writes[g] = Record {
                clock: IN_FLIGHT,
                warp: actor.warp as u8,
                lane: if by_engine { ENGINE } else { actor.lane as u8 },
                source: actor.source.min(u32::from(u16::MAX)) as u16,
            };
        }
        Ok(())
    }

    /// The copy is done; the bytes count as written by `actor` now.
    pub fn end_copy(&mut self, clocks: &Clocks, actor: Actor, at: u32, data: &[u8]) {
        self.slice_mut(at, data.len() as u32).copy_from_slice(data);
        let clock = clocks.view(actor.warp)[actor.warp];
        for g in self.span(at, data.len() as u32) {
            self.writes[g] = Record {
                clock,
                warp: actor.warp as u8,
                lane: actor.lane as u8,
                source: actor.source.min(u32::from(u16::MAX)) as u16,
            };
        }
    }

    /// The engine is done writing these bytes at its clock `clock`.
    pub fn end_engine_copy(
        &mut self,
        clocks: &Clocks,
        clock: u32,
        source: u32,
        at: u32,
        data: &[u8],
    ) {
        self.slice_mut(at, data.len() as u32).copy_from_slice(data);
        for g in self.span(at, data.len() as u32) {
            self.writes[g] = Record {
                clock,
                warp: clocks.engine() as u8,
                lane: ENGINE,
                source: source.min(u32::from(u16::MAX)) as u16,
            };
        }
    }

    /// Checks an asynchronous read by warp `actor.warp`; it stays in flight until
    /// [`Shared::end_async_read`].
    pub fn begin_async_read(
        &mut self,
        clocks: &Clocks,
        actor: Actor,
        at: u32,
        bytes: u32,
    ) -> Result<(), Conflict> {
        let view = clocks.view(actor.warp);
        for g in self.span(at, bytes) {
            let record = self.writes[g];
            let v = record.warp as usize;
            if record.clock == 0 || record.clock > view[v] {
                self.explain_read(g, record)?;
            } else if self.checks.races
                && v != clocks.engine()
                && !clocks.visible_to_async(actor.warp, v, record.clock)
            {
                return Err(Conflict::Unfenced {
                    at: (g << self.shift) as u32,
                    warp: record.warp,
                    source: record.source,
                });
            }
            self.reads[g * self.warps + actor.warp] = IN_FLIGHT;
        }
        Ok(())
    }

    /// Marks bytes as still being read.
    pub fn keep_async_read(&mut self, warp: usize, at: u32, bytes: u32) {
        for g in self.span(at, bytes) {
            self.reads[g * self.warps + warp] = IN_FLIGHT;
        }
    }

    pub fn end_async_read(&mut self, clocks: &Clocks, warp: usize, at: u32, bytes: u32) {
        let own = clocks.view(warp)[warp];
        for g in self.span(at, bytes) {
            self.reads[g * self.warps + warp] = own;
        }
    }

    /// `lane` as messages call it.
    pub fn lane_name(lane: u8) -> String {
        match lane {
            ENGINE => " by the asynchronous copy engine".into(),
            u8::MAX => String::new(),
            lane if lane & !ATOMIC == REMOTE => " by another block of the cluster".into(),
            lane => format!(", lane {}", lane & !ATOMIC),
        }
    }

    /// Whether the lane code says that the asynchronous engine wrote.
    pub fn by_engine(lane: u8) -> bool {
        lane == ENGINE
    }
}
