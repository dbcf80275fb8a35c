//! Parts that streams of samples and of counts share.

use std::net::TcpListener;

use corrust::Result;

use crate::cli::terminal::say::warn;

/// Listener of the pages, and the host names that they are served by.
pub struct Http {
    pub listener: TcpListener,
    pub names: Vec<String>,
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
                warn(format_args!("{error}; {} are dropped until it is over", self.what))
            }
            (Ok(()), true) => warn(format_args!("{} are written again", self.what)),
            (Ok(()), false) => return,
            (Err(_), true) => return,
        }
        self.lasting = !self.lasting;
    }
}
