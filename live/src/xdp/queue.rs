//! A queue of an interface, whose packets the system writes to this process's memory.

use std::{
    fmt, io, mem,
    net::SocketAddrV4,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use corrust_host::{Error, Result};

use super::{
    datagram::Datagram,
    facts::Facts,
    interface::{Interface, Mode},
    mapping::{Mapping, Ring},
    program::{Attached, Failed, patiently},
};
use crate::ring::{Found, ROOM, Ring as Slots};

/// Bytes of a frame: a page, the most that the system takes, of which it leaves some before the packet.
const FRAME: usize = 4096;
const BEFORE: usize = 256;

/// Frames of a queue: fewest and most.
const FRAMES: [usize; 2] = [64, 1 << 20];

/// Bytes that an interface's packets have beyond its MTU: Ethernet's header and a VLAN tag.
const BEYOND: usize = 18;

/// Bytes of packets that are fetched at a time: about what fits into the caches of a core.
const AT_ONCE: usize = 512 << 10;

/// Longest wait for a packet.
const WAIT: Duration = Duration::from_millis(50);

/// Bytes between packets of a slot: a line of the caches.
const LINE: usize = 64;

/// A queue of an interface, and the packets that come to it.
pub struct Queue {
    number: u32,
    socket: OwnedFd,
    memory: Mapping,
    /// Frames that came, and frames for packets to come.
    came: Ring<libc::xdp_desc>,
    empty: Ring<u64>,
    /// Frames that were read.
    read: Vec<u64>,
    attached: Arc<Attached>,
    zero_copy: bool,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Opens queues of an interface for packets to `addresses`, with `buffer` bytes of frames each.
pub(super) fn open(
    interface: &Interface,
    mode: Mode,
    addresses: &[SocketAddrV4],
    buffer: usize,
) -> Result<Vec<Queue>> {
    let fault = |(action, error): Failed| {
        let needs = match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                ", expected root, or the capabilities CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF"
            }
            Some(libc::EBUSY) => {
                ", expected no other program, and no other socket, at the interface"
            }
            Some(libc::ENOBUFS) => {
                ", expected more memory that may be locked (ulimit -l), or a smaller buffer"
            }
            _ => "",
        };
        Error::setting(
            "xdp",
            None,
            format!("interface {interface}: cannot {action}: {error}{needs}"),
        )
    };
    let facts = Facts::of(&interface.name).map_err(fault)?;
    let all = 0..facts.queues;
    let queues = interface.queues.clone().unwrap_or(0..=all.end - 1);
    if !all.contains(queues.end()) {
        let (found, last) = (queues.end(), all.end - 1);
        let reason = format!("interface {interface} has no queue {found}, expected 0 to {last}");
        return Err(Error::setting("xdp", None, reason));
    }
    let attached = Attached::to(facts.index, facts.queues, mode, addresses).map_err(fault)?;
    let attached = Arc::new(attached);
    let open = |number| {
        let queue = Queue::open(number, &facts, attached.clone(), buffer)?;
        let aimed = attached.send_to(number, queue.socket.as_fd());
        aimed.map_err(|error| ("have packets go to a socket", error))?;
        Ok(queue)
    };
    queues.map(|number| open(number).map_err(fault)).collect()
}

impl Queue {
    fn open(
        number: u32,
        facts: &Facts,
        attached: Arc<Attached>,
        buffer: usize,
    ) -> std::result::Result<Self, Failed> {
        let failed = |action| move |error| (action, error);
        let socket = socket().map_err(failed("open a socket of it"))?;
        let frames = (buffer / FRAME).clamp(FRAMES[0], FRAMES[1]);
        // Rings have powers of two.
        let count = 1_u32 << frames.ilog2();
        let memory =
            Mapping::new(count as usize * FRAME).map_err(failed("have memory for packets"))?;
        let region = libc::xdp_umem_reg {
            addr: memory.address(),
            len: memory.bytes() as u64,
            chunk_size: FRAME as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&socket, libc::XDP_UMEM_REG, &region).map_err(failed("register memory for packets"))?;
        // Nothing is sent, but the system expects a ring for it.
        let rings = [
            (libc::XDP_UMEM_FILL_RING, count),
            (libc::XDP_UMEM_COMPLETION_RING, FRAMES[0] as u32),
            (libc::XDP_RX_RING, count),
        ];
        for (option, count) in rings {
            set(&socket, option, &count).map_err(failed("make a ring"))?;
        }
        // SAFETY: all bits zero are offsets.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { mem::zeroed() };
        let ring = failed("map a ring");
        get(&socket, libc::XDP_MMAP_OFFSETS, &mut offsets).map_err(ring)?;
        let came = Ring::new(socket.as_fd(), libc::XDP_PGOFF_RX_RING as u64, offsets.rx, count);
        let page = libc::XDP_UMEM_PGOFF_FILL_RING;
        let empty = Ring::new(socket.as_fd(), page, offsets.fr, count);
        let (came, mut empty) = (came.map_err(ring)?, empty.map_err(ring)?);
        let mut read: Vec<u64> = (0..u64::from(count)).map(|frame| frame * FRAME as u64).collect();
        empty.put(&mut read);
        let mut flags = libc::XDP_USE_NEED_WAKEUP;
        if !attached.native {
            flags |= libc::XDP_COPY;
        }
        // Drivers that cannot spread packets over frames would otherwise not write to this memory themselves.
        if facts.mtu + BEYOND > FRAME - BEFORE {
            flags |= libc::XDP_USE_SG;
        }
        patiently(|| bind(&socket, facts.index, number, flags))
            .map_err(failed("receive packets of its queue"))?;
        let mut options = libc::xdp_options { flags: 0 };
        let zero_copy = get(&socket, libc::XDP_OPTIONS, &mut options).is_ok()
            && options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(Self { number, socket, memory, came, empty, read, attached, zero_copy })
    }

