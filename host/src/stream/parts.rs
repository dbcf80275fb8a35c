//! Several GPUs of one host that share the work of a plan: each has a backend of its own for a part of the
//! channels, or of the rows, and is fed from a thread of its own. Nothing is summed across GPUs, so the
//! results have the same bits as on one.

use std::{ops::Range, panic::resume_unwind, sync::Arc, thread};

use crate::{
    device::{
        gpu::{Gpu, Rows, Stream},
        memory::Buffer,
    },
    error::{Error, Result},
    layout::Layout,
    samples::{extents::Memory, gather::Gather, view::Samples},
    stream::feeder::{LEAST_ROW, MOST_COPIES},
};

/// The parts of a plan.
pub(crate) struct Parts<B> {
    /// GPUs of the parts come first; others may still have samples in their memory.
    gpus: Vec<Arc<dyn Gpu>>,
    parts: Vec<Part<B>>,
}

/// Range and backend of one GPU.
pub(crate) struct Part<B> {
    pub range: Range<usize>,
    pub backend: B,
    /// At most two rooms, the last in use, for its share of samples that are in another GPU's memory.
    fetched: Vec<Room>,
    /// Room for that share in the other GPU's memory, in one piece.
    packed: Option<Room>,
}

/// Memory of a GPU, and the stream of the work on it.
struct Room {
    memory: Buffer,
    stream: Stream,
}

impl Room {
    fn new(gpu: &Arc<dyn Gpu>) -> Result<Self> {
        Ok(Self { memory: Buffer::new(gpu, 0)?, stream: gpu.create_stream()? })
    }

    /// Makes place for `bytes` bytes, once the work on earlier ones is done. Returns whether there is as much memory.
    fn reserve(&mut self, bytes: usize) -> Result<bool> {
        if self.memory.bytes() < bytes {
            self.memory.gpu().wait(self.stream)?;
        }
        match self.memory.reserve(bytes) {
            Err(Error::OutOfMemory { .. }) => Ok(false),
            done => done.map(|()| true),
        }
    }
}

impl<B> Part<B> {
    /// Makes copies out of the memory of `owner` wait for the work that `stream` has now.
    fn follow(&mut self, owner: &Arc<dyn Gpu>, stream: Stream) -> Result<()> {
        let packed = self.packed.take().filter(|room| Arc::ptr_eq(room.memory.gpu(), owner));
        let room = packed.map_or_else(|| Room::new(owner), Ok)?;
        owner.order(stream, room.stream)?;
        self.packed = Some(room);
        Ok(())
    }
}

impl<B: Send> Parts<B> {
    /// Divides `count` channels or rows as evenly as can be; `make` makes the backend of a part. There are
    /// no more parts than there is something to compute for.
    ///
    /// # Errors
    /// As `make`'s, naming the GPU.
    pub(crate) fn new(
        gpus: Vec<Arc<dyn Gpu>>,
        count: usize,
        mut make: impl FnMut(Arc<dyn Gpu>, Range<usize>) -> Result<B>,
    ) -> Result<Self> {
        let number = gpus.len().min(count);
        let parts = gpus[..number].iter().enumerate().map(|(index, gpu)| {
            let range = index * count / number..(index + 1) * count / number;
            let backend = make(gpu.clone(), range.clone()).map_err(|error| named(gpu, error))?;
            Ok(Part { range, backend, fetched: Vec::new(), packed: None })
        });
        Ok(Self { parts: parts.collect::<Result<_>>()?, gpus })
    }

    /// The number of parts.
    pub(crate) fn count(&self) -> usize {
        self.parts.len()
    }

    /// The GPUs of the parts, and others that may have samples in their memory, or room for results.
    pub(crate) fn gpus(&self) -> &[Arc<dyn Gpu>] {
        &self.gpus
    }

    /// The backend of the first part.
    pub(crate) fn first(&self) -> &B {
        &self.parts[0].backend
    }

    /// The backends, to be changed without the GPUs.
    pub(crate) fn backends(&mut self) -> impl Iterator<Item = &mut B> {
        self.parts.iter_mut().map(|part| &mut part.backend)
    }

