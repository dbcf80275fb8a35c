//! Order between blocks: the progress of others that each has seen, by the memory model of PTX.
//!
//! A release (a fence, then a relaxed or volatile store or an atomic; or a releasing one) leaves at its address what
//! its thread has done and seen so far. An acquire (a relaxed or volatile load or an atomic, then a fence; or an
//! acquiring one) takes that up. Chains of atomics on one address go on with the release at their head.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use super::clocks::Clocks;
use crate::lanes::{LANES, Mask, lanes};
use crate::program::{Ordering, Scope};

/// Acquisitions that a block keeps apart by warp.
const MOST_ACQUIRED: usize = 64;
/// Addresses whose releases a warp has read and not yet acquired.
const MOST_PENDING: usize = 16;
/// Stands in place of a warp: all of them.
pub const EVERY: usize = usize::MAX;

/// Time of a warp: its clock, and the fences and releases since the clock last went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time {
    pub clock: u32,
    pub fences: u16,
}

/// Thread that did something, and when. Block 0 stands for no thread; the first block of a grid is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Event {
    pub block: u32,
    pub time: Time,
    pub warp: u8,
    pub lane: u8,
}

/// Progress of its own block that a thread had made or seen.
#[derive(Debug, Clone)]
struct Stamp {
    /// Clocks of the warps of the block, all lanes of them.
    clocks: Box<[u32]>,
    warp: u8,
    lane: u8,
    /// Latest time of the thread itself that is covered.
    time: Time,
    scope: Scope,
}

impl Stamp {
    fn covers(&self, event: Event) -> bool {
        if event.time.clock <= self.clocks[usize::from(event.warp)] {
            return true;
        }
        event.warp == self.warp && event.lane == self.lane && event.time <= self.time
    }
}

/// Stamps of several blocks.
#[derive(Debug, Clone, Default)]
pub struct View {
    blocks: BTreeMap<u32, Vec<Stamp>>,
}

impl View {
    fn add(&mut self, block: u32, stamp: Stamp) {
        let stamps = self.blocks.entry(block).or_default();
        // A thread's later stamp has all of its earlier one of no wider scope.
        stamps.retain(|s| s.warp != stamp.warp || s.lane != stamp.lane || s.scope > stamp.scope);
        stamps.push(stamp);
    }

    fn join(&mut self, other: &Self, scope: Scope) {
        for (&block, stamps) in &other.blocks {
            for stamp in stamps {
                self.add(block, Stamp { scope: stamp.scope.min(scope), ..stamp.clone() });
            }
        }
    }

    /// View of the warps of a block that have met at the barrier of their cluster.
    pub fn of_block(block: u32, clocks: &[u32]) -> Self {
        let mut view = Self::default();
        view.add(
            block,
            Stamp {
                clocks: clocks.into(),
                warp: u8::MAX,
                lane: 0,
                time: Time::default(),
                scope: Scope::Cluster,
            },
        );
        view
    }
}

/// A view that a warp acquired at a clock of its own.
#[derive(Debug)]
struct Acquired {
    warp: usize,
    clock: u32,
    scope: Scope,
    view: Arc<View>,
}

/// Time and scope of each lane's latest fence.
type Fenced = [Option<(Time, Scope)>; LANES];

/// State of one warp.
#[derive(Debug, Default)]
struct Side {
    fences: u16,
    /// Clock at which `fences` began to count.
    clock: u32,
    /// For each lane the time up to which its latest fence covers it, and the fence's scope.
    fenced: Option<Box<Fenced>>,
    /// Clocks of the block that the warp had seen at its latest fence.
    seen: Box<[u32]>,
    /// Released views that were read, by address.
    pending: Vec<(u64, Arc<View>)>,
}

/// Knowledge that the warps of a block have of other blocks.
#[derive(Debug, Default)]
pub struct Knowledge {
    block: u32,
    cluster: u32,
    sides: Vec<Side>,
    acquired: Vec<Acquired>,
}

impl Knowledge {
    /// Begins block number `block`, from 1, of clusters of `cluster` blocks.
    pub fn reset(&mut self, block: u32, cluster: u32, warps: usize) {
        self.block = block;
        self.cluster = cluster;
        self.sides.clear();
        self.sides.resize_with(warps, Side::default);
        self.acquired.clear();
    }

    /// Number of the block, from 1.
    pub fn block(&self) -> u32 {
        self.block
    }

    pub fn time(&self, clocks: &Clocks, warp: usize) -> Time {
        let clock = clocks.view(warp)[warp];
        let side = &self.sides[warp];
        Time { clock, fences: if side.clock == clock { side.fences } else { 0 } }
    }

    /// An event of a thread now.
    pub fn event(&self, clocks: &Clocks, warp: usize, lane: usize) -> Event {
        Event {
            block: self.block,
            time: self.time(clocks, warp),
            warp: warp as u8,
            lane: lane as u8,
        }
    }

    fn tick(&mut self, clocks: &Clocks, warp: usize) {
        let Time { clock, fences } = self.time(clocks, warp);
        let side = &mut self.sides[warp];
        (side.clock, side.fences) = (clock, fences.saturating_add(1));
    }

