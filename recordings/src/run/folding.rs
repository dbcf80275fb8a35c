//! Gates of a periodic signal: pulsars, and calibrators that are switched.
//!
//! Time `t` of channel `c` has the phase, in turns,
//!
//! ```text
//! phi(t, c) = Phi(start + (t + 1/2) interval - tau_c)
//! tau_c     = K DM (f_c^-2 - f_ref^-2),     K = 4.148808e3 s MHz^2 cm^3 / pc
//! gate      = floor(B frac(phi))
//! ```
//!
//! where `Phi` is a count of periods since an epoch, or TEMPO's polynomials. A sample is in the gate that its middle is
//! in.
//!
//! Phases are computed in f64 and kept in 64-bit fixed point: `Phi` at the first time of stretches of [`STRETCH`]
//! seconds, which are counted from time 0, and from there by the frequency in the stretch's middle. They do not depend
//! on how a stream is cut, nor on the device.
//!
//! Source: Klages et al., "GPU Kernels for High-Speed 4-Bit Astrophysical Data Processing", section V (gating on periodic
//! signals); K: Lorimer and Kramer, "Handbook of Pulsar Astronomy" (2005), section 4.1.1. TEMPO has 1 / 2.41e-4 =
//! 4.149378e3 in its place, 1.4e-4 more.

use jiff::Timestamp;
use rayon::prelude::*;

use corrust_host::{
    Error, Result,
    correlate::{DROP, Gates},
};

use crate::{array::tai::leap_seconds, formats::polyco::Polyco};

/// Seconds of delay at 1 MHz, against infinite frequency, for each pc / cm^3 of dispersion measure.
pub const DISPERSION: f64 = 4.148808e3;

/// Most dispersion measure, pc / cm^3: far more than of any source that is known.
pub const MOST_DISPERSION: f64 = 1e5;

/// Longest delay by dispersion in seconds: phases are right to 1e-9 s.
pub const LONGEST_DELAY: f64 = 1e7;

/// Most seconds of a stretch. In its middle a phase is wrong by 1/8 of the change of frequency, in hertz a second, times
/// its square: 1e-10 turns of a pulsar of 700 Hz that Earth moves, 1e-6 in close binaries.
const STRETCH: f64 = 0.1;

/// Most times of a stretch.
const STRETCH_TIMES: u64 = 1 << 16;

/// Gate numbers of the times and channels of a stream, from the phase of a periodic signal.
///
/// ```
/// use corrust_recordings::run::Folding;
///
/// // Four times a period, and a delay of two of them from the first channel to the second.
/// let (dm, low) = (10.0, 1e8);
/// let delay = 4.148808e3 * dm / 1e2_f64.powi(2);
/// let folding = Folding::period(2.0 * delay, 4, delay / 2.0)?.dispersed(dm, &[1e15, low], f64::INFINITY)?;
/// let mut numbers = Vec::new();
/// folding.fill(0, 5, &mut numbers)?;
/// assert_eq!(numbers, [0, 1, 2, 3, 0, /* second channel */ 2, 3, 0, 1, 2]);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Folding {
    bins: usize,
    /// Seconds from one time to the next.
    interval: f64,
    /// Times of a stretch.
    stretch: u64,
    phases: Phases,
    /// Seconds by which each channel is late; none where all are alike.
    delays: Vec<f64>,
}

/// `Phi`.
#[derive(Clone, Debug)]
enum Phases {
    /// Seconds of a period, and from the start of a period to time 0.
    Period { seconds: f64, since: f64 },
    /// Polynomials, and the moment of time 0.
    Polyco { polyco: Polyco, start: Timestamp },
    /// Numbers of times, over and over.
    Cycle(Vec<u8>),
}

impl Folding {
    /// `bins` gates of a period of `period` seconds that begins with time 0; times are `interval` seconds apart.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a number of gates outside 1..=255, seconds that are not positive and finite, or a period below
    /// the interval.
    pub fn period(period: f64, bins: usize, interval: f64) -> Result<Self> {
        positive("a period", period)?;
        positive("from one time to the next", interval)?;
        if period < interval {
            return Err(Error::invalid(format!(
                "{period} s a period: expected at least the {interval} s from one time to the next"
            )));
        }
        Self::of(Phases::Period { seconds: period, since: 0.0 }, bins, interval)
    }

