//! Sockets, each with a thread that fetches packets and brings their samples to chunks.

use std::{
    collections::HashMap,
    fmt,
    io::{self, Read},
    marker::PhantomData,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket},
    ops::Range,
    str::FromStr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use corrust_host::{Error, Result, device::Gpu};
use socket2::{Domain, Protocol, Type};

use super::{
    batch::{Batch, Socket, worked},
    carry::Carrier,
    chunks::Geometry,
    counts::{self, Counts},
    frames::Frames,
    heaps::{Assembler, Heap, Received},
    intake::{Arrived, Intake, Singles, lock},
    ring::{Ring, Slots},
    spead::{Fault, Packet},
    stream::{Sources, Stream},
    tally::{SocketTally, Tally},
    window::Window,
};

/// Longest wait for a packet before a thread checks whether it is to end.
const WAIT: Duration = Duration::from_millis(50);

/// Longest time to fetch packets that the system still holds when a thread is to end.
const REST: Duration = Duration::from_millis(500);

/// Interval at which a thread measures how long it has worked.
const LOOK: Duration = Duration::from_millis(100);

/// Slots of a socket for packets of incomplete heaps: fewest and most, and incomplete bytes for which there is one.
const SLOTS: [usize; 2] = [64, 2048];
const SLOT_BYTES: usize = 8 << 10;

/// Slots for packets whose samples a GPU is bringing to chunks: as many as come in some milliseconds.
const CARRIED_SLOTS: usize = 1024;

/// Addresses to listen to: `127.0.0.1:7148`, or several, `239.1.2.0+3:7148` (four addresses, the field's way)
/// and `127.0.0.1:7148+3` (four ports).
///
/// ```
/// use corrust_live::Endpoints;
///
/// let groups: Endpoints = "239.1.2.254+2:7148".parse().map_err(corrust_host::Error::invalid)?;
/// let groups: Vec<_> = groups.iter().map(|address| address.to_string()).collect();
/// assert_eq!(groups, ["239.1.2.254:7148", "239.1.2.255:7148", "239.1.3.0:7148"]);
/// assert_eq!("10.0.0.1:7148+3".parse::<Endpoints>().unwrap().iter().count(), 4);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    first: SocketAddrV4,
    more_addresses: u16,
    more_ports: u16,
}

impl Endpoints {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = SocketAddrV4> + use<> {
        let Self { first, more_addresses, more_ports } = *self;
        (0..=more_addresses).flat_map(move |address| {
            let ip = Ipv4Addr::from_bits(first.ip().to_bits() + u32::from(address));
            (0..=more_ports).map(move |port| SocketAddrV4::new(ip, first.port() + port))
        })
    }
}

impl FromStr for Endpoints {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let understand = || {
            let more = |text: &str| match text.split_once('+') {
                Some((one, more)) => Some((one.to_owned(), more.parse::<u16>().ok()?)),
                None => Some((text.to_owned(), 0)),
            };
            let (address, port) = text.split_once(':')?;
            let ((address, more_addresses), (port, more_ports)) = (more(address)?, more(port)?);
            let first = SocketAddrV4::new(address.parse().ok()?, port.parse().ok()?);
            first.port().checked_add(more_ports)?;
            first.ip().to_bits().checked_add(more_addresses.into())?;
            Some(Self { first, more_addresses, more_ports })
        };
        understand().ok_or_else(|| {
            format!(
                "{text:?}: expected an IPv4 address and a port, as in 127.0.0.1:7148, 239.1.2.0+3:7148 (four \
                 addresses) or 127.0.0.1:7148+3 (four ports)"
            )
        })
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plus = |more: u16| if more > 0 { format!("+{more}") } else { String::new() };
        let Self { first, more_addresses, more_ports } = self;
        write!(f, "{}{}:{}{}", first.ip(), plus(*more_addresses), first.port(), plus(*more_ports))
    }
}

/// Opens a socket at `address`, of `buffer` bytes in the system if it allows; a multicast group is joined on
/// the interface that has the address `interface`, or the one that routes lead to.
///
/// # Errors
/// [`Error::Setting`] naming the address: it is in use or not this machine's, or the group cannot be joined.
pub fn open(
    address: SocketAddrV4,
    interface: Option<Ipv4Addr>,
    buffer: usize,
) -> Result<UdpSocket> {
    open_one(address, interface, buffer, false)
}

