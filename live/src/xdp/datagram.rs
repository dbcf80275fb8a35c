//! UDP datagrams in Ethernet frames.

use std::ops::Range;

/// Bytes of the headers: Ethernet, IPv4 without options, UDP.
pub(super) const ETHERNET: usize = 14;
pub(super) const IPV4: usize = 20;
pub(super) const UDP: usize = 8;

/// Ethernet's number of IPv4, and IPv4's of UDP.
pub(super) const OF_IPV4: u16 = 0x0800;
pub(super) const OF_UDP: u8 = 17;

/// First byte of a header of IPv4 without options.
pub(super) const PLAIN: u8 = 0x45;

/// Bits of a header of IPv4 that a fragment has: more fragments, and an offset.
pub(super) const FRAGMENT: u16 = 0x3fff;

/// A UDP datagram over IPv4, in an Ethernet frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// IPv4 address, port of the sender.
    pub from: (u32, u16),
    /// IPv4 address, port of the receiver.
    pub to: (u32, u16),
    /// Payload: its bytes of the frame.
    pub payload: Range<usize>,
}

impl Datagram {
    /// Understands a frame: Ethernet without VLAN tags, IPv4 without options that is no fragment, UDP. Bytes behind the
    /// datagram, which fill short frames, are passed over. Checksums are not checked: frames that never were on a wire
    /// have none.
    ///
    /// [`None`] for anything else, and where a length exceeds the frame.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(ETHERNET..)?;
        let header = packet.get(..IPV4)?;
        let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let long = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
        let kind = u16::from_be_bytes([frame[ETHERNET - 2], frame[ETHERNET - 1]]);
        let plain = kind == OF_IPV4 && header[0] == PLAIN && header[9] == OF_UDP;
        if !plain || short(6) & FRAGMENT != 0 {
            return None;
        }
        let datagram = packet.get(..usize::from(short(2)))?.get(IPV4..)?;
        let field =
            |at: usize| Some(u16::from_be_bytes([*datagram.get(at)?, *datagram.get(at + 1)?]));
        let [from, to, length] = [field(0)?, field(2)?, field(4)?];
        let payload = datagram.get(..usize::from(length))?.get(UDP..)?;
        let start = ETHERNET + IPV4 + UDP;
        Some(Self {
            from: (long(12), from),
            to: (long(16), to),
            payload: start..start + payload.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of a payload, filled to `least` bytes.
    fn frame(payload: &[u8], least: usize) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        let total = (IPV4 + UDP + payload.len()) as u16;
        frame.extend([0x45, 0]);
        frame.extend(total.to_be_bytes());
        // Number, flags (do not fragment), time to live, UDP, checksum.
        frame.extend([0x12, 0x34, 0x40, 0, 64, 17, 0, 0]);
        frame.extend([10, 0, 0, 2, 10, 0, 0, 1]);
        frame.extend(4000_u16.to_be_bytes());
        frame.extend(7148_u16.to_be_bytes());
        frame.extend((total - IPV4 as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        frame.resize(frame.len().max(least), 0xee);
        frame
    }

    #[test]
    fn datagrams_are_understood() {
        for bytes in [0, 1, 17, 18, 1458, 8986] {
            let payload: Vec<u8> = (0..bytes).map(|byte| (byte * 7) as u8).collect();
            let frame = frame(&payload, 60);
            let found = Datagram::parse(&frame).unwrap();
            assert_eq!(found.from, (0x0a00_0002, 4000));
            assert_eq!(found.to, (0x0a00_0001, 7148));
            assert_eq!(frame[found.payload], payload);
        }
    }

    /// Whatever is cut off is no datagram, but for bytes that fill a frame.
    #[test]
    fn cut_frames_are_none() {
        let whole = frame(&[1; 100], 0);
        for bytes in 0..whole.len() {
            assert_eq!(Datagram::parse(&whole[..bytes]), None, "{bytes}");
        }
    }

    /// VLAN tags, options, fragments, other protocols, and lengths that lie.
    #[test]
    fn other_frames_are_none() {
        for (at, bytes) in [
            (12, &[0x81_u8, 0x00][..]),
            (12, &[0x86, 0xdd]),
            (14, &[0x46]),
            (14, &[0x65]),
            (14, &[0x44]),
            (20, &[0x20]),
            (20, &[0x00, 0x01]),
            (20, &[0x1f, 0xff]),
            (23, &[6]),
            // Total length: less than the headers, and more than the frame.
            (16, &[0, 19]),
            (16, &[0, 27]),
            (16, &[0xff, 0xff]),
            // Length of the datagram: less than its header, and more than the packet.
            (38, &[0, 7]),
            (38, &[0, 109]),
            (38, &[0xff, 0xff]),
        ] {
            let mut changed = frame(&[1; 100], 0);
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(Datagram::parse(&changed), None, "{bytes:?} at {at}");
        }
    }

    /// Ten million frames of changed bytes, cut anywhere (`CORRUST_LONG=1`; else a hundred thousand): nothing panics, and a
    /// payload lies within its frame.
    #[test]
    fn changed_frames_do_no_harm() {
        let rounds = if std::env::var_os("CORRUST_LONG").is_some() { 10_000_000 } else { 100_000 };
        let mut number = 1_u64;
        let mut random = |below: usize| {
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (number >> 33) as usize % below
        };
        let whole = frame(&[7; 300], 0);
        let (mut understood, mut refused) = (0, 0);
        let mut changed = Vec::new();
        for _ in 0..rounds {
            changed.clear();
            changed.extend_from_slice(&whole[..random(whole.len() + 1)]);
            if random(2) == 0 {
                changed.resize(whole.len() + random(100), 0);
            }
            for _ in 0..random(4) {
                if let Some(byte) = changed.get_mut(random(48)) {
                    *byte = random(256) as u8;
                }
            }
            match Datagram::parse(&changed) {
                Some(datagram) => {
                    assert!(changed.get(datagram.payload).is_some());
                    understood += 1;
                }
                None => refused += 1,
            }
        }
        assert!(understood > 0 && refused > 0);
    }
}
