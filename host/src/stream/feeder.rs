//! The way of samples to a device, the same for all systems.
//!
//! ```text
//! page-locked memory ---- rows, by the copy engine ------+
//! other memory -> [gather] staging, page-locked -> bytes +-> source of a set -> kernels
//! a GPU's memory -- as it lies, or rows, or bytes -------+
//! ```
//!
//! Sets of buffers take turns: one piece of samples is copied, on a stream for that alone, while the one
//! before is computed on the stream of its set. Missing samples become zero during the copy, and
//! samples in another order or with gaps between them are gathered.

use std::sync::Arc;

use crate::{
    device::{
        gpu::{Gpu, Rows, Stream},
        memory::{Buffer, DeviceSlice},
    },
    error::Result,
    layout::Layout,
    samples::{
        extents::Memory,
        gather::{Gather, Zeros},
        view::Samples,
    },
    stream::fill::Fill,
};

/// Bytes of samples that are copied at once where nothing asks for more: enough to amortise a launch, few
/// enough that little is left to compute when the last of them have arrived.
pub(crate) const PIECE_BYTES: usize = 32 << 20;

/// Rows that are as long as this reach the device as quickly as one.
pub(crate) const LEAST_ROW: usize = 4096;

/// Most copies of rows that are enqueued for one piece.
pub(crate) const MOST_COPIES: usize = 64;

/// Samples in host memory that a [`Feeder`] carries.
pub(crate) struct Parcel<'a> {
    /// Memory that they are copied from.
    pub memory: &'a [u8],
    /// Bytes on the device.
    pub bytes: usize,
    /// Rows that the copy engine can bring, if they are few and long enough to.
    pub rows: Option<Vec<Rows>>,
    /// Bytes that are cleared after the copies, and their value.
    pub zeros: (&'a [Zeros], u8),
    /// Writes a part of the whole, from its byte on.
    pub fill: &'a (dyn Fn(usize, &mut [u8]) + Sync),
}

/// Engine that brings samples to a GPU, a piece at a time, and keeps the order of the work on them.
pub(crate) struct Feeder {
    gpu: Arc<dyn Gpu>,
    /// Number of sets once all are made.
    count: usize,
    sets: Vec<Set>,
    next: usize,
    /// The stream of the copies, and of work that follows a caller's stream.
    copies: Option<Stream>,
    /// Whether the caller's own memory may still be read.
    lent: bool,
    /// The stream of the last work on what the plan has once only.
    last: Stream,
}

/// Memory for one piece, and the stream of the work on it.
struct Set {
    stream: Stream,
    source: Buffer,
    fill: Fill,
}

impl Feeder {
    /// Sets of buffers, `count` of them, made when they are needed.
    pub(crate) fn new(gpu: &Arc<dyn Gpu>, count: usize) -> Self {
        Self {
            gpu: gpu.clone(),
            count,
            sets: Vec::new(),
            next: 0,
            copies: None,
            lent: false,
            last: Stream::default(),
        }
    }

    /// Bytes of a piece of `samples`: about as many as `wanted`, if the device's memory allows.
    ///
    /// # Errors
    /// The device's own.
    pub(crate) fn piece_bytes(&self, samples: &Samples<'_>, wanted: usize) -> Result<usize> {
        let wanted = wanted.min(samples.bytes());
        if self.sets.iter().all(|set| wanted <= set.source.bytes()) && !self.sets.is_empty() {
            return Ok(wanted.max(1));
        }
        // Source and native samples of all sets; `ci4` doubles in size, padding at most doubles.
        let free = self.gpu.free_bytes()? / 16;
        Ok(wanted.min(usize::try_from(free).unwrap_or(usize::MAX)).max(1))
    }

    /// Brings samples to the device, in the order of `layout` without gaps, and says where they are and on
    /// which stream they can be used. Complete samples in a GPU's memory, or those whose missing ones are zero there, that `fits` takes are used where they lie.
    ///
    /// They stay until as many other pieces were brought as there are sets. The caller's memory may be
    /// read until it is [given back](Self::give_back).
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for samples in the memory of another GPU; the device's own.
    pub(crate) fn bring(
        &mut self,
        samples: &Samples<'_>,
        layout: Layout,
        fits: impl FnOnce(&Samples<'_>) -> bool,
    ) -> Result<Samples<'static>> {
        let gpu = self.gpu.clone();
        if let Memory::Device(slice) = samples.memory() {
            slice.check(&gpu)?;
            if samples.is_ready() && fits(samples) {
                // SAFETY: the caller keeps the samples.
                let slice =
                    unsafe { DeviceSlice::from_raw(slice.address(), slice.len(), slice.stream()) };
                return Ok(samples.elsewhere(slice));
            }
        }
        let gather = Gather::new(samples, layout, None);
        let (zero, zeros) = gather.zeros();
        let (address, stream) = match samples.memory() {
            Memory::Device(slice) => {
                let set = self.set(gather.bytes())?;
                let (stream, address) = (set.stream, set.source.address());
                gpu.order(slice.stream(), stream)?;
                for rows in gather.rows(0).unwrap_or_default() {
                    // SAFETY: the set has room for the gathered samples, the slice is as long as it says.
                    unsafe { gpu.copy_rows(stream, address, slice.address(), &rows)? };
                }
                gpu.order(stream, slice.stream())?;
                // SAFETY: the set has room for the gathered samples, and its stream orders all work on it.
                unsafe { set.fill.fill(stream, address, zeros, zero)? };
                (address, stream)
            }
            Memory::Host(memory) => {
                let (bytes, rows) = (gather.bytes(), gather.rows(LEAST_ROW));
                let fill = |first, part: &mut [u8]| gather.fill(first, part);
                let parcel = Parcel { memory, bytes, rows, zeros: (zeros, zero), fill: &fill };
                self.carry(&parcel)?
            }
        };
        // SAFETY: it is the set's source.
        let slice = unsafe { DeviceSlice::from_raw(address, gather.bytes(), stream) };
        Ok(Samples::dense(slice.into(), samples.element(), layout, samples.extents()))
    }

