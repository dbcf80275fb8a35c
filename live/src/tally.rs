//! Counts of all that was received, by fate: of heaps, or of frames of VDIF, which are counted as heaps are.

use std::time::Duration;

use super::spead::Fault;

/// Fate of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its samples are correlated.
    Placed,
    /// Its time was over when it came.
    Late,
    /// Its samples, or some of them, were there already, from the same sender.
    Repeated,
    /// Its samples were there already, from another sender: two F-engines have one number.
    Conflicting,
    /// Packets of it never came.
    Incomplete,
    /// Its timestamp is far from all others.
    Astray,
    /// No free chunk was left for it: the device is too slow.
    Overrun,
    /// Heap without timestamp, F-engine, first channel or samples.
    Lacking,
    /// Its F-engine, or its thread, is not among the expected ones.
    Unknown,
    /// Some or all of its channels are not correlated.
    Outside,
    /// Its timestamp is no multiple of a heap's times; its number is beyond the frames of a second, or its header says
    /// another rate.
    Misaligned,
    /// Its samples do not fill whole channels, or are others than the stream's.
    WrongSize,
    /// Heap that describes items, or starts or stops a stream, and has no samples.
    Control,
    /// Its header says that its samples are invalid.
    Invalid,
}

impl Fate {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Placed,
        Self::Late,
        Self::Repeated,
        Self::Conflicting,
        Self::Incomplete,
        Self::Astray,
        Self::Overrun,
        Self::Lacking,
        Self::Unknown,
        Self::Outside,
        Self::Misaligned,
        Self::WrongSize,
        Self::Control,
        Self::Invalid,
    ];

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Late => "late",
            Self::Repeated => "repeated",
            Self::Conflicting => "conflicting",
            Self::Incomplete => "incomplete",
            Self::Astray => "astray",
            Self::Overrun => "overrun",
            Self::Lacking => "lacking",
            Self::Unknown => "unknown",
            Self::Outside => "outside",
            Self::Misaligned => "misaligned",
            Self::WrongSize => "size",
            Self::Control => "control",
            Self::Invalid => "invalid",
        }
    }
}

/// Counts of packets, and of heaps or frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets received, whatever they are.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the system dropped, as they were not fetched in time.
    pub dropped: u64,
    /// Jumps of the time: senders that began again.
    pub jumps: u64,
    faults: [u64; Fault::ALL.len()],
    heaps: [u64; Fate::ALL.len()],
    /// Heaps of each F-engine, or frames of each thread: placed, and not placed.
    pub fengs: Vec<[u64; 2]>,
    /// Each socket, in the order in which they were opened.
    pub sockets: Vec<SocketTally>,
}

/// Counts of one socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketTally {
    /// Packets received, whatever they are.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the system dropped, as they were not fetched in time.
    pub dropped: u64,
    /// Packets that were refused.
    pub faults: u64,
    /// Slots of its ring in which packets stay, as their heaps are incomplete.
    pub held: usize,
    /// Slots in which packets could stay; samples of further packets are copied.
    pub slots: usize,
    /// CPU time spent on it, as of the last tenth of a second; zero where the system does not say.
    pub worked: Duration,
}

impl Tally {
    /// Empty tally of `fengs` F-engines.
    pub(super) fn of(fengs: usize) -> Self {
        Self { fengs: vec![[0; 2]; fengs], ..Self::default() }
    }

    /// Packets that were refused for `fault`.
    pub fn faults(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }

    /// Packets that were refused, by their faults, in words that follow others: ", 3 foreign".
    pub fn faults_said(&self) -> String {
        let there = Fault::ALL.into_iter().filter(|fault| self.faults(*fault) > 0);
        there.map(|fault| format!(", {} {}", self.faults(fault), fault.name())).collect()
    }

    /// Heaps that met a fate.
    pub fn heaps(&self, fate: Fate) -> u64 {
        self.heaps[fate as usize]
    }

    pub(super) fn count_fault(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    pub(super) fn count(&mut self, fate: Fate, feng: Option<usize>) {
        self.heaps[fate as usize] += 1;
        if let Some(counts) = feng.and_then(|feng| self.fengs.get_mut(feng)) {
            counts[usize::from(fate != Fate::Placed)] += 1;
        }
    }
}