/// Opens several sockets at one unicast address, among which the system shares out senders: all packets of one sender's
/// socket come to the same one.
///
/// # Errors
/// As for [`open`], and for several of a multicast group, as each would get all packets.
pub fn open_several(
    address: SocketAddrV4,
    interface: Option<Ipv4Addr>,
    buffer: usize,
    count: usize,
) -> Result<Vec<UdpSocket>> {
    if address.ip().is_multicast() && count > 1 {
        let reason = format!(
            "{count} sockets: each would get all packets of the multicast group {address}, expected 1 and several groups"
        );
        return Err(Error::setting("sockets", None, reason));
    }
    let mut sockets = Vec::with_capacity(count);
    let mut address = address;
    for _ in 0..count {
        let socket = open_one(address, interface, buffer, count > 1)?;
        // Where the system chose a port, the others have the same one.
        if let Ok(SocketAddr::V4(bound)) = socket.local_addr() {
            address.set_port(bound.port());
        }
        sockets.push(socket);
    }
    Ok(sockets)
}

/// [`open`], to be shared with other sockets or not.
fn open_one(
    address: SocketAddrV4,
    interface: Option<Ipv4Addr>,
    buffer: usize,
    shared: bool,
) -> Result<UdpSocket> {
    let fault = |action: &str, error: io::Error| {
        Error::setting("listen", None, format!("address {address}: cannot {action}: {error}"))
    };
    let socket = socket2::Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))
        .map_err(|error| fault("open a socket", error))?;
    let multicast = address.ip().is_multicast();
    if multicast {
        // Several programs may listen to one group.
        socket.set_reuse_address(true).map_err(|error| fault("share the port", error))?;
    }
    #[cfg(unix)]
    if shared {
        socket.set_reuse_port(true).map_err(|error| fault("share the port", error))?;
    }
    #[cfg(not(unix))]
    let _ = shared;
    // As much as the system allows.
    super::batch::set_buffer(&socket, buffer);
    socket.bind(&address.into()).map_err(|error| fault("listen there", error))?;
    if multicast {
        let interface = interface.unwrap_or(Ipv4Addr::UNSPECIFIED);
        socket.join_multicast_v4(address.ip(), &interface).map_err(|error| {
            fault(&format!("join the multicast group on interface {interface}"), error)
        })?;
    }
    socket.set_read_timeout(Some(WAIT)).map_err(|error| fault("set a time limit", error))?;
    Ok(socket.into())
}

/// Receives packets and throws them away until it is to `stop`: the least that a receiver does.
pub fn discard(mut socket: Socket, stop: &AtomicBool) -> SocketTally {
    let mut batch = Batch::new(&socket, Ring::new(0));
    let mut tally = SocketTally::default();
    while !stop.load(Ordering::Relaxed) {
        if batch.receive(&mut socket).is_ok() {
            for (_, packet) in batch.packets() {
                tally.packets += 1;
                tally.bytes += packet.map_or(0, |(_, bytes)| bytes.len() as u64);
            }
            tally.dropped += batch.dropped();
        }
    }
    tally.worked = worked();
    tally
}

/// Heaps of one socket, and the GPU's carrier of their samples, where there is one.
struct Heaps {
    assembler: Assembler,
    carrier: Option<Carrier>,
}

impl Intake<Geometry> for Heaps {
    fn take_in(
        &mut self,
        window: &Mutex<Window>,
        (room, slots): (&[u8], &mut Slots),
        packets: &[Arrived],
        fault: &mut dyn FnMut(Fault),
    ) {
        for Arrived { source, slot, bytes } in packets {
            let taken = Packet::parse(&room[bytes.clone()]).and_then(|packet| {
                let at = packet.payload.as_ptr().addr() - room.as_ptr().addr();
                let hold = || slots.hold(*slot).then_some(Received { slot: *slot, at });
                self.assembler.add(*source, &packet, hold)
            });
            taken.err().into_iter().for_each(&mut *fault);
        }
        self.place(window, (room, slots));
        if let Some(carrier) = &mut self.carrier {
            carrier.go_on(slots);
        }
    }

    fn rest(&mut self, (_, slots): (&[u8], &mut Slots)) {
        if let Some(carrier) = &mut self.carrier {
            carrier.finish(slots);
        }
    }