    /// Copies samples in host memory to the device, and returns their place and the stream on which they can be
    /// used; as for [`bring`](Self::bring).
    ///
    /// # Errors
    /// The device's own.
    pub(crate) fn carry(&mut self, parcel: &Parcel<'_>) -> Result<(u64, Stream)> {
        let gpu = self.gpu.clone();
        let copies = self.copies()?;
        let by_engine =
            |rows: &&Vec<Rows>| rows.len() <= MOST_COPIES && gpu.is_locked(parcel.memory);
        let rows = parcel.rows.as_ref().filter(by_engine);
        self.lent |= rows.is_some();
        let set = self.set(parcel.bytes)?;
        let (stream, address) = (set.stream, set.source.address());
        // Work on the set's earlier samples comes first.
        gpu.order(stream, copies)?;
        match rows {
            Some(rows) => {
                for rows in rows {
                    // SAFETY: the set has room for the parcel; the caller's memory is read until it is given
                    // back.
                    unsafe { gpu.copy_in(copies, address, parcel.memory, rows)? };
                }
                let (zeros, zero) = parcel.zeros;
                // SAFETY: the set has room for the parcel; the stream of the copies orders all work on it.
                unsafe { set.fill.fill(copies, address, zeros, zero)? };
            }
            // SAFETY: as above; nothing is read after the return.
            None => unsafe { gpu.upload_filled(copies, address, parcel.bytes, parcel.fill)? },
        }
        gpu.order(copies, stream)?;
        Ok((address, stream))
    }

    /// The set whose turn it is, with room for `bytes` bytes.
    fn set(&mut self, bytes: usize) -> Result<&mut Set> {
        let index = self.next;
        if self.sets.len() <= index {
            let source = Buffer::new(&self.gpu, 0)?;
            let (stream, fill) = (self.gpu.create_stream()?, Fill::new(&self.gpu)?);
            self.sets.push(Set { stream, source, fill });
        }
        self.next = (index + 1) % self.count;
        let set = &mut self.sets[index];
        set.source.reserve(bytes)?;
        Ok(set)
    }

    fn copies(&mut self) -> Result<Stream> {
        let stream = self.copies.map_or_else(|| self.gpu.create_stream(), Ok)?;
        self.copies = Some(stream);
        Ok(stream)
    }

    /// Releases the caller's memory and stream: waits until the memory is no longer read, and makes later work wait on
    /// a stream of the plan's own, as the caller's may be destroyed. Every call that was given memory or a stream ends
    /// with it, after errors too.
    ///
    /// # Errors
    /// The device's own.
    pub(crate) fn give_back(&mut self) -> Result<()> {
        let read = self.finish_copies();
        let own = |stream| self.sets.iter().any(|set| set.stream == stream);
        if self.last != Stream::default() && Some(self.last) != self.copies && !own(self.last) {
            let copies = self.copies()?;
            self.continue_on(copies)?;
        }
        read
    }

    /// Waits until the caller's memory is read no more.
    fn finish_copies(&mut self) -> Result<()> {
        let lent = std::mem::take(&mut self.lent);
        self.copies.filter(|_| lent).map_or(Ok(()), |copies| self.gpu.wait(copies))
    }

    /// Makes `stream` wait for the work so far on what the plan has once only.
    ///
    /// # Errors
    /// The device's own.
    pub(crate) fn continue_on(&mut self, stream: Stream) -> Result<()> {
        if self.last != stream {
            self.gpu.order(self.last, stream)?;
            self.last = stream;
        }
        Ok(())
    }

    /// The stream of the last work on what the plan has once only.
    pub(crate) fn last(&self) -> Stream {
        self.last
    }

    /// Waits for that work.
    ///
    /// # Errors
    /// The device's own.
    pub(crate) fn wait(&self) -> Result<()> {
        self.gpu.wait(self.last)
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        // After a panic the caller's memory may still be on its way.
        let _ = self.finish_copies();
    }
}
