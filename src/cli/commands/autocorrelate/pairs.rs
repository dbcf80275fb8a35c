//! Pairs of sensors for cross-correlation.

use std::str::FromStr;

use clap::ValueEnum;
use corrust::{Error, Result};

/// A pair of sensors.
#[derive(Clone, Copy, Debug)]
pub struct Pair(pub usize, pub usize);

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (a, b) = text.split_once(',').ok_or("expected two numbers, as in 0,1")?;
        let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
        Ok(Self(number(a)?, number(b)?))
    }
}

/// Columns and rows of an array.
#[derive(Clone, Copy, Debug)]
pub struct Grid(usize, usize);

impl FromStr for Grid {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| text.parse().ok().filter(|&number: &usize| number > 0);
        text.split_once('x')
            .and_then(|(columns, rows)| Some(Self(number(columns)?, number(rows)?)))
            .ok_or("expected columns and rows, as in 5x5")
    }
}

/// Pairs of an array's sensors, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pairs {
    /// Each with those to its right and below it.
    Neighbours,
    /// Each with all others.
    All,
}

impl Pairs {
    /// The pairs of `sensors` sensors: the one that is not delayed, and the delayed one.
    pub fn of(self, sensors: usize, grid: Option<Grid>) -> Result<Vec<(usize, usize)>> {
        let side = sensors.isqrt();
        let square = if side * side == sensors { Grid(side, side) } else { Grid(sensors, 1) };
        let Grid(columns, rows) = grid.unwrap_or(square);
        if columns.checked_mul(rows) != Some(sensors) {
            return Err(Error::invalid(format!(
                "--grid {columns}x{rows} of {sensors} sensors: expected as many as columns times rows"
            )));
        }
        if sensors < 2 {
            return Err(Error::invalid("--pairs of 1 sensor: expected at least 2"));
        }
        let mut pairs = Vec::new();
        let mut both = |a: usize, b: usize| pairs.extend([(a, b), (b, a)]);
        match self {
            Self::Neighbours => {
                for sensor in 0..sensors {
                    if sensor % columns + 1 < columns {
                        both(sensor, sensor + 1);
                    }
                    if sensor + columns < sensors {
                        both(sensor, sensor + columns);
                    }
                }
            }
            Self::All => {
                for a in 0..sensors {
                    (a + 1..sensors).for_each(|b| both(a, b));
                }
            }
        }
        Ok(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_neighbours() {
        let pairs = Pairs::Neighbours.of(6, Some(Grid(3, 2))).unwrap();
        let right = [(0, 1), (1, 2), (3, 4), (4, 5)];
        let below = [(0, 3), (1, 4), (2, 5)];
        assert_eq!(pairs.len(), 2 * (right.len() + below.len()));
        for (a, b) in right.into_iter().chain(below) {
            assert!(pairs.contains(&(a, b)) && pairs.contains(&(b, a)), "{a}, {b}");
        }
        // As many columns as rows where that can be, one row where not.
        assert_eq!(Pairs::Neighbours.of(9, None).unwrap().len(), 24);
        assert_eq!(Pairs::Neighbours.of(3, None).unwrap(), [(0, 1), (1, 0), (1, 2), (2, 1)]);
        assert_eq!(Pairs::All.of(5, None).unwrap().len(), 20);
        assert!(Pairs::All.of(1, None).is_err());
        assert!(Pairs::All.of(6, Some(Grid(4, 2))).unwrap_err().to_string().contains("4x2 of 6"));
    }
}
