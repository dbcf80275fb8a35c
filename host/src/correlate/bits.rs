//! Correlation of bits, 128 times in a word.
//!
//! With `a` and `b` the bits of two inputs, components +-1 as 1 and 0, and `a*` their real parts complemented in
//! the place of the imaginary ones, which take the place of the real ones, backends count ones:
//!
//! ```text
//! re S(i, j) = sum_t ones(a & b)      im S(i, j) = sum_t ones(a* & b)
//! ```
//!
//! [`widen_ones`] makes visibilities of them: nothing else is needed, for an input's own ones are its
//! autocorrelation. Samples of two bits are two planes, each correlated with all as if it were an input.
//!
//! Words are multiplied as such where they are whole, of one gate, and no input misses them. Bits have no zero:
//! all others become `ci8` first, which has one, and go another way. So do all of a plan that delays inputs,
//! for the words of inputs that are delayed apart do not begin together.

use std::{ops::Range, sync::Arc};

use num_complex::Complex;
use rayon::prelude::*;

use crate::{
    backend::Placed,
    correlate::{
        backend::{Backend, Setup},
        baselines::baselines,
        gates::{DROP, Gates},
        split::plain,
        visibilities::{Room, Visibilities, VisibilitiesMut},
    },
    device::{gpu::Gpu, host},
    error::Result,
    kernels::correlate::Kernel,
    layout::Layout,
    sample::Encoding,
    samples::{extents::Extents, missing::Missing, shape::Shape, view::Samples},
    tuning::Tuning,
};

/// Bytes of a word, and the times in it.
const WORD: usize = Encoding::B1.bytes();
const TIMES: usize = Encoding::B1.times();

/// Most bytes of `ci8` samples that words are made into at once.
const PIECE_BYTES: usize = 64 << 20;

/// The backend of a plan of bits on some GPUs, or on the CPU where there is none.
pub(super) fn backend(
    gpus: &[Arc<dyn Gpu>],
    setup: &Setup<'_>,
) -> Result<Placed<dyn Backend, Kernel>> {
    if setup.shifts.iter().any(|&shift| shift > 0) {
        return Ok(Times::new(gpus, setup)?.map::<dyn Backend>(|times| times));
    }
    let &Setup { shape, kernel, gates, tuning, .. } = setup;
    let whole = |words| {
        let (shape, tuning, gpus) = (*shape, tuning.cloned(), gpus.to_vec());
        Box::new(Words { shape, kernel, gates, tuning, gpus, words, times: None })
    };
    Ok(plain(gpus, setup)?.map::<dyn Backend>(|words| whole(words)))
}

/// The backend of whole words, and that of the times of other words.
struct Words {
    shape: Shape,
    kernel: Kernel,
    gates: usize,
    tuning: Option<Tuning>,
    gpus: Vec<Arc<dyn Gpu>>,
    /// Counts ones.
    words: Box<dyn Backend>,
    /// Made once there is need of it.
    times: Option<Placed<Times, Kernel>>,
}

/// A backend of words all of whose times are multiplied by themselves, as `ci8`.
struct Times {
    /// Shape of the words.
    shape: Shape,
    gpus: Vec<Arc<dyn Gpu>>,
    backend: Box<dyn Backend>,
    /// Whether there are sums since the last dump.
    used: bool,
    /// Sums, before they are added to those of words.
    sums: Visibilities,
}

/// Way in which a word is multiplied.
#[derive(Clone, Copy, PartialEq)]
enum Word {
    /// All of it is there.
    Whole,
    /// Nothing of it is there.
    Lost,
    /// Something is missing.
    Part,
}

impl Words {
    /// Backend of times.
    fn times(&mut self) -> Result<&mut Times> {
        if self.times.is_none() {
            let Self { ref shape, kernel, gates, ref tuning, .. } = *self;
            let setup = Setup { shape, kernel, gates, shifts: &[], tuning: tuning.as_ref() };
            self.times = Some(Times::new(&self.gpus, &setup)?);
        }
        Ok(self.times.as_mut().expect("made above"))
    }

