//! Multi-tau correlation of counts that come.
//!
//! All sums equal the sums of a recording of the same counts. Lost instants, which never came, count as zero counts, as the
//! plan's missing counts do, so that later counts keep their times. The stream's own mask, 1 where an instant came
//! and 0 where it is lost, is correlated beside the counts, and curves are divided by its curve: with counts `x` that are
//! independent of the losses `m`, `<(m x)(m x)'> = <m m'> <x x'>`, so `g = g_mx / g_m` at every lag. Without a loss the mask's
//! curve is 1.

use corrust_host::{
    Autocorrelator, Device, Error, Result,
    autocorrelate::{Blocks, Builder, Errors, Sums},
};

use super::{
    counts::{CountChunk, Counts},
    window::Passed,
};

/// Blocks that error bars are made of, at most: then each two become one.
const BLOCKS: usize = 16;

/// Instants of zeros that are summed at a time.
const ZEROS: usize = 1 << 12;

/// Facts about a stream of counts.
#[derive(Clone, Debug, Default)]
pub struct LiveCurves {
    /// The number of its first instant.
    pub start: u64,
    /// All sums so far; [`Sums::instants`] are its instants, lost ones among them.
    pub sums: Sums,
    /// The sums of the mask; none where nothing was lost.
    pub mask: Option<Sums>,
    /// Standard errors from blocks of the stream; empty before there are two.
    pub errors: Option<Errors>,
    /// Instants that are lost.
    pub lost: u64,
    /// Counts of each sensor since the previous update.
    pub counts: Vec<u64>,
    /// Instants that came since the previous update.
    pub came: u64,
    /// Number of times that the stream began anew.
    pub restarts: u64,
}

impl LiveCurves {
    /// Divisor of curves at a point: the mask's curve.
    fn mask(&self, point: usize) -> Option<f64> {
        self.mask.as_ref().map_or(Some(1.0), |mask| mask.g(0, point))
    }

    /// `g(tau)` of a row at a point, losses accounted for; nothing where nothing was counted.
    ///
    /// # Panics
    /// When there is no such row or point.
    pub fn g(&self, row: usize, point: usize) -> Option<f64> {
        Some(self.sums.g(row, point)? / self.mask(point)?)
    }

    /// The mean of [`g`](Self::g) over the rows that have one at the point.
    ///
    /// # Panics
    /// When there is no such point.
    pub fn mean_g(&self, point: usize) -> Option<f64> {
        Some(self.sums.mean_g(point)? / self.mask(point)?)
    }

    /// The standard error of a row's `g`, or of the mean, at a point; nothing where it is not known.
    ///
    /// # Panics
    /// When there is no such row or point.
    pub fn error(&self, row: Option<usize>, point: usize) -> Option<f64> {
        let errors = self.errors.as_ref()?;
        let error = row.map_or_else(|| errors.mean[point], |row| errors.rows[[row, point]]);
        Some(error / self.mask(point)?).filter(|error| error.is_finite())
    }
}

/// Correlates chunks of counts, and hands out curves at an interval.
pub struct Correlated {
    builder: Builder,
    plan: Autocorrelator,
    mask: Autocorrelator,
    counts: Counts,
    /// Instants from one update to the next.
    interval: u64,
    /// Most lost instants in a row; more begin the stream anew.
    most_lost: u64,
    /// The instant that comes next, once one came.
    next: Option<u64>,
    blocks: Blocks,
    /// Looks of a block.
    block: u64,
    looks: u64,
    look: LiveCurves,
    /// Total counts at the look before, and lost instants.
    before: (Vec<u64>, u64),
}

impl Correlated {
    /// Correlations by plans of `builder`, whose curves are handed out every `interval` instants. Up to `most_lost`
    /// lost instants in a row are zeros; more begin the stream anew.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the plan and the counts differ in sensors, or the interval has no instants; errors of
    /// [`Builder::build`].
    pub fn new(builder: Builder, counts: Counts, interval: u64, most_lost: u64) -> Result<Self> {
        counts.check()?;
        let plan = builder.clone().build()?;
        if plan.shape().sensors != counts.shape.sensors {
            return Err(Error::invalid(format!(
                "a plan of {} sensors: expected the {} of the counts",
                plan.shape().sensors,
                counts.shape.sensors
            )));
        }
        if interval == 0 {
            return Err(Error::invalid("an interval of 0 instants: expected at least 1"));
        }
        let mask = Self::mask_of(&plan)?;
        Ok(Self {
            builder,
            plan,
            mask,
            counts,
            interval,
            most_lost,
            next: None,
            blocks: Blocks::default(),
            block: 1,
            looks: 0,
            look: LiveCurves::default(),
            before: (Vec::new(), 0),
        })
    }

    /// A plan for the mask of a plan's counts.
    fn mask_of(plan: &Autocorrelator) -> Result<Autocorrelator> {
        let shape = *plan.shape();
        let mask = Autocorrelator::builder(1).groups(shape.groups).lags(shape.lags);
        mask.scheme(shape.scheme).device(Device::Cpu).build()
    }

    /// The plan, whose [`state`](Autocorrelator::state) is the whole state of the stream.
    pub fn plan(&mut self) -> &mut Autocorrelator {
        &mut self.plan
    }

