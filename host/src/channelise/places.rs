//! First sample and phase of each spectrum of each input: delays and missing samples.

use std::{fmt, ops::Range, sync::Arc};

use corrust_gpu::abi::channelise::{MISSING, SpectrumStart};

use crate::{
    channelise::{delays::DelayModel, shape::Shape},
    device::host::filled,
    error::{Error, Result},
    samples::missing::Missing,
};

/// The most samples by which an input may be delayed or advanced.
pub const MAX_DELAY_SAMPLES: i64 = 1 << 28;

/// Delays of the inputs, and the parameters needed to apply them.
#[derive(Clone)]
pub(super) struct Delays {
    /// Seconds.
    pub model: Arc<dyn DelayModel>,
    /// `fs`, samples a second.
    pub rate: f64,
    /// `f0`: sky frequency of DC, hertz.
    pub sky: f64,
}

impl fmt::Debug for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delays").field("rate", &self.rate).field("sky", &self.sky).finish()
    }
}

/// Samples, gaps and delays known of an input's stream.
#[derive(Clone, Debug, Default)]
struct Input {
    /// Missing samples, ascending and disjoint, without those that no later spectrum touches.
    gaps: Vec<Range<i64>>,
    /// The first sample that later spectra may need.
    floor: i64,
}

impl Input {
    /// Advances past the spectrum that would begin at sample `start`, and has this place.
    fn advance(&mut self, place: Option<SpectrumStart>, start: i64) {
        // Without a delay, or where it leaps, samples are kept for as long as one may be.
        let first = place.map_or(i64::MIN, |place| place.first);
        let floor = first.max(start - MAX_DELAY_SAMPLES);
        self.floor = self.floor.max(floor.min(start + MAX_DELAY_SAMPLES));
    }
}

/// The spectra to come.
#[derive(Clone, Debug)]
pub(super) struct Places {
    shape: Shape,
    /// Samples that a spectrum's window begins with and whose weight is zero.
    lead: usize,
    delays: Option<Delays>,
    inputs: Vec<Input>,
    /// Samples of each input so far.
    total: u64,
    /// Number of the next spectrum.
    next: u64,
}

/// Spectra that are made at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    /// Number of the first.
    pub first: u64,
    pub count: usize,
    /// `D`.
    pub hop: usize,
    /// `[input][spectrum]`, samples counted from the stream's start; empty where inputs have no delays and
    /// nothing is missing.
    pub places: Vec<SpectrumStart>,
    /// Spectra of the batch that are missing.
    pub missing: Vec<Missing>,
    /// The first sample that spectra after these may be made of.
    pub keep: u64,
}

impl Batch {
    pub(super) fn place(&self, input: usize, spectrum: usize) -> SpectrumStart {
        let start = (self.first + spectrum as u64) * self.hop as u64;
        let undelayed = SpectrumStart { first: start as i64, phase: 0, slope: 0 };
        self.places.get(input * self.count + spectrum).copied().unwrap_or(undelayed)
    }
}

impl Places {
    /// Places for a prototype `h`, which a stream's start and its gaps touch where it is not zero.
    pub(super) fn new(shape: &Shape, prototype: &[f64], delays: Option<Delays>) -> Result<Self> {
        let lead = prototype.iter().take_while(|&&h| h == 0.0).count();
        let inputs = filled(Input::default(), shape.inputs)?;
        Ok(Self { shape: *shape, lead, delays, inputs, total: 0, next: 0 })
    }

    /// Samples of each input so far.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Number of the next spectrum.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Forgets the stream.
    pub(super) fn reset(&mut self) {
        self.inputs.fill(Input::default());
        (self.total, self.next) = (0, 0);
    }

