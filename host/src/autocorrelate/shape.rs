//! Sensors, groups and lags.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use crate::{
    device::host,
    error::{Error, Result},
};

/// Most groups: a bin of the last one holds `255 * 2^23 < 2^31`.
pub const MAX_GROUPS: usize = 24;

/// Most lags of a group.
const MAX_LAGS: usize = 1 << 16;

/// Lags of the groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `bin-groups`: `S` lags in every group, each group beginning where the one before ends: lag
    /// `S (2^k - 1) + c 2^k` samples, `c = 0..S-1`.
    #[default]
    BinGroups,
    /// `classic`: the scheme that hardware correlators and the Python package `multipletau` do with `m = S`:
    /// group 0 has lags `0..=m` samples; group `k` has lags `n 2^k` samples, `n = m/2 + 1..=m`, of
    /// bins on the grid of multiples of `2^k`. `m` is even.
    Classic,
}

impl Scheme {
    /// Every scheme.
    pub const ALL: [Self; 2] = [Self::BinGroups, Self::Classic];

    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BinGroups => "bin-groups",
            Self::Classic => "classic",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheme {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == text).ok_or_else(|| {
            Error::invalid(format!("unknown scheme {text:?}: expected bin-groups or classic"))
        })
    }
}

/// Sensors, groups and lags of an autocorrelation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Sensors of an instant.
    pub sensors: usize,
    /// `G`, groups of bins that double in length.
    pub groups: usize,
    /// `S`, lags of a group (`m` of [`Scheme::Classic`]).
    pub lags: usize,
    /// Scheme of the lags.
    pub scheme: Scheme,
}

/// One point of a correlation curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Group `k`: bins of `2^k` samples.
    pub group: usize,
    /// Lag in samples.
    pub lag: u64,
}

/// First product of a point's curve.
pub(crate) struct First {
    /// First instant of the first bin whose delayed bin begins at or after the stream's first sample.
    pub instant: u64,
    /// First instant of the bin before, where its delayed bin holds samples too.
    pub straddling: Option<u64>,
    /// Number of samples: the stream's first ones.
    pub counted: u64,
}

impl Point {
    /// First product of the curve at this point.
    pub(crate) fn first(&self) -> First {
        let bin = 1 << self.group;
        let instant = self.lag.next_multiple_of(bin);
        let counted = instant - self.lag;
        First { instant, straddling: (counted > 0).then(|| instant - bin), counted }
    }
}

impl Shape {
    /// Checks that it can be computed.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn check(&self) -> Result<()> {
        let Self { sensors, groups, lags, scheme } = *self;
        if sensors == 0 {
            return Err(Error::invalid("0 sensors: expected at least 1"));
        }
        if !(1..=MAX_GROUPS).contains(&groups) {
            return Err(Error::invalid(format!("{groups} groups: expected 1 to {MAX_GROUPS}")));
        }
        if !(2..=MAX_LAGS).contains(&lags) {
            return Err(Error::invalid(format!("{lags} lags: expected 2 to {MAX_LAGS}")));
        }
        if scheme == Scheme::Classic && !lags.is_multiple_of(2) {
            return Err(Error::invalid(format!(
                "{lags} lags: the classic scheme needs an even number"
            )));
        }
        let bytes = (sensors as u128) * (groups as u128) * (self.cells() as u128 + 1) * 12;
        if bytes > isize::MAX as u128 / 4 {
            return Err(Error::invalid(format!(
                "{sensors} sensors, {groups} groups of {lags} lags: the sums cannot be addressed"
            )));
        }
        Ok(())
    }

    /// Refuses `rows` rows of sums that the host has no memory for.
    pub(crate) fn check_memory(&self, rows: usize) -> Result<()> {
        // Products and a stream's beginning by points; totals and a pair; bins and delay lines by groups.
        let row = 8 * (2 * self.points() + 4 + self.groups * (self.cells() + 1));
        host::room::<u8>(rows.saturating_mul(row)).map(drop)
    }

    /// Places in the delay line of each group: `Y_{k,c}` for the next bin, `c = 0..S-1`; in the
    /// classic scheme the last `m` bins, the newest first.
    pub(crate) const fn cells(&self) -> usize {
        self.lags
    }

    /// Lags of group `group`, counted in its bins from the beginning of the group's delay line.
    pub(crate) fn steps(&self, group: usize) -> RangeInclusive<usize> {
        match (self.scheme, group) {
            (Scheme::BinGroups, _) => 0..=self.lags - 1,
            (Scheme::Classic, 0) => 0..=self.lags,
            (Scheme::Classic, _) => self.lags / 2 + 1..=self.lags,
        }
    }

    /// Points of a curve.
    pub fn points(&self) -> usize {
        (0..self.groups).map(|group| self.steps(group).count()).sum()
    }

    /// The points of a curve, lags ascending.
    pub fn curve(&self) -> impl Iterator<Item = Point> + '_ {
        (0..self.groups).flat_map(move |group| {
            self.steps(group).map(move |step| {
                let offset = match self.scheme {
                    Scheme::BinGroups => (self.lags as u64) * ((1 << group) - 1),
                    Scheme::Classic => 0,
                };
                Point { group, lag: offset + ((step as u64) << group) }
            })
        })
    }

    /// Instants for which no 64-bit sum can overflow whatever the counts: a sum of group `k` is at
    /// most `255^2 * 2^k` for every instant.
    pub fn max_instants(&self) -> u64 {
        (u64::MAX / (255 * 255)) >> (self.groups - 1)
    }

    /// Instants in `bytes` bytes of counts.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the last instant is incomplete.
    pub fn instants(&self, bytes: usize) -> Result<usize> {
        if bytes.is_multiple_of(self.sensors) {
            Ok(bytes / self.sensors)
        } else {
            Err(Error::invalid(format!(
                "{bytes} counts: expected a multiple of the {} sensors",
                self.sensors
            )))
        }
    }
}