    /// Range of each part.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.parts.iter().map(|part| part.range.clone())
    }

    /// Slices of `all`, one for each part; each channel or row has the same number of elements.
    pub(crate) fn shares<'a, T>(&self, all: &'a [T]) -> Vec<&'a [T]> {
        let each = all.len() / self.parts.last().map_or(1, |part| part.range.end);
        self.ranges().map(|range| &all[range.start * each..range.end * each]).collect()
    }

    /// Room of each part: `split` divides room after so many channels or rows.
    pub(crate) fn rooms<R>(&self, all: R, split: impl Fn(R, usize) -> (R, R)) -> Vec<R> {
        let (mut rooms, mut rest) = (Vec::new(), all);
        for range in self.ranges() {
            let (room, after) = split(rest, range.len());
            rooms.push(room);
            rest = after;
        }
        rooms
    }

    /// Does something for every part, each with a thing of its own, all at the same time.
    ///
    /// # Errors
    /// The error of the first part that failed, naming the GPU.
    pub(crate) fn each<T: Send>(
        &mut self,
        things: impl IntoIterator<Item = T>,
        work: impl Fn(&mut Part<B>, T) -> Result<()> + Sync,
    ) -> Result<()> {
        let run =
            |gpu, part: &mut Part<B>, thing| work(part, thing).map_err(|error| named(gpu, error));
        let run = &run;
        let parts = self.gpus.iter().zip(&mut self.parts).zip(things);
        let results: Vec<Result<()>> = if rayon::current_thread_index().is_some() {
            // The parts' threads would wait for those of rayon, of which this one waits for them.
            parts.map(|((gpu, part), thing)| run(gpu, part, thing)).collect()
        } else {
            thread::scope(|scope| {
                let threads: Vec<_> = parts
                    .map(|((gpu, part), thing)| scope.spawn(move || run(gpu, part, thing)))
                    .collect();
                let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
                };
                threads.into_iter().map(join).collect()
            })
        };
        results.into_iter().collect()
    }

    /// [`each`](Self::each) of work that needs nothing else.
    ///
    /// # Errors
    /// As [`each`](Self::each)'s.
    pub(crate) fn each_alone(&mut self, work: impl Fn(&mut B) -> Result<()> + Sync) -> Result<()> {
        let alone = vec![(); self.parts.len()];
        self.each(alone, |part, ()| work(&mut part.backend))
    }

    /// Feeds every part its share of some samples, with a thing of its own. Samples in the memory of another of the
    /// GPUs are copied from there, in the order of `layout`, after the work that their stream has now.
    ///
    /// # Errors
    /// [`Error::Invalid`] for samples in the memory of none of the GPUs; those of `work`.
    pub(crate) fn feed<'a, T: Send>(
        &mut self,
        samples: &Samples<'a>,
        layout: Layout,
        things: impl IntoIterator<Item = T>,
        share: impl Fn(&Part<B>, Samples<'a>) -> Samples<'a> + Sync,
        work: impl Fn(&mut B, &Samples<'_>, T) -> Result<()> + Sync,
    ) -> Result<()> {
        let owner = match samples.memory() {
            Memory::Host(_) => None,
            Memory::Device(slice) => Some(slice.owner(&self.gpus)?.clone()),
        };
        if let Some(owner) = &owner {
            // Before the owner's own part has its stream wait for the work of that part.
            let (_, stream) = samples.on_device();
            let others = self.gpus.iter().zip(&mut self.parts);
            for (gpu, part) in others.filter(|(gpu, _)| !Arc::ptr_eq(owner, gpu)) {
                part.follow(owner, stream).map_err(|error| named(gpu, error))?;
            }
        }
        let gpus = self.gpus.clone();
        self.each(gpus.into_iter().zip(things), |part, (gpu, thing)| {
            let share = share(part, *samples);
            match owner.as_ref().filter(|owner| !Arc::ptr_eq(owner, &gpu)) {
                None => work(&mut part.backend, &share, thing),
                Some(owner) => {
                    let gaps: Vec<_> = share.gaps().collect();
                    let Part { backend, fetched, packed, .. } = part;
                    let near = match packed {
                        Some(packed) => fetch(&gpu, fetched, packed, &share, layout)?,
                        None => None,
                    };
                    let Some(near) = near else {
                        let bytes = share.gather_from(owner, layout)?;
                        let (element, extents) = (share.element(), share.extents());
                        let near = Samples::dense(bytes[..].into(), element, layout, extents);
                        return work(backend, &near.missing_zeroed(&gaps), thing);
                    };
                    let near = match share.is_zeroed() {
                        true => near.missing_zeroed(&gaps),
                        false => near.missing(&gaps),
                    };
                    work(backend, &near, thing)
                }
            }
        })
    }
}