    /// Gate of each word that can be multiplied as such, [`DROP`] of all others, and ranges of words that are
    /// multiplied a time sample at a time.
    fn divide(
        &self,
        samples: &Samples<'_>,
        gates: Option<Gates<'_>>,
    ) -> (Vec<u8>, Vec<Range<usize>>) {
        let held = samples.extents().times;
        let count = held.div_ceil(TIMES);
        let (mut numbers, mut parts) = (Vec::with_capacity(count), Vec::<Range<usize>>::new());
        for (word, state) in states(samples, count).into_iter().enumerate() {
            let times = word * TIMES..held.min((word + 1) * TIMES);
            let one = |gates: Gates<'_>| gates.one(times.clone(), self.shape.channels);
            let (number, part) = match (gates.map_or(Some(0), one), state) {
                (Some(DROP), _) | (_, Word::Lost) => (DROP, false),
                (Some(gate), Word::Whole) if times.len() == TIMES => (gate, false),
                _ => (DROP, true),
            };
            numbers.push(number);
            match parts.last_mut() {
                _ if !part => {}
                Some(last) if last.end == word => last.end = word + 1,
                _ => parts.push(word..word + 1),
            }
        }
        (numbers, parts)
    }
}

impl Times {
    /// Reserves the visibilities of a plan.
    fn new(gpus: &[Arc<dyn Gpu>], setup: &Setup<'_>) -> Result<Placed<Self, Kernel>> {
        let shape = Shape { encoding: Encoding::Ci8, ..*setup.shape };
        let sums = Visibilities::default();
        let of_times =
            |backend| Self { shape: *setup.shape, gpus: gpus.to_vec(), backend, used: false, sums };
        let backend = plain(gpus, &Setup { shape: &shape, ..*setup })?;
        Ok(backend.map(|backend| Box::new(of_times(backend))))
    }

    /// Adds the products of the words `part`.
    fn add(
        &mut self,
        samples: &Samples<'_>,
        part: Range<usize>,
        gates: Option<Gates<'_>>,
    ) -> Result<()> {
        let word_bytes = 2 * TIMES * self.shape.inputs * self.shape.channels;
        let most = (PIECE_BYTES / word_bytes).max(1);
        let held = samples.extents().times;
        for first in part.clone().step_by(most) {
            let times = first * TIMES..held.min(part.end.min(first + most) * TIMES);
            let piece = samples.times(times.clone());
            let piece = Unpacked::new(&piece, self.shape.encoding, &self.gpus)?;
            self.backend.accumulate(&piece.view(), gates.map(|gates| gates.times(times)))?;
        }
        self.used = true;
        Ok(())
    }

    /// Adds the sums of a gate to those of words.
    fn add_sums(&mut self, gate: usize, to: &mut [Complex<i64>]) -> Result<()> {
        self.sums.make_room(&self.shape)?;
        self.backend.dump_into(gate, &mut self.sums)?;
        let sums = self.sums.integer().and_then(|sums| sums.as_slice());
        let sums = sums.expect("room for integers in standard order");
        to.par_iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
        Ok(())
    }
}

impl Backend for Words {
    fn accumulate(&mut self, samples: &Samples<'_>, gates: Option<Gates<'_>>) -> Result<()> {
        let (numbers, parts) = self.divide(samples, gates);
        if numbers.iter().any(|&number| number != DROP) {
            let all = numbers.iter().all(|&number| number == 0);
            self.words.accumulate(&samples.words(), (!all).then_some((&numbers).into()))?;
        }
        parts.into_iter().try_for_each(|part| self.times()?.add(samples, part, gates))
    }

    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities) -> Result<()> {
        self.words.dump_into(gate, visibilities)?;
        if let Some(times) = self.times.as_mut().filter(|times| times.used)
            && let Room::Integer(room) = visibilities.room()
        {
            times.add_sums(gate, room)?;
        }
        Ok(())
    }

    fn dump_device(&mut self, room: &VisibilitiesMut<'_>) -> Result<()> {
        self.words.dump_device(room)?;
        let VisibilitiesMut::Integer(room) = room else { return Ok(()) };
        if let Some(times) = self.times.as_mut().filter(|times| times.used) {
            let gpu = room.read().owner(&self.gpus)?.clone();
            let (address, stream) = (room.read().address(), room.read().stream());
            let count = self.shape.channels * baselines(self.shape.inputs);
            let mut sums = host::zeros::<Complex<i64>>(count)?;
            for gate in 0..self.gates {
                let address = address + (16 * count * gate) as u64;
                // SAFETY: the room has been checked; the stream orders all work on it.
                unsafe {
                    gpu.download(stream, address, bytemuck::cast_slice_mut(&mut sums))?;
                    times.add_sums(gate, &mut sums)?;
                    gpu.upload(stream, address, bytemuck::cast_slice(&sums))?;
                }
            }
        }
        Ok(())
    }

    fn reset(&mut self) {
        self.words.reset();
        self.times.iter_mut().for_each(|times| times.reset());
    }

    fn wait(&mut self) -> Result<()> {
        // Waits for the second backend even if the first fails.
        let waited = self.words.wait();
        waited.and(self.times.as_mut().map_or(Ok(()), |times| times.wait()))
    }
}

