//! Sockets that packets come to, and the F-engines that send heaps: options of `corrust serve`, and of a live observation.

use std::{
    net::SocketAddr,
    sync::{Arc, mpsc},
};

use corrust::{
    Result,
    device::Gpu,
    format::{self, Timestamp},
    live::{
        self, Chunk, Clock, Endpoints, Frames, Geometry, Interface, Mode, Passed, RawChunk,
        Receiver, Socket, Window,
    },
};

use crate::cli::options::stream::{Cores, Stream};
use crate::cli::terminal::numbers::count;

/// Fewest and most chunks that are being worked on, or wait for it, and the bytes of those between: room for packets
/// that come while the device is busy with something else.
const WAITING: [usize; 2] = [4, 256];
const WAITING_BYTES: usize = 256 << 20;

/// Bytes that come with a heap's samples: other items, and descriptions.
const EXTRA_BYTES: usize = 64 << 10;

/// Number of chunks of `chunk_bytes` that are being worked on, or wait for it.
pub fn waiting(chunk_bytes: usize) -> usize {
    let [fewest, most] = WAITING;
    (WAITING_BYTES / chunk_bytes.max(1)).clamp(fewest, most)
}

/// Sockets, and the stream that they receive.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Listening {
    /// Address to listen to: 127.0.0.1:7148, or several, 239.1.2.0+3:7148 (four addresses), 10.0.0.1:7148+3
    /// (four ports); a socket and a thread for each
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7148", value_delimiter = ',')]
    pub listen: Vec<Endpoints>,
    /// Sockets, and threads, at each address: the system spreads senders over them
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024), hide_short_help = true)]
    pub sockets: u16,
    /// Network interface to take packets for --listen from before the system's network stack (AF_XDP, Linux): all of its
    /// queues, a thread each, or some, as eth1:2 or eth1:0-3. Other packets, and all of other queues, reach the system as
    /// usual
    #[arg(long, value_name = "IFACE", hide_short_help = true)]
    pub xdp: Option<Interface>,
    /// Runner of the AF_XDP program: auto, native (the driver) or generic (the system, for any driver)
    #[arg(long, value_name = "MODE", default_value_t, requires = "xdp", hide_short_help = true)]
    pub xdp_mode: Mode,
    /// Cores to pin the sockets' threads to, round-robin, as 2-5 or 2,4 [default: any]
    #[arg(long, value_name = "CORES", hide_short_help = true)]
    pub cores: Option<Cores>,
    /// Bytes of packets that the system buffers for each socket, as far as it allows
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, hide_short_help = true)]
    pub buffer: usize,
    /// Number of F-engines, numbered from 0
    #[arg(long, default_value_t = 8, value_name = "N", hide_short_help = true)]
    pub fengs: usize,
    /// Number of channels to correlate
    #[arg(long, default_value_t = 128, value_name = "C", hide_short_help = true)]
    pub channels: usize,
    #[command(flatten)]
    pub stream: Stream,
    /// Time of timestamp 0 in UTC, as 2026-03-01T12:00:00 [default: the start of this command; 2000-01-01 for VDIF,
    /// whose frames carry their times]
    #[arg(long, value_name = "TIME", value_parser = format::moment, hide_short_help = true)]
    pub sync: Option<Timestamp>,
    /// Number of times that timestamps have wrapped since then [default: such that the first heap is of now]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(..32768),
          requires = "sync", hide_short_help = true)]
    pub wraps: Option<u64>,
}