    fn clear(&mut self, window: &Mutex<Window>, (room, slots): (&[u8], &mut Slots)) {
        self.assembler.give_up_all();
        self.place(window, (room, slots));
        self.rest((room, slots));
    }
}

impl Heaps {
    /// Brings the samples of heaps that are over to their places.
    fn place(&mut self, window: &Mutex<Window>, (room, slots): (&[u8], &mut Slots)) {
        let over = self.assembler.over();
        if over.is_empty() {
            return;
        }
        let (stream, tickets) = {
            let mut window = lock(window);
            let reserve = |heap: &Heap| (!heap.is_rest()).then(|| window.reserve_heap(heap, room));
            let tickets: Vec<_> = over.iter().map(reserve).collect();
            (window.stream().clone(), tickets)
        };
        for (heap, ticket) in over.into_iter().zip(tickets) {
            let left = match (&mut self.carrier, ticket.flatten()) {
                (Some(carrier), Some(ticket)) => {
                    match carrier.carry_heap(ticket, &heap, (room, slots)) {
                        Ok(()) => {
                            self.assembler.recycle(heap);
                            continue;
                        }
                        Err(ticket) => Some(ticket),
                    }
                }
                (_, ticket) => ticket,
            };
            if let Some(mut ticket) = left {
                ticket.fill(&stream, &heap, room);
            }
            heap.slots().for_each(|slot| slots.release(slot));
            self.assembler.recycle(heap);
        }
    }
}

/// Number of slots for packets of incomplete heaps, of `held_bytes` bytes at most; samples of further packets are copied.
fn slots(held_bytes: usize) -> usize {
    (held_bytes / SLOT_BYTES).clamp(SLOTS[0], SLOTS[1])
}

/// State that all sockets share.
struct Shared<S: Stream> {
    window: Mutex<Window<S>>,
    sources: Mutex<Sources>,
    stop: AtomicBool,
    /// Whether nothing else comes.
    ended: AtomicBool,
}

impl<S: Stream> Shared<S> {
    fn new(window: Window<S>) -> Arc<Self> {
        Arc::new(Self {
            window: Mutex::new(window),
            sources: Mutex::default(),
            stop: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        })
    }
}

/// Plain streams, such as connections, one after the other, or a single pipe.
pub enum Plain {
    /// Listener whose connections are read one after the other, each to its end.
    Connections(TcpListener),
    /// Pipe whose end ends the stream.
    Pipe(Box<dyn Read + Send>),
}

/// Shared state, whatever the stream.
trait Share: Send + Sync {
    fn stop(&self);
    fn tally(&self) -> Tally;
    fn span(&self) -> Option<Range<u64>>;
    fn flush(&self) -> u64;
    fn ended(&self) -> bool;
}

impl<S: Stream> Share for Shared<S> {
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn tally(&self) -> Tally {
        lock(&self.window).tally().clone()
    }

    fn span(&self) -> Option<Range<u64>> {
        lock(&self.window).span()
    }

    fn flush(&self) -> u64 {
        let mut window = lock(&self.window);
        window.flush(false);
        window.end()
    }

    fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// Threads that receive; see [`Receiver::start`].
pub struct Receiver {
    shared: Arc<dyn Share>,
    threads: Vec<JoinHandle<()>>,
}

impl Receiver {
    /// Starts a thread for each socket, which puts what it receives into `window`. Heaps have at most
    /// `heap_bytes` bytes, and at most `held_bytes` of a socket's are incomplete at a time.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no thread to be had.
    pub fn start(
        sockets: Vec<impl Into<Socket>>,
        window: Window,
        heap_bytes: usize,
        held_bytes: usize,
    ) -> Result<Self> {
        Self::over(sockets, window, || {
            let assembler = Assembler::new(heap_bytes, held_bytes);
            Ok((Ring::new(slots(held_bytes)), Heaps { assembler, carrier: None }))
        })
    }

