//! SPEAD 64-48: packets of heaps, as radio telescopes send them.
//!
//! A packet is a header of 8 bytes, item pointers of 8 bytes each, and payload; words are big-endian. A
//! pointer holds a mode bit, an identifier of 15 bits and 48 bits more: the item's value (immediate), or
//! where in the heap's payload it begins (absolute), from where it reaches to the next item.
//!
//! Source: Manley et al., "SPEAD: Streaming Protocol for Exchanging Astronomical Data", 2012, as spead2
//! implements it.

use std::fmt;

/// Identifiers that the protocol gives a meaning.
pub mod id {
    /// The heap's number, which tells heaps of one sender apart.
    pub const HEAP: u16 = 0x1;
    /// Bytes of the heap's payload.
    pub const LENGTH: u16 = 0x2;
    /// Offset of this packet's payload in the heap's.
    pub const OFFSET: u16 = 0x3;
    /// Bytes of this packet's payload.
    pub const PAYLOAD: u16 = 0x4;
    /// A description of an item.
    pub const DESCRIPTOR: u16 = 0x5;
    /// Control of the stream: 0 starts it, 2 stops it.
    pub const CONTROL: u16 = 0x6;
    /// MeerKAT: time of the heap's first sample, in samples of the digitiser since the sync time.
    pub const TIMESTAMP: u16 = 0x1600;
    /// MeerKAT: the number of the F-engine, which is an antenna's.
    pub const FENG: u16 = 0x4101;
    /// MeerKAT: the heap's first channel.
    pub const CHANNEL: u16 = 0x4103;
    /// MeerKAT: samples `[channel][time][polarisation]`, `ci8`.
    pub const SAMPLES: u16 = 0x4300;
    /// MeerKAT: samples of a beam `[channel][time]`, `ci8`.
    pub const BEAM: u16 = 0x5000;
    /// MeerKAT: number of antennas in the sum of a beam.
    pub const BEAM_ANTENNAS: u16 = 0x5004;
}

/// Bits of a value or an address.
pub const VALUE_BITS: u32 = 48;

/// Bytes of the header, and of an item pointer.
const WORD: usize = 8;

/// The first bytes of every packet: magic number, version 4, 2 bytes of an identifier and 6 of an address.
const HEADER: [u8; 4] = [0x53, 4, 2, 6];

/// Most bytes of a packet, UDP's limit.
pub const MOST_BYTES: usize = 65_507;

/// An item pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Number of the item; see [`id`].
    pub id: u16,
    /// Whether `value` is its value, not its address.
    pub immediate: bool,
    /// 48 bits.
    pub value: u64,
}

impl Item {
    /// An item that holds its value, of which 48 bits count.
    pub const fn immediate(id: u16, value: u64) -> Self {
        Self { id, immediate: true, value: value & MASK }
    }

    /// An item that begins at a byte of the heap's payload.
    pub const fn absolute(id: u16, address: u64) -> Self {
        Self { id, immediate: false, value: address & MASK }
    }

    fn from_word(word: [u8; WORD]) -> Self {
        let word = u64::from_be_bytes(word);
        let id = (word >> VALUE_BITS) as u16;
        Self { id: id & 0x7fff, immediate: id >> 15 == 1, value: word & MASK }
    }

    fn word(self) -> [u8; WORD] {
        let id = u64::from(self.immediate) << 15 | u64::from(self.id);
        (id << VALUE_BITS | self.value).to_be_bytes()
    }
}

const MASK: u64 = (1 << VALUE_BITS) - 1;

/// Reason why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Packet that ends before its header or its item pointers do, or is longer than UDP allows.
    Cut,
    /// Packet without the header of SPEAD 64-48.
    Foreign,
    /// Packet that lacks the heap of its payload, or the offset in it.
    Unplaced,
    /// Packet with less payload than its header says, or payload beyond the heap's end.
    Payload,
    /// Its heap is longer than heaps of the stream can be.
    Long,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Cut, Self::Foreign, Self::Unplaced, Self::Payload, Self::Long];

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Foreign => "foreign",
            Self::Unplaced => "unplaced",
            Self::Payload => "payload",
            Self::Long => "long",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cut => "a packet that ends before its item pointers do",
            Self::Foreign => "a packet of something else than SPEAD 64-48",
            Self::Unplaced => "a packet that does not say where in which heap it belongs",
            Self::Payload => "a packet whose payload is not as long as it says, or beyond its heap",
            Self::Long => "a packet of a heap longer than those of the stream can be",
        })
    }
}

