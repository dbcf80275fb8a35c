//! Parts that streams of samples and of counts share.

use std::net::{TcpListener, UdpSocket};

use corrust::{
    Error, Result,
    live::{self, Endpoints, Receiver},
};

use super::args::Args;
use crate::cli::{options::stream::Cores, terminal::say::warn};

/// Fewest and most chunks that are being correlated, or wait for it, and the bytes of those between: room for packets
/// that come while the device is busy with something else.
const WAITING: [usize; 2] = [4, 256];
const WAITING_BYTES: usize = 256 << 20;

/// Listener of the pages, and the host names that they are served by.
pub struct Http {
    pub listener: TcpListener,
    pub names: Vec<String>,
}

/// Number of chunks of `chunk_bytes` that are being correlated, or wait for it.
pub fn waiting(chunk_bytes: usize) -> usize {
    let [fewest, most] = WAITING;
    (WAITING_BYTES / chunk_bytes.max(1)).clamp(fewest, most)
}

impl Args {
    /// Opens the sockets.
    pub(super) fn open_sockets(&self) -> Result<Vec<UdpSocket>> {
        let mut sockets = Vec::new();
        for address in self.listen.iter().flat_map(Endpoints::iter) {
            let (interface, count) = (self.stream.interface, self.sockets.into());
            sockets.extend(live::open_several(address, interface, self.buffer, count)?);
        }
        Ok(sockets)
    }
}

/// Has a receiver's threads run on some cores, if they are given.
pub fn pin(receiver: Receiver, cores: Option<&Cores>) -> Result<Receiver> {
    match cores {
        Some(Cores(cores)) => receiver.pin(cores).map(|()| receiver),
        None => Ok(receiver),
    }
}

/// Addresses of sockets, in words.
pub fn listening(sockets: &[UdpSocket]) -> Result<String> {
    let first = sockets[0].local_addr().map_err(Error::io("a socket", "read"))?;
    Ok(match sockets.len() {
        1 => first.to_string(),
        all => format!("{first} and {} more", all - 1),
    })
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