    /// [`start`](Self::start) of heaps whose samples a GPU takes from where the system wrote their packets to
    /// [chunks in its memory](super::Chunk::on_gpu): the CPU reads headers alone.
    ///
    /// # Errors
    /// As for [`start`](Self::start), and the GPU's own.
    pub fn on_gpu(
        gpu: &Arc<dyn Gpu>,
        sockets: Vec<impl Into<Socket>>,
        window: Window,
        heap_bytes: usize,
        held_bytes: usize,
    ) -> Result<Self> {
        let geometry = window.stream().clone();
        Self::over(sockets, window, || {
            let ring = Ring::on_gpu(slots(held_bytes) + CARRIED_SLOTS, gpu)?;
            let carrier = Carrier::new(gpu, &geometry, &ring)?;
            Ok((ring, Heaps { assembler: Assembler::new(heap_bytes, held_bytes), carrier }))
        })
    }

    /// [`start`](Self::start) of frames of VDIF, one in each packet.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn frames(sockets: Vec<impl Into<Socket>>, window: Window<Frames>) -> Result<Self> {
        Self::over(sockets, window, || Ok((Ring::new(0), Singles(PhantomData))))
    }

    /// [`start`](Self::start) of packets of counts.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn counts(sockets: Vec<impl Into<Socket>>, window: Window<Counts>) -> Result<Self> {
        Self::over(sockets, window, || Ok((Ring::new(0), Singles(PhantomData))))
    }

    /// Counts `[instant][sensor]` of plain streams, numbered from 0. The sender waits where they are taken in more
    /// slowly.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn plain(plain: Plain, window: Window<Counts>) -> Result<Self> {
        let shared = Shared::new(window);
        let fault = |error: io::Error| Error::invalid(format!("a thread for a stream: {error}"));
        let mut receiver = Self { shared: shared.clone(), threads: Vec::new() };
        let thread = std::thread::Builder::new().name("receive".into());
        match plain {
            Plain::Connections(listener) => {
                listener.set_nonblocking(true).map_err(fault)?;
                receiver
                    .threads
                    .push(thread.spawn(move || shared.connections(&listener)).map_err(fault)?);
            }
            Plain::Pipe(pipe) => {
                // It may wait for ever, and is not waited for.
                let pour = move || {
                    let stop = || shared.stop.load(Ordering::Relaxed);
                    let rest = counts::pour(pipe, &shared.window, stop);
                    shared.cut(rest);
                    shared.ended.store(true, Ordering::Relaxed);
                };
                thread.spawn(pour).map_err(fault)?;
            }
        }
        Ok(receiver)
    }

    fn over<S: Stream, I: Intake<S>>(
        sockets: Vec<impl Into<Socket>>,
        window: Window<S>,
        intake: impl Fn() -> Result<(Ring, I)>,
    ) -> Result<Self> {
        let shared = Shared::new(window);
        let mut receiver = Self { shared: shared.clone(), threads: Vec::new() };
        lock(&shared.window).tally_mut().sockets.resize_with(sockets.len(), Default::default);
        for (number, socket) in sockets.into_iter().enumerate() {
            let (shared, (ring, intake)) = (shared.clone(), intake()?);
            let socket = socket.into();
            let thread = std::thread::Builder::new()
                .name("receive".into())
                .spawn(move || shared.receive(number, socket, ring, intake));
            let fault = |error| Error::invalid(format!("a thread for a socket: {error}"));
            receiver.threads.push(thread.map_err(fault)?);
        }
        Ok(receiver)
    }

    /// Pins the threads to these cores, round-robin.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a core that this process may not use, or a system that has no such choice.
    pub fn pin(&self, cores: &[usize]) -> Result<()> {
        for (thread, &core) in self.threads.iter().zip(cores.iter().cycle()) {
            super::batch::pin(thread, core).map_err(|error| {
                Error::invalid(format!("core {core}: cannot run a thread there: {error}"))
            })?;
        }
        Ok(())
    }

    /// Counts so far.
    pub fn tally(&self) -> Tally {
        self.shared.tally()
    }

    /// Whether nothing else can come, as a pipe has ended.
    pub fn ended(&self) -> bool {
        self.shared.ended()
    }

    /// Handle that reads the counts from another thread.
    pub fn watch(&self) -> Watch {
        Watch(self.shared.clone())
    }

    /// Stops receiving and hands out all chunks. Returns the time after the latest that came.
    pub fn stop(mut self) -> u64 {
        self.shared.stop();
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
        self.shared.flush()
    }
}

/// Reads the counts of a [`Receiver`] from another thread.
#[derive(Clone)]
pub struct Watch(Arc<dyn Share>);

