//! Bringing samples together.

use std::{ops::Range, sync::Arc};

use rayon::prelude::*;

use crate::{
    device::{
        gpu::{Gpu, Rows},
        host,
    },
    error::Result,
    layout::Layout,
    samples::{
        extents::{Extents, Memory, Strides},
        missing::Missing,
        shape::Shape,
        view::Samples,
    },
};

/// Bytes that one thread copies at a time.
const PART: usize = 1 << 18;

/// An axis along which runs of bytes stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    count: usize,
    /// Bytes from one run to the next.
    stride: usize,
    /// Whether it is the axis of time, of which only some may be chosen.
    chosen: bool,
}

/// The way of samples to dense memory in the order of a layout: runs of bytes that stand together, along
/// up to three axes; then bytes of zero where samples are missing.
pub(crate) struct Gather<'a> {
    memory: Memory<'a>,
    /// Times to take, ascending; all, if none are named.
    chosen: Option<&'a [usize]>,
    /// Bytes of a run.
    run: usize,
    /// Slowest first; at least one.
    axes: Vec<Axis>,
    /// Bytes in all.
    bytes: usize,
    zero: u8,
    zeros: Vec<Zeros>,
}

/// Rows of bytes in the gathered samples that are to be zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zeros {
    /// Byte at which the first row begins.
    pub first: usize,
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// Bytes of a row.
    pub width: usize,
    /// Number of rows.
    pub rows: usize,
}

impl<'a> Gather<'a> {
    /// The way of the times `chosen`, ascending, of some samples, or of all times.
    pub fn new(samples: &Samples<'a>, layout: Layout, chosen: Option<&'a [usize]>) -> Self {
        let samples = &samples.words();
        let size = samples.element.bytes();
        let times = Axis {
            count: chosen.map_or(samples.extents.times, <[usize]>::len),
            stride: samples.strides.time,
            chosen: chosen.is_some(),
        };
        let axis = |count, stride| Axis { count, stride, chosen: false };
        let channels = axis(samples.extents.channels, samples.strides.channel);
        let inputs = axis(samples.extents.inputs, samples.strides.input);
        let order = match layout {
            Layout::Tcn => [times, channels, inputs],
            Layout::Cnt => [channels, inputs, times],
        };
        let [_, middle, inner] = order.map(|axis| axis.count);
        let zeros = samples
            .gaps()
            .filter(|_| !samples.zeroed)
            .flat_map(|gap| zero_rows(&gap, layout, chosen, [middle, inner], size))
            .collect();
        let mut run = size;
        let mut axes: Vec<Axis> = Vec::with_capacity(3);
        for axis in order.into_iter().rev() {
            match axes.last_mut() {
                _ if axis.count == 1 && !axis.chosen => {}
                None if axis.stride == run && !axis.chosen => run *= axis.count,
                Some(faster)
                    if !axis.chosen
                        && !faster.chosen
                        && axis.stride == faster.count * faster.stride =>
                {
                    faster.count *= axis.count;
                }
                _ => axes.push(axis),
            }
        }
        if axes.is_empty() {
            axes.push(Axis { count: 1, stride: 0, chosen: false });
        }
        axes.reverse();
        Self {
            memory: samples.memory,
            chosen,
            run,
            axes,
            bytes: order.iter().map(|axis| axis.count).product::<usize>() * size,
            zero: samples.element.zero(),
            zeros,
        }
    }

    /// Bytes of the gathered samples.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The byte that missing samples consist of, and where they are.
    pub fn zeros(&self) -> (u8, &[Zeros]) {
        (self.zero, &self.zeros)
    }

    /// Copies of rows that gather all samples, as a copy engine does them; none for chosen times. `None`
    /// where rows are shorter than `least` bytes.
    pub fn rows(&self, least: usize) -> Option<Vec<Rows>> {
        if self.chosen.is_some() || self.run < least.min(self.bytes) {
            return None;
        }
        if self.bytes == 0 {
            return Some(Vec::new());
        }
        let (rows, slower) = self.axes.split_last().expect("at least one axis");
        let copies: usize = slower.iter().map(|axis| axis.count).product();
        let copy = |index: usize| Rows {
            from: offset(slower, index, None),
            from_pitch: rows.stride,
            to: index * rows.count * self.run,
            to_pitch: self.run,
            width: self.run,
            count: rows.count,
        };
        Some((0..copies).map(copy).collect())
    }

