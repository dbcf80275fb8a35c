//! Sends beams as the heaps of MeerKAT's streams of tied-array channelised voltages.
//!
//! Every beam and polarisation is a stream to an address of its own. A heap holds all channels of some times:
//!
//! | item | |
//! |---|---|
//! | 0x1600 timestamp | first time of the heap, in timestamps since the sync time |
//! | 0x4103 frequency | number of the first channel |
//! | 0x5004 beam_ants | number of dishes of the beam's sum |
//! | 0x5000 bf_raw | int8 `[channel][time][2]` |
//!
//! Source: the constants and heaps of `katgpucbf`, `src/katgpucbf/spead.py` and `src/katgpucbf/xbgpu/bsend.py`, at
//! commit 1e38bdc563f588e0ca2566b65173885fdee2f527.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use corrust_host::{Error, Result};

use super::{
    send::{open, send},
    spead::{Item, id, packets},
};

/// Times of a heap, as MeerKAT's have.
const HEAP_TIMES: usize = 256;

/// Bytes of payload of a packet, likewise.
const PACKET_BYTES: usize = 8192;

/// Control that ends a stream.
const STOP: u64 = 2;

/// Sends beams, a stream for each beam and polarisation.
pub struct BeamSender {
    socket: UdpSocket,
    to: Vec<SocketAddrV4>,
    channels: usize,
    first_channel: u64,
    dishes: u64,
    /// Timestamp of the next heap, and from one time to the next.
    timestamp: u64,
    step: u64,
    /// Samples of the next heap, `[stream][channel][time][2]`, its times so far, and whether one of them came.
    pending: Vec<u8>,
    filled: usize,
    there: bool,
    heap: u64,
}

impl BeamSender {
    /// Streams to the addresses, one each, of `channels` channels and sums over `dishes` dishes; to multicast groups from the
    /// interface that has the address `interface`, where one is given. The first time has timestamp `first`, the next
    /// one `step` more.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no addresses or channels, or when no socket is to be had.
    pub fn new(
        to: Vec<SocketAddrV4>,
        interface: Option<Ipv4Addr>,
        (channels, dishes): (usize, usize),
        (first, step): (u64, u64),
    ) -> Result<Self> {
        if to.is_empty() || channels == 0 {
            return Err(Error::invalid("beams of 0 streams or channels: expected at least 1"));
        }
        let bytes = to.len().checked_mul(channels).and_then(|all| all.checked_mul(2 * HEAP_TIMES));
        let bytes = bytes.filter(|bytes| *bytes <= isize::MAX as usize).ok_or_else(|| {
            Error::invalid(format!(
                "beams of {} streams x {channels} channels: expected fewer",
                to.len()
            ))
        })?;
        Ok(Self {
            socket: open(interface)?,
            to,
            channels,
            first_channel: 0,
            dishes: dishes as u64,
            timestamp: first,
            step,
            pending: corrust_host::device::zeros(bytes)?,
            filled: 0,
            there: false,
            heap: 0,
        })
    }

    /// Gives the first channel a number other than 0.
    #[must_use]
    pub fn first_channel(self, number: u64) -> Self {
        Self { first_channel: number, ..self }
    }

    /// Sends what further samples complete: int8 `[stream][channel][time][2]`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the samples are no whole number of times, or the system refuses to send.
    pub fn append(&mut self, samples: &[u8]) -> Result<()> {
        let rows = self.to.len() * self.channels;
        if !samples.len().is_multiple_of(2 * rows) {
            return Err(Error::invalid(format!(
                "{} bytes of beams: expected a multiple of {}, {} streams of {} channels",
                samples.len(),
                2 * rows,
                self.to.len(),
                self.channels
            )));
        }
        let times = samples.len() / (2 * rows);
        let mut done = 0;
        while done < times {
            let count = (HEAP_TIMES - self.filled).min(times - done);
            let heap_rows = self.pending.chunks_exact_mut(2 * HEAP_TIMES);
            for (row, from) in heap_rows.zip(samples.chunks_exact(2 * times)) {
                row[2 * self.filled..][..2 * count].copy_from_slice(&from[2 * done..][..2 * count]);
            }
            self.there = true;
            self.go_on(count)?;
            done += count;
        }
        Ok(())
    }