    /// Sums up a chunk and returns its memory; `done` gets the curves at multiples of the interval since the first
    /// instant that came, and where the stream ends.
    ///
    /// # Errors
    /// The device's own, and what `done` returns.
    pub fn process(
        &mut self,
        passed: Passed<CountChunk>,
        mut done: impl FnMut(&LiveCurves) -> Result<()>,
    ) -> Result<Option<CountChunk>> {
        let Passed { start, end, mut chunk, .. } = passed;
        let instants = (end - start) as usize;
        let shape = self.counts.shape;
        let lost = match &mut chunk {
            Some(chunk) => chunk.lost(&shape, instants),
            None => std::iter::once(0..instants).collect(),
        };
        // The first instant that came.
        let first = match lost.first() {
            Some(range) if range.start == 0 => range.end,
            _ => 0,
        };
        if let (Some(next), true) = (self.next, first < instants) {
            let gap = (start + first as u64).checked_sub(next);
            let full = next.saturating_sub(self.look.start) + (end - start) + gap.unwrap_or(0);
            if gap.is_none_or(|gap| gap > self.most_lost) || full > self.plan.shape().max_instants()
            {
                self.begin_anew(&mut done)?;
            }
        }
        if first == instants {
            // The next packets tell how long the gap is.
            return Ok(chunk);
        }
        let now = start + first as u64;
        match self.next {
            None => (self.look.start, self.next) = (now, Some(now)),
            Some(next) => self.mark_missing(now - next, &mut done)?,
        }
        let counts = chunk.as_ref().expect("something came").counts();
        let mut from = first;
        for range in lost.into_iter().filter(|range| range.start > 0) {
            self.add(&counts[from * shape.bytes()..range.start * shape.bytes()], 1, &mut done)?;
            // Instants at the chunk's end may belong to a longer gap.
            if range.end < instants {
                let zeros = &counts[range.start * shape.bytes()..range.end * shape.bytes()];
                self.add(zeros, 0, &mut done)?;
            }
            from = range.end;
        }
        self.add(&counts[from * shape.bytes()..instants * shape.bytes()], 1, &mut done)?;
        Ok(chunk)
    }

    /// Ends the stream, and hands out the curves of counts since the last update.
    ///
    /// # Errors
    /// As for [`process`](Self::process).
    pub fn end(&mut self, mut done: impl FnMut(&LiveCurves) -> Result<()>) -> Result<()> {
        if self.plan.instants() > 0 && !self.plan.instants().is_multiple_of(self.interval) {
            self.snapshot(&mut done)?;
        }
        Ok(())
    }

    /// Ends the stream; the next instant begins another.
    fn begin_anew(&mut self, done: &mut dyn FnMut(&LiveCurves) -> Result<()>) -> Result<()> {
        self.end(&mut *done)?;
        self.plan = self.builder.clone().build()?;
        self.mask = Self::mask_of(&self.plan)?;
        (self.blocks, self.block, self.looks) = (Blocks::default(), 1, 0);
        (self.next, self.before) = (None, (Vec::new(), 0));
        self.look = LiveCurves { restarts: self.look.restarts + 1, ..LiveCurves::default() };
        Ok(())
    }

    /// Adds `lost` instants that never came.
    fn mark_missing(
        &mut self,
        lost: u64,
        done: &mut dyn FnMut(&LiveCurves) -> Result<()>,
    ) -> Result<()> {
        let zeros = vec![0; self.counts.shape.bytes() * ZEROS.min(lost as usize)];
        let mut left = lost;
        while left > 0 {
            let now = left.min(ZEROS as u64);
            self.add(&zeros[..now as usize * self.counts.shape.bytes()], 0, done)?;
            left -= now;
        }
        Ok(())
    }

    /// Adds instants that all came (1), or are all lost (0), up to look after look.
    fn add(
        &mut self,
        counts: &[u8],
        came: u8,
        done: &mut dyn FnMut(&LiveCurves) -> Result<()>,
    ) -> Result<()> {
        let shape = self.counts.shape;
        let mut rest = counts;
        while !rest.is_empty() {
            let left = self.interval - self.plan.instants() % self.interval;
            let instants = ((rest.len() / shape.bytes()) as u64).min(left) as usize;
            let (now, after) = rest.split_at(instants * shape.bytes());
            shape.feed(&mut self.plan, now)?;
            self.mask.accumulate(&vec![came; instants])?;
            self.look.lost += u64::from(1 - came) * instants as u64;
            self.next = self.next.map(|next| next + instants as u64);
            if instants as u64 == left {
                self.snapshot(done)?;
            }
            rest = after;
        }
        Ok(())
    }

    /// Hands the curves so far to `done`.
    fn snapshot(&mut self, done: &mut dyn FnMut(&LiveCurves) -> Result<()>) -> Result<()> {
        let Self { plan, mask, look, blocks, .. } = self;
        plan.snapshot_into(&mut look.sums)?;
        look.mask = (look.lost > 0).then(|| mask.snapshot()).transpose()?;
        // At lag 0 every instant has a bin of its own.
        let totals = look.sums.direct.column(0).to_vec();
        let since = |row: usize, total: u64| total - self.before.0.get(row).copied().unwrap_or(0);
        look.counts = totals.iter().enumerate().map(|(row, &total)| since(row, total)).collect();
        let came = look.sums.instants - look.lost;
        look.came = came - self.before.1;
        self.before = (totals, came);
        if look.sums.instants.is_multiple_of(self.interval) {
            self.looks += 1;
            if self.looks.is_multiple_of(self.block) {
                blocks.add(&look.sums)?;
                if blocks.len() == BLOCKS {
                    blocks.halve();
                    self.block *= 2;
                }
            }
        }
        look.errors = (blocks.len() > 1).then(|| blocks.errors());
        done(look)
    }
}
