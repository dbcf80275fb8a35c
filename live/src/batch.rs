//! Many packets in one call of the system, where it has such a call.

use std::{io, net::UdpSocket};

/// Packets that are fetched at a time.
const MOST: usize = 64;

/// Bytes of a packet's room: the most of UDP, and apart by no power of two.
const ROOM: usize = (1 << 16) + 64;

/// Room for packets.
pub(super) struct Batch {
    room: Vec<u8>,
    /// Each packet's sender, and its bytes; none of one that is longer than its room.
    found: Vec<(u64, Option<usize>)>,
    /// Packets of this socket that the system has dropped since it was opened, and before the last look.
    drops: [u32; 2],
}

impl Batch {
    /// Room for a socket's packets.
    pub fn new(socket: &UdpSocket) -> Self {
        ask_for_drops(socket);
        Self { room: vec![0; MOST * ROOM], found: Vec::with_capacity(MOST), drops: [0; 2] }
    }

    /// The senders and bytes of the packets that came last.
    pub fn packets(&self) -> impl Iterator<Item = (u64, Option<&[u8]>)> {
        self.found
            .iter()
            .zip(self.room.chunks_exact(ROOM))
            .map(|(&(sender, bytes), room)| (sender, bytes.map(|bytes| &room[..bytes])))
    }

    /// Packets that the system dropped since the last call.
    pub fn dropped(&mut self) -> u64 {
        let [now, before] = self.drops;
        self.drops = [now; 2];
        now.wrapping_sub(before).into()
    }

    /// Waits for a packet and fetches it and those behind it.
    #[cfg(not(target_os = "linux"))]
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<()> {
        self.found.clear();
        let (bytes, sender) = socket.recv_from(&mut self.room[..ROOM])?;
        let sender = match sender {
            std::net::SocketAddr::V4(sender) => {
                u64::from(sender.ip().to_bits()) << 16 | u64::from(sender.port())
            }
            std::net::SocketAddr::V6(_) => 0,
        };
        self.found.push((sender, Some(bytes)));
        Ok(())
    }

    /// Waits for a packet and fetches it and those behind it.
    #[cfg(target_os = "linux")]
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<()> {
        use std::{mem, os::fd::AsRawFd, ptr};
        /// Room for the one control message that is asked for.
        #[derive(Clone, Copy)]
        #[repr(C, align(8))]
        struct Control([u8; 32]);
        self.found.clear();
        // SAFETY: all bits zero are an address.
        let mut senders: [libc::sockaddr_in; MOST] = unsafe { mem::zeroed() };
        let mut controls = [Control([0; 32]); MOST];
        // SAFETY: all bits zero are a place of no bytes.
        let mut places: [libc::iovec; MOST] = unsafe { mem::zeroed() };
        // SAFETY: all bits zero are a header of no message.
        let mut headers: [libc::mmsghdr; MOST] = unsafe { mem::zeroed() };
        for (place, room) in places.iter_mut().zip(self.room.chunks_exact_mut(ROOM)) {
            *place = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: ROOM };
        }
        for (index, header) in headers.iter_mut().enumerate() {
            let header = &mut header.msg_hdr;
            header.msg_name = (&raw mut senders[index]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
            header.msg_iov = &raw mut places[index];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut controls[index]).cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: every header names room that lives until the call returns, and how long it is.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                MOST as u32,
                libc::MSG_WAITFORONE as _,
                ptr::null_mut(),
            )
        };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        for (header, sender) in headers.iter().zip(&senders).take(count as usize) {
            let ip = u32::from_be(sender.sin_addr.s_addr);
            let sender = u64::from(ip) << 16 | u64::from(u16::from_be(sender.sin_port));
            let cut = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            self.found.push((sender, (!cut).then_some(header.msg_len as usize)));
        }
        if count > 0 {
            let header = &headers[count as usize - 1].msg_hdr;
            // SAFETY: the system has filled the header's control messages in.
            let message = unsafe { libc::CMSG_FIRSTHDR(header) };
            // SAFETY: it is null, or the first message, complete.
            if let Some(found) = unsafe { message.as_ref() }
                && (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SO_RXQ_OVFL)
            {
                // SAFETY: a message of this type holds 32 bits.
                self.drops[0] = unsafe { libc::CMSG_DATA(message).cast::<u32>().read_unaligned() };
            }
        }
        Ok(())
    }
}

/// Has every packet tell how many were dropped before it.
fn ask_for_drops(socket: &UdpSocket) {
    #[cfg(target_os = "linux")]
    set(socket, libc::SO_RXQ_OVFL, 1);
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// Has the system keep up to `bytes` bytes of packets, or as many as it allows.
pub(super) fn set_buffer(socket: &socket2::Socket, bytes: usize) {
    // Refused or cut where it is too much.
    let _ = socket.set_recv_buffer_size(bytes);
    // Privileged processes may have larger buffers.
    #[cfg(target_os = "linux")]
    set(socket, libc::SO_RCVBUFFORCE, bytes.min(libc::c_int::MAX as usize) as libc::c_int);
}

/// Sets an option of a socket, where the system has it and allows it.
#[cfg(target_os = "linux")]
fn set(socket: &impl std::os::fd::AsRawFd, option: libc::c_int, value: libc::c_int) {
    // SAFETY: the option is an integer, which lives until the call returns.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as u32,
        );
    }
}