/// A packet that was understood.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The heap's number.
    pub heap: u64,
    /// Bytes of the heap's payload, where the packet says so.
    pub length: Option<u64>,
    /// Offset of the payload in the heap.
    pub offset: u64,
    /// The packet's part of the heap.
    pub payload: &'a [u8],
    pointers: &'a [[u8; WORD]],
}

impl<'a> Packet<'a> {
    /// Understands a packet, whatever its bytes are.
    ///
    /// ```
    /// use corrust_live::spead::{Fault, Item, Packet, id, packets};
    ///
    /// let items = [Item::immediate(id::TIMESTAMP, 4096), Item::absolute(id::SAMPLES, 0)];
    /// let mut found = Vec::new();
    /// packets(7, &items, &[1, 2, 3, 4, 5], 3, |packet| {
    ///     let packet = Packet::parse(packet).expect("a packet");
    ///     assert_eq!((packet.heap, packet.length), (7, Some(5)));
    ///     assert_eq!(packet.items().collect::<Vec<_>>(), items);
    ///     found.push((packet.offset, packet.payload.to_vec()));
    ///     Ok(())
    /// })?;
    /// assert_eq!(found, [(0, vec![1, 2, 3]), (3, vec![4, 5])]);
    /// assert_eq!(Packet::parse(b"GET / HTTP/1.1").unwrap_err(), Fault::Foreign);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Fault`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        let (header, rest) = bytes.split_first_chunk::<WORD>().ok_or(Fault::Cut)?;
        if header[..4] != HEADER {
            return Err(Fault::Foreign);
        }
        let count = usize::from(u16::from_be_bytes([header[6], header[7]]));
        let (pointers, payload) = rest.split_at_checked(count * WORD).ok_or(Fault::Cut)?;
        let (pointers, _) = pointers.as_chunks::<WORD>();
        let [mut heap, mut length, mut offset, mut bytes] = [None; 4];
        for item in pointers.iter().map(|&word| Item::from_word(word)) {
            let known = match item.id {
                id::HEAP => &mut heap,
                id::LENGTH => &mut length,
                id::OFFSET => &mut offset,
                id::PAYLOAD => &mut bytes,
                _ => continue,
            };
            if !item.immediate {
                return Err(Fault::Unplaced);
            }
            *known = Some(item.value);
        }
        let (Some(heap), Some(offset), Some(bytes)) = (heap, offset, bytes) else {
            return Err(Fault::Unplaced);
        };
        let payload = usize::try_from(bytes).ok().and_then(|bytes| payload.get(..bytes));
        let payload = payload.ok_or(Fault::Payload)?;
        // Zero stands for a length that the sender does not know yet, unless nothing is in the heap.
        let length = length.filter(|&length| length > 0 || bytes == 0);
        if length.is_some_and(|length| offset + bytes > length) {
            return Err(Fault::Payload);
        }
        Ok(Self { heap, length, offset, payload, pointers })
    }

    /// Its items, without the ones that place the payload.
    pub fn items(&self) -> impl Iterator<Item = Item> + use<'a> {
        let items = self.pointers.iter().map(|&word| Item::from_word(word));
        items.filter(|item| !matches!(item.id, 0 | id::HEAP..=id::PAYLOAD))
    }
}

/// Cuts a heap into packets of at most `most` bytes of payload each, at least 1, every one with all items, and
/// hands them to `send`.
///
/// # Errors
/// What `send` returns.
pub fn packets(
    heap: u64,
    items: &[Item],
    payload: &[u8],
    most: usize,
    mut send: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut packet = Vec::with_capacity(WORD * (5 + items.len()) + most.min(payload.len()));
    let mut offset = 0;
    loop {
        let part = &payload[offset..payload.len().min(offset + most)];
        packet.clear();
        packet.extend_from_slice(&HEADER);
        packet.extend_from_slice(&[0, 0]);
        packet.extend_from_slice(&(4 + items.len() as u16).to_be_bytes());
        for (id, value) in [
            (id::HEAP, heap),
            (id::LENGTH, payload.len() as u64),
            (id::OFFSET, offset as u64),
            (id::PAYLOAD, part.len() as u64),
        ] {
            packet.extend_from_slice(&Item::immediate(id, value).word());
        }
        items.iter().for_each(|item| packet.extend_from_slice(&item.word()));
        packet.extend_from_slice(part);
        send(&packet)?;
        offset += part.len();
        if offset == payload.len() {
            return Ok(());
        }
    }
}