/// Memory of chunks.
pub enum Placed<'a> {
    /// The host's, from where a GPU fetches them, if there is one.
    Host(Option<&'a Arc<dyn Gpu>>),
    /// A GPU's, which takes samples there by itself.
    Device(&'a Arc<dyn Gpu>),
}

/// Heaps, or frames, that are received.
pub struct Incoming<C = Chunk> {
    pub receiver: Receiver,
    /// Channels on which used chunks go back, and full ones come.
    pub chunks: (mpsc::Sender<C>, mpsc::Receiver<Passed<C>>),
}

/// Origin of VDIF's times: its first reference epoch.
const VDIF_SYNC: &str = "2000-01-01";

impl Listening {
    /// Opens the sockets: first for addresses, then for an interface's queues.
    pub fn open(&self) -> Result<Vec<Socket>> {
        let mut sockets = Vec::new();
        for address in self.listen.iter().flat_map(Endpoints::iter) {
            let (interface, count) = (self.stream.interface, self.sockets.into());
            let opened = live::open_several(address, interface, self.buffer, count)?;
            sockets.extend(opened.into_iter().map(Socket::from));
        }
        if let Some(interface) = &self.xdp {
            let known = |socket: &Socket| match socket.local_addr() {
                Ok(Some(SocketAddr::V4(address))) => Some(address),
                _ => None,
            };
            let listened: Vec<_> = sockets.iter().filter_map(known).collect();
            sockets.extend(interface.open(self.xdp_mode, &listened, self.buffer)?);
        }
        Ok(sockets)
    }

    /// Layout of chunks, for dumps of `times` time samples.
    pub fn geometry(&self, times: u64) -> Result<Geometry> {
        self.stream.geometry(self.fengs, self.channels, times)
    }

    /// Returns the clock of timestamps, and the expected value of the first one.
    pub fn clock(&self, geometry: &Geometry) -> (Clock, u64) {
        let rate = self.stream.rate();
        let clock = |sync| Clock { sync, rate, step: geometry.step };
        let now = Timestamp::now();
        // Half the range of timestamps.
        let half = 1_u64 << (live::spead::VALUE_BITS - 1);
        let Some(sync) = self.sync else { return (clock(now), half) };
        let since = now.duration_since(sync).as_secs_f64().max(0.0) * rate;
        let expected = self.wraps.map_or(since as u64, |wraps| (2 * wraps + 1) * half);
        (clock(sync), expected)
    }

    /// Begins to receive heaps, the first of whose timestamps is expected.
    pub fn heaps(
        &self,
        sockets: Vec<Socket>,
        geometry: &Geometry,
        expected: u64,
        placed: &Placed<'_>,
    ) -> Result<Incoming> {
        let ((spent, empty), (sender, passed)) = (mpsc::channel(), mpsc::channel());
        for _ in 0..geometry.window + waiting(geometry.chunk_bytes()) {
            match placed {
                Placed::Device(gpu) => drop(spent.send(Chunk::on_gpu(geometry, gpu)?)),
                Placed::Host(gpu) => {
                    let memory = geometry.memory(*gpu)?;
                    Window::chunks(geometry, [memory]).for_each(|chunk| drop(spent.send(chunk)));
                }
            }
        }
        let window = Window::new(geometry.clone(), expected, empty, sender);
        let heap_bytes = geometry.heap_bytes() + EXTRA_BYTES;
        let held_bytes = (2 * geometry.fengs + 8) * heap_bytes;
        let receiver = match placed {
            Placed::Device(gpu) => Receiver::on_gpu(gpu, sockets, window, heap_bytes, held_bytes)?,
            Placed::Host(_) => Receiver::start(sockets, window, heap_bytes, held_bytes)?,
        };
        Ok(Incoming { receiver: self.pin(receiver)?, chunks: (spent, passed) })
    }

    /// The time that frames of VDIF count from.
    pub fn frames_sync(&self) -> Result<Timestamp> {
        self.sync.map_or_else(|| format::moment(VDIF_SYNC), Ok)
    }

    /// Begins to receive frames of VDIF.
    pub fn frames(&self, sockets: Vec<Socket>, frames: Frames) -> Result<Incoming<RawChunk>> {
        let ((spent, empty), (sender, passed)) = (mpsc::channel(), mpsc::channel());
        for _ in 0..frames.window + waiting(frames.chunk_bytes()) {
            let _ = spent.send(RawChunk::new(&frames)?);
        }
        let receiver = self.pin(Receiver::frames(sockets, Window::of(frames, empty, sender))?)?;
        Ok(Incoming { receiver, chunks: (spent, passed) })
    }

    /// Pins a receiver's threads to the given cores, if any.
    pub fn pin(&self, receiver: Receiver) -> Result<Receiver> {
        match &self.cores {
            Some(Cores(cores)) => receiver.pin(cores).map(|()| receiver),
            None => Ok(receiver),
        }
    }
}

/// Addresses of sockets, in words.
pub fn addresses(sockets: &[Socket]) -> Result<String> {
    let fault = |error| corrust::Error::io("a socket", "read")(error);
    let mut listened = Vec::new();
    let mut queues = Vec::new();
    for socket in sockets {
        match socket.local_addr().map_err(fault)? {
            Some(address) => listened.push(address.to_string()),
            None => queues.push(socket),
        }
    }
    let mut words = listened.first().cloned().unwrap_or_default();
    if let all @ 2.. = listened.len() {
        words += &format!(" and {} more", all - 1);
    }
    if let Some(queue) = queues.first() {
        words += &format!(", {} by AF_XDP ({})", count(queues.len(), "queue"), queue.way());
    }
    Ok(words)
}
