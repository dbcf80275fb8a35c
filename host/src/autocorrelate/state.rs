//! All that an autocorrelation remembers.

use std::{fs, path::Path};

use super::{Scheme, Shape};
use crate::{Error, Result, format::PartialFile};

/// First bytes of a saved state; the last one is the version.
const MAGIC: &[u8; 8] = b"corrtau\x01";

/// All that an autocorrelation remembers of its stream: what was summed, and what the products to
/// come need. The same on every device.
///
/// A *row* is one curve: the autocorrelation of a sensor, or the cross-correlation of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub(crate) shape: Shape,
    /// For each row the sensor that is not delayed and the one that is.
    pub(crate) pairs: Vec<[u32; 2]>,
    /// `T`, instants seen.
    pub(crate) instants: u64,
    /// `A`: `[row][point]`.
    pub(crate) products: Vec<u64>,
    /// Sum of all counts: `[row]` of the pair.
    pub(crate) totals: Vec<[u64; 2]>,
    /// Zero-delay registers: counts since the last complete bin, of the sensor that is not delayed,
    /// `[row][group]`.
    pub(crate) partial: Vec<u32>,
    /// Delay lines `[row][group][cell]`, of the delayed sensor. With `M = T >> k` complete bins,
    /// cell `c` of group `k` is `Y_{k,c}[M]`, the delayed bin that the next product at lag `c`
    /// needs; in the classic scheme `Z_k[M - 1 - c]`. Cell 0 of group 0 would be the next sample:
    /// it is zero.
    pub(crate) cells: Vec<u32>,
}

impl State {
    /// A stream that has not begun.
    pub(crate) fn new(shape: Shape, pairs: Vec<[u32; 2]>) -> Self {
        let rows = pairs.len();
        Self {
            shape,
            pairs,
            instants: 0,
            products: vec![0; rows * shape.points()],
            totals: vec![[0; 2]; rows],
            partial: vec![0; rows * shape.groups],
            cells: vec![0; rows * shape.groups * shape.cells()],
        }
    }

    /// What is autocorrelated.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Instants seen.
    pub fn instants(&self) -> u64 {
        self.instants
    }

    /// For each row the sensor that is not delayed and the one that is: equal in an
    /// autocorrelation.
    pub fn pairs(&self) -> &[[u32; 2]] {
        &self.pairs
    }

    /// Whether the rows are the autocorrelations of all sensors, in order.
    pub(crate) fn is_auto(&self) -> bool {
        self.pairs.len() == self.shape.sensors
            && self.pairs.iter().enumerate().all(|(row, pair)| *pair == [row as u32; 2])
    }

    /// The state as bytes: little-endian, preceded by its shape.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Shape { sensors, groups, lags, scheme } = self.shape;
        let mut bytes = MAGIC.to_vec();
        let header =
            [sensors, groups, lags, scheme as usize, self.pairs.len()].map(|value| value as u64);
        header.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        bytes.extend(self.instants.to_le_bytes());
        self.pairs.as_flattened().iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        self.products.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        self.totals.as_flattened().iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        self.partial.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        self.cells.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        bytes
    }

    /// The state that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the bytes are not those of a state, or not all of them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let Some(body) = bytes.strip_prefix(MAGIC) else {
            return Err(Error::invalid(format!(
                "an autocorrelation state starts with \"{}\", expected \"{}\"",
                bytes[..bytes.len().min(MAGIC.len())].escape_ascii(),
                MAGIC.escape_ascii()
            )));
        };
        let (header, mut body) = body.split_at_checked(48).ok_or_else(|| {
            Error::invalid(format!(
                "an autocorrelation state of {} bytes: expected at least {}",
                bytes.len(),
                MAGIC.len() + 48
            ))
        })?;
        let word = |index: usize| {
            u64::from_le_bytes(header[8 * index..8 * index + 8].try_into().expect("8 bytes"))
        };
        let size = |index: usize| usize::try_from(word(index)).unwrap_or(usize::MAX);
        let scheme = *Scheme::ALL.get(size(3)).ok_or_else(|| {
            Error::invalid(format!(
                "an autocorrelation state of scheme {}: expected 0 (bin-groups) or 1 (classic)",
                word(3)
            ))
        })?;
        let shape = Shape { sensors: size(0), groups: size(1), lags: size(2), scheme };
        shape.check()?;
        let rows = size(4);
        let row_bytes = 8 + 8 * shape.points() + 16 + 4 * shape.groups * (1 + shape.cells());
        if (rows as u128) * (row_bytes as u128) != body.len() as u128 {
            return Err(Error::invalid(format!(
                "an autocorrelation state of {} bytes: expected {} for {rows} curves of {} groups \
                 and {} lags",
                bytes.len(),
                (rows as u128) * (row_bytes as u128) + 56,
                shape.groups,
                shape.lags
            )));
        }
        let mut take = |count: usize| {
            let (part, rest) = body.split_at(count);
            body = rest;
            part
        };
        let pairs: Vec<[u32; 2]> = words32(take(8 * rows)).as_chunks().0.to_vec();
        if let Some(sensor) =
            pairs.as_flattened().iter().find(|&&sensor| sensor as usize >= shape.sensors)
        {
            return Err(Error::invalid(format!(
                "an autocorrelation state with sensor {sensor}: expected numbers below {}",
                shape.sensors
            )));
        }
        let state = Self {
            shape,
            pairs,
            instants: word(5),
            products: words64(take(8 * rows * shape.points())),
            totals: words64(take(16 * rows)).as_chunks().0.to_vec(),
            partial: words32(take(4 * rows * shape.groups)),
            cells: words32(take(4 * rows * shape.groups * shape.cells())),
        };
        state.check()?;
        Ok(state)
    }

    /// Checks that counts can have led to the state.
    fn check(&self) -> Result<()> {
        let Self { shape, instants, .. } = self;
        let wrong = |what: &str, found: u64, expected: String| {
            Err(Error::invalid(format!(
                "an autocorrelation state with {what} {found}: expected {expected}"
            )))
        };
        if *instants > shape.max_instants() {
            return wrong("instants", *instants, format!("at most {}", shape.max_instants()));
        }
        let largest = 255 * instants;
        if let Some(&total) = self.totals.as_flattened().iter().find(|&&total| total > largest) {
            return wrong("a total of", total, format!("at most {largest}"));
        }
        for registers in self.partial.chunks(shape.groups) {
            let mut least = 0;
            for (group, &register) in registers.iter().enumerate() {
                let most = 255 * (instants & ((1 << group) - 1));
                if !(least..=most).contains(&register.into()) {
                    return wrong(
                        "a partial bin of",
                        register.into(),
                        format!("{least} to {most}"),
                    );
                }
                least = register.into();
            }
        }
        for (line, cells) in self.cells.chunks(shape.cells()).enumerate() {
            let most = 255 << (line % shape.groups);
            if let Some(&cell) = cells.iter().find(|&&cell| cell > most) {
                return wrong("a bin of", cell.into(), format!("at most {most}"));
            }
        }
        Ok(())
    }

    /// Writes the state to a file, which appears when complete.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut file = PartialFile::create(path)?;
        file.append(&self.to_bytes())?;
        file.finish()
    }

    /// Reads a state from a file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] when the file is not a state, or not all of one.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(Error::io(path, "read"))?;
        Self::from_bytes(&bytes).map_err(|error| Error::file(path, error.to_string()))
    }
}

fn words32(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

fn words64(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect()
}