    /// `bins` gates of the phases that TEMPO predicts; time 0 begins at `start`.
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`period`](Self::period).
    pub fn polyco(polyco: Polyco, bins: usize, start: Timestamp, interval: f64) -> Result<Self> {
        let fastest = polyco.fastest();
        if fastest * interval > 1.0 {
            return Err(Error::invalid(format!(
                "a polyco of {fastest} Hz: expected periods of at least the {interval} s from one time to the next"
            )));
        }
        Self::of(Phases::Polyco { polyco, start }, bins, interval)
    }

    /// Gate numbers of consecutive times from time 0 on, or [`DROP`], which are repeated for ever.
    ///
    /// # Errors
    /// [`Error::Invalid`] when no number names a gate.
    pub fn cycle(numbers: Vec<u8>) -> Result<Self> {
        let largest = numbers.iter().copied().filter(|&number| number != DROP).max();
        let Some(largest) = largest else {
            return Err(Error::invalid(format!(
                "{} gate numbers to be repeated: expected one below {DROP}",
                numbers.len()
            )));
        };
        let bins = usize::from(largest) + 1;
        Ok(Self {
            bins,
            interval: 1.0,
            stretch: 1,
            phases: Phases::Cycle(numbers),
            delays: Vec::new(),
        })
    }

    fn of(phases: Phases, bins: usize, interval: f64) -> Result<Self> {
        positive("from one time to the next", interval)?;
        if !(1..=usize::from(DROP)).contains(&bins) {
            return Err(Error::invalid(format!("{bins} gates of a period: expected 1 to {DROP}")));
        }
        let stretch = ((STRETCH / interval) as u64).clamp(1, STRETCH_TIMES);
        Ok(Self { bins, interval, stretch, phases, delays: Vec::new() })
    }

    /// A period begins at `epoch`, and time 0 at `start`; leap seconds between them count. Changes nothing of polynomials, whose file says both.
    #[must_use]
    pub fn epoch(mut self, start: Timestamp, epoch: Timestamp) -> Self {
        if let Phases::Period { seconds, since } = &mut self.phases {
            let (whole, rest) = seconds_between(epoch, start);
            let whole = whole + leap_seconds(start) - leap_seconds(epoch);
            // Exact, however long ago the epoch was.
            *since = whole as f64 % *seconds + rest;
        }
        self
    }

    /// Channels are late by the dispersion of `measure` pc / cm^3, against the frequency `reference`, infinite or in
    /// hertz, as `channels` are. For a polyco's reference see [`Polyco::frequency`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for a measure beyond +-10^5 pc / cm^3, frequencies that are not positive, or delays of more than
    /// 10^7 s.
    pub fn dispersed(mut self, measure: f64, channels: &[f64], reference: f64) -> Result<Self> {
        if !(-MOST_DISPERSION..=MOST_DISPERSION).contains(&measure) {
            return Err(Error::invalid(format!(
                "a dispersion measure of {measure:e} pc / cm^3: expected {} to {MOST_DISPERSION}",
                -MOST_DISPERSION
            )));
        }
        let delay = |frequency: f64| {
            let megahertz = frequency / 1e6;
            let seconds = DISPERSION * measure / (megahertz * megahertz);
            match megahertz > 0.0 {
                true if seconds.abs() > LONGEST_DELAY => Err(Error::invalid(format!(
                    "a delay of {seconds} s by a dispersion measure of {measure} at {frequency} Hz: expected at most \
                     {LONGEST_DELAY} s"
                ))),
                true => Ok(seconds),
                false => Err(Error::invalid(format!(
                    "a frequency of {frequency} Hz: expected a positive one, as dispersion depends on it"
                ))),
            }
        };
        let of_reference = delay(reference)?;
        let delays = channels.iter().map(|&frequency| Ok(delay(frequency)? - of_reference));
        self.delays = if measure == 0.0 { Vec::new() } else { delays.collect::<Result<_>>()? };
        Ok(self)
    }

    /// Number of gates.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// Channels whose gates may differ; none where all are alike.
    pub fn channels(&self) -> Option<usize> {
        (!self.delays.is_empty()).then_some(self.delays.len())
    }

    /// Checks that the phases of all times from `first` to before `end` are predicted, as far as their first and last
    /// tell.
    ///
    /// # Errors
    /// [`Error::File`] when the polynomials are of other times.
    pub fn check(&self, first: u64, end: u64) -> Result<()> {
        if matches!(self.phases, Phases::Cycle(_)) {
            return Ok(());
        }
        for &delay in self.delays.iter().chain(self.delays.is_empty().then_some(&0.0)) {
            for time in [first, end.saturating_sub(1)] {
                self.at(time / self.stretch * self.stretch, delay)?;
            }
        }
        Ok(())
    }

    /// Fills `numbers` with the gates of `times` times from time `first` on: one for each time, or `[channel][time]`
    /// where channels differ. [`gates`](Self::gates) makes of them what a plan takes.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    pub fn fill(&self, first: u64, times: usize, numbers: &mut Vec<u8>) -> Result<()> {
        numbers.clear();
        numbers.resize(self.delays.len().max(1) * times, 0);
        if times == 0 {
            return Ok(());
        }
        if let Phases::Cycle(cycle) = &self.phases {
            let from = (first % cycle.len() as u64) as usize;
            let again = cycle[from..].iter().chain(cycle.iter().cycle());
            numbers.iter_mut().zip(again).for_each(|(number, known)| *number = *known);
            return Ok(());
        }
        let rows = numbers.par_chunks_exact_mut(times).enumerate();
        rows.try_for_each(|(channel, row)| {
            let delay = self.delays.get(channel).copied().unwrap_or(0.0);
            let (mut time, end) = (first, first + times as u64);
            let mut row = row.iter_mut();
            while time < end {
                let start = time / self.stretch * self.stretch;
                let (phase, step) = self.at(start, delay)?;
                let last = end.min(start.saturating_add(self.stretch));
                let mut phase = phase.wrapping_add(step.wrapping_mul(time - start));
                for number in row.by_ref().take((last - time) as usize) {
                    *number = ((u128::from(phase) * self.bins as u128) >> 64) as u8;
                    phase = phase.wrapping_add(step);
                }
                time = last;
            }
            Ok(())
        })
    }

    /// Numbers that [`fill`](Self::fill) gave, as a plan takes them.
    ///
    /// # Errors
    /// As for [`Gates::by_channel`].
    pub fn gates<'a>(&self, numbers: &'a [u8]) -> Result<Gates<'a>> {
        match self.channels() {
            Some(channels) => Gates::by_channel(numbers, channels),
            None => Ok(numbers.into()),
        }
    }

    /// The phase of the middle of a time, and the turns to the next time's, as fractions of 2^64.
    fn at(&self, time: u64, delay: f64) -> Result<(u64, u64)> {
        let after = |times: f64| (time as f64 + times) * self.interval - delay;
        let (phase, frequency) = match &self.phases {
            Phases::Period { seconds, since } => {
                ((since + after(0.5)).rem_euclid(*seconds) / seconds, seconds.recip())
            }
            Phases::Polyco { polyco, start } => {
                let phase = polyco.at(*start, after(0.5))?.phase;
                (phase, polyco.at(*start, after(self.stretch as f64 / 2.0))?.frequency)
            }
            Phases::Cycle(_) => (0.0, 0.0),
        };
        let fixed = |turns: f64| (turns.rem_euclid(1.0) * 2_f64.powi(64)) as u64;
        Ok((fixed(phase), fixed(frequency * self.interval)))
    }
}