    /// Fills `to` with the gathered bytes from `first` on.
    ///
    /// # Panics
    /// When the samples are not in host memory.
    pub fn fill(&self, first: usize, to: &mut [u8]) {
        let Memory::Host(bytes) = self.memory else { panic!("samples in a GPU's memory") };
        let (inner, slower) = self.axes.split_last().expect("at least one axis");
        let place = |index: usize| match self.chosen.filter(|_| inner.chosen) {
            Some(chosen) => chosen[index] * inner.stride,
            None => index * inner.stride,
        };
        let mut done = 0;
        while done < to.len() {
            let (index, within) = ((first + done) / self.run, (first + done) % self.run);
            let start = offset(slower, index / inner.count, self.chosen);
            let along = index % inner.count;
            let whole = ((to.len() - done) / self.run).min(inner.count - along);
            if within > 0 || whole == 0 {
                let count = (self.run - within).min(to.len() - done);
                let from = start + place(along) + within;
                to[done..done + count].copy_from_slice(&bytes[from..from + count]);
                done += count;
            } else {
                let part = &mut to[done..done + whole * self.run];
                let bytes = &bytes[start..];
                match self.run {
                    1 => copy_each::<1>(part, bytes, along, place),
                    2 => copy_each::<2>(part, bytes, along, place),
                    4 => copy_each::<4>(part, bytes, along, place),
                    run => {
                        for (index, part) in part.chunks_exact_mut(run).enumerate() {
                            let from = place(along + index);
                            part.copy_from_slice(&bytes[from..from + run]);
                        }
                    }
                }
                done += whole * self.run;
            }
        }
        for zeros in &self.zeros {
            zeros.within(first, to.len()).for_each(|range| to[range].fill(self.zero));
        }
    }

    /// The gathered bytes.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    ///
    /// # Panics
    /// When the samples are not in host memory.
    pub fn collect(&self) -> Result<Vec<u8>> {
        let mut gathered = host::zeros(self.bytes)?;
        gathered
            .par_chunks_mut(PART)
            .enumerate()
            .for_each(|(index, part)| self.fill(index * PART, part));
        Ok(gathered)
    }
}

/// The times of a list, ascending, of all channels of samples in host memory; or, of as many lists as channels, those of
/// its own list for each; places past the end of a shorter list are zero.
///
/// # Errors
/// [`crate::Error::OutOfMemory`].
pub(crate) fn gather_lists(
    samples: &Samples<'_>,
    layout: Layout,
    lists: &[Vec<u32>],
) -> Result<Vec<u8>> {
    let times = |list: &[u32]| list.iter().map(|&time| time as usize).collect::<Vec<_>>();
    if let [all] = lists {
        return Gather::new(samples, layout, Some(&times(all))).collect();
    }
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let (size, Extents { channels, inputs, .. }) = (samples.element.bytes(), samples.extents());
    let gather = |channel: usize| {
        let (channel, times) = (samples.channels(channel..channel + 1), times(&lists[channel]));
        Gather::new(&channel, layout, Some(&times)).collect()
    };
    let parts: Vec<Vec<u8>> = (0..channels).into_par_iter().map(gather).collect::<Result<_>>()?;
    let mut gathered = host::zeros(longest * channels * inputs * size)?;
    // Rows of a channel: of inputs, a time each, or of times, an input each.
    let run = match layout {
        Layout::Tcn => inputs * size,
        Layout::Cnt => longest * size,
    };
    gathered.par_chunks_mut(run).enumerate().with_min_len(64).for_each(|(index, to)| {
        let (channel, from) = match layout {
            Layout::Tcn => (index % channels, index / channels * run),
            Layout::Cnt => {
                let row = parts[index / inputs].len() / inputs;
                (index / inputs, index % inputs * row)
            }
        };
        let part = &parts[channel];
        let held = match layout {
            Layout::Tcn => part.len().saturating_sub(from).min(run),
            Layout::Cnt => part.len() / inputs,
        };
        to[..held].copy_from_slice(&part[from.min(part.len())..][..held]);
        to[held..].fill(samples.element.zero());
    });
    Ok(gathered)
}

