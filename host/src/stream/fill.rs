//! Rectangles of bytes in a GPU's memory that get one value.

use std::sync::Arc;

use corrust_gpu::abi::reorder::{FILL, FillRectangles, Rectangle};

use crate::{
    device::{
        gpu::{Gpu, Rows, Stream},
        memory::Buffer,
    },
    error::Result,
    samples::gather::Zeros,
};

/// Rectangles that are filled by a call of the driver each; more of them by a kernel together.
const FEW: usize = 4;

/// Blocks that keep a GPU busy.
const BLOCKS: u64 = 2048;

/// Stores of a thread, on average, where there are fewer blocks.
const STORES: u64 = 4;

/// The list of rectangles on the GPU; one for all work in the order of one stream.
#[derive(Debug)]
pub(crate) struct Fill {
    gpu: Arc<dyn Gpu>,
    list: Buffer,
}

impl Fill {
    pub(crate) fn new(gpu: &Arc<dyn Gpu>) -> Result<Self> {
        Ok(Self { gpu: gpu.clone(), list: Buffer::new(gpu, 0)? })
    }

    /// Gives rectangles of bytes, counted from `address` on, the value `byte`.
    ///
    /// # Safety
    /// The rectangles are in memory of the GPU that nothing else uses before the stream has done this work, which comes after
    /// that of all calls before.
    ///
    /// # Errors
    /// The device's own.
    pub(crate) unsafe fn fill(
        &mut self,
        stream: Stream,
        address: u64,
        rectangles: &[Zeros],
        byte: u8,
    ) -> Result<()> {
        if rectangles.len() <= FEW {
            return rectangles.iter().try_for_each(|&Zeros { first, pitch, width, rows }| {
                let rows = Rows { to: first, to_pitch: pitch, width, count: rows, ..Rows::one(0) };
                // SAFETY: as the caller has it.
                unsafe { self.gpu.set_rows(stream, address, &rows, byte) }
            });
        }
        let list = rectangles.iter().map(|&Zeros { first, pitch, width, rows }| Rectangle {
            first: first as u64,
            pitch: pitch as u64,
            width: width as u64,
            rows: rows as u64,
        });
        let list: Vec<Rectangle> = list.collect();
        // One for all: where rectangles overlap, their stores are the same.
        let places = list.iter().fold(address, |all, of| all | of.first | of.pitch | of.width);
        let word =
            [16, 4].into_iter().find(|word| places.is_multiple_of((*word).into())).unwrap_or(1);
        self.list.reserve(size_of_val(&list[..]))?;
        self.list.upload(stream, &list)?;
        let bytes: u64 = list.iter().map(|of| of.width * of.rows).sum();
        let threads = bytes.div_ceil(STORES * u64::from(word));
        let blocks = threads.div_ceil(FILL.entry.threads.into()).min(BLOCKS) as usize;
        let parts = (blocks / list.len()).max(1).ilog2();
        let parameters = FillRectangles {
            target: address,
            rectangles: self.list.address(),
            count: list.len() as u32,
            parts,
            byte: byte.into(),
            word,
        };
        let blocks = (list.len() << parts).min(1 << 16) as u32;
        // SAFETY: as the caller has it; the list was uploaded in the order of the stream.
        unsafe { self.gpu.launch(stream, &FILL, blocks, &parameters) }
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::device::Device;

    #[test]
    fn rectangles_are_those_of_a_plain_loop() {
        let gpu = Device::Sim.open().unwrap();
        let mut random = StdRng::seed_from_u64(5);
        let mut fill = Fill::new(&gpu).unwrap();
        // Rows of words of 16 bytes, of 4 and of bytes; fewer and more rows and words than threads; more of them than blocks.
        for (grain, count, longest, most_rows) in [
            (16, 5, 40, 3),
            (4, 7, 600, 2),
            (1, 9, 33, 40),
            (1, 6, 9000, 1),
            (4, 3000, 2, 2),
            (1, 5, 1, 900),
            (1, FEW, 7, 7),
        ] {
            let zeros: Vec<Zeros> = (0..count)
                .map(|_| {
                    let width = grain * random.random_range(1..=longest);
                    let pitch = width + grain * random.random_range(0..9);
                    let rows = random.random_range(1..=most_rows);
                    Zeros { first: grain * random.random_range(0..50), pitch, width, rows }
                })
                .collect();
            let end = |z: &Zeros| z.first + (z.rows - 1) * z.pitch + z.width;
            // A byte beyond the last stays as it is.
            let bytes = zeros.iter().map(end).max().unwrap() + 16;
            let mut expected = vec![7_u8; bytes];
            for zeros in &zeros {
                for row in 0..zeros.rows {
                    expected[zeros.first + row * zeros.pitch..][..zeros.width].fill(0x88);
                }
            }
            let target = Buffer::new(&gpu, bytes).unwrap();
            let stream = Stream::default();
            target.upload(stream, &vec![7_u8; bytes]).unwrap();
            // SAFETY: the target is as long as the rectangles reach.
            unsafe { fill.fill(stream, target.address(), &zeros, 0x88).unwrap() };
            let mut found = vec![0_u8; bytes];
            target.download(stream, &mut found).unwrap();
            assert!(found == expected, "{grain} {count} {longest} {most_rows}");
        }
    }
}
