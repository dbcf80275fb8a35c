//! Parts that streams of samples and of counts share.

use std::{
    collections::VecDeque,
    net::TcpListener,
    sync::mpsc,
    time::{Duration, Instant},
};

use corrust::{
    Result,
    live::{Tally, spead::Fault},
};

use crate::cli::{
    options::units::Seconds,
    terminal::{
        numbers::count,
        say::{error as say_error, note, tell, warn},
    },
};

/// Listener of the pages, and the host names that they are served by.
pub struct Http {
    pub listener: TcpListener,
    pub names: Vec<String>,
}

/// Time between two looks for foreign packets.
const LOOK: Duration = Duration::from_millis(500);

/// Warns once about packets of another kind.
pub struct Strangers {
    /// Time of the next check; none once they were reported.
    next: Option<Instant>,
    /// Name of the packets that are expected, as in "SPEAD 64-48".
    expected: &'static str,
}

impl Strangers {
    pub fn of(expected: &'static str) -> Self {
        Self { next: Some(Instant::now()), expected }
    }

    /// Checks the packets that came, from time to time.
    pub fn poll(&mut self, tally: impl FnOnce() -> Tally) {
        if self.next.is_some_and(|next| next <= Instant::now()) {
            self.last(tally);
        }
    }

    /// Checks them now, as after the last packet.
    pub fn last(&mut self, tally: impl FnOnce() -> Tally) {
        if self.next.is_none() {
            return;
        }
        let found = tally().faults(Fault::Foreign);
        self.next = (found == 0).then(|| Instant::now() + LOOK);
        if found > 0 {
            warn(format_args!(
                "packets of something else than {} come, {found} so far: they are not read",
                self.expected
            ));
        }
    }
}

/// Chunks as a receiver passes them, up to the end of a service that a signal stops: it correlates those that came, for some time
/// at most.
pub struct Drain<C> {
    passed: mpsc::Receiver<C>,
    /// Chunks that came before the signal.
    waiting: VecDeque<C>,
    most: Seconds,
    end: Option<Instant>,
}

impl<C> Drain<C> {
    pub fn of(passed: mpsc::Receiver<C>, most: Seconds) -> Self {
        Self { passed, waiting: VecDeque::new(), most, end: None }
    }

    /// The next chunk, waited for; none where none came.
    pub fn next(&mut self) -> Option<C> {
        let received = || self.passed.recv_timeout(Duration::from_millis(50)).ok();
        self.waiting.pop_front().or_else(received)
    }

    /// Begins the end, once nothing else comes, and says what is still to be correlated.
    pub fn begin(&mut self) {
        self.waiting.extend(self.passed.try_iter());
        tell(format_args!(
            "stopping: correlating {} that came, for {} s at most; a second signal ends it at once",
            count(self.waiting.len(), "chunk"),
            self.most.0
        ));
        let most = Duration::try_from_secs_f64(self.most.0).ok();
        self.end = most.and_then(|most| Instant::now().checked_add(most));
    }

    /// Whether its time is over, and chunks wait: they are dropped, and it says how many.
    pub fn is_over(&mut self) -> bool {
        let is_over = self.end.is_some_and(|end| end < Instant::now());
        let left = if is_over { self.waiting.drain(..).count() } else { 0 };
        if left > 0 {
            warn(format_args!(
                "{} that came {} not correlated in the {} s of --drain",
                count(left, "chunk"),
                if left == 1 { "was" } else { "were" },
                self.most.0
            ));
        }
        left > 0
    }
}

/// Reports the first of several successive errors, and their end.
pub struct Faults {
    lasting: bool,
    /// Name of the files, as in "dumps".
    what: &'static str,
}

impl Faults {
    pub fn of(what: &'static str) -> Self {
        Self { lasting: false, what }
    }

    pub fn said(&mut self, result: Result<()>) {
        match (result, self.lasting) {
            (Err(error), false) => {
                say_error(format_args!("{error}; {} are dropped until it is over", self.what))
            }
            (Ok(()), true) => note(format_args!("{} are written again", self.what)),
            (Ok(()), false) => return,
            (Err(_), true) => return,
        }
        self.lasting = !self.lasting;
    }
}