    /// Forgets the stream and begins within another one, of which spectrum `number` comes next; the sample of
    /// it that is to be fed first.
    ///
    /// # Errors
    /// [`Error::Invalid`] for delays that are no numbers or too long.
    pub(super) fn begin_at(&mut self, number: u64) -> Result<u64> {
        self.reset();
        let hop = self.shape.hop as u64;
        let first = number.saturating_mul(hop);
        if first > i64::MAX as u64 / 2 {
            return Err(Error::invalid(format!(
                "spectrum {number}: expected one whose samples can be counted"
            )));
        }
        self.next = number;
        if let Some(delays) = self.delays.clone() {
            for index in 0..self.shape.inputs {
                // Spectra longer ago are made of samples before those of the one before this.
                let longest = (delays.model.longest(index) * delays.rate).ceil() + 1.0;
                let longest = longest.min(MAX_DELAY_SAMPLES as f64) as u64;
                let reach = 1 + (2 * longest).div_ceil(hop);
                for earlier in number.saturating_sub(reach)..number {
                    let start = (earlier * hop) as i64;
                    let place = self.turned(&delays, index, start)?;
                    self.inputs[index].advance(place, start);
                }
            }
        }
        self.total = u64::MAX;
        self.total = self.first_needed()?;
        Ok(self.total)
    }

    /// The spectra that `times` more samples complete, of which `gaps` are missing; all that begin within the
    /// samples if the stream `ends` there.
    ///
    /// # Errors
    /// [`Error::Invalid`] for delays that are no numbers or too long.
    pub(super) fn advance(
        &mut self,
        times: usize,
        gaps: impl Iterator<Item = Missing>,
        ends: bool,
    ) -> Result<Batch> {
        let start = self.total as i64;
        let mut of_inputs: Vec<Vec<Range<i64>>> = vec![Vec::new(); self.shape.inputs];
        for gap in gaps {
            let times = start + gap.times.start as i64..start + gap.times.end as i64;
            gap.inputs.for_each(|input| of_inputs[input].push(times.clone()));
        }
        for (input, mut gaps) in self.inputs.iter_mut().zip(of_inputs) {
            gaps.sort_by_key(|gap| gap.start);
            for gap in gaps {
                match input.gaps.last_mut() {
                    Some(last) if gap.start <= last.end => last.end = last.end.max(gap.end),
                    _ => input.gaps.push(gap),
                }
            }
        }
        self.total += times as u64;

        let first = self.next;
        let mut batch = Batch { first, hop: self.shape.hop, ..Batch::default() };
        // The number of samples bounds the spectra; delays may ask for later samples.
        let most = self.shape.spectra(self.total).saturating_sub(first) as usize;
        if self.delays.is_none() && self.inputs.iter().all(|input| input.gaps.is_empty()) {
            batch.count = most;
            self.next += most as u64;
            batch.keep = self.first_needed()?;
            return Ok(batch);
        }
        // `[spectrum][input]`.
        let mut rows = Vec::new();
        while batch.count < most && self.row(first + batch.count as u64, ends, &mut rows)? {
            batch.count += 1;
        }
        self.next += batch.count as u64;
        batch.places = Vec::with_capacity(rows.len());
        for input in 0..self.shape.inputs {
            batch.places.extend(rows.iter().skip(input).step_by(self.shape.inputs));
        }
        batch.missing = missing(&batch);
        batch.keep = self.first_needed()?;
        Ok(batch)
    }

    /// The first sample that spectra to come may be made of; gaps before it are forgotten.
    fn first_needed(&mut self) -> Result<u64> {
        let next = self.next;
        let mut keep = self.total;
        for index in 0..self.shape.inputs {
            let floor = match &self.delays {
                Some(_) => self.inputs[index].floor,
                None => (next * self.shape.hop as u64) as i64,
            };
            let input = &mut self.inputs[index];
            input.gaps.retain(|gap| gap.end > floor);
            keep = keep.min(floor.max(0) as u64);
        }
        Ok(keep)
    }

