//! Room for packets: slots that the system writes packets to, and in which they stay until their samples are in chunks.

use std::{ops::Range, sync::Arc};

use corrust_host::{Result, device::Gpu};

use super::memory::Memory;

/// Packets that are fetched at a time, at most, or buffers of joined packets.
pub(super) const MOST: usize = 64;

/// Bytes of a slot: the most of UDP, and apart by no power of two.
pub(super) const ROOM: usize = (1 << 16) + 64;

/// A packet's sender, and its slot and bytes in the ring; [`None`] for a packet longer than a slot.
pub(super) type Found = (u64, Option<(u32, Range<usize>)>);

/// Memory of slots, and their use.
pub(super) struct Ring {
    /// Slots one after the other.
    pub room: Memory,
    /// Device address at which a GPU reads them.
    pub address: Option<u64>,
    pub slots: Slots,
}

impl Ring {
    /// A ring of slots for one fetch, and `held` more, in which packets may stay. The system allocates a page once a
    /// packet is written to it.
    pub fn new(held: usize) -> Self {
        let slots = Slots::new(held);
        let room = Box::new(vec![0; slots.uses.len() * ROOM]);
        Self { room, address: None, slots }
    }

    /// The same in page-locked memory that a GPU reads.
    ///
    /// # Errors
    /// [`Error::Device`](corrust_host::Error::Device) where there is too little.
    pub fn on_gpu(held: usize, gpu: &Arc<dyn Gpu>) -> Result<Self> {
        let slots = Slots::new(held);
        let room = gpu.locked_bytes(slots.uses.len() * ROOM)?;
        Ok(Self { address: Some(gpu.reach(&room)?), room: Box::new(room), slots })
    }
}

/// Use of slots. Slots that were freed last are used next, as they are still in the caches.
pub(super) struct Slots {
    /// Number of holders of each slot.
    uses: Vec<u32>,
    is_posted: Vec<bool>,
    /// Slots that the next packets go to.
    posted: Vec<u32>,
    free: Vec<u32>,
    /// Posted slots that are held: each takes a free one.
    taken: usize,
}

impl Slots {
    fn new(held: usize) -> Self {
        let all = MOST + held;
        Self {
            uses: vec![0; all],
            is_posted: (0..all).map(|slot| slot < MOST).collect(),
            posted: (0..MOST as u32).collect(),
            free: (MOST as u32..all as u32).rev().collect(),
            taken: 0,
        }
    }

    /// Slots that the next packets go to, [`MOST`] of them.
    pub fn posted(&self) -> &[u32] {
        &self.posted
    }

    /// Holds a slot that has just received a packet. Refused where no other slot is free for the next packet.
    pub fn hold(&mut self, slot: u32) -> bool {
        let uses = &mut self.uses[slot as usize];
        if *uses == 0 {
            if self.taken == self.free.len() {
                return false;
            }
            self.taken += 1;
        }
        *uses += 1;
        true
    }

    /// Ends one [`hold`](Self::hold) of a slot.
    pub fn release(&mut self, slot: u32) {
        let uses = &mut self.uses[slot as usize];
        *uses -= 1;
        if *uses > 0 {
            return;
        }
        match self.is_posted[slot as usize] {
            true => self.taken -= 1,
            false => self.free.push(slot),
        }
    }

    /// Posts free slots in place of held ones.
    pub fn renew(&mut self) {
        for posted in &mut self.posted {
            if self.uses[*posted as usize] > 0 {
                let other = self.free.pop().expect("each that is held has a free one");
                self.is_posted[*posted as usize] = false;
                self.is_posted[other as usize] = true;
                *posted = other;
            }
        }
        self.taken = 0;
    }

    /// Slots in which packets stay, and slots in which they could.
    pub fn held(&self) -> [usize; 2] {
        let all = self.uses.len() - MOST;
        [all - (self.free.len() - self.taken), all]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is held and released, in whatever order, no packet goes to a slot that is held, and none is lost.
    #[test]
    fn packets_go_to_free_slots() {
        let mut slots = Slots::new(100);
        let mut held: Vec<u32> = Vec::new();
        let mut refused = 0;
        let mut number = 1_u64;
        let mut random = |below: usize| {
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (number >> 33) as usize % below
        };
        for round in 0..1000 {
            assert!(slots.posted().iter().all(|slot| !held.contains(slot)), "round {round}");
            for slot in slots.posted().to_vec().into_iter().take(random(MOST + 1)) {
                // A buffer of joined packets may have several holders.
                for _ in 0..random(3) {
                    match slots.hold(slot) {
                        true => held.push(slot),
                        false => refused += 1,
                    }
                }
            }
            for _ in 0..random(120).min(held.len()) {
                let slot = held.swap_remove(random(held.len()));
                slots.release(slot);
            }
            let mut different = held.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!(slots.held(), [different.len(), 100], "round {round}");
            slots.renew();
            assert_eq!(slots.held(), [different.len(), 100], "round {round}");
        }
        held.drain(..).for_each(|slot| slots.release(slot));
        assert_eq!(slots.held(), [0, 100]);
        assert!(refused > 0);
    }
}
