//! Many packets in one call of the system, where it has such a call.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    thread::JoinHandle,
    time::Duration,
};

use super::ring::{Found, MOST, ROOM, Ring, Slots};

/// Packets of a call that are so few that it is better to wait for more: to be woken for each costs more than to fetch it.
const FEW: usize = 16;

/// Wait for more packets. The system adds some tens of microseconds.
const NAP: Duration = Duration::from_micros(20);

/// Bytes that the system has to keep for the socket for that, a tenth of a millisecond at 20 GB/s.
const NAP_BUFFER: usize = 2 << 20;

/// Bytes of packets that are fetched at a time, about: while their samples are read, they are in the L2 cache of a core.
const AT_ONCE: usize = 512 << 10;

/// Messages of a call at least, however long they are.
const FEWEST: usize = 4;

/// Source of packets, which a thread fetches them from.
#[derive(Debug)]
#[non_exhaustive]
pub enum Socket {
    /// UDP, by the system's network stack.
    Udp(UdpSocket),
    /// A queue of an interface, whose packets pass the network stack by.
    #[cfg(all(feature = "xdp", target_os = "linux"))]
    Xdp(Box<super::xdp::Queue>),
}

impl From<UdpSocket> for Socket {
    fn from(socket: UdpSocket) -> Self {
        Self::Udp(socket)
    }
}

#[cfg(all(feature = "xdp", target_os = "linux"))]
impl From<super::xdp::Queue> for Socket {
    fn from(queue: super::xdp::Queue) -> Self {
        Self::Xdp(Box::new(queue))
    }
}

impl Socket {
    /// Address at which the socket receives; [`None`] for a queue.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Udp(socket) => socket.local_addr().map(Some),
            #[cfg(all(feature = "xdp", target_os = "linux"))]
            Self::Xdp(_) => Ok(None),
        }
    }

    /// Path by which packets come, for people to read.
    pub fn way(&self) -> &'static str {
        match self {
            Self::Udp(_) => "UDP",
            #[cfg(all(feature = "xdp", target_os = "linux"))]
            Self::Xdp(queue) => queue.way(),
        }
    }

    /// Bytes of packets that the system keeps.
    fn bytes(&self) -> usize {
        match self {
            Self::Udp(socket) => socket2::SockRef::from(socket).recv_buffer_size().unwrap_or(0),
            #[cfg(all(feature = "xdp", target_os = "linux"))]
            Self::Xdp(queue) => queue.bytes(),
        }
    }
}

/// Room for the control messages that are asked for.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Arguments of the call that fetches packets.
#[cfg(target_os = "linux")]
struct Messages {
    senders: [libc::sockaddr_in; MOST],
    controls: [Control; MOST],
    places: [libc::iovec; MOST],
    headers: [libc::mmsghdr; MOST],
    /// Headers that are to be set before the next call.
    used: usize,
    /// Messages of the next call at most.
    most: usize,
}

/// Packets of a socket.
pub(super) struct Batch {
    #[cfg(target_os = "linux")]
    messages: Box<Messages>,
    ring: Ring,
    found: Vec<Found>,
    /// Whether to wait for more packets where few came.
    naps: bool,
    /// Packets of this socket that the system has dropped since it was opened, and before the last look.
    drops: [u32; 2],
}

impl Batch {
    /// Packets of a socket, which are written to a ring.
    pub fn new(socket: &Socket, ring: Ring) -> Self {
        ask_for_facts(socket);
        #[cfg(target_os = "linux")]
        // SAFETY: all bits zero are addresses, control messages, places of no bytes and headers of no messages.
        let mut messages = unsafe { Box::<Messages>::new_zeroed().assume_init() };
        #[cfg(target_os = "linux")]
        {
            (messages.used, messages.most) = (MOST, MOST);
        }
        Self {
            #[cfg(target_os = "linux")]
            messages,
            ring,
            found: Vec::with_capacity(MOST),
            naps: socket.bytes() >= NAP_BUFFER,
            drops: [0; 2],
        }
    }

    /// The packets that came last.
    pub fn packets(&self) -> impl Iterator<Item = Found> {
        self.found.iter().cloned()
    }

    /// Memory and slots in which they are.
    pub fn ring(&mut self) -> (&[u8], &mut Slots) {
        (&self.ring.room, &mut self.ring.slots)
    }

    /// Directs the next packets to slots that are not held.
    pub fn renew(&mut self) {
        self.ring.slots.renew();
    }

    /// Packets that the system dropped since the last call.
    pub fn dropped(&mut self) -> u64 {
        let [now, before] = self.drops;
        self.drops = [now; 2];
        now.wrapping_sub(before).into()
    }

    /// Forgets the packets that came last; where they were few, lets more come.
    fn begin(&mut self) {
        if self.naps && (1..FEW).contains(&self.found.len()) {
            std::thread::sleep(NAP);
        }
        self.found.clear();
    }