/// Whole seconds from one moment to another without leap seconds, and the rest.
pub(crate) fn seconds_between(from: Timestamp, to: Timestamp) -> (i64, f64) {
    let rest = to.subsec_nanosecond() - from.subsec_nanosecond();
    (to.as_second() - from.as_second(), f64::from(rest) / 1e9)
}

fn positive(what: &str, seconds: f64) -> Result<()> {
    if seconds > 0.0 && seconds.is_normal() {
        return Ok(());
    }
    Err(Error::invalid(format!("{seconds} s {what}: expected a positive number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers by way of exact rational arithmetic: seconds in units of 2^-40.
    #[test]
    fn periods_are_those_of_whole_numbers() {
        let unit = 2_f64.powi(-40);
        for (period, interval, bins) in
            [(1_u128 << 35, 1 << 20, 32), (36_713_245_901, 2_814_749, 255), (1999, 1000, 7)]
        {
            let folding =
                Folding::period(period as f64 * unit, bins, interval as f64 * unit).unwrap();
            let (first, times) = (123_456_789_u64, 20_000);
            let mut numbers = Vec::new();
            folding.fill(first, times, &mut numbers).unwrap();
            let mut close = 0;
            for (k, &number) in numbers.iter().enumerate() {
                // Twice as many units, for the middle of a sample.
                let twice = (2 * (u128::from(first) + k as u128) + 1) * interval as u128;
                let within = twice % (2 * period) * bins as u128;
                let expected = within / (2 * period);
                // Phases are right to 1e-6 turns.
                let edge = (within % (2 * period)) as f64 / (2 * period) as f64 / bins as f64;
                if edge > 1e-6 && edge < 1.0 / bins as f64 - 1e-6 {
                    assert_eq!(u128::from(number), expected, "{period} {interval} {bins}: {k}");
                } else {
                    close += 1;
                }
            }
            assert!(close < times / 10, "{close} are close to an edge");
        }
    }

    #[test]
    fn numbers_do_not_depend_on_the_cuts() {
        let frequencies: Vec<f64> = (0..5).map(|channel| 4e8 + 1e7 * f64::from(channel)).collect();
        let folding = Folding::period(1.5578e-3, 16, 2.56e-6).unwrap();
        let folding = folding.dispersed(71.02, &frequencies, f64::INFINITY).unwrap();
        let (mut whole, mut part) = (Vec::new(), Vec::new());
        let times = 200_000;
        folding.fill(7, times, &mut whole).unwrap();
        for cut in [0..1, 1..40_000, 40_000..40_001, 40_001..times] {
            folding.fill(7 + cut.start as u64, cut.len(), &mut part).unwrap();
            for channel in 0..5 {
                let found = &part[channel * cut.len()..][..cut.len()];
                assert!(found == &whole[channel * times..][cut.clone()], "{cut:?}, {channel}");
            }
        }
        // Each gate has as many times as others, and each channel is as late as the formula says.
        for gate in 0..16 {
            let count = whole[..times].iter().filter(|&&number| number == gate).count();
            assert!(count.abs_diff(times / 16) < times / 100, "gate {gate}: {count}");
        }
        let phase = |channel: usize| {
            let delay = 4.148808e3 * 71.02 / (frequencies[channel] / 1e6).powi(2);
            (7.5 * 2.56e-6 - delay).rem_euclid(1.5578e-3) / 1.5578e-3 * 16.0
        };
        let first: Vec<u8> = (0..5).map(|channel| phase(channel) as u8).collect();
        assert_eq!((0..5).map(|channel| whole[channel * times]).collect::<Vec<_>>(), first);
    }

    #[test]
    fn an_epoch_shifts_phases_and_nonsense_is_refused() {
        let moment = |text: &str| crate::array::time::moment(text).unwrap();
        let folding = Folding::period(1.0, 4, 0.25).unwrap();
        let mut numbers = Vec::new();
        let later = folding.clone().epoch(moment("2026-01-01T00:00:00.5"), moment("1990-01-01"));
        later.fill(0, 4, &mut numbers).unwrap();
        assert_eq!(numbers, [2, 3, 0, 1]);
        let earlier = folding.clone().epoch(moment("2026-01-01"), moment("2026-01-01T00:00:00.25"));
        earlier.fill(0, 4, &mut numbers).unwrap();
        assert_eq!(numbers, [3, 0, 1, 2]);
        // A leap second at the end of 2016, and another at the end of June 2015.
        for (epoch, seconds) in
            [("2017-01-01", 0.0), ("2016-12-31T23:59:59", 2.0), ("2015-06-30T23:59:59", 3.0)]
        {
            let long = Folding::period(7.0, 7, 1.0).unwrap();
            let folding = long.epoch(moment("2017-01-01"), moment(epoch));
            folding.fill(0, 1, &mut numbers).unwrap();
            let days = if epoch.starts_with("2015") { 86_400 * 550 } else { 0 };
            assert_eq!(u64::from(numbers[0]), (days + seconds as u64) % 7, "{epoch}");
        }
        let refused = |result: Result<Folding>| result.unwrap_err().to_string();
        assert!(refused(Folding::period(0.5, 4, 1.0)).contains("expected at least the 1 s"));
        let dispersed =
            |measure, frequency| folding.clone().dispersed(measure, &[frequency], f64::INFINITY);
        assert!(refused(dispersed(1e300, 1e9)).contains("expected -100000 to 100000"));
        assert!(refused(dispersed(f64::NAN, 1e9)).contains("a dispersion measure of NaN"));
        assert!(refused(dispersed(50.0, 1.0)).contains("expected at most 10000000 s"));
        assert!(refused(Folding::period(0.0, 4, 1.0)).contains("a period"));
        assert!(refused(Folding::period(f64::NAN, 4, 1.0)).contains("a period"));
        assert!(refused(Folding::period(1.0, 256, 1.0)).contains("expected 1 to 255"));
        assert!(refused(Folding::period(1.0, 0, 1.0)).contains("expected 1 to 255"));
        assert!(refused(Folding::period(1.0, 4, -1.0)).contains("from one time to the next"));
        assert!(refused(folding.clone().dispersed(1.0, &[0.0], 1e9)).contains("0 Hz"));
        assert!(refused(Folding::cycle(vec![DROP])).contains("expected one below 255"));
        let cycle = Folding::cycle(vec![1, 0, DROP]).unwrap();
        cycle.fill(4, 7, &mut numbers).unwrap();
        assert_eq!((cycle.bins(), &numbers[..]), (2, &[0, DROP, 1, 0, DROP, 1, 0][..]));
        assert!(refused(folding.dispersed(f64::INFINITY, &[1e9], 1e9)).contains("inf"));
    }
}
