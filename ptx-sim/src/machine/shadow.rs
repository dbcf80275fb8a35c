//! Records of accesses to global memory, by which races between blocks are found.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use super::order::{Event, Releases};
use crate::program::Scope;
use crate::report::SameValue;

/// Granules of a page.
pub const PAGE: usize = 256;

/// Pages of a launch at most, some 200 MB; accesses beyond are not checked, and the report says so.
pub const MOST_PAGES: usize = 1 << 14;

/// Locks that the pages share.
pub const SHARDS: usize = 64;

/// One access to a granule.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access {
    pub event: Event,
    pub source: u16,
    pub scope: Scope,
}

/// Accesses to a granule: the last write, the last read, and the last read of another block than that.
#[derive(Debug, Clone, Copy, Default)]
pub struct Record {
    pub write: Access,
    pub read: Access,
    pub other: Access,
}

pub type Pages = HashMap<u64, Box<[Record; PAGE]>>;

/// Records of global memory during a launch.
#[derive(Debug)]
pub struct Shadow {
    /// Bytes of a granule: two to this power.
    pub shift: u32,
    pub shards: Vec<Mutex<Pages>>,
    pub pages: AtomicUsize,
    pub incomplete: AtomicBool,
    pub same: Mutex<BTreeMap<(u16, u16), u64>>,
    pub releases: Releases,
}

/// Kind of an access.
#[derive(Clone, Copy)]
pub enum Kind<'a> {
    Read,
    Write(Write<'a>),
    Atomic,
}

/// Comparison and store of a lane's value.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// Whether the lane stores what another lane of the same instruction does, or what memory holds.
    pub same: &'a dyn Fn(usize, Option<usize>) -> bool,
    /// Stores it.
    pub store: &'a dyn Fn(usize),
}

/// A write of bytes that are not compared, and that are stored elsewhere.
pub const COPY: Kind = Kind::Write(Write { same: &|_, _| false, store: &|_| () });

impl Shadow {
    /// Records for accesses of `granule` bytes and more, a power of two.
    pub fn new(granule: u32) -> Self {
        Self {
            shift: granule.trailing_zeros(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            pages: AtomicUsize::new(0),
            incomplete: AtomicBool::new(false),
            same: Mutex::default(),
            releases: Releases::default(),
        }
    }

    /// Whether some accesses were not checked, for want of room.
    pub fn incomplete(&self) -> bool {
        self.incomplete.load(Relaxed)
    }

    /// Stores of the same value that nothing orders: numbers of both statements, and how often.
    pub fn same(self) -> BTreeMap<(u16, u16), u64> {
        self.same.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    pub fn shard(&self, page: u64) -> MutexGuard<'_, Pages> {
        // Neighbouring pages have different locks.
        let shard = &self.shards[page as usize % SHARDS];
        shard.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl SameValue {
    /// Notes by line from notes by statement.
    pub fn list(same: &BTreeMap<(u16, u16), u64>, line: impl Fn(u16) -> u32) -> Vec<Self> {
        let notes = same.iter().map(|(&(first, second), &times)| Self {
            line: line(second),
            other_line: line(first),
            times,
        });
        notes.collect()
    }
}
