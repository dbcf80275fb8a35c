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
    correlate::{
        backend::{Backend, Setup},
        baselines::baselines,
        gates::{DROP, Gates},
        split::plain,
        visibilities::{Visibilities, VisibilitiesMut},
    },
    device::{gpu::Gpu, host},
    error::{Error, Result},
    kernels::correlate::Kernel,
    layout::Layout,
    sample::Encoding,
    samples::{
        extents::{Extents, Memory},
        missing::Missing,
        shape::Shape,
        view::Samples,
    },
    tuning::Tuning,
};

/// Bytes of a word, and the times in it.
const WORD: usize = Encoding::B1.bytes();
const TIMES: usize = Encoding::B1.times();

/// Most bytes of `ci8` samples that words are made into at once.
const PIECE_BYTES: usize = 64 << 20;

/// The backend for whole words, and the one for the time samples of incomplete words.
pub(super) struct Bits {
    shape: Shape,
    kernel: Kernel,
    gates: usize,
    shifts: Vec<usize>,
    tuning: Option<Tuning>,
    gpus: Vec<Arc<dyn Gpu>>,
    /// Counts ones of words; none where inputs are delayed.
    words: Option<Box<dyn Backend>>,
    /// Multiplies times, once there was need of it.
    times: Option<Box<dyn Backend>>,
    /// Whether `times` has sums since the last dump.
    used: bool,
    /// Sums of `times`, before they are added to the others.
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

impl Bits {
    /// Reserves the visibilities of a plan on some GPUs, or on the CPU.
    pub(super) fn new(gpus: Vec<Arc<dyn Gpu>>, setup: &Setup<'_>) -> Result<Self> {
        let &Setup { shape, kernel, gates, shifts, tuning } = setup;
        let delays = shifts.iter().any(|&shift| shift > 0);
        let words = (!delays).then(|| plain(gpus.clone(), setup)).transpose()?;
        let mut bits = Self {
            shape: *shape,
            kernel,
            gates,
            shifts: shifts.to_vec(),
            tuning: tuning.cloned(),
            gpus,
            words,
            times: None,
            used: false,
            sums: Visibilities::default(),
        };
        if bits.words.is_none() {
            bits.times()?;
        }
        Ok(bits)
    }

    /// Backend of single time samples.
    fn times(&mut self) -> Result<&mut dyn Backend> {
        if self.times.is_none() {
            let shape = Shape { encoding: Encoding::Ci8, ..self.shape };
            let Self { kernel, gates, ref shifts, ref tuning, .. } = *self;
            let tuning = tuning.as_ref();
            let setup = Setup { shape: &shape, kernel, gates, shifts, tuning };
            self.times = Some(plain(self.gpus.clone(), &setup)?);
        }
        Ok(&mut **self.times.as_mut().expect("made above"))
    }

    /// The backend that says what the plan is.
    fn main(&self) -> &dyn Backend {
        let main = self.words.as_ref().or(self.times.as_ref());
        &**main.expect("a plan has one of them")
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
        if self.words.is_none() {
            return (vec![DROP; count], std::iter::once(0..count).collect());
        }
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

    /// Adds the products of the words `part`, a time sample at a time.
    fn add_times(
        &mut self,
        samples: &Samples<'_>,
        part: Range<usize>,
        gates: Option<Gates<'_>>,
    ) -> Result<()> {
        let word_bytes = 2 * TIMES * self.shape.inputs * self.shape.channels;
        let most = (PIECE_BYTES / word_bytes).max(1);
        let (gpus, encoding) = (self.gpus.clone(), self.shape.encoding);
        let held = samples.extents().times;
        let backend = self.times()?;
        for first in part.clone().step_by(most) {
            let times = first * TIMES..held.min(part.end.min(first + most) * TIMES);
            let piece = Unpacked::new(&samples.times(times.clone()), encoding, &gpus)?;
            backend.accumulate(&piece.view(), gates.map(|gates| gates.times(times)))?;
        }
        self.used = true;
        Ok(())
    }

    /// Adds the sums of `times` to those of `words`.
    fn add_sums(&mut self, gate: usize, to: &mut [Complex<i64>]) -> Result<()> {
        self.sums.make_room(&self.shape)?;
        let times = self.times.as_mut().expect("it was used");
        times.dump_into(gate, &mut self.sums)?;
        let sums = self.sums.integer().and_then(|sums| sums.as_slice());
        let sums = sums.expect("room for integers in standard order");
        to.par_iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
        Ok(())
    }
}

impl Backend for Bits {
    fn accumulate(&mut self, samples: &Samples<'_>, gates: Option<Gates<'_>>) -> Result<()> {
        let (numbers, parts) = self.divide(samples, gates);
        if let Some(words) = &mut self.words
            && numbers.iter().any(|&number| number != DROP)
        {
            let all = numbers.iter().all(|&number| number == 0);
            words.accumulate(&samples.words(), (!all).then_some((&numbers).into()))?;
        }
        parts.into_iter().try_for_each(|part| self.add_times(samples, part, gates))
    }

    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities) -> Result<()> {
        match (&mut self.words, &mut self.times) {
            (Some(words), _) => words.dump_into(gate, visibilities)?,
            (None, times) => {
                let times = times.as_mut().expect("a plan has one of them");
                return times.dump_into(gate, visibilities);
            }
        }
        if self.used
            && let super::visibilities::Room::Integer(room) = visibilities.room()
        {
            self.add_sums(gate, room)?;
        }
        Ok(())
    }

    fn dump_device(&mut self, room: &VisibilitiesMut<'_>) -> Result<()> {
        match (&mut self.words, &mut self.times) {
            (Some(words), _) => words.dump_device(room)?,
            (None, times) => {
                return times.as_mut().expect("a plan has one of them").dump_device(room);
            }
        }
        let VisibilitiesMut::Integer(room) = room else { return Ok(()) };
        if self.used {
            let gpu = room.read().owner(&self.gpus)?.clone();
            let (address, stream) = (room.read().address(), room.read().stream());
            let count = self.shape.channels * baselines(self.shape.inputs);
            let mut sums = host::zeros::<Complex<i64>>(count)?;
            for gate in 0..self.gates {
                let address = address + (16 * count * gate) as u64;
                // SAFETY: the room has been checked; the stream orders all work on it.
                unsafe {
                    gpu.download(stream, address, bytemuck::cast_slice_mut(&mut sums))?;
                    self.add_sums(gate, &mut sums)?;
                    gpu.upload(stream, address, bytemuck::cast_slice(&sums))?;
                }
            }
        }
        Ok(())
    }

    fn reset(&mut self) {
        self.used = false;
        self.words.iter_mut().chain(&mut self.times).for_each(|backend| backend.reset());
    }

    fn wait(&mut self) -> Result<()> {
        // Waits for the second backend even if the first fails.
        let mut waited = Ok(());
        for backend in self.words.iter_mut().chain(&mut self.times) {
            waited = waited.and(backend.wait());
        }
        waited
    }

    fn device_name(&self) -> &str {
        self.main().device_name()
    }

    fn kernel(&self) -> Kernel {
        self.main().kernel()
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
        let gathered = match samples.memory() {
            Memory::Host(_) => samples.gather(Layout::Cnt)?,
            Memory::Device(slice) => {
                let gpu = gpus.iter().find(|gpu| slice.check(gpu).is_ok()).ok_or_else(|| {
                    Error::invalid(format!(
                        "samples at device address {:#x}: expected them in the memory of the plan's GPU",
                        slice.address()
                    ))
                })?;
                samples.gather_from(gpu, Layout::Cnt)?
            }
        };
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
