//! Rectangles of bytes, all of one value: `target[first + row pitch + column] = byte` for each row and column of each
//! rectangle. Missing samples become zero by it, however many pieces they are in.
//!
//! A rectangle has a power of two of blocks. As many of their threads work along a row as it has words, the rest on
//! further rows: rows of two bytes and rows of megabytes both keep the threads busy, without a division.
//!
//! Bound by memory: bytes that stand together are written in whole sectors, a byte alone costs a sector.

use crate::{
    abi::reorder::FillRectangles,
    isa::common::{
        block, blocks, read_global_64, store_global, store_global_4, store_global_8, thread,
    },
};

/// Bytes of a `Rectangle`.
const ENTRY: u64 = 32;

/// Binary logarithm of a block's threads.
const THREADS: u32 = 8;

kernel! {
    /// Gives rectangles of bytes one value.
    fn reorder_fill(p: FillRectangles) {
        let mut share = block();
        while share < p.count << p.parts {
            let entry = p.rectangles + ENTRY * (share >> p.parts) as u64;
            let part = share & ((1 << p.parts) - 1);
            let first = p.target + read_global_64(entry);
            let [pitch, width, rows] = [8, 16, 24].map(|field| read_global_64(entry + field));
            let rectangle = Rectangle { first, pitch, width, rows };
            let workers = Workers { number: (part << THREADS) + thread(), of: p.parts + THREADS };
            let word = p.byte * 0x0101_0101;
            match p.word {
                16 => rectangle.fill::<16>(workers, |to| store_global_4(to, [word; 4])),
                4 => rectangle.fill::<4>(workers, |to| store_global(to, word)),
                _ => rectangle.fill::<1>(workers, |to| store_global_8(to, p.byte)),
            }
            share += blocks();
        }
    }
}

/// Address of the first byte, bytes from one row to the next and of a row, number of rows.
#[derive(Clone, Copy)]
struct Rectangle {
    first: u64,
    pitch: u64,
    width: u64,
    rows: u64,
}

/// Thread among the `1 << of` of a rectangle.
#[derive(Clone, Copy)]
struct Workers {
    number: u32,
    of: u32,
}

impl Rectangle {
    /// Stores this thread's share of words of `BYTES` bytes, a divisor of first byte, pitch and width.
    ///
    /// # Safety
    /// - All bytes of the rectangle lie in device memory.
    /// - Nobody reads them in this launch.
    #[inline(always)]
    unsafe fn fill<const BYTES: u64>(self, workers: Workers, store: impl Fn(u64)) {
        let words = self.width / BYTES;
        let mut along = 0;
        while along < workers.of && 1_u64 << along < words {
            along += 1;
        }
        let mut row = (workers.number >> along) as u64;
        while row < self.rows {
            let line = self.first + row * self.pitch;
            let mut word = (workers.number & ((1 << along) - 1)) as u64;
            while word < words {
                store(line + BYTES * word);
                word += 1_u64 << along;
            }
            row += 1_u64 << (workers.of - along);
        }
    }
}