impl Backend for Times {
    fn accumulate(&mut self, samples: &Samples<'_>, gates: Option<Gates<'_>>) -> Result<()> {
        self.add(samples, 0..samples.extents().times.div_ceil(TIMES), gates)
    }

    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities) -> Result<()> {
        self.backend.dump_into(gate, visibilities)
    }

    fn dump_device(&mut self, room: &VisibilitiesMut<'_>) -> Result<()> {
        self.backend.dump_device(room)
    }

    fn reset(&mut self) {
        self.used = false;
        self.backend.reset();
    }

    fn wait(&mut self) -> Result<()> {
        self.backend.wait()
    }
}

fn states(samples: &Samples<'_>, count: usize) -> Vec<Word> {
    let mut states = vec![Word::Whole; count];
    let Extents { channels, inputs, times } = samples.extents();
    for gap in samples.gaps() {
        let all = gap.channels == (0..channels) && gap.inputs == (0..inputs);
        let words = gap.times.start / TIMES..gap.times.end.div_ceil(TIMES);
        for (word, state) in words.clone().zip(&mut states[words]) {
            let whole =
                gap.times.start <= word * TIMES && gap.times.end >= times.min((word + 1) * TIMES);
            match all && whole {
                true => *state = Word::Lost,
                false if *state == Word::Whole => *state = Word::Part,
                false => {}
            }
        }
    }
    states
}

/// Words as `ci8` samples.
struct Unpacked {
    bytes: Vec<u8>,
    extents: Extents,
    missing: Vec<Missing>,
}

impl Unpacked {
    /// Makes samples of the words of an encoding.
    fn new(samples: &Samples<'_>, encoding: Encoding, gpus: &[Arc<dyn Gpu>]) -> Result<Self> {
        let Extents { channels, inputs, times: held } = samples.extents();
        let (times, planes) = (held.div_ceil(TIMES), encoding.planes());
        let gathered = samples.gather_anywhere(gpus, Layout::Cnt)?;
        let mut bytes = host::zeros::<u8>(channels * inputs * times * 2 * TIMES)?;
        bytes.par_chunks_exact_mut(2 * TIMES).enumerate().with_min_len(256).for_each(
            |(index, samples)| {
                let (input, word) = (index / times, index % times);
                for plane in 0..planes {
                    let word =
                        &gathered[((input * planes + plane) * times + word) * WORD..][..WORD];
                    for (time, sample) in samples.chunks_exact_mut(2).enumerate() {
                        for (part, sample) in sample.iter_mut().enumerate() {
                            let bit = word[16 * part + time / 8] >> (time % 8) & 1;
                            // The first plane counts twice.
                            let value = (2 * bit).wrapping_sub(1);
                            *sample = sample.wrapping_mul(2).wrapping_add(value);
                        }
                    }
                }
            },
        );
        let missing = samples.gaps().collect();
        Ok(Self { bytes, extents: samples.extents(), missing })
    }

    /// The times that the words hold.
    fn view(&self) -> Samples<'_> {
        let Self { bytes, extents, missing } = self;
        let whole = Extents { times: extents.times.next_multiple_of(TIMES), ..*extents };
        let samples = Samples::dense(bytes[..].into(), Encoding::Ci8.into(), Layout::Cnt, whole);
        samples.times(0..extents.times).missing(missing)
    }
}