    /// Waits for a packet and fetches it and those behind it.
    pub fn receive(&mut self, socket: &mut Socket) -> io::Result<()> {
        self.begin();
        match socket {
            Socket::Udp(socket) => self.receive_udp(socket),
            #[cfg(all(feature = "xdp", target_os = "linux"))]
            Socket::Xdp(queue) => {
                let came = queue.receive(&mut self.ring, &mut self.found);
                self.drops[0] = queue.dropped();
                came
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn receive_udp(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let slot = self.ring.slots.posted()[0];
        let start = slot as usize * ROOM;
        let (bytes, sender) = socket.recv_from(&mut self.ring.room[start..start + ROOM])?;
        let sender = match sender {
            std::net::SocketAddr::V4(sender) => {
                u64::from(sender.ip().to_bits()) << 16 | u64::from(sender.port())
            }
            std::net::SocketAddr::V6(_) => 0,
        };
        self.found.push((sender, Some((slot, start..start + bytes))));
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn receive_udp(&mut self, socket: &UdpSocket) -> io::Result<()> {
        use std::{os::fd::AsRawFd, ptr};
        let Self { ring: Ring { room, slots, .. }, messages, .. } = self;
        let Messages { senders, controls, places, headers, used, most } = &mut **messages;
        for (place, &slot) in places.iter_mut().zip(slots.posted()) {
            place.iov_base = room[slot as usize * ROOM..][..ROOM].as_mut_ptr().cast();
            place.iov_len = ROOM;
        }
        // The system has overwritten the headers that it used.
        for (index, header) in headers.iter_mut().take(*used).enumerate() {
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
                *most as u32,
                libc::MSG_WAITFORONE as _,
                ptr::null_mut(),
            )
        };
        *used = MOST;
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        *used = count as usize;
        let bytes: usize = headers[..*used].iter().map(|header| header.msg_len as usize).sum();
        *most = (AT_ONCE * *used / bytes.max(1)).clamp(FEWEST, MOST);
        let came = headers.iter().zip(senders.iter()).zip(slots.posted()).take(count as usize);
        for ((header, sender), &slot) in came {
            let ip = u32::from_be(sender.sin_addr.s_addr);
            let sender = u64::from(ip) << 16 | u64::from(u16::from_be(sender.sin_port));
            let (came_bytes, header) = (header.msg_len, &header.msg_hdr);
            let [drops, joined] = facts(header);
            self.drops[0] = drops.unwrap_or(self.drops[0]);
            if header.msg_flags & libc::MSG_TRUNC != 0 {
                self.found.push((sender, None));
                continue;
            }
            let (start, bytes) = (slot as usize * ROOM, came_bytes as usize);
            // The system may have joined packets of one length, of which the last one may be shorter.
            let each = joined.map_or(bytes, |each| each as usize).max(1);
            let parts = (0..bytes.max(1)).step_by(each);
            self.found.extend(
                parts.map(|part| {
                    (sender, Some((slot, start + part..start + bytes.min(part + each))))
                }),
            );
        }
        Ok(())
    }
}

/// Facts that the system says about a message: packets dropped since its socket was opened, and the length of each
/// packet of joined ones.
#[cfg(target_os = "linux")]
fn facts(header: &libc::msghdr) -> [Option<u32>; 2] {
    let mut facts = [None; 2];
    // SAFETY: the system has filled the header's control messages in.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: it is null, or a message, complete.
    while let Some(found) = unsafe { message.as_ref() } {
        let fact = match (found.cmsg_level, found.cmsg_type) {
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => Some(&mut facts[0]),
            (libc::SOL_UDP, libc::UDP_GRO) => Some(&mut facts[1]),
            _ => None,
        };
        if let Some(fact) = fact {
            // SAFETY: a message of these types holds 32 bits.
            *fact = Some(unsafe { libc::CMSG_DATA(message).cast::<u32>().read_unaligned() });
        }
        // SAFETY: the header is the one that the message is of.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    facts
}

/// Pins a thread to a core.
pub(super) fn pin(thread: &JoinHandle<()>, core: usize) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::thread::JoinHandleExt;
        // SAFETY: all bits zero are a set of no cores.
        let mut cores: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        if core >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the set has a bit for the core.
        unsafe { libc::CPU_SET(core, &mut cores) };
        let bytes = size_of::<libc::cpu_set_t>();
        // SAFETY: the thread was not joined, as its handle is there; the set is as long as said.
        let error =
            unsafe { libc::pthread_setaffinity_np(thread.as_pthread_t(), bytes, &raw const cores) };
        if error != 0 { Err(io::Error::from_raw_os_error(error)) } else { Ok(()) }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (thread, core);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Time that a core has worked for this thread; nothing where the system does not say.
pub(super) fn worked() -> Duration {
    #[cfg(target_os = "linux")]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time lives until the call returns.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    #[cfg(not(target_os = "linux"))]
    Duration::ZERO
}

/// Asks the system to report the packets dropped before each message, and to join packets of one sender (UDP GRO).
fn ask_for_facts(socket: &Socket) {
    match socket {
        // Systems without these options report and join nothing.
        #[cfg(target_os = "linux")]
        Socket::Udp(socket) => {
            let _ = set(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
            let _ = set(socket, libc::SOL_UDP, libc::UDP_GRO, 1);
        }
        #[cfg(not(target_os = "linux"))]
        Socket::Udp(_) => {}
        #[cfg(all(feature = "xdp", target_os = "linux"))]
        Socket::Xdp(_) => {}
    }
}

/// Sets the size of the receive buffer to `bytes` bytes, or as many as the system allows.
pub(super) fn set_buffer(socket: &socket2::Socket, bytes: usize) {
    // Refused or cut where it is too much.
    let _ = socket.set_recv_buffer_size(bytes);
    // Privileged processes may have larger buffers.
    #[cfg(target_os = "linux")]
    {
        let bytes = bytes.min(libc::c_int::MAX as usize) as libc::c_int;
        let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes);
    }
}

/// Makes the system cut a socket's messages into packets of `bytes` bytes (UDP GSO): one call sends several packets, which
/// may be received joined.
///
/// # Errors
/// The system's, where it has no such option.
pub fn cut_packets(socket: &UdpSocket, bytes: u16) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes.into());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (socket, bytes);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Sets an option of a socket.
#[cfg(target_os = "linux")]
fn set(
    socket: &impl std::os::fd::AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let bytes = size_of::<libc::c_int>() as u32;
    let value = &raw const value;
    // SAFETY: the option is an integer, which lives until the call returns.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.cast(), bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
