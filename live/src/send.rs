//! Sends samples as F-engines do.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
};

use corrust_host::{Error, Result, Samples, samples::Memory};

use super::{
    chunks::Geometry,
    spead::{Item, id, packets},
};

/// A socket to send from; to multicast groups from the interface that has the address `interface`, where one is
/// given.
pub(super) fn open(interface: Option<Ipv4Addr>) -> Result<UdpSocket> {
    let open = || -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        if let Some(interface) = interface {
            socket2::SockRef::from(&socket).set_multicast_if_v4(&interface)?;
        }
        Ok(socket)
    };
    open().map_err(|error| Error::invalid(format!("a socket to send from: {error}")))
}

pub(super) fn send(socket: &UdpSocket, packet: &[u8], to: SocketAddrV4) -> io::Result<()> {
    match socket.send_to(packet, to) {
        // Answer to an earlier packet: no receiver listens yet, or the receiver has ended.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        other => other.map(drop),
    }
}

/// Sends packets as they are, such as frames of VDIF.
pub struct Packets {
    socket: UdpSocket,
    to: SocketAddrV4,
}

impl Packets {
    /// Packets to an address; to a multicast group from the interface that has the address `interface`, where one is
    /// given.
    ///
    /// # Errors
    /// [`Error::Invalid`] when no socket is to be had.
    pub fn new(to: SocketAddrV4, interface: Option<Ipv4Addr>) -> Result<Self> {
        Ok(Self { socket: open(interface)?, to })
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the system refuses to send it.
    pub fn send(&self, packet: &[u8]) -> Result<()> {
        let fault = |error| Error::invalid(format!("cannot send to {}: {error}", self.to));
        send(&self.socket, packet, self.to).map_err(fault)
    }
}

/// Sends the heaps of F-engines, from a socket for each of them.
pub struct Sender {
    sockets: Vec<UdpSocket>,
    to: Vec<SocketAddrV4>,
    geometry: Geometry,
    /// Channels of a heap.
    heap_channels: usize,
    /// Bytes of payload of a packet.
    packet_bytes: usize,
    heap: u64,
    payload: Vec<u8>,
}

impl Sender {
    /// F-engines of `geometry`, whose channels come in heaps of `heap_channels`, or fewer at the end, each in
    /// packets of `packet_bytes` bytes of payload. Ranges of channels go to the addresses in turn; to multicast
    /// groups from the interface that has the address `interface`, where one is given.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a size of 0 or of more than a packet holds, no address, or when no socket is to
    /// be had.
    pub fn new(
        to: Vec<SocketAddrV4>,
        interface: Option<Ipv4Addr>,
        geometry: Geometry,
        heap_channels: usize,
        packet_bytes: usize,
    ) -> Result<Self> {
        /// Header and item pointers.
        const OVERHEAD: usize = 8 * 9;
        let most = super::spead::MOST_BYTES - OVERHEAD;
        if !(1..=most).contains(&packet_bytes) {
            return Err(Error::invalid(format!(
                "{packet_bytes} bytes of payload in a packet: expected 1 to {most}"
            )));
        }
        if heap_channels == 0 || to.is_empty() {
            return Err(Error::invalid("0 channels of a heap, or addresses: expected at least 1"));
        }
        geometry.check()?;
        let sockets = (0..geometry.fengs).map(|_| open(interface)).collect::<Result<_>>()?;
        let payload = Vec::new();
        Ok(Self { sockets, to, geometry, heap_channels, packet_bytes, heap: 0, payload })
    }

    /// Sends the whole heaps of samples of `ci8` in host memory, of which `first` is the first heap's number
    /// since timestamp 0. Heaps of which something is missing are not sent. Returns how many were.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the samples are others than the geometry's, or the system refuses to send.
    pub fn send(&mut self, samples: &Samples<'_>, first: u64) -> Result<u64> {
        let shape = self.geometry.shape();
        let (extents, strides) = (samples.extents(), samples.strides());
        let Memory::Host(bytes) = samples.memory() else {
            return Err(Error::invalid("samples in a GPU's memory: expected them in the host's"));
        };
        let found = (samples.element(), extents.inputs, extents.channels);
        let expected = (shape.encoding.into(), shape.inputs, shape.channels);
        if found != expected {
            return Err(Error::invalid(format!(
                "samples of {} x {} inputs x {} channels: expected {} x {} x {}",
                found.0, found.1, found.2, expected.0, expected.1, expected.2
            )));
        }
        let Geometry { fengs, polarisations, channels, heap_times, step, first_channel, .. } =
            self.geometry;
        let gaps: Vec<_> = samples.gaps().collect();
        let mut sent = 0;
        for slot in 0..extents.times / heap_times {
            let times = slot * heap_times..(slot + 1) * heap_times;
            let timestamp = (first + slot as u64) * heap_times as u64 * step;
            for (range, start) in (0..channels).step_by(self.heap_channels).enumerate() {
                let end = channels.min(start + self.heap_channels);
                let to = self.to[range % self.to.len()];
                for feng in 0..fengs {
                    let inputs = feng * polarisations..(feng + 1) * polarisations;
                    let misses = |gap: &corrust_host::samples::Missing| {
                        let meet = |a: &std::ops::Range<usize>, b: &std::ops::Range<usize>| {
                            a.start < b.end && b.start < a.end
                        };
                        meet(&gap.times, &times)
                            && meet(&gap.inputs, &inputs)
                            && meet(&gap.channels, &(start..end))
                    };
                    if gaps.iter().any(misses) {
                        continue;
                    }
                    self.payload.clear();
                    for channel in start..end {
                        for time in times.clone() {
                            let at = channel * strides.channel + time * strides.time;
                            for input in inputs.clone() {
                                let at = at + input * strides.input;
                                self.payload.extend_from_slice(&bytes[at..at + 2]);
                            }
                        }
                    }
                    let items = [
                        Item::immediate(id::TIMESTAMP, timestamp),
                        Item::immediate(id::FENG, feng as u64),
                        Item::immediate(id::CHANNEL, first_channel + start as u64),
                        Item::absolute(id::SAMPLES, 0),
                    ];
                    self.heap += 1;
                    let socket = &self.sockets[feng];
                    packets(self.heap, &items, &self.payload, self.packet_bytes, |packet| {
                        send(socket, packet, to)
                    })
                    .map_err(|error| Error::invalid(format!("cannot send to {to}: {error}")))?;
                    sent += 1;
                }
            }
        }
        Ok(sent)
    }
}