impl Watch {
    /// Counts so far.
    pub fn tally(&self) -> Tally {
        self.0.tally()
    }

    /// Times from the earliest to the latest that came since the time jumped, counted from timestamp 0; [`None`] before any
    /// came.
    pub fn span(&self) -> Option<Range<u64>> {
        self.0.span()
    }
}

/// A thread that could not be started leaves others running.
impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Shared<Counts> {
    /// Takes in one connection after the other.
    fn connections(&self, listener: &TcpListener) {
        let stop = || self.stop.load(Ordering::Relaxed);
        let mut first = true;
        while !stop() {
            let Ok((stream, _)) = listener.accept() else {
                std::thread::sleep(WAIT);
                continue;
            };
            let set =
                stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(WAIT)));
            if set.is_err() {
                continue;
            }
            if !std::mem::take(&mut first) {
                lock(&self.window).begin_anew();
            }
            let rest = counts::pour(stream, &self.window, stop);
            self.cut(rest);
            // Packets that came do not wait for the next one.
            lock(&self.window).flush(false);
        }
    }

    /// Counts bytes at the end that fill no instant.
    fn cut(&self, rest: usize) {
        if rest > 0 {
            lock(&self.window).tally_mut().count_fault(Fault::Cut);
        }
    }
}

impl<S: Stream> Shared<S> {
    /// Receives to a ring until it is to stop.
    fn receive(&self, number: usize, mut socket: Socket, ring: Ring, intake: impl Intake<S>) {
        let mut looked = Instant::now();
        let mut batch = Batch::new(&socket, ring);
        // The intake refers to the ring, and is dropped before it.
        let mut intake = intake;
        let mut known = HashMap::new();
        // Packets of one sender mostly follow each other.
        let mut last: Option<(u64, u16)> = None;
        let mut packets: Vec<Arrived> = Vec::new();
        let mut ends: Option<Instant> = None;
        while ends.is_none_or(|end| Instant::now() < end) {
            if self.stop.load(Ordering::Relaxed) {
                // Packets that came but were not fetched are taken along.
                ends.get_or_insert_with(|| Instant::now() + REST);
            }
            match batch.receive(&mut socket) {
                Ok(()) => {}
                // A time limit, or an error of a packet that was sent from here: it concerns no other.
                Err(_) if ends.is_none() => {
                    intake.rest(batch.ring());
                    lock(&self.window).hand_out();
                    continue;
                }
                Err(_) => break,
            }
            let (mut count, mut bytes) = (0, 0);
            let mut faults: Vec<Fault> = Vec::new();
            packets.clear();
            for (address, packet) in batch.packets() {
                count += 1;
                let source = match last {
                    Some((same, source)) if same == address => source,
                    _ => {
                        *known.entry(address).or_insert_with(|| lock(&self.sources).number(address))
                    }
                };
                last = Some((address, source));
                match packet {
                    Some((slot, place)) => {
                        bytes += place.len() as u64;
                        packets.push(Arrived { source, slot, bytes: place });
                    }
                    None => faults.push(Fault::Cut),
                }
            }
            // Senders come and go.
            if known.len() > usize::from(u16::MAX) {
                known.clear();
            }
            intake.take_in(&self.window, batch.ring(), &packets, &mut |fault| faults.push(fault));
            batch.renew();
            let dropped = batch.dropped();
            let [held, all] = batch.ring().1.held();
            let worked = (looked.elapsed() >= LOOK).then(|| {
                looked = Instant::now();
                worked()
            });
            let mut window = lock(&self.window);
            window.hand_out();
            let tally = window.tally_mut();
            tally.packets += count;
            tally.bytes += bytes;
            tally.dropped += dropped;
            let socket = &mut tally.sockets[number];
            socket.packets += count;
            socket.bytes += bytes;
            socket.dropped += dropped;
            socket.faults += faults.len() as u64;
            (socket.held, socket.slots) = (held, all);
            socket.worked = worked.unwrap_or(socket.worked);
            faults.into_iter().for_each(|fault| tally.count_fault(fault));
        }
        intake.clear(&self.window, batch.ring());
        let mut window = lock(&self.window);
        window.hand_out();
        let socket = &mut window.tally_mut().sockets[number];
        (socket.held, socket.worked) = (0, worked());
    }
}