    /// Appends the places of a spectrum, unless samples of it are still to come.
    fn row(&mut self, number: u64, ends: bool, rows: &mut Vec<SpectrumStart>) -> Result<bool> {
        let begin = rows.len();
        let window = self.shape.window() as i64;
        let start = (number * self.shape.hop as u64) as i64;
        let total = self.total as i64;
        for index in 0..self.shape.inputs {
            let place = match &self.delays {
                None => Some(SpectrumStart { first: start, phase: 0, slope: 0 }),
                Some(delays) => self.turned(delays, index, start)?,
            };
            let input = &self.inputs[index];
            let whole = place.filter(|place| place.first >= input.floor.max(0));
            if let Some(place) = whole
                && place.first + window > total
                && !ends
            {
                rows.truncate(begin);
                return Ok(false);
            }
            let there = whole.filter(|place| {
                let range = place.first + self.lead as i64..place.first + window;
                let later = input.gaps.partition_point(|gap| gap.end <= range.start);
                range.end <= total && input.gaps.get(later).is_none_or(|gap| gap.start >= range.end)
            });
            rows.push(there.unwrap_or(SpectrumStart { first: MISSING, phase: 0, slope: 0 }));
            if self.delays.is_some() {
                self.inputs[index].advance(place, start);
            }
        }
        Ok(true)
    }

    /// The place of the spectrum of an input that would begin at sample `start`, if its delay is known.
    fn turned(&self, delays: &Delays, input: usize, start: i64) -> Result<Option<SpectrumStart>> {
        let residues = self.shape.residues() as f64;
        let seconds = (start as f64 + self.shape.window() as f64 / 2.0) / delays.rate;
        let Some(delay) = delays.model.delay(input, seconds) else { return Ok(None) };
        let samples = delay * delays.rate;
        let whole = samples.round();
        if whole.is_nan() || whole.abs() > MAX_DELAY_SAMPLES as f64 {
            return Err(Error::invalid(format!(
                "a delay of {delay} s of input {input} at {seconds} s: expected at most \
                 {MAX_DELAY_SAMPLES} samples of it"
            )));
        }
        let slope = fixed((whole - samples) / residues);
        let phase = fixed(-(delays.sky * delay));
        Ok(Some(SpectrumStart { first: start - whole as i64, phase, slope }))
    }
}

/// Turns, less whole ones, in units of `2^-64`.
fn fixed(turns: f64) -> u64 {
    // 2^64 as an f64; what is left is below 1, so that the product is in range, and exact.
    let part = turns - turns.floor();
    (part * 18_446_744_073_709_551_616.0) as u128 as u64
}

/// The ranges of missing spectra.
fn missing(batch: &Batch) -> Vec<Missing> {
    let mut found: Vec<Missing> = Vec::new();
    if batch.count == 0 {
        return found;
    }
    // Gaps that reach the input before.
    let mut open: Vec<usize> = Vec::new();
    for (input, places) in batch.places.chunks_exact(batch.count).enumerate() {
        let mut reached = Vec::new();
        let mut time = 0;
        for run in places.chunk_by(|a, b| (a.first == MISSING) == (b.first == MISSING)) {
            let times = time..time + run.len();
            time = times.end;
            if run[0].first != MISSING {
                continue;
            }
            match open.iter().find(|&&gap| found[gap].times == times) {
                Some(&gap) => {
                    found[gap].inputs.end += 1;
                    reached.push(gap);
                }
                None => {
                    reached.push(found.len());
                    found.push(Missing::times(times).of_inputs(input..input + 1));
                }
            }
        }
        open = reached;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_fixed_point() {
        assert_eq!(fixed(0.25), 1 << 62);
        assert_eq!(fixed(-0.25), 3 << 62);
        assert_eq!(fixed(1e9 + 0.5), 1 << 63);
        assert_eq!(fixed(-1e-30), 0);
        assert_eq!(fixed(0.0), 0);
    }

    #[test]
    fn equal_gaps_of_neighbours_are_one() {
        let place = |first| SpectrumStart { first, phase: 0, slope: 0 };
        let (here, gone) = (place(0), place(MISSING));
        let batch = Batch {
            count: 3,
            places: vec![gone, here, gone, gone, here, gone, here, here, gone, gone, here, gone],
            ..Batch::default()
        };
        let mut found: Vec<_> =
            missing(&batch).into_iter().map(|gap| (gap.times, gap.inputs)).collect();
        found.sort_by_key(|(times, inputs)| (inputs.start, times.start));
        assert_eq!(found, [(0..1, 0..2), (2..3, 0..4), (0..1, 3..4)]);
    }
}