    /// Whether accesses of two blocks may order each other at `scope`.
    pub fn reaches(&self, scope: Scope, block: u32) -> bool {
        match scope {
            Scope::Gpu => true,
            Scope::Cluster => (block - 1) / self.cluster == (self.block - 1) / self.cluster,
            Scope::Cta => block == self.block,
            Scope::Weak => false,
        }
    }

    /// Whether `event` happened before what a thread does now.
    #[inline]
    pub fn ordered(&self, clocks: &Clocks, warp: usize, lane: usize, event: Event) -> bool {
        if event.block == self.block {
            let view = clocks.view(warp);
            let by = usize::from(event.warp);
            if by == warp {
                if event.time.clock < view[warp] || usize::from(event.lane) == lane {
                    return true;
                }
            } else if event.time.clock <= view[by] {
                return true;
            }
        }
        self.acquired.iter().any(|acquired| {
            self.sees(clocks, warp, acquired)
                && acquired.view.blocks.get(&event.block).is_some_and(|stamps| {
                    stamps.iter().any(|stamp| {
                        self.reaches(stamp.scope.min(acquired.scope), event.block)
                            && stamp.covers(event)
                    })
                })
        })
    }

    fn sees(&self, clocks: &Clocks, warp: usize, acquired: &Acquired) -> bool {
        acquired.warp == EVERY
            || acquired.warp == warp
            || acquired.clock <= clocks.view(warp)[acquired.warp]
    }

    /// A fence of the lanes of `mask`.
    pub fn fence(&mut self, clocks: &Clocks, warp: usize, mask: Mask, scope: Scope) {
        let time = self.time(clocks, warp);
        let side = &mut self.sides[warp];
        let fenced = side.fenced.get_or_insert_default();
        lanes(mask).for_each(|lane| fenced[lane] = Some((time, scope)));
        side.seen = clocks.view(warp).into();
        for (_, view) in std::mem::take(&mut side.pending) {
            self.acquire(warp, time.clock, scope, view);
        }
        self.tick(clocks, warp);
    }

    /// A warp, or all warps of the block, have seen what a view says.
    pub fn acquire(&mut self, warp: usize, clock: u32, scope: Scope, view: Arc<View>) {
        if self.acquired.len() == MOST_ACQUIRED {
            let mut all = View::default();
            for acquired in self.acquired.drain(..) {
                all.join(&acquired.view, acquired.scope);
            }
            self.acquired.push(Acquired {
                warp: EVERY,
                clock: 0,
                scope: Scope::Gpu,
                view: Arc::new(all),
            });
        }
        self.acquired.push(Acquired { warp, clock, scope, view });
    }

    /// Returns the view that a strong store or an atomic of a thread publishes, if it does.
    fn published(
        &mut self,
        clocks: &Clocks,
        warp: usize,
        lane: usize,
        order: Ordering,
    ) -> Option<View> {
        let side = &self.sides[warp];
        let own = clocks.view(warp);
        let (time, scope, seen) = if order.release {
            (self.time(clocks, warp), order.scope, own)
        } else {
            let (time, scope) = side.fenced.as_ref()?[lane]?;
            (time, scope.min(order.scope), &*side.seen)
        };
        let mut stamp: Box<[u32]> = seen.into();
        // The thread has seen its own warp before this clock, and itself.
        stamp[warp] = time.clock.saturating_sub(1);
        let mut view = View::default();
        for acquired in &self.acquired {
            if self.sees(clocks, warp, acquired) {
                view.join(&acquired.view, acquired.scope);
            }
        }
        view.add(
            self.block,
            Stamp { clocks: stamp, warp: warp as u8, lane: lane as u8, time, scope },
        );
        if order.release {
            self.tick(clocks, warp);
        }
        Some(view)
    }
}

/// Released views by address.
#[derive(Debug, Default)]
pub struct Releases {
    views: Mutex<HashMap<u64, Arc<View>>>,
}

impl Releases {
    /// A strong access of a thread to `address`: it reads, writes, or both.
    pub fn access(
        &self,
        knowledge: &mut Knowledge,
        clocks: &Clocks,
        (warp, lane): (usize, usize),
        address: u64,
        order: Ordering,
        (reads, writes): (bool, bool),
    ) {
        let published = if writes { knowledge.published(clocks, warp, lane, order) } else { None };
        let mut views = self.views.lock().unwrap_or_else(|e| e.into_inner());
        let read = if reads { views.get(&address).cloned() } else { None };
        match published {
            Some(published) if reads => {
                Arc::make_mut(views.entry(address).or_default()).join(&published, Scope::Gpu);
            }
            Some(published) => drop(views.insert(address, Arc::new(published))),
            // A store that releases nothing hides what was released before.
            None if writes && !reads => drop(views.remove(&address)),
            None => {}
        }
        drop(views);
        let Some(view) = read else { return };
        if order.acquire {
            let clock = clocks.view(warp)[warp];
            knowledge.acquire(warp, clock, order.scope, view);
            return;
        }
        let pending = &mut knowledge.sides[warp].pending;
        pending.retain(|(at, _)| *at != address);
        if pending.len() == MOST_PENDING {
            pending.remove(0);
        }
        pending.push((address, view));
    }
}