    /// Path by which packets come, for people to read.
    pub fn way(&self) -> &'static str {
        match (self.attached.native, self.zero_copy) {
            (false, _) => "generic",
            (true, false) => "native",
            (true, true) => "native, zero-copy",
        }
    }

    /// Number of the queue.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Bytes of packets that the system can keep.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Packets that the system has dropped since the queue was opened: no frame was free, the receive ring was full, or
    /// they were longer than frames.
    pub(crate) fn dropped(&self) -> u32 {
        // SAFETY: all bits zero are counts.
        let mut counts: libc::xdp_statistics = unsafe { mem::zeroed() };
        match get(&self.socket, libc::XDP_STATISTICS, &mut counts) {
            Ok(()) => counts.rx_dropped.wrapping_add(counts.rx_ring_full) as u32,
            Err(_) => 0,
        }
    }

    /// Waits for a packet and copies it and those behind it to slots.
    pub(crate) fn receive(&mut self, slots: &mut Slots, found: &mut Vec<Found>) -> io::Result<()> {
        if self.came.there() == 0 {
            self.wait()?;
        }
        let there = self.came.there();
        let Slots { room, slots, .. } = slots;
        let mut posted = slots.posted().iter().copied();
        let (mut slot, mut used) = (posted.next(), 0);
        let (mut taken, mut copied) = (0, 0);
        while copied < AT_ONCE && taken < there {
            let Some([frames, bytes]) = self.packet(taken, there) else { break };
            if bytes <= ROOM && used + bytes > ROOM {
                (slot, used) = (posted.next(), 0);
            }
            let Some(slot) = slot else { break };
            let start = slot as usize * ROOM + used;
            let place = room.get_mut(start..start + bytes).filter(|_| bytes <= ROOM);
            let datagram = place.and_then(|place| self.copy(taken, place));
            found.push(match datagram {
                Some(Datagram { from: (ip, port), payload, .. }) => {
                    let sender = u64::from(ip) << 16 | u64::from(port);
                    let payload = start + payload.start..start + payload.end;
                    used += bytes.next_multiple_of(LINE);
                    copied += bytes;
                    (sender, Some((slot, payload)))
                }
                None => (0, None),
            });
            for frame in taken..taken + frames as u32 {
                self.read.push(self.came.get(frame).addr & !(FRAME as u64 - 1));
            }
            taken += frames as u32;
        }
        self.came.release(taken);
        self.empty.put(&mut self.read);
        if self.empty.sleeps() {
            self.poll(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Frames and bytes of the packet that begins with a frame; nothing where some of it has not come.
    fn packet(&self, first: u32, there: u32) -> Option<[usize; 2]> {
        let mut bytes = 0;
        for frame in first..there {
            let part = self.came.get(frame);
            bytes += part.len as usize;
            if part.options & libc::XDP_PKT_CONTD == 0 {
                return Some([(frame - first + 1) as usize, bytes]);
            }
        }
        None
    }

    /// Copies the packet that begins with a frame to a place of its length, and understands it.
    fn copy(&self, first: u32, place: &mut [u8]) -> Option<Datagram> {
        let (mut rest, mut frame) = (&mut *place, first);
        while !rest.is_empty() {
            let part = self.came.get(frame);
            let (to, others) = rest.split_at_mut_checked(part.len as usize)?;
            // SAFETY: the system leaves frames that came until they are put into the ring of empty ones.
            if !unsafe { self.memory.copy(part.addr as usize, to) } {
                return None;
            }
            (rest, frame) = (others, frame + 1);
        }
        Datagram::parse(place)
    }

    fn wait(&self) -> io::Result<()> {
        match self.poll(WAIT)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }

    /// Wakes the driver to look for empty frames, and waits up to `wait` for packets.
    fn poll(&self, wait: Duration) -> io::Result<libc::c_int> {
        let mut event =
            libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: there is one event, which lives until the call returns.
        match unsafe { libc::poll(&raw mut event, 1, wait.as_millis() as libc::c_int) } {
            events @ 0.. => Ok(events),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: the call has no pointers.
    match unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) } {
        // SAFETY: the descriptor is new and has no other owner.
        opened @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(opened) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let (fd, bytes) = (socket.as_raw_fd(), size_of::<T>() as u32);
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the value lives until the call returns, and is as long as said.
    done(unsafe { libc::setsockopt(fd, libc::SOL_XDP, option, value, bytes) })
}

fn get<T>(socket: &OwnedFd, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let (fd, mut bytes) = (socket.as_raw_fd(), size_of::<T>() as u32);
    let value = std::ptr::from_mut(value).cast();
    // SAFETY: the value lives until the call returns, and is as long as said.
    done(unsafe { libc::getsockopt(fd, libc::SOL_XDP, option, value, &raw mut bytes) })
}

fn bind(socket: &OwnedFd, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let (address, bytes) = ((&raw const address).cast(), size_of_val(&address) as u32);
    // SAFETY: the address lives until the call returns, and is as long as said.
    done(unsafe { libc::bind(socket.as_raw_fd(), address, bytes) })
}
