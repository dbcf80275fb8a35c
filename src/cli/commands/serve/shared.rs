//! Parts that streams of samples and of counts share.

use std::{
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

/// Says once that packets of something else come.
pub struct Strangers {
    /// When to look next; never again once they were said.
    next: Option<Instant>,
    /// Name of the packets that are expected, as in "SPEAD 64-48".
    expected: &'static str,
}

impl Strangers {
    pub fn of(expected: &'static str) -> Self {
        Self { next: Some(Instant::now()), expected }
    }

    /// Looks, from time to time, at the packets that came.
    pub fn poll(&mut self, tally: impl FnOnce() -> Tally) {
        if self.next.is_some_and(|next| next <= Instant::now()) {
            self.last(tally);
        }
    }

    /// Looks at them now, as after the last.
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

/// The end of a service that a signal stops: it correlates received samples, for some time at most.
pub struct Drain {
    most: Seconds,
    end: Option<Instant>,
}

impl Drain {
    pub fn of(most: Seconds) -> Self {
        Self { most, end: None }
    }

    /// Says so and begins.
    pub fn begin(&mut self) {
        tell("stopping: correlating what came; a second signal ends it at once");
        let most = Duration::try_from_secs_f64(self.most.0).ok();
        self.end = most.and_then(|most| Instant::now().checked_add(most));
    }

    /// Whether its time is over, and chunks that were `received` wait: they are dropped, and it says how many.
    pub fn is_over<C>(&self, received: &mpsc::Receiver<C>) -> bool {
        let is_over = self.end.is_some_and(|end| end < Instant::now());
        let left = if is_over { received.try_iter().count() } else { 0 };
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

/// Says the first of many errors that follow each other, and when they are over.
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