/// Copies samples of `B` bytes that are `place(index)` bytes from the start.
fn copy_each<const B: usize>(
    to: &mut [u8],
    bytes: &[u8],
    first: usize,
    place: impl Fn(usize) -> usize,
) {
    for (index, to) in to.as_chunks_mut::<B>().0.iter_mut().enumerate() {
        let from = place(first + index);
        to.copy_from_slice(&bytes[from..from + B]);
    }
}

/// Offset of the `index`th run along `axes`.
fn offset(axes: &[Axis], mut index: usize, chosen: Option<&[usize]>) -> usize {
    let mut offset = 0;
    for axis in axes.iter().rev() {
        let along = index % axis.count;
        index /= axis.count;
        let along = chosen.filter(|_| axis.chosen).map_or(along, |chosen| chosen[along]);
        offset += along * axis.stride;
    }
    offset
}

/// Rows of a gap in dense samples of `size` bytes, whose faster axes have `counts` places.
pub(crate) fn zero_rows(
    gap: &Missing,
    layout: Layout,
    chosen: Option<&[usize]>,
    [middle, inner]: [usize; 2],
    size: usize,
) -> Vec<Zeros> {
    let mut times = gap.times.clone();
    if let Some(chosen) = chosen {
        let place = |time: usize| chosen.partition_point(|&chosen| chosen < time);
        times = place(times.start)..place(times.end);
    }
    if times.is_empty() {
        return Vec::new();
    }
    let [slow, middles, fast] = match layout {
        Layout::Tcn => [times, gap.channels.clone(), gap.inputs.clone()],
        Layout::Cnt => [gap.channels.clone(), gap.inputs.clone(), times],
    };
    let (line, plane) = (inner * size, middle * inner * size);
    let first = slow.start * plane + middles.start * line + fast.start * size;
    let all_middles = middles == (0..middle);
    if fast == (0..inner) {
        if all_middles {
            return vec![Zeros { first, pitch: plane, width: slow.len() * plane, rows: 1 }];
        }
        let width = middles.len() * line;
        return vec![Zeros { first, pitch: plane, width, rows: slow.len() }];
    }
    let width = fast.len() * size;
    if all_middles {
        return vec![Zeros { first, pitch: line, width, rows: slow.len() * middle }];
    }
    // As few groups of rows as the shorter axis has places.
    let (groups, step, rows, pitch) = if slow.len() < middles.len() {
        (slow.len(), plane, middles.len(), line)
    } else {
        (middles.len(), line, slow.len(), plane)
    };
    (0..groups).map(|group| Zeros { first: first + group * step, pitch, width, rows }).collect()
}

/// Gives missing samples the value zero, of `times` times of a shape in the order of its layout.
pub fn clear(samples: &mut [u8], shape: &Shape, times: usize, missing: &[Missing]) {
    let Shape { channels, inputs, encoding, layout } = *shape;
    let (all, zero) = (Extents { channels, inputs, times }, encoding.zero()[0]);
    let strides = Strides::dense(layout, all, encoding.into());
    let (slices, slice) = match layout {
        Layout::Tcn => (times, strides.time),
        Layout::Cnt => (channels, strides.channel),
    };
    // A thread has all samples of some times, or of some channels.
    let each = slices.div_ceil(4 * rayon::current_num_threads()).max(1);
    let parts = samples.par_chunks_mut((each * slice).max(1)).enumerate();
    parts.for_each(|(part, samples)| {
        let (first, count) = (part * each, samples.len() / slice);
        let start = Extents { channels: 0, inputs: 0, times: 0 };
        let (origin, extents) = match layout {
            Layout::Tcn => (Extents { times: first, ..start }, Extents { times: count, ..all }),
            Layout::Cnt => {
                (Extents { channels: first, ..start }, Extents { channels: count, ..all })
            }
        };
        for gap in missing.iter().filter_map(|missing| missing.within(&origin, &extents)) {
            let [slower, fast] = match layout {
                Layout::Tcn => [(gap.times, strides.time), (gap.inputs, strides.input)],
                Layout::Cnt => [(gap.inputs, strides.input), (gap.times, strides.time)],
            };
            let (begin, width) = (fast.0.start * fast.1, fast.0.len() * fast.1);
            for place in slower.0 {
                for channel in gap.channels.clone() {
                    let row = begin + place * slower.1 + channel * strides.channel;
                    samples[row..row + width].fill(zero);
                }
            }
        }
    });
}

