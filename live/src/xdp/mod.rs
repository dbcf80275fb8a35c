//! Packets taken from an interface's queues before the system's network stack (AF_XDP, Linux).
//!
//! A program of some forty instructions runs in the kernel for every packet that comes to the interface. Datagrams for the
//! addresses that are listened to (UDP over IPv4 in plain Ethernet frames; no VLAN tags, no options, no fragments) go to
//! memory of this process, a socket for each queue, and all other packets pass. Packets of queues that are not taken, and
//! fragments, come to the ordinary sockets of the same addresses. The system detaches the program when the process ends,
//! however it does.

mod datagram;
#[cfg(all(feature = "xdp", target_os = "linux"))]
mod facts;
mod interface;
#[cfg(all(feature = "xdp", target_os = "linux"))]
mod mapping;
#[cfg(all(feature = "xdp", target_os = "linux"))]
mod program;
#[cfg(all(feature = "xdp", target_os = "linux"))]
mod queue;

use std::net::SocketAddrV4;

use corrust_host::Result;

use super::batch::Socket;

pub use datagram::Datagram;
pub use interface::{Interface, Mode};
#[cfg(all(feature = "xdp", target_os = "linux"))]
pub use queue::Queue;

impl Interface {
    /// Opens its queues for packets to `addresses`, of which address 0.0.0.0 is any, with `buffer` bytes of memory for
    /// each queue's packets. Packets are taken until the sockets are dropped.
    ///
    /// # Errors
    /// [`Error::Setting`](corrust_host::Error::Setting) naming the interface: it or the queue does not exist, this process
    /// lacks the permission, another program is attached, or this build has no such sockets.
    #[cfg(all(feature = "xdp", target_os = "linux"))]
    pub fn open(
        &self,
        mode: Mode,
        addresses: &[SocketAddrV4],
        buffer: usize,
    ) -> Result<Vec<Socket>> {
        Ok(queue::open(self, mode, addresses, buffer)?.into_iter().map(Socket::from).collect())
    }

    /// Opens its queues for packets to `addresses`: not in this build.
    ///
    /// # Errors
    /// [`Error::Setting`](corrust_host::Error::Setting) always.
    #[cfg(not(all(feature = "xdp", target_os = "linux")))]
    pub fn open(&self, _: Mode, _: &[SocketAddrV4], _: usize) -> Result<Vec<Socket>> {
        let reason = format!("interface {self}: expected Linux, and a build with the feature xdp");
        Err(corrust_host::Error::setting("xdp", None, reason))
    }
}