/// Copies samples in the memory of the GPU of `packed` to that of `gpu`, in the order of `layout`, and waits for it: of two rooms
/// the one that is not in use is filled. Rows with something between them are put together in `packed` first: from one GPU to
/// another they go one by one. None where rows are short or many, or there is no memory: the way through the host is better then.
fn fetch<'a>(
    gpu: &Arc<dyn Gpu>,
    rooms: &'a mut Vec<Room>,
    packed: &mut Room,
    samples: &Samples<'_>,
    layout: Layout,
) -> Result<Option<Samples<'a>>> {
    let gather = Gather::new(samples, layout, None);
    let bytes = gather.bytes();
    let (mut address, _) = samples.on_device();
    let Some(rows) = gather.rows(LEAST_ROW).filter(|rows| rows.len() <= MOST_COPIES) else {
        return Ok(None);
    };
    match rooms.len() {
        0 | 1 => rooms.push(Room::new(gpu)?),
        _ => rooms.swap(0, 1),
    }
    let room = rooms.last_mut().expect("a room was added");
    let is_packed = rows != [Rows::one(bytes)];
    if !room.reserve(bytes)? || is_packed && !packed.reserve(bytes)? {
        return Ok(None);
    }
    // An error leaves no wait out: the samples may be gone then.
    let (owner, mut copied) = (packed.memory.gpu(), Ok(()));
    if is_packed {
        let to = packed.memory.address();
        // SAFETY: the room is as long as the gathered samples, which lie where their strides lead.
        let copy = |rows| unsafe { owner.copy_rows(packed.stream, to, address, rows) };
        copied = rows.iter().try_for_each(copy);
        address = to;
    }
    copied.and(owner.wait(packed.stream))?;
    let to = (room.stream, room.memory.address());
    // SAFETY: both are as long as the gathered samples, which stay until the copy was waited for.
    let fetched = unsafe { gpu.fetch(to, (&**owner, address), bytes) };
    fetched.and(gpu.wait(room.stream))?;
    let near = room.memory.slice().part(0..bytes).on(room.stream);
    Ok(Some(Samples::dense(near.into(), samples.element(), layout, samples.extents())))
}

/// An error of a GPU with its name.
fn named(gpu: &Arc<dyn Gpu>, error: Error) -> Error {
    let name = gpu.name();
    let says =
        |text: &str| text.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', ' ']));
    match error {
        Error::Device(text) if !says(&text) => Error::Device(format!("{name}: {text}")),
        Error::OutOfMemory { device, needed, available } if !says(&device) => {
            Error::OutOfMemory { device: format!("{name} ({device})"), needed, available }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Devices;

    #[test]
    fn parts_are_even_and_errors_name_theirs() {
        let gpus = "sim,sim,sim".parse::<Devices>().unwrap().open().unwrap();
        let ranges = |count| {
            let parts = Parts::new(gpus.clone(), count, |_, _| Ok(())).unwrap();
            parts.ranges().collect::<Vec<_>>()
        };
        assert_eq!(ranges(7), [0..2, 2..4, 4..7]);
        assert_eq!(ranges(2), [0..1, 1..2]);

        let full = || Error::OutOfMemory { device: "simulator".into(), needed: 2, available: 1 };
        let made = Parts::new(gpus.clone(), 3, |_, range| match range.start {
            1 => Err(full()),
            _ => Ok(()),
        });
        let error = made.err().expect("the second part fails").to_string();
        assert!(error.starts_with("sim 2 (simulator) is out of memory"), "{error}");

        let mut parts = Parts::new(gpus, 7, |_, range| Ok(range.start / 2)).unwrap();
        let all: Vec<usize> = (0..14).collect();
        assert_eq!(parts.shares(&all), [&all[..4], &all[4..8], &all[8..]]);
        assert_eq!(parts.rooms(&all[..], |room, rows| room.split_at(2 * rows)), parts.shares(&all));
        let failed = parts.each_alone(|&mut first| match first {
            2 => Err(Error::Device("broken".to_owned())),
            _ => Ok(()),
        });
        assert_eq!(failed.unwrap_err().to_string(), "sim 3: broken");
    }
}
