//! The clusters of a grid: threads of the host take them up one after the other. A cluster whose blocks spin on what
//! others have yet to store gives its thread to the next, and goes on when global memory has changed.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use rayon::prelude::*;

use super::env::Env;
use super::schedule::ClusterState;
use super::team::Team;
use super::traffic::Traffic;
use crate::error::Error;
use crate::report::Counts;

/// Clusters that wait for others on one thread at most; no GPU holds as many at a time.
const MOST_WAITING: usize = 4096;
/// Pause between two reads of memory that has not changed.
const PAUSE: Duration = Duration::from_micros(20);

/// Clusters of a launch, and the progress of the threads that run them.
pub struct Grid<'a> {
    env: &'a Env<'a>,
    clusters: u64,
    /// Next cluster to begin.
    next: AtomicU64,
    /// Changes that all blocks made to memory.
    changes: AtomicU64,
    failed: AtomicBool,
    /// Threads that have begun.
    begun: AtomicUsize,
    quiet: Mutex<Quiet>,
}

/// Threads with nothing to do since memory's change number `changes`.
#[derive(Default)]
struct Quiet {
    changes: u64,
    waiting: usize,
    left: usize,
}

/// Blocks of a cluster, and the changes of memory that they have seen.
struct Waiting<'a> {
    teams: Vec<Team<'a>>,
    seen: u64,
}

impl<'a> Grid<'a> {
    pub fn new(env: &'a Env<'a>, blocks: u64) -> Self {
        Self {
            env,
            clusters: match env.sample {
                Some(sample) => sample.clusters.len() as u64,
                None => blocks / u64::from(env.cluster_size()),
            },
            next: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            begun: AtomicUsize::new(0),
            quiet: Mutex::default(),
        }
    }

    /// Runs all blocks; counts of all statements, and of global memory where they are a sample.
    pub fn run(&self) -> Result<(Vec<Counts>, Traffic), Error> {
        let threads = rayon::current_num_threads().min(self.clusters.min(1 << 16) as usize);
        let parts = (0..threads).into_par_iter().with_max_len(1).map(|_| {
            self.begun.fetch_add(1, SeqCst);
            let counts = self.work();
            if counts.is_err() {
                self.failed.store(true, SeqCst);
            }
            let mut quiet = self.quiet.lock().unwrap_or_else(|e| e.into_inner());
            quiet.left += 1;
            counts
        });
        parts.try_reduce(Default::default, |a, b| Ok(sum(a, b)))
    }

    /// Work of one thread.
    fn work(&self) -> Result<(Vec<Counts>, Traffic), Error> {
        let mut waiting = VecDeque::new();
        let mut free: Vec<Vec<Team>> = Vec::new();
        let mut reported = None;
        while !self.failed.load(SeqCst) {
            let changes = self.changes.load(SeqCst);
            // Clusters that others may have given something go first.
            let stale = waiting.iter().position(|w: &Waiting| w.seen != changes);
            let mut teams = match stale.and_then(|at| waiting.remove(at)) {
                Some(Waiting { teams, .. }) => teams,
                None => match self.start(&mut free) {
                    Some(teams) => teams,
                    None => match waiting.front() {
                        None => break,
                        Some(stuck) if self.deadlocked(changes, &mut reported) => {
                            let spinning = stuck.teams.iter().find(|team| team.spins());
                            return Err(spinning.unwrap_or(&stuck.teams[0]).deadlock());
                        }
                        Some(_) => {
                            std::thread::sleep(PAUSE);
                            continue;
                        }
                    },
                },
            };
            let before = Team::changes(&teams);
            let turn = Team::turn(&mut teams)?;
            self.changes.fetch_add(Team::changes(&teams) - before, SeqCst);
            match turn {
                ClusterState::Ended => {
                    teams.iter().for_each(Team::end);
                    free.push(teams);
                }
                ClusterState::Spinning if waiting.len() == MOST_WAITING => {
                    return Err(teams[0].deadlock());
                }
                // Changes since before the turn may have come too late for it.
                ClusterState::Spinning => waiting.push_back(Waiting { teams, seen: changes }),
            }
        }
        let teams = waiting.into_iter().map(|w| w.teams).chain(free).flatten();
        Ok(teams.map(Team::into_counts).fold(Default::default(), sum))
    }

    /// Begins the next cluster, if there is one.
    fn start(&self, free: &mut Vec<Vec<Team<'a>>>) -> Option<Vec<Team<'a>>> {
        let index = self.next.fetch_add(1, SeqCst);
        if index >= self.clusters {
            return None;
        }
        let size = self.env.cluster_size();
        let new = || (0..size).map(|_| Team::new(self.env)).collect();
        let mut teams = free.pop().unwrap_or_else(new);
        let index = self.env.sample.map_or(index, |sample| sample.clusters[index as usize]);
        let [width, height, _] = self.env.clusters().map(u64::from);
        let cluster = [index % width, index / width % height, index / width / height];
        let first = std::array::from_fn(|axis| cluster[axis] as u32 * self.env.cluster[axis]);
        Team::begin(&mut teams, first);
        Some(teams)
    }

    /// Whether every thread has nothing to do since memory changed for the `changes`th time. The calling thread has
    /// `reported` so before for this number of changes.
    fn deadlocked(&self, changes: u64, reported: &mut Option<u64>) -> bool {
        let mut quiet = self.quiet.lock().unwrap_or_else(|e| e.into_inner());
        if quiet.changes < changes {
            quiet.changes = changes;
            quiet.waiting = 0;
        }
        if reported.replace(changes) != Some(changes) && quiet.changes == changes {
            quiet.waiting += 1;
        }
        // A thread that has left has reported its changes before.
        let latest = self.changes.load(SeqCst) == changes && quiet.changes == changes;
        latest && quiet.waiting + quiet.left >= self.begun.load(SeqCst)
    }
}

/// Counts of all sources, and of global memory, added.
fn sum(a: (Vec<Counts>, Traffic), b: (Vec<Counts>, Traffic)) -> (Vec<Counts>, Traffic) {
    let (a, mut traffic) = a;
    traffic.add(&b.1);
    if a.is_empty() {
        return (b.0, traffic);
    }
    let mut b = b.0.into_iter();
    (a.into_iter().map(|a| b.next().map_or(a, |b| a.plus(&b))).collect(), traffic)
}