impl Zeros {
    /// Parts within `length` bytes from `first` on, counted from there.
    fn within(&self, first: usize, length: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let Self { first: begin, pitch, width, rows } = *self;
        let end = first + length;
        // The first row that ends after `first`, and those that begin before `end`.
        let skipped = (first + 1).saturating_sub(begin + width).div_ceil(pitch);
        let until = end.saturating_sub(begin).div_ceil(pitch).min(rows);
        (skipped..until.max(skipped)).filter_map(move |row| {
            let row = begin + row * pitch;
            let range = row.max(first)..(row + width).min(end);
            (!range.is_empty()).then(|| range.start - first..range.end - first)
        })
    }
}

impl Samples<'_> {
    /// A copy of samples in host memory in the order of `layout`, without gaps; missing ones are zero,
    /// but of `b1` and `b2`, which have no zero and are copied as they are.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) when they are in a GPU's memory; [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn gather(&self, layout: Layout) -> Result<Vec<u8>> {
        self.check_host()?;
        Gather::new(self, layout, None).collect()
    }

    /// [`gather_from`](Self::gather_from) the one of `gpus` that has them in its memory; on the CPU there are none.
    pub(crate) fn gather_anywhere(&self, gpus: &[Arc<dyn Gpu>], layout: Layout) -> Result<Vec<u8>> {
        match self.memory {
            Memory::Device(slice) if !gpus.is_empty() => {
                self.gather_from(slice.owner(gpus)?, layout)
            }
            _ => self.gather(layout),
        }
    }

    /// [`gather`](Self::gather) of samples that may also be in the memory of `gpu`, whose stream is waited
    /// for.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), the device's own.
    pub fn gather_from(&self, gpu: &Arc<dyn Gpu>, layout: Layout) -> Result<Vec<u8>> {
        let Memory::Device(slice) = self.memory else { return self.gather(layout) };
        let Samples { extents: Extents { channels, inputs, times }, strides, .. } = self.words();
        if times == 0 {
            return Ok(Vec::new());
        }
        let last = (channels - 1) * strides.channel
            + (inputs - 1) * strides.input
            + (times - 1) * strides.time;
        let mut bytes = host::zeros(last + self.element.bytes())?;
        // SAFETY: the samples reach so far, and whoever gave them keeps them.
        unsafe { gpu.download(slice.stream(), slice.address(), &mut bytes)? };
        let near = Samples { memory: Memory::Host(&bytes), ..*self };
        if near.plain(layout).is_some_and(|plain| plain.len() == bytes.len()) {
            return Ok(bytes);
        }
        near.gather(layout)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::{Encoding, samples::Strides};

    /// Every byte of a gathered view is the one that indices lead to, in one go and in parts.
    #[test]
    fn any_view_is_gathered() {
        let mut rng = StdRng::seed_from_u64(5);
        for case in 0..400 {
            let encoding = Encoding::BYTE_ALIGNED[case % 4];
            let size = encoding.bytes();
            let whole = Extents {
                channels: rng.random_range(1..5),
                inputs: rng.random_range(1..6),
                times: rng.random_range(1..20),
            };
            // Axes in any order, with something between neighbours every other time.
            let mut order = [(0, whole.channels), (1, whole.inputs), (2, whole.times)];
            order.rotate_left(case % 3);
            if case % 2 == 0 {
                order.swap(0, 1);
            }
            let mut strides = [0; 3];
            let mut stride = size;
            for (axis, count) in order {
                stride += size * usize::from(rng.random_ratio(1, 3));
                strides[axis] = stride;
                stride *= count;
            }
            let [channel, input, time] = strides;
            let strides = Strides { channel, input, time };
            let bytes: Vec<u8> = (0..stride).map(|_| rng.random()).collect();
            let mut range = |count: usize| {
                let start = rng.random_range(0..count);
                start..rng.random_range(start + 1..=count)
            };
            let missing: Vec<Missing> = (0..case % 5)
                .map(|kind| Missing {
                    times: range(whole.times),
                    channels: if kind == 1 { 0..usize::MAX } else { range(whole.channels) },
                    inputs: if kind < 2 { 0..usize::MAX } else { range(whole.inputs) },
                })
                .collect();
            let cut = [range(whole.channels), range(whole.inputs), range(whole.times)];
            let view = Samples::strided(&bytes[..], encoding, whole, strides).unwrap();
            let view = view.missing(&missing);
            let view = view.times(cut[2].clone()).channels(cut[0].clone()).inputs(cut[1].clone());
            let chosen: Vec<usize> =
                (0..view.extents().times).filter(|_| rng.random_ratio(2, 3)).collect();
            for (layout, chosen) in Layout::ALL
                .into_iter()
                .flat_map(|layout| [(layout, None), (layout, Some(&chosen[..]))])
            {
                let times = chosen.map_or(view.extents().times, <[usize]>::len);
                let extents = Extents { times, ..view.extents() };
                let dense = Strides::dense(layout, extents, encoding.into());
                let mut expected = vec![0xee; view.bytes() / view.extents().times * times];
                for c in 0..extents.channels {
                    for n in 0..extents.inputs {
                        for t in 0..times {
                            let time = chosen.map_or(t, |chosen| chosen[t]) + cut[2].start;
                            let (channel, input) = (c + cut[0].start, n + cut[1].start);
                            let lost = missing.iter().any(|missing| {
                                missing.times.contains(&time)
                                    && missing.channels.contains(&channel)
                                    && missing.inputs.contains(&input)
                            });
                            let from = channel * strides.channel
                                + input * strides.input
                                + time * strides.time;
                            let to = c * dense.channel + n * dense.input + t * dense.time;
                            expected[to..to + size].copy_from_slice(if lost {
                                encoding.zero()
                            } else {
                                &bytes[from..from + size]
                            });
                        }
                    }
                }
                let gather = Gather::new(&view, layout, chosen);
                assert_eq!(gather.collect().unwrap(), expected, "case {case}, {layout}");
                let mut parts = vec![0; expected.len()];
                let step = size * rng.random_range(1..9);
                for (index, part) in parts.chunks_mut(step).enumerate() {
                    gather.fill(index * step, part);
                }
                assert_eq!(parts, expected, "case {case}, {layout}, in parts of {step}");
                // The same by copies of rows.
                if let Some(rows) = gather.rows(0) {
                    let Memory::Host(bytes) = view.memory() else { unreachable!() };
                    let mut copied = vec![0; expected.len()];
                    for rows in rows {
                        for row in 0..rows.count {
                            let (from, to) =
                                (rows.from + row * rows.from_pitch, rows.to + row * rows.to_pitch);
                            copied[to..to + rows.width]
                                .copy_from_slice(&bytes[from..from + rows.width]);
                        }
                    }
                    let (zero, zeros) = gather.zeros();
                    for zeros in zeros {
                        zeros.within(0, copied.len()).for_each(|range| copied[range].fill(zero));
                    }
                    assert_eq!(copied, expected, "case {case}, {layout}, by rows");
                }
            }
        }
    }

    #[test]
    fn views_beyond_memory_are_refused() {
        let extents = Extents { channels: 2, inputs: 3, times: 4 };
        let strides = Strides::dense(Layout::Tcn, extents, Encoding::Ci4.into());
        let refused = |bytes: usize, strides| {
            Samples::strided(&vec![0_u8; bytes][..], Encoding::Ci4, extents, strides)
                .unwrap_err()
                .to_string()
        };
        assert!(Samples::strided(&[0_u8; 24][..], Encoding::Ci4, extents, strides).is_ok());
        assert!(refused(23, strides).starts_with("23 bytes of samples: expected 24"));
        let far = Strides { time: usize::MAX, ..strides };
        assert!(refused(24, far).contains("more than can be addressed"));
    }
}
