//! Samples in blocks of times, brought into rows of time (`cnt`).
//!
//! On a GPU a block of an input is a run that the kernel of gates copies to its place: every byte is read once and
//! written once, beside a number of 4 bytes for each run of 32.

use std::sync::Arc;

use corrust_gpu::abi::reorder::{GATHER, Gather};

use crate::{
    device::{
        gpu::{Gpu, Stream},
        memory::{Buffer, DeviceSlice},
    },
    error::{Error, Result},
    samples::{extents::Extents, view::Samples},
};

/// Bytes of samples that are brought into order at once.
pub(super) const PIECE_BYTES: usize = 256 << 20;

/// Room on a GPU for blocks in order, and what leads to them.
pub(super) struct OnDevice {
    gpu: Arc<dyn Gpu>,
    /// A u32 for each run of a channel, and the inputs and blocks that they are for.
    numbers: Buffer,
    numbers_of: (usize, usize),
    ordered: Buffer,
    /// Comes after the last work on the buffers.
    after: Stream,
}

impl OnDevice {
    pub(super) fn new(gpu: &Arc<dyn Gpu>) -> Result<Self> {
        Ok(Self {
            gpu: gpu.clone(),
            numbers: Buffer::new(gpu, 0)?,
            numbers_of: (0, 0),
            ordered: Buffer::new(gpu, 0)?,
            after: gpu.create_stream()?,
        })
    }

    /// Brings a range of the blocks of `words`, which has `all` of them, into rows of time, in the order of the words'
    /// stream; [`used`](Self::used) says when the rows were read.
    pub(super) fn order(
        &mut self,
        words: &Samples<'_>,
        all: usize,
    ) -> Result<DeviceSlice<'static>> {
        let (address, stream) = words.on_device();
        let Extents { channels, inputs, times: blocks } = words.extents();
        let (run, bytes) = (words.element().bytes(), words.bytes());
        let runs = inputs * blocks;
        if u32::try_from(inputs.saturating_mul(all)).is_err() || u32::try_from(channels).is_err() {
            return Err(Error::invalid(format!(
                "{channels} channels of {inputs} inputs and {all} blocks of times: expected less than 2^32 \
                 channels, and blocks of a channel"
            )));
        }
        self.gpu.order(self.after, stream)?;
        if self.numbers_of != (inputs, blocks) {
            self.numbers_of = (0, 0);
            let place = |input: usize| move |block: usize| (block * inputs + input) as u32;
            let numbers: Vec<u32> =
                (0..inputs).flat_map(|input| (0..blocks).map(place(input))).collect();
            // Memory about to be freed may be in use.
            self.gpu.wait(stream)?;
            self.numbers.reserve(4 * numbers.len())?;
            self.numbers.upload(stream, &numbers)?;
            self.numbers_of = (inputs, blocks);
        }
        if bytes > self.ordered.bytes() {
            self.gpu.wait(stream)?;
            self.ordered.reserve(bytes)?;
        }
        let parameters = Gather {
            source: address,
            gathered: self.ordered.address(),
            numbers: self.numbers.address(),
            rows: channels as u32,
            times: (inputs * all) as u32,
            chosen: runs as u32,
            parts: 1,
            rows_of_list: channels as u32,
            run: run as u32,
            zero: 0,
            reserved: 0,
        };
        let grid = (bytes / 4).div_ceil(GATHER.entry.threads as usize).min(1 << 16);
        // SAFETY: the numbers are below the runs of a channel, and the rows have room.
        unsafe { self.gpu.launch(stream, &GATHER, grid as u32, &parameters)? };
        // SAFETY: the buffer has room for them, and is changed by later work alone.
        Ok(unsafe { DeviceSlice::from_raw(self.ordered.address(), bytes, stream) })
    }

    /// Makes later work on the buffers wait for the work now on `stream`.
    pub(super) fn used(&self, stream: Stream) -> Result<()> {
        self.gpu.order(stream, self.after)
    }
}