    /// Passes over missing times: they are zero in heaps of which something came, and others are not sent.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub fn append_missing(&mut self, mut times: u64) -> Result<()> {
        while times > 0 {
            let left = (HEAP_TIMES - self.filled) as u64;
            if self.filled == 0 && times >= left {
                // Whole heaps of which nothing came.
                let heaps = times / left;
                let beyond = heaps.wrapping_mul(left).wrapping_mul(self.step);
                self.timestamp = self.timestamp.wrapping_add(beyond);
                times -= heaps * left;
                continue;
            }
            let count = left.min(times);
            self.go_on(count as usize)?;
            times -= count;
        }
        Ok(())
    }

    /// Advances by `times` within the heap, and sends it when it is complete.
    fn go_on(&mut self, times: usize) -> Result<()> {
        self.filled += times;
        if self.filled < HEAP_TIMES {
            return Ok(());
        }
        if self.there {
            self.send_heaps()?;
        }
        self.pending.fill(0);
        self.timestamp = self.timestamp.wrapping_add((HEAP_TIMES as u64).wrapping_mul(self.step));
        (self.filled, self.there) = (0, false);
        Ok(())
    }

    /// Sends the heap of every stream.
    fn send_heaps(&mut self) -> Result<()> {
        let items = [
            Item::immediate(id::TIMESTAMP, self.timestamp),
            Item::immediate(id::CHANNEL, self.first_channel),
            Item::immediate(id::BEAM_ANTENNAS, self.dishes),
            Item::absolute(id::BEAM, 0),
        ];
        let bytes = self.channels * 2 * HEAP_TIMES;
        for (to, payload) in self.to.iter().zip(self.pending.chunks_exact(bytes)) {
            self.heap += 1;
            send_heap(&self.socket, *to, (self.heap, &items), payload)?;
        }
        Ok(())
    }

    /// Ends the streams, and says how many times at the end fill no heap and are left out.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub fn finish(mut self) -> Result<usize> {
        for to in &self.to {
            self.heap += 1;
            send_heap(&self.socket, *to, (self.heap, &[Item::immediate(id::CONTROL, STOP)]), &[])?;
        }
        Ok(self.filled)
    }
}

/// Sends a heap.
fn send_heap(
    socket: &UdpSocket,
    to: SocketAddrV4,
    (heap, items): (u64, &[Item]),
    payload: &[u8],
) -> Result<()> {
    packets(heap, items, payload, PACKET_BYTES, |packet| send(socket, packet, to))
        .map_err(|error| Error::invalid(format!("cannot send to {to}: {error}")))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::spead::Packet;

    /// Heaps of two streams of three channels, with a gap that has one heap of which nothing came.
    #[test]
    fn heaps_hold_the_times_that_their_timestamps_say() {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let address = |socket: &UdpSocket| match socket.local_addr().unwrap() {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(_) => unreachable!("an IPv4 address was bound"),
        };
        let to = sockets.iter().map(address).collect();
        let mut sender = BeamSender::new(to, None, (3, 7), (1000, 6)).unwrap().first_channel(5);
        let value = |stream: usize, channel: usize, time: usize, part: usize| {
            (stream * 101 + channel * 31 + time * 2 + part) as u8
        };
        let piece = |range: std::ops::Range<usize>| -> Vec<u8> {
            let rows = (0..6).flat_map(|row| range.clone().map(move |time| (row, time)));
            rows.flat_map(|(row, time)| [0, 1].map(|part| value(row / 3, row % 3, time, part)))
                .collect()
        };
        for range in [0..1, 1..200, 200..600] {
            sender.append(&piece(range)).unwrap();
        }
        sender.append_missing(500).unwrap();
        sender.append(&piece(1100..1300)).unwrap();
        assert!(sender.append(&[0; 13]).is_err());
        // Heaps from times 0, 256, 512 and 1024; 768 is empty.
        assert_eq!(sender.finish().unwrap(), 1300 - 1280);
        for (stream, socket) in sockets.iter().enumerate() {
            let mut room = [0; 1 << 16];
            for first in [0, 256, 512, 1024] {
                let length = socket.recv(&mut room).unwrap();
                let packet = Packet::parse(&room[..length]).unwrap();
                let items: Vec<Item> = packet.items().collect();
                let expected = [
                    Item::immediate(0x1600, 1000 + 6 * first as u64),
                    Item::immediate(0x4103, 5),
                    Item::immediate(0x5004, 7),
                    Item::absolute(0x5000, 0),
                ];
                assert_eq!(items, expected);
                assert_eq!((packet.length, packet.payload.len()), (Some(1536), 1536));
                for (at, found) in packet.payload.iter().enumerate() {
                    let (channel, time, part) = (at / 512, first + at % 512 / 2, at % 2);
                    let there = !(600..1100).contains(&time);
                    let expected = if there { value(stream, channel, time, part) } else { 0 };
                    assert_eq!(*found, expected, "{stream} {channel} {time} {part}");
                }
            }
            let length = socket.recv(&mut room).unwrap();
            let items: Vec<Item> = Packet::parse(&room[..length]).unwrap().items().collect();
            assert_eq!(items, [Item::immediate(6, 2)]);
        }
    }
}
