//! Facts of a network interface.

use std::{
    ffi::CString,
    io, mem,
    os::fd::{AsRawFd, OwnedFd},
};

use super::program::Failed;

/// Most bytes of an interface's name.
const NAME: usize = libc::IFNAMSIZ - 1;

/// Command of `ethtool` that tells how many queues there are.
const CHANNELS: u32 = 0x3c;

/// Numbers of queues, as `ethtool` has them.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    /// Most of each kind: receiving, sending, others, and both ways.
    most: [u32; 4],
    /// Number in use, of the same kinds.
    count: [u32; 4],
}

/// Facts of an interface.
pub(super) struct Facts {
    pub index: u32,
    /// Bytes of a packet, without Ethernet's header.
    pub mtu: usize,
    /// Queues of received packets.
    pub queues: u32,
}

impl Facts {
    /// Facts of the interface of a name.
    ///
    /// # Errors
    /// The system's, when there is none.
    pub fn of(name: &str) -> Result<Self, Failed> {
        let absent = |error| ("find the interface", error);
        let named = CString::new(name).map_err(|_| absent(io::ErrorKind::InvalidInput.into()))?;
        // SAFETY: the name ends with a zero, and lives until the call returns.
        let index = unsafe { libc::if_nametoindex(named.as_ptr()) };
        if index == 0 || name.len() > NAME {
            return Err(absent(io::Error::last_os_error()));
        }
        let socket: OwnedFd = std::net::UdpSocket::bind("0.0.0.0:0")
            .map_err(|error| ("open a socket", error))?
            .into();
        // SAFETY: all bits zero are a request without a name.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (to, &byte) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
            *to = byte as libc::c_char;
        }
        let ask = |request: &mut libc::ifreq, what| {
            // SAFETY: the request names an interface, and lives until the call returns.
            match unsafe { libc::ioctl(socket.as_raw_fd(), what, std::ptr::from_mut(request)) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        ask(&mut request, libc::SIOCGIFMTU).map_err(|error| ("look at the interface", error))?;
        // SAFETY: the system has filled it in.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        let mut channels = Channels { command: CHANNELS, ..Channels::default() };
        request.ifr_ifru.ifru_data = (&raw mut channels).cast();
        // Drivers that do not say have one.
        let queues = ask(&mut request, libc::SIOCETHTOOL).map_or(0, |()| {
            let [receiving, _, _, both] = channels.count;
            receiving + both
        });
        Ok(Self { index, mtu: mtu.max(0) as usize, queues: queues.max(1) })
    }
}
