//! Memories: device memory copied, shared memory read.

use super::store;
use crate::{
    abi::limits::{CopyWords, Repeat, SHARED_READS},
    isa::common::{
        barrier, block, blocks, dynamic_shared, load_global_4, load_shared_4, opaque,
        store_global_4, store_shared_4, thread, threads,
    },
};

kernel! {
    /// Copies device memory, 16 bytes a lane.
    ///
    /// Bound by device memory. A thread for each word or so gives most: on an H200, with 512 blocks a
    /// multiprocessor, 4.16 TB/s, with 8 blocks 3.95. Tried and lost: 4 and 8 words of a thread at a
    /// time (4.12, 2.87), loads and stores that ask caches to keep nothing (3.98).
    fn limits_copy(p: CopyWords) {
        let step = blocks() as u64 * threads() as u64;
        let mut word = block() as u64 * threads() as u64 + thread() as u64;
        while word < p.words {
            store_global_4(p.target + 16 * word, load_global_4(p.source + 16 * word));
            word += step;
        }
    }
}

kernel! {
    /// Sums the operands, kept in shared memory: in round `r`, read `k`, thread `t` takes 16-byte word
    /// `t + r + threads k`, counted around.
    ///
    /// Neighbouring lanes read neighbouring words: every wavefront is 128 bytes. The words move with
    /// the round, so that none can be kept.
    ///
    /// Bound by shared memory.
    fn limits_shared(p: Repeat) {
        let shared = dynamic_shared();
        let bytes = 16 * SHARED_READS * threads();
        let mut at = 16 * thread();
        while at < bytes {
            store_shared_4(shared + at, load_global_4(p.operands + at as u64));
            at += 16 * threads();
        }
        barrier();
        let mut sums = [0u32; 4];
        let mut start = 16 * thread();
        let mut left = p.rounds;
        while left > 0 {
            for read in 0..SHARED_READS {
                // The bytes are a power of two.
                let at = (start + 16 * threads() * read) & (bytes - 1);
                let words = load_shared_4(shared + at);
                for word in 0..4 {
                    sums[word] = sums[word].wrapping_add(words[word]);
                }
            }
            start += 16;
            left = opaque(left - 1);
        }
        store(p.results, &sums);
    }
}
